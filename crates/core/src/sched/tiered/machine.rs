//! The dispatcher of one domain: front queues, device queues and the order between them.

use super::super::depth::Depth;
use super::super::heap::IndexedHeap;
use super::super::key::Key;
use super::super::queues::Queues;
use super::super::tag::Tag;
use super::super::{Next, Share};
use super::change::ChangeDetector;
use super::estimate::{Estimate, Mean};
use super::front::{Bound, Front};
use super::ledger::{Ledger, Terms, WEIGHT_TOP, time_of};
use super::offer::Offer;
use super::solve::{Asked, Counters, Outcome, Solver, Status};
use super::{DeviceOptions, TieredOptions};
use crate::id::TenantId;
use crate::share::{DEVICES_MAX, DeviceId};
use crate::ticket::{Cost, Ticket};
use crate::time::{Nanos, Span};

/// An urgent solve comes this part of an epoch after the last one at the earliest.
const URGENT_DIVISOR: u64 = 10;

/// Least and greatest lead that is taken for natural, in seconds of service at one's rate.
const LEAD_SECONDS: [f64; 2] = [2.0, 60.0];

/// Parts of the requests below this do not say how long a window takes.
const RARE_PART: f64 = 1e-3;

/// Several devices and the tenants that share them. See the [module](super).
#[derive(Clone, Debug)]
pub struct Tiered {
    devices: Vec<Device>,
    tenants: Vec<Tenant>,
    front: Front,
    ledger: Ledger,
    solver: Solver,
    arrivals: u64,
    window: u32,
    epoch: Span,
    epoch_start: Nanos,
    last_solve: Option<Nanos>,
    is_urgent: bool,
    /// The instant of the last call.
    latest: Nanos,
}

/// One device.
#[derive(Clone, Debug)]
struct Device {
    depth: Depth,
    queues: Queues<Queued>,
    /// Tenants with something queued here, by their virtual time or an earlier one: a dispatch
    /// elsewhere moves it on, which is noticed when the tenant comes to the top ([`Tiered::top`]).
    waiting: IndexedHeap<Key>,
    mean_cost: Mean,
}

/// A ticket at its device.
#[derive(Clone, Copy, Debug)]
struct Queued {
    ticket: Ticket,
    arrival: u64,
}

/// One tenant.
#[derive(Clone, Debug, Default)]
struct Tenant {
    share: Share,
    estimate: Estimate,
    detector: ChangeDetector,
    offer: Offer,
    /// Tickets queued at devices.
    queued: u32,
}

impl Tiered {
    /// A dispatcher that knows no tenant yet.
    pub fn new(options: &TieredOptions) -> Self {
        let count = options.devices.len();
        assert!((1..=DEVICES_MAX).contains(&count), "1 to {DEVICES_MAX} devices, not {count}");
        let capacity = |device: &DeviceOptions| device.capacity_cost_per_second.max(1) as f64;
        let device = |options: &DeviceOptions| Device {
            depth: Depth::new(options.depth),
            queues: Queues::default(),
            waiting: IndexedHeap::default(),
            mean_cost: Mean::default(),
        };
        let capacities = options.devices.iter().map(capacity).collect();
        Self {
            devices: options.devices.iter().map(device).collect(),
            tenants: Vec::new(),
            front: Front::new(options.window),
            ledger: Ledger::default(),
            solver: Solver::new(capacities, options.discipline),
            arrivals: 0,
            window: options.window.max(1),
            epoch: Span(options.epoch.0.max(1)),
            epoch_start: Nanos::ZERO,
            last_solve: None,
            is_urgent: false,
            latest: Nanos::ZERO,
        }
    }

