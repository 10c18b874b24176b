//! Edits by JSON pointer: named values are put in or taken out, every other byte stays where it was.
//!
//! 1. The result is a list of slices of the original with new bytes between them, made for `writev`.
//! 2. Edits apply in order; a later one sees what an earlier one did.
//! 3. Parents that are missing (or null) are made as objects. A value of another kind on the way is an error that
//!    names it; taking out what is not there is none.
//! 4. A key that is edited and stands twice is refused.
//!
//! Pointers with patterns must not be added: an edit names one place.

use std::ops::Range;

use super::error::{RequestError, Res, shown};
use super::scrub::{Scrubbed, scrub};
use crate::event::Protocol;
use crate::json::{Items, Kind, Scanner};
use crate::limits::{MAX_POINTER, MAX_TOP_KEYS};
use crate::loss::Loss;
use crate::text::{Literal, push_json_str};

/// One edit: what a JSON pointer names becomes a value, or goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    steps: Vec<String>,
    value: Option<Vec<u8>>,
}

impl Edit {
    /// `pointer` as RFC 6901 has it (`/stream_options/include_usage`; `-` appends to an array). `value` is JSON text;
    /// `None` takes the key out. Fails for a pointer to the whole body, one that is too deep, and a value that is
    /// not JSON: a body that is edited stays JSON.
    pub fn new(pointer: &str, value: Option<&[u8]>) -> Result<Edit, RequestError> {
        let bad = |why: &str| RequestError::invalid(None, format!("edit {}: {why}", shown(pointer)));
        let Some(rest) = pointer.strip_prefix('/') else {
            return Err(bad("a pointer starts with a slash and names a key"));
        };
        let steps: Vec<String> = rest.split('/').map(|s| s.replace("~1", "/").replace("~0", "~")).collect();
        if steps.len() > MAX_POINTER {
            return Err(bad("too deep"));
        }
        if let Some(value) = value
            && (Scanner::only(value).is_err() || std::str::from_utf8(value).is_err())
        {
            return Err(bad("the value is not JSON"));
        }
        Ok(Edit { steps, value: value.map(<[u8]>::to_vec) })
    }
}

/// A body as slices of the original and new bytes between them.
#[derive(Clone, Debug)]
pub struct Slices<'a> {
    body: &'a [u8],
    new: Vec<u8>,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Kept(Range<usize>),
    New(Range<usize>),
}

impl<'a> Slices<'a> {
    /// The body unchanged.
    #[must_use]
    pub fn whole(body: &'a [u8]) -> Self {
        Slices { body, new: Vec::new(), pieces: vec![Piece::Kept(0..body.len())] }
    }

    /// The slices in order; none is empty.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|p| match p {
            Piece::Kept(r) => &self.body[r.clone()],
            Piece::New(r) => &self.new[r.clone()],
        })
    }

    /// Bytes in all: the content length.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().map(<[u8]>::len).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        self.iter().for_each(|s| out.extend_from_slice(s));
        out
    }

    fn apply(body: &'a [u8], patches: Vec<Patch>) -> Self {
        let mut slices = Slices { body, new: Vec::new(), pieces: Vec::with_capacity(2 * patches.len() + 1) };
        let mut from = 0;
        for patch in patches {
            debug_assert!(from <= patch.at.start, "patches come in order");
            if from < patch.at.start {
                slices.pieces.push(Piece::Kept(from..patch.at.start));
            }
            if !patch.new.is_empty() {
                let start = slices.new.len();
                slices.new.extend_from_slice(&patch.new);
                slices.pieces.push(Piece::New(start..slices.new.len()));
            }
            from = patch.at.end;
        }
        if from < body.len() {
            slices.pieces.push(Piece::Kept(from..body.len()));
        }
        slices
    }
}

