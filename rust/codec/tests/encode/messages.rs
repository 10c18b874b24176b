//! Messages.

use headrace_codec::Protocol;
use headrace_codec::encode::EncoderConfig;
use headrace_codec::encode::continuation::unwrap;
use headrace_codec::error::ErrorKind;
use headrace_codec::event::{AttachTo, CallKind, ContinuationForm, Event, FinishReason, HostedPhase};
use serde_json::{Value, json};

use crate::support::*;

fn messages() -> EncoderConfig {
    config(Protocol::AnthropicMessages)
}

fn native() -> EncoderConfig {
    EncoderConfig { family: Some(Protocol::AnthropicMessages), ..messages() }
}

fn events_of(config: EncoderConfig, events: &[Event<'_>]) -> Vec<Value> {
    let frames = stream(config, events);
    let events: Vec<Value> = frames
        .into_iter()
        .map(|(name, data)| {
            assert_eq!(name.as_deref(), data["type"].as_str(), "each event has its name and its type");
            data
        })
        .collect();
    check(&events);
    events
}

/// Blocks follow one another strictly, each with its position.
pub fn check(events: &[Value]) {
    if events[0]["type"] == "error" {
        return assert_eq!(events.len(), 1);
    }
    assert_eq!(events[0]["type"], "message_start");
    let (mut next, mut open) = (0, None);
    for event in &events[1..] {
        let index = event["index"].as_u64();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!((index, open), (Some(next), None));
                open = index;
                next += 1;
            }
            "content_block_delta" => assert!(open.is_some() && index == open),
            "content_block_stop" => {
                assert!(open.is_some() && index == open);
                open = None;
            }
            "message_start" => panic!("a second start"),
            _ => {}
        }
    }
}

/// What the SDKs make of the events.
pub fn accumulate(events: &[Value]) -> Value {
    let mut message = events[0]["message"].clone();
    let mut inputs: Vec<String> = Vec::new();
    for event in &events[1..] {
        let at = event["index"].as_u64().unwrap_or(0) as usize;
        let content = message["content"].as_array_mut().unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                content.push(event["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let (delta, block) = (&event["delta"], &mut content[at]);
                let append = |block: &mut Value, key: &str, from: &str| {
                    let text = format!("{}{}", block[key].as_str().unwrap(), delta[from].as_str().unwrap());
                    block[key] = json!(text);
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append(block, "text", "text"),
                    "thinking_delta" => append(block, "thinking", "thinking"),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    "input_json_delta" => inputs[at].push_str(delta["partial_json"].as_str().unwrap()),
                    "citations_delta" => match block.get_mut("citations") {
                        Some(list) => list.as_array_mut().unwrap().push(delta["citation"].clone()),
                        None => block["citations"] = json!([delta["citation"]]),
                    },
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" if !inputs[at].is_empty() => {
                content[at]["input"] = serde_json::from_str(&inputs[at]).expect("whole arguments");
            }
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                for (key, value) in event["usage"].as_object().unwrap() {
                    message["usage"][key] = value.clone();
                }
            }
            _ => {}
        }
    }
    message
}

