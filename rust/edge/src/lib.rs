//! The listener of the gateway.
