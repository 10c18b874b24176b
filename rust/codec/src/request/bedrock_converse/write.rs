//! A neutral request becomes a Converse body.
//!
//! 1. The messages come last, and what the user said and what tools gave between two turns is one message, results
//!    first: so a conversation that grows keeps its bytes up to the bracket that closed them, and roles alternate.
//! 2. System text before the conversation is `system`; within it, it is the user's text.
//! 3. Blank texts are left out: the API refuses them.
//! 4. A cache mark is a block of its own behind what it marks.
//! 5. Where the conversation has calls or results, tools have to be declared. If the client declares none, those that
//!    were called are, with an open schema.

use std::collections::HashSet;

use super::super::flags::{Flag, TargetFlags};
use super::super::neutral::{
    Call, Choice, Format, Input, Mark, Message, Options, Part, Place, Reasoning, Request, Role, Str, Thinking, Tool,
    ToolResult,
};
use super::super::openai_chat::{WRAPPED_SCHEMA, strings};
use super::super::{Target, ids, out, pairing};
use super::format;
use crate::event::{ContinuationForm, Protocol};
use crate::text::push_json_str;

const CONVERSE: Protocol = Protocol::BedrockConverse;

/// Characters of a document's name.
const MAX_DOCUMENT_NAME: usize = 200;

pub(in super::super) fn write(request: Request<'_>, target: &Target<'_>, o: &mut Vec<u8>) {
    let flags = target.flags;
    let first = request.messages.iter().position(|m| !is_system(m.role)).unwrap_or(request.messages.len());
    let mut messages = request.messages;
    let rest = messages.split_off(first);
    o.push(b'{');
    options(&request.options, target.flags, o);
    let mut writer = Writer { open: None, flags, documents: HashSet::new(), o };
    let system: Vec<Part<'_>> = messages.into_iter().flat_map(|m| m.parts).filter(|p| !is_blank(p)).collect();
    if !system.is_empty() {
        out::raw(writer.o, "system", b"[");
        for part in &system {
            writer.block(part);
        }
        writer.o.push(b']');
    }
    tools(&request.tools, &request.options, &rest, flags, writer.o);
    out::raw(writer.o, "messages", b"[");
    for message in pairing::turns(rest) {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        writer.parts(role, &message.parts);
    }
    writer.close();
    writer.o.extend_from_slice(b"]}");
}

