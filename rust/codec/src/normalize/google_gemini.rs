//! Gemini's `generateContent`: chunks of `streamGenerateContent` (as an event stream or as one JSON array) and whole bodies,
//! which all have one shape.
//!
//! 1. Parts are increments and have no index: text goes on in its block until a part of another kind comes, and a part with a
//!    signature is the last of its block, for two parts of which one is signed must not become one.
//! 2. A call comes whole in one part and is an intent at once (R6, R9). Where arguments are streamed, parts without a name go
//!    on with the call before them, and it is ended by the part that does not say `willContinue`.
//! 3. A signature is opaque state of what it stands on: before its call, after its text (R3g).
//! 4. A finish reason does not end the stream: the last one counts, when the body ends (R17). A prompt that was refused has no
//!    candidate; that is the end too.
//! 5. Counts are running totals. Thoughts are output, what tools gave the model is input (R12).
//! 6. Code that the provider ran, searches and fetches are reports (R19), with the part whole in `raw`; sources are
//!    annotations, their spans counted in bytes over all texts of the candidate.
//!
//! Only the first candidate is read (R20). Request fields must not be added here.

mod partial;
mod read;

use std::collections::HashSet;

use super::out::{Counts, Known, Out, Piece, Started};
use super::template::{Ignored, Steady};
use super::{Ending, Normalize, finish};
use crate::error::ErrorKind;
use crate::event::{AttachTo, CallKind, ContinuationForm, FinishReason, HostedPhase, ReasoningKind};
use crate::json::Scan;
use crate::offsets::Offsets;
use crate::text::{Literal, Text};
use partial::Arguments;
use read::{Call, Candidate, Frame, Grounding, Holds, Part, Source, Tokens};

/// The state of one response.
#[derive(Debug, Default)]
pub struct GoogleGemini {
    /// The block that text goes on in: whether it is a thought, and its key.
    open: Option<(bool, u64)>,
    next_key: u64,
    /// The call whose arguments are coming.
    call: Option<(u32, Arguments)>,
    /// Of all text that is no thought.
    offsets: Offsets,
    /// Where the newest text block begins in it, in bytes.
    block_from: u64,
    finish: Option<String>,
    finish_message: Option<String>,
    blocked: Option<String>,
    steady: Option<(Again, Steady)>,
}

/// What a steady chunk did with its text: in the block that is open.
#[derive(Clone, Copy, Debug)]
enum Again {
    Text(u64),
    Thought(u64),
}

impl Normalize for GoogleGemini {
    fn value(&mut self, json: &[u8], name: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let frame = read::frame(json)?;
        self.steady = None;
        if frame.has_error || name == b"error" {
            out.provider_error(json);
        } else {
            self.chunk(&frame, out);
            self.steady = self.steadiness(json, &frame, out);
        }
        Ok(())
    }

    fn steady(&self) -> Option<&Steady> {
        self.steady.as_ref().map(|(_, steady)| steady)
    }

    fn again(&mut self, text: Literal<'_>, kept: &[u8], out: &mut Out<'_>) {
        if read::has_counts(kept) {
            out.usage_unread(kept, counts_in);
        } else if let Some(counts) = counts_in(kept) {
            out.usage(counts, kept);
        }
        match self.steady {
            Some((Again::Thought(key), _)) => out.reasoning(key, ReasoningKind::Summary, text.into()),
            Some((Again::Text(key), _)) => self.speak(key, text, out),
            None => {}
        }
    }

    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        self.value(json, b"", out)
    }

    fn done(&mut self, _out: &mut Out<'_>) {}

    fn end(&mut self, out: &mut Out<'_>) {
        if let Some((number, _)) = self.call.take() {
            out.calls().cut(number);
        }
        if let Some(reason) = self.finish.take() {
            let ending = finish::gemini(&reason);
            match self.finish_message.take().filter(|_| ending == Ending::MalformedCall) {
                // It holds what the model wrote.
                Some(text) => {
                    let message = Some("the provider reports a malformed tool call");
                    out.fail(ErrorKind::MalformedToolCall, &Known { message, raw: Some(&text), ..Known::default() });
                }
                None => out.finish(ending, Some(Text::Plain(&reason))),
            }
        } else if let Some(reason) = self.blocked.take() {
            out.finish(Ending::Reason(FinishReason::ContentFilter), Some(Text::Plain(&reason)));
        }
    }
}

