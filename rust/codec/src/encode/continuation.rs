//! Continuations across protocols: `hr1.FAMILY.FORM.PROVIDER.BASE64URL`.
//!
//! A provider's opaque state (a thinking block's signature, encrypted reasoning) has to come back to the same
//! provider row on the next turn, and the gateway stores nothing. So it travels in the opaque slot of the
//! protocol that the client speaks, wrapped in this form, and the request's translation unwraps it.
//!
//! 1. Same family on both sides: the data passes as it is, in its own slot. Only a foreign one is wrapped.
//! 2. The slots, one per client protocol:
//!
//!    | client | slot |
//!    |---|---|
//!    | Messages | `signature` of the `thinking` block it belongs to (empty text where a signature came without any); everything else is `data` of a `redacted_thinking` block of its own |
//!    | Responses | `encrypted_content` of the `reasoning` item it belongs to, else of a `reasoning` item of its own |
//!    | Gemini | `thoughtSignature` of a thought, which may have no text, or of the call it belongs to; in base64, as the slot demands |
//!    | Chat | an entry of `reasoning_details` with an integer `index`: `{"type":"reasoning.text","text":TEXT,"signature":WRAPPED}` for a signature of a wire that is known to sign, with the text that it signs (streamed in fragments of one index, as the vendors do that sign), else `{"type":"reasoning.encrypted","data":WRAPPED}`, with the call's `id` where it belongs to a call |
//!
//! 3. What belongs to a call stands directly before that call where the slot has an order, and says so by its form
//!    (`thought_signature`).
//! 4. PROVIDER is empty where the encoder was not told the row: such data is given back to nobody in particular.
//!
//! 5. Readable reasoning that no state belongs to is what its provider goes on from, and clients of Responses need not give
//!    it back. So where that provider wants it back, it stands in the item's `encrypted_content` too, as a list of JSON in
//!    the form `text`: [`wrap_texts`].
//!
//! Nothing here may look into the data.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::event::{ContinuationForm, Protocol};
use crate::json::{Scan, Scanner};

const MARK: &str = "hr1.";

/// In place of a form's code, for readable reasoning.
const TEXTS: &str = "text";

/// What a wrapped continuation holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwrapped<'a> {
    pub family: Protocol,
    pub form: ContinuationForm,
    /// The provider row that it may go back to; empty where the encoder was not told.
    pub provider: &'a str,
    pub data: String,
}

/// Wraps `data` for a client of another family. `provider` is a row's id, which holds no dot.
#[must_use]
pub fn wrap(family: Protocol, form: ContinuationForm, provider: Option<&str>, data: &str) -> String {
    wrapped(family, form.code(), provider, data.as_bytes())
}

/// Wraps readable reasoning: `texts` are the parts of a reasoning item's content, one JSON object after another, with
/// commas.
#[must_use]
pub(super) fn wrap_texts(family: Protocol, provider: Option<&str>, texts: &[u8]) -> String {
    wrapped(family, TEXTS, provider, &[b"[", texts, b"]"].concat())
}

fn wrapped(family: Protocol, form: &str, provider: Option<&str>, data: &[u8]) -> String {
    let provider = provider.unwrap_or_default();
    let mut out = String::with_capacity(MARK.len() + 64 + provider.len() + data.len().div_ceil(3) * 4);
    out.push_str(MARK);
    out.push_str(family.name());
    out.push('.');
    out.push_str(form);
    out.push('.');
    out.push_str(provider);
    out.push('.');
    URL_SAFE_NO_PAD.encode_string(data, &mut out);
    out
}

/// Who made a call of Responses, as JSON, where this is such data.
#[must_use]
pub fn caller(data: &str) -> Option<&str> {
    let mut s = Scanner::new(data.as_bytes());
    let mut members = s.object_or_skip().ok()??;
    let mut found = None;
    while let Some(key) = s.key(&mut members).ok()? {
        let value = s.skip().ok()?;
        if key.is("caller") && value.starts_with(b"{") {
            found = std::str::from_utf8(value).ok();
        }
    }
    found
}

/// Readable reasoning that was wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwrappedTexts<'a> {
    pub family: Protocol,
    pub provider: &'a str,
    pub texts: Vec<String>,
}

