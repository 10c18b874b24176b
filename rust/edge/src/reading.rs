//! An answer as it is read: what of it goes to the client, and what is learned from it on the way.
//!
//! 1. Verbatim: the bytes go on unchanged, at the ends of events; a partial event is held up to a bound and then
//!    passes as it comes. One kind of event may be taken out: the usage chunk that the gateway itself asked for. For a client
//!    that wants one JSON array, each event's JSON is an element of it, unchanged.
//! 2. Normalised: events go on, encoded anew; one read makes one piece.
//! 3. What is learned (usage, intents, finish, error) is the same in both.
//! 4. After the terminal event nothing goes on. An event at which the answer breaks, by our reading alone, does not go
//!    on either: a client could take it for a normal end.
//!
//! No socket and no clock may be added here.

use headrace_codec::encode::{Elements, Encoder, keep_alive};
use headrace_codec::event::{ErrorPhase, FinishReason, FrameMark, Usage};
use headrace_codec::loss::Loss;
use headrace_codec::pipeline::{Decoder, End};
use headrace_codec::{At, ErrorKind, Event, Protocol, Sink};

use crate::limits;
use crate::policy::{Counts, OwnedError, Secret, holds_secret};

/// What was learned from an answer.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub usage: Counts,
    pub intents: u32,
    pub events: u64,
    pub finish: Option<FinishReason>,
    pub error: Option<OwnedError>,
    /// The error stood in the stream, so a verbatim relay has passed it on.
    pub error_framed: bool,
    pub model: Option<String>,
    pub response_id: Option<String>,
    pub request_id: Option<String>,
    /// Events of the wire that have ended.
    pub frames: u64,
    /// Events of content: those at which an answer commits.
    pub content: u64,
}

impl Tally {
    fn event(&mut self, event: &Event<'_>) {
        self.events += 1;
        self.content += u64::from(event.commits());
        match event {
            Event::Started { model, response_id, request_id } => {
                self.model = model.map(|t| t.decode().into_owned());
                self.response_id = response_id.map(|t| t.decode().into_owned());
                self.request_id = request_id.map(|t| t.decode().into_owned());
            }
            Event::Usage(usage) => self.usage = counts(usage),
            Event::IntentProposed(_) => self.intents += 1,
            Event::Finished { reason, .. } => self.finish = Some(*reason),
            Event::Error(error) => self.error = Some(OwnedError::from(error)),
            _ => {}
        }
    }

    /// Leaves out the names in which a provider repeats a secret: they go into the books.
    pub(crate) fn forget(&mut self, secrets: &[Secret]) {
        for name in [&mut self.model, &mut self.response_id, &mut self.request_id] {
            name.take_if(|name| holds_secret(name, secrets));
        }
    }

    /// It failed, and nothing that a verbatim relay passes says so.
    pub(crate) fn breaks_off(&self) -> bool {
        self.error.is_some() && !self.error_framed
    }
}

fn counts(usage: &Usage<'_>) -> Counts {
    Counts {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        reasoning_tokens: usage.reasoning_tokens,
    }
}

/// Which bytes of a stream may go on, by offsets of its (decoded) body.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// Bytes that were fed, that went on, and that are whole events.
    fed: u64,
    released: u64,
    whole: u64,
    /// Events that are taken out and lie at or after `released`.
    cuts: Vec<(u64, u64)>,
    cut_usage: bool,
    /// The bytes from `released` to `fed`, between reads.
    held: Vec<u8>,
    /// The partial event was longer than what is held: it passes as it comes.
    passing: bool,
    /// The client asked for the events as elements of one array.
    elements: Option<Box<Elements>>,
}

impl Frames {
    fn frame(&mut self, start: u64, end: u64, usage_only: bool) {
        if usage_only && self.cut_usage && start >= self.released {
            self.cuts.push((start, end));
        }
        self.whole = end;
        self.passing = false;
    }

