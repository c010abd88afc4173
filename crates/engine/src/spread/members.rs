//! Which servers of a volume objects are placed on, and which ones before the last change.
//!
//! Servers have numbers for as long as they belong to the volume, and candidates are drawn among
//! the numbers. A change of the members thus gives objects other candidates:
//!
//! ```text
//! era 0   1 2 3        all objects under the first map
//! era 1   1 2 3 4      server 4 joins: object by object passes from the map before to this one
//! era 2   1   3 4      server 2 leaves, once all objects have passed to era 1; and so on
//! ```
//!
//! How far the objects of a page have passed, the page itself says, in the same block as their
//! choices; so a choice and the map that it is meant for are written as one.

use super::layout::{KEEPERS_MAX, SERVERS_MAX};

/// Sets of servers by their numbers: bit n stands for number n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Members {
    /// Counts the changes.
    pub(super) era: u16,
    /// Who objects were placed on before the last change.
    pub(super) before: u64,
    /// Who they are placed on.
    pub(super) after: u64,
    /// Who keeps the choices.
    pub(super) keepers: u64,
}

impl Members {
    /// Those of a new volume.
    pub(super) fn of_new(servers: usize) -> Self {
        let all = first_bits(servers);
        Self { era: 0, before: all, after: all, keepers: first_bits(servers.min(KEEPERS_MAX)) }
    }

    /// Everybody whom objects may lie on.
    pub(super) fn all(&self) -> u64 {
        self.before | self.after
    }

    /// Whether objects may lie where the map before says.
    pub(super) fn may_be_changing(&self) -> bool {
        self.before != self.after
    }

    /// Whether all this can be.
    pub(super) fn is_sound(&self) -> bool {
        let [before, after, keepers] = [self.before, self.after, self.keepers].map(u64::count_ones);
        before >= 2
            && after >= 2
            && (1..=KEEPERS_MAX).contains(&(keepers as usize))
            && self.keepers & !self.after == 0
            && (self.era > 0 || self.before == self.after)
    }

    /// The next era, with these members; none after as many changes as can be numbered. Keepers
    /// stay what they are as far as they can.
    pub(super) fn change(&self, after: u64) -> Option<Self> {
        let era = self.era.checked_add(1)?;
        let mut keepers = self.keepers & after;
        for number in numbers(after & !keepers) {
            if (keepers.count_ones() as usize) < KEEPERS_MAX {
                keepers |= 1 << number;
            }
        }
        Some(Self { era, before: self.after, after, keepers })
    }

    /// The same once all objects have passed.
    pub(super) fn settled(&self) -> Self {
        Self { before: self.after, ..*self }
    }
}

/// The numbers of a set, ascending.
pub(super) fn numbers(set: u64) -> impl Iterator<Item = u32> {
    (0..).take(SERVERS_MAX).filter(move |number| set >> number & 1 == 1)
}

fn first_bits(count: usize) -> u64 {
    u64::MAX >> (SERVERS_MAX - count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepers_stay_and_others_take_the_place_of_those_that_leave() {
        let members = Members::of_new(5);
        assert_eq!((members.after, members.keepers), (0b11111, 0b111));
        let without = members.change(0b11101).unwrap();
        assert_eq!((without.before, without.keepers, without.era), (0b11111, 0b1101, 1));
        let joined = without.change(0b11111).unwrap();
        assert_eq!(joined.keepers, 0b1101, "whoever comes back keeps nothing");
        assert!(without.is_sound() && joined.is_sound() && joined.settled().is_sound());
        assert_eq!(Members { era: u16::MAX, ..members }.change(0b111), None);
        assert_eq!(Members::of_new(64).after, u64::MAX);
    }
}
