//! The neutral events: what every provider's stream becomes.
//!
//! 1. An [`Event`] borrows from the frame that it was read from; whoever wants to keep it copies what
//!    it needs. That is how a delta reaches a client's socket or a Python `str` with one copy.
//! 2. Absent is absent: an `Option` is `None` where the provider said nothing, never an empty
//!    string, never a 0 (rule R1, rule R12).
//! 3. Names and codes are for ever. One that is removed stays reserved.
//!
//! No provider's name and no provider's field may be added here.

use crate::error::ErrorKind;
use crate::text::{Text, push_json_str};

/// A wire protocol: how a provider's or a client's bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    OpenaiChat,
    OpenaiResponses,
    AnthropicMessages,
    GoogleGemini,
    BedrockConverse,
    BedrockInvoke,
    CohereChat,
    OllamaChat,
}

impl Protocol {
    pub const ALL: [Protocol; 8] = [
        Protocol::OpenaiChat,
        Protocol::OpenaiResponses,
        Protocol::AnthropicMessages,
        Protocol::GoogleGemini,
        Protocol::BedrockConverse,
        Protocol::BedrockInvoke,
        Protocol::CohereChat,
        Protocol::OllamaChat,
    ];

    /// The family's one name, the same in every layer.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::OpenaiChat => "openai_chat",
            Protocol::OpenaiResponses => "openai_responses",
            Protocol::AnthropicMessages => "anthropic_messages",
            Protocol::GoogleGemini => "google_gemini",
            Protocol::BedrockConverse => "bedrock_converse",
            Protocol::BedrockInvoke => "bedrock_invoke",
            Protocol::CohereChat => "cohere_chat",
            Protocol::OllamaChat => "ollama_chat",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Protocol> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
}

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $code:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The code that stands in events and logs.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $($name::$variant => $code),+ }
            }

            #[must_use]
            pub fn from_code(code: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|v| v.code() == code)
            }
        }
    };
}
pub(crate) use codes;

codes! {
    /// Why a response ended (rule R13).
    FinishReason {
        Stop = "stop",
        ToolIntents = "tool_intents",
        Length = "length",
        ContentFilter = "content_filter",
        Refusal = "refusal",
        Pause = "pause",
        Other = "other",
    }
}

codes! {
    /// Whether readable reasoning is the provider's summary or the model's own text.
    ReasoningKind { Summary = "summary", Raw = "raw" }
}

codes! {
    /// A function call takes a JSON object; a custom tool takes any text (rule R9c).
    CallKind { Function = "function", Custom = "custom" }
}

codes! {
    /// How a continuation's data is to be given back.
    ContinuationForm {
        Signature = "signature",
        Redacted = "redacted",
        Encrypted = "encrypted",
        ThoughtSignature = "thought_signature",
        Details = "details",
    }
}

codes! {
    /// What a continuation belongs to.
    AttachTo { Reasoning = "reasoning", Call = "call", Text = "text", Response = "response" }
}

codes! {
    /// The life of a tool that the provider runs itself.
    HostedPhase { Started = "started", Progress = "progress", Done = "done", Failed = "failed" }
}

codes! {
    /// Where in its life an attempt failed.
    ErrorPhase {
        Connect = "connect",
        Request = "request",
        Head = "head",
        BeforeCommit = "before_commit",
        Streaming = "streaming",
    }
}

/// Where an event stands: `seq` counts from 0 within one response, `offset` is the offset in the (decoded)
/// body of the first byte of the frame that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    pub seq: u64,
    pub offset: u64,
}

/// Totals of the response (rule R12), never deltas. `raw` is the provider's usage object.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage<'a> {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cached_input_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
    pub raw: &'a [u8],
}

/// A complete, parsed proposal of one tool use. Nothing has been permitted or executed.
#[derive(Clone, Debug)]
pub struct ToolIntent<'a> {
    /// Number of the call in its response, from 0 by first appearance (rule R4).
    pub call: u32,
    /// Ours: `{turn_id}.{call}`.
    pub id: &'a str,
    pub provider_call_id: Option<Text<'a>>,
    pub tool_name: Text<'a>,
    pub kind: CallKind,
    /// The arguments' text as it came. For a function it is one JSON object, `null` or blank
    /// (see [`ToolIntent::input_json`]); for a custom tool any text.
    pub raw_input_text: Text<'a>,
    pub assembled_from: Assembled,
}

