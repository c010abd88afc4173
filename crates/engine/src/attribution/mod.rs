//! Who waited because of whom.
//!
//! # What counts as waiting
//!
//! A unit waits for as long as it takes beyond what an idle server would have taken, its own
//! limit's part left out:
//!
//! ```text
//! wait = (time queued at the gate) - (part of it held by the tenant's own limit)
//!      + max(0, (time with the backend) - (its cost by the cost model))
//! ```
//!
//! A device that serves several at once takes longer than a request costs it, without letting any
//! wait. Where it shows that its time does not grow with what is there (`elasticity`), that counts
//! instead of the cost.
//!
//! In observe mode all of it happens in the device, in enforce mode most of it at the gate, and the
//! sum means the same. Under the cost model "1 per request" no idle time is known, and all the time
//! with the backend counts. An optimistic model overstates waits and a pessimistic one hides them;
//! how a wait divides over its culprits depends on ratios of costs only.
//!
//! # Who is to blame
//!
//! Whoever held the server meanwhile: tenant c's part of it at an instant is what its units take of
//! the device over everybody's. That is what was learned from completions, whatever the policy says
//! that requests cost ([`Learned`](crate::cost::learned::Learned)), and their cost before anything
//! was. Let A(c) be the integral of that part over time. At each tick (every
//! [`TICK`]) the wait W(v) that tenant v gathered is divided over all c in proportion to A(c). Its
//! own part is counted less: of n units that v has here, the one that is being served waits for
//! nobody, so v blames itself for (n-1)/n of A(v). Waiting behind one's own requests is most of
//! what a deep queue does.
//!
//! ```text
//! in service      v: 1 ms    c: 3 ms        parts  v 1/4   c 3/4     v has 2 units: 1/8 and 3/4
//! v waited 7 ms in this tick        ->      (v, v) 1 ms    (v, c) 6 ms
//! ```
//!
//! # The device itself
//!
//! What passes while nothing comes back for longer than usual (`stalls`) is the device's, whoever
//! has units there: that part of a wait is known exactly, unit by unit, and is not divided. And who
//! has the server for itself, with a single unit, and waits all the same, waits for the device.
//!
//! Nobody else is blamed for what v waits for an export of its own that is slow or hangs
//! (`crate::slots`): such waits are counted apart, and not divided.
//!
//! The queue's part of W(v) is gathered as it passes, the device's part when the unit ends; A(c) is
//! remembered with a half-life of one tick, so that a wait that ends finds those who caused it.
//!
//! # What it costs
//!
//! A(c) changes whenever anybody's weight does, yet each event touches one tenant only: with G =
//! integral of 1 / (weight of all in service), A(c) grows by (weight of c) * (change of G) while
//! c's own weight stands still, and is brought up to date when it changes. A tick looks at the
//! tenants that were active, divides among the [`TOP_PARTIES`] greatest victims and culprits only,
//! and books the rest as "other". The pairs live in a table of [`TOP_PAIRS`] with eviction by score
//! (`PairTable`).

mod elasticity;
mod pairs;
mod stalls;

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::{Cost, Ticket};
use evenkeel_core::time::{Nanos, Span};

use crate::report::Culprit;
use elasticity::{Elasticity, Means};
pub(crate) use pairs::PairTable;
use stalls::Stalls;

/// Pairs of tenants that a report names at most.
pub const TOP_PAIRS: usize = 64;
/// Victims, and culprits, that a tick of one server tells apart.
pub const TOP_PARTIES: usize = 8;
/// How often waits are divided among culprits, while there are inputs.
pub const TICK: Span = Span::from_millis(100);

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
    /// Weight of everything in service.
    weight_in_service: u64,
    /// Integral of 1 / `weight_in_service` since the last tick, but for stalls.
    integral: f64,
    updated: Nanos,
    stalls: Stalls,
    elasticity: Elasticity,
    /// Stalls up to `updated`.
    stalled: Span,
    /// Scratch of a tick.
    victims: Vec<Victim>,
    culprits: Vec<(f64, TenantId)>,
}

/// A unit with the backend.
#[derive(Clone, Copy, Debug, Default)]
struct InService {
    /// What it takes of the device beside others.
    weight: u64,
    /// What all take that were there when it was sent, itself included.
    weight_all: u64,
    /// Stalls in all when it was sent.
    stalled: Span,
}

