//! Request bodies of one protocol to another's, as Python calls it.
//!
//! What a target can carry must not be added here: that is the codec's table.

use headrace_codec::event::Protocol;
use headrace_codec::request::{Edit, RequestError, Source, TargetFlags, TranslateSpec, translate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyType};

use crate::encoder::Loss;
use crate::error::{Error, Result};
use crate::events::class::Code;
use crate::text::push_json;

/// Translate a request's body; body and losses.
#[pyfunction]
#[pyo3(signature = (body, *, source, target, model, edits = None, provider = None, target_flags = Vec::new()))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 makes the arguments for this call")]
pub fn translate_request<'py>(
    py: Python<'py>,
    body: &[u8],
    source: &str,
    target: Code<Protocol>,
    model: &str,
    edits: Option<&Bound<'py, PyDict>>,
    provider: Option<&str>,
    target_flags: Vec<String>,
) -> Result<(Bound<'py, PyBytes>, Vec<Loss>)> {
    let edits = edits.map_or_else(|| Ok(Vec::new()), read_edits)?;
    let flags: Vec<&str> = target_flags.iter().map(String::as_str).collect();
    let spec = TranslateSpec {
        source: Source::from_name(source).ok_or_else(|| PyValueError::new_err("no such source"))?,
        target: target.0,
        model,
        provider,
        edits: &edits,
        target_flags: TargetFlags::from_names(&flags).map_err(PyValueError::new_err)?,
    };
    let made = py.detach(|| translate(body, &spec))?;
    Ok((PyBytes::new(py, &made.body), made.losses.iter().map(Loss::from).collect()))
}

/// Edits as a `dict` of JSON pointer to value; `headrace.REMOVE` takes the key out.
pub fn read_edits(edits: &Bound<'_, PyDict>) -> PyResult<Vec<Edit>> {
    static REMOVED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let removed = REMOVED.import(edits.py(), "headrace.requests", "Removed")?;
    let mut list = Vec::with_capacity(edits.len());
    for (pointer, value) in edits.iter() {
        let pointer: String = pointer.extract()?;
        let edit = if value.is_instance(removed)? {
            Edit::new(&pointer, None)
        } else {
            let mut json = Vec::new();
            push_json(&value, &mut json)?;
            Edit::new(&pointer, Some(&json))
        };
        list.push(edit.map_err(|RequestError { message, .. }| Error::Python(PyValueError::new_err(message)))?);
    }
    Ok(list)
}
