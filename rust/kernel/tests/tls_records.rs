//! TLS records as a server may cut them: small and large, split anywhere, with new keys and tickets between them.
//!
//! The server here is rustls' own, driven by hand so that it decides which bytes stand in which write.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use headrace_kernel::{Client, ClientConfig, Roots, Scratch, TlsConfig};
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ProtocolVersion, ServerConfig, ServerConnection, SupportedProtocolVersion};
use support::{TICK, get, post, rest, run};

/// A server's end of one connection.
struct Peer {
    tcp: TcpStream,
    tls: ServerConnection,
}

impl Peer {
    /// Up to the client's last word of the handshake; what the server then has to say goes out only where the client
    /// waits for it (TLS 1.2).
    fn shake(tcp: TcpStream, config: &Arc<ServerConfig>) -> Self {
        tcp.set_nodelay(true).unwrap();
        let mut peer = Self { tcp, tls: ServerConnection::new(Arc::clone(config)).unwrap() };
        while peer.tls.is_handshaking() {
            let out = peer.sealed();
            peer.tcp.write_all(&out).unwrap();
            assert!(peer.tls.read_tls(&mut peer.tcp).unwrap() > 0);
            peer.tls.process_new_packets().unwrap();
        }
        peer.tls.set_buffer_limit(None);
        if peer.tls.protocol_version() == Some(ProtocolVersion::TLSv1_2) {
            let out = peer.sealed();
            peer.tcp.write_all(&out).unwrap();
        }
        peer
    }

    /// What is to be sent.
    fn sealed(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).unwrap();
        }
        out
    }

    fn seal(&mut self, data: &[u8]) -> Vec<u8> {
        self.tls.writer().write_all(data).unwrap();
        self.sealed()
    }

    /// A request's head and `body` bytes behind it.
    fn request(&mut self, body: usize) -> usize {
        let (mut got, mut end) = (Vec::new(), None);
        loop {
            let mut buffer = vec![0; 64 << 10];
            if let Ok(n) = self.tls.reader().read(&mut buffer) {
                got.extend_from_slice(&buffer[..n]);
            } else {
                assert!(self.tls.read_tls(&mut self.tcp).unwrap() > 0, "the client left");
                self.tls.process_new_packets().unwrap();
            }
            end = end.or_else(|| got.windows(4).position(|w| w == b"\r\n\r\n"));
            if end.is_some_and(|end| got.len() == end + 4 + body) {
                return got.len();
            }
        }
    }
}

/// A server, and a client that trusts it. `script` has each connection in turn.
fn serve(
    version: &'static SupportedProtocolVersion,
    fragment: Option<usize>,
    connections: usize,
    mut script: impl FnMut(usize, Peer) + Send + 'static,
) -> (String, Client, JoinHandle<()>) {
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(cert.pem().as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
        )
        .unwrap();
    config.max_fragment_size = fragment;
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let server = thread::spawn(move || {
        for number in 0..connections {
            script(number, Peer::shake(listener.accept().unwrap().0, &config));
        }
    });
    let tls = TlsConfig::new(Roots::OnlyGiven, Some(cert.pem().as_bytes())).unwrap();
    (url, Client::new(ClientConfig { tick: TICK, ..ClientConfig::new(tls) }), server)
}

