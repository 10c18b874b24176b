//! CRC-32, as zlib has it, of what AWS event streams sum up: the eight bytes of two lengths, and messages of a few hundred.
//!
//! 1. Messages of one length that have the same headers begin alike, up to their payload. The sum of that beginning is known from
//!    the first of them, and so is that their prelude is right.
//! 2. What is left over of a step is added in one of many ways; a processor that guesses the way wrongly loses more time than the
//!    sum takes. So the known beginning ends a whole number of steps before the end.
//! 3. The rest of a short message is summed up here, where the processor can multiply two pairs of polynomials at once: the library
//!    does so only for long ones. Whatever else there is to sum up is the library's.
//!
//! No other checksum must be added here.

use crc32fast::Hasher;

use super::eventstream::PRELUDE;

/// The bytes of a step.
const STEP: usize = 64;
/// Beginnings that are remembered, by their messages' length: deltas are spread over a hundred lengths.
const REMEMBERED: usize = 128;

/// Sums up messages.
#[derive(Debug, Default)]
pub(super) struct Checksum {
    /// None of them, or places for all.
    beginnings: Vec<Option<Beginning>>,
}

#[derive(Clone, Debug)]
struct Beginning {
    /// Of its messages. It tells their length, and that of their headers.
    prelude: [u8; PRELUDE],
    sum: u32,
}

impl Checksum {
    /// The sum of a message, of which nothing is known.
    pub(super) fn of(message: &[u8]) -> u32 {
        crc32fast::hash(message)
    }

    /// Whether a message with this prelude was summed up since [`Checksum::forget`].
    #[inline]
    pub(super) fn knows(&self, prelude: &[u8; PRELUDE]) -> bool {
        matches!(self.beginnings.get(place(prelude)), Some(Some(known)) if known.prelude == *prelude)
    }

    /// The sum of a message whose beginning, up to `payload`, is that of all others of the same prelude since
    /// [`Checksum::forget`]. Its prelude was judged.
    #[inline]
    pub(super) fn of_repeated(&mut self, message: &[u8], payload: usize) -> u32 {
        let split = message.len().checked_sub((message.len() - payload).next_multiple_of(STEP));
        let Some((split, prelude)) = split.zip(message.first_chunk()) else { return Checksum::of(message) };
        let (beginning, rest) = message.split_at(split);
        let known = match self.beginnings.get(place(prelude)) {
            Some(Some(known)) if known.prelude == *prelude => known,
            _ => self.remember(*prelude, beginning),
        };
        continued(known.sum, rest)
    }

    /// Messages begin otherwise from here on.
    pub(super) fn forget(&mut self) {
        self.beginnings.clear();
    }

    #[cold]
    fn remember(&mut self, prelude: [u8; PRELUDE], beginning: &[u8]) -> &Beginning {
        if self.beginnings.is_empty() {
            self.beginnings.resize(REMEMBERED, None);
        }
        self.beginnings[place(&prelude)].insert(Beginning { prelude, sum: Checksum::of(beginning) })
    }
}

/// The place of a beginning: the last bits of its messages' length.
#[inline]
fn place(prelude: &[u8; PRELUDE]) -> usize {
    usize::from(prelude[3]) % REMEMBERED
}

/// The sum of what has the sum `sum` and then `rest`.
#[inline]
fn continued(sum: u32, rest: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("pclmulqdq")
        && std::arch::is_x86_feature_detected!("vpclmulqdq")
        // SAFETY: the processor has what it asks for.
        && let Some(sum) = unsafe { folded(sum, rest) }
    {
        return sum;
    }
    let mut hasher = Hasher::new_with_initial(sum);
    hasher.update(rest);
    hasher.finalize()
}

/// As [`continued`], for a `rest` of two to sixteen times thirty-two bytes.
///
/// Bytes are the coefficients of a polynomial, first ones highest, and the sum is what is left of it modulo that of CRC-32. So each
/// thirty-two bytes are multiplied with what is left of the power of x that they stand before the last thirty-two, sixteen and
/// sixteen, and added to these; then the first sixteen are to the second, and so on by halves.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
#[inline]
fn folded(sum: u32, rest: &[u8]) -> Option<u32> {
    use std::arch::x86_64::{
        __m256i, _mm_and_si128, _mm_clmulepi64_si128, _mm_cvtsi32_si128, _mm_cvtsi128_si32, _mm_set_epi64x,
        _mm_srli_epi64, _mm_srli_si128, _mm_xor_si128, _mm256_castsi256_si128, _mm256_clmulepi64_epi128,
        _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_set_epi64x, _mm256_xor_si256, _mm256_zextsi128_si256,
    };
    // SAFETY: thirty-two bytes are there, and the load needs no alignment.
    let load = |bytes: &[u8; 32]| unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    let moved = |x: __m256i, &(low, high): &(i64, i64)| {
        let by = _mm256_set_epi64x(high, low, high, low);
        _mm256_xor_si256(_mm256_clmulepi64_epi128(x, by, 0x00), _mm256_clmulepi64_epi128(x, by, 0x11))
    };
    let ([first, between @ .., last], []) = rest.as_chunks::<32>() else { return None };
    let (furthest, folds) = FOLDS.get(..=between.len())?.split_last()?;
    let before = _mm256_zextsi128_si256(_mm_cvtsi32_si128((!sum).cast_signed()));
    let mut x = _mm256_xor_si256(load(last), moved(_mm256_xor_si256(load(first), before), furthest));
    for (bytes, by) in between.iter().rev().zip(folds) {
        x = _mm256_xor_si256(x, moved(load(bytes), by));
    }
    let (x, end) = (_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    let by = _mm_set_epi64x(const { left_of_power(128 - 32) }, const { left_of_power(128 + 32) });
    let x = _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11));
    let x = _mm_xor_si128(x, end);
    let by = _mm_set_epi64x(const { left_of_power(64) }, const { left_of_power(64 + 32) });
    let x = _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_srli_si128(x, 8));
    let word = _mm_set_epi64x(0, 0xffff_ffff);
    let x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, word), by, 0x10), _mm_srli_si128(x, 4));
    // How often the polynomial goes into what is left, which is then taken away (Barrett's way).
    let by = _mm_set_epi64x(QUOTIENT, POLYNOMIAL << 1 | 1);
    let times = _mm_clmulepi64_si128(_mm_and_si128(x, word), by, 0x10);
    let x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(times, word), by, 0x00), x);
    Some(!_mm_cvtsi128_si32(_mm_srli_epi64(x, 32)).cast_unsigned())
}

