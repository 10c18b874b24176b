//! The five deadlines, by a coarse ticker.
//!
//! 1. A tick is [`limits::TICK`](crate::limits::TICK). The hot path stores the tick's number, one relaxed
//!    store per read; one task per [`Client`](crate::Client) compares and wakes. It ends when nothing is left to watch.
//! 2. A deadline never fires early, and at most two ticks late.
//! 3. Silence counts only while the owner waits for bytes: a slow client is not the provider's silence.
//! 4. An open WebSocket is pinged when it is silent, and given up when it gives no sign then, or stops within a message.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use crate::failure::Cause;
use crate::spec::Deadlines;

/// Which one passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    Connect,
    FirstByte,
    Idle,
    Content,
    Total,
}

const DEADLINES: [Deadline; 5] =
    [Deadline::Connect, Deadline::FirstByte, Deadline::Idle, Deadline::Content, Deadline::Total];

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::FirstByte => "first_byte",
            Self::Idle => "idle",
            Self::Content => "content",
            Self::Total => "total",
        })
    }
}

/// How long a WebSocket may be silent, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Talk {
    /// Within a message.
    pub(crate) silence: u64,
    /// Until it is pinged.
    pub(crate) ping: u64,
    /// After it was pinged.
    pub(crate) pong: u64,
}

/// The tick's number, and who is watched.
pub(crate) struct Clock {
    tick: Duration,
    pub(crate) talk: Talk,
    now: AtomicU64,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    attempts: Vec<Weak<Watch>>,
    running: bool,
}

impl Clock {
    pub(crate) fn new(tick: Duration) -> Self {
        let talk = Talk { silence: u64::MAX, ping: u64::MAX, pong: u64::MAX };
        Self { tick, talk, now: AtomicU64::new(1), watched: Mutex::default() }
    }

    pub(crate) fn tick_length(&self) -> Duration {
        self.tick
    }

    pub(crate) fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// Ticks after which `duration` has certainly passed.
    pub(crate) fn ticks(&self, duration: Duration) -> u64 {
        duration.as_nanos().div_ceil(self.tick.as_nanos().max(1)).try_into().unwrap_or(u64::MAX - 1) + 1
    }

    /// Watch an attempt. Says whether the ticker's task must be started.
    pub(crate) fn watch(&self, deadlines: &Deadlines) -> (Arc<Watch>, bool) {
        let now = self.now();
        let limit = |d: Option<Duration>| d.map_or(u64::MAX, |d| self.ticks(d));
        let watch = Arc::new(Watch {
            limits: [
                limit(deadlines.connect),
                limit(deadlines.first_byte),
                limit(deadlines.idle),
                limit(deadlines.content),
                limit(deadlines.total),
            ],
            phase: AtomicU8::new(Phase::Connect as u8),
            started: now,
            phase_since: AtomicU64::new(now),
            last_byte: AtomicU64::new(now),
            last_content: AtomicU64::new(now),
            waiting: AtomicBool::new(true),
            talk: self.talk,
            talks: AtomicU64::new(0),
            grew: AtomicU64::new(now),
            pinged: AtomicU64::new(0),
            ping_due: AtomicBool::new(false),
            expired: AtomicU8::new(0),
            waker: Mutex::new(None),
        });
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.attempts.push(Arc::downgrade(&watch));
        let start = !watched.running;
        watched.running = true;
        (watch, start)
    }

    /// One tick. `more` says whether something else still needs the ticker. `false`: the ticker ends.
    pub(crate) fn advance(&self, more: impl FnOnce(u64) -> bool) -> bool {
        let now = self.now.fetch_add(1, Relaxed) + 1;
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.attempts.retain(|weak| {
            let Some(watch) = weak.upgrade() else { return false };
            watch.check(now);
            true
        });
        watched.running = more(now) || !watched.attempts.is_empty();
        watched.running
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Connect,
    Head,
    Body,
    Over,
}

/// What the ticker knows of one attempt. Only the attempt writes, but for `expired`.
pub(crate) struct Watch {
    /// In ticks, in the order of [`DEADLINES`].
    limits: [u64; 5],
    phase: AtomicU8,
    started: u64,
    phase_since: AtomicU64,
    last_byte: AtomicU64,
    last_content: AtomicU64,
    /// The owner waits for bytes.
    waiting: AtomicBool,
    talk: Talk,
    /// 0; [`TALKS`] for an open WebSocket between two messages, and more for each byte of a part of one.
    talks: AtomicU64,
    /// That part last grew.
    grew: AtomicU64,
    /// The tick at which it was pinged, 0 where it has given a sign since.
    pinged: AtomicU64,
    ping_due: AtomicBool,
    /// 0, [`SILENT`], or 1 + the place in [`DEADLINES`].
    expired: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

impl Watch {
    pub(crate) fn enter(&self, phase: Phase, now: u64) {
        self.phase_since.store(now, Relaxed);
        self.last_byte.store(now, Relaxed);
        self.last_content.store(now, Relaxed);
        self.pinged.store(0, Relaxed);
        self.waiting.store(phase != Phase::Body, Relaxed);
        self.phase.store(phase as u8, Relaxed);
    }

