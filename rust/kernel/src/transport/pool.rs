//! Idle connections of one client (one worker thread), by endpoint.
//!
//! 1. The freshest is taken first; one that has anything to read while idle is dead or confused and is dropped.
//! 2. Bounded by count and age. The ticker drops what is too old and what the peer has closed.
//!    A WebSocket has bounds of its own, so that none keeps other connections out.
//! 3. A connection whose answer is complete but whose body has not ended yet drains for two ticks.

use std::collections::HashMap;
use std::task::Poll;

use headrace_http1::BodyDecoder;

use super::Io;
use super::resting::{Resting, Signs};
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
    /// Each one a WebSocket, of all endpoints.
    pub(crate) sessions: usize,
    /// How long an idle one is kept, and any is used, in ticks.
    pub(crate) session_age: u64,
    pub(crate) session_life: u64,
    pub(crate) signs: Signs,
}

struct Kept {
    io: Io,
    since: u64,
    session: Option<Resting>,
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
                return Some(Taken { io: kept.io, opened: kept.session.map(|session| session.opened) });
            }
        }
        None
    }

    /// Keep a connection for the next attempt, or close it if there are too many.
    pub(crate) fn put(&mut self, endpoint: &Endpoint, io: Io, now: u64, draining: Option<BodyDecoder>) {
        let draining = draining.map(|body| (body, 0));
        self.keep(endpoint, Kept { io, since: now, session: None, draining }, now);
    }

    /// Keep a WebSocket that was opened at `opened`, between two messages.
    pub(crate) fn put_session(&mut self, endpoint: &Endpoint, io: Io, now: u64, opened: u64) {
        let resting = self.kept.values().flatten().filter(|kept| kept.session.is_some());
        if resting.count() >= self.limits.sessions {
            self.drop_session();
        }
        self.keep(endpoint, Kept { io, since: now, session: Some(Resting::new(opened, now)), draining: None }, now);
    }

    /// Makes room: the WebSocket that has rested longest goes.
    fn drop_session(&mut self) {
        let sessions = |list: &[Kept]| list.iter().filter(|kept| kept.session.is_some()).map(|kept| kept.since).min();
        let oldest = self.kept.values_mut().filter_map(|list| Some((sessions(list)?, list))).min_by_key(|(at, _)| *at);
        let Some((since, list)) = oldest else { return };
        if let Some(at) = list.iter().position(|kept| kept.session.is_some() && kept.since == since) {
            list.remove(at).part();
            self.total -= 1;
        }
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
            list.remove(0).part();
            self.total -= 1;
        }
        list.push(kept);
        self.total += 1;
    }

    /// Drop what is too old, closed by its peer, or still draining after its time.
    pub(crate) fn sweep(&mut self, now: u64) {
        let limits = &self.limits;
        self.kept.retain(|_, list| {
            for kept in list.extract_if(.., |kept| kept.is_old(now, limits)) {
                kept.part();
            }
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
        if self.is_old(now, limits) {
            return State::Dead;
        }
        if let Some(session) = &mut self.session {
            return match session.look(&mut self.io, now, limits.signs) {
                true if session.is_fit() => State::Idle,
                // In the middle of a ping, or of its answer.
                true => State::Draining,
                false => State::Dead,
            };
        }
        // An idle peer has nothing to say: bytes are an answer that nobody asked for, an end is an end.
        if self.io.is_silent() { State::Idle } else { State::Dead }
    }

    /// Whether it has been idle for too long, or a WebSocket has had its life.
    fn is_old(&self, now: u64, limits: &PoolLimits) -> bool {
        let old = |since: u64, most: u64| now.saturating_sub(since) >= most;
        match &self.session {
            None => self.draining.is_none() && old(self.since, limits.age),
            Some(session) => old(self.since, limits.session_age) || old(session.opened, limits.session_life),
        }
    }

    /// Leaves a WebSocket with a farewell.
    fn part(mut self) {
        if let Some(session) = self.session.take() {
            session.part(&mut self.io);
        }
    }
}
