//! What must not reach a provider that speaks the client's own protocol: opaque state that is not its own.
//!
//! 1. A wrapped continuation in such a body came from another family, for this gateway to give back there. The provider
//!    would refuse it, so the block, item or detail that holds it goes.
//! 2. Messages: thinking whose signature is empty was never signed; clients give it back all the same.
//! 3. A message that held nothing else goes with it. A turn that calls tools and lost its thinking cannot be gone on from
//!    with a budget of thinking: `thinking` goes too, if it is the last turn.
//! 4. Every other byte stays, and a body without any of this is not walked at all.
//!
//! Nothing that a provider could judge itself may be taken out here.

use std::ops::Range;

use memchr::memmem;

use super::error::Res;
use super::reader::type_of;
use crate::event::Protocol;
use crate::json::{Kind, Scanner};
use crate::limits::MAX_PART_DEPTH;
use crate::loss::{Loss, LossAction};
use crate::text::Literal;

/// What is cut out of a body, in order, and the fields that this concerns.
pub(super) struct Scrubbed {
    pub cuts: Vec<Range<usize>>,
    pub losses: Vec<Loss>,
    /// The body asks for a budget of thinking that its last turn no longer allows.
    pub thinking_goes: bool,
}

/// Finds what has to go; `None` where nothing has.
pub(super) fn scrub(body: &[u8], protocol: Protocol) -> Res<Option<Scrubbed>> {
    if protocol == Protocol::GoogleGemini {
        return super::google_gemini::scrub(body);
    }
    let signed = protocol == Protocol::AnthropicMessages && memmem::find(body, b"\"signature\"").is_some();
    if !signed && memmem::find(body, b"\"hr1.").is_none() {
        return Ok(None);
    }
    let (list, inner, slots): (_, _, &[&str]) = match protocol {
        Protocol::OpenaiChat => ("messages", "reasoning_details", &["signature", "data"]),
        Protocol::OpenaiResponses => ("input", "", &["encrypted_content"]),
        Protocol::AnthropicMessages => ("messages", "content", &["signature", "data"]),
        _ => return Ok(None),
    };
    let mut walk = Walk {
        s: Scanner::new(body),
        inner,
        slots,
        unsigned: signed,
        found: None,
        turn: Turn::default(),
        last: Turn::default(),
    };
    let mut budget = false;
    let mut cuts = Vec::new();
    if walk.s.kind()? != Kind::Object {
        return Ok(None);
    }
    let mut items = walk.s.object()?;
    while let Some(key) = walk.s.key(&mut items)? {
        if key.is(list) && walk.s.kind()? == Kind::Array {
            walk.list(&mut cuts, 0)?;
        } else if signed && key.is("thinking") {
            budget = type_of(&Scanner::new(walk.s.skip()?))?.is_some_and(|t| t.decode() == "enabled");
        } else {
            walk.s.skip()?;
        }
    }
    let Some(slot) = walk.found else { return Ok(None) };
    let path = if inner.is_empty() { format!("{list}[].{slot}") } else { format!("{list}[].{inner}[].{slot}") };
    let mut losses = vec![Loss { path, action: LossAction::Dropped }];
    let thinking_goes = budget && walk.last.cut && walk.last.calls && !walk.last.thinks;
    if thinking_goes {
        losses.push(Loss { path: "thinking".to_owned(), action: LossAction::Dropped });
    }
    Ok(Some(Scrubbed { cuts, losses, thinking_goes }))
}

struct Walk<'a> {
    s: Scanner<'a>,
    /// The list in a message whose items are judged; empty where the messages themselves are.
    inner: &'static str,
    slots: &'static [&'static str],
    /// Whether an empty signature counts.
    unsigned: bool,
    /// The slot in which something was found.
    found: Option<&'static str>,
    /// The message that is being walked, and the last of the assistant's.
    turn: Turn,
    last: Turn,
}

/// What a message of the assistant's holds.
#[derive(Clone, Copy, Default)]
struct Turn {
    cut: bool,
    calls: bool,
    /// Thinking that stays.
    thinks: bool,
}

/// What an item of a list comes to.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Stays,
    Goes,
}

