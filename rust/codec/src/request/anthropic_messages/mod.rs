//! Anthropic Messages: its request's fields, as a source and as a target.

mod blocks;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;

/// The version of Messages that Bedrock's hosts speak, as JSON.
pub(super) const BEDROCK_VERSION: &[u8] = b"\"bedrock-2023-05-31\"";

use super::flags::Flag;
use super::table::Fate::{By, Drop, If, Kept, Near, Needs, Ours, Refuse, To};
use super::table::{ANY, ARR, BOOL, Fate, NUM, OBJ, Object, Row, STR, Ty};

/// A row: key, types, fate in Chat, fate in Responses.
const fn row(key: &'static str, ty: Ty, chat: Fate, responses: Fate) -> Row {
    Row { key, ty, fates: [chat, responses, Kept] }
}

/// A row of one fate in both.
const fn both(key: &'static str, ty: Ty, fate: Fate) -> Row {
    row(key, ty, fate, fate)
}

const NO_PLACE: Fate = Drop("no such parameter");
const MARKS: Fate = Drop("OpenAI's protocols cache by themselves");
const SERVER: Fate = Drop("what a provider ran on its own side means nothing to another");
const OTHER_VENDOR: &str = "the target's vendor does not hold this file";
const NO_IMAGES: &str = "the target takes no pictures";
const NO_FILES: &str = "the target takes no files";

pub(super) static TOP: Object = Object {
    path: "",
    rows: &[
        both("model", STR, Kept),
        row("messages", ARR, Kept, To("input")),
        row("max_tokens", NUM, To("max_completion_tokens"), To("max_output_tokens")),
        both("cache_control", OBJ, MARKS),
        both("container", STR.or(OBJ), Refuse("the target has no such container")),
        both("context_management", OBJ, NO_PLACE),
        both("diagnostics", OBJ, NO_PLACE),
        both("inference_geo", STR, Refuse("the target cannot be told where to work")),
        both("mcp_servers", ARR, Drop("the provider's own tools are not carried over")),
        both("metadata", OBJ, Kept),
        both("output_config", OBJ, Kept),
        both("service_tier", STR, By("auto and standard_only have equals")),
        both("speed", STR, NO_PLACE),
        row("stop_sequences", ARR, To("stop"), Refuse("Responses has no stop sequences")),
        both("stream", BOOL, Kept),
        row("system", STR.or(ARR), To("messages[]"), To("input[]")),
        both("temperature", NUM, If(Flag::Sampling, "")),
        both("thinking", OBJ, By("a budget becomes an effort; adaptive is the default; the others are dropped")),
        both("tool_choice", OBJ, Kept),
        both("tools", ARR, Kept),
        row("top_k", NUM, If(Flag::TopK, ""), NO_PLACE),
        both("top_p", NUM, If(Flag::Sampling, "")),
        both("user_profile_id", STR, NO_PLACE),
        both("workspace_id", STR, NO_PLACE),
        // Hosts of other clouds put these into the body.
        both("anthropic_version", STR, Ours("the protocol's version is not the target's")),
        both("anthropic_beta", ARR, NO_PLACE),
        both("betas", ARR, NO_PLACE),
    ],
};

pub(super) static METADATA: Object = Object {
    path: "metadata",
    rows: &[both("user_id", STR, By("safety_identifier or user; hashed where it is longer than 64"))],
};

pub(super) static OUTPUT: Object = Object {
    path: "output_config",
    rows: &[
        row("effort", STR, If(Flag::Effort, "reasoning_effort"), If(Flag::Effort, "reasoning.effort")),
        row("format", OBJ, If(Flag::JsonSchema, "response_format"), If(Flag::JsonSchema, "text.format")),
    ],
};

pub(super) static FORMAT: Object =
    Object { path: "output_config.format", rows: &[both("type", STR, Kept), both("schema", OBJ, Kept)] };

pub(super) static THINKING: Object = Object {
    path: "thinking",
    rows: &[
        both("type", STR, By("disabled and between_tools are dropped")),
        both("budget_tokens", NUM, By("becomes an effort where none is given")),
        both("display", STR, By("summarized asks for summaries, which Chat has not; omitted is what there is")),
    ],
};

pub(super) static CHOICE: Object = Object {
    path: "tool_choice",
    rows: &[
        both("type", STR, Kept),
        both("name", STR, Kept),
        both("disable_parallel_tool_use", BOOL, If(Flag::ParallelCalls, "parallel_tool_calls")),
    ],
};

pub(super) static MESSAGE: Object =
    Object { path: "messages[]", rows: &[both("role", STR, Kept), both("content", STR.or(ARR), Kept)] };

