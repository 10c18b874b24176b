//! Conversations over one WebSocket (Responses): what a frame asks, and what an answer adds to the next one's input.
//!
//! 1. State is a lane's items as they were sent and received, byte for byte, under the id of its last answer. A frame of
//!    any lane that names that id goes on from there: its body gets all of the items, and no id.
//! 2. Keys of the frame alone (`type`, `generate`, `stream_id`) go; `stream` is true; everything else keeps its bytes.
//! 3. A frame that names another id is left as it is, unless it says `store: false`: then nobody holds that state.
//! 4. All lanes together hold no more than a request's body may have: the one that was answered longest ago goes first.
//!
//! Nothing about connections, and no clock, may be added here.

use super::edit::{Edit, rewrite};
use super::error::{RequestError, Res, shown};
use crate::json::{Kind, Scanner};
use crate::text::push_json_str;

/// What a client's text message is about, as far as its place among the others goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// An answer; what it says is read at its turn.
    Answer {
        /// None: the default one.
        lane: Option<String>,
        /// The answer that it goes on from.
        previous: Option<String>,
    },
    /// Input for the answer with this id, which is being given.
    Steer {
        previous: String,
        /// A JSON value.
        input: Vec<u8>,
    },
    /// A note that needs no answer (`response.processed`).
    Note,
}

/// What a frame asks for.
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
}

/// The conversations that one connection holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The one that was answered longest ago comes first; one for each lane at most.
    held: Vec<Held>,
    limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    lane: Option<String>,
    id: String,
    /// JSON values with commas between them.
    items: Vec<u8>,
}

/// Reads of a text message whose it is.
///
/// Fails with code `invalid_stream_id` where the lane's name is none, and where the message is no object.
pub fn asks(message: &[u8]) -> Result<Asks, RequestError> {
    let mut s = Scanner::new(message);
    if s.kind()? != Kind::Object {
        return Err(RequestError::expected(String::new(), "an object"));
    }
    let mut members = s.object()?;
    let (mut kind, mut lane, mut previous, mut input) = (None, None, None, None);
    while let Some(key) = s.key(&mut members)? {
        match key.decode().as_ref() {
            "type" => kind = s.string_or_skip()?.map(|text| text.decode().into_owned()),
            "previous_response_id" => previous = s.string_or_skip()?.map(|text| text.decode().into_owned()),
            "stream_id" if s.skip_null()? => lane = None,
            "stream_id" => lane = Some(name(s.string_or_skip()?.map(|text| text.decode().into_owned()))?),
            "input" => input = Some(s.skip()?),
            _ => {
                s.skip()?;
            }
        }
    }
    s.end()?;
    match (kind.as_deref(), previous, input) {
        (Some("response.processed"), ..) => Ok(Asks::Note),
        (Some("response.steer"), Some(previous), Some(input)) => Ok(Asks::Steer { previous, input: input.to_vec() }),
        (Some("response.steer"), None, _) => Err(RequestError::expected("previous_response_id".into(), "a string")),
        (Some("response.steer"), _, None) => Err(RequestError::expected("input".into(), "an array or a string")),
        (_, previous, _) => Ok(Asks::Answer { lane, previous }),
    }
}

/// Checks the name of a lane.
fn name(text: Option<String>) -> Res<String> {
    let fits = |text: &String| {
        matches!(text.len(), 1..=256) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    };
    text.filter(fits).ok_or_else(|| {
        let message =
            "stream_id: expected 1 to 256 letters, digits, '_', '.' or '-'; leave it out for the default lane";
        RequestError { code: "invalid_stream_id", ..RequestError::invalid(Some("stream_id".into()), message.into()) }
    })
}

