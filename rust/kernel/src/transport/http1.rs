//! One exchange over one HTTP/1.1 connection: send, read the head, read the body into the thread's scratch.
//!
//! Sending and reading do not wait for each other: an answer that comes before the request is sent is an
//! answer (413, mostly), and a write that fails is told only if no answer explains it.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use headrace_http1::write::{self, RequestStart};
use headrace_http1::{BodyDecoder, BodyError, BodyKind, HeadScanner, ResponseHead, WriteError, limits as http_limits};

use super::Io;
use super::coded::{self, Framed};
use crate::content::ContentDecoder;
use crate::failure::Cause;
use crate::limits;
use crate::scratch::Scratch;
use crate::spec::AttemptSpec;

thread_local! {
    /// Where heads are read: borrowed within one poll only.
    static HEAD_SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; limits::HEAD_READ]);
}

/// What is still to be sent.
struct Outgoing {
    pieces: Vec<Bytes>,
    /// The first piece that is not sent, and how much of it is.
    piece: usize,
    offset: usize,
}

/// An answer's head, as it came: names in lower case.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

pub(crate) struct Exchange {
    io: Io,
    outgoing: Option<Outgoing>,
    write_error: Option<io::ErrorKind>,
    is_head: bool,
    may_upgrade: bool,
    /// A partial head; later, bytes that came with the head and wait to be asked for.
    inbox: Vec<u8>,
    scanner: HeadScanner,
    interim: u8,
    body: BodyDecoder,
    content: Option<Box<ContentDecoder>>,
    keep_alive: bool,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Exchange {
    pub(crate) fn new(io: Io, spec: &mut AttemptSpec) -> Result<Self, (WriteError, Io)> {
        let len = spec.body_len();
        let body = if len == 0 { BodyKind::None } else { BodyKind::Length(len) };
        match head_of(spec, &spec.method, body, None) {
            Ok(head) => {
                let mut pieces = Vec::with_capacity(1 + spec.body.len());
                pieces.push(Bytes::from(head));
                pieces.extend(std::mem::take(&mut spec.body).into_iter().filter(|piece| !piece.is_empty()));
                Ok(Self::sending(io, pieces, spec.method == "HEAD"))
            }
            Err(error) => Err((error, io)),
        }
    }

    /// Asks for a WebSocket. An answer with 101 is then given as one; any other is an answer as ever.
    pub(crate) fn upgrade(io: Io, spec: &AttemptSpec, key: &str) -> Result<Self, (WriteError, Io)> {
        match head_of(spec, "GET", BodyKind::None, Some(key)) {
            Ok(head) => Ok(Self { may_upgrade: true, ..Self::sending(io, vec![Bytes::from(head)], false) }),
            Err(error) => Err((error, io)),
        }
    }

    fn sending(io: Io, pieces: Vec<Bytes>, is_head: bool) -> Self {
        Self {
            io,
            outgoing: Some(Outgoing { pieces, piece: 0, offset: 0 }),
            write_error: None,
            is_head,
            may_upgrade: false,
            inbox: Vec::new(),
            scanner: HeadScanner::default(),
            interim: 0,
            body: BodyDecoder::new(BodyKind::None),
            content: None,
            keep_alive: false,
            sent: 0,
            received: 0,
        }
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.outgoing.is_none()
    }

    /// Send on. `Ready(true)` when all is sent, `Ready(false)` where nothing more can be.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if let Some(outgoing) = &mut self.outgoing {
            if let Err(e) = ready!(outgoing.poll(&mut self.io, cx, &mut self.sent)) {
                self.write_error = Some(e.kind());
            }
            self.outgoing = None;
        }
        Poll::Ready(self.write_error.is_none())
    }

    /// Read on until the head is whole. Interim answers are passed over.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Cause>> {
        loop {
            if let Some(answer) = self.parse_head()? {
                return Poll::Ready(Ok(answer));
            }
            let read = HEAD_SCRATCH.with_borrow_mut(|scratch| {
                let n = ready!(self.io.poll_read(cx, scratch))?;
                self.inbox.extend_from_slice(&scratch[..n]);
                Poll::Ready(io::Result::Ok(n))
            });
            match ready!(read) {
                Ok(0) => return Poll::Ready(Err(self.write_error.map_or(Cause::Closed, Cause::Write))),
                Ok(n) => self.received += n as u64,
                Err(e) => return Poll::Ready(Err(self.write_error.map_or(Cause::Read(e.kind()), Cause::Write))),
            }
        }
    }

    fn parse_head(&mut self) -> Result<Option<Answer>, Cause> {
        loop {
            let Some(len) = self.scanner.scan(&self.inbox, http_limits::MAX_HEAD).map_err(Cause::Head)? else {
                return Ok(None);
            };
            let method = if self.is_head { "HEAD" } else { "" };
            let head = ResponseHead::parse(&self.inbox[..len], method).map_err(Cause::Head)?;
            if head.is_interim() && !(self.may_upgrade && head.status == 101) {
                self.interim += 1;
                if head.status == 101 || self.interim > limits::MAX_INTERIM {
                    return Err(Cause::Interim(head.status));
                }
                self.inbox.drain(..len);
                self.scanner = HeadScanner::default();
                continue;
            }
            // Two codings stand in one line or in two; neither is read.
            let codings = head.headers.all("content-encoding").collect::<Vec<_>>().join(&b',');
            let coding = String::from_utf8_lossy(&codings);
            self.content = match head.body {
                BodyKind::None => None,
                _ => ContentDecoder::new(&coding).map_err(Cause::ContentCoding)?.map(Box::new),
            };
            let text =
                |(name, value): (&str, &[u8])| (name.to_ascii_lowercase(), String::from_utf8_lossy(value).into_owned());
            let answer = Answer { status: head.status, headers: head.headers.iter().map(text).collect() };
            self.body = BodyDecoder::new(head.body);
            self.keep_alive = head.keep_alive;
            self.inbox.drain(..len);
            self.inbox.shrink_to_fit();
            return Ok(Some(answer));
        }
    }

    /// Read on into `scratch`, at most `max` bytes. `true`: the body is over. Nothing and `false` never come together.
    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut Scratch,
        max: usize,
    ) -> Poll<Result<bool, Cause>> {
        scratch.clear();
        if let Some(mut content) = self.content.take() {
            let polled = coded::poll_content(self, cx, scratch, max, &mut content);
            self.content = Some(content);
            return polled;
        }
        loop {
            if self.body.is_done() {
                return Poll::Ready(Ok(true));
            }
            if !ready!(self.poll_framed(cx, scratch, max))? {
                self.body.finish().map_err(Cause::Body)?;
                return Poll::Ready(Ok(true));
            }
            if !scratch.pieces.is_empty() {
                return Poll::Ready(Ok(self.body.is_done()));
            }
        }
    }

    /// The connection after an answer with 101, with the bytes that came behind it.
    pub(crate) fn into_upgraded(self) -> (Io, Vec<u8>) {
        (self.io, self.inbox)
    }

    /// The connection, if it may carry another request; with the body's decoder where it has not ended.
    pub(crate) fn into_reusable(self) -> Option<(Io, Option<BodyDecoder>)> {
        let clean = self.keep_alive && self.outgoing.is_none() && self.write_error.is_none() && self.inbox.is_empty();
        let rest = if self.body.is_done() { None } else { Some(self.body) };
        clean.then_some((self.io, rest))
    }
}