/// A body for a provider that speaks the client's own protocol: [`rewrite`], without the opaque state of other
/// families that the client gives back, and which only they could read. `layout`: what [`inspect`](super::inspect) found
/// in this very body, which need not be walked again then.
pub fn relay<'a>(
    body: &'a [u8],
    protocol: Protocol,
    layout: Option<&Layout>,
    model: Option<&str>,
    edits: &[Edit],
) -> Result<(Slices<'a>, Vec<Loss>), RequestError> {
    // What the gateway lifted out of the URL goes back there.
    let lifted: Vec<Edit>;
    let (model, edits) = if protocol == Protocol::GoogleGemini {
        let gone = |key: &str| Edit { steps: vec![key.to_owned()], value: None };
        lifted = ["model", "stream", "alt"].map(gone).into_iter().chain(edits.iter().cloned()).collect();
        (None, lifted.as_slice())
    } else {
        (model, edits)
    };
    let Some(Scrubbed { cuts, losses, thinking_goes }) = scrub(body, protocol)? else {
        return Ok((rewritten(body, layout, model, edits)?, Vec::new()));
    };
    let cuts = cuts.into_iter().map(|at| Patch { at, new: Vec::new() }).collect();
    // Edits may name what stands behind a cut, so they have to see the body without it.
    let cut = Slices::apply(body, cuts).to_vec();
    let gone = Edit { steps: vec!["thinking".to_owned()], value: None };
    let edits: Vec<Edit> = thinking_goes.then_some(gone).into_iter().chain(edits.iter().cloned()).collect();
    let new = rewrite(&cut, model, &edits)?.to_vec();
    let pieces = vec![Piece::New(0..new.len())];
    Ok((Slices { body, new, pieces }, losses))
}

/// Edits a body of the target's own protocol: `model` becomes the model's name, `edits` apply after it.
pub fn rewrite<'a>(body: &'a [u8], model: Option<&str>, edits: &[Edit]) -> Result<Slices<'a>, RequestError> {
    rewritten(body, None, model, edits)
}

fn rewritten<'a>(
    body: &'a [u8],
    layout: Option<&Layout>,
    model: Option<&str>,
    edits: &[Edit],
) -> Result<Slices<'a>, RequestError> {
    // Of a body that was not inspected nothing is known.
    let layout = layout.filter(|l| l.open > 0 && l.members.last().is_none_or(|m| m.end <= body.len()));
    let mut root = Node::default();
    if let Some(model) = model {
        let mut value = Vec::with_capacity(model.len() + 2);
        push_json_str(model, &mut value);
        // Mostly the client's name is the provider's, and nothing is to be changed.
        if edits.is_empty() && layout.is_some_and(|l| l.says(body, b"\"model\"", &value)) {
            return Ok(Slices::whole(body));
        }
        root.add(&["model".to_owned()], Some(&value))?;
    }
    for edit in edits {
        root.add(&edit.steps, edit.value.as_deref())?;
    }
    if root.children.is_empty() {
        return Ok(Slices::whole(body));
    }
    let mut scanner = Scanner::new(body);
    if scanner.kind()? != Kind::Object {
        return Err(RequestError::expected(String::new(), "an object"));
    }
    let mut walk = Walk { body, scanner, patches: Vec::new(), path: String::new() };
    if let Some(layout) = layout {
        walk.known(&root, layout)?;
        return Ok(Slices::apply(body, walk.patches));
    }
    once_each(body)?;
    walk.value(&root)?;
    if !walk.scanner.at_end() {
        return Err(trailing());
    }
    Ok(Slices::apply(body, walk.patches))
}

/// Refuses a key that stands twice at the top, as an inspection does: the next parser might take the other one.
fn once_each(body: &[u8]) -> Res<()> {
    let mut scanner = Scanner::new(body);
    let mut items = scanner.object()?;
    let mut keys: Vec<Literal<'_>> = Vec::with_capacity(24);
    while let Some(key) = scanner.key(&mut items)? {
        scanner.skip()?;
        if keys.iter().any(|known| same(*known, key)) {
            return Err(RequestError::duplicate(shown(&key.decode())));
        }
        if keys.len() == MAX_TOP_KEYS {
            return Err(RequestError::invalid(None, format!("the body has more than {MAX_TOP_KEYS} keys")));
        }
        keys.push(key);
    }
    Ok(())
}

/// Whether two keys are the same characters.
pub(super) fn same(a: Literal<'_>, b: Literal<'_>) -> bool {
    if a.escaped() || b.escaped() { a.decode() == b.decode() } else { a.raw == b.raw }
}

/// More than one value.
pub(super) fn trailing() -> RequestError {
    RequestError { code: "invalid_json", ..RequestError::invalid(None, "the body goes on after its end".to_owned()) }
}

