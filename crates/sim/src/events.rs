//! The event queue: what happens when, in integer nanoseconds.
//!
//! Events of one instant come out in the order in which they went in, by a sequence number; so the
//! order never depends on the heap, and a run on nothing but its scenario.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use evenkeel_core::time::Nanos;

/// What is due. Indexes name places in the world's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A device asked to be polled.
    Device(u32),
    /// An engine asked to be polled.
    Engine(u32),
    /// A client has something to start.
    Client(u32),
    /// A place of a closed-loop client has thought enough.
    Thought(u32),
    /// A replay has something to start.
    Replay(u32),
    /// A request reaches the gate.
    Reach(Bound),
    /// The gate's core has taken a request in.
    Admit(Bound),
    /// A unit reaches its device.
    Submit(u32),
    /// A device's answer reaches the gate.
    Answer(u32),
    /// The gate's answer reaches the client.
    Reply(u32),
    /// The gate dies.
    GateDown,
    /// The gate is back.
    GateUp,
    /// A policy comes into force.
    Policy(u32),
}

/// A request on its way into the gate, and the gate's start that it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The request's slot.
    pub(crate) slot: u32,
    /// Starts of the gate so far when it was sent.
    pub(crate) epoch: u32,
}

/// Events by time, then by the order in which they went in.
#[derive(Debug)]
pub(crate) struct Events<E = Event> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    at: Nanos,
    sequence: u64,
    event: E,
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<E> Entry<E> {
    fn key(&self) -> u128 {
        (u128::from(self.at.0) << 64) | u128::from(self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Events<E> {
    /// Puts an event in. O(log pending).
    pub(crate) fn push(&mut self, at: Nanos, event: E) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { at, sequence: self.sequence, event }));
    }

    /// Takes the next event out. O(log pending).
    pub(crate) fn pop(&mut self) -> Option<(Nanos, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_by_time_and_then_in_their_order() {
        let mut events = Events::default();
        for (at, client) in [(5, 0), (3, 1), (5, 2), (3, 3), (4, 4)] {
            events.push(Nanos(at), Event::Client(client));
        }
        let order: Vec<_> = std::iter::from_fn(|| events.pop())
            .map(|(at, event)| match event {
                Event::Client(client) => (at.0, client),
                other => panic!("{other:?} was never put in"),
            })
            .collect();
        assert_eq!(order, [(3, 1), (3, 3), (4, 4), (5, 0), (5, 2)]);
    }
}
