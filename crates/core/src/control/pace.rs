//! When in a period a word goes to whom: a thousand gates that all speak at its end would fill the
//! socket of each of them at one instant, and most of their words would be lost there.
//!
//! ```text
//!   period n ends           window          1/4 of a period: decide
//!   |---x----x-x---x-----x---x-|------------------------------|
//!       words, each at an instant of its own
//! ```
//!
//! The instant follows from who speaks to whom, so that the words that a gate sends are as far
//! apart as those that it gets, and nobody has to agree on anything. The window grows with the
//! number of gates, up to an eighth of the period, and all decide by so much later: the way may
//! take as long as before. A few gates speak at once, since nothing is gained by waiting. The parts
//! of a word go out at even distances in a window of their number, one after the other.

use super::summary::HostId;
use super::sums::SHARDS;
use crate::prng::Prng;
use crate::time::Span;

/// Between two words of a gate, on average: a core handles one in less than a tenth of that.
const SPACING: Span = Span::from_micros(100);

/// The window is at most this part of a period.
const PART_MAX: u64 = 8;

/// What is sent is there after this part of a period.
const WAY_PART: u64 = 4;

/// A window below that of timers is none.
const WINDOW_MIN: Span = Span::from_millis(1);

/// The time within which the words of a period go out, to so many peers.
pub fn window(period: Span, peers: usize) -> Span {
    let wanted = SPACING.0.saturating_mul(peers as u64);
    let window = Span(wanted.min(period.0 / PART_MAX));
    if window < WINDOW_MIN { Span::ZERO } else { window }
}

/// The time within which the words of a period go out to the collector of a shard, of so many hosts
/// in all ([`super::sums`]).
pub fn window_with_sums(period: Span, hosts: usize) -> Span {
    window(period, hosts / SHARDS as usize)
}

/// When all decide upon a period, after its end: by then the words of it are in, which go out in
/// this window.
pub fn decide_after(period: Span, window: Span) -> Span {
    Span(period.0 / WAY_PART) + window
}

/// The same where gates hear sums: collectors send these when the words are in.
pub fn decide_by_sums_after(period: Span, window: Span) -> Span {
    decide_after(period, window) + Span(period.0 / WAY_PART)
}

/// How long into the window a word goes from one gate to another.
pub fn offset(from: HostId, to: HostId, window: Span) -> Span {
    if window == Span::ZERO {
        return Span::ZERO;
    }
    Span(Prng::new(u64::from(from.0) << 32 | u64::from(to.0)).below(window.0))
}

/// How long into the window a part of a word goes, of so many; the first goes at the [`offset`].
pub fn offset_of_part(from: HostId, to: HostId, window: Span, (part, of): (usize, usize)) -> Span {
    let distance = window.0 / (of as u64).max(1) * part as u64;
    let after = offset(from, to, window).0 + distance;
    Span(if after < window.0 { after } else { after.saturating_sub(window.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Span = Span::from_millis(200);

    #[test]
    fn the_window_grows_with_the_gates_up_to_an_eighth_of_the_period() {
        let windows = [1, 9, 10, 100, 250, 1_000, 4_096].map(|peers| window(PERIOD, peers));
        assert_eq!(windows.map(|window| window.0 / 1_000_000), [0, 0, 1, 10, 25, 25, 25]);
        assert_eq!(offset(HostId(1), HostId(2), Span::ZERO), Span::ZERO);
    }

    #[test]
    fn the_parts_of_a_word_are_apart() {
        let (one, other, window) = (HostId(1), HostId(2), window(PERIOD, 32));
        let mut at: Vec<u64> =
            (0..32).map(|part| offset_of_part(one, other, window, (part, 32)).0).collect();
        assert_eq!(at[0], offset(one, other, window).0);
        at.sort_unstable();
        let apart = at.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(at[31] < window.0 && apart.min() >= Some(window.0 / 32 - 1), "{at:?}");
        assert_eq!(offset_of_part(one, other, Span::ZERO, (3, 32)), Span::ZERO);
    }

    /// The most of 1,000 instants in one millisecond of 25.
    fn most_in_a_millisecond(offset_of: impl Fn(HostId) -> Span) -> usize {
        let named =
            (0..1_000).map(|gate| HostId::named(&format!("10.0.{}.{gate}:10900", gate % 7)));
        let offsets: Vec<u64> = named.map(|host| offset_of(host).0 / 1_000_000).collect();
        assert!(offsets.iter().all(|ms| *ms < 25));
        let count = |ms| offsets.iter().filter(|offset| **offset == ms).count();
        (0..25).map(count).max().expect("some")
    }

    #[test]
    fn neither_what_a_gate_sends_nor_what_it_gets_comes_at_one_instant() {
        let (own, window) = (HostId::named("10.0.9.9:10900"), window(PERIOD, 1_000));
        let sent = most_in_a_millisecond(|other| offset(own, other, window));
        let got = most_in_a_millisecond(|other| offset(other, own, window));
        // Forty are due in each.
        assert!(sent < 70 && got < 70, "{sent}, {got}");
    }
}
