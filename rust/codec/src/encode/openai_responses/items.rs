//! The output items of a Responses object while they grow.
//!
//! 1. An item has its place (`output_index`) from its beginning; calls may overlap, so items end in any order.
//! 2. Each text is kept once, raw, in one growing buffer: the closing events and the final object repeat it.
//! 3. An item's id never changes between its events.

use crate::encode::shared::{comma, put, put_count, put_raw, put_str};
use crate::event::{CallKind, ReasoningKind};

/// A message while it is open.
#[derive(Debug)]
pub(super) struct Message {
    pub at: usize,
    pub id: String,
    /// JSON of the parts that have ended.
    parts: Vec<u8>,
    pub count: usize,
    pub part: Option<Part>,
}

/// A part of a message while it is open.
#[derive(Debug)]
pub(super) struct Part {
    /// The event's own number of the block.
    pub block: u32,
    pub refusal: bool,
    /// What its deltas have between their number and their text.
    pub place: Vec<u8>,
    /// The inside of a JSON string.
    pub text: Vec<u8>,
    /// JSON of the annotations.
    pub annotations: Vec<u8>,
    pub annotated: u64,
}

impl Message {
    pub fn new(at: usize, id: String) -> Message {
        Message { at, id, parts: Vec::new(), count: 0, part: None }
    }

    /// Ends the open part and returns its JSON.
    pub fn end_part(&mut self) -> Option<(Part, Vec<u8>)> {
        let part = self.part.take()?;
        let json = part.json();
        comma(&mut self.parts, self.count == 0);
        self.parts.extend_from_slice(&json);
        self.count += 1;
        Some((part, json))
    }

    pub fn json(&self, status: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(96 + self.parts.len());
        put_str(&mut out, "{\"id\":", &self.id);
        put_str(&mut out, ",\"type\":\"message\",\"status\":", status);
        put(&mut out, ",\"role\":\"assistant\",\"content\":[");
        out.extend_from_slice(&self.parts);
        put(&mut out, "]}");
        out
    }
}

impl Part {
    pub fn new(block: u32, refusal: bool) -> Part {
        Part { block, refusal, place: Vec::new(), text: Vec::new(), annotations: Vec::new(), annotated: 0 }
    }

    pub fn json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(72 + self.text.len() + self.annotations.len());
        if self.refusal {
            put(&mut out, "{\"type\":\"refusal\",\"refusal\":\"");
            out.extend_from_slice(&self.text);
            put(&mut out, "\"}");
        } else {
            put(&mut out, "{\"type\":\"output_text\",\"annotations\":[");
            out.extend_from_slice(&self.annotations);
            put(&mut out, "],\"logprobs\":[],\"text\":\"");
            out.extend_from_slice(&self.text);
            put(&mut out, "\"}");
        }
        out
    }
}

/// A reasoning item while it is open.
#[derive(Debug)]
pub(super) struct Reasoning {
    pub at: usize,
    pub id: String,
    /// The event's own number of the block.
    pub block: u32,
    summary: Vec<u8>,
    summaries: usize,
    content: Vec<u8>,
    contents: usize,
    /// What grows now: the inside of a JSON string.
    pub part: Option<(ReasoningKind, Vec<u8>)>,
    /// What its deltas have between their number and their text.
    pub place: Vec<u8>,
    pub encrypted: Option<String>,
}

impl Reasoning {
    pub fn new(at: usize, id: String, block: u32) -> Reasoning {
        Reasoning {
            at,
            id,
            block,
            summary: Vec::new(),
            summaries: 0,
            content: Vec::new(),
            contents: 0,
            part: None,
            place: Vec::new(),
            encrypted: None,
        }
    }

    /// The place of the open part in its list.
    pub fn part_index(&self, kind: ReasoningKind) -> usize {
        match kind {
            ReasoningKind::Summary => self.summaries,
            ReasoningKind::Raw => self.contents,
        }
    }

    /// Ends the open part and returns its kind, its place and its text.
    pub fn end_part(&mut self) -> Option<(ReasoningKind, usize, Vec<u8>)> {
        let (kind, text) = self.part.take()?;
        let place = self.part_index(kind);
        let list = match kind {
            ReasoningKind::Summary => {
                self.summaries += 1;
                &mut self.summary
            }
            ReasoningKind::Raw => {
                self.contents += 1;
                &mut self.content
            }
        };
        comma(list, place == 0);
        put_reasoning_part(list, kind, &text);
        Some((kind, place, text))
    }

    /// The raw parts that have ended, where no state is here to go on from.
    pub fn stateless(&self) -> Option<&[u8]> {
        (self.contents > 0 && self.encrypted.is_none()).then_some(&*self.content)
    }

    pub fn json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96 + self.summary.len() + self.content.len());
        put_str(&mut out, "{\"id\":", &self.id);
        put(&mut out, ",\"type\":\"reasoning\",\"summary\":[");
        out.extend_from_slice(&self.summary);
        out.push(b']');
        if self.contents > 0 {
            put(&mut out, ",\"content\":[");
            out.extend_from_slice(&self.content);
            out.push(b']');
        }
        if let Some(encrypted) = &self.encrypted {
            put_str(&mut out, ",\"encrypted_content\":", encrypted);
        }
        out.push(b'}');
        out
    }
}

pub(super) fn put_reasoning_part(out: &mut Vec<u8>, kind: ReasoningKind, text: &[u8]) {
    put(
        out,
        match kind {
            ReasoningKind::Summary => "{\"type\":\"summary_text\",\"text\":\"",
            ReasoningKind::Raw => "{\"type\":\"reasoning_text\",\"text\":\"",
        },
    );
    out.extend_from_slice(text);
    put(out, "\"}");
}

/// A call's item.
#[derive(Debug)]
pub(super) struct CallItem<'a> {
    pub id: &'a str,
    pub call_id: &'a str,
    pub name: &'a str,
    pub namespace: Option<&'a str>,
    pub caller: Option<&'a str>,
    pub kind: CallKind,
    pub text: &'a str,
    pub status: &'a str,
}

impl CallItem<'_> {
    pub fn json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.text.len());
        let (kind, text) = match self.kind {
            CallKind::Function => ("function_call", ",\"arguments\":"),
            CallKind::Custom => ("custom_tool_call", ",\"input\":"),
        };
        put_str(&mut out, "{\"id\":", self.id);
        put_str(&mut out, ",\"type\":", kind);
        put_str(&mut out, ",\"status\":", self.status);
        put_str(&mut out, text, self.text);
        put_str(&mut out, ",\"call_id\":", self.call_id);
        put_str(&mut out, ",\"name\":", self.name);
        if let Some(namespace) = self.namespace {
            put_str(&mut out, ",\"namespace\":", namespace);
        }
        if let Some(caller) = self.caller {
            put(&mut out, ",\"caller\":");
            put_raw(&mut out, caller.as_bytes());
        }
        out.push(b'}');
        out
    }
}

/// What the deltas of one text have between their number and their text.
pub(super) fn delta_place(id: &str, at: usize, part: Option<(&str, usize)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    put_place(&mut out, id, at, part);
    put(&mut out, ",\"delta\":\"");
    out
}

/// `item_id`, `output_index` and, for parts, the index in their list.
pub(super) fn put_place(out: &mut Vec<u8>, id: &str, at: usize, part: Option<(&str, usize)>) {
    put_str(out, ",\"item_id\":", id);
    put_count(out, ",\"output_index\":", at as u64);
    if let Some((key, index)) = part {
        put_count(out, key, index as u64);
    }
}
