//! The lease of a gate while it opens a volume: it beats between two tasks, as an owner does, so
//! that an opening may take as long as it needs.
//!
//! ```text
//! claims settled -> read, mend, .. -> look, beat on every member -> mend, ..
//!        hold ------------------------>| a beat is due once each Times::beat
//! ```

use evenkeel_core::time::{Nanos, Span};

use super::candidate::Act;
use super::{Gatekeeper, Times};

/// What an opening knows of its own lease.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) right: Gatekeeper,
    /// When what is asked for was asked for first.
    pub(crate) asked_at: Option<Nanos>,
    /// By member: the number of the last claim or beat that was written.
    pub(crate) beats: Vec<u64>,
    /// When the opening was polled last.
    pub(crate) now: Nanos,
    /// When the last round of beats began; none before the claims have settled.
    round_at: Option<Nanos>,
    /// Acts that are left of a round.
    round_left: usize,
    /// By member: how long its last look has taken.
    look_took: Vec<Span>,
    /// The look that was answered last, and when it was asked for, until the next poll.
    looked: Option<(usize, Nanos)>,
}

impl Tenure {
    pub(super) fn new(times: Times, members: usize) -> Self {
        Self {
            right: Gatekeeper::new(times, members),
            asked_at: None,
            beats: vec![0; members],
            now: Nanos::ZERO,
            round_at: None,
            round_left: 0,
            look_took: vec![Span::ZERO; members],
            looked: None,
        }
    }

    fn is_held(&self) -> bool {
        self.now < self.right.held_until()
    }

    /// Whether the claims have settled.
    pub(super) fn is_in_office(&self) -> bool {
        self.round_at.is_some()
    }

    /// The claims have settled; so many members have to tell from now on that the volume is ours.
    pub(super) fn take_office(&mut self, needed: usize) {
        self.right.need(needed);
        // A beat is due: the claims were sent a while ago.
        self.round_at = Some(Nanos::ZERO);
    }

    /// No beat follows any more.
    pub(super) fn end(&mut self) {
        (self.round_left, self.round_at) = (0, None);
    }

    /// It is polled now.
    pub(crate) fn polled(&mut self, now: Nanos) {
        self.now = now;
        if let Some((member, asked_at)) = self.looked.take() {
            self.look_took[member] = now.since(asked_at);
        }
    }

    /// A look was answered that was asked for at this time.
    pub(super) fn note_look(&mut self, member: usize, asked_at: Nanos) {
        self.looked = Some((member, asked_at));
    }

    /// Whether a beat is due; it is counted as begun then.
    pub(crate) fn begins_round(&mut self, now: Nanos) -> bool {
        let beat = self.right.times().beat();
        let is_lapsed = now >= self.right.held_until();
        let is_due = self.round_at.is_some_and(|at| is_lapsed || now >= at + beat)
            && self.round_left == 0
            && self.asked_at.is_none();
        if is_due {
            self.round_at = Some(now);
        }
        is_due
    }

    /// What is to be done before anything else: as many of these members are looked at and beaten
    /// on as it takes to hold the volume. The quickest ones: a slow member would take up all the
    /// time that there is.
    pub(crate) fn round(&mut self, members: Vec<usize>, needed: usize) -> Vec<Act> {
        let mut quickest = self.quickest_first(members);
        quickest.truncate(needed);
        let mut acts: Vec<Act> = quickest
            .into_iter()
            .flat_map(|member| [Act::Look(member), Act::Beat(member)])
            .collect();
        if !self.is_held() {
            // What is beaten now has to settle; then comes the next round.
            acts.push(Act::Wait(self.right.times().settle()));
        }
        self.round_left = acts.len();
        acts
    }

    /// These members, a slow one after those that need not wait for it: what is held by two must
    /// not lapse meanwhile.
    pub(crate) fn quickest_first(&self, mut members: Vec<usize>) -> Vec<usize> {
        members.sort_by_key(|member| self.look_took[*member]);
        members
    }

    /// An act that reads nothing is done; it was asked for at this time.
    pub(crate) fn done(&mut self, act: Act, asked_at: Nanos) {
        let now = self.now;
        match act {
            Act::Claim(member) => {
                self.beats[member] += 1;
                self.right.claimed(member, asked_at, now);
            }
            Act::Beat(member) => {
                self.round_left -= 1;
                self.beats[member] += 1;
                self.right.beaten(member, asked_at, now);
            }
            Act::Settle(member) => {
                self.beats[member] += 1;
                self.right.beaten(member, asked_at, now);
            }
            Act::Wait(_) => self.round_left = self.round_left.saturating_sub(1),
            Act::Look(_) | Act::Release(_) | Act::Fence => {}
        }
    }

    /// Counts a look of a round; false if it was for something else.
    pub(super) fn is_look_of_round(&mut self) -> bool {
        let is_one = self.round_left > 0;
        self.round_left -= usize::from(is_one);
        is_one
    }
}
