//! Ollama's own chat as a source: what becomes of every field of a request in each target.
//!
//! Options of the server that runs the model (its context, its threads, how it samples in ways of its own) mean nothing to
//! another: they are dropped, and named.

use super::super::flags::Flag;
use super::super::table::Fate::{By, Drop, If, Kept, Needs, Ours, Refuse, To};
use super::super::table::{ARR, BOOL, Column, Fate, NUM, OBJ, Object, Other, Row, STR, Ty, other};
use super::super::{bedrock_converse, cohere_chat};
use crate::event::Protocol;

/// The column of a target.
pub(in super::super) const fn column(target: Protocol) -> Column {
    match target {
        Protocol::OpenaiResponses => Column::RESPONSES,
        Protocol::AnthropicMessages | Protocol::BedrockInvoke => Column::MESSAGES,
        Protocol::GoogleGemini => Column::like(Column::MESSAGES, GEMINI),
        Protocol::BedrockConverse => Column::MESSAGES.without(bedrock_converse::LACKS),
        Protocol::CohereChat => Column::like(Column::CHAT, COHERE).without(cohere_chat::LACKS),
        Protocol::OpenaiChat | Protocol::OllamaChat => Column::CHAT,
    }
}

/// A row: key, types, fate in Chat, in Responses, in Messages.
const fn row(key: &'static str, ty: Ty, chat: Fate, responses: Fate, messages: Fate) -> Row {
    Row { key, ty, fates: [chat, responses, messages] }
}

/// A row of one fate in all of them.
const fn all(key: &'static str, ty: Ty, fate: Fate) -> Row {
    row(key, ty, fate, fate, fate)
}

/// Of the server that runs the model.
const fn servers(key: &'static str, ty: Ty) -> Row {
    all(key, ty, Drop("the server's own"))
}

const NO_PLACE: Fate = Drop("no such parameter");
const NO_PROBABILITIES: Fate = Drop("events carry none");
const IMAGES: Fate = Needs(Flag::Images, "the target takes no pictures");
const FORMAT: Fate = By("`json`, or a schema where the target has them; else dropped");
const THOUGHT: Fate = By("given back to a vendor that wants it, else dropped");
const MATCHED: Fate = By("a result without an id answers the first open call of this tool");

pub(in super::super) static TOP: Object = Object {
    path: "",
    rows: &[
        all("model", STR, Kept),
        row("messages", ARR, Kept, To("input"), Kept),
        all("tools", ARR, Kept),
        all("stream", BOOL, Kept),
        row("format", STR.or(OBJ), FORMAT, FORMAT, By("a schema becomes output_config.format; `json` is dropped")),
        all("options", OBJ, Kept),
        row(
            "think",
            BOOL.or(STR),
            If(Flag::Effort, "reasoning_effort"),
            If(Flag::Effort, "reasoning.effort"),
            By("output_config.effort with thinking on, where the target has it"),
        ),
        all("keep_alive", STR.or(NUM), Drop("the target keeps no model for a client")),
        servers("truncate", BOOL),
        servers("shift", BOOL),
        all("logprobs", BOOL, NO_PROBABILITIES),
        all("top_logprobs", NUM, NO_PROBABILITIES),
    ],
};

pub(super) static OPTIONS: Object = Object {
    path: "options",
    rows: &[
        row("num_predict", NUM, To("max_completion_tokens"), To("max_output_tokens"), To("max_tokens")),
        row("temperature", NUM, To("temperature"), To("temperature"), If(Flag::Sampling, "temperature")),
        row("top_p", NUM, To("top_p"), To("top_p"), If(Flag::Sampling, "top_p")),
        row("top_k", NUM, If(Flag::TopK, "top_k"), NO_PLACE, If(Flag::Sampling, "top_k")),
        row("seed", NUM, If(Flag::Penalties, "seed"), NO_PLACE, NO_PLACE),
        row("presence_penalty", NUM, If(Flag::Penalties, "presence_penalty"), NO_PLACE, NO_PLACE),
        row("frequency_penalty", NUM, If(Flag::Penalties, "frequency_penalty"), NO_PLACE, NO_PLACE),
        row("stop", STR.or(ARR), To("stop"), Refuse("Responses has no stop sequences"), To("stop_sequences")),
        servers("num_ctx", NUM),
        servers("num_keep", NUM),
        servers("num_batch", NUM),
        servers("num_gpu", NUM),
        servers("num_thread", NUM),
        servers("main_gpu", NUM),
        servers("numa", BOOL),
        servers("low_vram", BOOL),
        servers("f16_kv", BOOL),
        servers("logits_all", BOOL),
        servers("vocab_only", BOOL),
        servers("use_mmap", BOOL),
        servers("use_mlock", BOOL),
        servers("embedding_only", BOOL),
        servers("min_p", NUM),
        servers("typical_p", NUM),
        servers("tfs_z", NUM),
        servers("repeat_last_n", NUM),
        servers("repeat_penalty", NUM),
        servers("penalize_newline", BOOL),
        servers("mirostat", NUM),
        servers("mirostat_tau", NUM),
        servers("mirostat_eta", NUM),
    ],
};

