//! Which content each member must have at least, as recorded on all others.
//!
//! An owner counts its beats. Each beat writes to its member the current count, the count that is
//! durable on each other member, and the number of the last durable move. A member that was rolled
//! back to an older copy, or a journal that has lost its end, is detected by the records on the
//! others:
//!
//! ```text
//! a:  | 7 | 8 | 9 ...  "b has 8 for certain"
//! b:  | 7 | 8 | 9 ...  "a has 8 for certain"     put back to 3: refused
//! ```
//!
//! Writes that were never flushed may be lost in a crash, and do not count. One number covers the
//! members; up to four that lag behind, since they are away, are recorded one by one.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 0 | 8 | the number of the last move that is durable |
//! | 8 | 8 | the count |
//! | 16 | 8 | a count that all members have for certain, but for those that follow |
//! | 24 | 4 x 12 | the number of a member and one more, or 0; and the count that it has |

use super::front::{Front, settled};
use super::owner::OwnerId;
use super::rules::{Mutant, Rules};
use super::witness::Witness;
use crate::notes::block::{Block, NUMBER_END, put_u32, put_u64, u32_at, u64_at};
use crate::notes::head::VolumeHead;
use crate::notes::{Unfit, VolumeId};

/// Members that can be recorded one by one.
pub(super) const LAGGARDS_MAX: usize = 4;
/// A member lags if it is behind by more than this: beats of members are not sent at once.
const LAG: u64 = 8;

/// What one beat says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The last move that is durable.
    pub(crate) noted: u64,
    /// The owner's count.
    pub(crate) count: u64,
    /// What members have for certain.
    pub(crate) durable: Durable,
}

/// The counts that members have for certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    /// Those that are not named.
    pub(super) all: u64,
    /// Numbers of members, and their counts.
    pub(super) laggards: [Option<(u32, u64)>; LAGGARDS_MAX],
}

impl Durable {
    /// The record of these members, by number.
    pub fn of(counts: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let mut counts: Vec<(u32, u64)> = counts.into_iter().collect();
        counts.sort_unstable_by_key(|(_, count)| *count);
        let newest = counts.last().map_or(0, |(_, count)| *count);
        let lags = |(_, count): &&(u32, u64)| count + LAG < newest;
        let lagging = counts.iter().take_while(lags).take(LAGGARDS_MAX).count();
        let mut laggards = [None; LAGGARDS_MAX];
        for (place, one) in laggards.iter_mut().zip(&counts[..lagging]) {
            *place = Some(*one);
        }
        Self { all: counts.get(lagging).map_or(0, |(_, count)| *count), laggards }
    }

    /// What the member of this number has for certain.
    pub(crate) fn of_member(&self, number: u32) -> u64 {
        let named = self.laggards.iter().flatten().find(|(named, _)| *named == number);
        named.map_or(self.all, |(_, count)| *count)
    }
}

impl Mark {
    /// What an owner says by this count: of its notes, and of its members.
    pub fn new(noted: u64, count: u64, durable: Durable) -> Self {
        Self { noted, count, durable }
    }

    /// The last move that is durable.
    pub fn noted(&self) -> u64 {
        self.noted
    }

    /// What stands from this byte of a block on; none if it cannot be.
    pub(super) fn decode(block: &Block, at: usize) -> Option<Self> {
        let number = |at: usize| Some(u64_at(block, at)).filter(|number| *number < NUMBER_END);
        let mut laggards = [None; LAGGARDS_MAX];
        for (index, place) in laggards.iter_mut().enumerate() {
            let at = at + 24 + 12 * index;
            let member = u32_at(block, at).checked_sub(1);
            *place = member.zip(Some(number(at + 4)?));
        }
        let durable = Durable { all: number(at + 16)?, laggards };
        Some(Self { noted: number(at)?, count: number(at + 8)?, durable })
    }

    /// Puts it there.
    pub(super) fn encode(&self, block: &mut Block, at: usize) {
        put_u64(block, at, self.noted);
        put_u64(block, at + 8, self.count);
        put_u64(block, at + 16, self.durable.all);
        for (index, (member, count)) in self.durable.laggards.iter().flatten().enumerate() {
            let at = at + 24 + 12 * index;
            put_u32(block, at, member + 1);
            put_u64(block, at + 4, *count);
        }
    }
}

