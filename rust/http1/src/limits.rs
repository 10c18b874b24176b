//! Every bound of this crate, each with its reason and what happens beyond it.

/// Largest head, in bytes, start line included. Clients of model APIs send 1 to 6 KiB (session and
/// beta headers), vendors answer with 2 to 4 KiB; common servers stop at 8 to 64 KiB.
/// Beyond it: [`HeadError::TooLarge`](crate::HeadError::TooLarge), 431 towards a client.
pub const MAX_HEAD: usize = 64 << 10;

/// Most header lines of one head. The busiest recorded answer has 45. The parser's table of this size
/// lives on the stack (4 KiB). Beyond it: [`HeadError::TooManyHeaders`](crate::HeadError::TooManyHeaders).
pub const MAX_HEADERS: usize = 128;

/// Longest request target, in bytes. No API path of ours passes a few hundred.
/// Beyond it: [`HeadError::TargetTooLong`](crate::HeadError::TargetTooLong), 414 towards a client.
pub const MAX_TARGET: usize = 8 << 10;

/// Digits of a `content-length`: 18 decimal digits always fit in a `u64`, and no body has an exabyte.
pub const MAX_LENGTH_DIGITS: usize = 18;

/// Hex digits of a chunk size: 4 GiB for one chunk. Longer spellings are where parsers overflow apart.
pub const MAX_CHUNK_DIGITS: u8 = 8;

/// Trailer bytes after the last chunk. Trailers are checked and dropped; this bounds the work.
pub const MAX_TRAILER_BYTES: u32 = 8 << 10;
