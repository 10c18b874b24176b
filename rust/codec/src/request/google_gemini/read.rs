//! A Gemini body becomes a neutral request.
//!
//! 1. Calls and results may have no ids: a call is then named by its place, the same in every turn, and a result answers the
//!    first call of its name in the turn before it that has no result yet.
//! 2. A result's object is its text: the string where it has nothing but `output` or `result`, `error` is an error, any
//!    other object as it stands.
//! 3. Thoughts that follow one another are one, up to a signature.

use super::super::error::Res;
use super::super::flags::Flag;
use super::super::neutral::{
    Call, Choice, Format, Input, Message, Options, Part, Place, Reasoning, Request, Role, Str, Thinking, ToolResult,
};
use super::super::options;
use super::super::reader::Reader;
use super::{
    CALL, CHOICE, CONFIG, CONTENT, DECLARATION, FILE, INLINE, NO_AUDIO, NO_FILES, NO_IMAGES, PART, RESULT, SYSTEM,
    THINKING, TOOL, TOOL_CONFIG, TOP, signatures,
};
use crate::event::{ContinuationForm, Protocol};
use crate::json::{Kind, Scanner, Value};
use crate::loss::LossAction;

pub(in super::super) fn read<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Request<'a>> {
    r.list = "contents";
    r.snake = true;
    let mut request = Request::default();
    let mut system = None;
    let mut turns = Turns::default();
    let mut seen_contents = false;
    let mut open = r.object(s, &TOP)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "contents" => {
                seen_contents = true;
                r.each(s, "contents", |r, s| turns.content(r, s))?;
            }
            "systemInstruction" => system = Some(instruction(r, s)?),
            "stream" => request.options.stream = s.boolean()?,
            "generationConfig" => {
                r.enter("generationConfig");
                config(r, s, &mut request.options)?;
                r.leave();
            }
            "toolConfig" => tool_config(r, s, &mut request.options)?,
            "tools" => r.each(s, "tools", |r, s| {
                let mut open = r.object(s, &TOOL)?;
                while let Some(key) = r.next(s, &mut open)? {
                    if key != "functionDeclarations" {
                        s.skip()?;
                        r.loss(LossAction::Dropped, key);
                        continue;
                    }
                    r.each(s, "functionDeclarations", |r, s| {
                        request.tools.push(declaration(r, s)?.tool(r)?);
                        Ok(())
                    })?;
                }
                Ok(())
            })?,
            _ => {
                s.skip()?;
            }
        }
    }
    if !seen_contents {
        return r.missing("contents");
    }
    request.messages = turns.messages;
    if request.messages.last().is_some_and(|m| m.role == Role::Assistant) {
        r.enter("contents[]");
        r.loss(LossAction::Approximated, "role");
        r.leave();
    }
    if let Some(parts) = system.filter(|p| !p.is_empty()) {
        request.messages.insert(0, Message::new(Role::System, parts));
    }
    Ok(request)
}

/// A text, or a content of texts.
fn instruction<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Vec<Part<'a>>> {
    if s.kind()? == Kind::String {
        return Ok(vec![Part::Text(s.string()?.into(), None)]);
    }
    let mut parts = Vec::new();
    r.enter("systemInstruction");
    let mut open = r.object(s, &SYSTEM)?;
    while let Some(key) = r.next(s, &mut open)? {
        if key == "parts" {
            r.each(s, "parts", |r, s| {
                match part(r, s)?.holds {
                    Holds::Text(text) => parts.push(Part::Text(text, None)),
                    Holds::Nothing => {}
                    _ => return r.refuse("", "an instruction is text"),
                }
                Ok(())
            })?;
        } else {
            s.skip()?;
        }
    }
    r.leave();
    Ok(parts)
}

/// The conversation so far, and the calls that have no result yet.
#[derive(Default)]
struct Turns<'a> {
    messages: Vec<Message<'a>>,
    contents: usize,
    /// Id and name of each.
    open: Vec<(String, String)>,
}

