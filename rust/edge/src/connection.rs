//! One client's connection: its requests one after the other, each read, checked and answered.
//!
//! 1. What is wrong with a head or a body is answered in the client's format; if bytes of the request are still to
//!    come, the connection ends with the answer, since where the next request starts is then unknown.
//! 2. Requests that were sent ahead wait until the answer before them is out.
//! 3. Between two requests a connection holds no buffer and no request.
//!
//! No upstream may be touched here: `exchange.rs` does.

use std::future::poll_fn;
use std::mem::take;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use headrace_codec::Protocol;
use headrace_codec::json::is_heavier;
use headrace_codec::limits::MAX_TREE_WEIGHT;
use headrace_codec::request::{Facts, inspect};
use headrace_http1::{BodyDecoder, BodyKind, HeadError, HeadScanner, RequestHead, Version, write};
use headrace_kernel::websocket_accept;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::answer::{self, Manner};
use crate::client::{Alarm, ClientSocket, Gone, with_scratch};
use crate::conversation::{Conversation, may_talk};
use crate::exchange::Exchange;
use crate::gemini;
use crate::limits;
use crate::listener::Worker;
use crate::recipient::Recipient;
use crate::request::{
    ClientRequest, Head, Operation, Problem, Route, format_of, format_of_start, is_form, named_model, route,
};

/// Serves a connection to its end.
pub(crate) async fn serve(worker: Rc<Worker>, socket: TcpStream, peer: SocketAddr) {
    let client = ClientSocket::new(socket);
    let mut connection = Connection { worker, client, alarm: Alarm::default(), peer, switched: None };
    loop {
        match connection.one().await {
            Next::Keep => {}
            Next::Close => return linger(connection.client, connection.alarm).await,
            Next::Drop => return,
        }
        if let Some(head) = connection.switched.take() {
            let Connection { worker, client, alarm, .. } = connection;
            // Boxed, so that an idle connection of another kind does not hold the room of this one.
            let talk = Box::pin(Conversation::new(worker, client, *head, peer).run(alarm));
            if let Some((client, alarm)) = talk.await {
                linger(client, alarm).await;
            }
            return;
        }
    }
}

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Keep,
    /// Ends in order: the client gets to read what was sent.
    Close,
    Drop,
}

struct Connection {
    worker: Rc<Worker>,
    client: ClientSocket,
    alarm: Alarm,
    peer: SocketAddr,
    /// It is a WebSocket from here on, asked for with this head.
    switched: Option<Box<Head>>,
}

/// A request whose head is in order.
#[expect(clippy::struct_excessive_bools, reason = "four facts of a head that do not depend on each other")]
struct Admitted {
    route: Route,
    format: Protocol,
    /// For a request that goes to the policy.
    head: Option<Head>,
    body: BodyKind,
    keep_alive: bool,
    http10: bool,
    expects_continue: bool,
    bodiless: bool,
}

/// A request that is refused, and the format to say it in.
struct Refused {
    problem: Problem,
    format: Protocol,
    bodiless: bool,
    /// Where the next request starts is known.
    keep_alive: bool,
}

enum HeadEnd {
    Whole(usize),
    /// The client is done, or idle for too long.
    Over,
    Refused(Problem),
}

impl Connection {
    async fn one(&mut self) -> Next {
        let head_len = match self.head().await {
            HeadEnd::Whole(len) => len,
            HeadEnd::Over => return Next::Drop,
            HeadEnd::Refused(problem) => {
                let format = format_of_start(&self.client.ahead);
                let refused = Refused { problem, format, bodiless: false, keep_alive: false };
                return self.refuse(&refused).await;
            }
        };
        self.client.origin = self.origin(head_len);
        let admitted = self.admit(head_len);
        self.client.ahead.drain(..head_len);
        if self.client.ahead.is_empty() {
            self.client.ahead = Vec::new();
        }
        match admitted {
            Ok(admitted) => self.answer(admitted).await,
            Err(refused) => self.refuse(&refused).await,
        }
    }

