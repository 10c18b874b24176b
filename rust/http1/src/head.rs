//! What request and response heads share: where a head ends, its header lines, how its body is framed.
//!
//! 1. A head is parsed once, when it is whole: [`HeadScanner`] says when, and continues where it stopped,
//!    so a sender that drips costs one pass.
//! 2. The scanner alone judges line ends (`httparse` takes a bare LF, we do not).
//! 3. A header that decides framing is read here and nowhere else.

use crate::body::BodyKind;
use crate::error::HeadError;
use crate::limits;

/// The version of a message. Every message that we write says 1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// Finds the end of a head in a buffer that grows. One per head; [`HeadScanner::default`] starts anew.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadScanner {
    /// Bytes that were already looked at and are in order.
    seen: usize,
}

impl HeadScanner {
    /// The length of the head at the front of `buf`, blank line included, once it is whole.
    ///
    /// `buf` starts at the head's first byte every time and only grows. `limit` is the largest head
    /// that is taken, at most [`limits::MAX_HEAD`].
    pub fn scan(&mut self, buf: &[u8], limit: usize) -> Result<Option<usize>, HeadError> {
        let limit = limit.min(limits::MAX_HEAD);
        let window = &buf[..buf.len().min(limit)];
        // The last byte seen may be a CR that waits for its LF.
        let from = self.seen.saturating_sub(1);
        let mut expect_lf = None;
        for at in memchr::memchr2_iter(b'\r', b'\n', &window[from..]).map(|i| i + from) {
            if window[at] == b'\r' {
                if expect_lf == Some(at) || window.get(at + 1).is_some_and(|&b| b != b'\n') {
                    return Err(HeadError::BareLineEnd);
                }
                expect_lf = Some(at + 1);
                continue;
            }
            if at == 0 || window[at - 1] != b'\r' {
                return Err(HeadError::BareLineEnd);
            }
            if at == 1 {
                return Err(HeadError::StartLine);
            }
            if at >= 3 && window[at - 3..at] == *b"\r\n\r" {
                return Ok(Some(at + 1));
            }
        }
        self.seen = window.len();
        if buf.len() >= limit { Err(HeadError::TooLarge) } else { Ok(None) }
    }
}

/// The header lines of a head, in their order, borrowed from it. Names match without regard to case.
#[derive(Clone, Debug, Default)]
pub struct Headers<'a> {
    lines: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Headers<'a> {
    pub(crate) fn from_parsed(parsed: &[httparse::Header<'a>]) -> Result<Self, HeadError> {
        let mut lines = Vec::with_capacity(parsed.len());
        for h in parsed {
            if !is_value(h.value) {
                return Err(HeadError::HeaderValue);
            }
            lines.push((h.name, trim(h.value)));
        }
        Ok(Self { lines })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + '_ {
        self.lines.iter().copied()
    }

    /// The values of `name`, in order.
    pub fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'a [u8]> + 's {
        self.lines.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|&(_, v)| v)
    }

    /// The first value of `name`.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&'a [u8]> {
        self.lines.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|&(_, v)| v)
    }

    /// The first value of `name`, where it is text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.first(name).and_then(|v| std::str::from_utf8(v).ok())
    }

    /// Whether one of the comma-separated items of `name` is `token`.
    #[must_use]
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        self.all(name).any(|v| v.split(|&b| b == b',').any(|item| trim(item).eq_ignore_ascii_case(token.as_bytes())))
    }
}

/// What the framing headers say, before a role's own rules.
pub(crate) enum Framing {
    Nothing,
    Length(u64),
    Chunked,
}

impl Framing {
    pub(crate) fn read(headers: &Headers<'_>, version: Version) -> Result<Self, HeadError> {
        let mut lengths = headers.all("content-length");
        let mut codings = headers.all("transfer-encoding");
        match (lengths.next(), codings.next()) {
            (None, None) => Ok(Self::Nothing),
            (Some(value), None) if lengths.next().is_none() => Ok(Self::Length(read_length(value)?)),
            (Some(_), _) => Err(HeadError::Length),
            // HTTP/1.0 has no chunks: one peer would read them, another the bytes up to the close.
            (None, Some(_)) if version == Version::Http10 => Err(HeadError::Length),
            (None, Some(value)) if value.eq_ignore_ascii_case(b"chunked") && codings.next().is_none() => {
                Ok(Self::Chunked)
            }
            (None, Some(_)) => Err(HeadError::TransferEncoding),
        }
    }
}

