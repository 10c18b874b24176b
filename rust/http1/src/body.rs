//! A body's framing, taken off in place: ranges of what was read, never a copy.
//!
//! 1. [`BodyDecoder::decode`] takes any piece of the bytes and says which range of it is data. A chunk
//!    line that is cut between two reads is kept as state, so nothing needs to be held by the caller.
//! 2. [`BodyDecoder::decode_all`] does it for a whole read, and says whether the read consists of whole
//!    chunks: then a relay may pass the raw bytes on as they are.
//! 3. After an error the decoder is poisoned and gives that error for ever.
//! 4. Trailers are checked and dropped.

use std::fmt;
use std::ops::Range;

use crate::head::is_token;
use crate::limits;

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    None,
    Length(u64),
    Chunked,
    /// Responses only: the body ends with the connection.
    UntilClose,
}

/// A body that is not read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// A chunk size that is not 1 to 8 plain hex digits, or has an extension.
    ChunkSize,
    /// A chunk that is longer or shorter than its size, or a bare CR or LF.
    ChunkEnd,
    Trailer,
    TrailerTooLarge,
    /// The connection ended inside the body.
    Truncated,
}

impl BodyError {
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::ChunkSize => "a chunk's size line is malformed",
            Self::ChunkEnd => "a chunk does not end where its size says",
            Self::Trailer => "a trailer line is malformed",
            Self::TrailerTooLarge => "the trailers are larger than the limit",
            Self::Truncated => "the connection ended inside the body",
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for BodyError {}

/// What one step found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are used up; data included.
    pub consumed: usize,
    /// Where the input has data; may be empty.
    pub data: Range<usize>,
}

/// What a whole read was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Less than the input only where the body is done: the rest is not the body's.
    pub consumed: usize,
    pub done: bool,
    /// The bytes up to `consumed` are whole chunks, from the first byte of a size line to the last of a
    /// chunk (or of the body), with no trailers: they may be passed on as they are.
    pub whole_chunks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Length(u64),
    UntilClose,
    /// Between chunks when `digits` is 0.
    Size {
        value: u32,
        digits: u8,
    },
    SizeLf {
        value: u32,
    },
    Data {
        left: u32,
    },
    DataCr,
    DataLf,
    /// At the start of a line after the last chunk: a trailer, or the end.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
    Poisoned(BodyError),
}

/// Takes the framing off one body.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: State,
    trailer_bytes: u32,
}

impl BodyDecoder {
    #[must_use]
    pub fn new(kind: BodyKind) -> Self {
        let state = match kind {
            BodyKind::None | BodyKind::Length(0) => State::Done,
            BodyKind::Length(n) => State::Length(n),
            BodyKind::Chunked => State::Size { value: 0, digits: 0 },
            BodyKind::UntilClose => State::UntilClose,
        };
        Self { state, trailer_bytes: 0 }
    }

    /// The body has been read to its end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes that are still to come, where the framing says it.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Length(n) => Some(n),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Nothing of a chunk has been read: the next byte starts a size line.
    #[must_use]
    pub fn is_between_chunks(&self) -> bool {
        matches!(self.state, State::Size { digits: 0, .. })
    }

    /// Read on in `input` until the first data, or to its end, or to the body's end.
    ///
    /// Consumes at least one byte unless `input` is empty or the body is done.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, BodyError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Done => return Ok(Step { consumed: at, data: at..at }),
                State::Poisoned(error) => return Err(error),
                _ if at == input.len() => return Ok(Step { consumed: at, data: at..at }),
                State::UntilClose => return Ok(Step { consumed: input.len(), data: at..input.len() }),
                State::Length(left) => {
                    let take = usize::try_from(left).map_or(input.len(), |n| n.min(input.len()));
                    let left = left - take as u64;
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    return Ok(Step { consumed: take, data: 0..take });
                }
                State::Data { left } => {
                    let take = (left as usize).min(input.len() - at);
                    let left = left - take as u32;
                    self.state = if left == 0 { State::DataCr } else { State::Data { left } };
                    return Ok(Step { consumed: at + take, data: at..at + take });
                }
                _ => {
                    self.framing_byte(input[at])?;
                    at += 1;
                }
            }
        }
    }

    /// Take the framing off a whole read: the data's ranges are pushed to `data`.
    pub fn decode_all(&mut self, input: &[u8], data: &mut Vec<Range<usize>>) -> Result<Decoded, BodyError> {
        let starts_whole = self.is_between_chunks();
        let trailers_before = self.trailer_bytes;
        let mut at = 0;
        while at < input.len() && !self.is_done() {
            let step = self.decode(&input[at..])?;
            if !step.data.is_empty() {
                data.push(at + step.data.start..at + step.data.end);
            }
            at += step.consumed;
        }
        let done = self.is_done();
        Ok(Decoded {
            consumed: at,
            done,
            whole_chunks: starts_whole
                && at > 0
                && (done || self.is_between_chunks())
                && self.trailer_bytes == trailers_before,
        })
    }

    /// The connection ended in order. Right for a body until the close; otherwise the body is truncated.
    pub fn finish(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            State::Poisoned(error) => Err(error),
            _ => self.poison(BodyError::Truncated),
        }
    }

    /// One byte that is not data. The state table of chunked coding stands here and nowhere else.
    fn framing_byte(&mut self, byte: u8) -> Result<(), BodyError> {
        use BodyError::{ChunkEnd, ChunkSize, Trailer, TrailerTooLarge};
        self.state = match (self.state, byte) {
            (State::Size { value, digits }, _) if byte.is_ascii_hexdigit() && digits < limits::MAX_CHUNK_DIGITS => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                State::Size { value: value << 4 | digit, digits: digits + 1 }
            }
            (State::Size { value, digits: 1.. }, b'\r') => State::SizeLf { value },
            (State::SizeLf { value: 0 } | State::TrailerLf, b'\n') => State::TrailerStart,
            (State::SizeLf { value }, b'\n') => State::Data { left: value },
            (State::Size { .. } | State::SizeLf { .. }, _) => return self.poison(ChunkSize),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { value: 0, digits: 0 },
            (State::DataCr | State::DataLf, _) => return self.poison(ChunkEnd),
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::EndLf, b'\n') => State::Done,
            (State::TrailerStart | State::TrailerName, _) if is_token(&[byte]) => State::TrailerName,
            (State::TrailerName, b':') => State::TrailerValue,
            (State::TrailerValue, b'\r') => State::TrailerLf,
            (State::TrailerValue, _) if byte == b'\t' || (byte >= 0x20 && byte != 0x7f) => State::TrailerValue,
            _ => return self.poison(Trailer),
        };
        if matches!(self.state, State::TrailerName | State::TrailerValue) {
            self.trailer_bytes += 1;
            if self.trailer_bytes > limits::MAX_TRAILER_BYTES {
                return self.poison(TrailerTooLarge);
            }
        }
        Ok(())
    }

    fn poison<T>(&mut self, error: BodyError) -> Result<T, BodyError> {
        self.state = State::Poisoned(error);
        Err(error)
    }
}
