//! Pictures and files by data URI, and back.

use super::neutral::{Place, Str};
use crate::text::Literal;

/// A URL as the client wrote it; one that holds the bytes itself (`data:image/png;base64,…`) is taken apart.
pub(super) fn place(url: Literal<'_>) -> Place<'_> {
    if url.escaped() {
        // JSON may write the slash of `image/png` as an escape.
        let text = url.decode().into_owned();
        return match split(text.as_bytes()) {
            Some((mime, at)) => {
                Place::Base64 { mime: Str::Own(text[5..5 + mime].to_owned()), data: Str::Own(text[at..].to_owned()) }
            }
            None => Place::Url(Str::Own(text)),
        };
    }
    match split(url.raw) {
        Some((mime, at)) => {
            let part = |raw| Str::Lit(Literal { raw, ..url });
            Place::Base64 { mime: part(&url.raw[5..5 + mime]), data: part(&url.raw[at..]) }
        }
        None => Place::Url(url.into()),
    }
}

/// The data of a file. Bare base64 without its type is what older clients send for a PDF.
pub(super) fn file(data: Literal<'_>) -> Place<'_> {
    match place(data) {
        Place::Url(data) => Place::Base64 { mime: Str::Own("application/pdf".to_owned()), data },
        place => place,
    }
}

/// The length of the media type behind `data:`, and where the base64 text starts. Parameters of the type go.
fn split(url: &[u8]) -> Option<(usize, usize)> {
    let rest = url.strip_prefix(b"data:")?;
    let comma = memchr::memchr(b',', rest)?;
    let head = rest[..comma].strip_suffix(b";base64")?;
    Some((memchr::memchr(b';', head).unwrap_or(head.len()), 5 + comma + 1))
}

/// Appends a JSON string: the URL, or a data URI of the bytes. An id has no URL: the reader has refused it.
pub(super) fn push_url(place: &Place<'_>, out: &mut Vec<u8>) {
    match place {
        Place::Url(url) | Place::Id(url) => url.push(out),
        Place::Base64 { mime, data } => {
            out.extend_from_slice(b"\"data:");
            mime.push_inside(out);
            out.extend_from_slice(b";base64,");
            data.push_inside(out);
            out.push(b'"');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Scanner;

    fn again(url: &str) -> (bool, String) {
        let json = format!("\"{url}\"");
        let literal = Scanner::new(json.as_bytes()).string().unwrap();
        let place = place(literal);
        let mut out = Vec::new();
        push_url(&place, &mut out);
        (matches!(place, Place::Base64 { .. }), String::from_utf8(out).unwrap())
    }

    #[test]
    fn data_uris_are_taken_apart_and_put_together() {
        assert_eq!(again("data:image/png;base64,AA=="), (true, "\"data:image/png;base64,AA==\"".into()));
        assert_eq!(again(r"data:image\/png;base64,A\/=="), (true, "\"data:image/png;base64,A/==\"".into()));
        assert_eq!(again("data:text/plain;charset=utf-8;base64,AA"), (true, "\"data:text/plain;base64,AA\"".into()));
        for url in ["https://x/a.png", "data:image/png,AA", "data:", "data:;base64"] {
            assert_eq!(again(url), (false, format!("\"{url}\"")));
        }
    }
}
