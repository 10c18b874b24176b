//! Cohere's chat, version 2: its event stream, and its whole JSON body. What version 1 streamed is read as well.
//!
//! 1. A content block is named by its index; the plan that comes before calls is a block of reasoning of its own.
//! 2. A call is closed by its `tool-call-end` (R6). One without argument text waits for what comes next, since a token
//!    limit may have cut it before its first byte: then nothing is made of it (R10). Calls count on their own.
//! 3. A citation is an annotation with its first source; its span is one of the text block that it names.
//! 4. `message-end` is the end (R17). Its `tokens` count, `billed_units` only where there are none.
//!
//! Unknown events, parts and fields are ignored. Request fields must not be added here.

mod read;

use super::out::{Counts, Known, Out, Piece};
use super::template::Steady;
use super::{Ending, Normalize, finish};
use crate::error::ErrorKind;
use crate::event::{CallKind, FinishReason, ReasoningKind};
use crate::json::Scan;
use crate::text::{Literal, Text};
use crate::toolcall::bounded;
use read::{Call, Citation, Frame, Part};

/// The block of the plan: no content block has this index.
const PLAN: u64 = u64::MAX;

/// The state of one response.
#[derive(Debug, Default)]
pub struct CohereChat {
    /// Open calls by the wire's index.
    open: Vec<(u64, u32)>,
    /// A closed call without argument text (rule 2 above).
    waiting: Option<u32>,
    /// The finish reason of a whole body.
    finish: Option<String>,
    steady: Option<(Again, Steady)>,
}

/// What a steady delta did with its text.
#[derive(Clone, Copy, Debug)]
enum Again {
    Text(u64),
    Reasoning(u64),
    Call(u32),
}

impl Normalize for CohereChat {
    fn value(&mut self, json: &[u8], name: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let frame = read::frame(json)?;
        self.steady = None;
        let index = frame.index.unwrap_or(0);
        match frame.kind.map_or(name, |kind| kind.raw) {
            b"content-delta" | b"content-start" => {
                if let Some(part) = &frame.message.part {
                    self.steady = again_of(part, index).map(|(a, text)| (a, Steady::new(json, text, frame.ignored)));
                    give(part, index, out);
                }
            }
            b"tool-plan-delta" => {
                if let Some(text) = frame.message.plan {
                    self.steady = Some((Again::Reasoning(PLAN), Steady::new(json, text, frame.ignored)));
                    out.reasoning(PLAN, ReasoningKind::Raw, text.into());
                }
            }
            b"tool-call-delta" => self.call_delta(json, index, &frame, out),
            b"tool-call-start" => self.call_start(index, frame.message.call.as_ref(), out),
            b"tool-call-end" => self.call_end(index, out),
            b"citation-start" => frame.message.citations.iter().for_each(|c| cite(c, out)),
            b"content-end" => out.close_block(index),
            b"message-start" => {
                out.started(None, frame.id.map(Text::from));
            }
            b"message-end" => self.message_end(&frame, out),
            b"error" => out.provider_error(json),
            _ if frame.failed || name == b"error" => out.provider_error(json),
            _ => self.first_version(&frame, out),
        }
        Ok(())
    }

    fn steady(&self) -> Option<&Steady> {
        self.steady.as_ref().map(|(_, steady)| steady)
    }

    fn again(&mut self, text: Literal<'_>, _kept: &[u8], out: &mut Out<'_>) {
        match self.steady {
            Some((Again::Text(key), _)) => out.text(key, text.into()),
            Some((Again::Reasoning(key), _)) => out.reasoning(key, ReasoningKind::Raw, text.into()),
            Some((Again::Call(number), _)) => out.call_text(number, text),
            None => {}
        }
    }

    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let frame = read::body(json)?;
        if frame.failed {
            out.provider_error(json);
            return Ok(());
        }
        if frame.old.is_some() {
            self.first_version(&frame, out);
            return Ok(());
        }
        out.started(None, frame.id.map(Text::from));
        if let Some(plan) = frame.message.plan {
            out.reasoning(PLAN, ReasoningKind::Raw, plan.into());
        }
        for (index, part) in (0..).zip(&frame.message.parts) {
            give(part, index, out);
        }
        frame.message.citations.iter().for_each(|c| cite(c, out));
        for call in &frame.message.calls {
            self.let_go(out);
            let Some(number) = open(call, out) else { return Ok(()) };
            // The last one may have been cut: it waits for the reason.
            self.waiting = Some(number);
        }
        count(frame.usage, out)?;
        self.finish = frame.finish.map(|reason| bounded(reason.into()));
        Ok(())
    }

    fn done(&mut self, _out: &mut Out<'_>) {}

    fn end(&mut self, out: &mut Out<'_>) {
        if let Some(reason) = self.finish.take() {
            self.finished(&reason, None, out);
        }
    }
}

impl CohereChat {
    fn call_start(&mut self, index: u64, call: Option<&Call<'_>>, out: &mut Out<'_>) {
        self.let_go(out);
        let Some(call) = call else { return };
        if let Some(number) = open(call, out) {
            self.open.retain(|(known, _)| *known != index);
            self.open.push((index, number));
        }
    }

