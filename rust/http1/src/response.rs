//! A response's head, as a client reads it.

use crate::body::BodyKind;
use crate::error::HeadError;
use crate::head::{self, Framing, HeadScanner, Headers, Version};
use crate::limits;

/// A response's head. Borrows from the bytes it was parsed from.
#[derive(Clone, Debug)]
pub struct ResponseHead<'a> {
    pub status: u16,
    pub version: Version,
    pub headers: Headers<'a>,
    pub body: BodyKind,
    /// The connection may carry another request once the body is read to its end.
    pub keep_alive: bool,
}

impl<'a> ResponseHead<'a> {
    /// Parse one whole head: exactly the bytes that [`HeadScanner::scan`] measured. `method` is the
    /// request's: an answer to HEAD has no body, whatever its head says.
    pub fn parse(head: &'a [u8], method: &str) -> Result<Self, HeadError> {
        let mut table = [httparse::EMPTY_HEADER; limits::MAX_HEADERS];
        let mut parsed = httparse::Response::new(&mut table);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(n)) if n == head.len() => {}
            Ok(_) => return Err(HeadError::StartLine),
            Err(error) => return Err(head::from_httparse(error, head)),
        }
        let (Some(status), Some(minor)) = (parsed.code, parsed.version) else { return Err(HeadError::StartLine) };
        if !(100..=999).contains(&status) {
            return Err(HeadError::StartLine);
        }
        let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
        let headers = Headers::from_parsed(parsed.headers)?;
        let framing = Framing::read(&headers, version)?;
        let body = match status {
            // Lengths or chunks here are where two parsers part: one reads a body, one the next head.
            100..=199 | 204 => match framing {
                Framing::Nothing | Framing::Length(0) => BodyKind::None,
                Framing::Length(_) | Framing::Chunked => return Err(HeadError::Length),
            },
            304 => BodyKind::None,
            _ if method == "HEAD" => BodyKind::None,
            _ => Option::from(framing).unwrap_or(BodyKind::UntilClose),
        };
        let keep_alive = body != BodyKind::UntilClose && head::keeps_alive(&headers, version);
        Ok(Self { status, version, headers, body, keep_alive })
    }

    /// Scan and parse in one go, for callers that keep no scanner: `None` while the head is not whole.
    pub fn read(buf: &'a [u8], limit: usize, method: &str) -> Result<Option<(Self, usize)>, HeadError> {
        let Some(end) = HeadScanner::default().scan(buf, limit)? else { return Ok(None) };
        Ok(Some((Self::parse(&buf[..end], method)?, end)))
    }

    /// A 1xx: the real head follows.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }
}