fn both(config: EncoderConfig, input: &[Event<'_>]) -> Value {
    let streamed = accumulate(&events_of(config.clone(), input));
    assert_eq!(body(config, input), streamed, "the body is what the stream accumulates to");
    streamed
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
    let events = events_of(messages(), &input);
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    let want = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(kinds, want);
    let start = json!({"id": "msg_a1", "type": "message", "role": "assistant", "model": "asked", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 0, "output_tokens": 0}});
    assert_eq!(events[0]["message"], start);
    let usage = json!({"input_tokens": 5, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 4,
        "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}});
    assert_eq!(
        (&events[5]["usage"], &events[5]["delta"]),
        (&usage, &json!({"stop_reason": "end_turn", "stop_sequence": null}))
    );
    let message = both(messages(), &input);
    assert_eq!(message["content"], json!([{"type": "text", "text": "Hello"}]));
}

#[test]
fn counts_known_at_the_start_stand_there() {
    let events = events_of(
        messages(),
        &[usage(7, 1, None, None, None), text(0, "a"), usage(7, 9, None, None, None), finished(FinishReason::Stop)],
    );
    assert_eq!(events[0]["message"]["usage"], json!({"input_tokens": 7, "output_tokens": 1}));
    assert_eq!(events[4]["usage"], json!({"input_tokens": 7, "output_tokens": 9}));
}

#[test]
fn unknown_counts_are_left_out_where_they_may_be() {
    let input = [text(0, "a"), finished(FinishReason::Stop)];
    let events = events_of(messages(), &input);
    assert_eq!(events[4]["usage"], json!({"output_tokens": 0}));
    assert_eq!(
        lost(messages(), &input),
        ["approximated response.usage.output_tokens", "approximated response.usage.input_tokens"]
    );
}

#[test]
fn interleaved_calls_come_one_after_the_other() {
    let input = [
        thought(0, "hm"),
        text(1, "See:"),
        delta(0, Some("x"), Some("f"), "{\"a\":"),
        delta(1, Some("y"), Some("g"), "{\"b\""),
        text(1, "between"),
        delta(0, None, None, "1}"),
        delta(1, None, None, ":2}"),
        thought(2, "more"),
        intent(0, Some("x"), "f", "{\"a\":1}"),
        intent(1, Some("y"), "g", "{\"b\":2}"),
        intent(2, None, "h", ""),
        finished(FinishReason::ToolIntents),
    ];
    let message = both(messages(), &input);
    let want = json!([
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "See:"},
        {"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "y", "name": "g", "input": {"b": 2}},
        {"type": "text", "text": "between"},
        {"type": "thinking", "thinking": "more", "signature": ""},
        {"type": "tool_use", "id": "toolu_a1_2", "name": "h", "input": {}},
    ]);
    assert_eq!(message["content"], want);
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(
        lost(messages(), &input),
        [
            "dropped response.reasoning.signature",
            "approximated response.usage.output_tokens",
            "approximated response.usage.input_tokens"
        ]
    );
}

#[test]
fn the_first_call_streams_while_the_next_waits() {
    let input = [
        delta(0, Some("x"), Some("f"), "{\"a\":"),
        delta(1, Some("y"), Some("g"), "{}"),
        delta(0, None, None, "1"),
        delta(0, None, None, "}"),
    ];
    let events = events_of(messages(), &input);
    let pieces: Vec<&Value> = events.iter().filter_map(|e| e["delta"].get("partial_json")).collect();
    assert_eq!(pieces, ["{\"a\":", "1", "}"]);
}

#[test]
fn a_truncated_call_keeps_its_block_open() {
    for (reason, told) in [
        (FinishReason::Length, "max_tokens"),
        (FinishReason::Stop, "max_tokens"),
        (FinishReason::ToolIntents, "max_tokens"),
        (FinishReason::Refusal, "refusal"),
        (FinishReason::ContentFilter, "refusal"),
    ] {
        let input = [
            text(0, "a"),
            delta(0, Some("x"), Some("f"), "{\"a\":"),
            delta(1, Some("y"), Some("g"), "{\"b\":2"),
            finished(reason),
        ];
        let events = events_of(messages(), &input);
        let stops = events.iter().filter(|e| e["type"] == "content_block_stop").count();
        assert_eq!(stops, 1, "only the text ends");
        assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], told);
        let body = body(messages(), &input);
        assert_eq!((&body["content"], &body["stop_reason"]), (&json!([{"type": "text", "text": "a"}]), &json!(told)));
        assert!(lost(messages(), &input).contains(&"dropped response.tool_calls".to_owned()));
    }
}

