//! Requests that missed their time, or have none: by weight, and never starved.
//!
//! Whoever orders by deadlines serves those first that can still be met. So that nobody waits
//! behind them for ever, a tenant with a request that is *overdue* gets at least half of its share
//! of all that is served, whoever else is in time:
//!
//! ```text
//! clock    advances by  cost / (2 x weights of all that are active)   with all that is served
//! a tenant advances by  cost / its weight                             with what is served of it
//!
//!   tenants:   c.......b......|clock......a.....        b and c are behind: the furthest goes
//!                                                       next if its first request is overdue
//! ```
//!
//! All service of a tenant counts, that of its requests in time as well: in overload tenants whose
//! requests are met for the most part need no more, and serving their late ones would make others
//! late. What counts is bounded by [`LEAD`], so that nobody waits long because he once had much.
//!
//! Whoever becomes late joins at the clock unless it is ahead, and whoever is behind lies before
//! it: nobody who is overdue waits behind one who is not for longer than until that one is overdue
//! too.
//!
//! Where nobody is in time late requests share what there is by weight, overdue or not: start-time
//! fair queuing (Goyal, Vin and Cheng, SIGCOMM 1996) over the service of late ones alone.
//!
//! Every call is O(log tenants), but for [`Late::remove`]. Nothing allocates once as much was here
//! as ever will be.

use super::heap::IndexedHeap;
use super::queues::Queues;
use super::tag::{FRACTION_BITS, Scale, Tag};
use crate::id::TenantId;
use crate::ticket::Cost;
use crate::time::{Nanos, Span};

/// A request without a time of its own is overdue after this.
pub(crate) const PATIENCE: Span = Span::from_secs(1);

/// The part of its share that an overdue tenant is served at least, as one of so many.
const SHARE_PARTS: u64 = 2;

/// By so much service the clock has to advance, at most, before a tenant that had more than its
/// part is behind again.
const LEAD: Cost = Cost(1_000_000_000);

/// Late requests of all tenants, oldest first within each.
#[derive(Clone, Debug)]
pub(crate) struct Late<T> {
    queues: Queues<Entry<T>>,
    /// Tenants with late requests, by all that they were served, beside what they are due at least.
    behind: IndexedHeap<Tag>,
    clock: Tag,
    /// The same tenants by what was served of their late ones, and where the last one began.
    fair: IndexedHeap<Tag>,
    fair_clock: Tag,
    tenants: Vec<Tenant>,
    /// The weights of all tenants with requests anywhere, in thousandths.
    active_milli: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    request: T,
    overdue_at: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Tenant {
    scale: Scale,
    /// All that was served of it.
    tag: Tag,
    /// What was served of its late requests.
    fair_tag: Tag,
    /// Requests that wait, late or not, or are served.
    present: u32,
    /// When one of them was overdue last as it was served. A client that asks for one at a time
    /// would get one for each [`PATIENCE`] otherwise.
    overdue_at: Option<Nanos>,
}

impl Tenant {
    fn is_overdue<T>(&self, now: Nanos, head: &Entry<T>) -> bool {
        head.overdue_at <= now || self.overdue_at.is_some_and(|at| now.since(at) <= PATIENCE)
    }
}

impl<T> Default for Late<T> {
    fn default() -> Self {
        Self {
            queues: Queues::default(),
            behind: IndexedHeap::default(),
            clock: Tag(0),
            fair: IndexedHeap::default(),
            fair_clock: Tag(0),
            tenants: Vec::new(),
            active_milli: 0,
        }
    }
}

impl<T: Copy> Late<T> {
    /// Adds a tenant, or changes its weight. What it was served before counts by its old one.
    pub(crate) fn configure(&mut self, tenant: TenantId, weight_milli: u32) {
        let index = tenant.index();
        let count = self.tenants.len().max(index + 1);
        let fresh = Tenant {
            scale: Scale::new(1),
            tag: Tag(0),
            fair_tag: Tag(0),
            present: 0,
            overdue_at: None,
        };
        self.tenants.resize(count, fresh);
        self.queues.reserve_tenants(count);
        self.behind.reserve_ids(count);
        self.fair.reserve_ids(count);
        let scale = Scale::new(weight_milli);
        let before = std::mem::replace(&mut self.tenants[index].scale, scale);
        if self.tenants[index].present > 0 {
            self.active_milli -= u64::from(before.weight_milli());
            self.active_milli += u64::from(weight_milli.max(1));
        }
    }

    /// A request of the tenant has come, late or not.
    pub(crate) fn arrived(&mut self, tenant: TenantId) {
        let tenant = &mut self.tenants[tenant.index()];
        tenant.present += 1;
        if tenant.present == 1 {
            self.active_milli += u64::from(tenant.scale.weight_milli());
        }
    }

