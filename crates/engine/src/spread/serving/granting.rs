//! The first write to an object gives it a place: chosen, entered by its server, noted by the
//! keepers of the choices, in force.

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::place::choose::choose;
use evenkeel_core::place::policy::View;
use evenkeel_core::time::Nanos;

use super::super::place::Place;
use super::super::rules::Mutant;
use super::super::scribe::Entering;
use super::super::volume::Volume;
use super::Serving;
use crate::Refused;
use crate::units::UnitTable;

/// An object on its way to a place.
#[derive(Debug)]
pub(super) struct Grant {
    server: usize,
    slot: u32,
    position: usize,
    pub(super) stage: Stage,
    /// Requests that wait for it.
    pub(super) waiters: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its server is to enter it.
    Entering,
    /// The keepers are to note this version of its page.
    Choosing { version: u64 },
    /// No keeper could; nobody knows whether the choice is noted.
    InDoubt,
}

impl Serving {
    /// Chooses a place for an object.
    pub(super) fn grant(
        &mut self,
        now: Nanos,
        object: u32,
        payer: TenantId,
    ) -> Result<(), Refused> {
        self.end_rests(now);
        self.check_keepers(now)?;
        let servers: Vec<usize> = self.volume.candidates(object).flatten().collect();
        let staying: Vec<usize> = (0..servers.len())
            .filter(|position| !self.volume.layout.is_leaving(servers[*position]))
            .collect();
        let stays: Vec<usize> = staying.iter().map(|position| servers[*position]).collect();
        // Only if no other has room an object goes where it cannot stay.
        let picked = match stays.len() {
            0 => self.pick(now, &servers),
            _ => self.pick(now, &stays).map(|at| staying[at]).or_else(|_| self.pick(now, &servers)),
        };
        let position = match picked {
            Ok(position) => position,
            Err(server) if self.volume.away == Some(server) => {
                return Err(self.why_absent(server));
            }
            Err(server) if self.is_full(server) => {
                self.full += 1;
                return Err(Refused::NoRoom(self.server_id(server)));
            }
            Err(server) => return Err(Refused::Away(self.server_id(server))),
        };
        let server = servers[position];
        let slot = self.take_slot(now, server);
        let slot = slot.ok_or(Refused::NoRoom(self.plan.servers[server]))?;
        self.volume.sequence += 1;
        let sequence = self.volume.sequence;
        let entering = Entering { object, slot, sequence, payer, is_copied: false };
        self.scribes[server].queue.push(entering);
        let (stage, waiters) = (Stage::Entering, Vec::new());
        let grant = Grant { server, slot, position, stage, waiters };
        let waiters = self.grants.insert(object, grant).map_or_else(Vec::new, |old| old.waiters);
        self.grants.get_mut(&object).expect("just inserted").waiters = waiters;
        self.report_load(server, now);
        self.is_due = true;
        if self.rules.is_broken(Mutant::ChoiceFirst) {
            self.choose_now(object, payer);
        }
        Ok(())
    }

    /// An object is entered in its server's table; now its choice.
    pub(super) fn entered(&mut self, now: Nanos, one: &Entering, units: &UnitTable) {
        if one.is_copied {
            return self.moved_entered(now, one, units);
        }
        if self.rules.is_broken(Mutant::ChoiceFirst) {
            return self.put_in_force(one.object);
        }
        self.choose_now(one.object, one.payer);
        self.count_choices(now);
    }

    /// Has the choice of an object noted by the keepers.
    fn choose_now(&mut self, object: u32, payer: TenantId) {
        let grant = self.grants.get_mut(&object).expect("its entry was asked for");
        self.volume.choices.set(u64::from(object), Some(grant.position));
        self.note_choices(Some(payer));
        let version = self.volume.versions[Volume::page_of(object) as usize];
        let grant = self.grants.get_mut(&object).expect("its entry was asked for");
        grant.stage = Stage::Choosing { version };
    }