    /// Shows `emit` what may go on of `held` and `bytes`, which were just fed, and holds the rest. Of a stream that
    /// is over nothing is held.
    fn release(&mut self, bytes: &[u8], now: Now, emit: &mut Emit<'_>) {
        let Some(mut elements) = self.elements.take() else { return self.pass(bytes, now, emit) };
        self.pass(bytes, now, &mut |pieces, last| {
            let mut out = Vec::new();
            for piece in pieces {
                elements.feed(piece, &mut out);
            }
            if last {
                elements.end(&mut out);
            }
            if !out.is_empty() {
                emit(&[&out], last);
            }
        });
        self.elements = Some(elements);
    }

    fn pass(&mut self, bytes: &[u8], now: Now, emit: &mut Emit<'_>) {
        let last = now == Now::Ended;
        let base = self.fed;
        self.fed += bytes.len() as u64;
        let mut until = self.whole.max(self.released);
        if now == Now::Going && (self.passing || self.fed - until > limits::HELD as u64) {
            self.passing = true;
            until = self.fed;
        }
        let mut pieces: [&[u8]; PIECES] = [&[]; PIECES];
        let mut n = 0;
        let mut from = self.released;
        let cuts = std::mem::take(&mut self.cuts);
        for &(cut, end) in cuts.iter().chain([&(until, until)]) {
            for piece in [slice(&self.held, self.released, from, cut), slice(bytes, base, from, cut)] {
                if piece.is_empty() {
                    continue;
                }
                if n == PIECES {
                    emit(&pieces, false);
                    n = 0;
                }
                pieces[n] = piece;
                n += 1;
            }
            from = end;
        }
        if n > 0 || last {
            emit(&pieces[..n], last);
        }
        let used = (until - self.released).min(self.held.len() as u64) as usize;
        if used == self.held.len() {
            // Most reads end with an event, so this is the rule: nothing is kept between reads.
            self.held = Vec::new();
        } else {
            self.held.drain(..used);
        }
        if now == Now::Going {
            self.held.extend_from_slice(slice(bytes, base, until, self.fed));
        }
        self.released = until;
    }

    /// All that is held, for a body that ended well.
    fn release_rest(&mut self, emit: &mut Emit<'_>) {
        self.whole = self.fed;
        self.release(&[], Now::Ended, emit);
    }
}

/// Where a verbatim stream stands after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Going,
    /// It ended, well or with an error of the provider's own.
    Ended,
    /// It broke at an event that does not say so: that one does not pass, and the client is still to be told.
    Broken,
}

/// The part of `bytes`, which start at offset `base`, that lies in `from..to`.
fn slice(bytes: &[u8], base: u64, from: u64, to: u64) -> &[u8] {
    let at = |offset: u64| (offset.max(base) - base).min(bytes.len() as u64) as usize;
    &bytes[at(from)..at(to).max(at(from))]
}

/// Takes what may go to the client: the pieces of one write, and whether the body ends with it.
pub(crate) type Emit<'a> = dyn FnMut(&[&[u8]], bool) + 'a;

/// How the bytes that were read become what the client gets.
pub(crate) enum Kind {
    /// A stream, unchanged.
    Frames(Frames),
    /// A whole JSON body, unchanged.
    Body,
    /// Encoded anew.
    Events(Box<Encoder>),
    /// A body that no decoder knows, unchanged.
    Opaque,
    /// A body that no decoder knows, collected.
    Gathered,
    /// An error's body: nothing of it goes on by itself.
    Failure,
}

impl Kind {
    pub(crate) fn frames(cut_usage: bool) -> Kind {
        Kind::Frames(Frames { cut_usage, ..Frames::default() })
    }

    /// A stream, its events unchanged, as one array.
    pub(crate) fn elements() -> Kind {
        Kind::Frames(Frames { elements: Some(Box::default()), ..Frames::default() })
    }
}

/// One answer under way.
pub(crate) struct Reading {
    decoder: Decoder,
    pub(crate) kind: Kind,
    pub(crate) tally: Tally,
    /// Bytes of the decoded body so far.
    pub(crate) bytes: u64,
}

impl Reading {
    pub(crate) fn new(decoder: Decoder, kind: Kind) -> Reading {
        Reading { decoder, kind, tally: Tally::default(), bytes: 0 }
    }

