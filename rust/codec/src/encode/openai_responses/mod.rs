//! Events as `OpenAI` Responses: typed events with rising sequence numbers, or one `response` object.
//!
//! 1. `response.created` comes first, then `in_progress`; each item is added before its deltas, each part of a message
//!    before its text, and each index is added once. Ids never change.
//! 2. `output_item.done` has the whole item (Codex reads nothing else), and the terminal's `output` has all of them.
//! 3. A call's item is done as `completed` at its intent and nowhere else. After a truncation or a failure nothing of it
//!    is done: it stands in the terminal's `output` as `incomplete`, and so does the response.
//! 4. Reasoning closes with its continuation; `encrypted_content` is the vendor's own or wrapped. Text that a signature
//!    was made for is told as a summary: Codex gives summaries back and raw reasoning never, and it has to come back whole. Raw
//!    text without a state, which its provider wants back, stands in `encrypted_content` once more.
//! 5. A failure is `response.failed`: Codex ignores `error` events.

mod calls;
mod end;
mod items;
mod reasoning;

use super::annotations::{Note, Waiting, put_url_citation};
use super::calls::{Calls, State, Step};
use super::errors::Told;
use super::shared::{
    Counts, Losses, Shared, code_points, comma, demanded, list_comma, put, put_count, put_number, put_raw, put_str,
};
use super::{Continued, Outcome};
use crate::event::{Event, HostedPhase, ReasoningKind};
use crate::json::{Scanner, Value};
use crate::text::{Literal, Text};
use end::{End, put_response};
use items::{Message, Part, Reasoning, delta_place, put_place, put_reasoning_part};

pub(super) struct Responses {
    seq: u64,
    started: bool,
    /// What the response object repeats of the request.
    echo: Vec<u8>,
    /// JSON of the items that have ended, each in its place.
    items: Vec<Option<Vec<u8>>>,
    open: Open,
    calls: Calls,
    opened: usize,
    waiting: Waiting,
    refused: bool,
    has_audio: bool,
}

/// The item that text or reasoning goes to.
enum Open {
    Nothing,
    Message(Message),
    Reasoning(Reasoning),
}

impl Responses {
    pub fn new(calls: Calls, echo: Vec<u8>) -> Responses {
        Responses {
            seq: 0,
            started: false,
            echo,
            items: Vec::new(),
            open: Open::Nothing,
            calls,
            opened: 0,
            waiting: Waiting::default(),
            refused: false,
            has_audio: false,
        }
    }

    pub fn event(&mut self, shared: &mut Shared, event: &Event<'_>, out: &mut Vec<u8>) -> Outcome {
        self.start(shared, out);
        match event {
            Event::TextDelta { text, index } => self.text(shared, *index, false, *text, out),
            Event::RefusalDelta { text, index } => {
                self.refused = true;
                self.text(shared, *index, true, *text, out);
            }
            Event::ReasoningDelta { text, kind, index } => {
                let kind = if shared.signs_text() { ReasoningKind::Summary } else { *kind };
                self.reasoning(shared, *index, kind, *text, out);
            }
            Event::Continuation { family, form, data, to, index } => {
                let (family, form, data, to, index) = (*family, *form, *data, *to, *index);
                self.continuation(shared, &Continued { family, form, data, to, index }, out);
            }
            Event::Annotation { url, title, span, raw, .. } => self.annotation(shared, *url, *title, *span, raw, out),
            Event::HostedTool { phase, raw, .. } => {
                if !shared.native() || !is_item(raw) {
                    shared.losses.dropped("response.hosted_tools");
                } else if matches!(phase, HostedPhase::Done | HostedPhase::Failed) {
                    self.close(shared, out);
                    let mut json = Vec::with_capacity(raw.len());
                    put_raw(&mut json, raw);
                    self.whole_item(shared, json, out);
                }
            }
            Event::Media { mime, data, partial, .. } => self.media(shared, *mime, *data, *partial, out),
            Event::IntentDelta { call, provider_call_id, name, kind, arguments_delta } => {
                let step = self.calls.delta(*call, *provider_call_id, *name, *kind, *arguments_delta);
                self.step(shared, *call, step, Some(*arguments_delta), out);
            }
            Event::IntentProposed(intent) => match self.calls.intent(intent) {
                Step::Hold => {}
                // The item's end has the last word here: what was streamed before may differ.
                step => {
                    if step == Step::Diverged {
                        shared.losses.approximated("response.tool_calls[].arguments");
                        if let Some(call) = self.calls.call(intent.call) {
                            call.told();
                        }
                    }
                    self.step(shared, intent.call, Step::Tell, None, out);
                    self.call_done(shared, intent.call, out);
                }
            },
            Event::Finished { reason, raw_reason } => {
                self.finished(shared, *reason, *raw_reason, out);
                return Outcome::Over;
            }
            Event::Started { .. } | Event::Usage(_) | Event::Error(_) => {}
        }
        Outcome::Going
    }

