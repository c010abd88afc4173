//! Who waited because of whom.
//!
//! # What counts as waiting
//!
//! A unit waits for as long as it takes beyond what an idle server would have taken, its own
//! limit's part left out:
//!
//! ```text
//! wait = (time queued at the gate) - (part of it held by the tenant's own limit)
//!      + (time with the backend) - (what it takes alone)
//! ```
//!
//! What it takes alone shows by those that found little there (`alone`), or by how times grow with
//! what is there (`elasticity`). Before anything is known it is the cost: then an optimistic model
//! overstates waits and a pessimistic one hides them, and under "1 per request" all the time with
//! the backend counts. In observe mode all of the wait happens in the device, in enforce mode most
//! of it at the gate, and the sum means the same.
//!
//! # Who is to blame
//!
//! Those who had units with the device meanwhile (`presence`), by what these take of it. That is
//! what was learned from completions, whatever the policy says that requests cost
//! ([`Learned`](crate::cost::learned::Learned)), and their cost before anything was. For what a
//! unit waits with the device that is what it found there; for what it waits at the gate, each
//! one's part of the device meanwhile. Units of its own tenant count like others: waiting behind
//! one's own requests is most of what a deep queue does. At each tick (every [`TICK`]) what a
//! tenant waited is divided by these sums.
//!
//! ```text
//! with the device    v: 1 ms    c: 3 ms      and another unit of v at the gate, for 8 ms
//! ->                 (v, v) 2 ms    (v, c) 6 ms
//! ```
//!
//! Whoever holds most of the device is to blame for more than that where others would have made
//! nobody wait without it (`without`): they piled up behind it, or the device has room for them.
//!
//! # The device itself
//!
//! What passes while nothing comes back for longer than usual (`stalls`) is the device's, whoever
//! has units there: that part of a wait is known exactly, unit by unit, and is not divided. While
//! everything takes longer for all alike (`slowness`), and until what has piled up then or in a
//! stall is gone, what a tenant waits beyond its usual is the device's. And who has the server for
//! itself, with a single unit, and waits all the same, waits for the device.
//!
//! Nobody else is blamed for what v waits for an export of its own that is slow or hangs
//! (`crate::slots`): such waits are counted apart, and not divided.
//!
//! The queue's part of a wait is gathered as it passes, the device's part when the unit ends; what
//! units found is remembered with a half-life of one tick, so that a wait that ends finds those who
//! caused it.
//!
//! # What it costs
//!
//! Each event touches one tenant, and adds to one sum for each of the [`TOP_PARTIES`] that are
//! distinguished. Of the others, A(c), what tenant c held of the device, tells who is next: with
//! G = integral of 1 / (weight of all in service), A(c) grows by (weight of c) * (change of G)
//! while c's own weight stands still, and is brought up to date when it changes. A tick looks at
//! the tenants that were active, divides what the greatest victims waited only, and books the rest
//! as "other". The pairs live in a table of [`TOP_PAIRS`] with eviction by score (`PairTable`).

mod alone;
mod elasticity;
mod given;
mod pairs;
mod presence;
mod slowness;
mod stalls;
mod without;

use evenkeel_core::float::natural_log;
use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::{Cost, Ticket};
use evenkeel_core::time::{Nanos, Span};

use crate::report::Culprit;
use alone::Alone;
use elasticity::{Elasticity, Means};
use given::Undivided;
pub(crate) use pairs::PairTable;
use presence::{OTHERS, PLACES, Parts, Presence};
use slowness::{Logs, Slowness, Usual};
use stalls::Stalls;
use without::{Closed, Found, Rhythm, Thought};

/// Pairs of tenants that a report names at most.
pub const TOP_PAIRS: usize = 64;
/// Victims, and culprits, that a tick of one server tells apart.
pub const TOP_PARTIES: usize = 8;
/// How often waits are divided among culprits, while there are inputs.
pub const TICK: Span = Span::from_millis(100);

/// A stall of this length leaves something behind.
const STALL_MIN: Span = Span::from_millis(25);
/// Held parts below this are forgotten, in nanoseconds of the whole server.
const NEGLIGIBLE_HELD_NS: f64 = 1.0;