impl<'a> Turns<'a> {
    fn content(&mut self, r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<()> {
        let at = self.contents;
        self.contents += 1;
        let mut role: Option<Str<'a>> = None;
        let mut read: Vec<Read<'a>> = Vec::new();
        let mut open = r.object(s, &CONTENT)?;
        while let Some(key) = r.next(s, &mut open)? {
            if key == "role" {
                role = Some(r.string(s)?);
            } else {
                r.each(s, "parts", |r, s| {
                    read.push(part(r, s)?);
                    Ok(())
                })?;
            }
        }
        match role.as_ref().map(Str::decode).as_deref() {
            Some("model") => self.said_by_model(r, at, read),
            None | Some("" | "user" | "function") => self.said_by_user(r, read),
            Some("system") => {
                let parts = read.into_iter().filter_map(Read::part).collect();
                self.messages.push(Message::new(Role::System, parts));
                Ok(())
            }
            Some(other) => options::unknown_role(r, other),
        }
    }

    fn said_by_user(&mut self, r: &mut Reader<'_>, read: Vec<Read<'a>>) -> Res<()> {
        let mut said = Vec::new();
        for part in read {
            if let Holds::Result(result) = part.holds {
                if !said.is_empty() {
                    self.messages.push(Message::new(Role::User, std::mem::take(&mut said)));
                }
                let result = self.result(*result);
                self.messages.push(Message::new(Role::Tool, vec![Part::Result(result)]));
            } else {
                said.extend(part.part());
            }
        }
        options::fits(r, Role::User, &said, "parts")?;
        if !said.is_empty() {
            self.messages.push(Message::new(Role::User, said));
        }
        Ok(())
    }

    fn said_by_model(&mut self, r: &mut Reader<'_>, at: usize, read: Vec<Read<'a>>) -> Res<()> {
        let mut parts: Vec<Part<'a>> = Vec::new();
        // A turn's calls are answered before the next turn; what was left open is answered by nobody.
        self.open.clear();
        let mut unsigned = false;
        for (n, mut part) in read.into_iter().enumerate() {
            if part.thought {
                let texts: Vec<Str<'a>> = match part.holds {
                    Holds::Text(text) if !text.is_empty() => vec![text],
                    _ => Vec::new(),
                };
                let goes_on = matches!(parts.last(), Some(Part::Reasoning(last)) if last.kept.is_none());
                if let (true, Some(Part::Reasoning(last))) = (goes_on, parts.last_mut()) {
                    last.texts.extend(texts);
                    last.kept = part.kept;
                } else {
                    parts.push(Part::Reasoning(Reasoning { texts, kept: part.kept }));
                }
                continue;
            }
            let kept = part.kept.take();
            let before = kept.as_ref().is_some_and(|_| matches!(part.holds, Holds::Call(_)));
            let mut reasoning = kept.map(|kept| Part::Reasoning(Reasoning { texts: Vec::new(), kept: Some(kept) }));
            if before {
                parts.extend(reasoning.take());
            }
            match part.holds {
                Holds::Call(call) => parts.push(Part::Call(self.call(*call, at, n))),
                Holds::Result(_) => return r.refuse(&format!("parts[{n}]"), "a result stands in a user's content"),
                _ => parts.extend(part.part()),
            }
            parts.extend(reasoning);
        }
        parts.retain(|p| {
            let drops = matches!(p, Part::Reasoning(t) if t.kept.is_none() && !r.echoes());
            unsigned |= drops && matches!(p, Part::Reasoning(t) if !t.texts.is_empty());
            !drops
        });
        if unsigned {
            r.enter("parts[]");
            r.loss(LossAction::Dropped, "thought");
            r.leave();
        }
        options::fits(r, Role::Assistant, &parts, "parts")?;
        if !parts.is_empty() {
            self.messages.push(Message::new(Role::Assistant, parts));
        }
        Ok(())
    }

