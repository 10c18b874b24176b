//! The codec's events as native Python objects, and back.
//!
//! [`make`] copies a borrowed event into an object of its class; [`lend`] borrows such an object as an event
//! again, for an encoder. `class.rs` makes the classes, `kinds.rs` and `intent.rs` list them.
//!
//! Meaning must not be added here: what an event says is decided in the codec.

pub mod class;
pub mod intent;
pub mod kinds;
pub mod parts;

use std::sync::OnceLock;

use headrace_codec::event::{At, Event, Sink};
use headrace_codec::{Text, event};
use pyo3::PyClass;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use self::class::{Code, Opaque};
use self::intent::ToolIntentProposed;
use self::kinds::{
    Annotation, Continuation, HostedTool, Media, ModelFinished, ModelStarted, ProviderErrorEvent, ReasoningDelta,
    RefusalDelta, TextDelta, ToolIntentDelta, Usage,
};
use self::parts::Attach;
use crate::text::to_str;

/// Collects events as Python objects. The first failure (no memory) is kept and ends the collecting.
pub struct ListSink<'a, 'py> {
    pub list: &'a Bound<'py, PyList>,
    /// Room for decoding, the decoder's own.
    pub scratch: &'a mut String,
    pub failure: Option<PyErr>,
}

impl Sink for ListSink<'_, '_> {
    fn event(&mut self, at: At, event: &Event<'_>) {
        if self.failure.is_some() {
            return;
        }
        let made = make(self.list.py(), at, event, self.scratch).and_then(|object| self.list.append(object));
        self.failure = made.err();
    }
}

/// Makes the object of an event.
#[expect(clippy::too_many_lines, reason = "one arm an event")]
pub fn make<'py>(py: Python<'py>, at: At, event: &Event<'_>, scratch: &mut String) -> PyResult<Bound<'py, PyAny>> {
    let At { seq, offset } = at;
    let mut maker = Maker { py, scratch };
    match event {
        Event::TextDelta { text, index } => {
            let text = maker.str(*text)?;
            object(py, TextDelta { text, index: *index, seq, offset })
        }
        Event::ReasoningDelta { text, kind, index } => {
            let text = maker.str(*text)?;
            object(py, ReasoningDelta { text, kind: Code(*kind), index: *index, seq, offset })
        }
        Event::IntentDelta { call, provider_call_id, name, kind, arguments_delta } => {
            let made = ToolIntentDelta {
                call: *call,
                provider_call_id: maker.str_if(*provider_call_id)?,
                name: maker.str_if(*name)?,
                kind: Code(*kind),
                arguments_delta: maker.str(*arguments_delta)?,
                seq,
                offset,
            };
            object(py, made)
        }
        Event::Started { model, response_id, request_id } => {
            let made = ModelStarted {
                model: maker.str_if(*model)?,
                response_id: maker.str_if(*response_id)?,
                request_id: maker.str_if(*request_id)?,
                seq,
                offset,
            };
            object(py, made)
        }
        Event::RefusalDelta { text, index } => {
            let text = maker.str(*text)?;
            object(py, RefusalDelta { text, index: *index, seq, offset })
        }
        Event::Continuation { family, form, data, to, index } => {
            let made = Continuation {
                family: Code(*family),
                form: Code(*form),
                data: maker.opaque(*data)?,
                attach: Attach { to: Code(*to), index: *index },
                seq,
                offset,
            };
            object(py, made)
        }
        Event::Annotation { kind, url, title, span, raw } => {
            let made = Annotation {
                kind: maker.str(*kind)?,
                url: maker.opaque_if(*url)?,
                title: maker.str_if(*title)?,
                span: *span,
                raw: maker.raw(raw),
                seq,
                offset,
            };
            object(py, made)
        }
        Event::HostedTool { id, phase, name, raw } => {
            let made = HostedTool {
                id: maker.str_if(*id)?,
                phase: Code(*phase),
                name: maker.str(*name)?,
                raw: maker.raw(raw),
                seq,
                offset,
            };
            object(py, made)
        }
        Event::Media { mime, data, url, partial } => {
            let made = Media {
                mime: maker.str(*mime)?,
                data: maker.opaque_if(*data)?,
                url: maker.opaque_if(*url)?,
                partial: *partial,
                seq,
                offset,
            };
            object(py, made)
        }
        Event::IntentProposed(intent) => {
            let made = ToolIntentProposed {
                call: intent.call,
                id: PyString::new(py, intent.id).unbind(),
                provider_call_id: maker.str_if(intent.provider_call_id)?,
                tool_name: maker.str(intent.tool_name)?,
                kind: Code(intent.kind),
                raw_input_text: maker.str(intent.raw_input_text)?,
                assembled_from: intent.assembled_from.into(),
                seq,
                offset,
                parsed: OnceLock::new(),
            };
            object(py, made)
        }
        Event::Usage(usage) => {
            let made = Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cached_input_tokens: usage.cached_input_tokens,
                cache_write_tokens: usage.cache_write_tokens,
                reasoning_tokens: usage.reasoning_tokens,
                raw: maker.raw(usage.raw),
                seq,
                offset,
            };
            object(py, made)
        }
        Event::Finished { reason, raw_reason } => {
            let raw_reason = maker.str_if(*raw_reason)?;
            object(py, ModelFinished { reason: Code(*reason), raw_reason, seq, offset })
        }
        Event::Error(error) => maker.error(at, error),
    }
}

