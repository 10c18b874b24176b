//! One exchange over one stream of an HTTP/2 connection, and the connection's driver.
//!
//! 1. Framing, header compression and the protocol's state are the `h2` crate's. Here are its edges: what is sent, what
//!    is asked for, and what a failure means.
//! 2. A stream's window is opened by what its owner took, and by nothing else: a slow client's stream fills its own
//!    window and stops, and the connection's window is large enough for all of them ([`limits::STREAM_WINDOW`]).
//! 3. One task drives a connection: it writes and reads frames for all streams, and pings a peer that owes answers.
//!    It ends with the connection, which ends when nobody holds a stream of it and it is not kept any more (`links`).
//! 4. Dropping an exchange resets its stream and touches no other.
//! 5. Trailers are not read. Pushes are refused.
//!
//! Never add: a second attempt, a choice between connections (`links`), parsing of bodies.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, Reason, RecvStream, SendStream};
use headrace_http1::{BodyError, WriteError, limits as http_limits, write};
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep};

use super::coded::{self, Framed};
use super::http1::Answer;
use super::links::Entry;
use super::secured::Secured;
use crate::content::ContentDecoder;
use crate::failure::Cause;
use crate::limits;
use crate::scratch::Scratch;
use crate::spec::AttemptSpec;

/// What opens streams of one connection.
pub(crate) type Sender = SendRequest<Bytes>;

/// A frame's head.
const FRAME: u64 = 9;
/// A frame that resets a stream.
const RESET: u64 = FRAME + 4;
/// Headers that are no secret: the connection's compression may remember them.
const KNOWN: [&str; 5] = ["accept", "accept-encoding", "content-length", "content-type", "user-agent"];

/// A connection that is open: what opens streams of it, and how many there are.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) sender: Sender,
    pub(crate) open: Arc<AtomicUsize>,
}

/// A stream's place among those of its connection.
struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The connection beneath, as the library wants it.
struct Under(Box<Secured>);

impl AsyncRead for Under {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let n = ready!(self.0.poll_read(cx, buf.initialize_unfilled()))?;
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Under {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_shutdown(cx)
    }
}

pub(crate) type Greeting = Pin<Box<dyn Future<Output = Result<Link, Cause>> + Send>>;

/// Begin to speak HTTP/2, and start the connection's driver. If cancelled: the connection is closed.
pub(crate) fn greet(tls: Box<Secured>, tick: Duration, entry: Entry) -> Greeting {
    Box::pin(async move {
        let mut builder = Builder::new();
        builder
            .initial_window_size(limits::STREAM_WINDOW)
            .initial_connection_window_size(limits::STREAM_WINDOW * limits::STREAMS as u32)
            .data_frame_budget(limits::FRAME_BUDGET)
            .max_header_list_size(http_limits::MAX_HEAD as u32)
            .max_send_buffer_size(limits::SEND_BUFFER)
            .enable_push(false);
        let (sender, connection) = builder.handshake(Under(tls)).await.map_err(|e| cause(&e))?;
        let link = Link { sender, open: Arc::new(AtomicUsize::new(0)) };
        tokio::spawn(drive(connection, Arc::clone(&link.open), tick, (entry, link.clone())));
        Ok(link)
    })
}

