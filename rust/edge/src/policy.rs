//! What the edge asks of whoever decides, and what it is told.
//!
//! 1. The edge decides nothing: [`Policy::decide`] once per request, [`Policy::next`] once per failed attempt,
//!    [`Policy::settle`] exactly once per plan. Nothing is asked per chunk.
//! 2. A question is answered through its [`Reply`], from any thread, at any time; the edge thread goes on meanwhile.
//! 3. Secrets stand in [`Secret`] and are never printed.
//!
//! No choice of a provider or a credential may be added here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use headrace_codec::error::ErrorKind;
use headrace_codec::event::{ErrorPhase, FinishReason, ProviderError};
use headrace_codec::loss::Loss;
use headrace_codec::{Protocol, Text};

use crate::mailbox::Reply;
use crate::request::{ClientRequest, Recipe};

/// Whoever decides. Called on edge threads: it must not block.
pub trait Policy: Send + Sync + 'static {
    /// A request came. The answer is a plan, a refusal or a whole answer.
    fn decide(&self, request: Arc<ClientRequest>, reply: Reply);

    /// An attempt failed before anything reached the client. The answer is another attempt or a refusal.
    fn next(&self, failure: Failure, reply: Reply);

    /// The whole of a provider's good answer came, to a plan whose answer the policy reads. The answer is an answer or
    /// a refusal.
    fn read(&self, gathered: Gathered, reply: Reply);

    /// Questions were asked: wakes whoever answers. Called once for all that one turn of the thread asked, soon after,
    /// so that a busy thread wakes it once for many. Nothing to do where `decide` and `next` answer themselves.
    fn flush(&self) {}

    /// A planned request ended. Also for a plan that came after its client had left.
    fn settle(&self, settlement: Settlement);

    /// Whether new requests can be served (`/readyz`).
    fn ready(&self) -> bool;
}

/// What a question is answered with.
#[derive(Debug)]
pub enum Decision {
    Plan(Box<Plan>),
    Attempt(Box<AttemptSpec>),
    Refusal(Refusal),
    Answer(Answer),
    /// Whoever was asked lost the question: the client gets a 500.
    Lost,
}

/// How a planned request is served.
#[derive(Debug)]
pub struct Plan {
    /// The policy's own number for this request.
    pub token: u64,
    pub spec: AttemptSpec,
    pub client_protocol: Protocol,
    pub relay: Relay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relay {
    /// The event bytes unchanged; the codec reads along.
    Verbatim,
    /// Events encoded anew in the client's protocol.
    Normalised,
    /// The bytes unchanged, and nobody reads them: the answer is no model's (a token count).
    Opaque,
    /// Nothing by itself: the whole body goes to the policy, which says what the client gets. `verbatim`: it is in the
    /// client's own form, and so is an error's.
    Gathered { verbatim: bool },
}

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl Secret {
    /// A shorter one would be found in ordinary words.
    fn can_be_found(&self) -> bool {
        self.0.len() >= 4
    }
}

/// Takes secrets out of a body.
pub(crate) fn redact_bytes(body: &mut Vec<u8>, secrets: &[Secret]) {
    for secret in secrets.iter().filter(|secret| secret.can_be_found()) {
        let (needle, mut from) = (secret.0.as_bytes(), 0);
        while let Some(at) = body[from..].windows(needle.len()).position(|window| window == needle) {
            body.splice(from + at..from + at + needle.len(), REDACTED.bytes());
            from += at + REDACTED.len();
        }
    }
}

/// Whether a text holds a secret: one that does is no id and no limit.
pub(crate) fn holds_secret(text: &str, secrets: &[Secret]) -> bool {
    secrets.iter().any(|secret| secret.can_be_found() && text.contains(&secret.0))
}

const REDACTED: &str = "***";

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Where an attempt's body comes from.
#[derive(Clone)]
pub enum BodySource {
    Bytes(Vec<u8>),
    Recipe(Arc<Recipe>),
}

impl fmt::Debug for BodySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodySource::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            BodySource::Recipe(recipe) => write!(f, "Recipe({})", recipe.protocol.name()),
        }
    }
}

