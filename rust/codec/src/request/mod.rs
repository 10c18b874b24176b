//! Request bodies: what a client sent becomes what a provider takes.
//!
//! 1. What is not changed keeps its bytes. The same input gives the same output, and a conversation that grows by
//!    a turn keeps the bytes of its earlier part, so that a vendor's prompt cache sees the same prefix.
//! 2. Within one protocol only the named keys are edited ([`relay`], [`rewrite`]); between two, a body is read into the neutral
//!    request and written anew, texts and schemas as the slices that they were.
//! 3. A field whose loss would change the meaning is refused with its path; a field that is a hint is dropped and
//!    reported. Which is which stands in one table per pair, as data ([`table`]).
//! 4. A body that two parsers could read differently (a key twice, what is not JSON) is refused.
//!
//! No URL, no header, no credential, no choice of a model may be added.

mod anthropic_messages;
mod bedrock_converse;
mod cohere_chat;
mod edit;
mod error;
mod flags;
mod google_gemini;
mod headrace;
mod ids;
mod inspect;
mod media;
mod neutral;
mod ollama_chat;
mod openai_chat;
mod openai_responses;
mod options;
mod out;
mod pairing;
mod reader;
mod scrub;
pub mod session;
pub mod table;

pub use edit::{Edit, Layout, Slices, relay, rewrite};
pub use error::RequestError;
pub use flags::{Flag, TargetFlags};
pub use ids::tool_name;
pub use inspect::{Facts, inspect};

use crate::event::Protocol;
use crate::json::Scanner;
use crate::loss::Loss;

/// What a body is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Protocol(Protocol),
    /// The library's own: `ModelRequest.to_json()`.
    Headrace,
}

impl Source {
    /// By name: a protocol's, or `headrace`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Source> {
        if name == "headrace" { Some(Source::Headrace) } else { Protocol::from_name(name).map(Source::Protocol) }
    }
}

/// How one body is to be translated.
#[derive(Clone, Copy, Debug)]
pub struct TranslateSpec<'a> {
    pub source: Source,
    pub target: Protocol,
    /// The upstream's own name of the model.
    pub model: &'a str,
    /// The provider row, which a wrapped continuation must have come from.
    pub provider: Option<&'a str>,
    /// On the target body, in order, after everything else.
    pub edits: &'a [Edit],
    pub target_flags: TargetFlags,
}

/// A provider's body, and what it does not carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    pub body: Vec<u8>,
    pub losses: Vec<Loss>,
}

/// What a writer has to know of its target.
#[derive(Clone, Copy)]
struct Target<'a> {
    /// The target itself.
    family: Protocol,
    model: &'a str,
    flags: TargetFlags,
}

/// Whether a body of this source passes to the target with its bytes ([`relay`]), or is written anew.
#[must_use]
pub fn passes(source: Source, target: Protocol, flags: TargetFlags) -> bool {
    source == Source::Protocol(target) && !(target == Protocol::OpenaiChat && flags.has(Flag::Anew))
}

