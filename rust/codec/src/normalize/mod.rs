//! What a provider's payloads mean: one file per wire family, and the errors of all of them.
//!
//! - [`classify`]: which kind of failure an error is.

pub mod classify;
mod codes;
mod error_body;
mod retry_after;
