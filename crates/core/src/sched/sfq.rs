//! Start-time fair queuing with depth, SFQ(D).
//!
//! Sources: Goyal, Vin and Cheng, IEEE/ACM Transactions on Networking, 1997 (SFQ); Jin, Chase and
//! Kaur, SIGMETRICS 2004 (depth); vPFS+, MSST 2019 (back-fill under a depth in bytes); Wang and
//! Merchant, FAST 2007 (the term for service elsewhere, see [`super::dsfq`]).
//!
//! Each ticket gets two tags in virtual time when it arrives, and the least start tag goes first:
//!
//! ```text
//! S = max(V, F_prev + elsewhere/weight)      V      = start tag of the ticket dispatched last
//! F = S + cost/weight                        F_prev = finish tag of the tenant's previous ticket
//! ```
//!
//! Two tenants of weights 2 and 1, each with requests of cost 2 queued:
//!
//! ```text
//! tenant 0   [0,1) [1,2) [2,3) [3,4)         served: 0 1 0 0 1 0 ...: two to one
//! tenant 1   [0,2)       [2,4)               (ties go to whoever arrived first)
//! ```
//!
//! A tenant that was idle starts at V, so idleness gains no credit. Goyal et al. also let V jump to
//! the greatest finish tag when the device falls idle, which forgives every tenant up to one
//! request; under closed loops a device falls idle often and that adds up, so V stays here.
//!
//! **Fairness.** With both backlogged, the normalised service of two tenants differs by at most
//! `(D+1) * (cmax_f/w_f + cmax_g/w_g)` over any interval.
//!
//! **Back-fill.** When the head does not fit a depth in bytes, another tenant's head that does may
//! pass it. One depth's worth of bytes may pass a head in all; then the device drains until the
//! head fits, and an empty device takes anything. So back-fill delays a head by at most the time
//! that the device takes for one depth, and it does not advance V. It looks at the 21 entries
//! around the top of the heap, not at every tenant.
//!
//! **Turns.** Whoever learns costs may give one tenant the device for a moment
//! ([`Scheduler::set_turn`]): the others' tickets come back, then only its own go. Its tags go on
//! and V does not, so that the others catch up; the bound above is that much greater meanwhile. It
//! ends when its tenant has had nothing queued and less than three quarters of the depth in
//! service for a millisecond, or with a ticket of another tenant that has nothing queued or in
//! service.
//!
//! **A new weight** counts for what is queued already: its tags are given again. What a tenant is
//! ahead of V it has been served, which is worth as much of a greater weight as it was of the old.
//!
//! **Leads.** A tenant that must not wait may run ahead of V by so much cost ([`Sfq::set_lead`];
//! borrowed virtual time, Duda and Cheriton, SOSP 1999): its heads go in the order of S less the
//! lead, and V does not follow them. In the long run it has its share as ever; the bound on
//! fairness is greater by the lead.
//!
//! **Cost.** Arrival at a backlogged tenant is O(1), a new weight O(tickets of the tenant);
//! everything else is one or two heap operations.
//! Nothing allocates once as much was queued as ever will be.

use super::depth::{Depth, DepthPolicy, charge_bytes};
use super::heap::IndexedHeap;
use super::hold::Hold;
use super::key::Key;
use super::queues::Queues;
use super::tag::{Scale, Tag};
use super::{Next, Scheduler, Share, Turn};
use crate::id::TenantId;
use crate::ticket::{Cost, Ticket};
use crate::time::{Nanos, Span};

/// A turn goes on for so long with nothing queued and less than three quarters of the depth in
/// service: a client may get several answers before it sends again.
const TURN_EMPTY_MAX: Span = Span::from_millis(1);

/// How SFQ(D) runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SfqOptions {
    /// What may be with the device at once.
    pub depth: DepthPolicy,
    /// The longest hold for a tenant whose queue ran dry ([`super::hold`]); zero turns it off.
    pub hold: Span,
}