/// One server's book of who waits and who holds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    rows: Vec<Row>,
    /// Tenants with something in their rows.
    active: Vec<TenantId>,
    /// By ticket slot.
    units: Vec<InService>,
    /// Weight of everything in service, and whose it is.
    weight_in_service: u64,
    presence: Presence,
    /// Busy time that is not given to anybody yet.
    undivided: Undivided,
    /// The device without whoever holds most.
    thought: Thought,
    /// How many units were sent.
    sent: u64,
    /// Integral of 1 / `weight_in_service` since the last tick, but for stalls.
    integral: f64,
    updated: Nanos,
    stalls: Stalls,
    elasticity: Elasticity,
    slowness: Slowness,
    /// Stalls up to `updated`.
    stalled: Span,
    stalled_at_tick: Span,
    /// It is slow, or did nothing for a while, as of the last tick.
    is_at_fault: bool,
    /// Counts how often weights changed their unit.
    epoch: u32,
    /// Scratch of a tick.
    victims: Vec<Victim>,
    holders: Vec<(f64, TenantId)>,
    changes: Vec<(usize, TenantId, TenantId)>,
}

/// A unit with the backend.
#[derive(Clone, Copy, Debug, Default)]
struct InService {
    /// What it takes of the device beside others, and in which unit that is.
    weight: u64,
    epoch: u32,
    /// What all take that were there when it was sent, itself included, and how many they were.
    weight_all: u64,
    units_all: u32,
    /// What of its weight counts as that of a closed loop.
    closed: Closed,
    /// How many were sent before it.
    sent_before: u64,
    /// Stalls in all when it was sent.
    stalled: Span,
}

/// What a tenant waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// For whatever.
    pub(crate) in_all: Span,
    /// The part of it in which the device did nothing for anybody, or was slow for all.
    pub(crate) in_stalls: Span,
}

/// What a tenant waited in one place, at the gate or with the device.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    /// Since the last tick, not yet divided. Signed, for the limit's part is taken off at ticks
    /// only.
    in_all_ns: i64,
    /// The part of it that was spent in stalls.
    stalled_ns: u64,
    /// Whom its units found with the device, in any unit, and their own tenant among them.
    found: Parts,
    found_own: f64,
}

/// A tenant that waited.
#[derive(Clone, Copy, Debug)]
struct Victim {
    tenant: TenantId,
    place: usize,
    wait_ns: u64,
    /// The part of it that is the device's, and what of that it stood still or was slow.
    device_ns: u64,
    stalled_ns: u64,
    /// At the gate and with the device: what is to be divided, and in what parts.
    rest: [(u64, Parts, f64); 2],
}

#[derive(Clone, Copy, Debug)]
struct Row {
    is_active: bool,
    place: usize,
    queued: u32,
    /// Units that wait for slots of a slow export.
    parked: u32,
    updated: Nanos,
    at_gate: Waited,
    at_device: Waited,
    /// What its units waited that had the device for themselves.
    alone_ns: i64,
    /// Stalls in all, as of `updated`.
    stalled_seen: Span,
    /// What was waited for slow exports in all.
    waited_for_slots: Span,
    throttled_seen: Span,
    in_service: u32,
    weight_in_service: u64,
    /// Of what came back since time was last divided.
    weight_served: u64,
    integral_seen: f64,
    /// What each had held of the device when its queue was last looked at.
    held_seen: Parts,
    /// A(c), in nanoseconds.
    held_ns: f64,
    /// What its requests take with the server.
    means: Means,
    alone: Alone,
    usual: Usual,
    found: Found,
    rhythm: Rhythm,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            is_active: false,
            place: OTHERS,
            queued: 0,
            parked: 0,
            updated: Nanos::ZERO,
            at_gate: Waited::default(),
            at_device: Waited::default(),
            alone_ns: 0,
            stalled_seen: Span::ZERO,
            waited_for_slots: Span::ZERO,
            throttled_seen: Span::ZERO,
            in_service: 0,
            weight_in_service: 0,
            weight_served: 0,
            integral_seen: 0.0,
            held_seen: Parts::default(),
            held_ns: 0.0,
            means: Means::default(),
            alone: Alone::default(),
            usual: Usual::default(),
            found: Found::default(),
            rhythm: Rhythm::default(),
        }
    }
}

