//! The memory for payload: one pool for all workers, [divided](division) among the tenants.
//!
//! A connection [asks](Pool::ask) before it takes a request in, and again as the bytes of a body
//! come. While the answer is no it stops reading its socket; the pressure reaches the client
//! through TCP. Memory that is given back goes to those who wait at once, whoever has least for its
//! share first, and wakes them on whichever worker they are.
//!
//! Within a tenant bodies that have begun have priority, or new requests could keep them from ever
//! becoming whole; then connections that hold nothing; then all others.

mod division;
mod pace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::Memory;

use crate::clock::Clock;

pub(crate) use division::Ask;
use division::{Bounds, Division};
pub(crate) use pace::{Pace, Second};

/// A connection's place in the pool.
#[derive(Debug, Default)]
pub(crate) struct Place {
    number: u64,
    /// Bytes that were granted while it waited, until it takes them.
    granted: AtomicUsize,
}

/// A connection that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) place: &'a Arc<Place>,
    /// The body of its request has begun to come.
    pub(crate) has_begun: bool,
    /// Wakes it when it is granted what it waits for.
    pub(crate) waker: Option<&'a Waker>,
}

#[derive(Debug)]
struct Waiter {
    place: Arc<Place>,
    ask: Ask,
    waker: Option<Waker>,
    /// The order in which they came.
    entered: u64,
    since: Nanos,
    /// Who held most beyond its own part then.
    behind: Option<TenantId>,
}

/// Which of a tenant's waiting requests has priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    /// Its body has begun to come.
    Begun,
    /// Its connection holds nothing.
    First,
    Other,
}

type Key = (TenantId, Priority);

/// Wakes one who was granted what it waited for.
struct Granted(Option<Waker>);

/// What a tenant has waited for memory.
#[derive(Clone, Debug, Default)]
struct Waits {
    total: Span,
    behind: BTreeMap<TenantId, Span>,
}

impl Waits {
    fn add(&mut self, waiter: &Waiter, now: Nanos) {
        let span = now.since(waiter.since);
        self.total += span;
        if let Some(culprit) = waiter.behind {
            *self.behind.entry(culprit).or_default() += span;
        }
    }
}

/// Whose connections hold memory that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Everybody's: the pool is short.
    of_all: bool,
    /// Those of tenants that wait themselves.
    of: BTreeSet<TenantId>,
}

impl Wanted {
    /// Whether memory of this tenant's connections is waited for.
    pub(crate) fn is_of(&self, tenant: TenantId) -> bool {
        self.of_all || self.of.contains(&tenant)
    }
}

#[derive(Debug, Default)]
struct State {
    division: Division,
    /// Those who wait; no queue is empty.
    queues: BTreeMap<Key, VecDeque<Waiter>>,
    waits: BTreeMap<TenantId, Waits>,
    entered: u64,
}

/// The pool of a gate, for all its workers.
#[derive(Debug)]
pub(crate) struct Pool {
    clock: Clock,
    state: Mutex<State>,
    places: AtomicU64,
    /// Somebody waits.
    is_contended: AtomicBool,
    /// Connections that were cut since they were slow with memory that others waited for.
    cut: AtomicU64,
}

/// What a tenant holds and has waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantMemory {
    /// The tenant's name.
    pub tenant: String,
    /// Bytes that its requests and unread answers hold.
    pub held_bytes: u64,
    /// Bytes that it always finds free, whatever others hold.
    pub own_bytes: u64,
    /// Connections of it that wait for memory now.
    pub waiting: u64,
    /// How long its connections have waited in all.
    pub waited: Span,
    /// The tenants who held most beyond their own parts meanwhile, by name, and for how long.
    pub behind: Vec<(String, Span)>,
}

impl Pool {
    /// A pool without bounds, in which nobody finds room yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            places: AtomicU64::new(0),
            is_contended: AtomicBool::new(false),
            cut: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection.
    pub(crate) fn place(&self) -> Arc<Place> {
        let number = self.places.fetch_add(1, Relaxed);
        Arc::new(Place { number, granted: AtomicUsize::new(0) })
    }