/// Limits of one attempt's time. `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    pub connect: Option<Duration>,
    pub first_byte: Option<Duration>,
    pub idle: Option<Duration>,
    pub content: Option<Duration>,
    pub total: Option<Duration>,
}

/// One attempt, ready to send.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, as the policy has it")]
#[derive(Clone, Debug)]
pub struct AttemptSpec {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, Secret)>,
    pub body: BodySource,
    pub protocol: Protocol,
    pub deadlines: Deadlines,
    /// The provider row's id.
    pub provider: Option<String>,
    pub think_tags: bool,
    /// The usage chunk was asked for on the gateway's behalf.
    pub usage_asked: bool,
    /// To be waited before it begins.
    pub delay: Duration,
    /// Not over a pooled connection.
    pub fresh_connection: bool,
    /// Signs the headers and the body as they are sent.
    pub signer: Option<Box<Signer>>,
    /// By way of this proxy: its address, with its credentials if it wants any.
    pub proxy: Option<Secret>,
    /// Over HTTP/2, where an https endpoint speaks it.
    pub http2: bool,
    /// How the answer is relayed, where that is not the plan's: another provider may speak another protocol.
    pub relay: Option<Relay>,
    /// Told to the client with a good answer.
    pub told: Vec<(String, String)>,
    /// What must not stand in an error that a client reads, or in any record.
    pub secrets: Vec<Secret>,
    /// Another one, begun beside this one if it has no head by then.
    pub hedge: Option<Box<Hedge>>,
}

/// A second attempt at the same time. See `hedge.rs`.
#[derive(Clone, Debug)]
pub struct Hedge {
    pub after: Duration,
    pub spec: AttemptSpec,
}

/// Of an attempt and its hedge, which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    First,
    Second,
    /// Both were under way when the client left. Of a settlement only.
    Neither,
}

impl Lane {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Lane::First => "first",
            Lane::Second => "second",
            Lane::Neither => "neither",
        }
    }
}

/// Whose signature an attempt carries: AWS Signature Version 4. The time is the edge's own.
#[derive(Clone, Debug)]
pub struct Signer {
    pub region: String,
    pub service: String,
    pub access_key_id: Secret,
    pub secret_access_key: Secret,
    pub session_token: Option<Secret>,
}

/// An answer of the gateway's own, told in the client's format.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub code: String,
    pub message: String,
    pub status: u16,
    pub param: Option<String>,
    /// Unix time in seconds.
    pub retry_at: Option<f64>,
    /// Becomes `x-should-retry`.
    pub should_retry: Option<bool>,
    /// Answer with the last failure, as the codec's table has it, and not with the fields above.
    pub tell_failure: bool,
}

/// A whole answer that the policy made itself.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    /// Beside the content type.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// What a gathered answer told of its cost.
    pub usage: Counts,
}

/// A provider's whole answer, its status a good one.
#[derive(Clone, Debug)]
pub struct Gathered {
    pub token: u64,
    pub status: u16,
    /// The response headers that rule R18 lets pass.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// An attempt failed and nothing of it has reached the client.
#[derive(Clone, Debug)]
pub struct Failure {
    pub token: u64,
    /// From 1.
    pub attempt: u32,
    pub error: OwnedError,
    /// The response headers that rule R18 lets pass.
    pub headers: Vec<(String, String)>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub reused_socket: bool,
    /// Which one failed last, if a hedge had begun; the other one is over, too.
    pub lane: Option<Lane>,
}

/// The end of a planned request.
#[derive(Clone, Debug, Default)]
pub struct Settlement {
    pub token: u64,
    pub attempts: u32,
    /// Told to the client; 0 if nothing was.
    pub status: u16,
    /// Exactly one of `finish` and `error` is there.
    pub finish: Option<FinishReason>,
    pub error: Option<OwnedError>,
    pub model: Option<String>,
    pub response_id: Option<String>,
    pub request_id: Option<String>,
    pub headers: Vec<(String, String)>,
    pub usage: Counts,
    pub intents: u32,
    pub events: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub bytes_to_client: u64,
    /// From the request's last byte to the decision.
    pub decide: Duration,
    /// From the decision to the first byte of the answer.
    pub first_byte: Option<Duration>,
    pub total: Duration,
    pub losses: Vec<Loss>,
    /// Whose answer it is, if a hedge had begun.
    pub lane: Option<Lane>,
}

/// A response's totals. `None` is unknown, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cached_input_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
}

