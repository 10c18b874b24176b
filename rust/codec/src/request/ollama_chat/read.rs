//! A body of Ollama's own chat becomes one of Chat Completions, which is then read as such: losses are named in Chat's words.
//!
//! 1. Texts, schemas and arguments are copied as they stand. What Chat has no word for keeps its key, and is reported as
//!    dropped by the reading of Chat.
//! 2. Calls and results pair by id where they have one. Older clients give none: a result then answers the first open call of
//!    its tool, else the first that is open.

use std::collections::VecDeque;

use super::super::error::{RequestError, Res, shown};
use super::super::out;
use crate::json::{Kind, Scanner};
use crate::text::{Literal, push_json_str};

/// Options by their names here and in Chat.
const OPTIONS: [(&str, &str); 7] = [
    ("num_predict", "max_tokens"),
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("seed", "seed"),
    ("stop", "stop"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
];

/// The same request in Chat's words.
pub(in super::super) fn prepared(body: &[u8]) -> Res<Vec<u8>> {
    let mut o = Vec::with_capacity(body.len() + 256);
    o.push(b'{');
    let (mut s, mut streams) = (Scanner::new(body), true);
    let mut items = s.object()?;
    while let Some(key) = s.key(&mut items)? {
        if s.skip_null()? {
            continue;
        }
        match &*key.decode() {
            "stream" => streams = s.boolean()?,
            "messages" => messages(&mut s, &mut o)?,
            "options" => options(&mut s, &mut o)?,
            "format" => format(s.skip()?, &mut o),
            "think" => think(&mut s, &mut o)?,
            name @ ("model" | "tools") => out::raw(&mut o, name, s.skip()?),
            other => {
                let value = s.skip()?;
                named(&mut o, other, value);
            }
        }
    }
    if !s.at_end() {
        return Err(super::super::edit::trailing());
    }
    out::flag(&mut o, "stream", streams);
    o.push(b'}');
    Ok(o)
}

/// Appends a member of any name.
fn named(o: &mut Vec<u8>, name: &str, value: &[u8]) {
    out::comma(o);
    push_json_str(name, o);
    o.push(b':');
    o.extend_from_slice(value);
}

fn options(s: &mut Scanner<'_>, o: &mut Vec<u8>) -> Res<()> {
    if s.kind()? != Kind::Object {
        return Err(RequestError::expected("options".to_owned(), "an object"));
    }
    let mut items = s.object()?;
    while let Some(key) = s.key(&mut items)? {
        let (value, name) = (s.skip()?, key.decode());
        let own = OPTIONS.iter().find(|(own, _)| *own == name);
        match own {
            // Less than nothing is no limit.
            Some(("num_predict", _)) if value.first() == Some(&b'-') => {}
            Some((_, chat)) => out::raw(o, chat, value),
            None => named(o, &format!("options_{name}"), value),
        }
    }
    Ok(())
}

/// `json`, or a schema.
fn format(value: &[u8], o: &mut Vec<u8>) {
    match value {
        b"\"\"" => {}
        [b'{', ..] => {
            out::raw(o, "response_format", b"{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\"");
            out::raw(o, "schema", value);
            o.extend_from_slice(b"}}");
        }
        _ => out::raw(o, "response_format", b"{\"type\":\"json_object\"}"),
    }
}

fn think(s: &mut Scanner<'_>, o: &mut Vec<u8>) -> Res<()> {
    match s.kind()? {
        Kind::Bool => out::plain(o, "reasoning_effort", if s.boolean()? { "medium" } else { "none" }),
        Kind::String => out::raw(o, "reasoning_effort", s.skip()?),
        _ => return Err(RequestError::expected("think".to_owned(), "true, false or a level")),
    }
    Ok(())
}

fn messages(s: &mut Scanner<'_>, o: &mut Vec<u8>) -> Res<()> {
    if s.kind()? != Kind::Array {
        return Err(RequestError::expected("messages".to_owned(), "an array"));
    }
    out::key(o, "messages");
    o.push(b'[');
    let mut items = s.array()?;
    let (mut made, mut open, mut at) = (0usize, VecDeque::new(), 0usize);
    while s.item(&mut items)? {
        let place = format!("messages[{at}]");
        message(s, &place, &mut made, &mut open, o)?;
        at += 1;
    }
    o.push(b']');
    Ok(())
}

/// A call that has no result yet: its id, and its tool.
type Waiting = VecDeque<(String, String)>;

fn message(s: &mut Scanner<'_>, place: &str, made: &mut usize, open: &mut Waiting, o: &mut Vec<u8>) -> Res<()> {
    if s.kind()? != Kind::Object {
        return Err(RequestError::expected(place.to_owned(), "an object"));
    }
    let (mut role, mut content, mut images, mut calls) = (None, None, None, None);
    let (mut thinking, mut tool, mut id) = (None, None, None);
    let mut others = Vec::new();
    let mut items = s.object()?;
    while let Some(key) = s.key(&mut items)? {
        if s.skip_null()? {
            continue;
        }
        match &*key.decode() {
            "role" => role = Some(string(s, place, "role")?),
            "content" => content = Some(string(s, place, "content")?),
            "thinking" => thinking = Some(string(s, place, "thinking")?),
            "tool_name" => tool = Some(string(s, place, "tool_name")?),
            "tool_call_id" => id = Some(string(s, place, "tool_call_id")?),
            "images" => images = Some(s.skip()?),
            "tool_calls" => calls = Some(s.skip()?),
            other => others.push((other.to_owned(), s.skip()?)),
        }
    }
    out::comma(o);
    o.push(b'{');
    let role = role.map(Literal::decode).unwrap_or_default();
    out::plain(o, "role", &role);
    if role == "tool" {
        let given = id.map(|id| id.decode().into_owned());
        let name = tool.map(|tool| tool.decode().into_owned());
        let fits = |(known, of): &(String, String)| match (&given, &name) {
            (Some(id), _) => known == id,
            (None, Some(name)) => of == name,
            (None, None) => true,
        };
        let at = open.iter().position(fits).unwrap_or(0);
        let waiting = open.remove(at).map(|(id, _)| id);
        out::plain(o, "tool_call_id", &given.or(waiting).unwrap_or_else(|| "call".to_owned()));
    }
    if let Some(list) = images {
        parts(content, list, place, o)?;
    } else {
        out::key(o, "content");
        quoted(content, o);
    }
    if let Some(thinking) = thinking.filter(|t| !t.raw.is_empty()) {
        out::key(o, "reasoning_content");
        quoted(Some(thinking), o);
    }
    if let Some(list) = calls {
        tool_calls(list, place, made, open, o)?;
    }
    for (name, value) in others {
        named(o, &name, value);
    }
    o.push(b'}');
    Ok(())
}

fn string<'a>(s: &mut Scanner<'a>, place: &str, key: &str) -> Res<Literal<'a>> {
    if s.kind()? != Kind::String {
        return Err(RequestError::expected(format!("{place}.{key}"), "a string"));
    }
    Ok(s.string()?)
}

