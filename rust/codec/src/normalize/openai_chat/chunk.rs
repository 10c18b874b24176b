//! One chunk or one whole body, read into what the normaliser acts on. Reading changes nothing and gives nothing out.
//!
//! 1. One pass; what only some vendors send is kept as raw JSON and read again only where it is there.
//! 2. `null`, empty, and a value of an unexpected kind are the same as absence (rules R1, R15, R21a).
//! 3. Only choice 0 is kept (rule R20).
//!
//! What any of it means must not be decided here.

use crate::event::CallKind;
use crate::json::{Kind, Scan, Scanner};
use crate::normalize::template::{self, Ignored};
use crate::text::Literal;

#[derive(Debug, Default)]
pub(super) struct Chunk<'a> {
    pub id: Option<Literal<'a>>,
    pub model: Option<Literal<'a>>,
    pub choice: Option<Choice<'a>>,
    /// Further entries of choice 0 in the same chunk.
    pub more: Vec<Choice<'a>>,
    pub choices: Choices,
    /// An object, as it stood.
    pub usage: Option<&'a [u8]>,
    pub citations: Option<&'a [u8]>,
    pub search_results: Option<&'a [u8]>,
    /// The payload reports an error.
    pub failed: bool,
    /// The error itself, where it stands deeper than at the top.
    pub inner_error: Option<&'a [u8]>,
    /// Values that no part of the reading looks at.
    pub ignored: Ignored,
    /// It says that the stream ends with it, where a finish reason does not.
    pub last: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Choices {
    #[default]
    Absent,
    Empty,
    Some,
}

