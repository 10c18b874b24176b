//! What slow clients and open streams cost: alone in its process, since it looks at the memory of all of it.

mod support;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use headrace_codec::Protocol;
use headrace_edge::EdgeConfig;
use headrace_scripted::{Play, Reply, Script, Upstream};
use support::talker::{Talker, completed, created, delta, served};
use support::*;

/// One at a time: they look at the same process.
static ALONE: Mutex<()> = Mutex::new(());

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn a_hundred_slow_readers_cost_a_bounded_buffer_each() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // One rendered reply of 20 MB, shared by all.
    let body = [chunk(&"b".repeat(64 << 10)).repeat(320).as_str(), FINISH, DONE].concat();
    let up = Upstream::start(Script::always(Reply::stream().data(body).end())).unwrap();
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start(&policy);
    let before = resident();
    let readers = 100;
    let mut clients: Vec<Client> = (0..readers).map(|_| Client::to(edge.address())).collect();
    for client in &mut clients {
        socket2::SockRef::from(&client.socket).set_recv_buffer_size(8 << 10).unwrap();
        client.send(chat(true));
    }
    assert!(up.wait(LIMIT, |f| f.connections.len() == readers && f.connections.iter().all(|c| c.blocked)));
    for _ in 0..5 {
        for client in &mut clients {
            client.buffer.clear();
            assert!(client.fill());
        }
    }
    let each = resident().saturating_sub(before) / readers;
    assert!(each < 256 << 10, "{each} bytes for each slow reader");
    drop(clients);
    assert!(up.wait(LIMIT, |f| f.open_connections() == 0));
    policy.until(|n| n.settlements.len() == readers);
}

#[test]
fn a_connection_that_sixteen_answers_share_holds_one_read_of_each() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // One rendered reply of 8 MB, shared by all.
    let body = [created("r"), delta(&"x".repeat(4 << 10)).repeat(2000), completed("r")].concat();
    let reply = Reply::stream().data(body).end();
    let (up, edge, _) = served(EdgeConfig::default(), move |_| reply.clone());
    let mut talker = Talker::to(&edge);
    socket2::SockRef::from(&talker.client.socket).set_recv_buffer_size(64 << 10).unwrap();
    for n in 0..16 {
        talker.ask(&format!("lane-{n}"), "much");
    }
    assert!(up.wait(LIMIT, |f| f.connections.len() == 16 && f.connections.iter().all(|c| c.blocked)));
    let before = resident();
    // Its buffer is never empty meanwhile, and gives back what went out all the same.
    for n in 0..5_000 {
        talker.text();
        if n % 8 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes for a connection over which 20 MB went");
}

#[test]
fn an_open_stream_holds_no_prompt() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for protocol in [None, Some(Protocol::OpenaiChat)] {
        let up = Upstream::start(Script::always(Reply::stream().data(chunk("one")).play(Play::Stall).end()).record(0))
            .unwrap();
        let url = up.url(CHAT);
        let policy = TestPolicy::always(move |request| match protocol {
            None => verbatim(&url, request),
            Some(protocol) => {
                let spec = spec(&url, request, protocol);
                headrace_edge::policy::Plan { spec, ..normalised(&url, request, protocol) }
            }
        });
        let edge = start(&policy);
        let prompt = "p".repeat(1 << 20);
        let message = format!(r#"{{"role":"user","content":"{prompt}"}}"#);
        let ask = format!(r#"{{"model":"m","stream":true,"max_tokens":9,"messages":[{message}]}}"#);
        let path = if protocol.is_none() { CHAT } else { "/v1/messages" };
        let request = post(path, &ask);
        let open = || {
            let mut client = Client::to(edge.address());
            client.send(&request).until("one");
            client
        };
        let first = open();
        let before = resident();
        let streams = 40;
        let clients: Vec<Client> = (0..streams).map(|_| open()).collect();
        let each = resident().saturating_sub(before) / streams;
        assert!(each < 128 << 10, "{each} bytes for each open stream, {protocol:?}");
        drop((first, clients));
    }
}