impl From<Framing> for Option<BodyKind> {
    fn from(framing: Framing) -> Self {
        match framing {
            Framing::Nothing => None,
            Framing::Length(0) => Some(BodyKind::None),
            Framing::Length(n) => Some(BodyKind::Length(n)),
            Framing::Chunked => Some(BodyKind::Chunked),
        }
    }
}

fn read_length(value: &[u8]) -> Result<u64, HeadError> {
    if value.is_empty() || value.len() > limits::MAX_LENGTH_DIGITS || !value.iter().all(u8::is_ascii_digit) {
        return Err(HeadError::Length);
    }
    // At most 18 digits, so this cannot overflow.
    Ok(value.iter().fold(0, |n, d| n * 10 + u64::from(d - b'0')))
}

/// Whether the connection may carry another message, by version and `connection`.
pub(crate) fn keeps_alive(headers: &Headers<'_>, version: Version) -> bool {
    !headers.has_token("connection", "close")
        && (version == Version::Http11 || headers.has_token("connection", "keep-alive"))
}

pub(crate) fn from_httparse(error: httparse::Error, head: &[u8]) -> HeadError {
    match error {
        httparse::Error::HeaderName if has_folded_line(head) => HeadError::Folded,
        httparse::Error::HeaderName => HeadError::HeaderName,
        httparse::Error::HeaderValue => HeadError::HeaderValue,
        httparse::Error::TooManyHeaders => HeadError::TooManyHeaders,
        // A blank within the target puts the rest of it where the version stands.
        httparse::Error::Version if has_three_words(head) => HeadError::Version,
        httparse::Error::Version | httparse::Error::NewLine | httparse::Error::Status | httparse::Error::Token => {
            HeadError::StartLine
        }
    }
}

fn has_folded_line(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).any(|i| matches!(head.get(i + 1), Some(b' ' | b'\t')))
}

fn has_three_words(head: &[u8]) -> bool {
    let line = &head[..memchr::memchr(b'\r', head).unwrap_or(head.len())];
    memchr::memchr_iter(b' ', line).count() == 2
}

pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
}

/// Visible bytes, blanks and tabs between them, and `obs-text` as opaque bytes.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    bytes.iter().all(|&b| b == b'\t' || (b >= 0x20 && b != 0x7f))
}

/// `host`, `host:port`, `[v6]:port`: what a name can be made of, without user information or a path.
pub(crate) fn is_authority(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~:[]!$&'()*+,;=%".contains(b))
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_in_any_split() {
        let head = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nrest";
        let end = head.len() - 4;
        let mut scanner = HeadScanner::default();
        for n in 0..end {
            assert_eq!(scanner.scan(&head[..n], 100), Ok(None), "{n}");
        }
        assert_eq!(scanner.scan(head, 100), Ok(Some(end)));
        assert_eq!(HeadScanner::default().scan(head, 100), Ok(Some(end)));
    }

    #[test]
    fn refuses_line_ends_that_two_parsers_read_differently() {
        for bad in [&b"GET /\n"[..], b"GET /\rx", b"a\r\r\n", b"a\r\nb\n\n", b"\n"] {
            assert_eq!(HeadScanner::default().scan(bad, 100), Err(HeadError::BareLineEnd), "{bad:?}");
            let mut scanner = HeadScanner::default();
            let split = (1..=bad.len()).find_map(|n| scanner.scan(&bad[..n], 100).err());
            assert_eq!(split, Some(HeadError::BareLineEnd), "{bad:?} byte by byte");
        }
        assert_eq!(HeadScanner::default().scan(b"\r\nGET", 100), Err(HeadError::StartLine));
    }

    #[test]
    fn a_head_over_the_limit_is_refused_even_where_its_end_is_in_sight() {
        let head = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        assert_eq!(HeadScanner::default().scan(head, head.len()), Ok(Some(head.len())));
        assert_eq!(HeadScanner::default().scan(head, head.len() - 1), Err(HeadError::TooLarge));
    }
}
