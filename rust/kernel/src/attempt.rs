//! The life of one attempt.
//!
//! ```text
//! let mut attempt = client.attempt(spec);        // nothing has happened yet
//! let head = attempt.head().await?;              // or poll_head(cx)
//! loop {
//!     let got = attempt.read(&mut scratch, max).await?;      // or poll_read(cx, &mut scratch, max)
//!     for piece in scratch.pieces() { ... }      // de-chunked, content-decoded
//!     if got.end { break }                       // the connection is back in the pool
//! }
//! ```
//!
//! | state | what it waits for | then |
//! |---|---|---|
//! | `Fresh` | the first poll | a pooled connection: `Exchange`; none: `Opening`; HTTP/2: `Choosing` |
//! | `Choosing` | whoever opens an HTTP/2 connection | a stream of one: `Exchange`; none: `Opening` |
//! | `Opening` | name and TCP | `Tunnelling` (a proxy), `Securing` (https) or `Exchange` |
//! | `Tunnelling` | the proxy's word | `Securing` (https) or `Exchange` |
//! | `Securing` | the TLS handshake | `Greeting` (HTTP/2) or `Exchange` |
//! | `Greeting` | the first bytes of HTTP/2 sent | `Exchange` |
//! | `Exchange` | the head, then the body as it is asked for | `Over` |
//! | `Over` | nothing | |
//!
//! 1. A failure or the body's end leads to `Over`. A failure closes the connection, the end returns it to the pool.
//! 2. Dropping an attempt in any state closes its connection at once. [`Attempt::release`] is for an owner who
//!    has the whole answer although the body has not ended: the connection may drain for a moment, then it is closed.
//! 3. Nothing is replayed. A reused connection that dies unanswered is a [`Failure`] that says so.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use headrace_codec::event::ErrorPhase;
use tokio::net::TcpStream;

use crate::client::Inner;
use crate::deadlines::{Phase, Watch};
use crate::failure::{Cause, Failure};
use crate::scratch::Scratch;
use crate::spec::AttemptSpec;
use crate::trace::{Step, Trace};
use crate::transport::http1::Exchange;
use crate::transport::http2::{self, Greeting, H2Exchange, Link};
use crate::transport::links::{Choice, Entry};
use crate::transport::proxy::{self, ProxyFault};
use crate::transport::secured::Secured;
use crate::transport::websocket::{self, WsExchange};
use crate::transport::{self, Carrier, Io, Opening, Reusable};

/// An answer's head. Its headers hold whatever the provider sent; what may go on to a client is the codec's
/// allow-list ([`Head::passed`]).
#[derive(Clone)]
pub struct Head {
    pub status: u16,
    /// Names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
}

impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head").field("status", &self.status).field("headers", &self.headers.len()).finish()
    }
}

impl Head {
    /// The first value of a header. `name` in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The headers that may go on to a client (rule R18), on success and on failure alike.
    #[must_use]
    pub fn passed(&self) -> Vec<(&str, &str)> {
        headrace_codec::headers::filter(&self.headers)
    }
}

/// What a read brought: the data stands in the [`Scratch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// The body is over, with these bytes. Without it there is at least one piece.
    pub end: bool,
}

enum State {
    Fresh,
    Choosing,
    Opening(Opening),
    Tunnelling(Opening),
    Securing(Box<Secured>),
    Greeting(Greeting),
    Exchange(Box<Carrier>),
    Over,
}

/// One attempt. Poll it from one task.
pub struct Attempt {
    client: Arc<Inner>,
    watch: Arc<Watch>,
    spec: AttemptSpec,
    state: State,
    phase: ErrorPhase,
    trace: Trace,
    /// Not over a pooled connection.
    fresh: bool,
    /// Of the HTTP/2 connection that this attempt opens.
    entry: Option<Box<Entry>>,
    reused: bool,
    sent: u64,
    received: u64,
}

impl Attempt {
    pub(crate) fn new(client: Arc<Inner>, watch: Arc<Watch>, spec: AttemptSpec) -> Self {
        Self {
            client,
            watch,
            spec,
            state: State::Fresh,
            phase: ErrorPhase::Connect,
            trace: Trace::default(),
            fresh: false,
            entry: None,
            reused: false,
            sent: 0,
            received: 0,
        }
    }

