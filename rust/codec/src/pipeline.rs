//! Framing and a normaliser as one decoder: bytes in, events out.
//!
//! 1. Any split of the bytes gives the same events; nothing comes after the terminal one (rule R0).
//! 2. A status that is a failure makes the whole body one error, read at its end. Else the first bytes say how the body is framed.
//! 3. A payload is one JSON object, a row of them, nothing, or `[DONE]` (rule R15). Anything else ends the stream, and an
//!    end of the body that the protocol did not announce is an error (rule R17).
//! 4. After an error the decoder takes bytes and gives nothing.
//!
//! Policy must not be added here: who retries, what a client is told, how long to wait.

use std::ops::Range;

use crate::error::ErrorKind;
use crate::event::{Protocol, Sink};
use crate::framing::eventstream::{Broken, EventStream, Message};
use crate::framing::json::Whole;
use crate::framing::ndjson::Ndjson;
use crate::framing::sniff::{self, Kind};
use crate::framing::sse::Sse;
use crate::framing::ws::Messages;
use crate::framing::{Frame, TooLong};
use crate::json::{Scan, Scanner};
use crate::limits::{MAX_ERROR_RAW, MAX_FRAME};
use crate::normalize::anthropic_messages::AnthropicMessages;
use crate::normalize::bedrock_converse::BedrockConverse;
use crate::normalize::bedrock_invoke::BedrockInvoke;
use crate::normalize::cohere_chat::CohereChat;
use crate::normalize::google_gemini::GoogleGemini;
use crate::normalize::ollama_chat::OllamaChat;
use crate::normalize::openai_chat::OpenaiChat;
use crate::normalize::openai_responses::OpenaiResponses;
use crate::normalize::template::Template;
use crate::normalize::{About, Known, Normalize, Out, Response};
use crate::text::push_json_str;

/// What carries the payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    #[default]
    Http,
    /// Every feed is one whole message.
    WebSocket,
}

/// What is known before the first byte.
#[derive(Clone, Debug)]
pub struct DecoderConfig {
    pub protocol: Protocol,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub transport: Transport,
    /// `<think>` in content is reasoning (rule R19t).
    pub think_tags: bool,
    /// Prefix of the intents' ids.
    pub turn_id: String,
    /// Told in errors.
    pub provider: Option<String>,
    /// Told in errors.
    pub model: Option<String>,
}

impl DecoderConfig {
    #[must_use]
    pub fn new(protocol: Protocol) -> DecoderConfig {
        DecoderConfig {
            protocol,
            status: 200,
            headers: Vec::new(),
            transport: Transport::Http,
            think_tags: false,
            turn_id: "t0".to_owned(),
            provider: None,
            model: None,
        }
    }
}

/// How the body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Cleanly, by its own framing.
    Eof,
    /// The connection broke.
    Reset,
    /// A deadline passed.
    Timeout,
    /// We gave it up.
    Aborted,
}

/// One response's decoder.
#[derive(Debug)]
pub struct Decoder {
    framing: Framing,
    normalizer: Normalizer,
    response: Response,
    template: Template,
    /// Where the headers of the last message of an AWS event stream have the event's name: an empty place where it has none;
    /// `None` where the message is no event. Before the first, as after one without headers.
    event: Option<Range<usize>>,
    /// Bytes of the body so far.
    read: u64,
}

#[derive(Debug)]
enum Framing {
    /// Not decided: the bytes so far (white space, part of a mark) and what the header says.
    Undecided(Vec<u8>, Option<Kind>),
    Sse(Sse),
    Ndjson(Ndjson),
    Whole(Whole),
    Messages(Messages),
    EventStream(EventStream),
    /// The head of an error body.
    Failed(Vec<u8>),
}

#[derive(Debug)]
enum Normalizer {
    Chat(Box<OpenaiChat>),
    Responses(Box<OpenaiResponses>),
    Messages(Box<AnthropicMessages>),
    Cohere(Box<CohereChat>),
    Ollama(Box<OllamaChat>),
    Gemini(Box<GoogleGemini>),
    Converse(Box<BedrockConverse>),
    Invoke(Box<BedrockInvoke>),
}