    /// Others have begun this stream, and written as many events.
    pub fn resume(&mut self, events: u64) {
        self.started = true;
        self.seq = events;
    }

    /// A failure after the beginning, or instead of one.
    pub fn fail(&mut self, shared: &mut Shared, told: &Told, out: &mut Vec<u8>) {
        self.start(shared, out);
        self.leave_open(shared);
        self.terminal(shared, &End::Failed(told), out);
    }

    pub fn keep_alive(&mut self, shared: &Shared, out: &mut Vec<u8>) {
        if self.started {
            out.extend_from_slice(super::keep_alive(shared.client));
        } else {
            self.start(shared, out);
        }
    }

    fn start(&mut self, shared: &Shared, out: &mut Vec<u8>) {
        if self.started {
            return;
        }
        self.started = true;
        for kind in ["response.created", "response.in_progress"] {
            if shared.stream {
                let echo = std::mem::take(&mut self.echo);
                self.emit(shared, out, kind, |out| {
                    put(out, ",\"response\":");
                    put_response(out, shared, &echo, "in_progress", None, None, &[], None);
                });
                self.echo = echo;
            }
        }
    }

    fn text(&mut self, shared: &mut Shared, block: u32, refusal: bool, text: Text<'_>, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        self.begin_part(shared, block, refusal, out);
        if !refusal {
            self.waiting.claim();
        }
        let Open::Message(message) = &mut self.open else { return };
        let Some(part) = &mut message.part else { return };
        let from = part.text.len();
        text.push_json(&mut part.text);
        if begin(shared, &mut self.seq, out, if refusal { REFUSAL_DELTA } else { TEXT_DELTA }) {
            out.extend_from_slice(&part.place);
            out.extend_from_slice(&part.text[from..]);
            put(out, if refusal { "\"}\n\n" } else { "\",\"logprobs\":[]}\n\n" });
        }
    }

    /// Opens the message and its part where they are not open.
    fn begin_part(&mut self, shared: &mut Shared, block: u32, refusal: bool, out: &mut Vec<u8>) {
        if let Open::Message(message) = &self.open {
            match &message.part {
                Some(part) if part.block == block && part.refusal == refusal => return,
                Some(_) => {
                    let notes = self.waiting.claimed();
                    self.close_part(shared, &notes, out);
                }
                None => {}
            }
        } else {
            self.close(shared, out);
            let (at, id) = self.place(shared, "msg");
            let message = Message::new(at, id);
            self.added(shared, at, &message.json("in_progress"), out);
            self.open = Open::Message(message);
        }
        let Open::Message(message) = &mut self.open else { return };
        let mut part = Part::new(block, refusal);
        let json = part.json();
        part.place = delta_place(&message.id, message.at, Some((",\"content_index\":", message.count)));
        message.part = Some(part);
        if begin(shared, &mut self.seq, out, "response.content_part.added") {
            put_place(out, &message.id, message.at, Some((",\"content_index\":", message.count)));
            put(out, ",\"part\":");
            out.extend_from_slice(&json);
            put(out, END);
        }
    }

