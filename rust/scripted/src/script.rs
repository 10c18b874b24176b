//! What an upstream is to do: routes, and replies as lists of plays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use headrace_http1::WriteError;
use headrace_http1::body::BodyKind;
use headrace_http1::write::{self, ResponseStart};

use crate::facts::Seen;

/// One act of a reply.
#[derive(Clone, Debug)]
pub enum Play {
    /// One write of these bytes, framing included.
    Send(Bytes),
    /// These bytes in pieces of `size`, with a pause after each.
    Drip {
        bytes: Bytes,
        size: usize,
        pause: Duration,
    },
    Pause(Duration),
    /// Wait until the test opens the gate of this name.
    Gate(String),
    /// Say nothing more until the client leaves.
    Stall,
    /// Close in order: what was written arrives, then the end. Under TLS without its farewell.
    Cut,
    /// Reset the connection: what is still under way may be lost.
    Reset,
}

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each piece a chunk.
    Chunked,
    /// Its true length.
    Length,
    /// Until the close.
    Close,
    /// `content-length` says this, whatever the body has.
    Lie(u64),
}

/// One answer. What it sends is rendered when it is made; playing it copies nothing.
#[derive(Clone, Debug)]
pub struct Reply {
    plays: Arc<[Play]>,
    keep_alive: bool,
}

/// A reply in the making.
#[derive(Clone, Debug)]
pub struct ReplyBuilder {
    status: u16,
    headers: Vec<(String, String)>,
    framing: Framing,
    parts: Vec<Part>,
    close: bool,
}

#[derive(Clone, Debug)]
enum Part {
    Data(Bytes),
    Drip(Bytes, usize, Duration),
    Play(Play),
}

impl Reply {
    /// A reply with this status; [`ReplyBuilder::end`] makes it.
    #[must_use]
    pub fn status(status: u16) -> ReplyBuilder {
        ReplyBuilder { status, headers: Vec::new(), framing: Framing::Length, parts: Vec::new(), close: false }
    }

    /// 200 with `text/event-stream` in chunks.
    #[must_use]
    pub fn stream() -> ReplyBuilder {
        Self::status(200).framing(Framing::Chunked).header("content-type", "text/event-stream")
    }

    /// A JSON body of its true length.
    #[must_use]
    pub fn json(status: u16, body: impl Into<Bytes>) -> ReplyBuilder {
        Self::status(status).header("content-type", "application/json").data(body)
    }

    /// Plays as they are: whatever bytes, HTTP or not. The connection is used again where `keep_alive`.
    #[must_use]
    pub fn raw(plays: Vec<Play>, keep_alive: bool) -> Self {
        Self { plays: plays.into(), keep_alive }
    }

    pub(crate) fn plays(&self) -> &[Play] {
        &self.plays
    }

    pub(crate) fn keeps_alive(&self) -> bool {
        self.keep_alive
    }
}

impl ReplyBuilder {
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// A piece of the body: one write, and one chunk where the body is chunked.
    #[must_use]
    pub fn data(mut self, bytes: impl Into<Bytes>) -> Self {
        self.parts.push(Part::Data(bytes.into()));
        self
    }

    /// Pieces of `size` with a pause after each.
    #[must_use]
    pub fn drip(mut self, bytes: impl Into<Bytes>, size: usize, pause: Duration) -> Self {
        self.parts.push(Part::Drip(bytes.into(), size.max(1), pause));
        self
    }

    #[must_use]
    pub fn pause(self, pause: Duration) -> Self {
        if pause.is_zero() { self } else { self.play(Play::Pause(pause)) }
    }

    #[must_use]
    pub fn gate(self, name: &str) -> Self {
        self.play(Play::Gate(name.to_owned()))
    }

    /// Anything else, in its place among the pieces.
    #[must_use]
    pub fn play(mut self, play: Play) -> Self {
        self.parts.push(Part::Play(play));
        self
    }

    /// Close the connection after the reply, and say so.
    #[must_use]
    pub fn close(mut self) -> Self {
        self.close = true;
        self
    }

    /// Render it. The head goes out with the first piece, the last chunk with the last one.
    ///
    /// # Panics
    /// Where the head cannot be written: a script is written by a programmer.
    #[must_use]
    pub fn end(self) -> Reply {
        self.try_end().expect("a script's head can be written")
    }