    /// Has all choices noted that have changed, on the account of this tenant, if one waits.
    pub(in crate::spread) fn note_choices(&mut self, payer: Option<TenantId>) {
        while let Some(page) = self.volume.choices.take_changed() {
            self.volume.versions[page as usize] += 1;
            for keeper in self.volume.keepers().collect::<Vec<_>>() {
                self.scribes[keeper].pages.insert(page);
                self.scribes[keeper].pages_payer = self.scribes[keeper].pages_payer.or(payer);
            }
        }
    }

    /// Whether all keepers that are at work have this version of an object's page; that it will
    /// never be known if they are too few.
    pub(in crate::spread) fn is_noted(
        &self,
        now: Nanos,
        object: u32,
        version: u64,
    ) -> Option<bool> {
        let page = Volume::page_of(object) as usize;
        let has = |keeper: &usize| self.volume.pages[*keeper][page].number >= version;
        let copies = self.volume.keepers().filter(has).count();
        let is_known = copies >= self.copies_needed();
        self.working_keepers(now).all(|keeper| has(&keeper)).then_some(is_known)
    }

    /// How many keepers have to note a choice before it counts.
    fn copies_needed(&self) -> usize {
        if self.rules.is_broken(Mutant::OneCopy) { 1 } else { self.volume.copies_needed() }
    }

    /// The keepers of the choices that can be written to.
    fn working_keepers(&self, now: Nanos) -> impl Iterator<Item = usize> {
        self.volume.keepers().filter(move |keeper| now >= self.rest_until[*keeper])
    }

    /// Whether enough keepers can be written to for a choice to count.
    ///
    /// # Errors
    /// One that cannot.
    pub(in crate::spread) fn check_keepers(&self, now: Nanos) -> Result<(), Refused> {
        let working = self.working_keepers(now).count();
        if working >= self.copies_needed() {
            return Ok(());
        }
        let resting = self.volume.keepers().find(|keeper| now < self.rest_until[*keeper]);
        Err(match resting.or(self.volume.away) {
            Some(keeper) => Refused::Away(self.server_id(keeper)),
            None => Refused::InDoubt,
        })
    }

    /// Puts every place in force whose choice all keepers have that are at work.
    pub(super) fn count_choices(&mut self, now: Nanos) {
        let noted = self.grants.iter().filter_map(|(object, grant)| {
            let Stage::Choosing { version } = grant.stage else { return None };
            self.is_noted(now, *object, version).map(|is_known| (*object, is_known))
        });
        for (object, is_known) in noted.collect::<Vec<_>>() {
            if !is_known {
                let grant = self.grants.get_mut(&object).expect("found above");
                grant.stage = Stage::InDoubt;
                self.released.append(&mut grant.waiters);
            } else if !self.rules.is_broken(Mutant::ChoiceFirst) {
                self.put_in_force(object);
            }
        }
    }

    fn put_in_force(&mut self, object: u32) {
        let grant = self.grants.remove(&object).expect("it was being placed");
        self.volume.places.set(object, Place::new(grant.server, grant.slot));
        self.count_to_move(object, true);
        self.placed += 1;
        self.diverted += u64::from(grant.position > 0);
        self.released.extend(grant.waiters);
    }

    /// The best of these servers.
    ///
    /// # Errors
    /// The one that comes closest to having room.
    pub(in crate::spread) fn pick(
        &mut self,
        now: Nanos,
        servers: &[usize],
    ) -> Result<usize, usize> {
        self.refresh_loads(now, servers);
        let view = View { loads: &self.loads, size_bytes: self.volume.layout.object_bytes };
        let ids: Vec<[ServerId; 1]> = servers
            .iter()
            .map(|&server| [ServerId(u32::try_from(server).expect("few servers"))])
            .collect();
        let ceiling = f64::from(self.plan.ceiling_milli) / 1000.0;
        let picked = choose(&*self.policy, &view, ids.iter().map(|id| &id[..]), ceiling);
        picked.map_err(|no_room| no_room.server.index())
    }
}
