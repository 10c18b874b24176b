//! The encoders: whatever was decoded comes out as a stream and a body that our own decoder reads, and what ended in
//! an error never ends as a normal answer.
#![no_main]

mod common;

use common::{FAMILIES, Lines, decode};
use headrace_codec::encode::{Encoder, EncoderConfig};
use headrace_codec::event::{At, Event, Protocol, Sink};
use headrace_codec::json::Scanner;
use headrace_codec::pipeline::{DecoderConfig, End};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((body, [family, flags, end])) = common::split(input) else { return };
    let family = Protocol::ALL[usize::from(family) % Protocol::ALL.len()];
    let config = DecoderConfig::new(family);
    let mut said = Lines::default();
    decode(&config, &[body], common::end(end), &mut said);
    for client in FAMILIES {
        for stream in [true, false] {
            let mut config = EncoderConfig::new(client);
            config.stream = stream;
            config.model = "asked/for".into();
            config.response_id = "id1".into();
            config.family = Some(family);
            config.include_usage = flags & 1 == 1;
            config.provider = (flags & 2 == 2).then(|| "row".into());
            let mut encoding = Encoding { encoder: Encoder::new(config), out: Vec::new() };
            decode(&DecoderConfig::new(family), &[body], common::end(end), &mut encoding);
            let Encoding { mut encoder, mut out } = encoding;
            encoder.finish(&mut out);
            read_back(client, stream, &out, &said);
        }
    }
});

struct Encoding {
    encoder: Encoder,
    out: Vec<u8>,
}

impl Sink for Encoding {
    fn event(&mut self, at: At, event: &Event<'_>) {
        self.encoder.event(at, event, &mut self.out);
    }
}

fn read_back(client: Protocol, stream: bool, out: &[u8], said: &Lines) {
    assert!(std::str::from_utf8(out).is_ok(), "what a client gets is UTF-8");
    if !stream {
        Scanner::only(out).expect("a whole body is JSON");
    }
    let mut again = Lines::default();
    let mut config = DecoderConfig::new(client);
    if !stream && !said.finished {
        config.status = 502;
    }
    decode(&config, &[out], End::Eof, &mut again);
    assert!(said.finished || !again.finished, "an error became a normal answer");
}
