//! Which extent is to move where: hot ones up, in exchange for cold ones.
//!
//! Extents of slower tiers that were asked for often stand in a short list of candidates. For the
//! hottest of them the fastest tier is tried first, then the next ones:
//!
//! - If it has a free slot, the candidate moves there as soon as it was asked for often enough.
//! - If not, its coldest extent, of a sample that a hand finds as it goes round the slots, has to
//!   make room, given that the exchange pays for itself: the difference between the two, in
//!   accesses per half-life, is at least [`PAYBACK`] times what reading and writing an extent
//!   costs the
//!   candidate's tier, counted in accesses, and never below [`GAIN_MIN`]. That is also what keeps
//!   two extents alike from changing places for ever.
//!
//! Example: a disk with 8 ms per access and 150 MB/s reads and writes an extent of 1 MiB in 30 ms,
//! nearly as long as four accesses; the difference must be 8. With extents of 16 MiB it is 119.
//!
//! Every look is bounded ([`SAMPLE`] slots of each tier) and comes after so many accesses that
//! their price is O(1) each.

use evenkeel_core::ticket::{Cost, Kind};
use evenkeel_core::time::Nanos;

use super::heat::Heat;
use super::map::{Place, TierMap};
use crate::notes::STEP_BYTES_MAX;
use crate::policy::Scheduling;

/// Candidates that are kept.
const CANDIDATES: usize = 16;
/// Slots of a tier that one look goes over, and accesses between two looks.
const SAMPLE: u32 = 32;
/// How many times an exchange must pay for itself within a half-life.
const PAYBACK: u64 = 2;
/// The least difference in accesses for which an extent moves.
const GAIN_MIN: u32 = 8;
/// What an access is taken to be where its cost depends on its size.
const ACCESS_BYTES: u64 = 4096;
/// What a step of a move may cost on a tier, unless shorter ones would hardly cost less: whoever
/// comes next to the device waits for it.
const STEP_COST_MAX: Cost = Cost(10_000_000);
/// The least that a step may copy at most: a whole small extent.
const STEP_BYTES_MIN: u64 = 64 << 10;

/// An extent and the tier that it is to move to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) extent: u32,
    pub(super) tier: usize,
}

/// What is known for choosing.
#[derive(Debug)]
pub(super) struct Chooser {
    /// Extents of slower tiers that were asked for at least [`GAIN_MIN`] times.
    candidates: Vec<u32>,
    /// By tier: what an extent of it must be asked for more often than the one it displaces.
    gains: Vec<u32>,
    /// What a step of a move copies at most.
    step_bytes: u64,
    /// By tier: the slot that the next look begins with.
    hands: Vec<u32>,
    /// By tier: the coldest extent that looks have found.
    coldest: Vec<Option<u32>>,
    /// Accesses since the last look.
    since_look: u32,
}

impl Chooser {
    /// Knows nothing yet of a volume with so many tiers.
    pub(super) fn new(tiers: usize) -> Self {
        Self {
            candidates: Vec::with_capacity(CANDIDATES),
            gains: vec![GAIN_MIN; tiers],
            step_bytes: STEP_BYTES_MAX,
            hands: vec![0; tiers],
            coldest: vec![None; tiers],
            since_look: 0,
        }
    }

