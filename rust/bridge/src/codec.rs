//! The sans-IO face: the codec's objects and functions, as Python calls them.
//!
//! 1. Bytes in, lists of events out; events in, bytes out. One call for a batch, never one for an event.
//! 2. An object belongs to one caller at a time: a second call while one runs is refused by the binding's borrow check.
//!
//! Parsing and policy must not be added here.

use headrace_codec::ErrorKind;
use headrace_codec::event::{
    AttachTo, CallKind, ContinuationForm, ErrorPhase, FinishReason, HostedPhase, Protocol, ReasoningKind,
};
use headrace_codec::headers;
use headrace_codec::loss::LossAction;
use headrace_codec::pipeline::{self, DecoderConfig, End, Transport};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::events::ListSink;
use crate::events::class::{Code, Coded};

impl Coded for End {
    const WHAT: &'static str = "end of a body";

    fn code(self) -> &'static str {
        match self {
            End::Eof => "eof",
            End::Reset => "reset",
            End::Timeout => "timeout",
            End::Aborted => "aborted",
        }
    }

    fn from_code(code: &str) -> Option<End> {
        ENDS.into_iter().find(|end| end.code() == code)
    }
}

impl Coded for Transport {
    const WHAT: &'static str = "transport";

    fn code(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::WebSocket => "websocket",
        }
    }

    fn from_code(code: &str) -> Option<Transport> {
        TRANSPORTS.into_iter().find(|transport| transport.code() == code)
    }
}

/// Names and values, from anything that gives pairs of `str`.
pub struct Pairs(pub Vec<(String, String)>);

impl<'py> FromPyObject<'_, 'py> for Pairs {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object.try_iter()?.map(|pair| pair?.extract()).collect::<PyResult<_>>().map(Pairs)
    }
}

/// Bytes to events: one response of one protocol.
///
/// - `protocol`: how to read the bytes.
/// - `status`, `headers`: the response's own. A failure's body becomes one `ProviderErrorEvent`; the content type says
///   how the body is framed, the first bytes where it is absent or wrong.
/// - `transport`: "websocket" where each call of `feed` brings one message.
/// - `think_tags`: text between `<think>` and `</think>` is reasoning.
/// - `turn_id`: intents get the ids `{turn_id}.0`, `{turn_id}.1`, ...
/// - `provider`, `model`: told in errors.
#[pyclass(module = "headrace")]
pub struct Decoder {
    inner: pipeline::Decoder,
    scratch: String,
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (
        protocol, *, status = 200, headers = Pairs(Vec::new()), transport = None, think_tags = false, turn_id = "t0",
        provider = None, model = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        protocol: Code<Protocol>,
        status: u16,
        headers: Pairs,
        transport: Option<Code<Transport>>,
        think_tags: bool,
        turn_id: &str,
        provider: Option<String>,
        model: Option<String>,
    ) -> Self {
        let config = DecoderConfig {
            status,
            headers: headers.0,
            transport: transport.map_or(Transport::Http, |t| t.0),
            think_tags,
            turn_id: turn_id.to_owned(),
            provider,
            model,
            ..DecoderConfig::new(protocol.0)
        };
        Decoder { inner: pipeline::Decoder::new(config), scratch: String::new() }
    }

    /// Take the next bytes of the body, split anywhere, and return their events: [] after the terminal one.
    fn feed<'py>(&mut self, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = data.py();
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return self.collect(py, |decoder, sink| decoder.feed(bytes.as_bytes(), sink));
        }
        let bytes = PyBuffer::<u8>::get(data)?.to_vec(py)?;
        self.collect(py, |decoder, sink| decoder.feed(&bytes, sink))
    }

    /// Say how the body ended, and return the events that follow: the last is the terminal one, unless it was out.
    #[pyo3(signature = (end = Code(End::Eof)))]
    fn finish<'py>(&mut self, py: Python<'py>, end: Code<End>) -> PyResult<Bound<'py, PyList>> {
        self.collect(py, |decoder, sink| decoder.finish(end.0, sink))
    }

    /// Whether the terminal event was given out.
    #[getter]
    fn is_done(&self) -> bool {
        self.inner.is_done()
    }

    fn __repr__(&self) -> String {
        format!("Decoder(is_done={})", if self.inner.is_done() { "True" } else { "False" })
    }
}

impl Decoder {
    fn collect<'py>(
        &mut self,
        py: Python<'py>,
        work: impl FnOnce(&mut pipeline::Decoder, &mut ListSink<'_, 'py>),
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let mut sink = ListSink { list: &list, scratch: &mut self.scratch, failure: None };
        work(&mut self.inner, &mut sink);
        match sink.failure {
            Some(failure) => Err(failure),
            None => Ok(list),
        }
    }
}

/// Keep the response headers that may reach a client: limits, request ids and a few facts (an allow-list).
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "made for this call")]
pub fn filter_response_headers(pairs: Pairs) -> Vec<(String, String)> {
    headers::filter(&pairs.0).into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The closed lists of codes, by the name of their type in `headrace.codes`.
#[pyfunction]
pub fn code_lists() -> Vec<(&'static str, Vec<&'static str>)> {
    fn codes<T: Coded>(all: &[T]) -> Vec<&'static str> {
        all.iter().map(|one| one.code()).collect()
    }
    vec![
        ("AttachTo", codes(AttachTo::ALL)),
        ("CallKind", codes(CallKind::ALL)),
        ("ContinuationForm", codes(ContinuationForm::ALL)),
        ("End", codes(&ENDS)),
        ("ErrorKind", codes(ErrorKind::ALL)),
        ("ErrorPhase", codes(ErrorPhase::ALL)),
        ("FinishReason", codes(FinishReason::ALL)),
        ("HostedPhase", codes(HostedPhase::ALL)),
        ("LossAction", codes(LossAction::ALL)),
        ("Protocol", codes(&Protocol::ALL)),
        ("ReasoningKind", codes(ReasoningKind::ALL)),
        ("Transport", codes(&TRANSPORTS)),
    ]
}

const ENDS: [End; 4] = [End::Eof, End::Reset, End::Timeout, End::Aborted];
const TRANSPORTS: [Transport; 2] = [Transport::Http, Transport::WebSocket];
