//! A client's WebSocket (Responses): its requests by lanes, each answered as one over HTTP would be.
//!
//! 1. The policy admits the connection once, before the switch, and is asked for each request as ever.
//! 2. In a named lane a request waits for the one before it. Who names no lane is told at once that he asks too early (409).
//! 3. Answers of different lanes are given at the same time, each with an upstream of its own, within one task. What
//!    holds one of them up, or ends it, is nothing to the others.
//! 4. A request that goes on from an answer gets that answer's items from here; nothing outlives the connection, and
//!    all that it holds is bounded by multiples of a request's body (`limits.rs`).
//! 5. The gateway pings a silent client, and ends a connection that gives no sign, that stops within a message, or that
//!    has had its life: answers under way end first then.
//! 6. When the connection ends, what is under way is cancelled and settled, and what waits was never asked.
//!
//! No upstream may be touched here: `exchange.rs` does.

use std::future::{Future, poll_fn};
use std::mem::take;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use headrace_codec::encode::{Encoder, EncoderConfig, refusal};
use headrace_codec::event::{At, FinishReason};
use headrace_codec::framing;
use headrace_codec::framing::sse::Sse;
use headrace_codec::request::session::{Asks, Frame, Session, asks, not_steered};
use headrace_codec::request::{Facts, RequestError, inspect};
use headrace_codec::{Event, Protocol, Text};
use headrace_http1::websocket::{self, Opcode};
use tokio::time::Instant;

use crate::answer::Manner;
use crate::client::{Alarm, ClientSocket, Gone, with_scratch};
use crate::connection::{Next, flush};
use crate::exchange::{Exchange, admitted};
use crate::lane::{ClientLane, Line, Told};
use crate::limits;
use crate::listener::Worker;
use crate::policy::Refusal;
use crate::queue::{Queue, Waiting};
use crate::recipient::Recipient;
use crate::request::{ClientRequest, Head, Operation};
use crate::talk::{self, Talk};

/// Asks whether this client may talk at all. A refusal is answered over HTTP.
pub(crate) async fn may_talk(
    worker: &Rc<Worker>,
    client: &mut ClientSocket,
    head: &Head,
    peer: SocketAddr,
) -> Result<Result<(), Refusal>, Gone> {
    let request = ClientRequest::new(worker.request_id(), head.clone(), peer, Facts::default(), Vec::new());
    admitted(worker, Recipient::Socket(client), Arc::new(request)).await
}

/// One client's conversation.
pub(crate) struct Conversation {
    worker: Rc<Worker>,
    line: Rc<Line>,
    /// Of each request, but for its body.
    head: Head,
    peer: SocketAddr,
    talk: Talk,
    /// To be said to the client by nobody's lane in particular.
    told: Vec<u8>,
    /// Where the last of what was told stands among all that the client was given, and how much of it may still lie.
    told_to: u64,
    told_len: usize,
    queue: Queue,
    session: Session,
    running: Vec<Running>,
    /// Who is polled first: all in turn.
    turn: usize,
    signs: Signs,
    /// No more answers are begun; with this code it ends.
    closing: Option<u16>,
}

/// An answer under way.
struct Running {
    lane: Option<Rc<str>>,
    request: Arc<ClientRequest>,
    /// Of the request, for the turn after this one.
    items: Vec<u8>,
    told: Rc<Told>,
    work: Work,
}

/// Gives the id and the output of an answer that ended well.
type Work = Pin<Box<dyn Future<Output = Option<(String, Vec<u8>)>>>>;

/// The signs of life that a client gives.
struct Signs {
    /// It was last heard.
    heard: Instant,
    /// A message under way last grew, and how long it was then.
    grew: Instant,
    partial: Option<usize>,
    /// It last took bytes, and how many it had then.
    took: Instant,
    total: u64,
    /// It was pinged, and has given no sign since.
    pinged: Option<Instant>,
    /// The connection's end.
    until: Instant,
}

impl Conversation {
    /// The switch was answered.
    pub(crate) fn new(worker: Rc<Worker>, client: ClientSocket, mut head: Head, peer: SocketAddr) -> Conversation {
        head.operation = Operation::Generate;
        "POST".clone_into(&mut head.method);
        let limit = worker.config.body_limit;
        let now = Instant::now();
        let until = now + worker.config.pace.conversation;
        Conversation {
            worker,
            line: Rc::new(Line::new(client)),
            head,
            peer,
            talk: Talk::new(limit),
            told: Vec::new(),
            told_to: 0,
            told_len: 0,
            queue: Queue::new(limit),
            session: Session::new(limit),
            running: Vec::new(),
            turn: 0,
            signs: Signs { heard: now, grew: now, partial: None, took: now, total: 0, pinged: None, until },
            closing: None,
        }
    }

