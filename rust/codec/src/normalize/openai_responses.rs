//! `OpenAI` Responses: its event stream over HTTP and WebSocket, and its whole JSON body.
//!
//! 1. Everything hangs on `output_index`; an `item_id` that disagrees is only a name (R4r). Where a host leaves the
//!    index out, the id serves, then the newest item.
//! 2. `response.output_item.done` closes a call and has its arguments, else `.done` has them, else the deltas (R6).
//!    Its status `incomplete` means that it was cut (R10).
//! 3. Text that several events repeat is given out once (`parts.rs`). Items that only the final response has are read
//!    from there.
//! 4. What the client is to carry out is an intent: besides functions and custom tools the calls of [`Role::Action`].
//!    Such an intent's `tool_name` is the item's type (`local_shell_call`, `computer_call`, ...) and its input the item
//!    without its envelope ([`ENVELOPE`]), so that the item can be put together again from the two. What the provider runs
//!    itself is reported with the item whole in `raw` (R19).
//! 5. The end is `completed`, `incomplete`, `failed` or `error`; the first of them counts (R17).
//!
//! Unknown events and items are ignored. Request fields must not be added here.

mod parts;
mod read;

use std::collections::HashMap;

use super::out::{Counts, Known, Out, Piece, Started};
use super::template::Steady;
use super::{Ending, Normalize, finish};
use crate::error::ErrorKind;
use crate::event::{AttachTo, CallKind, ContinuationForm, HostedPhase};
use crate::json::{Scan, Scanner};
use crate::limits::MAX_BLOCKS;
use crate::text::{Literal, Text};
use crate::toolcall::bounded;
use parts::{Class, Parts};
use read::{Annotation, Body, Item, Part, Place, Tokens};

/// The state of one response.
#[derive(Debug, Default)]
pub struct OpenaiResponses {
    items: Vec<Seen>,
    by_index: HashMap<u64, usize>,
    /// By the item's id and by its call's.
    by_name: HashMap<String, usize>,
    /// The last event's index, and its item.
    last: Option<(u64, usize)>,
    done: usize,
    parts: Parts,
    /// Of a whole body: how it ended.
    ending: Option<(Ending, String)>,
    /// What the delta that was read last did with its text.
    again: Option<Again>,
    steady: Option<Steady>,
}

/// What a delta did with its text.
#[derive(Clone, Copy, Debug)]
enum Again {
    Part(parts::Key),
    Call(u32),
}

/// One item as far as it is known.
#[derive(Debug)]
struct Seen {
    id: Option<String>,
    call: Option<u32>,
    /// The call's own `.done` event came; its text, where it is another than the deltas'.
    spoken: bool,
    last_word: Option<String>,
    done: bool,
}

/// What an item is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Message,
    Reasoning,
    Call(CallKind),
    /// A tool of the vendor's making that the client carries out.
    Action,
    /// A tool that the provider runs, or its result.
    Hosted,
    Compaction,
    Unknown,
}

