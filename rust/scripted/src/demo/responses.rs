//! The demo in Responses: numbered events, items opened and closed, the whole response at the end.

use super::{ARGUMENTS, Json, Turn, pieces};

/// What encrypted reasoning looks like from outside.
const ENCRYPTED: &str = "gAAAAABkZW1vLXJlYXNvbmluZw==";

/// Events, numbered as they are added.
struct Events {
    out: Vec<String>,
}

impl Events {
    fn push(&mut self, name: &str, rest: &str) {
        let number = self.out.len();
        let json = format!("{{\"type\":\"{name}\",{rest},\"sequence_number\":{number}}}");
        self.out.push(format!("event: {name}\ndata: {json}\n\n"));
    }
}

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let mut events = Events { out: Vec::new() };
    let open = response(turn, "in_progress", "[]", "null");
    events.push("response.created", &format!("\"response\":{open}"));
    events.push("response.in_progress", &format!("\"response\":{open}"));
    let mut index = 0;
    if let Some(thoughts) = turn.thoughts {
        reasoning(&mut events, turn, thoughts, index);
        index += 1;
    }
    message(&mut events, turn, index);
    if let Some(name) = &turn.call {
        call(&mut events, turn, name, index + 1);
    }
    let done = response(turn, "completed", &output(turn), &usage(turn));
    events.push("response.completed", &format!("\"response\":{done}"));
    events.out
}

pub(super) fn whole(turn: &Turn) -> String {
    response(turn, "completed", &output(turn), &usage(turn))
}

fn reasoning(events: &mut Events, turn: &Turn, thoughts: &'static str, index: usize) {
    let place = format!("\"item_id\":\"rs_demo{:06}\",\"output_index\":{index},\"summary_index\":0", turn.number);
    let item = reasoning_item(turn, "[]");
    events.push("response.output_item.added", &format!("\"output_index\":{index},\"item\":{item}"));
    let part = "{\"type\":\"summary_text\",\"text\":\"\"}";
    events.push("response.reasoning_summary_part.added", &format!("{place},\"part\":{part}"));
    for thought in pieces(thoughts) {
        events.push("response.reasoning_summary_text.delta", &format!("{place},\"delta\":{}", Json(thought)));
    }
    events.push("response.reasoning_summary_text.done", &format!("{place},\"text\":{}", Json(thoughts)));
    let part = format!("{{\"type\":\"summary_text\",\"text\":{}}}", Json(thoughts));
    events.push("response.reasoning_summary_part.done", &format!("{place},\"part\":{part}"));
    let item = reasoning_item(turn, &format!("[{part}]"));
    events.push("response.output_item.done", &format!("\"output_index\":{index},\"item\":{item}"));
}

fn message(events: &mut Events, turn: &Turn, index: usize) {
    let place = format!("\"item_id\":\"msg_demo{:06}\",\"output_index\":{index},\"content_index\":0", turn.number);
    let item = message_item(turn, "in_progress", "[]");
    events.push("response.output_item.added", &format!("\"output_index\":{index},\"item\":{item}"));
    events.push("response.content_part.added", &format!("{place},\"part\":{}", text_part("")));
    for word in pieces(turn.words) {
        events.push("response.output_text.delta", &format!("{place},\"delta\":{},\"logprobs\":[]", Json(word)));
    }
    events.push("response.output_text.done", &format!("{place},\"text\":{},\"logprobs\":[]", Json(turn.words)));
    let part = text_part(turn.words);
    events.push("response.content_part.done", &format!("{place},\"part\":{part}"));
    let item = message_item(turn, "completed", &format!("[{part}]"));
    events.push("response.output_item.done", &format!("\"output_index\":{index},\"item\":{item}"));
}

