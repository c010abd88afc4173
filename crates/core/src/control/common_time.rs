//! Which period it is, as gates before one device agree on: by a steady clock, set to what most of
//! them say.
//!
//! ```text
//!   steady clock  --+ offset --> common time / length of a period = its number
//!                       ^
//!   wall clock   -------+   while it says what most gates say
//!   others' words ------+   otherwise: the median of all gates, this one among them
//! ```
//!
//! The wall clocks of a site agree, as a rule, to milliseconds, and common time is theirs. But a
//! clock may be an hour off, and may be set while the gate runs. If periods were counted by it, its
//! gate would hear nobody any more, nobody would hear it, and both would take the other's slots. So
//! a step of the wall clock changes nothing here as long as others are heard: the steady clock goes
//! on. And whoever finds itself apart from the others counts as they do.
//!
//! Each word tells the number of a period, and so what its gate takes the time to be; that counts
//! as its vote for [`HEARD_FOR`]. The **median** of all votes holds, so that a few gates that are
//! off, or broken, move nobody. Of an even number the later of the two in the middle: of two gates
//! alone the one that is behind follows, which has the better odds, since a clock without a battery
//! begins in the past; and a gate that is never turned back repeats no number. All gates see the
//! same votes, so that all choose alike, and one that has joined the others stays: it is one vote
//! more for the same time.
//!
//! A word is under way for a while, so that its gate looks behind by as much. Differences below an
//! eighth of a period count as none, up to two periods common time is slewed by a hundredth, and
//! beyond that it is moved at once, after three looks that agreed. A gate that is moved begins a
//! new life for the others ([`super::peers`]).
//!
//! Whose word is a vote is for the caller to say: one that was taken, or that of a gate which has
//! proven that it speaks now ([`super::challenge`]). Others could be old words that somebody has
//! kept.
//!
//! Cf. the fault-tolerant midpoint and median in Lamport and Melliar-Smith, *Synchronizing Clocks
//! in the Presence of Faults*, JACM 1985: with more than half of the gates right, the median lies
//! between two that are.

use std::collections::BTreeMap;

use super::summary::HostId;
use crate::time::{Nanos, Span};

/// A vote counts for so long after the word. Who has heard nobody for as long is alone, and counts
/// by its wall clock.
pub const HEARD_FOR: Span = Span::from_secs(60);

/// Common time is slewed by this part of the time that passes.
const SLEW_PART: i64 = 100;

/// So many looks in a row, a period apart, have to find this gate apart before it is moved.
const LOOKS: u32 = 3;

/// No gate's clock is later, in nanoseconds since 1970: the year 2116.
const LATEST_NS: i64 = 1 << 62;

/// What another gate said last.
#[derive(Clone, Copy, Debug)]
struct Vote {
    at: Nanos,
    incarnation: u64,
    /// The beginning of the period that it told of, by its own count.
    announced_ns: i64,
    /// That, less this gate's steady clock when the word came in.
    offset_ns: i64,
}

/// What came of a look at the clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Common time was moved by so many nanoseconds: periods are counted anew.
    pub moved_ns: Option<i64>,
    /// The wall clock is off from common time by so much, more than two periods, or no longer
    /// (zero). Said when it is news: not again while the figure is about the same.
    pub off_ns: Option<i64>,
}

/// One gate's common time. See the [module](self).
#[derive(Clone, Debug)]
pub struct CommonTime {
    period: Span,
    /// Common time less the steady clock.
    offset_ns: i64,
    /// Where it is slewed to.
    aim_ns: i64,
    /// The wall clock less the steady clock.
    wall_ns: i64,
    looked: Nanos,
    judged: Nanos,
    /// Looks in a row that found this gate apart.
    apart: u32,
    /// By how much the wall clock is off, if that is more than two periods, and what was said of it
    /// last.
    off_ns: i64,
    said_ns: i64,
    votes: BTreeMap<HostId, Vote>,
}

impl CommonTime {
    /// A gate that has heard nobody yet, with periods of this length; `wall_ns` are the nanoseconds
    /// since 1970.
    pub fn start(now: Nanos, wall_ns: u64, period: Span) -> Self {
        let offset_ns = less(wall_ns, now);
        Self {
            period,
            offset_ns,
            aim_ns: offset_ns,
            wall_ns: offset_ns,
            looked: now,
            judged: now,
            apart: 0,
            off_ns: 0,
            said_ns: 0,
            votes: BTreeMap::new(),
        }
    }

