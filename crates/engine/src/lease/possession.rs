//! Whose a volume in service is, as far as that has shown, and who waits for it to be ours.

use evenkeel_core::time::{Nanos, Span};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Possession {
    pub(crate) state: State,
    /// Until then the volume is ours.
    pub(crate) held_until: Nanos,
    /// Requests that wait for that.
    pub(crate) waiting: Vec<u32>,
    /// For so long they wait after it has lapsed.
    pub(crate) patience: Span,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Ours,
    /// Something was due when it was not known.
    Lapsed,
    /// It is another gate's.
    Claimed,
}

impl Possession {
    /// The volume is ours until then. Returns the requests that may go on.
    pub(crate) fn held(&mut self, until: Nanos) -> Vec<u32> {
        self.held_until = until;
        if self.state == State::Lapsed {
            self.state = State::Ours;
        }
        std::mem::take(&mut self.waiting)
    }

    /// The volume is another gate's.
    pub(crate) fn lose(&mut self) {
        self.state = State::Claimed;
    }

    /// Whether another gate has the volume.
    pub(crate) fn is_claimed(&self) -> bool {
        self.state == State::Claimed
    }

    /// Whether nothing is known to stand in the way, so that what is due later is worth a timer.
    pub(crate) fn is_undisputed(&self) -> bool {
        self.state == State::Ours
    }

    /// Whether a request may begin.
    pub(crate) fn is_held(&self, now: Nanos) -> bool {
        now < self.held_until
    }

    /// Whether the volume is this gate's.
    pub(crate) fn may_serve(&self, now: Nanos) -> bool {
        !self.is_claimed() && self.is_held(now)
    }

    /// Whether it has lapsed for so long that nobody waits any more.
    pub(crate) fn is_given_up(&self, now: Nanos) -> bool {
        self.give_up_at().is_some_and(|at| now >= at)
    }

    fn give_up_at(&self) -> Option<Nanos> {
        (self.held_until > Nanos::ZERO).then(|| self.held_until + self.patience)
    }

    /// When those who wait have to be told.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.give_up_at().filter(|_| !self.waiting.is_empty())
    }

    /// Requests that have waited for too long, if it is time for that.
    pub(crate) fn take_impatient(&mut self, now: Nanos) -> Vec<u32> {
        if self.is_given_up(now) { std::mem::take(&mut self.waiting) } else { Vec::new() }
    }

    /// Something was due although the volume is not known to be ours: it waits until it is.
    pub(crate) fn lapse(&mut self) {
        if self.state == State::Ours {
            self.state = State::Lapsed;
        }
    }
}
