//! Requests to and from Gemini: where each thing goes, and that signatures come back to where they were.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use headrace_codec::encode::{Encoder, EncoderConfig, Encoding, continuation};
use headrace_codec::event::{ContinuationForm, Protocol};
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use headrace_codec::request::{RequestError, Source, TargetFlags, TranslateSpec, Translation, inspect, translate};
use serde_json::{Value, json};

const CHAT: Source = Source::Protocol(Protocol::OpenaiChat);
const RESPONSES: Source = Source::Protocol(Protocol::OpenaiResponses);
const MESSAGES: Source = Source::Protocol(Protocol::AnthropicMessages);
const GEMINI: Source = Source::Protocol(Protocol::GoogleGemini);

fn tried(body: &Value, source: Source, to: Protocol, flags: &[&str]) -> Result<(Value, Vec<String>), RequestError> {
    let target_flags = TargetFlags::from_names(flags).unwrap();
    let spec = TranslateSpec { source, target: to, model: "up", provider: Some("acme"), edits: &[], target_flags };
    let Translation { body, losses } = translate(body.to_string().as_bytes(), &spec)?;
    let value = serde_json::from_slice(&body).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&body)));
    Ok((value, losses.iter().map(|l| format!("{} {}", l.action.code(), l.path)).collect()))
}

fn to_gemini(body: &Value, source: Source, flags: &[&str]) -> (Value, Vec<String>) {
    tried(body, source, Protocol::GoogleGemini, flags).unwrap_or_else(|e| panic!("{e:?}"))
}

fn from_gemini(body: &Value, to: Protocol, flags: &[&str]) -> (Value, Vec<String>) {
    tried(body, GEMINI, to, flags).unwrap_or_else(|e| panic!("{e:?}"))
}

#[test]
fn chat_to_gemini() {
    let schema =
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}});
    let body = json!({"model": "m", "stream": true, "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "what is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "https://x.example/a.webp?b"}}]},
        {"role": "assistant", "content": "let me look", "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
            {"id": "call:b", "type": "function", "function": {"name": "9 g", "arguments": ""}}]},
        {"role": "tool", "tool_call_id": "call:b", "content": [{"type": "text", "text": "two"}]},
        {"role": "tool", "tool_call_id": "call_a", "content": "{\"n\": 1.50}"},
        {"role": "developer", "content": "now be long"},
        {"role": "user", "content": "go on"},
    ], "tools": [{"type": "function", "function": {"name": "f", "description": "does f", "parameters": schema}},
        {"type": "custom", "custom": {"name": "sh"}}],
       "tool_choice": {"type": "function", "function": {"name": "f"}}, "max_completion_tokens": 50, "temperature": 0.5,
       "top_p": 0.25, "stop": "END", "reasoning_effort": "high", "seed": 7, "presence_penalty": 0.1,
       "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}});
    let (got, losses) = to_gemini(&body, CHAT, &[]);
    let name = got["contents"][1]["parts"][2]["functionCall"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("_9_g_"));
    assert_eq!(
        got["contents"],
        json!([
            {"role": "user", "parts": [{"text": "what is it?"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                {"fileData": {"mimeType": "image/webp", "fileUri": "https://x.example/a.webp?b"}}]},
            {"role": "model", "parts": [{"text": "let me look"},
                {"functionCall": {"id": "call_a", "name": "f", "args": {"x": 1}}},
                {"functionCall": {"id": "call:b", "name": name, "args": {}}}]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "call_a", "name": "f", "response": {"n": 1.50}}},
                {"functionResponse": {"id": "call:b", "name": name, "response": {"output": "two"}}}]},
            {"role": "user", "parts": [{"text": "now be long"}]},
            {"role": "user", "parts": [{"text": "go on"}]},
        ])
    );
    assert_eq!(got["systemInstruction"], json!({"parts": [{"text": "be brief"}]}));
    assert_eq!(got["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"], schema);
    assert_eq!(got["tools"][0]["functionDeclarations"][1]["parametersJsonSchema"]["required"], json!(["input"]));
    assert_eq!(got["toolConfig"], json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}));
    assert_eq!(
        got["generationConfig"],
        json!({"maxOutputTokens": 50, "temperature": 0.5, "topP": 0.25, "seed": 7, "presencePenalty": 0.1,
            "stopSequences": ["END"], "responseMimeType": "application/json", "responseJsonSchema": schema,
            "thinkingConfig": {"thinkingLevel": "HIGH"}})
    );
    assert_eq!(got.get("model").or(got.get("stream")), None);
    let want = [
        "approximated tools[].custom",
        "dropped response_format.json_schema.name",
        "approximated messages[].role",
        "renamed messages[].tool_calls[].function.name",
    ];
    let rest: Vec<&String> = losses.iter().filter(|l| !want.contains(&l.as_str())).collect();
    assert!(rest.is_empty() && losses.len() >= 3, "{losses:?}");
}

