//! What a target can take besides its protocol: data that a provider's definition chooses by name.
//!
//! 1. A flag says what the *target* knows; which field falls under which flag stands in the tables.
//! 2. The default is the vendor that made the protocol. A preset name (`openai_compatible`) starts from another.
//! 3. `no_` before a flag's name takes it away. Names apply in order.
//!
//! No vendor's name may be added: a vendor is a list of flag names in its definition.

use crate::event::Protocol;

macro_rules! flags {
    ($($(#[$meta:meta])* $flag:ident = $name:literal),+ $(,)?) => {
        /// One thing that a target knows or does not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flag { $($(#[$meta])* $flag),+ }

        impl Flag {
            pub const ALL: &'static [Flag] = &[$(Flag::$flag),+];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Flag::$flag => $name),+ }
            }
        }
    };
}

flags! {
    /// Messages of role `developer`; else they become `system`.
    Developer = "developer",
    /// Chat: texts as a list of parts; else texts that stand alone together are one string.
    ContentLists = "content_lists",
    /// `stream_options` with `include_usage`.
    StreamOptions = "stream_options",
    /// `strict` of a function tool.
    Strict = "strict",
    /// `parallel_tool_calls`.
    ParallelCalls = "parallel_tool_calls",
    /// Custom tools; else they are wrapped as functions with one `input`.
    CustomTools = "custom_tools",
    /// A tool choice that forces a call.
    RequiredChoice = "required_choice",
    /// A tool choice of `allowed_tools`; else only those tools are declared.
    AllowedTools = "allowed_tools",
    /// `reasoning_effort`, `reasoning.effort`, `output_config.effort`.
    Effort = "effort",
    /// Structured output by JSON schema.
    JsonSchema = "json_schema",
    /// Pictures.
    Images = "images",
    /// Files and documents.
    Files = "files",
    /// Chat: sound as input.
    Audio = "audio",
    /// `temperature`, `top_p`, `top_k` in Messages (gone since API version 2026-10-21); and those of a Messages client
    /// elsewhere, where models that reason refuse them.
    Sampling = "sampling",
    /// Chat: `top_k`, which many compatible servers take.
    TopK = "top_k",
    /// Chat: penalties, `logit_bias` and `seed`; most compatible servers take them.
    Penalties = "penalties",
    /// `OpenAI`'s own extras: `store`, `metadata`, `prompt_cache_*`, `safety_identifier`, `moderation`, `verbosity`,
    /// `service_tier`, `prediction`.
    Extras = "extras",
    /// Messages: messages of role `system` inside the conversation, which newer models take; else they become a user's
    /// text.
    SystemMessages = "system_messages",
    /// Messages: `cache_control` marks.
    CacheMarks = "cache_marks",
    /// Messages: a mark on the whole body, so that the prompt is cached as `OpenAI`'s protocols do it by themselves.
    AutoCache = "auto_cache",
    /// Converse: the body is one for `InvokeModel`, which has the same shape but for `topK`, which stands with the rest of
    /// the sampling there.
    InvokeBody = "invoke_body",
    /// Responses: `include: ["reasoning.encrypted_content"]`, so that reasoning can be given back.
    EncryptedReasoning = "encrypted_reasoning",
    /// Responses: the model is known to reason, also where nothing is said of it, so its reasoning is always asked for;
    /// a model that does not reason refuses to be asked.
    Reasons = "reasons",
    /// Chat: the assistant's reasoning is to be given back in `reasoning_content`.
    EchoReasoningContent = "echo_reasoning_content",
    /// Chat: the same in `reasoning`.
    EchoReasoning = "echo_reasoning",
    /// Chat: the same as a part of the content, of type `thinking`.
    ThinkingParts = "thinking_parts",
    /// Chat: how much is to be thought stands in an object `reasoning`, as an effort or as a number of tokens.
    ReasoningObject = "reasoning_object",
    /// Chat: `user`, where `extras` are not taken.
    User = "user",
    /// Chat: the seed is called `random_seed`.
    RandomSeed = "random_seed",
    /// Chat: ids of calls are nine letters and digits.
    ShortIds = "short_ids",
    /// Chat: a dialect in which also a Chat client's body is written anew.
    Anew = "anew",
    /// Chat: the limit is called `max_completion_tokens`, else `max_tokens`.
    MaxCompletionTokens = "max_completion_tokens",
    /// Messages: `thinking: {"type": "adaptive"}`.
    AdaptiveThinking = "adaptive_thinking",
    /// Gemini: the first call of a turn that has no signature gets the vendor's word for "made by another model", for
    /// models that demand one.
    SkipSignatures = "skip_signatures",
    /// Messages: `thinking: {"type": "enabled", "budget_tokens": n}`, where `adaptive_thinking` is not there. Gemini:
    /// `thinkingBudget` instead of `thinkingLevel`.
    ThinkingBudget = "thinking_budget",
}

const _: () = assert!(Flag::ALL.len() <= 64, "one bit a flag");

/// The set of flags of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetFlags(u64);

impl TargetFlags {
    pub(super) const NONE: TargetFlags = TargetFlags(0);

    pub(super) const fn of(flags: &[Flag]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < flags.len() {
            bits |= 1 << flags[i] as u32;
            i += 1;
        }
        TargetFlags(bits)
    }

    /// The vendors that made the protocols.
    pub const FIRST_PARTY: TargetFlags = TargetFlags::of(&[
        Flag::Developer,
        Flag::ContentLists,
        Flag::StreamOptions,
        Flag::Strict,
        Flag::ParallelCalls,
        Flag::CustomTools,
        Flag::RequiredChoice,
        Flag::AllowedTools,
        Flag::Effort,
        Flag::JsonSchema,
        Flag::Images,
        Flag::Files,
        Flag::Audio,
        Flag::Penalties,
        Flag::User,
        Flag::Extras,
        Flag::CacheMarks,
        Flag::EncryptedReasoning,
        Flag::MaxCompletionTokens,
        Flag::AdaptiveThinking,
    ]);

    /// What nearly every server takes that imitates `OpenAI`'s protocols.
    pub const OPENAI_COMPATIBLE: TargetFlags = TargetFlags::of(&[
        Flag::StreamOptions,
        Flag::ParallelCalls,
        Flag::RequiredChoice,
        Flag::JsonSchema,
        Flag::Images,
        Flag::Files,
        Flag::Penalties,
        Flag::User,
        Flag::Sampling,
        Flag::TopK,
    ]);

    /// What nearly every server takes that imitates Messages.
    pub const ANTHROPIC_COMPATIBLE: TargetFlags = TargetFlags::of(&[
        Flag::ParallelCalls,
        Flag::RequiredChoice,
        Flag::Images,
        Flag::Sampling,
        Flag::CacheMarks,
        Flag::ThinkingBudget,
    ]);

    /// The flags that `names` say, in order, from [`TargetFlags::FIRST_PARTY`] on. Fails with the name that is unknown.
    pub fn from_names(names: &[&str]) -> Result<TargetFlags, String> {
        let mut flags = TargetFlags::default();
        for name in names {
            flags = match *name {
                "openai" | "anthropic" => TargetFlags::FIRST_PARTY,
                "openai_compatible" => TargetFlags::OPENAI_COMPATIBLE,
                "anthropic_compatible" => TargetFlags::ANTHROPIC_COMPATIBLE,
                name => {
                    let (plain, on) = name.strip_prefix("no_").map_or((name, true), |n| (n, false));
                    let flag = Flag::ALL.iter().find(|f| f.name() == plain);
                    let flag = *flag.ok_or_else(|| format!("no target flag is called {name}"))?;
                    flags.with(flag, on)
                }
            };
        }
        Ok(flags)
    }

    #[must_use]
    pub fn has(self, flag: Flag) -> bool {
        self.0 >> flag as u32 & 1 == 1
    }

    /// Whether a target of this protocol wants readable reasoning given back.
    #[must_use]
    pub fn echoes(self, target: Protocol) -> bool {
        match target {
            Protocol::OpenaiChat => {
                [Flag::EchoReasoningContent, Flag::EchoReasoning, Flag::ThinkingParts].iter().any(|f| self.has(*f))
            }
            target => matches!(target, Protocol::CohereChat | Protocol::OllamaChat),
        }
    }

    /// These flags but for those of `others`.
    #[must_use]
    pub(super) fn except(self, others: TargetFlags) -> Self {
        TargetFlags(self.0 & !others.0)
    }

    #[must_use]
    pub fn with(self, flag: Flag, on: bool) -> Self {
        let bit = 1 << flag as u32;
        TargetFlags(if on { self.0 | bit } else { self.0 & !bit })
    }
}

impl Default for TargetFlags {
    fn default() -> Self {
        TargetFlags::FIRST_PARTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_apply_in_order() {
        assert_eq!(TargetFlags::from_names(&[]), Ok(TargetFlags::FIRST_PARTY));
        let flags = TargetFlags::from_names(&["openai_compatible", "developer", "no_top_k"]).unwrap();
        assert!(flags.has(Flag::Developer) && !flags.has(Flag::TopK) && flags.has(Flag::Images));
        assert!(TargetFlags::from_names(&["developr"]).unwrap_err().contains("developr"));
        let all: Vec<&str> = Flag::ALL.iter().map(|f| f.name()).collect();
        let every = TargetFlags::from_names(&all).unwrap();
        assert!(Flag::ALL.iter().all(|f| every.has(*f)));
    }
}
