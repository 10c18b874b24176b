//! AWS event streams, rung by rung: raw bytes; headers and payloads of noise under checksums that are right; payloads of
//! noise under the names that Bedrock's families know. No bytes panic and no split changes anything.
#![no_main]

mod common;

use common::{Lines, decode};
use headrace_codec::event::Protocol;
use headrace_codec::framing::eventstream::EventStream;
use headrace_codec::pipeline::DecoderConfig;
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 8] = [
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
    "chunk",
    "throttlingException",
];

fuzz_target!(|input: &[u8]| {
    let Some((body, [rung, end, cut_high, cut_low])) = common::split(input) else { return };
    let wire = match rung % 3 {
        0 => body.to_vec(),
        1 => {
            let (headers, payload) = body.split_at(usize::from(rung / 3).min(body.len()));
            sealed(headers, payload)
        }
        _ => body.split(|b| *b == b'\n').flat_map(named).collect(),
    };
    let cut = usize::from(u16::from_be_bytes([cut_high, cut_low])) % (wire.len() + 1);
    let halves = [&wire[..cut], &wire[cut..]];
    assert_eq!(framed(&halves), framed(&[&wire]));
    assert_eq!(framed(&wire.chunks(1).collect::<Vec<_>>()), framed(&[&wire]));
    for protocol in [Protocol::BedrockConverse, Protocol::BedrockInvoke] {
        let mut config = DecoderConfig::new(protocol);
        config.headers = vec![("content-type".into(), "application/vnd.amazon.eventstream".into())];
        let run = |pieces: &[&[u8]]| {
            let mut lines = Lines::default();
            decode(&config, pieces, common::end(end), &mut lines);
            assert_eq!(lines.terminals, 1);
            lines.out
        };
        assert_eq!(run(&halves), run(&[&wire]));
    }
});

/// The messages, where the last one ends, and why it ends there.
fn framed(pieces: &[&[u8]]) -> (Vec<(Vec<u8>, usize, u64)>, Option<u64>) {
    let (mut stream, mut seen) = (EventStream::default(), Vec::new());
    for piece in pieces {
        let fed = stream.feed(piece, &mut |message| {
            seen.push((message.payload.to_vec(), message.headers().count(), message.end));
            true
        });
        if let Err(broken) = fed {
            return (seen, Some(broken.offset));
        }
    }
    (seen, None)
}

/// A line as a message: its first byte picks the name, the rest is the payload.
fn named(line: &[u8]) -> Vec<u8> {
    let Some((first, payload)) = line.split_first() else { return Vec::new() };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    let mut headers = Vec::new();
    let (kind, key) =
        if name.ends_with("Exception") { ("exception", ":exception-type") } else { ("event", ":event-type") };
    for (key, value) in [(key, name), (":message-type", kind)] {
        headers.push(key.len() as u8);
        headers.extend_from_slice(key.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&(value.len() as u16).to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    sealed(&headers, payload)
}

fn sealed(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = 16 + headers.len() + payload.len();
    let mut out = [total as u32, headers.len() as u32].map(u32::to_be_bytes).concat();
    out.extend_from_slice(&crc(&out).to_be_bytes());
    out.extend_from_slice(headers);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc(&out).to_be_bytes());
    out
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |c: u32| if c & 1 == 1 { c >> 1 ^ 0xEDB8_8320 } else { c >> 1 };
    !bytes.iter().fold(!0, |c, b| (0..8).fold(c ^ u32::from(*b), |c, _| step(c)))
}
