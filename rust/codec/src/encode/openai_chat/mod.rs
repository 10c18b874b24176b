//! Events as Chat Completions: chunks, or one `chat.completion` object.
//!
//! 1. Order of a stream: a chunk with the role, deltas, one chunk with an empty delta and the `finish_reason`, the
//!    usage chunk (`choices: []`) where the client asked for it and the counts are known, `data: [DONE]`.
//!    Every chunk has `id`, `object`, `created`, `model` and `choices[].index`: the helpers of the SDKs need them.
//! 2. A call's `id`, `type` and `name` are sent once, with its first chunk: one helper concatenates what comes
//!    again. Calls are numbered by their opening, without gaps.
//! 3. Every list in a delta has entries with an integer `index`: without it one helper raises.
//! 4. A truncated call is one of a response with `finish_reason: "length"`.
//! 5. A failure is a chunk with `error`, and then nothing: no `[DONE]`, which reads as a normal end to clients that
//!    skip what they do not know.

mod details;
mod end;

use super::annotations::{Note, Waiting, put_url_citation};
use super::calls::{Call, Calls, State, Step};
use super::errors::Told;
use super::shared::{
    Counts, Losses, Shared, code_points, comma, demanded, list_comma, put, put_count, put_raw, put_str,
};
use super::{Continued, Outcome};
use crate::error::ErrorKind;
use crate::event::{CallKind, Event, Protocol};
use crate::text::{Text, push_json_str};

pub(super) struct Chat {
    /// A chunk up to the inside of its delta.
    head: Vec<u8>,
    /// What follows the delta's inside.
    tail: &'static str,
    role_sent: bool,
    refused: bool,
    calls: Calls,
    opened: usize,
    /// The wire has signatures: reasoning text also goes into the entry that is to be signed.
    signs: bool,
    /// The block whose text the newest entry of `reasoning_details` holds.
    signing: Option<u32>,
    details: u64,
    waiting: Waiting,
    annotations: u64,
    images: u64,
    /// The current text block, where it starts in the joined content, and the content's length, in code points.
    block: Option<u32>,
    block_start: u64,
    length: u64,
    /// One body: the insides of its JSON strings and lists.
    body: Body,
}

#[derive(Default)]
struct Body {
    content: Option<Vec<u8>>,
    refusal: Option<Vec<u8>>,
    reasoning: Option<Vec<u8>>,
    details: Vec<u8>,
    annotations: Vec<u8>,
    images: Vec<u8>,
}

/// Texts that grow by deltas.
#[derive(Clone, Copy)]
enum Field {
    Content,
    Refusal,
    Reasoning,
}

/// Lists that grow by entries.
#[derive(Clone, Copy)]
enum List {
    Details,
    Annotations,
    Images,
}

impl Chat {
    pub fn new(shared: &Shared, calls: Calls) -> Chat {
        let mut head = Vec::new();
        put(&mut head, "data: ");
        put_head(&mut head, shared, "chat.completion.chunk");
        put(&mut head, ",\"choices\":[{\"index\":0,\"delta\":{");
        let signs = shared.signs_text();
        Chat {
            head,
            tail: if shared.include_usage {
                "},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n"
            } else {
                "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
            },
            role_sent: false,
            refused: false,
            calls,
            opened: 0,
            signs,
            signing: None,
            details: 0,
            waiting: Waiting::default(),
            annotations: 0,
            images: 0,
            block: None,
            block_start: 0,
            length: 0,
            body: Body::default(),
        }
    }

