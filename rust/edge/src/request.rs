//! A client's request: which of the gateway's doors it came to, whether it may enter, and what policy may see of it.
//!
//! 1. What is wrong with a head is said before the body is read.
//! 2. A request's body is given away once its answer has committed: a stream of an hour holds no prompt.
//! 3. Headers hold the client's secrets: no `Debug` prints them.
//!
//! No provider's path and no choice of a model may be added here.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use headrace_codec::Protocol;
use headrace_codec::request::{Edit, Facts, TargetFlags};
use headrace_http1::{BodyKind, RequestHead, Version};

use crate::gemini;

/// What a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A model's answer, streamed or whole.
    Generate,
    CountTokens,
    Models,
    /// One of them, by its name.
    Model,
    /// What a provider can do beside its models. Their bodies are the policy's to read, whole.
    Embeddings,
    Rerank,
    Images,
    /// JSON or a form: the one body here that may be no JSON.
    ImageEdits,
    WebSearch,
    WebFetch,
    /// The gateway's figures, for whoever watches it.
    Metrics,
    /// Whether a client may hold a conversation over a WebSocket. The policy answers with an empty answer.
    Session,
}

impl Operation {
    /// As the policy knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Generate => "generate",
            Operation::CountTokens => "count_tokens",
            Operation::Models => "models",
            Operation::Model => "model",
            Operation::Embeddings => "embeddings",
            Operation::Rerank => "rerank",
            Operation::Images => "images",
            Operation::ImageEdits => "image_edits",
            Operation::WebSearch => "web_search",
            Operation::WebFetch => "web_fetch",
            Operation::Metrics => "metrics",
            Operation::Session => "session",
        }
    }

    /// Whether it is asked with GET, so that there is no body.
    pub(crate) fn has_no_body(self) -> bool {
        matches!(self, Operation::Models | Operation::Model | Operation::Metrics)
    }

    /// Whether the body is a model's request, which the codec reads.
    pub(crate) fn is_model_request(self) -> bool {
        matches!(self, Operation::Generate | Operation::CountTokens)
    }
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the policy. Models have no body.
    Policy(Operation, Protocol),
    /// Lives for as long as the process.
    Health,
    Ready,
    /// A probe of a coding agent, which takes any answer.
    Hello,
    /// A conversation over a WebSocket (Responses).
    WebSocket,
    /// A browser asks whether a page of a listed origin may ask.
    Preflight,
}

/// A request that goes no further. Told in the client's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub status: u16,
    pub code: &'static str,
    pub message: String,
    pub param: Option<&'static str>,
    /// For 405.
    pub allow: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, code, message: message.into(), param: None, allow: None }
    }
}

/// Who may reach a gateway without keys: a web page in the user's browser can reach loopback, too.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Only `localhost`, loopback literals and `hosts` may stand in `Host`.
    pub loopback_only: bool,
    pub hosts: Vec<String>,
    /// An `Origin` that is not listed is refused with `loopback_only`. A listed one is told that it may read.
    pub origins: Vec<String>,
}

impl Guard {
    fn check(&self, head: &RequestHead<'_>) -> Result<(), Problem> {
        if !self.loopback_only {
            return Ok(());
        }
        let name = host_name(head.host);
        if !is_loopback(name) && !self.hosts.iter().any(|h| h.eq_ignore_ascii_case(name)) {
            return Err(Problem::new(
                403,
                "host_not_allowed",
                "the Host header names another machine; a gateway without keys answers to localhost only",
            ));
        }
        if head.headers.first("origin").is_some() && self.listed_origin(head).is_none() {
            return Err(Problem::new(403, "origin_not_allowed", "requests of web pages (Origin) are not allowed here"));
        }
        Ok(())
    }

    /// The request's `Origin`, if it is one that may ask.
    pub(crate) fn listed_origin(&self, head: &RequestHead<'_>) -> Option<&str> {
        let origin = head.headers.first("origin")?;
        self.origins.iter().map(String::as_str).find(|o| o.as_bytes().eq_ignore_ascii_case(origin))
    }
}

/// `host` without its port.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or(rest, |(name, _)| name);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

