//! The scripted upstream of `headrace.testing`: a script in, facts out.
//!
//! What a reply means must not be added here: `rust/scripted` plays it, `python/headrace/testing.py` describes it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headrace_scripted::{Facts, Framing, Play, Reply, Script, Upstream};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// A running upstream. It ends with this object.
#[pyclass(frozen, module = "headrace._core")]
pub struct ScriptedRef {
    url: String,
    upstream: Mutex<Option<Arc<Upstream>>>,
}

/// One reply: status, headers, framing, parts, whether to close after it, whether the parts are all there is.
#[derive(FromPyObject)]
struct ReplySpec<'py>(u16, Vec<(String, String)>, Bound<'py, PyAny>, Vec<Bound<'py, PyTuple>>, bool, bool);

/// Open, closed by the client, reset, requests, bytes written, blocked, waiting.
type Connection = (bool, bool, bool, usize, u64, bool, bool);
/// Connection, method, target, headers, body.
type Request<'py> = (usize, String, String, Vec<(String, String)>, Bound<'py, PyBytes>);
/// A number that changes with them, connections, requests, their count, malformed ones, replies.
type Told<'py> = (u64, Vec<Connection>, Vec<Request<'py>>, usize, usize, usize);

#[pymethods]
impl ScriptedRef {
    /// Listen on a free loopback port and play the script.
    #[staticmethod]
    #[pyo3(signature = (routes, *, record, tls = None))]
    fn start(
        py: Python<'_>,
        routes: Vec<(String, Vec<ReplySpec<'_>>)>,
        record: usize,
        tls: Option<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<Self> {
        let mut script = Script::new().record(record);
        for (path, replies) in routes {
            if replies.is_empty() {
                return Err(PyValueError::new_err(format!("the route {path} has no reply")));
            }
            script = script.route(&path, replies.iter().map(reply).collect::<PyResult<_>>()?);
        }
        let upstream = py.detach(|| match tls {
            Some((chain, key)) => Upstream::start_tls(script, &chain, &key),
            None => Upstream::start(script),
        })?;
        Ok(ScriptedRef { url: upstream.url(""), upstream: Mutex::new(Some(Arc::new(upstream))) })
    }

    /// Where it listens, without a path.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Open a gate: every reply that waits or will wait at it goes on.
    fn open(&self, gate: &str) -> PyResult<()> {
        self.running()?.open(gate);
        Ok(())
    }

    /// What was seen.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Told<'py>> {
        let facts = self.running()?.facts();
        let connections = facts
            .connections
            .iter()
            .map(|c| (c.open, c.closed_by_client, c.reset, c.requests, c.written, c.blocked, c.waiting));
        let state = state(&facts);
        let connections = connections.collect();
        let requests = facts
            .requests
            .into_iter()
            .map(|r| (r.connection, r.method, r.target, r.headers, PyBytes::new(py, &r.body)));
        Ok((state, connections, requests.collect(), facts.request_count, facts.malformed, facts.replies))
    }

    /// Wait until the facts differ from those that had this number, or `limit` seconds are over.
    fn wait_change(&self, py: Python<'_>, seen: u64, limit: f64) -> PyResult<bool> {
        let upstream = self.running()?;
        let limit = Duration::try_from_secs_f64(limit).map_err(|_| PyValueError::new_err("no such time"))?;
        Ok(py.detach(|| upstream.wait(limit, |facts| state(facts) != seen)))
    }

    /// Close its connections and end it.
    fn stop(&self, py: Python<'_>) {
        let upstream = self.upstream.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Ends its thread, which never attaches.
        py.detach(|| drop(upstream));
    }

    fn __repr__(&self) -> String {
        format!("ScriptedRef({})", self.url)
    }
}

impl ScriptedRef {
    fn running(&self) -> PyResult<Arc<Upstream>> {
        let upstream = self.upstream.lock().unwrap_or_else(PoisonError::into_inner);
        upstream.clone().ok_or_else(|| PyRuntimeError::new_err("the upstream was stopped"))
    }
}

/// A number that differs where the facts do.
fn state(facts: &Facts) -> u64 {
    let mut hasher = DefaultHasher::new();
    for c in &facts.connections {
        (c.open, c.closed_by_client, c.reset, c.requests, c.written, c.blocked, c.waiting).hash(&mut hasher);
    }
    (facts.request_count, facts.malformed, facts.replies).hash(&mut hasher);
    hasher.finish()
}

fn reply(spec: &ReplySpec<'_>) -> PyResult<Reply> {
    let ReplySpec(status, headers, framing, parts, close, raw) = spec;
    if *raw {
        let plays = parts.iter().map(|part| play(part)).collect::<PyResult<_>>()?;
        return Ok(Reply::raw(plays, !close));
    }
    let mut made = Reply::status(*status).framing(framing_of(framing)?);
    for (name, value) in headers {
        made = made.header(name, value);
    }
    for part in parts {
        made = match play(part)? {
            Play::Send(bytes) => made.data(bytes),
            Play::Drip { bytes, size, pause } => made.drip(bytes, size, pause),
            other => made.play(other),
        };
    }
    if *close {
        made = made.close();
    }
    made.try_end().map_err(|error| PyValueError::new_err(format!("no such reply: {error}")))
}

fn framing_of(framing: &Bound<'_, PyAny>) -> PyResult<Framing> {
    if let Ok(length) = framing.extract::<u64>() {
        return Ok(Framing::Lie(length));
    }
    match framing.extract::<&str>()? {
        "length" => Ok(Framing::Length),
        "chunked" => Ok(Framing::Chunked),
        "close" => Ok(Framing::Close),
        _ => Err(PyValueError::new_err("a framing is length, chunked, close or a number")),
    }
}

/// One act: its name, then what it needs.
fn play(part: &Bound<'_, PyTuple>) -> PyResult<Play> {
    let seconds = |at: usize| -> PyResult<Duration> {
        Duration::try_from_secs_f64(part.get_item(at)?.extract()?).map_err(|_| PyValueError::new_err("no such time"))
    };
    Ok(match part.get_item(0)?.extract::<&str>()? {
        "send" => Play::Send(part.get_item(1)?.extract::<Vec<u8>>()?.into()),
        "drip" => Play::Drip {
            bytes: part.get_item(1)?.extract::<Vec<u8>>()?.into(),
            size: part.get_item(2)?.extract::<usize>()?.max(1),
            pause: seconds(3)?,
        },
        "pause" => Play::Pause(seconds(1)?),
        "gate" => Play::Gate(part.get_item(1)?.extract()?),
        "stall" => Play::Stall,
        "cut" => Play::Cut,
        "reset" => Play::Reset,
        _ => return Err(PyValueError::new_err("no such act")),
    })
}
