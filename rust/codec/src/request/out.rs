//! How JSON is written here: members and items with their commas, into one growing buffer.
//!
//! A comma is due unless the last byte opens a container or is one; no JSON value ends in any of these.

use std::collections::HashSet;

use super::neutral::Str;
use crate::json::Scanner;
use crate::text::push_json_str;

/// Appends the comma that is due before another member or item, once.
pub(super) fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{' | b'[' | b',')) {
        out.push(b',');
    }
}

/// Appends `"key":`; the value is the caller's.
pub(super) fn key(out: &mut Vec<u8>, key: &str) {
    comma(out);
    out.push(b'"');
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Appends a member whose value is JSON text already.
pub(super) fn raw(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    key(out, name);
    out.extend_from_slice(value);
}

pub(super) fn str(out: &mut Vec<u8>, name: &str, value: &Str<'_>) {
    key(out, name);
    value.push(out);
}

pub(super) fn str_if(out: &mut Vec<u8>, name: &str, value: Option<&Str<'_>>) {
    if let Some(value) = value {
        str(out, name, value);
    }
}

pub(super) fn plain(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    push_json_str(value, out);
}

pub(super) fn flag(out: &mut Vec<u8>, name: &str, value: bool) {
    raw(out, name, if value { b"true" } else { b"false" });
}

/// Adds the members of the raw object `extra` to the object that stands from `start` to the end. What the writer has
/// written itself stays.
pub(super) fn splice(out: &mut Vec<u8>, start: usize, extra: Option<&[u8]>) {
    let Some(extra) = extra else { return };
    let mut seen = keys(&out[start..]);
    if out.pop_if(|b| *b == b'}').is_none() {
        return;
    }
    let mut s = Scanner::new(extra);
    // The reader has seen that it is an object and JSON; a fault would end the loop.
    if let Ok(mut items) = s.object() {
        while let Ok(Some(name)) = s.key(&mut items) {
            let Ok(value) = s.skip() else { break };
            let name = name.decode().into_owned();
            if seen.contains(&name) {
                continue;
            }
            comma(out);
            push_json_str(&name, out);
            out.push(b':');
            out.extend_from_slice(value);
            seen.insert(name);
        }
    }
    out.push(b'}');
}

/// Whether a raw object has this key at its top.
pub(super) fn has_key(object: &[u8], wanted: &str) -> bool {
    let mut s = Scanner::new(object);
    let Ok(mut items) = s.object() else { return false };
    while let Ok(Some(key)) = s.key(&mut items) {
        if key.is(wanted) {
            return true;
        }
        if s.skip().is_err() {
            break;
        }
    }
    false
}

fn keys(object: &[u8]) -> HashSet<String> {
    let mut keys = HashSet::new();
    let mut s = Scanner::new(object);
    if let Ok(mut items) = s.object() {
        while let Ok(Some(key)) = s.key(&mut items) {
            keys.insert(key.decode().into_owned());
            if s.skip().is_err() {
                break;
            }
        }
    }
    keys
}
