//! Those whose time is over: each tenant's oldest first, at half its share at least, whoever else
//! is in time.
//!
//! An order by deadlines serves first whom it can still please. Left to that, whoever is late waits
//! for as long as others are in time, which may be for ever. So half of the device is kept for the
//! late, by shares. It is a fair queue at half the speed of what the device really does:
//!
//! ```text
//! V  +=  cost / weights of all who wait        at every dispatch, whoever's it is
//! S  +=  2 cost / weight of the tenant         when its oldest late request goes
//!
//! S < V    the tenant has had less than half its share: it is served before all in time
//! ```
//!
//! Two tenants of equal weight, one in time and one late, with requests of cost 1: V gains 1/2 with
//! each dispatch, S of the late one gains 2, so that it goes at every fourth.
//!
//! A request may be late before its tenant is owed anything: it cannot be met any more, and has not
//! waited for its goal yet. It is then served when nobody is in time. Who is owed something starts
//! at V, as in start-time fair queuing. Where nobody is owed anything and nobody is in time, the
//! late share all by weight, by start-time tags of their own. Nobody runs up a debt by that: S is
//! then at most a request ahead of V. Nor is anybody owed more for it: whoever comes in time is
//! served at once.
//!
//! **The bound.** While a tenant has late requests it gets half of `cost * weight / weights of all
//! who wait`, less one of its own requests and half of one of everybody's: the shares of the late
//! add up to half of the device at most, so that the queue of those with S < V runs dry (the
//! argument of Goyal, Vin and Cheng 1997, theorem 2, with a server of twice the speed needed).
//!
//! **Cost.** O(log tenants), but for what becomes late before an older request of its tenant: that
//! is O(those it is put before), as is [`Late::remove`]. Nothing allocates once as much was late as
//! ever will be.

use std::collections::VecDeque;

use super::heap::IndexedHeap;
use super::key::Key;
use super::tag::{Scale, Tag};
use crate::id::TenantId;
use crate::ticket::Cost;
use crate::time::{Nanos, Span};

/// The late requests of all tenants, and how many wait in all. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Late<E> {
    tenants: Vec<Tenant<E>>,
    /// Tenants whose oldest late request has waited for its time, by S.
    owed: IndexedHeap<Key>,
    /// The others with late ones, by when theirs will have; and how far that has been looked at.
    patient: IndexedHeap<Nanos>,
    now: Nanos,
    /// V.
    virtual_time: Tag,
    /// The same tenants by whose turn it is where nobody is owed anything.
    turns: IndexedHeap<Key>,
    turn_time: Tag,
    /// Weights of the tenants that have something waiting, late or not.
    weights_milli: u64,
    /// Weights of those of them that are owed something.
    overdue_milli: u64,
    /// Late requests.
    length: usize,
    /// Ties go to whoever became late first.
    pushes: u64,
}

#[derive(Clone, Debug)]
struct Tenant<E> {
    /// S, and what turns costs into it.
    owed: Tag,
    owed_scale: Scale,
    /// The start tag of its next turn, and what turns costs into that.
    turn: Tag,
    turn_scale: Scale,
    /// Requests that wait, late or not.
    waiting: u32,
    /// Oldest first.
    late: VecDeque<Entry<E>>,
    pushed: u64,
    /// Whether the oldest of them has waited for its time.
    is_overdue: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    /// The order of arrival.
    age: u64,
    /// From when on its tenant is owed service for it.
    owed_from: Nanos,
    cost: Cost,
    what: E,
}

impl<E> Tenant<E> {
    fn new(weight_milli: u32) -> Self {
        Self {
            owed: Tag(0),
            owed_scale: Scale::new(weight_milli),
            turn: Tag(0),
            turn_scale: Scale::new(weight_milli),
            waiting: 0,
            late: VecDeque::new(),
            pushed: 0,
            is_overdue: false,
        }
    }

    fn weight_milli(&self) -> u32 {
        self.turn_scale.weight_milli()
    }
}

impl<E> Default for Late<E> {
    fn default() -> Self {
        Self {
            tenants: Vec::new(),
            owed: IndexedHeap::default(),
            patient: IndexedHeap::default(),
            now: Nanos::ZERO,
            virtual_time: Tag(0),
            turns: IndexedHeap::default(),
            turn_time: Tag(0),
            weights_milli: 0,
            overdue_milli: 0,
            length: 0,
            pushes: 0,
        }
    }
}