impl Ledger {
    /// A unit was queued at the gate, which takes so much of the backend beside others.
    pub(crate) fn queued(&mut self, now: Nanos, ticket: &Ticket, weight: Cost) {
        let row = self.touch(now, ticket.tenant);
        row.queued += 1;
        row.rhythm.sent(now);
        let (closed, place) = (row.rhythm.closed(), row.place);
        let slot = ticket.slot as usize;
        if self.units.len() <= slot {
            self.units.resize(slot + 1, InService::default());
        }
        let (weight, epoch, thought) = (weight.0.max(1), self.epoch, &mut self.thought);
        self.rows[ticket.tenant.index()].found.sent(weight, thought);
        let closed = if place == thought.place() {
            Closed::default()
        } else {
            thought.enter(weight, closed)
        };
        self.units[slot] = InService { weight, epoch, closed, ..InService::default() };
    }

    /// Whether it is known, in today's unit, what a queued unit takes.
    pub(crate) fn is_weighed(&self, ticket: &Ticket) -> bool {
        self.units[ticket.slot as usize].epoch == self.epoch
    }

    /// A queued unit takes so much.
    pub(crate) fn weigh(&mut self, ticket: &Ticket, weight: Cost) {
        let unit = &mut self.units[ticket.slot as usize];
        (unit.weight, unit.epoch) = (weight.0.max(1), self.epoch);
    }

    /// A queued unit was taken back.
    pub(crate) fn withdrawn(&mut self, now: Nanos, ticket: &Ticket) {
        self.touch(now, ticket.tenant).queued -= 1;
        self.thought.leave(self.units[ticket.slot as usize].closed);
    }

    /// A queued unit waits for a slot of a slow export from now on.
    pub(crate) fn parked(&mut self, now: Nanos, tenant: TenantId) {
        let row = self.touch(now, tenant);
        row.queued -= 1;
        row.parked += 1;
    }

    /// A parked unit is queued again.
    pub(crate) fn unparked(&mut self, now: Nanos, tenant: TenantId) {
        let row = self.touch(now, tenant);
        row.parked -= 1;
        row.queued += 1;
    }

    /// Weights are in another unit from now on.
    pub(crate) fn reweigh(&mut self) {
        self.epoch += 1;
        self.undivided.restart();
        for tenant in &self.active {
            self.rows[tenant.index()].weight_served = 0;
        }
        self.elasticity.restart();
        self.slowness.restart();
    }

    /// A queued unit went to the backend.
    pub(crate) fn dispatched(&mut self, now: Nanos, ticket: &Ticket) {
        let weight = self.units[ticket.slot as usize].weight;
        self.touch(now, ticket.tenant);
        let row = &mut self.rows[ticket.tenant.index()];
        row.at_device.find(self.presence.weights(), row.weight_in_service as f64);
        row.queued -= 1;
        row.in_service += 1;
        row.weight_in_service += weight;
        self.weight_in_service += weight;
        self.presence.enter(row.place, weight);
        self.stalls.started(now);
        let (weight_all, units_all) = (self.weight_in_service, self.stalls.with_device());
        let (sent_before, stalled) = (self.sent, self.stalled);
        let unit = &mut self.units[ticket.slot as usize];
        *unit = InService { weight_all, units_all, sent_before, stalled, ..*unit };
        self.sent += 1;
    }

