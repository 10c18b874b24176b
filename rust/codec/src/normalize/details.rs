//! `reasoning_details`: readable reasoning and opaque state in one list, to be given back unchanged and in order.
//!
//! 1. Fragments of one item (same type, same index, one after the other) become one item again: texts join,
//!    the last signature counts, other members are those of the first fragment.
//! 2. An item that came in one piece keeps its bytes.
//! 3. Some vendors repeat the whole text so far in each fragment; only where the item's own format says so is a
//!    repeated start taken for one.
//!
//! What is in an opaque part must not be looked at.

use crate::event::ReasoningKind;
use crate::json::{Scan, Scanner};
use crate::limits::MAX_ARGUMENTS;
use crate::text::{Literal, Text};

/// The items that wait to be given out.
#[derive(Debug, Default)]
pub struct Details {
    items: Vec<Item>,
    /// What they take, about.
    bytes: usize,
}

#[derive(Debug)]
struct Item {
    /// `type` and `index` as they stood: what tells fragments of one item from another.
    key: (Vec<u8>, Vec<u8>),
    /// The bytes of the only fragment so far.
    raw: Vec<u8>,
    /// The members of the first fragment but text and signature, joined by commas.
    members: Vec<u8>,
    /// The name of the text member, and its text as the inside of a JSON string.
    text: Option<(&'static str, Vec<u8>)>,
    signature: Option<Vec<u8>>,
    fragments: u32,
}

/// One entry of a `reasoning_details` list.
#[derive(Default)]
struct Entry<'a> {
    kind: &'a [u8],
    index: &'a [u8],
    text: Option<(&'static str, Literal<'a>)>,
    signature: Option<Literal<'a>>,
    cumulative: bool,
    members: Vec<u8>,
}

