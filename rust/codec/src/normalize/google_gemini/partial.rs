//! Arguments that come value by value, each with its path (`partialArgs`): the object they make.
//!
//! 1. A path is `$`, then names (`.name`, `['name']`) and indices (`[0]`), as RFC 9535 writes a single place.
//! 2. String values of one path are joined; any other value takes the place of what was there.
//! 3. A list grows by its next index only, so that a made-up index costs nothing. What cannot be followed makes the
//!    call malformed: nothing is guessed.
//!
//! Searching (wildcards, filters, slices) must not be added: a value has one place.

use std::collections::HashMap;

use crate::limits::{MAX_ARGUMENT_DEPTH, MAX_ARGUMENTS};
use crate::text::{Text, push_json_str};

/// The arguments so far.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    root: Node,
    bytes: usize,
}

#[derive(Debug, Default)]
enum Node {
    /// Nothing has been said of it.
    #[default]
    Open,
    Object(Vec<(String, Node)>, HashMap<String, usize>),
    List(Vec<Node>),
    String(String),
    /// A number, a boolean or null.
    Plain(String),
}

enum Step<'p> {
    Name(String),
    Index(&'p str),
}

impl Arguments {
    /// Puts a value at its path. False where that cannot be done.
    pub fn put(&mut self, path: &str, string: Option<Text<'_>>, plain: Option<&[u8]>) -> bool {
        let Some(steps) = steps(path) else { return false };
        self.bytes += path.len() + plain.map_or(0, <[u8]>::len);
        let mut at = &mut self.root;
        for step in steps {
            let Some(next) = at.step(step) else { return false };
            at = next;
        }
        if let Some(text) = string {
            if !matches!(at, Node::String(_)) {
                *at = Node::String(String::new());
            }
            let Node::String(whole) = at else { return false };
            let before = whole.len();
            text.decode_into(whole);
            self.bytes += whole.len() - before;
        } else if let Some(raw) = plain {
            *at = Node::Plain(String::from_utf8_lossy(raw).into_owned());
        }
        self.bytes <= MAX_ARGUMENTS
    }

    /// The arguments as JSON.
    pub fn json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes);
        match &self.root {
            Node::Open => out.extend_from_slice(b"{}"),
            root => root.push(&mut out),
        }
        out
    }
}

impl Node {
    fn step(&mut self, step: Step<'_>) -> Option<&mut Node> {
        if let Node::Open = self {
            *self = match step {
                Step::Name(_) => Node::Object(Vec::new(), HashMap::new()),
                Step::Index(_) => Node::List(Vec::new()),
            };
        }
        match (self, step) {
            (Node::Object(members, places), Step::Name(name)) => {
                let at = *places.entry(name.clone()).or_insert_with(|| {
                    members.push((name, Node::Open));
                    members.len() - 1
                });
                members.get_mut(at).map(|(_, node)| node)
            }
            (Node::List(items), Step::Index(index)) => {
                let at: usize = index.parse().ok()?;
                if at == items.len() {
                    items.push(Node::Open);
                }
                items.get_mut(at)
            }
            _ => None,
        }
    }

    /// No deeper than a path may be long.
    fn push(&self, out: &mut Vec<u8>) {
        match self {
            Node::Open => out.extend_from_slice(b"null"),
            Node::Object(members, _) => {
                out.push(b'{');
                for (n, (name, node)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    push_json_str(name, out);
                    out.push(b':');
                    node.push(out);
                }
                out.push(b'}');
            }
            Node::List(items) => {
                out.push(b'[');
                for (n, node) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    node.push(out);
                }
                out.push(b']');
            }
            Node::String(text) => push_json_str(text, out),
            Node::Plain(raw) => out.extend_from_slice(raw.as_bytes()),
        }
    }
}

fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_ARGUMENT_DEPTH {
            return None;
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return None;
            }
            steps.push(Step::Name(after[..end].to_owned()));
            rest = &after[end..];
            continue;
        }
        let inside = rest.strip_prefix('[')?;
        if let Some(quote) = inside.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            let (name, used) = quoted(&inside[1..], quote)?;
            steps.push(Step::Name(name));
            rest = inside[1 + used..].strip_prefix(']')?;
        } else {
            let (index, after) = inside.split_once(']')?;
            if index.is_empty() || !index.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            steps.push(Step::Index(index));
            rest = after;
        }
    }
    Some(steps)
}

/// A name in quotes, and how many bytes it takes with the closing one.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => return Some((name, at + 1)),
            '\\' => match chars.next()?.1 {
                'b' => name.push('\u{8}'),
                'f' => name.push('\u{c}'),
                'n' => name.push('\n'),
                'r' => name.push('\r'),
                't' => name.push('\t'),
                'u' => {
                    let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                    name.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                other => name.push(other),
            },
            _ => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pieces: &[(&str, Result<&str, &str>)]) -> Option<String> {
        let mut arguments = Arguments::default();
        for (path, value) in pieces {
            let (string, plain) = (value.ok().map(Text::Plain), value.err().map(str::as_bytes));
            if !arguments.put(path, string, plain) {
                return None;
            }
        }
        String::from_utf8(arguments.json()).ok()
    }

    #[test]
    fn values_find_their_places() {
        assert_eq!(made(&[]).unwrap(), "{}");
        let got = made(&[
            ("$.a", Ok("x")),
            ("$.a", Ok("\"y")),
            ("$.b[0].c", Err("1.5")),
            ("$.b[1].c", Err("true")),
            ("$['d e']['\\'']", Err("null")),
            ("$.f", Ok("")),
        ]);
        assert_eq!(got.unwrap(), r#"{"a":"x\"y","b":[{"c":1.5},{"c":true}],"d e":{"'":null},"f":""}"#);
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        for path in
            ["a", "$a", "$.", "$..a", "$[", "$[]", "$[-1]", "$[*]", "$['a", "$[7]", "$.l[1]", "$[99999999999999999999]"]
        {
            assert_eq!(made(&[(path, Ok("x"))]), None, "{path}");
        }
        assert_eq!(made(&[("$.a", Ok("x")), ("$.a.b", Ok("y"))]), None);
        assert_eq!(made(&[(&("$".to_owned() + &".a".repeat(MAX_ARGUMENT_DEPTH + 1)), Ok("y"))]), None);
    }
}