/// The polynomial of CRC-32 without its highest power, the lowest bit its highest coefficient: as are all others here.
const POLYNOMIAL: i64 = 0xedb8_8320;
/// How often it goes into the 64th power of x.
#[cfg(target_arch = "x86_64")]
const QUOTIENT: i64 = 0x1_f701_1641;

/// What moves both halves of sixteen bytes on by thirty-two bytes, by twice as many, and so on.
#[cfg(target_arch = "x86_64")]
static FOLDS: [(i64, i64); 15] = {
    let (mut folds, mut i) = ([(0, 0); 15], 0);
    while i < folds.len() {
        let bits = 256 * (i as u32 + 1);
        folds[i] = (left_of_power(bits + 32), left_of_power(bits - 32));
        i += 1;
    }
    folds
};

/// What is left of a power of x modulo the polynomial, a bit further up: products of such numbers come out a bit too low.
#[cfg(target_arch = "x86_64")]
const fn left_of_power(mut power: u32) -> i64 {
    let mut left = 0x8000_0000;
    while power > 0 {
        left = if left & 1 == 0 { left >> 1 } else { left >> 1 ^ POLYNOMIAL };
        power -= 1;
    }
    left << 1
}

/// The sum of eight bytes, by a table for each of them: for so few a call costs more than the sum.
#[inline]
pub(super) fn of_eight(bytes: [u8; 8]) -> u32 {
    // The sum begins with ones: that is as if the first four bytes were the other way round.
    let turned = (u64::from_ne_bytes(bytes) ^ u64::from_ne_bytes([255, 255, 255, 255, 0, 0, 0, 0])).to_ne_bytes();
    !turned.iter().zip(&AFTER).fold(0, |sum, (&byte, table)| sum ^ table[usize::from(byte)])
}

/// What a byte adds to the sum of eight, by its place in them.
static AFTER: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut place) = (byte as u32, 8);
        while place > 0 {
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 1 == 0 { sum >> 1 } else { sum >> 1 ^ POLYNOMIAL as u32 };
                bit += 1;
            }
            place -= 1;
            tables[place][byte] = sum;
        }
        byte += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes without a pattern.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 7u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn messages_of_every_length_are_summed_up_as_the_library_does() {
        let (mut checksum, mut bytes) = (Checksum::default(), noise(1000));
        for payload in [0, 12, 60, 64, 75, 100, 130] {
            checksum.forget();
            assert!(!checksum.knows(&[0; PRELUDE]));
            // Twice: the beginning is new, then known; the payload is another one each time.
            for length in (payload..600).chain(payload..600) {
                let message = &mut bytes[..length];
                message[payload..].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3).wrapping_add(1));
                if let Some(prelude) = message.first_chunk_mut::<PRELUDE>() {
                    *prelude = [7; PRELUDE];
                    prelude[..4].copy_from_slice(&(length as u32).to_be_bytes());
                }
                assert_eq!(checksum.of_repeated(message, payload), Checksum::of(message), "{length}, {payload}");
                let prelude = message.first_chunk().copied().unwrap_or_default();
                // What is summed up whole is not remembered.
                let split = (length - payload).next_multiple_of(STEP) <= length;
                assert_eq!(checksum.knows(&prelude), split && length >= PRELUDE, "{length}, {payload}");
            }
            bytes[0] ^= 1;
        }
    }

    #[test]
    fn what_goes_on_is_summed_up_as_the_library_does_whatever_its_length() {
        let bytes = noise(2000);
        for beginning in [0, 1, 12, 100] {
            let (beginning, rest) = bytes.split_at(beginning);
            for length in (0..rest.len()).step_by(STEP).chain(0..700) {
                let whole = Checksum::of(&bytes[..beginning.len() + length]);
                assert_eq!(continued(Checksum::of(beginning), &rest[..length]), whole, "{length}");
            }
        }
        // Each bit counts.
        for length in [64, 128, 192, 512, 576] {
            let (mut rest, sum) = (vec![0; length], continued(7, &vec![0; length]));
            for bit in 0..8 * length {
                rest[bit / 8] = 1 << (bit % 8);
                let mut hasher = Hasher::new_with_initial(7);
                hasher.update(&rest);
                assert_eq!(continued(7, &rest), hasher.finalize(), "{bit} of {length}");
                assert_ne!(continued(7, &rest), sum, "{bit} of {length}");
                rest[bit / 8] = 0;
            }
        }
    }

    #[test]
    fn eight_bytes_are_summed_up_as_the_library_does() {
        let bytes = noise(1 << 12);
        for eight in bytes.windows(8).filter_map(<[u8]>::first_chunk) {
            assert_eq!(of_eight(*eight), Checksum::of(eight));
        }
        assert_eq!(of_eight([0; 8]), Checksum::of(&[0; 8]));
    }
}
