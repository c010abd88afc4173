//! What a drive holds before it is made part of a store, told by the marks that others leave at its
//! start and at its end.
//!
//! ```text
//! | store, partition table, file system, RAID, volume manager, encryption ..     | RAID, GPT |
//!  <------------------------ 256 KiB are looked at ----------------------->       <-- 256 KiB
//! ```
//!
//! A mark is a few bytes at a fixed place. What bears no mark that is known and is not all zeroes
//! is data all the same.

use evenkeel_io::store::FileDrive;
use evenkeel_store::cache::read_label;
use evenkeel_store::format::Defect;
use evenkeel_store::{BLOCK_BYTES, Drive, DriveError, ZoneState, read_superblock};

/// Bytes that are looked at, at each end.
const LOOK_BYTES: usize = 256 << 10;

/// Some bytes at a place, and what they are the mark of. The more specific ones come first.
const MARKS: [(usize, &[u8], &str); 26] = [
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0x438, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (0x1018, b"\xc6\x85\x73\xf6", "a bcache device"),
    (0x1000, b"\xfc\x4e\x2b\xa9", "a member of a software RAID"),
    (0x1000, b"\xa9\x2b\x4e\xfc", "a member of a software RAID"),
    (0, b"\xa9\x2b\x4e\xfc", "a member of a software RAID"),
    (0x218, b"LVM2 001", "a physical volume of LVM"),
    (0x18, b"LVM2 001", "a physical volume of LVM"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0xff6, b"SWAPSPACE2", "swap space"),
    (0xff6, b"SWAP-SPACE", "swap space"),
    (0x400, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (0x52, b"FAT32   ", "a FAT file system"),
    (0x36, b"FAT16   ", "a FAT file system"),
    (0x36, b"FAT12   ", "a FAT file system"),
    (0, b"hsqs", "a squashfs file system"),
    (0, b"QFI\xfb", "a qcow2 image"),
    (0, b"KDMV", "a VMDK image"),
    (0x20000, b"\x0c\xb1\xba\x00", "a ZFS pool"),
    (0x200, b"EFI PART", "a partition table (GPT)"),
    (0x1000, b"EFI PART", "a partition table (GPT)"),
    (0x1fe, b"\x55\xaa", "a partition table or boot sector (MBR)"),
];

/// What is on a drive; nothing if both of its ends are blank.
///
/// # Errors
/// The drive's, if it does not answer.
pub(super) async fn what_is_on(drive: &FileDrive) -> Result<Option<String>, DriveError> {
    match read_superblock(drive).await? {
        Ok(own) => return Ok(Some(format!("drive {} of store {}", own.drive, own.store))),
        Err(Defect::Version(version)) => {
            return Ok(Some(format!("a drive of a store of format {version}")));
        }
        Err(_) => {}
    }
    if let Ok(Ok(label)) = read_label(drive).await {
        return Ok(Some(format!("the cache of store {}", label.store)));
    }
    if let Some(what) = what_is_in_zones(drive).await? {
        return Ok(Some(what));
    }
    // Of a drive with zones, only the conventional ones may be blank and still be readable.
    let size_bytes = drive
        .zoning()
        .map_or_else(|| drive.geometry().size_bytes, |zoning| zoning.conventional_bytes());
    let block = BLOCK_BYTES as u64;
    let length = usize::try_from(size_bytes - size_bytes % block).unwrap_or(usize::MAX);
    let length = length.min(LOOK_BYTES);
    if length == 0 {
        return Ok(None);
    }
    let head = drive.read(0, length).await;
    let unit = u64::from(drive.geometry().block_bytes);
    let tail = drive.read((size_bytes - length as u64) / unit * unit, length).await;
    match (head, tail) {
        (Err(DriveError::Gone), _) | (_, Err(DriveError::Gone)) => Err(DriveError::Gone),
        (Ok(head), Ok(tail)) => Ok(of(&head, &tail).map(str::to_owned)),
        _ => Ok(Some("data that cannot be read".to_owned())),
    }
}

/// What the zones of a drive hold, if it has any; nothing if none is written.
async fn what_is_in_zones(drive: &FileDrive) -> Result<Option<String>, DriveError> {
    let is_written = |zone: &ZoneState| !matches!(zone, ZoneState::Sequential { written_bytes: 0 });
    let zones = drive.report_zones().await?.into_iter();
    let written = zones.filter(|zone| *zone != ZoneState::Conventional).filter(is_written).count();
    Ok((written > 0).then(|| format!("{written} zones that are written")))
}

/// What these first and last bytes of a drive are the mark of.
fn of(head: &[u8], tail: &[u8]) -> Option<&'static str> {
    let is_there = |(at, mark, _): &&(usize, &[u8], &str)| {
        head.get(*at..at + mark.len()).is_some_and(|found| found == *mark)
    };
    let known = MARKS.iter().find(is_there).map(|(_, _, what)| *what);
    let at_end = tail.len().checked_sub(512).filter(|&at| tail[at..].starts_with(b"EFI PART"));
    let at_end = at_end.map(|_| "the second copy of a partition table (GPT)");
    known.or(at_end).or_else(|| {
        let is_blank = head.iter().chain(tail).all(|&byte| byte == 0);
        (!is_blank).then_some("data of an unknown kind")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_within_what_is_looked_at_and_is_told() {
        for (at, mark, what) in MARKS {
            let mut head = vec![0; LOOK_BYTES];
            head[at..at + mark.len()].copy_from_slice(mark);
            assert_eq!(of(&head, &[0; 4096]), Some(what));
        }
    }

    #[test]
    fn blank_ends_are_blank_and_anything_else_is_data() {
        assert_eq!(of(&[0; 4096], &[0; 4096]), None);
        assert_eq!(of(&[], &[]), None);
        let mut tail = [0; 4096];
        tail[7] = 1;
        assert_eq!(of(&[0; 4096], &tail), Some("data of an unknown kind"));
        tail[4096 - 512..][..8].copy_from_slice(b"EFI PART");
        assert!(of(&[0; 4096], &tail).is_some_and(|what| what.contains("GPT")));
    }

    #[test]
    fn a_file_system_in_a_drive_with_a_boot_sector_is_told_by_its_own_mark() {
        let mut head = vec![0; LOOK_BYTES];
        head[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
        head[3..11].copy_from_slice(b"NTFS    ");
        assert_eq!(of(&head, &[]), Some("an NTFS file system"));
    }
}
