//! Assembly of a provider's tool-call fragments into complete proposals.
//!
//! 1. Every change of a call's state is a row of [`TABLE`]; nobody else assigns a state.
//! 2. A call becomes an intent only at the provider's own end of it ([`Input::End`]), and only if its text
//!    is one JSON object, blank or `null` (rules R6 to R8, R11); a custom tool's may be any text (R9c).
//!    Text that happens to parse proposes nothing, and a cut call is dropped (R10).
//! 3. Text is decoded once, into one growing string per call: linear in what came. Whether it is complete
//!    already is asked rarely (R21e) and answered from a mark, never by a rescan.
//! 4. Calls are numbered from 0 by first appearance (R4). Which fragment belongs to which call is the
//!    normaliser's to say; [`crate::normalize::openai_chat`] has rule R21.
//!
//! Nothing here may repair arguments, and nothing may propose before the end.

use crate::event::{Assembled, CallKind, ContinuationForm};
use crate::json::{Scanner, Value};
use crate::limits::{MAX_ARGUMENTS, MAX_CALLS, MAX_NAME};
use crate::normalize::text::Half;
use crate::text::Text;

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Opened; no argument text yet.
    Open,
    /// Argument text has come.
    Filling,
    /// The provider sent the whole input as a JSON value (R9), or its final text.
    Whole,
    /// An intent was made of it.
    Proposed,
    /// The provider ended it and its text is no JSON object (R11).
    Malformed,
    /// It was cut before its end (R10).
    Dropped,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A piece of the tool's name.
    Name,
    /// A piece of argument text.
    Text,
    /// The whole input as a JSON value instead of text, or the final text.
    Whole,
    /// The provider's own end of the call.
    End,
    /// The response ended without ending the call.
    Cut,
    /// The provider says itself that the call is malformed.
    Broken,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Append,
    Replace,
    /// Proposed if the text is what an intent may be made of, else malformed.
    Judge,
    Settle,
    Ignore,
}

/// State, input, action, next state. What stands nowhere is ignored: a call that has ended takes nothing more.
/// The next state of a `Judge` row is that of a good text; a bad one is `Malformed`.
pub const TABLE: [(State, Input, Action, State); 18] = {
    use Action as A;
    use Input as I;
    use State as S;
    [
        (S::Open, I::Name, A::Append, S::Open),
        (S::Open, I::Text, A::Append, S::Filling),
        (S::Open, I::Whole, A::Replace, S::Whole),
        (S::Open, I::End, A::Judge, S::Proposed),
        (S::Open, I::Cut, A::Settle, S::Dropped),
        (S::Open, I::Broken, A::Settle, S::Malformed),
        (S::Filling, I::Name, A::Ignore, S::Filling),
        (S::Filling, I::Text, A::Append, S::Filling),
        (S::Filling, I::Whole, A::Replace, S::Whole),
        (S::Filling, I::End, A::Judge, S::Proposed),
        (S::Filling, I::Cut, A::Settle, S::Dropped),
        (S::Filling, I::Broken, A::Settle, S::Malformed),
        (S::Whole, I::Name, A::Ignore, S::Whole),
        (S::Whole, I::Text, A::Ignore, S::Whole),
        (S::Whole, I::Whole, A::Replace, S::Whole),
        (S::Whole, I::End, A::Judge, S::Proposed),
        (S::Whole, I::Cut, A::Settle, S::Dropped),
        (S::Whole, I::Broken, A::Settle, S::Malformed),
    ]
};

const fn step(state: State, input: Input) -> (Action, State) {
    let mut i = 0;
    while i < TABLE.len() {
        let (from, on, action, to) = TABLE[i];
        if from as u8 == state as u8 && on as u8 == input as u8 {
            return (action, to);
        }
        i += 1;
    }
    (Action::Ignore, state)
}

/// A bound of `limits.rs` was passed; the stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    Calls,
    Arguments,
}

