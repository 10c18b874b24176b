//! Amazon Bedrock's `InvokeModel`: the model's own format, whole, or inside base64 in the frames of a stream.
//!
//! 1. A `chunk` frame holds `{"bytes": BASE64}`; its bytes are one JSON object of the format that the model speaks.
//! 2. The first object tells the format by its keys: Messages (`type`), Converse (one member named as an event), Chat Completions
//!    (`choices`), else one of the plain-text formats ([`plain`]). It stays for the rest.
//! 3. Inside, everything is that format's normaliser's; its frame templates are kept here, since the base64 of two deltas
//!    is alike in nothing.
//!
//! What a format's fields mean must not be added here.

mod plain;

use base64_simd::STANDARD;

use super::Normalize;
use super::anthropic_messages::AnthropicMessages;
use super::bedrock_converse::BedrockConverse;
use super::openai_chat::OpenaiChat;
use super::out::Out;
use super::template::Template;
use crate::json::{Malformed, Scan, Scanner};
use crate::limits::KEPT_BUFFER;
use plain::Plain;

/// The state of one response.
#[derive(Debug, Default)]
pub struct BedrockInvoke {
    format: Option<Format>,
    template: Template,
    /// The bytes of a chunk.
    chunk: Vec<u8>,
}

#[derive(Debug)]
enum Format {
    Messages(Box<AnthropicMessages>),
    Converse(Box<BedrockConverse>),
    Chat(Box<OpenaiChat>),
    Plain(Plain),
}

impl Format {
    fn get(&mut self) -> &mut dyn Normalize {
        match self {
            Format::Messages(messages) => &mut **messages,
            Format::Converse(converse) => &mut **converse,
            Format::Chat(chat) => &mut **chat,
            Format::Plain(plain) => plain,
        }
    }

    /// By the keys of one object.
    fn of(json: &[u8]) -> Scan<Format> {
        let mut s = Scanner::new(json);
        let mut members = s.object()?;
        let mut format = None;
        while let Some(key) = s.key(&mut members)? {
            let tells = match key.raw {
                b"type" => Some(Format::Messages(Box::default())),
                b"choices" => Some(Format::Chat(Box::default())),
                // A whole answer has an output.
                b"output" => Some(Format::Converse(Box::default())),
                name if is_event(name) => Some(Format::Converse(Box::default())),
                _ => None,
            };
            format = format.or(tells);
            s.skip()?;
        }
        s.end()?;
        Ok(format.unwrap_or(Format::Plain(Plain::default())))
    }
}

fn is_event(name: &[u8]) -> bool {
    name.starts_with(b"contentBlock") || matches!(name, b"messageStart" | b"messageStop" | b"metadata")
}

impl Normalize for BedrockInvoke {
    fn value(&mut self, json: &[u8], _name: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.clear();
        let read = match bytes(json, &mut chunk) {
            Ok(true) => self.object(chunk.trim_ascii(), out),
            // A frame of another kind.
            Ok(false) => Ok(()),
            Err(malformed) => Err(malformed),
        };
        if chunk.capacity() <= KEPT_BUFFER {
            self.chunk = chunk;
        }
        read
    }

    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        self.format.insert(Format::of(json)?).get().whole(json, out)
    }

    fn done(&mut self, _out: &mut Out<'_>) {}

    fn end(&mut self, out: &mut Out<'_>) {
        if let Some(format) = &mut self.format {
            format.get().end(out);
        }
    }
}

impl BedrockInvoke {
    /// One object of the model's own format.
    fn object(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        if json.is_empty() || json == b"[DONE]" {
            return Ok(());
        }
        let format = match &mut self.format {
            Some(format) => format,
            none => none.insert(Format::of(json)?),
        };
        if let Format::Converse(converse) = format {
            return events(json, converse, out);
        }
        let normalizer = format.get();
        if let Some((text, kept)) = self.template.fit(json, b"") {
            normalizer.again(text, kept, out);
            return Ok(());
        }
        let read = normalizer.value(json, b"", out);
        match read {
            Ok(()) => self.template.learn(json, b"", normalizer.steady()),
            Err(_) => self.template.forget(),
        }
        read
    }
}

