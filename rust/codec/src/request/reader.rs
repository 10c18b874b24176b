//! What the readers of all families share: the walk through an object by its table, the place it stands at, and
//! the report.
//!
//! 1. A loss names a field's pattern (`messages[].content[].detail`), once, however often it occurs; an error names the
//!    place itself (`messages[3].content[0].detail`). Both are made from one stack of keys and indices.
//! 2. A key that stands twice in an object that is read is refused.
//!
//! Nothing about one family may be added.

use super::error::{RequestError, Res, shown};
use super::flags::{Flag, TargetFlags};
use super::neutral::{Kept, Options, Str};
use super::table::{Column, Fate, Object, Row};
use crate::encode::continuation;
use crate::event::Protocol;
use crate::json::{Items, Kind, Scanner};
use crate::limits::{MAX_ITEMS, MAX_LOSSES};
use crate::loss::{Loss, LossAction};
use crate::text::Literal;

pub(super) struct Reader<'s> {
    /// Whose words the target speaks: Bedrock's two families go by those of Messages.
    pub target: Protocol,
    /// The target itself.
    pub family: Protocol,
    pub flags: TargetFlags,
    pub provider: Option<&'s str>,
    /// The key of the source's messages.
    pub list: &'static str,
    /// The source may spell its keys in `snake_case` too.
    pub snake: bool,
    column: Column,
    path: Vec<Step>,
    /// Rows that are reported already, with the depth they were met at.
    reported: Vec<(*const Row, usize)>,
    losses: Vec<Loss>,
    /// A vendor's own keys of the body, where they are to be kept.
    pub own: Option<Vec<(String, Vec<u8>)>>,
    /// Items of lists so far.
    items: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Key(&'static str),
    Index(usize),
}

