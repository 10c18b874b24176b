//! Citations on their way to a client.
//!
//! 1. A citation with a span belongs to the text block that is open and goes out at once.
//! 2. One without a span means the whole block. It may come before its block's first text, between the texts, or
//!    after the last; so it waits, is claimed by the next text, and goes out with the block's own span when
//!    the block is known to be whole. One that no later text claims belongs to the last block.

use super::shared::{put_count, put_str};
use crate::text::Text;

/// A citation that waits for its block's end.
#[derive(Debug)]
pub(super) struct Note {
    pub url: String,
    pub title: String,
}

impl Note {
    pub fn of(url: Text<'_>, title: Option<Text<'_>>) -> Note {
        Note { url: url.decode().into_owned(), title: title.map(|t| t.decode().into_owned()).unwrap_or_default() }
    }
}

/// Citations without a span, in order.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    notes: Vec<Note>,
    /// How many of them the current block's text has claimed.
    claimed: usize,
}

impl Waiting {
    pub fn push(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// Text of the current block came.
    pub fn claim(&mut self) {
        self.claimed = self.notes.len();
    }

    /// What belongs to the block that ends because another text block begins.
    pub fn claimed(&mut self) -> Vec<Note> {
        let rest = self.notes.split_off(self.claimed);
        self.claimed = 0;
        std::mem::replace(&mut self.notes, rest)
    }

    /// What belongs to the block that ends for any other reason: everything.
    pub fn all(&mut self) -> Vec<Note> {
        self.claimed = 0;
        std::mem::take(&mut self.notes)
    }
}

/// The members of `OpenAI`'s `url_citation`, the same in Chat and Responses.
pub(super) fn put_url_citation(out: &mut Vec<u8>, note: &Note, span: (u64, u64)) {
    put_count(out, "\"start_index\":", span.0);
    put_count(out, ",\"end_index\":", span.1);
    put_str(out, ",\"title\":", &note.title);
    put_str(out, ",\"url\":", &note.url);
}
