//! Bodies for Bedrock: what a whole conversation of each client comes to, and what Converse wants otherwise than Messages.

use headrace_codec::encode::continuation::wrap;
use headrace_codec::event::{ContinuationForm, Protocol};
use headrace_codec::request::{Edit, RequestError, Source, TargetFlags, TranslateSpec, Translation, translate};
use serde_json::{Value, json};

const CONVERSE: Protocol = Protocol::BedrockConverse;
const INVOKE: Protocol = Protocol::BedrockInvoke;
const CHAT: Source = Source::Protocol(Protocol::OpenaiChat);
const MESSAGES: Source = Source::Protocol(Protocol::AnthropicMessages);

fn run(body: &Value, source: Source, target: Protocol, flags: &[&str]) -> Result<Translation, RequestError> {
    let target_flags = TargetFlags::from_names(flags).unwrap();
    let spec = TranslateSpec { source, target, model: "m", provider: Some("row"), edits: &[], target_flags };
    translate(body.to_string().as_bytes(), &spec)
}

#[track_caller]
fn made(body: &Value, source: Source, target: Protocol, flags: &[&str]) -> (Value, Vec<String>) {
    let out = run(body, source, target, flags).unwrap();
    let losses = out.losses.iter().map(|l| format!("{};{}", l.path, l.action.code())).collect();
    (serde_json::from_slice(&out.body).unwrap(), losses)
}

#[test]
fn a_conversation_of_chat_becomes_one_of_converse() {
    let signed = wrap(CONVERSE, ContinuationForm::Signature, Some("row"), "Eg==");
    let hidden = wrap(CONVERSE, ContinuationForm::Redacted, Some("row"), "b25l");
    let body = json!({
        "model": "asked", "stream": true, "max_completion_tokens": 900, "temperature": 0.5, "stop": "END",
        "reasoning_effort": "high",
        "response_format": {"type": "json_schema", "json_schema": {"name": "tide", "schema": {"type": "object"}}},
        "tools": [{"type": "function", "function": {"name": "look.up", "description": "Looks.", "strict": true,
            "parameters": {"properties": {"port": {"type": "string"}}}}}],
        "tool_choice": {"type": "function", "function": {"name": "look.up"}},
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief.",
                "prompt_cache_breakpoint": {"mode": "explicit"}}]},
            {"role": "user", "content": [
                {"type": "text", "text": "Look."}, {"type": "text", "text": "  "},
                {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,AAAA"}},
                {"type": "file", "file": {"file_data": "data:text/plain;base64,QQ==", "filename": "a_b  c!.txt"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,QQ==", "filename": "a b c.pdf"}}]},
            {"role": "assistant", "content": "I look.", "reasoning_details": [
                {"type": "reasoning.text", "text": "Hm.", "signature": signed},
                {"type": "reasoning.encrypted", "data": hidden}],
             "tool_calls": [
                {"id": "call:1", "type": "function", "function": {"name": "look.up", "arguments": "{\"port\":\"Dorn\"}"}},
                {"id": "b", "type": "function", "function": {"name": "look.up", "arguments": ""}}]},
            {"role": "tool", "tool_call_id": "b", "content": ""},
            {"role": "tool", "tool_call_id": "call:1", "content": "noon"},
            {"role": "user", "content": "And?"},
            {"role": "system", "content": "Hurry."},
        ],
    });
    let (got, losses) = made(&body, CHAT, CONVERSE, &["sampling"]);
    let (id, name) = (
        got["messages"][1]["content"][3]["toolUse"]["toolUseId"].clone(),
        got["toolConfig"]["tools"][0]["toolSpec"]["name"].clone(),
    );
    assert!(id.as_str().unwrap().starts_with("call_") && name.as_str().unwrap().starts_with("look_up_"));
    let want = json!({
        "inferenceConfig": {"maxTokens": 900, "temperature": 0.5, "stopSequences": ["END"]},
        "outputConfig": {
            "textFormat": {"type": "json_schema", "structure": {"jsonSchema": {
                "schema": "{\"type\":\"object\"}", "name": "tide"}}},
            "effort": "high"},
        "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
        "toolConfig": {
            "tools": [{"toolSpec": {"name": name, "description": "Looks.", "strict": true,
                "inputSchema": {"json": {"properties": {"port": {"type": "string"}}, "type": "object"}}}}],
            "toolChoice": {"tool": {"name": name}}},
        "messages": [
            {"role": "user", "content": [
                {"text": "Look."},
                {"image": {"format": "jpeg", "source": {"bytes": "AAAA"}}},
                {"document": {"format": "txt", "name": "a b c", "source": {"bytes": "QQ=="}}},
                {"document": {"format": "pdf", "name": "a b c (2)", "source": {"bytes": "QQ=="}}}]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "Eg=="}}},
                {"reasoningContent": {"redactedContent": "b25l"}},
                {"text": "I look."},
                {"toolUse": {"toolUseId": id, "name": name, "input": {"port": "Dorn"}}},
                {"toolUse": {"toolUseId": "b", "name": name, "input": {}}}]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "b", "content": []}},
                {"toolResult": {"toolUseId": id, "content": [{"text": "noon"}]}},
                {"text": "And?"}, {"text": "Hurry."}]}],
    });
    assert_eq!(got, want);
    // A forced call and thinking exclude each other.
    assert!(losses.contains(&"tool_choice;approximated".to_owned()), "{losses:?}");
    assert!(losses.contains(&"messages[].role;approximated".to_owned()), "{losses:?}");
}

