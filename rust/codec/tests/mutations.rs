//! Whatever comes, a decoder ends exactly once and proposes only what it may; and its cost grows with the input, not
//! with its square.
//!
//! The fixtures' streams are damaged in the ways that proxies, bugs and attackers damage them: frames dropped, doubled,
//! moved and mixed with those of others, members renamed, values swapped, bytes flipped, the end cut off. The damage
//! is drawn from a fixed seed, so a failure repeats.
#![expect(clippy::disallowed_methods, reason = "tests may read files and a clock; the codec may not")]

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headrace_codec::event::{CallKind, JsonLines};
use headrace_codec::framing::eventstream::{EventStream, Value};
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use headrace_codec::{At, Event, Protocol, Sink};

/// xorshift64*: enough for drawing damage.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % below.max(1)
    }
}

/// Checks each event as it comes.
#[derive(Default)]
struct Judge {
    events: u64,
    terminals: u32,
    started: u32,
    deltas: HashMap<u32, String>,
    proposed: Vec<u32>,
    lines: JsonLines,
}

impl Sink for Judge {
    fn event(&mut self, at: At, event: &Event<'_>) {
        assert_eq!((self.terminals, at.seq), (0, self.events), "{} after the end or out of order", event.name());
        self.events += 1;
        self.terminals += u32::from(event.is_terminal());
        let start = self.lines.0.len();
        self.lines.event(at, event);
        let line = &self.lines.0[start..self.lines.0.len() - 1];
        let json: serde_json::Value = serde_json::from_slice(line).expect("an event is JSON on one line");
        match event {
            Event::Started { .. } => self.started += 1,
            Event::IntentDelta { call, arguments_delta, .. } => {
                assert!(!self.proposed.contains(call), "a delta of call {call} after its intent");
                self.deltas.entry(*call).or_default().push_str(&arguments_delta.decode());
            }
            Event::IntentProposed(intent) => {
                assert!(!self.proposed.contains(&intent.call), "call {} proposed twice", intent.call);
                self.proposed.push(intent.call);
                assert!(!intent.tool_name.is_empty());
                assert_eq!(json["input"].is_object(), intent.kind == CallKind::Function);
                if !intent.assembled_from.had_repair {
                    assert!(intent.raw_input_text.is(&self.deltas[&intent.call]), "deltas that do not add up");
                }
            }
            _ => {}
        }
    }
}

fn judge(protocol: Protocol, pieces: &[&[u8]], end: End) -> Vec<u8> {
    let (mut decoder, mut judge) = (Decoder::new(DecoderConfig::new(protocol)), Judge::default());
    for piece in pieces {
        decoder.feed(piece, &mut judge);
    }
    decoder.finish(end, &mut judge);
    assert_eq!((judge.terminals, decoder.is_done()), (1, true));
    assert!(judge.started <= 1);
    judge.lines.0
}

/// The streams of a family, each as its frames: what is inside of a frame where that has lengths and checksums, which are
/// made anew once the damage is done.
fn streams(protocol: Protocol) -> Vec<Vec<Vec<u8>>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/streams").join(protocol.name());
    let mut found = Vec::new();
    for group in ["ok", "bad", "hostile"] {
        let mut paths: Vec<_> = std::fs::read_dir(root.join(group)).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let bytes = || std::fs::read(&path).unwrap();
            match path.extension().and_then(|e| e.to_str()) {
                Some("sse") => found.push(split(&bytes(), b"\n\n")),
                Some("ndjson") => found.push(split(&bytes(), b"\n")),
                Some("eventstream") => found.push(messages(&bytes())),
                _ => {}
            }
        }
    }
    found
}

fn split(bytes: &[u8], end: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = vec![Vec::new()];
    for &byte in bytes {
        let last = frames.last_mut().expect("there is one");
        last.push(byte);
        if last.ends_with(end) {
            frames.push(Vec::new());
        }
    }
    frames.retain(|frame| !frame.is_empty());
    frames
}

/// Each message as its headers in one line and what it holds; a chunk of Invoke as what its base64 holds.
fn messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    // A stream that breaks off gives what came before.
    let _ = EventStream::default().feed(bytes, &mut |message| {
        let mut frame = Vec::new();
        for (name, value) in message.headers() {
            if let Value::String(value) = value {
                frame.extend_from_slice(&[name, "=", value, ";"].concat().into_bytes());
            }
        }
        frame.push(b'\n');
        let inner = serde_json::from_slice::<serde_json::Value>(message.payload).ok();
        let inner = inner.and_then(|json| STANDARD.decode(json.get("bytes")?.as_str()?).ok());
        frame.extend_from_slice(inner.as_deref().unwrap_or(message.payload));
        frames.push(frame);
        true
    });
    frames
}

