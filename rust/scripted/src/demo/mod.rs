//! The demo provider: a model that is a script. No key, three protocols, the same answers every time.
//!
//! | model | what it does |
//! |---|---|
//! | `text` | some words, at a reader's pace |
//! | `tools` | a sentence and one call of the first tool that was offered; words once a result is there |
//! | `reasoning` | reasoning (with its continuation, where the protocol has one), then words |
//! | `slow` | words, four a second |
//! | `error-STATUS` | that HTTP status with the protocol's error body |
//! | `cut` | half an answer, then the connection ends |
//!
//! Ids come from a counter. Streams and whole bodies are written by the same turn, so they say the same.
//!
//! Never add: a model that needs the network, another wire than its protocol's real one.

mod chat;
mod messages;
mod responses;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use headrace_codec::event::Protocol;
use headrace_codec::request::inspect;
use headrace_codec::text::push_json_str;

use crate::Upstream;
use crate::facts::Seen;
use crate::script::{Framing, Play, Reply, ReplyBuilder, Script};

/// The models that the demo lists. `error-STATUS` stands for every status from 400 to 599.
pub const MODELS: [&str; 6] = ["text", "tools", "reasoning", "slow", "error-429", "cut"];

const WORDS: &str = "This answer comes from the demo provider: no key, no model, only a script. It travels as \
                     every stream does here, word by word, over a real socket, and it ends where it should.";
const THOUGHTS: &str = "A question was asked. A script cannot think, but it can show where thinking would go.";
const BEFORE_CALL: &str = "Let me look that up.";
const ARGUMENTS: [&str; 4] = ["{\"ci", "ty\":\"", "Lisbon", "\"}"];

/// Start the demo on a free loopback port.
pub fn start() -> io::Result<Upstream> {
    Upstream::start(script())
}

/// The demo's routes, for an upstream of one's own.
#[must_use]
pub fn script() -> Script {
    let counter = std::sync::Arc::new(AtomicU64::new(1));
    let mut script = Script::new().record(0).handler("/v1/models", models);
    for protocol in [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::AnthropicMessages] {
        let counter = counter.clone();
        let answer = move |seen: &Seen| answer(seen, protocol, counter.fetch_add(1, Relaxed));
        script = script.handler(path(protocol), answer);
    }
    script.handler("/v1/messages/count_tokens", count_tokens)
}

fn path(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::OpenaiResponses => "/v1/responses",
        Protocol::AnthropicMessages => "/v1/messages",
        _ => "/v1/chat/completions",
    }
}

/// What one answer says, before any protocol.
struct Turn {
    number: u64,
    created: u64,
    model: String,
    include_usage: bool,
    thoughts: Option<&'static str>,
    words: &'static str,
    /// The tool that is called.
    call: Option<String>,
    input_tokens: u64,
}

impl Turn {
    fn output_tokens(&self) -> u64 {
        let call = if self.call.is_some() { ARGUMENTS.len() as u64 } else { 0 };
        self.reasoning_tokens() + pieces(self.words).count() as u64 + call
    }

    fn reasoning_tokens(&self) -> u64 {
        self.thoughts.map_or(0, |thoughts| pieces(thoughts).count() as u64)
    }

    fn arguments() -> String {
        ARGUMENTS.concat()
    }
}

/// A text in the pieces in which it is streamed: words, each with the blank before it.
fn pieces(text: &'static str) -> impl Iterator<Item = &'static str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().skip(1).find(|&(_, c)| c == ' ').map_or(rest.len(), |(i, _)| i);
        let piece;
        (piece, rest) = rest.split_at(end);
        (!piece.is_empty()).then_some(piece)
    })
}

fn answer(seen: &Seen, protocol: Protocol, number: u64) -> Reply {
    if seen.method != "POST" {
        return error(protocol, 405, number, "only POST is answered here");
    }
    let Ok(facts) = inspect(&seen.body, protocol) else {
        return error(protocol, 400, number, "the body is not a request of this protocol");
    };
    let Some(model) = facts.model else { return error(protocol, 400, number, "you must provide a model parameter") };
    let short = model.strip_prefix("demo/").unwrap_or(&model);
    if let Some(status) = short.strip_prefix("error-").and_then(|s| s.parse().ok()).filter(|s| (400..=599).contains(s))
    {
        return error(protocol, status, number, "the demo was asked for this error");
    }
    if !MODELS.contains(&short) {
        return error(protocol, 404, number, "the model does not exist");
    }
    let answered = short == "tools" && has_tool_result(&seen.body);
    let call = (short == "tools" && !answered)
        .then(|| facts.tool_names.first().cloned().unwrap_or_else(|| "get_weather".to_owned()));
    let turn = Turn {
        number,
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        include_usage: facts.include_usage,
        thoughts: (short == "reasoning").then_some(THOUGHTS),
        words: if call.is_some() { BEFORE_CALL } else { WORDS },
        call,
        input_tokens: seen.body.len() as u64 / 4,
        model: model.clone(),
    };
    let pace = Duration::from_millis(if short == "slow" { 250 } else { 10 });
    let cut = short == "cut";
    if facts.stream { stream(protocol, &turn, pace, cut) } else { whole(protocol, &turn, cut) }
}

