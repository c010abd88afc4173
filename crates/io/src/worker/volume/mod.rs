//! Opening volumes over other backends: the members as devices, what they say of themselves, the
//! volume over them.
//!
//! ```text
//! policy has it -> members open -> their heads are read -> map to the engine -> open, moves begin
//!       ^              |                  |                                    |
//!       +---- pause ---+---- trouble -----+        another gate has it: v
//!       +------------------- the operator's word <------ all of it is forgotten
//! ```
//!
//! A volume is opened when the gate starts or the policy gets it, whether or not somebody asks for
//! it, and stays open. Until then its clients are refused with what stands in the way, and the
//! gate keeps trying: a tier may come, or be put right.

mod absent;
mod ahead;
mod asking;
mod care;
mod resizing;
mod succession;

use std::fmt::Display;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::Target;
use evenkeel_engine::lease::OwnerId;
use evenkeel_engine::notes::{PartDevice, Unfit, VolumeId};
use evenkeel_engine::policy::{self, Backend, Member, Source, SpreadPlan, Takeover, TierPlan};
use evenkeel_engine::spread::{self, Mended, Missed, Shape};
use evenkeel_engine::tiers;
use evenkeel_wire::nbd::proto::TransmissionFlags;
use rustix::rand::GetRandomFlags;
use tokio::task::{JoinSet, spawn_local};

use succession::Noting;

use super::Worker;
use super::open::Wanted;
use crate::device::remote::Membership;
use crate::device::remote::connect::Route;
use crate::device::tiered::TieredDisk;
use crate::device::{Device, Features, Medium};
use crate::domain::Domain;
use crate::domain::moves::Clerk;
use crate::domain::pulse::Pulse;
use crate::domain::spread::OpenVolume;
use crate::hosts::Host;
use crate::lease::VolumeLease;
use crate::op::LossesHeard;
use crate::plan::{Plan, PlannedDomain};
use crate::word::Word;

/// Between two attempts to open a volume, shorter at first.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Between two looks at a tier whose server is not there yet.
const LOOK: Duration = Duration::from_millis(100);

/// How long a file may be locked before that is taken to be another gate's doing.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// The least that is read or written of what a volume notes of itself; see [`Ask`].
const NOTE_BYTES: u32 = 4096;

/// An open volume at work.
#[derive(Clone)]
struct Running {
    clerk: Clerk,
    /// Its members, in the order of the policy.
    servers: Vec<ServerId>,
    /// Who pays for what nobody waits for.
    tenant: TenantId,
    lease: Rc<VolumeLease>,
}

/// What keeps an open volume going.
enum AtWork {
    Tiered(Running),
    Spread(Box<Spread>, Vec<Host>),
}

/// What opens one volume.
struct Keeper {
    worker: Rc<Worker>,
    domain: Rc<Domain>,
    /// The backend that the volume is; its domain has the same name.
    name: String,
    /// Tiers in memory, which must not be lost over a second attempt.
    in_memory: Vec<(ServerId, Rc<Device>)>,
    /// This gate's openings of a spread volume.
    openings: Vec<OwnerId>,
    /// What is under way with the servers of a spread volume.
    underway: Option<Noting>,
    word: Rc<Word>,
    purpose: Purpose,
}

/// What a volume is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To be served.
    Serve,
    /// To be mended, and let go of. The operator may have said in advance that gates which have not
    /// let go are gone.
    Repair { has_word: bool },
}

/// A member, with what it can do unless it is away.
struct OpenMember {
    device: Rc<Device>,
    features: Option<Features>,
    description: PartDevice,
}

/// A spread volume at work.
struct Spread {
    running: Running,
    members: Vec<OpenMember>,
    /// Without a size: it grows once all its servers are there.
    shape: Shape,
    leaving: Vec<bool>,
    missed: Option<Missed>,
}

impl Running {
    /// Who pays, and what losses the gate has heard of.
    fn account(&self) -> (TenantId, &Rc<LossesHeard>) {
        (self.tenant, &self.clerk.heard)
    }

    fn is_remote(&self, server: ServerId) -> bool {
        matches!(self.clerk.device.tier(server).medium, Medium::Remote(_))
    }