impl Normalize for OpenaiResponses {
    fn value(&mut self, json: &[u8], name: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let frame = read::frame(json)?;
        self.again = None;
        let (delta, ignored) = (frame.delta, frame.ignored);
        let place = frame.place;
        let kind = frame.kind.map_or(name, |kind| kind.raw);
        match kind.strip_prefix(b"response.").unwrap_or(kind) {
            b"output_text.delta" => self.delta(place, Class::Text, frame.delta, out),
            b"reasoning_summary_text.delta" => self.delta(place, Class::Summary, frame.delta, out),
            b"reasoning_text.delta" => self.delta(place, Class::Reasoning, frame.delta, out),
            b"refusal.delta" => self.delta(place, Class::Refusal, frame.delta, out),
            b"output_text.done" => self.text_done(place, Class::Text, frame.text, out),
            b"reasoning_summary_text.done" => self.text_done(place, Class::Summary, frame.text, out),
            b"reasoning_text.done" => self.text_done(place, Class::Reasoning, frame.text, out),
            b"refusal.done" => self.text_done(place, Class::Refusal, frame.refusal, out),
            b"content_part.done" | b"reasoning_part.done" => {
                if let (Some(part), Some(item)) = (&frame.part, self.item(place, None, out)) {
                    self.part_done(item, place.part_index, part, out);
                }
            }
            b"reasoning_summary_part.done" => {
                self.text_done(place, Class::Summary, frame.part.and_then(|p| p.text), out);
            }
            b"output_text.annotation.added" => {
                if let (Some(annotation), Some(item)) = (&frame.annotation, self.item(place, None, out))
                    && self.parts.annotate((item, Class::Text, place.part_index), None, out)
                {
                    annotate(annotation, out);
                }
            }
            b"function_call_arguments.delta" => self.call_delta(place, CallKind::Function, frame.delta, out),
            b"custom_tool_call_input.delta" => self.call_delta(place, CallKind::Custom, frame.delta, out),
            b"function_call_arguments.done" => {
                self.call_text(place, CallKind::Function, frame.arguments, frame.name, out);
            }
            b"custom_tool_call_input.done" => self.call_text(place, CallKind::Custom, frame.input, frame.name, out),
            b"output_item.added" => {
                if let Some(item) = &frame.item {
                    self.added(place, item, out);
                }
            }
            b"output_item.done" => {
                if let Some(item) = &frame.item {
                    self.item_done(place, item, out);
                }
            }
            b"image_generation_call.partial_image" => {
                if let Some(data) = frame.partial_image {
                    image(data, frame.output_format, true, out);
                }
            }
            b"audio.delta" => {
                if let Some(data) = frame.delta {
                    out.media(Text::Plain("audio/pcm"), Some(data.into()), None, true);
                }
            }
            // What the sound says is no content of its own.
            b"audio.transcript.delta" => {
                if let Some(said) = frame.delta {
                    let mut raw = Vec::new();
                    Text::Literal(said).push_json_string(&mut raw);
                    out.annotation(Text::Plain("transcript"), None, None, None, &raw);
                }
            }
            b"created" => {
                let body = frame.response.unwrap_or_default();
                if out.started(body.model.map(Text::from), body.id.map(Text::from)) == Started::Other {
                    out.interrupted("another response began inside this one");
                }
            }
            b"error" => out.provider_error(json),
            end @ (b"completed" | b"incomplete" | b"failed" | b"cancelled" | b"done") => {
                let mut body = frame.response.unwrap_or_default();
                body.error = body.error.or(frame.error);
                let status = body.status.map_or(&b""[..], |s| s.raw);
                self.ended(if end == b"done" { status } else { end }, &body, out)?;
            }
            _ if frame.kind.is_none() && frame.error.is_some() => out.provider_error(json),
            _ => {
                if let Some(body) = frame.response.filter(|_| !out.is_started()) {
                    out.started(body.model.map(Text::from), body.id.map(Text::from));
                }
            }
        }
        let text = delta.filter(|text| self.again.is_some() && !text.raw.is_empty());
        self.steady = text.map(|text| Steady::new(json, text, ignored));
        Ok(())
    }

    fn steady(&self) -> Option<&Steady> {
        self.steady.as_ref()
    }

