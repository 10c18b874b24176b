//! A Responses body becomes a neutral request: everything but the input items.

use super::super::error::{Res, shown};
use super::super::flags::Flag;
use super::super::neutral::{Choice, Format, Grammar, Message, Options, Part, Request, Role, Str, Tool};
use super::super::openai_chat;
use super::super::options;
use super::super::reader::{Reader, type_of};
use super::{CHOICE, CUSTOM_FORMAT, FORMAT, REASONING, TEXT, TOOL, TOOL_TYPES, TOP, items};
use crate::event::Protocol;
use crate::json::{Kind, Scanner};
use crate::loss::LossAction;

pub(in super::super) fn read<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Request<'a>> {
    let mut request = Request::default();
    let mut instructions = None;
    let mut seen_input = false;
    r.list = "input";
    let mut open = r.object(s, &TOP)?;
    while let Some(key) = r.next(s, &mut open)? {
        let o = &mut request.options;
        match key {
            "model" => {
                s.skip()?;
            }
            "input" => {
                seen_input = true;
                items::read(r, s, &mut request.messages, &mut request.tools)?;
            }
            "instructions" => instructions = Some(r.string(s)?),
            "background" => {
                if s.boolean()? {
                    return r.refuse("background", "the target answers at once or not at all");
                }
            }
            "include" => r.each(s, "include", |r, s| {
                if r.string(s)?.decode() != "reasoning.encrypted_content" {
                    r.loss(LossAction::Dropped, "");
                }
                Ok(())
            })?,
            "max_output_tokens" => o.max_tokens = Some(options::whole(r, s, key)?),
            "parallel_tool_calls" => o.parallel = Some(s.boolean()?),
            "reasoning" => {
                r.enter("reasoning");
                let mut open = r.object(s, &REASONING)?;
                while let Some(key) = r.next(s, &mut open)? {
                    match key {
                        "effort" => options::effort(r, s, o, "effort")?,
                        _ => o.summary = Some((r.string(s)?, "reasoning.summary")),
                    }
                }
                r.leave();
            }
            "service_tier" => tier(r, s, o)?,
            "store" => o.store = options::store(r, s.boolean()?),
            "stream" => o.stream = s.boolean()?,
            "temperature" if r.is_to(Protocol::AnthropicMessages) => options::temperature(r, s, o)?,
            "text" => text(r, s, o)?,
            "tool_choice" => choice(r, s, o)?,
            "tools" => tools(r, s, "tools", &mut request.tools)?,
            "truncation" => {
                if r.string(s)?.decode() != "disabled" {
                    r.loss(LossAction::Dropped, "truncation");
                }
            }
            "user" | "safety_identifier" if r.is_to(Protocol::AnthropicMessages) => options::user(r, s, o, key)?,
            _ => r.pass(s, &open, o)?,
        }
    }
    if !seen_input {
        return r.missing("input");
    }
    if let Some(text) = instructions {
        request.messages.insert(0, Message::new(Role::System, vec![Part::Text(text, None)]));
    }
    Ok(request)
}

fn tier<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    if r.is_to(Protocol::AnthropicMessages) {
        return options::tier(r, s, o);
    }
    let raw = s.skip()?;
    if r.has(Flag::Extras) && raw != b"\"ultrafast\"" {
        o.passed.push(("service_tier", raw));
    } else {
        r.loss(LossAction::Dropped, "service_tier");
    }
    Ok(())
}

fn text<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("text");
    let mut open = r.object(s, &TEXT)?;
    while let Some(key) = r.next(s, &mut open)? {
        if key == "format" {
            format(r, s, o)?;
        } else {
            o.verbosity = Some(r.string(s)?);
        }
    }
    r.leave();
    Ok(())
}

fn format<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("format");
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

/// Reads a list of tools: the body's, a namespace's, or those of an `additional_tools` item.
pub(super) fn tools<'a>(
    r: &mut Reader<'_>,
    s: &mut Scanner<'a>,
    key: &'static str,
    out: &mut Vec<Tool<'a>>,
) -> Res<()> {
    r.each(s, key, |r, s| tool(r, s, None, out))
}

