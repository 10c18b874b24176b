//! What becomes of every item of a response, per client protocol, as data that the encoders go by.
//!
//! 1. A [`Row`] is a field of an event, or one case of it, and its [`Fate`] for the clients of each protocol.
//! 2. The row is asked before the event reaches a form: what the protocol has no place for ([`Fate::Drop`]) never gets
//!    there, and is reported by the row alone.
//! 3. What a form reports has a row that allows for it: [`allows`] is asserted at every loss.
//!
//! An item without a row must not be left out anywhere.

use crate::event::{Event, Protocol};
use crate::loss::LossAction;

/// What becomes of an item for the clients of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Carried, in this place.
    To(&'static str),
    /// Carried as something near to it, and reported.
    Near(&'static str),
    /// Dropped and reported: there is no place for it.
    Drop(&'static str),
    /// By its value or its family: carried, or reported as dropped or near.
    By(&'static str),
    /// Of the gateway itself, and nothing that the client could miss.
    Ours(&'static str),
}

/// One field of an event, or one case of it. `fates` by client: Chat, Responses, Messages, Gemini, Ollama.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub event: &'static str,
    pub field: &'static str,
    /// Which case, where the field has several rows.
    pub case: &'static str,
    /// How losses call it; empty where none is reported.
    pub path: &'static str,
    fates: [Fate; 5],
}

use Fate::{By, Drop, Near, Ours, To};

const fn row(
    event: &'static str,
    field: &'static str,
    case: &'static str,
    path: &'static str,
    fates: [Fate; 5],
) -> Row {
    Row { event, field, case, path, fates }
}

const fn ours(event: &'static str, field: &'static str, why: &'static str) -> Row {
    row(event, field, "", "", [Ours(why); 5])
}

const STARTED: &str = "model.started";
const TEXT: &str = "model.text_delta";
const REFUSAL: &str = "model.refusal_delta";
const REASONING: &str = "model.reasoning_delta";
const CONTINUATION: &str = "model.continuation";
const ANNOTATION: &str = "model.annotation";
const HOSTED: &str = "model.hosted_tool";
const MEDIA: &str = "model.media";
const DELTA: &str = "tool_intent.delta";
const INTENT: &str = "tool_intent.proposed";
const USAGE: &str = "model.usage";
const FINISHED: &str = "model.finished";
const ERROR: &str = "provider.error";

const STATE_PATH: &str = "response.reasoning_state";
const NOTES: &str = "response.annotations";
const HOSTED_PATH: &str = "response.hosted_tools";
const MEDIA_PATH: &str = "response.media";
const CALLS: &str = "response.tool_calls";
const ARGUMENTS: &str = "response.tool_calls[].arguments";
const INPUT: &str = "response.tool_calls[].input";
const REASON: &str = "response.finish_reason";

const OWN: Fate = By("as it came where it is the client's own family's, else dropped");
const CUT: Fate = By("what was streamed of it stays and the end is as by a limit; what was not is dropped");
const UNKNOWN: Fate = By("where it is not known, 0, which the schema demands");
const INSTEAD: Fate = By("the stream fails where it is not what was streamed");
const SLOT: &str = "part of the state's slot";

/// Every item, in the order of the events' page.
pub const ROWS: &[Row] = &[
    ours(STARTED, "model", "the name that the client asked for"),
    ours(STARTED, "response_id", "the gateway's own id"),
    ours(STARTED, "request_id", "in the log"),
    row(TEXT, "text", "", "", [To("content"), To("output_text"), To("text block"), To("text part"), To("content")]),
    row(
        TEXT,
        "index",
        "",
        "",
        [Ours("one text"), To("content part"), To("block"), Ours("parts follow one another"), Ours("one text")],
    ),
    row(
        REFUSAL,
        "text",
        "",
        "response.refusal",
        [To("refusal"), To("refusal part"), Near("text, and the reason of the end"), Near("text"), Near("text")],
    ),
    row(
        REFUSAL,
        "index",
        "",
        "",
        [Ours("one text"), To("content part"), To("block"), Ours("parts follow one another"), Ours("one text")],
    ),
    row(
        REASONING,
        "text",
        "",
        "",
        [To("reasoning_content"), To("reasoning item"), To("thinking block"), To("thought part"), To("thinking")],
    ),
    row(
        REASONING,
        "text",
        "that nobody signed",
        "response.reasoning.signature",
        [
            To("reasoning_content"),
            To("reasoning item"),
            By("unsigned, and said: a signature is never made up"),
            To("thought part"),
            To("thinking"),
        ],
    ),
    row(
        REASONING,
        "kind",
        "",
        "",
        [Ours("one kind"), To("summary or content"), Ours("one kind"), Ours("one kind"), Ours("one kind")],
    ),
    ours(REASONING, "index", "reasoning follows one another"),
    row(
        CONTINUATION,
        "data",
        "",
        STATE_PATH,
        [
            To("reasoning_details"),
            To("encrypted_content; caller, of a call that a program makes"),
            To("signature or redacted_thinking"),
            To("thoughtSignature"),
            Drop("no place for a state: the next turn goes on without it"),
        ],
    ),
    ours(CONTINUATION, "family", SLOT),
    ours(CONTINUATION, "form", SLOT),
    ours(CONTINUATION, "attach", "where the slot stands"),
    row(
        ANNOTATION,
        "url",
        "",
        NOTES,
        [
            To("url_citation"),
            By("url_citation, where it has a text"),
            OWN,
            To("groundingChunks"),
            Drop("no such thing"),
        ],
    ),
    row(ANNOTATION, "raw", "without an address", NOTES, [OWN, OWN, OWN, OWN, Drop("no such thing")]),
    row(
        ANNOTATION,
        "title",
        "",
        NOTES,
        [To("title"), By("title, with its address"), OWN, To("title"), Drop("no such thing")],
    ),
    row(
        ANNOTATION,
        "span",
        "",
        NOTES,
        [
            To("start_index, end_index"),
            By("start_index, end_index, with its address"),
            OWN,
            To("segment"),
            Drop("no such thing"),
        ],
    ),
    ours(ANNOTATION, "kind", "what the place says"),
    row(HOSTED, "raw", "", HOSTED_PATH, [Drop("no such thing"), OWN, OWN, OWN, Drop("no such thing")]),
    ours(HOSTED, "id", "part of what it reports"),
    ours(HOSTED, "phase", "part of what it reports"),
    ours(HOSTED, "name", "part of what it reports"),
    row(
        MEDIA,
        "data",
        "an image",
        MEDIA_PATH,
        [To("images"), To("image_generation_call"), Drop("only text"), To("inlineData"), Drop("only text")],
    ),
    row(
        MEDIA,
        "data",
        "a sound",
        MEDIA_PATH,
        [
            Drop("no place in its stream"),
            By("response.audio.delta of a stream, else dropped"),
            Drop("only text"),
            To("inlineData"),
            Drop("only text"),
        ],
    ),
    row(
        MEDIA,
        "data",
        "anything else",
        MEDIA_PATH,
        [Drop("images alone"), Drop("images and sounds"), Drop("only text"), To("inlineData"), Drop("only text")],
    ),
    row(
        MEDIA,
        "url",
        "",
        MEDIA_PATH,
        [
            By("images, of an image; else dropped"),
            Drop("only what is there"),
            Drop("only text"),
            To("fileData"),
            Drop("only text"),
        ],
    ),
    row(
        MEDIA,
        "partial",
        "",
        MEDIA_PATH,
        [
            Drop("the whole follows"),
            By("a sound's pieces; an image's whole follows"),
            Drop("only text"),
            Drop("the whole follows"),
            Drop("only text"),
        ],
    ),
    ours(MEDIA, "mime", "told with the data"),
    row(
        DELTA,
        "arguments_delta",
        "",
        "",
        [
            To("function.arguments"),
            To("function_call_arguments.delta"),
            To("input_json_delta"),
            Ours("told whole, at its intent"),
            Ours("told whole, at its intent"),
        ],
    ),
    row(DELTA, "arguments_delta", "of a call that was cut off", CALLS, [CUT; 5]),
    row(
        DELTA,
        "arguments_delta",
        "of a call that was cut off before others",
        "response.content",
        [
            Ours("calls stand beside each other"),
            Ours("calls stand beside each other"),
            By("what came behind it is dropped where its text would read as complete"),
            Ours("calls are told whole"),
            Ours("calls are told whole"),
        ],
    ),
    ours(DELTA, "call", "what the place says"),
    ours(DELTA, "provider_call_id", "told with its intent"),
    ours(DELTA, "name", "told with its intent"),
    ours(DELTA, "kind", "told with its intent"),
    row(INTENT, "provider_call_id", "", "", [To("id"), To("call_id"), To("id"), To("id"), To("id")]),
    row(INTENT, "tool_name", "", "", [To("name"), To("name"), To("name"), To("name"), To("function.name")]),
    row(
        INTENT,
        "raw_input_text",
        "",
        ARGUMENTS,
        [INSTEAD, By("the item's end has the last word, and it is said"), INSTEAD, To("args"), To("arguments")],
    ),
    row(
        INTENT,
        "input",
        "of a custom tool",
        INPUT,
        [
            To("custom.input"),
            To("custom_tool_call"),
            Near("an object with `input`"),
            Near("an object with `input`"),
            Near("an object with `input`"),
        ],
    ),
    ours(INTENT, "call", "what the place says"),
    ours(INTENT, "id", "Headrace's own"),
    ours(INTENT, "kind", "what the place says"),
    ours(INTENT, "assembled_from", "in the log"),
    ours(INTENT, "status", "always proposed"),
    row(
        USAGE,
        "input_tokens",
        "",
        "response.usage.input_tokens",
        [UNKNOWN, UNKNOWN, UNKNOWN, To("promptTokenCount"), To("prompt_eval_count")],
    ),
    row(
        USAGE,
        "output_tokens",
        "",
        "response.usage.output_tokens",
        [UNKNOWN, UNKNOWN, UNKNOWN, To("candidatesTokenCount, thoughtsTokenCount"), To("eval_count")],
    ),
    row(
        USAGE,
        "cached_input_tokens",
        "",
        "response.usage.cached_input_tokens",
        [
            To("cached_tokens"),
            UNKNOWN,
            To("cache_read_input_tokens"),
            To("cachedContentTokenCount"),
            By("dropped, where it is not 0"),
        ],
    ),
    row(
        USAGE,
        "cache_write_tokens",
        "",
        "response.usage.cache_write_tokens",
        [
            To("cache_write_tokens"),
            UNKNOWN,
            To("cache_creation_input_tokens"),
            By("dropped, where it is not 0"),
            By("dropped, where it is not 0"),
        ],
    ),
    row(
        USAGE,
        "reasoning_tokens",
        "",
        "response.usage.reasoning_tokens",
        [
            To("reasoning_tokens"),
            UNKNOWN,
            To("thinking_tokens"),
            By("thoughtsTokenCount, dropped where it is more than the output"),
            By("dropped, where it is not 0"),
        ],
    ),
    ours(USAGE, "raw", "in the log"),
    row(FINISHED, "reason", "stop", "", [To("stop"), To("completed"), To("end_turn"), To("STOP"), To("stop")]),
    row(
        FINISHED,
        "reason",
        "tool_intents",
        "",
        [To("tool_calls"), To("completed"), To("tool_use"), To("STOP"), To("stop")],
    ),
    row(
        FINISHED,
        "reason",
        "length",
        "",
        [To("length"), To("max_output_tokens"), To("max_tokens"), To("MAX_TOKENS"), To("length")],
    ),
    row(
        FINISHED,
        "reason",
        "content_filter",
        REASON,
        [To("content_filter"), To("content_filter"), Near("refusal"), To("SAFETY"), Near("stop")],
    ),
    row(
        FINISHED,
        "reason",
        "refusal",
        REASON,
        [
            By("stop with a refusal's text, else near: content_filter"),
            By("completed with a refusal's text, else near: content_filter"),
            To("refusal"),
            By("the vendor's own word, else near: SAFETY"),
            Near("stop"),
        ],
    ),
    row(
        FINISHED,
        "reason",
        "pause",
        REASON,
        [
            Near("length"),
            Near("max_output_tokens"),
            To("pause_turn"),
            By("the vendor's own word, else near: MAX_TOKENS"),
            Near("length"),
        ],
    ),
    row(
        FINISHED,
        "reason",
        "other",
        REASON,
        [
            Near("stop"),
            By("steered, else near: completed"),
            Near("end_turn"),
            By("the vendor's own word, else near: STOP"),
            Near("stop"),
        ],
    ),
    ours(FINISHED, "raw_reason", "told where it is the client's family's own word"),
    row(ERROR, "kind", "", "", [To("error.code"), To("error.code"), To("error.type"), To("error.status"), To("error")]),
    ours(ERROR, "message", "told where the client can mend it, else the gateway's own words"),
    ours(ERROR, "code", "told where the client can mend it"),
    ours(ERROR, "status", "the gateway's own"),
    ours(ERROR, "retryable", "what the status and the headers say"),
    ours(ERROR, "retry_after_s", "a header, before anything was sent"),
    ours(ERROR, "raw", "in the log: it may hold what is not the client's"),
    ours(ERROR, "request_id", "in the log"),
    ours(ERROR, "provider", "in the log"),
    ours(ERROR, "model", "in the log"),
    ours(ERROR, "phase", "in the log"),
];

impl Row {
    /// The fate for clients of a protocol; for one that has no clients, Chat's, as it is encoded.
    #[must_use]
    pub fn fate(&self, client: Protocol) -> Fate {
        self.fates[match client {
            Protocol::OpenaiResponses => 1,
            Protocol::AnthropicMessages => 2,
            Protocol::GoogleGemini => 3,
            Protocol::OllamaChat => 4,
            _ => 0,
        }]
    }
}

/// The path of what these clients have no place for, whatever it holds.
pub(super) fn dropped(event: &Event<'_>, client: Protocol) -> Option<&'static str> {
    let (name, field, case) = match event {
        Event::Continuation { .. } => (CONTINUATION, "data", ""),
        Event::Annotation { url: Some(_), .. } => (ANNOTATION, "url", ""),
        Event::Annotation { .. } => (ANNOTATION, "raw", "without an address"),
        Event::HostedTool { .. } => (HOSTED, "raw", ""),
        Event::Media { partial: true, .. } => (MEDIA, "partial", ""),
        Event::Media { data: None, .. } => (MEDIA, "url", ""),
        Event::Media { mime, .. } => (MEDIA, "data", case_of(&mime.decode())),
        _ => return None,
    };
    let row = ROWS.iter().find(|row| (row.event, row.field, row.case) == (name, field, case))?;
    matches!(row.fate(client), Drop(_)).then_some(row.path)
}

fn case_of(mime: &str) -> &'static str {
    match mime.split_once('/').map(|(kind, _)| kind) {
        Some("image") => "an image",
        Some("audio") => "a sound",
        _ => "anything else",
    }
}

/// Whether a row says that this may be lost.
pub(super) fn allows(client: Protocol, path: &str, action: LossAction) -> bool {
    ROWS.iter().filter(|row| row.path == path).any(|row| match row.fate(client) {
        By(_) => true,
        Near(_) => action == LossAction::Approximated,
        Drop(_) => action == LossAction::Dropped,
        To(_) | Ours(_) => false,
    })
}
