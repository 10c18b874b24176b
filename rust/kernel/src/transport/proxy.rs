//! The way to a provider through an HTTP proxy.
//!
//! 1. For https and WebSocket connections it opens a tunnel (`CONNECT`) and sees nothing more. Plain http it passes on:
//!    the request's target is then the whole URL (`http1`).
//! 2. Its credentials go to it alone, and are in no message, no `Debug` and no `Display`.
//! 3. What it refuses is the proxy's failure and not the provider's. Its answer's body is not read.
//! 4. Bytes behind the head of its answer are nobody's: a server at the other end of a tunnel waits to be spoken to.
//!
//! Never add: finding a proxy (environment, scripts), a second attempt.

use std::fmt;
use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headrace_http1::{HeadError, HeadScanner, ResponseHead};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Opening;
use crate::failure::Cause;
use crate::limits;
use crate::spec::{self, Endpoint};

/// 407 Proxy Authentication Required, which no provider answers.
pub(crate) const CREDENTIALS_WANTED: u16 = 407;

/// A proxy. `Debug` and `Display` leave its credentials out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Proxy {
    /// A name or an address in lower case, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of `proxy-authorization`.
    authorization: Option<String>,
}

/// Why a text is no proxy's address. The message quotes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyError {
    Scheme,
    Host,
    Port,
    Path,
    Credentials,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "the proxy's address is not http://...",
            Self::Host => "the proxy's host is missing or malformed",
            Self::Port => "the proxy's port is missing or not in 1..=65535",
            Self::Path => "the proxy's address has a path",
            Self::Credentials => "the proxy's credentials are not USER:PASSWORD, percent-encoded",
        })
    }
}

impl std::error::Error for ProxyError {}

/// What a proxy did instead of leading on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyFault {
    /// It answered with this status: 407 wants (other) credentials, 403 has a rule against it, 5xx cannot.
    Status(u16),
    /// It closed the connection.
    Closed,
    Broken(io::ErrorKind),
    Head(HeadError),
    /// It said more than its answer.
    Ahead,
}

impl fmt::Display for ProxyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(CREDENTIALS_WANTED) => f.write_str("the proxy wants credentials, or others (status 407)"),
            Self::Status(status) => write!(f, "the proxy does not lead to the provider (status {status})"),
            Self::Closed => f.write_str("the proxy closed the connection"),
            Self::Broken(e) => write!(f, "the connection to the proxy broke: {e}"),
            Self::Head(e) => write!(f, "the proxy's answer is malformed: {e}"),
            Self::Ahead => f.write_str("the proxy's answer is followed by bytes that nobody asked for"),
        }
    }
}

impl Proxy {
    /// Take apart `http://[USER:PASSWORD@]HOST:PORT`.
    pub fn parse(url: &str) -> Result<Self, ProxyError> {
        let rest = url.strip_prefix("http://").ok_or(ProxyError::Scheme)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, authority) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        if authority.contains(['/', '?', '#']) {
            return Err(ProxyError::Path);
        }
        let (host, port) = spec::split_authority(authority).map_err(|_| ProxyError::Host)?;
        let port = port.filter(|text| text.bytes().all(|b| b.is_ascii_digit())).and_then(|text| text.parse().ok());
        let port = port.filter(|&port: &u16| port != 0).ok_or(ProxyError::Port)?;
        let authorization = user.map(basic).transpose()?;
        Ok(Self { host: host.to_ascii_lowercase(), port, authorization })
    }

    pub(crate) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}

/// Basic authentication of percent-encoded `USER:PASSWORD`.
fn basic(user: &str) -> Result<String, ProxyError> {
    let (name, password) = user.split_once(':').ok_or(ProxyError::Credentials)?;
    let mut plain = decoded(name)?;
    if plain.contains(&b':') {
        return Err(ProxyError::Credentials);
    }
    plain.push(b':');
    plain.extend(decoded(password)?);
    Ok(format!("Basic {}", STANDARD.encode(plain)))
}

