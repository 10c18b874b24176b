//! Reads one payload of Cohere's chat in one pass, into what borrows from it. Gives out nothing.

use crate::json::{Kind, Scan, Scanner};
use crate::normalize::template::Ignored;
use crate::text::Literal;

/// One event of the stream, or one whole body.
#[derive(Default)]
pub(super) struct Frame<'a> {
    pub kind: Option<Literal<'a>>,
    pub index: Option<u64>,
    pub id: Option<Literal<'a>>,
    pub message: Message<'a>,
    pub finish: Option<Literal<'a>>,
    /// Text beside a finish reason that is an error.
    pub error: Option<Literal<'a>>,
    /// An object, as it stood.
    pub usage: Option<&'a [u8]>,
    /// It says that something went wrong and is no event.
    pub failed: bool,
    /// What version 1 of the protocol calls its members.
    pub old: Option<Box<Old<'a>>>,
    /// Values that no part of the reading looks at.
    pub ignored: Ignored,
}

/// `delta.message` of an event, `message` of a body.
#[derive(Default)]
pub(super) struct Message<'a> {
    /// The part of an event.
    pub part: Option<Part<'a>>,
    /// The parts of a body.
    pub parts: Vec<Part<'a>>,
    pub plan: Option<Literal<'a>>,
    /// The call of an event.
    pub call: Option<Call<'a>>,
    /// The calls of a body.
    pub calls: Vec<Call<'a>>,
    pub citations: Vec<Citation<'a>>,
}

/// A content part; empty texts are absent.
#[derive(Default)]
pub(super) struct Part<'a> {
    pub text: Option<Literal<'a>>,
    pub thinking: Option<Literal<'a>>,
}

/// A call, or a fragment of one.
#[derive(Default)]
pub(super) struct Call<'a> {
    pub id: Option<Literal<'a>>,
    pub name: Option<Literal<'a>>,
    /// Argument text.
    pub text: Option<Literal<'a>>,
    /// Arguments as a JSON value instead.
    pub value: Option<&'a [u8]>,
}

/// A source of a stretch of text.
#[derive(Default)]
pub(super) struct Citation<'a> {
    pub url: Option<Literal<'a>>,
    pub title: Option<Literal<'a>>,
    /// Where it is a stretch of the answer's own text.
    pub span: Option<(u64, u64)>,
    pub raw: &'a [u8],
}

/// An event of version 1.
pub(super) struct Old<'a> {
    pub kind: Literal<'a>,
    pub id: Option<Literal<'a>>,
    pub text: Option<Literal<'a>>,
    pub calls: Vec<Call<'a>>,
    /// Of the answer that the end repeats.
    pub usage: Option<&'a [u8]>,
}

/// The counts of a usage object.
#[derive(Default)]
pub(super) struct Tokens {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cached: Option<u64>,
    pub reasoning: Option<u64>,
}

/// One stream event.
pub(super) fn frame(json: &[u8]) -> Scan<Frame<'_>> {
    let mut frame = Frame::default();
    let (mut old_kind, mut old_id, mut old_text, mut calls, mut response) = (None, None, None, None, None);
    let (mut has_message, mut s) = (false, Scanner::new(json));
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => frame.kind = s.string_or_skip()?,
            b"index" => frame.index = s.count_or_skip()?,
            b"delta" => delta(&mut s, &mut frame)?,
            b"id" => frame.id = filled(s.string_or_skip()?),
            b"message" => has_message = s.skip()?.starts_with(b"\""),
            b"event_type" => old_kind = s.string_or_skip()?,
            b"generation_id" => old_id = filled(s.string_or_skip()?),
            b"text" => old_text = filled(s.string_or_skip()?),
            b"tool_calls" => calls = Some(s.skip()?),
            b"response" => response = Some(s.skip()?),
            b"finish_reason" => frame.finish = filled(s.string_or_skip()?),
            _ => frame.ignored.skip(&mut s)?,
        }
    }
    s.end()?;
    if let Some(kind) = old_kind {
        let calls = calls.map(|raw| list(raw, old_call)).transpose()?.unwrap_or_default();
        let meta = response.map(|raw| member(raw, b"meta")).transpose()?.flatten();
        let usage = meta.filter(|raw| raw.starts_with(b"{"));
        if let Some(raw) = usage {
            tokens(raw)?;
        }
        frame.old = Some(Box::new(Old { kind, id: old_id, text: old_text, calls, usage }));
    }
    frame.failed = has_message && frame.kind.is_none() && frame.old.is_none();
    Ok(frame)
}