    /// The backend finished a unit.
    pub(crate) fn served(&mut self, now: Nanos, ticket: &Ticket, device_time: Span) {
        let unit = self.units[ticket.slot as usize];
        let InService { weight, weight_all, units_all, sent_before, stalled, .. } = unit;
        let stalled_ns = self.stalls.at(now).0 - stalled.0;
        let served_ns = device_time.0.saturating_sub(stalled_ns);
        let is_lone = weight == weight_all && self.sent == sent_before + 1;
        self.ended(now, ticket);
        let row = &mut self.rows[ticket.tenant.index()];
        let known_ns = row.alone.time_ns(self.epoch, weight);
        let alone_ns = known_ns.unwrap_or_else(|| {
            let alone_ns = self.elasticity.alone_ns(weight, weight_all, served_ns);
            alone_ns.unwrap_or_default().max(ticket.cost.0)
        });
        row.found.ended(alone_ns);
        row.rhythm.answered(now, device_time, row.queued + row.in_service + 1);
        // What is known is a mean: what others take less than that counts too.
        let least = if known_ns.is_some() { i64::MIN } else { 0 };
        let wait_ns = (signed(device_time.0) - signed(alone_ns)).max(least);
        let stalled_ns = stalled_ns.min(u64::try_from(wait_ns).unwrap_or(0));
        row.at_device.in_all_ns += wait_ns;
        row.at_device.stalled_ns += stalled_ns;
        if is_lone {
            row.alone_ns += wait_ns - signed(stalled_ns);
        }
        if !self.is_at_fault {
            let weights = (weight, weight_all);
            row.alone.add((now, self.epoch), is_lone, weights, served_ns);
        }
        row.usual.ended();
        self.slowness.worked(weight);
        let means = &mut row.means;
        if let Some((weight_log, time_log)) = self.elasticity.add(now, means, weight_all, served_ns)
        {
            let units_log = natural_log(f64::from(units_all.max(1)));
            let usual = (&mut row.usual, self.epoch);
            let logs = Logs { weight: weight_log, units: units_log, time: time_log };
            self.slowness.add(now, usual, logs, self.elasticity.assumed());
        }
    }

    /// The backend finished a unit that it had not answered for long.
    pub(crate) fn served_late(&mut self, now: Nanos, ticket: &Ticket, device_time: Span) {
        let wait = Span(device_time.0.saturating_sub(ticket.cost.0));
        self.ended(now, ticket).waited_for_slots += wait;
    }

    fn ended(&mut self, now: Nanos, ticket: &Ticket) -> &mut Row {
        self.advance(now);
        self.stalls.ended(now);
        let InService { weight, closed, .. } = self.units[ticket.slot as usize];
        self.touch(now, ticket.tenant);
        let row = &mut self.rows[ticket.tenant.index()];
        row.in_service -= 1;
        row.weight_in_service -= weight;
        row.weight_served += weight;
        self.undivided.served(weight);
        self.weight_in_service -= weight;
        let is_empty = self.weight_in_service == 0;
        self.presence.leave(row.place, weight, is_empty);
        self.thought.leave(closed);
        row
    }

    /// Request-time that a tenant waited for slots of slow exports, in all.
    pub(crate) fn waited_for_slots(&self, now: Nanos, tenant: TenantId) -> Span {
        let Some(row) = self.rows.get(tenant.index()) else { return Span::ZERO };
        let since_ns = now.since(row.updated).0.saturating_mul(u64::from(row.parked));
        row.waited_for_slots + Span(since_ns)
    }

    /// Brings a tenant's row up to now, and the server's integral with it.
    fn touch(&mut self, now: Nanos, tenant: TenantId) -> &mut Row {
        self.advance(now);
        if tenant.index() >= self.rows.len() {
            self.rows.resize(tenant.index() + 1, Row::default());
        }
        let row = &mut self.rows[tenant.index()];
        if !row.is_active {
            row.is_active = true;
            self.active.push(tenant);
            if row.place == OTHERS {
                row.place = self.presence.place_for(tenant);
                let weight = row.weight_in_service;
                self.presence.shift(weight, OTHERS, row.place);
            }
        }
        row.update(now, self.integral, self.stalled, self.presence.held_ns());
        row
    }

    fn advance(&mut self, now: Nanos) {
        // Most inputs come in bunches at one instant.
        if now == self.updated {
            return;
        }
        let before = std::mem::replace(&mut self.stalled, self.stalls.at(now));
        if self.weight_in_service > 0 {
            let length_ns = now.since(self.updated).0 - (self.stalled.0 - before.0);
            let change = length_ns as f64 / self.weight_in_service as f64;
            self.integral += change;
            self.presence.pass(change);
            self.undivided.busy(length_ns);
            self.slowness.passed(now.since(self.updated).0);
        }
        self.thought.pass(now.since(self.updated).0);
        self.updated = now;
    }

