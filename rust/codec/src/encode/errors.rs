//! Failures in the words of a client's protocol: whole replies before the commit boundary, error events after it.
//!
//! 1. Status and name come from the table of kinds in `error.rs`.
//! 2. The client's own mistakes (`bad_request`, `context_length`, `content_filter`, `unsupported_feature`) keep the
//!    provider's message: only it says what was wrong. Everything else is written anew, since vendors put
//!    organisation ids and fragments of keys into such messages, and they are the gateway's and not the client's.
//! 3. A name of ours is `error.code` in `OpenAI`'s formats and starts the message in Messages.
//! 4. Wordings that real clients parse are kept to the letter: `prompt is too long: N tokens > M maximum`
//!    (Claude Code, where both numbers are known) and `try again in 1.5s` (Codex).
//!
//! No routing and no retry may be decided here.

use std::fmt::Write as _;

use crate::error::{ErrorKind, GatewayStatus};
use crate::event::{Protocol, ProviderError};
use crate::limits::MAX_TOLD_MESSAGE;
use crate::text::{Text, push_json_str};

/// A whole HTTP answer, but for the headers that every answer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// A failure as a client is told of it.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub kind: ErrorKind,
    status: u16,
    code: String,
    message: String,
    retry_after_s: Option<f64>,
}

/// The answer to a request that failed before anything of it had reached the client.
#[must_use]
pub fn error_reply(client: Protocol, error: &ProviderError<'_>) -> Reply {
    let told = Told::of(client, error);
    let mut reply = Reply { status: told.status, headers: vec![json()], body: told.body(client) };
    let waiting = told.retry_after_s.filter(|s| *s > 0.0);
    let busy = matches!(told.status, 429 | 503 | 529);
    if busy && let Some(seconds) = waiting {
        reply.headers.push(("retry-after", format!("{:.0}", seconds.ceil())));
    }
    // The SDKs repeat 429 and all of 5xx by themselves. They are told not to where the same request
    // cannot work soon: the gateway has tried whom it could.
    let repeated_by_sdks = told.status == 429 || told.status >= 500;
    let far = waiting.is_some_and(|s| s > FAR_S);
    if repeated_by_sdks && (!error.kind.retryable() || far) {
        reply.headers.push(("x-should-retry", "false".to_owned()));
    }
    reply
}

/// An answer of the gateway's own.
#[must_use]
pub fn refusal(client: Protocol, status: u16, code: &str, message: &str, param: Option<&str>) -> Reply {
    let mut body = Vec::with_capacity(128 + message.len());
    if client == Protocol::AnthropicMessages {
        messages_error(messages_type(status), code, message, &mut body);
    } else if client == Protocol::GoogleGemini {
        google_error(status, code, message, None, &mut body);
    } else if client == Protocol::OllamaChat {
        ollama_error(message, &mut body);
    } else {
        openai_error(openai_type(status, code), code, message, param, &mut body);
    }
    Reply { status, headers: vec![json()], body }
}

fn json() -> (&'static str, String) {
    ("content-type", "application/json".to_owned())
}

impl Told {
    pub fn of(client: Protocol, error: &ProviderError<'_>) -> Told {
        let row = error.kind.row();
        let status = match row.gateway {
            GatewayStatus::Fixed(status) => status,
            GatewayStatus::Overloaded if client == Protocol::AnthropicMessages => 529,
            GatewayStatus::Overloaded => 503,
            GatewayStatus::ClientMistake => {
                error.status.filter(|status| matches!(status, 400 | 404 | 413 | 422)).unwrap_or(400)
            }
        };
        let code = match error.code {
            Some(code) if error.kind == ErrorKind::BadRequest => {
                let code = code.decode();
                if is_name(&code) { code.into_owned() } else { row.gateway_code.to_owned() }
            }
            _ => row.gateway_code.to_owned(),
        };
        Told { kind: error.kind, status, code, message: message(client, error), retry_after_s: error.retry_after_s }
    }

    /// A stream that ended without a terminal event.
    pub fn cut() -> Told {
        Told::of_kind(ErrorKind::StreamInterrupted)
    }

