//! A `GenerateContentResponse` as far as the normaliser looks at it: a strict walk that changes nothing.

use crate::json::{Kind, Scan, Scanner};
use crate::limits::MAX_BLOCKS;
use crate::text::Literal;

#[derive(Debug, Default)]
pub(super) struct Frame<'a> {
    pub has_error: bool,
    pub model: Option<Literal<'a>>,
    pub id: Option<Literal<'a>>,
    pub candidate: Option<Candidate<'a>>,
    pub usage: Option<Tokens<'a>>,
    /// Why the prompt was refused.
    pub block: Option<Literal<'a>>,
}

#[derive(Debug, Default)]
pub(super) struct Candidate<'a> {
    pub parts: Vec<Part<'a>>,
    /// There are more parts, or pieces of arguments, or sources than are read.
    pub excess: bool,
    pub finish: Option<Literal<'a>>,
    pub finish_message: Option<Literal<'a>>,
    pub grounding: Option<Grounding<'a>>,
    pub citations: Vec<Citation<'a>>,
    /// `urlContextMetadata`, where it tells of anything.
    pub urls: Option<&'a [u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Part<'a> {
    /// The whole part.
    pub raw: &'a [u8],
    pub thought: bool,
    pub signature: Option<Literal<'a>>,
    pub holds: Holds<'a>,
}

#[derive(Debug, Default)]
pub(super) enum Holds<'a> {
    #[default]
    Nothing,
    Text(Literal<'a>),
    Call(Call<'a>),
    Media {
        mime: Option<Literal<'a>>,
        data: Option<Literal<'a>>,
        url: Option<Literal<'a>>,
    },
    /// What the provider runs itself.
    Hosted {
        key: &'static str,
        id: Option<Literal<'a>>,
        kind: Option<Literal<'a>>,
        outcome: Option<Literal<'a>>,
    },
}

#[derive(Debug, Default)]
pub(super) struct Call<'a> {
    pub id: Option<Literal<'a>>,
    pub name: Option<Literal<'a>>,
    pub args: Option<&'a [u8]>,
    /// The items of `partialArgs`.
    pub pieces: Vec<Piece<'a>>,
    pub will_continue: bool,
    pub excess: bool,
}

/// One value of the arguments, or a piece of it.
#[derive(Debug, Default)]
pub(super) struct Piece<'a> {
    pub path: Option<Literal<'a>>,
    pub string: Option<Literal<'a>>,
    /// A number, `true`, `false` or `null` as it stood.
    pub plain: Option<&'a [u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Tokens<'a> {
    pub raw: &'a [u8],
    pub prompt: Option<u64>,
    pub cached: Option<u64>,
    pub candidates: Option<u64>,
    pub thoughts: Option<u64>,
    pub tool_use: Option<u64>,
    /// Any count was there.
    pub counts: bool,
}

#[derive(Debug, Default)]
pub(super) struct Grounding<'a> {
    /// The list of what was searched for.
    pub queries: Option<&'a [u8]>,
    pub chunks: Vec<Source<'a>>,
    pub supports: Vec<Support>,
}

#[derive(Debug, Default)]
pub(super) struct Source<'a> {
    pub raw: &'a [u8],
    pub uri: Option<Literal<'a>>,
    pub title: Option<Literal<'a>>,
}

#[derive(Debug, Default)]
pub(super) struct Support {
    pub start: u64,
    pub end: Option<u64>,
    /// Indexes of the chunks.
    pub of: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Citation<'a> {
    pub raw: &'a [u8],
    pub start: u64,
    pub end: Option<u64>,
    pub uri: Option<Literal<'a>>,
    pub title: Option<Literal<'a>>,
}

/// Adds to a list of what one frame holds; false where it is full.
fn add<T>(list: &mut Vec<T>, item: Option<T>) -> bool {
    let fits = list.len() < MAX_BLOCKS;
    list.extend(item.filter(|_| fits));
    fits
}

/// One response, or one chunk of it: they have the same shape.
pub(super) fn frame(json: &[u8]) -> Scan<Frame<'_>> {
    let mut s = Scanner::new(json);
    let mut frame = Frame::default();
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"candidates" => frame.candidate = candidates(&mut s)?.or(frame.candidate),
            b"usageMetadata" => frame.usage = tokens(&mut s, json)?,
            b"modelVersion" => frame.model = s.string_or_skip()?,
            b"responseId" => frame.id = s.string_or_skip()?,
            b"promptFeedback" => {
                let Some(mut inner) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut inner)? {
                    if key.raw == b"blockReason" {
                        frame.block = s.string_or_skip()?.filter(|b| !b.raw.is_empty());
                    } else {
                        s.skip()?;
                    }
                }
            }
            b"error" => frame.has_error = s.skip()? != b"null",
            _ => {
                s.skip()?;
            }
        }
    }
    s.end()?;
    Ok(frame)
}

