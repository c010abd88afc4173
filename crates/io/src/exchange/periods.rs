//! Periods by the machine's clock, which all gates count alike since 1970.

use evenkeel_core::time::Span;

/// The period that is under way. Counting begins with the first look, in the middle of one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Periods(Option<u64>);

impl Periods {
    /// The number of the period that has begun since the last look, if one has. Periods that were
    /// slept through are one.
    pub(super) fn turned(&mut self, period: Span, wall_ns: u64) -> Option<u64> {
        let number = wall_ns / period.0;
        let before = self.0.replace(number);
        before.is_some_and(|before| before != number).then_some(number)
    }

    /// Whether the clock has been set back since the last look.
    pub(super) fn was_set_back(&self, period: Span, wall_ns: u64) -> bool {
        self.0.is_some_and(|number| wall_ns / period.0 < number)
    }
}