fn object<T: PyClass + Into<PyClassInitializer<T>>>(py: Python<'_>, made: T) -> PyResult<Bound<'_, PyAny>> {
    Bound::new(py, made).map(Bound::into_any)
}

struct Maker<'py, 's> {
    py: Python<'py>,
    scratch: &'s mut String,
}

impl<'py> Maker<'py, '_> {
    fn str(&mut self, text: Text<'_>) -> PyResult<Py<PyString>> {
        to_str(self.py, text, self.scratch).map(Bound::unbind)
    }

    fn str_if(&mut self, text: Option<Text<'_>>) -> PyResult<Option<Py<PyString>>> {
        text.map(|t| self.str(t)).transpose()
    }

    fn opaque(&mut self, text: Text<'_>) -> PyResult<Opaque> {
        self.str(text).map(Opaque)
    }

    fn opaque_if(&mut self, text: Option<Text<'_>>) -> PyResult<Option<Opaque>> {
        text.map(|t| self.opaque(t)).transpose()
    }

    fn raw(&self, json: &[u8]) -> Option<Opaque> {
        (!json.is_empty()).then(|| Opaque(PyString::new(self.py, &String::from_utf8_lossy(json)).unbind()))
    }

    fn error(&mut self, at: At, error: &event::ProviderError<'_>) -> PyResult<Bound<'py, PyAny>> {
        let made = ProviderErrorEvent {
            kind: Code(error.kind),
            retryable: error.retryable,
            status: error.status,
            code: self.str_if(error.code)?,
            message: self.opaque_if(error.message)?,
            raw: self.opaque_if(error.raw)?,
            retry_after_s: error.retry_after_s,
            request_id: self.str_if(error.request_id)?,
            provider: self.str_if(error.provider)?,
            model: self.str_if(error.model)?,
            phase: Code(error.phase),
            seq: at.seq,
            offset: at.offset,
        };
        object(self.py, made)
    }
}

/// Calls `take` with the event that a Python object stands for.
pub fn lend<R>(object: &Bound<'_, PyAny>, take: impl FnOnce(At, &Event<'_>) -> R) -> PyResult<R> {
    let py = object.py();
    macro_rules! try_each {
        ($($class:ty),+ $(,)?) => { $(
            if let Ok(found) = object.cast_exact::<$class>() {
                let found = found.get();
                return Ok(take(At { seq: found.seq, offset: found.offset }, &found.event(py)?));
            }
        )+ };
    }
    try_each!(
        TextDelta,
        ReasoningDelta,
        ToolIntentDelta,
        ToolIntentProposed,
        ModelStarted,
        Usage,
        ModelFinished,
        ProviderErrorEvent,
        RefusalDelta,
        Continuation,
        Annotation,
        HostedTool,
        Media,
    );
    Err(PyTypeError::new_err(format!("a {} is no event", object.get_type().name()?)))
}
