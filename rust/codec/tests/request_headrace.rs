//! The library's own request (`ModelRequest.to_json()`) as each protocol's body.

use headrace_codec::event::Protocol;
use headrace_codec::request::{RequestError, Source, TargetFlags, TranslateSpec, translate};
use serde_json::{Value, json};

const CHAT: Protocol = Protocol::OpenaiChat;
const RESPONSES: Protocol = Protocol::OpenaiResponses;
const MESSAGES: Protocol = Protocol::AnthropicMessages;

fn tried(body: &Value, target: Protocol) -> Result<(Value, Vec<String>), RequestError> {
    let spec = TranslateSpec {
        source: Source::Headrace,
        target,
        model: "up",
        provider: Some("acme"),
        edits: &[],
        target_flags: TargetFlags::default(),
    };
    let out = translate(body.to_string().as_bytes(), &spec)?;
    let losses = out.losses.iter().map(|l| format!("{} {}", l.action.code(), l.path)).collect();
    Ok((serde_json::from_slice(&out.body).unwrap(), losses))
}

fn got(body: &Value, target: Protocol) -> (Value, Vec<String>) {
    tried(body, target).unwrap_or_else(|e| panic!("{e:?}"))
}

fn turn(parts: &Value) -> Value {
    json!({"messages": [{"role": "assistant", "parts": parts}]})
}

#[test]
fn a_whole_request_in_each_protocol() {
    let request = json!({
        "model": "primary", "run_id": "r", "turn_id": "t0",
        "messages": [
            {"role": "system", "parts": [{"type": "text", "text": "brief"}]},
            {"role": "user", "parts": [{"type": "text", "text": "q"}, {"type": "image", "mime": "image/png", "data": "AA", "detail": "low"},
                {"type": "file", "name": "n.txt", "mime": "text/plain", "data": "aMOpIQ=="}]},
            {"role": "assistant", "parts": [{"type": "text", "text": "a"},
                {"type": "tool_call", "call_id": "c1", "name": "f", "raw_input_text": "{\"x\":1}", "kind": "function"}]},
            {"role": "tool", "parts": [{"type": "tool_result", "call_id": "c1", "is_error": true, "parts": [{"type": "text", "text": "no"}]}]},
        ],
        "tools": [{"name": "f", "description": "d", "raw_schema": {"type": "object"}, "kind": "function", "strict": true}],
        "options": {"stream": true, "max_output_tokens": 99, "temperature": 0.5, "stop": ["Z"], "seed": 7,
            "tool_choice": {"mode": "tool", "name": "f"}, "parallel_tool_calls": false, "user": "u",
            "response_format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}},
    });
    let (chat, losses) = got(&request, CHAT);
    assert_eq!(
        chat,
        json!({"model": "up", "stream": true, "stream_options": {"include_usage": true}, "max_completion_tokens": 99,
            "temperature": 0.5, "seed": 7, "stop": ["Z"], "safety_identifier": "u",
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "object"}}},
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
            "messages": [
                {"role": "system", "content": "brief"},
                {"role": "user", "content": [{"type": "text", "text": "q"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
                    {"type": "file", "file": {"file_data": "data:text/plain;base64,aMOpIQ==", "filename": "n.txt"}}]},
                {"role": "assistant", "content": "a", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "no"}]})
    );
    assert_eq!(losses, ["dropped messages[].parts[].is_error"]);

    let mut without_stop = request.clone();
    without_stop["options"].as_object_mut().unwrap().remove("stop");
    let (responses, losses) = got(&without_stop, RESPONSES);
    assert_eq!(responses["input"][2], json!({"type": "message", "role": "assistant", "content": "a"}));
    assert_eq!(responses["input"][3]["arguments"], "{\"x\":1}");
    assert_eq!(responses["text"]["format"]["name"], "n");
    assert_eq!(losses, ["dropped messages[].parts[].is_error", "dropped options.seed"]);
    assert_eq!(tried(&request, RESPONSES).unwrap_err().param.as_deref(), Some("options.stop"));

    let (messages, losses) = got(&request, MESSAGES);
    assert_eq!(messages["system"], "brief");
    assert_eq!(
        messages["messages"][0]["content"][2],
        json!({"type": "document", "title": "n.txt", "source": {"type": "text", "media_type": "text/plain", "data": "hé!"}})
    );
    assert_eq!(messages["messages"][1]["content"][1]["input"], json!({"x": 1}));
    assert_eq!(messages["messages"][2]["content"][0]["is_error"], true);
    assert_eq!(messages["tool_choice"], json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true}));
    assert_eq!(messages["metadata"], json!({"user_id": "u"}));
    for path in ["options.temperature", "options.seed", "messages[].parts[].detail", "options.response_format.name"] {
        assert!(losses.contains(&format!("dropped {path}")), "{path}: {losses:?}");
    }
}

