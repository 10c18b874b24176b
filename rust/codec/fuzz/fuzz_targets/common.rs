//! What the codec's targets share. An input is a body and, behind it, the choices: so a recorded body is a seed.
#![allow(dead_code, reason = "each target uses its own part")]

use headrace_codec::event::{At, Event, Protocol, Sink};
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};

/// The families that clients speak: they are decoded and encoded.
pub const FAMILIES: [Protocol; 5] = [
    Protocol::OpenaiChat,
    Protocol::OpenaiResponses,
    Protocol::AnthropicMessages,
    Protocol::GoogleGemini,
    Protocol::OllamaChat,
];

/// The body, and `N` bytes of choices; `None` for an input that is too short for them.
pub fn split<const N: usize>(input: &[u8]) -> Option<(&[u8], [u8; N])> {
    input.split_last_chunk::<N>().map(|(body, choices)| (body, *choices))
}

/// Events as JSON lines, and the shape that every stream must have.
#[derive(Default)]
pub struct Lines {
    pub out: Vec<u8>,
    pub terminals: usize,
    pub finished: bool,
    pub intents: usize,
}

impl Sink for Lines {
    fn event(&mut self, at: At, event: &Event<'_>) {
        assert_eq!(self.terminals, 0, "nothing follows the terminal event");
        match event {
            Event::Finished { .. } => {
                self.terminals += 1;
                self.finished = true;
            }
            Event::Error(_) => self.terminals += 1,
            Event::IntentProposed(_) => self.intents += 1,
            _ => {}
        }
        event.push_json(at, &mut self.out);
        self.out.push(b'\n');
    }
}

/// Decode pieces to the end.
pub fn decode(config: &DecoderConfig, pieces: &[&[u8]], end: End, sink: &mut impl Sink) {
    let mut decoder = Decoder::new(config.clone());
    for piece in pieces {
        decoder.feed(piece, sink);
    }
    decoder.finish(end, sink);
    assert!(decoder.is_done());
}

pub fn end(choice: u8) -> End {
    match choice % 4 {
        0 => End::Reset,
        1 => End::Timeout,
        2 => End::Aborted,
        _ => End::Eof,
    }
}