    pub fn event(&mut self, shared: &mut Shared, event: &Event<'_>, out: &mut Vec<u8>) -> Outcome {
        match event {
            Event::Started { .. } => self.role(shared, out),
            Event::TextDelta { text, index } => {
                if self.block != Some(*index) {
                    let notes = self.waiting.claimed();
                    self.note(shared, &notes, out);
                    self.block = Some(*index);
                    self.block_start = self.length;
                }
                self.length += code_points(*text);
                self.waiting.claim();
                self.text(shared, Field::Content, *text, out);
            }
            Event::RefusalDelta { text, .. } => {
                self.refused = true;
                self.text(shared, Field::Refusal, *text, out);
            }
            Event::ReasoningDelta { text, index, .. } if self.signs => self.signed_text(shared, *index, *text, out),
            Event::ReasoningDelta { text, .. } => self.text(shared, Field::Reasoning, *text, out),
            Event::Continuation { family, form, data, to, index } => {
                let (family, form, data, to, index) = (*family, *form, *data, *to, *index);
                self.continuation(shared, &Continued { family, form, data, to, index }, out);
            }
            Event::Annotation { url, title, span, raw, .. } => match (url, span) {
                (Some(url), Some((start, end))) => {
                    let span = (self.block_start + start, self.block_start + end);
                    self.cite(shared, &Note::of(*url, *title), span, out);
                }
                (Some(url), None) => self.waiting.push(Note::of(*url, *title)),
                (None, _) if shared.native() && raw.len() > 2 && raw[0] == b'{' => {
                    let index = self.annotations;
                    self.annotations += 1;
                    let mut entry = Vec::with_capacity(raw.len() + 16);
                    put_count(&mut entry, "{\"index\":", index);
                    entry.push(b',');
                    put_raw(&mut entry, &raw[1..]);
                    self.entry(shared, List::Annotations, &entry, out);
                }
                (None, _) => shared.losses.dropped("response.annotations"),
            },
            Event::Media { mime, data, url, partial } => self.media(shared, *mime, *data, *url, *partial, out),
            Event::IntentDelta { call, provider_call_id, name, kind, arguments_delta } => {
                self.role(shared, out);
                let step = self.calls.delta(*call, *provider_call_id, *name, *kind, *arguments_delta);
                self.step(shared, *call, step, Some(*arguments_delta), out);
            }
            Event::IntentProposed(intent) => {
                self.role(shared, out);
                let step = self.calls.intent(intent);
                if step == Step::Diverged && shared.stream {
                    shared.losses.dropped("response.tool_calls[].arguments");
                    return Outcome::Failed(Told::of_kind(ErrorKind::MalformedToolCall));
                }
                self.step(shared, intent.call, step, None, out);
                if let Some(call) = self.calls.call(intent.call) {
                    call.state = State::Done;
                }
            }
            Event::Finished { reason, .. } => {
                self.finished(shared, *reason, out);
                return Outcome::Over;
            }
            // There is no place for what a provider ran, as the table says: it never comes here.
            Event::HostedTool { .. } | Event::Usage(_) | Event::Error(_) => {}
        }
        Outcome::Going
    }

    pub fn fail(told: &Told, out: &mut Vec<u8>) {
        put(out, "data: ");
        out.extend_from_slice(&told.body(Protocol::OpenaiChat));
        put(out, "\n\n");
    }