/// The event that refuses to steer: the input goes back, so that the client can ask with it.
#[must_use]
pub fn not_steered(code: &str, message: &str, previous: &str, input: &[u8]) -> Vec<u8> {
    let mut out =
        br#"{"type":"response.steer.failed","sequence_number":0,"error":{"type":"invalid_request_error","code":"#
            .to_vec();
    push_json_str(code, &mut out);
    out.extend_from_slice(br#","message":"#);
    push_json_str(message, &mut out);
    out.extend_from_slice(br#"},"steer":{"previous_response_id":"#);
    push_json_str(previous, &mut out);
    out.extend_from_slice(br#","input":"#);
    out.extend_from_slice(input);
    out.extend_from_slice(b"}}");
    out
}

#[derive(Default)]
struct Keys<'a> {
    kind: Option<String>,
    generate: Option<bool>,
    previous: Option<String>,
    background: bool,
    store: Option<bool>,
    input: Option<&'a [u8]>,
    present: Vec<&'static str>,
}

impl Session {
    /// `limit`: bytes of a request's body, and of all items that are held.
    #[must_use]
    pub fn new(limit: usize) -> Session {
        Session { held: Vec::new(), limit }
    }

    /// Bytes that a frame gets that goes on from this answer.
    #[must_use]
    pub fn weight(&self, previous: Option<&str>) -> usize {
        self.find(previous).map_or(0, |held| held.items.len())
    }

    /// Whether it holds the answer with this id.
    #[must_use]
    pub fn holds(&self, id: &str) -> bool {
        self.find(Some(id)).is_some()
    }

    fn find(&self, id: Option<&str>) -> Option<&Held> {
        self.held.iter().find(|held| Some(held.id.as_str()) == id)
    }

    /// Reads a text message.
    ///
    /// Fails with code `previous_response_not_found` where it goes on from an answer that is the last one of no lane
    /// here, and with 413 where its conversation is larger than a body may be.
    pub fn frame(&self, message: &[u8]) -> Result<Frame, RequestError> {
        let keys = keys(message)?;
        match keys.kind.as_deref() {
            Some("response.create") => {}
            Some(other) => {
                let message = format!("type: {} is not known here; send response.create", shown(other));
                return Err(RequestError::invalid(Some("type".into()), message));
            }
            None => return Err(RequestError::expected("type".into(), "\"response.create\"")),
        }
        if keys.background {
            let message = "background: it cannot be had over a WebSocket".into();
            return Err(RequestError::unsupported("background".into(), message));
        }
        let new = items(keys.input)?;
        let mut removed = vec!["/type"];
        removed.extend(keys.present.iter().copied());
        let held = self.find(keys.previous.as_deref());
        let all = match (held, keys.previous.as_deref()) {
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
        if body.len() > self.limit {
            let message = format!("input: with what came before it, it is larger than {} bytes", self.limit);
            return Err(RequestError { status: 413, code: "request_too_large", param: Some("input".into()), message });
        }
        Ok(if keys.generate == Some(false) {
            Frame::WarmUp { body, items: all }
        } else {
            Frame::Create { body, items: all }
        })
    }

    /// Takes up an answer that was given in `lane` to a body with these items, in place of the one before it there.
    pub fn answered(&mut self, lane: Option<&str>, id: String, items: &[u8], output: &[u8]) {
        self.held.retain(|held| held.lane.as_deref() != lane);
        let items = join(items, output);
        self.held.push(Held { lane: lane.map(str::to_owned), id, items });
        let mut all: usize = self.held.iter().map(|held| held.items.len()).sum();
        while all > self.limit {
            all -= self.held.remove(0).items.len();
        }
    }
}

/// The id of the response object in an event; `None` where it has none.
#[must_use]
pub fn response_id(event: &[u8]) -> Option<String> {
    let mut s = Scanner::new(event);
    let mut members = s.object().ok()?;
    while let Some(key) = s.key(&mut members).ok()? {
        if key.decode() == "response" {
            return response(s.skip().ok()?).map(|(id, _)| id);
        }
        s.skip().ok()?;
    }
    None
}

/// Whether an event is an answer's last one, well or not (`response.completed`, `.incomplete`, `.failed`, `error`).
#[must_use]
pub fn is_end(event: &[u8]) -> bool {
    let ends = |kind: String| {
        matches!(kind.as_str(), "response.completed" | "response.incomplete" | "response.failed" | "error")
    };
    kind(event).is_some_and(ends)
}

/// An event's type.
fn kind(event: &[u8]) -> Option<String> {
    let mut s = Scanner::new(event);
    let mut members = s.object().ok()?;
    while let Some(key) = s.key(&mut members).ok()? {
        if key.decode() == "type" {
            return s.string_or_skip().ok()?.map(|kind| kind.decode().into_owned());
        }
        s.skip().ok()?;
    }
    None
}

/// Whether an answer begins with this event. `Some(false)`: it is a part of one that began before it; `None`: it is a
/// part of none (an error, a note).
#[must_use]
pub fn begins(event: &[u8]) -> Option<bool> {
    let kind = kind(event)?;
    kind.starts_with("response.").then_some(matches!(kind.as_str(), "response.created" | "response.queued"))
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
                keys.present.push("/stream_id");
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
            other @ Frame::WarmUp { .. } => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_begins_an_answer_is_told_from_what_goes_on_with_one() {
        for (event, begins_one) in [
            (r#"{"response":{"type":"x"},"type":"response.created"}"#, Some(true)),
            (r#"{"type":"response.queued"}"#, Some(true)),
            (r#"{"type":"response.output_text.delta","delta":"response.created"}"#, Some(false)),
            (r#"{"t\u0079pe":"response.completed"}"#, Some(false)),
            (r#"{"type":"error"}"#, None),
            (r#"{"type":"codex.rate_limits"}"#, None),
            (r#"{"type":5}"#, None),
            ("{}", None),
            ("[DONE]", None),
        ] {
            assert_eq!(begins(event.as_bytes()), begins_one, "{event}");
        }
    }

    #[test]
    fn an_end_is_told_by_its_type_alone() {
        for kind in ["response.completed", "response.incomplete", "response.failed", "error"] {
            assert!(is_end(format!(r#"{{"response":{{"id":"r"}}, "type" : "{kind}"}}"#).as_bytes()), "{kind}");
        }
        for event in [r#"{"type":"response.created","response":{"error":null}}"#, r#"{"delta":"error"}"#, "[", ""] {
            assert!(!is_end(event.as_bytes()), "{event}");
        }
    }

    #[test]
    fn a_turn_goes_on_where_the_last_one_ended() {
        let mut session = Session::new(999);
        let (body, items) = create(
            &session,
            r#"{"type":"response.create","model":"m","input":[ {"a": 1} ],"store":false,"stream":true}"#,
        );
        assert_eq!(body, r#"{"model":"m","input":[ {"a": 1} ],"store":false,"stream":true}"#);
        session.answered(None, "resp_1".into(), items.as_bytes(), br#"{"b":2}"#);
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
    fn a_lane_may_go_on_from_another_ones_answer_and_each_holds_its_last() {
        let mut session = Session::new(999);
        let ask = |id: &str, lane: &str| {
            format!(
                r#"{{"type":"response.create","stream_id":"{lane}","previous_response_id":"{id}","input":[9],"store":false}}"#
            )
        };
        session.answered(None, "resp_1".into(), b"1", b"2");
        let (body, items) = create(&session, &ask("resp_1", "b"));
        assert_eq!(body, r#"{"input":[1,2,9],"store":false,"stream":true}"#);
        session.answered(Some("b"), "resp_b".into(), items.as_bytes(), b"3");
        // The fork took nothing away, until the first lane goes on.
        assert_eq!(create(&session, &ask("resp_1", "c")).1, "1,2,9");
        session.answered(None, "resp_2".into(), b"1,2", b"4");
        assert!(!session.holds("resp_1") && session.holds("resp_2"));
        assert_eq!(session.frame(ask("resp_1", "c").as_bytes()).unwrap_err().code, "previous_response_not_found");
        assert_eq!(create(&session, &ask("resp_b", "a")).1, "1,2,9,3,9");
        assert_eq!((session.weight(Some("resp_b")), session.weight(Some("none")), session.weight(None)), (7, 0, 0));
    }

    #[test]
    fn a_text_is_a_message_and_what_is_oldest_goes_beyond_the_limit() {
        let mut session = Session::new(99);
        let frame =
            session.frame(br#"{"type":"response.create","generate":false,"input":"hi","previous_response_id":null}"#);
        let Frame::WarmUp { body, items } = frame.unwrap() else { panic!("it warms up") };
        assert_eq!(body, br#"{"input":"hi","previous_response_id":null,"stream":true}"#);
        session.answered(None, "resp_w".into(), &items, b"");
        let (body, _) = create(&session, r#"{"type":"response.create","previous_response_id":"resp_w"}"#);
        assert_eq!(body, r#"{"stream":true,"input":[{"type":"message","role":"user","content":"hi"}]}"#);
        session.answered(Some("a"), "resp_a".into(), &[b'1'; 60], b"");
        assert!(session.holds("resp_a") && !session.holds("resp_w"));
        let more =
            format!(r#"{{"type":"response.create","previous_response_id":"resp_a","input":["{}"]}}"#, "x".repeat(40));
        let error = session.frame(more.as_bytes()).unwrap_err();
        assert_eq!((error.status, error.code, error.param.as_deref()), (413, "request_too_large", Some("input")));
        session.answered(None, "resp_x".into(), &[b'1'; 100], b"");
        assert_eq!(session, Session::new(99));
    }

    #[test]
    fn what_a_frame_must_be() {
        let session = Session::new(999);
        for (message, code, param) in [
            ("[]", "invalid_request", None),
            ("{", "invalid_json", None),
            ("{}", "invalid_request", Some("type")),
            (r#"{"type":"response.cancel"}"#, "invalid_request", Some("type")),
            (r#"{"type":1}"#, "invalid_request", Some("type")),
            (r#"{"type":"response.create","background":true}"#, "unsupported_feature", Some("background")),
            (r#"{"type":"response.create","generate":"no"}"#, "invalid_request", Some("generate")),
            (r#"{"type":"response.create","input":1}"#, "invalid_request", Some("input")),
        ] {
            let error = session.frame(message.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (code, param), "{message}");
        }
    }

    #[test]
    fn whose_a_message_is() {
        let answer = |lane: Option<&str>, previous: Option<&str>| {
            Ok(Asks::Answer { lane: lane.map(str::to_owned), previous: previous.map(str::to_owned) })
        };
        let longest = "x".repeat(256);
        for (message, expected) in [
            (r#"{"type":"response.create"}"#.to_owned(), answer(None, None)),
            (r#"{"stream_id":null,"previous_response_id":null}"#.to_owned(), answer(None, None)),
            (r#"{"stream_id":"A-z_0.9","previous_response_id":"r"}"#.to_owned(), answer(Some("A-z_0.9"), Some("r"))),
            // What else is wrong is told in the lane, at its turn.
            (r#"{"type":7,"stream_id":"a","input":7}"#.to_owned(), answer(Some("a"), None)),
            (format!(r#"{{"stream_id":"{longest}"}}"#), answer(Some(&longest), None)),
            (r#"{"type":"response.processed","response_id":"r"}"#.to_owned(), Ok(Asks::Note)),
            (
                r#"{"type":"response.steer","previous_response_id":"r","input":[ 1 ]}"#.to_owned(),
                Ok(Asks::Steer { previous: "r".into(), input: b"[ 1 ]".to_vec() }),
            ),
        ] {
            assert_eq!(asks(message.as_bytes()), expected, "{message}");
        }
        for (message, code, param) in [
            ("7".to_owned(), "invalid_request", None),
            (r#"{"stream_id":"a"}}"#.to_owned(), "invalid_json", None),
            (r#"{"stream_id":""}"#.to_owned(), "invalid_stream_id", Some("stream_id")),
            (r#"{"stream_id":"a b"}"#.to_owned(), "invalid_stream_id", Some("stream_id")),
            (r#"{"stream_id":"\u00e9"}"#.to_owned(), "invalid_stream_id", Some("stream_id")),
            (r#"{"stream_id":1}"#.to_owned(), "invalid_stream_id", Some("stream_id")),
            (format!(r#"{{"stream_id":"{longest}x"}}"#), "invalid_stream_id", Some("stream_id")),
            (r#"{"type":"response.steer","input":""}"#.to_owned(), "invalid_request", Some("previous_response_id")),
            (r#"{"type":"response.steer","previous_response_id":"r"}"#.to_owned(), "invalid_request", Some("input")),
        ] {
            let error = asks(message.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (code, param), "{message}");
        }
    }

    #[test]
    fn what_is_not_steered_comes_back() {
        let told = not_steered("steering_not_supported", "not \"here\"", "resp_1", br#"[{"a": 1}]"#);
        assert_eq!(
            String::from_utf8(told).unwrap(),
            r#"{"type":"response.steer.failed","sequence_number":0,"error":{"type":"invalid_request_error","code":"steering_not_supported","message":"not \"here\""},"steer":{"previous_response_id":"resp_1","input":[{"a": 1}]}}"#
        );
    }

    #[test]
    fn only_a_good_end_is_taken_up() {
        let event =
            br#"{"type":"response.completed","response":{"output":[ {"x":[1]} ],"id":"resp_1"},"sequence_number":3}"#;
        assert_eq!(ended(event), Some(("resp_1".into(), b"{\"x\":[1]}".to_vec())));
        assert_eq!(ended(br#"{"type":"response.failed","response":{"output":[],"id":"r"}}"#), None);
        assert_eq!(ended(br#"{"type":"response.output_text.delta","delta":"\"response.completed\""}"#), None);
        assert_eq!(response_id(event), Some("resp_1".into()));
        assert_eq!(response_id(br#"{"type":"error"}"#), None);
    }
}