impl Normalizer {
    fn get(&mut self) -> &mut dyn Normalize {
        match self {
            Normalizer::Chat(chat) => &mut **chat,
            Normalizer::Responses(responses) => &mut **responses,
            Normalizer::Messages(messages) => &mut **messages,
            Normalizer::Cohere(cohere) => &mut **cohere,
            Normalizer::Ollama(ollama) => &mut **ollama,
            Normalizer::Gemini(gemini) => &mut **gemini,
            Normalizer::Converse(converse) => &mut **converse,
            Normalizer::Invoke(invoke) => &mut **invoke,
        }
    }
}

impl Decoder {
    #[must_use]
    pub fn new(config: DecoderConfig) -> Decoder {
        let is_ok = matches!(config.status, 101 | 200..=299);
        let content_type = config.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let content_type = content_type.map(|(_, value)| value.as_str());
        let header = match config.protocol {
            // Its whole answers are one line too.
            Protocol::OllamaChat => Some(Kind::Ndjson),
            Protocol::BedrockConverse | Protocol::BedrockInvoke => {
                sniff::of_content_type(content_type).or(Some(Kind::EventStream))
            }
            _ => sniff::of_content_type(content_type),
        };
        let framing = match config.transport {
            _ if !is_ok => Framing::Failed(Vec::new()),
            Transport::WebSocket => Framing::Messages(Messages::default()),
            Transport::Http => Framing::Undecided(Vec::new(), header),
        };
        let normalizer = match config.protocol {
            Protocol::OpenaiChat => Normalizer::Chat(Box::new(OpenaiChat::new(config.think_tags))),
            Protocol::OpenaiResponses => Normalizer::Responses(Box::default()),
            Protocol::AnthropicMessages => Normalizer::Messages(Box::default()),
            Protocol::CohereChat => Normalizer::Cohere(Box::default()),
            Protocol::OllamaChat => Normalizer::Ollama(Box::new(OllamaChat::new(config.think_tags))),
            Protocol::GoogleGemini => Normalizer::Gemini(Box::default()),
            Protocol::BedrockConverse => Normalizer::Converse(Box::default()),
            Protocol::BedrockInvoke => Normalizer::Invoke(Box::default()),
        };
        let response = Response::new(About {
            family: config.protocol,
            status: (config.transport == Transport::Http || !is_ok).then_some(config.status),
            headers: config.headers,
            turn_id: config.turn_id,
            provider: config.provider,
            model: config.model,
        });
        Decoder { framing, normalizer, response, template: Template::default(), event: Some(0..0), read: 0 }
    }