/// What one fragment brought that was not known before.
#[derive(Clone, Copy, Debug, Default)]
pub struct News {
    pub id: bool,
    pub name: bool,
}

/// One call as far as it is known.
#[derive(Debug)]
pub struct Call {
    state: State,
    pub kind: CallKind,
    pub id: Option<String>,
    pub name: String,
    /// The arguments, decoded.
    pub text: String,
    pub(crate) half: Half,
    /// Opaque state that belongs to this call (rule R3g); it is given out directly before the intent.
    pub signature: Option<(ContinuationForm, String)>,
    /// Whether a delta of this call has been given out.
    pub(crate) announced: bool,
    assembled: Assembled,
    last_frame: Option<u64>,
    progress: Progress,
}

impl Call {
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    #[must_use]
    pub fn assembled(&self) -> Assembled {
        self.assembled
    }

    /// Whether the text so far is one complete JSON object (rule R21e). Looks only at what came since it was last asked.
    pub fn is_complete(&mut self) -> bool {
        self.progress.advance(&self.text)
    }

    pub(crate) fn touch(&mut self, offset: u64) {
        if self.last_frame == Some(offset) {
            return;
        }
        if self.last_frame.is_none() {
            self.assembled.first_offset = offset;
        }
        self.last_frame = Some(offset);
        self.assembled.last_offset = offset;
        self.assembled.event_count += 1;
    }

    fn is_good(&self) -> bool {
        if self.name.is_empty() {
            return false;
        }
        match self.kind {
            CallKind::Custom => true,
            CallKind::Function => {
                let text = self.text.trim_matches([' ', '\t', '\n', '\r']);
                text.is_empty() || text == "null" || matches!(Scanner::only(text.as_bytes()), Ok(Value::Object(_)))
            }
        }
    }
}

/// All calls of one response.
#[derive(Debug, Default)]
pub struct Calls {
    list: Vec<Call>,
    bytes: usize,
    proposed: u32,
    malformed: Option<u32>,
}

impl Calls {
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many became intents.
    #[must_use]
    pub fn proposed(&self) -> u32 {
        self.proposed
    }

    /// The first call that the provider ended and that is no intent.
    #[must_use]
    pub fn malformed(&self) -> Option<&Call> {
        self.malformed.map(|n| &self.list[n as usize])
    }

    /// `call` is a number that [`Calls::open`] gave.
    #[must_use]
    pub fn call(&mut self, call: u32) -> &mut Call {
        &mut self.list[call as usize]
    }

    /// Opens the next call and returns its number.
    pub fn open(&mut self, kind: CallKind) -> Result<u32, Excess> {
        if self.list.len() >= MAX_CALLS {
            return Err(Excess::Calls);
        }
        self.list.push(Call {
            state: State::Open,
            kind,
            id: None,
            name: String::new(),
            text: String::new(),
            half: Half::default(),
            signature: None,
            announced: false,
            assembled: Assembled::default(),
            last_frame: None,
            progress: Progress::default(),
        });
        Ok((self.list.len() - 1) as u32)
    }

    /// Takes the id and the name piece of one fragment. Empty ones count as absent, the first id stays, a name
    /// piece is appended unless it equals the whole name so far (rules R21a, b, d).
    pub fn identify(&mut self, call: u32, offset: u64, id: Option<Text<'_>>, name: Option<Text<'_>>) -> News {
        let call = &mut self.list[call as usize];
        let mut news = News::default();
        call.touch(offset);
        if let Some(id) = id
            && call.id.is_none()
            && !id.is_empty()
        {
            call.id = Some(bounded(id));
            news.id = true;
        }
        if let Some(name) = name
            && !name.is_empty()
            && step(call.state, Input::Name).0 == Action::Append
            && !name.is(&call.name)
            && call.name.len() < MAX_NAME
        {
            call.name.push_str(&bounded(name));
            news.name = true;
        }
        news
    }

