//! Stopping and starting a disk by SCSI's START STOP UNIT, handed to the kernel's generic driver.
//!
//! ```text
//!   1b 00 00 00 PS 00      P  power condition: 0 by the bit S, 3 standby
//!                          S  1 start, 0 stop
//! ```
//!
//! A disk in the power condition *standby* starts by itself when it is asked something; one that
//! was stopped by the bit does so behind ATA, not always behind SAS. So the first is tried before
//! the second (the kernel's translation for ATA knows only the second, and makes STANDBY IMMEDIATE
//! of it), and either is started by a command of its own. Numbers and layouts are those of
//! `scsi/sg.h` and of SBC-3, 5.25.
#![expect(unsafe_code, reason = "the kernel is handed pointers to the command and to its answer")]

use std::fs::File;
use std::os::fd::AsFd;
use std::ptr;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};

const SG_IO: Opcode = 0x2285;

const START_STOP_UNIT: u8 = 0x1b;
const STANDBY: u8 = 3 << 4;
const STOP: u8 = 0;
const START: u8 = 1;

const NO_DATA: i32 = -1;
/// Something went wrong, of which the statuses and the sense tell.
const NOT_OK: u32 = 1;
const ILLEGAL_REQUEST: u8 = 5;

/// The largest disks take half a minute to start.
const PATIENCE_MS: u32 = 60_000;

/// `struct sg_io_hdr`.
#[repr(C)]
struct Header {
    interface: i32,
    direction: i32,
    command_length: u8,
    sense_max: u8,
    iovec_count: u16,
    data_length: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_length: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration_ms: u32,
    info: u32,
}

/// Why a disk does not stop or start.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum ScsiError {
    #[error("the kernel knows no such command for it: {0}")]
    Unknown(Errno),
    #[error("the gate may not stop it; give it the capability CAP_SYS_RAWIO, or run it as root")]
    Forbidden,
    #[error("it does not know the command (sense {0:x}/{1:02x}/{2:02x})")]
    Refused(u8, u8, u8),
    #[error("status {status:#x}, host {host:#x}, driver {driver:#x}")]
    Failed { status: u8, host: u16, driver: u16 },
}

/// Stops the spindle; ends when that is under way.
pub(super) fn stop(file: &File) -> Result<(), ScsiError> {
    match start_stop(file, STANDBY) {
        Err(ScsiError::Refused(..)) => start_stop(file, STOP),
        outcome => outcome,
    }
}

/// Starts it; ends when it turns.
pub(super) fn start(file: &File) -> Result<(), ScsiError> {
    start_stop(file, START)
}

fn start_stop(file: &File, how: u8) -> Result<(), ScsiError> {
    let command = [START_STOP_UNIT, 0, 0, 0, how, 0];
    let mut sense = [0; 32];
    let mut header = Header {
        interface: i32::from(b'S'),
        direction: NO_DATA,
        command_length: 6,
        sense_max: 32,
        iovec_count: 0,
        data_length: 0,
        data: ptr::null_mut(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: PATIENCE_MS,
        flags: 0,
        pack_id: 0,
        user: ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_length: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: the call takes a `sg_io_hdr`, which `Header` has the layout of. It reads six bytes of
    // `command` and writes at most 32 to `sense`, as the header says, and both outlive it. There is
    // no data. The header is numbers and pointers, so that whatever is written back is valid.
    let call = unsafe { Updater::<SG_IO, Header>::new(&mut header) };
    // SAFETY: as above; that it may be stopped is what having the device to oneself means.
    unsafe { ioctl(file.as_fd(), call) }.map_err(|error| match error {
        Errno::PERM | Errno::ACCESS => ScsiError::Forbidden,
        error => ScsiError::Unknown(error),
    })?;
    outcome(&header, sense)
}

fn outcome(header: &Header, sense: [u8; 32]) -> Result<(), ScsiError> {
    if header.info & NOT_OK == 0 {
        return Ok(());
    }
    let (key, code, qualifier) = sense_of(sense);
    if header.sense_length > 0 && key == ILLEGAL_REQUEST {
        return Err(ScsiError::Refused(key, code, qualifier));
    }
    let Header { status, host_status: host, driver_status: driver, .. } = *header;
    Err(ScsiError::Failed { status, host, driver })
}

/// Key, additional code and its qualifier; their places depend on the format.
fn sense_of(sense: [u8; 32]) -> (u8, u8, u8) {
    match sense[0] & 0x7f {
        0x72 | 0x73 => (sense[1] & 0xf, sense[2], sense[3]),
        _ => (sense[2] & 0xf, sense[12], sense[13]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_header_is_laid_out_as_in_the_kernel() {
        assert_eq!(size_of::<Header>(), 88);
        assert_eq!(std::mem::offset_of!(Header, command), 24);
        assert_eq!(std::mem::offset_of!(Header, timeout_ms), 40);
        assert_eq!(std::mem::offset_of!(Header, status), 64);
        assert_eq!(std::mem::offset_of!(Header, info), 80);
    }

    #[test]
    fn sense_of_both_formats_is_understood() {
        let mut fixed = [0; 32];
        (fixed[0], fixed[2], fixed[12], fixed[13]) = (0x70, 0x05, 0x24, 0x01);
        assert_eq!(sense_of(fixed), (ILLEGAL_REQUEST, 0x24, 0x01));
        let mut descriptors = [0; 32];
        (descriptors[0], descriptors[1], descriptors[2]) = (0x72, 0x05, 0x20);
        assert_eq!(sense_of(descriptors), (ILLEGAL_REQUEST, 0x20, 0));
    }

    #[test]
    fn what_is_no_disk_is_an_error_of_the_kernel() {
        let file = tempfile::tempfile().unwrap();
        assert!(matches!(stop(&file), Err(ScsiError::Unknown(_))));
    }
}
