//! How an answer finds its way back to the edge thread that asked.
//!
//! 1. A [`Reply`] answers once. One that is dropped unanswered answers [`Decision::Lost`]: no client waits for ever.
//! 2. Answers are posted in batches: all are pushed, then each thread is woken once.
//! 3. A plan whose asker has left is not lost: the desk has it settled.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::mem::take;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use tokio::sync::Notify;

use crate::policy::{Decision, Policy};
use crate::settle::Ledger;

/// Where the answers for one edge thread are put.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    posted: Mutex<Vec<(u64, Decision)>>,
    ring: Notify,
}

impl Mailbox {
    fn push(&self, key: u64, decision: Decision) {
        // A poisoned queue is whole all the same: a push either happened or did not.
        self.posted.lock().unwrap_or_else(PoisonError::into_inner).push((key, decision));
    }
}

/// The one answer to one question.
#[derive(Debug)]
pub struct Reply {
    mailbox: Arc<Mailbox>,
    key: Option<u64>,
}

impl Reply {
    /// Answers, and wakes the asker.
    pub fn send(self, decision: Decision) {
        deliver([(self, decision)]);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.mailbox.push(key, Decision::Lost);
            self.mailbox.ring.notify_one();
        }
    }
}

/// Answers many questions, and wakes each thread that asked once.
pub fn deliver(answers: impl IntoIterator<Item = (Reply, Decision)>) {
    let mut rings: Vec<Arc<Mailbox>> = Vec::new();
    for (mut reply, decision) in answers {
        let Some(key) = reply.key.take() else { continue };
        reply.mailbox.push(key, decision);
        if !rings.iter().any(|m| Arc::ptr_eq(m, &reply.mailbox)) {
            rings.push(Arc::clone(&reply.mailbox));
        }
    }
    for mailbox in rings {
        mailbox.ring.notify_one();
    }
}

#[derive(Default)]
struct Waiting {
    waker: Option<Waker>,
    decision: Option<Decision>,
}

/// One edge thread's side: who waits for what.
pub(crate) struct Desk {
    policy: Arc<dyn Policy>,
    mailbox: Arc<Mailbox>,
    waiting: RefCell<HashMap<u64, Waiting>>,
    last: Cell<u64>,
    /// Something was asked since the last flush.
    asked: Notify,
}

impl Desk {
    pub(crate) fn new(policy: Arc<dyn Policy>) -> Desk {
        Desk { policy, mailbox: Arc::default(), waiting: RefCell::default(), last: Cell::new(0), asked: Notify::new() }
    }

    /// Asks by `ask` and waits for the answer. Dropping the future gives up waiting.
    pub(crate) async fn ask(&self, ask: impl FnOnce(&dyn Policy, Reply)) -> Decision {
        let key = self.last.get() + 1;
        self.last.set(key);
        self.waiting.borrow_mut().insert(key, Waiting::default());
        let seat = Seat { desk: self, key };
        ask(&*self.policy, Reply { mailbox: Arc::clone(&self.mailbox), key: Some(key) });
        self.asked.notify_one();
        poll_fn(|cx| {
            let mut waiting = self.waiting.borrow_mut();
            let Some(slot) = waiting.get_mut(&seat.key) else { return Poll::Ready(Decision::Lost) };
            if let Some(decision) = slot.decision.take() {
                return Poll::Ready(decision);
            }
            slot.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Has the policy flush what was asked, for as long as the thread lives. This task is woken behind the tasks that
    /// are ready already: what they ask goes in the same flush.
    pub(crate) async fn flush(self: Rc<Self>) {
        loop {
            self.asked.notified().await;
            self.policy.flush();
        }
    }

    /// Hands out what is posted, for as long as the thread lives.
    pub(crate) async fn serve(self: Rc<Self>) {
        loop {
            self.mailbox.ring.notified().await;
            let posted = take(&mut *self.mailbox.posted.lock().unwrap_or_else(PoisonError::into_inner));
            for (key, decision) in posted {
                let mut waiting = self.waiting.borrow_mut();
                if let Some(slot) = waiting.get_mut(&key) {
                    slot.decision = Some(decision);
                    if let Some(waker) = slot.waker.take() {
                        waker.wake();
                    }
                } else {
                    drop(waiting);
                    self.orphaned(decision);
                }
            }
        }
    }

    fn orphaned(&self, decision: Decision) {
        if let Decision::Plan(plan) = decision {
            // Settled as aborted when it is dropped.
            drop(Ledger::new(&self.policy, plan.token));
        }
    }
}

struct Seat<'a> {
    desk: &'a Desk,
    key: u64,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let left = self.desk.waiting.borrow_mut().remove(&self.key);
        if let Some(decision) = left.and_then(|slot| slot.decision) {
            self.desk.orphaned(decision);
        }
    }
}
