//! Call items: opened at their first text, done at their intent and never otherwise.
//!
//! The vendor ends a truncated call with a done item of the status `incomplete`. Codex runs that (tried with 0.171.0: what a
//! done item says it does, and it looks at no status), so it is told only in the output of the terminal.

use super::{
    ARGUMENTS_DELTA, END, INPUT_DELTA, Responses, Shared, State, Step, begin, delta_place, put, put_place, put_str,
};
use crate::encode::calls::Call;
use crate::encode::openai_responses::items::CallItem;
use crate::event::CallKind;
use crate::text::Text;

impl Responses {
    pub(super) fn step(
        &mut self,
        shared: &mut Shared,
        number: u32,
        step: Step,
        delta: Option<Text<'_>>,
        out: &mut Vec<u8>,
    ) {
        if step != Step::Tell {
            return;
        }
        if self.calls.call(number).is_some_and(|call| call.state == State::Seen) {
            self.close(shared, out);
            let at = self.items.len();
            self.items.push(None);
            let slot = self.opened;
            self.opened += 1;
            self.calls.open(number, at, || format!("call_{}_{slot}", shared.stem));
            if let Some(call) = self.calls.call(number) {
                let json = call_json(shared, call, "", "in_progress");
                self.added(shared, at, &json, out);
            }
        }
        let Some(call) = self.calls.call(number) else { return };
        if !call.rest().is_empty() {
            let head = match call.kind {
                CallKind::Function => ARGUMENTS_DELTA,
                CallKind::Custom => INPUT_DELTA,
            };
            if begin(shared, &mut self.seq, out, head) {
                if call.head.is_empty() {
                    call.head = delta_place(&item_id(shared, call), call.slot, None);
                }
                out.extend_from_slice(&call.head);
                match delta {
                    Some(delta) if call.only_newest() => delta.push_json(out),
                    _ => Text::from(call.rest()).push_json(out),
                }
                out.push(b'"');
                put(out, END);
            }
            call.told();
        }
    }

    pub(super) fn call_done(&mut self, shared: &Shared, number: u32, out: &mut Vec<u8>) {
        let Some(call) = self.calls.call(number) else { return };
        call.state = State::Done;
        let at = call.slot;
        let json = call_json(shared, call, &call.text, "completed");
        text_done(shared, &mut self.seq, call, out);
        self.item_done(shared, at, json, out);
    }

    /// Puts calls that never became an intent into the output, without any event.
    pub(super) fn leave_calls(&mut self, shared: &Shared) {
        for call in self.calls.opened() {
            if call.state == State::Open {
                self.items[call.slot] = Some(call_json(shared, call, &call.text, "incomplete"));
            }
        }
    }
}

pub(super) fn item_id(shared: &Shared, call: &Call) -> String {
    let prefix = match call.kind {
        CallKind::Function => "fc",
        CallKind::Custom => "ctc",
    };
    format!("{prefix}_{}_{}", shared.stem, call.slot)
}

pub(super) fn call_json(shared: &Shared, call: &Call, text: &str, status: &str) -> Vec<u8> {
    let id = item_id(shared, call);
    CallItem {
        id: &id,
        call_id: &call.id,
        name: &call.name,
        kind: call.kind,
        namespace: call.namespace.as_deref(),
        caller: call.caller.as_deref(),
        text,
        status,
    }
    .json()
}

/// The event that repeats a call's whole text before its item is done.
pub(super) fn text_done(shared: &Shared, seq: &mut u64, call: &Call, out: &mut Vec<u8>) {
    let (name, key) = match call.kind {
        CallKind::Function => ("response.function_call_arguments.done", ",\"arguments\":"),
        CallKind::Custom => ("response.custom_tool_call_input.done", ",\"input\":"),
    };
    if begin(shared, seq, out, name) {
        put_place(out, &item_id(shared, call), call.slot, None);
        if call.kind == CallKind::Function {
            put_str(out, ",\"name\":", &call.name);
        }
        put_str(out, key, &call.text);
        put(out, END);
    }
}