fn is_system(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

/// Whether a part comes to nothing here.
fn is_blank(part: &Part<'_>) -> bool {
    match part {
        Part::Text(text, _) | Part::Refusal(text) => text.decode().trim().is_empty(),
        Part::Reasoning(r) => {
            !r.kept.as_ref().is_some_and(|k| matches!(k.form, ContinuationForm::Signature | ContinuationForm::Redacted))
        }
        Part::With(part, _) => is_blank(part),
        Part::Audio { .. } => true,
        _ => false,
    }
}

fn options(options: &Options<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    let passed = |wanted: &str| options.passed.iter().find(|(name, _)| *name == wanted).map(|(_, raw)| *raw);
    let inside = flags.has(Flag::InvokeBody);
    let top_k = passed("top_k").filter(|_| inside);
    let sampling = [("temperature", passed("temperature")), ("topP", passed("top_p")), ("topK", top_k)];
    if options.max_tokens.is_some() || !options.stop.is_empty() || sampling.iter().any(|(_, raw)| raw.is_some()) {
        out::raw(o, "inferenceConfig", b"{");
        for (name, raw) in [("maxTokens", options.max_tokens)].into_iter().chain(sampling) {
            if let Some(raw) = raw {
                out::raw(o, name, raw);
            }
        }
        if !options.stop.is_empty() {
            out::key(o, "stopSequences");
            strings(&options.stop, o);
        }
        o.push(b'}');
    }
    additional(options, passed("anthropic_beta"), passed("top_k").filter(|_| !inside), o);
    let schema = match &options.format {
        Some(Format::Schema { name, description, schema, .. }) => Some((name, description, schema)),
        _ => None,
    };
    if schema.is_some() || options.effort.is_some() {
        out::raw(o, "outputConfig", b"{");
        if let Some((name, description, schema)) = schema {
            out::raw(o, "textFormat", b"{\"type\":\"json_schema\",\"structure\":{\"jsonSchema\":{");
            // A string that holds the schema's JSON.
            out::plain(o, "schema", &String::from_utf8_lossy(schema));
            out::str_if(o, "name", name.as_ref());
            out::str_if(o, "description", description.as_ref());
            o.extend_from_slice(b"}}}");
        }
        out::str_if(o, "effort", options.effort.as_ref());
        o.push(b'}');
    }
}

/// What only the model's own vendor knows.
fn additional(options: &Options<'_>, beta: Option<&[u8]>, top_k: Option<&[u8]>, o: &mut Vec<u8>) {
    let thinking = match &options.thinking {
        Some(Thinking::Adaptive) => Some("{\"type\":\"adaptive\"".to_owned()),
        Some(Thinking::Budget(n)) => Some(format!("{{\"type\":\"enabled\",\"budget_tokens\":{n}")),
        Some(Thinking::Off) | None => None,
    };
    if thinking.is_none() && beta.is_none() && top_k.is_none() {
        return;
    }
    out::raw(o, "additionalModelRequestFields", b"{");
    for (name, raw) in [("anthropic_beta", beta), ("top_k", top_k)] {
        if let Some(raw) = raw {
            out::raw(o, name, raw);
        }
    }
    if let Some(thinking) = thinking {
        out::raw(o, "thinking", thinking.as_bytes());
        if options.summary.is_some() {
            out::plain(o, "display", "summarized");
        }
        o.push(b'}');
    }
    o.push(b'}');
}

fn tools(tools: &[Tool<'_>], options: &Options<'_>, messages: &[Message<'_>], flags: TargetFlags, o: &mut Vec<u8>) {
    let parts = || messages.iter().flat_map(|m| &m.parts);
    if tools.is_empty() {
        let mut called: Vec<String> = Vec::new();
        for call in messages.iter().flat_map(Message::calls) {
            let name = ids::tool_name(&call.name.decode(), CONVERSE).into_owned();
            if !called.contains(&name) {
                called.push(name);
            }
        }
        if called.is_empty() && !parts().any(|p| matches!(p, Part::Result(_))) {
            return;
        }
        if called.is_empty() {
            called.push("unknown".to_owned());
        }
        out::raw(o, "toolConfig", b"{\"tools\":[");
        for name in called {
            out::comma(o);
            o.extend_from_slice(b"{\"toolSpec\":{\"name\":");
            push_json_str(&name, o);
            o.extend_from_slice(b",\"inputSchema\":{\"json\":{\"type\":\"object\"}}}}");
        }
        o.extend_from_slice(b"]}");
        return;
    }
    out::raw(o, "toolConfig", b"{\"tools\":[");
    for tool in tools {
        spec(tool, flags, o);
        point(tool.mark, flags, o);
    }
    o.push(b']');
    match &options.choice {
        Some(Choice::Auto) => out::raw(o, "toolChoice", b"{\"auto\":{}}"),
        Some(Choice::Required) => out::raw(o, "toolChoice", b"{\"any\":{}}"),
        Some(Choice::Named { name, .. }) => {
            out::raw(o, "toolChoice", b"{\"tool\":{");
            out::plain(o, "name", &ids::tool_name(&name.decode(), CONVERSE));
            o.extend_from_slice(b"}}");
        }
        Some(Choice::None) | None => {}
    }
    o.push(b'}');
}

fn spec(tool: &Tool<'_>, flags: TargetFlags, o: &mut Vec<u8>) {
    out::comma(o);
    o.extend_from_slice(b"{\"toolSpec\":");
    let start = o.len();
    o.push(b'{');
    out::plain(o, "name", &ids::tool_name(&tool.name.decode(), CONVERSE));
    out::str_if(o, "description", tool.description.as_ref().filter(|text| !text.is_empty()));
    out::raw(o, "inputSchema", b"{\"json\":");
    match tool.schema {
        _ if tool.custom => o.extend_from_slice(WRAPPED_SCHEMA),
        Some(schema) => {
            let at = o.len();
            o.extend_from_slice(schema);
            // It has to say what it is, which other protocols take for granted.
            if !out::has_key(schema, "type") {
                out::splice(o, at, Some(b"{\"type\":\"object\"}"));
            }
        }
        None => o.extend_from_slice(b"{\"type\":\"object\",\"properties\":{}}"),
    }
    o.push(b'}');
    if tool.strict == Some(true) && flags.has(Flag::Strict) {
        out::flag(o, "strict", true);
    }
    o.push(b'}');
    out::splice(o, start, tool.extra);
    o.push(b'}');
}

fn point(mark: Option<Mark<'_>>, flags: TargetFlags, o: &mut Vec<u8>) {
    if let Some(mark) = mark.filter(|_| flags.has(Flag::CacheMarks)) {
        out::comma(o);
        o.extend_from_slice(super::point(mark));
    }
}

/// The messages as they are written: parts of one role in a row are one message.
struct Writer<'o> {
    open: Option<&'static str>,
    flags: TargetFlags,
    /// Names of the documents so far: no two may be equal.
    documents: HashSet<String>,
    o: &'o mut Vec<u8>,
}

impl Writer<'_> {
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
            self.block(part);
        }
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            self.o.extend_from_slice(b"]}");
        }
    }

    fn block(&mut self, part: &Part<'_>) {
        out::comma(self.o);
        let start = self.o.len();
        match part {
            Part::With(part, extra) => {
                self.block(part);
                out::splice(self.o, start, Some(extra));
            }
            Part::Text(text, mark) => {
                self.text(text);
                point(*mark, self.flags, self.o);
            }
            Part::Refusal(text) => self.text(text),
            Part::Image { from, mark, .. } => {
                self.image(from);
                point(*mark, self.flags, self.o);
            }
            Part::File { from, name, mark } => {
                self.document(from, name.as_ref());
                point(*mark, self.flags, self.o);
            }
            Part::Reasoning(reasoning) => self.reasoning(reasoning),
            Part::Call(call) => self.call(call),
            Part::Result(result) => self.result(result),
            Part::Raw(raw) => self.o.extend_from_slice(raw),
            Part::Audio { .. } => {}
        }
    }

    fn text(&mut self, text: &Str<'_>) {
        self.o.push(b'{');
        out::str(self.o, "text", text);
        self.o.push(b'}');
    }

    fn image(&mut self, from: &Place<'_>) {
        // The reader refuses every other place.
        let Place::Base64 { mime, data } = from else { return };
        self.o.extend_from_slice(b"{\"image\":{");
        out::plain(self.o, "format", format(&mime.decode()).unwrap_or("png"));
        out::raw(self.o, "source", b"{");
        out::str(self.o, "bytes", data);
        self.o.extend_from_slice(b"}}}");
    }

    fn document(&mut self, from: &Place<'_>, name: Option<&Str<'_>>) {
        let Place::Base64 { mime, data } = from else { return };
        let name = self.named(name);
        self.o.extend_from_slice(b"{\"document\":{");
        out::plain(self.o, "format", format(&mime.decode()).unwrap_or("txt"));
        out::plain(self.o, "name", &name);
        out::raw(self.o, "source", b"{");
        out::str(self.o, "bytes", data);
        self.o.extend_from_slice(b"}}}");
    }

    /// A document's name: letters, digits, single spaces, hyphens and brackets, and unlike every name before it. It depends
    /// on what came before alone, so that it stays when the conversation grows.
    fn named(&mut self, name: Option<&Str<'_>>) -> String {
        let given = name.map(|name| name.decode().into_owned()).unwrap_or_default();
        let stem = given.rsplit_once('.').map_or(given.as_str(), |(stem, _)| stem);
        let mut kept = String::new();
        for c in stem.chars().take(MAX_DOCUMENT_NAME) {
            let c = if c.is_ascii_alphanumeric() || matches!(c, '-' | '(' | ')' | '[' | ']') { c } else { ' ' };
            if c != ' ' || !kept.ends_with(' ') {
                kept.push(c);
            }
        }
        let kept = if kept.trim().is_empty() { "document" } else { kept.trim() };
        let numbered = |n: usize| if n == 1 { kept.to_owned() } else { format!("{kept} ({n})") };
        // One more name than there are documents: one of them is free.
        let free = (1..=self.documents.len() + 1).map(numbered).find(|name| !self.documents.contains(name));
        let name = free.unwrap_or_default();
        self.documents.insert(name.clone());
        name
    }

    fn reasoning(&mut self, reasoning: &Reasoning<'_>) {
        let Some(kept) = &reasoning.kept else { return };
        self.o.extend_from_slice(b"{\"reasoningContent\":{");
        if kept.form == ContinuationForm::Redacted {
            out::plain(self.o, "redactedContent", &kept.data);
        } else {
            out::raw(self.o, "reasoningText", b"{\"text\":\"");
            reasoning.texts.iter().for_each(|t| t.push_inside(self.o));
            self.o.push(b'"');
            out::plain(self.o, "signature", &kept.data);
            self.o.push(b'}');
        }
        self.o.extend_from_slice(b"}}");
    }

    fn call(&mut self, call: &Call<'_>) {
        self.o.extend_from_slice(b"{\"toolUse\":");
        let start = self.o.len();
        self.o.push(b'{');
        out::plain(self.o, "toolUseId", &ids::call_id(&call.id, CONVERSE));
        out::plain(self.o, "name", &ids::tool_name(&call.name.decode(), CONVERSE));
        out::key(self.o, "input");
        match &call.input {
            Input::Object(raw) => self.o.extend_from_slice(raw),
            Input::Made(json) => self.o.extend_from_slice(json.as_bytes()),
            Input::Text(text) => {
                self.o.extend_from_slice(b"{\"input\":");
                text.push(self.o);
                self.o.push(b'}');
            }
        }
        self.o.push(b'}');
        out::splice(self.o, start, call.extra);
        self.o.push(b'}');
    }

    fn result(&mut self, result: &ToolResult<'_>) {
        self.o.extend_from_slice(b"{\"toolResult\":");
        let start = self.o.len();
        self.o.push(b'{');
        out::plain(self.o, "toolUseId", &ids::call_id(&result.id, CONVERSE));
        out::raw(self.o, "content", b"[");
        for part in result.parts.iter().filter(|p| !is_blank(p)) {
            self.block(part);
        }
        self.o.push(b']');
        if result.is_error {
            out::plain(self.o, "status", "error");
        }
        self.o.push(b'}');
        out::splice(self.o, start, result.extra);
        self.o.push(b'}');
    }
}
