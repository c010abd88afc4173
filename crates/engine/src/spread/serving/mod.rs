//! A spread volume in service: what the engine asks it on the way of every request.
//!
//! An object that was written lies where its place says, and an unwritten one reads as zeroes, with
//! no server asked. The first write to an object waits until it is **placed**:
//!
//! ```text
//! write -> choose a candidate below the ceiling -> slot wiped, entered in the server's table
//!                                               -> choice noted on the keepers -> write goes on
//! ```
//!
//! Rounds of notes are on the account of the tenant that has waited longest for them.

mod anew;
mod granting;
mod late;
mod locating;
mod resizing;
mod resting;

use std::collections::BTreeMap;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::place::loads::{Loads, Metrics};
use evenkeel_core::place::policy::Policy;
use evenkeel_core::time::{Nanos, Span};

use super::freeing::{self, Freeing, Vacatings};
use super::moving::Mover;
use super::place::Place;
use super::prefer::{self, Gauge};
use super::report::{SpreadReport, SpreadServer, Standing};
use super::rules::{Mutant, Rules};
use super::scribe::{Leaving, Scribe};
use super::volume::Volume;
use crate::lease::Possession;
use crate::notes::{Step, StepKind};
use crate::policy::SpreadPlan;
use crate::unheard::Unheard;
use crate::units::UnitTable;
use crate::{Refused, Request};
use granting::{Grant, Stage};
pub use resizing::ResizeRefusal;
use resizing::Resizing;

/// For so long nothing is placed on a server that could not be written to.
pub const REST: Span = Span::from_secs(10);

/// For so long nothing is placed on a server that had no room, unless something there is discarded.
pub(super) const FULL: Span = Span::from_secs(30);

/// The volume of a domain, with the servers that it is spread over.
pub(crate) struct Serving {
    pub(super) volume: Volume,
    pub(super) plan: SpreadPlan,
    /// Bits of a volume's offset that lie within an object.
    object_bits: u32,
    pub(super) loads: Loads,
    pub(super) policy: Box<dyn Policy>,
    /// By server.
    pub(super) gauges: Vec<Gauge>,
    /// Objects that are being placed.
    grants: BTreeMap<u32, Grant>,
    /// Objects that are given up.
    pub(super) freeings: BTreeMap<u32, Freeing>,
    pub(super) vacatings: Vacatings,
    /// Slots to clear once their servers have rested.
    pub(super) later: Vec<(usize, Leaving)>,
    pub(super) mover: Mover,
    /// By server.
    pub(super) scribes: Vec<Scribe>,
    steps: Vec<Option<StepKind>>,
    /// By server: no object is placed there before.
    rest_until: Vec<Nanos>,
    /// By server: it had no room, and counts as full before.
    full_until: Vec<Nanos>,
    pub(super) is_stale: Vec<bool>,
    possession: Possession,
    /// Whether the volume is about to be opened anew: nothing begins any more.
    is_pausing: bool,
    /// The objects that requests may begin to use.
    end: u32,
    resizing: Option<Resizing>,
    /// What came of the last one.
    resized: Option<Result<u64, ResizeRefusal>>,
    /// Requests that wait until no late writes may come any more.
    late_waiters: Vec<u32>,
    /// Requests that may go on.
    pub(super) released: Vec<u32>,
    unheard: Unheard,
    pub(super) is_due: bool,
    pub(super) placed: u32,
    /// Of those, how many lie on the server that is away.
    absent: u32,
    diverted: u64,
    pub(super) freed: u64,
    full: u64,
    pub(super) rules: Rules,
}

