//! Content codings: whole, in any split, event by event, bounded, and never cut without a word.

mod support;

use std::io::Write;
use std::time::Duration;

use headrace_http1::BodyError;
use headrace_kernel::{Cause, Scratch, limits};
use headrace_scripted::{Framing, Play, Reply, ReplyBuilder, Script, Upstream};
use support::{client, failure, fetch, get, run};

const CODINGS: [&str; 3] = ["gzip", "br", "zstd"];

/// The pieces, each flushed by itself, as a server that streams does.
fn encode(coding: &str, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            for piece in pieces {
                encoder.write_all(piece).unwrap();
                encoder.flush().unwrap();
                out.push(std::mem::take(encoder.get_mut()));
            }
            out.push(encoder.finish().unwrap());
        }
        "br" => {
            let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
            for piece in pieces {
                encoder.write_all(piece).unwrap();
                encoder.flush().unwrap();
                out.push(encoder.get_ref().clone());
                // The writer gives no way to take its bytes, so each piece is what is new.
                let before: usize = out.iter().rev().skip(1).map(Vec::len).sum();
                let last = out.last_mut().unwrap();
                *last = last.split_off(before);
            }
            let before: usize = out.iter().map(Vec::len).sum();
            out.push(encoder.into_inner().split_off(before));
        }
        _ => {
            let mut context = zstd_safe::CCtx::create();
            for (i, piece) in pieces.iter().enumerate() {
                let mut buffer = vec![0; piece.len() + 1024];
                let mut target = zstd_safe::OutBuffer::around(&mut buffer[..]);
                let mut source = zstd_safe::InBuffer::around(piece);
                let last = i + 1 == pieces.len();
                let directive = if last {
                    zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_end
                } else {
                    zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush
                };
                assert_eq!(context.compress_stream2(&mut target, &mut source, directive), Ok(0));
                let len = target.pos();
                buffer.truncate(len);
                out.push(buffer);
            }
        }
    }
    out
}

fn coded(coding: &str) -> ReplyBuilder {
    Reply::stream().header("content-encoding", coding)
}

fn text() -> Vec<u8> {
    (0..4000u32)
        .flat_map(|i| format!("data: {{\"n\":{i},\"x\":{}}}\n\n", i.wrapping_mul(2_654_435_761)).into_bytes())
        .collect()
}

#[test]
fn every_coding_in_every_split() {
    run(async {
        let text = text();
        for coding in CODINGS {
            let bytes = encode(coding, &[&text]).concat();
            let script = Script::new()
                .route("/whole", vec![Reply::status(200).header("content-encoding", coding).data(bytes.clone()).end()])
                .route("/drip", vec![coded(coding).drip(bytes.clone(), 97, Duration::ZERO).end()])
                .route("/close", vec![coded(coding).framing(Framing::Close).data(bytes.clone()).end()]);
            let (upstream, client) = (Upstream::start(script).unwrap(), client());
            for path in ["/whole", "/drip", "/close"] {
                let (_, body) = fetch(&client, get(&upstream.url(path))).await.unwrap();
                assert_eq!(body, text, "{coding} {path}");
            }
            let mut attempt = client.attempt(get(&upstream.url("/whole")));
            attempt.head().await.unwrap();
            let (mut scratch, mut body) = (Scratch::new(), Vec::new());
            while !attempt.read(&mut scratch, 13).await.unwrap().end {
                assert!(!scratch.is_empty() && scratch.len() <= 13);
                assert_eq!(scratch.raw_chunks(), None, "coded chunks are not the client's");
                scratch.pieces().for_each(|piece| body.extend_from_slice(piece));
            }
            scratch.pieces().for_each(|piece| body.extend_from_slice(piece));
            assert_eq!(body, text, "{coding} in small reads");
        }
    });
}

