//! One exchange over a WebSocket: switch to it, send the body as one message, read messages as events of an event stream.
//!
//! 1. A message becomes `data:` lines and a blank line, whatever it means: decoders and relays know event streams.
//! 2. A pooled connection has switched already. Whatever it was opened with is its key in the pool: it answers for one
//!    credential only.
//! 3. An answer to the switch other than 101 is an answer as over HTTP, with its status and its body.
//! 4. One exchange at a time: what comes between two of them makes a connection unfit for another. What of an answer
//!    comes first over a used connection, and is no answer's beginning, belongs to the one before, who may have been
//!    anybody: the connection has died unanswered then.

use std::cell::RefCell;
use std::io::IoSlice;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headrace_codec::request::session::begins;
use headrace_http1::WriteError;
use headrace_http1::websocket::{self, Message, Opcode, Reader, Role};
use memchr::memchr2;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use super::Io;
use super::http1::{Answer, Exchange};
use crate::failure::Cause;
use crate::limits;
use crate::scratch::Scratch;
use crate::spec::{AttemptSpec, Endpoint};

thread_local! {
    /// Where messages are read: borrowed within one poll only.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; limits::HEAD_READ]);
}

/// The value of `sec-websocket-accept` for a key (RFC 6455, section 4.2.2).
#[must_use]
pub fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// The pool's key of a WebSocket with this spec: the endpoint, and a digest of path and headers.
pub(crate) fn endpoint(spec: &AttemptSpec) -> Endpoint {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut part = |text: &str| {
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text.as_bytes());
    };
    part(&spec.url.target);
    for (name, value) in &spec.headers {
        part(name);
        part(value);
    }
    let mut session = [0; 32];
    session.copy_from_slice(context.finish().as_ref());
    Endpoint { session: Some(session), ..spec.url.endpoint.clone() }
}

enum State {
    /// Asked to switch, with this key; also for an answer that is none.
    Http(Box<Exchange>, String),
    Open(Box<Session>),
    /// Between the two, and for nobody to see.
    Closed,
}

pub(crate) struct WsExchange {
    state: State,
    /// To be sent once it is open.
    message: Vec<u8>,
    opened: u64,
    /// It was opened for another exchange.
    reused: bool,
    sent: u64,
    received: u64,
}

/// An open connection.
struct Session {
    io: Io,
    reader: Reader,
    /// Frames to be sent, and how much of them is.
    out: Vec<u8>,
    out_at: usize,
    /// Events that were not asked for yet, and how much of them was.
    events: Vec<u8>,
    events_at: usize,
    /// It was used before, and no answer has begun since.
    expecting: bool,
    /// The other side has closed, or the connection has ended or is of no use.
    over: bool,
    failed: Option<Cause>,
}

impl WsExchange {
    /// Over a new connection, or over one that was opened at tick `opened`.
    pub(crate) fn new(io: Io, spec: &mut AttemptSpec, opened: Option<u64>, now: u64) -> Result<Self, (WriteError, Io)> {
        let message = std::mem::take(&mut spec.body).concat();
        let state = if opened.is_some() {
            let mut session = Session::new(io, &[]);
            session.expecting = true;
            session.say(Opcode::Text, &message);
            State::Open(session)
        } else {
            let key = STANDARD.encode(random::<16>());
            State::Http(Box::new(Exchange::upgrade(io, spec, &key)?), key)
        };
        Ok(Self { state, message, opened: opened.unwrap_or(now), reused: opened.is_some(), sent: 0, received: 0 })
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent + if let State::Http(http, _) = &self.state { http.sent } else { 0 }
    }

    pub(crate) fn received(&self) -> u64 {
        self.received + if let State::Http(http, _) = &self.state { http.received } else { 0 }
    }

    pub(crate) fn is_sent(&self) -> bool {
        matches!(&self.state, State::Open(session) if session.out.is_empty())
    }

    pub(crate) fn within(&self) -> Option<u64> {
        let State::Open(session) = &self.state else { return None };
        Some(if session.reader.is_idle() { 0 } else { 1 + session.reader.held() as u64 })
    }

