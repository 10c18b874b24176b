//! A client's WebSocket as one of its answers sees it: one lane among several, over a socket that all of them share.
//!
//! 1. An answer is written as an event stream, as over HTTP; each event that holds data goes out as one text message,
//!    whole, with the lane's name. A part of an event is held until the rest comes, and never stands between two others.
//! 2. What one lane has written and the client has not taken holds up that lane and no other: each waits until its own
//!    last byte is out, and for the others' turns, so that a slow client's room goes round by one read each.
//! 3. The event that ends an answer well is kept for the next turn, within a bound.
//!
//! Nothing that reads from the client may be added here.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};

use headrace_codec::Protocol;
use headrace_codec::encode::refusal;
use headrace_codec::framing::Frame;
use headrace_codec::framing::sse::Sse;
use headrace_codec::request::session;

use crate::client::{ClientSocket, Gone};
use crate::talk;

/// The socket of a conversation.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) socket: RefCell<ClientSocket>,
    /// The first place among all that the client was given at which a lane waits for it to be out.
    pub(crate) waits: Cell<u64>,
    /// Bytes that the lane whose turn it is may still write.
    pub(crate) turn: Cell<usize>,
    /// A lane has used up its turn and has more.
    pub(crate) again: Cell<bool>,
}

impl Line {
    pub(crate) fn new(socket: ClientSocket) -> Line {
        Line { socket: RefCell::new(socket), waits: Cell::default(), turn: Cell::default(), again: Cell::default() }
    }
}

/// What the client was told of an answer, for the conversation to see.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The answer's id.
    pub(crate) id: OnceCell<String>,
    /// Its end, well or not: the client may ask again, though the exchange may not be over.
    pub(crate) end: Cell<bool>,
}

/// One answer's part of a conversation.
#[derive(Debug)]
pub(crate) struct ClientLane {
    line: Rc<Line>,
    name: Option<Rc<str>>,
    events: Sse,
    /// Bytes of an answer's output that are kept.
    limit: usize,
    /// Where its last byte stands among all that the connection was given.
    mark: u64,
    /// Bytes that it gave.
    given: u64,
    told: Rc<Told>,
    /// The id and the output of an answer that ended well.
    ended: Option<(String, Vec<u8>)>,
    /// It was told that no more will come.
    broken: bool,
}

impl ClientLane {
    pub(crate) fn new(line: Rc<Line>, name: Option<Rc<str>>, limit: usize, told: Rc<Told>) -> ClientLane {
        let events = Sse::default();
        ClientLane { line, name, events, limit, mark: 0, given: 0, told, ended: None, broken: false }
    }

    /// The answer's id and output, where it ended well.
    pub(crate) fn into_ended(self) -> Option<(String, Vec<u8>)> {
        self.ended
    }

    /// Whether it is of no use to go on. The conversation watches the client.
    pub(crate) fn is_gone(&self) -> bool {
        self.broken || self.line.socket.borrow().is_gone()
    }

    pub(crate) fn is_clear(&self) -> bool {
        self.line.turn.get() > 0 && self.is_out()
    }

    fn is_out(&self) -> bool {
        self.line.socket.borrow().total() >= self.mark
    }

    /// Bytes of this lane that went out.
    pub(crate) fn total(&self) -> u64 {
        // Each piece goes out before the next one is made, so that what is not out belongs to the last ones.
        self.given.saturating_sub(self.mark.saturating_sub(self.line.socket.borrow().total()))
    }

    /// Bytes that the connection took: as long as it does, this lane's turn comes.
    pub(crate) fn moved(&self) -> u64 {
        self.line.socket.borrow().total()
    }

    pub(crate) fn room(&self) -> usize {
        self.line.socket.borrow().room()
    }

    /// Ready when all that this lane wrote is out, within its turn.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.is_out() {
            if self.line.turn.get() > 0 {
                return Poll::Ready(Ok(()));
            }
            self.line.again.set(true);
            return Poll::Pending;
        }
        let flushed = self.line.socket.borrow_mut().poll_flush(cx);
        match flushed {
            Poll::Pending if self.is_out() => Poll::Ready(Ok(())),
            Poll::Pending => {
                self.line.waits.set(self.line.waits.get().min(self.mark));
                Poll::Pending
            }
            Poll::Ready(_) => flushed,
        }
    }

    /// Writes pieces of the answer's event stream.
    pub(crate) fn send(&mut self, pieces: &[&[u8]]) -> Result<(), Gone> {
        if self.is_gone() {
            return Err(Gone);
        }
        let mut out = Vec::new();
        let ClientLane { events, name, limit, told, ended, .. } = self;
        for piece in pieces {
            let each = &mut |frame: Frame<'_>| {
                if let Some(data) = frame.data.filter(|data| !data.is_empty()) {
                    talk::event(data, name.as_deref(), &mut out);
                    if told.id.get().is_none()
                        && let Some(id) = session::response_id(data)
                    {
                        // Nobody else sets it.
                        let _ = told.id.set(id);
                    }
                    if holds(data, ENDS) && session::is_end(data) {
                        told.end.set(true);
                    }
                    if let Some((id, output)) = holds(data, GOOD_ENDS).then(|| session::ended(data)).flatten()
                        && output.len() <= *limit
                    {
                        *ended = Some((id, output));
                    }
                }
                true
            };
            if events.feed(piece, each).is_err() {
                self.abort();
                return Err(Gone);
            }
        }
        self.write(&out)
    }

    fn write(&mut self, messages: &[u8]) -> Result<(), Gone> {
        let mut line = self.line.socket.borrow_mut();
        line.write(&[IoSlice::new(messages)])?;
        self.given += messages.len() as u64;
        self.mark = line.staged();
        self.line.turn.set(self.line.turn.get().saturating_sub(messages.len()));
        Ok(())
    }

    /// A part of an event that stays without its end is nothing that the client has seen.
    pub(crate) fn drop_partial(&mut self) {
        self.events = Sse::default();
    }

    /// Tells a whole answer of the gateway's own.
    pub(crate) fn tell(&mut self, status: u16, headers: &[(&str, &[u8])], body: &[u8]) {
        let mut out = Vec::new();
        talk::error(status, headers, body, self.name.as_deref(), &mut out);
        self.told.end.set(true);
        // A client that is gone is seen by the conversation.
        let _ = self.write(&out);
    }

    /// The answer cannot be brought to its end; the other lanes' can.
    pub(crate) fn abort(&mut self) {
        if !self.broken {
            let message = "the provider's answer cannot be passed on";
            let reply = refusal(Protocol::OpenaiResponses, 502, "upstream_response_failed", message, None);
            self.tell(reply.status, &[], &reply.body);
            self.ended = None;
            self.broken = true;
        }
    }
}

/// Whether an event may be one of these: a look that is cheaper than reading it.
fn holds(data: &[u8], types: &[&[u8]]) -> bool {
    types.iter().any(|word| memchr::memmem::find(data, word).is_some())
}

const GOOD_ENDS: &[&[u8]] = &[b"\"response.completed\"", b"\"response.incomplete\""];
const ENDS: &[&[u8]] = &[b"\"response.completed\"", b"\"response.incomplete\"", b"\"response.failed\"", b"\"error\""];
