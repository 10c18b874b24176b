//! Reasoning items and what belongs to them. Blocks that follow one another without a continuation are parts of one item.

use super::{
    Continued, END, Open, REASONING_DELTA, Reasoning, Responses, SUMMARY_DELTA, Shared, begin, delta_place, put,
    put_place, put_reasoning_part, put_str,
};
use crate::encode::continuation::caller;
use crate::event::{AttachTo, Protocol, ReasoningKind};
use crate::text::Text;

impl Responses {
    pub(super) fn reasoning(
        &mut self,
        shared: &mut Shared,
        block: u32,
        kind: ReasoningKind,
        text: Text<'_>,
        out: &mut Vec<u8>,
    ) {
        if text.is_empty() {
            return;
        }
        if !matches!(self.open, Open::Reasoning(_)) {
            self.begin_reasoning(shared, block, out);
        }
        let other_part = match &self.open {
            // Blocks that follow one another are parts of one item: no continuation came between them.
            Open::Reasoning(item) => item.block != block || item.part.as_ref().is_none_or(|(open, _)| *open != kind),
            _ => return,
        };
        if other_part {
            self.close_reasoning_part(shared, out);
            self.begin_reasoning_part(shared, kind, out);
        }
        let Open::Reasoning(item) = &mut self.open else { return };
        item.block = block;
        let Some((_, kept)) = &mut item.part else { return };
        let from = kept.len();
        text.push_json(kept);
        let head = match kind {
            ReasoningKind::Summary => SUMMARY_DELTA,
            ReasoningKind::Raw => REASONING_DELTA,
        };
        if begin(shared, &mut self.seq, out, head) {
            out.extend_from_slice(&item.place);
            out.extend_from_slice(&kept[from..]);
            out.push(b'"');
            put(out, END);
        }
    }

    pub(super) fn begin_reasoning(&mut self, shared: &mut Shared, block: u32, out: &mut Vec<u8>) {
        if let Open::Reasoning(item) = &self.open
            && item.block == block
        {
            return;
        }
        self.close(shared, out);
        let (at, id) = self.place(shared, "rs");
        let item = Reasoning::new(at, id, block);
        self.added(shared, at, &item.json(), out);
        self.open = Open::Reasoning(item);
    }

    pub(super) fn begin_reasoning_part(&mut self, shared: &Shared, kind: ReasoningKind, out: &mut Vec<u8>) {
        let Open::Reasoning(item) = &mut self.open else { return };
        item.part = Some((kind, Vec::new()));
        let place = Some((part_key(kind), item.part_index(kind)));
        item.place = delta_place(&item.id, item.at, place);
        let name = match kind {
            ReasoningKind::Summary => "response.reasoning_summary_part.added",
            ReasoningKind::Raw => "response.content_part.added",
        };
        if begin(shared, &mut self.seq, out, name) {
            put_place(out, &item.id, item.at, place);
            put(out, ",\"part\":");
            put_reasoning_part(out, kind, b"");
            put(out, END);
        }
    }

    pub(super) fn close_reasoning_part(&mut self, shared: &Shared, out: &mut Vec<u8>) {
        let Open::Reasoning(item) = &mut self.open else { return };
        let Some((kind, index, text)) = item.end_part() else { return };
        let place = Some((part_key(kind), index));
        let (text_done, part_done) = match kind {
            ReasoningKind::Summary => ("response.reasoning_summary_text.done", "response.reasoning_summary_part.done"),
            ReasoningKind::Raw => ("response.reasoning_text.done", "response.content_part.done"),
        };
        if begin(shared, &mut self.seq, out, text_done) {
            put_place(out, &item.id, item.at, place);
            put(out, ",\"text\":\"");
            out.extend_from_slice(&text);
            out.push(b'"');
            put(out, END);
        }
        if begin(shared, &mut self.seq, out, part_done) {
            put_place(out, &item.id, item.at, place);
            put(out, ",\"part\":");
            put_reasoning_part(out, kind, &text);
            put(out, END);
        }
    }

    /// Ends the open part, and the item's text with it.
    pub(super) fn close_reasoning_text(&mut self, shared: &Shared, out: &mut Vec<u8>) {
        self.close_reasoning_part(shared, out);
        if let Open::Reasoning(item) = &mut self.open
            && let Some(texts) = item.stateless().and_then(|parts| shared.texts(parts))
        {
            item.encrypted = Some(texts);
        }
    }

    /// Closes the reasoning that it belongs to, or is a reasoning item of its own.
    pub(super) fn continuation(&mut self, shared: &mut Shared, continuation: &Continued<'_>, out: &mut Vec<u8>) {
        let Continued { family, form, data, to, index } = *continuation;
        if family == Protocol::OpenaiResponses && to == AttachTo::Call {
            // It stands on the call itself.
            if let Some(caller) = caller(&data.decode()) {
                self.calls.made_by(index, caller);
            }
            return;
        }
        let slot = shared.slot(family, form, data).into_owned();
        if family == Protocol::OpenaiResponses && to == AttachTo::Response {
            self.close(shared, out);
            let (at, id) = self.place(shared, "cmp");
            let mut json = Vec::with_capacity(slot.len() + 64);
            put_str(&mut json, "{\"id\":", &id);
            put_str(&mut json, ",\"type\":\"compaction\",\"encrypted_content\":", &slot);
            json.push(b'}');
            return self.put_item(shared, at, json, out);
        }
        if to == AttachTo::Reasoning {
            self.begin_reasoning(shared, index, out);
        } else {
            self.close(shared, out);
            // No reasoning text comes for this one; its number is never asked for.
            self.begin_reasoning(shared, u32::MAX, out);
        }
        if let Open::Reasoning(item) = &mut self.open {
            item.encrypted = Some(slot);
        }
        self.close(shared, out);
    }
}

pub(super) fn part_key(kind: ReasoningKind) -> &'static str {
    match kind {
        ReasoningKind::Summary => ",\"summary_index\":",
        ReasoningKind::Raw => ",\"content_index\":",
    }
}
