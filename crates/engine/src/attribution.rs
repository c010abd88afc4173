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
//! In observe mode all of it happens in the device, in enforce mode most of it at the gate, and the
//! sum means the same. Under the cost model "1 per request" no idle time is known, and all the time
//! with the backend counts. An optimistic model overstates waits and a pessimistic one hides them;
//! how a wait divides over its culprits depends on ratios of costs only.
//!
//! # Who is to blame
//!
//! Whoever held the server meanwhile: tenant c's part of it at an instant is its cost with the
//! backend over everybody's. Let A(c) be the integral of that part over time. At each tick (every
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
//! Who had the server for itself and waited all the same has nobody else to blame: (v, v).
//!
//! Nobody else is blamed for what v waits for an export of its own that is slow or hangs
//! (`crate::slots`): such waits are counted apart, and not divided.
//!
//! The queue's part of W(v) is gathered as it passes, the device's part when the unit ends; A(c) is
//! remembered with a half-life of one tick, so that a wait that ends finds those who caused it.
//!
//! # What it costs
//!
//! A(c) changes whenever anybody's cost does, yet each event touches one tenant only: with G =
//! integral of 1 / (cost of all in service), A(c) grows by (cost of c) * (change of G) while c's
//! own cost stands still, and is brought up to date when it changes. A tick looks at the tenants
//! that were active, divides among the [`TOP_PARTIES`] greatest victims and culprits only, and
//! books the rest as "other". The pairs live in a table of [`TOP_PAIRS`] with eviction by score
//! (`PairTable`).

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};

use crate::report::Interference;

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
    /// Cost of everything in service.
    cost_in_service: u64,
    /// Integral of 1 / `cost_in_service` since the last tick.
    integral: f64,
    updated: Nanos,
    /// Scratch of a tick.
    victims: Vec<Victim>,
    culprits: Vec<(f64, TenantId)>,
}

/// A tenant that waited.
#[derive(Clone, Copy, Debug)]
struct Victim {
    tenant: TenantId,
    wait_ns: u64,
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
    /// What was waited for slow exports in all.
    waited_for_slots: Span,
    throttled_seen: Span,
    in_service: u32,
    cost_in_service: u64,
    integral_seen: f64,
    /// A(c), in nanoseconds.
    held_ns: f64,
    /// The part of it that kept other units of the same tenant waiting.
    held_before_itself_ns: f64,
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

    /// A queued unit went to the backend.
    pub(crate) fn dispatched(&mut self, now: Nanos, ticket: &Ticket) {
        let row = self.touch(now, ticket.tenant);
        row.queued -= 1;
        row.in_service += 1;
        row.cost_in_service += ticket.cost.0;
        self.cost_in_service += ticket.cost.0;
    }

    /// The backend finished a unit.
    pub(crate) fn served(&mut self, now: Nanos, ticket: &Ticket, device_time: Span) {
        let wait_ns = device_time.0.saturating_sub(ticket.cost.0);
        self.ended(now, ticket).waited_ns += signed(wait_ns);
    }

    /// The backend finished a unit that it had not answered for long.
    pub(crate) fn served_late(&mut self, now: Nanos, ticket: &Ticket, device_time: Span) {
        let wait = Span(device_time.0.saturating_sub(ticket.cost.0));
        self.ended(now, ticket).waited_for_slots += wait;
    }

    fn ended(&mut self, now: Nanos, ticket: &Ticket) -> &mut Row {
        self.advance(now);
        self.cost_in_service -= ticket.cost.0;
        let row = self.touch(now, ticket.tenant);
        row.in_service -= 1;
        row.cost_in_service -= ticket.cost.0;
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
        row.update(now, self.integral);
        row
    }

    fn advance(&mut self, now: Nanos) {
        // Most inputs come in bunches at one instant.
        if now == self.updated {
            return;
        }
        if self.cost_in_service > 0 {
            self.integral += now.since(self.updated).0 as f64 / self.cost_in_service as f64;
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
        mut waited: impl FnMut(TenantId, Span),
        pairs: &mut PairTable,
    ) {
        self.advance(now);
        self.victims.clear();
        self.culprits.clear();
        for &tenant in &self.active {
            let row = &mut self.rows[tenant.index()];
            row.update(now, self.integral);
            let wait_ns = row.take_wait(throttled(tenant));
            if wait_ns > 0 {
                waited(tenant, Span(wait_ns));
                self.victims.push(Victim {
                    tenant,
                    wait_ns,
                    held_ns: row.held_ns,
                    held_before_itself_ns: row.held_before_itself_ns,
                });
            }
            if row.held_ns > 0.0 {
                self.culprits.push((row.held_ns, tenant));
            }
        }
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
        let whole_ns = held_by_all_ns - self.held_ns + self.held_before_itself_ns;
        if whole_ns < NEGLIGIBLE_HELD_NS {
            return pairs.add(self.tenant, self.tenant, self.wait_ns);
        }
        // Cumulative rounding: whatever the fractions, the parts add up to the whole.
        let (mut held_ns, mut blamed_ns) = (0.0, 0);
        for &(part_ns, culprit) in culprits {
            let is_self = culprit == self.tenant;
            held_ns += if is_self { self.held_before_itself_ns } else { part_ns };
            let until_ns = part_of(self.wait_ns, held_ns / whole_ns);
            pairs.add(self.tenant, culprit, until_ns.saturating_sub(blamed_ns));
            blamed_ns = until_ns.max(blamed_ns);
        }
        pairs.add_other(self.wait_ns - blamed_ns);
    }
}

impl Row {
    fn update(&mut self, now: Nanos, integral: f64) {
        let passed_ns = now.since(self.updated).0;
        self.waited_ns += signed(passed_ns.saturating_mul(u64::from(self.queued)));
        self.waited_for_slots += Span(passed_ns.saturating_mul(u64::from(self.parked)));
        self.updated = now;
        if self.in_service > 0 && integral > self.integral_seen {
            let held_ns = self.cost_in_service as f64 * (integral - self.integral_seen);
            let units = f64::from(self.queued + self.in_service);
            self.held_ns += held_ns;
            self.held_before_itself_ns += held_ns * (units - 1.0) / units;
        }
        self.integral_seen = integral;
    }

