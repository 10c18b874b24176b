//! The one case of two attempts at a time: a hedge. If the first has no head after a while, a second begins beside it.
//!
//! 1. The first good head wins, and the other attempt is dropped, which closes its connection.
//! 2. A head that is an error, or a failure, waits for the other; if both are bad, the one that came last is told.
//! 3. Nothing has reached the client: a head is before the commit boundary.
//!
//! No choice of whom to ask may be added here: the policy gave both.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use headrace_kernel::{Attempt, Failure as KernelFailure, Head};
use tokio::time::sleep;

use crate::policy::Lane;
use crate::recipient::Recipient;

/// What an attempt's head came to.
pub(crate) type Headed = Result<Head, Box<KernelFailure>>;

/// An attempt of which the head is there.
pub(crate) struct Raced {
    pub attempt: Attempt,
    pub head: Headed,
    /// Whose it is, if a second attempt was begun.
    pub lane: Option<Lane>,
    /// That the other one had sent.
    pub other_sent: u64,
}

/// The client left in the race.
pub(crate) struct Left {
    /// That both attempts had sent.
    pub sent: u64,
}

/// Waits for the head of `first`, and after `after` of that of `second` as well.
pub(crate) async fn race(
    mut client: Recipient<'_>,
    first: Attempt,
    after: Duration,
    second: impl FnOnce() -> Option<Attempt>,
) -> Result<Raced, Left> {
    let mut second = Some(second);
    let mut timer = pin!(sleep(after));
    // The first has lane 0.
    let mut running = [Some(first), None];
    let mut spare: Option<(usize, Attempt, Headed)> = None;
    let mut begun = false;
    let won = poll_fn(|cx| {
        if client.poll_gone(cx).is_ready() {
            return Poll::Ready(None);
        }
        if second.is_some() && timer.as_mut().poll(cx).is_ready() {
            running[1] = second.take().and_then(|begin| begin());
            begun = running[1].is_some();
        }
        for lane in 0..running.len() {
            let Some(attempt) = &mut running[lane] else { continue };
            let Poll::Ready(head) = attempt.poll_head(cx) else { continue };
            let Some(attempt) = running[lane].take() else { continue };
            let good = head.as_ref().is_ok_and(|head| (200..300).contains(&head.status));
            let head = head.map_err(Box::new);
            if good || running.iter().all(Option::is_none) {
                return Poll::Ready(Some((lane, attempt, head)));
            }
            spare = Some((lane, attempt, head));
        }
        Poll::Pending
    })
    .await;
    let sent = |attempt: &Option<Attempt>| attempt.as_ref().map_or(0, Attempt::bytes_sent);
    let spared = spare.as_ref().map_or(0, |(_, attempt, _)| attempt.bytes_sent());
    let other_sent = sent(&running[0]) + sent(&running[1]) + spared;
    let Some((lane, attempt, head)) = won else { return Err(Left { sent: other_sent }) };
    let lane = begun.then_some(if lane == 0 { Lane::First } else { Lane::Second });
    Ok(Raced { attempt, head, lane, other_sent })
}
