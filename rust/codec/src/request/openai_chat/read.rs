//! A Chat Completions body becomes a neutral request.

use super::super::error::Res;
use super::super::media;
use super::super::neutral::{
    Call, Choice, Format, Grammar, Input, Kept, Mark, Message, Options, Part, Place, Reasoning, Request, Role, Str,
    Tool, ToolResult,
};
use super::super::reader::Reader;
use super::super::{ids, options};
use super::{
    ALLOWED, ALLOWED_TOOL, CALL, CALLED, CHOICE, CUSTOM, CUSTOM_FORMAT, DETAIL, FILE, FORMAT, FUNCTION, GRAMMAR, IMAGE,
    MARK, MESSAGE, NAMED, PART, REASONING, SCHEMA, STREAM_OPTIONS, TOOL, TOP,
};
use crate::event::{ContinuationForm, Protocol};
use crate::json::{Kind, Scanner};
use crate::loss::LossAction;

pub(in super::super) fn read<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Request<'a>> {
    let mut request = Request::default();
    let mut open = r.object(s, &TOP)?;
    let mut seen_messages = false;
    while let Some(key) = r.next(s, &mut open)? {
        let o = &mut request.options;
        match key {
            "model" => {
                s.skip()?;
            }
            "messages" => {
                seen_messages = true;
                messages(r, s, &mut request.messages)?;
            }
            "tools" => r.each(s, "tools", |r, s| {
                request.tools.extend(tool(r, s)?);
                Ok(())
            })?,
            "functions" => r.each(s, "functions", |r, s| {
                request.tools.push(function(r, s)?);
                Ok(())
            })?,
            "tool_choice" | "function_call" => choice(r, s, key, o)?,
            "max_completion_tokens" | "max_tokens" => {
                let most = options::limit(r, s, key)?;
                // The newer name wins, whichever comes first.
                if o.max_tokens.is_some() {
                    r.loss(LossAction::Dropped, "max_tokens");
                }
                if key == "max_completion_tokens" || o.max_tokens.is_none() {
                    o.max_tokens = Some(most);
                }
            }
            "modalities" => r.each(s, "modalities", |r, s| match r.string(s)?.decode().as_ref() {
                "text" => Ok(()),
                _ => r.refuse("", super::NO_AUDIO),
            })?,
            "n" => {
                if s.count_or_skip()? != Some(1) {
                    return r.refuse("n", "one choice is what the target gives");
                }
            }
            "parallel_tool_calls" => o.parallel = Some(s.boolean()?),
            "reasoning_effort" => options::effort(r, s, o, "reasoning_effort")?,
            "reasoning" => reasoning(r, s, o)?,
            "response_format" => format(r, s, o)?,
            "stop" => o.stop = r.strings(s, "stop")?,
            "store" => o.store = options::store(r, s.boolean()?),
            "stream" => o.stream = s.boolean()?,
            "stream_options" => {
                r.enter("stream_options");
                let mut open = r.object(s, &STREAM_OPTIONS)?;
                while r.next(s, &mut open)?.is_some() {
                    s.skip()?;
                }
                r.leave();
            }
            "verbosity" => o.verbosity = Some(r.string(s)?),
            "service_tier" if r.is_to(Protocol::AnthropicMessages) => options::tier(r, s, o)?,
            "temperature" if r.is_to(Protocol::AnthropicMessages) => options::temperature(r, s, o)?,
            "user" | "safety_identifier" if r.is_to(Protocol::AnthropicMessages) => options::user(r, s, o, key)?,
            _ => r.pass(s, &open, o)?,
        }
    }
    if !seen_messages {
        return r.missing("messages");
    }
    Ok(request)
}

/// How much is to be thought, as a router of many vendors' models has it.
fn reasoning<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("reasoning");
    let mut open = r.object(s, &REASONING)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "effort" => options::effort(r, s, o, "effort")?,
            "max_tokens" => {
                let Some(budget) = s.count_or_skip()? else { return r.expected(key, "a whole number") };
                options::budgeted(r, o, budget, key);
            }
            _ => o.summary = Some((r.string(s)?, "reasoning.summary")),
        }
    }
    r.leave();
    Ok(())
}

fn messages<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, out: &mut Vec<Message<'a>>) -> Res<()> {
    // The id of the last call in the old form, which has none of its own.
    let mut last_function: Option<String> = None;
    r.each(s, "messages", |r, s| {
        let read = message(r, s)?;
        read.place(r, out, &mut last_function)
    })
}

