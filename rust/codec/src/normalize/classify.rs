//! Which kind of failure an error is: rule R14, for every vendor and every shape, over HTTP or inside a stream.
//!
//! 1. Everything that the evidence says is collected first: codes, wordings, a status. Each names a kind; the
//!    first of [`WALK`] that anything named wins. So a code beats a status exactly where its kind stands earlier.
//! 2. A status inside the body counts only where HTTP itself reports no failure.
//! 3. `retry_after_s` is rule R14r; no clock is read.
//!
//! Codes stand in `codes.rs`, a table per family; shapes in `error_body.rs`. No vendor's name may be added here,
//! and no wording that a code or a status already decides.

use super::codes::{Row, TABLES};
use super::error_body::{self, Body, bare, cut};
use super::retry_after::{Hints, duration, http_date, milliseconds, seconds_or_date, until, wording};
use crate::error::ErrorKind;
use crate::event::Protocol;
use crate::limits::MAX_NAME;

/// What there is to judge by.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Of the HTTP response; `None` for a WebSocket message.
    pub status: Option<u16>,
    pub headers: &'a [(String, String)],
    /// The whole error body, or the JSON of the frame or object that reports the error in a stream.
    pub body: &'a [u8],
    /// The name that the framing gives the error, where it has a place for one.
    pub code: Option<&'a str>,
    /// Whether the error came inside a response that had begun well.
    pub in_stream: bool,
    pub family: Protocol,
}

/// What rule R14 makes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    pub kind: ErrorKind,
    pub retryable: bool,
    /// The HTTP status where it is a failure, else the one that the body tells.
    pub status: Option<u16>,
    /// The most exact code, as the vendor spells it.
    pub code: Option<String>,
    pub message: Option<String>,
    pub retry_after_s: Option<f64>,
    pub request_id: Option<String>,
}

/// Judges an error.
#[must_use]
pub fn classify(e: &Evidence<'_>) -> Classified {
    let mut body = error_body::read(e.body);
    if let Some(name) = e.code.or_else(|| header(e.headers, "x-amzn-errortype")) {
        body.codes.push(bare(name));
        body.code = body.code.or_else(|| Some(plain_type(name)));
    }
    let http = e.status.filter(|s| !(200..300).contains(s) && *s != 101);
    let status = http.or(body.status);
    let retry_after_s = retry_after(e, &body);
    let kind = kind(&body, status, retry_after_s, blocked_by_challenge(e, &body), e.family);
    let request_id = request_id(e.headers);
    Classified {
        kind,
        retryable: kind.retryable(),
        status,
        request_id: request_id.or(body.request_id),
        code: body.code,
        message: body.message,
        retry_after_s,
    }
}

/// The id that the provider's own support asks for.
pub(super) fn request_id(headers: &[(String, String)]) -> Option<String> {
    REQUEST_IDS.iter().find_map(|name| header(headers, name)).map(|v| cut(v, MAX_NAME).to_owned())
}

fn kind(body: &Body, status: Option<u16>, retry_after_s: Option<f64>, challenged: bool, family: Protocol) -> ErrorKind {
    if challenged {
        return ErrorKind::Auth;
    }
    let throttled = status == Some(429) || body.codes.iter().any(|c| THROTTLING.iter().any(|t| c.contains(t)));
    let mut named = Vec::new();
    for code in &body.codes {
        named.extend(lookup(code).filter(|row| !(row.unless_throttled && throttled)).map(|row| row.kind));
    }
    named.extend(status.and_then(|status| of_status(status, family)));
    if CONTENT_FILTER.iter().any(|w| body.words.contains(w)) {
        named.push(ErrorKind::ContentFilter);
    }
    if out_of_quota(body, throttled, retry_after_s) {
        named.push(ErrorKind::Quota);
    }
    if !throttled && too_long(body) {
        named.push(ErrorKind::ContextLength);
    }
    if BAD_KEY.iter().any(|w| body.words.contains(w)) {
        named.push(ErrorKind::Auth);
    }
    WALK.into_iter().find(|kind| named.contains(kind)).unwrap_or(ErrorKind::Unknown)
}

fn lookup(code: &str) -> Option<&'static Row> {
    let rows = || TABLES.iter().flat_map(|table| table.iter());
    rows().find(|row| row.code == code).or_else(|| {
        let begins = |row: &&Row| row.code.strip_suffix('*').is_some_and(|start| code.starts_with(start));
        rows().find(begins)
    })
}

fn of_status(status: u16, family: Protocol) -> Option<ErrorKind> {
    Some(match status {
        402 => ErrorKind::Quota,
        // No registered status: a key that is not taken in one family, no capacity left elsewhere.
        498 if family == Protocol::CohereChat => ErrorKind::Auth,
        409 | 498 | 502 | 503 | 520..=524 | 529 => ErrorKind::Overloaded,
        429 => ErrorKind::RateLimit,
        401 | 403 => ErrorKind::Auth,
        408 | 504 => ErrorKind::Timeout,
        499 => ErrorKind::Aborted,
        501 => ErrorKind::UnsupportedFeature,
        // A redirect: the mistake of whoever configured the address, and no client's. 424: a model behind the endpoint
        // failed, not the request.
        300..=399 | 424 | 500..=599 => ErrorKind::Unknown,
        400..=499 => ErrorKind::BadRequest,
        _ => return None,
    })
}

