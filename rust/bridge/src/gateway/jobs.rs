//! The three jobs as handles: a request to decide on, a failure to follow up, a settlement to note.
//!
//! 1. A handle answers facts without building Python objects of a prompt.
//! 2. Headers hold secrets: no `repr` shows them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headrace_codec::Protocol;
use headrace_codec::event::{At, Event};
use headrace_codec::request::TargetFlags;
use headrace_edge::policy::{Failure, Gathered, Lane, OwnedError, Settlement};
use headrace_edge::request::Recipe;
use headrace_edge::{ClientRequest, Reply};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::events;
use crate::request::read_edits;

/// A client's request. See `headrace.requests.Request`.
#[pyclass(frozen, module = "headrace._core")]
pub struct RequestRef {
    request: Arc<ClientRequest>,
    reply: Mutex<Option<Reply>>,
}

impl RequestRef {
    pub fn new(request: Arc<ClientRequest>, reply: Reply) -> Self {
        Self { request, reply: Mutex::new(Some(reply)) }
    }

    pub fn take_reply(&self) -> Option<Reply> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl RequestRef {
    #[getter]
    fn id(&self) -> &str {
        &self.request.id
    }

    #[getter]
    fn method(&self) -> &str {
        &self.request.method
    }

    #[getter]
    fn path(&self) -> &str {
        &self.request.path
    }

    #[getter]
    fn query(&self) -> Option<&str> {
        self.request.query.as_deref()
    }

    #[getter]
    fn protocol(&self) -> &'static str {
        self.request.protocol.name()
    }

    #[getter]
    fn operation(&self) -> &'static str {
        self.request.operation.name()
    }

    #[getter]
    fn model(&self) -> Option<&str> {
        self.request.facts.model.as_deref()
    }

    #[getter]
    fn stream(&self) -> bool {
        self.request.facts.stream
    }

    #[getter]
    fn include_usage(&self) -> bool {
        self.request.facts.include_usage
    }

    #[getter]
    fn body_size(&self) -> usize {
        self.request.body_size
    }

    #[getter]
    fn tool_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.request.facts.tool_names)
    }

    #[getter]
    fn has_images(&self) -> bool {
        self.request.facts.has_images
    }

    #[getter]
    fn has_files(&self) -> bool {
        self.request.facts.has_files
    }

    #[getter]
    fn state_refs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.request.facts.state_refs)
    }

    #[getter]
    fn previous_response_id(&self) -> Option<&str> {
        self.request.facts.previous_response_id.as_deref()
    }

    #[getter]
    fn conversation(&self) -> Option<&str> {
        self.request.facts.conversation.as_deref()
    }

    #[getter]
    fn background(&self) -> bool {
        self.request.facts.background
    }

    #[getter]
    fn max_tokens(&self) -> Option<u64> {
        self.request.facts.max_tokens
    }

    #[getter]
    fn prompt_cache_key(&self) -> Option<&str> {
        self.request.facts.prompt_cache_key.as_deref()
    }

    #[getter]
    fn session(&self) -> Option<String> {
        self.request.session().map(lossy)
    }

    #[getter]
    fn peer(&self) -> String {
        self.request.peer.to_string()
    }

    /// A header's value; of several, the first.
    fn header(&self, name: &str) -> Option<String> {
        self.request.header(&name.to_ascii_lowercase()).map(lossy)
    }

    /// All headers, names in lower case.
    fn headers(&self) -> Vec<(&str, String)> {
        self.request.headers.iter().map(|(name, value)| (name.as_str(), lossy(value))).collect()
    }

    /// The headers of these names (in lower case), and those that begin with `prefix`.
    #[pyo3(signature = (names, prefix=None))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes the names for this call")]
    fn headers_named(&self, names: Vec<PyBackedStr>, prefix: Option<&str>) -> Vec<(&str, String)> {
        let wanted =
            |name: &str| names.iter().any(|n| **n == *name) || prefix.is_some_and(|prefix| name.starts_with(prefix));
        let headers = self.request.headers.iter().filter(|(name, _)| wanted(name));
        headers.map(|(name, value)| (name.as_str(), lossy(value))).collect()
    }

    /// A copy of the body as it came.
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let body =
            self.request.body().ok_or_else(|| PyRuntimeError::new_err("the answer has begun: the body is gone"))?;
        Ok(PyBytes::new(py, &body))
    }

    /// Tell how the provider's body is to be made, without making it.
    #[expect(clippy::unused_self, reason = "a recipe belongs to its request, though the edge finds the body itself")]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes the names for this call")]
    #[pyo3(signature = (protocol, *, model, provider=None, edits=None, target_flags=Vec::new()))]
    fn body_for(
        &self,
        protocol: &str,
        model: String,
        provider: Option<String>,
        edits: Option<&Bound<'_, PyDict>>,
        target_flags: Vec<String>,
    ) -> PyResult<BodyRecipe> {
        let names: Vec<&str> = target_flags.iter().map(String::as_str).collect();
        let flags = TargetFlags::from_names(&names).map_err(PyValueError::new_err)?;
        let edits = edits.map_or_else(|| Ok(Vec::new()), read_edits)?;
        let protocol = protocol_named(protocol)?;
        Ok(BodyRecipe { recipe: Arc::new(Recipe { protocol, model, provider, edits, flags }) })
    }

    fn __repr__(&self) -> String {
        format!("RequestRef({} {} {})", self.request.id, self.request.method, self.request.path)
    }
}