/// What a tenant waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// For whatever.
    pub(crate) in_all: Span,
    /// The part of it in which the device did nothing for anybody.
    pub(crate) in_stalls: Span,
}

/// A tenant that waited.
#[derive(Clone, Copy, Debug)]
struct Victim {
    tenant: TenantId,
    wait_ns: u64,
    /// The part of it that was spent in stalls.
    stalled_ns: u64,
    held_ns: f64,
    held_before_itself_ns: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    is_active: bool,
    queued: u32,
    /// Units that wait for slots of a slow export.
    parked: u32,
    updated: Nanos,
    /// Waiting time since the last tick, not yet divided. Signed, for the limit's part is taken off
    /// at ticks only.
    waited_ns: i64,
    /// The part of it that was spent in stalls.
    stalled_ns: u64,
    /// Stalls in all, as of `updated`.
    stalled_seen: Span,
    /// What was waited for slow exports in all.
    waited_for_slots: Span,
    throttled_seen: Span,
    in_service: u32,
    weight_in_service: u64,
    integral_seen: f64,
    /// A(c), in nanoseconds.
    held_ns: f64,
    /// The part of it that kept other units of the same tenant waiting.
    held_before_itself_ns: f64,
    /// What its requests take with the server.
    means: Means,
}

impl Ledger {
    /// A unit was queued at the gate.
    pub(crate) fn queued(&mut self, now: Nanos, tenant: TenantId) {
        self.touch(now, tenant).queued += 1;
    }

    /// A queued unit was taken back.
    pub(crate) fn withdrawn(&mut self, now: Nanos, tenant: TenantId) {
        self.touch(now, tenant).queued -= 1;
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
        self.elasticity.restart();
    }

    /// A queued unit went to the backend, of which it takes so much beside others.
    pub(crate) fn dispatched(&mut self, now: Nanos, ticket: &Ticket, weight: Cost) {
        let weight = weight.0.max(1);
        let row = self.touch(now, ticket.tenant);
        row.queued -= 1;
        row.in_service += 1;
        row.weight_in_service += weight;
        self.weight_in_service += weight;
        self.stalls.started(now);
        let slot = ticket.slot as usize;
        if self.units.len() <= slot {
            self.units.resize(slot + 1, InService::default());
        }
        let weight_all = self.weight_in_service;
        self.units[slot] = InService { weight, weight_all, stalled: self.stalled };
    }

    /// The backend finished a unit.
    pub(crate) fn served(&mut self, now: Nanos, ticket: &Ticket, device_time: Span) {
        let InService { weight, weight_all, stalled } = self.units[ticket.slot as usize];
        let stalled_ns = self.stalls.at(now).0 - stalled.0;
        let served_ns = device_time.0.saturating_sub(stalled_ns);
        let alone_ns = self.elasticity.alone_ns(weight, weight_all, served_ns);
        let alone_ns = alone_ns.unwrap_or_default().max(ticket.cost.0);
        let wait_ns = device_time.0.saturating_sub(alone_ns);
        self.ended(now, ticket);
        let row = &mut self.rows[ticket.tenant.index()];
        self.elasticity.add(now, &mut row.means, weight_all, served_ns);
        row.waited_ns += signed(wait_ns);
        row.stalled_ns += stalled_ns.min(wait_ns);
    }

    /// The backend finished a unit that it had not answered for long.
    pub(crate) fn served_late(&mut self, now: Nanos, ticket: &Ticket, device_time: Span) {
        let wait = Span(device_time.0.saturating_sub(ticket.cost.0));
        self.ended(now, ticket).waited_for_slots += wait;
    }

    fn ended(&mut self, now: Nanos, ticket: &Ticket) -> &mut Row {
        self.advance(now);
        self.stalls.ended(now);
        let InService { weight, .. } = self.units[ticket.slot as usize];
        self.weight_in_service -= weight;
        let row = self.touch(now, ticket.tenant);
        row.in_service -= 1;
        row.weight_in_service -= weight;
        row
    }

