//! WebSocket frames (RFC 6455), both roles.
//!
//! 1. A client's frames are masked and a server's are not; anything else ends the connection (section 5.1).
//! 2. No extension was agreed on, so that reserved bits are an error (5.2). Control frames are short and whole (5.5).
//! 3. A message is given out when it is whole; its frames are joined, control frames between them come first.
//! 4. A length is a claim: room is made for what came, and a message beyond the reader's limit is an error at its head.
//!
//! The handshake is HTTP's ([`crate::request`], [`crate::response`]); what a message means is not known here.

use std::fmt;

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads what a server wrote.
    Client,
    /// Reads what a client wrote.
    Server,
}

/// What the other side said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// UTF-8.
    Text(Vec<u8>),
    Binary(Vec<u8>),
    /// To be answered with the same bytes.
    Ping(Vec<u8>),
    Pong,
    /// The last message. The code, where it told one.
    Close(Option<u16>),
}

/// Why the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WsError {
    /// A bit or an operation that nobody agreed on.
    Reserved,
    /// Masked by a server, or not masked by a client.
    Mask,
    /// A control frame that is long or in parts.
    Control,
    /// A continuation of nothing, or a message inside another.
    Sequence,
    /// A length in more bytes than it needs.
    Length,
    /// A close frame of one byte, or with a code that none may send.
    Close,
    /// Text that is not UTF-8.
    Utf8,
    /// A message beyond the limit.
    TooLarge,
}

impl WsError {
    /// The code with which to close (section 7.4.1).
    #[must_use]
    pub fn close_code(self) -> u16 {
        match self {
            Self::Utf8 => 1007,
            Self::TooLarge => 1009,
            _ => 1002,
        }
    }
}

impl fmt::Display for WsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserved => "a reserved bit or operation",
            Self::Mask => "a frame with the wrong masking",
            Self::Control => "a control frame that is long or in parts",
            Self::Sequence => "frames out of order",
            Self::Length => "a length that is not written the shortest way",
            Self::Close => "a malformed close frame",
            Self::Utf8 => "text that is not UTF-8",
            Self::TooLarge => "a message beyond the limit",
        })
    }
}

impl std::error::Error for WsError {}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    fn read(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// Append a whole message as one frame. `mask`: a client's, random for each frame.
pub fn write(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>) {
    head(out, opcode, payload.len(), mask);
    let from = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        apply(&mut out[from..], mask, 0);
    }
}

