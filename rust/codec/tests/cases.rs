//! The cases made from real bugs, each fed whole, byte by byte and cut at its own places.

mod support;

use std::collections::HashMap;

use headrace_codec::Protocol;
use headrace_codec::pipeline::{DecoderConfig, End, Transport};
use serde_json::{Value, json};

/// The part of the vocabulary that cases compare.
const FIELDS: [(&str, &[&str]); 8] = [
    ("model.started", &["model", "response_id"]),
    ("model.text_delta", &["text"]),
    ("model.reasoning_delta", &["text", "signature"]),
    ("tool_intent.delta", &["call", "name", "arguments_delta"]),
    ("tool_intent.proposed", &["call", "provider_call_id", "tool_name", "input", "raw_input_text"]),
    ("model.usage", &["input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens"]),
    ("model.finished", &["reason"]),
    ("provider.error", &["kind", "retryable", "retry_after_s"]),
];

#[test]
fn every_case_holds_however_it_is_cut() {
    let Some(shared) = support::shared() else { return };
    let cases = support::rows(&shared.join("cases/cases.jsonl"));
    let (mut held, mut wrong) = (0, Vec::new());
    for case in &cases {
        let protocol = Protocol::from_name(case["protocol"].as_str().unwrap()).unwrap();
        match check(case, protocol) {
            Ok(()) => held += 1,
            Err(fault) => wrong.push(format!("{}: {fault}", case["id"])),
        }
    }
    assert!(wrong.is_empty(), "{held} hold, {} do not:\n{}", wrong.len(), wrong.join("\n"));
    assert!(held >= 41, "only {held} cases were tried");
}

fn check(case: &Value, protocol: Protocol) -> Result<(), String> {
    for (name, pieces) in ways(case) {
        let mut config = DecoderConfig::new(protocol);
        config.status = case.get("status").map_or(200, |s| u16::try_from(s.as_u64().unwrap()).unwrap());
        config.headers = support::headers(case);
        config.think_tags = case.pointer("/options/think_tags") == Some(&json!(true));
        if case.get("transport") == Some(&json!("websocket")) {
            config.transport = Transport::WebSocket;
        }
        let end = match case.get("end").and_then(Value::as_str) {
            Some("reset") => End::Reset,
            Some("timeout") => End::Timeout,
            _ => End::Eof,
        };
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let events = support::decode(config, &pieces, end);
        difference(case, &events).map_err(|fault| format!("{name}: {fault}"))?;
    }
    Ok(())
}

fn ways(case: &Value) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    if let Some(frames) = case.get("frames").and_then(Value::as_array) {
        return vec![("frames", frames.iter().map(|f| f.as_str().unwrap().as_bytes().to_vec()).collect())];
    }
    let raw = match case.get("wire_b64").and_then(Value::as_str) {
        Some(text) => support::base64(text),
        None => case["wire"].as_str().unwrap().as_bytes().to_vec(),
    };
    let mut cuts: Vec<usize> = case
        .get("chunks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|c| c.as_u64().unwrap() as usize)
        .collect();
    cuts.push(raw.len());
    cuts.sort_unstable();
    let mut from = 0;
    let cut = cuts.iter().map(|&to| raw[std::mem::replace(&mut from, to)..to].to_vec()).collect();
    vec![("bytewise", raw.chunks(1).map(<[u8]>::to_vec).collect()), ("cut", cut), ("whole", vec![raw])]
}

fn plain(event: &Value) -> Option<Value> {
    let kind = event["type"].as_str().unwrap();
    match kind {
        "model.continuation" => {
            return Some(json!({"type": "model.reasoning_delta", "text": "", "signature": event["data"]}));
        }
        "model.refusal_delta" => return Some(json!({"type": "model.text_delta", "text": event["text"]})),
        _ => {}
    }
    let fields = FIELDS.iter().find(|(name, _)| *name == kind)?.1;
    let mut out = json!({"type": kind});
    for field in fields {
        if let Some(value) = event.get(*field).filter(|v| !v.is_null()) {
            out[*field] = value.clone();
        }
    }
    Some(out)
}

fn append(to: &mut Value, field: &str, from: &Value) {
    let joined = format!("{}{}", to[field].as_str().unwrap(), from[field].as_str().unwrap());
    to[field] = joined.into();
}

