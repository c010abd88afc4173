//! Bounded-lead hold: keeps high ratios when a closed-loop tenant's queue runs dry for a moment.
//!
//! A tenant whose clients wait for their answers before they ask again cannot keep a backlog: its
//! queue empties whenever enough of its requests are in service, here or, under a barrier, at other
//! servers. Fair queuing is work-conserving, so a tenant of little weight then takes the slot,
//! virtual time moves up to its tag, and the share of the absent one is lost for good. At 16 to 1
//! that costs more than half of the ratio.
//!
//! The hold: if the chosen ticket's start tag is ahead of the finish tag of a tenant that is absent
//! (nothing queued) but about to return (something in service here, or active in the last 50 ms),
//! by more than a quarter of what the chosen ticket itself advances, dispatch nothing for a moment.
//!
//! ```text
//! virtual time  ----F_absent------------------S_chosen------>
//!                      |<------- lead ---------->|   hold while lead > (F_chosen - S_chosen) / 4
//! ```
//!
//! It ends when the absent tenant comes back (its ticket goes first), when nothing is in service
//! any more (the device never idles with work queued), when the tenant is no longer about to
//! return, or after `hold_max`: each hold ends in a dispatch, so that whoever waits is served at
//! the worst once per `hold_max`.
//!
//! A hold can help only if it outlasts the time in which an answer brings the tenant back:
//! `hold_max` should be several times the device's time per request, and the price is that the
//! device works with less than its depth meanwhile. A device that needs its depth to be quick pays
//! for that.

use super::heap::IndexedHeap;
use super::tag::Tag;
use crate::time::{Nanos, Span};

/// For how long a tenant with nothing queued and nothing in service counts as about to return.
pub const RECENT: Span = Span::from_millis(50);

/// The absent tenants by finish tag, and the hold that is on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    max: Span,
    absent: IndexedHeap<Tag>,
    last_active: Vec<Nanos>,
    /// When the hold that is on ends at the latest.
    until: Option<Nanos>,
}

impl Hold {
    /// Holds of at most `max`; zero for none.
    pub(crate) fn new(max: Span) -> Self {
        Self { max, ..Self::default() }
    }

    /// Changes the longest hold. Whoever is absent now is seen again when it was active.
    pub(crate) fn set_max(&mut self, max: Span) {
        self.max = max;
        self.until = None;
        self.absent.clear();
    }

    pub(crate) fn reserve_tenants(&mut self, tenants: usize) {
        self.absent.reserve_ids(tenants);
        self.last_active.resize(tenants.max(self.last_active.len()), Nanos::ZERO);
    }

    /// Notes that a tenant with nothing queued was active just now. O(log absent tenants).
    pub(crate) fn note_absent(&mut self, now: Nanos, tenant: u32, finish: Tag) {
        if self.max > Span::ZERO {
            self.absent.set(tenant, finish);
            self.last_active[tenant as usize] = now;
        }
    }

    /// Notes that a tenant has queued tickets. O(log absent tenants).
    pub(crate) fn note_present(&mut self, tenant: u32) {
        if self.max > Span::ZERO {
            self.absent.remove(tenant);
        }
    }

    /// Notes a dispatch, which ends the hold that is on.
    pub(crate) fn note_dispatch(&mut self) {
        self.until = None;
    }

    /// Until when to hold a ticket with these tags, if at all; later than `now`. Must not be asked
    /// while nothing is in service. `in_service` tells whether a tenant has something with the
    /// device. O(log absent tenants), amortised over their absences.
    pub(crate) fn until(
        &mut self,
        now: Nanos,
        [start, finish]: [Tag; 2],
        in_service: impl Fn(u32) -> bool,
    ) -> Option<Nanos> {
        let lead_max = (finish - start).quarter();
        while let Some((absent_finish, tenant)) = self.absent.peek() {
            if start - absent_finish <= lead_max {
                return None;
            }
            let gone = self.last_active[tenant as usize] + RECENT;
            let expiry = if in_service(tenant) { Nanos(u64::MAX) } else { gone };
            if expiry > now {
                let until = *self.until.get_or_insert(now + self.max);
                return (until > now).then_some(until.min(expiry));
            }
            self.absent.remove(tenant);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn idle(_tenant: u32) -> bool {
        false
    }

    fn hold() -> Hold {
        let mut hold = Hold::new(Span::from_millis(25));
        hold.reserve_tenants(3);
        hold
    }

    #[test]
    fn a_lead_of_more_than_a_quarter_request_is_held_for_the_bound() {
        let mut hold = hold();
        hold.note_absent(Nanos(0), 1, Tag(100));
        assert_eq!(hold.until(Nanos(0), [Tag(110), Tag(150)], idle), None, "10 is a quarter of 40");
        assert_eq!(hold.until(Nanos(0), [Tag(111), Tag(151)], idle), Some(Nanos(25 * MS)));
        assert_eq!(
            hold.until(Nanos(5), [Tag(111), Tag(151)], idle),
            Some(Nanos(25 * MS)),
            "no extension"
        );
        assert_eq!(hold.until(Nanos(25 * MS), [Tag(111), Tag(151)], idle), None);
        hold.note_dispatch();
        let next = hold.until(Nanos(25 * MS), [Tag(151), Tag(191)], idle);
        assert_eq!(next, Some(Nanos(50 * MS)), "the next ticket is held anew");
    }

    #[test]
    fn tenants_absent_for_long_are_forgotten() {
        let mut hold = hold();
        hold.note_absent(Nanos(0), 1, Tag(0));
        hold.note_absent(Nanos(40 * MS), 2, Tag(5));
        let until = hold.until(Nanos(45 * MS), [Tag(100), Tag(101)], idle);
        assert_eq!(until, Some(Nanos(50 * MS)), "at 50 ms tenant 1 is gone");
        let until = hold.until(Nanos(50 * MS), [Tag(100), Tag(101)], idle);
        assert_eq!(until, Some(Nanos(70 * MS)), "tenant 2 is not");
    }

    #[test]
    fn a_tenant_with_something_in_service_is_about_to_return() {
        let mut hold = hold();
        hold.note_absent(Nanos(0), 1, Tag(0));
        let until = hold.until(Nanos(500 * MS), [Tag(100), Tag(101)], |tenant| tenant == 1);
        assert_eq!(until, Some(Nanos(525 * MS)));
    }

    #[test]
    fn a_tenant_that_is_present_holds_nobody() {
        let mut hold = hold();
        hold.note_absent(Nanos(0), 1, Tag(0));
        hold.note_present(1);
        assert_eq!(hold.until(Nanos(1), [Tag(100), Tag(101)], idle), None);
    }

    #[test]
    fn a_bound_of_zero_turns_it_off() {
        let mut hold = Hold::new(Span::ZERO);
        hold.reserve_tenants(3);
        hold.note_absent(Nanos(0), 1, Tag(0));
        assert_eq!(hold.until(Nanos(1), [Tag(100), Tag(101)], idle), None);
    }
}