    /// Takes over what tiers can do, the slowest first.
    pub(super) fn configure<'a>(
        &mut self,
        extent_bytes: u64,
        tiers: impl Iterator<Item = &'a Scheduling> + Clone,
    ) {
        self.step_bytes = tiers.clone().map(step_bytes).min().unwrap_or(STEP_BYTES_MAX);
        let gain = |scheduling| gain(extent_bytes, self.step_bytes, scheduling);
        self.gains = tiers.map(gain).collect();
    }

    /// What a step of a move copies at most.
    pub(super) fn step_bytes(&self) -> u64 {
        self.step_bytes
    }

    /// An extent was asked for and now has this heat. True if it is time for a look.
    pub(super) fn touched(&mut self, extent: u32, heat: u32, place: Place, fastest: usize) -> bool {
        if heat >= GAIN_MIN && place.tier() < fastest && !self.candidates.contains(&extent) {
            if self.candidates.len() == CANDIDATES {
                // The oldest has had its looks; if it is still asked for it comes again.
                self.candidates.remove(0);
            }
            self.candidates.push(extent);
        }
        self.since_look += 1;
        self.since_look >= SAMPLE && !self.candidates.is_empty()
    }

    /// What to move now, if anything is worth it. O(candidates + tiers * sample).
    pub(super) fn look(&mut self, now: Nanos, map: &TierMap, heat: &Heat) -> Option<Choice> {
        self.since_look = 0;
        let fastest = self.gains.len() - 1;
        self.candidates.retain(|extent| {
            map.place(*extent).tier() < fastest && heat.of(now, *extent) >= GAIN_MIN
        });
        let hottest = self.candidates.iter().copied().max_by_key(|one| heat.of(now, *one))?;
        let from = map.place(hottest).tier();
        (from + 1..=fastest).rev().find_map(|tier| self.make_room(now, map, heat, hottest, tier))
    }

    /// The move that brings the extent to the tier, or the one that makes room for it there.
    fn make_room(
        &mut self,
        now: Nanos,
        map: &TierMap,
        heat: &Heat,
        extent: u32,
        tier: usize,
    ) -> Option<Choice> {
        if map.free_slots(tier) > 0 {
            return Some(Choice { extent, tier });
        }
        let victim = self.find_coldest(now, map, heat, tier)?;
        let gain = self.gains[map.place(extent).tier()];
        let is_worth_it = heat.of(now, extent) >= heat.of(now, victim).saturating_add(gain);
        let below = (0..tier).rev().find(|below| map.free_slots(*below) > 0)?;
        is_worth_it.then_some(Choice { extent: victim, tier: below })
    }

    /// The coldest extent of a tier, as far as looks have found it.
    fn find_coldest(&mut self, now: Nanos, map: &TierMap, heat: &Heat, tier: usize) -> Option<u32> {
        let slots = map.slots(tier);
        let hand = self.hands[tier];
        let seen = (0..SAMPLE.min(slots)).map(|step| Place::new(tier, (hand + step) % slots));
        let known = self.coldest[tier].filter(|extent| map.place(*extent).tier() == tier);
        let found = seen.filter_map(|place| map.occupant(place)).chain(known);
        let coldest = found.min_by_key(|extent| heat.of(now, *extent));
        self.hands[tier] = (hand + SAMPLE) % slots;
        self.coldest[tier] = coldest;
        coldest
    }
}

/// What a step of a move from or to this tier copies at most. Half as much, as long as that costs
/// too much, and half of it costs less by a third at least: where most of the cost is fixed, short
/// steps would only make moves dearer.
fn step_bytes(scheduling: &Scheduling) -> u64 {
    let cost = |size_bytes| {
        let of = |kind| scheduling.cost.cost(kind, size_bytes);
        of(Kind::Read).max(of(Kind::Write))
    };
    let mut bytes = STEP_BYTES_MAX;
    while bytes > STEP_BYTES_MIN
        && cost(bytes) > STEP_COST_MAX
        && cost(bytes / 2).0 <= cost(bytes).0 / 3 * 2
    {
        bytes /= 2;
    }
    bytes
}

