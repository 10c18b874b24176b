//! What Python decided, read off its value types (`headrace.requests`) by their fields.
//!
//! A value that does not fit is an error of ours and raised as such; nothing is guessed.

use std::time::Duration;

use headrace_edge::policy::{
    Answer, AttemptSpec, BodySource, Counts, Deadlines, Decision, Hedge, Plan, Refusal, Relay, Secret,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::super::runtime::{SecretIn, SignerIn};
use super::jobs::{BodyRecipe, protocol_named};

/// Reads a `Plan`, `AttemptSpec`, `Refusal` or `Answer`.
pub fn read(answer: &Bound<'_, PyAny>) -> PyResult<Decision> {
    let class = answer.get_type();
    let name = class.name()?;
    match name.to_str()? {
        "Plan" => plan(answer).map(|plan| Decision::Plan(Box::new(plan))),
        "AttemptSpec" => spec(answer).map(|spec| Decision::Attempt(Box::new(spec))),
        "Refusal" => refusal(answer).map(Decision::Refusal),
        "Answer" => whole(answer).map(Decision::Answer),
        other => Err(PyTypeError::new_err(format!("{other} is no answer to a job"))),
    }
}

fn plan(value: &Bound<'_, PyAny>) -> PyResult<Plan> {
    let py = value.py();
    let relay = value.getattr(intern!(py, "relay"))?;
    Ok(Plan {
        token: value.getattr(intern!(py, "token"))?.extract()?,
        spec: spec(&value.getattr(intern!(py, "spec"))?)?,
        client_protocol: protocol_named(value.getattr(intern!(py, "client_protocol"))?.extract()?)?,
        relay: relay_named(relay.extract()?)?,
    })
}

fn relay_named(name: &str) -> PyResult<Relay> {
    match name {
        "verbatim" => Ok(Relay::Verbatim),
        "normalised" => Ok(Relay::Normalised),
        "opaque" => Ok(Relay::Opaque),
        "gathered" => Ok(Relay::Gathered { verbatim: false }),
        "gathered_verbatim" => Ok(Relay::Gathered { verbatim: true }),
        _ => Err(PyValueError::new_err("no such relay")),
    }
}

/// What was read of an `AttemptSpec` that is given for one request after the other.
#[pyclass(frozen, module = "headrace._core")]
struct Sealed(AttemptSpec);

fn spec(value: &Bound<'_, PyAny>) -> PyResult<AttemptSpec> {
    let py = value.py();
    let sealed = value.getattr(intern!(py, "sealed"))?;
    if let Ok(known) = sealed.cast::<Sealed>() {
        return Ok(known.get().0.clone());
    }
    let spec = read_spec(value)?;
    if sealed.is_truthy()? {
        value.setattr(intern!(py, "sealed"), Sealed(spec.clone()))?;
    }
    Ok(spec)
}

fn read_spec(value: &Bound<'_, PyAny>) -> PyResult<AttemptSpec> {
    let py = value.py();
    let transport = value.getattr(intern!(py, "transport"))?;
    // The address says it too, and the kernel goes by that.
    let scheme = match transport.extract::<&str>()? {
        "http" => "http",
        "websocket" => "ws",
        _ => return Err(PyValueError::new_err("transport must be http or websocket")),
    };
    let url: String = value.getattr(intern!(py, "url"))?.extract()?;
    if !url.starts_with(scheme) {
        return Err(PyValueError::new_err("the transport is not that of the URL"));
    }
    let relay = value.getattr(intern!(py, "relay"))?;
    Ok(AttemptSpec {
        method: value.getattr(intern!(py, "method"))?.extract()?,
        url,
        headers: headers(&value.getattr(intern!(py, "headers"))?)?,
        body: body(&value.getattr(intern!(py, "body"))?)?,
        protocol: protocol_named(value.getattr(intern!(py, "protocol"))?.extract()?)?,
        deadlines: deadlines(&value.getattr(intern!(py, "deadlines"))?)?,
        provider: value.getattr(intern!(py, "provider"))?.extract()?,
        think_tags: value.getattr(intern!(py, "think_tags"))?.extract()?,
        usage_asked: value.getattr(intern!(py, "usage_asked"))?.extract()?,
        delay: seconds(value.getattr(intern!(py, "delay"))?.extract()?)?,
        fresh_connection: value.getattr(intern!(py, "fresh_connection"))?.extract()?,
        signer: value
            .getattr(intern!(py, "signer"))?
            .extract::<Option<SignerIn>>()?
            .map(|signer| Box::new(signer.edge())),
        proxy: value.getattr(intern!(py, "proxy"))?.extract::<Option<SecretIn>>()?.map(|proxy| Secret(proxy.0)),
        http2: value.getattr(intern!(py, "http2"))?.extract()?,
        relay: relay.extract::<Option<&str>>()?.map(relay_named).transpose()?,
        told: value.getattr(intern!(py, "told"))?.extract()?,
        hedge: hedge(&value.getattr(intern!(py, "hedge"))?)?,
        secrets: value.getattr(intern!(py, "secrets"))?.extract::<Vec<String>>()?.into_iter().map(Secret).collect(),
    })
}

fn hedge(value: &Bound<'_, PyAny>) -> PyResult<Option<Box<Hedge>>> {
    if value.is_none() {
        return Ok(None);
    }
    let py = value.py();
    Ok(Some(Box::new(Hedge {
        after: seconds(value.getattr(intern!(py, "after"))?.extract()?)?,
        spec: spec(&value.getattr(intern!(py, "spec"))?)?,
    })))
}

fn headers(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Secret)>> {
    let mut list = Vec::with_capacity(value.len()?);
    for pair in value.try_iter()? {
        let (name, value): (String, Bound<'_, PyString>) = pair?.extract()?;
        list.push((name, Secret(value.to_str()?.to_owned())));
    }
    Ok(list)
}

fn body(value: &Bound<'_, PyAny>) -> PyResult<BodySource> {
    if let Ok(recipe) = value.cast::<BodyRecipe>() {
        return Ok(BodySource::Recipe(recipe.get().recipe.clone()));
    }
    Ok(BodySource::Bytes(value.cast::<PyBytes>()?.as_bytes().to_vec()))
}

fn deadlines(value: &Bound<'_, PyAny>) -> PyResult<Deadlines> {
    let py = value.py();
    let read = |name| -> PyResult<Option<Duration>> {
        let limit: Option<f64> = value.getattr(name)?.extract()?;
        limit.map(seconds).transpose()
    };
    Ok(Deadlines {
        connect: read(intern!(py, "connect"))?,
        first_byte: read(intern!(py, "first_byte"))?,
        idle: read(intern!(py, "idle"))?,
        content: read(intern!(py, "content"))?,
        total: read(intern!(py, "total"))?,
    })
}

fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn refusal(value: &Bound<'_, PyAny>) -> PyResult<Refusal> {
    let py = value.py();
    Ok(Refusal {
        code: value.getattr(intern!(py, "code"))?.extract()?,
        message: value.getattr(intern!(py, "message"))?.extract()?,
        status: value.getattr(intern!(py, "status"))?.extract()?,
        param: value.getattr(intern!(py, "param"))?.extract()?,
        retry_at: value.getattr(intern!(py, "retry_at"))?.extract()?,
        should_retry: value.getattr(intern!(py, "should_retry"))?.extract()?,
        tell_failure: !value.getattr(intern!(py, "error"))?.is_none(),
    })
}

fn whole(value: &Bound<'_, PyAny>) -> PyResult<Answer> {
    let py = value.py();
    let mut headers = Vec::new();
    for pair in value.getattr(intern!(py, "headers"))?.try_iter()? {
        headers.push(pair?.extract()?);
    }
    Ok(Answer {
        status: value.getattr(intern!(py, "status"))?.extract()?,
        content_type: value.getattr(intern!(py, "content_type"))?.extract()?,
        headers,
        body: value.getattr(intern!(py, "body"))?.cast::<PyBytes>()?.as_bytes().to_vec(),
        usage: Counts {
            input_tokens: value.getattr(intern!(py, "input_tokens"))?.extract()?,
            output_tokens: value.getattr(intern!(py, "output_tokens"))?.extract()?,
            ..Counts::default()
        },
    })
}