    /// A failure that the encoder itself found.
    pub fn of_kind(kind: ErrorKind) -> Told {
        Told {
            kind,
            status: 502,
            code: kind.row().gateway_code.to_owned(),
            message: words(kind).to_owned(),
            retry_after_s: None,
        }
    }

    /// The error body of the client's protocol; also `data` of its error event, in Chat and Messages.
    pub fn body(&self, client: Protocol) -> Vec<u8> {
        let mut body = Vec::with_capacity(128 + self.message.len());
        if client == Protocol::AnthropicMessages {
            let kind = match self.kind {
                ErrorKind::Quota => "billing_error",
                _ => messages_type(self.status),
            };
            // The provider's own message, and the wordings that clients parse, stand alone.
            let name = if self.status < 500 && !matches!(self.kind, ErrorKind::RateLimit | ErrorKind::Quota) {
                ""
            } else {
                self.code.as_str()
            };
            messages_error(kind, name, &self.message, &mut body);
        } else if client == Protocol::GoogleGemini {
            google_error(self.status, &self.code, &self.message, self.retry_after_s, &mut body);
        } else if client == Protocol::OllamaChat {
            ollama_error(&self.message, &mut body);
        } else {
            openai_error(openai_type(self.status, &self.code), &self.code, &self.message, None, &mut body);
        }
        body
    }

    /// `error` of a failed Responses object. Its codes are a closed list, with a few more that Codex knows:
    /// `context_length_exceeded`, `insufficient_quota`, `server_is_overloaded` and `invalid_prompt` end its turn,
    /// `rate_limit_exceeded` makes it wait, and any other makes it try again at once.
    pub fn response_error(&self, out: &mut Vec<u8>) {
        let code = match self.kind {
            ErrorKind::RateLimit | ErrorKind::Quota | ErrorKind::Overloaded | ErrorKind::ContextLength => {
                self.kind.row().gateway_code
            }
            ErrorKind::BadRequest | ErrorKind::UnsupportedFeature => "invalid_prompt",
            ErrorKind::ContentFilter => "content_filter",
            _ => "server_error",
        };
        out.extend_from_slice(b"{\"code\":");
        push_json_str(code, out);
        out.extend_from_slice(b",\"message\":");
        push_json_str(&self.message, out);
        out.push(b'}');
    }
}

/// Beyond this the SDKs should not sleep on a request: openai's own bound for a hint.
const FAR_S: f64 = 120.0;

fn message(client: Protocol, error: &ProviderError<'_>) -> String {
    let own = error.message.map(Text::decode).filter(|text| !text.trim().is_empty());
    let mut out = match (error.kind, own) {
        (ErrorKind::ContextLength, own) if client == Protocol::AnthropicMessages => {
            let own = own.unwrap_or_default();
            match prompt_and_limit(&own) {
                Some((prompt, limit)) => format!("prompt is too long: {prompt} tokens > {limit} maximum"),
                None if own.is_empty() => "prompt is too long".to_owned(),
                None => format!("prompt is too long: {own}"),
            }
        }
        (
            ErrorKind::BadRequest | ErrorKind::ContextLength | ErrorKind::ContentFilter | ErrorKind::UnsupportedFeature,
            Some(own),
        ) => own.into_owned(),
        (kind, _) => words(kind).to_owned(),
    };
    if matches!(error.kind, ErrorKind::RateLimit | ErrorKind::Quota)
        && let Some(seconds) = error.retry_after_s.filter(|s| *s > 0.0)
    {
        let text = format!("{seconds:.3}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        // Writing to a String cannot fail.
        let _ = write!(out, " Please try again in {text}s.");
    }
    if out.len() > MAX_TOLD_MESSAGE {
        let end = (0..=MAX_TOLD_MESSAGE).rev().find(|&i| out.is_char_boundary(i)).unwrap_or(0);
        out.truncate(end);
    }
    out
}

fn words(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Auth => "The provider refused the gateway's credentials.",
        ErrorKind::RateLimit => "The provider's rate limit was reached.",
        ErrorKind::Quota => "The provider's quota is used up.",
        ErrorKind::Timeout => "The provider did not answer in time.",
        ErrorKind::Overloaded => "The provider is overloaded.",
        ErrorKind::BadRequest => "The provider refused the request.",
        ErrorKind::ContextLength => "The prompt is longer than the model's context.",
        ErrorKind::ContentFilter => "The provider's content filter refused the request.",
        ErrorKind::StreamInterrupted => "The provider's response broke off before its end.",
        ErrorKind::UnsupportedFeature => "The provider does not support what was asked.",
        ErrorKind::MalformedToolCall => "The model wrote a malformed tool call.",
        ErrorKind::Transport => "The connection to the provider failed.",
        ErrorKind::Aborted => "The request was cancelled.",
        ErrorKind::Unknown => "The provider failed.",
    }
}

