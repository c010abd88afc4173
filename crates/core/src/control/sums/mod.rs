//! Words of many hosts, added up: what a host hears grows no longer with how many there are.
//!
//! Where every host tells every other, N hosts send N * N words a period. A thousand of them are
//! more than a socket holds, and ten thousand more than a host reads. What a host decides by
//! ([`super::shares`]) are sums anyway: what each tenant asked for and had at all hosts, and how
//! much of that at this one. So hosts are in [`SHARDS`] shards by their number. One host of each
//! shard, its *collector*, hears the words of the shard, and tells all hosts the sum. A server that
//! passes words on carries each of these messages.
//!
//! ```text
//!   hosts of a shard   o o o o o o        every period: a word each, to the collector
//!                       \ \ | | / /
//!   collector             [sum]           one sum, to all hosts: N + SHARDS x N messages
//!                       / / | | \ \
//!   all hosts          o o o o o o o o ..
//! ```
//!
//! - **What is added up** (`add`) is alike: of each tenant the flows that wait, those that do not,
//!   and those at their limit. A sum looks like the word of a host that has all their clients; so
//!   the same algorithm divides by it ([`super::member`]).
//! - **Who is in a sum** a host has to know, since it takes its own part out of the sum of its own
//!   shard: whatever else its tenants have elsewhere is in there. The collector tells the hosts of
//!   its shard whom it counts (the *roster*).
//! - **Who collects** nobody decides (`election`): where a shard is silent, one of its hosts begins
//!   to collect, the rarer its number the sooner. Of two that collect, the one that began last goes
//!   on. A sum of one that has been replaced counts as one of a former life.
//! - **From when on** (`hearing`): sites of a few gates hear words, large ones sums; nobody has to
//!   say so.
//! - **Silence.** What a collector did not hear of a host counts as among peers ([`super::peers`]):
//!   it is as it was for two periods, then fades. A shard that is silent counts in the same way
//!   until another of its hosts collects, four periods later at best.
//!
//! Sums by a tree of aggregators are those of Astrolabe (van Renesse, Birman, Vogels, ACM TOCS
//! 21(2), 2003); two levels are enough here, and each host hears the sums of all shards.

mod add;
mod collector;
mod election;
mod hearing;
mod summing;

use super::summary::HostId;
use crate::prng::Prng;
pub(super) use add::take_out;
use collector::Collector;
pub use collector::Sum;
use election::Election;
pub use hearing::Hearing;
pub use summing::Summing;

/// The period in which a collector began, from its term: the incarnation of its sums.
pub fn began(term: u64) -> u64 {
    election::begin_of(term)
}

/// How many shards the hosts are in. With ten thousand hosts a collector hears 1,250, and each host
/// eight sums.
pub const SHARDS: u32 = 8;

/// What the flows of a sum have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// They have what they ask for, or a target: what those ask for is reported.
    Content,
    /// They would take more.
    Waiting,
    /// They wait for their own limit.
    Limited,
}

impl Kind {
    const ALL: [Self; KINDS as usize] = [Self::Content, Self::Waiting, Self::Limited];
}

/// How many kinds there are.
const KINDS: u32 = 3;

/// The hosts of a shard, by its number below [`SHARDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard(u32);

impl Shard {
    /// Every shard.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SHARDS).map(Self)
    }

    /// The shard of a host.
    pub fn of(host: HostId) -> Self {
        let shard = Prng::new(u64::from(host.0)).below(u64::from(SHARDS));
        Self(u32::try_from(shard).expect("below SHARDS"))
    }

    /// Its number, below [`SHARDS`].
    pub fn number(self) -> u32 {
        self.0
    }

    /// What its flows of a kind count as: a host of its own. No host has a number so great
    /// ([`HostId::named`]).
    fn host(self, kind: Kind) -> HostId {
        HostId(FIRST + KINDS * self.0 + kind as u32)
    }

    /// The hosts that its sums count as.
    pub fn hosts(self) -> impl Iterator<Item = HostId> {
        Kind::ALL.into_iter().map(move |kind| self.host(kind))
    }

    /// The shard whose sum counts as this host; none if it is no sum.
    pub fn of_sum(host: HostId) -> Option<Self> {
        let index = host.0.checked_sub(FIRST)?;
        Some(Self(index / KINDS)).filter(|shard| shard.0 < SHARDS)
    }
}

/// The first number that a sum counts as.
const FIRST: u32 = u32::MAX - 255;

/// How many numbers no host has, the greatest of all.
pub(super) const RESERVED: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_spread_over_the_shards_and_have_no_number_of_a_sum() {
        let mut counts = [0; SHARDS as usize];
        for gate in 0..8_000 {
            let host = HostId::named(&format!("10.0.{}.{}:10900", gate / 250, gate % 250));
            assert_eq!(Shard::of_sum(host), None);
            counts[Shard::of(host).0 as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn sums_are_known_by_their_number() {
        let all: Vec<(Shard, HostId)> =
            Shard::all().flat_map(|shard| shard.hosts().map(move |host| (shard, host))).collect();
        assert_eq!(all.len(), 24);
        assert!(all.iter().all(|(shard, host)| Shard::of_sum(*host) == Some(*shard)));
        assert_eq!(Shard::of_sum(HostId(u32::MAX)), None);
    }
}
