//! A neutral request becomes a body of Ollama's own chat.
//!
//! 1. The messages come last and each is complete in itself, so a conversation that grows keeps its bytes.
//! 2. `stream` is always said: without it the server streams.
//! 3. A message's texts are one string and its pictures stand beside it, as bare base64; those of a result go into a message
//!    of the user's behind it. Results name their tool, since older servers pair by name.

use std::collections::HashMap;

use super::super::neutral::{Call, Choice, Format, Input, Message, Options, Part, Place, Request, Role, Str, Tool};
use super::super::openai_chat::{WRAPPED_SCHEMA, joined, strings, text_of};
use super::super::{Target, ids, out, pairing};
use crate::event::Protocol;

const OLLAMA: Protocol = Protocol::OllamaChat;

pub(in super::super) fn write(request: Request<'_>, target: &Target<'_>, o: &mut Vec<u8>) {
    o.push(b'{');
    out::plain(o, "model", target.model);
    out::flag(o, "stream", request.options.stream);
    options(&request.options, o);
    // A model that must not call is told of no tool.
    if !request.tools.is_empty() && !matches!(request.options.choice, Some(Choice::None)) {
        out::raw(o, "tools", b"[");
        for tool in &request.tools {
            write_tool(tool, o);
        }
        o.push(b']');
    }
    out::raw(o, "messages", b"[");
    let messages = pairing::turns(request.messages);
    let names = names(&messages);
    let mut pictures: Vec<&Part<'_>> = Vec::new();
    for message in &messages {
        if message.role != Role::Tool {
            flush(&mut pictures, o);
        }
        match message.role {
            Role::System | Role::Developer => said("system", &message.parts.iter().collect::<Vec<_>>(), message, o),
            Role::User => said("user", &message.parts.iter().collect::<Vec<_>>(), message, o),
            Role::Assistant => assistant(message, o),
            Role::Tool => result(message, &names, &mut pictures, o),
        }
    }
    flush(&mut pictures, o);
    o.extend_from_slice(b"]}");
}

