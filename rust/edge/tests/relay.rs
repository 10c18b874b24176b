//! Verbatim and normalised relays, whole answers, connections used again.

mod support;

use headrace_codec::Protocol;
use headrace_codec::event::FinishReason;
use headrace_edge::ClientRequest;
use headrace_edge::policy::{Decision, Secret};
use headrace_scripted::{Play, Reply, Script, Upstream};
use support::*;

fn stream(pieces: &[&str]) -> Reply {
    pieces.iter().fold(Reply::stream(), |reply, piece| reply.data(piece.as_bytes().to_vec())).end()
}

fn upstream(reply: Reply) -> Upstream {
    Upstream::start(Script::always(reply)).unwrap()
}

#[test]
fn a_verbatim_stream_has_the_upstreams_bytes_and_is_settled_once() {
    let body = [&chunk("Hel"), &chunk("lo"), FINISH, USAGE, DONE].concat();
    // Cut at every seventh byte, so that events are torn in every way.
    let pieces: Vec<&str> = body.as_bytes().chunks(7).map(|c| std::str::from_utf8(c).unwrap()).collect();
    let up = upstream(stream(&pieces));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(true)).answer();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(answer.text(), body);
    assert!(answer.whole && answer.keep_alive);
    assert!(answer.header("x-request-id").is_some_and(|id| id.starts_with("req_")));
    let settled = policy.settled(0);
    assert_eq!((settled.token, settled.attempts, settled.status), (7, 1, 200));
    assert_eq!(settled.finish, Some(FinishReason::Stop));
    assert!(settled.error.is_none());
    assert_eq!((settled.usage.input_tokens, settled.usage.output_tokens), (Some(3), Some(5)));
    assert_eq!(settled.model.as_deref(), Some("m"));
    assert_eq!(settled.bytes_received, body.len() as u64);
    assert!(settled.first_byte.is_some());
    assert_eq!(policy.look(|n| (n.decides, n.failures.len(), n.settlements.len())), (1, 0, 1));
}

/// A chunk with its size written in `digits`, so that it can be told whose it is.
fn framed(digits: usize, data: &str) -> String {
    format!("{:0digits$x}\r\n{data}\r\n", data.len())
}

#[test]
fn a_read_that_is_one_chunk_of_whole_events_passes_in_its_own_framing() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (one, two, torn) = (chunk("one"), chunk("two"), chunk("torn"));
    let (front, back) = torn.split_at(20);
    let sent = [
        [HEAD, &framed(5, &one)].concat(),
        framed(6, &two),
        framed(7, front),
        framed(8, back),
        // Two chunks in one read; the usage chunk in one of its own; the terminal event with the last chunk.
        [framed(5, &one), framed(6, &two)].concat(),
        framed(7, FINISH),
        framed(8, USAGE),
        [&framed(8, DONE), "0\r\n\r\n"].concat(),
    ];
    let mut plays = Vec::new();
    for (n, piece) in sent.iter().enumerate() {
        plays.extend([Play::Gate(format!("g{n}")), Play::Send(piece.clone().into())]);
    }
    let up = upstream(Reply::raw(plays, true));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| {
        let mut plan = verbatim(&url, request);
        plan.spec.usage_asked = true;
        plan
    });
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    client.send(chat(true));
    let ours = |data: &str| framed(0, data);
    // What the client has after each piece: a torn event waits, so that its second half brings both.
    let expected = [
        Some(ours(&one)),
        Some(framed(6, &two)),
        None,
        Some(ours(&torn)),
        Some(ours(&[&one[..], &two].concat())),
        Some(framed(7, FINISH)),
        None,
        Some(ours(DONE) + "0\r\n\r\n"),
    ];
    for (n, expected) in expected.iter().enumerate() {
        up.open(&format!("g{n}"));
        if let Some(expected) = expected {
            client.until(expected);
            assert!(client.buffer.ends_with(expected.as_bytes()), "{n}");
            client.buffer.clear();
        }
    }
    assert_eq!(policy.settled(0).finish, Some(FinishReason::Stop));
}

#[test]
fn the_usage_chunk_that_the_gateway_asked_for_is_taken_out() {
    let body = [&chunk("x"), FINISH, USAGE, DONE].concat();
    let up = upstream(stream(&[&body]));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| {
        let mut plan = verbatim(&url, request);
        plan.spec.usage_asked = true;
        plan
    });
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(true)).answer();
    assert_eq!(answer.text(), [&chunk("x"), FINISH, DONE].concat());
    assert_eq!(policy.settled(0).usage.output_tokens, Some(5));
    // A client that asked for it keeps it.
    let asked = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
    let answer = Client::to(edge.address()).send(post(CHAT, asked)).answer();
    assert_eq!(answer.text(), body);
}

