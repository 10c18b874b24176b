//! TLS: whom it trusts, that it is used again, and that a cut is not an end.

mod support;

use headrace_http1::BodyError;
use headrace_kernel::{Cause, Client, ClientConfig, Roots, Step, TlsConfig, TlsError};
use headrace_scripted::{Framing, Play, Reply, Script, Upstream};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use support::{TICK, failure, fetch, get, post, run};

struct Pki {
    ca: String,
    chain: String,
    key: String,
}

fn pki(name: &str) -> Pki {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    Pki { ca: ca.as_ref().pem(), chain: leaf.pem(), key: key.serialize_pem() }
}

fn client(ca: Option<&str>) -> Client {
    let tls = TlsConfig::new(Roots::OnlyGiven, ca.map(str::as_bytes)).unwrap();
    Client::new(ClientConfig { tick: TICK, ..ClientConfig::new(tls) })
}

fn upstream(pki: &Pki, script: Script) -> Upstream {
    Upstream::start_tls(script, pki.chain.as_bytes(), pki.key.as_bytes()).unwrap()
}

#[test]
fn a_given_authority_is_trusted_and_the_connection_used_again() {
    run(async {
        let pki = pki("localhost");
        let upstream = upstream(&pki, Script::always(Reply::stream().data("data: 1\n\n").data("data: 2\n\n").end()));
        let client = client(Some(&pki.ca));
        let large = vec![b'x'; 1 << 20];
        for _ in 0..3 {
            let (head, body) = fetch(&client, post(&upstream.url("/v1"), large.clone())).await.unwrap();
            assert_eq!((head.status, body.as_slice()), (200, &b"data: 1\n\ndata: 2\n\n"[..]));
        }
        let facts = upstream.facts();
        assert_eq!((facts.connections.len(), facts.request_count), (1, 3));
        assert_eq!(facts.requests[2].body.len(), large.len());

        let mut attempt = self::client(Some(&pki.ca)).attempt(get(&upstream.url("/")));
        attempt.head().await.unwrap();
        let steps: Vec<_> = attempt.trace().events().map(|e| e.step).collect();
        assert_eq!(steps[..4], [Step::Connect, Step::Connect, Step::Tls, Step::Tls]);
    });
}

#[test]
fn an_unknown_authority_and_another_name_are_refused() {
    run(async {
        let (mine, other, misnamed) = (pki("localhost"), pki("localhost"), pki("elsewhere.example"));
        for (server, trusted) in [(&mine, &other), (&misnamed, &misnamed)] {
            let upstream = upstream(server, Script::always(Reply::json(200, "{}").end()));
            let failure = failure(&client(Some(&trusted.ca)), get(&upstream.url("/"))).await;
            assert!(matches!(failure.cause, Cause::Tls(_)), "{failure:?}");
            assert_eq!((failure.kind.code(), failure.phase.code()), ("transport", "connect"));
            assert_eq!((failure.bytes_sent, upstream.facts().request_count), (0, 0), "no request to a stranger");
        }
    });
}

#[test]
fn a_cut_is_not_an_end() {
    run(async {
        let pki = pki("localhost");
        let script = Script::new()
            .route("/cut", vec![Reply::status(200).framing(Framing::Close).data("half").play(Play::Cut).end()])
            .route("/end", vec![Reply::status(200).framing(Framing::Close).data("whole").end()]);
        let (upstream, client) = (upstream(&pki, script), client(Some(&pki.ca)));
        let failure = failure(&client, get(&upstream.url("/cut"))).await;
        assert_eq!(failure.cause, Cause::Body(BodyError::Truncated));
        assert_eq!(failure.kind.code(), "stream_interrupted", "without TLS's farewell anyone may have cut it");
        assert_eq!(fetch(&client, get(&upstream.url("/end"))).await.unwrap().1, b"whole");
    });
}

#[test]
fn a_drop_closes_at_once_and_a_dead_connection_is_not_used() {
    run(async {
        let pki = pki("localhost");
        let closing = Reply::json(200, "{}").gate("g").play(Play::Cut).end();
        let script = Script::new()
            .route("/stall", vec![Reply::stream().data("x").play(Play::Stall).end()])
            .route("/close", vec![closing, Reply::json(200, "{}").end()]);
        let (upstream, client) = (upstream(&pki, script), client(Some(&pki.ca)));
        let mut attempt = client.attempt(get(&upstream.url("/stall")));
        attempt.head().await.unwrap();
        drop(attempt);
        assert!(upstream.closed(0).await.closed_by_client);

        fetch(&client, get(&upstream.url("/close"))).await.unwrap();
        upstream.open("g");
        upstream.closed(1).await;
        fetch(&client, get(&upstream.url("/close"))).await.unwrap();
        assert_eq!(upstream.facts().connections.len(), 3);
    });
}

#[test]
fn certificates_that_are_none_are_refused() {
    assert_eq!(TlsConfig::new(Roots::OnlyGiven, Some(b"")).err(), Some(TlsError::Pem));
    assert_eq!(
        TlsConfig::new(Roots::Bundled, Some(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")).err(),
        Some(TlsError::Pem)
    );
    TlsConfig::new(Roots::Platform, None).unwrap().load();
}