impl GoogleGemini {
    fn chunk(&mut self, frame: &Frame<'_>, out: &mut Out<'_>) {
        if out.started(frame.model.map(Text::from), frame.id.map(Text::from)) == Started::Other {
            return out.interrupted("another response began inside this one");
        }
        if let Some(tokens) = &frame.usage
            && let Some(counts) = counts(tokens)
        {
            out.usage(counts, tokens.raw);
        }
        if let Some(reason) = frame.block {
            self.blocked = Some(reason.decode().into_owned());
        }
        if let Some(candidate) = &frame.candidate {
            self.candidate(candidate, out);
        }
    }

    fn candidate(&mut self, candidate: &Candidate<'_>, out: &mut Out<'_>) {
        if candidate.excess {
            return out.interrupted("more parts than a response may have");
        }
        for part in &candidate.parts {
            self.part(part, out);
            if out.is_done() {
                return;
            }
        }
        if let Some(grounding) = &candidate.grounding {
            self.grounding(grounding, out);
        }
        for citation in &candidate.citations {
            let span = citation.end.and_then(|end| self.span(citation.start, end));
            let (url, title) = (text(citation.uri), text(citation.title));
            out.annotation(Text::Plain("citation"), url, title, span, citation.raw);
        }
        if let Some(raw) = candidate.urls {
            out.hosted_tool(None, HostedPhase::Done, Text::Plain("url_context"), raw);
        }
        if let Some(reason) = candidate.finish {
            self.finish = Some(reason.decode().into_owned());
            self.finish_message = candidate.finish_message.map(|m| m.decode().into_owned());
        }
    }

    fn part(&mut self, part: &Part<'_>, out: &mut Out<'_>) {
        match &part.holds {
            Holds::Text(text) => return self.text(part, *text, out),
            Holds::Nothing if part.signature.is_some() => {
                return self.text(part, Literal::new(b"", false, true), out);
            }
            Holds::Nothing => return,
            Holds::Call(call) => {
                self.close(out);
                return self.function(call, part.signature, out);
            }
            Holds::Media { mime, data, url } => {
                self.close(out);
                let mime = mime.map_or(Text::Plain("application/octet-stream"), Text::from);
                out.media(mime, text(*data), text(*url), false);
            }
            Holds::Hosted { key, id, kind, outcome } => {
                self.close(out);
                let failed = outcome.is_some_and(|o| !o.is("OUTCOME_OK"));
                let (phase, name) = match *key {
                    "executableCode" => (HostedPhase::Started, Text::Plain("code_execution")),
                    "codeExecutionResult" if failed => (HostedPhase::Failed, Text::Plain("code_execution")),
                    "codeExecutionResult" => (HostedPhase::Done, Text::Plain("code_execution")),
                    "toolCall" => (HostedPhase::Started, kind.map_or(Text::Plain("tool"), Text::from)),
                    _ => (HostedPhase::Done, kind.map_or(Text::Plain("tool"), Text::from)),
                };
                // Its signature is in `raw`, with the rest of what goes back.
                return out.hosted_tool(id.map(Text::from), phase, name, part.raw);
            }
        }
        if let Some(signature) = part.signature {
            out.continuation(ContinuationForm::ThoughtSignature, signature.into(), AttachTo::Response, 0);
        }
    }

    fn text(&mut self, part: &Part<'_>, text: Literal<'_>, out: &mut Out<'_>) {
        let key = match self.open {
            Some((thought, key)) if thought == part.thought => key,
            // A signature that comes alone belongs to the text before it.
            Some((false, key)) if text.raw.is_empty() => key,
            _ if text.raw.is_empty() && part.signature.is_none() => return,
            _ => {
                self.close(out);
                self.next_key += 1;
                self.open = Some((part.thought, self.next_key));
                if !part.thought {
                    self.block_from = self.offsets.bytes_so_far();
                }
                self.next_key
            }
        };
        if part.thought {
            out.reasoning(key, ReasoningKind::Summary, text.into());
        } else {
            self.speak(key, text, out);
        }
        if let Some(signature) = part.signature {
            let to = if part.thought { AttachTo::Reasoning } else { AttachTo::Text };
            self.close(out);
            let at = out.index(key);
            out.continuation(ContinuationForm::ThoughtSignature, signature.into(), to, at);
        }
    }

    fn speak(&mut self, key: u64, text: Literal<'_>, out: &mut Out<'_>) {
        self.offsets.push(text.into());
        out.text(key, text.into());
    }

