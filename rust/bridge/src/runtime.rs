//! The kernel as the library holds it: a client, and the tokio runtime that its attempts are polled on.
//!
//! 1. *Blocking*: the caller's own thread polls the attempt, without the interpreter's lock. No other thread exists.
//! 2. *Background*: one thread polls all attempts; each fills a bounded inbox and signals a file descriptor.
//!    That thread never attaches to the interpreter: bytes become events on the thread that takes them.
//! 3. After a fork neither is used again: sockets and threads belong to the process that made them.
//!
//! Policy must not be added here: a spec comes in, one attempt is made.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use headrace_codec::Protocol;
use headrace_codec::pipeline::DecoderConfig;
use headrace_edge::policy::{Secret, Signer};
use headrace_kernel::{AttemptSpec, Client, ClientConfig, Deadlines, Proxy, Roots, SigV4, TlsConfig, Url};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use rustix::event::{EventfdFlags, eventfd};
use tokio::runtime::Runtime;

use crate::attempt::background::BackgroundAttemptRef;
use crate::attempt::blocking::BlockingAttemptRef;
use crate::events::class::Code;

/// A file descriptor that becomes readable when an attempt has something, and the attempts that have.
pub struct Signal {
    fd: OwnedFd,
    ready: Mutex<Vec<u64>>,
}

impl Signal {
    fn new() -> PyResult<Arc<Signal>> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| PyOSError::new_err(e.to_string()))?;
        Ok(Arc::new(Signal { fd, ready: Mutex::new(Vec::new()) }))
    }

    /// Say that attempt `id` has something. One write wakes the taker of any number.
    pub fn raise(&self, id: u64) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.push(id);
        let first = ready.len() == 1;
        // Who is woken wants the lock at once.
        drop(ready);
        if first {
            // It fails only where the counter is full, and then it is readable already.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    pub fn take(&self) -> Vec<u64> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        // It does not block: where nothing was raised there is nothing to empty.
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
        std::mem::take(&mut *ready)
    }

    pub fn fileno(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

enum Driver {
    Blocking(Arc<Runtime>),
    Background { handle: tokio::runtime::Handle, stop: Mutex<Option<tokio::sync::oneshot::Sender<()>>> },
}

/// A kernel: a connection pool, and who polls.
///
/// - `background`: whether a thread of its own polls the attempts, else whoever asks for a batch does.
/// - `roots`: `platform`, `bundled` or `given`; `extra_ca`: PEM text of further certificates.
#[pyclass(frozen, module = "headrace._core")]
pub struct KernelRef {
    driver: Driver,
    client: Client,
    signal: Arc<Signal>,
    pid: u32,
    next: std::sync::atomic::AtomicU64,
}

/// What `headrace.requests.AttemptSpec` says, its body made.
#[derive(FromPyObject)]
struct SpecIn {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: PyBackedBytes,
    protocol: Code<Protocol>,
    deadlines: DeadlinesIn,
    provider: Option<String>,
    think_tags: bool,
    signer: Option<SignerIn>,
    proxy: Option<SecretIn>,
    http2: bool,
}

/// `headrace.requests.SigV4`.
#[derive(FromPyObject)]
pub struct SignerIn {
    region: String,
    service: String,
    access_key_id: String,
    secret_access_key: SecretIn,
    session_token: Option<SecretIn>,
}

/// The text of a `headrace.requests.Secret`.
pub struct SecretIn(pub String);

impl<'py> FromPyObject<'_, 'py> for SecretIn {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        value.call_method0(intern!(value.py(), "reveal"))?.extract().map(SecretIn)
    }
}

impl SignerIn {
    pub fn edge(self) -> Signer {
        Signer {
            region: self.region,
            service: self.service,
            access_key_id: Secret(self.access_key_id),
            secret_access_key: Secret(self.secret_access_key.0),
            session_token: self.session_token.map(|token| Secret(token.0)),
        }
    }

    /// Signed now.
    fn kernel(self) -> SigV4 {
        SigV4 {
            region: self.region,
            service: self.service,
            access_key_id: self.access_key_id,
            secret_access_key: self.secret_access_key.0,
            session_token: self.session_token.map(|token| token.0),
            unix_s: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        }
    }
}

#[derive(FromPyObject)]
struct DeadlinesIn {
    connect: Option<f64>,
    first_byte: Option<f64>,
    idle: Option<f64>,
    content: Option<f64>,
    total: Option<f64>,
}

impl DeadlinesIn {
    fn read(&self) -> PyResult<Deadlines> {
        let seconds = |limit: Option<f64>| {
            limit.map(Duration::try_from_secs_f64).transpose().map_err(|e| PyValueError::new_err(e.to_string()))
        };
        Ok(Deadlines {
            connect: seconds(self.connect)?,
            first_byte: seconds(self.first_byte)?,
            idle: seconds(self.idle)?,
            content: seconds(self.content)?,
            total: seconds(self.total)?,
        })
    }
}

