//! How a volume passes from one gate to the next: who this gate is, and whether the one before may
//! still write.

use std::path::PathBuf;
use std::rc::Rc;

use evenkeel_engine::lease::{Gate, LateWrites, Lease, Names, OwnerId, Times, Witness};
use evenkeel_engine::notes::VolumeId;
use evenkeel_engine::policy::{Backend, Member, Takeover};

use super::{Keeper, OpenMember, Purpose, random};
use crate::device::Medium;
use crate::fence;
use crate::known::{self, Known};
use crate::lease::VolumeLease;
use crate::plan::PlannedDomain;
use crate::underway::Underway;

/// Where it is noted what is under way with these servers.
pub(super) struct Noting {
    /// The servers, as the file knows them.
    names: Vec<String>,
    underway: Rc<Underway>,
}

impl Keeper {
    /// The lease that the volume is to be opened under; none if it takes none.
    pub(super) fn new_lease(
        &mut self,
        backend: &Backend,
        planned: &PlannedDomain,
    ) -> Option<Rc<VolumeLease>> {
        let takeover = backend.source.takeover()?;
        let tiers = planned.domain.tiers.as_ref().map(|plan| &plan.servers);
        let servers = planned.domain.spread.as_ref().map(|plan| &plan.servers).or(tiers)?;
        let underway = self.underway(backend.members(), takeover);
        Some(VolumeLease::new(&self.domain, takeover.times, servers, underway))
    }

    /// Where it is noted what is under way with the servers; none without a folder of its own.
    fn underway(&mut self, servers: &[Member], takeover: &Takeover) -> Option<Rc<Underway>> {
        let names = servers.iter().map(|member| format!("{}/{}", member.backend, member.device));
        let names: Vec<String> = names.collect();
        if let Some(known) = self.underway.as_ref().filter(|known| known.names == names) {
            return Some(Rc::clone(&known.underway));
        }
        // What the old file says is read again.
        self.underway = None;
        let folder = self.worker.shared.state.own_folder()?;
        let spans = (takeover.times.unacknowledged(), takeover.late);
        let opened = Underway::open(folder, &self.name, &names, self.worker.clock, spans);
        let opened = opened.inspect_err(|error| {
            let (volume, folder) = (&self.name, folder.display());
            tracing::warn!(
                volume, %folder, %error,
                "what is under way cannot be noted: after a crash of this gate the volume waits \
                 for a fence or the operator's word"
            );
        });
        let underway = Rc::new(opened.ok()?);
        self.underway = Some(Noting { names, underway: Rc::clone(&underway) });
        Some(underway)
    }

    /// What servers may still carry out that this gate had under way: in an earlier process, or on
    /// connections that are gone.
    pub(super) fn late_writes(&self, servers: usize) -> LateWrites {
        let Some(Noting { underway, .. }) = &self.underway else { return LateWrites::default() };
        let (until, ranges) = underway.late();
        LateWrites::new(until, servers, ranges)
    }

    /// The same, and says so.
    pub(super) fn tell_late_writes(&self, servers: usize) -> LateWrites {
        let late = self.late_writes(servers);
        let now = self.worker.clock.now();
        if !late.is_over(now) {
            let (volume, wait) = (&self.name, late.until().since(now));
            tracing::warn!(
                volume,
                ?wait,
                "servers may still carry out what this gate had under way: nothing is written \
                 there meanwhile"
            );
        }
        late
    }

    /// Names for the next opening of the volume, which are remembered.
    ///
    /// # Errors
    /// None can be drawn.
    pub(super) fn names(&mut self, lease: &VolumeLease) -> Result<Names, String> {
        let no_name = |error| format!("no name can be drawn for it: {error}");
        let owner = OwnerId(random().map_err(no_name)?);
        let volume = VolumeId(random().map_err(no_name)?);
        let (gate, before) = (self.gate(lease), self.openings.clone());
        self.openings.push(owner);
        Ok(Names { volume, owner, gate, before })
    }

    /// Where this gate remembers the volume; none without a folder of its own, or where the volume
    /// is gone with the gate.
    pub(super) fn known_at(&self) -> Option<PathBuf> {
        let folder = self.worker.shared.state.own_folder()?;
        self.in_memory.is_empty().then(|| known::path_of(folder, &self.name))
    }

