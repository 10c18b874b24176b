//! How an attempt failed: facts, from which policy decides. No message quotes a header, a query or a body.

use std::fmt;
use std::io;
use std::sync::Arc;

use headrace_codec::ErrorKind;
use headrace_codec::event::ErrorPhase;
use headrace_http1::websocket::WsError;
use headrace_http1::{BodyError, HeadError, WriteError};

use crate::deadlines::Deadline;
use crate::transport::proxy::{Proxy, ProxyFault};

/// An attempt that failed, with what is known of it.
#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: ErrorKind,
    /// [`ErrorPhase::Streaming`] stands for the whole body here; what came before the commit boundary is
    /// known to the owner alone.
    pub phase: ErrorPhase,
    pub cause: Cause,
    /// Bytes handed to the operating system or the TLS layer, head included.
    pub bytes_sent: u64,
    /// Bytes received after TLS, heads and framing included.
    pub bytes_received: u64,
    /// The connection had carried a request before this one, or its peer said that it has not looked at this one.
    pub reused_socket: bool,
    /// The proxy on the way, where it happened before the provider could see the request.
    pub proxy: Option<Arc<Proxy>>,
}

/// What exactly happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The spec cannot be sent.
    Unsendable(WriteError),
    /// The host's name did not resolve.
    Dns(io::ErrorKind),
    Connect(io::ErrorKind),
    /// A proxy did not lead on.
    Proxy(ProxyFault),
    /// The handshake failed, with TLS's own words (certificates and versions, never data).
    Tls(String),
    /// Writing the request failed.
    Write(io::ErrorKind),
    /// Reading failed: a reset, mostly.
    Read(io::ErrorKind),
    /// The connection was closed before a head had come.
    Closed,
    /// The head is not read.
    Head(HeadError),
    /// `101 Switching Protocols`, or interim answers without end.
    Interim(u16),
    Body(BodyError),
    /// The peer of an HTTP/2 connection has not looked at the request: it refused the stream or goes away.
    Unprocessed,
    /// An HTTP/2 stream or its connection ended with this reason.
    Http2(h2::Reason),
    /// A frame of a WebSocket is malformed, or the switch to it.
    WebSocket(WsError),
    /// `101 Switching Protocols` to something that was not asked for.
    Upgrade,
    /// The body is coded in a way that is not read, or is not what it says.
    ContentCoding(&'static str),
    Deadline(Deadline),
    /// A WebSocket stopped within a message, or gave no sign of life when it was pinged.
    Silent,
}

impl Cause {
    /// The kind of failure that this is in `phase` (rule R14 knows statuses; these are what it cannot see).
    #[must_use]
    pub fn kind(&self, phase: ErrorPhase) -> ErrorKind {
        match self {
            Self::Deadline(_) => ErrorKind::Timeout,
            Self::Unsendable(_) => ErrorKind::BadRequest,
            _ if phase == ErrorPhase::Streaming => ErrorKind::StreamInterrupted,
            _ => ErrorKind::Transport,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsendable(e) => write!(f, "the request cannot be sent: {e}"),
            Self::Dns(e) => write!(f, "the host's name does not resolve: {e}"),
            Self::Connect(e) => write!(f, "connecting failed: {e}"),
            Self::Proxy(e) => e.fmt(f),
            Self::Tls(e) => write!(f, "the TLS handshake failed: {e}"),
            Self::Write(e) => write!(f, "sending the request failed: {e}"),
            Self::Read(e) => write!(f, "reading the answer failed: {e}"),
            Self::Closed => f.write_str("the connection was closed before an answer"),
            Self::Head(e) => write!(f, "the answer's head is malformed: {e}"),
            Self::Interim(status) => write!(f, "no final answer after interim status {status}"),
            Self::Body(e) => write!(f, "the answer's body is malformed: {e}"),
            Self::Unprocessed => f.write_str("the connection takes no more requests"),
            Self::Http2(reason) => write!(f, "the HTTP/2 stream was ended: {reason}"),
            Self::WebSocket(e) => write!(f, "the WebSocket is malformed: {e}"),
            Self::Upgrade => f.write_str("the switch to a WebSocket is not what was asked for"),
            Self::ContentCoding(e) => write!(f, "the answer's content coding failed: {e}"),
            Self::Deadline(which) => write!(f, "the {which} deadline passed"),
            Self::Silent => f.write_str("the WebSocket gave no sign of life"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        if self.died_unanswered() {
            f.write_str(" (on a reused connection)")?;
        }
        if let Some(proxy) = &self.proxy {
            write!(f, " (by way of the proxy {proxy})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// A reused connection that brought no byte: the peer may have closed it before it saw the request.
    #[must_use]
    pub fn died_unanswered(&self) -> bool {
        self.reused_socket
            && self.bytes_received == 0
            && matches!(
                self.cause,
                Cause::Closed | Cause::Read(_) | Cause::Write(_) | Cause::Silent | Cause::Unprocessed
            )
    }
}
