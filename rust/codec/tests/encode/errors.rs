//! Whole error replies.

use headrace_codec::Protocol;
use headrace_codec::encode::{Reply, error_reply, keep_alive, refusal};
use headrace_codec::error::ErrorKind;
use headrace_codec::event::ProviderError;
use serde_json::{Value, json};

use crate::support::*;

fn header<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    reply.headers.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
}

fn json_of(reply: &Reply) -> Value {
    assert_eq!(header(reply, "content-type"), Some("application/json"));
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn status_and_name_follow_the_table() {
    use ErrorKind as K;
    for (kind, openai, messages, code, kind_there) in [
        (K::Auth, 502, 502, "upstream_response_failed", "api_error"),
        (K::RateLimit, 429, 429, "rate_limit_exceeded", "rate_limit_error"),
        (K::Quota, 429, 429, "insufficient_quota", "billing_error"),
        (K::Timeout, 504, 504, "upstream_timeout", "timeout_error"),
        (K::Overloaded, 503, 529, "server_is_overloaded", "overloaded_error"),
        (K::BadRequest, 400, 400, "invalid_request", "invalid_request_error"),
        (K::ContextLength, 400, 400, "context_length_exceeded", "invalid_request_error"),
        (K::ContentFilter, 400, 400, "content_filter", "invalid_request_error"),
        (K::UnsupportedFeature, 400, 400, "unsupported_feature", "invalid_request_error"),
        (K::StreamInterrupted, 502, 502, "upstream_response_failed", "api_error"),
        (K::MalformedToolCall, 502, 502, "upstream_response_failed", "api_error"),
        (K::Transport, 502, 502, "upstream_response_failed", "api_error"),
        (K::Unknown, 502, 502, "upstream_response_failed", "api_error"),
    ] {
        for client in [Protocol::OpenaiChat, Protocol::OpenaiResponses] {
            let reply = error_reply(client, &failure(kind));
            let body = json_of(&reply);
            assert_eq!((reply.status, body["error"]["code"].as_str()), (openai, Some(code)), "{kind:?}");
            assert!(body["error"]["message"].is_string() && body["error"]["param"].is_null());
        }
        let reply = error_reply(Protocol::AnthropicMessages, &failure(kind));
        let body = json_of(&reply);
        assert_eq!(
            (reply.status, &body["type"], body["error"]["type"].as_str()),
            (messages, &json!("error"), Some(kind_there)),
            "{kind:?}"
        );
        if openai >= 429 {
            let message = body["error"]["message"].as_str().unwrap();
            assert!(message.starts_with(&format!("{code}: ")), "{message}");
        }
    }
}

#[test]
fn a_clients_own_mistake_keeps_status_code_and_message() {
    for (status, want) in [(400, 400), (404, 404), (413, 413), (422, 422), (405, 400), (501, 400)] {
        let error = ProviderError {
            status: Some(status),
            code: Some("model_not_found".into()),
            message: Some("The model `x` does not exist".into()),
            ..failure(ErrorKind::BadRequest)
        };
        let reply = error_reply(Protocol::OpenaiChat, &error);
        assert_eq!(reply.status, want);
        let want = json!({"message": "The model `x` does not exist", "type": "invalid_request_error", "param": null, "code": "model_not_found"});
        assert_eq!(json_of(&reply)["error"], want);
        let body = json_of(&error_reply(Protocol::AnthropicMessages, &error));
        assert_eq!(body["error"]["message"], "The model `x` does not exist");
    }
    let error = ProviderError { code: Some("a sentence, no code".into()), ..failure(ErrorKind::BadRequest) };
    assert_eq!(json_of(&error_reply(Protocol::OpenaiChat, &error))["error"]["code"], "invalid_request");
}

#[test]
fn nothing_of_the_upstreams_secrets_passes() {
    use ErrorKind as K;
    for kind in [K::RateLimit, K::Quota, K::Auth, K::Unknown, K::Overloaded, K::Timeout, K::Transport] {
        let error = ProviderError {
            message: Some("org-SECRET with sk-SECRET is limited".into()),
            code: Some("SECRET".into()),
            raw: Some("SECRET".into()),
            ..failure(kind)
        };
        for client in CLIENTS {
            assert!(!String::from_utf8(error_reply(client, &error).body).unwrap().contains("SECRET"), "{kind:?}");
            let (_, out) = encoded(config(client), &[text(0, "a"), headrace_codec::Event::Error(error.clone())]);
            assert!(!String::from_utf8(out).unwrap().contains("SECRET"), "{kind:?}");
        }
    }
}

#[test]
fn a_context_that_is_too_long_is_told_in_the_words_that_clients_parse() {
    for (message, want) in [
        ("prompt is too long: 200251 tokens > 200000 maximum", "prompt is too long: 200251 tokens > 200000 maximum"),
        (
            "The input token count (1,200,000) exceeds the maximum number of tokens allowed (1048576).",
            "prompt is too long: 1200000 tokens > 1048576 maximum",
        ),
        (
            "gpt-4.1: maximum context length is 8192 tokens, but 9001 were given",
            "prompt is too long: 9001 tokens > 8192 maximum",
        ),
        (
            "exceed context limit: 190000 + 20000 > 200000",
            "prompt is too long: exceed context limit: 190000 + 20000 > 200000",
        ),
        ("too long", "prompt is too long: too long"),
        ("", "prompt is too long"),
    ] {
        let error = ProviderError { message: Some(message.into()), ..failure(ErrorKind::ContextLength) };
        assert_eq!(json_of(&error_reply(Protocol::AnthropicMessages, &error))["error"]["message"], want);
        let body = json_of(&error_reply(Protocol::OpenaiResponses, &error));
        assert_eq!(body["error"]["code"], "context_length_exceeded");
    }
}

#[test]
fn waits_are_told_and_far_ones_are_not_to_be_slept_on() {
    let waiting = |kind, seconds| ProviderError { retry_after_s: Some(seconds), ..failure(kind) };
    for (error, after, retry) in [
        (waiting(ErrorKind::RateLimit, 0.3), Some("1"), None),
        (waiting(ErrorKind::RateLimit, 30.0), Some("30"), None),
        (waiting(ErrorKind::RateLimit, 3600.0), Some("3600"), Some("false")),
        (waiting(ErrorKind::RateLimit, 0.0), None, None),
        (waiting(ErrorKind::Overloaded, 2.0), Some("2"), None),
        (waiting(ErrorKind::Quota, 60.0), Some("60"), Some("false")),
        (waiting(ErrorKind::Auth, 60.0), None, Some("false")),
        (failure(ErrorKind::Timeout), None, None),
        (failure(ErrorKind::BadRequest), None, None),
    ] {
        for client in CLIENTS {
            let reply = error_reply(client, &error);
            assert_eq!(
                (header(&reply, "retry-after"), header(&reply, "x-should-retry")),
                (after, retry),
                "{:?}",
                error.kind
            );
        }
    }
    let body = json_of(&error_reply(Protocol::OpenaiResponses, &waiting(ErrorKind::RateLimit, 1.25)));
    assert_eq!(body["error"]["message"], "The provider's rate limit was reached. Please try again in 1.25s.");
}

#[test]
fn refusals_are_in_the_clients_own_format() {
    let reply = refusal(Protocol::OpenaiChat, 422, "unknown_model_selector", "no \"x\"", Some("model"));
    let want = json!({"message": "no \"x\"", "type": "invalid_request_error", "param": "model", "code": "unknown_model_selector"});
    assert_eq!((reply.status, &json_of(&reply)["error"]), (422, &want));
    let reply = refusal(Protocol::AnthropicMessages, 401, "invalid_api_key", "who?", None);
    assert_eq!(
        json_of(&reply),
        json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid_api_key: who?"}})
    );
    let reply = refusal(Protocol::OpenaiResponses, 429, "credential_pool_exhausted", "m", None);
    assert_eq!(json_of(&reply)["error"]["type"], "rate_limit_error");
}

#[test]
fn an_error_in_body_mode_is_the_replys_body() {
    for client in CLIENTS {
        let error = failure(ErrorKind::Overloaded);
        let want = error_reply(client, &error);
        let got = body(config(client), &[text(0, "a"), headrace_codec::Event::Error(error)]);
        assert_eq!(got, json_of(&want));
        assert!(body(config(client), &[text(0, "a")]).get("error").is_some(), "a cut is an error");
    }
}

#[test]
fn keep_alives_are_whole_events_that_say_nothing() {
    for client in CLIENTS {
        let bytes = keep_alive(client);
        // A comment would be text to the vendor's SDK there.
        if client == Protocol::GoogleGemini {
            assert_eq!(bytes, b"\n");
            continue;
        }
        assert!(bytes.ends_with(b"\n\n") && !bytes[..bytes.len() - 2].windows(2).any(|w| w == b"\n\n"));
    }
    assert_eq!(keep_alive(Protocol::OpenaiChat)[0], b':');
    assert!(keep_alive(Protocol::AnthropicMessages).starts_with(b"event: ping\n"));
}