/// Money, a plan, or a limit that minutes do not lift.
fn out_of_quota(body: &Body, throttled: bool, retry_after_s: Option<f64>) -> bool {
    let says = |words: &[&str]| words.iter().any(|w| body.words.contains(w));
    if says(&BALANCE) || body.zero_limit || body.per_day {
        return true;
    }
    if !throttled {
        return false;
    }
    if says(&PER_DAY) || says_zero_limit(&body.words) {
        return true;
    }
    // A limit that a minute lifts is a rate limit, whatever it is called.
    let limited = body.codes.iter().any(|c| c.starts_with("rate_limit") || c.contains("throttl"));
    let soon = body.per_minute || says(&PER_MINUTE) || retry_after_s.is_some_and(|s| s > 0.0);
    !limited && !soon && says(&USED_UP)
}

/// "limit: 0", and not "limit: 0.5" or "limit: 05".
fn says_zero_limit(words: &str) -> bool {
    words.match_indices("limit: 0").any(|(at, found)| {
        let mut after = words[at + found.len()..].chars();
        match after.next() {
            Some('.') => !after.next().is_some_and(|c| c.is_ascii_digit()),
            Some(c) => !c.is_ascii_digit(),
            None => true,
        }
    })
}

fn too_long(body: &Body) -> bool {
    if body.codes.iter().any(|c| c == "string_above_max_length") || body.words.contains("invalid 'user'") {
        return false;
    }
    TOO_LONG.iter().any(|w| body.words.contains(w))
        || TOO_LONG_PAIRS.iter().any(|(a, b)| body.words.find(a).is_some_and(|at| body.words[at..].contains(b)))
}

/// A bot check stands in front of the vendor: nothing of ours gets through in the same way.
fn blocked_by_challenge(e: &Evidence<'_>, body: &Body) -> bool {
    body.html && header(e.headers, "cf-mitigated").is_some_and(|v| v.eq_ignore_ascii_case("challenge"))
}

fn retry_after(e: &Evidence<'_>, body: &Body) -> Option<f64> {
    let of = |name: &str| [header(e.headers, name), header(&body.headers, name)].into_iter().flatten();
    let now = of("date").next().and_then(http_date);
    let mut hints = Hints::default();
    of("retry-after-ms").for_each(|v| hints.take(milliseconds(v)));
    of("retry-after").for_each(|v| hints.take(seconds_or_date(v, now)));
    hints.take(body.retry_delay.as_deref().and_then(duration));
    hints.take(body.resets_in);
    hints.take(body.resets_at.and_then(|at| until(at, now)));
    hints.take(wording(&body.words));
    hints.seconds()
}

fn header<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
}

/// `ThrottlingException:http://...` without its address.
fn plain_type(name: &str) -> String {
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    cut(name.rsplit_once('#').map_or(name, |(_, n)| n).trim(), MAX_NAME).to_owned()
}

/// The order of rule R14, with the broken stream of rule R17 before the catch-alls.
const WALK: [ErrorKind; 13] = [
    ErrorKind::ContentFilter,
    ErrorKind::Quota,
    ErrorKind::ContextLength,
    ErrorKind::MalformedToolCall,
    ErrorKind::Overloaded,
    ErrorKind::RateLimit,
    ErrorKind::Auth,
    ErrorKind::Timeout,
    ErrorKind::Aborted,
    ErrorKind::UnsupportedFeature,
    ErrorKind::StreamInterrupted,
    ErrorKind::BadRequest,
    ErrorKind::Unknown,
];

/// Codes with these in them say that requests come too fast.
const THROTTLING: [&str; 4] = ["throttl", "rate_limit", "ratelimit", "toomanyrequests"];

const CONTENT_FILTER: [&str; 1] = ["responsible ai practices"];

const BALANCE: [&str; 15] = [
    "credit balance",
    "insufficient balance",
    "insufficient credit",
    "insufficient fund",
    "not enough credits",
    "requires more credits",
    "out of credits",
    "all available credits",
    "spend limit",
    "spending limit",
    "spending cap",
    "usage limit for this",
    "specified api usage limit",
    "usage limit has been reached",
    "account balance",
];

const PER_DAY: [&str; 9] = [
    "per day",
    "per-day",
    "per_day",
    "per month",
    "per-month",
    "/ month",
    "daily limit",
    "daily rate limit",
    "daily quota",
];

const PER_MINUTE: [&str; 7] = ["per minute", "per-minute", "per_minute", "per min", "perminute", "per second", "(rpm)"];

/// Of a plan or an allowance. The bare word "quota" says nothing: vendors call rate limits so too.
const USED_UP: [&str; 4] =
    ["exceeded your current quota", "quota is exhausted", "quota has been exhausted", "allocated quota exceeded"];

const BAD_KEY: [&str; 3] = ["api key not valid", "incorrect api key", "invalid api key provided"];

const TOO_LONG: [&str; 20] = [
    "prompt is too long",
    "input is too long",
    "input too long",
    "maximum context length",
    "maximum context limit",
    "context window",
    "context length",
    "too many tokens",
    "too many total text bytes",
    "input token count exceeds",
    "exceeds the maximum number of tokens",
    "exceeds maximum length",
    "exceed context limit",
    "exceeds context limit",
    "token count exceeds",
    "input tokens exceed",
    "`inputs` tokens + `max_new_tokens` must be",
    "available context size",
    "range of input length should be",
    "length of all messages is too long",
];

/// Wordings with a number in the middle.
const TOO_LONG_PAIRS: [(&str, &str); 2] =
    [("current length is", "while limit is"), ("maximum input length is", "tokens")];

/// Most telling first.
const REQUEST_IDS: [&str; 8] = [
    "x-request-id",
    "request-id",
    "x-oai-request-id",
    "x-amzn-requestid",
    "x-goog-request-id",
    "apim-request-id",
    "x-generation-id",
    "cf-ray",
];
