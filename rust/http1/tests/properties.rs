//! Properties: no bytes panic, no split changes what is read, what we write we read.

use headrace_http1::body::{BodyDecoder, BodyError, BodyKind};
use headrace_http1::write::{self, RequestStart, ResponseStart};
use headrace_http1::{HeadScanner, RequestHead, ResponseHead, limits};
use proptest::prelude::*;

/// Bytes that look like HTTP often enough to get past the first check.
fn http_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"GET / HTTP/1.1\r\n".to_vec()),
        Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Just(b"host: a\r\n".to_vec()),
        Just(b"content-length: 5\r\n".to_vec()),
        Just(b"transfer-encoding: chunked\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"5\r\nhello\r\n".to_vec()),
        Just(b"0\r\n\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\n".to_vec()),
        Just(b": ".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Everything a decoder says of a body that comes in these pieces: data, bytes taken, how it ended.
fn decode(kind: BodyKind, pieces: &[&[u8]]) -> (Vec<u8>, usize, Result<bool, BodyError>) {
    let mut decoder = BodyDecoder::new(kind);
    let (mut data, mut taken) = (Vec::new(), 0);
    for piece in pieces {
        let mut at = 0;
        while at < piece.len() && !decoder.is_done() {
            match decoder.decode(&piece[at..]) {
                Ok(step) => {
                    assert!(step.consumed > 0 && step.data.end <= step.consumed);
                    data.extend_from_slice(&piece[at..][step.data]);
                    at += step.consumed;
                }
                Err(error) => {
                    assert_eq!(decoder.decode(b"x"), Err(error), "poisoned for ever");
                    return (data, 0, Err(error));
                }
            }
        }
        taken += at;
    }
    (data, taken, Ok(decoder.is_done()))
}

fn token() -> impl Strategy<Value = String> {
    "[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,15}"
}

fn headers() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let value = proptest::collection::vec(prop_oneof![0x21..=0x7eu8, 0x80..=0xffu8, Just(b' '), Just(b'\t')], 0..30);
    proptest::collection::vec((token().prop_map(|n| format!("x{n}")), value), 0..20)
}

fn borrowed(headers: &[(String, Vec<u8>)]) -> impl Iterator<Item = (&str, &[u8])> {
    headers.iter().map(|(n, v)| (n.as_str(), v.as_slice()))
}

fn trimmed(value: &[u8]) -> &[u8] {
    let blank = |b: &u8| *b == b' ' || *b == b'\t';
    let start = value.iter().position(|b| !blank(b)).unwrap_or(value.len());
    let end = value.iter().rposition(|b| !blank(b)).map_or(start, |i| i + 1);
    &value[start..end]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_bytes_panic_and_no_split_changes_a_scan(bytes in http_like(), limit in 1usize..400) {
        let whole = HeadScanner::default().scan(&bytes, limit);
        let mut scanner = HeadScanner::default();
        let drip = (0..=bytes.len()).map(|n| scanner.scan(&bytes[..n], limit)).find(|r| !matches!(r, Ok(None)));
        prop_assert_eq!(drip.unwrap_or(Ok(None)), whole);
        let _ = RequestHead::read(&bytes, limit);
        let _ = ResponseHead::read(&bytes, limit, "POST");
        let _ = RequestHead::parse(&bytes);
        let _ = ResponseHead::parse(&bytes, "HEAD");
    }

    #[test]
    fn an_accepted_head_has_one_reading(bytes in http_like()) {
        if let Ok(Some((head, len))) = RequestHead::read(&bytes, limits::MAX_HEAD) {
            let text = &bytes[..len];
            prop_assert!(!text.contains(&0));
            prop_assert!(memchr::memchr_iter(b'\n', text).all(|i| text[i - 1] == b'\r'));
            let lengths = head.headers.all("content-length").count() + head.headers.all("transfer-encoding").count();
            prop_assert!(lengths <= 1);
        }
    }

    #[test]
    fn no_split_changes_a_body(bytes in http_like(), cut in any::<prop::sample::Index>(), length in 0u64..40) {
        let cut = cut.index(bytes.len() + 1);
        for kind in [BodyKind::Chunked, BodyKind::Length(length), BodyKind::UntilClose, BodyKind::None] {
            let whole = decode(kind, &[&bytes]);
            let two = decode(kind, &[&bytes[..cut], &bytes[cut..]]);
            let drip = decode(kind, &bytes.chunks(1).collect::<Vec<_>>());
            prop_assert_eq!(&whole, &two);
            prop_assert_eq!(&whole, &drip);
        }
    }

    #[test]
    fn chunks_that_we_write_we_read(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
        cut in any::<prop::sample::Index>(),
        rest in proptest::collection::vec(any::<u8>(), 0..5),
    ) {
        let mut wire = Vec::new();
        for piece in &pieces {
            write::chunk(&mut wire, piece);
        }
        wire.extend_from_slice(write::LAST_CHUNK);
        let end = wire.len();
        wire.extend_from_slice(&rest);
        let cut = cut.index(wire.len() + 1);
        let (data, taken, done) = decode(BodyKind::Chunked, &[&wire[..cut], &wire[cut..]]);
        prop_assert_eq!(data, pieces.concat());
        prop_assert_eq!((taken, done), (end, Ok(true)));

        let (mut decoder, mut ranges) = (BodyDecoder::new(BodyKind::Chunked), Vec::new());
        let all = decoder.decode_all(&wire, &mut ranges).unwrap();
        prop_assert_eq!((all.consumed, all.done, all.whole_chunks), (end, true, true));
        let joined: Vec<u8> = ranges.into_iter().flat_map(|r| wire[r].to_vec()).collect();
        prop_assert_eq!(joined, pieces.concat());
    }

    #[test]
    fn requests_that_we_write_we_read(method in token(), path in "/[a-z0-9/._%?=&-]{0,40}", headers in headers(), n in 0u64..1 << 50) {
        let mut out = Vec::new();
        let start = RequestStart { method: &method, target: &path, host: "api.example:443", body: BodyKind::Length(n), websocket: None };
        write::request(&mut out, &start, borrowed(&headers)).unwrap();
        let (head, len) = RequestHead::read(&out, limits::MAX_HEAD).unwrap().unwrap();
        prop_assert_eq!(len, out.len());
        let target = head.query.map_or(head.path.to_owned(), |q| format!("{}?{q}", head.path));
        prop_assert_eq!((head.method, target, head.host), (method.as_str(), path, "api.example:443"));
        prop_assert_eq!(head.body, if n == 0 { BodyKind::None } else { BodyKind::Length(n) });
        let read: Vec<_> = head.headers.iter().skip(2).collect();
        let wrote: Vec<_> = borrowed(&headers).map(|(n, v)| (n, trimmed(v))).collect();
        prop_assert_eq!(read, wrote);
    }

    #[test]
    fn responses_that_we_write_we_read(status in 200u16..=999, headers in headers(), close in any::<bool>()) {
        prop_assume!(status != 204 && status != 304);
        for body in [BodyKind::None, BodyKind::Length(7), BodyKind::Chunked, BodyKind::UntilClose] {
            let mut out = Vec::new();
            write::response(&mut out, ResponseStart { status, body, close }, borrowed(&headers)).unwrap();
            let (head, len) = ResponseHead::read(&out, limits::MAX_HEAD, "POST").unwrap().unwrap();
            prop_assert_eq!((len, head.status, head.body), (out.len(), status, body));
            prop_assert_eq!(head.keep_alive, !close && body != BodyKind::UntilClose);
        }
    }
}
