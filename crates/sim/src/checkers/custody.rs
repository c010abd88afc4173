//! Custody: who has a request at each moment. Each step of its way is allowed from one place only,
//! so a request or unit that is handed on twice, answered twice, or answered short shows at once.
//!
//! ```text
//!          reach             submit (a part of its bytes)
//! client --------> gate  ----------------------------------> device
//!    ^              ^  |                                        |
//!    |   reply      |  +-- finish, once all bytes came back     |
//!    +--------------+ <-----------------------------------------+ answer
//! ```

use evenkeel_core::time::Nanos;

use super::{Rule, Verdict, broken};

/// Where a request is, and how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Custody {
    holder: Holder,
    /// Bytes it asked for.
    length: u64,
    /// Bytes of it that were handed to the device.
    submitted: u64,
    /// Bytes that came back well.
    returned: u64,
    /// Units with the device.
    units: u32,
    /// A unit came back with an error.
    has_failed: bool,
}

/// Who holds a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Holder {
    /// The slot is not in use.
    #[default]
    Nobody,
    /// On its way to the gate.
    OnTheWayThere,
    /// The gate.
    Gate,
    /// On its way back.
    OnTheWayBack,
}

impl Custody {
    /// A client sends a request of `length` bytes.
    pub(crate) fn send(length: u64) -> Self {
        Self { holder: Holder::OnTheWayThere, length, ..Self::default() }
    }

    /// Whether the client waits for it.
    pub(crate) fn is_under_way(&self) -> bool {
        self.holder != Holder::Nobody
    }

