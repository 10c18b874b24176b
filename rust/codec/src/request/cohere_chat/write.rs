//! A neutral request becomes a body of Cohere's chat.
//!
//! 1. The messages come last and each is complete in itself, so a conversation that grows keeps its bytes.
//! 2. Results hold text only: a picture goes into a message of the user's behind them.
//! 3. What the model thought before calls goes back as its plan; to a model that reasons (`effort`) as thinking.

use super::super::flags::{Flag, TargetFlags};
use super::super::neutral::{Call, Choice, Format, Message, Options, Part, Request, Role, Str, Thinking, Tool};
use super::super::openai_chat::{WRAPPED_SCHEMA, arguments, joined, strings, text_of};
use super::super::options::budget;
use super::super::{Target, ids, media, out, pairing};
use crate::event::Protocol;

const COHERE: Protocol = Protocol::CohereChat;

pub(in super::super) fn write(request: Request<'_>, target: &Target<'_>, o: &mut Vec<u8>) {
    let flags = target.flags;
    o.push(b'{');
    out::plain(o, "model", target.model);
    out::flag(o, "stream", request.options.stream);
    options(&request.options, o);
    if !request.tools.is_empty() {
        out::key(o, "tools");
        o.push(b'[');
        for tool in &request.tools {
            write_tool(tool, o);
        }
        o.push(b']');
        if request.tools.iter().any(|tool| tool.strict == Some(true)) {
            out::flag(o, "strict_tools", true);
        }
        match request.options.choice {
            Some(Choice::Required | Choice::Named { .. }) => out::plain(o, "tool_choice", "REQUIRED"),
            Some(Choice::None) => out::plain(o, "tool_choice", "NONE"),
            Some(Choice::Auto) | None => {}
        }
    }
    out::key(o, "messages");
    o.push(b'[');
    let mut pictures: Vec<Part<'_>> = Vec::new();
    for message in pairing::turns(request.messages) {
        if message.role != Role::Tool {
            flush(&mut pictures, o);
        }
        match message.role {
            Role::System | Role::Developer => said("system", &message, o),
            Role::User => said("user", &message, o),
            Role::Assistant => assistant(&message, flags, o),
            Role::Tool => result(message, &mut pictures, o),
        }
    }
    flush(&mut pictures, o);
    o.extend_from_slice(b"]}");
}

fn options(options: &Options<'_>, o: &mut Vec<u8>) {
    if let Some(most) = options.max_tokens {
        out::raw(o, "max_tokens", most);
    }
    for (name, raw) in &options.passed {
        out::raw(o, name, raw);
    }
    if !options.stop.is_empty() {
        out::key(o, "stop_sequences");
        strings(&options.stop, o);
    }
    match &options.format {
        Some(Format::JsonObject) => out::raw(o, "response_format", b"{\"type\":\"json_object\"}"),
        Some(Format::Schema { schema, .. }) => {
            out::raw(o, "response_format", b"{\"type\":\"json_object\"");
            out::raw(o, "json_schema", schema);
            o.push(b'}');
        }
        None => {}
    }
    let tokens = match (&options.effort, &options.thinking) {
        (Some(effort), _) if effort.decode() == "none" => {
            return out::raw(o, "thinking", b"{\"type\":\"disabled\"}");
        }
        (Some(effort), _) => budget(&effort.decode()),
        (None, Some(Thinking::Budget(tokens))) => *tokens,
        (None, _) => return,
    };
    out::raw(o, "thinking", format!("{{\"type\":\"enabled\",\"token_budget\":{tokens}}}").as_bytes());
}

fn write_tool(tool: &Tool<'_>, o: &mut Vec<u8>) {
    out::comma(o);
    o.extend_from_slice(b"{\"type\":\"function\",\"function\":");
    let start = o.len();
    o.push(b'{');
    out::plain(o, "name", &ids::tool_name(&tool.name.decode(), COHERE));
    out::str_if(o, "description", tool.description.as_ref());
    let schema = if tool.custom { WRAPPED_SCHEMA } else { tool.schema.unwrap_or(b"{\"type\":\"object\"}") };
    out::raw(o, "parameters", schema);
    o.push(b'}');
    out::splice(o, start, tool.extra);
    o.push(b'}');
}

