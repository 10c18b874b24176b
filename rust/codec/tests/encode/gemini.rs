//! Gemini's clients: chunks, arrays, whole bodies, and errors in Google's words.

use headrace_codec::Protocol;
use headrace_codec::encode::{EncoderConfig, continuation, error_reply, refusal};
use headrace_codec::error::ErrorKind;
use headrace_codec::event::{AttachTo, CallKind, ContinuationForm, Event, FinishReason};
use serde_json::{Value, json};

use crate::support::{
    body, config, delta, encoded, failure, finished, intent, intent_of, kept, lost, started, stream, text, thought,
    usage,
};

fn gemini() -> EncoderConfig {
    config(Protocol::GoogleGemini)
}

fn native() -> EncoderConfig {
    EncoderConfig { family: Some(Protocol::GoogleGemini), ..gemini() }
}

fn parts(chunk: &Value) -> &Value {
    &chunk["candidates"][0]["content"]["parts"]
}

fn answer() -> Vec<Event<'static>> {
    let own = Protocol::GoogleGemini;
    vec![
        started(),
        thought(0, "hm"),
        text(1, "a \u{79cb}"),
        text(1, "b"),
        kept(own, ContinuationForm::ThoughtSignature, "c2ln", AttachTo::Text, 1),
        delta(0, Some("c1"), Some("f"), "{\"x\":1}"),
        kept(own, ContinuationForm::ThoughtSignature, "c2lnMg==", AttachTo::Call, 0),
        intent(0, Some("c1"), "f", "{\"x\":1}"),
        intent(1, None, "g", ""),
        usage(20, 9, Some(5), None, Some(4)),
        finished(FinishReason::ToolIntents),
    ]
}