    /// Request-time that a tenant waited for slots of slow exports, in all.
    pub(crate) fn waited_for_slots(&self, now: Nanos, tenant: TenantId) -> Span {
        let row = self.rows.get(tenant.index()).copied().unwrap_or_default();
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
        }
        row.update(now, self.integral, self.stalled);
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
            self.integral += length_ns as f64 / self.weight_in_service as f64;
        }
        self.updated = now;
    }

    /// Divides what was waited since the last tick. `throttled` tells the request-time that a
    /// tenant's own limit held here in all; `waited` hears of each tenant's wait. O(active
    /// tenants).
    pub(crate) fn tick(
        &mut self,
        now: Nanos,
        throttled: impl Fn(TenantId) -> Span,
        mut waited: impl FnMut(TenantId, Wait),
        pairs: &mut PairTable,
    ) {
        self.advance(now);
        self.victims.clear();
        self.culprits.clear();
        for &tenant in &self.active {
            let row = &mut self.rows[tenant.index()];
            row.update(now, self.integral, self.stalled);
            let (wait_ns, stalled_ns) = row.take_wait(throttled(tenant));
            if wait_ns > 0 {
                waited(tenant, Wait { in_all: Span(wait_ns), in_stalls: Span(stalled_ns) });
                self.victims.push(Victim {
                    tenant,
                    wait_ns,
                    stalled_ns,
                    held_ns: row.held_ns,
                    held_before_itself_ns: row.held_before_itself_ns,
                });
            }
            if row.held_ns > 0.0 {
                self.culprits.push((row.held_ns, tenant));
            }
        }
        self.elasticity.tick();
        self.divide(pairs);
        self.forget();
    }

    fn divide(&mut self, pairs: &mut PairTable) {
        let held_by_all_ns: f64 = self.culprits.iter().map(|&(held_ns, _)| held_ns).sum();
        keep_greatest(&mut self.culprits, |one, other| other.0.total_cmp(&one.0));
        let rest = keep_greatest(&mut self.victims, |one, other| other.wait_ns.cmp(&one.wait_ns));
        pairs.add_other(rest.iter().map(|victim| victim.wait_ns).sum());
        self.victims.truncate(TOP_PARTIES);
        self.culprits.truncate(TOP_PARTIES);
        for victim in &self.victims {
            victim.blame(&self.culprits, held_by_all_ns, pairs);
        }
    }

    /// Begins the next tick, with half of what was held, and without those who are gone.
    fn forget(&mut self) {
        self.integral = 0.0;
        let rows = &mut self.rows;
        self.active.retain(|tenant| {
            let row = &mut rows[tenant.index()];
            row.integral_seen = 0.0;
            row.held_ns /= 2.0;
            row.held_before_itself_ns /= 2.0;
            let units = row.queued + row.parked + row.in_service;
            let is_gone = units == 0 && row.waited_ns == 0;
            row.is_active = !is_gone || row.held_ns >= NEGLIGIBLE_HELD_NS;
            if !row.is_active {
                row.held_ns = 0.0;
                row.held_before_itself_ns = 0.0;
            }
            row.is_active
        });
    }
}

impl Victim {
    fn blame(&self, culprits: &[(f64, TenantId)], held_by_all_ns: f64, pairs: &mut PairTable) {
        pairs.add(self.tenant, Culprit::Device, self.stalled_ns);
        let wait_ns = self.wait_ns - self.stalled_ns;
        let whole_ns = held_by_all_ns - self.held_ns + self.held_before_itself_ns;
        if whole_ns < NEGLIGIBLE_HELD_NS {
            return pairs.add(self.tenant, Culprit::Device, wait_ns);
        }
        // Cumulative rounding: whatever the fractions, the parts add up to the whole.
        let (mut held_ns, mut blamed_ns) = (0.0, 0);
        for &(part_ns, culprit) in culprits {
            let is_self = culprit == self.tenant;
            held_ns += if is_self { self.held_before_itself_ns } else { part_ns };
            let until_ns = part_of(wait_ns, held_ns / whole_ns);
            pairs.add(self.tenant, Culprit::Tenant(culprit), until_ns.saturating_sub(blamed_ns));
            blamed_ns = until_ns.max(blamed_ns);
        }
        pairs.add_other(wait_ns - blamed_ns);
    }
}

impl Row {
    fn update(&mut self, now: Nanos, integral: f64, stalled: Span) {
        let passed_ns = now.since(self.updated).0;
        let queued = u64::from(self.queued);
        self.waited_ns += signed(passed_ns.saturating_mul(queued));
        self.stalled_ns += (stalled.0 - self.stalled_seen.0).saturating_mul(queued);
        self.stalled_seen = stalled;
        self.waited_for_slots += Span(passed_ns.saturating_mul(u64::from(self.parked)));
        self.updated = now;
        if self.in_service > 0 && integral > self.integral_seen {
            let held_ns = self.weight_in_service as f64 * (integral - self.integral_seen);
            let units = f64::from(self.queued + self.in_service);
            self.held_ns += held_ns;
            self.held_before_itself_ns += held_ns * (units - 1.0) / units;
        }
        self.integral_seen = integral;
    }

