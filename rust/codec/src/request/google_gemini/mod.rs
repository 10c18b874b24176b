//! Gemini's `generateContent`: its request's fields, as a source and as a target.
//!
//! The model and how the answer streams stand in the URL and not in the body: whoever takes a client's request puts them
//! into the body as `model`, `stream` and `alt` ([`relay`](super::relay) takes them out again). A body may spell its keys in
//! `camelCase` or in `snake_case`, as protocol buffers allow.

mod columns;
mod read;
mod schema;
mod signatures;
mod write;

pub(super) use columns::column;
pub(super) use read::read;
pub(super) use schema::prepared;
pub(super) use signatures::scrub;
pub(super) use write::write;

use super::flags::Flag;
use super::table::Fate::{By, Drop, If, Kept, Near, Ours, Refuse, To};
use super::table::{ARR, BOOL, Fate, NUM, OBJ, Object, Row, STR, Ty};

/// A row: key, types, fates in Chat, Responses and Messages.
const fn row(key: &'static str, ty: Ty, chat: Fate, responses: Fate, messages: Fate) -> Row {
    Row { key, ty, fates: [chat, responses, messages] }
}

const fn all(key: &'static str, ty: Ty, fate: Fate) -> Row {
    row(key, ty, fate, fate, fate)
}

const NO_PLACE: Fate = Drop("no such parameter");
const SERVER: Fate = Drop("the provider's own tools are not carried over");
/// An empty object asks for it too.
const HOSTED: Fate = By("dropped: the provider's own tools are not carried over");
const RAN: Fate = Drop("what a provider ran on its own side means nothing to another");
const BY_SIGNATURE: Fate = By("carried where the same provider gave it, else dropped");

pub(super) static TOP: Object = Object {
    path: "",
    rows: &[
        // The three that the gateway lifts out of the URL.
        all("model", STR, Ours("it stands in the URL")),
        all("stream", BOOL, Kept),
        all("alt", STR, Ours("the form of the client's own stream")),
        row("contents", ARR, To("messages"), To("input"), To("messages")),
        row("systemInstruction", OBJ.or(STR), To("messages[]"), To("instructions"), To("system")),
        all("tools", ARR, Kept),
        all("toolConfig", OBJ, To("tool_choice")),
        all("generationConfig", OBJ, Kept),
        all("safetySettings", ARR, Drop("the target filters by its own rules")),
        all("cachedContent", STR, Refuse("what the vendor has cached is with it alone")),
        all("labels", OBJ, NO_PLACE),
        all("serviceTier", STR, NO_PLACE),
        all("store", BOOL, NO_PLACE),
    ],
};

pub(super) static CONTENT: Object =
    Object { path: "contents[]", rows: &[all("role", STR, Kept), all("parts", ARR, To("content"))] };

pub(super) static SYSTEM: Object = Object {
    path: "systemInstruction",
    rows: &[all("role", STR, Ours("there is but one")), all("parts", ARR, To("content"))],
};

pub(super) static PART: Object = Object {
    path: "contents[].parts[]",
    rows: &[
        all("text", STR, Kept),
        all("thought", BOOL, By("a thought goes with its continuation, else it is dropped")),
        all("thoughtSignature", STR, BY_SIGNATURE),
        all("inlineData", OBJ, Kept),
        all("fileData", OBJ, Kept),
        row("functionCall", OBJ, To("tool_calls[]"), To("input[]"), To("content[]")),
        row("functionResponse", OBJ, To("messages[]"), To("input[]"), To("content[]")),
        all("executableCode", OBJ, RAN),
        all("codeExecutionResult", OBJ, RAN),
        all("toolCall", OBJ, RAN),
        all("toolResponse", OBJ, RAN),
        all("videoMetadata", OBJ, NO_PLACE),
        all("mediaResolution", OBJ.or(STR), NO_PLACE),
        all("partMetadata", OBJ, NO_PLACE),
    ],
};

pub(super) static INLINE: Object = Object {
    path: "contents[].parts[].inlineData",
    rows: &[
        all("mimeType", STR, By("a picture, or a file; sound is refused")),
        all("data", STR, Kept),
        all("displayName", STR, NO_PLACE),
    ],
};

pub(super) static FILE: Object = Object {
    path: "contents[].parts[].fileData",
    rows: &[
        all("mimeType", STR, By("a picture, or a file; sound is refused")),
        all("fileUri", STR, By("kept; Chat takes no file by URL, and what the vendor holds is refused")),
        all("displayName", STR, NO_PLACE),
    ],
};

pub(super) static CALL: Object = Object {
    path: "contents[].parts[].functionCall",
    rows: &[
        all("id", STR, By("kept where it is legal, else derived")),
        all("name", STR, By("kept where it is legal, else derived")),
        row("args", OBJ, To("arguments"), To("arguments"), To("input")),
        all("partialArgs", ARR, Refuse("a call that is given back is whole")),
        all("willContinue", BOOL, Ours("a call that is given back is whole")),
    ],
};

pub(super) static RESULT: Object = Object {
    path: "contents[].parts[].functionResponse",
    rows: &[
        all("id", STR, By("kept where it is legal, else derived")),
        all("name", STR, Ours("the call's id says whose result it is")),
        all("response", OBJ, Kept),
        all("parts", ARR, To("content")),
        all("willContinue", BOOL, NO_PLACE),
        all("scheduling", STR, NO_PLACE),
    ],
};

