//! Frame templates: a stream repeats one frame with another text in it, and most of the rest need not be read again.
//!
//! 1. A payload that was read the general way, and whose only effect was to give one text out, is kept as a [`Template`]:
//!    its bytes, the place of that text, and of values that the reading ignores. One more value may be *kept*: the counts
//!    that some families repeat in every chunk.
//! 2. The next payload is compared with it byte for byte; only the text, the kept value and those ignored values that were
//!    seen to change are read, as strictly as ever. Where all agrees, the normaliser is told to do the same with the new text
//!    and the new kept value, whose bytes it is given.
//! 3. This is sound because equal bytes lead a deterministic reader to equal acts, an ignored value leads to none, and
//!    any payload that is read the general way replaces the template or ends it.
//!
//! Only the reader of a family may say what it ignores. A value that decides anything must never be noted as ignored.

use crate::json::{Scan, Scanner, inside};
use crate::limits::MAX_TEMPLATE;
use crate::same::{begins, common};
use crate::text::Literal;

/// How many ignored values of a payload are noted; those after them must then stay equal.
const NOTED: usize = 12;

/// Where a payload has values that its reader ignores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignored {
    at: [(u32, u32); NOTED],
    count: usize,
}

impl Ignored {
    /// Skips a value that has no part in what the payload means, and notes its place.
    #[inline]
    pub fn skip(&mut self, s: &mut Scanner<'_>) -> Scan<()> {
        let raw = s.skip()?;
        self.note(s, raw);
        Ok(())
    }

    /// Notes the place of a value that was just read from `s` and that has no part in what the payload means.
    #[inline]
    pub fn note(&mut self, s: &Scanner<'_>, raw: &[u8]) {
        self.note_at(place(s, raw));
    }

    /// As [`Ignored::note`], for a value of which this is known only later.
    #[inline]
    pub fn note_at(&mut self, place: (u32, u32)) {
        if let Some(free) = self.at.get_mut(self.count) {
            *free = place;
            self.count += 1;
        }
    }
}

/// The place of a value that was just read from `s`.
#[inline]
#[must_use]
pub fn place(s: &Scanner<'_>, raw: &[u8]) -> (u32, u32) {
    ((s.pos() - raw.len()) as u32, s.pos() as u32)
}

/// What a normaliser says of a payload whose only effect was to give out one text.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// The inside of the text's literal.
    text: (u32, u32),
    kept: Option<(u32, u32)>,
    ignored: Ignored,
}

impl Steady {
    /// `text` lies in `json`.
    #[must_use]
    pub fn new(json: &[u8], text: Literal<'_>, ignored: Ignored) -> Steady {
        Steady { text: within(json, text.raw), kept: None, ignored }
    }

    /// The same for a payload with a value that is told anew each time; `raw` lies in `json`.
    #[must_use]
    pub fn keeping(self, json: &[u8], raw: &[u8]) -> Steady {
        Steady { kept: Some(within(json, raw)), ..self }
    }
}

fn within(json: &[u8], part: &[u8]) -> (u32, u32) {
    let start = (part.as_ptr() as usize - json.as_ptr() as usize) as u32;
    (start, start + part.len() as u32)
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    start: u32,
    end: u32,
    holds: Holds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// The place is that of the literal's inside.
    Text,
    Kept,
    Ignored,
}

/// How far a payload was compared.
struct Here<'a> {
    /// In the payload that was learnt.
    known: usize,
    /// In the one that is compared.
    at: usize,
    kept: &'a [u8],
}

/// A payload, with holes.
#[derive(Debug, Default)]
pub struct Template {
    bytes: Vec<u8>,
    name: Vec<u8>,
    /// The next payload has that name.
    is_named: bool,
    /// In their order in `bytes`; which of them is the text's.
    holes: Vec<Hole>,
    text: usize,
    ignored: Ignored,
    /// Which of `ignored` were seen to change.
    changing: [bool; NOTED],
    valid: bool,
    /// Steady payloads in a row that did not fit.
    misses: u32,
}

impl Template {
    /// The name of the next payload, and of those after it until another is said.
    #[inline]
    pub fn named(&mut self, name: &[u8]) {
        self.is_named = self.name.len() == name.len() && begins(name, &self.name);
    }

