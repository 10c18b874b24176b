//! One attempt: what it sends, what it gives, what it tells of itself.

mod support;

use bytes::Bytes;
use headrace_kernel::{AttemptSpec, Cause, Got, Scratch, Step, StepState};
use headrace_scripted::{Framing, Play, Reply, Script, Upstream};
use support::{client, fetch, get, post, rest, run};

fn upstream(reply: Reply) -> Upstream {
    Upstream::start(Script::always(reply)).unwrap()
}

#[test]
fn a_request_arrives_as_it_was_given() {
    run(async {
        let upstream = upstream(Reply::json(200, "{}").header("x-request-id", "r1").end());
        let spec = AttemptSpec {
            headers: vec![("authorization".into(), "Bearer k".into()), ("X-Two".into(), "b".into())],
            body: vec![Bytes::from_static(b"{\"a\":"), Bytes::new(), Bytes::from_static(b"1}")],
            ..post(&upstream.url("/v1/chat?x=1"), "")
        };
        let (head, body) = fetch(&client(), spec).await.unwrap();
        assert_eq!((head.status, body.as_slice()), (200, &b"{}"[..]));
        assert!(head.headers.contains(&("content-type".into(), "application/json".into())));
        assert_eq!(head.passed(), [("x-request-id", "r1")], "rule R18 decides what a client may see");
        let seen = &upstream.facts().requests[0];
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/v1/chat?x=1"));
        assert_eq!(seen.body, b"{\"a\":1}");
        assert_eq!(seen.header("content-length"), Some("7"));
        assert_eq!(seen.header("host"), Some(upstream.address().to_string().as_str()));
        assert_eq!((seen.header("authorization"), seen.header("x-two")), (Some("Bearer k"), Some("b")));
    });
}