/// The fields of one message, whatever their order.
#[derive(Default)]
struct Read<'a> {
    role: Option<Str<'a>>,
    content: Vec<Part<'a>>,
    name: Option<Str<'a>>,
    refusal: Option<Str<'a>>,
    calls: Vec<Call<'a>>,
    call_id: Option<Str<'a>>,
    function: Option<(Str<'a>, Input<'a>)>,
    /// Readable reasoning, and the field it stood in.
    thought: Option<(Str<'a>, &'static str)>,
    reasoning: Vec<Reasoning<'a>>,
    /// Signatures with the id of the call that each stands on; without one it stands on the text.
    signatures: Vec<(Option<String>, Reasoning<'a>)>,
}

fn message<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Read<'a>> {
    let mut m = Read::default();
    let mut open = r.object(s, &MESSAGE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "role" => m.role = Some(r.string(s)?),
            "content" => m.content = content(r, s)?,
            "name" => m.name = Some(r.string(s)?),
            "refusal" => m.refusal = Some(r.string(s)?),
            "tool_calls" => r.each(s, "tool_calls", |r, s| {
                m.calls.push(call(r, s)?);
                Ok(())
            })?,
            "tool_call_id" => m.call_id = Some(r.string(s)?),
            "function_call" => {
                r.enter("function_call");
                m.function = Some(called(r, s, "arguments")?);
                r.leave();
            }
            "reasoning_details" => r.each(s, "reasoning_details", |r, s| {
                match detail(r, s)? {
                    Some((id, kept))
                        if kept.kept.as_ref().is_some_and(|k| k.form == ContinuationForm::ThoughtSignature) =>
                    {
                        m.signatures.push((id, kept));
                    }
                    other => m.reasoning.extend(other.map(|(_, reasoning)| reasoning)),
                }
                Ok(())
            })?,
            "reasoning_content" => m.thought = Some((r.string(s)?, "reasoning_content")),
            "reasoning" if m.thought.is_none() => m.thought = Some((r.string(s)?, "reasoning")),
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(m)
}

impl<'a> Read<'a> {
    fn place(self, r: &mut Reader<'_>, out: &mut Vec<Message<'a>>, last_function: &mut Option<String>) -> Res<()> {
        let Some(role) = &self.role else { return r.missing("role") };
        let role = role.decode().into_owned();
        if self.name.is_some() && role != "function" {
            r.loss(LossAction::Dropped, "name");
        }
        match role.as_str() {
            "system" => out.push(Message::new(Role::System, self.content)),
            "developer" => out.push(Message::new(Role::Developer, self.content)),
            "user" => out.push(Message::new(Role::User, self.content)),
            "assistant" => {
                options::fits(r, Role::Assistant, &self.content, "content")?;
                let parts = self.assistant(r, out.len(), last_function);
                out.push(Message::new(Role::Assistant, parts));
            }
            "tool" => {
                let Some(id) = self.call_id else { return r.missing("tool_call_id") };
                let result = ToolResult { id, is_error: false, parts: self.content, extra: None };
                out.push(Message::new(Role::Tool, vec![Part::Result(result)]));
            }
            "function" => {
                let Some(id) = last_function.take() else {
                    return r.refuse("role", "no function_call stands before this result");
                };
                let result = ToolResult { id: Str::Own(id), is_error: false, parts: self.content, extra: None };
                out.push(Message::new(Role::Tool, vec![Part::Result(result)]));
            }
            _ => return r.expected("role", "system, developer, user, assistant, tool or function"),
        }
        Ok(())
    }

