//! A body of Ollama's own chat becomes a neutral request.
//!
//! 1. A body that does not say `stream` streams.
//! 2. Calls and results pair by id where they have one. Older clients give none: a result then answers the first open call of
//!    its tool, else the first that is open.

use std::collections::VecDeque;

use super::super::error::Res;
use super::super::neutral::{
    Call, Format, Input, Message, Options, Part, Place, Reasoning, Request, Role, Str, Tool, ToolResult,
};
use super::super::options;
use super::super::reader::Reader;
use super::source::{CALL, CALLED, FUNCTION, MESSAGE, OPTIONS, TOOL, TOP};
use crate::event::Protocol;
use crate::json::{Kind, Scanner};
use crate::loss::LossAction;
use crate::text::Literal;

pub(in super::super) fn read<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Request<'a>> {
    let mut request = Request::default();
    request.options.stream = true;
    let mut seen_messages = false;
    let mut open = r.object(s, &TOP)?;
    while let Some(key) = r.next(s, &mut open)? {
        let o = &mut request.options;
        match key {
            "messages" => {
                seen_messages = true;
                messages(r, s, &mut request.messages)?;
            }
            "tools" => r.each(s, "tools", |r, s| {
                request.tools.push(tool(r, s)?);
                Ok(())
            })?,
            "stream" => o.stream = s.boolean()?,
            "format" => format(r, s, o)?,
            "options" => sampling(r, s, o)?,
            "think" => think(r, s, o)?,
            _ => {
                s.skip()?;
            }
        }
    }
    if !seen_messages {
        return r.missing("messages");
    }
    Ok(request)
}

fn sampling<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("options");
    let mut open = r.object(s, &OPTIONS)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            // Less than nothing is no limit.
            "num_predict" if s.clone().number()?.starts_with(b"-") => {
                s.skip()?;
            }
            "num_predict" => o.max_tokens = Some(options::limit(r, s, key)?),
            "stop" => o.stop = r.strings(s, key)?,
            "temperature" if r.is_to(Protocol::AnthropicMessages) => options::temperature(r, s, o)?,
            _ => r.pass(s, &open, o)?,
        }
    }
    r.leave();
    Ok(())
}

/// `json`, or a schema.
fn format<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    if s.kind()? == Kind::Object {
        let schema = s.skip()?;
        if r.has(super::super::flags::Flag::JsonSchema) {
            o.format = Some(Format::Schema { name: None, description: None, schema, strict: None });
        } else {
            r.loss(LossAction::Dropped, "format");
        }
        return Ok(());
    }
    match &*r.string(s)?.decode() {
        "" => {}
        "json" if r.is_to(Protocol::AnthropicMessages) => r.loss(LossAction::Dropped, "format"),
        "json" => o.format = Some(Format::JsonObject),
        _ => return r.expected("format", "json or a schema"),
    }
    Ok(())
}

/// Whether to think, or how much.
fn think<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    let level = if s.kind()? == Kind::Bool {
        Str::Own(if s.boolean()? { "medium" } else { "none" }.to_owned())
    } else {
        r.string(s)?
    };
    options::effort_word(r, o, level, "think");
    Ok(())
}

/// A call that has no result yet: its id, and its tool.
type Waiting = VecDeque<(String, String)>;

fn messages<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, out: &mut Vec<Message<'a>>) -> Res<()> {
    let (mut made, mut waiting) = (0usize, Waiting::new());
    r.each(s, "messages", |r, s| {
        out.push(message(r, s, &mut made, &mut waiting)?);
        Ok(())
    })
}