/// Where the members of a body stand, so that nobody has to walk it for an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Behind the opening brace.
    pub(super) open: usize,
    pub(super) members: Vec<Member>,
}

impl Layout {
    /// Whether the body says just this of a key, spelled in these very bytes.
    fn says(&self, body: &[u8], key: &[u8], value: &[u8]) -> bool {
        let found = self.members.iter().find(|m| body[m.key..m.end].starts_with(key));
        found.is_some_and(|m| body[m.value..m.end].trim_ascii() == value)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The key's opening quote.
    pub key: usize,
    /// The value, or white space before it.
    pub value: usize,
    pub end: usize,
}

/// Replaces or takes out `at` and puts `new` in its place.
struct Patch {
    at: Range<usize>,
    new: Vec<u8>,
}

/// The edits below one place.
#[derive(Default)]
struct Node {
    children: Vec<(String, Node)>,
    action: Option<Action>,
}

enum Action {
    Set(Vec<u8>),
    Remove,
}

impl Node {
    fn add(&mut self, steps: &[String], value: Option<&[u8]>) -> Res<()> {
        let Some((step, rest)) = steps.split_first() else {
            self.children.clear();
            self.action = Some(value.map_or(Action::Remove, |v| Action::Set(v.to_vec())));
            return Ok(());
        };
        match &mut self.action {
            Some(Action::Set(raw)) => {
                // An earlier edit made this value: the later one edits it.
                let mut below = Node::default();
                below.child(step).add(rest, value)?;
                let mut walk = Walk { body: raw, scanner: Scanner::new(raw), patches: Vec::new(), path: step.clone() };
                walk.value(&below)?;
                let patches = walk.patches;
                *raw = Slices::apply(raw, patches).to_vec();
                Ok(())
            }
            Some(Action::Remove) if value.is_none() => Ok(()),
            action => {
                // What was taken out comes back as an object with this key alone.
                if action.take().is_some() {
                    let mut below = Node::default();
                    below.child(step).add(rest, value)?;
                    let mut made = Vec::new();
                    below.build(&mut made);
                    self.action = Some(Action::Set(made));
                    return Ok(());
                }
                self.child(step).add(rest, value)
            }
        }
    }

    fn child(&mut self, step: &str) -> &mut Node {
        let at = self.children.iter().position(|(name, _)| name == step).unwrap_or_else(|| {
            self.children.push((step.to_owned(), Node::default()));
            self.children.len() - 1
        });
        &mut self.children[at].1
    }

    /// Whether anything below is put in, so that a parent must exist.
    fn sets(&self) -> bool {
        match self.action {
            Some(Action::Set(_)) => true,
            Some(Action::Remove) => false,
            None => self.children.iter().any(|(_, n)| n.sets()),
        }
    }

    /// Appends what stands here where nothing stood before.
    fn build(&self, out: &mut Vec<u8>) {
        if let Some(Action::Set(raw)) = &self.action {
            out.extend_from_slice(raw);
            return;
        }
        out.push(b'{');
        let mut first = true;
        for (name, node) in self.children.iter().filter(|(_, n)| n.sets()) {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            push_json_str(name, out);
            out.push(b':');
            node.build(out);
        }
        out.push(b'}');
    }
}

struct Walk<'a> {
    body: &'a [u8],
    scanner: Scanner<'a>,
    patches: Vec<Patch>,
    path: String,
}

/// Where the members of one container stand, for the commas of what is taken out or put in.
struct Seat {
    /// The end of the last member seen, or of the opening bracket.
    end: usize,
    /// Whether a member that stays has been seen.
    kept: bool,
    /// The start of a first member that goes: it takes the comma behind it along.
    leading: Option<usize>,
}

impl<'a> Walk<'a> {
    /// Edits the value that comes next; `node` has edits below it and none for the value itself.
    fn value(&mut self, node: &Node) -> Res<()> {
        match self.scanner.kind()? {
            Kind::Object => self.object(node),
            Kind::Array => self.array(node),
            Kind::Null if node.sets() => {
                let start = self.scanner.pos();
                self.scanner.null()?;
                self.replace(start, node);
                Ok(())
            }
            _ if node.sets() => Err(RequestError::expected(shown(&self.path), "an object")),
            _ => {
                self.scanner.skip()?;
                Ok(())
            }
        }
    }

