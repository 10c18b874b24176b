//! Clients that leave, and clients that read slowly.

mod support;

use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use headrace_codec::event::{ErrorPhase, FinishReason};
use headrace_codec::{ErrorKind, Protocol};
use headrace_edge::policy::Decision;
use headrace_edge::{EdgeConfig, Pace};
use headrace_scripted::{Play, Reply, Script, Upstream};
use support::*;

fn relayed(reply: Reply) -> (Upstream, Arc<TestPolicy>) {
    let up = Upstream::start(Script::always(reply)).unwrap();
    let url = up.url(CHAT);
    (up, TestPolicy::always(move |request| verbatim(&url, request)))
}

/// The two ways in which a client leaves.
fn leave(client: Client, reset: bool) {
    if reset {
        socket2::SockRef::from(&client.socket).set_linger(Some(Duration::ZERO)).unwrap();
    }
    drop(client);
}

#[test]
fn a_client_that_leaves_before_the_first_byte_closes_the_upstream_at_once() {
    for reset in [false, true] {
        let (up, policy) = relayed(Reply::raw(vec![Play::Stall], false));
        let edge = start(&policy);
        let mut client = Client::to(edge.address());
        client.send(chat(true));
        assert!(up.wait(LIMIT, |f| f.request_count == 1));
        leave(client, reset);
        assert!(up.wait(LIMIT, |f| f.connections[0].closed_by_client));
        let settled = policy.settled(0);
        let error = settled.error.unwrap();
        assert_eq!((error.kind, error.phase), (ErrorKind::Aborted, ErrorPhase::BeforeCommit));
        assert_eq!((settled.status, settled.attempts), (0, 1));
    }
}

#[test]
fn a_client_that_leaves_in_mid_stream_closes_the_upstream_at_once_and_the_usage_is_kept() {
    for reset in [false, true] {
        let body = [&chunk("one"), USAGE].concat();
        let (up, policy) = relayed(Reply::stream().data(body).play(Play::Stall).end());
        let edge = start(&policy);
        let mut client = Client::to(edge.address());
        client.send(chat(true)).until("total_tokens");
        leave(client, reset);
        assert!(up.wait(LIMIT, |f| f.connections[0].closed_by_client));
        let settled = policy.settled(0);
        let error = settled.error.unwrap();
        assert_eq!((error.kind, error.phase), (ErrorKind::Aborted, ErrorPhase::Streaming));
        assert_eq!((settled.status, settled.usage.output_tokens), (200, Some(5)));
    }
}

#[test]
fn a_client_that_leaves_while_policy_decides_or_waits_costs_no_attempt() {
    let (sent, answers) = mpsc::channel();
    let answers = std::sync::Mutex::new(answers);
    let (up, _) = relayed(Reply::raw(vec![Play::Stall], false));
    let url = up.url(CHAT);
    let policy = TestPolicy::new(
        move |request| {
            // Blocks the edge thread until the client has left: the worst policy there is.
            answers.lock().unwrap().recv().unwrap();
            Decision::Plan(Box::new(verbatim(&url, request)))
        },
        |_| Decision::Refusal(tell()),
    );
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    client.send(chat(true));
    client.socket.shutdown(Shutdown::Write).unwrap();
    sent.send(()).unwrap();
    assert_eq!(policy.settled(0).error.unwrap().kind, ErrorKind::Aborted);
    assert!(client.is_closed());

    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| {
        let mut plan = verbatim(&url, request);
        plan.spec.delay = Duration::from_hours(1);
        plan
    });
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    client.send(chat(true));
    policy.until(|n| n.decides == 1);
    drop(client);
    let settled = policy.settled(0);
    assert_eq!((settled.attempts, settled.error.unwrap().kind), (0, ErrorKind::Aborted));
}

/// One event of about 64 KiB.
fn big() -> String {
    chunk(&"b".repeat(64 << 10))
}