    /// Begins to beat on every member that is there.
    fn beat(&self, away: Option<usize>) {
        self.spawn_pulses(away, |_| true);
    }

    /// Begins to beat on the members that other gates may reach, and to serve. Those of this
    /// machine are locked; where there are no others, nobody can take the volume.
    fn beat_on_servers(&self) {
        self.spawn_pulses(None, |server| self.is_remote(server));
        let is_ours = !self.servers.iter().any(|server| self.is_remote(*server));
        let until = if is_ours { Nanos(u64::MAX) } else { self.lease.held_until() };
        self.clerk.domain.held(until);
    }

    fn spawn_pulses(&self, away: Option<usize>, beats: impl Fn(ServerId) -> bool) {
        let there = self.servers.iter().enumerate().filter(|(index, _)| away != Some(*index));
        for (index, &server) in there {
            let (clerk, tenant, lease) = (self.clerk.clone(), self.tenant, Rc::clone(&self.lease));
            let (beats, marks) = (beats(server), Rc::default());
            spawn_local(Pulse { clerk, server, index, lease, tenant, beats, marks }.run());
        }
    }
}

impl Worker {
    /// Opens the volume of a domain, and makes the moves that the engine asks for from then on.
    pub(super) fn keep_volume(self: &Rc<Self>, domain: &Rc<Domain>, name: &str) {
        spawn_local(Keeper::new(self, domain, name).keep());
    }
}

impl Keeper {
    fn new(worker: &Rc<Worker>, domain: &Rc<Domain>, name: &str) -> Self {
        Self {
            worker: Rc::clone(worker),
            domain: Rc::clone(domain),
            name: name.to_owned(),
            in_memory: Vec::new(),
            openings: Vec::new(),
            underway: None,
            word: worker.word(name),
            purpose: Purpose::Serve,
        }
    }

    fn is_repair(&self) -> bool {
        self.purpose != Purpose::Serve
    }

