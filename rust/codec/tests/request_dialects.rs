//! Chat Completions in dialects: bodies that are written anew for them, and an object of reasoning.

use headrace_codec::event::Protocol;
use headrace_codec::request::{Source, TargetFlags, TranslateSpec, translate};
use serde_json::{Value, json};

const CHAT: Protocol = Protocol::OpenaiChat;
const RESPONSES: Protocol = Protocol::OpenaiResponses;
const MESSAGES: Protocol = Protocol::AnthropicMessages;

fn mistral() -> TargetFlags {
    let names = ["openai_compatible", "strict", "no_stream_options", "no_user", "random_seed", "short_ids"];
    TargetFlags::from_names(&[&names[..], &["thinking_parts", "no_files", "anew"]].concat()).unwrap()
}

#[test]
fn a_dialect_has_its_own_names_ids_and_thinking() {
    let body = json!({"model": "m", "max_tokens": 9, "metadata": {"user_id": "u"}, "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "t"}, {"type": "tool_use", "id": "toolu_01", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01", "content": "r"}]}]});
    let spec = TranslateSpec {
        source: Source::Protocol(MESSAGES),
        target: CHAT,
        model: "up",
        provider: Some("acme"),
        edits: &[],
        target_flags: mistral(),
    };
    let out = translate(body.to_string().as_bytes(), &spec).unwrap();
    let made: Value = serde_json::from_slice(&out.body).unwrap();
    let id = made["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
    assert_eq!(made["messages"][2]["tool_call_id"], id);
    assert_eq!(
        made["messages"][1]["content"],
        json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "t"}])
    );
    assert_eq!(made["max_tokens"], 9);
    assert!(made.get("user").is_none());
    assert!(out.losses.iter().any(|l| l.path == "metadata.user_id"), "{:?}", out.losses);
}

#[test]
fn a_dialect_gets_also_a_chat_clients_body_anew() {
    let body = json!({"model": "m", "seed": 7, "max_completion_tokens": 5, "stream": true, "safe_prompt": true,
        "stream_options": {"include_usage": true}, "logit_bias": {"1": 1}, "messages": [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "reasoning_content": "hm",
            "tool_calls": [{"id": "call_abc", "type": "function", "function": {"name": "f", "arguments": "{ }"}}]},
        {"role": "tool", "tool_call_id": "call_abc", "content": "r"}]});
    let spec = TranslateSpec {
        source: Source::Protocol(CHAT),
        target: CHAT,
        model: "up",
        provider: Some("acme"),
        edits: &[],
        target_flags: mistral(),
    };
    let out = translate(body.to_string().as_bytes(), &spec).unwrap();
    let made: Value = serde_json::from_slice(&out.body).unwrap();
    let id = &made["messages"][2]["tool_calls"][0]["id"];
    let want = json!({"model": "up", "stream": true, "max_tokens": 5, "random_seed": 7, "safe_prompt": true, "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}],
            "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{ }"}}]},
        {"role": "tool", "tool_call_id": id, "content": "r"}]});
    assert_eq!(made, want);
    let lost: Vec<&str> = out.losses.iter().map(|l| l.path.as_str()).collect();
    assert_eq!(lost, ["logit_bias"]);
}

#[test]
fn a_router_takes_an_object_of_reasoning_and_gives_one_to_others() {
    let flags = TargetFlags::from_names(&["openai_compatible", "effort", "reasoning_object"]).unwrap();
    let run = |body: Value, source, target, target_flags| {
        let spec = TranslateSpec { source, target, model: "up", provider: None, edits: &[], target_flags };
        let out = translate(body.to_string().as_bytes(), &spec).unwrap();
        serde_json::from_slice::<Value>(&out.body).unwrap()
    };
    let messages = json!({"messages": [], "max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 4000}});
    let made = run(messages, Source::Protocol(MESSAGES), CHAT, flags);
    assert_eq!(made["reasoning"], json!({"max_tokens": 4000}));
    let responses = json!({"input": [], "reasoning": {"effort": "high"}});
    let made = run(responses, Source::Protocol(RESPONSES), CHAT, flags);
    assert_eq!(made["reasoning"], json!({"effort": "high"}));
    assert!(made.get("reasoning_effort").is_none());
    let chat = json!({"messages": [], "reasoning": {"effort": "high", "exclude": false}});
    let made = run(chat, Source::Protocol(CHAT), RESPONSES, TargetFlags::default());
    assert_eq!(made["reasoning"]["effort"], "high");
}

#[test]
fn reasoning_is_asked_for_where_the_model_reasons() {
    let plain = json!({"messages": [{"role": "user", "content": "q"}]});
    let effort = json!({"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "low"});
    let include = |body: &Value, flags: &[&str]| {
        let spec = TranslateSpec {
            source: Source::Protocol(CHAT),
            target: RESPONSES,
            model: "up",
            provider: None,
            edits: &[],
            target_flags: TargetFlags::from_names(flags).unwrap(),
        };
        let out = translate(body.to_string().as_bytes(), &spec).unwrap();
        serde_json::from_slice::<Value>(&out.body).unwrap().get("include").cloned()
    };
    let wanted = Some(json!(["reasoning.encrypted_content"]));
    assert_eq!(include(&plain, &[]), None, "it may be one that does not, and refuses");
    assert_eq!(include(&effort, &[]), wanted);
    assert_eq!(include(&plain, &["reasons"]), wanted);
    assert_eq!(include(&plain, &["reasons", "no_encrypted_reasoning"]), None);
}
