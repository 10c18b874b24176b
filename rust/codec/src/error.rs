//! The kinds of failure, and what each one means for a retry and for the gateway's answer.
//!
//! One table, [`ErrorKind::row`], says it all; nobody decides it elsewhere. Which wire fact means which
//! kind is rule R14 and stands in `normalize/classify.rs`.

use crate::event::codes;

codes! {
    /// What kind of failure a `provider.error` is.
    ErrorKind {
        Auth = "auth",
        RateLimit = "rate_limit",
        Quota = "quota",
        Timeout = "timeout",
        Overloaded = "overloaded",
        BadRequest = "bad_request",
        ContextLength = "context_length",
        ContentFilter = "content_filter",
        StreamInterrupted = "stream_interrupted",
        UnsupportedFeature = "unsupported_feature",
        MalformedToolCall = "malformed_tool_call",
        Transport = "transport",
        Aborted = "aborted",
        Unknown = "unknown",
    }
}

/// Who may usefully repeat the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryBy {
    /// Nobody: the same request fails again everywhere.
    Nobody,
    /// The attempt owner, with another credential of the same provider.
    AnotherCredential,
    /// The attempt owner, with the same credential after a pause, or another.
    SameOrAnother,
}

/// What the gateway's status is where the upstream's own does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayStatus {
    /// This status in every client protocol.
    Fixed(u16),
    /// 503, in Messages 529.
    Overloaded,
    /// The upstream's own where it is 400, 404, 413 or 422, else 400: the client's own mistake.
    ClientMistake,
}

/// One row of the table of kinds.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    pub kind: ErrorKind,
    /// The same request may work later or elsewhere. Says nothing of who retries.
    pub retryable: bool,
    pub retry_by: RetryBy,
    pub gateway: GatewayStatus,
    /// Our name in the gateway's answer, where it is written anew.
    pub gateway_code: &'static str,
}

const fn row(
    kind: ErrorKind,
    retryable: bool,
    retry_by: RetryBy,
    gateway: GatewayStatus,
    gateway_code: &'static str,
) -> KindRow {
    KindRow { kind, retryable, retry_by, gateway, gateway_code }
}

/// The table, in the order of [`ErrorKind::ALL`].
pub const KINDS: [KindRow; 14] = {
    use ErrorKind as K;
    use GatewayStatus::{ClientMistake, Fixed, Overloaded};
    use RetryBy::{AnotherCredential, Nobody, SameOrAnother};
    [
        row(K::Auth, false, AnotherCredential, Fixed(502), "upstream_response_failed"),
        row(K::RateLimit, true, AnotherCredential, Fixed(429), "rate_limit_exceeded"),
        row(K::Quota, false, AnotherCredential, Fixed(429), "insufficient_quota"),
        row(K::Timeout, true, SameOrAnother, Fixed(504), "upstream_timeout"),
        row(K::Overloaded, true, SameOrAnother, Overloaded, "server_is_overloaded"),
        row(K::BadRequest, false, Nobody, ClientMistake, "invalid_request"),
        row(K::ContextLength, false, Nobody, ClientMistake, "context_length_exceeded"),
        row(K::ContentFilter, false, Nobody, ClientMistake, "content_filter"),
        row(K::StreamInterrupted, true, SameOrAnother, Fixed(502), "upstream_response_failed"),
        row(K::UnsupportedFeature, false, Nobody, ClientMistake, "unsupported_feature"),
        row(K::MalformedToolCall, true, SameOrAnother, Fixed(502), "upstream_response_failed"),
        row(K::Transport, true, SameOrAnother, Fixed(502), "upstream_response_failed"),
        row(K::Aborted, false, Nobody, Fixed(502), "upstream_response_failed"),
        row(K::Unknown, true, SameOrAnother, Fixed(502), "upstream_response_failed"),
    ]
};

impl ErrorKind {
    #[must_use]
    pub fn row(self) -> &'static KindRow {
        &KINDS[self as usize]
    }

    #[must_use]
    pub fn retryable(self) -> bool {
        self.row().retryable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_kind_in_its_place() {
        for (i, kind) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!(KINDS[i].kind, *kind);
            assert_eq!(kind.row().kind, *kind);
            assert_eq!(ErrorKind::from_code(kind.code()), Some(*kind));
        }
    }
}
