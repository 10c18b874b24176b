//! Bodies: no bytes panic; no split changes the data, the end or the error; raw chunks that may pass say the same.
#![no_main]

use headrace_http1::{BodyDecoder, BodyError, BodyKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u16, Vec<u16>, Vec<u8>)| {
    let (kind, length, cuts, bytes) = input;
    let kind = match kind % 4 {
        0 => BodyKind::Length(u64::from(length)),
        1 => BodyKind::UntilClose,
        _ => BodyKind::Chunked,
    };
    let whole = decode(kind, &[&bytes]);
    assert_eq!(decode(kind, &bytes.chunks(1).collect::<Vec<_>>()), whole);
    let mut places: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut) % (bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for place in places {
        pieces.push(&bytes[from..place]);
        from = place;
    }
    pieces.push(&bytes[from..]);
    assert_eq!(decode(kind, &pieces), whole);
});

fn decode(kind: BodyKind, reads: &[&[u8]]) -> (Vec<u8>, usize, Result<bool, BodyError>) {
    let mut decoder = BodyDecoder::new(kind);
    let (mut data, mut consumed, mut ranges) = (Vec::new(), 0, Vec::new());
    for read in reads {
        ranges.clear();
        let decoded = match decoder.decode_all(read, &mut ranges) {
            Ok(decoded) => decoded,
            Err(error) => {
                assert_eq!(decoder.decode(b"x"), Err(error));
                // What comes before an error within one read is not handed over, so a split may show more of it.
                return (Vec::new(), 0, Err(error));
            }
        };
        let mut of_read = Vec::new();
        for range in &ranges {
            assert!(!range.is_empty() && range.end <= decoded.consumed);
            of_read.extend_from_slice(&read[range.clone()]);
        }
        if decoded.whole_chunks {
            raw_says(&read[..decoded.consumed], &of_read, decoded.done);
        }
        data.extend_from_slice(&of_read);
        consumed += decoded.consumed;
        assert!(decoded.done || decoded.consumed == read.len());
    }
    (data, consumed, Ok(decoder.is_done()))
}

/// Raw chunks that pass as they are must give another parser the same data.
fn raw_says(raw: &[u8], data: &[u8], done: bool) {
    let (mut decoder, mut ranges) = (BodyDecoder::new(BodyKind::Chunked), Vec::new());
    let decoded = decoder.decode_all(raw, &mut ranges).unwrap();
    assert_eq!((decoded.consumed, decoded.done), (raw.len(), done));
    let again: Vec<u8> = ranges.into_iter().flat_map(|range| raw[range].to_vec()).collect();
    assert_eq!(again, data);
}
