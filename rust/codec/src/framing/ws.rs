//! A WebSocket: every feed is one whole text message. Putting fragments together is the transport's work.

use super::{Each, Frame, TooLong};
use crate::limits::MAX_FRAME;

/// Counts the bytes of the messages before.
#[derive(Debug, Default)]
pub struct Messages {
    read: u64,
}

impl Messages {
    pub fn feed(&mut self, message: &[u8], each: &mut impl Each) -> Result<(), TooLong> {
        if message.len() > MAX_FRAME {
            return Err(TooLong { offset: self.read });
        }
        let start = self.read;
        self.read += message.len() as u64;
        if !message.trim_ascii().is_empty() {
            each(Frame { name: b"", data: Some(message), offset: start, start, end: self.read, repeats_name: false });
        }
        Ok(())
    }
}
