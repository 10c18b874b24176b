//! The demo provider's upstream: a scripted model on a loopback socket that needs no key.

use std::sync::{Mutex, PoisonError};

use headrace_scripted::{Upstream, demo};
use pyo3::prelude::*;

/// A running demo upstream. It ends with this object.
#[pyclass(frozen, module = "headrace._core")]
pub struct DemoRef {
    url: String,
    upstream: Mutex<Option<Upstream>>,
}

#[pymethods]
impl DemoRef {
    /// Start it on a free loopback port.
    #[staticmethod]
    fn start() -> PyResult<Self> {
        let upstream = demo::start()?;
        Ok(Self { url: upstream.url(""), upstream: Mutex::new(Some(upstream)) })
    }

    /// Where it listens: `http://127.0.0.1:PORT`, without a path.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Close its connections and end it.
    fn stop(&self, py: Python<'_>) {
        let upstream = self.upstream.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Ends its thread, which never attaches.
        py.detach(|| drop(upstream));
    }

    fn __repr__(&self) -> String {
        format!("DemoRef({})", self.url)
    }
}
