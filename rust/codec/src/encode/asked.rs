//! What an encoder has to know of the client's request, read in one pass: the tools as the client declared them,
//! and what a Responses object repeats.
//!
//! 1. A translated request may have renamed a tool (an illegal or long name, a namespace's tool under one name) or made a
//!    function of a custom one. Its calls come back under the client's own name and in the client's own kind.
//! 2. Only tools that were changed are kept; the rule by which they were is the request translation's
//!    ([`tool_name`]).
//! 3. The body was checked when it was translated. One that cannot be read here has nothing to say.

use std::collections::HashMap;

use super::shared::{put, put_raw};
use crate::event::Protocol;
use crate::json::{Kind, Scan, Scanner};
use crate::limits::MAX_TOOL_NAMES;
use crate::request::tool_name;

/// A tool as its client knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Declared {
    pub name: String,
    /// Responses: the namespace that it stands in.
    pub namespace: Option<String>,
    /// Its input is any text.
    pub custom: bool,
}

/// Tools that the provider knows otherwise than the client, by the provider's names.
#[derive(Debug, Default)]
pub(super) struct Tools(HashMap<String, Declared>);

impl Tools {
    pub fn find(&self, name: &str) -> Option<&Declared> {
        if self.0.is_empty() { None } else { self.0.get(name) }
    }

    /// Keeps a tool of a namespace whose provider knows it as its client does.
    fn keep(&mut self, tool: &Declared) {
        let Some(namespace) = &tool.namespace else { return };
        let one = if *namespace == tool.name { tool.name.clone() } else { format!("{namespace}__{}", tool.name) };
        if self.0.len() < MAX_TOOL_NAMES {
            self.0.entry(one).or_insert_with(|| tool.clone());
        }
    }

    fn add(&mut self, tool: &Declared, targets: &[Protocol]) {
        let joined = match &tool.namespace {
            Some(namespace) => format!("{namespace}__{}", tool.name),
            None => tool.name.clone(),
        };
        for target in targets {
            let there = tool_name(&joined, *target);
            if (tool.custom || there != tool.name) && self.0.len() < MAX_TOOL_NAMES {
                self.0.entry(there.into_owned()).or_insert_with(|| tool.clone());
            }
        }
    }
}

/// Member of a Responses object and its default, in the vendor's order. An empty default leaves the member out.
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

/// The members that were looked for.
#[derive(Default)]
pub(super) struct Asked<'a> {
    members: [Option<&'a [u8]>; MEMBERS.len()],
    tools: Option<&'a [u8]>,
    input: Option<&'a [u8]>,
    /// Gemini: the form of the stream, as the URL had it.
    alt: Option<&'a [u8]>,
}

