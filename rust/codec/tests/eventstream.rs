//! The framing of AWS event streams: published vectors, properties, and the ladder of broken messages.

mod support;

use headrace_codec::framing::eventstream::{Broken, EventStream, Value};
use headrace_codec::pipeline::{DecoderConfig, End};
use headrace_codec::{Protocol, limits};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// A header as the tests make it: name, type, the bytes of its value.
type Header = (String, u8, Vec<u8>);

fn crc(bytes: &[u8]) -> u32 {
    // Bit by bit, as the definition has it: the library that the framing uses does not judge itself here.
    let step = |c: u32| if c & 1 == 1 { c >> 1 ^ 0xEDB8_8320 } else { c >> 1 };
    !bytes.iter().fold(!0, |c, b| (0..8).fold(c ^ u32::from(*b), |c, _| step(c)))
}

fn sealed(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
    let mut out = [total, u32::try_from(headers.len()).unwrap()].map(u32::to_be_bytes).concat();
    out.extend_from_slice(&crc(&out).to_be_bytes());
    out.extend_from_slice(headers);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc(&out).to_be_bytes());
    out
}

fn packed(headers: &[Header]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, kind, value) in headers {
        out.push(u8::try_from(name.len()).unwrap());
        out.extend_from_slice(name.as_bytes());
        out.push(*kind);
        if matches!(kind, 6 | 7) {
            out.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        }
        out.extend_from_slice(value);
    }
    out
}

/// What the messages hold, as the vectors' `expected` writes it, and how the stream ended.
fn read(pieces: &[&[u8]]) -> (Vec<Json>, Result<(), Broken>, bool) {
    let (mut stream, mut seen) = (EventStream::default(), Vec::new());
    let mut end = 0;
    for piece in pieces {
        let done = stream.feed(piece, &mut |message| {
            assert_eq!(message.start, end, "messages leave no gap");
            end = message.end;
            let headers: Vec<Json> = message.headers().map(|(name, value)| header(name, value)).collect();
            seen.push(json!({"headers": headers, "payload": support::to_base64(message.payload)}));
            true
        });
        if done.is_err() {
            return (seen, done, false);
        }
    }
    (seen, Ok(()), stream.is_inside())
}

fn header(name: &str, value: Value<'_>) -> Json {
    let (kind, value) = match value {
        Value::Bool(value) => (u8::from(!value), json!(value)),
        Value::Byte(n) => (2, json!(n)),
        Value::Short(n) => (3, json!(n)),
        Value::Int(n) => (4, json!(n)),
        Value::Long(n) => (5, json!(n)),
        Value::Bytes(bytes) => (6, json!(support::to_base64(bytes))),
        Value::String(text) => (7, json!(support::to_base64(text.as_bytes()))),
        Value::Timestamp(ms) => (8, json!(ms)),
        Value::Uuid(bytes) => (9, json!(support::to_base64(&bytes))),
    };
    json!({"name": name, "type": kind, "value": value})
}

#[test]
fn the_published_vectors_give_what_is_expected_at_every_cut() {
    let Some(shared) = support::shared() else { return };
    let mut tried = 0;
    for path in support::files(&shared.join("recordings/framing")) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(stem) = name.strip_suffix(".eventstream") else { continue };
        tried += 1;
        let wire = support::bytes(&path);
        let whole = read(&[&wire]);
        for cut in 1..wire.len() {
            assert_eq!(read(&[&wire[..cut], &wire[cut..]]), whole, "{name} cut at {cut}");
        }
        let expected = path.with_file_name(format!("{stem}.expected.json"));
        let mistake = path.with_file_name(format!("{stem}.expected.txt"));
        if expected.exists() {
            let want: Json = serde_json::from_slice(&support::bytes(&expected)).unwrap();
            assert_eq!(whole.0, [json!({"headers": want["headers"], "payload": want["payload"]})], "{name}");
            assert_eq!(want["total_length"], wire.len());
        } else if mistake.exists() {
            let want = String::from_utf8(support::bytes(&mistake)).unwrap();
            let said = whole.1.unwrap_err().what;
            let of_prelude = want.trim() == "Prelude checksum mismatch";
            assert_eq!(said.contains("prelude"), of_prelude, "{name}: {said}");
            assert!(said.contains("checksum"), "{name}: {said}");
        } else if name.contains("-valid-") {
            assert_eq!((whole.0.len(), whole.1, whole.2), (1, Ok(()), false), "{name}");
        } else {
            assert!(name.contains("-invalid-"), "{name}");
            assert!(whole.0.is_empty() && whole.1.is_err(), "{name}: {whole:?}");
        }
    }
    assert!(tried >= 20, "only {tried} vectors");
}

