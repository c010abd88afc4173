//! Start-time fair queuing with depth, SFQ(D).
//!
//! Sources: Goyal, Vin and Cheng, IEEE/ACM ToN 1997 (SFQ); Jin, Chase and Kaur, SIGMETRICS 2004
//! (depth); vPFS+, MSST 2019 (back-fill under a depth in bytes); Wang and Merchant, FAST 2007 (the
//! term for service elsewhere, see [`super::dsfq`]).
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
//! pass it. One depth's worth of bytes may pass a head in all; then the device drains until the head
//! fits, and an empty device takes anything. So back-fill delays a head by at most the time that the
//! device takes for one depth, and it does not advance V. It looks at the 21 entries around the top
//! of the heap, not at every tenant.
//!
//! **Cost.** Arrival at a backlogged tenant is O(1); everything else is one or two heap operations.
//! Nothing allocates once as much was queued as ever will be.

use std::cmp::Ordering;

use super::depth::{Depth, DepthPolicy};
use super::heap::IndexedHeap;
use super::hold::Hold;
use super::queues::Queues;
use super::tag::{Scale, Tag};
use super::{Next, Scheduler, Share};
use crate::id::TenantId;
use crate::ticket::{Cost, Ticket};
use crate::time::{Nanos, Span};

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
}

/// One tenant.
#[derive(Clone, Copy, Debug)]
struct Flow {
    scale: Scale,
    /// Finish tag of the ticket that arrived last.
    finish: Tag,
    in_service: u32,
}

/// A queued ticket.
#[derive(Clone, Copy, Debug)]
struct Tagged {
    ticket: Ticket,
    start: Tag,
    finish: Tag,
    arrival: u64,
}

/// Order of dispatch: start tag, then arrival.
///
/// Halves keep it at 24 bytes, so that a heap node with its id takes 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    start_halves: [u64; 2],
    arrival: u64,
}

impl Key {
    fn start(self) -> u128 {
        let [high, low] = self.start_halves.map(u128::from);
        (high << 64) | low
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.start().cmp(&other.start()).then(self.arrival.cmp(&other.arrival))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    /// Without a jump, since the heap's comparisons cannot be predicted.
    fn lt(&self, other: &Self) -> bool {
        let tied = self.start() == other.start();
        (self.start() < other.start()) | (tied & (self.arrival < other.arrival))
    }
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
        }
    }

    /// Changes the options while it runs; what is queued and in service stays.
    pub fn set_options(&mut self, options: SfqOptions) {
        self.depth.set_policy(options.depth);
        self.hold.set_max(options.hold);
    }

    /// Tickets with the device.
    pub fn in_service(&self) -> u32 {
        self.depth.in_service()
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

    /// Puts the tenant where the ticket at the head of its queue belongs.
    fn place_head(&mut self, tenant: u32) {
        match self.queues.front(tenant as usize) {
            Some(head) => self.backlogged.set(tenant, head.key()),
            None => self.backlogged.remove(tenant),
        }
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
            (ticket.size_bytes <= budget_bytes && self.depth.fits(ticket)).then_some(ticket)
        };
        let candidates =
            self.backlogged.near_top().filter_map(|(key, id)| Some((key, id, fits(id)?)));
        let (_, tenant, ticket) = candidates.min_by_key(|&(key, ..)| key)?;
        self.backfill.budget_bytes -= ticket.size_bytes;
        Some(tenant)
    }
}

impl Scheduler for Sfq {
    fn enqueue(&mut self, _now: Nanos, ticket: Ticket) {
        let index = ticket.tenant.index();
        let flow = self.flows.get_mut(index).expect("a tenant is configured before it sends");
        let start = self.virtual_time.max(flow.finish + flow.scale.advance(ticket.cost_elsewhere));
        // Nothing is free: a tenant whose tags stood still would starve all others.
        let finish = start + flow.scale.advance(Cost(ticket.cost.0.max(1)));
        flow.finish = finish;
        self.arrivals += 1;
        self.queues.push(index, Tagged { ticket, start, finish, arrival: self.arrivals });
        if self.queues.len_of(index) == 1 {
            self.place_head(ticket.tenant.0);
            self.hold.note_present(ticket.tenant.0);
        }
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.finish(now, &ticket);
        let index = ticket.tenant.index();
        let flow = &mut self.flows[index];
        flow.in_service -= 1;
        if self.queues.len_of(index) == 0 {
            self.hold.note_absent(now, ticket.tenant.0, flow.finish);
        }
    }

    fn poll(&mut self, now: Nanos) -> Next {
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
        self.virtual_time = head.start;
        self.dispatch(now, tenant)
    }

    fn configure(&mut self, _now: Nanos, tenant: TenantId, share: Share) {
        let tenants = self.flows.len().max(tenant.index() + 1);
        let unknown = Flow {
            scale: Scale::new(Share::default().weight_milli),
            finish: Tag(0),
            in_service: 0,
        };
        self.flows.resize(tenants, unknown);
        self.queues.reserve_tenants(tenants);
        self.backlogged.reserve_ids(tenants);
        self.hold.reserve_tenants(tenants);
        let flow = &mut self.flows[tenant.index()];
        if flow.scale.weight_milli() != share.weight_milli {
            flow.scale = Scale::new(share.weight_milli);
        }
    }

    /// The tenant's later tickets move up by what the ticket would have advanced it.
    fn withdraw(&mut self, _now: Nanos, ticket: Ticket) -> bool {
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
        drained
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }

    fn depth_now(&self) -> u64 {
        self.depth.in_force()
    }
}

impl Tagged {
    fn key(&self) -> Key {
        Key { start_halves: self.start.halves(), arrival: self.arrival }
    }
}
