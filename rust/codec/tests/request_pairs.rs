//! Requests between the three protocols, pair by pair: where each thing goes.

use headrace_codec::encode::{Encoder, EncoderConfig, continuation};
use headrace_codec::event::{At, AttachTo, ContinuationForm, Event, FinishReason, Protocol, ReasoningKind};
use headrace_codec::request::{Edit, RequestError, Source, TargetFlags, TranslateSpec, Translation, translate};
use serde_json::{Value, json};

const CHAT: Protocol = Protocol::OpenaiChat;
const RESPONSES: Protocol = Protocol::OpenaiResponses;
const MESSAGES: Protocol = Protocol::AnthropicMessages;

fn tried(body: &Value, from: Protocol, to: Protocol, flags: &[&str]) -> Result<(Value, Vec<String>), RequestError> {
    let spec = TranslateSpec {
        source: Source::Protocol(from),
        target: to,
        model: "up",
        provider: Some("acme"),
        edits: &[],
        target_flags: TargetFlags::from_names(flags).unwrap(),
    };
    let Translation { body, losses } = translate(body.to_string().as_bytes(), &spec)?;
    let value = serde_json::from_slice(&body).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&body)));
    Ok((value, losses.iter().map(|l| format!("{} {}", l.action.code(), l.path)).collect()))
}

fn got(body: &Value, from: Protocol, to: Protocol) -> (Value, Vec<String>) {
    tried(body, from, to, &[]).unwrap_or_else(|e| panic!("{e:?}"))
}

fn refused(body: &Value, from: Protocol, to: Protocol) -> RequestError {
    let error = tried(body, from, to, &[]).expect_err("should be refused");
    assert_eq!(error.status, 400);
    error
}

/// The example of a whole conversation: text and picture, reasoning, text, two parallel calls, results, text.
fn chat_conversation() -> Value {
    json!({"model": "m", "stream": true, "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "what is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}]},
        {"role": "assistant", "content": "let me look", "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
            {"id": "call:b", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"role": "tool", "tool_call_id": "call_a", "content": "one"},
        {"role": "tool", "tool_call_id": "call:b", "content": [{"type": "text", "text": "two"}]},
        {"role": "user", "content": "go on"},
    ], "tools": [{"type": "function", "function": {"name": "f", "description": "does f",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}, "strict": true}}],
       "tool_choice": "auto", "parallel_tool_calls": false, "max_completion_tokens": 50, "temperature": 0.5,
       "stop": "END", "user": "u1", "reasoning_effort": "high"})
}

