//! The same hostile sizes for every wire: one line of 16 MiB, 100,000 tiny deltas, 10,000 calls, JSON of depth 1,000, a
//! message that never ends. Each costs time and memory in proportion, or ends in a clear error.
//!
//! Memory is counted byte by byte, by an allocator of this file; time is one run of sixteen times the size against sixteen
//! runs of the size, never a number of seconds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headrace_codec::limits;
use headrace_codec::pipeline::{Decoder, DecoderConfig, End, Transport};
use headrace_codec::{At, Event, Protocol, Sink};

/// Counts what this thread has: tests run side by side.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    let live = LIVE.get() + change;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

// SAFETY: every call goes to the system's allocator as it came; the cells need no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Seen {
    intents: u64,
    text: usize,
    last: String,
}

impl Sink for Seen {
    fn event(&mut self, _at: At, event: &Event<'_>) {
        match event {
            Event::IntentProposed(_) => self.intents += 1,
            Event::TextDelta { text, .. } => self.text += text.decode().len(),
            Event::Error(error) => error.kind.code().clone_into(&mut self.last),
            Event::Finished { reason, .. } => reason.code().clone_into(&mut self.last),
            _ => {}
        }
    }
}

/// How a family says things, payload by payload, and what is around a payload.
struct Wire {
    name: &'static str,
    protocol: Protocol,
    transport: Transport,
    frame: fn(&str) -> Vec<u8>,
    head: &'static [&'static str],
    /// A piece of text: before and after it.
    text: [&'static str; 2],
    /// A whole call in one or more payloads; `@` is its number.
    call: &'static [&'static str],
    /// What ends an answer of text, and one of calls.
    ends: [&'static [&'static str]; 2],
    /// One body: before and after its text and its calls, and a call in it.
    whole: Whole,
}

struct Whole {
    before: &'static str,
    between: &'static str,
    call: &'static str,
    after: &'static str,
}

fn sse(payload: &str) -> Vec<u8> {
    format!("data: {payload}\n\n").into_bytes()
}

fn line(payload: &str) -> Vec<u8> {
    format!("{payload}\n").into_bytes()
}

fn message(payload: &str) -> Vec<u8> {
    payload.as_bytes().to_vec()
}

/// An event of Converse: its name stands before its payload.
fn converse(payload: &str) -> Vec<u8> {
    let (name, payload) = payload.split_once(' ').expect("a name");
    sealed(name, payload.as_bytes())
}

