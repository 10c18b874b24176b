//! Ollama's own chat as a target: what becomes of every field there. As a source: [`source`].
//!
//! Chat is what it is most like, so requests of other protocols go by Chat's column; a Chat request goes by that of
//! Responses, which is the nearest that is another protocol. Names that begin with `options.` stand in that object.

mod read;
mod source;
mod write;

pub(super) use read::read;
pub(super) use source::{TABLES, column as column_to};
pub(super) use write::write;

use super::flags::Flag;
use super::table::Fate::{By, Drop, If, Kept, Near, Ours, Refuse, To};
use super::table::{Column, Fate, Other, other};
use super::{Protocol, Source};

/// The column of a source.
pub(super) const fn column(source: Source) -> Column {
    match source {
        Source::Protocol(Protocol::OpenaiChat) => FROM_CHAT,
        Source::Protocol(Protocol::OpenaiResponses) => FROM_RESPONSES,
        Source::Protocol(Protocol::GoogleGemini) => FROM_GEMINI,
        Source::Protocol(_) => FROM_MESSAGES,
        Source::Headrace => FROM_HEADRACE,
    }
}

/// What the protocol has no place for.
const LACKS: &[Flag] = &[
    Flag::Developer,
    Flag::Strict,
    Flag::ParallelCalls,
    Flag::CustomTools,
    Flag::RequiredChoice,
    Flag::AllowedTools,
    Flag::Files,
    Flag::Audio,
    Flag::Extras,
    Flag::CacheMarks,
    Flag::EncryptedReasoning,
];

const NO_PLACE: Fate = Drop("no such parameter");
const NO_FILES: Fate = Refuse("the target takes no files");
const UNNAMED: Fate = Drop("a schema is all there is");
const WITH_FORMAT: Fate = Drop("with the format");
const NO_LINKS: Fate = Refuse("the target fetches nothing; send the bytes");
const NO_FORCE: Fate = Refuse("the target cannot be made to call a tool");
const MODES: Fate = By("auto is what there is; for none no tool is declared; the others are refused");
const ONLY: Fate = Near("only these tools are declared");
const THINK: Fate = By("think with `effort`, in three levels; else dropped");
const WRAPPED: Fate = Near("wrapped as a function with one input");
const BARE: Fate = Ours("the bytes say it");
const BACK: Fate = To("messages[].thinking");
const BYTES: Fate = By("the bytes in a data URL; the target fetches none, so a link is refused");

const FROM_CHAT: Column = Column::like(Column::RESPONSES, CHAT).without(LACKS);
const FROM_RESPONSES: Column = Column::like(Column::CHAT, RESPONSES).without(LACKS);
const FROM_MESSAGES: Column = Column::like(Column::CHAT, MESSAGES).without(LACKS);
const FROM_GEMINI: Column = Column::like(Column::CHAT, GEMINI).without(LACKS);
const FROM_HEADRACE: Column = Column::like(Column::CHAT, HEADRACE).without(LACKS);

const CHAT: &[Other] = &[
    other("", "messages", Kept),
    other("", "frequency_penalty", To("options.frequency_penalty")),
    other("", "presence_penalty", To("options.presence_penalty")),
    other("", "seed", To("options.seed")),
    other("", "max_completion_tokens", To("options.num_predict")),
    other("", "max_tokens", To("options.num_predict")),
    other("", "reasoning_effort", THINK),
    other("reasoning", "effort", THINK),
    other("reasoning", "summary", NO_PLACE),
    other("", "response_format", To("format")),
    other("", "stop", To("options.stop")),
    other("", "temperature", To("options.temperature")),
    other("", "top_p", To("options.top_p")),
    other("", "tool_choice", MODES),
    other("", "function_call", MODES),
    other("messages[]", "tool_calls", Kept),
    other("messages[]", "tool_call_id", Kept),
    other("messages[]", "function_call", To("tool_calls")),
    other("messages[]", "reasoning_content", BACK),
    other("messages[]", "reasoning", BACK),
    other("messages[]", "reasoning_details", BACK),
    other("messages[].reasoning_details[]", "text", BACK),
    other("messages[].reasoning_details[]", "summary", BACK),
    other("messages[].content[].image_url", "url", BYTES),
    other("messages[].content[].image_url", "detail", NO_PLACE),
    other("messages[].content[].prompt_cache_breakpoint", "mode", NO_PLACE),
    other("messages[].content[].prompt_cache_breakpoint", "ttl", NO_PLACE),
    other("messages[].content[].file", "file_data", NO_FILES),
    other("messages[].content[].file", "file_id", NO_FILES),
    other("messages[].content[].file", "filename", NO_FILES),
    other("messages[].tool_calls[]", "id", Kept),
    other("messages[].tool_calls[]", "custom", Near("its input as an argument")),
    other("tools[]", "custom", WRAPPED),
    other("tools[].custom.format", "type", WITH_FORMAT),
    other("tools[].custom.format", "grammar", WITH_FORMAT),
    other("tools[].custom.format.grammar", "definition", WITH_FORMAT),
    other("tools[].custom.format.grammar", "syntax", WITH_FORMAT),
    other("tool_choice", "type", MODES),
    other("tool_choice", "function", NO_FORCE),
    other("tool_choice", "custom", NO_FORCE),
    other("tool_choice", "name", NO_FORCE),
    other("tool_choice.function", "name", MODES),
    other("tool_choice", "allowed_tools", ONLY),
    other("response_format.json_schema", "name", UNNAMED),
    other("response_format.json_schema", "description", UNNAMED),
    other("response_format.json_schema", "strict", UNNAMED),
];

