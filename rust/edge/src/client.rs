//! The client's socket: what it sent ahead, what it has not taken yet.
//!
//! 1. Nothing is held while a client takes what it is given: a write goes out at once, and only what the kernel
//!    refuses is kept. Whoever writes more must wait until that is gone ([`ClientSocket::is_clear`]).
//! 2. A client that closes its sending half is gone: the upstream of its answer is closed at once.
//! 3. An idle connection holds no buffer.
//!
//! Nothing that knows a protocol above HTTP may be added here.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use headrace_http1::write::{CHUNK_END, LAST_CHUNK};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; limits::SCRATCH].into_boxed_slice());
}

/// Lends the thread's scratch for as long as `f` runs, which neither waits nor lends it again.
pub(crate) fn with_scratch<R>(f: impl FnOnce(&mut [u8]) -> R) -> R {
    SCRATCH.with_borrow_mut(|scratch| f(scratch))
}

/// The client left, or its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// How the body of the answer under way is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Chunked,
    /// By a length that the head tells, or by the connection's end.
    Plain,
}

#[derive(Debug)]
pub(crate) struct ClientSocket {
    socket: TcpStream,
    /// What was read and not used yet: the head under way, or requests sent ahead.
    pub(crate) ahead: Vec<u8>,
    unsent: Vec<u8>,
    /// Bytes of `unsent` that went out.
    sent: usize,
    gone: bool,
    total: u64,
    /// The listed origin of the web page whose request is being answered: its browser wants to be told that it may read.
    pub(crate) origin: Option<Box<str>>,
}

impl ClientSocket {
    pub(crate) fn new(socket: TcpStream) -> ClientSocket {
        ClientSocket { socket, ahead: Vec::new(), unsent: Vec::new(), sent: 0, gone: false, total: 0, origin: None }
    }

    /// Whether the client is known to be gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// What a browser wants to read before a page of another origin may see the answer.
    pub(crate) fn cross_origin(&self) -> Vec<(&'static str, String)> {
        let Some(origin) = &self.origin else { return Vec::new() };
        vec![
            ("access-control-allow-origin", origin.to_string()),
            ("access-control-expose-headers", "*".to_owned()),
            ("vary", "origin".to_owned()),
        ]
    }

    /// Bytes that went out over the connection's life.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that were given to it over its life, those included that have not gone out.
    pub(crate) fn staged(&self) -> u64 {
        self.total + (self.unsent.len() - self.sent) as u64
    }

    /// Whether all that was written has gone out.
    pub(crate) fn is_clear(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Bytes that the kernel would take for this client now. A system call, since the event loop thinks that it takes
    /// any number until a write is refused.
    pub(crate) fn room(&self) -> usize {
        // Where this cannot be told, the next write tells it.
        unsent(&self.socket).map_or(limits::READ_FIRST, |unsent| (limits::NOT_SENT as usize).saturating_sub(unsent))
    }

    /// Reads once into `ahead`. `Ok(0)`: the client has closed its sending half.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // By way of the thread's buffer: what waits for a client that says nothing holds no room for what it may say.
        with_scratch(|scratch| {
            let n = ready!(pin!(self.socket.read(&mut scratch[..FILL])).poll(cx))?;
            self.ahead.extend_from_slice(&scratch[..n]);
            Poll::Ready(Ok(n))
        })
    }

