//! Reads one payload of `OpenAI` Responses in one pass, into what borrows from it. Gives out nothing.

use crate::json::{Kind, Scan, Scanner};
use crate::normalize::template::Ignored;
use crate::text::Literal;

/// One event of the stream: what is in it of all that may be.
#[derive(Default)]
pub(super) struct Frame<'a> {
    pub kind: Option<Literal<'a>>,
    pub place: Place<'a>,
    pub delta: Option<Literal<'a>>,
    pub text: Option<Literal<'a>>,
    pub refusal: Option<Literal<'a>>,
    pub name: Option<Literal<'a>>,
    pub arguments: Option<Literal<'a>>,
    pub input: Option<Literal<'a>>,
    // Boxed: they are rare, and a frame is made per delta.
    pub part: Option<Box<Part<'a>>>,
    pub item: Option<Box<Item<'a>>>,
    pub response: Option<Box<Body<'a>>>,
    pub annotation: Option<Box<Annotation<'a>>>,
    pub partial_image: Option<Literal<'a>>,
    pub output_format: Option<Literal<'a>>,
    /// An `error` that is not null.
    pub error: Option<&'a [u8]>,
    /// Values that no part of the reading looks at.
    pub ignored: Ignored,
}

/// Where in the response an event belongs.
#[derive(Clone, Copy, Default)]
pub(super) struct Place<'a> {
    pub output_index: Option<u64>,
    pub item_id: Option<Literal<'a>>,
    /// `content_index` or `summary_index`.
    pub part_index: u64,
}

/// One item of the output.
#[derive(Default)]
pub(super) struct Item<'a> {
    pub kind: Option<Literal<'a>>,
    pub id: Option<Literal<'a>>,
    pub call_id: Option<Literal<'a>>,
    pub name: Option<Literal<'a>>,
    /// In which the tool stands that is called.
    pub namespace: Option<Literal<'a>>,
    /// Who makes the call, where it is not the model itself: JSON.
    pub caller: Option<String>,
    pub status: Option<Literal<'a>>,
    pub arguments: Option<Literal<'a>>,
    /// Arguments that came as an object.
    pub arguments_object: Option<&'a [u8]>,
    pub input: Option<Literal<'a>>,
    pub content: Vec<Part<'a>>,
    pub summary: Vec<Part<'a>>,
    pub encrypted_content: Option<Literal<'a>>,
    pub execution: Option<Literal<'a>>,
    pub environment: Option<Literal<'a>>,
    pub result: Option<Literal<'a>>,
    pub output_format: Option<Literal<'a>>,
    /// An `error` that is not null.
    pub failed: bool,
    pub raw: &'a [u8],
}

/// A content part or a summary part.
#[derive(Default)]
pub(super) struct Part<'a> {
    pub kind: Option<Literal<'a>>,
    pub text: Option<Literal<'a>>,
    pub refusal: Option<Literal<'a>>,
    pub annotations: Vec<Annotation<'a>>,
}

/// A source, a file or a place that text refers to.
#[derive(Default)]
pub(super) struct Annotation<'a> {
    pub kind: Option<Literal<'a>>,
    pub url: Option<Literal<'a>>,
    pub title: Option<Literal<'a>>,
    pub filename: Option<Literal<'a>>,
    pub start: Option<u64>,
    pub end: Option<u64>,
    pub raw: &'a [u8],
}

/// A response object.
#[derive(Default)]
pub(super) struct Body<'a> {
    pub kind: Option<Literal<'a>>,
    pub id: Option<Literal<'a>>,
    pub model: Option<Literal<'a>>,
    pub status: Option<Literal<'a>>,
    pub incomplete_reason: Option<Literal<'a>>,
    /// An `error` that is not null.
    pub error: Option<&'a [u8]>,
    pub usage: Option<Tokens<'a>>,
    /// An array.
    pub output: Option<&'a [u8]>,
    /// What is in it, where that was asked for.
    pub items: Vec<Item<'a>>,
}