/// The inverse of [`wrap_texts`]; `None` for whatever is not one of those, whole.
#[must_use]
pub fn unwrap_texts(text: &str) -> Option<UnwrappedTexts<'_>> {
    let mut parts = text.strip_prefix(MARK)?.splitn(4, '.');
    let family = Protocol::from_name(parts.next()?)?;
    if parts.next()? != TEXTS {
        return None;
    }
    let provider = parts.next()?;
    let data = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
    Some(UnwrappedTexts { family, provider, texts: texts(&data).ok()? })
}

/// The texts of a list of objects.
fn texts(json: &[u8]) -> Scan<Vec<String>> {
    let mut out = Vec::new();
    let mut s = Scanner::new(json);
    let mut parts = s.array()?;
    while s.item(&mut parts)? {
        let mut members = s.object()?;
        while let Some(key) = s.key(&mut members)? {
            if key.is("text") {
                out.push(s.string()?.decode().into_owned());
            } else {
                s.skip()?;
            }
        }
    }
    s.end()?;
    Ok(out)
}

/// The inverse of [`wrap`]; `None` for whatever is not one of ours, whole.
#[must_use]
pub fn unwrap(text: &str) -> Option<Unwrapped<'_>> {
    let mut parts = text.strip_prefix(MARK)?.splitn(4, '.');
    let family = Protocol::from_name(parts.next()?)?;
    let form = ContinuationForm::from_code(parts.next()?)?;
    let provider = parts.next()?;
    let data = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
    Some(Unwrapped { family, form, provider, data: String::from_utf8(data).ok()? })
}

/// The text for the slot of a client of `client`: `data` itself in its own family, wrapped elsewhere.
pub(super) fn slot<'a>(
    client: Protocol,
    family: Protocol,
    form: ContinuationForm,
    provider: Option<&str>,
    data: Cow<'a, str>,
) -> Cow<'a, str> {
    // Bedrock's hosts of Anthropic's models speak Messages too, and its clients send back what they got.
    let own = family == client || (client, family) == (Protocol::AnthropicMessages, Protocol::BedrockInvoke);
    if own {
        return data;
    }
    let wrapped = wrap(family, form, provider, &data);
    // Gemini's slot holds bytes, which its clients decode and encode again.
    Cow::Owned(if client == Protocol::GoogleGemini { STANDARD.encode(wrapped) } else { wrapped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wrapped_comes_back() {
        for family in Protocol::ALL {
            for form in ContinuationForm::ALL {
                let text = wrap(family, *form, Some("acme-2"), "sig/é+==.hr1.");
                assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)), "{text}");
                let back = unwrap(&text).unwrap();
                assert_eq!((back.family, back.form, back.provider), (family, *form, "acme-2"));
                assert_eq!(back.data, "sig/é+==.hr1.");
            }
        }
        assert_eq!(unwrap(&wrap(Protocol::OpenaiChat, ContinuationForm::Details, None, "")).unwrap().provider, "");
    }

    #[test]
    fn texts_that_were_wrapped_come_back() {
        let parts = br#"{"type":"reasoning_text","text":"a\n\u00e9"},{"type":"reasoning_text","text":"b"}"#;
        let text = wrap_texts(Protocol::CohereChat, Some("acme-2"), parts);
        let back = unwrap_texts(&text).unwrap();
        assert_eq!((back.family, back.provider), (Protocol::CohereChat, "acme-2"));
        assert_eq!(back.texts, ["a\n\u{e9}", "b"]);
        assert_eq!(unwrap(&text), None, "no state");
        assert_eq!(unwrap_texts(&wrap(Protocol::CohereChat, ContinuationForm::Details, None, "[]")), None);
        assert_eq!(unwrap_texts("hr1.cohere_chat.text.p.W3s"), None);
        assert_eq!(unwrap_texts("hr1.cohere_chat.text.p.e30"), None);
        let more = wrapped(Protocol::CohereChat, TEXTS, None, br#"[{"text":"a"}] and more"#);
        assert_eq!(unwrap_texts(&more), None, "not whole");
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        for text in [
            "",
            "hr1",
            "hr1.",
            "EpMBCioICRgC",
            "hr2.openai_chat.details.p.e30",
            "hr1.nobody.details.p.e30",
            "hr1.openai_chat.nothing.p.e30",
            "hr1.openai_chat.details.e30",
            "hr1.openai_chat.details.p.e30=",
            "hr1.openai_chat.details.p.e3+",
            "hr1.openai_chat.details.p._w",
            "hr1.openai_chat.details.p.e30.more",
        ] {
            assert_eq!(unwrap(text), None, "{text}");
        }
    }
}