    fn object(&mut self, node: &Node) -> Res<()> {
        let mut items = self.scanner.object()?;
        let mut seen = vec![false; node.children.len()];
        let mut seat = Seat { end: self.scanner.pos(), kept: false, leading: None };
        while let Some((start, key)) = self.key(&mut items)? {
            match node.children.iter().position(|(name, _)| key.is(name)) {
                None => {
                    self.stays(&mut seat, start);
                    self.scanner.skip()?;
                }
                Some(at) if std::mem::replace(&mut seen[at], true) => {
                    return Err(RequestError::duplicate(shown(&node.children[at].0)));
                }
                Some(at) => self.edited(&node.children[at], &mut seat, start)?,
            }
            seat.end = self.scanner.pos();
        }
        self.close(node, &seen, seat);
        Ok(())
    }

    /// The members of the body itself, of which it is known where they stand and that none stands twice.
    fn known(&mut self, node: &Node, layout: &Layout) -> Res<()> {
        let mut seen = vec![false; node.children.len()];
        let mut seat = Seat { end: layout.open, kept: false, leading: None };
        for member in &layout.members {
            let key = Scanner::at(self.body, member.key).string()?;
            match node.children.iter().position(|(name, _)| key.is(name)) {
                None => self.stays(&mut seat, member.key),
                Some(at) => {
                    seen[at] = true;
                    self.scanner = Scanner::at(self.body, member.value);
                    self.edited(&node.children[at], &mut seat, member.key)?;
                }
            }
            seat.end = member.end;
        }
        self.close(node, &seen, seat);
        Ok(())
    }

    /// The end of an object: what is put in and has not been seen.
    fn close(&mut self, node: &Node, seen: &[bool], mut seat: Seat) {
        if let Some(leading) = seat.leading {
            self.patches.push(Patch { at: leading..seat.end, new: Vec::new() });
        }
        let mut new = Vec::new();
        for ((name, child), _) in node.children.iter().zip(seen).filter(|((_, c), seen)| !**seen && c.sets()) {
            if std::mem::replace(&mut seat.kept, true) {
                new.push(b',');
            }
            push_json_str(name, &mut new);
            new.push(b':');
            child.build(&mut new);
        }
        if !new.is_empty() {
            self.patches.push(Patch { at: seat.end..seat.end, new });
        }
    }

    fn array(&mut self, node: &Node) -> Res<()> {
        let mut items = self.scanner.array()?;
        let mut seat = Seat { end: self.scanner.pos(), kept: false, leading: None };
        let mut count = 0usize;
        while self.scanner.item(&mut items)? {
            self.scanner.kind()?;
            let start = self.scanner.pos();
            match node.children.iter().find(|(name, _)| is_index(name, count)) {
                None => {
                    self.stays(&mut seat, start);
                    self.scanner.skip()?;
                }
                Some(child) => self.edited(child, &mut seat, start)?,
            }
            seat.end = self.scanner.pos();
            count += 1;
        }
        if let Some(leading) = seat.leading {
            self.patches.push(Patch { at: leading..seat.end, new: Vec::new() });
        }
        for (name, child) in node.children.iter().filter(|(_, c)| c.sets()) {
            if name == "-" {
                let mut new = if seat.kept { b",".to_vec() } else { Vec::new() };
                child.build(&mut new);
                self.patches.push(Patch { at: seat.end..seat.end, new });
            } else if !name.parse::<usize>().is_ok_and(|n| is_index(name, n) && n < count) {
                return Err(RequestError::expected(format!("{}[{}]", shown(&self.path), shown(name)), "an item"));
            }
        }
        Ok(())
    }

    /// The start and the name of the next member.
    fn key(&mut self, items: &mut Items) -> Res<Option<(usize, Literal<'a>)>> {
        // A key's raw bytes lie in the body, one byte behind its opening quote.
        let start_of = |raw: &[u8], body: &[u8]| raw.as_ptr() as usize - body.as_ptr() as usize - 1;
        Ok(self.scanner.key(items)?.map(|key| (start_of(key.raw, self.body), key)))
    }

    /// A member begins at `start` that stays: what went before it as leading ends here, its comma included.
    fn stays(&mut self, seat: &mut Seat, start: usize) {
        seat.kept = true;
        if let Some(leading) = seat.leading.take() {
            self.patches.push(Patch { at: leading..start, new: Vec::new() });
        }
    }

