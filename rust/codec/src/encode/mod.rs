//! Encoding: neutral events in, what a client of `OpenAI` Chat, `OpenAI` Responses, Anthropic Messages or Gemini expects
//! out, as an event stream or as one JSON body.
//!
//! 1. An [`Encoder`] takes the events of one response in order and appends to the caller's buffer: many events may
//!    share one buffer and leave as one chunk.
//! 2. Text is copied raw from the provider's literal into the client's. What came before is never copied again
//!    for a delta; what a protocol repeats at the end (Responses) grows in one buffer.
//! 3. A call opens at its first argument text or its intent, whichever comes first. One that never becomes an intent
//!    ends as the protocol ends a truncated call, and the response then never ends as a normal one.
//! 4. What a protocol has no place for is in [`Encoder::losses`], by its path, as the [`table`] says; nothing is dropped
//!    silently and no number is made up but where a schema demands one.
//! 5. Every stream ends: with the protocol's terminal, or with its error. A stream that saw no terminal
//!    event ends as an error at [`Encoder::finish`].
//! 6. A whole JSON body is written at the terminal event. If that is an error, what is written is the
//!    error's body, the same as [`error_reply`]'s, which also has the status.
//!
//! No routing, no clock and no randomness may be added: ids derive from `response_id`.

mod annotations;
mod anthropic_messages;
mod asked;
mod calls;
pub mod continuation;
mod elements;
mod errors;
mod google_gemini;
mod ollama_chat;
mod openai_chat;
mod openai_responses;
mod shared;
pub mod table;

pub use elements::Elements;
pub use errors::{Reply, error_reply, refusal};

use anthropic_messages::Messages;
use asked::Asked;
use calls::Calls;
use errors::Told;
use google_gemini::Gemini;
use ollama_chat::Ollama;
use openai_chat::Chat;
use openai_responses::Responses;
use shared::{Counts, Shared};

use crate::error::ErrorKind;
use crate::event::{At, AttachTo, ContinuationForm, Event, Protocol, ProviderError, Sink};
use crate::limits::MAX_KEPT;
use crate::loss::Loss;
use crate::request::TargetFlags;
use crate::text::Text;

/// For whom and how to encode.
#[derive(Clone)]
pub struct EncoderConfig {
    /// What the client speaks: one for which [`is_client`] holds. Any other is encoded as Chat.
    pub protocol: Protocol,
    /// An event stream, or one JSON body.
    pub stream: bool,
    /// The name that the client asked for.
    pub model: String,
    /// `chatcmpl-…`, `resp_…` or `msg_…`; ids of items and calls derive from it.
    pub response_id: String,
    /// Unix time in seconds.
    pub created: u64,
    /// Chat: whether the client asked for the usage chunk.
    pub include_usage: bool,
    /// The client's request body: what its tools are called, and what a Responses object repeats.
    pub request: Option<Vec<u8>>,
    /// The provider row, for wrapping continuations.
    pub provider: Option<String>,
    /// The wire that the events came from, where it is known.
    pub family: Option<Protocol>,
    /// What that wire's provider takes: whether readable reasoning is to come back to it.
    pub target_flags: TargetFlags,
    /// Gemini: the stream is one JSON array, also where there is no `request` that says so.
    pub array: bool,
}

impl EncoderConfig {
    /// A stream for `protocol`, with everything else empty.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        EncoderConfig {
            protocol,
            stream: true,
            model: String::new(),
            response_id: String::new(),
            created: 0,
            include_usage: false,
            request: None,
            provider: None,
            family: None,
            target_flags: TargetFlags::default(),
            array: false,
        }
    }
}

/// The body stays out of it: it is the client's.
impl std::fmt::Debug for EncoderConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncoderConfig")
            .field("protocol", &self.protocol)
            .field("stream", &self.stream)
            .field("model", &self.model)
            .field("response_id", &self.response_id)
            .finish_non_exhaustive()
    }
}

