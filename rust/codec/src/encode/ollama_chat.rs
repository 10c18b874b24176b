//! Events as Ollama's own chat: a line of JSON after another, or one object.
//!
//! 1. A call goes out whole, at its intent, on a line of its own. It is not told apart by a reason: those are `stop` and
//!    `length`, and a call that was cut makes the end `length`.
//! 2. The line with `done` is the terminal; counts that are not known are left out, and times are none of ours.
//! 3. A failure is a line with `error`, and nothing follows.
//!
//! State of a provider that is to be given back has no place here, as the table says.

use super::Outcome;
use super::calls::{Calls, State, Step};
use super::errors::Told;
use super::shared::{Shared, list_comma, put, put_number, put_raw, put_str};
use crate::error::ErrorKind;
use crate::event::{CallKind, Event, FinishReason, Protocol, ToolIntent};
use crate::json::{Scanner, Value};
use crate::text::Text;

pub(super) struct Ollama {
    calls: Calls,
    opened: usize,
    /// What begins every line, up to the message.
    head: Vec<u8>,
    /// One body: the inside of the texts so far, and the calls.
    text: Vec<u8>,
    thinking: Vec<u8>,
    told: Vec<u8>,
}

impl Ollama {
    pub fn new(shared: &Shared, calls: Calls) -> Ollama {
        let mut head = Vec::with_capacity(96);
        put_str(&mut head, "{\"model\":", &shared.model);
        put_str(&mut head, ",\"created_at\":", &moment(shared.created));
        put(&mut head, ",\"message\":{\"role\":\"assistant\"");
        Ollama { calls, opened: 0, head, text: Vec::new(), thinking: Vec::new(), told: Vec::new() }
    }

    pub fn event(&mut self, shared: &mut Shared, event: &Event<'_>, out: &mut Vec<u8>) -> Outcome {
        match event {
            Event::TextDelta { text, .. } => self.say(shared, *text, false, out),
            Event::RefusalDelta { text, .. } => {
                shared.losses.approximated("response.refusal");
                self.say(shared, *text, false, out);
            }
            Event::ReasoningDelta { text, .. } => self.say(shared, *text, true, out),
            Event::IntentDelta { call, provider_call_id, name, kind, arguments_delta } => {
                // It goes out at its intent; a client that was told of none of it cannot diverge.
                let _ = self.calls.delta(*call, *provider_call_id, *name, *kind, *arguments_delta);
            }
            Event::IntentProposed(intent) => {
                if !self.intent(shared, intent, out) {
                    return Outcome::Failed(Told::of_kind(ErrorKind::MalformedToolCall));
                }
            }
            Event::Finished { reason, .. } => {
                self.finished(shared, *reason, out);
                return Outcome::Over;
            }
            // There is no place for the first four, as the table says: they never come here.
            Event::Continuation { .. }
            | Event::Annotation { .. }
            | Event::HostedTool { .. }
            | Event::Media { .. }
            | Event::Started { .. }
            | Event::Usage(_)
            | Event::Error(_) => {}
        }
        Outcome::Going
    }

    pub fn fail(told: &Told, out: &mut Vec<u8>) {
        out.extend_from_slice(&told.body(Protocol::OllamaChat));
        out.push(b'\n');
    }

    fn say(&mut self, shared: &Shared, text: Text<'_>, thinks: bool, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        if !shared.stream {
            return text.push_json(if thinks { &mut self.thinking } else { &mut self.text });
        }
        out.extend_from_slice(&self.head);
        put(out, if thinks { ",\"content\":\"\",\"thinking\":\"" } else { ",\"content\":\"" });
        text.push_json(out);
        put(out, "\"},\"done\":false}\n");
    }

    /// False for a call that cannot be told: its arguments are no object.
    fn intent(&mut self, shared: &mut Shared, intent: &ToolIntent<'_>, out: &mut Vec<u8>) -> bool {
        if self.calls.intent(intent) == Step::Hold {
            return true;
        }
        let number = intent.call;
        if self.calls.call(number).is_some_and(|call| call.kind == CallKind::Custom) {
            shared.losses.approximated("response.tool_calls[].input");
            self.calls.wrap_custom(number);
        }
        let slot = self.opened;
        self.opened += 1;
        let stem = shared.stem.clone();
        let Some(call) = self.calls.open(number, slot, || format!("call_{stem}_{slot}")) else { return true };
        if !matches!(Scanner::only(call.text.as_bytes()), Ok(Value::Object(_))) {
            return false;
        }
        call.state = State::Done;
        call.told();
        let mut entry = Vec::with_capacity(64 + call.text.len());
        put_str(&mut entry, "{\"id\":", &call.id);
        put(&mut entry, ",\"function\":{\"index\":");
        put_number(&mut entry, slot as u64);
        put_str(&mut entry, ",\"name\":", &call.name);
        put(&mut entry, ",\"arguments\":");
        put_raw(&mut entry, call.text.trim().as_bytes());
        put(&mut entry, "}}");
        if shared.stream {
            out.extend_from_slice(&self.head);
            put(out, ",\"content\":\"\",\"tool_calls\":[");
            out.extend_from_slice(&entry);
            put(out, "]},\"done\":false}\n");
        } else {
            list_comma(&mut self.told);
            self.told.extend_from_slice(&entry);
        }
        true
    }

    fn finished(&mut self, shared: &mut Shared, reason: FinishReason, out: &mut Vec<u8>) {
        if self.calls.untold() {
            shared.losses.dropped("response.tool_calls");
        }
        let counts = shared.usage.unwrap_or_default();
        for (count, path) in [
            (counts.cached, "response.usage.cached_input_tokens"),
            (counts.cache_write, "response.usage.cache_write_tokens"),
            (counts.reasoning, "response.usage.reasoning_tokens"),
        ] {
            if count.is_some_and(|n| n > 0) {
                shared.losses.dropped(path);
            }
        }
        let known = matches!(reason, FinishReason::Stop | FinishReason::ToolIntents | FinishReason::Length);
        if !known {
            shared.losses.approximated("response.finish_reason");
        }
        let cut = self.calls.unfinished() || matches!(reason, FinishReason::Length | FinishReason::Pause);
        out.extend_from_slice(&self.head);
        put(out, ",\"content\":\"");
        out.append(&mut self.text);
        out.push(b'"');
        if !self.thinking.is_empty() {
            put(out, ",\"thinking\":\"");
            out.append(&mut self.thinking);
            out.push(b'"');
        }
        if !self.told.is_empty() {
            put(out, ",\"tool_calls\":[");
            out.append(&mut self.told);
            out.push(b']');
        }
        put(out, "},\"done\":true,\"done_reason\":\"");
        put(out, if cut { "length\"" } else { "stop\"" });
        for (key, count) in [(",\"prompt_eval_count\":", counts.input), (",\"eval_count\":", counts.output)] {
            if let Some(count) = count {
                put(out, key);
                put_number(out, count);
            }
        }
        put(out, if shared.stream { "}\n" } else { "}" });
    }
}

/// Seconds since the epoch as RFC 3339 has them, in UTC.
fn moment(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, in eras of 400 years: a year then ends with its leap day.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn moments_are_dates() {
        for (seconds, want) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_772_323_200, "2026-03-01T00:00:00Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(moment(seconds), want);
        }
    }
}