    fn again(&mut self, text: Literal<'_>, _kept: &[u8], out: &mut Out<'_>) {
        match self.again {
            Some(Again::Part(key)) => self.parts.delta(key, text, out),
            Some(Again::Call(call)) => out.call_text(call, text),
            None => {}
        }
    }

    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let body = read::body(json)?;
        let status = match body.status.map(|s| s.raw) {
            Some(status) => status,
            None if body.error.is_some() || body.kind.is_some_and(|k| k.is("error")) => {
                out.provider_error(json);
                return Ok(());
            }
            // A compaction has no status.
            None if body.output.is_some() => b"completed",
            None => return Ok(()),
        };
        out.started(body.model.map(Text::from), body.id.map(Text::from));
        match status {
            b"completed" | b"incomplete" => {
                for (at, item) in (0..).zip(&body.items) {
                    let place = Place { output_index: Some(at), ..Place::default() };
                    self.added(place, item, out);
                    self.item_done(place, item, out);
                }
                self.rest(false, out);
                count(body.usage.as_ref(), out);
                self.ending = Some(ending(status, &body));
            }
            b"failed" | b"cancelled" => self.ended(status, &body, out)?,
            // Queued or in progress: no answer yet, and no end of one.
            _ => {}
        }
        Ok(())
    }

    fn done(&mut self, _out: &mut Out<'_>) {}

    fn end(&mut self, out: &mut Out<'_>) {
        if let Some((ending, reason)) = self.ending.take() {
            out.finish(ending, Some(Text::Plain(&reason)));
        }
    }
}

impl OpenaiResponses {
    fn delta(&mut self, place: Place<'_>, class: Class, text: Option<Literal<'_>>, out: &mut Out<'_>) {
        if let (Some(text), Some(item)) = (text, self.item(place, None, out)) {
            let key = (item, class, place.part_index);
            self.parts.delta(key, text, out);
            self.again = Some(Again::Part(key));
        }
    }

    fn text_done(&mut self, place: Place<'_>, class: Class, text: Option<Literal<'_>>, out: &mut Out<'_>) {
        if let Some(item) = self.item(place, None, out) {
            self.parts.whole((item, class, place.part_index), text, out);
        }
    }

    fn part_done(&mut self, item: usize, index: u64, part: &Part<'_>, out: &mut Out<'_>) {
        self.parts.whole((item, class(part), index), part.text.or(part.refusal), out);
        for (nth, annotation) in part.annotations.iter().enumerate() {
            if self.parts.annotate((item, Class::Text, index), Some(nth), out) {
                annotate(annotation, out);
            }
        }
    }

    /// The parts that the finished item lists. Some hosts count otherwise in their deltas than in this list, so the
    /// nth part of a class is the nth of that class which is known, where there are so many.
    fn parts_done(&mut self, item: usize, list: &[Part<'_>], class_of: impl Fn(&Part<'_>) -> Class, out: &mut Out<'_>) {
        let mut known: HashMap<Class, (usize, Vec<u64>)> = HashMap::new();
        for part in list {
            let class = class_of(part);
            known.entry(class).or_insert_with(|| (0, self.parts.indices(item, class))).0 += 1;
        }
        let mut nth: HashMap<Class, usize> = HashMap::new();
        for (at, part) in (0..).zip(list) {
            let class = class_of(part);
            let n = nth.entry(class).or_default();
            let index =
                known.get(&class).filter(|(count, known)| known.len() >= *count).map_or(at, |(_, known)| known[*n]);
            *n += 1;
            if matches!(class, Class::Summary | Class::Reasoning) {
                self.parts.whole((item, class, index), part.text, out);
            } else {
                self.part_done(item, index, part, out);
            }
        }
    }

    fn call_delta(&mut self, place: Place<'_>, kind: CallKind, text: Option<Literal<'_>>, out: &mut Out<'_>) {
        if let Some((_, call)) = self.call(place, kind, out) {
            out.call_piece(call, &Piece { text: text.map(Text::from), ..Piece::default() });
            self.again = Some(Again::Call(call));
        }
    }

    /// Keeps what the call's `.done` event says, if it is another text than the deltas': the item may have none.
    fn call_text(
        &mut self,
        place: Place<'_>,
        kind: CallKind,
        text: Option<Literal<'_>>,
        name: Option<Literal<'_>>,
        out: &mut Out<'_>,
    ) {
        let Some((item, call)) = self.call(place, kind, out) else { return };
        self.items[item].spoken = true;
        identify(call, None, name.map(Text::from), out);
        if let Some(text) = text.filter(|t| !t.is(&out.calls().call(call).text)) {
            self.items[item].last_word = Some(text.decode().into_owned());
        }
    }

