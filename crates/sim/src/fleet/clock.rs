//! What time it is at a gate, whose words it believes, and what it does about clocks that are off:
//! as in the exchange of a real gate.
//!
//! Where all clocks are right every gate counts alike from the start. Else each goes by
//! [`CommonTime`], asks those that it doubts ([`Challenges`]), and begins a new life where it
//! counts anew.

use std::rc::Rc;

use evenkeel_core::control::challenge::{Challenges, Proof};
use evenkeel_core::control::common_time::CommonTime;
use evenkeel_core::control::member::Member;
use evenkeel_core::control::peers::{Patience, Refusal};
use evenkeel_core::control::summary::{HostId, Summary};
use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

/// A gate's wall clock is off from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockFault {
    /// Which gate.
    pub gate: u32,
    /// When.
    pub at: Nanos,
    /// How far it is ahead from then on, in nanoseconds.
    pub ahead_ns: i64,
}

/// When worlds begin, in nanoseconds since 1970.
const BEGIN_NS: i64 = 1_796_000_000 * 1_000_000_000;

/// So often a gate looks at its clocks at least.
pub(super) const LOOK_EVERY: Span = Span::from_millis(50);

/// A word, or a part of one, and what goes with it.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) summary: Rc<Summary>,
    pub(super) proof: Proof,
}

/// Where a gate is in its periods.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The number of the one under way.
    pub(super) number: u64,
    /// How much of it has passed.
    pub(super) passed: Span,
    /// Counting has begun anew, in the middle of it.
    pub(super) is_moved: bool,
}

/// See the [module](self).
pub(super) struct Clock {
    own: HostId,
    period: Span,
    faults: Vec<ClockFault>,
    common: CommonTime,
    challenges: Challenges,
    pub(super) incarnation: u64,
    prng: Prng,
    /// Whether any gate's clock is off at any time.
    pub(super) is_tried: bool,
}

impl Clock {
    pub(super) fn new(own: HostId, period: Span, faults: &[ClockFault]) -> Self {
        let mut clock = Self {
            own,
            period,
            faults: faults.iter().filter(|fault| fault.gate == own.0).copied().collect(),
            common: CommonTime::start(Nanos::ZERO, 0, period),
            challenges: Challenges::default(),
            incarnation: 1,
            prng: Prng::new(u64::from(own.0)),
            is_tried: !faults.is_empty(),
        };
        clock.common = CommonTime::start(Nanos::ZERO, clock.wall_ns(Nanos::ZERO), period);
        clock
    }

    fn wall_ns(&self, now: Nanos) -> u64 {
        let last = self.faults.iter().rfind(|fault| fault.at <= now);
        let ahead_ns = last.map_or(0, |fault| fault.ahead_ns);
        (BEGIN_NS + now.0.cast_signed() + ahead_ns).cast_unsigned()
    }

    pub(super) fn look(&mut self, now: Nanos) -> Moment {
        let period = self.period.0;
        if !self.is_tried {
            let (number, passed) = (now.0 / period, Span(now.0 % period));
            return Moment { number, passed, is_moved: false };
        }
        let is_moved = self.common.look(now, self.wall_ns(now)).moved_ns.is_some();
        self.incarnation += u64::from(is_moved);
        let common_ns = self.common.ns(now);
        Moment { number: common_ns / period, passed: Span(common_ns % period), is_moved }
    }

    /// What goes with the next word.
    pub(super) fn proof(&mut self, now: Nanos) -> Proof {
        self.challenges.proof(now)
    }

    /// Another gate's word came in while a period of this number is under way.
    pub(super) fn hear(&mut self, now: Nanos, own: u64, word: &Word, member: &mut Member) {
        let Summary { host, incarnation, period, .. } = *word.summary;
        let summary = Summary::clone(&word.summary);
        if !self.is_tried {
            // A refusal is counted by the receiver; here nobody has to hear of it.
            _ = member.hear(own, summary);
            return;
        }
        if self.challenges.hear(now, self.own, (host, incarnation), &word.proof) {
            member.vouch(host, incarnation);
        }
        let outcome = member.hear(own, summary);
        let is_off = own.abs_diff(period) > Patience::default().forgotten;
        if outcome.is_ok() || self.challenges.has_proven(now, host, incarnation) {
            if self.common.hear(now, (host, incarnation), period, self.period) {
                self.challenges.heard(now, host, incarnation);
            }
        } else if outcome != Err(Refusal::Stale) || is_off {
            let number = self.prng.next_u64();
            self.challenges.doubt(now, host, incarnation, || Some(number));
        }
    }
}
