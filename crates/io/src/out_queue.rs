//! What a TCP connection has taken and the peer's machine has not acknowledged.
#![expect(unsafe_code, reason = "the kernel is handed a pointer to a number")]

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, Opcode, ioctl};

/// `SIOCOUTQ` of `linux/sockios.h`, as x86, ARM and RISC-V have it. Elsewhere the kernel refuses
/// the call, and nothing counts as acknowledged.
const OUT_QUEUE: Opcode = 0x5411;

/// Bytes that were handed to the kernel and may have to be sent, or sent again.
///
/// # Errors
/// If the kernel does not tell.
pub(crate) fn unacknowledged_bytes(socket: &impl AsFd) -> io::Result<u64> {
    // SAFETY: the call writes one `int`.
    let call = unsafe { Getter::<OUT_QUEUE, i32>::new() };
    // SAFETY: as above.
    let bytes = unsafe { ioctl(socket.as_fd(), call) }?;
    u64::try_from(bytes).map_err(io::Error::other)
}