#[test]
fn connections_are_used_again_on_both_sides() {
    let up = upstream(stream(&[&chunk("x"), FINISH, DONE]));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    for _ in 0..5 {
        assert_eq!(client.send(chat(true)).answer().text(), [&chunk("x"), FINISH, DONE].concat());
    }
    assert_eq!(up.look(|f| (f.connections.len(), f.request_count)), (1, 5));
}

#[test]
fn requests_that_were_sent_ahead_are_answered_in_order() {
    let up = upstream(stream(&[&chunk("x"), FINISH, DONE]));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start(&policy);
    let mut client = Client::to(edge.address());
    let health = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec();
    client.send([chat(true), health, chat(true)].concat());
    assert_eq!(client.answer().header("content-type"), Some("text/event-stream"));
    assert_eq!(client.answer_to("GET").text(), "{\"status\":\"ok\"}");
    assert_eq!(client.answer().header("content-type"), Some("text/event-stream"));
}

#[test]
fn a_whole_answer_passes_with_its_length() {
    let body = r#"{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}"#;
    let up = upstream(Reply::json(200, body).header("x-request-id", "up-1").header("set-cookie", "a=b").end());
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(false)).answer();
    assert_eq!((answer.status, answer.text()), (200, body));
    assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()));
    assert_eq!(answer.header("x-request-id"), Some("up-1"));
    assert_eq!(answer.header("set-cookie"), None);
    let settled = policy.settled(0);
    assert_eq!((settled.finish, settled.usage.input_tokens), (Some(FinishReason::Stop), Some(2)));
}

#[test]
fn a_secret_that_a_provider_repeats_in_a_header_reaches_neither_client_nor_books() {
    for status in [200, 400] {
        let body = r#"{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
        let reply = Reply::json(status, body).header("x-request-id", "for Bearer sk-canary");
        let up = upstream(reply.header("x-ratelimit-limit-requests", "7").header("cf-ray", "sk-canary").end());
        let url = up.url(CHAT);
        let plan = move |request: &ClientRequest| {
            let mut plan = verbatim(&url, request);
            plan.spec.secrets = vec![Secret("sk-canary".into())];
            Decision::Plan(Box::new(plan))
        };
        let policy = TestPolicy::new(plan, |_| Decision::Refusal(tell()));
        let edge = start(&policy);
        let answer = Client::to(edge.address()).send(chat(false)).answer();
        assert_eq!((answer.status, answer.header("x-ratelimit-limit-requests")), (status, Some("7")));
        assert_eq!(answer.header("cf-ray"), None);
        assert!(answer.header("x-request-id").is_some_and(|id| id.starts_with("req_")));
        assert!(!format!("{:?}", policy.settled(0)).contains("sk-canary"));
        policy.look(|noted| assert!(!format!("{:?}", noted.failures).contains("sk-canary")));
    }
}

#[test]
fn the_body_goes_upstream_as_it_came_but_for_the_model() {
    let up = upstream(stream(&[&chunk("x"), FINISH, DONE]));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| {
        let mut plan = verbatim(&url, request);
        if let headrace_edge::policy::BodySource::Recipe(recipe) = &mut plan.spec.body {
            std::sync::Arc::get_mut(recipe).unwrap().model = "upstream-model".into();
        }
        plan
    });
    let edge = start(&policy);
    let body = "{ \"messages\": [ {\"role\":\"user\",\"content\":\"\\u00e9\"} ], \"odd\" : 1.50,  \"stream\":true, \"model\": \"m\" }";
    Client::to(edge.address()).send(post(CHAT, body)).answer();
    let seen = up.look(|f| f.requests[0].clone());
    assert_eq!(String::from_utf8(seen.body).unwrap(), body.replace("\"m\" }", "\"upstream-model\" }"));
}

#[test]
fn another_protocol_is_encoded_anew_in_the_clients() {
    let up = upstream(stream(&[&chunk("Hel"), &chunk("lo"), FINISH, USAGE, DONE]));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| normalised(&url, request, Protocol::OpenaiChat));
    let edge = start(&policy);
    let ask = r#"{"model":"asked","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = Client::to(edge.address()).send(post("/v1/messages?beta=true", ask)).answer();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let names: Vec<&str> = answer.text().lines().filter_map(|l| l.strip_prefix("event: ")).collect();
    assert_eq!(names.first(), Some(&"message_start"));
    assert_eq!(&names[names.len() - 2..], ["message_delta", "message_stop"]);
    assert!(answer.text().contains("\"model\":\"asked\"") && answer.text().contains("Hel"), "{}", answer.text());
    assert!(answer.header("request-id").is_some());
    assert_eq!(policy.settled(0).usage.output_tokens, Some(5));

    let whole = ask.replace("true", "false");
    let answer = Client::to(edge.address()).send(post("/v1/messages", &whole)).answer();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert!(
        answer.text().contains("Hello") && answer.text().contains("\"stop_reason\":\"end_turn\""),
        "{}",
        answer.text()
    );
}

