//! Event streams as WHATWG HTML 9.2 has them (rule R16).
//!
//! 1. One leading byte order mark is removed. Lines end with CRLF, LF or CR and with nothing else; an LF after a CR belongs
//!    to it, over reads too.
//! 2. `data` lines are joined by LF, the last `event` line names the event, a `:` starts a comment, one space after the
//!    colon goes; everything else is ignored. A blank line ends the event.
//! 3. `id` and `retry` are ignored: the kernel makes one attempt and never reconnects.
//! 4. House rule: at a clean end of the body the last line counts as ended, and a pending event whose data is whole
//!    JSON or `[DONE]` is dispatched. (A CR ends its line at once here, so none is ever held.)
//! 5. Where it was asked for ([`Sse::new`]), a line outside of an event that begins with `{` or `[` begins bare JSON: it and
//!    everything after it is one more payload, given out at a clean end of the body if it is whole (rule R14).
//!
//! UTF-8 is decoded after framing, where text is handed over.

use memchr::memchr2;

use super::{Each, Frame, TooLong, clear};
use crate::json::Scanner;
use crate::limits::{MAX_FRAME, MAX_NAME};
use crate::same::begins;

const BOM: &[u8] = b"\xef\xbb\xbf";
/// What plain events are written with.
const EVENT: &[u8] = b"event: ";
const DATA: &[u8] = b"data: ";
/// From here on what looks for the end of a long line is quicker, its call included.
#[cfg(target_arch = "x86_64")]
const SHORT_LINE: usize = 128;

/// The state between two reads.
#[derive(Debug)]
pub struct Sse {
    /// Bytes of the body before the current read.
    read: u64,
    /// How much of a leading byte order mark has been seen; `None` once it is decided.
    bom: Option<usize>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// End of the last frame.
    start: u64,
    /// First byte of the pending event's first `data` or `event` line.
    first: Option<u64>,
    /// The head of a line that the last read did not end. Holds no line end.
    line: Vec<u8>,
    line_start: u64,
    name: Vec<u8>,
    /// What was before the data of the last event, for the next; empty where that was not a plain one.
    head: Vec<u8>,
    /// Joined `data` of the pending event, where it does not lie whole in the current read; starts at `skip`.
    data: Vec<u8>,
    skip: usize,
    /// How many `data` lines the pending event has.
    data_lines: usize,
    /// Bare JSON may break into the stream; `bare` says that it has: `data` is its text.
    may_break: bool,
    bare: bool,
}

impl Default for Sse {
    fn default() -> Self {
        Sse {
            read: 0,
            bom: Some(0),
            after_cr: false,
            start: 0,
            first: None,
            line: Vec::new(),
            line_start: 0,
            name: Vec::new(),
            head: Vec::new(),
            data: Vec::new(),
            skip: 0,
            data_lines: 0,
            may_break: false,
            bare: false,
        }
    }
}

