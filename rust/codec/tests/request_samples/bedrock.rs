//! Where Bedrock's two families differ from Messages: their values, and the body around them.

use headrace_codec::event::Protocol;
use headrace_codec::request::Source;
use serde_json::{Value, json};

use super::Comes::{self, Here, Lost, Refused, Silent};
use super::name;

/// The values of a field, where it is one of these targets' and not as in Messages.
pub fn values(source: Source, full: &str, target: Protocol) -> Option<Vec<(Value, Option<Comes>)>> {
    let by = |values: &[(Value, Comes)]| Some(values.iter().map(|(v, c)| (v.clone(), Some(*c))).collect());
    let drop = |value: Value| Some(vec![(value, None)]);
    match (name(source), full) {
        (_, "stream" | "options.stream") => return by(&[(json!(true), Silent)]),
        ("google_gemini", path) if path.ends_with("thinkingBudget") => return by(&[(json!(5000), Lost)]),
        // Without thinking there is nothing to sum up.
        ("google_gemini", path) if path.ends_with("includeThoughts") => return by(&[(json!(true), Lost)]),
        _ if target != Protocol::BedrockConverse => return None,
        _ => {}
    }
    let data = "data:image/png;base64,mark_er";
    match (name(source), full) {
        (_, "service_tier" | "options.service_tier") if source != Source::Protocol(Protocol::AnthropicMessages) => {
            drop(json!("auto"))
        }
        (_, "service_tier") => drop(json!("auto")),
        (_, "parallel_tool_calls" | "options.parallel_tool_calls") => drop(json!(false)),
        ("openai_chat" | "openai_responses", "tool_choice") => by(&[(json!("required"), Here("toolChoice"))]),
        ("anthropic_messages", "tool_choice") => by(&[(json!({"type": "any"}), Here("\"any\":{}"))]),
        ("headrace", "options.tool_choice") => by(&[(json!({"mode": "required"}), Here("toolChoice"))]),
        ("openai_chat", "messages[].content[].image_url") => by(&[(json!({"url": data}), Here("\"mark_er\""))]),
        ("openai_chat", "messages[].content[].image_url.url")
        | ("openai_responses", "input[].content[].image_url")
        | ("headrace", "messages[].parts[].url") => {
            by(&[(json!(data), Here("\"mark_er\"")), (json!("https://x"), Refused)])
        }
        ("openai_responses", "input[].content[].file_url") => by(&[(json!("https://x"), Refused)]),
        ("anthropic_messages", "messages[].content[].source") => {
            by(&[(json!({"type": "base64", "media_type": "image/png", "data": "mark_er"}), Here("\"mark_er\""))])
        }
        ("anthropic_messages", "messages[].content[].source.url") => by(&[(json!("https://x"), Refused)]),
        ("anthropic_messages", "messages[].content[].source.media_type") => by(&[(json!("image/webp"), Here("webp"))]),
        ("google_gemini", "toolConfig") => {
            by(&[(json!({"functionCallingConfig": {"mode": "ANY"}}), Here("\"any\":{}"))])
        }
        ("google_gemini", "toolConfig.functionCallingConfig") => by(&[(json!({"mode": "NONE"}), Silent)]),
        ("google_gemini", "toolConfig.functionCallingConfig.mode") => by(&[(json!("NONE"), Silent)]),
        ("google_gemini", "contents[].parts[].inlineData.mimeType") => by(&[(json!("image/webp"), Here("webp"))]),
        ("headrace", "messages[].parts[].mime") => by(&[(json!("image/webp"), Here("webp"))]),
        (_, path) if path.ends_with("filename") => by(&[(json!("a mark.pdf"), Here("\"a mark\""))]),
        ("anthropic_messages", "messages[].content[].title") => by(&[(json!("a mark"), Here("\"a mark\""))]),
        ("headrace", "messages[].parts[].name") => None,
        ("anthropic_messages", "messages[].content[].is_error") => {
            by(&[(json!(false), Silent), (json!(true), Here("\"status\":\"error\""))])
        }
        ("headrace", "messages[].parts[].is_error") => {
            by(&[(json!(false), Silent), (json!(true), Here("\"status\":\"error\""))])
        }
        ("anthropic_messages", path) if path.ends_with("cache_control") => {
            by(&[(json!({"type": "ephemeral", "ttl": "1h"}), Here("{\"type\":\"default\",\"ttl\":\"1h\"}"))])
        }
        ("anthropic_messages", "metadata") => by(&[(json!({"user_id": "x"}), Lost)]),
        ("anthropic_messages", "metadata.user_id") => drop(json!("x")),
        ("anthropic_messages", "thinking.type") => by(&[
            (json!("disabled"), Silent),
            (json!("between_tools"), Lost),
            (json!("adaptive"), Here("\"thinking\":{\"type\":\"adaptive\"")),
        ]),
        ("anthropic_messages", "thinking.budget_tokens") => by(&[(json!(5000), Silent)]),
        ("openai_responses", "input[].content[].file_id") => by(&[(json!("x"), Refused)]),
        ("headrace", "messages[].parts[].file_id") => by(&[(json!("x"), Refused)]),
        _ => None,
    }
}

/// The body around a field, with the bytes of what Converse does not fetch.
pub fn around(body: &Value, path: &str) -> Value {
    let mut text = body.to_string();
    if !path.ends_with("url") {
        text = text
            .replace(
                r#"{"type":"url","url":"https://mark_er"}"#,
                r#"{"data":"mark_er","media_type":"image/png","type":"base64"}"#,
            )
            .replace(r#"{"type":"url","url":"https://x"}"#, r#"{"data":"x","media_type":"image/png","type":"base64"}"#)
            .replace("https://", "data:image/png;base64,");
    }
    if path.starts_with("messages[].parts[]") && !path.ends_with("url") {
        text = text.replace(r#""url":"data:image/png;base64,x""#, r#""data":"x","mime":"image/png""#);
    }
    serde_json::from_str(&text).expect("still JSON")
}
