//! What would be waited without whoever holds most of the device.
//!
//! What a unit finds there is not all due to those who brought it. What others have there has
//! partly piled up behind the greatest of them, and without it would be served by now. And a device
//! that serves several at once has room for some without letting any wait:
//!
//! ```text
//! found        |room|--others--|----greatest----|     wait = all - room
//! without it   |room|--others--|                      somewhat less than others - room
//! ```
//!
//! Others in closed loops, which send when an answer comes, would keep there what they have. Those
//! in open loops would have there what a device works off that gets only their units: a queue that
//! is kept in thought (Lindley 1952), which grows by each of them and shrinks at the pace of the
//! device. In which of the two a tenant sends shows by how often a unit comes promptly after an
//! answer. What others would make wait is divided among them, and the greatest has the rest, so
//! that its part is what would not be waited without it.
//!
//! A unit of weight w that finds V in thought would be back after (V + w) / pace, or after what it
//! takes alone, if that is more: so much is there room for.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};

use super::presence::OTHERS;

/// What comes within this part of the usual time after an answer comes because of it.
const PROMPT: u64 = 8;
/// So many units tell.
const MEMORY: f64 = 32.0;

/// What of a unit counts as that of a closed loop, beside which tenant that is left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closed {
    begun: u32,
    weight: u64,
}

/// The device without the units of one tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thought {
    /// Who is left out, and its place.
    without: (usize, Option<TenantId>),
    /// Of open loops, and what is truly there of closed ones.
    weight: f64,
    closed: f64,
    /// What a device works off in a nanosecond.
    pace: f64,
    /// Counts how often another was left out.
    begun: u32,
}

/// How promptly a tenant sends after answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rhythm {
    answered: Nanos,
    /// How long that took, how many units were under way, and whether it has not sent since.
    time: Span,
    units: u32,
    is_due: bool,
    closed: f64,
}

/// What units of one tenant found in thought, and what they waited, as sums that fade.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    sent: f64,
    weight: f64,
    ended: f64,
    alone_ns: f64,
    waited_ns: f64,
}

impl Default for Thought {
    fn default() -> Self {
        Self { without: (OTHERS, None), weight: 0.0, closed: 0.0, pace: 0.0, begun: 1 }
    }
}

impl Thought {
    pub(super) fn without(&self) -> (usize, Option<TenantId>) {
        self.without
    }

    pub(super) fn place(&self) -> usize {
        self.without.0
    }

    /// A unit comes, which is to this part one of a closed loop. Returns what of its weight is.
    pub(super) fn enter(&mut self, weight: u64, closed: f64) -> Closed {
        let weight = weight as f64;
        let closed = super::whole(weight * closed);
        self.weight += weight - closed as f64;
        self.closed += closed as f64;
        Closed { begun: self.begun, weight: closed }
    }

    /// One has left, of which so much counted as that of a closed loop.
    pub(super) fn leave(&mut self, Closed { begun, weight }: Closed) {
        if begun == self.begun {
            self.closed = (self.closed - weight as f64).max(0.0);
        }
    }

    pub(super) fn pass(&mut self, time_ns: u64) {
        self.weight = (self.weight - self.pace * time_ns as f64).max(0.0);
    }

    pub(super) fn set_pace(&mut self, pace: f64) {
        self.pace = pace;
    }

    /// Another is left out from now on: of the others this is there.
    pub(super) fn begin(&mut self, without: (usize, Option<TenantId>), weight: f64) {
        self.without = without;
        self.begun += 1;
        (self.weight, self.closed) = (weight, 0.0);
    }
}

impl Rhythm {
    /// It sends.
    pub(super) fn sent(&mut self, now: Nanos) {
        // An answer comes every `time / units`.
        let pause_ns = now.since(self.answered).0.saturating_mul(PROMPT * u64::from(self.units));
        let is_prompt = self.is_due && pause_ns <= self.time.0;
        self.is_due = false;
        self.closed += (f64::from(u8::from(is_prompt)) - self.closed) / MEMORY;
    }

