//! What the encoders' tests share: events in a few words, a reader of event streams, and what a client accumulates.

use headrace_codec::Protocol;
use headrace_codec::encode::{Encoder, EncoderConfig};
use headrace_codec::error::ErrorKind;
use headrace_codec::event::{
    Assembled, At, AttachTo, CallKind, ContinuationForm, ErrorPhase, Event, FinishReason, ProviderError, ReasoningKind,
    ToolIntent, Usage,
};
use serde_json::Value;

pub const CLIENTS: [Protocol; 4] =
    [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::AnthropicMessages, Protocol::GoogleGemini];

pub fn started() -> Event<'static> {
    Event::Started { model: Some("up".into()), response_id: Some("r1".into()), request_id: None }
}

pub fn text(index: u32, text: &str) -> Event<'_> {
    Event::TextDelta { text: text.into(), index }
}

pub fn refusal(index: u32, text: &str) -> Event<'_> {
    Event::RefusalDelta { text: text.into(), index }
}

pub fn thought(index: u32, text: &str) -> Event<'_> {
    Event::ReasoningDelta { text: text.into(), kind: ReasoningKind::Raw, index }
}

pub fn summary(index: u32, text: &str) -> Event<'_> {
    Event::ReasoningDelta { text: text.into(), kind: ReasoningKind::Summary, index }
}

pub fn kept(family: Protocol, form: ContinuationForm, data: &str, to: AttachTo, index: u32) -> Event<'_> {
    Event::Continuation { family, form, data: data.into(), to, index }
}

pub fn delta<'a>(call: u32, id: Option<&'a str>, name: Option<&'a str>, text: &'a str) -> Event<'a> {
    Event::IntentDelta {
        call,
        provider_call_id: id.map(Into::into),
        name: name.map(Into::into),
        kind: CallKind::Function,
        arguments_delta: text.into(),
    }
}

pub fn intent<'a>(call: u32, id: Option<&'a str>, name: &'a str, text: &'a str) -> Event<'a> {
    intent_of(CallKind::Function, call, id, name, text)
}

pub fn intent_of<'a>(kind: CallKind, call: u32, id: Option<&'a str>, name: &'a str, text: &'a str) -> Event<'a> {
    Event::IntentProposed(ToolIntent {
        call,
        id: "t0.0",
        provider_call_id: id.map(Into::into),
        tool_name: name.into(),
        kind,
        raw_input_text: text.into(),
        assembled_from: Assembled::default(),
    })
}

pub fn usage(
    input: u64,
    output: u64,
    cached: Option<u64>,
    written: Option<u64>,
    reasoning: Option<u64>,
) -> Event<'static> {
    Event::Usage(Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        cached_input_tokens: cached,
        cache_write_tokens: written,
        reasoning_tokens: reasoning,
        raw: b"{}",
    })
}

pub fn finished(reason: FinishReason) -> Event<'static> {
    Event::Finished { reason, raw_reason: None }
}

pub fn failure(kind: ErrorKind) -> ProviderError<'static> {
    ProviderError {
        kind,
        retryable: kind.retryable(),
        status: None,
        code: None,
        message: None,
        raw: None,
        retry_after_s: None,
        request_id: None,
        provider: None,
        model: None,
        phase: ErrorPhase::Streaming,
    }
}

pub fn config(protocol: Protocol) -> EncoderConfig {
    let response_id = match protocol {
        Protocol::OpenaiChat => "chatcmpl-a1",
        Protocol::OpenaiResponses => "resp_a1",
        _ => "msg_a1",
    };
    EncoderConfig {
        model: "asked".to_owned(),
        response_id: response_id.to_owned(),
        created: 1_700_000_000,
        include_usage: true,
        ..EncoderConfig::new(protocol)
    }
}

/// Encodes the events, and says that no more come.
pub fn encoded(config: EncoderConfig, events: &[Event<'_>]) -> (Encoder, Vec<u8>) {
    let (mut encoder, mut out) = (Encoder::new(config), Vec::new());
    for (seq, event) in (0..).zip(events) {
        encoder.event(At { seq, offset: 0 }, event, &mut out);
    }
    encoder.finish(&mut out);
    assert!(encoder.is_over());
    (encoder, out)
}

/// Name and data of each event of a stream; the framing is what an encoder writes and nothing else.
pub fn frames(stream: &[u8]) -> Vec<(Option<String>, Value)> {
    let stream = std::str::from_utf8(stream).expect("UTF-8");
    let mut frames = Vec::new();
    for frame in stream.split_terminator("\n\n") {
        let (name, data) = match frame.split_once('\n') {
            Some((name, data)) => (Some(name.strip_prefix("event: ").expect("a name").to_owned()), data),
            None => (None, frame),
        };
        let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("a data line: {frame}"));
        assert!(!data.contains('\n'));
        let data = if data == "[DONE]" { Value::from("[DONE]") } else { serde_json::from_str(data).expect(data) };
        frames.push((name, data));
    }
    assert!(stream.is_empty() || stream.ends_with("\n\n"));
    frames
}

pub fn stream(config: EncoderConfig, events: &[Event<'_>]) -> Vec<(Option<String>, Value)> {
    frames(&encoded(config, events).1)
}

pub fn body(config: EncoderConfig, events: &[Event<'_>]) -> Value {
    let out = encoded(EncoderConfig { stream: false, ..config }, events).1;
    serde_json::from_slice(&out).expect("one JSON body")
}

/// The paths of what was lost.
pub fn lost(config: EncoderConfig, events: &[Event<'_>]) -> Vec<String> {
    encoded(config, events).0.losses().iter().map(|loss| format!("{} {}", loss.action.code(), loss.path)).collect()
}