#[test]
fn messages_to_gemini_by_level_and_by_budget() {
    let body = json!({"model": "m", "max_tokens": 9000, "system": "s", "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [
            {"type": "text", "text": "no"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}]},
            {"type": "text", "text": "so?"}]}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"}, "top_k": 3,
        "thinking": {"type": "enabled", "budget_tokens": 5000}});
    let (got, losses) = to_gemini(&body, MESSAGES, &[]);
    assert_eq!(
        got["contents"],
        json!([{"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "t1", "name": "f", "args": {"a": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "t1", "name": "f", "response": {"error": "no"},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA"}}]}}]},
            {"role": "user", "parts": [{"text": "so?"}]}])
    );
    assert_eq!(got["generationConfig"]["thinkingConfig"], json!({"includeThoughts": true, "thinkingLevel": "MEDIUM"}));
    assert_eq!(
        (&got["generationConfig"]["topK"], &got["generationConfig"]["maxOutputTokens"]),
        (&json!(3), &json!(9000))
    );
    assert_eq!(losses, ["approximated thinking.budget_tokens"]);
    let (got, losses) = to_gemini(&body, MESSAGES, &["thinking_budget"]);
    assert_eq!(got["generationConfig"]["thinkingConfig"], json!({"includeThoughts": true, "thinkingBudget": 5000}));
    assert_eq!(losses, Vec::<String>::new());
    let mut off = body;
    off["thinking"] = json!({"type": "disabled"});
    let (got, _) = to_gemini(&off, MESSAGES, &["thinking_budget"]);
    assert_eq!(got["generationConfig"]["thinkingConfig"], json!({"thinkingBudget": 0}));
}

#[test]
fn responses_and_the_librarys_own_to_gemini() {
    let body = json!({"model": "m", "instructions": "s", "input": [{"role": "user", "content": "q"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "r"}],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true}],
        "reasoning": {"effort": "minimal", "summary": "auto"}, "max_output_tokens": 40});
    let (got, losses) = to_gemini(&body, RESPONSES, &[]);
    assert_eq!(got["contents"][2]["parts"][0]["functionResponse"]["response"], json!({"output": "r"}));
    assert_eq!(got["generationConfig"]["thinkingConfig"], json!({"includeThoughts": true, "thinkingLevel": "MINIMAL"}));
    assert_eq!(losses, ["dropped tools[].strict"]);
    let own = json!({"model": "m", "messages": [{"role": "user", "parts": [{"type": "audio", "mime": "audio/wav", "data": "AA"}]},
        {"role": "assistant", "parts": [
            {"type": "text", "text": "t"},
            {"type": "continuation", "family": "google_gemini", "form": "thought_signature", "data": "c2ln", "attach": {"to": "text", "index": 0}},
            {"type": "hosted_tool", "family": "google_gemini", "raw": {"executableCode": {"language": "PYTHON", "code": "1"}}},
            {"type": "continuation", "family": "google_gemini", "form": "thought_signature", "data": "c2lnMg==", "attach": {"to": "call", "index": 0}},
            {"type": "tool_call", "call_id": "c", "name": "f", "raw_input_text": "{}"}]}],
        "options": {"extra": {"google_gemini": {"safetySettings": [], "labels": {"a": "b"}}}}});
    let (got, losses) = to_gemini(&own, Source::Headrace, &[]);
    assert_eq!(got["contents"][0]["parts"][0], json!({"inlineData": {"mimeType": "audio/wav", "data": "AA"}}));
    assert_eq!(
        got["contents"][1]["parts"],
        json!([{"text": "t", "thoughtSignature": "c2ln"}, {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"functionCall": {"id": "c", "name": "f", "args": {}}, "thoughtSignature": "c2lnMg=="}])
    );
    assert_eq!(got["labels"], json!({"a": "b"}));
    assert_eq!(losses, Vec::<String>::new());
}

