//! Amazon Bedrock's Converse: its stream of events, and its whole JSON body.
//!
//! 1. Text and reasoning begin with their first delta, without a start; a start opens calls, results and images.
//! 2. A call is closed by its `contentBlockStop` (R6). One that has no argument text waits for what comes next, since a token
//!    limit may have cut it before its first byte: then nothing is made of it (R10).
//! 3. A signature and redacted reasoning come in pieces and go out when their block ends. Redacted pieces are base64, each of its
//!    own bytes: they are joined as bytes.
//! 4. `server_tool_use` and its result are what the provider runs itself: reported once per block, `started` with the use's
//!    block whole in `raw`, `done` or `failed` with the result's (R19).
//! 5. An annotation belongs to the text before it; citations that come before their block's text wait for it. A guardrail's trace
//!    is an annotation too, of kind `guardrail_trace`.
//! 6. The three input counts do not overlap (R12).
//! 7. The end is a `stopReason`; it goes out with the metadata behind it, which hold the usage, or at the end of the body (R17).
//!
//! The wire names neither a model nor a response: there is no `model.started`. Request fields must not be added here.

mod read;

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::out::{Counts, Out, Piece};
use super::template::Steady;
use super::text::Joined;
use super::{Ending, Normalize, finish};
use crate::event::{AttachTo, CallKind, ContinuationForm, FinishReason, HostedPhase, ReasoningKind};
use crate::json::{Scan, Scanner, Value};
use crate::limits::{MAX_ARGUMENTS, MAX_CALLS, MAX_OPEN_BLOCKS};
use crate::text::{Literal, Text, push_json_str};
use crate::toolcall::bounded;
use read::{Block, Citation, Cited, Frame, Reasoning, Tokens, Tool};

/// The state of one response.
#[derive(Debug, Default)]
pub struct BedrockConverse {
    /// Open blocks by the wire's index, the newest last.
    open: Vec<(u64, Open)>,
    next_key: u64,
    /// A closed call without argument text (rule 2 above).
    waiting: Option<u32>,
    /// Names of the tools that the provider runs by the ids of their uses, for the results.
    hosted: HashMap<String, String>,
    /// The stop reason.
    stop: Option<String>,
    steady: Option<(Again, Steady)>,
}

/// What a steady delta did with its text.
#[derive(Clone, Copy, Debug)]
enum Again {
    Text(u64),
    Reasoning(u64),
    Call(u32),
}

#[derive(Debug)]
enum Open {
    Text {
        key: u64,
        given: bool,
        held: Vec<Vec<u8>>,
    },
    Reasoning {
        key: u64,
        signature: Option<Joined>,
        redacted: Option<Redacted>,
    },
    Call(u32),
    Hosted {
        id: String,
        name: String,
        input: Joined,
    },
    Result {
        id: String,
        name: String,
        failed: bool,
        /// Items of the content, between commas.
        content: Vec<u8>,
    },
    Image {
        format: String,
        data: String,
    },
}

/// Opaque reasoning in pieces of base64.
#[derive(Debug)]
enum Redacted {
    /// As it came.
    One(String),
    /// Decoded, of several.
    Bytes(Vec<u8>),
}

