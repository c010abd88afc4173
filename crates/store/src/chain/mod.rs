//! The chain: the drives of a store, and doing one thing on several of them at once.
//!
//! The log is laid over the drives segment by segment, never striped: at any time the tail is on
//! one drive (or one pair), which is only appended to, while the others are free for reading and
//! cleaning (Gecko, FAST 2013).

mod member;
mod pointers;

pub(crate) use member::Member;

use crate::buffer::Buffer;
use crate::drive::zone::DriveShape;
use crate::drive::{Drive, DriveError};
use crate::format::Defect;
use crate::format::layout::Layout;
use crate::format::superblock::Superblock;
use crate::sync::join_all;
use crate::units::{BLOCK_BYTES, Copies, DriveIndex};

/// The drives of a store, by index. See the [module](self).
#[derive(Debug)]
pub(crate) struct Chain<D> {
    pub(crate) members: Vec<Member<D>>,
}

/// A drive that failed, and how.
pub(crate) type Failure = (DriveIndex, DriveError);

impl<D: Drive> Chain<D> {
    pub(crate) fn active(&self) -> impl Iterator<Item = &Member<D>> {
        self.members.iter().filter(|member| member.is_active())
    }

    /// Writes the same blocks to all copies of a segment that lie on active drives; tells which
    /// failed.
    pub(crate) async fn write_copies(
        &self,
        copies: Copies,
        block: u64,
        data: &[Buffer],
    ) -> Vec<Failure> {
        let slots = copies.into_iter().flatten();
        let writes = slots.filter_map(|slot| {
            let member = &self.members[slot.drive.index()];
            let offset = member.layout.block_offset_bytes(slot.slot, block);
            member.is_active().then_some(async move {
                member.write(offset, data.to_vec()).await.map_err(|error| (member.index, error))
            })
        });
        join_all(writes).await.into_iter().filter_map(Result::err).collect()
    }

    /// Writes to the same place of every active drive; tells which failed.
    pub(crate) async fn write_everywhere(
        &self,
        offset: impl Fn(&Member<D>) -> u64,
        data: &Buffer,
    ) -> Vec<Failure> {
        let writes = self.active().map(|member| {
            let offset = offset(member);
            async move {
                let written = member.write(offset, vec![data.clone()]).await;
                written.map_err(|error| (member.index, error))
            }
        });
        join_all(writes).await.into_iter().filter_map(Result::err).collect()
    }

    /// Flushes the active drives that `wanted` accepts; tells which failed.
    pub(crate) async fn flush(&self, wanted: impl Fn(DriveIndex) -> bool) -> Vec<Failure> {
        let members = self.active().filter(|member| wanted(member.index));
        let flushes = members.map(|member| async move {
            member.flush().await.map_err(|error| (member.index, error))
        });
        join_all(flushes).await.into_iter().filter_map(Result::err).collect()
    }

    /// Writes the superblock to both of its places on every active drive, the second when the first
    /// is durable; tells which failed.
    ///
    /// So one place of each slot is whole at any time. That the other slot has the superblock
    /// before is not enough: a power cut may leave this one torn on one drive and whole on another,
    /// and the next one then goes to what is the only whole slot of the first drive.
    pub(crate) async fn write_superblock(&self, superblock: &Superblock) -> Vec<Failure> {
        let mut failures = self.write_superblock_place(superblock, 0, &[]).await;
        let has_failed =
            |failures: &[Failure], drive| failures.iter().any(|(failed, _)| *failed == drive);
        let flushed = self.flush(|drive| !has_failed(&failures, drive)).await;
        failures.extend(flushed);
        let second = self.write_superblock_place(superblock, 1, &failures).await;
        failures.extend(second);
        failures
    }

    async fn write_superblock_place(
        &self,
        superblock: &Superblock,
        place: usize,
        failed: &[Failure],
    ) -> Vec<Failure> {
        let well =
            self.active().filter(|member| failed.iter().all(|(drive, _)| *drive != member.index));
        let writes = well.map(|member| {
            let own = Superblock { drive: member.index, ..superblock.clone() };
            let block = Buffer::copy_of(&own.encode());
            let offset = member.layout.superblock_offsets_bytes(superblock.slot())[place];
            async move {
                let written = member.write(offset, vec![block]).await;
                written.map_err(|error| (member.index, error))
            }
        });
        join_all(writes).await.into_iter().filter_map(Result::err).collect()
    }
}

/// The newest superblock on a drive, from its four places; the defect of the best place if none is
/// whole. It says what the drive was part of when it was last written to.
///
/// # Errors
/// The drive's error if it cannot be read at all.
pub async fn read_superblock<D: Drive>(
    drive: &D,
) -> Result<Result<Superblock, Defect>, DriveError> {
    let mut newest: Result<Superblock, Defect> = Err(Defect::Truncated);
    let Some(layout) = Layout::of_superblocks(DriveShape::of(drive)) else { return Ok(newest) };
    for slot in 0..2 {
        for offset in layout.superblock_offsets_bytes(slot) {
            let block = match drive.read(offset, BLOCK_BYTES).await {
                Ok(block) => block,
                Err(DriveError::Medium) => continue,
                Err(error) => return Err(error),
            };
            newest = better(newest, Superblock::decode(&block));
        }
    }
    Ok(newest)
}

/// The valid one, the newer one; of two defects the one that says more.
fn better(
    known: Result<Superblock, Defect>,
    found: Result<Superblock, Defect>,
) -> Result<Superblock, Defect> {
    match (&known, &found) {
        (Ok(a), Ok(b)) => {
            if b.sequence > a.sequence {
                found
            } else {
                known
            }
        }
        (Ok(_) | Err(Defect::Version(_) | Defect::Features(_)), Err(_)) => known,
        (Err(_), _) => found,
    }
}