fn is_loopback(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The format in which a client expects to be refused: by its path, else by its headers.
pub(crate) fn format_of(head: &RequestHead<'_>) -> Protocol {
    let named = || {
        let has = |name| head.headers.first(name).is_some();
        let google = has("x-goog-api-key") || has("x-goog-api-client");
        has("anthropic-version").then_some(Protocol::AnthropicMessages).or(google.then_some(Protocol::GoogleGemini))
    };
    format_of_path(head.path).or_else(named).unwrap_or(Protocol::OpenaiChat)
}

/// The same for a head that is not whole, or is none: by its first line, as far as it goes.
pub(crate) fn format_of_start(bytes: &[u8]) -> Protocol {
    let line = bytes.split(|b| matches!(b, b'\r' | b'\n')).next().unwrap_or_default();
    let path = line.split(|b| *b == b' ').nth(1).and_then(|target| target.split(|b| *b == b'?').next());
    path.and_then(|path| str::from_utf8(path).ok()).and_then(format_of_path).unwrap_or(Protocol::OpenaiChat)
}

fn format_of_path(path: &str) -> Option<Protocol> {
    match path {
        "/v1/chat/completions" => Some(Protocol::OpenaiChat),
        "/v1/responses" => Some(Protocol::OpenaiResponses),
        path if path.starts_with("/v1/messages") => Some(Protocol::AnthropicMessages),
        path if path.starts_with("/v1beta") || gemini::call(path).is_some() => Some(Protocol::GoogleGemini),
        "/api/chat" | "/api/tags" => Some(Protocol::OllamaChat),
        _ => None,
    }
}

/// Where the request goes, or why it goes nowhere.
pub(crate) fn route(head: &RequestHead<'_>, guard: &Guard) -> Result<Route, Problem> {
    use Operation::{CountTokens, Generate, Models};
    let other = |operation| (Route::Policy(operation, Protocol::OpenaiChat), POST);
    let (route, allow) = match head.path {
        "/v1/chat/completions" => (Route::Policy(Generate, Protocol::OpenaiChat), POST),
        "/v1/responses" => (Route::Policy(Generate, Protocol::OpenaiResponses), POST),
        "/v1/messages" => (Route::Policy(Generate, Protocol::AnthropicMessages), POST),
        "/v1/messages/count_tokens" => (Route::Policy(CountTokens, Protocol::AnthropicMessages), POST),
        "/v1/models" | "/api/tags" => (Route::Policy(Models, format_of(head)), GET),
        "/v1beta/models" => (Route::Policy(Models, Protocol::GoogleGemini), GET),
        "/api/chat" => (Route::Policy(Generate, Protocol::OllamaChat), POST),
        "/v1/embeddings" => other(Operation::Embeddings),
        "/v1/rerank" => other(Operation::Rerank),
        "/v1/images/generations" => other(Operation::Images),
        "/v1/images/edits" => other(Operation::ImageEdits),
        "/v1/web_search" => other(Operation::WebSearch),
        "/v1/web_fetch" => other(Operation::WebFetch),
        "/metrics" => (Route::Policy(Operation::Metrics, Protocol::OpenaiChat), GET),
        "/healthz" => (Route::Health, GET),
        "/readyz" => (Route::Ready, GET),
        "/api/hello" => (Route::Hello, GET),
        path => match gemini::call(path) {
            Some(call) => (Route::Policy(call.operation(), Protocol::GoogleGemini), POST),
            // Behind the colon is what Gemini's clients ask of a model, and this is nothing that is known.
            None if named_model(path).is_none_or(|name| head.method == "POST" && name.contains(':')) => {
                return Err(Problem::new(404, "unknown_path", "no such path on this gateway"));
            }
            None => (Route::Policy(Operation::Model, format_of(head)), GET),
        },
    };
    guard.check(head)?;
    if head.method == "OPTIONS" && guard.listed_origin(head).is_some() {
        return Ok(Route::Preflight);
    }
    if head.method == "GET" && head.path == "/v1/responses" && head.headers.has_token("upgrade", "websocket") {
        return switch(head);
    }
    if !allow.split(", ").any(|m| m == head.method) {
        let message = format!("this path takes {allow}");
        return Err(Problem { allow: Some(allow), ..Problem::new(405, "method_not_allowed", message) });
    }
    let form = matches!(route, Route::Policy(Operation::ImageEdits, _)) && is_form(head.headers.text("content-type"));
    if allow == POST && !form && !is_json(head.headers.text("content-type")) {
        return Err(Problem::new(415, "unsupported_media_type", "the content-type must be application/json"));
    }
    if allow == POST && head.headers.first("content-encoding").is_some_and(|v| !v.eq_ignore_ascii_case(b"identity")) {
        return Err(Problem::new(415, "unsupported_content_encoding", "the body must not be compressed"));
    }
    Ok(route)
}

/// The name in a path that asks for one model. Names hold slashes, which some clients escape.
pub(crate) fn named_model(path: &str) -> Option<String> {
    let name = path.strip_prefix("/v1/models/").or_else(|| path.strip_prefix("/v1beta/models/"))?;
    String::from_utf8(gemini::decoded(name)).ok().filter(|name| !name.is_empty())
}

/// Judges a request to switch to a WebSocket (RFC 6455, section 4.2.1).
fn switch(head: &RequestHead<'_>) -> Result<Route, Problem> {
    let bad = |message: &str| Err(Problem::new(400, "malformed_upgrade", message));
    if head.headers.text("sec-websocket-version") != Some("13") {
        // A client that can then asks over HTTP.
        return Err(Problem::new(426, "websocket_version", "sec-websocket-version: 13 is what this gateway speaks"));
    }
    if head.headers.text("sec-websocket-key").is_none_or(|key| key.len() != 24) {
        return bad("sec-websocket-key must be 16 bytes in base64");
    }
    if head.version != Version::Http11
        || head.body != BodyKind::None
        || !head.headers.has_token("connection", "upgrade")
    {
        return bad("an upgrade is an HTTP/1.1 request without a body, with connection: upgrade");
    }
    Ok(Route::WebSocket)
}

fn is_json(content_type: Option<&str>) -> bool {
    is_media(content_type, "application/json")
}

/// A page can send one across origins; the check of `Origin` comes before.
pub(crate) fn is_form(content_type: Option<&str>) -> bool {
    is_media(content_type, "multipart/form-data")
}

fn is_media(content_type: Option<&str>, name: &str) -> bool {
    content_type.and_then(|v| v.split(';').next()).is_some_and(|media| media.trim().eq_ignore_ascii_case(name))
}

/// How a provider's body is made of the client's: the same bytes with named keys edited where the
/// protocol is the client's own, translated where it is not.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    pub protocol: Protocol,
    pub model: String,
    /// The provider row's id, for continuations that only it may get back.
    pub provider: Option<String>,
    pub edits: Vec<Edit>,
    /// What the target needs besides its protocol.
    pub flags: TargetFlags,
}

