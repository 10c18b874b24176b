//! # headrace-edge: the gateway's listener
//!
//! 1. One task owns a client's socket and its attempt. A byte goes from the one to the other within one poll;
//!    nothing is held that the client can take now.
//! 2. Who decides is a trait ([`policy::Policy`]), asked a constant number of times per request, and never waited for
//!    by anyone but the request that asked.
//! 3. Threads share nothing on the way of a byte.
//!
//! Read in this order: [`policy`] (what is asked and told), [`config`], [`request`] (doors and checks), `listener`,
//! `connection` (one client's requests), `exchange` (one request), `relay` (one attempt), `reading` (what of an answer
//! goes on), `client` (the socket), `conversation`, `talk`, `queue` and `lane` (a client's WebSocket), `recipient` (either),
//! [`limits`].
//!
//! Never add: pyo3, a decision, a lock or a callback per chunk.

mod answer;
mod client;
pub mod config;
mod connection;
mod conversation;
mod counts;
mod exchange;
mod gemini;
mod hedge;
mod lane;
pub mod limits;
mod listener;
mod mailbox;
mod outcome;
pub mod policy;
mod queue;
mod reading;
mod recipient;
mod relay;
pub mod request;
mod settle;
mod talk;
mod terms;
mod upstream;

pub use config::{EdgeConfig, Pace};
pub use counts::Counts;
pub use listener::Edge;
pub use mailbox::{Reply, deliver};
pub use policy::Policy;
pub use request::{ClientRequest, Guard, Operation};
