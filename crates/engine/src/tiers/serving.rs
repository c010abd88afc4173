//! A volume in service: what the engine asks it on the way of every request.
//!
//! It knows where bytes lie, counts who asks for what, lets writes wait for a move that is nearly
//! done, and decides when the mover takes its next step and on whose account: that of the tenant
//! whose write has waited longest, so that nobody waits for a share that is not his own; else the
//! mover's.

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::choice::Chooser;
use super::heat::{Access, Heat};
use super::map::Place;
use super::moves::{Change, Mover};
use super::report::{TierReport, VolumeReport};
use super::rules::Mutant;
use super::volume::Volume;
use crate::late::changes_content;
use crate::lease::{LateWrites, Possession};
use crate::notes::{Step, StepKind};
use crate::placement::{Piece, Placed, Placement};
use crate::policy::{Moves, Scheduling, TIERS_MAX, TierPlan};
use crate::unheard::Unheard;
use crate::units::{Stage, UnitEntry, UnitTable};
use crate::{Refused, Request};

/// The volume of a domain, with the servers that its tiers are.
pub(crate) struct Serving {
    volume: Volume,
    plan: TierPlan,
    /// Bits of a volume's offset that lie within an extent.
    extent_bits: u32,
    heat: Heat,
    chooser: Chooser,
    pub(super) mover: Mover,
    /// What the step that writes notes has to write.
    note: Vec<u8>,
    /// The step under way.
    step: Option<Step>,
    /// The request that it has become.
    step_slot: Option<u32>,
    /// Requests whose next piece has to wait, oldest first.
    held: Vec<(u32, TenantId)>,
    /// Requests that may go on.
    released: Vec<u32>,
    /// A slot that was left, and the units that still refer to it.
    vacating: Option<(Place, u32)>,
    /// Something has happened that the mover may go on after.
    is_due: bool,
    /// By tenant: units that went to each tier.
    hits: Vec<[u64; TIERS_MAX]>,
    unheard: Unheard,
    possession: Possession,
    /// By tier: it is not what it was, and nothing of it is served.
    is_stale: Vec<bool>,
}