/// Each member of the object is an event, named by its key; what is no event is ignored.
fn events(json: &[u8], converse: &mut BedrockConverse, out: &mut Out<'_>) -> Scan<()> {
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    let mut found = Vec::new();
    while let Some(key) = s.key(&mut members)? {
        let value = s.skip()?;
        if is_event(key.raw) && value.starts_with(b"{") {
            found.push((key.raw, value));
        }
    }
    s.end()?;
    for (name, value) in found {
        converse.value(value, name, out)?;
        if out.is_done() {
            break;
        }
    }
    Ok(())
}

/// The text of `bytes` in a chunk as the service writes it: nothing else is there, but for letters and digits as padding.
/// Whether it is base64, and then a string without escapes, the caller finds out.
fn usual(json: &[u8]) -> Option<&[u8]> {
    let rest = json.strip_prefix(b"{\"bytes\":\"")?;
    let (text, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
    if rest == b"\"}" {
        return Some(text);
    }
    let padding = rest.strip_prefix(b"\",\"p\":\"")?.strip_suffix(b"\"}")?;
    padding.iter().all(u8::is_ascii_alphanumeric).then_some(text)
}

/// Appends the bytes that a chunk holds; false where it holds none.
fn bytes(json: &[u8], out: &mut Vec<u8>) -> Scan<bool> {
    if let Some(text) = usual(json)
        && STANDARD.decode_append(text, out).is_ok()
    {
        return Ok(true);
    }
    out.clear();
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    let mut text = None;
    while let Some(key) = s.key(&mut members)? {
        if key.is("bytes") {
            text = s.string_or_skip()?;
        } else {
            s.skip()?;
        }
    }
    s.end()?;
    let Some(text) = text else { return Ok(false) };
    match STANDARD.decode_append(&*text.bytes(), out) {
        Ok(()) => Ok(true),
        Err(_) => Err(Malformed { at: 0, what: "base64" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_form_and_any_other_hold_the_same_bytes() {
        for (json, held) in [
            (r#"{"bytes":"eyJhIjoxfQ=="}"#, &b"{\"a\":1}"[..]),
            (r#"{"bytes":"eyJhIjoxfQ==","p":"abcXYZ09"}"#, b"{\"a\":1}"),
            (r#"{"bytes":"eyJhIjoxfQ==","p":"a\u0062"}"#, b"{\"a\":1}"),
            (r#"{ "p":"ab", "bytes":"eyJhIjoxfQ==" }"#, b"{\"a\":1}"),
            (r#"{"bytes":"\/\/79"}"#, b"\xff\xfe\xfd"),
            (r#"{"bytes":""}"#, b""),
        ] {
            let mut out = Vec::new();
            assert_eq!((bytes(json.as_bytes(), &mut out), &out[..]), (Ok(true), held), "{json}");
        }
        assert_eq!(bytes(br#"{"p":"abc"}"#, &mut Vec::new()), Ok(false));
    }

    #[test]
    fn what_is_no_chunk_is_refused_in_either_form() {
        for json in [
            r#"{"bytes":"eyJhIjoxfQ="}"#,
            r#"{"bytes":"eyJhIjoxfQ"}"#,
            r#"{"bytes":"eyJhIjoxfR=="}"#,
            r#"{"bytes":"eyJh IjoxfQ=="}"#,
            r#"{"bytes":"eyJhIjoxfQ==","p":"a"b"}"#,
            r#"{"bytes":"eyJhIjoxfQ==","p":"ab"}}"#,
            r#"{"bytes":"eyJhIjoxfQ==""#,
            r#"{"bytes":"eyJhIjoxfQ=="#,
        ] {
            assert!(bytes(json.as_bytes(), &mut Vec::new()).is_err(), "{json}");
        }
    }
}
