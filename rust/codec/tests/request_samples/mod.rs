//! For every object that the tables know, the smallest body that has one; for every field, values to try in it.

#![allow(
    clippy::too_many_lines,
    clippy::match_same_arms,
    reason = "these functions are tables, in the order of the fields"
)]

pub mod bedrock;
pub mod flat;
pub mod ollama;

use headrace_codec::event::Protocol;
use headrace_codec::request::Source;
use headrace_codec::request::table::{Fate, Row};
use serde_json::{Value, json};

pub const SOURCES: &[Source] = &[
    Source::Protocol(Protocol::OpenaiChat),
    Source::Protocol(Protocol::OpenaiResponses),
    Source::Protocol(Protocol::AnthropicMessages),
    Source::Protocol(Protocol::GoogleGemini),
    Source::Protocol(Protocol::OllamaChat),
    Source::Headrace,
];
pub const TARGETS: &[Protocol] = &[
    Protocol::OpenaiChat,
    Protocol::OpenaiResponses,
    Protocol::AnthropicMessages,
    Protocol::GoogleGemini,
    Protocol::BedrockConverse,
    Protocol::BedrockInvoke,
    Protocol::CohereChat,
    Protocol::OllamaChat,
];

/// What a value of a field that goes by its value comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comes {
    /// Carried: this stands in the target's body.
    Here(&'static str),
    /// Carried or answered, with nothing of its own in the body.
    Silent,
    Lost,
    Refused,
}
use Comes::{Here, Lost, Refused, Silent};

pub fn name(source: Source) -> &'static str {
    match source {
        Source::Headrace => "headrace",
        Source::Protocol(p) => p.name(),
    }
}

