//! Processor time of the calling thread.

use evenkeel_core::time::Span;
use rustix::time::{ClockId, clock_gettime};

use super::report::CpuTime;

/// Processor time that this thread has taken: the sum from the thread's clock, exactly; its
/// division from the kernel's ticks of 10 ms.
pub(super) fn of_this_thread() -> CpuTime {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or(0);
    let sum_ns = seconds * 1_000_000_000 + u64::try_from(spent.tv_nsec).unwrap_or(0);
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let (user_ticks, system_ticks) = ticks(&stat).unwrap_or((1, 0));
    let ticks = (user_ticks + system_ticks).max(1);
    let user_ns = u128::from(sum_ns) * u128::from(user_ticks) / u128::from(ticks);
    let user_ns = u64::try_from(user_ns).unwrap_or(sum_ns);
    CpuTime { user: Span(user_ns), system: Span(sum_ns - user_ns) }
}

/// The fields `utime` and `stime` of `proc_pid_stat(5)`: the 14th and 15th, counted behind the
/// command's name, which may hold anything.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "42 (a) b) c) S 1 42 42 0 -1 4194560 100 0 0 0 17 23 0 0 20 0 1 0 99";
        assert_eq!(ticks(stat), Some((17, 23)));
        assert_eq!(ticks("garbage"), None);
    }

    #[test]
    fn time_spent_is_seen() {
        let before = of_this_thread().sum();
        let mut sum = 0u64;
        (0..5_000_000u64).for_each(|n| sum = std::hint::black_box(sum ^ n));
        assert!(of_this_thread().sum() > before);
    }
}
