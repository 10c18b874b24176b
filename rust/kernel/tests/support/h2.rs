//! A server that speaks HTTP/2 over TLS and plays what a test says.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use headrace_kernel::{Client, ClientConfig, Roots, TlsConfig};
use http::{HeaderMap, Request, Response};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Ticks of its clients: a peer has a few hundred milliseconds to answer a ping.
pub const TICK: Duration = Duration::from_millis(20);

/// One act of an answer; at its end the stream ends.
#[derive(Clone)]
pub enum Act {
    Data(Bytes),
    /// Waits until the test has opened this gate.
    Gate(&'static str),
    Reset(Reason),
    Trailers,
    /// Nothing more until the client resets the stream.
    Stall,
}

#[derive(Clone)]
pub struct Play {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    /// Before the head.
    pub before: Vec<Act>,
    pub acts: Vec<Act>,
    /// Whether the request's body is read.
    pub reads: bool,
}

pub fn play(acts: Vec<Act>) -> Play {
    let headers = vec![("content-type", "text/event-stream".into())];
    Play { status: 200, headers, before: Vec::new(), acts, reads: true }
}

pub fn data(bytes: impl Into<Bytes>) -> Act {
    Act::Data(bytes.into())
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub connection: usize,
    pub path: String,
    pub authority: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

#[derive(Default)]
pub struct Seen {
    pub connections: usize,
    pub closed: usize,
    pub asked: Vec<Asked>,
    /// Streams that the client has reset, by path.
    pub resets: Vec<(String, Reason)>,
    /// Body bytes handed to the stream of each path.
    pub sent: std::collections::HashMap<String, usize>,
}

/// What a test tells the server while it runs.
#[derive(Clone, Default)]
struct Told {
    gates: Vec<&'static str>,
    /// Connections below this number go away in order.
    goes_away: usize,
    /// Connections below this number read and write nothing more.
    frozen: usize,
    /// TLS may begin.
    greets: bool,
}

type Script = Arc<dyn Fn(&Asked) -> Play + Send + Sync>;

pub struct H2Server {
    pub address: SocketAddr,
    ca: String,
    seen: watch::Receiver<Seen>,
    tell: watch::Sender<Told>,
}

impl H2Server {
    /// Runs on the test's runtime, and ends with it. `most`: streams at a time of one connection.
    pub async fn start(most: u32, script: impl Fn(&Asked) -> Play + Send + Sync + 'static) -> Self {
        let server = Self::start_mute(most, script).await;
        server.tell.send_modify(|told| told.greets = true);
        server
    }

    /// Accepts connections and says nothing before [`H2Server::greet`].
    pub async fn start_mute(most: u32, script: impl Fn(&Asked) -> Play + Send + Sync + 'static) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (see, seen) = watch::channel(Seen::default());
        let (tell, told) = watch::channel(Told::default());
        let (see, script): (_, Script) = (Arc::new(see), Arc::new(script));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let mut number = 0;
                see.send_modify(|seen| {
                    number = seen.connections;
                    seen.connections += 1;
                });
                let (tls, see, told, script) = (tls.clone(), see.clone(), told.clone(), script.clone());
                tokio::spawn(async move {
                    told.clone().wait_for(|told| told.greets).await.unwrap();
                    if let Ok(tls) = tls.accept(tcp).await {
                        serve(tls, most, number, &see, told, &script).await;
                    }
                    see.send_modify(|seen| seen.closed += 1);
                });
            }
        });
        Self { address, ca: ca.as_ref().pem(), seen, tell }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// A client that trusts it.
    pub fn client(&self) -> Client {
        self.client_with(|_| {})
    }

    pub fn client_with(&self, change: impl FnOnce(&mut ClientConfig)) -> Client {
        let tls = TlsConfig::new(Roots::OnlyGiven, Some(self.ca.as_bytes())).unwrap();
        let mut config = ClientConfig { tick: TICK, ..ClientConfig::new(tls) };
        change(&mut config);
        Client::new(config)
    }

    pub fn open(&self, gate: &'static str) {
        self.tell.send_modify(|told| told.gates.push(gate));
    }

    pub fn greet(&self) {
        self.tell.send_modify(|told| told.greets = true);
    }

    pub fn go_away(&self) {
        let connections = self.look(|seen| seen.connections);
        self.tell.send_modify(|told| told.goes_away = connections);
    }

    pub fn freeze(&self) {
        let connections = self.look(|seen| seen.connections);
        self.tell.send_modify(|told| told.frozen = connections);
    }

    pub fn look<T>(&self, fact: impl FnOnce(&Seen) -> T) -> T {
        fact(&self.seen.borrow())
    }

    pub async fn until(&self, fact: impl FnMut(&Seen) -> bool) {
        self.seen.clone().wait_for(fact).await.unwrap();
    }
}