    /// The terminal event was seen, or the client's protocol has no way on.
    pub(crate) fn is_done(&self) -> bool {
        self.decoder.is_done() || matches!(&self.kind, Kind::Events(encoder) if encoder.is_over())
    }

    /// Appends what keeps a silent client's stream alive.
    pub(crate) fn keep_alive(&mut self, client: Protocol, out: &mut Vec<u8>) {
        match &mut self.kind {
            Kind::Events(encoder) => encoder.keep_alive(out),
            _ => out.extend_from_slice(keep_alive(client)),
        }
    }

    /// Whether a client that got all that was emitted stands between two events.
    pub(crate) fn at_boundary(&self) -> bool {
        match &self.kind {
            Kind::Frames(frames) => !frames.passing,
            Kind::Events(_) => true,
            Kind::Body | Kind::Opaque | Kind::Gathered | Kind::Failure => false,
        }
    }

    /// How many events, or elements, the client of a verbatim stream has had.
    pub(crate) fn told(&self) -> u64 {
        match &self.kind {
            Kind::Frames(Frames { elements: Some(elements), .. }) => elements.count(),
            _ => self.tally.frames,
        }
    }

    /// Bytes of a partial event that are held.
    pub(crate) fn held(&self) -> usize {
        match &self.kind {
            Kind::Frames(frames) => frames.held.len(),
            _ => 0,
        }
    }

    /// Takes a read. `scratch` is empty and is lent.
    pub(crate) fn feed(&mut self, bytes: &[u8], scratch: &mut Vec<u8>, emit: &mut Emit<'_>) {
        self.bytes += bytes.len() as u64;
        if matches!(self.kind, Kind::Opaque | Kind::Gathered) {
            return emit(&[bytes], false);
        }
        self.decoder.feed(bytes, &mut Ear { tally: &mut self.tally, kind: &mut self.kind, out: scratch });
        let last = self.is_done();
        if last && !self.decoder.is_done() {
            let message = "the answer cannot be told in the client's protocol";
            let error = OwnedError::new(ErrorKind::StreamInterrupted, ErrorPhase::Streaming, message);
            self.tally.error.get_or_insert(error);
        }
        match &mut self.kind {
            Kind::Frames(frames) => {
                let now = match (last, self.tally.breaks_off()) {
                    (false, _) => Now::Going,
                    (true, true) => Now::Broken,
                    (true, false) => Now::Ended,
                };
                frames.release(bytes, now, emit);
            }
            Kind::Body | Kind::Opaque | Kind::Gathered => emit(&[bytes], false),
            Kind::Events(encoder) => {
                if last {
                    encoder.finish(scratch);
                }
                if last || !scratch.is_empty() {
                    emit(&[scratch], last);
                }
            }
            Kind::Failure => {}
        }
    }

    /// The body ended, in whatever way. With an error that the stream did not tell itself nothing more is emitted by a
    /// verbatim relay.
    pub(crate) fn finish(&mut self, end: End, scratch: &mut Vec<u8>, emit: &mut Emit<'_>) {
        if matches!(self.kind, Kind::Opaque | Kind::Gathered) && end == End::Eof {
            self.tally.finish = Some(FinishReason::Stop);
            return emit(&[], true);
        }
        self.decoder.finish(end, &mut Ear { tally: &mut self.tally, kind: &mut self.kind, out: scratch });
        let well = self.tally.error.is_none();
        match &mut self.kind {
            Kind::Frames(frames) if well && end == End::Eof => frames.release_rest(emit),
            // What came of a next event, when the connection broke, is of no use.
            Kind::Frames(frames) if well || self.tally.error_framed => frames.release(&[], Now::Ended, emit),
            Kind::Body if well => emit(&[], true),
            Kind::Events(encoder) => {
                encoder.finish(scratch);
                emit(&[scratch], true);
            }
            Kind::Frames(_) | Kind::Body | Kind::Opaque | Kind::Gathered | Kind::Failure => {}
        }
    }

    /// Nobody wants the rest: what is known, and not told yet, is still learned.
    pub(crate) fn abort(&mut self) {
        if !self.is_done() {
            self.decoder.finish(
                End::Aborted,
                &mut Ear { tally: &mut self.tally, kind: &mut Kind::Failure, out: &mut Vec::new() },
            );
        }
    }