/// The first candidate (rule R20): the one of index 0, or the first where none says.
fn candidates<'a>(s: &mut Scanner<'a>) -> Scan<Option<Candidate<'a>>> {
    let Some(mut items) = s.array_or_skip()? else { return Ok(None) };
    let mut found = None;
    while s.item(&mut items)? {
        let (candidate, index) = candidate(s)?;
        if found.is_none() && index.unwrap_or(0) == 0 {
            found = candidate;
        }
    }
    Ok(found)
}

fn candidate<'a>(s: &mut Scanner<'a>) -> Scan<(Option<Candidate<'a>>, Option<u64>)> {
    let Some(mut members) = s.object_or_skip()? else { return Ok((None, None)) };
    let (mut c, mut index) = (Candidate::default(), None);
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"content" => {
                let Some(mut inner) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut inner)? {
                    if key.raw == b"parts" {
                        let Some(mut items) = s.array_or_skip()? else { continue };
                        while s.item(&mut items)? {
                            let part = part(s)?;
                            c.excess |= matches!(&part, Some(Part { holds: Holds::Call(call), .. }) if call.excess);
                            c.excess |= !add(&mut c.parts, part);
                        }
                    } else {
                        s.skip()?;
                    }
                }
            }
            b"index" => index = s.count_or_skip()?,
            b"finishReason" => c.finish = s.string_or_skip()?.filter(|f| !f.raw.is_empty()),
            b"finishMessage" => c.finish_message = s.string_or_skip()?,
            b"groundingMetadata" => c.grounding = grounding(s, &mut c.excess)?,
            b"citationMetadata" => citations(s, &mut c.citations, &mut c.excess)?,
            b"urlContextMetadata" => c.urls = Some(s.skip()?).filter(|raw| raw.len() > 2 && raw[0] == b'{'),
            _ => {
                s.skip()?;
            }
        }
    }
    Ok((Some(c), index))
}

fn part<'a>(s: &mut Scanner<'a>) -> Scan<Option<Part<'a>>> {
    if s.kind()? != Kind::Object {
        s.skip()?;
        return Ok(None);
    }
    // Read twice: the whole of it is kept for what is given back as it came.
    let mut inside = s.clone();
    let mut part = Part { raw: s.skip()?, ..Part::default() };
    let s = &mut inside;
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"text" => part.holds = s.string_or_skip()?.map_or(part.holds, Holds::Text),
            b"thought" => part.thought = s.skip()? == b"true",
            b"thoughtSignature" => part.signature = s.string_or_skip()?.filter(|t| !t.raw.is_empty()),
            b"functionCall" => {
                if let Some(call) = call(s)? {
                    part.holds = Holds::Call(call);
                }
            }
            b"inlineData" | b"fileData" => {
                let Some(mut inner) = s.object_or_skip()? else { continue };
                let (mut mime, mut data, mut url) = (None, None, None);
                while let Some(key) = s.key(&mut inner)? {
                    match key.raw {
                        b"mimeType" => mime = s.string_or_skip()?,
                        b"data" => data = s.string_or_skip()?,
                        b"fileUri" => url = s.string_or_skip()?,
                        _ => {
                            s.skip()?;
                        }
                    }
                }
                part.holds = Holds::Media { mime, data, url };
            }
            b"executableCode" => part.holds = hosted(s, "executableCode")?.unwrap_or(part.holds),
            b"codeExecutionResult" => part.holds = hosted(s, "codeExecutionResult")?.unwrap_or(part.holds),
            b"toolCall" => part.holds = hosted(s, "toolCall")?.unwrap_or(part.holds),
            b"toolResponse" => part.holds = hosted(s, "toolResponse")?.unwrap_or(part.holds),
            _ => {
                s.skip()?;
            }
        }
    }
    let is_empty = matches!(part.holds, Holds::Nothing) && part.signature.is_none();
    Ok(Some(part).filter(|_| !is_empty))
}

fn hosted<'a>(s: &mut Scanner<'a>, key: &'static str) -> Scan<Option<Holds<'a>>> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let (mut id, mut kind, mut outcome) = (None, None, None);
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"id" => id = s.string_or_skip()?,
            b"toolType" => kind = s.string_or_skip()?,
            b"outcome" => outcome = s.string_or_skip()?,
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(Holds::Hosted { key, id, kind, outcome }))
}

fn call<'a>(s: &mut Scanner<'a>) -> Scan<Option<Call<'a>>> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let mut call = Call::default();
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"id" => call.id = s.string_or_skip()?,
            b"name" => call.name = s.string_or_skip()?.filter(|n| !n.raw.is_empty()),
            b"args" => call.args = Some(s.skip()?).filter(|raw| *raw != b"null"),
            b"willContinue" => call.will_continue = s.skip()? == b"true",
            b"partialArgs" => {
                let Some(mut items) = s.array_or_skip()? else { continue };
                while s.item(&mut items)? {
                    let piece = piece(s)?;
                    call.excess |= !add(&mut call.pieces, piece);
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(call))
}

fn piece<'a>(s: &mut Scanner<'a>) -> Scan<Option<Piece<'a>>> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let mut piece = Piece::default();
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"jsonPath" => piece.path = s.string_or_skip()?,
            b"stringValue" => piece.string = s.string_or_skip()?,
            b"numberValue" | b"boolValue" => piece.plain = Some(s.skip()?),
            // The enumeration's name, or its number, or a null: it says the same.
            b"nullValue" => {
                s.skip()?;
                piece.plain = Some(b"null");
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(piece))
}

