//! The superblock: one block that says whose drive this is and where its newest checkpoint lies.
//!
//! It exists on every drive in two slots, A and B, each in two places ([`super::layout`]). A new
//! superblock has the next sequence number and goes to the slot of its parity, so that the newest
//! one is never overwritten. At mount the valid one with the highest sequence counts.

use super::codec::{Defect, Reader, Writer, unseal};
use super::layout::ZoneLayout;
use super::{VERSION, magic};
use crate::units::{DriveIndex, Lsn, Mount, Uuid};

/// Drives of a store at most.
pub const DRIVES_MAX: usize = 32;

/// Blocks of a segment at least and at most: 64 KiB to 1 GiB.
pub const SEGMENT_BLOCKS: std::ops::RangeInclusive<u32> = 16..=1 << 18;

/// Blocks of all slots together: what 36 bits of 4 KiB address, 256 TiB.
pub const ADDRESS_BLOCKS_MAX: u64 = 1 << 36;

/// The incompatible feature of a store with a drive that has zones: its places are others.
pub const ZONED: u64 = 1;

/// The features that a reader must know to read or write.
const INCOMPATIBLE_KNOWN: u64 = ZONED;
/// A feature that a reader must know to write: none yet.
const READ_ONLY_COMPATIBLE_KNOWN: u64 = 0;

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The store.
    pub store: Uuid,
    /// The drive that this copy lies on, as an index into `drives`.
    pub drive: DriveIndex,
    /// Counts the superblocks of the store; the highest valid one counts.
    pub sequence: u64,
    /// The mount that made the newest checkpoint, and whose records may be behind it.
    pub mount: Mount,
    /// Features in use.
    pub features: Features,
    /// Copies of each segment: 1 or 2.
    pub copies: u8,
    /// Blocks of a segment, within [`SEGMENT_BLOCKS`].
    pub segment_blocks: u32,
    /// Blocks of a checkpoint area.
    pub area_blocks: u64,
    /// Blocks that all volumes may have together.
    pub capacity_blocks: u64,
    /// The newest checkpoint.
    pub checkpoint: CheckpointPlace,
    /// When it was written, in seconds since 1970 by the clock of whoever had the store open; 0 if
    /// they gave no time ([`Store::set_unix_time`](crate::Store::set_unix_time)).
    pub unix_time_s: u64,
    /// All drives of the store.
    pub drives: Vec<DriveRow>,
}

/// Feature bits, by what a reader that does not know one may still do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Nothing.
    pub incompatible: u64,
    /// Read.
    pub read_only_compatible: u64,
    /// Everything.
    pub compatible: u64,
}

/// Where a checkpoint lies, on each drive alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointPlace {
    /// Counts the checkpoints of the store; 0 is none.
    pub number: u64,
    /// The area, 0 or 1.
    pub area: u8,
    /// Chunks of it, those of its increments included.
    pub chunks: u32,
    /// Blocks of it, likewise, at most the area's.
    pub blocks: u64,
    /// The block of the area that its last chunk begins at: a drive that has this one whole was
    /// given all.
    pub last_block: u64,
    /// How often it stands in the area: if twice, in each half of it.
    pub copies: u8,
}

/// What the store knows of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveRow {
    /// Its name.
    pub uuid: Uuid,
    /// Slots that it has.
    pub slots: u32,
    /// Whether it has all that was acknowledged.
    pub state: DriveState,
    /// Its zones, if it has any.
    pub zones: Option<ZoneLayout>,
}

/// Whether a drive has all that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveState {
    /// It has.
    InSync,
    /// It may lack records from this LSN on, and what the cleaner moved since.
    Stale {
        /// The first record that it may lack.
        since: Lsn,
    },
}

impl CheckpointPlace {
    /// Blocks that it has room for in an area of so many.
    pub fn room_blocks(&self, area_blocks: u64) -> u64 {
        area_blocks / u64::from(self.copies.max(1))
    }
}

impl Superblock {
    /// The slot that it belongs to: 0 (A) or 1 (B).
    pub fn slot(&self) -> u8 {
        u8::from(self.sequence % 2 == 1)
    }

    /// Whether any of its drives has zones.
    pub fn is_zoned(&self) -> bool {
        self.features.incompatible & ZONED != 0
    }

    /// Takes the zones of its drives into account.
    pub(crate) fn settle_features(&mut self) {
        self.features.incompatible &= !ZONED;
        if self.drives.iter().any(|row| row.zones.is_some()) {
            self.features.incompatible |= ZONED;
        }
    }

