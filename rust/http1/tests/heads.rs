//! Heads: what is read, what is refused, what is written.

use headrace_http1::body::BodyKind;
use headrace_http1::write::{self, RequestStart, ResponseStart};
use headrace_http1::{HeadError, RequestHead, ResponseHead, Version, WriteError, limits};

fn request(text: &str) -> Result<RequestHead<'_>, HeadError> {
    RequestHead::read(text.as_bytes(), limits::MAX_HEAD).map(|r| r.expect("a whole head").0)
}

fn response<'a>(text: &'a str, method: &str) -> Result<ResponseHead<'a>, HeadError> {
    ResponseHead::read(text.as_bytes(), limits::MAX_HEAD, method).map(|r| r.expect("a whole head").0)
}

/// A POST with these header lines besides its host.
fn post(lines: &str) -> Result<BodyKind, HeadError> {
    request(&format!("POST /v1/x HTTP/1.1\r\nhost: a\r\n{lines}\r\n")).map(|r| r.body)
}

fn ok_response(lines: &str) -> Result<BodyKind, HeadError> {
    response(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), "POST").map(|r| r.body)
}

#[test]
fn a_request_is_read_with_its_parts() {
    let head = request(
        "POST /v1/messages?beta=true HTTP/1.1\r\nHost: localhost:8080\r\nX-Api-Key:  k \r\nContent-Length: 12\r\n\
         Expect: 100-Continue\r\n\r\n",
    )
    .unwrap();
    assert_eq!((head.method, head.path, head.query), ("POST", "/v1/messages", Some("beta=true")));
    assert_eq!((head.host, head.version, head.body), ("localhost:8080", Version::Http11, BodyKind::Length(12)));
    assert_eq!(head.headers.text("x-api-key"), Some("k"), "blanks around a value are not its");
    assert!(head.keep_alive && head.expects_continue);
}

#[test]
fn two_readings_of_a_length_are_refused_in_both_roles() {
    use HeadError::{Length, TransferEncoding};
    let cases = [
        ("content-length: 3\r\ncontent-length: 3\r\n", Length),
        ("content-length: 3\r\ncontent-length: 4\r\n", Length),
        ("content-length: 3, 3\r\n", Length),
        ("content-length: +3\r\n", Length),
        ("content-length: -3\r\n", Length),
        ("content-length: 3 3\r\n", Length),
        ("content-length: 0x3\r\n", Length),
        ("content-length: \r\n", Length),
        ("content-length: 3;a\r\n", Length),
        ("content-length: 1000000000000000000\r\n", Length),
        ("content-length: 18446744073709551617\r\n", Length),
        ("content-length: 3\r\ntransfer-encoding: chunked\r\n", Length),
        ("transfer-encoding: chunked\r\ncontent-length: 3\r\n", Length),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", TransferEncoding),
        ("transfer-encoding: chunked, chunked\r\n", TransferEncoding),
        ("transfer-encoding: gzip, chunked\r\n", TransferEncoding),
        ("transfer-encoding: identity\r\n", TransferEncoding),
        ("transfer-encoding: chunked;q=1\r\n", TransferEncoding),
        ("transfer-encoding: \"chunked\"\r\n", TransferEncoding),
        ("transfer-encoding: x\u{b}chunked\r\n", HeadError::HeaderValue),
        ("transfer-encoding: \r\n", TransferEncoding),
    ];
    for (lines, error) in cases {
        assert_eq!(post(lines), Err(error), "request {lines:?}");
        assert_eq!(ok_response(lines), Err(error), "response {lines:?}");
    }
    assert_eq!(post("Content-Length: 007\r\n"), Ok(BodyKind::Length(7)));
    assert_eq!(post("Transfer-Encoding: Chunked\r\n"), Ok(BodyKind::Chunked));
    assert_eq!(post("content-length: 0\r\n"), Ok(BodyKind::None));
    assert_eq!(post(""), Ok(BodyKind::None), "a request never runs until the close");
    assert_eq!(ok_response(""), Ok(BodyKind::UntilClose));
}

#[test]
fn malformed_lines_are_refused_in_both_roles() {
    use HeadError::{BareLineEnd, Folded, HeaderName, HeaderValue};
    let cases = [
        ("a: b\r\n c\r\n", Folded),
        ("a: b\r\n\tc\r\n", Folded),
        ("a : b\r\n", HeaderName),
        ("a\u{b}: b\r\n", HeaderName),
        ("a\r\n", HeaderName),
        (": b\r\n", HeaderName),
        ("a(: b\r\n", HeaderName),
        ("ä: b\r\n", HeaderName),
        ("a: b\0c\r\n", HeaderValue),
        ("a: b\u{7f}\r\n", HeaderValue),
        ("a: b\nc: d\r\n", BareLineEnd),
        ("a: b\rc: d\r\n", BareLineEnd),
        ("a: b\r\r\n", BareLineEnd),
    ];
    for (lines, error) in cases {
        assert_eq!(post(lines), Err(error), "request {lines:?}");
        assert_eq!(ok_response(lines), Err(error), "response {lines:?}");
    }
}

