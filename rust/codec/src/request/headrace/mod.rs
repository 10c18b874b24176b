//! The library's own request (`ModelRequest.to_json()`) as a source.

mod read;

pub(super) use read::read;

use super::flags::Flag;
use super::table::Fate::{By, Drop, If, Kept, Near, Needs, Ours, Refuse, To};
use super::table::{ANY, ARR, BOOL, Fate, NUM, OBJ, Object, Row, STR, Ty};

/// A row: key, types, fates in Chat, Responses and Messages.
const fn row(key: &'static str, ty: Ty, chat: Fate, responses: Fate, messages: Fate) -> Row {
    Row { key, ty, fates: [chat, responses, messages] }
}

const fn all(key: &'static str, ty: Ty, fate: Fate) -> Row {
    row(key, ty, fate, fate, fate)
}

const NO_PLACE: Fate = Drop("no such parameter");
const EXTRA: Fate = By("the target's own family's passes as it is; the others say nothing to it");
const NO_AUDIO: Fate = Refuse("the target has no sound");
const EFFORT: &str = "with thinking on, where the target has it";

pub(super) static TOP: Object = Object {
    path: "",
    rows: &[
        all("model", STR, Kept),
        row("messages", ARR, Kept, To("input"), Kept),
        all("tools", ARR, Kept),
        all("options", OBJ, Kept),
        all("run_id", STR, Ours("of the log")),
        all("turn_id", STR, Ours("of the log")),
    ],
};

pub(super) static OPTIONS: Object = Object {
    path: "options",
    rows: &[
        all("stream", BOOL, Kept),
        row("max_output_tokens", NUM, To("max_completion_tokens"), Kept, To("max_tokens")),
        row("temperature", NUM, Kept, Kept, If(Flag::Sampling, "")),
        row("top_p", NUM, Kept, Kept, If(Flag::Sampling, "")),
        row("top_k", NUM, If(Flag::TopK, ""), NO_PLACE, If(Flag::Sampling, "")),
        row("presence_penalty", NUM, If(Flag::Penalties, ""), NO_PLACE, NO_PLACE),
        row("frequency_penalty", NUM, If(Flag::Penalties, ""), NO_PLACE, NO_PLACE),
        row("seed", NUM, If(Flag::Penalties, ""), NO_PLACE, NO_PLACE),
        row("stop", ARR, Kept, Refuse("Responses has no stop sequences"), To("stop_sequences")),
        all("tool_choice", OBJ, Kept),
        row(
            "parallel_tool_calls",
            BOOL,
            If(Flag::ParallelCalls, ""),
            If(Flag::ParallelCalls, ""),
            To("tool_choice.disable_parallel_tool_use"),
        ),
        row("reasoning_effort", STR, If(Flag::Effort, ""), If(Flag::Effort, "reasoning.effort"), By(EFFORT)),
        row("reasoning_summary", STR, NO_PLACE, To("reasoning.summary"), To("thinking.display")),
        row("reasoning_budget_tokens", NUM, Near("as an effort"), Near("as an effort"), By(EFFORT)),
        row("verbosity", STR, If(Flag::Extras, ""), If(Flag::Extras, "text.verbosity"), NO_PLACE),
        row("response_format", OBJ, Kept, To("text.format"), To("output_config.format")),
        row(
            "service_tier",
            STR,
            If(Flag::Extras, ""),
            If(Flag::Extras, ""),
            By("auto and default have equals; others are dropped"),
        ),
        row(
            "user",
            STR,
            If(Flag::Extras, "safety_identifier"),
            If(Flag::Extras, "safety_identifier"),
            To("metadata.user_id"),
        ),
        row("prompt_cache_key", STR, If(Flag::Extras, ""), If(Flag::Extras, ""), NO_PLACE),
        row("metadata", OBJ, If(Flag::Extras, ""), If(Flag::Extras, ""), NO_PLACE),
        all("extra", OBJ, EXTRA),
    ],
};

pub(super) static CHOICE: Object =
    Object { path: "options.tool_choice", rows: &[all("mode", STR, Kept), all("name", STR, Kept)] };

pub(super) static FORMAT: Object = Object {
    path: "options.response_format",
    rows: &[
        row("type", STR, Kept, Kept, By("json_object is dropped")),
        row("name", STR, Kept, Kept, Drop("a schema has no name there")),
        row("description", STR, Kept, Kept, NO_PLACE),
        all("schema", OBJ, If(Flag::JsonSchema, "")),
        row("strict", BOOL, Kept, Kept, By("true is what there is; false is dropped")),
    ],
};

pub(super) static MESSAGE: Object = Object {
    path: "messages[]",
    rows: &[
        all("role", STR, Kept),
        all("parts", ARR, To("content")),
        row("extra", OBJ, EXTRA, EXTRA, Drop("a message has nothing else there")),
    ],
};

pub(super) static PART: Object = Object {
    path: "messages[].parts[]",
    rows: &[
        all("type", STR, Kept),
        all("text", STR, Kept),
        all("kind", STR, Ours("its part's type decides")),
        all("mime", STR, Kept),
        all("data", STR, Kept),
        all("url", STR, By("kept; Chat takes no file by URL")),
        all("file_id", STR, By("kept; Chat takes no picture by id")),
        row("detail", STR, Kept, Kept, NO_PLACE),
        all("name", STR, Kept),
        all("family", STR, Ours("decides whether a continuation or a hosted tool passes")),
        all("form", STR, Ours("the continuation's own")),
        all("attach", OBJ, Ours("order says it")),
        all("provider", STR, Ours("decides whether a continuation passes")),
        all("call_id", STR, By("kept where it is legal, else derived")),
        all("raw_input_text", STR, Kept),
        row("is_error", BOOL, By("true is dropped: the text says so"), By("true is dropped: the text says so"), Kept),
        all("parts", ARR, To("content")),
        all("raw", OBJ.or(ARR), By("given back to its own family, else dropped")),
        all("extra", OBJ, EXTRA),
    ],
};

/// Types of parts.
pub(super) static PART_TYPES: Object = Object {
    path: "messages[].parts[].type",
    rows: &[
        all("text", ANY, Kept),
        all("image", ANY, Needs(Flag::Images, "the target takes no pictures")),
        row("audio", ANY, Needs(Flag::Audio, "the target has no sound"), NO_AUDIO, NO_AUDIO),
        all("file", ANY, Needs(Flag::Files, "the target takes no files")),
        row("refusal", ANY, Kept, Near("as text"), Near("as text")),
        all("reasoning", ANY, By("goes with its continuation, else dropped")),
        all("continuation", ANY, By("carried to the family and provider that gave it, else dropped")),
        all("tool_call", ANY, Kept),
        all("tool_result", ANY, Kept),
        row(
            "hosted_tool",
            ANY,
            Drop("Chat has none"),
            By("given back to its own family"),
            By("given back to its own family"),
        ),
    ],
};

pub(super) static TOOL: Object = Object {
    path: "tools[]",
    rows: &[
        all("name", STR, By("kept where it is legal, else derived")),
        all("description", STR, Kept),
        row("raw_schema", OBJ, To("parameters"), To("parameters"), To("input_schema")),
        all("kind", STR, By("custom is kept, or wrapped as a function with one input")),
        all("strict", BOOL, If(Flag::Strict, "")),
        all("extra", OBJ, EXTRA),
    ],
};

pub(super) static TABLES: &[&Object] = &[&TOP, &OPTIONS, &CHOICE, &FORMAT, &MESSAGE, &PART, &PART_TYPES, &TOOL];
