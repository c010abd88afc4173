//! What takes time: the contract of device models.
//!
//! A model says how long requests take and knows no content. It is a state machine with the
//! contract that schedulers have: feed one input, then poll until it no longer completes. The
//! simulator runs models in virtual time; a gate that emulates a drive waits for them in real time.

use crate::ticket::Kind;
use crate::time::Nanos;

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The owner's handle, unique among live requests; the device gives it back untouched.
    pub tag: u32,
    /// What for.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Bytes; zero for a flush.
    pub length: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Good,
    /// The device reported an error.
    Failed,
}

/// What a device does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// This request is done; poll again.
    Done {
        /// The handle of its [`Op`].
        tag: u32,
        /// How it ended.
        outcome: Outcome,
    },
    /// Nothing before this instant (which lies ahead) or the next input.
    WaitUntil(Nanos),
    /// Nothing before the next input.
    Idle,
}

/// A device as a model of time.
///
/// - Time never goes back between calls.
/// - A request goes in once and comes out once.
/// - A spurious poll changes nothing.
/// - Whoever drives a device polls it at the instant of `WaitUntil`, not later: a model may then
///   act as if it had acted by itself.
pub trait Device {
    /// Takes in a request. It lies within [`Self::size_bytes`].
    fn submit(&mut self, now: Nanos, op: Op);

    /// Says what happens next.
    fn poll(&mut self, now: Nanos) -> Step;

    /// How many bytes it holds.
    fn size_bytes(&self) -> u64;
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn submit(&mut self, now: Nanos, op: Op) {
        (**self).submit(now, op);
    }

    fn poll(&mut self, now: Nanos) -> Step {
        (**self).poll(now)
    }

    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }
}