fn joined(events: &[Value], keep_deltas: bool) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for event in events {
        let kind = event["type"].as_str().unwrap();
        if kind == "tool_intent.delta" && !keep_deltas {
            continue;
        }
        match out.last_mut().filter(|last| last["type"] == kind) {
            Some(last) if kind == "model.text_delta" => append(last, "text", event),
            Some(last) if kind == "model.reasoning_delta" && last.get("signature").is_none() => {
                append(last, "text", event);
                if let Some(signature) = event.get("signature") {
                    last["signature"] = signature.clone();
                }
            }
            Some(last) if kind == "tool_intent.delta" && last["call"] == event["call"] => {
                append(last, "arguments_delta", event);
            }
            _ => out.push(event.clone()),
        }
    }
    out.retain(|e| e["type"] != "model.text_delta" || e["text"] != "");
    out
}

fn alike(case: &Value, want: &Value, got: &Value) -> bool {
    if want["type"] != got["type"] {
        return false;
    }
    if want["type"] == "model.started" {
        return want.as_object().unwrap().iter().all(|(k, v)| got.get(k) == Some(v));
    }
    if want["type"] == "provider.error" {
        return want["kind"] == got["kind"] && want["retryable"] == got["retryable"];
    }
    let (mut want, mut got) = (want.clone(), got.clone());
    if want["type"] == "tool_intent.proposed" && case.pointer("/expect/raw_json") == Some(&json!(true)) {
        for side in [&mut want, &mut got] {
            let text = side["raw_input_text"].as_str().unwrap().to_owned();
            side["raw_input_text"] = serde_json::from_str(if text.is_empty() { "{}" } else { &text }).unwrap();
        }
    }
    want == got
}

fn difference(case: &Value, raw: &[Value]) -> Result<(), String> {
    let expect = &case["expect"];
    let flag = |name: &str| expect.get(name) == Some(&json!(true));
    let events: Vec<Value> = raw.iter().filter_map(plain).collect();
    let mut got = joined(&events, flag("check_deltas"));
    let is_terminal = |e: &Value| e["type"] == "model.finished" || e["type"] == "provider.error";
    if got.iter().filter(|e| is_terminal(e)).count() != 1 || !got.last().is_some_and(is_terminal) {
        return Err(format!("not exactly one terminal event, last: {got:?}"));
    }
    let wanted = expect["events"].as_array().unwrap();
    if !wanted.iter().any(|e| e["type"] == "model.started") {
        got.retain(|e| e["type"] != "model.started");
    }
    let last_usage = |events: &[Value]| events.iter().rfind(|e| e["type"] == "model.usage").cloned();
    if wanted.last().unwrap()["type"] == "model.finished" && last_usage(&got) != last_usage(wanted) {
        return Err(format!("usage: got {:?}", last_usage(&got)));
    }
    got.retain(|e| e["type"] != "model.usage");
    let optional: Vec<u64> =
        expect.get("optional").and_then(Value::as_array).into_iter().flatten().map(|i| i.as_u64().unwrap()).collect();
    let mut at = 0;
    for (i, want) in wanted.iter().enumerate().filter(|(_, e)| e["type"] != "model.usage") {
        if at < got.len() && alike(case, want, &got[at]) {
            at += 1;
        } else if !optional.contains(&(i as u64)) {
            return Err(format!("event {i}: want {want}, got {:?}\n    all: {got:?}", got.get(at)));
        }
    }
    if at != got.len() {
        return Err(format!("too many: {:?}", &got[at..]));
    }
    if let Some(want) = expect.pointer("/error/retry_after_s") {
        let got = got.last().unwrap().get("retry_after_s").and_then(Value::as_f64);
        if got != want.as_f64() {
            return Err(format!("retry_after_s: want {want}, got {got:?}"));
        }
    }
    if expect.get("delta_invariant") != Some(&json!(false)) && !flag("raw_json") {
        adds_up(&events)?;
    }
    Ok(())
}

/// Rule R5.
fn adds_up(events: &[Value]) -> Result<(), String> {
    let mut text: HashMap<u64, String> = HashMap::new();
    for event in events {
        let call = event.get("call").and_then(Value::as_u64).unwrap_or(0);
        if event["type"] == "tool_intent.delta" {
            text.entry(call).or_default().push_str(event["arguments_delta"].as_str().unwrap());
        } else if event["type"] == "tool_intent.proposed"
            && text.get(&call).is_some_and(|t| event["raw_input_text"] != t.as_str())
        {
            return Err(format!("deltas {text:?} do not add up to {event}"));
        }
    }
    Ok(())
}
