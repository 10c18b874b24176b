//! What each tier forbids, made ready before the fork.

pub(crate) mod bubblewrap;
pub(crate) mod landlock;
pub(crate) mod seccomp;

/// Something that this machine cannot do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);