/// Appends a string as the client wrote it.
fn quoted(text: Option<Literal<'_>>, o: &mut Vec<u8>) {
    o.push(b'"');
    o.extend_from_slice(text.map_or(b"", |text| text.raw));
    o.push(b'"');
}

/// A text and its pictures, which are bare base64.
fn parts(content: Option<Literal<'_>>, images: &[u8], place: &str, o: &mut Vec<u8>) -> Res<()> {
    out::raw(o, "content", b"[");
    if content.is_some_and(|text| !text.raw.is_empty()) {
        o.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        quoted(content, o);
        o.push(b'}');
    }
    let mut s = Scanner::new(images);
    let Some(mut items) = s.array_or_skip()? else {
        return Err(RequestError::expected(format!("{place}.images"), "an array"));
    };
    while s.item(&mut items)? {
        let data = string(&mut s, place, "images")?;
        out::comma(o);
        o.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:");
        o.extend_from_slice(kind_of(data.raw).as_bytes());
        o.extend_from_slice(b";base64,");
        o.extend_from_slice(data.raw);
        o.extend_from_slice(b"\"}}");
    }
    o.push(b']');
    Ok(())
}

/// By the first characters of the base64 text.
fn kind_of(data: &[u8]) -> &'static str {
    const HEADS: [(&[u8], &str); 3] = [(b"/9j/", "image/jpeg"), (b"R0lG", "image/gif"), (b"UklG", "image/webp")];
    HEADS.iter().find(|(head, _)| data.starts_with(head)).map_or("image/png", |(_, kind)| kind)
}

fn tool_calls(list: &[u8], place: &str, made: &mut usize, open: &mut Waiting, o: &mut Vec<u8>) -> Res<()> {
    let mut s = Scanner::new(list);
    let Some(mut items) = s.array_or_skip()? else {
        return Err(RequestError::expected(format!("{place}.tool_calls"), "an array"));
    };
    out::raw(o, "tool_calls", b"[");
    while s.item(&mut items)? {
        if s.kind()? != Kind::Object {
            return Err(RequestError::expected(format!("{place}.tool_calls[]"), "an object"));
        }
        let (mut id, mut name, mut arguments) = (None, None, None);
        let mut members = s.object()?;
        while let Some(key) = s.key(&mut members)? {
            match key.raw {
                b"id" => id = s.string_or_skip()?,
                b"function" => {
                    let Some(mut members) = s.object_or_skip()? else { continue };
                    while let Some(key) = s.key(&mut members)? {
                        match key.raw {
                            b"name" => name = s.string_or_skip()?,
                            b"arguments" => arguments = Some(s.skip()?).filter(|raw| *raw != b"null"),
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
        let Some(name) = name else {
            let param = format!("{place}.tool_calls[].function.name");
            return Err(RequestError::invalid(Some(param.clone()), format!("{}: missing", shown(&param))));
        };
        let id =
            id.filter(|id| !id.raw.is_empty()).map_or_else(|| format!("call_{made}"), |id| id.decode().into_owned());
        *made += 1;
        out::comma(o);
        o.push(b'{');
        out::plain(o, "id", &id);
        out::raw(o, "type", b"\"function\",\"function\":{\"name\":");
        quoted(Some(name), o);
        out::key(o, "arguments");
        match arguments {
            Some(text @ [b'"', ..]) => o.extend_from_slice(text),
            Some(value) => push_json_str(&String::from_utf8_lossy(value), o),
            None => o.extend_from_slice(b"\"{}\""),
        }
        o.extend_from_slice(b"}}");
        open.push_back((id, name.decode().into_owned()));
    }
    o.push(b']');
    Ok(())
}
