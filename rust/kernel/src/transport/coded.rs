//! A body under a content coding, whatever frames it: read, decoded, handed over.

use std::task::{Context, Poll, ready};

use headrace_http1::BodyError;

use crate::content::ContentDecoder;
use crate::failure::Cause;
use crate::limits;
use crate::scratch::{Scratch, Source};

/// What brings a body's bytes.
pub(crate) trait Framed {
    /// One read, its framing taken off: the pieces stand in `scratch`. `false`: nothing more comes.
    fn poll_framed(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch, max: usize) -> Poll<Result<bool, Cause>>;

    /// Whether the body has ended by its framing's own word.
    fn is_done(&self) -> bool;

    /// Whether the body may end now that nothing more comes.
    fn finish(&mut self) -> Result<(), Cause>;
}

/// Read on into `scratch`, at most `max` decoded bytes. `true`: the body is over.
pub(crate) fn poll_content<F: Framed>(
    framed: &mut F,
    cx: &mut Context<'_>,
    scratch: &mut Scratch,
    max: usize,
    content: &mut ContentDecoder,
) -> Poll<Result<bool, Cause>> {
    if scratch.decoded.is_empty() {
        scratch.decoded = vec![0; limits::SCRATCH];
    }
    let max = max.clamp(1, limits::SCRATCH);
    loop {
        let mut written = 0;
        if content.has_more() {
            written = content.drain(&mut scratch.decoded[..max]).map_err(Cause::ContentCoding)?;
        } else if framed.is_done() {
            return if content.is_whole() { Poll::Ready(Ok(true)) } else { truncated() };
        } else if ready!(framed.poll_framed(cx, scratch, max.min(limits::ENCODED_READ)))? {
            for piece in &scratch.pieces {
                let out = &mut scratch.decoded[written..max];
                written += content.decode(&scratch.raw[piece.clone()], out).map_err(Cause::ContentCoding)?;
            }
        } else {
            framed.finish()?;
        }
        scratch.clear();
        if written > 0 {
            scratch.source = Source::Decoded;
            scratch.pieces.push(0..written);
            let over = framed.is_done() && content.is_whole();
            return Poll::Ready(Ok(over));
        }
    }
}

fn truncated<T>() -> Poll<Result<T, Cause>> {
    Poll::Ready(Err(Cause::Body(BodyError::Truncated)))
}
