//! What a Gemini client says in its URL and nowhere else: the model, what is asked of it, and how the answer streams.
//!
//! It is put into the body as `model`, `stream` and `alt`, where the codec and the policy look for such things; the codec takes it
//! out again before the vendor gets the body. A key in the query is taken out of it.
//!
//! No choice of a model may be added here.

use headrace_codec::request::{Edit, RequestError, rewrite};

use crate::request::Operation;

/// What stands behind the colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Generate,
    Stream,
    Count,
}

/// A call of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    model: String,
    verb: Verb,
}

/// Reads a path: `/v1beta/models/MODEL:VERB`, in any version, also below a project and a publisher.
pub(crate) fn call(path: &str) -> Option<Call> {
    let rest = path.strip_prefix("/v1")?;
    let (_, named) = rest.split_once("/models/")?;
    let (model, verb) = named.rsplit_once(':')?;
    let verb = match verb {
        "generateContent" => Verb::Generate,
        "streamGenerateContent" => Verb::Stream,
        "countTokens" => Verb::Count,
        _ => return None,
    };
    let model = String::from_utf8(decoded(model)).ok().filter(|model| !model.is_empty())?;
    Some(Call { model, verb })
}

impl Call {
    pub(crate) fn operation(&self) -> Operation {
        if self.verb == Verb::Count { Operation::CountTokens } else { Operation::Generate }
    }
}

/// The body with what the URL says in it. One that is no JSON object stays, for the codec to refuse.
pub(crate) fn lifted(path: &str, query: Option<&str>, body: Vec<u8>) -> Result<Vec<u8>, RequestError> {
    let Some(Call { model, verb }) = call(path) else { return Ok(body) };
    let streams = verb == Verb::Stream;
    let mut edits = vec![Edit::new("/stream", Some(if streams { b"true" } else { b"false" }))?];
    if streams && !asks_events(query) {
        edits.push(Edit::new("/alt", Some(b"\"json\""))?);
    }
    Ok(rewrite(&body, Some(&model), &edits)?.to_vec())
}

/// Whether a stream is to be an event stream; else it is one JSON array.
pub(crate) fn asks_events(query: Option<&str>) -> bool {
    pairs(query).any(|(name, value)| (name == "alt" || name == "%24alt") && value.eq_ignore_ascii_case("sse"))
}

/// The query without `key`, and its value.
pub(crate) fn without_key(query: Option<&str>) -> (Option<String>, Option<Vec<u8>>) {
    let key = pairs(query).find(|(name, _)| *name == "key").map(|(_, value)| decoded(value));
    if key.is_none() {
        return (query.map(str::to_owned), None);
    }
    let rest: Vec<&str> =
        query.into_iter().flat_map(|q| q.split('&')).filter(|pair| pair.split('=').next() != Some("key")).collect();
    ((!rest.is_empty()).then(|| rest.join("&")), key)
}

fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    query.into_iter().flat_map(|q| q.split('&')).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Percent-decoded. What is no escape stays.
pub(crate) fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%').and_then(|d| std::str::from_utf8(d).ok());
        if let Some(byte) = digits.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            out.push(byte);
            rest = &after[2..];
        } else {
            out.push(*first);
            rest = after;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_a_model_and_what_is_asked_of_it() {
        for (path, model, verb) in [
            ("/v1beta/models/gemini-x:generateContent", "gemini-x", Verb::Generate),
            ("/v1/models/acme/m%3A8b:streamGenerateContent", "acme/m:8b", Verb::Stream),
            ("/v1/models/llama:8b:countTokens", "llama:8b", Verb::Count),
            ("/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent", "m", Verb::Generate),
        ] {
            assert_eq!(call(path), Some(Call { model: model.to_owned(), verb }), "{path}");
        }
        for path in [
            "/v1/models",
            "/v1beta/models/m",
            "/v1/models/:generateContent",
            "/v1/models/m:embed",
            "/x/models/m:countTokens",
        ] {
            assert_eq!(call(path), None, "{path}");
        }
    }

    #[test]
    fn the_body_learns_what_the_url_says() {
        let lift = |path: &str, query: Option<&str>, body: &str| {
            String::from_utf8(lifted(path, query, body.into()).unwrap()).unwrap()
        };
        let body = "{\"contents\":[], \"model\":\"models/m\"}";
        let got: String = lift("/v1/models/m:streamGenerateContent", Some("alt=sse&x"), body);
        assert!(got.contains("\"stream\":true") && got.contains("\"model\":\"m\"") && !got.contains("alt"), "{got}");
        let got = lift("/v1/models/m:streamGenerateContent", None, "{}");
        assert!(got.contains("\"alt\":\"json\""), "{got}");
        let got = lift("/v1/models/m:generateContent", None, "{}");
        assert!(got.contains("\"stream\":false") && !got.contains("alt"), "{got}");
        assert!(lifted("/v1/models/m:generateContent", None, b"[".to_vec()).is_err());
    }

    #[test]
    fn a_key_leaves_the_query() {
        assert_eq!(without_key(Some("alt=sse&key=a%2Fb&x=1")), (Some("alt=sse&x=1".to_owned()), Some(b"a/b".to_vec())));
        assert_eq!(without_key(Some("key=k")), (None, Some(b"k".to_vec())));
        assert_eq!(without_key(Some("alt=sse")), (Some("alt=sse".to_owned()), None));
        assert_eq!(without_key(None), (None, None));
    }
}
