//! A neutral request becomes a Gemini body.
//!
//! 1. The contents come last, and each turn, each turn's results and each thing that the user says is one content: so a
//!    conversation that grows keeps its bytes up to the bracket that closed them.
//! 2. The results of a turn stand in the order of its calls, with the name of each.
//! 3. A signature stands on the part that it came with: on the call that follows it, else on the text before it. Two parts of
//!    which one is signed are never joined.
//! 4. Empty texts are left out: the API refuses them, but for one that a signature stands on.

use std::collections::HashMap;

use super::super::flags::{Flag, TargetFlags};
use super::super::neutral::{
    Call, Choice, Format, Input, Kept, Message, Options, Part, Place, Request, Role, Str, Thinking, Tool, ToolResult,
};
use super::super::openai_chat::{WRAPPED_SCHEMA, strings};
use super::super::{Target, ids, out, pairing};
use super::read::FORM;
use crate::event::Protocol;
use crate::json::{Scanner, Value};

const GEMINI: Protocol = Protocol::GoogleGemini;

pub(in super::super) fn write(request: Request<'_>, target: &Target<'_>, o: &mut Vec<u8>) {
    let flags = target.flags;
    let first = request.messages.iter().position(|m| !is_system(m.role)).unwrap_or(request.messages.len());
    let mut messages = request.messages;
    let rest = messages.split_off(first);
    o.push(b'{');
    let system: Vec<Part<'_>> = messages.into_iter().flat_map(|m| m.parts).filter(|p| !is_blank(p)).collect();
    if !system.is_empty() {
        out::raw(o, "systemInstruction", b"{\"parts\":[");
        for p in &system {
            part(p, o);
        }
        o.extend_from_slice(b"]}");
    }
    if !request.tools.is_empty() {
        out::raw(o, "tools", b"[{\"functionDeclarations\":[");
        request.tools.iter().for_each(|t| write_tool(t, o));
        o.extend_from_slice(b"]}]");
        choice(&request.options, o);
    }
    config(&request.options, flags, o);
    out::raw(o, "contents", b"[");
    contents(pairing::turns(rest), flags, o);
    o.extend_from_slice(b"]}");
}

fn is_system(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

fn contents(messages: Vec<Message<'_>>, flags: TargetFlags, o: &mut Vec<u8>) {
    // Names of the calls so far, and the order of the last turn's.
    let mut names: HashMap<String, String> = HashMap::new();
    let mut order: HashMap<String, usize> = HashMap::new();
    // Whether a call of the turn that is going on has a signature.
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        match message.role {
            Role::Assistant => {
                order = message.calls().enumerate().map(|(n, c)| (c.id.decode().into_owned(), n)).collect();
                names.extend(message.calls().map(|c| (c.id.decode().into_owned(), c.name.decode().into_owned())));
                open("model", o);
                turn(&message.parts, flags, o);
                close(o);
            }
            Role::Tool => {
                let mut results = message.parts;
                while let Some(more) = messages.next_if(|m| m.role == Role::Tool) {
                    results.extend(more.parts);
                }
                results.sort_by_key(|p| match p {
                    Part::Result(r) => order.get(&*r.id.decode()).copied().unwrap_or(usize::MAX),
                    _ => usize::MAX,
                });
                open("user", o);
                for part in &results {
                    if let Part::Result(result) = part {
                        write_result(result, names.get(&*result.id.decode()).map(String::as_str), o);
                    }
                }
                close(o);
            }
            // What the system says in mid-conversation is said as if by the user.
            _ => {
                open("user", o);
                message.parts.iter().filter(|p| !is_blank(p)).for_each(|p| part(p, o));
                close(o);
            }
        }
    }
}

fn open(role: &str, o: &mut Vec<u8>) {
    out::comma(o);
    o.extend_from_slice(b"{\"role\":\"");
    o.extend_from_slice(role.as_bytes());
    o.extend_from_slice(b"\",\"parts\":[");
}

/// Ends a content; one that came to nothing goes.
fn close(o: &mut Vec<u8>) {
    if o.ends_with(b"\"parts\":[") {
        let start = o.iter().rposition(|b| *b == b'{').unwrap_or(o.len());
        o.truncate(start);
        o.pop_if(|b| *b == b',');
    } else {
        o.extend_from_slice(b"]}");
    }
}

fn is_blank(part: &Part<'_>) -> bool {
    match part {
        Part::Text(text, _) | Part::Refusal(text) => text.is_empty(),
        Part::Reasoning(_) => true,
        Part::With(part, _) => is_blank(part),
        _ => false,
    }
}

fn signature<'p>(part: Option<&'p Part<'_>>) -> Option<&'p str> {
    match part {
        Some(Part::Reasoning(r)) => r.kept.as_ref().filter(|k: &&Kept| k.form == FORM).map(|kept| kept.data.as_str()),
        _ => None,
    }
}

