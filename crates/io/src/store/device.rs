//! What the kernel is asked of a block device beside reading and writing.
//!
//! ```text
//! BLKROGET    -> whether it can only be read
//! BLKDISCARD  (start, length) in bytes
//! ```
//!
//! Room is given back by `BLKDISCARD`, not by punching a hole. A hole is zeroes: a disk that cannot
//! discard is made to write them, which costs what the log has just saved. A discard asks for
//! nothing but that the range be forgotten, and is refused where there is nothing to gain.
#![expect(unsafe_code, reason = "the kernel is handed pointers to numbers")]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// Of `linux/fs.h`.
const GROUP: u8 = 0x12;
const READ_ONLY: Opcode = opcode::none(GROUP, 94);
const DISCARD: Opcode = opcode::none(GROUP, 119);

/// Whether a block device can only be read, which opening it for writing does not tell.
pub(super) fn is_read_only(file: &File) -> io::Result<bool> {
    // SAFETY: the call writes one `int`.
    let call = unsafe { Getter::<READ_ONLY, i32>::new() };
    // SAFETY: as above.
    Ok(unsafe { ioctl(file.as_fd(), call) }? != 0)
}

/// Gives a range of a block device back. It can take long, and runs on a thread for such.
///
/// # Errors
/// `EOPNOTSUPP` if the device has no use for that.
pub(super) async fn discard(
    file: &Arc<File>,
    offset_bytes: u64,
    length_bytes: u64,
) -> io::Result<()> {
    let file = Arc::clone(file);
    let call = move || -> Result<(), Errno> {
        // SAFETY: the call reads two numbers of 64 bits.
        let call = unsafe { Setter::<DISCARD, [u64; 2]>::new([offset_bytes, length_bytes]) };
        // SAFETY: as above; that the range may be forgotten, the caller has said.
        unsafe { ioctl(file.as_fd(), call) }
    };
    Ok(tokio::task::spawn_blocking(call).await.map_err(io::Error::other)??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::block_on;

    #[test]
    fn calls_have_the_numbers_of_the_kernel_and_are_for_devices_alone() {
        assert_eq!((READ_ONLY, DISCARD), (0x125e, 0x1277));
        let file = Arc::new(tempfile::tempfile().unwrap());
        let not_for_files = Some(Errno::NOTTY.raw_os_error());
        let refused = block_on(discard(&file, 0, 4096)).unwrap().unwrap_err();
        assert_eq!(refused.raw_os_error(), not_for_files);
        assert_eq!(is_read_only(&file).unwrap_err().raw_os_error(), not_for_files);
    }
}