fn said(role: &str, message: &Message<'_>, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.push(b'{');
    out::plain(o, "role", role);
    out::key(o, "content");
    content(&message.parts, o);
    o.push(b'}');
    out::splice(o, start, message.extra);
}

/// One text is a string; anything else is a list.
fn content(parts: &[Part<'_>], o: &mut Vec<u8>) {
    match parts {
        [] => o.extend_from_slice(b"\"\""),
        [Part::Text(text, _)] => text.push(o),
        parts if parts.iter().all(|p| text_of(p).is_some()) => joined(parts, o),
        parts => {
            o.push(b'[');
            for part in parts {
                write_part(part, o);
            }
            o.push(b']');
        }
    }
}

fn write_part(part: &Part<'_>, o: &mut Vec<u8>) {
    match part {
        Part::Text(text, _) | Part::Refusal(text) => typed(o, "text", text),
        Part::Image { from, detail, .. } => {
            out::comma(o);
            o.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
            media::push_url(from, o);
            out::str_if(o, "detail", detail.as_ref());
            o.extend_from_slice(b"}}");
        }
        Part::With(part, extra) => {
            out::comma(o);
            let start = o.len();
            write_part(part, o);
            out::splice(o, start, Some(extra));
        }
        Part::Raw(raw) => {
            out::comma(o);
            o.extend_from_slice(raw);
        }
        // The tables refuse these, or they stand in a message's other members.
        Part::Audio { .. } | Part::File { .. } | Part::Reasoning(_) | Part::Call(_) | Part::Result(_) => {}
    }
}

/// Appends a part whose text stands under its type.
fn typed(o: &mut Vec<u8>, kind: &str, text: &Str<'_>) {
    out::comma(o);
    o.push(b'{');
    out::plain(o, "type", kind);
    out::str(o, kind, text);
    o.push(b'}');
}

fn assistant(message: &Message<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    let thoughts: Vec<&Str<'_>> = message.parts.iter().flat_map(thoughts_of).filter(|t| !t.is_empty()).collect();
    let texts: Vec<&Str<'_>> = message.parts.iter().filter_map(text_of).filter(|t| !t.is_empty()).collect();
    let has_calls = message.calls().next().is_some();
    if texts.is_empty() && !has_calls && message.extra.is_none() {
        return;
    }
    let as_plan = has_calls && !flags.has(Flag::Effort);
    out::comma(o);
    let start = o.len();
    o.extend_from_slice(b"{\"role\":\"assistant\"");
    if as_plan && !thoughts.is_empty() {
        out::key(o, "tool_plan");
        o.push(b'"');
        for text in &thoughts {
            text.push_inside(o);
        }
        o.push(b'"');
    }
    let thinks = if as_plan { &[][..] } else { &thoughts[..] };
    if !thinks.is_empty() || !texts.is_empty() {
        out::raw(o, "content", b"[");
        for text in thinks {
            typed(o, "thinking", text);
        }
        for text in texts {
            typed(o, "text", text);
        }
        o.push(b']');
    }
    if has_calls {
        out::raw(o, "tool_calls", b"[");
        for call in message.calls() {
            write_call(call, o);
        }
        o.push(b']');
    }
    o.push(b'}');
    out::splice(o, start, message.extra);
}

fn thoughts_of<'p>(part: &'p Part<'_>) -> &'p [Str<'p>] {
    if let Part::Reasoning(reasoning) = part { &reasoning.texts } else { &[] }
}

fn write_call(call: &Call<'_>, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.push(b'{');
    out::plain(o, "id", &ids::call_id(&call.id, COHERE));
    out::raw(o, "type", b"\"function\",\"function\":{");
    out::plain(o, "name", &ids::tool_name(&call.name.decode(), COHERE));
    out::key(o, "arguments");
    arguments(call, o);
    o.extend_from_slice(b"}}");
    out::splice(o, start, call.extra);
}

fn result<'a>(message: Message<'a>, pictures: &mut Vec<Part<'a>>, o: &mut Vec<u8>) {
    for part in message.parts {
        let Part::Result(result) = part else { continue };
        let (texts, others): (Vec<_>, Vec<_>) = result.parts.into_iter().partition(|p| text_of(p).is_some());
        out::comma(o);
        o.extend_from_slice(b"{\"role\":\"tool\"");
        out::plain(o, "tool_call_id", &ids::call_id(&result.id, COHERE));
        out::key(o, "content");
        match texts.as_slice() {
            [] if !others.is_empty() => o.extend_from_slice(b"\"(see the next message)\""),
            texts => content(texts, o),
        }
        o.push(b'}');
        pictures.extend(others);
    }
}

/// Writes what results held besides text, once the last of them is out.
fn flush(pictures: &mut Vec<Part<'_>>, o: &mut Vec<u8>) {
    if !pictures.is_empty() {
        said("user", &Message::new(Role::User, std::mem::take(pictures)), o);
    }
}
