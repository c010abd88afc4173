//! Other people's NBD clients, each as one call.

use std::path::Path;

use super::Scratch;
use super::process::{Process, run};
use super::storage::text;
use super::target::Target;

/// nbdinfo's account of an export.
pub(crate) fn nbdinfo(scratch: &Scratch, target: &Target) -> serde_json::Value {
    let output = run(scratch.path(), "nbdinfo", &["--json", &target.uri()]);
    serde_json::from_str(&output).expect("nbdinfo prints JSON")
}

/// The names that a server lists.
pub(crate) fn list(scratch: &Scratch, target: &Target) -> Vec<String> {
    let output = run(scratch.path(), "nbdinfo", &["--list", "--json", &target.server_uri()]);
    let list: serde_json::Value = serde_json::from_str(&output).expect("nbdinfo prints JSON");
    let exports = list["exports"].as_array().expect("a list of exports");
    let name = |export: &serde_json::Value| export["export-name"].as_str().map(str::to_owned);
    exports.iter().filter_map(name).collect()
}

/// nbdcopy between files and exports, whichever the two are.
pub(crate) fn nbdcopy(scratch: &Scratch, from: &str, to: &str) {
    run(scratch.path(), "nbdcopy", &["--flush", from, to]);
}

/// qemu-img with arguments that may name credentials.
pub(crate) fn qemu_img(scratch: &Scratch, target: &Target, command: &str, arguments: &[&str]) {
    let objects = target.qemu_objects();
    let mut line = vec![command];
    line.extend(objects.iter().map(String::as_str));
    line.extend_from_slice(arguments);
    run(scratch.path(), "qemu-img", &line);
}

/// qemu-io; each script line is one of its commands. A pattern that does not match fails the test.
pub(crate) fn qemu_io(scratch: &Scratch, target: &Target, script: &[&str]) {
    let objects = target.qemu_objects();
    let options = target.qemu_options();
    let mut line: Vec<&str> = objects.iter().map(String::as_str).collect();
    // Without this, qemu-io adds FUA to every write.
    line.extend(["--cache=writeback", "--image-opts", &options]);
    for command in script {
        line.extend(["-c", command]);
    }
    let output = run(scratch.path(), "qemu-io", &line);
    let failed = ["Pattern verification failed", "failed:", "error"];
    assert!(!failed.iter().any(|word| output.contains(word)), "qemu-io says:\n{output}");
}

/// The arguments of a fio job that writes at random and then verifies what it wrote.
pub(crate) fn fio_verify(target: &Target, size: &str) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "--name=verify",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=16",
        "--verify=crc32c",
        "--do_verify=1",
        "--verify_fatal=1",
        "--fsync=64",
        "--output-format=terse",
    ]
    .map(str::to_owned)
    .into();
    arguments.extend([format!("--uri={}", target.uri()), format!("--size={size}")]);
    arguments
}

/// An export as a file by way of nbdfuse; unmounted when it drops.
pub(crate) struct Fuse {
    file: String,
    process: Process,
}

impl Fuse {
    pub(crate) fn mount(scratch: &Scratch, target: &Target) -> Self {
        let file = scratch.join("fuse-disk");
        std::fs::write(&file, "").expect("a file to mount on");
        let file = text(&file);
        let source = target.nbdfuse_source();
        let mut arguments = vec![file.as_str()];
        arguments.extend(source.iter().map(String::as_str));
        let mut process = Process::start(scratch.path(), "nbdfuse", &arguments);
        let size = || std::fs::metadata(&file).is_ok_and(|found| found.len() > 0);
        process.wait_until("shows the export as a file", size);
        Self { file, process }
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Unmounts, which sends what is still to be written.
    pub(crate) fn unmount(mut self) {
        let folder = Path::new(&self.file).parent().expect("it lies in scratch");
        run(folder, "fusermount3", &["-u", &self.file]);
        assert!(self.process.wait().success(), "nbdfuse says:\n{}", self.process.log());
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // Only a failed test comes here with the mount still standing.
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        if mounts.contains(&self.file) {
            let command =
                std::process::Command::new("fusermount3").args(["-uz", &self.file]).status();
            drop(command);
        }
    }
}
