//! Whose turn it is: a connection's requests, first come, first served, and one at a time in each lane.
//!
//! 1. A lane is a name, or none (the default one). A name counts for as long as the connection lives.
//! 2. What waits is bounded by number and by bytes. Beyond it a request is refused, with a reason.
//!
//! No socket, no clock and no reading of what a request says may be added here.

use std::collections::VecDeque;
use std::rc::Rc;

use headrace_codec::request::RequestError;

use crate::limits;

/// A request whose turn has not come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub lane: Option<Rc<str>>,
    /// The answer that it goes on from.
    pub previous: Option<String>,
    pub message: Vec<u8>,
}

/// The lanes of one connection.
#[derive(Debug)]
pub(crate) struct Queue {
    names: Vec<Rc<str>>,
    /// Lanes with an answer under way.
    busy: Vec<Option<Rc<str>>>,
    waiting: VecDeque<Waiting>,
    /// Bytes of what waits.
    bytes: usize,
    limit: usize,
}

impl Queue {
    /// `limit`: bytes of all messages that wait.
    pub(crate) fn new(limit: usize) -> Queue {
        Queue { names: Vec::new(), busy: Vec::new(), waiting: VecDeque::new(), bytes: 0, limit }
    }

    /// Lets a request wait for its turn.
    ///
    /// Fails with `websocket_stream_limit_reached` for one name too many, and with `websocket_queue_limit_reached` where
    /// too much waits already.
    pub(crate) fn push(
        &mut self,
        lane: Option<&str>,
        previous: Option<String>,
        message: Vec<u8>,
    ) -> Result<(), RequestError> {
        let lane = lane.map(|name| self.name(name)).transpose()?;
        if self.waiting.len() >= limits::WAITING || self.bytes + message.len() > self.limit {
            let message = format!(
                "{} requests wait on this connection already; wait for answers, or open another connection",
                self.waiting.len()
            );
            return Err(RequestError { status: 429, code: "websocket_queue_limit_reached", param: None, message });
        }
        self.bytes += message.len();
        self.waiting.push_back(Waiting { lane, previous, message });
        Ok(())
    }

    /// Whether a request of the default lane waits.
    pub(crate) fn holds_unnamed(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.lane.is_none())
    }

    fn name(&mut self, name: &str) -> Result<Rc<str>, RequestError> {
        if let Some(known) = self.names.iter().find(|known| &***known == name) {
            return Ok(Rc::clone(known));
        }
        if self.names.len() >= limits::LANES {
            let message = format!("stream_id: this connection has named {} lanes, and more it may not", limits::LANES);
            let param = Some("stream_id".to_owned());
            return Err(RequestError { status: 400, code: "websocket_stream_limit_reached", param, message });
        }
        let name: Rc<str> = Rc::from(name);
        self.names.push(Rc::clone(&name));
        Ok(name)
    }

    /// Takes the first request of a lane without an answer under way, if `may` lets it. It is under way from then on.
    pub(crate) fn take(&mut self, may: impl FnOnce(&Waiting) -> bool) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| !self.busy.contains(&waiting.lane))?;
        // One that does not fit holds up those behind it: else smaller ones would always come before it.
        if !may(&self.waiting[at]) {
            return None;
        }
        let taken = self.waiting.remove(at)?;
        self.bytes -= taken.message.len();
        self.busy.push(taken.lane.clone());
        Some(taken)
    }

    /// The answer that was under way in this lane is over.
    pub(crate) fn done(&mut self, lane: Option<&Rc<str>>) {
        self.busy.retain(|busy| busy.as_ref() != lane);
    }

    /// Empties it. Gives the lanes of what waited.
    pub(crate) fn drain(&mut self) -> Vec<Option<Rc<str>>> {
        self.bytes = 0;
        self.waiting.drain(..).map(|waiting| waiting.lane).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(queue: &mut Queue) -> Option<(Option<String>, String)> {
        let taken = queue.take(|_| true)?;
        Some((taken.lane.map(|name| name.to_string()), String::from_utf8(taken.message).unwrap()))
    }

    fn taken(lane: Option<&str>, message: &str) -> (Option<String>, String) {
        (lane.map(str::to_owned), message.to_owned())
    }

    #[test]
    fn a_lane_is_served_in_order_and_holds_up_no_other() {
        let mut queue = Queue::new(99);
        for (lane, message) in [(None, "1"), (None, "2"), (Some("a"), "3"), (Some("a"), "4"), (Some("b"), "5")] {
            queue.push(lane, None, message.into()).unwrap();
        }
        assert_eq!(next(&mut queue), Some(taken(None, "1")));
        assert!(queue.holds_unnamed());
        assert_eq!(next(&mut queue), Some(taken(Some("a"), "3")));
        assert_eq!(next(&mut queue), Some(taken(Some("b"), "5")));
        assert_eq!(next(&mut queue), None);
        queue.done(Some(&Rc::from("a")));
        assert_eq!(next(&mut queue), Some(taken(Some("a"), "4")));
        queue.done(None);
        assert_eq!(next(&mut queue), Some(taken(None, "2")));
        assert!(!queue.holds_unnamed());
        assert_eq!((next(&mut queue), queue.bytes), (None, 0));
    }

    #[test]
    fn what_does_not_fit_yet_keeps_its_place() {
        let mut queue = Queue::new(99);
        queue.push(None, None, b"large".to_vec()).unwrap();
        queue.push(Some("a"), None, b"s".to_vec()).unwrap();
        assert_eq!(queue.take(|waiting| waiting.message.len() < 3), None);
        assert_eq!(next(&mut queue), Some(taken(None, "large")));
        assert_eq!(queue.drain(), [Some(Rc::from("a"))]);
        assert_eq!((next(&mut queue), queue.bytes), (None, 0));
    }

    #[test]
    fn what_waits_is_bounded_by_number_and_by_bytes() {
        let mut queue = Queue::new(limits::WAITING + 10);
        let code = |pushed: Result<(), RequestError>| pushed.unwrap_err().code;
        for _ in 0..limits::WAITING {
            queue.push(None, None, b"x".to_vec()).unwrap();
        }
        assert_eq!(code(queue.push(None, None, b"x".to_vec())), "websocket_queue_limit_reached");
        assert_eq!(next(&mut queue), Some(taken(None, "x")));
        assert_eq!(code(queue.push(None, None, vec![b'x'; 12])), "websocket_queue_limit_reached");
        queue.push(None, None, vec![b'x'; 11]).unwrap();
    }

    #[test]
    fn names_count_for_the_connections_life() {
        let mut queue = Queue::new(999);
        for n in 0..limits::LANES {
            queue.push(Some(&n.to_string()), None, Vec::new()).unwrap();
            next(&mut queue);
            queue.done(Some(&Rc::from(n.to_string())));
        }
        let refused = queue.push(Some("one more"), None, Vec::new()).unwrap_err();
        assert_eq!(refused.code, "websocket_stream_limit_reached");
        queue.push(Some("0"), None, Vec::new()).unwrap();
        queue.push(None, None, Vec::new()).unwrap();
    }
}
