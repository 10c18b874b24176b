//! Gemini's own schema language (`parameters`, `responseSchema`: a subset of `OpenAPI`'s) as JSON Schema, which every other
//! protocol takes.
//!
//! 1. Types lose their capitals, `nullable` becomes a type, numbers that stand in strings become numbers, what is only an
//!    order of properties goes. Everything else keeps its bytes, and its place.
//! 2. A body without any is not changed and not copied.
//!
//! The opposite way is not needed: a target takes JSON Schema in `parametersJsonSchema`.

use std::borrow::Cow;

use memchr::memmem;

use super::super::error::Res;
use super::super::out;
use super::super::reader::camel;
use crate::json::{Kind, Scanner};
use crate::text::Text;

/// The body with its schemas in JSON Schema, under the names of that.
pub(in super::super) fn prepared(body: &[u8]) -> Res<Cow<'_, [u8]>> {
    let has = |key: &[u8]| memmem::find(body, key).is_some();
    if ![&b"\"parameters\""[..], b"\"responseSchema\"", b"\"response_schema\""].iter().any(|key| has(key)) {
        return Ok(Cow::Borrowed(body));
    }
    let mut made = Vec::with_capacity(body.len() + body.len() / 8);
    let mut s = Scanner::new(body);
    value(&mut s, Place::Top, &mut made)?;
    // What follows, if anything does, is for the reader to refuse.
    made.extend_from_slice(&body[s.pos()..]);
    Ok(Cow::Owned(made))
}

/// Where the walk stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Top,
    Config,
    Tools,
    Declarations,
    Else,
}

impl Place {
    fn at(self, key: &str) -> Place {
        match (self, key) {
            (Place::Top, "generationConfig" | "generation_config") => Place::Config,
            (Place::Top, "tools") => Place::Tools,
            (Place::Tools, "functionDeclarations" | "function_declarations") => Place::Declarations,
            _ => Place::Else,
        }
    }
}

fn value(s: &mut Scanner<'_>, place: Place, o: &mut Vec<u8>) -> Res<()> {
    match s.kind()? {
        Kind::Object if place != Place::Else => {
            o.push(b'{');
            let mut items = s.object()?;
            while let Some(key) = s.key(&mut items)? {
                let name = key.decode();
                out::comma(o);
                let schema = match (place, &*name) {
                    (Place::Declarations, "parameters") => Some("parametersJsonSchema"),
                    (Place::Config, "responseSchema" | "response_schema") => Some("responseJsonSchema"),
                    _ => None,
                };
                if let Some(schema) = schema.filter(|_| matches!(s.kind(), Ok(Kind::Object))) {
                    Text::Plain(schema).push_json_string(o);
                    o.push(b':');
                    convert(s, o)?;
                } else {
                    Text::Literal(key).push_json_string(o);
                    o.push(b':');
                    value(s, place.at(&name), o)?;
                }
            }
            o.push(b'}');
        }
        Kind::Array if place != Place::Else => {
            o.push(b'[');
            let mut items = s.array()?;
            while s.item(&mut items)? {
                out::comma(o);
                value(s, place, o)?;
            }
            o.push(b']');
        }
        _ => o.extend_from_slice(s.skip()?),
    }
    Ok(())
}

/// One schema. It nests as deeply as the scanner lets it, for each level has been skipped whole before.
fn convert(s: &mut Scanner<'_>, o: &mut Vec<u8>) -> Res<()> {
    convert_at(s, 0, o)
}

