//! What goes wrong on the wire, and what it is called.

mod support;

use bytes::Bytes;
use headrace_http1::{BodyError, HeadError};
use headrace_kernel::Cause;
use headrace_scripted::{Framing, Play, Reply, Script, Upstream};
use support::{client, failure, get, run};

fn raw(bytes: impl Into<Bytes>, end: Play) -> Upstream {
    Upstream::start(Script::always(Reply::raw(vec![Play::Send(bytes.into()), end], false))).unwrap()
}

#[test]
fn nobody_listens_and_no_such_name() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let refused = failure(&client(), get(&url)).await;
        assert_eq!((refused.kind.code(), refused.phase.code()), ("transport", "connect"));
        assert_eq!(refused.cause, Cause::Connect(std::io::ErrorKind::ConnectionRefused));
        let unknown = failure(&client(), get("http://name.invalid/")).await;
        assert!(matches!(unknown.cause, Cause::Dns(_)), "{unknown:?}");
        assert_eq!((unknown.phase.code(), unknown.bytes_sent), ("connect", 0));
    });
}

#[test]
fn heads_that_are_not_read() {
    run(async {
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(70 << 10));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200));
        let cases: [(&str, HeadError); 12] = [
            ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na", HeadError::Length),
            ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1", HeadError::Length),
            ("HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\na", HeadError::Length),
            ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", HeadError::Length),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", HeadError::TransferEncoding),
            ("HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n", HeadError::Folded),
            ("HTTP/1.1 200 OK\na: b\n\n", HeadError::BareLineEnd),
            ("HTTP/1.1 200 OK\r\na : b\r\n\r\n", HeadError::HeaderName),
            ("<html>502 Bad Gateway</html>\r\n\r\n", HeadError::StartLine),
            ("HTTP/2.0 200 OK\r\n\r\n", HeadError::Version),
            (&long, HeadError::TooLarge),
            (&many, HeadError::TooManyHeaders),
        ];
        for (wire, error) in cases {
            let upstream = raw(wire.to_owned(), Play::Stall);
            let failure = failure(&client(), get(&upstream.url("/"))).await;
            let shown = &wire[..wire.len().min(60)];
            match (&failure.cause, error) {
                (Cause::Head(HeadError::StartLine | HeadError::Version), HeadError::StartLine | HeadError::Version) => {
                }
                (cause, error) => assert_eq!(*cause, Cause::Head(error), "{shown:?}"),
            }
            assert_eq!((failure.kind.code(), failure.phase.code()), ("transport", "head"), "{shown:?}");
            assert!(failure.bytes_received > 0 && !failure.to_string().contains("html"));
            assert!(upstream.closed(0).await.closed_by_client);
        }
    });
}

#[test]
fn upgrades_and_endless_interim_answers_are_no_answer() {
    run(async {
        let upgrade = raw("HTTP/1.1 101 Switching Protocols\r\n\r\n", Play::Stall);
        assert_eq!(failure(&client(), get(&upgrade.url("/"))).await.cause, Cause::Interim(101));
        let endless = raw("HTTP/1.1 102 x\r\n\r\n".repeat(20), Play::Stall);
        assert_eq!(failure(&client(), get(&endless.url("/"))).await.cause, Cause::Interim(102));
    });
}

#[test]
fn an_end_before_the_head() {
    run(async {
        for (wire, end) in [("", Play::Cut), ("HTTP/1.1 200 OK\r\ncont", Play::Cut), ("HTTP/1.1 2", Play::Reset)] {
            let upstream = raw(wire, end);
            let failure = failure(&client(), get(&upstream.url("/"))).await;
            assert_eq!((failure.kind.code(), failure.phase.code()), ("transport", "head"), "{wire:?}");
            assert!(matches!(failure.cause, Cause::Closed | Cause::Read(_)), "{failure:?}");
        }
    });
}

#[test]
fn bodies_that_end_too_early_or_lie() {
    run(async {
        let cases = [
            (Reply::stream().data("data: 1\n\n").play(Play::Cut).end(), Cause::Body(BodyError::Truncated)),
            (Reply::status(200).framing(Framing::Lie(10)).data("abc").end(), Cause::Body(BodyError::Truncated)),
            (
                Reply::stream().play(Play::Send("5;x=y\r\nhello\r\n".into())).play(Play::Stall).end(),
                Cause::Body(BodyError::ChunkSize),
            ),
            (
                Reply::stream().play(Play::Send("5\r\nhelloX".into())).play(Play::Stall).end(),
                Cause::Body(BodyError::ChunkEnd),
            ),
        ];
        for (reply, cause) in cases {
            let upstream = Upstream::start(Script::always(reply)).unwrap();
            let client = client();
            let failure = failure(&client, get(&upstream.url("/"))).await;
            assert_eq!(failure.cause, cause);
            assert_eq!((failure.kind.code(), failure.phase.code()), ("stream_interrupted", "streaming"));
            assert!(failure.kind.retryable());
            assert_eq!(client.idle_connections(), 0);
        }
    });
}

#[test]
fn a_reset_in_the_body_is_an_interruption() {
    run(async {
        let upstream =
            Upstream::start(Script::always(Reply::stream().data("data: 1\n\n").gate("g").play(Play::Reset).end()))
                .unwrap();
        let mut attempt = client().attempt(get(&upstream.url("/")));
        attempt.head().await.unwrap();
        attempt.read(&mut headrace_kernel::Scratch::new(), usize::MAX).await.unwrap();
        upstream.open("g");
        let failure = support::rest(&mut attempt).await.expect_err("the rest never comes");
        assert_eq!(failure.kind.code(), "stream_interrupted");
        assert_eq!(failure.cause, Cause::Read(std::io::ErrorKind::ConnectionReset));
        assert!(upstream.closed(0).await.reset);
    });
}

#[test]
fn a_longer_body_than_its_length_is_cut_at_it() {
    run(async {
        let upstream =
            Upstream::start(Script::always(Reply::status(200).framing(Framing::Lie(2)).data("abc").end())).unwrap();
        let client = client();
        let (_, body) = support::fetch(&client, get(&upstream.url("/"))).await.unwrap();
        assert_eq!(body, b"ab");
        assert_eq!(client.idle_connections(), 0, "the rest would be read as the next answer");
    });
}

#[test]
fn a_peer_that_leaves_while_the_request_is_sent() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut attempt = client().attempt(support::post(&url, vec![b'x'; 64 << 20]));
        let leaving = async {
            let (peer, _) = listener.accept().await.unwrap();
            peer.readable().await.unwrap();
            // What was not read makes a reset of this close.
            drop(peer);
        };
        let (head, ()) = tokio::join!(attempt.head(), leaving);
        let failure = head.expect_err("nobody answers");
        assert!(matches!(failure.cause, Cause::Write(_)), "{failure:?}");
        assert_eq!((failure.kind.code(), failure.phase.code()), ("transport", "request"));
        assert!(failure.bytes_sent > 0 && failure.bytes_sent < 64 << 20 && !failure.reused_socket);
        let sent = attempt.trace().events().find(|e| e.step == headrace_kernel::Step::Send && e.at_s > 0.0);
        assert!(sent.is_some() && attempt.trace().completed_s(headrace_kernel::Step::Send).is_none());
    });
}
