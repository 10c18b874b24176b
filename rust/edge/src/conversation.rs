//! A client's WebSocket (Responses): its requests one after the other, each answered as one over HTTP would be.
//!
//! 1. The policy admits the connection once, before the switch, and is asked for each request as ever.
//! 2. A request that goes on from the answer before it gets that answer's items from here; nothing outlives the
//!    connection, and no more is held than a request's body may have.
//! 3. The gateway pings, and ends a connection after its life: an answer under way ends first.
//!
//! No upstream may be touched here: `exchange.rs` does.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::SystemTime;

use headrace_codec::encode::{Encoder, EncoderConfig};
use headrace_codec::event::{At, FinishReason};
use headrace_codec::request::session::{Frame, Session};
use headrace_codec::request::{RequestError, inspect};
use headrace_codec::{Event, Protocol, Text};
use headrace_http1::websocket::{self, Opcode};
use tokio::time::Instant;

use crate::answer::Manner;
use crate::client::{Alarm, ClientSocket, Framing, Gone};
use crate::connection::{Next, flush};
use crate::exchange::{Exchange, admitted};
use crate::listener::Worker;
use crate::policy::Refusal;
use crate::request::{ClientRequest, Head};
use crate::talk::{self, Talk};

/// One client's conversation.
pub(crate) struct Conversation<'a> {
    pub worker: Rc<Worker>,
    pub client: &'a mut ClientSocket,
    pub alarm: &'a mut Alarm,
    pub head: Head,
    pub peer: SocketAddr,
}

/// What a wait for the client's next message came to.
enum Heard {
    Message(Vec<u8>),
    Gone,
    /// The connection's time is up, or the gateway stops.
    Over(u16),
}

impl Conversation<'_> {
    /// Asks whether this client may talk at all. A refusal is answered over HTTP.
    pub(crate) async fn may(&mut self) -> Result<Result<(), Refusal>, Gone> {
        let facts = headrace_codec::request::Facts::default();
        let request = ClientRequest::new(self.worker.request_id(), self.head.clone(), self.peer, facts, Vec::new());
        admitted(&self.worker, self.client, Arc::new(request)).await
    }

    /// Talks until the end. The switch was answered.
    pub(crate) async fn run(mut self) -> Next {
        self.client.talk = Some(Box::new(Talk::new(self.worker.config.body_limit)));
        self.head.operation = crate::request::Operation::Generate;
        "POST".clone_into(&mut self.head.method);
        let mut session = Session::default();
        let until = Instant::now() + self.worker.config.pace.conversation;
        loop {
            match self.next(until).await {
                Heard::Gone => return self.bye().await,
                Heard::Over(code) => {
                    if code == LIFE_OVER {
                        let message = "this connection has had its time; open another";
                        self.refuse(&RequestError {
                            status: 400,
                            code: "websocket_connection_limit_reached",
                            param: None,
                            message: message.into(),
                        });
                    }
                    self.client.close_talk(code);
                    return self.bye().await;
                }
                Heard::Message(message) => match session.frame(&message) {
                    Ok(Frame::Note) => {}
                    Ok(Frame::WarmUp { body, items }) => {
                        let id = self.warm_up(&body);
                        session.answered(id, &items, b"", self.worker.config.body_limit);
                    }
                    Ok(Frame::Create { body, items }) => {
                        drop(message);
                        match self.answer(body).await {
                            Next::Drop => return Next::Drop,
                            Next::Keep | Next::Close => {}
                        }
                        if let Some((id, output)) = self.client.talk.as_mut().and_then(|talk| talk.end()) {
                            session.answered(id, &items, &output, self.worker.config.body_limit);
                        }
                    }
                    Err(error) => self.refuse(&error),
                },
            }
            if flush(self.client, self.alarm, self.worker.config.pace.stalled).await.is_err() {
                return Next::Drop;
            }
        }
    }

    /// Waits for a message; pings a silent client.
    async fn next(&mut self, until: Instant) -> Heard {
        let worker = Rc::clone(&self.worker);
        let mut ping = Instant::now() + worker.config.pace.ping;
        let mut drained = pin!(worker.drained.notified());
        poll_fn(|cx| {
            loop {
                if let Some(message) = self.client.take_message() {
                    return Poll::Ready(Heard::Message(message));
                }
                if self.client.poll_gone(cx).is_ready() {
                    return Poll::Ready(Heard::Gone);
                }
                if self.client.has_message() {
                    continue;
                }
                if worker.draining.get() || drained.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Heard::Over(GOING_AWAY));
                }
                if !self.client.is_clear() {
                    match self.client.poll_flush(cx) {
                        Poll::Ready(Err(Gone)) => return Poll::Ready(Heard::Gone),
                        Poll::Pending if Instant::now() >= until => return Poll::Ready(Heard::Gone),
                        // It may not have been listened to until now.
                        Poll::Ready(Ok(())) => continue,
                        Poll::Pending => {}
                    }
                }
                if self.alarm.poll(cx, ping.min(until)).is_pending() {
                    return Poll::Pending;
                }
                if Instant::now() >= until {
                    return Poll::Ready(Heard::Over(LIFE_OVER));
                }
                ping = Instant::now() + worker.config.pace.ping;
                // A client that does not take the last one gets no other.
                if self.client.is_clear() {
                    self.client.stage(|out| websocket::write(out, Opcode::Ping, b"", None));
                }
            }
        })
        .await
    }

    /// Sends out the rest, the farewell mostly.
    async fn bye(&mut self) -> Next {
        let wait = self.worker.config.pace.stalled.min(crate::limits::LINGER);
        if flush(self.client, self.alarm, wait).await.is_err() { Next::Drop } else { Next::Close }
    }

    async fn answer(&mut self, body: Vec<u8>) -> Next {
        let facts = match inspect(&body, Protocol::OpenaiResponses) {
            Ok(facts) => facts,
            Err(error) => {
                self.refuse(&error);
                return Next::Keep;
            }
        };
        if let Some(talk) = &mut self.client.talk {
            talk.begin();
        }
        let id = self.worker.request_id();
        let exchange = Exchange {
            worker: Rc::clone(&self.worker),
            client: self.client,
            alarm: self.alarm,
            request: Arc::new(ClientRequest::new(id, self.head.clone(), self.peer, facts, body)),
            manner: Manner { close: false, bodiless: false },
            http10: false,
            whole: Instant::now(),
        };
        Box::pin(exchange.run()).await
    }

    /// An answer without a model: an id to go on from.
    fn warm_up(&mut self, body: &[u8]) -> String {
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
        // A client that is gone is seen by who waits for its next message.
        let _ = self.client.send(Framing::Plain, &[&out], false);
        id
    }

    fn refuse(&mut self, error: &RequestError) {
        let (code, param) = (error.code, error.param.as_deref());
        let reply =
            headrace_codec::encode::refusal(Protocol::OpenaiResponses, error.status, code, &error.message, param);
        self.client.stage(|out| talk::error(reply.status, &[], &reply.body, out));
    }
}

/// An ordinary end.
const LIFE_OVER: u16 = 1000;
const GOING_AWAY: u16 = 1001;
