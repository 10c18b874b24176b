//! Bodies: framing that is refused, trailers, ends, and when raw chunks may pass.

use headrace_http1::body::{BodyDecoder, BodyError, BodyKind};

fn chunked(wire: &[u8]) -> Result<(Vec<u8>, usize, bool), BodyError> {
    let (mut decoder, mut ranges) = (BodyDecoder::new(BodyKind::Chunked), Vec::new());
    let all = decoder.decode_all(wire, &mut ranges)?;
    Ok((ranges.into_iter().flat_map(|r| wire[r].to_vec()).collect(), all.consumed, all.done))
}

#[test]
fn chunk_sizes_are_plain_hex() {
    use BodyError::ChunkSize;
    for bad in [
        &b"5;a=b\r\nhello\r\n"[..],
        b"5 \r\nhello\r\n",
        b" 5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"-5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"5\nhello\n",
        b"5\rhello",
        b"\r\nhello",
        b"000000005\r\nhello\r\n",
        b"100000005\r\nhello\r\n",
        b"g\r\n",
        b"0;x\r\n\r\n",
    ] {
        assert_eq!(chunked(bad), Err(ChunkSize), "{bad:?}");
    }
    assert_eq!(chunked(b"00000005\r\nhello\r\n"), Ok((b"hello".to_vec(), 17, false)));
    assert_eq!(chunked(b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\nX").unwrap().1, 35);
}

#[test]
fn a_chunk_ends_where_its_size_says() {
    for bad in [&b"5\r\nhelloX\r\n"[..], b"5\r\nhello\n", b"5\r\nhello\rX", b"4\r\nhello\r\n"] {
        assert_eq!(chunked(bad), Err(BodyError::ChunkEnd), "{bad:?}");
    }
}

#[test]
fn trailers_are_checked_and_dropped() {
    let wire = b"1\r\na\r\n0\r\nx-checksum: 12\r\nempty:\r\n\r\nnext";
    assert_eq!(chunked(wire), Ok((b"a".to_vec(), wire.len() - 4, true)));
    for bad in [
        &b"0\r\nx\r\n\r\n"[..],
        b"0\r\n: v\r\n\r\n",
        b"0\r\nx: a\r\n b\r\n\r\n",
        b"0\r\nx: a\nb: c\r\n\r\n",
        b"0\r\n\n",
    ] {
        assert_eq!(chunked(bad), Err(BodyError::Trailer), "{bad:?}");
    }
    let endless = [&b"0\r\nx: "[..], &vec![b'a'; 9 << 10]].concat();
    assert_eq!(chunked(&endless), Err(BodyError::TrailerTooLarge));
    let many = [&b"0\r\n"[..], &b"a: b\r\n".repeat(3000)].concat();
    assert_eq!(chunked(&many), Err(BodyError::TrailerTooLarge));
}

#[test]
fn raw_chunks_may_pass_only_where_a_read_is_whole_chunks() {
    let read = |decoder: &mut BodyDecoder, wire: &[u8]| decoder.decode_all(wire, &mut Vec::new()).unwrap();
    let mut decoder = BodyDecoder::new(BodyKind::Chunked);
    assert!(read(&mut decoder, b"3\r\nabc\r\n2\r\nde\r\n").whole_chunks);
    assert!(!read(&mut decoder, b"3\r\nab").whole_chunks, "ends inside a chunk");
    assert!(!read(&mut decoder, b"c\r\n1\r\nd\r\n").whole_chunks, "starts inside a chunk");
    assert!(!read(&mut decoder, b"1").whole_chunks, "ends inside a size line");
    assert!(!read(&mut decoder, b"\r\nd\r\n").whole_chunks);
    assert!(read(&mut decoder, b"1\r\nd\r\n0\r\n\r\n").whole_chunks, "the end may pass too");
    assert!(!read(&mut decoder, b"more").whole_chunks, "what follows is not the body's");
    let mut decoder = BodyDecoder::new(BodyKind::Chunked);
    assert!(!read(&mut decoder, b"1\r\na\r\n0\r\nx: y\r\n\r\n").whole_chunks, "trailers do not pass");
    let mut decoder = BodyDecoder::new(BodyKind::Length(3));
    assert!(!read(&mut decoder, b"abc").whole_chunks);
}

#[test]
fn an_early_close_is_told_from_an_end() {
    let ends = |kind, wire: &[u8]| {
        let mut decoder = BodyDecoder::new(kind);
        decoder.decode_all(wire, &mut Vec::new()).unwrap();
        decoder.finish()
    };
    assert_eq!(ends(BodyKind::UntilClose, b"abc"), Ok(()));
    assert_eq!(ends(BodyKind::None, b""), Ok(()));
    assert_eq!(ends(BodyKind::Length(3), b"abc"), Ok(()));
    assert_eq!(ends(BodyKind::Length(4), b"abc"), Err(BodyError::Truncated));
    assert_eq!(ends(BodyKind::Chunked, b"3\r\nabc\r\n"), Err(BodyError::Truncated));
    assert_eq!(ends(BodyKind::Chunked, b"3\r\nabc\r\n0\r\n"), Err(BodyError::Truncated));
    assert_eq!(ends(BodyKind::Chunked, b"0\r\n\r\n"), Ok(()));
}

#[test]
fn a_length_takes_its_own_bytes_only() {
    let mut decoder = BodyDecoder::new(BodyKind::Length(5));
    let step = decoder.decode(b"hel").unwrap();
    assert_eq!((step.consumed, step.data, decoder.remaining()), (3, 0..3, Some(2)));
    let step = decoder.decode(b"loGET /").unwrap();
    assert_eq!((step.consumed, step.data, decoder.is_done()), (2, 0..2, true));
    assert_eq!(decoder.decode(b"GET /").unwrap().consumed, 0);
}