/// The bytes of damaged frames, with lengths and checksums that are right.
fn joined(protocol: Protocol, frames: &[Vec<u8>]) -> Vec<u8> {
    match protocol {
        Protocol::BedrockConverse | Protocol::BedrockInvoke => {
            frames.iter().flat_map(|frame| sealed(frame, protocol == Protocol::BedrockInvoke)).collect()
        }
        _ => frames.concat(),
    }
}

fn sealed(frame: &[u8], is_chunk: bool) -> Vec<u8> {
    let (head, inner) =
        frame.iter().position(|b| *b == b'\n').map_or((&[][..], frame), |at| (&frame[..at], &frame[at + 1..]));
    let mut headers = Vec::new();
    for pair in head.split(|b| *b == b';') {
        let Some(at) = pair.iter().position(|b| *b == b'=').filter(|at| (1..=255).contains(at)) else { continue };
        let (name, value) = (&pair[..at], &pair[at + 1..]);
        headers.push(u8::try_from(name.len()).unwrap());
        headers.extend_from_slice(name);
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        headers.extend_from_slice(value);
    }
    let payload =
        if is_chunk { format!("{{\"bytes\":\"{}\"}}", STANDARD.encode(inner)).into_bytes() } else { inner.to_vec() };
    let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
    let mut out = [total, u32::try_from(headers.len()).unwrap()].map(u32::to_be_bytes).concat();
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(&headers);
    out.extend_from_slice(&payload);
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}

fn damage(frames: &mut Vec<Vec<u8>>, others: &[Vec<Vec<u8>>], dice: &mut Dice) {
    frames.retain(|frame| !frame.is_empty());
    if frames.is_empty() {
        frames.push(b"\n\n".to_vec());
    }
    let at = dice.roll(frames.len());
    match dice.roll(9) {
        0 => {
            frames.remove(at);
        }
        1 => frames.insert(at, frames[dice.roll(frames.len())].clone()),
        2 => {
            let to = dice.roll(frames.len());
            frames.swap(at, to);
        }
        3 => {
            let other = &others[dice.roll(others.len())];
            frames.insert(at, other[dice.roll(other.len())].clone());
        }
        4 => {
            let byte = dice.roll(frames[at].len());
            frames[at][byte] = b"\"{}[]:,\\0 \n\xff"[dice.roll(12)];
        }
        5 => {
            let keep = dice.roll(frames[at].len());
            frames[at].truncate(keep);
        }
        6 => swap_words(&mut frames[at], dice),
        7 => {
            let (from, to) =
                [("\"index\"", "\"idx\""), ("output_index", "outdex"), ("\"type\"", "\"kind\""), ("item_id", "id")]
                    [dice.roll(4)];
            let text = String::from_utf8_lossy(&frames[at]).replace(from, to);
            frames[at] = text.into_bytes();
        }
        _ => frames.truncate(at + 1),
    }
}

/// Puts one value of a frame in the place of another.
fn swap_words(frame: &mut Vec<u8>, dice: &mut Dice) {
    let values = [
        &b"null"[..],
        b"{}",
        b"[]",
        b"0",
        b"-1",
        b"\"\"",
        b"true",
        b"1e99",
        b"\"\\ud83d\\ude00\"",
        b"{\"type\":\"x\"}",
    ];
    let colons: Vec<usize> =
        (0..frame.len()).filter(|&i| frame[i] == b':' && frame.get(i + 1) == Some(&b'"')).collect();
    let Some(&colon) = colons.get(dice.roll(colons.len())) else { return };
    let end = (colon + 2..frame.len()).find(|&i| frame[i] == b'"' && frame[i - 1] != b'\\').unwrap_or(frame.len() - 1);
    frame.splice(colon + 1..=end, values[dice.roll(values.len())].iter().copied());
}

#[test]
fn damaged_streams_end_once_and_propose_nothing_they_may_not() {
    for protocol in Protocol::ALL {
        let streams = streams(protocol);
        assert!(streams.len() >= 15, "only {} streams of {}", streams.len(), protocol.name());
        let mut dice = Dice(0x5eed_0001);
        for round in 0..40 {
            for stream in &streams {
                let mut frames = stream.clone();
                for _ in 0..=dice.roll(3) {
                    damage(&mut frames, &streams, &mut dice);
                }
                let body = joined(protocol, &frames);
                let cut = dice.roll(body.len());
                let end = [End::Eof, End::Reset, End::Timeout, End::Aborted][round % 4];
                let whole = judge(protocol, &[&body], end);
                assert!(judge(protocol, &[&body[..cut], &body[cut..]], end) == whole, "a cut at {cut} tells");
            }
        }
    }
}