impl Serving {
    /// Begins to serve, once the volume is known to be ours.
    pub(crate) fn new(volume: Volume, plan: &SpreadPlan, tenants: usize) -> Self {
        let servers = volume.layout.servers.len();
        let placed = volume.places.count();
        let is_away = |(_, place): &(u32, Place)| *place == Place::AWAY;
        let absent = match volume.away {
            Some(_) => volume.places.known().filter(is_away).count(),
            None => 0,
        };
        let mut serving = Self {
            object_bits: volume.layout.object_bytes.trailing_zeros(),
            loads: Loads::new(servers),
            policy: prefer::policy(plan),
            gauges: vec![Gauge::default(); servers],
            grants: BTreeMap::new(),
            freeings: BTreeMap::new(),
            vacatings: BTreeMap::new(),
            later: Vec::new(),
            mover: Mover::default(),
            scribes: (0..servers).map(|_| Scribe::default()).collect(),
            steps: vec![None; servers],
            rest_until: vec![Nanos::ZERO; servers],
            full_until: vec![Nanos::ZERO; servers],
            is_stale: vec![false; servers],
            possession: Possession::default(),
            is_pausing: false,
            end: volume.layout.objects,
            resizing: None,
            resized: None,
            late_waiters: Vec::new(),
            released: Vec::new(),
            unheard: Unheard::default(),
            is_due: false,
            absent: u32::try_from(absent).expect("objects are numbered by u32"),
            placed,
            diverted: 0,
            freed: 0,
            full: 0,
            rules: Rules::default(),
            plan: plan.clone(),
            volume,
        };
        serving.configure(plan, tenants);
        (0..servers).for_each(|server| serving.report_load(server, Nanos::ZERO));
        serving.begin_passing();
        serving
    }

    /// Puts a policy in force.
    pub(crate) fn configure(&mut self, plan: &SpreadPlan, tenants: usize) {
        assert!(plan.servers.len() == self.scribes.len(), "a server for each part");
        assert!(plan.servers == self.plan.servers, "parts keep their servers");
        if self.plan != *plan {
            self.policy = prefer::policy(plan);
            self.plan = plan.clone();
        }
        self.possession.patience = plan.patience;
        self.unheard.resize(tenants);
    }

    /// The volume is ours until then.
    pub(crate) fn held(&mut self, until: Nanos) {
        self.released.extend(self.possession.held(until));
        self.is_due = true;
    }

    /// A server is again what it was.
    pub(crate) fn cleared(&mut self, now: Nanos, server: ServerId) {
        let index = self.index_of(server);
        self.is_stale[index] = false;
        self.report_load(index, now);
        self.is_due = true;
    }

    /// A server is not what it was, or the whole volume is another gate's.
    pub(crate) fn fenced(&mut self, server: Option<ServerId>) {
        match server {
            Some(server) => {
                let index = self.index_of(server);
                self.is_stale[index] = true;
                self.loads.report(as_id(index), Metrics::default());
            }
            None => self.possession.lose(),
        }
        self.released.append(&mut self.possession.waiting);
        self.released.append(&mut self.late_waiters);
        for grant in self.grants.values_mut() {
            self.released.append(&mut grant.waiters);
        }
        for freeing in self.freeings.values_mut() {
            self.released.append(&mut freeing.waiters);
        }
        self.released.extend(self.mover.take_held());
        self.abandon_resize();
        self.is_due = true;
    }

    /// What the step at this server writes.
    pub(crate) fn note_bytes(&self, server: ServerId) -> &[u8] {
        &self.scribes[self.index_of(server)].bytes
    }

