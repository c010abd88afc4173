//! What one host has said last of each of its tenants, where its words come in parts
//! ([`super::summary`]).
//!
//! A part takes the place of whatever was known of its tenants, however the parts before it were
//! cut. It is news if nothing as new is known of any of them: a part that comes twice, or after
//! a newer one, is none.
//!
//! ```text
//!   period 7   |--- 7 ---|--- 7 ---|--- 7 ---|
//!   period 8   |-- 8 --| (lost) |----- 8 ----|
//!   known      |-- 8 --|7|- 7 -||----- 8 ----|      the middle is missed, and counts as before
//! ```
//!
//! What a lost part would have told of counts as it did for [`KEPT_FOR`] periods, as long as its
//! host is heard: that the host is there is known, and most of what it says.

use super::peers::{Known, Patience};
use super::summary::{FLOWS_MAX, PARTS_MAX, Part, SumOf, Summary};

/// So many periods what was told of tenants counts of which a living host's later words are lost:
/// of parts of which half are lost, one in a million misses so many.
pub(super) const KEPT_FOR: u64 = 20;

/// The most parts of a host that are kept: lost ones leave remains between others.
const KEPT_MAX: usize = 2 * PARTS_MAX;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) incarnation: u64,
    /// The newest period that it has told of.
    pub(super) period: u64,
    /// What it said of the depth then, and what it is a sum of.
    depth: u32,
    sum: Option<SumOf>,
    /// In the order of their tenants, none of which is of two.
    parts: Vec<Summary>,
    /// Tenants in all of them.
    pub(super) flows: usize,
}

impl Told {
    /// After the first word in a life.
    pub(super) fn new(summary: Summary) -> Self {
        let Summary { incarnation, period, depth, sum, .. } = summary;
        let flows = summary.flows.len();
        Self { incarnation, period, depth, sum, parts: vec![summary], flows }
    }

    /// Whether a summary of the same life tells something new.
    pub(super) fn is_news(&self, summary: &Summary) -> bool {
        let is_as_new = |part: &Summary| part.period >= summary.period;
        !self.parts.iter().any(|part| is_as_new(part) && part.part.overlaps(summary.part))
    }

    /// The tenants of which this takes the place.
    pub(super) fn within(&self, part: Part) -> usize {
        let flows = self.parts.iter().filter(|one| one.part.overlaps(part));
        flows.flat_map(|one| &one.flows).filter(|flow| part.contains(flow.tenant)).count()
    }

    /// A summary of the same life came in that is news.
    pub(super) fn add(&mut self, summary: Summary) {
        if summary.period >= self.period {
            (self.period, self.depth, self.sum) = (summary.period, summary.depth, summary.sum);
        }
        let mut parts = Vec::with_capacity(self.parts.len() + 2);
        for part in self.parts.drain(..) {
            without(part, summary.part, &mut parts);
        }
        let place = parts.partition_point(|part| part.part.first < summary.part.first);
        parts.insert(place, summary);
        self.parts = parts;
        self.bound();
    }

    /// Forgets the oldest parts where there are more than a host can have said of late.
    fn bound(&mut self) {
        loop {
            self.flows = self.parts.iter().map(|part| part.flows.len()).sum();
            if self.parts.len() <= KEPT_MAX && self.flows <= FLOWS_MAX {
                return;
            }
            let ages = self.parts.iter().enumerate().map(|(index, part)| (part.period, index));
            let (_, oldest) = ages.min().expect("there are too many");
            self.parts.remove(oldest);
        }
    }

    /// What counts of it while `period` is under way.
    pub(super) fn known(&self, period: u64, patience: Patience) -> Known {
        let mut flows = Vec::with_capacity(self.flows);
        let mut is_lost = Vec::with_capacity(self.flows);
        let mut newest = 0;
        // A host that is ahead has told of this period all the same.
        let current = self.period.min(period);
        let missed = period.saturating_sub(self.period);
        let halvings = missed.saturating_sub(patience.kept);
        for part in &self.parts {
            if period.saturating_sub(part.period) > KEPT_FOR.max(patience.forgotten) {
                continue;
            }
            let halved =
                |flow| (0..halvings).fold(flow, |flow: super::FlowSummary, _| flow.halved());
            flows.extend(part.flows.iter().map(|flow| halved(*flow)));
            is_lost.resize(flows.len(), part.period < current);
            newest += usize::from(part.period >= current);
        }
        let of_newest = self.parts.iter().find(|part| part.period >= current);
        let expected = of_newest.map_or(1, |part| usize::from(part.part.count));
        let first = &self.parts[0];
        let summary = Summary {
            host: first.host,
            incarnation: self.incarnation,
            period: self.period,
            depth: self.depth,
            part: Part::WHOLE,
            sum: self.sum,
            flows,
        };
        Known { summary, missed, is_lost, has_gaps: newest < expected }
    }
}

/// What a part told of other tenants than those of `taken`, in their order.
fn without(mut part: Summary, taken: Part, out: &mut Vec<Summary>) {
    if !part.part.overlaps(taken) {
        return out.push(part);
    }
    let Part { first, last, .. } = part.part;
    let above = part.flows.partition_point(|flow| flow.tenant <= taken.last);
    let above = part.flows.split_off(above);
    let below = part.flows.partition_point(|flow| flow.tenant < taken.first);
    part.flows.truncate(below);
    let upper = (last > taken.last).then(|| {
        let mut first = taken.last;
        first.0 += 1;
        Summary { part: Part { first, ..part.part }, flows: above, ..part }
    });
    if first < taken.first {
        part.part.last.0 = taken.first.0 - 1;
        out.push(part);
    }
    out.extend(upper);
}