    fn call_delta(&mut self, json: &[u8], index: u64, frame: &Frame<'_>, out: &mut Out<'_>) {
        let Some((number, call)) = self.find(index).zip(frame.message.call.as_ref()) else { return };
        let Call { id: None, name: None, text: Some(text), value: None } = call else {
            return bring(number, call, out);
        };
        self.steady = Some((Again::Call(number), Steady::new(json, *text, frame.ignored)));
        bring(number, call, out);
    }

    fn call_end(&mut self, index: u64, out: &mut Out<'_>) {
        let Some(number) = self.find(index) else { return };
        self.open.retain(|(known, _)| *known != index);
        if matches!(out.calls().call(number).text.trim(), "" | "null") {
            self.waiting = Some(number);
        } else {
            out.call_end(number);
        }
    }

    fn find(&self, index: u64) -> Option<u32> {
        self.open.iter().find(|(known, _)| *known == index).map(|(_, number)| *number)
    }

    /// What waited was not the last of the answer.
    fn let_go(&mut self, out: &mut Out<'_>) {
        if let Some(call) = self.waiting.take() {
            out.call_end(call);
        }
    }

    fn message_end(&mut self, frame: &Frame<'_>, out: &mut Out<'_>) {
        // The usage has been read as JSON with the frame.
        let _ = count(frame.usage, out);
        match frame.finish {
            Some(reason) => self.finished(&reason.decode(), frame.error, out),
            None => out.interrupted("the message ended without a finish reason"),
        }
    }

    fn finished(&mut self, reason: &str, error: Option<Literal<'_>>, out: &mut Out<'_>) {
        let ending = finish::cohere(reason);
        let cuts =
            matches!(ending, Ending::Reason(FinishReason::Length | FinishReason::ContentFilter) | Ending::Error(_));
        if let Some(call) = self.waiting.take() {
            if cuts {
                out.calls().cut(call);
            } else {
                out.call_end(call);
            }
        }
        for (_, call) in self.open.drain(..) {
            out.calls().cut(call);
        }
        match (ending, error) {
            (Ending::Error(kind), Some(error)) => {
                let message = error.decode();
                let known = Known { code: Some(reason), message: Some(&message), ..Known::default() };
                out.fail(kind, &known);
            }
            _ => out.finish(ending, Some(Text::Plain(reason))),
        }
    }

    /// The events of version 1: text, calls whole, and an end that repeats the answer.
    fn first_version(&mut self, frame: &Frame<'_>, out: &mut Out<'_>) {
        let Some(old) = &frame.old else { return };
        match old.kind.raw {
            b"stream-start" => {
                out.started(None, old.id.map(Text::from));
            }
            b"text-generation" => {
                if let Some(text) = old.text {
                    out.text(0, text.into());
                }
            }
            b"tool-calls-generation" => {
                for call in &old.calls {
                    if let Some(number) = open(call, out) {
                        out.call_end(number);
                    }
                }
            }
            b"stream-end" => {
                let _ = count(old.usage, out);
                match frame.finish {
                    Some(reason) => self.finished(&reason.decode(), None, out),
                    None => out.fail(ErrorKind::Unknown, &Known::default()),
                }
            }
            _ => {}
        }
    }
}

fn again_of<'a>(part: &Part<'a>, index: u64) -> Option<(Again, Literal<'a>)> {
    match part {
        Part { text: Some(text), thinking: None } => Some((Again::Text(index), *text)),
        Part { text: None, thinking: Some(text) } => Some((Again::Reasoning(index), *text)),
        _ => None,
    }
}

fn give(part: &Part<'_>, index: u64, out: &mut Out<'_>) {
    if let Some(text) = part.thinking {
        out.reasoning(index, ReasoningKind::Raw, text.into());
    }
    if let Some(text) = part.text {
        out.text(index, text.into());
    }
}

fn open(call: &Call<'_>, out: &mut Out<'_>) -> Option<u32> {
    let number = out.call_open(CallKind::Function)?;
    bring(number, call, out);
    Some(number)
}

fn bring(number: u32, call: &Call<'_>, out: &mut Out<'_>) {
    let piece = Piece { id: call.id.map(Text::from), name: call.name.map(Text::from), text: call.text.map(Text::from) };
    out.call_piece(number, &piece);
    if let Some(value) = call.value {
        out.call_value(number, value);
    }
}

fn cite(citation: &Citation<'_>, out: &mut Out<'_>) {
    let Citation { url, title, span, raw } = citation;
    out.annotation(Text::Plain("citation"), url.map(Text::from), title.map(Text::from), *span, raw);
}

fn count(usage: Option<&[u8]>, out: &mut Out<'_>) -> Scan<()> {
    let Some(raw) = usage else { return Ok(()) };
    let tokens = read::tokens(raw)?;
    let counts = Counts {
        input: Some(tokens.input.unwrap_or(0)),
        output: Some(tokens.output.unwrap_or(0)),
        cached_input: tokens.cached,
        cache_write: None,
        reasoning: tokens.reasoning,
    };
    out.usage(counts, raw);
    Ok(())
}