    /// The text of `payload` and what is kept, if it fits. An empty text never does: it may mean something else.
    #[expect(clippy::inline_always, reason = "measured: a literal that goes through memory stalls every frame")]
    #[inline(always)]
    #[must_use]
    pub fn fit<'a>(&mut self, payload: &'a [u8]) -> Option<(Literal<'a>, &'a [u8])> {
        if !self.valid || !self.is_named {
            return None;
        }
        let found = self.compare(payload).filter(|(text, _)| !text.raw.is_empty())?;
        self.misses = 0;
        Some(found)
    }

    #[expect(clippy::inline_always, reason = "measured: a literal that goes through memory stalls every frame")]
    #[inline(always)]
    fn compare<'a>(&self, payload: &'a [u8]) -> Option<(Literal<'a>, &'a [u8])> {
        let mut here = Here { known: 0, at: 0, kept: &payload[..0] };
        if self.text > 0 {
            self.pass(&self.holes[..self.text], payload, &mut here)?;
        }
        let hole = self.holes.get(self.text)?;
        self.pass_same(hole, payload, &mut here)?;
        // The quote before it was just compared.
        let text = inside(payload, here.at)?;
        here.at += text.raw.len();
        if self.holes.len() > self.text + 1 {
            self.pass(&self.holes[self.text + 1..], payload, &mut here)?;
        }
        let (rest, same) = (payload.get(here.at..)?, self.bytes.get(here.known..)?);
        let is_same = rest.len() == same.len() && begins(rest, same);
        (is_same || agree_unpadded(rest, same)).then_some((text, here.kept))
    }

    /// What is the same before the hole.
    #[expect(clippy::inline_always, reason = "measured: a literal that goes through memory stalls every frame")]
    #[inline(always)]
    fn pass_same(&self, hole: &Hole, payload: &[u8], here: &mut Here<'_>) -> Option<()> {
        let same = self.bytes.get(here.known..hole.start as usize)?;
        here.known = hole.end as usize;
        here.at += same.len();
        begins(payload.get(here.at - same.len()..)?, same).then_some(())
    }

    /// Holes that are not the text's, and what is the same before each.
    #[expect(clippy::inline_always, reason = "measured: a literal that goes through memory stalls every frame")]
    #[inline(always)]
    fn pass<'a>(&self, holes: &[Hole], payload: &'a [u8], here: &mut Here<'a>) -> Option<()> {
        for hole in holes {
            self.pass_same(hole, payload, here)?;
            if hole.holds == Holds::Ignored && payload.get(here.at) == Some(&b'"') {
                here.at += inside(payload, here.at + 1)?.raw.len() + 2;
                continue;
            }
            let (value, length) = self.value(hole, payload.get(here.at..)?)?;
            here.at += length;
            if hole.holds == Holds::Kept {
                here.kept = value;
            }
        }
        Some(())
    }

    /// The value that `rest` begins with, in the place of the hole, and its length with the white space before it.
    #[inline(never)]
    fn value<'a>(&self, hole: &Hole, rest: &'a [u8]) -> Option<(&'a [u8], usize)> {
        if hole.holds == Holds::Kept
            && let Some(length) = renumbered(value(&self.bytes, (hole.start, hole.end)), rest)
        {
            return Some((&rest[..length], length));
        }
        let mut s = Scanner::new(rest);
        let value = s.skip().ok()?;
        Some((value, s.pos()))
    }

    /// `payload` was read the general way: keep it if it is steady. A stream whose payloads never repeat is looked at
    /// ever more rarely.
    #[inline]
    pub fn learn(&mut self, payload: &[u8], name: &[u8], steady: Option<&Steady>) {
        self.valid = false;
        if let Some(steady) = steady
            && payload.len() <= MAX_TEMPLATE
        {
            self.learn_steady(payload, name, steady);
        }
    }

    fn learn_steady(&mut self, payload: &[u8], name: &[u8], steady: &Steady) {
        self.misses = self.misses.saturating_add(1);
        if self.misses > 12 && self.misses % 64 > 4 {
            return;
        }
        let ignored = &steady.ignored;
        if ignored.count == self.ignored.count {
            for i in 0..ignored.count {
                let (before, now) = (self.ignored.at[i], ignored.at[i]);
                self.changing[i] |= value(&self.bytes, before) != value(payload, now);
            }
        } else {
            self.changing = [false; NOTED];
        }
        self.holes.clear();
        for i in (0..ignored.count).filter(|&i| self.changing[i]) {
            let (start, end) = ignored.at[i];
            self.holes.push(Hole { start, end, holds: Holds::Ignored });
        }
        if let Some((start, end)) = steady.kept {
            self.holes.push(Hole { start, end, holds: Holds::Kept });
        }
        self.holes.push(Hole { start: steady.text.0, end: steady.text.1, holds: Holds::Text });
        self.holes.sort_unstable_by_key(|hole| hole.start);
        self.text = self.holes.iter().position(|hole| hole.holds == Holds::Text).unwrap_or_default();
        self.ignored = *ignored;
        self.bytes.clear();
        self.bytes.extend_from_slice(payload);
        self.name.clear();
        self.name.extend_from_slice(name);
        self.is_named = true;
        self.valid = true;
    }

    /// Something else was read: what was learnt no longer stands.
    pub fn forget(&mut self) {
        self.valid = false;
    }
}

