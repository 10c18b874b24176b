//! `headrace._core`: the export list, and nothing else.

use pyo3::prelude::*;

mod toml;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::toml::toml_document;
}
