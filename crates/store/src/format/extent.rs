//! Extents, in records and in increments alike: numbers as short as they are small.
//!
//! ```text
//! | volume | blocks * 4 + operation | first block | address that it was moved from, or a change |
//! ```

use super::codec::{Defect, Reader, Writer, varint_bytes};
use super::record::{Change, Extent, Kind, VOLUME_BLOCKS_MAX};
use super::volume::{CHANGE_BYTES, decode_change, encode_change};
use crate::units::{Address, VolumeId};

const WRITTEN: u64 = 0;
const UNMAPPED: u64 = 1;
const MOVED: u64 = 2;
const VOLUME: u64 = 3;

/// Bytes of an extent.
pub(super) fn extent_bytes(extent: &Extent) -> usize {
    let rest = match extent.change {
        Change::Written | Change::Unmapped => varint_bytes(extent.block),
        Change::Moved { from } => varint_bytes(extent.block) + varint_bytes(from.0),
        Change::Volume(_) => CHANGE_BYTES,
    };
    varint_bytes(u64::from(extent.volume.0)) + varint_bytes(u64::from(extent.blocks) << 2) + rest
}

/// The operation is in the lowest two bits of the blocks.
pub(super) fn encode_extent(writer: &mut Writer, extent: &Extent) {
    writer.varint(u64::from(extent.volume.0));
    let operation = match extent.change {
        Change::Written => WRITTEN,
        Change::Unmapped => UNMAPPED,
        Change::Moved { .. } => MOVED,
        Change::Volume(_) => VOLUME,
    };
    writer.varint(u64::from(extent.blocks) << 2 | operation);
    match extent.change {
        Change::Written | Change::Unmapped => writer.varint(extent.block),
        Change::Moved { from } => {
            writer.varint(extent.block);
            writer.varint(from.0);
        }
        Change::Volume(change) => encode_change(writer, change),
    }
}

pub(super) fn decode_extent(reader: &mut Reader<'_>, kind: Kind) -> Result<Extent, Defect> {
    let odd = Defect::Field("extent");
    let volume = VolumeId(u32::try_from(reader.varint()?).map_err(|_| odd)?);
    let both = reader.varint()?;
    let (operation, blocks) = (both & 3, u32::try_from(both >> 2).map_err(|_| odd)?);
    if operation == VOLUME && kind == Kind::User && blocks == 0 {
        return decode_change(reader).map(|change| Extent::of_volume(volume, change));
    }
    let block = reader.varint()?;
    let change = match (operation, kind) {
        (WRITTEN, Kind::User) => Change::Written,
        (UNMAPPED, Kind::User) => Change::Unmapped,
        (MOVED, Kind::Moved) => Change::Moved { from: Address(reader.varint()?) },
        _ => return Err(odd),
    };
    let is_within = block <= VOLUME_BLOCKS_MAX && block + u64::from(blocks) <= VOLUME_BLOCKS_MAX;
    let is_sound = blocks > 0 && is_within;
    if is_sound { Ok(Extent { volume, block, blocks, change }) } else { Err(odd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_that_nobody_writes_are_refused() {
        for (kind, fields) in [
            (Kind::User, [3, WRITTEN, 5]),
            (Kind::User, [3, 1 << 2 | MOVED, 5]),
            (Kind::Moved, [3, 1 << 2 | WRITTEN, 5]),
            (Kind::Moved, [3, VOLUME, 5]),
            (Kind::User, [1 << 32, 1 << 2, 5]),
            (Kind::User, [3, 1 << 2, VOLUME_BLOCKS_MAX]),
        ] {
            let mut writer = Writer::default();
            for field in fields {
                writer.varint(field);
            }
            let bytes = writer.into_bytes();
            let outcome = decode_extent(&mut Reader::new(&bytes), kind);
            assert_eq!(outcome, Err(Defect::Field("extent")), "{fields:?}");
        }
    }
}