    /// [`end`](Self::end) for a script that a user wrote.
    ///
    /// # Errors
    /// The head cannot be written: a header is none, or is the framing's own.
    pub fn try_end(self) -> Result<Reply, WriteError> {
        let len = |part: &Part| match part {
            Part::Data(bytes) | Part::Drip(bytes, ..) => bytes.len() as u64,
            Part::Play(_) => 0,
        };
        let body = match self.framing {
            Framing::Chunked => BodyKind::Chunked,
            Framing::Length if matches!(self.status, 100..=199 | 204 | 304) => BodyKind::None,
            Framing::Length => BodyKind::Length(self.parts.iter().map(len).sum()),
            Framing::Close => BodyKind::UntilClose,
            Framing::Lie(n) => BodyKind::Length(n),
        };
        let mut pending = Vec::new();
        let start = ResponseStart { status: self.status, body, close: self.close };
        let headers = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes()));
        write::response(&mut pending, start, headers)?;
        let chunked = body == BodyKind::Chunked;
        let mut plays = Vec::new();
        let mut broken = false;
        for part in self.parts {
            match part {
                Part::Data(bytes) => {
                    let mut bytes = frame(chunked, &bytes);
                    if !pending.is_empty() {
                        bytes = [std::mem::take(&mut pending), bytes.into()].concat().into();
                    }
                    plays.push(Play::Send(bytes));
                }
                Part::Drip(bytes, size, pause) => {
                    flush(&mut plays, &mut pending);
                    plays.push(Play::Drip { bytes: frame(chunked, &bytes), size, pause });
                }
                Part::Play(play) => {
                    flush(&mut plays, &mut pending);
                    broken |= matches!(play, Play::Cut | Play::Reset | Play::Stall);
                    plays.push(play);
                }
            }
        }
        if chunked && !broken {
            match plays.last_mut() {
                Some(Play::Send(last)) if pending.is_empty() => *last = [last, write::LAST_CHUNK].concat().into(),
                _ => pending.extend_from_slice(write::LAST_CHUNK),
            }
        }
        flush(&mut plays, &mut pending);
        let keep_alive = !self.close && !broken && matches!(self.framing, Framing::Chunked | Framing::Length);
        Ok(Reply { plays: plays.into(), keep_alive })
    }
}

fn flush(plays: &mut Vec<Play>, pending: &mut Vec<u8>) {
    if !pending.is_empty() {
        plays.push(Play::Send(std::mem::take(pending).into()));
    }
}

fn frame(chunked: bool, bytes: &Bytes) -> Bytes {
    if !chunked {
        return bytes.clone();
    }
    let mut out = Vec::with_capacity(bytes.len() + 16);
    write::chunk(&mut out, bytes);
    out.into()
}

type Handler = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

enum Answers {
    /// In turn; the last one for ever.
    Listed(Vec<Reply>, AtomicUsize),
    Made(Handler),
}

/// All routes of an upstream. The first that fits answers; none: 404.
#[derive(Default)]
pub struct Script {
    routes: Vec<(String, Answers)>,
    pub(crate) record: usize,
}

/// Requests that are recorded unless a script says otherwise: a test's worth, and no leak in a bench.
const RECORDED: usize = 1024;

impl Script {
    #[must_use]
    pub fn new() -> Self {
        Self { routes: Vec::new(), record: RECORDED }
    }

    /// One reply for everything.
    #[must_use]
    pub fn always(reply: Reply) -> Self {
        Self::new().route("*", vec![reply])
    }

    /// Replies in turn for requests to `path` (without query; `*` for any), the last one for ever.
    ///
    /// # Panics
    /// Without a reply.
    #[must_use]
    pub fn route(mut self, path: &str, replies: Vec<Reply>) -> Self {
        assert!(!replies.is_empty(), "a route has a reply");
        self.routes.push((path.to_owned(), Answers::Listed(replies, AtomicUsize::new(0))));
        self
    }

    /// Replies that depend on the request.
    #[must_use]
    pub fn handler(mut self, path: &str, handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        self.routes.push((path.to_owned(), Answers::Made(Arc::new(handler))));
        self
    }

    /// Keep the first `n` requests in the facts; the others are counted only.
    #[must_use]
    pub fn record(mut self, n: usize) -> Self {
        self.record = n;
        self
    }

    pub(crate) fn answer(&self, seen: &Seen) -> Reply {
        let path = seen.path();
        match self.routes.iter().find(|(route, _)| route == "*" || route == path).map(|(_, answers)| answers) {
            Some(Answers::Listed(replies, next)) => replies[next.fetch_add(1, Relaxed).min(replies.len() - 1)].clone(),
            Some(Answers::Made(handler)) => handler(seen),
            None => Reply::json(404, "{\"error\":{\"message\":\"no such path\",\"type\":\"not_found\"}}").end(),
        }
    }
}