    /// The terminal event was given.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.response.is_done()
    }

    /// Takes the next bytes of the body (of a WebSocket: one message) and gives their events to `sink`.
    pub fn feed<S: Sink + ?Sized>(&mut self, bytes: &[u8], mut sink: &mut S) {
        self.take(bytes, &mut sink);
    }

    /// The body has ended. Gives the terminal event, unless it was given.
    pub fn finish<S: Sink + ?Sized>(&mut self, end: End, mut sink: &mut S) {
        self.close(end, &mut sink);
    }

    fn take(&mut self, bytes: &[u8], sink: &mut dyn Sink) {
        if self.response.is_done() || bytes.is_empty() {
            return;
        }
        self.read += bytes.len() as u64;
        if let Framing::Undecided(held, header) = &mut self.framing {
            let decided = if held.is_empty() {
                sniff::of_first_bytes(bytes, *header)
            } else {
                held.extend_from_slice(bytes);
                sniff::of_first_bytes(held, *header)
            };
            let Some(kind) = decided else {
                if held.is_empty() {
                    held.extend_from_slice(bytes);
                }
                if held.len() > MAX_FRAME {
                    self.response.out(0, sink).interrupted(TOO_LONG);
                }
                return;
            };
            let held = std::mem::take(held);
            self.framing = match kind {
                // An error breaks into an event stream there as bare JSON.
                Kind::Sse => Framing::Sse(Sse::new(matches!(self.normalizer, Normalizer::Gemini(_)))),
                Kind::Ndjson => Framing::Ndjson(Ndjson::default()),
                Kind::Json => Framing::Whole(Whole::default()),
                Kind::EventStream => Framing::EventStream(EventStream::default()),
            };
            // What was held includes these bytes.
            let all = if held.is_empty() { bytes } else { &held };
            return self.frames(all, sink);
        }
        self.frames(bytes, sink);
    }

    fn frames(&mut self, bytes: &[u8], sink: &mut dyn Sink) {
        let Decoder { framing, normalizer, response, template, event, .. } = self;
        if let Framing::EventStream(stream) = framing {
            let taken = stream.feed(bytes, &mut |message: &Message<'_>| {
                message_of(message, event, normalizer, template, response, sink)
            });
            if let Err(Broken { offset, what }) = taken {
                response.out(offset, sink).interrupted(what);
            }
            return;
        }
        let mut each = |frame: Frame<'_>| deliver(&frame, normalizer, template, response, sink);
        let taken = match framing {
            Framing::Sse(sse) => sse.feed(bytes, &mut each),
            Framing::Ndjson(ndjson) => ndjson.feed(bytes, &mut each),
            Framing::Messages(messages) => messages.feed(bytes, &mut each),
            Framing::Whole(whole) => whole.feed(bytes),
            Framing::Failed(body) => {
                let room = MAX_ERROR_RAW - body.len();
                body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                Ok(())
            }
            Framing::Undecided(..) | Framing::EventStream(_) => Ok(()),
        };
        if let Err(TooLong { offset }) = taken {
            response.out(offset, sink).interrupted(TOO_LONG);
        }
    }

    fn close(&mut self, end: End, sink: &mut dyn Sink) {
        if self.response.is_done() {
            return;
        }
        let clean = end == End::Eof;
        let Decoder { framing, normalizer, response, template, read, .. } = self;
        match framing {
            Framing::Failed(body) => return response.out(0, sink).error_body(&unwrapped(body)),
            Framing::Sse(sse) => sse.finish(clean, &mut |f| deliver(&f, normalizer, template, response, sink)),
            Framing::Ndjson(lines) => lines.finish(clean, &mut |f| deliver(&f, normalizer, template, response, sink)),
            Framing::Whole(whole) => whole_body(whole.body(), *read, clean, normalizer, response, sink),
            Framing::Undecided(..) | Framing::Messages(_) | Framing::EventStream(_) => {}
        }
        if response.is_done() {
            return;
        }
        let mut out = response.out(*read, sink);
        // Where bytes of a message are left over, the response is not what its end may have said (rule R17).
        if !matches!(framing, Framing::EventStream(stream) if stream.is_inside()) {
            normalizer.get().end(&mut out);
        }
        if out.is_done() {
            return;
        }
        match end {
            End::Eof => out.interrupted("the body ended before the response did"),
            End::Reset => out.interrupted("the connection broke before the response ended"),
            End::Timeout => fail(ErrorKind::Timeout, "the response did not end in time", &mut out),
            End::Aborted => fail(ErrorKind::Aborted, "the response was given up", &mut out),
        }
    }
}

/// Gives out the events of one frame; false after the terminal.
fn deliver(
    frame: &Frame<'_>,
    normalizer: &mut Normalizer,
    template: &mut Template,
    response: &mut Response,
    sink: &mut dyn Sink,
) -> bool {
    if let Some(data) = frame.data {
        let mut out = response.out(frame.offset, sink);
        payload(data, frame.name, frame.repeats_name, normalizer.get(), template, &mut out);
    }
    let mark = response.take_mark();
    sink.frame(frame.start, frame.end, mark);
    !response.is_done()
}

/// Gives out the events of one message of an AWS event stream; false after the terminal.
fn message_of(
    message: &Message<'_>,
    event: &mut Option<Range<usize>>,
    normalizer: &mut Normalizer,
    template: &mut Template,
    response: &mut Response,
    sink: &mut dyn Sink,
) -> bool {
    let mut out = response.out(message.start, sink);
    if !message.repeats_headers {
        *event = match message.text_bytes(":message-type") {
            Some(b"exception" | b"error") => None,
            _ => Some(message.text_at(":event-type").unwrap_or_default()),
        };
    }
    match event {
        Some(name) => {
            let name = message.header_bytes(name.clone());
            // What is in a chunk has a template of its own, and the chunk has none.
            let is_read = match normalizer {
                Normalizer::Invoke(invoke) if message.payload.starts_with(b"{") => {
                    invoke.value(message.payload, name, &mut out).is_ok()
                }
                _ => false,
            };
            if !is_read {
                payload(message.payload, name, message.repeats_headers, normalizer.get(), template, &mut out);
            }
        }
        None => failure_of(message, &mut out),
    }
    let mark = response.take_mark();
    sink.frame(message.start, message.end, mark);
    !response.is_done()
}

