//! An attempt over a WebSocket: the switch, messages as events, control frames, the pool.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use headrace_codec::ErrorKind;
use headrace_codec::event::ErrorPhase;
use headrace_http1::RequestHead;
use headrace_http1::websocket::{Message, Opcode, Reader, Role, close, write};
use headrace_kernel::{AttemptSpec, Cause, Client, Failure, Scratch, websocket_accept};
use support::{client, config, get, run};

/// The server's side of one connection, after the switch.
struct Peer {
    socket: TcpStream,
    reader: Reader,
    ahead: Vec<u8>,
}

impl Peer {
    fn next(&mut self) -> Message {
        loop {
            let (used, message) = self.reader.read(&self.ahead).expect("a client's frames");
            self.ahead.drain(..used);
            if let Some(message) = message {
                return message;
            }
            let mut bytes = [0; 4096];
            let n = self.socket.read(&mut bytes).expect("it can be read");
            assert_ne!(n, 0, "the client left");
            self.ahead.extend_from_slice(&bytes[..n]);
        }
    }

    fn say(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut out = Vec::new();
        write(&mut out, opcode, payload, None);
        self.socket.write_all(&out).expect("the client reads");
    }
}

/// Reads a request's head, and answers it with `answer` where it is given, else switches.
fn accept(listener: &TcpListener, answer: Option<&str>) -> (Peer, String) {
    let (mut socket, _) = listener.accept().expect("a connection");
    socket.set_nodelay(true).expect("it is open");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let text = String::from_utf8(head.clone()).expect("ASCII");
    let parsed = RequestHead::parse(&head).expect("a head");
    assert_eq!((parsed.method, parsed.headers.text("upgrade")), ("GET", Some("websocket")));
    assert_eq!(parsed.headers.text("sec-websocket-version"), Some("13"));
    let key = parsed.headers.text("sec-websocket-key").expect("a key");
    let switch = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {}\r\nx-request-id: r1\r\n\r\n",
        websocket_accept(key)
    );
    assert_eq!(parsed.headers.text("sec-websocket-extensions"), None);
    let answer = answer.map_or(switch, |answer| answer.replace("KEY", &websocket_accept(key)));
    socket.write_all(answer.as_bytes()).expect("the client reads");
    (Peer { socket, reader: Reader::new(Role::Server, 1 << 20), ahead: Vec::new() }, text)
}

fn serve(script: impl FnOnce(&TcpListener) + Send + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let url = format!("ws://{}/v1/responses", listener.local_addr().expect("bound"));
    (url, spawn(move || script(&listener)))
}

fn ask(url: &str, body: &'static str) -> AttemptSpec {
    AttemptSpec { body: vec![body.into()], ..get(url) }
}

/// The head's status and the body, read until `until` stands in it, then released; or to the end without it.
async fn talk(client: &Client, spec: AttemptSpec, until: Option<&str>) -> Result<(u16, String), Failure> {
    let mut attempt = client.attempt(spec);
    let head = attempt.head().await?;
    let mut scratch = Scratch::new();
    let mut body = String::new();
    loop {
        let got = attempt.read(&mut scratch, 7).await?;
        for piece in scratch.pieces() {
            body.push_str(str::from_utf8(piece).expect("ASCII"));
        }
        if got.end {
            return Ok((head.status, body));
        }
        if until.is_some_and(|until| body.contains(until)) {
            attempt.release();
            return Ok((head.status, body));
        }
    }
}

