//! What holds for every attempt of one request: who asks, in which protocol, and how the answer is to look.
//!
//! No socket and no clock may be added here.

use std::borrow::Cow;
use std::cell::RefCell;

use headrace_codec::Protocol;
use headrace_codec::encode::{Encoder, EncoderConfig, error_end};
use headrace_codec::loss::Loss;
use headrace_codec::request::TargetFlags;

use crate::answer::Manner;
use crate::limits;
use crate::policy::{AttemptSpec, BodySource, OwnedError, Relay};
use crate::reading::{Kind, Reading};
use crate::request::ClientRequest;
use crate::upstream::Made;

pub(crate) struct Terms<'a> {
    pub request: &'a ClientRequest,
    pub spec: &'a AttemptSpec,
    pub relay: Relay,
    pub client_protocol: Protocol,
    /// The client asked for a stream.
    pub stream: bool,
    pub http10: bool,
    pub manner: Manner,
    /// Unix time in seconds.
    pub created: u64,
    /// What was sent, until the answer commits.
    pub made: &'a RefCell<Made>,
}

impl Terms<'_> {
    /// How an answer with this head is read.
    pub(crate) fn kind(&self, status: u16, content_type: Option<&str>) -> Kind {
        if !(200..300).contains(&status) {
            return Kind::Failure;
        }
        // An upstream that says it streams where no stream was asked for, or the reverse, is encoded anew: the client
        // gets what it asked for. Other types say nothing: vendors send streams as text or bytes, too.
        let said = content_type.map_or("", media_type);
        let is = |kind: &str| said.eq_ignore_ascii_case(kind);
        let as_asked = if self.stream { !is(JSON) } else { !is(EVENT_STREAM) && !is(LINES) };
        let array = self.request.wants_array();
        match self.relay {
            Relay::Opaque => Kind::Opaque,
            Relay::Gathered { .. } => Kind::Gathered,
            // Upstream every stream is asked for as one of events.
            Relay::Verbatim if array && is(EVENT_STREAM) => Kind::elements(),
            Relay::Verbatim if as_asked && self.stream && !array => {
                Kind::frames(self.spec.usage_asked && !self.request.facts.include_usage)
            }
            Relay::Verbatim if as_asked && !self.stream => Kind::Body,
            Relay::Verbatim | Relay::Normalised => Kind::Events(Box::new(Encoder::new(self.encoder(self.stream)))),
        }
    }

    fn encoder(&self, stream: bool) -> EncoderConfig {
        // A Responses object repeats what was asked; tools come back under the names that the client gave them.
        let wanted = self.client_protocol == Protocol::OpenaiResponses || !self.request.facts.tool_names.is_empty();
        let request = wanted.then(|| self.request.body()).flatten().map(|body| body.to_vec());
        let prefix = match self.client_protocol {
            Protocol::OpenaiResponses => "resp_",
            Protocol::AnthropicMessages => "msg_",
            Protocol::GoogleGemini => "",
            _ => "chatcmpl-",
        };
        EncoderConfig {
            protocol: self.client_protocol,
            stream,
            model: self.request.facts.model.clone().unwrap_or_default(),
            response_id: format!("{prefix}{}", self.request.id.trim_start_matches("req_")),
            created: self.created,
            include_usage: self.request.facts.include_usage,
            request,
            provider: self.spec.provider.clone(),
            family: Some(self.spec.protocol),
            array: self.request.wants_array(),
            target_flags: match &self.spec.body {
                BodySource::Recipe(recipe) => recipe.flags,
                BodySource::Bytes(_) => TargetFlags::default(),
            },
        }
    }

    /// The headers of the answer that are ours, but for its framing and the request's id. `said`: the upstream's content type.
    pub(crate) fn headers<'h>(
        &'h self,
        said: Option<&'h str>,
        streams: bool,
        kind: &Kind,
    ) -> Vec<(&'h str, Cow<'h, str>)> {
        let default = match (streams, self.client_protocol) {
            (true, Protocol::OllamaChat) => LINES,
            (true, _) if !self.request.wants_array() => EVENT_STREAM,
            _ => JSON,
        };
        let own = match kind {
            Kind::Events(_) => None,
            // A stream is told as one, whatever the upstream called it.
            _ => said.filter(|own| !streams || media_type(own).eq_ignore_ascii_case(default)),
        };
        let mut lines = vec![("content-type", Cow::Borrowed(own.unwrap_or(default)))];
        if streams {
            lines.extend([("cache-control", Cow::Borrowed("no-cache")), ("x-accel-buffering", Cow::Borrowed("no"))]);
        }
        lines.extend(self.spec.told.iter().map(|(n, v)| (n.as_str(), Cow::Borrowed(v.as_str()))));
        let losses = loss_header(&self.made.borrow().losses);
        if !losses.is_empty() {
            lines.push(("x-headrace-loss", Cow::Owned(losses)));
        }
        lines
    }

    /// The answer has committed: a stream of an hour holds no prompt.
    pub(crate) fn release_body(&self) {
        self.request.release_body();
        self.made.borrow_mut().release();
    }

    /// The end of a stream that was cut, in the client's protocol.
    pub(crate) fn error_events(&self, reading: &Reading, error: &OwnedError) -> Vec<u8> {
        let mut config = self.encoder(true);
        if let Some(id) = &reading.tally.response_id {
            config.response_id.clone_from(id);
        }
        error_end(config, reading.told(), &error.as_event())
    }
}

pub(crate) fn is_event_stream(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|said| media_type(said).eq_ignore_ascii_case(EVENT_STREAM))
}

/// A content type without its parameters.
fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or("").trim()
}

/// The paths of what did not pass unchanged, as many as fit.
fn loss_header(losses: &[Loss]) -> String {
    let mut value = String::new();
    for loss in losses {
        // A path of a client's own key may hold anything; a header may not.
        let printable = loss.path.bytes().all(|b| b.is_ascii_graphic() && b != b',' && b != b';');
        let needed = loss.path.len() + loss.action.code().len() + 3;
        if !printable || value.len() + needed > limits::LOSS_HEADER {
            continue;
        }
        if !value.is_empty() {
            value.push_str(", ");
        }
        value.push_str(&loss.path);
        value.push(';');
        value.push_str(loss.action.code());
    }
    value
}

const LINES: &str = "application/x-ndjson";
const EVENT_STREAM: &str = "text/event-stream";
pub(crate) const JSON: &str = "application/json";

#[cfg(test)]
mod tests {
    use headrace_codec::loss::LossAction;

    use super::*;

    #[test]
    fn losses_are_told_by_path_within_the_bound() {
        let loss = |path: &str| Loss { path: path.into(), action: LossAction::Dropped };
        assert_eq!(
            loss_header(&[loss("seed"), loss("a\r\nb"), loss("tools[0].strict")]),
            "seed;dropped, tools[0].strict;dropped"
        );
        let many: Vec<Loss> = (0..500).map(|i| loss(&format!("metadata.k{i}"))).collect();
        let value = loss_header(&many);
        assert!(value.len() <= limits::LOSS_HEADER && value.len() > limits::LOSS_HEADER - 40, "{}", value.len());
    }
}
