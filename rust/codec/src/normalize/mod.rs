//! Frames of one wire family in, neutral events out.
//!
//! 1. A normaliser implements [`Normalize`]; the pipeline frames the bytes, calls it, and guards the end.
//! 2. All events go out through [`Out`], which numbers them and holds what every family shares: started once,
//!    block numbers, surrogate halves, calls, the usage, exactly one terminal.
//! 3. A payload that is not JSON makes no event: a normaliser reads the whole value before it gives anything out.
//!
//! Byte buffering, clocks and the building of requests must not be added here.

pub mod anthropic_messages;
pub mod bedrock_converse;
pub mod bedrock_invoke;
pub mod classify;
mod codes;
pub mod cohere_chat;
mod details;
mod error_body;
pub mod finish;
pub mod google_gemini;
pub mod ollama_chat;
pub mod openai_chat;
pub mod openai_responses;
pub mod out;
mod retry_after;
pub mod template;
pub mod text;
mod think;

pub use out::{About, Counts, Known, Out, Piece, Reader, Response, Started};

use crate::error::ErrorKind;
use crate::event::FinishReason;
use crate::json::Scan;
use crate::text::Literal;
use template::Steady;

/// One wire family's reading of frames.
pub trait Normalize {
    /// Reads one JSON object: the payload of a frame, or one of several in it (rule R15). `name` is the event
    /// name of the frame (`message` where it had none) and empty on framings that have no names.
    ///
    /// Returns `Err` where `json` is not exactly one JSON value, and has then changed and given out nothing:
    /// read everything first, then act. The pipeline makes a row of values or `stream_interrupted` of an `Err`.
    /// What it does not know it ignores. After a terminal event it is not called again.
    fn value(&mut self, json: &[u8], name: &[u8], out: &mut Out<'_>) -> Scan<()>;

    /// Whether the payload that [`Normalize::value`] read last did nothing but give out one text, so that another that differs
    /// in that text alone (and in ignored values) would do the same: see [`template`].
    fn steady(&self) -> Option<&Steady> {
        None
    }

    /// Does again what the steady payload did, with another text and another value in the place that is kept (empty where
    /// none is). Called only after [`Normalize::steady`] said what.
    fn again(&mut self, text: Literal<'_>, kept: &[u8], out: &mut Out<'_>) {
        let _ = (text, kept, out);
    }

    /// Reads a whole JSON body (an answer without streaming, or an error with status 200): one object. Same promise
    /// as [`Normalize::value`]. Gives out everything but the terminal, which comes by [`Normalize::end`],
    /// unless an error ends it.
    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()>;

    /// `data: [DONE]` came.
    fn done(&mut self, out: &mut Out<'_>);

    /// The body has ended, well or not. Gives out the terminal event where the protocol's own end was seen
    /// before, and returns without one where not: the pipeline then makes the error.
    fn end(&mut self, out: &mut Out<'_>);
}

/// What a provider's own word for the end means (rule R13), before intents and refusals are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A normal end: `tool_intents` where there is an intent, `refusal` where refusal text came, else `stop`.
    Normal,
    /// A normal end that says that a tool is to be used: without any call it is `malformed_tool_call` (R11).
    ToolUse,
    /// Any other finish: the reason stands as it is.
    Reason(FinishReason),
    /// The provider's word for a malformed call (R11).
    MalformedCall,
    /// A provider error by its reason.
    Error(ErrorKind),
}

impl Ending {
    /// Whether calls that are open at this end are ended by it (true) or cut (rule R10).
    #[must_use]
    pub fn ends_calls(self) -> bool {
        matches!(self, Ending::Normal | Ending::ToolUse)
    }
}