#[test]
fn chat_to_messages() {
    let (body, losses) = got(&chat_conversation(), CHAT, MESSAGES);
    assert_eq!(body["system"], "be brief");
    let id = body["messages"][1]["content"][2]["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("call_") && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "what is it?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]},
            {"role": "assistant", "content": [{"type": "text", "text": "let me look"},
                {"type": "tool_use", "id": "call_a", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": id, "name": "g", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_a", "content": "one"},
                {"type": "tool_result", "tool_use_id": id, "content": "two"},
                {"type": "text", "text": "go on"}]},
        ])
    );
    assert_eq!(
        body["tools"],
        json!([{"name": "f", "description": "does f", "strict": true,
            "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}])
    );
    assert_eq!(body["tool_choice"], json!({"type": "auto", "disable_parallel_tool_use": true}));
    assert_eq!(body["max_tokens"], 50);
    assert_eq!(body["stop_sequences"], json!(["END"]));
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["output_config"], json!({"effort": "high"}));
    assert_eq!(body["metadata"], json!({"user_id": "u1"}));
    assert_eq!((&body["model"], &body["stream"]), (&json!("up"), &json!(true)));
    assert_eq!(losses, ["dropped messages[].content[].image_url.detail", "dropped temperature"]);
}

#[test]
fn chat_to_responses() {
    let mut chat = chat_conversation();
    chat.as_object_mut().unwrap().remove("stop");
    let (body, losses) = got(&chat, CHAT, RESPONSES);
    assert_eq!(
        body["input"],
        json!([
            {"type": "message", "role": "system", "content": "be brief"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "what is it?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}]},
            {"type": "message", "role": "assistant", "content": "let me look"},
            {"type": "function_call", "call_id": "call_a", "name": "f", "arguments": "{\"x\": 1}"},
            {"type": "function_call", "call_id": "call:b", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_a", "output": "one"},
            {"type": "function_call_output", "call_id": "call:b", "output": "two"},
            {"type": "message", "role": "user", "content": "go on"},
        ])
    );
    assert_eq!(body["tools"][0]["strict"], true);
    assert_eq!(body["tools"][0]["name"], "f");
    assert_eq!(body["reasoning"], json!({"effort": "high"}));
    assert_eq!(body["max_output_tokens"], 50);
    assert_eq!(body["temperature"], 0.5);
    assert_eq!((&body["store"], &body["parallel_tool_calls"]), (&json!(false), &json!(false)));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(losses, Vec::<String>::new());
}

#[test]
fn strict_is_written_where_the_other_default_would_be_taken() {
    let chat = json!({"messages": [], "tools": [{"type": "function", "function": {"name": "f"}}]});
    let (body, _) = got(&chat, CHAT, RESPONSES);
    assert_eq!(body["tools"][0]["strict"], false);
    assert_eq!(body["tools"][0]["parameters"], json!({"type": "object", "properties": {}}));
}

#[test]
fn messages_to_chat_moves_pictures_of_results_behind_them() {
    let messages = json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"q": "\u{e9}\"\n"}},
                {"type": "tool_use", "id": "t2", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "text", "text": "and"},
                {"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [
                    {"type": "text", "text": "failed"},
                    {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}]},
                {"type": "tool_result", "tool_use_id": "t2", "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "BB"}}]}]},
        ], "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"},
        "stop_sequences": ["Z"], "thinking": {"type": "enabled", "budget_tokens": 9000}, "metadata": {"user_id": "u"}});
    let (body, losses) = got(&messages, MESSAGES, CHAT);
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "xy", "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{\"q\":\"é\\\"\\n\"}"}},
                {"id": "t2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "t1", "content": "failed"},
            {"role": "tool", "tool_call_id": "t2", "content": "(see the next message)"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/a.png"}},
                {"type": "image_url", "image_url": {"url": "data:image/gif;base64,BB"}}]},
            {"role": "user", "content": "and"},
        ])
    );
    assert_eq!(body["tool_choice"], "required");
    assert_eq!(body["stop"], json!(["Z"]));
    assert_eq!(body["reasoning_effort"], "medium");
    assert_eq!(body["safety_identifier"], "u");
    assert_eq!(body["max_completion_tokens"], 9);
    assert_eq!(losses, ["dropped messages[].content[].is_error", "approximated thinking.budget_tokens"]);
}

#[test]
fn responses_to_messages_and_back() {
    let responses = json!({"model": "m", "instructions": "sys", "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "dev"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "q"},
            {"type": "input_image", "image_url": "https://x/i.png", "detail": "auto"},
            {"type": "input_file", "file_data": "data:application/pdf;base64,CC", "filename": "a.pdf"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "r"},
            {"type": "input_image", "image_url": "data:image/png;base64,DD"}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [
            {"type": "output_text", "text": "done", "annotations": []}]},
    ], "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}},
       "tool_choice": {"type": "function", "name": "f"}, "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": false},
        {"type": "web_search"}]});
    let (body, losses) = got(&responses, RESPONSES, MESSAGES);
    assert_eq!(body["system"], json!([{"type": "text", "text": "sys"}, {"type": "text", "text": "dev"}]));
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "q"},
                {"type": "image", "source": {"type": "url", "url": "https://x/i.png"}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "CC"}, "title": "a.pdf"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [
                {"type": "text", "text": "r"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "DD"}}]}]},
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        ])
    );
    assert_eq!(body["max_tokens"], 32_000);
    assert_eq!(body["output_config"], json!({"format": {"type": "json_schema", "schema": {"type": "object"}}}));
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "f"}));
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(
        losses,
        [
            "dropped input[].content[].detail",
            "dropped input[].id",
            "dropped input[].status",
            "dropped text.format.name",
            "dropped tools[].type:web_search",
        ]
    );

    let (chat, _) = got(&responses, RESPONSES, CHAT);
    assert_eq!(chat["messages"][0], json!({"role": "system", "content": "sys"}));
    assert_eq!(chat["messages"][1], json!({"role": "developer", "content": "dev"}).clone());
    assert_eq!(
        chat["response_format"],
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}})
    );
}