/// The SFQ(D) scheduler. See the [module](self).
#[derive(Clone, Debug)]
pub struct Sfq {
    flows: Vec<Flow>,
    queues: Queues<Tagged>,
    /// Tenants with something queued, by the tags of their heads.
    backlogged: IndexedHeap<Key>,
    virtual_time: Tag,
    arrivals: u64,
    depth: Depth,
    hold: Hold,
    backfill: Backfill,
    /// Who has the device alone, unless somebody came who had nothing queued.
    turn: Option<Turn>,
    is_turn_over: bool,
    /// When the turn ends of a tenant that does not keep the device busy; none while it does.
    turn_empty_until: Option<Nanos>,
}

/// One tenant.
#[derive(Clone, Copy, Debug)]
struct Flow {
    scale: Scale,
    /// Finish tag of the ticket that arrived last.
    finish: Tag,
    in_service: u32,
    /// How far it may run ahead of virtual time.
    lead: Tag,
}

/// A queued ticket.
#[derive(Clone, Copy, Debug)]
struct Tagged {
    ticket: Ticket,
    start: Tag,
    finish: Tag,
    arrival: u64,
}

/// What may still pass the head that waits.
#[derive(Clone, Copy, Debug, Default)]
struct Backfill {
    /// Arrival number of that head.
    head: u64,
    budget_bytes: u64,
}

impl Sfq {
    /// A scheduler that knows no tenant yet.
    pub fn new(options: SfqOptions) -> Self {
        Self {
            flows: Vec::new(),
            queues: Queues::default(),
            backlogged: IndexedHeap::default(),
            virtual_time: Tag(0),
            arrivals: 0,
            depth: Depth::new(options.depth),
            hold: Hold::new(options.hold),
            backfill: Backfill::default(),
            turn: None,
            is_turn_over: false,
            turn_empty_until: None,
        }
    }

    /// Changes the options while it runs; what is queued and in service stays.
    pub fn set_options(&mut self, options: SfqOptions) {
        self.depth.set_policy(options.depth);
        self.hold.set_max(options.hold);
    }

    /// Lets a tenant run ahead of its share by so much cost, so that a burst of it need not wait. A
    /// new weight leaves the lead as far ahead in virtual time as it was.
    pub fn set_lead(&mut self, tenant: TenantId, lead: Cost) {
        let flow = &mut self.flows[tenant.index()];
        flow.lead = Scale::new(flow.scale.weight_milli()).advance(lead);
        self.place_head(tenant.0);
    }

    /// Tickets with the device.
    pub fn in_service(&self) -> u32 {
        self.depth.in_service()
    }

    /// Tags a ticket and puts it at the end of its tenant's queue.
    fn push(&mut self, ticket: Ticket) {
        let index = ticket.tenant.index();
        let flow = self.flows.get_mut(index).expect("a tenant is configured before it sends");
        let start = self.virtual_time.max(flow.finish + flow.scale.advance(ticket.cost_elsewhere));
        // Nothing is free: a tenant whose tags stood still would starve all others.
        let finish = start + flow.scale.advance(Cost(ticket.cost.0.max(1)));
        flow.finish = finish;
        self.arrivals += 1;
        self.queues.push(index, Tagged { ticket, start, finish, arrival: self.arrivals });
        if self.queues.len_of(index) == 1 {
            // Who has a deep queue can wait; who sends now and then must not.
            let is_idle = self.flows[index].in_service == 0;
            self.is_turn_over |= is_idle && self.turn.is_some_and(|it| it.tenant != ticket.tenant);
            self.place_head(ticket.tenant.0);
            self.hold.note_present(ticket.tenant.0);
        }
    }

    fn dispatch(&mut self, now: Nanos, tenant: u32) -> Next {
        let index = tenant as usize;
        let Tagged { ticket, finish, .. } =
            self.queues.pop(index).expect("a backlogged tenant has a ticket");
        self.depth.start(now, &ticket);
        self.flows[index].in_service += 1;
        self.hold.note_dispatch();
        self.place_head(tenant);
        if self.queues.len_of(index) == 0 {
            self.hold.note_absent(now, tenant, finish);
        }
        Next::Dispatch(ticket)
    }