    /// It is answered, after so long, with so many under way.
    pub(super) fn answered(&mut self, now: Nanos, time: Span, units: u32) {
        (self.answered, self.time, self.units, self.is_due) = (now, time, units, true);
    }

    /// The part of its units that come in a closed loop.
    pub(super) fn closed(&self) -> f64 {
        self.closed
    }
}

impl Found {
    /// A unit of this weight is sent.
    pub(super) fn sent(&mut self, weight: u64, thought: &Thought) {
        self.sent += 1.0;
        self.weight += thought.weight + thought.closed + weight as f64;
    }

    /// One has ended that would have taken so long alone.
    pub(super) fn ended(&mut self, alone_ns: u64) {
        self.ended += 1.0;
        self.alone_ns += alone_ns as f64;
    }

    /// So much was waited since the last tick.
    pub(super) fn waited(&mut self, wait_ns: u64) {
        self.waited_ns += wait_ns as f64;
    }

    pub(super) fn fade(&mut self) {
        let Self { sent, weight, ended, alone_ns, waited_ns } = self;
        for sum in [sent, weight, ended, alone_ns, waited_ns] {
            *sum /= 2.0;
        }
    }

    /// Another is left out from now on: what was found before is nothing to it.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    /// The part of its wait that would be waited without the one that is left out, if that is
    /// known.
    pub(super) fn part(&self, thought: &Thought) -> Option<f64> {
        if self.sent < 1.0 || self.ended < 1.0 || self.waited_ns <= 0.0 || thought.pace <= 0.0 {
            return None;
        }
        let wait_ns = self.weight / self.sent / thought.pace - self.alone_ns / self.ended;
        Some((wait_ns.max(0.0) / (self.waited_ns / self.ended)).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A device that works off a weight of 1 in a nanosecond, without somebody.
    fn thought() -> Thought {
        let mut thought = Thought::default();
        thought.begin((0, Some(TenantId(7))), 0.0);
        thought.set_pace(1.0);
        thought
    }

    #[test]
    fn what_piled_up_behind_the_greatest_is_its_doing() {
        let (mut thought, mut found) = (thought(), Found::default());
        for _ in 0..100 {
            found.sent(MS, &thought);
            let _ = thought.enter(MS, 0.0);
            thought.pass(10 * MS);
            found.ended(MS);
            found.waited(20 * MS);
        }
        assert!(found.part(&thought).is_some_and(|part| part < 0.01));
    }

    #[test]
    fn others_in_closed_loops_stay() {
        let (mut thought, mut found) = (thought(), Found::default());
        let _ = thought.enter(10 * MS, 1.0);
        for _ in 0..100 {
            found.sent(MS, &thought);
            thought.pass(10 * MS);
            found.ended(MS);
            found.waited(20 * MS);
        }
        let part = found.part(&thought).expect("it waits");
        assert!((part - 0.5).abs() < 0.01, "{part}");
    }

    #[test]
    fn a_device_that_serves_many_at_once_has_room() {
        let (mut thought, mut found) = (thought(), Found::default());
        let _ = thought.enter(7 * MS, 1.0);
        found.sent(MS, &thought);
        found.ended(8 * MS);
        found.waited(20 * MS);
        assert!(found.part(&thought).is_some_and(|part| part < 0.01));
    }

    #[test]
    fn who_sends_when_answered_is_in_a_closed_loop() {
        let play = |pause: Span| {
            let (mut rhythm, mut now) = (Rhythm::default(), Nanos::ZERO);
            for _ in 0..500 {
                rhythm.answered(now, Span::from_millis(4), 1);
                now += pause;
                rhythm.sent(now);
                now += Span::from_millis(4);
            }
            rhythm.closed()
        };
        assert!(play(Span::from_micros(50)) > 0.99);
        assert!(play(Span::from_millis(3)) < 0.01);
    }

    #[test]
    fn what_came_before_another_was_left_out_does_not_count() {
        let mut thought = thought();
        let before = thought.enter(MS, 1.0);
        thought.begin((1, Some(TenantId(8))), 0.0);
        let _ = thought.enter(MS, 1.0);
        thought.leave(before);
        assert!((thought.closed - 1e6).abs() < 1.0, "{thought:?}");
    }
}
