//! So many servers behind one queue: operations begin in the order of their arrival, each as soon
//! as a server is free. How long one takes is the device's affair.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use evenkeel_core::time::Nanos;

use super::{Op, Outcome, Step};

/// The servers and who waits for them.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    count: usize,
    /// Ends of service, with a running number that settles ties, and the operation's tag.
    busy: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    waiting: VecDeque<Op>,
    begun: u64,
}

impl Servers {
    /// So many idle servers; one at least.
    pub(crate) fn new(count: u32) -> Self {
        let count = count.max(1) as usize;
        Self { count, busy: BinaryHeap::new(), waiting: VecDeque::new(), begun: 0 }
    }

    /// Takes an operation; returns it if it is to begin at once.
    pub(crate) fn submit(&mut self, op: Op) -> Option<Op> {
        if self.busy.len() < self.count {
            return Some(op);
        }
        self.waiting.push_back(op);
        None
    }

    /// An operation begins, and will be done at this instant.
    pub(crate) fn begin(&mut self, tag: u32, done_at: Nanos) {
        self.begun += 1;
        self.busy.push(Reverse((done_at, self.begun, tag)));
    }

    /// What the device is to say, and what is to begin at which instant.
    pub(crate) fn poll(&mut self, now: Nanos) -> (Step, Option<(Nanos, Op)>) {
        match self.busy.peek() {
            None => (Step::Idle, None),
            Some(&Reverse((at, ..))) if at > now => (Step::WaitUntil(at), None),
            Some(&Reverse((at, _, tag))) => {
                self.busy.pop();
                let next = self.waiting.pop_front().map(|op| (at, op));
                (Step::Done { tag, outcome: Outcome::Good }, next)
            }
        }
    }
}
