//! HTTP/2 towards a provider, against a server of the same library over real TLS: streams share a connection, and one
//! stream's fate is no other's.

#[path = "support/proxy.rs"]
mod proxying;
#[path = "support/h2.rs"]
mod serving;
mod support;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use headrace_kernel::deadlines::Deadline;
use headrace_kernel::{AttemptSpec, Cause, Deadlines, Proxy, Scratch, Step};
use headrace_scripted::{Reply, Script, Upstream};
use proxying::Proxying;
use serving::{Act, H2Server, Play, TICK, data, play};
use support::{failure, fetch, get, post, rest, run};

fn over(spec: AttemptSpec) -> AttemptSpec {
    AttemptSpec { http2: true, ..spec }
}

fn hello(_: &serving::Asked) -> Play {
    play(vec![data("data: 1\n\n"), data("data: 2\n\n")])
}

#[test]
fn a_request_and_its_answer() {
    run(async {
        let server = H2Server::start(100, |asked| match asked.path.as_str() {
            "/trailers" => play(vec![data("x"), Act::Trailers]),
            "/empty" => Play { status: 204, ..play(Vec::new()) },
            _ => hello(asked),
        })
        .await;
        let client = server.client();
        let mut spec = over(post(&server.url("/v1/chat?x=1"), vec![b'x'; 3 << 20]));
        spec.headers = vec![("X-Api-Key".into(), "hush".into()), ("content-type".into(), "application/json".into())];
        let mut attempt = client.attempt(spec);
        let head = attempt.head().await.unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(rest(&mut attempt).await.unwrap(), b"data: 1\n\ndata: 2\n\n");
        assert!(!attempt.reused_socket() && attempt.bytes_sent() > 3 << 20 && attempt.bytes_received() > 18);
        let at = |step| attempt.trace().completed_s(step).expect("the step is there");
        assert!(
            at(Step::Tls) <= at(Step::Send) && at(Step::Send) <= at(Step::Head) && at(Step::Head) <= at(Step::Body)
        );
        let asked = server.look(|seen| seen.asked[0].clone());
        assert_eq!((asked.path.as_str(), asked.body.len()), ("/v1/chat?x=1", 3 << 20));
        assert_eq!(asked.authority, format!("localhost:{}", server.address.port()));
        assert_eq!(
            (&asked.headers["x-api-key"], &asked.headers["content-length"]),
            (&"hush".parse().unwrap(), &"3145728".parse().unwrap())
        );

        drop(attempt);
        let mut attempt = client.attempt(over(get(&server.url("/trailers"))));
        attempt.head().await.unwrap();
        assert!(attempt.reused_socket() && attempt.trace().completed_s(Step::Connect).is_none());
        assert_eq!(rest(&mut attempt).await.unwrap(), b"x", "trailers are nobody's");
        assert_eq!(fetch(&client, over(get(&server.url("/empty")))).await.unwrap().1, b"");
        assert_eq!((server.look(|seen| seen.connections), client.idle_connections()), (1, 1));
        drop((attempt, client));
        server.until(|seen| seen.closed == 1).await;
        assert_eq!(server.look(|seen| seen.resets.len()), 0);
    });
}

#[test]
fn a_spec_that_cannot_be_sent_harms_no_connection() {
    run(async {
        let server = H2Server::start(100, hello).await;
        let client = server.client();
        for (name, value) in [("connection", "close"), ("a b", "x"), ("x", "a\r\nb: c")] {
            let mut spec = over(get(&server.url("/")));
            spec.headers = vec![(name.into(), value.into())];
            let failure = failure(&client, spec).await;
            assert!(matches!(failure.cause, Cause::Unsendable(_)), "{failure:?}");
        }
        fetch(&client, over(get(&server.url("/")))).await.unwrap();
        assert_eq!(server.look(|seen| (seen.connections, seen.asked.len())), (1, 1));
    });
}

