//! Whether this gate divides an array with others, and what all agree that requests take of it.
//!
//! ```text
//!               another gate is heard         the worker has begun
//!   alone ---------------------------> begins -------------------> together
//!     ^                                                                |
//!     +------------- nobody heard for ten minutes ---------------------+
//! ```
//!
//! A gate that is alone says so each period with a word of nobody, so that others find it. A
//! policy that names the controller begins together at once, and stays so.

use evenkeel_core::control::array_cost::{Agreed, ArrayCost};
use evenkeel_core::control::member::Method;
use evenkeel_core::control::summary::HostId;
use evenkeel_core::time::{Nanos, Span};

use super::agreement::CostDifference;

/// A gate that was silent for so long has left, and what its policy said of costs counts no more.
/// More than twice what [`TOLD_EVERY`] words take with the longest period.
pub(super) const LEFT_AFTER: Span = Span::from_secs(600);

/// One of so many words carries the costs, and the first after they have changed.
const TOLD_EVERY: u64 = 25;

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Alone,
    Begins,
    Together,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Together {
    standing: Standing,
    /// Whether that follows from who is heard.
    is_automatic: bool,
    /// When another gate was heard last that divides by share.
    heard: Nanos,
    /// What this gate's policy says that requests take.
    written: Option<ArrayCost>,
    /// What that of another says, and when it last did. It is not passed on.
    written_elsewhere: Option<Written>,
    /// The same of those whose words this gate hears. That it passes on in the sum of their shard,
    /// since most gates hear no other word of it.
    written_in_shard: Option<Written>,
    /// What somebody has learned while it was alone.
    learned: Agreed,
    /// What counts of all that.
    in_force: Option<ArrayCost>,
    words: u64,
    sums: u64,
}

/// What the policy of a gate says, and when it last did.
type Written = (ArrayCost, Nanos, HostId);

impl Together {
    /// At first; alone if it follows from who is heard.
    pub(super) fn new(is_automatic: bool, written: Option<ArrayCost>) -> Self {
        Self {
            standing: if is_automatic { Standing::Alone } else { Standing::Together },
            is_automatic,
            heard: Nanos::ZERO,
            written,
            written_elsewhere: None,
            written_in_shard: None,
            learned: Agreed::default(),
            in_force: written,
            words: 0,
            sums: 0,
        }
    }

    /// The policy has changed.
    pub(super) fn change(&mut self, now: Nanos, is_automatic: bool, written: Option<ArrayCost>) {
        if is_automatic != self.is_automatic {
            self.is_automatic = is_automatic;
            self.standing = if is_automatic { Standing::Alone } else { Standing::Together };
        }
        self.written = written;
        let _ = self.settle(now);
    }

    /// Whether the array is divided with others by this gate's worker.
    pub(super) fn is_together(&self) -> bool {
        self.standing == Standing::Together
    }

    /// Whether that has begun, and follows from who is heard: a worker that has begun anew has to
    /// be asked again.
    pub(super) fn has_begun(&self) -> bool {
        self.is_automatic && self.standing != Standing::Alone
    }

    /// Another gate was heard before the array; true if the two are to divide it from now on.
    pub(super) fn hear(&mut self, now: Nanos, method: Method) -> bool {
        if method != Method::Shares {
            return false;
        }
        self.heard = now;
        let begins = self.standing == Standing::Alone;
        if begins {
            self.standing = Standing::Begins;
        }
        begins
    }

    /// The worker divides it from now on. What it has measured so far may be what all agree on;
    /// true if it is.
    pub(super) fn begun(&mut self, now: Nanos, measured: Option<ArrayCost>) -> bool {
        if self.standing == Standing::Begins {
            self.standing = Standing::Together;
        }
        measured.is_some_and(|cost| self.learned.hear(cost)) && self.settle(now)
    }

    /// Whether all others have left; then this gate is alone again.
    pub(super) fn is_left(&mut self, now: Nanos) -> bool {
        let is_left = self.has_begun() && now.since(self.heard) >= LEFT_AFTER;
        if is_left {
            self.standing = Standing::Alone;
        }
        is_left
    }

    /// Another gate says what requests take, in its word or as the collector of a shard; true if
    /// that is what all are to agree on.
    pub(super) fn agree(
        &mut self,
        now: Nanos,
        (gate, is_collector): (HostId, bool),
        cost: ArrayCost,
    ) -> bool {
        if !cost.is_written() {
            return self.learned.hear(cost) && self.settle(now);
        }
        let counts = |before: Option<Written>| {
            fresh(before, now).is_none_or(|(_, before)| cost >= before) && cost.is_plausible()
        };
        if counts(self.written_elsewhere) {
            self.written_elsewhere = Some((cost, now, gate));
        }
        if !is_collector && counts(self.written_in_shard) {
            self.written_in_shard = Some((cost, now, gate));
        }
        self.settle(now)
    }

    /// Whether something else counts now than before.
    pub(super) fn settle(&mut self, now: Nanos) -> bool {
        let elsewhere = fresh(self.written_elsewhere, now).map(|(_, cost)| cost);
        let counts = self.written.or(elsewhere).or_else(|| self.learned.cost());
        let has_changed = counts != self.in_force;
        if has_changed {
            (self.in_force, self.words, self.sums) = (counts, 0, 0);
        }
        has_changed
    }

    /// What all agree on so far.
    pub(super) fn cost(&self) -> Option<ArrayCost> {
        self.in_force
    }

