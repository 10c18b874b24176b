//! Cohere's chat, version 2, as a target: what becomes of every field there.
//!
//! Chat is what it is most like, so requests of other protocols go by Chat's column; a Chat request goes by that of
//! Responses, which is the nearest that is another protocol.

mod write;

pub(super) use write::write;

use super::flags::Flag;
use super::table::Fate::{By, Drop, If, Kept, Near, Refuse, To};
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
pub(super) const LACKS: &[Flag] = &[
    Flag::Developer,
    Flag::ParallelCalls,
    Flag::CustomTools,
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
const STRICT: Fate = Near("strict_tools, for all of them");
const ONLY: Fate = Near("only these tools are declared");
const THINKING: Fate = By("a budget of thinking with `effort`, else dropped");
const WRAPPED: Fate = Near("wrapped as a function with one input");
const BACK: Fate = By("given back as tool_plan, or as thinking with `effort`");

const FROM_CHAT: Column = Column::like(Column::RESPONSES, CHAT).without(LACKS);
const FROM_RESPONSES: Column = Column::like(Column::CHAT, RESPONSES).without(LACKS);
const FROM_MESSAGES: Column = Column::like(Column::CHAT, MESSAGES).without(LACKS);
const FROM_GEMINI: Column = Column::like(Column::CHAT, GEMINI).without(LACKS);
const FROM_HEADRACE: Column = Column::like(Column::CHAT, HEADRACE).without(LACKS);

const CHAT: &[Other] = &[
    other("", "messages", Kept),
    other("", "frequency_penalty", Kept),
    other("", "presence_penalty", Kept),
    other("", "seed", Kept),
    other("", "max_completion_tokens", To("max_tokens")),
    other("", "max_tokens", Kept),
    other("", "reasoning_effort", THINKING),
    other("reasoning", "effort", THINKING),
    other("reasoning", "max_tokens", If(Flag::Effort, "thinking.token_budget")),
    other("reasoning", "summary", NO_PLACE),
    other("", "response_format", Kept),
    other("", "stop", To("stop_sequences")),
    other("", "top_p", To("p")),
    other("messages[]", "tool_calls", Kept),
    other("messages[]", "tool_call_id", Kept),
    other("messages[]", "function_call", To("tool_calls")),
    other("messages[]", "reasoning_content", BACK),
    other("messages[]", "reasoning", BACK),
    other("messages[]", "reasoning_details", BACK),
    other("messages[].reasoning_details[]", "text", BACK),
    other("messages[].reasoning_details[]", "summary", BACK),
    other("messages[].content[].prompt_cache_breakpoint", "mode", NO_PLACE),
    other("messages[].content[].prompt_cache_breakpoint", "ttl", NO_PLACE),
    other("messages[].content[].file", "file_data", NO_FILES),
    other("messages[].content[].file", "file_id", NO_FILES),
    other("messages[].content[].file", "filename", NO_FILES),
    other("messages[].tool_calls[]", "id", Kept),
    other("messages[].tool_calls[]", "custom", Near("its input as an argument")),
    other("tools[]", "custom", WRAPPED),
    other("tools[].function", "strict", STRICT),
    other("tools[].custom.format", "type", WITH_FORMAT),
    other("tools[].custom.format", "grammar", WITH_FORMAT),
    other("tools[].custom.format.grammar", "definition", WITH_FORMAT),
    other("tools[].custom.format.grammar", "syntax", WITH_FORMAT),
    other("tool_choice", "allowed_tools", ONLY),
    other("response_format.json_schema", "name", UNNAMED),
    other("response_format.json_schema", "description", UNNAMED),
    other("response_format.json_schema", "strict", UNNAMED),
];

const RESPONSES: &[Other] = &[
    other("", "max_output_tokens", To("max_tokens")),
    other("", "top_p", To("p")),
    other("reasoning", "effort", THINKING),
    other("reasoning", "summary", NO_PLACE),
    other("text.format", "name", UNNAMED),
    other("text.format", "description", UNNAMED),
    other("text.format", "strict", UNNAMED),
    other("input[]", "summary", BACK),
    other("input[].summary[]", "text", BACK),
    other("input[].content[]", "refusal", Near("as text")),
    other("input[].content[]", "file_id", Refuse("the target holds no files")),
    other("input[].content[]", "file_url", NO_FILES),
    other("input[].content[]", "filename", NO_FILES),
    other("tools[].type", "custom", WRAPPED),
    other("tools[]", "strict", STRICT),
    other("tools[].format", "type", WITH_FORMAT),
    other("tools[].format", "definition", WITH_FORMAT),
    other("tools[].format", "syntax", WITH_FORMAT),
    other("tool_choice", "tools", ONLY),
];

const MESSAGES: &[Other] = &[
    other("", "max_tokens", Kept),
    other("", "metadata", NO_PLACE),
    other("metadata", "user_id", NO_PLACE),
    other("", "stop_sequences", Kept),
    other("", "temperature", Kept),
    other("", "top_k", To("k")),
    other("", "top_p", To("p")),
    other("output_config", "effort", THINKING),
    other("messages[].content[]", "thinking", BACK),
    other("tools[]", "strict", STRICT),
];

const GEMINI: &[Other] = &[
    other("generationConfig", "maxOutputTokens", To("max_tokens")),
    other("generationConfig", "topP", To("p")),
    other("generationConfig", "topK", To("k")),
    other("generationConfig", "stopSequences", To("stop_sequences")),
    other("generationConfig", "seed", Kept),
    other("generationConfig", "presencePenalty", To("presence_penalty")),
    other("generationConfig", "frequencyPenalty", To("frequency_penalty")),
    other("generationConfig.thinkingConfig", "includeThoughts", NO_PLACE),
    other("toolConfig.functionCallingConfig", "allowedFunctionNames", ONLY),
];

const HEADRACE: &[Other] = &[
    other("options", "max_output_tokens", To("max_tokens")),
    other("options", "top_p", To("p")),
    other("options", "top_k", To("k")),
    other("options", "presence_penalty", Kept),
    other("options", "frequency_penalty", Kept),
    other("options", "seed", Kept),
    other("options", "stop", To("stop_sequences")),
    other("options", "reasoning_effort", THINKING),
    other("options", "reasoning_budget_tokens", If(Flag::Effort, "thinking.token_budget")),
    other("options.response_format", "name", UNNAMED),
    other("options.response_format", "description", UNNAMED),
    other("options.response_format", "strict", UNNAMED),
    other("messages[].parts[].type", "refusal", Near("as text")),
    other("messages[].parts[].type", "reasoning", To("messages[].content[].thinking, or tool_plan")),
    other("tools[]", "strict", STRICT),
];