#[test]
fn a_conversation_of_messages_keeps_its_marks_and_its_errors() {
    let body = json!({
        "model": "asked", "max_tokens": 900, "top_k": 5, "anthropic_beta": ["b1"],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "tools": [{"name": "now", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "What time is it?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.",
                 "signature": wrap(CONVERSE, ContinuationForm::Signature, Some("row"), "Eg==")},
                {"type": "thinking", "thinking": "Foreign.", "signature": "EqQB"},
                {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": [
                    {"type": "text", "text": "no clock"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": "AA"}}]},
                {"type": "text", "text": "Then guess.", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": "It is"},
        ],
    });
    let (got, losses) = made(&body, MESSAGES, CONVERSE, &["sampling", "thinking_budget"]);
    let want = json!({
        "inferenceConfig": {"maxTokens": 900},
        "additionalModelRequestFields": {"anthropic_beta": ["b1"], "top_k": 5},
        "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default", "ttl": "1h"}}],
        "toolConfig": {"tools": [
            {"toolSpec": {"name": "now", "inputSchema": {"json": {"type": "object"}}}},
            {"cachePoint": {"type": "default"}}]},
        "messages": [
            {"role": "user", "content": [{"text": "What time is it?"}]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "Eg=="}}},
                {"toolUse": {"toolUseId": "toolu_1", "name": "now", "input": {}}}]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "toolu_1", "status": "error", "content": [
                    {"text": "no clock"}, {"image": {"format": "webp", "source": {"bytes": "AA"}}}]}},
                {"text": "Then guess."}, {"cachePoint": {"type": "default"}}]},
            {"role": "assistant", "content": [{"text": "It is"}]}],
    });
    // The limit leaves no room for the budget.
    assert_eq!(got, want);
    assert_eq!(
        losses,
        ["messages[].content[].signature;dropped", "messages[].content[].thinking;dropped", "thinking;dropped"]
    );
    let mut roomy = body;
    roomy["max_tokens"] = json!(4000);
    let (got, _) = made(&roomy, MESSAGES, CONVERSE, &["sampling", "thinking_budget"]);
    let extra = &got["additionalModelRequestFields"];
    assert_eq!(extra["thinking"], json!({"type": "enabled", "budget_tokens": 2000}));
}