    fn annotation(
        &mut self,
        shared: &mut Shared,
        url: Option<Text<'_>>,
        title: Option<Text<'_>>,
        span: Option<(u64, u64)>,
        raw: &[u8],
        out: &mut Vec<u8>,
    ) {
        let in_text = matches!(&self.open, Open::Message(m) if m.part.as_ref().is_some_and(|p| !p.refusal));
        if shared.native() && is_item(raw) && in_text {
            let mut json = Vec::with_capacity(raw.len());
            put_raw(&mut json, raw);
            return self.annotate(shared, &json, out);
        }
        match (url, span) {
            (Some(url), Some(span)) if in_text => self.cite(shared, &Note::of(url, title), span, out),
            (Some(url), _) => self.waiting.push(Note::of(url, title)),
            (None, _) => shared.losses.dropped("response.annotations"),
        }
    }

    fn cite(&mut self, shared: &Shared, note: &Note, span: (u64, u64), out: &mut Vec<u8>) {
        let mut json = Vec::with_capacity(96 + note.url.len() + note.title.len());
        put(&mut json, "{\"type\":\"url_citation\",");
        put_url_citation(&mut json, note, span);
        json.push(b'}');
        self.annotate(shared, &json, out);
    }

    fn annotate(&mut self, shared: &Shared, json: &[u8], out: &mut Vec<u8>) {
        let Open::Message(message) = &mut self.open else { return };
        let Some(part) = &mut message.part else { return };
        let index = part.annotated;
        part.annotated += 1;
        comma(&mut part.annotations, index == 0);
        part.annotations.extend_from_slice(json);
        if begin(shared, &mut self.seq, out, "response.output_text.annotation.added") {
            put_place(out, &message.id, message.at, Some((",\"content_index\":", message.count)));
            put_count(out, ",\"annotation_index\":", index);
            put(out, ",\"annotation\":");
            out.extend_from_slice(json);
            put(out, END);
        }
    }

    fn media(&mut self, shared: &mut Shared, mime: Text<'_>, data: Option<Text<'_>>, partial: bool, out: &mut Vec<u8>) {
        let mime = mime.decode();
        match data {
            // The vendor's own image stands in its item, which has come.
            Some(_) if shared.native() && !partial && mime.starts_with("image/") => {}
            Some(data) if !partial && mime.starts_with("image/") => {
                self.close(shared, out);
                let (at, id) = self.place(shared, "ig");
                let mut json = Vec::new();
                put_str(&mut json, "{\"id\":", &id);
                put(&mut json, ",\"type\":\"image_generation_call\",\"status\":\"completed\",\"output_format\":");
                Text::from(&mime["image/".len()..]).push_json_string(&mut json);
                put(&mut json, ",\"result\":\"");
                data.push_json(&mut json);
                put(&mut json, "\"}");
                self.put_item(shared, at, json, out);
            }
            Some(data) if mime.starts_with("audio/") && shared.stream => {
                self.has_audio = true;
                if begin(shared, &mut self.seq, out, "response.audio.delta") {
                    put(out, ",\"delta\":\"");
                    data.push_json(out);
                    out.push(b'"');
                    put(out, END);
                }
            }
            _ => shared.losses.dropped("response.media"),
        }
    }

    /// An item that came whole.
    fn whole_item(&mut self, shared: &Shared, json: Vec<u8>, out: &mut Vec<u8>) {
        let at = self.items.len();
        self.items.push(None);
        self.put_item(shared, at, json, out);
    }

    fn put_item(&mut self, shared: &Shared, at: usize, json: Vec<u8>, out: &mut Vec<u8>) {
        self.added(shared, at, &json, out);
        self.item_done(shared, at, json, out);
    }

    /// Gives an item its place and its id.
    fn place(&mut self, shared: &Shared, prefix: &str) -> (usize, String) {
        let at = self.items.len();
        self.items.push(None);
        (at, format!("{prefix}_{}_{at}", shared.stem))
    }

    fn added(&mut self, shared: &Shared, at: usize, json: &[u8], out: &mut Vec<u8>) {
        self.item_event(shared, "response.output_item.added", at, json, out);
    }

    fn item_done(&mut self, shared: &Shared, at: usize, json: Vec<u8>, out: &mut Vec<u8>) {
        self.item_event(shared, "response.output_item.done", at, &json, out);
        self.items[at] = Some(json);
    }