/// The counts of a usage object.
#[derive(Default)]
pub(super) struct Tokens<'a> {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub total: Option<u64>,
    pub cached: Option<u64>,
    pub cache_write: Option<u64>,
    pub reasoning: Option<u64>,
    pub raw: &'a [u8],
}

/// One stream event. The `output` of a response in it is checked and kept, not taken apart: the items came before it.
pub(super) fn frame(json: &[u8]) -> Scan<Frame<'_>> {
    let mut frame = Frame::default();
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => frame.kind = s.string_or_skip()?,
            b"output_index" => frame.place.output_index = s.count_or_skip()?,
            b"item_id" => frame.place.item_id = s.string_or_skip()?,
            b"content_index" | b"summary_index" => frame.place.part_index = s.count_or_skip()?.unwrap_or(0),
            b"delta" => frame.delta = s.string_or_skip()?,
            b"text" => frame.text = s.string_or_skip()?,
            b"refusal" => frame.refusal = s.string_or_skip()?,
            b"name" => frame.name = s.string_or_skip()?,
            b"arguments" => frame.arguments = s.string_or_skip()?,
            b"input" => frame.input = s.string_or_skip()?,
            b"part" => frame.part = part(&mut s, json)?.map(Box::new),
            b"item" => frame.item = item(&mut s, json)?.map(Box::new),
            b"response" => {
                if let Some(mut members) = s.object_or_skip()? {
                    let mut response = Box::<Body<'_>>::default();
                    while let Some(key) = s.key(&mut members)? {
                        member(&mut response, key, &mut s, json, false)?;
                    }
                    frame.response = Some(response);
                }
            }
            b"annotation" => frame.annotation = annotation(&mut s, json)?.map(Box::new),
            b"partial_image_b64" => frame.partial_image = s.string_or_skip()?,
            b"output_format" => frame.output_format = s.string_or_skip()?,
            b"error" => frame.error = not_null(s.skip()?),
            _ => frame.ignored.skip(&mut s)?,
        }
    }
    s.end()?;
    Ok(frame)
}

/// A whole body: a response, or an error.
pub(super) fn body(json: &[u8]) -> Scan<Body<'_>> {
    let mut body = Body::default();
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        member(&mut body, key, &mut s, json, true)?;
    }
    s.end()?;
    Ok(body)
}

/// The items of an `output` that [`frame`] has kept.
pub(super) fn items(output: &[u8]) -> Scan<Vec<Item<'_>>> {
    let mut s = Scanner::new(output);
    let mut list = Vec::new();
    let mut items = s.array()?;
    while s.item(&mut items)? {
        list.extend(item(&mut s, output)?);
    }
    Ok(list)
}

fn member<'a>(
    body: &mut Body<'a>,
    key: Literal<'a>,
    s: &mut Scanner<'a>,
    json: &'a [u8],
    with_items: bool,
) -> Scan<()> {
    match key.raw {
        b"type" => body.kind = s.string_or_skip()?,
        b"id" => body.id = s.string_or_skip()?,
        b"model" => body.model = s.string_or_skip()?,
        b"status" => body.status = s.string_or_skip()?,
        b"error" => body.error = not_null(s.skip()?),
        b"usage" => body.usage = tokens(s, json)?,
        b"incomplete_details" => {
            let Some(mut members) = s.object_or_skip()? else { return Ok(()) };
            while let Some(key) = s.key(&mut members)? {
                let value = s.string_or_skip()?;
                if key.raw == b"reason" {
                    body.incomplete_reason = value;
                }
            }
        }
        b"output" if s.kind()? == Kind::Array => {
            let start = s.pos();
            if with_items {
                let mut items = s.array()?;
                while s.item(&mut items)? {
                    body.items.extend(item(s, json)?);
                }
            } else {
                s.skip()?;
            }
            body.output = Some(&json[start..s.pos()]);
        }
        _ => {
            s.skip()?;
        }
    }
    Ok(())
}

