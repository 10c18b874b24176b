//! How a native event class is made: one macro, so that thirteen classes cannot drift apart.
//!
//! 1. Fields are what Python reads, `str` made eagerly: a lazy getter lost even where nobody read the text.
//! 2. `to_json` is the codec's own text of the event, `to_dict` that text as a value, equality and hash
//!    those of that text with its place: one definition of what an event says.
//! 3. A `repr` is short, and shows nothing that may hold a secret (see [`Opaque`]).
//!
//! Behaviour of single events must not be added here.

use std::fmt::Write;

use headrace_codec::event::{
    AttachTo, CallKind, ContinuationForm, ErrorPhase, FinishReason, HostedPhase, Protocol, ReasoningKind,
};
use headrace_codec::{ErrorKind, Text};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Characters of a text that a `repr` shows.
const SHOWN: usize = 40;

/// A value with a fixed set of codes, seen from Python as a `str`.
pub trait Coded: Copy + 'static {
    const WHAT: &'static str;
    fn code(self) -> &'static str;
    fn from_code(code: &str) -> Option<Self>;
}

macro_rules! coded {
    ($($type:ident: $what:literal),+ $(,)?) => { $(
        impl Coded for $type {
            const WHAT: &'static str = $what;
            fn code(self) -> &'static str { $type::code(self) }
            fn from_code(code: &str) -> Option<Self> { $type::from_code(code) }
        }
    )+ };
}

coded! {
    AttachTo: "attach.to", CallKind: "kind", ContinuationForm: "form", ErrorKind: "kind", ErrorPhase: "phase",
    FinishReason: "reason", HostedPhase: "phase", ReasoningKind: "kind",
}

impl Coded for Protocol {
    const WHAT: &'static str = "protocol";
    fn code(self) -> &'static str {
        self.name()
    }
    fn from_code(code: &str) -> Option<Self> {
        Protocol::from_name(code)
    }
}

/// A coded field, and a coded argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code<T>(pub T);

impl<'py, T: Coded> IntoPyObject<'py> for &Code<T> {
    type Target = PyString;
    type Output = Bound<'py, PyString>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(PyString::intern(py, self.0.code()))
    }
}

impl<'py, T: Coded> FromPyObject<'_, 'py> for Code<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = object.cast::<PyString>()?;
        let code = text.to_str()?;
        T::from_code(code).map(Code).ok_or_else(|| {
            let mut shown = String::new();
            show_str(code, &mut shown);
            PyValueError::new_err(format!("no such {}: {shown}", T::WHAT))
        })
    }
}

/// Text that a `repr` gives the length of and nothing else: raw provider data, addresses, continuations.
pub struct Opaque(pub Py<PyString>);

impl<'py> IntoPyObject<'py> for &Opaque {
    type Target = PyString;
    type Output = Bound<'py, PyString>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(self.0.bind(py).clone())
    }
}

impl<'py> FromPyObject<'_, 'py> for Opaque {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Opaque(object.cast::<PyString>()?.to_owned().unbind()))
    }
}

