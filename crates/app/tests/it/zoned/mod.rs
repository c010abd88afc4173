//! Stores on drives with zones that the kernel keeps, in a guest: real code of the kernel from the
//! system call down to `null_blk` and the SCSI disk driver, over memory that stands for a drive.
//!
//! The script beside this file is what the guest runs, and names each claim.

use std::time::Duration;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;
use crate::harness::guest::Guest;
use crate::harness::skip::{self, needs};

/// On a busy machine. The guest's processor is emulated: half a minute otherwise.
const PATIENCE: Duration = Duration::from_mins(5);

#[test]
fn stores_live_on_zoned_devices_of_a_kernel() {
    needs!("nbdcopy", "ldd", "strip");
    let guest = match Guest::find() {
        Ok(guest) => guest,
        Err(why) => return skip::tell(&why),
    };
    let modules = ["configfs", "null_blk", "scsi_common", "scsi_mod", "sd_mod", "scsi_debug"];
    let scratch = Scratch::new();
    let script = include_str!("guest.sh");
    let said = guest.run(&scratch, script, &[EVENKEEL, "nbdcopy"], &modules, PATIENCE);
    assert!(said.contains("EVERY CLAIM HOLDS"), "{said}");
}