    /// Makes this attempt over a new connection: for an owner whose last one died in the pool.
    #[must_use]
    pub fn on_fresh_connection(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// The answer's head. If cancelled: nothing is lost, the next call goes on.
    pub async fn head(&mut self) -> Result<Head, Failure> {
        poll_fn(|cx| self.poll_head(cx)).await
    }

    /// As [`Attempt::poll_read`]. If cancelled: nothing is lost, the next call goes on.
    pub async fn read(&mut self, scratch: &mut Scratch, max: usize) -> Result<Got, Failure> {
        poll_fn(|cx| self.poll_read(cx, scratch, max)).await
    }

    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Failure>> {
        match self.drive_head(cx) {
            Poll::Ready(Ok(head)) => Poll::Ready(Ok(head)),
            Poll::Ready(Err(cause)) => Poll::Ready(Err(self.fail(cause))),
            Poll::Pending => self.wait(cx),
        }
    }

    /// Read on into `scratch`: at most `max` bytes from the connection (or `max` decoded ones, under a content
    /// coding). Nothing is read that was not asked for, so an owner with a slow client asks for less, or later.
    ///
    /// After the end it says the end again, and so it does where there has been no head.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch, max: usize) -> Poll<Result<Got, Failure>> {
        let exchange = match &mut self.state {
            State::Exchange(exchange) if self.phase == ErrorPhase::Streaming => exchange,
            _ => {
                scratch.clear();
                return Poll::Ready(Ok(Got { end: true }));
            }
        };
        let now = self.client.clock.now();
        self.watch.asked(now);
        if let Some(cause) = self.watch.expired() {
            return Poll::Ready(Err(self.fail(cause)));
        }
        if self.watch.takes_ping(now) {
            exchange.ping();
        }
        if !exchange.is_sent() && exchange.poll_send(cx) == Poll::Ready(true) {
            self.trace.complete(Step::Send);
        }
        let before = exchange.received();
        let polled = exchange.poll_body(cx, scratch, max);
        match polled {
            Poll::Ready(Ok(end)) => {
                self.watch.got_bytes(now);
                if end {
                    self.finish();
                }
                Poll::Ready(Ok(Got { end }))
            }
            Poll::Ready(Err(cause)) => Poll::Ready(Err(self.fail(cause))),
            Poll::Pending => {
                if exchange.received() > before {
                    self.watch.stirred(now);
                }
                self.wait(cx)
            }
        }
    }

    /// The owner saw content in what it read: the content deadline starts anew.
    pub fn content_seen(&self) {
        self.watch.got_content(self.client.clock.now());
    }