#[test]
fn complete_calls_behind_a_truncated_one_are_told_unless_it_would_look_complete() {
    let behind = |partial| {
        [
            delta(0, Some("x"), Some("f"), partial),
            intent(1, Some("y"), "g", "{\"b\":2}"),
            finished(FinishReason::Length),
        ]
    };
    let input = behind("{\"a\":");
    let events = events_of(messages(), &input);
    assert!(events.iter().any(|e| e["content_block"]["id"] == "y"));
    assert_eq!(
        body(messages(), &input)["content"],
        json!([{"type": "tool_use", "id": "y", "name": "g", "input": {"b": 2}}])
    );
    let input = behind("{}");
    let events = events_of(messages(), &input);
    assert!(events.iter().all(|e| e["type"] != "content_block_stop"), "nothing ends that is not an intent");
    assert!(lost(messages(), &input).contains(&"dropped response.content".to_owned()));
}

#[test]
fn replaced_arguments_fail_the_stream_and_malformed_ones_the_body() {
    let input = [
        delta(0, Some("a"), Some("f"), "{\"a\":1}"),
        intent(0, Some("a"), "f", "{\"a\":2}"),
        finished(FinishReason::ToolIntents),
    ];
    let events = events_of(messages(), &input);
    assert_eq!(events.last().unwrap()["error"]["type"], "api_error");
    assert!(events.iter().all(|e| e["type"] != "content_block_stop" && e["type"] != "message_delta"));
    assert_eq!(body(messages(), &input)["content"][0]["input"], json!({"a": 2}));
    assert_eq!(
        body(messages(), &[intent(0, None, "f", "{\"a\":"), finished(FinishReason::ToolIntents)])["type"],
        "error"
    );
}

#[test]
fn a_custom_call_becomes_an_object() {
    let input = [
        Event::IntentDelta {
            call: 0,
            provider_call_id: Some("c".into()),
            name: Some("sh".into()),
            kind: CallKind::Custom,
            arguments_delta: "l".into(),
        },
        intent_of(CallKind::Custom, 0, Some("c"), "sh", "ls \"x\""),
        finished(FinishReason::ToolIntents),
    ];
    assert_eq!(both(messages(), &input)["content"][0]["input"], json!({"input": "ls \"x\""}));
    assert!(lost(messages(), &input).contains(&"approximated response.tool_calls[].input".to_owned()));
}

#[test]
fn signatures_are_the_vendors_own_or_wrapped() {
    let sign = |family, data, index| kept(family, ContinuationForm::Signature, data, AttachTo::Reasoning, index);
    let own = Protocol::AnthropicMessages;
    let input = [
        thought(0, "a"),
        sign(own, "SIG", 0),
        sign(own, "HIDDEN", 1),
        kept(own, ContinuationForm::Redacted, "RED", AttachTo::Reasoning, 2),
        finished(FinishReason::Stop),
    ];
    let want = json!([
        {"type": "thinking", "thinking": "a", "signature": "SIG"},
        {"type": "thinking", "thinking": "", "signature": "HIDDEN"},
        {"type": "redacted_thinking", "data": "RED"},
    ]);
    assert_eq!(both(native(), &input)["content"], want);
    let foreign = Protocol::OpenaiResponses;
    let input = [
        summary(0, "a"),
        kept(foreign, ContinuationForm::Encrypted, "gAAA", AttachTo::Reasoning, 0),
        kept(foreign, ContinuationForm::Encrypted, "gBBB", AttachTo::Reasoning, 1),
        finished(FinishReason::Stop),
    ];
    let config = EncoderConfig { family: Some(foreign), provider: Some("acme".to_owned()), ..messages() };
    let content = both(config, &input)["content"].clone();
    let back = unwrap(content[0]["signature"].as_str().unwrap()).unwrap();
    assert_eq!(
        (back.family, back.form, back.provider, back.data.as_str()),
        (foreign, ContinuationForm::Encrypted, "acme", "gAAA")
    );
    assert_eq!(unwrap(content[1]["data"].as_str().unwrap()).unwrap().data, "gBBB");
}