/// How a provider's body is made of the client's.
#[pyclass(frozen, module = "headrace._core")]
pub struct BodyRecipe {
    pub recipe: Arc<Recipe>,
}

#[pymethods]
impl BodyRecipe {
    #[getter]
    fn protocol(&self) -> &'static str {
        self.recipe.protocol.name()
    }

    fn __repr__(&self) -> String {
        format!("BodyRecipe({}, edits={})", self.recipe.protocol.name(), self.recipe.edits.len())
    }
}

pub fn protocol_named(name: &str) -> PyResult<Protocol> {
    Protocol::from_name(name).ok_or_else(|| PyValueError::new_err("no such protocol"))
}

/// A failed attempt. See `headrace.requests.Failure`.
#[pyclass(frozen, module = "headrace._core")]
pub struct FailureRef {
    failure: Failure,
    reply: Mutex<Option<Reply>>,
}

impl FailureRef {
    pub fn new(failure: Failure, reply: Reply) -> Self {
        Self { failure, reply: Mutex::new(Some(reply)) }
    }

    pub fn take_reply(&self) -> Option<Reply> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl FailureRef {
    #[getter]
    fn token(&self) -> u64 {
        self.failure.token
    }

    #[getter]
    fn attempt(&self) -> u32 {
        self.failure.attempt
    }

    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        error_event(py, &self.failure.error)
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.failure.headers)
    }

    #[getter]
    fn bytes_sent(&self) -> u64 {
        self.failure.bytes_sent
    }

    #[getter]
    fn bytes_received(&self) -> u64 {
        self.failure.bytes_received
    }

    #[getter]
    fn reused_socket(&self) -> bool {
        self.failure.reused_socket
    }

    #[getter]
    fn lane(&self) -> Option<&'static str> {
        self.failure.lane.map(Lane::name)
    }

    fn __repr__(&self) -> String {
        format!("FailureRef({}, #{}, {})", self.failure.token, self.failure.attempt, self.failure.error.kind.code())
    }
}

/// A provider's whole answer, to be read. See `headrace.requests.Gathered`.
#[pyclass(frozen, module = "headrace._core")]
pub struct GatheredRef {
    gathered: Gathered,
    reply: Mutex<Option<Reply>>,
}

impl GatheredRef {
    pub fn new(gathered: Gathered, reply: Reply) -> Self {
        Self { gathered, reply: Mutex::new(Some(reply)) }
    }

