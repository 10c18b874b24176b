//! Responses.

use std::collections::{BTreeMap, BTreeSet};

use headrace_codec::Protocol;
use headrace_codec::encode::continuation::unwrap;
use headrace_codec::encode::{Encoder, EncoderConfig, keep_alive};
use headrace_codec::error::ErrorKind;
use headrace_codec::event::{AttachTo, CallKind, ContinuationForm, Event, FinishReason, HostedPhase};
use serde_json::{Value, json};

use crate::support::*;

fn responses() -> EncoderConfig {
    config(Protocol::OpenaiResponses)
}

/// The events, checked as the strictest helper checks them.
fn events_of(config: EncoderConfig, events: &[Event<'_>]) -> Vec<Value> {
    let frames = stream(config, events);
    let mut out = Vec::new();
    for (number, (name, data)) in frames.into_iter().enumerate() {
        assert_eq!(name.as_deref(), data["type"].as_str(), "the event's name is its type");
        assert_eq!(data["sequence_number"], number, "sequence numbers rise by one");
        out.push(data);
    }
    check(&out);
    out
}

/// What the accumulators of the SDKs demand of the order of events.
pub fn check(events: &[Value]) {
    assert_eq!(events[0]["type"], "response.created");
    let id = &events[0]["response"]["id"];
    let mut added: BTreeMap<u64, Value> = BTreeMap::new();
    let mut parts: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut ended: BTreeSet<u64> = BTreeSet::new();
    for event in events {
        let kind = event["type"].as_str().unwrap();
        if let Some(response) = event.get("response") {
            assert_eq!(&response["id"], id);
        }
        let Some(at) = event["output_index"].as_u64() else { continue };
        match kind {
            "response.output_item.added" => {
                assert_eq!(added.insert(at, event["item"].clone()), None, "an index is added once");
                assert_eq!(at as usize + 1, added.len(), "places have no gaps");
            }
            "response.output_item.done" => {
                let (before, now) = (&added[&at], &event["item"]);
                for key in ["id", "type", "call_id", "name"] {
                    assert_eq!(before.get(key), now.get(key), "an item's identity never changes");
                }
                assert!(ended.insert(at), "an item ends once");
            }
            _ => {
                assert!(!ended.contains(&at), "{kind} after its item's end");
                assert!(added.contains_key(&at), "{kind} before its item");
                if let Some(part) = event["content_index"].as_u64() {
                    match kind {
                        "response.content_part.added" => assert!(parts.insert((at, part))),
                        _ => assert!(parts.contains(&(at, part)), "{kind} before its part"),
                    }
                }
            }
        }
    }
    let last = &events[events.len() - 1];
    if last["type"] == "response.completed" {
        assert_eq!(ended.len(), added.len(), "a completed response has no unfinished item");
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|e| e["type"].as_str().unwrap().trim_start_matches("response.")).collect()
}

#[test]
fn a_text_answer_comes_in_the_real_order() {
    let input = [
        started(),
        text(0, "Hel"),
        text(0, "lo"),
        usage(10, 5, Some(4), Some(1), Some(2)),
        finished(FinishReason::Stop),
    ];
    let events = events_of(responses(), &input);
    let want = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds(&events), want);
    assert_eq!(events[2]["item"]["content"], json!([]));
    assert_eq!((&events[4]["delta"], &events[4]["logprobs"]), (&json!("Hel"), &json!([])));
    let part = json!({"type": "output_text", "annotations": [], "logprobs": [], "text": "Hello"});
    let item =
        json!({"id": "msg_a1_0", "type": "message", "status": "completed", "role": "assistant", "content": [part]});
    assert_eq!(events[8]["item"], item);
    let response = &events[9]["response"];
    assert_eq!((&response["output"], &response["status"]), (&json!([item]), &json!("completed")));
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15});
    assert_eq!(response["usage"], usage);
    assert_eq!(&body(responses(), &input), response);
    for key in [
        "id",
        "object",
        "created_at",
        "status",
        "error",
        "incomplete_details",
        "instructions",
        "model",
        "output",
        "parallel_tool_calls",
        "temperature",
        "top_p",
        "tool_choice",
        "tools",
        "metadata",
        "text",
        "truncation",
        "usage",
    ] {
        assert!(events.iter().filter_map(|e| e.get("response")).all(|r| r.get(key).is_some()), "{key}");
    }
}

