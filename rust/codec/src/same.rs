//! Comparing short byte strings without a call: most of what a frame has in common with the one before it is short.
//!
//! Nothing that knows what the bytes mean must be added here.

/// Whether `bytes` begins with `known`.
#[expect(clippy::inline_always, reason = "measured: a call is what this avoids")]
#[inline(always)]
pub(crate) fn begins(bytes: &[u8], known: &[u8]) -> bool {
    let Some(head) = bytes.get(..known.len()) else { return false };
    match known.len() {
        33.. => head == known,
        16.. => ends_agree::<16>(head, known),
        8.. => ends_agree::<8>(head, known),
        4.. => ends_agree::<4>(head, known),
        _ => head.iter().eq(known),
    }
}

/// How many bytes two strings have in common at their beginning.
#[inline]
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    let (steps, others) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
    let at = 16 * steps.iter().zip(others).take_while(|(x, y)| x == y).count();
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

/// Whether two strings of one length, which is at least `N` and at most twice that, are equal: their first `N` bytes and their last.
#[inline]
fn ends_agree<const N: usize>(a: &[u8], b: &[u8]) -> bool {
    a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
}

#[cfg(test)]
mod tests {
    use super::{begins, common};

    #[test]
    fn every_byte_of_every_length_counts() {
        let known: Vec<u8> = (0..70).collect();
        for length in 0..known.len() {
            let known = &known[..length];
            for more in [0, 1, 40] {
                let mut bytes = known.to_vec();
                bytes.resize(length + more, b'x');
                assert!(begins(&bytes, known), "{length} and {more}");
                assert_eq!((common(&bytes, known), common(known, &bytes)), (length, length));
                for at in 0..length {
                    bytes[at] ^= 1;
                    assert!(!begins(&bytes, known), "{length} and {more}, other at {at}");
                    assert_eq!(common(&bytes, known), at);
                    bytes[at] ^= 1;
                }
            }
            assert!(length == 0 || !begins(&known[..length - 1], known), "{length}, cut");
        }
    }
}