    /// A request of the tenant is over, or was taken back.
    pub(crate) fn left(&mut self, tenant: TenantId) {
        let tenant = &mut self.tenants[tenant.index()];
        tenant.present -= 1;
        if tenant.present == 0 {
            self.active_milli -= u64::from(tenant.scale.weight_milli());
        }
    }

    /// A request is late; its tenant must have been told of by [`arrived`](Self::arrived).
    pub(crate) fn push(&mut self, tenant: TenantId, request: T, overdue_at: Nanos) {
        let index = tenant.index();
        self.queues.push(index, Entry { request, overdue_at });
        if self.queues.len_of(index) == 1 {
            let state = &mut self.tenants[index];
            state.tag = state.tag.max(self.clock);
            state.fair_tag = state.fair_tag.max(self.fair_clock);
            self.behind.set(tenant.0, state.tag);
            self.fair.set(tenant.0, state.fair_tag);
        }
    }

    /// The tenant that must be served now, whoever else is in time.
    pub(crate) fn overdue(&self, now: Nanos) -> Option<(TenantId, T)> {
        let (tag, tenant) = self.behind.peek()?;
        let head = self.queues.front(tenant as usize)?;
        let is_overdue = self.tenants[tenant as usize].is_overdue(now, head);
        (tag <= self.clock && is_overdue).then_some((TenantId(tenant), head.request))
    }

    /// The tenant that goes next where nobody is in time.
    pub(crate) fn first(&self) -> Option<(TenantId, T)> {
        let (_, tenant) = self.fair.peek()?;
        Some((TenantId(tenant), self.queues.front(tenant as usize)?.request))
    }

    /// Takes the oldest late request of a tenant, to be served.
    pub(crate) fn pop(&mut self, now: Nanos, tenant: TenantId, cost: Cost) -> Option<T> {
        let entry = self.queues.pop(tenant.index())?;
        let state = &mut self.tenants[tenant.index()];
        if state.is_overdue(now, &entry) {
            state.overdue_at = Some(now);
        }
        self.fair_clock = self.fair_clock.max(state.fair_tag);
        let distance = state.scale.advance(cost);
        state.fair_tag = state.fair_tag + distance;
        let from = state.tag;
        self.advance(tenant, from + distance, cost);
        self.settle(tenant);
        Some(entry.request)
    }

    /// A request of the tenant that is in time is served. To be told whether any is late or not:
    /// who was served well just now is not behind when a request of his is late.
    pub(crate) fn served_in_time(&mut self, tenant: TenantId, cost: Cost) {
        let is_late = self.queues.len_of(tenant.index()) > 0;
        let state = &mut self.tenants[tenant.index()];
        let from = if is_late { state.tag } else { state.tag.max(self.clock) };
        let to = from + state.scale.advance(cost);
        self.advance(tenant, to, cost);
        if is_late {
            self.behind.set(tenant.0, self.tenants[tenant.index()].tag);
        }
    }

    /// Takes out one that will not be served. O(late requests of its tenant).
    pub(crate) fn remove(&mut self, tenant: TenantId, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let is_it = |entry: &Entry<T>| wanted(&entry.request);
        let entry = self.queues.remove(tenant.index(), is_it, |_, _| ())?;
        self.settle(tenant);
        Some(entry.request)
    }

    /// Takes back all, each tenant's oldest first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| {
            let (tenant, _) = self.first()?;
            let entry = self.queues.pop(tenant.index())?;
            self.settle(tenant);
            Some(entry.request)
        })
    }

    /// Requests that are late.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// So much was served of the tenant, which brings its tag there.
    fn advance(&mut self, tenant: TenantId, to: Tag, cost: Cost) {
        self.clock = self.clock + self.of_all(cost);
        let most = self.clock + self.of_all(LEAD);
        self.tenants[tenant.index()].tag = to.min(most);
    }

    /// By how much the clock advances with so much service.
    fn of_all(&self, cost: Cost) -> Tag {
        // A tenant that is served is active.
        let weights = u128::from((SHARE_PARTS * self.active_milli).max(1));
        Tag((u128::from(cost.0) << FRACTION_BITS) / weights)
    }

    /// After one was taken out.
    fn settle(&mut self, tenant: TenantId) {
        if self.queues.len_of(tenant.index()) == 0 {
            self.behind.remove(tenant.0);
            self.fair.remove(tenant.0);
        } else {
            let state = &self.tenants[tenant.index()];
            self.behind.set(tenant.0, state.tag);
            self.fair.set(tenant.0, state.fair_tag);
        }
    }
}