async fn serve(
    tls: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    most: u32,
    number: usize,
    see: &Arc<watch::Sender<Seen>>,
    told: watch::Receiver<Told>,
    script: &Script,
) {
    let mut builder = server::Builder::new();
    builder.max_concurrent_streams(most).initial_window_size(1 << 20).initial_connection_window_size(16 << 20);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(tls).await else { return };
    let mut changes = told.clone();
    let mut went = false;
    loop {
        tokio::select! {
            asked = connection.accept() => match asked {
                Some(Ok((request, respond))) => {
                    let (see, told, script) = (see.clone(), told.clone(), script.clone());
                    tokio::spawn(answer(request, respond, number, see, told, script));
                }
                _ => return,
            },
            _ = changes.changed() => {
                let now = changes.borrow_and_update().clone();
                if now.goes_away > number && !went {
                    went = true;
                    connection.graceful_shutdown();
                }
                if now.frozen > number {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    connection: usize,
    see: Arc<watch::Sender<Seen>>,
    mut told: watch::Receiver<Told>,
    script: Script,
) {
    let (head, mut body) = request.into_parts();
    let mut asked = Asked {
        connection,
        path: head.uri.path_and_query().unwrap().to_string(),
        authority: head.uri.authority().unwrap().to_string(),
        headers: head.headers,
        body: Vec::new(),
    };
    let play = script(&asked);
    if play.reads {
        while let Some(Ok(piece)) = body.data().await {
            asked.body.extend_from_slice(&piece);
            let _ = body.flow_control().release_capacity(piece.len());
        }
    }
    let path = asked.path.clone();
    see.send_modify(|seen| seen.asked.push(asked));
    for act in play.before {
        match act {
            Act::Gate(gate) => {
                let reset = poll_fn(|cx| respond.poll_reset(cx));
                tokio::select! {
                    reset = reset => return tell_reset(&see, &path, &reset),
                    _ = told.wait_for(|told| told.gates.contains(&gate)) => {}
                }
            }
            Act::Reset(reason) => return respond.send_reset(reason),
            Act::Stall => return tell_reset(&see, &path, &poll_fn(|cx| respond.poll_reset(cx)).await),
            Act::Data(_) | Act::Trailers => unreachable!("nothing of the body comes before the head"),
        }
    }
    let mut head = Response::builder().status(play.status);
    for (name, value) in play.headers {
        head = head.header(name, value);
    }
    let Ok(mut stream) = respond.send_response(head.body(()).unwrap(), play.acts.is_empty()) else { return };
    let last = play.acts.len().wrapping_sub(1);
    for (at, act) in play.acts.into_iter().enumerate() {
        match act {
            Act::Data(bytes) => {
                if let Err(reset) = send(&mut stream, bytes, at == last, &path, &see).await {
                    return tell_reset(&see, &path, &reset);
                }
            }
            Act::Gate(gate) => {
                let reset = poll_fn(|cx| stream.poll_reset(cx));
                tokio::select! {
                    reset = reset => return tell_reset(&see, &path, &reset),
                    _ = told.wait_for(|told| told.gates.contains(&gate)) => {}
                }
                if at == last {
                    let _ = stream.send_data(Bytes::new(), true);
                }
            }
            Act::Reset(reason) => return stream.send_reset(reason),
            Act::Trailers => {
                let trailers = HeaderMap::from_iter([("x-cost".parse().unwrap(), "1".parse().unwrap())]);
                return stream.send_trailers(trailers).unwrap();
            }
            Act::Stall => return tell_reset(&see, &path, &poll_fn(|cx| stream.poll_reset(cx)).await),
        }
    }
    if let Ok(reason) = poll_fn(|cx| stream.poll_reset(cx)).await {
        tell_reset(&see, &path, &Ok(reason));
    }
}

fn tell_reset(see: &watch::Sender<Seen>, path: &str, reset: &Result<Reason, h2::Error>) {
    if let Ok(reason) = reset {
        see.send_modify(|seen| seen.resets.push((path.to_owned(), *reason)));
    }
}

async fn send(
    stream: &mut SendStream<Bytes>,
    mut bytes: Bytes,
    last: bool,
    path: &str,
    see: &watch::Sender<Seen>,
) -> Result<(), Result<Reason, h2::Error>> {
    while !bytes.is_empty() {
        if stream.capacity() == 0 {
            stream.reserve_capacity(bytes.len());
            let capacity = poll_fn(|cx| match stream.poll_reset(cx) {
                Poll::Ready(reset) => Poll::Ready(Err(reset)),
                Poll::Pending => stream.poll_capacity(cx).map(Ok),
            });
            let capacity = capacity.await?;
            match capacity {
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(Err(error)),
                None => return Err(poll_fn(|cx| stream.poll_reset(cx)).await),
            }
        }
        let piece = bytes.split_to(stream.capacity().min(bytes.len()));
        see.send_modify(|seen| *seen.sent.entry(path.to_owned()).or_default() += piece.len());
        stream.send_data(piece, last && bytes.is_empty()).map_err(Err)?;
    }
    Ok(())
}
