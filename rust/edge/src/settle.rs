//! The account of one planned request, settled exactly once: when it is dropped.
//!
//! Whatever ends a request (its answer, its client's leaving, the process's stop) drops its ledger, so no path
//! can forget to settle, and none can do it twice.

use std::mem::take;
use std::sync::Arc;

use headrace_codec::error::ErrorKind;
use headrace_codec::event::ErrorPhase;
use tokio::time::Instant;

use crate::policy::{OwnedError, Policy, Settlement};
use crate::reading::Reading;

pub(crate) struct Ledger {
    policy: Arc<dyn Policy>,
    pub(crate) account: Settlement,
    began: Instant,
}

impl Ledger {
    pub(crate) fn new(policy: &Arc<dyn Policy>, token: u64) -> Ledger {
        let account = Settlement { token, ..Settlement::default() };
        Ledger { policy: Arc::clone(policy), account, began: Instant::now() }
    }

    /// The request was whole at `whole`; the decision is there now.
    pub(crate) fn decided(&mut self, whole: Instant) {
        self.account.decide = self.began - whole;
        self.began = whole;
    }

    /// The answer's first byte goes to the client.
    pub(crate) fn first_byte(&mut self, status: u16) {
        self.account.status = status;
        self.account.first_byte = Some(self.began.elapsed().saturating_sub(self.account.decide));
    }

    /// Takes over what was learned from an answer that was given to the client.
    pub(crate) fn read(&mut self, reading: &mut Reading) {
        let tally = take(&mut reading.tally);
        let account = &mut self.account;
        account.usage = tally.usage;
        account.intents = tally.intents;
        account.events = tally.events;
        account.finish = tally.finish;
        account.error = tally.error;
        account.model = tally.model;
        account.response_id = tally.response_id;
        account.request_id = tally.request_id;
        account.losses.extend_from_slice(reading.losses());
    }

    /// The client left.
    pub(crate) fn gone(&mut self) {
        let phase = if self.account.status == 0 { ErrorPhase::BeforeCommit } else { ErrorPhase::Streaming };
        self.failed(OwnedError::new(ErrorKind::Aborted, phase, "the client left"));
    }

    pub(crate) fn failed(&mut self, error: OwnedError) {
        self.account.finish = None;
        self.account.error = Some(error);
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if self.account.finish.is_none() && self.account.error.is_none() {
            self.gone();
        }
        let mut account = take(&mut self.account);
        account.total = self.began.elapsed();
        self.policy.settle(account);
    }
}