    fn assistant(mut self, r: &mut Reader<'_>, at: usize, last_function: &mut Option<String>) -> Vec<Part<'a>> {
        let mut parts = Vec::with_capacity(self.content.len() + self.calls.len() + self.reasoning.len() + 1);
        if let Some((text, key)) = self.thought.take() {
            if self.reasoning.is_empty() {
                if r.echoes() {
                    self.reasoning.push(Reasoning { texts: vec![text], kept: None });
                } else if !text.is_empty() {
                    r.loss(LossAction::Dropped, key);
                }
            } else if let Some(bare) = self.reasoning.iter_mut().find(|t| t.texts.is_empty()) {
                // Otherwise the details have the same text, beside what it is signed with.
                bare.texts.push(text);
            }
        }
        parts.extend(self.reasoning.into_iter().map(Part::Reasoning));
        parts.append(&mut self.content);
        parts.extend(self.refusal.map(Part::Refusal));
        let mut signatures = std::mem::take(&mut self.signatures);
        parts.extend(signatures.extract_if(.., |(id, _)| id.is_none()).map(|(_, kept)| Part::Reasoning(kept)));
        for call in self.calls {
            let own = |id: &Option<String>| id.as_deref().is_some_and(|id| id == call.id.decode());
            let stand = signatures.extract_if(.., |(id, _)| own(id)).map(|(_, kept)| Part::Reasoning(kept));
            parts.extend(stand.collect::<Vec<_>>());
            parts.push(Part::Call(call));
        }
        if let Some((name, input)) = self.function {
            // Its place names it: the same in every turn.
            let id = ids::item_id("call", &format!("{at}:{}", name.decode()));
            *last_function = Some(id.clone());
            parts.push(Part::Call(Call { id: Str::Own(id), name, input, custom: false, extra: None }));
        }
        parts
    }
}

fn content<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Vec<Part<'a>>> {
    if s.kind()? == Kind::String {
        return Ok(vec![Part::Text(s.string()?.into(), None)]);
    }
    let mut parts = Vec::new();
    r.each(s, "content", |r, s| {
        parts.push(part(r, s)?);
        Ok(())
    })?;
    Ok(parts)
}

fn part<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Part<'a>> {
    let mut kind: Option<Str<'a>> = None;
    let mut text: Option<Str<'a>> = None;
    let mut refusal: Option<Str<'a>> = None;
    let mut image = None;
    let mut file = None;
    let mut mark = None;
    let mut open = r.object(s, &PART)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "type" => kind = Some(r.string(s)?),
            "text" => text = Some(r.string(s)?),
            "refusal" => refusal = Some(r.string(s)?),
            "image_url" => image = Some(image_url(r, s)?),
            "file" => file = Some(file_part(r, s)?),
            "prompt_cache_breakpoint" => mark = Some(breakpoint(r, s)?),
            _ => {
                s.skip()?;
            }
        }
    }
    let Some(kind) = kind else { return r.missing("type") };
    match &*kind.decode() {
        "text" => text.map_or_else(|| r.missing("text"), |t| Ok(Part::Text(t, mark))),
        "refusal" => refusal.map_or_else(|| r.missing("refusal"), |t| Ok(Part::Refusal(t))),
        "image_url" => {
            image.map_or_else(|| r.missing("image_url"), |(from, detail)| Ok(Part::Image { from, detail, mark }))
        }
        "file" => {
            let Some((from, name)) = file else { return r.missing("file") };
            options::filed(r, &from, "file.file_data")?;
            Ok(Part::File { from, name, mark })
        }
        other => r.refuse("type", &format!("{} is not carried over", super::super::error::shown(other))),
    }
}

/// A cache mark in `OpenAI`'s spelling.
pub(in super::super) fn breakpoint<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Mark<'a>> {
    let raw = s.clone().skip()?;
    r.enter("prompt_cache_breakpoint");
    let mut long = false;
    let mut open = r.object(s, &MARK)?;
    while let Some(key) = r.next(s, &mut open)? {
        s.skip()?;
        if key == "ttl" {
            long = true;
            if r.is_to(Protocol::AnthropicMessages) {
                r.loss(LossAction::Approximated, "ttl");
            }
        }
    }
    r.leave();
    Ok(Mark { raw, long })
}

fn image_url<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<(Place<'a>, Option<Str<'a>>)> {
    r.enter("image_url");
    let (mut url, mut detail) = (None, None);
    let mut open = r.object(s, &IMAGE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "url" => url = Some(media::place(s.string()?)),
            _ => detail = Some(r.string(s)?),
        }
    }
    let Some(url) = url else { return r.missing("url") };
    options::pictured(r, &url, "url")?;
    r.leave();
    Ok((url, detail))
}

fn file_part<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<(Place<'a>, Option<Str<'a>>)> {
    r.enter("file");
    let (mut data, mut id, mut name) = (None, None, None);
    let mut open = r.object(s, &FILE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "file_data" => data = Some(media::file(s.string()?)),
            "file_id" => id = Some(Place::Id(r.string(s)?)),
            _ => name = Some(r.string(s)?),
        }
    }
    if data.is_some() && id.is_some() {
        r.loss(LossAction::Dropped, "file_id");
    }
    let Some(from) = data.or(id) else { return r.missing("file_data") };
    r.leave();
    Ok((from, name))
}

