//! Finish reasons: a provider's word for the end, by one table per wire family (rule R13).
//!
//! The word itself is kept in `raw_reason`. One that no row knows is `other`. Add rows, never a rule.

use super::Ending;
use crate::error::ErrorKind;
use crate::event::FinishReason;

/// A `finish_reason` of Chat Completions, of any vendor.
#[must_use]
pub fn chat(reason: &str) -> Ending {
    look_up(&CHAT, reason)
}

/// A `stop_reason` of Anthropic Messages.
#[must_use]
pub fn messages(reason: &str) -> Ending {
    look_up(&MESSAGES, reason)
}

/// The reason of an incomplete response of Responses. A complete one has none.
#[must_use]
pub fn incomplete(reason: &str) -> Ending {
    look_up(&INCOMPLETE, reason)
}

/// A `finish_reason` of Cohere's chat.
#[must_use]
pub fn cohere(reason: &str) -> Ending {
    look_up(&COHERE, reason)
}

/// A `done_reason` of Ollama; empty where there is none.
#[must_use]
pub fn ollama(reason: &str) -> Ending {
    look_up(&OLLAMA, reason)
}

/// A `finishReason` of Gemini.
#[must_use]
pub fn gemini(reason: &str) -> Ending {
    look_up(&GEMINI, reason)
}

/// A `stopReason` of Bedrock's Converse.
#[must_use]
pub fn converse(reason: &str) -> Ending {
    look_up(&CONVERSE, reason)
}

/// The word for the end in the text formats that models behind `InvokeModel` have of their own.
#[must_use]
pub fn plain(reason: &str) -> Ending {
    look_up(&PLAIN, reason)
}

type Table = [(Ending, &'static [&'static str])];

fn look_up(table: &Table, reason: &str) -> Ending {
    let row = table.iter().find(|(_, words)| words.contains(&reason));
    row.map_or(Ending::Reason(FinishReason::Other), |(ending, _)| *ending)
}

/// Vendors behind compatible endpoints let their own words through, so those stand here too.
const CHAT: [(Ending, &[&str]); 10] = [
    (
        Ending::Normal,
        &["stop", "eos", "eos_token", "end_of_stream", "end_turn", "stop_sequence", "STOP", "COMPLETE", "completed"],
    ),
    (Ending::ToolUse, &["tool_calls", "function_call", "tool_call", "tool_use", "TOOL_CALL"]),
    (
        Ending::Reason(FinishReason::Length),
        &["length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length", "model_context_window_exceeded"],
    ),
    (
        Ending::Reason(FinishReason::ContentFilter),
        &[
            "content_filter",
            "content_filtered",
            "sensitive",
            "guardrail_intervened",
            "SAFETY",
            "RECITATION",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
        ],
    ),
    (Ending::Reason(FinishReason::Refusal), &["refusal"]),
    (Ending::Reason(FinishReason::Pause), &["pause_turn"]),
    (Ending::MalformedCall, &["malformed_function_call", "malformed_tool_use", "MALFORMED_FUNCTION_CALL"]),
    (Ending::Error(ErrorKind::Overloaded), &["insufficient_system_resource", "network_error"]),
    (Ending::Error(ErrorKind::Unknown), &["error", "ERROR"]),
    (Ending::Error(ErrorKind::Aborted), &["abort", "cancelled"]),
];

const MESSAGES: [(Ending, &[&str]); 5] = [
    (Ending::Normal, &["end_turn", "stop_sequence"]),
    (Ending::ToolUse, &["tool_use"]),
    (Ending::Reason(FinishReason::Length), &["max_tokens", "model_context_window_exceeded"]),
    (Ending::Reason(FinishReason::Refusal), &["refusal"]),
    (Ending::Reason(FinishReason::Pause), &["pause_turn", "compaction"]),
];

const INCOMPLETE: [(Ending, &[&str]); 2] = [
    (Ending::Reason(FinishReason::Length), &["max_output_tokens", "max_messages"]),
    (Ending::Reason(FinishReason::ContentFilter), &["content_filter"]),
];

