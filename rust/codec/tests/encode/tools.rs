//! Tools that the translated request had renamed or wrapped come back as the client knows them, and continuations
//! come back to the provider that gave them.

use headrace_codec::Protocol;
use headrace_codec::encode::EncoderConfig;
use headrace_codec::event::{AttachTo, ContinuationForm, FinishReason};
use headrace_codec::request::{Source, TargetFlags, TranslateSpec, tool_name, translate};
use serde_json::{Value, json};

use crate::support::*;

fn asking(client: Protocol, family: Protocol, request: &Value) -> EncoderConfig {
    EncoderConfig {
        request: Some(request.to_string().into_bytes()),
        family: Some(family),
        provider: Some("acme".to_owned()),
        ..config(client)
    }
}

#[test]
fn a_custom_tool_that_had_to_be_a_function_is_custom_to_its_client() {
    let request =
        json!({"tools": [{"type": "custom", "name": "sh"}, {"type": "function", "name": "f", "parameters": {}}]});
    let config = || asking(Protocol::OpenaiResponses, Protocol::AnthropicMessages, &request);
    let input = [
        delta(0, Some("x"), Some("sh"), "{\"input\":"),
        delta(0, None, None, "\"ls \\\"a\\\"\"}"),
        intent(0, Some("x"), "sh", "{\"input\":\"ls \\\"a\\\"\"}"),
        delta(1, Some("y"), Some("f"), "{}"),
        intent(1, Some("y"), "f", "{}"),
        finished(FinishReason::ToolIntents),
    ];
    let frames = stream(config(), &input);
    let output = frames.last().unwrap().1["response"]["output"].clone();
    assert_eq!(
        (&output[0]["type"], &output[0]["input"], &output[0]["name"]),
        (&json!("custom_tool_call"), &json!("ls \"a\""), &json!("sh"))
    );
    assert_eq!((&output[1]["type"], &output[1]["arguments"]), (&json!("function_call"), &json!("{}")));
    let told: String = frames
        .iter()
        .filter(|(name, _)| name.as_deref() == Some("response.custom_tool_call_input.delta"))
        .map(|(_, data)| data["delta"].as_str().unwrap())
        .collect();
    assert_eq!(told, "ls \"a\"", "nothing of the object around it is told");
    assert_eq!(body(config(), &input)["output"], output);
    // A model that wrote something else has written that.
    let odd = [intent(0, None, "sh", "{\"cmd\":1}"), finished(FinishReason::ToolIntents)];
    assert_eq!(body(config(), &odd)["output"][0]["input"], "{\"cmd\":1}");
}

#[test]
fn names_that_were_changed_are_changed_back() {
    let target = Protocol::AnthropicMessages;
    let there = tool_name("db.read", target).into_owned();
    let request = json!({"tools": [{"type": "function", "function": {"name": "db.read", "parameters": {}}}]});
    let input = [
        delta(0, Some("x"), Some(&there), "{}"),
        intent(0, Some("x"), &there, "{}"),
        finished(FinishReason::ToolIntents),
    ];
    let call = &body(asking(Protocol::OpenaiChat, target, &request), &input)["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "db.read");
    let request = json!({"tools": [{"type": "namespace", "name": "fs", "tools": [{"type": "function", "name": "read", "parameters": {}}]}]});
    let input = [
        delta(0, Some("x"), Some("fs__read"), "{}"),
        intent(0, Some("x"), "fs__read", "{}"),
        finished(FinishReason::ToolIntents),
    ];
    let config = asking(Protocol::OpenaiResponses, Protocol::OpenaiChat, &request);
    let frames = stream(config, &input);
    let items =
        frames.iter().filter(|(_, data)| data["item"]["type"] == "function_call").map(|(_, data)| &data["item"]);
    let mut count = 0;
    for item in items {
        assert_eq!((&item["name"], &item["namespace"]), (&json!("read"), &json!("fs")));
        count += 1;
    }
    assert_eq!(count, 2, "added and done");
}

/// The next turn's body, for the provider that gave the answer.
fn next_turn(client: Protocol, target: Protocol, provider: &str, body: &Value) -> Value {
    let spec = TranslateSpec {
        source: Source::Protocol(client),
        target,
        model: "m",
        provider: Some(provider),
        edits: &[],
        target_flags: TargetFlags::default(),
    };
    let translation = translate(body.to_string().as_bytes(), &spec).expect("a turn that can be told");
    serde_json::from_slice(&translation.body).unwrap()
}

/// What a client of each protocol sends after an answer: its own question, the answer as it came, another question.
fn history(client: Protocol, answer: &Value) -> Value {
    let (ask, more) = (json!({"role": "user", "content": "q"}), json!({"role": "user", "content": "more"}));
    match client {
        Protocol::OpenaiChat => json!({"model": "m", "messages": [ask, answer["choices"][0]["message"], more]}),
        Protocol::OpenaiResponses => {
            let mut input = vec![ask];
            input.extend(answer["output"].as_array().unwrap().iter().cloned());
            input.push(more);
            json!({"model": "m", "input": input})
        }
        _ => {
            json!({"model": "m", "max_tokens": 9, "messages": [ask, {"role": "assistant", "content": answer["content"]}, more]})
        }
    }
}

#[test]
fn thinking_comes_back_signed_to_the_provider_that_signed_it() {
    let family = Protocol::AnthropicMessages;
    let sign = |data, index| kept(family, ContinuationForm::Signature, data, AttachTo::Reasoning, index);
    let input = [
        thought(0, "one"),
        sign("SIG1", 0),
        kept(family, ContinuationForm::Redacted, "RED", AttachTo::Reasoning, 1),
        thought(2, "two"),
        sign("SIG2", 2),
        text(3, "answer"),
        finished(FinishReason::Stop),
    ];
    let want = json!([
        {"type": "thinking", "thinking": "one", "signature": "SIG1"},
        {"type": "redacted_thinking", "data": "RED"},
        {"type": "thinking", "thinking": "two", "signature": "SIG2"},
    ]);
    for client in [Protocol::OpenaiChat, Protocol::OpenaiResponses] {
        let answer = body(asking(client, family, &json!({})), &input);
        let turn = history(client, &answer);
        let content = next_turn(client, family, "acme", &turn)["messages"][1]["content"].clone();
        assert_eq!(content.as_array().unwrap()[..3], want.as_array().unwrap()[..], "{}: {content}", client.name());
        let elsewhere = next_turn(client, family, "other", &turn).to_string();
        assert!(!elsewhere.contains("SIG1") && !elsewhere.contains("RED"), "{elsewhere}");
    }
}

#[test]
fn encrypted_reasoning_comes_back_to_the_provider_that_encrypted_it() {
    let family = Protocol::OpenaiResponses;
    let input = [
        summary(0, "sum"),
        kept(family, ContinuationForm::Encrypted, "gAAA", AttachTo::Reasoning, 0),
        text(1, "answer"),
        finished(FinishReason::Stop),
    ];
    for client in [Protocol::OpenaiChat, Protocol::AnthropicMessages] {
        let answer = body(asking(client, family, &json!({})), &input);
        let turn = history(client, &answer);
        let there = next_turn(client, family, "acme", &turn);
        let item = there["input"].as_array().unwrap().iter().find(|item| item["type"] == "reasoning").cloned();
        assert_eq!(item.expect("a reasoning item")["encrypted_content"], "gAAA", "{}", client.name());
    }
}