/// Whether clients may speak this protocol.
#[must_use]
pub fn is_client(protocol: Protocol) -> bool {
    matches!(
        protocol,
        Protocol::OpenaiChat
            | Protocol::OpenaiResponses
            | Protocol::AnthropicMessages
            | Protocol::GoogleGemini
            | Protocol::OllamaChat
    )
}

/// What keeps a silent stream alive, between events only. The same for every client of a protocol: Codex
/// takes only a `data:` with a `type` as a sign of life, and comments reset nobody's timer there.
///
/// Where an encoder exists, [`Encoder::keep_alive`] is better: it also knows whether the stream has begun.
#[must_use]
pub fn keep_alive(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::OpenaiResponses => b"event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n",
        Protocol::AnthropicMessages => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
        // A comment would be text to the vendor's SDK; a blank line is nothing.
        // A line with no text in it, since a blank one is an error to the vendor's SDK.
        Protocol::OllamaChat => b"{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n",
        Protocol::GoogleGemini => b"\n",
        _ => b": keep-alive\n\n",
    }
}

/// The end of a stream that was passed on as it came and then failed: the client's protocol's error.
///
/// - `config`: with the stream's own `response_id`.
/// - `events`: how many events, or elements, the client has had: Responses numbers on from there, and Gemini's array goes on.
#[must_use]
pub fn error_end(config: EncoderConfig, events: u64, error: &ProviderError<'_>) -> Vec<u8> {
    let mut encoder = Encoder::new(config);
    match &mut encoder.form {
        Form::Responses(form) => form.resume(events),
        Form::Gemini(form) => form.resume(events),
        _ => {}
    }
    let mut out = Vec::new();
    encoder.fail(&Told::of(encoder.shared.client, error), &mut out);
    out
}

/// Encodes the events of one response.
pub struct Encoder {
    shared: Shared,
    form: Form,
    /// Bytes of text that were kept.
    kept: usize,
    /// The stream has been ended; nothing follows.
    over: bool,
}

enum Form {
    Chat(Box<Chat>),
    Responses(Box<Responses>),
    Messages(Box<Messages>),
    Gemini(Box<Gemini>),
    Ollama(Box<Ollama>),
}

/// The fields of [`Event::Continuation`].
#[derive(Clone, Copy)]
struct Continued<'a> {
    family: Protocol,
    form: ContinuationForm,
    data: Text<'a>,
    to: AttachTo,
    index: u32,
}

/// What a form makes of an event.
enum Outcome {
    Going,
    /// The protocol's own terminal was written.
    Over,
    /// The response cannot go on as this protocol; nothing has been written of that yet.
    Failed(Told),
}

impl Encoder {
    #[must_use]
    pub fn new(mut config: EncoderConfig) -> Encoder {
        let request = config.request.take();
        let shared = Shared::new(&config);
        let asked = Asked::read(request.as_deref());
        let calls = Calls::new(&shared, asked.changed_tools(config.protocol, config.family));
        let form = match config.protocol {
            Protocol::OpenaiResponses => Form::Responses(Box::new(Responses::new(calls, asked.echo()))),
            Protocol::AnthropicMessages => Form::Messages(Box::new(Messages::new(calls))),
            Protocol::GoogleGemini => {
                Form::Gemini(Box::new(Gemini::new(calls, shared.stream && (config.array || asked.array()))))
            }
            Protocol::OllamaChat => Form::Ollama(Box::new(Ollama::new(&shared, calls))),
            _ => Form::Chat(Box::new(Chat::new(&shared, calls))),
        };
        Encoder { shared, form, kept: 0, over: false }
    }

