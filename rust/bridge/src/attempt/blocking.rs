//! An attempt that the asking thread drives.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use headrace_codec::pipeline::DecoderConfig;
use headrace_kernel::{Attempt, Failure, Head};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::runtime::Runtime;

use super::{Facts, READ, Reading, SCRATCH, facts_of};

/// How often a waiting thread looks for signals (Ctrl-C). Nobody feels a tenth of a second, and ten wake-ups of a
/// silent stream cost nothing.
const LOOK_UP: Duration = Duration::from_millis(100);

struct State {
    attempt: Option<Attempt>,
    reading: Reading,
    facts: Facts,
}

enum Step {
    Head(Head),
    Data { end: bool },
    Failed(Failure),
    Waiting,
}

/// An attempt that the asking thread drives: `next_batch()` until it gives None.
#[pyclass(frozen, module = "headrace._core")]
pub struct BlockingAttemptRef {
    runtime: Arc<Runtime>,
    state: Mutex<State>,
    pid: u32,
}

impl BlockingAttemptRef {
    pub fn new(runtime: Arc<Runtime>, attempt: Attempt, config: DecoderConfig, raw: bool, pid: u32) -> Self {
        let state = State { attempt: Some(attempt), reading: Reading::new(config, raw), facts: Facts::default() };
        BlockingAttemptRef { runtime, state: Mutex::new(state), pid }
    }

    fn step(&self, state: &mut State) -> Step {
        let Some(attempt) = &mut state.attempt else { return Step::Data { end: true } };
        let headless = state.reading.status == 0;
        let next = async {
            if headless {
                return attempt.head().await.map_or_else(Step::Failed, Step::Head);
            }
            let read = poll_fn(|cx| SCRATCH.with_borrow_mut(|scratch| attempt.poll_read(cx, scratch, READ)));
            read.await.map_or_else(Step::Failed, |got| Step::Data { end: got.end })
        };
        self.runtime.block_on(async { tokio::time::timeout(LOOK_UP, next).await }).unwrap_or(Step::Waiting)
    }

    fn state(&self) -> PyResult<std::sync::MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err("another thread is reading this stream")),
        }
    }
}

#[pymethods]
impl BlockingAttemptRef {
    /// The next events, at least one; None after the terminal one. Waits without the interpreter's lock.
    ///
    /// Raises what a signal's handler raises (`KeyboardInterrupt`); nothing is lost by it.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        if std::process::id() != self.pid {
            return Err(PyRuntimeError::new_err("a stream is not read across a fork"));
        }
        let mut state = self.state()?;
        if state.reading.over {
            return Ok(None);
        }
        let list = PyList::empty(py);
        while list.is_empty() {
            // The lock that makes this necessary: other threads must run while this one waits for the socket.
            let step = {
                let state = &mut *state;
                py.detach(move || self.step(state))
            };
            let State { attempt, reading, facts } = &mut *state;
            match step {
                Step::Waiting => py.check_signals()?,
                Step::Head(head) => reading.head(head),
                Step::Failed(failure) => {
                    *facts = Facts::from(&failure);
                    *attempt = None;
                    reading.finish(&list, Some(&failure))?;
                }
                Step::Data { end } => {
                    SCRATCH.with_borrow(|scratch| scratch.pieces().try_for_each(|piece| reading.feed(&list, piece)))?;
                    if end && !reading.over {
                        reading.finish(&list, None)?;
                    }
                    if !list.is_empty()
                        && let Some(attempt) = attempt
                    {
                        attempt.content_seen();
                    }
                    if reading.over {
                        self.release(attempt.take(), facts);
                    }
                }
            }
            if state.reading.over && list.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(list))
    }

    /// The answer's status; 0 before its head.
    #[getter]
    fn status(&self) -> PyResult<u16> {
        Ok(self.state()?.reading.status)
    }

    /// The answer's headers that may be shown (rule R18).
    #[getter]
    fn headers(&self) -> PyResult<Vec<(String, String)>> {
        Ok(self.state()?.reading.passed.clone())
    }

    /// Bytes sent, bytes received, and whether the connection had served before.
    #[getter]
    fn facts(&self) -> PyResult<(u64, u64, bool)> {
        let state = self.state()?;
        let facts = state.attempt.as_ref().map_or(state.facts, facts_of);
        Ok((facts.bytes_sent, facts.bytes_received, facts.reused_socket))
    }

    /// Events so far, and how many of them are intents.
    #[getter]
    fn counts(&self) -> PyResult<(u64, u64)> {
        let counts = self.state()?.reading.counts;
        Ok((counts.events, counts.intents))
    }

    /// Close the connection now, unless the answer is over. Safe from any thread that does not read.
    fn cancel(&self) -> PyResult<()> {
        let mut state = self.state()?;
        state.reading.over = true;
        let _context = self.runtime.enter();
        state.attempt = None;
        Ok(())
    }
}

impl BlockingAttemptRef {
    fn release(&self, attempt: Option<Attempt>, facts: &mut Facts) {
        if let Some(attempt) = attempt {
            *facts = facts_of(&attempt);
            // A drained connection may be watched by the client's ticker, which is a task.
            let _context = self.runtime.enter();
            attempt.release();
        }
    }
}

impl Drop for BlockingAttemptRef {
    fn drop(&mut self) {
        let _context = self.runtime.enter();
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).attempt = None;
    }
}
