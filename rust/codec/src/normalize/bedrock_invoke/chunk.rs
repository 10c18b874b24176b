//! The bytes of a chunk: `{"bytes": BASE64}`, with padding behind it in a member of its own.
//!
//! 1. The usual form, nothing else in it and no white space, is read as it stands: base64 sixteen characters a step, up to what is
//!    none. Any other form goes through the scanner, to the same bytes.
//! 2. Chunks of one kind begin alike, and so does their base64: what a chunk has in common with an earlier one is not decoded again.
//! 3. Base64 is RFC 4648's: padded, and what the padding leaves over of a group is zero.
//!
//! What the bytes mean must not be added here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::json::{Malformed, Scan, Scanner};
use crate::limits::{KEPT_BUFFER, MAX_TEMPLATE};
use crate::same::common;

const HEAD: &[u8] = b"{\"bytes\":\"";
/// Characters that are decoded at once.
const STEP: usize = 16;

/// The bytes of the last chunk, and what the next one needs of the ones before.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    length: usize,
    /// Base64 of a chunk; the first `shared` characters, whole groups, are what the head of `bytes` was decoded from.
    text: Vec<u8>,
    shared: usize,
}

impl Chunk {
    /// Reads a chunk; its bytes, or `None` where it holds none.
    #[inline]
    pub(super) fn read(&mut self, json: &[u8]) -> Scan<Option<&[u8]>> {
        if self.usual(json).is_none() && !self.unusual(json)? {
            return Ok(None);
        }
        Ok(Some(&self.bytes[..self.length]))
    }

    /// Lets go of what a rare large chunk has blown up.
    #[inline]
    pub(super) fn done(&mut self) {
        if self.bytes.capacity() > KEPT_BUFFER {
            *self = Chunk::default();
        }
    }

    #[inline]
    fn usual(&mut self, json: &[u8]) -> Option<()> {
        let text = json.strip_prefix(HEAD)?;
        let shared = common(text, &self.text[..self.shared]) / 4 * 4;
        self.shared = shared;
        // A step writes sixteen bytes, of which twelve count.
        let room = text.len() / 4 * 3 + STEP;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        let read = groups(text, shared, &mut self.bytes);
        self.length = read / 4 * 3;
        let mut rest = &text[read..];
        if rest.first() != Some(&b'"') {
            let (group, behind) = rest.split_at_checked(4)?;
            self.length += STANDARD.decode_slice(group, &mut self.bytes[self.length..]).ok()?;
            rest = behind;
        }
        if shared < read / 2 && text.len() <= MAX_TEMPLATE {
            self.text.clear();
            self.text.extend_from_slice(&text[..read]);
            self.shared = read;
        }
        (rest == b"\"}" || is_padding(rest)).then_some(())
    }

    fn unusual(&mut self, json: &[u8]) -> Scan<bool> {
        let mut s = Scanner::new(json);
        let mut members = s.object()?;
        let mut text = None;
        while let Some(key) = s.key(&mut members)? {
            if key.is("bytes") {
                text = s.string_or_skip()?;
            } else {
                s.skip()?;
            }
        }
        s.end()?;
        let Some(text) = text else { return Ok(false) };
        self.shared = 0;
        self.bytes.clear();
        match STANDARD.decode_vec(&*text.bytes(), &mut self.bytes) {
            Ok(()) => {
                self.length = self.bytes.len();
                Ok(true)
            }
            Err(_) => Err(Malformed { at: 0, what: "base64" }),
        }
    }
}

/// Letters and digits in a member of their own: the service hides the lengths of its events so.
fn is_padding(rest: &[u8]) -> bool {
    let padding = rest.strip_prefix(b"\",\"p\":\"").and_then(|rest| rest.strip_suffix(b"\"}"));
    padding.is_some_and(|padding| padding.iter().all(u8::is_ascii_alphanumeric))
}

/// Decodes the groups of four characters that `text` goes on with from `at` on, which is whole groups, up to a padded one; where
/// they end. `out` begins with what those before `at` hold; it has room for all of the text, and for a step more.
#[inline]
fn groups(text: &[u8], at: usize, out: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if text.len() >= STEP && std::arch::is_x86_feature_detected!("ssse3") {
        // SAFETY: the processor has SSSE3.
        return unsafe { groups_by_steps(text, at, out) };
    }
    groups_one_by_one(text, at, out)
}

