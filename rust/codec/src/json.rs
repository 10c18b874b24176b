//! A pull scanner for JSON: reads the few fields somebody asks for and skips the rest, strictly.
//!
//! 1. Everything is validated, also what is skipped (RFC 8259): measured, strictness is free, and a
//!    payload that another parser would refuse never becomes an event.
//! 2. Strings are found 16 bytes a step (SSE2 is in every x86-64; elsewhere eight at a time) and come
//!    back as [`Literal`]s: raw, with what the same pass learnt about escapes and ASCII-ness.
//! 3. Nesting is bounded by [`MAX_DEPTH`] and costs no recursion: skipping keeps one bit a level.
//! 4. UTF-8 is not checked here; `text.rs` says why that is sound.
//!
//! A different number syntax or a lenient mode must not be added: what two parsers could read
//! differently is malformed.

mod weight;

pub use weight::is_heavier;

use crate::limits::MAX_DEPTH;
use crate::text::{Form, Literal};

/// Where and why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Byte offset in the scanned buffer.
    pub at: usize,
    /// What was expected, in a few words.
    pub what: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not JSON at byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for Malformed {}

pub type Scan<T> = Result<T, Malformed>;

/// What the next value is, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// A value of which only the outermost layer has been looked at. Containers and numbers keep their bytes.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Number(&'a [u8]),
    String(Literal<'a>),
    Array(&'a [u8]),
    Object(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The string, where it is one.
    #[must_use]
    pub fn string(self) -> Option<Literal<'a>> {
        if let Value::String(l) = self { Some(l) } else { None }
    }

    /// A whole number that fits, also written as `1.0` or `1e3`.
    #[must_use]
    pub fn count(self) -> Option<u64> {
        if let Value::Number(raw) = self { count(raw) } else { None }
    }
}

/// A cursor over one JSON text.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    buf: &'a [u8],
    pos: usize,
}

/// The members of an object, or the items of an array, as they are pulled.
#[derive(Debug)]
pub struct Items {
    first: bool,
}

impl<'a> Scanner<'a> {
    #[must_use]
    pub fn new(buf: &'a [u8]) -> Self {
        Scanner { buf, pos: 0 }
    }

    /// A cursor over the same text from byte `pos` on.
    #[must_use]
    pub(crate) fn at(buf: &'a [u8], pos: usize) -> Self {
        Scanner { buf, pos }
    }

    /// The offset of the next byte to be read.
    #[must_use]
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// Skips white space; true at the end of the text.
    pub fn at_end(&mut self) -> bool {
        self.space();
        self.pos >= self.buf.len()
    }

    /// Nothing but white space may follow.
    pub fn end(&mut self) -> Scan<()> {
        if self.at_end() { Ok(()) } else { self.fail("the end of the text") }
    }

