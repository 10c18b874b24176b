//! Input that is meant to hurt: the cost of each grows with its size and not with the square of it.
//!
//! No clock decides by itself: the same amount of input is timed in one piece and in sixteen.

mod support;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use headrace_codec::{At, Event, Protocol, Sink};

#[derive(Default)]
struct Count {
    events: u64,
    intents: u64,
    text: usize,
    last: String,
}

impl Sink for Count {
    fn event(&mut self, _at: At, event: &Event<'_>) {
        self.events += 1;
        match event {
            Event::IntentProposed(_) => self.intents += 1,
            Event::TextDelta { text, .. } => self.text += text.decode().len(),
            Event::Error(error) => error.kind.code().clone_into(&mut self.last),
            Event::Finished { reason, .. } => reason.code().clone_into(&mut self.last),
            _ => {}
        }
    }
}

fn run(wire: &[u8], step: usize) -> (Count, Duration) {
    let begun = now();
    let (mut decoder, mut sink) = (Decoder::new(DecoderConfig::new(Protocol::OpenaiChat)), Count::default());
    for piece in wire.chunks(step) {
        decoder.feed(piece, &mut sink);
    }
    decoder.finish(End::Eof, &mut sink);
    (sink, begun.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "a test may look at the clock")]
fn now() -> Instant {
    Instant::now()
}

/// One run of sixteen times the size against sixteen runs of the size: about the same where work is linear, sixteen times
/// as long where it is quadratic. Six is room for noise; on a machine that is busy with other things the best of as many
/// tries as are needed counts, of at most twenty.
fn linear(make: impl Fn(usize) -> String, size: usize, step: usize) {
    let (small, large) = (make(size), make(16 * size));
    let (mut of_small, mut of_large) = (Duration::MAX, Duration::MAX);
    let linear = (0..20).any(|_| {
        of_small = of_small.min((0..16).map(|_| run(small.as_bytes(), step).1).sum());
        of_large = of_large.min(run(large.as_bytes(), step).1);
        of_large < of_small * 6
    });
    assert!(linear, "sixteen runs take {of_small:?}, one of sixteen times the size {of_large:?}");
}

fn chunk(delta: &str) -> String {
    format!("data: {{\"id\":\"c\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
}

fn end(reason: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\ndata: [DONE]\n\n")
}

fn one_long_line(size: usize) -> String {
    chunk(&format!("{{\"content\":\"{}\"}}", "tide ".repeat(size / 5))) + &end("stop")
}

#[test]
fn a_line_of_sixteen_mebibytes_passes() {
    let size = 16 << 20;
    for step in [usize::MAX, 64 << 10, 997] {
        let (sink, _) = run(one_long_line(size).as_bytes(), step.min(size * 2));
        assert_eq!((sink.text, sink.last.as_str()), (size / 5 * 5, "stop"));
    }
    linear(one_long_line, 1 << 19, 512);
}

fn many_deltas(count: usize) -> String {
    let mut wire = chunk(r#"{"tool_calls":[{"index":0,"id":"i","function":{"name":"f","arguments":"{\"k\":\""}}]}"#);
    for _ in 0..count {
        wire += &chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"x\n"}}]}"#);
    }
    wire + &chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}"#) + &end("tool_calls")
}

#[test]
fn a_call_in_a_hundred_thousand_deltas() {
    let (sink, _) = run(many_deltas(100_000).as_bytes(), 4096);
    assert_eq!((sink.intents, sink.last.as_str()), (0, "malformed_tool_call"), "a bare line end is no JSON");
    linear(many_deltas, 1_500, 4096);
}

