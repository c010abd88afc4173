//! What holds and wants slots: the requests of one tenant for one disk.

use std::collections::VecDeque;

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};

use super::pace::Pace;
use super::passing::PassedBy;
use super::returning::Pauses;
use super::slot_time::SlotTime;

/// For so long after its last request or answer a flow counts as asking.
const RECENT: Span = Span::from_secs(1);
/// After so long it is forgotten.
const FORGOTTEN: Span = Span::from_secs(60);

/// The requests of a tenant for an export of an upstream, or for a file.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) tenant: TenantId,
    pub(super) disk: u64,
    /// In the scheduler or in the first depth.
    pub(super) inside: u64,
    /// In the second depth.
    pub(super) away: u64,
    /// Units there that are out for too long.
    pub(super) hanging: u32,
    /// Units in either depth.
    pub(super) in_service: u32,
    pub(super) parked: VecDeque<Ticket>,
    pub(super) parked_amount: u64,
    /// The greatest demand of this period and of the one before.
    pub(super) peaks: [u64; 2],
    pub(super) pace: Pace,
    pub(super) slot_time: SlotTime,
    pub(super) pauses: Pauses,
    /// Since when it has had something here, and the most of it.
    pub(super) busy_since: Nanos,
    pub(super) busy_peak: u64,
    pub(super) last_active: Nanos,
    pub(super) last_answer: Nanos,
    /// When the oldest of its units that are in service was sent; as of the last look.
    pub(super) oldest: Option<Nanos>,
    /// Its part of the depth, as of the last division.
    pub(super) part: u64,
    /// Until then it is held to its part, since it was slow lately.
    pub(super) slow_until: Nanos,
    /// The flow beside which it was slow then.
    pub(super) passed_by: Option<PassedBy>,
    /// The same after it has hung.
    pub(super) hung_until: Nanos,
    /// What it may have inside, if it is held to its part.
    pub(super) cap: Option<u64>,
    /// Its part is less than a slot: it has one of the second depth.
    pub(super) is_second: bool,
}

impl Flow {
    /// Until when it is held to its part though it answers as the others do.
    pub(super) fn held_until(&self) -> Nanos {
        self.slow_until.max(self.hung_until)
    }

    /// One that has asked for nothing yet.
    pub(super) fn new(now: Nanos, tenant: TenantId, disk: u64) -> Self {
        Self {
            tenant,
            disk,
            inside: 0,
            away: 0,
            hanging: 0,
            in_service: 0,
            parked: VecDeque::new(),
            parked_amount: 0,
            peaks: [0; 2],
            pace: Pace::default(),
            slot_time: SlotTime::default(),
            pauses: Pauses::default(),
            busy_since: now,
            busy_peak: 0,
            last_active: now,
            last_answer: now,
            oldest: None,
            part: 0,
            slow_until: Nanos::ZERO,
            passed_by: None,
            hung_until: Nanos::ZERO,
            cap: None,
            is_second: false,
        }
    }

    /// Whether so much more may go inside. One request always may, unless it has no part at all.
    pub(super) fn has_room(&self, amount: u64) -> bool {
        if self.is_second {
            return self.inside + self.away == 0;
        }
        self.cap.is_none_or(|cap| self.inside + amount <= cap || self.inside == 0 && cap > 0)
    }

    /// Whether more is inside than may be, and not because of one large request of this amount.
    pub(super) fn has_excess(&self, amount: u64) -> bool {
        self.cap.is_some_and(|cap| self.inside > cap && !(cap > 0 && self.inside == amount))
    }

    /// What it asks for now, beside what has left the depth.
    pub(super) fn demand(&self) -> u64 {
        self.inside + self.parked_amount
    }

    /// The most that it asked for lately.
    pub(super) fn peak(&self) -> u64 {
        self.peaks[0].max(self.peaks[1])
    }

    /// What is kept for it while it is about to return: what it had before.
    pub(super) fn kept(&self) -> u64 {
        self.busy_peak.min(self.part)
    }

    /// Whether it waits for something, or has asked for something lately.
    pub(super) fn is_active(&self, now: Nanos) -> bool {
        self.demand() + self.away > 0 || now.since(self.last_active) <= RECENT
    }

    /// Whether nothing need be remembered of it.
    pub(super) fn is_forgotten(&self, now: Nanos) -> bool {
        self.demand() + self.away == 0 && now.since(self.last_active) > FORGOTTEN
    }

    /// How fast its answers come, and how long none has while some are awaited.
    pub(super) fn pace_at(&self, now: Nanos) -> Pace {
        let silent = |sent: Nanos| now.since(sent.max(self.last_answer));
        self.pace.with_silence(self.oldest.map_or(Span::ZERO, silent))
    }
}
