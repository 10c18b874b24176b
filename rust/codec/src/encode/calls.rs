//! The tool calls of one response as a client is told of them.
//!
//! 1. A call is opened at its first argument text or at its intent, whichever comes first.
//! 2. Text that may still turn out to be no arguments at all (blanks, `null`) is held back: at the intent
//!    it becomes `{}` (rules R7, R8).
//! 3. The intent's text has the last word. What was streamed before it must be its beginning, or the same JSON but
//!    for white space; where the provider replaced it by something else, a client that has only the deltas
//!    would run what was never proposed, so the call has diverged and the caller fails the stream.
//!
//! Nothing of one client protocol may be added here.

use std::borrow::Cow;

use super::asked::Tools;
use super::shared::Shared;
use crate::event::{CallKind, Protocol, ToolIntent};
use crate::json::{Scan, Scanner};
use crate::limits::MAX_CALLS;
use crate::text::{Text, push_json_str};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Heard of; the client knows nothing of it.
    #[default]
    Seen,
    /// The client has its name.
    Open,
    /// It became an intent.
    Done,
}

#[derive(Debug)]
pub(super) struct Call {
    /// The provider's id; empty until known, or minted at the opening.
    pub id: String,
    pub name: String,
    /// Responses: the namespace that the client declared the tool in.
    pub namespace: Option<String>,
    /// Responses: who makes the call, where it is not the model itself; JSON.
    pub caller: Option<String>,
    pub kind: CallKind,
    /// A custom tool that the provider knows as a function: its text stands in an object, and is told at its end.
    wrapped: bool,
    /// All argument text so far; the intent's once there is one.
    pub text: String,
    /// How much of `text` the client has.
    pub sent: usize,
    /// Where the newest delta starts in `text`.
    fresh: usize,
    pub state: State,
    /// The caller's own number for it, set at the opening.
    pub slot: usize,
    /// What the caller's events of more text begin with, once it was needed.
    pub head: Vec<u8>,
}

/// What a delta or an intent leaves to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing, or nothing yet.
    Hold,
    /// `text[sent..]` may go out; the call has to be opened first if it is not.
    Tell,
    /// What the client has is not the beginning of the arguments.
    Diverged,
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// By the events' own numbers, which are dense (rule R4).
    list: Vec<Call>,
    /// Numbers in the order of opening.
    opened: Vec<u32>,
    /// Calls come whole: each is opened at its intent, so that what belongs to it can stand before it.
    whole: bool,
    tools: Tools,
}

impl Calls {
    pub fn new(shared: &Shared, tools: Tools) -> Calls {
        let whole = matches!(shared.family, Some(Protocol::GoogleGemini | Protocol::OllamaChat));
        Calls { whole, tools, ..Calls::default() }
    }

    /// The id of a call that may not have been heard of yet, minted if it has none.
    pub fn id(&mut self, number: u32, mint: impl FnOnce() -> String) -> Option<&str> {
        let (call, _) = self.entry(number, CallKind::Function)?;
        if call.id.is_empty() {
            call.id = mint();
        }
        Some(&call.id)
    }

    pub fn call(&mut self, number: u32) -> Option<&mut Call> {
        self.list.get_mut(number as usize)
    }

    /// Calls in the order in which they were opened.
    pub fn opened(&self) -> impl Iterator<Item = &Call> {
        self.opened.iter().filter_map(|&number| self.list.get(number as usize))
    }

    /// Whether a call exists that never became an intent.
    pub fn unfinished(&self) -> bool {
        self.list.iter().any(|call| call.state != State::Done && !(call.name.is_empty() && call.text.is_empty()))
    }

    /// Whether a call was heard of that the client was never told of.
    pub fn untold(&self) -> bool {
        self.list.iter().any(|call| call.state == State::Seen && !(call.name.is_empty() && call.text.is_empty()))
    }

