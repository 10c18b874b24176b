//! What an error body says, whatever its shape: codes, a status, messages, limits and hints.
//!
//! 1. Shapes: `{error: {...}}`, `{error: "text"}`, a bare `{message, code, type}`, `{detail}`, `{errors: [...]}`,
//!    `{response: {error}}`, `{base_resp}`, any of them in an array, a JSON string, plain text, HTML, nothing.
//! 2. What stands deeper is more exact: an inner object's code comes before the outer one's.
//! 3. HTML never becomes a message, nor do bytes that are no text.
//!
//! Which kind it is stands in `classify.rs`; no kind may be decided here.

use crate::json::{Scan, Scanner, Value};
use crate::limits::{MAX_ERROR_CODES, MAX_ERROR_RAW, MAX_ERROR_WRAPS, MAX_NAME};

/// What a body says.
#[expect(clippy::struct_excessive_bools, reason = "independent findings, not states")]
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Every code in it, in lower case and without what AWS puts around it.
    pub codes: Vec<String>,
    /// The most exact code as it stood.
    pub code: Option<String>,
    pub message: Option<String>,
    /// Everything said in words, in lower case.
    pub words: String,
    /// The first number that reads as an HTTP status.
    pub status: Option<u16>,
    pub request_id: Option<String>,
    /// Headers that a wrapped error carries in its body.
    pub headers: Vec<(String, String)>,
    pub retry_delay: Option<String>,
    pub resets_in: Option<f64>,
    pub resets_at: Option<f64>,
    pub per_minute: bool,
    pub per_day: bool,
    pub zero_limit: bool,
    /// The text was not JSON and looks like a page.
    pub html: bool,
}

/// Reads a body. Never fails: what is not JSON is text.
pub(super) fn read(body: &[u8]) -> Body {
    let mut found = Body::default();
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii();
    match Scanner::only(body) {
        Ok(value) => found.root(value, 0),
        Err(_) => found.text(head(body)),
    }
    found
}

/// A code as it is compared.
pub(super) fn bare(code: &str) -> String {
    let code = code.trim();
    let code = code.rsplit_once('#').map_or(code, |(_, name)| name);
    let code = code.split_once(':').map_or(code, |(name, _)| name);
    cut(code, MAX_NAME).to_ascii_lowercase()
}

impl Body {
    fn root(&mut self, value: Value<'_>, depth: usize) {
        match value {
            Value::Object(raw) => {
                // The scanner has accepted these bytes: reading them again cannot fail.
                let _ = self.object(raw, depth, true);
            }
            Value::Array(raw) if depth < MAX_ERROR_WRAPS => {
                let _ = first_item(raw).map(|item| item.map(|v| self.root(v, depth + 1)));
            }
            Value::String(text) => self.say(&text.decode()),
            _ => {}
        }
    }

    /// Plain text; a page is none, nor are bytes that nobody has decompressed.
    fn text(&mut self, text: &str) {
        self.html = text.starts_with('<');
        let is_text = !text.chars().any(|c| c.is_control() && !c.is_whitespace());
        if !self.html && is_text {
            self.say(text);
        }
    }

    fn say(&mut self, text: &str) {
        let text = cut(text, MAX_ERROR_RAW);
        if text.is_empty() {
            return;
        }
        if self.message.is_none() {
            self.message = Some(text.to_owned());
        }
        self.mention(text);
    }

    /// Searched for wordings, but not the message.
    fn mention(&mut self, text: &str) {
        if self.words.len() + text.len() <= 2 * MAX_ERROR_RAW {
            self.words.push_str(&text.to_lowercase());
            self.words.push('\n');
        }
    }

    fn name(&mut self, code: &str) {
        if self.codes.len() < MAX_ERROR_CODES && !code.trim().is_empty() {
            self.codes.push(bare(code));
        }
    }

