//! Events as Gemini's `GenerateContentResponse`: an event stream, a stream that is one JSON array, or one object.
//!
//! 1. Every chunk has the model's name and the response's id; the last has the finish reason, the sources and the counts.
//!    There is no terminal of its own: the end of the body ends it, and an array its bracket.
//! 2. A call goes out whole, at its intent, for this protocol has no other way that every client reads.
//! 3. A signature stands on the part that it belongs to: on its call, on a text that is empty in a stream. What another family
//!    gave stands on a thought, wrapped ([`continuation`](super::continuation)) and in base64, since the slot holds bytes.
//! 4. Spans of sources are counted in bytes over all texts.
//! 5. A failure is an object with `error`, and nothing after it but the array's bracket.

mod end;

use super::calls::{Calls, State, Step};
use super::errors::Told;
use super::shared::{Shared, list_comma, put, put_raw, put_str};
use super::{Continued, Outcome};
use crate::error::ErrorKind;
use crate::event::{AttachTo, CallKind, Event, Protocol, ToolIntent};
use crate::json::{Scanner, Value};
use crate::offsets::Offsets;
use crate::text::Text;

pub(super) struct Gemini {
    /// The stream is one JSON array.
    array: bool,
    /// A chunk went out.
    begun: bool,
    calls: Calls,
    opened: usize,
    /// Signatures that wait for their calls.
    signatures: Vec<(u32, String)>,
    /// One body: the parts so far, the last of which may be open.
    parts: Vec<u8>,
    open: Option<Open>,
    /// Any part went out.
    said: bool,
    offsets: Offsets,
    /// The newest text block, and where it begins, in code points.
    block: Option<u32>,
    block_from: u64,
    sources: end::Sources,
}

/// A text part of one body that goes on.
#[derive(Clone, Copy, PartialEq)]
struct Open {
    thought: bool,
    index: u32,
}

impl Gemini {
    /// `array`: whether the client asked for a stream that is one JSON array.
    pub fn new(calls: Calls, array: bool) -> Gemini {
        Gemini {
            array,
            begun: false,
            calls,
            opened: 0,
            signatures: Vec::new(),
            parts: Vec::new(),
            open: None,
            said: false,
            offsets: Offsets::default(),
            block: None,
            block_from: 0,
            sources: end::Sources::default(),
        }
    }

    pub fn event(&mut self, shared: &mut Shared, event: &Event<'_>, out: &mut Vec<u8>) -> Outcome {
        match event {
            Event::TextDelta { text, index } => {
                self.count(*index, *text);
                self.text(shared, Open { thought: false, index: *index }, *text, out);
            }
            Event::RefusalDelta { text, index } => {
                shared.losses.approximated("response.refusal");
                self.count(*index, *text);
                self.text(shared, Open { thought: false, index: *index }, *text, out);
            }
            Event::ReasoningDelta { text, index, .. } => {
                self.text(shared, Open { thought: true, index: *index }, *text, out);
            }
            Event::Continuation { family, form, data, to, index } => {
                let (family, form, data, to, index) = (*family, *form, *data, *to, *index);
                self.continuation(shared, &Continued { family, form, data, to, index }, out);
            }
            Event::Annotation { kind, url, title, span, raw } => self.source(shared, *kind, *url, *title, *span, raw),
            Event::HostedTool { raw, .. } if shared.native() => self.hosted(shared, raw, out),
            Event::HostedTool { .. } => shared.losses.dropped("response.hosted_tools"),
            Event::Media { mime, data, url, .. } => {
                if data.is_none() && url.is_none() {
                    shared.losses.dropped("response.media");
                } else {
                    self.media(shared, *mime, *data, *url, out);
                }
            }
            Event::IntentDelta { call, provider_call_id, name, kind, arguments_delta } => {
                // It goes out at its intent; a stream that was told of none of it cannot diverge.
                let _ = self.calls.delta(*call, *provider_call_id, *name, *kind, *arguments_delta);
            }
            Event::IntentProposed(intent) => {
                if !self.intent(shared, intent, out) {
                    return Outcome::Failed(Told::of_kind(ErrorKind::MalformedToolCall));
                }
            }
            Event::Finished { reason, raw_reason } => {
                self.finished(shared, *reason, *raw_reason, out);
                return Outcome::Over;
            }
            Event::Started { .. } | Event::Usage(_) | Event::Error(_) => {}
        }
        Outcome::Going
    }

    /// Others have begun this stream, and written as many chunks.
    pub fn resume(&mut self, chunks: u64) {
        self.begun = chunks > 0;
    }

    pub fn fail(&mut self, told: &Told, out: &mut Vec<u8>) {
        self.frame(out, |out| out.extend_from_slice(&told.body(Protocol::GoogleGemini)));
        if self.array {
            put(out, "]\n");
        }
    }

    /// A blank line is nothing to an event stream and white space to an array; a comment would be text to the vendor's SDK.
    pub fn keep_alive(out: &mut Vec<u8>) {
        put(out, "\n");
    }

    fn frame(&mut self, out: &mut Vec<u8>, inside: impl FnOnce(&mut Vec<u8>)) {
        if self.array {
            put(out, if self.begun { "," } else { "[" });
            inside(out);
            put(out, "\n");
        } else {
            put(out, "data: ");
            inside(out);
            put(out, "\n\n");
        }
        self.begun = true;
    }