    /// What is to be divided now, and the part of it that was spent in stalls; a negative rest
    /// waits for the next tick.
    fn take_wait(&mut self, throttled: Span) -> (u64, u64) {
        self.waited_ns -= signed(throttled.0 - self.throttled_seen.0);
        self.throttled_seen = throttled;
        let wait_ns = u64::try_from(self.waited_ns).unwrap_or(0);
        self.waited_ns = self.waited_ns.min(0);
        let stalled_ns = std::mem::take(&mut self.stalled_ns).min(wait_ns);
        (wait_ns, stalled_ns)
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
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
mod tests {
    use evenkeel_core::ticket::{Cost, Kind};

    use super::*;

    const MS: u64 = 1_000_000;

    fn ticket(tenant: u32, cost_ns: u64) -> Ticket {
        Ticket {
            tenant: TenantId(tenant),
            kind: Kind::Read,
            slot: tenant,
            size_bytes: 4096,
            cost: Cost(cost_ns),
            cost_elsewhere: Cost(0),
        }
    }

    /// Ticks, and returns who waited.
    fn tick(ledger: &mut Ledger, at_ms: u64, pairs: &mut PairTable) -> Vec<(u32, u64)> {
        let mut waits = Vec::new();
        let waited = |tenant: TenantId, wait: Wait| waits.push((tenant.0, wait.in_all.0 / MS));
        ledger.tick(Nanos(at_ms * MS), |_| Span::ZERO, waited, pairs);
        waits
    }

    /// Pairs of tenants, and what each waited.
    fn named(pairs: &PairTable) -> Vec<(u32, u32, u64)> {
        let all = pairs.report().0;
        let named = all.iter().filter_map(|pair| match pair.culprit {
            Culprit::Tenant(culprit) => Some((pair.victim.0, culprit.0, pair.waited.0 / MS)),
            Culprit::Device => None,
        });
        named.collect()
    }

    /// What a tenant waited for the device itself.
    fn for_device(pairs: &PairTable, victim: u32) -> u64 {
        let all = pairs.report().0;
        let is_it = |pair: &&crate::report::Interference| {
            pair.victim.0 == victim && pair.culprit == Culprit::Device
        };
        all.iter().find(is_it).map_or(0, |pair| pair.waited.0 / MS)
    }

    fn dispatch(ledger: &mut Ledger, at: Nanos, ticket: &Ticket) {
        ledger.dispatched(at, ticket, ticket.cost);
    }

    #[test]
    fn a_wait_is_divided_by_who_held_the_server() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        for tenant in [0, 1] {
            ledger.queued(Nanos(0), TenantId(tenant));
            dispatch(&mut ledger, Nanos(0), &ticket(tenant, [MS, 3 * MS][tenant as usize]));
        }
        ledger.queued(Nanos(0), TenantId(0));
        assert_eq!(tick(&mut ledger, 7, &mut pairs), [(0, 7)]);
        assert_eq!(named(&pairs), [(0, 1, 6), (0, 0, 1)]);
    }

    #[test]
    fn waits_for_a_slow_export_of_ones_own_are_nobody_elses() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        for tenant in [0, 1] {
            ledger.queued(Nanos(0), TenantId(tenant));
            dispatch(&mut ledger, Nanos(0), &ticket(tenant, MS));
        }
        ledger.queued(Nanos(0), TenantId(0));
        ledger.parked(Nanos(0), TenantId(0));
        assert_eq!(ledger.waited_for_slots(Nanos(3 * MS), TenantId(0)), Span(3 * MS));
        ledger.unparked(Nanos(5 * MS), TenantId(0));
        ledger.served_late(Nanos(5 * MS), &ticket(0, MS), Span(5 * MS));
        assert_eq!(ledger.waited_for_slots(Nanos(6 * MS), TenantId(0)), Span(9 * MS));
        assert_eq!(tick(&mut ledger, 6, &mut pairs), [(0, 1)]);
        assert_eq!(ledger.waited_for_slots(Nanos(6 * MS), TenantId(1)), Span::ZERO);
    }