    /// Appends argument text. Returns whether it was taken.
    pub fn append(&mut self, call: u32, offset: u64, text: Text<'_>) -> Result<bool, Excess> {
        let call = &mut self.list[call as usize];
        let (action, next) = step(call.state, Input::Text);
        if action != Action::Append {
            return Ok(false);
        }
        call.touch(offset);
        let before = call.text.len();
        text.decode_into(&mut call.text);
        self.bytes += call.text.len() - before;
        call.state = next;
        if self.bytes > MAX_ARGUMENTS { Err(Excess::Arguments) } else { Ok(true) }
    }

    /// Keeps opaque state of a call, in the place of what it had.
    pub fn sign(&mut self, call: u32, form: ContinuationForm, data: String) -> Result<(), Excess> {
        let call = &mut self.list[call as usize];
        self.bytes = self.bytes - call.signature.as_ref().map_or(0, |(_, before)| before.len()) + data.len();
        call.signature = Some((form, data));
        if self.bytes > MAX_ARGUMENTS { Err(Excess::Arguments) } else { Ok(()) }
    }

    /// Puts the whole text in the place of what came before.
    pub fn replace(&mut self, call: u32, offset: u64, text: &str) -> Result<bool, Excess> {
        let call = &mut self.list[call as usize];
        let (action, next) = step(call.state, Input::Whole);
        if action != Action::Replace {
            return Ok(false);
        }
        call.touch(offset);
        call.assembled.had_repair = true;
        self.bytes = self.bytes - call.text.len() + text.len();
        call.text.clear();
        call.text.push_str(text);
        call.progress = Progress::default();
        call.state = next;
        if self.bytes > MAX_ARGUMENTS { Err(Excess::Arguments) } else { Ok(true) }
    }

    /// The provider ended the call. Returns whether an intent is to be made of it now.
    pub fn end(&mut self, call: u32) -> bool {
        let c = &mut self.list[call as usize];
        let (action, next) = step(c.state, Input::End);
        if action != Action::Judge {
            return false;
        }
        if c.is_good() {
            c.state = next;
            self.proposed += 1;
            return true;
        }
        c.state = State::Malformed;
        self.malformed.get_or_insert(call);
        false
    }

    /// The call was cut: nothing is made of it.
    pub fn cut(&mut self, call: u32) {
        self.settle(call, Input::Cut);
    }

    /// The provider itself reports the call as malformed.
    pub fn broken(&mut self, call: u32) {
        if self.settle(call, Input::Broken) {
            self.malformed.get_or_insert(call);
        }
    }

    fn settle(&mut self, call: u32, input: Input) -> bool {
        let c = &mut self.list[call as usize];
        let (action, next) = step(c.state, input);
        c.state = next;
        action == Action::Settle
    }
}

/// Decodes a name or an id, cut at [`MAX_NAME`] bytes, at a character's edge.
pub(crate) fn bounded(text: Text<'_>) -> String {
    let mut name = text.decode().into_owned();
    if name.len() > MAX_NAME {
        let edge = (0..=MAX_NAME).rev().find(|&i| name.is_char_boundary(i)).unwrap_or(0);
        name.truncate(edge);
    }
    name
}

/// How far a text has been looked at for the end of its JSON object.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    scanned: usize,
    depth: usize,
    in_string: bool,
    escape: bool,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    /// More text may complete it.
    #[default]
    Partial,
    Complete,
    /// No further text makes it one object.
    Never,
}

