//! The bytes of a chunk: `{"bytes": BASE64}`, with padding behind it in a member of its own.
//!
//! 1. The usual form, nothing else in it and no white space, is read as it stands: base64 thirty-two characters a step, up to what
//!    is none. Any other form goes through the scanner, to the same bytes.
//! 2. Chunks of one kind begin alike, and so does their base64: what a chunk has in common with an earlier one is not decoded again.
//! 3. Base64 is RFC 4648's: padded, and what the padding leaves over of a group is zero.
//!
//! What the bytes mean must not be added here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::json::{Malformed, Scan, Scanner};
use crate::limits::{KEPT_BUFFER, MAX_TEMPLATE};
use crate::same::{begins, common};

const HEAD: &[u8] = b"{\"bytes\":\"";
/// Characters that are decoded at once, and bytes that this writes: of them three quarters count.
const STEP: usize = 32;

/// By how many characters are left over of a group, what then ends a chunk without a padding member: its last four bytes, and
/// which of them these are. One character alone is never left over.
const ENDS: [(u32, u32); 4] = [
    (u32::from_be_bytes(*b"\0\0\"}"), 0x0000_ffff),
    (1, 0),
    (u32::from_be_bytes(*b"==\"}"), 0xffff_ffff),
    (u32::from_be_bytes(*b"\0=\"}"), 0x00ff_ffff),
];

/// The bytes of the last chunk, and what the next one needs of the ones before.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    length: usize,
    /// Base64 in whole groups, which the head of `bytes` was decoded from.
    text: Vec<u8>,
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
        if !begins(text, &self.text) {
            self.text.truncate(common(text, &self.text) / 4 * 4);
        }
        let room = text.len() / 4 * 3 + STEP;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        let read = characters(text, self.text.len(), &mut self.bytes);
        let left = read % 4;
        self.length = read * 3 / 4;
        if left > 0 && self.bytes[self.length] != 0 {
            return None;
        }
        if self.text.len() < read / 2 && text.len() <= MAX_TEMPLATE {
            self.text.clear();
            self.text.extend_from_slice(&text[..read - left]);
        }
        let (end, which) = ENDS[left];
        let padded = read.next_multiple_of(4);
        if text.len() == padded + 2
            && let Some(last) = text.last_chunk()
            && u32::from_be_bytes(*last) & which == end
        {
            return Some(());
        }
        let (padding, rest) = text[read..].split_at_checked(padded - read)?;
        (left != 1 && padding.iter().all(|&byte| byte == b'=') && is_padding(rest)).then_some(())
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
        self.text.clear();
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
    rest == b"\"}" || padding.is_some_and(|padding| padding.iter().all(u8::is_ascii_alphanumeric))
}

/// Decodes `text` from `at` on, which is whole groups of four characters, up to what is no base64, `=` among that; where this is.
/// What is left over of a group is decoded as if zeros came behind it, so that the byte it is a part of tells whether it is zero.
/// `out` begins with what is before `at`; it has room for all of the text, and for a step more.
#[inline]
fn characters(text: &[u8], at: usize, out: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if text.len() >= STEP && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { characters_by_steps(text, at, out) };
    }
    characters_one_by_one(text, at, out)
}

fn characters_one_by_one(text: &[u8], mut at: usize, out: &mut [u8]) -> usize {
    loop {
        let (mut group, mut good) = (0, 0);
        while good < 4
            && let Some(value) = text.get(at + good).copied().and_then(value)
        {
            group |= u32::from(value) << (18 - 6 * good);
            good += 1;
        }
        let [_, bytes @ ..] = group.to_be_bytes();
        out[at / 4 * 3..][..3].copy_from_slice(&bytes);
        at += good;
        if good < 4 {
            return at;
        }
    }
}

/// What a character of base64 stands for.
fn value(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// As [`characters`], of text that is a step at least. The last step begins where a whole one is left: what it has in common
/// with the one before is decoded twice, to the same bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn characters_by_steps(text: &[u8], at: usize, out: &mut [u8]) -> usize {
    let last = (text.len() - STEP) / 4 * 4;
    let mut from = at.min(last);
    loop {
        let (Some(step), Some(room)) = (text[from..].first_chunk(), out[from / 4 * 3..].first_chunk_mut()) else {
            return from;
        };
        let good = decode_step(step, room);
        if good < STEP {
            return from + good;
        }
        if from == last {
            return characters_one_by_one(text, from + STEP, out);
        }
        from = last.min(from + STEP);
    }
}

