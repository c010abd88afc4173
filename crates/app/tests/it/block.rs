//! Stores on block devices: loop devices, which the kernel serves as it does any other.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::faults::kill_the_gate_under_writes;
use crate::harness::gate::{EVENKEEL, Gate};
use crate::harness::mount::{LoopDevice, Mount};
use crate::harness::process::run;
use crate::harness::skip::{self, needs};
use crate::harness::storage::text;
use crate::harness::{Scratch, noise, wait_for};

const DRIVE_BYTES: u64 = 64 << 20;

/// A loop device over a sparse file of this name.
fn device(scratch: &Scratch, name: &str, size_bytes: u64, options: &[&str]) -> LoopDevice {
    let file = scratch.join(name);
    let made = std::fs::File::create(&file).and_then(|file| file.set_len(size_bytes));
    made.expect("a file in scratch");
    LoopDevice::attach_as(scratch.path(), &text(&file), options)
}

fn drive(scratch: &Scratch, name: &str, block_bytes: u32) -> LoopDevice {
    device(scratch, name, DRIVE_BYTES, &["--sector-size", &block_bytes.to_string()])
}

/// Runs `evenkeel store` with these words and these devices behind.
fn store(scratch: &Scratch, words: &str, devices: &[&LoopDevice]) -> (Option<i32>, String) {
    let mut command = Command::new(EVENKEEL);
    command.arg("store").args(words.split(' ')).current_dir(scratch.path());
    command.args(devices.iter().map(|device| device.path()));
    let output = command.output().expect("run evenkeel");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
}

fn well(scratch: &Scratch, words: &str, devices: &[&LoopDevice]) {
    let (code, said) = store(scratch, words, devices);
    assert_eq!(code, Some(0), "{words}:\n{said}");
}

fn refused(scratch: &Scratch, code: i32, words: &str, devices: &[&LoopDevice], why: &str) {
    let (found, said) = store(scratch, words, devices);
    assert!(found == Some(code) && said.contains(why), "{words} ended with {found:?}:\n{said}");
}

fn policy(devices: &[&LoopDevice]) -> String {
    let paths: Vec<_> = devices.iter().map(|device| format!("\"{}\"", device.path())).collect();
    format!(
        "[[backend]]\nname = \"log\"\nstore = [{}]\n\
         [[export]]\nname = \"disk\"\nbackend = \"log\"\n",
        paths.join(", ")
    )
}

/// Bytes that the file below a device takes.
fn taken_bytes(scratch: &Scratch, name: &str) -> u64 {
    std::fs::metadata(scratch.join(name)).expect("a file in scratch").blocks() * 512
}

fn a_store_is_killed_checked_and_given_another_drive(block_bytes: [u32; 3]) {
    needs!("losetup");
    if let Some(why) = skip::cannot_mount() {
        return skip::tell(&why);
    }
    let scratch = Scratch::new();
    let [a, b, c] = [("a", 0), ("b", 1), ("c", 2)]
        .map(|(name, index): (_, usize)| drive(&scratch, name, block_bytes[index]));
    well(&scratch, "create --volume 32MiB", &[&a, &b]);
    kill_the_gate_under_writes(Gate::start(&scratch, &policy(&[&a, &b])), []);
    well(&scratch, "check", &[&b, &a]);
    well(&scratch, "scrub", &[&a, &b]);

    refused(&scratch, 2, "replace-drive --by", &[&c, &a, &b], "leave out the one");
    well(&scratch, "replace-drive --by", &[&c, &a]);
    well(&scratch, "check", &[&a, &c]);
    refused(&scratch, 1, "check", &[&a, &b], "was replaced by another one");

    let mut gate = Gate::start(&scratch, &policy(&[&a, &c]));
    let mut client = wait_for("the store", || crate::faults::reconnect(&gate.plain("disk")));
    for piece in 0..32 {
        assert_eq!(client.write(piece << 20, &noise(piece, 1 << 20)), Ok(()));
    }
    let full_bytes = taken_bytes(&scratch, "c");
    assert_eq!(client.trim(0, 32 << 20), Ok(()));
    drop(client);
    assert!(gate.stop().success());
    let left_bytes = taken_bytes(&scratch, "c");
    assert!(left_bytes + (16 << 20) < full_bytes, "{left_bytes} of {full_bytes} after a trim");
    well(&scratch, "check", &[&a, &c]);
}

#[test]
fn a_store_lives_on_devices_with_blocks_of_512_bytes() {
    a_store_is_killed_checked_and_given_another_drive([512; 3]);
}

#[test]
fn a_store_lives_on_devices_with_blocks_of_4096_bytes_and_of_both() {
    a_store_is_killed_checked_and_given_another_drive([4096, 512, 4096]);
}

#[test]
fn devices_that_hold_something_or_are_used_are_not_touched() {
    needs!("losetup", "mkfs.ext4");
    if let Some(why) = skip::cannot_mount() {
        return skip::tell(&why);
    }
    let scratch = Scratch::new();
    let [held, blank] = ["held", "blank"].map(|name| drive(&scratch, name, 512));
    run(scratch.path(), "mkfs.ext4", &["-q", held.path()]);
    refused(&scratch, 3, "create", &[&held, &blank], "holds an ext2, ext3 or ext4");
    let mount = Mount::new(scratch.path(), held.path());
    refused(&scratch, 5, "create --yes", &[&held, &blank], "another program is using it");
    drop(mount);
    run(scratch.path(), "e2fsck", &["-fn", held.path()]);
    refused(&scratch, 2, "create", &[&blank, &blank], "given twice");

    let small = device(&scratch, "small", 1 << 20, &[]);
    refused(&scratch, 2, "create", &[&small], "too small");
    let fixed = device(&scratch, "fixed", DRIVE_BYTES, &["--read-only"]);
    refused(&scratch, 5, "create", &[&fixed], "the device is read-only");

    well(&scratch, "create --volume 16MiB", &[&blank]);
    let gate = Gate::start(&scratch, &policy(&[&blank]));
    wait_for("the store", || crate::faults::reconnect(&gate.plain("disk")));
    refused(&scratch, 5, "create --yes", &[&blank], "another program is using it");
    refused(&scratch, 5, "check", &[&blank], "another program is using it");
    gate.assert_serves("disk");
}