#[test]
fn a_client_that_does_not_read_stops_the_upstream_and_loses_nothing() {
    for protocol in [None, Some(Protocol::OpenaiChat)] {
        let count = 400;
        let body = [big().repeat(count).as_str(), FINISH, DONE].concat();
        let up = Upstream::start(Script::always(Reply::stream().data(body.clone()).end())).unwrap();
        let url = up.url(CHAT);
        let policy = TestPolicy::always(move |request| match protocol {
            None => verbatim(&url, request),
            Some(protocol) => normalised(&url, request, protocol),
        });
        let edge = start(&policy);
        let mut client = Client::to(edge.address());
        socket2::SockRef::from(&client.socket).set_recv_buffer_size(16 << 10).unwrap();
        client.send(chat(true)).until("bbbb");
        // The script is the judge: its own write has stopped, far from the end of 26 MB.
        assert!(up.wait(LIMIT, |f| f.connections[0].blocked));
        std::thread::sleep(Duration::from_millis(100));
        let written = up.look(|f| f.connections[0].written) as usize;
        assert!(written < body.len() / 2, "{written} of {} were read ahead", body.len());
        let answer = client.answer();
        assert!(answer.whole);
        if protocol.is_none() {
            assert!(answer.text() == body);
        }
        assert_eq!(answer.text().matches('b').count() / (64 << 10), count);
        assert_eq!(policy.settled(0).finish, Some(FinishReason::Stop));
    }
}

#[test]
fn a_client_that_takes_nothing_for_too_long_is_gone() {
    let (up, policy) = relayed(Reply::stream().data(big().repeat(200)).end());
    let pace = Pace { stalled: Duration::from_millis(200), ..Pace::default() };
    let edge = start_with(EdgeConfig { pace, ..EdgeConfig::default() }, &policy);
    let mut client = Client::to(edge.address());
    client.send(chat(true));
    assert_eq!(policy.settled(0).error.unwrap().kind, ErrorKind::Aborted);
    assert!(up.wait(LIMIT, |f| f.connections[0].closed_by_client));
    drop(client);
}

#[test]
fn a_stop_lets_answers_under_way_end_and_closes_idle_connections() {
    let (up, policy) = relayed(Reply::stream().data(chunk("one")).gate("end").data([FINISH, DONE].concat()).end());
    let edge = start(&policy);
    let mut busy = Client::to(edge.address());
    let mut idle = Client::to(edge.address());
    assert_eq!(idle.send("GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").answer_to("GET").status, 200);
    busy.send(chat(true)).until("one");
    edge.stop(LIMIT);
    assert!(idle.is_closed());
    // The listening socket goes first, so that this is not a race.
    assert!(std::net::TcpStream::connect(edge.address()).is_err());
    up.open("end");
    let answer = busy.answer();
    assert!(answer.whole && answer.text().ends_with(DONE));
    assert!(busy.is_closed());
    edge.join();
    assert_eq!(policy.settled(0).finish, Some(FinishReason::Stop));
}

#[test]
fn a_stop_without_grace_settles_what_it_breaks_off() {
    let (up, policy) = relayed(Reply::stream().data(chunk("one")).play(Play::Stall).end());
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    client.send(chat(true)).until("one");
    edge.stop(LIMIT);
    edge.stop(Duration::ZERO);
    edge.join();
    assert!(!client.answer().whole);
    assert_eq!(policy.settled(0).error.unwrap().kind, ErrorKind::Aborted);
    assert!(up.wait(LIMIT, |f| f.connections[0].closed_by_client));
}

#[test]
fn several_threads_share_a_port_that_nobody_else_gets() {
    let (_up, policy) = relayed(Reply::stream().data([&chunk("x"), FINISH, DONE].concat()).end());
    let edge = start_with(EdgeConfig { threads: 3, ..EdgeConfig::default() }, &policy);
    for _ in 0..20 {
        assert!(Client::to(edge.address()).send(chat(true)).answer().text().ends_with(DONE));
    }
    let taken = EdgeConfig { threads: 2, address: edge.address(), ..EdgeConfig::default() };
    let kernel = headrace_kernel::ClientConfig::new(
        headrace_kernel::TlsConfig::new(headrace_kernel::Roots::Bundled, None).unwrap(),
    );
    let same: Arc<dyn headrace_edge::Policy> = Arc::clone(&policy) as Arc<dyn headrace_edge::Policy>;
    let error = headrace_edge::Edge::start(taken, &kernel, &same).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}