/// The smallest body that has an object of `path`, and where that object is. `key` is the field that is to be tried:
/// some need another kind of object around them.
pub fn skeleton(source: Source, path: &str, key: &str) -> (Value, &'static str) {
    let chat = |message: Value| json!({"messages": [message]});
    let part = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    match (name(source), path) {
        ("ollama_chat", path) => ollama::skeleton(path, key),
        ("openai_chat", "") => {
            (json!({"messages": [], "tools": [{"type": "function", "function": {"name": "f"}}]}), "")
        }
        ("openai_chat", "stream_options") => (json!({"messages": [], "stream_options": {}}), "/stream_options"),
        ("openai_chat", "reasoning") => (json!({"messages": [], "reasoning": {}}), "/reasoning"),
        ("openai_chat", "messages[]") => {
            let message = match key {
                "tool_call_id" => json!({"role": "tool", "content": "x"}),
                "tool_calls" | "refusal" | "function_call" | "audio" | "annotations" => {
                    json!({"role": "assistant", "content": "x"})
                }
                k if k.starts_with("reasoning") => json!({"role": "assistant", "content": "x"}),
                _ => json!({"role": "user", "content": "x"}),
            };
            (chat(message), "/messages/0")
        }
        ("openai_chat", "messages[].content[]") => {
            let kind = match key {
                "image_url" | "input_audio" | "file" | "refusal" => key,
                _ => "text",
            };
            (part(json!({"type": kind, "text": "x"})), "/messages/0/content/0")
        }
        ("openai_chat", "messages[].content[].prompt_cache_breakpoint") => (
            part(json!({"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}})),
            "/messages/0/content/0/prompt_cache_breakpoint",
        ),
        ("openai_chat", "messages[].content[].image_url") => {
            (part(json!({"type": "image_url", "image_url": {"url": "https://x"}})), "/messages/0/content/0/image_url")
        }
        ("openai_chat", "messages[].content[].file") => {
            let file =
                if key == "file_id" { json!({}) } else { json!({"file_data": "data:application/pdf;base64,AA"}) };
            (part(json!({"type": "file", "file": file})), "/messages/0/content/0/file")
        }
        ("openai_chat", "messages[].tool_calls[]") => {
            let call = if key == "custom" { json!({"id": "a"}) } else { json!({"id": "a", "function": {"name": "f"}}) };
            (chat(json!({"role": "assistant", "tool_calls": [call]})), "/messages/0/tool_calls/0")
        }
        ("openai_chat", "messages[].tool_calls[].function") => {
            let kind = if key == "input" { "custom" } else { "function" };
            let call = json!({"id": "a", kind: {"name": "f"}});
            let at =
                if key == "input" { "/messages/0/tool_calls/0/custom" } else { "/messages/0/tool_calls/0/function" };
            (chat(json!({"role": "assistant", "tool_calls": [call]})), at)
        }
        ("openai_chat", "messages[].reasoning_details[]") => (
            chat(json!({"role": "assistant", "content": "x", "reasoning_details": [{}]})),
            "/messages/0/reasoning_details/0",
        ),
        ("openai_chat", "tools[]") => (json!({"messages": [], "tools": [{"type": "function"}]}), "/tools/0"),
        ("openai_chat", "tools[].function") => {
            (json!({"messages": [], "tools": [{"type": "function", "function": {"name": "f"}}]}), "/tools/0/function")
        }
        ("openai_chat", "tools[].custom") => {
            (json!({"messages": [], "tools": [{"type": "custom", "custom": {"name": "f"}}]}), "/tools/0/custom")
        }
        ("openai_chat", "tools[].custom.format") => (
            json!({"messages": [], "tools": [{"type": "custom", "custom": {"name": "f", "format": {}}}]}),
            "/tools/0/custom/format",
        ),
        ("openai_chat", "tools[].custom.format.grammar") => (
            json!({"messages": [], "tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar",
                "grammar": {"definition": "d", "syntax": "lark"}}}}]}),
            "/tools/0/custom/format/grammar",
        ),
        ("openai_chat", path) if path.starts_with("tool_choice") => {
            let f = json!({"type": "function", "function": {"name": "f"}});
            let c = json!({"type": "custom", "custom": {"name": "c"}});
            let choice = match (path, key) {
                ("tool_choice", "custom" | "allowed_tools" | "name") => json!({}),
                ("tool_choice.allowed_tools" | "tool_choice.allowed_tools.tools[]", _) => {
                    json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{}]}})
                }
                _ => f.clone(),
            };
            let at = match path {
                "tool_choice" => "/tool_choice",
                "tool_choice.function" => "/tool_choice/function",
                "tool_choice.allowed_tools" => "/tool_choice/allowed_tools",
                _ => "/tool_choice/allowed_tools/tools/0",
            };
            (json!({"messages": [], "tools": [f, c], "tool_choice": choice}), at)
        }
        ("openai_chat", "response_format") => (
            json!({"messages": [], "response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}),
            "/response_format",
        ),
        ("openai_chat", "response_format.json_schema") => (
            json!({"messages": [], "response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}),
            "/response_format/json_schema",
        ),

        ("openai_responses", "") => (json!({"input": [], "tools": [{"type": "function", "name": "f"}]}), ""),
        ("openai_responses", "reasoning") => (json!({"input": [], "reasoning": {"effort": "high"}}), "/reasoning"),
        ("openai_responses", "text") => (json!({"input": [], "text": {}}), "/text"),
        ("openai_responses", "text.format") => (
            json!({"input": [], "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}}),
            "/text/format",
        ),
        ("openai_responses", "input[]") => {
            let item = match key {
                "call_id" | "output" => json!({"type": "function_call_output", "call_id": "a"}),
                "arguments" | "namespace" | "name" | "caller" | "async" => {
                    json!({"type": "function_call", "call_id": "a", "name": "f"})
                }
                "input" => json!({"type": "custom_tool_call", "call_id": "a", "name": "f"}),
                "summary" | "encrypted_content" => json!({"type": "reasoning"}),
                "tools" => json!({"type": "additional_tools", "role": "developer"}),
                _ => json!({"type": "message", "role": "user", "content": "x"}),
            };
            (json!({"input": [item]}), "/input/0")
        }
        ("openai_responses", "input[].content[]") => {
            let kind = match key {
                "refusal" => "refusal",
                "image_url" | "detail" => "input_image",
                "file_id" | "file_data" | "file_url" | "filename" => "input_file",
                _ => "input_text",
            };
            let mut part = json!({"type": kind, "text": "x"});
            match key {
                "filename" => part["file_data"] = json!("data:application/pdf;base64,AA"),
                "detail" => part["image_url"] = json!("https://x"),
                _ => {}
            }
            (json!({"input": [{"role": "user", "content": [part]}]}), "/input/0/content/0")
        }
        ("openai_responses", "input[].summary[]") => {
            (json!({"input": [{"type": "reasoning", "summary": [{}]}]}), "/input/0/summary/0")
        }
        ("openai_responses", "tools[]") => {
            let tool = match key {
                "tools" => json!({"type": "namespace", "name": "n"}),
                "format" => json!({"type": "custom", "name": "f"}),
                _ => json!({"type": "function", "name": "f"}),
            };
            (json!({"input": [], "tools": [tool]}), "/tools/0")
        }
        ("openai_responses", "tools[].format") => (
            json!({"input": [], "tools": [{"type": "custom", "name": "f",
                "format": {"type": "grammar", "definition": "d", "syntax": "lark"}}]}),
            "/tools/0/format",
        ),
        ("openai_responses", "tool_choice") => {
            let choice = match key {
                "mode" | "tools" => {
                    json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]})
                }
                _ => json!({"type": "function", "name": "f"}),
            };
            (json!({"input": [], "tools": [{"type": "function", "name": "f"}], "tool_choice": choice}), "/tool_choice")
        }

        ("anthropic_messages", "") => (json!({"messages": [], "max_tokens": 9, "tools": [{"name": "f"}]}), ""),
        ("anthropic_messages", "metadata") => (json!({"messages": [], "metadata": {}}), "/metadata"),
        ("anthropic_messages", "output_config") => (json!({"messages": [], "output_config": {}}), "/output_config"),
        ("anthropic_messages", "output_config.format") => (
            json!({"messages": [], "output_config": {"format": {"type": "json_schema", "schema": {}}}}),
            "/output_config/format",
        ),
        ("anthropic_messages", "thinking") => (json!({"messages": [], "thinking": {"type": "adaptive"}}), "/thinking"),
        ("anthropic_messages", "tool_choice") => (
            json!({"messages": [], "tools": [{"name": "f"}], "tool_choice": {"type": "tool", "name": "f"}}),
            "/tool_choice",
        ),
        ("anthropic_messages", "messages[]") => (chat(json!({"role": "user", "content": "x"})), "/messages/0"),
        ("anthropic_messages", "messages[].content[]") => {
            let block = match key {
                "source" | "transformations" => {
                    json!({"type": "image", "source": {"type": "url", "url": "https://x"}})
                }
                "title" | "context" => {
                    json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}})
                }
                "thinking" | "signature" => json!({"type": "thinking"}),
                "data" => json!({"type": "redacted_thinking"}),
                "id" | "name" | "input" | "caller" | "toolset_name" => {
                    json!({"type": "tool_use", "id": "a", "name": "f"})
                }
                "tool_use_id" | "content" | "is_error" => json!({"type": "tool_result", "tool_use_id": "a"}),
                _ => json!({"type": "text", "text": "x"}),
            };
            let said =
                matches!(key, "thinking" | "signature" | "data" | "id" | "name" | "input" | "caller" | "toolset_name");
            let role = if said { "assistant" } else { "user" };
            (chat(json!({"role": role, "content": [block]})), "/messages/0/content/0")
        }
        ("anthropic_messages", "messages[].content[].source") => {
            let source = match key {
                "url" => json!({"type": "url"}),
                "file_id" => json!({"type": "file"}),
                "content" => json!({"type": "content"}),
                _ => json!({"type": "base64", "media_type": "image/png", "data": "AA"}),
            };
            let kind = if key == "content" { "document" } else { "image" };
            (part(json!({"type": kind, "source": source})), "/messages/0/content/0/source")
        }
        ("anthropic_messages", "tools[]") => (json!({"messages": [], "tools": [{"name": "f"}]}), "/tools/0"),

        ("headrace", "") => (json!({"messages": []}), ""),
        ("headrace", "options") => (json!({"messages": [], "options": {}, "tools": [{"name": "f"}]}), "/options"),
        ("headrace", "options.tool_choice") => (
            json!({"messages": [], "tools": [{"name": "f"}], "options": {"tool_choice": {"mode": "tool", "name": "f"}}}),
            "/options/tool_choice",
        ),
        ("headrace", "options.response_format") => (
            json!({"messages": [], "options": {"response_format": {"type": "json_schema", "schema": {}}}}),
            "/options/response_format",
        ),
        ("headrace", "messages[]") => (json!({"messages": [{"role": "user"}]}), "/messages/0"),
        ("headrace", "messages[].parts[]") => {
            let (role, part) = match key {
                "mime" => ("user", json!({"type": "image", "data": "AA"})),
                "data" => ("user", json!({"type": "image", "mime": "image/png"})),
                "url" | "file_id" => ("user", json!({"type": "image"})),
                "detail" => ("user", json!({"type": "image", "url": "https://x"})),
                "name" | "call_id" | "raw_input_text" => {
                    ("assistant", json!({"type": "tool_call", "call_id": "a", "name": "f", "raw_input_text": "{}"}))
                }
                "is_error" | "parts" => ("tool", json!({"type": "tool_result", "call_id": "a"})),
                "raw" => ("assistant", json!({"type": "hosted_tool", "family": "google_gemini"})),
                _ => ("user", json!({"type": "text", "text": "x"})),
            };
            (json!({"messages": [{"role": role, "parts": [part]}]}), "/messages/0/parts/0")
        }
        ("headrace", "tools[]") => (json!({"messages": [], "tools": [{"name": "f"}]}), "/tools/0"),
        ("google_gemini", "") => (json!({"contents": [], "tools": [{"functionDeclarations": [{"name": "f"}]}]}), ""),
        ("google_gemini", "contents[]") => {
            (json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]}), "/contents/0")
        }
        ("google_gemini", "systemInstruction") => {
            (json!({"contents": [], "systemInstruction": {}}), "/systemInstruction")
        }
        ("google_gemini", "contents[].parts[]") => {
            let role = if matches!(key, "functionResponse" | "inlineData" | "fileData") { "user" } else { "model" };
            let part = match key {
                "text" | "thoughtSignature" | "thought" => json!({"text": "x"}),
                _ => json!({}),
            };
            (json!({"contents": [{"role": role, "parts": [part]}]}), "/contents/0/parts/0")
        }
        ("google_gemini", path) if path.starts_with("contents[].parts[].") => {
            let (part, at) = match path.rsplit('.').next().unwrap() {
                "inlineData" => (json!({"mimeType": "image/png", "data": "AA"}), "/contents/0/parts/0/inlineData"),
                "fileData" => {
                    (json!({"mimeType": "image/png", "fileUri": "https://x"}), "/contents/0/parts/0/fileData")
                }
                "functionCall" => (json!({"name": "f"}), "/contents/0/parts/0/functionCall"),
                _ => (json!({"name": "f"}), "/contents/0/parts/0/functionResponse"),
            };
            let key = path.rsplit('.').next().unwrap();
            let role = if key == "functionCall" { "model" } else { "user" };
            (json!({"contents": [{"role": role, "parts": [{key: part}]}]}), at)
        }
        ("google_gemini", "generationConfig") => (json!({"contents": [], "generationConfig": {}}), "/generationConfig"),
        ("google_gemini", "generationConfig.thinkingConfig") => {
            (json!({"contents": [], "generationConfig": {"thinkingConfig": {}}}), "/generationConfig/thinkingConfig")
        }
        ("google_gemini", "tools[]") => (json!({"contents": [], "tools": [{}]}), "/tools/0"),
        ("google_gemini", "tools[].functionDeclarations[]") => (
            json!({"contents": [], "tools": [{"functionDeclarations": [{"name": "f"}]}]}),
            "/tools/0/functionDeclarations/0",
        ),
        ("google_gemini", "toolConfig") => (
            json!({"contents": [], "tools": [{"functionDeclarations": [{"name": "f"}]}], "toolConfig": {}}),
            "/toolConfig",
        ),
        ("google_gemini", "toolConfig.functionCallingConfig") => (
            json!({"contents": [], "tools": [{"functionDeclarations": [{"name": "f"}]}, {"functionDeclarations": [{"name": "g"}]}],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
            "/toolConfig/functionCallingConfig",
        ),
        (source, path) => panic!("no skeleton for {source} {path}"),
    }
}

