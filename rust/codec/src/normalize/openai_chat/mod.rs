//! Chat Completions, `OpenAI`'s and that of the many vendors who speak it, each in its own way.
//!
//! 1. One tolerant reading for all of them; no vendor's module, no vendor's switch. Chunks and whole bodies go through the
//!    same code: a whole `message` is one large delta.
//! 2. A call ends only by the response's normal finish reason (R6). So intents come at the terminal: at `[DONE]`, or
//!    at the end of the body once a finish reason was seen (R17).
//! 3. Which call a fragment belongs to is rule R21, in [`OpenaiChat::call_of`] and nowhere else.
//! 4. Readable reasoning is taken once, whichever of its fields it stands in (R3).
//!
//! A vendor's name in a decision must not be added here: what differs is told from the payload itself.

mod chunk;
mod extras;
mod usage;

use std::collections::HashMap;

use chunk::{Arguments, Choice, Choices, Chunk, Content, Delta, Extra, Fragment};

use super::details::Details;
use super::template::Steady;
use super::think::{self, REASONING, TEXT};
use super::{Normalize, Out, Piece, finish};
use crate::event::{AttachTo, CallKind, ContinuationForm, ReasoningKind};
use crate::json::Scan;
use crate::text::{Literal, Text};
use crate::toolcall::bounded;

const REFUSAL: u64 = 2;

/// The state of one response.
#[derive(Debug, Default)]
pub struct OpenaiChat {
    text: think::Content,
    details: Details,
    /// The last finish reason that came.
    finish: Option<String>,
    /// Any content came.
    spoke: bool,
    /// Reasoning came in a field of its own: what `reasoning_details` has of it, in the same chunk or after, is the same.
    reasoned: bool,
    calls: Known,
    /// How many entries of the lists that grow from chunk to chunk have been given out.
    citations: usize,
    results: usize,
    steady: Option<(Again, Steady)>,
}

/// What a steady payload did with its text.
#[derive(Clone, Copy, Debug)]
enum Again {
    Text,
    Reasoning(ReasoningKind),
    Call(u32),
}

/// Which call is meant (rule R21).
#[derive(Debug, Default)]
struct Known {
    /// The newest call on an index.
    by_index: HashMap<u64, u32>,
    by_id: HashMap<String, u32>,
    /// The last answer, for the next fragment of the same index.
    hit: Option<(u64, u32)>,
    /// The call opened last.
    last: Option<u32>,
    /// The one `function_call` of the old interface.
    legacy: Option<u32>,
}

impl OpenaiChat {
    #[must_use]
    pub fn new(think_tags: bool) -> OpenaiChat {
        OpenaiChat { text: think::Content::new(think_tags), ..OpenaiChat::default() }
    }

