//! Every recording of every family that is read, at every split: the same events, exactly one terminal.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use headrace_codec::pipeline::{Decoder, DecoderConfig, End, Transport};
use headrace_codec::{At, Event, Protocol, Sink};
use serde_json::Value;

/// The folders of recordings, and the protocol that each is read as.
const FAMILIES: &[(&str, Protocol)] = &[
    ("openai_chat", Protocol::OpenaiChat),
    ("openai_compatible", Protocol::OpenaiChat),
    ("mistral_chat", Protocol::OpenaiChat),
    ("openai_responses", Protocol::OpenaiResponses),
    ("anthropic_messages", Protocol::AnthropicMessages),
    ("bedrock_converse", Protocol::BedrockConverse),
    ("bedrock_invoke", Protocol::BedrockInvoke),
    ("cohere_chat", Protocol::CohereChat),
    ("ollama_chat", Protocol::OllamaChat),
    ("google_gemini", Protocol::GoogleGemini),
];

/// A digest of the events, and what must hold of any order of them.
#[derive(Default)]
struct Digest {
    hash: u64,
    line: Vec<u8>,
    events: u64,
    terminals: u32,
    /// End of the last frame.
    framed: u64,
}

impl Sink for Digest {
    fn event(&mut self, at: At, event: &Event<'_>) {
        assert_eq!(self.terminals, 0, "{} came after the terminal", event.name());
        assert_eq!(at.seq, self.events);
        self.events += 1;
        self.terminals += u32::from(event.is_terminal());
        self.line.clear();
        event.push_json(at, &mut self.line);
        self.hash = hash(self.hash, &self.line);
    }

    fn frame(&mut self, start: u64, end: u64, _mark: headrace_codec::event::FrameMark) {
        assert_eq!(start, self.framed, "frames leave no gap");
        assert!(end >= start);
        self.framed = end;
    }
}

/// A quick hash: billions of bytes go through it, and nobody makes collisions here.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut h = seed ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        h = (h.rotate_left(29) ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    h
}

fn digest(config: &DecoderConfig, pieces: &[&[u8]]) -> (u64, u64) {
    let (mut decoder, mut sink) = (Decoder::new(config.clone()), Digest::default());
    for piece in pieces {
        decoder.feed(piece, &mut sink);
    }
    decoder.finish(End::Eof, &mut sink);
    assert_eq!(sink.terminals, 1, "exactly one terminal");
    assert!(decoder.is_done());
    (sink.hash, sink.events)
}

/// The body as it went over the wire: files of one payload a line lost their framing.
fn body(file: &str, bytes: &[u8], protocol: Protocol) -> Vec<u8> {
    if std::path::Path::new(file).extension().is_none_or(|e| e != "jsonl") {
        return bytes.to_vec();
    }
    let mut out = Vec::new();
    for line in bytes.split(|b| *b == b'\n').filter(|l| !l.trim_ascii().is_empty()) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.extend_from_slice(b"\n\n");
    }
    if protocol == Protocol::OpenaiChat {
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
    out
}

fn config(row: &Value, protocol: Protocol) -> DecoderConfig {
    let mut config = DecoderConfig::new(protocol);
    config.status = row["status"].as_u64().map_or(200, |s| u16::try_from(s).unwrap());
    config.headers = support::headers(row);
    config.transport = Transport::Http;
    config
}

fn recordings() -> Vec<(String, DecoderConfig, Vec<u8>)> {
    let Some(shared) = support::shared() else { return Vec::new() };
    let root = shared.join("recordings");
    let mut found = Vec::new();
    for row in support::rows(&root.join("MANIFEST.jsonl")) {
        let file = row["file"].as_str().unwrap();
        let family = FAMILIES.iter().find(|(folder, _)| file.split('/').next() == Some(folder));
        let Some((_, protocol)) = family else { continue };
        let bytes = body(file, &support::bytes(&root.join(file)), *protocol);
        found.push((file.to_owned(), config(&row, *protocol), bytes));
    }
    assert!(found.len() >= 100, "only {} recordings", found.len());
    found
}

#[test]
fn every_split_of_every_recording_gives_the_same_events() {
    let mut recordings = recordings();
    recordings.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(bytes.len()));
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((file, config, bytes)) = recordings.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(file, config, bytes);
                }
            });
        }
    });
}

fn check(file: &str, config: &DecoderConfig, bytes: &[u8]) {
    let whole = digest(config, &[bytes]);
    // Another API of the vendor's, a part of a message and a prompt that was refused: the terminal is all there is.
    let alone = ["interactions", "malformed-content", "prompt-blocked"].iter().any(|name| file.contains(name));
    assert!(whole.1 > u64::from(!alone), "{file}: only {} events", whole.1);
    for size in [1, 2, 3, 7, 64, 1024, 4096] {
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(digest(config, &pieces), whole, "{file}: pieces of {size}");
    }
    for cut in cuts(bytes) {
        assert_eq!(digest(config, &[&bytes[..cut], &bytes[cut..]]), whole, "{file}: cut at {cut}");
    }
}

/// Every cut of a short recording. Of a long one those around its line ends and some two thousand of the others;
/// `HEADRACE_EVERY_CUT=1` takes all (minutes).
#[expect(clippy::disallowed_methods, reason = "a test may read its own switch")]
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let step = match std::env::var_os("HEADRACE_EVERY_CUT") {
        None if bytes.len() > 12 << 10 => bytes.len() / 2000,
        _ => 1,
    };
    let near_line_end = |at: usize| bytes[at - 1..bytes.len().min(at + 2)].contains(&b'\n');
    (1..bytes.len()).filter(|&at| at % step == 0 || near_line_end(at)).collect()
}

/// A payload with a space before it is read the general way: no frame template is compared, none is learnt.
#[test]
fn frame_templates_change_nothing() {
    let mut compared = 0;
    for (file, config, bytes) in recordings() {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let spaced = text.replace("data: {", "data:  {").replace("data:{", "data:  {");
        if spaced == text {
            continue;
        }
        compared += 1;
        let with = support::without_offsets(&support::decode(config.clone(), &[text.as_bytes()], End::Eof));
        let without = support::without_offsets(&support::decode(config, &[spaced.as_bytes()], End::Eof));
        assert_eq!(with, without, "{file}");
    }
    assert!(compared == 0 || compared >= 80, "only {compared} recordings");
}

#[test]
fn a_chat_that_is_cut_proposes_nothing() {
    for (file, config, bytes) in recordings() {
        // In the other protocols calls end one by one, and those that ended before the cut stand.
        if config.protocol != Protocol::OpenaiChat {
            continue;
        }
        for cut in (0..bytes.len()).step_by(1 + bytes.len() / 500) {
            let events = support::decode(config.clone(), &[&bytes[..cut]], End::Reset);
            let last = events.last().unwrap();
            if last["kind"] == "stream_interrupted" {
                let proposed = events.iter().any(|e| e["type"] == "tool_intent.proposed");
                assert!(!proposed, "{file} cut at {cut} proposes");
            }
        }
    }
}