    /// The call of this place; a new one where its start was left out.
    fn call(&mut self, place: Place<'_>, kind: CallKind, out: &mut Out<'_>) -> Option<(usize, u32)> {
        let item = self.item(place, None, out)?;
        if self.items[item].call.is_none() && !self.items[item].done {
            self.items[item].call = Some(out.call_open(kind)?);
        }
        self.items[item].call.map(|call| (item, call))
    }

    fn added(&mut self, place: Place<'_>, item: &Item<'_>, out: &mut Out<'_>) {
        let known = self.items.len();
        let Some(at) = self.item(place, Some(item), out) else { return };
        if self.items.len() > known {
            self.opened(at, item, out);
        }
    }

    /// An item that was not known before.
    fn opened(&mut self, at: usize, item: &Item<'_>, out: &mut Out<'_>) {
        match role(item) {
            Role::Call(kind) => {
                let Some(call) = out.call_open(kind) else { return };
                self.items[at].call = Some(call);
                let joined = in_namespace(item);
                let name = joined.as_deref().map(Text::Plain).or(item.name.map(Text::from));
                out.call_piece(call, &Piece { id: call_id(item), name, text: None });
            }
            Role::Action => {
                let Some(call) = out.call_open(CallKind::Function) else { return };
                self.items[at].call = Some(call);
                out.call_piece(call, &Piece { id: call_id(item), name: item.kind.map(Text::from), text: None });
            }
            Role::Hosted => hosted(item, HostedPhase::Started, out),
            _ => {}
        }
    }

    fn item_done(&mut self, place: Place<'_>, item: &Item<'_>, out: &mut Out<'_>) {
        let known = self.items.len();
        let Some(at) = self.item(place, Some(item), out) else { return };
        if self.items.len() > known {
            self.opened(at, item, out);
        }
        self.close(at, item, out);
    }

    /// The item is complete, and says what counts (R6).
    fn close(&mut self, at: usize, item: &Item<'_>, out: &mut Out<'_>) {
        if std::mem::replace(&mut self.items[at].done, true) {
            return;
        }
        self.done += 1;
        match role(item) {
            Role::Message => self.parts_done(at, &item.content, class, out),
            Role::Reasoning => {
                self.parts_done(at, &item.summary, |_| Class::Summary, out);
                self.parts_done(at, &item.content, |_| Class::Reasoning, out);
                if let Some(data) = item.encrypted_content.filter(|d| !d.raw.is_empty())
                    && let Some(block) = self.parts.reasoning_block(at, out)
                {
                    out.continuation(ContinuationForm::Encrypted, data.into(), AttachTo::Reasoning, block);
                }
            }
            Role::Call(kind) => self.call_done(at, kind, item, out),
            Role::Action => self.action_done(at, item, out),
            Role::Hosted => {
                // Not what its start had looked like: nothing is to be carried out.
                if let Some(call) = self.items[at].call {
                    out.calls().cut(call);
                }
                let failed = item.failed || item.status.is_some_and(|s| s.is("failed") || s.is("incomplete"));
                hosted(item, if failed { HostedPhase::Failed } else { HostedPhase::Done }, out);
                let is_image = item.kind.is_some_and(|k| k.is("image_generation_call"));
                if let Some(data) = item.result.filter(|d| is_image && !d.raw.is_empty()) {
                    image(data, item.output_format, false, out);
                }
            }
            Role::Compaction => {
                if let Some(data) = item.encrypted_content.filter(|d| !d.raw.is_empty()) {
                    out.continuation(ContinuationForm::Encrypted, data.into(), AttachTo::Response, 0);
                }
            }
            Role::Unknown => {}
        }
    }