    /// Whether the chunk, which was acted on, did nothing but give out one text, and tell the counts.
    fn steadiness(&self, json: &[u8], frame: &Frame<'_>, out: &Out<'_>) -> Option<(Again, Steady)> {
        let Frame { has_error: false, candidate: Some(candidate), usage, block: None, .. } = frame else { return None };
        let Candidate {
            parts,
            excess: false,
            finish: None,
            finish_message: None,
            grounding: None,
            citations,
            urls: None,
        } = candidate
        else {
            return None;
        };
        let [Part { thought, signature: None, holds: Holds::Text(text), .. }] = &parts[..] else { return None };
        if text.raw.is_empty() || !citations.is_empty() || out.is_done() {
            return None;
        }
        let again = match self.open? {
            (true, key) if *thought => Again::Thought(key),
            (false, key) if !thought => Again::Text(key),
            _ => return None,
        };
        let steady = Steady::new(json, *text, Ignored::default());
        Some((again, usage.as_ref().map_or(steady, |tokens| steady.keeping(json, tokens.raw))))
    }

    fn close(&mut self, out: &mut Out<'_>) {
        if let Some((_, key)) = self.open.take() {
            out.close_block(key);
        }
    }

    fn function(&mut self, call: &Call<'_>, signature: Option<Literal<'_>>, out: &mut Out<'_>) {
        let (number, mut arguments) = match self.call.take() {
            Some(open) if call.name.is_none() => open,
            open => {
                if let Some((number, _)) = open {
                    out.calls().cut(number);
                }
                let Some(number) = out.call_open(CallKind::Function) else { return };
                (number, Arguments::default())
            }
        };
        let piece = Piece { id: call.id.map(Text::from), name: call.name.map(Text::from), text: None };
        out.call_piece(number, &piece);
        if let Some(signature) = signature {
            out.call_sign(number, ContinuationForm::ThoughtSignature, signature.into());
        }
        for piece in &call.pieces {
            let path = piece.path.map(Literal::decode).unwrap_or_default();
            if !arguments.put(&path, piece.string.map(Text::from), piece.plain) {
                return out.calls().broken(number);
            }
        }
        if let Some(args) = call.args {
            out.call_value(number, args);
        } else if call.will_continue {
            self.call = Some((number, arguments));
            return;
        } else {
            out.call_value(number, &arguments.json());
        }
        out.call_end(number);
    }

    fn grounding(&mut self, grounding: &Grounding<'_>, out: &mut Out<'_>) {
        if let Some(queries) = grounding.queries {
            out.hosted_tool(None, HostedPhase::Done, Text::Plain("google_search"), queries);
        }
        let kind = Text::Plain("grounding");
        let is_source = |source: &&Source<'_>| source.raw.starts_with(b"{");
        for support in &grounding.supports {
            let span = support.end.and_then(|end| self.span(support.start, end));
            for source in
                support.of.iter().filter_map(|n| grounding.chunks.get(usize::try_from(*n).ok()?)).filter(is_source)
            {
                out.annotation(kind, text(source.uri), text(source.title), span, source.raw);
            }
        }
        // Sources that no support names mean the whole.
        let named: HashSet<u64> = grounding.supports.iter().flat_map(|s| s.of.iter().copied()).collect();
        for (n, source) in (0u64..).zip(&grounding.chunks) {
            if !named.contains(&n) && is_source(&source) {
                out.annotation(kind, text(source.uri), text(source.title), None, source.raw);
            }
        }
    }

    /// Bytes of the candidate's text as code points of the newest text block, where they lie in it.
    fn span(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let from = self.offsets.code_points(self.block_from)?;
        let (start, end) = (self.offsets.code_points(start)?, self.offsets.code_points(end)?);
        (start <= end).then(|| start.checked_sub(from).zip(end.checked_sub(from)))?
    }
}

fn counts(tokens: &Tokens<'_>) -> Option<Counts> {
    tokens.counts.then(|| Counts {
        input: Some(tokens.prompt.unwrap_or(0) + tokens.tool_use.unwrap_or(0)),
        output: Some(tokens.candidates.unwrap_or(0) + tokens.thoughts.unwrap_or(0)),
        cached_input: tokens.cached,
        cache_write: None,
        reasoning: tokens.thoughts,
    })
}

fn counts_in(usage: &[u8]) -> Option<Counts> {
    counts(&read::usage(usage).ok()??)
}

fn text(literal: Option<Literal<'_>>) -> Option<Text<'_>> {
    literal.filter(|l| !l.raw.is_empty()).map(Text::from)
}
