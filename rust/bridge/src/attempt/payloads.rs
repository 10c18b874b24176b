//! A good answer that is no model's: its payloads as bytes, for Python to read.
//!
//! 1. An event stream gives the data of each event, anything else its whole body once, at its end.
//! 2. What a payload means is never looked at here; an error's body is the decoder's business.
//!
//! No vendor's format may be added here.

use headrace_codec::framing::sniff::{Kind, of_content_type};
use headrace_codec::framing::sse::Sse;
use headrace_codec::limits::MAX_BODY;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

pub enum Payloads {
    Events(Box<Sse>),
    Whole(Vec<u8>),
}

impl Payloads {
    pub fn new(content_type: Option<&str>) -> Payloads {
        match of_content_type(content_type) {
            Some(Kind::Sse) => Payloads::Events(Box::default()),
            _ => Payloads::Whole(Vec::new()),
        }
    }

    /// Takes a read. False: it is longer than anything that is taken.
    pub fn feed(&mut self, list: &Bound<'_, PyList>, bytes: &[u8]) -> PyResult<bool> {
        match self {
            Payloads::Whole(body) => {
                body.extend_from_slice(bytes);
                Ok(body.len() <= MAX_BODY)
            }
            Payloads::Events(sse) => {
                let mut failure = None;
                let fits = sse.feed(bytes, &mut |frame| {
                    failure = frame.data.and_then(|data| list.append(PyBytes::new(list.py(), data)).err());
                    failure.is_none()
                });
                failure.map_or(Ok(fits.is_ok()), Err)
            }
        }
    }

    /// The body has ended well.
    pub fn finish(&mut self, list: &Bound<'_, PyList>) -> PyResult<()> {
        match self {
            Payloads::Whole(body) => list.append(PyBytes::new(list.py(), body)),
            Payloads::Events(sse) => {
                let mut failure = None;
                sse.finish(true, &mut |frame| {
                    failure = frame.data.and_then(|data| list.append(PyBytes::new(list.py(), data)).err());
                    failure.is_none()
                });
                failure.map_or(Ok(()), Err)
            }
        }
    }
}
