//! A command in the sandbox, as Python holds it: two descriptors to wait on, and words to the supervisor.
//!
//! Not here: which tier, what may be read or written, when it has had enough. That is `headrace.tools`'.

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use headrace_sandbox::{Limits, Report, Running, SpawnError, Spec, Tier, probe, spawn, usage};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What `SandboxedRef` is made from.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SpecIn {
    tier: String,
    argv: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    network: bool,
    cpu_seconds: Option<u64>,
    memory_bytes: Option<u64>,
    file_bytes: Option<u64>,
    processes: Option<u64>,
    open_files: Option<u64>,
    group: Option<PathBuf>,
}

impl SpecIn {
    fn spec(self) -> PyResult<Spec> {
        Ok(Spec {
            tier: match self.tier.as_str() {
                "A" => Tier::A,
                "B" => Tier::B,
                "C" => Tier::C,
                _ => return Err(PyValueError::new_err("tier must be A, B or C")),
            },
            argv: self.argv,
            environment: self.environment,
            directory: self.directory,
            read: self.read,
            write: self.write,
            read_only: self.read_only,
            network: self.network,
            merged: true,
            input: false,
            limits: Limits {
                cpu_seconds: self.cpu_seconds,
                memory_bytes: self.memory_bytes,
                file_bytes: self.file_bytes,
                processes: self.processes,
                open_files: self.open_files,
            },
            group: self.group,
        })
    }
}

/// A running command. Dropping or closing it kills all of it and waits for that (milliseconds).
#[pyclass(frozen, module = "headrace._core")]
pub struct SandboxedRef {
    running: Mutex<Option<Running>>,
    output: i32,
    report: i32,
    supervisor: u32,
}

impl SandboxedRef {
    fn with<T>(&self, act: impl FnOnce(&mut Running) -> T) -> Option<T> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
    }
}

#[pymethods]
impl SandboxedRef {
    /// Start a command. Raises `ValueError` for a spec that says something impossible, `OSError` where this machine
    /// cannot run it or cannot give the tier; nothing runs then.
    #[new]
    fn new(py: Python<'_>, spec: SpecIn) -> PyResult<SandboxedRef> {
        let spec = spec.spec()?;
        let running = py.detach(|| spawn(&spec)).map_err(|error| match error {
            SpawnError::Spec(_) => PyValueError::new_err(error.to_string()),
            SpawnError::Tier(_) | SpawnError::Step(..) => PyOSError::new_err(error.to_string()),
        })?;
        Ok(SandboxedRef {
            output: running.output.as_raw_fd(),
            report: running.report_fd(),
            supervisor: running.supervisor(),
            running: Mutex::new(Some(running)),
        })
    }

    /// The descriptor of what it writes. Ends when nothing of it is left.
    #[getter]
    fn output(&self) -> i32 {
        self.output
    }

    /// The descriptor that is readable when `report` would not wait.
    #[getter]
    fn report_fd(&self) -> i32 {
        self.report
    }

    /// The next report, `{"what": "ended" | "not_started" | "done" | "lost", …}`. None once it is closed.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(report) = py.detach(|| self.with(Running::report)) else { return Ok(None) };
        let out = PyDict::new(py);
        match report {
            Report::Ended { code, signal, processor_us } => {
                out.set_item("what", "ended")?;
                out.set_item("code", code)?;
                out.set_item("signal", signal)?;
                out.set_item("processor_us", processor_us)?;
            }
            Report::NotStarted => out.set_item("what", "not_started")?,
            Report::Done { left_behind } => {
                out.set_item("what", "done")?;
                out.set_item("left_behind", left_behind)?;
            }
            Report::Lost => out.set_item("what", "lost")?,
        }
        Ok(Some(out))
    }

    /// Ask all of it to end.
    fn terminate(&self) {
        self.with(Running::terminate);
    }

    /// Kill all of it; the reports follow.
    fn kill(&self) {
        self.with(Running::kill);
    }

    /// Processes and resident bytes of all of it now.
    fn usage(&self, py: Python<'_>) -> (u64, u64) {
        let found = py.detach(|| usage(self.supervisor));
        (found.processes, found.resident_bytes)
    }

    /// Kill what is left, wait for it, and give back the descriptors.
    fn close(&self, py: Python<'_>) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(running));
    }
}

/// What this machine can give: `{"A": None or why not, "B": …, "landlock": version, "gaps": [...]}`. Takes some 10 ms.
#[pyfunction]
pub fn sandbox_probe(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let found = py.detach(probe);
    let out = PyDict::new(py);
    out.set_item("A", found.bubblewrap.err())?;
    out.set_item("B", found.landlock.err())?;
    out.set_item("landlock", found.landlock_abi)?;
    out.set_item("gaps", found.gaps)?;
    Ok(out)
}