impl<'a> Asked<'a> {
    pub fn read(request: Option<&'a [u8]>) -> Asked<'a> {
        let mut asked = Asked::default();
        match request.map(|request| asked.members(request)) {
            Some(Err(_)) => Asked::default(),
            _ => asked,
        }
    }

    fn members(&mut self, request: &'a [u8]) -> Scan<()> {
        let mut scanner = Scanner::new(request);
        let mut items = scanner.object()?;
        while let Some(key) = scanner.key(&mut items)? {
            let value = scanner.skip()?;
            if let Some(at) = MEMBERS.iter().position(|(name, _)| key.is(name)) {
                self.members[at] = Some(value);
            }
            if key.is("tools") {
                self.tools = Some(value);
            } else if key.is("input") {
                self.input = Some(value);
            } else if key.is("alt") {
                self.alt = Some(value);
            }
        }
        Ok(())
    }

    /// What a Responses object repeats: the schema demands most of it, and clients read it. Values are copied raw; what is
    /// not there, or `null`, is the vendor's default. Each member has a comma before it.
    pub fn echo(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for ((name, default), value) in MEMBERS.iter().zip(self.members) {
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

    /// Gemini: whether the stream is to be one JSON array.
    pub fn array(&self) -> bool {
        self.alt.is_some_and(|alt| alt != b"\"sse\"")
    }

    /// The tools that a provider of this family knows otherwise.
    pub fn changed_tools(&self, client: Protocol, family: Option<Protocol>) -> Tools {
        let mut tools = Tools::default();
        // Within Responses only the namespaces are another matter: a call is told by one name with its own.
        let own = family == Some(client);
        if own && client != Protocol::OpenaiResponses {
            return tools;
        }
        let either = [Protocol::OpenaiChat, Protocol::AnthropicMessages];
        let targets = family.as_ref().map_or(&either[..], std::slice::from_ref);
        let mut take = |tool: Declared| if own { tools.keep(&tool) } else { tools.add(&tool, targets) };
        if let Some(list) = self.tools {
            // What was read before a fault stands.
            let _ = each(&mut Scanner::new(list), &mut |s| tool(s, None, &mut take));
        }
        if client == Protocol::OpenaiResponses
            && let Some(input) = self.input
            && memchr::memmem::find(input, b"additional_tools").is_some()
        {
            let _ = each(&mut Scanner::new(input), &mut |s| additional(s, &mut take));
        }
        tools
    }
}

/// Calls `item` at each object of a list; it has to read or skip it.
fn each<'a>(s: &mut Scanner<'a>, item: &mut dyn FnMut(&mut Scanner<'a>) -> Scan<()>) -> Scan<()> {
    let Some(mut items) = s.array_or_skip()? else { return Ok(()) };
    while s.item(&mut items)? {
        if s.kind()? == Kind::Object {
            item(s)?;
        } else {
            s.skip()?;
        }
    }
    Ok(())
}

/// An input item that may bring tools.
fn additional(s: &mut Scanner<'_>, take: &mut dyn FnMut(Declared)) -> Scan<()> {
    let mut members = s.object()?;
    let (mut brings, mut tools) = (false, None);
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => brings = s.string_or_skip()?.is_some_and(|kind| kind.is("additional_tools")),
            b"tools" => tools = Some(s.skip()?),
            _ => {
                s.skip()?;
            }
        }
    }
    match tools {
        Some(list) if brings => each(&mut Scanner::new(list), &mut |s| tool(s, None, take)),
        _ => Ok(()),
    }
}

/// One declaration, in any of the three protocols.
fn tool(s: &mut Scanner<'_>, namespace: Option<&str>, take: &mut dyn FnMut(Declared)) -> Scan<()> {
    let mut members = s.object()?;
    let mut declared = Declared { namespace: namespace.map(str::to_owned), ..Declared::default() };
    let (mut kind, mut inner) = (None, None);
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"type" => kind = s.string_or_skip()?,
            b"name" => {
                if let Some(name) = s.string_or_skip()? {
                    declared.name = name.decode().into_owned();
                }
            }
            b"function" | b"custom" if s.kind()? == Kind::Object => {
                declared.custom = key.is("custom");
                let mut nested = s.object()?;
                while let Some(key) = s.key(&mut nested)? {
                    match s.string_or_skip()? {
                        Some(name) if key.is("name") => declared.name = name.decode().into_owned(),
                        _ => {}
                    }
                }
            }
            // Gemini's have no other name around them.
            b"functionDeclarations" | b"function_declarations" => each(s, &mut |s| tool(s, None, take))?,
            b"tools" => inner = Some(s.skip()?),
            _ => {
                s.skip()?;
            }
        }
    }
    if namespace.is_none() && kind.is_some_and(|kind| kind.is("namespace")) {
        let Some(inner) = inner else { return Ok(()) };
        return each(&mut Scanner::new(inner), &mut |s| tool(s, Some(&declared.name), take));
    }
    declared.custom |= kind.is_some_and(|kind| kind.is("custom"));
    if !declared.name.is_empty() {
        take(declared);
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
        whole.extend_from_slice(&Asked::read(Some(request)).echo());
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
        let none = Asked::read(None).echo();
        assert_eq!(none, Asked::read(Some(b"[1]")).echo());
        assert_eq!(none, Asked::read(Some(b"{\"tools\":[1]")).echo());
    }

    fn changed(client: Protocol, family: Protocol, request: &str) -> Vec<(String, Declared)> {
        let tools = Asked::read(Some(request.as_bytes())).changed_tools(client, Some(family));
        let mut all: Vec<_> = tools.0.into_iter().collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    #[test]
    fn only_tools_that_the_provider_knows_otherwise_are_kept() {
        use Protocol::{AnthropicMessages, OpenaiChat, OpenaiResponses};
        let declared = |name: &str, namespace: Option<&str>, custom| Declared {
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            custom,
        };
        let request = r#"{"tools":[{"type":"function","name":"same"},{"type":"custom","name":"sh"},
            {"tools":[{"type":"function","name":"run"},{"type":"custom","name":"ex"}],"name":"ns","type":"namespace"},
            {"type":"web_search"}],
            "input":[{"tools":[{"type":"function","name":"more","parameters":{}}],"type":"additional_tools"},"x",
            {"type":"additional_tools","tools":[{"type":"namespace","name":"n2","tools":[{"type":"function","name":"g"}]}]}]}"#;
        let want = [
            ("n2__g".to_owned(), declared("g", Some("n2"), false)),
            ("ns__ex".to_owned(), declared("ex", Some("ns"), true)),
            ("ns__run".to_owned(), declared("run", Some("ns"), false)),
            ("sh".to_owned(), declared("sh", None, true)),
        ];
        assert_eq!(changed(OpenaiResponses, AnthropicMessages, request), want);
        // Its own vendor knows them as they are, and its calls are told by one name with their namespace.
        assert_eq!(changed(OpenaiResponses, OpenaiResponses, request), want[..3]);
        assert!(changed(OpenaiChat, OpenaiChat, request).is_empty());
        let chat = r#"{"tools":[{"type":"function","function":{"name":"a.b","parameters":{"name":"x"}}},{"custom":{"name":"c"},"type":"custom"}]}"#;
        let got = changed(OpenaiChat, AnthropicMessages, chat);
        assert_eq!(got[0], (tool_name("a.b", AnthropicMessages).into_owned(), declared("a.b", None, false)));
        assert_eq!(got[1], ("c".to_owned(), declared("c", None, true)));
        let long = "x".repeat(100);
        let messages = format!(r#"{{"tools":[{{"name":"{long}","input_schema":{{}}}},{{"name":"ok"}}]}}"#);
        let got = changed(AnthropicMessages, OpenaiChat, &messages);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].1.name, long);
    }
}