#[test]
fn calls_of_another_model_are_marked_where_the_target_wants_it() {
    let body = json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "f", "arguments": "{}"}}]}]});
    let (got, _) = to_gemini(&body, CHAT, &["skip_signatures"]);
    let parts = &got["contents"][0]["parts"];
    assert_eq!(parts[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(parts[1].get("thoughtSignature"), None);
}

fn gemini_conversation() -> Value {
    json!({"model": "m", "stream": true, "systemInstruction": {"parts": [{"text": "be brief"}]}, "contents": [
        {"role": "user", "parts": [{"text": "q"}, {"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]},
        {"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": "ok"},
            {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "f", "args": {"x": 2}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "one"}}},
            {"functionResponse": {"name": "f", "response": {"n": 2}}}]},
        {"parts": [{"text": "go on"}]}],
        "tools": [{"function_declarations": [{"name": "f", "description": "d",
            "parameters": {"type": "OBJECT", "properties": {"x": {"type": "INTEGER"}}}}]}, {"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"maxOutputTokens": 70, "topP": 0.5, "stop_sequences": ["Z"], "responseMimeType": "application/json",
            "responseSchema": {"type": "STRING"}, "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": true}}})
}

#[test]
fn gemini_to_chat() {
    let (got, losses) = from_gemini(&gemini_conversation(), Protocol::OpenaiChat, &[]);
    assert_eq!(
        got["messages"],
        json!([{"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "q"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
            {"role": "assistant", "content": "ok", "tool_calls": [
                {"id": "call_1_2", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
                {"id": "call_1_3", "type": "function", "function": {"name": "f", "arguments": "{\"x\":2}"}}]},
            {"role": "tool", "tool_call_id": "call_1_2", "content": "one"},
            {"role": "tool", "tool_call_id": "call_1_3", "content": "{\"n\":2}"},
            {"role": "user", "content": "go on"}])
    );
    assert_eq!(
        got["tools"],
        json!([{"type": "function", "function": {"name": "f", "description": "d",
            "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}])
    );
    assert_eq!((&got["tool_choice"], &got["stream"], &got["model"]), (&json!("required"), &json!(true), &json!("up")));
    assert_eq!((&got["max_completion_tokens"], &got["top_p"], &got["stop"]), (&json!(70), &json!(0.5), &json!(["Z"])));
    assert_eq!(got["reasoning_effort"], "low");
    assert_eq!(got["response_format"]["json_schema"]["schema"], json!({"type": "string"}));
    let mut losses = losses;
    losses.sort();
    assert_eq!(
        losses,
        [
            "dropped contents[].parts[].thought",
            "dropped contents[].parts[].thoughtSignature",
            "dropped generationConfig.thinkingConfig.includeThoughts",
            "dropped tools[].googleSearch"
        ]
    );
}

#[test]
fn gemini_to_messages_and_responses() {
    let mut body = gemini_conversation();
    let (got, _) = from_gemini(&body, Protocol::AnthropicMessages, &[]);
    assert_eq!(got["messages"][1]["content"][1]["input"], json!({"x": 1}));
    assert_eq!(got["messages"][2]["content"][0]["tool_use_id"], "call_1_2");
    assert_eq!((&got["max_tokens"], &got["tool_choice"]), (&json!(70), &json!({"type": "any"})));
    assert_eq!(got["output_config"]["format"]["schema"], json!({"type": "string"}));
    body["generationConfig"].as_object_mut().unwrap().remove("stop_sequences");
    body["contents"][2]["parts"][0]["functionResponse"]["response"] = json!({"error": "bad"});
    let (got, losses) = from_gemini(&body, Protocol::OpenaiResponses, &[]);
    assert_eq!(got["input"][1]["type"], "message");
    assert_eq!(got["reasoning"], json!({"effort": "low", "summary": "auto"}));
    assert!(losses.contains(&"dropped contents[].parts[].functionResponse.response.error".to_owned()), "{losses:?}");
    for (key, value) in [("cachedContent", json!("cachedContents/1")), ("contents", json!([{"role": "nobody"}]))] {
        let mut bad = gemini_conversation();
        bad[key] = value;
        assert!(tried(&bad, GEMINI, Protocol::OpenaiChat, &[]).is_err(), "{key}");
    }
    let sound = json!({"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": "AA"}}]}]});
    let error = tried(&sound, GEMINI, Protocol::OpenaiChat, &[]).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("contents[0].parts[0].inlineData.mimeType"));
}

