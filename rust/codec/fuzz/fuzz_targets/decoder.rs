//! The decoder: no bytes panic; any split gives the same events; exactly one terminal event, the last; each event is
//! JSON.
#![no_main]

mod common;

use common::{Lines, decode};
use headrace_codec::event::Protocol;
use headrace_codec::json::Scanner;
use headrace_codec::pipeline::DecoderConfig;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((body, [family, flags, end, cut_high, cut_low])) = common::split(input) else { return };
    let mut config = DecoderConfig::new(Protocol::ALL[usize::from(family) % Protocol::ALL.len()]);
    config.think_tags = flags & 1 == 1;
    if flags & 6 == 6 {
        config.status = 400 + u16::from(flags >> 3) * 4;
    }
    if flags & 0x80 != 0 {
        config.headers = vec![("content-type".into(), "text/event-stream".into())];
    }
    let run = |pieces: &[&[u8]]| {
        let mut lines = Lines::default();
        decode(&config, pieces, common::end(end), &mut lines);
        assert_eq!(lines.terminals, 1);
        lines
    };
    let whole = run(&[body]);
    let cut = usize::from(u16::from_be_bytes([cut_high, cut_low])) % (body.len() + 1);
    let shown = |lines: &Lines| String::from_utf8(lines.out.clone()).expect("events are UTF-8");
    assert_eq!(shown(&run(&[&body[..cut], &body[cut..]])), shown(&whole));
    if body.len() <= 8192 {
        assert_eq!(shown(&run(&body.chunks(1).collect::<Vec<_>>())), shown(&whole));
    }
    for line in whole.out.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
        Scanner::only(line).expect("an event is JSON");
    }
});
