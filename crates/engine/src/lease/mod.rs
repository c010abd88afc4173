//! Leases: which gate a volume belongs to for now, and what it may therefore send.
//!
//! A plain NBD server locks nothing, so the gates keep a lease on its blocks, as cluster file
//! systems do on a shared disk (Chockler and Malkhi, "Light-weight leases for storage-centric
//! coordination", 2006). Once a beat the owner reads the front of every server, sees that it is
//! still its own, and counts up:
//!
//! ```text
//! owner A   beat 17 . . beat 18 . . beat 19 . . (dies)
//! gate B          sees 17, watches --- sees 19: refused
//! gate B                                    sees 19, watches --- lease --- sees 19: may take over
//! gate B                                       fence A, claim, settle, still its own: owner
//! ```
//!
//! An owner whose last good beat was sent longer than [`Times::hold`] ago sends nothing until it
//! has beaten again. That is less than [`Times::lease`], so no gate that keeps to it sends beside
//! one that has taken over. Two things break that bound, and only a fence heals them: a process
//! that is stopped between asking the [`Gatekeeper`] and sending, and bytes that kernels, networks
//! and servers still hold.

mod candidate;
mod front;
mod gate;
mod gatekeeper;
mod half;
mod late;
pub(crate) mod mark;
mod member;
mod office;
mod owner;
mod possession;
mod rebuilding;
mod rules;
mod tenure;
#[cfg(test)]
pub(crate) mod trial;
mod witness;

use evenkeel_core::time::Span;

pub use candidate::Names;
pub(crate) use candidate::{Act, Candidate, Obstacle};
pub(crate) use front::{FRONT_BYTES, Front, OWNER_OFFSET, settled};
pub use gate::Gate;
pub use gatekeeper::{Gatekeeper, Sending};
pub(crate) use half::Half;
pub(crate) use late::LateRanges;
pub use late::LateWrites;
pub use mark::{Durable, Mark};
pub use member::{Fenced, Identity, Lease};
pub(crate) use office::Office;
pub use owner::OwnerId;
pub(crate) use owner::{Absent, MEMBERS_MAX, Owner, Settled};
pub(crate) use possession::Possession;
pub(crate) use rebuilding::Rebuilding;
#[cfg(test)]
pub(crate) use rules::Mutant;
pub use witness::Witness;

/// The spans that a lease goes by. All gates that may want a volume keep to the longest lease that
/// any of them is set to: each writes its own beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    lease: Span,
}

impl Times {
    /// The lease unless the policy says otherwise.
    pub const DEFAULT: Self = Self { lease: Span::from_secs(5) };
    /// The shortest lease that the policy may set. Beats are a fifth of it: shorter ones would be
    /// lost to the scheduling of any busy machine.
    pub const SHORTEST: Span = Span::from_millis(500);
    /// The longest one.
    pub const LONGEST: Span = Span::from_secs(60);

    /// The spans of this lease, which is brought within the bounds and to whole milliseconds.
    pub fn of(lease: Span) -> Self {
        let millis = lease.clamp(Self::SHORTEST, Self::LONGEST).0 / 1_000_000;
        Self { lease: Span::from_millis(millis) }
    }

    /// For so long a gate watches an owner that has not let go.
    pub const fn lease(self) -> Span {
        self.lease
    }

    /// Between two beats.
    pub const fn beat(self) -> Span {
        Span(self.lease.0 / 5)
    }

    /// For so long after its last good beat was sent an owner sends.
    pub const fn hold(self) -> Span {
        Span(self.lease.0 / 5 * 3)
    }

    /// For so long a claim must stand before it counts.
    pub const fn settle(self) -> Span {
        Span(self.lease.0 / 5)
    }

    /// For so long a claim, or a beat after the right has lapsed, may rely on what a look has seen.
    /// It counts only once it has settled; older looks would disturb others for nothing.
    pub const fn fresh(self) -> Span {
        self.hold()
    }

    /// For so long a kernel may hold bytes that the server does not acknowledge: they are gone
    /// before anybody takes over.
    pub const fn unacknowledged(self) -> Span {
        Span(self.lease.0 / 5 * 2)
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_owner_has_sent_is_gone_before_anybody_takes_over() {
        for lease in [Times::SHORTEST, Times::DEFAULT.lease(), Times::LONGEST] {
            let times = Times::of(lease);
            assert!(times.hold().0 < times.lease().0);
            assert!(2 * times.beat().0 < times.hold().0, "one beat may be lost");
            assert!(times.beat() <= times.settle(), "an owner beats over late claims in time");
            let last_byte = times.hold().0 + times.unacknowledged().0;
            assert!(last_byte < times.lease().0 + times.settle().0);
        }
        assert_eq!(Times::of(Span(1)).lease(), Times::SHORTEST);
    }
}
