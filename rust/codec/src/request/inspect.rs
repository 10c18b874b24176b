//! What policy needs to know of a client's body, read in one walk that builds no objects.
//!
//! 1. Only the top-level keys and the shapes of content are looked at; texts and schemas are skipped at the
//!    scanner's speed, and validated on the way.
//! 2. A top-level key that stands twice, however it is escaped, is refused: the next parser might take the other one.
//! 3. What is read has its type checked, and an error names the field. Everything else is the provider's to judge.
//!
//! Facts that policy does not act on must not be added.

use std::fmt::Write as _;

use super::edit::{Layout, Member, same, trailing};
use super::error::{RequestError, Res, shown};
use crate::event::Protocol;
use crate::json::{Kind, Scanner};
use crate::limits::{MAX_CONTENT_DEPTH, MAX_NAME, MAX_STATE_REFS, MAX_TOOL_NAMES, MAX_TOP_KEYS};
use crate::text::Literal;

/// The facts of one request body. Absent is `None`, also where the client wrote `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
pub struct Facts {
    /// The name that the client asked for.
    pub model: Option<String>,
    pub stream: bool,
    /// Chat: the client asked for the usage chunk.
    pub include_usage: bool,
    /// Declared tools, in their order; a namespace's as `namespace__name`.
    pub tool_names: Vec<String>,
    pub has_images: bool,
    /// Documents and other files in messages.
    pub has_files: bool,
    /// JSON pointers of ids of state that is held upstream: `/previous_response_id`, `/messages/0/content/1/file_id`.
    pub state_refs: Vec<String>,
    pub previous_response_id: Option<String>,
    pub conversation: Option<String>,
    pub prompt_cache_key: Option<String>,
    pub background: bool,
    /// The client's limit on the answer, under whichever name.
    pub max_tokens: Option<u64>,
    /// Messages or input items.
    pub messages: usize,
    /// For [`relay`](super::relay).
    pub layout: Layout,
}

/// Reads the facts of a body of `protocol`.
pub fn inspect(body: &[u8], protocol: Protocol) -> Result<Facts, RequestError> {
    let mut look = Look { s: Scanner::new(body), facts: Facts::default(), pointer: String::new() };
    if look.s.kind()? != Kind::Object {
        return Err(RequestError::expected(String::new(), "an object"));
    }
    // Ollama streams unless it is told not to.
    look.facts.stream = protocol == Protocol::OllamaChat;
    let mut items = look.s.object()?;
    look.facts.layout.open = look.s.pos();
    let mut keys: Vec<Literal<'_>> = Vec::with_capacity(24);
    look.facts.layout.members.reserve(8);
    while let Some(key) = look.s.key(&mut items)? {
        if keys.iter().any(|k| same(*k, key)) {
            return Err(RequestError::duplicate(shown(&key.decode())));
        }
        if keys.len() == MAX_TOP_KEYS {
            return Err(RequestError::invalid(None, format!("the body has more than {MAX_TOP_KEYS} keys")));
        }
        keys.push(key);
        // A key's raw bytes lie in the body, one byte behind its opening quote.
        let at = key.raw.as_ptr() as usize - body.as_ptr() as usize - 1;
        let value = look.s.pos();
        look.member(key, protocol)?;
        look.facts.layout.members.push(Member { key: at, value, end: look.s.pos() });
    }
    if !look.s.at_end() {
        return Err(trailing());
    }
    Ok(look.facts)
}

/// Bytes of most pointers into messages.
const POINTER_ROOM: usize = 48;

struct Look<'a> {
    s: Scanner<'a>,
    facts: Facts,
    /// Where the walk stands.
    pointer: String,
}

