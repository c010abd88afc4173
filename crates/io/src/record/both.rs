//! What the data path keeps twice: for the recording that somebody asked for, and for the flight
//! recorder.

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::{Lane, RecordedAs, Started};

/// One thing for each of the two. Either may go without the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Both<T> {
    /// Of the recording that somebody asked for.
    pub(crate) asked: T,
    /// Of the flight recorder.
    pub(crate) flight: T,
}

/// A domain's part in either.
pub(crate) type Lanes = Both<Option<Lane>>;

impl Lanes {
    /// A request of a connection arrived; see [`Lane::arrived`].
    pub(crate) fn arrived(
        &mut self,
        now: Nanos,
        tenant: TenantId,
        known: &mut Both<Option<RecordedAs>>,
        name: impl Fn() -> String,
    ) -> Both<Option<Started>> {
        let arrived = |lane: &mut Option<Lane>, known: &mut Option<RecordedAs>| {
            Some(lane.as_mut()?.arrived(now, tenant, known, &name))
        };
        Both {
            asked: arrived(&mut self.asked, &mut known.asked),
            flight: arrived(&mut self.flight, &mut known.flight),
        }
    }

    /// A request ended; see [`Lane::ended`]. Says which of the two it is time to flush.
    pub(crate) fn ended(
        &mut self,
        now: Nanos,
        started: Both<Option<Started>>,
        kind: Kind,
        range: (u64, u64),
        ok: bool,
    ) -> Both<bool> {
        let ended = |lane: &mut Option<Lane>, started: Option<Started>| match (lane, started) {
            (Some(lane), Some(started)) => lane.ended(now, started, kind, range, ok),
            _ => false,
        };
        Both {
            asked: ended(&mut self.asked, started.asked),
            flight: ended(&mut self.flight, started.flight),
        }
    }

    /// Hands over what has gathered in those of the two that are due. `under_way` are the requests
    /// that have not ended.
    pub(crate) fn flush(
        &mut self,
        now: Nanos,
        is_due: Both<bool>,
        under_way: impl Iterator<Item = Both<Option<Started>>> + Clone,
    ) {
        if let Some(lane) = self.asked.as_mut().filter(|_| is_due.asked) {
            lane.flush(now, under_way.clone().filter_map(|started| started.asked));
        }
        if let Some(lane) = self.flight.as_mut().filter(|_| is_due.flight) {
            lane.flush(now, under_way.filter_map(|started| started.flight));
        }
    }
}