fn call<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Call<'a>> {
    let (mut id, mut function, mut custom) = (None, None, None);
    let mut open = r.object(s, &CALL)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "id" => id = Some(r.string(s)?),
            "function" => {
                r.enter("function");
                function = Some(called(r, s, "arguments")?);
                r.leave();
            }
            "custom" => {
                r.enter("custom");
                custom = Some(called(r, s, "input")?);
                r.leave();
            }
            _ => {
                s.skip()?;
            }
        }
    }
    let Some(id) = id else { return r.missing("id") };
    match (function, custom) {
        (Some((name, input)), _) => Ok(Call { id, name, input, custom: false, extra: None }),
        (None, Some((name, input))) => Ok(Call { id, name, input, custom: true, extra: None }),
        (None, None) => r.missing("function"),
    }
}

/// The name and the text of a call; `text` is the key that the latter stands under.
fn called<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, text: &'static str) -> Res<(Str<'a>, Input<'a>)> {
    let (mut name, mut input) = (None, None);
    let mut open = r.object(s, &CALLED)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "name" => name = Some(r.string(s)?),
            key if key == text => input = Some(r.string(s)?),
            _ => {
                s.skip()?;
            }
        }
    }
    let Some(name) = name else { return r.missing("name") };
    // A call without arguments is a call with none.
    let input = input.unwrap_or_else(|| Str::Own(String::new()));
    let input = if text == "arguments" { options::input(r, input, text) } else { Input::Text(input) };
    Ok((name, input))
}

/// An entry's reasoning, and the id of the call that it stands on.
fn detail<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Option<(Option<String>, Reasoning<'a>)>> {
    let mut id = None;
    let mut text: Option<(Str<'a>, &'static str)> = None;
    let mut kept: Option<Kept> = None;
    let mut open = r.object(s, &DETAIL)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "text" | "summary" => text = Some((r.string(s)?, key)),
            "signature" => kept = r.unwrap(s.string()?, "signature"),
            "data" => kept = r.unwrap(s.string()?, "data"),
            "id" => id = Some(r.string(s)?.decode().into_owned()),
            _ => {
                s.skip()?;
            }
        }
    }
    if kept.is_none() && !r.echoes() {
        if let Some((_, key)) = text.filter(|(t, _)| !t.is_empty()) {
            r.loss(LossAction::Dropped, key);
        }
        return Ok(None);
    }
    let reasoning = Reasoning { texts: text.into_iter().map(|(t, _)| t).collect(), kept };
    let says = reasoning.kept.is_some() || reasoning.texts.iter().any(|t| !t.is_empty());
    Ok(says.then_some((id, reasoning)))
}

fn tool<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Option<Tool<'a>>> {
    let mut kind: Option<Str<'a>> = None;
    let mut tool = None;
    let mut open = r.object(s, &TOOL)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "type" => kind = Some(r.string(s)?),
            "function" => {
                r.enter("function");
                tool = Some(function(r, s)?);
                r.leave();
            }
            _ => {
                r.enter("custom");
                tool = Some(custom(r, s)?);
                r.leave();
            }
        }
    }
    if tool.is_none() {
        let Some(kind) = kind else { return r.missing("type") };
        if matches!(&*kind.decode(), "function" | "custom") {
            return r.missing(if kind.decode() == "custom" { "custom" } else { "function" });
        }
        // A vendor's own tool (`builtin_function`): the target has none like it.
        r.loss(LossAction::Dropped, "type");
    }
    Ok(tool)
}

fn function<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Tool<'a>> {
    let mut t = options::Declared::default();
    let mut open = r.object(s, &FUNCTION)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "name" => t.name = Some(r.string(s)?),
            "description" => t.description = Some(r.string(s)?),
            "parameters" => t.schema = Some(s.skip()?),
            _ => t.strict = Some(s.boolean()?),
        }
    }
    t.tool(r)
}

fn custom<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Tool<'a>> {
    let mut t = options::Declared { custom: true, ..options::Declared::default() };
    let mut open = r.object(s, &CUSTOM)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "name" => t.name = Some(r.string(s)?),
            "description" => t.description = Some(r.string(s)?),
            _ => {
                r.enter("format");
                let mut open = r.object(s, &CUSTOM_FORMAT)?;
                while let Some(key) = r.next(s, &mut open)? {
                    if key == "grammar" {
                        r.enter("grammar");
                        t.grammar = Some(grammar(r, s)?);
                        r.leave();
                    } else {
                        s.skip()?;
                    }
                }
                r.leave();
            }
        }
    }
    t.tool(r)
}

