//! What becomes of the other sources' fields in Gemini: the column that it goes by, and where it differs.

use super::super::Source;
use super::super::flags::Flag;
use super::super::table::Fate::{By, Drop, If, Kept, Needs, To};
use super::super::table::{Column, Fate, Other, other};
use crate::event::Protocol;

/// The column of a source with Gemini as the target.
pub(in super::super) const fn column(source: Source) -> Column {
    match source {
        Source::Protocol(Protocol::OpenaiResponses) => Column::like(Column::MESSAGES, RESPONSES),
        Source::Protocol(Protocol::AnthropicMessages) => Column::like(Column::CHAT, MESSAGES),
        Source::Headrace => Column::like(Column::MESSAGES, HEADRACE),
        Source::Protocol(_) => Column::like(Column::MESSAGES, CHAT),
    }
}

const NO_PLACE: Fate = Drop("no such parameter");
const CACHE: Fate = Drop("Gemini caches by itself");
const EFFORT: Fate = By("thinkingConfig, where the target has it");
const FORMAT: Fate = To("responseJsonSchema");

const CHAT: &[Other] = &[
    other("", "messages", To("contents")),
    other("", "frequency_penalty", If(Flag::Penalties, "frequencyPenalty")),
    other("", "presence_penalty", If(Flag::Penalties, "presencePenalty")),
    other("", "seed", If(Flag::Penalties, "")),
    other("", "function_call", To("toolConfig")),
    other("", "max_completion_tokens", To("maxOutputTokens")),
    other("", "max_tokens", To("maxOutputTokens")),
    other("", "parallel_tool_calls", NO_PLACE),
    other("", "reasoning_effort", EFFORT),
    other("", "response_format", FORMAT),
    other("", "safety_identifier", NO_PLACE),
    other("", "user", NO_PLACE),
    other("", "service_tier", NO_PLACE),
    other("", "stop", To("stopSequences")),
    other("", "temperature", Kept),
    other("", "top_p", To("topP")),
    other("", "tool_choice", To("toolConfig")),
    other("messages[]", "tool_calls", To("contents[].parts[]")),
    other("messages[]", "tool_call_id", To("contents[].parts[].functionResponse.id")),
    other("messages[]", "function_call", To("contents[].parts[]")),
    other("messages[].content[]", "prompt_cache_breakpoint", CACHE),
    other("messages[].content[].prompt_cache_breakpoint", "mode", CACHE),
    other("messages[].content[].prompt_cache_breakpoint", "ttl", CACHE),
    other("messages[].content[].file", "file_data", To("inlineData.data")),
    other("messages[].content[].file", "filename", NO_PLACE),
    other("messages[].tool_calls[]", "custom", To("args")),
    other("messages[].tool_calls[].function", "arguments", To("args")),
    other("messages[].tool_calls[].function", "input", To("args.input")),
    other("tools[].function", "parameters", To("parametersJsonSchema")),
    other("tools[].function", "strict", NO_PLACE),
    other("response_format", "type", Kept),
    other("response_format", "json_schema", If(Flag::JsonSchema, "responseJsonSchema")),
];

const RESPONSES: &[Other] = &[
    other("", "input", To("contents")),
    other("", "instructions", To("systemInstruction")),
    other("", "max_output_tokens", To("maxOutputTokens")),
    other("", "parallel_tool_calls", NO_PLACE),
    other("", "safety_identifier", NO_PLACE),
    other("", "user", NO_PLACE),
    other("", "service_tier", NO_PLACE),
    other("", "temperature", Kept),
    other("", "top_p", To("topP")),
    other("", "tool_choice", To("toolConfig")),
    other("reasoning", "effort", EFFORT),
    other("reasoning", "summary", To("thinkingConfig.includeThoughts")),
    other("text", "format", FORMAT),
    other("text.format", "type", Kept),
    other("input[]", "arguments", To("args")),
    other("input[]", "input", To("args.input")),
    other("input[]", "output", To("functionResponse.response")),
    other("input[].content[]", "filename", NO_PLACE),
    other("input[].content[]", "prompt_cache_breakpoint", CACHE),
    other("tools[]", "parameters", To("parametersJsonSchema")),
    other("tools[]", "strict", NO_PLACE),
];

const MESSAGES: &[Other] = &[
    other("", "messages", To("contents")),
    other("", "max_tokens", To("maxOutputTokens")),
    other("", "service_tier", NO_PLACE),
    other("", "stop_sequences", To("stopSequences")),
    other("", "system", To("systemInstruction")),
    other("", "temperature", Kept),
    other("", "top_k", To("topK")),
    other("", "top_p", To("topP")),
    other("", "tool_choice", To("toolConfig")),
    other("", "cache_control", CACHE),
    other("", "metadata", NO_PLACE),
    other("metadata", "user_id", NO_PLACE),
    other("output_config", "effort", EFFORT),
    other("output_config", "format", If(Flag::JsonSchema, "responseJsonSchema")),
    other("thinking", "type", By("thinkingConfig; between_tools is dropped")),
    other("thinking", "budget_tokens", EFFORT),
    other("thinking", "display", By("omitted asks for no thoughts; else they are asked for")),
    other("tool_choice", "disable_parallel_tool_use", NO_PLACE),
    other("messages[].content[]", "cache_control", CACHE),
    other("messages[].content[]", "input", To("args")),
    other("messages[].content[]", "tool_use_id", To("functionResponse.id")),
    other("messages[].content[]", "content", To("functionResponse.response")),
    other("messages[].content[]", "is_error", By("true is response.error")),
    other("messages[].content[]", "title", NO_PLACE),
    other("messages[].content[].source", "url", To("fileData.fileUri")),
    other("tools[]", "cache_control", CACHE),
    other("tools[]", "input_schema", To("parametersJsonSchema")),
    other("tools[]", "strict", NO_PLACE),
];

const HEADRACE: &[Other] = &[
    other("", "messages", To("contents")),
    other("options", "max_output_tokens", To("maxOutputTokens")),
    other("options", "temperature", Kept),
    other("options", "top_p", To("topP")),
    other("options", "top_k", To("topK")),
    other("options", "presence_penalty", If(Flag::Penalties, "presencePenalty")),
    other("options", "frequency_penalty", If(Flag::Penalties, "frequencyPenalty")),
    other("options", "seed", If(Flag::Penalties, "")),
    other("options", "stop", To("stopSequences")),
    other("options", "tool_choice", To("toolConfig")),
    other("options", "parallel_tool_calls", NO_PLACE),
    other("options", "reasoning_effort", EFFORT),
    other("options", "reasoning_summary", To("thinkingConfig.includeThoughts")),
    other("options", "reasoning_budget_tokens", EFFORT),
    other("options", "response_format", FORMAT),
    other("options", "service_tier", NO_PLACE),
    other("options", "user", NO_PLACE),
    other("options.response_format", "type", Kept),
    other("messages[].parts[].type", "audio", Needs(Flag::Audio, "the target takes no sound")),
    other("messages[].parts[]", "file_id", To("fileData.fileUri")),
    other("messages[].parts[]", "url", To("fileData.fileUri")),
    other("messages[].parts[]", "is_error", By("true is response.error")),
    other("tools[]", "raw_schema", To("parametersJsonSchema")),
    other("tools[]", "strict", NO_PLACE),
];
