//! Control groups that bound what memory a process and its page cache take, and how often it reads.
//!
//! Kernels have had two kinds. In version 2, the usual one today, a process is in one group for
//! everything (`/sys/fs/cgroup`); in version 1 in one for each kind of bound
//! (`/sys/fs/cgroup/memory`, `/sys/fs/cgroup/blkio`). Making groups takes root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

const ROOT: &str = "/sys/fs/cgroup";

/// Which kind of groups there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A drive by its numbers, and how often it may be read in a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadBound {
    pub(super) drive: (u32, u32),
    pub(super) reads: u32,
}

/// The groups of one process; they end with this, which has to be after the process.
#[derive(Debug)]
pub(super) struct Groups {
    version: Version,
    /// Of memory first.
    folders: Vec<PathBuf>,
}

/// Where a group tells what its processes hold without what is cached for them.
#[derive(Debug)]
pub(super) struct OwnMemory {
    file: PathBuf,
    key: &'static str,
}

/// Why no groups, and so no hosts, can be made here, if that is so.
pub fn no_groups() -> Option<String> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    match Version::find(Path::new(ROOT)) {
        None => Some(format!("there are no control groups of memory and disks under {ROOT}")),
        Some(_) => (!is_root).then(|| "control groups can only be made by root".to_owned()),
    }
}

impl Version {
    fn find(root: &Path) -> Option<Self> {
        let known = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let has = |controller| known.split_whitespace().any(|word| word == controller);
        if has("memory") && has("io") {
            return Some(Self::Two);
        }
        let is_there = |kind: &&str| root.join(kind).join("cgroup.procs").exists();
        ["memory", "blkio"].iter().all(is_there).then_some(Self::One)
    }

    fn folders(self, root: &Path, name: &str) -> Vec<PathBuf> {
        match self {
            Self::One => ["memory", "blkio"].map(|kind| root.join(kind).join(name)).into(),
            Self::Two => vec![root.join(name)],
        }
    }
}

impl Groups {
    /// Makes them.
    pub(super) fn make(
        name: &str,
        memory_bytes: u64,
        reads: Option<ReadBound>,
    ) -> anyhow::Result<Self> {
        let root = Path::new(ROOT);
        let version = Version::find(root).context("there are no control groups here")?;
        if version == Version::Two {
            // Else the files of these bounds are not in the new group.
            write(&root.join("cgroup.subtree_control"), "+memory +io")?;
        }
        let groups = Self { version, folders: version.folders(root, name) };
        for folder in &groups.folders {
            fs::create_dir(folder)
                .with_context(|| format!("cannot make the control group {}", folder.display()))?;
        }
        groups.bound(memory_bytes, reads)?;
        Ok(groups)
    }

    fn bound(&self, memory_bytes: u64, reads: Option<ReadBound>) -> anyhow::Result<()> {
        let (memory, disk) = (&self.folders[0], self.folders.last().expect("there is one"));
        let (limit, throttle, unit) = match self.version {
            Version::One => ("memory.limit_in_bytes", "blkio.throttle.read_iops_device", ""),
            Version::Two => ("memory.max", "io.max", "riops="),
        };
        write(&memory.join(limit), &memory_bytes.to_string())?;
        if let Some(ReadBound { drive: (major, minor), reads }) = reads {
            write(&disk.join(throttle), &format!("{major}:{minor} {unit}{reads}"))?;
        }
        Ok(())
    }

    /// Puts a process into them.
    pub(super) fn take_in(&self, process: u32) -> anyhow::Result<()> {
        let process = process.to_string();
        self.folders.iter().try_for_each(|folder| write(&folder.join("cgroup.procs"), &process))
    }

    /// Where they tell what their processes hold.
    pub(super) fn own_memory(&self) -> OwnMemory {
        let key = match self.version {
            Version::One => "total_rss ",
            Version::Two => "anon ",
        };
        OwnMemory { file: self.folders[0].join("memory.stat"), key }
    }
}

impl OwnMemory {
    /// Bytes now.
    pub(super) fn read(&self) -> std::io::Result<u64> {
        let text = fs::read_to_string(&self.file)?;
        let own = text.lines().find_map(|line| line.strip_prefix(self.key)?.parse().ok());
        Ok(own.unwrap_or(0))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {text:?} to {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_kind_is_found_by_its_files() {
        let scratch = tempfile::tempdir().expect("a folder");
        let root = scratch.path();
        assert_eq!(Version::find(root), None);
        for kind in ["memory", "blkio"] {
            fs::create_dir(root.join(kind)).expect("a folder");
            fs::write(root.join(kind).join("cgroup.procs"), "").expect("a file");
        }
        assert_eq!(Version::find(root), Some(Version::One));
        assert_eq!(Version::One.folders(root, "x"), [root.join("memory/x"), root.join("blkio/x")]);
        fs::write(root.join("cgroup.controllers"), "hugetlb\n").expect("a file");
        assert_eq!(Version::find(root), Some(Version::One), "memory is not among them");
        fs::write(root.join("cgroup.controllers"), "cpu io memory pids\n").expect("a file");
        assert_eq!(Version::find(root), Some(Version::Two));
        assert_eq!(Version::Two.folders(root, "x"), [root.join("x")]);
    }

    #[test]
    fn what_a_group_holds_is_told_by_its_kind() {
        let scratch = tempfile::tempdir().expect("a folder");
        fs::write(scratch.path().join("memory.stat"), "cache 7\nanon 11\ntotal_rss 13\n")
            .expect("a file");
        let held = |version| {
            let folders = vec![scratch.path().to_path_buf()];
            Groups { version, folders }.own_memory().read().expect("it is there")
        };
        assert_eq!((held(Version::One), held(Version::Two)), (13, 11));
    }
}
