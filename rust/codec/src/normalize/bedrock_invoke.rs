//! Amazon Bedrock's `InvokeModel`: the model's own format, whole, or inside base64 in the frames of a stream.
//!
//! 1. A `chunk` frame holds `{"bytes": BASE64}`; its bytes are one JSON object of the format that the model speaks.
//! 2. The first object tells the format by its keys: Messages (`type`), Converse (one member named as an event), Chat Completions
//!    (`choices`), else one of the plain-text formats ([`plain`]). It stays for the rest.
//! 3. Inside, everything is that format's normaliser's; its frame templates are kept here, since the base64 of two deltas
//!    is alike in nothing.
//!
//! What a format's fields mean must not be added here.

mod chunk;
mod plain;

use super::Normalize;
use super::anthropic_messages::AnthropicMessages;
use super::bedrock_converse::BedrockConverse;
use super::openai_chat::OpenaiChat;
use super::out::Out;
use super::template::Template;
use crate::json::{Scan, Scanner};
use chunk::Chunk;
use plain::Plain;

/// The state of one response.
#[derive(Debug, Default)]
pub struct BedrockInvoke {
    format: Option<Format>,
    template: Template,
    chunk: Chunk,
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
        let BedrockInvoke { format, template, chunk } = self;
        let read = match chunk.read(json)? {
            Some(bytes) => object(bytes, format, template, out),
            // A frame of another kind.
            None => Ok(()),
        };
        chunk.done();
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

/// One object of the model's own format.
#[inline]
fn object(json: &[u8], format: &mut Option<Format>, template: &mut Template, out: &mut Out<'_>) -> Scan<()> {
    if let Some(format) = format
        && let Some((text, kept)) = template.fit(json)
    {
        format.get().again(text, kept, out);
        return Ok(());
    }
    read_object(json.trim_ascii(), format, template, out)
}

/// The general way.
#[inline(never)]
fn read_object(json: &[u8], format: &mut Option<Format>, template: &mut Template, out: &mut Out<'_>) -> Scan<()> {
    if json.is_empty() || json == b"[DONE]" {
        return Ok(());
    }
    let format = match format {
        Some(format) => format,
        none => none.insert(Format::of(json)?),
    };
    if let Format::Converse(converse) = format {
        return events(json, converse, out);
    }
    let normalizer = format.get();
    let read = normalizer.value(json, b"", out);
    match read {
        Ok(()) => template.learn(json, b"", normalizer.steady()),
        Err(_) => template.forget(),
    }
    read
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
