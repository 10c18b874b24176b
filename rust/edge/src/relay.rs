//! One attempt, drained into the client: one task owns both sockets, and nothing stands between them.
//!
//! 1. A read lands in the thread's scratch, is shown to the codec and is written to the client in the same poll.
//! 2. While the client has not taken what it was given, nothing is read: that is the demand credit.
//! 3. Before the commit boundary nothing reaches the client, so a failure is the policy's business. After it a failure
//!    is told in the client's own protocol, and never ends as a normal answer does.
//! 4. When the terminal event came the answer is finished, whatever the upstream does next.
//!
//! No retry and no choice may be added here.

use std::future::poll_fn;
use std::mem::take;
use std::task::{Context, Poll};

use headrace_codec::ErrorKind;
use headrace_codec::event::ErrorPhase;
use headrace_codec::pipeline::End;
use headrace_http1::BodyKind;
use headrace_http1::write::{ResponseStart, response};
use headrace_kernel::{Attempt, Failure as KernelFailure, Head, Scratch};
use tokio::time::Instant;

use crate::answer::id_header;
use crate::client::{Alarm, Framing};
use crate::hedge::Headed;
use crate::limits;
use crate::listener::Worker;
use crate::outcome::{Failed, Outcome};
use crate::policy::{OwnedError, Secret, holds_secret, redact_bytes};
use crate::reading::{Kind, Reading};
use crate::recipient::Recipient;
use crate::settle::Ledger;
use crate::terms::{JSON, Terms, is_event_stream};
use crate::upstream;

pub(crate) struct Relay<'a> {
    pub worker: &'a Worker,
    pub terms: &'a Terms<'a>,
    pub client: Recipient<'a>,
    pub alarm: &'a mut Alarm,
    pub ledger: &'a mut Ledger,
}

/// An answer whose head has come.
struct Answer {
    status: u16,
    content_type: Option<String>,
    /// The headers that rule R18 lets pass.
    passed: Vec<(String, String)>,
    reading: Reading,
    /// The client gets a stream.
    streams: bool,
    /// What would have gone to the client, or the body of an error.
    before: Vec<u8>,
    committed: bool,
    framing: Framing,
    head_at: Instant,
}

/// Where a relay stands.
struct Run<'a> {
    relay: Relay<'a>,
    /// Until its answer is there.
    attempt: Option<Attempt>,
    head: Option<Headed>,
    answer: Option<Answer>,
    over: Option<Outcome>,
    /// The client was last given bytes, or last took some.
    wrote_at: Instant,
    moved: u64,
    read_size: usize,
    asked: usize,
    /// The last read brought about as much as was asked for: there is more.
    more: bool,
    closed: bool,
}

impl Relay<'_> {
    /// - `head`: of the attempt, if it is there already.
    pub(crate) async fn run(self, attempt: Attempt, head: Option<Headed>) -> Outcome {
        let mut run = Run {
            moved: self.client.moved(),
            relay: self,
            attempt: Some(attempt),
            head,
            answer: None,
            over: None,
            wrote_at: Instant::now(),
            read_size: limits::READ_FIRST,
            asked: 0,
            more: false,
            closed: false,
        };
        let outcome = poll_fn(|cx| run.poll(cx)).await;
        run.close(&outcome);
        outcome
    }
}

