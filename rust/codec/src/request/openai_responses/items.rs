//! Input items become messages.
//!
//! Consecutive items of the assistant's (reasoning, text, calls) are one turn in the other protocols.

use super::super::error::Res;
use super::super::media;
use super::super::neutral::{Call, Input, Kept, Message, Part, Place, Reasoning, Role, Str, Tool, ToolResult};
use super::super::openai_chat;
use super::super::options;
use super::super::reader::{Reader, type_of};
use super::read::tools;
use super::{ITEM_FIELDS, ITEM_TYPES, PART, SUMMARY};
use crate::encode::continuation;
use crate::json::{Kind, Scanner};
use crate::loss::LossAction;

pub(super) fn read<'a>(
    r: &mut Reader<'_>,
    s: &mut Scanner<'a>,
    messages: &mut Vec<Message<'a>>,
    declared: &mut Vec<Tool<'a>>,
) -> Res<()> {
    if s.kind()? == Kind::String {
        let text = r.string(s)?;
        messages.push(Message::new(Role::User, vec![Part::Text(text, None)]));
        return Ok(());
    }
    r.each(s, "input", |r, s| {
        if s.kind()? != Kind::Object {
            return r.expected("", "an object");
        }
        let kind = match type_of(s)? {
            Some(kind) => {
                let Some(kind) = r.kind(&ITEM_TYPES, &kind.decode())? else {
                    s.skip()?;
                    return Ok(());
                };
                kind
            }
            // The short form of a message has no type.
            None => "message",
        };
        item(r, s, kind, messages, declared)
    })
}

/// The fields of one item, whatever their order.
#[derive(Default)]
struct Item<'a> {
    role: Option<Str<'a>>,
    content: Vec<Part<'a>>,
    call_id: Option<Str<'a>>,
    name: Option<Str<'a>>,
    namespace: Option<Str<'a>>,
    arguments: Option<Input<'a>>,
    input: Option<Str<'a>>,
    output: Vec<Part<'a>>,
    summary: Vec<Str<'a>>,
    thoughts: Vec<Str<'a>>,
    kept: Option<Kept>,
    /// The opaque slot's own word on what was thought: the texts, or none where they are another row's.
    texts: Option<Vec<Str<'a>>>,
}

/// The opaque slot of a reasoning item: a state, or the reasoning itself.
fn slot(r: &mut Reader<'_>, text: &str, i: &mut Item<'_>) {
    if let Some(given) = continuation::unwrap_texts(text) {
        let ours = given.family == r.family && given.provider == r.provider.unwrap_or_default() && r.echoes();
        if !ours {
            r.loss(LossAction::Dropped, "encrypted_content");
        }
        let texts = if ours { given.texts } else { Vec::new() };
        i.texts = Some(texts.into_iter().map(Str::Own).collect());
    } else {
        i.kept = r.unwrapped(text, "encrypted_content");
    }
}

fn item<'a>(
    r: &mut Reader<'_>,
    s: &mut Scanner<'a>,
    kind: &'static str,
    messages: &mut Vec<Message<'a>>,
    declared: &mut Vec<Tool<'a>>,
) -> Res<()> {
    let mut i = Item::default();
    let mut open = r.object(s, &ITEM_FIELDS)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "role" => i.role = Some(r.string(s)?),
            "content" if kind == "reasoning" => texts(r, s, "content", &mut i.thoughts)?,
            "summary" => texts(r, s, "summary", &mut i.summary)?,
            "content" => i.content = content(r, s, "content")?,
            "call_id" => i.call_id = Some(r.string(s)?),
            "name" => i.name = Some(r.string(s)?),
            "namespace" => i.namespace = Some(r.string(s)?),
            "arguments" if s.kind()? == Kind::Object => i.arguments = Some(Input::Object(s.skip()?)),
            "arguments" => {
                let text = r.string(s)?;
                i.arguments = Some(options::input(r, text, "arguments"));
            }
            "input" => i.input = Some(r.string(s)?),
            "output" => i.output = content(r, s, "output")?,
            "encrypted_content" => slot(r, &s.string()?.decode(), &mut i),
            "tools" => tools(r, s, "tools", declared)?,
            _ => {
                s.skip()?;
            }
        }
    }
    match kind {
        "message" => message(r, i, messages),
        "reasoning" => {
            reasoning(r, i, messages);
            Ok(())
        }
        "function_call" | "custom_tool_call" => call(r, i, kind == "custom_tool_call", messages),
        "function_call_output" | "custom_tool_call_output" => {
            let Some(id) = i.call_id else { return r.missing("call_id") };
            if i.name.is_some() {
                r.loss(LossAction::Dropped, "name");
            }
            let result = ToolResult { id, is_error: false, parts: i.output, extra: None };
            messages.push(Message::new(Role::Tool, vec![Part::Result(result)]));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn message<'a>(r: &mut Reader<'_>, i: Item<'a>, messages: &mut Vec<Message<'a>>) -> Res<()> {
    let Some(role) = i.role else { return r.missing("role") };
    if role.decode() == "assistant" {
        options::fits(r, Role::Assistant, &i.content, "content")?;
    }
    match &*role.decode() {
        "system" => messages.push(Message::new(Role::System, i.content)),
        "developer" => messages.push(Message::new(Role::Developer, i.content)),
        "user" => messages.push(Message::new(Role::User, i.content)),
        "assistant" => turn(messages).extend(i.content),
        other => return options::unknown_role(r, other),
    }
    Ok(())
}

/// The parts of the assistant's turn that is going on; a new one where none is.
fn turn<'a, 'm>(messages: &'m mut Vec<Message<'a>>) -> &'m mut Vec<Part<'a>> {
    if messages.last().is_none_or(|m| m.role != Role::Assistant) {
        messages.push(Message::new(Role::Assistant, Vec::new()));
    }
    let last = messages.len() - 1;
    &mut messages[last].parts
}

fn reasoning<'a>(r: &mut Reader<'_>, i: Item<'a>, messages: &mut Vec<Message<'a>>) {
    if let Some(texts) = i.texts {
        // What else the item shows is the same.
        if !texts.is_empty() {
            turn(messages).push(Part::Reasoning(Reasoning { texts, kept: None }));
        }
        return;
    }
    if i.kept.is_none() && !r.echoes() {
        if !i.summary.is_empty() {
            r.loss(LossAction::Dropped, "summary");
        }
        if !i.thoughts.is_empty() {
            r.loss(LossAction::Dropped, "content");
        }
        return;
    }
    // The model's own words say more than a summary of them.
    let texts = if i.thoughts.is_empty() { i.summary } else { i.thoughts };
    turn(messages).push(Part::Reasoning(Reasoning { texts, kept: i.kept }));
}