/// What a client sent. Shared with the policy.
pub struct ClientRequest {
    /// Ours; told to the client.
    pub id: String,
    pub method: String,
    /// Without the query.
    pub path: String,
    pub query: Option<String>,
    pub operation: Operation,
    /// The client's protocol, or for models the format it expects.
    pub protocol: Protocol,
    pub peer: SocketAddr,
    /// Names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    pub facts: Facts,
    pub body_size: usize,
    body: Mutex<Option<Arc<Vec<u8>>>>,
}

impl fmt::Debug for ClientRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientRequest({} {} {}, {} bytes)", self.id, self.method, self.path, self.body_size)
    }
}

impl ClientRequest {
    pub(crate) fn new(id: String, head: Head, peer: SocketAddr, facts: Facts, body: Vec<u8>) -> ClientRequest {
        let Head { method, path, query, headers, operation, protocol } = head;
        ClientRequest {
            id,
            method,
            path,
            query,
            operation,
            protocol,
            peer,
            headers,
            facts,
            body_size: body.len(),
            body: Mutex::new(Some(Arc::new(body))),
        }
    }

    /// The first value of a header. `name` in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_slice())
    }

    /// The client's own name of its conversation, for affinity: the first session header that it sent.
    #[must_use]
    pub fn session(&self) -> Option<&[u8]> {
        SESSION_HEADERS.iter().find_map(|name| self.header(name)).filter(|value| !value.is_empty())
    }

    /// The body as it came, until the answer has committed.
    #[must_use]
    pub fn body(&self) -> Option<Arc<Vec<u8>>> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gemini: the client asked for a stream that is one JSON array.
    pub(crate) fn wants_array(&self) -> bool {
        self.protocol == Protocol::GoogleGemini && self.facts.stream && !gemini::asks_events(self.query.as_deref())
    }

    pub(crate) fn release_body(&self) {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A head that goes to the policy, kept while its body is read.
#[derive(Clone)]
pub(crate) struct Head {
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub operation: Operation,
    pub protocol: Protocol,
}

impl Head {
    pub(crate) fn new(head: &RequestHead<'_>, operation: Operation, protocol: Protocol) -> Head {
        let mut headers: Vec<_> = head.headers.iter().map(|(n, v)| (n.to_ascii_lowercase(), v.to_vec())).collect();
        let mut query = head.query.map(str::to_owned);
        if protocol == Protocol::GoogleGemini {
            // A key in a query is a secret where no secret belongs: from here on it stands among the others.
            let (rest, key) = gemini::without_key(query.as_deref());
            headers.extend(key.map(|key| ("x-goog-api-key".to_owned(), key)));
            query = rest;
        }
        Head { method: head.method.to_owned(), path: head.path.to_owned(), query, headers, operation, protocol }
    }
}

/// In the order of trust: a coding agent's session, its thread, and what some clients send for each request of one.
const SESSION_HEADERS: [&str; 5] =
    ["x-claude-code-session-id", "session-id", "session_id", "thread-id", "x-session-id"];

const POST: &str = "POST";
const GET: &str = "GET, HEAD";

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> RequestHead<'_> {
        RequestHead::parse(text.as_bytes()).unwrap()
    }

    fn status(text: &str, guard: &Guard) -> u16 {
        route(&head(text), guard).map_or_else(|p| p.status, |_| 200)
    }

    #[test]
    fn paths_methods_and_content_types() {
        let open = Guard::default();
        let json = "content-type: application/json; charset=utf-8\r\n\r\n";
        for (start, tail, expected) in [
            ("POST /v1/messages?beta=true", json, 200),
            ("POST /v1/messages/count_tokens", json, 200),
            ("POST /v1/responses", json, 200),
            ("POST /v1/chat/completions", "content-type: text/plain\r\n\r\n", 415),
            ("POST /v1/chat/completions", "\r\n", 415),
            ("POST /v1/chat/completions", "content-encoding: gzip\r\ncontent-type: application/json\r\n\r\n", 415),
            ("GET /v1/chat/completions", "\r\n", 405),
            ("POST /v1/models", json, 405),
            ("HEAD /api/hello", "\r\n", 200),
            ("GET /v1/models?limit=1000", "\r\n", 200),
            ("POST /v1/embeddings", json, 200),
            ("POST /v1/rerank", json, 200),
            ("POST /v1/web_search", json, 200),
            ("GET /v1/web_fetch", "\r\n", 405),
            ("POST /v1/images/edits", json, 200),
            ("POST /v1/images/edits", "content-type: Multipart/form-data; boundary=x\r\n\r\n", 200),
            ("POST /v1/images/generations", "content-type: multipart/form-data; boundary=x\r\n\r\n", 415),
            ("POST /v1beta/models/m:generateContent", json, 200),
            ("POST /v1/models/a/m:streamGenerateContent?alt=sse", json, 200),
            ("POST /v1beta/models/m:countTokens", json, 200),
            ("GET /v1beta/models/m:generateContent", "\r\n", 405),
            ("POST /v1beta/models/m:embedContent", json, 404),
            ("GET /v1beta/models", "\r\n", 200),
            ("GET /v1beta/models/a/m:8b", "\r\n", 200),
            ("HEAD /v1/models/acme%2Fm?x=1", "\r\n", 200),
            ("DELETE /v1/models/m", "\r\n", 405),
            ("GET /v1/models/", "\r\n", 404),
            ("GET /v1/models/%ff", "\r\n", 404),
            ("GET /v1/nothing", "\r\n", 404),
            ("GET /V1/models", "\r\n", 404),
        ] {
            assert_eq!(status(&format!("{start} HTTP/1.1\r\nhost: a\r\n{tail}"), &open), expected, "{start}");
        }
        let upgrade =
            "GET /v1/responses HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n";
        let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        for (rest, expected) in [
            (format!("{key}sec-websocket-version: 13\r\n"), 200),
            (format!("{key}sec-websocket-version: 8\r\n"), 426),
            (key.to_owned(), 426),
            ("sec-websocket-version: 13\r\n".to_owned(), 400),
            ("sec-websocket-version: 13\r\nsec-websocket-key: short\r\n".to_owned(), 400),
            (format!("{key}sec-websocket-version: 13\r\ncontent-length: 2\r\n"), 400),
        ] {
            assert_eq!(status(&format!("{upgrade}{rest}\r\n"), &open), expected, "{rest}");
        }
        let problem = route(&head("PUT /v1/responses HTTP/1.1\r\nhost: a\r\n\r\n"), &open).unwrap_err();
        assert_eq!(problem.allow, Some("POST"));
    }

    #[test]
    fn a_path_names_one_model() {
        for (path, name) in [
            ("/v1/models/acme/m", Some("acme/m")),
            ("/v1/models/acme%2Fm%3A8b", Some("acme/m:8b")),
            ("/v1beta/models/m%", Some("m%")),
            ("/v1/models/", None),
            ("/v1/models", None),
            ("/v2/models/m", None),
        ] {
            assert_eq!(named_model(path).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn without_keys_only_loopback_names_and_no_foreign_page() {
        let guard =
            Guard { loopback_only: true, hosts: vec!["box.lan".into()], origins: vec!["http://localhost:3000".into()] };
        for (host, expected) in [
            ("localhost", 200),
            ("LOCALHOST:8080", 200),
            ("127.0.0.1:1", 200),
            ("127.9.9.9", 200),
            ("[::1]:8080", 200),
            ("box.lan:80", 200),
            ("evil.example", 403),
            ("127.0.0.1.evil.example", 403),
            ("localhost.evil.example:8080", 403),
            ("192.168.0.1", 403),
            ("[::ffff:10.0.0.1]", 403),
        ] {
            assert_eq!(status(&format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n"), &guard), expected, "{host}");
        }
        let text = "OPTIONS /v1/messages HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost:3000\r\n\r\n";
        assert_eq!(route(&head(text), &guard).unwrap(), Route::Preflight);
        assert_eq!(status(&text.replace("3000", "3001"), &guard), 403);
        assert_eq!(status(&text.replace("origin", "x"), &guard), 405);
        for (origin, expected) in [("http://localhost:3000", 200), ("null", 403), ("https://evil.example", 403)] {
            let text = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\norigin: {origin}\r\n\r\n");
            assert_eq!(status(&text, &guard), expected, "{origin}");
        }
    }

    #[test]
    fn refusals_come_in_the_format_of_the_path_or_of_its_headers() {
        assert_eq!(format_of(&head("GET /v1/responses HTTP/1.1\r\nhost: a\r\n\r\n")), Protocol::OpenaiResponses);
        assert_eq!(format_of(&head("GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n")), Protocol::OpenaiChat);
        let text = "GET /v1/models HTTP/1.1\r\nhost: a\r\nanthropic-version: 2023-06-01\r\n\r\n";
        assert_eq!(format_of(&head(text)), Protocol::AnthropicMessages);
        for (start, format) in [
            ("POST /v1/messages?beta=true HTTP/1.1\r\nx: y", Protocol::AnthropicMessages),
            ("POST /v1/messages", Protocol::AnthropicMessages),
            ("POST /v1/responses HTTP/1.1\n", Protocol::OpenaiResponses),
            ("POST /v1/models ", Protocol::OpenaiChat),
            ("POST", Protocol::OpenaiChat),
            ("", Protocol::OpenaiChat),
        ] {
            assert_eq!(format_of_start(start.as_bytes()), format, "{start}");
        }
    }
}