impl<E: Copy> Late<E> {
    /// Adds a tenant, or changes its weight. What it is ahead is service that it had, worth as much
    /// under a greater weight.
    pub(crate) fn configure(&mut self, tenant: TenantId, weight_milli: u32) {
        let count = self.tenants.len().max(tenant.index() + 1);
        self.tenants.resize_with(count, || Tenant::new(weight_milli));
        self.owed.reserve_ids(count);
        self.patient.reserve_ids(count);
        self.turns.reserve_ids(count);
        let row = &mut self.tenants[tenant.index()];
        let (before, after) = (row.weight_milli(), weight_milli.max(1));
        (row.owed_scale, row.turn_scale) = (Scale::new(after), Scale::new(after));
        if row.waiting > 0 {
            self.weights_milli = self.weights_milli - u64::from(before) + u64::from(after);
        }
        if row.is_overdue {
            self.overdue_milli = self.overdue_milli - u64::from(before) + u64::from(after);
        }
        let rescaled = |start: Tag, time: Tag| {
            let ahead = start - time;
            start.min(time) + ahead.rescaled(before, after).min(ahead)
        };
        row.owed = rescaled(row.owed, self.virtual_time);
        row.turn = rescaled(row.turn, self.turn_time);
        self.place(tenant);
    }

    /// Puts a tenant with late ones where its tags belong, or takes it out after its last.
    fn place(&mut self, tenant: TenantId) {
        let row = &mut self.tenants[tenant.index()];
        let oldest = row.late.front().map(|entry| entry.owed_from);
        let is_overdue = oldest.is_some_and(|from| from <= self.now);
        let weight_milli = u64::from(row.weight_milli());
        if is_overdue && !row.is_overdue {
            row.owed = row.owed.max(self.virtual_time);
            self.overdue_milli += weight_milli;
        } else if row.is_overdue && !is_overdue {
            self.overdue_milli -= weight_milli;
        }
        row.is_overdue = is_overdue;
        match oldest {
            Some(from) if !is_overdue => {
                self.owed.remove(tenant.0);
                self.patient.set(tenant.0, from);
            }
            Some(_) => {
                self.patient.remove(tenant.0);
                self.owed.set(tenant.0, Key::new(row.owed, row.pushed));
            }
            None => {
                self.owed.remove(tenant.0);
                self.patient.remove(tenant.0);
                return self.turns.remove(tenant.0);
            }
        }
        self.turns.set(tenant.0, Key::new(row.turn, row.pushed));
    }