    fn call(&mut self, call: ReadCall<'a>, at: usize, n: usize) -> Call<'a> {
        // Its place names it: the same in every turn.
        let id = call.id.filter(|id| !id.is_empty()).unwrap_or_else(|| Str::Own(format!("call_{at}_{n}")));
        self.open.push((id.decode().into_owned(), call.name.decode().into_owned()));
        let input = Input::Object(call.args.unwrap_or(b"{}"));
        Call { id, name: call.name, input, custom: false, extra: None }
    }

    fn result(&mut self, result: ReadResult<'a>) -> ToolResult<'a> {
        let given = result.id.filter(|id| !id.is_empty());
        let found = self.open.iter().position(|(id, name)| match &given {
            Some(given) => *id == given.decode(),
            None => *name == result.name,
        });
        let id = match (given, found) {
            (Some(id), _) => id,
            (None, Some(at)) => Str::Own(self.open[at].0.clone()),
            (None, None) => Str::Own(result.name),
        };
        if let Some(at) = found {
            self.open.remove(at);
        }
        ToolResult { id, is_error: result.is_error, parts: result.parts, extra: None }
    }
}

/// One part, whatever the order of its fields.
struct Read<'a> {
    thought: bool,
    kept: Option<super::super::neutral::Kept>,
    holds: Holds<'a>,
}

enum Holds<'a> {
    Nothing,
    Text(Str<'a>),
    Bytes(Part<'a>),
    Call(Box<ReadCall<'a>>),
    Result(Box<ReadResult<'a>>),
}

struct ReadCall<'a> {
    id: Option<Str<'a>>,
    name: Str<'a>,
    args: Option<&'a [u8]>,
}

struct ReadResult<'a> {
    id: Option<Str<'a>>,
    name: String,
    is_error: bool,
    parts: Vec<Part<'a>>,
}

impl<'a> Read<'a> {
    fn part(self) -> Option<Part<'a>> {
        match self.holds {
            Holds::Text(text) => Some(Part::Text(text, None)),
            Holds::Bytes(part) => Some(part),
            _ => None,
        }
    }
}

fn part<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Read<'a>> {
    let mut read = Read { thought: false, kept: None, holds: Holds::Nothing };
    let mut open = r.object(s, &PART)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "text" => read.holds = Holds::Text(r.string(s)?),
            "thought" => read.thought = s.boolean()?,
            "thoughtSignature" => read.kept = signature(r, s)?,
            "inlineData" => read.holds = Holds::Bytes(inline(r, s)?),
            "fileData" => read.holds = Holds::Bytes(file(r, s)?),
            "functionCall" => read.holds = Holds::Call(Box::new(call(r, s)?)),
            "functionResponse" => read.holds = Holds::Result(Box::new(result(r, s)?)),
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(read)
}

fn signature(r: &mut Reader<'_>, s: &mut Scanner<'_>) -> Res<Option<super::super::neutral::Kept>> {
    let text = s.string()?.decode().into_owned();
    if let Some(wrapped) = signatures::wrapped(&text) {
        return Ok(r.unwrapped(&wrapped, "thoughtSignature"));
    }
    if !text.is_empty() {
        r.loss(LossAction::Dropped, "thoughtSignature");
    }
    Ok(None)
}

fn inline<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Part<'a>> {
    r.enter("inlineData");
    let (mut mime, mut data) = (None, None);
    let mut open = r.object(s, &INLINE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "mimeType" => mime = Some(r.string(s)?),
            _ => data = Some(r.string(s)?),
        }
    }
    let Some(mime) = mime else { return r.missing("mimeType") };
    let Some(data) = data else { return r.missing("data") };
    let kind = mime.decode().into_owned();
    let part = bytes(r, &kind, Place::Base64 { mime, data })?;
    r.leave();
    Ok(part)
}

fn file<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<Part<'a>> {
    r.enter("fileData");
    let (mut mime, mut uri) = (None, None);
    let mut open = r.object(s, &FILE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "mimeType" => mime = Some(r.string(s)?.decode().into_owned()),
            _ => uri = Some(r.string(s)?),
        }
    }
    let Some(uri) = uri else { return r.missing("fileUri") };
    let link = uri.decode().into_owned();
    if !link.starts_with("http") || link.contains("generativelanguage.googleapis.com") {
        return r.refuse("fileUri", "the target's vendor does not hold this file");
    }
    let kind = mime.unwrap_or_else(|| if is_picture(&link) { "image/*".to_owned() } else { String::new() });
    let sounds = kind.starts_with("audio/") || kind.starts_with("video/");
    if !kind.starts_with("image/") && !sounds && r.is_to_chat() {
        return r.refuse("fileUri", "Chat takes no file by URL");
    }
    let part = bytes(r, &kind, Place::Url(uri))?;
    r.leave();
    Ok(part)
}