impl ToolIntent<'_> {
    /// The input of a function as JSON text: `{}` for blank and `null` texts (rules R7, R8).
    #[must_use]
    pub fn input_json(&self) -> String {
        let text = self.raw_input_text.decode();
        match text.trim() {
            "" | "null" => "{}".to_owned(),
            _ => text.into_owned(),
        }
    }
}

/// What an intent was assembled from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// Frames that contributed.
    pub event_count: u64,
    pub first_offset: u64,
    pub last_offset: u64,
    /// Whether the provider replaced the text at the end, or sent it in another shape than text.
    pub had_repair: bool,
}

/// A provider's failure, as a terminal event.
#[derive(Clone, Debug)]
pub struct ProviderError<'a> {
    pub kind: ErrorKind,
    pub retryable: bool,
    pub status: Option<u16>,
    pub code: Option<Text<'a>>,
    pub message: Option<Text<'a>>,
    /// A malformed call's text, or the head of the body.
    pub raw: Option<Text<'a>>,
    /// Seconds.
    pub retry_after_s: Option<f64>,
    pub request_id: Option<Text<'a>>,
    pub provider: Option<Text<'a>>,
    pub model: Option<Text<'a>>,
    pub phase: ErrorPhase,
}

/// One neutral event. `index` numbers content blocks by first appearance.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    Started {
        model: Option<Text<'a>>,
        response_id: Option<Text<'a>>,
        request_id: Option<Text<'a>>,
    },
    TextDelta {
        text: Text<'a>,
        index: u32,
    },
    RefusalDelta {
        text: Text<'a>,
        index: u32,
    },
    ReasoningDelta {
        text: Text<'a>,
        kind: ReasoningKind,
        index: u32,
    },
    Continuation {
        family: Protocol,
        form: ContinuationForm,
        data: Text<'a>,
        to: AttachTo,
        /// Of the block or call it belongs to; 0 for a response.
        index: u32,
    },
    Annotation {
        kind: Text<'a>,
        url: Option<Text<'a>>,
        title: Option<Text<'a>>,
        /// Start and end in code points of the text block.
        span: Option<(u64, u64)>,
        /// JSON.
        raw: &'a [u8],
    },
    HostedTool {
        id: Option<Text<'a>>,
        phase: HostedPhase,
        name: Text<'a>,
        /// JSON.
        raw: &'a [u8],
    },
    Media {
        mime: Text<'a>,
        /// Base64.
        data: Option<Text<'a>>,
        url: Option<Text<'a>>,
        partial: bool,
    },
    IntentDelta {
        call: u32,
        provider_call_id: Option<Text<'a>>,
        name: Option<Text<'a>>,
        kind: CallKind,
        arguments_delta: Text<'a>,
    },
    IntentProposed(ToolIntent<'a>),
    Usage(Usage<'a>),
    Finished {
        reason: FinishReason,
        raw_reason: Option<Text<'a>>,
    },
    Error(ProviderError<'a>),
}

impl Event<'_> {
    /// The event's name for ever.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Event::Started { .. } => "model.started",
            Event::TextDelta { .. } => "model.text_delta",
            Event::RefusalDelta { .. } => "model.refusal_delta",
            Event::ReasoningDelta { .. } => "model.reasoning_delta",
            Event::Continuation { .. } => "model.continuation",
            Event::Annotation { .. } => "model.annotation",
            Event::HostedTool { .. } => "model.hosted_tool",
            Event::Media { .. } => "model.media",
            Event::IntentDelta { .. } => "tool_intent.delta",
            Event::IntentProposed(_) => "tool_intent.proposed",
            Event::Usage(_) => "model.usage",
            Event::Finished { .. } => "model.finished",
            Event::Error(_) => "provider.error",
        }
    }

    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Event::Finished { .. } | Event::Error(_))
    }

    /// Whether the gateway's answer commits at this event (design: all but these three).
    #[must_use]
    pub fn commits(&self) -> bool {
        !matches!(self, Event::Started { .. } | Event::Usage(_) | Event::Error(_))
    }

    /// Appends the event as one JSON object: `type`, `seq`, `offset`, then its fields in their order,
    /// without what is absent. The same text as `to_json()` in Python.
    pub fn push_json(&self, at: At, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":");
        push_json_str(self.name(), out);
        number("seq", at.seq, out);
        number("offset", at.offset, out);
        match self {
            Event::Started { model, response_id, request_id } => {
                text_if("model", *model, out);
                text_if("response_id", *response_id, out);
                text_if("request_id", *request_id, out);
            }
            Event::TextDelta { text, index } | Event::RefusalDelta { text, index } => {
                text_of("text", *text, out);
                number("index", u64::from(*index), out);
            }
            Event::ReasoningDelta { text, kind, index } => {
                text_of("text", *text, out);
                code("kind", kind.code(), out);
                number("index", u64::from(*index), out);
            }
            Event::Continuation { family, form, data, to, index } => {
                code("family", family.name(), out);
                code("form", form.code(), out);
                text_of("data", *data, out);
                out.extend_from_slice(b",\"attach\":{\"to\":");
                push_json_str(to.code(), out);
                number("index", u64::from(*index), out);
                out.push(b'}');
            }
            Event::Annotation { kind, url, title, span, raw } => {
                text_of("kind", *kind, out);
                text_if("url", *url, out);
                text_if("title", *title, out);
                if let Some((start, end)) = span {
                    out.extend_from_slice(format!(",\"span\":[{start},{end}]").as_bytes());
                }
                raw_json("raw", raw, out);
            }
            Event::HostedTool { id, phase, name, raw } => {
                text_if("id", *id, out);
                code("phase", phase.code(), out);
                text_of("name", *name, out);
                raw_json("raw", raw, out);
            }
            Event::Media { mime, data, url, partial } => {
                text_of("mime", *mime, out);
                text_if("data", *data, out);
                text_if("url", *url, out);
                flag("partial", *partial, out);
            }
            Event::IntentDelta { call, provider_call_id, name, kind, arguments_delta } => {
                number("call", u64::from(*call), out);
                text_if("provider_call_id", *provider_call_id, out);
                text_if("name", *name, out);
                code("kind", kind.code(), out);
                text_of("arguments_delta", *arguments_delta, out);
            }
            Event::IntentProposed(intent) => push_intent(intent, out),
            Event::Usage(usage) => {
                number_if("input_tokens", usage.input_tokens, out);
                number_if("output_tokens", usage.output_tokens, out);
                number_if("cached_input_tokens", usage.cached_input_tokens, out);
                number_if("cache_write_tokens", usage.cache_write_tokens, out);
                number_if("reasoning_tokens", usage.reasoning_tokens, out);
                raw_json("raw", usage.raw, out);
            }
            Event::Finished { reason, raw_reason } => {
                code("reason", reason.code(), out);
                text_if("raw_reason", *raw_reason, out);
            }
            Event::Error(error) => push_error(error, out),
        }
        out.push(b'}');
    }
}

