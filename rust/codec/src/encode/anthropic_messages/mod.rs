//! Events as Anthropic Messages: `message_start` to `message_stop`, or one `message` object.
//!
//! 1. Every event has its `event:` line: clients drop what has none. Blocks follow one another strictly, each with its
//!    position as index; nothing is sent inside of a block that is not its own.
//! 2. A tool block stays open until its call is an intent: `content_block_stop` is what makes a call complete
//!    here. Whatever comes meanwhile waits in order. A truncated call keeps its block open, as the
//!    vendor does, and the message ends with `max_tokens`, or with the `refusal` that cut it.
//! 3. `message_start` goes out with the first event that a client sees, so that counts known by then stand in it;
//!    `message_delta` has the final ones, which overwrite. The three parts of the input do not overlap here.
//! 4. Thinking without a signature is sent unsigned: a signature is never made up. The losses say so.
//! 5. A failure is `event: error` and nothing after it.

mod calls;
mod end;

use std::collections::VecDeque;

use super::calls::{Calls, State, Step};
use super::errors::Told;
use super::shared::{Counts, Shared, comma, demanded, list_comma, put, put_count, put_number, put_raw, put_str};
use super::{Continued, Outcome};
use crate::error::ErrorKind;
use crate::event::{AttachTo, CallKind, ContinuationForm, Event, HostedPhase, Protocol};
use crate::json::{Scanner, Value};
use crate::text::Text;
use end::{input_of, put_head, put_usage};

pub(super) struct Messages {
    started: bool,
    /// Blocks begun so far.
    blocks: u64,
    open: Open,
    calls: Calls,
    opened: usize,
    /// What came while a tool block was open.
    waiting: VecDeque<Piece>,
    /// Citations that wait for the text that they belong to.
    citations: Vec<Vec<u8>>,
    /// One body: the items of `content`, and the last block's citations and signature.
    content: Vec<u8>,
    block_citations: Vec<u8>,
    block_signature: Option<String>,
}

/// The block that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Text(u32),
    Thinking { block: u32, signed: bool },
    Tool(u32),
}

/// Something that waits for the tool block before it to end.
enum Piece {
    /// The inside of a JSON string.
    Text(u32, Vec<u8>),
    Thinking(u32, Vec<u8>),
    Signature(u32, String),
    Redacted(String),
    Citation(Vec<u8>),
    /// A whole block as the provider sent it.
    Block(Vec<u8>),
    /// A call, with whatever is known of it when its turn comes.
    Call(u32),
}

impl Messages {
    pub fn new(calls: Calls) -> Messages {
        Messages {
            started: false,
            blocks: 0,
            open: Open::Nothing,
            calls,
            opened: 0,
            waiting: VecDeque::new(),
            citations: Vec::new(),
            content: Vec::new(),
            block_citations: Vec::new(),
            block_signature: None,
        }
    }