#[test]
fn messages_to_responses_keeps_pictures_in_results() {
    let messages = json!({"max_tokens": 1, "messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}]}]},
        {"role": "user", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
            {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}, "title": "t"}]}]});
    let (body, _) = got(&messages, MESSAGES, RESPONSES);
    assert_eq!(
        body["input"],
        json!([
            {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "t", "output": [
                {"type": "input_image", "image_url": "data:image/png;base64,A", "detail": "auto"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "plain"},
                {"type": "input_file", "file_url": "https://x/a.pdf"}]},
        ])
    );
    assert_eq!(refused(&messages, MESSAGES, CHAT).param.as_deref(), Some("messages[2].content[1].source.url"));
}

#[test]
fn continuations_go_back_to_the_row_that_gave_them() {
    let wrapped = |form, provider| continuation::wrap(RESPONSES, form, Some(provider), "blob");
    let signed = |signature: &str| {
        json!({"max_tokens": 99, "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": signature},
            {"type": "text", "text": "a"}]}, {"role": "user", "content": "b"}]})
    };
    let (body, losses) = got(&signed(&wrapped(ContinuationForm::Encrypted, "acme")), MESSAGES, RESPONSES);
    let item = &body["input"][1];
    assert_eq!((&item["type"], &item["encrypted_content"]), (&json!("reasoning"), &json!("blob")));
    assert_eq!(item["summary"], json!([{"type": "summary_text", "text": "hm"}]));
    assert!(item["id"].as_str().unwrap().starts_with("rs_"));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert!(losses.is_empty());

    // Another row, another family, a vendor's own signature, an empty one.
    for signature in [wrapped(ContinuationForm::Encrypted, "other"), "EqQBCkgIARAB".to_owned(), String::new()] {
        let (body, losses) = got(&signed(&signature), MESSAGES, RESPONSES);
        assert_eq!(body["input"].as_array().unwrap().len(), 3, "{signature}");
        assert!(losses.contains(&"dropped messages[].content[].thinking".to_owned()), "{losses:?}");
        let (body, _) = got(&signed(&signature), MESSAGES, CHAT);
        assert!(!body.to_string().contains("hm"));
    }

    let item = json!({"input": [{"role": "user", "content": "q"}, {"type": "reasoning", "id": "rs_1", "content": null,
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": continuation::wrap(MESSAGES, ContinuationForm::Signature, Some("acme"), "sig")},
        {"type": "reasoning", "summary": [],
        "encrypted_content": continuation::wrap(MESSAGES, ContinuationForm::Redacted, Some("acme"), "red")},
        {"type": "message", "role": "assistant", "content": "a"}]});
    let (body, _) = got(&item, RESPONSES, MESSAGES);
    assert_eq!(
        body["messages"][1]["content"],
        json!([{"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "redacted_thinking", "data": "red"},
            {"type": "text", "text": "a"}])
    );

    let chat = json!({"messages": [{"role": "assistant", "content": "a", "reasoning_content": "hm", "reasoning_details": [
        {"type": "reasoning.text", "text": "hm", "index": 0,
         "signature": continuation::wrap(MESSAGES, ContinuationForm::Signature, Some("acme"), "sig")}]}]});
    let (body, losses) = got(&chat, CHAT, MESSAGES);
    assert_eq!(body["messages"][0]["content"][0], json!({"type": "thinking", "thinking": "hm", "signature": "sig"}));
    assert!(losses.is_empty(), "{losses:?}");

    let details = continuation::wrap(CHAT, ContinuationForm::Details, Some("acme"), "[{\"type\":\"reasoning.text\"}]");
    let (body, _) = got(&signed(&details), MESSAGES, CHAT);
    assert_eq!(body["messages"][1]["reasoning_details"], json!([{"type": "reasoning.text"}]));
}

#[test]
fn readable_reasoning_is_given_back_where_the_vendor_wants_it() {
    let messages = json!({"max_tokens": 1, "messages": [{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}}]}]});
    let (body, losses) = tried(&messages, MESSAGES, CHAT, &["openai_compatible", "echo_reasoning_content"]).unwrap();
    assert_eq!(body["messages"][0]["reasoning_content"], "hm");
    assert!(!losses.iter().any(|l| l.contains("thinking")), "{losses:?}");
}

