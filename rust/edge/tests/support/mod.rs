//! A policy that does what a test says, and a client that reads every byte strictly.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod talker;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use headrace_codec::Protocol;
use headrace_codec::request::TargetFlags;
use headrace_edge::policy::{
    AttemptSpec, BodySource, Counts, Deadlines, Decision, Failure, Gathered, Plan, Refusal, Relay, Settlement,
};
use headrace_edge::request::Recipe;
use headrace_edge::{ClientRequest, Edge, EdgeConfig, Policy, Reply};
use headrace_http1::{BodyDecoder, BodyKind, ResponseHead};
use headrace_kernel::{ClientConfig, Roots, TlsConfig};

/// Nothing here takes longer, but on a machine that is doing something else.
pub const LIMIT: Duration = Duration::from_secs(20);

type Decide = Box<dyn Fn(&ClientRequest) -> Decision + Send + Sync>;
type Next = Box<dyn Fn(&Failure) -> Decision + Send + Sync>;

#[derive(Default)]
pub struct Noted {
    pub decides: usize,
    pub failures: Vec<Failure>,
    pub gathered: Vec<Gathered>,
    pub settlements: Vec<Settlement>,
}

/// What was asked and told, and what to answer.
pub struct TestPolicy {
    decide: Decide,
    next: Next,
    noted: Mutex<Noted>,
    changed: Condvar,
}

impl TestPolicy {
    pub fn new(
        decide: impl Fn(&ClientRequest) -> Decision + Send + Sync + 'static,
        next: impl Fn(&Failure) -> Decision + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            decide: Box::new(decide),
            next: Box::new(next),
            noted: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// One plan for every request; a failure is told.
    pub fn always(plan: impl Fn(&ClientRequest) -> Plan + Send + Sync + 'static) -> Arc<Self> {
        Self::new(move |request| Decision::Plan(Box::new(plan(request))), |_| Decision::Refusal(tell()))
    }

    pub fn look<T>(&self, look: impl FnOnce(&Noted) -> T) -> T {
        look(&self.noted.lock().unwrap())
    }

    /// The settlement number `n`, as soon as it is there.
    pub fn settled(&self, n: usize) -> Settlement {
        self.until(|noted| noted.settlements.len() > n);
        self.look(|noted| noted.settlements[n].clone())
    }

    pub fn until(&self, wanted: impl Fn(&Noted) -> bool) {
        let end = Instant::now() + LIMIT;
        let mut noted = self.noted.lock().unwrap();
        while !wanted(&noted) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the policy was not told what the test waits for");
            noted = self.changed.wait_timeout(noted, left).unwrap().0;
        }
    }

    fn note(&self, note: impl FnOnce(&mut Noted)) {
        note(&mut self.noted.lock().unwrap());
        self.changed.notify_all();
    }
}

impl Policy for TestPolicy {
    fn decide(&self, request: Arc<ClientRequest>, reply: Reply) {
        self.note(|noted| noted.decides += 1);
        reply.send((self.decide)(&request));
    }

    fn next(&self, failure: Failure, reply: Reply) {
        let decision = (self.next)(&failure);
        self.note(|noted| noted.failures.push(failure));
        reply.send(decision);
    }

    fn read(&self, gathered: Gathered, reply: Reply) {
        if let Some(status) = str::from_utf8(&gathered.body).ok().and_then(|text| text.trim().parse().ok()) {
            self.note(|noted| noted.gathered.push(gathered));
            return reply.send(Decision::Refusal(Refusal { status, tell_failure: false, ..tell() }));
        }
        let body = gathered.body.iter().rev().copied().collect();
        self.note(|noted| noted.gathered.push(gathered));
        reply.send(Decision::Answer(headrace_edge::policy::Answer {
            status: 200,
            content_type: "text/plain".into(),
            headers: vec![("x-own".into(), "1".into())],
            body,
            usage: Counts { input_tokens: Some(3), ..Counts::default() },
        }));
    }

    fn settle(&self, settlement: Settlement) {
        self.note(|noted| noted.settlements.push(settlement));
    }

    fn ready(&self) -> bool {
        true
    }
}

/// A refusal that tells the last failure.
pub fn tell() -> Refusal {
    Refusal {
        code: "told".into(),
        message: "told".into(),
        status: 502,
        param: None,
        retry_at: None,
        should_retry: None,
        tell_failure: true,
    }
}

