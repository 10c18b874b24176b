//! `OpenAI` Responses: its request's fields, as a source and as a target.

mod items;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;

use super::flags::Flag;
use super::table::Fate::{By, Drop, If, Kept, Near, Needs, Ours, Refuse, To};
use super::table::{ANY, ARR, BOOL, Fate, NUM, OBJ, Object, Row, STR, Ty};

/// A row: key, types, fate in Chat, fate in Messages.
const fn row(key: &'static str, ty: Ty, chat: Fate, messages: Fate) -> Row {
    Row { key, ty, fates: [chat, Kept, messages] }
}

/// A row of one fate in both.
const fn both(key: &'static str, ty: Ty, fate: Fate) -> Row {
    row(key, ty, fate, fate)
}

const STATE: Fate = Refuse("the gateway holds no state and the target has none of it; send the whole input");
const STORE: Fate = By("false is what there is; true passes with `extras`, else it is dropped");
const NO_PLACE: Fate = Drop("no such parameter");
const SERVER: Fate = Drop("what a provider ran on its own side means nothing to another");
const CLIENT: Fate = Refuse("the target has no tool of this kind");
const ITEM: Fate = Drop("an item's own name; calls and results are paired by call_id");
const WITH_FORMAT: Fate = Drop("with the format");
const OTHER_VENDOR: &str = "the target's vendor does not hold this file";
const NO_IMAGES: &str = "the target takes no pictures";
const NO_FILES: &str = "the target takes no files";

pub(super) static TOP: Object = Object {
    path: "",
    rows: &[
        both("model", STR, Kept),
        both("input", STR.or(ARR), To("messages")),
        row("instructions", STR, To("messages[]"), To("system")),
        both("access_programs", OBJ, NO_PLACE),
        both("background", BOOL, By("false is what there is; true is refused")),
        both("background_options", OBJ, Refuse("there is no background")),
        both("client_metadata", OBJ, NO_PLACE),
        both("context_management", ARR, NO_PLACE),
        both("conversation", STR.or(OBJ), STATE),
        both("image", OBJ, NO_PLACE),
        both("include", ARR, By("reasoning.encrypted_content is what the gateway does; others are dropped")),
        row("max_output_tokens", NUM, To("max_completion_tokens"), To("max_tokens")),
        both("max_tool_calls", NUM, Drop("it limits the provider's own tools")),
        row("metadata", OBJ, If(Flag::Extras, ""), NO_PLACE),
        row(
            "moderation",
            OBJ,
            Needs(Flag::Extras, "the target does not moderate"),
            Refuse("the target does not moderate"),
        ),
        row("parallel_tool_calls", BOOL, If(Flag::ParallelCalls, ""), To("tool_choice.disable_parallel_tool_use")),
        both("previous_response_id", STR, STATE),
        both("prompt", OBJ, Refuse("a stored prompt is with its vendor")),
        row("prompt_cache_key", STR, If(Flag::Extras, ""), NO_PLACE),
        both("prompt_cache_options", OBJ, NO_PLACE),
        row("prompt_cache_retention", STR, If(Flag::Extras, ""), NO_PLACE),
        both("reasoning", OBJ, Kept),
        row("safety_identifier", STR, If(Flag::Extras, ""), To("metadata.user_id")),
        both("service_tier", STR, By("kept where the target has it, else dropped")),
        row("store", BOOL, STORE, By("false is what there is; true is dropped")),
        both("stream", BOOL, Kept),
        both("stream_options", OBJ, Drop("the encoder pads nothing")),
        row("temperature", NUM, Kept, If(Flag::Sampling, "")),
        both("text", OBJ, Kept),
        both("tool_choice", STR.or(OBJ), Kept),
        both("tools", ARR, Kept),
        both("top_logprobs", NUM, Drop("events carry none")),
        row("top_p", NUM, Kept, If(Flag::Sampling, "")),
        both("truncation", STR, By("disabled is what there is; auto is dropped")),
        row("user", STR, If(Flag::Extras, ""), To("metadata.user_id")),
    ],
};

pub(super) static REASONING: Object = Object {
    path: "reasoning",
    rows: &[
        row(
            "effort",
            STR,
            If(Flag::Effort, "reasoning_effort"),
            By("output_config.effort with thinking on, where the target has it"),
        ),
        row("summary", STR, Drop("Chat shows no summaries"), To("thinking.display")),
        both("generate_summary", STR, Drop("the old name of summary")),
        both("context", STR, NO_PLACE),
        both("mode", STR, NO_PLACE),
    ],
};

