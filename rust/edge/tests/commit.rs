//! The commit boundary: what fails before it is the policy's business, what fails after it is told in the stream.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use headrace_codec::event::ErrorPhase;
use headrace_codec::{ErrorKind, Protocol};
use headrace_edge::policy::Decision;
use headrace_edge::{EdgeConfig, Pace};
use headrace_scripted::{Framing, Play, Reply, Script, Upstream};
use support::*;

/// An upstream that answers in turn, and a policy that tries again as often.
fn in_turn(replies: Vec<Reply>) -> (Upstream, Arc<TestPolicy>) {
    let attempts = replies.len();
    let up = Upstream::start(Script::new().route(CHAT, replies)).unwrap();
    let url = up.url(CHAT);
    let again = url.clone();
    let request = Arc::new(std::sync::Mutex::new(None));
    let kept = Arc::clone(&request);
    let policy = TestPolicy::new(
        move |request| {
            let plan = verbatim(&url, request);
            *kept.lock().unwrap() = Some(plan.spec.clone());
            Decision::Plan(Box::new(plan))
        },
        move |failure| {
            if (failure.attempt as usize) < attempts {
                let mut spec = request.lock().unwrap().clone().unwrap();
                spec.url.clone_from(&again);
                Decision::Attempt(Box::new(spec))
            } else {
                Decision::Refusal(tell())
            }
        },
    );
    (up, policy)
}

fn good() -> Reply {
    Reply::stream().data([&chunk("x"), FINISH, DONE].concat()).end()
}

const LIMITED: &str =
    r#"{"error":{"message":"slow down, org-123","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#;

#[test]
fn what_fails_before_the_boundary_is_tried_again_and_the_client_sees_nothing_of_it() {
    let role = r#"data: {"id":"c0","object":"chat.completion.chunk","created":1,"model":"m","choices":[]}"#;
    let error = r#"data: {"error":{"message":"overloaded","type":"overloaded_error","code":529}}"#;
    let (up, policy) = in_turn(vec![
        Reply::json(429, LIMITED).header("retry-after", "1").end(),
        Reply::status(503).end(),
        Reply::stream().data(format!("{role}\n\n")).play(Play::Cut).end(),
        Reply::stream().data(format!("{role}\n\n{error}\n\n")).end(),
        Reply::raw(vec![Play::Reset], false),
        good(),
    ]);
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(true)).answer();
    assert_eq!((answer.status, answer.text()), (200, [&chunk("x"), FINISH, DONE].concat().as_str()));
    let kinds = policy.look(|n| n.failures.iter().map(|f| f.error.kind).collect::<Vec<_>>());
    assert_eq!(
        kinds,
        [
            ErrorKind::RateLimit,
            ErrorKind::Overloaded,
            ErrorKind::StreamInterrupted,
            ErrorKind::Overloaded,
            ErrorKind::Transport
        ]
    );
    policy.look(|n| {
        assert_eq!(n.failures[0].error.retry_after_s, Some(1.0));
        assert!(n.failures[0].headers.iter().any(|(name, _)| name == "retry-after"));
        assert_eq!(n.failures[2].error.phase, ErrorPhase::BeforeCommit);
        assert!(n.failures.iter().all(|f| f.bytes_sent > 0));
    });
    let settled = policy.settled(0);
    assert_eq!((settled.attempts, settled.status, settled.error.is_none()), (6, 200, true));
    assert_eq!(up.look(|f| f.request_count), 6);
}

