//! Why a request body was not translated.

use crate::json::Malformed;

/// The client's own mistake, or a wish that the target cannot carry. Holds a path and never a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    pub status: u16,
    /// `invalid_json`, `invalid_request` or `unsupported_feature`.
    pub code: &'static str,
    /// The field, as a path in the client's body: `messages[3].content[0].image_url`.
    pub param: Option<String>,
    pub message: String,
}

impl RequestError {
    /// The body, or a field of it, is not what the protocol has.
    #[must_use]
    pub fn invalid(param: Option<String>, message: String) -> Self {
        RequestError { status: 400, code: "invalid_request", param, message }
    }

    /// The field is fine and the target has nothing like it.
    #[must_use]
    pub fn unsupported(param: String, message: String) -> Self {
        RequestError { status: 400, code: "unsupported_feature", param: Some(param), message }
    }

    /// `param` holds a value of another type than `wanted`.
    #[must_use]
    pub fn expected(param: String, wanted: &str) -> Self {
        let message = if param.is_empty() {
            format!("the body: expected {wanted}")
        } else {
            format!("{param}: expected {wanted}")
        };
        RequestError::invalid((!param.is_empty()).then_some(param), message)
    }

    /// `key` stands twice in the object at `param`.
    #[must_use]
    pub fn duplicate(param: String) -> Self {
        let message = format!("{param}: the key stands twice");
        RequestError::invalid(Some(param), message)
    }
}

impl From<Malformed> for RequestError {
    fn from(e: Malformed) -> Self {
        RequestError {
            status: 400,
            code: "invalid_json",
            param: None,
            message: format!("the body is not JSON at byte {}: expected {}", e.at, e.what),
        }
    }
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}

pub(super) type Res<T> = Result<T, RequestError>;

/// At most this much of a key that the client wrote goes into a path.
const SHOWN: usize = 64;

/// A client's key as it may stand in a path, a header or a log: printable ASCII, short, no separators of paths.
pub(super) fn shown(key: &str) -> String {
    key.chars()
        .take(SHOWN)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$' | '/' | ':' | '@') { c } else { '?' })
        .collect()
}
