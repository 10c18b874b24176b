//! The fixtures of our own: every stream and body under `tests/fixtures/streams/FAMILY/{ok,bad,hostile}` gives
//! exactly the events in its `.expected.jsonl`, whole and at every cut.
//!
//! `.sse` is an event stream, `.messages.jsonl` one WebSocket message a line, anything else a body as it came. With
//! `HEADRACE_BLESS=1` the expectations are written anew: read the difference before it is committed.
#![expect(clippy::disallowed_methods, reason = "tests may read files and the environment; the codec may not")]

use std::path::{Path, PathBuf};

use headrace_codec::Protocol;
use headrace_codec::event::JsonLines;
use headrace_codec::pipeline::{Decoder, DecoderConfig, End, Transport};

struct Fixture {
    path: PathBuf,
    /// The folder: `ok`, `bad` or `hostile`.
    group: String,
    config: DecoderConfig,
    body: Vec<u8>,
}

impl Fixture {
    fn expected(&self) -> PathBuf {
        let name = self.path.file_name().and_then(|n| n.to_str()).unwrap();
        let stem = name.split('.').next().unwrap();
        self.path.with_file_name(format!("{stem}.expected.jsonl"))
    }

    fn pieces(&self) -> Vec<&[u8]> {
        match self.config.transport {
            Transport::Http => vec![&self.body],
            Transport::WebSocket => self.body.split(|b| *b == b'\n').filter(|m| !m.is_empty()).collect(),
        }
    }
}

fn fixtures() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/streams");
    let mut found = Vec::new();
    for family in list(&root) {
        let protocol = Protocol::from_name(family.file_name().unwrap().to_str().unwrap()).expect("a family's name");
        for group in list(&family) {
            for path in list(&group) {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                if name.ends_with(".expected.jsonl") {
                    continue;
                }
                let mut config = DecoderConfig::new(protocol);
                config.think_tags = name.starts_with("think-tags");
                if name.ends_with(".messages.jsonl") {
                    config.transport = Transport::WebSocket;
                }
                let body = std::fs::read(&path).unwrap();
                let group = group.file_name().unwrap().to_str().unwrap().to_owned();
                found.push(Fixture { path, group, config, body });
            }
        }
    }
    found
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

fn decode(config: &DecoderConfig, pieces: &[&[u8]]) -> String {
    let (mut decoder, mut sink) = (Decoder::new(config.clone()), JsonLines::default());
    for piece in pieces {
        decoder.feed(piece, &mut sink);
    }
    decoder.finish(End::Eof, &mut sink);
    assert!(decoder.is_done());
    String::from_utf8(sink.0).expect("events are UTF-8")
}

#[test]
fn fixtures_give_the_events_that_are_expected_at_every_cut() {
    let bless = std::env::var_os("HEADRACE_BLESS").is_some();
    let all = fixtures();
    assert!(all.len() >= 120, "only {} fixtures", all.len());
    for fixture in all {
        let name = fixture.path.display();
        let got = decode(&fixture.config, &fixture.pieces());
        if bless {
            std::fs::write(fixture.expected(), &got).unwrap();
        }
        let want = std::fs::read_to_string(fixture.expected()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(got, want, "{name}");
        if fixture.config.transport == Transport::WebSocket {
            continue;
        }
        let bytes: Vec<&[u8]> = fixture.body.chunks(1).collect();
        assert_eq!(decode(&fixture.config, &bytes), want, "{name}, byte by byte");
        for cut in 1..fixture.body.len() {
            let (a, b) = fixture.body.split_at(cut);
            assert_eq!(decode(&fixture.config, &[a, b]), want, "{name}, cut at {cut}");
        }
    }
}

#[test]
fn good_fixtures_finish_and_bad_ones_are_errors() {
    for fixture in fixtures() {
        let events = decode(&fixture.config, &fixture.pieces());
        let events: Vec<serde_json::Value> = events.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let last = events.last().unwrap()["type"].as_str().unwrap();
        let name = fixture.path.display();
        match fixture.group.as_str() {
            "ok" => assert_eq!(last, "model.finished", "{name}"),
            "bad" => assert_eq!(last, "provider.error", "{name}"),
            "hostile" => assert!(matches!(last, "model.finished" | "provider.error"), "{name}"),
            other => panic!("{name}: no such group: {other}"),
        }
        let terminals =
            events.iter().filter(|e| ["model.finished", "provider.error"].contains(&e["type"].as_str().unwrap()));
        assert_eq!(terminals.count(), 1, "{name}");
    }
}

/// A stream that is cut anywhere before its end proposes only calls that were closed, and never finishes unless its end
/// had been said.
#[test]
fn a_cut_fixture_ends_with_an_error_or_with_what_it_had_ended_with() {
    for fixture in fixtures() {
        if fixture.config.transport == Transport::WebSocket {
            continue;
        }
        let name = fixture.path.display();
        let whole = decode(&fixture.config, &fixture.pieces());
        let intents = |events: &str| {
            let lines = events.lines().filter(|l| l.contains("\"type\":\"tool_intent.proposed\""));
            lines.filter_map(|l| l.split_once("\"id\":").map(|(_, rest)| rest.to_owned())).collect::<Vec<_>>()
        };
        let all = intents(&whole);
        for cut in 0..fixture.body.len() {
            let events = decode_cut(&fixture.config, &fixture.body[..cut]);
            let some = intents(&events);
            assert!(all.starts_with(&some), "{name} cut at {cut}: {some:?}");
            let (last, end) = (events.lines().last().unwrap(), whole.lines().last().unwrap());
            // A reason of Chat, Gemini or Bedrock may come before an error does; elsewhere the end that was said is the end.
            let finished = last.contains("\"type\":\"model.finished\"");
            let may_fail = matches!(
                fixture.config.protocol,
                Protocol::OpenaiChat | Protocol::GoogleGemini | Protocol::BedrockConverse | Protocol::BedrockInvoke
            );
            if finished && (end.contains("\"type\":\"model.finished\"") || !may_fail) {
                let reason = last.split_once("\"reason\":").unwrap().1;
                assert!(end.ends_with(reason), "{name} cut at {cut}: {last}");
            }
        }
    }
}

fn decode_cut(config: &DecoderConfig, body: &[u8]) -> String {
    let (mut decoder, mut sink) = (Decoder::new(config.clone()), JsonLines::default());
    decoder.feed(body, &mut sink);
    decoder.finish(End::Reset, &mut sink);
    String::from_utf8(sink.0).expect("events are UTF-8")
}
