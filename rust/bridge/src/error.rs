//! Everything that can go wrong at the binding, and the one place where it becomes a Python exception.
//!
//! 1. The exception classes are Python's (`headrace.errors`); they are imported when first needed.
//! 2. A provider's failure is an event and no exception: what is raised here is misuse, or a request that cannot be
//!    carried out as it is.
//!
//! A second conversion must not be added elsewhere.

use headrace_codec::request::RequestError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyType};

/// What a bound function fails with.
pub enum Error {
    /// Python's own: a wrong type, no memory.
    Python(PyErr),
    /// The client's body, or a wish that the target cannot carry.
    Request(RequestError),
}

pub type Result<T> = std::result::Result<T, Error>;

impl From<PyErr> for Error {
    fn from(error: PyErr) -> Self {
        Error::Python(error)
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        Error::Request(error)
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> PyErr {
        match error {
            Error::Python(error) => error,
            Error::Request(error) => Python::attach(|py| request(py, &error).unwrap_or_else(|failure| failure)),
        }
    }
}

fn request(py: Python<'_>, error: &RequestError) -> PyResult<PyErr> {
    static UNSUPPORTED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static BAD: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = if error.code == "unsupported_feature" {
        UNSUPPORTED.import(py, "headrace.errors", "UnsupportedFeature")?
    } else {
        BAD.import(py, "headrace.errors", "BadRequestError")?
    };
    let named = [("param", error.param.as_deref())].into_py_dict(py)?;
    Ok(PyErr::from_value(class.call((error.message.as_str(),), Some(&named))?))
}
