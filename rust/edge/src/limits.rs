//! Every bound of the edge, each with its reason and what happens beyond it.
//!
//! Those that an operator may want to change are fields of [`crate::EdgeConfig`]; their defaults stand here.
//! No bound stands anywhere else in this crate.

use std::time::Duration;

/// Room made for an answer's head at once: most are shorter, and growing costs a copy each time.
pub const HEAD_ROOM: usize = 512;

/// Largest request body, in bytes: what the largest provider takes (32 MiB). Beyond it: 413.
pub const BODY_LIMIT: usize = 32 << 20;

/// Largest request head, in bytes: SDK heads are 1 to 3 KiB, session metadata of coding agents up to 8. Beyond it: 431.
pub const HEADER_LIMIT: usize = 32 << 10;

/// From a request's first byte to the end of its head. Beyond it: 408, and the connection is closed.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// An open connection without a request. Above the keep-alive of the SDKs' pools (5 s to 60 s), so that they close first.
/// Beyond it the connection is closed.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Silence inside a request's body, or a WebSocket's message. Beyond it: 408, and the connection is closed.
pub const BODY_SILENCE: Duration = Duration::from_secs(30);

/// What is reserved for a body before its bytes come: a length is a claim until then.
pub const BODY_RESERVE: usize = 1 << 20;

/// The scratch of one edge thread: an upstream read, and the reads of heads. One per thread, none per stream.
pub const SCRATCH: usize = 64 << 10;

/// Reads of an upstream start at this size,
pub const READ_FIRST: usize = 16 << 10;
/// double up to this one, which is what the kernel takes for a client, while there is more and all is taken at once,
pub const READ_MOST: usize = NOT_SENT as usize;
/// and are of what the kernel would take just now where that is less, but not below this one.
pub const READ_LEAST: usize = 4 << 10;

/// Unsent bytes that the kernel may hold for one client (`TCP_NOTSENT_LOWAT`). Autotuned send buffers
/// would take megabytes for each slow reader.
pub const NOT_SENT: u32 = 32 << 10;

/// Bytes that a client may send ahead while its answer is being given. Beyond it nothing more is read until the answer ends.
pub const SENT_AHEAD: usize = 64 << 10;

/// What a WebSocket's client has not taken yet of pongs and refusals. From there on it is not listened to until it has
/// taken all: who only sends would otherwise fill the memory.
pub const UNSENT_TALK: usize = 64 << 10;

/// Answers under way at a time on one WebSocket, as many as the real one gives. Beyond it a request waits for its turn.
pub const IN_FLIGHT: usize = 16;

/// Lanes that a WebSocket's client may name in the connection's life, as many as on the real one. Beyond it: an error,
/// `websocket_stream_limit_reached`.
pub const LANES: usize = 32;

/// Requests that wait for their turn on one WebSocket: two for each lane, and as many bytes as one body may have. Who
/// has more to ask does not read the answers. Beyond it: an error, `websocket_queue_limit_reached`.
pub const WAITING: usize = 64;

/// Bodies that the answers under way on one WebSocket may hold, in bodies of the largest size: each is held once as it
/// goes out and once for the turn after it. Beyond it a request waits for its turn, unless it is the only one.
pub const BODIES: usize = 2;

/// Bytes of an answer that are held back before it commits, and of a partial event that is held after. Beyond it:
/// the answer commits; the partial event passes as it comes.
pub const HELD: usize = 64 << 10;

/// A whole answer commits when this much of it came.
pub const HELD_WHOLE: usize = 1 << 20;

/// An answer that is collected before it is given (a stream for a client that wants it whole) may have as many bytes on
/// its wire: as many as the codec takes of one body. Beyond it the attempt has failed.
pub const WHOLE_MOST: u64 = headrace_codec::limits::MAX_BODY as u64;

/// A streamed answer commits this long after a successful upstream head.
pub const COMMIT_AFTER: Duration = Duration::from_secs(10);

/// Silence towards a client after which its keep-alive is sent.
pub const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);

/// A client that takes no byte for this long while bytes wait for it is gone. As long as the SDKs' own time-out.
pub const STALLED: Duration = Duration::from_mins(10);

/// How long a client's WebSocket lives, as the real one's. Beyond it: an error that says so, and the end.
pub const CONVERSATION: Duration = Duration::from_hours(1);

/// Silence of a WebSocket's client after which it is pinged: below what middle boxes allow an idle connection.
pub const PING: Duration = Duration::from_secs(30);

/// How long a ping may stay without any sign of the client. More than the libraries' own (20 s), since a client that
/// computes does not answer meanwhile. Beyond it the connection is closed.
pub const PONG: Duration = Duration::from_mins(1);

/// Body of a failed attempt that is read. The classifier looks at no more.
pub const ERROR_BODY: usize = 64 << 10;

/// Value of `x-headrace-loss`. Paths that do not fit are left out; the log has all.
pub const LOSS_HEADER: usize = 1 << 10;

/// After a stop was asked for, answers under way may go on for as long as the caller allows; new connections are refused.
/// A connection that is to be closed is read for this long, so that the client sees the answer before the reset.
pub const LINGER: Duration = Duration::from_millis(500);
/// As much is read and thrown away meanwhile.
pub const LINGER_BYTES: usize = 256 << 10;

/// Connections of one edge thread. Beyond it accepting pauses until one ends.
pub const CONNECTIONS: usize = 20_000;
