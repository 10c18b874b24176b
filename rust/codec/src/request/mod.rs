//! Request bodies: what a client sent becomes what a provider takes.
//!
//! 1. What is not changed keeps its bytes. The same input gives the same output, and a conversation that grows by
//!    a turn keeps the bytes of its earlier part, so that a vendor's prompt cache sees the same prefix.
//! 2. Within one protocol only the named keys are edited ([`rewrite`]); between two, a body is read into the neutral
//!    request and written anew, texts and schemas as the slices that they were.
//! 3. A field whose loss would change the meaning is refused with its path; a field that is a hint is dropped and
//!    reported. Which is which stands in one table per pair, as data ([`table`]).
//! 4. A body that two parsers could read differently (a key twice, what is not JSON) is refused.
//!
//! No URL, no header, no credential, no choice of a model may be added.

mod edit;
mod error;
mod inspect;

pub use edit::{Edit, Slices, rewrite};
pub use error::RequestError;
pub use inspect::{Facts, inspect};