#[test]
fn an_endpoint_without_it_is_asked_in_http1() {
    run(async {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
        let leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        let script = Script::always(Reply::stream().data("x").end());
        let upstream = Upstream::start_tls(script, leaf.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap();
        let tls =
            headrace_kernel::TlsConfig::new(headrace_kernel::Roots::OnlyGiven, Some(ca.as_ref().pem().as_bytes()));
        let client = headrace_kernel::Client::new(headrace_kernel::ClientConfig {
            tick: TICK,
            ..headrace_kernel::ClientConfig::new(tls.unwrap())
        });
        let together: Vec<_> = (0..5)
            .map(|_| {
                let (client, spec) = (client.clone(), over(get(&upstream.url("/"))));
                tokio::spawn(async move { fetch(&client, spec).await })
            })
            .collect();
        for one in together {
            assert_eq!(one.await.unwrap().unwrap().1, b"x");
        }
        let before = upstream.facts().connections.len();
        fetch(&client, over(get(&upstream.url("/")))).await.unwrap();
        assert_eq!(upstream.facts().connections.len(), before, "its connections are kept as ever");
    });
}

#[test]
fn it_goes_through_a_tunnel() {
    run(async {
        let server = H2Server::start(100, hello).await;
        let (client, proxy) = (server.client(), Proxying::start(proxying::Act::Lead).await);
        for _ in 0..3 {
            let mut spec = over(get(&server.url("/")));
            spec.url.endpoint.proxy = Some(Arc::new(Proxy::parse(&proxy.url()).unwrap()));
            assert_eq!(fetch(&client, spec).await.unwrap().1, b"data: 1\n\ndata: 2\n\n");
        }
        fetch(&client, over(get(&server.url("/")))).await.unwrap();
        assert_eq!((proxy.heads().len(), server.look(|seen| seen.connections)), (1, 2));
    });
}

#[test]
fn two_hundred_streams_on_one_connection() {
    run(async {
        let server = H2Server::start(256, |asked| {
            let text = format!("data: {}\n\n", asked.path);
            play(vec![data(text.clone()), Act::Gate("go"), data(text.repeat(500))])
        })
        .await;
        let client = server.client();
        let together: Vec<_> = (0..200)
            .map(|at| {
                let (client, spec) = (client.clone(), over(post(&server.url(&format!("/{at}")), "{}")));
                tokio::spawn(async move { (at, fetch(&client, spec).await) })
            })
            .collect();
        server.until(|seen| seen.asked.len() == 200).await;
        server.open("go");
        for one in together {
            let (at, fetched) = one.await.unwrap();
            assert_eq!(fetched.unwrap().1, format!("data: /{at}\n\n").repeat(501).as_bytes());
        }
        assert_eq!(server.look(|seen| seen.connections), 1);
        assert_eq!(client.idle_connections(), 1);
    });
}

#[test]
fn a_peer_with_few_streams_is_asked_over_more_connections() {
    run(async {
        let server = H2Server::start(10, |_| play(vec![data("x"), Act::Gate("go"), data("y")])).await;
        let client = server.client();
        // The first one learns how many it takes.
        let mut first = client.attempt(over(get(&server.url("/"))));
        first.head().await.unwrap();
        let together: Vec<_> = (0..24)
            .map(|_| {
                let (client, spec) = (client.clone(), over(get(&server.url("/"))));
                tokio::spawn(async move { fetch(&client, spec).await })
            })
            .collect();
        server.open("go");
        for one in together {
            assert_eq!(one.await.unwrap().unwrap().1, b"xy");
        }
        assert_eq!(rest(&mut first).await.unwrap(), b"xy");
        assert!((2..=3).contains(&server.look(|seen| seen.connections)));
    });
}

#[test]
fn a_drop_resets_one_stream_and_leaves_the_others() {
    run(async {
        let server = H2Server::start(100, |asked| match asked.path.as_str() {
            "/mute" => Play { before: vec![Act::Stall], ..play(Vec::new()) },
            _ => play(vec![data("a"), Act::Gate("go"), data("b")]),
        })
        .await;
        let client = server.client();
        let mut others = Vec::new();
        for at in 0..10 {
            let mut attempt = client.attempt(over(get(&server.url(&format!("/{at}")))));
            attempt.head().await.unwrap();
            others.push(attempt);
        }
        drop(others.remove(3));
        let mut mute = client.attempt(over(get(&server.url("/mute"))));
        tokio::select! {
            biased;
            _ = mute.head() => unreachable!("it has no head"),
            () = server.until(|seen| seen.asked.len() == 11) => {}
        }
        drop(mute);
        server.until(|seen| seen.resets.len() == 2).await;
        let resets = server.look(|seen| seen.resets.clone());
        assert!(resets.contains(&("/3".into(), Reason::CANCEL)) && resets.contains(&("/mute".into(), Reason::CANCEL)));
        server.open("go");
        for mut attempt in others {
            assert_eq!(rest(&mut attempt).await.unwrap(), b"ab");
        }
        assert_eq!(server.look(|seen| (seen.connections, seen.closed)), (1, 0));
    });
}

#[test]
fn a_release_lets_the_end_come() {
    run(async {
        let server = H2Server::start(100, |_| play(vec![data("data: [DONE]\n\n"), Act::Gate("end")])).await;
        let client = server.client();
        let mut scratch = Scratch::new();
        let mut attempt = client.attempt(over(get(&server.url("/"))));
        attempt.head().await.unwrap();
        assert!(!attempt.read(&mut scratch, usize::MAX).await.unwrap().end);
        attempt.release();
        server.open("end");
        fetch(&client, over(get(&server.url("/")))).await.unwrap();
        assert_eq!(server.look(|seen| seen.resets.clone()), []);
        // One that goes on for ever is ended.
        let server = H2Server::start(100, |_| play(vec![data("data: [DONE]\n\n"), Act::Stall])).await;
        let client = server.client();
        let mut attempt = client.attempt(over(get(&server.url("/"))));
        attempt.head().await.unwrap();
        assert!(!attempt.read(&mut scratch, usize::MAX).await.unwrap().end);
        attempt.release();
        server.until(|seen| seen.resets == [("/".into(), Reason::CANCEL)]).await;
    });
}

#[test]
fn a_peer_that_goes_away_ends_what_it_has_and_gets_nothing_new() {
    run(async {
        let server = H2Server::start(100, |_| play(vec![data("a"), Act::Gate("go"), data("b")])).await;
        let client = server.client();
        let mut old = Vec::new();
        for _ in 0..20 {
            let mut attempt = client.attempt(over(get(&server.url("/old"))));
            attempt.head().await.unwrap();
            old.push(attempt);
        }
        server.go_away();
        // Until the farewell is there a request may still be taken or refused; then a new connection is opened.
        while server.look(|seen| seen.connections) == 1 {
            let mut attempt = client.attempt(over(get(&server.url("/new"))));
            if let Err(failure) = attempt.head().await {
                assert!(failure.died_unanswered(), "{failure:?}");
            }
            old.push(attempt);
        }
        server.open("go");
        for mut attempt in old {
            let body = rest(&mut attempt).await.unwrap();
            assert!(body == b"ab" || (body.is_empty() && attempt.bytes_received() == 0));
        }
        server.until(|seen| seen.closed == 1).await;
        assert_eq!(fetch(&client, over(get(&server.url("/new")))).await.unwrap().1, b"ab");
        assert_eq!(server.look(|seen| seen.connections), 2);
    });
}

#[test]
fn resets_say_whether_the_request_was_looked_at() {
    run(async {
        let server = H2Server::start(100, |asked| match (asked.connection, asked.path.as_str()) {
            (0, "/refused") => Play { before: vec![Act::Reset(Reason::REFUSED_STREAM)], ..play(Vec::new()) },
            (_, "/broken") => Play { before: vec![Act::Reset(Reason::INTERNAL_ERROR)], ..play(Vec::new()) },
            (_, "/cut") => play(vec![data("half"), Act::Gate("cut"), Act::Reset(Reason::INTERNAL_ERROR)]),
            _ => hello(asked),
        })
        .await;
        let client = server.client();
        for _ in 0..2 {
            let refused = failure(&client, over(get(&server.url("/refused")))).await;
            assert_eq!(refused.cause, Cause::Unprocessed);
            assert_eq!((refused.kind.code(), refused.bytes_received), ("transport", 0));
            assert!(refused.reused_socket && refused.died_unanswered(), "as a connection that died in the pool");
        }
        let spec = over(get(&server.url("/refused")));
        let mut again = client.attempt(spec).on_fresh_connection();
        assert_eq!(again.head().await.unwrap().status, 200);
        assert_eq!(server.look(|seen| seen.connections), 2);
        rest(&mut again).await.unwrap();

        let broken = failure(&client, over(get(&server.url("/broken")))).await;
        assert_eq!(broken.cause, Cause::Http2(Reason::INTERNAL_ERROR));
        assert!(!broken.died_unanswered() && broken.bytes_received > 0, "a reset is an answer");
        let mut attempt = client.attempt(over(get(&server.url("/cut"))));
        attempt.head().await.unwrap();
        let mut scratch = Scratch::new();
        attempt.read(&mut scratch, usize::MAX).await.unwrap();
        assert_eq!(scratch.pieces().collect::<Vec<_>>(), [b"half"]);
        server.open("cut");
        let cut = attempt.read(&mut scratch, usize::MAX).await.unwrap_err();
        assert_eq!((cut.cause, cut.kind.code()), (Cause::Http2(Reason::INTERNAL_ERROR), "stream_interrupted"));
        assert_eq!(server.look(|seen| (seen.connections, seen.closed)), (2, 0), "the connections are none the worse");
    });
}

#[test]
fn a_slow_reader_gets_no_window_and_the_others_all_of_theirs() {
    run(async {
        const LONG: usize = 2 << 20;
        let server = H2Server::start(100, |_| play(vec![data(Bytes::from(vec![b'x'; LONG]))])).await;
        let client = server.client();
        let mut slow = Vec::new();
        for at in 0..40 {
            let mut attempt = client.attempt(over(get(&server.url(&format!("/slow/{at}")))));
            attempt.head().await.unwrap();
            slow.push(attempt);
        }
        let (_, body) = fetch(&client, over(get(&server.url("/fast")))).await.unwrap();
        assert_eq!(body.len(), LONG, "forty full windows do not stand in its way");
        let window = headrace_kernel::limits::STREAM_WINDOW as usize;
        server.until(|seen| (0..40).all(|at| seen.sent.get(&format!("/slow/{at}")) == Some(&window))).await;
        // What one takes is what opens its window.
        let mut scratch = Scratch::new();
        for _ in 0..3 {
            slow[7].read(&mut scratch, 8 << 10).await.unwrap();
            assert!(scratch.len() <= 8 << 10);
        }
        fetch(&client, over(get(&server.url("/fast")))).await.unwrap();
        let sent = server.look(|seen| seen.sent["/slow/7"]);
        assert!((window..=window + (24 << 10)).contains(&sent), "{sent}");
        assert_eq!(rest(&mut slow[7]).await.unwrap().len() + 3 * (8 << 10), LONG);
        assert_eq!(server.look(|seen| seen.connections), 1);
    });
}

#[test]
fn deadlines_end_a_stream_and_not_its_connection() {
    run(async {
        let server = H2Server::start(100, |asked| match asked.path.as_str() {
            "/mute" => Play { before: vec![Act::Stall], ..play(Vec::new()) },
            "/idle" => play(vec![data("x"), Act::Stall]),
            _ => hello(asked),
        })
        .await;
        let client = server.client();
        let short = Some(Duration::from_millis(30));
        let mute = Deadlines { first_byte: short, ..Deadlines::default() };
        let failed = failure(&client, over(AttemptSpec { deadlines: mute, ..get(&server.url("/mute")) })).await;
        assert_eq!((failed.cause, failed.phase.code()), (Cause::Deadline(Deadline::FirstByte), "head"));
        let idle = Deadlines { idle: short, ..Deadlines::default() };
        let failed = failure(&client, over(AttemptSpec { deadlines: idle, ..get(&server.url("/idle")) })).await;
        assert_eq!(failed.cause, Cause::Deadline(Deadline::Idle));
        server.until(|seen| seen.resets.len() == 2).await;
        fetch(&client, over(get(&server.url("/")))).await.unwrap();
        assert_eq!(server.look(|seen| (seen.connections, seen.closed)), (1, 0));
    });
}

#[test]
fn a_dead_connection_is_found_and_left() {
    run(async {
        let server = H2Server::start(100, |_| play(vec![data("x"), Act::Gate("go")])).await;
        let client = server.client();
        let mut attempt = client.attempt(over(get(&server.url("/"))));
        attempt.head().await.unwrap();
        let mut scratch = Scratch::new();
        attempt.read(&mut scratch, usize::MAX).await.unwrap();
        // A live one may be silent for as long as it likes: it answers pings.
        tokio::time::sleep(TICK * (headrace_kernel::limits::PING_TICKS + headrace_kernel::limits::PONG_TICKS) * 2)
            .await;
        let mut second = client.attempt(over(get(&server.url("/"))));
        second.head().await.unwrap();
        assert_eq!(server.look(|seen| seen.connections), 1);
        server.freeze();
        let failed = attempt.read(&mut scratch, usize::MAX).await.unwrap_err();
        assert_eq!(failed.kind.code(), "stream_interrupted", "{failed:?}");
        second.read(&mut scratch, usize::MAX).await.unwrap();
        assert!(second.read(&mut scratch, usize::MAX).await.is_err());
        server.open("go");
        assert_eq!(fetch(&client, over(get(&server.url("/")))).await.unwrap().1, b"x");
        assert_eq!(server.look(|seen| seen.connections), 2);
    });
}

#[test]
fn who_waits_for_a_connection_goes_on_when_its_opener_leaves() {
    run(async {
        let server = H2Server::start_mute(100, hello).await;
        let client = server.client();
        let mut opener = client.attempt(over(get(&server.url("/"))));
        tokio::select! {
            biased;
            _ = opener.head() => unreachable!("the server says nothing"),
            () = server.until(|seen| seen.connections == 1) => {}
        }
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let (client, spec) = (client.clone(), over(get(&server.url("/"))));
                tokio::spawn(async move { fetch(&client, spec).await })
            })
            .collect();
        tokio::time::sleep(TICK).await;
        assert_eq!(server.look(|seen| seen.connections), 1, "they wait for it");
        drop(opener);
        server.until(|seen| seen.connections == 2).await;
        server.greet();
        for one in waiting {
            assert_eq!(one.await.unwrap().unwrap().0.status, 200);
        }
        assert_eq!(server.look(|seen| seen.connections), 2);
        // And one whose own deadline passes while it waits says so.
        let server = H2Server::start_mute(100, hello).await;
        let client = server.client();
        let mut opener = client.attempt(over(get(&server.url("/"))));
        let connect = Deadlines { connect: Some(TICK), ..Deadlines::default() };
        let waiting = failure(&client, over(AttemptSpec { deadlines: connect, ..get(&server.url("/")) }));
        tokio::select! {
            biased;
            _ = opener.head() => unreachable!("the server says nothing"),
            failed = waiting => assert_eq!(failed.cause, Cause::Deadline(Deadline::Connect)),
        }
    });
}

