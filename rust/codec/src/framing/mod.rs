//! Bytes of a body into frames, whatever the payload means.
//!
//! 1. Every framing takes any split of the bytes and gives the same frames with the same offsets.
//! 2. A frame that lies whole in one read is handed over where it lies; only a partial tail is copied, once.
//! 3. No byte is looked at twice for a line end: linear in what came.
//! 4. A frame longer than [`MAX_FRAME`](crate::limits::MAX_FRAME) is an error and never a silent cut.
//!
//! What a payload means must not be known here.

mod checksum;
pub mod eventstream;
pub mod json;
pub mod ndjson;
pub mod sniff;
pub mod sse;
pub mod ws;

use crate::limits::KEPT_BUFFER;

/// One frame. `start` and `end` bound its bytes in the body: frames follow each other without a gap, so comments
/// and blank lines belong to the frame after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The event's name; `message` where an event stream gave none, empty in other framings.
    pub name: &'a [u8],
    /// The payload; `None` where a block of an event stream held no data.
    pub data: Option<&'a [u8]>,
    /// The first byte that belongs to the frame's own lines: what events call their offset.
    pub offset: u64,
    pub start: u64,
    pub end: u64,
    /// The frame before had this name too, and data. `false` says nothing.
    pub repeats_name: bool,
}

/// A frame is longer than may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Where it starts.
    pub offset: u64,
}

/// Empties a buffer, and lets go of one that a rare large frame has blown up.
fn clear(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BUFFER {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}

/// Takes frames; `false` ends it: no further frame is wanted.
pub trait Each: FnMut(Frame<'_>) -> bool {}

impl<F: FnMut(Frame<'_>) -> bool> Each for F {}
