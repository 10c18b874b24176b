//! A neutral request becomes a Messages body.
//!
//! 1. The messages come last, and what the user said and what tools gave between two turns is one message, results
//!    first: so a conversation that grows keeps its bytes up to the bracket that closed them.
//! 2. System text before the conversation is `system`. Within it, it is a message of its own where the model takes one,
//!    else the user's text.
//! 3. Empty texts are left out: the API refuses them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::flags::{Flag, TargetFlags};
use super::super::neutral::{
    Call, Choice, Format, Input, Mark, Options, Part, Place, Reasoning, Request, Role, Str, Thinking, Tool, ToolResult,
};
use super::super::openai_chat::{WRAPPED_SCHEMA, strings};
use super::super::options::DEFAULT_MAX_TOKENS;
use super::super::{Target, ids, out, pairing};
use super::BEDROCK_VERSION;
use crate::event::{ContinuationForm, Protocol};

const MESSAGES: Protocol = Protocol::AnthropicMessages;

pub(in super::super) fn write(request: Request<'_>, target: &Target<'_>, o: &mut Vec<u8>) {
    let flags = target.flags;
    let first = request.messages.iter().position(|m| !is_system(m.role)).unwrap_or(request.messages.len());
    let mut messages = request.messages;
    let rest = messages.split_off(first);
    o.push(b'{');
    if target.family == Protocol::BedrockInvoke {
        out::raw(o, "anthropic_version", BEDROCK_VERSION);
    } else {
        out::plain(o, "model", target.model);
        if request.options.stream {
            out::flag(o, "stream", true);
        }
    }
    match request.options.max_tokens {
        Some(most) => out::raw(o, "max_tokens", most),
        None => out::raw(o, "max_tokens", DEFAULT_MAX_TOKENS.to_string().as_bytes()),
    }
    if flags.has(Flag::AutoCache) {
        out::raw(o, "cache_control", b"{\"type\":\"ephemeral\"}");
    }
    options(&request.options, flags, o);
    let system: Vec<Part<'_>> = messages.into_iter().flat_map(|m| m.parts).filter(|p| !is_blank(p)).collect();
    match system.as_slice() {
        [] => {}
        [Part::Text(text, None)] => out::str(o, "system", text),
        parts => {
            out::key(o, "system");
            o.push(b'[');
            for part in parts {
                block(part, flags, o);
            }
            o.push(b']');
        }
    }
    if !request.tools.is_empty() {
        out::key(o, "tools");
        o.push(b'[');
        request.tools.iter().for_each(|t| write_tool(t, flags, o));
        o.push(b']');
        choice(&request.options, o);
    }
    out::key(o, "messages");
    o.push(b'[');
    let mut said = Said { open: None, flags, o };
    // What the system says between two turns stands behind what the user says there.
    let mut held: Vec<Part<'_>> = Vec::new();
    for message in pairing::turns(rest) {
        if is_system(message.role) && flags.has(Flag::SystemMessages) {
            held.extend(message.parts);
            continue;
        }
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        if role == "assistant" {
            said.system(&mut held);
        }
        said.parts(role, &message.parts);
    }
    said.system(&mut held);
    said.close();
    o.extend_from_slice(b"]}");
}

/// The messages as they are written: parts of one role in a row are one message.
struct Said<'o> {
    open: Option<&'static str>,
    flags: TargetFlags,
    o: &'o mut Vec<u8>,
}

impl Said<'_> {
    fn parts(&mut self, role: &'static str, parts: &[Part<'_>]) {
        for part in parts.iter().filter(|p| !is_blank(p)) {
            if self.open != Some(role) {
                self.close();
                out::comma(self.o);
                self.o.push(b'{');
                out::plain(self.o, "role", role);
                out::raw(self.o, "content", b"[");
                self.open = Some(role);
            }
            block(part, self.flags, self.o);
        }
    }

    /// The API takes a system message directly behind a user's, and then the assistant's or nothing. Where the user
    /// said nothing, it is said as if by him.
    fn system(&mut self, held: &mut Vec<Part<'_>>) {
        let role = if self.open == Some("user") { "system" } else { "user" };
        self.parts(role, &std::mem::take(held));
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            self.o.extend_from_slice(b"]}");
        }
    }
}