impl Look<'_> {
    fn member(&mut self, key: Literal<'_>, protocol: Protocol) -> Res<()> {
        let key = key.decode();
        let messages = match protocol {
            Protocol::OpenaiResponses => "input",
            Protocol::GoogleGemini => "contents",
            _ => "messages",
        };
        match &*key {
            "model" => self.facts.model = self.string("model")?,
            "stream" => self.facts.stream = self.flag("stream")?,
            "background" => self.facts.background = self.flag("background")?,
            "prompt_cache_key" => self.facts.prompt_cache_key = self.string("prompt_cache_key")?,
            "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
                let most = self.s.count_or_skip()?;
                self.facts.max_tokens = most.or(self.facts.max_tokens);
            }
            "stream_options" => self.stream_options()?,
            "previous_response_id" => {
                self.facts.previous_response_id = self.string("previous_response_id")?;
                self.found(self.facts.previous_response_id.is_some(), "/previous_response_id");
            }
            "conversation" => self.conversation()?,
            "container" => self.container()?,
            "tools" => self.tools("/tools", "tools")?,
            "generationConfig" | "generation_config" if protocol == Protocol::GoogleGemini => {
                let Some(mut items) = self.s.object_or_skip()? else { return Ok(()) };
                while let Some(key) = self.s.key(&mut items)? {
                    let most = self.s.clone().count_or_skip()?;
                    self.s.skip()?;
                    if key.is("maxOutputTokens") || key.is("max_output_tokens") {
                        self.facts.max_tokens = most;
                    }
                }
            }
            "cachedContent" | "cached_content" if protocol == Protocol::GoogleGemini => {
                let named = self.string("cachedContent")?.is_some();
                self.found(named, &format!("/{key}"));
            }
            key if key == messages => self.messages(messages)?,
            _ => {
                self.s.skip()?;
            }
        }
        Ok(())
    }

    fn found(&mut self, is: bool, pointer: &str) {
        if is && self.facts.state_refs.len() < MAX_STATE_REFS {
            self.facts.state_refs.push(pointer.to_owned());
        }
    }

    /// A string or null.
    fn string(&mut self, name: &str) -> Res<Option<String>> {
        match self.s.kind()? {
            Kind::Null => self.s.null().map(|()| None).map_err(Into::into),
            Kind::String => Ok(Some(cut(&self.s.string()?.decode()))),
            _ => Err(RequestError::expected(name.to_owned(), "a string")),
        }
    }

    /// A boolean or null.
    fn flag(&mut self, name: &str) -> Res<bool> {
        match self.s.kind()? {
            Kind::Null => self.s.null().map(|()| false).map_err(Into::into),
            Kind::Bool => Ok(self.s.boolean()?),
            _ => Err(RequestError::expected(name.to_owned(), "true or false")),
        }
    }

    fn stream_options(&mut self) -> Res<()> {
        if self.s.skip_null()? {
            return Ok(());
        }
        if self.s.kind()? != Kind::Object {
            return Err(RequestError::expected("stream_options".to_owned(), "an object"));
        }
        let mut items = self.s.object()?;
        while let Some(key) = self.s.key(&mut items)? {
            if key.is("include_usage") {
                self.facts.include_usage = self.flag("stream_options.include_usage")?;
            } else {
                self.s.skip()?;
            }
        }
        Ok(())
    }

    /// An id, or an object with one.
    fn conversation(&mut self) -> Res<()> {
        match self.s.kind()? {
            Kind::Object => {
                let mut items = self.s.object()?;
                while let Some(key) = self.s.key(&mut items)? {
                    if key.is("id") {
                        self.facts.conversation = self.string("conversation.id")?;
                    } else {
                        self.s.skip()?;
                    }
                }
            }
            _ => self.facts.conversation = self.string("conversation")?,
        }
        self.found(self.facts.conversation.is_some(), "/conversation");
        Ok(())
    }

    /// Messages: an id, or an object that may have one.
    fn container(&mut self) -> Res<()> {
        match self.s.kind()? {
            Kind::String => {
                self.s.string()?;
                self.found(true, "/container");
            }
            Kind::Object => {
                let mut items = self.s.object()?;
                while let Some(key) = self.s.key(&mut items)? {
                    let is_id = key.is("id") && self.s.kind()? == Kind::String;
                    self.found(is_id, "/container/id");
                    self.s.skip()?;
                }
            }
            _ => {
                self.s.skip()?;
            }
        }
        Ok(())
    }

    fn tools(&mut self, pointer: &str, name: &str) -> Res<()> {
        if self.s.skip_null()? {
            return Ok(());
        }
        if self.s.kind()? != Kind::Array {
            return Err(RequestError::expected(name.to_owned(), "an array"));
        }
        let mut items = self.s.array()?;
        let mut n = 0usize;
        while self.s.item(&mut items)? {
            if self.s.kind()? != Kind::Object {
                return Err(RequestError::expected(format!("{name}[{n}]"), "an object"));
            }
            self.tool(&format!("{pointer}/{n}"), None)?;
            n += 1;
        }
        Ok(())
    }

    /// A tool of any of the three protocols. Its name may stand in `function` or `custom`, its tools in `tools`.
    fn tool(&mut self, pointer: &str, namespace: Option<&str>) -> Res<()> {
        let Some(mut items) = self.s.object_or_skip()? else { return Ok(()) };
        let mut name: Option<String> = None;
        let mut inner = None;
        while let Some(key) = self.s.key(&mut items)? {
            match &*key.decode() {
                "name" => name = self.s.string_or_skip()?.map(|l| cut(&l.decode())),
                "function" | "custom" => {
                    let Some(mut members) = self.s.object_or_skip()? else { continue };
                    while let Some(key) = self.s.key(&mut members)? {
                        if key.is("name") {
                            name = self.s.string_or_skip()?.map(|l| cut(&l.decode()));
                        } else {
                            self.s.skip()?;
                        }
                    }
                }
                "functionDeclarations" | "function_declarations" => {
                    let Some(mut items) = self.s.array_or_skip()? else { continue };
                    while self.s.item(&mut items)? {
                        self.tool(pointer, None)?;
                    }
                }
                // Read below, once the namespace's own name is known.
                "tools" if namespace.is_none() => inner = Some((self.s.clone(), self.s.skip()?)),
                "container" => self.state(&format!("{pointer}/container"), 0)?,
                "vector_store_ids" | "file_ids" => {
                    let some = self.s.skip()?.len() > 2;
                    self.found(some, &format!("{pointer}/{}", key.decode()));
                }
                _ => {
                    self.s.skip()?;
                }
            }
        }
        let Some((at, _)) = inner else {
            if let Some(name) = name
                && self.facts.tool_names.len() < MAX_TOOL_NAMES
            {
                self.facts.tool_names.push(match namespace {
                    Some(ns) => format!("{ns}__{name}"),
                    None => name,
                });
            }
            return Ok(());
        };
        let after = std::mem::replace(&mut self.s, at);
        if let Some(mut items) = self.s.array_or_skip()? {
            let mut n = 0usize;
            while self.s.item(&mut items)? {
                self.tool(&format!("{pointer}/tools/{n}"), Some(name.as_deref().unwrap_or_default()))?;
                n += 1;
            }
        }
        self.s = after;
        Ok(())
    }

    /// `container` of a tool: an id as a string, or an object with `file_ids`.
    fn state(&mut self, pointer: &str, depth: usize) -> Res<()> {
        match self.s.kind()? {
            Kind::String => {
                self.s.string()?;
                self.found(true, pointer);
            }
            Kind::Object if depth == 0 => {
                let mut items = self.s.object()?;
                while let Some(key) = self.s.key(&mut items)? {
                    let lists = key.is("file_ids");
                    let raw = self.s.skip()?;
                    self.found(lists && raw.len() > 2, &format!("{pointer}/file_ids"));
                }
            }
            _ => {
                self.s.skip()?;
            }
        }
        Ok(())
    }

    fn messages(&mut self, name: &str) -> Res<()> {
        match self.s.kind()? {
            Kind::Array => {}
            Kind::String if name == "input" => {
                self.s.string()?;
                self.facts.messages = 1;
                return Ok(());
            }
            _ => {
                let wanted = if name == "input" { "a string or an array" } else { "an array" };
                return Err(RequestError::expected(name.to_owned(), wanted));
            }
        }
        self.pointer.clear();
        self.pointer.reserve(POINTER_ROOM);
        self.pointer.extend(["/", name]);
        let mut items = self.s.array()?;
        while self.s.item(&mut items)? {
            if self.s.kind()? != Kind::Object {
                return Err(RequestError::expected(format!("{name}[{}]", self.facts.messages), "an object"));
            }
            self.indexed(self.facts.messages, 0)?;
            self.facts.messages += 1;
        }
        self.pointer.clear();
        Ok(())
    }

    fn indexed(&mut self, n: usize, depth: usize) -> Res<()> {
        let before = self.pointer.len();
        // A String takes whatever is written to it.
        let _ = write!(self.pointer, "/{n}");
        self.content(depth)?;
        self.pointer.truncate(before);
        Ok(())
    }

    /// A message, a list of parts, a part, or what a part holds.
    fn content(&mut self, depth: usize) -> Res<()> {
        if depth > MAX_CONTENT_DEPTH {
            self.s.skip()?;
            return Ok(());
        }
        match self.s.kind()? {
            Kind::Array => {
                let mut items = self.s.array()?;
                let mut n = 0usize;
                while self.s.item(&mut items)? {
                    self.indexed(n, depth + 1)?;
                    n += 1;
                }
            }
            Kind::Object => self.part(depth)?,
            _ => {
                self.s.skip()?;
            }
        }
        Ok(())
    }

    /// Gemini's `inlineData` and `fileData`.
    fn bytes(&mut self, pointer: &str) -> Res<()> {
        let mut items = self.s.object()?;
        let mut picture = false;
        while let Some(key) = self.s.key(&mut items)? {
            match &*key.decode() {
                "mimeType" | "mime_type" => {
                    picture = self.s.string_or_skip()?.is_some_and(|mime| mime.raw.starts_with(b"image"));
                }
                key @ ("fileUri" | "file_uri") => {
                    let uri = self.s.string_or_skip()?.map(Literal::decode).unwrap_or_default();
                    self.found(uri.contains("generativelanguage.googleapis.com"), &format!("{pointer}/{key}"));
                }
                _ => {
                    self.s.skip()?;
                }
            }
        }
        self.facts.has_images |= picture;
        self.facts.has_files |= !picture;
        Ok(())
    }

    fn part(&mut self, depth: usize) -> Res<()> {
        let mut items = self.s.object()?;
        let mut is_reference = false;
        let mut has_id = false;
        while let Some(key) = self.s.key(&mut items)? {
            let key = key.decode();
            match &*key {
                "type" => {
                    if let Some(kind) = self.s.string_or_skip()? {
                        is_reference = kind.is("item_reference");
                        self.facts.has_images |= ["image_url", "image", "input_image"].iter().any(|t| kind.is(t));
                        self.facts.has_files |= ["file", "document", "input_file"].iter().any(|t| kind.is(t));
                    }
                }
                "inlineData" | "inline_data" | "fileData" | "file_data" if self.s.kind()? == Kind::Object => {
                    let pointer = format!("{}/{key}", self.pointer);
                    self.bytes(&pointer)?;
                }
                "content" | "output" | "source" | "file" | "image_url" | "parts" | "functionResponse"
                | "function_response" => {
                    let before = self.pointer.len();
                    self.pointer.push('/');
                    self.pointer.push_str(&key);
                    self.content(depth + 1)?;
                    self.pointer.truncate(before);
                }
                // Codex declares its tools in an input item.
                "tools" if depth == 0 && self.s.kind()? == Kind::Array => {
                    let pointer = format!("{}/tools", self.pointer);
                    self.tools(&pointer, "tools")?;
                }
                "file_id" | "container_id" => {
                    let is = self.s.string_or_skip()?.is_some();
                    let pointer = format!("{}/{key}", self.pointer);
                    self.found(is, &pointer);
                }
                "id" => has_id = self.s.string_or_skip()?.is_some(),
                _ => {
                    self.s.skip()?;
                }
            }
        }
        if is_reference && has_id {
            let pointer = format!("{}/id", self.pointer);
            self.found(true, &pointer);
        }
        Ok(())
    }
}