fn stream(protocol: Protocol, turn: &Turn, pace: Duration, cut: bool) -> Reply {
    let mut events = match protocol {
        Protocol::OpenaiResponses => responses::stream(turn),
        Protocol::AnthropicMessages => messages::stream(turn),
        _ => chat::stream(turn),
    };
    if cut {
        events.truncate(events.len() / 2);
    }
    let mut reply = with_ids(Reply::stream(), protocol, turn.number).header("cache-control", "no-cache");
    let last = events.len().saturating_sub(1);
    for (i, event) in events.into_iter().enumerate() {
        reply = reply.data(event);
        if i < last {
            reply = reply.pause(pace);
        }
    }
    if cut { reply.play(Play::Cut).end() } else { reply.end() }
}

fn whole(protocol: Protocol, turn: &Turn, cut: bool) -> Reply {
    let body = match protocol {
        Protocol::OpenaiResponses => responses::whole(turn),
        Protocol::AnthropicMessages => messages::whole(turn),
        _ => chat::whole(turn),
    };
    if cut {
        let half = body.as_bytes()[..body.len() / 2].to_vec();
        let reply = Reply::json(200, half).framing(Framing::Lie(body.len() as u64)).play(Play::Cut);
        return with_ids(reply, protocol, turn.number).end();
    }
    with_ids(Reply::json(200, body), protocol, turn.number).end()
}

fn error(protocol: Protocol, status: u16, number: u64, message: &str) -> Reply {
    let body = match protocol {
        Protocol::AnthropicMessages => messages::error(status, number, message),
        _ => chat::error(status, message),
    };
    let reply = with_ids(Reply::json(status, body), protocol, number);
    if matches!(status, 429 | 503 | 529) { reply.header("retry-after", "1").end() } else { reply.end() }
}

fn with_ids(reply: ReplyBuilder, protocol: Protocol, number: u64) -> ReplyBuilder {
    let name = if protocol == Protocol::AnthropicMessages { "request-id" } else { "x-request-id" };
    reply.header(name, &format!("req_demo_{number:06}"))
}

/// The same path has two shapes; the header tells which client asks.
fn models(seen: &Seen) -> Reply {
    let mut list = String::new();
    let anthropic = seen.header("anthropic-version").is_some();
    for (i, model) in MODELS.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let (id, name) = (Json(model), Json(&format!("Demo {model}")).to_string());
        let _ = if anthropic {
            write!(
                list,
                "{comma}{{\"type\":\"model\",\"id\":{id},\"display_name\":{name},\"created_at\":\"2026-01-01T00:00:00Z\"}}"
            )
        } else {
            write!(list, "{comma}{{\"id\":{id},\"object\":\"model\",\"created\":1767225600,\"owned_by\":\"demo\"}}")
        };
    }
    let body = if anthropic {
        let (first, end) = (Json(MODELS[0]), Json(MODELS[MODELS.len() - 1]));
        format!("{{\"data\":[{list}],\"has_more\":false,\"first_id\":{first},\"last_id\":{end}}}")
    } else {
        format!("{{\"object\":\"list\",\"data\":[{list}]}}")
    };
    Reply::json(200, body).end()
}

fn count_tokens(seen: &Seen) -> Reply {
    Reply::json(200, format!("{{\"input_tokens\":{}}}", seen.body.len() / 4)).end()
}

/// Whether the conversation already holds a tool's result, by the words that each protocol has for one. A
/// prompt that quotes them gets words instead of a call, which a demo can afford.
fn has_tool_result(body: &[u8]) -> bool {
    let compact: Vec<u8> = body.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    [&b"\"role\":\"tool\""[..], b"\"type\":\"tool_result\"", b"\"type\":\"function_call_output\""]
        .iter()
        .any(|mark| compact.windows(mark.len()).any(|w| w == *mark))
}

/// A string as JSON writes it.
struct Json<'a>(&'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(self.0.len() + 2);
        push_json_str(self.0, &mut out);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}