#[test]
fn what_belongs_to_a_whole_call_stands_before_it() {
    let config = EncoderConfig { family: Some(Protocol::GoogleGemini), ..messages() };
    let input = [
        delta(0, None, Some("f"), "{\"a\":1}"),
        kept(Protocol::GoogleGemini, ContinuationForm::ThoughtSignature, "TS", AttachTo::Call, 0),
        intent(0, None, "f", "{\"a\":1}"),
        finished(FinishReason::ToolIntents),
    ];
    let content = both(config, &input)["content"].clone();
    assert_eq!((&content[0]["type"], &content[1]["type"]), (&json!("redacted_thinking"), &json!("tool_use")));
}

#[test]
fn native_citations_and_hosted_blocks_pass_and_foreign_ones_are_lost() {
    let cite = |raw: &'static str| Event::Annotation {
        kind: "char_location".into(),
        url: None,
        title: None,
        span: None,
        raw: raw.as_bytes(),
    };
    let hosted = |phase, raw: &'static str| Event::HostedTool {
        id: None,
        phase,
        name: "web_search".into(),
        raw: raw.as_bytes(),
    };
    let input = [
        hosted(
            HostedPhase::Started,
            r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}}"#,
        ),
        hosted(HostedPhase::Done, r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[]}"#),
        text(0, "First. "),
        cite(r#"{"type":"char_location","n":1}"#),
        text(1, "Cited"),
        cite(r#"{"type":"char_location","n":2}"#),
        text(1, "."),
        cite(r#"{"type":"char_location","n":3}"#),
        finished(FinishReason::Stop),
    ];
    let content = both(native(), &input)["content"].clone();
    assert_eq!(content[0]["input"], json!({"query": "q"}));
    assert_eq!(content[1]["type"], "web_search_tool_result");
    assert_eq!(content[2], json!({"type": "text", "text": "First. "}));
    let numbers: Vec<&Value> = content[3]["citations"].as_array().unwrap().iter().map(|c| &c["n"]).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let lost = lost(messages(), &input);
    assert_eq!(lost[..2], ["dropped response.hosted_tools", "dropped response.annotations"]);
}

#[test]
fn stop_reasons_are_those_that_clients_know() {
    use FinishReason as R;
    let stop_sequence = Event::Finished { reason: R::Stop, raw_reason: Some("stop_sequence".into()) };
    for (end, want) in [
        (finished(R::Stop), "end_turn"),
        (stop_sequence, "stop_sequence"),
        (finished(R::Length), "max_tokens"),
        (finished(R::ContentFilter), "refusal"),
        (finished(R::Refusal), "refusal"),
        (finished(R::Pause), "pause_turn"),
        (finished(R::Other), "end_turn"),
    ] {
        assert_eq!(both(native(), &[text(0, "a"), end])["stop_reason"], want);
    }
    let input = [refusal(0, "No."), finished(R::Refusal)];
    assert_eq!(both(messages(), &input)["content"], json!([{"type": "text", "text": "No."}]));
    assert_eq!(both(messages(), &[finished(R::Stop)])["content"], json!([]));
}

#[test]
fn a_failure_is_an_error_event_and_nothing_ends() {
    let input = [
        text(0, "a"),
        delta(0, Some("x"), Some("f"), "{}"),
        Event::Error(failure(ErrorKind::Overloaded)),
        finished(FinishReason::Stop),
    ];
    let events = events_of(messages(), &input);
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["error"]["type"]), (&json!("error"), &json!("overloaded_error")));
    assert_eq!(events.iter().filter(|e| e["type"] == "content_block_stop").count(), 1);
    assert!(events.iter().all(|e| e["type"] != "message_delta" && e["type"] != "message_stop"));
    assert_eq!(events_of(messages(), &[text(0, "a")]).last().unwrap()["error"]["type"], "api_error");
}
