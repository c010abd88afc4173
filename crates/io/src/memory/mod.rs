//! The memory for payload: one pool for all workers, [divided](division) among the tenants.
//!
//! A connection [asks](Pool::ask) before it takes a request in, and again as the bytes of a body
//! come. While the answer is no it stops reading its socket; the pressure reaches the client
//! through TCP. Memory that is given back goes to those who wait at once, whoever has least for its
//! share first, and wakes them on whichever worker they are.
//!
//! Within a tenant bodies that have begun go before new requests, which else would keep them from
//! ever becoming whole, and connections that hold nothing go past those that wait with something.

mod division;
mod pace;

use std::collections::{BTreeMap, VecDeque};
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
    /// Its request has begun to come.
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

/// Those of one tenant who wait.
#[derive(Debug, Default)]
struct Line {
    begun: VecDeque<Waiter>,
    new: VecDeque<Waiter>,
}

impl Line {
    fn head(&self) -> Option<(&Waiter, bool)> {
        let begun = self.begun.front().map(|waiter| (waiter, true));
        begun.or_else(|| self.new.front().map(|waiter| (waiter, false)))
    }

    fn pop(&mut self) -> Option<Waiter> {
        self.begun.pop_front().or_else(|| self.new.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.new.is_empty()
    }
}

/// What a tenant has waited for memory.
#[derive(Clone, Debug, Default)]
struct Waits {
    total: Span,
    behind: BTreeMap<TenantId, Span>,
}

#[derive(Debug, Default)]
struct State {
    division: Division,
    lines: BTreeMap<TenantId, Line>,
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
        if state.division.is_in_turn(place.number) {
            return state.division.take_in_turn(tenant, place.number, ask);
        }
        let has_line = state.lines.contains_key(&tenant);
        let is_alone = state.lines.len() == usize::from(has_line);
        let may_pass =
            (ask.is_first || !has_line) && (is_alone || state.division.is_own(tenant, ask));
        if may_pass && let Some(bytes) = state.division.take(tenant, ask) {
            return Some(bytes);
        }
        state.entered += 1;
        let waiter = Waiter {
            place: Arc::clone(place),
            ask,
            waker: asker.waker.cloned(),
            entered: state.entered,
            since: self.clock.now(),
            behind: state.division.greatest(),
        };
        let line = state.lines.entry(tenant).or_default();
        let row = if has_begun { &mut line.begun } else { &mut line.new };
        row.push_back(waiter);
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
        state.division.give_up_turn(place.number);
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
        if !state.lines.is_empty() {
            let now = self.clock.now();
            while let Some(tenant) = state.next()
                && state.grant(tenant, now, &mut woken)
            {}
            while state.division.is_turn_free()
                && let Some(tenant) = state.next_in_turn()
                && state.grant_in_turn(tenant, now, &mut woken)
            {}
        }
        self.is_contended.store(!state.lines.is_empty(), Relaxed);
        drop(state);
        woken.iter().for_each(Waker::wake_by_ref);
    }

    /// Whether anybody waits.
    pub(crate) fn is_contended(&self) -> bool {
        self.is_contended.load(Relaxed)
    }

