//! The lease of a gate while it opens a volume: it beats between two tasks, as an owner does, so
//! that an opening may take as long as it needs.
//!
//! ```text
//! claims settled -> read, mend, .. -> look, beat on every server -> mend, ..
//!        hold ------------------------>| a beat is due once each Times::beat
//! ```

use evenkeel_core::time::{Nanos, Span};

use super::{Opening, Phase, Task};
use crate::lease::{Gatekeeper, Times};

/// What an opening knows of its own lease.
#[derive(Debug)]
pub(in crate::spread) struct Tenure {
    pub(in crate::spread) right: Gatekeeper,
    /// When what is asked for was asked for first.
    pub(super) asked_at: Option<Nanos>,
    /// By server: the number of the last claim or beat that was written.
    pub(super) beats: Vec<u64>,
    /// When the opening was polled last.
    pub(super) now: Nanos,
    /// When the last round of beats began; none before the claims have settled.
    round_at: Option<Nanos>,
    /// Tasks that are left of a round.
    round_left: usize,
    /// By server: how long its last look has taken.
    look_took: Vec<Span>,
    /// The look that was answered last, and when it was asked for, until the next poll.
    looked: Option<(usize, Nanos)>,
}

impl Tenure {
    pub(super) fn new(times: Times, servers: usize) -> Self {
        Self {
            right: Gatekeeper::new(times, servers),
            asked_at: None,
            beats: vec![0; servers],
            now: Nanos::ZERO,
            round_at: None,
            round_left: 0,
            look_took: vec![Span::ZERO; servers],
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

    /// It is polled now.
    pub(super) fn polled(&mut self, now: Nanos) {
        self.now = now;
        if let Some((server, asked_at)) = self.looked.take() {
            self.look_took[server] = now.since(asked_at);
        }
    }

    /// A look was answered that was asked for at this time.
    pub(super) fn note_look(&mut self, server: usize, asked_at: Nanos) {
        self.looked = Some((server, asked_at));
    }

    /// Whether a beat is due; it is counted as begun then.
    pub(super) fn begins_round(&mut self, now: Nanos) -> bool {
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
}

impl Opening {
    /// The claims have settled: the volume is this gate's from when they were written.
    pub(super) fn take_office(&mut self) {
        let needed = self.opened().beats_needed();
        self.tenure.right.need(needed);
        // A beat is due: the claims were sent a while ago.
        self.tenure.round_at = Some(Nanos::ZERO);
    }

    /// Has as many servers looked at and beaten on as it takes to hold the volume, before anything
    /// else is done. The quickest ones: a slow server would take up all the time that there is.
    pub(super) fn push_round(&mut self) {
        let mut old = self.quickest_first();
        old.truncate(self.opened().beats_needed());
        self.tenure.round_left = 2 * old.len();
        if !self.tenure.is_held() {
            // What is beaten now has to settle; then comes the next round.
            self.tenure.round_left += 1;
            self.tasks.push_front(Task::Wait(self.names.gate.times.settle()));
        }
        for &server in old.iter().rev() {
            self.tasks.push_front(Task::WriteBeat { server });
            self.tasks.push_front(Task::ReadFront { server });
        }
    }

    /// The servers that are claimed, a slow one after those that need not wait for it: what is held
    /// by two must not lapse meanwhile.
    pub(super) fn quickest_first(&self) -> Vec<usize> {
        let mut servers: Vec<usize> = self.old().collect();
        servers.sort_by_key(|server| self.tenure.look_took[*server]);
        servers
    }

    /// A task that writes is done; it was asked for at this time.
    pub(super) fn written(&mut self, task: Task, asked_at: Nanos) {
        let tenure = &mut self.tenure;
        let now = tenure.now;
        match task {
            Task::WriteClaim { server } => {
                tenure.beats[server] += 1;
                tenure.right.claimed(server, asked_at, now);
            }
            Task::WriteBeat { server } => {
                tenure.round_left -= 1;
                tenure.beats[server] += 1;
                tenure.right.beaten(server, asked_at, now);
            }
            Task::Wait(_) => tenure.round_left = tenure.round_left.saturating_sub(1),
            Task::WriteSettled { server } => {
                tenure.beats[server] += 1;
                tenure.right.beaten(server, asked_at, now);
            }
            _ => {}
        }
    }

    /// Has claims taken back where they stand: the next gate need not watch this one, nor fence it
    /// off. What this one has written is over.
    pub(super) fn withdraw(&mut self) {
        self.phase = Phase::Withdraw;
        (self.tenure.round_left, self.tenure.round_at) = (0, None);
        let claimed = (0..self.devices.len()).filter(|server| self.tenure.beats[*server] > 0);
        for server in claimed.collect::<Vec<_>>() {
            self.tasks.push_back(Task::ReadFront { server });
            self.tasks.push_back(Task::WriteRelease { server });
        }
    }

    /// A front was read to take a claim back there; whoever else has claimed stays.
    pub(super) fn withdraw_here(&mut self, server: usize, asked_at: Nanos) {
        if self.is_ours(server) {
            self.tenure.right.looked(server, asked_at);
        } else {
            self.tasks.pop_front();
        }
    }

    /// Counts a look of a round; false if it was for something else.
    pub(super) fn is_look_of_round(&mut self) -> bool {
        let is_one = self.tenure.round_left > 0;
        self.tenure.round_left -= usize::from(is_one);
        is_one
    }
}