    /// Talks until the end. Gives the connection back where the client is to see its end in order.
    pub(crate) async fn run(mut self, mut alarm: Alarm) -> Option<(ClientSocket, Alarm)> {
        let worker = Rc::clone(&self.worker);
        let mut drained = pin!(worker.drained.notified());
        let next = poll_fn(|cx| {
            if self.closing.is_none() && (worker.draining.get() || drained.as_mut().poll(cx).is_ready()) {
                self.closing = Some(GOING_AWAY);
                self.queue.drain();
            }
            self.poll(cx, &mut alarm)
        })
        .await;
        // What is under way ends here, and lets go of the line.
        self.running.clear();
        let mut client = Rc::into_inner(self.line)?.socket.into_inner();
        if next == Next::Drop {
            return None;
        }
        // The rest, the farewell mostly.
        let wait = worker.config.pace.stalled.min(limits::LINGER);
        flush(&mut client, &mut alarm, wait).await.ok()?;
        Some((client, alarm))
    }

    fn poll(&mut self, cx: &mut Context<'_>, alarm: &mut Alarm) -> Poll<Next> {
        loop {
            let deaf = self.is_full();
            if let Err(Gone) = self.listen(cx) {
                return Poll::Ready(Next::Drop);
            }
            self.begin();
            self.line.waits.set(u64::MAX);
            self.line.again.set(false);
            let ended = self.work(cx);
            self.say();
            let flushed = self.line.socket.borrow_mut().poll_flush(cx);
            if self.talk.over {
                return Poll::Ready(Next::Close);
            }
            if let Poll::Ready(Err(Gone)) = flushed {
                return Poll::Ready(Next::Drop);
            }
            // Another lane, or this flush, may have sent out what a lane waited for.
            let freed = self.line.socket.borrow().total() >= self.line.waits.get();
            if ended || freed || self.line.again.get() || deaf && !self.is_full() {
                continue;
            }
            if let Some(code) = self.closing.filter(|_| self.running.is_empty()) {
                if code == LIFE_OVER {
                    self.tell(None, &life_over());
                }
                self.talk.close(code, &mut self.told);
                self.say();
                return Poll::Ready(Next::Close);
            }
            match self.timers(cx, alarm) {
                Poll::Ready(Some(next)) => return Poll::Ready(next),
                Poll::Ready(None) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether the client has left so much of what it was told that it is not listened to.
    fn is_full(&mut self) -> bool {
        if self.line.socket.borrow().total() >= self.told_to {
            self.told_len = 0;
        }
        self.told_len >= limits::UNSENT_TALK
    }

    /// Takes all that the client has sent.
    fn listen(&mut self, cx: &mut Context<'_>) -> Result<(), Gone> {
        while !self.talk.over && !self.is_full() {
            let ahead = take(&mut self.line.socket.borrow_mut().ahead);
            if !ahead.is_empty() {
                let left = self.hear(&ahead);
                self.line.socket.borrow_mut().ahead = ahead[left..].to_vec();
                continue;
            }
            let line = Rc::clone(&self.line);
            let read = with_scratch(|scratch| {
                // Borrowed for the read alone: what is heard may be answered at once.
                let Poll::Ready(read) = line.socket.borrow_mut().poll_read(cx, scratch) else { return Ok(false) };
                let n = read.ok().filter(|n| *n > 0).ok_or(Gone)?;
                self.signs.heard = Instant::now();
                self.signs.pinged = None;
                let used = self.hear(&scratch[..n]);
                line.socket.borrow_mut().ahead.extend_from_slice(&scratch[used..n]);
                Ok(true)
            })?;
            if !read {
                break;
            }
        }
        Ok(())
    }

    /// Takes messages off the front of `bytes`, and says how many bytes they had.
    fn hear(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while let Some(message) = self.talk.next(&mut rest, &mut self.told) {
            self.signs.partial = None;
            self.ask(message);
        }
        // Not pings that come within it.
        if self.talk.partial() != self.signs.partial {
            (self.signs.partial, self.signs.grew) = (self.talk.partial(), self.signs.heard);
        }
        self.say();
        bytes.len() - rest.len()
    }

    /// Lets what is told go out with the next write.
    fn say(&mut self) {
        if !self.told.is_empty() {
            let mut line = self.line.socket.borrow_mut();
            line.stage(|out| out.extend_from_slice(&self.told));
            self.told_len += self.told.len();
            self.told_to = line.staged();
            self.told = Vec::new();
        }
    }

    fn ask(&mut self, message: Vec<u8>) {
        match asks(&message) {
            Ok(Asks::Note) => {}
            Ok(Asks::Steer { previous, input }) => self.steer(&previous, &input),
            Ok(Asks::Answer { lane, previous }) => {
                let pushed = match self.closing {
                    None if lane.is_none() && self.answers_unnamed() => Err(in_progress()),
                    None => self.queue.push(lane.as_deref(), previous, message),
                    Some(LIFE_OVER) => Err(life_over()),
                    Some(_) => return,
                };
                if let Err(error) = pushed {
                    self.refuse(lane.as_deref(), &error);
                }
            }
            Err(error) => self.refuse(None, &error),
        }
    }

    /// Whether the default lane has a request whose answer has not come to its end.
    fn answers_unnamed(&self) -> bool {
        let runs = |running: &Running| running.lane.is_none() && !running.told.end.get();
        self.queue.holds_unnamed() || self.running.iter().any(runs)
    }

    /// Nobody is steered: it would let the gateway ask a model once more by itself, without the policy's word.
    fn steer(&mut self, previous: &str, input: &[u8]) {
        let running = self.running.iter().find(|running| running.told.id.get().is_some_and(|id| id == previous));
        let (code, message) = match running {
            Some(_) => ("steering_not_supported", "this gateway steers no answer; send the input in the next turn"),
            None if self.session.holds(previous) => ("response_already_completed", "that answer is complete"),
            None => ("response_not_found", "this connection knows no such answer"),
        };
        let lane = running.and_then(|running| running.lane.clone());
        talk::event(&not_steered(code, message, previous, input), lane.as_deref(), &mut self.told);
    }

    /// Refuses a request that the policy has not heard of.
    fn refuse(&mut self, lane: Option<&str>, error: &RequestError) {
        self.worker.counts.refuse(error.status);
        self.tell(lane, error);
    }

    fn tell(&mut self, lane: Option<&str>, error: &RequestError) {
        let (code, param) = (error.code, error.param.as_deref());
        let reply = refusal(Protocol::OpenaiResponses, error.status, code, &error.message, param);
        talk::error(reply.status, &[], &reply.body, lane, &mut self.told);
    }

    /// Begins what may begin.
    fn begin(&mut self) {
        while self.closing.is_none() && self.running.len() < limits::IN_FLIGHT && !self.is_full() {
            let held: usize = self.running.iter().map(Running::weight).sum();
            let room = (limits::BODIES * self.worker.config.body_limit).saturating_sub(held);
            let (session, alone) = (&self.session, self.running.is_empty());
            let may = |waiting: &Waiting| {
                // The body, and its items for the turn after it.
                alone || 2 * (waiting.message.len() + session.weight(waiting.previous.as_deref())) <= room
            };
            let Some(Waiting { lane, message, .. }) = self.queue.take(may) else { return };
            let begun = match self.session.frame(&message) {
                Ok(Frame::Create { body, items }) => {
                    drop(message);
                    self.answer(lane.clone(), body, items)
                }
                Ok(Frame::WarmUp { body, items }) => {
                    let id = self.warm_up(lane.as_deref(), &body);
                    self.session.answered(lane.as_deref(), id, &items, b"");
                    self.queue.done(lane.as_ref());
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = begun {
                self.refuse(lane.as_deref(), &error);
                self.queue.done(lane.as_ref());
            }
            self.say();
        }
    }

    fn answer(&mut self, lane: Option<Rc<str>>, body: Vec<u8>, items: Vec<u8>) -> Result<(), RequestError> {
        let facts = inspect(&body, Protocol::OpenaiResponses)?;
        let worker = Rc::clone(&self.worker);
        let request = ClientRequest::new(worker.request_id(), self.head.clone(), self.peer, facts, body);
        let request = Arc::new(request);
        let told = Rc::new(Told::default());
        let mut client =
            ClientLane::new(Rc::clone(&self.line), lane.clone(), worker.config.body_limit, Rc::clone(&told));
        let asked = Arc::clone(&request);
        let work = Box::pin(async move {
            let exchange = Exchange {
                worker,
                client: Recipient::Lane(&mut client),
                alarm: &mut Alarm::default(),
                request: asked,
                manner: Manner { close: false, bodiless: false },
                http10: false,
                whole: Instant::now(),
            };
            // What became of the connection is for the conversation to see.
            let _ = exchange.run().await;
            client.into_ended()
        });
        self.running.push(Running { lane, request, items, told, work });
        Ok(())
    }

    /// Goes on with every answer, another one first each time. `true`: one has ended.
    fn work(&mut self, cx: &mut Context<'_>) -> bool {
        let count = self.running.len();
        self.turn = self.turn.wrapping_add(1);
        let mut ended = Vec::new();
        for n in 0..count {
            let at = (self.turn + n) % count;
            self.line.turn.set(if count > 1 { limits::READ_FIRST } else { usize::MAX });
            if let Poll::Ready(answered) = self.running[at].work.as_mut().poll(cx) {
                ended.push((at, answered));
            }
        }
        ended.sort_unstable_by_key(|(at, _)| usize::MAX - at);
        let any = !ended.is_empty();
        for (at, answered) in ended {
            let Running { lane, items, .. } = self.running.remove(at);
            self.queue.done(lane.as_ref());
            if let Some((id, output)) = answered {
                self.session.answered(lane.as_deref(), id, &items, &output);
            }
        }
        any
    }

    /// An answer without a model: an id to go on from.
    fn warm_up(&mut self, lane: Option<&str>, body: &[u8]) -> String {
        let id = format!("resp_{}", self.worker.request_id().trim_start_matches("req_"));
        let model = inspect(body, Protocol::OpenaiResponses).ok().and_then(|facts| facts.model).unwrap_or_default();
        let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let mut encoder = Encoder::new(EncoderConfig {
            model: model.clone(),
            response_id: id.clone(),
            created,
            request: Some(body.to_vec()),
            ..EncoderConfig::new(Protocol::OpenaiResponses)
        });
        let mut out = Vec::new();
        let started = Event::Started { model: Some(Text::from(model.as_str())), response_id: None, request_id: None };
        encoder.event(At { seq: 0, offset: 0 }, &started, &mut out);
        let finished = Event::Finished { reason: FinishReason::Stop, raw_reason: None };
        encoder.event(At { seq: 1, offset: 0 }, &finished, &mut out);
        encoder.finish(&mut out);
        let told = &mut self.told;
        let each = &mut |event: framing::Frame<'_>| {
            talk::event(event.data.unwrap_or_default(), lane, told);
            true
        };
        // Events that were just written are not longer than any may be.
        let _ = Sse::default().feed(&out, each);
        id
    }

    /// The times at which something is due without a byte having come. `Ready(None)`: something is to be said.
    fn timers(&mut self, cx: &mut Context<'_>, alarm: &mut Alarm) -> Poll<Option<Next>> {
        let pace = self.worker.config.pace;
        let now = Instant::now();
        let (total, clear) = {
            let line = self.line.socket.borrow();
            (line.total(), line.is_clear())
        };
        let signs = &mut self.signs;
        if total > signs.total {
            (signs.total, signs.took, signs.pinged) = (total, now, None);
        }
        let mut due = now + pace.conversation;
        if self.closing.is_none() {
            if now >= signs.until {
                self.closing = Some(LIFE_OVER);
                for lane in self.queue.drain() {
                    self.refuse(lane.as_deref(), &life_over());
                }
                return Poll::Ready(None);
            }
            due = signs.until;
        }
        if !clear {
            let stalled = signs.took + pace.stalled;
            if now >= stalled {
                return Poll::Ready(Some(Next::Drop));
            }
            due = due.min(stalled);
        } else if let Some(pinged) = signs.pinged {
            let lost = pinged + pace.pong;
            if now >= lost {
                self.talk.close(LOST, &mut self.told);
                return Poll::Ready(None);
            }
            due = due.min(lost);
        } else {
            let ping = signs.heard.max(signs.took) + pace.ping;
            if now >= ping {
                let mut line = self.line.socket.borrow_mut();
                line.stage(|out| websocket::write(out, Opcode::Ping, b"", None));
                // That it goes out is no sign of life.
                (signs.pinged, signs.total) = (Some(now), line.staged());
                return Poll::Ready(None);
            }
            due = due.min(ping);
        }
        // Silence counts only while it is listened to.
        if signs.partial.is_some() && self.told_len < limits::UNSENT_TALK {
            let late = signs.grew + pace.body_silence;
            if now >= late {
                let message = "the message did not come in time".into();
                self.refuse(None, &RequestError { status: 408, code: "request_timeout", param: None, message });
                self.talk.close(LATE, &mut self.told);
                return Poll::Ready(None);
            }
            due = due.min(late);
        }
        alarm.poll(cx, due).map(|()| None)
    }
}

impl Running {
    /// Bytes of the request that it holds.
    fn weight(&self) -> usize {
        self.items.len() + self.request.body().map_or(0, |body| body.len())
    }
}

fn in_progress() -> RequestError {
    let message = "an answer is being given; wait for its end, or name lanes by stream_id to have requests wait".into();
    RequestError { status: 409, code: "response_in_progress", param: None, message }
}

fn life_over() -> RequestError {
    let message = "this connection has had its time; open another".into();
    RequestError { status: 400, code: "websocket_connection_limit_reached", param: None, message }
}

/// An ordinary end.
const LIFE_OVER: u16 = 1000;
const GOING_AWAY: u16 = 1001;
/// A message that stops in the middle.
const LATE: u16 = 1008;
/// A client that gives no sign.
const LOST: u16 = 1011;
