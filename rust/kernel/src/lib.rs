//! # headrace-kernel: one attempt over real sockets, driven by whoever polls it
//!
//! 1. One [`Attempt`] is one request to one endpoint. It chooses no credential, retries nothing, follows no
//!    redirect. What happened is a [`Failure`] or a [`Head`] and bytes.
//! 2. Nothing runs unless the owner polls: no task per stream, no channel, nothing is read ahead. That is the
//!    demand credit. Of HTTP/2, whose streams share a connection, each connection has one task.
//! 3. Dropping an [`Attempt`] at any point closes its connection at once, or resets its HTTP/2 stream.
//! 4. A read lands in the thread's [`Scratch`], is de-chunked in place and handed over as ranges of it. A
//!    stream owns no buffer unless something is partial.
//! 5. Time is a coarse ticker: one relaxed store per read, no timer per read.
//!
//! Read in this order: [`spec`] (what to send), [`attempt`] (its life), [`failure`], [`trace`], [`scratch`],
//! [`deadlines`], [`client`], then `transport/` (HTTP/1.1, HTTP/2, WebSocket and proxies).
//!
//! Never add: pyo3, a second attempt, a choice of credential, a provider's name, parsing of bodies.

pub mod attempt;
pub mod client;
mod content;
pub mod deadlines;
pub mod failure;
pub mod limits;
pub mod scratch;
pub mod sign;
pub mod spec;
pub mod trace;
mod transport;

pub use attempt::{Attempt, Got, Head};
pub use client::{Client, ClientConfig};
pub use failure::{Cause, Failure};
pub use scratch::Scratch;
pub use sign::SigV4;
pub use spec::{AttemptSpec, Deadlines, Endpoint, SpecError, Url};
pub use trace::{Step, StepEvent, StepState, Trace};
pub use transport::proxy::{Proxy, ProxyError, ProxyFault};
pub use transport::tls::{Roots, TlsConfig, TlsError};
pub use transport::websocket::accept as websocket_accept;