    /// What encoding anew could not carry.
    pub(crate) fn losses(&self) -> &[Loss] {
        match &self.kind {
            Kind::Events(encoder) => encoder.losses(),
            _ => &[],
        }
    }
}

/// What the decoder tells its events to.
struct Ear<'a> {
    tally: &'a mut Tally,
    kind: &'a mut Kind,
    out: &'a mut Vec<u8>,
}

impl Sink for Ear<'_> {
    fn event(&mut self, at: At, event: &Event<'_>) {
        self.tally.event(event);
        if let Kind::Events(encoder) = self.kind {
            encoder.event(at, event, self.out);
        }
    }

    fn frame(&mut self, start: u64, end: u64, mark: FrameMark) {
        if mark == FrameMark::Broken {
            return;
        }
        self.tally.frames += 1;
        self.tally.error_framed |= self.tally.error.is_some();
        if let Kind::Frames(frames) = self.kind {
            frames.frame(start, end, mark == FrameMark::UsageOnly);
        }
    }
}

/// Pieces of one write: what was held and what was read, with one cut.
const PIECES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    type Ends<'a> = &'a [(u64, u64, bool)];

    /// Feeds `reads` of (bytes, ends of whole events in them) and returns what went on after each.
    fn run(frames: &mut Frames, reads: &[(&str, Ends<'_>)]) -> Vec<String> {
        let mut all = Vec::new();
        for (bytes, ends) in reads {
            for &(start, end, usage) in *ends {
                frames.frame(start, end, usage);
            }
            let mut out = String::new();
            frames.release(bytes.as_bytes(), Now::Going, &mut |pieces, _| {
                out.push_str(std::str::from_utf8(&pieces.concat()).unwrap());
            });
            all.push(out);
        }
        all
    }

    #[test]
    fn only_whole_events_go_on_and_nothing_is_lost() {
        let mut frames = Frames::default();
        let out = run(&mut frames, &[("ab", &[]), ("cd", &[(0, 3, false)]), ("ef", &[]), ("gh", &[(3, 8, false)])]);
        assert_eq!(out, ["", "abc", "", "defgh"]);
        assert!(frames.held.is_empty());
    }

    #[test]
    fn the_usage_chunk_goes_where_it_was_asked_for_by_us() {
        let mut frames = Frames { cut_usage: true, ..Frames::default() };
        let out = run(
            &mut frames,
            &[("aa", &[]), ("abbbcc", &[(0, 3, false), (3, 6, true), (6, 8, false)]), ("dddd", &[(8, 12, true)])],
        );
        assert_eq!(out, ["", "aaacc", ""]);
        let mut kept = Frames::default();
        assert_eq!(run(&mut kept, &[("aabb", &[(0, 2, false), (2, 4, true)])]), ["aabb"]);
    }

    #[test]
    fn of_a_stream_that_broke_only_whole_events_go_on_and_nothing_is_held() {
        let mut frames = Frames::default();
        assert_eq!(run(&mut frames, &[("abc", &[(0, 2, false)])]), ["ab"]);
        let (mut out, mut ended) = (Vec::new(), false);
        frames.frame(2, 4, false);
        let long = "x".repeat(limits::HELD * 2);
        frames.release(format!("d{long}").as_bytes(), Now::Broken, &mut |pieces, last| {
            out.extend(pieces.concat());
            ended |= last;
        });
        assert_eq!((out.as_slice(), ended, frames.held.len()), (&b"cd"[..], false, 0));
    }

    #[test]
    fn a_partial_event_beyond_the_bound_passes_as_it_comes() {
        let mut frames = Frames::default();
        let long = "x".repeat(limits::HELD);
        let end = limits::HELD as u64 + 4;
        let out = run(&mut frames, &[(&long, &[]), ("y", &[]), ("z", &[]), ("\n\nab", &[(0, end, false)])]);
        assert_eq!(out[0], "");
        assert_eq!(out[1].len(), limits::HELD + 1);
        assert_eq!(&out[2..], ["z", "\n\n"]);
        assert!(!frames.passing);
    }
}
