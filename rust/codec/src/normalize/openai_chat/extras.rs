//! What vendors add to Chat: typed content parts, images, audio, annotations, tools that they ran themselves.
//!
//! Everything here has been validated by the chunk's own reading. An entry of an unknown kind is ignored.

use super::chunk::{Extra, member, string_member, thought_signature};
use super::{OpenaiChat, REASONING, REFUSAL, TEXT};
use crate::event::{AttachTo, ContinuationForm, HostedPhase, ReasoningKind};
use crate::json::{Kind, Scan, Scanner};
use crate::normalize::Out;
use crate::text::{Literal, Text};

/// Gives out one of the extras of a delta, those that come after its text.
pub(super) fn give(extra: Extra, raw: &[u8], whole: bool, out: &mut Out<'_>) -> Scan<()> {
    match extra {
        Extra::Details => Ok(()),
        Extra::Steps => each(raw, |step| {
            if let Some(thought) = string_member(step, "thought")? {
                out.reasoning(REASONING, ReasoningKind::Raw, Text::Literal(thought));
            }
            Ok(())
        }),
        Extra::Images => each(raw, |image| image_url(image, out)),
        Extra::Audio => audio(raw, whole, out),
        Extra::Annotations => each(raw, |entry| annotation(entry, out)),
        Extra::HostedTools => each(raw, |tool| hosted_tool(tool, out)),
        Extra::Signed => {
            if let Some(signature) = thought_signature(raw)? {
                let (to, index) = out.seen(TEXT).map_or((AttachTo::Response, 0), |index| (AttachTo::Text, index));
                out.continuation(ContinuationForm::ThoughtSignature, Text::Literal(signature), to, index);
            }
            Ok(())
        }
    }
}

/// Content that is a list of typed parts.
pub(super) fn parts(chat: &mut OpenaiChat, list: &[u8], reasoned: bool, out: &mut Out<'_>) -> Scan<()> {
    let mut s = Scanner::new(list);
    let mut items = s.array()?;
    while s.item(&mut items)? {
        match s.kind()? {
            Kind::String => chat.text(s.string()?, out),
            Kind::Object => {
                let raw = s.skip()?;
                part(chat, raw, reasoned, out)?;
            }
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(())
}

fn part(chat: &mut OpenaiChat, raw: &[u8], reasoned: bool, out: &mut Out<'_>) -> Scan<()> {
    let Some(kind) = string_member(raw, "type")? else { return Ok(()) };
    match kind.decode().as_ref() {
        "text" | "output_text" => {
            if let Some(text) = string_member(raw, "text")? {
                chat.text(text, out);
            }
        }
        "refusal" => {
            if let Some(text) = string_member(raw, "refusal")? {
                chat.spoke = true;
                out.refusal(REFUSAL, Text::Literal(text));
            }
        }
        "thinking" => thought(raw, "thinking", ReasoningKind::Raw, reasoned, out)?,
        "reasoning" => {
            thought(raw, "summary", ReasoningKind::Summary, reasoned, out)?;
            thought(raw, "text", ReasoningKind::Raw, reasoned, out)?;
        }
        "image_url" | "image" => image_url(raw, out)?,
        "reference" => out.annotation(Text::Plain("reference"), None, None, None, raw),
        _ => {}
    }
    Ok(())
}

/// Reasoning as a string or a list of text parts, and the signature beside or inside it.
fn thought(raw: &[u8], field: &str, kind: ReasoningKind, reasoned: bool, out: &mut Out<'_>) -> Scan<()> {
    let mut signatures = Vec::new();
    if let Some(value) = member(raw, field)? {
        let mut say = |text: Literal<'_>| {
            if !reasoned {
                out.reasoning(REASONING, kind, Text::Literal(text));
            }
        };
        match Scanner::new(value).kind()? {
            Kind::String => say(Scanner::new(value).string()?),
            Kind::Array => each(value, |inner| {
                if let Some(text) = string_member(inner, "text")? {
                    say(text);
                }
                signatures.extend(string_member(inner, "signature")?.map(|s| s.decode().into_owned()));
                Ok(())
            })?,
            _ => {}
        }
    } else if field == "text" {
        return Ok(());
    }
    if field != "text" {
        signatures.extend(string_member(raw, "signature")?.map(|s| s.decode().into_owned()));
    }
    for signature in signatures {
        let (to, index) = out.seen(REASONING).map_or((AttachTo::Response, 0), |index| (AttachTo::Reasoning, index));
        out.continuation(ContinuationForm::Signature, Text::Plain(&signature), to, index);
    }
    Ok(())
}

/// Strings or objects with a URL; the list is repeated and grows, so those given out before are passed over.
pub(super) fn citations(list: &[u8], known: usize, out: &mut Out<'_>) -> Scan<usize> {
    let (mut s, mut count) = (Scanner::new(list), 0);
    let mut items = s.array()?;
    while s.item(&mut items)? {
        let raw = s.skip()?;
        count += 1;
        if count <= known {
            continue;
        }
        let kind = Text::Plain("citation");
        match Scanner::new(raw).string() {
            Ok(url) => out.annotation(kind, Some(Text::Literal(url)), None, None, raw),
            Err(_) => linked(kind, raw, raw, out)?,
        }
    }
    Ok(count.max(known))
}

/// As [`citations`], with titles.
pub(super) fn search_results(list: &[u8], known: usize, out: &mut Out<'_>) -> Scan<usize> {
    let mut count = 0;
    each(list, |raw| {
        count += 1;
        if count > known { linked(Text::Plain("search_result"), raw, raw, out) } else { Ok(()) }
    })?;
    Ok(count.max(known))
}

/// Whether the first entry of `reasoning_details` is a summary.
pub(super) fn first_is_summary(list: &[u8]) -> Scan<bool> {
    let mut s = Scanner::new(list);
    let Some(mut items) = s.array_or_skip()? else { return Ok(false) };
    if !s.item(&mut items)? {
        return Ok(false);
    }
    Ok(string_member(s.skip()?, "type")?.is_some_and(|kind| kind.is("reasoning.summary")))
}

fn annotation(raw: &[u8], out: &mut Out<'_>) -> Scan<()> {
    let Some(kind) = string_member(raw, "type")? else { return Ok(()) };
    // The particulars stand under the kind's own name.
    let inner = member(raw, &kind.decode())?.unwrap_or(raw);
    linked(Text::Literal(kind), inner, raw, out)
}

/// An annotation with what `inner` says of a link.
fn linked(kind: Text<'_>, inner: &[u8], raw: &[u8], out: &mut Out<'_>) -> Scan<()> {
    let number = |name| -> Scan<Option<u64>> {
        Ok(match member(inner, name)? {
            Some(value) => Scanner::new(value).count_or_skip()?,
            None => None,
        })
    };
    let span = number("start_index")?.zip(number("end_index")?);
    let url = string_member(inner, "url")?.map(Text::Literal);
    let title = string_member(inner, "title")?.map(Text::Literal);
    out.annotation(kind, url, title, span, raw);
    Ok(())
}

fn hosted_tool(raw: &[u8], out: &mut Out<'_>) -> Scan<()> {
    let kind = string_member(raw, "type")?;
    let name = string_member(raw, "name")?.or(kind).map_or(Text::Plain("tool"), Text::Literal);
    let is_done = member(raw, "output")?.is_some_and(|output| output != b"null");
    let phase = if is_done { HostedPhase::Done } else { HostedPhase::Started };
    let id = string_member(raw, "id")?.map(Text::Literal);
    out.hosted_tool(id, phase, name, raw);
    Ok(())
}

/// `{"image_url": {"url": ...}}`, with the picture itself in a data URL or a link to it.
fn image_url(raw: &[u8], out: &mut Out<'_>) -> Scan<()> {
    let Some(value) = member(raw, "image_url")? else { return Ok(()) };
    let url = match Scanner::new(value).string() {
        Ok(url) => Some(url),
        Err(_) => string_member(value, "url")?,
    };
    let Some(url) = url.map(Literal::decode) else { return Ok(()) };
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((mime, data)) => out.media(Text::Plain(mime), Some(Text::Plain(data)), None, false),
        None => out.media(Text::Plain("image/*"), None, Some(Text::Plain(&url)), false),
    }
    Ok(())
}