fn grammar<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Grammar<'a>> {
    let (mut definition, mut syntax) = (None, None);
    let mut open = r.object(s, &GRAMMAR)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "definition" => definition = Some(r.string(s)?),
            _ => syntax = Some(r.string(s)?),
        }
    }
    match (definition, syntax) {
        (Some(definition), Some(syntax)) => Ok(Grammar { syntax, definition }),
        (None, _) => r.missing("definition"),
        (_, None) => r.missing("syntax"),
    }
}

fn choice<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, key: &'static str, o: &mut Options<'a>) -> Res<()> {
    r.enter(key);
    if s.kind()? == Kind::String {
        o.choice = options::mode(r, &s.string()?.decode())?;
        r.leave();
        return Ok(());
    }
    let mut open = r.object(s, &CHOICE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "function" => o.choice = Some(Choice::Named { name: named(r, s, "function")?, custom: false }),
            "custom" => o.choice = Some(Choice::Named { name: named(r, s, "custom")?, custom: true }),
            "name" => o.choice = Some(Choice::Named { name: r.string(s)?, custom: false }),
            "allowed_tools" => {
                r.enter("allowed_tools");
                let mut open = r.object(s, &ALLOWED)?;
                while let Some(key) = r.next(s, &mut open)? {
                    if key == "mode" {
                        o.choice = options::mode(r, &s.string()?.decode())?;
                    } else {
                        o.allowed = Some(allowed(r, s)?);
                    }
                }
                r.leave();
            }
            _ => {
                s.skip()?;
            }
        }
    }
    if o.choice.is_none() {
        return r.expected("", "a mode, a function or a custom tool");
    }
    options::forced(r, o)?;
    r.leave();
    Ok(())
}

/// The name of a function or custom tool that is chosen.
pub(in super::super) fn named<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, key: &'static str) -> Res<Str<'a>> {
    r.enter(key);
    let mut name = None;
    let mut open = r.object(s, &NAMED)?;
    while r.next(s, &mut open)?.is_some() {
        name = Some(r.string(s)?);
    }
    let Some(name) = name else { return r.missing("name") };
    r.leave();
    Ok(name)
}

/// The names of `allowed_tools`, in either protocol's spelling.
pub(in super::super) fn allowed<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Vec<Str<'a>>> {
    let mut names = Vec::new();
    r.each(s, "tools", |r, s| {
        let mut name = None;
        let mut open = r.object(s, &ALLOWED_TOOL)?;
        while let Some(key) = r.next(s, &mut open)? {
            match key {
                "name" => name = Some(r.string(s)?),
                "function" => name = Some(named(r, s, "function")?),
                "custom" => name = Some(named(r, s, "custom")?),
                _ => {
                    s.skip()?;
                }
            }
        }
        match name {
            Some(name) => names.push(name),
            // One of the provider's own tools, which are not declared either.
            None => r.loss(LossAction::Dropped, "type"),
        }
        Ok(())
    })?;
    Ok(names)
}

fn format<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("response_format");
    let mut open = r.object(s, &FORMAT)?;
    let mut kind: Option<Str<'a>> = None;
    let mut schema = None;
    while let Some(key) = r.next(s, &mut open)? {
        if key == "type" {
            kind = Some(r.string(s)?);
        } else {
            r.enter("json_schema");
            schema = Some(json_schema(r, s)?);
            r.leave();
        }
    }
    let Some(kind) = kind else { return r.missing("type") };
    options::format(r, o, &kind.decode(), schema, "json_schema")?;
    r.leave();
    Ok(())
}

fn json_schema<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Format<'a>> {
    let (mut name, mut description, mut schema, mut strict) = (None, None, None, None);
    let mut open = r.object(s, &SCHEMA)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "name" => name = Some(r.string(s)?),
            "description" => description = Some(r.string(s)?),
            "schema" => schema = Some(s.skip()?),
            _ => strict = Some(s.boolean()?),
        }
    }
    // A format without a schema is any object.
    Ok(Format::Schema { name, description, schema: schema.unwrap_or(b"{}"), strict })
}