/// The length of the value that `rest` begins with, where that is `known`, a JSON value, with other whole numbers of no sign
/// in it: counts, mostly. It is JSON then as well: what is replaced stands alone between signs that end a number, and digits
/// for digits are as good inside a string. `None` says nothing.
fn renumbered(known: &[u8], rest: &[u8]) -> Option<usize> {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let (mut i, mut j) = (0, 0);
    loop {
        let same = common(&known[i..], &rest[j..]);
        (i, j) = (i + same, j + same);
        if i == known.len() {
            return Some(j);
        }
        // Back to where the number begins: what was passed is the same in both.
        let back = known[..i].iter().rev().take_while(|b| b.is_ascii_digit()).count();
        (i, j) = (i - back, j - back);
        let (old, new) = (digits(&known[i..]), digits(&rest[j..]));
        let begins = matches!(known[..i].last(), Some(b':' | b',' | b'['));
        let ends = matches!(known.get(i + old), Some(b',' | b'}' | b']')) && known.get(i + old) == rest.get(j + new);
        if !begins || !ends || old == 0 || new == 0 || new > 1 && rest[j] == b'0' {
            return None;
        }
        (i, j) = (i + old, j + new);
    }
}

fn value(payload: &[u8], (start, end): (u32, u32)) -> &[u8] {
    &payload[start as usize..end as usize]
}

/// Whether both are the same but for padding.
#[cold]
fn agree_unpadded(rest: &[u8], same: &[u8]) -> bool {
    unpadded(rest).is_some_and(|rest| unpadded(same) == Some(rest))
}