fn push_intent(intent: &ToolIntent<'_>, out: &mut Vec<u8>) {
    number("call", u64::from(intent.call), out);
    code("id", intent.id, out);
    text_if("provider_call_id", intent.provider_call_id, out);
    text_of("tool_name", intent.tool_name, out);
    code("kind", intent.kind.code(), out);
    out.extend_from_slice(b",\"input\":");
    match intent.kind {
        CallKind::Function => push_input(intent.input_json().trim().as_bytes(), out),
        CallKind::Custom => intent.raw_input_text.push_json_string(out),
    }
    text_of("raw_input_text", intent.raw_input_text, out);
    let Assembled { event_count, first_offset, last_offset, had_repair } = intent.assembled_from;
    out.extend_from_slice(
        format!(
            ",\"assembled_from\":{{\"event_count\":{event_count},\"first_offset\":{first_offset},\
             \"last_offset\":{last_offset},\"had_repair\":{had_repair}}},\"status\":\"proposed\""
        )
        .as_bytes(),
    );
}

/// Appends JSON as part of one line that every reader takes: a line end stands only between tokens, where a space does
/// as well, and an escaped half of a surrogate pair that is alone becomes U+FFFD (rule R2).
fn push_input(json: &[u8], out: &mut Vec<u8>) {
    let mut rest = json;
    while let Some(at) = memchr::memchr3(b'\n', b'\r', b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (plain, used) = match rest[at] {
            b'\\' => whole_escape(&rest[at..]),
            _ => (&b" "[..], 1),
        };
        out.extend_from_slice(plain);
        rest = &rest[at + used..];
    }
    out.extend_from_slice(rest);
}