    fn call_done(&mut self, at: usize, kind: CallKind, item: &Item<'_>, out: &mut Out<'_>) {
        let Some(call) = self.items[at].call.or_else(|| out.call_open(kind)) else { return };
        self.items[at].call = Some(call);
        let joined = in_namespace(item);
        identify(call, call_id(item), joined.as_deref().map(Text::Plain).or(item.name.map(Text::from)), out);
        let text = if kind == CallKind::Custom { item.input } else { item.arguments };
        if let Some(object) = item.arguments_object {
            out.call_value(call, object);
        } else if let Some(text) = text.filter(|t| !t.raw.is_empty()) {
            out.call_final(call, text.into());
        } else if let Some(text) = self.items[at].last_word.take() {
            out.call_final(call, Text::Plain(&text));
        }
        if let Some(caller) = &item.caller {
            let data = format!("{{\"caller\":{caller}}}");
            out.call_sign(call, ContinuationForm::Details, Text::Plain(&data));
        }
        self.close_call(call, item, out);
    }

    fn action_done(&mut self, at: usize, item: &Item<'_>, out: &mut Out<'_>) {
        let Some(call) = self.items[at].call.or_else(|| out.call_open(CallKind::Function)) else { return };
        self.items[at].call = Some(call);
        identify(call, call_id(item), item.kind.map(Text::from), out);
        out.call_value(call, &without_envelope(item.raw));
        self.close_call(call, item, out);
    }

    #[expect(clippy::unused_self, reason = "reads as the end of the two methods before it")]
    fn close_call(&self, call: u32, item: &Item<'_>, out: &mut Out<'_>) {
        if item.status.is_some_and(|s| s.is("incomplete") || s.is("failed")) {
            out.calls().cut(call);
        } else {
            out.call_end(call);
        }
    }

    /// A terminal event.
    fn ended(&mut self, status: &[u8], body: &Body<'_>, out: &mut Out<'_>) -> Scan<()> {
        if !out.is_started() {
            out.started(body.model.map(Text::from), body.id.map(Text::from));
        }
        match status {
            b"failed" => {
                count(body.usage.as_ref(), out);
                if let Some(error) = body.error {
                    out.provider_error(error);
                } else {
                    let message = Some("the response failed and does not say why");
                    out.fail(ErrorKind::Unknown, &Known { message, ..Known::default() });
                }
            }
            b"cancelled" => {
                count(body.usage.as_ref(), out);
                out.fail(
                    ErrorKind::Aborted,
                    &Known { message: Some("the response was cancelled"), ..Known::default() },
                );
            }
            _ => {
                self.left_over(body, out)?;
                self.rest(status == b"completed", out);
                count(body.usage.as_ref(), out);
                let (ending, reason) = ending(status, body);
                out.finish(ending, Some(Text::Plain(&reason)));
            }
        }
        Ok(())
    }

    /// Items of the final response that no event had closed.
    fn left_over(&mut self, body: &Body<'_>, out: &mut Out<'_>) -> Scan<()> {
        let Some(output) = body.output else { return Ok(()) };
        let items = read::items(output)?;
        if items.len() <= self.done {
            return Ok(());
        }
        for (index, item) in (0..).zip(&items) {
            let named = |name: Option<Literal<'_>>| self.by_name.get(&*name?.decode()).copied();
            match named(item.id).or_else(|| named(item.call_id)).or_else(|| self.by_index.get(&index).copied()) {
                Some(at) => self.close(at, item, out),
                None => self.item_done(Place { output_index: Some(index), ..Place::default() }, item, out),
            }
        }
        Ok(())
    }

    /// Calls whose item was not closed: its own `.done` event closes one of a good answer too, what else is open was
    /// cut (R10).
    fn rest(&mut self, good: bool, out: &mut Out<'_>) {
        for seen in self.items.iter_mut().filter(|s| !s.done) {
            let Some(call) = seen.call else { continue };
            if good && seen.spoken && !out.calls().call(call).name.is_empty() {
                if let Some(text) = seen.last_word.take() {
                    out.call_final(call, Text::Plain(&text));
                }
                out.call_end(call);
            } else {
                out.calls().cut(call);
            }
        }
    }

