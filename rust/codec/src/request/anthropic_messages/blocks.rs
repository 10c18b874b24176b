//! Content blocks become parts.

use super::super::error::{RequestError, Res};
use super::super::flags::Flag;
use super::super::neutral::{Call, Input, Kept, Mark, Message, Part, Place, Reasoning, Role, Str, ToolResult};
use super::super::reader::{Reader, type_of};
use super::super::{bedrock_converse, options};
use super::{BLOCK, BLOCK_TYPES, NO_DOCUMENT, SOURCE};
use crate::event::Protocol;
use crate::json::{Kind, Scanner};
use crate::limits::MAX_PART_DEPTH;
use crate::loss::LossAction;

/// A text, or a list of blocks. `depth` counts the blocks around it.
pub(super) fn content<'a>(
    r: &mut Reader<'_>,
    s: &mut Scanner<'a>,
    key: &'static str,
    depth: usize,
) -> Res<Vec<Part<'a>>> {
    if depth > MAX_PART_DEPTH {
        return Err(RequestError::invalid(None, format!("blocks stand in blocks more than {MAX_PART_DEPTH} deep")));
    }
    if s.kind()? == Kind::String {
        return Ok(vec![Part::Text(s.string()?.into(), None)]);
    }
    let mut parts = Vec::new();
    r.each(s, key, |r, s| block(r, s, depth, &mut parts))?;
    Ok(parts)
}

/// Results and what else a user's message holds, as messages of their own.
pub(super) fn split<'a>(parts: Vec<Part<'a>>, out: &mut Vec<Message<'a>>) {
    let mut said = Vec::new();
    for part in parts {
        if matches!(part, Part::Result(_)) {
            if !said.is_empty() {
                out.push(Message::new(Role::User, std::mem::take(&mut said)));
            }
            out.push(Message::new(Role::Tool, vec![part]));
        } else {
            said.push(part);
        }
    }
    if !said.is_empty() {
        out.push(Message::new(Role::User, said));
    }
}

/// What a source says of the content.
enum Holds<'a> {
    Bytes(Place<'a>),
    /// Text or blocks, which stand in the block's `inside`.
    Parts,
}

/// The fields of one block, whatever their order. What has a shape of its own is read once the type is known.
#[derive(Default)]
struct Block<'a> {
    text: Option<Str<'a>>,
    title: Option<Str<'a>>,
    thinking: Option<Str<'a>>,
    kept: Option<Kept>,
    id: Option<Str<'a>>,
    name: Option<Str<'a>>,
    is_error: bool,
    mark: Option<Mark<'a>>,
    input: Option<&'a [u8]>,
    /// Of a picture or a document.
    source: Option<Holds<'a>>,
    /// A search result's source.
    origin: Option<Str<'a>>,
    /// What a result or a search result holds, or a document that is no bytes.
    inside: Vec<Part<'a>>,
}

fn block<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, depth: usize, out: &mut Vec<Part<'a>>) -> Res<()> {
    if s.kind()? != Kind::Object {
        return r.expected("", "an object");
    }
    let Some(kind) = type_of(s)? else { return r.missing("type") };
    let kind = kind.decode().into_owned();
    if r.kind(&BLOCK_TYPES, &kind)?.is_none() {
        s.skip()?;
        return Ok(());
    }
    let mut b = Block::default();
    let mut open = r.object(s, &BLOCK)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "text" => b.text = Some(r.string(s)?),
            "title" => b.title = Some(r.string(s)?),
            "thinking" => b.thinking = Some(r.string(s)?),
            "signature" => b.kept = r.unwrap(s.string()?, "signature"),
            "data" => b.kept = r.unwrap(s.string()?, "data"),
            "id" | "tool_use_id" => b.id = Some(r.string(s)?),
            "name" => b.name = Some(r.string(s)?),
            "is_error" => b.is_error = s.boolean()?,
            "cache_control" => b.mark = Some(mark(s)?),
            "input" if kind == "tool_use" => {
                if s.kind()? != Kind::Object {
                    return r.expected("input", "an object");
                }
                b.input = Some(s.skip()?);
            }
            "source" if matches!(kind.as_str(), "image" | "document") => {
                b.source = Some(source(r, s, depth, &mut b.inside)?);
            }
            "source" if kind == "search_result" => b.origin = Some(r.string(s)?),
            "content" if matches!(kind.as_str(), "tool_result" | "search_result") => {
                b.inside = content(r, s, "content", depth + 1)?;
            }
            _ => {
                s.skip()?;
            }
        }
    }
    let mark = b.mark;
    match kind.as_str() {
        "text" => match b.text {
            Some(text) => out.push(Part::Text(text, None)),
            None => return r.missing("text"),
        },
        "image" => {
            let Some(source) = b.source else { return r.missing("source") };
            let Holds::Bytes(from) = source else { return r.expected("source", "a picture") };
            options::pictured(r, &from, "source.url")?;
            out.push(Part::Image { from, detail: None, mark: None });
        }
        "document" => document(r, b, out)?,
        "search_result" => search_result(r, b, out)?,
        "thinking" | "redacted_thinking" => {
            let texts: Vec<Str<'a>> = b.thinking.filter(|t| !t.is_empty()).into_iter().collect();
            if b.kept.is_some() || (r.echoes() && !texts.is_empty()) {
                out.push(Part::Reasoning(Reasoning { texts, kept: b.kept }));
            } else if !texts.is_empty() {
                r.loss(LossAction::Dropped, "thinking");
            }
        }
        "tool_use" => out.push(Part::Call(call(r, b)?)),
        "tool_result" => {
            let Some(id) = b.id else { return r.missing("tool_use_id") };
            if b.is_error && !matches!(r.target, Protocol::AnthropicMessages | Protocol::GoogleGemini) {
                r.loss(LossAction::Dropped, "is_error");
            }
            out.push(Part::Result(ToolResult { id, is_error: b.is_error, parts: b.inside, extra: None }));
        }
        _ => {}
    }
    // Only a target that marks with blocks of its own sees one.
    out.extend(mark.map(|mark| Part::Raw(bedrock_converse::point(mark))));
    Ok(())
}