/// A whole body: an answer, or an error; or an event of version 1, which came one a line.
pub(super) fn body(json: &[u8]) -> Scan<Frame<'_>> {
    let (mut frame, mut said, mut answered) = (Frame::default(), false, false);
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"id" => frame.id = filled(s.string_or_skip()?),
            b"message" => match s.kind()? {
                Kind::Object => {
                    message(&mut s, &mut frame.message, &mut frame.ignored)?;
                    answered = true;
                }
                _ => said |= s.string_or_skip()?.is_some(),
            },
            b"finish_reason" => frame.finish = filled(s.string_or_skip()?),
            b"usage" => frame.usage = usage(&mut s)?,
            b"error" => said |= s.skip()? != b"null",
            b"event_type" => return self::frame(json),
            _ => {
                s.skip()?;
            }
        }
    }
    s.end()?;
    frame.failed = said && !answered;
    Ok(frame)
}

fn delta<'a>(s: &mut Scanner<'a>, frame: &mut Frame<'a>) -> Scan<()> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(()) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"message" => message(s, &mut frame.message, &mut frame.ignored)?,
            b"finish_reason" => frame.finish = filled(s.string_or_skip()?),
            b"error" => frame.error = filled(s.string_or_skip()?),
            b"usage" => frame.usage = usage(s)?,
            _ => frame.ignored.skip(s)?,
        }
    }
    Ok(())
}

fn message<'a>(s: &mut Scanner<'a>, into: &mut Message<'a>, ignored: &mut Ignored) -> Scan<()> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(()) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"content" => match s.kind()? {
                Kind::Object => into.part = Some(part(s, ignored)?),
                Kind::Array => into.parts = items(s, |s| part(s, &mut Ignored::default()))?,
                Kind::String => into.parts = vec![Part { text: filled(s.string_or_skip()?), thinking: None }],
                _ => {
                    s.skip()?;
                }
            },
            b"tool_plan" => into.plan = filled(s.string_or_skip()?),
            b"tool_calls" => match s.kind()? {
                Kind::Object => into.call = Some(call(s)?),
                Kind::Array => into.calls = items(s, call)?,
                _ => {
                    s.skip()?;
                }
            },
            b"citations" => match s.kind()? {
                Kind::Object => into.citations.push(citation(s.skip()?)?),
                _ => into.citations.extend(list(s.skip()?, citation)?),
            },
            _ => ignored.skip(s)?,
        }
    }
    Ok(())
}

/// The objects of an array, read in place.
fn items<'a, T>(s: &mut Scanner<'a>, mut read: impl FnMut(&mut Scanner<'a>) -> Scan<T>) -> Scan<Vec<T>> {
    let (mut found, mut items) = (Vec::new(), s.array()?);
    while s.item(&mut items)? {
        if s.kind()? == Kind::Object {
            found.push(read(s)?);
        } else {
            s.skip()?;
        }
    }
    Ok(found)
}

/// As [`items`], of a value that was skipped.
fn list<'a, T>(raw: &'a [u8], mut read: impl FnMut(&'a [u8]) -> Scan<T>) -> Scan<Vec<T>> {
    let mut s = Scanner::new(raw);
    if s.kind()? != Kind::Array {
        return Ok(Vec::new());
    }
    items(&mut s, |s| read(s.skip()?))
}

fn part<'a>(s: &mut Scanner<'a>, ignored: &mut Ignored) -> Scan<Part<'a>> {
    let (mut part, mut members) = (Part::default(), s.object()?);
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"text" => part.text = filled(s.string_or_skip()?),
            b"thinking" => part.thinking = filled(s.string_or_skip()?),
            _ => ignored.skip(s)?,
        }
    }
    Ok(part)
}