#[test]
fn a_stream_of_chunks() {
    let frames = stream(native(), &answer());
    let chunks: Vec<&Value> = frames.iter().map(|(name, data)| (assert!(name.is_none()), data).1).collect();
    let said: Vec<&Value> = chunks.iter().map(|c| &parts(c)[0]).collect();
    assert_eq!(
        json!(said),
        json!([
            {"thought": true, "text": "hm"}, {"text": "a \u{79cb}"}, {"text": "b"},
            {"text": "", "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}, "thoughtSignature": "c2lnMg=="},
            {"functionCall": {"id": "call_a1_1", "name": "g", "args": {}}}, {"text": ""}])
    );
    for chunk in &chunks {
        assert_eq!((&chunk["modelVersion"], &chunk["responseId"]), (&json!("asked"), &json!("msg_a1")));
        assert_eq!(chunk["candidates"][0]["content"]["role"], "model");
    }
    let last = chunks.last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(
        last["usageMetadata"],
        json!({"promptTokenCount": 20, "cachedContentTokenCount": 5, "candidatesTokenCount": 5, "thoughtsTokenCount": 4,
            "totalTokenCount": 29})
    );
}

#[test]
fn one_body_joins_what_is_one_part_and_nothing_else() {
    let got = body(native(), &answer());
    assert_eq!(
        parts(&got),
        &json!([
            {"thought": true, "text": "hm"}, {"text": "a \u{79cb}b", "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}, "thoughtSignature": "c2lnMg=="},
            {"functionCall": {"id": "call_a1_1", "name": "g", "args": {}}}])
    );
    assert_eq!(got["candidates"][0]["finishReason"], "STOP");
}

#[test]
fn a_stream_that_is_one_array() {
    let array = || EncoderConfig { request: Some(b"{\"alt\":\"json\"}".to_vec()), ..native() };
    let (_, out) = encoded(array(), &answer());
    let chunks: Vec<Value> = serde_json::from_slice(&out).expect("one array");
    assert_eq!(chunks.len(), 7);
    for events in [vec![], vec![text(0, "x")]] {
        let (_, out) = encoded(array(), &events);
        let chunks: Vec<Value> = serde_json::from_slice(&out).expect("one array");
        assert_eq!(chunks.last().unwrap()["error"]["status"], "INTERNAL");
    }
    let sse = EncoderConfig { request: Some(b"{\"alt\":\"sse\"}".to_vec()), ..native() };
    assert!(encoded(sse, &answer()).1.starts_with(b"data: "));
}

#[test]
fn another_familys_state_stands_on_a_thought_in_base64() {
    let family = Some(Protocol::AnthropicMessages);
    let config = || EncoderConfig { family, provider: Some("acme".to_owned()), ..gemini() };
    let events = [
        thought(0, "hm"),
        kept(Protocol::AnthropicMessages, ContinuationForm::Signature, "sig", AttachTo::Reasoning, 0),
        text(1, "x"),
        finished(FinishReason::Stop),
    ];
    let got = body(config(), &events);
    let slot = parts(&got)[0]["thoughtSignature"].as_str().unwrap();
    let wrapped = String::from_utf8(base64(slot)).unwrap();
    assert_eq!(continuation::unwrap(&wrapped).unwrap().data, "sig");
    assert_eq!(parts(&got).as_array().unwrap().len(), 2);
    let streamed = stream(config(), &events);
    assert_eq!(parts(&streamed[1].1)[0], json!({"thought": true, "text": "", "thoughtSignature": slot}));
}

fn base64(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

fn cited(kind: &'static str, url: Option<&'static str>, span: Option<(u64, u64)>, raw: &'static str) -> Event<'static> {
    Event::Annotation { kind: kind.into(), url: url.map(Into::into), title: None, span, raw: raw.as_bytes() }
}

#[test]
fn sources_are_told_at_the_end_with_spans_in_bytes() {
    let events = [
        text(0, "first. "),
        text(1, "\u{79cb} two"),
        cited("url_citation", Some("https://a"), Some((0, 1)), "{}"),
        cited("url_citation", Some("https://a"), Some((2, 5)), "{}"),
        cited("url_citation", Some("https://b"), None, "{}"),
        cited("page", None, Some((0, 1)), "{}"),
        finished(FinishReason::Stop),
    ];
    let got = body(gemini(), &events);
    assert_eq!(
        got["candidates"][0]["groundingMetadata"],
        json!({"groundingChunks": [{"web": {"uri": "https://a"}}, {"web": {"uri": "https://b"}}],
            "groundingSupports": [{"segment": {"startIndex": 7, "endIndex": 10}, "groundingChunkIndices": [0]},
                {"segment": {"startIndex": 11, "endIndex": 14}, "groundingChunkIndices": [0]}]})
    );
    assert_eq!(lost(gemini(), &events), ["dropped response.annotations"]);
    let own = [text(0, "x"), cited("citation", None, None, "{\"endIndex\":1}"), finished(FinishReason::Stop)];
    assert_eq!(body(native(), &own)["candidates"][0]["citationMetadata"]["citations"], json!([{"endIndex": 1}]));
}

#[test]
fn ends_that_have_no_word_of_their_own() {
    for (reason, word, loss) in [
        (FinishReason::Length, "MAX_TOKENS", false),
        (FinishReason::ContentFilter, "SAFETY", false),
        (FinishReason::Refusal, "SAFETY", true),
        (FinishReason::Pause, "MAX_TOKENS", true),
        (FinishReason::Other, "STOP", true),
    ] {
        let events = [text(0, "x"), finished(reason)];
        assert_eq!(body(gemini(), &events)["candidates"][0]["finishReason"], word);
        assert_eq!(!lost(gemini(), &events).is_empty(), loss, "{word}");
    }
    let half = [delta(0, None, Some("f"), "{\"a"), finished(FinishReason::Stop)];
    assert_eq!(body(gemini(), &half)["candidates"][0]["finishReason"], "MAX_TOKENS");
    let blocked = [Event::Finished { reason: FinishReason::ContentFilter, raw_reason: Some("OTHER".into()) }];
    let got = body(native(), &blocked);
    assert_eq!((got["promptFeedback"]["blockReason"].as_str(), got.get("candidates")), (Some("OTHER"), None));
}

#[test]
fn a_custom_tools_text_stands_in_an_object() {
    let events = [intent_of(CallKind::Custom, 0, Some("c"), "sh", "ls -l"), finished(FinishReason::ToolIntents)];
    let got = body(gemini(), &events);
    assert_eq!(parts(&got)[0]["functionCall"]["args"], json!({"input": "ls -l"}));
    assert_eq!(lost(gemini(), &events), ["approximated response.tool_calls[].input"]);
}

#[test]
fn errors_in_googles_words() {
    let mut error = failure(ErrorKind::RateLimit);
    error.retry_after_s = Some(1.5);
    let reply = error_reply(Protocol::GoogleGemini, &error);
    let got: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(reply.status, 429);
    assert_eq!((&got["error"]["code"], &got["error"]["status"]), (&json!(429), &json!("RESOURCE_EXHAUSTED")));
    assert_eq!(got["error"]["details"][0]["reason"], "rate_limit_exceeded");
    assert_eq!(got["error"]["details"][1]["retryDelay"], "1.5s");
    let own = refusal(Protocol::GoogleGemini, 401, "invalid_api_key", "who?", None);
    let got: Value = serde_json::from_slice(&own.body).unwrap();
    assert_eq!(got["error"]["status"], "UNAUTHENTICATED");
    let frames = stream(gemini(), &[text(0, "x"), Event::Error(failure(ErrorKind::Overloaded))]);
    assert_eq!(frames[1].1["error"]["code"], 503);
    assert!(frames[1].1.to_string().starts_with("{\"error\":"));
}