    /// From now on periods have this length, and only the votes of these gates count.
    pub fn change(&mut self, period: Span, is_member: impl Fn(HostId) -> bool) {
        self.period = period;
        self.votes.retain(|host, _| is_member(*host));
    }

    /// Common time, in nanoseconds since 1970.
    pub fn ns(&self, now: Nanos) -> u64 {
        signed(now.0).saturating_add(self.offset_ns).max(0).cast_unsigned()
    }

    /// By how much the wall clock was ahead of common time at the last judgement, if that was more
    /// than two periods.
    pub fn off_ns(&self) -> Option<i64> {
        Some(self.off_ns).filter(|off_ns| *off_ns != 0)
    }

    /// A word of another gate came in, of this life of it, on the period of this number and length;
    /// whether it is news. What a gate said stays known after it counts no more.
    pub fn hear(
        &mut self,
        now: Nanos,
        (host, incarnation): (HostId, u64),
        number: u64,
        length: Span,
    ) -> bool {
        let announced_ns = signed(number.saturating_mul(length.0));
        let is_news = self
            .votes
            .get(&host)
            .is_none_or(|vote| vote.incarnation != incarnation || vote.announced_ns < announced_ns);
        let is_vote = announced_ns < LATEST_NS && is_news;
        if is_vote {
            let offset_ns = announced_ns - signed(now.0);
            self.votes.insert(host, Vote { at: now, incarnation, announced_ns, offset_ns });
        }
        is_vote
    }

    /// Time has passed, and the wall clock says this. To be called several times a period.
    pub fn look(&mut self, now: Nanos, wall_ns: u64) -> Look {
        self.wall_ns = less(wall_ns, now);
        let step_ns = signed(now.since(self.looked).0) / SLEW_PART;
        if step_ns > 0 {
            self.looked = now;
            self.offset_ns += (self.aim_ns - self.offset_ns).clamp(-step_ns, step_ns);
        }
        if now.since(self.judged) < self.period {
            return Look::default();
        }
        self.judged = now;
        let moved_ns = self.judge(now);
        Look { moved_ns, off_ns: self.note_off() }
    }

    /// By how much the wall clock is off, if that is news.
    fn note_off(&mut self) -> Option<i64> {
        let two_ns = 2 * signed(self.period.0);
        let ahead_ns = self.wall_ns.saturating_sub(self.offset_ns);
        self.off_ns = if ahead_ns.abs() > two_ns { ahead_ns } else { 0 };
        let change_ns = self.off_ns.saturating_sub(self.said_ns).abs();
        let is_news = (self.off_ns == 0) != (self.said_ns == 0)
            || change_ns > two_ns.max(self.said_ns.abs() / 2);
        is_news.then(|| {
            self.said_ns = self.off_ns;
            self.off_ns
        })
    }

    /// Finds where common time is to be; by how much it was moved there, if it was.
    fn judge(&mut self, now: Nanos) -> Option<i64> {
        let period_ns = signed(self.period.0);
        let (others, median_ns) = self.median(now);
        let is_alone = others == 0;
        let wall_agrees = (self.wall_ns - median_ns).abs() <= period_ns / 2;
        let aim_ns = if is_alone || wall_agrees { self.wall_ns } else { median_ns };
        let difference_ns = aim_ns - self.offset_ns;
        self.aim_ns = self.offset_ns;
        if difference_ns.abs() > 2 * period_ns {
            self.apart += 1;
            if !is_alone && self.apart < LOOKS {
                return None;
            }
            (self.apart, self.offset_ns, self.aim_ns) = (0, aim_ns, aim_ns);
            return Some(difference_ns);
        }
        self.apart = 0;
        // What a wall clock says is exact.
        if aim_ns == self.wall_ns || difference_ns.abs() > period_ns / 8 {
            self.aim_ns = aim_ns;
        }
        None
    }

