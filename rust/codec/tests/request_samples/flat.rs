//! Where Cohere's chat and Ollama's, the later targets, differ from Chat: their values.

use headrace_codec::event::Protocol;
use headrace_codec::request::Source;
use serde_json::{Value, json};

use super::Comes::{self, Here, Lost, Refused, Silent};
use super::name;

/// The values of a field, where it is one of these targets' and not as in Chat.
pub fn values(source: Source, full: &str, target: Protocol) -> Option<Vec<(Value, Option<Comes>)>> {
    let by = |values: &[(Value, Comes)]| Some(values.iter().map(|(v, c)| (v.clone(), Some(*c))).collect());
    let ollama = target == Protocol::OllamaChat;
    if !ollama && target != Protocol::CohereChat {
        return None;
    }
    if name(source) == "google_gemini" {
        return gemini(full, ollama);
    }
    match (name(source), full) {
        (
            "openai_chat",
            "messages[].reasoning_content"
            | "messages[].reasoning"
            | "messages[].reasoning_details[].text"
            | "messages[].reasoning_details[].summary",
        )
        | ("openai_responses", "input[].summary[].text") => by(&[(json!("x"), Silent)]),
        ("openai_responses", "input[].summary") => by(&[(json!([{"type": "summary_text", "text": "x"}]), Silent)]),
        ("anthropic_messages", "messages[].content[].thinking") => by(&[(json!("x"), Silent)]),
        ("openai_chat", "messages[].tool_calls[].id") => by(&[(json!("mark_er"), Here("mark_er"))]),
        (_, path)
            if path.ends_with("format.type")
                && !matches!(path, "tools[].format.type" | "output_config.format.type") =>
        {
            by(&[(json!("json_object"), if ollama { Here("\"format\":\"json\"") } else { Here("json_object") })])
        }
        (_, path) if path.ends_with("effort") => {
            let level = json!("high");
            by(&[(level, if ollama { Here("\"think\":\"high\"") } else { Lost }), (json!("minimal"), Lost)])
        }
        (_, "store") => by(&[(json!(false), Silent), (json!(true), Lost)]),
        (_, "service_tier") => by(&[(json!("auto"), Lost)]),
        ("openai_responses", "input[].content[].detail") => by(&[(json!("low"), Here("low"))]),
        ("anthropic_messages", "messages[].content[].title") => by(&[(json!("mark_er"), Lost)]),
        ("anthropic_messages", "tool_choice") if !ollama => by(&[(json!({"type": "any"}), Here("REQUIRED"))]),
        (_, path) if path.ends_with("prompt_cache_breakpoint.ttl") => by(&[(json!("30m"), Lost)]),
        ("openai_chat", "reasoning.max_tokens") if !ollama => by(&[(json!(5000), Here("5000"))]),
        (_, "options.reasoning_budget_tokens") => by(&[(json!(5000), if ollama { Lost } else { Here("5000") })]),
        ("headrace", "messages[].parts[].is_error") => by(&[(json!(false), Silent), (json!(true), Lost)]),
        ("headrace", "messages[].parts[].raw") => by(&[(json!({"a": 1}), Silent)]),
        ("headrace", "messages[].parts[].file_id") => by(&[(json!("x"), Refused)]),
        _ if ollama => bytes_and_choices(source, full),
        _ => None,
    }
}

/// What a Gemini client's field comes to.
fn gemini(full: &str, ollama: bool) -> Option<Vec<(Value, Option<Comes>)>> {
    let by = |values: &[(Value, Comes)]| Some(values.iter().map(|(v, c)| (v.clone(), Some(*c))).collect());
    match full {
        "contents[].parts[].inlineData.mimeType" if ollama => by(&[(json!("image/png"), Silent)]),
        "contents[].parts[].thought" => by(&[(json!(true), Silent)]),
        "generationConfig.thinkingConfig" if !ollama => by(&[(json!({"thinkingLevel": "HIGH"}), Silent)]),
        "generationConfig.thinkingConfig.thinkingBudget" => {
            by(&[(json!(5000), if ollama { Lost } else { Here("5000") })])
        }
        "generationConfig.thinkingConfig.thinkingLevel" if !ollama => by(&[(json!("HIGH"), Lost)]),
        "toolConfig" if ollama => by(&[(json!({"functionCallingConfig": {"mode": "AUTO"}}), Silent)]),
        "toolConfig.functionCallingConfig" if ollama => {
            by(&[(json!({"mode": "AUTO"}), Silent), (json!({"mode": "ANY"}), Refused)])
        }
        "toolConfig.functionCallingConfig" => by(&[(json!({"mode": "NONE"}), Here("NONE"))]),
        "toolConfig.functionCallingConfig.mode" => by(&[(json!("NONE"), if ollama { Silent } else { Here("NONE") })]),
        _ => None,
    }
}

