//! Every recording of the three families, encoded for every client and read back by the decoder of that client's
//! protocol: the same answer, as a stream and as one body.

#[path = "../support/mod.rs"]
mod recordings;

use headrace_codec::Protocol;
use headrace_codec::encode::{Encoder, EncoderConfig, Encoding};
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use serde_json::{Value, json};

use crate::support::{self, config};

/// Every client protocol.
const CLIENTS: [Protocol; 5] = {
    let [a, b, c, d] = support::CLIENTS;
    [a, b, c, d, Protocol::OllamaChat]
};

/// What has to survive.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answer {
    text: String,
    refusal: String,
    reasoning: String,
    /// Name, parsed arguments.
    calls: Vec<(String, Value)>,
    ids: Vec<Value>,
    usage: [Option<u64>; 5],
    end: String,
}

fn answer(events: &[Value]) -> Answer {
    let mut a = Answer::default();
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
    for event in events {
        match event["type"].as_str().unwrap() {
            "model.text_delta" => a.text += &text(event, "text"),
            "model.refusal_delta" => a.refusal += &text(event, "text"),
            "model.reasoning_delta" => a.reasoning += &text(event, "text"),
            "tool_intent.proposed" => {
                a.calls.push((text(event, "tool_name"), event["input"].clone()));
                a.ids.push(event["provider_call_id"].clone());
            }
            "model.usage" => {
                let keys =
                    ["input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens"];
                a.usage = keys.map(|key| event[key].as_u64());
            }
            "model.finished" => a.end = text(event, "reason"),
            "provider.error" => "error".clone_into(&mut a.end),
            _ => {}
        }
    }
    let last = &events[events.len() - 1]["type"];
    assert!(last == "model.finished" || last == "provider.error", "{last}");
    a
}

/// A recording's body, as the wire had it.
fn wire(name: &str, family: Protocol, bytes: Vec<u8>) -> Vec<u8> {
    if std::path::Path::new(name).extension().is_none_or(|end| end != "jsonl") {
        return bytes;
    }
    let text = String::from_utf8(bytes).unwrap();
    let mut out = String::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        if family == Protocol::AnthropicMessages {
            let kind = serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap_or_default().to_owned();
            out.extend(["event: ", &kind, "\n"]);
        }
        out.extend(["data: ", line, "\n\n"]);
    }
    if family == Protocol::OpenaiChat {
        out += "data: [DONE]\n\n";
    }
    out.into_bytes()
}

fn recorded() -> Vec<(String, Protocol, Vec<u8>)> {
    let Some(shared) = recordings::shared() else { return Vec::new() };
    let root = shared.join("recordings");
    let mut out = Vec::new();
    for row in recordings::rows(&root.join("MANIFEST.jsonl")) {
        let file = row["file"].as_str().unwrap();
        let family = match row["protocol"].as_str().unwrap() {
            "openai_chat" | "openai_compatible" => Protocol::OpenaiChat,
            "openai_responses" => Protocol::OpenaiResponses,
            "anthropic_messages" => Protocol::AnthropicMessages,
            "google_gemini" => Protocol::GoogleGemini,
            _ => continue,
        };
        if file.starts_with("errors/") || file.starts_with("websocket/") || file.contains("requests") {
            continue;
        }
        let bytes = recordings::bytes(&root.join(file));
        out.push((file.to_owned(), family, wire(file, family, bytes)));
    }
    assert!(out.len() > 80, "{} recordings", out.len());
    out
}

fn encode(config: EncoderConfig, family: Protocol, bytes: &[u8]) -> (Vec<u8>, Vec<String>) {
    let (mut decoder, mut encoder, mut out) =
        (Decoder::new(DecoderConfig::new(family)), Encoder::new(config), Vec::new());
    let mut sink = Encoding { encoder: &mut encoder, out: &mut out };
    decoder.feed(bytes, &mut sink);
    decoder.finish(End::Eof, &mut sink);
    encoder.finish(&mut out);
    (out, encoder.losses().iter().map(|l| format!("{} {}", l.action.code(), l.path)).collect())
}

