//! Every bound of the kernel, each with its reason and what happens beyond it.

use std::time::Duration;

/// The scratch buffer of a thread, and so the most that one read takes and one poll hands over. A read of
/// 64 KiB takes a burst in one system call and still fits the second-level cache.
pub const SCRATCH: usize = 64 << 10;

/// The most that one read takes while a head is expected. Heads are 2 to 4 KiB; what comes with one is kept
/// for its stream until it is asked for, so this bounds what a stream may hold.
pub const HEAD_READ: usize = 16 << 10;

/// Compressed bytes that one read takes. What they unfold to is handed over in pieces; the rest of them
/// waits with its stream, so this bounds that too.
pub const ENCODED_READ: usize = 16 << 10;

/// The head of a proxy's answer to CONNECT. They are a line or a few; beyond it the attempt fails.
pub const TUNNEL_HEAD: usize = 8 << 10;

/// A TLS record's data, its header, and the most that sealing adds to it (TLS 1.2's; 1.3 adds 7 bytes less).
pub const TLS_RECORD: usize = 16 << 10;
pub const TLS_HEADER: usize = 5;
pub const TLS_OVERHEAD: usize = 29;

/// The buffer of a thread in which TLS records are opened: a read, a record that was begun before it, and a handshake
/// message (64 KiB at most) of which rustls still wants the records. Beyond it the connection fails.
pub const TLS_WIRE: usize = SCRATCH + (64 << 10) + (32 << 10);

/// Interim answers (1xx) before the real one. More than a few are no server of ours: the attempt fails.
pub const MAX_INTERIM: u8 = 8;

/// Granularity of every deadline. A deadline fires between its value and two ticks later, never before.
pub const TICK: Duration = Duration::from_secs(1);

/// Window of one HTTP/2 stream: what a stream holds whose owner takes nothing, as much as one read of HTTP/1.1 brings. At
/// 50 ms to the provider it lets 1.3 MB/s pass, and a model writes a tenth of that.
pub const STREAM_WINDOW: u32 = 64 << 10;

/// Streams of one HTTP/2 connection. Its window is as large as all of theirs, so that no stream that nobody reads can hold
/// up another: 16 MiB at the very worst. Beyond it another connection is opened.
pub const STREAMS: usize = 256;

/// What short DATA frames that nobody took may cost beyond their bytes, by one connection: 256 bytes each. Half of all
/// streams may stand still with windows full of 100-byte events; a peer that goes beyond it has its connection closed.
pub const FRAME_BUDGET: usize = 16 << 20;

/// What of a request's body waits within one HTTP/2 stream for the peer's window.
pub const SEND_BUFFER: usize = 64 << 10;

/// Ticks between two pings of an HTTP/2 connection that has streams. An answer may be silent for minutes; a connection
/// that is dead must not take new requests for as long.
pub const PING_TICKS: u32 = 30;

/// Ticks that a ping may go unanswered.
pub const PONG_TICKS: u32 = 15;

/// For how long an endpoint that chose HTTP/1.1 is not asked for HTTP/2 again.
pub const PLAIN_AGE: Duration = Duration::from_mins(10);

/// Idle connections kept for one endpoint. A burst of 64 completions finds its sockets again; beyond it the
/// oldest one is closed.
pub const IDLE_PER_ENDPOINT: usize = 64;

/// Idle connections kept in all, by one client (one worker thread). Beyond it a connection is closed, not kept.
pub const IDLE_TOTAL: usize = 512;

/// How long an idle connection is kept. Vendors' edges close theirs after 60 s and later (one after 400 s);
/// whoever closes first decides who sees the error, so we are early.
pub const IDLE_AGE: Duration = Duration::from_secs(55);

/// How long a released connection may take to bring the end of a body whose answer is complete, in ticks.
/// The last chunk mostly comes in the next packet; a body that stays open longer is closed.
pub const DRAIN_TICKS: u64 = 2;

/// What a released connection may still bring before it is closed: the end of a body, not a body.
pub const DRAIN_BYTES: usize = 4 << 10;

/// Largest window that a zstd frame may ask for: 8 MiB, as RFC 8878 advises. Beyond it the body is refused.
pub const ZSTD_WINDOW_LOG: u32 = 23;

/// Slices of one `writev`: the head, and a body of few pieces. More of them go in the next call.
pub const IO_SLICES: usize = 16;

/// How long one address of a host may be mute before the next is tried beside it (RFC 8305 advises this).
pub const DIAL_PAUSE: Duration = Duration::from_millis(250);

/// Addresses of a host that are tried. More of them do not make it more alive.
pub const DIAL_ADDRESSES: usize = 8;

/// How long a WebSocket is used again. The one vendor that tells ends it after 60 minutes: an answer that is begun five
/// minutes before has its time.
pub const SESSION_LIFE: Duration = Duration::from_mins(55);

/// How long an idle WebSocket is kept. Opening one costs more than opening a connection, and between two answers of an
/// agent lies a tool's run; pings keep what is on the way from forgetting it. Beyond it it is closed.
pub const SESSION_IDLE: Duration = Duration::from_mins(10);

/// Idle connections that are a WebSocket, kept in all by one client (one worker thread). Each belongs to one credential and one set of headers,
/// so that many may rest that nobody asks for again. Beyond it the one that has rested longest is closed.
pub const IDLE_SESSIONS: usize = 128;

/// Silence of a WebSocket's peer after which it is pinged: below what middle boxes allow an idle connection.
pub const PING: Duration = Duration::from_secs(30);

/// How long a ping may stay without any sign of the peer. Longer than vendors take to answer under load. Beyond it the
/// connection is closed.
pub const PONG: Duration = Duration::from_mins(1);

/// Silence inside a message of a WebSocket: nothing is being thought there, only sent. Beyond it the attempt fails.
pub const MESSAGE_SILENCE: Duration = Duration::from_secs(30);

/// Reads of an idle WebSocket for each look at it. A few pings may have come; who says more has lost its way.
pub const RESTING_READS: usize = 8;

/// Bytes that an idle WebSocket's peer may leave lying: some pongs. Beyond it it is closed.
pub const RESTING_OUT: usize = 4 << 10;

/// Longest message over a WebSocket. An answer's last one repeats all of it, images too; as much as the codec takes of
/// one event. Beyond it the attempt fails.
pub const MESSAGE: usize = headrace_codec::limits::MAX_FRAME;
