//! Long arrays of JSON numbers as packed floats, and back: vectors that nobody has to hold number by number.
//!
//! 1. [`pack`] changes arrays of [`PACKED_LEAST`] or more numbers and nothing else: what is no such array keeps its
//!    bytes, also where the whole is no JSON.
//! 2. A number goes to the nearest double and from there to the nearest float, as every reader of JSON does it. One
//!    that no float can hold leaves its array as it is.
//! 3. Linear in the body's length: an array is tried once, and one that is none is left after its first other byte.
//!
//! What the numbers mean must not be added here.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memchr2;

use crate::limits::PACKED_LEAST;

/// The same JSON, in which each long array of numbers is a string: base64 of little-endian floats.
#[must_use]
pub fn pack(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() / 2);
    let mut floats = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < body.len() {
        match body[at] {
            b'"' => at = after_string(body, at + 1),
            b'[' => {
                if let Some(end) = numbers(body, at + 1, &mut floats) {
                    out.extend_from_slice(&body[from..at]);
                    out.push(b'"');
                    out.extend_from_slice(STANDARD.encode(&floats).as_bytes());
                    out.push(b'"');
                    (from, at) = (end, end);
                } else {
                    at += 1;
                }
            }
            _ => at += 1,
        }
    }
    out.extend_from_slice(&body[from..]);
    out
}

/// Little-endian floats as a JSON array: each in the fewest digits that are it. What is no number is `null`.
///
/// Bytes that are less than a float are left out.
#[must_use]
pub fn array(floats: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(floats.len() * 3 + 2);
    out.push('[');
    for bytes in floats.chunks_exact(4) {
        if out.len() > 1 {
            out.push(',');
        }
        // Chunks of four have four bytes.
        let value = f32::from_le_bytes(bytes.try_into().unwrap_or_default());
        if value.is_finite() {
            // A `String` takes whatever is written.
            let _ = write!(out, "{value:?}");
        } else {
            out.push_str("null");
        }
    }
    out.push(']');
    out.into_bytes()
}

/// The byte after the string whose first byte is at `at`.
fn after_string(body: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr2(b'"', b'\\', &body[at..]) {
        at += found + 1;
        if body[at - 1] == b'"' {
            return at;
        }
        at = (at + 1).min(body.len());
    }
    body.len()
}

/// Fills `floats` from the array whose first byte after the bracket is at `at`, and says where it ends. `None`: it is
/// short, or holds anything but numbers.
fn numbers(body: &[u8], mut at: usize, floats: &mut Vec<u8>) -> Option<usize> {
    floats.clear();
    loop {
        at = skip_space(body, at);
        let start = at;
        while body.get(at).is_some_and(|b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            at += 1;
        }
        floats.extend_from_slice(&float(&body[start..at])?.to_le_bytes());
        at = skip_space(body, at);
        match body.get(at)? {
            b',' => at += 1,
            b']' if floats.len() >= 4 * PACKED_LEAST => return Some(at + 1),
            _ => return None,
        }
    }
}

fn skip_space(body: &[u8], mut at: usize) -> usize {
    while body.get(at).is_some_and(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// A number of JSON's grammar that a float can hold.
fn float(text: &[u8]) -> Option<f32> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let well = match digits {
        [b'0', b'0'..=b'9', ..] | [] => false,
        [first, .., last] => first.is_ascii_digit() && last.is_ascii_digit(),
        [only] => only.is_ascii_digit(),
    };
    // A point has digits on both sides; the standard library would do without those before an exponent.
    let bare = digits.windows(2).any(|pair| pair[0] == b'.' && !pair[1].is_ascii_digit());
    if !well || bare {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "the nearest float is what is wanted")]
    let value = value as f32;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(numbers: &[&str]) -> String {
        let every: Vec<&str> = numbers.iter().copied().cycle().take(PACKED_LEAST.max(numbers.len())).collect();
        format!("[{}]", every.join(" ,\n"))
    }

    fn packed(text: &str) -> String {
        String::from_utf8(pack(text.as_bytes())).unwrap()
    }

    #[test]
    fn a_long_array_of_numbers_becomes_floats_and_the_rest_stays() {
        let numbers = ["0.1", "-2", "3e-7", "0", "-0.5E+2", "10"];
        let body = format!("{{\"a\": \"[1,2\\\"\", \"v\": {}, \"s\": [1, 2], \"n\": 5}}", long(&numbers));
        let made = packed(&body);
        let (before, rest) = made.split_once("\"v\": \"").unwrap();
        let (text, after) = rest.split_once('"').unwrap();
        assert_eq!((before, after), ("{\"a\": \"[1,2\\\"\", ", ", \"s\": [1, 2], \"n\": 5}"));
        let floats = STANDARD.decode(text).unwrap();
        let values: Vec<f32> = floats.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        assert_eq!(values[..6], [0.1, -2.0, 3e-7, 0.0, -50.0, 10.0]);
        assert_eq!(values.len(), PACKED_LEAST);
    }

    #[test]
    fn what_is_no_array_of_floats_keeps_its_bytes() {
        let mut ends = vec!["1e39", "null", "\"x\"", "01", "1.", ".5", "+1", "-", "1e", "[1]", "true", "1.e5", "--1"];
        ends.push("");
        for end in ends {
            let numbers: Vec<&str> = vec!["1"; PACKED_LEAST];
            let body = format!("[{},{end}]", numbers.join(","));
            assert_eq!(packed(&body), body, "{end}");
        }
        for body in ["", "[", "[1", "\"", "\"\\", "{\"a\":\"\\\\\"}", "[[[[[", "[1,2,3]", "\\[1"] {
            assert_eq!(packed(body), body);
        }
        let open = format!("[{}", vec!["1"; 100].join(","));
        assert_eq!(packed(&open), open);
    }

    #[test]
    fn floats_are_written_in_the_fewest_digits_that_are_them() {
        let values = [0.1f32, -2.0, 3e-7, 1.0 / 3.0, f32::MIN_POSITIVE, f32::MAX, f32::NAN, f32::INFINITY, -0.0];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let text = String::from_utf8(array(&bytes)).unwrap();
        assert_eq!(text, "[0.1,-2.0,3e-7,0.33333334,1.1754944e-38,3.4028235e38,null,null,-0.0]");
        assert_eq!(array(&[]), b"[]");
        assert_eq!(array(&[0, 0, 0, 0, 1]), b"[0.0]");
        let finite: Vec<u8> = [0.1f32, -2.0, 3e-7].iter().cycle().take(99).flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(pack(&array(&finite)), format!("\"{}\"", STANDARD.encode(&finite)).as_bytes());
    }

    #[test]
    fn hostile_nesting_takes_time_in_proportion() {
        let deep = "[".repeat(1 << 20);
        assert_eq!(pack(deep.as_bytes()).len(), deep.len());
        let tried = "[1,".repeat(1 << 18);
        assert_eq!(pack(tried.as_bytes()).len(), tried.len());
    }
}