    /// Takes a delta in. Where nothing was held back before it ([`Call::only_newest`]) the caller copies `text` raw.
    pub fn delta(
        &mut self,
        number: u32,
        id: Option<Text<'_>>,
        name: Option<Text<'_>>,
        kind: CallKind,
        text: Text<'_>,
    ) -> Step {
        let whole = self.whole;
        let Some((call, tools)) = self.entry(number, kind) else { return Step::Hold };
        if call.state == State::Done {
            return Step::Hold;
        }
        if call.id.is_empty()
            && let Some(id) = id
        {
            id.decode_into(&mut call.id);
        }
        if call.state == State::Seen
            && let Some(name) = name
            && !name.is_empty()
        {
            call.named(name, kind, tools);
        }
        call.fresh = call.text.len();
        text.decode_into(&mut call.text);
        if !whole && call.tellable() { Step::Tell } else { Step::Hold }
    }

    /// Takes the intent in.
    pub fn intent(&mut self, intent: &ToolIntent<'_>) -> Step {
        let Some((call, tools)) = self.entry(intent.call, intent.kind) else { return Step::Hold };
        if call.state == State::Done {
            return Step::Hold;
        }
        if call.id.is_empty()
            && let Some(id) = intent.provider_call_id
        {
            id.decode_into(&mut call.id);
        }
        if call.state == State::Seen {
            call.named(intent.tool_name, intent.kind, tools);
        }
        // No wire changes a call's kind; the client was told the first.
        let other_kind = call.kind != intent.kind && !call.wrapped;
        let whole: Cow<'_, str> = match call.kind {
            CallKind::Function => Cow::Owned(intent.input_json()),
            CallKind::Custom if call.wrapped => Cow::Owned(unwrapped(intent)),
            CallKind::Custom => intent.raw_input_text.decode(),
        };
        if !other_kind && whole.as_bytes().starts_with(&call.text.as_bytes()[..call.sent]) {
            call.text.clear();
            call.text.push_str(&whole);
            return Step::Tell;
        }
        let same = !other_kind && call.kind == CallKind::Function && same_json(&call.text[..call.sent], &whole);
        call.text.clear();
        call.text.push_str(&whole);
        if same {
            call.sent = call.text.len();
            return Step::Tell;
        }
        Step::Diverged
    }

    /// Makes an object of a custom tool's text, for a client that knows only objects. It has been told nothing of it.
    pub fn wrap_custom(&mut self, number: u32) {
        if let Some(call) = self.call(number) {
            let mut object = b"{\"input\":".to_vec();
            push_json_str(&call.text, &mut object);
            object.push(b'}');
            call.text = String::from_utf8_lossy(&object).into_owned();
            call.sent = 0;
        }
    }

    /// Marks the call as opened, under the caller's own number for it, and mints an id if it has none.
    pub fn open(&mut self, number: u32, slot: usize, mint: impl FnOnce() -> String) -> Option<&mut Call> {
        let call = self.list.get_mut(number as usize)?;
        call.state = State::Open;
        call.slot = slot;
        if call.id.is_empty() {
            call.id = mint();
        }
        self.opened.push(number);
        Some(call)
    }

    /// Takes in who makes a call.
    pub fn made_by(&mut self, number: u32, caller: &str) {
        if let Some((call, _)) = self.entry(number, CallKind::Function) {
            call.caller = Some(caller.to_owned());
        }
    }

    fn entry(&mut self, number: u32, kind: CallKind) -> Option<(&mut Call, &Tools)> {
        let at = number as usize;
        if at >= MAX_CALLS {
            return None;
        }
        while self.list.len() <= at {
            self.list.push(Call {
                id: String::new(),
                name: String::new(),
                namespace: None,
                caller: None,
                kind,
                wrapped: false,
                text: String::new(),
                sent: 0,
                fresh: 0,
                state: State::Seen,
                slot: 0,
                head: Vec::new(),
            });
        }
        let call = &mut self.list[at];
        if call.state == State::Seen && !call.wrapped {
            call.kind = kind;
        }
        Some((call, &self.tools))
    }
}

impl Call {
    /// What the client has not been told yet.
    pub fn rest(&self) -> &str {
        &self.text[self.sent..]
    }

    pub fn told(&mut self) {
        self.sent = self.text.len();
    }

    /// Whether what the client lacks is the newest delta and nothing else.
    pub fn only_newest(&self) -> bool {
        self.sent == self.fresh
    }