    /// A ticket is no longer with the device.
    fn give_back(&mut self, now: Nanos, ticket: &Ticket) {
        let index = ticket.tenant.index();
        let flow = &mut self.flows[index];
        flow.in_service =
            flow.in_service.checked_sub(1).expect("a ticket completes once, after its dispatch");
        if self.queues.len_of(index) == 0 {
            self.hold.note_absent(now, ticket.tenant.0, flow.finish);
        }
    }

    /// Puts the tenant where the ticket at the head of its queue belongs.
    fn place_head(&mut self, tenant: u32) {
        match self.queues.front(tenant as usize) {
            Some(head) => {
                let key = head.key(self.flows[tenant as usize].lead);
                self.backlogged.set(tenant, key);
            }
            None => self.backlogged.remove(tenant),
        }
    }

    /// A new weight counts for what is queued already; else it would take effect only behind a
    /// whole queue. What the tenant is ahead of virtual time is service that it had, and is worth
    /// as much under a greater weight: else one whose weight was tiny would wait for as long again
    /// as it had been made to. Under a lesser one the head keeps its turn.
    fn reweigh(&mut self, index: usize, weight_milli: u32) {
        let virtual_time = self.virtual_time;
        let Flow { scale, finish, .. } = &mut self.flows[index];
        let before = scale.weight_milli();
        *scale = Scale::new(weight_milli);
        // What lies behind virtual time stays where it is.
        let under_new = |tag: Tag| {
            let ahead = tag - virtual_time;
            tag.min(virtual_time) + ahead.rescaled(before, weight_milli).min(ahead)
        };
        let head = self.queues.front(index).map(|head| under_new(head.start));
        *finish = head.unwrap_or_else(|| under_new(*finish));
        let mut is_head = true;
        self.queues.amend(index, |queued| {
            queued.start = *finish;
            if !is_head {
                queued.start = queued.start + scale.advance(queued.ticket.cost_elsewhere);
            }
            queued.finish = queued.start + scale.advance(Cost(queued.ticket.cost.0.max(1)));
            *finish = queued.finish;
            is_head = false;
        });
    }

    /// What is next in a tenant's turn; none if the turn is over, or it neither has anything queued
    /// nor keeps the device busy. V stays: nobody else is to begin behind what goes out of its
    /// order.
    fn poll_turn(&mut self, now: Nanos) -> Option<Next> {
        let Turn { tenant, until } = self.turn.filter(|turn| now < turn.until)?;
        if self.is_turn_over {
            return None;
        }
        let in_service = self.flows[tenant.index()].in_service;
        let Some(ticket) = self.queues.front(tenant.index()).map(|queued| queued.ticket) else {
            let is_busy = u64::from(in_service) * 4 >= self.depth.in_force() * 3;
            let until = if is_busy { until } else { until.min(self.turn_empty(now)) };
            return (now < until).then_some(Next::WaitUntil(until));
        };
        self.turn_empty_until = None;
        if self.depth.in_service() > in_service {
            return Some(Next::WaitUntil(until));
        }
        if !self.depth.fits(&ticket) {
            self.depth.note_wait();
            return Some(Next::Idle);
        }
        Some(self.dispatch(now, tenant.0))
    }

    /// Until when the device is kept for a tenant that does not keep it busy.
    fn turn_empty(&mut self, now: Nanos) -> Nanos {
        *self.turn_empty_until.get_or_insert(now + TURN_EMPTY_MAX)
    }

    /// The next tenant whose head fits beside `head`, which does not.
    fn backfill(&mut self, head: Tagged) -> Option<u32> {
        if self.backfill.head != head.arrival {
            self.backfill =
                Backfill { head: head.arrival, budget_bytes: self.depth.backfill_bytes() };
        }
        let budget_bytes = self.backfill.budget_bytes;
        let fits = |id: u32| {
            let ticket = &self.queues.front(id as usize)?.ticket;
            (charge_bytes(ticket) <= budget_bytes && self.depth.fits(ticket)).then_some(ticket)
        };
        let candidates =
            self.backlogged.near_top().filter_map(|(key, id)| Some((key, id, fits(id)?)));
        let (_, tenant, ticket) = candidates.min_by_key(|&(key, ..)| key)?;
        self.backfill.budget_bytes -= charge_bytes(ticket);
        Some(tenant)
    }
}

