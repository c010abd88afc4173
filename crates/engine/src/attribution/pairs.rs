//! Who waited because of whom: the pairs that matter, in a table of fixed size.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::Span;

use super::TOP_PAIRS;
use crate::report::{Culprit, Interference};

/// A Space-Saving sketch (Metwally, Agrawal and El Abbadi, ICDT 2005).
///
/// A pair that the full table does not hold takes the place of the one with the least score, and
/// inherits that score: a pair that gathers more than its fair part of all waits is therefore never
/// missed. The score only decides who stays. Reported is the wait since the pair came in, which is
/// exact; what a pair had when it fell out is added to "other", and nothing is lost.
#[derive(Debug, Default)]
pub(crate) struct PairTable {
    pairs: Vec<Pair>,
    other_ns: u64,
}

impl Clone for PairTable {
    fn clone(&self) -> Self {
        Self { pairs: self.pairs.clone(), other_ns: self.other_ns }
    }

    /// Allocates nothing where there is room.
    fn clone_from(&mut self, source: &Self) {
        self.pairs.clone_from(&source.pairs);
        self.other_ns = source.other_ns;
    }
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    victim: TenantId,
    culprit: Culprit,
    waited_ns: u64,
    score: u64,
}

impl PairTable {
    pub(super) fn add(&mut self, victim: TenantId, culprit: Culprit, waited_ns: u64) {
        if waited_ns == 0 {
            return;
        }
        let is_same = |pair: &&mut Pair| pair.victim == victim && pair.culprit == culprit;
        if let Some(pair) = self.pairs.iter_mut().find(is_same) {
            pair.waited_ns += waited_ns;
            pair.score += waited_ns;
        } else if self.pairs.len() < TOP_PAIRS {
            self.pairs.push(Pair { victim, culprit, waited_ns, score: waited_ns });
        } else {
            let least = self.pairs.iter_mut().min_by_key(|pair| pair.score);
            let least = least.expect("a full table is not empty");
            self.other_ns += least.waited_ns;
            *least = Pair { victim, culprit, waited_ns, score: least.score + waited_ns };
        }
    }

    pub(super) fn add_other(&mut self, waited_ns: u64) {
        self.other_ns += waited_ns;
    }

    /// Whom a victim waited for since the table was this, most first. A pair that fell out and came
    /// back since counts with what it has gathered again.
    pub(crate) fn since(&self, earlier: &Self, victim: TenantId) -> Vec<(Culprit, Span)> {
        let gained_ns = |pair: &Pair| {
            let old_ns = earlier.of(victim).find(|old| old.culprit == pair.culprit);
            let old_ns = old_ns.map_or(0, |old| old.waited_ns);
            pair.waited_ns.checked_sub(old_ns).unwrap_or(pair.waited_ns)
        };
        let gained = self.of(victim).map(|pair| (pair.culprit, Span(gained_ns(pair))));
        let mut behind: Vec<_> = gained.filter(|(_, waited)| *waited > Span::ZERO).collect();
        behind.sort_by_key(|&(culprit, waited)| (std::cmp::Reverse(waited), culprit));
        behind
    }

    fn of(&self, victim: TenantId) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(move |pair| pair.victim == victim)
    }

    /// The pairs, most waited first, and the wait that belongs to none of them.
    pub(crate) fn report(&self) -> (Vec<Interference>, Span) {
        let mut pairs: Vec<_> = self
            .pairs
            .iter()
            .map(|pair| Interference {
                victim: pair.victim,
                culprit: pair.culprit,
                waited: Span(pair.waited_ns),
            })
            .collect();
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.waited), pair.victim, pair.culprit));
        (pairs, Span(self.other_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_falls_off_the_table_goes_to_other() {
        let mut pairs = PairTable::default();
        let mut sum = 0;
        for round in 0..1000_u32 {
            pairs.add(
                TenantId(round % 97),
                Culprit::Tenant(TenantId(round % 13)),
                u64::from(round),
            );
            pairs.add(TenantId(1000), Culprit::Tenant(TenantId(1001)), 500);
            sum += u64::from(round) + 500;
        }
        let (top, other) = pairs.report();
        assert_eq!(top.len(), TOP_PAIRS);
        assert_eq!(top.iter().map(|pair| pair.waited.0).sum::<u64>() + other.0, sum);
        assert_eq!((top[0].victim.0, top[0].waited), (1000, Span(500_000)), "never fell out");
    }
}
