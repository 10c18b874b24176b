//! Rule R14 over every recorded error body, and over shapes of our own.

mod support;

use headrace_codec::Protocol;
use headrace_codec::normalize::classify::{Classified, Evidence, classify};
use headrace_codec::pipeline::{DecoderConfig, End};
use serde_json::{Value, json};

fn judge(status: u16, headers: &[(&str, &str)], body: &str) -> Classified {
    let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    classify(&Evidence {
        status: Some(status),
        headers: &headers,
        body: body.as_bytes(),
        code: None,
        in_stream: status == 200,
        family: Protocol::OpenaiChat,
    })
}

#[track_caller]
fn kind(status: u16, body: &str, want: &str) {
    let got = judge(status, &[], body);
    assert_eq!(got.kind.code(), want, "{status} {body}");
    assert_eq!(got.retryable, got.kind.retryable());
}

/// What a decoder makes of the whole recording: the fields of its error.
fn decoded(family: &str, status: u16, headers: Vec<(String, String)>, body: &[u8]) -> Value {
    let mut config = DecoderConfig::new(Protocol::from_name(family).unwrap());
    config.status = status;
    config.headers = headers;
    let events = support::decode(config, &[body], End::Eof);
    events.last().unwrap().clone()
}

/// What the classifier makes of a body, or of the payload in a stream that reports the error.
fn judged(status: u16, headers: &[(String, String)], body: &str) -> Value {
    let body = if status == 200 { &body[body.rfind("\n\n{").unwrap()..] } else { body };
    let family = Protocol::GoogleGemini;
    let in_stream = status == 200;
    let got =
        classify(&Evidence { status: Some(status), headers, body: body.as_bytes(), code: None, in_stream, family });
    json!({"kind": got.kind.code(), "retryable": got.retryable, "retry_after_s": got.retry_after_s, "code": got.code})
}