fn is_system(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

/// Whether a part comes to nothing here.
fn is_blank(part: &Part<'_>) -> bool {
    match part {
        Part::Text(text, _) | Part::Refusal(text) => text.is_empty(),
        Part::Reasoning(r) => {
            !r.kept.as_ref().is_some_and(|k| matches!(k.form, ContinuationForm::Signature | ContinuationForm::Redacted))
        }
        Part::With(part, _) => is_blank(part),
        Part::Audio { .. } => true,
        _ => false,
    }
}

fn options(options: &Options<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    for (name, raw) in &options.passed {
        out::raw(o, name, raw);
    }
    if !options.stop.is_empty() {
        out::key(o, "stop_sequences");
        strings(&options.stop, o);
    }
    match &options.thinking {
        Some(Thinking::Off) if flags.has(Flag::AdaptiveThinking) || flags.has(Flag::ThinkingBudget) => {
            out::raw(o, "thinking", b"{\"type\":\"disabled\"}");
        }
        Some(Thinking::Adaptive) => {
            out::raw(o, "thinking", b"{\"type\":\"adaptive\"");
            shown(options, o);
        }
        Some(Thinking::Budget(n)) => {
            out::raw(o, "thinking", format!("{{\"type\":\"enabled\",\"budget_tokens\":{n}").as_bytes());
            shown(options, o);
        }
        _ => {}
    }
    if options.effort.is_some() || options.format.is_some() {
        out::raw(o, "output_config", b"{");
        out::str_if(o, "effort", options.effort.as_ref());
        if let Some(Format::Schema { schema, .. }) = &options.format {
            out::raw(o, "format", b"{\"type\":\"json_schema\"");
            out::raw(o, "schema", schema);
            o.push(b'}');
        }
        o.push(b'}');
    }
    if let Some(user) = &options.user {
        out::raw(o, "metadata", b"{");
        out::str(o, "user_id", user);
        o.push(b'}');
    }
}

fn shown(options: &Options<'_>, o: &mut Vec<u8>) {
    if options.summary.is_some() {
        out::plain(o, "display", "summarized");
    }
    o.push(b'}');
}

fn write_tool(tool: &Tool<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    o.push(b'{');
    out::plain(o, "name", &ids::tool_name(&tool.name.decode(), MESSAGES));
    out::str_if(o, "description", tool.description.as_ref());
    match tool.schema {
        _ if tool.custom => out::raw(o, "input_schema", WRAPPED_SCHEMA),
        Some(schema) => {
            out::key(o, "input_schema");
            let at = o.len();
            o.extend_from_slice(schema);
            // It has to say what it is, which the other protocols take for granted.
            if !out::has_key(schema, "type") {
                out::splice(o, at, Some(b"{\"type\":\"object\"}"));
            }
        }
        None => out::raw(o, "input_schema", b"{\"type\":\"object\",\"properties\":{}}"),
    }
    if tool.strict == Some(true) && flags.has(Flag::Strict) {
        out::flag(o, "strict", true);
    }
    o.push(b'}');
    out::splice(o, start, tool.extra);
}

fn choice(options: &Options<'_>, o: &mut Vec<u8>) {
    let alone = options.parallel == Some(false);
    let (kind, name) = match &options.choice {
        None if !alone => return,
        None | Some(Choice::Auto) => ("auto", None),
        Some(Choice::None) => ("none", None),
        Some(Choice::Required) => ("any", None),
        Some(Choice::Named { name, .. }) => ("tool", Some(name)),
    };
    out::raw(o, "tool_choice", b"{");
    out::plain(o, "type", kind);
    if let Some(name) = name {
        out::plain(o, "name", &ids::tool_name(&name.decode(), MESSAGES));
    }
    if alone && kind != "none" {
        out::flag(o, "disable_parallel_tool_use", true);
    }
    o.push(b'}');
}

fn block(part: &Part<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    out::comma(o);
    let start = o.len();
    match part {
        Part::With(part, extra) => {
            inside(part, flags, o);
            out::splice(o, start, Some(extra));
        }
        Part::Call(call) => {
            write_call(call, o);
            out::splice(o, start, call.extra);
        }
        Part::Result(result) => {
            write_result(result, flags, o);
            out::splice(o, start, result.extra);
        }
        part => inside(part, flags, o),
    }
}

fn inside(part: &Part<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    match part {
        Part::Text(text, mark) => {
            o.extend_from_slice(b"{\"type\":\"text\"");
            out::str(o, "text", text);
            close(*mark, flags, o);
        }
        Part::Refusal(text) => {
            o.extend_from_slice(b"{\"type\":\"text\"");
            out::str(o, "text", text);
            close(None, flags, o);
        }
        Part::Image { from, mark, .. } => {
            o.extend_from_slice(b"{\"type\":\"image\"");
            source(from, o);
            close(*mark, flags, o);
        }
        Part::File { from, name, mark } => {
            o.extend_from_slice(b"{\"type\":\"document\"");
            match plain_text(from) {
                Some(text) => {
                    out::raw(o, "source", b"{\"type\":\"text\",\"media_type\":\"text/plain\"");
                    out::plain(o, "data", &text);
                    o.push(b'}');
                }
                None => source(from, o),
            }
            out::str_if(o, "title", name.as_ref());
            close(*mark, flags, o);
        }
        Part::Reasoning(reasoning) => write_reasoning(reasoning, o),
        Part::Raw(raw) => o.extend_from_slice(raw),
        Part::Audio { .. } | Part::Call(_) | Part::Result(_) | Part::With(..) => {}
    }
}

fn close(mark: Option<Mark<'_>>, flags: TargetFlags, o: &mut Vec<u8>) {
    if let Some(mark) = mark.filter(|_| flags.has(Flag::CacheMarks)) {
        let control: &[u8] =
            if mark.long { b"{\"type\":\"ephemeral\",\"ttl\":\"1h\"}" } else { b"{\"type\":\"ephemeral\"}" };
        out::raw(o, "cache_control", control);
    }
    o.push(b'}');
}

fn source(place: &Place<'_>, o: &mut Vec<u8>) {
    match place {
        Place::Url(url) => {
            out::raw(o, "source", b"{\"type\":\"url\"");
            out::str(o, "url", url);
        }
        Place::Base64 { mime, data } => {
            out::raw(o, "source", b"{\"type\":\"base64\"");
            out::str(o, "media_type", mime);
            out::str(o, "data", data);
        }
        Place::Id(id) => {
            out::raw(o, "source", b"{\"type\":\"file\"");
            out::str(o, "file_id", id);
        }
    }
    o.push(b'}');
}

/// The text of a file that is plain text: the API takes base64 for PDF alone.
fn plain_text(place: &Place<'_>) -> Option<String> {
    let Place::Base64 { mime, data } = place else { return None };
    if !mime.decode().starts_with("text/") {
        return None;
    }
    String::from_utf8(STANDARD.decode(data.decode().as_bytes()).ok()?).ok()
}

fn write_reasoning(reasoning: &Reasoning<'_>, o: &mut Vec<u8>) {
    let Some(kept) = &reasoning.kept else { return };
    if kept.form == ContinuationForm::Redacted {
        o.extend_from_slice(b"{\"type\":\"redacted_thinking\"");
        out::plain(o, "data", &kept.data);
    } else {
        o.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":\"");
        reasoning.texts.iter().for_each(|t| t.push_inside(o));
        o.push(b'"');
        out::plain(o, "signature", &kept.data);
    }
    o.push(b'}');
}

