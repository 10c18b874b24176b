//! Why a head was refused, and what a server answers to that.

use std::fmt;

/// A head that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// Longer than the limit.
    TooLarge,
    TooManyHeaders,
    TargetTooLong,
    /// A CR without its LF or an LF without its CR.
    BareLineEnd,
    /// A line that starts with a blank: a folded header.
    Folded,
    /// The start line does not parse.
    StartLine,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    Version,
    HeaderName,
    HeaderValue,
    /// A request target that is no path and no `http` URL, or has bytes that no target may have.
    Target,
    /// No `host`, two of them, one that is no host, or one that differs from the target's.
    Host,
    /// Two lengths, a length that is not plain digits, a length beside chunks, chunks in HTTP/1.0,
    /// or a length where no body can be.
    Length,
    /// A transfer coding other than exactly `chunked`.
    TransferEncoding,
    /// An expectation other than `100-continue`.
    Expectation,
}

impl HeadError {
    /// The status with which a server answers such a request.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::TooLarge | Self::TooManyHeaders => 431,
            Self::TargetTooLong => 414,
            Self::Version => 505,
            Self::Expectation => 417,
            Self::TransferEncoding => 501,
            _ => 400,
        }
    }

    /// A sentence that says what is wrong and quotes nothing.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::TooLarge => "the head is larger than the limit",
            Self::TooManyHeaders => "too many header lines",
            Self::TargetTooLong => "the request target is too long",
            Self::BareLineEnd => "a line ends with a bare CR or LF",
            Self::Folded => "a header line is folded",
            Self::StartLine => "the start line is not HTTP",
            Self::Version => "the version is neither HTTP/1.0 nor HTTP/1.1",
            Self::HeaderName => "a header name has a character that none may have",
            Self::HeaderValue => "a header value has a character that none may have",
            Self::Target => "the request target is neither a path nor an http URL",
            Self::Host => "the host header is missing, repeated, malformed or not the target's",
            Self::Length => "the length of the body is missing, ambiguous or malformed",
            Self::TransferEncoding => "the transfer-encoding is not exactly \"chunked\"",
            Self::Expectation => "the expectation is not \"100-continue\"",
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for HeadError {}

/// A head that is not written, because no strict parser would read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    Method,
    Target,
    Host,
    Status,
    HeaderName,
    HeaderValue,
    /// A header that the writer itself decides (`host`, lengths, codings, connection).
    Reserved,
    TooManyHeaders,
    TooLarge,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Method => "the method is no token",
            Self::Target => "the target is no path",
            Self::Host => "the host is malformed",
            Self::Status => "the status is not in 100..=999",
            Self::HeaderName => "a header name has a character that none may have",
            Self::HeaderValue => "a header value has a character that none may have",
            Self::Reserved => "a header is decided by the framing and cannot be given",
            Self::TooManyHeaders => "too many header lines",
            Self::TooLarge => "the head is larger than the limit",
        })
    }
}

impl std::error::Error for WriteError {}
