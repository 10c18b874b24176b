//! One attempt as the library reads it: batches of events, and the facts that policy needs when it fails.
//!
//! `blocking.rs` polls on the asking thread, `background.rs` takes from an inbox; both decode where the events are
//! wanted, with the [`Reading`] below.

pub mod background;
pub mod blocking;
mod payloads;

use std::cell::RefCell;

use headrace_codec::event::{At, ProviderError};
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use headrace_codec::{Event, Sink, Text};
use headrace_kernel::{Attempt, Cause, Failure, Head, Scratch};
use pyo3::prelude::*;
use pyo3::types::PyList;

use self::payloads::Payloads;
use crate::events::ListSink;

thread_local! {
    /// Every read of this thread goes through it; between two polls its content means nothing.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Asked of the connection in one read: the scratch's size.
const READ: usize = 64 << 10;

/// The decoding half of an attempt.
pub struct Reading {
    /// Until the head is there.
    config: Option<DecoderConfig>,
    decoder: Option<Decoder>,
    /// The answer is no model's: a good one is given as it is, and the decoder only says how it failed.
    raw: bool,
    payloads: Option<Payloads>,
    scratch: String,
    provider: Option<String>,
    model: Option<String>,
    status: u16,
    passed: Vec<(String, String)>,
    counts: Counts,
    /// The terminal event was given.
    over: bool,
}

/// What came of an attempt so far.
#[derive(Clone, Copy, Default)]
struct Counts {
    events: u64,
    intents: u64,
}

/// Counts on the way to the list.
struct Counting<'c, 's, 'py> {
    counts: &'c mut Counts,
    sink: ListSink<'s, 'py>,
}

impl Sink for Counting<'_, '_, '_> {
    fn event(&mut self, at: At, event: &Event<'_>) {
        self.counts.events += 1;
        self.counts.intents += u64::from(matches!(event, Event::IntentProposed(_)));
        self.sink.event(at, event);
    }
}

impl Reading {
    fn new(config: DecoderConfig, raw: bool) -> Self {
        Reading {
            provider: config.provider.clone(),
            model: config.model.clone(),
            config: Some(config),
            decoder: None,
            raw,
            payloads: None,
            scratch: String::new(),
            status: 0,
            passed: Vec::new(),
            counts: Counts::default(),
            over: false,
        }
    }

    fn head(&mut self, head: Head) {
        self.status = head.status;
        self.passed = head.passed().into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        if self.raw && (200..300).contains(&head.status) {
            self.payloads = Some(Payloads::new(head.header("content-type")));
        }
        if let Some(mut config) = self.config.take() {
            config.status = head.status;
            config.headers = head.headers;
            self.decoder = Some(Decoder::new(config));
        }
    }

    fn feed(&mut self, list: &Bound<'_, PyList>, bytes: &[u8]) -> PyResult<()> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        if let Some(payloads) = &mut self.payloads {
            if !payloads.feed(list, bytes)? {
                // Nothing that is longer has an end that anybody waits for.
                return self.finish_with(list, End::Reset);
            }
            return Ok(());
        }
        let sink = ListSink { list, scratch: &mut self.scratch, failure: None };
        let mut sink = Counting { counts: &mut self.counts, sink };
        decoder.feed(bytes, &mut sink);
        self.over |= decoder.is_done();
        sink.sink.failure.map_or(Ok(()), Err)
    }

    /// The body is over, well or by a failure: the terminal event comes now, if it has not.
    fn finish(&mut self, list: &Bound<'_, PyList>, failure: Option<&Failure>) -> PyResult<()> {
        self.over = true;
        if let (Some(payloads), None) = (&mut self.payloads, failure) {
            return payloads.finish(list);
        }
        if self.decoder.is_some() {
            let end = match failure.map(|f| &f.cause) {
                None => End::Eof,
                Some(Cause::Deadline(_)) => End::Timeout,
                Some(_) => End::Reset,
            };
            return self.finish_with(list, end);
        }
        let sink = ListSink { list, scratch: &mut self.scratch, failure: None };
        let mut sink = Counting { counts: &mut self.counts, sink };
        if let Some(failure) = failure {
            let message = failure.to_string();
            let error = ProviderError {
                kind: failure.kind,
                retryable: failure.kind.retryable(),
                status: None,
                code: None,
                message: Some(Text::Plain(&message)),
                raw: None,
                retry_after_s: None,
                request_id: None,
                provider: self.provider.as_deref().map(Text::Plain),
                model: self.model.as_deref().map(Text::Plain),
                phase: failure.phase,
            };
            sink.event(At::default(), &Event::Error(error));
        }
        sink.sink.failure.map_or(Ok(()), Err)
    }

    fn finish_with(&mut self, list: &Bound<'_, PyList>, end: End) -> PyResult<()> {
        self.over = true;
        let sink = ListSink { list, scratch: &mut self.scratch, failure: None };
        let mut sink = Counting { counts: &mut self.counts, sink };
        if let Some(decoder) = &mut self.decoder {
            decoder.finish(end, &mut sink);
        }
        sink.sink.failure.map_or(Ok(()), Err)
    }
}

/// What policy wants to know of an attempt besides its events.
#[derive(Clone, Copy, Default)]
pub struct Facts {
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub reused_socket: bool,
}

impl From<&Failure> for Facts {
    fn from(f: &Failure) -> Self {
        Facts { bytes_sent: f.bytes_sent, bytes_received: f.bytes_received, reused_socket: f.reused_socket }
    }
}

fn facts_of(attempt: &Attempt) -> Facts {
    Facts {
        bytes_sent: attempt.bytes_sent(),
        bytes_received: attempt.bytes_received(),
        reused_socket: attempt.reused_socket(),
    }
}
