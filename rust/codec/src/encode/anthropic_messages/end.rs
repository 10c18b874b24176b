//! How a message ends, and its head and counts.

use super::{Counts, Messages, Shared, demanded, event, put, put_count, put_str};
use crate::event::FinishReason;
use crate::text::Text;

impl Messages {
    pub(super) fn finished(
        &mut self,
        shared: &mut Shared,
        reason: FinishReason,
        raw: Option<Text<'_>>,
        out: &mut Vec<u8>,
    ) {
        self.end_calls(shared, out);
        if !self.is_blocked() {
            self.close(shared, out);
        }
        if !self.citations.is_empty() {
            shared.losses.dropped("response.annotations");
        }
        self.start(shared, out);
        let reason = match reason {
            _ if self.calls.unfinished() && !matches!(reason, FinishReason::ContentFilter | FinishReason::Refusal) => {
                "max_tokens"
            }
            FinishReason::Stop if shared.native() && raw.is_some_and(|r| r.is("stop_sequence")) => "stop_sequence",
            FinishReason::Stop => "end_turn",
            FinishReason::ToolIntents => "tool_use",
            FinishReason::Length => "max_tokens",
            FinishReason::ContentFilter => {
                shared.losses.approximated("response.finish_reason");
                "refusal"
            }
            FinishReason::Refusal => "refusal",
            FinishReason::Pause => "pause_turn",
            FinishReason::Other => {
                shared.losses.approximated("response.finish_reason");
                "end_turn"
            }
        };
        let counts = shared.usage.unwrap_or_default();
        // Both formats demand the output, and the body also the input.
        let output = demanded(&mut shared.losses, counts.output, "response.usage.output_tokens");
        let input = input_of(counts);
        if shared.stream {
            event(out, "message_delta", |out| {
                put_str(out, ",\"delta\":{\"stop_reason\":", reason);
                put(out, ",\"stop_sequence\":null},\"usage\":");
                if let Some(input) = input {
                    put_usage(out, counts, input, output);
                } else {
                    put_count(out, "{\"output_tokens\":", output);
                    put_thinking(out, counts);
                    out.push(b'}');
                }
            });
            event(out, "message_stop", |_| {});
            if input.is_none() {
                shared.losses.approximated("response.usage.input_tokens");
            }
        } else {
            let input = demanded(&mut shared.losses, input, "response.usage.input_tokens");
            put_head(out, shared);
            put(out, ",\"content\":[");
            out.extend_from_slice(&self.content);
            put_str(out, "],\"stop_reason\":", reason);
            put(out, ",\"stop_sequence\":null,\"usage\":");
            put_usage(out, counts, input, output);
            out.push(b'}');
        }
    }
}

pub(super) fn put_head(out: &mut Vec<u8>, shared: &Shared) {
    put_str(out, "{\"id\":", &shared.response_id);
    put_str(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":", &shared.model);
}

/// What is neither read from a cache nor written to one.
pub(super) fn input_of(counts: Counts) -> Option<u64> {
    let cached = counts.cached.unwrap_or(0).saturating_add(counts.cache_write.unwrap_or(0));
    counts.input.map(|input| input.saturating_sub(cached))
}

pub(super) fn put_usage(out: &mut Vec<u8>, counts: Counts, input: u64, output: u64) {
    put_count(out, "{\"input_tokens\":", input);
    if let Some(written) = counts.cache_write {
        put_count(out, ",\"cache_creation_input_tokens\":", written);
    }
    if let Some(read) = counts.cached {
        put_count(out, ",\"cache_read_input_tokens\":", read);
    }
    put_count(out, ",\"output_tokens\":", output);
    put_thinking(out, counts);
    out.push(b'}');
}

pub(super) fn put_thinking(out: &mut Vec<u8>, counts: Counts) {
    if let Some(thinking) = counts.reasoning {
        put_count(out, ",\"output_tokens_details\":{\"thinking_tokens\":", thinking);
        out.push(b'}');
    }
}
