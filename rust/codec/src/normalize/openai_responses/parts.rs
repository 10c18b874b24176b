//! The text parts of a response, and how much of each has been given out.
//!
//! A part's text may come in deltas, in its `done` event, in the part, in the item and in the final response: it is
//! given out once, and what only a later one of these has is not lost. No text is kept for that: a length and a
//! digest per part tell whether the whole text begins with what came before.

use std::collections::HashMap;

use crate::event::ReasoningKind;
use crate::limits::MAX_BLOCKS;
use crate::normalize::Out;
use crate::text::{Literal, Text};

/// What a part's text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Text,
    Refusal,
    Summary,
    Reasoning,
}

/// The part of an item: number of the item, class, index in the item.
pub(super) type Key = (usize, Class, u64);

#[derive(Debug)]
struct Part {
    key: Key,
    /// Bytes of decoded text that were given out, and their digest.
    len: usize,
    digest: u64,
    annotations: usize,
    /// Its whole text has been seen.
    settled: bool,
    /// Some text of it was given out.
    given: bool,
}

#[derive(Debug, Default)]
pub(super) struct Parts {
    list: Vec<Part>,
    by_key: HashMap<Key, usize>,
    /// The parts of each item.
    by_item: HashMap<usize, Vec<usize>>,
    /// Of the part that the last delta belonged to.
    last: usize,
    scratch: String,
}

impl Parts {
    /// Gives out one delta.
    pub(super) fn delta(&mut self, key: Key, text: Literal<'_>, out: &mut Out<'_>) {
        let Some(at) = self.at(key, out) else { return };
        let part = &mut self.list[at];
        if part.settled {
            return;
        }
        if text.escaped() || !text.ascii() {
            self.scratch.clear();
            text.decode_into(&mut self.scratch);
            part.take(self.scratch.as_bytes());
        } else {
            part.take(text.raw);
        }
        give(out, key.1, at, text.into());
    }

    /// The whole text has come: gives out what the deltas lacked of it. A different text changes nothing, since
    /// what is out is out.
    pub(super) fn whole(&mut self, key: Key, text: Option<Literal<'_>>, out: &mut Out<'_>) {
        let Some(text) = text.filter(|t| !t.raw.is_empty()) else { return };
        let Some(at) = self.at(key, out) else { return };
        let part = &mut self.list[at];
        if part.settled {
            return;
        }
        part.settled = true;
        part.given = true;
        if part.len == 0 {
            give(out, key.1, at, text.into());
        } else {
            let text = text.decode();
            if let Some((before, rest)) = text.split_at_checked(part.len)
                && digest(DIGEST_START, before.as_bytes()) == part.digest
            {
                give(out, key.1, at, Text::Plain(rest));
            }
        }
        out.close_block(at as u64);
    }

    /// Counts an annotation of this part; whether it is new: the `nth` of its part.
    pub(super) fn annotate(&mut self, key: Key, nth: Option<usize>, out: &mut Out<'_>) -> bool {
        let Some(at) = self.at(key, out) else { return false };
        let part = &mut self.list[at];
        if nth.is_some_and(|nth| nth < part.annotations) {
            return false;
        }
        part.annotations += 1;
        true
    }

    /// The block that state of this reasoning item belongs to: its last part, or one of its own.
    pub(super) fn reasoning_block(&mut self, item: usize, out: &mut Out<'_>) -> Option<u32> {
        let has_text = |at: &&usize| {
            let part = &self.list[**at];
            matches!(part.key.1, Class::Summary | Class::Reasoning) && part.given
        };
        let at = match self.by_item.get(&item).and_then(|parts| parts.iter().rev().find(has_text)) {
            Some(at) => *at,
            None => self.at((item, Class::Reasoning, 0), out)?,
        };
        Some(out.index(at as u64))
    }

    /// The indices of the item's parts of this class, in order.
    pub(super) fn indices(&self, item: usize, class: Class) -> Vec<u64> {
        let parts = self.by_item.get(&item).into_iter().flatten().map(|at| self.list[*at].key);
        let mut indices: Vec<u64> = parts.filter(|key| key.1 == class).map(|key| key.2).collect();
        indices.sort_unstable();
        indices
    }

    fn at(&mut self, key: Key, out: &mut Out<'_>) -> Option<usize> {
        if self.list.get(self.last).is_some_and(|part| part.key == key) {
            return Some(self.last);
        }
        if let Some(&at) = self.by_key.get(&key) {
            self.last = at;
            return Some(at);
        }
        if self.list.len() >= MAX_BLOCKS {
            out.interrupted("more content parts than a response may have");
            return None;
        }
        self.last = self.list.len();
        self.by_key.insert(key, self.last);
        self.by_item.entry(key.0).or_default().push(self.last);
        self.list.push(Part { key, len: 0, digest: DIGEST_START, annotations: 0, settled: false, given: false });
        Some(self.last)
    }
}

impl Part {
    fn take(&mut self, text: &[u8]) {
        self.len += text.len();
        self.given |= !text.is_empty();
        self.digest = digest(self.digest, text);
    }
}

fn give(out: &mut Out<'_>, class: Class, at: usize, text: Text<'_>) {
    let key = at as u64;
    match class {
        Class::Text => out.text(key, text),
        Class::Refusal => out.refusal(key, text),
        Class::Summary => out.reasoning(key, ReasoningKind::Summary, text),
        Class::Reasoning => out.reasoning(key, ReasoningKind::Raw, text),
    }
}

/// FNV-1a: the same for any cut of the text.
fn digest(mut state: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    state
}

const DIGEST_START: u64 = 0xcbf2_9ce4_8422_2325;
