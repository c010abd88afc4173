//! What the figures were taken on, and whether it could judge: others' load, stolen time and late
//! sleeps before, during and after the runs are part of every result ([`evenkeel_app::evidence`]).

use std::fs;
use std::io;
use std::path::Path;

use evenkeel_app::evidence::machine::{Bears, Conditions, Watch};
use serde::Serialize;

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
    /// What was seen meanwhile; nothing of a toy run, which judges nothing.
    pub(crate) conditions: Option<Conditions>,
}

/// Measures the machine and watches it from then on, unless nothing will be judged.
pub(crate) fn watch(is_smoke: bool, bears: Bears) -> io::Result<Option<Watch>> {
    (!is_smoke).then(|| Watch::begin(bears)).transpose()
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
            conditions: None,
        }
    }

    /// Looks again, after everything, when nothing is at work any more.
    pub(crate) fn look_at_end(&mut self, watch: Option<Watch>) {
        self.load_at_end = load();
        self.conditions = watch.map(Watch::end);
    }

    /// Why nothing can be judged, if that is so.
    pub(crate) fn disturbance(&self) -> Option<String> {
        let conditions = self.conditions.as_ref().filter(|seen| seen.is_disturbed())?;
        Some(conditions.why())
    }

    /// One line for the head of a result.
    pub(crate) fn line(&self) -> String {
        let Self { cores, processor, kernel, load_at_start, load_at_end, conditions } = self;
        let seen = conditions.as_ref();
        let seen = seen.map_or_else(String::new, |seen| format!("\nseen: {}", seen.reading));
        format!(
            "machine: {cores} cores, {processor}, Linux {kernel}, \
             load {load_at_start:.2} at start, {load_at_end:.2} at end{seen}"
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
    use evenkeel_app::evidence::machine::Reading;

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
    fn a_toy_run_watches_nothing_and_a_disturbed_one_says_so() {
        let bears = Bears { cores: 1.0, late_median_ms: 1.0, late_p99_ms: 5.0, uses_disks: false };
        assert!(watch(true, bears).unwrap().is_none());
        let mut machine = Machine::look();
        machine.look_at_end(None);
        assert!(machine.disturbance().is_none() && !machine.line().contains("seen"));
        let reading = Reading { cores: 2, others: vec![1.9; 10], ..Reading::default() };
        machine.conditions = Some(Conditions::of(bears, reading));
        let why = machine.disturbance().unwrap();
        assert!(why.starts_with("cannot judge at this load"), "{why}");
        assert!(machine.line().contains("\nseen: 2 cores"), "{}", machine.line());
    }
}
