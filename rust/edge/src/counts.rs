//! What the edge counts of connections, and of requests that it refuses before the policy hears of them.
//!
//! One for all threads: each touches it when a connection begins and ends, and once for a request that is refused.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub struct Counts {
    accepted: AtomicU64,
    closed: AtomicU64,
    /// By status, from [`FIRST`] on.
    refused: [AtomicU64; STATUSES],
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            accepted: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            refused: [const { AtomicU64::new(0) }; STATUSES],
        }
    }
}

impl Counts {
    pub(crate) fn accept(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    pub(crate) fn close(&self) {
        self.closed.fetch_add(1, Relaxed);
    }

    pub(crate) fn refuse(&self, status: u16) {
        let at = status.checked_sub(FIRST).map(usize::from);
        if let Some(count) = at.and_then(|at| self.refused.get(at)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Connections that are open, and all that there have been.
    #[must_use]
    pub fn connections(&self) -> (u64, u64) {
        let closed = self.closed.load(Relaxed);
        let accepted = self.accepted.load(Relaxed);
        (accepted.saturating_sub(closed), accepted)
    }

    /// Refused requests, by the status that they were answered with.
    pub fn refused(&self) -> impl Iterator<Item = (u16, u64)> {
        let counts = self.refused.iter().map(|count| count.load(Relaxed));
        (FIRST..).zip(counts).filter(|(_, count)| *count > 0)
    }
}

const FIRST: u16 = 400;
/// 4xx and 5xx.
const STATUSES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_counted_is_told() {
        let counts = Counts::default();
        assert_eq!(counts.refused().count(), 0);
        for status in [400, 413, 413, 599, 600, 200] {
            counts.refuse(status);
        }
        assert_eq!(counts.refused().collect::<Vec<_>>(), [(400, 1), (413, 2), (599, 1)]);
        counts.accept();
        counts.accept();
        counts.close();
        assert_eq!(counts.connections(), (1, 2));
    }
}
