//! How a completion ends: its reason, its usage, and the whole object where one body was asked for.

use super::{Chat, Counts, Losses, Shared, comma, demanded, names, put, put_count, put_head, put_str};
use crate::event::FinishReason;
use crate::text::{Text, push_json_str};

impl Chat {
    pub(super) fn finished(&mut self, shared: &mut Shared, reason: FinishReason, out: &mut Vec<u8>) {
        self.role(shared, out);
        self.end_entry();
        let notes = self.waiting.all();
        self.note(shared, &notes, out);
        if self.calls.untold() {
            shared.losses.dropped("response.tool_calls");
        }
        let reason = self.finish_reason(&mut shared.losses, reason);
        if shared.stream {
            // The head ends inside the delta, which stays empty here.
            out.extend_from_slice(&self.head);
            put_str(out, "},\"logprobs\":null,\"finish_reason\":", reason);
            put(out, if shared.include_usage { "}],\"usage\":null}\n\n" } else { "}]}\n\n" });
            // Unknown counts are not made up: then the chunk is left out.
            if shared.include_usage
                && let Some(counts) = shared.usage
            {
                put(out, "data: ");
                put_head(out, shared, "chat.completion.chunk");
                put(out, ",\"choices\":[],\"usage\":");
                put_usage(out, &mut shared.losses, counts);
                put(out, "}\n\n");
            }
            put(out, "data: [DONE]\n\n");
        } else {
            self.write_body(shared, reason, out);
        }
    }

    pub(super) fn finish_reason(&self, losses: &mut Losses, reason: FinishReason) -> &'static str {
        let reason = match reason {
            FinishReason::Stop => "stop",
            FinishReason::ToolIntents => "tool_calls",
            FinishReason::Length => "length",
            FinishReason::ContentFilter => "content_filter",
            // A refusal is told by its text; where the provider gave none, a bare `stop` would read as an answer.
            FinishReason::Refusal if self.refused => "stop",
            FinishReason::Refusal => {
                losses.approximated("response.finish_reason");
                "content_filter"
            }
            FinishReason::Pause => {
                losses.approximated("response.finish_reason");
                "length"
            }
            FinishReason::Other => {
                losses.approximated("response.finish_reason");
                "stop"
            }
        };
        if self.calls.unfinished() && reason != "content_filter" { "length" } else { reason }
    }

    pub(super) fn write_body(&mut self, shared: &mut Shared, reason: &str, out: &mut Vec<u8>) {
        let body = std::mem::take(&mut self.body);
        put_head(out, shared, "chat.completion");
        put(out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
        put_text(out, body.content.as_deref());
        put(out, ",\"refusal\":");
        put_text(out, body.refusal.as_deref());
        if let Some(reasoning) = &body.reasoning {
            put(out, ",\"reasoning_content\":");
            put_text(out, Some(reasoning));
        }
        for (key, list) in [
            (",\"reasoning_details\":[", &body.details),
            (",\"annotations\":[", &body.annotations),
            (",\"images\":[", &body.images),
        ] {
            if !list.is_empty() {
                put(out, key);
                out.extend_from_slice(list);
                out.push(b']');
            }
        }
        if self.opened > 0 {
            put(out, ",\"tool_calls\":[");
            for (i, call) in self.calls.opened().enumerate() {
                comma(out, i == 0);
                let (member, text) = names(call.kind);
                put_str(out, "{\"id\":", &call.id);
                put_str(out, ",\"type\":", member);
                out.push(b',');
                push_json_str(member, out);
                put_str(out, ":{\"name\":", &call.name);
                out.push(b',');
                put(out, text);
                Text::from(call.text.as_str()).push_json(out);
                put(out, "\"}}");
            }
            out.push(b']');
        }
        put_str(out, "},\"logprobs\":null,\"finish_reason\":", reason);
        put(out, "}]");
        if let Some(counts) = shared.usage {
            put(out, ",\"usage\":");
            put_usage(out, &mut shared.losses, counts);
        }
        out.push(b'}');
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, inside: Option<&[u8]>) {
    match inside {
        Some(inside) => {
            out.push(b'"');
            out.extend_from_slice(inside);
            out.push(b'"');
        }
        None => put(out, "null"),
    }
}

pub(super) fn put_usage(out: &mut Vec<u8>, losses: &mut Losses, counts: Counts) {
    // The schema demands these three as numbers.
    let input = demanded(losses, counts.input, "response.usage.input_tokens");
    let output = demanded(losses, counts.output, "response.usage.output_tokens");
    put_count(out, "{\"prompt_tokens\":", input);
    put_count(out, ",\"completion_tokens\":", output);
    put_count(out, ",\"total_tokens\":", input.saturating_add(output));
    if counts.cached.is_some() || counts.cache_write.is_some() {
        put(out, ",\"prompt_tokens_details\":{");
        if let Some(cached) = counts.cached {
            put_count(out, "\"cached_tokens\":", cached);
        }
        if let Some(written) = counts.cache_write {
            comma(out, counts.cached.is_none());
            put_count(out, "\"cache_write_tokens\":", written);
        }
        out.push(b'}');
    }
    if let Some(reasoning) = counts.reasoning {
        put_count(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":", reasoning);
        out.push(b'}');
    }
    out.push(b'}');
}