#[pymethods]
impl KernelRef {
    #[new]
    #[pyo3(signature = (*, background, roots = "platform", extra_ca = None))]
    fn new(background: bool, roots: &str, extra_ca: Option<&[u8]>) -> PyResult<Self> {
        let roots = match roots {
            "platform" => Roots::Platform,
            "bundled" => Roots::Bundled,
            "given" => Roots::OnlyGiven,
            _ => return Err(PyValueError::new_err("roots must be platform, bundled or given")),
        };
        let tls = TlsConfig::new(roots, extra_ca).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let client = Client::new(ClientConfig::new(tls));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| PyOSError::new_err(e.to_string()))?;
        let driver = if background { in_background(runtime)? } else { Driver::Blocking(Arc::new(runtime)) };
        let next = std::sync::atomic::AtomicU64::new(0);
        Ok(KernelRef { driver, client, signal: Signal::new()?, pid: std::process::id(), next })
    }

    /// An attempt that the asking thread drives.
    ///
    /// - `spec`: an `AttemptSpec` whose body is bytes.
    /// - `turn_id`: of the intents' ids.
    /// - `raw`: the answer is no model's: its batches hold the payloads as `bytes`, and at the end perhaps an error.
    #[pyo3(signature = (spec, *, turn_id, model = None, raw = false))]
    fn blocking(&self, spec: SpecIn, turn_id: &str, model: Option<String>, raw: bool) -> PyResult<BlockingAttemptRef> {
        self.check_process()?;
        let Driver::Blocking(runtime) = &self.driver else {
            return Err(PyRuntimeError::new_err("this kernel polls its attempts itself"));
        };
        let (config, mut spec) = parts(spec, turn_id, model)?;
        // Between two calls nobody would drive a connection that streams share.
        spec.http2 = false;
        let attempt = {
            let _context = runtime.enter();
            self.client.attempt(spec)
        };
        Ok(BlockingAttemptRef::new(runtime.clone(), attempt, config, raw, self.pid))
    }

    /// An attempt that this kernel's thread drives.
    ///
    /// - `own_signal`: whether it has a file descriptor of its own, else it signals the kernel's.
    /// - `raw`: as for `blocking`.
    #[pyo3(signature = (spec, *, turn_id, model = None, own_signal = false, raw = false))]
    fn background(
        &self,
        spec: SpecIn,
        turn_id: &str,
        model: Option<String>,
        own_signal: bool,
        raw: bool,
    ) -> PyResult<BackgroundAttemptRef> {
        self.check_process()?;
        let Driver::Background { handle, .. } = &self.driver else {
            return Err(PyRuntimeError::new_err("this kernel has no thread of its own"));
        };
        let (config, spec) = parts(spec, turn_id, model)?;
        let signal = if own_signal { Signal::new()? } else { self.signal.clone() };
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(BackgroundAttemptRef::start(handle, self.client.clone(), spec, config, signal, id, raw))
    }

    /// The descriptor that becomes readable when an attempt without its own has something.
    fn fileno(&self) -> i32 {
        self.signal.fileno()
    }

    /// The attempts that have something since the last call; empties the descriptor.
    fn ready(&self) -> Vec<u64> {
        self.signal.take()
    }

    /// Connections that are kept for reuse now.
    #[getter]
    fn idle_connections(&self) -> usize {
        self.client.idle_connections()
    }

    /// End the thread, if there is one; its attempts are cancelled and their connections closed.
    fn close(&self) {
        if let Driver::Background { stop, .. } = &self.driver
            && let Some(stop) = stop.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            // A receiver that is gone has ended already.
            let _ = stop.send(());
        }
    }

    fn __repr__(&self) -> String {
        let who = if matches!(self.driver, Driver::Blocking(_)) { "blocking" } else { "background" };
        format!("KernelRef({who}, {} idle connections)", self.client.idle_connections())
    }
}

impl KernelRef {
    /// The fork guard.
    fn check_process(&self) -> PyResult<()> {
        if std::process::id() == self.pid {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("a Runtime is not used across a fork: make a new one in the child"))
    }
}

impl Drop for KernelRef {
    fn drop(&mut self) {
        self.close();
    }
}

fn in_background(runtime: Runtime) -> PyResult<Driver> {
    let handle = runtime.handle().clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::Builder::new()
        .name("headrace-kernel".into())
        .spawn(move || {
            // A dropped sender ends it as well as a sent word.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })
        .map_err(|e| PyOSError::new_err(e.to_string()))?;
    Ok(Driver::Background { handle, stop: Mutex::new(Some(stop)) })
}

fn parts(spec: SpecIn, turn_id: &str, model: Option<String>) -> PyResult<(DecoderConfig, AttemptSpec)> {
    let mut config = DecoderConfig::new(spec.protocol.0);
    config.think_tags = spec.think_tags;
    config.provider = spec.provider;
    config.model = model;
    turn_id.clone_into(&mut config.turn_id);
    let mut url = Url::parse(&spec.url).map_err(|e| PyValueError::new_err(e.to_string()))?;
    if let Some(proxy) = spec.proxy {
        let proxy = Proxy::parse(&proxy.0).map_err(|e| PyValueError::new_err(e.to_string()))?;
        url.endpoint.proxy = Some(Arc::new(proxy));
    }
    let spec = AttemptSpec {
        method: spec.method,
        url,
        headers: spec.headers,
        body: vec![Bytes::copy_from_slice(&spec.body)],
        deadlines: spec.deadlines.read()?,
        http2: spec.http2,
        signer: spec.signer.map(|signer| Box::new(signer.kernel())),
    };
    Ok((config, spec))
}
