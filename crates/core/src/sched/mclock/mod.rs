//! Floors, limits and shares at once, by three tags per tenant.
//!
//! Source: Gulati, Merchant and Varman, "mClock: Handling Throughput Variability for Hypervisor IO
//! Scheduling", OSDI 2010, with its distributed form dmClock. The head of each tenant's queue has:
//!
//! ```text
//! R  when it is due       max(R_prev + 1/floor, arrival)        real time
//! L  when it is allowed   max(L_prev + 1/limit, now - burst)    real time
//! P  its turn             max(V - lag, P_prev + cost/weight)    virtual time, as in SFQ
//!
//! 1. a head with R <= now and L <= now: the least R          floors first
//! 2. else of the heads with L <= now: the least P            the rest by weight
//! 3. else wait for the first R or L
//! ```
//!
//! A floor of 250 beside two tenants of equal weight, on a device of 1000 requests per second:
//! every 4 ms the first tenant is due once; the rest of the time goes by weight, in which its turn
//! has moved on by what the floor gave it. So it gets the greater of floor and share: 500 here, and
//! still 250 if eight more tenants come.
//!
//! **Served by weight, a request does not count against the floor.** R moves only when a request
//! was served because it was due; the paper moves it always and takes it back.
//!
//! **Service elsewhere** (dmClock): R moves by what other servers gave the tenant because it was
//! due there, L and P by all that they gave it ([`Elsewhere`], counted by [`tracker`]).
//!
//! Where this differs from the paper, and why:
//! - P is virtual time rather than real time from 1/weight. A tenant that comes back from idleness
//!   then starts level with the others by construction, which the paper adjusts for.
//! - A limit binds due requests too, and counts from when requests were dispatched rather than from
//!   when they arrived: so it holds over every window, also behind a device that hesitated.
//! - A tenant whose limit holds it keeps its turn: while it has requests waiting P may lag behind
//!   V, by a tenth of a second of device time at most. Virtual time moves in jumps, of a request of
//!   everybody else at once if all have the same weight; a tenant of great weight and little burst
//!   would lose what lies in between with every jump. Who comes back from idleness starts at V.
//! - Service by floor may bring a tenant's turn forward by one second of device time at most.
//!   Without that bound a tenant with a great floor would be starved for as long as it lasted, were
//!   the floor ever lowered.
//! - Tags are computed when a ticket reaches the head (as ceph/dmclock does by option), so that a
//!   withdrawn ticket leaves no trace.
//!
//! **Cost.** Every call is up to three heap operations. Nothing allocates once as much was queued
//! as ever will be.

mod clock;
pub mod tracker;

use super::depth::{Depth, DepthPolicy};
use super::heap::IndexedHeap;
use super::key::Key;
use super::queues::Queues;
use super::tag::{Scale, Tag};
use super::{Next, Scheduler, Share};
use crate::id::TenantId;
use crate::ticket::{Cost, Ticket};
use crate::time::{Nanos, Span};

pub use clock::Amount;
use clock::Clocks;

/// How far service by floor brings a tenant's turn forward at most, in device time.
const LEAD_MAX: Cost = Cost(1_000_000_000);

/// How far the turn of a tenant that its limit holds stays behind at most, in device time.
const LAG_MAX: Cost = Cost(100_000_000);

/// Why a request was dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its tenant's floor asked for it.
    Floor,
    /// It was its tenant's turn by weight.
    Weight,
}

/// What a tenant received from other servers since its previous request here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Because it was due there (rho in the paper).
    pub by_floor: Amount,
    /// In all (delta in the paper).
    pub in_all: Amount,
}

/// The mClock scheduler. See the [module](self).
#[derive(Clone, Debug)]
pub struct Mclock {
    clients: Vec<Client>,
    queues: Queues<Queued>,
    /// Heads with a floor, by the instant from which they are due and allowed.
    due: IndexedHeap<(Nanos, u64)>,
    /// Heads that are not allowed yet, by when they are.
    limited: IndexedHeap<(Nanos, u64)>,
    /// Heads that are allowed, by their turn.
    turns: IndexedHeap<Key>,
    virtual_time: Tag,
    arrivals: u64,
    depth: Depth,
    last_phase: Phase,
}

/// One tenant.
#[derive(Clone, Copy, Debug)]
struct Client {
    floor: Clocks,
    limit: Clocks,
    scale: Scale,
    /// The scale behind the head's service elsewhere.
    head_scale: Scale,
    /// What [`LEAD_MAX`] is in this tenant's virtual time.
    lead_max: Tag,
    /// What [`LAG_MAX`] is in it.
    lag_max: Tag,
    /// P of the request that would come next if its cost were nothing.
    finish: Tag,
    /// P of the head.
    start: Tag,
    /// Whether its limit holds the head.
    is_throttled: bool,
    /// Request-time that its limit has held, until `changed`.
    throttled: Span,
    changed: Nanos,
}

