//! A connection under TLS: records in and out, by rustls' interface without buffers of its own.
//!
//! 1. Records are read into a buffer of the thread, as many as make what was asked for, and opened there. What stays with
//!    the connection is the part of a record that has not come whole, and nothing while there is none.
//! 2. What is written is sealed at once and counts as sent; [`Secured::poll_flush`] says when the socket has taken it.
//! 3. An end without the peer's farewell is an error: anyone may have cut it.
//!
//! No record format and no cipher may be added here: those are rustls'.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ClientConfig;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::limits;

thread_local! {
    /// Where records are opened, and where what is to be sealed is gathered: borrowed within one poll only.
    static WIRE: RefCell<Box<[u8]>> = RefCell::new(vec![0; limits::TLS_WIRE].into_boxed_slice());
}

pub(crate) struct Secured {
    tcp: TcpStream,
    session: UnbufferedClientConnection,
    /// Records that have not come whole.
    partial: Vec<u8>,
    /// What a record held beyond what was asked for.
    opened: Vec<u8>,
    /// What is sealed, and how much of it the socket took.
    sealed: Vec<u8>,
    sent: usize,
    /// The peer has said farewell.
    ended: bool,
}

/// Opened records: into `buf`, and what it cannot hold into `beyond`.
struct Opened<'a> {
    buf: &'a mut [u8],
    filled: usize,
    beyond: &'a mut Vec<u8>,
}

impl Opened<'_> {
    fn take(&mut self, payload: &[u8]) {
        let (now, later) = payload.split_at(payload.len().min(self.buf.len() - self.filled));
        self.buf[self.filled..][..now.len()].copy_from_slice(now);
        self.filled += now.len();
        self.beyond.extend_from_slice(later);
    }
}

impl Secured {
    /// Nothing is sent before the first poll.
    pub(crate) fn new(config: &Arc<ClientConfig>, name: ServerName<'static>, tcp: TcpStream) -> io::Result<Self> {
        let session = UnbufferedClientConnection::new(Arc::clone(config), name).map_err(invalid)?;
        let (partial, opened, sealed) = (Vec::new(), Vec::new(), Vec::new());
        let mut secured = Self { tcp, session, partial, opened, sealed, sent: 0, ended: false };
        secured.fetch_own()?;
        Ok(secured)
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Whether HTTP/2 was agreed on.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.session.alpn_protocol() == Some(b"h2")
    }