pub fn spec(url: &str, request: &ClientRequest, protocol: Protocol) -> AttemptSpec {
    let recipe = Recipe {
        protocol,
        model: request.facts.model.clone().unwrap_or_default(),
        provider: None,
        edits: Vec::new(),
        flags: TargetFlags::from_names(&[]).unwrap(),
    };
    AttemptSpec {
        method: "POST".into(),
        url: url.into(),
        headers: vec![("content-type".into(), headrace_edge::policy::Secret("application/json".into()))],
        body: BodySource::Recipe(Arc::new(recipe)),
        protocol,
        deadlines: Deadlines::default(),
        provider: Some("test".into()),
        think_tags: false,
        usage_asked: false,
        delay: Duration::ZERO,
        fresh_connection: false,
        signer: None,
        proxy: None,
        http2: false,
        relay: None,
        told: Vec::new(),
        secrets: Vec::new(),
        hedge: None,
    }
}

/// A plan that relays the client's protocol as it is.
pub fn verbatim(url: &str, request: &ClientRequest) -> Plan {
    Plan {
        token: 7,
        spec: spec(url, request, request.protocol),
        client_protocol: request.protocol,
        relay: Relay::Verbatim,
    }
}

/// A plan that encodes anew what speaks `protocol` upstream.
pub fn normalised(url: &str, request: &ClientRequest, protocol: Protocol) -> Plan {
    Plan {
        token: 7,
        spec: AttemptSpec { body: BodySource::Bytes(b"{}".to_vec()), ..spec(url, request, protocol) },
        client_protocol: request.protocol,
        relay: Relay::Normalised,
    }
}

pub fn start(policy: &Arc<TestPolicy>) -> Edge {
    start_with(EdgeConfig::default(), policy)
}

pub fn start_with(config: EdgeConfig, policy: &Arc<TestPolicy>) -> Edge {
    let mut kernel = ClientConfig::new(TlsConfig::new(Roots::Bundled, None).unwrap());
    kernel.tick = Duration::from_millis(50);
    let policy: Arc<dyn Policy> = Arc::clone(policy) as Arc<dyn Policy>;
    Edge::start(config, &kernel, &policy).unwrap()
}

/// A client's connection.
pub struct Client {
    pub socket: TcpStream,
    pub buffer: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body ended as its framing says; otherwise the connection was cut in it.
    pub whole: bool,
    pub keep_alive: bool,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub fn to(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.set_nodelay(true).unwrap();
        Client { socket, buffer: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Client {
        self.socket.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// `false`: the connection is at its end.
    pub fn fill(&mut self) -> bool {
        let mut room = [0; 16 << 10];
        match self.socket.read(&mut room) {
            Ok(0) => false,
            Ok(n) => {
                self.buffer.extend_from_slice(&room[..n]);
                true
            }
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => false,
            Err(e) => panic!("reading the answer: {e}"),
        }
    }

    /// Reads until `wanted` stands in what was received.
    pub fn until(&mut self, wanted: &str) -> &mut Client {
        while !self.buffer.windows(wanted.len()).any(|w| w == wanted.as_bytes()) {
            assert!(self.fill(), "the connection ended before {wanted:?}: {:?}", String::from_utf8_lossy(&self.buffer));
        }
        self
    }

    /// Reads one whole answer. `method` is the request's.
    pub fn answer_to(&mut self, method: &str) -> Answer {
        let (mut answer, kind, used) = loop {
            if let Some((head, used)) = ResponseHead::read(&self.buffer, 64 << 10, method).unwrap() {
                let headers = head.headers.iter();
                let headers = headers.map(|(n, v)| (n.to_owned(), String::from_utf8_lossy(v).into_owned())).collect();
                let keep_alive = head.keep_alive;
                break (
                    Answer { status: head.status, headers, body: vec![], whole: false, keep_alive },
                    head.body,
                    used,
                );
            }
            assert!(self.fill(), "no head: {:?}", String::from_utf8_lossy(&self.buffer));
        };
        self.buffer.drain(..used);
        let mut decoder = BodyDecoder::new(kind);
        loop {
            while !self.buffer.is_empty() && !decoder.is_done() {
                let step = decoder.decode(&self.buffer).unwrap();
                answer.body.extend_from_slice(&self.buffer[step.data]);
                self.buffer.drain(..step.consumed);
            }
            if decoder.is_done() {
                answer.whole = true;
                return answer;
            }
            if !self.fill() {
                answer.whole = kind == BodyKind::UntilClose;
                return answer;
            }
        }
    }

    pub fn answer(&mut self) -> Answer {
        self.answer_to("POST")
    }

    pub fn is_closed(&mut self) -> bool {
        !self.fill()
    }
}

/// A request with a JSON body.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub const CHAT: &str = "/v1/chat/completions";

pub fn chat(stream: bool) -> Vec<u8> {
    post(CHAT, &format!(r#"{{"model":"m","stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#))
}

/// One Chat chunk as an event.
pub fn chunk(text: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\
         \"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

pub const FINISH: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
pub const USAGE: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5,\"total_tokens\":8}}\n\n";
pub const DONE: &str = "data: [DONE]\n\n";