    /// Whether somebody waits for what connections of this tenant hold: others because the pool is
    /// full, or its own.
    pub(crate) fn is_wanted_of(&self, tenant: TenantId) -> bool {
        if !self.is_contended() {
            return false;
        }
        let state = self.state();
        state.lines.contains_key(&tenant) || state.is_short()
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
    /// The tenant whose head is granted what it asks for next, of those for whom there is room.
    fn next(&self) -> Option<TenantId> {
        let heads = self.lines.iter().filter_map(|(tenant, line)| Some((*tenant, line.head()?.0)));
        let served = heads.filter(|(tenant, head)| self.division.room(*tenant, head.ask).is_some());
        let next = served.min_by_key(|(tenant, head)| (self.division.rank(*tenant), head.entered));
        next.map(|(tenant, _)| tenant)
    }

    /// Whose head takes its turn next. Who is held by its own bound alone is none of them, unless
    /// a body of it has begun: others of it will be answered.
    fn next_in_turn(&self) -> Option<TenantId> {
        let heads = self.lines.iter().filter_map(|(tenant, line)| Some((*tenant, line.head()?)));
        let short = heads.filter(|(tenant, (head, has_begun))| {
            *has_begun || self.division.is_within_bound(*tenant, head.ask)
        });
        short.min_by_key(|(_, (head, _))| head.entered).map(|(tenant, _)| tenant)
    }

    /// Whether somebody waits whom its own bound would let go on.
    fn is_short(&self) -> bool {
        self.next_in_turn().is_some()
    }

    /// Gives the head of a tenant what there is room for; false if there is none.
    fn grant(&mut self, tenant: TenantId, now: Nanos, woken: &mut Vec<Waker>) -> bool {
        let Some((head, _)) = self.lines.get(&tenant).and_then(Line::head) else { return false };
        let granted = self.division.take(tenant, head.ask);
        granted.is_some_and(|bytes| self.end(tenant, bytes, now, woken))
    }

    /// Gives the head of a tenant its turn; false if it cannot have it.
    fn grant_in_turn(&mut self, tenant: TenantId, now: Nanos, woken: &mut Vec<Waker>) -> bool {
        let Some((head, _)) = self.lines.get(&tenant).and_then(Line::head) else { return false };
        let granted = self.division.take_in_turn(tenant, head.place.number, head.ask);
        granted.is_some_and(|bytes| self.end(tenant, bytes, now, woken))
    }

    /// The head of a tenant has what it waited for.
    fn end(&mut self, tenant: TenantId, bytes: usize, now: Nanos, woken: &mut Vec<Waker>) -> bool {
        let Some(line) = self.lines.get_mut(&tenant) else { return false };
        let Some(waiter) = line.pop() else { return false };
        if line.is_empty() {
            self.lines.remove(&tenant);
        }
        self.note_wait(tenant, &waiter, now);
        waiter.place.granted.store(bytes, Relaxed);
        woken.extend(waiter.waker);
        true
    }

    fn withdraw(&mut self, tenant: TenantId, place: &Arc<Place>) {
        let Some(line) = self.lines.get_mut(&tenant) else { return };
        line.begun.retain(|waiter| !Arc::ptr_eq(&waiter.place, place));
        line.new.retain(|waiter| !Arc::ptr_eq(&waiter.place, place));
        if line.is_empty() {
            self.lines.remove(&tenant);
        }
    }

    fn note_wait(&mut self, tenant: TenantId, waiter: &Waiter, now: Nanos) {
        let span = now.since(waiter.since);
        let sums = self.waits.entry(tenant).or_default();
        sums.total += span;
        if let Some(culprit) = waiter.behind {
            *sums.behind.entry(culprit).or_default() += span;
        }
    }

    fn report(&self, tenant: TenantId, names: &[&str], now: Nanos) -> TenantMemory {
        let mut so_far = self.waits.get(&tenant).cloned().unwrap_or_default();
        let line = self.lines.get(&tenant);
        let in_line: Vec<_> =
            line.into_iter().flat_map(|all| all.begun.iter().chain(&all.new)).collect();
        for waiter in &in_line {
            let waited = now.since(waiter.since);
            so_far.total += waited;
            if let Some(culprit) = waiter.behind {
                *so_far.behind.entry(culprit).or_default() += waited;
            }
        }
        let name_of = |tenant: TenantId| {
            names.get(tenant.index()).map_or_else(String::new, |&name| name.into())
        };
        TenantMemory {
            tenant: name_of(tenant),
            held_bytes: self.division.held_bytes(tenant) as u64,
            own_bytes: self.division.own_bytes(tenant) as u64,
            waiting: in_line.len() as u64,
            waited: so_far.total,
            behind: so_far.behind.into_iter().map(|(who, span)| (name_of(who), span)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
