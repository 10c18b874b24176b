//! A `ModelRequest` becomes a neutral request.

use super::super::error::{Res, shown};
use super::super::media;
use super::super::neutral::{
    Call, Choice, Format, Input, Kept, Message, Options, Part, Place, Reasoning, Request, Role, Str, Tool, ToolResult,
};
use super::super::options;
use super::super::reader::{Reader, type_of};
use super::{CHOICE, FORMAT, MESSAGE, OPTIONS, PART, PART_TYPES, TOOL, TOP};
use crate::event::{ContinuationForm, Protocol};
use crate::json::{Kind, Scanner};
use crate::limits::MAX_PART_DEPTH;
use crate::loss::LossAction;

pub(in super::super) fn read<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Request<'a>> {
    let mut request = Request::default();
    let mut seen_messages = false;
    let mut open = r.object(s, &TOP)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "messages" => {
                seen_messages = true;
                r.each(s, "messages", |r, s| message(r, s, &mut request.messages))?;
            }
            "tools" => r.each(s, "tools", |r, s| {
                request.tools.push(tool(r, s)?);
                Ok(())
            })?,
            "options" => {
                r.enter("options");
                read_options(r, s, &mut request.options)?;
                r.leave();
            }
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

fn read_options<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    let mut open = r.object(s, &OPTIONS)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "stream" => o.stream = s.boolean()?,
            "max_output_tokens" => o.max_tokens = Some(options::limit(r, s, key)?),
            "temperature" if r.is_to(Protocol::AnthropicMessages) => options::temperature(r, s, o)?,
            "stop" => o.stop = r.strings(s, "stop")?,
            "tool_choice" => choice(r, s, o)?,
            "parallel_tool_calls" => o.parallel = Some(s.boolean()?),
            "reasoning_effort" => options::effort(r, s, o, "reasoning_effort")?,
            "reasoning_summary" => o.summary = Some((r.string(s)?, "options.reasoning_summary")),
            "reasoning_budget_tokens" => {
                let Some(budget) = s.count_or_skip()? else { return r.expected(key, "a whole number") };
                options::budgeted(r, o, budget, key);
            }
            "verbosity" => o.verbosity = Some(r.string(s)?),
            "response_format" => format(r, s, o)?,
            "service_tier" if r.is_to(Protocol::AnthropicMessages) => options::tier(r, s, o)?,
            "user" => o.user = Some(r.string(s)?),
            "extra" => o.extra = extra(r, s)?,
            _ => r.pass(s, &open, o)?,
        }
    }
    Ok(())
}

fn choice<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("tool_choice");
    let mut mode: Option<Str<'a>> = None;
    let mut name = None;
    let mut open = r.object(s, &CHOICE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "mode" => mode = Some(r.string(s)?),
            _ => name = Some(r.string(s)?),
        }
    }
    let Some(mode) = mode else { return r.missing("mode") };
    let mode = mode.decode();
    o.choice = match (&*mode, name) {
        ("tool", Some(name)) => Some(Choice::Named { name, custom: false }),
        ("tool", None) => return r.missing("name"),
        (mode, _) => options::mode(r, mode)?,
    };
    options::forced(r, o)?;
    r.leave();
    Ok(())
}

fn format<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("response_format");
    let mut kind: Option<Str<'a>> = None;
    let (mut name, mut description, mut schema, mut strict) = (None, None, None, None);
    let mut open = r.object(s, &FORMAT)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "type" => kind = Some(r.string(s)?),
            "name" => name = Some(r.string(s)?),
            "description" => description = Some(r.string(s)?),
            "schema" => schema = Some(s.skip()?),
            _ => strict = Some(s.boolean()?),
        }
    }
    let Some(kind) = kind else { return r.missing("type") };
    let schema = schema.map(|schema| Format::Schema { name, description, schema, strict });
    options::format(r, o, &kind.decode(), schema, "schema")?;
    r.leave();
    Ok(())
}

