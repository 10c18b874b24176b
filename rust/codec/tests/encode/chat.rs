//! Chat Completions.

use headrace_codec::Protocol;
use headrace_codec::encode::EncoderConfig;
use headrace_codec::encode::continuation::unwrap;
use headrace_codec::error::ErrorKind;
use headrace_codec::event::{AttachTo, CallKind, ContinuationForm, Event, FinishReason};
use headrace_codec::text::{Literal, Text};
use serde_json::{Value, json};

use crate::support::*;

fn chat() -> EncoderConfig {
    config(Protocol::OpenaiChat)
}

/// The chunks, without the end mark.
fn chunks(config: EncoderConfig, events: &[Event<'_>]) -> Vec<Value> {
    let mut frames = stream(config, events);
    assert_eq!(frames.pop(), Some((None, json!("[DONE]"))));
    frames.into_iter().map(|(name, data)| (assert_eq!(name, None), data).1).collect()
}

fn deltas(chunks: &[Value]) -> Vec<Value> {
    chunks.iter().map(|c| c["choices"][0]["delta"].clone()).collect()
}

#[test]
fn a_text_answer_has_role_texts_reason_usage_and_the_end_mark_in_this_order() {
    let events =
        [started(), text(0, "Hel"), text(0, "lo"), usage(10, 5, Some(4), None, Some(2)), finished(FinishReason::Stop)];
    let chunks = chunks(chat(), &events);
    let want = [
        json!({"role": "assistant", "content": "", "refusal": null}),
        json!({"content": "Hel"}),
        json!({"content": "lo"}),
        json!({}),
        Value::Null,
    ];
    assert_eq!(deltas(&chunks), want);
    for chunk in &chunks {
        for (key, value) in [
            ("id", json!("chatcmpl-a1")),
            ("object", json!("chat.completion.chunk")),
            ("created", json!(1_700_000_000)),
            ("model", json!("asked")),
        ] {
            assert_eq!(chunk[key], value);
        }
    }
    let reasons: Vec<&Value> = chunks[..4].iter().map(|c| &c["choices"][0]["finish_reason"]).collect();
    assert_eq!(reasons, [&Value::Null, &Value::Null, &Value::Null, &json!("stop")]);
    assert!(
        chunks[..4].iter().all(|c| c["usage"].is_null() && c.get("usage").is_some() && c["choices"][0]["index"] == 0)
    );
    let last = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}});
    assert_eq!((&chunks[4]["choices"], &chunks[4]["usage"]), (&json!([]), &last));
}

#[test]
fn usage_is_told_only_where_it_was_asked_for_and_is_known() {
    let not_asked = EncoderConfig { include_usage: false, ..chat() };
    let answer = [text(0, "a"), usage(1, 1, None, None, None), finished(FinishReason::Stop)];
    assert!(chunks(not_asked, &answer).iter().all(|c| c.get("usage").is_none()));
    let unknown = chunks(chat(), &[text(0, "a"), finished(FinishReason::Stop)]);
    assert!(unknown.iter().all(|c| c["choices"] != json!([]) && c["usage"].is_null()));
}

#[test]
fn a_count_that_the_schema_demands_is_0_and_said_to_be_lost() {
    let half = Event::Usage(headrace_codec::event::Usage { output_tokens: Some(3), ..Default::default() });
    let events = [text(0, "a"), half, finished(FinishReason::Stop)];
    assert_eq!(
        chunks(chat(), &events).last().unwrap()["usage"],
        json!({"prompt_tokens": 0, "completion_tokens": 3, "total_tokens": 3})
    );
    assert_eq!(lost(chat(), &events), ["approximated response.usage.input_tokens"]);
}

#[test]
fn text_is_copied_raw_and_lone_halves_are_replaced() {
    let raw = |raw: &'static str| Event::TextDelta {
        text: Text::Literal(Literal::new(raw.as_bytes(), true, true)),
        index: 0,
    };
    let (_, out) = encoded(chat(), &[raw(r"a\u00e9\/\ud83d\ude00"), raw(r"\ud83d\n"), finished(FinishReason::Stop)]);
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains(r#""content":"a\u00e9\/\ud83d\ude00""#), "{out}");
    assert!(out.contains("\"content\":\"\u{fffd}\\n\""), "{out}");
}