#[test]
fn the_request_is_repeated_in_the_response() {
    let request =
        br#"{"model":"x","tools":[{"type":"function","name":"f","parameters":{}}],"temperature":0.5,"input":"hi"}"#;
    let config = EncoderConfig { request: Some(request.to_vec()), ..responses() };
    let events = events_of(config, &[text(0, "a"), finished(FinishReason::Stop)]);
    for event in [&events[0], events.last().unwrap()] {
        assert_eq!(event["response"]["tools"][0]["name"], "f");
        assert_eq!((&event["response"]["temperature"], &event["response"]["model"]), (&json!(0.5), &json!("asked")));
        assert_eq!(event["response"].get("input"), None);
    }
}

#[test]
fn unknown_usage_is_null_and_unknown_details_are_0_and_lost() {
    let events = [text(0, "a"), finished(FinishReason::Stop)];
    assert_eq!(body(responses(), &events)["usage"], Value::Null);
    let events = [usage(1, 2, None, None, None), text(0, "a"), finished(FinishReason::Stop)];
    assert_eq!(body(responses(), &events)["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
    assert_eq!(
        lost(responses(), &events),
        [
            "approximated response.usage.cached_input_tokens",
            "approximated response.usage.cache_write_tokens",
            "approximated response.usage.reasoning_tokens"
        ]
    );
}

#[test]
fn interleaved_calls_each_end_at_their_intent() {
    let input = [
        text(0, "Let me see."),
        delta(0, Some("call_x"), Some("f"), "{\"a\":"),
        delta(1, Some("call_y"), Some("g"), "{}"),
        intent(1, Some("call_y"), "g", "{}"),
        delta(0, None, None, "1}"),
        intent(0, Some("call_x"), "f", "{\"a\":1}"),
        finished(FinishReason::ToolIntents),
    ];
    let events = events_of(responses(), &input);
    let done: Vec<&Value> = events.iter().filter(|e| e["type"] == "response.output_item.done").collect();
    assert_eq!(done.iter().map(|e| &e["output_index"]).collect::<Vec<_>>(), [0, 2, 1]);
    let call = json!({"id": "fc_a1_1", "type": "function_call", "status": "completed", "arguments": "{\"a\":1}", "call_id": "call_x", "name": "f"});
    assert_eq!(done[2]["item"], call);
    let output = &events.last().unwrap()["response"]["output"];
    assert_eq!(output[1], call);
    assert_eq!(output[2]["call_id"], "call_y");
    assert_eq!(&body(responses(), &input)["output"], output);
}

#[test]
fn the_end_of_a_call_has_the_last_word() {
    let input = [
        delta(0, Some("a"), Some("f"), "{\"a\":1}"),
        intent(0, Some("a"), "f", "{\"a\":2}"),
        finished(FinishReason::ToolIntents),
    ];
    let events = events_of(responses(), &input);
    assert_eq!(events.last().unwrap()["response"]["output"][0]["arguments"], "{\"a\":2}");
    let done = events.iter().find(|e| e["type"] == "response.function_call_arguments.done").unwrap();
    assert_eq!(done["arguments"], "{\"a\":2}");
    assert_eq!(lost(responses(), &input), ["approximated response.tool_calls[].arguments"]);
}

#[test]
fn custom_calls_are_items_of_their_own_kind() {
    let input = [
        Event::IntentDelta {
            call: 0,
            provider_call_id: Some("c".into()),
            name: Some("sh".into()),
            kind: CallKind::Custom,
            arguments_delta: "ls".into(),
        },
        intent_of(CallKind::Custom, 0, Some("c"), "sh", "ls -l"),
        finished(FinishReason::ToolIntents),
    ];
    let events = events_of(responses(), &input);
    assert_eq!(
        kinds(&events)[2..7],
        [
            "output_item.added",
            "custom_tool_call_input.delta",
            "custom_tool_call_input.delta",
            "custom_tool_call_input.done",
            "output_item.done"
        ]
    );
    let item = json!({"id": "ctc_a1_0", "type": "custom_tool_call", "status": "completed", "input": "ls -l", "call_id": "c", "name": "sh"});
    assert_eq!(events[6]["item"], item);
}

#[test]
fn a_truncated_call_is_incomplete_and_so_is_the_response() {
    for reason in [FinishReason::Length, FinishReason::Stop] {
        let input = [delta(0, Some("a"), Some("f"), "{\"x\":48"), finished(reason)];
        let events = events_of(responses(), &input);
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["incomplete_details"]),
            (&json!("response.incomplete"), &json!({"reason": "max_output_tokens"}))
        );
        assert_eq!(last["response"]["output"][0]["status"], "incomplete");
        // Codex runs what is done, whatever its status.
        assert!(events.iter().all(|e| e["type"] != "response.output_item.done"));
        assert!(events.iter().all(|e| e["type"] != "response.function_call_arguments.done"));
    }
}

