//! Every bound of the codec, each with its reason and what happens beyond it.
//!
//! No bound stands anywhere else in this crate.

/// Deepest JSON nesting that is read. No provider nests past a few dozen levels; 1,024 leaves room
/// for tool arguments made by machines and keeps the scanner's bit stack at 128 bytes.
/// Beyond it the payload is malformed (`stream_interrupted`, or a refused request).
pub const MAX_DEPTH: usize = 1024;

/// Longest frame (one SSE event, one NDJSON line, one WebSocket or event-stream message), in bytes. Partial images
/// reach several MiB in one line; 64 MiB is past any recorded frame by a factor of ten.
/// Beyond it the stream ends with `stream_interrupted`.
pub const MAX_FRAME: usize = 64 << 20;

/// Headers of one AWS event-stream message, in bytes: the vendor's own bound. Beyond it the stream ends with `stream_interrupted`.
pub const MAX_EVENTSTREAM_HEADER_BYTES: usize = 128 << 10;

/// Headers of one AWS event-stream message. The vendor sends three or four; 64 lets each name be compared with each.
/// Beyond it: `stream_interrupted`.
pub const MAX_EVENTSTREAM_HEADERS: usize = 64;

/// Largest buffer of a framing that is kept for the next frame, in bytes: a few deltas. A larger one is let go, so that one image
/// does not cost its size for the rest of an open stream.
pub const KEPT_BUFFER: usize = 8 << 10;

/// Largest whole JSON body (a request without streaming), in bytes: as for a frame.
pub const MAX_BODY: usize = 64 << 20;

/// Numbers from which on an array is a vector worth packing: the shortest embeddings have 64, and what else answers hold
/// (token counts, spans) is far below. A shorter one stays as it is.
pub const PACKED_LEAST: usize = 32;

/// Calls of one response. Ten thousand is past any recorded response by a factor of a hundred.
/// Beyond it the stream ends with `stream_interrupted`.
pub const MAX_CALLS: usize = 16_384;

/// Content blocks of one response that are tracked by index. Beyond it: `stream_interrupted`.
pub const MAX_BLOCKS: usize = 65_536;

/// Content blocks of one response that are open at once. Vendors stream one after another; a thousand leaves room for
/// whoever interleaves them and keeps a search among them short. Beyond it: `stream_interrupted`.
pub const MAX_OPEN_BLOCKS: usize = 1024;

/// Text kept of the arguments and state of all tool calls of a response, and of its reasoning details, in bytes: the frame bound
/// again, since they may come in one frame. Beyond it the call is malformed, or the stream interrupted, and ends.
pub const MAX_ARGUMENTS: usize = 64 << 20;

/// Steps in the path of a tool argument that comes value by value. Schemas of tools nest a few levels; beyond it the call is
/// malformed.
pub const MAX_ARGUMENT_DEPTH: usize = 64;

/// Longest name or id that is kept (tool name, call id, response id, model), in bytes.
/// Vendors allow 64 to 256; a longer one is cut at this length, at a character's edge.
pub const MAX_NAME: usize = 4096;

/// Longest payload that is kept as a frame template, in bytes. Deltas of text are 130 to 400 bytes long; the bound keeps an open
/// stream's memory small. A longer payload is read the general way.
pub const MAX_TEMPLATE: usize = 1 << 10;

/// Head of an error body that is kept in `raw` and searched for wordings, in bytes.
pub const MAX_ERROR_RAW: usize = 64 << 10;

/// Response headers that pass to a client: count, and bytes of names and values together (rule R18).
pub const MAX_PASSED_HEADERS: usize = 64;
/// See [`MAX_PASSED_HEADERS`].
pub const MAX_PASSED_HEADER_BYTES: usize = 8 << 10;

/// Text held back while it may still become a `<think>` or `</think>` tag: the longest tag less one byte.
pub const MAX_HELD_TAG: usize = 7;

/// Errors wrapped in errors that are opened: vendors nest four deep at most (array, body, `error`, details).
/// Beyond it nothing more is learnt from the body.
pub const MAX_ERROR_WRAPS: usize = 8;

/// Codes that are read from one error body. Vendors send up to four; beyond it the others are not looked at.
pub const MAX_ERROR_CODES: usize = 32;

/// Longest wait that a vendor can ask for, in seconds: a year. A longer one is cut to it, so that whoever adds
/// it to a date stays within every calendar.
pub const MAX_RETRY_AFTER_S: f64 = 31_536_000.0;

/// Keys at the top of a request body. The longest list that an SDK knows has about forty; 256 leaves room for
/// vendors' own and lets duplicates be found by comparing each with each. Beyond it the request is refused.
pub const MAX_TOP_KEYS: usize = 256;

/// Weight ([`crate::json::is_heavier`]) of a body that the policy reads whole, with a parser that makes an object of every
/// value and lets nobody else in meanwhile: 1.3 million numbers, or 325,000 arrays or entries. The largest real one, a
/// batch of token arrays, may have a million tokens by the policy's own word, which then names the field; and what this
/// lets pass keeps the parser no longer than 30 MiB of plain text do (30 ms). Beyond it the request is refused.
pub const MAX_TREE_WEIGHT: usize = 1_300_000;

/// Steps of a JSON pointer in an edit. Edits are written by people; nothing they reach for lies this deep.
/// Beyond it the edit is refused.
pub const MAX_POINTER: usize = 32;

/// Levels of a message's content in which pictures and ids of upstream state are looked for: an array, a part,
/// a tool result's array, its part, a document's source and its content. Deeper ones are not content.
pub const MAX_CONTENT_DEPTH: usize = 8;

/// Ids of upstream state that are pointed out to policy. One is enough to refuse; beyond it the rest is not listed.
pub const MAX_STATE_REFS: usize = 256;

/// Names of declared tools that are listed for policy. As for calls; beyond it the rest is not listed.
pub const MAX_TOOL_NAMES: usize = 4096;

/// Text that one encoder keeps (what Responses repeats at its end, a whole body, what waits for a tool block to end), in
/// bytes: as for a body. Beyond it the client's stream ends with an error.
pub const MAX_KEPT: usize = MAX_BODY;

/// Longest message of an error that a client is told, in bytes. Real ones are a few hundred; a vendor that
/// puts a whole page there is cut at this length, at a character's edge.
pub const MAX_TOLD_MESSAGE: usize = 4096;

/// Losses that one translation names. They are field patterns and not places, so a body that is meant well stays far
/// below it; a thousand invented keys must not make a long report. Beyond it the report ends with the path `...`.
pub const MAX_LOSSES: usize = 128;

/// Messages, parts and tools of one request that is translated. The vendors stop at 100,000 messages; a part takes about
/// 130 bytes while it is carried, and the smallest is written in 27, so this bounds what a hostile body costs to 34 MB.
/// Beyond it the request is refused.
pub const MAX_ITEMS: usize = 1 << 18;

/// Depth of parts in parts that are translated: a result in a message, a document in it, content in that.
/// Beyond it the request is refused.
pub const MAX_PART_DEPTH: usize = 8;

/// Tokens of one kind that one answer may have cost: a million times what any model takes. Beyond it the provider does
/// not know what it says, and the number is unknown: ledgers add these up, and budgets hang on the sum.
pub const MAX_TOKENS: u64 = 1 << 40;