impl Walk<'_> {
    /// Walks a list; says whether it had items and all of them go. Then nothing is cut: its owner goes.
    fn list(&mut self, cuts: &mut Vec<Range<usize>>, depth: usize) -> Res<bool> {
        let mut items = self.s.array()?;
        let from = cuts.len();
        let mut end = self.s.pos();
        let (mut kept, mut gone) = (0usize, 0usize);
        let mut leading = None;
        while self.s.item(&mut items)? {
            self.s.kind()?;
            let start = self.s.pos();
            let before = cuts.len();
            if self.item(cuts, depth)? == Verdict::Goes {
                cuts.truncate(before);
                gone += 1;
                if kept > 0 {
                    cuts.push(end..self.s.pos());
                } else {
                    leading.get_or_insert(start);
                }
            } else {
                kept += 1;
                if let Some(first) = leading.take() {
                    // Before whatever was cut inside of this item.
                    cuts.insert(before, first..start);
                }
            }
            end = self.s.pos();
        }
        if let Some(first) = leading {
            cuts.truncate(from);
            cuts.push(first..end);
        }
        Ok(gone > 0 && kept == 0)
    }

    fn item(&mut self, cuts: &mut Vec<Range<usize>>, depth: usize) -> Res<Verdict> {
        if self.s.kind()? != Kind::Object || depth > MAX_PART_DEPTH {
            self.s.skip()?;
            return Ok(Verdict::Stays);
        }
        let judged = self.inner.is_empty() || depth > 0;
        if depth == 0 {
            self.turn = Turn::default();
        }
        let mut assistant = false;
        let mut kind: Option<Literal<'_>> = None;
        let mut slot = None;
        let mut verdict = Verdict::Stays;
        let mut members = self.s.object()?;
        while let Some(key) = self.s.key(&mut members)? {
            if judged
                && let Some(at) = self.slots.iter().find(|slot| key.is(slot))
                && self.s.kind()? == Kind::String
            {
                if self.is_foreign(self.s.clone().string()?, at) {
                    slot = Some(*at);
                }
                self.s.skip()?;
            } else if key.is("type") && self.s.kind()? == Kind::String {
                kind = Some(self.s.string()?);
            } else if depth == 0 && key.is("role") && self.s.kind()? == Kind::String {
                assistant = self.s.string()?.is("assistant");
            } else if depth == 0 && !self.inner.is_empty() && key.is(self.inner) && self.s.kind()? == Kind::Array {
                let all = self.list(cuts, depth + 1)?;
                // A message of Chat has more than its details.
                if all && self.inner == "content" {
                    verdict = Verdict::Goes;
                }
            } else {
                self.s.skip()?;
            }
        }
        let is = |wanted: &str| kind.is_some_and(|k| k.is(wanted));
        if let Some(slot) = slot
            && (is("thinking") || slot != "signature" || self.inner != "content")
        {
            self.found = Some(slot);
            verdict = Verdict::Goes;
        }
        if depth > 0 {
            self.turn.cut |= verdict == Verdict::Goes;
            self.turn.calls |= is("tool_use");
            self.turn.thinks |= verdict == Verdict::Stays && (is("thinking") || is("redacted_thinking"));
        } else if assistant {
            self.last = self.turn;
        }
        Ok(verdict)
    }

    fn is_foreign(&self, value: Literal<'_>, slot: &str) -> bool {
        value.raw.starts_with(b"hr1.") || (self.unsigned && slot == "signature" && value.raw.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbed(body: &str, protocol: Protocol) -> String {
        let Some(Scrubbed { cuts, losses, .. }) = scrub(body.as_bytes(), protocol).unwrap() else {
            return body.to_owned();
        };
        assert_eq!(losses.len(), 1);
        let mut out = String::new();
        let mut from = 0;
        for cut in cuts {
            assert!(from <= cut.start && cut.start < cut.end, "cuts come in order");
            out.push_str(&body[from..cut.start]);
            from = cut.end;
        }
        out + &body[from..]
    }

    #[test]
    fn foreign_thinking_goes_and_the_vendors_own_stays() {
        let messages = |content: &str| {
            format!(r#"{{"messages":[{{"role":"assistant","content":[{content}]}}, {{"role":"user","content":"x"}}]}}"#)
        };
        let own = r#"{"type":"thinking","thinking":"t","signature":"EqQB"}"#;
        let unsigned = r#"{"thinking":"t","signature":"","type":"thinking"}"#;
        let wrapped = r#"{"type":"thinking","thinking":"t","signature":"hr1.openai_responses.encrypted.a.YQ"}"#;
        let redacted = r#"{"type":"redacted_thinking","data":"hr1.openai_chat.details.a.YQ"}"#;
        let text = r#"{"type":"text","text":"hi"}"#;
        let cut = |content: &str| scrubbed(&messages(content), Protocol::AnthropicMessages);
        assert_eq!(cut(own), messages(own));
        for bad in [unsigned, wrapped, redacted] {
            assert_eq!(cut(&format!("{bad} , {text}")), messages(text));
            assert_eq!(cut(&format!("{text}, {bad}")), messages(text));
            assert_eq!(cut(&format!("{own},{bad},{bad},{text}")), messages(&format!("{own},{text}")));
            assert_eq!(cut(&format!("{bad},{bad}, {text},{bad}")), messages(text));
            // Nothing else was said.
            assert_eq!(cut(bad), r#"{"messages":[{"role":"user","content":"x"}]}"#);
            assert_eq!(cut(&format!("{bad},{bad}")), r#"{"messages":[{"role":"user","content":"x"}]}"#);
        }
        let alone = format!(r#"{{"messages":[{{"role":"assistant","content":[{unsigned}]}}]}}"#);
        assert_eq!(scrubbed(&alone, Protocol::AnthropicMessages), r#"{"messages":[]}"#);
        // A tool's input may say what it likes.
        let call = r#"{"type":"tool_use","id":"a","name":"f","input":{"signature":"","data":"hr1.x"}}"#;
        assert_eq!(cut(call), messages(call));
        let lookalike = r#"{"type":"text","signature":"","text":"x"}"#;
        assert_eq!(cut(lookalike), messages(lookalike));
    }

    #[test]
    fn a_budget_goes_where_the_last_turn_calls_without_its_thinking() {
        let off = |thinking: &str, last: &str| {
            let body = format!(
                r#"{{"thinking":{thinking},"messages":[{{"role":"assistant","content":[{last}]}},{{"role":"user","content":"r"}}]}}"#
            );
            scrub(body.as_bytes(), Protocol::AnthropicMessages).unwrap().is_some_and(|s| s.thinking_goes)
        };
        let enabled = r#"{"budget_tokens":2000,"type":"enabled"}"#;
        let (bad, own) =
            (r#"{"type":"thinking","thinking":"","signature":""}"#, r#"{"type":"thinking","signature":"Eq"}"#);
        let call = r#"{"type":"tool_use","id":"a","name":"f","input":{}}"#;
        assert!(off(enabled, &format!("{bad},{call}")));
        assert!(!off(r#"{"type":"adaptive"}"#, &format!("{bad},{call}")));
        assert!(!off(enabled, &format!("{own},{bad},{call}")));
        assert!(!off(enabled, &format!(r#"{bad},{{"type":"text","text":"x"}}"#)));
        assert!(!off(enabled, call));
    }

    #[test]
    fn foreign_items_and_details_go() {
        let wrapped =
            r#"{"type":"reasoning","summary":[],"encrypted_content":"hr1.anthropic_messages.signature.a.YQ"}"#;
        let input = |items: &str| format!(r#"{{"input":[{items}],"model":"m"}}"#);
        let said = r#"{"role":"user","content":"x"}"#;
        assert_eq!(scrubbed(&input(&format!("{wrapped},{said}")), Protocol::OpenaiResponses), input(said));
        assert_eq!(scrubbed(&input(&format!("{said},{wrapped}")), Protocol::OpenaiResponses), input(said));
        let own = r#"{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}"#;
        assert_eq!(scrubbed(&input(own), Protocol::OpenaiResponses), input(own));

        let chat = |details: &str| {
            format!(r#"{{"messages":[{{"role":"assistant","reasoning_details":[{details}],"content":"a"}}]}}"#)
        };
        let foreign = r#"{"type":"reasoning.text","signature":"hr1.anthropic_messages.signature.a.YQ"}"#;
        let own = r#"{"type":"reasoning.encrypted","data":"abc"}"#;
        assert_eq!(scrubbed(&chat(&format!("{foreign},{own}")), Protocol::OpenaiChat), chat(own));
        assert_eq!(scrubbed(&chat(foreign), Protocol::OpenaiChat), chat(""));
    }
}
