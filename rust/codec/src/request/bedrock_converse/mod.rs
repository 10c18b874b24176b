//! Amazon Bedrock's Converse as a target: it goes by the tables of Messages, but for the fields named here.
//!
//! 1. The model and whether the answer is streamed stand in the URL, not in the body.
//! 2. What a vendor's model has of its own goes into `additionalModelRequestFields`: thinking, `top_k`, betas.

mod write;

pub(super) use write::write;

use super::Source;
use super::error::Res;
use super::flags::Flag;
use super::neutral::{Choice, Mark, Message, Options, Part, Place, Tool};
use super::reader::Reader;
use super::table::Fate::{Drop, If, Kept, Refuse};
use super::table::{Column, Fate, Other, other};
use crate::event::Protocol;
use crate::loss::LossAction;

const NO_PLACE: Fate = Drop("no such parameter");
const TOP_K: Fate = If(Flag::Sampling, "");
const POINT: Fate = If(Flag::CacheMarks, "cachePoint");
const OTHER_VENDOR: Fate = Refuse("the target's vendor does not hold this file");

const CHAT: &[Other] = &[
    other("", "user", NO_PLACE),
    other("", "safety_identifier", NO_PLACE),
    other("", "service_tier", NO_PLACE),
    other("", "parallel_tool_calls", NO_PLACE),
    other("messages[].content[]", "prompt_cache_breakpoint", POINT),
    other("response_format.json_schema", "name", Kept),
    other("response_format.json_schema", "description", Kept),
];

const RESPONSES: &[Other] = &[
    other("", "user", NO_PLACE),
    other("", "safety_identifier", NO_PLACE),
    other("", "service_tier", NO_PLACE),
    other("", "parallel_tool_calls", NO_PLACE),
    other("input[].content[]", "prompt_cache_breakpoint", POINT),
    other("text.format", "name", Kept),
    other("text.format", "description", Kept),
];

const HEADRACE: &[Other] = &[
    other("options", "user", NO_PLACE),
    other("options", "service_tier", NO_PLACE),
    other("options", "parallel_tool_calls", NO_PLACE),
    other("options", "top_k", TOP_K),
    other("options.response_format", "name", Kept),
    other("options.response_format", "description", Kept),
    other("messages[].parts[]", "file_id", OTHER_VENDOR),
];

/// Of Messages, whose own column says nothing: these go by Chat's, where they are not named.
const MESSAGES: &[Other] = &[
    other("", "anthropic_beta", Kept),
    other("metadata", "user_id", NO_PLACE),
    other("", "service_tier", NO_PLACE),
    other("", "top_k", TOP_K),
    other("messages[].content[]", "cache_control", POINT),
    other("messages[].content[]", "is_error", Kept),
    other("tools[]", "cache_control", POINT),
];

const GEMINI: &[Other] = &[
    other("contents[].parts[]", "fileData", OTHER_VENDOR),
    other("contents[].parts[].fileData", "fileUri", OTHER_VENDOR),
    other("contents[].parts[].fileData", "mimeType", OTHER_VENDOR),
    other("contents[].parts[].fileData", "displayName", OTHER_VENDOR),
];

/// What the protocol has no place for.
pub(super) const LACKS: &[Flag] = &[Flag::SystemMessages, Flag::AutoCache, Flag::ParallelCalls, Flag::Extras];

/// The column of this target.
pub(super) fn column(source: Source) -> Column {
    let column = match source {
        Source::Protocol(Protocol::AnthropicMessages) => Column::like(Column::CHAT, MESSAGES),
        Source::Protocol(Protocol::OpenaiResponses) => Column::like(Column::MESSAGES, RESPONSES),
        Source::Protocol(Protocol::GoogleGemini) => Column::like(Column::MESSAGES, GEMINI),
        Source::Headrace => Column::like(Column::MESSAGES, HEADRACE),
        Source::Protocol(_) => Column::like(Column::MESSAGES, CHAT),
    };
    column.without(LACKS)
}

/// What can be judged only once a request has been read whole.
pub(super) fn settle(r: &mut Reader<'_>, messages: &mut [Message<'_>], tools: &mut Vec<Tool<'_>>, o: &Options<'_>) {
    if !matches!(o.choice, Some(Choice::None)) || tools.is_empty() {
        return;
    }
    let is_used = |part: &Part<'_>| matches!(part, Part::Call(_) | Part::Result(_));
    if messages.iter().any(|m| m.parts.iter().any(is_used)) {
        // Tools have to be declared where the conversation has any.
        r.loss(LossAction::Approximated, "tool_choice");
    } else {
        // A tool that is not told of is not called.
        tools.clear();
    }
}

/// A cache mark's block.
pub(super) fn point(mark: Mark<'_>) -> &'static [u8] {
    if mark.long {
        b"{\"cachePoint\":{\"type\":\"default\",\"ttl\":\"1h\"}}"
    } else {
        b"{\"cachePoint\":{\"type\":\"default\"}}"
    }
}

/// The name that Converse has for a picture's or a document's type; `None` where it takes none such.
pub(super) fn format(mime: &str) -> Option<&'static str> {
    let mime = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Some(match mime.as_str() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "application/pdf" => "pdf",
        "text/csv" => "csv",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        "text/html" => "html",
        "text/markdown" => "md",
        "text/plain" => "txt",
        _ => return None,
    })
}

/// Refuses bytes that Converse would have to fetch, or whose type it has no name for. `key` is where they stand.
pub(super) fn placed(r: &Reader<'_>, from: &Place<'_>, key: &str) -> Res<()> {
    match from {
        Place::Base64 { mime, .. } if format(&mime.decode()).is_some() => Ok(()),
        Place::Base64 { .. } => r.refuse(key, "the target takes no file of this type"),
        Place::Url(_) => r.refuse(key, "the target fetches nothing; send the bytes"),
        Place::Id(_) => r.refuse(key, "the target's vendor does not hold this file"),
    }
}