#[test]
fn start_lines_hosts_and_targets_are_strict() {
    use HeadError::{Host, StartLine, Target, TargetTooLong, Version as BadVersion};
    let start = |line: &str| request(&format!("{line}\r\nhost: a\r\n\r\n")).map(|_| ()).unwrap_err();
    assert_eq!(start("GET  / HTTP/1.1"), StartLine);
    assert_eq!(start("GET /a b HTTP/1.1"), StartLine);
    assert_eq!(start("G@T / HTTP/1.1"), StartLine);
    assert_eq!(start("GET / HTTP/2.0"), BadVersion);
    assert_eq!(start("GET / HTTP/1.2"), BadVersion);
    assert_eq!(start("GET * HTTP/1.1"), Target);
    assert_eq!(start("CONNECT a:443 HTTP/1.1"), Target);
    assert_eq!(start("GET /a#b HTTP/1.1"), Target);
    assert_eq!(start("GET http://user@a/ HTTP/1.1"), Target);
    assert_eq!(start("GET http:///x HTTP/1.1"), Target);
    assert_eq!(start("GET ftp://a/ HTTP/1.1"), Target);
    assert_eq!(start("GET http://b/ HTTP/1.1"), Host);
    assert_eq!(start(&format!("GET /{} HTTP/1.1", "x".repeat(limits::MAX_TARGET))), TargetTooLong);
    for hosts in ["", "host: a\r\nhost: a\r\n", "host:\r\n", "host: a/b\r\n", "host: a b\r\n", "host: u@a\r\n"] {
        let text = format!("GET / HTTP/1.1\r\n{hosts}\r\n");
        assert_eq!(request(&text).map(|_| ()), Err(Host), "{hosts:?}");
    }
}

#[test]
fn an_absolute_target_is_read_as_its_parts() {
    let head = request("GET http://A:80?x=1 HTTP/1.1\r\nhost: a:80\r\n\r\n").unwrap();
    assert_eq!((head.host, head.path, head.query), ("a:80", "/", Some("x=1")));
    let head = request("GET HTTPS://a/v1/models HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!((head.host, head.path, head.query), ("a", "/v1/models", None));
}

#[test]
fn http_1_0_is_read_and_never_kept() {
    let head = request("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").unwrap();
    assert_eq!((head.version, head.host, head.keep_alive), (Version::Http10, "", false));
    let chunked = request("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n");
    assert_eq!(chunked.map(|_| ()), Err(HeadError::Length));
    let answer = response("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n", "GET").unwrap();
    assert!(!answer.keep_alive);
    let answer = response("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\n", "GET").unwrap();
    assert!(answer.keep_alive);
}

#[test]
fn connection_close_is_found_among_other_tokens() {
    let head = request("GET / HTTP/1.1\r\nhost: a\r\nconnection: te\r\nConnection: x , Close\r\n\r\n").unwrap();
    assert!(!head.keep_alive);
    assert!(!response("HTTP/1.1 200 OK\r\n\r\n", "GET").unwrap().keep_alive, "a body until the close ends it");
}

#[test]
fn expectations_other_than_continue_are_417() {
    let error = request("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\nexpect: 200-ok\r\n\r\n").unwrap_err();
    assert_eq!((error, error.status()), (HeadError::Expectation, 417));
    let head = request("GET / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n\r\n").unwrap();
    assert!(!head.expects_continue, "nobody waits who sends no body");
}

#[test]
fn answers_that_have_no_body_have_none() {
    for (text, method) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", "HEAD"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "HEAD"),
        ("HTTP/1.1 200 OK\r\n\r\n", "HEAD"),
        ("HTTP/1.1 204 No Content\r\n\r\n", "GET"),
        ("HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n", "GET"),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", "GET"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "POST"),
        ("HTTP/1.1 103 \r\nlink: a\r\n\r\n", "POST"),
    ] {
        let head = response(text, method).unwrap();
        assert_eq!(head.body, BodyKind::None, "{text:?}");
        assert_eq!(head.is_interim(), head.status < 200);
    }
    for text in ["HTTP/1.1 204 x\r\ncontent-length: 5\r\n\r\n", "HTTP/1.1 100 x\r\ntransfer-encoding: chunked\r\n\r\n"]
    {
        assert_eq!(response(text, "GET").map(|_| ()), Err(HeadError::Length), "{text:?}");
    }
    for text in ["HTTP/1.1 99 x\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n", "HTTP/1.1 +20 x\r\n\r\n", "HTTP/1.1\r\n\r\n"] {
        assert_eq!(response(text, "GET").map(|_| ()), Err(HeadError::StartLine), "{text:?}");
    }
}