#[test]
fn custom_tools_namespaces_and_additional_tools() {
    let codex = json!({"model": "m", "input": [
        {"type": "additional_tools", "role": "developer", "id": "at_1", "tools": [
            {"type": "namespace", "name": "functions", "description": "", "tools": [
                {"type": "custom", "name": "exec", "description": "runs", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
                {"type": "function", "name": "wait", "parameters": {"type": "object"}, "strict": false}]}]},
        {"type": "custom_tool_call", "call_id": "c", "name": "exec", "namespace": "functions", "input": "ls \"a\""},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "out"}]});
    let (body, losses) = got(&codex, RESPONSES, MESSAGES);
    assert_eq!(body["tools"][0]["name"], "functions__exec");
    assert_eq!(body["tools"][0]["input_schema"]["required"], json!(["input"]));
    assert_eq!(body["tools"][1]["name"], "functions__wait");
    assert_eq!(
        body["messages"][0]["content"][0],
        json!({"type": "tool_use", "id": "c", "name": "functions__exec", "input": {"input": "ls \"a\""}})
    );
    assert!(
        losses.iter().any(|l| l.starts_with("approximated") && l.ends_with("tools[].tools[].type:custom")),
        "{losses:?}"
    );

    let (body, _) = got(&codex, RESPONSES, CHAT);
    assert_eq!(body["tools"][0]["custom"]["name"], "functions__exec");
    assert_eq!(body["tools"][0]["custom"]["format"]["grammar"]["syntax"], "lark");
    assert_eq!(body["messages"][0]["tool_calls"][0]["custom"]["input"], "ls \"a\"");
    assert_eq!(body["messages"][1], json!({"role": "tool", "tool_call_id": "c", "content": "out"}));

    let (body, _) = tried(&codex, RESPONSES, CHAT, &["openai_compatible"]).unwrap();
    assert_eq!(body["tools"][0]["function"]["name"], "functions__exec");
    assert_eq!(body["messages"][0]["tool_calls"][0]["function"]["arguments"], json!({"input": "ls \"a\""}).to_string());

    let chat = json!({"messages": [
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "exec", "input": "x"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "y"}]});
    let (body, _) = got(&chat, CHAT, RESPONSES);
    assert_eq!(body["input"][0], json!({"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "x"}));
    assert_eq!(body["input"][1]["type"], "custom_tool_call_output");
}

#[test]
fn what_would_change_the_meaning_is_refused_with_its_path() {
    let input = json!([]);
    for (field, value) in [
        ("previous_response_id", json!("r")),
        ("conversation", json!({"id": "c"})),
        ("background", json!(true)),
        ("prompt", json!({"id": "p"})),
    ] {
        for to in [CHAT, MESSAGES] {
            let error = refused(&json!({"input": input, field: value}), RESPONSES, to);
            assert_eq!((error.code, error.param.as_deref()), ("unsupported_feature", Some(field)));
            assert!(error.message.contains(field), "{}", error.message);
        }
    }
    let user =
        |part: Value| json!({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": [part]}]});
    for (body, from, to, param) in [
        (json!({"messages": [], "n": 2}), CHAT, MESSAGES, "n"),
        (json!({"messages": [], "n": 2}), CHAT, RESPONSES, "n"),
        (json!({"messages": [], "stop": ["x"]}), CHAT, RESPONSES, "stop"),
        (json!({"messages": [], "modalities": ["text", "audio"]}), CHAT, MESSAGES, "modalities[1]"),
        (json!({"messages": [], "tool_choice": "required"}), CHAT, MESSAGES, "tool_choice"),
        (json!({"input": [{"type": "item_reference", "id": "x"}]}), RESPONSES, CHAT, "input[0].type"),
        (json!({"input": [{"type": "compaction", "encrypted_content": "x"}]}), RESPONSES, MESSAGES, "input[0].type"),
        (json!({"input": [], "tool_choice": {"type": "web_search_preview"}}), RESPONSES, CHAT, "tool_choice.type"),
        (
            user(json!({"type": "file", "file": {"file_id": "f"}})),
            CHAT,
            MESSAGES,
            "messages[1].content[0].file.file_id",
        ),
        (
            user(json!({"type": "input_audio", "input_audio": {"data": "a", "format": "wav"}})),
            CHAT,
            MESSAGES,
            "messages[1].content[0].input_audio",
        ),
        (json!({"max_tokens": 1, "messages": [], "container": "c"}), MESSAGES, CHAT, "container"),
        (
            user(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
            MESSAGES,
            RESPONSES,
            "messages[1].content[0].source.file_id",
        ),
    ] {
        let error = refused(&body, from, to);
        assert_eq!((error.code, error.param.as_deref()), ("unsupported_feature", Some(param)), "{body}");
    }
    let image = user(json!({"type": "image_url", "image_url": {"url": "https://x"}}));
    let error = tried(&image, CHAT, MESSAGES, &["no_images"]).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("messages[1].content[0].image_url"));
}

#[test]
fn wrong_types_name_the_field_and_what_was_expected() {
    for (body, from, param, wanted) in [
        (json!({"messages": {}}), CHAT, "messages", "an array"),
        (json!({"messages": [1]}), CHAT, "messages[0]", "an object"),
        (json!({"messages": [{"role": 5}]}), CHAT, "messages[0].role", "a string"),
        (json!({"messages": [{"content": "x"}]}), CHAT, "messages[0].role", "missing"),
        (json!({"messages": [{"role": "robot", "content": "x"}]}), CHAT, "messages[0].role", "user"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}),
            CHAT,
            "messages[0].content[0].text",
            "a string",
        ),
        (json!({"messages": [], "max_tokens": 1.5}), CHAT, "max_tokens", "whole"),
        (json!({"messages": [], "temperature": "hot"}), CHAT, "temperature", "a number"),
        (
            json!({"messages": [], "tools": [{"type": "function", "function": {}}]}),
            CHAT,
            "tools[0].function.name",
            "missing",
        ),
        (json!({"messages": [], "tool_choice": "maybe"}), CHAT, "tool_choice", "auto"),
        (json!({"model": "m"}), CHAT, "messages", "missing"),
        (json!([]), CHAT, "", "an object"),
        (json!({}), RESPONSES, "input", "missing"),
        (json!({"input": [{"type": "function_call", "name": "f"}]}), RESPONSES, "input[0].call_id", "missing"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]}),
            MESSAGES,
            "messages[0].content[0].source",
            "missing",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "x"}]}]}),
            MESSAGES,
            "messages[0].content[0].input",
            "an object",
        ),
    ] {
        for to in [CHAT, RESPONSES, MESSAGES] {
            if from == to {
                continue;
            }
            let error = refused(&body, from, to);
            assert_eq!(error.code, "invalid_request", "{body}");
            assert_eq!(error.param.as_deref().unwrap_or_default(), param, "{body}");
            assert!(error.message.contains(wanted), "{body}: {}", error.message);
        }
    }
}