/// An object of the given `type`, where the rows of a table are types.
pub fn typed(source: Source, path: &str, kind: &str) -> Option<(Value, &'static str)> {
    match (name(source), path) {
        ("openai_responses", "input[].type") => {
            let mut item = json!({"type": kind});
            match kind {
                "message" => item = json!({"type": kind, "role": "user", "content": "mark_er"}),
                "function_call" | "custom_tool_call" => item = json!({"type": kind, "call_id": "mark_er", "name": "f"}),
                "function_call_output" | "custom_tool_call_output" => {
                    item = json!({"type": kind, "call_id": "mark_er", "output": "x"});
                }
                "additional_tools" => item = json!({"type": kind, "tools": [{"type": "function", "name": "mark_er"}]}),
                "reasoning" => item = json!({"type": kind, "summary": [{"type": "summary_text", "text": "x"}]}),
                _ => {}
            }
            Some((json!({"input": [item]}), "/input/0"))
        }
        ("openai_responses", "tools[].type") => {
            let tool = match kind {
                "namespace" => json!({"type": kind, "name": "n", "tools": [{"type": "function", "name": "mark_er"}]}),
                _ => json!({"type": kind, "name": "mark_er"}),
            };
            Some((json!({"input": [], "tools": [tool]}), "/tools/0"))
        }
        ("anthropic_messages", "messages[].content[].type") => {
            let block = match kind {
                "text" => json!({"type": kind, "text": "mark_er"}),
                "image" => json!({"type": kind, "source": {"type": "url", "url": "https://mark_er"}}),
                "document" => json!({"type": kind, "source": {"type": "text", "data": "mark_er"}}),
                "search_result" => {
                    json!({"type": kind, "source": "mark_er", "title": "t", "content": [{"type": "text", "text": "x"}]})
                }
                "thinking" => json!({"type": kind, "thinking": "x", "signature": "s"}),
                "redacted_thinking" => json!({"type": kind, "data": "s"}),
                "tool_use" => json!({"type": kind, "id": "mark_er", "name": "f", "input": {}}),
                "tool_result" => json!({"type": kind, "tool_use_id": "mark_er"}),
                _ => json!({"type": kind}),
            };
            let said = matches!(kind, "tool_use" | "thinking" | "redacted_thinking");
            let role = if said { "assistant" } else { "user" };
            Some((json!({"messages": [{"role": role, "content": [block]}]}), "/messages/0/content/0"))
        }
        ("headrace", "messages[].parts[].type") => {
            let (role, part) = match kind {
                "text" | "refusal" => ("user", json!({"type": kind, "text": "mark_er"})),
                "image" | "file" => ("user", json!({"type": kind, "mime": "application/pdf", "data": "mark_er"})),
                "audio" => ("user", json!({"type": kind, "mime": "audio/wav", "data": "mark_er"})),
                "reasoning" => ("assistant", json!({"type": kind, "text": "x"})),
                "continuation" => {
                    ("assistant", json!({"type": kind, "family": "cohere_chat", "form": "signature", "data": "x"}))
                }
                "tool_call" => {
                    ("assistant", json!({"type": kind, "call_id": "mark_er", "name": "f", "raw_input_text": "{}"}))
                }
                "tool_result" => ("tool", json!({"type": kind, "call_id": "mark_er"})),
                _ => ("assistant", json!({"type": kind, "family": "cohere_chat", "raw": {}})),
            };
            Some((json!({"messages": [{"role": role, "parts": [part]}]}), "/messages/0/parts/0"))
        }
        _ => None,
    }
}

