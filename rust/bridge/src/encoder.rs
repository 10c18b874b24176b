//! Events to bytes, as Python calls it.
//!
//! Formats must not be added here: they are the codec's.

use headrace_codec::encode::{self, EncoderConfig};
use headrace_codec::event::{Event, Protocol};
use headrace_codec::loss::{self, LossAction};
use headrace_codec::request::TargetFlags;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::events::class::{Code, Coded};
use crate::events::lend;

impl Coded for LossAction {
    const WHAT: &'static str = "action";
    fn code(self) -> &'static str {
        LossAction::code(self)
    }
    fn from_code(code: &str) -> Option<Self> {
        LossAction::from_code(code)
    }
}

/// One field that a translation did not carry over unchanged: its path, and what became of it. Never a value.
#[pyclass(frozen, get_all, eq, hash, module = "headrace")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Loss {
    pub path: String,
    pub action: Code<LossAction>,
}

#[pymethods]
impl Loss {
    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(py, ["path", "action"])
    }

    #[new]
    fn new(path: String, action: Code<LossAction>) -> Self {
        Loss { path, action }
    }

    fn __repr__(&self) -> String {
        format!("Loss(path='{}', action='{}')", self.path, self.action.0.code())
    }
}

impl From<&loss::Loss> for Loss {
    fn from(loss: &loss::Loss) -> Self {
        Loss { path: loss.path.clone(), action: Code(loss.action) }
    }
}

/// Events to bytes: what a client of one protocol expects, as a stream or as one JSON body.
///
/// - `client_protocol`: what the client speaks.
/// - `stream`: an event stream, or one body.
/// - `model`: the name that the client asked for.
/// - `response_id`: ids of items derive from it.
/// - `created`: Unix time in seconds.
/// - `include_usage`: Chat only: whether the client asked for the usage chunk.
/// - `request`: the client's body; Responses repeats parts of it.
/// - `provider`, `family`: the provider row and the protocol that the events came from, for continuations that travel
///   in the client's own opaque slots.
/// - `target_flags`: what that provider takes, as for `translate_request`: whether it wants readable reasoning back.
#[pyclass(module = "headrace")]
pub struct Encoder {
    inner: encode::Encoder,
    /// Written and not given out yet: empty but after a `feed` whose events ended in an exception.
    out: Vec<u8>,
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (
        client_protocol, *, stream = true, model, response_id, created, include_usage = false, request = None,
        provider = None, family = None, target_flags = Vec::new()
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes the arguments for this call")]
    fn new(
        client_protocol: Code<Protocol>,
        stream: bool,
        model: String,
        response_id: String,
        created: u64,
        include_usage: bool,
        request: Option<Vec<u8>>,
        provider: Option<String>,
        family: Option<Code<Protocol>>,
        target_flags: Vec<String>,
    ) -> PyResult<Self> {
        let names: Vec<&str> = target_flags.iter().map(String::as_str).collect();
        let config = EncoderConfig {
            protocol: client(client_protocol)?,
            stream,
            model,
            response_id,
            created,
            include_usage,
            request,
            provider,
            family: family.map(|f| f.0),
            array: false,
            target_flags: TargetFlags::from_names(&names).map_err(PyValueError::new_err)?,
        };
        Ok(Encoder { inner: encode::Encoder::new(config), out: Vec::new() })
    }

    /// Take the next events and return the bytes for the client: b"" where there is nothing to say yet. Where the
    /// iterable fails, what came before is not lost: the next call gives its bytes.
    fn feed<'py>(&mut self, events: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        for event in events.try_iter()? {
            lend(&event?, |at, event| self.inner.event(at, event, &mut self.out))?;
        }
        Ok(self.take(events.py()))
    }

    /// End the stream: b"" if a terminal event ended it, else the protocol's own way to say that it was cut.
    fn finish<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.inner.finish(&mut self.out);
        self.take(py)
    }

    /// What the client's protocol had no place for, so far.
    #[getter]
    fn losses(&self) -> Vec<Loss> {
        self.inner.losses().iter().map(Loss::from).collect()
    }
}

impl Encoder {
    fn take<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = PyBytes::new(py, &self.out);
        self.out.clear();
        bytes
    }
}

/// Status, headers and body.
type Answer<'py> = (u16, Vec<(&'static str, String)>, Bound<'py, PyBytes>);

/// The answer that tells a client of a failure before anything else has reached it.
#[pyfunction]
pub fn error_reply<'py>(client_protocol: Code<Protocol>, event: &Bound<'py, PyAny>) -> PyResult<Answer<'py>> {
    let protocol = client(client_protocol)?;
    let reply = lend(event, |_, event| match event {
        Event::Error(error) => Some(encode::error_reply(protocol, error)),
        _ => None,
    })?;
    match reply {
        Some(reply) => Ok((reply.status, reply.headers, PyBytes::new(event.py(), &reply.body))),
        None => Err(PyTypeError::new_err("only a ProviderErrorEvent is told as an error")),
    }
}

fn client(Code(protocol): Code<Protocol>) -> PyResult<Protocol> {
    if encode::is_client(protocol) {
        return Ok(protocol);
    }
    Err(PyValueError::new_err(format!("clients do not speak {}", protocol.name())))
}