/// What is expected of `direct` when it comes back through `client`.
fn through(client: Protocol, direct: &Answer, losses: &[String]) -> Answer {
    let mut want = direct.clone();
    let messages = client == Protocol::AnthropicMessages;
    let gemini = client == Protocol::GoogleGemini;
    let ollama = client == Protocol::OllamaChat;
    if messages || gemini || ollama {
        // Text is text there, and the reason says what it is.
        want.text += &std::mem::take(&mut want.refusal);
        // A custom tool's text stands in an object.
        for (_, input) in want.calls.iter_mut().filter(|(_, input)| input.is_string()) {
            *input = json!({"input": input});
        }
    }
    let end = match want.end.as_str() {
        "content_filter" if messages => "refusal",
        "content_filter" | "refusal" if ollama => "stop",
        // The vendor's own word comes back; another's refusal has none.
        "pause" if gemini && !losses.iter().any(|l| l.ends_with("finish_reason")) => "pause",
        "other" if gemini && !losses.iter().any(|l| l.ends_with("finish_reason")) => "other",
        "refusal" if gemini => "content_filter",
        "pause" if !messages => "length",
        "refusal" if !messages && want.refusal.is_empty() => "content_filter",
        "other" => "stop",
        same => same,
    };
    want.end = end.to_owned();
    if ollama {
        // No place for anything but what went in and came out.
        want.usage[2..].fill(None);
    }
    if gemini {
        // No place for what was written to a cache; a count that is absent beside others is 0 (rule R12).
        want.usage[3] = None;
        if losses.contains(&"dropped response.usage.reasoning_tokens".to_owned()) {
            want.usage[4] = None;
        }
        if want.usage != [None; 5] {
            (want.usage[0], want.usage[1]) = (want.usage[0].or(Some(0)), want.usage[1].or(Some(0)));
        }
    }
    // What a schema demands as a number and nobody knew is 0, and said to be lost.
    for (at, path) in [
        (0, "response.usage.input_tokens"),
        (1, "response.usage.output_tokens"),
        (2, "response.usage.cached_input_tokens"),
        (3, "response.usage.cache_write_tokens"),
        (4, "response.usage.reasoning_tokens"),
    ] {
        if losses.contains(&format!("approximated {path}")) {
            assert_eq!(want.usage[at], None);
            want.usage[at] = Some(0);
        }
    }
    want
}

#[test]
fn recordings_come_back_as_they_were_through_every_client_protocol() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (file, family, bytes) in recorded() {
        let direct = answer(&recordings::decode(DecoderConfig::new(family), &[&bytes], End::Eof));
        for client in CLIENTS {
            for stream in [true, false] {
                let request =
                    EncoderConfig { stream, family: Some(family), provider: Some("acme".to_owned()), ..config(client) };
                let (out, losses) = encode(request, family, &bytes);
                let events = recordings::decode(DecoderConfig::new(client), &[&out], End::Eof);
                let mut want = through(client, &direct, &losses);
                let mut got = answer(&events);
                count += 1;
                if want.end == "error" {
                    // A body that failed has nothing but the error; a stream has what came before it.
                    if !stream {
                        want = Answer { end: want.end, ..Answer::default() };
                    }
                    (got.usage, want.usage) = ([None; 5], [None; 5]);
                    // Intents before an error are void.
                    (got.calls, want.calls, got.ids, want.ids) = Default::default();
                }
                if want.usage[3].is_none() && got.usage[3] == Some(0) {
                    want.usage[3] = Some(0);
                }
                if direct.ids.contains(&Value::Null) {
                    (got.ids, want.ids) = Default::default();
                }
                if want.usage == [None; 5] && client == Protocol::AnthropicMessages && want.end != "error" {
                    got.usage = [None; 5];
                }
                if got != want {
                    wrong.push(json!({"file": file, "client": client.name(), "stream": stream,
                        "got": format!("{got:?}"), "want": format!("{want:?}"), "losses": losses}));
                }
            }
        }
    }
    for row in &wrong {
        eprintln!("{row:#}");
    }
    assert!(wrong.is_empty(), "{} of {count} differ", wrong.len());
}

/// A stream that is cut says so to every client, wherever it is cut; it ends well only where its own end had come.
#[test]
fn a_stream_cut_at_any_byte_is_an_error_to_every_client() {
    let chosen = [
        "anthropic_messages/claude-opus-4-6-tool.sse",
        "openai_chat/gpt-4o-mini-truncated-args-max-tokens-tool.sse",
        "openai_responses/lmstudio-tool-call.jsonl",
    ];
    let recorded: Vec<_> = recorded().into_iter().filter(|(file, ..)| chosen.contains(&file.as_str())).collect();
    for (file, family, bytes) in recorded {
        // Every byte of the small ones; the cost grows with the square.
        for cut in (0..bytes.len()).step_by(bytes.len() / 2500 + 1) {
            let whole = recordings::decode(DecoderConfig::new(family), &[&bytes[..cut]], End::Reset);
            let ends_well = whole[whole.len() - 1]["type"] == "model.finished";
            for client in CLIENTS {
                let (out, _) = cut_at(config(client), family, &bytes[..cut]);
                let events = recordings::decode(DecoderConfig::new(client), &[&out], End::Eof);
                let got = answer(&events);
                assert_eq!(got.end != "error", ends_well, "{file} cut at {cut} for {}", client.name());
                let proposed = |events: &[Value]| events.iter().filter(|e| e["type"] == "tool_intent.proposed").count();
                assert!(proposed(&events) <= proposed(&whole), "{file} cut at {cut}: a half call became whole");
            }
        }
    }
}

fn cut_at(config: EncoderConfig, family: Protocol, bytes: &[u8]) -> (Vec<u8>, Encoder) {
    let (mut decoder, mut encoder, mut out) =
        (Decoder::new(DecoderConfig::new(family)), Encoder::new(config), Vec::new());
    let mut sink = Encoding { encoder: &mut encoder, out: &mut out };
    decoder.feed(bytes, &mut sink);
    decoder.finish(End::Reset, &mut sink);
    (out, encoder)
}
