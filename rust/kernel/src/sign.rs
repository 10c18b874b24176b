//! AWS Signature Version 4: an attempt's headers signed together with the bytes of its body.
//!
//! 1. What is signed is what is sent: the kernel signs directly before it writes the head, over the body's own pieces.
//! 2. The time is the owner's word; there is no clock here.
//! 3. The path is encoded once more for the canonical request, as every service but S3 has it.
//! 4. Every header that was given is signed, but for those that a hop may change ([`UNSIGNED`]).
//! 5. The secret and the session's token are never shown.
//!
//! Where credentials come from, and when they end, must not be added here.

use std::fmt;
use std::fmt::Write as _;

use bytes::Bytes;
use ring::{digest, hmac};

use crate::spec::AttemptSpec;

/// Whose signature, for which service, at what time.
#[derive(Clone, PartialEq, Eq)]
pub struct SigV4 {
    pub region: String,
    pub service: String,
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
    /// Seconds since 1970.
    pub unix_s: u64,
}

impl fmt::Debug for SigV4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigV4")
            .field("region", &self.region)
            .field("service", &self.service)
            .field("unix_s", &self.unix_s)
            .finish_non_exhaustive()
    }
}

/// Headers that are sent unsigned: hops change them, and the transport writes some.
const UNSIGNED: [&str; 8] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "expect",
    "transfer-encoding",
    "user-agent",
    "x-amzn-trace-id",
];

impl SigV4 {
    /// Adds the date, the session's token and the signature to the headers.
    pub(crate) fn sign(&self, spec: &mut AttemptSpec) {
        let (date, time) = self.date();
        spec.headers.retain(|(name, _)| {
            !["authorization", "x-amz-date", "x-amz-security-token"].iter().any(|own| name.eq_ignore_ascii_case(own))
        });
        spec.headers.push(("x-amz-date".to_owned(), time.clone()));
        if let Some(token) = &self.session_token {
            spec.headers.push(("x-amz-security-token".to_owned(), token.clone()));
        }
        let (names, request) = canonical(spec);
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        let hashed = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
        let told = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashed}");
        let signature = hex(mac(self.key(&date).as_ref(), &told).as_ref());
        spec.headers.push((
            "authorization".to_owned(),
            format!(
                "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
                self.access_key_id
            ),
        ));
    }

    fn key(&self, date: &str) -> hmac::Tag {
        let of_date = mac(format!("AWS4{}", self.secret_access_key).as_bytes(), date);
        let of_region = mac(of_date.as_ref(), &self.region);
        let of_service = mac(of_region.as_ref(), &self.service);
        mac(of_service.as_ref(), "aws4_request")
    }

    /// `20150830` and `20150830T123600Z`.
    fn date(&self) -> (String, String) {
        let (year, month, day) = civil(self.unix_s / 86_400);
        let second = self.unix_s % 86_400;
        let date = format!("{year:04}{month:02}{day:02}");
        let time = format!("{date}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60);
        (date, time)
    }
}

/// The names of the signed headers, and the canonical request.
fn canonical(spec: &AttemptSpec) -> (String, String) {
    let (path, query) = spec.url.target.split_once('?').unwrap_or((&spec.url.target, ""));
    let mut headers: Vec<(String, String)> = vec![("host".to_owned(), spec.url.authority.clone())];
    for (name, value) in &spec.headers {
        let name = name.to_ascii_lowercase();
        if UNSIGNED.contains(&name.as_str()) || name == "host" {
            continue;
        }
        let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        match headers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, before)) => {
                before.push(',');
                before.push_str(&value);
            }
            None => headers.push((name, value)),
        }
    }
    headers.sort();
    let names = headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let mut out = format!("{}\n{}\n{}\n", spec.method, canonical_path(path), canonical_query(query));
    for (name, value) in &headers {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name}:{value}");
    }
    let _ = write!(out, "\n{names}\n{}", body_hash(&spec.body));
    (names, out)
}

/// The path without dot segments, encoded once more.
fn canonical_path(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let mut out = String::with_capacity(path.len() + 16);
    for segment in &kept {
        out.push('/');
        for byte in segment.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    // A slash at the end stays, and so does the root's own.
    if kept.is_empty() || path.ends_with('/') {
        out.push('/');
    }
    out
}

/// The query's pairs in order, as they are encoded.
fn canonical_query(query: &str) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(&str, &str)> = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    pairs.sort_unstable();
    pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&")
}