/// `{"data", "transcript"}`. The transcript is what the sound says: an annotation of it, since it is no content.
fn audio(raw: &[u8], whole: bool, out: &mut Out<'_>) -> Scan<()> {
    if let Some(data) = string_member(raw, "data")? {
        // Streamed audio is raw samples; a whole one is in the container that was asked for.
        let mime = if whole { container(data.raw) } else { "audio/pcm" };
        out.media(Text::Plain(mime), Some(Text::Literal(data)), None, !whole);
    }
    if let Some(value) = member(raw, "transcript")?
        && let Ok(transcript) = Scanner::new(value).string()
        && !transcript.raw.is_empty()
    {
        out.annotation(Text::Plain("transcript"), None, None, None, value);
    }
    Ok(())
}

/// By the first characters of the base64 text.
fn container(data: &[u8]) -> &'static str {
    const HEADS: [(&[u8], &str); 6] = [
        (b"UklGR", "audio/wav"),
        (b"SUQz", "audio/mpeg"),
        (b"//u", "audio/mpeg"),
        (b"//M", "audio/mpeg"),
        (b"T2dnU", "audio/ogg"),
        (b"ZkxhQ", "audio/flac"),
    ];
    HEADS.iter().find(|(head, _)| data.starts_with(head)).map_or("audio/pcm", |(_, mime)| mime)
}

/// The objects of a list; what is no list or no object is passed over.
fn each<'a>(list: &'a [u8], mut visit: impl FnMut(&'a [u8]) -> Scan<()>) -> Scan<()> {
    let mut s = Scanner::new(list);
    let Some(mut items) = s.array_or_skip()? else { return Ok(()) };
    while s.item(&mut items)? {
        let raw = s.skip()?;
        if raw.first() == Some(&b'{') {
            visit(raw)?;
        }
    }
    Ok(())
}