impl Framed for Exchange {
    fn poll_framed(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch, max: usize) -> Poll<Result<bool, Cause>> {
        scratch.clear();
        let max = max.clamp(1, scratch.raw.len());
        let n = if self.inbox.is_empty() {
            let n = ready!(self.io.poll_read(cx, &mut scratch.raw[..max])).map_err(|e| match e.kind() {
                // TLS without its farewell: the body may have been cut by anyone.
                io::ErrorKind::UnexpectedEof => Cause::Body(BodyError::Truncated),
                kind => Cause::Read(kind),
            })?;
            self.received += n as u64;
            n
        } else {
            let n = max.min(self.inbox.len());
            scratch.raw[..n].copy_from_slice(&self.inbox[..n]);
            if n == self.inbox.len() {
                self.inbox = Vec::new();
            } else {
                self.inbox.drain(..n);
            }
            n
        };
        if n == 0 {
            return Poll::Ready(Ok(false));
        }
        let decoded = self.body.decode_all(&scratch.raw[..n], &mut scratch.pieces).map_err(Cause::Body)?;
        if decoded.consumed < n {
            // Bytes after the end belong to no request of ours.
            self.keep_alive = false;
        }
        if decoded.whole_chunks {
            scratch.whole_chunks = decoded.consumed;
        }
        Poll::Ready(Ok(true))
    }

    fn is_done(&self) -> bool {
        self.body.is_done()
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.body.finish().map_err(Cause::Body)
    }
}

fn head_of(spec: &AttemptSpec, method: &str, body: BodyKind, key: Option<&str>) -> Result<Vec<u8>, WriteError> {
    // Of plain http a proxy makes the request anew; in a tunnel it sees nothing, and nothing is for it.
    let forwarding = spec.url.endpoint.proxy.as_ref().filter(|_| !spec.url.is_tunnelled());
    let absolute = forwarding.map(|_| format!("http://{}{}", spec.url.authority, spec.url.target));
    let authorization = forwarding.and_then(|proxy| proxy.authorization());
    let target = absolute.as_deref().unwrap_or(&spec.url.target);
    let start = RequestStart { method, target, host: &spec.url.authority, body, websocket: key };
    let mut head = Vec::with_capacity(1024);
    let ours = authorization.map(|value| ("proxy-authorization", value.as_bytes()));
    let headers = spec.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes()));
    write::request(&mut head, &start, headers.chain(ours))?;
    Ok(head)
}

impl Outgoing {
    fn poll(&mut self, io: &mut Io, cx: &mut Context<'_>, sent: &mut u64) -> Poll<io::Result<()>> {
        while self.piece < self.pieces.len() {
            let mut slices = [IoSlice::new(&[]); limits::IO_SLICES];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.pieces[self.piece..]) {
                *slice = IoSlice::new(if count == 0 { &piece[self.offset..] } else { piece });
                count += 1;
            }
            let mut n = ready!(io.poll_write(cx, &slices[..count]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *sent += n as u64;
            while n > 0 {
                let left = self.pieces[self.piece].len() - self.offset;
                if n < left {
                    self.offset += n;
                    break;
                }
                n -= left;
                self.pieces[self.piece] = Bytes::new();
                self.piece += 1;
                self.offset = 0;
            }
        }
        io.poll_flush(cx)
    }
}