#[test]
fn tools_are_declared_where_the_conversation_has_any() {
    let call = json!({"role": "assistant", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "x"});
    let (got, _) = made(&json!({"messages": [call, result]}), CHAT, CONVERSE, &[]);
    assert_eq!(
        got["toolConfig"],
        json!({"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]})
    );
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let none = |messages: Value| json!({"messages": messages, "tools": tools, "tool_choice": "none"});
    let (got, losses) = made(&none(json!([{"role": "user", "content": "x"}])), CHAT, CONVERSE, &[]);
    assert!(got.get("toolConfig").is_none() && losses.is_empty(), "{losses:?}");
    let (got, losses) = made(&none(json!([call, result])), CHAT, CONVERSE, &[]);
    assert!(got["toolConfig"].get("toolChoice").is_none());
    assert_eq!(losses, ["tool_choice;approximated"]);
}

#[test]
fn what_converse_would_have_to_fetch_is_refused_with_its_place() {
    let image = |url: &str| {
        json!({"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": url}}]}]})
    };
    for url in ["https://x/a.png", "data:image/tiff;base64,AA"] {
        let error = run(&image(url), CHAT, CONVERSE, &[]).unwrap_err();
        assert_eq!(error.code, "unsupported_feature");
        assert_eq!(error.param.as_deref(), Some("messages[0].content[0].image_url.url"));
    }
    assert!(run(&image("data:image/gif;base64,AA"), CHAT, CONVERSE, &[]).is_ok());
}

/// What stands in the URL at Bedrock is taken out of a Messages body; every other byte stays.
#[test]
fn messages_pass_to_invoke_with_their_bytes() {
    let body = r#"{"model":"asked","max_tokens":9 , "stream":true,"messages":[{"role":"user","content":"h\u0069"}]}"#;
    let edits = [Edit::new("/anthropic_beta", Some(b"[\"b1\"]")).unwrap()];
    let spec = TranslateSpec {
        source: MESSAGES,
        target: INVOKE,
        model: "m",
        provider: Some("row"),
        edits: &edits,
        target_flags: TargetFlags::default(),
    };
    let out = translate(body.as_bytes(), &spec).unwrap();
    assert_eq!(
        String::from_utf8(out.body).unwrap(),
        r#"{"max_tokens":9,"messages":[{"role":"user","content":"h\u0069"}],"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["b1"]}"#
    );
    assert!(out.losses.is_empty());
}

#[test]
fn other_clients_become_messages_without_what_stands_in_the_url() {
    let signed = wrap(INVOKE, ContinuationForm::Signature, Some("row"), "Eg==");
    let foreign = wrap(Protocol::AnthropicMessages, ContinuationForm::Signature, Some("row"), "Eg==");
    let body = json!({"model": "asked", "stream": true, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello", "reasoning_details": [
            {"type": "reasoning.text", "text": "Hm.", "signature": signed},
            {"type": "reasoning.text", "text": "No.", "signature": foreign}]},
        {"role": "user", "content": "more"}]});
    let (got, losses) = made(&body, CHAT, INVOKE, &[]);
    let want = json!({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 32000, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "Eg=="}, {"type": "text", "text": "hello"}]},
        {"role": "user", "content": [{"type": "text", "text": "more"}]}]});
    assert_eq!(got, want);
    assert!(losses.iter().any(|l| l.starts_with("messages[].reasoning_details[]")), "{losses:?}");
}

#[test]
fn a_library_request_says_what_only_converse_knows() {
    let body = json!({"messages": [{"role": "user", "parts": [
            {"type": "text", "text": "hi", "extra": {"bedrock_converse": {"x": 1}}}]}],
        "options": {"extra": {"bedrock_converse": {"guardrailConfig": {"guardrailIdentifier": "g"}},
            "anthropic_messages": {"x": 1}}}});
    let (got, _) = made(&body, Source::Headrace, CONVERSE, &[]);
    assert_eq!(got["guardrailConfig"], json!({"guardrailIdentifier": "g"}));
    assert_eq!(got["messages"][0]["content"][0], json!({"text": "hi", "x": 1}));
}
