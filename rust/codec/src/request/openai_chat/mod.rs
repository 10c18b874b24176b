//! `OpenAI` Chat Completions: its request's fields, as a source and as a target.

mod dialect;
mod read;
mod write;

pub(super) use dialect::DIALECT;
pub(super) use read::{allowed, breakpoint, read};
pub(super) use write::{WRAPPED_SCHEMA, arguments, joined, strings, text_of, write};

use super::flags::Flag;
use super::table::Fate::{By, Drop, If, Kept, Near, Needs, Ours, Refuse, To};
use super::table::{ANY, ARR, BOOL, Fate, NUM, OBJ, Object, Row, STR, Ty};

/// A row: key, types, fate in Responses, fate in Messages.
const fn row(key: &'static str, ty: Ty, responses: Fate, messages: Fate) -> Row {
    Row { key, ty, fates: [Kept, responses, messages] }
}

const NO_AUDIO: &str = "the target has no sound";
const NO_SEARCH: &str = "the provider's own web search is not carried over";
const OTHER_VENDOR: &str = "the target's vendor does not hold this file";
const STORE: Fate = By("false is what there is; true passes with `extras`, else it is dropped");
const NO_PLACE: Fate = Drop("no such parameter");
const WITH_FORMAT: Fate = Drop("with the format");
const USER: Fate = To("metadata.user_id");

pub(super) static TOP: Object = Object {
    path: "",
    rows: &[
        row("model", STR, Kept, Kept),
        row("messages", ARR, To("input"), Kept),
        row("audio", OBJ, Refuse(NO_AUDIO), Refuse(NO_AUDIO)),
        row("frequency_penalty", NUM, NO_PLACE, NO_PLACE),
        row("function_call", STR.or(OBJ), To("tool_choice"), To("tool_choice")),
        row("functions", ARR, To("tools"), To("tools")),
        row("logit_bias", OBJ, NO_PLACE, NO_PLACE),
        row("logprobs", BOOL, Drop("events carry none"), NO_PLACE),
        row("max_completion_tokens", NUM, To("max_output_tokens"), To("max_tokens")),
        row("max_tokens", NUM, To("max_output_tokens"), To("max_tokens")),
        row("metadata", OBJ, If(Flag::Extras, ""), NO_PLACE),
        row("modalities", ARR, By("text alone is what there is; sound is refused"), By("as for Responses")),
        row(
            "moderation",
            OBJ,
            Needs(Flag::Extras, "the target does not moderate"),
            Refuse("the target does not moderate"),
        ),
        row("n", NUM, By("1 is what there is; more is refused"), By("as for Responses")),
        row("parallel_tool_calls", BOOL, If(Flag::ParallelCalls, ""), To("tool_choice.disable_parallel_tool_use")),
        row("prediction", OBJ, NO_PLACE, NO_PLACE),
        row("presence_penalty", NUM, NO_PLACE, NO_PLACE),
        row("prompt_cache_key", STR, If(Flag::Extras, ""), NO_PLACE),
        row("prompt_cache_options", OBJ, If(Flag::Extras, ""), NO_PLACE),
        row("prompt_cache_retention", STR, If(Flag::Extras, ""), NO_PLACE),
        row(
            "reasoning_effort",
            STR,
            If(Flag::Effort, "reasoning.effort"),
            By("output_config.effort with thinking on, where the target has it"),
        ),
        // A vendor's own way to say so.
        row("reasoning", OBJ, Kept, Kept),
        row(
            "response_format",
            OBJ,
            To("text.format"),
            By("a schema becomes output_config.format; json_object is dropped"),
        ),
        row("safety_identifier", STR, If(Flag::Extras, ""), USER),
        row("seed", NUM, NO_PLACE, NO_PLACE),
        row("service_tier", STR, If(Flag::Extras, ""), By("auto and default have equals; others are dropped")),
        row("stop", STR.or(ARR), Refuse("Responses has no stop sequences"), To("stop_sequences")),
        row("store", BOOL, STORE, By("false is what there is; true is dropped")),
        row("stream", BOOL, Kept, Kept),
        row("stream_options", OBJ, Ours("the gateway pads nothing and gives usage as asked"), Ours("as for Responses")),
        row("temperature", NUM, Kept, If(Flag::Sampling, "")),
        row("tool_choice", STR.or(OBJ), Kept, Kept),
        row("tools", ARR, Kept, Kept),
        row("top_logprobs", NUM, Drop("events carry none"), NO_PLACE),
        row("top_p", NUM, Kept, If(Flag::Sampling, "")),
        row("user", STR, If(Flag::Extras, ""), USER),
        row("verbosity", STR, If(Flag::Extras, "text.verbosity"), NO_PLACE),
        row("web_search_options", OBJ, Refuse(NO_SEARCH), Refuse(NO_SEARCH)),
    ],
};

