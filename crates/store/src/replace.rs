//! Replacing: a new, blank drive takes the place of one that failed or is missing.
//!
//! ```text
//! recover without the lost drive -> checkpoint: nothing refers to it any more
//!   -> the new drive in its place -> checkpoint: everybody knows the new drive -> open
//! ```
//!
//! Between the two checkpoints the store is one that has lost a drive; behind the second it has all
//! its drives, and many segments with one copy less than they should have. New segments get copies
//! on the new drive at once; the others are mended by cleaning, like those of a drive that was
//! away.
//!
//! A power cut at any point leaves one of these three stores, and the command is given again. The
//! new drive has no valid superblock until the last step, so that it is not taken for a member;
//! and the lost one, should it come back, is told apart by its name.

use crate::buffer::Buffer;
use crate::chain::{Member, read_superblock};
use crate::checkpoint::Base;
use crate::create::problem_of;
use crate::drive::zone::DriveShape;
use crate::drive::{Drive, DriveError, Durability};
use crate::error::{OpenError, ReplacementError};
use crate::format::layout::Layout;
use crate::format::superblock::{DriveRow, DriveState};
use crate::recover::OpenOptions;
use crate::store::Store;
use crate::units::{BLOCK_BYTES, DriveIndex, Uuid};

/// What takes whose place.
#[derive(Debug)]
pub struct Replacement<D> {
    /// The place of the drive that failed or is missing, from 0. It must not be given any more.
    pub lost: DriveIndex,
    /// The new drive; whatever is on it is lost.
    pub drive: D,
    /// The name of the new drive, drawn at random by the caller.
    pub name: Uuid,
}

impl<D: Drive> Store<D> {
    /// Opens the store on the drives that are left and the new one. While [`Store::run`] is polled,
    /// what the lost drive had is copied again; [`crate::Status::thin_segments`] says how much is
    /// left to do.
    ///
    /// # Errors
    /// [`OpenError`]; the store is then as it was, or as one that lacks this drive.
    pub async fn open_replacing(
        drives: Vec<D>,
        replacement: Replacement<D>,
        options: OpenOptions,
    ) -> Result<Self, OpenError> {
        let Replacement { lost, drive, name } = replacement;
        let mut store = Self::recover(drives, Some(lost), options).await?;
        let layout = store.layout_on(&drive, lost)?;
        store.prepare(&drive, lost, &layout).await?;
        let failed = |error| OpenError::Drive(lost, error);
        let member = Member::open(lost, layout, drive, options.rules).await.map_err(failed)?;
        store.begin(options.nonce).await?;
        store.adopt(member, name);
        store.settle_state().await?;
        // In both slots of the new drive: one unreadable slot must not make it a stranger.
        store.repeat_superblock().await;
        match store.chain.members[lost.index()].failure() {
            None => Ok(store),
            Some(error) => Err(OpenError::Drive(lost, error)),
        }
    }

    /// How the new drive is divided, if it is as large as its place.
    fn layout_on(&self, drive: &D, place: DriveIndex) -> Result<Layout, OpenError> {
        let state = self.state.borrow();
        let (shape, segment_blocks) = (DriveShape::of(drive), state.superblock.segment_blocks);
        let layout = Layout::of(shape, state.superblock.area_blocks, segment_blocks);
        let problem = shape.zoning.and_then(|zoning| problem_of(zoning, &layout));
        if let Some(problem) = problem {
            return Err(OpenError::Replacement(ReplacementError::Zones(problem)));
        }
        let slots = state.superblock.drives[place.index()].slots;
        if layout.slots() >= slots {
            return Ok(layout);
        }
        let needed_bytes = layout.least_bytes(slots);
        Err(OpenError::Replacement(ReplacementError::TooSmall { needed_bytes }))
    }

    /// Blanks the new drive, unless it is another one of this store.
    async fn prepare(
        &self,
        drive: &D,
        place: DriveIndex,
        layout: &Layout,
    ) -> Result<(), OpenError> {
        let failed = |error| OpenError::Drive(place, error);
        if let Ok(known) = read_superblock(drive).await.map_err(failed)? {
            let state = self.state.borrow();
            let row = state.superblock.drives.get(known.drive.index());
            let is_same = |row: &DriveRow| row.uuid == known.drives[known.drive.index()].uuid;
            let is_ours = known.store == state.superblock.store && row.is_some_and(is_same);
            if is_ours && known.drive != place {
                let refusal = ReplacementError::InUse { drive: known.drive };
                return Err(OpenError::Replacement(refusal));
            }
        }
        blank(drive, layout).await.map_err(failed)
    }

    fn adopt(&mut self, member: Member<D>, name: Uuid) {
        let state = self.state.get_mut();
        let row = &mut state.superblock.drives[member.index.index()];
        (row.uuid, row.state) = (name, DriveState::InSync);
        row.zones = member.layout.zones;
        let slots = row.slots;
        state.superblock.settle_features();
        state.space.adopt_drive(member.index, slots);
        // The new drive gets the whole checkpoint.
        state.base = Base::default();
        // What was staged without the drive would lack a copy for no reason.
        state.space.retract_runway();
        let place = member.index.index();
        self.chain.members[place] = member;
    }
}

/// Takes away all superblocks that may be left on a drive.
async fn blank<D: Drive>(drive: &D, layout: &Layout) -> Result<(), DriveError> {
    let zeroes = Buffer::zeroed(BLOCK_BYTES);
    for offset in (0..2).flat_map(|slot| layout.superblock_offsets_bytes(slot)) {
        drive.write(offset, vec![zeroes.clone()], Durability::Volatile).await?;
    }
    drive.flush().await
}