    /// What the next value is. Consumes white space only.
    pub fn kind(&mut self) -> Scan<Kind> {
        self.space();
        match self.buf.get(self.pos) {
            Some(b'"') => Ok(Kind::String),
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'n') => Ok(Kind::Null),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            _ => self.fail("a value"),
        }
    }

    /// The next value, outermost layer only.
    pub fn value(&mut self) -> Scan<Value<'a>> {
        match self.kind()? {
            Kind::String => self.string().map(Value::String),
            Kind::Object => self.skip().map(Value::Object),
            Kind::Array => self.skip().map(Value::Array),
            Kind::Number => self.number().map(Value::Number),
            Kind::Bool => self.boolean().map(Value::Bool),
            Kind::Null => self.null().map(|()| Value::Null),
        }
    }

    /// A string that must be there.
    pub fn string(&mut self) -> Scan<Literal<'a>> {
        self.space();
        if self.peek() != Some(b'"') {
            return self.fail("a string");
        }
        self.string_body()
    }

    /// A string; any other value is skipped and `None` comes back (a `null`, or a vendor's fancy).
    #[expect(clippy::inline_always, reason = "measured: see `string_body`")]
    #[inline(always)]
    pub fn string_or_skip(&mut self) -> Scan<Option<Literal<'a>>> {
        self.space();
        if self.peek() == Some(b'"') {
            return self.string_body().map(Some);
        }
        self.skip()?;
        Ok(None)
    }

    /// A whole number that fits; any other value is skipped.
    pub fn count_or_skip(&mut self) -> Scan<Option<u64>> {
        if self.kind()? == Kind::Number {
            return self.number().map(count);
        }
        self.skip()?;
        Ok(None)
    }

    /// The bytes of a number that must be there.
    pub fn number(&mut self) -> Scan<&'a [u8]> {
        self.space();
        let start = self.pos;
        if self.buf.get(self.pos) == Some(&b'-') {
            self.pos += 1;
        }
        match self.buf.get(self.pos) {
            Some(b'0') => self.pos += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.fail("a digit"),
        }
        if self.buf.get(self.pos) == Some(&b'.') {
            self.pos += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.buf.get(self.pos) {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.buf.get(self.pos) {
                self.pos += 1;
            }
            self.some_digits()?;
        }
        Ok(&self.buf[start..self.pos])
    }

    pub fn boolean(&mut self) -> Scan<bool> {
        self.space();
        if self.buf.get(self.pos) == Some(&b't') {
            self.word(b"true").map(|()| true)
        } else {
            self.word(b"false").map(|()| false)
        }
    }

    pub fn null(&mut self) -> Scan<()> {
        self.space();
        self.word(b"null")
    }

    /// Consumes a `null` if that comes next.
    pub fn skip_null(&mut self) -> Scan<bool> {
        if self.kind()? == Kind::Null {
            self.null()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Opens an object that must be there; pull its members with [`Scanner::key`].
    pub fn object(&mut self) -> Scan<Items> {
        self.space();
        self.open(b'{', "an object")
    }

    /// Opens an array that must be there; pull its items with [`Scanner::item`].
    pub fn array(&mut self) -> Scan<Items> {
        self.space();
        self.open(b'[', "an array")
    }

    /// Opens an object; any other value is skipped and `None` comes back.
    pub fn object_or_skip(&mut self) -> Scan<Option<Items>> {
        if self.kind()? == Kind::Object {
            return self.object().map(Some);
        }
        self.skip()?;
        Ok(None)
    }

    /// Opens an array; any other value is skipped and `None` comes back.
    pub fn array_or_skip(&mut self) -> Scan<Option<Items>> {
        if self.kind()? == Kind::Array {
            return self.array().map(Some);
        }
        self.skip()?;
        Ok(None)
    }

    /// The next member's key, its colon consumed; the caller reads or skips the value. `None` at the end.
    #[expect(clippy::inline_always, reason = "measured: a literal that goes through memory stalls every key")]
    #[inline(always)]
    pub fn key(&mut self, items: &mut Items) -> Scan<Option<Literal<'a>>> {
        if self.peek() == Some(b'}') {
            self.pos += 1;
            return Ok(None);
        }
        // Compact JSON, as nearly all is: a comma, a quote.
        let skip = usize::from(!items.first);
        let is_compact = (items.first || self.peek() == Some(b',')) && self.buf.get(self.pos + skip) == Some(&b'"');
        if is_compact {
            self.pos += skip;
            items.first = false;
        } else if !self.open_key(items)? {
            return Ok(None);
        }
        let key = self.string_body()?;
        if self.peek() != Some(b':') {
            self.space();
            if self.peek() != Some(b':') {
                return self.fail("a colon");
            }
        }
        self.pos += 1;
        Ok(Some(key))
    }

    /// Goes to the opening quote of the next key; false at the end of the object.
    fn open_key(&mut self, items: &mut Items) -> Scan<bool> {
        self.space();
        if self.peek() == Some(b'}') {
            self.pos += 1;
            return Ok(false);
        }
        if items.first {
            items.first = false;
        } else {
            if self.peek() != Some(b',') {
                return self.fail("a comma");
            }
            self.pos += 1;
            self.space();
        }
        if self.peek() == Some(b'"') { Ok(true) } else { self.fail("a key") }
    }

    /// Whether another item follows; the caller reads or skips it. False at the end.
    pub fn item(&mut self, items: &mut Items) -> Scan<bool> {
        self.space();
        if self.buf.get(self.pos) == Some(&b']') {
            self.pos += 1;
            return Ok(false);
        }
        self.comma(items)?;
        Ok(true)
    }

    /// Skips one value of any kind, strictly, and returns its bytes.
    pub fn skip(&mut self) -> Scan<&'a [u8]> {
        self.space();
        let start = self.pos;
        match self.peek() {
            Some(b'"') => {
                self.string_body()?;
            }
            Some(b'n') => self.word(b"null")?,
            Some(b'{' | b'[') => self.skip_container()?,
            Some(b't') => self.word(b"true")?,
            Some(b'f') => self.word(b"false")?,
            _ => {
                self.number()?;
            }
        }
        Ok(&self.buf[start..self.pos])
    }

    /// One value with nothing but white space after it.
    pub fn only(buf: &'a [u8]) -> Scan<Value<'a>> {
        let mut scanner = Scanner::new(buf);
        let value = scanner.value()?;
        scanner.end()?;
        Ok(value)
    }

    fn skip_container(&mut self) -> Scan<()> {
        // One bit a level: set where the level is an object.
        let mut stack = [0u64; MAX_DEPTH / 64];
        let mut depth = 0usize;
        loop {
            // At a value.
            self.space();
            let opened = match self.buf.get(self.pos) {
                Some(b'{') => Some(true),
                Some(b'[') => Some(false),
                _ => None,
            };
            if let Some(is_object) = opened {
                if depth == MAX_DEPTH {
                    return self.fail("less nesting");
                }
                let bit = 1u64 << (depth % 64);
                if is_object {
                    stack[depth / 64] |= bit;
                } else {
                    stack[depth / 64] &= !bit;
                }
                depth += 1;
                self.pos += 1;
                self.space();
                let close = if is_object { b'}' } else { b']' };
                if self.buf.get(self.pos) == Some(&close) {
                    self.pos += 1;
                    depth -= 1;
                } else {
                    if is_object {
                        self.skip_key()?;
                    }
                    continue;
                }
            } else {
                match self.kind()? {
                    Kind::String => {
                        self.string_body()?;
                    }
                    Kind::Number => {
                        self.number()?;
                    }
                    Kind::Bool => {
                        self.boolean()?;
                    }
                    _ => self.null()?,
                }
            }
            // After a value: close as many levels as end here, or go on to the next member.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let is_object = stack[(depth - 1) / 64] >> ((depth - 1) % 64) & 1 == 1;
                self.space();
                match self.buf.get(self.pos) {
                    Some(b',') => {
                        self.pos += 1;
                        if is_object {
                            self.skip_key()?;
                        }
                        break;
                    }
                    Some(b'}') if is_object => {
                        self.pos += 1;
                        depth -= 1;
                    }
                    Some(b']') if !is_object => {
                        self.pos += 1;
                        depth -= 1;
                    }
                    _ => return self.fail("a comma or the end of a container"),
                }
            }
        }
    }

    fn skip_key(&mut self) -> Scan<()> {
        self.string()?;
        self.space();
        if self.buf.get(self.pos) != Some(&b':') {
            return self.fail("a colon");
        }
        self.pos += 1;
        Ok(())
    }

    fn open(&mut self, bracket: u8, what: &'static str) -> Scan<Items> {
        if self.buf.get(self.pos) != Some(&bracket) {
            return self.fail(what);
        }
        self.pos += 1;
        Ok(Items { first: true })
    }

    fn comma(&mut self, items: &mut Items) -> Scan<()> {
        if items.first {
            items.first = false;
            return Ok(());
        }
        if self.buf.get(self.pos) != Some(&b',') {
            return self.fail("a comma");
        }
        self.pos += 1;
        self.space();
        // `[1,]` and `{"a":1,}` are not JSON.
        if let Some(b']' | b'}') = self.buf.get(self.pos) {
            return self.fail("a value after the comma");
        }
        Ok(())
    }

    /// The inside of the string whose opening quote is the next byte. Most are keys and short words: those that end within
    /// sixteen bytes, without an escape, are taken here. Length and flags stay in registers on every way: a literal that is put
    /// together in memory and read back at once costs more than finding it.
    #[expect(clippy::inline_always, reason = "measured: see above")]
    #[inline(always)]
    fn string_body(&mut self) -> Scan<Literal<'a>> {
        debug_assert_eq!(self.peek(), Some(b'"'));
        let start = self.pos + 1;
        match inside(self.buf, start) {
            Some(literal) => {
                self.pos = start + literal.raw.len() + 1;
                Ok(literal)
            }
            None => Err(self.string_error(start)),
        }
    }

    /// Why no string starts before `start`: looked for again, since it is rare.
    #[cold]
    fn string_error(&mut self, start: usize) -> Malformed {
        let mut pos = start;
        let what = loop {
            let stop = find_special(self.buf, pos, &mut false);
            self.pos = stop;
            match self.buf.get(stop) {
                Some(b'\\') => match escape_len(&self.buf[stop..]) {
                    Some(len) => pos = stop + len,
                    None if self.buf.get(stop + 1) == Some(&b'u') => break "four hex digits",
                    None => break "an escape",
                },
                Some(_) => break "no bare control character",
                None => break "a closing quote",
            }
        };
        Malformed { at: self.pos, what }
    }

    fn digits(&mut self) {
        while self.buf.get(self.pos).is_some_and(u8::is_ascii_digit) {
            self.pos += 1;
        }
    }

    fn some_digits(&mut self) -> Scan<()> {
        let from = self.pos;
        self.digits();
        if self.pos == from { self.fail("a digit") } else { Ok(()) }
    }

    fn word(&mut self, word: &[u8]) -> Scan<()> {
        if self.buf[self.pos..].starts_with(word) {
            self.pos += word.len();
            return Ok(());
        }
        self.fail("a value")
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.buf.get(self.pos).copied()
    }

    #[inline]
    fn space(&mut self) {
        // One comparison where there is none, as nearly always.
        while let Some(b) = self.peek()
            && b <= b' '
            && matches!(b, b' ' | b'\n' | b'\r' | b'\t')
        {
            self.pos += 1;
        }
    }

    #[cold]
    fn fail<T>(&self, what: &'static str) -> Scan<T> {
        Err(Malformed { at: self.pos, what })
    }
}

