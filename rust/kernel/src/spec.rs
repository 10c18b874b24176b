//! What one attempt sends, where to, and by when it must have got what.
//!
//! No value of a header and no byte of a body is ever shown by `Debug`.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headrace_http1::write;

use crate::sign::SigV4;
use crate::transport::proxy::Proxy;

/// One attempt, ready to send. Holds no credential id.
#[derive(Clone)]
pub struct AttemptSpec {
    pub method: String,
    pub url: Url,
    /// In the order in which they are sent. Lengths, codings, `host` and `connection` are the transport's.
    pub headers: Vec<(String, String)>,
    /// The body's pieces, sent as they are, with one `writev` where the socket takes it.
    pub body: Vec<Bytes>,
    pub deadlines: Deadlines,
    /// Over HTTP/2, where an https endpoint speaks it.
    pub http2: bool,
    /// Signs the headers and the body once a connection is there.
    pub signer: Option<Box<SigV4>>,
}

impl fmt::Debug for AttemptSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("AttemptSpec")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &names)
            .field("body_bytes", &self.body_len())
            .field("deadlines", &self.deadlines)
            .field("signer", &self.signer)
            .finish_non_exhaustive()
    }
}

impl AttemptSpec {
    #[must_use]
    pub fn body_len(&self) -> u64 {
        self.body.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// The five deadlines. `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// Name, TCP, a proxy's tunnel and TLS.
    pub connect: Option<Duration>,
    /// From the connection to the answer's head.
    pub first_byte: Option<Duration>,
    /// Silence: no byte at all, while the owner waits for one.
    pub idle: Option<Duration>,
    /// No content, by [`Attempt::content_seen`](crate::Attempt::content_seen), while the owner waits.
    pub content: Option<Duration>,
    /// Everything.
    pub total: Option<Duration>,
}

/// Where connections of one kind go: the pool's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub tls: bool,
    /// A name or an address in lower case, without brackets.
    pub host: String,
    pub port: u16,
    /// A WebSocket's connection is its opener's: a digest of all that it was opened with.
    pub session: Option<[u8; 32]>,
    /// By way of whom. A connection through a proxy serves for nothing else.
    pub proxy: Option<Arc<Proxy>>,
}

/// A URL, checked and taken apart once. `Debug` and `Display` leave the query out: some vendors put keys there.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub endpoint: Endpoint,
    /// What stands in the `host` header.
    pub authority: String,
    /// The path with its query.
    pub target: String,
    /// `ws` or `wss`: the body goes as one message over a WebSocket, and each message of the answer is handed over as
    /// an event of an event stream.
    pub websocket: bool,
}

/// A URL that no attempt is made to. The message quotes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecError {
    Scheme,
    UserInfo,
    Host,
    Port,
    Target,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "the URL is none of http, https, ws and wss",
            Self::UserInfo => "the URL has user information",
            Self::Host => "the URL's host is missing or malformed",
            Self::Port => "the URL's port is not in 1..=65535",
            Self::Target => "the URL's path has a fragment or characters that none may have",
        })
    }
}

impl std::error::Error for SpecError {}

impl Url {
    /// Take apart `http`, `https`, `ws` or `wss` URLs of ASCII (names in their A-label form, paths percent-encoded).
    pub fn parse(url: &str) -> Result<Self, SpecError> {
        let (scheme, rest) = url.split_once("://").ok_or(SpecError::Scheme)?;
        let (tls, websocket) = SCHEMES
            .iter()
            .find_map(|(name, means)| scheme.eq_ignore_ascii_case(name).then_some(*means))
            .ok_or(SpecError::Scheme)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if authority.contains('@') {
            return Err(SpecError::UserInfo);
        }
        let (host, port) = split_authority(authority)?;
        let default = if tls { 443 } else { 80 };
        let port = match port {
            None => default,
            Some(text) if text.bytes().all(|b| b.is_ascii_digit()) => {
                text.parse().ok().filter(|&p: &u16| p != 0).ok_or(SpecError::Port)?
            }
            Some(_) => return Err(SpecError::Port),
        };
        let target = if tail.starts_with('/') { tail.to_owned() } else { format!("/{tail}") };
        if !write::is_target(&target) {
            return Err(SpecError::Target);
        }
        let host = host.to_ascii_lowercase();
        // Room for brackets and a port: this runs for every attempt.
        let mut authority = String::with_capacity(host.len() + 8);
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        authority.extend([open, &host, close]);
        if port != default {
            // A String takes whatever is written to it.
            let _ = write!(authority, ":{port}");
        }
        Ok(Self { endpoint: Endpoint { tls, host, port, session: None, proxy: None }, authority, target, websocket })
    }
}

