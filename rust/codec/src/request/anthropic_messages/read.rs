//! A Messages body becomes a neutral request: everything but the blocks.

use super::super::error::{Res, shown};
use super::super::flags::Flag;
use super::super::neutral::{Choice, Format, Message, Options, Request, Role, Str, Thinking, Tool};
use super::super::reader::Reader;
use super::super::{ids, options};
use super::{CHOICE, FORMAT, MESSAGE, METADATA, OUTPUT, THINKING, TOOL, TOP, blocks};
use crate::event::Protocol;
use crate::json::{Kind, Scanner};
use crate::loss::LossAction;

pub(in super::super) fn read<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Request<'a>> {
    let mut request = Request::default();
    let mut system = None;
    let mut seen_messages = false;
    let mut open = r.object(s, &TOP)?;
    while let Some(key) = r.next(s, &mut open)? {
        let o = &mut request.options;
        match key {
            "model" | "anthropic_version" => {
                s.skip()?;
            }
            "messages" => {
                seen_messages = true;
                messages(r, s, &mut request.messages)?;
            }
            "system" => system = Some(blocks::content(r, s, "system", 0)?),
            "max_tokens" => o.max_tokens = Some(options::limit(r, s, key)?),
            "metadata" => metadata(r, s, o)?,
            "output_config" => output(r, s, o)?,
            "service_tier" => tier(r, s, o)?,
            "stop_sequences" => o.stop = r.strings(s, "stop_sequences")?,
            "stream" => o.stream = s.boolean()?,
            "thinking" => thinking(r, s, o)?,
            "tool_choice" => choice(r, s, o)?,
            "tools" => r.each(s, "tools", |r, s| {
                request.tools.extend(tool(r, s)?);
                Ok(())
            })?,
            _ => r.pass(s, &open, o)?,
        }
    }
    if !seen_messages {
        return r.missing("messages");
    }
    if request.messages.last().is_some_and(|m| m.role == Role::Assistant) && !r.is_to(Protocol::AnthropicMessages) {
        // Messages goes on from it; the target answers it.
        r.enter("messages[]");
        r.loss(LossAction::Approximated, "role");
        r.leave();
    }
    if let Some(parts) = system.filter(|p| !p.is_empty()) {
        request.messages.insert(0, Message::new(Role::System, parts));
    }
    Ok(request)
}

fn messages<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, out: &mut Vec<Message<'a>>) -> Res<()> {
    r.each(s, "messages", |r, s| {
        let mut role: Option<Str<'a>> = None;
        let mut parts = None;
        let mut open = r.object(s, &MESSAGE)?;
        while let Some(key) = r.next(s, &mut open)? {
            if key == "role" {
                role = Some(r.string(s)?);
            } else {
                parts = Some(blocks::content(r, s, "content", 0)?);
            }
        }
        let Some(role) = role else { return r.missing("role") };
        let Some(parts) = parts else { return r.missing("content") };
        let from = out.len();
        match &*role.decode() {
            "user" => blocks::split(parts, out),
            "assistant" => out.push(Message::new(Role::Assistant, parts)),
            // One without content gives directions to its own vendor alone.
            "system" if parts.is_empty() => {}
            "system" => out.push(Message::new(Role::System, parts)),
            other => return options::unknown_role(r, other),
        }
        // Results stand alone by now.
        let mut said = out[from..].iter().filter(|m| m.role != Role::Tool);
        said.try_for_each(|m| options::fits(r, m.role, &m.parts, "content"))
    })
}

fn metadata<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("metadata");
    let mut open = r.object(s, &METADATA)?;
    while r.next(s, &mut open)?.is_some() {
        let user = r.string(s)?;
        if !r.has(Flag::Extras) && !r.has(Flag::User) {
            r.loss(LossAction::Dropped, "user_id");
            continue;
        }
        // OpenAI's bound. A hash still tells users apart.
        o.user = Some(if user.decode().chars().count() > 64 {
            r.loss(LossAction::Approximated, "user_id");
            Str::Own(ids::item_id("user", &user.decode()))
        } else {
            user
        });
    }
    r.leave();
    Ok(())
}

fn output<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("output_config");
    let mut open = r.object(s, &OUTPUT)?;
    while let Some(key) = r.next(s, &mut open)? {
        if key == "effort" {
            if r.is_to(Protocol::AnthropicMessages) {
                o.effort = Some(r.string(s)?);
            } else {
                options::effort(r, s, o, "effort")?;
            }
            continue;
        }
        r.enter("format");
        let mut schema = None;
        let mut open = r.object(s, &FORMAT)?;
        while let Some(key) = r.next(s, &mut open)? {
            if key == "schema" {
                schema = Some(s.skip()?);
            } else if r.string(s)?.decode() != "json_schema" {
                return r.expected("type", "json_schema");
            }
        }
        let Some(schema) = schema else { return r.missing("schema") };
        o.format = Some(Format::Schema { name: None, description: None, schema, strict: Some(true) });
        r.leave();
    }
    r.leave();
    Ok(())
}

fn tier<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    match &*s.string()?.decode() {
        "auto" if r.has(Flag::Extras) => o.passed.push(("service_tier", b"\"auto\"")),
        "standard_only" if r.has(Flag::Extras) => o.passed.push(("service_tier", b"\"default\"")),
        _ => r.loss(LossAction::Dropped, "service_tier"),
    }
    Ok(())
}

