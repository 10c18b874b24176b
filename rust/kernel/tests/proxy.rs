//! By way of a proxy: tunnels, plain http passed on, and what goes wrong there is not the provider's.

#[path = "support/proxy.rs"]
mod proxying;
mod support;

use std::sync::Arc;
use std::time::Duration;

use headrace_kernel::deadlines::Deadline;
use headrace_kernel::{
    AttemptSpec, Cause, Client, ClientConfig, Deadlines, Failure, Proxy, ProxyFault, Roots, Step, TlsConfig,
};
use headrace_scripted::{Play, Reply, Script, Upstream};
use proxying::{Act, Proxying};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use support::{TICK, client, failure, fetch, get, post, run};
use tokio::sync::Notify;

/// An upstream over TLS, and a client that trusts it.
fn secured(script: Script) -> (Upstream, Client) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    let upstream = Upstream::start_tls(script, leaf.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    let tls = TlsConfig::new(Roots::OnlyGiven, Some(ca.as_ref().pem().as_bytes())).unwrap();
    (upstream, Client::new(ClientConfig { tick: TICK, ..ClientConfig::new(tls) }))
}

fn by(proxy: &str, mut spec: AttemptSpec) -> AttemptSpec {
    spec.url.endpoint.proxy = Some(Arc::new(Proxy::parse(proxy).unwrap()));
    spec
}

fn is_the_proxys(failure: &Failure, proxy: &Proxying) {
    assert_eq!((failure.kind.code(), failure.phase.code()), ("transport", "connect"), "{failure:?}");
    let told = failure.to_string();
    assert!(told.ends_with(&format!("(by way of the proxy {})", proxy.url())), "{told}");
    assert!(!told.contains("hush") && !format!("{failure:?}").contains("hush"), "{failure:?}");
}

#[test]
fn a_tunnel_carries_tls_and_is_used_again() {
    run(async {
        let (upstream, client) = secured(Script::always(Reply::stream().data("data: 1\n\n").end()));
        let proxy = Proxying::start(Act::Lead).await;
        let address = format!("http://me:hu%73h@{}", proxy.address);
        for _ in 0..3 {
            let spec = by(&address, post(&upstream.url("/v1"), "{\"secret\":1}"));
            let (head, body) = fetch(&client, spec).await.unwrap();
            assert_eq!((head.status, body.as_slice()), (200, &b"data: 1\n\n"[..]));
        }
        let host = upstream.url("").trim_start_matches("https://").trim_end_matches('/').to_owned();
        let want =
            format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\nproxy-authorization: Basic bWU6aHVzaA==\r\n\r\n");
        assert_eq!(proxy.heads(), [want], "one tunnel, and nothing of the request");
        assert_eq!(upstream.facts().request_count, 3);
        let seen = &upstream.facts().requests[0];
        assert!(!seen.headers.iter().any(|(name, _)| name.starts_with("proxy")), "the proxy's secret goes no further");

        // Another way to the same host is another connection.
        fetch(&client, get(&upstream.url("/"))).await.unwrap();
        fetch(&client, by(&format!("http://me:other@{}", proxy.address), get(&upstream.url("/")))).await.unwrap();
        assert_eq!((upstream.facts().connections.len(), client.idle_connections()), (3, 3));

        let mut attempt = client.attempt(by(&address, get(&upstream.url("/")))).on_fresh_connection();
        attempt.head().await.unwrap();
        let at = |step| attempt.trace().completed_s(step).expect("the step is there");
        assert!(at(Step::Connect) <= at(Step::Tunnel) && at(Step::Tunnel) <= at(Step::Tls));
    });
}

#[test]
fn plain_http_is_passed_on() {
    run(async {
        let upstream = Upstream::start(Script::always(Reply::stream().data("a").data("b").end())).unwrap();
        let (proxy, client) = (Proxying::start(Act::Lead).await, client());
        let address = format!("http://me:hush@{}", proxy.address);
        for _ in 0..2 {
            let (_, body) = fetch(&client, by(&address, post(&upstream.url("/v1?x=1"), "{}"))).await.unwrap();
            assert_eq!(body, b"ab");
        }
        let heads = proxy.heads();
        assert_eq!(heads.len(), 1, "the connection to the proxy is used again");
        let url = upstream.url("/v1?x=1");
        assert!(heads[0].starts_with(&format!("POST {url} HTTP/1.1\r\nhost: ")), "{}", heads[0]);
        assert!(heads[0].contains("\r\nproxy-authorization: Basic bWU6aHVzaA==\r\n"));
        assert_eq!(upstream.facts().requests[0].target, "/v1?x=1");
        let mut attempt = client.attempt(by(&address, get(&upstream.url("/")))).on_fresh_connection();
        attempt.head().await.unwrap();
        assert_eq!(attempt.trace().completed_s(Step::Tunnel), None);
    });
}