pub(super) static STREAM_OPTIONS: Object = Object {
    path: "stream_options",
    rows: &[
        row(
            "include_usage",
            BOOL,
            Ours("the encoder writes the usage chunk"),
            Ours("the encoder writes the usage chunk"),
        ),
        row("include_obfuscation", BOOL, Drop("the encoder pads nothing"), Drop("the encoder pads nothing")),
    ],
};

pub(super) static REASONING: Object = Object {
    path: "reasoning",
    rows: &[
        row(
            "effort",
            STR,
            If(Flag::Effort, "reasoning.effort"),
            By("output_config.effort with thinking on, where the target has it"),
        ),
        row("max_tokens", NUM, Near("as an effort"), By("thinking, where the target has it")),
        row("enabled", BOOL, NO_PLACE, NO_PLACE),
        row("exclude", BOOL, NO_PLACE, NO_PLACE),
        row("summary", STR, To("reasoning.summary"), To("thinking.display")),
    ],
};

pub(super) static MESSAGE: Object = Object {
    path: "messages[]",
    rows: &[
        row("role", STR, Kept, Kept),
        row("content", STR.or(ARR), Kept, Kept),
        row("name", STR, By("a function's result is matched by it; a speaker's is dropped"), By("as for Responses")),
        row("refusal", STR, Near("as text"), Near("as text")),
        row("tool_calls", ARR, To("input[]"), To("messages[].content[]")),
        row("tool_call_id", STR, To("input[].call_id"), To("messages[].content[].tool_use_id")),
        row("function_call", OBJ, To("input[]"), To("messages[].content[]")),
        row("audio", OBJ, Refuse(NO_AUDIO), Refuse(NO_AUDIO)),
        // What compatible vendors and this gateway's own Chat clients give back.
        row(
            "reasoning_details",
            ARR,
            By("carried where the same provider gave it, else dropped"),
            By("as for Responses"),
        ),
        row("reasoning_content", STR, By("goes with its continuation, else dropped"), By("as for Responses")),
        row("reasoning", STR, By("goes with its continuation, else dropped"), By("as for Responses")),
        row("annotations", ARR, Drop("output only"), Drop("output only")),
    ],
};

pub(super) static PART: Object = Object {
    path: "messages[].content[]",
    rows: &[
        row("type", STR, Kept, Kept),
        row("text", STR, Kept, Kept),
        row("refusal", STR, Near("as text"), Near("as text")),
        row(
            "image_url",
            OBJ,
            Needs(Flag::Images, "the target takes no pictures"),
            Needs(Flag::Images, "the target takes no pictures"),
        ),
        row("input_audio", OBJ, Refuse(NO_AUDIO), Refuse(NO_AUDIO)),
        row(
            "file",
            OBJ,
            Needs(Flag::Files, "the target takes no files"),
            Needs(Flag::Files, "the target takes no files"),
        ),
        row("prompt_cache_breakpoint", OBJ, If(Flag::Extras, ""), If(Flag::CacheMarks, "cache_control")),
    ],
};

pub(super) static MARK: Object = Object {
    path: "messages[].content[].prompt_cache_breakpoint",
    rows: &[row("mode", STR, Kept, Kept), row("ttl", STR, Kept, By("30 minutes and more become an hour"))],
};

pub(super) static IMAGE: Object = Object {
    path: "messages[].content[].image_url",
    rows: &[row("url", STR, Kept, Kept), row("detail", STR, Kept, NO_PLACE)],
};

pub(super) static FILE: Object = Object {
    path: "messages[].content[].file",
    rows: &[
        row("file_data", STR, Kept, To("source.data")),
        row("file_id", STR, Kept, Refuse(OTHER_VENDOR)),
        row("filename", STR, Kept, To("title")),
    ],
};

pub(super) static CALL: Object = Object {
    path: "messages[].tool_calls[]",
    rows: &[
        row("id", STR, To("call_id"), By("kept where its letters are legal, else derived")),
        row("type", STR, Kept, Kept),
        row("function", OBJ, Kept, Kept),
        row("custom", OBJ, Kept, To("input")),
        // Streaming clients keep it.
        row("index", NUM, Ours("order says it"), Ours("order says it")),
    ],
};

pub(super) static CALLED: Object = Object {
    path: "messages[].tool_calls[].function",
    rows: &[
        row("name", STR, Kept, Kept),
        row("arguments", STR, Kept, To("input")),
        // The same reader takes a custom call.
        row("input", STR, Kept, To("input.input")),
    ],
};

