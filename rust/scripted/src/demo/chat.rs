//! The demo in Chat Completions: chunks, the usage chunk where it was asked for, `[DONE]`.

use super::{ARGUMENTS, Json, Turn, pieces};

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let mut out = vec![chunk(turn, "{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}", None)];
    for thought in turn.thoughts.into_iter().flat_map(pieces) {
        out.push(chunk(turn, &format!("{{\"reasoning_content\":{}}}", Json(thought)), None));
    }
    for word in pieces(turn.words) {
        out.push(chunk(turn, &format!("{{\"content\":{}}}", Json(word)), None));
    }
    if let Some(name) = &turn.call {
        let (id, name) = (call_id(turn), Json(name));
        let open = format!(
            "{{\"tool_calls\":[{{\"index\":0,\"id\":\"{id}\",\"type\":\"function\",\
             \"function\":{{\"name\":{name},\"arguments\":\"\"}}}}]}}"
        );
        out.push(chunk(turn, &open, None));
        for piece in ARGUMENTS {
            let delta = format!("{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":{}}}}}]}}", Json(piece));
            out.push(chunk(turn, &delta, None));
        }
    }
    out.push(chunk(turn, "{}", Some(reason(turn))));
    if turn.include_usage {
        out.push(format!("data: {{{},\"choices\":[],\"usage\":{}}}\n\n", start(turn, ".chunk"), usage(turn)));
    }
    out.push("data: [DONE]\n\n".to_owned());
    out
}

pub(super) fn whole(turn: &Turn) -> String {
    let calls = turn.call.as_ref().map_or(String::new(), |name| {
        format!(
            ",\"tool_calls\":[{{\"id\":\"{}\",\"type\":\"function\",\"function\":{{\"name\":{},\"arguments\":{}}}}}]",
            call_id(turn),
            Json(name),
            Json(&Turn::arguments())
        )
    });
    let thoughts = turn.thoughts.map_or(String::new(), |text| format!(",\"reasoning_content\":{}", Json(text)));
    format!(
        "{{{},\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":{}{thoughts},\
         \"refusal\":null,\"annotations\":[]{calls}}},\"logprobs\":null,\"finish_reason\":\"{}\"}}],\"usage\":{}}}",
        start(turn, ""),
        Json(turn.words),
        reason(turn),
        usage(turn)
    )
}

/// The error body of Chat and Responses.
pub(super) fn error(status: u16, message: &str) -> String {
    let (kind, code) = match status {
        401 => ("invalid_request_error", "\"invalid_api_key\""),
        404 => ("invalid_request_error", "\"model_not_found\""),
        429 => ("requests", "\"rate_limit_exceeded\""),
        500..=599 => ("server_error", "null"),
        _ => ("invalid_request_error", "null"),
    };
    format!("{{\"error\":{{\"message\":{},\"type\":\"{kind}\",\"param\":null,\"code\":{code}}}}}", Json(message))
}

fn chunk(turn: &Turn, delta: &str, reason: Option<&str>) -> String {
    let reason = reason.map_or("null".to_owned(), |reason| format!("\"{reason}\""));
    let usage = if turn.include_usage { ",\"usage\":null" } else { "" };
    format!(
        "data: {{{},\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
         \"finish_reason\":{reason}}}]{usage}}}\n\n",
        start(turn, ".chunk")
    )
}

fn start(turn: &Turn, suffix: &str) -> String {
    format!(
        "\"id\":\"chatcmpl-demo{:06}\",\"object\":\"chat.completion{suffix}\",\"created\":{},\"model\":{},\
         \"service_tier\":\"default\",\"system_fingerprint\":\"fp_demo\"",
        turn.number,
        turn.created,
        Json(&turn.model)
    )
}

fn call_id(turn: &Turn) -> String {
    format!("call_demo{:06}", turn.number)
}

fn reason(turn: &Turn) -> &'static str {
    if turn.call.is_some() { "tool_calls" } else { "stop" }
}

fn usage(turn: &Turn) -> String {
    let (input, output) = (turn.input_tokens, turn.output_tokens());
    format!(
        "{{\"prompt_tokens\":{input},\"completion_tokens\":{output},\"total_tokens\":{},\
         \"prompt_tokens_details\":{{\"cached_tokens\":0,\"audio_tokens\":0}},\
         \"completion_tokens_details\":{{\"reasoning_tokens\":{},\"audio_tokens\":0,\
         \"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}}}",
        input + output,
        turn.reasoning_tokens()
    )
}
