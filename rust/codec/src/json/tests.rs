//! The scanner: strict, and right at every edge of its steps.

use super::*;

#[test]
fn members_are_pulled_and_the_rest_is_skipped() {
    let text = br#" {"a": [1, {"b": null}], "long name here, past sixteen bytes": "v\u00e9", "n": -1.5e3 } "#;
    let mut s = Scanner::new(text);
    let mut items = s.object().unwrap();
    let mut seen = Vec::new();
    while let Some(key) = s.key(&mut items).unwrap() {
        seen.push((key.decode().into_owned(), String::from_utf8_lossy(s.skip().unwrap()).into_owned()));
    }
    assert!(s.at_end());
    assert_eq!(seen[0], ("a".into(), r#"[1, {"b": null}]"#.into()));
    assert_eq!(seen[1].1, r#""v\u00e9""#);
    assert_eq!(seen[2].1, "-1.5e3");
}

#[test]
fn what_is_not_json_is_refused_also_inside_skipped_values() {
    for bad in [
        "",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "01",
        "1.",
        "1e",
        "-",
        "tru",
        "nul",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "[1 2]",
        "{1:2}",
        "\"abc",
        "[}",
        "{]",
        "[[1,2]",
        "{\"a\":}",
        "[,1]",
        "+1",
        "'a'",
        "{,}",
        "[1]]",
    ] {
        assert!(Scanner::only(bad.as_bytes()).is_err(), "{bad} was accepted");
        let nested = format!("{{\"k\":{bad}}}");
        assert!(Scanner::only(nested.as_bytes()).is_err(), "{nested} was accepted");
    }
    let mut s = Scanner::new(b"{\"a\":1,}");
    let mut items = s.object().unwrap();
    s.key(&mut items).unwrap();
    s.skip().unwrap();
    assert!(s.key(&mut items).is_err());
}

#[test]
fn good_json_is_accepted() {
    for good in
        ["0", "-0.0e-1", "[]", "{}", "[[],{}]", "\"\"", "true", "[1,2 , 3]", "{\"a\":{\"b\":[\"c\"]}}", "\"\\ud800\""]
    {
        assert!(Scanner::only(good.as_bytes()).is_ok(), "{good} was refused");
    }
}

#[test]
fn nesting_is_bounded_and_costs_no_stack() {
    let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert!(Scanner::only(deep(MAX_DEPTH).as_bytes()).is_ok());
    assert_eq!(Scanner::only(deep(MAX_DEPTH + 1).as_bytes()).unwrap_err().what, "less nesting");
    assert!(Scanner::only("[".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn ascii_and_escapes_are_told_apart_at_every_length() {
    for n in 0..70 {
        let pad = "x".repeat(n);
        for (tail, escaped, ascii) in
            [("", false, true), ("é", false, false), ("\\n", true, true), ("\\né", true, false)]
        {
            let text = format!("\"{pad}{tail}\"");
            let l = Scanner::new(text.as_bytes()).string().unwrap();
            assert_eq!((l.escaped(), l.ascii(), l.raw.len()), (escaped, ascii, text.len() - 2), "{text}");
            // What lies behind the closing quote must not count.
            let followed = format!("{text}é\\");
            let l = Scanner::new(followed.as_bytes()).string().unwrap();
            assert_eq!((l.escaped(), l.ascii()), (escaped, ascii), "{followed}");
        }
    }
}

#[test]
fn counts_are_whole_and_exact() {
    assert_eq!(count(b"42"), Some(42));
    assert_eq!(count(b"1e3"), Some(1000));
    assert_eq!(count(b"7.0"), Some(7));
    assert_eq!(count(b"7.5"), None);
    assert_eq!(count(b"-1"), None);
    assert_eq!(count(b"18446744073709551616"), None);
}
