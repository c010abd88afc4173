//! What the kernel counts for the whole machine: processor time, load, and how busy disks are.
//!
//! Sources: proc(5) for `/proc/stat`, `/proc/loadavg` and `/proc/self/stat`; the kernel's
//! `Documentation/admin-guide/iostats.rst` for `/proc/diskstats`.

use std::collections::BTreeMap;
use std::fs;

/// The unit of processor times in `/proc`: a hundredth of a second on every architecture that this
/// runs on.
pub(super) const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of all cores since the machine started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Processors {
    /// In programs, guests of this machine included.
    pub(super) user: u64,
    /// In programs and in the kernel.
    pub(super) busy: u64,
    /// Asked for, and withheld by the hypervisor.
    pub(super) stolen: u64,
}

impl Processors {
    /// Now; zeroes where there is no `/proc`.
    pub(super) fn now() -> Self {
        Self::parse(&read("/proc/stat")).unwrap_or_default()
    }

    /// From the first line: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_ascii_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
        let [user, nice, system, _idle, _waiting, interrupts, soft, stolen, ..] = ticks[..] else {
            return None;
        };
        let user = user.saturating_add(nice);
        let kernel = system.saturating_add(interrupts).saturating_add(soft);
        Some(Self { user, busy: user.saturating_add(kernel), stolen })
    }
}

/// Milliseconds that each disk has been busy since the machine started, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disks(BTreeMap<String, u64>);

impl Disks {
    /// Now; none where there is no `/proc`.
    pub(super) fn now() -> Self {
        Self::parse(&read("/proc/diskstats"))
    }

    fn parse(text: &str) -> Self {
        let disk = |line: &str| {
            let mut fields = line.split_ascii_whitespace().skip(2);
            let name = fields.next()?.to_owned();
            Some((name, fields.nth(9)?.parse().ok()?))
        };
        Self(text.lines().filter_map(disk).collect())
    }

    /// The part of the time for which the busiest disk was so since `before`.
    pub(super) fn busy_since(&self, before: &Self, seconds: f64) -> f64 {
        let busy = self.0.iter().map(|(name, now_ms)| {
            let before_ms = before.0.get(name).copied().unwrap_or(*now_ms);
            now_ms.saturating_sub(before_ms)
        });
        let most_ms = busy.max().unwrap_or(0);
        (most_ms as f64 / 1e3 / seconds.max(1e-3)).min(1.0)
    }
}

/// How many processors the machine has, whether or not this process may use them all: others are
/// counted on all.
pub(super) fn processors() -> usize {
    count_processors(&read("/proc/stat")).max(1)
}

fn count_processors(stat: &str) -> usize {
    let names = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    names.filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit())).count()
}

/// The load average over the last minute; not a number where nobody tells.
pub(super) fn load_average() -> f64 {
    first_number(&read("/proc/loadavg"))
}

fn first_number(text: &str) -> f64 {
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// Whether this process has real-time precedence (`SCHED_FIFO` or `SCHED_RR`), as after
/// `chrt --rr 5`. Its children inherit that.
pub(super) fn has_precedence() -> bool {
    is_real_time(&read("/proc/self/stat"))
}

/// Field 41 is the policy: 1 and 2 are the real-time ones.
fn is_real_time(stat: &str) -> bool {
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    matches!(fields.split_ascii_whitespace().nth(38), Some("1" | "2"))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_out_idling_waiting_and_what_was_stolen() {
        let stat = "cpu  100 20 30 5000 700 1 2 69 40 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let wanted = Processors { user: 120, busy: 153, stolen: 69 };
        assert_eq!(Processors::parse(stat), Some(wanted));
        assert_eq!(count_processors(stat), 1, "the first line is the sum");
    }

    #[test]
    fn damaged_counters_are_none() {
        for stat in ["", "cpu ", "cpu  1 2 3", "cpu  1 2 x 4 5 6 7 8", "intr 5"] {
            assert_eq!(Processors::parse(stat), None, "{stat:?}");
        }
        let most = u64::MAX;
        let stat = format!("cpu  {most} {most} {most} 0 0 {most} {most} {most}");
        assert_eq!(Processors::parse(&stat).unwrap().busy, most);
    }

    #[test]
    fn the_busiest_disk_counts_and_one_that_came_meanwhile_does_not() {
        let line = |name: &str, busy_ms: u64| {
            format!("   8  0 {name} 10 0 80 5 20 0 160 9 0 {busy_ms} 14 0 0 0 0\n")
        };
        let before = Disks::parse(&(line("sda", 1000) + &line("sdb", 50)));
        let now = Disks::parse(&(line("sda", 1100) + &line("sdb", 450) + &line("sdc", 9000)));
        assert!((now.busy_since(&before, 1.0) - 0.4).abs() < 1e-9);
        assert!(Disks::parse("8 0 sda 1 2\n\n").0.is_empty());
    }

    #[test]
    fn the_first_of_three_averages_counts() {
        assert!((first_number("5.25 5.50 5.96 3/200 1234\n") - 5.25).abs() < 1e-9);
        assert!(first_number("").is_nan());
    }

    #[test]
    fn a_real_time_policy_is_precedence() {
        let stat = |policy: &str| {
            let zeroes = vec!["0"; 37].join(" ");
            format!("7 (a b) c) S {zeroes} {policy} 0 0")
        };
        assert!(is_real_time(&stat("1")) && is_real_time(&stat("2")));
        assert!(!is_real_time(&stat("0")) && !is_real_time(""));
    }
}
