//! What it takes to open a volume without one of its servers, and to take that server up again.
//!
//! ```text
//! opened with all      s1 s2 s3 s4      heads: slots of all; owners: opening A came to its end
//! s2 is dead, restart  s1    s3 s4      owners: opening B did, without s2, which knows A
//! s2 is back           s1 s2 s3 s4      it knows A: its table counts where choices name it, its
//!                                       choices do not; owners: opening C did, with all
//! s2 is back, older    s1 s2 s3 s4      it does not know A: refused
//! ```
//!
//! Only what openings say that came to their end counts. One that was cut short has served nothing,
//! and noted nothing that was not known before; its heads are ahead, and no more than that. So it
//! does not matter which of them a server has seen that was away.
//!
//! At most one server may be absent, be it away or back and not yet taken up: any two openings then
//! have a server in common, the later one finds what the earlier one said, and of three keepers of
//! the choices, two of which have every choice that counts, one at least is there.

use evenkeel_core::time::Nanos;

use super::format::head::Head;
use super::layout::{KEEPERS_MAX, ServerLayout};
use super::members::Members;
use super::refusal::{Needed, RefusalReason};
use super::rules::{Mutant, Rules};
use super::volume::Volume;
use crate::lease::{Absent, FRONT_BYTES, Front, LateWrites, OWNER_OFFSET, Owner, OwnerId, Settled};
use crate::notes::{Unfit, VolumeId};

/// A server that a volume was opened without.
#[derive(Clone, Debug)]
pub struct Missed {
    /// Which, in the order of the policy.
    pub server: usize,
    volume: VolumeId,
    generation: u64,
    absent: Absent,
    /// By server: where its slots begin; of the one that was missed nobody knows.
    notes_ends: Vec<u64>,
}

impl Missed {
    /// The one that this volume was opened without, if any.
    pub fn of(volume: &Volume) -> Option<Self> {
        let (server, absent) = volume.away.zip(volume.left_out)?;
        let servers = volume.layout.servers.iter().enumerate();
        let notes_end = |(at, one): (usize, &ServerLayout)| {
            if at == server { u64::MAX } else { one.data_offset }
        };
        let notes_ends = servers.map(notes_end).collect();
        let (volume, generation) = (volume.id, volume.office.generation);
        Some(Self { server, volume, generation, absent, notes_ends })
    }

    /// Whether notes may still change: clients would wait for that while the server is taken up.
    pub fn is_delayed_by(&self, late: &LateWrites, now: Nanos) -> bool {
        let ends = self.notes_ends.iter().enumerate();
        let ranges = ends.flat_map(|(at, end)| [(at, 0..OWNER_OFFSET), (at, FRONT_BYTES..*end)]);
        ranges.into_iter().any(|(at, range)| late.reaches(now, at, &range))
    }

    /// Looks at the first [`Lease::front_bytes`](crate::lease::Lease::front_bytes) of the server.
    ///
    /// # Errors
    /// Why it cannot be taken up.
    ///
    /// # Panics
    /// Unless there are so many.
    pub fn look(&self, front: &[u8]) -> Result<(), RefusalReason> {
        let front = Front::<Head>::read(front.as_chunks().0)?;
        let head = front.head.ok_or(Unfit::Blank)?;
        if head.volume != self.volume || head.number != self.absent.number {
            return Err(Unfit::OtherVolume { found: head.volume, expected: self.volume }.into());
        }
        let own = front.owner.as_ref();
        Ok(check_return((&head, own), &self.absent, self.generation, Rules::default())?)
    }
}

/// Which server is back of those that the volume was opened without.
pub(super) fn returning(fronts: &[Front<Head>], settled: &Settled) -> Option<usize> {
    let number = settled.absent?.number;
    fronts.iter().position(|front| front.head.is_some_and(|head| head.number == number))
}

/// Whether a server says of itself that this opening has claimed it, or came to its end with it.
/// Its head may be that of another one, which was cut short before that, and come late.
pub(super) fn knows(own: Option<&Owner>, opening: OwnerId) -> bool {
    own.is_some_and(|own| own.id == opening || own.settled.by == opening)
}

/// Whether a server that was away is as it was left: part of the opening before, or of attempts to
/// open the volume after that one, of which none has come to its end.
///
/// # Errors
/// It is an older copy.
pub(super) fn check_return(
    (head, own): (&Head, Option<&Owner>),
    absent: &Absent,
    newest: u64,
    rules: Rules,
) -> Result<(), Unfit> {
    let is_as_it_was =
        [head.opening, head.after].contains(&absent.known) || knows(own, absent.known);
    if is_as_it_was || rules.is_broken(Mutant::AcceptStale) {
        Ok(())
    } else {
        Err(Unfit::Stale { found: head.generation, expected: newest })
    }
}

/// Whether a server was part of the last opening that came to its end, or of a later one.
///
/// # Errors
/// It is a copy from an opening of the same generation that came to nothing.
pub(super) fn check_stay(
    (head, own): (&Head, Option<&Owner>),
    settled: &Settled,
    newest: u64,
) -> Result<(), Unfit> {
    let is_of_it = head.opening == settled.by || !settled.by.is_known() || knows(own, settled.by);
    if head.generation != settled.generation || is_of_it {
        Ok(())
    } else {
        Err(Unfit::Stale { found: head.generation, expected: newest })
    }
}

/// What to note of the server of this number, without which a volume is to be opened of which
/// `newest` is the newest head.
///
/// # Errors
/// Why it cannot be opened without.
pub(super) fn without(
    number: u32,
    newest: &Head,
    settled: &Settled,
    rules: Rules,
) -> Result<Absent, Needed> {
    if newest.members.may_be_changing() {
        return Err(Needed::Changing);
    }
    if !settled.by.is_known() {
        return Err(Needed::Unsettled);
    }
    if !can_miss_one(&newest.members) {
        return Err(Needed::FewKeepers);
    }
    match settled.absent {
        Some(absent) if absent.number == number => Ok(absent),
        Some(_) if !rules.is_broken(Mutant::TwoAbsent) => Err(Needed::Another),
        _ => Ok(Absent { number, known: settled.by }),
    }
}

/// Whether a volume with these members, all of them there, may be opened without one of them.
pub(super) fn can_miss_one(members: &Members) -> bool {
    members.keepers.count_ones() as usize == KEEPERS_MAX
}
