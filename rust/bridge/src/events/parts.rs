//! The small values inside events: what a continuation belongs to, what an intent was assembled from.

use headrace_codec::event::{Assembled, AttachTo};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::class::{Code, Show};

/// What a continuation belongs to: `reasoning`, `call`, `text` or `response`, and its index.
#[pyclass(frozen, get_all, eq, hash, from_py_object, module = "headrace")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Attach {
    pub to: Code<AttachTo>,
    pub index: u32,
}

#[pymethods]
impl Attach {
    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(py, ["to", "index"])
    }

    #[new]
    #[pyo3(signature = (to, index = 0))]
    fn new(to: Code<AttachTo>, index: u32) -> Self {
        Attach { to, index }
    }

    fn __repr__(&self) -> String {
        format!("Attach(to='{}', index={})", self.to.0.code(), self.index)
    }

    /// The value as a `dict`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("to", &self.to)?;
        dict.set_item("index", self.index)?;
        Ok(dict)
    }
}

impl Show for Attach {
    fn show(&self, _: Python<'_>, out: &mut String) {
        out.push_str(&self.__repr__());
    }
}

/// What an intent was assembled from.
#[pyclass(frozen, get_all, eq, hash, from_py_object, module = "headrace")]
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct AssembledFrom {
    pub event_count: u64,
    pub first_offset: u64,
    pub last_offset: u64,
    pub had_repair: bool,
}

#[pymethods]
impl AssembledFrom {
    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(py, ["event_count", "first_offset", "last_offset", "had_repair"])
    }

    #[new]
    #[pyo3(signature = (event_count = 0, first_offset = 0, last_offset = 0, had_repair = false))]
    fn new(event_count: u64, first_offset: u64, last_offset: u64, had_repair: bool) -> Self {
        AssembledFrom { event_count, first_offset, last_offset, had_repair }
    }

    fn __repr__(&self) -> String {
        format!(
            "AssembledFrom(event_count={}, first_offset={}, last_offset={}, had_repair={})",
            self.event_count,
            self.first_offset,
            self.last_offset,
            if self.had_repair { "True" } else { "False" }
        )
    }

    /// The value as a `dict`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("event_count", self.event_count)?;
        dict.set_item("first_offset", self.first_offset)?;
        dict.set_item("last_offset", self.last_offset)?;
        dict.set_item("had_repair", self.had_repair)?;
        Ok(dict)
    }
}

impl From<Assembled> for AssembledFrom {
    fn from(a: Assembled) -> Self {
        AssembledFrom {
            event_count: a.event_count,
            first_offset: a.first_offset,
            last_offset: a.last_offset,
            had_repair: a.had_repair,
        }
    }
}

impl From<&AssembledFrom> for Assembled {
    fn from(a: &AssembledFrom) -> Self {
        Assembled {
            event_count: a.event_count,
            first_offset: a.first_offset,
            last_offset: a.last_offset,
            had_repair: a.had_repair,
        }
    }
}
