//! To whom an answer goes: a client's own connection, or a lane of a connection that several answers share.
//!
//! Whoever gives an answer asks the same of both, and needs not know which it is. No choice may be added here.

use std::task::{Context, Poll};

use crate::client::{ClientSocket, Framing, Gone};
use crate::lane::ClientLane;
use crate::limits;

#[derive(Debug)]
pub(crate) enum Recipient<'a> {
    Socket(&'a mut ClientSocket),
    Lane(&'a mut ClientLane),
}

impl Recipient<'_> {
    /// The same for a shorter while.
    pub(crate) fn reborrow(&mut self) -> Recipient<'_> {
        match self {
            Recipient::Socket(socket) => Recipient::Socket(socket),
            Recipient::Lane(lane) => Recipient::Lane(lane),
        }
    }

    /// Whether other answers go to the same client at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Recipient::Lane(_))
    }

    /// Ready once the client is gone. A lane goes with its conversation, which asks for itself.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        match self {
            Recipient::Socket(socket) => socket.poll_gone(cx),
            Recipient::Lane(lane) if lane.is_gone() => Poll::Ready(Gone),
            Recipient::Lane(_) => Poll::Pending,
        }
    }

    /// Whether all that was written has gone out.
    pub(crate) fn is_clear(&self) -> bool {
        match self {
            Recipient::Socket(socket) => socket.is_clear(),
            Recipient::Lane(lane) => lane.is_clear(),
        }
    }

    /// Sends out what is unsent. Pending while the client takes no more.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        match self {
            Recipient::Socket(socket) => socket.poll_flush(cx),
            Recipient::Lane(lane) => lane.poll_flush(cx),
        }
    }

    /// Bytes that the kernel would take for this client now. A system call.
    pub(crate) fn room(&self) -> usize {
        match self {
            Recipient::Socket(socket) => socket.room(),
            Recipient::Lane(lane) => lane.room(),
        }
    }

    /// Bytes that went out to it.
    pub(crate) fn total(&self) -> u64 {
        match self {
            Recipient::Socket(socket) => socket.total(),
            Recipient::Lane(lane) => lane.total(),
        }
    }

    /// Bytes that its connection took: while this grows the client is there.
    pub(crate) fn moved(&self) -> u64 {
        match self {
            Recipient::Socket(socket) => socket.total(),
            Recipient::Lane(lane) => lane.moved(),
        }
    }

    /// What a browser wants to read before a page of another origin may see the answer.
    pub(crate) fn cross_origin(&self) -> Vec<(&'static str, String)> {
        match self {
            Recipient::Socket(socket) => socket.cross_origin(),
            Recipient::Lane(_) => Vec::new(),
        }
    }

    /// Lets `f` append the head of an answer. A lane's answers have none.
    pub(crate) fn stage_head<R>(&mut self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        match self {
            Recipient::Socket(socket) => socket.stage(|out| {
                out.reserve(limits::HEAD_ROOM);
                f(out)
            }),
            Recipient::Lane(_) => f(&mut Vec::new()),
        }
    }

    /// Writes `pieces` as one piece of the answer's body, and with `last` ends the body.
    pub(crate) fn send(&mut self, framing: Framing, pieces: &[&[u8]], last: bool) -> Result<(), Gone> {
        match self {
            Recipient::Socket(socket) => socket.send(framing, pieces, last),
            Recipient::Lane(lane) => lane.send(pieces),
        }
    }

    /// As [`Recipient::send`] for one piece, of which `chunk` is the same in a chunk's framing.
    pub(crate) fn pass(&mut self, framing: Framing, piece: &[u8], chunk: &[u8]) -> Result<(), Gone> {
        match self {
            Recipient::Socket(socket) => socket.pass(framing, piece, chunk),
            Recipient::Lane(lane) => lane.send(&[piece]),
        }
    }

    /// Lets go of a part of an event, so that another may follow. `false`: the client has that part.
    pub(crate) fn drop_partial(&mut self) -> bool {
        match self {
            Recipient::Socket(_) => false,
            Recipient::Lane(lane) => {
                lane.drop_partial();
                true
            }
        }
    }

    /// Breaks off, so that the client cannot take what it got for a whole answer.
    pub(crate) fn abort(&mut self) {
        match self {
            Recipient::Socket(socket) => socket.abort(),
            Recipient::Lane(lane) => lane.abort(),
        }
    }
}
