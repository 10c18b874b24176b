//! Demand credit (B3): what the owner does not ask for is not read.

mod support;

use headrace_kernel::Scratch;
use headrace_scripted::{Reply, Script, Upstream};
use support::{client, get, run};

const BODY: usize = 64 << 20;

#[test]
fn an_owner_that_stops_asking_stops_the_upstream() {
    run(async {
        let reply = Reply::stream().drip(vec![b'x'; BODY], 64 << 10, std::time::Duration::ZERO).end();
        let upstream = Upstream::start(Script::always(reply)).unwrap();
        let mut attempt = client().attempt(get(&upstream.url("/")));
        attempt.head().await.unwrap();
        let mut scratch = Scratch::new();
        attempt.read(&mut scratch, 4 << 10).await.unwrap();
        upstream.until(|facts| facts.connections[0].blocked).await;
        // What the two sockets hold is the operating system's; the attempt holds one head's read at most.
        let written = upstream.facts().connections[0].written;
        assert!(written < BODY as u64 / 2, "{written} bytes were taken of a reader of 4 KiB");
        assert!(attempt.bytes_received() <= 20 << 10, "{}", attempt.bytes_received());

        let mut read = scratch.len();
        while read < 1 << 20 {
            attempt.read(&mut scratch, 4 << 10).await.unwrap();
            assert!(scratch.len() <= 4 << 10);
            read += scratch.len();
        }
        assert!(attempt.bytes_received() <= (1 << 20) + (40 << 10));
        read += support::rest(&mut attempt).await.unwrap().len();
        assert_eq!(read, BODY);
    });
}
