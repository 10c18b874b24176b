//! How much work a JSON text is for a parser that makes objects of all of it.
//!
//! It is judged before such a parser sees it, by what stands outside of strings. Text that is no JSON may weigh anything.

use memchr::memchr2;

/// Whether a text weighs more than `most`: an array, an object and a key weigh [`HEAVY`], any other value 1.
#[must_use]
pub fn is_heavier(text: &[u8], most: usize) -> bool {
    if text.len() <= most / HEAVY {
        return false;
    }
    let (mut weight, mut at) = (0, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(text, at),
            b'[' | b'{' | b':' => weight += HEAVY,
            b',' => weight += 1,
            _ => continue,
        }
        if weight > most {
            return true;
        }
    }
    false
}

/// Behind the quote that ends the string which begins at `at`; the text's end where there is none.
fn string_end(text: &[u8], mut at: usize) -> usize {
    loop {
        let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) else { return text.len() };
        at += found;
        if text[at] == b'"' {
            return at + 1;
        }
        // Escapes stand together where there are many.
        while text.get(at) == Some(&b'\\') {
            at += 2;
        }
    }
}

/// Beside a number, what an empty array and a key with its entry cost a parser.
const HEAVY: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The least weight that a text does not exceed, found without the shortcut for short texts.
    fn weight(text: &str) -> usize {
        let long = format!("{text}{}", " ".repeat(1 << 12));
        (0..1 << 10).find(|most| !is_heavier(long.as_bytes(), *most)).unwrap()
    }

    #[test]
    fn what_stands_outside_of_strings_weighs() {
        for (text, expected) in [
            ("", 0),
            ("1", 0),
            ("[]", 4),
            ("[1, 2,3]", 6),
            ("[[],[]]", 13),
            (r#"{"a": 1, "b": []}"#, 4 + 4 + 1 + 4 + 4),
            (r#"["[,:{", "\\", "\"[[[", "\\\"["]"#, 4 + 3),
            (r#"["an open one [[[["#, 4),
            (r#"["\"#, 4),
        ] {
            assert_eq!(weight(text), expected, "{text}");
        }
    }

    #[test]
    fn a_short_text_is_never_heavy() {
        assert!(!is_heavier(&[b'['; 25], 100));
        assert!(is_heavier(&[b'['; 26], 100));
    }
}
