//! How much processor time another process has used.
//!
//! `/proc/PID/stat` sums user and system time over all threads of the process, ended ones included,
//! which matters for peers that start a thread per connection. The sum counts in clock ticks of
//! 10 ms, but ticks are only its unit: the kernel derives it from run times in nanoseconds, so that
//! a difference over an interval is off by one tick at most.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The unit of the times in `/proc/PID/stat`. Linux shows a hundredth of a second to programs on
/// every architecture that we run on, whatever its own timer does.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of a process and all threads that it had.
///
/// # Errors
/// If there is no such process, or its state cannot be read.
pub(crate) fn time_of(process_id: u32) -> Result<Duration> {
    let path = format!("/proc/{process_id}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = ticks(&stat).with_context(|| format!("{path} has no times: {stat}"))?;
    Ok(TICK * ticks)
}

/// User and system time of all threads of this process that have this name, as `schedstat` has it
/// in nanoseconds.
///
/// # Errors
/// If its own threads cannot be read.
pub(crate) fn time_of_threads(name: &str) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir("/proc/self/task").context("cannot read /proc/self/task")? {
        let folder = thread.context("cannot read /proc/self/task")?.path();
        // A thread that has ended meanwhile has no name any more.
        let own = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        if own.trim() == name {
            let path = folder.join("schedstat");
            let text = fs::read_to_string(&path).unwrap_or_default();
            let first = text.split_ascii_whitespace().next().and_then(|time| time.parse().ok());
            let time_ns = first.with_context(|| format!("no time in {}", path.display()))?;
            sum += Duration::from_nanos(time_ns);
        }
    }
    Ok(sum)
}

/// User and system time of all processes that this one has started and waited for.
///
/// # Errors
/// If its own state cannot be read.
pub(crate) fn time_of_children() -> Result<Duration> {
    let path = "/proc/self/stat";
    let stat = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let ticks = sum(&stat, 15).with_context(|| format!("{path} has no times: {stat}"))?;
    Ok(TICK * ticks)
}

/// The sum of fields 14 (user) and 15 (system). Field 2, the program's name in brackets, may
/// itself hold blanks and brackets, so fields are counted from the last bracket.
fn ticks(stat: &str) -> Option<u32> {
    sum(stat, 13)
}

/// The sum of two fields that stand side by side after so many others.
fn sum(stat: &str, before: usize) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(before - 2);
    let user: u32 = times.next()?.parse().ok()?;
    let system: u32 = times.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added() {
        let stat = "8451 (nbdkit) S 1 8451 8451 0 -1 4194624 315 0 0 0 17 25 3 4 20 0 3 0 1 2 3";
        assert_eq!((ticks(stat), sum(stat, 15)), (Some(42), Some(7)), "its own and its children's");
    }

    #[test]
    fn a_name_with_blanks_and_brackets_shifts_nothing() {
        let stat = "1 (a) b (c 9 9) S 1 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 1 2 3";
        assert_eq!(ticks(stat), Some(11));
    }

    #[test]
    fn other_text_has_no_times() {
        assert_eq!(ticks(""), None);
        assert_eq!(ticks("1 (short) S 1 1"), None);
    }

    #[test]
    fn this_process_has_used_some_time() {
        assert!(time_of(std::process::id()).is_ok());
        assert!(time_of(u32::MAX).is_err());
    }
}
