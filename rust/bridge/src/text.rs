//! Text from the codec as Python `str`, and JSON text as Python values and back.
//!
//! 1. A `str` is made straight from the literal on the wire: one allocation and one copy where it is
//!    plain ASCII, which most deltas are.
//! 2. JSON is read by the codec's scanner; here its values only become objects. Whole numbers keep all
//!    their digits; of duplicate keys the last one wins, as in Python's own reader.
//!
//! Reading a protocol's fields must not be added: that is the codec's.

use headrace_codec::json::{Kind, Malformed, Scanner};
use headrace_codec::text::push_json_str;
use headrace_codec::{Literal, Text};
use pyo3::exceptions::{PyRecursionError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// A `str` of this text. `scratch` is room for decoding escapes, kept by the caller over many texts.
pub fn to_str<'py>(py: Python<'py>, text: Text<'_>, scratch: &mut String) -> PyResult<Bound<'py, PyString>> {
    match text {
        Text::Plain(s) => Ok(PyString::new(py, s)),
        Text::Literal(literal) if literal.escaped() => {
            scratch.clear();
            literal.decode_into(scratch);
            if scratch.is_ascii() { from_ascii(py, scratch.as_bytes()) } else { Ok(PyString::new(py, scratch)) }
        }
        Text::Literal(literal) if literal.ascii() => from_ascii(py, literal.raw),
        Text::Literal(literal) => from_utf8(py, literal),
    }
}

fn from_ascii<'py>(py: Python<'py>, ascii: &[u8]) -> PyResult<Bound<'py, PyString>> {
    debug_assert!(ascii.is_ascii());
    let length = ffi::Py_ssize_t::try_from(ascii.len())?;
    // SAFETY: the new object has room for `length` characters of one byte and nobody else has it yet. The empty
    // string is shared, and nothing is written to it. Every byte is below 0x80, as the object claims.
    unsafe {
        let object = Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_New(length, 0x7f))?;
        std::ptr::copy_nonoverlapping(ascii.as_ptr(), ffi::PyUnicode_1BYTE_DATA(object.as_ptr()), ascii.len());
        Ok(object.cast_into_unchecked())
    }
}

fn from_utf8<'py>(py: Python<'py>, literal: Literal<'_>) -> PyResult<Bound<'py, PyString>> {
    let length = ffi::Py_ssize_t::try_from(literal.raw.len())?;
    // SAFETY: pointer and length are the slice's; a null `errors` means strict.
    let made = unsafe {
        let object = ffi::PyUnicode_DecodeUTF8(literal.raw.as_ptr().cast(), length, std::ptr::null());
        Bound::from_owned_ptr_or_err(py, object)
    };
    match made {
        // SAFETY: the function above makes a `str`.
        Ok(object) => Ok(unsafe { object.cast_into_unchecked() }),
        Err(_) => Ok(PyString::new(py, &literal.decode())),
    }
}

/// The value that a JSON text stands for.
pub fn from_json<'py>(py: Python<'py>, json: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut scanner = Scanner::new(json);
    let mut scratch = String::new();
    let value = read(py, &mut scanner, &mut scratch, 0)?;
    if scanner.at_end() {
        return Ok(value);
    }
    Err(malformed(Malformed { at: scanner.pos(), what: "the end of the text" }))
}

fn read<'py>(
    py: Python<'py>,
    scanner: &mut Scanner<'_>,
    scratch: &mut String,
    depth: usize,
) -> PyResult<Bound<'py, PyAny>> {
    if depth > headrace_codec::limits::MAX_DEPTH {
        return Err(malformed(Malformed { at: scanner.pos(), what: "less nesting" }));
    }
    Ok(match scanner.kind().map_err(malformed)? {
        Kind::Null => {
            scanner.null().map_err(malformed)?;
            py.None().into_bound(py)
        }
        Kind::Bool => PyBool::new(py, scanner.boolean().map_err(malformed)?).to_owned().into_any(),
        Kind::Number => number(py, scanner.number().map_err(malformed)?)?,
        Kind::String => to_str(py, scanner.string().map_err(malformed)?.into(), scratch)?.into_any(),
        Kind::Array => {
            let mut items = scanner.array().map_err(malformed)?;
            let list = PyList::empty(py);
            while scanner.item(&mut items).map_err(malformed)? {
                list.append(read(py, scanner, scratch, depth + 1)?)?;
            }
            list.into_any()
        }
        Kind::Object => {
            let mut items = scanner.object().map_err(malformed)?;
            let dict = PyDict::new(py);
            while let Some(key) = scanner.key(&mut items).map_err(malformed)? {
                let key = to_str(py, key.into(), scratch)?;
                dict.set_item(key, read(py, scanner, scratch, depth + 1)?)?;
            }
            dict.into_any()
        }
    })
}

fn number<'py>(py: Python<'py>, digits: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // A number that the scanner accepted is ASCII.
    let text = String::from_utf8_lossy(digits);
    if text.contains(['.', 'e', 'E']) {
        let value: f64 = text.parse().map_err(|_| PyValueError::new_err("not a number"))?;
        return Ok(PyFloat::new(py, value).into_any());
    }
    match text.parse::<i64>() {
        Ok(value) => Ok(value.into_pyobject(py)?.into_any()),
        Err(_) => py.get_type::<PyInt>().call1((text.as_ref(),)),
    }
}

fn malformed(error: Malformed) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Appends a Python value as JSON text. Refuses what JSON has no word for, and text with lone surrogates.
pub fn push_json(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    push_value(value, out, 0)
}

fn push_value(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    if depth > headrace_codec::limits::MAX_DEPTH {
        return Err(PyRecursionError::new_err("nested too deep for JSON"));
    }
    if value.is_none() {
        out.extend_from_slice(b"null");
    } else if let Ok(flag) = value.cast::<PyBool>() {
        out.extend_from_slice(if flag.is_true() { b"true" } else { b"false" });
    } else if let Ok(text) = value.cast::<PyString>() {
        push_json_str(text.to_str()?, out);
    } else if value.is_instance_of::<PyInt>() {
        out.extend_from_slice(value.str()?.to_str()?.as_bytes());
    } else if let Ok(number) = value.cast::<PyFloat>() {
        let number = number.value();
        if !number.is_finite() {
            return Err(PyValueError::new_err("JSON has no infinite numbers and no NaN"));
        }
        out.extend_from_slice(format!("{number:?}").as_bytes());
    } else if let Ok(dict) = value.cast::<PyDict>() {
        push_members(dict, out, depth)?;
    } else if let Ok(list) = value.cast::<PyList>() {
        push_items(list.iter(), out, depth)?;
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        push_items(tuple.iter(), out, depth)?;
    } else {
        return Err(PyTypeError::new_err(format!("JSON has no {}", value.get_type().name()?)));
    }
    Ok(())
}

fn push_members(dict: &Bound<'_, PyDict>, out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    out.push(b'{');
    for (i, (key, value)) in dict.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let Ok(key) = key.cast::<PyString>() else {
            return Err(PyTypeError::new_err("a key of a JSON object is a str"));
        };
        push_json_str(key.to_str()?, out);
        out.push(b':');
        push_value(&value, out, depth + 1)?;
    }
    out.push(b'}');
    Ok(())
}

fn push_items<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>, out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    out.push(b'[');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push_value(&item, out, depth + 1)?;
    }
    out.push(b']');
    Ok(())
}
