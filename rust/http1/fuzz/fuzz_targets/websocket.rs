//! WebSocket frames: no bytes panic; no split changes the messages or the error; what we write, we read.
#![no_main]

use headrace_http1::websocket::{Message, Opcode, Reader, Role, WsError, write};
use libfuzzer_sys::fuzz_target;

/// Small enough that inputs reach it.
const LIMIT: usize = 1 << 10;

fuzz_target!(|input: (bool, u16, [u8; 4], Vec<u8>)| {
    let (server, cut, mask, bytes) = input;
    let role = if server { Role::Server } else { Role::Client };
    let whole = read(role, &[&bytes]);
    let cut = usize::from(cut) % (bytes.len() + 1);
    assert_eq!(read(role, &[&bytes[..cut], &bytes[cut..]]), whole);
    assert_eq!(read(role, &bytes.chunks(1).collect::<Vec<_>>()), whole);

    let mut written = Vec::new();
    write(&mut written, Opcode::Binary, &bytes, server.then_some(mask));
    let expected =
        if bytes.len() > LIMIT { (Vec::new(), Some(WsError::TooLarge)) } else { (vec![Message::Binary(bytes)], None) };
    assert_eq!(read(role, &[&written]), expected);
});

fn read(role: Role, reads: &[&[u8]]) -> (Vec<Message>, Option<WsError>) {
    let mut reader = Reader::new(role, LIMIT);
    let mut messages = Vec::new();
    for mut bytes in reads.iter().copied() {
        while !bytes.is_empty() {
            match reader.read(bytes) {
                Ok((used, message)) => {
                    bytes = &bytes[used..];
                    messages.extend(message);
                }
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}