fn is_picture(link: &str) -> bool {
    let path = link.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    [".png", ".jpg", ".jpeg", ".gif", ".webp"].iter().any(|end| path.ends_with(end))
}

fn bytes<'a>(r: &mut Reader<'_>, mime: &str, from: Place<'a>) -> Res<Part<'a>> {
    if mime.starts_with("image/") {
        if !r.has(Flag::Images) {
            return r.refuse("", NO_IMAGES);
        }
        options::pictured(r, &from, "fileUri")?;
        return Ok(Part::Image { from, detail: None, mark: None });
    }
    if mime.starts_with("audio/") || mime.starts_with("video/") {
        return r.refuse("mimeType", NO_AUDIO);
    }
    if !r.has(Flag::Files) {
        return r.refuse("", NO_FILES);
    }
    Ok(Part::File { from, name: None, mark: None })
}

fn call<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<ReadCall<'a>> {
    r.enter("functionCall");
    let (mut id, mut name, mut args) = (None, None, None);
    let mut open = r.object(s, &CALL)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "id" => id = Some(r.string(s)?),
            "name" => name = Some(r.string(s)?),
            "args" => args = Some(s.skip()?),
            _ => {
                s.skip()?;
            }
        }
    }
    let Some(name) = name else { return r.missing("name") };
    r.leave();
    Ok(ReadCall { id, name, args })
}

fn result<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<ReadResult<'a>> {
    r.enter("functionResponse");
    let (mut id, mut name, mut response) = (None, None, None);
    let mut more = Vec::new();
    let mut open = r.object(s, &RESULT)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "id" => id = Some(r.string(s)?),
            "name" => name = Some(r.string(s)?.decode().into_owned()),
            "response" => response = Some(s.skip()?),
            _ => r.each(s, "parts", |r, s| {
                more.extend(part(r, s)?.part());
                Ok(())
            })?,
        }
    }
    let Some(name) = name else { return r.missing("name") };
    let (text, is_error) = said(response.unwrap_or(b"{}"))?;
    if is_error && !r.is_to(Protocol::AnthropicMessages) {
        r.loss(LossAction::Dropped, "response.error");
    }
    r.leave();
    let mut parts = vec![Part::Text(text, None)];
    parts.append(&mut more);
    Ok(ReadResult { id, name, is_error, parts })
}

/// What a result's object says, and whether it is an error.
fn said(response: &[u8]) -> Res<(Str<'_>, bool)> {
    let mut s = Scanner::new(response);
    let mut items = s.object()?;
    let mut only = None;
    let mut count = 0;
    while let Some(key) = s.key(&mut items)? {
        count += 1;
        only = Some((key, s.value()?));
    }
    if let (1, Some((key, value))) = (count, only) {
        let is_error = key.is("error");
        match value {
            Value::String(text) if is_error || key.is("output") || key.is("result") => {
                return Ok((Str::Lit(text), is_error));
            }
            _ if is_error => return Ok((as_text(response), true)),
            _ => {}
        }
    }
    Ok((as_text(response), false))
}

fn as_text(raw: &[u8]) -> Str<'static> {
    Str::Own(String::from_utf8_lossy(raw).into_owned())
}