/// Values to try for a field, and for one that goes by its value what each comes to. By default one of its type.
pub fn values(source: Source, path: &str, row: &Row, fate: Fate, target: Protocol) -> Vec<(Value, Option<Comes>)> {
    let bedrock = matches!(target, Protocol::BedrockConverse | Protocol::BedrockInvoke);
    let messages = bedrock || target == Protocol::AnthropicMessages;
    let chat = target == Protocol::OpenaiChat;
    let full = if path.is_empty() { row.key.to_owned() } else { format!("{path}.{}", row.key) };
    if source == Source::Protocol(Protocol::OllamaChat) {
        return ollama::values(&full, row, fate, target);
    }
    if let Some(values) = bedrock.then(|| bedrock::values(source, &full, target)).flatten() {
        return values;
    }
    if let Some(values) = flat::values(source, &full, target) {
        return values;
    }
    let plain = |v: Value| vec![(v, None)];
    let by = |these: &[(Value, Comes)]| these.iter().map(|(v, c)| (v.clone(), Some(*c))).collect::<Vec<_>>();
    let silent = |v: Value| vec![(v, Some(Silent))];
    let gemini = target == Protocol::GoogleGemini;
    match (name(source), full.as_str()) {
        ("google_gemini", full) => gemini_values(full, row, fate, target),
        // What stands in Gemini's URL, or under a name of its own.
        (_, "stream" | "options.stream") if gemini => vec![(json!(true), Some(Silent))],
        (_, "tool_choice" | "options.tool_choice") if gemini => match name(source) {
            "openai_chat" => vec![(json!("required"), Some(Here("ANY")))],
            "openai_responses" => vec![(json!("required"), Some(Here("ANY")))],
            "headrace" => vec![(json!({"mode": "required"}), Some(Here("ANY")))],
            _ => vec![(json!({"type": "any"}), Some(Here("ANY")))],
        },
        ("openai_chat", "function_call") if gemini => vec![(json!("auto"), Some(Here("AUTO")))],
        (_, "reasoning_effort" | "reasoning.effort" | "options.reasoning_effort" | "output_config.effort")
            if gemini =>
        {
            by(&[(json!("high"), Here("HIGH")), (json!("none"), Lost), (json!("minimal"), Here("MINIMAL"))])
        }
        (_, "options.reasoning_summary" | "reasoning.summary") if gemini => {
            vec![(json!("auto"), Some(Here("includeThoughts")))]
        }
        ("headrace", "options.reasoning_budget_tokens") if gemini => by(&[(json!(5000), Lost)]),
        (_, "store") if gemini => by(&[(json!(false), Silent), (json!(true), Lost)]),
        ("anthropic_messages", "thinking.type") if gemini => {
            by(&[(json!("adaptive"), Here("includeThoughts")), (json!("between_tools"), Lost)])
        }
        ("anthropic_messages", "thinking.budget_tokens") if gemini => by(&[(json!(5000), Silent)]),
        ("anthropic_messages", "thinking.display") if gemini => {
            by(&[(json!("omitted"), Silent), (json!("summarized"), Here("includeThoughts"))])
        }
        (_, path) if gemini && path.ends_with("format.type") => silent(json!("json_schema")),
        (_, path) if gemini && path.ends_with("is_error") => {
            by(&[(json!(false), Silent), (json!(true), Here("error"))])
        }
        (_, path) if gemini && path.ends_with("strict") => {
            by(&[(json!(true), if matches!(fate, Fate::Drop(_)) { Lost } else { Silent })])
        }
        ("headrace", "messages[].parts[].raw") if gemini => by(&[(json!({"mark_er": 1}), Here("mark_er"))]),
        (_, path) if gemini && path.ends_with("name") && path.starts_with("tools[]") => {
            by(&[(json!("mark_er"), Here("mark_er")), (json!("mark er"), Lost)])
        }
        ("openai_chat", "messages[].tool_calls[].id") if gemini => by(&[(json!("mark er!"), Here("mark er!"))]),
        (_, "temperature" | "options.temperature") => vec![(json!(0.25), Some(Here("0.25")))],
        ("anthropic_messages", "output_config.format.type") => silent(json!("json_schema")),
        (_, "model") => vec![(json!("other"), Some(Silent))],
        ("openai_chat", "messages") => plain(json!([{"role": "user", "content": "mark_er"}])),
        ("openai_chat", "function_call") => plain(json!("auto")),
        ("openai_chat", "functions") => plain(json!([{"name": "mark_er"}])),
        ("openai_chat", "modalities") => by(&[(json!(["text"]), Silent), (json!(["audio"]), Refused)]),
        ("openai_chat", "n") => by(&[(json!(1), Silent), (json!(2), Refused)]),
        (_, "parallel_tool_calls" | "options.parallel_tool_calls") => plain(json!(false)),
        (_, "reasoning_effort" | "reasoning.effort" | "options.reasoning_effort") => {
            by(&[(json!("high"), Here("high")), (json!("minimal"), if messages { Lost } else { Here("minimal") })])
        }
        ("openai_chat", "response_format") => by(&[
            (json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"mark_er": 1}}}), Here("mark_er")),
            (json!({"type": "text"}), Silent),
        ]),
        ("openai_chat" | "headrace", "service_tier" | "options.service_tier") => by(&[
            (json!("auto"), Here("auto")),
            (json!("default"), if messages { Here("standard_only") } else { Here("default") }),
            (json!("flex"), if messages { Lost } else { Here("flex") }),
        ]),
        ("openai_responses", "service_tier") => by(&[(json!("auto"), Here("auto")), (json!("ultrafast"), Lost)]),
        ("anthropic_messages", "service_tier") => {
            by(&[(json!("auto"), Here("auto")), (json!("standard_only"), Here("default")), (json!("x"), Lost)])
        }
        (_, "stop" | "stop_sequences" | "options.stop") => plain(json!(["mark_er"])),
        ("openai_chat" | "openai_responses", "store") => {
            by(&[(json!(false), Silent), (json!(true), if messages { Lost } else { Here("\"store\":true") })])
        }
        (_, "stream" | "options.stream") => vec![(json!(true), Some(Here("\"stream\":true")))],
        (_, "stream_options") => silent(json!({"include_usage": true})),
        ("openai_chat", "reasoning") => silent(json!({"effort": "high"})),
        ("openai_chat", "reasoning.max_tokens") => vec![(json!(5000), Some(if messages { Lost } else { Silent }))],
        ("openai_chat", "reasoning.summary") => {
            vec![(json!("auto"), Some(if messages { Lost } else { Here("auto") }))]
        }
        ("openai_chat", "tool_choice") => vec![(json!("required"), Some(Here("tool_choice")))],
        ("openai_chat", "tools") => plain(json!([{"type": "function", "function": {"name": "mark_er"}}])),
        ("openai_chat", "messages[].role") => vec![(json!("user"), Some(Silent)), (json!("developer"), Some(Silent))],
        ("openai_chat", "messages[].content") => plain(json!("mark_er")),
        ("openai_chat", "messages[].name") => by(&[(json!("bob"), Lost)]),
        ("openai_chat", "messages[].tool_calls") => {
            plain(json!([{"id": "mark_er", "type": "function", "function": {"name": "f", "arguments": "{}"}}]))
        }
        ("openai_chat", "messages[].function_call") => plain(json!({"name": "mark_er", "arguments": "{}"})),
        ("openai_chat", "messages[].reasoning_details") => silent(json!([{"type": "reasoning.text"}])),
        ("openai_chat", "messages[].reasoning_content" | "messages[].reasoning") => by(&[(json!("x"), Lost)]),
        ("openai_chat", "messages[].content[].type") => silent(json!("text")),
        ("openai_chat", "messages[].content[].image_url") => plain(json!({"url": "https://mark_er"})),
        ("openai_chat", "messages[].content[].file") => {
            plain(json!({"file_data": "data:application/pdf;base64,mark_er"}))
        }
        (_, path) if path.ends_with(".prompt_cache_breakpoint") => vec![(json!({"mode": "explicit"}), None)],
        (_, path) if path.ends_with("prompt_cache_breakpoint.mode") => silent(json!("explicit")),
        (_, path) if path.ends_with("prompt_cache_breakpoint.ttl") => {
            by(&[(json!("30m"), if messages { Lost } else { Here("30m") })])
        }
        ("openai_chat", "messages[].content[].file.file_data") => plain(json!("data:application/pdf;base64,mark_er")),
        ("openai_chat", "messages[].tool_calls[].id") => by(&[
            (json!("mark_er"), Here("mark_er")),
            (json!("mark er!"), if messages { Here("call_") } else { Here("mark er!") }),
        ]),
        ("openai_chat", "messages[].tool_calls[].type") => silent(json!("function")),
        ("openai_chat", "messages[].tool_calls[].function") => plain(json!({"name": "mark_er"})),
        ("openai_chat", "messages[].tool_calls[].custom") => plain(json!({"name": "mark_er"})),
        ("openai_chat", "messages[].tool_calls[].function.arguments") => plain(json!("{\"mark_er\":1}")),
        ("openai_chat", path) if path.starts_with("messages[].reasoning_details[].") => match row.key {
            "text" | "summary" | "signature" | "data" => by(&[(json!("x"), Lost)]),
            "index" => silent(json!(0)),
            _ => silent(json!("x")),
        },
        ("openai_chat", "tools[].type") => silent(json!("function")).into_iter().filter(|_| false).collect(),
        ("openai_chat", "tools[].function" | "tools[].custom") => {
            vec![(json!({"name": "mark_er"}), matches!(fate, Fate::By(_)).then_some(Here("mark_er")))]
        }
        (_, "tools[].function.name" | "tools[].custom.name" | "tools[].name") => {
            by(&[(json!("mark_er"), Here("mark_er")), (json!("mark.er"), Lost)])
        }
        ("openai_chat", "tools[].custom.format") => {
            plain(json!({"type": "grammar", "grammar": {"definition": "mark_er", "syntax": "lark"}}))
        }
        ("openai_chat", "tools[].custom.format.type") => silent(json!("text")),
        ("openai_chat", "tools[].custom.format.grammar") => plain(json!({"definition": "mark_er", "syntax": "lark"})),
        ("openai_chat", "tool_choice.type") => silent(json!("function")),
        ("openai_chat", "tool_choice.function") => vec![(json!({"name": "f"}), Some(Here("\"name\":\"f\"")))],
        ("openai_chat", "tool_choice.custom") => vec![(json!({"name": "c"}), Some(Here("\"name\":\"c\"")))],
        ("openai_chat", "tool_choice.name" | "tool_choice.function.name") => {
            vec![(json!("f"), Some(Here("\"name\":\"f\"")))]
        }
        ("openai_chat", "tool_choice.allowed_tools") => {
            vec![(json!({"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}), None)]
        }
        ("openai_chat", "tool_choice.allowed_tools.mode") => silent(json!("auto")),
        ("openai_chat", "tool_choice.allowed_tools.tools") => silent(json!([{"name": "f"}])),
        ("openai_chat", path) if path.starts_with("tool_choice.allowed_tools.tools[]") => match row.key {
            "function" => silent(json!({"name": "f"})),
            "custom" => silent(json!({"name": "c"})),
            "server_label" => plain(json!("x")),
            "type" => Vec::new(),
            _ => silent(json!("f")),
        },
        ("openai_responses", "tools[].format.type") => silent(json!("grammar")),
        (_, path) if path.ends_with("format.type") => {
            by(&[(json!("json_object"), if messages { Lost } else { Here("json_object") }), (json!("text"), Silent)])
        }
        ("openai_chat", "response_format.json_schema") => plain(json!({"name": "n", "schema": {"mark_er": 1}})),
        (_, path) if path.ends_with("format.strict") || path.ends_with("json_schema.strict") => {
            by(&[(json!(false), if messages { Lost } else { Here("\"strict\":false") }), (json!(true), Silent)])
        }

        ("openai_responses", "input") => plain(json!("mark_er")),
        ("openai_responses", "background") => by(&[(json!(false), Silent), (json!(true), Refused)]),
        ("openai_responses", "include") => {
            by(&[(json!(["reasoning.encrypted_content"]), Silent), (json!(["web_search_call.results"]), Lost)])
        }
        ("openai_responses", "reasoning") => silent(json!({"effort": "high"})),
        ("openai_responses", "reasoning.summary") if !chat => vec![(json!("auto"), Some(Here("summarized")))],
        ("openai_responses", "text") => silent(json!({"format": {"type": "text"}})),
        ("openai_responses", "text.format") => by(&[
            (json!({"type": "json_schema", "name": "n", "schema": {"mark_er": 1}}), Here("mark_er")),
            (json!({"type": "text"}), Silent),
        ]),
        ("openai_responses", "tool_choice") => vec![(json!("required"), Some(Here("tool_choice")))],
        ("openai_responses", "tools") => plain(json!([{"type": "function", "name": "mark_er"}])),
        ("openai_responses", "truncation") => by(&[(json!("disabled"), Silent), (json!("auto"), Lost)]),
        ("openai_responses", "input[].type") => silent(json!("message")),
        ("openai_responses", "input[].role") => silent(json!("user")),
        ("openai_responses", "input[].call_id" | "input[].name") => by(&[(json!("mark_er"), Here("mark_er"))]),
        ("openai_responses", "input[].arguments") => plain(json!("{\"mark_er\":1}")),
        ("openai_responses", "input[].input") => by(&[(json!("mark_er"), Here("mark_er"))]),
        ("openai_responses", "input[].output" | "input[].content") => plain(json!("mark_er")),
        ("openai_responses", "input[].summary") => by(&[(json!([{"type": "summary_text", "text": "x"}]), Lost)]),
        ("openai_responses", "input[].encrypted_content") => by(&[(json!("x"), Lost)]),
        ("openai_responses", "input[].tools") => plain(json!([{"type": "function", "name": "mark_er"}])),
        ("openai_responses", "input[].content[].type") => silent(json!("input_text")),
        ("openai_responses", "input[].content[].detail") => {
            by(&[(json!("low"), if chat { Here("low") } else { Lost })])
        }
        ("openai_responses", "input[].content[].file_id") => {
            by(&[(json!("mark_er"), if chat { Here("mark_er") } else { Refused })])
        }
        ("openai_responses", "input[].content[].file_data") => plain(json!("data:application/pdf;base64,mark_er")),
        ("openai_responses", "input[].summary[].type") => silent(json!("summary_text")),
        ("openai_responses", "input[].summary[].text") => vec![(json!("x"), Some(Silent))],
        ("openai_responses", "tools[].type") => silent(json!("function")),
        ("openai_responses", "tools[].description") => by(&[(json!("mark_er"), Here("mark_er"))]),
        ("openai_responses", "tools[].format") => {
            plain(json!({"type": "grammar", "definition": "mark_er", "syntax": "lark"}))
        }
        ("openai_responses", "tools[].tools") => plain(json!([{"type": "function", "name": "mark_er"}])),
        ("openai_responses", "tool_choice.type") => silent(json!("function")),
        ("openai_responses", "tool_choice.name") => silent(json!("f")),
        ("openai_responses", "tool_choice.mode") => silent(json!("auto")),
        ("openai_responses", "tool_choice.tools") => {
            vec![(json!([{"type": "function", "name": "f"}]), chat.then_some(Here("allowed_tools")))]
        }

        ("anthropic_messages", "messages") => plain(json!([{"role": "user", "content": "mark_er"}])),
        ("anthropic_messages", "metadata") => plain(json!({"user_id": "mark_er"})),
        ("anthropic_messages", "output_config") => silent(json!({"effort": "high"})),
        ("anthropic_messages", "thinking") => silent(json!({"type": "adaptive"})),
        ("anthropic_messages", "tool_choice") => vec![(json!({"type": "any"}), Some(Here("required")))],
        ("anthropic_messages", "tools") => plain(json!([{"name": "mark_er"}])),
        ("anthropic_messages", "system") => plain(json!("mark_er")),
        ("anthropic_messages", "metadata.user_id") => {
            by(&[(json!("mark_er"), Here("mark_er")), (json!("x".repeat(65)), Lost)])
        }
        ("anthropic_messages", "output_config.format") => {
            plain(json!({"type": "json_schema", "schema": {"mark_er": 1}}))
        }
        ("anthropic_messages", "thinking.type") => {
            by(&[(json!("disabled"), Lost), (json!("between_tools"), Lost), (json!("adaptive"), Silent)])
        }
        ("anthropic_messages", "thinking.budget_tokens") => vec![(json!(5000), Some(Silent))],
        ("anthropic_messages", "thinking.display") => by(&[(json!("omitted"), Silent), (json!("loud"), Lost)]),
        ("anthropic_messages", "tool_choice.type") => silent(json!("tool")),
        ("anthropic_messages", "tool_choice.name") => silent(json!("f")),
        ("anthropic_messages", "messages[].role") => silent(json!("user")),
        ("anthropic_messages", "messages[].content") => plain(json!("mark_er")),
        ("anthropic_messages", "messages[].content[].type") => silent(json!("text")),
        ("anthropic_messages", "messages[].content[].source") => {
            plain(json!({"type": "url", "url": "https://mark_er"}))
        }
        ("anthropic_messages", "messages[].content[].title") => by(&[(json!("mark_er"), Here("mark_er"))]),
        (
            "anthropic_messages",
            "messages[].content[].thinking" | "messages[].content[].signature" | "messages[].content[].data",
        ) => by(&[(json!("x"), Lost)]),
        ("anthropic_messages", "messages[].content[].id" | "messages[].content[].name") => {
            by(&[(json!("mark_er"), Here("mark_er"))])
        }
        ("anthropic_messages", "messages[].content[].input") => plain(json!({"mark_er": 1})),
        ("anthropic_messages", "messages[].content[].content") => plain(json!("mark_er")),
        ("anthropic_messages", "messages[].content[].citations") => plain(json!([{"x": 1}])),
        ("anthropic_messages", "messages[].content[].is_error") => by(&[(json!(false), Silent), (json!(true), Lost)]),
        ("anthropic_messages", "messages[].content[].source.type") => silent(json!("base64")),
        ("anthropic_messages", "messages[].content[].source.url") => by(&[(json!("https://mark_er"), Here("mark_er"))]),
        ("anthropic_messages", "messages[].content[].source.content") => plain(json!("mark_er")),
        ("anthropic_messages", "tools[].type") => by(&[(json!("custom"), Silent)]),

        ("headrace", "messages") => plain(json!([{"role": "user", "parts": [{"type": "text", "text": "mark_er"}]}])),
        ("headrace", "tools") => plain(json!([{"name": "mark_er"}])),
        ("headrace", "options") => {
            plain(json!({"max_output_tokens": 4242})).into_iter().map(|(v, _)| (v, Some(Here("4242")))).collect()
        }
        ("headrace", "options.tool_choice") => vec![(json!({"mode": "required"}), Some(Here("tool_choice")))],
        ("headrace", "options.reasoning_summary") if target != Protocol::OpenaiChat => vec![(
            json!("auto"),
            // Without thinking there is nothing to sum up.
            Some(if messages { Lost } else { Here("auto") }),
        )],
        ("headrace", "options.reasoning_budget_tokens") => {
            by(&[(json!(5000), if messages { Lost } else { Here("medium") })])
        }
        ("headrace", "options.response_format") => plain(json!({"type": "json_schema", "schema": {"mark_er": 1}})),
        ("headrace", path) if path.ends_with("extra") => {
            let other = if bedrock { "google_gemini" } else { "bedrock_converse" };
            let own = json!({target.name(): {"mark_er": 1}, other: {"x": 1}});
            vec![(own, matches!(fate, Fate::By(_)).then_some(Here("mark_er")))]
        }
        ("headrace", "options.tool_choice.mode") => silent(json!("tool")),
        ("headrace", "options.tool_choice.name") => silent(json!("f")),
        ("headrace", "messages[].role") => silent(json!("user")),
        ("headrace", "messages[].parts") => plain(json!([{"type": "text", "text": "mark_er"}])),
        ("headrace", "messages[].parts[].type") => silent(json!("text")),
        ("headrace", "messages[].parts[].url") => by(&[(json!("https://mark_er"), Here("mark_er"))]),
        ("headrace", "messages[].parts[].file_id") => {
            by(&[(json!("mark_er"), if chat { Refused } else { Here("mark_er") })])
        }
        ("headrace", "messages[].parts[].call_id") => by(&[(json!("mark_er"), Here("mark_er"))]),
        ("headrace", "messages[].parts[].raw_input_text") => plain(json!("{\"mark_er\":1}")),
        ("headrace", "messages[].parts[].is_error") => {
            by(&[(json!(false), Silent), (json!(true), if messages { Here("is_error") } else { Lost })])
        }
        ("headrace", "messages[].parts[].parts") => plain(json!([{"type": "text", "text": "mark_er"}])),
        // In Chat its part is gone by its type.
        ("headrace", "messages[].parts[].raw") => by(&[(json!({"a": 1}), if chat { Silent } else { Lost })]),
        ("headrace", "tools[].kind") => by(&[(json!("custom"), Silent)]),
        ("headrace", "tools[].raw_schema") => plain(json!({"mark_er": 1})),
        _ => plain(of_type(row)),
    }
}

/// The same for a Gemini client's fields.
fn gemini_values(full: &str, row: &Row, fate: Fate, target: Protocol) -> Vec<(Value, Option<Comes>)> {
    let messages = target == Protocol::AnthropicMessages;
    let by = |these: &[(Value, Comes)]| these.iter().map(|(v, c)| (v.clone(), Some(*c))).collect::<Vec<_>>();
    let at_all =
        |v: Value, comes: Comes| vec![(v, matches!(fate, Fate::By(_) | Fate::Kept | Fate::To(_)).then_some(comes))];
    let marked = |v: Value| at_all(v, Here("mark_er"));
    match full {
        "stream" => vec![(json!(true), Some(Here("\"stream\":true")))],
        "contents" => marked(json!([{"parts": [{"text": "mark_er"}]}])),
        "tools" => marked(json!([{"functionDeclarations": [{"name": "mark_er"}]}])),
        "toolConfig" => at_all(json!({"functionCallingConfig": {"mode": "ANY"}}), Here("tool_choice")),
        "toolConfig.functionCallingConfig" => at_all(json!({"mode": "NONE"}), Here("none")),
        "toolConfig.functionCallingConfig.mode" => at_all(json!("NONE"), Here("none")),
        "toolConfig.functionCallingConfig.allowedFunctionNames" => {
            let comes = if messages { Lost } else { Here("allowed_tools") };
            vec![(json!(["f", "g"]), Some(comes))]
        }
        "generationConfig" => marked(json!({"responseJsonSchema": {"mark_er": 1}})),
        "generationConfig.temperature" => vec![(json!(0.25), Some(Here("0.25")))],
        "generationConfig.candidateCount" => by(&[(json!(1), Silent), (json!(2), Refused)]),
        "generationConfig.responseMimeType" => by(&[(json!("text/plain"), Silent), (json!("audio/wav"), Refused)]),
        "generationConfig.responseModalities" => by(&[(json!(["TEXT"]), Silent), (json!(["IMAGE"]), Refused)]),
        "generationConfig.thinkingConfig" => at_all(json!({"thinkingLevel": "HIGH"}), Here("high")),
        "generationConfig.thinkingConfig.includeThoughts" => match target {
            Protocol::OpenaiResponses => by(&[(json!(true), Here("auto"))]),
            Protocol::AnthropicMessages => by(&[(json!(true), Lost)]),
            _ => vec![(json!(true), None)],
        },
        "generationConfig.thinkingConfig.thinkingBudget" => {
            by(&[(json!(5000), if messages { Lost } else { Here("medium") }), (json!(-1), Silent)])
        }
        "generationConfig.thinkingConfig.thinkingLevel" => by(&[(json!("HIGH"), Here("high"))]),
        "contents[].role" => at_all(json!("user"), Silent),
        "contents[].parts" | "systemInstruction.parts" => marked(json!([{"text": "mark_er"}])),
        "contents[].parts[].thought" => by(&[(json!(false), Silent), (json!(true), Lost)]),
        "contents[].parts[].thoughtSignature" => by(&[(json!("c2ln"), Lost)]),
        "contents[].parts[].inlineData" => marked(json!({"mimeType": "image/png", "data": "mark_er"})),
        "contents[].parts[].fileData" => marked(json!({"mimeType": "image/png", "fileUri": "https://mark_er"})),
        "contents[].parts[].functionCall" => marked(json!({"name": "mark_er"})),
        "contents[].parts[].functionResponse" => marked(json!({"name": "f", "id": "mark_er"})),
        "contents[].parts[].inlineData.mimeType" => {
            by(&[(json!("image/mark_er"), Here("mark_er")), (json!("audio/wav"), Refused)])
        }
        "contents[].parts[].fileData.mimeType" => by(&[(json!("image/png"), Silent), (json!("audio/wav"), Refused)]),
        "contents[].parts[].fileData.fileUri" => {
            by(&[(json!("https://mark_er"), Here("mark_er")), (json!("gs://x"), Refused)])
        }
        "contents[].parts[].functionResponse.parts" => {
            marked(json!([{"inlineData": {"mimeType": "image/png", "data": "mark_er"}}]))
        }
        "tools[].functionDeclarations" => marked(json!([{"name": "mark_er"}])),
        "tools[].functionDeclarations[].name" => by(&[(json!("mark_er"), Here("mark_er")), (json!("mark.er"), Lost)]),
        path if path.starts_with("tools[].") && matches!(fate, Fate::By(_)) => by(&[(of_type(row), Lost)]),
        path if ["functionCall.id", "functionResponse.id", "functionCall.name"]
            .iter()
            .any(|end| path.ends_with(end)) =>
        {
            by(&[(json!("mark_er"), Here("mark_er"))])
        }
        _ => vec![(of_type(row), None)],
    }
}

fn of_type(row: &Row) -> Value {
    match row.ty.words().as_str() {
        words if words.starts_with("a string") => json!("mark_er"),
        "a number" => json!(4242),
        "true or false" => json!(true),
        words if words.starts_with("an object") => json!({"mark_er": "x"}),
        _ => json!(["mark_er"]),
    }
}