fn body_hash(pieces: &[Bytes]) -> String {
    let mut hash = digest::Context::new(&digest::SHA256);
    for piece in pieces {
        hash.update(piece);
    }
    hex(hash.finish().as_ref())
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Year, month and day of a day since 1970, in the Gregorian calendar. Years are counted from March, so that the leap
/// day is a year's last; 146,097 days are 400 years.
fn civil(day: u64) -> (u64, u64, u64) {
    let since = day + 719_468; // 0000-03-01
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + 400 * era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Deadlines, Url};

    /// The credentials of AWS's own published examples.
    fn signer(service: &str) -> SigV4 {
        SigV4 {
            region: "us-east-1".into(),
            service: service.into(),
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: None,
            unix_s: 1_440_938_160,
        }
    }

    fn signed(method: &str, url: &str, headers: &[(&str, &str)], body: &str, signer: &SigV4) -> AttemptSpec {
        let mut spec = AttemptSpec {
            method: method.into(),
            url: Url::parse(url).unwrap(),
            headers: headers.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            body: vec![Bytes::copy_from_slice(body.as_bytes())],
            deadlines: Deadlines::default(),
            http2: false,
            signer: None,
        };
        signer.sign(&mut spec);
        spec
    }

    fn authorization(spec: &AttemptSpec) -> &str {
        &spec.headers.iter().find(|(name, _)| name == "authorization").unwrap().1
    }

    #[test]
    fn the_examples_of_the_documentation_have_these_signatures() {
        let form = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
        let spec =
            signed("GET", "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", &form, "", &signer("iam"));
        assert_eq!(
            authorization(&spec),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
        let key = signer("iam").key("20150830");
        assert_eq!(hex(key.as_ref()), "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
        // "get-vanilla" of the published suite.
        let spec = signed("GET", "https://example.amazonaws.com/", &[], "", &signer("service"));
        assert!(
            authorization(&spec)
                .ends_with("Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31")
        );
    }

    #[test]
    fn pieces_sign_as_the_whole_and_a_token_is_signed_along() {
        let mut with_token = signer("bedrock");
        with_token.session_token = Some("tok en".into());
        let url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/a%3A0/converse";
        let whole = signed("POST", url, &[("Accept", "a  b")], "{\"a\":1}", &with_token);
        assert!(authorization(&whole).contains("SignedHeaders=accept;host;x-amz-date;x-amz-security-token"));
        let mut pieces = whole.clone();
        pieces.body = vec![Bytes::from_static(b"{\"a\""), Bytes::new(), Bytes::from_static(b":1}")];
        with_token.sign(&mut pieces);
        assert_eq!(authorization(&pieces), authorization(&whole), "signing again replaces what was signed");
        assert_eq!(pieces.headers.len(), whole.headers.len());
        let mut other = whole.clone();
        other.body = vec![Bytes::from_static(b"{\"a\":2}")];
        with_token.sign(&mut other);
        assert_ne!(authorization(&other), authorization(&whole));
    }

    #[test]
    fn paths_and_queries_are_canonical() {
        assert_eq!(canonical_path("/model/us.a-v1%3A0/converse"), "/model/us.a-v1%253A0/converse");
        assert_eq!(canonical_path("/"), "/");
        assert_eq!(canonical_path("//a//b/"), "/a/b/");
        assert_eq!(canonical_path("/a/./b/../c"), "/a/c");
        assert_eq!(canonical_path("/a:b"), "/a%3Ab");
        assert_eq!(canonical_query("b=2&a=1&b=1&c"), "a=1&b=1&b=2&c=");
    }

    #[test]
    fn dates_are_civil() {
        let of = |unix_s| SigV4 { unix_s, ..signer("s") }.date().1;
        assert_eq!(of(0), "19700101T000000Z");
        assert_eq!(of(951_782_399), "20000228T235959Z");
        assert_eq!(of(951_782_400), "20000229T000000Z");
        assert_eq!(of(4_107_542_400), "21000301T000000Z");
        assert_eq!(of(1_735_689_599), "20241231T235959Z");
    }

    #[test]
    fn no_secret_is_shown() {
        let mut one = signer("s");
        one.session_token = Some("hush".into());
        let shown = format!("{one:?}");
        assert!(shown.contains("us-east-1") && !shown.contains("hush") && !shown.contains("wJalr"), "{shown}");
        assert!(!shown.contains("AKID"));
    }
}