#[test]
fn calls_open_once_and_are_numbered_by_their_opening() {
    let events = [
        delta(0, Some("call_x"), Some("f"), ""),
        delta(1, Some("call_y"), Some("g"), "{\"b\""),
        delta(0, None, None, "{}"),
        delta(1, None, None, ":2}"),
        intent(0, Some("call_x"), "f", "{}"),
        intent(1, Some("call_y"), "g", "{\"b\":2}"),
        finished(FinishReason::ToolIntents),
    ];
    let chunks = chunks(chat(), &events);
    let calls: Vec<Value> = deltas(&chunks).iter().filter_map(|d| d.get("tool_calls").cloned()).collect();
    let want = [
        json!([{"index": 0, "id": "call_y", "type": "function", "function": {"name": "g", "arguments": "{\"b\""}}]),
        json!([{"index": 1, "id": "call_x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]),
        json!([{"index": 0, "function": {"arguments": ":2}"}}]),
    ];
    assert_eq!(calls, want);
    assert_eq!(chunks[chunks.len() - 1]["choices"][0]["finish_reason"], "tool_calls");
    let body = body(chat(), &events);
    let message = &body["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    let names: Vec<&Value> =
        message["tool_calls"].as_array().unwrap().iter().map(|c| &c["function"]["arguments"]).collect();
    assert_eq!(names, ["{\"b\":2}", "{}"]);
}

#[test]
fn no_arguments_are_an_empty_object_and_a_missing_id_is_made() {
    for raw in ["", "null", "  "] {
        let events = [delta(0, None, Some("f"), raw), intent(0, None, "f", raw), finished(FinishReason::ToolIntents)];
        let call = json!({"id": "call_a1_0", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        assert_eq!(body(chat(), &events)["choices"][0]["message"]["tool_calls"], json!([call]), "{raw:?}");
        let deltas = deltas(&chunks(chat(), &events));
        assert_eq!(deltas[1]["tool_calls"][0]["function"]["arguments"], "{}", "{raw:?}");
    }
}

#[test]
fn a_truncated_call_makes_the_reason_length_whatever_the_event_says() {
    for reason in [FinishReason::Length, FinishReason::Stop, FinishReason::ToolIntents] {
        let events = [
            delta(0, Some("a"), Some("f"), "{}"),
            intent(0, Some("a"), "f", "{}"),
            delta(1, Some("b"), Some("g"), "{\"x\":"),
            finished(reason),
        ];
        assert_eq!(chunks(chat(), &events).last().unwrap()["choices"][0]["finish_reason"], "length");
        assert_eq!(body(chat(), &events)["choices"][0]["finish_reason"], "length");
    }
}

#[test]
fn arguments_that_were_replaced_after_they_were_streamed_fail_the_stream() {
    let events = [
        delta(0, Some("a"), Some("f"), "{\"a\":1}"),
        intent(0, Some("a"), "f", "{\"a\":2}"),
        finished(FinishReason::ToolIntents),
    ];
    let frames = stream(chat(), &events);
    assert_eq!(frames.last().unwrap().1["error"]["code"], "upstream_response_failed");
    assert!(frames.iter().all(|(_, data)| data["choices"][0]["finish_reason"].is_null()));
    assert_eq!(body(chat(), &events)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\":2}");
}

#[test]
fn custom_calls_have_their_own_member() {
    let events = [intent_of(CallKind::Custom, 0, Some("c"), "sh", "ls -l \"x\""), finished(FinishReason::ToolIntents)];
    let want = json!([{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls -l \"x\""}}]);
    assert_eq!(body(chat(), &events)["choices"][0]["message"]["tool_calls"], want);
}

#[test]
fn a_signature_travels_with_the_text_it_signs() {
    let family = Some(Protocol::AnthropicMessages);
    let config = || EncoderConfig { family, provider: Some("acme".to_owned()), ..chat() };
    let sign =
        |data, index| kept(Protocol::AnthropicMessages, ContinuationForm::Signature, data, AttachTo::Reasoning, index);
    let events = [
        thought(0, "one \n"),
        thought(0, "two"),
        sign("SIG1", 0),
        kept(Protocol::AnthropicMessages, ContinuationForm::Redacted, "RED", AttachTo::Reasoning, 1),
        thought(2, "three"),
        sign("SIG2", 2),
        text(3, "x"),
        finished(FinishReason::Stop),
    ];
    let deltas = deltas(&chunks(config(), &events));
    // As the helpers accumulate: texts of one index are joined, and reasoning is not told twice to who reads both.
    let said = json!([{"index": 0, "type": "reasoning.text", "text": "one \n"}]);
    assert_eq!(deltas[1], json!({"reasoning_content": "one \n", "reasoning_details": said}));
    let mut details: Vec<Value> = Vec::new();
    for entry in deltas.iter().filter_map(|d| d.get("reasoning_details")).map(|list| &list[0]) {
        let index = entry["index"].as_u64().unwrap() as usize;
        assert!(index <= details.len());
        if index == details.len() {
            details.push(entry.clone());
        } else if let Some(text) = entry.get("text") {
            let text = format!("{}{}", details[index]["text"].as_str().unwrap(), text.as_str().unwrap());
            details[index]["text"] = json!(text);
        } else {
            details[index]["signature"] = entry["signature"].clone();
        }
    }
    assert_eq!((&details[0]["type"], &details[0]["text"]), (&json!("reasoning.text"), &json!("one \ntwo")));
    assert_eq!(details[2]["text"], "three");
    let back = unwrap(details[0]["signature"].as_str().unwrap()).unwrap();
    assert_eq!((back.provider, back.form, back.data.as_str()), ("acme", ContinuationForm::Signature, "SIG1"));
    assert_eq!(details[1]["type"], "reasoning.encrypted");
    assert_eq!(unwrap(details[1]["data"].as_str().unwrap()).unwrap().data, "RED");
    let body = body(config(), &events);
    let message = &body["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "one \ntwothree");
    assert_eq!(message["reasoning_details"], json!(details));
}

#[test]
fn a_vendors_own_details_pass_with_an_index_each() {
    let list = r#"[{"type":"reasoning.text","text":"a","format":"f\u00e9"},{"index":7,"type":"reasoning.encrypted","data":"D"}]"#;
    let events = [
        kept(Protocol::OpenaiChat, ContinuationForm::Details, list, AttachTo::Response, 0),
        finished(FinishReason::Stop),
    ];
    let config = EncoderConfig { family: Some(Protocol::OpenaiChat), ..chat() };
    let want = json!([{"index": 0, "type": "reasoning.text", "text": "a", "format": "fé"}, {"index": 1, "type": "reasoning.encrypted", "data": "D"}]);
    assert_eq!(body(config, &events)["choices"][0]["message"]["reasoning_details"], want);
}

#[test]
fn a_thought_signature_names_its_call() {
    let config = EncoderConfig { family: Some(Protocol::GoogleGemini), ..chat() };
    let events = [
        delta(0, None, Some("f"), "{}"),
        kept(Protocol::GoogleGemini, ContinuationForm::ThoughtSignature, "TS", AttachTo::Call, 0),
        intent(0, None, "f", "{}"),
        finished(FinishReason::ToolIntents),
    ];
    let deltas = deltas(&chunks(config, &events));
    assert_eq!(deltas[1]["reasoning_details"][0]["id"], "call_a1_0");
    assert_eq!(deltas[2]["tool_calls"][0]["id"], "call_a1_0");
}

fn cited(url: &str, span: Option<(u64, u64)>) -> Event<'_> {
    Event::Annotation { kind: "url_citation".into(), url: Some(url.into()), title: Some("T".into()), span, raw: b"{}" }
}

#[test]
fn citations_have_an_index_and_spans_of_the_joined_content() {
    let events = [
        text(0, "é😀 "),
        cited("u0", Some((0, 2))),
        cited("u1", None),
        text(1, "claim"),
        cited("u2", Some((1, 3))),
        text(1, "ed."),
        text(2, " end"),
        cited("u3", None),
        finished(FinishReason::Stop),
    ];
    let deltas = deltas(&chunks(chat(), &events));
    let got: Vec<(u64, String, u64, u64)> = deltas
        .iter()
        .filter_map(|d| d.get("annotations"))
        .map(|list| {
            let (entry, cite) = (&list[0], &list[0]["url_citation"]);
            let number = |v: &Value| v.as_u64().unwrap();
            (
                number(&entry["index"]),
                cite["url"].as_str().unwrap().to_owned(),
                number(&cite["start_index"]),
                number(&cite["end_index"]),
            )
        })
        .collect();
    let want = [(0, "u0", 0, 2), (1, "u2", 4, 6), (2, "u1", 3, 11), (3, "u3", 11, 15)];
    assert_eq!(got, want.map(|(i, u, a, b)| (i, u.to_owned(), a, b)));
}

#[test]
fn finish_reasons_are_those_that_clients_know() {
    use FinishReason as R;
    for (reason, want) in [
        (R::Stop, "stop"),
        (R::Length, "length"),
        (R::ContentFilter, "content_filter"),
        (R::Refusal, "content_filter"),
        (R::Pause, "length"),
        (R::Other, "stop"),
    ] {
        let events = [text(0, "a"), finished(reason)];
        assert_eq!(body(chat(), &events)["choices"][0]["finish_reason"], want);
    }
    let events = [refusal(0, "No."), finished(R::Refusal)];
    let choice = &body(chat(), &events)["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["refusal"]), (&json!("stop"), &json!("No.")));
}

#[test]
fn a_failure_is_an_error_chunk_and_no_end_mark() {
    let events =
        [text(0, "a"), Event::Error(failure(ErrorKind::Overloaded)), text(0, "late"), finished(FinishReason::Stop)];
    let frames = stream(chat(), &events);
    assert_eq!(frames.len(), 3);
    assert_eq!(frames[2].1["error"]["code"], "server_is_overloaded");
    let cut = stream(chat(), &[text(0, "a")]);
    assert_eq!(cut.last().unwrap().1["error"]["code"], "upstream_response_failed");
}

#[test]
fn what_has_no_place_is_told_as_lost() {
    let events = [
        Event::HostedTool {
            id: None,
            phase: headrace_codec::event::HostedPhase::Done,
            name: "web_search".into(),
            raw: b"{}",
        },
        Event::Media { mime: "video/mp4".into(), data: Some("QQ==".into()), url: None, partial: false },
        Event::Media { mime: "image/png".into(), data: Some("QQ==".into()), url: None, partial: false },
        finished(FinishReason::Stop),
    ];
    assert_eq!(lost(chat(), &events), ["dropped response.hosted_tools", "dropped response.media"]);
    let image = json!([{"index": 0, "type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}]);
    assert_eq!(body(chat(), &events)["choices"][0]["message"]["images"], image);
}
