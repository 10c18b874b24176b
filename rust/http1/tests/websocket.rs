//! WebSocket frames: the RFC's own examples, every split, and what must be refused.

use headrace_http1::websocket::{Message, Opcode, Reader, Role, WsError, apply, close, write};
use proptest::prelude::*;

fn all(role: Role, limit: usize, reads: &[&[u8]]) -> Result<Vec<Message>, WsError> {
    let mut reader = Reader::new(role, limit);
    let mut messages = Vec::new();
    for mut bytes in reads.iter().copied() {
        loop {
            let (used, message) = reader.read(bytes)?;
            bytes = &bytes[used..];
            match message {
                Some(message) => messages.push(message),
                None => break,
            }
        }
        assert!(bytes.is_empty());
    }
    Ok(messages)
}

fn client(bytes: &[u8]) -> Result<Vec<Message>, WsError> {
    all(Role::Client, 1 << 20, &[bytes])
}

#[test]
fn the_rfcs_examples() {
    // RFC 6455, section 5.7.
    assert_eq!(client(b"\x81\x05Hello").unwrap(), [Message::Text(b"Hello".into())]);
    let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_eq!(all(Role::Server, 99, &[masked]).unwrap(), [Message::Text(b"Hello".into())]);
    assert_eq!(client(b"\x01\x03Hel\x80\x02lo").unwrap(), [Message::Text(b"Hello".into())]);
    assert_eq!(client(b"\x89\x05Hello").unwrap(), [Message::Ping(b"Hello".into())]);
    let long = [b"\x82\x7e\x01\x00".as_slice(), &[7; 256]].concat();
    assert_eq!(client(&long).unwrap(), [Message::Binary(vec![7; 256])]);
    let longer = [b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00".as_slice(), &vec![7; 65536]].concat();
    assert_eq!(client(&longer).unwrap(), [Message::Binary(vec![7; 65536])]);
    let mut written = Vec::new();
    write(&mut written, Opcode::Text, b"Hello", Some([0x37, 0xfa, 0x21, 0x3d]));
    assert_eq!(written, masked);
}

#[test]
fn control_frames_come_between_the_parts_of_a_message() {
    let bytes = b"\x01\x03Hel\x89\x00\x8a\x01x\x80\x02lo\x88\x02\x03\xe8";
    let messages =
        [Message::Ping(Vec::new()), Message::Pong, Message::Text(b"Hello".into()), Message::Close(Some(1000))];
    assert_eq!(client(bytes).unwrap(), messages);
    // After a close nothing is read.
    assert_eq!(client(b"\x88\x00\x81\x05Hello").unwrap(), [Message::Close(None)]);
}

#[test]
fn what_breaks_the_protocol_is_an_error() {
    for (bytes, error) in [
        (&b"\xc1\x00"[..], WsError::Reserved),
        (b"\x83\x00", WsError::Reserved),
        (b"\x8b\x00", WsError::Reserved),
        (b"\x81\x80\x00\x00\x00\x00", WsError::Mask),
        (b"\x09\x00", WsError::Control),
        (b"\x89\x7e\x00\x7e", WsError::Control),
        (b"\x80\x00", WsError::Sequence),
        (b"\x01\x00\x81\x00", WsError::Sequence),
        (b"\x81\x7e\x00\x7d", WsError::Length),
        (b"\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff", WsError::Length),
        (b"\x81\x7f\x80\x00\x00\x00\x00\x00\x00\x00", WsError::Length),
        (b"\x88\x01x", WsError::Close),
        (b"\x88\x02\x03\xed", WsError::Close),
        (b"\x88\x03\x03\xe8\xff", WsError::Close),
        (b"\x81\x02\xc3\x28", WsError::Utf8),
        // A claim of 4 GiB ends at its head.
        (b"\x82\x7f\x00\x00\x00\x01\x00\x00\x00\x00", WsError::TooLarge),
    ] {
        assert_eq!(client(bytes), Err(error), "{bytes:?}");
    }
    assert_eq!(all(Role::Server, 99, &[b"\x81\x05Hello"]), Err(WsError::Mask));
    assert_eq!(all(Role::Client, 4, &[b"\x01\x03Hel\x80\x02lo"]), Err(WsError::TooLarge));
    assert_eq!([WsError::Utf8, WsError::TooLarge, WsError::Mask].map(WsError::close_code), [1007, 1009, 1002]);
}

proptest! {
    #[test]
    fn every_split_reads_the_same(
        payloads in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..300), any::<[u8; 4]>()), 1..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        code in prop::sample::select(vec![1000_u16, 1001, 1011, 4000]),
    ) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (payload, mask) in &payloads {
            write(&mut bytes, Opcode::Binary, payload, Some(*mask));
            expected.push(Message::Binary(payload.clone()));
        }
        close(&mut bytes, code, Some([1, 2, 3, 4]));
        expected.push(Message::Close(Some(code)));
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let reads: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(all(Role::Server, 1 << 10, &reads).unwrap(), expected);
    }

    #[test]
    fn any_bytes_end_in_messages_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>()) {
        let at = cut.index(bytes.len() + 1);
        let whole = all(Role::Server, 64, &[&bytes]);
        let cut = all(Role::Server, 64, &[&bytes[..at], &bytes[at..]]);
        prop_assert_eq!(whole, cut);
    }

    #[test]
    fn masking_twice_is_nothing(mut bytes in prop::collection::vec(any::<u8>(), 0..50), mask in any::<[u8; 4]>(), at in 0_u64..9) {
        let before = bytes.clone();
        apply(&mut bytes, mask, at);
        apply(&mut bytes, mask, at);
        prop_assert_eq!(bytes, before);
    }
}