fn tool<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, namespace: Option<&Str<'a>>, out: &mut Vec<Tool<'a>>) -> Res<()> {
    // The type says which fields mean anything, and may come last.
    let kind = type_of(s)?;
    let Some(kind) = kind else { return r.missing("type") };
    let kind = kind.decode();
    if TOOL_TYPES.find(|k| k == kind).is_none() {
        s.skip()?;
        // The provider's own tools: a hint. A choice that forces one is refused by itself.
        r.loss(LossAction::Dropped, &format!("type:{}", shown(&kind)));
        return Ok(());
    }
    r.kind(&TOOL_TYPES, &kind)?;
    let mut t = options::Declared { custom: kind == "custom", ..options::Declared::default() };
    let mut inner = None;
    let mut open = r.object(s, &TOOL)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "name" => t.name = Some(r.string(s)?),
            "description" => t.description = Some(r.string(s)?),
            "parameters" => t.schema = Some(s.skip()?),
            "strict" => t.strict = Some(s.boolean()?),
            "format" => t.grammar = grammar(r, s)?,
            "tools" if kind == "namespace" && namespace.is_none() => {
                // Its name may come later.
                inner = Some(s.clone());
                s.skip()?;
            }
            _ => {
                s.skip()?;
            }
        }
    }
    if kind == "namespace" {
        let Some(name) = t.name else { return r.missing("name") };
        if t.description.is_some_and(|d| !d.is_empty()) {
            r.loss(LossAction::Dropped, "description");
        }
        let Some(mut at) = inner else { return r.missing("tools") };
        return r.each(&mut at, "tools", |r, s| tool(r, s, Some(&name), out));
    }
    if let (Some(namespace), Some(name)) = (namespace, &t.name) {
        t.name = Some(options::in_namespace(namespace, name));
    }
    out.push(t.tool(r)?);
    Ok(())
}

fn grammar<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Option<Grammar<'a>>> {
    r.enter("format");
    let mut is_text = false;
    let (mut definition, mut syntax) = (None, None);
    let mut open = r.object(s, &CUSTOM_FORMAT)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "type" => is_text = r.string(s)?.decode() == "text",
            "definition" => definition = Some(r.string(s)?),
            _ => syntax = Some(r.string(s)?),
        }
    }
    let grammar = match (definition, syntax) {
        (Some(definition), Some(syntax)) => Some(Grammar { syntax, definition }),
        _ if is_text => None,
        (None, _) => return r.missing("definition"),
        (_, None) => return r.missing("syntax"),
    };
    r.leave();
    Ok(grammar)
}

fn choice<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("tool_choice");
    if s.kind()? == Kind::String {
        o.choice = options::mode(r, &s.string()?.decode())?;
        r.leave();
        return Ok(());
    }
    let mut kind: Option<Str<'a>> = None;
    let mut name = None;
    let mut mode: Option<Str<'a>> = None;
    let mut open = r.object(s, &CHOICE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "type" => kind = Some(r.string(s)?),
            "name" => name = Some(r.string(s)?),
            "mode" => mode = Some(r.string(s)?),
            "tools" => o.allowed = Some(openai_chat::allowed(r, s)?),
            _ => {
                s.skip()?;
            }
        }
    }
    let Some(kind) = kind else { return r.missing("type") };
    match &*kind.decode() {
        "allowed_tools" => {
            let Some(mode) = mode else { return r.missing("mode") };
            o.choice = options::mode(r, &mode.decode())?;
            if o.allowed.is_none() {
                return r.missing("tools");
            }
        }
        kind @ ("function" | "custom") => {
            let Some(name) = name else { return r.missing("name") };
            o.choice = Some(Choice::Named { name, custom: kind == "custom" });
        }
        other => {
            return r.refuse("type", &format!("{} is the provider's own tool, which the target lacks", shown(other)));
        }
    }
    options::forced(r, o)?;
    r.leave();
    Ok(())
}
