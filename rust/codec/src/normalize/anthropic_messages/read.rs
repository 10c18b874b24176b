//! Reads one payload of Anthropic Messages in one pass, into what borrows from it. Gives out nothing.

use crate::json::{Kind, Scan, Scanner};
use crate::normalize::template::Ignored;
use crate::text::{Literal, Text};

/// One event of the stream, or one whole body: what is in it of all that may be.
#[derive(Default)]
pub(super) struct Frame<'a> {
    pub kind: Option<Literal<'a>>,
    pub index: Option<u64>,
    pub delta: Delta<'a>,
    // Boxed: they are rare, and a frame is made per delta.
    pub block: Option<Box<Block<'a>>>,
    pub message: Option<Box<Message<'a>>>,
    pub usage: Option<Box<Tokens<'a>>>,
    /// An `error` that is not null.
    pub has_error: bool,
    /// Values that no part of the reading looks at.
    pub ignored: Ignored,
}

/// The `delta` of a block, or that of the message.
#[derive(Default)]
pub(super) struct Delta<'a> {
    pub kind: Option<Literal<'a>>,
    pub text: Option<Literal<'a>>,
    pub thinking: Option<Literal<'a>>,
    pub signature: Option<Literal<'a>>,
    pub partial_json: Option<Literal<'a>>,
    pub citation: Option<Box<Citation<'a>>>,
    pub stop_reason: Option<Literal<'a>>,
    /// Of a compaction.
    pub content: Option<Literal<'a>>,
    pub encrypted_content: Option<Literal<'a>>,
}

/// A content block as it starts, or whole.
#[derive(Default)]
pub(super) struct Block<'a> {
    pub kind: Option<Literal<'a>>,
    pub id: Option<Literal<'a>>,
    pub name: Option<Literal<'a>>,
    pub tool_use_id: Option<Literal<'a>>,
    pub text: Option<Literal<'a>>,
    pub thinking: Option<Literal<'a>>,
    pub signature: Option<Literal<'a>>,
    pub data: Option<Literal<'a>>,
    /// An object.
    pub input: Option<&'a [u8]>,
    pub citations: Vec<Citation<'a>>,
    /// A result that says that it failed.
    pub failed: bool,
    pub raw: &'a [u8],
}

/// A source that text is drawn from.
pub(super) struct Citation<'a> {
    pub kind: Literal<'a>,
    pub url: Option<Literal<'a>>,
    pub title: Option<Literal<'a>>,
    pub raw: &'a [u8],
}

#[derive(Default)]
pub(super) struct Message<'a> {
    pub id: Option<Literal<'a>>,
    pub model: Option<Literal<'a>>,
    pub content: Vec<Block<'a>>,
    pub stop_reason: Option<Literal<'a>>,
    pub usage: Option<Tokens<'a>>,
    /// There was a `content`.
    pub has_content: bool,
}

/// The counts that one usage object holds.
#[derive(Default)]
pub(super) struct Tokens<'a> {
    pub input: Option<u64>,
    pub cache_creation: Option<u64>,
    pub cache_read: Option<u64>,
    pub output: Option<u64>,
    pub thinking: Option<u64>,
    pub raw: &'a [u8],
}

/// One stream event.
pub(super) fn frame(json: &[u8]) -> Scan<Frame<'_>> {
    let mut frame = Frame::default();
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => frame.kind = s.string_or_skip()?,
            b"index" => frame.index = s.count_or_skip()?,
            b"delta" => frame.delta = delta(&mut s, &mut frame.ignored)?,
            b"content_block" => frame.block = block(&mut s, json)?.map(Box::new),
            b"message" => frame.message = message(&mut s, json)?.map(Box::new),
            b"usage" => frame.usage = tokens(&mut s, json)?.map(Box::new),
            b"error" => {
                frame.has_error = s.kind()? != Kind::Null;
                s.skip()?;
            }
            _ => frame.ignored.skip(&mut s)?,
        }
    }
    s.end()?;
    Ok(frame)
}

/// A whole body: a message, or an error.
pub(super) fn body(json: &[u8]) -> Scan<Frame<'_>> {
    let mut frame = Frame::default();
    let mut whole = Message::default();
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => frame.kind = s.string_or_skip()?,
            b"error" => {
                frame.has_error = s.kind()? != Kind::Null;
                s.skip()?;
            }
            _ => member(&mut whole, key, &mut s, json)?,
        }
    }
    s.end()?;
    frame.message = Some(Box::new(whole));
    Ok(frame)
}

fn message<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Message<'a>>> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let mut message = Message::default();
    while let Some(key) = s.key(&mut members)? {
        member(&mut message, key, s, json)?;
    }
    Ok(Some(message))
}

fn member<'a>(message: &mut Message<'a>, key: Literal<'a>, s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<()> {
    match key.raw {
        b"id" => message.id = s.string_or_skip()?,
        b"model" => message.model = s.string_or_skip()?,
        b"stop_reason" => message.stop_reason = s.string_or_skip()?,
        b"usage" => message.usage = tokens(s, json)?,
        b"content" => {
            let Some(mut items) = s.array_or_skip()? else { return Ok(()) };
            message.has_content = true;
            while s.item(&mut items)? {
                message.content.extend(block(s, json)?);
            }
        }
        _ => {
            s.skip()?;
        }
    }
    Ok(())
}

