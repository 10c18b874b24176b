//! Text as it passes through the codec: either plain UTF-8, or the inside of a JSON string literal
//! exactly as it stood on the wire.
//!
//! 1. A literal is decoded only when somebody asks for its characters; an encoder that writes JSON
//!    copies it raw.
//! 2. UTF-8 is checked only where text is handed over. Replacing bad bytes string by string equals
//!    replacing them over the whole stream, since no ASCII delimiter is ever swallowed.
//! 3. A surrogate half that stays alone becomes U+FFFD (rule R2). Joining halves over two deltas is
//!    the normaliser's work; it asks [`Literal::trailing_high`] and [`Literal::leading_low`].

use std::borrow::Cow;

/// The inside of a JSON string literal, without its quotes, escapes in place. The scanner has checked
/// that every escape is well formed and that no control character stands in it bare.
#[derive(Clone, Copy, Debug)]
pub struct Literal<'a> {
    /// The bytes between the quotes. May hold ill-formed UTF-8 where they are not all ASCII.
    pub raw: &'a [u8],
    pub(crate) form: Form,
}

/// What is known of a literal's raw bytes. It fills a word: flags of a byte each that are written, and at once read back as
/// part of a word, make the processor wait for longer than the literal took to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Form {
    /// ASCII without a backslash: the characters themselves.
    Ascii = 0,
    Wide = 1,
    EscapedAscii = 2,
    EscapedWide = 3,
}

impl Form {
    #[inline]
    pub(crate) fn of(escaped: bool, ascii: bool) -> Form {
        Form::of_bits(u64::from(escaped) << 1 | u64::from(!ascii))
    }

    /// The form whose number are the last two bits.
    #[inline]
    pub(crate) fn of_bits(bits: u64) -> Form {
        match bits & 3 {
            0 => Form::Ascii,
            1 => Form::Wide,
            2 => Form::EscapedAscii,
            _ => Form::EscapedWide,
        }
    }
}

impl<'a> Literal<'a> {
    /// `escaped`: a backslash occurs. `ascii`: every raw byte is below 0x80.
    #[inline]
    #[must_use]
    pub fn new(raw: &'a [u8], escaped: bool, ascii: bool) -> Literal<'a> {
        debug_assert!(!ascii || raw.is_ascii());
        Literal { raw, form: Form::of(escaped, ascii) }
    }

    /// Whether a backslash occurs.
    #[inline]
    #[must_use]
    pub fn escaped(self) -> bool {
        matches!(self.form, Form::EscapedAscii | Form::EscapedWide)
    }

    /// Whether every raw byte is below 0x80. (An escape may still stand for a larger character.)
    #[inline]
    #[must_use]
    pub fn ascii(self) -> bool {
        matches!(self.form, Form::Ascii | Form::EscapedAscii)
    }

    /// The decoded characters; borrowed where nothing had to change.
    #[must_use]
    pub fn decode(self) -> Cow<'a, str> {
        if !self.escaped() {
            return if self.ascii() {
                // SAFETY: every byte is below 0x80, so this is UTF-8.
                Cow::Borrowed(unsafe { std::str::from_utf8_unchecked(self.raw) })
            } else {
                String::from_utf8_lossy(self.raw)
            };
        }
        let mut out = String::with_capacity(self.raw.len());
        self.decode_into(&mut out);
        Cow::Owned(out)
    }

