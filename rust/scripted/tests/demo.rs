//! The demo's wires, read by the codec: streams and whole bodies say the same, in all three protocols.

use std::io::{Read, Write};
use std::net::TcpStream;

use headrace_codec::event::{At, Event, Protocol};
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use headrace_codec::{ErrorKind, Sink};
use headrace_http1::{BodyDecoder, ResponseHead};
use headrace_scripted::{Upstream, demo};

/// What a stream of events says, delta by delta forgotten.
#[derive(Debug, Default, PartialEq)]
struct Said {
    model: Option<String>,
    text: String,
    reasoning: String,
    continuation: Option<String>,
    call: Option<(String, String)>,
    tokens: (Option<u64>, Option<u64>),
    finish: Option<String>,
    error: Option<(ErrorKind, bool)>,
}

impl Sink for Said {
    fn event(&mut self, _at: At, event: &Event<'_>) {
        match event {
            Event::Started { model, .. } => self.model = model.map(|m| m.decode().into_owned()),
            Event::TextDelta { text, .. } => text.decode_into(&mut self.text),
            Event::ReasoningDelta { text, .. } => text.decode_into(&mut self.reasoning),
            Event::Continuation { data, .. } => self.continuation = Some(data.decode().into_owned()),
            Event::IntentProposed(intent) => {
                self.call = Some((intent.tool_name.decode().into_owned(), intent.raw_input_text.decode().into_owned()));
            }
            Event::Usage(usage) => self.tokens = (usage.input_tokens, usage.output_tokens),
            Event::Finished { reason, .. } => self.finish = Some(reason.code().to_owned()),
            Event::Error(error) => self.error = Some((error.kind, error.retryable)),
            _ => {}
        }
    }
}

const PROTOCOLS: [(Protocol, &str); 3] = [
    (Protocol::OpenaiChat, "/v1/chat/completions"),
    (Protocol::OpenaiResponses, "/v1/responses"),
    (Protocol::AnthropicMessages, "/v1/messages"),
];

fn body(protocol: Protocol, model: &str, stream: bool) -> String {
    let input = if protocol == Protocol::OpenaiResponses { "input" } else { "messages" };
    let options =
        if protocol == Protocol::OpenaiChat && stream { ",\"stream_options\":{\"include_usage\":true}" } else { "" };
    format!(
        "{{\"model\":\"{model}\",\"stream\":{stream}{options},\"max_tokens\":99,\
         \"{input}\":[{{\"role\":\"user\",\"content\":\"hi\"}}]}}"
    )
}

/// Ask, and give the status and the de-chunked body, whether or not it was whole.
fn ask(upstream: &Upstream, path: &str, body: &str) -> (u16, Vec<u8>, bool) {
    let mut socket = TcpStream::connect(upstream.address()).unwrap();
    let len = body.len();
    write!(socket, "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}")
        .unwrap();
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    let (head, len) = ResponseHead::read(&bytes, usize::MAX, "POST").unwrap().unwrap();
    let (mut decoder, mut pieces) = (BodyDecoder::new(head.body), Vec::new());
    decoder.decode_all(&bytes[len..], &mut pieces).unwrap();
    let body = pieces.into_iter().flat_map(|piece| bytes[len..][piece].to_vec()).collect();
    (head.status, body, decoder.is_done())
}

fn said(upstream: &Upstream, protocol: Protocol, path: &str, model: &str, stream: bool) -> (u16, Said, bool) {
    let (status, body, whole) = ask(upstream, path, &self::body(protocol, model, stream));
    let mut config = DecoderConfig::new(protocol);
    config.status = status;
    let (mut decoder, mut said) = (Decoder::new(config), Said::default());
    decoder.feed(&body, &mut said);
    decoder.finish(if whole { End::Eof } else { End::Reset }, &mut said);
    (status, said, whole)
}

#[test]
fn streams_and_whole_bodies_say_the_same() {
    let upstream = demo::start().unwrap();
    for (protocol, path) in PROTOCOLS {
        for model in ["text", "tools", "reasoning", "demo/text"] {
            let (status, mut streamed, whole) = said(&upstream, protocol, path, model, true);
            let (_, mut at_once, _) = said(&upstream, protocol, path, model, false);
            assert_eq!((status, whole), (200, true));
            let tools = model == "tools";
            assert_eq!(streamed.finish.as_deref(), Some(if tools { "tool_intents" } else { "stop" }), "{path} {model}");
            assert_eq!(streamed.model.as_deref(), Some(model));
            assert!(!streamed.text.is_empty() && streamed.tokens.0 > Some(0) && streamed.tokens.1 > Some(5));
            assert_eq!(streamed.call.is_some(), tools);
            assert_eq!(!streamed.reasoning.is_empty(), model == "reasoning");
            let continues = model == "reasoning" && protocol != Protocol::OpenaiChat;
            assert_eq!(streamed.continuation.is_some(), continues, "{path} {model}");
            // The request bodies differ by a few bytes, and input tokens are counted from them.
            streamed.tokens.0 = None;
            at_once.tokens.0 = None;
            assert_eq!(streamed, at_once, "{path} {model}");
        }
    }
}

#[test]
fn errors_have_their_status_and_their_kind() {
    let upstream = demo::start().unwrap();
    let kinds = [
        (400, ErrorKind::BadRequest),
        (401, ErrorKind::Auth),
        (404, ErrorKind::BadRequest),
        (429, ErrorKind::RateLimit),
        (500, ErrorKind::Unknown),
        (503, ErrorKind::Overloaded),
        (529, ErrorKind::Overloaded),
    ];
    for (protocol, path) in PROTOCOLS {
        for (wanted, kind) in kinds {
            let (status, said, _) = said(&upstream, protocol, path, &format!("error-{wanted}"), true);
            assert_eq!((status, said.error.map(|e| e.0)), (wanted, Some(kind)), "{path}");
        }
        for model in ["none", "error-200", "error-6000"] {
            assert_eq!(said(&upstream, protocol, path, model, false).0, 404, "{model}");
        }
        assert_eq!(ask(&upstream, path, "[]").0, 400);
        assert_eq!(ask(&upstream, path, "{}").0, 400);
    }
}

#[test]
fn a_cut_answer_is_an_interruption() {
    let upstream = demo::start().unwrap();
    for (protocol, path) in PROTOCOLS {
        for stream in [true, false] {
            let (status, said, whole) = said(&upstream, protocol, path, "cut", stream);
            assert_eq!((status, whole), (200, false));
            assert_eq!(said.error, Some((ErrorKind::StreamInterrupted, true)), "{path} {stream}");
            assert_eq!(said.finish, None);
        }
    }
}

#[test]
fn a_call_is_answered_with_words_once_its_result_is_there() {
    let upstream = demo::start().unwrap();
    let body = "{\"model\":\"tools\",\"messages\":[{\"role\": \"tool\",\"tool_call_id\":\"a\",\"content\":\"x\"}]}";
    let (_, answer, _) = ask(&upstream, "/v1/chat/completions", body);
    let text = String::from_utf8(answer).unwrap();
    assert!(text.contains("\"finish_reason\":\"stop\"") && !text.contains("tool_calls"), "{text}");
    let named = "{\"model\":\"tools\",\"messages\":[],\"tools\":[{\"name\":\"look_up\",\"input_schema\":{}}]}";
    let (_, answer, _) = ask(&upstream, "/v1/messages", named);
    assert!(String::from_utf8(answer).unwrap().contains("\"name\":\"look_up\""), "the tool that was offered");
}
