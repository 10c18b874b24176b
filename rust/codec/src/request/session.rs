//! A conversation over one WebSocket (Responses): what a frame asks, and what an answer adds to the next one's input.
//!
//! 1. State is the conversation's items as they were sent and received, byte for byte, under the id of its last answer.
//!    A frame that names that id goes on from there: its body gets all of the items, and no id.
//! 2. Keys of the frame alone (`type`, `generate`, `stream_id`) go; `stream` is true; everything else keeps its bytes.
//! 3. A frame that names another id is left as it is, unless it says `store: false`: then nobody holds that state.
//!
//! Nothing about connections, and no clock, may be added here.

use super::edit::{Edit, rewrite};
use super::error::{RequestError, Res, shown};
use crate::json::{Kind, Scanner};

/// What a client's text message asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// An answer to this body.
    Create {
        body: Vec<u8>,
        /// The items of the body's input.
        items: Vec<u8>,
    },
    /// An id for this beginning, and no answer (`generate: false`).
    WarmUp { body: Vec<u8>, items: Vec<u8> },
    /// A note that needs no answer (`response.processed`).
    Note,
}

/// A conversation that one connection holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    held: Option<Held>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    id: String,
    /// JSON values with commas between them.
    items: Vec<u8>,
}

#[derive(Default)]
struct Keys<'a> {
    kind: Option<String>,
    generate: Option<bool>,
    previous: Option<String>,
    stream_id: bool,
    background: bool,
    store: Option<bool>,
    input: Option<&'a [u8]>,
    present: Vec<&'static str>,
}

impl Session {
    /// Reads a text message.
    ///
    /// Fails with code `previous_response_not_found` where it goes on from an answer that is not the last one here.
    pub fn frame(&self, message: &[u8]) -> Result<Frame, RequestError> {
        let keys = keys(message)?;
        match keys.kind.as_deref() {
            Some("response.create") => {}
            Some("response.processed") => return Ok(Frame::Note),
            Some(other) => {
                let message = format!("type: {} is not known here; send response.create", shown(other));
                return Err(RequestError::invalid(Some("type".into()), message));
            }
            None => return Err(RequestError::expected("type".into(), "\"response.create\"")),
        }
        if keys.stream_id {
            let message = "stream_id: this gateway has one lane per connection; leave it out".into();
            return Err(RequestError {
                code: "invalid_stream_id",
                ..RequestError::invalid(Some("stream_id".into()), message)
            });
        }
        if keys.background {
            let message = "background: it cannot be had over a WebSocket".into();
            return Err(RequestError::unsupported("background".into(), message));
        }
        let new = items(keys.input)?;
        let mut removed = vec!["/type"];
        removed.extend(keys.present.iter().copied());
        let held = self.held.as_ref().filter(|held| keys.previous.as_deref() == Some(held.id.as_str()));
        let all = match (held, keys.previous) {
            (Some(held), _) => {
                removed.push("/previous_response_id");
                join(&held.items, &new)
            }
            (None, Some(_)) if keys.store == Some(false) => {
                let message =
                    "previous_response_id: this connection does not hold that answer; send the whole input".into();
                let param = Some("previous_response_id".into());
                return Err(RequestError { status: 400, code: "previous_response_not_found", param, message });
            }
            (None, _) => new,
        };
        let mut edits = Vec::with_capacity(removed.len() + 2);
        for pointer in removed {
            edits.push(Edit::new(pointer, None)?);
        }
        edits.push(Edit::new("/stream", Some(b"true"))?);
        if held.is_some() {
            edits.push(Edit::new("/input", Some(&[b"[", &all[..], b"]"].concat()))?);
        }
        let body = rewrite(message, None, &edits)?.to_vec();
        Ok(if keys.generate == Some(false) {
            Frame::WarmUp { body, items: all }
        } else {
            Frame::Create { body, items: all }
        })
    }

