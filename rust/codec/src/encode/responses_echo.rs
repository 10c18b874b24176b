//! What a Responses object repeats of the request: the schema demands most of it, and clients read it.
//!
//! Values are copied raw. A request without a member, or with `null`, gets the vendor's default; without a request
//! everything does. Nothing of `input` is repeated.

use super::shared::{put, put_raw};
use crate::json::{Scan, Scanner};

/// Member and default, in the vendor's order. An empty default leaves the member out.
const MEMBERS: [(&str, &str); 20] = [
    ("background", "false"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("parallel_tool_calls", "true"),
    ("previous_response_id", "null"),
    ("prompt_cache_key", "null"),
    ("reasoning", "{\"effort\":null,\"summary\":null}"),
    ("safety_identifier", "null"),
    ("service_tier", ""),
    // The gateway keeps nothing.
    ("store", "false"),
    ("temperature", "null"),
    ("text", "{\"format\":{\"type\":\"text\"}}"),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "null"),
    ("truncation", "\"disabled\""),
    ("user", "null"),
    ("metadata", "{}"),
];

/// The members, each with a comma before it.
pub(super) fn echo(request: Option<&[u8]>) -> Vec<u8> {
    let mut values: [Option<&[u8]>; MEMBERS.len()] = [None; MEMBERS.len()];
    // A body that is no object was refused long before; here it has nothing to repeat.
    if let Some(request) = request
        && read(request, &mut values).is_err()
    {
        values = [None; MEMBERS.len()];
    }
    let mut out = Vec::new();
    for ((name, default), value) in MEMBERS.iter().zip(values) {
        let value = value.filter(|v| *v != b"null");
        if value.is_none() && default.is_empty() {
            continue;
        }
        put(&mut out, ",\"");
        put(&mut out, name);
        put(&mut out, "\":");
        match value {
            Some(value) => put_raw(&mut out, value),
            None => put(&mut out, default),
        }
    }
    out
}

fn read<'a>(request: &'a [u8], values: &mut [Option<&'a [u8]>; MEMBERS.len()]) -> Scan<()> {
    let mut scanner = Scanner::new(request);
    let mut items = scanner.object()?;
    while let Some(key) = scanner.key(&mut items)? {
        let value = scanner.skip()?;
        if let Some(at) = MEMBERS.iter().position(|(name, _)| key.is(name)) {
            values[at] = Some(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_repeated_raw_and_defaults_fill_the_rest() {
        let request = br#"{"model":"m","input":"secret","tools":[ {"type":"function","name":"f"} ],
            "temperature":0.70,"instructions":"a\u00e9\n","metadata":null,"store":true}"#;
        let mut whole = b"{\"x\":1".to_vec();
        whole.extend_from_slice(&echo(Some(request)));
        whole.push(b'}');
        let text = String::from_utf8(whole).unwrap();
        for part in [
            r#""tools":[ {"type":"function","name":"f"} ]"#,
            r#""temperature":0.70"#,
            r#""instructions":"a\u00e9\n""#,
            r#""metadata":{}"#,
            r#""store":true"#,
            r#""tool_choice":"auto""#,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("secret") && !text.contains('\n') && !text.contains("service_tier"));
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }

    #[test]
    fn without_a_request_all_are_defaults() {
        assert_eq!(echo(None), echo(Some(b"[1]")));
        assert_eq!(echo(None), echo(Some(b"{\"tools\":[1]")));
    }
}
