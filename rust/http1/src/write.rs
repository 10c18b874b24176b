//! Heads and chunks, written. What a strict parser would refuse is not written.
//!
//! The framing headers (`host`, `content-length`, `transfer-encoding`, `connection`, …) come from the
//! arguments alone; a list of headers that names one is refused, so that no policy can write two lengths.

use crate::body::BodyKind;
use crate::error::WriteError;
use crate::head::{is_authority, is_token, is_value};
use crate::limits;
pub use crate::request::is_target;

/// The interim answer to `expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What ends a chunk's data.
pub const CHUNK_END: &[u8] = b"\r\n";

/// What ends a chunked body, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The start line and framing of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestStart<'a> {
    pub method: &'a str,
    /// A path with its query; for a proxy that is to pass the request on, `http://` and the host before it.
    pub target: &'a str,
    /// `host` or `host:port`.
    pub host: &'a str,
    /// [`BodyKind::UntilClose`] is no framing of a request and is written as none.
    pub body: BodyKind,
    /// Asks for a WebSocket, with this `sec-websocket-key`.
    pub websocket: Option<&'a str>,
}

/// Append a request's head to `out`. On an error `out` is as it was.
pub fn request<'a, I>(out: &mut Vec<u8>, start: &RequestStart<'_>, headers: I) -> Result<(), WriteError>
where
    I: IntoIterator<Item = (&'a str, &'a [u8])>,
{
    if !is_token(start.method.as_bytes()) {
        return Err(WriteError::Method);
    }
    let absolute = start.target.strip_prefix("http://").and_then(|rest| rest.strip_prefix(start.host));
    if !absolute.unwrap_or(start.target).starts_with('/')
        || !is_target(start.target)
        || start.target.len() > limits::MAX_TARGET
    {
        return Err(WriteError::Target);
    }
    if !is_authority(start.host.as_bytes()) {
        return Err(WriteError::Host);
    }
    let from = out.len();
    for piece in [start.method, " ", start.target, " HTTP/1.1\r\nhost: ", start.host, "\r\n"] {
        out.extend_from_slice(piece.as_bytes());
    }
    match start.body {
        // A POST without a body says so, or some servers wait for one.
        BodyKind::None if !matches!(start.method, "GET" | "HEAD" | "DELETE") => length(out, 0),
        BodyKind::None | BodyKind::UntilClose => {}
        BodyKind::Length(n) => length(out, n),
        BodyKind::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
    }
    let Some(key) = start.websocket else { return finish_head(out, from, 2, headers) };
    if !is_value(key.as_bytes()) {
        out.truncate(from);
        return Err(WriteError::HeaderValue);
    }
    out.extend_from_slice(
        b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ",
    );
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\r\n");
    finish_head(out, from, 6, headers)
}

/// The start line and framing of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseStart {
    pub status: u16,
    pub body: BodyKind,
    /// Whether to say `connection: close`. [`BodyKind::UntilClose`] says it anyway.
    pub close: bool,
}

/// Append a response's head to `out`. On an error `out` is as it was.
pub fn response<'a, I>(out: &mut Vec<u8>, start: ResponseStart, headers: I) -> Result<(), WriteError>
where
    I: IntoIterator<Item = (&'a str, &'a [u8])>,
{
    let bodiless = matches!(start.status, 100..=199 | 204 | 304);
    if !(100..=999).contains(&start.status) || (bodiless && start.body != BodyKind::None) {
        return Err(WriteError::Status);
    }
    let from = out.len();
    out.extend_from_slice(b"HTTP/1.1 ");
    decimal(out, u64::from(start.status));
    out.push(b' ');
    out.extend_from_slice(reason(start.status).as_bytes());
    out.extend_from_slice(b"\r\n");
    match start.body {
        BodyKind::None if bodiless => {}
        BodyKind::None => length(out, 0),
        BodyKind::Length(n) => length(out, n),
        BodyKind::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        BodyKind::UntilClose => {}
    }
    if start.close || start.body == BodyKind::UntilClose {
        out.extend_from_slice(b"connection: close\r\n");
    }
    finish_head(out, from, 2, headers)
}

/// Append the answer that switches to a WebSocket. `accept`: what the request's key asks for.
pub fn switching(out: &mut Vec<u8>, accept: &str) {
    debug_assert!(is_value(accept.as_bytes()), "it is base64");
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ",
    );
    out.extend_from_slice(accept.as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
}

/// Append the size line of a chunk of `len` bytes. An empty chunk would end the body, so `len` is not 0.
pub fn chunk_size(out: &mut Vec<u8>, len: usize) {
    debug_assert!(len > 0, "an empty chunk ends the body");
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4);
    for i in (0..digits).rev() {
        out.push(b"0123456789abcdef"[len >> (4 * i) & 15]);
    }
    out.extend_from_slice(CHUNK_END);
}

/// Append one whole chunk; nothing for empty data.
pub fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        chunk_size(out, data.len());
        out.extend_from_slice(data);
        out.extend_from_slice(CHUNK_END);
    }
}

fn finish_head<'a, I>(out: &mut Vec<u8>, from: usize, written: usize, headers: I) -> Result<(), WriteError>
where
    I: IntoIterator<Item = (&'a str, &'a [u8])>,
{
    let result = push_headers(out, written, headers);
    out.extend_from_slice(b"\r\n");
    let result = result.and(if out.len() - from > limits::MAX_HEAD { Err(WriteError::TooLarge) } else { Ok(()) });
    if result.is_err() {
        out.truncate(from);
    }
    result
}

fn push_headers<'a, I>(out: &mut Vec<u8>, written: usize, headers: I) -> Result<(), WriteError>
where
    I: IntoIterator<Item = (&'a str, &'a [u8])>,
{
    for (i, (name, value)) in headers.into_iter().enumerate() {
        if written + i >= limits::MAX_HEADERS {
            return Err(WriteError::TooManyHeaders);
        }
        if !is_token(name.as_bytes()) {
            return Err(WriteError::HeaderName);
        }
        if is_reserved(name) {
            return Err(WriteError::Reserved);
        }
        if !is_value(value) {
            return Err(WriteError::HeaderValue);
        }
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    Ok(())
}

/// The headers that the writers decide themselves.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|r| r.eq_ignore_ascii_case(name))
}

fn length(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(b"content-length: ");
    decimal(out, n);
    out.extend_from_slice(b"\r\n");
}

fn decimal(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        529 => "Overloaded",
        // The phrase may be empty; its blank may not.
        _ => "",
    }
}

const RESERVED: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
];