/// How much hotter an extent of this tier must be than the one that it displaces.
fn gain(extent_bytes: u64, step_bytes: u64, scheduling: &Scheduling) -> u32 {
    let piece_bytes = extent_bytes.min(step_bytes).min(scheduling.unit_bytes);
    let pieces = extent_bytes / piece_bytes;
    let cost = |kind, size_bytes| scheduling.cost.cost(kind, size_bytes).0;
    let exchange = pieces * (cost(Kind::Read, piece_bytes) + cost(Kind::Write, piece_bytes));
    let accesses = PAYBACK * exchange / cost(Kind::Read, ACCESS_BYTES);
    u32::try_from(accesses).unwrap_or(u32::MAX).max(GAIN_MIN)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::id::TenantId;
    use evenkeel_core::time::Span;

    use super::super::heat::Access;
    use super::super::layout::{Layout, TierLayout};
    use super::*;
    use crate::cost::{CostModel, Line};

    fn map() -> TierMap {
        let tiers = [9, 5].map(|slots| TierLayout { data_offset: 0, slots }).to_vec();
        let (checkpoint_blocks, journal_records) = (1, 64);
        let extents = 12;
        let extent_bytes = 64 << 10;
        TierMap::initial(&Layout {
            extent_bytes,
            tiers,
            extents,
            checkpoint_blocks,
            journal_records,
        })
    }

    fn touch(heat: &mut Heat, chooser: &mut Chooser, map: &TierMap, extent: u32, times: u64) {
        for index in 0..times {
            let offset = u64::from(extent) * 65_536 + 4096 + 8192 * (index % 4);
            let access = Access {
                tenant: TenantId(0),
                extent,
                offset,
                request_end: offset + 4096,
                is_first: true,
                at_start: false,
            };
            let count = heat.touch(Nanos::ZERO, &access).unwrap();
            chooser.touched(extent, count, map.place(extent), 1);
        }
    }

    #[test]
    fn a_hot_extent_goes_up_and_a_cold_one_makes_room() {
        let (mut map, mut heat, mut chooser) = (map(), Heat::new(12), Chooser::new(2));
        assert_eq!(chooser.look(Nanos::ZERO, &map, &heat), None);
        for extent in [0, 1, 3] {
            touch(&mut heat, &mut chooser, &map, extent, 5);
        }
        touch(&mut heat, &mut chooser, &map, 7, 10);
        touch(&mut heat, &mut chooser, &map, 8, 12);
        let choice = chooser.look(Nanos::ZERO, &map, &heat);
        assert_eq!(choice, Some(Choice { extent: 8, tier: 1 }), "there is a slot");
        let to = map.take_free(1, |_| true).unwrap();
        let from = map.switch(8, to);
        map.release(from);
        let choice = chooser.look(Nanos::ZERO, &map, &heat);
        assert_eq!(choice, Some(Choice { extent: 2, tier: 0 }), "nobody asked for extent 2");
        let to = map.take_free(0, |_| true).unwrap();
        let from = map.switch(2, to);
        map.release(from);
        let choice = chooser.look(Nanos::ZERO, &map, &heat);
        assert_eq!(choice, Some(Choice { extent: 7, tier: 1 }));
    }

    #[test]
    fn extents_alike_stay_where_they_are() {
        let (mut map, mut heat, mut chooser) = (map(), Heat::new(12), Chooser::new(2));
        map.take_free(1, |_| true).unwrap();
        for extent in 0..4 {
            touch(&mut heat, &mut chooser, &map, extent, 20);
        }
        touch(&mut heat, &mut chooser, &map, 9, 27);
        assert_eq!(chooser.look(Nanos::ZERO, &map, &heat), None);
        touch(&mut heat, &mut chooser, &map, 9, 1);
        let choice = chooser.look(Nanos::ZERO, &map, &heat).unwrap();
        assert!(choice.extent < 4 && choice.tier == 0, "{choice:?}");
    }

    #[test]
    fn what_a_move_costs_is_counted_in_accesses() {
        let line = Line { fixed: Span::from_millis(8), rate_bytes: 150_000_000 };
        let cost = CostModel::Linear { read: line, write: line, flush: Span::from_millis(8) };
        let disk = Scheduling { cost, ..Scheduling::default() };
        assert_eq!(gain(1 << 20, STEP_BYTES_MAX, &disk), 8);
        assert_eq!(gain(16 << 20, STEP_BYTES_MAX, &disk), 119);
        let counted = Scheduling { cost: CostModel::PerRequest, ..Scheduling::default() };
        assert_eq!(gain(16 << 20, STEP_BYTES_MAX, &counted), 64);
    }

    #[test]
    fn a_step_is_short_where_that_spares_others_and_costs_little() {
        let tier = |fixed_us, rate_bytes| {
            let line = Line { fixed: Span::from_micros(fixed_us), rate_bytes };
            let cost = CostModel::Linear { read: line, write: line, flush: Span::ZERO };
            Scheduling { cost, ..Scheduling::default() }
        };
        assert_eq!(step_bytes(&Scheduling::default()), STEP_BYTES_MAX, "2 ms");
        assert_eq!(step_bytes(&tier(8_000, 150_000_000)), STEP_BYTES_MAX, "15 ms, half fixed");
        assert_eq!(step_bytes(&tier(1_000, 64 << 20)), 512 << 10, "17 ms, and then 9");
        assert_eq!(step_bytes(&tier(100, 1_000_000)), STEP_BYTES_MIN, "still 66 ms");
        let counted = Scheduling { cost: CostModel::PerRequest, ..Scheduling::default() };
        assert_eq!(step_bytes(&counted), STEP_BYTES_MAX);
        let mut chooser = Chooser::new(2);
        chooser.configure(1 << 20, [tier(1_000, 64 << 20), Scheduling::default()].iter());
        assert_eq!(chooser.step_bytes(), 512 << 10, "what is read from one is written to another");
    }
}