fn tool<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Tool<'a>> {
    let mut t = options::Declared::default();
    let mut open = r.object(s, &TOOL)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "name" => t.name = Some(r.string(s)?),
            "description" => t.description = Some(r.string(s)?),
            "raw_schema" => t.schema = Some(s.skip()?),
            "kind" => match &*s.string()?.decode() {
                "custom" => t.custom = true,
                "function" => {}
                _ => return r.expected("kind", "function or custom"),
            },
            "strict" => t.strict = Some(s.boolean()?),
            _ => t.extra = extra(r, s)?,
        }
    }
    t.tool(r)
}

/// The raw members for the target's own family; the others were never meant for it.
fn extra<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Option<&'a [u8]>> {
    let mut found = None;
    let mut items = s.object()?;
    while let Some(family) = s.key(&mut items)? {
        if !family.is(r.family.name()) {
            s.skip()?;
            continue;
        }
        if s.kind()? != Kind::Object {
            return r.expected("extra", "an object of objects");
        }
        found = Some(s.skip()?);
    }
    Ok(found)
}

fn message<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, out: &mut Vec<Message<'a>>) -> Res<()> {
    let mut role: Option<Str<'a>> = None;
    let mut parts = None;
    let mut own = None;
    let mut open = r.object(s, &MESSAGE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "role" => role = Some(r.string(s)?),
            "parts" => {
                parts = Some(s.clone());
                s.skip()?;
            }
            _ => own = extra(r, s)?,
        }
    }
    let Some(role) = role else { return r.missing("role") };
    let role = match &*role.decode() {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => return options::unknown_role(r, other),
    };
    // What may have members of its own depends on who speaks.
    let mut list = match parts {
        Some(mut at) => read_parts(r, &mut at, role, 0)?,
        None => Vec::new(),
    };
    if role == Role::Tool {
        // A message for each result: that is what pairs them.
        for part in list {
            if !matches!(part, Part::Result(_)) {
                return r.refuse("role", "a tool's message holds results only");
            }
            out.push(Message::new(Role::Tool, vec![part]));
        }
        return Ok(());
    }
    options::fits(r, role, &list, "parts")?;
    if !r.echoes() {
        let before = list.len();
        list.retain(|p| !matches!(p, Part::Reasoning(t) if t.kept.is_none()));
        if list.len() < before {
            r.enter("parts[]");
            r.loss(LossAction::Dropped, "type:reasoning");
            r.leave();
        }
    }
    out.push(Message { role, parts: list, extra: own });
    Ok(())
}

fn read_parts<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, role: Role, depth: usize) -> Res<Vec<Part<'a>>> {
    if depth > MAX_PART_DEPTH {
        return r.refuse("parts", "parts stand in parts too deep");
    }
    let mut parts: Vec<Part<'a>> = Vec::new();
    r.each(s, "parts", |r, s| {
        if let Some(part) = part(r, s, role, depth, &mut parts)? {
            parts.push(part);
        }
        Ok(())
    })?;
    Ok(parts)
}

/// The fields of one part, whatever their order.
#[derive(Default)]
struct Read<'a> {
    text: Option<Str<'a>>,
    kind: Option<Str<'a>>,
    mime: Option<Str<'a>>,
    data: Option<Str<'a>>,
    url: Option<Str<'a>>,
    file_id: Option<Str<'a>>,
    detail: Option<Str<'a>>,
    name: Option<Str<'a>>,
    family: Option<Str<'a>>,
    form: Option<Str<'a>>,
    provider: Option<Str<'a>>,
    call_id: Option<Str<'a>>,
    input: Option<Str<'a>>,
    is_error: bool,
    parts: Option<Scanner<'a>>,
    raw: Option<&'a [u8]>,
    extra: Option<&'a [u8]>,
}