pub(super) static TEXT: Object = Object {
    path: "text",
    rows: &[
        row("format", OBJ, To("response_format"), By("a schema becomes output_config.format; json_object is dropped")),
        row("verbosity", STR, If(Flag::Extras, "verbosity"), NO_PLACE),
    ],
};

pub(super) static FORMAT: Object = Object {
    path: "text.format",
    rows: &[
        row("type", STR, Kept, By("json_object is dropped")),
        row("name", STR, Kept, Drop("a schema has no name there")),
        row("description", STR, Kept, NO_PLACE),
        both("schema", OBJ, If(Flag::JsonSchema, "")),
        row("strict", BOOL, Kept, By("true is what there is; false is dropped")),
    ],
};

/// An input item of any type.
pub(super) static ITEM_FIELDS: Object = Object {
    path: "input[]",
    rows: &[
        both("type", STR, Kept),
        both("role", STR, Kept),
        both("content", STR.or(ARR), Kept),
        both("phase", STR, NO_PLACE),
        both("id", STR, ITEM),
        both("status", STR, Drop("what is sent is whole")),
        both("call_id", STR, By("kept where it is legal, else derived")),
        both("name", STR, By("kept where it is legal, else derived")),
        both("namespace", STR, Near("one name with the tool's: namespace__name")),
        row("arguments", STR.or(OBJ), Kept, To("input")),
        row("input", STR, By("kept, or wrapped as an object with one input"), To("input.input")),
        both("output", STR.or(ARR), To("content")),
        both("caller", OBJ, NO_PLACE),
        both("async", BOOL, NO_PLACE),
        both("summary", ARR, By("goes with its continuation, else dropped")),
        both("encrypted_content", STR, By("carried where the same provider gave it, else dropped")),
        both("tools", ARR, To("tools")),
        // Of item types that are dropped or refused whole; the type decides.
        both("action", ANY, Ours("its item's type decides")),
        both("actions", ANY, Ours("its item's type decides")),
        both("queries", ANY, Ours("its item's type decides")),
        both("results", ANY, Ours("its item's type decides")),
        both("result", ANY, Ours("its item's type decides")),
        both("code", ANY, Ours("its item's type decides")),
        both("container_id", ANY, Ours("its item's type decides")),
        both("outputs", ANY, Ours("its item's type decides")),
        both("server_label", ANY, Ours("its item's type decides")),
        both("error", ANY, Ours("its item's type decides")),
        both("operation", ANY, Ours("its item's type decides")),
        both("execution", ANY, Ours("its item's type decides")),
        both("approval_request_id", ANY, Ours("its item's type decides")),
        both("approve", ANY, Ours("its item's type decides")),
        both("reason", ANY, Ours("its item's type decides")),
        both("environment", ANY, Ours("its item's type decides")),
        both("max_output_length", ANY, Ours("its item's type decides")),
        both("pending_safety_checks", ANY, Ours("its item's type decides")),
        both("acknowledged_safety_checks", ANY, Ours("its item's type decides")),
        both("fingerprint", ANY, Ours("its item's type decides")),
        both("reasoning", ANY, Ours("its item's type decides")),
        both("text", ANY, Ours("its item's type decides")),
        both("background", ANY, Ours("its item's type decides")),
        both("output_format", ANY, Ours("its item's type decides")),
        both("quality", ANY, Ours("its item's type decides")),
        both("revised_prompt", ANY, Ours("its item's type decides")),
        both("size", ANY, Ours("its item's type decides")),
        both("svg_usage", ANY, Ours("its item's type decides")),
    ],
};