/// At most [`MAX_NAME`] bytes, cut at a character's edge.
fn cut(s: &str) -> String {
    let mut end = s.len().min(MAX_NAME);
    while !s.is_char_boundary(end) {
        end -= 1;
    }
    s[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(body: &str) -> Result<Facts, RequestError> {
        inspect(body.as_bytes(), Protocol::OpenaiChat)
    }

    #[test]
    fn chat_facts() {
        let facts = chat(
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"\"type\":\"image_url\""},
               {"type":"file","file":{"file_id":"f1"}}]}],"tools":[{"type":"function","function":{"parameters":{},
               "name":"a"}},{"type":"custom","custom":{"name":"b"}}],"stream":true,
               "stream_options":{"include_usage":true},"max_completion_tokens":5,"mod\u0065l":"m"}"#,
        )
        .unwrap();
        assert_eq!(facts.model.as_deref(), Some("m"));
        assert!(facts.stream && facts.include_usage && facts.has_files && !facts.has_images);
        assert_eq!(facts.tool_names, ["a", "b"]);
        assert_eq!(facts.state_refs, ["/messages/0/content/1/file/file_id"]);
        assert_eq!((facts.max_tokens, facts.messages), (Some(5), 1));
    }

    #[test]
    fn responses_facts() {
        let facts = inspect(
            br#"{"previous_response_id":"r","conversation":{"id":"c"},"input":[{"type":"additional_tools","tools":[
               {"type":"namespace","tools":[{"type":"function","name":"f"}],"name":"ns"}]},
               {"type":"function_call_output","output":[{"type":"input_image","file_id":"x"}]},
               {"type":"item_reference","id":"i"}],"tools":[{"type":"code_interpreter","container":"cntr"}],
               "background":true,"prompt_cache_key":"k"}"#,
            Protocol::OpenaiResponses,
        )
        .unwrap();
        assert_eq!(facts.tool_names, ["ns__f"]);
        assert!(facts.has_images && facts.background);
        assert_eq!(facts.prompt_cache_key.as_deref(), Some("k"));
        assert_eq!(
            facts.state_refs,
            [
                "/previous_response_id",
                "/conversation",
                "/input/1/output/0/file_id",
                "/input/2/id",
                "/tools/0/container"
            ]
        );
        let text = inspect(br#"{"input":"hi"}"#, Protocol::OpenaiResponses).unwrap();
        assert_eq!(text.messages, 1);
    }

    #[test]
    fn messages_facts() {
        let facts = inspect(
            br#"{"container":{"id":"c"},"messages":[{"role":"user","content":[{"type":"tool_result","content":[
               {"type":"image","source":{"type":"file","file_id":"x"}}]}]}],"tools":[{"name":"t","input_schema":{}}]}"#,
            Protocol::AnthropicMessages,
        )
        .unwrap();
        assert!(facts.has_images);
        assert_eq!(facts.tool_names, ["t"]);
        assert_eq!(facts.state_refs, ["/container/id", "/messages/0/content/0/content/0/source/file_id"]);
    }

    #[test]
    fn wrong_types_name_the_field() {
        for (body, param) in [
            (r#"{"model":1}"#, "model"),
            (r#"{"stream":"yes"}"#, "stream"),
            (r#"{"messages":{}}"#, "messages"),
            (r#"{"messages":[1]}"#, "messages[0]"),
            (r#"{"tools":1}"#, "tools"),
            (r#"{"tools":[1]}"#, "tools[0]"),
            (r#"{"stream_options":1}"#, "stream_options"),
            (r#"{"stream_options":{"include_usage":1}}"#, "stream_options.include_usage"),
        ] {
            let error = chat(body).unwrap_err();
            assert_eq!((error.status, error.param.as_deref()), (400, Some(param)), "{body}");
            assert!(error.message.contains(param));
        }
        let nothing = chat(r#"{"model":null,"stream":null}"#).unwrap();
        assert_eq!(nothing, Facts { layout: nothing.layout.clone(), ..Facts::default() });
    }

    #[test]
    fn keys_that_stand_twice_are_refused_also_escaped() {
        for body in [r#"{"model":"a","model":"b"}"#, r#"{"model":"a","\u006dodel":"b"}"#, r#"{"x":1,"x":2}"#] {
            assert_eq!(chat(body).unwrap_err().code, "invalid_request", "{body}");
        }
        let many: Vec<String> = (0..=MAX_TOP_KEYS).map(|n| format!("\"k{n}\":1")).collect();
        assert!(chat(&format!("{{{}}}", many.join(","))).is_err());
    }

    #[test]
    fn what_is_not_json_is_refused_and_depth_is_bounded() {
        for body in ["", "{", "[]", "{} x", r#"{"a":[1,]}"#, r#"{"messages":[{"content":tru}]}"#] {
            assert!(chat(body).is_err(), "{body}");
        }
        let deep = format!("{{\"messages\":[{}1{}]}}", "{\"content\":[".repeat(400), "]}".repeat(400));
        assert!(chat(&deep).is_ok());
        let deeper = format!("{{\"messages\":[{}", "{\"content\":[".repeat(100_000));
        assert!(chat(&deeper).is_err());
    }
}
