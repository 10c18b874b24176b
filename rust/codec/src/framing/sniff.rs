//! Which framing a body has: by its first bytes, and by content type where these say nothing.
//!
//! An event stream cannot begin with a bracket and JSON cannot begin with a field's name, so the first byte after
//! white space and a byte order mark decides (a binary one begins with the zero of a length), whatever the header claims: vendors answer JSON errors as
//! `text/event-stream`, and event streams as `application/json`.

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sse,
    Ndjson,
    Json,
    EventStream,
}

/// What the header says.
#[must_use]
pub fn of_content_type(content_type: Option<&str>) -> Option<Kind> {
    let media = content_type?.split(';').next()?.trim();
    let is = |known: &str| media.eq_ignore_ascii_case(known);
    let suffix = media.len().checked_sub(5).and_then(|at| media.get(at..));
    if is("text/event-stream") {
        Some(Kind::Sse)
    } else if is("application/json") || suffix.is_some_and(|end| end.eq_ignore_ascii_case("+json")) {
        Some(Kind::Json)
    } else if LINES.iter().any(|known| is(known)) {
        Some(Kind::Ndjson)
    } else {
        is("application/vnd.amazon.eventstream").then_some(Kind::EventStream)
    }
}

const LINES: [&str; 4] = ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];

/// What the first bytes say, given what the header says. `None` while only white space or part of a mark has come.
#[must_use]
pub fn of_first_bytes(bytes: &[u8], header: Option<Kind>) -> Option<Kind> {
    let mark = b"\xef\xbb\xbf";
    let rest = bytes.strip_prefix(mark).unwrap_or(bytes);
    if rest.len() == bytes.len() && mark.starts_with(bytes) {
        return None;
    }
    // The first byte of a length below 144 MiB; no text begins with one of these.
    match bytes.first() {
        Some(0) => return Some(Kind::EventStream),
        Some(1..=8) if header == Some(Kind::EventStream) => return header,
        _ => {}
    }
    match rest.trim_ascii_start().first()? {
        b'{' | b'[' => Some(if header == Some(Kind::Ndjson) { Kind::Ndjson } else { Kind::Json }),
        b':' | b'd' | b'e' | b'i' | b'r' => Some(Kind::Sse),
        _ => Some(header.unwrap_or(Kind::Sse)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_beat_a_wrong_header() {
        use Kind::{EventStream, Json, Ndjson, Sse};
        for (bytes, header, want) in [
            (&b"data: x"[..], Some(Json), Some(Sse)),
            (b"\n: hi", None, Some(Sse)),
            (b" {\"error\"", Some(Sse), Some(Json)),
            (b"{\"a\"", Some(Ndjson), Some(Ndjson)),
            (b"\xef\xbb\xbf[", None, Some(Json)),
            (b"\xef\xbb", None, None),
            (b" \n", Some(Sse), None),
            (b"", Some(Sse), None),
            (b"<html>", Some(Json), Some(Json)),
            (b"<html>", None, Some(Sse)),
            (b"\0\0\0\x10", Some(Json), Some(EventStream)),
            (b"\x01\0\0\0", Some(EventStream), Some(EventStream)),
            (b"@\0\0\0", Some(EventStream), Some(EventStream)),
            (b"{\"message\"", Some(EventStream), Some(Json)),
        ] {
            assert_eq!(of_first_bytes(bytes, header), want, "{bytes:?}");
        }
    }

    #[test]
    fn content_types_have_parameters_and_case() {
        assert_eq!(of_content_type(Some("Text/Event-Stream; charset=utf-8")), Some(Kind::Sse));
        assert_eq!(of_content_type(Some("application/problem+json")), Some(Kind::Json));
        assert_eq!(of_content_type(Some("text/html")), None);
    }
}