/// What a line says.
enum Line<'a> {
    Data(&'a [u8]),
    Event(&'a [u8]),
    Ignored,
}

impl Sse {
    /// `may_break`: whether bare JSON may break into the stream (rule 5).
    #[must_use]
    pub fn new(may_break: bool) -> Sse {
        Sse { may_break, ..Sse::default() }
    }

    /// Takes the next bytes, of any size.
    pub fn feed(&mut self, bytes: &[u8], each: &mut impl Each) -> Result<(), TooLong> {
        if self.bare {
            return self.more_bare(bytes);
        }
        let mut pos = self.mark(bytes);
        // The pending event's only data line, where it lies in this read.
        let mut whole: Option<&[u8]> = None;
        // From here on no line is known to end in this read.
        let mut open_from = usize::MAX;
        while pos < bytes.len() {
            if std::mem::take(&mut self.after_cr) && bytes[pos] == b'\n' {
                pos += 1;
                continue;
            }
            if self.is_idle() {
                match self.plain_events(bytes, &mut pos, each) {
                    Some(Plain::Over) => return Ok(()),
                    Some(Plain::Open(from)) => open_from = from,
                    None => {}
                }
                if pos == bytes.len() {
                    break;
                }
            }
            let found = if pos < open_from { line_end(&bytes[pos..]) } else { None };
            self.check(whole, found.unwrap_or(bytes.len() - pos), self.read + pos as u64)?;
            let Some(found) = found else {
                self.keep(&bytes[pos..], self.read + pos as u64);
                break;
            };
            let (line, line_start) = (&bytes[pos..pos + found], self.read + pos as u64);
            pos += found + 1;
            self.after_cr = bytes[pos - 1] == b'\r';
            if self.after_cr && bytes.get(pos) == Some(&b'\n') {
                self.after_cr = false;
                pos += 1;
            }
            if self.breaks(line) {
                let first = if self.line.is_empty() { line_start } else { self.line_start };
                self.first = Some(first);
                self.keep(line, line_start);
                self.data = std::mem::take(&mut self.line);
                self.skip = 0;
                // Whatever ended the line is white space to JSON.
                self.data.push(b'\n');
                self.bare = true;
                self.read += pos as u64;
                return self.more_bare(&bytes[pos..]);
            }
            if !self.line.is_empty() {
                self.keep(line, line_start);
                self.end_kept_line();
            } else if line.is_empty() {
                if !self.dispatch(whole.take(), self.read + pos as u64, each) {
                    return Ok(());
                }
            } else {
                match read_line(line) {
                    Line::Data(value) if self.data_lines == 0 => {
                        self.first.get_or_insert(line_start);
                        self.data_lines = 1;
                        whole = Some(value);
                    }
                    Line::Data(value) => {
                        if let Some(first) = whole.take() {
                            self.put(first);
                        }
                        self.join(value);
                    }
                    Line::Event(name) => {
                        self.first.get_or_insert(line_start);
                        self.call(name);
                    }
                    Line::Ignored => {}
                }
            }
        }
        if let Some(first) = whole {
            self.put(first);
        }
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// The body has ended; `clean` where it ended well.
    pub fn finish(&mut self, clean: bool, each: &mut impl Each) {
        if !clean {
            return;
        }
        if self.breaks(b"") {
            self.first = Some(self.line_start);
            self.data = std::mem::take(&mut self.line);
            self.skip = 0;
            self.bare = true;
        }
        if !self.line.is_empty() {
            self.end_kept_line();
        }
        self.data_lines += usize::from(self.bare);
        let data = &self.data[self.skip..];
        if self.data_lines > 0 && (data.starts_with(b"[DONE]") || Scanner::only(data).is_ok()) {
            self.dispatch(None, self.read, each);
        }
    }

    /// Whether this line, with what was kept of it, begins bare JSON.
    fn breaks(&self, line: &[u8]) -> bool {
        let first = self.line.first().or(line.first());
        self.may_break && self.data_lines == 0 && self.first.is_none() && matches!(first, Some(b'{' | b'['))
    }

    fn more_bare(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.data.len() + bytes.len() > MAX_FRAME {
            return Err(TooLong { offset: self.first.unwrap_or(self.start) });
        }
        self.data.extend_from_slice(bytes);
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// Nothing of an event has come.
    #[inline]
    fn is_idle(&self) -> bool {
        self.line.is_empty() && self.data_lines == 0 && self.first.is_none() && self.name.is_empty()
    }

    /// Gives out the events at `pos` that are one `data` line with at most an `event` line before it, ended by bare LFs: as nearly
    /// all are written. What comes then is read line by line, to the same end; [`Plain`] says more of it where more is known.
    /// Called while nothing of an event has come.
    #[inline]
    fn plain_events(&mut self, bytes: &[u8], pos: &mut usize, each: &mut impl Each) -> Option<Plain> {
        loop {
            let rest = &bytes[*pos..];
            // Mostly the lines before the data are those of the event before.
            let repeats_name = !self.head.is_empty() && begins(rest, &self.head);
            if !repeats_name {
                let Some(head) = head(rest) else {
                    let is_open = rest.strip_prefix(EVENT).is_some_and(|name| line_end(name).is_none());
                    return is_open.then_some(Plain::Open(*pos));
                };
                self.head.clear();
                self.head.extend_from_slice(head);
            }
            let after = &rest[self.head.len()..];
            let Some(end) = line_end(after) else { return Some(Plain::Open(*pos + self.head.len() - DATA.len())) };
            // A longer one is refused there.
            if end > MAX_FRAME - DATA.len() || after.get(end..end + 2) != Some(b"\n\n") {
                return None;
            }
            let offset = self.read + *pos as u64;
            *pos += self.head.len() + end + 2;
            let frame_end = self.read + *pos as u64;
            let start = std::mem::replace(&mut self.start, frame_end);
            let name = name_in(&self.head);
            if !each(Frame { name, data: Some(&after[..end]), offset, start, end: frame_end, repeats_name }) {
                return Some(Plain::Over);
            }
        }
    }

    /// Removes the byte order mark; returns where the stream begins in `bytes`.
    fn mark(&mut self, bytes: &[u8]) -> usize {
        let Some(seen) = self.bom else { return 0 };
        let expected = &BOM[seen..];
        let same = expected.iter().zip(bytes).take_while(|(a, b)| a == b).count();
        if same == expected.len() {
            self.bom = None;
            return same;
        }
        if same == bytes.len() {
            self.bom = Some(seen + same);
            return same;
        }
        // No mark after all: what was taken for one begins the first line.
        self.bom = None;
        self.line.extend_from_slice(&BOM[..seen]);
        0
    }

    /// Whether a line that has `more` bytes at `at` may be taken: the same answer however the bytes were cut.
    fn check(&self, whole: Option<&[u8]>, more: usize, at: u64) -> Result<(), TooLong> {
        let data = whole.map_or(self.data.len() - self.skip, <[u8]>::len);
        if self.line.len() + more + data <= MAX_FRAME {
            return Ok(());
        }
        let line_start = if self.line.is_empty() { at } else { self.line_start };
        Err(TooLong { offset: self.first.unwrap_or(line_start) })
    }

    fn keep(&mut self, bytes: &[u8], at: u64) {
        if self.line.is_empty() {
            self.line_start = at;
        }
        self.line.extend_from_slice(bytes);
    }

    /// The kept line is whole now.
    fn end_kept_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        match read_line(&line) {
            Line::Data(value) if self.data_lines == 0 => {
                self.first.get_or_insert(self.line_start);
                self.data_lines = 1;
                self.skip = line.len() - value.len();
                std::mem::swap(&mut self.data, &mut line);
            }
            Line::Data(value) => self.join(value),
            Line::Event(name) => {
                self.first.get_or_insert(self.line_start);
                self.call(name);
            }
            Line::Ignored => {}
        }
        clear(&mut line);
        self.line = line;
    }

    /// The first data line leaves the read that it lay in.
    fn put(&mut self, first: &[u8]) {
        self.data.clear();
        self.skip = 0;
        self.data.extend_from_slice(first);
    }

    fn join(&mut self, value: &[u8]) {
        self.data_lines += 1;
        self.data.push(b'\n');
        self.data.extend_from_slice(value);
    }

    /// A name past any bound of ours is nobody's: it is cut, and matches nothing.
    fn call(&mut self, name: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(&name[..name.len().min(MAX_NAME)]);
    }

    fn dispatch(&mut self, whole: Option<&[u8]>, end: u64, each: &mut impl Each) -> bool {
        self.head.clear();
        let start = std::mem::replace(&mut self.start, end);
        let offset = self.first.take().unwrap_or(start);
        let data = match whole {
            Some(data) => Some(data),
            None if self.data_lines > 0 => Some(&self.data[self.skip..]),
            None => None,
        };
        let name = if self.name.is_empty() { &b"message"[..] } else { &self.name };
        let more = each(Frame { name, data, offset, start, end, repeats_name: false });
        self.name.clear();
        clear(&mut self.data);
        self.skip = 0;
        self.data_lines = 0;
        more
    }
}

/// What is known behind plain events.
enum Plain {
    /// No further frame is wanted.
    Over,
    /// From here on no line ends in this read.
    Open(usize),
}

/// What is before the data of the plain event at the start of `rest`: at most an `event` line, and what begins a `data` line.
fn head(rest: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    if let Some(after) = rest.strip_prefix(EVENT) {
        let end = line_end(after)?;
        if end == 0 || end > MAX_NAME || after[end] != b'\n' {
            return None;
        }
        at = EVENT.len() + end + 1;
    }
    rest[at..].starts_with(DATA).then(|| &rest[..at + DATA.len()])
}

/// The name in such a head.
fn name_in(head: &[u8]) -> &[u8] {
    let lines = head.len() - DATA.len();
    if lines == 0 { b"message" } else { &head[EVENT.len()..lines - 1] }
}

/// Where the first line of `bytes` ends. Most lines are short: they are looked through without a call.
#[inline]
fn line_end(bytes: &[u8]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        let mut at = 0;
        while at < SHORT_LINE
            && let Some(block) = bytes[at..].first_chunk()
        {
            let found = line_ends(block);
            if found != 0 {
                return Some(at + found.trailing_zeros() as usize);
            }
            at += 32;
        }
        memchr2(b'\n', b'\r', &bytes[at..]).map(|found| at + found)
    }
    #[cfg(not(target_arch = "x86_64"))]
    memchr2(b'\n', b'\r', bytes)
}

/// A bit for each byte that ends a line.
#[cfg(target_arch = "x86_64")]
#[inline]
fn line_ends(block: &[u8; 32]) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    // SAFETY: thirty-two bytes are there, the loads need no alignment, and SSE2 is part of x86-64.
    unsafe {
        let (lf, cr) = (_mm_set1_epi8(b'\n'.cast_signed()), _mm_set1_epi8(b'\r'.cast_signed()));
        let ends = |at: usize| {
            let chunk = _mm_loadu_si128(block.as_ptr().add(at).cast());
            let any = _mm_or_si128(_mm_cmpeq_epi8(chunk, lf), _mm_cmpeq_epi8(chunk, cr));
            _mm_movemask_epi8(any).cast_unsigned()
        };
        ends(0) | ends(16) << 16
    }
}