/// A queued ticket.
#[derive(Clone, Copy, Debug)]
struct Queued {
    ticket: Ticket,
    elsewhere: Elsewhere,
    at: Nanos,
    arrival: u64,
}

impl Queued {
    fn by_floor(&self) -> Amount {
        Amount::of(&self.ticket).plus(self.elsewhere.by_floor)
    }

    fn in_all(&self) -> Amount {
        Amount::of(&self.ticket).plus(self.elsewhere.in_all)
    }
}

impl Client {
    fn new(share: Share) -> Self {
        Self {
            floor: Clocks::of_floor(share.floor),
            limit: Clocks::of_limit(share.limit),
            scale: Scale::new(share.weight_milli),
            head_scale: Scale::new(share.weight_milli),
            lead_max: Scale::new(share.weight_milli).advance(LEAD_MAX),
            lag_max: Scale::new(share.weight_milli).advance(LAG_MAX),
            finish: Tag(0),
            start: Tag(0),
            is_throttled: false,
            throttled: Span::ZERO,
            changed: Nanos::ZERO,
        }
    }

    /// Request-time that its limit has held by now, with so many requests waiting since `changed`.
    fn throttled(&self, now: Nanos, waiting: u32) -> Span {
        let waiting = if self.is_throttled { u64::from(waiting) } else { 0 };
        self.throttled + Span(now.since(self.changed).0.saturating_mul(waiting))
    }
}

impl Mclock {
    /// A scheduler that knows no tenant yet.
    pub fn new(depth: DepthPolicy) -> Self {
        Self {
            clients: Vec::new(),
            queues: Queues::default(),
            due: IndexedHeap::default(),
            limited: IndexedHeap::default(),
            turns: IndexedHeap::default(),
            virtual_time: Tag(0),
            arrivals: 0,
            depth: Depth::new(depth),
            last_phase: Phase::Weight,
        }
    }

    /// Why the ticket that `poll` dispatched last went.
    pub fn last_phase(&self) -> Phase {
        self.last_phase
    }

    /// Takes in a ticket of a tenant that other servers have served meanwhile.
    pub fn enqueue_after(&mut self, now: Nanos, ticket: Ticket, elsewhere: Elsewhere) {
        let index = ticket.tenant.index();
        assert!(index < self.clients.len(), "a tenant is configured before it sends");
        self.arrivals += 1;
        self.depth.arrived(now, &ticket);
        self.account(now, index);
        self.queues.push(index, Queued { ticket, elsewhere, at: now, arrival: self.arrivals });
        if self.queues.len_of(index) == 1 {
            let client = &mut self.clients[index];
            client.finish = client.finish.max(self.virtual_time);
            self.place_head(now, ticket.tenant.0);
        }
    }

    /// Brings the tenant's throttled time up to now; to be called before its queue changes.
    fn account(&mut self, now: Nanos, index: usize) {
        let client = &mut self.clients[index];
        client.throttled = client.throttled(now, self.queues.len_of(index));
        client.changed = now;
    }

    /// Gives the ticket at the head of the tenant's queue its tags and its places.
    fn place_head(&mut self, now: Nanos, tenant: u32) {
        self.account(now, tenant as usize);
        self.clients[tenant as usize].is_throttled = false;
        let Some(head) = self.queues.front(tenant as usize) else {
            self.due.remove(tenant);
            self.limited.remove(tenant);
            self.turns.remove(tenant);
            return;
        };
        let client = &mut self.clients[tenant as usize];
        client.head_scale = client.scale;
        let elsewhere = client.head_scale.advance(head.ticket.cost_elsewhere);
        client.start = (client.finish + elsewhere).max(self.virtual_time - client.lag_max);
        let allowed_at = client.limit.allowed_at(now, head.in_all());
        match client.floor.due_at(head.at, head.by_floor()) {
            Some(due_at) => {
                let from = due_at.max(allowed_at.unwrap_or(Nanos::ZERO));
                self.due.set(tenant, (from, head.arrival));
            }
            None => self.due.remove(tenant),
        }
        match allowed_at {
            Some(at) if at > now => {
                client.is_throttled = true;
                self.limited.set(tenant, (at, head.arrival));
                self.turns.remove(tenant);
            }
            _ => {
                self.limited.remove(tenant);
                self.turns.set(tenant, Key::new(client.start, head.arrival));
            }
        }
    }

