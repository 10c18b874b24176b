//! Tool blocks: one at a time, open until their call is an intent; what comes meanwhile waits.

use super::{Messages, Open, Piece, Shared, State, Step, comma, event, is_object, put, put_count, put_str};
use crate::text::Text;

impl Messages {
    pub(super) fn step(
        &mut self,
        shared: &mut Shared,
        number: u32,
        step: Step,
        delta: Option<Text<'_>>,
        out: &mut Vec<u8>,
    ) {
        if step == Step::Hold {
            return;
        }
        let Some(call) = self.calls.call(number) else { return };
        if call.state == State::Seen {
            let slot = self.opened;
            self.opened += 1;
            self.calls.open(number, slot, || format!("toolu_{}_{slot}", shared.stem));
            self.piece(shared, Piece::Call(number), out);
        } else if self.open == Open::Tool(number) {
            self.arguments(shared, number, delta, out);
        }
    }

    pub(super) fn begin_call(&mut self, shared: &mut Shared, number: u32, out: &mut Vec<u8>) {
        self.close(shared, out);
        self.start(shared, out);
        let index = self.blocks;
        self.blocks += 1;
        self.open = Open::Tool(number);
        let Some(call) = self.calls.call(number) else { return };
        let mut block = Vec::with_capacity(96);
        put_str(&mut block, "{\"type\":\"tool_use\",\"id\":", &call.id);
        put_str(&mut block, ",\"name\":", &call.name);
        put(&mut block, ",\"input\":");
        if shared.stream {
            event(out, "content_block_start", |out| {
                put_count(out, ",\"index\":", index);
                put(out, ",\"content_block\":");
                out.extend_from_slice(&block);
                put(out, "{}}");
            });
        } else {
            comma(&mut self.content, index == 0);
            self.content.extend_from_slice(&block);
        }
        let is_done = call.state == State::Done;
        self.arguments(shared, number, None, out);
        if is_done {
            self.close(shared, out);
        }
    }

    /// Sends what the client lacks of the open tool block's arguments.
    pub(super) fn arguments(&mut self, shared: &Shared, number: u32, delta: Option<Text<'_>>, out: &mut Vec<u8>) {
        let index = self.blocks - 1;
        let Some(call) = self.calls.call(number) else { return };
        if shared.stream && !call.rest().is_empty() {
            event(out, "content_block_delta", |out| {
                put_count(out, ",\"index\":", index);
                put(out, ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"");
                match delta {
                    Some(delta) if call.only_newest() => delta.push_json(out),
                    _ => Text::from(call.rest()).push_json(out),
                }
                put(out, "\"}");
            });
        }
        call.told();
    }

    /// The call is an intent: its block ends, if it is the open one, and what waited behind it follows.
    pub(super) fn done(&mut self, shared: &mut Shared, number: u32, out: &mut Vec<u8>) {
        if let Some(call) = self.calls.call(number) {
            call.state = State::Done;
        }
        if self.open == Open::Tool(number) {
            self.close(shared, out);
            self.resume(shared, out);
        }
    }

    pub(super) fn resume(&mut self, shared: &mut Shared, out: &mut Vec<u8>) {
        while !self.is_blocked()
            && let Some(piece) = self.waiting.pop_front()
        {
            self.send(shared, piece, out);
        }
    }

    /// Ends what is left of calls. The truncated one whose block is open keeps it open, unless complete things wait
    /// behind it: then its block has to end, and they are told only where nobody can take its text for complete.
    pub(super) fn end_calls(&mut self, shared: &mut Shared, out: &mut Vec<u8>) {
        if self.calls.untold() {
            shared.losses.dropped("response.tool_calls");
        }
        while let Open::Tool(number) = self.open {
            self.drop_unfinished(shared);
            let is_complete =
                self.calls.call(number).is_some_and(|call| is_object(call.text[..call.sent].trim().as_bytes()));
            if !shared.stream {
                // The body has no place for half an input.
                shared.losses.dropped("response.tool_calls");
                self.forget_tool(number);
                self.resume(shared, out);
                continue;
            }
            if self.waiting.is_empty() {
                return;
            }
            if is_complete {
                shared.losses.dropped("response.content");
                self.waiting.clear();
                return;
            }
            self.close(shared, out);
            self.resume(shared, out);
        }
    }

    /// Takes calls that never became an intent out of what waits.
    pub(super) fn drop_unfinished(&mut self, shared: &mut Shared) {
        let calls = &mut self.calls;
        let before = self.waiting.len();
        self.waiting.retain(|piece| match piece {
            Piece::Call(number) => calls.call(*number).is_some_and(|call| call.state == State::Done),
            _ => true,
        });
        if self.waiting.len() != before {
            shared.losses.dropped("response.tool_calls");
        }
    }

    /// Takes the open tool block, of which the body has only its beginning, back out of the body.
    pub(super) fn forget_tool(&mut self, number: u32) {
        if let Some(call) = self.calls.call(number) {
            let mut block = Vec::new();
            put_str(&mut block, "{\"type\":\"tool_use\",\"id\":", &call.id);
            put_str(&mut block, ",\"name\":", &call.name);
            put(&mut block, ",\"input\":");
            let keep = self.content.len().saturating_sub(block.len());
            debug_assert!(self.content.ends_with(&block));
            self.content.truncate(keep);
            if self.content.last() == Some(&b',') {
                self.content.pop();
            }
        }
        self.blocks -= 1;
        self.open = Open::Nothing;
    }
}
