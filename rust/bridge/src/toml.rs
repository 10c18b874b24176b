//! The configuration file as Python values, with the place of every key.
//!
//! 1. One parser gives both, so that a value and its line can never disagree.
//! 2. A place is `(line, column)`, both from 1, in characters: of the key, of a table's header, of an array's item.
//! 3. A path is a tuple of keys and indices, since TOML keys may hold dots.
//! 4. A date stands as its text: the configuration has none, and its schema says so better than a parser.
//!
//! Not here: what a key means. That is the schema's, in Python.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use toml_edit::{Array, Document, Item, TableLike, Value};

/// A parsed document: values, the place of each path, or else where and why it is no TOML.
type Parsed<'py> = (Bound<'py, PyDict>, Bound<'py, PyDict>, Option<(usize, usize, String)>);

/// Parse a TOML document into `(values, {path: (line, column)}, None)`, or `({}, {}, (line, column, message))`.
#[pyfunction]
pub fn toml_document<'py>(py: Python<'py>, text: &str) -> PyResult<Parsed<'py>> {
    let walk = Walk { py, lines: Lines::of(text), spans: PyDict::new(py) };
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let (line, column) = walk.lines.place(error.span().map_or(text.len(), |span| span.start));
            let message = error.message().replace('\n', ", ");
            return Ok((PyDict::new(py), PyDict::new(py), Some((line, column, message))));
        }
    };
    let values = walk.table(document.as_table(), &mut Vec::new())?;
    Ok((values, walk.spans, None))
}

/// One step of a path.
#[derive(Clone, IntoPyObject)]
enum Step {
    Key(String),
    Index(usize),
}

struct Walk<'py, 't> {
    py: Python<'py>,
    lines: Lines<'t>,
    spans: Bound<'py, PyDict>,
}

impl<'py> Walk<'py, '_> {
    fn table(&self, table: &dyn TableLike, path: &mut Vec<Step>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(self.py);
        for (name, item) in table.iter() {
            path.push(Step::Key(name.to_owned()));
            let key = table.key(name).and_then(toml_edit::Key::span);
            self.note(path, key.or_else(|| item.span()))?;
            out.set_item(name, self.item(item, path)?)?;
            path.pop();
        }
        Ok(out)
    }

    fn item(&self, item: &Item, path: &mut Vec<Step>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match item {
            Item::None => self.py.None().into_bound(self.py),
            Item::Value(value) => self.value(value, path)?,
            Item::Table(table) => self.table(table, path)?.into_any(),
            Item::ArrayOfTables(tables) => {
                let out = PyList::empty(self.py);
                for (index, table) in tables.iter().enumerate() {
                    path.push(Step::Index(index));
                    self.note(path, table.span())?;
                    out.append(self.table(table, path)?)?;
                    path.pop();
                }
                out.into_any()
            }
        })
    }

    fn value(&self, value: &Value, path: &mut Vec<Step>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match value {
            Value::String(text) => text.value().into_pyobject(self.py)?.into_any(),
            Value::Integer(number) => number.value().into_pyobject(self.py)?.into_any(),
            Value::Float(number) => number.value().into_pyobject(self.py)?.into_any(),
            Value::Boolean(flag) => flag.value().into_pyobject(self.py)?.to_owned().into_any(),
            Value::Datetime(date) => date.value().to_string().into_pyobject(self.py)?.into_any(),
            Value::Array(array) => self.array(array, path)?.into_any(),
            Value::InlineTable(table) => self.table(table, path)?.into_any(),
        })
    }

    fn array(&self, array: &Array, path: &mut Vec<Step>) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(self.py);
        for (index, value) in array.iter().enumerate() {
            path.push(Step::Index(index));
            self.note(path, value.span())?;
            out.append(self.value(value, path)?)?;
            path.pop();
        }
        Ok(out)
    }

    fn note(&self, path: &[Step], span: Option<std::ops::Range<usize>>) -> PyResult<()> {
        let Some(span) = span else { return Ok(()) };
        self.spans.set_item(PyTuple::new(self.py, path.iter().cloned())?, self.lines.place(span.start))
    }
}

/// Where each line begins, to turn an offset into a line and a column.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    fn place(&self, offset: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= offset);
        // `starts` holds 0, so there is a line at or before every offset.
        let start = self.starts[line - 1];
        let column = self.text.get(start..offset).map_or(0, |text| text.chars().count());
        (line, column + 1)
    }
}