impl Normalize for BedrockConverse {
    fn value(&mut self, json: &[u8], name: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let frame = read::frame(json)?;
        self.steady = None;
        match name {
            b"contentBlockDelta" => {
                let index = frame.index.unwrap_or(0);
                let again = self.again_of(index, &frame);
                self.delta(index, &frame, out);
                self.steady = again.map(|(again, text)| (again, Steady::new(json, text, frame.ignored)));
            }
            b"contentBlockStart" => {
                if let Some(block) = frame.start {
                    self.block_start(frame.index.unwrap_or(0), &block, out);
                }
            }
            b"contentBlockStop" => self.block_stop(frame.index.unwrap_or(0), out),
            b"messageStop" => self.stop_reason(frame.stop_reason),
            b"metadata" => {
                count(frame.usage.as_deref(), out);
                trace(frame.trace, out);
                self.end(out);
            }
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
            Some((Again::Reasoning(key), _)) => out.reasoning(key, ReasoningKind::Raw, text.into()),
            Some((Again::Call(number), _)) => out.call_text(number, text),
            None => {}
        }
    }

    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let body = read::body(json)?;
        let Some(content) = body.content else {
            out.provider_error(json);
            return Ok(());
        };
        count(body.usage.as_ref(), out);
        for (at, block) in (0..).zip(&content) {
            self.block_start(at, block, out);
            self.whole_block_stop(at, block, out);
            if out.is_done() {
                return Ok(());
            }
        }
        trace(body.trace, out);
        self.stop_reason(body.stop_reason);
        Ok(())
    }

    fn done(&mut self, _out: &mut Out<'_>) {}

    fn end(&mut self, out: &mut Out<'_>) {
        let Some(reason) = self.stop.take() else { return };
        let ending = finish::converse(&reason);
        if let Some(call) = self.waiting.take() {
            if matches!(ending, Ending::Reason(FinishReason::Length | FinishReason::ContentFilter)) {
                out.calls().cut(call);
            } else {
                out.call_end(call);
            }
        }
        for (_, block) in self.open.drain(..) {
            if let Open::Call(number) = block {
                out.calls().cut(number);
            }
        }
        out.finish(ending, Some(Text::Plain(&reason)));
    }
}

impl BedrockConverse {
    fn block_start(&mut self, index: u64, block: &Block<'_>, out: &mut Out<'_>) {
        self.go_on(out);
        let Block { text, tool, result, reasoning, citations, image } = block;
        if let Some(tool) = tool {
            self.call(index, tool, out);
        } else if let Some(result) = result {
            self.result(index, result, out);
        } else if let Some(image) = image {
            let of = |text: Option<Literal<'_>>| text.map(|t| t.decode().into_owned()).unwrap_or_default();
            self.push(index, Open::Image { format: of(image.format), data: of(image.bytes) }, out);
        } else if let Some(reasoning) = reasoning {
            self.reasoning(index, reasoning, out);
        } else if let Some(Cited { content, citations }) = citations {
            self.text(index, None, out);
            for text in content {
                self.text(index, Some(*text), out);
            }
            for citation in citations {
                self.cite(index, citation, out);
            }
        } else if text.is_some() {
            self.text(index, *text, out);
        }
    }

    fn call(&mut self, index: u64, tool: &Tool<'_>, out: &mut Out<'_>) {
        if tool.kind.is_some_and(|kind| kind.is("server_tool_use")) {
            let of = |text: Option<Literal<'_>>| text.map(|t| bounded(t.into())).unwrap_or_default();
            let (id, name) = (of(tool.id), of(tool.name));
            if self.hosted.len() < MAX_CALLS {
                self.hosted.insert(id.clone(), name.clone());
            }
            return self.push(index, Open::Hosted { id, name, input: Joined::default() }, out);
        }
        let Some(number) = out.call_open(CallKind::Function) else { return };
        out.call_piece(number, &Piece { id: tool.id.map(Text::from), name: tool.name.map(Text::from), text: None });
        self.push(index, Open::Call(number), out);
    }

    /// Another block comes: the call before it was not cut.
    fn go_on(&mut self, out: &mut Out<'_>) {
        if let Some(call) = self.waiting.take() {
            out.call_end(call);
        }
    }

    /// A result is named as its use was, or else by its own type.
    fn result(&mut self, index: u64, result: &Tool<'_>, out: &mut Out<'_>) {
        let id = result.id.map(|id| bounded(id.into())).unwrap_or_default();
        let name = self.hosted.get(&id).cloned().unwrap_or_else(|| {
            let own = result.kind.map(|kind| bounded(kind.into())).unwrap_or_default();
            own.trim_end_matches("_result").to_owned()
        });
        let failed = result.status.is_some_and(|status| status.is("error"));
        self.push(index, Open::Result { id, name, failed, content: Vec::new() }, out);
    }

