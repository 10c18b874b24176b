//! The table of what becomes of a response: every field of every event stands in it, and for every client each is carried,
//! reported, or the gateway's own, as its row says.

use headrace_codec::Protocol;
use headrace_codec::encode::EncoderConfig;
use headrace_codec::encode::table::{Fate, ROWS, Row};
use headrace_codec::error::ErrorKind;
use headrace_codec::event::{
    At, AttachTo, CallKind, ContinuationForm, ErrorPhase, Event, FinishReason, HostedPhase, JsonLines, ProviderError,
    ReasoningKind, Sink, Usage,
};
use serde_json::Value;

use crate::support::{config, delta, encoded, finished, intent, intent_of, kept, refusal, started, text, thought};

/// Every client protocol.
const ALL: [Protocol; 5] = [
    Protocol::OpenaiChat,
    Protocol::OpenaiResponses,
    Protocol::AnthropicMessages,
    Protocol::GoogleGemini,
    Protocol::OllamaChat,
];
/// What no encoder writes by itself.
const MARK: &str = "heron";
const FAMILY: Protocol = Protocol::CohereChat;

fn note(url: Option<&'static str>, title: Option<&'static str>, span: Option<(u64, u64)>) -> Event<'static> {
    Event::Annotation {
        kind: "web".into(),
        url: url.map(Into::into),
        title: title.map(Into::into),
        span,
        raw: b"{\"at\":\"heron\"}",
    }
}