/// Calls' ids and the names of their tools.
fn names(messages: &[Message<'_>]) -> HashMap<String, String> {
    let calls = messages.iter().flat_map(Message::calls);
    let named = calls.map(|call| (call.id.decode().into_owned(), ids::tool_name(&call.name.decode(), OLLAMA).into()));
    named.collect()
}

fn options(options: &Options<'_>, o: &mut Vec<u8>) {
    let inner = options.passed.iter().filter_map(|(name, raw)| Some((name.strip_prefix("options.")?, *raw)));
    let limit = options.max_tokens.map(|most| ("num_predict", most));
    let inner: Vec<(&str, &[u8])> = limit.into_iter().chain(inner).collect();
    if !inner.is_empty() || !options.stop.is_empty() {
        out::raw(o, "options", b"{");
        for (name, raw) in inner {
            out::raw(o, name, raw);
        }
        if !options.stop.is_empty() {
            out::key(o, "stop");
            strings(&options.stop, o);
        }
        o.push(b'}');
    }
    match &options.format {
        Some(Format::JsonObject) => out::plain(o, "format", "json"),
        Some(Format::Schema { schema, .. }) => out::raw(o, "format", schema),
        None => {}
    }
    if let Some(effort) = &options.effort {
        match &*effort.decode() {
            "none" => out::flag(o, "think", false),
            "minimal" | "low" => out::plain(o, "think", "low"),
            "medium" => out::plain(o, "think", "medium"),
            _ => out::plain(o, "think", "high"),
        }
    }
}

fn write_tool(tool: &Tool<'_>, o: &mut Vec<u8>) {
    out::comma(o);
    o.extend_from_slice(b"{\"type\":\"function\",\"function\":");
    let start = o.len();
    o.push(b'{');
    out::plain(o, "name", &ids::tool_name(&tool.name.decode(), OLLAMA));
    out::str_if(o, "description", tool.description.as_ref());
    let empty: &[u8] = b"{\"type\":\"object\",\"properties\":{}}";
    out::raw(o, "parameters", if tool.custom { WRAPPED_SCHEMA } else { tool.schema.unwrap_or(empty) });
    o.push(b'}');
    out::splice(o, start, tool.extra);
    o.push(b'}');
}

fn said(role: &str, parts: &[&Part<'_>], message: &Message<'_>, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.push(b'{');
    out::plain(o, "role", role);
    content(parts, o);
    o.push(b'}');
    out::splice(o, start, message.extra);
}

/// Appends the texts of parts and the pictures among them, as two members.
fn content(parts: &[&Part<'_>], o: &mut Vec<u8>) {
    let texts: Vec<Part<'_>> =
        parts.iter().filter_map(|p| text_of(bare(p))).map(|t| Part::Text(again(t), None)).collect();
    out::key(o, "content");
    joined(&texts, o);
    let pictures = parts.iter().filter_map(|part| match bare(part) {
        Part::Image { from: Place::Base64 { data, .. }, .. } => Some(data),
        _ => None,
    });
    let mut first = true;
    for data in pictures {
        if std::mem::take(&mut first) {
            out::raw(o, "images", b"[");
        }
        out::comma(o);
        data.push(o);
    }
    if !first {
        o.push(b']');
    }
}

/// The part itself, where it has members of its own besides: a text is a string and holds none.
fn bare<'p, 'a>(part: &'p Part<'a>) -> &'p Part<'a> {
    if let Part::With(part, _) = part { part } else { part }
}

/// The same text, borrowed.
fn again<'p>(text: &'p Str<'_>) -> Str<'p> {
    match text {
        Str::Lit(literal) => Str::Lit(*literal),
        Str::Own(text) => Str::Own(text.clone()),
    }
}

fn assistant(message: &Message<'_>, o: &mut Vec<u8>) {
    let thoughts = message.parts.iter().filter_map(|p| if let Part::Reasoning(r) = p { Some(r) } else { None });
    let thoughts: Vec<&Str<'_>> = thoughts.flat_map(|r| &r.texts).filter(|t| !t.is_empty()).collect();
    let has_text = message.parts.iter().filter_map(text_of).any(|t| !t.is_empty());
    let has_calls = message.calls().next().is_some();
    if !has_text && !has_calls && message.extra.is_none() {
        return;
    }
    out::comma(o);
    let start = o.len();
    o.extend_from_slice(b"{\"role\":\"assistant\"");
    out::key(o, "content");
    o.push(b'"');
    message.parts.iter().filter_map(text_of).for_each(|text| text.push_inside(o));
    o.push(b'"');
    if !thoughts.is_empty() {
        out::key(o, "thinking");
        o.push(b'"');
        for text in &thoughts {
            text.push_inside(o);
        }
        o.push(b'"');
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

fn write_call(call: &Call<'_>, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.push(b'{');
    out::plain(o, "id", &ids::call_id(&call.id, OLLAMA));
    out::raw(o, "function", b"{");
    out::plain(o, "name", &ids::tool_name(&call.name.decode(), OLLAMA));
    out::key(o, "arguments");
    match &call.input {
        Input::Object(raw) => o.extend_from_slice(raw),
        Input::Made(json) => o.extend_from_slice(json.as_bytes()),
        // A custom tool's input, or what a model has garbled.
        Input::Text(text) => {
            o.extend_from_slice(b"{\"input\":");
            text.push(o);
            o.push(b'}');
        }
    }
    o.extend_from_slice(b"}}");
    out::splice(o, start, call.extra);
}

fn result<'m, 'a>(
    message: &'m Message<'a>,
    names: &HashMap<String, String>,
    pictures: &mut Vec<&'m Part<'a>>,
    o: &mut Vec<u8>,
) {
    for part in &message.parts {
        let Part::Result(result) = part else { continue };
        let texts: Vec<&Part<'_>> = result.parts.iter().filter(|p| text_of(bare(p)).is_some()).collect();
        out::comma(o);
        o.extend_from_slice(b"{\"role\":\"tool\"");
        if let Some(name) = names.get(&*result.id.decode()) {
            out::plain(o, "tool_name", name);
        }
        out::plain(o, "tool_call_id", &ids::call_id(&result.id, OLLAMA));
        content(&texts, o);
        o.push(b'}');
        pictures.extend(result.parts.iter().filter(|p| text_of(bare(p)).is_none()));
    }
}

/// Writes what results held besides text, once the last of them is out.
fn flush(pictures: &mut Vec<&Part<'_>>, o: &mut Vec<u8>) {
    if !pictures.is_empty() {
        said("user", &std::mem::take(pictures), &Message::new(Role::User, Vec::new()), o);
    }
}
