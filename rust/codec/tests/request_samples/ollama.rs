//! What a client of Ollama's own chat asks: the smallest bodies and the values.

use headrace_codec::event::Protocol;
use headrace_codec::request::table::{Fate, Row};
use serde_json::{Value, json};

use super::Comes::{self, Here, Lost, Silent};

/// The smallest body that has an object of `path`, and where that object is.
pub fn skeleton(path: &str, key: &str) -> (Value, &'static str) {
    let message = |message: Value| json!({"messages": [message]});
    match path {
        "" => (json!({"messages": [], "tools": [{"function": {"name": "f"}}]}), ""),
        "options" => (json!({"messages": [], "options": {}}), "/options"),
        "messages[]" => {
            let one = match key {
                "tool_name" | "tool_call_id" => json!({"role": "tool", "content": "x"}),
                "thinking" | "tool_calls" => json!({"role": "assistant", "content": "x"}),
                _ => json!({"role": "user", "content": "x"}),
            };
            (message(one), "/messages/0")
        }
        "messages[].tool_calls[]" => (
            message(json!({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]})),
            "/messages/0/tool_calls/0",
        ),
        "messages[].tool_calls[].function" => (
            message(json!({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]})),
            "/messages/0/tool_calls/0/function",
        ),
        "tools[]" => (json!({"messages": [], "tools": [{"function": {"name": "f"}}]}), "/tools/0"),
        "tools[].function" => (json!({"messages": [], "tools": [{"function": {"name": "f"}}]}), "/tools/0/function"),
        _ => panic!("no skeleton for {path}"),
    }
}

/// Values to try for a field, and what those come to that go by their value.
pub fn values(full: &str, row: &Row, fate: Fate, target: Protocol) -> Vec<(Value, Option<Comes>)> {
    let by = |these: &[(Value, Comes)]| these.iter().map(|(v, c)| (v.clone(), Some(*c))).collect::<Vec<_>>();
    let bedrock = matches!(target, Protocol::BedrockConverse | Protocol::BedrockInvoke);
    let messages = bedrock || target == Protocol::AnthropicMessages;
    let in_url = bedrock || target == Protocol::GoogleGemini;
    match full {
        "model" => by(&[(json!("other"), Silent)]),
        "messages" => vec![(json!([{"role": "user", "content": "mark_er"}]), None)],
        "messages[].role" => by(&[(json!("system"), Silent)]),
        "tools" => vec![(json!([{"function": {"name": "mark_er"}}]), None)],
        "stream" => by(&[(json!(true), if in_url { Silent } else { Here("\"stream\":true") })]),
        "format" => by(&[
            (json!({"mark_er": {}}), Here("mark_er")),
            (json!(""), Silent),
            (json!("json"), if messages { Lost } else { Here("json") }),
        ]),
        "options" => vec![(json!({"num_predict": 4242}), None)],
        "options.stop" => vec![(json!(["mark_er"]), None)],
        "options.temperature" => by(&[(json!(0.25), Here("0.25"))]),
        "think" => match target {
            Protocol::OpenaiChat | Protocol::OpenaiResponses => by(&[
                (json!("low"), Here("\"low\"")),
                (json!(true), Here("\"medium\"")),
                (json!(false), Here("\"none\"")),
            ]),
            Protocol::GoogleGemini => by(&[(json!("low"), Here("LOW")), (json!(false), Lost)]),
            Protocol::CohereChat => by(&[(json!("low"), Lost), (json!(false), Here("disabled"))]),
            _ => by(&[(json!(true), Here("adaptive")), (json!("minimal"), Lost), (json!(false), Silent)]),
        },
        "messages[].thinking" if target == Protocol::CohereChat => by(&[(json!("mark_er"), Silent)]),
        "messages[].thinking" => by(&[(json!("mark_er"), Lost)]),
        "messages[].images" => vec![(json!(["mark_er"]), None)],
        "messages[].tool_calls" => vec![(json!([{"function": {"name": "mark_er"}}]), None)],
        "messages[].tool_name" => by(&[(json!("f"), Silent)]),
        "messages[].tool_calls[].id" => by(&[(json!("mark_er"), Here("mark_er"))]),
        "messages[].tool_calls[].function" => vec![(json!({"name": "mark_er"}), None)],
        "messages[].tool_calls[].function.name" => by(&[(json!("mark_er"), Here("mark_er"))]),
        "messages[].tool_calls[].function.arguments" => {
            vec![(json!({"a": "mark_er"}), None), (json!("{\"a\":\"mark_er\"}"), None)]
        }
        "tools[].function" => vec![(json!({"name": "mark_er"}), None)],
        "tools[].function.name" => by(&[(json!("mark_er"), Here("mark_er")), (json!("mark er"), Lost)]),
        "tools[].function.parameters" => vec![(json!({"type": "object", "mark_er": 1}), None)],
        _ if matches!(fate, Fate::By(_)) => panic!("{full} goes by its value"),
        _ => vec![(super::of_type(row), None)],
    }
}