    /// Say nothing more. The peer is told by the connection's end.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_flush(cx))?;
            if !self.session.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_records(cx, &mut []))?;
        }
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        // An answer to the peer's new keys may wait. Whether it can go is told by the next write, not by this read.
        let _ = self.poll_flush(cx);
        loop {
            if !self.opened.is_empty() {
                let n = buf.len().min(self.opened.len());
                buf[..n].copy_from_slice(&self.opened[..n]);
                self.opened.drain(..n);
                if self.opened.is_empty() {
                    self.opened = Vec::new();
                }
                return Poll::Ready(Ok(n));
            }
            if self.ended {
                return Poll::Ready(Ok(0));
            }
            let n = ready!(self.poll_records(cx, buf))?;
            if n > 0 {
                return Poll::Ready(Ok(n));
            }
        }
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let n = WIRE.with_borrow_mut(|wire| {
            let mut n = 0;
            for piece in bufs {
                let part = piece.len().min(limits::SCRATCH - n);
                wire[n..n + part].copy_from_slice(&piece[..part]);
                n += part;
            }
            self.seal(&wire[..n])
        })?;
        if let Poll::Ready(Err(e)) = self.poll_flush(cx) {
            return Poll::Ready(Err(e));
        }
        Poll::Ready(Ok(n))
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.sealed.len() {
            ready!(self.tcp.poll_write_ready(cx))?;
            match self.tcp.try_write(&self.sealed[self.sent..]) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
        self.sealed = Vec::new();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// One read from the socket, and all records in it that are whole. Gives how much of `buf` they filled.
    fn poll_records(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        WIRE.with_borrow_mut(|wire| {
            let have = self.partial.len();
            let most = self.wanted(buf.len()).min(wire.len() - have);
            if most == 0 {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "a TLS message without an end")));
            }
            let mut read = ReadBuf::new(&mut wire[have..have + most]);
            ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut read))?;
            let end = have + read.filled().len();
            if end == have {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            wire[..have].copy_from_slice(&self.partial);
            self.partial = Vec::new();
            let (used, filled) = self.take_records(&mut wire[..end], buf)?;
            self.partial.extend_from_slice(&wire[used..end]);
            // Whatever it has to say; see `poll_read`.
            let _ = self.poll_flush(cx);
            Poll::Ready(Ok(filled))
        })
    }

    /// How much to read: as many records as make `asked` bytes, and at least the rest of one that is begun.
    fn wanted(&self, asked: usize) -> usize {
        let records = asked.div_ceil(limits::TLS_RECORD).max(1);
        let begun = match self.partial[..] {
            [_, _, _, high, low, ..] => limits::TLS_HEADER + usize::from(u16::from_be_bytes([high, low])),
            _ => 0,
        };
        let whole = if asked == 0 { limits::TLS_RECORD } else { asked };
        (whole + records * limits::TLS_OVERHEAD).max(begun).saturating_sub(self.partial.len()).max(1)
    }

    /// Takes the whole records of `wire`. Gives how many bytes of it are done with, and how much of `buf` was filled.
    fn take_records(&mut self, wire: &mut [u8], buf: &mut [u8]) -> io::Result<(usize, usize)> {
        let mut opened = Opened { buf, filled: 0, beyond: &mut self.opened };
        let mut at = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = self.session.process_tls_records(&mut wire[at..]);
            let mut more = true;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(invalid)?;
                        discard += record.discard;
                        opened.take(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.sealed)?,
                // It stands in `sealed`, and goes out from there.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.ended = true,
                // Blocked, ready to write, or closed: no whole record is left.
                Ok(_) => more = false,
                Err(error) => {
                    self.tell_why(&mut wire[at + discard..]);
                    return Err(invalid(error));
                }
            }
            at += discard;
            if !more {
                return Ok((at, opened.filled));
            }
        }
    }

    /// Tells the peer why this ends, if it can be told at once.
    fn tell_why(&mut self, wire: &mut [u8]) {
        if let Ok(ConnectionState::EncodeTlsData(alert)) = self.session.process_tls_records(wire).state
            && encode(alert, &mut self.sealed).is_ok()
        {
            let _ = self.tcp.try_write(&self.sealed[self.sent..]);
        }
    }

    /// Fetches what the session has to say of its own. It may still look at records that it has seen in part.
    fn fetch_own(&mut self) -> io::Result<()> {
        let mut partial = take(&mut self.partial);
        let (used, _) = self.take_records(&mut partial, &mut [])?;
        partial.drain(..used);
        self.partial = partial;
        Ok(())
    }

    /// Seals `data`, of which there is some.
    fn seal(&mut self, data: &[u8]) -> io::Result<usize> {
        let records = data.len().div_ceil(limits::TLS_RECORD).max(1);
        let mut sealed = vec![0; data.len() + records * limits::TLS_OVERHEAD];
        let UnbufferedStatus { discard, state } = self.session.process_tls_records(&mut self.partial);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
            // Whatever came was taken when it was read, so that only an end is left.
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let n = match traffic.encrypt(data, &mut sealed) {
            Err(EncryptError::InsufficientSize(needed)) => {
                sealed.resize(needed.required_size, 0);
                traffic.encrypt(data, &mut sealed).map_err(invalid)?
            }
            encrypted => encrypted.map_err(invalid)?,
        };
        sealed.truncate(n);
        self.partial.drain(..discard);
        // New keys are told under the old ones, so before this; rustls hands that out only after it.
        self.fetch_own()?;
        self.sealed.append(&mut sealed);
        Ok(data.len())
    }
}

fn encode(mut data: EncodeTlsData<'_, ClientConnectionData>, out: &mut Vec<u8>) -> io::Result<()> {
    let at = out.len();
    // Nothing fits into nothing: it says how much it needs.
    if let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) {
        out.resize(at + needed.required_size, 0);
        data.encode(&mut out[at..]).map_err(invalid)?;
    }
    Ok(())
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
