//! Reads one payload of Converse in one pass, into what borrows from it. Gives out nothing.

use crate::json::{Kind, Scan, Scanner};
use crate::normalize::template::Ignored;
use crate::text::Literal;

/// One event of the stream: what is in it of all that may be.
#[derive(Default)]
pub(super) struct Frame<'a> {
    pub index: Option<u64>,
    pub delta: Delta<'a>,
    // Boxed: they are rare, and a frame is made per delta.
    pub start: Option<Box<Block<'a>>>,
    pub stop_reason: Option<Literal<'a>>,
    pub usage: Option<Box<Tokens<'a>>>,
    /// JSON.
    pub trace: Option<&'a [u8]>,
    /// Values that no part of the reading looks at.
    pub ignored: Ignored,
}

/// A `delta`: one member of a union.
#[derive(Default)]
pub(super) struct Delta<'a> {
    pub text: Option<Literal<'a>>,
    /// Of `toolUse`.
    pub input: Option<Literal<'a>>,
    pub reasoning: Reasoning<'a>,
    pub citation: Option<Box<Citation<'a>>>,
    /// The items of `toolResult`, without their brackets.
    pub result: Option<&'a [u8]>,
    /// Base64, of `image`.
    pub image: Option<Literal<'a>>,
}

/// What `reasoningContent` holds.
#[derive(Default)]
pub(super) struct Reasoning<'a> {
    pub text: Option<Literal<'a>>,
    pub signature: Option<Literal<'a>>,
    /// Base64.
    pub redacted: Option<Literal<'a>>,
}

/// A content block as it starts, or whole.
#[derive(Default)]
pub(super) struct Block<'a> {
    pub text: Option<Literal<'a>>,
    pub tool: Option<Tool<'a>>,
    pub result: Option<Tool<'a>>,
    pub reasoning: Option<Reasoning<'a>>,
    pub citations: Option<Cited<'a>>,
    pub image: Option<Image<'a>>,
}

/// A `toolUse` or a `toolResult`.
#[derive(Default)]
pub(super) struct Tool<'a> {
    pub id: Option<Literal<'a>>,
    pub name: Option<Literal<'a>>,
    pub kind: Option<Literal<'a>>,
    pub status: Option<Literal<'a>>,
    /// An object.
    pub input: Option<&'a [u8]>,
    pub raw: &'a [u8],
}

/// Text with its sources.
#[derive(Default)]
pub(super) struct Cited<'a> {
    pub content: Vec<Literal<'a>>,
    pub citations: Vec<Citation<'a>>,
}

#[derive(Default)]
pub(super) struct Image<'a> {
    pub format: Option<Literal<'a>>,
    /// Base64.
    pub bytes: Option<Literal<'a>>,
}

/// A source that text is drawn from.
pub(super) struct Citation<'a> {
    /// The member of `location` that there is: where the source lies.
    pub kind: Option<Literal<'a>>,
    pub url: Option<Literal<'a>>,
    pub title: Option<Literal<'a>>,
    pub raw: &'a [u8],
}

/// The counts that one usage object holds. Some models name the cache's counts otherwise.
#[derive(Default)]
pub(super) struct Tokens<'a> {
    pub input: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
    pub output: Option<u64>,
    pub raw: &'a [u8],
}

/// A whole body.
#[derive(Default)]
pub(super) struct Body<'a> {
    pub content: Option<Vec<Block<'a>>>,
    pub stop_reason: Option<Literal<'a>>,
    pub usage: Option<Tokens<'a>>,
    pub trace: Option<&'a [u8]>,
}

/// One stream event.
pub(super) fn frame(json: &[u8]) -> Scan<Frame<'_>> {
    let mut frame = Frame::default();
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"contentBlockIndex" => frame.index = s.count_or_skip()?,
            b"delta" => frame.delta = delta(&mut s, &mut frame.ignored)?,
            b"start" => frame.start = block(&mut s, json)?.map(Box::new),
            b"stopReason" => frame.stop_reason = s.string_or_skip()?,
            b"usage" => frame.usage = tokens(&mut s, json)?.map(Box::new),
            b"trace" => frame.trace = object(&mut s)?,
            _ => frame.ignored.skip(&mut s)?,
        }
    }
    s.end()?;
    Ok(frame)
}

/// A whole body.
pub(super) fn body(json: &[u8]) -> Scan<Body<'_>> {
    let mut body = Body::default();
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"output" => body.content = output(&mut s, json)?,
            b"stopReason" => body.stop_reason = s.string_or_skip()?,
            b"usage" => body.usage = tokens(&mut s, json)?,
            b"trace" => body.trace = object(&mut s)?,
            _ => {
                s.skip()?;
            }
        }
    }
    s.end()?;
    Ok(body)
}

/// `{message: {content: [...]}}`.
fn output<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Vec<Block<'a>>>> {
    let mut content = None;
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    while let Some(key) = s.key(&mut members)? {
        if !key.is("message") {
            s.skip()?;
            continue;
        }
        let Some(mut message) = s.object_or_skip()? else { continue };
        while let Some(key) = s.key(&mut message)? {
            if !key.is("content") {
                s.skip()?;
                continue;
            }
            let Some(mut items) = s.array_or_skip()? else { continue };
            let blocks = content.get_or_insert_with(Vec::new);
            while s.item(&mut items)? {
                blocks.extend(block(s, json)?);
            }
        }
    }
    Ok(content)
}

