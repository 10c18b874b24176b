//! What the edge is started with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::limits;
use crate::request::Guard;

/// How the listener listens, and what it takes.
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    /// Port 0: any free one.
    pub address: SocketAddr,
    /// Edge threads, at least 1.
    pub threads: usize,
    /// Bytes of a request's body.
    pub body_limit: usize,
    /// Bytes of a request's head.
    pub header_limit: usize,
    /// From a request's first byte to the end of its head.
    pub header_timeout: Duration,
    pub guard: Guard,
    pub pace: Pace,
}

/// Times that nobody has yet wanted to set, but that tests must.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub keep_alive: Duration,
    pub body_silence: Duration,
    pub commit_after: Duration,
    pub keep_alive_after: Duration,
    pub stalled: Duration,
    pub conversation: Duration,
    pub ping: Duration,
    pub pong: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            keep_alive: limits::KEEP_ALIVE,
            body_silence: limits::BODY_SILENCE,
            commit_after: limits::COMMIT_AFTER,
            keep_alive_after: limits::KEEP_ALIVE_AFTER,
            stalled: limits::STALLED,
            conversation: limits::CONVERSATION,
            ping: limits::PING,
            pong: limits::PONG,
        }
    }
}

impl Default for EdgeConfig {
    fn default() -> EdgeConfig {
        EdgeConfig {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            threads: 1,
            body_limit: limits::BODY_LIMIT,
            header_limit: limits::HEADER_LIMIT,
            header_timeout: limits::HEADER_TIMEOUT,
            guard: Guard::default(),
            pace: Pace::default(),
        }
    }
}
