//! What the changes of volumes do to the state, live and in replay alike.

use super::VOLUME_NUMBERS_END;
use crate::format::record::{Change, Extent};
use crate::format::volume::{VolumeChange, VolumeKind, VolumeRow};
use crate::map::Order;
use crate::state::State;
use crate::units::{Lsn, VolumeId};

/// A record changes what is not there: nobody writes such a one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Impossible;

impl State {
    /// Whether a change can be carried out now. What was moved may belong to nobody any more.
    pub(crate) fn check_possible(&self, extent: &Extent) -> Result<(), Impossible> {
        let row = self.volumes.get(&extent.volume);
        let is_writable = row.is_some_and(|row| row.kind != VolumeKind::Snapshot);
        let is_snapshot = |volume: VolumeId| {
            self.volumes.get(&volume).is_some_and(|row| row.kind == VolumeKind::Snapshot)
        };
        let is_fresh = row.is_none()
            && extent.volume.0 < VOLUME_NUMBERS_END
            && !self.map.is_family(extent.volume);
        let is_possible = match extent.change {
            Change::Moved { .. } => true,
            Change::Written | Change::Unmapped => {
                let end = extent.block + u64::from(extent.blocks);
                is_writable && row.is_some_and(|row| end <= row.blocks)
            }
            Change::Volume(change) => match change {
                VolumeChange::Create { .. } => is_fresh,
                VolumeChange::Resize { .. } => is_writable,
                VolumeChange::Delete => row.is_some(),
                VolumeChange::Snapshot { of } => {
                    is_fresh && self.volumes.contains_key(&of) && !is_snapshot(of)
                }
                VolumeChange::Clone { of, .. } => is_fresh && is_snapshot(of),
                VolumeChange::RollBack { to } => {
                    is_writable
                        && is_snapshot(to)
                        && self.map.family(to) == self.map.family(extent.volume)
                }
            },
        };
        if is_possible { Ok(()) } else { Err(Impossible) }
    }

    /// Carries out a change that is possible.
    pub(crate) fn apply_to_volume(&mut self, volume: VolumeId, change: VolumeChange, lsn: Lsn) {
        match change {
            VolumeChange::Create { kind, blocks } => {
                self.map.create(volume);
                let (family, origin) = (volume, None);
                self.add_volume(VolumeRow { volume, kind, family, origin, blocks, since: lsn });
            }
            VolumeChange::Resize { blocks } => {
                let cut = std::mem::replace(&mut self.row_mut(volume).blocks, blocks);
                let lose = |replaced| self.space.lose(replaced);
                self.map.unmap(volume, blocks, cut.saturating_sub(blocks), lose);
            }
            VolumeChange::Delete => {
                self.volumes.remove(&volume);
                self.map.delete(volume);
            }
            VolumeChange::Snapshot { of } => {
                self.copy_volume(of, volume, VolumeKind::Snapshot, Order::Before, lsn);
            }
            VolumeChange::Clone { of, kind } => {
                self.copy_volume(of, volume, kind, Order::Behind, lsn);
            }
            VolumeChange::RollBack { to } => {
                self.map.roll_back(volume, to);
                let blocks = self.volumes[&to].blocks;
                let row = self.row_mut(volume);
                (row.blocks, row.since) = (blocks, lsn);
            }
        }
    }

    fn copy_volume(
        &mut self,
        origin: VolumeId,
        volume: VolumeId,
        kind: VolumeKind,
        order: Order,
        since: Lsn,
    ) {
        self.map.copy(origin, volume, order);
        let VolumeRow { family, blocks, .. } = self.volumes[&origin];
        let origin = Some(origin);
        self.add_volume(VolumeRow { volume, kind, family, origin, blocks, since });
    }

    fn add_volume(&mut self, row: VolumeRow) {
        self.next_volume = self.next_volume.max(row.volume.0 + 1);
        self.volumes.insert(row.volume, row);
    }

    fn row_mut(&mut self, volume: VolumeId) -> &mut VolumeRow {
        self.volumes.get_mut(&volume).expect("the change was found possible")
    }
}