    pub(crate) fn ping(&mut self) {
        if let State::Open(session) = &mut self.state {
            session.say(Opcode::Ping, b"");
        }
    }

    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match &mut self.state {
            State::Http(http, _) => http.poll_send(cx).map(|_| false),
            State::Open(session) => session.poll_send(cx, &mut self.sent),
            State::Closed => Poll::Ready(false),
        }
    }

    /// Reads on until the first message, or the head of an answer that does not switch.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Cause>> {
        let mut headers = Vec::new();
        loop {
            match &mut self.state {
                State::Http(http, key) => {
                    if !http.is_sent() {
                        let _ = http.poll_send(cx);
                    }
                    let answer = ready!(http.poll_head(cx))?;
                    if answer.status != 101 {
                        return Poll::Ready(Ok(answer));
                    }
                    let said =
                        |name: &str| answer.headers.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.trim());
                    let agreed = said("upgrade").eq_ignore_ascii_case("websocket")
                        && said("sec-websocket-accept") == accept(key)
                        && said("sec-websocket-extensions").is_empty();
                    if !agreed {
                        return Poll::Ready(Err(Cause::Upgrade));
                    }
                    (self.sent, self.received) = (http.sent, http.received);
                    headers = answer.headers;
                    self.open();
                }
                State::Open(session) => {
                    while session.events.is_empty() {
                        let _ = session.poll_send(cx, &mut self.sent);
                        if session.over {
                            if self.reused {
                                // A farewell that came too late is nothing of an answer, nor is the rest of another.
                                self.received = 0;
                            }
                            return Poll::Ready(Err(session.failed.take().unwrap_or(Cause::Closed)));
                        }
                        ready!(session.poll_read(cx, &mut self.received));
                    }
                    headers.push(("content-type".into(), "text/event-stream".into()));
                    return Poll::Ready(Ok(Answer { status: 200, headers }));
                }
                State::Closed => return Poll::Ready(Err(Cause::Closed)),
            }
        }
    }

    fn open(&mut self) {
        let State::Http(http, _) = std::mem::replace(&mut self.state, State::Closed) else { return };
        let (io, ahead) = http.into_upgraded();
        let mut session = Session::new(io, &ahead);
        session.say(Opcode::Text, &std::mem::take(&mut self.message));
        self.state = State::Open(session);
    }

    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut Scratch,
        max: usize,
    ) -> Poll<Result<bool, Cause>> {
        let session = match &mut self.state {
            State::Http(http, _) => return http.poll_body(cx, scratch, max),
            State::Open(session) => session,
            State::Closed => return Poll::Ready(Ok(true)),
        };
        scratch.clear();
        loop {
            // Pongs.
            let _ = session.poll_send(cx, &mut self.sent);
            if session.take(scratch, max) {
                return Poll::Ready(Ok(false));
            }
            if let Some(cause) = session.failed.take() {
                return Poll::Ready(Err(cause));
            }
            if session.over {
                return Poll::Ready(Ok(true));
            }
            ready!(session.poll_read(cx, &mut self.received));
        }
    }

    /// The connection, if it stands between two messages, and when it was opened.
    pub(crate) fn into_reusable(self) -> Option<(Io, u64)> {
        let State::Open(session) = self.state else { return None };
        let clean = session.out.is_empty()
            && session.events.is_empty()
            && session.reader.is_idle()
            && !session.over
            && session.failed.is_none();
        clean.then_some((session.io, self.opened))
    }
}

impl Session {
    fn new(io: Io, ahead: &[u8]) -> Box<Session> {
        let mut session = Session {
            io,
            reader: Reader::new(Role::Client, limits::MESSAGE),
            out: Vec::new(),
            out_at: 0,
            events: Vec::new(),
            events_at: 0,
            expecting: false,
            over: false,
            failed: None,
        };
        session.hear(ahead);
        Box::new(session)
    }