    fn act(&mut self, json: &[u8], chunk: &Chunk<'_>, out: &mut Out<'_>) -> Scan<()> {
        if !out.is_started() {
            out.started(chunk.model.map(Text::Literal), chunk.id.map(Text::Literal));
        }
        let entries = chunk.choice.iter().chain(&chunk.more);
        for choice in entries {
            self.choice(choice, out)?;
        }
        if let Some(list) = chunk.citations {
            self.citations = extras::citations(list, self.citations, out)?;
        }
        if let Some(list) = chunk.search_results {
            self.results = extras::search_results(list, self.results, out)?;
        }
        let inner = chunk.choice.as_ref().and_then(|c| c.usage);
        if let Some(raw) = chunk.usage.or(inner) {
            out.usage(usage::counts(raw)?, raw);
            if chunk.choices == Choices::Empty && !chunk.failed {
                out.mark_usage_only();
            }
        }
        if chunk.last && self.finish.is_none() {
            self.finish = Some("end_of_stream".to_owned());
        }
        if chunk.failed {
            self.let_go(out);
            out.provider_error(chunk.inner_error.unwrap_or(json));
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Choice<'_>, out: &mut Out<'_>) -> Scan<()> {
        // A vendor that repeats the whole message after its deltas has said nothing new.
        if !(choice.whole && self.spoke) {
            self.delta(&choice.delta, choice.whole, out)?;
        }
        if let Some(reason) = choice.finish {
            self.finish = Some(bounded(Text::Literal(reason)));
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta<'_>, whole: bool, out: &mut Out<'_>) -> Scan<()> {
        if let Some((_, text)) = delta.reasoning {
            self.reasoning(reasoning_kind(delta)?, text, out);
        }
        for (_, raw) in delta.extras.iter().filter(|(extra, _)| *extra == Extra::Details) {
            let read_already = self.reasoned;
            self.details.take(raw, |text, kind| {
                if !read_already {
                    out.reasoning(REASONING, kind, text);
                }
            })?;
            if self.details.is_too_much() {
                out.interrupted("more reasoning details than a response may have");
            }
        }
        match delta.content {
            Content::None => {}
            Content::Text(text) => self.text(text, out),
            Content::Parts(parts) => extras::parts(self, parts, delta.reasoning.is_some(), out)?,
        }
        if let Some(text) = delta.refusal {
            self.spoke = true;
            self.give_details(out);
            out.refusal(REFUSAL, Text::Literal(text));
        }
        for fragment in delta.call.iter().chain(&delta.calls) {
            self.fragment(fragment, whole, out);
        }
        if let Some(fragment) = &delta.legacy {
            self.legacy(fragment, out);
        }
        for (extra, raw) in &delta.extras {
            extras::give(*extra, raw, whole, out)?;
        }
        Ok(())
    }

    #[inline]
    fn reasoning(&mut self, kind: ReasoningKind, text: Literal<'_>, out: &mut Out<'_>) {
        (self.spoke, self.reasoned) = (true, true);
        out.reasoning(REASONING, kind, Text::Literal(text));
    }

    /// Whether the chunk, which was acted on, did nothing but give out one text.
    fn steadiness(&self, json: &[u8], chunk: &Chunk<'_>, out: &Out<'_>) -> Option<(Again, Steady)> {
        let choice = chunk.choice.as_ref()?;
        let Choice { delta, whole: false, finish: None, usage: None, error: None } = choice else { return None };
        let rest = chunk.usage.or(chunk.citations).or(chunk.search_results);
        let is_plain = chunk.more.is_empty() && rest.is_none() && !chunk.failed && !chunk.last && out.is_started();
        if !is_plain || out.is_done() {
            return None;
        }
        let Delta { content, refusal: None, reasoning, call, calls, legacy: None, extras } = delta else { return None };
        if !calls.is_empty() || !extras.is_empty() {
            return None;
        }
        let content = match content {
            Content::Text(text) if !text.raw.is_empty() => Some(*text),
            Content::Parts(_) => return None,
            _ => None,
        };
        let (again, text) = match (content, reasoning, call) {
            (Some(text), None, None) => (Again::Text, text),
            (None, Some((_, text)), None) => (Again::Reasoning(ReasoningKind::Raw), *text),
            (None, None, Some(fragment)) => {
                let Fragment { id: None, name: None, arguments: Arguments::Text(text), signature: None, .. } = fragment
                else {
                    return None;
                };
                let call = match fragment.index {
                    Some(index) => self.calls.hit.filter(|(known, _)| *known == index)?.1,
                    None => self.calls.last?,
                };
                (Again::Call(call), *text)
            }
            _ => return None,
        };
        (!text.raw.is_empty()).then(|| (again, Steady::new(json, text, chunk.ignored)))
    }

    #[inline]
    fn text(&mut self, text: Literal<'_>, out: &mut Out<'_>) {
        if text.raw.is_empty() {
            return;
        }
        self.spoke = true;
        self.give_details(out);
        self.text.give(text, out);
    }

    fn fragment(&mut self, fragment: &Fragment<'_>, whole: bool, out: &mut Out<'_>) {
        let text = match fragment.arguments {
            Arguments::Text(text) => Some(text),
            _ => None,
        };
        let is_value = matches!(fragment.arguments, Arguments::Value(_));
        let silent = !is_value && text.is_none_or(|t| t.raw.is_empty());
        if silent && fragment.id.is_none() && fragment.name.is_none() && fragment.signature.is_none() {
            return;
        }
        self.give_details(out);
        self.spoke = true;
        let Some(call) = self.call_of(fragment, whole, out) else { return };
        let piece = Piece {
            id: fragment.id.map(Text::Literal),
            name: fragment.name.map(Text::Literal),
            text: text.map(Text::Literal),
        };
        out.call_piece(call, &piece);
        if let Arguments::Value(json) = fragment.arguments {
            out.call_value(call, json);
        }
        if let Some(signature) = fragment.signature {
            out.call_sign(call, ContinuationForm::ThoughtSignature, Text::Literal(signature));
        }
    }

    /// The call that a fragment belongs to; opens one where it is a new one (rule R21).
    fn call_of(&mut self, fragment: &Fragment<'_>, whole: bool, out: &mut Out<'_>) -> Option<u32> {
        let known = &mut self.calls;
        let found = match fragment.index {
            // The entries of a whole message are a call each.
            _ if whole => None,
            Some(index) => match known.hit {
                Some((last, call)) if last == index => Some(call),
                _ => known.by_index.get(&index).copied(),
            },
            None => match fragment.id {
                Some(id) => known.by_id.get(id.decode().as_ref()).copied(),
                None => known.last,
            },
        };
        let continued = found.filter(|&call| match (fragment.id, fragment.name) {
            // R21b: another id together with a name starts another call, also on the same index.
            (Some(id), Some(_)) => out.calls().call(call).id.as_deref().is_none_or(|first| id.is(first)),
            // R21e: a name alone on a call that is complete.
            (None, Some(_)) => !out.calls().call(call).is_complete(),
            _ => true,
        });
        let call = match continued {
            Some(call) => call,
            None => out.call_open(fragment.kind)?,
        };
        if let Some(index) = fragment.index
            && known.hit != Some((index, call))
        {
            known.hit = Some((index, call));
            known.by_index.insert(index, call);
        }
        if continued.is_none() {
            known.last = Some(call);
        }
        if let Some(id) = fragment.id
            && out.calls().call(call).id.is_none()
        {
            known.by_id.insert(bounded(Text::Literal(id)), call);
        }
        Some(call)
    }

    fn legacy(&mut self, fragment: &Fragment<'_>, out: &mut Out<'_>) {
        self.give_details(out);
        self.spoke = true;
        let call = match self.calls.legacy {
            Some(call) => call,
            None => match out.call_open(CallKind::Function) {
                Some(call) => *self.calls.legacy.insert(call),
                None => return,
            },
        };
        let mut piece = Piece { name: fragment.name.map(Text::Literal), ..Piece::default() };
        if let Arguments::Text(text) = fragment.arguments {
            piece.text = Some(Text::Literal(text));
        }
        out.call_piece(call, &piece);
        if let Arguments::Value(json) = fragment.arguments {
            out.call_value(call, json);
        }
    }

    /// Gives out what was collected of `reasoning_details`, before anything that comes after reasoning.
    #[inline]
    fn give_details(&mut self, out: &mut Out<'_>) {
        if self.details.is_empty() {
            return;
        }
        let list = self.details.give();
        let list = String::from_utf8_lossy(&list);
        let (to, index) = match out.seen(REASONING) {
            Some(index) => (AttachTo::Reasoning, index),
            None => (AttachTo::Response, 0),
        };
        out.continuation(ContinuationForm::Details, Text::Plain(&list), to, index);
    }

    /// Gives out all that is held back.
    fn let_go(&mut self, out: &mut Out<'_>) {
        self.text.flush(out);
        self.give_details(out);
    }
}

impl Normalize for OpenaiChat {
    fn value(&mut self, json: &[u8], name: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let mut chunk = Chunk::default();
        chunk::read(json, false, &mut chunk)?;
        chunk.failed |= name == b"error";
        self.act(json, &chunk, out)?;
        self.steady = self.steadiness(json, &chunk, out);
        Ok(())
    }

    fn steady(&self) -> Option<&Steady> {
        self.steady.as_ref().map(|(_, steady)| steady)
    }

    fn again(&mut self, text: Literal<'_>, _kept: &[u8], out: &mut Out<'_>) {
        match self.steady {
            Some((Again::Text, _)) => self.text(text, out),
            Some((Again::Reasoning(kind), _)) => self.reasoning(kind, text, out),
            Some((Again::Call(call), _)) => {
                self.give_details(out);
                out.call_text(call, text);
            }
            None => {}
        }
    }

    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let mut chunk = Chunk::default();
        chunk::read(json, true, &mut chunk)?;
        self.act(json, &chunk, out)
    }

    fn done(&mut self, out: &mut Out<'_>) {
        self.end(out);
        if !out.is_done() {
            out.interrupted("the stream ended without a finish reason");
        }
    }

    fn end(&mut self, out: &mut Out<'_>) {
        self.let_go(out);
        let Some(reason) = self.finish.take() else { return };
        let ending = finish::chat(&reason);
        for call in 0..out.calls().len() as u32 {
            if ending.ends_calls() {
                out.call_end(call);
            } else {
                out.calls().cut(call);
            }
        }
        out.finish(ending, Some(Text::Plain(&reason)));
    }
}

/// A summary only where the details beside the text say so.
fn reasoning_kind(delta: &Delta<'_>) -> Scan<ReasoningKind> {
    for (_, raw) in delta.extras.iter().filter(|(extra, _)| *extra == Extra::Details) {
        if extras::first_is_summary(raw)? {
            return Ok(ReasoningKind::Summary);
        }
    }
    Ok(ReasoningKind::Raw)
}