    /// The decoded bytes, which may be ill-formed UTF-8: to match a key against known names.
    #[inline]
    #[must_use]
    pub fn bytes(self) -> Cow<'a, [u8]> {
        if self.escaped() { Cow::Owned(self.decode().into_owned().into_bytes()) } else { Cow::Borrowed(self.raw) }
    }

    /// Appends the decoded characters to `out`.
    pub fn decode_into(self, out: &mut String) {
        if !self.escaped() {
            return self.push(self.raw, out);
        }
        let mut rest = self.raw;
        while let Some(at) = memchr::memchr(b'\\', rest) {
            self.push(&rest[..at], out);
            let used = decode_escape(&rest[at..], out);
            rest = &rest[at + used..];
        }
        self.push(rest, out);
    }

    /// Appends a part of the raw bytes that has no escape.
    #[inline]
    fn push(self, part: &[u8], out: &mut String) {
        if self.ascii() {
            // SAFETY: every byte is below 0x80, so this is UTF-8.
            out.push_str(unsafe { std::str::from_utf8_unchecked(part) });
        } else {
            push_lossy(out, part);
        }
    }

    /// Whether the decoded text equals `want`, without decoding where no escape occurs.
    #[must_use]
    pub fn is(self, want: &str) -> bool {
        if self.escaped() { self.decode() == want } else { self.raw == want.as_bytes() }
    }

    /// Some `\uD8xx` or `\uDCxx` escape has no other half. A literal that holds one is JSON by its grammar, and
    /// what many parsers refuse or cannot write out again.
    #[must_use]
    pub fn has_lone_half(self) -> bool {
        let mut rest = self.raw;
        while let Some(at) = memchr::memchr(b'\\', rest) {
            rest = &rest[at..];
            let used = match unicode_escape(rest) {
                Some(0xD800..0xDC00) => match rest.get(6..).and_then(unicode_escape) {
                    Some(0xDC00..0xE000) => 12,
                    _ => return true,
                },
                Some(0xDC00..0xE000) => return true,
                Some(_) => 6,
                None => rest.len().min(2),
            };
            rest = &rest[used..];
        }
        false
    }

    /// The text ends in a `\uD8xx` escape whose second half may come in the next delta.
    #[must_use]
    pub fn trailing_high(self) -> Option<u16> {
        if !self.escaped() || self.raw.len() < 6 {
            return None;
        }
        let at = self.raw.len() - 6;
        let unit = unicode_escape(&self.raw[at..])?;
        if !(0xD800..0xDC00).contains(&unit) {
            return None;
        }
        // The backslash must itself not be escaped: count those before it.
        let before = self.raw[..at].iter().rev().take_while(|&&b| b == b'\\').count();
        before.is_multiple_of(2).then_some(unit)
    }

    /// The text starts with a `\uDCxx` escape: the second half of a surrogate pair.
    #[must_use]
    pub fn leading_low(self) -> Option<u16> {
        let unit = unicode_escape(self.raw)?;
        (0xDC00..0xE000).contains(&unit).then_some(unit)
    }
}

/// A piece of text of an event.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// Decoded characters.
    Plain(&'a str),
    /// The inside of a JSON literal as it stood on the wire.
    Literal(Literal<'a>),
}

impl<'a> Text<'a> {
    /// No characters at all.
    pub const EMPTY: Text<'static> = Text::Plain("");

    #[must_use]
    pub fn is_empty(self) -> bool {
        match self {
            Text::Plain(s) => s.is_empty(),
            Text::Literal(l) => l.raw.is_empty(),
        }
    }

    /// The decoded characters; borrowed where nothing had to change.
    #[must_use]
    pub fn decode(self) -> Cow<'a, str> {
        match self {
            Text::Plain(s) => Cow::Borrowed(s),
            Text::Literal(l) => l.decode(),
        }
    }

    /// Appends the decoded characters to `out`.
    pub fn decode_into(self, out: &mut String) {
        match self {
            Text::Plain(s) => out.push_str(s),
            Text::Literal(l) => l.decode_into(out),
        }
    }

    /// Whether the decoded text equals `want`.
    #[must_use]
    pub fn is(self, want: &str) -> bool {
        match self {
            Text::Plain(s) => s == want,
            Text::Literal(l) => l.is(want),
        }
    }

    /// Appends the text as the inside of a JSON string literal (no quotes): raw where it is a well-formed
    /// literal already, escaped where it is plain. What is written is always valid JSON and UTF-8.
    pub fn push_json(self, out: &mut Vec<u8>) {
        match self {
            Text::Plain(s) => escape_json(s, out),
            Text::Literal(l) if l.escaped() && l.has_lone_half() => escape_json(&l.decode(), out),
            Text::Literal(l) if l.ascii() => out.extend_from_slice(l.raw),
            Text::Literal(l) => match std::str::from_utf8(l.raw) {
                Ok(_) => out.extend_from_slice(l.raw),
                Err(_) => out.extend_from_slice(String::from_utf8_lossy(l.raw).as_bytes()),
            },
        }
    }

    /// Appends the text as a whole JSON string, quotes included.
    pub fn push_json_string(self, out: &mut Vec<u8>) {
        out.push(b'"');
        self.push_json(out);
        out.push(b'"');
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(s: &'a str) -> Self {
        Text::Plain(s)
    }
}

impl<'a> From<Literal<'a>> for Text<'a> {
    fn from(l: Literal<'a>) -> Self {
        Text::Literal(l)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.decode() == other.decode()
    }
}