fn write_call(call: &Call<'_>, o: &mut Vec<u8>) {
    o.extend_from_slice(b"{\"type\":\"tool_use\"");
    out::plain(o, "id", &ids::call_id(&call.id, MESSAGES));
    out::plain(o, "name", &ids::tool_name(&call.name.decode(), MESSAGES));
    out::key(o, "input");
    match &call.input {
        Input::Object(raw) => o.extend_from_slice(raw),
        Input::Made(json) => o.extend_from_slice(json.as_bytes()),
        Input::Text(text) => wrapped(text, o),
    }
    o.push(b'}');
}

/// Text where an object has to be.
fn wrapped(text: &Str<'_>, o: &mut Vec<u8>) {
    o.extend_from_slice(b"{\"input\":");
    text.push(o);
    o.push(b'}');
}

fn write_result(result: &ToolResult<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    o.extend_from_slice(b"{\"type\":\"tool_result\"");
    out::plain(o, "tool_use_id", &ids::call_id(&result.id, MESSAGES));
    let parts: Vec<&Part<'_>> = result.parts.iter().filter(|p| !is_blank(p)).collect();
    match parts.as_slice() {
        [] => {}
        [Part::Text(text, None)] => out::str(o, "content", text),
        parts => {
            out::raw(o, "content", b"[");
            for part in parts {
                block(part, flags, o);
            }
            o.push(b']');
        }
    }
    if result.is_error {
        out::flag(o, "is_error", true);
    }
    o.push(b'}');
}