    /// Reads once into the spare room of `body`, at most `most` bytes.
    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Vec<u8>,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        pin!(self.socket.read_buf(&mut body.limit(most))).poll(cx)
    }

    /// Reads once into `scratch`.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<usize>> {
        pin!(self.socket.read(scratch)).poll(cx)
    }

    /// Ready once the client is gone. What it sends meanwhile is kept for later, within a bound.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        while !self.gone {
            if self.ahead.len() >= limits::SENT_AHEAD {
                return Poll::Pending;
            }
            match ready!(self.poll_fill(cx)) {
                Ok(0) | Err(_) => self.gone = true,
                Ok(_) => {}
            }
        }
        Poll::Ready(Gone)
    }

    /// Sends out what is unsent. Pending while the client takes no more.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        while !self.is_clear() {
            if self.gone || ready!(self.socket.poll_write_ready(cx)).is_err() {
                self.gone = true;
                return Poll::Ready(Err(Gone));
            }
            let result = self.socket.try_write(&self.unsent[self.sent..]);
            if let Err(gone) = self.wrote(result) {
                return Poll::Ready(Err(gone));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Books a write that started at the front of `unsent`, and returns the bytes that went beyond it.
    fn wrote(&mut self, result: io::Result<usize>) -> Result<usize, Gone> {
        let n = match result {
            Ok(0) => Err(Gone),
            Ok(n) => Ok(n),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(_) => Err(Gone),
        };
        let n = n.inspect_err(|_| self.gone = true)?;
        self.total += n as u64;
        let left = self.unsent.len() - self.sent;
        if n < left {
            self.sent += n;
            // Where several answers share it, it may never be empty: what went out is given back then, too.
            if self.sent >= COMPACT && self.sent >= self.unsent.len() / 2 {
                self.unsent.drain(..self.sent);
                self.sent = 0;
            }
            return Ok(0);
        }
        // A slow client's buffer is given back as soon as it is empty.
        self.unsent = Vec::new();
        self.sent = 0;
        Ok(n - left)
    }

    /// Lets `f` append to what is unsent: heads and whole answers. Goes out with the next write.
    pub(crate) fn stage<R>(&mut self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        f(&mut self.unsent)
    }

    /// Writes `pieces` as one piece of the answer's body, and with `last` ends the body.
    /// What the kernel does not take is kept.
    pub(crate) fn send(&mut self, framing: Framing, pieces: &[&[u8]], last: bool) -> Result<(), Gone> {
        if self.gone {
            return Err(Gone);
        }
        let len: usize = pieces.iter().map(|p| p.len()).sum();
        let mut line = Line::default();
        let mut all = [IoSlice::new(b""); MOST_PIECES];
        if pieces.len() + 3 > MOST_PIECES {
            let joined = pieces.concat();
            return self.send(framing, &[&joined], last);
        }
        let mut n = 0;
        let mut push = |piece| {
            all[n] = IoSlice::new(piece);
            n += 1;
        };
        let chunked = framing == Framing::Chunked;
        if chunked && len > 0 {
            line.set(len);
            push(line.bytes());
        }
        for piece in pieces {
            push(piece);
        }
        match (chunked, len > 0, last) {
            (true, true, true) => push(b"\r\n0\r\n\r\n"),
            (true, true, false) => push(CHUNK_END),
            (true, false, true) => push(LAST_CHUNK),
            _ => {}
        }
        self.write(&all[..n])
    }

    /// As [`ClientSocket::send`] for one piece, of which `chunk` is the same in a chunk's framing.
    pub(crate) fn pass(&mut self, framing: Framing, piece: &[u8], chunk: &[u8]) -> Result<(), Gone> {
        if self.gone || framing != Framing::Chunked {
            return self.send(framing, &[piece], false);
        }
        self.write(&[IoSlice::new(chunk)])
    }

    /// Writes `pieces` as they are. What the kernel does not take is kept.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<(), Gone> {
        let result = if self.is_clear() {
            match pieces {
                [one] => self.socket.try_write(one),
                _ => self.socket.try_write_vectored(pieces),
            }
        } else {
            let mut all = [IoSlice::new(b""); MOST_PIECES + 1];
            all[0] = IoSlice::new(&self.unsent[self.sent..]);
            all[1..=pieces.len()].copy_from_slice(pieces);
            self.socket.try_write_vectored(&all[..=pieces.len()])
        };
        if matches!(result, Ok(0)) && self.is_clear() && pieces.iter().all(|p| p.is_empty()) {
            return Ok(());
        }
        let mut beyond = self.wrote(result)?;
        if self.is_clear() {
            // What a slow client makes us keep has its true size: the buffer is not written to again.
            let all: usize = pieces.iter().map(|p| p.len()).sum();
            self.unsent.reserve_exact(all - beyond);
        }
        for piece in pieces {
            let took = beyond.min(piece.len());
            beyond -= took;
            self.unsent.extend_from_slice(&piece[took..]);
        }
        Ok(())
    }

    /// Throws away the connection so that the client cannot take what it got for a whole answer.
    pub(crate) fn abort(&mut self) {
        self.gone = true;
        self.unsent = Vec::new();
        self.sent = 0;
        // A reset instead of an orderly end. If it cannot be had, the missing last chunk says the same.
        let _ = self.socket.set_zero_linger();
    }

    /// Ends the sending half: what was sent stands, nothing more will come.
    pub(crate) fn shutdown(&self) {
        let socket = socket2::SockRef::from(&self.socket);
        // Already closed by the other side is as good.
        let _ = socket.shutdown(std::net::Shutdown::Write);
    }
}

/// Bytes that were written to a socket and that the kernel has not sent yet.
#[cfg(target_os = "linux")]
fn unsent(socket: &TcpStream) -> Option<usize> {
    use rustix::ioctl::{Getter, Opcode, ioctl};
    const SIOCOUTQNSD: Opcode = 0x894B;
    // SAFETY: of a TCP socket this request asks for one `int`, which is what the getter has room for.
    unsafe { ioctl(socket, Getter::<SIOCOUTQNSD, std::ffi::c_int>::new()) }.ok()?.try_into().ok()
}

#[cfg(not(target_os = "linux"))]
fn unsent(_: &TcpStream) -> Option<usize> {
    None
}

/// A chunk's size line, built on the stack.
#[derive(Default)]
struct Line {
    bytes: [u8; 18],
    from: usize,
}

impl Line {
    fn set(&mut self, mut len: usize) {
        let mut at = self.bytes.len();
        self.bytes[at - 2..].copy_from_slice(b"\r\n");
        at -= 2;
        while len > 0 {
            at -= 1;
            self.bytes[at] = b"0123456789abcdef"[len & 15];
            len >>= 4;
        }
        self.from = at;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

/// One timer of a connection. It is moved only when it must ring earlier, or has rung too early: a
/// deadline that moves with every byte costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready at `at`.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
    }
}

/// One read of a head.
const FILL: usize = 4 << 10;

/// Sent bytes at the front of what is unsent from which on they are given back.
const COMPACT: usize = 64 << 10;

/// Pieces of one write, framing included. A verbatim read has one, seldom four.
const MOST_PIECES: usize = 8;
