//! Offsets in a text that comes in pieces: bytes of UTF-8 into code points, and back.
//!
//! 1. Nothing is kept of an ASCII text but its length; of what follows its first other character, one bit a byte.
//! 2. An offset that no character begins at, or past the end, has no counterpart.
//!
//! The text itself must not be kept here.

use crate::text::Text;

/// What is known of a text so far.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    /// Bytes before the first character that is not ASCII.
    ascii: u64,
    /// Which of the bytes after those begin a character.
    starts: Vec<u64>,
    /// How many bytes `starts` tells of.
    more: u64,
}

impl Offsets {
    pub fn push(&mut self, text: Text<'_>) {
        match text {
            Text::Literal(l) if !l.escaped() && l.ascii() => self.ascii(l.raw.len() as u64),
            text => self.bytes(text.decode().as_bytes()),
        }
    }

    /// How many bytes the text has.
    pub fn bytes_so_far(&self) -> u64 {
        self.ascii + self.more
    }

    /// How many characters begin before this byte.
    pub fn code_points(&self, byte: u64) -> Option<u64> {
        let Some(rest) = byte.checked_sub(self.ascii) else { return Some(byte) };
        if rest == 0 {
            return Some(byte);
        }
        if rest > self.more || (rest < self.more && self.starts[(rest / 64) as usize] >> (rest % 64) & 1 == 0) {
            return None;
        }
        let whole: u64 = self.starts[..(rest / 64) as usize].iter().map(|w| u64::from(w.count_ones())).sum();
        let part = match rest % 64 {
            0 => 0,
            bits => u64::from((self.starts[(rest / 64) as usize] & ((1 << bits) - 1)).count_ones()),
        };
        Some(self.ascii + whole + part)
    }

    /// The byte that this character begins at; the text's length for the one after its last.
    pub fn byte(&self, code_point: u64) -> Option<u64> {
        let Some(mut rest) = code_point.checked_sub(self.ascii) else { return Some(code_point) };
        for (at, word) in self.starts.iter().enumerate() {
            let ones = u64::from(word.count_ones());
            if rest >= ones {
                rest -= ones;
                continue;
            }
            let mut word = *word;
            for _ in 0..rest {
                word &= word - 1;
            }
            return Some(self.ascii + at as u64 * 64 + u64::from(word.trailing_zeros()));
        }
        (rest == 0).then_some(self.ascii + self.more)
    }

    fn ascii(&mut self, len: u64) {
        if self.more == 0 {
            self.ascii += len;
        } else {
            (0..len).for_each(|_| self.one(true));
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let plain = if self.more == 0 { bytes.iter().take_while(|b| b.is_ascii()).count() } else { 0 };
        self.ascii += plain as u64;
        bytes[plain..].iter().for_each(|b| self.one(b & 0xC0 != 0x80));
    }

    fn one(&mut self, starts: bool) {
        if self.more.is_multiple_of(64) {
            self.starts.push(0);
        }
        // A word was pushed for the first of its 64 bits.
        if let Some(word) = self.starts.last_mut() {
            *word |= u64::from(starts) << (self.more % 64);
        }
        self.more += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_at_every_character_however_the_text_came() {
        let long = "ascii then ".to_owned() + &"é😀x秋".repeat(60) + "end";
        for text in ["", "plain", "é", "aé", long.as_str()] {
            for size in [1, 3, 1000] {
                let mut offsets = Offsets::default();
                let chars: Vec<char> = text.chars().collect();
                for piece in chars.chunks(size) {
                    offsets.push(piece.iter().collect::<String>().as_str().into());
                }
                assert_eq!(offsets.bytes_so_far(), text.len() as u64);
                let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
                for (points, byte) in ends.enumerate() {
                    assert_eq!(offsets.code_points(byte as u64), Some(points as u64), "{text} {byte}");
                    assert_eq!(offsets.byte(points as u64), Some(byte as u64), "{text} {points}");
                }
                for byte in (0..text.len()).filter(|b| !text.is_char_boundary(*b)) {
                    assert_eq!(offsets.code_points(byte as u64), None);
                }
                assert_eq!(offsets.code_points(text.len() as u64 + 1), None);
                assert_eq!(offsets.byte(chars.len() as u64 + 1), None);
            }
        }
    }
}
