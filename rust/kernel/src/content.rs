//! Content codings taken off while they stream: gzip, br, zstd.
//!
//! 1. Every byte that can be decoded from what has come is handed out at once: an event is not held back
//!    until a block is full.
//! 2. Output is bounded by the buffer that is given, so a bomb costs what its reader asks for and no more.
//! 3. A body that ends inside its coding is truncated.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::limits;

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

enum Coding {
    Gzip(Decompress),
    Brotli(Box<Brotli>),
    Zstd(DCtx<'static>),
}

/// The coding of one body, and the input that had no room in the last output.
pub(crate) struct ContentDecoder {
    coding: Coding,
    held: Vec<u8>,
    held_at: usize,
    /// The last output was filled: there may be more without any input.
    full: bool,
    /// The coding's own end was read.
    ended: bool,
    /// Anything was read at all.
    begun: bool,
}

impl ContentDecoder {
    /// For the value of `content-encoding`: `None` where nothing is to be done.
    pub(crate) fn new(value: &str) -> Result<Option<Self>, &'static str> {
        let value = value.trim();
        let is = |name: &str| value.eq_ignore_ascii_case(name);
        let coding = if is("gzip") || is("x-gzip") {
            Coding::Gzip(Decompress::new_gzip(15))
        } else if is("br") {
            let alloc = StandardAlloc::default;
            Coding::Brotli(Box::new(BrotliState::new(alloc(), alloc(), alloc())))
        } else if is("zstd") {
            let mut context = DCtx::try_create().ok_or("no memory for zstd")?;
            context
                .set_parameter(DParameter::WindowLogMax(limits::ZSTD_WINDOW_LOG))
                .map_err(|_| "zstd refuses its window limit")?;
            Coding::Zstd(context)
        } else if value.is_empty() || is("identity") {
            return Ok(None);
        } else {
            return Err("a coding other than gzip, br and zstd");
        };
        Ok(Some(Self { coding, held: Vec::new(), held_at: 0, full: false, ended: false, begun: false }))
    }

    /// Output may come without further input.
    pub(crate) fn has_more(&self) -> bool {
        self.full || self.held_at < self.held.len()
    }

    /// Decode what was held into `out`; returns how much was written.
    pub(crate) fn drain(&mut self, out: &mut [u8]) -> Result<usize, &'static str> {
        let held = std::mem::take(&mut self.held);
        let (used, written) = self.step(&held[self.held_at..], out)?;
        self.held_at += used;
        if self.held_at < held.len() {
            self.held = held;
        } else {
            self.held_at = 0;
        }
        Ok(written)
    }

    /// Decode `input` into `out`; what finds no room is held. Returns how much was written.
    pub(crate) fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, &'static str> {
        if self.held_at < self.held.len() {
            self.held.extend_from_slice(input);
            return Ok(0);
        }
        let (used, written) = self.step(input, out)?;
        if used < input.len() {
            self.held = input[used..].to_vec();
            self.held_at = 0;
        }
        Ok(written)
    }

    /// The body is over. Right if the coding is, too, or if there was no body at all.
    pub(crate) fn is_whole(&self) -> bool {
        !self.has_more() && (self.ended || !self.begun)
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize), &'static str> {
        let (mut used, mut written) = (0, 0);
        self.begun |= !input.is_empty();
        self.full = false;
        while written < out.len() {
            if self.ended {
                if used == input.len() {
                    break;
                }
                self.begin_member()?;
            }
            let (took, gave) = self.once(&input[used..], &mut out[written..])?;
            used += took;
            written += gave;
            if took == 0 && gave == 0 {
                break;
            }
        }
        self.full = written == out.len() && !self.ended;
        Ok((used, written))
    }

    /// Bytes follow the coding's end: gzip and zstd may go on with another member, br may not.
    fn begin_member(&mut self) -> Result<(), &'static str> {
        match &mut self.coding {
            Coding::Gzip(gzip) => *gzip = Decompress::new_gzip(15),
            Coding::Zstd(_) => {}
            Coding::Brotli(_) => return Err("bytes after the end of a br body"),
        }
        self.ended = false;
        Ok(())
    }

    fn once(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize), &'static str> {
        match &mut self.coding {
            Coding::Gzip(gzip) => {
                let (before_in, before_out) = (gzip.total_in(), gzip.total_out());
                let status = gzip.decompress(input, out, FlushDecompress::None).map_err(|_| "not gzip")?;
                self.ended = status == Status::StreamEnd;
                Ok(((gzip.total_in() - before_in) as usize, (gzip.total_out() - before_out) as usize))
            }
            Coding::Brotli(state) => {
                let (mut left_in, mut at_in) = (input.len(), 0);
                let (mut left_out, mut at_out, mut total) = (out.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut left_in,
                    &mut at_in,
                    input,
                    &mut left_out,
                    &mut at_out,
                    out,
                    &mut total,
                    state,
                );
                match result {
                    BrotliResult::ResultFailure => return Err("not br"),
                    BrotliResult::ResultSuccess => self.ended = true,
                    BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
                }
                Ok((at_in, at_out))
            }
            Coding::Zstd(context) => {
                let mut source = InBuffer::around(input);
                let mut target = OutBuffer::around(out);
                let hint = context.decompress_stream(&mut target, &mut source).map_err(|_| "not zstd")?;
                // 0: a frame ends here and is flushed.
                self.ended = hint == 0;
                Ok((source.pos, target.pos()))
            }
        }
    }
}