#[test]
fn a_failure_keeps_what_there_was_and_ends_nothing() {
    let mut error = failure(ErrorKind::RateLimit);
    error.retry_after_s = Some(1.5);
    error.message = Some("org-123 is limited".into());
    let input =
        [text(0, "so"), delta(0, Some("a"), Some("f"), "{\"x\":"), Event::Error(error), finished(FinishReason::Stop)];
    let events = events_of(responses(), &input);
    let last = &events.last().unwrap()["response"];
    assert_eq!(
        last["error"],
        json!({"code": "rate_limit_exceeded", "message": "The provider's rate limit was reached. Please try again in 1.5s."})
    );
    assert_eq!(
        (&last["status"], &last["output"][0]["content"][0]["text"], &last["output"][1]["status"]),
        (&json!("failed"), &json!("so"), &json!("incomplete"))
    );
    let done: Vec<&Value> = events.iter().filter(|e| e["type"] == "response.output_item.done").collect();
    assert!(done.iter().all(|e| e["item"]["type"] == "message"), "no call is done");
    let cut = events_of(responses(), &[text(0, "a")]);
    assert_eq!(cut.last().unwrap()["response"]["error"]["code"], "server_error");
    let nothing = events_of(responses(), &[]);
    assert_eq!(kinds(&nothing), ["created", "in_progress", "failed"]);
}

#[test]
fn failures_have_codes_that_codex_acts_on() {
    use ErrorKind as K;
    for (kind, want) in [
        (K::ContextLength, "context_length_exceeded"),
        (K::Quota, "insufficient_quota"),
        (K::Overloaded, "server_is_overloaded"),
        (K::BadRequest, "invalid_prompt"),
        (K::RateLimit, "rate_limit_exceeded"),
        (K::Transport, "server_error"),
        (K::MalformedToolCall, "server_error"),
    ] {
        let events = events_of(responses(), &[text(0, "a"), Event::Error(failure(kind))]);
        assert_eq!(events.last().unwrap()["response"]["error"]["code"], want);
    }
}

#[test]
fn reasoning_closes_with_its_continuation() {
    let config = || EncoderConfig {
        family: Some(Protocol::AnthropicMessages),
        provider: Some("acme".to_owned()),
        ..responses()
    };
    let sign =
        |data, index| kept(Protocol::AnthropicMessages, ContinuationForm::Signature, data, AttachTo::Reasoning, index);
    let input = [
        thought(0, "one "),
        thought(0, "two"),
        sign("SIG", 0),
        kept(Protocol::AnthropicMessages, ContinuationForm::Redacted, "RED", AttachTo::Reasoning, 1),
        text(2, "x"),
        finished(FinishReason::Stop),
    ];
    let events = events_of(config(), &input);
    assert_eq!(
        kinds(&events)[2..10],
        [
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added"
        ]
    );
    let output = &events.last().unwrap()["response"]["output"];
    // Codex gives summaries back and raw reasoning never.
    assert_eq!(output[0]["summary"], json!([{"type": "summary_text", "text": "one two"}]));
    assert_eq!(output[0].get("content"), None);
    let data = |at: usize| unwrap(output[at]["encrypted_content"].as_str().unwrap()).unwrap();
    assert_eq!(
        (data(0).data.as_str(), data(0).provider, data(1).data.as_str(), data(1).form),
        ("SIG", "acme", "RED", ContinuationForm::Redacted)
    );
    assert_eq!(&body(config(), &input)["output"], output);
}

#[test]
fn summaries_are_parts_and_native_state_is_not_wrapped() {
    let config = EncoderConfig { family: Some(Protocol::OpenaiResponses), ..responses() };
    let input = [
        summary(0, "sum"),
        summary(1, "two"),
        thought(2, "raw"),
        kept(Protocol::OpenaiResponses, ContinuationForm::Encrypted, "gAAA", AttachTo::Reasoning, 2),
        kept(Protocol::OpenaiResponses, ContinuationForm::Encrypted, "gCMP", AttachTo::Response, 0),
        finished(FinishReason::Stop),
    ];
    let events = events_of(config, &input);
    let item = json!({"id": "rs_a1_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "sum"}, {"type": "summary_text", "text": "two"}],
        "content": [{"type": "reasoning_text", "text": "raw"}], "encrypted_content": "gAAA"});
    assert_eq!(
        events.last().unwrap()["response"]["output"],
        json!([item, {"id": "cmp_a1_1", "type": "compaction", "encrypted_content": "gCMP"}])
    );
    assert!(kinds(&events).contains(&"reasoning_summary_part.done"));
}