    /// Whether the gate has not answered it.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.holder, Holder::OnTheWayThere | Holder::Gate)
    }

    /// Whether the gate holds it.
    pub(crate) fn is_at_gate(&self) -> bool {
        self.holder == Holder::Gate
    }

    /// Whether units of it have gone to the device before.
    pub(crate) fn has_begun(&self) -> bool {
        self.submitted > 0 || self.units > 0
    }

    /// Whether a unit of it came back with an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether all of it has been handed to the device.
    pub(crate) fn is_submitted(&self) -> bool {
        self.submitted == self.length
    }

    /// It reaches the gate.
    pub(crate) fn reach(&mut self, now: Nanos) -> Verdict {
        self.step(now, Holder::OnTheWayThere, Holder::Gate)
    }

    /// The gate hands a unit of it to the device.
    pub(crate) fn submit(&mut self, now: Nanos, length: u64) -> Verdict {
        self.step(now, Holder::Gate, Holder::Gate)?;
        self.submitted += length;
        self.units += 1;
        if self.submitted > self.length {
            return self.bytes_differ(now);
        }
        Ok(())
    }

    /// The device's answer for a unit of it reaches the gate.
    pub(crate) fn answer(&mut self, now: Nanos, length: u64, ok: bool) -> Verdict {
        self.step(now, Holder::Gate, Holder::Gate)?;
        if self.units == 0 {
            let what = "a unit came back that was not with the device";
            return Err(broken(now, Rule::NothingIsLostOrDoubled, what));
        }
        self.units -= 1;
        self.has_failed |= !ok;
        self.returned += if ok { length } else { 0 };
        Ok(())
    }

    /// The gate is done with it. Without a unit of its own that failed only a tiered volume
    /// `may_refuse` it, one on which something else has failed before.
    pub(crate) fn finish(&mut self, now: Nanos, ok: bool, may_refuse: bool) -> Verdict {
        self.step(now, Holder::Gate, Holder::OnTheWayBack)?;
        if self.units > 0 {
            let what = format!("the gate answered with {} units still at the device", self.units);
            return Err(broken(now, Rule::NothingIsLostOrDoubled, what));
        }
        let is_right = if ok {
            !self.has_failed && self.returned == self.length
        } else {
            self.has_failed || may_refuse
        };
        if is_right { Ok(()) } else { self.bytes_differ(now) }
    }

    /// The client hears of it.
    pub(crate) fn reply(&mut self, now: Nanos) -> Verdict {
        self.step(now, Holder::OnTheWayBack, Holder::Nobody)
    }

    /// The gate has lost it; the client sends it again.
    pub(crate) fn send_again(&mut self) {
        *self = Self::send(self.length);
    }

    fn step(&mut self, now: Nanos, from: Holder, to: Holder) -> Verdict {
        if self.holder != from {
            let what =
                format!("a request went from {from:?} to {to:?} while {:?} had it", self.holder);
            return Err(broken(now, Rule::NothingIsLostOrDoubled, what));
        }
        self.holder = to;
        Ok(())
    }

    #[cold]
    fn bytes_differ(&self, now: Nanos) -> Verdict {
        Err(broken(now, Rule::BytesAreConserved, format!("{self:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos(7);

    fn at_device() -> Custody {
        let mut custody = Custody::send(8192);
        custody.reach(NOW).unwrap();
        custody.submit(NOW, 4096).unwrap();
        custody.submit(NOW, 4096).unwrap();
        custody
    }

    fn rule(verdict: Verdict) -> Rule {
        verdict.unwrap_err().rule
    }

    #[test]
    fn the_whole_way_is_allowed_and_ends_where_it_began() {
        let mut custody = at_device();
        custody.answer(NOW, 4096, true).unwrap();
        custody.answer(NOW, 4096, true).unwrap();
        custody.finish(NOW, true, false).unwrap();
        custody.reply(NOW).unwrap();
        assert!(!custody.is_under_way());
    }

    #[test]
    fn a_unit_that_is_sent_twice_is_noticed() {
        assert_eq!(rule(at_device().submit(NOW, 4096)), Rule::BytesAreConserved);
    }

    #[test]
    fn an_answer_too_many_is_noticed() {
        let mut custody = at_device();
        custody.answer(NOW, 4096, true).unwrap();
        custody.answer(NOW, 4096, true).unwrap();
        assert_eq!(rule(custody.answer(NOW, 4096, true)), Rule::NothingIsLostOrDoubled);
    }

    #[test]
    fn a_request_that_ends_early_short_or_with_the_wrong_result_is_noticed() {
        assert_eq!(rule(at_device().finish(NOW, true, false)), Rule::NothingIsLostOrDoubled);
        let mut short = Custody::send(8192);
        short.reach(NOW).unwrap();
        short.submit(NOW, 4096).unwrap();
        short.answer(NOW, 4096, true).unwrap();
        assert_eq!(rule(short.finish(NOW, true, false)), Rule::BytesAreConserved);
        let mut failed = at_device();
        failed.answer(NOW, 4096, true).unwrap();
        failed.answer(NOW, 4096, false).unwrap();
        assert_eq!(rule(failed.clone().finish(NOW, true, false)), Rule::BytesAreConserved);
        failed.finish(NOW, false, false).unwrap();
        let refused = || {
            let mut custody = Custody::send(8192);
            custody.reach(NOW).unwrap();
            custody
        };
        assert_eq!(rule(refused().finish(NOW, false, false)), Rule::BytesAreConserved);
        refused().finish(NOW, false, true).unwrap();
    }

    #[test]
    fn a_request_that_arrives_or_ends_twice_is_noticed() {
        let mut custody = Custody::send(0);
        custody.reach(NOW).unwrap();
        assert_eq!(rule(custody.reach(NOW)), Rule::NothingIsLostOrDoubled);
        custody.submit(NOW, 0).unwrap();
        custody.answer(NOW, 0, true).unwrap();
        custody.finish(NOW, true, false).unwrap();
        assert_eq!(rule(custody.finish(NOW, true, false)), Rule::NothingIsLostOrDoubled);
        custody.reply(NOW).unwrap();
        assert_eq!(rule(custody.reply(NOW)), Rule::NothingIsLostOrDoubled);
    }
}
