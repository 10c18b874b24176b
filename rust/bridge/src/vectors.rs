//! Vectors between JSON and bytes, without the interpreter's lock.
//!
//! What a vector is for must not be added here.

use headrace_codec::numbers;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The same JSON with each long array of numbers as a string: base64 of little-endian floats.
#[pyfunction]
pub fn pack_floats<'py>(py: Python<'py>, body: &[u8]) -> Bound<'py, PyBytes> {
    // The lock that makes this necessary: megabytes of numbers must not keep every other thread waiting.
    let made = py.detach(|| numbers::pack(body));
    PyBytes::new(py, &made)
}

/// Little-endian floats as a JSON array.
#[pyfunction]
pub fn float_array<'py>(py: Python<'py>, data: &[u8]) -> Bound<'py, PyBytes> {
    let made = py.detach(|| numbers::array(data));
    PyBytes::new(py, &made)
}
