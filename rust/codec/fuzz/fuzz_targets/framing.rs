//! Framing: no split changes the frames, and they cover the body without a gap.
#![no_main]

mod common;

use headrace_codec::framing::Frame;
use headrace_codec::framing::ndjson::Ndjson;
use headrace_codec::framing::sse::Sse;
use libfuzzer_sys::fuzz_target;

type Kept = (Vec<u8>, Option<Vec<u8>>, u64, u64, u64);

fuzz_target!(|input: &[u8]| {
    let Some((body, [cut_high, cut_low, clean])) = common::split(input) else { return };
    let cut = usize::from(u16::from_be_bytes([cut_high, cut_low])) % (body.len() + 1);
    let (clean, halves) = (clean & 1 == 0, [&body[..cut], &body[cut..]]);
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    for frames in [sse, ndjson] {
        let whole = checked(frames(&[body], clean), body.len());
        assert_eq!(checked(frames(&halves, clean), body.len()), whole);
        assert_eq!(checked(frames(&bytes, clean), body.len()), whole);
    }
});

/// The frames without their bounds: an LF whose CR ended a read belongs to the frame after it. A frame without data
/// makes no event, and begins where that LF is.
fn checked(frames: Vec<Kept>, len: usize) -> Vec<(Vec<u8>, Option<Vec<u8>>, Option<u64>)> {
    let mut at = 0;
    let check = |(name, data, offset, start, end): Kept| {
        assert!(start == at && start <= offset && offset <= end && end <= len as u64);
        at = end;
        let offset = data.as_ref().map(|_| offset);
        (name, data, offset)
    };
    frames.into_iter().map(check).collect()
}

fn keep(kept: &mut Vec<Kept>, frame: &Frame<'_>) -> bool {
    kept.push((frame.name.to_vec(), frame.data.map(<[u8]>::to_vec), frame.offset, frame.start, frame.end));
    true
}

fn sse(pieces: &[&[u8]], clean: bool) -> Vec<Kept> {
    let (mut framing, mut kept) = (Sse::default(), Vec::new());
    for piece in pieces {
        framing.feed(piece, &mut |frame| keep(&mut kept, &frame)).unwrap();
    }
    framing.finish(clean, &mut |frame| keep(&mut kept, &frame));
    kept
}

fn ndjson(pieces: &[&[u8]], clean: bool) -> Vec<Kept> {
    let (mut framing, mut kept) = (Ndjson::default(), Vec::new());
    for piece in pieces {
        framing.feed(piece, &mut |frame| keep(&mut kept, &frame)).unwrap();
    }
    framing.finish(clean, &mut |frame| keep(&mut kept, &frame));
    kept
}
