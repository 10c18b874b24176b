//! Anthropic Messages: its event stream, and its whole JSON body.
//!
//! 1. A call is closed by its `content_block_stop` (R6). One that has no argument text waits for what comes next, since a
//!    token limit may have cut it before its first byte: then nothing is made of it (R10).
//! 2. `input` of a block's start is the input where no text follows (R8a). A message may start with whole blocks in it.
//! 3. A signature replaces the one before and goes out when its block ends; redacted thinking and a compaction are opaque
//!    state of their own. A compaction's data is its block's JSON (form `details`), since each of its members goes back.
//! 4. An annotation belongs to the text before it; citations that come before their block's text wait for it.
//! 5. What the provider runs itself is reported once per block, with the block whole in `raw`: `started` for the use,
//!    `done` or `failed` for the result (R19).
//! 6. Counts are running totals, and the three input counts do not overlap (R12).
//! 7. The end is a `stop_reason`, confirmed by `message_stop` or the end of the body (R17).
//!
//! Unknown events, blocks and deltas are ignored. Request fields must not be added here.

mod read;

use std::collections::HashMap;

use super::out::{Counts, Out, Piece, Started};
use super::template::Steady;
use super::text::Joined;
use super::{Ending, Normalize, finish};
use crate::event::{AttachTo, CallKind, ContinuationForm, HostedPhase, ReasoningKind};
use crate::json::{Scan, Scanner, Value};
use crate::limits::{MAX_BLOCKS, MAX_CALLS, MAX_OPEN_BLOCKS};
use crate::text::{Literal, Text, push_json_str};
use crate::toolcall::bounded;
use read::{Block, Citation, Delta, Frame, Message, Tokens};

/// The state of one response.
#[derive(Debug, Default)]
pub struct AnthropicMessages {
    begun: bool,
    /// Open blocks by the wire's index, the newest last.
    open: Vec<(u64, Open)>,
    next_key: u64,
    /// A closed call without argument text (rule 1 above).
    waiting: Option<u32>,
    /// Names of the tools that the provider runs by the ids of their uses, for the results.
    hosted: HashMap<String, String>,
    totals: Totals,
    /// The last stop reason.
    stop: Option<String>,
    steady: Option<(Again, Steady)>,
}

/// What a steady delta did with its text.
#[derive(Clone, Copy, Debug)]
enum Again {
    Text(u64),
    Thinking(u64),
    Call(u32),
}

#[derive(Debug)]
enum Open {
    Text { key: u64, given: bool, held: Vec<Vec<u8>> },
    Thinking { key: u64, signature: Option<String> },
    Call { number: u32, input: Option<Vec<u8>> },
    Hosted { raw: Vec<u8>, id: String, name: String, input: Joined },
    Compaction { raw: Vec<u8>, content: Option<Joined>, encrypted: Option<Joined> },
    Unknown,
}

/// Running totals of the counts that were seen.
#[derive(Debug, Default)]
struct Totals {
    input: Option<u64>,
    cache_creation: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

impl Normalize for AnthropicMessages {
    fn value(&mut self, json: &[u8], name: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let frame = read::frame(json)?;
        self.steady = None;
        let kind = frame.kind.map_or(name, |kind| kind.raw);
        match kind {
            b"content_block_delta" => {
                let again = self.again_of(&frame);
                self.delta(&frame, out);
                self.steady = again.map(|(again, text)| (again, Steady::new(json, text, frame.ignored)));
            }
            b"content_block_start" => {
                if let Some(block) = frame.block {
                    self.block_start(frame.index, &block, out);
                }
            }
            b"content_block_stop" => self.block_stop(frame.index, out),
            b"message_start" => {
                if let Some(message) = frame.message {
                    self.message_start(&message, out);
                }
            }
            b"message_delta" => {
                self.count(frame.usage.as_deref(), out);
                self.stop_reason(frame.delta.stop_reason);
            }
            b"message_stop" => {
                self.end(out);
                if !out.is_done() {
                    out.interrupted("the message stopped without a stop reason");
                }
            }
            b"error" => out.provider_error(json),
            _ if frame.has_error || name == b"error" => out.provider_error(json),
            _ => {}
        }
        Ok(())
    }

    fn steady(&self) -> Option<&Steady> {
        self.steady.as_ref().map(|(_, steady)| steady)
    }