    /// The owner asks for bytes. If it had been away, that time is taken out of both silences.
    pub(crate) fn asked(&self, now: u64) {
        if !self.waiting.load(Relaxed) {
            let away = now.saturating_sub(self.last_byte.load(Relaxed));
            if away > 0 {
                self.last_content.store(self.last_content.load(Relaxed) + away, Relaxed);
                self.last_byte.store(now, Relaxed);
                self.grew.store(now, Relaxed);
            }
        }
    }

    /// Bytes came and the owner has them.
    pub(crate) fn got_bytes(&self, now: u64) {
        self.last_byte.store(now, Relaxed);
        self.pinged.store(0, Relaxed);
        self.waiting.store(false, Relaxed);
    }

    /// Bytes came that are not yet anything for the owner.
    pub(crate) fn stirred(&self, now: u64) {
        self.last_byte.store(now, Relaxed);
        self.pinged.store(0, Relaxed);
    }

    /// A WebSocket is open. `within`: 0 between two messages, and more as one comes.
    pub(crate) fn talks(&self, now: u64, within: u64) {
        let talks = TALKS + within;
        if self.talks.swap(talks, Relaxed) != talks {
            self.grew.store(now, Relaxed);
        }
    }

    /// Whether the peer is to be pinged now, which is said once.
    pub(crate) fn takes_ping(&self, now: u64) -> bool {
        let due = self.ping_due.load(Relaxed);
        if due {
            self.ping_due.store(false, Relaxed);
            self.pinged.store(now, Relaxed);
        }
        due
    }

    pub(crate) fn got_content(&self, now: u64) {
        self.last_content.store(now, Relaxed);
    }

    /// The owner waits and is to be woken if a deadline passes.
    pub(crate) fn wait(&self, waker: &Waker) {
        self.waiting.store(true, Relaxed);
        let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !slot.as_ref().is_some_and(|old| old.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    pub(crate) fn expired(&self) -> Option<Cause> {
        match self.expired.load(Relaxed) {
            0 => None,
            SILENT => Some(Cause::Silent),
            place => Some(Cause::Deadline(DEADLINES[usize::from(place) - 1])),
        }
    }

    fn check(&self, now: u64) {
        let phase = self.phase.load(Relaxed);
        let passed = |deadline: Deadline, since: u64| now.saturating_sub(since) >= self.limits[deadline as usize];
        let phase_since = self.phase_since.load(Relaxed);
        let waiting = self.waiting.load(Relaxed);
        let waits = waiting && (phase == Phase::Head as u8 || phase == Phase::Body as u8);
        let talks = if waits { self.talks.load(Relaxed) } else { 0 };
        let silence = now.saturating_sub(self.last_byte.load(Relaxed));
        let pinged = self.pinged.load(Relaxed);
        let lost = talks > TALKS && now.saturating_sub(self.grew.load(Relaxed)) >= self.talk.silence
            || talks != 0 && pinged != 0 && now.saturating_sub(pinged) >= self.talk.pong;
        let expired = if phase == Phase::Over as u8 {
            None
        } else if passed(Deadline::Total, self.started) {
            Some(Deadline::Total)
        } else if phase == Phase::Connect as u8 && passed(Deadline::Connect, phase_since) {
            Some(Deadline::Connect)
        } else if phase == Phase::Head as u8 && passed(Deadline::FirstByte, phase_since) {
            Some(Deadline::FirstByte)
        } else if phase == Phase::Body as u8 && waiting && passed(Deadline::Idle, self.last_byte.load(Relaxed)) {
            Some(Deadline::Idle)
        } else if phase == Phase::Body as u8 && waiting && passed(Deadline::Content, self.last_content.load(Relaxed)) {
            Some(Deadline::Content)
        } else {
            None
        };
        match expired {
            Some(deadline) => self.expired.store(deadline as u8 + 1, Relaxed),
            None if lost => self.expired.store(SILENT, Relaxed),
            None if talks != 0 && pinged == 0 && silence >= self.talk.ping => self.ping_due.store(true, Relaxed),
            None => return,
        }
        // The lock orders the store before the wake-up's poll.
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

const TALKS: u64 = 1;
/// A WebSocket without a sign of life.
const SILENT: u8 = u8::MAX;
