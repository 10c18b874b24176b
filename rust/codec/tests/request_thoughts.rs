//! Readable reasoning without a state, to clients of Responses and back: those need not give raw reasoning back, so it
//! stands in the opaque slot too, for the provider that wants it and for nobody else.

use headrace_codec::encode::{Encoder, EncoderConfig};
use headrace_codec::event::{At, Event, FinishReason, Protocol, ReasoningKind};
use headrace_codec::request::{Source, TargetFlags, TranslateSpec, translate};
use serde_json::{Value, json};

const THINKING: &[&str] = &["openai_compatible", "thinking_parts"];

/// The reasoning item that a client is told, of two blocks of raw reasoning.
fn told(family: Protocol, flags: &[&str]) -> Value {
    let mut encoder = Encoder::new(EncoderConfig {
        stream: false,
        response_id: "resp_1".to_owned(),
        provider: Some("acme".to_owned()),
        family: Some(family),
        target_flags: TargetFlags::from_names(flags).unwrap(),
        ..EncoderConfig::new(Protocol::OpenaiResponses)
    });
    let mut out = Vec::new();
    let thought =
        |text: &'static str, index| Event::ReasoningDelta { text: text.into(), kind: ReasoningKind::Raw, index };
    let events = [
        thought("One \"", 0),
        thought("call\".", 0),
        thought("é", 1),
        Event::TextDelta { text: "Hi".into(), index: 2 },
        Event::Finished { reason: FinishReason::Stop, raw_reason: None },
    ];
    for (seq, event) in events.iter().enumerate() {
        encoder.event(At { seq: seq as u64, offset: 0 }, event, &mut out);
    }
    encoder.finish(&mut out);
    assert!(encoder.losses().iter().all(|l| l.path.starts_with("response.usage")), "{:?}", encoder.losses());
    let body: Value = serde_json::from_slice(&out).unwrap();
    body["output"][0].clone()
}

/// The body for `target`, and the losses, of a turn in which this item is given back.
fn given(item: &Value, target: Protocol, provider: &str, flags: &[&str]) -> (Value, Vec<String>) {
    let body = json!({"input": [{"role": "user", "content": "q"}, item,
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
        {"role": "user", "content": "more"}]});
    let spec = TranslateSpec {
        source: Source::Protocol(Protocol::OpenaiResponses),
        target,
        model: "up",
        provider: Some(provider),
        edits: &[],
        target_flags: TargetFlags::from_names(flags).unwrap(),
    };
    let made = translate(body.to_string().as_bytes(), &spec).unwrap();
    // An item's own name is another matter.
    let losses = made.losses.iter().map(|l| l.path.clone()).filter(|path| path != "input[].id");
    (serde_json::from_slice(&made.body).unwrap(), losses.collect())
}

#[test]
fn a_client_that_gives_no_raw_reasoning_back_gives_it_back_all_the_same() {
    let item = told(Protocol::OpenaiChat, THINKING);
    let text = |text: &str| json!({"type": "reasoning_text", "text": text});
    assert_eq!(item["content"], json!([text("One \"call\"."), text("é")]), "it is shown as what it is");
    let mut codex = item.clone();
    codex["content"] = Value::Null;
    codex.as_object_mut().unwrap().remove("id");
    let want = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "One \"call\"."}, {"type": "text", "text": "é"}]},
        {"type": "text", "text": "Hi"}]);
    // One that gives both back says nothing twice.
    for item in [&codex, &item] {
        let (body, losses) = given(item, Protocol::OpenaiChat, "acme", THINKING);
        assert_eq!(body["messages"][1]["content"], want);
        assert_eq!(losses, [""; 0]);
    }
}

#[test]
fn no_other_row_family_or_model_sees_it() {
    let item = told(Protocol::CohereChat, &[]);
    let (body, losses) = given(&item, Protocol::CohereChat, "acme", &["effort"]);
    assert!(body.to_string().contains("call"), "{body}");
    assert_eq!(losses, [""; 0]);
    for (target, provider, flags) in [
        (Protocol::CohereChat, "other", &["effort"][..]),
        (Protocol::OllamaChat, "acme", &["effort"]),
        (Protocol::OpenaiChat, "acme", THINKING),
        (Protocol::AnthropicMessages, "acme", &[]),
        (Protocol::OpenaiResponses, "acme", &[]),
    ] {
        let (body, losses) = given(&item, target, provider, flags);
        assert!(!body.to_string().contains("call"), "{target:?}: {body}");
        assert_eq!(losses, ["input[].encrypted_content"], "{target:?}");
    }
}

#[test]
fn what_no_provider_wants_back_is_shown_once() {
    for (family, flags) in [
        (Protocol::OpenaiChat, &["openai_compatible"][..]),
        (Protocol::GoogleGemini, &[]),
        (Protocol::OpenaiResponses, &[]),
    ] {
        let item = told(family, flags);
        assert_eq!(item.get("encrypted_content"), None, "{family:?}");
        assert_eq!(item["content"][1]["text"], "é");
    }
}

#[test]
fn who_made_a_call_stands_on_it_again() {
    let by = json!({"type": "program", "caller_id": "prog_1"});
    let item = |caller: &Value| {
        json!({"id": "fc_1", "type": "function_call", "status": "completed", "arguments": "{}", "call_id": "call_1",
            "name": "f", "caller": caller})
    };
    let answer = |caller: &Value| {
        json!({"id": "r", "object": "response", "status": "completed", "model": "m", "output": [item(caller)]})
            .to_string()
    };
    let encoded = |client: Protocol, caller: &Value| -> Value {
        let config = headrace_codec::DecoderConfig::new(Protocol::OpenaiResponses);
        let mut decoder = headrace_codec::Decoder::new(config);
        let mut encoder = Encoder::new(EncoderConfig {
            stream: false,
            provider: Some("acme".to_owned()),
            family: Some(Protocol::OpenaiResponses),
            ..EncoderConfig::new(client)
        });
        let mut out = Vec::new();
        let mut sink = headrace_codec::encode::Encoding { encoder: &mut encoder, out: &mut out };
        decoder.feed(answer(caller).as_bytes(), &mut sink);
        decoder.finish(headrace_codec::End::Eof, &mut sink);
        serde_json::from_slice(&out).unwrap()
    };
    assert_eq!(encoded(Protocol::OpenaiResponses, &by)["output"][0]["caller"], by);
    // The model itself is nobody else.
    assert_eq!(encoded(Protocol::OpenaiResponses, &json!({"type": "direct"}))["output"][0].get("caller"), None);
    let told = encoded(Protocol::OpenaiChat, &by);
    let body = json!({"messages": [{"role": "user", "content": "q"}, told["choices"][0]["message"],
        {"role": "tool", "tool_call_id": "call_1", "content": "x"}]});
    let spec = TranslateSpec {
        source: Source::Protocol(Protocol::OpenaiChat),
        target: Protocol::OpenaiResponses,
        model: "up",
        provider: Some("acme"),
        edits: &[],
        target_flags: TargetFlags::default(),
    };
    let made = translate(body.to_string().as_bytes(), &spec).unwrap();
    let made: Value = serde_json::from_slice(&made.body).unwrap();
    assert_eq!(made["input"][1]["caller"], by, "{made}");
}
