//! The queue between the edge's threads and Python's main thread.

use std::mem::take;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use headrace_edge::policy::{Failure, Gathered, Settlement};
use headrace_edge::{ClientRequest, Policy, Reply};
use pyo3::PyResult;
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::os_error;

/// Something for Python to do.
pub enum Job {
    Decide(Arc<ClientRequest>, Reply),
    Next(Box<Failure>, Reply),
    Read(Box<Gathered>, Reply),
    Settle(Box<Settlement>),
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    /// A question waits, and somebody for its answer.
    urgent: bool,
    /// The bell was rung since the queue was last emptied.
    rung: bool,
    /// When the timer runs out, if it is set.
    timed: Option<Instant>,
}

/// Jobs that wait, and the two descriptors that say so.
pub struct Queue {
    waiting: Mutex<Waiting>,
    pub bell: OwnedFd,
    pub timer: OwnedFd,
    ready: AtomicBool,
    takes: AtomicU64,
    rings: AtomicU64,
    decides: AtomicU64,
    nexts: AtomicU64,
    reads: AtomicU64,
    settles: AtomicU64,
}

impl Queue {
    pub fn new() -> PyResult<Queue> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(os_error)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(os_error)?;
        Ok(Queue {
            waiting: Mutex::default(),
            bell,
            timer,
            ready: AtomicBool::new(false),
            takes: AtomicU64::new(0),
            rings: AtomicU64::new(0),
            decides: AtomicU64::new(0),
            nexts: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            settles: AtomicU64::new(0),
        })
    }

    /// Empties the queue.
    pub fn take(&self) -> Vec<Job> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.takes.fetch_add(1, Relaxed);
        let mut count = [0; 8];
        waiting.rung = false;
        waiting.urgent = false;
        // It is rung after the lock was let go, so it may be up although nothing waits, or not up yet.
        let _ = rustix::io::read(&self.bell, &mut count);
        // Once it has run out it is read down, and set anew with the next settlement.
        if waiting.timed.is_some_and(|end| end <= Instant::now()) && rustix::io::read(&self.timer, &mut count).is_ok() {
            waiting.timed = None;
        }
        take(&mut waiting.jobs)
    }

    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Relaxed);
    }

    pub fn counters(&self) -> [(&'static str, u64); 6] {
        [
            ("takes", self.takes.load(Relaxed)),
            ("rings", self.rings.load(Relaxed)),
            ("decides", self.decides.load(Relaxed)),
            ("nexts", self.nexts.load(Relaxed)),
            ("reads", self.reads.load(Relaxed)),
            ("settles", self.settles.load(Relaxed)),
        ]
    }

    fn push(&self, job: Job, urgent: bool) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.jobs.push(job);
        waiting.urgent |= urgent;
        if !waiting.urgent && !waiting.rung && waiting.timed.is_none() {
            waiting.timed = Some(Instant::now() + Duration::from_nanos(SETTLE_WITHIN_NS));
            let end = Timespec { tv_sec: 0, tv_nsec: SETTLE_WITHIN_NS.cast_signed() };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: end };
            // Fails for a time that is no time only.
            let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        }
    }
}

impl Policy for Queue {
    fn decide(&self, request: Arc<ClientRequest>, reply: Reply) {
        self.decides.fetch_add(1, Relaxed);
        self.push(Job::Decide(request, reply), true);
    }

    fn next(&self, failure: Failure, reply: Reply) {
        self.nexts.fetch_add(1, Relaxed);
        self.push(Job::Next(Box::new(failure), reply), true);
    }

    fn read(&self, gathered: Gathered, reply: Reply) {
        self.reads.fetch_add(1, Relaxed);
        self.push(Job::Read(Box::new(gathered), reply), true);
    }

    fn flush(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.urgent && !waiting.rung {
            waiting.rung = true;
            self.rings.fetch_add(1, Relaxed);
            // Who is woken wants the lock at once: with it held, each job would cost two more context switches.
            drop(waiting);
            // Fails only where the count is full, and then the bell is up.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    fn settle(&self, settlement: Settlement) {
        self.settles.fetch_add(1, Relaxed);
        self.push(Job::Settle(Box::new(settlement)), false);
    }

    fn ready(&self) -> bool {
        self.ready.load(Relaxed)
    }
}

/// A settlement waits for no longer than this; then it is to be written, which has 5 ms more.
const SETTLE_WITHIN_NS: u64 = 15_000_000;
