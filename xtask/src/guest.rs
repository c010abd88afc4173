//! What boots a guest in tests: QEMU and one of Debian's kernels, unpacked into `target/guest`.
//!
//! They are not installed. QEMU's packages may drive out the tools of another version that a
//! machine has, and a kernel's would be set up to be booted by it. Nothing here is run but by
//! tests, which emulate the processor, so that a machine without KVM will do.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Whatever a test needs that a guest boots in.
pub(crate) const USED_FOR: &str = "stores on zoned devices, in a guest";

const EMULATOR: &str = "qemu-system-x86";

/// Depends on the newest of its kind: small, with the modules for emulated drives.
const KERNEL: &str = "linux-image-cloud-amd64";

/// What is there in the guest beside our own program.
const TOOLS: &str = "busybox-static";

/// Where tests look for it.
fn folder() -> PathBuf {
    shell::root().join("target/guest")
}

pub(crate) fn is_there() -> bool {
    folder().is_dir()
}

/// Fetches and unpacks it, whole or not at all.
pub(crate) fn unpack() -> Result<()> {
    let made = folder().with_extension("new");
    let archives = made.join("archives");
    if made.exists() {
        std::fs::remove_dir_all(&made).context("a guest that was half unpacked")?;
    }
    std::fs::create_dir_all(archives.join("partial")).context("a folder for the guest")?;
    // An emulator that is installed does as well, and there would be nothing to fetch.
    if !shell::has("qemu-system-x86_64") {
        let kept = format!("Dir::Cache::archives={}", archives.display());
        let words = ["-y", "--no-install-recommends", "--download-only", "-o", &kept, "install"];
        shell::run(apt_get().args(words).arg(EMULATOR))?;
    }
    let mut fetch = apt_get();
    shell::run(fetch.args(["download", &kernel()?, TOOLS]).current_dir(&archives))?;
    for entry in std::fs::read_dir(&archives).context("what was fetched")? {
        let path = entry.context("what was fetched")?.path();
        if path.extension().is_some_and(|kind| kind == "deb") {
            shell::run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&made))?;
        }
    }
    std::fs::remove_dir_all(&archives).context("what was fetched")?;
    std::fs::rename(&made, folder()).with_context(|| show(&made))
}

/// The package of the newest kernel.
fn kernel() -> Result<String> {
    let mut depends = Command::new("apt-cache");
    let output = depends.args(["depends", KERNEL]).output().context("cannot start apt-cache")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let named = text.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    named.map(|rest| format!("linux-image-{rest}")).with_context(|| format!("no {KERNEL} here"))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    // Its own user could not write into our folder.
    command.args(["-q", "-o", "APT::Sandbox::User=root", "-o", "DPkg::Lock::Timeout=300"]);
    command
}

fn show(path: &Path) -> String {
    format!("cannot rename {}", path.display())
}