#[test]
fn arguments_that_are_no_object_are_wrapped_and_reported() {
    let chat = |text: &str| {
        json!({"messages": [{"role": "assistant", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": text}}]}]})
    };
    for (text, input, lossy) in [
        (" {\"a\": 1.0} ", json!({"a": 1.0}), false),
        ("null", json!({}), false),
        ("{\"a\": ", json!({"input": "{\"a\": "}), true),
        ("[1]", json!({"input": "[1]"}), true),
    ] {
        let (body, losses) = got(&chat(text), CHAT, MESSAGES);
        assert_eq!(body["messages"][0]["content"][0]["input"], input, "{text}");
        assert_eq!(!losses.is_empty(), lossy, "{text} {losses:?}");
    }
}

#[test]
fn thinking_gives_way_to_what_is_meant() {
    let chat = json!({"messages": [], "reasoning_effort": "high", "tool_choice": "required", "max_tokens": 2000,
        "tools": [{"type": "function", "function": {"name": "f"}}]});
    let (body, losses) = got(&chat, CHAT, MESSAGES);
    assert_eq!(body.get("thinking"), None);
    assert!(losses.contains(&"approximated tool_choice".to_owned()), "{losses:?}");

    let chat = json!({"messages": [], "reasoning_effort": "high", "max_tokens": 2000});
    let (body, _) = tried(&chat, CHAT, MESSAGES, &["anthropic_compatible"]).unwrap();
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 1999}));
    // A turn that called without its signed thinking cannot be gone on from with a budget.
    let chat = json!({"messages": [{"role": "assistant", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "r"}], "reasoning_effort": "high"});
    assert_eq!(tried(&chat, CHAT, MESSAGES, &["anthropic_compatible"]).unwrap().0.get("thinking"), None);
    assert_eq!(got(&chat, CHAT, MESSAGES).0["thinking"], json!({"type": "adaptive"}));
    let chat = json!({"messages": [], "reasoning_effort": "none"});
    assert_eq!(got(&chat, CHAT, MESSAGES).0["thinking"], json!({"type": "disabled"}));
    let chat = json!({"messages": [], "reasoning_effort": "low", "max_tokens": 500});
    let (body, losses) = tried(&chat, CHAT, MESSAGES, &["anthropic_compatible"]).unwrap();
    assert_eq!(body.get("thinking"), None);
    assert!(losses.contains(&"dropped thinking".to_owned()), "{losses:?}");
}

#[test]
fn a_compatible_server_gets_what_it_knows() {
    let responses = json!({"input": [{"role": "developer", "content": "d"}], "max_output_tokens": 5, "store": true,
        "metadata": {"a": "b"}, "stream": true, "reasoning": {"effort": "high"}, "prompt_cache_key": "k", "user": "u"});
    let (body, losses) = tried(&responses, RESPONSES, CHAT, &["openai_compatible"]).unwrap();
    assert_eq!(
        body,
        json!({"model": "up", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 5,
            "messages": [{"role": "system", "content": "d"}]})
    );
    for path in ["metadata", "prompt_cache_key", "reasoning.effort", "store", "user"] {
        assert!(losses.contains(&format!("dropped {path}")), "{path}: {losses:?}");
    }
    let messages = json!({"max_tokens": 1, "system": [{"type": "text", "text": "a\n"}, {"type": "text", "text": "b"}],
        "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
            {"type": "text", "text": "c"}, {"type": "text", "text": "d"}]}]}]});
    let (body, _) = tried(&messages, MESSAGES, CHAT, &["openai_compatible"]).unwrap();
    assert_eq!(body["messages"][0]["content"], "a\n\n\nb");
    assert_eq!(body["messages"][1]["content"], "c\n\nd");
    let (body, _) = tried(&responses, RESPONSES, CHAT, &["openai_compatible", "no_stream_options"]).unwrap();
    assert_eq!(body.get("stream_options"), None);
}