    fn again(&mut self, text: Literal<'_>, _kept: &[u8], out: &mut Out<'_>) {
        match self.steady {
            Some((Again::Text(key), _)) => out.text(key, text.into()),
            Some((Again::Thinking(key), _)) => out.reasoning(key, ReasoningKind::Raw, text.into()),
            Some((Again::Call(number), _)) => out.call_text(number, text),
            None => {}
        }
    }

    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let Frame { kind, message, has_error, .. } = read::body(json)?;
        if has_error || kind.is_some_and(|kind| kind.is("error")) {
            out.provider_error(json);
        } else if let Some(message) = message.filter(|m| m.has_content || m.stop_reason.is_some()) {
            self.message_start(&message, out);
        }
        Ok(())
    }

    fn done(&mut self, _out: &mut Out<'_>) {}

    fn end(&mut self, out: &mut Out<'_>) {
        let Some(reason) = self.stop.take() else { return };
        let ending = finish::messages(&reason);
        if let Some(call) = self.waiting.take() {
            if cuts(ending) {
                out.calls().cut(call);
            } else {
                out.call_end(call);
            }
        }
        for (_, block) in self.open.drain(..) {
            if let Open::Call { number, .. } = block {
                out.calls().cut(number);
            }
        }
        out.finish(ending, Some(Text::Plain(&reason)));
    }
}

impl AnthropicMessages {
    fn message_start(&mut self, message: &Message<'_>, out: &mut Out<'_>) {
        let started = out.started(message.model.map(Text::from), message.id.map(Text::from));
        match started {
            Started::Other => return out.interrupted("another message began inside this one"),
            Started::Repeated if self.begun => return,
            Started::First | Started::Repeated => self.begun = true,
        }
        self.count(message.usage.as_ref(), out);
        // An index that no block of the stream has, should the stream go on.
        let base = MAX_BLOCKS as u64;
        for (at, block) in (base..).zip(&message.content) {
            self.block_start(Some(at), block, out);
            self.whole_block_stop(at, block, out);
        }
        self.stop_reason(message.stop_reason);
    }

    fn block_start(&mut self, index: Option<u64>, block: &Block<'_>, out: &mut Out<'_>) {
        if let Some(call) = self.waiting.take() {
            out.call_end(call);
        }
        if self.open.len() >= MAX_OPEN_BLOCKS {
            return out.interrupted("more content blocks are open than a response may have");
        }
        let Some(kind) = block.kind else { return };
        let key = self.next_key;
        self.next_key += 1;
        let open = match kind.raw {
            b"text" => {
                let given = give(out, key, block.text);
                cite(&block.citations, out);
                Open::Text { key, given, held: Vec::new() }
            }
            b"thinking" => {
                think(out, key, block.thinking);
                Open::Thinking { key, signature: block.signature.map(|s| s.decode().into_owned()) }
            }
            b"redacted_thinking" => {
                if let Some(data) = block.data.filter(|d| !d.raw.is_empty()) {
                    let at = out.index(key);
                    out.continuation(ContinuationForm::Redacted, data.into(), AttachTo::Reasoning, at);
                }
                Open::Unknown
            }
            b"tool_use" => {
                let Some(number) = out.call_open(CallKind::Function) else { return };
                let piece = Piece { id: block.id.map(Text::from), name: block.name.map(Text::from), text: None };
                out.call_piece(number, &piece);
                Open::Call { number, input: block.input.filter(|raw| !is_empty_object(raw)).map(<[u8]>::to_vec) }
            }
            b"server_tool_use" | b"mcp_tool_use" => self.hosted_use(block),
            b"compaction" => Open::Compaction { raw: block.raw.to_vec(), content: None, encrypted: None },
            b"container_upload" | b"mcp_tool_listing" => {
                out.hosted_tool(block.id.map(Text::from), HostedPhase::Done, kind.into(), block.raw);
                Open::Unknown
            }
            other if other.ends_with(b"_tool_result") => {
                self.hosted_result(kind, block, out);
                Open::Unknown
            }
            _ => Open::Unknown,
        };
        self.open.push((index.unwrap_or(key), open));
    }

    fn hosted_use(&mut self, block: &Block<'_>) -> Open {
        let of = |text: Option<Literal<'_>>| text.map(|t| bounded(t.into())).unwrap_or_default();
        let (id, name) = (of(block.id), of(block.name));
        if self.hosted.len() < MAX_CALLS {
            self.hosted.insert(id.clone(), name.clone());
        }
        Open::Hosted { raw: block.raw.to_vec(), id, name, input: Joined::default() }
    }

    /// A result comes whole in its block's start. It is named as its use was, or else by its own type.
    fn hosted_result(&mut self, kind: Literal<'_>, block: &Block<'_>, out: &mut Out<'_>) {
        let id = block.tool_use_id.map(Text::from);
        let known = id.and_then(|id| self.hosted.get(&*id.decode()));
        let own = kind.decode();
        let name = known.map_or_else(|| own.trim_end_matches("_tool_result"), String::as_str);
        let phase = if block.failed { HostedPhase::Failed } else { HostedPhase::Done };
        out.hosted_tool(id, phase, Text::Plain(name), block.raw);
    }

