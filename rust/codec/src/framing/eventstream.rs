//! AWS event streams: binary messages with a length, typed headers and two checksums.
//!
//! 1. A message is `total length, headers length, CRC of these eight bytes, headers, payload, CRC of all before it`, numbers
//!    big-endian, checksums CRC-32 as zlib has it.
//! 2. The prelude is judged as soon as its twelve bytes are there: its checksum first, then its lengths. A length that may not
//!    be is refused before a byte of it is waited for, and nothing is reserved for what has not come.
//! 3. Every header is read, of all ten types, also those that nobody asks for. A name that comes twice, a type that does not
//!    exist, text that is not UTF-8 or a value past its end break the message.
//! 4. Messages mostly repeat the headers of the one before: equal bytes are not read again.
//! 5. A message that broke breaks the stream: where the next one starts is not known.
//!
//! What a header or a payload means must not be added here.

use std::ops::Range;

use super::checksum::{Checksum, of_eight};
use super::clear;
use crate::limits::{MAX_EVENTSTREAM_HEADER_BYTES, MAX_EVENTSTREAM_HEADERS, MAX_FRAME};

/// Before the headers: two lengths and their checksum.
pub(super) const PRELUDE: usize = 12;
/// Behind the payload: the checksum of the message.
const TRAILER: usize = 4;

/// A header's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Bool(bool),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Bytes(&'a [u8]),
    String(&'a str),
    /// Milliseconds since 1970.
    Timestamp(i64),
    Uuid([u8; 16]),
}

/// One message. `start` and `end` bound its bytes in the body: messages follow each other without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    headers: &'a [u8],
    fields: &'a [Field],
    pub payload: &'a [u8],
    pub start: u64,
    pub end: u64,
    /// The headers are those of the message before, byte for byte: what was made of those holds here too.
    pub repeats_headers: bool,
}

impl<'a> Message<'a> {
    /// The headers in their order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let mut rest = Reader { rest: self.headers };
        // They were read once when the message was: nothing can be wrong with them now.
        std::iter::from_fn(move || if rest.rest.is_empty() { None } else { rest.header().ok() })
    }

    /// A header that is text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.text_bytes(name)?).ok()
    }

    /// As [`Message::text`], without another look at its letters: what every message is asked for.
    #[inline]
    #[must_use]
    pub fn text_bytes(&self, name: &str) -> Option<&'a [u8]> {
        Some(&self.headers[self.text_at(name)?])
    }

    /// Where among the bytes of the headers a header's text stands: for [`Message::header_bytes`] of this message, and of those
    /// that repeat its headers.
    #[must_use]
    pub fn text_at(&self, name: &str) -> Option<Range<usize>> {
        let field = self.fields.iter().find(|f| self.headers[f.name.clone()] == *name.as_bytes())?;
        field.text.clone()
    }

    /// Bytes of the headers; none where they have no such place.
    #[inline]
    #[must_use]
    pub fn header_bytes(&self, at: Range<usize>) -> &'a [u8] {
        self.headers.get(at).unwrap_or_default()
    }
}

/// Where a header stands among the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: Range<usize>,
    /// Its value, where that is text.
    text: Option<Range<usize>>,
}

/// Why a message could not be read, and where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    pub offset: u64,
    pub what: &'static str,
}