/// Drives a connection to its end. A peer that owes answers and does not even answer a ping is dead.
///
/// Others share the connection once its first ping is answered: by then its peer has said how many streams it takes.
async fn drive(mut connection: Connection<Under, Bytes>, open: Arc<AtomicUsize>, tick: Duration, entry: (Entry, Link)) {
    let Some(mut pings) = connection.ping_pong() else { return };
    let mut timer = pin!(sleep(tick * limits::PONG_TICKS));
    let mut asked = pings.send_ping(Ping::opaque()).is_ok();
    let mut entry = Some(entry);
    poll_fn(|cx| {
        if Pin::new(&mut connection).poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            if asked {
                match pings.poll_pong(cx) {
                    Poll::Ready(Ok(_)) => {
                        asked = false;
                        timer.as_mut().reset(Instant::now() + tick * limits::PING_TICKS);
                        if let Some((entry, link)) = entry.take() {
                            entry.share(link);
                        }
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            ready!(timer.as_mut().poll(cx));
            if asked {
                return Poll::Ready(());
            }
            asked = open.load(Relaxed) > 0 && pings.send_ping(Ping::opaque()).is_ok();
            let ticks = if asked { limits::PONG_TICKS } else { limits::PING_TICKS };
            timer.as_mut().reset(Instant::now() + tick * ticks);
        }
    })
    .await;
}

pub(crate) struct H2Exchange {
    response: ResponseFuture,
    out: Option<SendStream<Bytes>>,
    /// Of the request's body, the next piece last.
    pieces: Vec<Bytes>,
    write_failed: bool,
    body: Option<RecvStream>,
    /// Received and not yet asked for. Its window is not opened again before it is.
    rest: Bytes,
    ended: bool,
    failed: Option<Cause>,
    content: Option<Box<ContentDecoder>>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    seat: Seat,
}

/// A stream that was answered and has not ended.
pub(crate) struct Draining {
    body: RecvStream,
    drained: usize,
    _seat: Seat,
}

impl H2Exchange {
    /// Opens a stream. An error leaves the connection as it was.
    pub(crate) fn new(mut link: Link, spec: &mut AttemptSpec) -> Result<Self, Cause> {
        let request = request_of(spec).map_err(Cause::Unsendable)?;
        let mut pieces: Vec<Bytes> = std::mem::take(&mut spec.body).into_iter().filter(|p| !p.is_empty()).collect();
        pieces.reverse();
        let sent = head_size(request.headers().iter().map(|(n, v)| (n.as_str(), v.as_bytes())));
        let (response, out) = link.sender.send_request(request, pieces.is_empty()).map_err(|e| cause(&e))?;
        link.open.fetch_add(1, Relaxed);
        Ok(Self {
            response,
            out: (!pieces.is_empty()).then_some(out),
            pieces,
            write_failed: false,
            body: None,
            rest: Bytes::new(),
            ended: false,
            failed: None,
            content: None,
            sent,
            received: 0,
            seat: Seat(link.open),
        })
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.out.is_none()
    }

    /// Send on, as far as the peer's windows reach. `Ready(false)` where nothing more can be sent.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        while let Some(out) = &mut self.out {
            let Some(piece) = self.pieces.last_mut() else {
                self.out = None;
                break;
            };
            if out.capacity() == 0 {
                out.reserve_capacity(piece.len().min(limits::SEND_BUFFER));
                if !matches!(ready!(out.poll_capacity(cx)), Some(Ok(_))) {
                    // An answer may explain it; without one, the wait for it fails.
                    self.out = None;
                    self.write_failed = true;
                }
                continue;
            }
            let data = piece.split_to(out.capacity().min(piece.len()));
            if piece.is_empty() {
                self.pieces.pop();
            }
            self.sent += data.len() as u64 + FRAME;
            if out.send_data(data, self.pieces.is_empty()).is_err() {
                self.out = None;
                self.write_failed = true;
            }
        }
        Poll::Ready(!self.write_failed)
    }

    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Cause>> {
        let (head, body) = match ready!(Pin::new(&mut self.response).poll(cx)) {
            Ok(response) => response.into_parts(),
            Err(error) => return Poll::Ready(Err(self.broken(&error))),
        };
        self.received += head_size(head.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())));
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let headers: Vec<_> = head.headers.iter().map(text).collect();
        self.ended = body.is_end_stream();
        let codings: Vec<&str> =
            headers.iter().filter(|(name, _)| name == "content-encoding").map(|(_, value)| value.as_str()).collect();
        if !self.ended {
            self.content = ContentDecoder::new(&codings.join(",")).map_err(Cause::ContentCoding)?.map(Box::new);
        }
        self.body = Some(body);
        Poll::Ready(Ok(Answer { status: head.status.as_u16(), headers }))
    }

    /// As of HTTP/1.1.
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
        if self.is_done() || !ready!(self.poll_framed(cx, scratch, max))? {
            return Poll::Ready(Ok(true));
        }
        Poll::Ready(Ok(self.is_done()))
    }

    /// What is left of a stream whose answer is complete. Dropped at once it would be reset, and peers count that.
    pub(crate) fn into_draining(self) -> Option<Draining> {
        let rests = !self.is_done() && self.failed.is_none() && self.out.is_none() && !self.write_failed;
        let drained = self.rest.len();
        let mut draining = Draining { body: self.body?, drained, _seat: self.seat };
        // It is not kept any longer.
        let _ = draining.body.flow_control().release_capacity(drained);
        rests.then_some(draining)
    }

    fn broken(&mut self, error: &h2::Error) -> Cause {
        let cause = cause(error);
        if error.is_reset() && error.is_remote() && cause != Cause::Unprocessed {
            // The peer has answered, in its way.
            self.received += RESET;
        }
        cause
    }
}