pub(super) static CONFIG: Object = Object {
    path: "generationConfig",
    rows: &[
        row("maxOutputTokens", NUM, To("max_completion_tokens"), To("max_output_tokens"), To("max_tokens")),
        row("temperature", NUM, Kept, Kept, If(Flag::Sampling, "")),
        row("topP", NUM, To("top_p"), To("top_p"), If(Flag::Sampling, "top_p")),
        row("topK", NUM, If(Flag::TopK, "top_k"), NO_PLACE, If(Flag::Sampling, "top_k")),
        all("candidateCount", NUM, By("1 is what there is; more is refused")),
        row("stopSequences", ARR, To("stop"), Refuse("Responses has no stop sequences"), To("stop_sequences")),
        row("seed", NUM, If(Flag::Penalties, ""), NO_PLACE, NO_PLACE),
        row("presencePenalty", NUM, If(Flag::Penalties, "presence_penalty"), NO_PLACE, NO_PLACE),
        row("frequencyPenalty", NUM, If(Flag::Penalties, "frequency_penalty"), NO_PLACE, NO_PLACE),
        all("responseMimeType", STR, By("text/plain and application/json are carried, others are refused")),
        // What it is written in becomes JSON Schema.
        row("responseSchema", OBJ, To("response_format"), To("text.format"), To("output_config.format")),
        row("responseJsonSchema", OBJ, To("response_format"), To("text.format"), To("output_config.format")),
        all("responseModalities", ARR, By("text alone is what there is; others are refused")),
        all("imageConfig", OBJ, NO_PLACE),
        all("thinkingConfig", OBJ, Kept),
        all("mediaResolution", STR, NO_PLACE),
        all("speechConfig", OBJ, NO_PLACE),
        all("responseLogprobs", BOOL, Drop("events carry none")),
        all("logprobs", NUM, Drop("events carry none")),
        all("enableAffectiveDialog", BOOL, NO_PLACE),
        all("routingConfig", OBJ, NO_PLACE),
        all("modelSelectionConfig", OBJ, NO_PLACE),
        all("audioTimestamp", BOOL, NO_PLACE),
    ],
};

pub(super) static THINKING: Object = Object {
    path: "generationConfig.thinkingConfig",
    rows: &[
        row(
            "includeThoughts",
            BOOL,
            Drop("Chat shows what it shows"),
            By("asks for summaries"),
            By("asks for summaries, with thinking on"),
        ),
        all("thinkingBudget", NUM, By("as an effort, or as a budget where the target has one")),
        all("thinkingLevel", STR, By("as an effort, where the target has one")),
    ],
};

pub(super) static TOOL: Object = Object {
    path: "tools[]",
    rows: &[
        all("functionDeclarations", ARR, To("tools")),
        all("googleSearch", OBJ, HOSTED),
        all("googleSearchRetrieval", OBJ, HOSTED),
        all("urlContext", OBJ, HOSTED),
        all("codeExecution", OBJ, HOSTED),
        all("fileSearch", OBJ, HOSTED),
        all("googleMaps", OBJ, HOSTED),
        all("computerUse", OBJ, HOSTED),
        all("mcpServers", ARR, HOSTED),
        all("retrieval", OBJ, HOSTED),
        all("enterpriseWebSearch", OBJ, HOSTED),
        all("parallelAiSearch", OBJ, HOSTED),
        all("exaAiSearch", OBJ, HOSTED),
    ],
};

pub(super) static DECLARATION: Object = Object {
    path: "tools[].functionDeclarations[]",
    rows: &[
        all("name", STR, By("kept where it is legal, else derived")),
        all("description", STR, Kept),
        // What it is written in becomes JSON Schema.
        row("parameters", OBJ, Kept, Kept, To("input_schema")),
        row("parametersJsonSchema", OBJ, To("parameters"), To("parameters"), To("input_schema")),
        all("response", OBJ, NO_PLACE),
        all("responseJsonSchema", OBJ, NO_PLACE),
        all("behavior", STR, NO_PLACE),
    ],
};

pub(super) static TOOL_CONFIG: Object = Object {
    path: "toolConfig",
    rows: &[
        all("functionCallingConfig", OBJ, To("tool_choice")),
        all("retrievalConfig", OBJ, SERVER),
        all("includeServerSideToolInvocations", BOOL, SERVER),
    ],
};

pub(super) static CHOICE: Object = Object {
    path: "toolConfig.functionCallingConfig",
    rows: &[
        all("mode", STR, To("tool_choice")),
        row("allowedFunctionNames", ARR, To("tool_choice"), To("tool_choice"), Near("only these tools are declared")),
        all("streamFunctionCallArguments", BOOL, Ours("arguments are streamed where the target streams them")),
    ],
};

pub(super) static TABLES: &[&Object] = &[
    &TOP,
    &CONTENT,
    &SYSTEM,
    &PART,
    &INLINE,
    &FILE,
    &CALL,
    &RESULT,
    &CONFIG,
    &THINKING,
    &TOOL,
    &DECLARATION,
    &TOOL_CONFIG,
    &CHOICE,
];

const NO_IMAGES: &str = "the target takes no pictures";
const NO_FILES: &str = "the target takes no files";
const NO_AUDIO: &str = "the target takes no sound";
