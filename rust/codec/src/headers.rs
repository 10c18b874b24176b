//! Which of a provider's response headers reach a client: rule R18. An allow-list; what it does not name never passes.
//!
//! 1. Limits, request ids and a few facts about the answer pass, on success and on failure alike.
//! 2. A header that the provider's `connection` names does not pass, whatever its own name is.
//! 3. Names are compared without regard to case and pass as they are spelled. Bounds are `limits.rs`'s;
//!    one that does not fit is left out, those after it are still looked at.
//! 4. A value with a control character does not pass: it could end a header line.
//!
//! A deny-list must not be added, nor anything that identifies an account, routes a session or frames a body.

use std::borrow::Cow;

use crate::limits::{MAX_PASSED_HEADER_BYTES, MAX_PASSED_HEADERS};

/// Whether a header of this name may pass. [`filter`] also heeds `connection`, values and bounds.
#[must_use]
pub fn passes(name: &str) -> bool {
    // Names mostly come in lower case.
    let name = if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    };
    EXACT.contains(&&*name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name.contains("-ratelimit-")
        || (name.starts_with("x-codex-") && CODEX_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)))
}

/// The pairs that may pass, in their order.
#[must_use]
pub fn filter(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    let hop_by_hop: Vec<&str> = pairs
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(',').map(str::trim))
        .collect();
    let mut passed = Vec::new();
    let mut bytes = 0;
    for (name, value) in pairs {
        let named = hop_by_hop.iter().any(|hop| hop.eq_ignore_ascii_case(name));
        let unclean = value.bytes().any(|b| b < 0x20 && b != b'\t' || b == 0x7F);
        let size = name.len() + value.len();
        let wait = name.len() >= 11 && name[..11].eq_ignore_ascii_case("retry-after");
        if named || unclean || wait && !is_wait(value) || !passes(name) || bytes + size > MAX_PASSED_HEADER_BYTES {
            continue;
        }
        if passed.len() == MAX_PASSED_HEADERS {
            break;
        }
        bytes += size;
        passed.push((name.as_str(), value.as_str()));
    }
    passed
}

/// Whether a `retry-after` says a time: a plain number, or a date. An SDK that sleeps for `inf` sleeps for ever.
fn is_wait(value: &str) -> bool {
    let value = value.trim();
    let number = value.len() <= MAX_WAIT_DIGITS && value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let date = value.ends_with("GMT") && value.len() <= MAX_WAIT_DATE;
    !value.is_empty() && (number && value.parse::<f64>().is_ok() || date)
}

/// Milliseconds of a year, with fractions.
const MAX_WAIT_DIGITS: usize = 18;
/// The longest of HTTP's three forms of a date.
const MAX_WAIT_DATE: usize = 33;

const EXACT: [&str; 16] = [
    "retry-after",
    "retry-after-ms",
    "ratelimit",
    // Support asks for these.
    "x-request-id",
    "request-id",
    "x-oai-request-id",
    "x-amzn-requestid",
    "apim-request-id",
    "x-generation-id",
    "x-goog-request-id",
    "cf-ray",
    // Facts about the answer.
    "openai-model",
    "x-reasoning-included",
    "cf-mitigated",
    // Limits of a plan; `x-codex-` as a whole also holds state, routing and identity.
    "x-codex-active-limit",
    "x-codex-rate-limit-reached-type",
];

const PREFIXES: [&str; 8] = [
    "x-ratelimit-",
    "x-ratelimitbysize-",
    "ratelimit-",
    "ratelimitbysize-",
    "anthropic-ratelimit-",
    "anthropic-priority-",
    "anthropic-fast-",
    "x-codex-credits-",
];

/// The family of a limit stands in the middle and is not fixed.
const CODEX_SUFFIXES: [&str; 4] = ["-used-percent", "-window-minutes", "-reset-at", "-limit-name"];

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn limits_ids_and_facts_pass_in_any_case() {
        for name in [
            "X-RateLimit-Remaining-Tokens",
            "anthropic-ratelimit-unified-5h-utilization",
            "vendor-ratelimit-reset",
            "Retry-After-Ms",
            "ratelimit-policy",
            "x-codex-primary-used-percent",
            "x-codex-bengalfox-secondary-reset-at",
            "x-codex-credits-balance",
            "X-Request-Id",
            "cf-mitigated",
        ] {
            assert!(passes(name), "{name}");
        }
    }

    #[test]
    fn everything_else_stays_behind() {
        for name in [
            "set-cookie",
            "authorization",
            "www-authenticate",
            "content-length",
            "content-encoding",
            "transfer-encoding",
            "connection",
            "location",
            "openai-organization",
            "anthropic-organization-id",
            "x-codex-turn-state",
            "x-codex-promo-message",
            "x-other-used-percent",
            "x-ratelimit",
            "server",
            "",
        ] {
            assert!(!passes(name), "{name}");
        }
    }

    #[test]
    fn what_connection_names_and_what_could_end_a_line_stay_behind() {
        let pairs = owned(&[
            ("Connection", "close, X-RateLimit-Limit"),
            ("x-ratelimit-limit", "1"),
            ("connection", "request-id"),
            ("request-id", "r1"),
            ("x-request-id", "a\r\nset-cookie: b"),
            ("retry-after", "2"),
        ]);
        assert_eq!(filter(&pairs), [("retry-after", "2")]);
    }

    #[test]
    fn a_wait_passes_only_where_it_is_one() {
        for (value, passes) in [
            ("2", true),
            ("0.5", true),
            ("Wed, 21 Oct 2026 07:28:00 GMT", true),
            ("inf", false),
            ("nan", false),
            ("1e9", false),
            ("-1", false),
            ("", false),
            (".", false),
            ("soon", false),
            ("99999999999999999999", false),
        ] {
            for name in ["Retry-After", "retry-after-ms"] {
                let pairs = owned(&[(name, value)]);
                assert_eq!(!filter(&pairs).is_empty(), passes, "{name}: {value}");
            }
        }
    }

    #[test]
    fn count_and_bytes_are_bounded() {
        let many = owned(&[("x-ratelimit-limit", "1")].repeat(MAX_PASSED_HEADERS + 5));
        assert_eq!(filter(&many).len(), MAX_PASSED_HEADERS);
        let long = "9".repeat(MAX_PASSED_HEADER_BYTES);
        let pairs = owned(&[("x-ratelimit-limit", &long), ("retry-after", "2")]);
        assert_eq!(filter(&pairs), [("retry-after", "2")]);
    }
}