    /// Divides what was waited since the last tick, and the device's time. `throttled` tells the
    /// request-time that a tenant's own limit held here in all; `told` hears of each tenant's wait,
    /// and of the time that it was given. O(active tenants).
    pub(crate) fn tick(
        &mut self,
        now: Nanos,
        throttled: impl Fn(TenantId) -> Span,
        mut told: impl FnMut(TenantId, Wait, Span),
        pairs: &mut PairTable,
    ) {
        self.advance(now);
        self.victims.clear();
        self.holders.clear();
        let rows = self.active.iter().map(|tenant| &self.rows[tenant.index()]);
        self.slowness.tick(rows.map(|row| (&row.usual, row.held_until(self.integral))));
        self.is_at_fault =
            self.slowness.is_slow() || self.stalled.0 - self.stalled_at_tick.0 >= STALL_MIN.0;
        self.stalled_at_tick = self.stalled;
        let mut division = self.undivided.divide(self.weight_in_service == 0);
        for &tenant in &self.active {
            let row = &mut self.rows[tenant.index()];
            row.update(now, self.integral, self.stalled, self.presence.held_ns());
            let mut wait = Wait::default();
            if let Some(victim) =
                row.take_wait(tenant, throttled(tenant), self.is_at_fault, &self.thought)
            {
                let in_stalls = Span(victim.stalled_ns);
                wait = Wait { in_all: Span(victim.wait_ns), in_stalls };
                self.victims.push(victim);
            }
            let mut given = Span::ZERO;
            if let Some(division) = &mut division {
                given = Span(division.part(std::mem::take(&mut row.weight_served)));
            }
            if wait.in_all > Span::ZERO || given > Span::ZERO {
                told(tenant, wait, given);
            }
            if row.held_ns > 0.0 {
                self.holders.push((row.held_ns, tenant));
            }
        }
        self.elasticity.tick();
        self.divide(pairs);
        self.forget();
    }

    fn divide(&mut self, pairs: &mut PairTable) {
        let rest = keep_greatest(&mut self.victims, |one, other| other.wait_ns.cmp(&one.wait_ns));
        pairs.add_other(rest.iter().map(|victim| victim.wait_ns).sum());
        self.victims.truncate(TOP_PARTIES);
        let mut held_lately = Parts::default();
        for &(held_ns, tenant) in &self.holders {
            held_lately[self.rows[tenant.index()].place] += held_ns;
        }
        for victim in &self.victims {
            victim.blame(&self.presence, &held_lately, pairs);
        }
    }

    /// Whoever holds most is left out in thought.
    fn leave_out(&mut self) {
        self.thought.set_pace(self.slowness.pace());
        let most = self.holders.iter().max_by(|one, other| one.0.total_cmp(&other.0));
        let Some(&(_, tenant)) = most else { return };
        let place = self.rows[tenant.index()].place;
        if place == OTHERS || self.thought.without() == (place, Some(tenant)) {
            return;
        }
        let weights = self.presence.weights();
        let others = weights.iter().sum::<f64>() - weights[place];
        self.thought.begin((place, Some(tenant)), others);
        for tenant in &self.active {
            let row = &mut self.rows[tenant.index()];
            row.found.begin();
        }
    }

    /// Those who held most lately are distinguished.
    fn choose(&mut self) {
        let Self { presence, holders, rows, active, changes, .. } = self;
        presence.choose(holders, |place, before, after| changes.push((place, before, after)));
        for (place, before, after) in changes.drain(..) {
            let row = &mut rows[before.index()];
            row.place = OTHERS;
            presence.shift(row.weight_in_service, place, OTHERS);
            let row = &mut rows[after.index()];
            row.place = place;
            presence.shift(row.weight_in_service, OTHERS, place);
            for &tenant in active.iter() {
                rows[tenant.index()].forget_place(place);
            }
        }
    }

    /// Begins the next tick, with half of what was held, and without those who are gone.
    fn forget(&mut self) {
        self.choose();
        self.leave_out();
        self.integral = 0.0;
        self.presence.begin();
        let rows = &mut self.rows;
        self.active.retain(|tenant| {
            let row = &mut rows[tenant.index()];
            row.integral_seen = 0.0;
            row.held_seen = Parts::default();
            row.held_ns /= 2.0;
            row.at_gate.fade();
            row.at_device.fade();
            row.found.fade();
            let units = row.queued + row.parked + row.in_service;
            let is_gone = units == 0 && row.at_gate.in_all_ns == 0 && row.weight_served == 0;
            row.is_active = !is_gone || row.held_ns >= NEGLIGIBLE_HELD_NS;
            if !row.is_active {
                row.held_ns = 0.0;
                row.at_gate.found = Parts::default();
                row.at_device.found = Parts::default();
            }
            row.is_active
        });
    }
}

