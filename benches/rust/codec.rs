//! The codec alone: bytes to events in Rust, no Python object made.
//!
//!     bench-codec PROTOCOL FILE [READ]
//!
//! Decodes FILE over and over for a third of a second of CPU, in reads of READ bytes (0: one event a read), and prints one
//! JSON line: nanoseconds of CPU per event of the stream, and what was decoded, so that whoever asked can compare it before
//! the time.

use std::time::Duration;

use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use headrace_codec::{At, Event, Protocol, Sink};

/// Counts what it is given, as cheaply as that can be done without being optimised away.
#[derive(Default)]
struct Counting {
    events: u64,
    text: usize,
    intents: u64,
    finished: bool,
}

impl Sink for Counting {
    fn event(&mut self, _at: At, event: &Event<'_>) {
        self.events += 1;
        match event {
            Event::TextDelta { text, .. } => self.text += text.decode().len(),
            Event::IntentProposed(_) => self.intents += 1,
            Event::Finished { .. } => self.finished = true,
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("{what} is missing"));
    let protocol = Protocol::from_name(&next("the protocol")?).ok_or("no such protocol")?;
    let body = std::fs::read(next("the file")?)?;
    let read: usize = next("the size of a read")?.parse()?;
    let ends = match protocol {
        Protocol::BedrockConverse | Protocol::BedrockInvoke => messages(&body),
        Protocol::OllamaChat => memchr::memchr_iter(b'\n', &body).map(|at| at + 1).collect(),
        _ => memchr::memmem::find_iter(&body, b"\n\n").map(|at| at + 2).collect(),
    };
    let pieces = pieces(&body, &ends, read);
    let frames = ends.len();
    let counted = decode(protocol, &pieces);
    let (mut rounds, began) = (0u32, cpu());
    while cpu().saturating_sub(began) < Duration::from_millis(330) {
        std::hint::black_box(decode(protocol, &pieces));
        rounds += 1;
    }
    let nanoseconds =
        cpu().saturating_sub(began).as_secs_f64() * 1e9 / f64::from(rounds) / f64::from(u32::try_from(frames)?);
    println!(
        "{{\"ns_per_event\":{nanoseconds:.1},\"frames\":{frames},\"events\":{},\"text_bytes\":{},\"intents\":{},\"finished\":{}}}",
        counted.events, counted.text, counted.intents, counted.finished
    );
    Ok(())
}

/// What this process has used of the processor: neighbours on a shared machine stretch any other clock.
fn cpu() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the result, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Where the messages of an AWS event stream end, by their lengths.
fn messages(body: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    while let Some(length) = body[ends[ends.len() - 1]..].first_chunk() {
        ends.push(ends[ends.len() - 1] + u32::from_be_bytes(*length) as usize);
    }
    ends.split_off(1)
}

fn pieces<'a>(body: &'a [u8], ends: &[usize], read: usize) -> Vec<&'a [u8]> {
    if read > 0 {
        return body.chunks(read).collect();
    }
    let mut from = 0;
    ends.iter()
        .map(|&end| {
            let piece = &body[from..end];
            from = end;
            piece
        })
        .collect()
}

fn decode(protocol: Protocol, pieces: &[&[u8]]) -> Counting {
    let mut sink = Counting::default();
    let mut decoder = Decoder::new(DecoderConfig::new(protocol));
    for piece in pieces {
        decoder.feed(piece, &mut sink);
    }
    decoder.finish(End::Eof, &mut sink);
    sink
}