#[test]
fn a_whole_answer_where_a_stream_was_asked_for_becomes_a_stream() {
    let body = r#"{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi there"},"finish_reason":"stop"}]}"#;
    let up = upstream(Reply::json(200, body).end());
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(true)).answer();
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert!(answer.text().contains("hi there") && answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
}

#[test]
fn a_stream_by_another_name_passes_and_is_told_as_what_it_is() {
    let body = [&chunk("x"), FINISH, DONE].concat();
    for (said, told) in [
        ("text/plain", "text/event-stream"),
        ("application/octet-stream", "text/event-stream"),
        ("text/event-stream; charset=utf-8", "text/event-stream; charset=utf-8"),
    ] {
        let reply = Reply::status(200).header("content-type", said).data(body.clone()).end();
        let up = upstream(reply);
        let url = up.url(CHAT);
        let policy = TestPolicy::always(move |request| verbatim(&url, request));
        let edge = start(&policy);
        let answer = Client::to(edge.address()).send(chat(true)).answer();
        assert_eq!((answer.text(), answer.header("content-type")), (body.as_str(), Some(told)));
    }
    // Where no stream was asked for the client gets none.
    let up = upstream(stream(&[&body]));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start(&policy);
    let answer = Client::to(edge.address()).send(chat(false)).answer();
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.text().contains("\"chat.completion\""), "{}", answer.text());
}

#[test]
fn an_http_1_0_client_reads_until_the_close() {
    let up = upstream(stream(&[&chunk("x"), FINISH, DONE]));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| verbatim(&url, request));
    let edge = start(&policy);
    let request = String::from_utf8(chat(true)).unwrap().replace("HTTP/1.1", "HTTP/1.0");
    let answer = Client::to(edge.address()).send(request).answer();
    assert_eq!((answer.header("transfer-encoding"), answer.keep_alive), (None, false));
    assert_eq!(answer.text(), [&chunk("x"), FINISH, DONE].concat());
}

#[test]
fn a_request_is_translated_and_what_is_lost_is_told_by_its_path() {
    let up = upstream(stream(&[&chunk("x"), FINISH, DONE]));
    let url = up.url(CHAT);
    let policy = TestPolicy::always(move |request| {
        let mut plan = normalised(&url, request, Protocol::OpenaiChat);
        plan.spec = spec(&url, request, Protocol::OpenaiChat);
        plan
    });
    let edge = start(&policy);
    let ask = r#"{"model":"m","max_tokens":5,"top_k":3,"stream":true,"system":"be brief","messages":[{"role":"user","content":"hi"}]}"#;
    let mut client = Client::to(edge.address());
    let answer = client.send(post("/v1/messages", ask)).answer();
    assert!(answer.text().contains("message_stop"), "{}", answer.text());
    assert!(answer.header("x-headrace-loss").is_some_and(|l| l.contains("top_k;dropped")), "{:?}", answer.headers);
    let sent = up.look(|f| String::from_utf8(f.requests[0].body.clone()).unwrap());
    assert!(sent.contains("\"be brief\"") && !sent.contains("top_k"), "{sent}");
    assert!(policy.settled(0).losses.iter().any(|l| l.path == "top_k"));
    // What changes the meaning is refused, with its field, and is settled.
    let state = r#"{"model":"m","stream":true,"input":"hi","previous_response_id":"resp_1"}"#;
    let answer = client.send(post("/v1/responses", state)).answer();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("\"param\":\"previous_response_id\""), "{}", answer.text());
    let settled = policy.settled(1);
    assert_eq!((settled.status, settled.attempts), (400, 0));
    assert_eq!(up.look(|f| f.request_count), 1);
}

#[test]
fn an_answer_that_is_no_models_passes_unread() {
    let count = r#"{"input_tokens":2095}"#;
    let up = upstream(Reply::json(200, count).header("request-id", "req_up").end());
    let url = up.url("/v1/messages/count_tokens");
    let policy = TestPolicy::always(move |request| {
        assert_eq!(request.operation, headrace_edge::Operation::CountTokens);
        headrace_edge::policy::Plan { relay: headrace_edge::policy::Relay::Opaque, ..verbatim(&url, request) }
    });
    let edge = start(&policy);
    let ask = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let answer = Client::to(edge.address()).send(post("/v1/messages/count_tokens", ask)).answer();
    assert_eq!((answer.status, answer.text()), (200, count));
    assert_eq!(answer.header("request-id"), Some("req_up"));
    let settled = policy.settled(0);
    assert_eq!((settled.finish, settled.events), (Some(FinishReason::Stop), 0));
}