#[cfg(test)]
mod tests {
    use super::super::name::TenantNumber;
    use super::super::summary::FlowSummary;
    use super::*;

    /// A word on tenants `3 * from ..`, in which each has had as many arrivals as the period says.
    fn word(period: u64, tenants: std::ops::Range<u32>) -> Vec<Summary> {
        let flow = |tenant: u32| FlowSummary {
            tenant: TenantNumber(3 * tenant),
            arrivals: u32::try_from(period).expect("small"),
            ..FlowSummary::default()
        };
        let flows = tenants.map(flow).collect();
        Summary { period, flows, ..Summary::default() }.into_parts()
    }

    fn told(words: impl IntoIterator<Item = Summary>) -> Told {
        let mut words = words.into_iter();
        let mut told = Told::new(words.next().expect("a word"));
        for summary in words {
            assert!(told.is_news(&summary), "{:?}", summary.part);
            told.add(summary);
        }
        told
    }

    /// By how many tenants which number of arrivals was told.
    fn arrivals(known: &Known, of: u32) -> usize {
        known.summary.flows.iter().filter(|flow| flow.arrivals == of).count()
    }

    #[test]
    fn a_lost_part_leaves_what_was_known_of_its_tenants() {
        let mut words = word(7, 0..100);
        let mut next = word(8, 0..100);
        let lost = next.remove(1).flows.len();
        words.extend(next);
        let told = told(words);
        let known = told.known(8, Patience::default());
        assert!(known.summary.flows.is_sorted_by_key(|flow| flow.tenant));
        assert_eq!((arrivals(&known, 8), arrivals(&known, 7)), (100 - lost, lost));
        assert_eq!(known.is_lost.iter().filter(|is_lost| **is_lost).count(), lost);
        assert!(known.has_gaps && known.missed == 0);
    }

    #[test]
    fn parts_that_are_cut_otherwise_take_the_place_of_those_before() {
        let mut words = word(7, 0..100);
        words.extend(word(8, 20..130));
        let all = told(words).known(8, Patience::default());
        assert_eq!((arrivals(&all, 8), all.summary.flows.len()), (110, 110));
        assert!(!all.has_gaps && !all.is_lost.contains(&true));
        // The first 20 have nothing to tell any more; that was said by a part that is lost.
        let mut words = word(7, 0..100);
        words.extend(word(8, 20..130).into_iter().skip(1));
        let lossy = told(words).known(8, Patience::default());
        assert!(lossy.has_gaps && arrivals(&lossy, 7) >= 20);
        assert!(lossy.summary.flows.is_sorted_by(|one, next| one.tenant < next.tenant));
    }

    #[test]
    fn what_comes_twice_or_after_something_newer_is_no_news() {
        let (old, new) = (word(7, 0..100), word(8, 0..90));
        let told = told(new.clone());
        assert!(old.iter().chain(&new).all(|summary| !told.is_news(summary)));
        assert!(word(9, 0..90).iter().all(|summary| told.is_news(summary)));
    }

    #[test]
    fn a_part_that_comes_late_counts_where_nothing_newer_is_known() {
        let (old, mut new) = (word(7, 0..100), word(8, 0..100));
        let late = new.pop().expect("several");
        let mut told = told(old.into_iter().chain(new));
        told.add(word(9, 0..100).remove(0));
        assert!(told.is_news(&late));
        told.add(late);
        let known = told.known(9, Patience::default());
        assert_eq!(known.summary.period, 9);
        assert_eq!(arrivals(&known, 7), 0);
    }

    #[test]
    fn tenants_whose_parts_are_lost_for_long_are_forgotten_while_their_host_is_heard() {
        let first = word(1, 0..100);
        let mut told = told(first.clone());
        for period in 2..30 {
            told.add(word(period, 0..100).remove(0));
            let known = told.known(period, Patience::default());
            let heard = first[0].flows.len();
            let is_kept = period <= 1 + KEPT_FOR;
            assert_eq!(known.summary.flows.len(), if is_kept { 100 } else { heard }, "{period}");
            assert!(known.has_gaps);
        }
    }

    /// Whoever has the key may cut words as it likes: what is kept of it is bounded.
    #[test]
    fn what_is_kept_of_a_host_is_bounded_however_it_cuts_its_words() {
        let mut told = told(word(1, 0..1_000));
        for turn in 0..5_000_u32 {
            let number = turn.wrapping_mul(2_654_435_761);
            let (first, last) = (TenantNumber(number), TenantNumber(number.saturating_add(40)));
            let part = Part { first, last, count: 32 };
            let flows = (0..32).map(|more| FlowSummary {
                tenant: TenantNumber(number.saturating_add(more)),
                ..FlowSummary::default()
            });
            let (period, flows) = (2 + u64::from(turn), flows.collect());
            let summary = Summary { period, part, flows, ..Summary::default() };
            assert!(told.is_news(&summary));
            told.add(summary);
            assert!(told.flows <= FLOWS_MAX && told.parts.len() <= KEPT_MAX);
            assert!(told.parts.is_sorted_by(|one, next| one.part.last < next.part.first));
        }
    }
}
