//! What is refused at the door: shapes that two parsers read differently, sizes, slowness, wrong doors.

mod support;

use std::sync::Arc;
use std::time::Duration;

use headrace_edge::{EdgeConfig, Guard, Pace};
use headrace_scripted::{Reply, Script, Upstream};
use support::*;

fn gateway(config: EdgeConfig) -> (Upstream, Arc<TestPolicy>, headrace_edge::Edge) {
    let reply = Reply::stream().data([&chunk("x"), FINISH, DONE].concat()).end();
    let up = Upstream::start(Script::always(reply)).unwrap();
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start_with(config, &policy);
    (up, policy, edge)
}

const HEAD: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";

#[test]
fn smuggling_shapes_are_refused_and_end_the_connection() {
    let (up, policy, edge) = gateway(EdgeConfig::default());
    for (shape, status) in [
        ("content-length: 2\r\ncontent-length: 2\r\n\r\n{}", 400),
        ("content-length: 2, 2\r\n\r\n{}", 400),
        ("content-length: +2\r\n\r\n{}", 400),
        ("content-length: 0x2\r\n\r\n{}", 400),
        ("content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
        ("transfer-encoding: chunked, identity\r\n\r\n", 501),
        ("transfer-encoding: xchunked\r\n\r\n", 501),
        ("transfer-encoding: chunked\r\n\r\n2;ext=1\r\n{}\r\n0\r\n\r\n", 400),
        ("transfer-encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n", 400),
        ("transfer-encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n", 400),
        ("transfer-encoding: chunked\r\n\r\n2\n{}\n0\n\n", 400),
        ("transfer-encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n", 400),
        ("x: a\r\n folded\r\n\r\n", 400),
        ("x: a\rb\r\n\r\n", 400),
        ("x: a\n\r\n", 400),
        ("x : a\r\n\r\n", 400),
        ("host: other\r\n\r\n", 400),
        ("expect: magic\r\n\r\n", 417),
    ] {
        let mut client = Client::to(edge.address());
        // A second request hides behind each.
        client.send([HEAD.as_bytes(), shape.as_bytes(), &chat(true)].concat());
        let answer = client.answer();
        assert_eq!(answer.status, status, "{shape:?}");
        assert!(answer.text().contains("\"error\""), "{shape:?}");
        assert!(!answer.keep_alive && client.is_closed() && client.buffer.is_empty(), "{shape:?}");
    }
    assert_eq!((up.look(|f| f.request_count), policy.look(|n| n.decides)), (0, 0));
}

#[test]
fn a_body_in_chunks_is_read_and_what_follows_it_is_the_next_request() {
    let (up, _policy, edge) = gateway(EdgeConfig::default());
    let body = r#"{"model":"m","stream":true,"messages":[]}"#;
    let (a, b) = body.split_at(9);
    let chunked = format!(
        "{HEAD}transfer-encoding: chunked\r\n\r\n{:x}\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\nx-trailer: 1\r\n\r\n",
        a.len(),
        b.len()
    );
    let mut client = Client::to(edge.address());
    client.send([chunked.into_bytes(), chat(true)].concat());
    assert!(client.answer().text().ends_with(DONE) && client.answer().text().ends_with(DONE));
    assert_eq!(up.look(|f| String::from_utf8(f.requests[0].body.clone()).unwrap()), body);
}

#[test]
fn a_request_may_come_byte_by_byte_and_wait_for_a_hundred() {
    let (_up, policy, edge) = gateway(EdgeConfig::default());
    let mut client = Client::to(edge.address());
    for byte in chat(true) {
        client.send([byte]);
    }
    assert!(client.answer().text().ends_with(DONE));
    let body = r#"{"model":"m","stream":true,"messages":[]}"#;
    client.send(format!("{HEAD}content-length: {}\r\nexpect: 100-continue\r\n\r\n", body.len()));
    client.until("HTTP/1.1 100 Continue\r\n\r\n").buffer.clear();
    client.send(body);
    assert!(client.answer().text().ends_with(DONE));
    assert_eq!(policy.look(|n| n.decides), 2);
}

#[test]
fn sizes_are_bounded() {
    let config = EdgeConfig { body_limit: 1000, header_limit: 2000, ..EdgeConfig::default() };
    let (up, policy, edge) = gateway(config);
    let big = "x".repeat(4000);
    let chunked = format!("{HEAD}transfer-encoding: chunked\r\n\r\n{:x}\r\n{big}\r\n", big.len());
    for (request, status, name) in [
        (format!("{HEAD}content-length: 1001\r\nexpect: 100-continue\r\n\r\n"), 413, "request_too_large"),
        (format!("{HEAD}content-length: 99999999999\r\n\r\n{big}"), 413, "request_too_large"),
        (chunked, 413, "request_too_large"),
        (format!("{HEAD}x: {big}\r\n\r\n"), 431, "malformed_http"),
        (format!("GET /{big} HTTP/1.1\r\nhost: a\r\n\r\n"), 431, "malformed_http"),
    ] {
        let mut client = Client::to(edge.address());
        let answer = client.send(request).answer();
        assert_eq!(answer.status, status);
        assert!(answer.text().contains(name), "{}", answer.text());
        assert!(!answer.keep_alive && client.is_closed());
    }
    assert_eq!((up.look(|f| f.request_count), policy.look(|n| n.decides)), (0, 0));
}

#[test]
fn slow_senders_are_told_and_idle_connections_end() {
    let soon = Duration::from_millis(100);
    let pace = Pace { body_silence: soon, keep_alive: soon, ..Pace::default() };
    let (_up, _policy, edge) = gateway(EdgeConfig { header_timeout: soon, pace, ..EdgeConfig::default() });
    for start in [
        "POST /v1/chat",
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx",
        &format!("{HEAD}content-length: 9\r\n\r\n{{"),
        &format!("{HEAD}transfer-encoding: chunked\r\n\r\n5\r\n{{"),
    ] {
        let mut client = Client::to(edge.address());
        assert_eq!(client.send(start).answer().status, 408, "{start:?}");
        assert!(client.is_closed());
    }
    let mut client = Client::to(edge.address());
    assert!(client.is_closed(), "a connection without a request ends by itself");
    assert_eq!(client.send("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").buffer, b"");
}

#[test]
fn wrong_doors_are_told_in_the_format_of_the_client() {
    let (_up, policy, edge) = gateway(EdgeConfig::default());
    let mut client = Client::to(edge.address());
    let answer = client.send("GET /v1/chat/completions HTTP/1.1\r\nhost: a\r\n\r\n").answer_to("GET");
    assert_eq!((answer.status, answer.header("allow"), answer.keep_alive), (405, Some("POST"), true));
    let answer = client.send("GET /v1/assistants HTTP/1.1\r\nhost: a\r\n\r\n").answer_to("GET");
    assert_eq!(answer.status, 404);
    assert!(answer.text().starts_with("{\"error\":{"), "{}", answer.text());
    let answer = client.send("GET /v1/messages/batches HTTP/1.1\r\nhost: a\r\n\r\n").answer_to("GET");
    assert!(answer.text().starts_with("{\"type\":\"error\""), "{}", answer.text());
    assert!(answer.header("request-id").is_some());
    for (method, path) in [("HEAD", "/api/hello"), ("GET", "/api/hello"), ("HEAD", "/healthz"), ("GET", "/readyz")] {
        let answer = client.send(format!("{method} {path} HTTP/1.1\r\nhost: a\r\n\r\n")).answer_to(method);
        assert_eq!((answer.status, answer.keep_alive), (200, true), "{method} {path}");
    }
    let answer = client.send(format!("{}content-length: 2\r\n\r\n{{}}", HEAD.replace("json", "xml"))).answer();
    assert_eq!((answer.status, client.is_closed()), (415, true));
    assert_eq!(policy.look(|n| n.decides), 0);
}

#[test]
fn a_body_that_is_no_request_is_told_with_its_field_and_the_connection_goes_on() {
    let (up, policy, edge) = gateway(EdgeConfig::default());
    let mut client = Client::to(edge.address());
    for (body, word) in [
        ("", "JSON"),
        ("not json", "object"),
        ("{\"model\":\"m\"", "JSON"),
        ("[]", "object"),
        ("{\"model\":5}", "model"),
        ("{\"model\":\"m\",\"stream\":\"yes\"}", "stream"),
        ("{\"model\":\"m\",\"model\":\"n\"}", "model"),
    ] {
        for path in [CHAT, "/v1/responses", "/v1/messages"] {
            let answer = client.send(post(path, body)).answer();
            assert_eq!(answer.status, 400, "{path} {body}");
            assert!(answer.text().contains(word), "{path} {body}: {}", answer.text());
            assert_eq!(answer.text().contains("\"type\":\"error\""), path == "/v1/messages", "{path} {body}");
        }
    }
    assert_eq!((up.look(|f| f.request_count), policy.look(|n| n.decides)), (0, 0));
    assert!(client.send(chat(true)).answer().text().ends_with(DONE));
}

#[test]
fn a_gateway_without_keys_answers_local_names_and_no_web_page() {
    let guard = Guard { loopback_only: true, ..Guard::default() };
    let (_up, policy, edge) = gateway(EdgeConfig { guard, ..EdgeConfig::default() });
    let request = String::from_utf8(chat(true)).unwrap();
    let status = |request: &str| Client::to(edge.address()).send(request).answer().status;
    assert_eq!(status(&request), 200);
    assert_eq!(status(&request.replace("localhost", "rebound.example")), 403);
    assert_eq!(status(&request.replace("\r\n\r\n", "\r\norigin: https://evil.example\r\n\r\n")), 403);
    assert_eq!(status(&request.replace("application/json", "text/plain")), 415);
    assert_eq!(policy.look(|n| n.decides), 1);
}

#[test]
fn an_upstream_with_an_ambiguous_answer_is_a_failed_attempt() {
    let bodies = [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\ncontent-length: 2\n\n{}",
        "nonsense\r\n\r\n",
    ];
    for body in bodies {
        let play = headrace_scripted::Play::Send(bytes::Bytes::from_static(body.as_bytes()));
        let up = Upstream::start(Script::always(Reply::raw(vec![play], false))).unwrap();
        let url = up.url(CHAT);
        let policy = TestPolicy::always(move |request| verbatim(&url, request));
        let edge = start(&policy);
        let answer = Client::to(edge.address()).send(chat(true)).answer();
        assert_eq!(answer.status, 502, "{body:?}");
        assert_eq!(policy.look(|n| n.failures.len()), 1);
    }
}
