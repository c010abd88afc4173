//! Whether a host hears the words of all others, or sums of them.
//!
//! ```text
//!             4 periods                64 hosts            sums of most, three periods in a row
//!   starts  ------------> small  --------------------> large --------------------------> sums
//!    | ^                                                 ^                                 |
//!    | +------------------------------------------------ | --------------------------------+
//!    +------------- 16 in its shard ---------------------+    fewer than 32 for 50 periods
//! ```
//!
//! Every host decides that for itself: words go out in any state, and sums as soon as a site is
//! large, so that nobody has to know what the others hear. A host that starts hears its own shard
//! first, and sums if there are any: where a large site starts anew, nobody hears all words of it.

use super::{SHARDS, Shard};

/// From so many hosts on words are added up.
const SUMS_FROM: u32 = 64;

/// With fewer there is no need for sums any more.
const WORDS_BELOW: u32 = 32;

/// So many in one shard are enough to tell that a site is large: twice its part.
const IN_SHARD: u32 = 2 * SUMS_FROM / SHARDS;

/// Sums have to be of this part of those who speak, in percent, ..
const MOST_PERCENT: u64 = 75;

/// .. for so many periods in a row.
const MOST_FOR: u32 = 3;

/// So many periods a site has to be small.
const SMALL_FOR: u32 = 50;

/// So many periods a host that starts hears its own shard alone, ..
const START_FOR: u32 = 4;

/// .. and so many where that shard is as large as that of a large site, but sums do not come.
const SHARD_FOR: u32 = 25;

/// A sum counts for so many periods.
const FRESH_FOR: u64 = 5;

/// The last sum of a shard.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    term: u64,
    period: u64,
    hosts: u32,
}

/// What a host hears of the others, words or sums, as follows from what has come in.
#[derive(Clone, Debug, Default)]
pub struct Hearing {
    is_large: bool,
    hears_sums: bool,
    sums: [Last; SHARDS as usize],
    /// Periods since it started.
    periods: u32,
    /// Whether all words are heard as long as no sums are.
    hears_all: bool,
    /// Periods in a row with sums of most, or with few hosts.
    most_for: u32,
    small_for: u32,
}

impl Hearing {
    /// Whether words are added up.
    pub fn is_large(&self) -> bool {
        self.is_large
    }

    /// Whether this host decides by sums.
    pub fn hears_sums(&self) -> bool {
        self.hears_sums
    }

    /// Whether the words of all shards are to be heard, and not of its own alone.
    pub fn hears_all(&self) -> bool {
        !self.hears_sums && self.hears_all
    }

    /// Whether this host does not hear yet what it could decide by.
    pub fn is_starting(&self, period: u64) -> bool {
        let hears = self.hears_sums || self.hears_all;
        !hears && (self.periods <= START_FOR || self.hosts(period) > 0)
    }

    /// A sum came in, of this term and so many hosts; whether it is news.
    pub fn hear_sum(&mut self, shard: Shard, term: u64, period: u64, hosts: u32) -> bool {
        let last = &mut self.sums[shard.number() as usize];
        let is_news = (term, period) > (last.term, last.period);
        if is_news {
            *last = Last { term, period, hosts };
        }
        is_news
    }

    /// Common time was moved: what was heard is of periods that are counted otherwise.
    pub fn count_anew(&mut self) {
        self.sums = Default::default();
    }

    /// How many hosts the sums are of that came in lately.
    pub fn hosts(&self, period: u64) -> u32 {
        self.fresh(period).map(|last| last.hosts).fold(0, u32::saturating_add)
    }

    /// The sums that came in lately.
    fn fresh(&self, period: u64) -> impl Iterator<Item = &Last> {
        self.sums.iter().filter(move |last| period.saturating_sub(last.period) <= FRESH_FOR)
    }

    /// How many hosts a shard has, by the sums that came in lately, and whether those are of all
    /// shards; none if there were none.
    pub fn in_shard(&self, period: u64) -> Option<(u32, bool)> {
        let shards = u32::try_from(self.fresh(period).count()).unwrap_or(SHARDS);
        (shards > 0).then(|| (self.hosts(period) / shards, shards == SHARDS))
    }

