//! Gemini's event stream as the one JSON array that a client asked for: each event's JSON is an element, its bytes unchanged.
//!
//! 1. Nothing is read in the events but where a value ends: they are the provider's own, for a client of its own protocol.
//! 2. An event without data is no element, and a mark of the end (`[DONE]`) neither. A row of values is one element each.
//!
//! What an array cannot hold was not passed on by whoever read the stream; nothing may be checked here again.

use crate::framing::sse::Sse;
use crate::json::Scanner;

/// The array while it grows.
#[derive(Debug)]
pub struct Elements {
    sse: Sse,
    count: u64,
}

impl Default for Elements {
    fn default() -> Self {
        // The vendor's errors break into a stream as bare JSON.
        Elements { sse: Sse::new(true), count: 0 }
    }
}

impl Elements {
    /// Takes bytes of the event stream, at any cut, and appends the elements that end in them.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let count = &mut self.count;
        // A line that is too long ends the reading of the stream itself, which comes first.
        let _ = self.sse.feed(bytes, &mut |frame| {
            put(frame.data, count, out);
            true
        });
    }

    /// Appends what is left, and the end.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        let count = &mut self.count;
        self.sse.finish(true, &mut |frame| {
            put(frame.data, count, out);
            true
        });
        out.extend_from_slice(if self.count == 0 { b"[]\n" } else { b"]\n" });
    }

    /// How many elements went out.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

fn put(data: Option<&[u8]>, count: &mut u64, out: &mut Vec<u8>) {
    let Some(data) = data.filter(|data| !data.trim_ascii_start().starts_with(b"[DONE]")) else { return };
    let mut row = Scanner::new(data);
    while !row.at_end() {
        // Whoever read the stream has ended it at what is no JSON.
        let Ok(value) = row.skip() else { return };
        out.push(if *count == 0 { b'[' } else { b',' });
        out.extend_from_slice(value);
        out.push(b'\n');
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(pieces: &[&[u8]]) -> String {
        let (mut elements, mut out) = (Elements::default(), Vec::new());
        for piece in pieces {
            elements.feed(piece, &mut out);
        }
        elements.end(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_event_is_an_element_with_its_own_bytes_at_every_cut() {
        let wire = ": hi\n\ndata: {\"a\" : 1.50}\r\n\r\ndata:\n\nid: 1\ndata: {\"b\":\ndata: \"é\"}\n\n{\"error\":{\"code\":500}}\n";
        let want = "[{\"a\" : 1.50}\n,{\"b\":\n\"é\"}\n,{\"error\":{\"code\":500}}\n]\n";
        for cut in 0..=wire.len() {
            let (head, tail) = wire.as_bytes().split_at(cut);
            assert_eq!(array(&[head, tail]), want, "cut at {cut}");
        }
        assert_eq!(array(&[]), "[]\n");
        assert_eq!(array(&[b"data: {\"a\":1} {\"b\":2}\n\ndata: [DONE]\n\n"]), "[{\"a\":1}\n,{\"b\":2}\n]\n");
        assert_eq!(array(&[b"data: [DONE]\n\n"]), "[]\n");
        assert_eq!(array(&[b"data: 1"]), "[1\n]\n", "an end without a blank line");
    }
}
