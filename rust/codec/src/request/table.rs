//! What becomes of every field, per ordered pair of protocols, as data that the readers go by.
//!
//! 1. A [`Row`] is one key of one object of a source protocol, its allowed types, and its [`Fate`] in each target.
//!    One column of these tables is the table of one ordered pair; [`rows`] prints it.
//! 2. A reader asks for the next field and gets only those that the target can carry; the rest was dropped and
//!    reported, or refused, by the row alone. `By` rows are the only ones where code looks at the value.
//! 3. `null` is absent. An empty object, array or string that would be dropped or refused is not reported: it asks
//!    for nothing.
//! 4. A key that no table knows is some vendor's own: dropped and reported in translation, kept in a rewrite.
//! 5. A family that came later has no column of its own: it goes by that of the family it is most like, but for the fields
//!    that it names itself ([`Column::like`]).
//!
//! A field without a row must not be read anywhere.

use super::flags::{Flag, TargetFlags};
use super::{
    Source, anthropic_messages, bedrock_converse, cohere_chat, google_gemini, headrace, ollama_chat, openai_chat,
    openai_responses,
};
use crate::event::Protocol;
use crate::json::Kind;

/// What becomes of a field in one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Carried with its meaning, where the target has it under the same name or as part of the structure.
    Kept,
    /// Carried with its meaning under another name.
    To(&'static str),
    /// Carried as something near to it, and reported.
    Near(&'static str),
    /// Dropped and reported: a hint.
    Drop(&'static str),
    /// Refused: dropping it would change the meaning.
    Refuse(&'static str),
    /// Kept (under the given name, or its own) where the target has the flag, else dropped and reported.
    If(Flag, &'static str),
    /// Kept where the target has the flag, else refused.
    Needs(Flag, &'static str),
    /// The gateway answers it itself; the provider need not know.
    Ours(&'static str),
    /// By its value: carried, reported or refused as the words say.
    By(&'static str),
}

/// A set of JSON types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ty(u8);

pub(super) const STR: Ty = Ty(1);
pub(super) const NUM: Ty = Ty(2);
pub(super) const BOOL: Ty = Ty(4);
pub(super) const OBJ: Ty = Ty(8);
pub(super) const ARR: Ty = Ty(16);
pub(super) const ANY: Ty = Ty(31);

impl Ty {
    pub(super) const fn or(self, other: Ty) -> Ty {
        Ty(self.0 | other.0)
    }

    pub(super) fn allows(self, kind: Kind) -> bool {
        let bit = match kind {
            Kind::Null => return true,
            Kind::String => STR,
            Kind::Number => NUM,
            Kind::Bool => BOOL,
            Kind::Object => OBJ,
            Kind::Array => ARR,
        };
        self.0 & bit.0 != 0
    }

    /// In words, for an error.
    #[must_use]
    pub fn words(self) -> String {
        let names =
            [(STR, "a string"), (NUM, "a number"), (BOOL, "true or false"), (OBJ, "an object"), (ARR, "an array")];
        let these: Vec<&str> = names.iter().filter(|(t, _)| self.0 & t.0 != 0).map(|(_, n)| *n).collect();
        these.join(" or ")
    }
}

/// One key of one object. `fates` by target: Chat, Responses, Messages.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub key: &'static str,
    pub ty: Ty,
    pub fates: [Fate; 3],
}

/// One kind of object of a source protocol. `path` is its place, `[]` for any index.
#[derive(Debug)]
pub struct Object {
    pub path: &'static str,
    pub rows: &'static [Row],
}

impl Object {
    pub(super) fn find(&self, is: impl Fn(&str) -> bool) -> Option<(usize, &'static Row)> {
        self.rows.iter().enumerate().find(|(_, r)| is(r.key))
    }
}

/// Where the fates of one ordered pair stand.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    at: usize,
    others: &'static [Other],
    /// What the target's protocol has no place for, whatever its flags say.
    lacks: TargetFlags,
}

/// A field whose fate in a target is not that of the column which the target goes by.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    /// The object's, as in [`Object::path`].
    pub path: &'static str,
    pub key: &'static str,
    pub fate: Fate,
}

/// A field whose fate differs.
pub(super) const fn other(path: &'static str, key: &'static str, fate: Fate) -> Other {
    Other { path, key, fate }
}

impl Column {
    pub(super) const CHAT: Column = Column { at: 0, others: &[], lacks: TargetFlags::NONE };
    pub(super) const RESPONSES: Column = Column { at: 1, others: &[], lacks: TargetFlags::NONE };
    pub(super) const MESSAGES: Column = Column { at: 2, others: &[], lacks: TargetFlags::NONE };

    /// The column of `base`, but for these fields.
    #[must_use]
    pub const fn like(base: Column, others: &'static [Other]) -> Column {
        Column { at: base.at, others, lacks: base.lacks }
    }

    /// The column for a protocol that has no place for what these flags stand for.
    #[must_use]
    pub const fn without(self, flags: &[Flag]) -> Column {
        Column { lacks: TargetFlags::of(flags), ..self }
    }

    /// What can hold of the flags of a target of this column.
    #[must_use]
    pub(super) fn of(&self, flags: TargetFlags) -> TargetFlags {
        flags.except(self.lacks)
    }

    /// The fate of a row of this object.
    #[must_use]
    pub fn fate(&self, object: &Object, row: &Row) -> Fate {
        let other = self.others.iter().find(|o| o.key == row.key && o.path == object.path);
        match other.map_or(row.fates[self.at], |o| o.fate) {
            Fate::If(flag, _) if self.lacks.has(flag) => Fate::Drop("no such parameter"),
            Fate::Needs(flag, why) if self.lacks.has(flag) => Fate::Refuse(why),
            fate => fate,
        }
    }
}

/// The column of a pair.
#[must_use]
pub fn column(source: Source, target: Protocol) -> Column {
    if source == Source::Protocol(Protocol::OllamaChat) {
        return ollama_chat::column_to(target);
    }
    match target {
        Protocol::OpenaiChat if source == Source::Protocol(target) => openai_chat::DIALECT,
        Protocol::OpenaiChat => Column::CHAT,
        Protocol::OpenaiResponses => Column::RESPONSES,
        Protocol::AnthropicMessages | Protocol::BedrockInvoke => Column::MESSAGES,
        Protocol::GoogleGemini => google_gemini::column(source),
        Protocol::BedrockConverse => bedrock_converse::column(source),
        Protocol::CohereChat => cohere_chat::column(source),
        Protocol::OllamaChat => ollama_chat::column(source),
    }
}

/// The tables of a source. Empty for a family that nobody translates from.
#[must_use]
pub fn objects(source: Source) -> &'static [&'static Object] {
    match source {
        Source::Protocol(Protocol::OpenaiChat) => openai_chat::TABLES,
        Source::Protocol(Protocol::OpenaiResponses) => openai_responses::TABLES,
        Source::Protocol(Protocol::AnthropicMessages) => anthropic_messages::TABLES,
        Source::Protocol(Protocol::GoogleGemini) => google_gemini::TABLES,
        Source::Protocol(Protocol::OllamaChat) => ollama_chat::TABLES,
        Source::Headrace => headrace::TABLES,
        Source::Protocol(_) => &[],
    }
}

/// The table of one ordered pair: every known field's path and fate.
pub fn rows(source: Source, target: Protocol) -> impl Iterator<Item = (String, Fate)> {
    let column = column(source, target);
    objects(source).iter().flat_map(move |object| {
        object.rows.iter().map(move |row| {
            let path = if object.path.is_empty() { row.key.to_owned() } else { format!("{}.{}", object.path, row.key) };
            (path, column.fate(object, row))
        })
    })
}