#[derive(Debug, Default)]
pub(super) struct Choice<'a> {
    pub delta: Delta<'a>,
    /// `delta` was read from a whole `message`.
    pub whole: bool,
    pub finish: Option<Literal<'a>>,
    pub usage: Option<&'a [u8]>,
    pub error: Option<&'a [u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Delta<'a> {
    pub content: Content<'a>,
    pub refusal: Option<Literal<'a>>,
    /// The first of the fields of [`REASONING`] that is not empty, with its place there.
    pub reasoning: Option<(usize, Literal<'a>)>,
    pub call: Option<Fragment<'a>>,
    pub calls: Vec<Fragment<'a>>,
    pub legacy: Option<Box<Fragment<'a>>>,
    /// What some vendors add, as it stood: arrays and objects that are not empty.
    pub extras: Vec<(Extra, &'a [u8])>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    Details,
    Steps,
    Images,
    Audio,
    Annotations,
    HostedTools,
    Signed,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Content<'a> {
    #[default]
    None,
    Text(Literal<'a>),
    /// Typed parts, as they stood.
    Parts(&'a [u8]),
}

/// One entry of `tool_calls`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    pub index: Option<u64>,
    pub id: Option<Literal<'a>>,
    pub name: Option<Literal<'a>>,
    pub arguments: Arguments<'a>,
    pub kind: CallKind,
    /// State of the call that goes back with it.
    pub signature: Option<Literal<'a>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Arguments<'a> {
    #[default]
    None,
    Text(Literal<'a>),
    /// A JSON value instead of text.
    Value(&'a [u8]),
}

/// Fields of readable reasoning, the one to be read first where several are there.
const REASONING: [&[u8]; 4] = [b"reasoning_content", b"reasoning", b"thinking", b"reasoning_text"];

/// Reads a payload that must be one object and nothing else. `whole` prefers `message` to `delta`.
pub(super) fn read<'a>(json: &'a [u8], whole: bool, chunk: &mut Chunk<'a>) -> Scan<()> {
    let mut s = Scanner::new(json);
    let mut flat = Flat::default();
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.bytes().as_ref() {
            b"id" => chunk.id = name(&mut s, &mut chunk.ignored)?,
            b"model" => chunk.model = name(&mut s, &mut chunk.ignored)?,
            b"choices" => choices(&mut s, chunk, whole)?,
            b"usage" => chunk.usage = object(&mut s)?,
            b"x_groq" => x_groq(&mut s, chunk)?,
            b"error" => chunk.failed |= truthy(s.skip()?),
            b"base_resp" => chunk.failed |= base_resp(&mut s)?,
            b"citations" => chunk.citations = array(&mut s)?,
            b"search_results" => chunk.search_results = array(&mut s)?,
            b"object" | b"type" => {
                let word = s.string_or_skip()?;
                flat.error |= word.is_some_and(|l| l.is("error"));
                flat.named |= word.is_some_and(|l| l.raw.ends_with(b"error"));
                chunk.last |= word.is_some_and(|l| l.is("end_of_stream"));
            }
            b"message" => flat.message = truthy(s.skip()?),
            b"code" => flat.named |= truthy(s.skip()?),
            b"detail" | b"errors" => flat.detail |= truthy(s.skip()?),
            b"status" | b"status_code" => flat.status |= s.count_or_skip()?.is_some_and(|n| n >= 400),
            _ => chunk.ignored.skip(&mut s)?,
        }
    }
    s.end()?;
    chunk.failed |= chunk.choices == Choices::Absent && flat.is_error();
    Ok(())
}

/// An error that stands at the top instead of under `error`.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent findings, not states")]
struct Flat {
    error: bool,
    message: bool,
    named: bool,
    detail: bool,
    status: bool,
}

impl Flat {
    fn is_error(&self) -> bool {
        self.error || self.detail || self.status || (self.message && self.named)
    }
}

fn choices<'a>(s: &mut Scanner<'a>, chunk: &mut Chunk<'a>, whole: bool) -> Scan<()> {
    let Some(mut items) = s.array_or_skip()? else { return Ok(()) };
    if chunk.choices == Choices::Absent {
        chunk.choices = Choices::Empty;
    }
    while s.item(&mut items)? {
        chunk.choices = Choices::Some;
        // Read into its place: a choice is large, and copying it costs more than reading it.
        let is_first = chunk.choice.is_none();
        let mut further = Choice::default();
        let place = if is_first { chunk.choice.get_or_insert_default() } else { &mut further };
        if !choice(s, whole, place, &mut chunk.ignored)? {
            if is_first {
                chunk.choice = None;
            }
            continue;
        }
        if let Some(error) = place.error {
            chunk.failed = true;
            chunk.inner_error = chunk.inner_error.or(Some(error));
        }
        if !is_first {
            chunk.more.push(further);
        }
    }
    Ok(())
}

/// One choice; false where it is another than choice 0.
fn choice<'a>(s: &mut Scanner<'a>, whole: bool, choice: &mut Choice<'a>, ignored: &mut Ignored) -> Scan<bool> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(false) };
    let (mut index, mut has_delta, mut has_message) = (0, false, false);
    let (mut other, mut text): (Option<&[u8]>, Option<&[u8]>) = (None, None);
    let mut text_at = None;
    while let Some(key) = s.key(&mut members)? {
        match key.bytes().as_ref() {
            b"index" => index = s.count_or_skip()?.unwrap_or(0),
            b"delta" if !whole => has_delta = delta(s, &mut choice.delta, ignored)?,
            b"message" if whole => has_message = delta(s, &mut choice.delta, ignored)?,
            b"delta" | b"message" => other = object(s)?,
            b"text" => {
                let raw = s.skip()?;
                text = Some(raw);
                text_at = Some(template::place(s, raw));
            }
            b"finish_reason" => choice.finish = filled(s.string_or_skip()?),
            b"usage" => choice.usage = object(s)?,
            b"error" => choice.error = Some(s.skip()?).filter(|raw| truthy(raw)),
            _ => ignored.skip(s)?,
        }
    }
    if index != 0 {
        return Ok(false);
    }
    choice.whole = has_message;
    if !has_delta && !has_message {
        if let Some(raw) = other {
            delta(&mut Scanner::new(raw), &mut choice.delta, &mut Ignored::default())?;
            choice.whole = !whole;
        } else if let Some(Ok(text)) = text.map(|raw| Scanner::new(raw).string()) {
            // Legacy completions.
            choice.delta.content = Content::Text(text);
        }
    } else if let Some(place) = text_at {
        // Beside a delta it says the same again.
        ignored.note_at(place);
    }
    Ok(true)
}

fn delta<'a>(s: &mut Scanner<'a>, delta: &mut Delta<'a>, ignored: &mut Ignored) -> Scan<bool> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(false) };
    while let Some(key) = s.key(&mut members)? {
        let key = key.bytes();
        match key.as_ref() {
            b"content" => {
                delta.content = match s.kind()? {
                    Kind::String => Content::Text(s.string()?),
                    Kind::Array => Content::Parts(s.skip()?),
                    _ => {
                        s.skip()?;
                        Content::None
                    }
                }
            }
            b"tool_calls" => tool_calls(s, delta)?,
            b"refusal" => delta.refusal = filled(s.string_or_skip()?),
            b"function_call" => delta.legacy = legacy(s)?,
            b"reasoning_details" => extra(s, delta, Extra::Details)?,
            b"reasoning_steps" => extra(s, delta, Extra::Steps)?,
            b"images" => extra(s, delta, Extra::Images)?,
            b"audio" => extra(s, delta, Extra::Audio)?,
            b"annotations" => extra(s, delta, Extra::Annotations)?,
            b"executed_tools" => extra(s, delta, Extra::HostedTools)?,
            b"extra_content" => extra(s, delta, Extra::Signed)?,
            name => match REASONING.iter().position(|field| *field == name) {
                Some(place) => {
                    let text = filled(s.string_or_skip()?);
                    if let Some(text) = text
                        && delta.reasoning.is_none_or(|(known, _)| place < known)
                    {
                        delta.reasoning = Some((place, text));
                    }
                }
                None => ignored.skip(s)?,
            },
        }
    }
    Ok(true)
}

/// A name of the response: it counts only until one was given out, and is ignored from then on.
fn name<'a>(s: &mut Scanner<'a>, ignored: &mut Ignored) -> Scan<Option<Literal<'a>>> {
    let text = s.string_or_skip()?;
    if let Some(text) = text {
        // The quotes belong to the value.
        ignored.note_at(((s.pos() - text.raw.len() - 2) as u32, s.pos() as u32));
    }
    Ok(filled(text))
}