#[test]
fn every_recorded_error_is_what_rule_r14_makes_of_it() {
    let Some(shared) = support::shared() else { return };
    let recordings = shared.join("recordings");
    let manifest = support::rows(&recordings.join("MANIFEST.jsonl"));
    let expected = support::rows(&recordings.join("errors.expected.jsonl"));
    assert!(expected.len() >= 60, "only {} rows", expected.len());
    let mut wrong = Vec::new();
    for want in &expected {
        let file = want["file"].as_str().unwrap();
        let row = manifest.iter().find(|m| m["file"] == file).unwrap_or(&Value::Null);
        let status = u16::try_from(want["status"].as_u64().unwrap()).unwrap();
        let body = String::from_utf8(support::bytes(&recordings.join(file))).unwrap();
        let headers = support::headers(row);
        let got = match want["decoder"].as_str() {
            Some(family) => decoded(family, status, headers, body.as_bytes()),
            None => judged(status, &headers, &body),
        };
        for field in ["kind", "retryable", "code"] {
            // A field that is absent is absent from the event.
            if got.get(field).unwrap_or(&Value::Null) != &want[field] {
                wrong.push(format!("{file}: {field} is {:?}, want {}", got.get(field), want[field]));
            }
        }
        let seconds = |v: &Value| v.get("retry_after_s").and_then(Value::as_f64);
        if seconds(&got) != seconds(want) {
            wrong.push(format!("{file}: retry_after_s is {:?}, want {}", seconds(&got), want["retry_after_s"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_shape_of_body_is_read() {
    let over = "this prompt is too long for us";
    for body in [
        format!(r#"{{"error":{{"message":"{over}"}}}}"#),
        format!(r#"{{"error":"{over}"}}"#),
        format!(r#"[{{"error":{{"message":"{over}"}}}}]"#),
        format!(r#"{{"message":"{over}"}}"#),
        format!(r#"{{"detail":"{over}"}}"#),
        format!(r#"{{"detail":{{"error":"{over}"}}}}"#),
        format!(r#"{{"detail":[{{"loc":["body"],"msg":"{over}","type":"x"}}]}}"#),
        format!(r#"{{"errors":[{{"code":7,"message":"{over}"}}]}}"#),
        format!(r#"{{"type":"response.failed","response":{{"error":{{"code":"x","message":"{over}"}}}}}}"#),
        format!(r#""{over}""#),
        over.to_owned(),
    ] {
        let got = judge(400, &[], &body);
        assert_eq!(got.kind.code(), "context_length", "{body}");
        assert_eq!(got.message.as_deref(), Some(over), "{body}");
    }
}

#[test]
fn the_status_decides_where_the_body_is_no_help() {
    for (status, want) in [
        (400, "bad_request"),
        (401, "auth"),
        (402, "quota"),
        (403, "auth"),
        (404, "bad_request"),
        (408, "timeout"),
        (409, "overloaded"),
        (413, "bad_request"),
        (422, "bad_request"),
        (429, "rate_limit"),
        (498, "overloaded"),
        (499, "aborted"),
        (500, "unknown"),
        (501, "unsupported_feature"),
        (502, "overloaded"),
        (503, "overloaded"),
        (504, "timeout"),
        (521, "overloaded"),
        (529, "overloaded"),
        (599, "unknown"),
    ] {
        for body in ["", "<html><body>No</body></html>", "{}", "null", "[]", "{\"error\":{}}", "{\"error", "\u{feff}"] {
            kind(status, body, want);
        }
    }
    // Cohere has another meaning for it.
    let cohere = classify(&Evidence {
        status: Some(498),
        headers: &[],
        body: br#"{"id":"e-1","message":"invalid token"}"#,
        code: None,
        in_stream: false,
        family: Protocol::CohereChat,
    });
    assert_eq!((cohere.kind.code(), cohere.retryable), ("auth", false));
    // Bytes that nobody has decompressed are no message.
    let packed = classify(&Evidence {
        status: Some(503),
        headers: &[],
        body: b"\x1f\x8b\x08\x00\x00\xff\xfe",
        code: None,
        in_stream: false,
        family: Protocol::OpenaiChat,
    });
    assert_eq!((packed.kind.code(), packed.message), ("overloaded", None));
    let page = judge(502, &[], "\n<!DOCTYPE html><title>prompt is too long</title>");
    assert_eq!((page.kind.code(), page.message), ("overloaded", None));
}

#[test]
fn a_number_in_a_body_is_a_status_only_under_a_200() {
    kind(200, r#"{"error":{"message":"no","code":502}}"#, "overloaded");
    kind(200, r#"{"error":{"message":"no","status_code":400}}"#, "bad_request");
    kind(200, r#"{"error":{"message":"no"},"status_code":429}"#, "rate_limit");
    kind(200, r#"{"type":"error","status":401,"error":{"message":"no"}}"#, "auth");
    kind(200, r#"{"error":{"code":"504","message":"no"}}"#, "timeout");
    kind(400, r#"{"error":{"message":"no","code":502}}"#, "bad_request");
    // A vendor's number that is no status.
    kind(200, r#"{"error":{"message":"no","code":1302}}"#, "unknown");
    assert_eq!(judge(200, &[], r#"{"error":{"code":502}}"#).status, Some(502));
}

#[test]
fn the_walk_takes_the_first_kind_that_anything_names() {
    kind(429, r#"{"error":{"type":"overloaded_error"}}"#, "overloaded");
    kind(400, r#"{"error":{"type":"invalid_request_error","code":"insufficient_quota"}}"#, "quota");
    kind(401, r#"{"error":{"type":"invalid_request_error"}}"#, "auth");
    kind(500, r#"{"error":{"type":"api_error","code":"invalid_api_key"}}"#, "auth");
    kind(503, r#"{"error":{"code":"rate_limit_exceeded"}}"#, "overloaded");
    kind(400, r#"{"error":{"code":"content_filter","message":"context window"}}"#, "content_filter");
    kind(400, r#"{"error":{"type":"invalid_request_error","message":"input is too long"}}"#, "context_length");
    kind(
        400,
        r#"{"error":{"code":"string_above_max_length","message":"'user' exceeds maximum length"}}"#,
        "bad_request",
    );
}

#[test]
fn too_many_tokens_is_no_long_prompt_where_requests_come_too_fast() {
    kind(429, r#"{"message":"Too many tokens, please wait"}"#, "rate_limit");
    kind(200, r#"{"error":{"type":"throttlingException","message":"Too many tokens"}}"#, "rate_limit");
    kind(400, r#"{"message":"Too many tokens in this request"}"#, "context_length");
    kind(
        413,
        r#"{"error":{"code":"rate_limit_exceeded","message":"Request too large on tokens per minute"}}"#,
        "rate_limit",
    );
    kind(429, r#"{"error":{"type":"rate_limit_error","code":"slow_down"}}"#, "rate_limit");
    kind(200, r#"{"error":{"code":"slow_down"}}"#, "overloaded");
}

#[test]
fn quota_is_what_minutes_do_not_lift() {
    kind(429, r#"{"error":{"message":"You exceeded your current quota, see your plan"}}"#, "quota");
    kind(429, r#"{"error":{"message":"Resource has been exhausted (e.g. check quota)."}}"#, "rate_limit");
    kind(429, r#"{"message":"A trial key is limited to 1000 API calls / month"}"#, "quota");
    kind(403, r#"{"error":{"message":"You reached your usage limit for this billing cycle"}}"#, "quota");
    kind(429, r#"{"error":{"message":"Quota of 10 requests per minute"}}"#, "rate_limit");
    kind(429, r#"{"error":{"message":"Quota used up. Please try again in 4s"}}"#, "rate_limit");
    kind(429, r#"{"error":{"code":"rate_limit_exceeded","message":"your quota, tokens per day (TPD)"}}"#, "quota");
    kind(429, r#"{"error":{"message":"slow down, see example.org/quotaincrease"}}"#, "rate_limit");
    let google = |id: &str, value: &str| {
        format!(
            r#"{{"error":{{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{{"violations":[{{"quotaId":"{id}",
               "quotaValue":"{value}"}}]}},{{"retryDelay":"9s"}}]}}}}"#
        )
    };
    kind(429, &google("RequestsPerDayPerProject", "50"), "quota");
    kind(429, &google("RequestsPerMinutePerProject", "50"), "rate_limit");
    kind(429, &google("RequestsPerMinutePerProject", "0"), "quota");
    kind(307, "", "unknown");
    kind(302, "<html>Moved</html>", "unknown");
    kind(429, r#"{"error":{"message":"metric: tokens, limit: 0, model: x. Please retry in 3s."}}"#, "quota");
    kind(429, r#"{"error":{"message":"metric: tokens, limit: 0.5, model: x. Please retry in 3s."}}"#, "rate_limit");
}

#[test]
fn aws_names_its_exception_in_a_header() {
    let name = ("X-Amzn-ErrorType", "ServiceQuotaExceededException:http://internal/");
    let got = judge(400, &[name, ("x-amzn-requestid", "r-1")], r#"{"message":"no"}"#);
    assert_eq!((got.kind.code(), got.code.as_deref()), ("quota", Some("ServiceQuotaExceededException")));
    assert_eq!(got.request_id.as_deref(), Some("r-1"));
    kind(400, r#"{"__type":"com.amazon.coral#ThrottlingException","message":"no"}"#, "rate_limit");
}

#[test]
fn a_bot_challenge_is_auth_whatever_its_status() {
    let got = judge(503, &[("CF-Mitigated", "challenge"), ("cf-ray", "a1")], "<html>Just a moment</html>");
    assert_eq!((got.kind.code(), got.request_id.as_deref()), ("auth", Some("a1")));
}

#[test]
fn hints_come_from_headers_then_the_body() {
    let wait = |headers: &[(&str, &str)], body: &str| judge(429, headers, body).retry_after_s;
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(wait(&[("Retry-After-Ms", "1500"), ("retry-after", "9")], ""), Some(1.5));
    assert_eq!(wait(&[("retry-after-ms", "0"), ("retry-after", "9")], ""), Some(9.0));
    assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:57 GMT"), date], ""), Some(20.0));
    assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:57 GMT")], ""), None);
    assert_eq!(wait(&[("retry-after", "soon")], ""), None);
    assert_eq!(wait(&[date], r#"{"error":{"resets_at":784111787}}"#), Some(10.0));
    assert_eq!(wait(&[date], r#"{"error":{"resets_at":784111700}}"#), Some(0.0));
    assert_eq!(wait(&[], r#"{"error":{"resets_at":784111787}}"#), None);
    assert_eq!(wait(&[], r#"{"error":{"resets_in_seconds":7,"message":"try again in 3s"}}"#), Some(7.0));
    assert_eq!(wait(&[], r#"{"error":{"message":"Please try again in 1m26.4s."}}"#), Some(86.4));
    assert_eq!(wait(&[], r#"{"type":"error","error":{},"headers":{"Retry-After":"6"}}"#), Some(6.0));
    assert_eq!(wait(&[], ""), None);
}

#[test]
fn hostile_bodies_cost_no_more_than_their_size() {
    let deep = format!("{}1{}", "{\"error\":".repeat(900), "}".repeat(900));
    kind(400, &deep, "bad_request");
    kind(400, &"[".repeat(100_000), "bad_request");
    let long = format!(r#"{{"error":{{"message":"{}","code":"{}"}}}}"#, "é".repeat(300_000), "c".repeat(100_000));
    let got = judge(400, &[], &long);
    assert!(got.message.unwrap().len() <= 64 << 10);
    assert!(got.code.unwrap().len() <= 4096);
    let many = format!("[{}]", vec!["{\"error\":{\"code\":\"x\"}}"; 50_000].join(","));
    kind(400, &many, "bad_request");
}
