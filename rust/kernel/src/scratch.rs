//! The buffer of a thread, into which every read of every stream goes.
//!
//! 1. It belongs to the thread, not to a stream: between two polls its content means nothing.
//! 2. Framing is taken off in place: what a read brought is a list of ranges, and nothing is moved.

use std::ops::Range;

use crate::limits;

/// One thread's buffer, and what the last read left in it.
pub struct Scratch {
    pub(crate) raw: Box<[u8]>,
    /// Output of a content coding; empty until a stream of this thread has one.
    pub(crate) decoded: Vec<u8>,
    pub(crate) pieces: Vec<Range<usize>>,
    pub(crate) source: Source,
    pub(crate) whole_chunks: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Raw,
    Decoded,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    #[must_use]
    pub fn new() -> Self {
        Self {
            raw: vec![0; limits::SCRATCH].into_boxed_slice(),
            decoded: Vec::new(),
            pieces: Vec::new(),
            source: Source::Raw,
            whole_chunks: 0,
        }
    }

    /// The data of the last read: de-chunked, content-decoded, in order. No piece is empty.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|range| &self.buffer()[range.clone()])
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(ExactSizeIterator::len).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The last read as it came, where it consists of whole chunks without trailers and has no content
    /// coding: a relay may write these bytes as they are instead of the pieces. Where the read ended the
    /// body ([`Got::end`](crate::Got)), the last chunk is among them.
    #[must_use]
    pub fn raw_chunks(&self) -> Option<&[u8]> {
        (self.whole_chunks > 0).then(|| &self.raw[..self.whole_chunks])
    }

    /// The data in one slice, and the read as it came ([`Scratch::raw_chunks`]) where it is one chunk: where there are
    /// several, moving them together has overwritten it.
    pub fn whole(&mut self) -> (&[u8], Option<&[u8]>) {
        if let [piece] = &self.pieces[..] {
            let piece = piece.clone();
            return (&self.buffer()[piece], self.raw_chunks());
        }
        (self.compact(), None)
    }

    /// Move the pieces together: for callers that want one slice. `raw_chunks` is gone after it.
    pub fn compact(&mut self) -> &[u8] {
        self.whole_chunks = 0;
        let buffer = match self.source {
            Source::Raw => &mut self.raw[..],
            Source::Decoded => &mut self.decoded[..],
        };
        let Some(first) = self.pieces.first() else { return &[] };
        let start = first.start;
        let mut end = first.end;
        for piece in self.pieces.drain(..).skip(1) {
            let len = piece.len();
            buffer.copy_within(piece, end);
            end += len;
        }
        self.pieces.push(start..end);
        &buffer[start..end]
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.source = Source::Raw;
        self.whole_chunks = 0;
    }

    fn buffer(&self) -> &[u8] {
        match self.source {
            Source::Raw => &self.raw,
            Source::Decoded => &self.decoded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_moved_together_in_place() {
        let mut scratch = Scratch::new();
        scratch.raw[..12].copy_from_slice(b"..ab..cde..f");
        scratch.pieces = vec![2..4, 6..9, 11..12];
        scratch.whole_chunks = 12;
        assert_eq!((scratch.len(), scratch.raw_chunks().map(<[u8]>::len)), (6, Some(12)));
        assert_eq!(scratch.whole(), (&b"abcdef"[..], None));
        // One piece stays where it is, with its framing around it.
        scratch.raw[..7].copy_from_slice(b"2\r\nab\r\n");
        (scratch.pieces, scratch.whole_chunks) = (std::iter::once(3..5).collect(), 7);
        assert_eq!(scratch.whole(), (&b"ab"[..], Some(&b"2\r\nab\r\n"[..])));
        scratch.raw[..12].copy_from_slice(b"..ab..cde..f");
        (scratch.pieces, scratch.whole_chunks) = (vec![2..4, 6..9, 11..12], 12);
        assert_eq!(scratch.compact(), b"abcdef");
        assert_eq!(scratch.pieces().collect::<Vec<_>>(), [b"abcdef"]);
        assert_eq!(scratch.raw_chunks(), None);
        scratch.clear();
        assert_eq!(scratch.compact(), b"");
    }
}