/// A name on every delta asks each time whether the text is complete already (R21e).
fn named_deltas(count: usize) -> String {
    let mut wire = String::new();
    for i in 0..count {
        let text = if i == 0 { r#"{\"k\":\""# } else { "xxxxxxxxxxxxxxxx" };
        wire += &chunk(&format!(r#"{{"tool_calls":[{{"index":0,"function":{{"name":"f","arguments":"{text}"}}}}]}}"#));
    }
    wire + &chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}"#) + &end("tool_calls")
}

#[test]
fn completeness_is_not_asked_from_the_start_each_time() {
    let (sink, _) = run(named_deltas(20_000).as_bytes(), 4096);
    assert_eq!((sink.intents, sink.last.as_str()), (1, "tool_intents"));
    linear(named_deltas, 1_500, 4096);
}

fn many_calls(count: usize) -> String {
    let mut wire = String::new();
    for i in 0..count {
        wire +=
            &chunk(&format!(r#"{{"tool_calls":[{{"id":"call_{i}","function":{{"name":"f","arguments":"{{}}"}}}}]}}"#));
    }
    wire + &end("tool_calls")
}

#[test]
fn ten_thousand_calls_and_not_one_more_than_the_bound() {
    let (sink, _) = run(many_calls(10_000).as_bytes(), 4096);
    assert_eq!((sink.intents, sink.last.as_str()), (10_000, "tool_intents"));
    let (sink, _) = run(many_calls(20_000).as_bytes(), 4096);
    assert_eq!((sink.intents, sink.last.as_str()), (0, "stream_interrupted"));
    linear(many_calls, 600, 4096);
}

#[test]
fn deep_json_is_read_up_to_the_bound() {
    let nested =
        |depth: usize| chunk(&format!("{{\"content\":\"a\",\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth)));
    let (sink, _) = run((nested(1000) + &end("stop")).as_bytes(), 4096);
    assert_eq!((sink.text, sink.last.as_str()), (1, "stop"));
    let (sink, _) = run((nested(100_000) + &end("stop")).as_bytes(), 4096);
    assert_eq!(
        (sink.text, sink.last.as_str()),
        (0, "stream_interrupted"),
        "a payload that is refused gives nothing out"
    );
}

#[test]
fn empty_frames_and_comments_cost_what_they_weigh() {
    let comments = |count: usize| ": keep\n\n\r\n\r".repeat(count) + &chunk("{\"content\":\"a\"}") + &end("stop");
    let (sink, _) = run(comments(200_000).as_bytes(), 1);
    assert_eq!((sink.text, sink.last.as_str()), (1, "stop"));
    linear(comments, 5_000, 1);
}

fn many_lines(count: usize) -> String {
    let mut wire = String::from("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"pad\":[\n");
    for i in 0..count {
        let _ = writeln!(wire, "data: {i},");
    }
    wire + "data: 0]}\n\n" + &end("stop")
}

#[test]
fn one_event_of_many_data_lines() {
    let (sink, _) = run(many_lines(100_000).as_bytes(), 4096);
    assert_eq!((sink.text, sink.last.as_str()), (1, "stop"));
    linear(many_lines, 5_000, 64);
}

fn details(count: usize) -> String {
    let piece = r#"{"reasoning_details":[{"type":"reasoning.text","text":"tide ","index":0}]}"#;
    chunk(piece).repeat(count) + &end("stop")
}

#[test]
fn reasoning_details_are_joined_once_and_bounded() {
    let (sink, _) = run(details(20_000).as_bytes(), 4096);
    assert_eq!((sink.events, sink.last.as_str()), (1 + 20_000 + 1 + 1, "stop"));
    linear(details, 1_000, 4096);
    let big = format!(r#"{{"reasoning_details":[{{"type":"reasoning.encrypted","data":"{}"}}]}}"#, "x".repeat(5 << 20));
    let (sink, _) = run((chunk(&big).repeat(20) + &end("stop")).as_bytes(), 1 << 20);
    assert_eq!(sink.last, "stream_interrupted");
}

#[test]
fn a_body_that_never_says_what_it_is_ends() {
    let (mut decoder, mut sink) = (Decoder::new(DecoderConfig::new(Protocol::OpenaiChat)), Count::default());
    let blank = vec![b' '; 1 << 20];
    let fed = (0..100).take_while(|_| {
        decoder.feed(&blank, &mut sink);
        !decoder.is_done()
    });
    assert!(fed.count() < 100);
    assert_eq!(sink.last, "stream_interrupted");
}

#[test]
fn tokens_that_nobody_can_have_used_are_unknown() {
    #[derive(Default)]
    struct Told(Vec<(Option<u64>, Option<u64>)>);
    impl Sink for Told {
        fn event(&mut self, _at: At, event: &Event<'_>) {
            if let Event::Usage(usage) = event {
                self.0.push((usage.input_tokens, usage.output_tokens));
            }
        }
    }
    for absurd in ["18446744073709551615", "9007199254740993", "1e300", "-5", "99999999999999999999999999"] {
        let usage =
            format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":{absurd}}}}}\n\n");
        let wire =
            chunk("{\"content\":\"hi\"}") + &end("stop").replace("data: [DONE]\n\n", &usage) + "data: [DONE]\n\n";
        let (mut decoder, mut told) = (Decoder::new(DecoderConfig::new(Protocol::OpenaiChat)), Told::default());
        decoder.feed(wire.as_bytes(), &mut told);
        decoder.finish(End::Eof, &mut told);
        let [(Some(7), output)] = told.0[..] else { panic!("{absurd}: {:?}", told.0) };
        // The protocol's own way with a count that is none is 0.
        assert!(output.is_none_or(|n| n == 0), "{absurd}: {output:?}");
    }
}
