//! Whole answers of the gateway's own: refusals, errors, health.
//!
//! 1. The body is in the format that the client speaks; the codec writes it.
//! 2. A head that cannot be written (a policy's header with a line end) becomes a 500 and no half head.
//!
//! No answer of a model may be added here.

use headrace_codec::Protocol;
use headrace_codec::encode::{Reply, refusal};
use headrace_http1::BodyKind;
use headrace_http1::write::{ResponseStart, response};

use crate::recipient::Recipient;
use crate::request::Problem;

/// How a whole answer is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The connection ends with it.
    pub close: bool,
    /// An answer to HEAD: no body.
    pub bodiless: bool,
}

pub(crate) fn stage<'a, I>(client: Recipient<'_>, manner: Manner, status: u16, headers: I, body: &[u8])
where
    I: IntoIterator<Item = (&'a str, &'a [u8])>,
{
    let client = match client {
        Recipient::Socket(socket) => socket,
        Recipient::Lane(lane) => return lane.tell(status, &headers.into_iter().collect::<Vec<_>>(), body),
    };
    let start = ResponseStart { status, body: BodyKind::Length(body.len() as u64), close: manner.close };
    let cross = client.cross_origin();
    let cross = cross.iter().map(|(n, v)| (*n, v.as_bytes()));
    #[expect(clippy::map_identity, reason = "the caller's pairs live longer than ours; this makes them one type")]
    let headers = headers.into_iter().map(|(name, value)| (name, value));
    client.stage(|out| {
        if response(out, start, cross.chain(headers)).is_err() {
            let start = ResponseStart { status: 500, body: BodyKind::Length(0), close: manner.close };
            // Without headers there is nothing left that the writer could refuse.
            let _ = response(out, start, []);
            return;
        }
        if !manner.bodiless {
            out.extend_from_slice(body);
        }
    });
}

/// Stages what the codec wrote, with our request id and `extra`.
pub(crate) fn stage_reply(
    client: Recipient<'_>,
    manner: Manner,
    format: Protocol,
    id: &str,
    reply: &Reply,
    extra: &[(&str, &str)],
) {
    let name = id_header(format);
    let own = reply.headers.iter().map(|(n, v)| (*n, v.as_str()));
    let own = own.filter(|(n, _)| *n != name && !extra.iter().any(|(e, _)| e == n));
    let all = own.chain(extra.iter().copied().filter(|(n, _)| *n != name)).chain([(name, id)]);
    stage(client, manner, reply.status, all.map(|(n, v)| (n, v.as_bytes())), &reply.body);
}

pub(crate) fn stage_problem(client: Recipient<'_>, manner: Manner, format: Protocol, id: &str, problem: &Problem) {
    let reply = refusal(format, problem.status, problem.code, &problem.message, problem.param);
    let allow = problem.allow.map(|methods| ("allow", methods));
    stage_reply(client, manner, format, id, &reply, allow.as_slice());
}

/// The header in which a client of `format` looks for the request's id.
pub(crate) fn id_header(format: Protocol) -> &'static str {
    match format {
        Protocol::AnthropicMessages => "request-id",
        _ => "x-request-id",
    }
}