fn call(events: &mut Events, turn: &Turn, name: &str, index: usize) {
    let place = format!("\"item_id\":\"fc_demo{:06}\",\"output_index\":{index}", turn.number);
    let item = call_item(turn, name, "in_progress", "");
    events.push("response.output_item.added", &format!("\"output_index\":{index},\"item\":{item}"));
    for piece in ARGUMENTS {
        events.push("response.function_call_arguments.delta", &format!("{place},\"delta\":{}", Json(piece)));
    }
    let arguments = Turn::arguments();
    let done = format!("{place},\"name\":{},\"arguments\":{}", Json(name), Json(&arguments));
    events.push("response.function_call_arguments.done", &done);
    let item = call_item(turn, name, "completed", &arguments);
    events.push("response.output_item.done", &format!("\"output_index\":{index},\"item\":{item}"));
}

fn output(turn: &Turn) -> String {
    let mut items = Vec::new();
    if let Some(thoughts) = turn.thoughts {
        let part = format!("[{{\"type\":\"summary_text\",\"text\":{}}}]", Json(thoughts));
        items.push(reasoning_item(turn, &part));
    }
    items.push(message_item(turn, "completed", &format!("[{}]", text_part(turn.words))));
    items.extend(turn.call.as_ref().map(|name| call_item(turn, name, "completed", &Turn::arguments())));
    format!("[{}]", items.join(","))
}

fn reasoning_item(turn: &Turn, summary: &str) -> String {
    format!(
        "{{\"id\":\"rs_demo{:06}\",\"type\":\"reasoning\",\"summary\":{summary},\"encrypted_content\":\"{ENCRYPTED}\"}}",
        turn.number
    )
}

fn message_item(turn: &Turn, status: &str, content: &str) -> String {
    format!(
        "{{\"id\":\"msg_demo{:06}\",\"type\":\"message\",\"status\":\"{status}\",\"content\":{content},\
         \"role\":\"assistant\"}}",
        turn.number
    )
}

fn call_item(turn: &Turn, name: &str, status: &str, arguments: &str) -> String {
    format!(
        "{{\"id\":\"fc_demo{0:06}\",\"type\":\"function_call\",\"status\":\"{status}\",\"arguments\":{1},\
         \"call_id\":\"call_demo{0:06}\",\"name\":{2}}}",
        turn.number,
        Json(arguments),
        Json(name)
    )
}

fn text_part(text: &str) -> String {
    format!("{{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":{}}}", Json(text))
}

fn usage(turn: &Turn) -> String {
    let (input, output) = (turn.input_tokens, turn.output_tokens());
    format!(
        "{{\"input_tokens\":{input},\"input_tokens_details\":{{\"cached_tokens\":0}},\"output_tokens\":{output},\
         \"output_tokens_details\":{{\"reasoning_tokens\":{}}},\"total_tokens\":{}}}",
        turn.reasoning_tokens(),
        input + output
    )
}

fn response(turn: &Turn, status: &str, output: &str, usage: &str) -> String {
    format!(
        "{{\"id\":\"resp_demo{:06}\",\"object\":\"response\",\"created_at\":{},\"status\":\"{status}\",\
         \"background\":false,\"error\":null,\"incomplete_details\":null,\"instructions\":null,\
         \"max_output_tokens\":null,\"max_tool_calls\":null,\"model\":{},\"output\":{output},\
         \"parallel_tool_calls\":true,\"previous_response_id\":null,\"prompt_cache_key\":null,\
         \"reasoning\":{{\"effort\":null,\"summary\":null}},\"safety_identifier\":null,\"service_tier\":\"default\",\
         \"store\":false,\"temperature\":1.0,\"text\":{{\"format\":{{\"type\":\"text\"}},\"verbosity\":\"medium\"}},\
         \"tool_choice\":\"auto\",\"tools\":[],\"top_logprobs\":0,\"top_p\":1.0,\"truncation\":\"disabled\",\
         \"usage\":{usage},\"user\":null,\"metadata\":{{}}}}",
        turn.number,
        turn.created,
        Json(&turn.model)
    )
}