#[test]
fn a_failure_that_is_told_is_an_http_error_in_the_clients_format_without_the_vendors_words() {
    let (_up, policy) = in_turn(vec![Reply::json(429, LIMITED).header("x-ratelimit-limit", "5").end()]);
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    let answer = client.send(chat(true)).answer();
    assert_eq!((answer.status, answer.header("content-type")), (429, Some("application/json")));
    assert!(answer.text().contains("rate_limit_exceeded") && !answer.text().contains("org-123"), "{}", answer.text());
    assert_eq!(answer.header("x-ratelimit-limit"), Some("5"));
    assert!(answer.header("x-request-id").is_some());
    let settled = policy.settled(0);
    assert_eq!((settled.status, settled.error.unwrap().kind), (429, ErrorKind::RateLimit));
    // The connection is in order.
    assert_eq!(client.send(chat(false)).answer().status, 429);
}

#[test]
fn the_clients_own_mistake_passes_in_the_vendors_words() {
    let body = r#"{"error":{"message":"messages: field required","type":"invalid_request_error","param":"messages","code":null}}"#;
    let (_up, policy) = in_turn(vec![Reply::json(422, body).end()]);
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(true)).answer();
    assert_eq!((answer.status, answer.text()), (422, body));
}

#[test]
fn an_error_with_an_empty_body_is_no_success() {
    for status in [400, 404, 500, 529, 302] {
        let (_up, policy) = in_turn(vec![Reply::status(status).end()]);
        let edge = start(&policy);
        let answer = Client::to(edge.address()).send(chat(true)).answer();
        assert!(answer.status >= 400, "{status} became {}", answer.status);
        assert!(answer.text().contains("\"error\""), "{status}: {}", answer.text());
        assert!(policy.settled(0).error.is_some());
    }
}

#[test]
fn an_empty_success_is_a_failure() {
    for reply in [Reply::stream().end(), Reply::json(200, "").end(), Reply::stream().data(DONE).end()] {
        let (_up, policy) = in_turn(vec![reply]);
        let edge = start(&policy);
        let answer = Client::to(edge.address()).send(chat(true)).answer();
        assert_eq!(answer.status, 502);
        assert_eq!(policy.settled(0).error.unwrap().kind, ErrorKind::StreamInterrupted);
    }
}

/// Where the events of a stream end, as offsets.
fn boundaries(stream: &str) -> Vec<usize> {
    stream.match_indices("\n\n").map(|(i, _)| i + 2).collect()
}

#[test]
fn cut_at_every_byte_a_verbatim_stream_ends_with_an_error_and_never_as_a_normal_answer() {
    let stream = [&chunk("one"), &chunk("two"), FINISH, DONE].concat();
    let cuts = AtomicUsize::new(0);
    let bytes = stream.clone();
    let up = Upstream::start(Script::new().handler(CHAT, move |_| {
        let cut = cuts.fetch_add(1, SeqCst);
        Reply::stream().data(bytes.as_bytes()[..cut].to_vec()).play(Play::Cut).end()
    }))
    .unwrap();
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    let ends = boundaries(&stream);
    // The first event commits; from the one with a finish reason on the answer is whole, with or without [DONE].
    let (committed, finished) = (ends[0], ends[2]);
    for cut in 0..stream.len() {
        let answer = client.send(chat(true)).answer();
        let settled = policy.settled(cut);
        if cut < committed {
            assert_eq!((answer.status, settled.status), (502, 502), "cut at {cut}");
            assert!(!answer.text().contains("one"), "cut at {cut}");
            continue;
        }
        assert_eq!(answer.status, 200, "cut at {cut}");
        assert!(answer.whole, "cut at {cut}");
        let whole = ends.iter().rfind(|&&end| end <= cut).copied().unwrap_or(0);
        let (given, rest) = answer.text().split_at(whole);
        assert_eq!(given, &stream[..whole], "cut at {cut}");
        if cut < finished {
            assert!(rest.contains("\"error\"") && !rest.contains("finish_reason\":\"stop"), "cut at {cut}: {rest:?}");
            let error = settled.error.unwrap();
            assert_eq!((error.kind, error.phase), (ErrorKind::StreamInterrupted, ErrorPhase::Streaming), "{cut}");
        } else {
            assert!(settled.error.is_none() && !rest.contains("error"), "cut at {cut}: {rest:?}");
        }
    }
}