pub(super) static DETAIL: Object = Object {
    path: "messages[].reasoning_details[]",
    rows: &[
        row("type", STR, Ours("the slot's own form"), Ours("the slot's own form")),
        row("text", STR, By("goes with its continuation"), By("goes with its continuation")),
        row("summary", STR, By("goes with its continuation"), By("goes with its continuation")),
        row(
            "signature",
            STR,
            By("carried where the same provider gave it"),
            By("carried where the same provider gave it"),
        ),
        row("data", STR, By("carried where the same provider gave it"), By("carried where the same provider gave it")),
        row("format", STR, Ours("the slot's own form"), Ours("the slot's own form")),
        row("index", NUM, Ours("the slot's own form"), Ours("the slot's own form")),
        row("id", STR, Ours("the slot's own form"), Ours("the slot's own form")),
    ],
};

pub(super) static TOOL: Object = Object {
    path: "tools[]",
    rows: &[
        row("type", STR, Kept, Kept),
        row("function", OBJ, Kept, Kept),
        row(
            "custom",
            OBJ,
            By("kept, or wrapped as a function with one input"),
            Near("wrapped as a function with one input"),
        ),
    ],
};

pub(super) static FUNCTION: Object = Object {
    path: "tools[].function",
    rows: &[
        row("name", STR, By("kept where it is legal, else derived"), By("kept where it is legal, else derived")),
        row("description", STR, Kept, Kept),
        row("parameters", OBJ, Kept, To("input_schema")),
        row("strict", BOOL, If(Flag::Strict, ""), If(Flag::Strict, "")),
    ],
};

pub(super) static CUSTOM: Object = Object {
    path: "tools[].custom",
    rows: &[
        row("name", STR, By("kept where it is legal, else derived"), By("kept where it is legal, else derived")),
        row("description", STR, Kept, Kept),
        row("format", OBJ, If(Flag::CustomTools, ""), Drop("a wrapped tool has no grammar")),
    ],
};

pub(super) static CUSTOM_FORMAT: Object = Object {
    path: "tools[].custom.format",
    rows: &[row("type", STR, Kept, WITH_FORMAT), row("grammar", OBJ, Kept, WITH_FORMAT)],
};

pub(super) static GRAMMAR: Object = Object {
    path: "tools[].custom.format.grammar",
    rows: &[row("definition", STR, Kept, WITH_FORMAT), row("syntax", STR, Kept, WITH_FORMAT)],
};

pub(super) static CHOICE: Object = Object {
    path: "tool_choice",
    rows: &[
        row("type", STR, Kept, Kept),
        row("function", OBJ, Kept, Kept),
        row("custom", OBJ, Kept, Kept),
        row("allowed_tools", OBJ, Kept, Near("only these tools are declared")),
        // The old `function_call`.
        row("name", STR, Kept, Kept),
    ],
};

pub(super) static ALLOWED: Object =
    Object { path: "tool_choice.allowed_tools", rows: &[row("mode", STR, Kept, Kept), row("tools", ARR, Kept, Kept)] };

pub(super) static FORMAT: Object = Object {
    path: "response_format",
    rows: &[
        row("type", STR, Kept, By("json_object is dropped")),
        row("json_schema", OBJ, If(Flag::JsonSchema, ""), If(Flag::JsonSchema, "output_config.format")),
    ],
};

pub(super) static SCHEMA: Object = Object {
    path: "response_format.json_schema",
    rows: &[
        row("name", STR, Kept, Drop("a schema has no name there")),
        row("description", STR, Kept, NO_PLACE),
        row("schema", OBJ, Kept, Kept),
        row("strict", BOOL, Kept, By("true is what there is; false is dropped")),
    ],
};

/// A named function or custom tool in a choice.
pub(super) static NAMED: Object = Object { path: "tool_choice.function", rows: &[row("name", STR, Kept, Kept)] };

/// An item of `allowed_tools.tools`, in either protocol's spelling.
pub(super) static ALLOWED_TOOL: Object = Object {
    path: "tool_choice.allowed_tools.tools[]",
    rows: &[
        row("type", STR, Kept, Kept),
        row("name", STR, Kept, Kept),
        row("function", OBJ, Kept, Kept),
        row("custom", OBJ, Kept, Kept),
        row("server_label", ANY, Drop("the provider's own tools are not carried over"), Drop("the same")),
    ],
};

pub(super) static TABLES: &[&Object] = &[
    &TOP,
    &STREAM_OPTIONS,
    &REASONING,
    &MESSAGE,
    &PART,
    &MARK,
    &IMAGE,
    &FILE,
    &CALL,
    &CALLED,
    &DETAIL,
    &TOOL,
    &FUNCTION,
    &CUSTOM,
    &CUSTOM_FORMAT,
    &GRAMMAR,
    &CHOICE,
    &ALLOWED,
    &NAMED,
    &ALLOWED_TOOL,
    &FORMAT,
    &SCHEMA,
];