    /// Sets the bounds; what is held already stays. Weights of tenants by index.
    pub(crate) fn set_bounds(&self, memory: Memory, weights: &[u64]) {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let bounds = Bounds {
            total_bytes: bytes(memory.total_bytes),
            tenant_bytes: bytes(memory.per_tenant_bytes),
        };
        let mut state = self.state();
        state.division.set_bounds(bounds, weights);
        self.serve(state);
    }

    /// Asks for memory: how much there is now, or none, and then the asker is woken when it is
    /// [granted](Self::granted). O(tenants that wait).
    pub(crate) fn ask(&self, asker: Asker<'_>, ask: Ask) -> Option<usize> {
        let mut state = self.state();
        let Asker { tenant, place, has_begun, .. } = asker;
        if state.division.uses_reserve(place.number) {
            return state.division.take_from_reserve(tenant, place.number, ask);
        }
        // One that holds nothing passes those of its tenant, of whom a larger one may be first.
        let passes_own = || {
            let mut waiting = state.queues.keys();
            ask.is_first
                && (waiting.all(|(waits, _)| *waits == tenant)
                    || state.division.is_own(tenant, ask))
        };
        if (state.queues.is_empty() || passes_own())
            && let Some(bytes) = state.division.take(tenant, ask)
        {
            return Some(bytes);
        }
        let priority = match (has_begun, ask.is_first) {
            (true, _) => Priority::Begun,
            (false, true) => Priority::First,
            (false, false) => Priority::Other,
        };
        state.entered += 1;
        let waiter = Waiter {
            place: Arc::clone(place),
            ask,
            waker: asker.waker.cloned(),
            entered: state.entered,
            since: self.clock.now(),
            behind: state.division.greatest(),
        };
        state.queues.entry((tenant, priority)).or_default().push_back(waiter);
        self.serve(state);
        Self::granted(place)
    }

    /// What a place that waited was granted; it waits on if that is none.
    pub(crate) fn granted(place: &Place) -> Option<usize> {
        let bytes = place.granted.swap(0, Relaxed);
        (bytes > 0).then_some(bytes)
    }

    /// A connection waits no more, and the request that it waited for will not be whole.
    pub(crate) fn forget(&self, tenant: TenantId, place: &Arc<Place>) {
        let mut state = self.state();
        state.withdraw(tenant, place);
        if let Some(bytes) = Self::granted(place) {
            state.division.give(tenant, place.number, bytes);
        }
        state.division.give_up_reserve(place.number);
        self.serve(state);
    }

    /// Gives back.
    pub(crate) fn give(&self, tenant: TenantId, place: &Place, bytes: usize) {
        let mut state = self.state();
        state.division.give(tenant, place.number, bytes);
        self.serve(state);
    }

    /// A connection that holds so much is another tenant's from now on. It must not wait.
    pub(crate) fn pass_on(&self, tenants: [TenantId; 2], place: &Place, bytes: usize) {
        let mut state = self.state();
        state.division.pass_on(tenants, place.number, bytes);
        self.serve(state);
    }

    /// Hands out what there is to those who wait.
    fn serve(&self, mut state: MutexGuard<'_, State>) {
        let mut woken = Vec::new();
        if !state.queues.is_empty() {
            let now = self.clock.now();
            while let Some(waker) = state.grant_next(now) {
                woken.extend(waker.0);
            }
        }
        self.is_contended.store(!state.queues.is_empty(), Relaxed);
        drop(state);
        woken.iter().for_each(Waker::wake_by_ref);
    }

    /// Whether anybody waits.
    pub(crate) fn is_contended(&self) -> bool {
        self.is_contended.load(Relaxed)
    }

    /// Whose connections hold memory that somebody waits for. O(tenants that wait).
    pub(crate) fn wanted(&self) -> Wanted {
        if !self.is_contended() {
            return Wanted::default();
        }
        let state = self.state();
        let of = state.queues.keys().map(|(tenant, _)| *tenant).collect();
        Wanted { of_all: state.next_for_reserve().is_some(), of }
    }

    /// A connection was cut for its pace.
    pub(crate) fn count_cut(&self) {
        self.cut.fetch_add(1, Relaxed);
    }