/// A block of any type, in a message, in a result, or in a document.
pub(super) static BLOCK: Object = Object {
    path: "messages[].content[]",
    rows: &[
        both("type", STR, Kept),
        both("text", STR, Kept),
        both("cache_control", OBJ, MARKS),
        both("citations", ANY, Drop("output only, or a wish that the target does not know")),
        both("source", ANY, Kept),
        both("transformations", OBJ, NO_PLACE),
        row(
            "title",
            STR,
            By("a file's name; before a text it is dropped"),
            By("a file's name; before a text it is dropped"),
        ),
        both("context", STR, NO_PLACE),
        both("thinking", STR, By("goes with its continuation, else dropped")),
        both("signature", STR, By("carried where the same provider gave it, else dropped")),
        both("data", STR, By("carried where the same provider gave it, else dropped")),
        both("id", STR, By("kept where it is legal, else derived")),
        both("name", STR, By("kept where it is legal, else derived")),
        both("input", ANY, To("arguments")),
        both("caller", OBJ, NO_PLACE),
        both("toolset_name", STR, NO_PLACE),
        row("tool_use_id", STR, To("tool_call_id"), To("call_id")),
        both("content", ANY, Kept),
        both("is_error", BOOL, By("false is what there is; true is dropped: the text says so")),
        // Of block types that are dropped or refused whole; the type decides.
        both("file_id", ANY, Ours("its block's type decides")),
        both("tool_name", ANY, Ours("its block's type decides")),
        both("tabs", ANY, Ours("its block's type decides")),
        both("state_changes", ANY, Ours("its block's type decides")),
        both("encrypted_content", ANY, Ours("its block's type decides")),
        both("server_name", ANY, Ours("its block's type decides")),
    ],
};

/// Types of blocks.
pub(super) static BLOCK_TYPES: Object = Object {
    path: "messages[].content[].type",
    rows: &[
        both("text", ANY, Kept),
        both("image", ANY, Needs(Flag::Images, NO_IMAGES)),
        both("document", ANY, By("a file, or its text")),
        both("search_result", ANY, Near("as text")),
        both("thinking", ANY, By("carried where the same provider signed it, else dropped")),
        both("redacted_thinking", ANY, By("carried where the same provider gave it, else dropped")),
        both("tool_use", ANY, Kept),
        both("tool_result", ANY, Kept),
        both("server_tool_use", ANY, SERVER),
        both("web_search_tool_result", ANY, SERVER),
        both("web_fetch_tool_result", ANY, SERVER),
        both("code_execution_tool_result", ANY, SERVER),
        both("bash_code_execution_tool_result", ANY, SERVER),
        both("text_editor_code_execution_tool_result", ANY, SERVER),
        both("tool_search_tool_result", ANY, SERVER),
        both("advisor_tool_result", ANY, SERVER),
        both("mcp_tool_use", ANY, SERVER),
        both("mcp_tool_result", ANY, SERVER),
        both("mcp_tool_listing", ANY, SERVER),
        both("fallback", ANY, SERVER),
        both("tool_reference", ANY, Drop("every tool is declared from the start")),
        both("browser_state", ANY, Refuse("the target knows no browser state")),
        both("container_upload", ANY, Refuse("the target has no such container")),
        both("compaction", ANY, Refuse("it holds the conversation so far, for its own vendor alone")),
    ],
};

/// Where a picture's or a document's bytes are.
pub(super) static SOURCE: Object = Object {
    path: "messages[].content[].source",
    rows: &[
        both("type", STR, Kept),
        both("media_type", STR, Kept),
        both("data", STR, Kept),
        both("url", STR, By("kept; Chat takes no document by URL")),
        both("file_id", STR, Refuse(OTHER_VENDOR)),
        both("content", STR.or(ARR), Near("its parts stand in the message")),
    ],
};

pub(super) static TOOL: Object = Object {
    path: "tools[]",
    rows: &[
        both("type", STR, By("custom is a function; the vendor's own tools are dropped")),
        both("name", STR, By("kept where it is legal, else derived")),
        both("description", STR, Kept),
        both("input_schema", OBJ, To("parameters")),
        both("strict", BOOL, If(Flag::Strict, "")),
        both("cache_control", OBJ, MARKS),
        both("defer_loading", BOOL, Drop("it is declared from the start")),
        both("eager_input_streaming", BOOL, NO_PLACE),
        both("input_examples", ARR, NO_PLACE),
        both("allowed_callers", ARR, NO_PLACE),
    ],
};

/// A text block of `system`, and what a search result is made of.
pub(super) static TABLES: &[&Object] =
    &[&TOP, &METADATA, &OUTPUT, &FORMAT, &THINKING, &CHOICE, &MESSAGE, &BLOCK, &BLOCK_TYPES, &SOURCE, &TOOL];

pub(super) const NO_DOCUMENT: &str = NO_FILES;
