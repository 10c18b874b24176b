//! Signatures that this gateway wrapped, in the slot of a Gemini client: `thoughtSignature`, which holds bytes, so what is
//! wrapped stands there in base64.
//!
//! 1. A client's library may write base64 in either alphabet, with or without padding.
//! 2. What is another family's must not reach Gemini: a thought that has such a signature goes whole, any other part loses
//!    the signature alone.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use memchr::memmem;

use super::super::error::Res;
use super::super::scrub::Scrubbed;
use crate::json::{Kind, Scanner};
use crate::loss::{Loss, LossAction};

const ANY_PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING);
const SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, ANY_PADDING);

/// Every text that begins with `hr1.` does so in base64.
const MARK: &[u8] = b"\"aHIxL";

/// What was wrapped, out of a signature's base64; `None` where it is the vendor's own.
pub(super) fn wrapped(signature: &str) -> Option<String> {
    let bytes = PLAIN.decode(signature).or_else(|_| SAFE.decode(signature)).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    text.starts_with("hr1.").then_some(text)
}

/// What has to be cut out of a Gemini body before Gemini gets it.
pub(in super::super) fn scrub(body: &[u8]) -> Res<Option<Scrubbed>> {
    if memmem::find(body, MARK).is_none() {
        return Ok(None);
    }
    let mut cuts = Vec::new();
    let mut s = Scanner::new(body);
    if s.kind()? != Kind::Object {
        return Ok(None);
    }
    let mut items = s.object()?;
    while let Some(key) = s.key(&mut items)? {
        if !key.is("contents") || s.kind()? != Kind::Array {
            s.skip()?;
            continue;
        }
        let mut contents = s.array()?;
        while s.item(&mut contents)? {
            let Some(mut members) = s.object_or_skip()? else { continue };
            while let Some(key) = s.key(&mut members)? {
                if !key.is("parts") || s.kind()? != Kind::Array {
                    s.skip()?;
                    continue;
                }
                parts(body, &mut s, &mut cuts)?;
            }
        }
    }
    if cuts.is_empty() {
        return Ok(None);
    }
    let losses = vec![Loss { path: "contents[].parts[].thoughtSignature".to_owned(), action: LossAction::Dropped }];
    Ok(Some(Scrubbed { cuts, losses, thinking_goes: false }))
}

fn parts(body: &[u8], s: &mut Scanner<'_>, cuts: &mut Vec<Range<usize>>) -> Res<()> {
    let mut items = s.array()?;
    let mut all: Vec<(Range<usize>, Option<Cut>)> = Vec::new();
    while s.item(&mut items)? {
        s.kind()?;
        let start = s.pos();
        let cut = part(s)?;
        all.push((start..s.pos(), cut));
    }
    let mut stays = false;
    for (at, (range, cut)) in all.iter().enumerate() {
        match cut {
            // With the comma before it, or, where no part that stays is there, with the one after it.
            Some(Cut::Part) if stays => cuts.push(all[at - 1].0.end..range.end),
            Some(Cut::Part) => cuts.push(range.start..all.get(at + 1).map_or(range.end, |(next, _)| next.start)),
            Some(Cut::Member(member)) => {
                stays = true;
                cuts.push(trimmed(body, member.clone()));
            }
            None => stays = true,
        }
    }
    Ok(())
}

enum Cut {
    Part,
    Member(Range<usize>),
}

/// Whether a part has a signature that is not Gemini's, and what has to go for that.
fn part(s: &mut Scanner<'_>) -> Res<Option<Cut>> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let (mut thought, mut found) = (false, None);
    loop {
        let before = s.pos();
        let Some(key) = s.key(&mut members)? else { break };
        if key.is("thoughtSignature") || key.is("thought_signature") {
            let foreign = s.string_or_skip()?.is_some_and(|text| wrapped(&text.decode()).is_some());
            if foreign {
                found = Some(before..s.pos());
            }
        } else {
            let raw = s.skip()?;
            thought |= key.is("thought") && raw == b"true";
        }
    }
    Ok(found.map(|range| if thought { Cut::Part } else { Cut::Member(range) }))
}

/// A member's range with the comma on one side of it. `range` starts behind the member before it.
fn trimmed(body: &[u8], range: Range<usize>) -> Range<usize> {
    let lead = body[range.start..].iter().take_while(|b| b.is_ascii_whitespace()).count();
    if body.get(range.start + lead) == Some(&b',') {
        return range;
    }
    let after = body[range.end..].iter().take_while(|b| b.is_ascii_whitespace()).count();
    if body.get(range.end + after) == Some(&b',') { range.start..range.end + after + 1 } else { range }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    fn scrubbed(parts: &str) -> String {
        let body = format!(r#"{{"contents":[{{"role":"model","parts":[{parts}]}}]}}"#);
        let mut out = body.clone();
        if let Some(found) = scrub(body.as_bytes()).unwrap() {
            for cut in found.cuts.into_iter().rev() {
                out.replace_range(cut, "");
            }
        }
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["contents"][0]["parts"].to_string()
    }

    #[test]
    fn foreign_signatures_go_and_the_vendors_own_stay() {
        let text = "hr1.anthropic_messages.signature.p.c2ln";
        for ours in [STANDARD.encode(text), URL_SAFE_NO_PAD.encode(text)] {
            let thought = format!(r#"{{"text":"hm","thought":true,"thoughtSignature":"{ours}"}}"#);
            let call = format!(r#"{{"thoughtSignature" : "{ours}" , "functionCall":{{"name":"f"}}}}"#);
            let last = format!(r#"{{"text":"x", "thoughtSignature":"{ours}"}}"#);
            let own = r#"{"text":"y","thoughtSignature":"c2ln"}"#;
            assert_eq!(scrubbed(&format!("{thought},{own}")), format!("[{own}]"));
            assert_eq!(scrubbed(&format!("{own}, {thought}")), format!("[{own}]"));
            assert_eq!(scrubbed(&format!("{thought},{thought}")), "[]");
            assert_eq!(scrubbed(&format!("{own},{thought},{thought},{own}")), format!("[{own},{own}]"));
            assert_eq!(scrubbed(&format!("{thought},{thought},{own},{thought}")), format!("[{own}]"));
            assert_eq!(scrubbed(&call), r#"[{"functionCall":{"name":"f"}}]"#);
            assert_eq!(scrubbed(&format!("{last},{thought}")), r#"[{"text":"x"}]"#);
        }
        assert_eq!(scrub(br#"{"contents":[{"parts":[{"text":"aHIxL"}]}]}"#).unwrap().map(|s| s.cuts.len()), None);
    }
}