    fn edited(&mut self, (name, node): &(String, Node), seat: &mut Seat, start: usize) -> Res<()> {
        if let Some(Action::Remove) = node.action {
            self.scanner.skip()?;
            if seat.kept {
                self.patches.push(Patch { at: seat.end..self.scanner.pos(), new: Vec::new() });
            } else {
                seat.leading.get_or_insert(start);
            }
            return Ok(());
        }
        self.stays(seat, start);
        if node.action.is_some() {
            self.scanner.kind()?;
            let from = self.scanner.pos();
            self.scanner.skip()?;
            self.replace(from, node);
            return Ok(());
        }
        let before = self.path.len();
        if before > 0 {
            self.path.push('/');
        }
        self.path.push_str(name);
        self.value(node)?;
        self.path.truncate(before);
        Ok(())
    }

    fn replace(&mut self, from: usize, node: &Node) {
        let mut new = Vec::new();
        node.build(&mut new);
        self.patches.push(Patch { at: from..self.scanner.pos(), new });
    }
}

/// Whether `name` is the index `n` as a pointer writes it: no sign, no leading zero.
fn is_index(name: &str, n: usize) -> bool {
    name.parse() == Ok(n) && (name == "0" || !name.starts_with(['0', '+']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(body: &str, edits: &[(&str, Option<&str>)]) -> Result<String, RequestError> {
        let edits: Vec<Edit> = edits.iter().map(|(p, v)| Edit::new(p, v.map(str::as_bytes)).unwrap()).collect();
        rewrite(body.as_bytes(), None, &edits).map(|s| String::from_utf8(s.to_vec()).unwrap())
    }

    #[test]
    fn the_model_is_named_anew_and_every_other_byte_stays() {
        let body = br#" { "mod\u0065l" :"a", "messages":[ {"x":1}] } "#;
        let slices = rewrite(body, Some("b\"c"), &[]).unwrap();
        assert_eq!(slices.to_vec(), br#" { "mod\u0065l" :"b\"c", "messages":[ {"x":1}] } "#);
        assert_eq!(slices.iter().count(), 3);
        assert_eq!(slices.len(), slices.to_vec().len());
        assert_eq!(rewrite(b"{}", Some("m"), &[]).unwrap().to_vec(), br#"{"model":"m"}"#);
        assert_eq!(rewrite(b"not json", None, &[]).unwrap().to_vec(), b"not json");
    }

    #[test]
    fn a_body_that_names_the_model_already_is_not_taken_apart() {
        let named = |body: &str, model: &str| {
            let facts = crate::request::inspect(body.as_bytes(), Protocol::OpenaiChat).unwrap();
            let slices = rewritten(body.as_bytes(), Some(&facts.layout), Some(model), &[]).unwrap();
            (slices.iter().count(), String::from_utf8(slices.to_vec()).unwrap())
        };
        for body in [r#"{"model":"m","n":1}"#, "{ \"n\":1, \"model\" :\n\"m\" \n}"] {
            assert_eq!(named(body, "m"), (1, body.to_owned()));
            assert_eq!(named(body, "n"), (3, body.replace("\"m\"", "\"n\"")));
        }
        // Spelled otherwise it is written anew, and a key that only begins so is another.
        assert_eq!(named(r#"{"mod\u0065l":"m"}"#, "m").1, r#"{"mod\u0065l":"m"}"#);
        assert_eq!(named(r#"{"model":"\u006d"}"#, "m"), (3, r#"{"model":"m"}"#.to_owned()));
        assert_eq!(named(r#"{"model2":"m"}"#, "m").1, r#"{"model2":"m","model":"m"}"#);
        assert_eq!(named(r#"{"model":null}"#, "m").1, r#"{"model":"m"}"#);
    }

    #[test]
    fn members_go_with_their_commas_wherever_they_stand() {
        let body = r#"{"a":1, "b":2 ,"c":3}"#;
        let gone = |keys: &[&str]| {
            let edits: Vec<_> = keys.iter().map(|k| (*k, None)).collect();
            edited(body, &edits).unwrap()
        };
        assert_eq!(gone(&["/a"]), r#"{"b":2 ,"c":3}"#);
        assert_eq!(gone(&["/b"]), r#"{"a":1 ,"c":3}"#);
        assert_eq!(gone(&["/c"]), r#"{"a":1, "b":2}"#);
        assert_eq!(gone(&["/a", "/b"]), r#"{"c":3}"#);
        assert_eq!(gone(&["/b", "/c"]), r#"{"a":1}"#);
        assert_eq!(gone(&["/a", "/c"]), r#"{"b":2}"#);
        assert_eq!(gone(&["/a", "/b", "/c"]), "{}");
        assert_eq!(gone(&["/x"]), body);
        assert_eq!(edited(body, &[("/a", None), ("/c", None), ("/d", Some("4"))]).unwrap(), r#"{"b":2,"d":4}"#);
        assert_eq!(edited("{\"a\":1}", &[("/a", None), ("/d", Some("4"))]).unwrap(), r#"{"d":4}"#);
    }

    #[test]
    fn parents_are_made_and_other_kinds_are_named() {
        let usage = ("/stream_options/include_usage", Some("true"));
        assert_eq!(edited("{}", &[usage]).unwrap(), r#"{"stream_options":{"include_usage":true}}"#);
        assert_eq!(
            edited(r#"{"stream_options": null,"a":1}"#, &[usage]).unwrap(),
            r#"{"stream_options": {"include_usage":true},"a":1}"#
        );
        assert_eq!(
            edited(r#"{"stream_options":{"x":1}}"#, &[usage]).unwrap(),
            r#"{"stream_options":{"x":1,"include_usage":true}}"#
        );
        let error = edited(r#"{"stream_options":5}"#, &[usage]).unwrap_err();
        assert_eq!((error.code, error.param.as_deref()), ("invalid_request", Some("stream_options")));
        assert_eq!(edited(r#"{"a":5}"#, &[("/a/b", None)]).unwrap(), r#"{"a":5}"#);
    }

    #[test]
    fn later_edits_see_earlier_ones() {
        assert_eq!(edited("{}", &[("/a", Some("{}")), ("/a/b", Some("1"))]).unwrap(), r#"{"a":{"b":1}}"#);
        assert_eq!(edited("{}", &[("/a/b", Some("1")), ("/a", Some("2"))]).unwrap(), r#"{"a":2}"#);
        assert_eq!(edited(r#"{"a":{"x":1}}"#, &[("/a", None), ("/a/b", Some("1"))]).unwrap(), r#"{"a":{"b":1}}"#);
        assert_eq!(edited(r#"{"a":1}"#, &[("/a", Some("2")), ("/a", None)]).unwrap(), "{}");
    }

    #[test]
    fn arrays_are_reached_by_index() {
        let body = r#"{"a":[1,2,3]}"#;
        assert_eq!(edited(body, &[("/a/1", Some("9"))]).unwrap(), r#"{"a":[1,9,3]}"#);
        assert_eq!(edited(body, &[("/a/0", None)]).unwrap(), r#"{"a":[2,3]}"#);
        assert_eq!(edited(body, &[("/a/-", Some("4"))]).unwrap(), r#"{"a":[1,2,3,4]}"#);
        assert_eq!(edited(r#"{"a":[]}"#, &[("/a/-", Some("4"))]).unwrap(), r#"{"a":[4]}"#);
        for bad in ["/a/3", "/a/01", "/a/x", "/a/+1"] {
            assert!(edited(body, &[(bad, Some("9"))]).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_could_be_read_two_ways_is_refused() {
        let twice = edited(r#"{"a":1,"\u0061":2}"#, &[("/a", Some("3"))]).unwrap_err();
        assert_eq!(twice.param.as_deref(), Some("a"));
        for bad in ["", "[]", "1", "{", "{} {}", "{\"a\":1,}", "{\"a\" 1}"] {
            assert!(edited(bad, &[("/a", Some("3"))]).is_err(), "{bad}");
        }
        for (pointer, value) in [("", "1"), ("a", "1"), ("/a", "{"), ("/a", "1 2"), ("/a", "")] {
            assert!(Edit::new(pointer, Some(value.as_bytes())).is_err(), "{pointer} {value}");
        }
        assert!(Edit::new(&"/a".repeat(MAX_POINTER + 1), None).is_err());
        assert_eq!(edited("{}", &[("/a~1b~0c", Some("1"))]).unwrap(), r#"{"a/b~c":1}"#);
    }
}