fn media(mime: &'static str, data: bool, partial: bool) -> Event<'static> {
    let (data, url) = if data { (Some(MARK.into()), None) } else { (None, Some("https://heron".into())) };
    Event::Media { mime: mime.into(), data, url, partial }
}

fn counted(set: impl FnOnce(&mut Usage<'static>)) -> Event<'static> {
    let mut usage = Usage {
        input_tokens: Some(900_000),
        output_tokens: Some(900_000),
        cached_input_tokens: None,
        cache_write_tokens: None,
        reasoning_tokens: None,
        raw: b"{}",
    };
    set(&mut usage);
    Event::Usage(usage)
}

/// Events that hold the item of a row, and what stands in the client's bytes if it is carried.
fn sample(row: &Row) -> (Vec<Event<'static>>, &'static str) {
    let said = || text(0, "so it is");
    let ends = |reason| vec![said(), finished(reason)];
    let stop = finished(FinishReason::Stop);
    let tools = finished(FinishReason::ToolIntents);
    match (row.event, row.field, row.case) {
        ("model.text_delta", ..) => (vec![text(0, MARK), stop], MARK),
        ("model.refusal_delta", ..) => (vec![refusal(0, MARK), stop], MARK),
        ("model.reasoning_delta", ..) => (vec![thought(0, MARK), said(), stop], MARK),
        ("model.continuation", ..) => {
            let state = kept(FAMILY, ContinuationForm::Encrypted, MARK, AttachTo::Reasoning, 0);
            // As it is wrapped, after the name of the family and in base64 or not.
            (vec![thought(0, "hm"), state, said(), stop], "heron or wrapped")
        }
        ("model.annotation", "url", _) => {
            (vec![said(), note(Some("https://heron"), None, Some((0, 2))), stop], "https://heron")
        }
        ("model.annotation", "title", _) => {
            (vec![said(), note(Some("https://x"), Some("heron's"), Some((0, 2))), stop], "heron's")
        }
        ("model.annotation", "span", _) => {
            (vec![said(), note(Some("https://x"), None, Some((0, 2))), stop], "https://x")
        }
        ("model.annotation", ..) => (vec![said(), note(None, None, None), stop], MARK),
        ("model.hosted_tool", ..) => {
            let tool = Event::HostedTool {
                id: Some("h1".into()),
                phase: HostedPhase::Done,
                name: "search".into(),
                raw: b"{\"type\":\"x\",\"at\":\"heron\"}",
            };
            (vec![tool, said(), stop], MARK)
        }
        ("model.media", "data", "an image") => (vec![media("image/png", true, false), stop], MARK),
        ("model.media", "data", "a sound") => (vec![media("audio/wav", true, false), stop], MARK),
        ("model.media", "data", _) => (vec![media("video/mp4", true, false), stop], MARK),
        ("model.media", "url", _) => (vec![media("image/png", false, false), stop], "https://heron"),
        ("model.media", "partial", _) => (vec![media("image/png", true, true), stop], MARK),
        ("tool_intent.delta", _, "") => {
            let whole = [delta(0, Some("c1"), Some("f"), "{\"heron\":1}"), intent(0, Some("c1"), "f", "{\"heron\":1}")];
            (whole.into_iter().chain([tools]).collect(), MARK)
        }
        ("tool_intent.delta", _, "of a call that was cut off") => {
            (vec![delta(0, Some("c1"), Some("f"), "{\"heron"), finished(FinishReason::Length)], MARK)
        }
        ("tool_intent.delta", ..) => {
            let first = delta(0, Some("c1"), Some("f"), "{}");
            let other = intent(1, Some("c2"), "g", "{\"heron\":1}");
            (vec![first, other, finished(FinishReason::Length)], MARK)
        }
        ("tool_intent.proposed", "provider_call_id", _) => {
            (vec![intent(0, Some("heron1"), "f", "{}"), tools], "heron1")
        }
        ("tool_intent.proposed", "tool_name", _) => (vec![intent(0, Some("c1"), MARK, "{}"), tools], MARK),
        ("tool_intent.proposed", "raw_input_text", _) => {
            let streamed = delta(0, Some("c1"), Some("f"), "{\"a\":1}");
            (vec![streamed, intent(0, Some("c1"), "f", "{\"heron\":1}"), tools], MARK)
        }
        ("tool_intent.proposed", ..) => (vec![intent_of(CallKind::Custom, 0, Some("c1"), "f", MARK), tools], MARK),
        ("model.usage", "input_tokens", _) => (vec![said(), counted(|u| u.input_tokens = Some(7001)), stop], "7001"),
        ("model.usage", "output_tokens", _) => (vec![said(), counted(|u| u.output_tokens = Some(7001)), stop], "7001"),
        ("model.usage", "cached_input_tokens", _) => {
            (vec![said(), counted(|u| u.cached_input_tokens = Some(7001)), stop], "7001")
        }
        ("model.usage", "cache_write_tokens", _) => {
            (vec![said(), counted(|u| u.cache_write_tokens = Some(7001)), stop], "7001")
        }
        ("model.usage", ..) => (vec![said(), counted(|u| u.reasoning_tokens = Some(7001)), stop], "7001"),
        ("model.finished", _, "stop") => (ends(FinishReason::Stop), ""),
        ("model.finished", _, "tool_intents") => (vec![intent(0, Some("c1"), "f", "{}"), tools], ""),
        ("model.finished", _, "length") => (ends(FinishReason::Length), ""),
        ("model.finished", _, "content_filter") => (ends(FinishReason::ContentFilter), ""),
        ("model.finished", _, "refusal") => (ends(FinishReason::Refusal), ""),
        ("model.finished", _, "pause") => (ends(FinishReason::Pause), ""),
        ("model.finished", _, "other") => (ends(FinishReason::Other), ""),
        ("provider.error", ..) => (vec![said(), Event::Error(failed())], "error"),
        other => panic!("no sample for {other:?}"),
    }
}

fn failed() -> ProviderError<'static> {
    ProviderError {
        kind: ErrorKind::Overloaded,
        retryable: true,
        status: Some(529),
        code: Some("c".into()),
        message: Some("m".into()),
        raw: Some("r".into()),
        retry_after_s: Some(1.0),
        request_id: Some("q".into()),
        provider: Some("p".into()),
        model: Some("m".into()),
        phase: ErrorPhase::Streaming,
    }
}

/// Whether the mark stands in what the client got; a state is wrapped.
fn carries(bytes: &[u8], mark: &str) -> bool {
    let all = String::from_utf8_lossy(bytes);
    if mark == "heron or wrapped" {
        return all.contains("hr1.cohere_chat") || all.contains("aHIxLmNvaGVyZV9jaGF0");
    }
    all.contains(mark)
}

#[test]
fn every_item_is_carried_reported_or_the_gateways_own_as_its_row_says() {
    let mut faults = Vec::new();
    let mut trials = 0;
    for row in ROWS {
        for client in ALL {
            let fate = row.fate(client);
            if matches!(fate, Fate::Ours(why) if !why.is_empty()) {
                continue;
            }
            let (events, mark) = sample(row);
            for stream in [true, false] {
                trials += 1;
                let config =
                    EncoderConfig { stream, family: Some(FAMILY), provider: Some("acme".into()), ..config(client) };
                let events: Vec<Event<'_>> = std::iter::once(started()).chain(events.iter().cloned()).collect();
                let (encoder, bytes) = encoded(config, &events);
                let lost: Vec<&str> =
                    encoder.losses().iter().filter(|l| l.path == row.path).map(|l| l.action.code()).collect();
                let there = carries(&bytes, mark);
                let right = match fate {
                    // An image's or a picture's path is shared; what is carried is not reported.
                    Fate::To(_) => there && lost.is_empty(),
                    Fate::Near(_) => there && lost == ["approximated"],
                    Fate::Drop(_) => (mark.is_empty() || !there) && lost == ["dropped"],
                    Fate::By(_) => there || !lost.is_empty(),
                    Fate::Ours(_) => false,
                };
                if !right {
                    let at = [row.event, row.field, row.case].join(" ");
                    faults.push(format!(
                        "{at} for {} stream={stream}: {fate:?}, there: {there}, lost: {lost:?}",
                        client.name()
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} of {trials}:\n{}", faults.len(), faults.join("\n"));
    assert!(trials > 200, "{trials}");
}

#[test]
fn every_field_of_every_event_has_its_row() {
    let mut continuation = kept(FAMILY, ContinuationForm::Encrypted, "x", AttachTo::Reasoning, 0);
    if let Event::Continuation { to, .. } = &mut continuation {
        *to = AttachTo::Call;
    }
    let usage = counted(|u| {
        (u.cached_input_tokens, u.cache_write_tokens, u.reasoning_tokens) = (Some(1), Some(1), Some(1));
    });
    let events = [
        Event::Started { model: Some("m".into()), response_id: Some("r".into()), request_id: Some("q".into()) },
        text(0, "x"),
        refusal(0, "x"),
        Event::ReasoningDelta { text: "x".into(), kind: ReasoningKind::Summary, index: 0 },
        continuation,
        note(Some("u"), Some("t"), Some((0, 1))),
        Event::HostedTool { id: Some("h".into()), phase: HostedPhase::Done, name: "n".into(), raw: b"{}" },
        Event::Media { mime: "m/x".into(), data: Some("d".into()), url: Some("u".into()), partial: true },
        delta(0, Some("i"), Some("n"), "x"),
        intent(0, Some("i"), "n", "{}"),
        usage,
        Event::Finished { reason: FinishReason::Stop, raw_reason: Some("stop".into()) },
        Event::Error(failed()),
    ];
    let mut lines = JsonLines::default();
    for event in &events {
        lines.event(At { seq: 0, offset: 0 }, event);
    }
    let mut fields = 0;
    for line in lines.0.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let event: Value = serde_json::from_slice(line).unwrap();
        let name = event["type"].as_str().unwrap();
        for field in event.as_object().unwrap().keys().filter(|k| !["type", "seq", "offset"].contains(&k.as_str())) {
            fields += 1;
            assert!(ROWS.iter().any(|row| row.event == name && row.field == field), "no row for {name}.{field}");
        }
    }
    assert!(fields > 50, "{fields}");
}

#[test]
fn no_row_stands_twice() {
    let mut keys: Vec<_> = ROWS.iter().map(|row| (row.event, row.field, row.case)).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), ROWS.len());
}
