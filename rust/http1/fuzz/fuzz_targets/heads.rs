//! Heads: no bytes panic; no split changes where a head ends; what is accepted, written again, reads the same.
#![no_main]

use headrace_http1::write::{self, RequestStart, ResponseStart};
use headrace_http1::{BodyKind, HeadScanner, Headers, RequestHead, ResponseHead, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<u8>)| {
    // A ladder: bytes alone hardly ever get past a start line.
    let (rung, bytes) = (input.0, input.1.as_slice());
    match rung % 5 {
        0 => check(bytes),
        1 => check(&[b"GET /", bytes, b" HTTP/1.1\r\nhost: a\r\n\r\n"].concat()),
        2 => check(&[b"POST / HTTP/1.1\r\nhost: a\r\n", bytes, b"\r\n\r\n"].concat()),
        3 => check(&[b"HTTP/1.1 200 OK\r\n", bytes, b"\r\n\r\n"].concat()),
        _ => check(&[b"HTTP/1.", bytes, b"\r\n\r\n"].concat()),
    }
});

fn check(bytes: &[u8]) {
    let whole = HeadScanner::default().scan(bytes, limits::MAX_HEAD);
    if bytes.len() <= 4096 {
        let mut scanner = HeadScanner::default();
        let drip = (0..=bytes.len()).map(|n| scanner.scan(&bytes[..n], limits::MAX_HEAD));
        let drip = drip.into_iter().find(|r| !matches!(r, Ok(None))).unwrap_or(Ok(None));
        assert_eq!(drip, whole);
    }
    // Parsing must not rely on the scanner for its safety.
    let _ = RequestHead::parse(bytes);
    let _ = ResponseHead::parse(bytes, "HEAD");
    let Ok(Some(len)) = whole else { return };
    if let Ok(head) = RequestHead::parse(&bytes[..len]) {
        again_request(&head);
    }
    if let Ok(head) = ResponseHead::parse(&bytes[..len], "POST") {
        again_response(&head);
    }
}

fn free<'a>(headers: &'a Headers<'_>) -> Vec<(&'a str, &'a [u8])> {
    headers.iter().filter(|(name, _)| !write::is_reserved(name)).collect()
}

fn again_request(head: &RequestHead<'_>) {
    let target = head.query.map_or(head.path.to_owned(), |query| format!("{}?{query}", head.path));
    let host = if head.host.is_empty() { "none" } else { head.host };
    let start = RequestStart { method: head.method, target: &target, host, body: head.body, websocket: None };
    let mut out = Vec::new();
    if write::request(&mut out, &start, free(&head.headers)).is_err() {
        return; // The writer's own headers may pass a limit.
    }
    let (again, len) = RequestHead::read(&out, limits::MAX_HEAD).unwrap().unwrap();
    assert_eq!(len, out.len());
    assert_eq!((again.method, again.path, again.query), (head.method, head.path, head.query));
    assert_eq!((again.host, again.body), (host, head.body));
    assert_eq!(free(&again.headers), free(&head.headers));
}

fn again_response(head: &ResponseHead<'_>) {
    let bodiless = head.is_interim() || matches!(head.status, 204 | 304);
    let body = if bodiless { BodyKind::None } else { head.body };
    let mut out = Vec::new();
    let start = ResponseStart { status: head.status, body, close: !head.keep_alive };
    if write::response(&mut out, start, free(&head.headers)).is_err() {
        return;
    }
    let (again, _) = ResponseHead::read(&out, limits::MAX_HEAD, "POST").unwrap().unwrap();
    assert_eq!((again.status, again.body, again.keep_alive), (head.status, body, head.keep_alive));
    assert_eq!(free(&again.headers), free(&head.headers));
}
