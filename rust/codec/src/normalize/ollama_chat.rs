//! Ollama's own chat: a line of JSON after another, or one object. Answers of `/api/generate` are read as well.
//!
//! 1. A call comes whole, its arguments an object, and is an intent at once (R6); the wire's index says nothing (R4).
//! 2. `done: true` is the end and nothing else is (R17); calls do not show in its reason. Counts stand on that line only,
//!    and one that is not there is not known: a prompt that was cached is not counted.
//! 3. `error` ends the response, on a line of its own or not (R14).
//!
//! Times and durations are ignored. Request fields must not be added here.

use super::out::{Counts, Out, Piece};
use super::template::{Ignored, Steady};
use super::think::{Content, REASONING};
use super::{Normalize, finish};
use crate::event::{CallKind, ReasoningKind};
use crate::json::{Kind, Scan, Scanner};
use crate::text::{Literal, Text};

/// The state of one response.
#[derive(Debug, Default)]
pub struct OllamaChat {
    content: Content,
    steady: Option<(Again, Steady)>,
    done: bool,
}

/// What a steady line did with its text.
#[derive(Clone, Copy, Debug)]
enum Again {
    Text,
    Thinking,
}

/// One line.
#[derive(Default)]
struct Line<'a> {
    model: Option<Literal<'a>>,
    text: Option<Literal<'a>>,
    thinking: Option<Literal<'a>>,
    /// The entries of `tool_calls`, as they stood.
    calls: Vec<&'a [u8]>,
    done: bool,
    reason: Option<Literal<'a>>,
    input: Option<&'a [u8]>,
    output: Option<&'a [u8]>,
    failed: bool,
    ignored: Ignored,
}

impl OllamaChat {
    #[must_use]
    pub fn new(think_tags: bool) -> OllamaChat {
        OllamaChat { content: Content::new(think_tags), ..OllamaChat::default() }
    }

    fn call(raw: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let call = call(raw)?;
        let Some(number) = out.call_open(CallKind::Function) else { return Ok(()) };
        let text = match call.arguments {
            Some(value) if value.first() == Some(&b'"') => Some(Text::Literal(Scanner::new(value).string()?)),
            _ => None,
        };
        let value = call.arguments.filter(|_| text.is_none());
        let piece = Piece { id: call.id.map(Text::Literal), name: call.name.map(Text::Literal), text };
        out.call_piece(number, &piece);
        if let Some(value) = value {
            out.call_value(number, value);
        }
        out.call_end(number);
        Ok(())
    }
}

impl Normalize for OllamaChat {
    fn value(&mut self, json: &[u8], name: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let line = read(json)?;
        self.steady = None;
        if line.failed || name == b"error" {
            self.content.flush(out);
            out.provider_error(json);
            return Ok(());
        }
        let was_started = out.is_started();
        out.started(line.model.map(Text::Literal), None);
        if let Some(text) = line.thinking {
            out.reasoning(REASONING, ReasoningKind::Raw, Text::Literal(text));
        }
        if let Some(text) = line.text {
            self.content.give(text, out);
        }
        for raw in &line.calls {
            OllamaChat::call(raw, out)?;
        }
        if line.done {
            self.done = true;
            usage(&line, out);
            self.content.flush(out);
            let reason = line.reason.map(Literal::decode);
            let ending = finish::ollama(reason.as_deref().unwrap_or_default());
            out.finish(ending, reason.as_deref().map(Text::Plain));
        } else if was_started && line.calls.is_empty() && !out.is_done() {
            self.steady = match (line.text, line.thinking) {
                (Some(text), None) => Some((Again::Text, Steady::new(json, text, line.ignored))),
                (None, Some(text)) => Some((Again::Thinking, Steady::new(json, text, line.ignored))),
                _ => None,
            };
        }
        Ok(())
    }

    fn steady(&self) -> Option<&Steady> {
        self.steady.as_ref().map(|(_, steady)| steady)
    }