    /// Time has passed: more may have waited for their time.
    pub(crate) fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while let Some((_, tenant)) = self.patient.peek().filter(|(from, _)| *from <= now) {
            self.place(TenantId(tenant));
        }
    }

    /// A request of the tenant waits from now on.
    pub(crate) fn begin_wait(&mut self, tenant: TenantId) {
        let row = &mut self.tenants[tenant.index()];
        row.waiting += 1;
        if row.waiting == 1 {
            self.weights_milli += u64::from(row.weight_milli());
        }
    }

    /// One that waited does no longer, whatever became of it.
    pub(crate) fn end_wait(&mut self, tenant: TenantId) {
        let row = &mut self.tenants[tenant.index()];
        row.waiting -= 1;
        if row.waiting == 0 {
            self.weights_milli -= u64::from(row.weight_milli());
        }
    }

    /// One that waits is late from now on, and its tenant is owed service for it `from` then on. A
    /// smaller `age` is older.
    pub(crate) fn push(
        &mut self,
        tenant: TenantId,
        (age, owed_from): (u64, Nanos),
        cost: Cost,
        what: E,
    ) {
        self.pushes += 1;
        self.length += 1;
        let row = &mut self.tenants[tenant.index()];
        // Nearly always they become late in the order in which they came.
        let newer = row.late.iter().rev().take_while(|entry| entry.age > age).count();
        row.late.insert(row.late.len() - newer, Entry { age, owed_from, cost, what });
        if row.late.len() == 1 {
            row.turn = row.turn.max(self.turn_time);
            row.pushed = self.pushes;
        }
        if newer + 1 == row.late.len() {
            self.place(tenant);
        }
    }

    /// How long those in time have to wait for what the device does in so long, while those that
    /// are owed something have the half of their shares.
    pub(crate) fn stretch(&self, time: Span) -> Span {
        let all = u128::from(self.weights_milli) * 2;
        let left = all - u128::from(self.overdue_milli);
        let stretched_ns = u128::from(time.0) * all / left.max(1);
        Span(u64::try_from(stretched_ns).unwrap_or(u64::MAX))
    }

    /// Whose late request goes first: who is owed most, or else whose turn it is.
    fn first(&self) -> Option<u32> {
        let owed = self.owed.peek().map(|(_, tenant)| tenant);
        let (_, next) = self.turns.peek()?;
        Some(owed.filter(|owed| self.is_owed(*owed)).unwrap_or(next))
    }

    /// Whether a tenant that waits for longer than it was to has had less than half its share.
    fn is_owed(&self, tenant: u32) -> bool {
        self.tenants[tenant as usize].owed < self.virtual_time
    }

    /// The late request that goes first.
    pub(crate) fn head(&self) -> Option<&E> {
        let tenant = self.first()?;
        self.tenants[tenant as usize].late.front().map(|entry| &entry.what)
    }

    /// Whether this holds of any tenant's oldest late request. O(tenants).
    pub(crate) fn any_oldest(&self, holds: impl Fn(&E) -> bool) -> bool {
        self.turns.ids().any(|tenant| {
            let oldest = self.tenants[tenant as usize].late.front();
            oldest.is_some_and(|entry| holds(&entry.what))
        })
    }

    /// Whether it is served before those in time: its tenant has had less than half its share.
    pub(crate) fn is_due(&self) -> bool {
        self.owed.peek().is_some_and(|(_, tenant)| self.is_owed(tenant))
    }

    /// Takes out the late request that goes first.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let tenant = self.first()?;
        let (_, next) = self.turns.peek()?;
        self.turn_time = self.turn_time.max(self.tenants[next as usize].turn);
        let row = &mut self.tenants[tenant as usize];
        let Entry { cost, what, .. } = row.late.pop_front()?;
        // Nothing is free: a tenant whose tags stood still would have all of the device.
        let cost = Cost(cost.0.max(1));
        let half = row.owed_scale.advance(Cost(cost.0.saturating_mul(2)));
        row.owed = row.owed.max(row.owed.min(self.virtual_time) + half);
        row.turn = row.turn + row.turn_scale.advance(cost);
        self.leave(TenantId(tenant));
        Some(what)
    }

    /// Something goes to the device, late or not; to be told while it still waits.
    pub(crate) fn spend(&mut self, cost: Cost) {
        let spent = Tag::of(Cost(cost.0.max(1)), self.weights_milli.max(1));
        self.virtual_time = self.virtual_time + spent;
    }

    /// Takes a late request out of its turn. O(late of its tenant).
    pub(crate) fn remove(&mut self, tenant: TenantId, wanted: impl Fn(&E) -> bool) -> Option<E> {
        let row = &mut self.tenants[tenant.index()];
        let position = row.late.iter().position(|entry| wanted(&entry.what))?;
        let removed = row.late.remove(position).map(|entry| entry.what);
        self.leave(tenant);
        removed
    }

    /// One of the tenant's late requests has been taken out.
    fn leave(&mut self, tenant: TenantId) {
        self.length -= 1;
        self.place(tenant);
    }

    /// Late requests.
    pub(crate) fn len(&self) -> usize {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    const ONE: Cost = Cost(1000);

    fn late(weights: &[u32]) -> Late<u64> {
        let mut late = Late::default();
        for (tenant, weight) in (0..).zip(weights) {
            late.configure(TenantId(tenant), weight * 1000);
        }
        late
    }

    fn push(late: &mut Late<u64>, tenant: u32, age: u64, cost: Cost) {
        late.begin_wait(TenantId(tenant));
        late.push(TenantId(tenant), (age, Nanos::ZERO), cost, age);
    }

    /// Dispatches one: the first of the late if it is due, else one in time. Says what was late.
    fn dispatch(late: &mut Late<u64>) -> Option<u64> {
        let is_due = late.is_due();
        late.spend(ONE);
        is_due.then(|| late.pop().expect("what is due is there"))
    }

    #[test]
    fn one_late_beside_one_in_time_goes_at_every_fourth_dispatch() {
        let mut late = late(&[1, 1]);
        late.begin_wait(TenantId(0));
        (0..30).for_each(|age| push(&mut late, 1, age, ONE));
        let gone: Vec<bool> = (0..12).map(|_| dispatch(&mut late).is_some()).collect();
        let every_fourth: Vec<bool> = (0..12).map(|index| index % 4 == 1).collect();
        assert_eq!(gone, every_fourth);
    }

    #[test]
    fn who_is_late_before_its_time_is_owed_nothing_until_then() {
        let mut late = late(&[1, 1]);
        late.begin_wait(TenantId(0));
        for age in 0..30 {
            late.begin_wait(TenantId(1));
            late.push(TenantId(1), (age, Nanos(10 + age)), ONE, age);
        }
        late.advance(Nanos(9));
        assert!((0..20).all(|_| dispatch(&mut late).is_none()));
        assert_eq!((late.head(), late.stretch(Span(100))), (Some(&0), Span(100)));
        late.advance(Nanos(11));
        let gone: Vec<bool> = (0..12).map(|_| dispatch(&mut late).is_some()).collect();
        assert_eq!(gone.iter().filter(|gone| **gone).count(), 2, "the third has time yet");
        late.advance(Nanos(100));
        assert_eq!(late.stretch(Span(90)), Span(120));
        assert_eq!((0..40).filter_map(|_| dispatch(&mut late)).count(), 10);
    }

    #[test]
    fn the_oldest_of_a_tenant_goes_first_in_whatever_order_they_became_late() {
        let mut late = late(&[1]);
        for age in [4, 2, 9, 1] {
            push(&mut late, 0, age, ONE);
        }
        assert_eq!(late.remove(TenantId(0), |age| *age == 4), Some(4));
        assert_eq!(late.head(), Some(&1));
        assert_eq!(std::iter::from_fn(|| late.pop()).collect::<Vec<_>>(), [1, 2, 9]);
        assert_eq!(late.len(), 0);
    }

    #[test]
    fn with_nobody_in_time_the_late_share_all_by_weight_and_owe_nothing_for_it() {
        let mut late = late(&[3, 1, 1]);
        for age in 0..800 {
            push(&mut late, 0, age, ONE);
            push(&mut late, 1, 1000 + age, ONE);
        }
        let mut served = [0; 2];
        for _ in 0..400 {
            let popped = late.pop().unwrap();
            late.spend(ONE);
            served[usize::from(popped >= 1000)] += 1;
        }
        assert_eq!(served, [300, 100]);
        assert!(!late.is_due(), "all have had more than half");
        // Somebody in time comes: two of five in all, for half of four shares of five.
        late.begin_wait(TenantId(2));
        let due = (0..400).filter(|_| dispatch(&mut late).is_some()).count();
        assert!((155..=165).contains(&due), "{due} of 160");
    }

    /// The bound of the module, over every interval in which a tenant has late ones, on costs and
    /// weights of all kinds, with tenants that come and go.
    #[test]
    fn every_late_tenant_has_half_its_share_over_every_interval() {
        let mut prng = Prng::new(3);
        let mut below = |bound: u64| prng.below(bound);
        for _ in 0..300 {
            let weights: Vec<u32> = (0..5).map(|_| 1 + u32::try_from(below(20)).unwrap()).collect();
            let mut late = late(&weights);
            let mut waiting = [0u32; 5];
            let (mut lag, mut age) = ([0.0f64; 5], 0);
            let most = (0..5).map(|_| 1 + below(50_000)).collect::<Vec<_>>();
            let half: f64 = most.iter().sum::<u64>() as f64 / 2.0;
            for _ in 0..400 {
                for tenant in 0..5u32 {
                    let index = tenant as usize;
                    if below(3) == 0 && waiting[index] < 8 {
                        push(&mut late, tenant, age, Cost(1 + below(most[index])));
                        waiting[index] += 1;
                        age += 1;
                    }
                }
                // Always somebody in time besides, whose weight counts.
                let all: u32 = (0..5).filter(|i| waiting[*i] > 0).map(|i| weights[i]).sum();
                if all == 0 {
                    continue;
                }
                let (who, cost) = if late.is_due() {
                    let tenant = late.first().unwrap() as usize;
                    let cost = late.tenants[tenant].late[0].cost;
                    late.pop();
                    (Some(tenant), cost)
                } else {
                    (None, Cost(1 + below(50_000)))
                };
                late.spend(cost);
                for tenant in 0..5 {
                    let due = cost.0 as f64 * f64::from(weights[tenant]) / f64::from(all) / 2.0;
                    let had = if who == Some(tenant) { cost.0 as f64 } else { 0.0 };
                    let is_late = waiting[tenant] > 0;
                    lag[tenant] = if is_late { (lag[tenant] + due - had).max(0.0) } else { 0.0 };
                    let bound = most[tenant] as f64 + half + 25_000.0 + 1.0;
                    assert!(lag[tenant] <= bound, "{tenant} lags {} of {bound}", lag[tenant]);
                }
                if let Some(tenant) = who {
                    waiting[tenant] -= 1;
                    late.end_wait(TenantId(u32::try_from(tenant).unwrap()));
                }
            }
        }
    }
}
