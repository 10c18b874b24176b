//! The upstream does what its script says, and tells what it saw: looked at from a bare socket.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use headrace_scripted::{Facts, Framing, Play, Reply, Script, Upstream};

const LIMIT: Duration = Duration::from_secs(20);

fn connect(upstream: &Upstream, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(upstream.address()).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    socket
}

/// All that comes until the end, and whether that was an orderly one.
fn drain(mut socket: TcpStream) -> (String, bool) {
    let mut bytes = Vec::new();
    let end = socket.read_to_end(&mut bytes);
    assert!(!matches!(&end, Err(e) if e.kind() == ErrorKind::WouldBlock), "the upstream keeps the connection open");
    (String::from_utf8(bytes).unwrap(), end.is_ok())
}

fn wait(upstream: &Upstream, wanted: impl FnMut(&Facts) -> bool) {
    assert!(upstream.wait(LIMIT, wanted), "{:?}", upstream.facts());
}

const GET: &str = "GET /a?b=1 HTTP/1.1\r\nhost: x\r\n\r\n";

#[test]
fn replies_follow_each_other_on_one_connection_and_the_last_one_stays() {
    let script = Script::new()
        .route(
            "/a",
            vec![Reply::json(200, "1").end(), Reply::json(201, "2").end(), Reply::json(202, "3").close().end()],
        )
        .route("/b", vec![Reply::json(500, "{}").end()]);
    let upstream = Upstream::start(script).unwrap();
    let (text, orderly) = drain(connect(&upstream, &GET.repeat(3)));
    let heads: Vec<_> = text.match_indices("HTTP/1.1 20").map(|(i, _)| &text[i + 9..i + 12]).collect();
    assert_eq!(heads, ["200", "201", "202"]);
    assert!(orderly && text.ends_with("\r\n\r\n3"));
    assert!(drain(connect(&upstream, GET)).0.contains(" 202 "));
    let last = "GET /c HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert!(
        drain(connect(&upstream, last)).0.starts_with("HTTP/1.1 404 "),
        "no route, and the client's close is heeded"
    );
    assert!(drain(connect(&upstream, "no HTTP\r\n\r\n")).0.is_empty());
    wait(&upstream, |facts| facts.request_count == 5 && facts.malformed == 1);
}

#[test]
fn framings_are_what_they_are_called() {
    let body = |framing| {
        let upstream =
            Upstream::start(Script::always(Reply::status(200).framing(framing).data("abc").data("de").close().end()));
        let (text, _) = drain(connect(&upstream.unwrap(), GET));
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    };
    let (head, chunked) = body(Framing::Chunked);
    assert!(head.contains("transfer-encoding: chunked"));
    assert_eq!(chunked, "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert!(body(Framing::Length).0.contains("content-length: 5"));
    let (head, plain) = body(Framing::Close);
    assert!(!head.contains("content-length") && plain == "abcde");
    let (head, plain) = body(Framing::Lie(99));
    assert!(head.contains("content-length: 99") && plain == "abcde");
}

#[test]
fn a_gate_holds_until_it_is_opened() {
    let upstream =
        Upstream::start(Script::always(Reply::status(200).data("a").gate("g").data("b").close().end())).unwrap();
    let mut socket = connect(&upstream, GET);
    wait(&upstream, |facts| facts.connections.first().is_some_and(|c| c.waiting));
    let mut buf = [0; 512];
    let n = socket.read(&mut buf).unwrap();
    assert!(buf[..n].ends_with(b"\r\n\r\na"), "the gate lets nothing through");
    upstream.open("g");
    assert_eq!(drain(socket).0, "b");
}

#[test]
fn cut_reset_and_stall() {
    let end = |play: Play| {
        let upstream = Upstream::start(Script::always(Reply::stream().data("x").gate("g").play(play).end())).unwrap();
        let mut socket = connect(&upstream, GET);
        let mut buf = [0; 512];
        assert!(socket.read(&mut buf).unwrap() > 0);
        upstream.open("g");
        (upstream, socket)
    };
    let (upstream, socket) = end(Play::Cut);
    assert_eq!(drain(socket), (String::new(), true));
    wait(&upstream, |facts| facts.open_connections() == 0);
    assert!(!upstream.facts().connections[0].closed_by_client);

    let (upstream, mut socket) = end(Play::Reset);
    assert_eq!(socket.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    wait(&upstream, |facts| facts.connections[0].reset && !facts.connections[0].closed_by_client);

    let (upstream, socket) = end(Play::Stall);
    wait(&upstream, |facts| facts.connections[0].waiting);
    drop(socket);
    wait(&upstream, |facts| !facts.connections[0].open && facts.connections[0].closed_by_client);
}

#[test]
fn drips_and_pauses_take_their_time() {
    let pause = Duration::from_millis(20);
    let reply = Reply::status(200).drip("abcdef", 2, pause).pause(pause).data("g").close().end();
    let upstream = Upstream::start(Script::always(reply)).unwrap();
    let begun = Instant::now();
    assert!(drain(connect(&upstream, GET)).0.ends_with("\r\n\r\nabcdefg"));
    assert!(begun.elapsed() >= pause * 4);
}

#[test]
fn a_slow_reader_is_seen() {
    let upstream =
        Upstream::start(Script::always(Reply::status(200).data(vec![b'x'; 32 << 20]).close().end())).unwrap();
    let socket = connect(&upstream, GET);
    wait(&upstream, |facts| facts.connections.first().is_some_and(|c| c.blocked));
    let (text, orderly) = drain(socket);
    assert!(orderly && text.len() > 32 << 20);
    wait(&upstream, |facts| facts.connections[0].written == text.len() as u64 && !facts.connections[0].blocked);
}

#[test]
fn requests_are_recorded_as_they_came() {
    let upstream = Upstream::start(Script::always(Reply::status(204).end()).record(1)).unwrap();
    let mut socket =
        connect(&upstream, "POST /v1?q HTTP/1.1\r\nHost: x\r\nX-A:  1\r\nTransfer-Encoding: chunked\r\n\r\n");
    socket.write_all(b"3\r\nabc\r\n1\r\n").unwrap();
    socket
        .write_all(b"d\r\n0\r\n\r\nPUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n")
        .unwrap();
    wait(&upstream, |facts| facts.request_count == 1);
    let mut buf = vec![0; 1024];
    let mut answers = String::new();
    while !answers.contains("100 Continue") {
        let n = socket.read(&mut buf).unwrap();
        answers.push_str(std::str::from_utf8(&buf[..n]).unwrap());
    }
    socket.write_all(b"y").unwrap();
    wait(&upstream, |facts| facts.request_count == 2 && facts.replies == 2);
    let facts = upstream.facts();
    assert_eq!(facts.requests.len(), 1, "as many as the script records");
    let seen = &facts.requests[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str(), seen.path()), ("POST", "/v1?q", "/v1"));
    assert_eq!((seen.header("x-a"), seen.body.as_slice()), (Some("1"), &b"abcd"[..]));
    assert_eq!(facts.connections[0].requests, 2);
}

#[test]
fn dropping_the_upstream_ends_everything() {
    let upstream = Upstream::start(Script::always(Reply::stream().data("x").play(Play::Stall).end())).unwrap();
    let address = upstream.address();
    let socket = connect(&upstream, GET);
    wait(&upstream, |facts| facts.connections.first().is_some_and(|c| c.waiting));
    drop(upstream);
    drain(socket);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}