    /// Waits for a whole head at the front of `ahead`.
    async fn head(&mut self) -> HeadEnd {
        let worker = Rc::clone(&self.worker);
        let config = &worker.config;
        let idle_since = Instant::now();
        let mut began = idle_since;
        let mut scanner = HeadScanner::default();
        let mut drained = pin!(worker.drained.notified());
        poll_fn(|cx| {
            loop {
                if !self.client.ahead.is_empty() {
                    match scanner.scan(&self.client.ahead, config.header_limit) {
                        Ok(Some(len)) => return Poll::Ready(HeadEnd::Whole(len)),
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(HeadEnd::Refused(bad_head(error))),
                    }
                } else if worker.draining.get() || drained.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(HeadEnd::Over);
                }
                let fresh = self.client.ahead.is_empty();
                match self.client.poll_fill(cx) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(HeadEnd::Over),
                    Poll::Ready(Ok(_)) if fresh => began = Instant::now(),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Pending if fresh => {
                        let over = self.alarm.poll(cx, idle_since + config.pace.keep_alive);
                        return over.map(|()| HeadEnd::Over);
                    }
                    Poll::Pending => {
                        let late = self.alarm.poll(cx, began + config.header_timeout);
                        return late.map(|()| {
                            HeadEnd::Refused(Problem::new(408, "request_timeout", "the head did not come in time"))
                        });
                    }
                }
            }
        })
        .await
    }

    /// The listed origin in the head in the first `len` bytes of `ahead`. Few gateways list any.
    fn origin(&self, len: usize) -> Option<Box<str>> {
        let guard = &self.worker.config.guard;
        if guard.origins.is_empty() {
            return None;
        }
        let head = RequestHead::parse(&self.client.ahead[..len]).ok()?;
        guard.listed_origin(&head).map(Box::from)
    }

    /// Judges the head in the first `len` bytes of `ahead`.
    fn admit(&self, len: usize) -> Result<Admitted, Refused> {
        let head = RequestHead::parse(&self.client.ahead[..len]).map_err(|error| Refused {
            problem: bad_head(error),
            format: format_of_start(&self.client.ahead[..len]),
            bodiless: false,
            keep_alive: false,
        })?;
        let format = format_of(&head);
        let bodiless = head.method == "HEAD";
        let keep_alive = head.keep_alive && !self.worker.draining.get();
        let refuse =
            |problem| Refused { problem, format, bodiless, keep_alive: keep_alive && head.body == BodyKind::None };
        let route = route(&head, &self.worker.config.guard).map_err(refuse)?;
        if let BodyKind::Length(n) = head.body
            && n > self.worker.config.body_limit as u64
        {
            return Err(refuse(self.too_large()));
        }
        let kept = match route {
            Route::Policy(operation, protocol) => Some(Head::new(&head, operation, protocol)),
            Route::WebSocket => Some(Head::new(&head, Operation::Session, Protocol::OpenaiResponses)),
            _ => None,
        };
        // Nothing here takes a body with GET, so what follows such a head is not read as a request.
        let keep_alive = keep_alive && (head.method == "POST" || head.body == BodyKind::None);
        Ok(Admitted {
            route,
            format,
            head: kept,
            body: head.body,
            keep_alive,
            http10: head.version == Version::Http10,
            expects_continue: head.expects_continue,
            bodiless,
        })
    }

    fn too_large(&self) -> Problem {
        let limit = self.worker.config.body_limit;
        Problem::new(413, "request_too_large", format!("the body is larger than {limit} bytes"))
    }

    async fn answer(&mut self, admitted: Admitted) -> Next {
        let Admitted { route, format, head, body, keep_alive, http10, expects_continue, bodiless } = admitted;
        let manner = Manner { close: !keep_alive, bodiless };
        if route == Route::Preflight {
            let told = PREFLIGHT.iter().map(|(n, v)| (*n, v.as_bytes()));
            answer::stage(Recipient::Socket(&mut self.client), manner, 200, told, b"");
            return self.done(keep_alive).await;
        }
        let Some(head) = head else {
            let (status, text): (u16, &[u8]) = match route {
                Route::Ready if !self.worker.is_ready() => (503, b"{\"status\":\"not ready\"}"),
                _ => (200, b"{\"status\":\"ok\"}"),
            };
            answer::stage(
                Recipient::Socket(&mut self.client),
                manner,
                status,
                [("content-type", &b"application/json"[..])],
                text,
            );
            return self.done(keep_alive).await;
        };
        if route == Route::WebSocket {
            return self.switch(head).await;
        }
        let refuse = |problem, keep_alive| Refused { problem, format, bodiless, keep_alive };
        let id = self.worker.request_id();
        let (facts, bytes) = if head.operation.has_no_body() {
            let asked = (head.operation == Operation::Model).then(|| named_model(&head.path)).flatten();
            (Facts { model: asked, ..Facts::default() }, Vec::new())
        } else {
            if expects_continue && self.client.ahead.is_empty() {
                self.client.stage(|out| out.extend_from_slice(write::CONTINUE));
            }
            let bytes = match self.body(body).await {
                Ok(bytes) => bytes,
                Err(BodyTrouble::Gone) => return Next::Drop,
                Err(BodyTrouble::Refused(problem)) => return self.refuse(&refuse(problem, false)).await,
            };
            let read = if !head.operation.is_model_request() {
                if is_tree(&head) && is_heavier(&bytes, MAX_TREE_WEIGHT) {
                    let message = "the body has more values than any provider takes: send fewer in one request";
                    let problem = Problem::new(413, "request_too_large", message);
                    return self.refuse(&refuse(problem, keep_alive)).await;
                }
                Ok((Facts::default(), bytes))
            } else if head.protocol == Protocol::GoogleGemini {
                gemini::lifted(&head.path, head.query.as_deref(), bytes)
                    .and_then(|bytes| Ok((inspect(&bytes, head.protocol)?, bytes)))
            } else {
                inspect(&bytes, head.protocol).map(|facts| (facts, bytes))
            };
            match read {
                Ok(read) => read,
                Err(error) => {
                    self.worker.counts.refuse(error.status);
                    let reply = headrace_codec::encode::refusal(
                        format,
                        error.status,
                        error.code,
                        &error.message,
                        error.param.as_deref(),
                    );
                    answer::stage_reply(Recipient::Socket(&mut self.client), manner, format, &id, &reply, &[]);
                    return self.done(keep_alive).await;
                }
            }
        };
        let request = Arc::new(ClientRequest::new(id, head, self.peer, facts, bytes));
        let exchange = Exchange {
            worker: Rc::clone(&self.worker),
            client: Recipient::Socket(&mut self.client),
            alarm: &mut self.alarm,
            request,
            manner,
            http10,
            whole: Instant::now(),
        };
        // Boxed, so that an idle connection does not hold the room of a busy one.
        let next = Box::pin(exchange.run()).await;
        if next == Next::Keep { self.done(keep_alive).await } else { next }
    }

    /// Switches to a WebSocket, if this client may.
    async fn switch(&mut self, head: Head) -> Next {
        let key = head.headers.iter().find(|(name, _)| name == "sec-websocket-key");
        let accept = websocket_accept(&String::from_utf8_lossy(key.map_or(&[], |(_, key)| key)));
        match may_talk(&self.worker, &mut self.client, &head, self.peer).await {
            Err(Gone) => Next::Drop,
            Ok(Ok(())) => {
                // No extension, whatever was offered.
                self.client.stage(|out| write::switching(out, &accept));
                self.switched = Some(Box::new(head));
                Next::Keep
            }
            Ok(Err(refusal)) => {
                let (code, param) = (refusal.code.as_str(), refusal.param.as_deref());
                let format = Protocol::OpenaiResponses;
                let reply = headrace_codec::encode::refusal(format, refusal.status, code, &refusal.message, param);
                let id = self.worker.request_id();
                let manner = Manner { close: true, bodiless: false };
                answer::stage_reply(Recipient::Socket(&mut self.client), manner, format, &id, &reply, &[]);
                self.done(false).await
            }
        }
    }

    async fn refuse(&mut self, refused: &Refused) -> Next {
        let manner = Manner { close: !refused.keep_alive, bodiless: refused.bodiless };
        self.worker.counts.refuse(refused.problem.status);
        let id = self.worker.request_id();
        answer::stage_problem(Recipient::Socket(&mut self.client), manner, refused.format, &id, &refused.problem);
        self.done(refused.keep_alive).await
    }

    /// Sends out the rest of an answer.
    async fn done(&mut self, keep_alive: bool) -> Next {
        if flush(&mut self.client, &mut self.alarm, self.worker.config.pace.stalled).await.is_err() {
            return Next::Drop;
        }
        if keep_alive && !self.worker.draining.get() { Next::Keep } else { Next::Close }
    }

    /// Reads a request's body, within the limit.
    async fn body(&mut self, kind: BodyKind) -> Result<Vec<u8>, BodyTrouble> {
        flush(&mut self.client, &mut self.alarm, self.worker.config.pace.stalled)
            .await
            .map_err(|Gone| BodyTrouble::Gone)?;
        match kind {
            BodyKind::None | BodyKind::UntilClose => Ok(Vec::new()),
            // Checked against the limit with the head.
            BodyKind::Length(n) => self.body_of(n as usize).await,
            BodyKind::Chunked => self.chunks().await,
        }
    }

    async fn body_of(&mut self, len: usize) -> Result<Vec<u8>, BodyTrouble> {
        let ahead = &mut self.client.ahead;
        let mut body = if ahead.len() <= len { take(ahead) } else { ahead.drain(..len).collect() };
        let silence = self.worker.config.pace.body_silence;
        let mut last = Instant::now();
        poll_fn(|cx| {
            while body.len() < len {
                if body.capacity() == body.len() {
                    // A length is a claim: room grows with what has come.
                    let room = (len - body.len()).min(body.len().max(limits::BODY_RESERVE));
                    body.reserve_exact(room);
                }
                let most = len - body.len();
                match self.client.poll_body(cx, &mut body, most) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(BodyTrouble::Gone)),
                    Poll::Ready(Ok(_)) => last = Instant::now(),
                    Poll::Pending => {
                        return self.alarm.poll(cx, last + silence).map(|()| Err(slow_body()));
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        Ok(body)
    }

    async fn chunks(&mut self) -> Result<Vec<u8>, BodyTrouble> {
        let mut decoder = BodyDecoder::new(BodyKind::Chunked);
        let mut body = Vec::new();
        let limit = self.worker.config.body_limit;
        let silence = self.worker.config.pace.body_silence;
        let mut last = Instant::now();
        let mut input = take(&mut self.client.ahead);
        loop {
            let mut used = 0;
            while used < input.len() && !decoder.is_done() {
                let step = decoder.decode(&input[used..]).map_err(|e| bad_body(e.message()))?;
                body.extend_from_slice(&input[used..][step.data]);
                used += step.consumed;
            }
            if body.len() > limit {
                return Err(BodyTrouble::Refused(self.too_large()));
            }
            if decoder.is_done() {
                input.drain(..used);
                self.client.ahead = input;
                return Ok(body);
            }
            input.clear();
            poll_fn(|cx| {
                let read = with_scratch(|scratch| {
                    self.client.poll_read(cx, scratch).map_ok(|n| input.extend_from_slice(&scratch[..n]))
                });
                match read {
                    Poll::Ready(Ok(())) if !input.is_empty() => Poll::Ready(Ok(())),
                    Poll::Ready(_) => Poll::Ready(Err(BodyTrouble::Gone)),
                    Poll::Pending => self.alarm.poll(cx, last + silence).map(|()| Err(slow_body())),
                }
            })
            .await?;
            last = Instant::now();
        }
    }
}

/// Ends a connection so that the client gets to read the answer: bytes that are still under way would make the kernel
/// reset it.
async fn linger(mut client: ClientSocket, mut alarm: Alarm) {
    client.shutdown();
    let until = Instant::now() + limits::LINGER;
    let mut left = limits::LINGER_BYTES;
    poll_fn(|cx| {
        loop {
            match with_scratch(|scratch| client.poll_read(cx, scratch)) {
                Poll::Ready(Ok(n)) if n > 0 && n < left => left -= n,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return alarm.poll(cx, until),
            }
        }
    })
    .await;
}

/// What a page of a listed origin may send. Keys travel in headers, so nothing is allowed to rest on cookies.
const PREFLIGHT: [(&str, &str); 3] = [
    ("access-control-allow-methods", "GET, POST, OPTIONS"),
    ("access-control-allow-headers", "*, authorization"),
    ("access-control-max-age", "600"),
];

enum BodyTrouble {
    Gone,
    Refused(Problem),
}

fn slow_body() -> BodyTrouble {
    BodyTrouble::Refused(Problem::new(408, "request_timeout", "the body did not come in time"))
}

fn bad_body(message: &str) -> BodyTrouble {
    BodyTrouble::Refused(Problem::new(400, "malformed_http", message))
}

fn bad_head(error: HeadError) -> Problem {
    Problem::new(error.status(), "malformed_http", error.message())
}

/// Whether the policy makes a tree of the body: a form's files it takes as they are.
fn is_tree(head: &Head) -> bool {
    let kind = head.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_slice());
    kind.is_none_or(|value| !is_form(str::from_utf8(value).ok()))
}

/// Sends out what is unsent, as fast as the client takes it.
pub(crate) async fn flush(client: &mut ClientSocket, alarm: &mut Alarm, stalled: Duration) -> Result<(), Gone> {
    let mut total = client.total();
    let mut moved = Instant::now();
    poll_fn(|cx| {
        let flushed = client.poll_flush(cx);
        if flushed.is_ready() {
            return flushed;
        }
        if client.total() != total {
            total = client.total();
            moved = Instant::now();
        }
        alarm.poll(cx, moved + stalled).map(|()| Err(Gone))
    })
    .await
}