fn extra<'a>(s: &mut Scanner<'a>, delta: &mut Delta<'a>, extra: Extra) -> Scan<()> {
    let raw = s.skip()?;
    if raw.len() > 2 && matches!(raw[0], b'[' | b'{') {
        delta.extras.push((extra, raw));
    }
    Ok(())
}

fn tool_calls<'a>(s: &mut Scanner<'a>, delta: &mut Delta<'a>) -> Scan<()> {
    let Some(mut items) = s.array_or_skip()? else { return Ok(()) };
    while s.item(&mut items)? {
        let Some(fragment) = fragment(s)? else { continue };
        if delta.call.is_none() {
            delta.call = Some(fragment);
        } else {
            delta.calls.push(fragment);
        }
    }
    Ok(())
}

fn fragment<'a>(s: &mut Scanner<'a>) -> Scan<Option<Fragment<'a>>> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let (mut index, mut id, mut signature, mut is_custom) = (None, None, None, false);
    let (mut function, mut custom) = ((None, Arguments::None), (None, Arguments::None));
    while let Some(key) = s.key(&mut members)? {
        match key.bytes().as_ref() {
            b"index" => index = s.count_or_skip()?,
            b"id" => id = filled(s.string_or_skip()?),
            b"type" => is_custom = s.string_or_skip()?.is_some_and(|l| l.is("custom")),
            b"function" => function = called(s, "arguments")?,
            b"custom" => custom = called(s, "input")?,
            b"extra_content" => signature = thought_signature(s.skip()?)?,
            _ => {
                s.skip()?;
            }
        }
    }
    let said = |(name, arguments): &(Option<Literal<'_>>, Arguments<'_>)| match arguments {
        Arguments::Text(text) => name.is_some() || !text.raw.is_empty(),
        _ => name.is_some(),
    };
    let is_custom = is_custom || (said(&custom) && !said(&function));
    let (name, arguments) = if is_custom { custom } else { function };
    let kind = if is_custom { CallKind::Custom } else { CallKind::Function };
    Ok(Some(Fragment { index, id, name, arguments, kind, signature }))
}

