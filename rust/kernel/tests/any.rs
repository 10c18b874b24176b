//! Any upstream and any owner: whatever the one does and whenever the other leaves, what was read is a beginning of
//! what was sent, an end is a true end, no connection is left behind, and the next request is answered by its own
//! answer.

mod support;

use std::io::Write;

use headrace_kernel::{Client, Scratch};
use headrace_scripted::{Facts, Framing, Play, Reply, Script, Upstream};
use proptest::prelude::*;
use support::{TICK, client, fetch, get, run};

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Whole,
    Cut,
    Reset,
    Stall,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Owner {
    ReadsAll,
    DropsAfter(usize),
    ReleasesAfter(usize),
}

#[derive(Clone, Debug)]
struct Case {
    pieces: Vec<Vec<u8>>,
    framing: Framing,
    gzip: bool,
    end: End,
    owner: Owner,
    max: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let piece = prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => (0usize..200_000, any::<u8>()).prop_map(|(n, b)| vec![b; n]),
    ];
    let owner = prop_oneof![
        3 => Just(Owner::ReadsAll),
        1 => (0usize..4).prop_map(Owner::DropsAfter),
        1 => (0usize..4).prop_map(Owner::ReleasesAfter),
    ];
    (
        proptest::collection::vec(piece, 0..6),
        prop_oneof![3 => Just(Framing::Chunked), 1 => Just(Framing::Length), 1 => Just(Framing::Close)],
        any::<bool>(),
        prop_oneof![4 => Just(End::Whole), 1 => Just(End::Cut), 1 => Just(End::Reset), 1 => Just(End::Stall)],
        owner,
        prop_oneof![Just(100usize), Just(4096), Just(usize::MAX)],
    )
        .prop_map(|(pieces, framing, gzip, end, owner, max)| {
            // Nobody can read the whole of what stalls, and what has its length has its end.
            let stalls = end == End::Stall;
            let owner = if stalls && owner == Owner::ReadsAll { Owner::DropsAfter(1) } else { owner };
            let framing = if stalls && framing == Framing::Length { Framing::Chunked } else { framing };
            Case { pieces, framing, gzip, end, owner, max }
        })
}

fn upstream(case: &Case) -> Upstream {
    let mut reply = Reply::status(200).framing(case.framing);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    if case.gzip {
        reply = reply.header("content-encoding", "gzip");
    }
    for piece in &case.pieces {
        if case.gzip {
            encoder.write_all(piece).unwrap();
            encoder.flush().unwrap();
            reply = reply.data(std::mem::take(encoder.get_mut()));
        } else {
            reply = reply.data(piece.clone());
        }
    }
    if case.gzip {
        reply = reply.data(encoder.finish().unwrap());
    }
    reply = match case.end {
        End::Whole => reply,
        End::Cut => reply.play(Play::Cut),
        End::Reset => reply.play(Play::Reset),
        End::Stall => reply.play(Play::Stall),
    };
    let script = Script::new().route("/any", vec![reply.end()]).route("/ok", vec![Reply::json(200, "fine").end()]);
    Upstream::start(script).unwrap()
}

async fn play(client: &Client, upstream: &Upstream, case: &Case) {
    let sent = case.pieces.concat();
    let mut attempt = client.attempt(get(&upstream.url("/any")));
    let head = attempt.head().await;
    if case.end == End::Reset && head.is_err() {
        return; // The reset overtook the head.
    }
    assert_eq!(head.unwrap().status, 200);
    let (mut scratch, mut body, mut reads) = (Scratch::new(), Vec::new(), 0);
    loop {
        match case.owner {
            Owner::DropsAfter(n) if reads == n => return drop(attempt),
            Owner::ReleasesAfter(n) if reads == n => return attempt.release(),
            _ => reads += 1,
        }
        if case.end == End::Stall && body.len() == sent.len() {
            return;
        }
        let got = attempt.read(&mut scratch, case.max).await;
        if got.is_ok() {
            scratch.pieces().for_each(|piece| body.extend_from_slice(piece));
        }
        assert!(sent.starts_with(&body), "what was read is what was sent");
        match got {
            Ok(got) if got.end => {
                assert_eq!(body.len(), sent.len(), "an end is the end");
                assert!(case.framing != Framing::Chunked || case.end == End::Whole, "a cut is no end");
                return;
            }
            Ok(_) => assert!(!scratch.is_empty()),
            Err(failure) => {
                assert!(matches!(case.end, End::Cut | End::Reset), "{failure:?}");
                assert_eq!(failure.kind.code(), "stream_interrupted");
                return;
            }
        }
    }
}

/// As an attempt's owner does it: a reused connection may have died in the meantime, and that is told and not hidden.
async fn fine(client: &Client, upstream: &Upstream) -> Vec<u8> {
    match fetch(client, get(&upstream.url("/ok"))).await {
        Ok((_, body)) => body,
        Err(failure) => {
            assert!(failure.died_unanswered(), "{failure:?}");
            fetch(client, get(&upstream.url("/ok"))).await.unwrap().1
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, max_shrink_iters: 8, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens(case in cases()) {
        run(async {
            let (upstream, client) = (upstream(&case), client());
            play(&client, &upstream, &case).await;
            for _ in 0..2 {
                assert_eq!(fine(&client, &upstream).await, b"fine");
            }
            // In the end, what is open is what is kept: the ticker closes the rest.
            while upstream.look(Facts::open_connections) != client.idle_connections() {
                tokio::time::sleep(TICK).await;
            }
            // Two, where the first had drained after the second was opened.
            assert!((1..=2).contains(&client.idle_connections()));
        });
    }
}