    fn role(&mut self, shared: &Shared, out: &mut Vec<u8>) {
        if !self.role_sent {
            self.role_sent = true;
            self.chunk(shared, out, |out| put(out, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null"));
        }
    }

    fn text(&mut self, shared: &Shared, field: Field, text: Text<'_>, out: &mut Vec<u8>) {
        self.role(shared, out);
        if text.is_empty() {
            return;
        }
        if shared.stream {
            let key = match field {
                Field::Content => "\"content\":\"",
                Field::Refusal => "\"refusal\":\"",
                Field::Reasoning => "\"reasoning_content\":\"",
            };
            self.chunk(shared, out, |out| {
                put(out, key);
                text.push_json(out);
                out.push(b'"');
            });
        } else {
            let kept = match field {
                Field::Content => &mut self.body.content,
                Field::Refusal => &mut self.body.refusal,
                Field::Reasoning => &mut self.body.reasoning,
            };
            text.push_json(kept.get_or_insert_default());
        }
    }

    /// Citations that stood for their whole block, now that it is whole.
    fn note(&mut self, shared: &mut Shared, notes: &[Note], out: &mut Vec<u8>) {
        for note in notes {
            self.cite(shared, note, (self.block_start, self.length), out);
        }
    }

    fn cite(&mut self, shared: &Shared, note: &Note, span: (u64, u64), out: &mut Vec<u8>) {
        let mut entry = Vec::with_capacity(96 + note.url.len() + note.title.len());
        put_count(&mut entry, "{\"index\":", self.annotations);
        put(&mut entry, ",\"type\":\"url_citation\",\"url_citation\":{");
        put_url_citation(&mut entry, note, span);
        put(&mut entry, "}}");
        self.annotations += 1;
        self.entry(shared, List::Annotations, &entry, out);
    }

    /// Images have no place in the vendor's own schema; `images` is what the compatible vendors send and clients read.
    fn media(
        &mut self,
        shared: &mut Shared,
        mime: Text<'_>,
        data: Option<Text<'_>>,
        url: Option<Text<'_>>,
        partial: bool,
        out: &mut Vec<u8>,
    ) {
        let mime = mime.decode();
        let is_image = mime.starts_with("image/");
        if partial || !is_image || (data.is_none() && url.is_none()) {
            shared.losses.dropped("response.media");
            return;
        }
        let mut entry = Vec::new();
        put_count(&mut entry, "{\"index\":", self.images);
        put(&mut entry, ",\"type\":\"image_url\",\"image_url\":{\"url\":\"");
        if let Some(data) = data {
            put(&mut entry, "data:");
            Text::from(&*mime).push_json(&mut entry);
            put(&mut entry, ";base64,");
            data.push_json(&mut entry);
        } else if let Some(url) = url {
            url.push_json(&mut entry);
        }
        put(&mut entry, "\"}}");
        self.images += 1;
        self.entry(shared, List::Images, &entry, out);
    }

    /// One entry of a list, as a delta of its own or as the body's next.
    fn entry(&mut self, shared: &Shared, list: List, entry: &[u8], out: &mut Vec<u8>) {
        self.role(shared, out);
        if shared.stream {
            let key = match list {
                List::Details => "\"reasoning_details\":[",
                List::Annotations => "\"annotations\":[",
                List::Images => "\"images\":[",
            };
            self.chunk(shared, out, |out| {
                put(out, key);
                out.extend_from_slice(entry);
                out.push(b']');
            });
        } else {
            let kept = match list {
                List::Details => &mut self.body.details,
                List::Annotations => &mut self.body.annotations,
                List::Images => &mut self.body.images,
            };
            list_comma(kept);
            kept.extend_from_slice(entry);
        }
    }

    fn step(&mut self, shared: &Shared, number: u32, step: Step, delta: Option<Text<'_>>, out: &mut Vec<u8>) {
        if step == Step::Hold {
            return;
        }
        let Some(call) = self.calls.call(number) else { return };
        let opens = call.state == State::Seen;
        if opens {
            let slot = self.opened;
            self.opened += 1;
            self.calls.open(number, slot, || minted(&shared.stem, slot));
        }
        let (head, tail) = (&self.head, self.tail);
        let Some(call) = self.calls.call(number) else { return };
        if shared.stream && (opens || !call.rest().is_empty()) {
            out.extend_from_slice(head);
            put_count(out, "\"tool_calls\":[{\"index\":", call.slot as u64);
            let (member, text) = names(call.kind);
            if opens {
                put_str(out, ",\"id\":", &call.id);
                put_str(out, ",\"type\":", member);
                out.push(b',');
                push_json_str(member, out);
                put_str(out, ":{\"name\":", &call.name);
                out.push(b',');
            } else {
                out.push(b',');
                push_json_str(member, out);
                put(out, ":{");
            }
            put(out, text);
            push_rest(call, delta, out);
            put(out, "\"}}]");
            put(out, tail);
        }
        call.told();
    }

    fn chunk(&self, shared: &Shared, out: &mut Vec<u8>, inside: impl FnOnce(&mut Vec<u8>)) {
        if shared.stream {
            out.extend_from_slice(&self.head);
            inside(out);
            put(out, self.tail);
        }
    }
}

fn minted(stem: &str, slot: usize) -> String {
    format!("call_{stem}_{slot}")
}

/// What the client has not been told of a call: raw from the delta where nothing else was held back.
fn push_rest(call: &Call, delta: Option<Text<'_>>, out: &mut Vec<u8>) {
    match delta {
        Some(delta) if call.only_newest() => delta.push_json(out),
        _ => Text::from(call.rest()).push_json(out),
    }
}

fn put_head(out: &mut Vec<u8>, shared: &Shared, object: &str) {
    put_str(out, "{\"id\":", &shared.response_id);
    put_str(out, ",\"object\":", object);
    put_count(out, ",\"created\":", shared.created);
    put_str(out, ",\"model\":", &shared.model);
}

/// The member that holds a call of this kind, and its text's key with the opening quote.
fn names(kind: CallKind) -> (&'static str, &'static str) {
    match kind {
        CallKind::Function => ("function", "\"arguments\":\""),
        CallKind::Custom => ("custom", "\"input\":\""),
    }
}