    fn number(&mut self, value: Value<'_>) {
        let n = match value {
            Value::Number(_) => value.count(),
            Value::String(text) => text.decode().trim().parse().ok(),
            _ => None,
        };
        let status = n.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n));
        self.status = self.status.or(status);
    }

    /// One object that may say what went wrong: the body itself, or what its `error` holds.
    fn object(&mut self, raw: &[u8], depth: usize, outer: bool) -> Scan<()> {
        // The parts whose order counts; everything else is taken as it comes.
        let mut inner = None;
        let (mut code, mut status, mut kind, mut exact) = (None, None, None, None);
        let mut said = Vec::new();
        let mut scanner = Scanner::new(raw);
        let mut members = scanner.object()?;
        while let Some(key) = scanner.key(&mut members)? {
            let value = scanner.value()?;
            match &*key.decode() {
                "error" | "errors" | "response" | "detail" if !matches!(value, Value::String(_)) => {
                    inner = inner.or(Some(value).filter(|v| matches!(v, Value::Object(_) | Value::Array(_))));
                }
                "error" | "detail" | "message" | "Message" | "msg" | "error_description" | "status_msg" => {
                    match value {
                        Value::String(text) => said.push(text),
                        Value::Object(_) | Value::Array(_) => inner = inner.or(Some(value)),
                        _ => {}
                    }
                }
                "code" => code = Some(value),
                "status" => status = Some(value),
                "status_code" | "raw_status_code" => self.number(value),
                "type" | "error_type" | "__type" => kind = kind.or(value.string()).filter(|k| !k.is("error")),
                "error_code" => exact = exact.or(value.string()),
                "reason" => self.name(&value.string().map(crate::text::Literal::decode).unwrap_or_default()),
                "request_id" | "requestId" => {
                    let id = value.string().map(|id| id.decode().into_owned()).filter(|id| !id.is_empty());
                    self.request_id = self.request_id.take().or(id);
                }
                "headers" => self.wrapped_headers(value)?,
                "base_resp" => self.base_resp(value)?,
                "innererror" | "inner_error" | "metadata" | "details" | "violations" => self.more(value, depth + 1)?,
                "resets_in_seconds" => self.resets_in = self.resets_in.or(float(value)),
                "resets_at" => self.resets_at = self.resets_at.or(float(value)),
                _ => {}
            }
        }
        if let Some(value) = inner.filter(|_| depth < MAX_ERROR_WRAPS) {
            match value {
                Value::Object(raw) => self.object(raw, depth + 1, false)?,
                Value::Array(_) => self.root(value, depth + 1),
                _ => {}
            }
        }
        for value in [code, status].into_iter().flatten() {
            self.number(value);
        }
        // An outer `type` names the envelope where there is an inner object.
        let kind = kind.filter(|_| !outer || inner.is_none());
        let named = [exact, code.and_then(Value::string), status.and_then(Value::string), kind];
        for text in named.into_iter().flatten().map(crate::text::Literal::decode).filter(|t| !t.is_empty()) {
            self.name(&text);
            self.code = self.code.take().or_else(|| Some(cut(&text, MAX_NAME).to_owned()));
        }
        for text in said {
            let text = text.decode();
            if !text.contains(char::is_whitespace) {
                self.name(&text);
            }
            self.say(&text);
        }
        Ok(())
    }

    /// The places where vendors put what is more exact than the code: details, inner errors, violated quotas.
    fn more(&mut self, value: Value<'_>, depth: usize) -> Scan<()> {
        match value {
            Value::Array(raw) if depth < MAX_ERROR_WRAPS => {
                let mut scanner = Scanner::new(raw);
                let mut items = scanner.array()?;
                while scanner.item(&mut items)? {
                    let value = scanner.value()?;
                    self.more(value, depth + 1)?;
                }
            }
            Value::Object(raw) if depth < MAX_ERROR_WRAPS => {
                let mut scanner = Scanner::new(raw);
                let mut members = scanner.object()?;
                while let Some(key) = scanner.key(&mut members)? {
                    let value = scanner.value()?;
                    self.detail(&key.decode(), value, depth)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn detail(&mut self, key: &str, value: Value<'_>, depth: usize) -> Scan<()> {
        let text = value.string().map(crate::text::Literal::decode);
        match (key, text.as_deref()) {
            ("error_code", Some(code)) => {
                self.name(code);
                self.code = Some(cut(code, MAX_NAME).to_owned());
            }
            ("code" | "reason" | "error_type", Some(code)) => self.name(code),
            // What a router got from the provider behind it.
            ("raw", Some(raw)) => self.mention(cut(raw, MAX_ERROR_RAW)),
            ("retryDelay", Some(delay)) => self.retry_delay = Some(delay.to_owned()),
            ("quotaId" | "quota_limit", Some(name)) => {
                self.per_day |= name.contains("PerDay") || name.contains("per_day");
                self.per_minute |= name.contains("PerMinute") || name.contains("per_minute");
            }
            ("quotaValue" | "quota_limit_value", Some("0")) => self.zero_limit = true,
            ("metadata" | "violations" | "innererror", None) => self.more(value, depth + 1)?,
            _ => {}
        }
        Ok(())
    }

    fn base_resp(&mut self, value: Value<'_>) -> Scan<()> {
        let Value::Object(raw) = value else { return Ok(()) };
        let mut scanner = Scanner::new(raw);
        let mut members = scanner.object()?;
        while let Some(key) = scanner.key(&mut members)? {
            let value = scanner.value()?;
            if key.is("status_code") {
                if let Some(n) = value.count().filter(|&n| n != 0) {
                    self.name(&format!("minimax-{n}"));
                    self.code = self.code.take().or_else(|| Some(n.to_string()));
                }
            } else if let (true, Some(text)) = (key.is("status_msg"), value.string()) {
                self.say(&text.decode());
            }
        }
        Ok(())
    }

    fn wrapped_headers(&mut self, value: Value<'_>) -> Scan<()> {
        let Value::Object(raw) = value else { return Ok(()) };
        let mut scanner = Scanner::new(raw);
        let mut members = scanner.object()?;
        while let Some(key) = scanner.key(&mut members)? {
            let value = match scanner.value()? {
                Value::String(text) => text.decode().into_owned(),
                Value::Number(raw) => String::from_utf8_lossy(raw).into_owned(),
                _ => continue,
            };
            if self.headers.len() < crate::limits::MAX_PASSED_HEADERS {
                self.headers.push((key.decode().into_owned(), value));
            }
        }
        Ok(())
    }
}

fn first_item(raw: &[u8]) -> Scan<Option<Value<'_>>> {
    let mut scanner = Scanner::new(raw);
    let mut items = scanner.array()?;
    if scanner.item(&mut items)? { scanner.value().map(Some) } else { Ok(None) }
}

fn float(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Number(raw) => std::str::from_utf8(raw).ok()?.parse().ok(),
        Value::String(text) => text.decode().trim().parse().ok(),
        _ => None,
    }
}

/// The head of a body as text; empty where it is none.
fn head(bytes: &[u8]) -> &str {
    let bytes = &bytes[..bytes.len().min(MAX_ERROR_RAW)];
    let whole = match std::str::from_utf8(bytes) {
        // A character that the cut went through.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]),
        other => other,
    };
    whole.unwrap_or_default().trim()
}

/// `text`, or its head of at most `max` bytes, cut at a character's edge.
pub(super) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
