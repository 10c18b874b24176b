//! # headrace-http1: HTTP/1.1 heads and bodies, both roles, pure
//!
//! 1. Bytes in, facts out. No I/O, no clock; `clippy.toml` makes that a build error.
//! 2. What two parsers could read differently is refused, in both directions: two lengths, a length
//!    beside chunks, bare CR or LF, folded lines, chunk extensions, signs and spaces in numbers.
//! 3. Nothing is copied: heads borrow from the buffer, a body's data are ranges of what was read.
//! 4. What we write, we can read: the writers refuse what the parsers would.
//!
//! Read in this order: [`head`] (where a head ends; header lists), [`request`], [`response`], [`body`],
//! [`write`](mod@write), [`websocket`], [`limits`].
//!
//! Never add: I/O, a second way to read ambiguous bytes, a "lenient" switch.

pub mod body;
mod error;
pub mod head;
pub mod limits;
pub mod request;
pub mod response;
pub mod websocket;
pub mod write;

pub use body::{BodyDecoder, BodyError, BodyKind, Decoded, Step};
pub use error::{HeadError, WriteError};
pub use head::{HeadScanner, Headers, Version};
pub use request::RequestHead;
pub use response::ResponseHead;