    /// The number of the item that an event belongs to; a new one where none fits. `item` where the event brings it.
    fn item(&mut self, place: Place<'_>, item: Option<&Item<'_>>, out: &mut Out<'_>) -> Option<usize> {
        if let (Some(index), None, Some((last, at))) = (place.output_index, item, self.last)
            && last == index
        {
            return Some(at);
        }
        let id = place.item_id.or(item.and_then(|i| i.id)).filter(|id| !id.raw.is_empty());
        let is_id = |s: &Seen| id.is_some_and(|id| s.id.as_deref().is_some_and(|known| id.is(known)));
        let at = match place.output_index {
            Some(index) => self.by_index.get(&index).copied(),
            None if id.is_some() => id.and_then(|id| self.by_name.get(&*id.decode()).copied()),
            // Without any name: the newest that is open, or for an event without an item just the newest.
            None => self.items.iter().rposition(|s| !s.done || item.is_none()),
        };
        // Some hosts give every item the same index: one that comes after the item of that index was closed is another.
        let other = |at: usize| {
            let seen = &self.items[at];
            item.is_some() && seen.done && seen.id.is_some() && id.is_some() && !is_id(seen)
        };
        let at = match at.filter(|&at| !other(at)) {
            Some(at) => at,
            None => self.push(place.output_index, id, out)?,
        };
        if let Some(call_id) = item.and_then(|i| i.call_id).filter(|c| !c.raw.is_empty()) {
            self.by_name.insert(bounded(call_id.into()), at);
        }
        self.last = place.output_index.map(|index| (index, at));
        Some(at)
    }

    fn push(&mut self, index: Option<u64>, id: Option<Literal<'_>>, out: &mut Out<'_>) -> Option<usize> {
        let at = self.items.len();
        if at >= MAX_BLOCKS {
            out.interrupted("more items than a response may have");
            return None;
        }
        let id = id.map(|id| bounded(id.into()));
        if let Some(id) = &id {
            self.by_name.insert(id.clone(), at);
        }
        self.items.push(Seen { id, call: None, spoken: false, last_word: None, done: false });
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        Some(at)
    }
}

fn class(part: &Part<'_>) -> Class {
    match part.kind.map_or(&b""[..], |k| k.raw) {
        b"reasoning_text" => Class::Reasoning,
        b"refusal" => Class::Refusal,
        _ => Class::Text,
    }
}

fn role(item: &Item<'_>) -> Role {
    let Some(kind) = item.kind else { return Role::Unknown };
    match kind.raw {
        b"message" => Role::Message,
        b"reasoning" => Role::Reasoning,
        b"function_call" => Role::Call(CallKind::Function),
        b"custom_tool_call" => Role::Call(CallKind::Custom),
        b"computer_call" | b"local_shell_call" | b"apply_patch_call" | b"mcp_approval_request" => Role::Action,
        b"tool_search_call" if item.execution.is_some_and(|e| e.is("client")) => Role::Action,
        // Without an environment it is the client's own.
        b"shell_call" if item.environment.is_none_or(|e| e.is("local")) => Role::Action,
        b"compaction" => Role::Compaction,
        b"mcp_list_tools" | b"tool_search_output" | b"program" | b"program_output" => Role::Hosted,
        other if other.ends_with(b"_call") || other.ends_with(b"_call_output") => Role::Hosted,
        _ => Role::Unknown,
    }
}

/// Says what a call is called, if that was not known: a name that is repeated is no piece of it.
fn identify(call: u32, id: Option<Text<'_>>, name: Option<Text<'_>>, out: &mut Out<'_>) {
    let name = name.filter(|_| out.calls().call(call).name.is_empty());
    out.call_piece(call, &Piece { id, name, text: None });
}