#[test]
fn an_idle_connection_is_closed_when_it_is_old() {
    run(async {
        let server = H2Server::start(100, hello).await;
        let client = server.client_with(|config| config.idle_age = TICK * 3);
        fetch(&client, over(get(&server.url("/")))).await.unwrap();
        assert_eq!(client.idle_connections(), 1);
        server.until(|seen| seen.closed == 1).await;
        fetch(&client, over(get(&server.url("/")))).await.unwrap();
        assert_eq!((client.idle_connections(), server.look(|seen| seen.connections)), (1, 2));
    });
}

#[test]
fn content_codings_and_early_answers() {
    run(async {
        let text = "data: {\"text\":\"again and again\"}\n\n".repeat(5000);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        let packed = Bytes::from(encoder.finish().unwrap());
        let server = H2Server::start(100, move |asked| match asked.path.as_str() {
            "/early" => Play { status: 413, reads: false, ..play(vec![data("too much")]) },
            path => {
                let cut = if path == "/cut" { packed.len() / 2 } else { packed.len() };
                let headers = vec![("content-encoding", "gzip".into())];
                Play { headers, ..play(vec![data(packed.slice(..cut))]) }
            }
        })
        .await;
        let client = server.client();
        assert_eq!(fetch(&client, over(get(&server.url("/gzip")))).await.unwrap().1, text.as_bytes());
        let cut = failure(&client, over(get(&server.url("/cut")))).await;
        assert_eq!(cut.kind.code(), "stream_interrupted", "{cut:?}");
        let (head, body) = fetch(&client, over(post(&server.url("/early"), vec![b'x'; 8 << 20]))).await.unwrap();
        assert_eq!((head.status, body.as_slice()), (413, &b"too much"[..]));
        assert_eq!(server.look(|seen| seen.connections), 1);
    });
}