impl Waited {
    /// A unit finds these with the device, and so much of its own tenant among them.
    fn find(&mut self, found: &Parts, own: f64) {
        for (sum, found) in self.found.iter_mut().zip(found) {
            *sum += found;
        }
        self.found_own += own;
    }

    /// The part of what was found that is not of whoever has this place.
    fn of_others(&self, place: usize) -> f64 {
        let all: f64 = self.found.iter().sum();
        if all > 0.0 { 1.0 - self.found[place] / all } else { 0.0 }
    }

    /// All others count for so much less, and whoever has this place for as much more.
    fn shift(&mut self, place: usize, times: f64, own: usize) {
        let all: f64 = self.found.iter().sum();
        self.found.iter_mut().for_each(|found| *found *= times);
        let rest: f64 = self.found.iter().sum::<f64>() - self.found[place];
        self.found[place] = all - rest;
        self.found_own = if own == place { self.found[place] } else { self.found_own * times };
    }

    fn fade(&mut self) {
        self.found.iter_mut().for_each(|found| *found /= 2.0);
        self.found_own /= 2.0;
    }

    /// What is to be divided, and the part of it that was spent in stalls. A negative rest waits
    /// for the next tick: what a limit held in whole, and of means, which are never exact, half.
    fn take(&mut self, rest_part: i64) -> (u64, u64) {
        let wait_ns = u64::try_from(self.in_all_ns).unwrap_or(0);
        self.in_all_ns = self.in_all_ns.min(0) / rest_part;
        (wait_ns, std::mem::take(&mut self.stalled_ns).min(wait_ns))
    }
}

impl Victim {
    fn blame(&self, presence: &Presence, held_lately: &Parts, pairs: &mut PairTable) {
        let mut device_ns = self.device_ns;
        let mut blamed = Parts::default();
        let mut blamed_own = 0.0;
        let mut rest_ns = 0;
        for (wait_ns, found, own) in &self.rest {
            let mut others = *found;
            let mut own = *own;
            others[self.place] =
                if self.place == OTHERS { (found[OTHERS] - own).max(0.0) } else { 0.0 };
            let mut whole = others.iter().sum::<f64>() + own;
            if whole < NEGLIGIBLE_HELD_NS {
                // It found nobody, and yet was not alone: others passed it.
                (others, own) = (*held_lately, 0.0);
                if self.place != OTHERS {
                    others[self.place] = 0.0;
                }
                whole = others.iter().sum();
            }
            if whole < NEGLIGIBLE_HELD_NS {
                device_ns += wait_ns;
                continue;
            }
            rest_ns += wait_ns;
            let scale = *wait_ns as f64 / whole;
            for (sum, part) in blamed.iter_mut().zip(others) {
                *sum += part * scale;
            }
            blamed_own += own * scale;
        }
        pairs.add(self.tenant, Culprit::Device, device_ns);
        // Cumulative rounding: whatever the fractions, the parts add up to the whole.
        let (mut sum, mut blamed_ns) = (0.0, 0);
        let others = presence.tenants().map(|(place, tenant)| (tenant, blamed[place]));
        for (culprit, part) in others.chain(std::iter::once((self.tenant, blamed_own))) {
            sum += part;
            let until_ns = whole(sum).min(rest_ns);
            pairs.add(self.tenant, Culprit::Tenant(culprit), until_ns.saturating_sub(blamed_ns));
            blamed_ns = until_ns.max(blamed_ns);
        }
        pairs.add_other(rest_ns - blamed_ns);
    }
}