    /// Takes up an answer that was given to a body with these items. With more than `limit` bytes nothing is held.
    pub fn answered(&mut self, id: String, items: &[u8], output: &[u8], limit: usize) {
        let items = join(items, output);
        self.held = (items.len() <= limit).then_some(Held { id, items });
    }
}

/// The id and the output items of a response object in an event that ends an answer well (`response.completed`,
/// `response.incomplete`); `None` for every other event.
#[must_use]
pub fn ended(event: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut s = Scanner::new(event);
    let mut members = s.object().ok()?;
    let (mut ends, mut found) = (false, None);
    while let Some(key) = s.key(&mut members).ok()? {
        if key.decode() == "type" {
            let kind = s.string_or_skip().ok()??.decode();
            ends = matches!(kind.as_ref(), "response.completed" | "response.incomplete");
        } else if key.decode() == "response" {
            found = response(s.skip().ok()?);
        } else {
            s.skip().ok()?;
        }
    }
    found.filter(|_| ends)
}

fn response(object: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut s = Scanner::new(object);
    let mut members = s.object_or_skip().ok()??;
    let (mut id, mut output) = (None, Vec::new());
    while let Some(key) = s.key(&mut members).ok()? {
        if key.decode() == "id" {
            id = s.string_or_skip().ok()?.map(|id| id.decode().into_owned());
        } else if key.decode() == "output" && s.kind().ok()? == Kind::Array {
            output = inside(s.skip().ok()?).to_vec();
        } else {
            s.skip().ok()?;
        }
    }
    Some((id?, output))
}

fn keys(message: &[u8]) -> Res<Keys<'_>> {
    let mut s = Scanner::new(message);
    if s.kind()? != Kind::Object {
        return Err(RequestError::expected(String::new(), "an object"));
    }
    let mut members = s.object()?;
    let mut keys = Keys::default();
    while let Some(key) = s.key(&mut members)? {
        let name = key.decode();
        if s.skip_null()? {
            match name.as_ref() {
                "generate" => keys.present.push("/generate"),
                "stream_id" => keys.present.push("/stream_id"),
                _ => {}
            }
            continue;
        }
        let text = |s: &mut Scanner<'_>| -> Res<String> {
            let text = s.string_or_skip()?.map(|text| text.decode().into_owned());
            text.ok_or_else(|| RequestError::expected(name.clone().into_owned(), "a string"))
        };
        let flag = |s: &mut Scanner<'_>| -> Res<bool> {
            if s.kind()? == Kind::Bool {
                Ok(s.boolean()?)
            } else {
                Err(RequestError::expected(name.clone().into_owned(), "true or false"))
            }
        };
        match name.as_ref() {
            "type" => keys.kind = Some(text(&mut s)?),
            "previous_response_id" => keys.previous = Some(text(&mut s)?),
            "generate" => {
                keys.generate = Some(flag(&mut s)?);
                keys.present.push("/generate");
            }
            "background" => keys.background = flag(&mut s)?,
            "store" => keys.store = Some(flag(&mut s)?),
            "stream_id" => {
                s.skip()?;
                keys.stream_id = true;
            }
            "input" => keys.input = Some(s.skip()?),
            _ => {
                s.skip()?;
            }
        }
    }
    s.end()?;
    Ok(keys)
}

