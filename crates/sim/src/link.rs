//! A network link: two directions, each a pipe of some rate with a delay, which may lose what it
//! carries and then sends it again.
//!
//! A message waits for those before it, takes `bytes / rate` to leave, and arrives a propagation
//! delay later. A lost one arrives a retransmission delay later still, and whatever follows it
//! waits: the order is that of a byte stream, as over TCP.
//!
//! ```text
//!  sent at 0, 1, 2 ms      |#1#|#2#|#3#|                   leave one after the other
//!                               \   \   \
//!  arrive                        1   lost .. again ->2,3   the third waits for the second
//! ```

use std::ops::Range;

use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

/// A link, alike in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bytes per second and direction; zero for no bound.
    pub rate_bytes: u64,
    /// Propagation, one way.
    pub delay: Span,
    /// Messages that are lost, in millionths.
    pub loss_ppm: u32,
    /// From the loss of a message to its arrival at the second attempt, beside the delay.
    pub retransmission: Span,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Towards the storage.
    Out,
    /// Towards the client.
    Back,
}

/// A window of time in which a link is worse than usual.
#[derive(Clone, Debug)]
pub(crate) struct Disturbance {
    pub(crate) window: Range<Nanos>,
    pub(crate) loss_ppm: u32,
    pub(crate) delay: Span,
}

/// A link at work.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    spec: LinkSpec,
    disturbances: Vec<Disturbance>,
    prng: Prng,
    out: Direction,
    back: Direction,
}

#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    /// When the last byte so far has left.
    free_at: Nanos,
    /// When the last message so far arrives.
    arrives_at: Nanos,
}

impl Link {
    /// A link that has carried nothing yet.
    pub(crate) fn new(spec: LinkSpec, disturbances: Vec<Disturbance>, seed: u64) -> Self {
        let (out, back) = (Direction::default(), Direction::default());
        Self { spec, disturbances, prng: Prng::new(seed), out, back }
    }

    /// Whether messages always arrive at the instant in which they are sent.
    pub(crate) fn is_instant(&self) -> bool {
        let LinkSpec { rate_bytes, delay, loss_ppm, .. } = self.spec;
        rate_bytes == 0 && delay == Span::ZERO && loss_ppm == 0 && self.disturbances.is_empty()
    }

    /// Sends a message; returns when it arrives.
    pub(crate) fn carry(&mut self, now: Nanos, way: Way, bytes: u64) -> Nanos {
        let [mut delay, mut lost_in_a_million] = [self.spec.delay.0, self.spec.loss_ppm.into()];
        for disturbance in self.disturbances.iter().filter(|one| one.window.contains(&now)) {
            delay = delay.saturating_add(disturbance.delay.0);
            lost_in_a_million += u64::from(disturbance.loss_ppm);
        }
        let is_lost = lost_in_a_million > 0 && self.prng.below(1_000_000) < lost_in_a_million;
        let again = if is_lost { self.spec.retransmission } else { Span::ZERO };
        let direction = match way {
            Way::Out => &mut self.out,
            Way::Back => &mut self.back,
        };
        direction.free_at = direction.free_at.max(now) + transfer(bytes, self.spec.rate_bytes);
        let arrives_at = direction.free_at + Span(delay) + again;
        direction.arrives_at = direction.arrives_at.max(arrives_at);
        direction.arrives_at
    }
}

/// How long `bytes` take at `rate_bytes` per second, rounded up; no time at rate zero.
pub(crate) fn transfer(bytes: u64, rate_bytes: u64) -> Span {
    if rate_bytes == 0 {
        return Span::ZERO;
    }
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate_bytes));
    Span(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn spec(loss_ppm: u32) -> LinkSpec {
        LinkSpec {
            rate_bytes: 1_000_000,
            delay: Span::from_millis(10),
            loss_ppm,
            retransmission: Span::from_millis(200),
        }
    }

    #[test]
    fn messages_leave_one_after_the_other_and_arrive_in_order() {
        let mut link = Link::new(spec(0), Vec::new(), 1);
        assert_eq!(link.carry(Nanos(0), Way::Out, 1000), Nanos(11 * MS));
        assert_eq!(link.carry(Nanos(0), Way::Out, 1000), Nanos(12 * MS));
        assert_eq!(link.carry(Nanos(0), Way::Back, 1000), Nanos(11 * MS), "ways do not compete");
        assert_eq!(link.carry(Nanos(5 * MS), Way::Out, 0), Nanos(15 * MS));
    }

    #[test]
    fn a_lost_message_holds_up_those_behind_it() {
        let window = Nanos(0)..Nanos(1);
        let loss = Disturbance { window, loss_ppm: 1_000_000, delay: Span::ZERO };
        let mut link = Link::new(spec(0), vec![loss], 1);
        assert_eq!(link.carry(Nanos(0), Way::Out, 0), Nanos(210 * MS));
        assert_eq!(link.carry(Nanos(MS), Way::Out, 0), Nanos(210 * MS));
        assert_eq!(link.carry(Nanos(300 * MS), Way::Out, 0), Nanos(310 * MS));
    }

    #[test]
    fn losses_are_as_frequent_as_said() {
        let mut link = Link::new(spec(250_000), Vec::new(), 7);
        let is_late = |k: u64| {
            let sent = Nanos(k * 1000 * MS);
            link.carry(sent, Way::Out, 0).since(sent) > Span::from_millis(10)
        };
        let late = (0..10_000).map(is_late).filter(|late| *late).count();
        assert!((2_350..2_650).contains(&late), "{late}");
    }

    #[test]
    fn an_ideal_link_takes_no_time() {
        let mut link = Link::new(LinkSpec::default(), Vec::new(), 1);
        assert!(link.is_instant());
        assert_eq!(link.carry(Nanos(5), Way::Out, 1 << 30), Nanos(5));
    }
}