    /// How many others are heard, and the median of all, this gate among them; of an even number
    /// the later of the two in the middle.
    fn median(&self, now: Nanos) -> (usize, i64) {
        let heard = self.votes.values().filter(|vote| now.since(vote.at) < HEARD_FOR);
        let mut offsets: Vec<i64> = heard.map(|vote| vote.offset_ns).collect();
        let others = offsets.len();
        offsets.push(self.offset_ns);
        let middle = offsets.len() / 2;
        (others, *offsets.select_nth_unstable(middle).1)
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// How far an instant is from the steady clock.
fn less(wall_ns: u64, now: Nanos) -> i64 {
    signed(wall_ns).min(LATEST_NS) - signed(now.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Span = Span::from_millis(200);
    const SECOND: u64 = 1_000_000_000;
    const BEGIN: u64 = 1_796_000_000 * SECOND;
    const OTHER: (HostId, u64) = (HostId(2), 7);

    /// Looks for so many seconds at a wall clock that is ahead by so much, while others say what
    /// they do; what came of it that was news.
    fn looks(
        common: &mut CommonTime,
        seconds: std::ops::Range<u64>,
        wall_ahead_s: i64,
        others: &[(HostId, i64)],
    ) -> Vec<Look> {
        let mut news = Vec::new();
        for tenth in seconds.start * 10..seconds.end * 10 {
            let now = Nanos(tenth * SECOND / 10);
            let true_ns = BEGIN + now.0;
            for (host, ahead_s) in others {
                let announced_ns = true_ns.wrapping_add_signed(ahead_s * 1_000_000_000);
                common.hear(now, (*host, 1), announced_ns / PERIOD.0, PERIOD);
            }
            let wall_ns = true_ns.wrapping_add_signed(wall_ahead_s * 1_000_000_000);
            let look = common.look(now, wall_ns);
            news.extend((look != Look::default()).then_some(look));
        }
        news
    }

    fn start() -> CommonTime {
        CommonTime::start(Nanos::ZERO, BEGIN, PERIOD)
    }

    #[test]
    fn a_step_is_said_once_with_its_figure_and_moves_nothing() {
        let mut common = start();
        let others = [(HostId(2), 0)];
        assert_eq!(looks(&mut common, 0..5, 0, &others), []);
        let said = |off_s: i64| Look { moved_ns: None, off_ns: Some(off_s * 1_000_000_000) };
        assert_eq!(looks(&mut common, 5..30, 3_600, &others), [said(3_600)]);
        assert_eq!(looks(&mut common, 30..60, -3_600, &others), [said(-3_600)]);
        assert_eq!(common.off_ns(), Some(-3_600_000_000_000));
        assert_eq!(looks(&mut common, 60..90, 0, &others), [said(0)]);
        assert_eq!(common.ns(Nanos(90 * SECOND)), BEGIN + 90 * SECOND);
    }

    #[test]
    fn the_median_holds_and_of_an_even_number_the_later() {
        let moved = |others: &[(HostId, i64)]| {
            let mut common = start();
            let news = looks(&mut common, 0..3, 0, others);
            news.iter().find_map(|look| look.moved_ns).map_or(0, |ns| ns / 100_000_000)
        };
        let of = |ahead: &[i64]| -> Vec<(HostId, i64)> {
            (2..).map(HostId).zip(ahead.iter().copied()).collect()
        };
        assert_eq!(moved(&of(&[-3_600])), 0, "the other is behind");
        assert_eq!(moved(&of(&[3_600])), 36_000);
        assert_eq!(moved(&of(&[3_600, 0])), 0);
        assert_eq!(moved(&of(&[3_600, 3_600])), 36_000);
        assert_eq!(moved(&of(&[-60, -3_600])), -600);
        assert_eq!(moved(&of(&[3_600, 3_600, -60])), 36_000);
        assert_eq!(moved(&of(&[3_600, 0, -3_600])), 0);
    }

    #[test]
    fn small_differences_are_slewed_and_what_is_no_clock_is_not_believed() {
        let mut common = start();
        let wall = |now: u64| BEGIN + now + 80_000_000;
        let mut last = 0;
        for tenth in 1..100 {
            let now = tenth * SECOND / 10;
            common.look(Nanos(now), wall(now));
            let passed = common.ns(Nanos(now)) - BEGIN - now;
            assert!(passed >= last && passed - last <= 1_000_000, "a hundredth: {passed}");
            last = passed;
        }
        assert_eq!(last, 80_000_000);
        assert!(!common.hear(Nanos(SECOND), OTHER, u64::MAX, PERIOD));
        assert!(common.hear(Nanos(SECOND), OTHER, 9, PERIOD));
        assert!(!common.hear(Nanos(SECOND), OTHER, 9, PERIOD), "it was heard");
        assert!(common.hear(Nanos(SECOND), (OTHER.0, 8), 9, PERIOD), "a new life");
    }
}
