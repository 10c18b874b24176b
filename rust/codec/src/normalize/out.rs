//! The way out for every normaliser, and what a response remembers whatever its protocol.
//!
//! 1. One terminal event (R0): [`Out::finish`] and [`Out::fail`] give it, and nothing goes out after it.
//! 2. `model.started` once (R1). 3. Blocks are numbered by first appearance, calls by theirs (R4).
//! 4. Surrogate halves are held per block and per call (R2). 5. A usage is kept, the last one counts, and it goes out once,
//!    directly before the terminal (R12). 6. A malformed call becomes the error only at the end, after the usage (R11).
//!
//! No wire field's name may be added here.

use std::collections::HashMap;

use super::Ending;
use super::classify::{self, Evidence};
use super::text::Half;
use crate::error::ErrorKind;
use crate::event::{
    At, AttachTo, CallKind, ContinuationForm, ErrorPhase, Event, FinishReason, FrameMark, HostedPhase, Protocol,
    ProviderError, ReasoningKind, Sink, ToolIntent, Usage,
};
use crate::limits::{MAX_BLOCKS, MAX_ERROR_RAW, MAX_TOKENS};
use crate::text::{Literal, Text};
use crate::toolcall::{Calls, Excess, bounded};

/// Totals of a response; absent where the provider did not send them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cached_input: Option<u64>,
    pub cache_write: Option<u64>,
    pub reasoning: Option<u64>,
}

impl Counts {
    /// Without the numbers that no answer can have cost.
    fn believed(self) -> Counts {
        let one = |n: Option<u64>| n.filter(|&n| n <= MAX_TOKENS);
        Counts {
            input: one(self.input),
            output: one(self.output),
            cached_input: one(self.cached_input),
            cache_write: one(self.cache_write),
            reasoning: one(self.reasoning),
        }
    }
}

/// What [`Out::started`] made of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// The event went out.
    First,
    /// It named nothing, or repeats the one before.
    Repeated,
    /// It names another response than the one before (rule R1s).
    Other,
}

/// What one fragment of a call brought. Empty ids and names count as absent (R21a).
#[derive(Clone, Copy, Debug, Default)]
pub struct Piece<'a> {
    pub id: Option<Text<'a>>,
    pub name: Option<Text<'a>>,
    /// Argument text, or a custom tool's input.
    pub text: Option<Text<'a>>,
}

/// What is known of a failure besides its kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    pub status: Option<u16>,
    pub code: Option<&'a str>,
    pub message: Option<&'a str>,
    pub raw: Option<&'a str>,
    pub retry_after_s: Option<f64>,
    pub request_id: Option<&'a str>,
    /// Set only where the kind's own answer in the table does not stand.
    pub retryable: Option<bool>,
    /// Set only where it is neither `before_commit` nor `streaming`.
    pub phase: Option<ErrorPhase>,
}

/// One block of text, reasoning or refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Text,
    Refusal,
    Reasoning(ReasoningKind),
}

#[derive(Debug)]
struct Block {
    key: u64,
    half: Half,
    kind: BlockKind,
}

/// What is known of a response before its first byte.
#[derive(Clone, Debug)]
pub struct About {
    pub family: Protocol,
    /// Of the HTTP response; `None` where there was none of its own (a WebSocket message).
    pub status: Option<u16>,
    pub headers: Vec<(String, String)>,
    pub turn_id: String,
    pub provider: Option<String>,
    pub model: Option<String>,
}

/// Reads the counts out of a family's usage object.
pub type Reader = fn(&[u8]) -> Option<Counts>;

/// What a response remembers.
#[derive(Debug)]
pub struct Response {
    about: About,
    request_id: Option<String>,
    tally: Tally,
    started: bool,
    /// As `model.started` named it.
    named: Option<String>,
    refused: bool,
    blocks: Vec<Block>,
    /// Filled once there are more blocks than a short search is good for.
    by_key: HashMap<u64, u32>,
    calls: Calls,
    usage: Option<Counts>,
    usage_raw: Vec<u8>,
    /// Reads `usage_raw`, where that has not been done.
    usage_reader: Option<Reader>,
    /// Of the frame being read.
    mark: FrameMark,
    scratch: String,
}

