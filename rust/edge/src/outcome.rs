//! How one attempt's relay ended, and what is kept of one that failed before its answer committed.

use crate::policy::OwnedError;

/// How a relay ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The client has a whole answer, or one that ends with an error that it can read.
    Told,
    /// The connection to the client is broken off: it has less than a whole answer.
    Broken,
    Gone,
    /// The whole body of a good answer, of which the client has nothing yet: status, headers that pass, body.
    Gathered(u16, Vec<(String, String)>, Vec<u8>),
    /// Nothing has reached the client.
    Failed(Box<Failed>),
}

/// An attempt that failed before its answer committed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub error: OwnedError,
    /// Those that rule R18 lets pass.
    pub headers: Vec<(String, String)>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub reused_socket: bool,
    /// The upstream's own words: the content type and body of its error.
    pub body: Option<(String, Vec<u8>)>,
}

impl Failed {
    /// An attempt that could not even be sent.
    pub(crate) fn unsent(error: OwnedError) -> Failed {
        Failed { error, headers: Vec::new(), bytes_sent: 0, bytes_received: 0, reused_socket: false, body: None }
    }

    /// The headers that a client may have of it.
    pub(crate) fn passed(&self) -> Vec<(&str, &str)> {
        self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect()
    }
}