    /// Takes the provider's name of the tool, as the client knows it.
    fn named(&mut self, name: Text<'_>, kind: CallKind, tools: &Tools) {
        self.name.clear();
        name.decode_into(&mut self.name);
        if let Some(tool) = tools.find(&self.name) {
            self.name.clone_from(&tool.name);
            self.namespace.clone_from(&tool.namespace);
            self.wrapped = tool.custom && kind == CallKind::Function;
            if self.wrapped {
                self.kind = CallKind::Custom;
            }
        }
    }

    fn tellable(&self) -> bool {
        if self.wrapped || self.name.is_empty() || self.sent == self.text.len() {
            return false;
        }
        if self.sent > 0 || self.kind == CallKind::Custom {
            return true;
        }
        let text = self.text.trim();
        !text.is_empty() && !"null".starts_with(text)
    }
}

/// A custom tool's text out of the object that a function has to have. A model that wrote another object has
/// written that as its text.
fn unwrapped(intent: &ToolIntent<'_>) -> String {
    let object = intent.input_json();
    let mut scanner = Scanner::new(object.as_bytes());
    let mut text = None;
    let mut read = || {
        let mut members = scanner.object()?;
        while let Some(key) = scanner.key(&mut members)? {
            let value = scanner.value()?;
            if key.is("input") {
                text = value.string();
            }
        }
        Scan::Ok(())
    };
    match (read(), text) {
        (Ok(()), Some(text)) => text.decode().into_owned(),
        _ => object,
    }
}

/// Whether two JSON texts differ in white space between tokens only.
fn same_json(a: &str, b: &str) -> bool {
    let mut a = Tokens::of(a);
    let mut b = Tokens::of(b);
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (x, y) if x == y => {}
            _ => return false,
        }
    }
}

/// The bytes of a JSON text but for white space outside of strings.
struct Tokens<'a> {
    bytes: std::slice::Iter<'a, u8>,
    in_string: bool,
    escaped: bool,
}

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Self {
        Tokens { bytes: text.as_bytes().iter(), in_string: false, escaped: false }
    }
}

impl Iterator for Tokens<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.next()?;
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                continue;
            } else if byte == b'"' {
                self.in_string = true;
            }
            return Some(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Assembled;

    fn intent(text: &str) -> ToolIntent<'_> {
        ToolIntent {
            call: 0,
            id: "t0.0",
            provider_call_id: None,
            tool_name: "f".into(),
            kind: CallKind::Function,
            raw_input_text: text.into(),
            assembled_from: Assembled::default(),
        }
    }

    fn feed(calls: &mut Calls, texts: &[&str]) -> Vec<Step> {
        texts
            .iter()
            .map(|text| {
                let step = calls.delta(0, None, Some("f".into()), CallKind::Function, (*text).into());
                if step == Step::Tell {
                    calls.call(0).unwrap().told();
                }
                step
            })
            .collect()
    }

    #[test]
    fn null_and_blank_texts_are_held_and_become_an_empty_object() {
        for texts in [&["", " ", "nu", "ll", " "][..], &["\n"], &[]] {
            let mut calls = Calls::default();
            assert!(feed(&mut calls, texts).iter().all(|s| *s == Step::Hold));
            assert_eq!(calls.intent(&intent(&texts.concat())), Step::Tell);
            assert_eq!(calls.call(0).unwrap().rest(), "{}");
        }
    }

    #[test]
    fn an_intent_tells_what_the_deltas_did_not() {
        let mut calls = Calls::default();
        assert_eq!(feed(&mut calls, &[" ", "{\"a\"", ":1"]), [Step::Hold, Step::Tell, Step::Tell]);
        assert_eq!(calls.intent(&intent(" {\"a\":1}")), Step::Tell);
        assert_eq!(calls.call(0).unwrap().rest(), "}");
    }

    #[test]
    fn replaced_arguments_pass_only_where_they_mean_the_same() {
        let mut calls = Calls::default();
        feed(&mut calls, &["{\"a b\": 1}"]);
        assert_eq!(calls.intent(&intent("{\"a b\":1}")), Step::Tell);
        assert_eq!(calls.call(0).unwrap().rest(), "");
        for other in ["{\"ab\":1}", "{\"a b\":2}", "{\"a b\":1,\"c\":2}", "{}"] {
            let mut calls = Calls::default();
            feed(&mut calls, &["{\"a b\": 1}"]);
            assert_eq!(calls.intent(&intent(other)), Step::Diverged, "{other}");
        }
    }
}