/// Whether the members may be used as this volume, or a new one made of them: none is older than
/// what others know of it, or this gate itself; nor do they belong to another volume than this gate
/// has served.
///
/// # Errors
/// Which one does not fit.
pub(crate) fn check<H: VolumeHead>(
    fronts: &[Front<H>],
    volume: Option<VolumeId>,
    witness: Option<&Witness>,
    rules: Rules,
) -> Result<(), (usize, Unfit)> {
    match (volume, witness.map(|witness| witness.volume)) {
        (None, Some(expected)) if !rules.is_broken(Mutant::ForgetVolume) => {
            return Err((0, Unfit::Lost { expected }));
        }
        (Some(found), Some(expected))
            if found != expected && !rules.is_broken(Mutant::TakeOther) =>
        {
            return Err((0, Unfit::NotKnown { found, expected }));
        }
        (None, _) => return Ok(()),
        (Some(_), _) => {}
    }
    let is_put_back = witness.is_some_and(|one| one.generation > settled(fronts).generation);
    if is_put_back && !rules.is_broken(Mutant::ForgetOpening) {
        return Err((0, Unfit::PutBack));
    }
    let counts = |(_, why): &(usize, Unfit)| {
        !rules.is_broken(match why {
            Unfit::PutBack => Mutant::ForgetCount,
            _ => Mutant::TrustRolledBack,
        })
    };
    match rolled_back(fronts, witness).into_iter().find(counts) {
        Some(obstacle) => Err(obstacle),
        None => Ok(()),
    }
}

/// The members that are older than others know them to have been, or this gate itself does.
pub(crate) fn rolled_back<H: VolumeHead>(
    fronts: &[Front<H>],
    witness: Option<&Witness>,
) -> Vec<(usize, Unfit)> {
    let mut found = Vec::new();
    for (member, front) in fronts.iter().enumerate() {
        let Some((head, owner)) = front.head.zip(front.owner.as_ref()) else { continue };
        let number = head.member().number;
        let (by, count) = (owner.settled.by, owner.mark.count);
        let others = fronts.iter().filter_map(|other| other.owner.as_ref());
        let others = others.filter(|other| other.settled.by == by).map(|other| other.mark.durable);
        let known = others.map(|durable| durable.of_member(number)).max();
        let own = witness.filter(|witness| witness.by == by).map(|witness| witness.mark.durable);
        if let Some(expected) = known.filter(|expected| *expected > count && by.is_known()) {
            found.push((member, Unfit::RolledBack { found: count, expected }));
        } else if own.is_some_and(|durable| durable.of_member(number) > count) {
            found.push((member, Unfit::PutBack));
        }
    }
    found
}

/// The records that the claims of an opening keep until it has come to its end: they overwrite
/// those of this owner. For a member whose owner's block cannot be read, what the others record of
/// it.
pub(super) fn carried<H: VolumeHead>(fronts: &[Front<H>], by: OwnerId) -> Vec<Mark> {
    let told = |front: &Front<H>| {
        let owner = front.owner.as_ref().filter(|owner| owner.settled.by == by);
        owner.map(|owner| owner.mark)
    };
    let known = |front: &Front<H>| {
        let number = front.head?.member().number;
        let counts = fronts.iter().filter_map(told).map(|mark| mark.durable.of_member(number));
        Some(Mark { count: counts.max()?, noted: noted(fronts), ..Mark::default() })
    };
    let of = |front: &Front<H>| {
        let may_be_known = front.owner.is_none();
        told(front).or_else(|| known(front).filter(|_| may_be_known)).unwrap_or_default()
    };
    fronts.iter().map(of).collect()
}

/// The last move that is durable, as far as any member knows.
pub(crate) fn noted<H>(fronts: &[Front<H>]) -> u64 {
    let owners = fronts.iter().filter_map(|front| front.owner.as_ref());
    owners.map(|owner| owner.mark.noted).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::block::BLOCK;

    #[test]
    fn what_lags_behind_is_told_by_itself() {
        let durable = Durable::of([(0, 100), (3, 96), (5, 7), (9, 91)]);
        assert_eq!(durable.all, 96);
        let told = [0, 3, 5, 9].map(|number| durable.of_member(number));
        assert_eq!(told, [96, 96, 7, 91]);
        let many = Durable::of((0..7).map(|number| (number, u64::from(number) * 20)));
        assert_eq!((many.of_member(3), many.of_member(4), many.of_member(6)), (60, 80, 80));
        let away = Durable::of((0..7).map(|number| (number, if number < 6 { 1 } else { 90 })));
        assert_eq!(away.all, 1, "more are away than can be told");
        assert_eq!(Durable::of([]), Durable::default());
    }

    #[test]
    fn marks_are_written_as_documented() {
        let mark = Mark::new(9, 300, Durable::of([(0, 299), (1, 300), (63, 7)]));
        let mut block: Block = [0; BLOCK];
        mark.encode(&mut block, 432);
        let expected = [9_u64, 300, 299].map(u64::to_le_bytes).concat();
        assert_eq!(block[432..456], expected);
        assert_eq!((block[456..460].to_vec(), u64_at(&block, 460)), (vec![64, 0, 0, 0], 7));
        assert!(block[468..].iter().all(|byte| *byte == 0));
        assert_eq!(Mark::decode(&block, 432), Some(mark));
        assert_eq!(Mark::decode(&[0; BLOCK], 432), Some(Mark::default()), "of volumes before");
        assert_eq!(Mark::decode(&[0xff; BLOCK], 432), None);
    }
}
