//! What slow clients cost: alone in its process, since it looks at the memory of all of it.

mod support;

use headrace_scripted::{Reply, Script, Upstream};
use support::*;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn a_hundred_slow_readers_cost_a_bounded_buffer_each() {
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