    fn say(&mut self, opcode: Opcode, payload: &[u8]) {
        websocket::write(&mut self.out, opcode, payload, Some(random::<4>()));
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, sent: &mut u64) -> Poll<bool> {
        while self.out_at < self.out.len() {
            match ready!(self.io.poll_write(cx, &[IoSlice::new(&self.out[self.out_at..])])) {
                Ok(0) => return self.broken(Cause::Write(std::io::ErrorKind::WriteZero)),
                Ok(n) => {
                    self.out_at += n;
                    *sent += n as u64;
                }
                Err(e) => return self.broken(Cause::Write(e.kind())),
            }
        }
        self.out = Vec::new();
        self.out_at = 0;
        match ready!(self.io.poll_flush(cx)) {
            Ok(()) => Poll::Ready(true),
            Err(e) => self.broken(Cause::Write(e.kind())),
        }
    }

    fn broken(&mut self, cause: Cause) -> Poll<bool> {
        self.out = Vec::new();
        self.out_at = 0;
        self.failed.get_or_insert(cause);
        Poll::Ready(false)
    }

    /// One read.
    fn poll_read(&mut self, cx: &mut Context<'_>, received: &mut u64) -> Poll<()> {
        READ.with_borrow_mut(|buffer| {
            match ready!(self.io.poll_read(cx, buffer)) {
                Ok(0) => self.over = true,
                Ok(n) => {
                    *received += n as u64;
                    self.hear(&buffer[..n]);
                }
                Err(e) => {
                    self.failed.get_or_insert(Cause::Read(e.kind()));
                    self.over = true;
                }
            }
            Poll::Ready(())
        })
    }

    fn hear(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.over {
            match self.reader.read(bytes) {
                Ok((used, message)) => {
                    bytes = &bytes[used..];
                    match message {
                        None | Some(Message::Pong) => {}
                        // A vendor that answers JSON in binary frames means text; what is none the decoder refuses.
                        Some(Message::Text(text) | Message::Binary(text)) => self.take_in(&text),
                        Some(Message::Ping(payload)) => self.say(Opcode::Pong, &payload),
                        Some(Message::Close(code)) => {
                            let code = code.unwrap_or(1000);
                            websocket::close(&mut self.out, code, Some(random::<4>()));
                            self.over = true;
                        }
                    }
                }
                Err(error) => {
                    websocket::close(&mut self.out, error.close_code(), Some(random::<4>()));
                    self.failed.get_or_insert(Cause::WebSocket(error));
                    self.over = true;
                }
            }
        }
    }

    fn take_in(&mut self, text: &[u8]) {
        if self.expecting {
            match begins(text) {
                Some(true) => self.expecting = false,
                Some(false) => return self.over = true,
                None => {}
            }
        }
        event(&mut self.events, text);
    }

    /// Hands over events, at most `max` bytes. `false`: there are none.
    fn take(&mut self, scratch: &mut Scratch, max: usize) -> bool {
        let left = &self.events[self.events_at..];
        if left.is_empty() {
            return false;
        }
        let n = left.len().min(max.clamp(1, scratch.raw.len()));
        scratch.raw[..n].copy_from_slice(&left[..n]);
        scratch.pieces.push(0..n);
        self.events_at += n;
        if self.events_at == self.events.len() {
            self.events_at = 0;
            if self.events.capacity() > limits::HEAD_READ {
                self.events = Vec::new();
            } else {
                self.events.clear();
            }
        }
        true
    }
}

/// Appends a message as an event.
fn event(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    loop {
        let end = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&rest[..end]);
        out.push(b'\n');
        if end == rest.len() {
            break;
        }
        let crlf = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + 1 + usize::from(crlf)..];
    }
    out.push(b'\n');
}

pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // It fails only where the system has no randomness at all. A mask need not be secret then: it keeps foreign
    // proxies from taking our bytes for theirs.
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rfcs_key() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_message_of_several_lines_is_one_event() {
        let mut out = Vec::new();
        event(&mut out, b"{\"a\":1}");
        event(&mut out, b"{\r\n\"a\":\n1}\r");
        assert_eq!(out, b"data: {\"a\":1}\n\ndata: {\ndata: \"a\":\ndata: 1}\ndata: \n\n");
    }
}