    fn item_event(&mut self, shared: &Shared, kind: &str, at: usize, json: &[u8], out: &mut Vec<u8>) {
        self.emit(shared, out, kind, |out| {
            put_count(out, ",\"output_index\":", at as u64);
            put(out, ",\"item\":");
            out.extend_from_slice(json);
        });
    }

    fn close_part(&mut self, shared: &Shared, notes: &[Note], out: &mut Vec<u8>) {
        if let Open::Message(Message { part: Some(part), .. }) = &self.open
            && !notes.is_empty()
        {
            let raw = part.text.as_slice();
            let length = code_points(Literal::new(raw, true, false).into());
            for note in notes {
                self.cite(shared, note, (0, length), out);
            }
        }
        let Open::Message(message) = &mut self.open else { return };
        let index = message.count;
        let Some((part, json)) = message.end_part() else { return };
        let place = Some((",\"content_index\":", index));
        let (name, key) = if part.refusal {
            ("response.refusal.done", ",\"refusal\":\"")
        } else {
            ("response.output_text.done", ",\"logprobs\":[],\"text\":\"")
        };
        if begin(shared, &mut self.seq, out, name) {
            put_place(out, &message.id, message.at, place);
            put(out, key);
            out.extend_from_slice(&part.text);
            out.push(b'"');
            put(out, END);
        }
        if begin(shared, &mut self.seq, out, "response.content_part.done") {
            put_place(out, &message.id, message.at, place);
            put(out, ",\"part\":");
            out.extend_from_slice(&json);
            put(out, END);
        }
    }

    /// Ends the open message or reasoning.
    fn close(&mut self, shared: &mut Shared, out: &mut Vec<u8>) {
        self.close_as(shared, "completed", out);
    }

    fn close_as(&mut self, shared: &mut Shared, status: &str, out: &mut Vec<u8>) {
        match &self.open {
            Open::Nothing => return,
            Open::Message(_) => {
                let notes = self.waiting.all();
                self.close_part(shared, &notes, out);
            }
            Open::Reasoning(_) => self.close_reasoning_text(shared, out),
        }
        let (at, json) = match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => return,
            Open::Message(message) => (message.at, message.json(status)),
            Open::Reasoning(item) => (item.at, item.json()),
        };
        self.item_done(shared, at, json, out);
    }

    fn emit(&mut self, shared: &Shared, out: &mut Vec<u8>, kind: &str, inside: impl FnOnce(&mut Vec<u8>)) {
        if begin(shared, &mut self.seq, out, kind) {
            inside(out);
            put(out, END);
        }
    }
}

const END: &str = "}\n\n";

/// The event's name and the beginning of its data.
macro_rules! head {
    ($kind:literal) => {
        concat!("event: ", $kind, "\ndata: {\"type\":\"", $kind, "\",\"sequence_number\":")
    };
}

/// Events of which there are many.
const TEXT_DELTA: &str = head!("response.output_text.delta");
const REFUSAL_DELTA: &str = head!("response.refusal.delta");
const SUMMARY_DELTA: &str = head!("response.reasoning_summary_text.delta");
const REASONING_DELTA: &str = head!("response.reasoning_text.delta");
const ARGUMENTS_DELTA: &str = head!("response.function_call_arguments.delta");
const INPUT_DELTA: &str = head!("response.custom_tool_call_input.delta");

/// Begins an event of a kind, or of one of the heads above; the members follow, each with a comma before it, and then
/// [`END`]. In a body there are no events.
fn begin(shared: &Shared, seq: &mut u64, out: &mut Vec<u8>, kind: &str) -> bool {
    if !shared.stream {
        return false;
    }
    if kind.starts_with("event: ") {
        put(out, kind);
    } else {
        put(out, "event: ");
        put(out, kind);
        put(out, "\ndata: {\"type\":\"");
        put(out, kind);
        put(out, "\",\"sequence_number\":");
    }
    put_number(out, *seq);
    *seq += 1;
    true
}

/// Whether the bytes are an object, as every item and annotation is.
fn is_item(raw: &[u8]) -> bool {
    matches!(Scanner::only(raw), Ok(Value::Object(_)))
}
