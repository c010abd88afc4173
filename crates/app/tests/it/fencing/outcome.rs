//! What came of a round, and what of that is a fault.

use std::fmt;
use std::time::Duration;

use super::client::Loss;
use super::scene::Setting;

/// What came of a round.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Flushed data that was not there, by the gate that was in office, and by the one after it.
    pub(super) lost: [Loss; 2],
    /// How long after the first gate went away the second one served.
    pub(super) served: Option<Duration>,
    /// After this the second one should have served, if the first one was away so long.
    pub(super) due: Option<Duration>,
    /// Errors of the second gate after it served for the first time.
    pub(super) errors: Vec<Duration>,
    /// Requests that the first gate answered with success after the second one had begun to serve.
    pub(super) served_after: u64,
    /// Nobody served in the end.
    pub(super) nobody: bool,
    /// What else was not as it should be.
    pub(super) wrong: Vec<String>,
    /// Extents that have moved: at the first gate before its client began, and at the second one.
    pub(super) moves: [u64; 2],
    pub(super) late: Duration,
    pub(super) dead_server: Option<String>,
    pub(super) logs: String,
}

impl std::ops::Add for Loss {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            of_other: self.of_other + other.of_other,
            older: self.older + other.older,
            zeros: self.zeros + other.zeros,
            foreign: self.foreign + other.foreign,
            unreadable: self.unreadable + other.unreadable,
            checked: self.checked + other.checked,
        }
    }
}

impl Outcome {
    /// Damage; no load of the machine excuses it.
    pub(super) fn damage(&self) -> Vec<String> {
        let mut damage = self.wrong.clone();
        if self.is_damaged() {
            damage.push("flushed data was lost".into());
        }
        if self.served_after > 0 {
            damage.push("the first gate served after its term".into());
        }
        damage
    }

    /// What should not take so long on a machine that is not late itself.
    pub(super) fn slowness(&self, away_for: Duration) -> Vec<String> {
        let mut slow = Vec::new();
        if let Some(due) = self.due.filter(|due| *due < away_for)
            && self.served.is_none_or(|served| served > due)
        {
            slow.push(format!("the second gate should have served after {due:?}"));
        }
        if !self.errors.is_empty() {
            slow.push("the second gate failed in its term".into());
        }
        if self.lost[0].unreadable > 0 {
            slow.push("what was flushed is not served".into());
        }
        if self.nobody {
            slow.push("nobody serves any more".into());
        }
        slow
    }

    /// Why this machine cannot judge how long anything took.
    pub(super) fn cannot_judge(&self, setting: &Setting) -> Option<String> {
        if let Some(server) = &self.dead_server {
            return Some(server.clone());
        }
        let bearable = setting.lease / 10;
        let (late, bearable) = (self.late.as_millis(), bearable.as_millis());
        (late > bearable)
            .then(|| format!("sleeps ended {late} ms late, at most {bearable} is good"))
    }

    pub(super) fn is_damaged(&self) -> bool {
        let [in_office, after] = self.lost;
        // A server that has died (nbdkit may, when a connection is reset) has its data still.
        let excused = if self.dead_server.is_some() { after.unreadable } else { 0 };
        in_office.blocks() > in_office.unreadable || after.blocks() > excused
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.served {
            Some(served) => write!(out, "B serves after {} ms", served.as_millis())?,
            None => write!(out, "A stays")?,
        }
        for (lost, by) in self.lost.iter().zip(["in office", "third gate"]) {
            let Loss { of_other, older, zeros, foreign, unreadable, checked } = lost;
            if lost.blocks() > 0 {
                write!(
                    out,
                    "; {by}: of {checked} blocks {of_other} are A's, {older} older, {zeros} \
                     zeros, {foreign} foreign, {unreadable} not served"
                )?;
            }
        }
        if self.served_after > 0 {
            write!(out, "; A served {} requests after its term", self.served_after)?;
        }
        if let Some(first) = self.errors.first() {
            let (count, first) = (self.errors.len(), first.as_millis());
            write!(out, "; B failed {count} times, first {first} ms into its term")?;
        }
        if self.moves != [0, 0] {
            write!(out, "; A has moved {}, B {}", self.moves[0], self.moves[1])?;
        }
        write!(out, "; at most {} ms late", self.late.as_millis())
    }
}