    fn push(&mut self, index: u64, open: Open, out: &mut Out<'_>) {
        self.go_on(out);
        if self.open.len() >= MAX_OPEN_BLOCKS {
            return out.interrupted("more content blocks are open than a response may have");
        }
        self.open.push((index, open));
    }

    /// Whether the delta will do nothing but give its text out, in a block that is in the middle of its text.
    fn again_of<'a>(&mut self, index: u64, frame: &Frame<'a>) -> Option<(Again, Literal<'a>)> {
        let delta = &frame.delta;
        let reasoning = &delta.reasoning;
        // A union has one member; one that has more is read the general way.
        let members = [delta.text, delta.input, reasoning.text, reasoning.signature, reasoning.redacted, delta.image];
        let one = members.iter().flatten().count() == 1 && delta.citation.is_none() && delta.result.is_none();
        let (again, text) = match self.find(index).filter(|_| one)? {
            Open::Text { key, given: true, held } if held.is_empty() => (Again::Text(*key), delta.text),
            Open::Reasoning { key, .. } => (Again::Reasoning(*key), reasoning.text),
            Open::Call(number) => (Again::Call(*number), delta.input),
            _ => return None,
        };
        text.filter(|text| !text.raw.is_empty()).map(|text| (again, text))
    }

    fn delta(&mut self, index: u64, frame: &Frame<'_>, out: &mut Out<'_>) {
        let delta = &frame.delta;
        if delta.text.is_some() {
            self.text(index, delta.text, out);
        }
        self.reasoning(index, &delta.reasoning, out);
        if let Some(citation) = &delta.citation {
            self.text(index, None, out);
            self.cite(index, citation, out);
        }
        let mut fits = true;
        match self.find(index) {
            Some(Open::Call(number)) => {
                let piece = Piece { text: delta.input.map(Text::from), ..Piece::default() };
                out.call_piece(*number, &piece);
            }
            Some(Open::Hosted { input, .. }) => fits = input.push(delta.input),
            Some(Open::Result { content, .. }) => {
                if let Some(items) = delta.result {
                    content.extend_from_slice(if content.is_empty() { b"" } else { b"," });
                    content.extend_from_slice(items);
                    fits = content.len() <= MAX_ARGUMENTS;
                }
            }
            Some(Open::Image { data, .. }) => {
                if let Some(bytes) = delta.image {
                    bytes.decode_into(data);
                    fits = data.len() <= MAX_ARGUMENTS;
                }
            }
            _ => {}
        }
        if !fits {
            too_long(out);
        }
    }

    /// Text of a block, which it opens. A start that says nothing opens it too.
    fn text(&mut self, index: u64, text: Option<Literal<'_>>, out: &mut Out<'_>) {
        if !matches!(self.find(index), Some(Open::Text { .. })) {
            let key = self.key();
            self.push(index, Open::Text { key, given: false, held: Vec::new() }, out);
        }
        if let Some(Open::Text { key, given, held }) = self.find(index)
            && let Some(text) = text.filter(|text| !text.raw.is_empty())
        {
            *given = true;
            out.text(*key, text.into());
            cite_held(held, out);
        }
    }

    fn reasoning(&mut self, index: u64, came: &Reasoning<'_>, out: &mut Out<'_>) {
        if came.text.is_none() && came.signature.is_none() && came.redacted.is_none() {
            return;
        }
        if !matches!(self.find(index), Some(Open::Reasoning { .. })) {
            let key = self.key();
            self.push(index, Open::Reasoning { key, signature: None, redacted: None }, out);
        }
        let Some(Open::Reasoning { key, signature, redacted }) = self.find(index) else { return };
        if let Some(text) = came.text {
            out.reasoning(*key, ReasoningKind::Raw, text.into());
        }
        let mut fits = came.signature.is_none() || signature.get_or_insert_default().push(came.signature);
        if let Some(piece) = came.redacted.filter(|piece| !piece.raw.is_empty()) {
            *redacted = Some(Redacted::add(redacted.take(), piece));
            fits &= redacted.as_ref().is_some_and(|redacted| redacted.len() <= MAX_ARGUMENTS);
        }
        if !fits {
            too_long(out);
        }
    }

    fn cite(&mut self, index: u64, citation: &Citation<'_>, out: &mut Out<'_>) {
        match self.find(index) {
            Some(Open::Text { given: false, held, .. }) if held.len() < MAX_OPEN_BLOCKS => {
                held.push(citation.raw.to_vec());
            }
            _ => annotate(citation, out),
        }
    }

    fn block_stop(&mut self, index: u64, out: &mut Out<'_>) {
        if let Some(at) = self.position(index) {
            let (_, open) = self.open.remove(at);
            self.close(open, None, out);
        }
    }

    /// As [`Self::block_stop`], for a block that came whole: a call at a token limit may be cut, whatever its input
    /// looks like, so the last one waits for the stop reason.
    fn whole_block_stop(&mut self, index: u64, block: &Block<'_>, out: &mut Out<'_>) {
        let Some(at) = self.position(index) else { return };
        match self.open.remove(at).1 {
            Open::Call(number) => {
                if let Some(input) = block.tool.as_ref().and_then(|tool| tool.input) {
                    out.call_value(number, input);
                }
                self.waiting = Some(number);
            }
            open => self.close(open, block.tool.as_ref().or(block.result.as_ref()).map(|tool| tool.raw), out),
        }
    }

    /// `whole` is the JSON of a tool's use or result that came whole.
    fn close(&mut self, open: Open, whole: Option<&[u8]>, out: &mut Out<'_>) {
        match open {
            Open::Text { key, mut held, .. } => {
                out.close_block(key);
                cite_held(&mut held, out);
            }
            Open::Reasoning { key, signature, redacted } => {
                out.close_block(key);
                if let Some(signature) = signature.map(Joined::done).filter(|s| !s.is_empty()) {
                    let at = out.index(key);
                    out.continuation(ContinuationForm::Signature, Text::Plain(&signature), AttachTo::Reasoning, at);
                }
                if let Some(data) = redacted.map(Redacted::done) {
                    let at = out.index(key);
                    out.continuation(ContinuationForm::Redacted, Text::Plain(&data), AttachTo::Reasoning, at);
                }
            }
            Open::Call(number) => {
                if matches!(out.calls().call(number).text.trim(), "" | "null") {
                    self.waiting = Some(number);
                } else {
                    out.call_end(number);
                }
            }
            Open::Hosted { id, name, input } => {
                let made = whole.map_or_else(|| tool_use(&id, &name, input), <[u8]>::to_vec);
                out.hosted_tool(Some(Text::Plain(&id)), HostedPhase::Started, Text::Plain(&name), &made);
            }
            Open::Result { id, name, failed, content } => {
                let phase = if failed { HostedPhase::Failed } else { HostedPhase::Done };
                let made = whole.map_or_else(|| tool_result(&id, failed, &content), <[u8]>::to_vec);
                out.hosted_tool(Some(Text::Plain(&id)), phase, Text::Plain(&name), &made);
            }
            Open::Image { format, data } => {
                if !data.is_empty() {
                    let mime = format!("image/{format}");
                    out.media(Text::Plain(&mime), Some(Text::Plain(&data)), None, false);
                }
            }
        }
    }

    fn stop_reason(&mut self, reason: Option<Literal<'_>>) {
        if let Some(reason) = reason.filter(|r| !r.raw.is_empty()) {
            self.stop = Some(bounded(reason.into()));
        }
    }

    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn find(&mut self, index: u64) -> Option<&mut Open> {
        let at = self.position(index)?;
        Some(&mut self.open[at].1)
    }

    /// The newest open block of this index.
    fn position(&self, index: u64) -> Option<usize> {
        self.open.iter().rposition(|(at, _)| *at == index)
    }
}