    /// Adds a tenant or changes its share. A new limit holds at once, a new weight or floor from
    /// the next input on. O(tenants) when it adds one.
    pub fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.latest = now;
        let tenants = self.tenants.len().max(tenant.index() + 1);
        self.tenants.resize_with(tenants, Tenant::default);
        self.ledger.reserve_tenants(tenants);
        for device in &mut self.devices {
            device.queues.reserve_tenants(tenants);
            device.waiting.reserve_ids(tenants);
        }
        self.front.configure(now, tenant, &share);
        let known = &mut self.tenants[tenant.index()];
        if known.share != share {
            known.share = share;
            if known.offer.is_present() {
                self.is_urgent = true;
                self.last_solve = None;
            }
        }
        self.release(now);
    }

    /// Takes in a ticket for a device. Its tenant must have been configured.
    pub fn enqueue(&mut self, now: Nanos, device: DeviceId, ticket: Ticket) {
        self.latest = now;
        self.note_arrival(now, device, &ticket);
        self.solve_if_due(now);
        if self.front.pass(now, (ticket, device)) {
            self.queue((ticket, device));
        }
    }

    /// Notes that a device finished a ticket that `poll` had dispatched. Other devices may have
    /// something to dispatch now.
    pub fn complete(&mut self, now: Nanos, device: DeviceId, ticket: Ticket) {
        self.devices[device.index()].depth.finish(now, &ticket);
        self.give_back(now, &ticket);
    }

    /// Notes that a dispatched ticket gives its place back without having been served.
    pub fn leave(&mut self, now: Nanos, device: DeviceId, ticket: Ticket) {
        self.devices[device.index()].depth.leave(now, &ticket);
        self.give_back(now, &ticket);
    }

    fn give_back(&mut self, now: Nanos, ticket: &Ticket) {
        self.latest = now;
        self.front.leave(now, ticket.tenant);
        self.solve_if_due(now);
        self.release(now);
    }

    /// Says what a device should do next. O(1) if nothing may go.
    pub fn poll(&mut self, now: Nanos, device: DeviceId) -> Next {
        self.latest = now;
        self.release(now);
        if let Some((_, tenant)) = self.top(device.index()) {
            let Device { depth, queues, .. } = &mut self.devices[device.index()];
            let head = queues.front(tenant as usize).expect("a tenant that waits has a ticket");
            if depth.fits(&head.ticket) {
                return self.dispatch(now, device, tenant);
            }
            depth.note_wait();
        }
        self.front.next_at().map_or(Next::Idle, Next::WaitUntil)
    }

    /// Takes back a ticket that waits for a device; false if it does not.
    pub fn withdraw(&mut self, now: Nanos, device: DeviceId, ticket: Ticket) -> bool {
        self.latest = now;
        let index = ticket.tenant.index();
        let same_slot = |queued: &Queued| queued.ticket.slot == ticket.slot;
        let queues = &mut self.devices[device.index()].queues;
        if queues.remove(index, same_slot, |_, _| ()).is_some() {
            self.tenants[index].queued -= 1;
            self.place(device.index(), ticket.tenant.0);
            self.front.leave(now, ticket.tenant);
        } else if !self.front.remove(now, (ticket, device)) {
            return false;
        }
        self.tenants[index].offer.depart(now);
        self.release(now);
        true
    }

    /// Takes back everything that waits for a device, tenant by tenant. O(tickets that wait).
    pub fn drain(&mut self, device: DeviceId) -> Vec<Ticket> {
        let now = self.latest;
        let mut drained = Vec::with_capacity(self.queued(device));
        for tenant in (0..).map(TenantId).take(self.tenants.len()) {
            let begin = drained.len();
            while let Some(queued) = self.devices[device.index()].queues.pop(tenant.index()) {
                self.tenants[tenant.index()].queued -= 1;
                self.front.leave(now, tenant);
                drained.push(queued.ticket);
            }
            drained.extend(self.front.drain(now, tenant, device));
            for _ in begin..drained.len() {
                self.tenants[tenant.index()].offer.depart(now);
            }
        }
        self.devices[device.index()].waiting.clear();
        self.release(now);
        drained
    }

    /// Tickets that wait for a device, whether at it or before it.
    pub fn queued(&self, device: DeviceId) -> usize {
        self.devices[device.index()].queues.len() + self.front.held(device)
    }

    /// Request-time that the tenant's limit has held of those for a device.
    pub fn throttled(&self, now: Nanos, tenant: TenantId, device: DeviceId) -> Span {
        self.front.throttled(now, tenant, device)
    }

    /// The depth in force at a device.
    pub fn depth_now(&self, device: DeviceId) -> u64 {
        self.devices[device.index()].depth.in_force()
    }

    /// Whether as much is with a device as its depth allows.
    pub fn is_full(&self, device: DeviceId) -> bool {
        self.devices[device.index()].depth.is_full()
    }

    /// The depth that an automatic one has found for a device.
    pub fn depth_found(&self, device: DeviceId) -> Option<u32> {
        self.devices[device.index()].depth.found()
    }

    /// The last solve in words and figures; none before the first. O(tenants).
    pub fn status(&self) -> Option<Status> {
        self.solver.status()
    }

    /// How often what happened.
    pub fn counters(&self) -> Counters {
        self.solver.counters
    }

    fn note_arrival(&mut self, now: Nanos, device: DeviceId, ticket: &Ticket) {
        let (device, devices) = (device.index(), self.devices.len());
        self.devices[device].mean_cost.add(ticket.cost.0);
        let index = ticket.tenant.index();
        let tenant = self.tenants.get_mut(index).expect("a tenant is configured before it sends");
        tenant.estimate.note(device, devices, ticket);
        if let Some(since) = tenant.detector.note(device) {
            tenant.estimate.cut_to(since);
            self.solver.counters.changes += 1;
            self.is_urgent = true;
        }
        if tenant.offer.arrive(now) {
            self.ledger.set_weight(index, self.solver.newcomer(&tenant.share));
            self.is_urgent = true;
        }
    }

    /// Moves on to their devices all tickets that may pass by now.
    fn release(&mut self, now: Nanos) {
        while let Some(bound) = self.front.release(now) {
            self.queue(bound);
        }
    }

    fn queue(&mut self, (ticket, device): Bound) {
        let index = ticket.tenant.index();
        let tenant = &mut self.tenants[index];
        if tenant.queued == 0 {
            self.ledger.come_back(index);
        }
        tenant.queued += 1;
        self.arrivals += 1;
        let queues = &mut self.devices[device.index()].queues;
        queues.push(index, Queued { ticket, arrival: self.arrivals });
        if queues.len_of(index) == 1 {
            self.place(device.index(), ticket.tenant.0);
        }
    }

    fn dispatch(&mut self, now: Nanos, device: DeviceId, tenant: u32) -> Next {
        let index = tenant as usize;
        let least = self.least();
        self.ledger.note_least(self.ledger.time(least));
        let here = &mut self.devices[device.index()];
        let queued = here.queues.pop(index).expect("a tenant that waits has a ticket");
        here.depth.start(now, &queued.ticket);
        self.ledger.charge(index, device.index(), queued.ticket.cost);
        let known = &mut self.tenants[index];
        known.queued -= 1;
        known.offer.depart(now);
        self.place(device.index(), tenant);
        Next::Dispatch(queued.ticket)
    }

    /// The tenant of least virtual time of those that wait anywhere. One must.
    fn least(&mut self) -> usize {
        let tops = (0..self.devices.len()).filter_map(|device| self.top(device));
        let (_, tenant) = tops.min_by_key(|&(key, _)| key).expect("a tenant waits");
        tenant as usize
    }

    /// The tenant of least virtual time of those that wait for a device. Amortised, at most one
    /// heap operation for every dispatch elsewhere.
    fn top(&mut self, device: usize) -> Option<(Key, u32)> {
        loop {
            let (key, tenant) = self.devices[device].waiting.peek()?;
            let present = self.key(device, tenant).expect("a tenant that waits has a ticket");
            if key == present {
                return Some((key, tenant));
            }
            self.devices[device].waiting.set(tenant, present);
        }
    }

    /// Where the tenant belongs among those that wait for a device.
    fn key(&self, device: usize, tenant: u32) -> Option<Key> {
        let head = self.devices[device].queues.front(tenant as usize)?;
        Some(Key::new(self.ledger.time(tenant as usize), head.arrival))
    }

    /// Puts the tenant where its virtual time belongs at a device.
    fn place(&mut self, device: usize, tenant: u32) {
        let key = self.key(device, tenant);
        let waiting = &mut self.devices[device].waiting;
        match key {
            Some(key) => waiting.set(tenant, key),
            None => waiting.remove(tenant),
        }
    }

    /// Solves at the end of an epoch, or before if something has changed.
    fn solve_if_due(&mut self, now: Nanos) {
        let length = now.since(self.epoch_start);
        let is_over = length >= self.epoch;
        if !is_over && !self.is_urgent {
            return;
        }
        if is_over {
            self.epoch_start = now;
            for (index, tenant) in self.tenants.iter_mut().enumerate() {
                if tenant.offer.is_present() {
                    let has_admitted = self.front.has_admitted(index);
                    tenant.offer.end_epoch(now, length, has_admitted);
                }
            }
        }
        let pause = Span(self.epoch.0 / URGENT_DIVISOR);
        if is_over || self.last_solve.is_none_or(|at| now.since(at) >= pause) {
            self.solve(now);
        }
    }

    fn solve(&mut self, now: Nanos) {
        self.last_solve = Some(now);
        self.is_urgent = false;
        let present = (0..).map(TenantId).zip(&self.tenants).filter(|(_, t)| t.offer.is_present());
        let asked: Vec<Asked> = present.map(|(tenant, known)| self.asked(tenant, known)).collect();
        if asked.is_empty() {
            return;
        }
        let outcome = self.solver.solve(&asked);
        let lead_max = self.lead_max(&asked, &outcome);
        for (asked, terms) in asked.iter().zip(outcome.terms) {
            self.ledger.settle(asked.tenant.index(), terms, lead_max);
            let known = &mut self.tenants[asked.tenant.index()];
            if known.estimate.is_trusted(self.devices.len()) {
                known.detector.arm(&asked.parts, self.devices.len());
            }
            (0..self.devices.len()).for_each(|device| self.place(device, asked.tenant.0));
        }
    }

    fn asked(&self, tenant: TenantId, known: &Tenant) -> Asked {
        let devices = self.devices.len();
        let mut mean_costs = [1; DEVICES_MAX];
        for (device, mean) in mean_costs.iter_mut().enumerate().take(devices) {
            let of_all = || self.devices[device].mean_cost.value().map(Cost);
            let own = known.estimate.mean_cost(device);
            *mean = own.or_else(of_all).map_or(Cost::ONE.0, |cost| cost.0.max(1));
        }
        Asked {
            tenant,
            share: known.share,
            parts: known.estimate.parts(devices),
            mean_costs,
            mean_size_bytes: known.estimate.mean_size_bytes(),
            offered_iops: known.offer.most_iops(),
        }
    }

    /// The lead that windows account for: the longest time that a tenant's window full of requests
    /// takes on the device that it uses least.
    fn lead_max(&self, asked: &[Asked], outcome: &Outcome) -> Tag {
        let [least, most] = LEAD_SECONDS;
        let seconds = |(asked, terms): (&Asked, &Terms)| {
            let parts = asked.parts.iter().copied().filter(|&part| part > RARE_PART);
            let least_part = parts.fold(1.0, f64::min);
            let rate_iops = f64::from(terms.weight) / f64::from(WEIGHT_TOP) * outcome.rate_max_iops;
            f64::from(self.window) / (rate_iops * least_part)
        };
        let longest = asked.iter().zip(&outcome.terms).map(seconds).fold(least, f64::max);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let requests = (longest.min(most) * outcome.rate_max_iops) as u64;
        time_of(requests)
    }
}