    /// Takes one event and appends what the client is to get. Nothing is written after a terminal event.
    pub fn event(&mut self, at: At, event: &Event<'_>, out: &mut Vec<u8>) {
        let _ = at;
        if self.over {
            return;
        }
        let outcome = match event {
            Event::Usage(usage) => {
                self.shared.usage = Some(Counts::of(usage));
                return;
            }
            Event::Error(error) => Outcome::Failed(Told::of(self.shared.client, error)),
            _ if let Some(path) = table::dropped(event, self.shared.client) => {
                self.shared.losses.dropped(path);
                return;
            }
            _ if self.exceeds(event) => Outcome::Failed(Told::of_kind(ErrorKind::Unknown)),
            _ => match &mut self.form {
                Form::Chat(form) => form.event(&mut self.shared, event, out),
                Form::Responses(form) => form.event(&mut self.shared, event, out),
                Form::Messages(form) => form.event(&mut self.shared, event, out),
                Form::Gemini(form) => form.event(&mut self.shared, event, out),
                Form::Ollama(form) => form.event(&mut self.shared, event, out),
            },
        };
        match outcome {
            Outcome::Going => {}
            Outcome::Over => self.over = true,
            Outcome::Failed(told) => self.fail(&told, out),
        }
    }

    /// Says that no more events come. After a terminal event it writes nothing; without one the
    /// stream ends as an error.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.over {
            self.fail(&Told::cut(), out);
        }
    }

    /// Appends what keeps a silent stream alive. A Responses stream that has not begun begins: its
    /// clients take `response.created` only as the first event.
    pub fn keep_alive(&mut self, out: &mut Vec<u8>) {
        if self.over || !self.shared.stream {
            return;
        }
        match &mut self.form {
            Form::Responses(form) => form.keep_alive(&self.shared, out),
            Form::Gemini(_) => Gemini::keep_alive(out),
            _ => out.extend_from_slice(keep_alive(self.shared.client)),
        }
    }

    /// Whether the protocol's terminal, or its error, has been written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// What could not be carried over unchanged so far.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        self.shared.losses.as_slice()
    }

    /// Whether keeping what the event holds would be more than may be kept.
    fn exceeds(&mut self, event: &Event<'_>) -> bool {
        let keeps = match &self.form {
            _ if !self.shared.stream => true,
            Form::Chat(_) | Form::Gemini(_) | Form::Ollama(_) => false,
            Form::Responses(_) => true,
            Form::Messages(form) => form.is_blocked(),
        };
        if keeps {
            let length = |text: Text<'_>| match text {
                Text::Plain(s) => s.len(),
                Text::Literal(l) => l.raw.len(),
            };
            self.kept += match event {
                Event::TextDelta { text, .. }
                | Event::RefusalDelta { text, .. }
                | Event::ReasoningDelta { text, .. } => length(*text),
                Event::IntentDelta { arguments_delta, .. } => length(*arguments_delta),
                Event::Continuation { data, .. } => length(*data),
                Event::Annotation { raw, .. } | Event::HostedTool { raw, .. } => raw.len(),
                Event::Media { data, url, .. } => data.map_or(0, length) + url.map_or(0, length),
                _ => 0,
            };
        }
        self.kept > MAX_KEPT
    }

    fn fail(&mut self, told: &Told, out: &mut Vec<u8>) {
        self.over = true;
        if !self.shared.stream {
            out.extend_from_slice(&told.body(self.shared.client));
            return;
        }
        match &mut self.form {
            Form::Chat(_) => Chat::fail(told, out),
            Form::Responses(form) => form.fail(&mut self.shared, told, out),
            Form::Messages(_) => Messages::fail(told, out),
            Form::Gemini(form) => form.fail(told, out),
            Form::Ollama(_) => Ollama::fail(told, out),
        }
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder")
            .field("client", &self.shared.client)
            .field("stream", &self.shared.stream)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

/// An encoder and where it writes, as the sink of a decoder.
#[derive(Debug)]
pub struct Encoding<'a> {
    pub encoder: &'a mut Encoder,
    pub out: &'a mut Vec<u8>,
}

impl Sink for Encoding<'_> {
    fn event(&mut self, at: At, event: &Event<'_>) {
        self.encoder.event(at, event, self.out);
    }
}