const RESPONSES: &[Other] = &[
    other("", "max_output_tokens", To("options.num_predict")),
    other("", "temperature", To("options.temperature")),
    other("", "top_p", To("options.top_p")),
    other("", "tool_choice", MODES),
    other("reasoning", "effort", THINK),
    other("reasoning", "summary", NO_PLACE),
    other("text", "format", To("format")),
    other("text.format", "name", UNNAMED),
    other("text.format", "description", UNNAMED),
    other("text.format", "strict", UNNAMED),
    other("input[]", "summary", BACK),
    other("input[].summary[]", "text", BACK),
    other("input[].content[]", "refusal", Near("as text")),
    other("input[].content[]", "image_url", BYTES),
    other("input[].content[]", "detail", NO_PLACE),
    other("input[].content[]", "file_id", Refuse("the target holds no files")),
    other("input[].content[]", "file_url", NO_FILES),
    other("input[].content[]", "filename", NO_FILES),
    other("tools[].type", "custom", WRAPPED),
    other("tools[].format", "type", WITH_FORMAT),
    other("tools[].format", "definition", WITH_FORMAT),
    other("tools[].format", "syntax", WITH_FORMAT),
    other("tool_choice", "type", MODES),
    other("tool_choice", "name", NO_FORCE),
    other("tool_choice", "tools", ONLY),
    other("tool_choice", "server_label", MODES),
];

const MESSAGES: &[Other] = &[
    other("", "max_tokens", To("options.num_predict")),
    other("", "metadata", NO_PLACE),
    other("metadata", "user_id", NO_PLACE),
    other("", "stop_sequences", To("options.stop")),
    other("", "temperature", To("options.temperature")),
    other("", "top_k", To("options.top_k")),
    other("", "top_p", To("options.top_p")),
    other("", "tool_choice", MODES),
    other("output_config", "effort", THINK),
    other("output_config", "format", If(Flag::JsonSchema, "format")),
    other("messages[].content[]", "thinking", BACK),
    other("messages[].content[].source", "media_type", BARE),
    other("messages[].content[].source", "url", NO_LINKS),
    other("tool_choice", "type", MODES),
    other("tool_choice", "name", NO_FORCE),
];

const GEMINI: &[Other] = &[
    other("contents[].parts[]", "fileData", NO_LINKS),
    other("contents[].parts[].fileData", "mimeType", NO_LINKS),
    other("contents[].parts[].fileData", "fileUri", NO_LINKS),
    other("contents[].parts[].fileData", "displayName", NO_LINKS),
    other("contents[].parts[].inlineData", "mimeType", BARE),
    other("toolConfig", "functionCallingConfig", MODES),
    other("generationConfig", "maxOutputTokens", To("options.num_predict")),
    other("generationConfig", "temperature", To("options.temperature")),
    other("generationConfig", "topP", To("options.top_p")),
    other("generationConfig", "topK", To("options.top_k")),
    other("generationConfig", "stopSequences", To("options.stop")),
    other("generationConfig", "seed", To("options.seed")),
    other("generationConfig", "presencePenalty", To("options.presence_penalty")),
    other("generationConfig", "frequencyPenalty", To("options.frequency_penalty")),
    other("generationConfig", "responseSchema", To("format")),
    other("generationConfig", "responseJsonSchema", To("format")),
    other("generationConfig.thinkingConfig", "includeThoughts", NO_PLACE),
    other("toolConfig.functionCallingConfig", "mode", MODES),
    other("toolConfig.functionCallingConfig", "allowedFunctionNames", ONLY),
];

const HEADRACE: &[Other] = &[
    other("options", "max_output_tokens", To("options.num_predict")),
    other("options", "temperature", To("options.temperature")),
    other("options", "top_p", To("options.top_p")),
    other("options", "top_k", To("options.top_k")),
    other("options", "presence_penalty", To("options.presence_penalty")),
    other("options", "frequency_penalty", To("options.frequency_penalty")),
    other("options", "seed", To("options.seed")),
    other("options", "stop", To("options.stop")),
    other("options", "tool_choice", MODES),
    other("options.tool_choice", "mode", MODES),
    other("options.tool_choice", "name", NO_FORCE),
    other("options", "reasoning_effort", THINK),
    other("options", "reasoning_budget_tokens", THINK),
    other("options", "response_format", To("format")),
    other("options.response_format", "name", UNNAMED),
    other("options.response_format", "description", UNNAMED),
    other("options.response_format", "strict", UNNAMED),
    other("messages[].parts[]", "mime", BARE),
    other("messages[].parts[]", "extra", Drop("a part has no members of its own there")),
    other("messages[].parts[]", "url", BYTES),
    other("messages[].parts[]", "detail", NO_PLACE),
    other("messages[].parts[].type", "refusal", Near("as text")),
    other("messages[].parts[].type", "reasoning", BACK),
];