impl Framed for H2Exchange {
    fn poll_framed(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch, max: usize) -> Poll<Result<bool, Cause>> {
        scratch.clear();
        let max = max.clamp(1, scratch.raw.len());
        let mut n = 0;
        while let Some(body) = &mut self.body
            && n < max
        {
            if self.rest.is_empty() {
                if self.ended || self.failed.is_some() {
                    break;
                }
                match body.poll_data(cx) {
                    Poll::Ready(Some(Ok(data))) => {
                        self.received += data.len() as u64 + FRAME;
                        self.rest = data;
                    }
                    Poll::Ready(None) => self.ended = true,
                    Poll::Ready(Some(Err(error))) => self.failed = Some(self.broken(&error)),
                    Poll::Pending if n == 0 => return Poll::Pending,
                    Poll::Pending => break,
                }
                continue;
            }
            let taken = self.rest.len().min(max - n);
            self.rest.copy_to_slice(&mut scratch.raw[n..n + taken]);
            n += taken;
            // It fails where the stream is over, and then there is no window to open.
            let _ = body.flow_control().release_capacity(taken);
            self.ended = self.rest.is_empty() && body.is_end_stream();
        }
        if n > 0 {
            scratch.pieces.push(0..n);
            return Poll::Ready(Ok(true));
        }
        match self.failed.take() {
            Some(cause) => Poll::Ready(Err(cause)),
            None => Poll::Ready(Ok(false)),
        }
    }

    fn is_done(&self) -> bool {
        self.ended && self.rest.is_empty()
    }

    fn finish(&mut self) -> Result<(), Cause> {
        if self.ended { Ok(()) } else { Err(Cause::Body(BodyError::Truncated)) }
    }
}

impl Draining {
    /// Whether it has ended, or brings more than the end of a body.
    pub(crate) fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            if self.body.is_end_stream() || self.drained > limits::DRAIN_BYTES {
                return true;
            }
            match self.body.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) => {
                    self.drained += data.len();
                    let _ = self.body.flow_control().release_capacity(data.len());
                }
                Poll::Ready(_) => return true,
                Poll::Pending => return false,
            }
        }
    }
}

fn request_of(spec: &AttemptSpec) -> Result<Request<()>, WriteError> {
    let method = Method::from_bytes(spec.method.as_bytes()).map_err(|_| WriteError::Method)?;
    let uri = Uri::builder().scheme("https").authority(spec.url.authority.as_str());
    let uri = uri.path_and_query(spec.url.target.as_str()).build().map_err(|_| WriteError::Target)?;
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = http::Version::HTTP_2;
    let headers = request.headers_mut();
    let len = spec.body_len();
    if len > 0 || !matches!(spec.method.as_str(), "GET" | "HEAD" | "DELETE") {
        headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(len));
    }
    if spec.headers.len() >= http_limits::MAX_HEADERS {
        return Err(WriteError::TooManyHeaders);
    }
    for (name, value) in &spec.headers {
        if write::is_reserved(name) {
            return Err(WriteError::Reserved);
        }
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| WriteError::HeaderName)?;
        let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| WriteError::HeaderValue)?;
        value.set_sensitive(!KNOWN.contains(&name.as_str()));
        headers.append(name, value);
    }
    Ok(request)
}

/// Bytes of a head as HTTP/2 counts them where it bounds them, less the constant part.
fn head_size<'a>(headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> u64 {
    FRAME + headers.map(|(name, value)| (name.len() + value.len()) as u64).sum::<u64>()
}

/// What a failure of the connection or of a stream is for an attempt.
pub(crate) fn cause(error: &h2::Error) -> Cause {
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    if error.is_remote() && (refused || error.is_go_away()) {
        // Of the streams that it has looked at, a peer that goes away says nothing of the kind.
        return Cause::Unprocessed;
    }
    match (error.get_io(), error.reason()) {
        (Some(io), _) => Cause::Read(io.kind()),
        (None, Some(reason)) => Cause::Http2(reason),
        (None, None) => Cause::Closed,
    }
}
