//! Connections that are kept: when, for how long, and what becomes of dead ones (B4, B8).

mod support;

use std::time::Duration;

use headrace_kernel::{Client, Scratch};
use headrace_scripted::{Framing, Play, Reply, Script, Upstream};
use support::{TICK, client, config, failure, fetch, get, run};

fn always(reply: Reply) -> Upstream {
    Upstream::start(Script::always(reply)).unwrap()
}

async fn fetch_ok(client: &Client, upstream: &Upstream) {
    fetch(client, get(&upstream.url("/"))).await.unwrap();
}

#[test]
fn a_clean_connection_is_used_again() {
    run(async {
        for reply in [Reply::json(200, "{}").end(), Reply::stream().data("x").end(), Reply::json(500, "{}").end()] {
            let (upstream, client) = (always(reply), client());
            for _ in 0..3 {
                fetch_ok(&client, &upstream).await;
                assert_eq!(client.idle_connections(), 1);
            }
            assert_eq!(upstream.facts().connections.len(), 1);
        }
    });
}

#[test]
fn what_is_not_clean_is_closed() {
    run(async {
        let trailing = Reply::raw(vec![Play::Send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab".into())], true);
        let old = Reply::raw(vec![Play::Send("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na".into())], true);
        for reply in [
            Reply::json(200, "{}").close().end(),
            Reply::status(200).framing(Framing::Close).data("x").end(),
            trailing,
            old,
        ] {
            let (upstream, client) = (always(reply), client());
            fetch_ok(&client, &upstream).await;
            assert_eq!(client.idle_connections(), 0);
            upstream.closed(0).await;
        }
    });
}

#[test]
fn endpoints_do_not_share() {
    run(async {
        let (a, b, client) = (always(Reply::json(200, "a").end()), always(Reply::json(200, "b").end()), client());
        for _ in 0..2 {
            assert_eq!(fetch(&client, get(&a.url("/"))).await.unwrap().1, b"a");
            assert_eq!(fetch(&client, get(&b.url("/"))).await.unwrap().1, b"b");
        }
        assert_eq!(client.idle_connections(), 2);
    });
}

#[test]
fn idle_connections_are_evicted_by_age_and_count() {
    run(async {
        let upstream = always(Reply::json(200, "{}").end());
        let mut settings = config();
        settings.idle_age = TICK * 4;
        let client = Client::new(settings);
        fetch_ok(&client, &upstream).await;
        assert!(upstream.closed(0).await.closed_by_client, "too old");
        assert_eq!(client.idle_connections(), 0);

        let gated = Upstream::start(Script::always(Reply::stream().data("x").gate("g").end())).unwrap();
        let mut settings = config();
        settings.idle_per_endpoint = 2;
        let client = Client::new(settings);
        let mut attempts: Vec<_> = (0..4).map(|_| client.attempt(get(&gated.url("/")))).collect();
        for attempt in &mut attempts {
            attempt.head().await.unwrap();
        }
        gated.open("g");
        for attempt in &mut attempts {
            support::rest(attempt).await.unwrap();
        }
        assert_eq!(client.idle_connections(), 2, "too many");
        gated.until(|facts| facts.open_connections() == 2).await;
        assert!(gated.closed(0).await.closed_by_client, "the oldest goes first");
    });
}

#[test]
fn a_connection_that_its_peer_closed_is_not_used() {
    run(async {
        // The reply is complete and says nothing of closing; then the peer closes.
        let closing = Reply::raw(
            vec![Play::Send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na".into()), Play::Gate("g".into()), Play::Cut],
            false,
        );
        let script = Script::new().route("*", vec![closing, Reply::json(200, "{}").end()]);
        let (upstream, client) = (Upstream::start(script).unwrap(), client());
        fetch_ok(&client, &upstream).await;
        assert_eq!(client.idle_connections(), 1);
        upstream.open("g");
        upstream.closed(0).await;
        fetch_ok(&client, &upstream).await;
        assert_eq!(upstream.facts().connections.len(), 2);
    });
}

#[test]
fn a_reused_connection_that_dies_unanswered_says_so_and_is_not_replayed() {
    run(async {
        for end in [Play::Cut, Play::Reset] {
            let script = Script::new().route(
                "*",
                vec![Reply::json(200, "{}").end(), Reply::raw(vec![end], false), Reply::json(200, "{}").end()],
            );
            let (upstream, client) = (Upstream::start(script).unwrap(), client());
            fetch_ok(&client, &upstream).await;
            let failure = failure(&client, get(&upstream.url("/"))).await;
            assert!(failure.reused_socket && failure.died_unanswered(), "{failure:?}");
            assert_eq!((failure.kind.code(), failure.phase.code()), ("transport", "head"));
            assert!(failure.kind.retryable() && failure.bytes_sent > 0 && failure.bytes_received == 0);
            assert_eq!(upstream.facts().request_count, 2, "no replay");
            fetch_ok(&client, &upstream).await;
        }
    });
}

#[test]
fn a_fresh_connection_that_dies_is_not_called_reused() {
    run(async {
        let upstream = always(Reply::raw(vec![Play::Cut], false));
        let failure = failure(&client(), get(&upstream.url("/"))).await;
        assert!(!failure.reused_socket && !failure.died_unanswered());
    });
}

#[test]
fn a_released_attempt_drains_its_end_and_is_used_again() {
    run(async {
        let reply = Reply::stream().data("data: [DONE]\n\n").gate("end").end();
        let (upstream, client) = (always(reply), client());
        let mut attempt = client.attempt(get(&upstream.url("/")));
        attempt.head().await.unwrap();
        assert!(!attempt.read(&mut Scratch::new(), usize::MAX).await.unwrap().end);
        upstream.open("end");
        upstream.until(|facts| facts.replies == 1).await;
        attempt.release();
        fetch_ok(&client, &upstream).await;
        assert_eq!(upstream.facts().connections.len(), 1, "the last chunk was drained");
    });
}

#[test]
fn a_released_attempt_whose_body_stays_open_is_closed() {
    run(async {
        let chatty = Reply::stream().data("data: [DONE]\n\n").data(vec![b'x'; 64 << 20]).end();
        for reply in [Reply::stream().data("data: [DONE]\n\n").play(Play::Stall).end(), chatty] {
            let (upstream, client) = (always(reply), client());
            let mut attempt = client.attempt(get(&upstream.url("/")));
            attempt.head().await.unwrap();
            assert!(!attempt.read(&mut Scratch::new(), 20).await.unwrap().end);
            attempt.release();
            let facts = upstream.closed(0).await;
            assert!(facts.closed_by_client && facts.written < 32 << 20, "{facts:?}");
            assert_eq!(client.idle_connections(), 0);
        }
    });
}

#[test]
fn a_release_before_the_answer_is_a_drop() {
    run(async {
        let upstream = always(Reply::raw(vec![Play::Stall], false));
        let client = client();
        let mut attempt = client.attempt(get(&upstream.url("/")));
        tokio::select! {
            biased;
            _ = attempt.head() => unreachable!("nobody answers"),
            () = upstream.requests(1) => {}
        }
        attempt.release();
        assert!(upstream.closed(0).await.closed_by_client);
        assert_eq!(client.idle_connections(), 0);
    });
}

#[test]
fn the_ticker_ends_and_starts_again() {
    run(async {
        let upstream = always(Reply::json(200, "{}").end());
        let mut settings = config();
        settings.idle_age = Duration::ZERO;
        let client = Client::new(settings);
        for n in 0..3 {
            fetch_ok(&client, &upstream).await;
            // Nothing is left to watch: the ticker ends. What follows must bring it back.
            upstream.closed(n).await;
            tokio::time::sleep(TICK * 3).await;
        }
        let stalled = always(Reply::raw(vec![Play::Stall], false));
        let mut spec = get(&stalled.url("/"));
        spec.deadlines.first_byte = Some(TICK * 2);
        assert_eq!(failure(&client, spec).await.kind.code(), "timeout");
    });
}
