//! Whose a volume in service is, as far as that has shown, and who waits for it to be ours.

use evenkeel_core::time::Nanos;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Possession {
    state: State,
    /// Until then the volume is ours.
    held_until: Nanos,
    /// Requests that wait for that.
    pub(crate) waiting: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ours,
    /// Something was due when it was not known.
    Lapsed,
    /// It is another gate's.
    Claimed,
}

impl Possession {
    /// Nobody knows yet whose the volume is; these requests wait for that.
    pub(crate) fn awaited(waiting: Vec<u32>) -> Self {
        Self { waiting, ..Self::default() }
    }

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

    /// Something was due although the volume is not known to be ours: it waits until it is.
    pub(crate) fn lapse(&mut self) {
        if self.state == State::Ours {
            self.state = State::Lapsed;
        }
    }
}