    #[test]
    fn an_idle_server_makes_nobody_wait() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        ledger.queued(Nanos(0), TenantId(0));
        dispatch(&mut ledger, Nanos(0), &ticket(0, 5 * MS));
        ledger.served(Nanos(5 * MS), &ticket(0, 5 * MS), Span(5 * MS));
        assert_eq!(tick(&mut ledger, 100, &mut pairs), []);
    }

    #[test]
    fn a_wait_in_the_device_counts_when_it_ends_and_finds_its_culprit() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        for (tenant, cost_ms) in [(0, 1), (1, 9)] {
            ledger.queued(Nanos(0), TenantId(tenant));
            dispatch(&mut ledger, Nanos(0), &ticket(tenant, cost_ms * MS));
        }
        ledger.served(Nanos(9 * MS), &ticket(1, 9 * MS), Span(9 * MS));
        assert_eq!(tick(&mut ledger, 9, &mut pairs), []);
        ledger.served(Nanos(10 * MS), &ticket(0, MS), Span(10 * MS));
        assert_eq!(tick(&mut ledger, 10, &mut pairs), [(0, 9)]);
        assert_eq!(named(&pairs), [(0, 1, 9)]);
    }

    #[test]
    fn time_held_by_the_own_limit_is_no_interference() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        ledger.queued(Nanos(0), TenantId(0));
        let mut total = Span::ZERO;
        let throttled = |_| Span(30 * MS);
        ledger.tick(Nanos(40 * MS), throttled, |_, wait| total += wait.in_all, &mut pairs);
        ledger.tick(Nanos(50 * MS), throttled, |_, wait| total += wait.in_all, &mut pairs);
        assert_eq!(total, Span(20 * MS));
    }

    #[test]
    fn what_was_learned_weighs_whatever_the_policy_says_that_requests_cost() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        for tenant in [0, 1] {
            ledger.queued(Nanos(0), TenantId(tenant));
            ledger.dispatched(Nanos(0), &ticket(tenant, MS), Cost([1, 9][tenant as usize]));
        }
        for _ in 0..10 {
            ledger.queued(Nanos(0), TenantId(0));
        }
        tick(&mut ledger, 10, &mut pairs);
        let by = named(&pairs);
        assert_eq!(by.iter().map(|(.., waited)| waited).sum::<u64>(), 99, "{by:?}");
        assert_eq!((by[0].0, by[0].1, by[0].2), (0, 1, 90), "{by:?}");
    }

    #[test]
    fn a_stall_is_the_devices_whoever_has_most_there() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        let mut at = 0;
        let mut serve = |ledger: &mut Ledger, length_ms: u64| {
            for tenant in [0, 1] {
                ledger.queued(Nanos(at * MS), TenantId(tenant));
                dispatch(ledger, Nanos(at * MS), &ticket(tenant, MS));
            }
            at += length_ms;
            for tenant in [0, 1] {
                ledger.served(Nanos(at * MS), &ticket(tenant, MS), Span(length_ms * MS));
            }
            at
        };
        for _ in 0..100 {
            serve(&mut ledger, 2);
        }
        tick(&mut ledger, 200, &mut pairs);
        assert_eq!(for_device(&pairs, 0) + for_device(&pairs, 1), 0);
        let before = named(&pairs).iter().map(|(.., waited)| waited).sum::<u64>();
        let at = serve(&mut ledger, 1000);
        let waits = tick(&mut ledger, at, &mut pairs);
        assert_eq!(waits, [(0, 999), (1, 999)]);
        for tenant in [0, 1] {
            assert!(for_device(&pairs, tenant) >= 980, "{}", for_device(&pairs, tenant));
        }
        let blamed = named(&pairs).iter().map(|(.., waited)| waited).sum::<u64>() - before;
        assert!(blamed <= 38, "{blamed}");
    }

    #[test]
    fn who_has_the_server_for_itself_waits_for_the_device() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        ledger.queued(Nanos(0), TenantId(0));
        dispatch(&mut ledger, Nanos(0), &ticket(0, MS));
        ledger.served(Nanos(4 * MS), &ticket(0, MS), Span(4 * MS));
        assert_eq!(tick(&mut ledger, 4, &mut pairs), [(0, 3)]);
        assert_eq!((for_device(&pairs, 0), named(&pairs).len()), (3, 0));
    }
}
