//! `tool_intent.proposed`: a complete, parsed proposal of one tool use. Nothing has been permitted or executed.
//!
//! 1. The arguments' text is the fact; `input` is that text as a value, made when somebody first asks for it.
//! 2. Made by hand it is held to the same rule as from a stream: a function's text is one JSON object, `null`
//!    or blank.

use std::sync::OnceLock;

use headrace_codec::event::{At, CallKind, Event, ToolIntent};
use headrace_codec::json::{Scanner, Value};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::class::{Code, Show, close, hash, text, text_if};
use super::parts::AssembledFrom;

/// A tool use that the model asks for, complete and parsed. `status` is always `proposed`.
#[pyclass(frozen, module = "headrace")]
pub struct ToolIntentProposed {
    #[pyo3(get)]
    pub call: u32,
    #[pyo3(get)]
    pub id: Py<PyString>,
    #[pyo3(get)]
    pub provider_call_id: Option<Py<PyString>>,
    #[pyo3(get)]
    pub tool_name: Py<PyString>,
    #[pyo3(get)]
    pub kind: Code<CallKind>,
    #[pyo3(get)]
    pub raw_input_text: Py<PyString>,
    #[pyo3(get)]
    pub assembled_from: AssembledFrom,
    #[pyo3(get)]
    pub seq: u64,
    #[pyo3(get)]
    pub offset: u64,
    /// `input`, once somebody has asked for it.
    pub parsed: OnceLock<Py<PyAny>>,
}

impl ToolIntentProposed {
    pub fn event<'a>(&'a self, py: Python<'a>) -> PyResult<Event<'a>> {
        Ok(Event::IntentProposed(self.intent(py)?))
    }

    fn intent<'a>(&'a self, py: Python<'a>) -> PyResult<ToolIntent<'a>> {
        Ok(ToolIntent {
            call: self.call,
            id: self.id.bind(py).to_str()?,
            provider_call_id: text_if(py, self.provider_call_id.as_ref())?,
            tool_name: text(py, &self.tool_name)?,
            kind: self.kind.0,
            raw_input_text: text(py, &self.raw_input_text)?,
            assembled_from: (&self.assembled_from).into(),
        })
    }

    fn json(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let mut out = Vec::new();
        self.event(py)?.push_json(At { seq: self.seq, offset: self.offset }, &mut out);
        Ok(out)
    }
}

#[pymethods]
impl ToolIntentProposed {
    #[classattr]
    fn r#type() -> &'static str {
        "tool_intent.proposed"
    }

    #[classattr]
    fn status() -> &'static str {
        "proposed"
    }

    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        let fields = [
            "call",
            "id",
            "provider_call_id",
            "tool_name",
            "kind",
            "input",
            "raw_input_text",
            "assembled_from",
            "status",
        ];
        PyTuple::new(py, fields)
    }

    #[new]
    #[pyo3(signature = (
        *, call, id, provider_call_id = None, tool_name, kind = Code(CallKind::Function), raw_input_text,
        assembled_from = None, seq = 0, offset = 0
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python: the event's fields")]
    fn new(
        py: Python<'_>,
        call: u32,
        id: Py<PyString>,
        provider_call_id: Option<Py<PyString>>,
        tool_name: Py<PyString>,
        kind: Code<CallKind>,
        raw_input_text: Py<PyString>,
        assembled_from: Option<AssembledFrom>,
        seq: u64,
        offset: u64,
    ) -> PyResult<Self> {
        let made = ToolIntentProposed {
            call,
            id,
            provider_call_id,
            tool_name,
            kind,
            raw_input_text,
            assembled_from: assembled_from.unwrap_or_default(),
            seq,
            offset,
            parsed: OnceLock::new(),
        };
        let intent = made.intent(py)?;
        if kind.0 == CallKind::Function
            && !matches!(Scanner::only(intent.input_json().as_bytes()), Ok(Value::Object(_)))
        {
            return Err(PyValueError::new_err("a function's raw_input_text is one JSON object, null or blank"));
        }
        Ok(made)
    }

    /// The arguments as a value: a `dict` for a function, a `str` for a custom tool.
    #[getter]
    fn input<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(value) = self.parsed.get() {
            return Ok(value.bind(py).clone());
        }
        let value = match self.kind.0 {
            CallKind::Custom => self.raw_input_text.clone_ref(py).into_any(),
            CallKind::Function => crate::text::from_json(py, self.intent(py)?.input_json().as_bytes())?.unbind(),
        };
        Ok(self.parsed.get_or_init(|| value).bind(py).clone())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let mut out = format!("ToolIntentProposed(call={}, tool_name=", self.call);
        self.tool_name.show(py, &mut out);
        out.push_str(", raw_input_text=");
        self.raw_input_text.show(py, &mut out);
        out.push(',');
        close(' ', &mut out);
        out
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        Ok(self.json(py)? == other.json(py)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        self.json(py).map(|json| hash(&json))
    }

    /// The event as a `dict`, without what is absent.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::text::from_json(py, &self.json(py)?)
    }

    /// The event as one line of JSON, without what is absent.
    fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.json(py)?))
    }

    /// `input` is the one field that may come to hold anything, also this event itself.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self.parsed.get())
    }
}
