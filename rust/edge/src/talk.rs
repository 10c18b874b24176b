//! The words of a client's WebSocket: its messages out of bytes, and the gateway's own messages to it.
//!
//! 1. Pings are answered and a close is repeated at once; a binary message closes.
//! 2. A client that has not taken what it was told is not listened to: who only sends would fill the memory.
//! 3. What belongs to a lane carries its name, put behind what the message says.
//!
//! No socket and no policy may be added here.

use headrace_codec::text::push_json_str;
use headrace_http1::websocket::{self, Message, Opcode, Reader, Role};

use crate::limits;

/// What a client says.
#[derive(Debug)]
pub(crate) struct Talk {
    reader: Reader,
    /// No more can be heard, or said.
    pub(crate) over: bool,
}

impl Talk {
    /// `limit`: bytes of a message.
    pub(crate) fn new(limit: usize) -> Talk {
        Talk { reader: Reader::new(Role::Server, limit), over: false }
    }

    /// Takes the next whole message off the front of `bytes`. What is to be said to the client at once goes to `out`;
    /// with more in it than a client may leave lying nothing is taken.
    pub(crate) fn next(&mut self, bytes: &mut &[u8], out: &mut Vec<u8>) -> Option<Vec<u8>> {
        while !bytes.is_empty() && !self.over && out.len() < limits::UNSENT_TALK {
            match self.reader.read(bytes) {
                Ok((used, message)) => {
                    *bytes = &bytes[used..];
                    match message {
                        None | Some(Message::Pong) => {}
                        Some(Message::Text(text)) => return Some(text),
                        Some(Message::Binary(_)) => self.close(1003, out),
                        Some(Message::Ping(payload)) => websocket::write(out, Opcode::Pong, &payload, None),
                        Some(Message::Close(code)) => self.close(code.unwrap_or(1000), out),
                    }
                }
                Err(error) => self.close(error.close_code(), out),
            }
        }
        None
    }

    /// Bytes of a message that has begun and not ended; none between two messages.
    pub(crate) fn partial(&self) -> Option<usize> {
        (!self.over && !self.reader.is_idle()).then(|| self.reader.held())
    }

    /// Says goodbye, once.
    pub(crate) fn close(&mut self, code: u16, out: &mut Vec<u8>) {
        if !self.over {
            websocket::close(out, code, None);
            self.over = true;
        }
    }
}

/// Appends an event as a message of a lane. What is no object is no event: it goes to nobody.
pub(crate) fn event(data: &[u8], lane: Option<&str>, out: &mut Vec<u8>) {
    let data = data.trim_ascii();
    let Some(inside) = data.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")) else { return };
    let Some(lane) = lane else { return websocket::write(out, Opcode::Text, data, None) };
    // A lane's name needs no escapes.
    let comma = if inside.trim_ascii().is_empty() { "" } else { "," };
    let pieces = [b"{", inside, comma.as_bytes(), br#""stream_id":""#, lane.as_bytes(), br#""}"#];
    websocket::head(out, Opcode::Text, pieces.iter().map(|piece| piece.len()).sum(), None);
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// A whole answer of the gateway's own (a refusal, mostly) as a message: the error's object, its status, and what its
/// headers say of a retry.
pub(crate) fn error(status: u16, headers: &[(&str, &[u8])], body: &[u8], lane: Option<&str>, out: &mut Vec<u8>) {
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
    event(&message, lane, out);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn client(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        websocket::write(&mut out, opcode, payload, Some([1, 2, 3, 4]));
        out
    }

    pub(crate) fn said(out: &[u8]) -> Vec<Message> {
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
    fn messages_come_one_by_one_also_byte_by_byte() {
        let bytes = [client(Opcode::Text, b"one"), client(Opcode::Ping, b"p"), client(Opcode::Text, b"two")].concat();
        for step in [1, 2, bytes.len()] {
            let (mut talk, mut out, mut heard) = (Talk::new(1 << 10), Vec::new(), Vec::new());
            for mut piece in bytes.chunks(step) {
                while let Some(text) = talk.next(&mut piece, &mut out) {
                    heard.push(text);
                }
                assert!(piece.is_empty());
            }
            assert_eq!(heard, [b"one", b"two"]);
            assert_eq!(out, b"\x8a\x01p");
            assert_eq!(talk.partial(), None);
            talk.next(&mut &bytes[..7], &mut out);
            assert_eq!(talk.partial(), Some(1));
        }
    }

    #[test]
    fn what_breaks_the_protocol_closes() {
        for (bytes, code) in [
            // Compressed, which nobody agreed on.
            (b"\xc1\x80\0\0\0\0".to_vec(), 1002),
            (client(Opcode::Binary, b"x"), 1003),
            (client(Opcode::Text, &[0xff]), 1007),
            (client(Opcode::Text, &[b'x'; 2000]), 1009),
            (client(Opcode::Close, &1001_u16.to_be_bytes()), 1001),
        ] {
            let (mut talk, mut out) = (Talk::new(1 << 10), Vec::new());
            assert_eq!(talk.next(&mut &bytes[..], &mut out), None);
            assert!(talk.over);
            assert_eq!(said(&out), [Message::Close(Some(code))]);
        }
    }

    #[test]
    fn a_client_that_takes_nothing_is_not_listened_to() {
        let (mut talk, mut out) = (Talk::new(1 << 20), Vec::new());
        let bytes = client(Opcode::Ping, &[b'x'; 125]).repeat(8192);
        let mut rest = &bytes[..];
        talk.next(&mut rest, &mut out);
        assert!(out.len() < limits::UNSENT_TALK + 127, "{}", out.len());
        let left = rest.len();
        talk.next(&mut rest, &mut out);
        assert_eq!(rest.len(), left);
        out.clear();
        talk.next(&mut rest, &mut out);
        assert!(rest.len() < left);
    }

    #[test]
    fn an_event_gets_its_lanes_name() {
        let mut out = Vec::new();
        for (data, lane) in
            [("{\"a\":1}", None), (" {\"a\":{}} ", Some("l.1")), ("{ }", Some("b")), ("[DONE]", Some("b"))]
        {
            event(data.as_bytes(), lane, &mut out);
        }
        let expected = ["{\"a\":1}", "{\"a\":{},\"stream_id\":\"l.1\"}", "{ \"stream_id\":\"b\"}"];
        assert_eq!(said(&out), expected.map(|text| Message::Text(text.into())));
    }

    #[test]
    fn a_refusal_is_one_message_with_its_status() {
        let mut out = Vec::new();
        let headers = [("content-type", &b"application/json"[..]), ("retry-after", b"7")];
        error(429, &headers, br#"{"error":{"code":"c"}}"#, Some("l"), &mut out);
        let expected =
            br#"{"type":"error","status":429,"headers":{"retry-after":"7"},"error":{"code":"c"},"stream_id":"l"}"#;
        assert_eq!(said(&out), [Message::Text(expected.to_vec())]);
    }
}
