//! A WebSocket between two answers.
//!
//! 1. It is looked at with every tick and when it is taken: its peer's pings are answered, since a peer that gets no
//!    answer closes it, and a silent peer is pinged, so that nothing on the way forgets it.
//! 2. Whoever gives no sign in time, says anything else or takes no answer is of no use any more.
//! 3. It is left with a word of farewell.
//!
//! What a message means is not known here.

use std::io::IoSlice;
use std::task::{Context, Poll, Waker};

use headrace_http1::websocket::{self, Message, Opcode, Reader, Role};

use super::Io;
use super::websocket::random;
use crate::limits;

/// After what silence a peer is pinged, and how long it may stay silent then, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    pub(crate) ping: u64,
    pub(crate) pong: u64,
}

pub(crate) struct Resting {
    /// The tick at which it was opened.
    pub(crate) opened: u64,
    reader: Reader,
    out: Vec<u8>,
    heard: u64,
    pinged: Option<u64>,
}

impl Resting {
    pub(crate) fn new(opened: u64, now: u64) -> Resting {
        // No message is expected.
        Resting { opened, reader: Reader::new(Role::Client, 0), out: Vec::new(), heard: now, pinged: None }
    }

    /// Whether it is still alive, by what came until now.
    pub(crate) fn look(&mut self, io: &mut Io, now: u64, signs: Signs) -> bool {
        let mut buf = [0; 512];
        for _ in 0..limits::RESTING_READS {
            match io.read_now(&mut buf) {
                Poll::Pending => return self.tend(io, now, signs),
                Poll::Ready(Ok(n @ 1..)) if self.hear(&buf[..n]) => (self.heard, self.pinged) = (now, None),
                Poll::Ready(_) => return false,
            }
        }
        // It has too much to say for one that rests.
        false
    }

    /// Whether an exchange may begin on it.
    pub(crate) fn is_fit(&self) -> bool {
        self.out.is_empty() && self.reader.is_idle()
    }

    fn tend(&mut self, io: &mut Io, now: u64, signs: Signs) -> bool {
        match self.pinged {
            Some(pinged) if now.saturating_sub(pinged) >= signs.pong => return false,
            None if now.saturating_sub(self.heard) >= signs.ping => {
                websocket::write(&mut self.out, Opcode::Ping, b"", Some(random()));
                self.pinged = Some(now);
            }
            _ => {}
        }
        let mut cx = Context::from_waker(Waker::noop());
        while !self.out.is_empty() {
            match io.poll_write(&mut cx, &[IoSlice::new(&self.out)]) {
                Poll::Ready(Ok(n @ 1..)) => drop(self.out.drain(..n)),
                Poll::Ready(_) => return false,
                Poll::Pending => break,
            }
        }
        !matches!(io.poll_flush(&mut cx), Poll::Ready(Err(_))) && self.out.len() <= limits::RESTING_OUT
    }

    fn hear(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Ok((used, message)) = self.reader.read(bytes) else { return false };
            bytes = &bytes[used..];
            match message {
                None | Some(Message::Pong) => {}
                Some(Message::Ping(payload)) => {
                    websocket::write(&mut self.out, Opcode::Pong, &payload, Some(random()));
                }
                Some(_) => return false,
            }
        }
        true
    }

    /// Says goodbye, if the peer takes it at once.
    pub(crate) fn part(mut self, io: &mut Io) {
        if self.is_fit() {
            websocket::close(&mut self.out, 1000, Some(random()));
            let mut cx = Context::from_waker(Waker::noop());
            // The connection is closed whatever becomes of it.
            let _ = io.poll_write(&mut cx, &[IoSlice::new(&self.out)]);
            let _ = io.poll_flush(&mut cx);
        }
    }
}