fn answer(body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn numbers(len: usize) -> Vec<u8> {
    (0..).flat_map(|n: u32| n.to_be_bytes()).take(len).collect()
}

#[test]
fn records_of_any_size_arrive_in_any_pieces_for_any_reader() {
    for version in [&TLS13, &TLS12] {
        for fragment in [Some(64), None] {
            // Small writes meet a reader who asks for everything, large ones one who asks for little.
            for (piece, most) in
                [(1, usize::MAX), (97, 1000), (16_406, 16 << 10), (1 << 20, 100), (1 << 20, usize::MAX)]
            {
                let body = numbers(if piece == 1 { 3_000 } else { 150_000 });
                let told = answer(&body);
                let (url, client, server) = serve(version, fragment, 1, move |_, mut peer| {
                    peer.request(0);
                    let sealed = peer.seal(&told);
                    for part in sealed.chunks(piece) {
                        peer.tcp.write_all(part).unwrap();
                    }
                });
                let got = run(async {
                    let mut attempt = client.attempt(get(&url));
                    attempt.head().await.unwrap();
                    let (mut scratch, mut got) = (Scratch::new(), Vec::new());
                    loop {
                        let read = attempt.read(&mut scratch, most).await.unwrap();
                        assert!(scratch.len() <= most);
                        scratch.pieces().for_each(|piece| got.extend_from_slice(piece));
                        if read.end {
                            return got;
                        }
                    }
                });
                assert!(got == body, "{version:?}, fragments of {fragment:?}, writes of {piece}, reads of {most}");
                server.join().unwrap();
            }
        }
    }
}

#[test]
fn new_keys_in_the_middle_of_an_answer_are_answered() {
    let body = numbers(40_000);
    let told = answer(&body);
    let (url, client, server) = serve(&TLS13, None, 1, move |_, mut peer| {
        for _ in 0..3 {
            // The server opens the next request with the client's new keys only if it was told of them before.
            peer.request(5_000);
            let mut sealed = peer.seal(&told[..20_000]);
            peer.tls.refresh_traffic_keys().unwrap();
            sealed.extend(peer.seal(&told[20_000..]));
            peer.tcp.write_all(&sealed).unwrap();
        }
    });
    run(async {
        for _ in 0..3 {
            let mut attempt = client.attempt(post(&url, vec![b'x'; 5_000]));
            attempt.head().await.unwrap();
            assert!(rest(&mut attempt).await.unwrap() == body);
        }
        assert_eq!(client.idle_connections(), 1);
    });
    server.join().unwrap();
}

#[test]
fn a_ticket_that_has_come_in_part_does_not_stand_in_a_request_s_way() {
    const BODY: usize = 16 << 20;
    let (url, client, server) = serve(&TLS13, Some(64), 1, |_, mut peer| {
        let tickets = peer.sealed();
        let first = 5 + usize::from(u16::from_be_bytes([tickets[3], tickets[4]]));
        assert!(first < tickets.len(), "a ticket is longer than a record");
        peer.tcp.write_all(&tickets[..first]).unwrap();
        // More than the sockets hold: the client reads the ticket's beginning while it still writes.
        peer.request(BODY);
        peer.tcp.write_all(&tickets[first..]).unwrap();
        let sealed = peer.seal(&answer(b"all"));
        peer.tcp.write_all(&sealed).unwrap();
    });
    run(async {
        let mut attempt = client.attempt(post(&url, vec![b'x'; BODY]));
        attempt.head().await.unwrap();
        assert_eq!(rest(&mut attempt).await.unwrap(), b"all");
    });
    server.join().unwrap();
}

#[test]
fn a_session_is_resumed_by_the_next_connection() {
    for version in [&TLS13, &TLS12] {
        let (url, client, server) = serve(version, None, 2, |number, mut peer| {
            peer.request(0);
            let mut sealed = peer.seal(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
            peer.tls.send_close_notify();
            sealed.extend(peer.sealed());
            peer.tcp.write_all(&sealed).unwrap();
            let expected = if number == 0 { HandshakeKind::Full } else { HandshakeKind::Resumed };
            assert_eq!(peer.tls.handshake_kind(), Some(expected));
        });
        run(async {
            for _ in 0..2 {
                let mut attempt = client.attempt(get(&url));
                attempt.head().await.unwrap();
                assert_eq!(rest(&mut attempt).await.unwrap(), b"ok");
            }
        });
        server.join().unwrap();
    }
}

#[test]
fn a_record_that_was_tampered_with_ends_the_connection_and_the_peer_is_told() {
    let (url, client, server) = serve(&TLS13, None, 1, |_, mut peer| {
        peer.request(0);
        let mut sealed = peer.seal(&answer(b"true"));
        let last = sealed.len() - 1;
        sealed[last] ^= 1;
        peer.tcp.write_all(&sealed).unwrap();
        while peer.tls.read_tls(&mut peer.tcp).unwrap_or(0) > 0 {
            if let Err(told) = peer.tls.process_new_packets() {
                let alert = rustls::AlertDescription::BadRecordMac;
                return assert_eq!(told, rustls::Error::AlertReceived(alert));
            }
        }
        panic!("the client said nothing");
    });
    run(async {
        let failure = client.attempt(get(&url)).head().await.err().unwrap();
        assert_eq!((failure.kind.code(), failure.phase.code()), ("transport", "head"));
    });
    server.join().unwrap();
}
