//! # headrace-codec: bytes in, events out, bytes out
//!
//! The pure half of Headrace. It reads what a model provider sent and makes a small set of neutral
//! events of it, and writes such events in the protocol that a client speaks. It does no I/O, knows
//! no clock and no Python; `clippy.toml` makes that a build error.
//!
//! Read in this order:
//! - [`event`]: the events, and the [`event::Sink`] that takes them.
//! - [`text`] and [`json`]: text as it stands on the wire, and the scanner that finds it.
//! - [`error`]: the kinds of failure, in one table.
//! - [`limits`]: every bound, with its reason.
//! - [`pipeline`]: the [`Decoder`], made of a framing ([`framing`]) and a normaliser ([`normalize`], with [`toolcall`]).

pub mod encode;
pub mod error;
pub mod event;
pub mod framing;
pub mod headers;
pub mod json;
pub mod limits;
pub mod loss;
pub mod normalize;
pub mod numbers;
mod offsets;
pub mod pipeline;
pub mod request;
mod same;
pub mod text;
pub mod toolcall;

pub use error::ErrorKind;
pub use event::{At, Event, Protocol, Sink};
pub use pipeline::{Decoder, DecoderConfig, End, Transport};
pub use text::{Literal, Text};
