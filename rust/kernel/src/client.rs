//! A client: the pool, the clock and the trust that attempts of one worker thread share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::attempt::Attempt;
use crate::deadlines::{Clock, Talk};
use crate::limits;
use crate::spec::AttemptSpec;
use crate::transport::links::Links;
use crate::transport::pool::{Pool, PoolLimits};
use crate::transport::resting::Signs;
use crate::transport::tls::TlsConfig;

/// What a client is made of.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Made once per process and cloned, see [`TlsConfig`].
    pub tls: TlsConfig,
    pub idle_per_endpoint: usize,
    pub idle_total: usize,
    pub idle_age: Duration,
    /// Granularity of deadlines; see [`limits::TICK`].
    pub tick: Duration,
    /// Of each WebSocket; see [`limits::SESSION_IDLE`], [`limits::IDLE_SESSIONS`], [`limits::PING`], [`limits::PONG`],
    /// [`limits::MESSAGE_SILENCE`].
    pub session_idle: Duration,
    pub idle_sessions: usize,
    pub ping: Duration,
    pub pong: Duration,
    pub message_silence: Duration,
}

impl ClientConfig {
    #[must_use]
    pub fn new(tls: TlsConfig) -> Self {
        Self {
            tls,
            idle_per_endpoint: limits::IDLE_PER_ENDPOINT,
            idle_total: limits::IDLE_TOTAL,
            idle_age: limits::IDLE_AGE,
            tick: limits::TICK,
            session_idle: limits::SESSION_IDLE,
            idle_sessions: limits::IDLE_SESSIONS,
            ping: limits::PING,
            pong: limits::PONG,
            message_silence: limits::MESSAGE_SILENCE,
        }
    }
}

/// One per worker thread. A clone is the same client. Attempts must be made on a tokio runtime with I/O and time.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) tls: TlsConfig,
    pool: Mutex<Pool>,
    links: Mutex<Links>,
    /// In ticks.
    pub(crate) idle_age: u64,
}

impl Inner {
    pub(crate) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let mut clock = Clock::new(config.tick);
        clock.talk = Talk {
            silence: clock.ticks(config.message_silence),
            ping: clock.ticks(config.ping),
            pong: clock.ticks(config.pong),
        };
        let idle_age = clock.ticks(config.idle_age);
        let pool = Pool::new(PoolLimits {
            per_endpoint: config.idle_per_endpoint,
            total: config.idle_total,
            age: idle_age,
            sessions: config.idle_sessions,
            session_age: clock.ticks(config.session_idle),
            session_life: clock.ticks(limits::SESSION_LIFE),
            signs: Signs { ping: clock.ticks(config.ping), pong: clock.ticks(config.pong) },
        });
        let (pool, links) = (Mutex::new(pool), Mutex::default());
        Self { inner: Arc::new(Inner { clock, tls: config.tls, pool, links, idle_age }) }
    }

    /// An attempt that does nothing until it is polled.
    #[must_use]
    pub fn attempt(&self, spec: AttemptSpec) -> Attempt {
        let (watch, start_ticker) = self.inner.clock.watch(&spec.deadlines);
        if start_ticker {
            self.start_ticker();
        }
        Attempt::new(self.inner.clone(), watch, spec)
    }

    /// Idle connections that are kept now.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.inner.pool().len() + self.inner.links().idle()
    }

    /// The one task of a client. It ends when there is no attempt and no idle connection, and with the client.
    fn start_ticker(&self) {
        let tick = self.inner.clock.tick_length();
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(tick).await;
                let Some(inner) = inner.upgrade() else { return };
                let sweep = |now| {
                    let linked = inner.links().sweep(now, inner.idle_age);
                    let mut pool = inner.pool();
                    pool.sweep(now);
                    pool.len() > 0 || linked
                };
                if !inner.clock.advance(sweep) {
                    return;
                }
            }
        });
    }
}