    pub fn event(&mut self, shared: &mut Shared, event: &Event<'_>, out: &mut Vec<u8>) -> Outcome {
        match event {
            Event::TextDelta { text, index } => self.text(shared, *index, *text, out),
            Event::RefusalDelta { text, index } => {
                // No block of its own here: the stop reason says what this text is.
                shared.losses.approximated("response.refusal");
                self.text(shared, *index, *text, out);
            }
            Event::ReasoningDelta { text, index, .. } => {
                if self.is_blocked() {
                    self.wait_thinking(*index, *text);
                } else {
                    self.thinking(shared, *index, *text, out);
                }
            }
            Event::Continuation { family, form, data, to, index } => {
                let (family, form, data, to, index) = (*family, *form, *data, *to, *index);
                self.continuation(shared, &Continued { family, form, data, to, index }, out);
            }
            Event::Annotation { raw, .. } => {
                // A foreign citation has no place: every kind of citation here holds references that only the
                // vendor can make, and made-up ones would be sent back to it.
                if !shared.native() || !is_object(raw) {
                    shared.losses.dropped("response.annotations");
                } else if self.is_blocked() {
                    self.waiting.push_back(Piece::Citation(raw.to_vec()));
                } else {
                    self.citations.push(raw.to_vec());
                }
            }
            Event::HostedTool { phase, raw, .. } => {
                // A native one is a whole block: the use when it starts, the result when it is there.
                if !shared.native() || !is_object(raw) {
                    shared.losses.dropped("response.hosted_tools");
                } else if *phase != HostedPhase::Progress {
                    self.piece(shared, Piece::Block(raw.to_vec()), out);
                }
            }
            Event::IntentDelta { call, provider_call_id, name, kind, arguments_delta } => {
                let step = self.calls.delta(*call, *provider_call_id, *name, *kind, *arguments_delta);
                // A custom tool's text becomes an object, which is told at its end.
                if self.calls.call(*call).is_some_and(|call| call.kind == CallKind::Function) {
                    self.step(shared, *call, step, Some(*arguments_delta), out);
                }
            }
            Event::IntentProposed(intent) => {
                let step = self.calls.intent(intent);
                if step == Step::Diverged && shared.stream {
                    shared.losses.dropped("response.tool_calls[].arguments");
                    return Outcome::Failed(Told::of_kind(ErrorKind::MalformedToolCall));
                }
                if step == Step::Hold {
                    return Outcome::Going;
                }
                if intent.kind == CallKind::Custom {
                    shared.losses.approximated("response.tool_calls[].input");
                    self.calls.wrap_custom(intent.call);
                } else if !shared.stream && !self.calls.call(intent.call).is_some_and(|c| is_object(c.text.as_bytes()))
                {
                    // The body holds the input as JSON, so it has to be that.
                    return Outcome::Failed(Told::of_kind(ErrorKind::MalformedToolCall));
                }
                self.step(shared, intent.call, Step::Tell, None, out);
                self.done(shared, intent.call, out);
            }
            Event::Finished { reason, raw_reason } => {
                self.finished(shared, *reason, *raw_reason, out);
                return Outcome::Over;
            }
            // There is no place for media, as the table says: they never come here.
            Event::Media { .. } | Event::Started { .. } | Event::Usage(_) | Event::Error(_) => {}
        }
        Outcome::Going
    }

    pub fn fail(told: &Told, out: &mut Vec<u8>) {
        put(out, "event: error\ndata: ");
        out.extend_from_slice(&told.body(Protocol::AnthropicMessages));
        put(out, "\n\n");
    }

    /// Whether a tool block is open, so that nothing else can be sent.
    pub fn is_blocked(&self) -> bool {
        matches!(self.open, Open::Tool(_))
    }