    /// The period of this number has ended, in which so many hosts spoke to this one, itself among
    /// them. Periods in which it is cut off from all others do not count.
    pub fn end_period(&mut self, period: u64, by_words: u32) {
        let by_sums = self.hosts(period);
        let hosts = by_words.max(by_sums);
        self.small_for = if hosts < WORDS_BELOW { self.small_for.saturating_add(1) } else { 0 };
        self.periods = self.periods.saturating_add(1);
        let is_shard_large = !self.hears_all && by_words >= IN_SHARD;
        if hosts >= SUMS_FROM || by_sums >= WORDS_BELOW || is_shard_large {
            self.is_large = true;
        } else if self.small_for >= SMALL_FOR {
            // As after a start: what it can hear may be a part of a large site.
            (self.is_large, self.hears_sums, self.hears_all) = (false, false, false);
            (self.periods, self.small_for) = (0, 0);
        }
        let shard_for = if self.is_large { SHARD_FOR } else { START_FOR };
        self.hears_all |= self.periods > shard_for;
        // A shard alone does not say how many there are in all.
        let least = if self.hears_all { WORDS_BELOW } else { SUMS_FROM };
        let wanted = u64::from(by_words.max(least)) * MOST_PERCENT;
        let is_most = u64::from(by_sums) * 100 >= wanted;
        self.most_for = if is_most { self.most_for.saturating_add(1) } else { 0 };
        self.hears_sums |= self.is_large && self.most_for >= MOST_FOR;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Periods in which so many hosts speak, and sums of so many come in; after
    /// each, whether words are added up, and whether this host decides by sums.
    fn run(
        hearing: &mut Hearing,
        periods: std::ops::Range<u64>,
        (by_words, by_sums): (u32, u32),
    ) -> Vec<(bool, bool)> {
        let mut step = |period| {
            for shard in Shard::all() {
                hearing.hear_sum(shard, 1, period, by_sums / SHARDS);
            }
            hearing.end_period(period, by_words);
            (hearing.is_large(), hearing.hears_sums())
        };
        periods.map(&mut step).collect()
    }

    #[test]
    fn sums_are_heard_once_they_are_of_most_and_words_again_in_a_small_site() {
        let mut hearing = Hearing::default();
        run(&mut hearing, 1..9, (8, 0));
        assert!(hearing.hears_all());
        assert_eq!(run(&mut hearing, 9..19, (63, 0)).last(), Some(&(false, false)));
        assert_eq!(run(&mut hearing, 19..60, (200, 0)).last(), Some(&(true, false)));
        assert_eq!(run(&mut hearing, 60..90, (200, 144)).last(), Some(&(true, false)));
        assert_eq!(
            run(&mut hearing, 90..94, (200, 160)),
            [(true, false), (true, false), (true, true), (true, true)]
        );
        assert!(!hearing.hears_all());
        // Nothing of it depends on words any more, and a shard may be silent.
        assert_eq!(run(&mut hearing, 94..200, (1, 40)).last(), Some(&(true, true)));
        assert_eq!(run(&mut hearing, 200..249, (1, 24)).last(), Some(&(true, true)));
        assert_eq!(run(&mut hearing, 249..250, (1, 24)).last(), Some(&(false, false)));
        assert!(!hearing.hears_all(), "it starts anew");
        assert_eq!(run(&mut hearing, 250..256, (2, 24)).last(), Some(&(false, false)));
        assert!(hearing.hears_all());
    }

    #[test]
    fn who_starts_in_a_large_site_hears_its_sums_at_once() {
        let mut hearing = Hearing::default();
        let states = run(&mut hearing, 1..5, (1_250, 10_000));
        assert_eq!(states[1..], [(true, false), (true, true), (true, true)]);
        assert_eq!(hearing.hosts(6), 10_000);
        assert_eq!(hearing.hosts(40), 0, "they have fallen silent");
    }

    #[test]
    fn nobody_hears_all_words_of_a_large_site_that_starts() {
        let mut hearing = Hearing::default();
        assert_eq!(run(&mut hearing, 1..20, (40, 0)).last(), Some(&(true, false)));
        assert!(!hearing.hears_all());
        assert_eq!(run(&mut hearing, 20..24, (40, 320)).last(), Some(&(true, true)));
    }

    #[test]
    fn a_shard_that_is_as_large_as_that_of_a_large_site_is_not_all_there_is() {
        let mut hearing = Hearing::default();
        assert!(hearing.is_starting(0));
        // 24 of 60 are in its shard, and nobody else finds the site large.
        assert_eq!(run(&mut hearing, 1..26, (24, 24)).last(), Some(&(true, false)));
        assert!(hearing.is_starting(26) && !hearing.hears_all());
        run(&mut hearing, 26..27, (24, 24));
        assert!(hearing.hears_all() && !hearing.is_starting(27));
    }

    #[test]
    fn who_starts_decides_nothing_before_it_hears_what_there_is() {
        let mut hearing = Hearing::default();
        for (period, is_starting) in [(1, true), (2, true), (3, true), (4, true), (5, false)] {
            run(&mut hearing, period..period + 1, (1, 0));
            assert_eq!(hearing.is_starting(period), is_starting, "{period}");
        }
        let mut hearing = Hearing::default();
        run(&mut hearing, 1..3, (1_250, 9_000));
        assert!(hearing.is_starting(2), "it could lead all others");
        run(&mut hearing, 3..4, (1_250, 9_000));
        assert!(hearing.hears_sums() && !hearing.is_starting(3));
    }

    #[test]
    fn an_outage_of_some_seconds_changes_nothing() {
        let mut hearing = Hearing::default();
        run(&mut hearing, 1..20, (900, 900));
        assert_eq!(run(&mut hearing, 20..60, (1, 0)).last(), Some(&(true, true)));
        assert_eq!(run(&mut hearing, 60..70, (1, 900)).last(), Some(&(true, true)));
    }

    #[test]
    fn a_site_that_has_shrunk_is_added_up_as_long_as_anybody_hears_sums() {
        let mut hearing = Hearing::default();
        run(&mut hearing, 1..27, (5, 40));
        assert!(hearing.hears_all(), "they are too few for a large site");
        assert_eq!(run(&mut hearing, 27..31, (41, 40)).last(), Some(&(true, true)));
    }

    #[test]
    fn sums_of_the_past_and_of_replaced_collectors_are_no_news() {
        let mut hearing = Hearing::default();
        let shard = Shard(3);
        assert!(hearing.hear_sum(shard, 7, 100, 50));
        assert!(!hearing.hear_sum(shard, 7, 100, 50) && !hearing.hear_sum(shard, 7, 99, 50));
        assert!(hearing.hear_sum(shard, 8, 100, 50) && !hearing.hear_sum(shard, 7, 101, 50));
    }
}
