//! The neutral request while it is carried from one body to another: slices of the client's body, in our words.
//!
//! 1. Texts and raw JSON borrow from the client's body. Only what had to be changed is owned.
//! 2. What is in here, every writer can write; a reader leaves out (and reports) what its target cannot take.
//!
//! It must not outlive a translation, and no provider's field names may be added.

use std::borrow::Cow;

use crate::event::ContinuationForm;
use crate::text::{Literal, Text, escape_json};

/// A string as the client wrote it, or as it had to be made.
#[derive(Clone, Debug)]
pub(super) enum Str<'a> {
    Lit(Literal<'a>),
    Own(String),
}

impl<'a> From<Literal<'a>> for Str<'a> {
    fn from(l: Literal<'a>) -> Self {
        Str::Lit(l)
    }
}

impl Str<'_> {
    pub(super) fn text(&self) -> Text<'_> {
        match self {
            Str::Lit(l) => Text::Literal(*l),
            Str::Own(s) => Text::Plain(s),
        }
    }

    pub(super) fn decode(&self) -> Cow<'_, str> {
        self.text().decode()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// Appends the string with its quotes.
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        self.push_inside(out);
        out.push(b'"');
    }

    /// Appends the string's inside. What the client wrote needs no second look: the body is UTF-8 as a whole.
    pub(super) fn push_inside(&self, out: &mut Vec<u8>) {
        match self {
            Str::Lit(l) => out.extend_from_slice(l.raw),
            Str::Own(s) => escape_json(s, out),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Request<'a> {
    pub messages: Vec<Message<'a>>,
    pub tools: Vec<Tool<'a>>,
    pub options: Options<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    System,
    Developer,
    User,
    Assistant,
    /// Holds nothing but results.
    Tool,
}

#[derive(Debug)]
pub(super) struct Message<'a> {
    pub role: Role,
    pub parts: Vec<Part<'a>>,
    /// Raw members of the target's own family.
    pub extra: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    pub(super) fn new(role: Role, parts: Vec<Part<'a>>) -> Self {
        Message { role, parts, extra: None }
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call<'a>> {
        self.parts.iter().filter_map(|p| if let Part::Call(call) = p { Some(call) } else { None })
    }
}

/// A mark up to which the vendor's prompt cache is to reach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark<'a> {
    /// As `OpenAI`'s protocols write it.
    pub raw: &'a [u8],
    /// For more than the shortest time.
    pub long: bool,
}

#[derive(Debug)]
pub(super) enum Part<'a> {
    Text(Str<'a>, Option<Mark<'a>>),
    Image {
        from: Place<'a>,
        detail: Option<Str<'a>>,
        mark: Option<Mark<'a>>,
    },
    Audio {
        data: Str<'a>,
        format: Str<'a>,
    },
    File {
        from: Place<'a>,
        name: Option<Str<'a>>,
        mark: Option<Mark<'a>>,
    },
    Refusal(Str<'a>),
    Reasoning(Reasoning<'a>),
    Call(Call<'a>),
    Result(ToolResult<'a>),
    /// An object of the target's own family, given back as it came.
    Raw(&'a [u8]),
    /// A part of a system or user message with raw members of the target's own family.
    With(Box<Part<'a>>, &'a [u8]),
}

/// Where bytes are.
#[derive(Debug)]
pub(super) enum Place<'a> {
    Url(Str<'a>),
    Base64 {
        mime: Str<'a>,
        data: Str<'a>,
    },
    /// Held upstream.
    Id(Str<'a>),
}

/// What was thought, and what lets the provider go on from it.
#[derive(Debug, Default)]
pub(super) struct Reasoning<'a> {
    pub texts: Vec<Str<'a>>,
    pub kept: Option<Kept>,
}

/// A continuation that the target's family and provider row gave.
#[derive(Debug)]
pub(super) struct Kept {
    pub form: ContinuationForm,
    pub data: String,
}

#[derive(Debug)]
pub(super) struct Call<'a> {
    pub id: Str<'a>,
    pub name: Str<'a>,
    pub input: Input<'a>,
    pub custom: bool,
    pub extra: Option<&'a [u8]>,
}

#[derive(Debug)]
pub(super) enum Input<'a> {
    /// Arguments as text (that should be a JSON object), or a custom tool's input.
    Text(Str<'a>),
    /// A JSON object.
    Object(&'a [u8]),
    /// A JSON object that was text.
    Made(String),
}

#[derive(Debug)]
pub(super) struct ToolResult<'a> {
    pub id: Str<'a>,
    pub is_error: bool,
    pub parts: Vec<Part<'a>>,
    pub extra: Option<&'a [u8]>,
}

#[derive(Debug)]
pub(super) struct Tool<'a> {
    pub name: Str<'a>,
    pub description: Option<Str<'a>>,
    pub schema: Option<&'a [u8]>,
    pub strict: Option<bool>,
    pub custom: bool,
    /// A custom tool's grammar.
    pub grammar: Option<Grammar<'a>>,
    pub extra: Option<&'a [u8]>,
    pub mark: Option<Mark<'a>>,
}

#[derive(Debug)]
pub(super) struct Grammar<'a> {
    pub syntax: Str<'a>,
    pub definition: Str<'a>,
}

#[derive(Debug)]
pub(super) enum Choice<'a> {
    Auto,
    None,
    Required,
    Named { name: Str<'a>, custom: bool },
}

#[derive(Debug)]
pub(super) enum Format<'a> {
    JsonObject,
    Schema { name: Option<Str<'a>>, description: Option<Str<'a>>, schema: &'a [u8], strict: Option<bool> },
}

/// How much is to be thought.
#[derive(Debug)]
pub(super) enum Thinking {
    Off,
    Adaptive,
    Budget(u64),
}

#[derive(Debug, Default)]
pub(super) struct Options<'a> {
    pub stream: bool,
    pub max_tokens: Option<&'a [u8]>,
    pub stop: Vec<Str<'a>>,
    pub choice: Option<Choice<'a>>,
    /// The only tools that may be called.
    pub allowed: Option<Vec<Str<'a>>>,
    pub parallel: Option<bool>,
    pub effort: Option<Str<'a>>,
    /// How reasoning is to be summed up, and the field that said so.
    pub summary: Option<(Str<'a>, &'static str)>,
    pub thinking: Option<Thinking>,
    pub format: Option<Format<'a>>,
    pub verbosity: Option<Str<'a>>,
    pub user: Option<Str<'a>>,
    pub store: Option<bool>,
    /// Members that pass with their bytes, under the target's name.
    pub passed: Vec<(&'static str, &'a [u8])>,
    /// Raw members of the target's own family, from a `headrace` request.
    pub extra: Option<&'a [u8]>,
}