/// Append the head of a frame that is a whole message of `len` bytes.
pub fn head(out: &mut Vec<u8>, opcode: Opcode, len: usize, mask: Option<[u8; 4]>) {
    let masked = if mask.is_some() { 0x80 } else { 0 };
    out.push(0x80 | opcode as u8);
    match len {
        0..=125 => out.push(masked | len as u8),
        126..=0xffff => {
            out.push(masked | 0x7e);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(masked | 0x7f);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(mask.as_ref().map_or(&[][..], |mask| &mask[..]));
}

/// Append a close frame with a code.
pub fn close(out: &mut Vec<u8>, code: u16, mask: Option<[u8; 4]>) {
    write(out, Opcode::Close, &code.to_be_bytes(), mask);
}

/// Masks or unmasks `bytes`, which lie `at` bytes into a payload (section 5.3).
pub fn apply(bytes: &mut [u8], mask: [u8; 4], at: u64) {
    let shift = (at % 4) as usize;
    let turned = [mask[shift], mask[(shift + 1) % 4], mask[(shift + 2) % 4], mask[(shift + 3) % 4]];
    let (fours, rest) = bytes.as_chunks_mut::<4>();
    for four in fours {
        *four = (u32::from_ne_bytes(*four) ^ u32::from_ne_bytes(turned)).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(turned) {
        *byte ^= mask;
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    fin: bool,
    opcode: Opcode,
    mask: Option<[u8; 4]>,
    len: u64,
    read: u64,
}

/// Messages out of bytes of any split. After an error or a close it reads nothing more.
#[derive(Debug)]
pub struct Reader {
    role: Role,
    limit: usize,
    /// The head under way.
    partial: Vec<u8>,
    frame: Option<Frame>,
    /// The message under way, and what it is.
    message: Vec<u8>,
    kind: Option<Opcode>,
    control: Vec<u8>,
    over: bool,
}

impl Reader {
    /// `limit`: bytes of one message.
    #[must_use]
    pub fn new(role: Role, limit: usize) -> Reader {
        Reader {
            role,
            limit,
            partial: Vec::new(),
            frame: None,
            message: Vec::new(),
            kind: None,
            control: Vec::new(),
            over: false,
        }
    }

    /// Whether it stands between two messages and two frames.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.partial.is_empty() && self.frame.is_none() && self.kind.is_none()
    }

    /// Bytes that it has of a message under way, and of a head. Those of control frames do not count.
    #[must_use]
    pub fn held(&self) -> usize {
        self.partial.len() + self.message.len()
    }

    /// Takes from the front of `bytes` until a message is whole or nothing is left. Returns how many bytes it took.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Message>), WsError> {
        let mut at = 0;
        while !self.over {
            let Some(mut frame) = self.frame else {
                let Some(used) = self.read_head(&bytes[at..])? else { return Ok((bytes.len(), None)) };
                at += used;
                continue;
            };
            let take = (frame.len - frame.read).min((bytes.len() - at) as u64) as usize;
            let into = if frame.opcode.is_control() { &mut self.control } else { &mut self.message };
            let from = into.len();
            into.extend_from_slice(&bytes[at..at + take]);
            if let Some(mask) = frame.mask {
                apply(&mut into[from..], mask, frame.read);
            }
            at += take;
            frame.read += take as u64;
            if frame.read < frame.len {
                self.frame = Some(frame);
                return Ok((at, None));
            }
            self.frame = None;
            if let Some(message) = self.end_frame(frame)? {
                return Ok((at, Some(message)));
            }
        }
        Ok((bytes.len(), None))
    }

    /// Takes a head's bytes; `None` where it is not whole.
    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, WsError> {
        let before = self.partial.len();
        let mut used = 0;
        loop {
            let needed = needed(&self.partial);
            if self.partial.len() >= needed {
                break;
            }
            let take = (needed - self.partial.len()).min(bytes.len() - used);
            if take == 0 {
                return Ok(None);
            }
            self.partial.extend_from_slice(&bytes[used..used + take]);
            used += take;
        }
        debug_assert_eq!(before + used, self.partial.len());
        let head = std::mem::take(&mut self.partial);
        self.frame = Some(self.judge(&head)?);
        Ok(Some(used))
    }

    /// Judges a whole head.
    fn judge(&mut self, head: &[u8]) -> Result<Frame, WsError> {
        let (first, second) = (head[0], head[1]);
        let opcode = Opcode::read(first & 0x0f).filter(|_| first & 0x70 == 0).ok_or(WsError::Reserved)?;
        let fin = first & 0x80 != 0;
        let masked = second & 0x80 != 0;
        if masked != (self.role == Role::Server) {
            return Err(WsError::Mask);
        }
        let short = second & 0x7f;
        let mut rest = &head[2..];
        let len = match short {
            126 => {
                let len = u64::from(u16::from_be_bytes([rest[0], rest[1]]));
                rest = &rest[2..];
                if len < 126 {
                    return Err(WsError::Length);
                }
                len
            }
            127 => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&rest[..8]);
                rest = &rest[8..];
                let len = u64::from_be_bytes(bytes);
                if len <= 0xffff || len >> 63 != 0 {
                    return Err(WsError::Length);
                }
                len
            }
            short => u64::from(short),
        };
        let mask = masked.then(|| [rest[0], rest[1], rest[2], rest[3]]);
        if opcode.is_control() {
            if !fin || len > 125 {
                return Err(WsError::Control);
            }
        } else {
            if (opcode == Opcode::Continuation) != self.kind.is_some() {
                return Err(WsError::Sequence);
            }
            if len > (self.limit - self.message.len()) as u64 {
                return Err(WsError::TooLarge);
            }
            if opcode != Opcode::Continuation {
                self.kind = Some(opcode);
            }
        }
        Ok(Frame { fin, opcode, mask, len, read: 0 })
    }

    fn end_frame(&mut self, frame: Frame) -> Result<Option<Message>, WsError> {
        if frame.opcode.is_control() {
            let payload = std::mem::take(&mut self.control);
            return Ok(Some(match frame.opcode {
                Opcode::Ping => Message::Ping(payload),
                Opcode::Close => {
                    self.over = true;
                    Message::Close(close_code(&payload)?)
                }
                _ => Message::Pong,
            }));
        }
        if !frame.fin {
            return Ok(None);
        }
        let message = std::mem::take(&mut self.message);
        Ok(Some(match self.kind.take() {
            Some(Opcode::Text) if str::from_utf8(&message).is_ok() => Message::Text(message),
            Some(Opcode::Text) => return Err(WsError::Utf8),
            _ => Message::Binary(message),
        }))
    }
}

/// Bytes of a head that starts with `bytes`, as far as they tell.
fn needed(bytes: &[u8]) -> usize {
    let Some(second) = bytes.get(1) else { return 2 };
    let length = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if second & 0x80 != 0 { 4 } else { 0 }
}

fn close_code(payload: &[u8]) -> Result<Option<u16>, WsError> {
    match payload {
        [] => Ok(None),
        [_] => Err(WsError::Close),
        [a, b, reason @ ..] => {
            let code = u16::from_be_bytes([*a, *b]);
            // What stands in no frame (1005, 1006, 1015), what is nobody's, and what is not a code at all.
            let may = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
            if !may || str::from_utf8(reason).is_err() { Err(WsError::Close) } else { Ok(Some(code)) }
        }
    }
}
