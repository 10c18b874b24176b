//! What a gateway is started with, as a struct that mirrors the configuration's `[server]`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use headrace_edge::{EdgeConfig, Guard, Pace};
use headrace_kernel::Roots;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// How the gateway listens, what it takes, and whom it trusts upstream.
#[pyclass(frozen, module = "headrace._core")]
pub struct GatewayConfig {
    pub edge: EdgeConfig,
    pub roots: Roots,
    pub extra_ca: Option<Vec<u8>>,
}

#[pymethods]
impl GatewayConfig {
    /// - `host`: an address, not a name.
    /// - `header_timeout`: seconds.
    /// - `loopback_only`: Host must be a loopback name or in `hosts`, and an Origin in `origins`.
    /// - `roots`: `platform`, `bundled` or `given`; `extra_ca` is PEM text of further certificates.
    #[new]
    #[pyo3(signature = (*, host, port, threads, body_limit, header_limit, header_timeout, loopback_only,
        hosts=Vec::new(), origins=Vec::new(), roots="platform", extra_ca=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of one configuration struct")]
    fn new(
        host: &str,
        port: u16,
        threads: usize,
        body_limit: usize,
        header_limit: usize,
        header_timeout: f64,
        loopback_only: bool,
        hosts: Vec<String>,
        origins: Vec<String>,
        roots: &str,
        extra_ca: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        let invalid = |message: String| PyValueError::new_err(message);
        let host: IpAddr = host.parse().map_err(|_| invalid("host must be an address".to_owned()))?;
        let roots = match roots {
            "platform" => Roots::Platform,
            "bundled" => Roots::Bundled,
            "given" => Roots::OnlyGiven,
            _ => return Err(invalid("roots must be platform, bundled or given".to_owned())),
        };
        let edge = EdgeConfig {
            address: SocketAddr::new(host, port),
            threads,
            body_limit,
            header_limit,
            header_timeout: Duration::try_from_secs_f64(header_timeout).map_err(|e| invalid(e.to_string()))?,
            guard: Guard { loopback_only, hosts, origins },
            pace: Pace::default(),
        };
        Ok(Self { edge, roots, extra_ca })
    }

    fn __repr__(&self) -> String {
        format!("GatewayConfig({}, threads={})", self.edge.address, self.edge.threads)
    }
}
