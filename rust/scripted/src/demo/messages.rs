//! The demo in Anthropic Messages: blocks in order, a ping, cumulative usage at the end.

use super::{ARGUMENTS, Json, Turn, pieces};

/// What a thinking block's signature looks like from outside: opaque base64.
const SIGNATURE: &str = "ZGVtby1zaWduYXR1cmU=";

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let message = message(turn, "[]", "null", &usage(turn, 1));
    let mut out = vec![event("message_start", &format!("\"message\":{message}"))];
    let mut index = 0;
    if let Some(thoughts) = turn.thoughts {
        out.push(block_start(index, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}"));
        for thought in pieces(thoughts) {
            out.push(delta(index, &format!("{{\"type\":\"thinking_delta\",\"thinking\":{}}}", Json(thought))));
        }
        out.push(delta(index, &format!("{{\"type\":\"signature_delta\",\"signature\":\"{SIGNATURE}\"}}")));
        out.push(block_stop(index));
        index += 1;
    }
    out.push(block_start(index, "{\"type\":\"text\",\"text\":\"\"}"));
    out.push(event("ping", ""));
    for word in pieces(turn.words) {
        out.push(delta(index, &format!("{{\"type\":\"text_delta\",\"text\":{}}}", Json(word))));
    }
    out.push(block_stop(index));
    if let Some(name) = &turn.call {
        index += 1;
        out.push(block_start(index, &tool_use(turn, name, "{}")));
        for piece in [""].into_iter().chain(ARGUMENTS) {
            out.push(delta(index, &format!("{{\"type\":\"input_json_delta\",\"partial_json\":{}}}", Json(piece))));
        }
        out.push(block_stop(index));
    }
    let reason = reason(turn);
    let end = format!(
        "\"delta\":{{\"stop_reason\":\"{reason}\",\"stop_sequence\":null}},\"usage\":{}",
        usage(turn, turn.output_tokens())
    );
    out.push(event("message_delta", &end));
    out.push(event("message_stop", ""));
    out
}

pub(super) fn whole(turn: &Turn) -> String {
    let mut blocks = Vec::new();
    if let Some(thoughts) = turn.thoughts {
        let thoughts = Json(thoughts);
        blocks.push(format!("{{\"type\":\"thinking\",\"thinking\":{thoughts},\"signature\":\"{SIGNATURE}\"}}"));
    }
    blocks.push(format!("{{\"type\":\"text\",\"text\":{}}}", Json(turn.words)));
    blocks.extend(turn.call.as_ref().map(|name| tool_use(turn, name, &Turn::arguments())));
    let content = format!("[{}]", blocks.join(","));
    message(turn, &content, &format!("\"{}\"", reason(turn)), &usage(turn, turn.output_tokens()))
}

pub(super) fn error(status: u16, number: u64, message: &str) -> String {
    let kind = match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500..=599 => "api_error",
        _ => "invalid_request_error",
    };
    format!(
        "{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":{}}},\"request_id\":\"req_demo_{number:06}\"}}",
        Json(message)
    )
}

fn message(turn: &Turn, content: &str, stop_reason: &str, usage: &str) -> String {
    format!(
        "{{\"id\":\"msg_demo{:06}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{},\"content\":{content},\
         \"stop_reason\":{stop_reason},\"stop_sequence\":null,\"usage\":{usage}}}",
        turn.number,
        Json(&turn.model)
    )
}

fn usage(turn: &Turn, output: u64) -> String {
    format!(
        "{{\"input_tokens\":{},\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\
         \"output_tokens\":{output},\"service_tier\":\"standard\"}}",
        turn.input_tokens
    )
}

fn tool_use(turn: &Turn, name: &str, input: &str) -> String {
    format!(
        "{{\"type\":\"tool_use\",\"id\":\"toolu_demo{:06}\",\"name\":{},\"input\":{input}}}",
        turn.number,
        Json(name)
    )
}

fn reason(turn: &Turn) -> &'static str {
    if turn.call.is_some() { "tool_use" } else { "end_turn" }
}

fn block_start(index: usize, block: &str) -> String {
    event("content_block_start", &format!("\"index\":{index},\"content_block\":{block}"))
}

fn delta(index: usize, delta: &str) -> String {
    event("content_block_delta", &format!("\"index\":{index},\"delta\":{delta}"))
}

fn block_stop(index: usize) -> String {
    event("content_block_stop", &format!("\"index\":{index}"))
}

fn event(name: &str, rest: &str) -> String {
    let comma = if rest.is_empty() { "" } else { "," };
    format!("event: {name}\ndata: {{\"type\":\"{name}\"{comma}{rest}}}\n\n")
}