/// The prompt's length and the limit it exceeds, where the message names both beyond doubt: exactly two different
/// numbers that can be token counts. `max_tokens` added to the prompt, and messages with more numbers, are doubt.
fn prompt_and_limit(message: &str) -> Option<(u64, u64)> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut rest = message;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let part_of_word = rest[..start].ends_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
        let digits: String = rest[start..]
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == ',')
            .filter(char::is_ascii_digit)
            .collect();
        let end = start + rest[start..].find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len() - start);
        // A model's name (`gpt-4.1`) and a list's number are no counts.
        if !part_of_word
            && let Ok(number) = digits.parse()
            && number >= 100
            && !numbers.contains(&number)
        {
            numbers.push(number);
        }
        rest = &rest[end..];
    }
    match numbers[..] {
        [a, b] => Some((a.max(b), a.min(b))),
        _ => None,
    }
}

/// A code that may stand in `error.code`: a short identifier, not a sentence or a number.
fn is_name(code: &str) -> bool {
    code.len() <= 64
        && code.starts_with(|c: char| c.is_ascii_alphabetic())
        && code.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

fn openai_type(status: u16, code: &str) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 if code == "insufficient_quota" => "insufficient_quota",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

fn messages_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn ollama_error(message: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":");
    push_json_str(message, out);
    out.push(b'}');
}

fn openai_error(kind: &str, code: &str, message: &str, param: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":{\"message\":");
    push_json_str(message, out);
    out.extend_from_slice(b",\"type\":");
    push_json_str(kind, out);
    out.extend_from_slice(b",\"param\":");
    match param {
        Some(param) => push_json_str(param, out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"code\":");
    if code.is_empty() {
        out.extend_from_slice(b"null");
    } else {
        push_json_str(code, out);
    }
    out.extend_from_slice(b"}}");
}

/// Google's statuses. Its SDK repeats 408, 429, 500, 502, 503 and 504 by itself.
fn google_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

/// A name of ours is the reason of an `ErrorInfo`, a hint a `RetryInfo`.
fn google_error(status: u16, code: &str, message: &str, retry_after_s: Option<f64>, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{{\"error\":{{\"code\":{status},\"message\":").as_bytes());
    push_json_str(message, out);
    out.extend_from_slice(b",\"status\":");
    push_json_str(google_status(status), out);
    let mut details = Vec::new();
    if !code.is_empty() {
        details.extend_from_slice(b"{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":");
        push_json_str(code, &mut details);
        details.extend_from_slice(b",\"domain\":\"headrace\"}");
    }
    if let Some(seconds) = retry_after_s.filter(|s| *s > 0.0) {
        if !details.is_empty() {
            details.push(b',');
        }
        details.extend_from_slice(b"{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":");
        let text = format!("{seconds:.3}");
        push_json_str(&format!("{}s", text.trim_end_matches('0').trim_end_matches('.')), &mut details);
        details.push(b'}');
    }
    if !details.is_empty() {
        out.extend_from_slice(b",\"details\":[");
        out.append(&mut details);
        out.push(b']');
    }
    out.extend_from_slice(b"}}");
}

fn messages_error(kind: &str, name: &str, message: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"error\",\"error\":{\"type\":");
    push_json_str(kind, out);
    out.extend_from_slice(b",\"message\":");
    if name.is_empty() {
        push_json_str(message, out);
    } else {
        push_json_str(&format!("{name}: {message}"), out);
    }
    out.extend_from_slice(b"}}");
}