    /// What is to be divided now; a negative rest waits for the next tick.
    fn take_wait(&mut self, throttled: Span) -> u64 {
        self.waited_ns -= signed(throttled.0 - self.throttled_seen.0);
        self.throttled_seen = throttled;
        let wait_ns = u64::try_from(self.waited_ns).unwrap_or(0);
        self.waited_ns = self.waited_ns.min(0);
        wait_ns
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

/// The pairs that matter, in a table of fixed size (the Space-Saving sketch of Metwally, Agrawal
/// and El Abbadi, ICDT 2005).
///
/// A pair that the full table does not hold takes the place of the one with the least score, and
/// inherits that score: a pair that gathers more than its fair part of all waits is therefore never
/// missed. The score only decides who stays. Reported is the wait since the pair came in, which is
/// exact; what a pair had when it fell out is added to "other", and nothing is lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct PairTable {
    pairs: Vec<Pair>,
    other_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    victim: TenantId,
    culprit: TenantId,
    waited_ns: u64,
    score: u64,
}

impl PairTable {
    fn add(&mut self, victim: TenantId, culprit: TenantId, waited_ns: u64) {
        if waited_ns == 0 {
            return;
        }
        let is_same = |pair: &&mut Pair| pair.victim == victim && pair.culprit == culprit;
        if let Some(pair) = self.pairs.iter_mut().find(is_same) {
            pair.waited_ns += waited_ns;
            pair.score += waited_ns;
        } else if self.pairs.len() < TOP_PAIRS {
            self.pairs.push(Pair { victim, culprit, waited_ns, score: waited_ns });
        } else {
            let least = self.pairs.iter_mut().min_by_key(|pair| pair.score);
            let least = least.expect("a full table is not empty");
            self.other_ns += least.waited_ns;
            *least = Pair { victim, culprit, waited_ns, score: least.score + waited_ns };
        }
    }

    fn add_other(&mut self, waited_ns: u64) {
        self.other_ns += waited_ns;
    }

    /// The pairs, most waited first, and the wait that belongs to none of them.
    pub(crate) fn report(&self) -> (Vec<Interference>, Span) {
        let mut pairs: Vec<_> = self
            .pairs
            .iter()
            .map(|pair| Interference {
                victim: pair.victim,
                culprit: pair.culprit,
                waited: Span(pair.waited_ns),
            })
            .collect();
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.waited), pair.victim, pair.culprit));
        (pairs, Span(self.other_ns))
    }
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
            slot: 0,
            size_bytes: 4096,
            cost: Cost(cost_ns),
            cost_elsewhere: Cost(0),
        }
    }

    /// Ticks, and returns who waited.
    fn tick(ledger: &mut Ledger, at_ms: u64, pairs: &mut PairTable) -> Vec<(u32, u64)> {
        let mut waits = Vec::new();
        let waited = |tenant: TenantId, wait: Span| waits.push((tenant.0, wait.0 / MS));
        ledger.tick(Nanos(at_ms * MS), |_| Span::ZERO, waited, pairs);
        waits
    }

    fn named(pairs: &PairTable) -> Vec<(u32, u32, u64)> {
        let pairs = pairs.report().0;
        pairs.iter().map(|pair| (pair.victim.0, pair.culprit.0, pair.waited.0 / MS)).collect()
    }

    #[test]
    fn a_wait_is_divided_by_who_held_the_server() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        for tenant in [0, 1] {
            ledger.queued(Nanos(0), TenantId(tenant));
            ledger.dispatched(Nanos(0), &ticket(tenant, [MS, 3 * MS][tenant as usize]));
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
            ledger.dispatched(Nanos(0), &ticket(tenant, MS));
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
        ledger.dispatched(Nanos(0), &ticket(0, 5 * MS));
        ledger.served(Nanos(5 * MS), &ticket(0, 5 * MS), Span(5 * MS));
        assert_eq!(tick(&mut ledger, 100, &mut pairs), []);
    }

    #[test]
    fn a_wait_in_the_device_counts_when_it_ends_and_finds_its_culprit() {
        let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
        for (tenant, cost_ms) in [(0, 1), (1, 9)] {
            ledger.queued(Nanos(0), TenantId(tenant));
            ledger.dispatched(Nanos(0), &ticket(tenant, cost_ms * MS));
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
        ledger.tick(Nanos(40 * MS), throttled, |_, wait| total += wait, &mut pairs);
        ledger.tick(Nanos(50 * MS), throttled, |_, wait| total += wait, &mut pairs);
        assert_eq!(total, Span(20 * MS));
    }

    #[test]
    fn whatever_falls_off_the_table_goes_to_other() {
        let mut pairs = PairTable::default();
        let mut sum = 0;
        for round in 0..1000_u32 {
            pairs.add(TenantId(round % 97), TenantId(round % 13), u64::from(round));
            pairs.add(TenantId(1000), TenantId(1001), 500);
            sum += u64::from(round) + 500;
        }
        let (top, other) = pairs.report();
        assert_eq!(top.len(), TOP_PAIRS);
        assert_eq!(top.iter().map(|pair| pair.waited.0).sum::<u64>() + other.0, sum);
        assert_eq!((top[0].victim.0, top[0].waited), (1000, Span(500_000)), "never fell out");
    }
}
