//! Periods by [common time](evenkeel_core::control::common_time), which all gates count alike.

use evenkeel_core::time::Span;

/// The period that is under way. Counting begins with the first look, in the middle of one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Periods(Option<u64>);

impl Periods {
    /// The number of the period that has begun since the last look, if one has. Periods that were
    /// slept through are one.
    pub(super) fn turned(&mut self, period: Span, common_ns: u64) -> Option<u64> {
        let number = common_ns / period.0;
        let before = self.0.replace(number);
        before.is_some_and(|before| before != number).then_some(number)
    }

    /// Common time was moved: counting begins anew, in the middle of a period. What is left of it
    /// is none, and a word on it would tell the others a wrong time.
    pub(super) fn begin_anew(&mut self) {
        self.0 = None;
    }
}