/// An object that is being read.
pub(super) struct Open {
    items: Items,
    table: &'static Object,
    /// One bit a row: a table has at most 64.
    seen: u64,
    row: Option<&'static Row>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(target: Protocol, column: Column, flags: TargetFlags, provider: Option<&'s str>) -> Self {
        let spoken = match target {
            Protocol::BedrockConverse | Protocol::BedrockInvoke => Protocol::AnthropicMessages,
            target => target,
        };
        Reader {
            target: spoken,
            family: target,
            flags: column.of(flags),
            provider,
            list: "messages",
            snake: false,
            column,
            path: Vec::new(),
            reported: Vec::new(),
            losses: Vec::new(),
            own: None,
            items: 0,
        }
    }

    pub(super) fn into_losses(self) -> Vec<Loss> {
        self.losses
    }

    pub(super) fn has(&self, flag: Flag) -> bool {
        self.flags.has(flag)
    }

    pub(super) fn is_to(&self, target: Protocol) -> bool {
        self.target == target
    }

    /// Whether the target wants readable reasoning given back.
    pub(super) fn echoes(&self) -> bool {
        self.flags.echoes(self.target)
    }

    /// Whether the target's messages are `OpenAI`'s of old: a role, a text, calls; no file by URL, no picture by id.
    pub(super) fn is_to_chat(&self) -> bool {
        matches!(self.target, Protocol::OpenaiChat | Protocol::CohereChat | Protocol::OllamaChat)
    }

    /// Whether the target takes a call's arguments as an object instead of text.
    pub(super) fn takes_objects(&self) -> bool {
        matches!(self.target, Protocol::AnthropicMessages | Protocol::GoogleGemini | Protocol::OllamaChat)
    }

    pub(super) fn enter(&mut self, key: &'static str) {
        self.path.push(Step::Key(key));
    }

    pub(super) fn leave(&mut self) {
        self.path.pop();
    }

    /// Opens an object that must be there.
    pub(super) fn object(&mut self, s: &mut Scanner<'_>, table: &'static Object) -> Res<Open> {
        debug_assert!(table.rows.len() <= 64);
        if s.kind()? != Kind::Object {
            return self.expected("", "an object");
        }
        Ok(Open { items: s.object()?, table, seen: 0, row: None })
    }

    /// The next field that the target can carry; its value comes next, of one of the row's types and not null.
    pub(super) fn next(&mut self, s: &mut Scanner<'_>, open: &mut Open) -> Res<Option<&'static str>> {
        while let Some(key) = s.key(&mut open.items)? {
            let camel = if self.snake && key.raw.contains(&b'_') { camel(&key.decode()) } else { None };
            let found = open.table.find(|k| camel.as_deref().map_or_else(|| key.is(k), |camel| camel == k));
            let Some((at, row)) = found else {
                let raw = s.skip()?;
                if let Some(own) = self.own.as_mut().filter(|_| self.path.is_empty()) {
                    own.push((key.decode().into_owned(), raw.to_vec()));
                } else if asks(raw) {
                    let key = shown(&key.decode());
                    let path = self.place(&key, false);
                    self.push_loss(path, LossAction::Dropped);
                }
                continue;
            };
            if open.seen >> at & 1 == 1 {
                return Err(RequestError::duplicate(self.place(row.key, true)));
            }
            open.seen |= 1 << at;
            let kind = s.kind()?;
            if kind == Kind::Null {
                s.null()?;
                continue;
            }
            if !row.ty.allows(kind) {
                return self.expected(row.key, &row.ty.words());
            }
            let carried = match self.column.fate(open.table, row) {
                Fate::Drop(_) => {
                    if asks(s.skip()?) {
                        self.report(row, LossAction::Dropped);
                    }
                    false
                }
                Fate::If(flag, _) if !self.has(flag) => {
                    if asks(s.skip()?) {
                        self.report(row, LossAction::Dropped);
                    }
                    false
                }
                Fate::Refuse(why) => {
                    if asks(s.skip()?) {
                        return self.refuse(row.key, why);
                    }
                    false
                }
                Fate::Needs(flag, why) if !self.has(flag) => {
                    if asks(s.skip()?) {
                        return self.refuse(row.key, why);
                    }
                    false
                }
                Fate::Near(_) => {
                    self.report(row, LossAction::Approximated);
                    true
                }
                _ => true,
            };
            if carried {
                open.row = Some(row);
                return Ok(Some(row.key));
            }
        }
        Ok(None)
    }

    /// Judges a value that says what kind of thing it stands in (`type`): whether the target can carry it.
    pub(super) fn kind(&mut self, table: &'static Object, kind: &str) -> Res<Option<&'static str>> {
        let Some((_, row)) = table.find(|k| k == kind) else {
            // What nobody knows may be what the whole turn is about.
            return self.refuse("type", &format!("{} is unknown here", shown(kind)));
        };
        match self.column.fate(table, row) {
            Fate::Drop(_) => {}
            Fate::If(flag, _) if !self.has(flag) => {}
            Fate::Refuse(why) => return self.refuse("type", &format!("{}: {why}", row.key)),
            Fate::Needs(flag, why) if !self.has(flag) => return self.refuse("type", &format!("{}: {why}", row.key)),
            Fate::Near(_) => {
                let path = self.place(&format!("type:{}", row.key), false);
                self.push_loss(path, LossAction::Approximated);
                return Ok(Some(row.key));
            }
            _ => return Ok(Some(row.key)),
        }
        let path = self.place(&format!("type:{}", row.key), false);
        self.push_loss(path, LossAction::Dropped);
        Ok(None)
    }

    /// Reads an array that comes next: `each` is called at every item.
    pub(super) fn each<'a>(
        &mut self,
        s: &mut Scanner<'a>,
        key: &'static str,
        mut each: impl FnMut(&mut Self, &mut Scanner<'a>) -> Res<()>,
    ) -> Res<()> {
        if s.kind()? != Kind::Array {
            return self.expected(key, "an array");
        }
        let mut items = s.array()?;
        self.enter(key);
        let mut n = 0;
        while s.item(&mut items)? {
            self.items += 1;
            if self.items > MAX_ITEMS {
                return Err(RequestError::invalid(
                    Some(key.to_owned()),
                    format!("{key}: the request has more than {MAX_ITEMS} messages, parts and tools"),
                ));
            }
            self.path.push(Step::Index(n));
            each(self, s)?;
            self.leave();
            n += 1;
        }
        self.leave();
        Ok(())
    }

    /// Reads strings, or one string that stands for a list of one.
    pub(super) fn strings<'a>(&mut self, s: &mut Scanner<'a>, key: &'static str) -> Res<Vec<Str<'a>>> {
        let mut out = Vec::new();
        if s.kind()? == Kind::String {
            out.push(s.string()?.into());
            return Ok(out);
        }
        self.each(s, key, |r, s| {
            out.push(r.string(s)?);
            Ok(())
        })?;
        Ok(out)
    }

    /// A string that must come next.
    pub(super) fn string<'a>(&mut self, s: &mut Scanner<'a>) -> Res<Str<'a>> {
        if s.kind()? != Kind::String {
            return self.expected("", "a string");
        }
        Ok(s.string()?.into())
    }

    /// Passes the field that was read last with its bytes, under the target's name.
    pub(super) fn pass<'a>(&mut self, s: &mut Scanner<'a>, open: &Open, options: &mut Options<'a>) -> Res<()> {
        let raw = s.skip()?;
        let Some(row) = open.row else { return Ok(()) };
        let name = match self.column.fate(open.table, row) {
            Fate::To(name) => name,
            Fate::If(_, name) if !name.is_empty() => name,
            _ => row.key,
        };
        options.passed.push((name, raw));
        Ok(())
    }

    /// The value of an opaque slot, where this target's family and provider row gave it; else it is reported.
    pub(super) fn unwrap(&mut self, slot: Literal<'_>, key: &'static str) -> Option<Kept> {
        self.unwrapped(&slot.decode(), key)
    }

    /// As [`Reader::unwrap`], for a slot that holds it in another form.
    pub(super) fn unwrapped(&mut self, text: &str, key: &'static str) -> Option<Kept> {
        let kept = continuation::unwrap(text)
            .filter(|c| c.family == self.family && c.provider == self.provider.unwrap_or_default())
            .map(|c| Kept { form: c.form, data: c.data });
        if kept.is_none() && !text.is_empty() {
            self.loss(LossAction::Dropped, key);
        }
        kept
    }

    pub(super) fn loss(&mut self, action: LossAction, key: &str) {
        let path = self.place(key, false);
        self.push_loss(path, action);
    }

    pub(super) fn expected<T>(&self, key: &str, wanted: &str) -> Res<T> {
        Err(RequestError::expected(self.place(key, true), wanted))
    }

    /// The field `key` is needed and not there.
    pub(super) fn missing<T>(&self, key: &str) -> Res<T> {
        let param = self.place(key, true);
        let message = format!("{param}: missing");
        Err(RequestError::invalid(Some(param), message))
    }

    pub(super) fn refuse<T>(&self, key: &str, why: &str) -> Res<T> {
        let param = self.place(key, true);
        let message = format!("{param}: {why}");
        Err(RequestError::unsupported(param, message))
    }

    fn report(&mut self, row: &'static Row, action: LossAction) {
        let met = (std::ptr::from_ref(row), self.path.len());
        if !self.reported.contains(&met) {
            self.reported.push(met);
            self.loss(action, row.key);
        }
    }

    fn push_loss(&mut self, path: String, action: LossAction) {
        if self.losses.len() > MAX_LOSSES || self.losses.iter().any(|l| l.path == path) {
            return;
        }
        let path = if self.losses.len() == MAX_LOSSES { "...".to_owned() } else { path };
        self.losses.push(Loss { path, action });
    }

    /// The path of `key` here; with indices where `exact`, else `[]`.
    fn place(&self, key: &str, exact: bool) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if out.is_empty() => out.push_str(key),
                Step::Key(key) => {
                    out.push('.');
                    out.push_str(key);
                }
                // Writing to a string cannot fail.
                Step::Index(n) if exact => drop(write!(out, "[{n}]")),
                Step::Index(_) => out.push_str("[]"),
            }
        }
        if !key.is_empty() {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(key);
        }
        out
    }
}

/// `snake_case` as `camelCase`.
pub(super) fn camel(key: &str) -> Option<String> {
    let mut words = key.split('_').filter(|word| !word.is_empty());
    let mut out = words.next()?.to_owned();
    for word in words {
        let mut chars = word.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out.push_str(chars.as_str());
    }
    Some(out)
}

/// Whether a value asks for anything: `null`, `[]`, `{}` and `""` do not.
fn asks(raw: &[u8]) -> bool {
    match raw {
        b"null" => false,
        [b'[' | b'{', inside @ .., _] => inside.iter().any(|b| !b.is_ascii_whitespace()),
        _ => raw != b"\"\"",
    }
}

/// The `type` of the object that comes next, without consuming it.
pub(super) fn type_of<'a>(s: &Scanner<'a>) -> Res<Option<Str<'a>>> {
    let mut ahead = s.clone();
    let Some(mut items) = ahead.object_or_skip()? else { return Ok(None) };
    while let Some(key) = ahead.key(&mut items)? {
        if key.is("type") {
            return Ok(ahead.string_or_skip()?.map(Str::Lit));
        }
        ahead.skip()?;
    }
    Ok(None)
}
