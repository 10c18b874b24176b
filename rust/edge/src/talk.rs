//! What a client's socket is once it has switched to a WebSocket: messages in, events of the answer out as messages.
//!
//! 1. An answer is written as an event stream, as over HTTP; each event that holds data goes out as one text message.
//! 2. Pings are answered and a close is repeated at once. One message is kept for the conversation to take.
//! 3. A message that comes while an answer is being given is refused with 409: the client's answers come one by one.
//! 4. The event that ends an answer well is kept for the next turn, within a bound.
//!
//! No policy may be added here.

use headrace_codec::framing::sse::Sse;
use headrace_codec::request::session;
use headrace_codec::text::push_json_str;
use headrace_http1::websocket::{self, Message, Opcode, Reader, Role};

use crate::limits;

/// The state of one conversation's wire.
#[derive(Debug)]
pub(crate) struct Talk {
    reader: Reader,
    events: Sse,
    limit: usize,
    /// A message that was not taken yet.
    next: Option<Vec<u8>>,
    /// An answer is being given.
    pub(crate) busy: bool,
    /// No more can be heard, or said.
    pub(crate) over: bool,
    /// The id and the output of the answer.
    ended: Option<(String, Vec<u8>)>,
}

impl Talk {
    /// `limit`: bytes of a message, and of an answer's output.
    pub(crate) fn new(limit: usize) -> Talk {
        Talk {
            reader: Reader::new(Role::Server, limit),
            events: Sse::default(),
            limit,
            next: None,
            busy: false,
            over: false,
            ended: None,
        }
    }

    /// Takes what the client sent off the front of `ahead`; what is to be said to it at once goes to `out`. With more
    /// unsent than a client may leave lying it takes nothing.
    pub(crate) fn hear(&mut self, ahead: &mut Vec<u8>, out: &mut Vec<u8>) {
        let mut at = 0;
        while at < ahead.len() && !self.over && self.next.is_none() && out.len() < limits::UNSENT_TALK {
            match self.reader.read(&ahead[at..]) {
                Ok((used, message)) => {
                    at += used;
                    match message {
                        None | Some(Message::Pong) => {}
                        Some(Message::Text(text)) if self.busy => refuse_second(&text, out),
                        Some(Message::Text(text)) => self.next = Some(text),
                        Some(Message::Binary(_)) => self.close(1003, out),
                        Some(Message::Ping(payload)) => websocket::write(out, Opcode::Pong, &payload, None),
                        Some(Message::Close(code)) => self.close(code.unwrap_or(1000), out),
                    }
                }
                Err(error) => self.close(error.close_code(), out),
            }
        }
        ahead.drain(..at);
        if ahead.is_empty() {
            *ahead = Vec::new();
        }
    }

    /// The next message of the client.
    pub(crate) fn take_next(&mut self) -> Option<Vec<u8>> {
        self.next.take()
    }

    /// Whether a message waits.
    pub(crate) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// Says goodbye, once.
    pub(crate) fn close(&mut self, code: u16, out: &mut Vec<u8>) {
        if !self.over {
            websocket::close(out, code, None);
            self.over = true;
        }
    }

    /// Pieces of an event stream as messages. `Err`: an event is longer than any may be.
    pub(crate) fn messages(&mut self, pieces: &[&[u8]]) -> Result<Vec<u8>, ()> {
        let mut out = Vec::new();
        let Talk { events, ended, limit, .. } = self;
        for piece in pieces {
            let each = &mut |frame: headrace_codec::framing::Frame<'_>| {
                if let Some(data) = frame.data.filter(|data| !data.is_empty()) {
                    websocket::write(&mut out, Opcode::Text, data, None);
                    if let Some((id, output)) = might_end(data).then(|| session::ended(data)).flatten()
                        && output.len() <= *limit
                    {
                        *ended = Some((id, output));
                    }
                }
                true
            };
            events.feed(piece, each).map_err(|_| ())?;
        }
        Ok(out)
    }

    /// An answer begins.
    pub(crate) fn begin(&mut self) {
        self.busy = true;
        self.ended = None;
        self.events = Sse::default();
    }

    /// It is over. Its id and output, where it ended well.
    pub(crate) fn end(&mut self) -> Option<(String, Vec<u8>)> {
        self.busy = false;
        self.ended.take()
    }
}

/// Whether an event may be the one that ends an answer well: a look that is cheaper than reading it.
fn might_end(data: &[u8]) -> bool {
    [&b"\"response.completed\""[..], b"\"response.incomplete\""]
        .iter()
        .any(|word| memchr::memmem::find(data, word).is_some())
}

fn refuse_second(text: &[u8], out: &mut Vec<u8>) {
    // A note needs no answer, so that it disturbs none.
    if matches!(session::Session::default().frame(text), Ok(session::Frame::Note)) {
        return;
    }
    let body = br#"{"error":{"type":"invalid_request_error","code":"response_in_progress","message":"an answer is being given on this connection; wait for its end, or open another connection","param":null}}"#;
    error(409, &[], body, out);
}