#[test]
fn continuations_join_the_reasoning_before_them_and_stay_with_their_row() {
    let parts = |provider: &str| {
        json!([{"type": "reasoning", "text": "hm", "kind": "raw"},
            {"type": "continuation", "family": "anthropic_messages", "form": "signature", "data": "sig", "provider": provider},
            {"type": "continuation", "family": "anthropic_messages", "form": "redacted", "data": "red"},
            {"type": "text", "text": "a"}])
    };
    let (body, losses) = got(&turn(&parts("acme")), MESSAGES);
    assert_eq!(
        body["messages"][0]["content"],
        json!([{"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "redacted_thinking", "data": "red"},
            {"type": "text", "text": "a"}])
    );
    assert!(losses.is_empty(), "{losses:?}");
    let (body, losses) = got(&turn(&parts("other")), MESSAGES);
    assert_eq!(body["messages"][0]["content"][0], json!({"type": "redacted_thinking", "data": "red"}));
    assert!(losses.contains(&"dropped messages[].parts[].data".to_owned()), "{losses:?}");
    let (body, _) = got(&turn(&parts("acme")), RESPONSES);
    assert_eq!(body["input"], json!([{"type": "message", "role": "assistant", "content": "a"}]));
    let encrypted = json!([{"type": "continuation", "family": "openai_responses", "form": "encrypted", "data": "enc"},
        {"type": "text", "text": "a"}]);
    let (body, _) = got(&turn(&encrypted), RESPONSES);
    assert_eq!(body["input"][0]["encrypted_content"], "enc");
}

#[test]
fn what_a_provider_ran_goes_back_to_its_own_family() {
    let raw = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let parts =
        json!([{"type": "hosted_tool", "family": "openai_responses", "raw": raw}, {"type": "text", "text": "a"}]);
    assert_eq!(got(&turn(&parts), RESPONSES).0["input"][0], raw);
    for target in [CHAT, MESSAGES] {
        let (body, losses) = got(&turn(&parts), target);
        assert!(!body.to_string().contains("ws_1") && losses.len() == 1, "{losses:?}");
    }
}

#[test]
fn extra_members_reach_their_own_family_and_replace_nothing() {
    let extra = |family: &str, value: Value| json!({family: value});
    let request = json!({
        "messages": [{"role": "user", "extra": extra("openai_chat", json!({"name": "bob", "role": "x"})), "parts": [
            {"type": "text", "text": "q", "extra": extra("anthropic_messages", json!({"cache_control": {"type": "ephemeral"}, "text": "x"}))}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "call_id": "c", "name": "f", "raw_input_text": "{}",
                "extra": extra("openai_chat", json!({"extra_content": {"a": 1}}))}]}],
        "tools": [{"name": "f", "extra": extra("anthropic_messages", json!({"defer_loading": true}))}],
        "options": {"extra": {"openai_chat": {"provider": {"order": ["x"]}, "model": "kept"}, "anthropic_messages": {"speed": "fast"}}},
    });
    let (chat, losses) = got(&request, CHAT);
    assert_eq!(chat["provider"], json!({"order": ["x"]}));
    // Of the whole body the caller may replace what he likes; of a part he adds.
    assert_eq!(chat["model"], "kept");
    assert_eq!(chat["messages"][0], json!({"role": "user", "content": "q", "name": "bob"}));
    assert_eq!(chat["messages"][1]["tool_calls"][0]["extra_content"], json!({"a": 1}));
    assert!(losses.is_empty(), "{losses:?}");
    let (messages, losses) = got(&request, MESSAGES);
    assert_eq!(
        messages["messages"][0]["content"][0],
        json!({"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}})
    );
    assert_eq!((&messages["speed"], &messages["tools"][0]["defer_loading"]), (&json!("fast"), &json!(true)));
    assert_eq!(losses, ["dropped messages[].extra"]);
}

#[test]
fn what_is_not_a_request_is_named() {
    for (body, param) in [
        (json!({}), "messages"),
        (json!({"messages": [{"parts": []}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user", "parts": [{}]}]}), "messages[0].parts[0].type"),
        (json!({"messages": [{"role": "user", "parts": [{"type": "image"}]}]}), "messages[0].parts[0].data"),
        (json!({"messages": [{"role": "user", "parts": [{"type": "smell"}]}]}), "messages[0].parts[0].type"),
        (json!({"messages": [{"role": "tool", "parts": [{"type": "text", "text": "x"}]}]}), "messages[0].role"),
        (
            json!({"messages": [{"role": "user", "parts": [{"type": "tool_call", "call_id": "c", "name": "f", "raw_input_text": ""}]}]}),
            "messages[0].parts[0]",
        ),
        (json!({"messages": [], "options": {"max_output_tokens": 1.5}}), "options.max_output_tokens"),
        (json!({"messages": [], "options": {"tool_choice": {"mode": "tool"}}}), "options.tool_choice.name"),
        (json!({"messages": [], "options": {"tool_choice": {"mode": "tool", "name": "g"}}}), "tool_choice"),
    ] {
        for target in [CHAT, RESPONSES, MESSAGES] {
            let error = tried(&body, target).expect_err("should be refused");
            assert_eq!(error.param.as_deref(), Some(param), "{body}: {error:?}");
        }
    }
}

#[test]
fn sound_is_for_chat() {
    let audio =
        |mime: &str| json!({"messages": [{"role": "user", "parts": [{"type": "audio", "mime": mime, "data": "AA"}]}]});
    assert_eq!(
        got(&audio("audio/mpeg"), CHAT).0["messages"][0]["content"][0],
        json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}})
    );
    assert!(tried(&audio("audio/flac"), CHAT).is_err());
    for target in [RESPONSES, MESSAGES] {
        assert_eq!(tried(&audio("audio/wav"), target).unwrap_err().param.as_deref(), Some("messages[0].parts[0].type"));
    }
}