impl Row {
    fn update(&mut self, now: Nanos, integral: f64, stalled: Span, held_ns: &Parts) {
        let passed_ns = now.since(self.updated).0;
        let queued = u64::from(self.queued);
        self.at_gate.in_all_ns += signed(passed_ns.saturating_mul(queued));
        self.at_gate.stalled_ns += (stalled.0 - self.stalled_seen.0).saturating_mul(queued);
        self.stalled_seen = stalled;
        self.waited_for_slots += Span(passed_ns.saturating_mul(u64::from(self.parked)));
        self.updated = now;
        if integral > self.integral_seen {
            let own_ns = self.weight_in_service as f64 * (integral - self.integral_seen);
            self.held_ns += own_ns;
            if self.queued > 0 {
                let queued = f64::from(self.queued);
                for place in 0..PLACES {
                    let held_ns = held_ns[place] - self.held_seen[place];
                    self.at_gate.found[place] += held_ns * queued;
                }
                self.at_gate.found_own += own_ns * queued;
            }
            self.held_seen = *held_ns;
        }
        self.integral_seen = integral;
    }

    /// What it held of the device lately, up to this value of the integral.
    fn held_until(&self, integral: f64) -> f64 {
        self.held_ns + self.weight_in_service as f64 * (integral - self.integral_seen)
    }

    /// What is to be divided now.
    fn take_wait(
        &mut self,
        tenant: TenantId,
        throttled: Span,
        is_at_fault: bool,
        thought: &Thought,
    ) -> Option<Victim> {
        self.at_gate.in_all_ns -= signed(throttled.0 - self.throttled_seen.0);
        self.throttled_seen = throttled;
        let (gate_ns, gate_stalled_ns) = self.at_gate.take(1);
        let (device_ns, device_stalled_ns) = self.at_device.take(2);
        let alone_ns = u64::try_from(self.alone_ns).unwrap_or(0);
        let alone_ns = alone_ns.min(device_ns - device_stalled_ns);
        self.alone_ns = self.alone_ns.min(0) / 2;
        self.alone.tick();
        let mut rest_ns = [gate_ns - gate_stalled_ns, device_ns - device_stalled_ns - alone_ns];
        let all_ns = rest_ns[0] + rest_ns[1];
        let slow_ns = self.usual.tick(all_ns, is_at_fault).min(all_ns);
        let part = slow_ns as f64 / (all_ns as f64).max(1.0);
        rest_ns = rest_ns.map(|ns| ns - part_of(ns, part));
        let slow_ns = all_ns - rest_ns[0] - rest_ns[1];
        self.found.waited(rest_ns[0] + rest_ns[1]);
        let (mut at_gate, mut at_device) = (self.at_gate, self.at_device);
        if let Some(part) = self.found.part(thought) {
            let of_both =
                [at_gate.of_others(thought.place()), at_device.of_others(thought.place())];
            let [gate, device] = rest_ns.map(|ns| ns as f64);
            let before = (gate * of_both[0] + device * of_both[1]) / (gate + device).max(1.0);
            if part < before {
                at_gate.shift(thought.place(), part / before, self.place);
                at_device.shift(thought.place(), part / before, self.place);
            }
        }
        (gate_ns + device_ns > 0).then_some(Victim {
            tenant,
            place: self.place,
            wait_ns: gate_ns + device_ns,
            device_ns: gate_stalled_ns + device_stalled_ns + slow_ns + alone_ns,
            stalled_ns: gate_stalled_ns + device_stalled_ns + slow_ns,
            rest: [
                (rest_ns[0], at_gate.found, at_gate.found_own),
                (rest_ns[1], at_device.found, at_device.found_own),
            ],
        })
    }

    /// Another has this place from now on.
    fn forget_place(&mut self, place: usize) {
        for waited in [&mut self.at_gate, &mut self.at_device] {
            waited.found[OTHERS] += std::mem::take(&mut waited.found[place]);
        }
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(value: f64) -> u64 {
    value as u64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 <= part <= 1")]
fn part_of(whole: u64, part: f64) -> u64 {
    ((whole as f64 * part) as u64).min(whole)
}

/// Brings the [`TOP_PARTIES`] first in order to the front; returns the others.
fn keep_greatest<T>(parties: &mut [T], order: impl Fn(&T, &T) -> std::cmp::Ordering) -> &[T] {
    if parties.len() <= TOP_PARTIES {
        return &[];
    }
    let (_, _, rest) = parties.select_nth_unstable_by(TOP_PARTIES - 1, order);
    rest
}

#[cfg(test)]
mod tests;