    fn again(&mut self, text: Literal<'_>, _kept: &[u8], out: &mut Out<'_>) {
        match self.steady {
            Some((Again::Text, _)) => self.content.give(text, out),
            Some((Again::Thinking, _)) => out.reasoning(REASONING, ReasoningKind::Raw, Text::Literal(text)),
            None => {}
        }
    }

    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        self.value(json, b"", out)
    }

    fn done(&mut self, _out: &mut Out<'_>) {}

    fn end(&mut self, out: &mut Out<'_>) {
        if !self.done {
            self.content.flush(out);
        }
    }
}

/// The counts have no object of their own; one of just them is made.
fn usage(line: &Line<'_>, out: &mut Out<'_>) {
    let named = [("prompt_eval_count", line.input), ("eval_count", line.output)];
    let mut raw = vec![b'{'];
    for (name, value) in named {
        let Some(value) = value else { continue };
        if raw.len() > 1 {
            raw.push(b',');
        }
        raw.extend_from_slice(format!("\"{name}\":").as_bytes());
        raw.extend_from_slice(value);
    }
    raw.push(b'}');
    let count = |value: Option<&[u8]>| value.and_then(crate::json::count);
    let counts = Counts { input: count(line.input), output: count(line.output), ..Counts::default() };
    if counts != Counts::default() {
        out.usage(counts, &raw);
    }
}

fn read(json: &[u8]) -> Scan<Line<'_>> {
    let mut line = Line::default();
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"message" => message(&mut s, &mut line)?,
            b"model" => line.model = name(&mut s, &mut line.ignored)?,
            b"done" => line.done = s.skip()? == b"true",
            b"done_reason" => line.reason = filled(s.string_or_skip()?),
            b"response" => line.text = filled(s.string_or_skip()?).or(line.text),
            b"thinking" => line.thinking = filled(s.string_or_skip()?).or(line.thinking),
            b"prompt_eval_count" => line.input = number(&mut s)?,
            b"eval_count" => line.output = number(&mut s)?,
            b"error" => line.failed |= !matches!(s.skip()?, b"null" | b"false" | b"\"\""),
            _ => line.ignored.skip(&mut s)?,
        }
    }
    s.end()?;
    // A call that cannot be read must be known before anything is given out.
    for raw in &line.calls {
        call(raw)?;
    }
    Ok(line)
}

fn message<'a>(s: &mut Scanner<'a>, line: &mut Line<'a>) -> Scan<()> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(()) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"content" => line.text = filled(s.string_or_skip()?).or(line.text),
            b"thinking" => line.thinking = filled(s.string_or_skip()?).or(line.thinking),
            b"tool_calls" => {
                let Some(mut items) = s.array_or_skip()? else { continue };
                while s.item(&mut items)? {
                    let raw = s.skip()?;
                    if raw.first() == Some(&b'{') {
                        line.calls.push(raw);
                    }
                }
            }
            _ => line.ignored.skip(s)?,
        }
    }
    Ok(())
}

/// One entry of `tool_calls`.
#[derive(Default)]
struct Call<'a> {
    id: Option<Literal<'a>>,
    name: Option<Literal<'a>>,
    arguments: Option<&'a [u8]>,
}

fn call(raw: &[u8]) -> Scan<Call<'_>> {
    let mut call = Call::default();
    let mut s = Scanner::new(raw);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"id" => call.id = filled(s.string_or_skip()?),
            b"function" => {
                let Some(mut members) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut members)? {
                    match key.raw {
                        b"name" => call.name = filled(s.string_or_skip()?),
                        b"arguments" => call.arguments = Some(s.skip()?).filter(|value| *value != b"null"),
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

/// The model's name: it counts only until one was given out, and is ignored from then on.
fn name<'a>(s: &mut Scanner<'a>, ignored: &mut Ignored) -> Scan<Option<Literal<'a>>> {
    let text = s.string_or_skip()?;
    if let Some(text) = text {
        // The quotes belong to the value.
        ignored.note_at(((s.pos() - text.raw.len() - 2) as u32, s.pos() as u32));
    }
    Ok(filled(text))
}

fn number<'a>(s: &mut Scanner<'a>) -> Scan<Option<&'a [u8]>> {
    if s.kind()? == Kind::Number {
        return s.number().map(Some);
    }
    s.skip()?;
    Ok(None)
}

fn filled(text: Option<Literal<'_>>) -> Option<Literal<'_>> {
    text.filter(|l| !l.raw.is_empty())
}