#[test]
fn its_refusals_are_its_own() {
    run(async {
        let (upstream, client) = secured(Script::always(Reply::json(200, "{}").end()));
        let wants =
            "HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 4\r\n\r\nhush";
        for (answer, fault) in [
            (wants, ProxyFault::Status(407)),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", ProxyFault::Status(403)),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", ProxyFault::Status(503)),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", ProxyFault::Status(101)),
            ("HTTP/1.1 200 OK\r\n\r\nhush", ProxyFault::Ahead),
            ("HTTP/1.1 200", ProxyFault::Closed),
            ("", ProxyFault::Closed),
        ] {
            let proxy = Proxying::start(Act::Answer(answer)).await;
            let spec = by(&format!("http://me:hush@{}", proxy.address), post(&upstream.url("/"), "{}"));
            let failure = failure(&client, spec).await;
            assert_eq!(failure.cause, Cause::Proxy(fault), "{answer:?}");
            is_the_proxys(&failure, &proxy);
            assert_eq!((failure.bytes_sent, failure.bytes_received), (0, 0), "the request has not left");
        }
        let proxy = Proxying::start(Act::Answer("SSH-2.0-x\r\n\r\n")).await;
        let failed = failure(&client, by(&proxy.url(), get(&upstream.url("/")))).await;
        assert!(matches!(failed.cause, Cause::Proxy(ProxyFault::Head(_))), "{failed:?}");
        // Where it passes requests on, this status is still nobody else's.
        let proxy = Proxying::start(Act::Answer(wants)).await;
        let plain = by(&format!("http://me:hush@{}", proxy.address), post("http://127.0.0.1:9/v1", "{}"));
        let failed = failure(&client, plain).await;
        assert_eq!(failed.cause, Cause::Proxy(ProxyFault::Status(407)));
        is_the_proxys(&failed, &proxy);
        assert_eq!((upstream.facts().connections.len(), client.idle_connections()), (0, 0));
    });
}

#[test]
fn a_proxy_that_is_not_there_is_named() {
    run(async {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let failed = failure(&client(), by(&format!("http://{address}"), get("https://api.example/"))).await;
        assert_eq!(failed.cause, Cause::Connect(std::io::ErrorKind::ConnectionRefused));
        assert!(failed.to_string().contains(&format!("proxy http://{address}")), "{failed}");
        assert_eq!((failed.kind.code(), failed.phase.code()), ("transport", "connect"));
    });
}

#[test]
fn the_connect_deadline_covers_it() {
    run(async {
        let deadlines = Deadlines { connect: Some(Duration::from_millis(30)), ..Deadlines::default() };
        for half in ["", "HTTP/1.1 200 OK\r\nx: "] {
            let proxy = Proxying::start(Act::Stall(half)).await;
            let spec = by(&proxy.url(), AttemptSpec { deadlines, ..get("https://api.example/") });
            let failed = failure(&client(), spec).await;
            assert_eq!(failed.cause, Cause::Deadline(Deadline::Connect));
            assert_eq!((failed.kind.code(), failed.phase.code()), ("timeout", "connect"));
            assert!(failed.to_string().contains(&proxy.url()), "{failed}");
            proxy.until(|seen| seen.closed == 1).await;
        }
        // A slow one within the deadline is none the worse.
        let (upstream, client) = secured(Script::always(Reply::json(200, "{}").end()));
        let gate = Arc::new(Notify::new());
        let proxy = Proxying::start(Act::Gate(gate.clone())).await;
        let deadlines = Deadlines { connect: Some(Duration::from_secs(20)), ..Deadlines::default() };
        let spec = by(&proxy.url(), AttemptSpec { deadlines, ..get(&upstream.url("/")) });
        let opening = async {
            proxy.until(|seen| seen.heads.len() == 1).await;
            tokio::time::sleep(TICK * 3).await;
            gate.notify_one();
        };
        let (answer, ()) = tokio::join!(fetch(&client, spec), opening);
        assert_eq!(answer.unwrap().0.status, 200);
    });
}

#[test]
fn a_drop_closes_what_it_had_begun() {
    run(async {
        let proxy = Proxying::start(Act::Stall("HTTP/1.1 2")).await;
        let client = client();
        let mut attempt = client.attempt(by(&proxy.url(), get("https://api.example/")));
        tokio::select! {
            biased;
            _ = attempt.head() => unreachable!("the proxy never answers"),
            () = proxy.until(|seen| seen.heads.len() == 1) => {}
        }
        drop(attempt);
        proxy.until(|seen| seen.closed == 1).await;
        // And within the tunnel: what lies behind is closed too.
        let (upstream, client) = secured(Script::always(Reply::stream().data("x").play(Play::Stall).end()));
        let proxy = Proxying::start(Act::Lead).await;
        let mut attempt = client.attempt(by(&proxy.url(), get(&upstream.url("/"))));
        attempt.head().await.unwrap();
        drop(attempt);
        upstream.closed(0).await;
        proxy.until(|seen| seen.closed == 1).await;
    });
}

#[test]
fn a_websocket_goes_through_a_tunnel() {
    run(async {
        let upstream = Upstream::start(Script::always(Reply::json(404, "{}").end())).unwrap();
        let proxy = Proxying::start(Act::Lead).await;
        let url = upstream.url("/v1/responses").replacen("http", "ws", 1);
        let (head, _) = fetch(&client(), by(&proxy.url(), post(&url, "{}"))).await.unwrap();
        assert_eq!(head.status, 404, "a server that does not switch answers as ever");
        assert!(proxy.heads()[0].starts_with("CONNECT 127.0.0.1:"));
        let seen = &upstream.facts().requests[0];
        assert!(seen.headers.iter().any(|(name, value)| name == "upgrade" && value == "websocket"));
    });
}
