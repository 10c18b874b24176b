//! The event log's chain over a great many rows at once: two SHA-256 an event, and no Python in between.
//!
//! 1. What the chain is, `headrace.log.records` says, and it says what is wrong with a row; here rows only hold, or not.
//! 2. A row of another shape than the log writes does not hold.
//!
//! Not here: where rows come from, what a payload means.

use std::fmt::Write as _;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple};
use ring::digest::{Context, SHA256, digest};

/// How many rows hold, from the first on: each is the next of its run, its digest is its payload's, its chain follows.
///
/// - `before`: the chain's value before the first row, whose seq is 1.
#[pyfunction]
pub fn chain_held(run_id: &str, before: &[u8], rows: &Bound<'_, PyList>) -> usize {
    let mut chain = before.to_vec();
    let mut text = String::with_capacity(256);
    let mut epoch = 0;
    for (at, row) in rows.iter().enumerate() {
        if follows(run_id, at, &row, &mut epoch, &mut chain, &mut text).is_none() {
            return at;
        }
    }
    rows.len()
}

/// Take one row in; None: it does not hold.
fn follows(
    run_id: &str,
    at: usize,
    row: &Bound<'_, PyAny>,
    epoch: &mut i64,
    chain: &mut Vec<u8>,
    text: &mut String,
) -> Option<()> {
    let row = row.cast::<PyTuple>().ok()?;
    let run = row.get_item(0).ok()?;
    let id = row.get_item(2).ok()?;
    let kind = row.get_item(5).ok()?;
    let key = row.get_item(7).ok()?;
    let (seq, at_ms, by, version) = (number(row, 1)?, number(row, 3)?, number(row, 4)?, number(row, 6)?);
    if word(&run)? != run_id || usize::try_from(seq).ok()? != at + 1 || by < *epoch {
        return None;
    }
    let said = row.get_item(9).ok()?;
    let said = said.cast::<PyBytes>().ok()?.as_bytes();
    let payload = row.get_item(11).ok()?;
    if !payload.is_none() {
        let salt = row.get_item(8).ok()?;
        let mut found = Context::new(&SHA256);
        if !salt.is_none() {
            found.update(salt.cast::<PyBytes>().ok()?.as_bytes());
        }
        found.update(payload.cast::<PyBytes>().ok()?.as_bytes());
        if found.finish().as_ref() != said {
            return None;
        }
    }
    text.clear();
    let (id, kind, key) = (word(&id)?, word(&kind)?, word(&key)?);
    write!(text, "{run_id}\n{seq}\n{id}\n{at_ms}\n{by}\n{kind}\n{version}\n{key}\n").ok()?;
    chain.extend_from_slice(text.as_bytes());
    chain.extend_from_slice(said);
    let next = digest(&SHA256, chain);
    let linked = row.get_item(10).ok()?;
    if next.as_ref() != linked.cast::<PyBytes>().ok()?.as_bytes() {
        return None;
    }
    chain.clear();
    chain.extend_from_slice(next.as_ref());
    *epoch = by;
    Some(())
}

fn number(row: &Bound<'_, PyTuple>, at: usize) -> Option<i64> {
    let item = row.get_item(at).ok()?;
    item.cast_exact::<PyInt>().ok()?.extract().ok()
}

fn word<'a>(item: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    item.cast_exact::<PyString>().ok()?.to_str().ok()
}