fn delta<'a>(s: &mut Scanner<'a>, ignored: &mut Ignored) -> Scan<Delta<'a>> {
    let mut delta = Delta::default();
    let Some(mut members) = s.object_or_skip()? else { return Ok(delta) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => delta.kind = s.string_or_skip()?,
            b"text" => delta.text = s.string_or_skip()?,
            b"thinking" => delta.thinking = s.string_or_skip()?,
            b"signature" => delta.signature = s.string_or_skip()?,
            b"partial_json" => delta.partial_json = s.string_or_skip()?,
            b"stop_reason" => delta.stop_reason = s.string_or_skip()?,
            b"content" => delta.content = s.string_or_skip()?,
            b"encrypted_content" => delta.encrypted_content = s.string_or_skip()?,
            b"citation" => delta.citation = citation(s.skip()?)?.map(Box::new),
            _ => ignored.skip(s)?,
        }
    }
    Ok(delta)
}

fn block<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Block<'a>>> {
    if s.kind()? != Kind::Object {
        s.skip()?;
        return Ok(None);
    }
    let start = s.pos();
    let mut block = Block::default();
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => block.kind = s.string_or_skip()?,
            b"id" => block.id = s.string_or_skip()?,
            b"name" => block.name = s.string_or_skip()?,
            b"tool_use_id" => block.tool_use_id = s.string_or_skip()?,
            b"text" => block.text = s.string_or_skip()?,
            b"thinking" => block.thinking = s.string_or_skip()?,
            b"signature" => block.signature = s.string_or_skip()?,
            b"data" => block.data = s.string_or_skip()?,
            b"input" => {
                let is_object = s.kind()? == Kind::Object;
                block.input = Some(s.skip()?).filter(|_| is_object);
            }
            b"is_error" => block.failed |= s.skip()? == b"true",
            b"content" => block.failed |= tells_failure(s)?,
            b"citations" => {
                let Some(mut items) = s.array_or_skip()? else { continue };
                while s.item(&mut items)? {
                    block.citations.extend(citation(s.skip()?)?);
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    block.raw = &json[start..s.pos()];
    Ok(Some(block))
}

/// Whether the content of a result is an error object (`{type: "..._error", error_code}`).
fn tells_failure(s: &mut Scanner<'_>) -> Scan<bool> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(false) };
    let mut failed = false;
    while let Some(key) = s.key(&mut members)? {
        if key.raw == b"type" {
            failed |= s.string_or_skip()?.is_some_and(|kind| kind.raw.ends_with(b"_error"));
        } else {
            s.skip()?;
        }
    }
    Ok(failed)
}

pub(super) fn citation(raw: &[u8]) -> Scan<Option<Citation<'_>>> {
    let mut s = Scanner::new(raw);
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let (mut kind, mut url, mut title, mut document) = (None, None, None, None);
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => kind = s.string_or_skip()?,
            b"url" => url = s.string_or_skip()?,
            b"title" => title = s.string_or_skip()?,
            b"document_title" => document = s.string_or_skip()?,
            b"source" => url = url.or(s.string_or_skip()?),
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(kind.map(|kind| Citation { kind, url, title: title.or(document), raw }))
}

fn tokens<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Tokens<'a>>> {
    if s.kind()? != Kind::Object {
        s.skip()?;
        return Ok(None);
    }
    let start = s.pos();
    let mut tokens = Tokens::default();
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"input_tokens" => tokens.input = s.count_or_skip()?,
            b"cache_creation_input_tokens" => tokens.cache_creation = s.count_or_skip()?,
            b"cache_read_input_tokens" => tokens.cache_read = s.count_or_skip()?,
            b"output_tokens" => tokens.output = s.count_or_skip()?,
            b"output_tokens_details" => {
                let Some(mut inner) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut inner)? {
                    let count = s.count_or_skip()?;
                    if key.raw == b"thinking_tokens" {
                        tokens.thinking = count;
                    }
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    tokens.raw = &json[start..s.pos()];
    Ok(Some(tokens))
}

/// The block's JSON with these members in the place of its own.
pub(super) fn with_members(raw: &[u8], replaced: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![b'{'];
    let mut put = |key: Literal<'_>, value: &[u8]| {
        if out.len() > 1 {
            out.push(b',');
        }
        Text::Literal(key).push_json_string(&mut out);
        out.push(b':');
        out.extend_from_slice(value);
    };
    let mut s = Scanner::new(raw);
    // The scanner has accepted these bytes as one object before.
    if let Ok(mut members) = s.object() {
        while let (Ok(Some(key)), Ok(value)) = (s.key(&mut members), s.skip()) {
            if !replaced.iter().any(|(name, _)| key.is(name)) {
                put(key, value);
            }
        }
    }
    for (name, value) in replaced {
        put(Literal::new(name.as_bytes(), false, true), value);
    }
    out.push(b'}');
    out
}