fn part<'a>(
    r: &mut Reader<'_>,
    s: &mut Scanner<'a>,
    role: Role,
    depth: usize,
    before: &mut [Part<'a>],
) -> Res<Option<Part<'a>>> {
    if s.kind()? != Kind::Object {
        return r.expected("", "an object");
    }
    let Some(kind) = type_of(s)? else { return r.missing("type") };
    let Some(kind) = r.kind(&PART_TYPES, &kind.decode())? else {
        s.skip()?;
        return Ok(None);
    };
    let mut p = Read::default();
    let mut open = r.object(s, &PART)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "text" => p.text = Some(r.string(s)?),
            "kind" => p.kind = Some(r.string(s)?),
            "mime" => p.mime = Some(r.string(s)?),
            "data" => p.data = Some(r.string(s)?),
            "url" => p.url = Some(r.string(s)?),
            "file_id" => p.file_id = Some(r.string(s)?),
            "detail" => p.detail = Some(r.string(s)?),
            "name" => p.name = Some(r.string(s)?),
            "family" => p.family = Some(r.string(s)?),
            "form" => p.form = Some(r.string(s)?),
            "provider" => p.provider = Some(r.string(s)?),
            "call_id" => p.call_id = Some(r.string(s)?),
            "raw_input_text" => p.input = Some(r.string(s)?),
            "is_error" => p.is_error = s.boolean()?,
            "parts" => p.parts = Some(Scanner::new(s.skip()?)),
            "raw" => p.raw = Some(s.skip()?),
            "extra" => p.extra = extra(r, s)?,
            _ => {
                s.skip()?;
            }
        }
    }
    made(r, p, kind, role, depth, before)
}

fn made<'a>(
    r: &mut Reader<'_>,
    p: Read<'a>,
    kind: &'static str,
    role: Role,
    depth: usize,
    before: &mut [Part<'a>],
) -> Res<Option<Part<'a>>> {
    let extra = p.extra;
    let part = match kind {
        "text" | "refusal" => match p.text {
            Some(text) if kind == "text" => Part::Text(text, None),
            Some(text) => Part::Refusal(text),
            None => return r.missing("text"),
        },
        "image" => {
            let from = place(r, p.data, p.mime, p.url, p.file_id)?;
            if matches!(from, Place::Id(_)) && r.is_to_chat() {
                return r.refuse("file_id", "the target takes no picture by file id");
            }
            options::pictured(r, &from, "url")?;
            Part::Image { from, detail: p.detail, mark: None }
        }
        "file" => {
            let from = place(r, p.data, p.mime, p.url, p.file_id)?;
            options::filed(r, &from, "url")?;
            if matches!(from, Place::Url(_)) && r.is_to_chat() {
                return r.refuse("url", "the target takes no file by URL");
            }
            Part::File { from, name: p.name, mark: None }
        }
        "audio" => {
            let Some(data) = p.data else { return r.missing("data") };
            let format = match p.mime.as_ref().map(Str::decode).as_deref() {
                Some("audio/wav" | "audio/x-wav" | "audio/wave") => "wav",
                Some("audio/mpeg" | "audio/mp3") => "mp3",
                _ => return r.refuse("mime", "Chat takes wav and mp3"),
            };
            Part::Audio { data, format: Str::Own(format.to_owned()) }
        }
        "reasoning" => match p.text {
            Some(text) => return Ok(Some(Part::Reasoning(Reasoning { texts: vec![text], kept: None }))),
            None => return r.missing("text"),
        },
        "continuation" => return continuation(r, &p, before),
        "tool_call" => return call(r, p).map(Some),
        "tool_result" => return result(r, p, role, depth).map(Some),
        _ => {
            let own = p.family.is_none_or(|f| f.decode() == r.family.name());
            return match p.raw {
                Some(raw) if own => Ok(Some(Part::Raw(raw))),
                Some(_) => {
                    r.loss(LossAction::Dropped, "raw");
                    Ok(None)
                }
                None => r.missing("raw"),
            };
        }
    };
    let Some(extra) = extra else { return Ok(Some(part)) };
    // The assistant's texts, and those of a result in Chat, are strings in `OpenAI`'s protocols.
    let in_string = role == Role::Assistant || (depth > 0 && r.is_to_chat());
    if in_string && !r.is_to(Protocol::AnthropicMessages) {
        r.loss(LossAction::Dropped, "extra");
        return Ok(Some(part));
    }
    Ok(Some(Part::With(Box::new(part), extra)))
}

