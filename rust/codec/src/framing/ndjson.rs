//! One JSON payload a line. Lines end with LF only; blank ones are skipped; the last may lack its LF.

use memchr::memchr;

use super::{Each, Frame, TooLong, clear};
use crate::limits::MAX_FRAME;

/// The state between two reads.
#[derive(Debug, Default)]
pub struct Ndjson {
    read: u64,
    /// The head of a line that the last read did not end, and where it starts in the body.
    line: Vec<u8>,
    line_start: u64,
    /// End of the last frame.
    start: u64,
}

impl Ndjson {
    pub fn feed(&mut self, bytes: &[u8], each: &mut impl Each) -> Result<(), TooLong> {
        let mut pos = 0;
        while let Some(found) = memchr(b'\n', &bytes[pos..]) {
            let line = &bytes[pos..pos + found];
            let line_start = self.read + pos as u64;
            pos += found + 1;
            let end = self.read + pos as u64;
            let more = if self.line.is_empty() {
                if line.len() > MAX_FRAME {
                    return Err(TooLong { offset: line_start });
                }
                self.give(line, line_start, end, each)
            } else {
                self.keep(line, line_start)?;
                let mut kept = std::mem::take(&mut self.line);
                let more = self.give(&kept, self.line_start, end, each);
                clear(&mut kept);
                self.line = kept;
                more
            };
            if !more {
                return Ok(());
            }
        }
        self.keep(&bytes[pos..], self.read + pos as u64)?;
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// The body has ended; `clean` where it ended well.
    pub fn finish(&mut self, clean: bool, each: &mut impl Each) {
        if clean {
            let kept = std::mem::take(&mut self.line);
            self.give(&kept, self.line_start, self.read, each);
        }
    }

    fn keep(&mut self, bytes: &[u8], at: u64) -> Result<(), TooLong> {
        if self.line.is_empty() {
            self.line_start = at;
        }
        if self.line.len() + bytes.len() > MAX_FRAME {
            return Err(TooLong { offset: self.line_start });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn give(&mut self, line: &[u8], offset: u64, end: u64, each: &mut impl Each) -> bool {
        if line.trim_ascii().is_empty() {
            return true;
        }
        let start = std::mem::replace(&mut self.start, end);
        each(Frame { name: b"", data: Some(line), offset, start, end, repeats_name: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pieces: &[&[u8]], clean: bool) -> Vec<(String, u64, u64, u64)> {
        let (mut seen, mut ndjson) = (Vec::new(), Ndjson::default());
        let mut each = |f: Frame<'_>| {
            seen.push((String::from_utf8_lossy(f.data.unwrap()).into_owned(), f.offset, f.start, f.end));
            true
        };
        for piece in pieces {
            ndjson.feed(piece, &mut each).unwrap();
        }
        ndjson.finish(clean, &mut each);
        seen
    }

    #[test]
    fn lines_end_with_lf_alone_at_every_cut() {
        let wire = b"{\"a\":1}\n\n{\"b\":\r2}\r\n \n{\"c\":3}";
        let want = run(&[wire], true);
        let texts: Vec<&str> = want.iter().map(|s| s.0.as_str()).collect();
        assert_eq!(texts, ["{\"a\":1}", "{\"b\":\r2}\r", "{\"c\":3}"]);
        assert_eq!((want[1].1, want[1].2), (9, 8));
        assert_eq!((want[2].1, want[2].3), (21, 28));
        for cut in 0..=wire.len() {
            assert_eq!(run(&[&wire[..cut], &wire[cut..]], true), want, "cut at {cut}");
        }
        assert_eq!(run(&[wire], false).len(), 2, "a cut line is no frame");
    }
}