#[test]
fn cut_at_every_byte_a_normalised_stream_ends_with_an_error_in_each_client_protocol() {
    let stream = [&chunk("one"), &chunk("two"), FINISH].concat();
    let ends = boundaries(&stream);
    for (path, terminal, error) in [
        (CHAT, "[DONE]", "\"error\""),
        ("/v1/responses", "response.completed", "response.failed"),
        ("/v1/messages", "message_stop", "event: error"),
    ] {
        let cuts = AtomicUsize::new(ends[0]);
        let bytes = stream.clone();
        let up = Upstream::start(Script::new().handler(CHAT, move |_| {
            let cut = cuts.fetch_add(1, SeqCst);
            Reply::stream().data(bytes.as_bytes()[..cut].to_vec()).play(Play::Reset).end()
        }))
        .unwrap();
        let url = up.url(CHAT);
        let policy = TestPolicy::always(move |request| normalised(&url, request, Protocol::OpenaiChat));
        let edge = start(&policy);
        let mut client = Client::to(edge.address());
        let ask = if path == "/v1/responses" {
            r#"{"model":"m","stream":true,"input":"hi"}"#
        } else {
            r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#
        };
        for cut in ends[0]..stream.len() - 1 {
            let answer = client.send(post(path, ask)).answer();
            // A reset may overtake the bytes before it; then nothing was committed.
            if answer.status != 200 {
                assert_eq!(answer.status, 502, "{path} cut at {cut}");
                continue;
            }
            assert!(answer.whole && answer.text().contains(error), "{path} cut at {cut}: {}", answer.text());
            assert!(!answer.text().contains(terminal) || path == CHAT, "{path} cut at {cut}: {}", answer.text());
        }
    }
}

#[test]
fn a_verbatim_stream_that_breaks_at_a_whole_event_ends_with_an_error_in_its_place() {
    let call = r#"data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{]"}}]},"finish_reason":null}]}"#;
    let told = "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"overloaded_error\",\"code\":529}}\n\n";
    for (rest, passed, kind) in [
        // The end mark, and no reason before it.
        (DONE.to_owned(), 0, ErrorKind::StreamInterrupted),
        ([&chunk("two"), DONE].concat(), chunk("two").len(), ErrorKind::StreamInterrupted),
        // No JSON.
        ("data: {]\n\ndata: [DONE]\n\n".to_owned(), 0, ErrorKind::StreamInterrupted),
        // A reason, and a call that is none.
        (format!("{call}\n\n{FINISH}{DONE}"), call.len() + 2 + FINISH.len(), ErrorKind::MalformedToolCall),
        // The provider's own word passes as it stands.
        ([told, DONE].concat(), told.len(), ErrorKind::Overloaded),
    ] {
        let (up, policy) = in_turn(vec![Reply::stream().data(chunk("one")).gate("rest").data(rest.clone()).end()]);
        let edge = start(&policy);
        let mut client = Client::to(edge.address());
        client.send(chat(true)).until("one");
        up.open("rest");
        let answer = client.answer();
        assert_eq!((answer.status, answer.whole), (200, true), "{rest}");
        let (given, error) = answer.text().split_at(chunk("one").len() + passed);
        assert_eq!(given, chunk("one") + &rest[..passed]);
        assert_eq!(error.starts_with("data: {\"error\":"), kind != ErrorKind::Overloaded, "{rest}: {error:?}");
        assert_eq!(error.matches("data: ").count(), usize::from(kind != ErrorKind::Overloaded), "{error:?}");
        assert_eq!(policy.settled(0).error.unwrap().kind, kind, "{rest}");
    }
}