fn decoded(text: &str) -> Result<Vec<u8>, ProxyError> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else { return Err(ProxyError::Credentials) };
                (high << 4 | low) as u8
            }
            0x21..=0x7e => byte,
            _ => return Err(ProxyError::Credentials),
        });
    }
    Ok(plain)
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", authority(&self.host, self.port))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Ask the proxy at the other end of `tcp` for a tunnel to `endpoint`. If cancelled: the connection is closed.
pub(crate) fn tunnel(mut tcp: TcpStream, proxy: Arc<Proxy>, endpoint: &Endpoint) -> Opening {
    let target = authority(&endpoint.host, endpoint.port);
    Box::pin(async move {
        let broken = |e: io::Error| Cause::Proxy(ProxyFault::Broken(e.kind()));
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n");
        if let Some(authorization) = proxy.authorization() {
            head.extend(["proxy-authorization: ", authorization, "\r\n"]);
        }
        head.push_str("\r\n");
        tcp.write_all(head.as_bytes()).await.map_err(broken)?;
        led_on(&mut tcp).await.map_err(Cause::Proxy)?;
        Ok(tcp)
    })
}

/// Read the proxy's answer, interim ones passed over.
async fn led_on(tcp: &mut TcpStream) -> Result<(), ProxyFault> {
    let (mut said, mut scanner, mut interim) = (Vec::with_capacity(512), HeadScanner::default(), 0);
    loop {
        while let Some(len) = scanner.scan(&said, limits::TUNNEL_HEAD).map_err(ProxyFault::Head)? {
            // Whatever its head says of a body: after CONNECT there is none, as with HEAD.
            let status = ResponseHead::parse(&said[..len], "HEAD").map_err(ProxyFault::Head)?.status;
            match status {
                200..=299 if said.len() > len => return Err(ProxyFault::Ahead),
                200..=299 => return Ok(()),
                100 | 102..=199 if interim < limits::MAX_INTERIM => interim += 1,
                _ => return Err(ProxyFault::Status(status)),
            }
            said.drain(..len);
            scanner = HeadScanner::default();
        }
        match tcp.read_buf(&mut said).await {
            Ok(0) => return Err(ProxyFault::Closed),
            Ok(_) => {}
            Err(e) => return Err(ProxyFault::Broken(e.kind())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let proxy = Proxy::parse("http://Proxy.example:3128/").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port, proxy.authorization()), ("proxy.example", 3128, None));
        let proxy = Proxy::parse("http://me:p%40ss%3aw%25@[::1]:8080").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("::1", 8080));
        assert_eq!(proxy.authorization().unwrap(), format!("Basic {}", STANDARD.encode("me:p@ss:w%")));
        assert_eq!(format!("{proxy} {proxy:?}"), "http://[::1]:8080 http://[::1]:8080");
        assert_ne!(Proxy::parse("http://a:b@c:1"), Proxy::parse("http://a:d@c:1"), "another's tunnel is not ours");
    }

    #[test]
    fn other_addresses_are_refused() {
        use ProxyError::{Credentials, Host, Path, Port, Scheme};
        for (url, error) in [
            ("https://a:1", Scheme),
            ("socks5://a:1", Scheme),
            ("a:1", Scheme),
            ("http://a", Port),
            ("http://a:0", Port),
            ("http://a:x", Port),
            ("http://:1", Host),
            ("http://a b:1", Host),
            ("http://a:1/x", Path),
            ("http://a:1?x", Path),
            ("http://u@a:1", Credentials),
            ("http://u:%4@a:1", Credentials),
            ("http://u:%zz@a:1", Credentials),
            ("http://u%3a:p@a:1", Credentials),
            ("http://u:p\r\nx: y@a:1", Credentials),
        ] {
            assert_eq!(Proxy::parse(url), Err(error), "{url:?}");
        }
    }
}
