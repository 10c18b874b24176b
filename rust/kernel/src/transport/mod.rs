//! Connections: opened, secured, kept. What speaks over one stands in a file of its own.
//!
//! `http1` is here; HTTP/2 and WebSocket will stand beside it, a proxy within [`open`].

pub(crate) mod http1;
pub(crate) mod pool;
pub mod tls;

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::failure::Cause;
use crate::spec::Endpoint;

/// One connection.
pub(crate) enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Io {
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        let polled = match self {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, &mut buf),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, &mut buf),
        };
        polled.map_ok(|()| buf.filled().len())
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }
}

pub(crate) type Opening = Pin<Box<dyn Future<Output = Result<TcpStream, Cause>> + Send>>;

/// Open a TCP connection. Addresses are tried one after the other.
pub(crate) fn open(endpoint: &Endpoint) -> Opening {
    let (host, port) = (endpoint.host.clone(), endpoint.port);
    Box::pin(async move {
        let addresses = tokio::net::lookup_host((host.as_str(), port)).await.map_err(|e| Cause::Dns(e.kind()))?;
        let mut last = Cause::Dns(io::ErrorKind::NotFound);
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(tcp) => {
                    // Without it a request in two segments waits for an acknowledgement.
                    tcp.set_nodelay(true).map_err(|e| Cause::Connect(e.kind()))?;
                    return Ok(tcp);
                }
                Err(e) => last = Cause::Connect(e.kind()),
            }
        }
        Err(last)
    })
}