/// A `provider.error` that outlives its frame.
#[derive(Clone, Debug)]
pub struct OwnedError {
    pub kind: ErrorKind,
    pub retryable: bool,
    pub status: Option<u16>,
    pub code: Option<String>,
    pub message: Option<String>,
    pub raw: Option<String>,
    pub retry_after_s: Option<f64>,
    pub request_id: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub phase: ErrorPhase,
}

impl OwnedError {
    /// A failure that the edge saw itself, without a provider's words.
    #[must_use]
    pub fn new(kind: ErrorKind, phase: ErrorPhase, message: &str) -> OwnedError {
        OwnedError {
            kind,
            retryable: kind.retryable(),
            status: None,
            code: None,
            message: Some(message.to_owned()),
            raw: None,
            retry_after_s: None,
            request_id: None,
            provider: None,
            model: None,
            phase,
        }
    }

    /// Takes secrets out of the provider's words: some repeat the key that they refuse.
    pub(crate) fn redact(&mut self, secrets: &[Secret]) {
        self.request_id.take_if(|id| holds_secret(id, secrets));
        for text in [&mut self.code, &mut self.message, &mut self.raw].into_iter().flatten() {
            for secret in secrets.iter().filter(|secret| secret.can_be_found()) {
                if text.contains(&secret.0) {
                    *text = text.replace(&secret.0, REDACTED);
                }
            }
        }
    }

    #[must_use]
    pub fn as_event(&self) -> ProviderError<'_> {
        fn text(s: Option<&String>) -> Option<Text<'_>> {
            s.map(|s| Text::from(s.as_str()))
        }
        ProviderError {
            kind: self.kind,
            retryable: self.retryable,
            status: self.status,
            code: text(self.code.as_ref()),
            message: text(self.message.as_ref()),
            raw: text(self.raw.as_ref()),
            retry_after_s: self.retry_after_s,
            request_id: text(self.request_id.as_ref()),
            provider: text(self.provider.as_ref()),
            model: text(self.model.as_ref()),
            phase: self.phase,
        }
    }
}

impl From<&ProviderError<'_>> for OwnedError {
    fn from(e: &ProviderError<'_>) -> OwnedError {
        fn owned(t: Option<Text<'_>>) -> Option<String> {
            t.map(|t| t.decode().into_owned())
        }
        OwnedError {
            kind: e.kind,
            retryable: e.retryable,
            status: e.status,
            code: owned(e.code),
            message: owned(e.message),
            raw: owned(e.raw),
            retry_after_s: e.retry_after_s,
            request_id: owned(e.request_id),
            provider: owned(e.provider),
            model: owned(e.model),
            phase: e.phase,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(texts: &[&str]) -> Vec<Secret> {
        texts.iter().map(|text| Secret((*text).to_owned())).collect()
    }

    #[test]
    fn every_place_of_every_secret_is_taken_out_of_a_body() {
        for (body, expected) in [
            ("no sk-up-1 here", "no *** here"),
            ("sk-up-1sk-up-1", "******"),
            ("sk-up-2, sk-up-1", "***, ***"),
            ("sk-up-", "sk-up-"),
            ("", ""),
        ] {
            let mut bytes = body.as_bytes().to_vec();
            redact_bytes(&mut bytes, &secrets(&["sk-up-1", "sk-up-2", "a"]));
            assert_eq!(bytes, expected.as_bytes(), "{body}");
        }
    }

    #[test]
    fn an_errors_words_hold_no_secret_and_short_ones_are_ordinary_words() {
        let mut error = OwnedError::new(ErrorKind::Auth, ErrorPhase::Head, "a bad key: sk-up-1");
        error.code = Some("sk-up-1_refused".to_owned());
        error.redact(&secrets(&["sk-up-1", "a"]));
        assert_eq!(error.message.as_deref(), Some("a bad key: ***"));
        assert_eq!(error.code.as_deref(), Some("***_refused"));
    }
}
