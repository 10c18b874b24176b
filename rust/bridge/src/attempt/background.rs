//! An attempt that the kernel's thread drives, and its inbox.
//!
//! 1. The inbox holds at most [`CREDIT`] bytes and what one more read brought: until they are taken, the
//!    connection is not read. That is the demand credit.
//! 2. The signal is raised once per emptied inbox, however many reads fill it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use headrace_codec::pipeline::DecoderConfig;
use headrace_kernel::{Attempt, AttemptSpec, Client, Failure, Got, Head};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::{Facts, READ, Reading, SCRATCH, facts_of};
use crate::runtime::Signal;

/// Bytes that wait untaken before reading stops. A taker empties it in one go, so one read's worth keeps it busy.
const CREDIT: usize = 64 << 10;

#[derive(Default)]
struct Inbox {
    head: Option<Head>,
    bytes: Vec<u8>,
    end: Option<Result<(), Failure>>,
    facts: Facts,
    /// The taker knows that there is something.
    signalled: bool,
    /// The taker has the terminal event: the connection may be released.
    satisfied: bool,
    /// The taker saw content in what it took.
    content: bool,
}

struct Shared {
    inbox: Mutex<Inbox>,
    credit: Notify,
    signal: Arc<Signal>,
    id: u64,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, put: impl FnOnce(&mut Inbox)) {
        let mut inbox = self.inbox();
        put(&mut inbox);
        if !std::mem::replace(&mut inbox.signalled, true) {
            drop(inbox);
            self.signal.raise(self.id);
        }
    }
}

/// An attempt that the kernel's thread drives: `take()` whenever its descriptor is readable.
#[pyclass(frozen, module = "headrace._core")]
pub struct BackgroundAttemptRef {
    shared: Arc<Shared>,
    reading: Mutex<Reading>,
    task: tokio::task::AbortHandle,
}

impl BackgroundAttemptRef {
    pub fn start(
        handle: &Handle,
        client: Client,
        spec: AttemptSpec,
        config: DecoderConfig,
        signal: Arc<Signal>,
        id: u64,
        raw: bool,
    ) -> Self {
        let shared = Arc::new(Shared { inbox: Mutex::default(), credit: Notify::new(), signal, id });
        let task = handle.spawn(drive(client, spec, shared.clone())).abort_handle();
        BackgroundAttemptRef { shared, reading: Mutex::new(Reading::new(config, raw)), task }
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The whole life of the attempt on the kernel's thread. Aborting the task drops the attempt, which closes its connection.
async fn drive(client: Client, spec: AttemptSpec, shared: Arc<Shared>) {
    let mut attempt = client.attempt(spec);
    match attempt.head().await {
        Ok(head) => shared.put(|inbox| inbox.head = Some(head)),
        Err(failure) => return fail(&shared, failure),
    }
    loop {
        loop {
            let credit = shared.credit.notified();
            {
                let mut inbox = shared.inbox();
                if inbox.satisfied {
                    attempt.release();
                    return;
                }
                if std::mem::take(&mut inbox.content) {
                    attempt.content_seen();
                }
                if inbox.bytes.len() < CREDIT {
                    break;
                }
            }
            credit.await;
        }
        let got = tokio::select! {
            biased;
            got = poll_fn(|cx| poll_into(&mut attempt, cx, &shared)) => got,
            () = shared.credit.notified() => continue,
        };
        match got {
            Ok(got) if got.end => return,
            Ok(_) => {}
            Err(failure) => return fail(&shared, failure),
        }
    }
}

/// One read, into the thread's scratch and from there into the inbox, in the same poll: the scratch is every
/// stream's of this thread.
fn poll_into(attempt: &mut Attempt, cx: &mut Context<'_>, shared: &Shared) -> Poll<Result<Got, Failure>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let got = ready!(attempt.poll_read(cx, scratch, READ))?;
        shared.put(|inbox| {
            scratch.pieces().for_each(|piece| inbox.bytes.extend_from_slice(piece));
            inbox.facts = facts_of(attempt);
            if got.end {
                inbox.end = Some(Ok(()));
            }
        });
        Poll::Ready(Ok(got))
    })
}

fn fail(shared: &Shared, failure: Failure) {
    shared.put(|inbox| {
        inbox.facts = Facts::from(&failure);
        inbox.end = Some(Err(failure));
    });
}

#[pymethods]
impl BackgroundAttemptRef {
    /// Names the attempt in `KernelRef.ready()`.
    #[getter]
    fn id(&self) -> u64 {
        self.shared.id
    }

    /// The descriptor that its news make readable; the kernel's, unless it has its own.
    fn fileno(&self) -> i32 {
        self.shared.signal.fileno()
    }

    /// Empty a descriptor of its own.
    fn clear(&self) {
        self.shared.signal.take();
    }

    /// The events that are there; an empty list: none yet, wait for the descriptor; None after the terminal one.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut reading = self.reading();
        if reading.over {
            return Ok(None);
        }
        let (head, bytes, end) = {
            let mut inbox = self.shared.inbox();
            inbox.signalled = false;
            (inbox.head.take(), std::mem::take(&mut inbox.bytes), inbox.end.take())
        };
        let full = bytes.len() >= CREDIT;
        let list = PyList::empty(py);
        if let Some(head) = head {
            reading.head(head);
        }
        if !bytes.is_empty() {
            reading.feed(&list, &bytes)?;
        }
        if let Some(end) = end
            && !reading.over
        {
            reading.finish(&list, end.err().as_ref())?;
        }
        let (content, satisfied) = (!list.is_empty(), reading.over);
        if content || full {
            let mut inbox = self.shared.inbox();
            inbox.content |= content;
            inbox.satisfied = satisfied;
            if inbox.bytes.capacity() == 0 {
                inbox.bytes = bytes;
                inbox.bytes.clear();
            }
        }
        if full || satisfied {
            self.shared.credit.notify_one();
        }
        if satisfied && list.is_empty() {
            return Ok(None);
        }
        Ok(Some(list))
    }

    /// The answer's status; 0 before its head was taken.
    #[getter]
    fn status(&self) -> u16 {
        self.reading().status
    }

    /// The answer's headers that may be shown (rule R18).
    #[getter]
    fn headers(&self) -> Vec<(String, String)> {
        self.reading().passed.clone()
    }

    /// Bytes sent, bytes received, and whether the connection had served before.
    #[getter]
    fn facts(&self) -> (u64, u64, bool) {
        let facts = self.shared.inbox().facts;
        (facts.bytes_sent, facts.bytes_received, facts.reused_socket)
    }

    /// Events so far, and how many of them are intents.
    #[getter]
    fn counts(&self) -> (u64, u64) {
        let counts = self.reading().counts;
        (counts.events, counts.intents)
    }

    /// Close the connection now, unless the answer is over.
    fn cancel(&self) {
        let mut reading = self.reading();
        if !std::mem::replace(&mut reading.over, true) {
            self.task.abort();
        }
    }
}

impl Drop for BackgroundAttemptRef {
    fn drop(&mut self) {
        if !self.reading().over {
            self.task.abort();
        }
    }
}
