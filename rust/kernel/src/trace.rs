//! The steps of an attempt and when they began and ended: `step.started`, `step.complete`, `step.failed`.
//!
//! Facts for a log, pulled by the owner; nothing is called back. Never a header's value, never a body.

use std::time::Instant;

/// The steps, in the order in which they happen. A reused connection has none of the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Connect,
    /// The way through a proxy.
    Tunnel,
    Tls,
    Send,
    Head,
    Body,
}

const STEPS: [Step; 6] = [Step::Connect, Step::Tunnel, Step::Tls, Step::Send, Step::Head, Step::Body];

impl Step {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tunnel => "tunnel",
            Self::Tls => "tls",
            Self::Send => "send",
            Self::Head => "head",
            Self::Body => "body",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    Started,
    Complete,
    Failed,
}

impl StepState {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "step.started",
            Self::Complete => "step.complete",
            Self::Failed => "step.failed",
        }
    }
}

/// One line of the trace. `at_s` counts from the attempt's first poll.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepEvent {
    pub step: Step,
    pub state: StepState,
    pub at_s: f64,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace {
    origin: Option<Instant>,
    /// Microseconds from the origin: begun, ended, and whether that was a failure.
    marks: [(Option<u64>, Option<u64>, bool); 6],
}

impl Trace {
    pub(crate) fn start(&mut self, step: Step) {
        let at = self.now();
        self.marks[step as usize].0 = Some(at);
    }

    pub(crate) fn complete(&mut self, step: Step) {
        let at = self.now();
        let mark = &mut self.marks[step as usize];
        // An answer may come before the request is sent: then the wait for it took no time.
        *mark = (mark.0.or(Some(at)), Some(at), false);
    }

    /// Every step that has begun and not ended has failed.
    pub(crate) fn fail(&mut self) {
        let at = self.now();
        for mark in &mut self.marks {
            if mark.0.is_some() && mark.1.is_none() {
                *mark = (mark.0, Some(at), true);
            }
        }
    }

    fn now(&mut self) -> u64 {
        let now = Instant::now();
        now.duration_since(*self.origin.get_or_insert(now)).as_micros() as u64
    }

    /// Seconds from the first poll to the end of `step`, where it is complete.
    #[must_use]
    pub fn completed_s(&self, step: Step) -> Option<f64> {
        let (_, end, failed) = self.marks[step as usize];
        end.filter(|_| !failed).map(seconds)
    }

    /// The steps in order, each with its beginning and, if it has one, its end.
    pub fn events(&self) -> impl Iterator<Item = StepEvent> + '_ {
        STEPS.into_iter().flat_map(move |step| {
            let (begun, ended, failed) = self.marks[step as usize];
            let end_state = if failed { StepState::Failed } else { StepState::Complete };
            [(begun, StepState::Started), (ended, end_state)]
                .into_iter()
                .filter_map(move |(at, state)| Some(StepEvent { step, state, at_s: seconds(at?) }))
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of one attempt fit in 52 bits")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
