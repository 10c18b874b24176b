//! What the tests of this crate share: where the recordings lie, and how to read their rows.
#![allow(dead_code, reason = "each test binary uses its part")]
#![expect(clippy::disallowed_methods, reason = "tests may read files and the environment; the codec may not")]

use std::path::{Path, PathBuf};

use headrace_codec::event::JsonLines;
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use serde_json::Value;

/// The folder of shared material, or `None` with a word on standard error: a skipped test must be seen.
pub fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("HEADRACE_SHARED").map_or(beside, PathBuf::from);
    if root.join("recordings").is_dir() {
        return Some(root);
    }
    eprintln!("SKIPPED: no recordings at {} (set HEADRACE_SHARED)", root.display());
    None
}

pub fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The rows of a JSON-lines file.
pub fn rows(path: &Path) -> Vec<Value> {
    let text = String::from_utf8(bytes(path)).expect("UTF-8");
    text.lines().filter(|l| !l.trim().is_empty()).map(|l| serde_json::from_str(l).expect("JSON")).collect()
}

/// The headers that a recording came with.
pub fn headers(row: &Value) -> Vec<(String, String)> {
    let pairs = row["headers"].as_object().into_iter().flatten();
    pairs.map(|(n, v)| (n.clone(), v.as_str().unwrap_or_default().to_owned())).collect()
}

/// Feeds the pieces and the end; the events as JSON objects.
#[must_use]
pub fn decode(config: DecoderConfig, pieces: &[&[u8]], end: End) -> Vec<Value> {
    let lines = decode_lines(config, pieces, end);
    let text = String::from_utf8(lines).expect("events are UTF-8");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// Feeds the pieces and the end; the events as JSON lines.
#[must_use]
pub fn decode_lines(config: DecoderConfig, pieces: &[&[u8]], end: End) -> Vec<u8> {
    let (mut decoder, mut sink) = (Decoder::new(config), JsonLines::default());
    for piece in pieces {
        decoder.feed(piece, &mut sink);
    }
    decoder.finish(end, &mut sink);
    assert!(decoder.is_done());
    let before = sink.0.len();
    decoder.feed(b"data: {\"choices\":[{\"delta\":{\"content\":\"late\"}}]}\n\n", &mut sink);
    decoder.finish(End::Reset, &mut sink);
    assert_eq!(sink.0.len(), before, "nothing comes after the terminal");
    sink.0
}

/// Standard base64 with padding.
#[must_use]
pub fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut have) = (Vec::new(), 0u32, 0);
    for byte in text.bytes().filter(|b| *b != b'=') {
        let value = ALPHABET.iter().position(|a| *a == byte).expect("base64");
        bits = bits << 6 | value as u32;
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    out
}

/// Bytes as standard base64 with padding.
#[must_use]
pub fn to_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let sextet = (word >> (18 - 6 * at) & 63) as usize;
            out.push(if at <= three.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    out
}

/// The files of a folder.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Compares with a file of expected events; writes it where `HEADRACE_BLESS` is set.
pub fn compare(expected: &Path, got: &[u8]) {
    if std::env::var_os("HEADRACE_BLESS").is_some() {
        std::fs::write(expected, got).expect("writable");
    }
    let want = bytes(expected);
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    assert_eq!(text(got), text(&want), "{}", expected.display());
}

/// The events without what tells where they stood.
#[must_use]
pub fn without_offsets(events: &[Value]) -> Vec<Value> {
    let mut events = events.to_vec();
    for event in &mut events {
        let event = event.as_object_mut().expect("an object");
        event.remove("offset");
        event.remove("assembled_from");
    }
    events
}