impl Run<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            if self.relay.client.is_clear()
                && let Some(outcome) = self.over.take()
            {
                return Poll::Ready(outcome);
            }
            if self.relay.client.poll_gone(cx).is_ready() {
                return Poll::Ready(Outcome::Gone);
            }
            if !self.relay.client.is_clear() {
                match self.relay.client.poll_flush(cx) {
                    Poll::Ready(Ok(())) => self.wrote_at = Instant::now(),
                    Poll::Ready(Err(_)) => return Poll::Ready(Outcome::Gone),
                    Poll::Pending => return self.stalled(cx),
                }
                continue;
            }
            // Given away only with an outcome.
            let Some(attempt) = &mut self.attempt else { return Poll::Ready(Outcome::Broken) };
            if self.answer.is_none() {
                match self.head.take() {
                    Some(Ok(head)) => {
                        self.begin(head);
                        continue;
                    }
                    Some(Err(failure)) => {
                        self.fail_headless(&failure);
                        continue;
                    }
                    None => {}
                }
                match attempt.poll_head(cx) {
                    Poll::Ready(Ok(head)) => self.begin(head),
                    Poll::Ready(Err(failure)) => self.fail_headless(&failure),
                    Poll::Pending => return Poll::Pending,
                }
                continue;
            }
            // What the client does not take is held as long as it is slow.
            let room = if self.more { self.relay.client.room() } else { usize::MAX };
            self.asked = self.read_size.min(room).max(limits::READ_LEAST);
            let worker = self.relay.worker;
            let mut scratch = worker.scratch.borrow_mut();
            match attempt.poll_read(cx, &mut scratch, self.asked) {
                Poll::Ready(Ok(got)) => self.take(&mut scratch, got.end),
                Poll::Ready(Err(failure)) => self.finish(upstream::end_of(&failure), Some(&failure)),
                Poll::Pending => {
                    if self.timer(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// The client takes nothing at the moment.
    fn stalled(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let moved = self.relay.client.moved();
        if moved != self.moved {
            self.moved = moved;
            self.wrote_at = Instant::now();
        }
        self.relay.alarm.poll(cx, self.wrote_at + self.relay.worker.config.pace.stalled).map(|()| Outcome::Gone)
    }

    fn begin(&mut self, head: Head) {
        let terms = self.relay.terms;
        let content_type = head.header("content-type").map(str::to_owned);
        // Some providers, and more that stand before them, repeat what they were sent.
        let clean = |text: &str| !holds_secret(text, &terms.spec.secrets);
        let passed = head.passed().into_iter().filter(|(_, value)| clean(value));
        let passed = passed.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let kind = terms.kind(head.status, content_type.as_deref());
        let streams = terms.stream && matches!(kind, Kind::Frames(_) | Kind::Events(_));
        let decoder = upstream::decoder(terms.spec, head.status, head.headers);
        self.answer = Some(Answer {
            status: head.status,
            content_type: content_type.filter(|said| clean(said)),
            passed,
            reading: Reading::new(decoder, kind),
            streams,
            before: Vec::new(),
            committed: false,
            framing: Framing::Chunked,
            head_at: Instant::now(),
        });
    }

    fn fail_headless(&mut self, failure: &KernelFailure) {
        self.over = Some(Outcome::Failed(Box::new(Failed {
            error: upstream::error_of(self.relay.terms.spec, failure),
            headers: Vec::new(),
            bytes_sent: failure.bytes_sent,
            bytes_received: failure.bytes_received,
            reused_socket: failure.reused_socket,
            body: None,
        })));
    }

    /// Takes a read.
    fn take(&mut self, scratch: &mut Scratch, end: bool) {
        let Some(answer) = &mut self.answer else { return };
        let (bytes, chunk) = scratch.whole();
        // The last chunk would end the client's body too, and that is for the terminal event to say.
        let chunk = chunk.filter(|_| !end);
        let content = answer.reading.tally.content;
        if matches!(answer.reading.kind, Kind::Failure) {
            let room = limits::ERROR_BODY.saturating_sub(answer.before.len());
            answer.before.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        // Framing and encryption take their part of what was asked for.
        self.more = bytes.len() >= self.asked - self.asked / 4;
        let mut encoded = self.relay.worker.encoded.borrow_mut();
        encoded.clear();
        let mut sent = false;
        let mut gone = false;
        let Answer { reading, before, committed, framing, .. } = answer;
        let client = &mut self.relay.client;
        reading.feed(bytes, &mut encoded, &mut |pieces, last| {
            if *committed {
                sent = true;
                gone |= match (chunk, pieces) {
                    // All that was read goes on, and nothing else: in the framing that it came in.
                    (Some(chunk), [all]) if !last && std::ptr::eq(*all, bytes) => client.pass(*framing, all, chunk),
                    _ => client.send(*framing, pieces, last),
                }
                .is_err();
            } else {
                for piece in pieces {
                    before.extend_from_slice(piece);
                }
            }
        });
        drop(encoded);
        if sent {
            self.wrote_at = Instant::now();
        }
        if answer.reading.tally.content != content
            && let Some(attempt) = &self.attempt
        {
            attempt.content_seen();
        }
        if gone {
            self.over = Some(Outcome::Gone);
        } else if answer.reading.is_done() {
            self.conclude(end);
        } else if end || matches!(answer.reading.kind, Kind::Failure) && answer.before.len() >= limits::ERROR_BODY {
            self.finish(End::Eof, None);
        } else if answer.wants_commit() {
            self.commit(false);
        } else if !answer.streams && !answer.committed && answer.reading.bytes > limits::WHOLE_MOST {
            self.finish(End::Reset, None);
        }
        self.read_size = match (self.relay.client.is_clear(), self.more) {
            // Those that share a client take turns, so that who reads more at once would get more of it.
            _ if self.relay.client.is_shared() => limits::READ_FIRST,
            (false, _) => (self.read_size / 2).max(limits::READ_LEAST),
            (true, true) => (self.read_size * 2).min(limits::READ_MOST),
            (true, false) => self.read_size.min(limits::READ_FIRST),
        };
    }

    /// The terminal event came, and all that goes to the client was emitted.
    fn conclude(&mut self, end: bool) {
        let Some(answer) = &mut self.answer else { return };
        answer.redact(&self.relay.terms.spec.secrets);
        let failed = answer.reading.tally.error.is_some();
        if answer.committed && matches!(answer.reading.kind, Kind::Frames(_)) && answer.reading.tally.breaks_off() {
            self.tell_cut();
        } else if answer.committed {
            self.over = Some(Outcome::Told);
        } else if failed {
            self.fail(None);
        } else {
            self.commit(true);
        }
        if let Some(attempt) = self.attempt.take() {
            self.relay.ledger.account.bytes_sent += attempt.bytes_sent();
            // A connection on which an error came is not used again: nobody knows what else stands in it.
            if !end && !failed {
                attempt.release();
            }
        }
    }

    /// The body ended without a terminal event in it, in whatever way.
    fn finish(&mut self, end: End, failure: Option<&KernelFailure>) {
        let Some(answer) = &mut self.answer else { return };
        let mut encoded = self.relay.worker.encoded.borrow_mut();
        encoded.clear();
        let Answer { reading, before, committed, framing, .. } = answer;
        let client = &mut self.relay.client;
        let mut gone = false;
        let mut ended = false;
        reading.finish(end, &mut encoded, &mut |pieces, last| {
            ended |= last;
            if *committed {
                gone |= client.send(*framing, pieces, last).is_err();
            } else {
                for piece in pieces {
                    before.extend_from_slice(piece);
                }
            }
        });
        drop(encoded);
        answer.redact(&self.relay.terms.spec.secrets);
        if gone {
            self.over = Some(Outcome::Gone);
        } else if !answer.committed {
            if answer.reading.tally.error.is_some() || matches!(answer.reading.kind, Kind::Failure) {
                self.fail(failure);
            } else if matches!(answer.reading.kind, Kind::Gathered) {
                self.over = Some(Outcome::Gathered(answer.status, answer.passed.clone(), take(&mut answer.before)));
            } else {
                self.commit(true);
            }
        } else if ended {
            self.over = Some(Outcome::Told);
        } else {
            self.tell_cut();
        }
    }

    /// A verbatim relay was cut: the client is told so in its own protocol if it stands between two events.
    fn tell_cut(&mut self) {
        let Some(answer) = &mut self.answer else { return };
        let told = match &answer.reading.tally.error {
            Some(error) if answer.streams && (answer.reading.at_boundary() || self.relay.client.drop_partial()) => {
                let told = self.relay.terms.error_events(&answer.reading, error);
                self.relay.client.send(answer.framing, &[&told], true).is_ok()
            }
            _ => false,
        };
        if told {
            self.over = Some(Outcome::Told);
        } else {
            self.relay.client.abort();
            self.over = Some(Outcome::Broken);
        }
    }

    /// The answer failed before anything of it had reached the client.
    fn fail(&mut self, failure: Option<&KernelFailure>) {
        let Some(answer) = &mut self.answer else { return };
        let mut error = answer.reading.tally.error.take().unwrap_or_else(|| {
            OwnedError::new(ErrorKind::Unknown, ErrorPhase::Head, "the provider's answer says nothing that is known")
        });
        if error.phase == ErrorPhase::Streaming {
            error.phase = ErrorPhase::BeforeCommit;
        }
        let mut told = matches!(answer.reading.kind, Kind::Failure).then(|| take(&mut answer.before));
        if let Some(body) = &mut told {
            redact_bytes(body, &self.relay.terms.spec.secrets);
        }
        let content_type = answer.content_type.clone().unwrap_or_else(|| JSON.to_owned());
        let (sent, received, reused) = match (&self.attempt, failure) {
            (_, Some(f)) => (f.bytes_sent, f.bytes_received, f.reused_socket),
            (Some(a), None) => (a.bytes_sent(), a.bytes_received(), a.reused_socket()),
            (None, None) => (0, 0, false),
        };
        self.over = Some(Outcome::Failed(Box::new(Failed {
            error,
            headers: answer.passed.clone(),
            bytes_sent: sent,
            bytes_received: received,
            reused_socket: reused,
            body: told.map(|body| (content_type, body)),
        })));
    }

    /// From here on the client has this answer. `last`: what is held is all of it.
    fn commit(&mut self, last: bool) {
        let Some(answer) = &mut self.answer else { return };
        let terms = self.relay.terms;
        let body = match (last && !answer.streams, terms.http10) {
            (true, _) => BodyKind::Length(answer.before.len() as u64),
            (false, true) => BodyKind::UntilClose,
            (false, false) => BodyKind::Chunked,
        };
        answer.framing = if body == BodyKind::Chunked { Framing::Chunked } else { Framing::Plain };
        answer.committed = true;
        let start = ResponseStart { status: answer.status, body, close: terms.manner.close };
        let own = terms.headers(answer.content_type.as_deref(), answer.streams, &answer.reading.kind);
        let cross = self.relay.client.cross_origin();
        let written = self.relay.client.stage_head(|out| {
            let id = (id_header(terms.request.protocol), terms.request.id.as_str());
            let named = answer.passed.iter().any(|(n, _)| n.eq_ignore_ascii_case(id.0));
            let cross = cross.iter().map(|(n, v)| (*n, v.as_bytes()));
            let own = own.iter().map(|(n, v)| (*n, v.as_bytes())).chain(cross);
            let passed = answer.passed.iter().map(|(n, v)| (n.as_str(), v.as_bytes()));
            response(out, start, own.chain(passed).chain((!named).then_some((id.0, id.1.as_bytes()))))
        });
        terms.release_body();
        self.relay.ledger.first_byte(answer.status);
        let before = take(&mut answer.before);
        let sent = self.relay.client.send(answer.framing, &[&before], last);
        self.wrote_at = Instant::now();
        match (written, sent, last) {
            (Ok(()), Ok(()), false) => {}
            (Ok(()), Ok(()), true) => self.over = Some(Outcome::Told),
            // Headers that pass were read by the same strict parser, so that they are written; if not, nothing is.
            (Err(_), _, _) => {
                self.relay.client.abort();
                self.over = Some(Outcome::Broken);
            }
            (_, Err(_), _) => self.over = Some(Outcome::Gone),
        }
    }

    /// The times at which something is due without a byte having come.
    fn timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(answer) = &mut self.answer else { return Poll::Pending };
        if !answer.streams {
            return Poll::Pending;
        }
        if !answer.committed {
            let due = self.relay.alarm.poll(cx, answer.head_at + self.relay.worker.config.pace.commit_after);
            return due.map(|()| self.commit(false));
        }
        if !answer.reading.at_boundary() {
            return Poll::Pending;
        }
        self.relay.alarm.poll(cx, self.wrote_at + self.relay.worker.config.pace.keep_alive_after).map(|()| {
            let mut sign = Vec::new();
            answer.reading.keep_alive(self.relay.terms.client_protocol, &mut sign);
            if !sign.is_empty() && self.relay.client.send(answer.framing, &[&sign], false).is_err() {
                self.over = Some(Outcome::Gone);
            }
            self.wrote_at = Instant::now();
        })
    }

    /// Closes the books, once.
    fn close(&mut self, outcome: &Outcome) {
        let ledger = &mut *self.relay.ledger;
        let account = &mut ledger.account;
        account.bytes_sent += self.attempt.take().map_or(0, |a| a.bytes_sent());
        if let Some(mut answer) = self.answer.take() {
            account.bytes_received += answer.reading.bytes;
            account.headers = take(&mut answer.passed);
            if matches!(outcome, Outcome::Gone) {
                answer.reading.abort();
            }
            answer.reading.tally.forget(&self.relay.terms.spec.secrets);
            if !matches!(outcome, Outcome::Failed(_)) {
                ledger.read(&mut answer.reading);
            }
        }
        match outcome {
            Outcome::Failed(failed) => ledger.failed(failed.error.clone()),
            Outcome::Gone => ledger.gone(),
            Outcome::Told | Outcome::Broken | Outcome::Gathered(..) => {}
        }
        self.closed = true;
    }
}

impl Drop for Run<'_> {
    /// The process stops: what is known so far is kept, as if the client had left.
    fn drop(&mut self) {
        if !self.closed {
            self.close(&Outcome::Gone);
        }
    }
}

impl Answer {
    fn redact(&mut self, secrets: &[Secret]) {
        if let Some(error) = &mut self.reading.tally.error {
            error.redact(secrets);
        }
    }

    /// Whether the commit boundary is reached.
    fn wants_commit(&self) -> bool {
        if self.committed || matches!(self.reading.kind, Kind::Failure | Kind::Gathered) {
            return false;
        }
        if matches!(self.reading.kind, Kind::Opaque) && is_event_stream(self.content_type.as_deref()) {
            // Its pieces are worth having as they come; what they mean is the client's to know.
            return true;
        }
        if self.streams {
            self.reading.tally.content > 0 || self.before.len() + self.reading.held() > limits::HELD
        } else {
            self.before.len() >= limits::HELD_WHOLE
        }
    }
}
