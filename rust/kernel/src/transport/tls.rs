//! TLS by rustls with ring: which roots are trusted, and the handshake.
//!
//! One [`TlsConfig`] is made per process and shared by every thread's client, so that sessions resume across
//! them. Certificates are always verified: there is no switch for it.

use std::fmt;
use std::sync::{Arc, LazyLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;

use super::secured::Secured;
use crate::failure::Cause;
use crate::spec::Endpoint;

/// Whom to trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots {
    /// The operating system's store, or the bundled one where that is empty.
    Platform,
    /// Mozilla's, as of this build.
    Bundled,
    /// None but the certificates given.
    OnlyGiven,
}

/// Why no TLS configuration was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsError {
    /// The PEM text has no certificate, or one that does not parse.
    Pem,
    /// The library refuses its own defaults.
    Provider,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pem => "the PEM text holds no usable certificate",
            Self::Provider => "TLS cannot be set up",
        })
    }
}

impl std::error::Error for TlsError {}

/// Trust and session cache of a process. Cheap to clone.
#[derive(Clone)]
pub struct TlsConfig {
    configs: Arc<LazyLock<Configs, Load>>,
}

/// By what they offer: HTTP/1.1 alone, and HTTP/2 before it.
struct Configs {
    older: Arc<ClientConfig>,
    newer: Arc<ClientConfig>,
}

type Load = Box<dyn FnOnce() -> Configs + Send>;

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConfig")
    }
}

impl TlsConfig {
    /// Trust `roots` and the certificates of `extra_ca_pem`. The platform's store is read at the first handshake, or
    /// before: see [`TlsConfig::load`].
    pub fn new(roots: Roots, extra_ca_pem: Option<&[u8]>) -> Result<Self, TlsError> {
        let mut given = RootCertStore::empty();
        if let Some(pem) = extra_ca_pem {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|_| TlsError::Pem)?;
                given.add(certificate).map_err(|_| TlsError::Pem)?;
            }
            if given.is_empty() {
                return Err(TlsError::Pem);
            }
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| TlsError::Provider)?;
        let load = move || {
            let mut store = RootCertStore::empty();
            if roots == Roots::Platform {
                store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            if roots == Roots::Bundled || (roots == Roots::Platform && store.is_empty()) {
                store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            }
            store.extend(given.roots);
            let mut config = builder.with_root_certificates(store).with_no_client_auth();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            let mut newer = config.clone();
            newer.alpn_protocols.insert(0, b"h2".to_vec());
            Configs { older: Arc::new(config), newer: Arc::new(newer) }
        };
        Ok(Self { configs: Arc::new(LazyLock::new(Box::new(load))) })
    }

    /// Read the platform's store now, some milliseconds: for who would not have streams wait for it later.
    pub fn load(&self) {
        LazyLock::force(&self.configs);
    }

    /// Begin the handshake. Boxed: a session is large.
    pub(crate) fn handshake(&self, endpoint: &Endpoint, tcp: TcpStream, http2: bool) -> Result<Box<Secured>, Cause> {
        let name = ServerName::try_from(endpoint.host.clone())
            .map_err(|_| Cause::Tls("the host is no name for a certificate".into()))?;
        let config = if http2 { &self.configs.newer } else { &self.configs.older };
        Secured::new(config, name, tcp).map(Box::new).map_err(|e| Cause::Tls(e.to_string()))
    }
}