/// What the model said. A signature looks ahead to a call and else back to a text.
fn turn(parts: &[Part<'_>], flags: TargetFlags, o: &mut Vec<u8>) {
    let mut pending: Option<&str> = None;
    let mut calls = 0;
    // The part that was written last is a text without a signature.
    let mut last = false;
    for (n, p) in parts.iter().enumerate() {
        match p {
            Part::Reasoning(_) => {
                let Some(data) = signature(Some(p)) else { continue };
                if matches!(parts.get(n + 1), Some(Part::Call(_))) {
                    pending = Some(data);
                    continue;
                }
                if std::mem::take(&mut last) {
                    // The brace that ended it.
                    o.pop();
                } else {
                    out::comma(o);
                    o.extend_from_slice(b"{\"text\":\"\"");
                }
                out::plain(o, "thoughtSignature", data);
                o.push(b'}');
            }
            Part::Call(call) => {
                let made_up = calls == 0 && flags.has(Flag::SkipSignatures);
                write_call(call, pending.take().or(made_up.then_some(SKIP)), o);
                calls += 1;
                last = false;
            }
            p if is_blank(p) => {}
            p => {
                part(p, o);
                last = matches!(p, Part::Text(..) | Part::Refusal(_));
            }
        }
    }
}

/// The vendor's word for a turn that another model made: it is not looked for a signature.
const SKIP: &str = "skip_thought_signature_validator";

fn part(part: &Part<'_>, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    match part {
        Part::With(inner, extra) => {
            inside(inner, o);
            out::splice(o, start, Some(extra));
        }
        part => inside(part, o),
    }
}

fn inside(part: &Part<'_>, o: &mut Vec<u8>) {
    match part {
        Part::Text(text, _) | Part::Refusal(text) => {
            o.extend_from_slice(b"{\"text\":");
            text.push(o);
            o.push(b'}');
        }
        Part::Image { from, .. } => place(from, "image", o),
        Part::File { from, .. } => place(from, "", o),
        Part::Audio { data, format } => {
            o.extend_from_slice(b"{\"inlineData\":{\"mimeType\":\"audio/");
            format.push_inside(o);
            o.push(b'"');
            out::str(o, "data", data);
            o.extend_from_slice(b"}}");
        }
        Part::Raw(raw) => o.extend_from_slice(raw),
        Part::With(part, _) => inside(part, o),
        // Placed by whoever writes the turn.
        Part::Reasoning(_) | Part::Call(_) | Part::Result(_) => o.extend_from_slice(b"{}"),
    }
}

fn place(from: &Place<'_>, kind: &str, o: &mut Vec<u8>) {
    match from {
        Place::Base64 { mime, data } => {
            o.extend_from_slice(b"{\"inlineData\":{");
            out::str(o, "mimeType", mime);
            out::str(o, "data", data);
        }
        Place::Url(uri) | Place::Id(uri) => {
            o.extend_from_slice(b"{\"fileData\":{");
            if let Some(mime) = guessed(&uri.decode(), kind) {
                out::plain(o, "mimeType", mime);
            }
            out::str(o, "fileUri", uri);
        }
    }
    o.extend_from_slice(b"}}");
}

/// The media type of a link by its ending, where that tells it.
fn guessed(link: &str, kind: &str) -> Option<&'static str> {
    let path = link.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let known = [
        (".png", "image/png"),
        (".jpg", "image/jpeg"),
        (".jpeg", "image/jpeg"),
        (".webp", "image/webp"),
        (".gif", "image/gif"),
        (".pdf", "application/pdf"),
    ];
    let found = known.iter().find(|(end, _)| path.ends_with(end)).map(|(_, mime)| *mime);
    found.or((kind == "image").then_some("image/jpeg"))
}

fn write_call(call: &Call<'_>, signature: Option<&str>, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.extend_from_slice(b"{\"functionCall\":{");
    out::plain(o, "id", &ids::call_id(&call.id, GEMINI));
    out::plain(o, "name", &ids::tool_name(&call.name.decode(), GEMINI));
    out::key(o, "args");
    match &call.input {
        Input::Object(raw) => o.extend_from_slice(raw),
        Input::Made(json) => o.extend_from_slice(json.as_bytes()),
        Input::Text(text) => {
            o.extend_from_slice(b"{\"input\":");
            text.push(o);
            o.push(b'}');
        }
    }
    o.push(b'}');
    if let Some(signature) = signature {
        out::plain(o, "thoughtSignature", signature);
    }
    o.push(b'}');
    out::splice(o, start, call.extra);
}