/// Types of input items.
pub(super) static ITEM_TYPES: Object = Object {
    path: "input[].type",
    rows: &[
        both("message", ANY, Kept),
        both("reasoning", ANY, By("carried where the same provider gave it, else dropped")),
        both("function_call", ANY, Kept),
        both("function_call_output", ANY, Kept),
        both("custom_tool_call", ANY, By("kept, or wrapped as an object with one input")),
        both("custom_tool_call_output", ANY, Kept),
        both("additional_tools", ANY, To("tools")),
        both("item_reference", ANY, STATE),
        both("compaction", ANY, Refuse("it holds the conversation so far, for its own vendor alone")),
        both("compaction_trigger", ANY, Refuse("the target does not compact")),
        both("configuration_update", ANY, NO_PLACE),
        both("web_search_call", ANY, SERVER),
        both("file_search_call", ANY, SERVER),
        both("code_interpreter_call", ANY, SERVER),
        both("image_generation_call", ANY, SERVER),
        both("mcp_list_tools", ANY, SERVER),
        both("mcp_call", ANY, SERVER),
        both("mcp_approval_request", ANY, CLIENT),
        both("mcp_approval_response", ANY, CLIENT),
        both("tool_search_call", ANY, CLIENT),
        both("tool_search_output", ANY, CLIENT),
        both("computer_call", ANY, CLIENT),
        both("computer_call_output", ANY, CLIENT),
        both("shell_call", ANY, CLIENT),
        both("shell_call_output", ANY, CLIENT),
        both("local_shell_call", ANY, CLIENT),
        both("local_shell_call_output", ANY, CLIENT),
        both("apply_patch_call", ANY, CLIENT),
        both("apply_patch_call_output", ANY, CLIENT),
        both("program", ANY, CLIENT),
        both("program_output", ANY, CLIENT),
    ],
};

pub(super) static PART: Object = Object {
    path: "input[].content[]",
    rows: &[
        both("type", STR, Kept),
        both("text", STR, Kept),
        row("refusal", STR, Kept, Near("as text")),
        both("image_url", STR, Needs(Flag::Images, NO_IMAGES)),
        row("detail", STR, By("kept for a picture, dropped for a file"), NO_PLACE),
        row("file_id", STR, By("kept for a file, refused for a picture"), Refuse(OTHER_VENDOR)),
        both("file_data", STR, Needs(Flag::Files, NO_FILES)),
        row("file_url", STR, Refuse("Chat takes no file by URL"), Needs(Flag::Files, NO_FILES)),
        row("filename", STR, Kept, To("title")),
        row("prompt_cache_breakpoint", OBJ, If(Flag::Extras, ""), If(Flag::CacheMarks, "cache_control")),
        both("annotations", ARR, Drop("output only")),
        both("logprobs", ARR, Drop("output only")),
    ],
};

/// Texts of a reasoning item.
pub(super) static SUMMARY: Object = Object {
    path: "input[].summary[]",
    rows: &[
        both("type", STR, Ours("the slot's own form")),
        both("text", STR, By("goes with its continuation, else dropped")),
    ],
};

pub(super) static TOOL: Object = Object {
    path: "tools[]",
    rows: &[
        both("type", STR, Kept),
        both("name", STR, By("kept where it is legal, else derived; in a namespace namespace__name")),
        both("description", STR, By("kept; a namespace's own is dropped")),
        row("parameters", OBJ, Kept, To("input_schema")),
        both("strict", BOOL, If(Flag::Strict, "")),
        row("format", OBJ, If(Flag::CustomTools, ""), Drop("a wrapped tool has no grammar")),
        both("tools", ARR, Near("flattened: namespace__name")),
        both("defer_loading", BOOL, Drop("it is declared from the start")),
        both("allowed_callers", ARR, NO_PLACE),
        both("output_schema", OBJ, NO_PLACE),
        both("async", BOOL, NO_PLACE),
    ],
};

/// Types of tools. A provider's own tool is a hint: the model can answer without it.
pub(super) static TOOL_TYPES: Object = Object {
    path: "tools[].type",
    rows: &[
        both("function", ANY, Kept),
        row(
            "custom",
            ANY,
            By("kept, or wrapped as a function with one input"),
            Near("wrapped as a function with one input"),
        ),
        both("namespace", ANY, Near("flattened: namespace__name")),
    ],
};

pub(super) static CUSTOM_FORMAT: Object = Object {
    path: "tools[].format",
    rows: &[
        row("type", STR, Kept, WITH_FORMAT),
        row("definition", STR, Kept, WITH_FORMAT),
        row("syntax", STR, Kept, WITH_FORMAT),
    ],
};

pub(super) static CHOICE: Object = Object {
    path: "tool_choice",
    rows: &[
        both("type", STR, Kept),
        both("name", STR, Kept),
        both("mode", STR, Kept),
        row("tools", ARR, By("kept, or only these tools are declared"), Near("only these tools are declared")),
        both("server_label", STR, Ours("its type decides")),
    ],
};

pub(super) static TABLES: &[&Object] = &[
    &TOP,
    &REASONING,
    &TEXT,
    &FORMAT,
    &ITEM_FIELDS,
    &ITEM_TYPES,
    &PART,
    &SUMMARY,
    &TOOL,
    &TOOL_TYPES,
    &CUSTOM_FORMAT,
    &CHOICE,
];