/// The inside of the string whose opening quote is the byte before `start`; `None` where no string starts there.
#[expect(clippy::inline_always, reason = "measured: see `Scanner::string_body`")]
#[inline(always)]
pub(crate) fn inside(buf: &[u8], start: usize) -> Option<Literal<'_>> {
    let found = match short_string(buf, start) {
        Some(found) => found,
        None => long_string(buf, start),
    };
    if found == Found::NOT_A_STRING {
        return None;
    }
    Some(found.literal(&buf[start..start + found.len()]))
}

#[expect(clippy::inline_always, reason = "measured: see `Scanner::string_body`")]
#[inline(always)]
fn short_string(buf: &[u8], start: usize) -> Option<Found> {
    #[cfg(target_arch = "x86_64")]
    {
        let rest = buf.get(start..)?;
        let (stop, top) = if let Some(block) = rest.first_chunk() {
            find_in_block(block)
        } else {
            // Less than a block is left: the last block of the text has it at its end.
            let (stop, top) = find_in_block(buf.last_chunk()?);
            (stop >> (16 - rest.len()), top >> (16 - rest.len()))
        };
        // Beyond sixteen where nothing was found.
        let at = stop.trailing_zeros() as usize;
        if at < 16 && rest.get(at) == Some(&b'"') {
            return Some(Found::new(at, false, top & ((1 << at) - 1) == 0));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (buf, start);
    None
}

fn long_string(buf: &[u8], start: usize) -> Found {
    let mut pos = start;
    let (mut escaped, mut high) = (false, false);
    loop {
        let stop = find_special(buf, pos, &mut high);
        match buf.get(stop) {
            Some(b'"') => return Found::new(stop - start, escaped, !high),
            Some(b'\\') => {
                escaped = true;
                match escape_len(&buf[stop..]) {
                    Some(len) => pos = stop + len,
                    None => return Found::NOT_A_STRING,
                }
            }
            _ => return Found::NOT_A_STRING,
        }
    }
}

/// Length and flags of a string's inside, in one register.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Found(u64);

impl Found {
    const NOT_A_STRING: Found = Found(u64::MAX);

    #[inline]
    fn new(len: usize, escaped: bool, ascii: bool) -> Found {
        Found((len as u64) << 2 | Form::of(escaped, ascii) as u64)
    }

    #[inline]
    fn len(self) -> usize {
        (self.0 >> 2) as usize
    }

    /// `raw` is that inside.
    #[inline]
    fn literal(self, raw: &[u8]) -> Literal<'_> {
        Literal { raw, form: Form::of_bits(self.0) }
    }
}

/// The bytes of the escape at the start of `s`, if it is well formed.
fn escape_len(s: &[u8]) -> Option<usize> {
    match s.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => s.get(2..6)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
        _ => None,
    }
}