#[test]
fn chunks_come_as_pieces_and_may_pass_raw() {
    run(async {
        let upstream = upstream(Reply::stream().data("data: 1\n\n").data("data: 2\n\n").gate("more").data("x").end());
        let mut attempt = client().attempt(get(&upstream.url("/")));
        attempt.head().await.unwrap();
        upstream.until(|facts| facts.connections[0].waiting).await;
        let (mut scratch, mut body, mut raw) = (Scratch::new(), Vec::new(), Vec::new());
        while body.len() < 18 {
            assert_eq!(attempt.read(&mut scratch, usize::MAX).await.unwrap(), Got { end: false });
            scratch.pieces().for_each(|piece| body.extend_from_slice(piece));
            raw.extend_from_slice(scratch.raw_chunks().expect("reads of whole chunks"));
        }
        assert_eq!(body, b"data: 1\n\ndata: 2\n\n");
        assert_eq!(raw, b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n");
        upstream.open("more");
        let got = attempt.read(&mut scratch, usize::MAX).await.unwrap();
        let end = if got.end { got } else { attempt.read(&mut scratch, usize::MAX).await.unwrap() };
        assert!(end.end);
        assert_eq!(attempt.read(&mut scratch, 1).await.unwrap(), Got { end: true }, "the end stays the end");
        assert!(scratch.is_empty());
    });
}

#[test]
fn small_reads_give_the_same_body() {
    run(async {
        let data: Vec<u8> = (0..50_000u32).map(|i| i as u8).collect();
        for framing in [Framing::Chunked, Framing::Length, Framing::Close] {
            let upstream = upstream(Reply::status(200).framing(framing).data(data.clone()).data(data.clone()).end());
            for max in [1, 7, 4096, usize::MAX] {
                let client = client();
                let mut attempt = client.attempt(get(&upstream.url("/")));
                attempt.head().await.unwrap();
                let (mut scratch, mut body) = (Scratch::new(), Vec::new());
                loop {
                    let got = attempt.read(&mut scratch, max).await.unwrap();
                    assert!(scratch.len() <= max);
                    let joined: Vec<u8> = scratch.pieces().flatten().copied().collect();
                    assert_eq!(scratch.compact(), joined);
                    body.extend_from_slice(&joined);
                    if got.end {
                        break;
                    }
                    assert!(!joined.is_empty());
                    if max == 1 && body.len() > 300 {
                        break;
                    }
                }
                assert_eq!(body, [data.clone(), data.clone()].concat()[..body.len()], "{framing:?} {max}");
            }
        }
    });
}

#[test]
fn answers_without_a_body_have_none() {
    run(async {
        let head_only = Play::Send(Bytes::from_static(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"));
        let script = Script::new()
            .route("/head", vec![Reply::raw(vec![head_only], true)])
            .route("/204", vec![Reply::status(204).end()])
            .route("/304", vec![Reply::status(304).end()])
            .route("/empty", vec![Reply::status(500).end()]);
        let (upstream, client) = (Upstream::start(script).unwrap(), client());
        for (path, method, status) in
            [("/head", "HEAD", 200), ("/204", "GET", 204), ("/304", "GET", 304), ("/empty", "GET", 500)]
        {
            let spec = AttemptSpec { method: method.into(), ..get(&upstream.url(path)) };
            let (head, body) = fetch(&client, spec).await.unwrap();
            assert_eq!((head.status, body.len()), (status, 0), "{path}");
        }
        assert_eq!(upstream.facts().connections.len(), 1, "each left the connection clean");
    });
}

#[test]
fn interim_answers_are_passed_over_and_redirects_are_not_followed() {
    run(async {
        let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n";
        let answer = b"HTTP/1.1 307 x\r\nlocation: /other\r\ncontent-length: 2\r\n\r\nok";
        let plays = vec![Play::Send(Bytes::from_static(interim)), Play::Send(Bytes::from_static(answer))];
        let upstream = upstream(Reply::raw(plays, true));
        let (head, body) = fetch(&client(), get(&upstream.url("/"))).await.unwrap();
        assert_eq!((head.status, body.as_slice()), (307, &b"ok"[..]));
        assert!(head.headers.contains(&("location".into(), "/other".into())));
        assert_eq!(upstream.facts().request_count, 1);
    });
}

#[test]
fn an_answer_before_the_request_is_sent_is_an_answer() {
    run(async {
        // A listener that answers the head of a request and never reads its body.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let body = Bytes::from(vec![b'x'; 64 << 20]);
        let client = client();
        let mut attempt = client.attempt(post(&url, body));
        let server = async {
            let (mut peer, _) = listener.accept().await.unwrap();
            let answer = b"HTTP/1.1 413 x\r\ncontent-length: 3\r\n\r\nbig";
            tokio::io::AsyncWriteExt::write_all(&mut peer, answer).await.unwrap();
            peer
        };
        let (head, _peer) = tokio::join!(attempt.head(), server);
        assert_eq!(head.unwrap().status, 413);
        assert_eq!(rest(&mut attempt).await.unwrap(), b"big");
        assert!(attempt.bytes_sent() < 64 << 20);
        assert_eq!(client.idle_connections(), 0, "a request that was not sent to its end leaves no clean connection");
    });
}

#[test]
fn the_trace_and_the_counts_tell_what_happened() {
    run(async {
        let (upstream, client) = (upstream(Reply::json(200, "{}").end()), client());
        let mut attempt = client.attempt(post(&upstream.url("/"), "abc"));
        assert_eq!(attempt.trace().events().count(), 0, "nothing happens before the first poll");
        attempt.head().await.unwrap();
        rest(&mut attempt).await.unwrap();
        let steps: Vec<_> = attempt.trace().events().map(|e| (e.step, e.state)).collect();
        let both = |step| [(step, StepState::Started), (step, StepState::Complete)];
        assert_eq!(steps, [both(Step::Connect), both(Step::Send), both(Step::Head), both(Step::Body)].concat());
        let times: Vec<_> = attempt.trace().events().map(|e| e.at_s).collect();
        assert!(times.is_sorted() && attempt.trace().completed_s(Step::Body) == times.last().copied());
        upstream.until(|facts| facts.replies == 1).await;
        let facts = upstream.facts();
        assert_eq!(attempt.bytes_received(), facts.connections[0].written);
        assert!(attempt.bytes_sent() > 3 && !attempt.reused_socket());

        let mut second = client.attempt(get(&upstream.url("/")));
        second.head().await.unwrap();
        assert!(second.reused_socket());
        assert_eq!(
            second.trace().events().next().map(|e| e.step),
            Some(Step::Send),
            "a reused socket connects nowhere"
        );
    });
}

#[test]
fn a_spec_that_would_split_the_request_is_not_sent() {
    run(async {
        let (upstream, client) = (upstream(Reply::json(200, "{}").end()), client());
        for (name, value) in [("a", "b\r\nc: d"), ("content-length", "9"), ("a b", "c")] {
            let spec = AttemptSpec { headers: vec![(name.into(), value.into())], ..get(&upstream.url("/")) };
            let failure = support::failure(&client, spec).await;
            assert!(matches!(failure.cause, Cause::Unsendable(_)), "{failure:?}");
            assert_eq!((failure.kind.code(), failure.bytes_sent), ("bad_request", 0));
        }
        assert_eq!(upstream.facts().request_count, 0);
    });
}