#[test]
fn a_whole_answer_that_is_cut_is_tried_again() {
    let body = r#"{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
    let (_up, policy) = in_turn(vec![
        Reply::json(200, &body.as_bytes()[..40]).framing(Framing::Lie(body.len() as u64)).play(Play::Cut).end(),
        Reply::json(200, body).end(),
    ]);
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(false)).answer();
    assert_eq!((answer.status, answer.text()), (200, body));
    assert_eq!(policy.look(|n| n.failures[0].error.kind), ErrorKind::StreamInterrupted);
}

#[test]
fn a_whole_answer_of_more_than_a_mebibyte_commits_and_a_cut_then_breaks_the_connection() {
    let long = "y".repeat(3 << 20);
    let body = format!(
        r#"{{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{long}"}},"finish_reason":"stop"}}]}}"#
    );
    let (_up, policy) = in_turn(vec![Reply::json(200, body.clone()).end()]);
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(false)).answer();
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    assert!(answer.whole && answer.text() == body);

    let length = body.len() as u64;
    let cut = body.as_bytes()[..2 << 20].to_vec();
    let (_up, policy) = in_turn(vec![Reply::json(200, cut).framing(Framing::Lie(length)).play(Play::Cut).end()]);
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(false)).answer();
    assert_eq!((answer.status, answer.whole), (200, false));
    assert_eq!(policy.settled(0).error.unwrap().kind, ErrorKind::StreamInterrupted);
}

#[test]
fn a_partial_event_longer_than_what_is_held_passes_and_a_cut_in_it_breaks_the_connection() {
    let long = chunk(&"z".repeat(300 << 10));
    let whole = [long.as_str(), FINISH, DONE].concat();
    let (_up, policy) = in_turn(vec![Reply::stream().data(whole.clone()).end()]);
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(true)).answer();
    assert!(answer.whole && answer.text() == whole);

    let half = long.as_bytes()[..200 << 10].to_vec();
    let (_up, policy) = in_turn(vec![Reply::stream().data(half).play(Play::Cut).end()]);
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(true)).answer();
    assert_eq!((answer.status, answer.whole), (200, false));
    assert!(!answer.text().contains("\"error\""));
}

#[test]
fn a_slow_start_commits_after_a_time_and_silence_is_filled_at_the_ends_of_events() {
    let (first, rest) = (chunk("one"), [FINISH, DONE].concat());
    let torn = first.len() / 2;
    let (head, tail) = first.split_at(torn);
    let up = Upstream::start(Script::always(
        Reply::stream().data(head.to_owned()).gate("first").data(tail.to_owned()).gate("rest").data(rest.clone()).end(),
    ))
    .unwrap();
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let pace = Pace {
        commit_after: Duration::from_millis(50),
        keep_alive_after: Duration::from_millis(50),
        ..Pace::default()
    };
    let edge = start_with(EdgeConfig { pace, ..EdgeConfig::default() }, &policy);
    let mut client = Client::to(edge.address());
    client.send(chat(true)).until("HTTP/1.1 200").until(": keep-alive").until("\r\n\r\n");
    up.open("first");
    client.until("one").until(": keep-alive");
    up.open("rest");
    let answer = client.answer();
    let told = answer.text().replace(": keep-alive\n\n", "");
    assert_eq!(told, first + &rest);
    assert!(answer.whole);
}

#[test]
fn the_answer_is_finished_at_its_terminal_event_whatever_the_upstream_does_then() {
    for after in [Play::Stall, Play::Reset] {
        let up = Upstream::start(Script::always(
            Reply::stream().data([&chunk("x"), FINISH, DONE].concat()).gate("then").play(after).end(),
        ))
        .unwrap();
        let url = up.url(CHAT);
        let policy = TestPolicy::always(move |request| verbatim(&url, request));
        let edge = start(&policy);
        let answer = Client::to(edge.address()).send(chat(true)).answer();
        assert!(answer.whole && answer.text().ends_with(DONE));
        assert!(policy.settled(0).error.is_none());
        up.open("then");
        // An upstream that does not end its body is not kept.
        assert!(up.wait(LIMIT, |f| f.open_connections() == 0));
    }
}