#[test]
fn within_gemini_bodies_pass_but_for_what_was_lifted_and_what_is_not_theirs() {
    let wrapped = continuation::wrap(Protocol::AnthropicMessages, ContinuationForm::Signature, Some("acme"), "sig");
    let foreign = URL_SAFE.encode(wrapped);
    let body = format!(
        r#"{{"model":"m","stream":true,"alt":"json",  "contents":[{{"role":"model","parts":[{{"text":"hm","thought":true,"thoughtSignature":"{foreign}"}},{{"text":"a"}}]}}],"x":[ 1 ]}}"#
    );
    let spec = TranslateSpec {
        source: GEMINI,
        target: Protocol::GoogleGemini,
        model: "up",
        provider: Some("acme"),
        edits: &[],
        target_flags: TargetFlags::default(),
    };
    let got = translate(body.as_bytes(), &spec).unwrap();
    let text = String::from_utf8(got.body).unwrap();
    assert_eq!(text.replace(' ', ""), r#"{"contents":[{"role":"model","parts":[{"text":"a"}]}],"x":[1]}"#);
    assert_eq!(got.losses.len(), 1);
}

#[test]
fn what_policy_needs_to_know() {
    let facts = inspect(gemini_conversation().to_string().as_bytes(), Protocol::GoogleGemini).unwrap();
    assert_eq!((facts.model.as_deref(), facts.stream, facts.messages), (Some("m"), true, 4));
    assert_eq!((facts.max_tokens, facts.has_images, facts.has_files), (Some(70), true, false));
    assert_eq!(facts.tool_names, ["f"]);
    let held = json!({"cachedContent": "cachedContents/1", "contents": [{"parts": [{"fileData": {"mimeType": "application/pdf",
        "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1"}}]}]});
    let mut facts = inspect(held.to_string().as_bytes(), Protocol::GoogleGemini).unwrap();
    facts.state_refs.sort();
    assert_eq!(facts.state_refs, ["/cachedContent", "/contents/0/parts/0/fileData/fileUri"]);
    assert!(facts.has_files);
}

/// What a client of this protocol holds after one answer, as the message that it sends back.
fn answered(client: Protocol, wire: &str) -> Value {
    let config = EncoderConfig {
        stream: false,
        response_id: "x_1".to_owned(),
        provider: Some("acme".to_owned()),
        family: Some(Protocol::GoogleGemini),
        ..EncoderConfig::new(client)
    };
    let (mut encoder, mut out) = (Encoder::new(config), Vec::new());
    let mut decoder = Decoder::new(DecoderConfig::new(Protocol::GoogleGemini));
    let mut sink = Encoding { encoder: &mut encoder, out: &mut out };
    decoder.feed(wire.as_bytes(), &mut sink);
    decoder.finish(End::Eof, &mut sink);
    serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out)))
}

