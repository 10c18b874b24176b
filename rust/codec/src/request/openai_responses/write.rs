//! A neutral request becomes a Responses body.
//!
//! 1. The input comes last, an item for everything that was said, called or found, so a conversation that grows
//!    keeps its bytes.
//! 2. Nothing is left with the provider: `store` is false unless the client asked for it, and reasoning travels with
//!    the conversation.
//! 3. `strict` is written where it could be left out: this protocol's default is the other one.

use std::collections::HashSet;

use super::super::flags::{Flag, TargetFlags};
use super::super::neutral::{
    Call, Choice, Format, Input, Message, Options, Part, Place, Reasoning, Request, Role, Tool, ToolResult,
};
use super::super::openai_chat::{WRAPPED_SCHEMA, arguments};
use super::super::options::custom_names;
use super::super::{Target, ids, media, out};
use crate::encode::continuation;
use crate::event::{ContinuationForm, Protocol};

const RESPONSES: Protocol = Protocol::OpenaiResponses;

pub(in super::super) fn write(request: &Request<'_>, target: &Target<'_>, o: &mut Vec<u8>) {
    let flags = target.flags;
    let thinks = flags.has(Flag::Reasons)
        || request.options.effort.is_some()
        || request.messages.iter().any(|m| m.parts.iter().any(is_kept));
    o.push(b'{');
    out::plain(o, "model", target.model);
    options(&request.options, flags, o);
    if flags.has(Flag::Extras) {
        out::flag(o, "store", request.options.store.unwrap_or(false));
    }
    if thinks && flags.has(Flag::EncryptedReasoning) {
        out::raw(o, "include", b"[\"reasoning.encrypted_content\"]");
    }
    if !request.tools.is_empty() {
        out::key(o, "tools");
        o.push(b'[');
        for tool in &request.tools {
            write_tool(tool, flags, o);
        }
        o.push(b']');
        choice(&request.options, &request.tools, flags, o);
        if let Some(parallel) = request.options.parallel {
            out::flag(o, "parallel_tool_calls", parallel);
        }
    }
    out::key(o, "input");
    o.push(b'[');
    // Ids of custom calls: their results are items of another type.
    let mut custom: HashSet<String> = HashSet::new();
    for message in &request.messages {
        match message.role {
            Role::Developer if flags.has(Flag::Developer) => said("developer", message, flags, o),
            Role::System | Role::Developer => said("system", message, flags, o),
            Role::User => said("user", message, flags, o),
            Role::Assistant => assistant(message, flags, &mut custom, o),
            Role::Tool => {
                for part in &message.parts {
                    if let Part::Result(result) = part {
                        write_result(result, flags, &custom, o);
                    }
                }
            }
        }
    }
    o.extend_from_slice(b"]}");
}

fn is_kept(part: &Part<'_>) -> bool {
    matches!(part, Part::Reasoning(r) if r.kept.is_some())
}

fn options(options: &Options<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    if options.stream {
        out::flag(o, "stream", true);
    }
    if let Some(most) = options.max_tokens {
        out::raw(o, "max_output_tokens", most);
    }
    for (name, raw) in &options.passed {
        out::raw(o, name, raw);
    }
    let effort = options.effort.as_ref().filter(|_| flags.has(Flag::Effort));
    if effort.is_some() || options.summary.is_some() {
        out::raw(o, "reasoning", b"{");
        out::str_if(o, "effort", effort);
        out::str_if(o, "summary", options.summary.as_ref().map(|(summary, _)| summary));
        o.push(b'}');
    }
    if options.format.is_some() || options.verbosity.is_some() {
        out::raw(o, "text", b"{");
        match &options.format {
            Some(Format::JsonObject) => out::raw(o, "format", b"{\"type\":\"json_object\"}"),
            Some(Format::Schema { name, description, schema, strict }) => {
                out::raw(o, "format", b"{\"type\":\"json_schema\"");
                match name {
                    Some(name) => out::str(o, "name", name),
                    None => out::plain(o, "name", "answer"),
                }
                out::str_if(o, "description", description.as_ref());
                if let Some(strict) = strict {
                    out::flag(o, "strict", *strict);
                }
                out::raw(o, "schema", schema);
                o.push(b'}');
            }
            None => {}
        }
        out::str_if(o, "verbosity", options.verbosity.as_ref());
        o.push(b'}');
    }
    if let Some(user) = &options.user {
        out::str(o, if flags.has(Flag::Extras) { "safety_identifier" } else { "user" }, user);
    }
}

