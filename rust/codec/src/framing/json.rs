//! A whole body in one JSON value: collected, up to a bound, and read at its end.

use super::TooLong;
use crate::limits::MAX_BODY;

/// What has come of the body.
#[derive(Debug, Default)]
pub struct Whole {
    bytes: Vec<u8>,
}

impl Whole {
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.bytes.len() + bytes.len() > MAX_BODY {
            return Err(TooLong { offset: 0 });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The body, without a byte order mark and the white space around it.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.bytes).trim_ascii()
    }
}