    /// Whether the delta will do nothing but give its text out, in a block that is in the middle of its text.
    fn again_of<'a>(&mut self, frame: &Frame<'a>) -> Option<(Again, Literal<'a>)> {
        let delta = &frame.delta;
        let (again, text) = match (delta.kind?.raw, self.find(frame.index)?) {
            (b"text_delta", Open::Text { key, given: true, held }) if held.is_empty() => {
                (Again::Text(*key), delta.text)
            }
            (b"thinking_delta", Open::Thinking { key, .. }) => (Again::Thinking(*key), delta.thinking),
            (b"input_json_delta", Open::Call { number, .. }) => (Again::Call(*number), delta.partial_json),
            _ => return None,
        };
        text.filter(|text| !text.raw.is_empty()).map(|text| (again, text))
    }

    fn delta(&mut self, frame: &Frame<'_>, out: &mut Out<'_>) {
        let delta = &frame.delta;
        let Some(open) = self.find(frame.index) else {
            return self.delta_without_block(frame, out);
        };
        let mut fits = true;
        match (delta.kind.map_or(&b""[..], |kind| kind.raw), open) {
            (b"text_delta", Open::Text { key, given, held }) => {
                *given |= give(out, *key, delta.text);
                if *given {
                    cite_held(held, out);
                }
            }
            (b"thinking_delta", Open::Thinking { key, .. }) => think(out, *key, delta.thinking),
            (b"signature_delta", Open::Thinking { signature, .. }) => {
                *signature = delta.signature.map(|s| s.decode().into_owned());
            }
            (b"input_json_delta", Open::Call { number, .. }) => {
                let piece = Piece { text: delta.partial_json.map(Text::from), ..Piece::default() };
                out.call_piece(*number, &piece);
            }
            (b"input_json_delta", Open::Hosted { input, .. }) => fits = input.push(delta.partial_json),
            (b"citations_delta", Open::Text { given: true, .. }) => {
                cite(delta.citation.as_deref().map_or(&[], std::slice::from_ref), out);
            }
            (b"citations_delta", Open::Text { held, .. }) if held.len() < MAX_OPEN_BLOCKS => {
                held.extend(delta.citation.as_ref().map(|c| c.raw.to_vec()));
            }
            (b"compaction_delta", Open::Compaction { content, encrypted, .. }) => {
                fits = compact(content, delta.content) && compact(encrypted, delta.encrypted_content);
            }
            _ => {}
        }
        if !fits {
            out.interrupted("a content block is longer than a response may have");
        }
    }

    /// Some hosts leave the start of a block of text out.
    fn delta_without_block(&mut self, frame: &Frame<'_>, out: &mut Out<'_>) {
        let Delta { kind: Some(kind), text, thinking, .. } = &frame.delta else { return };
        let kind = match kind.raw {
            b"text_delta" if text.is_some() => &b"text"[..],
            b"thinking_delta" if thinking.is_some() => &b"thinking"[..],
            _ => return,
        };
        let kind = Some(Literal::new(kind, false, true));
        self.block_start(frame.index, &Block { kind, text: *text, thinking: *thinking, ..Block::default() }, out);
    }

    fn block_stop(&mut self, index: Option<u64>, out: &mut Out<'_>) {
        if let Some(at) = self.position(index) {
            let (_, open) = self.open.remove(at);
            self.close(open, out);
        }
    }

    /// As [`Self::block_stop`], for a block that came whole: a call at a token limit may be cut, whatever its input
    /// looks like, so the last one waits for the stop reason.
    fn whole_block_stop(&mut self, index: u64, block: &Block<'_>, out: &mut Out<'_>) {
        let Some(at) = self.position(Some(index)) else { return };
        let (_, open) = self.open.remove(at);
        if let Open::Call { number, .. } = open {
            if let Some(input) = block.input {
                out.call_value(number, input);
            }
            self.waiting = Some(number);
        } else {
            self.close(open, out);
        }
    }