/// The items of an `input`: a text is one message of the user.
fn items(input: Option<&[u8]>) -> Res<Vec<u8>> {
    let Some(input) = input else { return Ok(Vec::new()) };
    match Scanner::new(input).kind()? {
        Kind::Array => Ok(inside(input).to_vec()),
        Kind::String => Ok([&br#"{"type":"message","role":"user","content":"#[..], input, b"}"].concat()),
        _ => Err(RequestError::expected("input".into(), "an array or a string")),
    }
}

/// What stands between the brackets of an array.
fn inside(array: &[u8]) -> &[u8] {
    array.trim_ascii().get(1..).and_then(|rest| rest.strip_suffix(b"]")).unwrap_or_default().trim_ascii()
}

fn join(a: &[u8], b: &[u8]) -> Vec<u8> {
    let comma: &[u8] = if a.is_empty() || b.is_empty() { b"" } else { b"," };
    [a, comma, b].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(session: &Session, message: &str) -> (String, String) {
        match session.frame(message.as_bytes()).unwrap() {
            Frame::Create { body, items } => (String::from_utf8(body).unwrap(), String::from_utf8(items).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_turn_goes_on_where_the_last_one_ended() {
        let mut session = Session::default();
        let (body, items) = create(
            &session,
            r#"{"type":"response.create","model":"m","input":[ {"a": 1} ],"store":false,"stream":true}"#,
        );
        assert_eq!(body, r#"{"model":"m","input":[ {"a": 1} ],"store":false,"stream":true}"#);
        session.answered("resp_1".into(), items.as_bytes(), br#"{"b":2}"#, 99);
        let next =
            r#"{"type":"response.create","model":"m","previous_response_id":"resp_1","input":[{"c":3}],"store":false}"#;
        let (body, items) = create(&session, next);
        assert_eq!(items, r#"{"a": 1},{"b":2},{"c":3}"#);
        assert_eq!(body, r#"{"model":"m","input":[{"a": 1},{"b":2},{"c":3}],"store":false,"stream":true}"#);
        // Another id: not ours to know, unless nobody can hold it.
        let error = session.frame(next.replace("resp_1", "resp_0").as_bytes()).unwrap_err();
        assert_eq!((error.status, error.code), (400, "previous_response_not_found"));
        let (body, _) = create(&session, &next.replace("resp_1", "resp_0").replace("false", "true"));
        assert!(body.contains("resp_0"), "{body}");
    }

    #[test]
    fn a_text_is_a_message_and_too_much_is_not_held() {
        let mut session = Session::default();
        let frame =
            session.frame(br#"{"type":"response.create","generate":false,"input":"hi","previous_response_id":null}"#);
        let Frame::WarmUp { body, items } = frame.unwrap() else { panic!("it warms up") };
        assert_eq!(body, br#"{"input":"hi","previous_response_id":null,"stream":true}"#);
        session.answered("resp_w".into(), &items, b"", 99);
        let (body, _) = create(&session, r#"{"type":"response.create","previous_response_id":"resp_w"}"#);
        assert_eq!(body, r#"{"stream":true,"input":[{"type":"message","role":"user","content":"hi"}]}"#);
        session.answered("resp_x".into(), &items, b"", 10);
        assert_eq!(session, Session::default());
    }

    #[test]
    fn what_a_frame_must_be() {
        let session = Session::default();
        for (message, code, param) in [
            ("[]", "invalid_request", None),
            ("{", "invalid_json", None),
            ("{}", "invalid_request", Some("type")),
            (r#"{"type":"response.steer"}"#, "invalid_request", Some("type")),
            (r#"{"type":1}"#, "invalid_request", Some("type")),
            (r#"{"type":"response.create","stream_id":"a"}"#, "invalid_stream_id", Some("stream_id")),
            (r#"{"type":"response.create","background":true}"#, "unsupported_feature", Some("background")),
            (r#"{"type":"response.create","generate":"no"}"#, "invalid_request", Some("generate")),
            (r#"{"type":"response.create","input":1}"#, "invalid_request", Some("input")),
        ] {
            let error = session.frame(message.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (code, param), "{message}");
        }
        assert_eq!(session.frame(br#"{"type":"response.processed","response_id":"r"}"#), Ok(Frame::Note));
    }

    #[test]
    fn only_a_good_end_is_taken_up() {
        let event =
            br#"{"type":"response.completed","response":{"output":[ {"x":[1]} ],"id":"resp_1"},"sequence_number":3}"#;
        assert_eq!(ended(event), Some(("resp_1".into(), br#"{"x":[1]}"#.to_vec())));
        assert_eq!(ended(br#"{"type":"response.failed","response":{"output":[],"id":"r"}}"#), None);
        assert_eq!(ended(br#"{"type":"response.output_text.delta","delta":"\"response.completed\""}"#), None);
    }
}