/// A tool of a namespace by one name with it, as requests that are translated have it. A tool that was found by a search
/// stands in a namespace of its own name, and is called by that name alone.
fn in_namespace(item: &Item<'_>) -> Option<String> {
    let namespace = item.namespace.filter(|n| !n.raw.is_empty())?.decode();
    let name = item.name?.decode();
    (namespace != name).then(|| format!("{namespace}__{name}"))
}

fn call_id<'a>(item: &Item<'a>) -> Option<Text<'a>> {
    [item.call_id, item.id].into_iter().flatten().find(|id| !id.raw.is_empty()).map(Text::from)
}

fn hosted(item: &Item<'_>, phase: HostedPhase, out: &mut Out<'_>) {
    let kind = item.kind.map(Literal::decode).unwrap_or_default();
    let plain = ["_call_output", "_call", "_output"].iter().find_map(|end| kind.strip_suffix(end)).unwrap_or(&kind);
    let name = item.name.filter(|n| !n.raw.is_empty() && kind == "mcp_call").map_or(Text::Plain(plain), Text::from);
    out.hosted_tool(call_id(item), phase, name, item.raw);
}

fn image(data: Literal<'_>, format: Option<Literal<'_>>, partial: bool, out: &mut Out<'_>) {
    let format = format.map(Literal::decode).filter(|f| !f.is_empty()).unwrap_or("png".into());
    let mime = if format == "svg" { "image/svg+xml".to_owned() } else { format!("image/{format}") };
    out.media(Text::Plain(&mime), Some(data.into()), None, partial);
}

fn annotate(a: &Annotation<'_>, out: &mut Out<'_>) {
    let Some(kind) = a.kind else { return };
    let title = a.title.or(a.filename).map(Text::from);
    out.annotation(kind.into(), a.url.map(Text::from), title, a.start.zip(a.end), a.raw);
}

/// The item's own members: what is to be carried out.
fn without_envelope(raw: &[u8]) -> Vec<u8> {
    let mut input = vec![b'{'];
    let mut s = Scanner::new(raw);
    // The scanner has accepted these bytes as one object before.
    if let Ok(mut members) = s.object() {
        while let (Ok(Some(key)), Ok(value)) = (s.key(&mut members), s.skip()) {
            if ENVELOPE.iter().any(|name| key.is(name)) {
                continue;
            }
            if input.len() > 1 {
                input.push(b',');
            }
            Text::Literal(key).push_json_string(&mut input);
            input.push(b':');
            input.extend_from_slice(value);
        }
    }
    input.push(b'}');
    input
}

fn count(tokens: Option<&Tokens<'_>>, out: &mut Out<'_>) {
    let Some(t) = tokens else { return };
    let (input, mut output) = (t.input.unwrap_or(0), t.output.unwrap_or(0));
    // Rule R12x: some hosts count reasoning beside the output.
    if let (Some(total), Some(reasoning @ 1..)) = (t.total, t.reasoning)
        && input.checked_add(output).and_then(|sum| sum.checked_add(reasoning)) == Some(total)
    {
        output += reasoning;
    }
    let counts = Counts {
        input: Some(input),
        output: Some(output),
        cached_input: t.cached,
        cache_write: t.cache_write,
        reasoning: t.reasoning,
    };
    out.usage(counts, t.raw);
}

/// How a response that did not fail has ended (rule R13), and its word for it.
fn ending(status: &[u8], body: &Body<'_>) -> (Ending, String) {
    if status != b"incomplete" {
        return (Ending::Normal, String::from_utf8_lossy(status).into_owned());
    }
    let reason = body.incomplete_reason.map(|r| bounded(r.into())).unwrap_or_default();
    (finish::incomplete(&reason), if reason.is_empty() { "incomplete".to_owned() } else { reason })
}

/// What names and dates an item and is no part of what it asks for.
const ENVELOPE: [&str; 6] = ["type", "id", "call_id", "status", "created_by", "caller"];