/// A message that is no event.
#[cold]
fn failure_of(message: &Message<'_>, out: &mut Out<'_>) {
    if message.text_bytes(":message-type") == Some(b"exception") {
        return out.named_error(message.text(":exception-type").unwrap_or_default(), message.payload);
    }
    let mut body = message.payload.to_vec();
    if let Some(said) = message.text(":error-message").filter(|_| body.is_empty()) {
        push_json_str(said, &mut body);
    }
    out.named_error(message.text(":error-code").unwrap_or_default(), &body);
}

/// `repeats_name`: the payload before had this name too.
#[inline]
fn payload(
    data: &[u8],
    name: &[u8],
    repeats_name: bool,
    normalizer: &mut dyn Normalize,
    template: &mut Template,
    out: &mut Out<'_>,
) {
    if !repeats_name {
        template.named(name);
    }
    match template.fit(data) {
        Some((text, kept)) => normalizer.again(text, kept, out),
        None => read_payload(data, name, normalizer, template, out),
    }
}

/// The general way.
#[inline(never)]
fn read_payload(data: &[u8], name: &[u8], normalizer: &mut dyn Normalize, template: &mut Template, out: &mut Out<'_>) {
    if data.first() == Some(&b'{') && normalizer.value(data, name, out).is_ok() {
        return template.learn(data, name, normalizer.steady());
    }
    template.forget();
    if out.is_done() {
        return;
    }
    let data = data.trim_ascii();
    if data.starts_with(b"[DONE]") {
        return normalizer.done(out);
    }
    match row(data) {
        // What is announced as an error is one, whatever its shape.
        Ok(objects) if objects.is_empty() && name == b"error" && !data.is_empty() => out.provider_error(data),
        Ok(objects) => {
            for object in objects {
                if normalizer.value(object, name, out).is_err() {
                    return out.interrupted(NOT_JSON);
                }
                if out.is_done() {
                    return;
                }
            }
        }
        Err(_) => out.interrupted(NOT_JSON),
    }
}

fn whole_body(
    body: &[u8],
    read: u64,
    clean: bool,
    normalizer: &mut Normalizer,
    response: &mut Response,
    sink: &mut dyn Sink,
) {
    let mut out = response.out(0, sink);
    let normalizer = normalizer.get();
    match row(body) {
        Ok(objects) => {
            for object in objects {
                if normalizer.whole(object, &mut out).is_err() {
                    return out.interrupted(NOT_JSON);
                }
                if out.is_done() {
                    break;
                }
            }
            if !out.is_done() {
                normalizer.end(&mut out);
            }
        }
        Err(_) if clean => {
            let raw = String::from_utf8_lossy(&body[..body.len().min(MAX_ERROR_RAW)]);
            let known = Known { message: Some(NOT_JSON), raw: Some(&raw), ..Known::default() };
            out.fail(ErrorKind::StreamInterrupted, &known);
        }
        // How the body was cut says more.
        Err(_) => return,
    }
    let mark = response.take_mark();
    sink.frame(0, read, mark);
}

/// The objects of a payload that is a row of whole JSON values, or lists of objects.
fn row(data: &[u8]) -> Scan<Vec<&[u8]>> {
    let mut s = Scanner::new(data);
    let mut objects = Vec::new();
    while !s.at_end() {
        let value = s.skip()?;
        match value.first() {
            Some(b'{') => objects.push(value),
            Some(b'[') => {
                let mut list = Scanner::new(value);
                let mut items = list.array()?;
                while list.item(&mut items)? {
                    let item = list.skip()?;
                    if item.first() == Some(&b'{') {
                        objects.push(item);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(objects)
}

/// An error body that came as an event stream: its first payload is the body.
fn unwrapped(body: &[u8]) -> Vec<u8> {
    if sniff::of_first_bytes(body, Some(Kind::Json)) == Some(Kind::Sse) {
        let (mut sse, mut found) = (Sse::default(), None);
        let mut first = |frame: Frame<'_>| {
            found = frame.data.filter(|data| data.trim_ascii_start().starts_with(b"{")).map(<[u8]>::to_vec);
            found.is_none()
        };
        if sse.feed(body, &mut first).is_ok() {
            sse.finish(true, &mut first);
        }
        if let Some(data) = found {
            return data;
        }
    }
    body.to_vec()
}

fn fail(kind: ErrorKind, message: &str, out: &mut Out<'_>) {
    out.fail(kind, &Known { message: Some(message), ..Known::default() });
}

const TOO_LONG: &str = "a frame is longer than may be";
const NOT_JSON: &str = "a payload is not JSON";
