//! How fast a client has to move what it keeps in memory.
//!
//! A body of which half has come, and an answer that nobody reads, hold memory for as long as the
//! client likes. So while somebody waits for memory, each of ten seconds of such a connection moves
//! `min_rate` on average, or the connection is cut. Only whole seconds count in which the gate was
//! ready to read and somebody waited; a connection at rest starts anew.

/// Seconds that are looked at together.
const WINDOW_SECONDS: u64 = 10;

/// A connection as it was found in the last second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Second {
    /// Bytes over its socket since the connection began.
    pub(crate) moved_bytes: u64,
    /// The client is waited for: a body is under way, or answers are to be read.
    pub(crate) is_due: bool,
    /// The connection itself waits for memory, or nobody does.
    pub(crate) is_excused: bool,
}

/// The pace of one connection, looked at once a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// What had moved when the last second ended, if the client was waited for then.
    seen_bytes: Option<u64>,
    counted_seconds: u64,
    counted_bytes: u64,
}

impl Pace {
    /// A second has passed. True if the client is too slow for memory that others wait for.
    pub(crate) fn is_too_slow(&mut self, second: Second, min_rate_bytes: u64) -> bool {
        if !second.is_due {
            *self = Self::default();
            return false;
        }
        let Some(seen_bytes) = self.seen_bytes.replace(second.moved_bytes) else { return false };
        if second.is_excused {
            return false;
        }
        self.counted_seconds += 1;
        self.counted_bytes += second.moved_bytes - seen_bytes;
        if self.counted_seconds < WINDOW_SECONDS {
            return false;
        }
        let is_slow = self.counted_bytes < min_rate_bytes.saturating_mul(self.counted_seconds);
        *self = Self { seen_bytes: self.seen_bytes, ..Self::default() };
        is_slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1000;

    /// The second in which a client that moves so much in each is cut, of a minute.
    fn cut_after(moves: impl Fn(u64) -> u64, is_excused: impl Fn(u64) -> bool) -> Option<u64> {
        let mut pace = Pace::default();
        let mut moved_bytes = 0;
        (1..=60).find(|&second| {
            moved_bytes += moves(second);
            let is_excused = is_excused(second);
            pace.is_too_slow(Second { moved_bytes, is_due: true, is_excused }, RATE)
        })
    }

    #[test]
    fn a_byte_a_second_is_too_slow_after_ten_seconds() {
        assert_eq!(cut_after(|_| 1, |_| false), Some(11));
        assert_eq!(cut_after(|_| 0, |_| false), Some(11));
        assert_eq!(cut_after(|_| RATE, |_| false), None);
    }

    #[test]
    fn much_at_first_buys_no_time_later() {
        assert_eq!(cut_after(|second| if second < 5 { 1 << 20 } else { 1 }, |_| false), Some(21));
    }

    #[test]
    fn seconds_in_which_nobody_waits_do_not_count() {
        assert_eq!(cut_after(|_| 1, |_| true), None);
        assert_eq!(cut_after(|_| 1, |second| second % 2 == 0), Some(21));
    }

    #[test]
    fn a_connection_at_rest_starts_anew() {
        let mut pace = Pace::default();
        for second in 0..60 {
            let is_due = second % 10 != 9;
            let second = Second { moved_bytes: 0, is_due, is_excused: false };
            assert!(!pace.is_too_slow(second, RATE));
        }
    }
}
