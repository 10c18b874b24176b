//! # headrace-scripted: an upstream that does exactly what a script says, over real sockets
//!
//! 1. It listens on loopback, in a thread of its own, and plays prepared bytes: in pieces, at a pace, behind
//!    gates that the test opens; it cuts, resets, stalls, drips and lies about lengths when told to.
//! 2. It reports facts: what requests came, how much was written, when a client closed. A test waits for a
//!    fact, never for a time.
//! 3. It is fast: bytes are rendered before the first request, a piece is one write. Benches use it as the load.
//! 4. [`demo`] is a provider made of it: a model that needs no key and speaks three protocols.
//!
//! Never add: policy, anything that a real provider would have to be asked for.

pub mod demo;
mod facts;
mod script;
mod serve;

pub use facts::{ConnectionFacts, Facts, Seen};
pub use script::{Framing, Play, Reply, ReplyBuilder, Script};

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use facts::Shared;

/// A running upstream. Dropping it closes every connection and ends its thread.
pub struct Upstream {
    address: SocketAddr,
    tls: bool,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    /// Listen on a free loopback port.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::listen(script, None)
    }

    /// The same over TLS, with a certificate chain and its key in PEM.
    pub fn start_tls(script: Script, chain_pem: &[u8], key_pem: &[u8]) -> io::Result<Self> {
        Self::listen(script, Some(acceptor(chain_pem, key_pem)?))
    }

    fn listen(script: Script, tls: Option<TlsAcceptor>) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(script.record));
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let is_tls = tls.is_some();
        let seen = shared.clone();
        let thread = std::thread::Builder::new().name("headrace-scripted".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let _ = ready.send(());
                tokio::select! {
                    () = serve::accept(listener, Arc::new(script), seen, tls) => {}
                    _ = stopped => {}
                }
            });
        })?;
        is_ready.recv().map_err(|_| io::Error::other("the scripted upstream did not start"))?;
        Ok(Self { address, tls: is_tls, shared, stop: Some(stop), thread: Some(thread) })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of this upstream: `path` starts with a slash. Under TLS the host is `localhost`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        if self.tls {
            format!("https://localhost:{}{path}", self.address.port())
        } else {
            format!("http://{}{path}", self.address)
        }
    }

    /// Open a gate: every reply that waits or will wait at it goes on.
    pub fn open(&self, gate: &str) {
        self.shared.open(gate);
    }

    /// The facts so far.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.shared.facts().clone()
    }

    /// Look at the facts without copying them.
    pub fn look<T>(&self, look: impl FnOnce(&Facts) -> T) -> T {
        look(&self.shared.facts())
    }

    /// Wait until the facts are as asked.
    pub async fn until(&self, wanted: impl FnMut(&Facts) -> bool) {
        self.shared.until(wanted).await;
    }

    /// Wait, without a runtime, until the facts are as asked; `false`: not within `limit`.
    #[must_use]
    pub fn wait(&self, limit: Duration, wanted: impl FnMut(&Facts) -> bool) -> bool {
        self.shared.wait(limit, wanted)
    }

    /// Wait until `n` requests have come in all.
    pub async fn requests(&self, n: usize) {
        self.until(|facts| facts.request_count >= n).await;
    }

    /// Wait until connection `n` (from 0) is gone, and say how.
    pub async fn closed(&self, n: usize) -> ConnectionFacts {
        self.until(|facts| facts.connections.get(n).is_some_and(|c| !c.open)).await;
        self.look(|facts| facts.connections[n].clone())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn acceptor(chain_pem: &[u8], key_pem: &[u8]) -> io::Result<TlsAcceptor> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidInput, "the PEM text is malformed");
    let chain = CertificateDer::pem_slice_iter(chain_pem).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(invalid)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(io::Error::other)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A lock whose holder panicked still holds what it held: facts are counters and lists.
fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
