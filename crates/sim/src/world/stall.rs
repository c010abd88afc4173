//! A backlog that never ends is a fault of the scenario: after the measured time the run waits for
//! every answer, however long that takes, but not for one that nothing will ever bring.
//!
//! ```text
//! measured.end      answer   answer                          30 days later: it never ends
//!      |---------------x--------x-------------------- .. ----------|
//! ```
//!
//! So are clients who ask again as soon as they are answered, where answers take no time: then no
//! time ever passes.

use std::fmt::Write;

use evenkeel_core::time::{Nanos, Span};

use super::World;
use super::tables::{Origin, Sender};
use crate::scenario::ScenarioFault;

/// Virtual time without a single answer that tells a backlog without end.
const PATIENCE: Span = Span::from_secs(30 * 24 * 3600);

/// So often clients may ask again at one instant, for each request under way.
const AGAIN_MAX: u64 = 1 << 14;

/// When the last answer came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    last_answer: Nanos,
    /// Clients asked again since time passed.
    again: u64,
    /// Before this the world may have reasons to stand still.
    not_before: Nanos,
}

impl Stall {
    /// `not_before` is the end of the measured time and of the last fault.
    pub(super) fn new(not_before: Nanos) -> Self {
        Self { last_answer: Nanos::ZERO, again: 0, not_before }
    }

    /// A client heard of a request.
    pub(super) fn answered(&mut self, now: Nanos) {
        if now > self.last_answer {
            self.again = 0;
        }
        self.last_answer = now;
    }

    /// It asks again at once.
    pub(super) fn asked_again(&mut self) {
        self.again += 1;
    }

    /// Whether no time passes any more, with places for so many requests.
    pub(super) fn stands_still(&self, places: usize) -> bool {
        self.again > AGAIN_MAX * places as u64
    }

    pub(super) fn last_answer(&self) -> Nanos {
        self.last_answer
    }

    /// Whether nothing has been answered for too long.
    pub(super) fn is_reached(&self, now: Nanos) -> bool {
        now > self.last_answer.max(self.not_before) + PATIENCE
    }
}

impl World<'_> {
    /// No time passes any more.
    pub(super) fn standstill(&self) -> ScenarioFault {
        ScenarioFault {
            place: "scenario".to_owned(),
            what: format!(
                "no time passes after {}: clients ask again as soon as they are answered, and \
                 answers take no time; give them time to think, or the device a service time",
                Span(self.now.0)
            ),
        }
    }

    /// Whose requests wait without end.
    pub(super) fn endless(&self) -> ScenarioFault {
        let mut counts = vec![0u64; self.groups.len() + self.replays.len()];
        let mut seen = vec![false; self.flights.entries().len()];
        for request in self.requests.entries().iter().filter(|one| one.custody.is_under_way()) {
            let Origin::Flight(flight) = request.origin else { continue };
            if !std::mem::replace(&mut seen[flight as usize], true) {
                let group = match self.flights[flight].sender {
                    Sender::Client(client) => self.clients[client as usize].group as usize,
                    Sender::Replay(replay) => self.groups.len() + replay as usize,
                };
                counts[group] += 1;
            }
        }
        let names = self.groups.iter().map(|group| &group.name);
        let names = names.chain(self.replays.iter().map(|replay| &replay.name));
        let mut whose = String::new();
        for (name, count) in names.zip(counts).filter(|(_, count)| *count > 0) {
            let comma = if whose.is_empty() { "" } else { ", " };
            let _ = write!(whose, "{comma}{count} of {name:?}");
        }
        ScenarioFault {
            place: "scenario".to_owned(),
            what: format!(
                "its backlog never ends: after 30 days without an answer these requests still \
                 wait: {whose}; the devices or limits are too slow for them"
            ),
        }
    }
}
