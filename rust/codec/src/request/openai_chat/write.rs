//! A neutral request becomes a Chat Completions body.
//!
//! 1. The messages come last and each is complete in itself, so a conversation that grows keeps its bytes.
//! 2. `tool` messages stand directly behind the turn that called. They hold text only: a picture goes into a message
//!    of the user's behind them.

use super::super::flags::{Flag, TargetFlags};
use super::super::neutral::{
    Call, Choice, Format, Input, Kept, Message, Options, Part, Place, Reasoning, Request, Role, Str, Thinking, Tool,
};
use super::super::options::custom_names;
use super::super::{Target, ids, media, out, pairing};
use std::borrow::Cow;

use crate::event::{ContinuationForm, Protocol};
use crate::json::{Scanner, Value};
use crate::text::push_json_str;

const CHAT: Protocol = Protocol::OpenaiChat;

pub(in super::super) fn write(request: Request<'_>, target: &Target<'_>, o: &mut Vec<u8>) {
    let flags = target.flags;
    o.push(b'{');
    out::plain(o, "model", target.model);
    options(&request.options, flags, o);
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
    out::key(o, "messages");
    o.push(b'[');
    let mut pictures: Vec<Part<'_>> = Vec::new();
    for message in pairing::turns(request.messages) {
        if message.role != Role::Tool {
            flush(&mut pictures, flags, o);
        }
        match message.role {
            Role::Developer if flags.has(Flag::Developer) => said("developer", &message, flags, o),
            Role::System | Role::Developer => said("system", &message, flags, o),
            Role::User => said("user", &message, flags, o),
            Role::Assistant => assistant(&message, flags, o),
            Role::Tool => result(message, flags, &mut pictures, o),
        }
    }
    flush(&mut pictures, flags, o);
    o.extend_from_slice(b"]}");
}

fn options(options: &Options<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    if options.stream {
        out::flag(o, "stream", true);
        if flags.has(Flag::StreamOptions) {
            out::raw(o, "stream_options", b"{\"include_usage\":true}");
        }
    }
    if let Some(most) = options.max_tokens {
        let name = if flags.has(Flag::MaxCompletionTokens) { "max_completion_tokens" } else { "max_tokens" };
        out::raw(o, name, most);
    }
    for (name, raw) in &options.passed {
        let name = if *name == "seed" && flags.has(Flag::RandomSeed) { "random_seed" } else { *name };
        out::raw(o, name, raw);
    }
    if !options.stop.is_empty() {
        out::key(o, "stop");
        strings(&options.stop, o);
    }
    reasons(options, flags, o);
    match &options.format {
        Some(Format::JsonObject) => out::raw(o, "response_format", b"{\"type\":\"json_object\"}"),
        Some(Format::Schema { name, description, schema, strict }) => {
            out::raw(o, "response_format", b"{\"type\":\"json_schema\",\"json_schema\":{");
            match name {
                Some(name) => out::str(o, "name", name),
                None => out::plain(o, "name", "answer"),
            }
            out::str_if(o, "description", description.as_ref());
            if let Some(strict) = strict {
                out::flag(o, "strict", *strict);
            }
            out::raw(o, "schema", schema);
            o.extend_from_slice(b"}}");
        }
        None => {}
    }
    out::str_if(o, "verbosity", options.verbosity.as_ref());
    if let Some(store) = options.store {
        out::flag(o, "store", store);
    }
    if let Some(user) = &options.user {
        if flags.has(Flag::Extras) {
            out::str(o, "safety_identifier", user);
        } else if flags.has(Flag::User) {
            out::str(o, "user", user);
        }
    }
}

/// How much is to be thought.
fn reasons(options: &Options<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    let effort = options.effort.as_ref().filter(|_| flags.has(Flag::Effort));
    if flags.has(Flag::ReasoningObject) {
        match (&options.thinking, effort) {
            (Some(Thinking::Budget(tokens)), _) => {
                out::raw(o, "reasoning", format!("{{\"max_tokens\":{tokens}}}").as_bytes());
            }
            (_, Some(effort)) => {
                out::raw(o, "reasoning", b"{\"effort\":");
                effort.push(o);
                o.push(b'}');
            }
            _ => {}
        }
    } else if let Some(effort) = effort {
        out::str(o, "reasoning_effort", effort);
    }
}

/// A call's id as this target takes it.
fn call_id<'a>(id: &'a Str<'_>, flags: TargetFlags) -> Cow<'a, str> {
    if flags.has(Flag::ShortIds) { ids::short_call_id(id) } else { ids::call_id(id, CHAT) }
}