/// Translates a body. Within one protocol it is relayed ([`relay`]), but for a dialect that wants it anew.
pub fn translate(body: &[u8], spec: &TranslateSpec<'_>) -> Result<Translation, RequestError> {
    let within = spec.source == Source::Protocol(spec.target);
    if passes(spec.source, spec.target, spec.target_flags) {
        let (body, losses) = relay(body, spec.target, None, Some(spec.model), spec.edits)?;
        return Ok(Translation { body: body.to_vec(), losses });
    }
    if (spec.source, spec.target) == (Source::Protocol(Protocol::AnthropicMessages), Protocol::BedrockInvoke) {
        return invoked(body, spec);
    }
    let none = |what: &str| RequestError::unsupported(String::new(), format!("nothing is translated {what}"));
    let column = table::column(spec.source, spec.target);
    if let Err(at) = std::str::from_utf8(body) {
        return Err(RequestError {
            code: "invalid_json",
            ..RequestError::invalid(None, format!("the body is not UTF-8 at byte {}", at.valid_up_to()))
        });
    }
    let prepared = match spec.source {
        Source::Protocol(Protocol::GoogleGemini) => google_gemini::prepared(body)?,
        _ => std::borrow::Cow::Borrowed(body),
    };
    let body: &[u8] = &prepared;
    let mut r = reader::Reader::new(spec.target, column, spec.target_flags, spec.provider);
    // What a client of the same protocol says besides is for this very vendor.
    r.own = within.then(Vec::new);
    let mut s = Scanner::new(body);
    let mut request = match spec.source {
        Source::Headrace => headrace::read(&mut r, &mut s)?,
        Source::Protocol(Protocol::OpenaiChat) => openai_chat::read(&mut r, &mut s)?,
        Source::Protocol(Protocol::OllamaChat) => ollama_chat::read(&mut r, &mut s)?,
        Source::Protocol(Protocol::OpenaiResponses) => openai_responses::read(&mut r, &mut s)?,
        Source::Protocol(Protocol::AnthropicMessages) => anthropic_messages::read(&mut r, &mut s)?,
        Source::Protocol(Protocol::GoogleGemini) => google_gemini::read(&mut r, &mut s)?,
        Source::Protocol(other) => return Err(none(&format!("from {}", other.name()))),
    };
    if !s.at_end() {
        return Err(edit::trailing());
    }
    options::settle(&mut r, &mut request)?;
    let mut edits = own_members(request.options.extra)?;
    for (key, value) in r.own.take().into_iter().flatten() {
        edits.push(Edit::new(&pointer(&key), Some(&value))?);
    }
    let target = Target { family: spec.target, model: spec.model, flags: column.of(spec.target_flags) };
    // What a protocol says in more words than another is little beside the texts.
    let mut out = Vec::with_capacity(body.len() + body.len() / 8 + 512);
    match spec.target {
        Protocol::OpenaiResponses => openai_responses::write(&request, &target, &mut out),
        Protocol::GoogleGemini => google_gemini::write(request, &target, &mut out),
        Protocol::AnthropicMessages | Protocol::BedrockInvoke => {
            anthropic_messages::write(request, &target, &mut out);
        }
        Protocol::BedrockConverse => bedrock_converse::write(request, &target, &mut out),
        Protocol::CohereChat => cohere_chat::write(request, &target, &mut out),
        Protocol::OllamaChat => ollama_chat::write(request, &target, &mut out),
        Protocol::OpenaiChat => openai_chat::write(request, &target, &mut out),
    }
    edits.extend_from_slice(spec.edits);
    if !edits.is_empty() {
        out = rewrite(&out, None, &edits)?.to_vec();
    }
    Ok(Translation { body: out, losses: r.into_losses() })
}

/// A Messages body for Anthropic's models behind Bedrock: the same bytes, without what stands in the URL there.
fn invoked(body: &[u8], spec: &TranslateSpec<'_>) -> Result<Translation, RequestError> {
    let mut edits = vec![
        Edit::new("/model", None)?,
        Edit::new("/stream", None)?,
        Edit::new("/anthropic_version", Some(anthropic_messages::BEDROCK_VERSION))?,
    ];
    edits.extend_from_slice(spec.edits);
    let (body, losses) = relay(body, Protocol::AnthropicMessages, None, None, &edits)?;
    Ok(Translation { body: body.to_vec(), losses })
}

/// The members that a `headrace` request has for the target's own body, as edits.
fn own_members(extra: Option<&[u8]>) -> Result<Vec<Edit>, RequestError> {
    let mut edits = Vec::new();
    let Some(raw) = extra else { return Ok(edits) };
    let mut s = Scanner::new(raw);
    let mut items = s.object()?;
    while let Some(key) = s.key(&mut items)? {
        edits.push(Edit::new(&pointer(&key.decode()), Some(s.skip()?))?);
    }
    Ok(edits)
}

/// The JSON pointer of a key at the top.
fn pointer(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}