    /// One sealed block.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.drives.len() <= DRIVES_MAX, "a store has a bounded number of drives");
        let mut writer = Writer::default();
        writer.bytes(&magic::SUPERBLOCK);
        writer.u16(VERSION);
        writer.u8(self.copies);
        writer.u8(self.drive.0);
        writer.u64(self.features.incompatible);
        writer.u64(self.features.read_only_compatible);
        writer.u64(self.features.compatible);
        writer.uuid(self.store);
        writer.u64(self.sequence);
        writer.mount(self.mount);
        writer.u32(self.segment_blocks);
        writer.u32(u32::try_from(self.drives.len()).expect("at most DRIVES_MAX"));
        writer.u64(self.area_blocks);
        writer.u64(self.capacity_blocks);
        writer.u64(self.checkpoint.number);
        writer.u64(self.checkpoint.blocks);
        writer.u32(self.checkpoint.chunks);
        writer.u32(u32::from(self.checkpoint.area));
        writer.u64(self.checkpoint.last_block);
        writer.u64(u64::from(self.checkpoint.copies));
        writer.u64(self.unix_time_s);
        writer.pad_to(DRIVES_OFFSET_BYTES);
        for row in &self.drives {
            encode_drive(&mut writer, row);
        }
        assert_eq!(self.is_zoned(), self.drives.iter().any(|row| row.zones.is_some()));
        if self.is_zoned() {
            writer.pad_to(ZONES_OFFSET_BYTES);
            self.drives.iter().for_each(|row| encode_zones(&mut writer, row.zones));
        }
        writer.into_sealed_block()
    }

    /// Reads one block.
    ///
    /// # Errors
    /// The first [`Defect`] found; another version and unknown features are told apart from damage.
    pub fn decode(block: &[u8]) -> Result<Self, Defect> {
        let mut reader = unseal(block, magic::SUPERBLOCK)?;
        let (copies, drive) = (reader.u8()?, DriveIndex(reader.u8()?));
        let features = decode_features(&mut reader)?;
        let store = reader.uuid()?;
        let (sequence, mount) = (reader.counter()?, reader.mount()?);
        let (segment_blocks, drive_count) = (reader.u32()?, reader.u32()? as usize);
        let (area_blocks, capacity_blocks) = (reader.u64()?, reader.u64()?);
        let checkpoint = decode_place(&mut reader)?;
        let unix_time_s = reader.u64()?;
        reader.take(DRIVES_OFFSET_BYTES - FIXED_BYTES)?;
        if drive_count > DRIVES_MAX {
            return Err(Defect::Field("drives"));
        }
        let mut drives =
            (0..drive_count).map(|_| decode_drive(&mut reader)).collect::<Result<Vec<_>, _>>()?;
        if features.incompatible & ZONED != 0 {
            reader.take((DRIVES_MAX - drive_count) * DRIVE_BYTES)?;
            for row in &mut drives {
                row.zones = decode_zones(&mut reader)?;
            }
        }
        let superblock = Self {
            store,
            drive,
            sequence,
            mount,
            features,
            copies,
            segment_blocks,
            area_blocks,
            capacity_blocks,
            checkpoint,
            unix_time_s,
            drives,
        };
        superblock.check()?;
        Ok(superblock)
    }

    /// Blocks of all slots.
    fn address_blocks(&self) -> u64 {
        let slots: u64 = self.drives.iter().map(|row| u64::from(row.slots)).sum();
        slots.saturating_mul(u64::from(self.segment_blocks))
    }

    fn check(&self) -> Result<(), Defect> {
        let checks = [
            (matches!(self.copies, 1 | 2), "copies"),
            (usize::from(self.copies) <= self.drives.len(), "drives"),
            (self.drive.index() < self.drives.len(), "drive"),
            (SEGMENT_BLOCKS.contains(&self.segment_blocks), "segment blocks"),
            (self.checkpoint.area < 2, "checkpoint area"),
            (matches!(self.checkpoint.copies, 1 | 2), "checkpoint copies"),
            (self.checkpoint.chunks > 0, "checkpoint chunks"),
            (
                self.checkpoint.blocks <= self.checkpoint.room_blocks(self.area_blocks),
                "checkpoint blocks",
            ),
            (self.checkpoint.last_block < self.checkpoint.blocks, "last chunk"),
            (self.area_blocks < 1 << 48, "area blocks"),
            (self.address_blocks() <= ADDRESS_BLOCKS_MAX, "slots"),
            (self.is_zoned() == self.drives.iter().any(|row| row.zones.is_some()), "zones"),
        ];
        match checks.iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, name)) => Err(Defect::Field(name)),
        }
    }
}

const FIXED_BYTES: usize = 144;
const DRIVES_OFFSET_BYTES: usize = 256;
const DRIVE_BYTES: usize = 32;
const ZONES_OFFSET_BYTES: usize = DRIVES_OFFSET_BYTES + DRIVES_MAX * DRIVE_BYTES;
/// Of a drive without zones, in a store with drives that have some.
const NO_ZONES: ZoneLayout = ZoneLayout { zone_blocks: 0, conventional_zones: 0 };
const IN_SYNC: u32 = 0;
const STALE: u32 = 1;

fn decode_features(reader: &mut Reader<'_>) -> Result<Features, Defect> {
    let features = Features {
        incompatible: reader.u64()?,
        read_only_compatible: reader.u64()?,
        compatible: reader.u64()?,
    };
    // A store is always mounted for writing, so that both kinds of unknown features stop it.
    let unknown = (features.incompatible & !INCOMPATIBLE_KNOWN)
        | (features.read_only_compatible & !READ_ONLY_COMPATIBLE_KNOWN);
    if unknown == 0 { Ok(features) } else { Err(Defect::Features(unknown)) }
}

