//! Connections: opened, secured, kept. What speaks over one stands in a file of its own.
//!
//! `http1`, `http2` and `websocket` speak, `pool` and `links` keep, `proxy` is the way through one.

pub(crate) mod coded;
mod dial;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod links;
pub(crate) mod pool;
pub mod proxy;
pub(crate) mod resting;
pub(crate) mod secured;
pub mod tls;
pub mod websocket;

use std::future::Future;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use headrace_http1::BodyDecoder;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::failure::Cause;
use crate::scratch::Scratch;
use crate::spec::Endpoint;
use http1::{Answer, Exchange};
use http2::{Draining, H2Exchange};
use secured::Secured;
use websocket::WsExchange;

/// One connection.
pub(crate) enum Io {
    Plain(TcpStream),
    Tls(Box<Secured>),
}

impl Io {
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(tcp) => {
                let mut buf = ReadBuf::new(buf);
                Pin::new(tcp).poll_read(cx, &mut buf).map_ok(|()| buf.filled().len())
            }
            Self::Tls(tls) => tls.poll_read(cx, buf),
        }
    }

    /// Read what is there now, past the reactor: it may not have turned since the bytes came. Under TLS the
    /// reactor's word stands.
    pub(crate) fn read_now(&mut self, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(tcp) => match (&*SockRef::from(&*tcp)).read(buf) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                read => Poll::Ready(read),
            },
            Self::Tls(tls) => tls.poll_read(&mut Context::from_waker(Waker::noop()), buf),
        }
    }

    /// Whether an idle connection is open and silent, by the operating system's word.
    pub(crate) fn is_silent(&mut self) -> bool {
        let tcp = match self {
            Self::Plain(tcp) => &*tcp,
            Self::Tls(_) => {
                // Something that only TLS itself has to hear may be waiting: a new session ticket.
                if self.read_now(&mut [0; 1]).is_ready() {
                    return false;
                }
                let Self::Tls(tls) = self else { return false };
                tls.tcp()
            }
        };
        let peeked = SockRef::from(tcp).peek(&mut [MaybeUninit::uninit()]);
        peeked.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Self::Tls(tls) => tls.poll_write(cx, bufs),
        }
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => tls.poll_flush(cx),
        }
    }
}

/// What speaks over a connection for one attempt.
pub(crate) enum Carrier {
    Http(Exchange),
    Http2(Box<H2Exchange>),
    WebSocket(Box<WsExchange>),
}

/// What a connection is good for after an answer.
pub(crate) enum Reusable {
    Http(Io, Option<BodyDecoder>),
    /// What is left of a stream; its connection is kept anyway.
    Stream(Draining),
    /// Opened at this tick.
    WebSocket(Io, u64),
}

impl Carrier {
    pub(crate) fn sent(&self) -> u64 {
        match self {
            Self::Http(http) => http.sent,
            Self::Http2(http) => http.sent,
            Self::WebSocket(ws) => ws.sent(),
        }
    }

    pub(crate) fn received(&self) -> u64 {
        match self {
            Self::Http(http) => http.received,
            Self::Http2(http) => http.received,
            Self::WebSocket(ws) => ws.received(),
        }
    }

    pub(crate) fn is_sent(&self) -> bool {
        match self {
            Self::Http(http) => http.is_sent(),
            Self::Http2(http) => http.is_sent(),
            Self::WebSocket(ws) => ws.is_sent(),
        }
    }

    /// Of an open WebSocket: 0 between two messages, else 1 and the bytes of the one that has begun to come.
    pub(crate) fn within(&self) -> Option<u64> {
        match self {
            Self::Http(_) | Self::Http2(_) => None,
            Self::WebSocket(ws) => ws.within(),
        }
    }

    /// Asks an open WebSocket's peer for a sign of life. Goes out with the next poll.
    pub(crate) fn ping(&mut self) {
        if let Self::WebSocket(ws) = self {
            ws.ping();
        }
    }

    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match self {
            Self::Http(http) => http.poll_send(cx),
            Self::Http2(http) => http.poll_send(cx),
            Self::WebSocket(ws) => ws.poll_send(cx),
        }
    }

    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Cause>> {
        match self {
            Self::Http(http) => http.poll_head(cx),
            Self::Http2(http) => http.poll_head(cx),
            Self::WebSocket(ws) => ws.poll_head(cx),
        }
    }

    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut Scratch,
        max: usize,
    ) -> Poll<Result<bool, Cause>> {
        match self {
            Self::Http(http) => http.poll_body(cx, scratch, max),
            Self::Http2(http) => http.poll_body(cx, scratch, max),
            Self::WebSocket(ws) => ws.poll_body(cx, scratch, max),
        }
    }

    pub(crate) fn into_reusable(self) -> Option<Reusable> {
        match self {
            Self::Http(http) => http.into_reusable().map(|(io, rest)| Reusable::Http(io, rest)),
            Self::Http2(http) => http.into_draining().map(Reusable::Stream),
            Self::WebSocket(ws) => ws.into_reusable().map(|(io, opened)| Reusable::WebSocket(io, opened)),
        }
    }
}

pub(crate) type Opening = Pin<Box<dyn Future<Output = Result<TcpStream, Cause>> + Send>>;

/// Open a TCP connection to an endpoint, or to the proxy before it.
pub(crate) fn open(endpoint: &Endpoint) -> Opening {
    let (host, port) = match &endpoint.proxy {
        Some(proxy) => (proxy.host.clone(), proxy.port),
        None => (endpoint.host.clone(), endpoint.port),
    };
    Box::pin(async move {
        let addresses = tokio::net::lookup_host((host.as_str(), port)).await.map_err(|e| Cause::Dns(e.kind()))?;
        let tcp = dial::dial(addresses.collect()).await?;
        // Without it a request in two segments waits for an acknowledgement.
        tcp.set_nodelay(true).map_err(|e| Cause::Connect(e.kind()))?;
        Ok(tcp)
    })
}
