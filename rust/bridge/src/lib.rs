//! `headrace._core`: the export list, and nothing else.

use pyo3::prelude::*;

#[pymodule]
mod _core {}
