//! The way of the summaries from host to host: delayed, lost or repeated as told.

use std::collections::BTreeMap;

use evenkeel_core::control::summary::{HostId, Summary};
use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

/// What happens to summaries on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// How long each takes.
    pub delay: Span,
    /// How many of a thousand are lost, each for each receiver.
    pub lost_milli: u64,
    /// How many of a thousand come twice.
    pub twice_milli: u64,
}

/// Summaries under way.
#[derive(Clone, Debug)]
pub struct Exchange {
    way: Way,
    prng: Prng,
    sent: u64,
    under_way: BTreeMap<(Nanos, u64), (HostId, Summary)>,
}

impl Exchange {
    /// Nothing is under way.
    pub fn new(way: Way, seed: u64) -> Self {
        Self { way, prng: Prng::new(seed), sent: 0, under_way: BTreeMap::new() }
    }

    /// A host tells one other.
    pub fn send(&mut self, now: Nanos, to: HostId, summary: &Summary) {
        if self.prng.below(1000) < self.way.lost_milli {
            return;
        }
        let copies = 1 + u64::from(self.prng.below(1000) < self.way.twice_milli);
        for _ in 0..copies {
            self.sent += 1;
            self.under_way.insert((now + self.way.delay, self.sent), (to, summary.clone()));
        }
    }

    /// The next summary that has arrived by now, and for whom.
    pub fn receive(&mut self, now: Nanos) -> Option<(HostId, Summary)> {
        let entry = self.under_way.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_arrive_in_order_after_their_delay() {
        let way = Way { delay: Span(10), ..Way::default() };
        let mut exchange = Exchange::new(way, 1);
        for period in 0..3 {
            let summary = Summary { period, ..Summary::default() };
            exchange.send(Nanos(period), HostId(1), &summary);
        }
        assert_eq!(exchange.receive(Nanos(9)), None);
        let arrived: Vec<u64> =
            std::iter::from_fn(|| exchange.receive(Nanos(11))).map(|(_, it)| it.period).collect();
        assert_eq!(arrived, [0, 1]);
    }

    #[test]
    fn the_told_part_is_lost_or_repeated() {
        let way = Way { delay: Span::ZERO, lost_milli: 200, twice_milli: 100 };
        let mut exchange = Exchange::new(way, 1);
        (0..10_000).for_each(|_| exchange.send(Nanos(0), HostId(0), &Summary::default()));
        let arrived = std::iter::from_fn(|| exchange.receive(Nanos(0))).count();
        assert!((8_600..9_000).contains(&arrived), "{arrived}");
    }
}