pub(in super::super) fn strings(these: &[Str<'_>], o: &mut Vec<u8>) {
    o.push(b'[');
    for one in these {
        out::comma(o);
        one.push(o);
    }
    o.push(b']');
}

fn write_tool(tool: &Tool<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    out::comma(o);
    let start;
    if tool.custom && flags.has(Flag::CustomTools) {
        o.extend_from_slice(b"{\"type\":\"custom\",\"custom\":");
        start = o.len();
        o.push(b'{');
        out::plain(o, "name", &ids::tool_name(&tool.name.decode(), CHAT));
        out::str_if(o, "description", tool.description.as_ref());
        if let Some(grammar) = &tool.grammar {
            out::raw(o, "format", b"{\"type\":\"grammar\",\"grammar\":{");
            out::str(o, "syntax", &grammar.syntax);
            out::str(o, "definition", &grammar.definition);
            o.extend_from_slice(b"}}");
        }
    } else {
        o.extend_from_slice(b"{\"type\":\"function\",\"function\":");
        start = o.len();
        o.push(b'{');
        out::plain(o, "name", &ids::tool_name(&tool.name.decode(), CHAT));
        out::str_if(o, "description", tool.description.as_ref());
        match tool.schema {
            _ if tool.custom => out::raw(o, "parameters", WRAPPED_SCHEMA),
            Some(schema) => out::raw(o, "parameters", schema),
            None => {}
        }
        if let Some(strict) = tool.strict.filter(|_| flags.has(Flag::Strict)) {
            out::flag(o, "strict", strict);
        }
    }
    o.extend_from_slice(b"}");
    out::splice(o, start, tool.extra);
    o.push(b'}');
}

/// The arguments of a custom tool where it has to be a function.
pub(in super::super) const WRAPPED_SCHEMA: &[u8] =
    br#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;

fn choice(options: &Options<'_>, tools: &[Tool<'_>], flags: TargetFlags, o: &mut Vec<u8>) {
    let Some(choice) = &options.choice else { return };
    if let Some(allowed) = &options.allowed {
        out::raw(o, "tool_choice", b"{\"type\":\"allowed_tools\",\"allowed_tools\":{");
        out::plain(o, "mode", if matches!(choice, Choice::Required) { "required" } else { "auto" });
        out::key(o, "tools");
        o.push(b'[');
        let custom = custom_names(tools, flags);
        for name in allowed {
            let name = name.decode();
            out::comma(o);
            named(&name, custom.contains(&name), o);
        }
        o.extend_from_slice(b"]}}");
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
    let kind = if custom { "custom" } else { "function" };
    o.push(b'{');
    out::plain(o, "type", kind);
    out::key(o, kind);
    o.push(b'{');
    out::plain(o, "name", &ids::tool_name(name, CHAT));
    o.extend_from_slice(b"}}");
}

fn said(role: &str, message: &Message<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.push(b'{');
    out::plain(o, "role", role);
    out::key(o, "content");
    content(&message.parts, flags, o);
    o.push(b'}');
    out::splice(o, start, message.extra);
}

/// One text is a string, which every server takes; anything else is a list.
fn content(parts: &[Part<'_>], flags: TargetFlags, o: &mut Vec<u8>) {
    match parts {
        [] => o.extend_from_slice(b"\"\""),
        [Part::Text(text, None)] => text.push(o),
        parts if !flags.has(Flag::ContentLists) && parts.iter().all(|p| text_of(p).is_some()) => joined(parts, o),
        parts => {
            o.push(b'[');
            for part in parts {
                write_part(part, flags, o);
            }
            o.push(b']');
        }
    }
}

pub(in super::super) fn text_of<'p>(part: &'p Part<'_>) -> Option<&'p Str<'p>> {
    if let Part::Text(text, _) | Part::Refusal(text) = part { Some(text) } else { None }
}

/// Texts as one string, a blank line between them.
pub(in super::super) fn joined(parts: &[Part<'_>], o: &mut Vec<u8>) {
    o.push(b'"');
    for (i, text) in parts.iter().filter_map(text_of).enumerate() {
        if i > 0 {
            o.extend_from_slice(b"\\n\\n");
        }
        text.push_inside(o);
    }
    o.push(b'"');
}

fn write_part(part: &Part<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    let mark = match part {
        Part::Text(text, mark) => {
            open(o, "text");
            out::str(o, "text", text);
            *mark
        }
        Part::Image { from, detail, mark } => {
            open(o, "image_url");
            out::raw(o, "image_url", b"{\"url\":");
            media::push_url(from, o);
            out::str_if(o, "detail", detail.as_ref());
            o.push(b'}');
            *mark
        }
        Part::Audio { data, format } => {
            open(o, "input_audio");
            out::raw(o, "input_audio", b"{\"data\":");
            data.push(o);
            out::str(o, "format", format);
            o.push(b'}');
            None
        }
        Part::File { from, name, mark } => {
            open(o, "file");
            out::raw(o, "file", b"{");
            match from {
                Place::Id(id) => out::str(o, "file_id", id),
                from => {
                    out::key(o, "file_data");
                    media::push_url(from, o);
                    match name {
                        Some(name) => out::str(o, "filename", name),
                        None => out::plain(o, "filename", "document.pdf"),
                    }
                }
            }
            o.push(b'}');
            *mark
        }
        Part::Refusal(text) => {
            open(o, "text");
            out::str(o, "text", text);
            None
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
        Part::Reasoning(_) | Part::Call(_) | Part::Result(_) => return,
    };
    if let Some(mark) = mark.filter(|_| flags.has(Flag::Extras)) {
        out::raw(o, "prompt_cache_breakpoint", mark.raw);
    }
    o.push(b'}');
}

fn open(o: &mut Vec<u8>, kind: &str) {
    out::comma(o);
    o.push(b'{');
    out::plain(o, "type", kind);
}

fn assistant(message: &Message<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    let texts: Vec<&Str<'_>> =
        message.parts.iter().filter_map(|p| if let Part::Text(t, _) = p { Some(t) } else { None }).collect();
    let refusal = message.parts.iter().find_map(|p| if let Part::Refusal(t) = p { Some(t) } else { None });
    let has_calls = message.calls().next().is_some();
    if texts.is_empty() && refusal.is_none() && !has_calls && message.extra.is_none() {
        return;
    }
    out::comma(o);
    let start = o.len();
    o.extend_from_slice(b"{\"role\":\"assistant\"");
    let thoughts = message.parts.iter().filter_map(|p| if let Part::Reasoning(r) = p { Some(r) } else { None });
    // What cannot be read here says nothing.
    let readable = |r: &&Reasoning<'_>| r.texts.iter().any(|t| !t.is_empty()) || signature(r).is_some();
    let thoughts: Vec<&Reasoning<'_>> = thoughts.filter(|_| flags.has(Flag::ThinkingParts)).filter(readable).collect();
    // Texts of one turn are one text: a list of them is refused by many servers.
    if !thoughts.is_empty() {
        out::raw(o, "content", b"[");
        for thought in thoughts {
            thinking_part(thought, o);
        }
        for text in texts {
            open(o, "text");
            out::str(o, "text", text);
            o.push(b'}');
        }
        o.push(b']');
    } else if texts.is_empty() {
        out::raw(o, "content", b"null");
    } else {
        out::key(o, "content");
        o.push(b'"');
        for text in texts {
            text.push_inside(o);
        }
        o.push(b'"');
    }
    out::str_if(o, "refusal", refusal);
    reasoning(message, flags, o);
    if has_calls {
        out::key(o, "tool_calls");
        o.push(b'[');
        for call in message.calls() {
            out::comma(o);
            let start = o.len();
            write_call(call, flags, o);
            out::splice(o, start, call.extra);
        }
        o.push(b']');
    }
    o.push(b'}');
    out::splice(o, start, message.extra);
}

/// What was thought, as a part of the content.
fn thinking_part(thought: &Reasoning<'_>, o: &mut Vec<u8>) {
    open(o, "thinking");
    out::raw(o, "thinking", b"[");
    for text in &thought.texts {
        open(o, "text");
        out::str(o, "text", text);
        o.push(b'}');
    }
    o.push(b']');
    if let Some(kept) = signature(thought) {
        out::plain(o, "signature", &kept.data);
    }
    o.push(b'}');
}

fn signature<'r>(thought: &'r Reasoning<'_>) -> Option<&'r Kept> {
    thought.kept.as_ref().filter(|kept| kept.form == ContinuationForm::Signature)
}

fn reasoning(message: &Message<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    let all = || message.parts.iter().filter_map(|p| if let Part::Reasoning(r) = p { Some(r) } else { None });
    let details: Vec<&str> = all()
        .filter_map(|r| r.kept.as_ref())
        .filter(|k| k.form == ContinuationForm::Details)
        .map(|k| k.data.as_str())
        .collect();
    if !details.is_empty() {
        let start = o.len();
        out::raw(o, "reasoning_details", b"[");
        let empty = o.len();
        for data in details {
            splice(data, o);
        }
        if o.len() == empty {
            o.truncate(start);
        } else {
            o.push(b']');
        }
    }
    let name = if flags.has(Flag::EchoReasoningContent) {
        "reasoning_content"
    } else if flags.has(Flag::EchoReasoning) {
        "reasoning"
    } else {
        return;
    };
    let texts: Vec<&Str<'_>> = all().flat_map(|r| &r.texts).collect();
    // A turn with calls has the field even where it is empty: a vendor that asks for it asks always.
    if texts.is_empty() && message.calls().next().is_none() {
        return;
    }
    out::key(o, name);
    o.push(b'"');
    for (i, text) in texts.iter().enumerate() {
        if i > 0 {
            o.extend_from_slice(b"\\n\\n");
        }
        text.push_inside(o);
    }
    o.push(b'"');
}

/// Appends the items of `data`, a list or one item, if it is JSON.
fn splice(data: &str, o: &mut Vec<u8>) {
    match Scanner::only(data.as_bytes()) {
        Ok(Value::Array(raw)) => {
            let inside = raw[1..raw.len() - 1].trim_ascii();
            if !inside.is_empty() {
                out::comma(o);
                o.extend_from_slice(inside);
            }
        }
        Ok(Value::Object(raw)) => {
            out::comma(o);
            o.extend_from_slice(raw);
        }
        _ => {}
    }
}

fn write_call(call: &Call<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    o.push(b'{');
    out::plain(o, "id", &call_id(&call.id, flags));
    let name = call.name.decode();
    let name = ids::tool_name(&name, CHAT);
    if call.custom && flags.has(Flag::CustomTools) {
        out::raw(o, "type", b"\"custom\",\"custom\":{");
        out::plain(o, "name", &name);
        out::key(o, "input");
        if let Input::Text(text) = &call.input {
            text.push(o);
        } else {
            o.extend_from_slice(b"\"\"");
        }
    } else {
        out::raw(o, "type", b"\"function\",\"function\":{");
        out::plain(o, "name", &name);
        out::key(o, "arguments");
        arguments(call, o);
    }
    o.extend_from_slice(b"}}");
}

/// Appends a call's arguments as a JSON string that holds a JSON object.
pub(in super::super) fn arguments(call: &Call<'_>, o: &mut Vec<u8>) {
    match &call.input {
        Input::Object(raw) => push_json_str(&String::from_utf8_lossy(raw), o),
        Input::Made(json) => push_json_str(json, o),
        Input::Text(text) if call.custom => {
            let mut wrapped = Vec::with_capacity(32);
            wrapped.extend_from_slice(b"{\"input\":");
            text.push(&mut wrapped);
            wrapped.push(b'}');
            push_json_str(&String::from_utf8_lossy(&wrapped), o);
        }
        Input::Text(text) if text.is_empty() => o.extend_from_slice(b"\"{}\""),
        Input::Text(text) => text.push(o),
    }
}

fn result<'a>(message: Message<'a>, flags: TargetFlags, pictures: &mut Vec<Part<'a>>, o: &mut Vec<u8>) {
    for part in message.parts {
        let Part::Result(result) = part else { continue };
        let (texts, others): (Vec<_>, Vec<_>) =
            result.parts.into_iter().partition(|p| matches!(p, Part::Text(..) | Part::Refusal(_)));
        out::comma(o);
        o.extend_from_slice(b"{\"role\":\"tool\"");
        out::plain(o, "tool_call_id", &call_id(&result.id, flags));
        out::key(o, "content");
        match texts.as_slice() {
            [] if others.is_empty() => o.extend_from_slice(b"\"\""),
            // Some servers refuse an empty result.
            [] => o.extend_from_slice(b"\"(see the next message)\""),
            texts => content(texts, flags, o),
        }
        o.push(b'}');
        pictures.extend(others);
    }
}

/// Writes what results held besides text, once the last of them is out.
fn flush(pictures: &mut Vec<Part<'_>>, flags: TargetFlags, o: &mut Vec<u8>) {
    if pictures.is_empty() {
        return;
    }
    let message = Message::new(Role::User, std::mem::take(pictures));
    said("user", &message, flags, o);
}
