//! Connections of HTTP/2 of one client (one worker thread), by endpoint: who opens one, who takes a stream of it.
//!
//! 1. While somebody opens a connection, whoever else wants one waits for it: streams share few connections.
//! 2. Who opens one holds an [`Entry`]. However that ends, its drop wakes those who wait, and the first of them goes on.
//! 3. An endpoint that speaks HTTP/1.1 alone is asked in that for a while, over connections of the pool.
//! 4. A connection takes no more streams than either side allows; beyond it another one is opened.
//! 5. One without streams is kept as long as others are that are idle. One that has failed or goes away takes no more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use super::http2::{Draining, Link};
use crate::client::Inner;
use crate::limits;
use crate::spec::Endpoint;

/// What an attempt is to do.
pub(crate) enum Choice {
    /// Take a stream of this one.
    Take(Link),
    Open,
    /// Somebody opens one.
    Wait,
    /// The endpoint speaks HTTP/1.1.
    Plain,
}

struct Kept {
    link: Link,
    /// When it was last seen with a stream, in ticks.
    used: u64,
}

#[derive(Default)]
struct Site {
    kept: Vec<Kept>,
    /// Who waits, while somebody opens one.
    waiting: Option<Vec<Waker>>,
    plain_until: u64,
}

#[derive(Default)]
pub(crate) struct Links {
    sites: HashMap<Endpoint, Site>,
    draining: Vec<(Draining, u64)>,
}

impl Links {
    /// - `fresh`: an open connection is not good enough.
    pub(crate) fn choose(&mut self, endpoint: &Endpoint, now: u64, fresh: bool, cx: &mut Context<'_>) -> Choice {
        if !self.sites.contains_key(endpoint) {
            self.sites.insert(endpoint.clone(), Site::default());
        }
        let Some(site) = self.sites.get_mut(endpoint) else { return Choice::Open };
        if now < site.plain_until {
            return Choice::Plain;
        }
        if fresh {
            return Choice::Open;
        }
        site.kept.retain_mut(Kept::is_alive);
        for kept in &mut site.kept {
            let most = limits::STREAMS.min(kept.link.sender.current_max_send_streams());
            if kept.link.open.load(Relaxed) < most {
                kept.used = now;
                return Choice::Take(kept.link.clone());
            }
        }
        match &mut site.waiting {
            None => {
                site.waiting = Some(Vec::new());
                Choice::Open
            }
            Some(waiting) => {
                if !waiting.iter().any(|one| one.will_wake(cx.waker())) {
                    waiting.push(cx.waker().clone());
                }
                Choice::Wait
            }
        }
    }

    pub(crate) fn put_draining(&mut self, mut draining: Draining, now: u64) {
        if !draining.is_over(&mut Context::from_waker(Waker::noop())) {
            self.draining.push((draining, now));
        }
    }

    /// Connections without a stream.
    pub(crate) fn idle(&self) -> usize {
        let kept = self.sites.values().flat_map(|site| &site.kept);
        kept.filter(|kept| kept.link.open.load(Relaxed) == 0).count()
    }

    /// Drop what is dead, what has been idle for `age` ticks, and what does not end. Says whether anything is left.
    pub(crate) fn sweep(&mut self, now: u64, age: u64) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.draining
            .retain_mut(|(one, since)| !one.is_over(&mut cx) && now.saturating_sub(*since) <= limits::DRAIN_TICKS);
        self.sites.retain(|_, site| {
            site.kept.retain_mut(|kept| {
                if kept.link.open.load(Relaxed) > 0 {
                    kept.used = now;
                }
                kept.is_alive() && now.saturating_sub(kept.used) < age
            });
            !site.kept.is_empty() || site.waiting.is_some() || now < site.plain_until
        });
        !self.draining.is_empty() || self.sites.values().any(|site| !site.kept.is_empty())
    }
}

impl Kept {
    fn is_alive(&mut self) -> bool {
        // Never pending: this clone has sent nothing.
        matches!(self.link.sender.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
    }
}

/// A place for a connection that is being opened. Where others wait for it, its drop wakes them.
pub(crate) struct Entry {
    client: Arc<Inner>,
    endpoint: Endpoint,
    awaited: bool,
}

impl Entry {
    pub(crate) fn new(client: &Arc<Inner>, endpoint: &Endpoint, awaited: bool) -> Self {
        Self { client: Arc::clone(client), endpoint: endpoint.clone(), awaited }
    }

    /// Let others have streams of the connection.
    pub(crate) fn share(self, link: Link) {
        let now = self.client.clock.now();
        let mut links = self.client.links();
        links.sites.entry(self.endpoint.clone()).or_default().kept.push(Kept { link, used: now });
    }

    /// Take note that the endpoint does not speak HTTP/2.
    pub(crate) fn give_up(self) {
        let until = self.client.clock.now() + self.client.clock.ticks(limits::PLAIN_AGE);
        self.client.links().sites.entry(self.endpoint.clone()).or_default().plain_until = until;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.awaited {
            let waiting = self.client.links().sites.get_mut(&self.endpoint).and_then(|site| site.waiting.take());
            waiting.into_iter().flatten().for_each(Waker::wake);
        }
    }
}