#[derive(Debug, Default)]
struct Tally {
    seq: u64,
    done: bool,
    committed: bool,
}

/// Blocks up to here are searched one by one.
const FEW_BLOCKS: usize = 8;

impl Response {
    #[must_use]
    pub fn new(about: About) -> Response {
        Response {
            request_id: classify::request_id(&about.headers),
            about,
            tally: Tally::default(),
            started: false,
            named: None,
            refused: false,
            blocks: Vec::new(),
            by_key: HashMap::new(),
            calls: Calls::default(),
            usage: None,
            usage_raw: Vec::new(),
            usage_reader: None,
            mark: FrameMark::Plain,
            scratch: String::new(),
        }
    }

    /// The terminal event was given.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.tally.done
    }

    /// What there is to know of the frame that was read last; nothing from then on.
    pub fn take_mark(&mut self) -> FrameMark {
        std::mem::take(&mut self.mark)
    }

    /// The way out for the events of one frame, whose first byte is at `offset`.
    pub fn out<'a>(&'a mut self, offset: u64, sink: &'a mut dyn Sink) -> Out<'a> {
        Out { response: self, sink, offset }
    }
}

/// Takes the events of one frame.
pub struct Out<'a> {
    response: &'a mut Response,
    sink: &'a mut dyn Sink,
    offset: u64,
}

impl Tally {
    #[inline]
    fn emit(&mut self, sink: &mut dyn Sink, offset: u64, event: &Event<'_>) {
        if self.done {
            return;
        }
        let at = At { seq: self.seq, offset };
        self.seq += 1;
        self.committed |= event.commits();
        self.done = event.is_terminal();
        sink.event(at, event);
    }
}