/// Appends `s` escaped for the inside of a JSON string literal: quote, backslash and control characters only.
pub fn escape_json(s: &str, out: &mut Vec<u8>) {
    let bytes = s.as_bytes();
    let mut from = 0;
    for (i, &b) in bytes.iter().enumerate() {
        if b >= 0x20 && b != b'"' && b != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[from..i]);
        from = i + 1;
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[(b >> 4) as usize]);
                out.push(HEX[(b & 15) as usize]);
            }
        }
    }
    out.extend_from_slice(&bytes[from..]);
}

/// Appends `s` as a whole JSON string, quotes included.
pub fn push_json_str(s: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape_json(s, out);
    out.push(b'"');
}

/// Decodes the escape at the start of `s` into `out` and returns the bytes used.
/// `s` starts with a backslash of a literal that the scanner has accepted.
fn decode_escape(s: &[u8], out: &mut String) -> usize {
    let simple = match s.get(1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        _ => {
            let Some(unit) = unicode_escape(s) else {
                out.push(char::REPLACEMENT_CHARACTER);
                return s.len().min(2);
            };
            if (0xD800..0xDC00).contains(&unit)
                && let Some(low) = s.get(6..).and_then(unicode_escape)
                && (0xDC00..0xE000).contains(&low)
            {
                out.push(join_surrogates(unit, low));
                return 12;
            }
            out.push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER));
            return 6;
        }
    };
    out.push(simple);
    2
}

/// The character of a surrogate pair. `high` is D800..DC00 and `low` DC00..E000.
#[must_use]
pub fn join_surrogates(high: u16, low: u16) -> char {
    let code = 0x1_0000 + ((u32::from(high) - 0xD800) << 10) + (u32::from(low) - 0xDC00);
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The code unit of a `\uXXXX` at the start of `s`.
fn unicode_escape(s: &[u8]) -> Option<u16> {
    if s.len() < 6 || s[0] != b'\\' || s[1] != b'u' {
        return None;
    }
    let mut unit = 0u16;
    for &b in &s[2..6] {
        unit = unit << 4 | u16::try_from((b as char).to_digit(16)?).ok()?;
    }
    Some(unit)
}

fn push_lossy(out: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(s) => out.push_str(s),
        Err(_) => out.push_str(&String::from_utf8_lossy(bytes)),
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(raw: &str) -> Literal<'_> {
        Literal::new(raw.as_bytes(), raw.contains('\\'), raw.is_ascii())
    }

    #[test]
    fn escapes_decode_and_lone_halves_become_replacement_characters() {
        assert_eq!(literal(r#"a\n\"\\\/\u00e9\ud83d\ude00z"#).decode(), "a\n\"\\/é😀z");
        assert_eq!(literal(r"x\ud83d").decode(), "x\u{fffd}");
        assert_eq!(literal(r"\ude00y").decode(), "\u{fffd}y");
        assert_eq!(literal(r"\ud83d\ud83d\ude00").decode(), "\u{fffd}😀");
    }

    #[test]
    fn halves_at_the_edges_are_seen_and_escaped_backslashes_are_not() {
        assert_eq!(literal(r"a\ud83d").trailing_high(), Some(0xD83D));
        assert_eq!(literal(r"a\\ud83d").trailing_high(), None);
        assert_eq!(literal(r"a\\\ud83d").trailing_high(), Some(0xD83D));
        assert_eq!(literal(r"\ude00a").leading_low(), Some(0xDE00));
        assert_eq!(literal(r"\u0041a").leading_low(), None);
    }

    #[test]
    fn json_is_copied_raw_or_escaped() {
        let mut out = Vec::new();
        Text::from(literal(r"a\u00e9\n")).push_json(&mut out);
        assert_eq!(out, br"a\u00e9\n");
        out.clear();
        Text::from(literal(r"a\ud83d\ude00\\ud83d")).push_json(&mut out);
        assert_eq!(out, br"a\ud83d\ude00\\ud83d");
        out.clear();
        Text::from(literal(r"\u0061\ud83d\n\ude00")).push_json(&mut out);
        assert_eq!(String::from_utf8(out.clone()).unwrap(), "a\u{fffd}\\n\u{fffd}");
        out.clear();
        Text::from("a\"\\\n\u{1}é").push_json_string(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"\\\\\\n\\u0001é\"");
    }
}