impl Progress {
    fn advance(&mut self, text: &str) -> bool {
        while self.scanned < text.len() && self.verdict != Verdict::Never {
            let byte = text.as_bytes()[self.scanned];
            self.scanned += 1;
            if self.in_string {
                match byte {
                    _ if self.escape => self.escape = false,
                    b'\\' => self.escape = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => {}
                // After the object's end anything but white space spoils it.
                _ if self.verdict == Verdict::Complete => self.verdict = Verdict::Never,
                b'{' => self.depth += 1,
                _ if self.depth == 0 => self.verdict = Verdict::Never,
                b'[' => self.depth += 1,
                b'"' => self.in_string = true,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        // The brackets balance; the strict look at all of it happens once.
                        let whole = Scanner::only(&text.as_bytes()[..self.scanned]);
                        let is_object = matches!(whole, Ok(Value::Object(_)));
                        self.verdict = if is_object { Verdict::Complete } else { Verdict::Never };
                    }
                }
                _ => {}
            }
        }
        self.verdict == Verdict::Complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(pieces: &[&str]) -> Calls {
        let mut calls = Calls::default();
        let n = calls.open(CallKind::Function).unwrap();
        calls.identify(n, 0, Some("c".into()), Some("tool".into()));
        for piece in pieces {
            calls.append(n, 0, Text::Plain(piece)).unwrap();
        }
        calls
    }

    #[test]
    fn the_table_is_a_function_and_leaves_ended_calls_alone() {
        for (i, a) in TABLE.iter().enumerate() {
            assert!(TABLE[i + 1..].iter().all(|b| (a.0, a.1) != (b.0, b.1)), "{a:?} stands twice");
            assert!(!matches!(a.0, State::Proposed | State::Malformed | State::Dropped));
        }
        assert_eq!(step(State::Proposed, Input::Text), (Action::Ignore, State::Proposed));
    }

    #[test]
    fn only_an_object_blank_or_null_becomes_an_intent() {
        for (text, good) in [
            ("{}", true),
            (" {\"a\":[1]} ", true),
            ("", true),
            (" \n", true),
            ("null", true),
            ("{", false),
            ("[]", false),
            ("\"x\"", false),
            ("{}{}", false),
            ("{\"a\":1},", false),
        ] {
            let mut calls = call(&[text]);
            assert_eq!(calls.end(0), good, "{text}");
            assert_eq!(calls.call(0).state(), if good { State::Proposed } else { State::Malformed });
            assert_eq!(calls.malformed().is_some(), !good);
            assert!(!calls.end(0), "a call ends once");
        }
    }

    #[test]
    fn completeness_is_asked_piece_by_piece() {
        let mut calls = call(&[]);
        for (piece, complete) in [
            ("{\"a", false),
            ("\":\"}\\\"", false),
            ("\"", false),
            ("}", true),
            (" ", true),
            ("{", false),
            ("}", false),
        ] {
            calls.append(0, 0, Text::Plain(piece)).unwrap();
            assert_eq!(calls.call(0).is_complete(), complete, "{piece}");
        }
        assert!(!call(&["[{}]"]).call(0).is_complete());
        assert!(!call(&["{]}"]).call(0).is_complete());
    }

    #[test]
    fn names_grow_until_text_comes_and_repeats_change_nothing() {
        let mut calls = call(&[]);
        assert!(calls.identify(0, 1, None, Some("_two".into())).name);
        assert!(!calls.identify(0, 1, Some("other".into()), Some("tool_two".into())).name);
        calls.append(0, 2, Text::Plain("{}")).unwrap();
        assert!(!calls.identify(0, 3, None, Some("late".into())).name);
        assert_eq!(calls.call(0).name, "tool_two");
        assert_eq!(calls.call(0).id.as_deref(), Some("c"));
        assert_eq!(calls.call(0).assembled().event_count, 4);
    }

    #[test]
    fn a_cut_call_is_dropped_and_a_call_without_a_name_is_malformed() {
        let mut calls = call(&["{}"]);
        calls.cut(0);
        assert!(!calls.end(0));
        assert_eq!((calls.call(0).state(), calls.proposed()), (State::Dropped, 0));
        let n = calls.open(CallKind::Custom).unwrap();
        assert!(!calls.end(n));
        assert_eq!(calls.call(n).state(), State::Malformed);
    }
}