    pub fn take_reply(&self) -> Option<Reply> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl GatheredRef {
    #[getter]
    fn token(&self) -> u64 {
        self.gathered.token
    }

    #[getter]
    fn status(&self) -> u16 {
        self.gathered.status
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.gathered.headers)
    }

    /// A copy of the body.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.gathered.body)
    }

    fn __repr__(&self) -> String {
        format!(
            "GatheredRef({}, status={}, {} bytes)",
            self.gathered.token,
            self.gathered.status,
            self.gathered.body.len()
        )
    }
}

/// The end of a planned request. See `headrace.requests.Settlement`.
#[pyclass(frozen, module = "headrace._core")]
pub struct SettlementRef {
    settlement: Settlement,
}

impl SettlementRef {
    pub fn new(settlement: Settlement) -> Self {
        Self { settlement }
    }
}

#[pymethods]
impl SettlementRef {
    #[getter]
    fn token(&self) -> u64 {
        self.settlement.token
    }

    #[getter]
    fn attempts(&self) -> u32 {
        self.settlement.attempts
    }

    #[getter]
    fn lane(&self) -> Option<&'static str> {
        self.settlement.lane.map(Lane::name)
    }

    #[getter]
    fn status(&self) -> u16 {
        self.settlement.status
    }

    #[getter]
    fn finish(&self) -> Option<&'static str> {
        self.settlement.finish.map(headrace_codec::event::FinishReason::code)
    }

    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.settlement.error.as_ref().map(|error| error_event(py, error)).transpose()
    }

    #[getter]
    fn model(&self) -> Option<&str> {
        self.settlement.model.as_deref()
    }

    #[getter]
    fn response_id(&self) -> Option<&str> {
        self.settlement.response_id.as_deref()
    }

    #[getter]
    fn request_id(&self) -> Option<&str> {
        self.settlement.request_id.as_deref()
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.settlement.headers)
    }

    #[getter]
    fn input_tokens(&self) -> Option<u64> {
        self.settlement.usage.input_tokens
    }

    #[getter]
    fn output_tokens(&self) -> Option<u64> {
        self.settlement.usage.output_tokens
    }

    #[getter]
    fn cached_input_tokens(&self) -> Option<u64> {
        self.settlement.usage.cached_input_tokens
    }

    #[getter]
    fn cache_write_tokens(&self) -> Option<u64> {
        self.settlement.usage.cache_write_tokens
    }

    #[getter]
    fn reasoning_tokens(&self) -> Option<u64> {
        self.settlement.usage.reasoning_tokens
    }

    #[getter]
    fn intents(&self) -> u32 {
        self.settlement.intents
    }

    #[getter]
    fn events(&self) -> u64 {
        self.settlement.events
    }

    #[getter]
    fn bytes_sent(&self) -> u64 {
        self.settlement.bytes_sent
    }

    #[getter]
    fn bytes_received(&self) -> u64 {
        self.settlement.bytes_received
    }

    #[getter]
    fn bytes_to_client(&self) -> u64 {
        self.settlement.bytes_to_client
    }

    #[getter]
    fn decide_s(&self) -> f64 {
        self.settlement.decide.as_secs_f64()
    }

    #[getter]
    fn first_byte_s(&self) -> Option<f64> {
        self.settlement.first_byte.as_ref().map(Duration::as_secs_f64)
    }

    #[getter]
    fn total_s(&self) -> f64 {
        self.settlement.total.as_secs_f64()
    }

    /// Pairs of a path and what became of it.
    #[getter]
    fn losses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.settlement.losses.iter().map(|loss| (loss.path.as_str(), loss.action.code())))
    }

    fn __repr__(&self) -> String {
        let s = &self.settlement;
        let end = s.finish.map_or_else(|| s.error.as_ref().map_or("", |e| e.kind.code()), |f| f.code());
        format!("SettlementRef({}, {}, attempts={})", s.token, end, s.attempts)
    }
}

fn error_event<'py>(py: Python<'py>, error: &OwnedError) -> PyResult<Bound<'py, PyAny>> {
    events::make(py, At::default(), &Event::Error(error.as_event()), &mut String::new())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