/// `{name, arguments}` or `{name, input}`.
fn called<'a>(s: &mut Scanner<'a>, text: &str) -> Scan<(Option<Literal<'a>>, Arguments<'a>)> {
    let Some(mut members) = s.object_or_skip()? else { return Ok((None, Arguments::None)) };
    let (mut name, mut arguments) = (None, Arguments::None);
    while let Some(key) = s.key(&mut members)? {
        if key.is("name") {
            name = filled(s.string_or_skip()?);
        } else if key.is(text) {
            arguments = match s.kind()? {
                Kind::String => Arguments::Text(s.string()?),
                Kind::Null => {
                    s.null()?;
                    Arguments::None
                }
                _ => Arguments::Value(s.skip()?),
            };
        } else {
            s.skip()?;
        }
    }
    Ok((name, arguments))
}

fn legacy<'a>(s: &mut Scanner<'a>) -> Scan<Option<Box<Fragment<'a>>>> {
    let (name, arguments) = called(s, "arguments")?;
    let said = name.is_some()
        || match arguments {
            Arguments::None => false,
            Arguments::Text(text) => !text.raw.is_empty(),
            Arguments::Value(_) => true,
        };
    let kind = CallKind::Function;
    let fragment = || Box::new(Fragment { index: None, id: None, name, arguments, kind, signature: None });
    Ok(said.then(fragment))
}

/// `{"google":{"thought_signature":"..."}}`
pub(super) fn thought_signature(raw: &[u8]) -> Scan<Option<Literal<'_>>> {
    let google = member(raw, "google")?;
    match google.map(|raw| member(raw, "thought_signature")).transpose()?.flatten() {
        Some(raw) => Ok(filled(Scanner::new(raw).string_or_skip()?)),
        None => Ok(None),
    }
}

/// The raw value of a member of an object; the last one where it is there twice.
pub(super) fn member<'a>(raw: &'a [u8], name: &str) -> Scan<Option<&'a [u8]>> {
    let mut s = Scanner::new(raw);
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let mut found = None;
    while let Some(key) = s.key(&mut members)? {
        let value = s.skip()?;
        if key.is(name) {
            found = Some(value);
        }
    }
    Ok(found)
}

/// A string member that is not empty.
pub(super) fn string_member<'a>(raw: &'a [u8], name: &str) -> Scan<Option<Literal<'a>>> {
    Ok(member(raw, name)?.and_then(|value| Scanner::new(value).string().ok()).filter(|l| !l.raw.is_empty()))
}

fn x_groq<'a>(s: &mut Scanner<'a>, chunk: &mut Chunk<'a>) -> Scan<()> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(()) };
    while let Some(key) = s.key(&mut members)? {
        if key.is("usage") {
            let usage = object(s)?;
            chunk.usage = chunk.usage.or(usage);
        } else if key.is("error") {
            let raw = s.skip()?;
            if truthy(raw) {
                chunk.failed = true;
                chunk.inner_error = Some(raw);
            }
        } else {
            s.skip()?;
        }
    }
    Ok(())
}

fn base_resp(s: &mut Scanner<'_>) -> Scan<bool> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(false) };
    let mut failed = false;
    while let Some(key) = s.key(&mut members)? {
        if key.is("status_code") {
            failed = s.count_or_skip()?.is_some_and(|code| code != 0);
        } else {
            s.skip()?;
        }
    }
    Ok(failed)
}

fn object<'a>(s: &mut Scanner<'a>) -> Scan<Option<&'a [u8]>> {
    let raw = s.skip()?;
    Ok((raw.first() == Some(&b'{')).then_some(raw))
}

fn array<'a>(s: &mut Scanner<'a>) -> Scan<Option<&'a [u8]>> {
    let raw = s.skip()?;
    Ok((raw.first() == Some(&b'[')).then_some(raw))
}

fn filled(text: Option<Literal<'_>>) -> Option<Literal<'_>> {
    text.filter(|l| !l.raw.is_empty())
}

/// Whether a value says anything: not null, false, 0, or empty.
fn truthy(raw: &[u8]) -> bool {
    match raw {
        b"null" | b"false" | b"0" | b"\"\"" => false,
        [b'{' | b'[', inside @ .., _] => !inside.trim_ascii().is_empty(),
        _ => true,
    }
}