/// Whether each means TLS, and a WebSocket.
const SCHEMES: [(&str, (bool, bool)); 4] =
    [("http", (false, false)), ("https", (true, false)), ("ws", (false, true)), ("wss", (true, true))];

pub(crate) fn split_authority(authority: &str) -> Result<(&str, Option<&str>), SpecError> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or(SpecError::Host)?;
        let is_v6 = matches!(host.parse(), Ok(IpAddr::V6(_)));
        return match port.strip_prefix(':') {
            _ if !is_v6 => Err(SpecError::Host),
            Some(port) => Ok((host, Some(port))),
            None if port.is_empty() => Ok((host, None)),
            None => Err(SpecError::Host),
        };
    }
    let (host, port) = authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p)));
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if host.is_empty() || host.len() > 253 || !host.bytes().all(plain) {
        return Err(SpecError::Host);
    }
    Ok((host, port))
}

impl Url {
    /// Whether a proxy only leads there: it sees nothing of TLS, and no proxy passes a WebSocket on.
    pub(crate) fn is_tunnelled(&self) -> bool {
        self.endpoint.tls || self.websocket
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.target.split('?').next().unwrap_or("");
        let scheme = match (self.websocket, self.endpoint.tls) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "ws",
            (true, true) => "wss",
        };
        write!(f, "{scheme}://{}{path}", self.authority)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = Url::parse("https://API.example/v1/chat?key=secret").unwrap();
        let host = "api.example".to_owned();
        assert_eq!(url.endpoint, Endpoint { tls: true, host, port: 443, session: None, proxy: None });
        assert_eq!((url.authority.as_str(), url.target.as_str()), ("api.example", "/v1/chat?key=secret"));
        assert_eq!(format!("{url:?}"), "https://api.example/v1/chat");
        let url = Url::parse("http://[::1]:9000").unwrap();
        assert_eq!(
            (url.endpoint.host.as_str(), url.authority.as_str(), url.target.as_str()),
            ("::1", "[::1]:9000", "/")
        );
        assert_eq!(Url::parse("http://a?x=1").unwrap().target, "/?x=1");
        assert_eq!(Url::parse("http://a:80/").unwrap().authority, "a");
        let url = Url::parse("wss://a/v1/responses?x=1").unwrap();
        assert_eq!((url.endpoint.tls, url.endpoint.port, url.websocket), (true, 443, true));
        assert_eq!(url.to_string(), "wss://a/v1/responses");
    }

    #[test]
    fn other_urls_are_refused() {
        use SpecError::{Host, Port, Scheme, Target, UserInfo};
        for (url, error) in [
            ("ftp://a/", Scheme),
            ("a/b", Scheme),
            ("http://u:p@a/", UserInfo),
            ("http:///x", Host),
            ("http://a b/", Host),
            ("http://[::1/", Host),
            ("http://[a]/", Host),
            ("http://ä/", Host),
            ("http://a:/", Port),
            ("http://a:0/", Port),
            ("http://a:65536/", Port),
            ("http://a:+1/", Port),
            ("http://a/#b", Target),
            ("http://a#b", Target),
            ("http://a/b c", Target),
            ("http://a/b\r\nx: y", Target),
        ] {
            assert_eq!(Url::parse(url), Err(error), "{url:?}");
        }
    }

    #[test]
    fn a_spec_shows_no_value_and_no_body() {
        let spec = AttemptSpec {
            method: "POST".into(),
            url: Url::parse("https://a/v1?key=hush").unwrap(),
            headers: vec![("authorization".into(), "Bearer hush".into())],
            body: vec![Bytes::from_static(b"hush")],
            deadlines: Deadlines::default(),
            http2: false,
            signer: None,
        };
        let shown = format!("{spec:?}");
        assert!(shown.contains("authorization") && shown.contains("body_bytes: 4"));
        assert!(!shown.contains("hush"), "{shown}");
    }
}