impl Scheduler for Sfq {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.arrived(now, &ticket);
        self.push(ticket);
    }

    fn enqueue_held(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.arrived_late(now, &ticket);
        self.push(ticket);
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.finish(now, &ticket);
        self.give_back(now, &ticket);
    }

    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.leave(now, &ticket);
        self.give_back(now, &ticket);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        if let Some(next) = self.poll_turn(now) {
            return next;
        }
        let Some((_, tenant)) = self.backlogged.peek() else { return Next::Idle };
        let head = *self.queues.front(tenant as usize).expect("a backlogged tenant has a ticket");
        if !self.depth.fits(&head.ticket) {
            self.depth.note_wait();
            return match self.backfill(head) {
                Some(other) => self.dispatch(now, other),
                None => Next::Idle,
            };
        }
        let in_service = |tenant: u32| self.flows[tenant as usize].in_service > 0;
        if self.depth.in_service() > 0
            && let Some(until) = self.hold.until(now, [head.start, head.finish], in_service)
        {
            return Next::WaitUntil(until);
        }
        let lead = self.flows[tenant as usize].lead;
        self.virtual_time = self.virtual_time.max(head.start - lead);
        self.dispatch(now, tenant)
    }

    fn configure(&mut self, _now: Nanos, tenant: TenantId, share: Share) {
        let tenants = self.flows.len().max(tenant.index() + 1);
        let unknown = Flow {
            scale: Scale::new(Share::default().weight_milli),
            finish: Tag(0),
            in_service: 0,
            lead: Tag(0),
        };
        self.flows.resize(tenants, unknown);
        self.queues.reserve_tenants(tenants);
        self.backlogged.reserve_ids(tenants);
        self.hold.reserve_tenants(tenants);
        let flow = &mut self.flows[tenant.index()];
        if flow.scale.weight_milli() != share.weight_milli {
            self.reweigh(tenant.index(), share.weight_milli);
            self.place_head(tenant.0);
        }
    }

    /// The tenant's later tickets move up by what the ticket would have advanced it.
    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let index = ticket.tenant.index();
        let removed = self.queues.remove(
            index,
            |queued| queued.ticket.slot == ticket.slot,
            |removed, later| {
                let advance = removed.finish - removed.start;
                later.start = later.start - advance;
                later.finish = later.finish - advance;
            },
        );
        let Some(removed) = removed else { return false };
        self.depth.withdrawn(now, &ticket);
        let flow = &mut self.flows[index];
        flow.finish = flow.finish - (removed.finish - removed.start);
        self.place_head(ticket.tenant.0);
        true
    }

    fn drain(&mut self) -> Vec<Ticket> {
        let mut drained = Vec::with_capacity(self.queues.len());
        for tenant in self.backlogged.ids() {
            let index = tenant as usize;
            if let Some(head) = self.queues.front(index) {
                self.flows[index].finish = head.start;
            }
            drained
                .extend(std::iter::from_fn(|| self.queues.pop(index)).map(|tagged| tagged.ticket));
        }
        self.backlogged.clear();
        self.depth.drained();
        drained
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }

    fn depth_now(&self) -> u64 {
        self.depth.in_force()
    }

    fn is_full(&self) -> bool {
        self.depth.is_full()
    }

    fn depth_found(&self) -> Option<u32> {
        self.depth.found()
    }

    fn depth_forgone(&self) -> Option<f64> {
        self.depth.forgone()
    }

    fn set_turn(&mut self, turn: Option<Turn>) {
        if self.turn != turn {
            (self.turn, self.is_turn_over, self.turn_empty_until) = (turn, false, None);
            self.depth.disturb(turn.is_some());
        }
    }
}

