//! How long a vendor asks to wait: the hints of rule R14r, read without a clock.
//!
//! 1. The first positive hint counts, in the order of [`Hints`]; 0 where there are hints and none is
//!    positive; nothing where there is none.
//! 2. An absolute time is read against the `date` header of the same response. Without that it is no hint.
//! 3. What cannot be read is no hint and never an error.
//!
//! Waiting, and adding jitter, is the attempt owner's.

use crate::limits::MAX_RETRY_AFTER_S;

/// The hints found so far, as seconds.
#[derive(Debug, Default)]
pub(super) struct Hints {
    best: Option<f64>,
}

impl Hints {
    /// Takes the next hint in the order of rule R14r.
    pub(super) fn take(&mut self, seconds: Option<f64>) {
        let Some(seconds) = seconds.filter(|s| s.is_finite()) else { return };
        if self.best.is_none_or(|best| best <= 0.0) {
            self.best = Some(seconds.clamp(0.0, MAX_RETRY_AFTER_S));
        }
    }

    pub(super) fn seconds(&self) -> Option<f64> {
        self.best
    }
}

/// `retry-after-ms`: milliseconds.
pub(super) fn milliseconds(value: &str) -> Option<f64> {
    value.trim().parse::<f64>().ok().map(|ms| ms / 1000.0)
}

/// `retry-after`: seconds, or a date.
pub(super) fn seconds_or_date(value: &str, now: Option<i64>) -> Option<f64> {
    let value = value.trim();
    value.parse::<f64>().ok().or_else(|| until(seconds(http_date(value)?), now))
}

/// Seconds from `now` until an epoch time; one past 10¹² is in milliseconds.
pub(super) fn until(epoch: f64, now: Option<i64>) -> Option<f64> {
    let epoch = if epoch > 1e12 { epoch / 1000.0 } else { epoch };
    Some(epoch - seconds(now?))
}

/// A duration such as `38s`, `34.4s`, `20ms`, `1m26.4s`, `1h2m3s` or `9 seconds`; text may follow it.
/// Nothing where there is no number with a unit.
pub(super) fn duration(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut total = None;
    loop {
        let trimmed = rest.trim_start();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let Ok(number) = trimmed[..digits].trim_end_matches('.').parse::<f64>() else { return total };
        let after = trimmed[digits..].trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let Some(unit) = unit(&after[..letters]) else { return total };
        total = Some(total.unwrap_or(0.0) + number * unit);
        rest = &after[letters..];
    }
}

/// "try again in 5.2s", "Please retry in 10h17m5.7s", "retry after 9 seconds". `text` is in lower case.
pub(super) fn wording(text: &str) -> Option<f64> {
    WORDINGS.iter().find_map(|words| {
        let mut found = text.match_indices(words);
        found.find_map(|(at, _)| duration(&text[at + words.len()..]))
    })
}

fn unit(word: &str) -> Option<f64> {
    Some(match word {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

/// An HTTP date in any of its three forms, as epoch seconds.
pub(super) fn http_date(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|w| !w.is_empty()).collect();
    // "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"
    let (day, month, year, time) = match words[..] {
        [_, day, month, year, time, "GMT" | "UTC"] if month.len() == 3 => (day, month, year, time),
        [_, month, day, time, year] if month.len() == 3 => (day, month, year, time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|m| m.eq_ignore_ascii_case(month))?;
    let day = small(day).filter(|d| (1..=31).contains(d))?;
    let year = match (year.len(), small(year)?) {
        (2, y) if y < 70 => y + 2000,
        (2, y) => y + 1900,
        (4, y) if y >= 1970 => y,
        _ => return None,
    };
    let mut clock = time.split(':').map(small);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if clock.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let leaps = |y: i64| y / 4 - y / 100 + y / 400;
    let leap_today = i64::from(month > 1 && leaps(year) > leaps(year - 1));
    let days = (year - 1970) * 365 + leaps(year - 1) - leaps(1969) + DAYS_BEFORE[month] + leap_today + day - 1;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

fn small(word: &str) -> Option<i64> {
    let plain = (1..=4).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| word.parse().ok()).flatten()
}

/// Exact: dates of four-digit years are far below 2⁵³ seconds.
#[expect(clippy::cast_precision_loss, reason = "epoch seconds of four-digit years are exact in an f64")]
fn seconds(epoch: i64) -> f64 {
    epoch as f64
}

const WORDINGS: [&str; 3] = ["try again in ", "retry in ", "retry after "];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: Option<f64>, want: f64) {
        assert!((got.unwrap() - want).abs() < 1e-9, "{got:?} is not {want}");
    }

    #[test]
    fn durations_in_every_spelling() {
        near(duration("34.4s"), 34.4);
        near(duration("20ms."), 0.02);
        near(duration("1m26.4s"), 86.4);
        near(duration("10h17m5.7s."), 37_025.7);
        near(duration("9 seconds or so"), 9.0);
        near(duration("2 minutes"), 120.0);
        near(duration("1s. Visit 3 pages"), 1.0);
        assert_eq!(duration("30"), None);
        assert_eq!(duration("a while"), None);
        assert_eq!(duration("-3s"), None);
    }

    #[test]
    fn the_three_forms_of_a_date_are_one_time() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(http_date(text), Some(784_111_777), "{text}");
        }
        assert_eq!(http_date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        assert_eq!(http_date("Fri, 01 Mar 2024 00:00:00 GMT"), Some(1_709_251_200));
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        for bad in
            ["", "soon", "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 99 Nov 1994 08:49:37 GMT"]
        {
            assert_eq!(http_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_first_positive_hint_counts_and_zero_only_where_none_is() {
        let all = |list: &[Option<f64>]| {
            let mut hints = Hints::default();
            for hint in list {
                hints.take(*hint);
            }
            hints.seconds()
        };
        assert_eq!(all(&[None, None]), None);
        assert_eq!(all(&[Some(0.0), Some(1.0), Some(2.0)]), Some(1.0));
        assert_eq!(all(&[Some(-4.0), None]), Some(0.0));
        assert_eq!(all(&[Some(f64::NAN), Some(f64::INFINITY)]), None);
        assert_eq!(all(&[Some(1e300)]), Some(MAX_RETRY_AFTER_S));
    }

    #[test]
    fn an_absolute_time_needs_the_date_of_the_response() {
        let now = http_date("Sun, 06 Nov 1994 08:49:37 GMT");
        near(seconds_or_date("Sun, 06 Nov 1994 08:50:07 GMT", now), 30.0);
        assert_eq!(seconds_or_date("Sun, 06 Nov 1994 08:50:07 GMT", None), None);
        near(seconds_or_date(" 1.5 ", None), 1.5);
        near(until(784_111_780.0, now), 3.0);
        near(until(784_111_780_000.0 * 10.0, Some(7_841_117_770)), 30.0);
    }
}