#[test]
fn text_blocks_are_parts_and_citations_belong_to_theirs() {
    let cite = |url: &'static str, span| Event::Annotation {
        kind: "c".into(),
        url: Some(url.into()),
        title: None,
        span,
        raw: b"",
    };
    let input = [
        text(0, "é "),
        cite("u1", None),
        text(1, "claim"),
        cite("u0", Some((0, 3))),
        refusal(2, "No."),
        finished(FinishReason::Refusal),
    ];
    let events = events_of(responses(), &input);
    let content = &events.last().unwrap()["response"]["output"][0]["content"];
    let cited = |url: &str, end: u64| json!({"type": "url_citation", "start_index": 0, "end_index": end, "title": "", "url": url});
    assert_eq!(content[0]["annotations"], json!([]));
    assert_eq!(content[1]["annotations"], json!([cited("u0", 3), cited("u1", 5)]));
    assert_eq!(content[2], json!({"type": "refusal", "refusal": "No."}));
    assert_eq!(events.last().unwrap()["type"], "response.completed");
    assert_eq!(&body(responses(), &input)["output"][0]["content"], content);
}

#[test]
fn hosted_tools_and_images_are_items() {
    let hosted = |phase, raw: &'static str| Event::HostedTool {
        id: None,
        phase,
        name: "web_search".into(),
        raw: raw.as_bytes(),
    };
    let raw = r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}}"#;
    let image = Event::Media { mime: "image/png".into(), data: Some("QQ==".into()), url: None, partial: false };
    let input = [
        hosted(HostedPhase::Started, "{}"),
        hosted(HostedPhase::Done, raw),
        image,
        text(0, "a"),
        finished(FinishReason::Stop),
    ];
    let native = EncoderConfig { family: Some(Protocol::OpenaiResponses), ..responses() };
    let output = body(native.clone(), &input)["output"].clone();
    assert_eq!(output[0], serde_json::from_str::<Value>(raw).unwrap());
    assert_eq!(output[1]["type"], "message", "a native image stands in its own item");
    let output = body(responses(), &input)["output"].clone();
    assert_eq!((&output[0]["type"], &output[0]["result"]), (&json!("image_generation_call"), &json!("QQ==")));
    events_of(native, &input);
    assert_eq!(lost(responses(), &input), ["dropped response.hosted_tools"]);
}

#[test]
fn ends_are_those_that_clients_know() {
    use FinishReason as R;
    let steered = Event::Finished { reason: R::Other, raw_reason: Some("steered".into()) };
    for (end, status, why) in [
        (finished(R::Stop), "completed", Value::Null),
        (finished(R::Other), "completed", Value::Null),
        (finished(R::Length), "incomplete", json!({"reason": "max_output_tokens"})),
        (finished(R::Pause), "incomplete", json!({"reason": "max_output_tokens"})),
        (finished(R::ContentFilter), "incomplete", json!({"reason": "content_filter"})),
        (finished(R::Refusal), "incomplete", json!({"reason": "content_filter"})),
        (steered.clone(), "incomplete", json!({"reason": "steered"})),
    ] {
        let response = body(responses(), &[text(0, "a"), end]);
        assert_eq!((&response["status"], &response["incomplete_details"]), (&json!(status), &why));
    }
    assert_eq!(body(responses(), &[finished(R::Other)])["status"], "failed");
    assert_eq!(body(responses(), &[steered])["status"], "incomplete");
}

#[test]
fn a_silent_stream_that_has_not_begun_begins() {
    let (mut encoder, mut out) = (Encoder::new(responses()), Vec::new());
    encoder.keep_alive(&mut out);
    assert_eq!(frames(&out).len(), 2);
    assert_eq!(frames(&out)[0].1["type"], "response.created");
    out.clear();
    encoder.keep_alive(&mut out);
    assert_eq!(out, keep_alive(Protocol::OpenaiResponses));
    assert!(frames(&out)[0].1["type"].is_string(), "Codex takes a type as a sign of life");
}