impl Serving {
    /// Begins to serve.
    pub(crate) fn new<'a>(
        volume: Volume,
        plan: &TierPlan,
        tenants: usize,
        tiers: impl Iterator<Item = &'a Scheduling> + Clone,
    ) -> Self {
        let extent_bytes = volume.layout.extent_bytes;
        let mut serving = Self {
            plan: plan.clone(),
            extent_bits: extent_bytes.trailing_zeros(),
            heat: Heat::new(volume.map.extents()),
            chooser: Chooser::new(volume.layout.tiers.len()),
            mover: Mover::default(),
            note: Vec::new(),
            step: None,
            step_slot: None,
            held: Vec::new(),
            released: Vec::new(),
            vacating: None,
            is_due: true,
            hits: Vec::new(),
            unheard: Unheard::default(),
            possession: Possession::default(),
            is_stale: vec![false; volume.layout.tiers.len()],
            volume,
        };
        serving.mover.rest_until(serving.volume.moves_from);
        serving.configure(plan, tenants, tiers);
        serving
    }

    /// Puts a policy in force. A move under way goes on.
    pub(crate) fn configure<'a>(
        &mut self,
        plan: &TierPlan,
        tenants: usize,
        tiers: impl Iterator<Item = &'a Scheduling> + Clone,
    ) {
        assert!(plan.servers.len() == self.volume.layout.tiers.len(), "a server for each tier");
        assert!(plan.servers == self.plan.servers, "tiers keep their servers");
        self.plan = plan.clone();
        self.possession.patience = plan.patience;
        self.mover.leave_for(plan.late);
        self.unheard.resize(tenants);
        self.chooser.configure(self.volume.layout.extent_bytes, tiers);
        self.mover.step_by(self.chooser.step_bytes());
    }

    /// The volume is ours until then.
    pub(crate) fn held(&mut self, until: Nanos) {
        self.released.extend(self.possession.held(until));
        self.is_due = true;
    }

    /// A tier is not what it was, or the whole volume is another gate's.
    pub(crate) fn fenced(&mut self, server: Option<ServerId>) {
        match server {
            Some(server) => {
                let tier = self.tier_of(server);
                self.is_stale[tier] = true;
            }
            None => self.possession.lose(),
        }
        self.released.append(&mut self.possession.waiting);
        self.release_held();
        self.is_due = true;
    }

    /// A tier is again what it was.
    pub(crate) fn cleared(&mut self, server: ServerId) {
        let tier = self.tier_of(server);
        self.is_stale[tier] = false;
        self.is_due = true;
    }

    /// What the step that writes notes has to write.
    pub(crate) fn note_bytes(&self) -> &[u8] {
        &self.note
    }

    /// What late writes may still reach. A test may have clients write there.
    pub(crate) fn late(&self) -> Option<&LateWrites> {
        (!self.mover.rules.is_broken(Mutant::WriteLate)).then_some(&self.volume.late)
    }

    /// The same, to be changed; what moves looks at it again.
    pub(crate) fn late_mut(&mut self) -> &mut LateWrites {
        self.is_due = true;
        &mut self.volume.late
    }

    /// A unit of a request is about to be queued; `at` is where in the request it begins.
    pub(crate) fn queued(&mut self, now: Nanos, request: &Request, at: u64) {
        if !matches!(request.kind, Kind::Read | Kind::Write) || request.length == 0 {
            return;
        }
        let (tenant, offset) = (request.tenant, request.offset + at);
        let extent = self.extent_of(offset);
        let place = self.volume.map.place(extent);
        if tenant.index() >= self.hits.len() {
            self.hits.resize(tenant.index() + 1, [0; TIERS_MAX]);
        }
        self.hits[tenant.index()][place.tier()] += 1;
        if self.plan.moves == Moves::Off {
            return;
        }
        let access = Access {
            tenant,
            extent,
            offset,
            request_end: request.offset + request.length,
            is_first: at == 0,
            at_start: offset & ((1 << self.extent_bits) - 1) == 0,
        };
        if let Some(heat) = self.heat.touch(now, &access)
            && self.mover.is_idle(now)
        {
            let fastest = self.volume.layout.fastest();
            self.is_due |= self.chooser.touched(extent, heat, place, fastest);
        }
    }

    /// A unit is over, be it that the backend has answered or that it was taken back.
    pub(crate) fn ended(&mut self, unit: &UnitEntry) {
        let (server, offset) = (unit.server, unit.offset);
        if changes_content(unit.ticket.kind) && self.is_at(self.mover.source(), server, offset) {
            let into = offset & ((1 << self.extent_bits) - 1);
            let was_sent = unit.stage == Stage::InService;
            self.is_due |= self.mover.write_ended(into, unit.ticket.size_bytes, was_sent);
        }
        if let Some((place, units)) = self.vacating
            && self.is_at(Some(place), server, offset)
        {
            self.vacate(place, units - 1);
        }
    }

    /// A client's request has to wait. If it is the first, the request that the step under way has
    /// become is returned: it is the client's to pay from now on.
    pub(crate) fn hold(&mut self, now: Nanos, request: &Request, tenant: TenantId) -> Option<u32> {
        let slot = request.slot;
        if !self.possession.is_held(now) {
            self.possession.waiting.push(slot);
            return None;
        }
        if self.held.iter().any(|(held, _)| *held == slot) {
            return None;
        }
        self.held.push((slot, tenant));
        self.step_slot.filter(|_| self.held.len() == 1)
    }

    /// A request waits no longer, since its client is gone.
    pub(crate) fn withdraw(&mut self, slot: u32) {
        self.held.retain(|(held, _)| *held != slot);
        self.possession.waiting.retain(|other| *other != slot);
        self.released.retain(|released| *released != slot);
    }

    /// A request that may go on.
    pub(crate) fn take_released(&mut self) -> Option<u32> {
        self.released.pop()
    }

    /// A request has arrived: if it is the step under way, and somebody waits, whose it is to pay.
    pub(crate) fn step_arrived(&mut self, request: &Request, server: ServerId) -> Option<TenantId> {
        let step = self.step.filter(|_| self.step_slot.is_none())?;
        if (step.server, step.offset, step.length) != (server, request.offset, request.length) {
            return None;
        }
        self.step_slot = Some(request.slot);
        self.held.first().map(|(_, tenant)| *tenant)
    }

    /// This request is over.
    pub(crate) fn finished(&mut self, slot: u32) {
        self.step_slot.take_if(|step| *step == slot);
    }

    /// Whether [`Self::poll`] has something to decide.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.is_due || self.deadline().is_some_and(|at| at <= now)
    }

    /// When the mover wants to be polled although nothing happens.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        if !self.possession.is_undisputed() {
            return self.possession.deadline();
        }
        self.mover.deadline().into_iter().chain(self.possession.deadline()).min()
    }

    /// Decides what the mover does next.
    pub(crate) fn poll(&mut self, now: Nanos, units: &UnitTable) -> Option<Step> {
        self.is_due = false;
        if !self.possession.may_serve(now) && !self.mover.rules.is_broken(Mutant::MoveUnasked) {
            // Nothing is due before the volume is ours again, if it ever is.
            self.possession.lapse();
            self.released.extend(self.possession.take_impatient(now));
            return None;
        }
        if self.mover.is_idle(now) && self.vacating.is_none() {
            self.begin(now);
        }
        let (mut change, mut wanted) = self.mover.poll(now, &mut self.volume, &mut self.note);
        self.take_change(change, units);
        if change == Change::Held {
            (change, wanted) = self.mover.poll(now, &mut self.volume, &mut self.note);
            self.take_change(change, units);
        }
        let wanted = wanted?;
        self.step = Some(Step {
            kind: wanted.kind,
            server: self.plan.servers[wanted.tier],
            offset: wanted.offset,
            length: wanted.length,
            tenant: self.held.first().map_or(self.plan.mover, |(_, tenant)| *tenant),
        });
        self.step
    }

    /// The step under way is over.
    pub(crate) fn moved(&mut self, now: Nanos, mut ok: bool, units: &UnitTable) {
        let step = self.step.take().expect("no step is under way");
        self.step_slot = None;
        self.is_due = true;
        if step.kind == StepKind::Flush {
            let bit = self.bit_of(step.server);
            if !ok && !self.mover.rules.is_broken(Mutant::ForgetFlush) {
                self.unheard.own_failed(bit);
            }
            let is_trusting = self.mover.rules.is_broken(Mutant::TrustFlush);
            ok &= self.unheard.own_hears(bit) || is_trusting;
        }
        let change = self.mover.step_ended(now, ok, &mut self.volume);
        self.take_change(change, units);
    }

    /// A flush of a tenant is over at this server. Returns how it is to end: not well if it failed,
    /// nor if somebody else's did since the tenant's last one.
    pub(crate) fn flush_ended(&mut self, tenant: TenantId, server: ServerId, ok: bool) -> bool {
        let bit = self.bit_of(server);
        if !ok {
            self.unheard.tenant_failed(tenant, bit);
        }
        let is_served = !self.is_stale[self.tier_of(server)] && !self.possession.is_claimed();
        self.unheard.tenant_hears(tenant, bit) && ok && is_served
    }

    /// The accounts. O(tiers + tenants): it must not hold up anybody at any size.
    pub(crate) fn report(&self) -> VolumeReport {
        let map = &self.volume.map;
        let tiers = self.plan.servers.iter().enumerate();
        VolumeReport {
            tiers: tiers
                .map(|(tier, &server)| TierReport {
                    server,
                    slots: map.slots(tier),
                    free_slots: map.free_slots(tier),
                    used_slots: map.used_slots(tier),
                })
                .collect(),
            hits: self.hits.clone(),
            moves: self.mover.report(),
        }
    }

    /// The volume.
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Begins this move, if the mover has time and there is a slot.
    #[cfg(test)]
    pub(super) fn begin_move(&mut self, now: Nanos, choice: super::choice::Choice) {
        if self.mover.is_idle(now) && self.vacating.is_none() {
            self.mover.begin(now, choice, &mut self.volume);
            self.is_due = true;
        }
    }

    /// Begins what is worth doing, if anything is.
    fn begin(&mut self, now: Nanos) {
        if self.plan.moves == Moves::Off {
            return;
        }
        if self.volume.journal.needs_checkpoint(&self.volume.layout) {
            if !self.volume.are_notes_late(now) {
                self.mover.begin_map();
            }
        } else if let Some(choice) = self.chooser.look(now, &self.volume.map, &self.heat) {
            self.mover.begin(now, choice, &mut self.volume);
        }
    }

    fn take_change(&mut self, change: Change, units: &UnitTable) {
        match change {
            Change::None => {}
            Change::Held => {
                let source = self.mover.source();
                let is_write = |unit: &&UnitEntry| {
                    changes_content(unit.ticket.kind)
                        && self.is_at(source, unit.server, unit.offset)
                };
                let under_way = units.live().filter(is_write).count();
                self.mover.drain(u32::try_from(under_way).expect("units are numbered by u32"));
            }
            Change::Released => self.release_held(),
            Change::Switched { from } => {
                let refer = |unit: &&UnitEntry| self.is_at(Some(from), unit.server, unit.offset);
                let left = u32::try_from(units.live().filter(refer).count());
                let left = left.expect("units are numbered by u32");
                let frees_early = self.mover.rules.is_broken(Mutant::FreeEarly);
                self.vacate(from, if frees_early { 0 } else { left });
                self.release_held();
            }
        }
    }

    fn release_held(&mut self) {
        self.released.extend(self.held.drain(..).rev().map(|(slot, _)| slot));
    }

    /// So many units still refer to a slot that was left.
    fn vacate(&mut self, place: Place, units: u32) {
        self.vacating = (units > 0).then_some((place, units));
        if units == 0 {
            self.volume.map.release(place);
            self.is_due = true;
        }
    }

    /// The bit that stands for the tier of this server.
    fn bit_of(&self, server: ServerId) -> u64 {
        1 << self.tier_of(server)
    }

    pub(crate) fn tier_of(&self, server: ServerId) -> usize {
        let tier = self.plan.servers.iter().position(|one| *one == server);
        tier.expect("pieces and steps go to tiers")
    }

    /// Where the first piece of a request after `at` bytes lies: tier, offset there and length.
    fn find(&self, request: &Request, at: u64) -> (usize, u64, u64) {
        let (offset, length) = (request.offset + at, request.length - at);
        let extent = self.extent_of(offset);
        let place = self.volume.map.place(extent);
        let into = offset - (u64::from(extent) << self.extent_bits);
        let left = (1 << self.extent_bits) - into;
        let start = self.volume.layout.slot_offset(place.tier(), place.slot());
        (place.tier(), start + into, length.min(left))
    }

    fn extent_of(&self, offset: u64) -> u32 {
        // An empty request may stand at the very end.
        let last = self.volume.map.extents() - 1;
        u32::try_from(offset >> self.extent_bits).map_or(last, |extent| extent.min(last))
    }

    /// Whether an offset of a server lies in this place.
    fn is_at(&self, place: Option<Place>, server: ServerId, offset: u64) -> bool {
        place.is_some_and(|place| {
            let start = self.volume.layout.slot_offset(place.tier(), place.slot());
            self.plan.servers[place.tier()] == server
                && (start..start + self.volume.layout.extent_bytes).contains(&offset)
        })
    }
}

impl Placement for Serving {
    fn place(&self, now: Nanos, request: &Request, at: u64) -> Placed {
        if self.possession.is_claimed() {
            return Placed::Refused(Refused::Claimed);
        }
        if !self.possession.is_held(now) {
            let is_given_up = self.possession.is_given_up(now);
            return if is_given_up { Placed::Refused(Refused::Lapsed) } else { Placed::Wait };
        }
        let (tier, offset, length) = self.find(request, at);
        let server = self.plan.servers[tier];
        if self.is_stale[tier] {
            return Placed::Refused(Refused::Stale(server));
        }
        let piece = Piece { server, offset, length };
        if !changes_content(request.kind) || !self.is_at(self.mover.source(), server, offset) {
            Placed::Piece(piece)
        } else if self.mover.is_in_doubt() {
            Placed::Refused(Refused::InDoubt)
        } else if self.mover.is_holding() {
            Placed::Wait
        } else {
            Placed::Piece(piece)
        }
    }

    fn flushed(&self, index: usize) -> Option<ServerId> {
        self.plan.servers.get(index).copied()
    }
}