#[test]
fn the_example_of_the_wire_notes_has_these_bytes() {
    let headers =
        [(":event-type", "contentBlockDelta"), (":content-type", "application/json"), (":message-type", "event")];
    let headers = headers.map(|(name, value)| (name.to_owned(), 7, value.as_bytes().to_vec()));
    let wire = sealed(&packed(&headers), b"{\"contentBlockIndex\":0,\"delta\":{\"text\":\"hi\"}}");
    assert_eq!((wire.len(), &wire[..12]), (148, &b"\0\0\0\x94\0\0\0\x57\xb4\xab\x9a\xee"[..]));
    assert_eq!(&wire[144..], b"\xde\x55\x69\x53");
}

fn mistake(wire: &[u8]) -> &'static str {
    let (seen, end, _) = read(&[wire]);
    assert!(seen.is_empty());
    end.unwrap_err().what
}

#[test]
fn what_may_not_be_is_refused_with_its_reason() {
    let text = |name: &str, value: &[u8]| (name.to_owned(), 7, value.to_vec());
    let of = |headers: &[Header]| mistake(&sealed(&packed(headers), b"{}"));
    assert!(of(&[text("", b"a")]).contains("no name"));
    assert!(of(&[text("a", b"\xff")]).contains("UTF-8"));
    assert!(of(&[text("a", b"1"), text("b", b"2"), text("a", b"3")]).contains("twice"));
    assert!(of(&[("a".to_owned(), 10, Vec::new())]).contains("type"));
    assert!(of(&[("a".to_owned(), 5, vec![0; 7])]).contains("cut off"));
    let many: Vec<Header> = (0..=limits::MAX_EVENTSTREAM_HEADERS).map(|n| text(&n.to_string(), b"")).collect();
    assert!(of(&many).contains("more headers"));
    assert_eq!(read(&[&sealed(&packed(&many[1..]), b"")]).0.len(), 1);

    let prelude = |total: u32, headers: u32| {
        let mut out = [total, headers].map(u32::to_be_bytes).concat();
        out.extend_from_slice(&crc(&out).to_be_bytes());
        out
    };
    for (total, headers, want) in [
        (1 << 30, 0, "longer than may be"),
        (u32::MAX, u32::MAX, "longer than may be"),
        (200 << 10, 129 << 10, "longer than may be"),
        (15, 0, "shorter"),
        (0, 0, "shorter"),
        (20, 5, "shorter"),
    ] {
        assert!(mistake(&prelude(total, headers)).contains(want), "{total} {headers}");
    }
}

#[test]
fn a_gibibyte_is_refused_at_its_twelfth_byte() {
    let head = b"\x40\0\0\0\0\0\0\0";
    let wire = [&head[..], &crc(head).to_be_bytes()].concat();
    let mut config = DecoderConfig::new(Protocol::BedrockConverse);
    config.headers = vec![("content-type".to_owned(), "application/vnd.amazon.eventstream".to_owned())];
    let events = support::decode(config.clone(), &[&wire], End::Timeout);
    assert_eq!(events.last().unwrap()["kind"], "stream_interrupted");
    // Eleven bytes say nothing yet.
    let events = support::decode(config, &[&wire[..11]], End::Timeout);
    assert_eq!(events.last().unwrap()["kind"], "timeout");
}

fn value() -> impl Strategy<Value = (u8, Vec<u8>)> {
    (0u8..10, prop::collection::vec(any::<u8>(), 16)).prop_map(|(kind, bytes)| {
        let value = match kind {
            0 | 1 => Vec::new(),
            2 => bytes[..1].to_vec(),
            3 => bytes[..2].to_vec(),
            4 => bytes[..4].to_vec(),
            5 | 8 => bytes[..8].to_vec(),
            6 => bytes[..usize::from(bytes[0] % 16)].to_vec(),
            7 => bytes.iter().map(|b| b'a' + b % 26).collect(),
            _ => bytes,
        };
        (kind, value)
    })
}

