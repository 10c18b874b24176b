//! A client that talks over a WebSocket, the policy that lets it, and what a provider of Responses says.

use std::sync::Arc;

use headrace_edge::policy::{Answer, Counts, Decision};
use headrace_edge::{Edge, EdgeConfig, Operation};
use headrace_http1::websocket::{Message, Opcode, Reader, Role, write};
use headrace_scripted::{Reply, Script, Seen, Upstream};

use super::{Client, TestPolicy, start_with, tell, verbatim};

pub const PATH: &str = "/v1/responses";

/// A client after the switch.
pub struct Talker {
    pub client: Client,
    reader: Reader,
}

impl Talker {
    pub fn to(edge: &Edge) -> Talker {
        Talker::offering(edge, "").0
    }

    /// `offer`: more lines of the request's head. Gives the answer's head, too.
    pub fn offering(edge: &Edge, offer: &str) -> (Talker, String) {
        let mut client = Client::to(edge.address());
        client.send(format!(
            "GET {PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n{offer}\r\n"
        ));
        client.until("\r\n\r\n");
        let end = client.buffer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(client.buffer.drain(..end).collect()).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        (Talker { client, reader: Reader::new(Role::Client, 1 << 24) }, head)
    }

    pub fn say(&mut self, opcode: Opcode, payload: &[u8]) {
        self.client.send(frame(opcode, payload));
    }

    /// Asks for an answer with this input in this lane.
    pub fn ask(&mut self, lane: &str, input: &str) {
        self.say(Opcode::Text, ask(lane, input).as_bytes());
    }

    /// The next message. `None`: the connection has ended.
    pub fn next(&mut self) -> Option<Message> {
        loop {
            let (used, message) = self.reader.read(&self.client.buffer).unwrap();
            self.client.buffer.drain(..used);
            if message.is_some() {
                return message;
            }
            if !self.client.fill() {
                return None;
            }
        }
    }

    /// The next text, pings left out.
    pub fn text(&mut self) -> String {
        loop {
            match self.next() {
                Some(Message::Text(text)) => return String::from_utf8(text).unwrap(),
                Some(Message::Ping(_)) => {}
                other => panic!("no text: {other:?}"),
            }
        }
    }

    /// Texts up to and with the first one that holds this.
    pub fn until(&mut self, wanted: &str) -> Vec<String> {
        let mut heard = vec![self.text()];
        while !heard.last().unwrap().contains(wanted) {
            heard.push(self.text());
        }
        heard
    }
}

pub fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, opcode, payload, Some([9, 8, 7, 6]));
    out
}

pub fn ask(lane: &str, input: &str) -> String {
    let lane = if lane.is_empty() { String::new() } else { format!(r#""stream_id":"{lane}","#) };
    format!(r#"{{"type":"response.create",{lane}"model":"m","input":[{}],"store":false}}"#, item(input))
}

pub fn item(text: &str) -> String {
    format!(r#"{{"role":"user","content":"{text}"}}"#)
}

pub fn event(json: &str) -> String {
    format!("data: {json}\n\n")
}

pub fn created(id: &str) -> String {
    event(&format!(r#"{{"type":"response.created","response":{{"id":"{id}","model":"m","output":[]}}}}"#))
}

pub fn delta(text: &str) -> String {
    event(&format!(
        r#"{{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"{text}"}}"#
    ))
}

pub fn completed(id: &str) -> String {
    event(&format!(
        r#"{{"type":"response.completed","response":{{"id":"{id}","model":"m","status":"completed","output":[{}]}}}}"#,
        item(&format!("out of {id}"))
    ))
}

pub fn served(
    config: EdgeConfig,
    reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
) -> (Upstream, Edge, Arc<TestPolicy>) {
    let up = Upstream::start(Script::new().handler(PATH, reply).record(99)).unwrap();
    let url = up.url(PATH);
    let policy = TestPolicy::new(
        move |request| {
            if request.operation == Operation::Session {
                let (content_type, usage) = (String::new(), Counts::default());
                return Decision::Answer(Answer { status: 200, content_type, headers: vec![], body: vec![], usage });
            }
            Decision::Plan(Box::new(verbatim(&url, request)))
        },
        |_| Decision::Refusal(tell()),
    );
    let edge = start_with(config, &policy);
    (up, edge, policy)
}