#[test]
fn heads_are_bounded_by_bytes_and_lines() {
    let many = "a: b\r\n".repeat(limits::MAX_HEADERS);
    assert_eq!(post(&many), Err(HeadError::TooManyHeaders));
    assert_eq!(ok_response(&many), Ok(BodyKind::UntilClose), "exactly the limit is taken");
    let long = format!("GET / HTTP/1.1\r\na: {}", "x".repeat(limits::MAX_HEAD));
    assert_eq!(RequestHead::read(long.as_bytes(), usize::MAX).map(|_| ()), Err(HeadError::TooLarge));
    assert_eq!(RequestHead::read(&long.as_bytes()[..200], 200).map(|_| ()), Err(HeadError::TooLarge));
}

#[test]
fn pipelined_requests_stay_in_the_buffer() {
    let two = "GET /a HTTP/1.1\r\nhost: a\r\n\r\nGET /b HTTP/1.1\r\nhost: a\r\n\r\n";
    let (first, len) = RequestHead::read(two.as_bytes(), 1024).unwrap().unwrap();
    assert_eq!(first.path, "/a");
    let (second, rest) = RequestHead::read(&two.as_bytes()[len..], 1024).unwrap().unwrap();
    assert_eq!((second.path, len + rest), ("/b", two.len()));
}

#[test]
fn a_proxy_is_told_the_whole_url() {
    let target = "http://a:1/v1/x?y";
    let start = RequestStart { method: "GET", target, host: "a:1", body: BodyKind::None, websocket: None };
    let mut out = Vec::new();
    write::request(&mut out, &start, []).unwrap();
    assert_eq!(out, b"GET http://a:1/v1/x?y HTTP/1.1\r\nhost: a:1\r\n\r\n");
}

#[test]
fn the_writer_refuses_what_would_split_a_message() {
    let start =
        RequestStart { method: "POST", target: "/v1/x", host: "a:1", body: BodyKind::Length(3), websocket: None };
    let try_header = |name: &'static str, value: &'static [u8]| {
        let mut out = b"kept".to_vec();
        let result = write::request(&mut out, &start, [(name, value)]);
        assert_eq!(out == b"kept", result.is_err(), "an error leaves the buffer as it was");
        result
    };
    assert_eq!(try_header("a", b"b\r\nc: d"), Err(WriteError::HeaderValue));
    assert_eq!(try_header("a", b"b\0"), Err(WriteError::HeaderValue));
    assert_eq!(try_header("a b", b"c"), Err(WriteError::HeaderName));
    assert_eq!(try_header("", b"c"), Err(WriteError::HeaderName));
    assert_eq!(try_header("Content-Length", b"9"), Err(WriteError::Reserved));
    assert_eq!(try_header("transfer-Encoding", b"chunked"), Err(WriteError::Reserved));
    assert_eq!(try_header("authorization", b"Bearer k"), Ok(()));
    let mut out = Vec::new();
    let none = std::iter::empty::<(&str, &[u8])>;
    for (start, error) in [
        (RequestStart { method: "P OST", ..start }, WriteError::Method),
        (RequestStart { target: "/a b", ..start }, WriteError::Target),
        (RequestStart { target: "a", ..start }, WriteError::Target),
        (RequestStart { target: "http://b:1/v1/x", ..start }, WriteError::Target),
        (RequestStart { target: "http://a:1", ..start }, WriteError::Target),
        (RequestStart { target: "http://a:12/v1/x", ..start }, WriteError::Target),
        (RequestStart { target: "/\r\nx: y", ..start }, WriteError::Target),
        (RequestStart { host: "a\r\nx: y", ..start }, WriteError::Host),
        (RequestStart { host: "u@a", ..start }, WriteError::Host),
    ] {
        assert_eq!(write::request(&mut out, &start, none()), Err(error));
    }
    let answer = ResponseStart { status: 204, body: BodyKind::Length(1), close: false };
    assert_eq!(write::response(&mut out, answer, none()), Err(WriteError::Status));
    assert!(out.is_empty());
}