    /// Moves heads whose limit allows them by now to those who wait for their turn.
    fn allow(&mut self, now: Nanos) {
        while let Some(((at, arrival), tenant)) = self.limited.peek()
            && at <= now
        {
            self.account(now, tenant as usize);
            self.clients[tenant as usize].is_throttled = false;
            self.limited.remove(tenant);
            self.turns.set(tenant, Key::new(self.clients[tenant as usize].start, arrival));
        }
    }

    /// Who goes next and why, or when to ask again.
    fn choose(&mut self, now: Nanos) -> Result<(u32, Phase), Next> {
        let due = self.due.peek();
        if let Some(((from, _), tenant)) = due
            && from <= now
        {
            return Ok((tenant, Phase::Floor));
        }
        self.allow(now);
        if let Some((_, tenant)) = self.turns.peek() {
            return Ok((tenant, Phase::Weight));
        }
        let allowed = self.limited.peek().map(|((at, _), _)| at);
        let next = due.map(|((from, _), _)| from).into_iter().chain(allowed).min();
        Err(next.map_or(Next::Idle, Next::WaitUntil))
    }

    fn dispatch(&mut self, now: Nanos, tenant: u32, phase: Phase) -> Next {
        let index = tenant as usize;
        self.account(now, index);
        let served = self.queues.pop(index).expect("a tenant in a heap has a head");
        let client = &mut self.clients[index];
        client.limit.advance(now, served.in_all());
        // Nothing is free: a tenant whose turn stood still would starve all others.
        let cost = Cost(served.ticket.cost.0.max(1));
        client.scale = client.head_scale;
        client.finish = client.start + client.scale.advance(cost);
        match phase {
            Phase::Floor => {
                client.floor.advance(served.at, served.by_floor());
                let latest = self.virtual_time + client.lead_max;
                client.finish = client.finish.min(latest.max(client.start));
            }
            Phase::Weight => self.virtual_time = self.virtual_time.max(client.start),
        }
        self.depth.start(now, &served.ticket);
        self.last_phase = phase;
        self.place_head(now, tenant);
        Next::Dispatch(served.ticket)
    }
}

impl Scheduler for Mclock {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        self.enqueue_after(now, ticket, Elsewhere::default());
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.finish(now, &ticket);
    }

    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.leave(now, &ticket);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        let (tenant, phase) = match self.choose(now) {
            Ok(choice) => choice,
            Err(next) => return next,
        };
        let head = self.queues.front(tenant as usize).expect("a tenant in a heap has a head");
        if !self.depth.fits(&head.ticket) {
            self.depth.note_wait();
            return Next::Idle;
        }
        self.dispatch(now, tenant, phase)
    }

    /// New bounds hold at once, for waiting tickets too.
    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        let tenants = self.clients.len().max(tenant.index() + 1);
        self.clients.resize(tenants, Client::new(Share::default()));
        self.queues.reserve_tenants(tenants);
        self.due.reserve_ids(tenants);
        self.limited.reserve_ids(tenants);
        self.turns.reserve_ids(tenants);
        let client = &mut self.clients[tenant.index()];
        let before = *client;
        *client = Client {
            floor: Clocks::of_floor(share.floor).continuing(&before.floor),
            limit: Clocks::of_limit(share.limit).continuing(&before.limit),
            finish: before.finish.max(self.virtual_time),
            start: before.start,
            is_throttled: before.is_throttled,
            throttled: before.throttled,
            changed: before.changed,
            ..Client::new(share)
        };
        self.place_head(now, tenant.0);
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let index = ticket.tenant.index();
        let same_slot = |queued: &Queued| queued.ticket.slot == ticket.slot;
        self.account(now, index);
        let found = self.queues.remove(index, same_slot, |_, _| ()).is_some();
        if found {
            self.depth.withdrawn(now, &ticket);
            self.place_head(now, ticket.tenant.0);
        }
        found
    }

    /// Time that the tickets drained have waited since their queue last changed is not counted as
    /// throttled.
    fn drain(&mut self) -> Vec<Ticket> {
        let mut drained = Vec::with_capacity(self.queues.len());
        for index in 0..self.clients.len() {
            drained.extend(std::iter::from_fn(|| self.queues.pop(index)).map(|one| one.ticket));
        }
        self.due.clear();
        self.limited.clear();
        self.turns.clear();
        self.depth.drained();
        drained
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }

    fn throttled(&self, now: Nanos, tenant: TenantId) -> Span {
        let index = tenant.index();
        let client = self.clients.get(index);
        client.map_or(Span::ZERO, |client| client.throttled(now, self.queues.len_of(index)))
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
}