/// A whole answer of the gateway's own (a refusal, mostly) as a message: the error's object, its status, and what its
/// headers say of a retry.
pub(crate) fn error(status: u16, headers: &[(&str, &[u8])], body: &[u8], out: &mut Vec<u8>) {
    let mut message = format!("{{\"type\":\"error\",\"status\":{status}").into_bytes();
    let told: Vec<_> = headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-type")).collect();
    if !told.is_empty() {
        message.extend_from_slice(b",\"headers\":{");
        for (n, (name, value)) in told.iter().enumerate() {
            if n > 0 {
                message.push(b',');
            }
            push_json_str(name, &mut message);
            message.push(b':');
            push_json_str(&String::from_utf8_lossy(value), &mut message);
        }
        message.push(b'}');
    }
    // A body of ours is an object with the member `error`.
    match body.trim_ascii().strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")).map(<[u8]>::trim_ascii) {
        Some(members) if !members.is_empty() => {
            message.push(b',');
            message.extend_from_slice(members);
        }
        _ => {}
    }
    message.push(b'}');
    websocket::write(out, Opcode::Text, &message, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        websocket::write(&mut out, opcode, payload, Some([1, 2, 3, 4]));
        out
    }

    fn said(out: &[u8]) -> Vec<Message> {
        let mut reader = Reader::new(Role::Client, 1 << 20);
        let (mut rest, mut messages) = (out, Vec::new());
        while !rest.is_empty() {
            let (used, message) = reader.read(rest).unwrap();
            rest = &rest[used..];
            messages.extend(message);
        }
        messages
    }

    #[test]
    fn one_message_waits_and_a_second_one_is_refused() {
        let mut talk = Talk::new(1 << 10);
        let mut out = Vec::new();
        let mut ahead =
            [client(Opcode::Text, b"one"), client(Opcode::Ping, b"p"), client(Opcode::Text, b"two")].concat();
        talk.hear(&mut ahead, &mut out);
        assert_eq!((talk.take_next(), out.len()), (Some(b"one".to_vec()), 0));
        talk.begin();
        talk.hear(&mut ahead, &mut out);
        let note = br#"{"type":"response.processed"}"#;
        talk.hear(&mut client(Opcode::Text, note), &mut out);
        let said = said(&out);
        assert_eq!(said[0], Message::Pong);
        let Message::Text(text) = &said[1] else { panic!("{said:?}") };
        assert!(text.starts_with(br#"{"type":"error","status":409,"error":{"#), "{}", String::from_utf8_lossy(text));
        assert_eq!((said.len(), talk.has_next()), (2, false));
    }

    #[test]
    fn events_become_messages_and_the_end_is_kept() {
        let mut talk = Talk::new(1 << 10);
        talk.begin();
        let end = r#"{"type":"response.completed","response":{"id":"r","output":[1]}}"#;
        let stream = format!(": hello\n\nevent: a\ndata: {{\"a\":1}}\n\ndata: {end}\n\n");
        let mut out = Vec::new();
        for byte in stream.as_bytes() {
            out.extend(talk.messages(&[&[*byte]]).unwrap());
        }
        assert_eq!(said(&out), [Message::Text(br#"{"a":1}"#.to_vec()), Message::Text(end.as_bytes().to_vec())]);
        assert_eq!(talk.end(), Some(("r".into(), b"1".to_vec())));
        assert_eq!(talk.end(), None);
    }

    #[test]
    fn what_breaks_the_protocol_closes() {
        for (bytes, code) in [
            (b"\xc1\x80\0\0\0\0".to_vec(), 1002),
            (client(Opcode::Binary, b"x"), 1003),
            (client(Opcode::Text, &[0xff]), 1007),
            (client(Opcode::Text, &[b'x'; 2000]), 1009),
            (client(Opcode::Close, &1001_u16.to_be_bytes()), 1001),
        ] {
            let (mut talk, mut out) = (Talk::new(1 << 10), Vec::new());
            talk.hear(&mut bytes.clone(), &mut out);
            assert!(talk.over);
            assert_eq!(said(&out), [Message::Close(Some(code))]);
        }
    }

    #[test]
    fn a_client_that_takes_nothing_is_not_listened_to() {
        let (mut talk, mut out) = (Talk::new(1 << 20), Vec::new());
        talk.begin();
        // Eight bytes each, and hundreds for the answer to each.
        let mut ahead = client(Opcode::Text, b"{}").repeat(8192);
        talk.hear(&mut ahead, &mut out);
        assert!(out.len() < limits::UNSENT_TALK + 512, "{}", out.len());
        let left = ahead.len();
        talk.hear(&mut ahead, &mut out);
        assert_eq!(ahead.len(), left);
        out.clear();
        talk.hear(&mut ahead, &mut out);
        assert!(ahead.len() < left);
    }

    #[test]
    fn a_refusal_is_one_message_with_its_status() {
        let mut out = Vec::new();
        let headers = [("content-type", &b"application/json"[..]), ("retry-after", b"7")];
        error(429, &headers, br#"{"error":{"code":"c"}}"#, &mut out);
        let expected = br#"{"type":"error","status":429,"headers":{"retry-after":"7"},"error":{"code":"c"}}"#;
        assert_eq!(said(&out), [Message::Text(expected.to_vec())]);
    }
}
