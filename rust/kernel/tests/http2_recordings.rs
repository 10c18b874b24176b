//! What a provider really sent, over HTTP/2 and over HTTP/1.1: the same events.

#[path = "support/h2.rs"]
mod serving;
mod support;

use std::collections::HashMap;
use std::path::PathBuf;

use bytes::Bytes;
use headrace_codec::Protocol;
use headrace_codec::event::JsonLines;
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use headrace_kernel::{AttemptSpec, Client, Scratch};
use headrace_scripted::{Reply, Script, Upstream};
use serving::{H2Server, data, play};
use support::{client, get, run};

/// The recorded streams of Anthropic's, or `None` with a word on standard error.
fn recordings() -> Option<Vec<(String, Bytes)>> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("HEADRACE_SHARED").map_or(beside, PathBuf::from).join("recordings/anthropic_messages");
    let Ok(folder) = std::fs::read_dir(&root) else {
        eprintln!("SKIPPED: no recordings at {} (set HEADRACE_SHARED)", root.display());
        return None;
    };
    let paths = folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "sse"));
    let mut found: Vec<_> = paths
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap().into()))
        .collect();
    found.sort();
    Some(found)
}

async fn events(client: &Client, spec: AttemptSpec) -> String {
    let mut attempt = client.attempt(spec);
    let head = attempt.head().await.unwrap();
    let mut config = DecoderConfig::new(Protocol::from_name("anthropic_messages").unwrap());
    (config.status, config.headers) = (head.status, head.headers);
    let (mut decoder, mut sink, mut scratch) = (Decoder::new(config), JsonLines::default(), Scratch::new());
    loop {
        let got = attempt.read(&mut scratch, usize::MAX).await.unwrap();
        scratch.pieces().for_each(|piece| decoder.feed(piece, &mut sink));
        if got.end {
            decoder.finish(End::Eof, &mut sink);
            return String::from_utf8(sink.0).unwrap();
        }
    }
}

#[test]
fn recorded_streams_are_the_same_events() {
    let Some(recordings) = recordings() else { return };
    assert!(recordings.len() >= 10);
    run(async {
        let mut script = Script::new();
        let mut pieces = HashMap::new();
        for (at, (name, body)) in recordings.iter().enumerate() {
            let path = format!("/{name}");
            // Frames that end where no event does.
            let cut = 61 + 97 * (at % 7);
            let parts: Vec<Bytes> =
                (0..body.len()).step_by(cut).map(|n| body.slice(n..body.len().min(n + cut))).collect();
            let reply = parts.iter().fold(Reply::stream(), |reply, part| reply.data(part.clone()));
            script = script.route(&path, vec![reply.end()]);
            pieces.insert(path, parts);
        }
        let older = Upstream::start(script).unwrap();
        let newer =
            H2Server::start(100, move |asked| play(pieces[&asked.path].iter().cloned().map(data).collect())).await;
        let (old, new) = (client(), newer.client());
        for (name, _) in &recordings {
            let path = format!("/{name}");
            let want = events(&old, get(&older.url(&path))).await;
            assert!(want.lines().count() > 2, "{name}");
            assert_eq!(events(&new, AttemptSpec { http2: true, ..get(&newer.url(&path)) }).await, want, "{name}");
        }
        assert_eq!(newer.look(|seen| (seen.connections, seen.asked.len())), (1, recordings.len()));
    });
}
