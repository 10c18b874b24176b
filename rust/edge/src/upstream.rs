//! Between the policy's words and the kernel's: a spec to be sent, a head that came, a failure.
//!
//! 1. A body's recipe is carried out here, on the edge thread, before the attempt connects; attempts with the same
//!    recipe use its result again. What the recipe does not touch is never copied.
//! 2. A failure is named by the kernel's facts or by the codec's table, never here.
//!
//! No socket is read here.

use std::mem::take;
use std::sync::Arc;

use bytes::Bytes;
use headrace_codec::error::ErrorKind;
use headrace_codec::event::ErrorPhase;
use headrace_codec::loss::Loss;
use headrace_codec::pipeline::{Decoder, DecoderConfig, End};
use headrace_codec::request::{RequestError, Source, TranslateSpec, Translation, passes, relay, translate};
use headrace_kernel::{
    AttemptSpec as KernelSpec, Cause, Deadlines as KernelDeadlines, Failure as KernelFailure, Proxy, SigV4, Url,
};

use crate::policy::{AttemptSpec, BodySource, OwnedError, Signer};
use crate::request::{ClientRequest, Recipe};

/// A provider's body, ready to be sent, and the recipe it was made by.
#[derive(Debug, Default)]
pub(crate) struct Made {
    recipe: Option<Arc<Recipe>>,
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) losses: Vec<Loss>,
}

impl Made {
    /// Makes the body of `source`, unless it is the one that was made last. Bytes are taken out of it.
    pub(crate) fn make(&mut self, request: &ClientRequest, source: &mut BodySource) -> Result<(), RequestError> {
        let recipe = match source {
            BodySource::Bytes(bytes) => {
                *self = Made { recipe: None, pieces: vec![Bytes::from(take(bytes))], losses: Vec::new() };
                return Ok(());
            }
            BodySource::Recipe(recipe) => recipe,
        };
        if self.recipe.as_ref().is_some_and(|last| Arc::ptr_eq(last, recipe) || last == recipe) {
            return Ok(());
        }
        // The body is given away when the answer commits, and nothing is attempted after that.
        let body = request.body().unwrap_or_default();
        let (pieces, losses): (Vec<Bytes>, Vec<Loss>) =
            if passes(Source::Protocol(request.protocol), recipe.protocol, recipe.flags) {
                let whole = Bytes::from_owner(SharedBody(Arc::clone(&body)));
                let layout = Some(&request.facts.layout);
                let (slices, losses) = relay(&body, recipe.protocol, layout, Some(&recipe.model), &recipe.edits)?;
                (slices.iter().map(|piece| part_of(&whole, piece)).collect(), losses)
            } else {
                let spec = TranslateSpec {
                    source: Source::Protocol(request.protocol),
                    target: recipe.protocol,
                    model: &recipe.model,
                    provider: recipe.provider.as_deref(),
                    edits: &recipe.edits,
                    target_flags: recipe.flags,
                };
                let Translation { body, losses } = translate(&body, &spec)?;
                (vec![Bytes::from(body)], losses)
            };
        *self = Made { recipe: Some(Arc::clone(recipe)), pieces, losses };
        Ok(())
    }

    /// Lets go of the body; the losses stay.
    pub(crate) fn release(&mut self) {
        self.recipe = None;
        self.pieces = Vec::new();
    }
}

struct SharedBody(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBody {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// `piece` without a copy where it lies in `whole`.
fn part_of(whole: &Bytes, piece: &[u8]) -> Bytes {
    if whole.as_ptr_range().contains(&piece.as_ptr()) { whole.slice_ref(piece) } else { Bytes::copy_from_slice(piece) }
}

/// What the kernel is to send. It takes the headers, the signer and the proxy, which nobody else needs. `unix_s`: the time that a
/// signature tells.
pub(crate) fn kernel_spec(
    spec: &mut AttemptSpec,
    body: Vec<Bytes>,
    unix_s: u64,
) -> Result<KernelSpec, Box<OwnedError>> {
    let unsendable = |message: &str| Box::new(OwnedError::new(ErrorKind::BadRequest, ErrorPhase::Request, message));
    let mut url = Url::parse(&spec.url).map_err(|e| unsendable(&e.to_string()))?;
    if let Some(proxy) = spec.proxy.take() {
        url.endpoint.proxy = Some(Arc::new(Proxy::parse(&proxy.0).map_err(|e| unsendable(&e.to_string()))?));
    }
    let headers = take(&mut spec.headers).into_iter().map(|(name, value)| (name, value.0)).collect();
    let d = &spec.deadlines;
    let deadlines = KernelDeadlines {
        connect: d.connect,
        first_byte: d.first_byte,
        idle: d.idle,
        content: d.content,
        total: d.total,
    };
    let signer = spec.signer.take().map(|signer| {
        let Signer { region, service, access_key_id, secret_access_key, session_token } = *signer;
        Box::new(SigV4 {
            region,
            service,
            access_key_id: access_key_id.0,
            secret_access_key: secret_access_key.0,
            session_token: session_token.map(|token| token.0),
            unix_s,
        })
    });
    let (method, http2) = (take(&mut spec.method), spec.http2);
    Ok(KernelSpec { method, url, headers, body, deadlines, http2, signer })
}

/// The decoder of an answer to `spec`.
pub(crate) fn decoder(spec: &AttemptSpec, status: u16, headers: Vec<(String, String)>) -> Decoder {
    let mut config = DecoderConfig::new(spec.protocol);
    config.status = status;
    config.headers = headers;
    config.think_tags = spec.think_tags;
    config.provider.clone_from(&spec.provider);
    Decoder::new(config)
}

/// How the body ended, in the decoder's words.
pub(crate) fn end_of(failure: &KernelFailure) -> End {
    match failure.cause {
        Cause::Deadline(_) => End::Timeout,
        _ => End::Reset,
    }
}

/// An attempt that failed before its head came.
pub(crate) fn error_of(spec: &AttemptSpec, failure: &KernelFailure) -> OwnedError {
    let mut error = OwnedError::new(failure.kind, failure.phase, &failure.to_string());
    error.provider.clone_from(&spec.provider);
    error
}

/// A client's body that no provider's can be made of, as the end of its request.
pub(crate) fn request_error(error: &RequestError) -> OwnedError {
    let mut told = OwnedError::new(ErrorKind::BadRequest, ErrorPhase::Request, &error.message);
    told.status = Some(error.status);
    told.code = Some(error.code.to_owned());
    told
}
