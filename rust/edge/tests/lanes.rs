//! A client's WebSocket: several answers at a time, each in its lane, and what ends one of them or all.

mod support;

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use headrace_codec::ErrorKind;
use headrace_edge::{EdgeConfig, Pace};
use headrace_http1::websocket::{Message, Opcode};
use headrace_scripted::{Play, Reply, Seen};
use support::LIMIT;
use support::talker::*;

/// Whose a message is.
fn lane(text: &str) -> &str {
    let Some((_, rest)) = text.split_once(r#""stream_id":""#) else { return "" };
    rest.split_once('"').unwrap().0
}

/// The text in a request's input that came last: an answer's id is made of it.
fn asked(seen: &Seen) -> String {
    let body = String::from_utf8(seen.body.clone()).unwrap();
    let (_, last) = body.rsplit_once(r#""content":""#).unwrap();
    last.split_once('"').unwrap().0.to_owned()
}

/// What is asked for as "gate X" waits for that gate; other answers come whole.
fn answers(seen: &Seen) -> Reply {
    let asked = asked(seen);
    let stream = Reply::stream().data(created(&asked)).data(delta("a"));
    let stream = match asked.strip_prefix("gate ") {
        Some(gate) => stream.gate(gate),
        None => stream,
    };
    stream.data(completed(&asked)).end()
}

fn pace(change: impl FnOnce(&mut Pace)) -> EdgeConfig {
    let mut pace = Pace::default();
    change(&mut pace);
    EdgeConfig { pace, ..EdgeConfig::default() }
}

#[test]
fn a_lane_that_waits_holds_up_no_other_and_its_own_next_one() {
    let (up, edge, _) = served(EdgeConfig::default(), answers);
    let mut talker = Talker::to(&edge);
    for (lane, input) in [("a", "gate 1"), ("a", "second"), ("b", "one"), ("b", "two"), ("", "three")] {
        talker.ask(lane, input);
    }
    let mut heard: HashMap<String, String> = HashMap::new();
    let mut ended = 0;
    while ended < 3 {
        let text = talker.text();
        ended += usize::from(text.contains("response.completed"));
        heard.entry(lane(&text).to_owned()).or_default().push_str(&text);
    }
    let at = |lane: &str, text: &str| heard[lane].find(text);
    assert!(at("b", "out of one") < at("b", r#""response.created","response":{"id":"two""#), "{heard:?}");
    assert!(at("b", "out of two").is_some() && at("", "out of three").is_some(), "{heard:?}");
    assert!(!heard.get("a").is_some_and(|text| text.contains("completed") || text.contains("second")), "{heard:?}");
    assert_eq!(up.facts().request_count, 4, "the second one of a lane waits");
    up.open("1");
    let rest = talker.until("out of second");
    assert!(rest.iter().all(|text| lane(text) == "a"), "{rest:?}");
    assert_eq!(rest.iter().filter(|text| text.contains("response.completed")).count(), 2);
}

#[test]
fn who_names_no_lane_asks_again_once_the_answer_has_ended_and_not_before() {
    let (up, edge, _) = served(EdgeConfig::default(), answers);
    let mut talker = Talker::to(&edge);
    talker.ask("", "gate 1");
    talker.ask("", "too early");
    talker.ask("a", "beside it");
    let heard = talker.until("out of beside it");
    let refused: Vec<_> = heard.iter().filter(|text| text.contains(r#""type":"error""#)).collect();
    assert_eq!(refused.len(), 1, "{heard:?}");
    assert!(refused[0].contains(r#""status":409"#) && refused[0].contains("response_in_progress"), "{refused:?}");
    assert_eq!(lane(refused[0]), "");
    up.open("1");
    talker.until("out of gate 1");
    // As soon as the end is heard, whatever the exchange still has to do.
    for n in 0..20 {
        talker.ask("", &format!("turn {n}"));
        assert!(!talker.until(&format!("out of turn {n}")).iter().any(|text| text.contains(r#""error":{"#)));
    }
    assert_eq!(up.facts().request_count, 22, "nobody was asked too early");
}

#[test]
fn a_lane_whose_upstream_breaks_is_told_so_and_no_other() {
    let (up, edge, policy) = served(EdgeConfig::default(), |seen| match asked(seen).as_str() {
        // In the middle of an event.
        "cut" => {
            let half = delta("half");
            Reply::stream().data(created("cut")).data(delta("a")).data(half[..40].to_owned()).play(Play::Cut).end()
        }
        "busy" => Reply::json(503, r#"{"error":{"message":"no","type":"server_error","code":null}}"#).end(),
        _ => answers(seen),
    });
    let mut talker = Talker::to(&edge);
    talker.ask("good", "gate 1");
    talker.until("delta");
    talker.ask("cut", "cut");
    let told = talker.until("response.failed");
    assert!(told.iter().all(|text| lane(text) == "cut"), "{told:?}");
    talker.ask("busy", "busy");
    let told = talker.text();
    assert!(told.starts_with(r#"{"type":"error","status":503,"#) && lane(&told) == "busy", "{told}");
    up.open("1");
    assert!(talker.until("out of gate 1").iter().all(|text| lane(text) == "good"));
    policy.until(|noted| noted.settlements.len() == 3);
    let failed = policy.look(|noted| noted.settlements.iter().filter(|s| s.error.is_some()).count());
    assert_eq!(failed, 2);
}

#[test]
fn a_fork_goes_on_from_another_lanes_answer() {
    let (up, edge, _) = served(EdgeConfig::default(), answers);
    let mut talker = Talker::to(&edge);
    talker.ask("", "one");
    talker.until("response.completed");
    let mut more = |lane: &str, previous: &str, input: &str| {
        let message =
            ask(lane, input).replace(r#""store""#, &format!(r#""previous_response_id":"{previous}","store""#));
        talker.say(Opcode::Text, message.as_bytes());
        talker.until(if previous == "nobody" { "error" } else { "response.completed" }).pop().unwrap()
    };
    more("fork", "one", "two");
    more("", "one", "three");
    more("fork", "two", "four");
    let refused = more("fork", "nobody", "five");
    assert!(refused.contains("previous_response_not_found") && lane(&refused) == "fork", "{refused}");
    let facts = up.facts();
    let bodies: Vec<_> = facts.requests.iter().map(|seen| String::from_utf8(seen.body.clone()).unwrap()).collect();
    for (body, input) in [
        (&bodies[1], &["one", "out of one", "two"][..]),
        (&bodies[2], &["one", "out of one", "three"]),
        (&bodies[3], &["one", "out of one", "two", "out of two", "four"]),
    ] {
        let items: Vec<_> = input.iter().map(|text| item(text)).collect();
        let input = format!(r#""input":[{}]"#, items.join(","));
        assert!(body.contains(&input) && !body.contains("stream_id") && !body.contains("previous"), "{body}");
    }
}

#[test]
fn sixteen_at_a_time_and_too_many_that_wait_are_refused() {
    let (up, edge, policy) = served(EdgeConfig::default(), answers);
    let mut talker = Talker::to(&edge);
    for n in 0..20 {
        talker.ask(&format!("lane-{n}"), "gate 1");
    }
    assert!(up.wait(LIMIT, |f| f.request_count == 16));
    // Four wait; what else may wait, and one more.
    for _ in 0..=60 {
        talker.ask("lane-0", "more");
    }
    let told = talker.until("error").pop().unwrap();
    assert!(told.contains("websocket_queue_limit_reached") && lane(&told) == "lane-0", "{told}");
    assert_eq!((up.facts().request_count, policy.look(|noted| noted.decides)), (16, 17));
    for n in 20..=32 {
        talker.ask(&format!("lane-{n}"), "more");
    }
    let told = talker.until("websocket_stream_limit_reached").pop().unwrap();
    assert_eq!(lane(&told), "lane-32");
    up.open("1");
    let mut ended = 0;
    while ended < 20 + 60 {
        ended += usize::from(talker.text().contains("response.completed"));
    }
}

#[test]
fn a_client_that_leaves_closes_every_upstream_and_what_waits_was_never_asked() {
    for close in [true, false] {
        let (up, edge, policy) = served(EdgeConfig::default(), answers);
        let mut talker = Talker::to(&edge);
        for lane in ["a", "b", "c"] {
            talker.ask(lane, "gate 1");
            talker.until("delta");
        }
        talker.ask("a", "never");
        if close {
            talker.say(Opcode::Close, &1000_u16.to_be_bytes());
            assert_eq!(talker.next(), Some(Message::Close(Some(1000))));
        } else {
            drop(talker);
        }
        assert!(up.wait(LIMIT, |f| f.connections.len() == 3 && f.connections.iter().all(|c| c.closed_by_client)));
        policy.until(|noted| noted.settlements.len() == 3);
        policy.look(|noted| {
            assert!(noted.settlements.iter().all(|s| s.error.as_ref().is_some_and(|e| e.kind == ErrorKind::Aborted)));
            assert_eq!((noted.decides, noted.settlements.len()), (4, 3));
        });
        assert_eq!(up.facts().request_count, 3);
    }
}

#[test]
fn a_silent_client_is_pinged_and_left_if_it_gives_no_sign() {
    let config = || {
        pace(|pace| {
            pace.ping = Duration::from_millis(60);
            pace.pong = Duration::from_millis(300);
        })
    };
    let (_up, edge, _) = served(config(), answers);
    let mut talker = Talker::to(&edge);
    // Each pong buys another ping, also while an answer is under way.
    talker.ask("", "gate 1");
    talker.until("delta");
    for _ in 0..3 {
        assert_eq!(talker.next(), Some(Message::Ping(vec![])));
        talker.say(Opcode::Pong, b"");
    }
    assert_eq!(talker.next(), Some(Message::Ping(vec![])));
    assert_eq!(talker.next(), Some(Message::Close(Some(1011))));
    assert_eq!(talker.next(), None);
}

#[test]
fn a_message_that_stops_in_the_middle_ends_the_connection_also_with_pings_in_it() {
    let (_up, edge, _) = served(pace(|pace| pace.body_silence = Duration::from_millis(200)), answers);
    for pings in [false, true] {
        let mut talker = Talker::to(&edge);
        let message = frame(Opcode::Text, ask("", "one").as_bytes());
        // The first frame of two: control frames may come between them.
        let mut half = message[..20].to_vec();
        half[0] &= 0x7f;
        half[1] = 0x8e;
        talker.client.send(&half);
        let mut told = None;
        while told.is_none() {
            if pings {
                talker.say(Opcode::Ping, b"");
            }
            match talker.next() {
                Some(Message::Pong) => std::thread::yield_now(),
                other => told = other,
            }
        }
        let Some(Message::Text(text)) = told else { panic!("{told:?}") };
        assert!(text.starts_with(br#"{"type":"error","status":408,"#), "{}", String::from_utf8_lossy(&text));
        assert_eq!(talker.next(), Some(Message::Close(Some(1008))));
    }
}

#[test]
fn after_its_life_a_connection_begins_nothing_and_ends_with_its_last_answer() {
    let (up, edge, _) = served(pace(|pace| pace.conversation = Duration::from_millis(400)), answers);
    let mut talker = Talker::to(&edge);
    talker.ask("a", "gate 1");
    talker.ask("a", "waits");
    talker.until("delta");
    let told = talker.text();
    assert!(told.contains("websocket_connection_limit_reached") && lane(&told) == "a", "{told}");
    talker.ask("b", "late");
    let told = talker.text();
    assert!(told.contains("websocket_connection_limit_reached") && lane(&told) == "b", "{told}");
    up.open("1");
    assert!(talker.text().contains("out of gate 1"));
    let told = talker.text();
    assert!(told.contains("websocket_connection_limit_reached") && lane(&told).is_empty(), "{told}");
    assert_eq!(talker.next(), Some(Message::Close(Some(1000))));
    assert_eq!(up.facts().request_count, 1);
}

#[test]
fn a_slow_clients_room_is_shared() {
    let (up, edge, _) = served(EdgeConfig::default(), |_| {
        let stream = Reply::stream().data(created("r"));
        stream.data(delta(&"x".repeat(200)).repeat(40_000)).data(completed("r")).end()
    });
    let mut talker = Talker::to(&edge);
    socket2::SockRef::from(&talker.client.socket).set_recv_buffer_size(64 << 10).unwrap();
    let lanes = ["a", "b", "c", "d"];
    for lane in lanes {
        talker.ask(lane, "much");
    }
    // Every upstream is ahead of the client; what the buffers took at first says nothing.
    assert!(up.wait(LIMIT, |f| f.connections.len() == 4 && f.connections.iter().all(|c| c.blocked)));
    let mut counts: HashMap<String, usize> = HashMap::new();
    for n in 0..6_000 {
        let text = talker.text();
        if n >= 2_000 {
            *counts.entry(lane(&text).to_owned()).or_default() += 1;
        }
        if n % 64 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let least = lanes.iter().map(|lane| counts.get(*lane).copied().unwrap_or_default()).min().unwrap();
    assert!(least > 4_000 / 4 / 2, "{counts:?}");
}

#[test]
fn frames_come_byte_by_byte_both_ways() {
    let (_up, edge, _) = served(EdgeConfig::default(), |seen| {
        let body = [created("r"), delta("a"), completed(&asked(seen))].concat();
        Reply::stream().drip(body, 1, Duration::ZERO).end()
    });
    let mut talker = Talker::to(&edge);
    for byte in [ask("a", "one"), ask("b", "two")].iter().flat_map(|text| frame(Opcode::Text, text.as_bytes())) {
        talker.client.socket.write_all(&[byte]).unwrap();
    }
    let mut ended = HashMap::new();
    while ended.len() < 2 {
        let text = talker.text();
        if text.contains("response.completed") {
            ended.insert(lane(&text).to_owned(), text.contains("out of one"));
        }
    }
    assert_eq!(ended, HashMap::from([("a".to_owned(), true), ("b".to_owned(), false)]));
}

#[test]
fn steering_is_refused_with_the_input_and_in_the_answers_lane() {
    let (up, edge, _) = served(EdgeConfig::default(), answers);
    let mut talker = Talker::to(&edge);
    talker.ask("a", "gate 1");
    talker.until("delta");
    talker.ask("", "done");
    talker.until("response.completed");
    for (previous, code, of) in [
        ("gate 1", "steering_not_supported", "a"),
        ("done", "response_already_completed", ""),
        ("x", "response_not_found", ""),
    ] {
        let steer = format!(r#"{{"type":"response.steer","previous_response_id":"{previous}","input":[ "more" ]}}"#);
        talker.say(Opcode::Text, steer.as_bytes());
        let told = talker.text();
        assert!(told.starts_with(r#"{"type":"response.steer.failed","#) && told.contains(code), "{told}");
        assert!(told.contains(r#""input":[ "more" ]"#) && lane(&told) == of, "{told}");
    }
    up.open("1");
    assert!(talker.text().contains("out of gate 1"));
}

#[test]
fn no_extension_is_agreed_on_and_a_compressed_frame_ends_the_connection() {
    let (_up, edge, _) = served(EdgeConfig::default(), answers);
    let offer = "sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n";
    let (mut talker, head) = Talker::offering(&edge, offer);
    assert!(!head.to_ascii_lowercase().contains("sec-websocket-extensions"), "{head}");
    let mut compressed = frame(Opcode::Text, b"{}");
    compressed[0] |= 0x40;
    talker.client.send(compressed);
    assert_eq!(talker.next(), Some(Message::Close(Some(1002))));
    assert_eq!(talker.next(), None);
}
