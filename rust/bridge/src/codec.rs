//! The sans-IO face: the codec's objects and functions, as Python calls them.
//!
//! 1. Bytes in, lists of events out; events in, bytes out. One call for a batch, never one for an event.
//! 2. An object belongs to one caller at a time: a second call while one runs is refused by PyO3's borrow check.
//!
//! Parsing and policy must not be added here.

use headrace_codec::headers;
use pyo3::prelude::*;

/// Keep the response headers that may reach a client: limits, request ids and a few facts (an allow-list).
///
/// - `pairs`: names and values as the HTTP layer hands them over.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 makes the pairs for this call")]
pub fn filter_response_headers(pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    headers::filter(&pairs).into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