/// What to write for the escape at the start of `json`, and its length. A pair is one.
fn whole_escape(json: &[u8]) -> (&[u8], usize) {
    let unit = |from: usize| {
        let digits = json.get(from..from + 6).filter(|e| e.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    match (unit(0), unit(6)) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (&json[..12], 12),
        (Some(0xD800..=0xDFFF), _) => (b"\\ufffd", 6),
        (Some(_), _) => (&json[..6], 6),
        // The scanner has seen a character after the backslash.
        (None, _) => (&json[..json.len().min(2)], json.len().min(2)),
    }
}

fn push_error(error: &ProviderError<'_>, out: &mut Vec<u8>) {
    code("kind", error.kind.code(), out);
    flag("retryable", error.retryable, out);
    number_if("status", error.status.map(u64::from), out);
    text_if("code", error.code, out);
    text_if("message", error.message, out);
    text_if("raw", error.raw, out);
    if let Some(seconds) = error.retry_after_s {
        out.extend_from_slice(format!(",\"retry_after_s\":{seconds:?}").as_bytes());
    }
    text_if("request_id", error.request_id, out);
    text_if("provider", error.provider, out);
    text_if("model", error.model, out);
    code("phase", error.phase.code(), out);
}

fn name(key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn number(key: &str, n: u64, out: &mut Vec<u8>) {
    name(key, out);
    out.extend_from_slice(n.to_string().as_bytes());
}

fn number_if(key: &str, n: Option<u64>, out: &mut Vec<u8>) {
    if let Some(n) = n {
        number(key, n, out);
    }
}

fn flag(key: &str, on: bool, out: &mut Vec<u8>) {
    name(key, out);
    out.extend_from_slice(if on { b"true" } else { b"false" });
}

fn code(key: &str, value: &str, out: &mut Vec<u8>) {
    name(key, out);
    push_json_str(value, out);
}

fn text_of(key: &str, text: Text<'_>, out: &mut Vec<u8>) {
    name(key, out);
    push_json_str(&text.decode(), out);
}

fn text_if(key: &str, text: Option<Text<'_>>, out: &mut Vec<u8>) {
    if let Some(text) = text {
        text_of(key, text, out);
    }
}

/// `raw` is JSON text, kept as a string: a consumer parses it if it cares.
fn raw_json(key: &str, raw: &[u8], out: &mut Vec<u8>) {
    if !raw.is_empty() {
        name(key, out);
        push_json_str(&String::from_utf8_lossy(raw), out);
    }
}

/// Takes events as they are made. A sink that cannot take more says so by other means; events are never dropped.
pub trait Sink {
    fn event(&mut self, at: At, event: &Event<'_>);

    /// A frame ended: its bytes are `start..end` of the decoded body, terminator included. Called after the
    /// frame's events.
    fn frame(&mut self, start: u64, end: u64, mark: FrameMark) {
        let _ = (start, end, mark);
    }
}

/// What a verbatim relay has to know of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameMark {
    #[default]
    Plain,
    /// The Chat chunk that holds a usage and no choice: it may be taken out where the gateway itself had asked for it.
    UsageOnly,
    /// The response failed here by the decoder's word and not by the provider's own: whoever gets this frame may
    /// take it for a normal end.
    Broken,
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn event(&mut self, at: At, event: &Event<'_>) {
        (**self).event(at, event);
    }

    fn frame(&mut self, start: u64, end: u64, mark: FrameMark) {
        (**self).frame(start, end, mark);
    }
}

/// Collects events as JSON lines: for tests, digests and `headrace normalize`.
#[derive(Debug, Default)]
pub struct JsonLines(pub Vec<u8>);

impl Sink for JsonLines {
    fn event(&mut self, at: At, event: &Event<'_>) {
        event.push_json(at, &mut self.0);
        self.0.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_one_line_and_has_no_lone_halves() {
        for (json, want) in [
            ("{\n \"a\":\r\n1}", "{  \"a\":  1}"),
            (r#"{"a":"\n\\\"x\u00e9\ud83d\ude00"}"#, r#"{"a":"\n\\\"x\u00e9\ud83d\ude00"}"#),
            (
                r#"{"a":"\ud83d","b":"\ude00\ud83d\ud83d\ude00\\ud83d"}"#,
                r#"{"a":"\ufffd","b":"\ufffd\ufffd\ud83d\ude00\\ud83d"}"#,
            ),
        ] {
            let mut out = Vec::new();
            push_input(json.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
    }
}