fn call<'a>(s: &mut Scanner<'a>) -> Scan<Call<'a>> {
    let (mut call, mut members) = (Call::default(), s.object()?);
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"id" => call.id = filled(s.string_or_skip()?),
            b"function" => {
                let Some(mut members) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut members)? {
                    match key.raw {
                        b"name" => call.name = filled(s.string_or_skip()?),
                        b"arguments" => match s.kind()? {
                            Kind::String => call.text = filled(Some(s.string()?)),
                            _ => call.value = Some(s.skip()?).filter(|raw| *raw != b"null"),
                        },
                        _ => {
                            s.skip()?;
                        }
                    }
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(call)
}

/// A call of version 1: a name and its parameters, without an id.
fn old_call(raw: &[u8]) -> Scan<Call<'_>> {
    let (mut call, mut s) = (Call::default(), Scanner::new(raw));
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"name" => call.name = filled(s.string_or_skip()?),
            b"parameters" => call.value = Some(s.skip()?).filter(|raw| *raw != b"null"),
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(call)
}

fn citation(raw: &[u8]) -> Scan<Citation<'_>> {
    let mut citation = Citation { raw, ..Citation::default() };
    let (mut start, mut end, mut of_text, mut s) = (None, None, true, Scanner::new(raw));
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"start" => start = s.count_or_skip()?,
            b"end" => end = s.count_or_skip()?,
            b"type" => of_text = s.string_or_skip()?.is_none_or(|kind| kind.is("TEXT_CONTENT")),
            b"sources" => {
                if let Some(source) = list(s.skip()?, Ok)?.first() {
                    (citation.url, citation.title) = source_of(source)?;
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    citation.span = start.zip(end).filter(|_| of_text);
    Ok(citation)
}

/// The address and the title of the document that a source is.
fn source_of(raw: &[u8]) -> Scan<(Option<Literal<'_>>, Option<Literal<'_>>)> {
    let Some(document) = member(raw, b"document")? else { return Ok((None, None)) };
    let string = |name| -> Scan<Option<Literal<'_>>> {
        Ok(member(document, name)?.and_then(|raw| filled(Scanner::new(raw).string().ok())))
    };
    Ok((string(b"url")?, string(b"title")?))
}

/// The raw value of a member, where `raw` is an object that has it.
fn member<'a>(raw: &'a [u8], name: &[u8]) -> Scan<Option<&'a [u8]>> {
    let mut s = Scanner::new(raw);
    let (Some(mut members), mut found) = (s.object_or_skip()?, None) else { return Ok(None) };
    while let Some(key) = s.key(&mut members)? {
        let value = s.skip()?;
        if key.raw == name {
            found = Some(value);
        }
    }
    Ok(found)
}

/// A usage object whose counts can be read.
fn usage<'a>(s: &mut Scanner<'a>) -> Scan<Option<&'a [u8]>> {
    let raw = s.skip()?;
    if raw.first() != Some(&b'{') {
        return Ok(None);
    }
    tokens(raw)?;
    Ok(Some(raw))
}

/// The counts of a usage object.
pub(super) fn tokens(raw: &[u8]) -> Scan<Tokens> {
    let (mut tokens, mut billed, mut s) = (Tokens::default(), Tokens::default(), Scanner::new(raw));
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"tokens" => counts(&mut s, &mut tokens)?,
            b"billed_units" => counts(&mut s, &mut billed)?,
            b"cached_tokens" => tokens.cached = s.count_or_skip()?,
            _ => {
                s.skip()?;
            }
        }
    }
    tokens.input = tokens.input.or(billed.input);
    tokens.output = tokens.output.or(billed.output);
    Ok(tokens)
}

fn counts(s: &mut Scanner<'_>, into: &mut Tokens) -> Scan<()> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(()) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"input_tokens" => into.input = s.count_or_skip()?,
            b"output_tokens" => into.output = s.count_or_skip()?,
            b"reasoning_tokens" => into.reasoning = s.count_or_skip()?,
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(())
}

fn filled(text: Option<Literal<'_>>) -> Option<Literal<'_>> {
    text.filter(|l| !l.raw.is_empty())
}