#[test]
fn an_event_is_there_as_soon_as_its_bytes_are() {
    run(async {
        for coding in CODINGS {
            let events: [&[u8]; 3] = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"];
            let mut reply = coded(coding);
            for (i, piece) in encode(coding, &events).into_iter().enumerate() {
                reply = reply.data(piece).gate(&format!("g{i}"));
            }
            let upstream = Upstream::start(Script::always(reply.end())).unwrap();
            let mut attempt = client().attempt(get(&upstream.url("/")));
            attempt.head().await.unwrap();
            for (i, event) in events.iter().enumerate() {
                let (mut scratch, mut got) = (Scratch::new(), Vec::new());
                while got.len() < event.len() {
                    assert!(!attempt.read(&mut scratch, usize::MAX).await.unwrap().end);
                    scratch.pieces().for_each(|piece| got.extend_from_slice(piece));
                }
                assert_eq!(got, *event, "{coding} before the next piece was sent");
                upstream.open(&format!("g{i}"));
            }
            upstream.open("g3");
            assert_eq!(support::rest(&mut attempt).await.unwrap(), b"");
        }
    });
}

#[test]
fn a_bomb_costs_what_is_asked_for() {
    run(async {
        let zeros = vec![0; 32 << 20];
        for coding in CODINGS {
            let bytes = encode(coding, &[&zeros]).concat();
            assert!(bytes.len() < 100_000);
            let script = Script::always(Reply::status(200).header("content-encoding", coding).data(bytes).end());
            let (upstream, client) = (Upstream::start(script).unwrap(), client());
            let mut attempt = client.attempt(get(&upstream.url("/")));
            attempt.head().await.unwrap();
            let (mut scratch, mut total) = (Scratch::new(), 0);
            loop {
                let got = attempt.read(&mut scratch, usize::MAX).await.unwrap();
                assert!(scratch.len() <= limits::SCRATCH);
                total += scratch.len();
                if got.end {
                    break;
                }
            }
            assert_eq!(total, zeros.len(), "{coding}");
            assert_eq!(client.idle_connections(), 1);
        }
    });
}

#[test]
fn a_coded_body_that_ends_early_is_truncated() {
    run(async {
        let text = text();
        for coding in CODINGS {
            let bytes = encode(coding, &[&text]).concat();
            for half in [1, bytes.len() / 2, bytes.len() - 1] {
                let reply = coded(coding).data(bytes[..half].to_vec()).end();
                let upstream = Upstream::start(Script::always(reply)).unwrap();
                let failure = failure(&client(), get(&upstream.url("/"))).await;
                assert_eq!(failure.cause, Cause::Body(BodyError::Truncated), "{coding} {half}");
                assert_eq!(failure.kind.code(), "stream_interrupted");
            }
            let upstream = Upstream::start(Script::always(coded(coding).data("not coded at all").end())).unwrap();
            let failure = failure(&client(), get(&upstream.url("/"))).await;
            assert!(matches!(failure.cause, Cause::ContentCoding(_) | Cause::Body(BodyError::Truncated)), "{coding}");
        }
    });
}

#[test]
fn no_body_needs_no_coding_and_identity_is_none() {
    run(async {
        for coding in ["gzip", "br", "zstd"] {
            let upstream = Upstream::start(Script::always(coded(coding).end())).unwrap();
            assert_eq!(fetch(&client(), get(&upstream.url("/"))).await.unwrap().1, b"");
        }
        let upstream = Upstream::start(Script::always(coded("identity").data("x").end())).unwrap();
        assert_eq!(fetch(&client(), get(&upstream.url("/"))).await.unwrap().1, b"x");
    });
}

#[test]
fn members_follow_each_other_and_other_codings_are_refused() {
    run(async {
        for coding in ["gzip", "zstd"] {
            let twice = [encode(coding, &[b"ab"]).concat(), encode(coding, &[b"cd"]).concat()].concat();
            let upstream = Upstream::start(Script::always(coded(coding).data(twice).end())).unwrap();
            assert_eq!(fetch(&client(), get(&upstream.url("/"))).await.unwrap().1, b"abcd", "{coding}");
        }
        for coding in ["deflate", "gzip, br", "exi"] {
            let upstream = Upstream::start(Script::always(coded(coding).data("x").play(Play::Stall).end())).unwrap();
            let failure = failure(&client(), get(&upstream.url("/"))).await;
            assert!(matches!(failure.cause, Cause::ContentCoding(_)), "{coding}");
            assert_eq!(failure.kind.code(), "transport");
        }
    });
}