fn config<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    let mut schema = None;
    let mut mime: Option<String> = None;
    let mut open = r.object(s, &CONFIG)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "maxOutputTokens" => o.max_tokens = Some(options::limit(r, s, key)?),
            "temperature" if r.is_to(Protocol::AnthropicMessages) => options::temperature(r, s, o)?,
            "stopSequences" => o.stop = r.strings(s, key)?,
            "candidateCount" => {
                if s.count_or_skip()? != Some(1) {
                    return r.refuse(key, "one candidate is what the target gives");
                }
            }
            "responseMimeType" => mime = Some(r.string(s)?.decode().into_owned()),
            "responseSchema" | "responseJsonSchema" => schema = Some(s.skip()?),
            "responseModalities" => r.each(s, key, |r, s| match &*r.string(s)?.decode() {
                "TEXT" | "text" => Ok(()),
                _ => r.refuse("", "the target gives text"),
            })?,
            "thinkingConfig" => thinking(r, s, o)?,
            _ => r.pass(s, &open, o)?,
        }
    }
    match mime.as_deref() {
        None | Some("text/plain" | "application/json") => {}
        Some(_) => return r.refuse("responseMimeType", "the target answers in text or JSON"),
    }
    if let Some(schema) = schema {
        if r.has(Flag::JsonSchema) {
            o.format = Some(Format::Schema { name: None, description: None, schema, strict: None });
        } else {
            r.loss(LossAction::Dropped, "responseJsonSchema");
        }
    } else if mime.as_deref() == Some("application/json") {
        options::format(r, o, "json_object", None, "responseMimeType")?;
    }
    Ok(())
}

fn thinking<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("thinkingConfig");
    let mut open = r.object(s, &THINKING)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "includeThoughts" => {
                if s.boolean()? {
                    o.summary = Some((Str::Own("auto".to_owned()), "generationConfig.thinkingConfig.includeThoughts"));
                }
            }
            "thinkingBudget" => {
                // -1 leaves it to the model.
                let raw = s.number()?;
                match crate::json::count(raw) {
                    Some(0) => level(r, o, "none", key),
                    Some(budget) => options::budgeted(r, o, budget, key),
                    None if raw == b"-1" => {
                        o.thinking = r.is_to(Protocol::AnthropicMessages).then_some(Thinking::Adaptive);
                    }
                    None => return r.expected(key, "a whole number"),
                }
            }
            _ => {
                let word = r.string(s)?.decode().to_ascii_lowercase();
                if word != "thinking_level_unspecified" {
                    level(r, o, &word, key);
                }
            }
        }
    }
    r.leave();
    Ok(())
}

fn level(r: &mut Reader<'_>, o: &mut Options<'_>, word: &str, key: &'static str) {
    if r.has(Flag::Effort) || r.is_to(Protocol::AnthropicMessages) {
        options::effort_word(r, o, Str::Own(word.to_owned()), key);
    } else {
        r.loss(LossAction::Dropped, key);
    }
}

fn declaration<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>) -> Res<options::Declared<'a>> {
    let mut t = options::Declared::default();
    let mut open = r.object(s, &DECLARATION)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "name" => t.name = Some(r.string(s)?),
            "description" => t.description = Some(r.string(s)?),
            _ => t.schema = Some(s.skip()?),
        }
    }
    Ok(t)
}

fn tool_config<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    r.enter("toolConfig");
    let mut open = r.object(s, &TOOL_CONFIG)?;
    while r.next(s, &mut open)?.is_some() {
        r.enter("functionCallingConfig");
        let mut mode = String::new();
        let mut allowed = Vec::new();
        let mut open = r.object(s, &CHOICE)?;
        while let Some(key) = r.next(s, &mut open)? {
            match key {
                "mode" => mode = r.string(s)?.decode().to_ascii_uppercase(),
                "allowedFunctionNames" => allowed = r.strings(s, key)?,
                _ => {
                    s.skip()?;
                }
            }
        }
        o.choice = match mode.as_str() {
            "" | "MODE_UNSPECIFIED" => None,
            "AUTO" | "VALIDATED" => Some(Choice::Auto),
            "NONE" => Some(Choice::None),
            "ANY" if allowed.len() == 1 => allowed.pop().map(|name| Choice::Named { name, custom: false }),
            "ANY" => Some(Choice::Required),
            _ => return r.expected("mode", "AUTO, ANY, NONE or VALIDATED"),
        };
        if !allowed.is_empty() {
            o.allowed = Some(allowed);
        }
        options::forced(r, o)?;
        r.leave();
    }
    r.leave();
    Ok(())
}

/// The form that a continuation of Gemini's own has.
pub(super) const FORM: ContinuationForm = ContinuationForm::ThoughtSignature;
