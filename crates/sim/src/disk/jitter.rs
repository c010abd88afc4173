//! A drive's timing that explores orders: every request takes a fixed time and a random one, as
//! many at once as there are. Requests overtake each other at will.

use std::collections::BTreeSet;

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use crate::device::{Device, Op, Outcome, Step};

/// How long requests take.
#[derive(Clone, Copy, Debug)]
pub struct JitterOptions {
    /// Every request, at least.
    pub fixed: Span,
    /// What comes on top, on average; exponentially distributed.
    pub random: Span,
    /// A flush takes this many times as long.
    pub flush_times: u64,
}

impl Default for JitterOptions {
    fn default() -> Self {
        let (fixed, random) = (Span::from_micros(20), Span::from_micros(80));
        Self { fixed, random, flush_times: 4 }
    }
}

/// Timing by a seed.
#[derive(Clone, Debug)]
pub struct Jitter {
    options: JitterOptions,
    prng: Prng,
    size_bytes: u64,
    under_way: BTreeSet<(Nanos, u32)>,
}

impl Jitter {
    /// An idle drive.
    pub fn new(options: JitterOptions, size_bytes: u64, seed: u64) -> Self {
        Self { options, prng: Prng::new(seed), size_bytes, under_way: BTreeSet::new() }
    }
}

impl Device for Jitter {
    fn submit(&mut self, now: Nanos, op: Op) {
        let random = self.prng.exponential(self.options.random);
        let times = if op.kind == Kind::Flush { self.options.flush_times } else { 1 };
        let takes = Span((self.options.fixed + random).0 * times);
        self.under_way.insert((now + takes, op.tag));
    }

    fn poll(&mut self, now: Nanos) -> Step {
        match self.under_way.first() {
            None => Step::Idle,
            Some(&(at, _)) if at > now => Step::WaitUntil(at),
            Some(&(_, tag)) => {
                self.under_way.pop_first();
                Step::Done { tag, outcome: Outcome::Good }
            }
        }
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}
