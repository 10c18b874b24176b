//! The gateway as Python holds it: jobs out in batches, answers back in batches.
//!
//! 1. Edge threads never attach to Python. They put jobs in a queue and ring an eventfd; Python's main thread takes
//!    all that wait, and gives back all that is decided.
//! 2. A settlement never rings by itself: it rides along with the next job, or with a timer of 15 ms.
//! 3. What Python holds on to keeps nothing on an edge thread waiting: a job that is dropped unanswered is answered.
//!
//! Policy must not be added here, nor a call into Python for anything but a job.

pub mod answer;
pub mod config;
pub mod demo;
pub mod jobs;
pub mod queue;

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use headrace_edge::{Edge, Policy, deliver};
use headrace_kernel::{ClientConfig, TlsConfig};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

use self::config::GatewayConfig;
use self::jobs::{FailureRef, GatheredRef, RequestRef, SettlementRef};
use self::queue::{Job, Queue};

/// A running gateway listener.
#[pyclass(frozen, module = "headrace._core")]
pub struct GatewayRef {
    queue: Arc<Queue>,
    edge: Edge,
}

#[pymethods]
impl GatewayRef {
    /// Listen, and answer from then on.
    #[staticmethod]
    fn start(config: &GatewayConfig) -> PyResult<Self> {
        let tls = TlsConfig::new(config.roots, config.extra_ca.as_deref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        tls.load();
        let queue = Arc::new(Queue::new()?);
        let policy: Arc<dyn Policy> = Arc::clone(&queue) as Arc<dyn Policy>;
        let edge = Edge::start(config.edge.clone(), &ClientConfig::new(tls), &policy)?;
        Ok(Self { queue, edge })
    }

    /// The address that is listened on: host and port.
    #[getter]
    fn address(&self) -> (String, u16) {
        let address = self.edge.address();
        (address.ip().to_string(), address.port())
    }

    /// Readable while jobs wait.
    fn fileno(&self) -> i32 {
        self.queue.bell.as_raw_fd()
    }

    /// Readable when settlements have waited for long enough.
    fn timer_fileno(&self) -> i32 {
        self.queue.timer.as_raw_fd()
    }

    /// All jobs that wait: a `RequestRef` to decide on, a `FailureRef` to follow up, a `GatheredRef` to
    /// read, a `SettlementRef` to note.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for job in self.queue.take() {
            match job {
                Job::Decide(request, reply) => list.append(RequestRef::new(request, reply))?,
                Job::Next(failure, reply) => list.append(FailureRef::new(*failure, reply))?,
                Job::Read(gathered, reply) => list.append(GatheredRef::new(*gathered, reply))?,
                Job::Settle(settlement) => list.append(SettlementRef::new(*settlement))?,
            }
        }
        Ok(list)
    }

    /// Give back what was decided: pairs of a job and its `Plan`, `AttemptSpec`, `Refusal` or `Answer`.
    ///
    /// A pair that cannot be read answers its job with an internal error; the first such error is raised, after all
    /// others have been given back.
    #[staticmethod]
    fn reply(pairs: &Bound<'_, PyList>) -> PyResult<()> {
        let mut first = None;
        let mut answers = Vec::with_capacity(pairs.len());
        for pair in pairs.iter() {
            match read_pair(&pair) {
                Ok(answer) => answers.push(answer),
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        deliver(answers);
        first.map_or(Ok(()), Err)
    }

    /// Say whether `/readyz` answers that requests can be served.
    fn set_ready(&self, ready: bool) {
        self.queue.set_ready(ready);
    }

    /// Give the system back what starting took and nobody uses any more: a megabyte or two, some milliseconds' work. Nothing
    /// where the C library is not glibc.
    #[staticmethod]
    fn trim(py: Python<'_>) {
        #[cfg(target_env = "gnu")]
        // SAFETY: it takes no pointer, and the allocator holds its own locks.
        py.detach(|| unsafe { libc::malloc_trim(0) });
        #[cfg(not(target_env = "gnu"))]
        let _ = py;
    }

    /// How often Python was handed something, and how much: `takes`, `rings`, `decides`, `nexts`, `reads`,
    /// `settles`.
    fn counters(&self) -> [(&'static str, u64); 6] {
        self.queue.counters()
    }

    /// Connections that are open, and all that there have been.
    fn connections(&self) -> (u64, u64) {
        self.edge.counts().connections()
    }

    /// Requests that were refused before Python heard of them: status and number.
    fn refused(&self) -> Vec<(u16, u64)> {
        self.edge.counts().refused().collect()
    }

    /// Stop listening at once, and let answers under way end within `grace` seconds. A later call changes the grace.
    fn stop(&self, grace: f64) -> PyResult<()> {
        let grace = Duration::try_from_secs_f64(grace).map_err(|e| PyValueError::new_err(e.to_string()))?;
        self.edge.stop(grace);
        Ok(())
    }

    /// Wait until a stop has come to its end.
    ///
    /// Jobs still come meanwhile: call it from another thread than the one that takes them.
    fn join(&self, py: Python<'_>) {
        py.detach(|| self.edge.join());
    }

    fn __repr__(&self) -> String {
        format!("GatewayRef({})", self.edge.address())
    }
}

type Given = (headrace_edge::Reply, headrace_edge::policy::Decision);

fn read_pair(pair: &Bound<'_, PyAny>) -> PyResult<Given> {
    let (job, answer): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
    let reply = if let Ok(request) = job.cast::<RequestRef>() {
        request.get().take_reply()
    } else if let Ok(gathered) = job.cast::<GatheredRef>() {
        gathered.get().take_reply()
    } else {
        job.cast::<FailureRef>()?.get().take_reply()
    };
    let reply = reply.ok_or_else(|| PyRuntimeError::new_err("this job was answered before"))?;
    // If the answer cannot be read, the reply is dropped, which tells the client of an internal error.
    Ok((reply, answer::read(&answer)?))
}

/// An error of the operating system, as Python's `OSError`.
fn os_error(error: rustix::io::Errno) -> PyErr {
    PyOSError::new_err((error.raw_os_error(), error.to_string()))
}