pub(super) static MESSAGE: Object = Object {
    path: "messages[]",
    rows: &[
        all("role", STR, Kept),
        all("content", STR, Kept),
        all("thinking", STR, THOUGHT),
        all("images", ARR, IMAGES),
        row("tool_calls", ARR, Kept, To("input[]"), To("messages[].content[]")),
        all("tool_name", STR, MATCHED),
        row("tool_call_id", STR, Kept, To("input[].call_id"), To("messages[].content[].tool_use_id")),
    ],
};

pub(super) static CALL: Object = Object {
    path: "messages[].tool_calls[]",
    rows: &[
        all("id", STR, By("kept where it is legal, else derived; made where there is none")),
        all("type", STR, Ours("there is one kind")),
        all("function", OBJ, Kept),
    ],
};

pub(super) static CALLED: Object = Object {
    path: "messages[].tool_calls[].function",
    rows: &[
        all("index", NUM, Ours("its place says it")),
        all("name", STR, By("kept where it is legal, else derived")),
        row("arguments", OBJ.or(STR), Kept, Kept, To("input")),
    ],
};

pub(super) static TOOL: Object =
    Object { path: "tools[]", rows: &[all("type", STR, Ours("there is one kind")), all("function", OBJ, Kept)] };

pub(super) static FUNCTION: Object = Object {
    path: "tools[].function",
    rows: &[
        all("name", STR, By("kept where it is legal, else derived")),
        all("description", STR, Kept),
        row("parameters", OBJ, Kept, Kept, To("input_schema")),
    ],
};

pub(in super::super) static TABLES: &[&Object] = &[&TOP, &OPTIONS, &MESSAGE, &CALL, &CALLED, &TOOL, &FUNCTION];

const GEMINI: &[Other] = &[
    other("", "messages", To("contents")),
    other("", "format", FORMAT),
    other("", "think", By("thinkingConfig, where the target has it")),
    other("options", "num_predict", To("maxOutputTokens")),
    other("options", "temperature", To("temperature")),
    other("options", "top_p", To("topP")),
    other("options", "top_k", To("topK")),
    other("options", "seed", If(Flag::Penalties, "seed")),
    other("options", "presence_penalty", If(Flag::Penalties, "presencePenalty")),
    other("options", "frequency_penalty", If(Flag::Penalties, "frequencyPenalty")),
    other("options", "stop", To("stopSequences")),
    other("messages[]", "tool_calls", To("contents[].parts[]")),
    other("messages[]", "tool_call_id", To("contents[].parts[].functionResponse.id")),
    other("messages[].tool_calls[].function", "arguments", To("args")),
    other("tools[].function", "parameters", To("parametersJsonSchema")),
];

const COHERE: &[Other] = &[
    other("", "think", By("a budget of thinking with `effort`, else dropped")),
    other("options", "num_predict", To("max_tokens")),
    other("options", "top_p", To("p")),
    other("options", "top_k", To("k")),
    other("options", "seed", To("seed")),
    other("options", "presence_penalty", To("presence_penalty")),
    other("options", "frequency_penalty", To("frequency_penalty")),
    other("options", "stop", To("stop_sequences")),
    other("messages[]", "thinking", By("given back as tool_plan, or as thinking with `effort`")),
];