    /// A part, as a chunk of its own or as the body's next.
    fn part(&mut self, shared: &Shared, out: &mut Vec<u8>, inside: impl FnOnce(&mut Vec<u8>)) {
        self.said = true;
        if !shared.stream {
            self.close();
            list_comma(&mut self.parts);
            return inside(&mut self.parts);
        }
        self.frame(out, |out| {
            put(out, "{\"candidates\":[{\"content\":{\"parts\":[");
            inside(out);
            put(out, "],\"role\":\"model\"},\"index\":0}]");
            put_names(out, shared);
            out.push(b'}');
        });
    }

    fn text(&mut self, shared: &Shared, open: Open, text: Text<'_>, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        if shared.stream {
            return self.part(shared, out, |out| {
                put(out, if open.thought { "{\"thought\":true,\"text\":\"" } else { "{\"text\":\"" });
                text.push_json(out);
                put(out, "\"}");
            });
        }
        self.begin(open);
        text.push_json(&mut self.parts);
    }

    /// One body: goes on with the text part, or begins it.
    fn begin(&mut self, open: Open) {
        self.said = true;
        if self.open != Some(open) {
            self.close();
            list_comma(&mut self.parts);
            put(&mut self.parts, if open.thought { "{\"thought\":true,\"text\":\"" } else { "{\"text\":\"" });
            self.open = Some(open);
        }
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            put(&mut self.parts, "\"}");
        }
    }

    fn count(&mut self, index: u32, text: Text<'_>) {
        if self.block != Some(index) {
            self.block = Some(index);
            self.block_from = self.offsets.code_points(self.offsets.bytes_so_far()).unwrap_or(0);
        }
        self.offsets.push(text);
    }

    fn continuation(&mut self, shared: &Shared, continuation: &Continued<'_>, out: &mut Vec<u8>) {
        let Continued { family, form, data, to, index } = *continuation;
        let data = shared.slot(family, form, data).into_owned();
        if to == AttachTo::Call {
            self.signatures.push((index, data));
            return;
        }
        // A thought may have no text; a text that is not Gemini's is not looked at for another family's state.
        let thought = family != Protocol::GoogleGemini || to == AttachTo::Reasoning;
        let open = Open { thought, index };
        if shared.stream {
            return self.part(shared, out, |out| {
                put(out, if thought { "{\"thought\":true,\"text\":\"\"" } else { "{\"text\":\"\"" });
                put_str(out, ",\"thoughtSignature\":", &data);
                out.push(b'}');
            });
        }
        // The text that was just closed is the one that it signs.
        self.begin(open);
        self.open = None;
        put(&mut self.parts, "\"");
        put_str(&mut self.parts, ",\"thoughtSignature\":", &data);
        self.parts.push(b'}');
    }

    /// A part of the vendor's own goes as it came; a search and a fetch are told at the end.
    fn hosted(&mut self, shared: &Shared, raw: &[u8], out: &mut Vec<u8>) {
        match Scanner::only(raw) {
            Ok(Value::Array(queries)) => self.sources.queries = queries.to_vec(),
            Ok(Value::Object(urls)) if urls.starts_with(b"{\"urlMetadata\"") => self.sources.urls = urls.to_vec(),
            Ok(Value::Object(part)) => self.part(shared, out, |out| put_raw(out, part)),
            _ => {}
        }
    }

    fn media(
        &mut self,
        shared: &Shared,
        mime: Text<'_>,
        data: Option<Text<'_>>,
        url: Option<Text<'_>>,
        out: &mut Vec<u8>,
    ) {
        self.part(shared, out, |out| {
            put(out, if data.is_some() { "{\"inlineData\":{\"mimeType\":" } else { "{\"fileData\":{\"mimeType\":" });
            mime.push_json_string(out);
            put(out, if data.is_some() { ",\"data\":" } else { ",\"fileUri\":" });
            data.or(url).unwrap_or(Text::EMPTY).push_json_string(out);
            put(out, "}}");
        });
    }

    /// False for a call that cannot be told: its arguments are no object.
    fn intent(&mut self, shared: &mut Shared, intent: &ToolIntent<'_>, out: &mut Vec<u8>) -> bool {
        if self.calls.intent(intent) == Step::Hold {
            return true;
        }
        let number = intent.call;
        if self.calls.call(number).is_some_and(|call| call.kind == CallKind::Custom) {
            shared.losses.approximated("response.tool_calls[].input");
            self.calls.wrap_custom(number);
        }
        let slot = self.opened;
        self.opened += 1;
        let stem = shared.stem.clone();
        let Some(call) = self.calls.open(number, slot, || format!("call_{stem}_{slot}")) else { return true };
        if !matches!(Scanner::only(call.text.as_bytes()), Ok(Value::Object(_))) {
            return false;
        }
        call.state = State::Done;
        call.told();
        let mut part = b"{\"functionCall\":{".to_vec();
        put_str(&mut part, "\"id\":", &call.id);
        put_str(&mut part, ",\"name\":", &call.name);
        put(&mut part, ",\"args\":");
        put_raw(&mut part, call.text.trim().as_bytes());
        part.push(b'}');
        if let Some(at) = self.signatures.iter().position(|(of, _)| *of == number) {
            let (_, signature) = self.signatures.swap_remove(at);
            put_str(&mut part, ",\"thoughtSignature\":", &signature);
        }
        part.push(b'}');
        self.part(shared, out, |out| out.extend_from_slice(&part));
        true
    }
}

fn put_names(out: &mut Vec<u8>, shared: &Shared) {
    put_str(out, ",\"modelVersion\":", &shared.model);
    put_str(out, ",\"responseId\":", &shared.response_id);
}