/// Decodes thirty-two characters to twenty-four bytes, and eight that do not count. Says how many characters from the first on are
/// base64; any that is none is decoded as zeros.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn decode_step(text: &[u8; STEP], out: &mut [u8; STEP]) -> usize {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8,
        _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_max_epu8, _mm256_min_epu8,
        _mm256_movemask_epi8, _mm256_or_si256, _mm256_permutevar8x32_epi32, _mm256_set1_epi8, _mm256_set1_epi16,
        _mm256_set1_epi32, _mm256_setr_epi32, _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_storeu_si256,
    };
    /// By the high half of a character: the first and the last that is base64, and what makes a value of it. With 2 there is `/`
    /// alone, `+` is looked for on its own; where there are none, the first is after the last.
    const FIRST: [u8; 16] = *b"\xff\xff/0APap\xff\xff\xff\xff\xff\xff\xff\xff";
    const LAST: [u8; 16] = *b"\0\0/9OZoz\0\0\0\0\0\0\0\0";
    const ADDED: [u8; 16] = [0, 0, 16, 4, 191, 191, 185, 185, 0, 0, 0, 0, 0, 0, 0, 0];
    /// Three bytes of each four, the other way round.
    const ORDER: [u8; 16] = [2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, 128, 128, 128, 128];
    // SAFETY: sixteen bytes are there, and the load needs no alignment.
    let twice = |bytes: &[u8; 16]| _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) });
    // SAFETY: thirty-two bytes are there, and the load needs no alignment.
    let text = unsafe { _mm256_loadu_si256(text.as_ptr().cast()) };
    let half = _mm256_and_si256(_mm256_srli_epi16(text, 4), _mm256_set1_epi8(15));
    let plus = _mm256_cmpeq_epi8(text, _mm256_set1_epi8(b'+'.cast_signed()));
    let from = _mm256_cmpeq_epi8(_mm256_max_epu8(text, _mm256_shuffle_epi8(twice(&FIRST), half)), text);
    let to = _mm256_cmpeq_epi8(_mm256_min_epu8(text, _mm256_shuffle_epi8(twice(&LAST), half)), text);
    let good = _mm256_or_si256(_mm256_and_si256(from, to), plus);
    // `+` is 62 and would come out as 59.
    let values = _mm256_add_epi8(text, _mm256_shuffle_epi8(twice(&ADDED), half));
    let values = _mm256_add_epi8(values, _mm256_and_si256(plus, _mm256_set1_epi8(3)));
    let values = _mm256_and_si256(values, good);
    // Of four values of six bits one of 24: first two and two, then both.
    let twos = _mm256_maddubs_epi16(values, _mm256_set1_epi16(0x0140));
    let fours = _mm256_madd_epi16(twos, _mm256_set1_epi32(0x0001_1000));
    let threes = _mm256_shuffle_epi8(fours, twice(&ORDER));
    let joined = _mm256_permutevar8x32_epi32(threes, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7));
    // SAFETY: there is room for thirty-two bytes, and the store needs no alignment.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), joined) };
    (!_mm256_movemask_epi8(good)).trailing_zeros() as usize
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
        for length in [4, 31, 32, 33, 34, 35, 36, 50, 64] {
            for at in 0..length {
                for byte in 0..=255 {
                    let mut text = alphabet[64 - length..].to_vec();
                    text[at] = byte;
                    let (mut steps, mut singles) = ([0; 96], [0; 96]);
                    let read = characters(&text, 0, &mut steps);
                    assert_eq!(read, characters_one_by_one(&text, 0, &mut singles), "{byte} at {at} of {length}");
                    assert_eq!(read < length, value(text[at]).is_none(), "{byte} at {at} of {length}");
                    // With the byte that what is left over is a part of.
                    let end = read * 3 / 4 + usize::from(!read.is_multiple_of(4));
                    assert_eq!(steps[..end], singles[..end], "{byte} at {at} of {length}");
                    let mut decoded = STANDARD.decode(&text[..read / 4 * 4]).unwrap();
                    assert_eq!(steps[..decoded.len()], decoded);
                    // What is known of the text is not decoded again.
                    let known = read / 8 * 4;
                    decoded.truncate(known / 4 * 3);
                    decoded.resize(96, 0);
                    assert_eq!(characters(&text, known, &mut decoded), read, "{byte} at {at} of {length}");
                    assert_eq!(decoded[..end], singles[..end], "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn text_of_every_length_is_read_with_its_padding_and_nothing_else_is() {
        let bytes: Vec<u8> = (0..200_u8).map(|n| n.wrapping_mul(89)).collect();
        for length in 0..bytes.len() {
            let (held, text) = (&bytes[..length], STANDARD.encode(&bytes[..length]));
            for end in ["\"}", "\",\"p\":\"abc\"}"] {
                let json = format!("{{\"bytes\":\"{text}{end}");
                let mut chunk = Chunk::default();
                assert_eq!(chunk.usual(json.as_bytes()), Some(()), "{json}");
                assert_eq!(&chunk.bytes[..chunk.length], held, "{json}");
                for other in ["=", "==", "===", "A", "A=", "A==", "A===", "AA", "AA=", "AAA", "-", "\0", "}", "\""] {
                    let other = format!("{{\"bytes\":\"{text}{other}{end}");
                    let mut chunk = Chunk::default();
                    let expected = STANDARD.decode(&other[HEAD.len()..other.len() - end.len()]).ok();
                    let read = chunk.usual(other.as_bytes()).map(|()| chunk.bytes[..chunk.length].to_vec());
                    assert_eq!(read, expected, "{other}");
                }
            }
        }
    }
}