fn write_tool(tool: &Tool<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    let custom = tool.custom && flags.has(Flag::CustomTools);
    o.push(b'{');
    out::plain(o, "type", if custom { "custom" } else { "function" });
    out::plain(o, "name", &ids::tool_name(&tool.name.decode(), RESPONSES));
    out::str_if(o, "description", tool.description.as_ref());
    if custom {
        if let Some(grammar) = &tool.grammar {
            out::raw(o, "format", b"{\"type\":\"grammar\"");
            out::str(o, "syntax", &grammar.syntax);
            out::str(o, "definition", &grammar.definition);
            o.push(b'}');
        }
    } else {
        match tool.schema {
            _ if tool.custom => out::raw(o, "parameters", WRAPPED_SCHEMA),
            Some(schema) => out::raw(o, "parameters", schema),
            None => out::raw(o, "parameters", b"{\"type\":\"object\",\"properties\":{}}"),
        }
        if flags.has(Flag::Strict) {
            out::flag(o, "strict", tool.strict.unwrap_or(false));
        }
    }
    o.push(b'}');
    out::splice(o, start, tool.extra);
}

fn choice(options: &Options<'_>, tools: &[Tool<'_>], flags: TargetFlags, o: &mut Vec<u8>) {
    let Some(choice) = &options.choice else { return };
    if let Some(allowed) = &options.allowed {
        out::raw(o, "tool_choice", b"{\"type\":\"allowed_tools\"");
        out::plain(o, "mode", if matches!(choice, Choice::Required) { "required" } else { "auto" });
        out::key(o, "tools");
        o.push(b'[');
        let custom = custom_names(tools, flags);
        for name in allowed {
            let name = name.decode();
            out::comma(o);
            named(&name, custom.contains(&name), o);
        }
        o.extend_from_slice(b"]}");
        return;
    }
    out::key(o, "tool_choice");
    match choice {
        Choice::Auto => o.extend_from_slice(b"\"auto\""),
        Choice::None => o.extend_from_slice(b"\"none\""),
        Choice::Required => o.extend_from_slice(b"\"required\""),
        Choice::Named { name, custom } => named(&name.decode(), *custom && flags.has(Flag::CustomTools), o),
    }
}

fn named(name: &str, custom: bool, o: &mut Vec<u8>) {
    o.push(b'{');
    out::plain(o, "type", if custom { "custom" } else { "function" });
    out::plain(o, "name", &ids::tool_name(name, RESPONSES));
    o.push(b'}');
}

fn said(role: &str, message: &Message<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.extend_from_slice(b"{\"type\":\"message\"");
    out::plain(o, "role", role);
    out::key(o, "content");
    content(&message.parts, flags, o);
    o.push(b'}');
    out::splice(o, start, message.extra);
}

fn item(o: &mut Vec<u8>, kind: &str) {
    out::comma(o);
    open(o, kind);
}

fn open(o: &mut Vec<u8>, kind: &str) {
    o.push(b'{');
    out::plain(o, "type", kind);
}