fn item<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Item<'a>>> {
    if s.kind()? != Kind::Object {
        s.skip()?;
        return Ok(None);
    }
    let start = s.pos();
    let mut item = Item::default();
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => item.kind = s.string_or_skip()?,
            b"id" => item.id = s.string_or_skip()?,
            b"call_id" => item.call_id = s.string_or_skip()?,
            b"name" => item.name = s.string_or_skip()?,
            b"namespace" => item.namespace = s.string_or_skip()?,
            b"caller" => item.caller = another(s.skip()?)?,
            b"status" => item.status = s.string_or_skip()?,
            b"arguments" if s.kind()? == Kind::Object => item.arguments_object = Some(s.skip()?),
            b"arguments" => item.arguments = s.string_or_skip()?,
            b"input" => item.input = s.string_or_skip()?,
            b"content" => item.content = parts(s, json)?,
            b"summary" => item.summary = parts(s, json)?,
            b"encrypted_content" => item.encrypted_content = s.string_or_skip()?,
            b"execution" => item.execution = s.string_or_skip()?,
            b"environment" => {
                let Some(mut members) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut members)? {
                    let value = s.string_or_skip()?;
                    if key.raw == b"type" {
                        item.environment = value;
                    }
                }
            }
            b"result" => item.result = s.string_or_skip()?,
            b"output_format" => item.output_format = s.string_or_skip()?,
            b"error" => item.failed = not_null(s.skip()?).is_some(),
            _ => {
                s.skip()?;
            }
        }
    }
    item.raw = &json[start..s.pos()];
    Ok(Some(item))
}

fn parts<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Vec<Part<'a>>> {
    let mut list = Vec::new();
    let Some(mut items) = s.array_or_skip()? else { return Ok(list) };
    while s.item(&mut items)? {
        // The place in the list is the part's index, so what is no object keeps its place.
        list.push(part(s, json)?.unwrap_or_default());
    }
    Ok(list)
}

fn part<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Part<'a>>> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let mut part = Part::default();
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => part.kind = s.string_or_skip()?,
            b"text" => part.text = s.string_or_skip()?,
            b"refusal" => part.refusal = s.string_or_skip()?,
            b"annotations" => {
                let Some(mut items) = s.array_or_skip()? else { continue };
                while s.item(&mut items)? {
                    part.annotations.extend(annotation(s, json)?);
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(part))
}

fn annotation<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Annotation<'a>>> {
    if s.kind()? != Kind::Object {
        s.skip()?;
        return Ok(None);
    }
    let start = s.pos();
    let mut annotation = Annotation::default();
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => annotation.kind = s.string_or_skip()?,
            b"url" => annotation.url = s.string_or_skip()?,
            b"title" => annotation.title = s.string_or_skip()?,
            b"filename" => annotation.filename = s.string_or_skip()?,
            b"start_index" => annotation.start = s.count_or_skip()?,
            b"end_index" => annotation.end = s.count_or_skip()?,
            _ => {
                s.skip()?;
            }
        }
    }
    annotation.raw = &json[start..s.pos()];
    Ok(Some(annotation))
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
            b"output_tokens" => tokens.output = s.count_or_skip()?,
            b"total_tokens" => tokens.total = s.count_or_skip()?,
            b"input_tokens_details" | b"output_tokens_details" => {
                let Some(mut inner) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut inner)? {
                    let count = s.count_or_skip()?;
                    match key.raw {
                        b"cached_tokens" => tokens.cached = count,
                        b"cache_write_tokens" => tokens.cache_write = count,
                        b"reasoning_tokens" => tokens.reasoning = count,
                        _ => {}
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

fn not_null(raw: &[u8]) -> Option<&[u8]> {
    (raw != b"null").then_some(raw)
}

/// A caller that is not the model itself, spelled in one way whatever blanks it came with.
fn another(raw: &[u8]) -> Scan<Option<String>> {
    let mut s = Scanner::new(raw);
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let (mut direct, mut said) = (false, Vec::new());
    while let Some(key) = s.key(&mut members)? {
        let value = s.skip()?;
        direct |= key.is("type") && value == b"\"direct\"";
        let (key, value) = (String::from_utf8_lossy(key.raw), String::from_utf8_lossy(value));
        said.push(format!("\"{key}\":{value}"));
    }
    Ok((!direct).then(|| format!("{{{}}}", said.join(","))))
}
