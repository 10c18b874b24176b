//! Any events at all: what comes out is a valid stream with one end, and the body says the same.

use headrace_codec::Protocol;
use headrace_codec::encode::{Encoder, EncoderConfig};
use headrace_codec::error::ErrorKind;
use headrace_codec::event::{
    At, AttachTo, CallKind, ContinuationForm, Event, FinishReason, HostedPhase, ReasoningKind, Sink, Usage,
};
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use headrace_codec::text::{Literal, Text};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::*;

/// An event that owns what it says.
#[derive(Clone, Debug)]
enum Owned {
    Started,
    Text(String, u32),
    Raw(String, u32),
    Refusal(String, u32),
    Reasoning(String, ReasoningKind, u32),
    Continuation(Protocol, ContinuationForm, String, AttachTo, u32),
    Annotation(Option<String>, Option<(u64, u64)>, &'static str),
    Hosted(HostedPhase, &'static str),
    Media(&'static str, bool),
    Delta(u32, Option<String>, Option<String>, CallKind, String),
    Intent(u32, String, CallKind, String),
    Usage(Option<u64>, Option<u64>, Option<u64>),
    Finished(FinishReason),
    Error(ErrorKind, Option<String>),
}

impl Owned {
    fn lend(&self) -> Event<'_> {
        match self {
            Owned::Started => started(),
            Owned::Text(t, i) => text(*i, t),
            Owned::Raw(t, i) => {
                let literal = Literal::new(t.as_bytes(), t.contains('\\'), t.is_ascii());
                Event::TextDelta { text: Text::Literal(literal), index: *i }
            }
            Owned::Refusal(t, i) => refusal(*i, t),
            Owned::Reasoning(t, kind, i) => Event::ReasoningDelta { text: t.as_str().into(), kind: *kind, index: *i },
            Owned::Continuation(family, form, data, to, i) => kept(*family, *form, data, *to, *i),
            Owned::Annotation(url, span, raw) => Event::Annotation {
                kind: "k".into(),
                url: url.as_deref().map(Into::into),
                title: None,
                span: *span,
                raw: raw.as_bytes(),
            },
            Owned::Hosted(phase, raw) => {
                Event::HostedTool { id: None, phase: *phase, name: "web_search".into(), raw: raw.as_bytes() }
            }
            Owned::Media(mime, partial) => {
                Event::Media { mime: (*mime).into(), data: Some("QQ==".into()), url: None, partial: *partial }
            }
            Owned::Delta(call, id, name, kind, text) => Event::IntentDelta {
                call: *call,
                provider_call_id: id.as_deref().map(Into::into),
                name: name.as_deref().map(Into::into),
                kind: *kind,
                arguments_delta: text.as_str().into(),
            },
            Owned::Intent(call, name, kind, text) => intent_of(*kind, *call, None, name, text),
            Owned::Usage(input, output, cached) => Event::Usage(Usage {
                input_tokens: *input,
                output_tokens: *output,
                cached_input_tokens: *cached,
                ..Usage::default()
            }),
            Owned::Finished(reason) => finished(*reason),
            Owned::Error(kind, message) => {
                let mut error = failure(*kind);
                error.message = message.as_deref().map(Into::into);
                Event::Error(error)
            }
        }
    }
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[ -~é😀\n\"\\\\]{0,6}", Just("<think>".to_owned())]
}

/// The insides of JSON literals.
fn literals() -> impl Strategy<Value = String> {
    proptest::sample::select(vec!["a", r"\n", r"\ud83d\ude00", r"\ud83d", r"\ude00x", r"\\", "é", r#"\""#, ""])
        .prop_map(str::to_owned)
}

fn arguments() -> impl Strategy<Value = String> {
    let texts = ["", "{", "{}", "{\"a\":1}", " {\"a\":1}", "null", "nul", "\"a\":1}", "1}", "}", "x", "{\"a\":1}{"];
    proptest::sample::select(texts.to_vec()).prop_map(str::to_owned)
}

fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(all)
}

fn events() -> impl Strategy<Value = Vec<Owned>> {
    const TO: &[AttachTo] = AttachTo::ALL;
    let name = || proptest::option::of(Just("f".to_owned()));
    let raw = || one_of(&["", "{}", "{\"type\":\"x\",\"id\":\"i\"}", "[1]", "{\n\"a\": 1}", "{"]);
    let event = prop_oneof![
        1 => Just(Owned::Started),
        4 => (words(), 0..3u32).prop_map(|(t, i)| Owned::Text(t, i)),
        2 => (literals(), 0..3u32).prop_map(|(t, i)| Owned::Raw(t, i)),
        1 => (words(), 0..3u32).prop_map(|(t, i)| Owned::Refusal(t, i)),
        3 => (words(), one_of(ReasoningKind::ALL), 0..3u32).prop_map(|(t, k, i)| Owned::Reasoning(t, k, i)),
        3 => (one_of(&Protocol::ALL), one_of(ContinuationForm::ALL), prop_oneof![words(), raw().prop_map(str::to_owned)], one_of(TO), 0..3u32)
            .prop_map(|(p, f, d, to, i)| Owned::Continuation(p, f, d, to, i)),
        2 => (proptest::option::of(words()), proptest::option::of((0..5u64, 0..5u64)), raw()).prop_map(|(u, s, r)| Owned::Annotation(u, s, r)),
        2 => (one_of(HostedPhase::ALL), raw()).prop_map(|(p, r)| Owned::Hosted(p, r)),
        1 => (one_of(&["image/png", "audio/wav", "x"]), any::<bool>()).prop_map(|(m, p)| Owned::Media(m, p)),
        6 => (0..4u32, name(), name(), one_of(CallKind::ALL), arguments()).prop_map(|(c, id, n, k, t)| Owned::Delta(c, id, n, k, t)),
        3 => (0..4u32, Just("f".to_owned()), one_of(CallKind::ALL), arguments()).prop_map(|(c, n, k, t)| Owned::Intent(c, n, k, t)),
        1 => (any::<Option<u64>>(), proptest::option::of(0..9u64), proptest::option::of(0..9u64)).prop_map(|(i, o, c)| Owned::Usage(i, o, c)),
        1 => one_of(FinishReason::ALL).prop_map(Owned::Finished),
        1 => (one_of(ErrorKind::ALL), proptest::option::of(words())).prop_map(|(k, m)| Owned::Error(k, m)),
    ];
    proptest::collection::vec(event, 0..24)
}

fn configs() -> impl Strategy<Value = EncoderConfig> {
    let family = proptest::option::of(one_of(&Protocol::ALL));
    (one_of(&CLIENTS), family, any::<bool>()).prop_map(|(client, family, include_usage)| EncoderConfig {
        family,
        include_usage,
        ..config(client)
    })
}

/// Whether the stream's end is its protocol's terminal (true) or error (false). Exactly one must be there, last.
fn ends_well(client: Protocol, frames: &[(Option<String>, Value)]) -> bool {
    let is_end = |data: &Value| -> Option<bool> {
        match client {
            Protocol::OpenaiChat if data == "[DONE]" => Some(true),
            Protocol::OpenaiChat => data.get("error").map(|_| false),
            Protocol::GoogleGemini => match data.get("error") {
                Some(_) => Some(false),
                None => data["promptFeedback"]
                    .get("blockReason")
                    .or(data["candidates"][0].get("finishReason"))
                    .map(|_| true),
            },
            Protocol::OpenaiResponses => match data["type"].as_str()? {
                "response.completed" | "response.incomplete" => Some(true),
                "response.failed" => Some(false),
                _ => None,
            },
            _ => match data["type"].as_str()? {
                "message_stop" => Some(true),
                "error" => Some(false),
                _ => None,
            },
        }
    };
    let ends: Vec<usize> = (0..frames.len()).filter(|i| is_end(&frames[*i].1).is_some()).collect();
    assert_eq!(ends, [frames.len() - 1], "one end, the last: {frames:#?}");
    is_end(&frames[frames.len() - 1].1).unwrap()
}

fn finished_well(events: &[Owned]) -> Option<bool> {
    events.iter().find_map(|event| match event {
        Owned::Finished(_) => Some(true),
        Owned::Error(..) => Some(false),
        _ => None,
    })
}

/// How many calls became intents before the end.
fn proposed(events: &[Owned]) -> usize {
    let mut calls: Vec<u32> = Vec::new();
    for event in events {
        match event {
            Owned::Intent(call, ..) => calls.push(*call),
            Owned::Finished(_) | Owned::Error(..) => break,
            _ => {}
        }
    }
    calls.sort_unstable();
    calls.dedup();
    calls.len()
}

/// Terminals (whether each is a finish) and intents.
struct Count<'a> {
    ends: &'a mut Vec<bool>,
    intents: &'a mut Vec<u32>,
}

impl Sink for Count<'_> {
    fn event(&mut self, _: At, event: &Event<'_>) {
        match event {
            Event::Finished { .. } => self.ends.push(true),
            Event::Error(_) => self.ends.push(false),
            Event::IntentProposed(intent) => self.intents.push(intent.call),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_make_a_valid_stream_and_a_valid_body(config in configs(), events in events()) {
        let lent: Vec<Event<'_>> = events.iter().map(Owned::lend).collect();
        let client = config.protocol;
        let (encoder, out) = encoded(config.clone(), &lent);
        let frames = frames(&out);
        let well = ends_well(client, &frames);
        prop_assert!(!well || finished_well(&events) == Some(true), "only a finish ends well");
        let data: Vec<Value> = frames.into_iter().map(|(_, data)| data).collect();
        match client {
            Protocol::OpenaiResponses => crate::responses::check(&data),
            Protocol::AnthropicMessages => crate::messages::check(&data),
            _ => {}
        }
        // What our own decoder reads of it: one end, good only where the stream's is, and no call that was none.
        let (mut ends, mut told) = (Vec::new(), Vec::new());
        let mut decoder = Decoder::new(DecoderConfig::new(client));
        let mut sink = Count { ends: &mut ends, intents: &mut told };
        decoder.feed(&out, &mut sink);
        decoder.finish(End::Eof, &mut sink);
        prop_assert_eq!(ends.len(), 1);
        prop_assert!(!ends[0] || well, "an error reads as a normal end");
        prop_assert!(told.len() <= proposed(&events), "a call that was never proposed reads as one");
        for loss in encoder.losses() {
            prop_assert!(loss.path.starts_with("response."));
        }
        let body = body(config, &lent);
        let failed = body.get("error").is_some_and(|e| !e.is_null());
        prop_assert!(!failed || !well || client == Protocol::AnthropicMessages, "{body}");
    }

    #[test]
    fn one_buffer_or_many_is_the_same(config in configs(), events in events()) {
        let lent: Vec<Event<'_>> = events.iter().map(Owned::lend).collect();
        let whole = encoded(config.clone(), &lent).1;
        let (mut encoder, mut pieces) = (Encoder::new(config), Vec::new());
        for event in &lent {
            let mut out = Vec::new();
            encoder.event(At::default(), event, &mut out);
            prop_assert!(out.is_empty() || !encoder.is_over() || pieces.len() < 100_000);
            pieces.extend_from_slice(&out);
        }
        encoder.finish(&mut pieces);
        prop_assert_eq!(whole, pieces);
    }
}

/// What is kept is bounded: past it the stream ends as an error, and only where something has to be kept.
#[test]
fn text_without_end_ends_where_it_has_to_be_kept() {
    let piece = "x".repeat(1 << 20);
    for (client, stream, bounded) in [
        (Protocol::OpenaiChat, true, false),
        (Protocol::OpenaiChat, false, true),
        (Protocol::OpenaiResponses, true, true),
        (Protocol::AnthropicMessages, true, false),
        (Protocol::AnthropicMessages, false, true),
    ] {
        let mut encoder = Encoder::new(EncoderConfig { stream, ..config(client) });
        let mut out = Vec::new();
        for _ in 0..=headrace_codec::limits::MAX_KEPT >> 20 {
            out.clear();
            encoder.event(At::default(), &text(0, &piece), &mut out);
        }
        assert_eq!(encoder.is_over(), bounded, "{} {stream}", client.name());
    }
}
