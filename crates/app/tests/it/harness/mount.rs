//! Loop devices and mounted file systems, taken down when they drop.

use std::path::{Path, PathBuf};

use super::process::run;
use super::storage::text;
use super::wait_for;

/// A loop device; detached when it drops.
pub(crate) struct LoopDevice(String);

impl LoopDevice {
    pub(crate) fn attach(folder: &Path, file: &str) -> Self {
        Self::attach_as(folder, file, &[])
    }

    /// With options of losetup's.
    pub(crate) fn attach_as(folder: &Path, file: &str, options: &[&str]) -> Self {
        let words = [&["--find", "--show"], options, &[file]].concat();
        Self(run(folder, "losetup", &words).trim().to_owned())
    }

    pub(crate) fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let status = std::process::Command::new("losetup").args(["-d", &self.0]).status();
        let in_use = || {
            let name = self.0.trim_start_matches("/dev/");
            Path::new(&format!("/sys/block/{name}/loop/backing_file")).exists()
        };
        if status.is_ok_and(|status| status.success()) && !std::thread::panicking() {
            wait_for("the loop device to let go", || (!in_use()).then_some(()));
        }
    }
}

/// A mounted file system; unmounted when it drops.
pub(crate) struct Mount(PathBuf);

impl Mount {
    pub(crate) fn new(folder: &Path, device: &str) -> Self {
        let point = folder.join("mount");
        std::fs::create_dir_all(&point).expect("a folder in scratch");
        run(folder, "mount", &[device, &text(&point)]);
        Self(point)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmount = |how: &[&str]| {
            let status = std::process::Command::new("umount").args(how).arg(&self.0).status();
            status.is_ok_and(|status| status.success()).then_some(())
        };
        if std::thread::panicking() {
            // The test has failed already; all that is left to do is to leave no mount behind.
            unmount(&["--lazy"]);
            return;
        }
        // Somebody who looks at all mounts may be in the way for a moment.
        wait_for("umount", || unmount(&[]));
    }
}