/// How long `n` frames take.
fn time(protocol: Protocol, n: usize, head: &str, frame: &dyn Fn(usize) -> String) -> Duration {
    let mut body = head.to_owned();
    for i in 0..n {
        body.push_str("data: ");
        body.push_str(&frame(i));
        body.push_str("\n\n");
    }
    let start = Instant::now();
    let (mut decoder, mut sink) = (Decoder::new(DecoderConfig::new(protocol)), Nothing);
    decoder.feed(body.as_bytes(), &mut sink);
    decoder.finish(End::Eof, &mut sink);
    start.elapsed()
}

/// A name, a family, how the stream begins, and its frames.
type Growing = (&'static str, Protocol, String, Box<dyn Fn(usize) -> String>);

struct Nothing;

impl Sink for Nothing {
    fn event(&mut self, _at: At, _event: &Event<'_>) {}
}

#[test]
fn cost_grows_with_the_input_and_not_with_its_square() {
    use Protocol::{AnthropicMessages as A, GoogleGemini as G, OpenaiResponses as R};
    let start = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n";
    let tool = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{}}}\n\n";
    let item = |i: usize, rest: &str| format!("{{\"type\":\"response.output_item.{rest}\",\"id\":\"i{i}\"}}}}");
    let part = |part: String| format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}}}}]}}"#);
    let kinds: [Growing; 12] = [
        (
            "blocks",
            A,
            start.into(),
            Box::new(|i| {
                format!(r#"{{"type":"content_block_start","index":{i},"content_block":{{"type":"text","text":"x"}}}}"#)
            }),
        ),
        (
            "deltas to no block",
            A,
            start.into(),
            Box::new(|i| {
                format!(
                    r#"{{"type":"content_block_delta","index":{i},"delta":{{"type":"input_json_delta","partial_json":"x"}}}}"#
                )
            }),
        ),
        (
            "argument pieces",
            A,
            format!("{start}{tool}"),
            Box::new(|_| {
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"[{\"a\""}}"#.into()
            }),
        ),
        (
            "results",
            A,
            start.into(),
            Box::new(|i| {
                format!(
                    r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"x_tool_result","tool_use_id":"u{i}"}}}}"#
                )
            }),
        ),
        (
            "items",
            R,
            String::new(),
            Box::new(move |i| item(i, &format!("done\",\"output_index\":{i},\"item\":{{\"type\":\"reasoning\""))),
        ),
        (
            "items without an index",
            R,
            String::new(),
            Box::new(move |i| item(i, "done\",\"item\":{\"type\":\"message\"")),
        ),
        (
            "parts of one item",
            R,
            String::new(),
            Box::new(|i| {
                format!(r#"{{"type":"response.output_text.delta","output_index":0,"content_index":{i},"delta":"x"}}"#)
            }),
        ),
        (
            "calls left open",
            R,
            String::new(),
            Box::new(|i| {
                format!(r#"{{"type":"response.function_call_arguments.delta","output_index":{i},"delta":"{{"}}"#)
            }),
        ),
        (
            "text",
            R,
            String::new(),
            Box::new(|_| {
                r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"x\u00e9"}"#.into()
            }),
        ),
        (
            "values of one list",
            G,
            format!("data: {}\n\n", part(r#"{"functionCall":{"name":"f","willContinue":true}}"#.into())),
            Box::new(move |i| {
                let piece = format!(r#"{{"jsonPath":"$.a[{i}].b","stringValue":"x"}}"#);
                part(format!(r#"{{"functionCall":{{"partialArgs":[{piece}],"willContinue":true}}}}"#))
            }),
        ),
        ("calls", G, String::new(), Box::new(move |_| part(r#"{"functionCall":{"name":"f","args":{}}}"#.into()))),
        ("signed texts", G, String::new(), Box::new(move |_| part(r#"{"text":"é","thoughtSignature":"s"}"#.into()))),
    ];
    for (name, protocol, head, frame) in kinds {
        // Sixteen runs of a size against one of sixteen times the size: about the same where work is linear, sixteen
        // times as long where it is quadratic. Six is room for noise. On a machine that is busy with other things a run
        // may be interrupted, so the best counts, of as many tries as are needed and at most twenty.
        let (mut of_small, mut of_large) = (Duration::MAX, Duration::MAX);
        let linear = (0..20).any(|_| {
            of_small = of_small.min((0..16).map(|_| time(protocol, 1_000, &head, &frame)).sum());
            of_large = of_large.min(time(protocol, 16_000, &head, &frame));
            of_large < of_small * 6
        });
        assert!(linear, "{name}: sixteen runs take {of_small:?}, one of sixteen times the size {of_large:?}");
    }
}