impl Details {
    /// Whether more is waiting than a response may have.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        self.bytes > MAX_ARGUMENTS
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Takes the list of one delta; calls `give` with what is readable in it.
    pub fn take(&mut self, list: &[u8], mut give: impl FnMut(Text<'_>, ReasoningKind)) -> Scan<()> {
        let mut s = Scanner::new(list);
        let Some(mut items) = s.array_or_skip()? else { return Ok(()) };
        while s.item(&mut items)? {
            let raw = s.skip()?;
            if raw.first() == Some(&b'{') {
                let mut entry = read(raw)?;
                self.add(raw, &mut entry);
                if let Some((name, text)) = entry.text {
                    let kind = if name == "summary" { ReasoningKind::Summary } else { ReasoningKind::Raw };
                    give(Text::Literal(text), kind);
                }
            }
        }
        Ok(())
    }

    /// The items as one JSON list; none are left.
    pub fn give(&mut self) -> Vec<u8> {
        self.bytes = 0;
        let mut out = vec![b'['];
        for item in self.items.drain(..) {
            if out.len() > 1 {
                out.push(b',');
            }
            if item.fragments == 1 {
                out.extend_from_slice(&item.raw);
                continue;
            }
            out.push(b'{');
            out.extend_from_slice(&item.members);
            let text = item.text.iter().map(|(name, text)| (*name, text));
            for (name, value) in text.chain(item.signature.iter().map(|s| ("signature", s))) {
                if out.last() != Some(&b'{') {
                    out.push(b',');
                }
                out.extend_from_slice(format!("\"{name}\":\"").as_bytes());
                out.extend_from_slice(value);
                out.push(b'"');
            }
            out.push(b'}');
        }
        out.push(b']');
        out
    }

    /// Files the fragment, and cuts from its text what a cumulative vendor repeats.
    fn add(&mut self, raw: &[u8], entry: &mut Entry<'_>) {
        let same = self.items.last_mut().filter(|last| {
            // An opaque part without a text is whole by itself; a signature alone signs the text before it.
            let goes_on = entry.text.is_some() || entry.signature.is_some();
            last.key.0 == entry.kind && last.key.1 == entry.index && last.text.is_some() && goes_on
        });
        let Some(item) = same else {
            self.bytes += 2 * raw.len() + size_of::<Item>();
            let mut text = None;
            if let Some((name, piece)) = entry.text {
                let mut bytes = Vec::new();
                Text::Literal(piece).push_json(&mut bytes);
                text = Some((name, bytes));
            }
            self.items.push(Item {
                key: (entry.kind.to_vec(), entry.index.to_vec()),
                raw: raw.to_vec(),
                members: std::mem::take(&mut entry.members),
                text,
                signature: entry.signature.map(json_of),
                fragments: 1,
            });
            return;
        };
        item.fragments += 1;
        item.raw = Vec::new();
        if let (Some((_, text)), Some((name, piece))) = (&mut item.text, entry.text) {
            let mut piece = piece;
            if entry.cumulative && piece.raw.starts_with(text) {
                piece.raw = &piece.raw[text.len()..];
                entry.text = Some((name, piece));
            }
            Text::Literal(piece).push_json(text);
            self.bytes += piece.raw.len();
        }
        // An empty signature is a place kept for one.
        if let Some(signature) = entry.signature.filter(|s| !s.raw.is_empty() || item.signature.is_none()) {
            item.signature = Some(json_of(signature));
        }
    }
}

fn json_of(l: Literal<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Text::Literal(l).push_json(&mut out);
    out
}

fn read(raw: &[u8]) -> Scan<Entry<'_>> {
    let mut entry = Entry::default();
    let mut s = Scanner::new(raw);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        let value = s.skip()?;
        let string = Scanner::new(value).string().ok();
        match (key.decode().as_ref(), string) {
            ("text", Some(l)) => entry.text = Some(("text", l)),
            ("summary", Some(l)) => entry.text = Some(("summary", l)),
            ("signature", Some(l)) => entry.signature = Some(l),
            // A text or signature of null says nothing, and must not stand beside the real one.
            ("text" | "summary" | "signature", None) => {}
            (name, _) => {
                match name {
                    "type" => entry.kind = value,
                    "index" => entry.index = value,
                    "format" => entry.cumulative = string.is_some_and(|l| l.raw.starts_with(b"MiniMax")),
                    _ => {}
                }
                if !entry.members.is_empty() {
                    entry.members.push(b',');
                }
                Text::Literal(key).push_json_string(&mut entry.members);
                entry.members.push(b':');
                entry.members.extend_from_slice(value);
            }
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lists: &[&str]) -> (String, String) {
        let (mut details, mut text) = (Details::default(), String::new());
        for list in lists {
            details.take(list.as_bytes(), |t, _| t.decode_into(&mut text)).unwrap();
        }
        (text, String::from_utf8(details.give()).unwrap())
    }

    #[test]
    fn fragments_of_one_item_join_and_whole_ones_keep_their_bytes() {
        let (text, json) = run(&[
            r#"[{"type":"reasoning.text","text":"a\n","signature":"","format":"f","index":0}]"#,
            r#"[{"type":"reasoning.text","text":"b","format":"f","index":0}]"#,
            r#"[{"type":"reasoning.text","signature":"sig","index":0}]"#,
            r#"[{"data" : "xyz", "type":"reasoning.encrypted","index":0}, {"type":"reasoning.encrypted","index":0,"data":"z"}]"#,
            "[]",
        ]);
        assert_eq!(text, "a\nb");
        assert_eq!(
            json,
            concat!(
                r#"[{"type":"reasoning.text","format":"f","index":0,"text":"a\nb","signature":"sig"},"#,
                r#"{"data" : "xyz", "type":"reasoning.encrypted","index":0},"#,
                r#"{"type":"reasoning.encrypted","index":0,"data":"z"}]"#
            )
        );
    }

    #[test]
    fn a_cumulative_format_is_taken_apart_and_others_are_not() {
        let cumulative =
            |t: &str| format!(r#"[{{"type":"reasoning.text","format":"MiniMax-response-v1","text":"{t}"}}]"#);
        let (text, json) = run(&[&cumulative("I"), &cumulative("It is"), &cumulative("It is so")]);
        assert_eq!(text, "It is so");
        assert!(json.contains(r#""text":"It is so""#), "{json}");
        let plain = |t: &str| format!(r#"[{{"type":"reasoning.text","text":"{t}"}}]"#);
        assert_eq!(run(&[&plain("I"), &plain("Is")]).0, "IIs");
    }
}