/// One text is a string; anything else is a list of input parts.
fn content(parts: &[Part<'_>], flags: TargetFlags, o: &mut Vec<u8>) {
    match parts {
        [] => o.extend_from_slice(b"\"\""),
        [Part::Text(text, None) | Part::Refusal(text)] => text.push(o),
        parts => {
            o.push(b'[');
            for part in parts {
                write_part(part, flags, o);
            }
            o.push(b']');
        }
    }
}

fn write_part(part: &Part<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    let mark = match part {
        Part::Text(text, mark) => {
            item(o, "input_text");
            out::str(o, "text", text);
            *mark
        }
        Part::Refusal(text) => {
            item(o, "input_text");
            out::str(o, "text", text);
            None
        }
        Part::Image { from, detail, mark } => {
            item(o, "input_image");
            match from {
                Place::Id(id) => out::str(o, "file_id", id),
                from => {
                    out::key(o, "image_url");
                    media::push_url(from, o);
                }
            }
            match detail {
                Some(detail) => out::str(o, "detail", detail),
                None => out::plain(o, "detail", "auto"),
            }
            *mark
        }
        Part::File { from, name, mark } => {
            item(o, "input_file");
            match from {
                Place::Id(id) => out::str(o, "file_id", id),
                Place::Url(url) => out::str(o, "file_url", url),
                from @ Place::Base64 { .. } => {
                    match name {
                        Some(name) => out::str(o, "filename", name),
                        None => out::plain(o, "filename", "document.pdf"),
                    }
                    out::key(o, "file_data");
                    media::push_url(from, o);
                }
            }
            *mark
        }
        Part::Raw(raw) => {
            out::comma(o);
            o.extend_from_slice(raw);
            return;
        }
        Part::With(part, extra) => {
            out::comma(o);
            let start = o.len();
            write_part(part, flags, o);
            out::splice(o, start, Some(extra));
            return;
        }
        Part::Audio { .. } | Part::Reasoning(_) | Part::Call(_) | Part::Result(_) => return,
    };
    if let Some(mark) = mark.filter(|_| flags.has(Flag::Extras)) {
        out::raw(o, "prompt_cache_breakpoint", mark.raw);
    }
    o.push(b'}');
}

/// The assistant's parts in their order, texts that follow one another as one.
fn assistant(message: &Message<'_>, flags: TargetFlags, custom: &mut HashSet<String>, o: &mut Vec<u8>) {
    let mut in_text = false;
    // Who makes the next call.
    let mut by = None;
    for part in &message.parts {
        if let Part::Text(text, _) | Part::Refusal(text) = part {
            if !in_text {
                item(o, "message");
                out::plain(o, "role", "assistant");
                out::key(o, "content");
                o.push(b'"');
            }
            in_text = true;
            text.push_inside(o);
            continue;
        }
        if std::mem::take(&mut in_text) {
            o.extend_from_slice(b"\"}");
        }
        match part {
            Part::Call(call) => write_call(call, by.take(), flags, custom, o),
            Part::Reasoning(reasoning) => {
                by = reasoning.kept.as_ref().and_then(|kept| continuation::caller(&kept.data)).or(by);
                write_reasoning(reasoning, o);
            }
            Part::Raw(raw) => {
                out::comma(o);
                o.extend_from_slice(raw);
            }
            _ => {}
        }
    }
    if in_text {
        o.extend_from_slice(b"\"}");
    }
}

fn write_reasoning(reasoning: &Reasoning<'_>, o: &mut Vec<u8>) {
    let Some(kept) = reasoning.kept.as_ref().filter(|k| k.form == ContinuationForm::Encrypted) else { return };
    item(o, "reasoning");
    out::plain(o, "id", &ids::item_id("rs", &kept.data));
    out::key(o, "summary");
    o.push(b'[');
    for text in &reasoning.texts {
        item(o, "summary_text");
        out::str(o, "text", text);
        o.push(b'}');
    }
    o.push(b']');
    out::plain(o, "encrypted_content", &kept.data);
    o.push(b'}');
}

fn write_call(call: &Call<'_>, by: Option<&str>, flags: TargetFlags, custom: &mut HashSet<String>, o: &mut Vec<u8>) {
    let is_custom = call.custom && flags.has(Flag::CustomTools);
    out::comma(o);
    let start = o.len();
    open(o, if is_custom { "custom_tool_call" } else { "function_call" });
    out::plain(o, "call_id", &ids::call_id(&call.id, RESPONSES));
    out::plain(o, "name", &ids::tool_name(&call.name.decode(), RESPONSES));
    if is_custom {
        custom.insert(call.id.decode().into_owned());
        out::key(o, "input");
        match &call.input {
            Input::Text(text) => text.push(o),
            Input::Object(_) | Input::Made(_) => o.extend_from_slice(b"\"\""),
        }
    } else {
        out::key(o, "arguments");
        arguments(call, o);
    }
    if let Some(by) = by {
        out::raw(o, "caller", by.as_bytes());
    }
    o.push(b'}');
    out::splice(o, start, call.extra);
}

fn write_result(result: &ToolResult<'_>, flags: TargetFlags, custom: &HashSet<String>, o: &mut Vec<u8>) {
    let is_custom = !custom.is_empty() && custom.contains(&*result.id.decode());
    out::comma(o);
    let start = o.len();
    open(o, if is_custom { "custom_tool_call_output" } else { "function_call_output" });
    out::plain(o, "call_id", &ids::call_id(&result.id, RESPONSES));
    out::key(o, "output");
    content(&result.parts, flags, o);
    o.push(b'}');
    out::splice(o, start, result.extra);
}