fn groups_one_by_one(text: &[u8], mut at: usize, out: &mut [u8]) -> usize {
    let room = out[at / 4 * 3..].as_chunks_mut::<3>().0;
    for (group, room) in text[at..].as_chunks::<4>().0.iter().zip(room) {
        if group.contains(&b'=') || STANDARD.decode_slice(group, room).is_err() {
            break;
        }
        at += group.len();
    }
    at
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "ssse3")]
fn groups_by_steps(text: &[u8], mut at: usize, out: &mut [u8]) -> usize {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_shuffle_epi8};
    /// From byte `n` on: what moves sixteen bytes forward by `n` and makes zeros of the rest.
    const FORWARD: [u8; 2 * STEP] = {
        let mut order = [0x80; 2 * STEP];
        let mut n = 0;
        while n < STEP {
            order[n] = n as u8;
            n += 1;
        }
        order
    };
    let Some(end) = text.last_chunk::<STEP>() else { return at };
    loop {
        let rest = &text[at..];
        let step = if let Some(step) = rest.first_chunk::<STEP>() {
            // SAFETY: sixteen bytes are there, and the load needs no alignment.
            unsafe { _mm_loadu_si128(step.as_ptr().cast()) }
        } else {
            // Less than a step is left: the end of the text, moved to its front. Zeros are no base64.
            let Some(order) = FORWARD[STEP - rest.len()..].first_chunk::<STEP>() else { return at };
            // SAFETY: as above, twice.
            unsafe { _mm_shuffle_epi8(_mm_loadu_si128(end.as_ptr().cast()), _mm_loadu_si128(order.as_ptr().cast())) }
        };
        let Some(room) = out.get_mut(at / 4 * 3..).and_then(<[u8]>::first_chunk_mut) else { return at };
        let whole = decode_step(step, room) / 4 * 4;
        at += whole;
        if whole < STEP {
            return at;
        }
    }
}