#[test]
fn what_the_system_says_in_mid_conversation_stands_where_messages_takes_it() {
    let chat = json!({"messages": [
        {"role": "developer", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"},
        {"role": "developer", "content": "d"}, {"role": "user", "content": "e"}, {"role": "assistant", "content": "f"},
        {"role": "system", "content": "g"}]});
    let text = |t: &str| json!({"type": "text", "text": t});
    let (body, losses) = tried(&chat, CHAT, MESSAGES, &["system_messages"]).unwrap();
    assert_eq!(body["system"], "a");
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": [text("b")]}, {"role": "assistant", "content": [text("c")]},
            {"role": "user", "content": [text("e")]}, {"role": "system", "content": [text("d")]},
            {"role": "assistant", "content": [text("f")]}, {"role": "user", "content": [text("g")]}])
    );
    assert_eq!(losses, ["approximated messages[].role"]);
    let mut answered = chat.clone();
    answered["messages"].as_array_mut().unwrap().pop();
    assert!(tried(&answered, CHAT, MESSAGES, &["system_messages"]).unwrap().1.is_empty());
    let (body, losses) = got(&chat, CHAT, MESSAGES);
    assert_eq!(body["messages"][2], json!({"role": "user", "content": [text("d"), text("e")]}));
    assert_eq!(losses, ["approximated messages[].role"]);
}

#[test]
fn what_the_vendors_are_known_to_refuse_is_not_sent() {
    // A schema that does not say that it is an object.
    let tool = |parameters: Value| json!({"type": "function", "function": {"name": "f", "parameters": parameters}});
    let chat = json!({"messages": [], "tools": [tool(json!({})), tool(json!({"properties": {"type": {}}}))]});
    let (body, _) = got(&chat, CHAT, MESSAGES);
    assert_eq!(body["tools"][0]["input_schema"], json!({"type": "object"}));
    assert_eq!(body["tools"][1]["input_schema"], json!({"type": "object", "properties": {"type": {}}}));
    let (body, _) = tried(&chat, CHAT, MESSAGES, &["auto_cache"]).unwrap();
    assert_eq!(body["cache_control"], json!({"type": "ephemeral"}));
    // A limit below what Responses takes.
    let (body, losses) = got(&json!({"messages": [], "max_tokens": 1}), MESSAGES, RESPONSES);
    assert_eq!(body["max_output_tokens"], 16);
    assert_eq!(losses, ["approximated max_tokens"]);
    assert_eq!(got(&json!({"messages": [], "max_tokens": 1}), MESSAGES, CHAT).0["max_completion_tokens"], 1);
    // A turn that ends in its reasoning.
    let signed = continuation::wrap(RESPONSES, ContinuationForm::Encrypted, Some("acme"), "blob");
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": signed});
    let turn = |content: Value| json!({"max_tokens": 99, "messages": [{"role": "assistant", "content": content}]});
    let (body, losses) = got(&turn(json!([{"type": "text", "text": "a"}, thought])), MESSAGES, RESPONSES);
    assert_eq!(body["input"], json!([{"type": "message", "role": "assistant", "content": "a"}]));
    assert!(losses.contains(&"dropped messages[].reasoning".to_owned()), "{losses:?}");
    let (body, _) = got(&turn(json!([thought, {"type": "text", "text": "a"}])), MESSAGES, RESPONSES);
    assert_eq!(body["input"][0]["type"], "reasoning");
}