fn message<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, made: &mut usize, waiting: &mut Waiting) -> Res<Message<'a>> {
    let (mut role, mut content, mut thinking) = (None, None, None);
    let (mut tool, mut id) = (None, None);
    let (mut images, mut calls) = (Vec::new(), Vec::new());
    let mut open = r.object(s, &MESSAGE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "role" => role = Some(r.string(s)?),
            "content" => content = Some(r.string(s)?),
            "thinking" => thinking = Some(r.string(s)?),
            "tool_name" => tool = Some(r.string(s)?),
            "tool_call_id" => id = Some(r.string(s)?),
            "images" => r.each(s, "images", |r, s| {
                if s.kind()? != Kind::String {
                    return r.expected("", "a picture's bytes in base64");
                }
                images.push(image(s.string()?));
                Ok(())
            })?,
            _ => r.each(s, "tool_calls", |r, s| {
                calls.push(call(r, s, made)?);
                Ok(())
            })?,
        }
    }
    let Some(role) = role else { return r.missing("role") };
    let mut parts = Vec::with_capacity(2 + images.len() + calls.len());
    // A message of nothing but pictures, calls or thinking has an empty text.
    let mut said: Vec<Part<'a>> = Vec::new();
    said.extend(content.filter(|text| !text.is_empty() || images.is_empty()).map(|text| Part::Text(text, None)));
    said.append(&mut images);
    let role = match &*role.decode() {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => {
            options::fits(r, Role::Assistant, &said, "images")?;
            if let Some(text) = thinking.filter(|text| !text.is_empty()) {
                if r.echoes() {
                    parts.push(Part::Reasoning(Reasoning { texts: vec![text], kept: None }));
                } else {
                    r.loss(LossAction::Dropped, "thinking");
                }
            }
            said.retain(|part| !matches!(part, Part::Text(text, _) if text.is_empty()));
            parts.append(&mut said);
            for call in calls {
                waiting.push_back((call.id.decode().into_owned(), call.name.decode().into_owned()));
                parts.push(Part::Call(call));
            }
            return Ok(Message::new(Role::Assistant, parts));
        }
        "tool" => {
            let id = answered(id, tool.as_ref(), waiting);
            let result = ToolResult { id, is_error: false, parts: said, extra: None };
            return Ok(Message::new(Role::Tool, vec![Part::Result(result)]));
        }
        other => return options::unknown_role(r, other),
    };
    Ok(Message::new(role, said))
}

/// The id of the call that a result answers.
fn answered<'a>(id: Option<Str<'a>>, tool: Option<&Str<'_>>, waiting: &mut Waiting) -> Str<'a> {
    let (given, name) = (id.as_ref().map(Str::decode), tool.map(Str::decode));
    let fits = |(known, of): &(String, String)| match (&given, &name) {
        (Some(id), _) => known == id,
        (None, Some(name)) => of == name,
        (None, None) => true,
    };
    let at = waiting.iter().position(fits).unwrap_or(0);
    let first = waiting.remove(at).map(|(id, _)| Str::Own(id));
    id.or(first).unwrap_or_else(|| Str::Own("call".to_owned()))
}

/// A picture, which is bare base64: its kind is known by the first characters.
fn image(data: Literal<'_>) -> Part<'_> {
    const HEADS: [(&[u8], &str); 3] = [(b"/9j/", "image/jpeg"), (b"R0lG", "image/gif"), (b"UklG", "image/webp")];
    let kind = HEADS.iter().find(|(head, _)| data.raw.starts_with(head)).map_or("image/png", |(_, kind)| kind);
    let from = Place::Base64 { mime: Str::Own(kind.to_owned()), data: data.into() };
    Part::Image { from, detail: None, mark: None }
}

fn call<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, made: &mut usize) -> Res<Call<'a>> {
    let (mut id, mut function) = (None, None);
    let mut open = r.object(s, &CALL)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "id" => id = Some(r.string(s)?),
            "function" => {
                r.enter("function");
                function = Some(called(r, s)?);
                r.leave();
            }
            _ => {
                s.skip()?;
            }
        }
    }
    let Some((name, input)) = function else { return r.missing("function") };
    // Its place names a call: the same in every turn.
    let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| Str::Own(format!("call_{made}")));
    *made += 1;
    Ok(Call { id, name, input, custom: false, extra: None })
}

fn called<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<(Str<'a>, Input<'a>)> {
    let (mut name, mut input) = (None, None);
    let mut open = r.object(s, &CALLED)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "name" => name = Some(r.string(s)?),
            "arguments" if s.kind()? == Kind::Object => input = Some(Input::Object(s.skip()?)),
            "arguments" => {
                let text = r.string(s)?;
                input = Some(options::input(r, text, "arguments"));
            }
            _ => {
                s.skip()?;
            }
        }
    }
    let Some(name) = name else { return r.missing("name") };
    Ok((name, input.unwrap_or(Input::Object(b"{}"))))
}

fn tool<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Tool<'a>> {
    let mut declared = None;
    let mut open = r.object(s, &TOOL)?;
    while let Some(key) = r.next(s, &mut open)? {
        if key != "function" {
            s.skip()?;
            continue;
        }
        r.enter("function");
        let mut t = options::Declared::default();
        let mut open = r.object(s, &FUNCTION)?;
        while let Some(key) = r.next(s, &mut open)? {
            match key {
                "name" => t.name = Some(r.string(s)?),
                "description" => t.description = Some(r.string(s)?),
                _ => t.schema = Some(s.skip()?),
            }
        }
        declared = Some(t.tool(r)?);
        r.leave();
    }
    declared.map_or_else(|| r.missing("function"), Ok)
}
