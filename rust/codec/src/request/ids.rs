//! Ids and names that a target's alphabet takes, derived so that a call and its result, a tool and its calls stay
//! together.
//!
//! 1. What is legal stays as it is. What is not becomes a name made of its hash: always the same one.
//! 2. Nothing is stored: the same client id gives the same provider id in every turn.
//!
//! Randomness and state must not be added.

use std::borrow::Cow;

use super::neutral::Str;
use crate::event::Protocol;

/// The longest call id each target takes: `OpenAI`'s Chat 40, Responses 64 by its error texts; Messages' ids have none
/// written down, so they get the tool name's.
fn id_bound(target: Protocol) -> usize {
    match target {
        Protocol::OpenaiChat => 40,
        Protocol::OpenaiResponses | Protocol::BedrockConverse => 64,
        _ => 128,
    }
}

/// A name that Gemini takes: dots and colons too, a letter or an underscore first.
fn gemini_name(s: &[u8]) -> bool {
    let legal = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    s.iter().all(legal) && s.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
}

fn name_bound(target: Protocol) -> usize {
    if matches!(target, Protocol::AnthropicMessages | Protocol::BedrockInvoke) { 128 } else { 64 }
}

fn plain(s: &[u8]) -> bool {
    !s.is_empty() && s.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// A call's id as the target takes it.
pub(super) fn call_id<'a>(id: &'a Str<'_>, target: Protocol) -> Cow<'a, str> {
    let id = id.decode();
    let strict = matches!(target, Protocol::AnthropicMessages | Protocol::BedrockConverse | Protocol::BedrockInvoke);
    if !id.is_empty() && id.len() <= id_bound(target) && (!strict || plain(id.as_bytes())) {
        return id;
    }
    Cow::Owned(format!("call_{}", digest(&id)))
}

/// A call's id for a target that takes nine letters and digits and nothing else.
pub(super) fn short_call_id<'a>(id: &'a Str<'_>) -> Cow<'a, str> {
    const LENGTH: usize = 9;
    let id = id.decode();
    if id.len() == LENGTH && id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return id;
    }
    Cow::Owned(digest(&id)[..LENGTH].to_owned())
}

/// A tool's name as the target takes it: `[a-zA-Z0-9_-]`, 64 long, for Messages 128. Part of the name stays, for the
/// model reads it.
#[must_use]
pub fn tool_name(name: &str, target: Protocol) -> Cow<'_, str> {
    let most = name_bound(target);
    let gemini = target == Protocol::GoogleGemini;
    let legal = if gemini { gemini_name(name.as_bytes()) } else { plain(name.as_bytes()) };
    if name.len() <= most && legal {
        return Cow::Borrowed(name);
    }
    // 12 hex digits: 48 bits tell the tools of one request apart.
    let first = if gemini && !name.starts_with(|c: char| c.is_ascii_alphabetic()) { "_" } else { "" };
    let kept: String = first
        .chars()
        .chain(name.chars())
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .take(most - 13)
        .collect();
    Cow::Owned(format!("{kept}_{}", &digest(name)[..12]))
}

/// An item's id for a target that demands one: made of what the item holds.
pub(super) fn item_id(prefix: &str, content: &str) -> String {
    format!("{prefix}_{}", digest(content))
}

/// 32 hex digits, by FNV-1a with 128 bits. Whoever makes two ids collide confuses his own request only.
fn digest(s: &str) -> String {
    const PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for b in s.bytes() {
        hash = (hash ^ u128::from(b)).wrapping_mul(PRIME);
    }
    format!("{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_ids_stay_and_others_are_derived_the_same_way_each_time() {
        let own = |s: &str| Str::Own(s.to_owned());
        assert_eq!(call_id(&own("toolu_01"), Protocol::AnthropicMessages), "toolu_01");
        assert_eq!(call_id(&own("a:b"), Protocol::OpenaiChat), "a:b");
        let derived = call_id(&own("a:b"), Protocol::AnthropicMessages).into_owned();
        assert_eq!(derived, call_id(&own("a:b"), Protocol::AnthropicMessages));
        assert!(plain(derived.as_bytes()) && derived.len() <= 40);
        assert_ne!(derived, call_id(&own("a;b"), Protocol::AnthropicMessages));
        assert_eq!(call_id(&own(&"x".repeat(41)), Protocol::OpenaiChat).len(), 37);
        assert!(call_id(&own(""), Protocol::OpenaiChat).starts_with("call_"));
    }

    #[test]
    fn long_and_odd_tool_names_are_shortened_and_told_apart() {
        let long = "mcp__".to_owned() + &"x".repeat(80);
        let (a, b) = (long.clone() + "a", long + "b");
        let (x, y) = (tool_name(&a, Protocol::OpenaiChat), tool_name(&b, Protocol::OpenaiChat));
        assert!(x.len() == 64 && x != y && x.starts_with("mcp__"));
        assert_eq!(tool_name(&a, Protocol::AnthropicMessages), a);
        assert!(plain(tool_name("a.b", Protocol::AnthropicMessages).as_bytes()));
    }

    #[test]
    fn the_hash_is_fnv() {
        // The published vector for "a".
        assert_eq!(digest("a"), "d228cb696f1a8caf78912b704e4a8964");
    }
}