    /// What the next word says of it.
    pub(super) fn next_told(&mut self) -> Option<ArrayCost> {
        let is_due = self.words.is_multiple_of(TOLD_EVERY);
        self.words += 1;
        self.written.or_else(|| self.learned.cost()).filter(|_| is_due)
    }

    /// What the next sum says of it.
    pub(super) fn next_summed(&mut self, now: Nanos) -> Option<ArrayCost> {
        let is_due = self.sums.is_multiple_of(TOLD_EVERY);
        self.sums += 1;
        let in_shard = fresh(self.written_in_shard, now).map(|(_, cost)| cost);
        self.written.max(in_shard).or_else(|| self.learned.cost()).filter(|_| is_due)
    }

    /// Which gate's policy says otherwise than this one's, and what it does.
    pub(super) fn difference(&self, now: Nanos) -> Option<(HostId, CostDifference)> {
        let ((gate, other), own) = (fresh(self.written_elsewhere, now)?, self.written?);
        (other != own).then_some((gate, CostDifference { other, own }))
    }
}

/// What the policy of another gate says, as long as it does.
fn fresh(written: Option<Written>, now: Nanos) -> Option<(HostId, ArrayCost)> {
    let (cost, said, gate) = written?;
    (now.since(said) < LEFT_AFTER).then_some((gate, cost))
}

#[cfg(test)]
mod tests {
    use evenkeel_core::control::array_cost::{Rate, WRITTEN};

    use super::*;

    /// A gate that is heard by its word.
    const TWO: (HostId, bool) = (HostId(2), false);

    fn at_s(seconds: u64) -> Nanos {
        Nanos::ZERO + Span::from_secs(seconds)
    }

    fn cost(load_s: u32) -> ArrayCost {
        let rate = Rate { fixed: Span::from_micros(100), rate_bytes: 1 << 20 };
        ArrayCost { load_s, read: rate, write: rate, flush: Span::ZERO }
    }

    #[test]
    fn a_gate_divides_the_array_as_long_as_another_is_heard_that_does() {
        let mut together = Together::new(true, None);
        assert!(!together.hear(at_s(1), Method::Slack), "that one divides otherwise");
        assert!(together.hear(at_s(2), Method::Shares) && !together.is_together());
        assert!(!together.hear(at_s(3), Method::Shares), "the worker is asked once");
        assert!(!together.begun(at_s(3), None) && together.is_together() && together.has_begun());
        assert!(!together.is_left(at_s(602)) && together.is_left(at_s(603)));
        assert!(!together.is_together() && together.hear(at_s(700), Method::Shares));
    }

    #[test]
    fn a_policy_that_names_the_controller_never_stops() {
        let mut together = Together::new(false, None);
        assert!(together.is_together() && !together.hear(at_s(1), Method::Shares));
        assert!(!together.is_left(at_s(9_000)));
        together.change(at_s(9), true, None);
        assert!(!together.is_together());
    }

    #[test]
    fn what_requests_take_is_told_now_and_then_and_when_it_changes() {
        let mut together = Together::new(true, None);
        assert_eq!(together.next_told(), None);
        assert!(together.begun(at_s(1), Some(cost(5))));
        let told = |together: &mut Together| (0..50).filter_map(|_| together.next_told()).count();
        assert_eq!(told(&mut together), 2);
        let _ = together.next_told();
        assert!(together.agree(at_s(2), TWO, cost(9)) && !together.agree(at_s(2), TWO, cost(5)));
        assert_eq!(together.next_told(), Some(cost(9)), "it has changed");
        assert_eq!(together.next_told(), None);
    }

    #[test]
    fn what_a_policy_says_counts_as_long_as_it_says_so() {
        let mut together = Together::new(false, None);
        assert!(
            together.agree(at_s(1), TWO, cost(9)) && together.agree(at_s(2), TWO, cost(WRITTEN))
        );
        assert_eq!(together.cost(), Some(cost(WRITTEN)));
        assert_eq!(together.next_told(), Some(cost(9)), "it is for whoever wrote it to tell");
        assert!(!together.agree(at_s(50), TWO, cost(WRITTEN)) && !together.settle(at_s(649)));
        assert!(together.settle(at_s(650)), "that policy says it no longer");
        assert_eq!(together.cost(), Some(cost(9)));
        let mut dearer = cost(WRITTEN);
        dearer.flush = Span::from_secs(1);
        together.change(at_s(651), false, Some(cost(WRITTEN)));
        assert!(!together.agree(at_s(652), TWO, dearer), "each by its own");
        let otherwise = CostDifference { other: dearer, own: cost(WRITTEN) };
        assert_eq!(together.difference(at_s(653)), Some((HostId(2), otherwise)));
        assert_eq!(together.next_told(), Some(cost(WRITTEN)));
        assert_eq!(together.difference(at_s(1_252)), None);
    }

    #[test]
    fn a_collector_passes_on_what_a_policy_in_its_shard_says_and_nothing_else() {
        let mut together = Together::new(false, None);
        assert!(together.agree(at_s(1), (HostId(3), true), cost(WRITTEN)));
        assert_eq!(together.cost(), Some(cost(WRITTEN)));
        assert_eq!(together.next_summed(at_s(1)), None, "its collector says it");
        let mut dearer = cost(WRITTEN);
        dearer.flush = Span::from_secs(1);
        assert!(together.agree(at_s(2), TWO, dearer));
        let said: Vec<ArrayCost> = (0..50).filter_map(|_| together.next_summed(at_s(3))).collect();
        assert_eq!(said, [dearer, dearer]);
        assert_eq!(together.next_told(), None, "in its own word it says what its policy does");
        assert!(together.settle(at_s(602)), "both say it no longer");
    }
}