    /// What this gate knows of the volume.
    ///
    /// # Errors
    /// What it has remembered cannot be read.
    pub(super) fn known(&self) -> Result<Option<Witness>, String> {
        let Some(path) = self.known_at() else { return Ok(None) };
        known::read(&path).map_err(|error| {
            let path = path.display();
            format!("what this gate knows of it cannot be read: {path}: {error}; remove the file")
        })
    }

    /// Remembers the volume, which was just opened.
    pub(super) fn remember(&self, lease: &VolumeLease, witness: Witness) {
        let known = self.known_at().map(|path| Known::remember(&path, witness));
        let known = known.and_then(|known| {
            let (volume, told) = (&self.name, "it is not remembered that this volume was opened");
            known.inspect_err(|error| tracing::warn!(volume, %error, "{told}")).ok()
        });
        lease.remember(known);
    }

    /// The lease on a member, which may lose beats where it may lose other writes.
    pub(super) fn of_member(&self, member: &OpenMember, mut lease: Lease) -> Lease {
        let takeover = self.takeover().unwrap_or_default();
        lease.may_beat_late(takeover.late.0 / takeover.times.beat().0 + 1);
        if let Medium::Remote(remote) = &member.device.medium
            && !remote.keeps_writes()
        {
            lease.may_lose_beats();
        }
        lease
    }

    /// What this gate says of itself on the servers of its volume.
    fn gate(&self, lease: &VolumeLease) -> Gate {
        let state = &self.worker.shared.state;
        Gate {
            name: name(),
            times: self.takeover().map_or(Times::DEFAULT, |takeover| takeover.times),
            addresses: lease.addresses(),
            // A process that has not noted what it does must not be followed without a fence.
            state: self.underway.as_ref().map_or([0; 16], |_| state.id()),
            run: state.run,
        }
    }

    fn takeover(&self) -> Option<Takeover> {
        self.worker.plan().backend(&self.name)?.source.takeover().cloned()
    }

    /// Sees to it that gates which have not let go reach the servers no more; or that the operator
    /// takes it upon them that they might.
    pub(super) async fn fence(&self, losers: &[Gate], own_addresses: &str) -> bool {
        let volume = &self.name;
        let names: Vec<&str> = losers.iter().map(|gate| gate.name.as_str()).collect();
        let names = names.join(", ");
        let question = format!(
            "is {names} gone for good? It has not let go of volume {volume:?}, and is not fenced \
             off: what it still writes destroys what is written here"
        );
        let has_word = self.purpose == Purpose::Repair { has_word: true };
        if has_word || self.word.ask(&question) {
            tracing::warn!(volume, names, "displaced without a fence, at the operator's word");
            return true;
        }
        let Some(takeover) = self.takeover() else { return false };
        if let Some(span) = takeover.unfenced_after {
            let silent_for = format!("{span:?}");
            tracing::warn!(volume, names, silent_for, "displaced without a fence, by the policy");
            return true;
        }
        if takeover.fence.is_empty() {
            return false;
        }
        for loser in losers {
            if is_here(loser, own_addresses) {
                tracing::error!(
                    volume,
                    loser = loser.name,
                    "it has the addresses of this very machine, and is not fenced off"
                );
                return false;
            }
            if let Err(why) = fence::run(&takeover.fence, volume, loser).await {
                tracing::error!(volume, loser = loser.name, why, "a gate is not fenced off");
                return false;
            }
            tracing::warn!(volume, loser = loser.name, "a gate is fenced off");
        }
        true
    }
}

/// Whether a gate is on this very machine: to fence it off would end this gate as well.
fn is_here(loser: &Gate, own: &str) -> bool {
    let own: Vec<&str> = own.split(' ').collect();
    !loser.addresses.is_empty() && loser.addresses.split(' ').all(|one| own.contains(&one))
}

/// What this gate calls itself before others that want its volume.
fn name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "an unnamed host" } else { host.trim() };
    format!("the gate on {host}, process {}", std::process::id())
}
