//! What every test of the kernel needs: a client with a fast ticker, specs, and a runtime that gives up.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::time::Duration;

use bytes::Bytes;
use headrace_kernel::{
    Attempt, AttemptSpec, Client, ClientConfig, Deadlines, Failure, Head, Roots, Scratch, TlsConfig, Url,
};

/// Ticks of the tests' clients: deadlines of a few ticks pass quickly.
pub const TICK: Duration = Duration::from_millis(5);

/// Run on one thread, as the edge does. A test that hangs fails.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), test).await.expect("the test hangs") })
}

pub fn config() -> ClientConfig {
    let mut config = ClientConfig::new(TlsConfig::new(Roots::Bundled, None).unwrap());
    config.tick = TICK;
    config
}

pub fn client() -> Client {
    Client::new(config())
}

pub fn get(url: &str) -> AttemptSpec {
    AttemptSpec {
        method: "GET".into(),
        url: Url::parse(url).unwrap(),
        headers: Vec::new(),
        body: Vec::new(),
        deadlines: Deadlines::default(),
        http2: false,
        signer: None,
    }
}

pub fn post(url: &str, body: impl Into<Bytes>) -> AttemptSpec {
    AttemptSpec { method: "POST".into(), body: vec![body.into()], ..get(url) }
}

/// Everything that is left of a body.
pub async fn rest(attempt: &mut Attempt) -> Result<Vec<u8>, Failure> {
    let (mut scratch, mut body) = (Scratch::new(), Vec::new());
    loop {
        let got = attempt.read(&mut scratch, usize::MAX).await?;
        scratch.pieces().for_each(|piece| body.extend_from_slice(piece));
        if got.end {
            return Ok(body);
        }
    }
}

/// A whole attempt.
pub async fn fetch(client: &Client, spec: AttemptSpec) -> Result<(Head, Vec<u8>), Failure> {
    let mut attempt = client.attempt(spec);
    let head = attempt.head().await?;
    Ok((head, rest(&mut attempt).await?))
}

/// The failure of an attempt that must fail, wherever it does.
pub async fn failure(client: &Client, spec: AttemptSpec) -> Failure {
    fetch(client, spec).await.expect_err("the attempt fails")
}
