//! `<think>` and `</think>` inside content (rule R19t): what stands between them is reasoning.
//!
//! A tail that may still become the tag that is looked for is held back, and let go as soon as it cannot.
//! No other tag may be added: a model's own text may hold any.

use super::Out;
use super::text::Half;
use crate::event::ReasoningKind;
use crate::limits::MAX_HELD_TAG;
use crate::text::{Literal, Text};

/// The one block of text of a protocol that does not number its blocks.
pub const TEXT: u64 = 0;
/// Its one block of reasoning.
pub const REASONING: u64 = 1;

/// The content of such a response: text, and reasoning in it where tags are looked for.
#[derive(Debug, Default)]
pub struct Content {
    tags: Option<Tagged>,
}

#[derive(Debug, Default)]
struct Tagged {
    tags: ThinkTags,
    half: Half,
}

impl Content {
    #[must_use]
    pub fn new(think_tags: bool) -> Content {
        Content { tags: think_tags.then(Tagged::default) }
    }

    /// Gives out the next text.
    #[inline]
    pub fn give(&mut self, text: Literal<'_>, out: &mut Out<'_>) {
        let Some(Tagged { tags, half }) = &mut self.tags else {
            return out.text(TEXT, Text::Literal(text));
        };
        let mut scratch = String::new();
        if let Some(ready) = half.pass(Text::Literal(text), &mut scratch) {
            tags.split(&ready.decode(), |piece, inside| tagged(piece, inside, out));
        }
    }

    /// The content is over: gives out what is held back.
    pub fn flush(&mut self, out: &mut Out<'_>) {
        let Some(Tagged { tags, half }) = &mut self.tags else { return };
        if let Some(half) = half.flush() {
            tags.split(&half.decode(), |piece, inside| tagged(piece, inside, out));
        }
        tags.flush(|piece, inside| tagged(piece, inside, out));
    }
}

fn tagged(piece: &str, inside: bool, out: &mut Out<'_>) {
    if inside {
        out.reasoning(REASONING, ReasoningKind::Raw, Text::Plain(piece));
    } else {
        out.text(TEXT, Text::Plain(piece));
    }
}

/// Which side of the tags the text is on, and what is held.
#[derive(Clone, Debug, Default)]
pub struct ThinkTags {
    inside: bool,
    /// How many bytes of the tag that is looked for the text ends with.
    held: usize,
}

impl ThinkTags {
    fn tag(&self) -> &'static str {
        if self.inside { "</think>" } else { "<think>" }
    }

    /// Takes the next text and calls `give` with each piece and whether it is reasoning.
    pub fn split(&mut self, text: &str, mut give: impl FnMut(&str, bool)) {
        let joined;
        let mut rest = text;
        if self.held > 0 {
            joined = format!("{}{text}", &self.tag()[..self.held]);
            rest = &joined;
        }
        loop {
            let tag = self.tag();
            let Some(at) = rest.find(tag) else { break };
            if at > 0 {
                give(&rest[..at], self.inside);
            }
            rest = &rest[at + tag.len()..];
            self.inside = !self.inside;
        }
        let tag = self.tag();
        self.held = (1..=MAX_HELD_TAG.min(tag.len() - 1)).rev().find(|&n| rest.ends_with(&tag[..n])).unwrap_or(0);
        let sure = rest.len() - self.held;
        if sure > 0 {
            give(&rest[..sure], self.inside);
        }
    }

    /// The content is over: what is held is text after all.
    pub fn flush(&mut self, mut give: impl FnMut(&str, bool)) {
        let held = std::mem::take(&mut self.held);
        if held > 0 {
            give(&self.tag()[..held], self.inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pieces: &[&str]) -> (String, String) {
        let (mut text, mut thought, mut tags) = (String::new(), String::new(), ThinkTags::default());
        let mut give = |s: &str, inside: bool| if inside { thought.push_str(s) } else { text.push_str(s) };
        for piece in pieces {
            tags.split(piece, &mut give);
        }
        tags.flush(&mut give);
        (text, thought)
    }

    #[test]
    fn every_cut_gives_the_same() {
        let all = "<think>weigh<ing</th></think>Answer: a < b <think>é</think>done <thi";
        let want = ("Answer: a < b done <thi".to_owned(), "weigh<ing</th>é".to_owned());
        assert_eq!(run(&[all]), want);
        for (cut, _) in all.char_indices() {
            assert_eq!(run(&[&all[..cut], &all[cut..]]), want, "cut at {cut}");
        }
        let chars: Vec<String> = all.chars().map(String::from).collect();
        assert_eq!(run(&chars.iter().map(String::as_str).collect::<Vec<_>>()), want);
    }

    #[test]
    fn a_held_tail_goes_out_as_soon_as_it_cannot_be_a_tag() {
        let (mut tags, mut out) = (ThinkTags::default(), Vec::new());
        tags.split("a <", |s, _| out.push(s.to_owned()));
        tags.split(" b", |s, _| out.push(s.to_owned()));
        assert_eq!(out, ["a ", "< b"]);
    }
}