const COHERE: [(Ending, &[&str]); 6] = [
    (Ending::Normal, &["COMPLETE", "STOP_SEQUENCE"]),
    (Ending::ToolUse, &["TOOL_CALL"]),
    (Ending::Reason(FinishReason::Length), &["MAX_TOKENS", "ERROR_LIMIT"]),
    (Ending::Reason(FinishReason::ContentFilter), &["ERROR_TOXIC"]),
    (Ending::Error(ErrorKind::Unknown), &["ERROR"]),
    (Ending::Error(ErrorKind::Timeout), &["TIMEOUT"]),
];

/// An empty prompt only loads or unloads the model: that ends well too.
const OLLAMA: [(Ending, &[&str]); 2] =
    [(Ending::Normal, &["", "stop", "load", "unload"]), (Ending::Reason(FinishReason::Length), &["length"])];

const GEMINI: [(Ending, &[&str]); 8] = [
    (Ending::Normal, &["STOP", "FINISH_REASON_UNSPECIFIED"]),
    (Ending::Reason(FinishReason::Length), &["MAX_TOKENS"]),
    (
        Ending::Reason(FinishReason::ContentFilter),
        &[
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "MODEL_ARMOR",
            "ESCALATION",
        ],
    ),
    (Ending::Reason(FinishReason::Pause), &["CONTINUATION"]),
    (Ending::MalformedCall, &["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"]),
    (Ending::Error(ErrorKind::BadRequest), &["MISSING_THOUGHT_SIGNATURE"]),
    (Ending::Error(ErrorKind::Auth), &["PUP_LIMITED_DISABLED"]),
    (Ending::Error(ErrorKind::Unknown), &["OTHER", "MALFORMED_RESPONSE", "IMAGE_OTHER", "NO_IMAGE"]),
];

const CONVERSE: [(Ending, &[&str]); 6] = [
    (Ending::Normal, &["end_turn", "stop_sequence"]),
    (Ending::ToolUse, &["tool_use"]),
    (Ending::Reason(FinishReason::Length), &["max_tokens", "model_context_window_exceeded"]),
    (Ending::Reason(FinishReason::ContentFilter), &["guardrail_intervened", "content_filtered"]),
    (Ending::MalformedCall, &["malformed_tool_use"]),
    (Ending::Error(ErrorKind::Unknown), &["malformed_model_output"]),
];

const PLAIN: [(Ending, &[&str]); 4] = [
    (
        Ending::Normal,
        &["stop", "stop_sequence", "end_turn", "STOP", "STOP_SEQUENCE", "COMPLETE", "FINISH", "FINISHED", "endoftext"],
    ),
    (Ending::Reason(FinishReason::Length), &["length", "max_tokens", "LENGTH", "MAX_TOKENS", "ERROR_LIMIT"]),
    (Ending::Reason(FinishReason::ContentFilter), &["content_filtered", "CONTENT_FILTERED", "ERROR_TOXIC"]),
    (Ending::Error(ErrorKind::Unknown), &["ERROR"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_in_one_row_and_an_unknown_one_is_other() {
        for table in [&CHAT[..], &MESSAGES, &INCOMPLETE, &COHERE, &OLLAMA, &GEMINI, &CONVERSE, &PLAIN] {
            let mut words: Vec<&str> = table.iter().flat_map(|(_, words)| words.iter().copied()).collect();
            let count = words.len();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), count);
        }
        assert_eq!(messages("compaction"), Ending::Reason(FinishReason::Pause));
        assert_eq!(incomplete("steered"), Ending::Reason(FinishReason::Other));
        assert_eq!(gemini("FAKE_ENUM"), Ending::Reason(FinishReason::Other));
        assert_eq!(chat("tool_calls"), Ending::ToolUse);
        assert_eq!(chat("sensitive"), Ending::Reason(FinishReason::ContentFilter));
        assert_eq!(chat("brand_new"), Ending::Reason(FinishReason::Other));
    }
}