#[test]
fn allowed_tools_pass_or_are_the_only_ones_declared() {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
    let chat = json!({"messages": [], "tools": [tool("a"), tool("b")], "tool_choice": {"type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [tool("b")]}}});
    let (body, _) = got(&chat, CHAT, RESPONSES);
    assert_eq!(
        body["tool_choice"],
        json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "b"}]})
    );
    let (body, losses) = got(&chat, CHAT, MESSAGES);
    assert_eq!(body["tool_choice"], json!({"type": "any"}));
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(losses, ["approximated tool_choice.allowed_tools"]);
}

#[test]
fn old_functions_become_tools() {
    let chat = json!({"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "r"}],
        "functions": [{"name": "f", "parameters": {"type": "object"}}], "function_call": {"name": "f"}});
    let (body, losses) = got(&chat, CHAT, MESSAGES);
    let id = &body["messages"][1]["content"][0]["id"];
    assert_eq!(&body["messages"][2]["content"][0]["tool_use_id"], id);
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "f"}));
    assert!(losses.is_empty(), "{losses:?}");
}

#[test]
fn edits_apply_to_the_target_and_the_models_name_is_the_upstreams() {
    let edits = [Edit::new("/top_k", Some(b"5")).unwrap(), Edit::new("/max_tokens", Some(b"7")).unwrap()];
    let spec = |source, edits| TranslateSpec {
        source: Source::Protocol(source),
        target: MESSAGES,
        model: "claude",
        provider: None,
        edits,
        target_flags: TargetFlags::default(),
    };
    let out = translate(br#"{"model":"x","messages":[{"role":"user","content":"q"}]}"#, &spec(CHAT, &edits)).unwrap();
    let body: Value = serde_json::from_slice(&out.body).unwrap();
    assert_eq!((&body["top_k"], &body["max_tokens"], &body["model"]), (&json!(5), &json!(7), &json!("claude")));
    // The same protocol: every other byte stays, but for thinking that nobody signed.
    let body = br#"{"model":"x","messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t",
        "signature":""},{"type":"text","text":"a"}]}]}"#;
    let out = translate(body, &spec(MESSAGES, &edits)).unwrap();
    let body: Value = serde_json::from_slice(&out.body).unwrap();
    assert_eq!(body["messages"][0]["content"], json!([{"type": "text", "text": "a"}]));
    assert_eq!((&body["top_k"], &body["model"]), (&json!(5), &json!("claude")));
    assert_eq!(out.losses[0].path, "messages[].content[].signature");
    let out = translate(br#"{ "model" : "x","messages":[ ] }"#, &spec(MESSAGES, &[])).unwrap();
    assert_eq!(out.body, br#"{ "model" : "claude","messages":[ ] }"#);
}

#[test]
fn vendors_long_or_odd_names_and_users_are_made_legal() {
    let long = format!("mcp__{}", "x".repeat(80));
    let messages = json!({"max_tokens": 1, "metadata": {"user_id": "y".repeat(100)}, "messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "z".repeat(50), "name": long, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "z".repeat(50)}]}],
        "tools": [{"name": long, "input_schema": {"type": "object"}}], "tool_choice": {"type": "tool", "name": long}});
    let (body, losses) = got(&messages, MESSAGES, CHAT);
    let name = body["tools"][0]["function"]["name"].as_str().unwrap();
    assert_eq!(name.len(), 64);
    assert_eq!(body["messages"][0]["tool_calls"][0]["function"]["name"], name);
    assert_eq!(body["tool_choice"]["function"]["name"], name);
    let id = body["messages"][0]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() <= 40);
    assert_eq!(body["messages"][1]["tool_call_id"], id);
    assert_eq!(body["safety_identifier"].as_str().unwrap().len(), 37);
    for loss in ["renamed tools[].name", "approximated metadata.user_id"] {
        assert!(losses.contains(&loss.to_owned()), "{losses:?}");
    }
}