/// A few messages, each with its headers and payload.
fn messages() -> impl Strategy<Value = Vec<(Vec<Header>, Vec<u8>)>> {
    let headers = prop::collection::btree_map("[a-z:é-]{1,9}", value(), 0..6);
    let headers = headers.prop_map(|all| all.into_iter().map(|(name, (kind, value))| (name, kind, value)).collect());
    prop::collection::vec((headers, prop::collection::vec(any::<u8>(), 0..60)), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What was written is read, and in pieces of any size the same.
    #[test]
    fn messages_come_back_however_they_are_cut(all in messages(), sizes in prop::collection::vec(1usize..40, 1..40)) {
        let wire: Vec<u8> = all.iter().flat_map(|(headers, payload)| sealed(&packed(headers), payload)).collect();
        let whole = read(&[&wire]);
        prop_assert_eq!((whole.1, whole.2, whole.0.len()), (Ok(()), false, all.len()));
        for ((headers, payload), seen) in all.iter().zip(&whole.0) {
            prop_assert_eq!(&seen["payload"], &json!(support::to_base64(payload)));
            let names: Vec<&str> = seen["headers"].as_array().unwrap().iter().map(|h| h["name"].as_str().unwrap()).collect();
            let kinds: Vec<u64> = seen["headers"].as_array().unwrap().iter().map(|h| h["type"].as_u64().unwrap()).collect();
            prop_assert_eq!(names, headers.iter().map(|h| h.0.as_str()).collect::<Vec<_>>());
            prop_assert_eq!(kinds, headers.iter().map(|h| u64::from(h.1)).collect::<Vec<_>>());
        }
        let (mut pieces, mut rest, mut at) = (Vec::new(), wire.as_slice(), 0);
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(sizes[at % sizes.len()].min(rest.len()));
            pieces.push(piece);
            (rest, at) = (more, at + 1);
        }
        prop_assert_eq!(read(&pieces), whole);
    }

    /// One flipped bit anywhere breaks the message that it is in, and those before it stand.
    #[test]
    fn a_flipped_bit_is_seen(all in messages(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let each: Vec<Vec<u8>> = all.iter().map(|(headers, payload)| sealed(&packed(headers), payload)).collect();
        let mut wire = each.concat();
        let at = at.index(wire.len());
        wire[at] ^= 1 << bit;
        let mut before = 0;
        let hit = each.iter().position(|one| { before += one.len(); at < before }).unwrap();
        let (seen, end, _) = read(&[&wire]);
        prop_assert_eq!(seen.len(), hit);
        prop_assert!(end.is_err());
    }

    /// Bytes that nobody made, with checksums that are right: an answer or a reason, the same at every cut.
    #[test]
    fn sealed_noise_is_read_or_refused(headers in prop::collection::vec(any::<u8>(), 0..40), payload in prop::collection::vec(any::<u8>(), 0..20)) {
        let wire = sealed(&headers, &payload);
        let whole = read(&[&wire]);
        prop_assert_eq!(whole.0.len(), usize::from(whole.1.is_ok()));
        for cut in 1..wire.len() {
            prop_assert_eq!(&read(&[&wire[..cut], &wire[cut..]]), &whole);
        }
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let (seen, end, inside) = read(&[&bytes]);
        prop_assert!(seen.is_empty() || end.is_ok() || !inside);
    }
}

/// One event of Converse as a message.
fn event(name: &str, payload: &str) -> Vec<u8> {
    let headers = [(":event-type", name), (":message-type", "event")];
    sealed(&packed(&headers.map(|(n, v)| (n.to_owned(), 7, v.as_bytes().to_vec()))), payload.as_bytes())
}

fn converse(wire: &[u8], step: usize) -> Vec<Json> {
    support::decode(DecoderConfig::new(Protocol::BedrockConverse), &wire.chunks(step).collect::<Vec<_>>(), End::Eof)
}

fn ended(mut wire: Vec<u8>, reason: &str) -> Vec<u8> {
    wire.extend(event("messageStop", &format!("{{\"stopReason\":\"{reason}\"}}")));
    wire
}

fn last(events: &[Json], field: &str) -> String {
    events.last().unwrap()[field].as_str().unwrap_or_default().to_owned()
}

#[test]
fn great_numbers_and_sizes_pass_or_end_in_an_error() {
    let text = "tide ".repeat((16 << 20) / 5);
    let delta = |index: usize, what: &str| {
        event("contentBlockDelta", &format!("{{\"contentBlockIndex\":{index},\"delta\":{what}}}"))
    };
    let long = ended(delta(0, &format!("{{\"text\":\"{text}\"}}")), "end_turn");
    for step in [long.len(), 64 << 10, 997] {
        let events = converse(&long, step);
        assert_eq!((events[0]["text"].as_str().unwrap().len(), last(&events, "reason")), (text.len(), "stop".into()));
    }
    let call = |index: usize| {
        let id = format!("{{\"toolUse\":{{\"toolUseId\":\"t{index}\",\"name\":\"f\"}}}}");
        let start = event("contentBlockStart", &format!("{{\"contentBlockIndex\":{index},\"start\":{id}}}"));
        let stop = event("contentBlockStop", &format!("{{\"contentBlockIndex\":{index}}}"));
        (start, stop)
    };
    let (start, stop) = call(0);
    let pieces = (0..100_000).map(|n| delta(0, &format!("{{\"toolUse\":{{\"input\":\"{}\"}}}}", n % 10)));
    let open = delta(0, "{\"toolUse\":{\"input\":\"{\\\"n\\\":\\\"\"}}");
    let close = delta(0, "{\"toolUse\":{\"input\":\"\\\"}\"}}");
    let many: Vec<u8> = [start, open].into_iter().chain(pieces).chain([close, stop]).flatten().collect();
    let events = converse(&ended(many, "tool_use"), 4096);
    let intent = events.iter().find(|e| e["type"] == "tool_intent.proposed").unwrap();
    assert_eq!(intent["raw_input_text"].as_str().unwrap().len(), 100_008);
    let calls = |count| ended((0..count).flat_map(|n| [call(n).0, call(n).1].concat()).collect(), "tool_use");
    let events = converse(&calls(10_000), 4096);
    assert_eq!(events.iter().filter(|e| e["type"] == "tool_intent.proposed").count(), 10_000);
    assert_eq!(last(&converse(&calls(limits::MAX_CALLS + 1), 4096), "kind"), "stream_interrupted");
    let open: Vec<u8> = (0..=limits::MAX_OPEN_BLOCKS).flat_map(|n| delta(n, "{\"text\":\"x\"}")).collect();
    assert_eq!(last(&converse(&open, 4096), "kind"), "stream_interrupted");
    let deep = delta(0, &format!("{}1{}", "[".repeat(2000), "]".repeat(2000)));
    assert_eq!(last(&converse(&deep, 4096), "kind"), "stream_interrupted");
}

/// A message of sixteen times the size in small reads costs about sixteen times as much. Six is room for noise; the best of a
/// few tries counts.
#[test]
fn a_long_message_costs_its_length() {
    let wire = |size: usize| {
        let text = format!("{{\"contentBlockIndex\":0,\"delta\":{{\"text\":\"{}\"}}}}", "x".repeat(size));
        ended(event("contentBlockDelta", &text), "end_turn")
    };
    let (small, large) = (wire(1 << 16), wire(1 << 20));
    let (mut of_small, mut of_large) = (std::time::Duration::MAX, std::time::Duration::MAX);
    let linear = (0..20).any(|_| {
        of_small = of_small.min(timed(|| (0..16).for_each(|_| drop(converse(&small, 512)))));
        of_large = of_large.min(timed(|| drop(converse(&large, 512))));
        of_large < of_small * 6
    });
    assert!(linear, "sixteen take {of_small:?}, one of sixteen times the size {of_large:?}");
}

#[expect(clippy::disallowed_methods, reason = "a test may look at the clock")]
fn timed(work: impl FnOnce()) -> std::time::Duration {
    let begun = std::time::Instant::now();
    work();
    begun.elapsed()
}