impl Tagged {
    fn key(&self, lead: Tag) -> Key {
        Key::new(self.start - lead, self.arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::ticket;

    fn sfq(depth: DepthPolicy, weights: &[u32]) -> Sfq {
        let mut sfq = Sfq::new(SfqOptions { depth, hold: Span::ZERO });
        for (tenant, weight) in (0..).zip(weights) {
            let share = Share { weight_milli: weight * 1000, ..Share::default() };
            sfq.configure(Nanos(0), TenantId(tenant), share);
        }
        sfq
    }

    /// Dispatches all that fits; tells the slots.
    fn dispatched(sfq: &mut Sfq) -> Vec<u32> {
        let next = || match sfq.poll(Nanos(0)) {
            Next::Dispatch(ticket) => Some(ticket.slot),
            Next::WaitUntil(_) | Next::Idle => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_new_weight_counts_for_what_is_queued_already() {
        let mut sfq = sfq(DepthPolicy::Requests(100), &[1, 1]);
        for slot in 0..30 {
            sfq.enqueue(Nanos(0), ticket(0, slot));
            sfq.enqueue(Nanos(0), ticket(1, 100 + slot));
        }
        let share = Share { weight_milli: 4000, ..Share::default() };
        sfq.configure(Nanos(0), TenantId(0), share);
        let first = dispatched(&mut sfq).into_iter().take(25);
        let count = first.filter(|slot| *slot < 100).count();
        assert!((19..=21).contains(&count), "four of five, and not one of two: {count}");
    }

    #[test]
    fn in_its_turn_a_tenant_goes_first_and_the_others_catch_up() {
        let mut sfq = sfq(DepthPolicy::Requests(2), &[1, 1]);
        for slot in 0..30 {
            sfq.enqueue(Nanos(0), ticket(0, slot));
            sfq.enqueue(Nanos(0), ticket(1, 100 + slot));
        }
        let serve = |sfq: &mut Sfq, count: usize| -> Vec<u32> {
            let mut served = Vec::new();
            while served.len() < count {
                let next = dispatched(sfq);
                for slot in &next {
                    sfq.complete(Nanos(0), ticket(slot / 100, *slot));
                }
                served.extend(next);
            }
            served
        };
        let turn = Turn { tenant: TenantId(1), until: Nanos(1) };
        sfq.set_turn(Some(turn));
        assert!(serve(&mut sfq, 10).iter().all(|slot| *slot >= 100));
        sfq.set_turn(None);
        assert!(serve(&mut sfq, 10).iter().all(|slot| *slot < 100), "what it had waited for");
        let both = serve(&mut sfq, 20);
        assert_eq!(both.iter().filter(|slot| **slot < 100).count(), 10);
    }

    #[test]
    fn a_turn_outlasts_a_moment_in_which_its_tenant_sends_nothing() {
        let mut sfq = sfq(DepthPolicy::Requests(4), &[1, 1]);
        for slot in 0..10 {
            sfq.enqueue(Nanos(0), ticket(0, slot));
        }
        (100..104).for_each(|slot| sfq.enqueue(Nanos(0), ticket(1, slot)));
        let until = Nanos(0) + TURN_EMPTY_MAX + TURN_EMPTY_MAX;
        sfq.set_turn(Some(Turn { tenant: TenantId(1), until }));
        assert_eq!(dispatched(&mut sfq), [100, 101, 102, 103]);
        sfq.complete(Nanos(0), ticket(1, 103));
        assert_eq!(sfq.poll(Nanos(0)), Next::WaitUntil(until), "most of the depth is in use");
        (100..103).for_each(|slot| sfq.complete(Nanos(5), ticket(1, slot)));
        let over = Nanos(5) + TURN_EMPTY_MAX;
        assert_eq!(sfq.poll(Nanos(5)), Next::WaitUntil(over));
        sfq.enqueue(Nanos(6), ticket(1, 104));
        assert_eq!(sfq.poll(Nanos(6)), Next::Dispatch(ticket(1, 104)), "it has sent in time");
        sfq.complete(Nanos(7), ticket(1, 104));
        let over = Nanos(7) + TURN_EMPTY_MAX;
        assert_eq!(sfq.poll(Nanos(7)), Next::WaitUntil(over));
        assert_eq!(sfq.poll(over), Next::Dispatch(ticket(0, 0)), "and now it has not");
    }

    #[test]
    fn whoever_sends_now_and_then_waits_for_no_turn() {
        let mut sfq = sfq(DepthPolicy::Requests(1), &[1, 1, 1]);
        for slot in 0..10 {
            sfq.enqueue(Nanos(0), ticket(0, slot));
            sfq.enqueue(Nanos(0), ticket(1, 100 + slot));
        }
        let turn = Some(Turn { tenant: TenantId(1), until: Nanos(9) });
        sfq.set_turn(turn);
        assert_eq!(dispatched(&mut sfq), [100]);
        sfq.enqueue(Nanos(1), ticket(2, 200));
        sfq.complete(Nanos(1), ticket(1, 100));
        sfq.set_turn(turn);
        let first = [dispatched(&mut sfq), {
            sfq.complete(Nanos(1), ticket(0, 0));
            dispatched(&mut sfq)
        }];
        assert_eq!(first, [[0], [200]], "the order is the usual one again");
    }

    #[test]
    fn a_turn_begins_when_the_others_are_back_and_ends_whatever_hangs() {
        let mut sfq = sfq(DepthPolicy::Requests(2), &[1, 1]);
        for slot in 0..10 {
            sfq.enqueue(Nanos(0), ticket(0, slot));
            sfq.enqueue(Nanos(0), ticket(1, 100 + slot));
        }
        assert_eq!(dispatched(&mut sfq), [0, 100]);
        sfq.set_turn(Some(Turn { tenant: TenantId(1), until: Nanos(9) }));
        sfq.complete(Nanos(0), ticket(1, 100));
        assert_eq!(sfq.poll(Nanos(0)), Next::WaitUntil(Nanos(9)), "the other's is with it");
        let hung = sfq.clone();
        sfq.complete(Nanos(1), ticket(0, 0));
        assert_eq!(dispatched(&mut sfq), [101, 102]);
        let mut sfq = hung;
        assert!(matches!(sfq.poll(Nanos(9)), Next::Dispatch(_)), "nobody waits any longer");
    }

    fn sized(tenant: u32, slot: u32, size_bytes: u64) -> Ticket {
        Ticket { size_bytes, ..ticket(tenant, slot) }
    }

    #[test]
    fn a_head_that_does_not_fit_is_passed_by_one_depth_of_bytes_at_most() {
        let mut sfq = sfq(DepthPolicy::Bytes(32 << 10), &[1, 1]);
        sfq.enqueue(Nanos(0), sized(0, 0, 16 << 10));
        sfq.enqueue(Nanos(0), sized(0, 1, 32 << 10));
        (10..40).for_each(|slot| sfq.enqueue(Nanos(0), sized(1, slot, 4096)));
        assert_eq!(dispatched(&mut sfq), [0, 10, 11, 12, 13], "16 KiB fit beside the first");
        let mut passed = 3;
        for slot in 10.. {
            sfq.complete(Nanos(0), sized(1, slot, 4096));
            let more = dispatched(&mut sfq);
            if more.is_empty() {
                break;
            }
            passed += more.len();
        }
        assert_eq!(passed, 8, "8 x 4 KiB are one depth");
        sfq.complete(Nanos(0), sized(0, 0, 16 << 10));
        assert_eq!(dispatched(&mut sfq), [0; 0]);
        (0..sfq.in_service()).for_each(|_| sfq.complete(Nanos(0), sized(1, 99, 4096)));
        assert_eq!(dispatched(&mut sfq)[0], 1, "an empty device takes the head");
    }

    #[test]
    fn requests_without_bytes_cannot_pass_a_head_for_ever() {
        let mut sfq = sfq(DepthPolicy::Bytes(32 << 10), &[1, 1]);
        sfq.enqueue(Nanos(0), sized(0, 0, 16 << 10));
        sfq.enqueue(Nanos(0), sized(0, 1, 32 << 10));
        (10..99).for_each(|slot| sfq.enqueue(Nanos(0), sized(1, slot, 0)));
        let mut flushes = dispatched(&mut sfq).len() - 1;
        while flushes < 80 {
            sfq.complete(Nanos(0), sized(1, 0, 0));
            match dispatched(&mut sfq).len() {
                0 => break,
                more => flushes += more,
            }
        }
        assert_eq!(flushes, 9, "one in order, then one depth of 4 KiB each");
    }

    #[test]
    fn a_withdrawn_ticket_does_not_count_against_its_tenant() {
        let mut sfq = sfq(DepthPolicy::Requests(1), &[1, 1]);
        (0..10).for_each(|slot| sfq.enqueue(Nanos(0), ticket(0, slot)));
        (0..9).for_each(|slot| assert!(sfq.withdraw(Nanos(0), ticket(0, slot))));
        sfq.enqueue(Nanos(0), ticket(1, 20));
        assert_eq!(dispatched(&mut sfq), [9], "it arrived first, and nothing is ahead of it");
    }

    #[test]
    fn draining_gives_back_all_and_forgets_its_tags() {
        let mut sfq = sfq(DepthPolicy::Requests(1), &[1, 1]);
        (0..3).for_each(|slot| sfq.enqueue(Nanos(0), ticket(0, slot)));
        assert_eq!(dispatched(&mut sfq), [0]);
        let slots: Vec<u32> = sfq.drain().iter().map(|ticket| ticket.slot).collect();
        assert_eq!((slots, sfq.queued()), (vec![1, 2], 0));
        sfq.enqueue(Nanos(0), ticket(0, 5));
        sfq.enqueue(Nanos(0), ticket(1, 6));
        sfq.complete(Nanos(0), ticket(0, 0));
        assert_eq!(dispatched(&mut sfq), [6], "tenant 0 owes for the one it was served, no more");
    }

    #[test]
    fn a_hold_waits_for_the_heavy_tenant_and_never_with_an_empty_device() {
        let mut sfq = sfq(DepthPolicy::Requests(8), &[16, 1]);
        let hold = Span::from_millis(25);
        sfq.set_options(SfqOptions { depth: DepthPolicy::Requests(8), hold });
        sfq.enqueue(Nanos(0), ticket(0, 0));
        (10..13).for_each(|slot| sfq.enqueue(Nanos(0), ticket(1, slot)));
        assert_eq!([sfq.poll(Nanos(0)), sfq.poll(Nanos(0))].map(slot), [Some(0), Some(10)]);
        assert_eq!(sfq.poll(Nanos(5)), Next::WaitUntil(Nanos(5) + hold), "1 is a lead of 15/16");
        sfq.enqueue(Nanos(9), ticket(0, 1));
        assert_eq!(slot(sfq.poll(Nanos(9))), Some(1), "the absent tenant is back");
        assert_eq!(sfq.poll(Nanos(9)), Next::WaitUntil(Nanos(9) + hold));
        assert_eq!(slot(sfq.poll(Nanos(9) + hold)), Some(11), "a hold ends in a dispatch");
        assert!(matches!(sfq.poll(Nanos(9) + hold), Next::WaitUntil(_)));
        for done in [ticket(0, 0), ticket(0, 1), ticket(1, 10), ticket(1, 11)] {
            sfq.complete(Nanos(9) + hold, done);
        }
        assert_eq!(slot(sfq.poll(Nanos(9) + hold)), Some(12), "nothing is in service");
    }

    fn slot(next: Next) -> Option<u32> {
        match next {
            Next::Dispatch(ticket) => Some(ticket.slot),
            Next::WaitUntil(_) | Next::Idle => None,
        }
    }
}
