//! What the machine's clocks say to [`evenkeel_core::control::common_time`], and what people hear
//! of it.

use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_core::control::common_time::Look;

/// The nanoseconds since 1970 by the machine's clock.
pub(super) fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The seconds since 1970 by the machine's clock.
pub(super) fn wall_s() -> u64 {
    wall_ns() / 1_000_000_000
}

/// Says in the log what is new.
pub(super) fn tell(look: Look) {
    if let Some(moved_ns) = look.moved_ns {
        let (by, how) = shown(moved_ns);
        tracing::warn!("periods are counted {by} {how} than before: so do most gates");
    }
    match look.off_ns {
        Some(0) => tracing::info!("this gate's clock is that of the other gates again"),
        Some(off_ns) => tracing::warn!("{}", remedy(off_ns)),
        None => {}
    }
}

/// What is wrong with a clock that is ahead by so much, or behind.
pub(super) fn remedy(off_ns: i64) -> String {
    let (by, how) = shown(off_ns);
    format!(
        "this gate's clock is {by} {how} than the time by which the gates count periods: set all \
         clocks by one time server"
    )
}

fn shown(ns: i64) -> (String, &'static str) {
    let how = if ns < 0 { "earlier" } else { "later" };
    (format!("{:.1} s", ns.unsigned_abs() as f64 / 1e9), how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_said_with_the_figure_and_the_remedy() {
        let said = remedy(-3_600_400_000_000);
        assert!(said.starts_with("this gate's clock is 3600.4 s earlier than"), "{said}");
        assert!(remedy(1_500_000_000).contains("1.5 s later"));
    }
}
