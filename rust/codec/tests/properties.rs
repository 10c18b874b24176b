//! What holds for any input at all: no panic, one terminal event, and chunked equals whole.

mod support;

use headrace_codec::Protocol;
use headrace_codec::pipeline::{DecoderConfig, End, Transport};
use proptest::prelude::*;

const PROTOCOLS: [Protocol; 4] =
    [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::AnthropicMessages, Protocol::GoogleGemini];

/// Pieces that a hostile or broken stream might be made of.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "data: ",
        "data:",
        "event: error\n",
        "\n",
        "\r\n",
        "\r",
        "\n\n",
        ": note\n",
        "[DONE]",
        "{\"id\":\"a\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":",
        "{\"content\":\"tide\"}",
        "{\"content\":\"\\ud83d\"}",
        "{\"content\":\"\\udea2<think>\"}",
        "{\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}",
        "{\"tool_calls\":[{\"index\":0,\"id\":\"i\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}",
        "{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"}\"}}]}",
        "{\"tool_calls\":[{\"id\":\"i\",\"function\":{\"arguments\":{\"a\":1}}}]}",
        "{\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"r\",\"index\":0}]}",
        "{\"function_call\":{\"name\":\"g\",\"arguments\":\"{}\"}}",
        ",\"finish_reason\":\"stop\"",
        ",\"finish_reason\":\"tool_calls\"",
        ",\"finish_reason\":\"length\"",
        "}]}",
        "}],\"usage\":{\"prompt_tokens\":1}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}",
        "{\"error\":{\"message\":\"m\",\"code\":429}}",
        "null",
        "\u{feff}",
        "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\"}}",
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}",
        "{\"type\":\"content_block_stop\",\"index\":0}",
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":1}}",
        "{\"type\":\"message_stop\"}",
        "{\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m\"}}",
        "{\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"x\"}",
        "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\\ud83d\",\"thoughtSignature\":\"s\"}]}}]}",
        "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"willContinue\":true}}]},\"finishReason\":\"STOP\"}]}",
        "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.a\",\"stringValue\":\"x\"}]}}]}}]}",
        "{\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[]}}",
    ]);
    prop_oneof![
        8 => known.prop_map(|s| s.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

/// A run of frames of one kind, with holes of all sorts.
fn repeated() -> impl Strategy<Value = Vec<String>> {
    let text = prop::sample::select(vec![
        "",
        "a",
        "tide",
        "\\n",
        "\\ud83d",
        "\\udea2",
        "<think>",
        "</thi",
        "nk>",
        "é",
        "\\q",
        "{\\\"k\\\":1}",
    ]);
    let number = prop::sample::select(vec!["1", "22", "-3e5", "01", "null", "\"x\""]);
    let deltas = prop::sample::select(vec![
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@\"},\"x\":#}],\"id\":\"i\",\"obfuscation\":\"$\"}",
        "{\"created\":#,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@\"}}],\"id\":\"i\",\"obfuscation\":\"$\"}",
        "{\"choices\":[{\"delta\":{\"reasoning\":\"@\",\"content\":\"\"}}],\"id\":\"$\",\"created\":#}",
        "{\"choices\":[{\"delta\":{\"reasoning\":\"@\",\"content\":\"$\"}}],\"id\":\"j\"}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"@\"}}]}}],\"model\":\"$\"}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"$\",\"function\":{\"arguments\":\"@\"}}]}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"$\",\"arguments\":\"@\"}}]}}]}",
        "{\"choices\":[{\"delta\":{\"content\":\"@\"},\"finish_reason\":\"$\"}],\"error\":\"\"}",
        "{\"choices\":[{\"delta\":{\"content\":\"@\"}}],\"error\":\"$\"}",
        "{\"choices\":[{\"delta\":{\"content\":\"@\"}}],\"status\":#,\"object\":\"$\"}",
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"$\"}}",
        "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\"}}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"@\",\"x\":\"$\"},\"y\":#}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"@\"},\"y\":#}",
        "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"@\"}}",
        "{\"type\":\"content_block_stop\",\"index\":1}",
        "{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"id\":\"$\",\"name\":\"f\"}}",
        "{\"type\":\"response.output_text.delta\",\"sequence_number\":#,\"item_id\":\"$\",\"output_index\":1,\"content_index\":0,\"delta\":\"@\",\"obfuscation\":\"$\"}",
        "{\"type\":\"response.function_call_arguments.delta\",\"sequence_number\":#,\"item_id\":\"$\",\"output_index\":0,\"delta\":\"@\"}",
        "{\"type\":\"response.reasoning_summary_text.delta\",\"sequence_number\":#,\"output_index\":2,\"summary_index\":0,\"delta\":\"@\"}",
    ]);
    let values = prop::collection::vec((text.clone(), number, text), 1..7);
    (deltas, values).prop_map(|(frame, values)| {
        let fill = |(text, number, other): (&str, &str, &str)| {
            frame.replace('@', text).replace('#', number).replace('$', other)
        };
        values.into_iter().map(fill).collect()
    })
}

fn wire() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(fragment(), 0..60).prop_map(|parts| parts.concat())
}

fn end() -> impl Strategy<Value = End> {
    prop::sample::select(vec![End::Eof, End::Reset, End::Timeout, End::Aborted])
}

fn check(lines: &[u8]) -> Result<(), TestCaseError> {
    let text = std::str::from_utf8(lines).expect("events are UTF-8");
    let events: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let is_terminal = |e: &serde_json::Value| e["type"] == "model.finished" || e["type"] == "provider.error";
    prop_assert_eq!(events.iter().filter(|e| is_terminal(e)).count(), 1);
    prop_assert!(is_terminal(events.last().unwrap()));
    let started = events.iter().filter(|e| e["type"] == "model.started").count();
    prop_assert!(started <= 1 && (started == 0 || events[0]["type"] == "model.started"));
    for (seq, event) in events.iter().enumerate() {
        prop_assert_eq!(event["seq"].as_u64(), Some(seq as u64));
        if event["type"] == "tool_intent.proposed" && event["kind"] == "function" {
            prop_assert!(event["input"].is_object());
        }
    }
    prop_assert!(events.windows(2).all(|w| w[0]["offset"].as_u64() <= w[1]["offset"].as_u64()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn chunked_equals_whole(
        wire in wire(),
        cuts in prop::collection::vec(0usize..2000, 0..12),
        end in end(),
        protocol in prop::sample::select(PROTOCOLS.to_vec()),
        status in prop::sample::select(vec![200u16, 200, 200, 429]),
        think_tags in any::<bool>(),
    ) {
        let config = || {
            let mut config = DecoderConfig::new(protocol);
            config.status = status;
            config.think_tags = think_tags;
            config
        };
        let whole = support::decode_lines(config(), &[&wire], end);
        check(&whole)?;
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c % (wire.len() + 1)).chain([0, wire.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &wire[w[0]..w[1]]).collect();
        prop_assert_eq!(&support::decode_lines(config(), &pieces, end), &whole);
        let single: Vec<&[u8]> = wire.chunks(1).collect();
        prop_assert_eq!(&support::decode_lines(config(), &single, end), &whole);
    }

    #[test]
    fn any_messages_of_a_socket(messages in prop::collection::vec(wire(), 0..6), end in end()) {
        for protocol in PROTOCOLS {
            let mut config = DecoderConfig::new(protocol);
            config.transport = Transport::WebSocket;
            let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
            check(&support::decode_lines(config, &messages, end))?;
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400), end in end()) {
        for protocol in PROTOCOLS {
            check(&support::decode_lines(DecoderConfig::new(protocol), &[&bytes], end))?;
        }
    }

    /// Streams that repeat a frame with small changes: read by templates, and without them (a payload with a space before
    /// it is read the general way).
    #[test]
    fn templates_change_nothing(runs in prop::collection::vec(repeated(), 1..12), think_tags in any::<bool>()) {
        for protocol in PROTOCOLS {
            let run = |lead: &str| {
                let lines: Vec<String> = runs.iter().flatten().map(|frame| format!("data:{lead}{frame}\n\n")).collect();
                let wire = lines.concat();
                let mut config = DecoderConfig::new(protocol);
                config.think_tags = think_tags;
                support::without_offsets(&support::decode(config, &[wire.as_bytes()], End::Eof))
            };
            prop_assert_eq!(run(" "), run("  "));
        }
    }

    /// A recorded-like stream with one byte changed anywhere.
    #[test]
    fn one_wrong_byte(at in any::<prop::sample::Index>(), byte in any::<u8>(), fixture in any::<prop::sample::Index>()) {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/streams/openai_chat/ok");
        let mut files = support::files(&root);
        files.retain(|f| f.extension().is_some_and(|e| e == "sse"));
        files.sort();
        let mut bytes = support::bytes(&files[fixture.index(files.len())]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let whole = support::decode_lines(DecoderConfig::new(Protocol::OpenaiChat), &[&bytes], End::Eof);
        check(&whole)?;
        let pieces = [&bytes[..at], &bytes[at..]];
        prop_assert_eq!(support::decode_lines(DecoderConfig::new(Protocol::OpenaiChat), &pieces, End::Eof), whole);
    }
}