impl Out<'_> {
    /// The terminal event was given; whatever comes now goes nowhere.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.response.tally.done
    }

    #[must_use]
    pub fn is_started(&self) -> bool {
        self.response.started
    }

    /// A header that the response came with.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = &self.response.about.headers;
        headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Gives out `model.started` if this is the first that names anything (rule R1).
    pub fn started(&mut self, model: Option<Text<'_>>, response_id: Option<Text<'_>>) -> Started {
        let model = model.filter(|t| !t.is_empty());
        let response_id = response_id.filter(|t| !t.is_empty());
        if self.response.started {
            return match (&self.response.named, response_id) {
                (Some(known), Some(id)) if !id.is(known) => Started::Other,
                _ => Started::Repeated,
            };
        }
        if model.is_none() && response_id.is_none() {
            return Started::Repeated;
        }
        self.response.started = true;
        self.response.named = response_id.map(bounded);
        if self.response.tally.seq > 0 {
            // Named only after other events went out: too late to be the first.
            return Started::Repeated;
        }
        let Response { tally, request_id, .. } = &mut *self.response;
        let request_id = request_id.as_deref().map(Text::Plain);
        tally.emit(self.sink, self.offset, &Event::Started { model, response_id, request_id });
        Started::First
    }

    /// Text of the block with this key. A key is the normaliser's own name of a block; index numbers follow by first
    /// appearance, of blocks that have text.
    #[inline]
    pub fn text(&mut self, key: u64, text: Text<'_>) {
        self.delta(key, BlockKind::Text, text);
    }

    /// Refusal text. A normal end after it is a `refusal` (rule R13).
    pub fn refusal(&mut self, key: u64, text: Text<'_>) {
        self.response.refused |= !text.is_empty();
        self.delta(key, BlockKind::Refusal, text);
    }

    /// Readable reasoning.
    #[inline]
    pub fn reasoning(&mut self, key: u64, kind: ReasoningKind, text: Text<'_>) {
        self.delta(key, BlockKind::Reasoning(kind), text);
    }

    /// The index of the block with this key; the block counts as having appeared.
    pub fn index(&mut self, key: u64) -> u32 {
        self.block(key, BlockKind::Text).unwrap_or(0)
    }

    /// The index of the block with this key, if it has appeared.
    #[must_use]
    pub fn seen(&self, key: u64) -> Option<u32> {
        self.find(key)
    }

    /// The block is over: a half that it still holds goes out as U+FFFD.
    pub fn close_block(&mut self, key: u64) {
        if let Some(at) = self.find(key) {
            self.flush_block(at);
        }
    }

    /// Opaque state of this family, to be given back unchanged. `index` is that of the block or call.
    pub fn continuation(&mut self, form: ContinuationForm, data: Text<'_>, to: AttachTo, index: u32) {
        let family = self.response.about.family;
        self.emit(&Event::Continuation { family, form, data, to, index });
    }

    pub fn annotation(
        &mut self,
        kind: Text<'_>,
        url: Option<Text<'_>>,
        title: Option<Text<'_>>,
        span: Option<(u64, u64)>,
        raw: &[u8],
    ) {
        self.emit(&Event::Annotation { kind, url, title, span, raw });
    }

    pub fn hosted_tool(&mut self, id: Option<Text<'_>>, phase: HostedPhase, name: Text<'_>, raw: &[u8]) {
        let id = id.filter(|t| !t.is_empty());
        self.emit(&Event::HostedTool { id, phase, name, raw });
    }

    pub fn media(&mut self, mime: Text<'_>, data: Option<Text<'_>>, url: Option<Text<'_>>, partial: bool) {
        self.emit(&Event::Media { mime, data, url, partial });
    }

    /// The calls as far as they are known.
    pub fn calls(&mut self) -> &mut Calls {
        &mut self.response.calls
    }

    /// Opens the next call. `None` where there are too many; the stream has then ended.
    pub fn call_open(&mut self, kind: CallKind) -> Option<u32> {
        match self.response.calls.open(kind) {
            Ok(call) => Some(call),
            Err(excess) => {
                self.exceeded(excess);
                None
            }
        }
    }

    /// Takes one fragment of a call and gives out a delta where it brought anything, and in any case for the first.
    pub fn call_piece(&mut self, number: u32, piece: &Piece<'_>) {
        let Response { calls, tally, scratch, .. } = &mut *self.response;
        let news = calls.identify(number, self.offset, piece.id, piece.name);
        let mut text = Text::EMPTY;
        if let Some(came) = piece.text {
            let mut half = calls.call(number).half;
            if let Some(ready) = half.pass(came, scratch) {
                match calls.append(number, self.offset, ready) {
                    Ok(true) => text = ready,
                    Ok(false) => {}
                    Err(excess) => return self.exceeded(excess),
                }
            }
            calls.call(number).half = half;
        }
        let call = calls.call(number);
        if call.announced && !news.id && !news.name && text.is_empty() {
            return;
        }
        let first = !call.announced;
        call.announced = true;
        let event = Event::IntentDelta {
            call: number,
            provider_call_id: call.id.as_deref().filter(|_| first || news.id).map(Text::Plain),
            name: Some(call.name.as_str()).filter(|n| !n.is_empty() && (first || news.name)).map(Text::Plain),
            kind: call.kind,
            arguments_delta: text,
        };
        tally.emit(self.sink, self.offset, &event);
    }

    /// As [`Out::call_piece`], for argument text alone.
    pub fn call_text(&mut self, number: u32, came: Literal<'_>) {
        let Response { calls, tally, scratch, .. } = &mut *self.response;
        let call = calls.call(number);
        if !call.announced {
            return self.call_piece(number, &Piece { text: Some(came.into()), ..Piece::default() });
        }
        call.touch(self.offset);
        let Some(text) = call.half.pass(came.into(), scratch) else { return };
        let kind = call.kind;
        match calls.append(number, self.offset, text) {
            Ok(true) => {}
            Ok(false) => return,
            Err(excess) => return self.exceeded(excess),
        }
        let event =
            Event::IntentDelta { call: number, provider_call_id: None, name: None, kind, arguments_delta: text };
        tally.emit(self.sink, self.offset, &event);
    }

    /// The provider sent the whole input as a JSON value instead of text (rule R9).
    pub fn call_value(&mut self, number: u32, json: &[u8]) {
        let json = String::from_utf8_lossy(json);
        let was_empty = self.response.calls.call(number).text.is_empty();
        match self.response.calls.replace(number, self.offset, &json) {
            Ok(true) if was_empty => self.call_delta(number, &json),
            Ok(_) => {}
            Err(excess) => self.exceeded(excess),
        }
    }

    /// The provider repeats the call's text as a whole at its end: what the deltas lacked is given out, a different text
    /// replaces theirs (rule R5).
    pub fn call_final(&mut self, number: u32, text: Text<'_>) {
        let whole = text.decode();
        let call = self.response.calls.call(number);
        let known = call.text.len();
        if whole.starts_with(call.text.as_str()) {
            if whole.len() > known {
                call.half = Half::default();
                self.call_piece(number, &Piece { text: Some(Text::Plain(&whole[known..])), ..Piece::default() });
            }
        } else if let Err(excess) = self.response.calls.replace(number, self.offset, &whole) {
            self.exceeded(excess);
        }
    }

    /// Opaque state that belongs to a call: given out directly before its intent (rule R3g).
    pub fn call_sign(&mut self, number: u32, form: ContinuationForm, data: Text<'_>) {
        if let Err(excess) = self.response.calls.sign(number, form, data.decode().into_owned()) {
            self.exceeded(excess);
        }
    }

    /// The provider ended this call: an intent, or a malformed call that is the error at the end (rules R6, R11).
    pub fn call_end(&mut self, number: u32) {
        if let Some(text) = self.response.calls.call(number).half.flush() {
            self.call_piece(number, &Piece { text: Some(text), ..Piece::default() });
        }
        let Response { calls, tally, about: About { turn_id, family, .. }, .. } = &mut *self.response;
        if tally.done || !calls.end(number) {
            return;
        }
        let call = calls.call(number);
        if let Some((form, data)) = &call.signature {
            let (family, form, data, to) = (*family, *form, Text::Plain(data), AttachTo::Call);
            tally.emit(self.sink, self.offset, &Event::Continuation { family, form, data, to, index: number });
        }
        let id = format!("{turn_id}.{number}");
        let intent = ToolIntent {
            call: number,
            id: &id,
            provider_call_id: call.id.as_deref().map(Text::Plain),
            tool_name: Text::Plain(&call.name),
            kind: call.kind,
            raw_input_text: Text::Plain(&call.text),
            assembled_from: call.assembled(),
        };
        tally.emit(self.sink, self.offset, &Event::IntentProposed(intent));
    }

    /// The frame holds a usage and no choice: the one kind that a verbatim relay may take out.
    pub fn mark_usage_only(&mut self) {
        self.response.mark = FrameMark::UsageOnly;
    }

    /// Keeps a usage; the last one counts and goes out before the terminal (rule R12). `raw` is JSON.
    pub fn usage(&mut self, counts: Counts, raw: &[u8]) {
        self.response.usage = Some(counts.believed());
        self.response.usage_reader = None;
        self.response.usage_raw.clear();
        self.response.usage_raw.extend_from_slice(raw);
    }

    /// As [`Out::usage`], for counts that the next chunk repeats: only the last ones are read. `raw` holds some for certain.
    pub fn usage_unread(&mut self, raw: &[u8], reader: Reader) {
        self.response.usage_reader = Some(reader);
        self.response.usage_raw.clear();
        self.response.usage_raw.extend_from_slice(raw);
    }

    /// The response has ended by the provider's word: intents stand or fall, the usage and the terminal go out.
    /// Calls that the protocol does not end one by one must have been ended ([`Out::call_end`]) before.
    pub fn finish(&mut self, ending: Ending, raw_reason: Option<Text<'_>>) {
        self.flush_blocks();
        let calls = &self.response.calls;
        let reason = match ending {
            Ending::Error(kind) => {
                let message = raw_reason.map(|r| format!("the provider ended with {:?}", r.decode()));
                return self.fail(kind, &Known { message: message.as_deref(), ..Known::default() });
            }
            Ending::MalformedCall => return self.malformed_call("the provider reports a malformed tool call"),
            // What cut the answer may have cut a call (rule R10).
            Ending::Reason(reason @ (FinishReason::Length | FinishReason::ContentFilter | FinishReason::Refusal)) => {
                reason
            }
            _ if calls.malformed().is_some() => {
                return self
                    .malformed_call("a finished tool call has no name, or arguments that are not a JSON object");
            }
            Ending::Reason(reason) => reason,
            _ if calls.proposed() > 0 => FinishReason::ToolIntents,
            Ending::ToolUse => return self.malformed_call("the provider says that a tool is used and sent no call"),
            Ending::Normal if self.response.refused => FinishReason::Refusal,
            Ending::Normal => FinishReason::Stop,
        };
        self.give_usage();
        self.emit(&Event::Finished { reason, raw_reason: raw_reason.filter(|r| !r.is_empty()) });
    }

    /// The response has failed: what is held, what is known of the usage, and the error go out.
    pub fn fail(&mut self, kind: ErrorKind, known: &Known<'_>) {
        self.flush_blocks();
        self.give_usage();
        let Response { tally, about: About { provider, model, .. }, request_id, .. } = &mut *self.response;
        let phase = if tally.committed { ErrorPhase::Streaming } else { ErrorPhase::BeforeCommit };
        let error = ProviderError {
            kind,
            retryable: known.retryable.unwrap_or(kind.retryable()),
            status: known.status,
            code: known.code.map(Text::Plain),
            message: known.message.map(Text::Plain),
            raw: known.raw.filter(|r| !r.is_empty()).map(|r| Text::Plain(head(r))),
            retry_after_s: known.retry_after_s,
            request_id: known.request_id.or(request_id.as_deref()).map(Text::Plain),
            provider: provider.as_deref().map(Text::Plain),
            model: model.as_deref().map(Text::Plain),
            phase: known.phase.unwrap_or(phase),
        };
        tally.emit(self.sink, self.offset, &Event::Error(error));
        self.response.mark = FrameMark::Broken;
    }

    /// The provider reports an error inside a response that had begun well (rule R14). `json` is the payload that
    /// reports it, or the part of it that does.
    pub fn provider_error(&mut self, json: &[u8]) {
        self.classified(json, None, true);
    }

    /// As [`Out::provider_error`], where the framing names the error.
    pub fn named_error(&mut self, code: &str, body: &[u8]) {
        self.classified(body, Some(code), true);
    }

    /// The response is an error as a whole: its status says so.
    pub fn error_body(&mut self, body: &[u8]) {
        self.classified(body, None, false);
    }

    fn classified(&mut self, body: &[u8], code: Option<&str>, in_stream: bool) {
        let About { family, status, headers, .. } = &self.response.about;
        let evidence = Evidence { status: *status, headers, body, code, in_stream, family: *family };
        let c = classify::classify(&evidence);
        let raw = String::from_utf8_lossy(&body[..body.len().min(MAX_ERROR_RAW)]);
        let known = Known {
            status: c.status,
            code: c.code.as_deref(),
            message: c.message.as_deref(),
            raw: Some(&raw),
            retry_after_s: c.retry_after_s,
            request_id: c.request_id.as_deref(),
            retryable: Some(c.retryable),
            phase: (!in_stream).then_some(ErrorPhase::Head),
        };
        self.fail(c.kind, &known);
        self.response.mark = FrameMark::Plain;
    }

    /// The stream broke: it was cut, spliced, or holds what is not its protocol's.
    pub fn interrupted(&mut self, message: &str) {
        self.fail(ErrorKind::StreamInterrupted, &Known { message: Some(message), ..Known::default() });
    }

    fn malformed_call(&mut self, message: &str) {
        let raw = self.response.calls.malformed().map(|c| head(&c.text).to_owned());
        let known = Known { message: Some(message), raw: raw.as_deref(), ..Known::default() };
        self.fail(ErrorKind::MalformedToolCall, &known);
    }

    fn exceeded(&mut self, excess: Excess) {
        match excess {
            Excess::Calls => self.interrupted("more tool calls than a response may have"),
            Excess::Arguments => {
                let message = Some("the arguments of tool calls are longer than a response may have");
                self.fail(ErrorKind::MalformedToolCall, &Known { message, ..Known::default() });
            }
        }
    }

    fn emit(&mut self, event: &Event<'_>) {
        self.response.tally.emit(self.sink, self.offset, event);
    }

    fn call_delta(&mut self, number: u32, text: &str) {
        let Response { calls, tally, .. } = &mut *self.response;
        let call = calls.call(number);
        let first = !std::mem::replace(&mut call.announced, true);
        let event = Event::IntentDelta {
            call: number,
            provider_call_id: call.id.as_deref().filter(|_| first).map(Text::Plain),
            name: Some(call.name.as_str()).filter(|n| !n.is_empty() && first).map(Text::Plain),
            kind: call.kind,
            arguments_delta: Text::Plain(text),
        };
        tally.emit(self.sink, self.offset, &event);
    }

    fn give_usage(&mut self) {
        let Response { usage, usage_raw, usage_reader, tally, .. } = &mut *self.response;
        if let Some(reader) = usage_reader.take() {
            *usage = reader(usage_raw).map(Counts::believed);
        }
        let Some(counts) = usage.take() else { return };
        let event = Event::Usage(Usage {
            input_tokens: counts.input,
            output_tokens: counts.output,
            cached_input_tokens: counts.cached_input,
            cache_write_tokens: counts.cache_write,
            reasoning_tokens: counts.reasoning,
            raw: usage_raw,
        });
        tally.emit(self.sink, self.offset, &event);
    }

    #[inline]
    fn delta(&mut self, key: u64, kind: BlockKind, text: Text<'_>) {
        if text.is_empty() {
            return;
        }
        let Some(index) = self.block(key, kind) else {
            return self.interrupted("more content blocks than a response may have");
        };
        let Response { blocks, tally, scratch, .. } = &mut *self.response;
        let block = &mut blocks[index as usize];
        block.kind = kind;
        if let Some(text) = block.half.pass(text, scratch) {
            tally.emit(self.sink, self.offset, &event_of(kind, text, index));
        }
    }

    #[inline]
    fn find(&self, key: u64) -> Option<u32> {
        let Response { blocks, by_key, .. } = &*self.response;
        let few = blocks.iter().take(FEW_BLOCKS);
        if let Some(at) = few.clone().position(|b| b.key == key) {
            return Some(at as u32);
        }
        if blocks.len() > FEW_BLOCKS { by_key.get(&key).copied() } else { None }
    }

    #[inline]
    fn block(&mut self, key: u64, kind: BlockKind) -> Option<u32> {
        match self.find(key) {
            Some(at) => Some(at),
            None => self.new_block(key, kind),
        }
    }

    #[cold]
    fn new_block(&mut self, key: u64, kind: BlockKind) -> Option<u32> {
        let Response { blocks, by_key, .. } = &mut *self.response;
        let at = blocks.len();
        if at >= MAX_BLOCKS {
            return None;
        }
        blocks.push(Block { key, half: Half::default(), kind });
        if at >= FEW_BLOCKS {
            by_key.insert(key, at as u32);
        }
        Some(at as u32)
    }

    fn flush_block(&mut self, at: u32) {
        let Response { blocks, tally, .. } = &mut *self.response;
        let block = &mut blocks[at as usize];
        if let Some(text) = block.half.flush() {
            tally.emit(self.sink, self.offset, &event_of(block.kind, text, at));
        }
    }

    fn flush_blocks(&mut self) {
        for at in 0..self.response.blocks.len() {
            self.flush_block(at as u32);
        }
    }
}

fn event_of(kind: BlockKind, text: Text<'_>, index: u32) -> Event<'_> {
    match kind {
        BlockKind::Text => Event::TextDelta { text, index },
        BlockKind::Refusal => Event::RefusalDelta { text, index },
        BlockKind::Reasoning(kind) => Event::ReasoningDelta { text, kind, index },
    }
}

/// The head of a text, cut at [`MAX_ERROR_RAW`] bytes, at a character's edge.
fn head(text: &str) -> &str {
    if text.len() <= MAX_ERROR_RAW {
        return text;
    }
    let edge = (0..=MAX_ERROR_RAW).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    &text[..edge]
}
