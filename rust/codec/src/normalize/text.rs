//! Surrogate halves over the edges of deltas (rule R2).
//!
//! A JSON escape may leave one half of a pair at the end of one delta and the other at the start of the
//! next. The first is held here until the second comes; one that stays alone becomes U+FFFD.

use crate::limits::MAX_ARGUMENTS;
use crate::text::{Literal, Text, join_surrogates};

/// The half that one block of text, or one call's arguments, is holding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Half(Option<u16>);

impl Half {
    /// What of `text` can go out now; `None` where nothing can. `scratch` is used only where a half is joined.
    #[inline]
    pub fn pass<'a>(&mut self, text: Text<'a>, scratch: &'a mut String) -> Option<Text<'a>> {
        match text {
            Text::Literal(l) if l.escaped() || self.0.is_some() => self.pass_literal(l, scratch),
            Text::Plain(s) if self.0.is_some() => self.pass_plain(s, scratch),
            _ => (!text.is_empty()).then_some(text),
        }
    }

    /// The replacement for a half that stayed alone.
    pub fn flush(&mut self) -> Option<Text<'static>> {
        self.0.take().map(|_| Text::Plain("\u{FFFD}"))
    }

    /// `s` after a half.
    #[cold]
    fn pass_plain<'a>(&mut self, s: &str, scratch: &'a mut String) -> Option<Text<'a>> {
        if s.is_empty() {
            return None;
        }
        self.0 = None;
        scratch.clear();
        scratch.push(char::REPLACEMENT_CHARACTER);
        scratch.push_str(s);
        Some(Text::Plain(scratch))
    }

    fn pass_literal<'a>(&mut self, mut l: Literal<'a>, scratch: &'a mut String) -> Option<Text<'a>> {
        if l.raw.is_empty() {
            return None;
        }
        let held = self.0.take();
        let mut start = None;
        if let Some(high) = held {
            start = Some(match l.leading_low() {
                Some(low) => {
                    l.raw = &l.raw[6..];
                    join_surrogates(high, low)
                }
                None => char::REPLACEMENT_CHARACTER,
            });
        }
        if let Some(high) = l.trailing_high() {
            self.0 = Some(high);
            l.raw = &l.raw[..l.raw.len() - 6];
        }
        let Some(start) = start else {
            return (!l.raw.is_empty()).then_some(Text::Literal(l));
        };
        scratch.clear();
        scratch.push(start);
        l.decode_into(scratch);
        Some(Text::Plain(scratch))
    }
}

/// Text in pieces that is needed whole.
#[derive(Debug, Default)]
pub(super) struct Joined {
    text: String,
    half: Half,
}

impl Joined {
    /// Whether it still fits.
    pub fn push(&mut self, piece: Option<Literal<'_>>) -> bool {
        let mut scratch = String::new();
        if let Some(piece) = piece
            && let Some(ready) = self.half.pass(piece.into(), &mut scratch)
        {
            ready.decode_into(&mut self.text);
        }
        self.text.len() <= MAX_ARGUMENTS
    }

    pub fn done(mut self) -> String {
        if let Some(rest) = self.half.flush() {
            rest.decode_into(&mut self.text);
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pieces: &[&str]) -> String {
        let (mut half, mut out) = (Half::default(), String::new());
        for raw in pieces {
            let l = Literal::new(raw.as_bytes(), raw.contains('\\'), true);
            if let Some(text) = half.pass(Text::Literal(l), &mut String::new()) {
                text.decode_into(&mut out);
            }
        }
        if let Some(text) = half.flush() {
            text.decode_into(&mut out);
        }
        out
    }

    #[test]
    fn halves_join_over_deltas_and_lone_ones_are_replaced() {
        assert_eq!(run(&[r"a\ud83d", r"\udea2b"]), "a🚢b");
        assert_eq!(run(&[r"\ud83d", "", r"\udea2"]), "🚢");
        assert_eq!(run(&[r"\ud83d", r"\ud83d", r"\udea2"]), "\u{fffd}🚢");
        assert_eq!(run(&[r"\ud83d", "x"]), "\u{fffd}x");
        assert_eq!(run(&[r"x\ud83d"]), "x\u{fffd}");
        assert_eq!(run(&[r"\udea2x"]), "\u{fffd}x");
    }
}