fn thinking<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("thinking");
    let mut kind: Option<Str<'a>> = None;
    let (mut budget, mut omitted) = (None, false);
    let mut open = r.object(s, &THINKING)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "type" => kind = Some(r.string(s)?),
            "budget_tokens" => {
                budget = s.count_or_skip()?;
                if budget.is_none() {
                    return r.expected("budget_tokens", "a whole number");
                }
            }
            _ => match &*s.string()?.decode() {
                "summarized" if r.is_to(Protocol::OpenaiResponses) => {
                    o.summary = Some((Str::Own("auto".to_owned()), "thinking.display"));
                }
                "summarized" if r.is_to(Protocol::AnthropicMessages) => {
                    o.summary = Some((Str::Own("summarized".to_owned()), "thinking.display"));
                }
                "omitted" => omitted = true,
                _ if r.is_to(Protocol::GoogleGemini) => {}
                _ => r.loss(LossAction::Dropped, "display"),
            },
        }
    }
    let Some(kind) = kind else { return r.missing("type") };
    if r.is_to(Protocol::GoogleGemini) && matches!(&*kind.decode(), "enabled" | "adaptive") && !omitted {
        o.summary = Some((Str::Own("auto".to_owned()), "thinking.display"));
    }
    match &*kind.decode() {
        "enabled" if budget.is_none() => return r.missing("budget_tokens"),
        "enabled" if r.is_to(Protocol::GoogleGemini) => {
            if r.has(Flag::ThinkingBudget) {
                o.thinking = budget.map(super::super::neutral::Thinking::Budget);
            } else if o.effort.is_none() {
                let word = Str::Own(options::effort_of(budget.unwrap_or_default()).to_owned());
                r.loss(LossAction::Approximated, "budget_tokens");
                options::effort_word(r, o, word, "budget_tokens");
            }
        }
        "disabled" if r.is_to(Protocol::GoogleGemini) => {
            options::effort_word(r, o, Str::Own("none".to_owned()), "type");
        }
        "enabled" if r.is_to(Protocol::AnthropicMessages) => {
            let has = (r.has(Flag::ThinkingBudget), r.has(Flag::AdaptiveThinking));
            match has {
                (true, _) => {}
                (false, true) => r.loss(LossAction::Approximated, "budget_tokens"),
                (false, false) => r.loss(LossAction::Dropped, "budget_tokens"),
            }
            o.thinking = match has {
                (true, _) => budget.map(Thinking::Budget),
                (false, true) => Some(Thinking::Adaptive),
                (false, false) => None,
            };
        }
        "adaptive" if r.is_to(Protocol::AnthropicMessages) => {
            if r.has(Flag::AdaptiveThinking) {
                o.thinking = Some(Thinking::Adaptive);
            } else {
                r.loss(LossAction::Dropped, "type");
            }
        }
        // It is off unless it is asked for.
        "disabled" if r.is_to(Protocol::AnthropicMessages) => {}
        "enabled" if !r.has(Flag::Effort) => r.loss(LossAction::Dropped, "budget_tokens"),
        "enabled" => {
            r.loss(LossAction::Approximated, "budget_tokens");
            // An effort that was asked for by name wins; it may still come.
            o.thinking = budget.map(Thinking::Budget);
        }
        // The target decides itself how much it thinks.
        "adaptive" => {}
        "disabled" | "between_tools" => r.loss(LossAction::Dropped, "type"),
        other => {
            let _ = shown(other);
            return r.expected("type", "enabled, adaptive, between_tools or disabled");
        }
    }
    r.leave();
    Ok(())
}

fn choice<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("tool_choice");
    let mut kind: Option<Str<'a>> = None;
    let mut name = None;
    let mut open = r.object(s, &CHOICE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "type" => kind = Some(r.string(s)?),
            "name" => name = Some(r.string(s)?),
            _ => o.parallel = Some(!s.boolean()?),
        }
    }
    let Some(kind) = kind else { return r.missing("type") };
    o.choice = Some(match &*kind.decode() {
        "auto" => Choice::Auto,
        "none" => Choice::None,
        "any" => Choice::Required,
        "tool" => match name {
            Some(name) => Choice::Named { name, custom: false },
            None => return r.missing("name"),
        },
        _ => return r.expected("type", "auto, any, tool or none"),
    });
    options::forced(r, o)?;
    r.leave();
    Ok(())
}

fn tool<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Option<Tool<'a>>> {
    // The type says whether the vendor knows the tool, whose other fields are then its own.
    let mut ahead = s.clone();
    if let Some(mut items) = ahead.object_or_skip()? {
        while let Some(key) = ahead.key(&mut items)? {
            if key.is("type")
                && let Kind::String = ahead.kind()?
            {
                let kind = ahead.string()?;
                if !kind.is("custom") {
                    s.skip()?;
                    r.loss(LossAction::Dropped, &format!("type:{}", shown(&kind.decode())));
                    return Ok(None);
                }
                break;
            }
            ahead.skip()?;
        }
    }
    let mut t = options::Declared::default();
    let mut open = r.object(s, &TOOL)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "name" => t.name = Some(r.string(s)?),
            "description" => t.description = Some(r.string(s)?),
            "input_schema" => t.schema = Some(s.skip()?),
            "strict" => t.strict = Some(s.boolean()?),
            "cache_control" => t.mark = Some(blocks::mark(s)?),
            _ => {
                s.skip()?;
            }
        }
    }
    t.tool(r).map(Some)
}