fn convert_at(s: &mut Scanner<'_>, depth: usize, o: &mut Vec<u8>) -> Res<()> {
    // Schemas nest a few dozen levels at most; what is below keeps its bytes.
    if s.kind()? != Kind::Object || depth > crate::limits::MAX_ARGUMENT_DEPTH {
        o.extend_from_slice(s.skip()?);
        return Ok(());
    }
    let mut ahead = s.clone();
    let nullable = has_nullable(&mut ahead)?;
    o.push(b'{');
    let mut items = s.object()?;
    while let Some(key) = s.key(&mut items)? {
        let name = key.decode();
        if matches!(&*name, "nullable" | "propertyOrdering" | "property_ordering") {
            s.skip()?;
            continue;
        }
        out::comma(o);
        let snake = matches!(&*name, "any_of" | "additional_properties") || COUNTS[6..].contains(&&*name);
        let keyword = if snake { camel(&name) } else { None };
        Text::Plain(keyword.as_deref().unwrap_or(&name)).push_json_string(o);
        o.push(b':');
        match (&*name, s.kind()?) {
            ("type", Kind::String) => {
                let kind = s.string()?.decode().to_ascii_lowercase();
                if nullable {
                    o.push(b'[');
                    Text::Plain(&kind).push_json_string(o);
                    o.extend_from_slice(b",\"null\"]");
                } else {
                    Text::Plain(&kind).push_json_string(o);
                }
            }
            ("properties" | "defs" | "$defs", Kind::Object) => {
                o.push(b'{');
                let mut members = s.object()?;
                while let Some(key) = s.key(&mut members)? {
                    out::comma(o);
                    Text::Literal(key).push_json_string(o);
                    o.push(b':');
                    convert_at(s, depth + 1, o)?;
                }
                o.push(b'}');
            }
            ("items" | "additionalProperties" | "additional_properties", Kind::Object) => {
                convert_at(s, depth + 1, o)?;
            }
            ("anyOf" | "any_of", Kind::Array) => {
                o.push(b'[');
                let mut members = s.array()?;
                while s.item(&mut members)? {
                    out::comma(o);
                    convert_at(s, depth + 1, o)?;
                }
                o.push(b']');
            }
            (name, Kind::String) if COUNTS.contains(&name) => {
                let text = s.string()?.decode().into_owned();
                if crate::json::count(text.as_bytes()).is_some() && !text.is_empty() {
                    o.extend_from_slice(text.as_bytes());
                } else {
                    Text::Plain(&text).push_json_string(o);
                }
            }
            _ => o.extend_from_slice(s.skip()?),
        }
    }
    o.push(b'}');
    Ok(())
}

fn has_nullable(s: &mut Scanner<'_>) -> Res<bool> {
    let mut items = s.object()?;
    let mut found = false;
    while let Some(key) = s.key(&mut items)? {
        let raw = s.skip()?;
        found |= key.is("nullable") && raw == b"true";
    }
    Ok(found)
}

/// Whole numbers of 64 bits are strings in protocol buffers' JSON.
const COUNTS: [&str; 12] = [
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "min_items",
    "max_items",
    "min_length",
    "max_length",
    "min_properties",
    "max_properties",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_become_json_schema_and_the_rest_keeps_its_bytes() {
        let body = r#"{ "contents":[ {"parts":[{"text":"\"parameters\""}]}], "tools":[{"functionDeclarations":[
            {"name":"f","parameters":{"type":"OBJECT","propertyOrdering":["a"],"properties":{"type":{"type":"STRING","nullable":true,
            "maxLength":"9"},"l":{"type":"ARRAY","items":{"type":"INTEGER"},"min_items":"1"},"u":{"any_of":[{"type":"NUMBER"}]}},
            "required":["type"]}}]}],"generationConfig":{"responseSchema":{"type":"STRING","enum":["A"]},"topK":1}}"#;
        let got: serde_json::Value = serde_json::from_slice(&prepared(body.as_bytes()).unwrap()).unwrap();
        assert_eq!(
            got["tools"][0]["functionDeclarations"][0],
            serde_json::json!({"name": "f", "parametersJsonSchema": {"type": "object", "properties": {
                "type": {"type": ["string", "null"], "maxLength": 9},
                "l": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
                "u": {"anyOf": [{"type": "number"}]}}, "required": ["type"]}})
        );
        assert_eq!(
            got["generationConfig"],
            serde_json::json!({"responseJsonSchema": {"type": "string", "enum": ["A"]}, "topK": 1})
        );
        assert_eq!(got["contents"], serde_json::json!([{"parts": [{"text": "\"parameters\""}]}]));
        assert!(matches!(prepared(b"{\"contents\":[]}").unwrap(), Cow::Borrowed(_)));
        assert!(prepared(b"{\"parameters\"").is_err());
    }
}