    /// The owner has the whole answer (the protocol's terminal event came). If the body's end is there or comes
    /// within two ticks the connection is used again, otherwise it is closed.
    pub fn release(mut self) {
        if matches!(self.state, State::Exchange(_)) && self.phase == ErrorPhase::Streaming {
            self.finish();
        }
    }

    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Bytes sent so far, head included.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        if let State::Exchange(exchange) = &self.state { exchange.sent() } else { self.sent }
    }

    /// Bytes received so far, heads and framing included.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        if let State::Exchange(exchange) = &self.state { exchange.received() } else { self.received }
    }

    #[must_use]
    pub fn reused_socket(&self) -> bool {
        self.reused
    }

    fn drive_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Cause>> {
        loop {
            if let Some(cause) = self.watch.expired() {
                return Poll::Ready(Err(cause));
            }
            match &mut self.state {
                State::Fresh => {
                    let now = self.client.clock.now();
                    self.watch.enter(Phase::Connect, now);
                    if self.spec.url.websocket {
                        self.spec.url.endpoint = websocket::endpoint(&self.spec);
                    }
                    self.spec.http2 &= self.spec.url.endpoint.tls && !self.spec.url.websocket;
                    if self.spec.http2 {
                        self.state = State::Choosing;
                    } else {
                        self.take_or_open(now)?;
                    }
                }
                State::Choosing => ready!(self.choose(cx))?,
                State::Opening(opening) => {
                    let tcp = ready!(opening.as_mut().poll(cx))?;
                    self.trace.complete(Step::Connect);
                    let endpoint = &self.spec.url.endpoint;
                    match &endpoint.proxy {
                        Some(proxy) if self.spec.url.is_tunnelled() => {
                            self.trace.start(Step::Tunnel);
                            self.state = State::Tunnelling(proxy::tunnel(tcp, proxy.clone(), endpoint));
                        }
                        _ => self.secure(tcp)?,
                    }
                }
                State::Tunnelling(tunnelling) => {
                    let tcp = ready!(tunnelling.as_mut().poll(cx))?;
                    self.trace.complete(Step::Tunnel);
                    self.secure(tcp)?;
                }
                State::Securing(secured) => {
                    ready!(secured.poll_handshake(cx)).map_err(|e| Cause::Tls(e.to_string()))?;
                    self.trace.complete(Step::Tls);
                    let State::Securing(secured) = std::mem::replace(&mut self.state, State::Over) else { continue };
                    if let Some(entry) = self.entry.take() {
                        if secured.speaks_http2() {
                            self.state =
                                State::Greeting(http2::greet(secured, self.client.clock.tick_length(), *entry));
                            continue;
                        }
                        entry.give_up();
                    }
                    self.begin_exchange(Io::Tls(secured), None)?;
                }
                State::Greeting(greeting) => {
                    let link = ready!(greeting.as_mut().poll(cx))?;
                    self.begin_stream(link)?;
                }
                State::Exchange(exchange) => {
                    if !exchange.is_sent() && exchange.poll_send(cx) == Poll::Ready(true) {
                        self.phase = ErrorPhase::Head;
                        self.trace.complete(Step::Send);
                        self.trace.start(Step::Head);
                    }
                    let now = self.client.clock.now();
                    if self.watch.takes_ping(now) {
                        exchange.ping();
                    }
                    let before = exchange.received();
                    let polled = exchange.poll_head(cx);
                    if polled.is_pending() && exchange.received() > before {
                        self.watch.stirred(now);
                    }
                    if self.spec.url.websocket && self.phase == ErrorPhase::Request && exchange.is_sent() {
                        // A WebSocket sends between two steps of its head.
                        self.phase = ErrorPhase::Head;
                        self.trace.complete(Step::Send);
                        self.trace.start(Step::Head);
                    }
                    let answer = ready!(polled)?;
                    if answer.status == proxy::CREDENTIALS_WANTED && self.spec.url.endpoint.proxy.is_some() {
                        // The proxy's own: the provider has not seen the request.
                        self.phase = ErrorPhase::Connect;
                        return Poll::Ready(Err(Cause::Proxy(ProxyFault::Status(answer.status))));
                    }
                    self.phase = ErrorPhase::Streaming;
                    self.trace.complete(Step::Head);
                    self.trace.start(Step::Body);
                    self.watch.enter(Phase::Body, self.client.clock.now());
                    return Poll::Ready(Ok(Head { status: answer.status, headers: answer.headers }));
                }
                State::Over => return Poll::Ready(Err(Cause::Closed)),
            }
        }
    }

    /// TLS over a connection that leads to the endpoint, or the request at once.
    fn secure(&mut self, tcp: TcpStream) -> Result<(), Cause> {
        if self.spec.url.endpoint.tls {
            self.trace.start(Step::Tls);
            self.state = State::Securing(self.client.tls.handshake(&self.spec.url.endpoint, tcp, self.spec.http2)?);
            return Ok(());
        }
        self.begin_exchange(Io::Plain(tcp), None)
    }

    /// A stream of an HTTP/2 connection, or the right to open one.
    fn choose(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        let now = self.client.clock.now();
        let choice = self.client.links().choose(&self.spec.url.endpoint, now, self.fresh, cx);
        Poll::Ready(match choice {
            Choice::Wait => return Poll::Pending,
            Choice::Plain => {
                self.spec.http2 = false;
                self.take_or_open(now)
            }
            Choice::Take(link) => {
                self.reused = true;
                self.begin_stream(link)
            }
            Choice::Open => {
                self.entry = Some(Box::new(Entry::new(&self.client, &self.spec.url.endpoint, !self.fresh)));
                self.open();
                Ok(())
            }
        })
    }

    fn take_or_open(&mut self, now: u64) -> Result<(), Cause> {
        let pooled = if self.fresh { None } else { self.client.pool().take(&self.spec.url.endpoint, now) };
        if let Some(taken) = pooled {
            self.reused = true;
            return self.begin_exchange(taken.io, taken.opened);
        }
        self.open();
        Ok(())
    }

    fn open(&mut self) {
        self.trace.start(Step::Connect);
        self.state = State::Opening(transport::open(&self.spec.url.endpoint));
    }

    fn begin_stream(&mut self, link: Link) -> Result<(), Cause> {
        self.phase = ErrorPhase::Request;
        self.watch.enter(Phase::Head, self.client.clock.now());
        if let Some(signer) = self.spec.signer.take() {
            signer.sign(&mut self.spec);
        }
        let exchange = H2Exchange::new(link, &mut self.spec)?;
        self.trace.start(Step::Send);
        if exchange.is_sent() {
            self.phase = ErrorPhase::Head;
            self.trace.complete(Step::Send);
            self.trace.start(Step::Head);
        }
        self.spec.headers = Vec::new();
        self.state = State::Exchange(Box::new(Carrier::Http2(Box::new(exchange))));
        Ok(())
    }

    fn begin_exchange(&mut self, io: Io, opened: Option<u64>) -> Result<(), Cause> {
        let now = self.client.clock.now();
        self.phase = ErrorPhase::Request;
        self.watch.enter(Phase::Head, now);
        if let Some(signer) = self.spec.signer.take() {
            signer.sign(&mut self.spec);
        }
        let carrier = if self.spec.url.websocket {
            WsExchange::new(io, &mut self.spec, opened, now).map(|ws| Carrier::WebSocket(Box::new(ws)))
        } else {
            Exchange::new(io, &mut self.spec).map(Carrier::Http)
        };
        match carrier {
            Ok(exchange) => {
                self.trace.start(Step::Send);
                // They may hold a secret and are sent: the stream does not carry them along.
                self.spec.headers = Vec::new();
                self.state = State::Exchange(Box::new(exchange));
                Ok(())
            }
            Err((error, io)) => {
                // Nothing was sent: the connection is as good as before.
                self.client.pool().put(&self.spec.url.endpoint, io, now, None);
                Err(Cause::Unsendable(error))
            }
        }
    }

    fn wait<T>(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        if let State::Exchange(exchange) = &self.state
            && let Some(within) = exchange.within()
        {
            self.watch.talks(self.client.clock.now(), within);
        }
        self.watch.wait(cx.waker());
        match self.watch.expired() {
            Some(cause) => Poll::Ready(Err(self.fail(cause))),
            None => Poll::Pending,
        }
    }

    /// The body is over, or the owner needs no more of it.
    fn finish(&mut self) {
        self.trace.complete(Step::Body);
        let now = self.client.clock.now();
        self.watch.enter(Phase::Over, now);
        if let State::Exchange(exchange) = std::mem::replace(&mut self.state, State::Over) {
            (self.sent, self.received) = (exchange.sent(), exchange.received());
            let endpoint = &self.spec.url.endpoint;
            match exchange.into_reusable() {
                Some(Reusable::Http(io, rest)) => self.client.pool().put(endpoint, io, now, rest),
                Some(Reusable::Stream(rest)) => self.client.links().put_draining(rest, now),
                Some(Reusable::WebSocket(io, opened)) => self.client.pool().put_session(endpoint, io, now, opened),
                None => {}
            }
        }
    }

    fn fail(&mut self, cause: Cause) -> Failure {
        (self.sent, self.received) = (self.bytes_sent(), self.bytes_received());
        self.trace.fail();
        self.watch.enter(Phase::Over, self.client.clock.now());
        // Closes the connection.
        self.state = State::Over;
        self.entry = None;
        let unprocessed = cause == Cause::Unprocessed;
        Failure {
            kind: cause.kind(self.phase),
            phase: self.phase,
            cause,
            bytes_sent: self.sent,
            bytes_received: self.received,
            reused_socket: self.reused || unprocessed,
            proxy: self.spec.url.endpoint.proxy.clone().filter(|_| self.phase == ErrorPhase::Connect),
        }
    }
}