fn invoke(payload: &str) -> Vec<u8> {
    let mut body = br#"{"bytes":""#.to_vec();
    body.extend_from_slice(STANDARD.encode(payload).as_bytes());
    body.extend_from_slice(br#""}"#);
    sealed("chunk", &body)
}

fn sealed(name: &str, payload: &[u8]) -> Vec<u8> {
    let mut headers = Vec::new();
    for (key, value) in [(":event-type", name), (":message-type", "event")] {
        headers.push(u8::try_from(key.len()).unwrap());
        headers.extend_from_slice(key.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
    let mut out = [total, u32::try_from(headers.len()).unwrap()].map(u32::to_be_bytes).concat();
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(&headers);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}

const BLOCK: [&str; 2] = [r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""#, r#""}}"#];
const TOOL: &[&str] = &[
    r#"{"type":"content_block_start","index":@,"content_block":{"type":"tool_use","id":"t@","name":"f","input":{}}}"#,
    r#"{"type":"content_block_delta","index":@,"delta":{"type":"input_json_delta","partial_json":"{\"n\":@}"}}"#,
    r#"{"type":"content_block_stop","index":@}"#,
];
const MESSAGE_ENDS: [&[&str]; 2] = [
    &[r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#, r#"{"type":"message_stop"}"#],
    &[r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#, r#"{"type":"message_stop"}"#],
];
const MESSAGE: Whole = Whole {
    before: r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":""#,
    between: r#""}"#,
    call: r#",{"type":"tool_use","id":"t@","name":"f","input":{"n":@}}"#,
    after: r#"],"stop_reason":"tool_use"}"#,
};
const ITEM: &[&str] = &[
    r#"{"type":"response.output_item.done","output_index":@,"item":{"type":"function_call","id":"i@","call_id":"c@","name":"f","arguments":"{\"n\":@}"}}"#,
];
const RESPONSE_ENDS: &[&str] = &[r#"{"type":"response.completed","response":{"status":"completed"}}"#];
const RESPONSE: Wire = Wire {
    name: "openai_responses",
    protocol: Protocol::OpenaiResponses,
    transport: Transport::Http,
    frame: sse,
    head: &[],
    text: [r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":""#, r#""}"#],
    call: ITEM,
    ends: [RESPONSE_ENDS, RESPONSE_ENDS],
    whole: Whole {
        before: r#"{"id":"r","object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":""#,
        between: r#""}]}"#,
        call: r#",{"type":"function_call","id":"i@","call_id":"c@","name":"f","arguments":"{\"n\":@}"}"#,
        after: "]}",
    },
};

const WIRES: &[Wire] = &[
    Wire {
        name: "openai_chat",
        protocol: Protocol::OpenaiChat,
        transport: Transport::Http,
        frame: sse,
        head: &[],
        text: [r#"{"choices":[{"index":0,"delta":{"content":""#, r#""}}]}"#],
        call: &[
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":@,"id":"c@","function":{"name":"f","arguments":"{\"n\":@}"}}]}}]}"#,
        ],
        ends: [
            &[r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, "[DONE]"],
            &[r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#, "[DONE]"],
        ],
        whole: Whole {
            before: r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":""#,
            between: r#"","tool_calls":[{"id":"first","function":{"name":"f","arguments":"{}"}}"#,
            call: r#",{"id":"c@","function":{"name":"f","arguments":"{\"n\":@}"}}"#,
            after: r#"]},"finish_reason":"tool_calls"}]}"#,
        },
    },
    RESPONSE,
    Wire { name: "openai_responses over a WebSocket", transport: Transport::WebSocket, frame: message, ..RESPONSE },
    Wire {
        name: "anthropic_messages",
        protocol: Protocol::AnthropicMessages,
        transport: Transport::Http,
        frame: sse,
        head: &[r#"{"type":"message_start","message":{"id":"m","content":[]}}"#],
        text: BLOCK,
        call: TOOL,
        ends: MESSAGE_ENDS,
        whole: MESSAGE,
    },
    Wire {
        name: "google_gemini",
        protocol: Protocol::GoogleGemini,
        transport: Transport::Http,
        frame: sse,
        head: &[],
        text: [r#"{"candidates":[{"content":{"parts":[{"text":""#, r#""}]}}]}"#],
        call: &[r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"n":@}}}]}}]}"#],
        ends: [&[r#"{"candidates":[{"finishReason":"STOP"}]}"#], &[r#"{"candidates":[{"finishReason":"STOP"}]}"#]],
        whole: Whole {
            before: r#"{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":""#,
            between: r#""}"#,
            call: r#",{"functionCall":{"name":"f","args":{"n":@}}}"#,
            after: "]}}]}",
        },
    },
    Wire {
        name: "bedrock_converse",
        protocol: Protocol::BedrockConverse,
        transport: Transport::Http,
        frame: converse,
        head: &[],
        text: [r#"contentBlockDelta {"contentBlockIndex":0,"delta":{"text":""#, r#""}}"#],
        call: &[
            r#"contentBlockStart {"contentBlockIndex":@,"start":{"toolUse":{"toolUseId":"t@","name":"f"}}}"#,
            r#"contentBlockDelta {"contentBlockIndex":@,"delta":{"toolUse":{"input":"{\"n\":@}"}}}"#,
            r#"contentBlockStop {"contentBlockIndex":@}"#,
        ],
        ends: [&[r#"messageStop {"stopReason":"end_turn"}"#], &[r#"messageStop {"stopReason":"tool_use"}"#]],
        whole: Whole {
            before: r#"{"output":{"message":{"role":"assistant","content":[{"text":""#,
            between: r#""}"#,
            call: r#",{"toolUse":{"toolUseId":"t@","name":"f","input":{"n":@}}}"#,
            after: r#"]}},"stopReason":"tool_use"}"#,
        },
    },
    Wire {
        name: "bedrock_invoke",
        protocol: Protocol::BedrockInvoke,
        transport: Transport::Http,
        frame: invoke,
        head: &[r#"{"type":"message_start","message":{"id":"m","content":[]}}"#],
        text: BLOCK,
        call: TOOL,
        ends: MESSAGE_ENDS,
        whole: MESSAGE,
    },
    Wire {
        name: "cohere_chat",
        protocol: Protocol::CohereChat,
        transport: Transport::Http,
        frame: sse,
        head: &[r#"{"type":"message-start","id":"m","delta":{"message":{"role":"assistant"}}}"#],
        text: [r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":""#, r#""}}}}"#],
        call: &[
            r#"{"type":"tool-call-start","index":@,"delta":{"message":{"tool_calls":{"id":"t@","type":"function","function":{"name":"f","arguments":"{\"n\":@}"}}}}}"#,
            r#"{"type":"tool-call-end","index":@}"#,
        ],
        ends: [
            &[r#"{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}"#],
            &[r#"{"type":"message-end","delta":{"finish_reason":"TOOL_CALL"}}"#],
        ],
        whole: Whole {
            before: r#"{"id":"m","finish_reason":"TOOL_CALL","message":{"role":"assistant","content":[{"type":"text","text":""#,
            between: r#""}],"tool_calls":[{"id":"first","type":"function","function":{"name":"f","arguments":"{}"}}"#,
            call: r#",{"id":"t@","type":"function","function":{"name":"f","arguments":"{\"n\":@}"}}"#,
            after: "]}}",
        },
    },
    Wire {
        name: "ollama_chat",
        protocol: Protocol::OllamaChat,
        transport: Transport::Http,
        frame: line,
        head: &[],
        text: [r#"{"message":{"role":"assistant","content":""#, r#""},"done":false}"#],
        call: &[
            r#"{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"n":@}}}]},"done":false}"#,
        ],
        ends: [
            &[r#"{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}"#],
            &[r#"{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}"#],
        ],
        whole: Whole {
            before: r#"{"done":true,"done_reason":"stop","message":{"role":"assistant","content":""#,
            between: r#"","tool_calls":[{"function":{"name":"f","arguments":{}}}"#,
            call: r#",{"function":{"name":"f","arguments":{"n":@}}}"#,
            after: "]}}",
        },
    },
];

impl Wire {
    fn frames<'a>(&self, payloads: impl IntoIterator<Item = &'a str>) -> Vec<Vec<u8>> {
        payloads.into_iter().map(self.frame).collect()
    }

    fn answer(&self, calls: bool, middle: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut all = self.frames(self.head.iter().copied());
        all.extend(middle);
        all.extend(self.frames(self.ends[usize::from(calls)].iter().copied()));
        all
    }

    fn said(&self, text: &str) -> Vec<u8> {
        (self.frame)(&[self.text[0], text, self.text[1]].concat())
    }

    fn long(&self, size: usize) -> Vec<Vec<u8>> {
        self.answer(false, vec![self.said(&"tide ".repeat(size / 5))])
    }

    fn deltas(&self, count: usize) -> Vec<Vec<u8>> {
        self.answer(false, vec![self.said("x"); count])
    }

    fn calls(&self, count: usize) -> Vec<Vec<u8>> {
        let one = |n: usize| self.call.iter().map(move |p| (self.frame)(&p.replace('@', &n.to_string())));
        self.answer(true, (0..count).flat_map(one).collect())
    }

    fn body(&self, text: &str, calls: usize) -> Vec<Vec<u8>> {
        let Whole { before, between, call, after } = &self.whole;
        let calls: Vec<String> = (0..calls).map(|n| call.replace('@', &n.to_string())).collect();
        vec![[before, text, between, &calls.concat(), after].concat().into_bytes()]
    }

    /// What came of it, how long it took, and how much memory it had at most beside what it was given.
    fn run(&self, frames: &[Vec<u8>], step: usize) -> (Seen, Duration, usize) {
        let config = DecoderConfig { transport: self.transport, ..DecoderConfig::new(self.protocol) };
        let joined = if self.transport == Transport::WebSocket { Vec::new() } else { frames.concat() };
        let before = LIVE.get();
        PEAK.set(before);
        let begun = now();
        let (mut decoder, mut seen) = (Decoder::new(config), Seen::default());
        if self.transport == Transport::WebSocket {
            for frame in frames {
                decoder.feed(frame, &mut seen);
            }
        } else {
            for piece in joined.chunks(step) {
                decoder.feed(piece, &mut seen);
            }
        }
        decoder.finish(End::Eof, &mut seen);
        let spent = begun.elapsed();
        drop(decoder);
        (seen, spent, (PEAK.get() - before).unsigned_abs())
    }

    /// Sixteen runs of a size against one of sixteen times the size. Six is room for noise, and the best of as many tries as
    /// are needed counts, of at most twenty.
    fn is_linear(&self, what: &str, make: impl Fn(usize) -> Vec<Vec<u8>>, size: usize, step: usize) {
        let (small, large) = (make(size), make(16 * size));
        let (mut of_small, mut of_large) = (Duration::MAX, Duration::MAX);
        let linear = (0..20).any(|_| {
            of_small = of_small.min((0..16).map(|_| self.run(&small, step).1).sum());
            of_large = of_large.min(self.run(&large, step).1);
            of_large < of_small * 6
        });
        assert!(linear, "{} {what}: sixteen of a size {of_small:?}, one of sixteen {of_large:?}", self.name);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test may look at the clock")]
fn now() -> Instant {
    Instant::now()
}

/// The framing's buffer grows to the next power of two and, while it does, is there twice.
const COPIES: usize = 6;

#[test]
fn one_line_of_sixteen_mebibytes() {
    let size = 16 << 20;
    for wire in WIRES {
        let frames = wire.long(size);
        let (seen, _, peak) = wire.run(&frames, 64 << 10);
        assert_eq!((seen.text, seen.last.as_str()), (size / 5 * 5, "stop"), "{}", wire.name);
        assert!(peak < COPIES * size, "{}: {peak} bytes", wire.name);
        wire.is_linear("a long line", |size| wire.long(size), 1 << 17, 512);
    }
}

#[test]
fn a_hundred_thousand_tiny_deltas_take_no_more_memory_than_ten_thousand() {
    for wire in WIRES {
        let (few, _, least) = wire.run(&wire.deltas(10_000), 4096);
        let (many, _, most) = wire.run(&wire.deltas(100_000), 4096);
        assert_eq!((few.text, many.text, many.last.as_str()), (10_000, 100_000, "stop"), "{}", wire.name);
        assert!(most <= least + (16 << 10), "{}: {least} bytes, then {most}", wire.name);
        wire.is_linear("deltas", |count| wire.deltas(count), 500, 4096);
    }
}

#[test]
fn ten_thousand_calls_and_not_more_than_the_bound() {
    for wire in WIRES {
        let (seen, _, peak) = wire.run(&wire.calls(10_000), 4096);
        assert_eq!((seen.intents, seen.last.as_str()), (10_000, "tool_intents"), "{}", wire.name);
        assert!(peak < 10_000 * 1024, "{}: {peak} bytes", wire.name);
        let (seen, _, _) = wire.run(&wire.calls(limits::MAX_CALLS + 1), 4096);
        assert_eq!(seen.last, "stream_interrupted", "{}", wire.name);
        wire.is_linear("calls", |count| wire.calls(count), 300, 4096);
    }
}

#[test]
fn whole_bodies_of_every_size() {
    for wire in WIRES.iter().filter(|wire| wire.transport == Transport::Http) {
        let text = "tide ".repeat((16 << 20) / 5);
        let body = wire.body(&text, 10_000);
        let (seen, _, peak) = wire.run(&body, 64 << 10);
        assert_eq!((seen.text, seen.last.as_str()), (text.len(), "tool_intents"), "{}", wire.name);
        assert!(seen.intents >= 10_000, "{}: {}", wire.name, seen.intents);
        assert!(peak < COPIES * body[0].len(), "{}: {peak} bytes", wire.name);
        let (seen, _, _) = wire.run(&wire.body("", limits::MAX_CALLS + 1), 4096);
        assert_eq!(seen.last, "stream_interrupted", "{}", wire.name);
        wire.is_linear("calls in a body", |count| wire.body("", count), 300, 4096);
    }
}

#[test]
fn json_of_depth_a_thousand_passes_and_of_ten_thousand_is_refused() {
    for wire in WIRES {
        for (depth, ends) in [(1_000, ["stop"]), (10_000, ["stream_interrupted"])] {
            let deep = format!("\"x\":{}{},", "[".repeat(depth), "]".repeat(depth));
            let payload = [wire.text[0], "a", wire.text[1]].concat().replacen('{', &format!("{{{deep}"), 1);
            let (seen, _, peak) = wire.run(&wire.answer(false, vec![(wire.frame)(&payload)]), 4096);
            assert!(ends.contains(&seen.last.as_str()), "{} at {depth}: {}", wire.name, seen.last);
            assert!(peak < 1 << 20, "{}: {peak} bytes", wire.name);
        }
    }
}

#[test]
fn what_never_ends_is_refused_at_the_bound() {
    let blank = vec![b'x'; 1 << 20];
    for wire in WIRES.iter().filter(|wire| wire.transport == Transport::Http) {
        // A message that says how long it is is refused at its head.
        let says = matches!(wire.protocol, Protocol::BedrockConverse | Protocol::BedrockInvoke);
        let begin = if says {
            let prelude = [(1_u32 << 30).to_be_bytes(), 0_u32.to_be_bytes()].concat();
            [&prelude[..], &crc32fast::hash(&prelude).to_be_bytes()].concat()
        } else {
            let text = wire.said("");
            let open = text.windows(3).position(|w| w == b"\"\"}").expect("an empty text") + 1;
            text[..open].to_vec()
        };
        let config = DecoderConfig::new(wire.protocol);
        let before = LIVE.get();
        PEAK.set(before);
        let (mut decoder, mut seen) = (Decoder::new(config), Seen::default());
        decoder.feed(&begin, &mut seen);
        let fed = (0..200).take_while(|_| {
            !decoder.is_done() && {
                decoder.feed(&blank, &mut seen);
                true
            }
        });
        let fed = fed.count();
        decoder.finish(End::Eof, &mut seen);
        assert_eq!(seen.last, "stream_interrupted", "{}", wire.name);
        assert!(fed <= if says { 0 } else { (limits::MAX_FRAME >> 20) + 1 }, "{}: {fed} MiB", wire.name);
        drop(decoder);
        let peak = (PEAK.get() - before).unsigned_abs();
        assert!(peak < if says { 64 << 10 } else { 4 * limits::MAX_FRAME }, "{}: {peak} bytes", wire.name);
    }
}