fn decode_place(reader: &mut Reader<'_>) -> Result<CheckpointPlace, Defect> {
    let (number, blocks) = (reader.counter()?, reader.u64()?);
    let chunks = reader.u32()?;
    let area = u8::try_from(reader.u32()?).map_err(|_| Defect::Field("checkpoint area"))?;
    let last_block = reader.u64()?;
    let copies = u8::try_from(reader.u64()?).map_err(|_| Defect::Field("checkpoint copies"))?;
    Ok(CheckpointPlace { number, area, chunks, blocks, last_block, copies })
}

fn encode_drive(writer: &mut Writer, row: &DriveRow) {
    let (state, since) = match row.state {
        DriveState::InSync => (IN_SYNC, Lsn(0)),
        DriveState::Stale { since } => (STALE, since),
    };
    writer.uuid(row.uuid);
    writer.u32(row.slots);
    writer.u32(state);
    writer.u64(since.0);
}

fn decode_drive(reader: &mut Reader<'_>) -> Result<DriveRow, Defect> {
    let (uuid, slots) = (reader.uuid()?, reader.u32()?);
    let (state, since) = (reader.u32()?, Lsn(reader.counter()?));
    let state = match state {
        IN_SYNC => DriveState::InSync,
        STALE => DriveState::Stale { since },
        _ => return Err(Defect::Field("drive state")),
    };
    Ok(DriveRow { uuid, slots, state, zones: None })
}

fn encode_zones(writer: &mut Writer, zones: Option<ZoneLayout>) {
    let zones = zones.unwrap_or(NO_ZONES);
    writer.u32(zones.zone_blocks);
    writer.u32(zones.conventional_zones);
}

fn decode_zones(reader: &mut Reader<'_>) -> Result<Option<ZoneLayout>, Defect> {
    let zones = ZoneLayout { zone_blocks: reader.u32()?, conventional_zones: reader.u32()? };
    Ok((zones != NO_ZONES).then_some(zones))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nonce;

    fn superblock() -> Superblock {
        let row = |byte, state| DriveRow { uuid: Uuid([byte; 16]), slots: 40, state, zones: None };
        Superblock {
            store: Uuid([9; 16]),
            drive: DriveIndex(1),
            sequence: 7,
            mount: Mount { epoch: 3, nonce: Nonce(u64::MAX) },
            features: Features { compatible: 1 << 40, ..Features::default() },
            copies: 2,
            segment_blocks: 64,
            area_blocks: 100,
            capacity_blocks: 1000,
            checkpoint: CheckpointPlace {
                number: 5,
                area: 1,
                chunks: 2,
                blocks: 70,
                last_block: 64,
                copies: 1,
            },
            unix_time_s: 1_800_000_000,
            drives: vec![row(1, DriveState::InSync), row(2, DriveState::Stale { since: Lsn(44) })],
        }
    }

    #[test]
    fn a_superblock_comes_back_as_it_was() {
        let superblock = superblock();
        assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock.clone()));
        let mut full = Superblock { drives: vec![superblock.drives[0]; DRIVES_MAX], ..superblock };
        assert_eq!(Superblock::decode(&full.encode()), Ok(full.clone()));
        for place in [1, DRIVES_MAX - 1] {
            let zones = ZoneLayout { zone_blocks: 0x1_0000, conventional_zones: 524 };
            full.drives[place].zones = Some(zones);
            full.settle_features();
            assert_eq!(Superblock::decode(&full.encode()), Ok(full.clone()));
        }
    }

    #[test]
    fn unknown_features_stop_a_reader_unless_they_are_compatible() {
        for features in [
            Features { incompatible: 4, ..Features::default() },
            Features { read_only_compatible: 4, ..Features::default() },
        ] {
            let block = Superblock { features, ..superblock() }.encode();
            assert_eq!(Superblock::decode(&block), Err(Defect::Features(4)));
        }
    }

    #[test]
    fn shapes_that_nobody_makes_are_refused() {
        let good = superblock();
        let with_place = |checkpoint| Superblock { checkpoint, ..good.clone() };
        let bad = [
            Superblock { copies: 0, ..good.clone() },
            Superblock { copies: 3, ..good.clone() },
            Superblock { drive: DriveIndex(2), ..good.clone() },
            Superblock { segment_blocks: 8, ..good.clone() },
            Superblock { area_blocks: 69, ..good.clone() },
            with_place(CheckpointPlace { copies: 2, ..good.checkpoint }),
            with_place(CheckpointPlace { copies: 0, ..good.checkpoint }),
            with_place(CheckpointPlace { chunks: 0, ..good.checkpoint }),
            with_place(CheckpointPlace { last_block: 70, ..good.checkpoint }),
            Superblock { drives: good.drives[..1].to_vec(), ..good.clone() },
        ];
        for superblock in bad {
            let outcome = Superblock::decode(&superblock.encode());
            assert!(matches!(outcome, Err(Defect::Field(_))), "{superblock:?}");
        }
    }
}
