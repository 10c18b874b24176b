//! What the upstream saw, and waiting for it.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::locked;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The number of its connection, from 0.
    pub connection: usize,
    pub method: String,
    /// The path and, if there is one, `?` and the query.
    pub target: String,
    /// Names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    /// The first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The target without its query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or("")
    }
}

/// One connection.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each waited for by itself")]
pub struct ConnectionFacts {
    pub open: bool,
    /// The client ended it: closed, reset, or vanished in mid-write. Otherwise the script did.
    pub closed_by_client: bool,
    /// It ended with an error rather than an orderly close.
    pub reset: bool,
    pub requests: usize,
    /// Bytes that the operating system took.
    pub written: u64,
    /// The client reads too slowly: the last write had to wait and has not gone on since.
    pub blocked: bool,
    /// The reply that is being played waits for a gate or stalls.
    pub waiting: bool,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// In the order in which they were accepted.
    pub connections: Vec<ConnectionFacts>,
    /// The first requests, as many as the script records.
    pub requests: Vec<Seen>,
    pub request_count: usize,
    /// Heads and bodies that were no HTTP, and handshakes that failed.
    pub malformed: usize,
    /// Replies that were played to their end.
    pub replies: usize,
}

impl Facts {
    /// Connections that are open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.connections.iter().filter(|c| c.open).count()
    }
}

/// What the upstream's thread and its handle share.
pub(crate) struct Shared {
    record: usize,
    facts: Mutex<Facts>,
    gates: Mutex<HashSet<String>>,
    changed: Condvar,
    notify: Notify,
    /// Who waits for facts now. Waking nobody would cost a system call a write.
    waiters: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(record: usize) -> Self {
        Self {
            record,
            facts: Mutex::default(),
            gates: Mutex::default(),
            changed: Condvar::new(),
            notify: Notify::new(),
            waiters: AtomicUsize::new(0),
        }
    }

    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        locked(&self.facts)
    }

    /// Change the facts and wake whoever waits for them.
    pub(crate) fn tell<T>(&self, change: impl FnOnce(&mut Facts) -> T) -> T {
        let told = change(&mut self.facts());
        // A waiter is counted before it looks, and looks under the lock that was just held.
        if self.waiters.load(SeqCst) > 0 {
            self.changed.notify_all();
            self.notify.notify_waiters();
        }
        told
    }

    pub(crate) fn tell_connection(&self, n: usize, change: impl FnOnce(&mut ConnectionFacts)) {
        self.tell(|facts| change(&mut facts.connections[n]));
    }

    pub(crate) fn tell_request(&self, seen: &Seen) {
        self.tell(|facts| {
            facts.request_count += 1;
            facts.connections[seen.connection].requests += 1;
            if facts.requests.len() < self.record {
                facts.requests.push(seen.clone());
            }
        });
    }

    pub(crate) fn open(&self, gate: &str) {
        locked(&self.gates).insert(gate.to_owned());
        self.notify.notify_waiters();
    }

    pub(crate) async fn pass(&self, gate: &str) {
        self.until_true(|| locked(&self.gates).contains(gate)).await;
    }

    pub(crate) async fn until(&self, mut wanted: impl FnMut(&Facts) -> bool) {
        self.until_true(|| wanted(&self.facts())).await;
    }

    async fn until_true(&self, mut wanted: impl FnMut() -> bool) {
        let _counted = Counted::new(&self.waiters);
        loop {
            let mut changed = std::pin::pin!(self.notify.notified());
            // Registered before the look, so no change between the two is missed.
            changed.as_mut().enable();
            if wanted() {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn wait(&self, limit: Duration, mut wanted: impl FnMut(&Facts) -> bool) -> bool {
        let _counted = Counted::new(&self.waiters);
        let end = Instant::now() + limit;
        let mut facts = self.facts();
        loop {
            if wanted(&facts) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            facts = self.changed.wait_timeout(facts, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Counts a waiter while it lives, also if its future is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
