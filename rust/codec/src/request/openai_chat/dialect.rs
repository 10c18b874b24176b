//! Chat Completions in a dialect that also Chat clients' bodies are written anew for: what becomes of every field.
//!
//! A Chat request goes by the column of Responses, which reads it as another protocol's; these fields are Chat's own.

use super::super::flags::Flag;
use super::super::table::Fate::{By, If, Kept, Near};
use super::super::table::{Column, Fate, Other, other};

const BACK: Fate = By("given back as the dialect has it, else dropped");

pub(in super::super) const DIALECT: Column = Column::like(Column::RESPONSES, OTHERS);

const OTHERS: &[Other] = &[
    other("", "messages", Kept),
    other("", "frequency_penalty", If(Flag::Penalties, "")),
    other("", "presence_penalty", If(Flag::Penalties, "")),
    other("", "logit_bias", If(Flag::Extras, "")),
    other("", "prediction", Kept),
    other("", "seed", If(Flag::Penalties, "")),
    other("", "max_completion_tokens", Kept),
    other("", "max_tokens", Kept),
    other("", "function_call", Kept),
    other("", "functions", Kept),
    other("", "reasoning_effort", If(Flag::Effort, "")),
    other("", "response_format", Kept),
    other("", "stop", Kept),
    other("", "verbosity", If(Flag::Extras, "")),
    other("", "user", If(Flag::User, "")),
    other("reasoning", "max_tokens", Near("as an effort, where the target takes no number")),
    other("messages[]", "refusal", Kept),
    other("messages[]", "tool_calls", Kept),
    other("messages[]", "tool_call_id", Kept),
    other("messages[]", "function_call", Kept),
    other("messages[]", "reasoning_content", BACK),
    other("messages[]", "reasoning", BACK),
    other("messages[]", "reasoning_details", BACK),
    other("messages[].tool_calls[]", "id", By("kept where the target takes it, else derived")),
];