/// What a client of `protocol` gets of signed thinking and a text, as one body.
fn answered(protocol: Protocol) -> Value {
    let events = [
        Event::Started { model: None, response_id: None, request_id: None },
        Event::ReasoningDelta { text: "I th".into(), kind: ReasoningKind::Raw, index: 0 },
        Event::ReasoningDelta { text: "ink\n\n so".into(), kind: ReasoningKind::Raw, index: 0 },
        Event::Continuation {
            family: MESSAGES,
            form: ContinuationForm::Signature,
            data: "SIG".into(),
            to: AttachTo::Reasoning,
            index: 0,
        },
        Event::TextDelta { text: "a".into(), index: 1 },
        Event::Finished { reason: FinishReason::Stop, raw_reason: None },
    ];
    let mut encoder = Encoder::new(EncoderConfig {
        stream: false,
        family: Some(MESSAGES),
        provider: Some("acme".to_owned()),
        response_id: "r".to_owned(),
        ..EncoderConfig::new(protocol)
    });
    let mut out = Vec::new();
    for event in &events {
        encoder.event(At::default(), event, &mut out);
    }
    encoder.finish(&mut out);
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn signed_thinking_comes_back_word_for_word_from_every_client() {
    let thinking = json!({"type": "thinking", "thinking": "I think\n\n so", "signature": "SIG"});
    let mut items = answered(RESPONSES)["output"].clone();
    for item in items.as_array_mut().unwrap() {
        // Codex gives no raw reasoning back.
        if item["type"] == "reasoning" {
            item["content"] = Value::Null;
        }
    }
    let (body, _) = got(&json!({"input": items}), RESPONSES, MESSAGES);
    assert_eq!(body["messages"][0]["content"], json!([thinking, {"type": "text", "text": "a"}]));
    let message = answered(CHAT)["choices"][0]["message"].clone();
    let (body, _) = got(&json!({"messages": [message]}), CHAT, MESSAGES);
    assert_eq!(body["messages"][0]["content"], json!([thinking, {"type": "text", "text": "a"}]));
}

#[test]
fn messages_gets_four_cache_marks_at_most_and_they_are_the_last() {
    let part =
        |n: usize| json!({"type": "text", "text": format!("t{n}"), "prompt_cache_breakpoint": {"mode": "explicit"}});
    let body = json!({"messages": [{"role": "user", "content": (0..6).map(part).collect::<Vec<_>>()}]});
    let marked = |flags: &[&str]| {
        let spec = TranslateSpec {
            source: Source::Protocol(CHAT),
            target: MESSAGES,
            model: "up",
            provider: None,
            edits: &[],
            target_flags: TargetFlags::from_names(flags).unwrap(),
        };
        let out = translate(body.to_string().as_bytes(), &spec).unwrap();
        assert!(out.losses.iter().any(|l| l.path.ends_with("prompt_cache_breakpoint")));
        let made: Value = serde_json::from_slice(&out.body).unwrap();
        let parts = made["messages"][0]["content"].as_array().unwrap().clone();
        parts.iter().map(|p| p.get("cache_control").is_some()).collect::<Vec<_>>()
    };
    assert_eq!(marked(&[]), [false, false, true, true, true, true]);
    // The mark on the whole body is one of the four.
    assert_eq!(marked(&["auto_cache"]), [false, false, false, true, true, true]);
}

#[test]
fn an_edit_refuses_a_key_that_stands_twice() {
    for body in [r#"{"model":"a","model":"b"}"#, r#"{"x":1,"\u0078":2,"model":"a"}"#] {
        let spec = TranslateSpec {
            source: Source::Protocol(CHAT),
            target: CHAT,
            model: "up",
            provider: None,
            edits: &[],
            target_flags: TargetFlags::default(),
        };
        assert_eq!(translate(body.as_bytes(), &spec).unwrap_err().code, "invalid_request", "{body}");
    }
}