    fn text(&mut self, shared: &mut Shared, index: u32, text: Text<'_>, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        if self.is_blocked() {
            if let Some(Piece::Text(last, kept)) = self.waiting.back_mut()
                && *last == index
            {
                text.push_json(kept);
            } else {
                let mut kept = Vec::new();
                text.push_json(&mut kept);
                self.waiting.push_back(Piece::Text(index, kept));
            }
            return;
        }
        self.begin_text(shared, index, out);
        self.delta(shared, out, "text_delta", "text", |out| text.push_json(out));
        if !shared.stream {
            text.push_json(&mut self.content);
        }
    }

    fn begin_text(&mut self, shared: &mut Shared, index: u32, out: &mut Vec<u8>) {
        let citations = std::mem::take(&mut self.citations);
        if self.open != Open::Text(index) {
            self.close(shared, out);
            self.begin(shared, out, "{\"type\":\"text\",\"text\":\"\"}", "{\"type\":\"text\",\"text\":\"");
            self.open = Open::Text(index);
        }
        for citation in citations {
            self.cite(shared, &citation, out);
        }
    }

    fn cite(&mut self, shared: &Shared, citation: &[u8], out: &mut Vec<u8>) {
        if shared.stream {
            let index = self.blocks - 1;
            event(out, "content_block_delta", |out| {
                put_count(out, ",\"index\":", index);
                put(out, ",\"delta\":{\"type\":\"citations_delta\",\"citation\":");
                put_raw(out, citation);
                out.push(b'}');
            });
        } else {
            list_comma(&mut self.block_citations);
            put_raw(&mut self.block_citations, citation);
        }
    }

    fn wait_thinking(&mut self, index: u32, text: Text<'_>) {
        if let Some(Piece::Thinking(last, kept)) = self.waiting.back_mut()
            && *last == index
        {
            text.push_json(kept);
            return;
        }
        let mut kept = Vec::new();
        text.push_json(&mut kept);
        self.waiting.push_back(Piece::Thinking(index, kept));
    }

    fn thinking(&mut self, shared: &mut Shared, index: u32, text: Text<'_>, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        self.begin_thinking(shared, index, out);
        self.delta(shared, out, "thinking_delta", "thinking", |out| text.push_json(out));
        if !shared.stream {
            text.push_json(&mut self.content);
        }
    }

    fn begin_thinking(&mut self, shared: &mut Shared, index: u32, out: &mut Vec<u8>) {
        if self.open != (Open::Thinking { block: index, signed: false }) {
            self.close(shared, out);
            self.begin(
                shared,
                out,
                "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}",
                "{\"type\":\"thinking\",\"thinking\":\"",
            );
            self.open = Open::Thinking { block: index, signed: false };
        }
    }

    /// A signature belongs to its thinking block. Everything else that is opaque, and what belongs to
    /// no open block, is a redacted block of its own.
    fn continuation(&mut self, shared: &mut Shared, continuation: &Continued<'_>, out: &mut Vec<u8>) {
        let Continued { family, form, data, to, index } = *continuation;
        let data = shared.slot(family, form, data).into_owned();
        let own = matches!(family, Protocol::AnthropicMessages | Protocol::BedrockInvoke);
        if own && form == ContinuationForm::Details && is_object(data.as_bytes()) {
            // A whole block of the vendor's own: a compaction.
            return self.piece(shared, Piece::Block(data.into_bytes()), out);
        }
        let follows = match self.waiting.back() {
            Some(Piece::Thinking(block, _)) => *block == index,
            Some(_) => false,
            None => self.open == Open::Thinking { block: index, signed: false },
        };
        let is_reasoning = to == AttachTo::Reasoning;
        // A signature without any text is a thinking block whose text the provider keeps to itself.
        let signs = is_reasoning && (follows || form == ContinuationForm::Signature);
        let piece = if signs { Piece::Signature(index, data) } else { Piece::Redacted(data) };
        self.piece(shared, piece, out);
    }

    /// Sends a piece, or lets it wait where a tool block is open.
    fn piece(&mut self, shared: &mut Shared, piece: Piece, out: &mut Vec<u8>) {
        if self.is_blocked() {
            self.waiting.push_back(piece);
        } else {
            self.send(shared, piece, out);
        }
    }

    /// Sends a piece; no tool block is open. A call may open one.
    fn send(&mut self, shared: &mut Shared, piece: Piece, out: &mut Vec<u8>) {
        match piece {
            Piece::Text(index, inside) => {
                self.begin_text(shared, index, out);
                self.delta(shared, out, "text_delta", "text", |out| out.extend_from_slice(&inside));
                if !shared.stream {
                    self.content.extend_from_slice(&inside);
                }
            }
            Piece::Thinking(index, inside) => {
                self.begin_thinking(shared, index, out);
                self.delta(shared, out, "thinking_delta", "thinking", |out| out.extend_from_slice(&inside));
                if !shared.stream {
                    self.content.extend_from_slice(&inside);
                }
            }
            Piece::Signature(index, data) => {
                self.begin_thinking(shared, index, out);
                self.delta(shared, out, "signature_delta", "signature", |out| Text::from(&*data).push_json(out));
                self.open = Open::Thinking { block: index, signed: true };
                self.block_signature = Some(data);
                // It comes once, directly before the block's end.
                self.close(shared, out);
            }
            Piece::Redacted(data) => {
                let mut block = Vec::with_capacity(data.len() + 48);
                put_str(&mut block, "{\"type\":\"redacted_thinking\",\"data\":", &data);
                block.push(b'}');
                self.whole(shared, &block, out);
            }
            Piece::Citation(citation) => self.citations.push(citation),
            Piece::Block(block) => self.whole(shared, &block, out),
            Piece::Call(number) => self.begin_call(shared, number, out),
        }
    }

    /// A block that is complete at its start.
    fn whole(&mut self, shared: &mut Shared, block: &[u8], out: &mut Vec<u8>) {
        self.close(shared, out);
        self.start(shared, out);
        let index = self.blocks;
        self.blocks += 1;
        if shared.stream {
            event(out, "content_block_start", |out| {
                put_count(out, ",\"index\":", index);
                put(out, ",\"content_block\":");
                put_raw(out, block);
            });
            event(out, "content_block_stop", |out| put_count(out, ",\"index\":", index));
        } else {
            comma(&mut self.content, index == 0);
            put_raw(&mut self.content, block);
        }
    }

    fn start(&mut self, shared: &mut Shared, out: &mut Vec<u8>) {
        if self.started {
            return;
        }
        self.started = true;
        if !shared.stream {
            return;
        }
        let counts = shared.usage.unwrap_or_default();
        put(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
        put_head(out, shared);
        put(out, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
        // The schema demands both numbers; what is not known yet is 0 here and comes with `message_delta`.
        put_usage(out, counts, input_of(counts).unwrap_or(0), counts.output.unwrap_or(0));
        put(out, "}}\n\n");
    }

    fn begin(&mut self, shared: &mut Shared, out: &mut Vec<u8>, empty: &str, open: &str) {
        self.start(shared, out);
        let index = self.blocks;
        self.blocks += 1;
        if shared.stream {
            event(out, "content_block_start", |out| {
                put_count(out, ",\"index\":", index);
                put(out, ",\"content_block\":");
                put(out, empty);
            });
        } else {
            comma(&mut self.content, index == 0);
            put(&mut self.content, open);
        }
    }

    fn delta(&self, shared: &Shared, out: &mut Vec<u8>, kind: &str, key: &str, inside: impl FnOnce(&mut Vec<u8>)) {
        if !shared.stream {
            return;
        }
        put(out, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
        put_number(out, self.blocks - 1);
        put(out, ",\"delta\":{\"type\":\"");
        put(out, kind);
        put(out, "\",\"");
        put(out, key);
        put(out, "\":\"");
        inside(out);
        put(out, "\"}}\n\n");
    }

    /// Ends the open block. Only a tool block whose call is an intent comes here.
    fn close(&mut self, shared: &mut Shared, out: &mut Vec<u8>) {
        match self.open {
            Open::Nothing => return,
            Open::Text(_) => {
                // Citations whose text never came belong to the text before them.
                for citation in std::mem::take(&mut self.citations) {
                    self.cite(shared, &citation, out);
                }
            }
            Open::Thinking { signed, .. } => {
                if !signed {
                    shared.losses.dropped("response.reasoning.signature");
                }
            }
            Open::Tool(_) => {}
        }
        if shared.stream {
            let index = self.blocks - 1;
            event(out, "content_block_stop", |out| put_count(out, ",\"index\":", index));
        } else {
            self.close_body();
        }
        self.block_signature = None;
        self.open = Open::Nothing;
    }

    fn close_body(&mut self) {
        match self.open {
            Open::Nothing => {}
            Open::Text(_) => {
                self.content.push(b'"');
                if !self.block_citations.is_empty() {
                    put(&mut self.content, ",\"citations\":[");
                    self.content.append(&mut self.block_citations);
                    self.content.push(b']');
                }
                self.content.push(b'}');
            }
            Open::Thinking { .. } => {
                let signature = self.block_signature.take().unwrap_or_default();
                put_str(&mut self.content, "\",\"signature\":", &signature);
                self.content.push(b'}');
            }
            Open::Tool(number) => {
                let input = self.calls.call(number).map_or("{}", |call| call.text.trim());
                put(&mut self.content, input);
                self.content.push(b'}');
            }
        }
    }
}

/// One event; `inside` adds the members after `type`.
fn event(out: &mut Vec<u8>, kind: &str, inside: impl FnOnce(&mut Vec<u8>)) {
    put(out, "event: ");
    put(out, kind);
    put(out, "\ndata: {\"type\":\"");
    put(out, kind);
    out.push(b'"');
    inside(out);
    put(out, "}\n\n");
}

fn is_object(raw: &[u8]) -> bool {
    matches!(Scanner::only(raw), Ok(Value::Object(_)))
}
