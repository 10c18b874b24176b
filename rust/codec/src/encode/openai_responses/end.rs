//! How a response ends, and the response object that its first events and its last one hold.

use super::{Counts, Losses, Open, Responses, Shared, Told, demanded, list_comma, put, put_count, put_str};
use crate::error::ErrorKind;
use crate::event::FinishReason;
use crate::text::Text;

/// How the response ends.
pub(super) enum End<'a> {
    Completed,
    Incomplete(&'a str),
    Failed(&'a Told),
}

impl Responses {
    /// Puts what is open into the output as it stands, without any event.
    pub(super) fn leave_open(&mut self, shared: &mut Shared) {
        let (at, json) = match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => return self.leave_calls(shared),
            Open::Message(mut message) => {
                message.end_part();
                (message.at, message.json("incomplete"))
            }
            Open::Reasoning(mut item) => {
                item.end_part();
                (item.at, item.json())
            }
        };
        self.items[at] = Some(json);
        self.leave_calls(shared);
    }

    pub(super) fn finished(
        &mut self,
        shared: &mut Shared,
        reason: FinishReason,
        raw: Option<Text<'_>>,
        out: &mut Vec<u8>,
    ) {
        let unfinished = self.calls.unfinished();
        let end = match reason {
            FinishReason::ContentFilter => End::Incomplete("content_filter"),
            // A refusal is told by its part; where the provider gave no text, `completed` would read as an answer.
            FinishReason::Refusal if !self.refused => {
                shared.losses.approximated("response.finish_reason");
                End::Incomplete("content_filter")
            }
            FinishReason::Length => End::Incomplete("max_output_tokens"),
            FinishReason::Pause => {
                shared.losses.approximated("response.finish_reason");
                End::Incomplete("max_output_tokens")
            }
            FinishReason::Other if raw.is_some_and(|raw| raw.is("steered")) => End::Incomplete("steered"),
            _ if unfinished => End::Incomplete("max_output_tokens"),
            FinishReason::Other => {
                shared.losses.approximated("response.finish_reason");
                End::Completed
            }
            FinishReason::Stop | FinishReason::ToolIntents | FinishReason::Refusal => End::Completed,
        };
        self.close_as(shared, if matches!(end, End::Completed) { "completed" } else { "incomplete" }, out);
        if self.calls.untold() {
            shared.losses.dropped("response.tool_calls");
        }
        self.leave_calls(shared);
        if !self.waiting.all().is_empty() {
            shared.losses.dropped("response.annotations");
        }
        if self.has_audio {
            self.emit(shared, out, "response.audio.done", |_| {});
        }
        // A reason that nobody knows and nothing to show for it is no answer.
        if reason == FinishReason::Other && matches!(end, End::Completed) && self.items.is_empty() {
            let told = Told::of_kind(ErrorKind::Unknown);
            return self.terminal(shared, &End::Failed(&told), out);
        }
        self.terminal(shared, &end, out);
    }

    pub(super) fn terminal(&mut self, shared: &mut Shared, end: &End<'_>, out: &mut Vec<u8>) {
        let mut output = Vec::new();
        for item in self.items.drain(..).flatten() {
            list_comma(&mut output);
            output.extend_from_slice(&item);
        }
        let echo = std::mem::take(&mut self.echo);
        let (kind, status, incomplete, failed) = match end {
            End::Completed => ("response.completed", "completed", None, None),
            End::Incomplete(why) => ("response.incomplete", "incomplete", Some(*why), None),
            End::Failed(told) => ("response.failed", "failed", None, Some(*told)),
        };
        let mut usage = Vec::new();
        if let Some(counts) = shared.usage {
            put_usage(&mut usage, &mut shared.losses, counts);
        }
        let usage = (!usage.is_empty()).then_some(usage.as_slice());
        if shared.stream {
            self.emit(shared, out, kind, |out| {
                put(out, ",\"response\":");
                put_response(out, shared, &echo, status, incomplete, failed, &output, usage);
            });
        } else {
            put_response(out, shared, &echo, status, incomplete, failed, &output, usage);
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the members of one object, written in one place")]
pub(super) fn put_response(
    out: &mut Vec<u8>,
    shared: &Shared,
    echo: &[u8],
    status: &str,
    incomplete: Option<&str>,
    failed: Option<&Told>,
    output: &[u8],
    usage: Option<&[u8]>,
) {
    put_str(out, "{\"id\":", &shared.response_id);
    put_count(out, ",\"object\":\"response\",\"created_at\":", shared.created);
    put_str(out, ",\"status\":", status);
    put(out, ",\"error\":");
    match failed {
        Some(told) => told.response_error(out),
        None => put(out, "null"),
    }
    put(out, ",\"incomplete_details\":");
    match incomplete {
        Some(reason) => {
            put_str(out, "{\"reason\":", reason);
            out.push(b'}');
        }
        None => put(out, "null"),
    }
    put_str(out, ",\"model\":", &shared.model);
    out.extend_from_slice(echo);
    put(out, ",\"output\":[");
    out.extend_from_slice(output);
    put(out, "],\"usage\":");
    out.extend_from_slice(usage.unwrap_or(b"null"));
    out.push(b'}');
}

/// The schema demands every number of it; Codex repeats a whole turn over one that is missing.
pub(super) fn put_usage(out: &mut Vec<u8>, losses: &mut Losses, counts: Counts) {
    let input = demanded(losses, counts.input, "response.usage.input_tokens");
    let output = demanded(losses, counts.output, "response.usage.output_tokens");
    let cached = demanded(losses, counts.cached, "response.usage.cached_input_tokens");
    let written = demanded(losses, counts.cache_write, "response.usage.cache_write_tokens");
    let reasoning = demanded(losses, counts.reasoning, "response.usage.reasoning_tokens");
    put_count(out, "{\"input_tokens\":", input);
    put_count(out, ",\"input_tokens_details\":{\"cached_tokens\":", cached);
    put_count(out, ",\"cache_write_tokens\":", written);
    put_count(out, "},\"output_tokens\":", output);
    put_count(out, ",\"output_tokens_details\":{\"reasoning_tokens\":", reasoning);
    put_count(out, "},\"total_tokens\":", input.saturating_add(output));
    out.push(b'}');
}
