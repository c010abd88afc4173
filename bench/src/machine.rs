//! What the figures were taken on. A loaded machine makes them worthless, so the load average is
//! part of every result.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// Above this load average at the start somebody else is at work.
const QUIET_LOAD: f64 = 1.0;

/// The machine at one moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
    /// Over the last minute, before anything was started.
    pub(crate) load_at_start: f64,
    /// Over the last minute, after everything; mostly our own.
    pub(crate) load_at_end: f64,
}

impl Machine {
    /// Looks at the machine, before anything is started.
    pub(crate) fn look() -> Self {
        let load = load();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor(&read("/proc/cpuinfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_at_start: load,
            load_at_end: load,
        }
    }

    /// Looks again, after everything.
    pub(crate) fn look_at_end(&mut self) {
        self.load_at_end = load();
    }

    /// What to tell somebody who measures on a machine at work.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.load_at_start > QUIET_LOAD).then(|| {
            format!(
                "warning: the load average is {:.2} before anything was started; figures from a \
                 busy machine prove nothing",
                self.load_at_start
            )
        })
    }

    /// One line for the head of a result.
    pub(crate) fn line(&self) -> String {
        let Self { cores, processor, kernel, load_at_start, load_at_end } = self;
        format!(
            "machine: {cores} cores, {processor}, Linux {kernel}, \
             load {load_at_start:.2} at start, {load_at_end:.2} at end"
        )
    }
}

/// The kind of file system that a folder lies on, such as `ext4`; empty if nobody tells.
pub(crate) fn file_system_of(folder: &Path) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    kind_of_mount(&read("/proc/self/mounts"), &folder).unwrap_or_default()
}

/// Of the mounts above a folder the nearest counts, and of several on one place the last.
fn kind_of_mount(mounts: &str, folder: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((Path::new(fields.next()?), fields.next()?))
    });
    let above = mounts.filter(|(place, _)| folder.starts_with(place));
    let nearest = above.max_by_key(|(place, _)| place.components().count());
    nearest.map(|(_, kind)| kind.to_owned())
}

fn load() -> f64 {
    first_load(&read("/proc/loadavg"))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The average over the last minute; not a number where the text has none.
fn first_load(loadavg: &str) -> f64 {
    loadavg.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

fn processor(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim());
    name.unwrap_or("unknown processor").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_three_averages_counts() {
        assert!((first_load("5.25 5.50 5.96 3/200 1234\n") - 5.25).abs() < 1e-9);
        assert!(first_load("").is_nan());
    }

    #[test]
    fn the_processor_has_a_name() {
        let cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC 9B45\nmodel name\t: other\n";
        assert_eq!(processor(cpuinfo), "AMD EPYC 9B45");
        assert_eq!(processor("Hardware : x\n"), "unknown processor");
    }

    #[test]
    fn the_nearest_and_latest_mount_counts() {
        let mounts =
            "a / ext4 rw 0 0\nb /tmp tmpfs rw 0 0\nc /tmp xfs rw 0 0\nd /tmpfoo x rw 0 0\n";
        let kind = |folder: &str| kind_of_mount(mounts, Path::new(folder)).unwrap();
        assert_eq!(kind("/home/me"), "ext4");
        assert_eq!(kind("/tmp/bench"), "xfs");
        assert_eq!(kind_of_mount("", Path::new("/")), None);
    }

    #[test]
    fn only_a_busy_machine_gets_a_warning() {
        let mut machine = Machine::look();
        machine.load_at_start = 0.4;
        assert!(machine.warning().is_none());
        machine.load_at_start = 6.1;
        assert!(machine.warning().unwrap().contains("6.10"));
    }
}
