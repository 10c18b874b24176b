//! Request bodies: no bytes panic; what is translated is JSON, the same every time, and can be looked at again; an edit
//! changes what it names. Messages of a WebSocket: what is asked is a request, and its items are values.
#![no_main]

mod common;

use common::FAMILIES;
use headrace_codec::event::Protocol;
use headrace_codec::json::Scanner;
use headrace_codec::request::session::{Frame, Session, asks, ended, response_id};
use headrace_codec::request::{Edit, Source, TargetFlags, TranslateSpec, inspect, rewrite, translate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((body, [source])) = common::split(input) else { return };
    message(body);
    let source = match source % 6 {
        5 => Source::Headrace,
        n => Source::Protocol(FAMILIES[usize::from(n)]),
    };
    // A dialect, which also its own protocol's bodies are written anew for.
    let dialect = ["openai_compatible", "no_stream_options", "no_user", "random_seed", "short_ids", "thinking_parts"];
    let dialect = TargetFlags::from_names(&[&dialect[..], &["anew"]].concat()).expect("flags that exist");
    let targets = Protocol::ALL
        .into_iter()
        .map(|target| (target, TargetFlags::default()))
        .chain([(Protocol::OpenaiChat, dialect)]);
    for (target, target_flags) in targets {
        let spec =
            TranslateSpec { source, target, model: "up/stream", provider: Some("row"), edits: &[], target_flags };
        // Within one protocol nothing but the named keys is read: whether it is a request was asked before.
        let passes = match target {
            Protocol::BedrockInvoke => Protocol::AnthropicMessages,
            target => target,
        };
        if source == Source::Protocol(passes) && inspect(body, passes).is_err() {
            continue;
        }
        let Ok(translation) = translate(body, &spec) else { continue };
        assert_eq!(translate(body, &spec).as_ref(), Ok(&translation), "the same input gives the same output");
        Scanner::only(&translation.body).expect("a translated body is JSON");
        let facts = inspect(&translation.body, target).expect("a translated body is a request");
        // It stands in the URL there.
        let in_url = [Protocol::GoogleGemini, Protocol::BedrockConverse, Protocol::BedrockInvoke].contains(&target);
        let model = (!in_url).then_some("up/stream");
        assert_eq!(facts.model.as_deref(), model);
    }
    let Source::Protocol(protocol) = source else { return };
    let Ok(facts) = inspect(body, protocol) else { return };
    let edits = [Edit::new("/x_added", Some(b"[1]")).unwrap(), Edit::new("/x_gone", None).unwrap()];
    let Ok(slices) = rewrite(body, Some("other"), &edits) else { return };
    let edited = slices.to_vec();
    assert_eq!(edited.len(), slices.len());
    let again = inspect(&edited, protocol).expect("an edited body is a request");
    assert_eq!(again.model.as_deref(), Some("other"));
    assert_eq!((again.messages, again.stream, again.tool_names), (facts.messages, facts.stream, facts.tool_names));
    let twice = rewrite(&edited, Some("other"), &edits).expect("an edit can be made again").to_vec();
    assert_eq!(twice, edited, "and changes nothing then");
});

fn message(message: &[u8]) {
    let asked = asks(message);
    let mut session = Session::new(1 << 20);
    session.answered(None, "resp_1".into(), b"{\"a\":1}", b"");
    if let Some((id, output)) = ended(message) {
        assert!(response_id(message).is_some());
        session.answered(Some("lane"), id, b"", &output);
    }
    let Ok(Frame::Create { body, items } | Frame::WarmUp { body, items }) = session.frame(message) else { return };
    // Whose it is was asked before, and may have been refused for its lane's name alone.
    assert!(asked.is_ok() || asked.is_err_and(|error| error.code == "invalid_stream_id"));
    Scanner::only(&body).expect("what is asked is JSON");
    Scanner::only(&[b"[", &items[..], b"]"].concat()).expect("items are values");
}