fn write_result(result: &ToolResult<'_>, name: Option<&str>, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.extend_from_slice(b"{\"functionResponse\":{");
    out::plain(o, "id", &ids::call_id(&result.id, GEMINI));
    // One that answers no call is sent all the same: the API says what it thinks of it.
    out::plain(o, "name", &ids::tool_name(name.unwrap_or("unknown"), GEMINI));
    out::key(o, "response");
    let texts: Vec<&Str<'_>> = result
        .parts
        .iter()
        .filter_map(|p| if let Part::Text(t, _) | Part::Refusal(t) = p { Some(t) } else { None })
        .collect();
    match texts.as_slice() {
        [text] if !result.is_error && is_object(&text.decode()) => o.extend_from_slice(text.decode().trim().as_bytes()),
        texts => {
            o.extend_from_slice(if result.is_error { b"{\"error\":\"" } else { b"{\"output\":\"" });
            for (n, text) in texts.iter().enumerate() {
                if n > 0 {
                    o.extend_from_slice(b"\\n");
                }
                text.push_inside(o);
            }
            o.extend_from_slice(b"\"}");
        }
    }
    let others: Vec<&Part<'_>> =
        result.parts.iter().filter(|p| !matches!(p, Part::Text(..) | Part::Refusal(_)) && !is_blank(p)).collect();
    if !others.is_empty() {
        out::raw(o, "parts", b"[");
        for p in others {
            part(p, o);
        }
        o.push(b']');
    }
    o.extend_from_slice(b"}}");
    out::splice(o, start, result.extra);
}

fn is_object(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('{') && matches!(Scanner::only(text.as_bytes()), Ok(Value::Object(_)))
}

fn write_tool(tool: &Tool<'_>, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.push(b'{');
    out::plain(o, "name", &ids::tool_name(&tool.name.decode(), GEMINI));
    out::str_if(o, "description", tool.description.as_ref());
    match tool.schema {
        _ if tool.custom => out::raw(o, "parametersJsonSchema", WRAPPED_SCHEMA),
        Some(schema) => out::raw(o, "parametersJsonSchema", schema),
        None => {}
    }
    o.push(b'}');
    out::splice(o, start, tool.extra);
}

fn choice(options: &Options<'_>, o: &mut Vec<u8>) {
    let (mode, name) = match &options.choice {
        None => return,
        Some(Choice::Auto) => ("AUTO", None),
        Some(Choice::None) => ("NONE", None),
        Some(Choice::Required) => ("ANY", None),
        Some(Choice::Named { name, .. }) => ("ANY", Some(name)),
    };
    out::raw(o, "toolConfig", b"{\"functionCallingConfig\":{");
    out::plain(o, "mode", mode);
    if let Some(name) = name {
        out::raw(o, "allowedFunctionNames", b"[");
        crate::text::push_json_str(&ids::tool_name(&name.decode(), GEMINI), o);
        o.push(b']');
    }
    o.extend_from_slice(b"}}");
}

fn config(options: &Options<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    let before = o.len();
    out::raw(o, "generationConfig", b"{");
    let empty = o.len();
    if let Some(most) = options.max_tokens {
        out::raw(o, "maxOutputTokens", most);
    }
    for (name, raw) in &options.passed {
        out::raw(o, name, raw);
    }
    if !options.stop.is_empty() {
        out::key(o, "stopSequences");
        strings(&options.stop, o);
    }
    match &options.format {
        Some(Format::JsonObject) => out::plain(o, "responseMimeType", "application/json"),
        Some(Format::Schema { schema, .. }) => {
            out::plain(o, "responseMimeType", "application/json");
            out::raw(o, "responseJsonSchema", schema);
        }
        None => {}
    }
    thinking(options, flags, o);
    if o.len() == empty {
        o.truncate(before);
    } else {
        o.push(b'}');
    }
}

fn thinking(options: &Options<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    let budget = match &options.thinking {
        Some(Thinking::Off) if flags.has(Flag::ThinkingBudget) => Some(0),
        Some(Thinking::Budget(n)) if flags.has(Flag::ThinkingBudget) => Some(*n),
        _ => None,
    };
    let level = match (&options.thinking, &options.effort) {
        _ if budget.is_some() || flags.has(Flag::ThinkingBudget) => None,
        (Some(Thinking::Off), _) => Some("MINIMAL".to_owned()),
        (_, Some(effort)) => Some(effort.decode().to_ascii_uppercase()),
        _ => None,
    };
    if budget.is_none() && level.is_none() && options.summary.is_none() {
        return;
    }
    out::raw(o, "thinkingConfig", b"{");
    if options.summary.is_some() {
        out::flag(o, "includeThoughts", true);
    }
    if let Some(budget) = budget {
        out::raw(o, "thinkingBudget", budget.to_string().as_bytes());
    }
    if let Some(level) = level {
        out::plain(o, "thinkingLevel", &level);
    }
    o.push(b'}');
}
