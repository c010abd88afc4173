//! Which of the drives given are the store's, and which of the store's are missing.

use super::OpenOptions;
use super::age::{is_rolled_back, refuse_split};
use crate::chain::{Chain, Member, read_superblock};
use crate::drive::Drive;
use crate::drive::zone::DriveShape;
use crate::error::{OpenError, ReplacementError, Side};
use crate::format::layout::Layout;
use crate::format::superblock::{DriveRow, DriveState, Superblock};
use crate::rules::{Rule, Rules};
use crate::units::{BLOCK_BYTES_U64, DriveIndex, Lsn};

/// The drives of a store in their places, and its newest superblock.
pub(super) struct Found<D> {
    pub(super) chain: Chain<D>,
    pub(super) superblock: Superblock,
    /// The drive whose copies are lost for good.
    pub(super) lost: Option<DriveIndex>,
    /// Drives that are older images of themselves. Nothing that they hold counts.
    pub(super) rolled_back: Vec<DriveIndex>,
}

/// Sorts the drives; of those that are missing, `lost` will not come back.
pub(super) async fn find<D: Drive>(
    drives: Vec<D>,
    lost: Option<DriveIndex>,
    options: &OpenOptions,
) -> Result<Found<D>, OpenError> {
    let mut known: Vec<(Superblock, D)> = Vec::new();
    for (position, drive) in drives.into_iter().enumerate() {
        let superblock = match read_superblock(&drive).await {
            Ok(Ok(superblock)) => superblock,
            Ok(Err(defect)) => return Err(OpenError::NotAMember { position, defect }),
            Err(error) => return Err(OpenError::Unreadable { position, error }),
        };
        known.push((superblock, drive));
    }
    if options.rules.hold(Rule::OneHistory) {
        refuse_split(&known.iter().map(|(own, _)| own).collect::<Vec<_>>())?;
    }
    let newest = known.iter().map(|(superblock, _)| superblock).max_by_key(|it| it.sequence);
    let newest = newest.ok_or(OpenError::NoDrive)?.clone();
    let mut places: Vec<Option<Given<D>>> = newest.drives.iter().map(|_| None).collect();
    check_lost(lost, places.len())?;
    for (position, (own, drive)) in known.into_iter().enumerate() {
        let row = row_of(&own, &newest, position)?;
        if lost == Some(own.drive) {
            return Err(OpenError::Replacement(ReplacementError::Occupied { position }));
        }
        let place = &mut places[own.drive.index()];
        if place.is_some() {
            return Err(OpenError::Duplicate { position });
        }
        let layout = layout(&newest, &drive);
        if layout.zones != row.zones || !has_room(&drive, &newest) {
            return Err(OpenError::Zones { position });
        }
        if layout.slots() < row.slots {
            return Err(OpenError::Shrunk { position });
        }
        *place = Some(Given { position, own, drive });
    }
    let (mut members, mut rolled_back) = (Vec::new(), Vec::new());
    for ((row, place), index) in newest.drives.iter().zip(places).zip((0..).map(DriveIndex)) {
        let side = place.as_ref().map(|given| (given.position, given.own.clone()));
        let member = member(&newest, row, place, index, options.rules).await?;
        if let Some((position, own)) = side
            && options.rules.hold(Rule::OneTime)
            && is_rolled_back(&member, &own, &newest).await
        {
            if newest.copies == 1 {
                let sides = [Side::of(position, &own), Side::of(position, &newest)];
                return Err(OpenError::RolledBack(sides));
            }
            // In the superblock it stays what it was: a cut before it is brought up to date must
            // not leave it as one that has all but the last records.
            member.state.set(DriveState::Stale { since: Lsn(0) });
            rolled_back.push(index);
        }
        members.push(member);
    }
    let chain = Chain { members };
    check_missing(&chain, lost, options)?;
    Ok(Found { chain, superblock: newest, lost, rolled_back })
}

/// A drive that was given, and what it says of itself.
struct Given<D> {
    position: usize,
    own: Superblock,
    drive: D,
}

fn check_lost(lost: Option<DriveIndex>, drives: usize) -> Result<(), OpenError> {
    match lost {
        Some(drive) if drive.index() >= drives => {
            Err(OpenError::Replacement(ReplacementError::UnknownDrive { drive, drives }))
        }
        _ => Ok(()),
    }
}

/// The row of the newest superblock that a drive's own superblock points at.
fn row_of(own: &Superblock, newest: &Superblock, position: usize) -> Result<DriveRow, OpenError> {
    let row = newest.drives.get(own.drive.index());
    let is_same =
        |row: &&DriveRow| Some(row.uuid) == own.drives.get(own.drive.index()).map(|own| own.uuid);
    if own.store != newest.store {
        return Err(OpenError::Foreign { position, store: own.store, expected: newest.store });
    }
    row.filter(is_same).copied().ok_or(OpenError::Replaced { position })
}

fn layout<D: Drive>(superblock: &Superblock, drive: &D) -> Layout {
    Layout::of(DriveShape::of(drive), superblock.area_blocks, superblock.segment_blocks)
}

/// Whether each zone of the drive can hold a segment.
fn has_room<D: Drive>(drive: &D, superblock: &Superblock) -> bool {
    let segment_bytes = u64::from(superblock.segment_blocks) * BLOCK_BYTES_U64;
    drive.zoning().is_none_or(|zoning| zoning.capacity_bytes >= segment_bytes)
}

async fn member<D: Drive>(
    newest: &Superblock,
    row: &DriveRow,
    place: Option<Given<D>>,
    index: DriveIndex,
    rules: Rules,
) -> Result<Member<D>, OpenError> {
    let member = match place {
        Some(Given { position, drive, .. }) => {
            Member::open(index, layout(newest, &drive), drive, rules)
                .await
                .map_err(|error| OpenError::Unreadable { position, error })?
        }
        None => {
            Member::absent(index, Layout::of(0.into(), newest.area_blocks, newest.segment_blocks))
        }
    };
    member.state.set(row.state);
    Ok(member)
}

/// Refuses to go on without drives that have everything, unless that is wanted.
fn check_missing<D: Drive>(
    chain: &Chain<D>,
    lost: Option<DriveIndex>,
    options: &OpenOptions,
) -> Result<(), OpenError> {
    let is_missing = |member: &&Member<D>| {
        !member.is_present()
            && member.state.get() == DriveState::InSync
            && lost != Some(member.index)
    };
    let missing: Vec<DriveIndex> =
        chain.members.iter().filter(is_missing).map(|member| member.index).collect();
    if missing.is_empty() || options.allow_missing {
        Ok(())
    } else {
        Err(OpenError::Missing(missing))
    }
}