fn delta<'a>(s: &mut Scanner<'a>, ignored: &mut Ignored) -> Scan<Delta<'a>> {
    let mut delta = Delta::default();
    let Some(mut members) = s.object_or_skip()? else { return Ok(delta) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"text" => delta.text = s.string_or_skip()?,
            b"toolUse" => {
                let Some(mut members) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut members)? {
                    match key.raw {
                        b"input" => delta.input = s.string_or_skip()?,
                        _ => ignored.skip(s)?,
                    }
                }
            }
            b"reasoningContent" => delta.reasoning = reasoning(s)?.unwrap_or_default(),
            b"citation" => delta.citation = citation(s.skip()?)?.map(Box::new),
            b"toolResult" => {
                let is_array = s.kind()? == Kind::Array;
                delta.result = Some(s.skip()?).filter(|_| is_array).map(|raw| &raw[1..raw.len() - 1]);
            }
            b"image" => delta.image = image(s)?.and_then(|image| image.bytes),
            _ => ignored.skip(s)?,
        }
    }
    Ok(delta)
}

fn block<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Block<'a>>> {
    let mut block = Block::default();
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"text" => block.text = s.string_or_skip()?,
            b"toolUse" => block.tool = tool(s, json)?,
            b"toolResult" => block.result = tool(s, json)?,
            b"reasoningContent" => block.reasoning = reasoning(s)?,
            b"citationsContent" => block.citations = Some(cited(s, json)?),
            b"image" => block.image = image(s)?,
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(block))
}

fn tool<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Tool<'a>>> {
    let mut tool = Tool::default();
    s.kind()?;
    let start = s.pos();
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"toolUseId" => tool.id = s.string_or_skip()?,
            b"name" => tool.name = s.string_or_skip()?,
            b"type" => tool.kind = s.string_or_skip()?,
            b"status" => tool.status = s.string_or_skip()?,
            b"input" => tool.input = object(s)?,
            _ => {
                s.skip()?;
            }
        }
    }
    tool.raw = &json[start..s.pos()];
    Ok(Some(tool))
}

/// In a stream `{text | signature | redactedContent}`, whole `{reasoningText: {text, signature} | redactedContent}`.
fn reasoning<'a>(s: &mut Scanner<'a>) -> Scan<Option<Reasoning<'a>>> {
    let mut found = Reasoning::default();
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"text" => found.text = s.string_or_skip()?,
            b"signature" => found.signature = s.string_or_skip()?,
            b"redactedContent" => found.redacted = s.string_or_skip()?,
            b"reasoningText" => {
                let Some(mut inner) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut inner)? {
                    match key.raw {
                        b"text" => found.text = s.string_or_skip()?,
                        b"signature" => found.signature = s.string_or_skip()?,
                        _ => {
                            s.skip()?;
                        }
                    }
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(found))
}

fn cited<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Cited<'a>> {
    let mut cited = Cited::default();
    let Some(mut members) = s.object_or_skip()? else { return Ok(cited) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"content" => {
                let Some(mut items) = s.array_or_skip()? else { continue };
                while s.item(&mut items)? {
                    cited.content.extend(block(s, json)?.and_then(|block| block.text));
                }
            }
            b"citations" => {
                let Some(mut items) = s.array_or_skip()? else { continue };
                while s.item(&mut items)? {
                    cited.citations.extend(citation(s.skip()?)?);
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(cited)
}

pub(super) fn citation(raw: &[u8]) -> Scan<Option<Citation<'_>>> {
    let mut s = Scanner::new(raw);
    let (mut kind, mut url, mut title) = (None, None, None);
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"title" => title = s.string_or_skip()?,
            b"location" => {
                let Some(mut location) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut location)? {
                    kind = kind.or(Some(key));
                    let Some(mut place) = s.object_or_skip()? else { continue };
                    while let Some(key) = s.key(&mut place)? {
                        match key.raw {
                            b"url" => url = s.string_or_skip()?,
                            _ => {
                                s.skip()?;
                            }
                        }
                    }
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(Citation { kind, url, title, raw }))
}

fn image<'a>(s: &mut Scanner<'a>) -> Scan<Option<Image<'a>>> {
    let mut image = Image::default();
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"format" => image.format = s.string_or_skip()?,
            b"source" => {
                let Some(mut source) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut source)? {
                    match key.raw {
                        b"bytes" => image.bytes = s.string_or_skip()?,
                        _ => {
                            s.skip()?;
                        }
                    }
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(image))
}

fn tokens<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Tokens<'a>>> {
    let mut tokens = Tokens::default();
    s.kind()?;
    let start = s.pos();
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"inputTokens" => tokens.input = s.count_or_skip()?,
            b"outputTokens" => tokens.output = s.count_or_skip()?,
            b"cacheReadInputTokens" | b"cacheReadInputTokenCount" => {
                tokens.cache_read = s.count_or_skip()?.or(tokens.cache_read);
            }
            b"cacheWriteInputTokens" | b"cacheWriteInputTokenCount" => {
                tokens.cache_write = s.count_or_skip()?.or(tokens.cache_write);
            }
            _ => {
                s.skip()?;
            }
        }
    }
    tokens.raw = &json[start..s.pos()];
    Ok(Some(tokens))
}

/// An object's bytes.
fn object<'a>(s: &mut Scanner<'a>) -> Scan<Option<&'a [u8]>> {
    let is_object = s.kind()? == Kind::Object;
    Ok(Some(s.skip()?).filter(|_| is_object))
}
