//! One request that goes to the policy, from the question to the settlement.
//!
//! 1. The policy is asked once, once more per failed attempt, and is told the end once.
//! 2. A client that leaves at any point ends it: what was asked is settled, what was sent is closed.
//! 3. One attempt at a time.
//!
//! No choice of an attempt may be added here.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use headrace_codec::encode::{Reply, error_reply, refusal};
use headrace_codec::error::{ErrorKind, GatewayStatus};
use headrace_codec::event::ErrorPhase;
use headrace_codec::request::RequestError;
use headrace_kernel::Attempt;
use tokio::time::{Instant, sleep};

use crate::answer::{self, Manner};
use crate::client::{Alarm, Gone};
use crate::connection::Next;
use crate::hedge::{Left, Raced, race};
use crate::listener::Worker;
use crate::outcome::{Failed, Outcome};
use crate::policy::{
    Answer, AttemptSpec, Decision, Failure, Gathered, Hedge, Lane, OwnedError, Plan, Policy, Refusal, Relay as Mode,
};
use crate::recipient::Recipient;
use crate::relay::Relay;
use crate::request::{ClientRequest, Operation};
use crate::settle::Ledger;
use crate::terms::Terms;
use crate::upstream::{self, Made};

pub(crate) struct Exchange<'a> {
    pub worker: Rc<Worker>,
    pub client: Recipient<'a>,
    pub alarm: &'a mut Alarm,
    pub request: Arc<ClientRequest>,
    pub manner: Manner,
    pub http10: bool,
    /// The request was whole.
    pub whole: Instant,
}

