//! Dropping an attempt, wherever it is, closes its connection at once (B1, B2).

mod support;

use headrace_kernel::{Attempt, Scratch};
use headrace_scripted::{Play, Reply, Script, Upstream};
use std::task::{Context, Poll, Waker};
use support::{client, get, post, run};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// Poll once without wanting to be woken.
fn poke(attempt: &mut Attempt) -> bool {
    attempt.poll_head(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn before_the_head() {
    run(async {
        let reply = Reply::stream().play(Play::Gate("head".into())).data("x").end();
        // The gate stands before the head only where nothing was sent yet.
        let plays = vec![Play::Gate("never".into())];
        for reply in [reply, Reply::raw(plays, false)] {
            let upstream = Upstream::start(Script::always(reply)).unwrap();
            let client = client();
            let mut attempt = client.attempt(post(&upstream.url("/"), "{}"));
            tokio::select! {
                biased;
                head = attempt.head() => assert!(head.is_ok()),
                () = upstream.until(|facts| facts.connections.first().is_some_and(|c| c.waiting)) => {}
            }
            drop(attempt);
            assert!(upstream.closed(0).await.closed_by_client);
            assert_eq!(client.idle_connections(), 0);
        }
    });
}

#[test]
fn within_the_head() {
    run(async {
        let plays = vec![Play::Send("HTTP/1.1 200 OK\r\ncont".into()), Play::Stall];
        let upstream = Upstream::start(Script::always(Reply::raw(plays, false))).unwrap();
        let mut attempt = client().attempt(get(&upstream.url("/")));
        tokio::select! {
            biased;
            _ = attempt.head() => unreachable!("the head is never whole"),
            () = upstream.until(|facts| facts.connections.first().is_some_and(|c| c.waiting)) => {}
        }
        drop(attempt);
        assert!(upstream.closed(0).await.closed_by_client);
    });
}

#[test]
fn within_the_body() {
    run(async {
        let upstream =
            Upstream::start(Script::always(Reply::stream().data("data: 1\n\n").play(Play::Stall).end())).unwrap();
        let client = client();
        let mut attempt = client.attempt(get(&upstream.url("/")));
        attempt.head().await.unwrap();
        let mut scratch = Scratch::new();
        assert!(!attempt.read(&mut scratch, usize::MAX).await.unwrap().end);
        upstream.until(|facts| facts.connections[0].waiting).await;
        assert!(attempt.poll_read(&mut Context::from_waker(Waker::noop()), &mut scratch, 1).is_pending());
        drop(attempt);
        assert!(upstream.closed(0).await.closed_by_client);
        assert_eq!(client.idle_connections(), 0);
    });
}

#[test]
fn while_the_request_is_being_sent() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut attempt = client().attempt(post(&url, vec![b'x'; 64 << 20]));
        // The peer reads nothing, so the write blocks.
        let mut peer = tokio::select! {
            biased;
            _ = attempt.head() => unreachable!("nobody answers"),
            peer = async {
                let (peer, _) = listener.accept().await.unwrap();
                peer.readable().await.unwrap();
                peer
            } => peer,
        };
        assert!(poke(&mut attempt));
        let sent = attempt.bytes_sent();
        assert!(sent > 0 && sent < 64 << 20);
        drop(attempt);
        let mut received = Vec::new();
        let _ = peer.read_to_end(&mut received).await;
        assert!(received.len() as u64 <= sent, "nothing is sent after the drop");
    });
}

#[test]
fn within_the_handshake_and_before_it() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let client = client();
        drop(client.attempt(get(&url)));
        let mut attempt = client.attempt(get(&url));
        let mut peer = tokio::select! {
            biased;
            _ = attempt.head() => unreachable!("the peer says no hello"),
            peer = async {
                let (peer, _) = listener.accept().await.unwrap();
                peer.readable().await.unwrap();
                peer
            } => peer,
        };
        drop(attempt);
        let mut received = Vec::new();
        peer.read_to_end(&mut received).await.unwrap();
        assert_eq!(received.first(), Some(&0x16), "the client's hello, then the end");
        assert!(
            matches!(poll_once(listener.accept()), Poll::Pending),
            "an attempt that was never polled connects nowhere"
        );
    });
}

fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_cancelled_await_loses_nothing() {
    run(async {
        let upstream = Upstream::start(Script::always(Reply::stream().data("ab").gate("g").data("cd").end())).unwrap();
        let mut attempt = client().attempt(get(&upstream.url("/")));
        // Every await is dropped and made anew after each wake-up.
        let mut rounds = 0;
        let head = loop {
            rounds += 1;
            tokio::select! {
                biased;
                head = attempt.head() => break head.unwrap(),
                () = tokio::task::yield_now() => {}
            }
        };
        assert_eq!(head.status, 200);
        assert!(rounds > 1);
        let (mut scratch, mut body) = (Scratch::new(), Vec::new());
        upstream.open("g");
        loop {
            tokio::select! {
                biased;
                got = attempt.read(&mut scratch, 1) => {
                    scratch.pieces().for_each(|piece| body.extend_from_slice(piece));
                    if got.unwrap().end { break }
                }
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(body, b"abcd");
    });
}