#[test]
fn a_refusal_says_when_to_come_back() {
    let policy = TestPolicy::new(
        |_| {
            let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64() + 40.0;
            let refusal = headrace_edge::policy::Refusal {
                code: "credential_pool_exhausted".into(),
                message: "all are resting".into(),
                status: 429,
                param: Some("model".into()),
                retry_at: Some(at),
                should_retry: Some(false),
                tell_failure: false,
            };
            Decision::Refusal(refusal)
        },
        |_| unreachable!("nothing is attempted"),
    );
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(true)).answer();
    let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((38..=41).contains(&wait), "{wait}");
    assert_eq!((answer.status, answer.header("x-should-retry")), (429, Some("false")));
    assert!(answer.text().contains("credential_pool_exhausted") && answer.text().contains("\"param\":\"model\""));
    // A refusal has no plan, so that there is nothing to settle.
    assert_eq!(policy.look(|n| n.settlements.len()), 0);
}

/// One event of a Responses stream.
fn response_event(seq: u32, kind: &str, rest: &str) -> String {
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{seq}{rest}}}\n\n")
}

#[test]
fn a_verbatim_stream_of_each_protocol_that_is_cut_ends_in_that_protocol() {
    let response = r#","response":{"id":"resp_up","object":"response","created_at":1,"status":"in_progress","model":"m","output":[]}"#;
    let item = r#","output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}"#;
    let part = r#","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}"#;
    let delta = r#","item_id":"msg_1","output_index":0,"content_index":0,"delta":"one""#;
    let responses = [
        response_event(0, "response.created", response),
        response_event(1, "response.output_item.added", item),
        response_event(2, "response.content_part.added", part),
        response_event(3, "response.output_text.delta", delta),
    ]
    .concat();
    let messages = [
        r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_up","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":0}}}"#,
        r#"event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"one"}}"#,
        "",
    ]
    .join("\n\n");
    for (path, stream) in [("/v1/responses", responses), ("/v1/messages", messages)] {
        let body = stream.clone();
        let up =
            Upstream::start(Script::always(Reply::stream().data(body).gate("cut").play(Play::Reset).end())).unwrap();
        let url = up.url(path);
        let policy = TestPolicy::always(move |request| verbatim(&url, request));
        let edge = start(&policy);
        let ask =
            r#"{"model":"m","stream":true,"max_tokens":9,"input":"hi","messages":[{"role":"user","content":"hi"}]}"#;
        let mut client = Client::to(edge.address());
        client.send(post(path, ask)).until("one");
        up.open("cut");
        let answer = client.answer();
        assert!(answer.whole);
        let (given, told) = answer.text().split_at(stream.len());
        assert_eq!(given, stream);
        if path == "/v1/messages" {
            assert!(told.starts_with("event: error\ndata: {\"type\":\"error\""), "{told}");
        } else {
            assert!(told.starts_with("event: response.failed\ndata: "), "{told}");
            assert!(told.contains("\"sequence_number\":4") && told.contains("\"id\":\"resp_up\""), "{told}");
        }
        assert_eq!(policy.settled(0).error.unwrap().kind, ErrorKind::StreamInterrupted);
    }
}

#[test]
fn a_stream_without_end_is_not_collected_for_ever() {
    let comments = bytes::Bytes::from(format!(": {}\n", "x".repeat((1 << 20) - 3)).into_bytes());
    let endless = (0..80).fold(Reply::stream().framing(Framing::Close), |reply, _| reply.data(comments.clone()));
    let up = Upstream::start(Script::always(endless.play(Play::Stall).end())).unwrap();
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| normalised(&url, request, Protocol::OpenaiChat));
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(false)).answer();
    assert_eq!(answer.status, 502);
    assert_eq!(policy.look(|n| n.failures.len()), 1);
    assert!(up.wait(LIMIT, |f| f.connections[0].closed_by_client));
}