/// The body around a field, without what these targets refuse: files, for Ollama links to pictures and a forced call.
pub fn around(body: &Value, path: &str, target: Protocol) -> Value {
    let mut text = body.to_string();
    if matches!(path, "messages[].content[].title" | "messages[].content[].context") {
        text = text
            .replace(r#""data":"AA","media_type":"application/pdf","type":"base64""#, r#""data":"AA","type":"text""#);
    }
    if target == Protocol::OllamaChat {
        if path != "toolConfig.functionCallingConfig" {
            text = text.replace(r#""mode":"ANY""#, r#""mode":"AUTO""#);
        }
        if !path.ends_with("url") && !path.contains("fileData") {
            text = text
                .replace(
                    r#"{"type":"url","url":"https://mark_er"}"#,
                    r#"{"data":"mark_er","media_type":"i","type":"base64"}"#,
                )
                .replace(r#"{"type":"url","url":"https://x"}"#, r#"{"data":"x","media_type":"i","type":"base64"}"#)
                .replace("https://", "data:image/png;base64,");
        }
        if path == "messages[].parts[].detail" {
            text = text.replace(r#""url":"data:image/png;base64,x""#, r#""data":"x","mime":"image/png""#);
        }
        if path.ends_with(".disable_parallel_tool_use") {
            text = text.replace(r#""name":"f","type":"tool""#, r#""type":"auto""#);
        }
    }
    serde_json::from_str(&text).expect("still JSON")
}

/// Ollama takes the bytes of a picture, and cannot be made to call.
fn bytes_and_choices(source: Source, full: &str) -> Option<Vec<(Value, Option<Comes>)>> {
    let by = |values: &[(Value, Comes)]| Some(values.iter().map(|(v, c)| (v.clone(), Some(*c))).collect());
    let data = "data:image/png;base64,mark_er";
    match (name(source), full) {
        ("openai_chat", "messages[].content[].image_url") => by(&[(json!({"url": data}), Here("\"mark_er\""))]),
        ("openai_chat", "messages[].content[].image_url.url")
        | ("openai_responses", "input[].content[].image_url")
        | ("headrace", "messages[].parts[].url") => {
            by(&[(json!(data), Here("\"mark_er\"")), (json!("https://x"), Refused)])
        }
        ("anthropic_messages", "messages[].content[].source") => {
            by(&[(json!({"type": "base64", "media_type": "image/png", "data": "mark_er"}), Here("\"mark_er\""))])
        }
        ("anthropic_messages", "tool_choice") => {
            by(&[(json!({"type": "auto"}), Silent), (json!({"type": "any"}), Refused)])
        }
        ("headrace", "options.tool_choice") => {
            by(&[(json!({"mode": "auto"}), Silent), (json!({"mode": "required"}), Refused)])
        }
        (_, "tool_choice" | "function_call") => by(&[(json!("auto"), Silent), (json!("required"), Refused)]),
        ("anthropic_messages", "tool_choice.type") => by(&[(json!("tool"), Refused)]),
        ("headrace", "options.tool_choice.mode") => by(&[(json!("tool"), Refused)]),
        (_, "tool_choice.type") => by(&[(json!("function"), Refused)]),
        (_, "tool_choice.server_label") => by(&[(json!("x"), Refused)]),
        ("openai_chat", "tool_choice.function.name") => by(&[(json!("f"), Refused)]),
        _ => None,
    }
}