    async fn keep(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            match self.attempt().await {
                Ok(at_work) => {
                    self.word.settle();
                    self.serve_until_lost(at_work).await;
                    pause = PAUSE_MIN;
                }
                Err(why) => self.note(&why),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.word.given() => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Serves a volume until another gate has it, and the operator wants it here again.
    async fn serve_until_lost(&mut self, at_work: AtWork) {
        let (Running { clerk, lease, .. }, spread, hosts) = match at_work {
            AtWork::Tiered(running) => (running, None, Vec::new()),
            AtWork::Spread(spread, hosts) => (spread.running.clone(), Some(spread), hosts),
        };
        let mut tasks = JoinSet::new();
        for host in hosts {
            tasks.spawn_local(host.watch());
        }
        if spread.is_some() {
            tasks.spawn_local(resizing::keep_up(Rc::clone(&self.domain)));
        }
        let waits = async {
            if let Some(spread) = spread {
                self.take_up(*spread).await;
            }
            lease.lost().await;
        };
        tokio::select! {
            () = clerk.run() => unreachable!("it makes steps without end"),
            () = waits => {}
            () = lease.lost() => {}
        }
        drop(tasks);
        self.domain.forget_volume().await;
        let question = format!(
            "another gate has had volume {:?} since: clients that still use it may hold older \
             content; once they have forgotten it, open it here again",
            self.name
        );
        self.word.wait_for(&question).await;
    }

    fn note(&self, why: &str) {
        let volume = self.domain.volume().expect("only volumes are kept");
        if volume.note_trouble(why) {
            tracing::warn!(volume = self.name, why, "volume not open");
        }
    }

    /// Opens the volume, if that can be done now.
    async fn attempt(&mut self) -> Result<AtWork, String> {
        let plan = self.worker.plan();
        let backend = plan.backend(&self.name).ok_or("the policy no longer has it")?;
        if !backend.is_volume() {
            return Err("the policy has something else under its name".to_owned());
        }
        let planned = plan.domain(&self.name).ok_or("the policy no longer has it")?;
        let lease = self.new_lease(backend, planned).ok_or("its members have no lease")?;
        let (members, away) = self.members(&plan, backend, planned, &lease).await?;
        let parts = members.iter();
        let parts = parts.map(|member| (Rc::clone(&member.device), member.features.as_ref()));
        let disk = TieredDisk::new(parts.collect());
        let disk = disk.ok_or("there is no size of request that all members take")?;
        match (&backend.source, &planned.domain.tiers, &planned.domain.spread) {
            (Source::Tiered(volume), Some(terms), _) => {
                self.open_tiered((volume, terms), (members, disk), lease).await
            }
            (Source::Spread(volume), _, Some(terms)) => {
                self.open_spread((volume, terms), (members, away, disk), lease).await
            }
            _ => Err("the policy has something else under its name".to_owned()),
        }
    }

    async fn open_tiered(
        &mut self,
        (volume, terms): (&policy::Tiered, &TierPlan),
        (members, disk): (Vec<OpenMember>, TieredDisk),
        lease: Rc<VolumeLease>,
    ) -> Result<AtWork, String> {
        let heard = Rc::new(LossesHeard::new(disk.losses()));
        let is_local = |member: &OpenMember| !matches!(member.device.medium, Medium::Remote(_));
        let is_locked = members.iter().all(is_local);
        let names = self.names(&lease)?;
        let opening = tiers::Opening::new(names, volume.extent_bytes, descriptions(&members))
            .watching(volume.takeover.unfenced_after.unwrap_or(Span::ZERO))
            .heeding(self.tell_late_writes(members.len()))
            .resting(if is_locked { Span::ZERO } else { volume.takeover.late })
            .locked(is_locked)
            .knowing(self.known()?);
        let opening = if self.is_repair() { opening.repairing() } else { opening };
        let found = self.open(&members, opening, (terms.mover, &heard), &lease).await;
        let found = found.map_err(|why| self.with_remedy(&why, why.unfit()))?;
        lease.opened(|tier| Some(self.of_member(&members[tier], found.lease(tier))));
        self.remember(&lease, found.witness());
        let device = self.opened(disk, found.id(), found.size_bytes());
        let (domain, data) = (Rc::clone(&self.domain), Rc::default());
        let (servers, tenant) = (terms.servers.clone(), terms.mover);
        let clerk = Clerk { domain, device, heard, data };
        let running = Running { clerk, servers, tenant, lease };
        self.domain.serve(OpenVolume::Tiered(found), Rc::clone(&running.clerk.device));
        running.beat_on_servers();
        Ok(AtWork::Tiered(running))
    }

    async fn open_spread(
        &mut self,
        (volume, terms): (&policy::Spread, &SpreadPlan),
        (members, away, disk): (Vec<OpenMember>, Option<usize>, TieredDisk),
        lease: Rc<VolumeLease>,
    ) -> Result<AtWork, String> {
        let heard = Rc::new(LossesHeard::new(disk.losses()));
        let names = self.names(&lease)?;
        let leaving = |server: &Member| volume.leaving.contains(&server.backend);
        let leaving: Vec<bool> = volume.servers.iter().map(leaving).collect();
        let devices = descriptions(&members);
        let opening = spread::Opening::new(names, volume.shape, devices, leaving.clone())
            .watching(volume.takeover.unfenced_after.unwrap_or(Span::ZERO))
            .heeding(self.tell_late_writes(members.len()))
            .knowing(self.known()?);
        let opening = match away {
            Some(_) if self.is_repair() => return Err("a repair needs all servers".to_owned()),
            Some(server) => opening.without(server),
            None if self.is_repair() => opening.repairing(),
            None => opening,
        };
        let found = self.open(&members, opening, (terms.clerk, &heard), &lease).await;
        let found = found.map_err(|why| self.with_remedy(&why, why.unfit()))?;
        lease.opened(|server| Some(self.of_member(&members[server], found.lease_of(server)?)));
        self.remember(&lease, found.witness());
        let device = self.opened(disk, found.id(), found.size_bytes());
        self.tell_mended(&found);
        let (domain, data) = (Rc::clone(&self.domain), Rc::default());
        let (servers, tenant) = (terms.servers.clone(), terms.clerk);
        let clerk = Clerk { domain, device, heard, data };
        let running = Running { clerk, servers, tenant, lease };
        let missed = Missed::of(&found);
        let shape = Shape { size_bytes: None, ..volume.shape };
        let spread = Spread { running, members, shape, leaving, missed };
        let hosts = volume.servers.iter().zip(&terms.servers);
        let hosts = hosts.map(|(member, server)| self.host(member, *server)).collect();
        self.tell_missed(&spread);
        spread.running.beat(found.away());
        self.domain.serve(OpenVolume::Spread(found), Rc::clone(&spread.running.clerk.device));
        self.domain.held(spread.running.lease.held_until());
        Ok(AtWork::Spread(Box::new(spread), hosts))
    }

    /// What looks at the host of a server.
    fn host(&self, member: &Member, server: ServerId) -> Host {
        Host {
            worker: Rc::clone(&self.worker),
            domain: Rc::clone(&self.domain),
            volume: self.name.clone(),
            backend: member.backend.clone(),
            server,
        }
    }

    /// The volume as a device.
    fn opened(&self, disk: TieredDisk, id: VolumeId, size_bytes: u64) -> Rc<Device> {
        tracing::info!(volume = self.name, %id, bytes = size_bytes, "open");
        disk.set_size(size_bytes);
        Rc::new(Device { target: Target::Volume, medium: Medium::Tiered(disk) })
    }

    /// Why the volume is not opened, with what the operator can do about another gate's claim.
    fn with_remedy(&self, why: &impl Display, unfit: Option<&Unfit>) -> String {
        let volume = &self.name;
        match (unfit, self.known_at()) {
            (Some(Unfit::Unfenced { .. }), _) => {
                let command = if self.is_repair() {
                    "evenkeel volume repair --claim".to_owned()
                } else {
                    format!("evenkeel ctl claim {volume}")
                };
                format!("{why}; make sure that it is dead, then say so: {command}")
            }
            (Some(Unfit::HeadDamaged), _) if !self.is_repair() => format!(
                "{why}. If the other members allow it, this mends it: evenkeel volume repair \
                 POLICY {volume}"
            ),
            (Some(Unfit::Blank), _) if !self.is_repair() => format!(
                "{why}. To see whether only its heads are lost: evenkeel volume check POLICY \
                 {volume}"
            ),
            (Some(Unfit::Lost { .. } | Unfit::NotKnown { .. }), Some(path)) => {
                let path = path.display();
                format!("{why}; or, if that volume is gone for good, remove {path}")
            }
            (Some(Unfit::PutBack), Some(path)) => {
                let path = path.display();
                format!("{why}; or, if the older content is wanted, remove {path}")
            }
            _ => why.to_string(),
        }
    }

    /// Says what an opening had to put right, and what is lost.
    fn tell_mended(&self, found: &spread::Volume) {
        let Mended { adopted, rebuilt_pages, damaged_blocks, doubtful_blocks } = found.mended();
        let (volume, lost) = (&self.name, found.lost_objects());
        if doubtful_blocks > 0 {
            tracing::warn!(
                volume,
                doubtful_blocks,
                "copies of tables are damaged, and may have been the newest; after a power cut \
                 that is mostly a write that was cut short"
            );
        }
        if adopted + rebuilt_pages + damaged_blocks > 0 {
            tracing::warn!(volume, adopted, rebuilt_pages, damaged_blocks, "notes were mended");
        }
        let (objects_left, to_move) = (found.objects_left(), found.objects_to_move());
        if objects_left > 0 {
            tracing::info!(volume, objects_left, to_move, "objects pass to other servers");
        }
        if lost > 0 {
            tracing::error!(volume, lost, "objects are not where they were written; restore them");
        }
    }

    /// Opens the members, and waits until they have told what they can do; one may be away.
    async fn members(
        &mut self,
        plan: &Plan,
        backend: &Backend,
        planned: &PlannedDomain,
        lease: &Rc<VolumeLease>,
    ) -> Result<(Vec<OpenMember>, Option<usize>), String> {
        let mut members = Vec::new();
        let routes: Vec<Option<Route>> = backend
            .members()
            .iter()
            .map(|member| Some(plan.terms(&member.backend)?.route.clone()))
            .collect();
        let late = backend.source.takeover().map_or(Takeover::LATE, |takeover| takeover.late);
        for (index, member) in backend.members().iter().enumerate() {
            let server = planned.server(&member.backend).ok_or("the policy has no such backend")?;
            let membership = Membership { guard: lease.guard(index), late, routes: routes.clone() };
            let device = self.device(plan, member, server, membership);
            let device = device.map_err(|why| format!("{}: {why}", self.called(member)))?;
            members.push((member, server, device));
        }
        let away = self.wait_for(&members).await;
        let mut opened = Vec::new();
        for (index, (member, server, device)) in members.into_iter().enumerate() {
            let one = self.member(member, (server, device), away == Some(index)).await;
            opened.push(one.map_err(|why| format!("{}: {why}", self.called(member)))?);
        }
        Ok((opened, away))
    }

    /// Looks at what a member says that it can do, once it has told, unless it is away.
    async fn member(
        &self,
        tier: &Member,
        (server, device): (ServerId, Rc<Device>),
        is_away: bool,
    ) -> Result<OpenMember, String> {
        if is_away {
            let description = PartDevice { name: tier.backend.clone(), size_bytes: 0 };
            return Ok(OpenMember { device, features: None, description });
        }
        if let Medium::File(disk) = &device.medium {
            // Two gates would move each other's extents away.
            let locked = disk.lock(LOCK_PATIENCE).await;
            locked.map_err(|error| format!("another program has locked it ({error})"))?;
        }
        let features = self.features(&device, tier).await;
        let size_bytes = usable(&features, tier)?;
        self.domain.bound_unit(server, features.block_size.maximum_payload);
        let description = PartDevice { name: tier.backend.clone(), size_bytes };
        Ok(OpenMember { device, features: Some(features), description })
    }

    fn device(
        &mut self,
        plan: &Plan,
        tier: &Member,
        server: ServerId,
        membership: Membership,
    ) -> Result<Rc<Device>, String> {
        if let Some((_, device)) = self.in_memory.iter().find(|(known, _)| *known == server) {
            return Ok(Rc::clone(device));
        }
        let backend = plan.backend(&tier.backend).ok_or("the policy has no such backend")?;
        let membership = Some(membership);
        // What is to be mended is there.
        let size_bytes = tier.size_bytes.filter(|_| !self.is_repair());
        let wanted = Wanted { name: &tier.device, size_bytes, membership };
        let medium = self.worker.make(&self.domain, plan, backend, wanted);
        let medium = medium.map_err(|error| error.to_string())?;
        let is_in_memory = matches!(medium, Medium::Memory(_));
        let device = Rc::new(Device { target: Target::Server(server), medium });
        if is_in_memory {
            let (volume, tier) = (&self.name, &tier.backend);
            tracing::warn!(volume, tier, "in memory: the volume is gone when the gate stops");
            self.in_memory.push((server, Rc::clone(&device)));
        }
        Ok(device)
    }

    /// A member as people know it.
    fn called(&self, member: &Member) -> String {
        let kind = if self.domain.is_spread() { "server" } else { "tier" };
        format!("{kind} {:?}", member.backend)
    }

    /// Waits until a member can say what it can do; meanwhile the volume's trouble is its own.
    async fn features(&self, device: &Device, member: &Member) -> Features {
        loop {
            if let Some(features) = device.features() {
                return features;
            }
            if let Some(why) = device.trouble() {
                self.note(&format!("{}: {why}", self.called(member)));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// What openings have to know of members.
fn descriptions(members: &[OpenMember]) -> Vec<PartDevice> {
    members.iter().map(|member| member.description.clone()).collect()
}

/// How much of a member may be used.
fn usable(features: &Features, tier: &Member) -> Result<u64, String> {
    if features.flags.contains(TransmissionFlags::READ_ONLY) {
        return Err("it can only be read, and a volume has to write what lies where".to_owned());
    }
    let minimum = features.block_size.minimum;
    if minimum > NOTE_BYTES {
        let [note, minimum] = [NOTE_BYTES, minimum].map(|bytes| Bytes(bytes.into()));
        return Err(format!("it takes no requests of {note}, but {minimum} at least"));
    }
    let size_bytes = tier.size_bytes.unwrap_or(features.size_bytes);
    if size_bytes > features.size_bytes {
        return Err(format!(
            "it has {}, and the policy wants {} of it",
            Bytes(features.size_bytes),
            Bytes(size_bytes)
        ));
    }
    Ok(size_bytes)
}

/// Bytes that nobody has drawn before.
fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}