/// The whole number that `raw` (a JSON number) stands for, if it is one and fits.
#[must_use]
pub fn count(raw: &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for &b in raw {
        if !b.is_ascii_digit() {
            let f: f64 = std::str::from_utf8(raw).ok()?.parse().ok()?;
            // 2^53: beyond it a float is no longer an exact count.
            #[expect(clippy::cast_sign_loss, reason = "not negative, by the test before it")]
            return (f >= 0.0 && f.fract() == 0.0 && f <= 9_007_199_254_740_992.0).then_some(f as u64);
        }
        n = n.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
    }
    Some(n)
}

/// The first quote, backslash or control character at or after `pos` (the buffer's length where there is none);
/// sets `high` where a byte of 0x80 or more lies before it.
#[cfg(target_arch = "x86_64")]
#[inline]
fn find_special(buf: &[u8], mut pos: usize, high: &mut bool) -> usize {
    while let Some(block) = buf[pos..].first_chunk::<16>() {
        let (stop, top) = find_in_block(block);
        if stop != 0 {
            let at = stop.trailing_zeros();
            *high |= top & ((1u32 << at) - 1) != 0;
            return pos + at as usize;
        }
        *high |= top != 0;
        pos += 16;
    }
    find_special_tail(buf, pos, high)
}

/// A bit for each quote, backslash and control character, and one for each byte of 0x80 or more.
#[cfg(target_arch = "x86_64")]
#[inline]
fn find_in_block(block: &[u8; 16]) -> (u32, u32) {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: sixteen bytes are there, the load needs no alignment, and SSE2 is part of x86-64.
    unsafe {
        let chunk = _mm_loadu_si128(block.as_ptr().cast());
        let quote = _mm_cmpeq_epi8(chunk, _mm_set1_epi8(b'"'.cast_signed()));
        let slash = _mm_cmpeq_epi8(chunk, _mm_set1_epi8(b'\\'.cast_signed()));
        let control = _mm_cmpeq_epi8(_mm_min_epu8(chunk, _mm_set1_epi8(0x1f)), chunk);
        let any = _mm_or_si128(_mm_or_si128(quote, slash), control);
        (_mm_movemask_epi8(any).cast_unsigned(), _mm_movemask_epi8(chunk).cast_unsigned())
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn find_special(buf: &[u8], mut pos: usize, high: &mut bool) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES << 7;
    // Eight bytes at a time; the tests for zero bytes may see too much after a hit, never too little before one.
    let zero = |x: u64| x.wrapping_sub(ONES) & !x & TOPS;
    while let Some(chunk) = buf.get(pos..pos + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let slash = zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word & TOPS;
        if quote | slash | control != 0 {
            break;
        }
        *high |= word & TOPS != 0;
        pos += 8;
    }
    find_special_tail(buf, pos, high)
}

fn find_special_tail(buf: &[u8], mut pos: usize, high: &mut bool) -> usize {
    while let Some(&b) = buf.get(pos) {
        if b < 0x20 || b == b'"' || b == b'\\' {
            return pos;
        }
        *high |= b >= 0x80;
        pos += 1;
    }
    pos
}

#[cfg(test)]
mod tests;