    /// Connections cut for their pace so far.
    pub(crate) fn cut(&self) -> u64 {
        self.cut.load(Relaxed)
    }

    /// Bytes that are held.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.state().division.total_bytes() as u64
    }

    /// What each tenant holds and has waited for, of those who have done either. Names by index.
    pub(crate) fn report(&self, names: &[&str]) -> Vec<TenantMemory> {
        let now = self.clock.now();
        let state = self.state();
        let tenants = (0..).map(TenantId).zip(names);
        let reports = tenants.map(|(tenant, _)| state.report(tenant, names, now));
        reports.filter(|report| report.held_bytes > 0 || report.waited > Span::ZERO).collect()
    }
}

impl State {
    /// The heads of all queues.
    fn heads(&self) -> impl Iterator<Item = (Key, &Waiter)> {
        self.queues.iter().filter_map(|(key, queue)| Some((*key, queue.front()?)))
    }

    /// The queue whose head is next of those for which there is room.
    fn next(&self) -> Option<Key> {
        let served = self
            .heads()
            .filter(|((tenant, _), head)| self.division.room(*tenant, head.ask).is_some());
        let next = served.min_by_key(|((tenant, priority), head)| {
            (self.division.rank(*tenant), *priority, head.entered)
        });
        next.map(|(key, _)| key)
    }

    /// The queue whose head the reserve finishes next. Who is held by its tenant's bound alone is
    /// none of them, unless its body has begun: others of its tenant will be answered.
    fn next_for_reserve(&self) -> Option<Key> {
        let short = self.heads().filter(|((tenant, priority), head)| {
            *priority == Priority::Begun || self.division.is_within_bound(*tenant, head.ask)
        });
        short.min_by_key(|(_, head)| head.entered).map(|(key, _)| key)
    }

    /// Grants one of those who wait what it asks for; none if there is nothing to grant.
    fn grant_next(&mut self, now: Nanos) -> Option<Granted> {
        if let Some(key) = self.next() {
            let ask = self.queues.get(&key)?.front()?.ask;
            let bytes = self.division.take(key.0, ask)?;
            return self.end_wait(key, bytes, now);
        }
        let key = self.next_for_reserve().filter(|_| self.division.is_reserve_free())?;
        let head = self.queues.get(&key)?.front()?;
        let bytes = self.division.take_from_reserve(key.0, head.place.number, head.ask)?;
        self.end_wait(key, bytes, now)
    }

    /// The head of a queue has what it waited for.
    fn end_wait(&mut self, key: Key, bytes: usize, now: Nanos) -> Option<Granted> {
        let queue = self.queues.get_mut(&key)?;
        let waiter = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&key);
        }
        self.waits.entry(key.0).or_default().add(&waiter, now);
        waiter.place.granted.store(bytes, Relaxed);
        Some(Granted(waiter.waker))
    }

    fn withdraw(&mut self, tenant: TenantId, place: &Arc<Place>) {
        self.queues.retain(|(waits, _), queue| {
            if *waits == tenant {
                queue.retain(|waiter| !Arc::ptr_eq(&waiter.place, place));
            }
            !queue.is_empty()
        });
    }

    fn report(&self, tenant: TenantId, names: &[&str], now: Nanos) -> TenantMemory {
        let mut waits = self.waits.get(&tenant).cloned().unwrap_or_default();
        let queues = self.queues.range((tenant, Priority::Begun)..=(tenant, Priority::Other));
        let waiting: Vec<_> = queues.flat_map(|(_, queue)| queue).collect();
        for waiter in &waiting {
            waits.add(waiter, now);
        }
        let name_of = |tenant: TenantId| {
            names.get(tenant.index()).map_or_else(String::new, |&name| name.into())
        };
        TenantMemory {
            tenant: name_of(tenant),
            held_bytes: self.division.held_bytes(tenant) as u64,
            own_bytes: self.division.own_bytes(tenant) as u64,
            waiting: waiting.len() as u64,
            waited: waits.total,
            behind: waits.behind.into_iter().map(|(who, span)| (name_of(who), span)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
