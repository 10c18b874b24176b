//! What the encoders of all client protocols share: who is served, what was lost, what was counted, and
//! the small writers.

use std::borrow::Cow;

use super::EncoderConfig;
use super::continuation::{slot, wrap_texts};
use super::table::allows;
use crate::event::{ContinuationForm, Protocol, Usage};
use crate::loss::{Loss, LossAction};
use crate::text::{Text, push_json_str};

pub(super) struct Shared {
    pub client: Protocol,
    pub stream: bool,
    pub model: String,
    pub response_id: String,
    /// The tail of `response_id`, from which other ids are made.
    pub stem: String,
    pub created: u64,
    pub include_usage: bool,
    pub provider: Option<String>,
    pub family: Option<Protocol>,
    /// The provider wants readable reasoning back.
    pub echoes: bool,
    pub losses: Losses,
    /// The newest totals.
    pub usage: Option<Counts>,
}

impl Shared {
    pub fn new(config: &EncoderConfig) -> Shared {
        let id = config.response_id.as_str();
        let stem = id.split_once(['_', '-']).map_or(id, |(_, tail)| tail);
        Shared {
            client: config.protocol,
            stream: config.stream,
            model: config.model.clone(),
            response_id: config.response_id.clone(),
            stem: stem.to_owned(),
            created: config.created,
            include_usage: config.include_usage,
            provider: config.provider.clone(),
            family: config.family,
            echoes: config.family.is_some_and(|family| config.target_flags.echoes(family)),
            losses: Losses { client: config.protocol, lost: Vec::new() },
            usage: None,
        }
    }

    /// Whether readable reasoning has to come back with its signature as it was.
    pub fn signs_text(&self) -> bool {
        matches!(self.family, Some(Protocol::AnthropicMessages | Protocol::BedrockConverse | Protocol::BedrockInvoke))
    }

    /// Whether events of this family stand in the client's own words.
    pub fn native(&self) -> bool {
        self.family == Some(self.client)
    }

    /// Readable reasoning that is to come back to its provider, for the opaque slot of a client that gives none back.
    pub fn texts(&self, parts: &[u8]) -> Option<String> {
        let family = self.family.filter(|_| self.echoes && !self.native())?;
        Some(wrap_texts(family, self.provider.as_deref(), parts))
    }

    /// A continuation's data as it goes into the client's opaque slot.
    pub fn slot<'a>(&self, family: Protocol, form: ContinuationForm, data: Text<'a>) -> Cow<'a, str> {
        slot(self.client, family, form, self.provider.as_deref(), data.decode())
    }
}

/// Paths of what did not pass unchanged, each once.
#[derive(Debug)]
pub(super) struct Losses {
    client: Protocol,
    lost: Vec<Loss>,
}

impl Losses {
    pub fn note(&mut self, path: &'static str, action: LossAction) {
        debug_assert!(allows(self.client, path, action), "no row says that {path} may be {}", action.code());
        if !self.lost.iter().any(|loss| loss.path == path && loss.action == action) {
            self.lost.push(Loss { path: path.to_owned(), action });
        }
    }

    pub fn dropped(&mut self, path: &'static str) {
        self.note(path, LossAction::Dropped);
    }

    pub fn approximated(&mut self, path: &'static str) {
        self.note(path, LossAction::Approximated);
    }

    pub fn as_slice(&self) -> &[Loss] {
        &self.lost
    }
}

/// A response's totals, without what they borrow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cached: Option<u64>,
    pub cache_write: Option<u64>,
    pub reasoning: Option<u64>,
}

impl Counts {
    pub fn of(usage: &Usage<'_>) -> Counts {
        Counts {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cached: usage.cached_input_tokens,
            cache_write: usage.cache_write_tokens,
            reasoning: usage.reasoning_tokens,
        }
    }
}

/// A count for a place whose schema demands a number: an unknown one is written as 0, and said in the losses.
pub(super) fn demanded(losses: &mut Losses, count: Option<u64>, path: &'static str) -> u64 {
    count.unwrap_or_else(|| {
        losses.approximated(path);
        0
    })
}

