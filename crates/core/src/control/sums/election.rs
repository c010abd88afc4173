//! Who adds up the words of a shard: a host that nobody appoints.
//!
//! A host that has heard no sum of its shard for a while begins to collect. How long it waits
//! follows from its number: the more zeros a hash of it begins with, the shorter. Of n hosts about
//! one has as many as n has digits in binary; it goes first, and mostly alone, and the others hear
//! its sums before their time has come.
//!
//! ```text
//!   zeros     0    1    2    3  ..  log2 n
//!   hosts    n/2  n/4  n/8  ..        1
//!   waits     3 + 2 log2 n  ..        3      periods without a sum
//! ```
//!
//! Who begins tells its first sum a period later, so that two periods lie between those that wait.
//! Two may collect nevertheless, since their sums are lost, or the network had parted. Each says
//! in which period it began, and all believe the latest; of equals more of the hash decides. The
//! other stops when it hears of it. A host that was asleep and wakes up is the earlier
//! one as well.

use super::super::summary::HostId;
use super::Shard;
use crate::prng::Prng;

/// Periods without a sum after which the host of the rarest number begins.
const SILENT_MIN: u32 = 3;

/// Between hosts of which one has one zero more than the other.
const BETWEEN: u32 = 2;

/// So many hosts a shard is taken to have as long as nothing says how many.
const HOSTS_FIRST: u32 = 4_096;

/// The bits of a term that tell collectors apart which began in the same period.
const TIE_BITS: u32 = 24;

/// The period in which a term began, by the clock of its collector.
pub(super) fn begin_of(term: u64) -> u64 {
    term >> TIE_BITS
}

/// A host's part in the election: when it begins to collect, and when it stops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Election {
    /// The zeros with which the hash of its number begins.
    zeros: u32,
    /// More of that hash.
    tie: u64,
    /// How many hosts the shard had at last.
    hosts: u32,
    /// Periods without a sum, as of the last that ended.
    silent: u32,
    is_heard: bool,
    /// The greatest term that was heard or had.
    greatest: u64,
    /// In which it collects.
    term: Option<u64>,
}

impl Election {
    /// A host that has heard nothing yet.
    pub(super) fn new(own: HostId) -> Self {
        let shard = u64::from(Shard::of(own).number());
        let hash = Prng::new(shard << 32 | u64::from(own.0)).next_u64();
        Self {
            zeros: hash.leading_zeros(),
            tie: hash & ((1 << TIE_BITS) - 1),
            hosts: HOSTS_FIRST,
            silent: 0,
            is_heard: false,
            greatest: 0,
            term: None,
        }
    }

    /// Which term this host collects in: greater than those of all that began before; none if
    /// somebody else does, or nobody yet.
    pub(super) fn term(&self) -> Option<u64> {
        self.term
    }

    /// A sum of the own shard came in, of this term, in which so many hosts are.
    pub(super) fn hear(&mut self, term: u64, hosts: u32) {
        if term < self.greatest {
            // Nobody believes it any more: the shard is as silent as without it.
            return;
        }
        (self.greatest, self.is_heard) = (term, true);
        self.hosts = hosts.max(1);
        if self.term.is_some_and(|own| own < term) {
            self.term = None;
        }
    }

    /// So many hosts of the shard are heard by their words: what is known before there is a sum.
    pub(super) fn expect(&mut self, hosts: u32) {
        if self.greatest == 0 {
            self.hosts = hosts.max(1);
        }
    }

    /// The period of this number has ended.
    pub(super) fn end_period(&mut self, period: u64) {
        let was_heard = std::mem::take(&mut self.is_heard);
        self.silent = if was_heard { 0 } else { self.silent.saturating_add(1) };
        if self.term.is_none() && self.silent >= self.patience() {
            // Greater than all before, though the clock of one of them was ahead.
            let began = period.max(begin_of(self.greatest).saturating_add(1));
            self.greatest = began << TIE_BITS | self.tie;
            self.term = Some(self.greatest);
        }
    }

    /// Periods without a sum after which this host collects.
    fn patience(&self) -> u32 {
        SILENT_MIN + BETWEEN * self.hosts.ilog2().saturating_sub(self.zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts of one shard.
    fn hosts(count: usize) -> Vec<Election> {
        let all = (0..).map(HostId).filter(|host| Shard::of(*host) == Shard(0));
        all.take(count).map(Election::new).collect()
    }

    /// Periods in which everybody who collects is heard by everybody but `deaf`; how many collect
    /// after each.
    fn run(hosts: &mut [Election], periods: std::ops::Range<u64>, deaf: usize) -> Vec<usize> {
        let count = u32::try_from(hosts.len()).expect("few");
        let mut step = |period| {
            let terms: Vec<u64> = hosts.iter().filter_map(Election::term).collect();
            for (index, host) in hosts.iter_mut().enumerate() {
                let own = host.term;
                for term in terms.iter().filter(|term| index >= deaf && Some(**term) != own) {
                    host.hear(*term, count);
                }
                // Who collects hears itself.
                if let Some(own) = host.term {
                    host.hear(own, count);
                }
                host.end_period(period);
            }
            hosts.iter().filter(|host| host.term().is_some()).count()
        };
        periods.map(&mut step).collect()
    }

    #[test]
    fn few_begin_and_one_goes_on() {
        for count in [1, 2, 10, 100, 1_250] {
            let mut hosts = hosts(count);
            let collecting = run(&mut hosts, 1..60, 0);
            assert!(collecting.iter().all(|count| *count <= 8), "{count}: {collecting:?}");
            assert!(collecting[33..].iter().all(|count| *count == 1), "{count}: {collecting:?}");
        }
    }

    #[test]
    fn the_next_one_begins_within_two_seconds_and_the_one_that_slept_stops() {
        let mut hosts = hosts(1_250);
        run(&mut hosts, 1..40, 0);
        let first = hosts.iter().position(|host| host.term().is_some()).expect("one collects");
        let mut asleep = hosts.remove(first);
        let collecting = run(&mut hosts, 40..60, 0);
        let begins = collecting.iter().position(|count| *count > 0).expect("another begins");
        assert!(begins < 10 && *collecting.last().unwrap() == 1, "{collecting:?}");
        let term = hosts.iter().find_map(Election::term).expect("it collects");
        asleep.hear(term, 1_250);
        assert_eq!(asleep.term(), None);
    }

    #[test]
    fn one_that_slept_and_is_not_believed_any_more_holds_nobody_up() {
        let mut host = hosts(1).remove(0);
        let (former, later) = (5 << TIE_BITS, 9 << TIE_BITS);
        host.hear(later, 1);
        for period in 10..30 {
            host.hear(former, 1);
            host.end_period(period);
        }
        assert!(host.term() > Some(later), "the later one has died");
        let mut host = hosts(1).remove(0);
        host.hear(900 << TIE_BITS, 1);
        (10..30).for_each(|period| host.end_period(period));
        assert!(host.term() > Some(900 << TIE_BITS), "the clock of the one before was ahead");
    }

    #[test]
    fn who_hears_nobody_collects_for_itself() {
        let mut hosts = hosts(10);
        run(&mut hosts, 1..40, 0);
        // The first three hear nobody for a while.
        assert!(*run(&mut hosts, 40..80, 3).last().unwrap() >= 3);
        assert_eq!(*run(&mut hosts, 80..90, 0).last().unwrap(), 1);
    }
}
