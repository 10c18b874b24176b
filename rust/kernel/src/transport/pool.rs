//! Idle connections of one client (one worker thread), by endpoint.
//!
//! 1. The freshest is taken first; one that has anything to read while idle is dead or confused and is dropped.
//! 2. Bounded by count and age. The ticker drops what is too old and what the peer has closed.
//! 3. A connection whose answer is complete but whose body has not ended yet drains for two ticks.

use std::collections::HashMap;
use std::task::Poll;

use headrace_http1::BodyDecoder;

use super::Io;
use crate::limits as bounds;
use crate::spec::Endpoint;

/// A connection out of the pool.
pub(crate) struct Taken {
    pub(crate) io: Io,
    /// When a WebSocket was opened, in ticks.
    pub(crate) opened: Option<u64>,
}

pub(crate) struct PoolLimits {
    pub(crate) per_endpoint: usize,
    pub(crate) total: usize,
    /// In ticks.
    pub(crate) age: u64,
    /// How long a WebSocket is used, in ticks.
    pub(crate) session: u64,
}

struct Kept {
    io: Io,
    since: u64,
    opened: Option<u64>,
    /// The rest of a body that must come first.
    draining: Option<(BodyDecoder, usize)>,
}

pub(crate) struct Pool {
    limits: PoolLimits,
    kept: HashMap<Endpoint, Vec<Kept>>,
    total: usize,
}

impl Pool {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Self { limits, kept: HashMap::new(), total: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.total
    }

    /// Take the freshest connection that is alive.
    pub(crate) fn take(&mut self, endpoint: &Endpoint, now: u64) -> Option<Taken> {
        let list = self.kept.get_mut(endpoint)?;
        let mut at = list.len();
        while at > 0 {
            at -= 1;
            let state = list[at].check(now, &self.limits);
            if state == State::Draining {
                continue;
            }
            let kept = list.remove(at);
            self.total -= 1;
            if state == State::Idle {
                return Some(Taken { io: kept.io, opened: kept.opened });
            }
        }
        None
    }

    /// Keep a connection for the next attempt, or close it if there are too many.
    pub(crate) fn put(&mut self, endpoint: &Endpoint, io: Io, now: u64, draining: Option<BodyDecoder>) {
        let draining = draining.map(|body| (body, 0));
        self.keep(endpoint, Kept { io, since: now, opened: None, draining }, now);
    }

    /// Keep a WebSocket that was opened at `opened`, between two messages.
    pub(crate) fn put_session(&mut self, endpoint: &Endpoint, io: Io, now: u64, opened: u64) {
        self.keep(endpoint, Kept { io, since: now, opened: Some(opened), draining: None }, now);
    }

    fn keep(&mut self, endpoint: &Endpoint, mut kept: Kept, now: u64) {
        if self.limits.per_endpoint == 0 || self.total >= self.limits.total {
            return;
        }
        // One that only waits is looked at when it is taken; looking twice costs a system call per request.
        if kept.draining.is_some() && kept.check(now, &self.limits) == State::Dead {
            return;
        }
        if !self.kept.contains_key(endpoint) {
            self.kept.insert(endpoint.clone(), Vec::new());
        }
        let Some(list) = self.kept.get_mut(endpoint) else { return };
        if list.len() >= self.limits.per_endpoint {
            list.remove(0);
            self.total -= 1;
        }
        list.push(kept);
        self.total += 1;
    }

    /// Drop what is too old, closed by its peer, or still draining after its time.
    pub(crate) fn sweep(&mut self, now: u64) {
        let limits = &self.limits;
        self.kept.retain(|_, list| {
            list.retain_mut(|kept| kept.check(now, limits) != State::Dead);
            !list.is_empty()
        });
        self.total = self.kept.values().map(Vec::len).sum();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Draining,
    Dead,
}

impl Kept {
    fn check(&mut self, now: u64, limits: &PoolLimits) -> State {
        let mut buf = [0; 512];
        while let Some((body, drained)) = &mut self.draining {
            if body.is_done() {
                self.draining = None;
                self.since = now;
                break;
            }
            let Poll::Ready(read) = self.io.read_now(&mut buf) else {
                return if now.saturating_sub(self.since) > bounds::DRAIN_TICKS {
                    State::Dead
                } else {
                    State::Draining
                };
            };
            let Ok(n @ 1..) = read else { return State::Dead };
            *drained += n;
            let decoded = body.decode_all(&buf[..n], &mut Vec::new());
            if *drained > bounds::DRAIN_BYTES || !decoded.is_ok_and(|d| d.consumed == n) {
                return State::Dead;
            }
        }
        let old = |since: u64, most: u64| now.saturating_sub(since) >= most;
        if old(self.since, limits.age) || self.opened.is_some_and(|opened| old(opened, limits.session)) {
            return State::Dead;
        }
        // An idle peer has nothing to say: bytes are an answer that nobody asked for, an end is an end.
        if self.io.is_silent() { State::Idle } else { State::Dead }
    }
}