/// The rest of an object without its last brace and the white space before that: some vendors pad their frames there. In
/// the payload that was learnt this is no string's inside, so in one with the same bytes before it neither.
fn unpadded(rest: &[u8]) -> Option<&[u8]> {
    let mut rest = rest.strip_suffix(b"}")?;
    while let [before @ .., b' ' | b'\t' | b'\n' | b'\r'] = rest {
        rest = before;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a":..., "t":"text"}`, of which `a` is ignored.
    fn read(json: &[u8]) -> Steady {
        let (mut s, mut ignored, mut text) = (Scanner::new(json), Ignored::default(), None);
        let mut members = s.object().unwrap();
        while let Some(key) = s.key(&mut members).unwrap() {
            if key.is("t") {
                text = s.string_or_skip().unwrap();
            } else {
                ignored.skip(&mut s).unwrap();
            }
        }
        Steady::new(json, text.unwrap(), ignored)
    }

    fn learnt(payloads: &[&str]) -> Template {
        let mut template = Template::default();
        for payload in payloads {
            template.learn(payload.as_bytes(), b"n", Some(&read(payload.as_bytes())));
        }
        template
    }

    #[test]
    fn what_changed_once_may_change_and_the_rest_may_not() {
        let mut t = learnt(&[r#"{"a":1,"b":"x","t":"one"}"#]);
        assert!(t.fit(br#"{"a":1,"b":"x","t":"other\n"}"#).unwrap().0.is("other\n"));
        assert!(t.fit(br#"{"a":2,"b":"x","t":"one"}"#).is_none());
        let mut t = learnt(&[r#"{"a":1,"b":"x","t":"one"}"#, r#"{"a":22,"b":"x","t":"two"}"#]);
        assert!(t.fit(br#"{"a":333,"b":"x","t":"three"}"#).unwrap().0.is("three"));
        assert!(t.fit(br#"{"a":333,"b":"y","t":"three"}"#).is_none());
        // Ignored is ignored, of whatever kind.
        assert!(t.fit(br#"{"a":[null,{"x":1}],"b":"x","t":"3"}"#).unwrap().0.is("3"));
        assert!(t.fit(br#"{"a":333,"b":"x","t":"3"  }"#).unwrap().0.is("3"));
        let mut t = learnt(&[r#"{"b":"x","t":"one","a":1}"#, r#"{"b":"xx","t":"","a":1}"#]);
        assert!(t.fit(br#"{"b":"","t":"3","a":1}"#).unwrap().0.is("3"));
    }

    #[test]
    fn what_is_kept_is_given_each_time_and_read_strictly() {
        let first = br#"{"t":"one","k":{"n":1}}"#;
        let mut t = Template::default();
        t.learn(first, b"n", Some(&read(first).keeping(first, &first[15..22])));
        let (text, kept) = t.fit(br#"{"t":"two","k":{"n":[2,"3"]}}"#).unwrap();
        assert!(text.is("two"));
        assert_eq!(kept, br#"{"n":[2,"3"]}"#);
        assert!(t.fit(br#"{"t":"two","k":{"n":01}}"#).is_none());
        assert!(t.fit(br#"{"t":"two","k":{"n":1},"m":2}"#).is_none());
        let mut plain = learnt(&[r#"{"t":"one"}"#]);
        assert!(plain.fit(br#"{"t":"two"}"#).unwrap().1.is_empty());
    }

    #[test]
    fn a_value_with_other_numbers_is_known_by_its_numbers_alone() {
        let known = br#"{"a":40,"b":[7,{"c":"x:5,"}],"d":0}"#;
        let length = |rest: &str| renumbered(known, rest.as_bytes());
        for same in [
            r#"{"a":40,"b":[7,{"c":"x:5,"}],"d":0}"#,
            r#"{"a":4,"b":[123456789,{"c":"x:5,"}],"d":17}"#,
            r#"{"a":400,"b":[0,{"c":"x:6,"}],"d":9}"#,
            r#"{"a":50,"b":[77,{"c":"x:55,"}],"d":10}"#,
        ] {
            assert_eq!(length(&format!("{same},\"more\":1}}")), Some(same.len()), "{same}");
            assert_eq!(Scanner::new(same.as_bytes()).skip(), Ok(same.as_bytes()));
        }
        for other in [
            r#"{"a":040,"b":[7,{"c":"x:5,"}],"d":0}"#,
            r#"{"a":00,"b":[7,{"c":"x:5,"}],"d":0}"#,
            r#"{"a":-4,"b":[7,{"c":"x:5,"}],"d":0}"#,
            r#"{"a":4.5,"b":[7,{"c":"x:5,"}],"d":0}"#,
            r#"{"a":,"b":[7,{"c":"x:5,"}],"d":0}"#,
            r#"{"a":40,"b":[7,{"c":"y:5,"}],"d":0}"#,
            r#"{"a":40,"b":[7,{"c":"x:5,"}],"d":0"#,
            r#"{"a":40,"b":[7,{"c":"x:5,"}],"d":12"#,
            r#"{"a":40,"b""#,
            "",
        ] {
            assert_eq!(length(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_json_or_not_the_same_does_not_fit() {
        let mut t = learnt(&[r#"{"a":1,"b":"x","t":"one"}"#, r#"{"a":2,"b":"y","t":"two"}"#]);
        for wrong in [
            r#"{"a":01,"b":"x","t":"one"}"#,
            r#"{"a":1,"b":"x\q","t":"one"}"#,
            r#"{"a":1,"b":"x","t":"one}"#,
            r#"{"a":1,"b":"x","t":"one"} "#,
            "{\"a\":1,\"b\":\"x\",\"t\":\"one\"\x0c}",
            r#"{"a":1,"b":"x","t":"one"}}"#,
            r#"{"a":[1,],"b":"x","t":"one"}"#,
            r#"{"a":1,"b":"x","t":"one""#,
            r#"{"a":1,"b":"x","t":""}"#,
            r#"{"a":1,"b":"x","#,
            "",
        ] {
            assert!(t.fit(wrong.as_bytes()).is_none(), "{wrong}");
        }
        t.named(b"other name");
        assert!(t.fit(br#"{"a":1,"b":"x","t":"one"}"#).is_none());
        assert!(t.fit(br#"{"a":1,"b":"x","t":"one"}"#).is_none());
        t.named(b"n");
        assert!(t.fit(br#"{"a":1,"b":"x","t":"one"}"#).is_some());
        let mut padded = learnt(&["{\"t\":\"one\"}  "]);
        assert!(padded.fit(b"{\"t\":\"two\"}}").is_none());
        t.forget();
        assert!(t.fit(br#"{"a":1,"b":"x","t":"one"}"#).is_none());
    }
}