fn place<'a>(
    r: &mut Reader<'_>,
    data: Option<Str<'a>>,
    mime: Option<Str<'a>>,
    url: Option<Str<'a>>,
    file_id: Option<Str<'a>>,
) -> Res<Place<'a>> {
    match (data, mime, url, file_id) {
        (Some(data), Some(mime), ..) => Ok(Place::Base64 { mime, data }),
        (Some(_), None, ..) => r.missing("mime"),
        (None, _, Some(Str::Lit(url)), _) => Ok(media::place(url)),
        (None, _, Some(url), _) => Ok(Place::Url(url)),
        (None, _, None, Some(id)) => Ok(Place::Id(id)),
        (None, _, None, None) => r.missing("data"),
    }
}

/// Joins the reasoning before it, or stands alone. Only what this family and provider row gave passes.
fn continuation<'a>(r: &mut Reader<'_>, p: &Read<'a>, before: &mut [Part<'a>]) -> Res<Option<Part<'a>>> {
    let Some(family) = &p.family else { return r.missing("family") };
    let Some(form) = &p.form else { return r.missing("form") };
    let Some(form) = ContinuationForm::from_code(&form.decode()) else {
        return r.expected("form", "signature, redacted, encrypted, thought_signature or details");
    };
    let Some(data) = &p.data else { return r.missing("data") };
    let other_row = match (&p.provider, r.provider) {
        (Some(of), Some(to)) => of.decode() != to,
        _ => false,
    };
    if family.decode() != r.family.name() || other_row {
        r.loss(LossAction::Dropped, "data");
        return Ok(None);
    }
    let kept = Kept { form, data: data.decode().into_owned() };
    let joins = matches!(form, ContinuationForm::Signature | ContinuationForm::Encrypted);
    if let Some(Part::Reasoning(reasoning)) = before.last_mut()
        && reasoning.kept.is_none()
        && joins
    {
        reasoning.kept = Some(kept);
        return Ok(None);
    }
    Ok(Some(Part::Reasoning(Reasoning { texts: Vec::new(), kept: Some(kept) })))
}

fn call<'a>(r: &mut Reader<'_>, p: Read<'a>) -> Res<Part<'a>> {
    let Some(id) = p.call_id else { return r.missing("call_id") };
    let Some(name) = p.name else { return r.missing("name") };
    let Some(text) = p.input else { return r.missing("raw_input_text") };
    let custom = match p.kind.as_ref().map(Str::decode).as_deref() {
        None | Some("function") => false,
        Some("custom") => true,
        Some(other) => {
            let other = shown(other);
            return r.expected("kind", &format!("function or custom, not {other}"));
        }
    };
    let input = if custom { Input::Text(text) } else { options::input(r, text, "raw_input_text") };
    Ok(Part::Call(Call { id, name, input, custom, extra: p.extra }))
}

fn result<'a>(r: &mut Reader<'_>, p: Read<'a>, role: Role, depth: usize) -> Res<Part<'a>> {
    if role != Role::Tool {
        return r.refuse("type", "a result stands in a message of role tool");
    }
    let Some(id) = p.call_id else { return r.missing("call_id") };
    if p.is_error && !matches!(r.target, Protocol::AnthropicMessages | Protocol::GoogleGemini) {
        r.loss(LossAction::Dropped, "is_error");
    }
    let parts = match p.parts {
        Some(mut at) => read_parts(r, &mut at, Role::User, depth + 1)?,
        None => Vec::new(),
    };
    // A result in a result would have nobody to answer.
    if parts.iter().any(|p| matches!(p, Part::Result(_) | Part::Call(_) | Part::Reasoning(_))) {
        return r.refuse("parts", "a result holds texts, pictures, sounds and files");
    }
    Ok(Part::Result(ToolResult { id, is_error: p.is_error, parts, extra: p.extra }))
}
