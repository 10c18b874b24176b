//! The five deadlines: each fires, says which it was, closes the connection, and counts only what it should.

mod support;

use std::time::{Duration, Instant};

use headrace_kernel::deadlines::Deadline;
use headrace_kernel::{AttemptSpec, Cause, Deadlines, Failure, Scratch};
use headrace_scripted::{Play, Reply, Script, Upstream};
use support::{TICK, client, failure, get, rest, run};

const SHORT: Option<Duration> = Some(Duration::from_millis(30));

fn with(url: &str, deadlines: Deadlines) -> AttemptSpec {
    AttemptSpec { deadlines, ..get(url) }
}

fn is(failure: &Failure, deadline: Deadline, phase: &str) {
    assert_eq!((failure.kind.code(), failure.phase.code()), ("timeout", phase), "{failure}");
    assert_eq!(failure.cause, Cause::Deadline(deadline));
}

#[test]
fn connect_covers_the_handshake() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let begun = Instant::now();
        let failure = failure(&client(), with(&url, Deadlines { connect: SHORT, ..Deadlines::default() })).await;
        is(&failure, Deadline::Connect, "connect");
        assert!(begun.elapsed() >= SHORT.unwrap(), "never early");
    });
}

#[test]
fn first_byte_ends_with_the_head() {
    run(async {
        let upstream = Upstream::start(
            Script::new()
                .route("/mute", vec![Reply::raw(vec![Play::Stall], false)])
                .route("/half", vec![Reply::raw(vec![Play::Send("HTTP/1.1 200 OK\r\n".into()), Play::Stall], false)])
                .route("/head", vec![Reply::stream().data("x").gate("go").data("y").end()]),
        )
        .unwrap();
        let deadlines = Deadlines { first_byte: SHORT, ..Deadlines::default() };
        for path in ["/mute", "/half"] {
            is(&failure(&client(), with(&upstream.url(path), deadlines)).await, Deadline::FirstByte, "head");
        }
        assert!(upstream.closed(0).await.closed_by_client && upstream.closed(1).await.closed_by_client);
        let mut attempt = client().attempt(with(&upstream.url("/head"), deadlines));
        attempt.head().await.unwrap();
        let begun = Instant::now();
        let reading = async {
            let body = rest(&mut attempt).await;
            assert!(begun.elapsed() >= SHORT.unwrap() * 2);
            body
        };
        let opening = async {
            tokio::time::sleep(SHORT.unwrap() * 2 + TICK).await;
            upstream.open("go");
        };
        assert_eq!(tokio::join!(reading, opening).0.unwrap(), b"xy", "the body is not its concern");
    });
}

#[test]
fn idle_is_silence_and_any_byte_breaks_it() {
    run(async {
        let piece = Duration::from_millis(20);
        let drip = Reply::stream().drip(": ping\n\n".repeat(10), 8, piece).play(Play::Stall).end();
        let upstream = Upstream::start(Script::always(drip)).unwrap();
        let deadlines = Deadlines { idle: Some(Duration::from_millis(100)), ..Deadlines::default() };
        let begun = Instant::now();
        let failure = failure(&client(), with(&upstream.url("/"), deadlines)).await;
        is(&failure, Deadline::Idle, "streaming");
        assert!(begun.elapsed() >= piece * 10 + Duration::from_millis(100), "pings were life: {:?}", begun.elapsed());
        assert!(failure.bytes_received > 80);
        assert!(upstream.closed(0).await.closed_by_client);
    });
}

#[test]
fn content_is_what_the_owner_says_it_is() {
    run(async {
        let endless = Reply::stream().drip(": ping\n\n".repeat(1000), 8, Duration::from_millis(5)).end();
        let upstream = Upstream::start(Script::always(endless)).unwrap();
        let deadlines = Deadlines { content: Some(Duration::from_millis(60)), idle: SHORT, ..Deadlines::default() };
        let client = client();
        let mut attempt = client.attempt(with(&upstream.url("/"), deadlines));
        attempt.head().await.unwrap();
        let (mut scratch, begun) = (Scratch::new(), Instant::now());
        let failure = loop {
            match attempt.read(&mut scratch, usize::MAX).await {
                Ok(_) if begun.elapsed() < Duration::from_millis(150) => attempt.content_seen(),
                Ok(_) => {}
                Err(failure) => break failure,
            }
        };
        is(&failure, Deadline::Content, "streaming");
        assert!(begun.elapsed() >= Duration::from_millis(150 + 60 - 10), "seen content put it off");
    });
}

#[test]
fn total_counts_everything() {
    run(async {
        let endless = Reply::stream().drip("x".repeat(10_000), 1, Duration::from_millis(5)).end();
        let upstream = Upstream::start(Script::always(endless)).unwrap();
        let deadlines = Deadlines { total: Some(Duration::from_millis(60)), ..Deadlines::default() };
        is(&failure(&client(), with(&upstream.url("/"), deadlines)).await, Deadline::Total, "streaming");
        assert!(upstream.closed(0).await.closed_by_client);
    });
}

#[test]
fn a_slow_owner_is_no_silence() {
    run(async {
        let upstream = Upstream::start(Script::always(Reply::stream().data("a").gate("g").data("b").end())).unwrap();
        let deadlines = Deadlines { idle: SHORT, content: SHORT, ..Deadlines::default() };
        let mut attempt = client().attempt(with(&upstream.url("/"), deadlines));
        attempt.head().await.unwrap();
        let mut scratch = Scratch::new();
        attempt.read(&mut scratch, usize::MAX).await.unwrap();
        // The owner is away for longer than both deadlines: that is what this waits for, by the clock itself.
        tokio::time::sleep(SHORT.unwrap() * 4).await;
        upstream.open("g");
        assert_eq!(rest(&mut attempt).await.unwrap(), b"b");
    });
}