/// Decodes sixteen characters to twelve bytes, and four that do not count. Says how many characters from the first on are base64:
/// what comes of the others means nothing.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "ssse3")]
#[inline]
fn decode_step(text: std::arch::x86_64::__m128i, out: &mut [u8; STEP]) -> usize {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_madd_epi16, _mm_maddubs_epi16,
        _mm_max_epu8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8, _mm_set1_epi16, _mm_set1_epi32,
        _mm_shuffle_epi8, _mm_srli_epi16, _mm_storeu_si128,
    };
    /// By the high half of a character: the first and the last that is base64, and what makes a value of it. With 2 there is `/`
    /// alone, `+` is looked for on its own; where there are none, the first is after the last.
    const FIRST: [u8; 16] = *b"\xff\xff/0APap\xff\xff\xff\xff\xff\xff\xff\xff";
    const LAST: [u8; 16] = *b"\0\0/9OZoz\0\0\0\0\0\0\0\0";
    const ADDED: [i8; 16] = [0, 0, 16, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0];
    /// Three bytes of each four, the other way round.
    const ORDER: [i8; 16] = [2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1];
    // SAFETY: all loads and the store are of sixteen bytes that are there, and need no alignment.
    let (first, last, added, order) = unsafe {
        let load = |bytes: *const __m128i| _mm_loadu_si128(bytes);
        (
            load(FIRST.as_ptr().cast()),
            load(LAST.as_ptr().cast()),
            load(ADDED.as_ptr().cast()),
            load(ORDER.as_ptr().cast()),
        )
    };
    let half = _mm_and_si128(_mm_srli_epi16(text, 4), _mm_set1_epi8(15));
    let plus = _mm_cmpeq_epi8(text, _mm_set1_epi8(b'+'.cast_signed()));
    let from = _mm_cmpeq_epi8(_mm_max_epu8(text, _mm_shuffle_epi8(first, half)), text);
    let to = _mm_cmpeq_epi8(_mm_min_epu8(text, _mm_shuffle_epi8(last, half)), text);
    let good = _mm_or_si128(_mm_and_si128(from, to), plus);
    // `+` is 62 and would come out as 59.
    let values = _mm_add_epi8(text, _mm_shuffle_epi8(added, half));
    let values = _mm_add_epi8(values, _mm_and_si128(plus, _mm_set1_epi8(3)));
    // Of four values of six bits one of 24: first two and two, then both.
    let twos = _mm_maddubs_epi16(values, _mm_set1_epi16(0x0140));
    let fours = _mm_madd_epi16(twos, _mm_set1_epi32(0x0001_1000));
    // SAFETY: see above.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_shuffle_epi8(fours, order)) };
    (!_mm_movemask_epi8(good)).trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(json: &str) -> Scan<Option<Vec<u8>>> {
        let mut chunk = Chunk::default();
        chunk.read(json.as_bytes()).map(|bytes| bytes.map(<[u8]>::to_vec))
    }

    #[test]
    fn the_usual_form_and_any_other_hold_the_same_bytes() {
        for (json, held) in [
            (r#"{"bytes":"eyJhIjoxfQ=="}"#, &b"{\"a\":1}"[..]),
            (r#"{"bytes":"eyJhIjoxfQ==","p":"abcXYZ09"}"#, b"{\"a\":1}"),
            (r#"{"bytes":"eyJhIjoxfQ==","p":"a\u0062"}"#, b"{\"a\":1}"),
            (r#"{ "p":"ab", "bytes":"eyJhIjoxfQ==" }"#, b"{\"a\":1}"),
            (r#"{"bytes":"\/\/79"}"#, b"\xff\xfe\xfd"),
            (r#"{"bytes":"//79"}"#, b"\xff\xfe\xfd"),
            (r#"{"bytes":""}"#, b""),
        ] {
            assert_eq!(bytes(json), Ok(Some(held.to_vec())), "{json}");
        }
        assert_eq!(bytes(r#"{"p":"abc"}"#), Ok(None));
    }

    #[test]
    fn what_is_no_chunk_is_refused_in_either_form() {
        for json in [
            r#"{"bytes":"eyJhIjoxfQ="}"#,
            r#"{"bytes":"eyJhIjoxfQ"}"#,
            r#"{"bytes":"eyJhIjoxfR=="}"#,
            r#"{"bytes":"eyJh=Q=="}"#,
            r#"{"bytes":"eyI=eyI="}"#,
            r#"{"bytes":"eyJh IjoxfQ=="}"#,
            r#"{"bytes":"eyJhIjoxfQ==","p":"a"b"}"#,
            r#"{"bytes":"eyJhIjoxfQ==","p":"ab"}}"#,
            r#"{"bytes":"eyJhIjoxfQ==""#,
            r#"{"bytes":"eyJhIjoxfQ=="#,
        ] {
            assert!(bytes(json).is_err(), "{json}");
        }
    }

    #[test]
    fn chunks_after_chunks_hold_what_each_holds_alone() {
        let mut chunk = Chunk::default();
        let deltas = [
            "a",
            "a longer one",
            "",
            "another",
            "another one still, longer than half of its chunk: that is learnt anew",
        ];
        for round in 0..200_usize {
            let kind = ["text_delta", "input_json_delta"][round / 7 % 2];
            let text = format!(
                "{{\"type\":\"content_block_delta\",\"delta\":{{\"type\":\"{kind}\",\"text\":\"{}",
                deltas[round % 5]
            );
            let padding = ["", ",\"p\":\"abc\""][round % 2];
            let json = format!("{{\"bytes\":\"{}\"{padding}}}", STANDARD.encode(&text));
            assert_eq!(chunk.read(json.as_bytes()), Ok(Some(text.as_bytes())), "{round}");
            if round % 11 == 0 {
                // One that breaks off, and one in another form, leave nothing behind.
                assert!(chunk.read(&json.as_bytes()[..json.len() - 9]).is_err());
                assert_eq!(chunk.read(json.replace(':', ": ").as_bytes()), Ok(Some(text.as_bytes())));
            }
            chunk.done();
        }
        let large = format!("{{\"bytes\":\"{}\"}}", "AAAA".repeat(KEPT_BUFFER));
        assert_eq!(chunk.read(large.as_bytes()).map(|bytes| bytes.map(<[u8]>::len)), Ok(Some(3 * KEPT_BUFFER)));
        chunk.done();
        assert_eq!(chunk.bytes.capacity(), 0);
    }

    #[test]
    fn every_character_at_every_place_is_read_alike_step_by_step_and_one_by_one() {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for length in [4, 15, 16, 40, 64] {
            for at in 0..length {
                for byte in 0..=255 {
                    let mut text = alphabet[..length].to_vec();
                    text[at] = byte;
                    let (mut steps, mut singles) = ([0; 80], [0; 80]);
                    let read = groups(&text, 0, &mut steps);
                    assert_eq!(read, groups_one_by_one(&text, 0, &mut singles), "{byte} at {at} of {length}");
                    assert_eq!(steps[..read / 4 * 3], singles[..read / 4 * 3], "{byte} at {at} of {length}");
                }
            }
        }
    }
}
