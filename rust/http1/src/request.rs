//! A request's head, as a server reads it.

use crate::body::BodyKind;
use crate::error::HeadError;
use crate::head::{self, Framing, HeadScanner, Headers, Version};
use crate::limits;

/// A request's head. Borrows from the bytes it was parsed from.
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    pub method: &'a str,
    /// The path, from its slash on, without the query. Percent signs are left as they came.
    pub path: &'a str,
    /// What follows the first `?`.
    pub query: Option<&'a str>,
    /// The `host` header, or the authority of an absolute target (they must agree). Empty in an
    /// HTTP/1.0 request that has neither.
    pub host: &'a str,
    pub version: Version,
    pub headers: Headers<'a>,
    /// How the body is framed: never until the close.
    pub body: BodyKind,
    /// The client may send another request on this connection. Never for HTTP/1.0.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

impl<'a> RequestHead<'a> {
    /// Parse one whole head: exactly the bytes that [`HeadScanner::scan`] measured.
    pub fn parse(head: &'a [u8]) -> Result<Self, HeadError> {
        let mut table = [httparse::EMPTY_HEADER; limits::MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut table);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(n)) if n == head.len() => {}
            Ok(_) => return Err(HeadError::StartLine),
            Err(error) => return Err(head::from_httparse(error, head)),
        }
        let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(HeadError::StartLine);
        };
        let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
        let headers = Headers::from_parsed(parsed.headers)?;
        let (authority, path, query) = split_target(target)?;
        let host = read_host(&headers, authority, version)?;
        let body = Option::from(Framing::read(&headers, version)?).unwrap_or(BodyKind::None);
        Ok(Self {
            method,
            path,
            query,
            host,
            version,
            keep_alive: version == Version::Http11 && head::keeps_alive(&headers, version),
            expects_continue: version == Version::Http11 && read_expectation(&headers)? && body != BodyKind::None,
            headers,
            body,
        })
    }

    /// Scan and parse in one go, for callers that keep no scanner: `None` while the head is not whole.
    pub fn read(buf: &'a [u8], limit: usize) -> Result<Option<(Self, usize)>, HeadError> {
        let Some(end) = HeadScanner::default().scan(buf, limit)? else { return Ok(None) };
        Ok(Some((Self::parse(&buf[..end])?, end)))
    }
}

type SplitTarget<'a> = (Option<&'a str>, &'a str, Option<&'a str>);

fn split_target(target: &str) -> Result<SplitTarget<'_>, HeadError> {
    if target.len() > limits::MAX_TARGET {
        return Err(HeadError::TargetTooLong);
    }
    if !is_target(target) {
        return Err(HeadError::Target);
    }
    if target.starts_with('/') {
        let (path, query) = split_query(target);
        return Ok((None, path, query));
    }
    // Absolute form. `CONNECT host:port` and `OPTIONS *` have no meaning here.
    let (scheme, rest) = target.split_once("://").ok_or(HeadError::Target)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(HeadError::Target);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if !head::is_authority(authority.as_bytes()) {
        return Err(HeadError::Target);
    }
    let (path, query) = split_query(tail);
    Ok((Some(authority), if path.is_empty() { "/" } else { path }, query))
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}

/// Visible ASCII without a fragment.
#[must_use]
pub fn is_target(target: &str) -> bool {
    !target.is_empty() && target.bytes().all(|b| b.is_ascii_graphic() && b != b'#')
}

fn read_host<'a>(headers: &Headers<'a>, authority: Option<&'a str>, version: Version) -> Result<&'a str, HeadError> {
    let mut hosts = headers.all("host");
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(HeadError::Host);
    }
    let Some(host) = host else {
        return match version {
            Version::Http10 => Ok(authority.unwrap_or("")),
            Version::Http11 => Err(HeadError::Host),
        };
    };
    if !head::is_authority(host) || authority.is_some_and(|a| !a.as_bytes().eq_ignore_ascii_case(host)) {
        return Err(HeadError::Host);
    }
    std::str::from_utf8(host).map_err(|_| HeadError::Host)
}

fn read_expectation(headers: &Headers<'_>) -> Result<bool, HeadError> {
    let mut any = false;
    for value in headers.all("expect") {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(HeadError::Expectation);
        }
        any = true;
    }
    Ok(any)
}
