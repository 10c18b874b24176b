//! The event classes whose fields are all there is to them. `tool_intent.proposed` is in `intent.rs`.

use headrace_codec::ErrorKind;
use headrace_codec::event::{
    At, CallKind, ContinuationForm, ErrorPhase, Event, FinishReason, HostedPhase, Protocol, ProviderError,
    ReasoningKind, Usage as Counts,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::class::{Code, Opaque, Show, event_class, raw, text, text_if};
use super::parts::Attach;

type Str = Py<PyString>;

event_class! {
    /// A response began: first, and once.
    ModelStarted = "model.started", new(model = None, response_id = None, request_id = None, *) {
        model: Option<Str>, response_id: Option<Str>, request_id: Option<Str>,
    }
}

impl ModelStarted {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::Started {
            model: text_if(py, self.model.as_ref())?,
            response_id: text_if(py, self.response_id.as_ref())?,
            request_id: text_if(py, self.request_id.as_ref())?,
        })
    }
}

event_class! {
    /// A piece of the answer's text.
    TextDelta = "model.text_delta", new(text, index = 0, *) { text: Str, index: u32 }
}

impl TextDelta {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::TextDelta { text: text(py, &self.text)?, index: self.index })
    }
}

event_class! {
    /// A piece of a refusal's text.
    RefusalDelta = "model.refusal_delta", new(text, index = 0, *) { text: Str, index: u32 }
}

impl RefusalDelta {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::RefusalDelta { text: text(py, &self.text)?, index: self.index })
    }
}

event_class! {
    /// A piece of readable reasoning: shown and logged, never a fact.
    ReasoningDelta = "model.reasoning_delta", new(text, kind = Code(ReasoningKind::Raw), index = 0, *) {
        text: Str, kind: Code<ReasoningKind>, index: u32,
    }
}

impl ReasoningDelta {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::ReasoningDelta { text: text(py, &self.text)?, kind: self.kind.0, index: self.index })
    }
}

event_class! {
    /// Opaque state that goes back unchanged to the same family on the next turn.
    Continuation = "model.continuation", new(family, form, data, attach, *) {
        family: Code<Protocol>, form: Code<ContinuationForm>, data: Opaque, attach: Attach,
    }
}

impl Continuation {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::Continuation {
            family: self.family.0,
            form: self.form.0,
            data: text(py, &self.data.0)?,
            to: self.attach.to.0,
            index: self.attach.index,
        })
    }
}

event_class! {
    /// A citation or another mark on the answer's text; `span` is in code points.
    Annotation = "model.annotation", new(kind, url = None, title = None, span = None, raw = None, *) {
        kind: Str, url: Option<Opaque>, title: Option<Str>, span: Option<(u64, u64)>, raw: Option<Opaque>,
    }
}

impl Annotation {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::Annotation {
            kind: text(py, &self.kind)?,
            url: text_if(py, self.url.as_ref().map(|u| &u.0))?,
            title: text_if(py, self.title.as_ref())?,
            span: self.span,
            raw: raw(py, self.raw.as_ref())?,
        })
    }
}

event_class! {
    /// A tool that the provider ran on its own side. A report, never an intent.
    HostedTool = "model.hosted_tool", new(id, phase, name, raw = None, *) {
        id: Option<Str>, phase: Code<HostedPhase>, name: Str, raw: Option<Opaque>,
    }
}

impl HostedTool {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::HostedTool {
            id: text_if(py, self.id.as_ref())?,
            phase: self.phase.0,
            name: text(py, &self.name)?,
            raw: raw(py, self.raw.as_ref())?,
        })
    }
}

event_class! {
    /// An image or audio that the model made: base64 `data`, or a `url`.
    Media = "model.media", new(mime, data = None, url = None, partial = false, *) {
        mime: Str, data: Option<Opaque>, url: Option<Opaque>, partial: bool,
    }
}

impl Media {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::Media {
            mime: text(py, &self.mime)?,
            data: text_if(py, self.data.as_ref().map(|d| &d.0))?,
            url: text_if(py, self.url.as_ref().map(|u| &u.0))?,
            partial: self.partial,
        })
    }
}

event_class! {
    /// A piece of a call that may become an intent. For showing; nothing acts on it.
    ToolIntentDelta = "tool_intent.delta", new(
        call, *, provider_call_id = None, name = None, kind = Code(CallKind::Function), arguments_delta
    ) {
        call: u32, provider_call_id: Option<Str>, name: Option<Str>, kind: Code<CallKind>,
        arguments_delta: Str,
    }
}

impl ToolIntentDelta {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::IntentDelta {
            call: self.call,
            provider_call_id: text_if(py, self.provider_call_id.as_ref())?,
            name: text_if(py, self.name.as_ref())?,
            kind: self.kind.0,
            arguments_delta: text(py, &self.arguments_delta)?,
        })
    }
}

event_class! {
    /// Totals of the response, never deltas. Absent is unknown, and never 0.
    Usage = "model.usage", new(
        input_tokens = None, output_tokens = None, cached_input_tokens = None, cache_write_tokens = None,
        reasoning_tokens = None, raw = None, *
    ) {
        input_tokens: Option<u64>, output_tokens: Option<u64>, cached_input_tokens: Option<u64>,
        cache_write_tokens: Option<u64>, reasoning_tokens: Option<u64>, raw: Option<Opaque>,
    }
}

impl Usage {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::Usage(Counts {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cached_input_tokens: self.cached_input_tokens,
            cache_write_tokens: self.cache_write_tokens,
            reasoning_tokens: self.reasoning_tokens,
            raw: raw(py, self.raw.as_ref())?,
        }))
    }
}

event_class! {
    /// The response ended as its protocol ends one. Terminal.
    ModelFinished = "model.finished", new(reason, raw_reason = None, *) {
        reason: Code<FinishReason>, raw_reason: Option<Str>,
    }
}

impl ModelFinished {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::Finished { reason: self.reason.0, raw_reason: text_if(py, self.raw_reason.as_ref())? })
    }
}

event_class! {
    /// The provider failed. Terminal, and every intent before it is void.
    ProviderErrorEvent = "provider.error", new(
        kind, retryable, status = None, code = None, message = None, raw = None, retry_after_s = None,
        request_id = None, provider = None, model = None, phase = Code(ErrorPhase::Streaming), *
    ) {
        kind: Code<ErrorKind>, retryable: bool, status: Option<u16>, code: Option<Str>, message: Option<Opaque>,
        raw: Option<Opaque>, retry_after_s: Option<f64>, request_id: Option<Str>, provider: Option<Str>,
        model: Option<Str>, phase: Code<ErrorPhase>,
    }
}

impl ProviderErrorEvent {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::Error(ProviderError {
            kind: self.kind.0,
            retryable: self.retryable,
            status: self.status,
            code: text_if(py, self.code.as_ref())?,
            message: text_if(py, self.message.as_ref().map(|m| &m.0))?,
            raw: text_if(py, self.raw.as_ref().map(|r| &r.0))?,
            retry_after_s: self.retry_after_s,
            request_id: text_if(py, self.request_id.as_ref())?,
            provider: text_if(py, self.provider.as_ref())?,
            model: text_if(py, self.model.as_ref())?,
            phase: self.phase.0,
        }))
    }
}