pub(super) fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn put_number(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        // A remainder by ten is one digit.
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `key` (with its quotes and colon) and a string.
pub(super) fn put_str(out: &mut Vec<u8>, key: &str, value: &str) {
    put(out, key);
    push_json_str(value, out);
}

/// Appends `key` (with its quotes and colon) and a number.
pub(super) fn put_count(out: &mut Vec<u8>, key: &str, n: u64) {
    put(out, key);
    put_number(out, n);
}

/// Appends raw JSON from a provider so that it stays on one line: outside of strings JSON may hold line breaks, and a
/// `data:` line may not. Inside of strings it has none.
pub(super) fn put_raw(out: &mut Vec<u8>, raw: &[u8]) {
    if memchr::memchr2(b'\n', b'\r', raw).is_none() && std::str::from_utf8(raw).is_ok() {
        out.extend_from_slice(raw);
        return;
    }
    let text = String::from_utf8_lossy(raw);
    out.extend(text.bytes().map(|b| if b == b'\n' || b == b'\r' { b' ' } else { b }));
}

/// Starts the next item of a list: a comma but for the first.
pub(super) fn comma(out: &mut Vec<u8>, first: bool) {
    if !first {
        out.push(b',');
    }
}

/// As [`comma`], for a list that holds nothing else.
pub(super) fn list_comma(list: &mut Vec<u8>) {
    if !list.is_empty() {
        list.push(b',');
    }
}

/// How many code points a text has.
pub(super) fn code_points(text: Text<'_>) -> u64 {
    match text {
        Text::Plain(s) => s.chars().count() as u64,
        Text::Literal(l) if !l.escaped() && l.ascii() => l.raw.len() as u64,
        Text::Literal(l) if l.ascii() => escaped_code_points(l.raw),
        Text::Literal(l) => match std::str::from_utf8(l.raw) {
            Ok(_) => escaped_code_points(l.raw),
            Err(_) => l.decode().chars().count() as u64,
        },
    }
}

/// Counts without decoding: an escape is one code point, and so is a pair of halves.
fn escaped_code_points(mut raw: &[u8]) -> u64 {
    let plain = |bytes: &[u8]| bytes.iter().filter(|b| **b & 0xC0 != 0x80).count() as u64;
    let mut count = 0;
    while let Some(at) = memchr::memchr(b'\\', raw) {
        let escape = &raw[at..];
        let is_half = |s: &[u8], halves: &[u8]| {
            s.len() >= 6 && s[..2] == *b"\\u" && s[2] | 0x20 == b'd' && halves.contains(&(s[3] | 0x20))
        };
        let used = if escape.get(1) != Some(&b'u') {
            2
        } else if is_half(escape, b"89ab") && escape.get(6..).is_some_and(|s| is_half(s, b"cdef")) {
            12
        } else {
            6
        };
        count += plain(&raw[..at]) + 1;
        raw = &raw[(at + used).min(raw.len())..];
    }
    count + plain(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_json_becomes_one_line() {
        let mut out = Vec::new();
        put_raw(&mut out, b"{\n  \"a\": \"x\\ny\"\r\n}");
        assert_eq!(out, b"{   \"a\": \"x\\ny\"  }");
    }

    #[test]
    fn numbers_are_written_as_they_are() {
        for n in [0, 7, 10, 1234, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, n);
            assert_eq!(String::from_utf8(out).unwrap(), n.to_string());
        }
    }

    #[test]
    fn code_points_are_counted_behind_escapes() {
        use crate::text::Literal;
        let raw = r"a\u00e9\ud83d\ude00é".as_bytes();
        assert_eq!(code_points(Literal::new(raw, true, false).into()), 4);
        assert_eq!(code_points("é😀".into()), 2);
        for raw in [
            "",
            "abc",
            "é😀",
            r#"\n\\\"x"#,
            r"\ud83d",
            r"\ud83dx\ude00",
            r"\uD83D\uDE00\u00E9",
            r"\\ud83d\\ude00",
            r"\udbff\udfff\ud800\udc00",
        ] {
            let literal = Literal::new(raw.as_bytes(), raw.contains('\\'), raw.is_ascii());
            assert_eq!(code_points(literal.into()), literal.decode().chars().count() as u64, "{raw}");
        }
    }
}