fn call<'a>(r: &mut Reader<'_>, i: Item<'a>, custom: bool, messages: &mut Vec<Message<'a>>) -> Res<()> {
    let Some(id) = i.call_id else { return r.missing("call_id") };
    let Some(name) = i.name else { return r.missing("name") };
    let name = match &i.namespace {
        Some(namespace) => options::in_namespace(namespace, &name),
        None => name,
    };
    let input = if custom {
        Input::Text(i.input.unwrap_or_else(|| Str::Own(String::new())))
    } else {
        i.arguments.unwrap_or(Input::Object(b"{}"))
    };
    turn(messages).push(Part::Call(Call { id, name, input, custom, extra: None }));
    Ok(())
}

/// Texts of a reasoning item: strings in objects.
fn texts<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, key: &'static str, out: &mut Vec<Str<'a>>) -> Res<()> {
    r.each(s, key, |r, s| {
        let mut open = r.object(s, &SUMMARY)?;
        while let Some(key) = r.next(s, &mut open)? {
            if key == "text" {
                out.push(r.string(s)?);
            } else {
                s.skip()?;
            }
        }
        Ok(())
    })
}

fn content<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, key: &'static str) -> Res<Vec<Part<'a>>> {
    if s.kind()? == Kind::String {
        return Ok(vec![Part::Text(s.string()?.into(), None)]);
    }
    let mut parts = Vec::new();
    r.each(s, key, |r, s| {
        parts.push(part(r, s)?);
        Ok(())
    })?;
    Ok(parts)
}

fn part<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Part<'a>> {
    let mut kind: Option<Str<'a>> = None;
    let mut text = None;
    let mut refusal = None;
    let mut image = None;
    let mut detail = None;
    let mut id = None;
    let mut data = None;
    let mut url = None;
    let mut name = None;
    let mut mark = None;
    let mut open = r.object(s, &PART)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "type" => kind = Some(r.string(s)?),
            "text" => text = Some(r.string(s)?),
            "refusal" => refusal = Some(r.string(s)?),
            "image_url" => image = Some(media::place(s.string()?)),
            "detail" => detail = Some(r.string(s)?),
            "file_id" => id = Some(Place::Id(r.string(s)?)),
            "file_data" => data = Some(media::file(s.string()?)),
            "file_url" => url = Some(Place::Url(r.string(s)?)),
            "filename" => name = Some(r.string(s)?),
            "prompt_cache_breakpoint" => mark = Some(openai_chat::breakpoint(r, s)?),
            _ => {
                s.skip()?;
            }
        }
    }
    let Some(kind) = kind else { return r.missing("type") };
    match &*kind.decode() {
        "input_text" | "output_text" | "text" => {
            text.map_or_else(|| r.missing("text"), |text| Ok(Part::Text(text, mark)))
        }
        "refusal" => refusal.map_or_else(|| r.missing("refusal"), |text| Ok(Part::Refusal(text))),
        "input_image" if image.is_some() && id.is_some() => {
            r.loss(LossAction::Dropped, "file_id");
            let Some(from) = image else { return r.missing("image_url") };
            options::pictured(r, &from, "image_url")?;
            Ok(Part::Image { from, detail, mark })
        }
        "input_image" => match image.or(id) {
            Some(Place::Id(_)) if r.is_to_chat() => r.refuse("file_id", "the target takes no picture by file id"),
            Some(from) => {
                options::pictured(r, &from, "image_url")?;
                Ok(Part::Image { from, detail, mark })
            }
            None => r.missing("image_url"),
        },
        "input_file" => {
            if detail.is_some() {
                r.loss(LossAction::Dropped, "detail");
            }
            // One of them is enough; what else is given names the same file.
            let (has_data, has_id) = (data.is_some(), id.is_some());
            if has_data && has_id {
                r.loss(LossAction::Dropped, "file_id");
            }
            if (has_data || has_id) && url.is_some() {
                r.loss(LossAction::Dropped, "file_url");
            }
            let key = if has_data || has_id { "file_data" } else { "file_url" };
            let Some(from) = data.or(id).or(url) else { return r.missing("file_data") };
            options::filed(r, &from, key)?;
            Ok(Part::File { from, name, mark })
        }
        other => r.refuse("type", &format!("{} is not carried over", super::super::error::shown(other))),
    }
}