    /// The piece of a request after `at` bytes has to wait, on this tenant's account.
    ///
    /// Returns the request that the tenant is to pay for meanwhile, if any.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn hold(
        &mut self,
        now: Nanos,
        request: &Request,
        at: u64,
        payer: TenantId,
    ) -> Result<Option<u32>, Refused> {
        if !self.may_begin(now) {
            self.possession.waiting.push(request.slot);
            return Ok(None);
        }
        let object = self.object_of(request.offset + at);
        if self.is_held(request.kind, object) {
            return Ok(self.mover.hold(request.slot, payer));
        }
        let place = self.volume.places.get(object).get();
        let gives_up = self.gives_up(now, request, at);
        if gives_up && place.is_some_and(|place| self.must_stay(now, place)) {
            self.wait_for_late(request.slot);
            return Ok(None);
        }
        if gives_up {
            self.give_up(now, request, at, payer);
        }
        let waiters = if let Some(freeing) = self.freeings.get_mut(&object) {
            &mut freeing.waiters
        } else {
            if !self.grants.contains_key(&object) {
                match self.grant(now, object, payer) {
                    Err(Refused::NoRoom(server))
                        if self.is_room_late(now, self.index_of(server)) =>
                    {
                        self.wait_for_late(request.slot);
                        return Ok(None);
                    }
                    result => result?,
                }
            }
            &mut self.grants.get_mut(&object).expect("it was granted above").waiters
        };
        if !waiters.contains(&request.slot) {
            waiters.push(request.slot);
        }
        Ok(None)
    }

    /// A request waits no longer, since its client is gone.
    pub(crate) fn withdraw(&mut self, slot: u32) {
        self.possession.waiting.retain(|other| *other != slot);
        self.late_waiters.retain(|other| *other != slot);
        self.released.retain(|other| *other != slot);
        for grant in self.grants.values_mut() {
            grant.waiters.retain(|other| *other != slot);
        }
        for freeing in self.freeings.values_mut() {
            freeing.waiters.retain(|other| *other != slot);
        }
        self.mover.withdraw(slot);
    }

    /// A request for a server has arrived; whose it is to pay, if not whose it says.
    pub(crate) fn step_arrived(&mut self, request: &Request, server: ServerId) -> Option<TenantId> {
        self.mover.step_arrived(request, server)
    }

    /// This request is over.
    pub(crate) fn finished(&mut self, slot: u32) {
        self.mover.finished(slot);
    }

    /// A request that may go on.
    pub(crate) fn take_released(&mut self) -> Option<u32> {
        self.released.pop()
    }

    /// Whether [`Self::poll`] has something to decide.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.is_due || !self.released.is_empty() || self.deadline().is_some_and(|at| at <= now)
    }

    /// When it wants to be polled although nothing happens.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        // Otherwise the next write to a new object is soon enough.
        if !self.possession.is_undisputed() {
            return self.possession.deadline();
        }
        let is_awaited = !self.later.is_empty()
            || self.is_resizing()
            || self.volume.layout.members.may_be_changing();
        let rested = if is_awaited { self.rested() } else { None };
        let due = [rested, self.mover.deadline(), self.late_deadline(), self.possession.deadline()];
        due.into_iter().flatten().min()
    }

    /// When the next server has rested.
    fn rested(&self) -> Option<Nanos> {
        self.rest_until.iter().copied().filter(|until| *until > Nanos::ZERO).min()
    }

    /// Decides what is noted and copied next: for each server one note at a time, and one step of
    /// the mover.
    pub(crate) fn poll(&mut self, now: Nanos, units: &UnitTable) -> Option<Step> {
        if !self.may_serve(now) && !self.rules.is_broken(Mutant::NoteUnasked) {
            // Nothing is due before the volume is ours again, if it ever is.
            self.is_due = false;
            self.possession.lapse();
            if !self.is_pausing {
                self.released.extend(self.possession.take_impatient(now));
            }
            return None;
        }
        self.end_rests(now);
        self.end_late_writes(now);
        if let Some(step) = self.poll_mover(now, units) {
            return Some(step);
        }
        for index in 0..self.scribes.len() {
            let wanted = self.scribes[index].poll(index, &mut self.volume, self.rules);
            if let Some(wanted) = wanted {
                self.steps[index] = Some(wanted.kind);
                return Some(Step {
                    kind: wanted.kind,
                    server: self.plan.servers[index],
                    offset: wanted.offset,
                    length: wanted.length,
                    tenant: wanted.payer.unwrap_or(self.plan.clerk),
                });
            }
        }
        self.is_due = false;
        None
    }

    /// The step at a server is over.
    pub(crate) fn moved(
        &mut self,
        now: Nanos,
        (server, kind): (ServerId, StepKind),
        mut ok: bool,
        units: &UnitTable,
    ) {
        if matches!(kind, StepKind::Read | StepKind::Write) {
            self.is_due = true;
            return self.copy_ended(now, ok);
        }
        let (index, bit) = (self.index_of(server), self.bit_of(server));
        let asked = self.steps[index].take();
        assert!(asked == Some(kind), "such a step is under way there");
        self.is_due = true;
        if kind == StepKind::Flush {
            if !ok && !self.rules.is_broken(Mutant::ForgetFlush) {
                self.unheard.own_failed(bit);
            }
            ok &= self.unheard.own_hears(bit) || self.rules.is_broken(Mutant::TrustFlush);
            if !ok {
                self.distrust_copy(index);
            }
        }
        let ended = self.scribes[index].step_ended(index, ok, &mut self.volume, self.rules);
        for one in &ended.entered {
            self.entered(now, one, units);
        }
        for one in &ended.left {
            self.left(now, index, one);
        }
        if ended.has_failed {
            self.rest(now, index, &ended.failed);
            ended.not_left.into_iter().for_each(|one| self.not_left(index, one));
        }
        if let Some(ok) = ended.head {
            self.head_written(index, ok);
        }
        if ended.has_pages || ended.has_failed {
            self.count_choices(now);
            self.count_unchosen(now, units);
            self.count_moved(now, units);
        }
    }

    /// A flush of a tenant is over at this server. Returns how it is to end.
    pub(crate) fn flush_ended(&mut self, tenant: TenantId, server: ServerId, ok: bool) -> bool {
        let bit = self.bit_of(server);
        if !ok {
            self.unheard.tenant_failed(tenant, bit);
            self.distrust_copy(self.index_of(server));
        }
        let is_stale = self.is_stale[self.index_of(server)];
        self.unheard.tenant_hears(tenant, bit) && ok && !is_stale && !self.is_claimed()
    }

    /// The accounts.
    pub(crate) fn report(&self, now: Nanos) -> SpreadReport {
        let count = |count: usize| u32::try_from(count).expect("objects are numbered by u32");
        let server = |(index, &server): (usize, &ServerId)| {
            let slots = self.volume.layout.servers[index].slots;
            SpreadServer {
                server,
                slots,
                ceiling_slots: self.ceiling_slots(slots),
                used_slots: self.used_slots(index),
                is_near: self.plan.near[index],
                latency: self.gauges[index].latency(),
                host: self.gauges[index].host,
                is_leaving: self.volume.layout.is_leaving(index),
                standing: if self.is_stale[index] {
                    Standing::Stale
                } else if self.volume.away == Some(index) {
                    Standing::Absent
                } else if now < self.rest_until[index] {
                    Standing::Resting
                } else if now < self.full_until[index] {
                    Standing::Full
                } else {
                    Standing::Serving
                },
            }
        };
        SpreadReport {
            servers: self.plan.servers.iter().enumerate().map(server).collect(),
            prefer: self.plan.prefer.clone(),
            object_bytes: self.volume.layout.object_bytes,
            objects: self.volume.layout.objects,
            placed: self.placed,
            diverted: self.diverted,
            lost: count(self.volume.lost.len()),
            freed: self.freed,
            full: self.full,
            change: self.change_report(now),
            is_claimed: self.is_claimed(),
        }
    }

    /// Whether another gate has the volume.
    fn is_claimed(&self) -> bool {
        self.possession.is_claimed()
    }

    /// Whether the volume is this gate's.
    pub(super) fn may_serve(&self, now: Nanos) -> bool {
        self.possession.may_serve(now)
    }

    /// Whether a request may begin.
    fn may_begin(&self, now: Nanos) -> bool {
        self.possession.is_held(now) && !self.is_pausing
    }

    /// Who pays for what nobody waits for.
    pub(super) fn clerk(&self) -> TenantId {
        self.plan.clerk
    }

    /// A server as the engine knows it.
    pub(super) fn server_id(&self, index: usize) -> ServerId {
        self.plan.servers[index]
    }

    /// Whether an object is being placed or given up, and if so, whether that is in doubt.
    pub(super) fn is_on_its_way(&self, object: u32) -> Option<bool> {
        let grant = self.grants.get(&object).map(|one| one.stage == Stage::InDoubt);
        let freeing = self.freeings.get(&object);
        grant.or_else(|| freeing.map(|one| one.stage == freeing::Stage::InDoubt))
    }

    pub(crate) fn index_of(&self, server: ServerId) -> usize {
        let index = self.plan.servers.iter().position(|one| *one == server);
        index.expect("pieces and steps go to the servers of the volume")
    }

    fn bit_of(&self, server: ServerId) -> u64 {
        1 << self.index_of(server)
    }
}

pub(super) fn as_id(index: usize) -> ServerId {
    ServerId(u32::try_from(index).expect("few servers"))
}