impl Redacted {
    fn add(before: Option<Redacted>, piece: Literal<'_>) -> Redacted {
        let piece = piece.decode();
        // What is no base64 cannot be joined by its bytes: then the texts are.
        let bytes = |text: &str| STANDARD.decode(text).unwrap_or_else(|_| text.as_bytes().to_vec());
        match before {
            None => Redacted::One(piece.into_owned()),
            Some(Redacted::One(first)) => Redacted::Bytes([bytes(&first), bytes(&piece)].concat()),
            Some(Redacted::Bytes(mut all)) => {
                all.extend_from_slice(&bytes(&piece));
                Redacted::Bytes(all)
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Redacted::One(text) => text.len(),
            Redacted::Bytes(bytes) => bytes.len(),
        }
    }

    fn done(self) -> String {
        match self {
            Redacted::One(text) => text,
            Redacted::Bytes(bytes) => STANDARD.encode(bytes),
        }
    }
}

/// The JSON of a use whose input came in pieces.
fn tool_use(id: &str, name: &str, input: Joined) -> Vec<u8> {
    let input = input.done();
    let mut json = b"{\"toolUseId\":".to_vec();
    push_json_str(id, &mut json);
    json.extend_from_slice(b",\"name\":");
    push_json_str(name, &mut json);
    json.extend_from_slice(b",\"input\":");
    match Scanner::only(input.as_bytes()) {
        Ok(Value::Object(input)) => json.extend_from_slice(input),
        _ => json.extend_from_slice(b"{}"),
    }
    json.extend_from_slice(b",\"type\":\"server_tool_use\"}");
    json
}

/// The JSON of a result whose content came in pieces.
fn tool_result(id: &str, failed: bool, content: &[u8]) -> Vec<u8> {
    let mut json = b"{\"toolUseId\":".to_vec();
    push_json_str(id, &mut json);
    json.extend_from_slice(b",\"content\":[");
    json.extend_from_slice(content);
    json.extend_from_slice(if failed { b"],\"status\":\"error\"}" } else { b"],\"status\":\"success\"}" });
    json
}

fn count(tokens: Option<&Tokens<'_>>, out: &mut Out<'_>) {
    let Some(tokens) = tokens else { return };
    let input = [tokens.input, tokens.cache_read, tokens.cache_write];
    let counts = Counts {
        input: Some(input.into_iter().flatten().fold(0, u64::saturating_add)),
        output: Some(tokens.output.unwrap_or(0)),
        cached_input: tokens.cache_read,
        cache_write: tokens.cache_write,
        reasoning: None,
    };
    out.usage(counts, tokens.raw);
}

fn trace(json: Option<&[u8]>, out: &mut Out<'_>) {
    if let Some(json) = json.filter(|json| json.len() > "{}".len()) {
        out.annotation(Text::Plain("guardrail_trace"), None, None, None, json);
    }
}

/// Where a citation points to a place, it is one in the source and not in this text: no span.
fn annotate(citation: &Citation<'_>, out: &mut Out<'_>) {
    let kind = citation.kind.map_or(Text::Plain("citation"), Text::from);
    out.annotation(kind, citation.url.map(Text::from), citation.title.map(Text::from), None, citation.raw);
}

/// Citations that came before the text which they belong to: an annotation belongs to the text before it.
fn cite_held(held: &mut Vec<Vec<u8>>, out: &mut Out<'_>) {
    for raw in held.drain(..) {
        if let Ok(Some(citation)) = read::citation(&raw) {
            annotate(&citation, out);
        }
    }
}

fn too_long(out: &mut Out<'_>) {
    out.interrupted("a content block is longer than a response may have");
}