/// A field's part of a `repr`. Absent fields are left out.
pub trait Show {
    fn show(&self, py: Python<'_>, out: &mut String);
    fn absent(&self) -> bool {
        false
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self, py: Python<'_>, out: &mut String) {
        if let Some(value) = self {
            value.show(py, out);
        }
    }
    fn absent(&self) -> bool {
        self.is_none()
    }
}

impl Show for Py<PyString> {
    fn show(&self, py: Python<'_>, out: &mut String) {
        show_str(&self.bind(py).to_string_lossy(), out);
    }
}

impl Show for Opaque {
    fn show(&self, py: Python<'_>, out: &mut String) {
        let _ = write!(out, "<{} characters>", self.0.bind(py).len().unwrap_or(0));
    }
}

impl<T: Coded> Show for Code<T> {
    fn show(&self, _: Python<'_>, out: &mut String) {
        let _ = write!(out, "'{}'", self.0.code());
    }
}

impl Show for bool {
    fn show(&self, _: Python<'_>, out: &mut String) {
        out.push_str(if *self { "True" } else { "False" });
    }
}

impl Show for (u64, u64) {
    fn show(&self, _: Python<'_>, out: &mut String) {
        let _ = write!(out, "{self:?}");
    }
}

macro_rules! show_number {
    ($($type:ty),+) => { $(
        impl Show for $type {
            fn show(&self, _: Python<'_>, out: &mut String) { let _ = write!(out, "{self:?}"); }
        }
    )+ };
}
show_number!(u16, u32, u64, f64);

/// A text in quotes, cut after [`SHOWN`] characters.
pub fn show_str(text: &str, out: &mut String) {
    let cut = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    out.push('\'');
    for c in text[..cut].chars() {
        match c {
            '\'' => out.push_str("\\'"),
            c if c == '\\' || c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out.push('\'');
    if cut < text.len() {
        out.push('…');
    }
}

/// The borrowed text of a `str`.
pub fn text<'a>(py: Python<'a>, string: &'a Py<PyString>) -> PyResult<Text<'a>> {
    string.bind(py).to_str().map(Text::Plain)
}

/// As [`text`], where it may be absent.
pub fn text_if<'a>(py: Python<'a>, string: Option<&'a Py<PyString>>) -> PyResult<Option<Text<'a>>> {
    string.map(|s| text(py, s)).transpose()
}

/// The borrowed bytes of a raw JSON field; none where it is absent.
pub fn raw<'a>(py: Python<'a>, string: Option<&'a Opaque>) -> PyResult<&'a [u8]> {
    Ok(match string {
        Some(Opaque(s)) => s.bind(py).to_str()?.as_bytes(),
        None => b"",
    })
}

/// A class of frozen events: fields, constructor, place, equality, `repr`, `to_dict`, `to_json`. The type has a
/// method `event(&self, py) -> PyResult<Event>` of its own, in which it borrows itself as the codec's event.
macro_rules! event_class {
    (
        $(#[$meta:meta])*
        $name:ident = $code:literal, new($($sig:tt)*) { $($field:ident: $type:ty),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[pyclass(frozen, get_all, module = "headrace")]
        pub struct $name {
            $(pub $field: $type,)+
            pub seq: u64,
            pub offset: u64,
        }

        impl $name {
            fn json(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
                let mut out = Vec::new();
                self.event(py)?.push_json(At { seq: self.seq, offset: self.offset }, &mut out);
                Ok(out)
            }
        }

        #[pymethods]
        impl $name {
            #[classattr]
            fn r#type() -> &'static str { $code }

            #[classattr]
            fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
                PyTuple::new(py, [$(stringify!($field)),+])
            }

            #[new]
            #[pyo3(signature = ($($sig)*, seq = 0, offset = 0))]
            #[allow(clippy::too_many_arguments, reason = "keywords in Python; only some events have many fields")]
            fn new(py: Python<'_>, $($field: $type,)+ seq: u64, offset: u64) -> PyResult<Self> {
                let made = $name { $($field,)+ seq, offset };
                // What cannot be borrowed as an event (a lone surrogate) is refused here and not at its first use.
                made.event(py)?;
                Ok(made)
            }

            fn __repr__(&self, py: Python<'_>) -> String {
                let mut out = String::from(stringify!($name));
                let mut before = '(';
                $(if !self.$field.absent() {
                    out.push(before);
                    before = ' ';
                    out.push_str(concat!(stringify!($field), "="));
                    self.$field.show(py, &mut out);
                    out.push(',');
                })+
                crate::events::class::close(before, &mut out);
                out
            }

            fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
                Ok(self.json(py)? == other.json(py)?)
            }

            fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
                self.json(py).map(|json| crate::events::class::hash(&json))
            }

            /// The event as a `dict`, without what is absent.
            fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                crate::text::from_json(py, &self.json(py)?)
            }

            /// The event as one line of JSON, without what is absent.
            fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
                Ok(PyBytes::new(py, &self.json(py)?))
            }
        }
    };
}
pub(super) use event_class;

/// Ends a `repr` whose last field left a comma, or that has no field.
pub fn close(before: char, out: &mut String) {
    if before == '(' {
        out.push('(');
    } else {
        out.pop();
    }
    out.push(')');
}

pub fn hash(json: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(json);
    hasher.finish()
}
