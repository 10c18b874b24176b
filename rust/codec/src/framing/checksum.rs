//! CRC-32, as zlib has it, of what AWS event streams sum up: the eight bytes of two lengths, and messages of a few hundred.
//!
//! 1. Messages of one length that have the same headers begin alike, up to their payload. The sum of that beginning is known from
//!    the first of them, and so is that their prelude is right.
//! 2. The library adds 64 bytes a step, and what is left over in one of many ways; a processor that guesses the way wrongly loses
//!    more time than the sum takes. So the known beginning ends a whole number of steps before the end.
//!
//! No other checksum must be added here.

use crc32fast::Hasher;

use super::eventstream::PRELUDE;

/// The bytes that the library adds at once.
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
    /// It has taken the beginning. It is kept whole, since making one asks the processor what it can do.
    hasher: Hasher,
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
        let mut hasher = known.hasher.clone();
        hasher.update(rest);
        hasher.finalize()
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
        let mut hasher = Hasher::new();
        hasher.update(beginning);
        self.beginnings[place(&prelude)].insert(Beginning { prelude, hasher })
    }
}

/// The place of a beginning: the last bits of its messages' length.
#[inline]
fn place(prelude: &[u8; PRELUDE]) -> usize {
    usize::from(prelude[3]) % REMEMBERED
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
                sum = if sum & 1 == 0 { sum >> 1 } else { sum >> 1 ^ 0xedb8_8320 };
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
    fn eight_bytes_are_summed_up_as_the_library_does() {
        let bytes = noise(1 << 12);
        for eight in bytes.windows(8).filter_map(<[u8]>::first_chunk) {
            assert_eq!(of_eight(*eight), Checksum::of(eight));
        }
        assert_eq!(of_eight([0; 8]), Checksum::of(&[0; 8]));
    }
}