#[test]
fn messages_come_as_events_and_the_connection_is_used_again() {
    run(async {
        let (url, server) = serve(|listener| {
            let (mut peer, head) = accept(listener, None);
            assert!(head.contains("authorization: Bearer one\r\n"), "{head}");
            for turn in 0..2 {
                assert_eq!(peer.next(), Message::Text(br#"{"type":"response.create"}"#.into()));
                peer.say(Opcode::Ping, b"there?");
                peer.say(Opcode::Text, format!("{{\"turn\":{turn}}}").as_bytes());
                peer.say(Opcode::Text, b"{\"end\":true}");
                assert_eq!(peer.next(), Message::Pong, "the ping is answered");
            }
            // Another credential has a connection of its own.
            let (mut other, head) = accept(listener, None);
            assert!(head.contains("authorization: Bearer two\r\n"), "{head}");
            other.next();
            other.say(Opcode::Text, b"{\"end\":true}");
            other.next();
        });
        let client = client();
        let with = |token: &str| AttemptSpec {
            headers: vec![("authorization".into(), format!("Bearer {token}"))],
            ..ask(&url, r#"{"type":"response.create"}"#)
        };
        let end = "data: {\"end\":true}\n\n";
        for turn in 0..2 {
            let (status, body) = talk(&client, with("one"), Some(end)).await.expect("an answer");
            assert_eq!((status, body), (200, format!("data: {{\"turn\":{turn}}}\n\n{end}")));
            assert_eq!(client.idle_connections(), 1);
        }
        let (_, body) = talk(&client, with("two"), Some(end)).await.expect("an answer");
        assert_eq!(body, end);
        assert_eq!(client.idle_connections(), 2);
        drop(client);
        assert!(server.join().is_err(), "the last read of the script meets the client's end");
    });
}

#[test]
fn an_answer_that_does_not_switch_is_an_answer() {
    run(async {
        let (url, server) = serve(|listener| {
            let answer =
                "HTTP/1.1 426 Upgrade Required\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            accept(listener, Some(answer));
        });
        assert_eq!(talk(&client(), ask(&url, "{}"), None).await.expect("an answer"), (426, "{}".into()));
        server.join().expect("the script");
    });
}

#[test]
fn a_switch_to_something_else_is_no_switch() {
    run(async {
        for answer in [
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: wrong\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
            // Nobody offered it.
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: KEY\r\nsec-websocket-extensions: permessage-deflate\r\n\r\n",
        ] {
            let (url, server) = serve(move |listener| drop(accept(listener, Some(answer))));
            let failure = talk(&client(), ask(&url, "{}"), None).await.expect_err("no switch");
            assert_eq!((failure.kind, failure.cause), (ErrorKind::Transport, Cause::Upgrade));
            server.join().expect("the script");
        }
    });
}

#[test]
fn a_close_before_the_first_message_is_a_failure_and_after_it_an_end() {
    run(async {
        let (url, server) = serve(|listener| {
            let (mut peer, _) = accept(listener, None);
            peer.next();
            let mut out = Vec::new();
            close(&mut out, 1013, None);
            peer.socket.write_all(&out).expect("the client reads");
            let (mut peer, _) = accept(listener, None);
            peer.next();
            peer.say(Opcode::Text, b"{}");
            peer.socket.write_all(&out).expect("the client reads");
            assert_eq!(peer.next(), Message::Close(Some(1013)));
            let (mut peer, _) = accept(listener, None);
            peer.next();
            peer.say(Opcode::Text, b"{}");
            peer.socket.write_all(b"\xc1\x00").expect("the client reads");
            assert_eq!(peer.next(), Message::Close(Some(1002)));
        });
        let client = client();
        let failure = talk(&client, ask(&url, "{}"), None).await.expect_err("closed");
        assert_eq!((failure.kind, failure.phase), (ErrorKind::Transport, ErrorPhase::Head));
        assert_eq!(talk(&client, ask(&url, "{}"), None).await.expect("an end"), (200, "data: {}\n\n".into()));
        let failure = talk(&client, ask(&url, "{}"), None).await.expect_err("a reserved bit");
        assert_eq!((failure.kind, failure.phase), (ErrorKind::StreamInterrupted, ErrorPhase::Streaming));
        assert_eq!(client.idle_connections(), 0);
        server.join().expect("the script");
    });
}

#[test]
fn what_comes_between_two_answers_makes_a_connection_unfit() {
    run(async {
        let (url, server) = serve(|listener| {
            let (mut peer, _) = accept(listener, None);
            peer.next();
            // In one write: it is there when the answer is released.
            peer.socket.write_all(b"\x81\x02{}\x81\x0a{\"late\":1}").expect("the client reads");
            let (mut peer, _) = accept(listener, None);
            peer.next();
            peer.say(Opcode::Text, b"{}");
        });
        let client = client();
        for _ in 0..2 {
            talk(&client, ask(&url, "{}"), Some("{}\n\n")).await.expect("an answer");
        }
        server.join().expect("the script");
    });
}

#[test]
fn the_rest_of_another_answer_is_nothing_of_this_one() {
    run(async {
        let created = r#"{"type":"response.created"}"#;
        let late = r#"{"type":"response.output_text.delta","delta":"of somebody else"}"#;
        let note = r#"{"type":"codex.rate_limits"}"#;
        let (url, server) = serve(move |listener| {
            let (mut peer, _) = accept(listener, None);
            for _ in 0..2 {
                peer.next();
                peer.say(Opcode::Text, note.as_bytes());
                peer.say(Opcode::Text, created.as_bytes());
                peer.say(Opcode::Text, late.as_bytes());
                peer.say(Opcode::Text, b"{\"end\":true}");
            }
            peer.next();
            // What it did not say in time, and then what it was asked.
            peer.say(Opcode::Text, late.as_bytes());
            peer.say(Opcode::Text, created.as_bytes());
            // On a new one nobody else was answered.
            let (mut peer, _) = accept(listener, None);
            peer.next();
            peer.say(Opcode::Text, late.as_bytes());
            peer.say(Opcode::Text, b"{\"end\":true}");
        });
        let client = client();
        let end = Some("{\"end\":true}\n\n");
        for _ in 0..2 {
            let (_, body) = talk(&client, ask(&url, "{}"), end).await.expect("an answer");
            assert_eq!(body, format!("data: {note}\n\ndata: {created}\n\ndata: {late}\n\ndata: {{\"end\":true}}\n\n"));
        }
        let failure = talk(&client, ask(&url, "{}"), end).await.expect_err("it is another's");
        assert!(failure.died_unanswered(), "{failure:?}");
        assert_eq!((failure.reused_socket, failure.bytes_received), (true, 0));
        let (_, body) = talk(&client, ask(&url, "{}"), end).await.expect("an answer");
        assert!(body.starts_with(&format!("data: {late}")), "{body}");
        server.join().expect("the script");
    });
}

/// A client whose patience with a silent peer is short.
fn impatient() -> Client {
    let mut config = config();
    config.ping = Duration::from_millis(20);
    config.pong = Duration::from_millis(200);
    config.message_silence = Duration::from_millis(100);
    Client::new(config)
}

/// Waits until the client keeps no connection.
async fn none_idle(client: &Client) {
    while client.idle_connections() > 0 {
        tokio::time::sleep(support::TICK).await;
    }
}

#[test]
fn an_idle_connection_answers_pings_pings_itself_and_is_left_when_its_peer_is_mute() {
    run(async {
        let (url, server) = serve(|listener| {
            let (mut peer, _) = accept(listener, None);
            peer.next();
            peer.say(Opcode::Text, b"{}");
            for n in 0..3 {
                assert_eq!(peer.next(), Message::Ping(vec![]), "it is asked for a sign");
                peer.say(Opcode::Ping, b"and you?");
                assert_eq!(peer.next(), Message::Pong, "{n}");
                peer.say(Opcode::Pong, b"");
            }
            assert_eq!(peer.next(), Message::Ping(vec![]));
            // No answer to this one.
            let mut rest = Vec::new();
            peer.socket.read_to_end(&mut rest).expect("it is closed");
            assert!(rest.is_empty(), "{rest:?}");
        });
        let client = impatient();
        talk(&client, ask(&url, "{}"), Some("{}\n\n")).await.expect("an answer");
        assert_eq!(client.idle_connections(), 1);
        none_idle(&client).await;
        server.join().expect("the script");
    });
}

#[test]
fn an_idle_connection_is_used_again_after_pings_and_left_with_a_farewell_when_its_time_is_up() {
    run(async {
        let (url, server) = serve(|listener| {
            let (mut peer, _) = accept(listener, None);
            peer.next();
            peer.say(Opcode::Text, b"{}");
            peer.say(Opcode::Ping, b"1");
            assert_eq!(peer.next(), Message::Pong);
            assert_eq!(peer.next(), Message::Text(b"again".into()));
            peer.say(Opcode::Text, b"{}");
            assert_eq!(peer.next(), Message::Close(Some(1000)));
        });
        let mut config = config();
        config.session_idle = Duration::from_millis(300);
        let client = Client::new(config);
        talk(&client, ask(&url, "{}"), Some("{}\n\n")).await.expect("an answer");
        // The ping may come with the answer, or later; the pool answers it.
        tokio::time::sleep(support::TICK * 8).await;
        talk(&client, ask(&url, "again"), Some("{}\n\n")).await.expect("an answer");
        none_idle(&client).await;
        server.join().expect("the script");
    });
}

#[test]
fn what_rests_longest_goes_when_too_many_rest() {
    run(async {
        let (url, server) = serve(|listener| {
            let mut peers = Vec::new();
            for _ in 0..3 {
                let (mut peer, _) = accept(listener, None);
                peer.next();
                peer.say(Opcode::Text, b"{}");
                peers.push(peer);
            }
            assert_eq!(peers[0].next(), Message::Close(Some(1000)));
            // The others stay for as long as the client does.
            peers[2].socket.read_to_end(&mut Vec::new()).expect("it is closed");
        });
        let mut config = config();
        config.idle_sessions = 2;
        let client = Client::new(config);
        for n in 0..3 {
            let spec = AttemptSpec { headers: vec![("n".into(), n.to_string())], ..ask(&url, "{}") };
            talk(&client, spec, Some("{}\n\n")).await.expect("an answer");
            // Age is told in ticks.
            tokio::time::sleep(support::TICK * 3).await;
        }
        assert_eq!(client.idle_connections(), 2);
        drop(client);
        server.join().expect("the script");
    });
}

#[test]
fn a_peer_that_thinks_and_answers_pings_has_time_and_one_that_is_mute_has_not() {
    run(async {
        for mute in [false, true] {
            for begun in [false, true] {
                let (url, server) = serve(move |listener| {
                    let (mut peer, _) = accept(listener, None);
                    peer.next();
                    if begun {
                        peer.say(Opcode::Text, b"{}");
                    }
                    for _ in 0..3 {
                        assert_eq!(peer.next(), Message::Ping(vec![]));
                        peer.say(Opcode::Pong, b"");
                    }
                    if mute {
                        let mut rest = Vec::new();
                        peer.socket.read_to_end(&mut rest).expect("it is closed");
                    } else {
                        peer.say(Opcode::Text, b"{\"end\":true}");
                    }
                });
                let client = impatient();
                let said = talk(&client, ask(&url, "{}"), Some("true}\n\n")).await;
                drop(client);
                if mute {
                    let failure = said.expect_err("it is mute");
                    let (kind, phase) = if begun {
                        (ErrorKind::StreamInterrupted, ErrorPhase::Streaming)
                    } else {
                        (ErrorKind::Transport, ErrorPhase::Head)
                    };
                    assert_eq!((failure.kind, failure.phase, failure.cause), (kind, phase, Cause::Silent));
                } else {
                    assert!(said.expect("an answer").1.ends_with("data: {\"end\":true}\n\n"));
                }
                server.join().expect("the script");
            }
        }
    });
}

#[test]
fn a_message_that_stops_in_the_middle_is_a_failure_also_with_pongs_in_it() {
    run(async {
        for begun in [false, true] {
            let (url, server) = serve(move |listener| {
                let (mut peer, _) = accept(listener, None);
                peer.next();
                if begun {
                    peer.say(Opcode::Text, b"{}");
                }
                // The first frame of a message, and of the second one a part.
                peer.socket.write_all(b"\x01\x02{}").expect("the client reads");
                loop {
                    let mut out = Vec::new();
                    write(&mut out, Opcode::Pong, b"", None);
                    if peer.socket.write_all(&out).is_err() {
                        return;
                    }
                    std::thread::sleep(support::TICK);
                }
            });
            let failure = talk(&impatient(), ask(&url, "{}"), None).await.expect_err("it stops");
            assert_eq!(failure.cause, Cause::Silent);
            server.join().expect("the script");
        }
    });
}

#[test]
fn a_connection_that_ends_as_it_is_used_again_has_answered_nothing() {
    run(async {
        let (url, server) = serve(|listener| {
            let (mut peer, _) = accept(listener, None);
            peer.next();
            peer.say(Opcode::Text, b"{}");
            peer.next();
            let mut out = Vec::new();
            close(&mut out, 1001, None);
            peer.socket.write_all(&out).expect("the client reads");
            // On a new one it is answered.
            let (mut peer, _) = accept(listener, None);
            peer.next();
            peer.say(Opcode::Text, b"{}");
        });
        let client = client();
        talk(&client, ask(&url, "{}"), Some("{}\n\n")).await.expect("an answer");
        let failure = talk(&client, ask(&url, "{}"), None).await.expect_err("it has ended");
        assert!(failure.died_unanswered(), "{failure:?}");
        assert_eq!((failure.reused_socket, failure.bytes_received), (true, 0));
        talk(&client, ask(&url, "{}"), Some("{}\n\n")).await.expect("an answer");
        server.join().expect("the script");
    });
}
