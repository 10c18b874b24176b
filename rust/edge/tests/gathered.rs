//! Answers that the policy reads whole, and streams that nobody reads.

mod support;

use headrace_codec::ErrorKind;
use headrace_codec::event::FinishReason;
use headrace_edge::Operation;
use headrace_edge::policy::{BodySource, Plan, Relay};
use headrace_scripted::{Framing, Play, Reply, Script, Upstream};
use support::*;

const EMBED: &str = "/v1/embeddings";

/// A plan for a body that Python made.
fn plan(url: &str, request: &headrace_edge::ClientRequest, relay: Relay) -> Plan {
    let mut plan = Plan { relay, ..verbatim(url, request) };
    plan.spec.body = BodySource::Bytes(b"{\"made\":1}".to_vec());
    plan
}

#[test]
fn a_whole_answer_goes_to_the_policy_once_and_its_answer_to_the_client() {
    let body = "x".repeat(3 << 20) + "end";
    let reply = Reply::json(200, body.clone()).header("x-request-id", "up-1").header("set-cookie", "a=b").end();
    let up = Upstream::start(Script::always(reply)).unwrap();
    let url = up.url(EMBED);
    let policy = TestPolicy::always(move |request| {
        assert_eq!((request.operation, request.facts.model.as_deref()), (Operation::Embeddings, None));
        let mut plan = plan(&url, request, Relay::Gathered { verbatim: false });
        plan.spec.told = vec![("x-headrace-model".into(), "a/b".into())];
        plan
    });
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    for n in 0..2 {
        let answer = client.send(post(EMBED, r#"{"model":"m","input":"hi"}"#)).answer();
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain")));
        assert_eq!((answer.header("x-own"), answer.header("x-request-id")), (Some("1"), Some("up-1")));
        assert_eq!((answer.header("x-headrace-model"), answer.header("set-cookie")), (Some("a/b"), None));
        assert!(answer.text().starts_with("dne") && answer.text().len() == body.len());
        let settled = policy.settled(n);
        assert_eq!((settled.finish, settled.status), (Some(FinishReason::Stop), 200));
        assert_eq!(settled.usage.input_tokens, Some(3));
        assert_eq!(settled.bytes_received, body.len() as u64);
    }
    assert_eq!(up.look(|f| (f.requests[0].body.clone(), f.connections.len())), (b"{\"made\":1}".to_vec(), 1));
    assert_eq!(policy.look(|n| (n.gathered.len(), n.gathered[0].token, n.failures.len())), (2, 7, 0));
}

#[test]
fn a_failure_or_a_cut_is_an_attempt_that_failed_and_is_never_read() {
    let cut = Reply::json(200, "{\"half").framing(Framing::Lie(90)).play(Play::Cut).end();
    let refused = Reply::json(429, r#"{"detail":"slow down"}"#).header("retry-after", "3").end();
    for (reply, kind) in [(cut, ErrorKind::StreamInterrupted), (refused, ErrorKind::RateLimit)] {
        let up = Upstream::start(Script::always(reply)).unwrap();
        let url = up.url(EMBED);
        let policy = TestPolicy::always(move |request| plan(&url, request, Relay::Gathered { verbatim: false }));
        let edge = start(&policy);
        let answer = Client::to(edge.address()).send(post(EMBED, "{}")).answer();
        assert!(answer.status >= 400 && answer.text().contains("\"error\""), "{}", answer.text());
        assert_eq!(policy.look(|n| (n.gathered.len(), n.failures.len(), n.failures[0].error.kind)), (0, 1, kind));
        assert_eq!(policy.settled(0).error.map(|e| e.kind), Some(kind));
    }
}

#[test]
fn an_unread_stream_reaches_the_client_piece_by_piece() {
    let reply = Reply::stream().data("data: {\"a\":1}\n\n").gate("seen").data("data: {\"b\":2}\n\n").end();
    let up = Upstream::start(Script::always(reply)).unwrap();
    let url = up.url("/v1/images/generations");
    let policy = TestPolicy::always(move |request| plan(&url, request, Relay::Opaque));
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    client.send(post("/v1/images/generations", r#"{"stream":true}"#));
    client.until("data: {\"a\":1}\n\n");
    up.open("seen");
    let answer = client.answer();
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.text(), "data: {\"a\":1}\n\ndata: {\"b\":2}\n\n");
    assert_eq!(policy.settled(0).finish, Some(FinishReason::Stop));
}

#[test]
fn a_clients_own_mistake_is_told_in_its_own_form() {
    let words = r#"{"detail":"wrong","own":[1]}"#;
    for verbatim in [true, false] {
        let up = Upstream::start(Script::always(Reply::json(400, words).end())).unwrap();
        let url = up.url(EMBED);
        let policy = TestPolicy::always(move |request| plan(&url, request, Relay::Gathered { verbatim }));
        let edge = start(&policy);
        let answer = Client::to(edge.address()).send(post(EMBED, "{}")).answer();
        assert_eq!((answer.status, answer.text() == words), (400, verbatim));
        assert!(answer.text().contains("wrong"));
    }
}

#[test]
fn an_answer_that_the_policy_refuses_is_the_clients_fault_or_the_providers() {
    for (status, kind) in [(400, ErrorKind::BadRequest), (502, ErrorKind::Unknown)] {
        let up = Upstream::start(Script::always(Reply::json(200, status.to_string()).end())).unwrap();
        let url = up.url(EMBED);
        let policy = TestPolicy::always(move |request| plan(&url, request, Relay::Gathered { verbatim: true }));
        let edge = start(&policy);
        let answer = Client::to(edge.address()).send(post(EMBED, "{}")).answer();
        assert_eq!((answer.status, answer.text().contains("\"told\"")), (status, true));
        let settled = policy.settled(0);
        assert_eq!((settled.status, settled.error.map(|e| e.kind), settled.finish), (status, Some(kind), None));
    }
}