fn tokens<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Tokens<'a>>> {
    if s.kind()? != Kind::Object {
        s.skip()?;
        return Ok(None);
    }
    let start = s.pos();
    let mut t = Tokens::default();
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        let place = match key.raw {
            b"promptTokenCount" => &mut t.prompt,
            b"cachedContentTokenCount" => &mut t.cached,
            b"candidatesTokenCount" => &mut t.candidates,
            b"thoughtsTokenCount" => &mut t.thoughts,
            b"toolUsePromptTokenCount" => &mut t.tool_use,
            _ => {
                s.skip()?;
                continue;
            }
        };
        *place = s.count_or_skip()?;
        t.counts |= place.is_some();
    }
    t.raw = &json[start..s.pos()];
    Ok(Some(t))
}

/// A usage object that stands alone.
pub(super) fn usage(json: &[u8]) -> Scan<Option<Tokens<'_>>> {
    tokens(&mut Scanner::new(json), json)
}

/// Whether a usage object holds a count for certain, told from its beginning. `json` is known to be JSON.
pub(super) fn has_counts(json: &[u8]) -> bool {
    let Some(rest) = json.strip_prefix(b"{\"promptTokenCount\":") else { return false };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    // So many digits fit, and what follows makes no fraction of them.
    (1..=15).contains(&digits) && matches!(rest.get(digits), Some(b',' | b'}'))
}

fn grounding<'a>(s: &mut Scanner<'a>, excess: &mut bool) -> Scan<Option<Grounding<'a>>> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let mut g = Grounding::default();
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"webSearchQueries" => g.queries = Some(s.skip()?).filter(|raw| raw.len() > 2 && raw[0] == b'['),
            b"groundingChunks" => {
                let Some(mut items) = s.array_or_skip()? else { continue };
                while s.item(&mut items)? {
                    let chunk = chunk(s)?;
                    *excess |= !add(&mut g.chunks, Some(chunk));
                }
            }
            b"groundingSupports" => {
                let Some(mut items) = s.array_or_skip()? else { continue };
                while s.item(&mut items)? {
                    let support = support(s)?;
                    *excess |= !add(&mut g.supports, support);
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(g))
}

/// `{"web": {"uri", "title"}}`, or another kind of source in the place of `web`.
fn chunk<'a>(s: &mut Scanner<'a>) -> Scan<Source<'a>> {
    let mut inside = s.clone();
    let mut source = Source { raw: s.skip()?, ..Source::default() };
    let Some(mut kinds) = inside.object_or_skip()? else { return Ok(source) };
    while inside.key(&mut kinds)?.is_some() {
        let Some(mut members) = inside.object_or_skip()? else { continue };
        while let Some(key) = inside.key(&mut members)? {
            match key.raw {
                b"uri" => source.uri = inside.string_or_skip()?,
                b"title" => source.title = inside.string_or_skip()?,
                _ => {
                    inside.skip()?;
                }
            }
        }
    }
    Ok(source)
}

fn support(s: &mut Scanner<'_>) -> Scan<Option<Support>> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    let mut support = Support::default();
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"segment" => {
                let Some(mut inner) = s.object_or_skip()? else { continue };
                while let Some(key) = s.key(&mut inner)? {
                    match key.raw {
                        b"startIndex" => support.start = s.count_or_skip()?.unwrap_or(0),
                        b"endIndex" => support.end = s.count_or_skip()?,
                        _ => {
                            s.skip()?;
                        }
                    }
                }
            }
            b"groundingChunkIndices" => {
                let Some(mut items) = s.array_or_skip()? else { continue };
                while s.item(&mut items)? {
                    let index = s.count_or_skip()?;
                    add(&mut support.of, index);
                }
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(Some(support))
}

fn citations<'a>(s: &mut Scanner<'a>, out: &mut Vec<Citation<'a>>, excess: &mut bool) -> Scan<()> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(()) };
    while let Some(key) = s.key(&mut members)? {
        // The older surface calls them sources.
        if !matches!(key.raw, b"citations" | b"citationSources") {
            s.skip()?;
            continue;
        }
        let Some(mut items) = s.array_or_skip()? else { continue };
        while s.item(&mut items)? {
            let mut inside = s.clone();
            let mut citation = Citation { raw: s.skip()?, ..Citation::default() };
            let Some(mut members) = inside.object_or_skip()? else { continue };
            while let Some(key) = inside.key(&mut members)? {
                match key.raw {
                    b"startIndex" => citation.start = inside.count_or_skip()?.unwrap_or(0),
                    b"endIndex" => citation.end = inside.count_or_skip()?,
                    b"uri" => citation.uri = inside.string_or_skip()?,
                    b"title" => citation.title = inside.string_or_skip()?,
                    _ => {
                        inside.skip()?;
                    }
                }
            }
            *excess |= !add(out, Some(citation));
        }
    }
    Ok(())
}