#[inline]
fn read_line(line: &[u8]) -> Line<'_> {
    // The one that is nearly always there, first.
    if let Some(rest) = line.strip_prefix(b"data:") {
        return Line::Data(rest.strip_prefix(b" ").unwrap_or(rest));
    }
    if let Some(rest) = line.strip_prefix(b"event:") {
        return Line::Event(rest.strip_prefix(b" ").unwrap_or(rest));
    }
    match line {
        b"data" => Line::Data(b""),
        b"event" => Line::Event(b""),
        _ => Line::Ignored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Seen = Vec<(String, String, u64)>;

    fn run(pieces: &[&[u8]], clean: bool) -> (Seen, Vec<(u64, u64)>) {
        let (mut seen, mut ranges) = (Vec::new(), Vec::new());
        let mut sse = Sse::default();
        let mut each = |f: Frame<'_>| {
            if let Some(data) = f.data {
                let text = |b| String::from_utf8_lossy(b).into_owned();
                seen.push((text(f.name), text(data), f.offset));
            }
            ranges.push((f.start, f.end));
            true
        };
        for piece in pieces {
            sse.feed(piece, &mut each).unwrap();
        }
        sse.finish(clean, &mut each);
        (seen, ranges)
    }

    fn everywhere(wire: &[u8]) -> Seen {
        let (want, ranges) = run(&[wire], true);
        assert!(ranges.windows(2).all(|w| w[0].1 == w[1].0), "frames leave no gap: {ranges:?}");
        let bytes: Vec<&[u8]> = wire.chunks(1).collect();
        assert_eq!(run(&bytes, true).0, want, "byte by byte");
        for cut in 0..=wire.len() {
            assert_eq!(run(&[&wire[..cut], &wire[cut..]], true).0, want, "cut at {cut}");
        }
        want
    }

    fn datas(wire: &[u8]) -> Vec<String> {
        everywhere(wire).into_iter().map(|s| s.1).collect()
    }

    #[test]
    fn line_ends_of_all_kinds() {
        assert_eq!(datas(b"data: a\n\ndata: b\r\n\r\ndata:c\r\rdata: d\r\n\n"), ["a", "b", "c", "d"]);
        assert_eq!(datas("data: a\u{2028}b\u{85}c\x0b\x0c\n\n".as_bytes()), ["a\u{2028}b\u{85}c\x0b\x0c"]);
    }

    #[test]
    fn offsets_are_those_of_the_first_own_line() {
        let seen = everywhere(b": note\n\ndata: 1\n\n\r\n: x\r\nid: 4\r\nevent: e\r\ndata: 2\r\n\r\n");
        assert_eq!(seen[0], ("message".into(), "1".into(), 8));
        assert_eq!(seen[1], ("e".into(), "2".into(), 31));
    }

    #[test]
    fn data_lines_join_and_names_reset() {
        assert_eq!(datas(b"data: a\ndata:  b\ndata\n\nevent: e\n\ndata: x\n\n"), ["a\n b\n", "x"]);
        let seen = everywhere(b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\n");
        assert_eq!((seen[0].0.as_str(), seen[1].0.as_str()), ("b", "message"));
        assert_eq!(datas(b"data:\n\ndata: \n\nevent: ping\n\ndata: x\n\n"), ["", "", "x"]);
    }

    #[test]
    fn the_mark_goes_once_and_only_whole() {
        assert_eq!(datas(b"\xef\xbb\xbfdata: a\n\n"), ["a"]);
        assert_eq!(datas(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n"), ["b"]);
        assert_eq!(datas(b"\xef\xbbdata: a\n\ndata: b\n\n"), ["b"]);
    }

    #[test]
    fn the_end_dispatches_whole_json_only_and_only_if_clean() {
        assert_eq!(datas(b"data: {\"a\":1}"), ["{\"a\":1}"]);
        assert_eq!(datas(b"data: {\"a\":\r"), Vec::<String>::new());
        assert_eq!(datas(b"data: {\"a\":1}\r"), ["{\"a\":1}"]);
        assert_eq!(datas(b"data: [DONE]"), ["[DONE]"]);
        assert!(run(&[b"data: {}"], false).0.is_empty());
    }

    #[test]
    fn a_frame_past_the_bound_is_an_error() {
        let mut sse = Sse::default();
        let block = vec![b'x'; 1 << 20];
        sse.feed(b"data: ", &mut |_| true).unwrap();
        let fed = (0..80).take_while(|_| sse.feed(&block, &mut |_| true).is_ok()).count();
        assert_eq!(fed, (MAX_FRAME >> 20) - 1);
        // In one read it is as long as in many.
        for (size, fits) in [(MAX_FRAME - 6, true), (MAX_FRAME - 5, false)] {
            let mut wire = b": x\ndata: ".to_vec();
            wire.resize(wire.len() + size, b'x');
            wire.extend_from_slice(b"\n\n");
            let cut = wire.len() / 2;
            let (mut whole, mut halves) = (Sse::default(), Sse::default());
            let one = whole.feed(&wire, &mut |_| true);
            let two = halves.feed(&wire[..cut], &mut |_| true).and_then(|()| halves.feed(&wire[cut..], &mut |_| true));
            assert_eq!((one.is_ok(), one), (fits, two));
            assert!(one.is_ok() || one == Err(TooLong { offset: 4 }));
        }
    }

    #[test]
    fn endless_comments_are_not_kept() {
        let mut sse = Sse::default();
        for _ in 0..1000 {
            sse.feed(b": still here, still ", &mut |_| true).unwrap();
            sse.feed(b"here\n", &mut |_| true).unwrap();
        }
        assert!(sse.line.is_empty() && sse.line.capacity() < 256 && sse.data.is_empty());
    }
}