impl Exchange<'_> {
    /// Runs to the end of the answer. [`Next::Keep`]: an answer is staged or sent, and the connection is in order.
    pub(crate) async fn run(mut self) -> Next {
        match self.decide().await {
            Err(Gone) => Next::Drop,
            Ok(Decision::Plan(plan)) => self.serve(*plan).await,
            Ok(Decision::Answer(answer)) => self.answer(&answer),
            Ok(Decision::Refusal(refusal)) => {
                let reply = self.refusal(&refusal);
                self.tell(&reply, &refusal, &[]);
                Next::Keep
            }
            Ok(Decision::Attempt(_) | Decision::Lost) => {
                let reply = refusal(self.request.protocol, 500, "internal_error", "the gateway failed to decide", None);
                self.stage(&reply, &[]);
                Next::Keep
            }
        }
    }

    async fn decide(&mut self) -> Result<Decision, Gone> {
        let request = Arc::clone(&self.request);
        self.ask(|policy, reply| policy.decide(request, reply)).await
    }

    /// Asks the policy, for as long as the client stays.
    async fn ask(&mut self, ask: impl FnOnce(&dyn Policy, crate::mailbox::Reply)) -> Result<Decision, Gone> {
        let worker = Rc::clone(&self.worker);
        while_there(self.client.reborrow(), worker.desk.ask(ask)).await
    }

    async fn serve(&mut self, plan: Plan) -> Next {
        let total = self.client.total();
        let mut ledger = Ledger::new(&self.worker.policy, plan.token);
        ledger.decided(self.whole);
        let next = self.attempts(plan, &mut ledger).await;
        ledger.account.bytes_to_client = self.client.total() - total;
        next
    }

    async fn attempts(&mut self, plan: Plan, ledger: &mut Ledger) -> Next {
        let Plan { token, mut spec, client_protocol, mut relay } = plan;
        let created = unix_s();
        let made = RefCell::new(Made::default());
        loop {
            if spec.delay > Duration::ZERO && while_there(self.client.reborrow(), sleep(spec.delay)).await.is_err() {
                return Next::Drop;
            }
            let making = made.borrow_mut().make(&self.request, &mut spec.body);
            if let Err(error) = making {
                return self.refuse_body(&error, ledger);
            }
            ledger.account.losses.clone_from(&made.borrow().losses);
            ledger.account.attempts += 1;
            let kernel_spec = upstream::kernel_spec(&mut spec, made.borrow().pieces.clone(), unix_s());
            let begun = kernel_spec.map(|kernel_spec| {
                let attempt = self.worker.kernel.attempt(kernel_spec);
                if spec.fresh_connection { attempt.on_fresh_connection() } else { attempt }
            });
            let mut lane = None;
            let hedge = spec.hedge.take();
            let begun = match (begun, hedge) {
                (Ok(attempt), Some(hedge)) => {
                    // Boxed, so that a stream without a hedge holds no room for two attempts.
                    let raced = Box::pin(self.hedged(attempt, *hedge, &made, ledger)).await;
                    let Ok((raced, other)) = raced else {
                        ledger.gone();
                        return Next::Drop;
                    };
                    lane = raced.lane;
                    if let Some(other) = other {
                        relay = other.relay.unwrap_or(relay);
                        spec = other;
                    }
                    Ok((raced.attempt, Some(raced.head)))
                }
                (begun, _) => begun.map(|attempt| (attempt, None)),
            };
            let terms = Terms {
                request: &self.request,
                spec: &spec,
                relay,
                client_protocol,
                stream: self.request.facts.stream && self.request.operation == Operation::Generate,
                http10: self.http10,
                manner: self.manner,
                created,
                made: &made,
            };
            let outcome = match begun {
                Ok((attempt, head)) => {
                    let (client, alarm) = (self.client.reborrow(), &mut *self.alarm);
                    Relay { worker: &self.worker, terms: &terms, client, alarm, ledger }.run(attempt, head).await
                }
                Err(error) => {
                    ledger.failed((*error).clone());
                    Outcome::Failed(Box::new(Failed::unsent(*error)))
                }
            };
            let failed = match outcome {
                Outcome::Told => return Next::Keep,
                Outcome::Broken | Outcome::Gone => return Next::Drop,
                Outcome::Gathered(status, headers, body) => {
                    return self.read(Gathered { token, status, headers, body }, spec.told, ledger).await;
                }
                Outcome::Failed(failed) => failed,
            };
            let failure = Failure {
                token,
                attempt: ledger.account.attempts - u32::from(lane == Some(Lane::First)),
                error: failed.error.clone(),
                headers: failed.headers.clone(),
                bytes_sent: failed.bytes_sent,
                bytes_received: failed.bytes_received,
                reused_socket: failed.reused_socket,
                lane,
            };
            ledger.account.lane = None;
            match self.ask(|policy, reply| policy.next(failure, reply)).await {
                Err(Gone) => {
                    ledger.gone();
                    return Next::Drop;
                }
                Ok(Decision::Attempt(next)) => {
                    spec = *next;
                    relay = spec.relay.unwrap_or(relay);
                }
                Ok(Decision::Refusal(refusal)) => {
                    self.tell_failure(&refusal, &failed, relay, ledger);
                    return Next::Keep;
                }
                Ok(Decision::Plan(_) | Decision::Answer(_) | Decision::Lost) => {
                    let reply = error_reply(self.request.protocol, &failed.error.as_event());
                    ledger.account.status = reply.status;
                    self.stage(&reply, &failed.passed());
                    return Next::Keep;
                }
            }
        }
    }

    /// An attempt and its hedge, until one has a head. Gives the hedge's spec, too, where it won.
    async fn hedged(
        &mut self,
        attempt: Attempt,
        hedge: Hedge,
        made: &RefCell<Made>,
        ledger: &mut Ledger,
    ) -> Result<(Raced, Option<AttemptSpec>), Gone> {
        let Hedge { after, spec: mut other } = hedge;
        let other_made = RefCell::new(Made::default());
        let (worker, request) = (&self.worker, &self.request);
        let raced = race(self.client.reborrow(), attempt, after, || {
            other_made.borrow_mut().make(request, &mut other.body).ok()?;
            let pieces = other_made.borrow().pieces.clone();
            let begun = worker.kernel.attempt(upstream::kernel_spec(&mut other, pieces, unix_s()).ok()?);
            // Whatever ends the race, this one is known of.
            ledger.account.attempts += 1;
            ledger.account.lane = Some(Lane::Neither);
            Some(begun)
        })
        .await;
        let raced = match raced {
            Ok(raced) => raced,
            Err(Left { sent }) => {
                ledger.account.bytes_sent += sent;
                return Err(Gone);
            }
        };
        let account = &mut ledger.account;
        account.lane = raced.lane;
        account.bytes_sent += raced.other_sent;
        if raced.lane != Some(Lane::Second) {
            return Ok((raced, None));
        }
        made.swap(&other_made);
        account.losses.clone_from(&made.borrow().losses);
        Ok((raced, Some(other)))
    }

    /// The policy makes the client's answer of the provider's.
    /// `told`: what the client is told of the attempt besides.
    async fn read(&mut self, gathered: Gathered, told: Vec<(String, String)>, ledger: &mut Ledger) -> Next {
        let passed = [told, gathered.headers.clone()].concat();
        let decision = self.ask(|policy, reply| policy.read(gathered, reply)).await;
        if let Ok(Decision::Answer(mut answer)) = decision {
            ledger.first_byte(answer.status);
            ledger.account.usage = answer.usage;
            let known = |name: &str| answer.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
            let more: Vec<_> = passed.into_iter().filter(|(n, _)| !known(n)).collect();
            answer.headers.extend(more);
            return self.answer(&answer);
        }
        let refused = match decision {
            Err(Gone) => {
                ledger.gone();
                return Next::Drop;
            }
            Ok(Decision::Refusal(refused)) => Some(refused),
            Ok(_) => None,
        };
        // A refusal of what the client asked is no fault of the credential that it was asked with.
        let kind = match &refused {
            Some(refused) if refused.status < 500 => ErrorKind::BadRequest,
            _ => ErrorKind::Unknown,
        };
        ledger.failed(OwnedError::new(kind, ErrorPhase::BeforeCommit, "the provider's answer is none for the client"));
        let reply = match &refused {
            Some(refused) => self.refusal(refused),
            None => refusal(self.request.protocol, 500, "internal_error", "the gateway failed to read an answer", None),
        };
        ledger.account.status = reply.status;
        self.stage(&reply, &[]);
        Next::Keep
    }

    /// The client's body cannot be made into the provider's.
    fn refuse_body(&mut self, error: &RequestError, ledger: &mut Ledger) -> Next {
        let reply = refusal(self.request.protocol, error.status, error.code, &error.message, error.param.as_deref());
        ledger.account.status = reply.status;
        ledger.failed(upstream::request_error(error));
        self.stage(&reply, &[]);
        Next::Keep
    }

    /// The last failure, or what the policy makes of it.
    fn tell_failure(&mut self, refusal: &Refusal, failed: &Failed, relay: Mode, ledger: &mut Ledger) {
        let passed = failed.passed();
        if !refusal.tell_failure {
            let reply = self.refusal(refusal);
            ledger.account.status = reply.status;
            return self.tell(&reply, refusal, &passed);
        }
        let mut reply = error_reply(self.request.protocol, &failed.error.as_event());
        let own_mistake = failed.error.kind.row().gateway == GatewayStatus::ClientMistake;
        if own_mistake
            && !matches!(relay, Mode::Normalised | Mode::Gathered { verbatim: false })
            && let Some((content_type, body)) = &failed.body
            && !body.is_empty()
        {
            // Clients parse their own vendor's wording.
            reply.headers.retain(|(name, _)| *name != "content-type");
            reply.headers.push(("content-type", content_type.clone()));
            reply.body.clone_from(body);
        }
        ledger.account.status = reply.status;
        self.tell(&reply, refusal, &passed);
    }

    fn refusal(&self, r: &Refusal) -> Reply {
        refusal(self.request.protocol, r.status, &r.code, &r.message, r.param.as_deref())
    }

    /// Stages a refusal with what its policy says of a retry.
    fn tell(&mut self, reply: &Reply, r: &Refusal, passed: &[(&str, &str)]) {
        let wait = r.retry_at.map(seconds_until);
        let mut extra: Vec<(&str, &str)> = Vec::with_capacity(passed.len() + 2);
        if let Some(wait) = &wait {
            extra.push(("retry-after", wait));
        }
        if let Some(retry) = r.should_retry {
            extra.push(("x-should-retry", if retry { "true" } else { "false" }));
        }
        let named = extra.len();
        for &(name, value) in passed {
            let known = |n: &str| n.eq_ignore_ascii_case(name);
            if !extra[..named].iter().any(|(n, _)| known(n)) && !reply.headers.iter().any(|(n, _)| known(n)) {
                extra.push((name, value));
            }
        }
        self.stage(reply, &extra);
    }

    fn stage(&mut self, reply: &Reply, extra: &[(&str, &str)]) {
        let (format, id) = (self.request.protocol, self.request.id.as_str());
        answer::stage_reply(self.client.reborrow(), self.manner, format, id, reply, extra);
    }

    fn answer(&mut self, answer: &Answer) -> Next {
        let own = answer.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes()));
        let id = (answer::id_header(self.request.protocol), self.request.id.as_bytes());
        // The provider's own id of its answer comes first, as it does in a relay.
        let named = answer.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(id.0));
        let headers = own.chain([("content-type", answer.content_type.as_bytes())]).chain((!named).then_some(id));
        answer::stage(self.client.reborrow(), self.manner, answer.status, headers, &answer.body);
        Next::Keep
    }
}

/// Asks whether a client may hold a conversation at all.
pub(crate) async fn admitted(
    worker: &Rc<Worker>,
    client: Recipient<'_>,
    request: Arc<ClientRequest>,
) -> Result<Result<(), Refusal>, Gone> {
    match while_there(client, worker.desk.ask(|policy, reply| policy.decide(request, reply))).await? {
        Decision::Answer(_) => Ok(Ok(())),
        Decision::Refusal(refusal) => Ok(Err(refusal)),
        Decision::Plan(_) | Decision::Attempt(_) | Decision::Lost => Ok(Err(Refusal {
            code: "internal_error".to_owned(),
            message: "the gateway failed to decide".to_owned(),
            status: 500,
            param: None,
            retry_at: None,
            should_retry: None,
            tell_failure: false,
        })),
    }
}

/// Whole seconds until a Unix time, at least 0.
fn seconds_until(at: f64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    format!("{:.0}", (at - now).max(0.0).ceil())
}

/// Runs `work` for as long as the client stays.
async fn while_there<T>(mut client: Recipient<'_>, work: impl Future<Output = T>) -> Result<T, Gone> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(done));
        }
        client.poll_gone(cx).map(Err)
    })
    .await
}

/// Seconds since 1970.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