    fn close(&mut self, open: Open, out: &mut Out<'_>) {
        match open {
            Open::Text { key, mut held, .. } => {
                out.close_block(key);
                cite_held(&mut held, out);
            }
            Open::Thinking { key, signature } => {
                out.close_block(key);
                if let Some(signature) = signature.filter(|s| !s.is_empty()) {
                    let at = out.index(key);
                    out.continuation(ContinuationForm::Signature, Text::Plain(&signature), AttachTo::Reasoning, at);
                }
            }
            Open::Call { number, input } => {
                let text = &out.calls().call(number).text;
                let (none, blank) = (text.is_empty(), matches!(text.trim(), "" | "null"));
                match input {
                    Some(input) if none => {
                        out.call_value(number, &input);
                        out.call_end(number);
                    }
                    _ if blank => self.waiting = Some(number),
                    _ => out.call_end(number),
                }
            }
            Open::Hosted { raw, id, name, input } => {
                let input = input.done();
                let whole = match Scanner::only(input.as_bytes()) {
                    Ok(Value::Object(input)) => read::with_members(&raw, &[("input", input.to_vec())]),
                    _ => raw,
                };
                out.hosted_tool(Some(Text::Plain(&id)), HostedPhase::Started, Text::Plain(&name), &whole);
            }
            Open::Compaction { raw, content, encrypted } => {
                let members = [("content", content), ("encrypted_content", encrypted)];
                let json = |joined: Joined| {
                    let mut json = Vec::new();
                    push_json_str(&joined.done(), &mut json);
                    json
                };
                let came = members.into_iter().filter_map(|(name, text)| Some((name, json(text?))));
                let block = read::with_members(&raw, &came.collect::<Vec<_>>());
                let data = String::from_utf8_lossy(&block);
                out.continuation(ContinuationForm::Details, Text::Plain(&data), AttachTo::Response, 0);
            }
            Open::Unknown => {}
        }
    }

    fn stop_reason(&mut self, reason: Option<Literal<'_>>) {
        if let Some(reason) = reason.filter(|r| !r.raw.is_empty()) {
            self.stop = Some(bounded(reason.into()));
        }
    }

    fn count(&mut self, tokens: Option<&Tokens<'_>>, out: &mut Out<'_>) {
        let Some(tokens) = tokens else { return };
        let totals = &mut self.totals;
        totals.input = tokens.input.or(totals.input);
        totals.cache_creation = tokens.cache_creation.or(totals.cache_creation);
        totals.cache_read = tokens.cache_read.or(totals.cache_read);
        totals.output = tokens.output.or(totals.output);
        totals.thinking = tokens.thinking.or(totals.thinking);
        let input = [totals.input, totals.cache_creation, totals.cache_read];
        let counts = Counts {
            input: Some(input.into_iter().flatten().fold(0, u64::saturating_add)),
            output: Some(totals.output.unwrap_or(0)),
            cached_input: totals.cache_read,
            cache_write: totals.cache_creation,
            reasoning: totals.thinking,
        };
        out.usage(counts, tokens.raw);
    }

    fn find(&mut self, index: Option<u64>) -> Option<&mut Open> {
        let at = self.position(index)?;
        Some(&mut self.open[at].1)
    }

    /// The newest open block of this index; the newest of all where the wire names none.
    fn position(&self, index: Option<u64>) -> Option<usize> {
        self.open.iter().rposition(|(at, _)| index.is_none_or(|index| index == *at))
    }
}

fn compact(joined: &mut Option<Joined>, piece: Option<Literal<'_>>) -> bool {
    piece.is_none_or(|piece| joined.get_or_insert_default().push(Some(piece)))
}

/// Whether there was any text.
fn give(out: &mut Out<'_>, key: u64, text: Option<Literal<'_>>) -> bool {
    let Some(text) = text.filter(|text| !text.raw.is_empty()) else { return false };
    out.text(key, text.into());
    true
}

fn think(out: &mut Out<'_>, key: u64, text: Option<Literal<'_>>) {
    if let Some(text) = text {
        out.reasoning(key, ReasoningKind::Raw, text.into());
    }
}

/// Where a citation points to a place, it is one in the source and not in this text: no span.
fn cite(citations: &[Citation<'_>], out: &mut Out<'_>) {
    for c in citations {
        out.annotation(c.kind.into(), c.url.map(Text::from), c.title.map(Text::from), None, c.raw);
    }
}

/// Citations that came before the text which they belong to: an annotation belongs to the text before it.
fn cite_held(held: &mut Vec<Vec<u8>>, out: &mut Out<'_>) {
    for raw in held.drain(..) {
        if let Ok(Some(citation)) = read::citation(&raw) {
            cite(std::slice::from_ref(&citation), out);
        }
    }
}

/// Whether a call that was last may have been cut by this end.
fn cuts(ending: Ending) -> bool {
    use crate::event::FinishReason as F;
    matches!(ending, Ending::Reason(F::Length | F::ContentFilter | F::Refusal))
}

fn is_empty_object(raw: &[u8]) -> bool {
    raw.iter().filter(|b| !b.is_ascii_whitespace()).eq(b"{}")
}
