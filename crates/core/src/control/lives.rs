//! Which life of a host counts: hosts number their lives, and what one said in an earlier life is
//! no news, however long ago it was last heard.
//!
//! ```text
//!   7 7 7  8 8  7       9        5         vouch 5    5 5  8        10
//!   taken  taken former  taken   former               taken former  taken
//! ```
//!
//! A greater number is a new life, as after a restart. A lower one is an old word that somebody has
//! kept, or a host that has lost the folder where it counts its lives. Only the host itself can say
//! which ([`super::challenge`]); once it has, that life alone counts, until a greater number than
//! any that was seen.

use std::collections::BTreeMap;

use super::summary::HostId;

#[derive(Clone, Copy, Debug)]
struct Life {
    current: u64,
    greatest: u64,
}

/// The lives of hosts. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Lives(BTreeMap<HostId, Life>);

impl Lives {
    /// Whether what a host says in this life may count.
    pub(super) fn may_count(&self, host: HostId, incarnation: u64) -> bool {
        self.0
            .get(&host)
            .is_none_or(|life| incarnation == life.current || incarnation > life.greatest)
    }

    /// This is its life from now on: a word of it was taken, or vouched for.
    pub(super) fn set(&mut self, host: HostId, incarnation: u64) {
        let greatest = self.0.get(&host).map_or(0, |life| life.greatest).max(incarnation);
        self.0.insert(host, Life { current: incarnation, greatest });
    }

    /// Forgets those that are no members.
    pub(super) fn retain(&mut self, is_member: impl Fn(HostId) -> bool) {
        self.0.retain(|host, _| is_member(*host));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_greater_life_or_the_one_that_was_vouched_for_counts() {
        let mut lives = Lives::default();
        let host = HostId(1);
        let mut counts = |incarnation| {
            let counts = lives.may_count(host, incarnation);
            if counts {
                lives.set(host, incarnation);
            }
            counts
        };
        assert_eq!([7, 8, 7, 9, 5].map(&mut counts), [true, true, false, true, false]);
        lives.set(host, 5);
        let mut counts = |incarnation| lives.may_count(host, incarnation);
        assert_eq!([5, 8, 9, 6, 10].map(&mut counts), [true, false, false, false, true]);
        lives.retain(|_| false);
        assert!(lives.may_count(host, 1));
    }
}