/// Up to where the prompt is to be cached.
pub(super) fn mark<'a>(s: &mut Scanner<'a>) -> Res<Mark<'a>> {
    let (mut ahead, raw) = (s.clone(), s.skip()?);
    let mut long = false;
    let mut items = ahead.object()?;
    while let Some(key) = ahead.key(&mut items)? {
        if key.is("ttl") {
            long = ahead.string_or_skip()?.is_some_and(|ttl| ttl.is("1h"));
        } else {
            ahead.skip()?;
        }
    }
    Ok(Mark { raw, long })
}

fn call<'a>(r: &mut Reader<'_>, b: Block<'a>) -> Res<Call<'a>> {
    let Some(id) = b.id else { return r.missing("id") };
    let Some(name) = b.name else { return r.missing("name") };
    let input = Input::Object(b.input.unwrap_or(b"{}"));
    Ok(Call { id, name, input, custom: false, extra: None })
}

fn document<'a>(r: &mut Reader<'_>, mut b: Block<'a>, out: &mut Vec<Part<'a>>) -> Res<()> {
    let Some(source) = b.source else { return r.missing("source") };
    let Holds::Bytes(from) = source else {
        // A document of text, or of blocks, stands in the message as such.
        if b.title.is_some_and(|t| !t.is_empty()) {
            r.loss(LossAction::Dropped, "title");
        }
        out.append(&mut b.inside);
        return Ok(());
    };
    if !r.has(Flag::Files) {
        return r.refuse("source", NO_DOCUMENT);
    }
    options::filed(r, &from, "source")?;
    if matches!(from, Place::Url(_)) && r.is_to_chat() {
        return r.refuse("source.url", "Chat takes no file by URL");
    }
    out.push(Part::File { from, name: b.title, mark: None });
    Ok(())
}

/// A search result as the texts that it is made of, its title and source before them.
fn search_result<'a>(r: &mut Reader<'_>, b: Block<'a>, out: &mut Vec<Part<'a>>) -> Res<()> {
    let Some(source) = b.origin else { return r.missing("source") };
    let title = b.title.map(|t| t.decode().into_owned()).unwrap_or_default();
    out.push(Part::Text(Str::Own(format!("{title}\n{}\n", source.decode())), None));
    out.extend(b.inside);
    Ok(())
}

/// Reads a source; text and blocks go into `inside`.
fn source<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, depth: usize, inside: &mut Vec<Part<'a>>) -> Res<Holds<'a>> {
    r.enter("source");
    let mut kind: Option<Str<'a>> = None;
    let (mut mime, mut data, mut url) = (None, None, None);
    let mut blocks = None;
    let mut open = r.object(s, &SOURCE)?;
    while let Some(key) = r.next(s, &mut open)? {
        match key {
            "type" => kind = Some(r.string(s)?),
            "media_type" => mime = Some(r.string(s)?),
            "data" => data = Some(r.string(s)?),
            "url" => url = Some(r.string(s)?),
            _ => blocks = Some(content(r, s, "content", depth + 1)?),
        }
    }
    let Some(kind) = kind else { return r.missing("type") };
    let holds = match &*kind.decode() {
        "base64" => match (mime, data) {
            (Some(mime), Some(data)) => Holds::Bytes(Place::Base64 { mime, data }),
            (None, _) => return r.missing("media_type"),
            (_, None) => return r.missing("data"),
        },
        "url" => match url {
            Some(url) => Holds::Bytes(Place::Url(url)),
            None => return r.missing("url"),
        },
        "text" => match data {
            Some(text) => {
                inside.push(Part::Text(text, None));
                Holds::Parts
            }
            None => return r.missing("data"),
        },
        "content" => {
            inside.extend(blocks.unwrap_or_default());
            Holds::Parts
        }
        _ => return r.expected("type", "base64, url, text or content"),
    };
    r.leave();
    Ok(holds)
}