/// Two calls after a thought, the first signed; and a signed text.
const CALLS: &str = r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"Looking."},
    {"functionCall":{"id":"c1","name":"f","args":{"x":1}},"thoughtSignature":"c2ln"},
    {"functionCall":{"id":"c2","name":"f","args":{}}}]},"finishReason":"STOP"}],"responseId":"r"}"#;
const TEXT: &str = r#"{"candidates":[{"content":{"parts":[{"text":"Done.","thoughtSignature":"c2lnMg=="}]},"finishReason":"STOP"}],"responseId":"r"}"#;

#[test]
fn signatures_come_back_to_their_parts_through_every_client_protocol() {
    let want_calls = json!([{"text": "Looking."},
        {"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "c2", "name": "f", "args": {}}}]);
    let want_text = json!([{"text": "Done.", "thoughtSignature": "c2lnMg=="}]);
    for (client, source) in
        [(Protocol::OpenaiChat, CHAT), (Protocol::OpenaiResponses, RESPONSES), (Protocol::AnthropicMessages, MESSAGES)]
    {
        for (wire, want) in [(CALLS, &want_calls), (TEXT, &want_text)] {
            let answer = answered(client, wire);
            let body = match client {
                Protocol::OpenaiChat => {
                    json!({"messages": [{"role": "user", "content": "q"}, answer["choices"][0]["message"]]})
                }
                Protocol::OpenaiResponses => {
                    let mut input = vec![json!({"role": "user", "content": "q"})];
                    input.extend(answer["output"].as_array().unwrap().iter().cloned());
                    json!({"input": input})
                }
                _ => json!({"max_tokens": 9, "messages": [{"role": "user", "content": "q"},
                    {"role": "assistant", "content": answer["content"]}]}),
            };
            let (got, _) = to_gemini(&body, source, &[]);
            assert_eq!(&got["contents"][1]["parts"], want, "{} {answer}", client.name());
            // Another family never sees them.
            for other in [Protocol::OpenaiChat, Protocol::AnthropicMessages] {
                if source != Source::Protocol(other) {
                    let (body, _) = tried(&body, source, other, &[]).unwrap();
                    assert!(!body.to_string().contains("c2ln"), "{body}");
                }
            }
        }
    }
}

#[test]
fn a_conversation_that_grows_keeps_its_bytes() {
    let mut contents = gemini_conversation();
    let spec = TranslateSpec {
        source: GEMINI,
        target: Protocol::AnthropicMessages,
        model: "up",
        provider: None,
        edits: &[],
        target_flags: TargetFlags::default(),
    };
    let bytes = |body: &Value, spec: &TranslateSpec<'_>| translate(body.to_string().as_bytes(), spec).unwrap().body;
    let short = bytes(&contents, &spec);
    contents["contents"].as_array_mut().unwrap().push(json!({"role": "model", "parts": [{"text": "x"}]}));
    let long = bytes(&contents, &spec);
    assert_eq!(long[..short.len() - 4], short[..short.len() - 4]);
    let mut chat = json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]});
    let spec = TranslateSpec { source: CHAT, target: Protocol::GoogleGemini, ..spec };
    let short = bytes(&chat, &spec);
    chat["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "c"}));
    let long = bytes(&chat, &spec);
    assert_eq!(long[..short.len() - 2], short[..short.len() - 2]);
}