/// Takes messages; `false` ends it: no further message is wanted.
pub trait Each: FnMut(&Message<'_>) -> bool {}

impl<F: FnMut(&Message<'_>) -> bool> Each for F {}

/// The state between two reads.
#[derive(Debug, Default)]
pub struct EventStream {
    checksum: Checksum,
    /// The head of a message that the last read did not end.
    partial: Vec<u8>,
    /// Where the next message starts in the body.
    start: u64,
    /// Length of the message whose head is in `partial`, once its prelude was judged.
    total: Option<usize>,
    /// The headers that were read last, and what stands where in them.
    headers: Vec<u8>,
    fields: Vec<Field>,
}

impl EventStream {
    pub fn feed(&mut self, mut bytes: &[u8], each: &mut impl Each) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let more = if self.partial.is_empty() {
                match self.judged(bytes).map_err(|what| self.broken(what))? {
                    Some(total) if total <= bytes.len() => {
                        let (whole, rest) = bytes.split_at(total);
                        bytes = rest;
                        self.give(whole, each)?
                    }
                    total => {
                        self.total = total;
                        self.partial.extend_from_slice(bytes);
                        return Ok(());
                    }
                }
            } else {
                let wanted = self.total.unwrap_or(PRELUDE) - self.partial.len();
                let (some, rest) = bytes.split_at(wanted.min(bytes.len()));
                self.partial.extend_from_slice(some);
                bytes = rest;
                if self.total.is_none() {
                    self.total = self.judged(&self.partial).map_err(|what| self.broken(what))?;
                }
                if self.total != Some(self.partial.len()) {
                    continue;
                }
                self.total = None;
                let mut whole = std::mem::take(&mut self.partial);
                let more = self.give(&whole, each)?;
                clear(&mut whole);
                self.partial = whole;
                more
            };
            if !more {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether the body, if it ended here, would end inside a message.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        !self.partial.is_empty()
    }

    fn give(&mut self, whole: &[u8], each: &mut impl Each) -> Result<bool, Broken> {
        let start = self.start;
        let (before, checksum) = whole.split_at(whole.len() - TRAILER);
        // Its prelude was judged.
        let (headers, payload) = before[PRELUDE..].split_at(number(whole, 4) as usize);
        let repeats_headers = self.headers == headers;
        let sum = if repeats_headers {
            self.checksum.of_repeated(before, before.len() - payload.len())
        } else {
            Checksum::of(before)
        };
        if sum != number(checksum, 0) {
            return Err(self.broken("the checksum of a message is wrong"));
        }
        if !repeats_headers {
            self.learn(headers)?;
        }
        self.start += whole.len() as u64;
        let fields = &self.fields;
        Ok(each(&Message { headers, fields, payload, start, end: self.start, repeats_headers }))
    }

    #[cold]
    fn learn(&mut self, headers: &[u8]) -> Result<(), Broken> {
        self.checksum.forget();
        clear(&mut self.headers);
        self.fields = fields(headers).map_err(|what| self.broken(what))?;
        self.headers.extend_from_slice(headers);
        Ok(())
    }

    /// The total length of the message that begins so; `None` while its prelude is not complete.
    #[inline]
    fn judged(&self, head: &[u8]) -> Result<Option<usize>, &'static str> {
        match head.first_chunk() {
            Some(prelude) if self.checksum.knows(prelude) => Ok(Some(number(prelude, 0) as usize)),
            Some(prelude) => judged(prelude).map(Some),
            None => Ok(None),
        }
    }

    fn broken(&self, what: &'static str) -> Broken {
        Broken { offset: self.start, what }
    }
}

/// The total length of the message that has this prelude.
fn judged(prelude: &[u8; PRELUDE]) -> Result<usize, &'static str> {
    let mut lengths = [0; 8];
    lengths.copy_from_slice(&prelude[..8]);
    let (total, headers, checksum) = (number(prelude, 0), number(prelude, 4), number(prelude, 8));
    if of_eight(lengths) != checksum {
        return Err("the checksum of a message's prelude is wrong");
    }
    let (total, headers) = (total as usize, headers as usize);
    if total > MAX_FRAME {
        return Err("a message is longer than may be");
    }
    if headers > MAX_EVENTSTREAM_HEADER_BYTES {
        return Err("the headers of a message are longer than may be");
    }
    if total < PRELUDE + TRAILER + headers {
        return Err("a message is shorter than its headers");
    }
    Ok(total)
}

/// Reads all headers, of whatever type.
fn fields(headers: &[u8]) -> Result<Vec<Field>, &'static str> {
    let (mut reader, mut fields) = (Reader { rest: headers }, Vec::<Field>::new());
    let at = |rest: &[u8]| headers.len() - rest.len();
    while !reader.rest.is_empty() {
        let from = at(reader.rest) + 1;
        let (name, value) = reader.header()?;
        let end = at(reader.rest);
        if fields.iter().any(|known| headers[known.name.clone()] == *name.as_bytes()) {
            return Err("a header of a message comes twice");
        }
        if fields.len() == MAX_EVENTSTREAM_HEADERS {
            return Err("a message has more headers than may be");
        }
        let text = match value {
            Value::String(text) => Some(end - text.len()..end),
            _ => None,
        };
        fields.push(Field { name: from..from + name.len(), text });
    }
    Ok(fields)
}

/// Four bytes of a slice that has them.
fn number(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(four)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn header(&mut self) -> Result<(&'a str, Value<'a>), &'static str> {
        let [length] = self.array()?;
        if length == 0 {
            return Err("a header of a message has no name");
        }
        let name = self.text(usize::from(length))?;
        let [kind] = self.array()?;
        let value = match kind {
            0 => Value::Bool(true),
            1 => Value::Bool(false),
            2 => Value::Byte(i8::from_be_bytes(self.array()?)),
            3 => Value::Short(i16::from_be_bytes(self.array()?)),
            4 => Value::Int(i32::from_be_bytes(self.array()?)),
            5 => Value::Long(i64::from_be_bytes(self.array()?)),
            6 => {
                let length = u16::from_be_bytes(self.array()?);
                Value::Bytes(self.take(usize::from(length))?)
            }
            7 => {
                let length = u16::from_be_bytes(self.array()?);
                Value::String(self.text(usize::from(length))?)
            }
            8 => Value::Timestamp(i64::from_be_bytes(self.array()?)),
            9 => Value::Uuid(self.array()?),
            _ => return Err("a header of a message has a type that does not exist"),
        };
        Ok((name, value))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (some, rest) = self.rest.split_at_checked(count).ok_or("a header of a message is cut off")?;
        self.rest = rest;
        Ok(some)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (some, rest) = self.rest.split_first_chunk::<N>().ok_or("a header of a message is cut off")?;
        self.rest = rest;
        Ok(*some)
    }

    fn text(&mut self, count: usize) -> Result<&'a str, &'static str> {
        std::str::from_utf8(self.take(count)?).map_err(|_| "a header of a message is not UTF-8")
    }
}
