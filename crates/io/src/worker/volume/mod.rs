//! Opening volumes over other backends: the members as devices, what they say of themselves, the
//! volume over them.
//!
//! ```text
//! policy has it -> members open -> their heads are read -> map to the engine -> open, moves begin
//!       ^              |                  |
//!       +---- pause ---+---- trouble -----+
//! ```
//!
//! A volume is opened when the gate starts or the policy gets it, whether or not somebody asks for
//! it, and stays open. Until then its clients are refused with what stands in the way, and the
//! gate keeps trying: a tier may come, or be put right.

mod absent;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_engine::Target;
use evenkeel_engine::notes::{Answer, Ask, Opens, PartDevice, VolumeId};
use evenkeel_engine::policy::{Backend, Member, Source, SpreadPlan};
use evenkeel_engine::spread::{self, Mended, Missed, Names, OwnerId, Shape};
use evenkeel_engine::tiers;
use evenkeel_wire::nbd::proto::TransmissionFlags;
use rustix::rand::GetRandomFlags;
use tokio::task::spawn_local;

use super::Worker;
use super::open::Wanted;
use crate::buffer::Buf;
use crate::device::tiered::TieredDisk;
use crate::device::{Device, Features, Medium};
use crate::domain::Domain;
use crate::domain::errand::Task;
use crate::domain::moves::Mover;
use crate::domain::spread::Clerk;
use crate::hosts::Host;
use crate::op::LossesHeard;
use crate::plan::{Plan, PlannedDomain};

/// Between two attempts to open a volume, shorter at first.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Between two looks at a tier whose server is not there yet.
const LOOK: Duration = Duration::from_millis(100);

/// How long a file may be locked before that is taken to be another gate's doing.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// The least that is read or written of what a volume notes of itself; see [`Ask`].
const NOTE_BYTES: u32 = 4096;

/// What keeps an open volume going.
enum AtWork {
    Tiered(Mover),
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
}

/// A member, with what it can do unless it is away.
struct OpenMember {
    device: Rc<Device>,
    features: Option<Features>,
    description: PartDevice,
}

/// A spread volume at work.
struct Spread {
    clerk: Clerk,
    members: Vec<OpenMember>,
    terms: SpreadPlan,
    shape: Shape,
    leaving: Vec<bool>,
    /// This gate's openings of it.
    openings: Vec<OwnerId>,
    missed: Option<Missed>,
}

impl Worker {
    /// Opens the volume of a domain, and makes the moves that the engine asks for from then on.
    pub(super) fn keep_volume(self: &Rc<Self>, domain: &Rc<Domain>, name: &str) {
        let keeper = Keeper {
            worker: Rc::clone(self),
            domain: Rc::clone(domain),
            name: name.to_owned(),
            in_memory: Vec::new(),
        };
        spawn_local(keeper.keep());
    }
}

impl Keeper {
    async fn keep(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            match self.attempt().await {
                Ok(AtWork::Tiered(mover)) => return mover.run().await,
                Ok(AtWork::Spread(spread, hosts)) => {
                    for host in hosts {
                        spawn_local(host.watch());
                    }
                    let clerk = spread.clerk.clone();
                    spawn_local(async move { self.take_up(*spread).await });
                    return clerk.run().await;
                }
                Err(why) => self.note(&why),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
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
        let (members, away) = self.members(&plan, backend, planned).await?;
        let parts = members.iter();
        let parts = parts.map(|member| (Rc::clone(&member.device), member.features.as_ref()));
        let disk = TieredDisk::new(parts.collect());
        let disk = disk.ok_or("there is no size of request that all members take")?;
        let heard = Rc::new(LossesHeard::new(disk.losses()));
        let no_name = |error| format!("no name can be drawn for it: {error}");
        let fresh = VolumeId(random().map_err(no_name)?);
        let devices = members.iter().map(|member| member.description.clone()).collect();
        match (&backend.source, &planned.domain.tiers, &planned.domain.spread) {
            (Source::Tiered(volume), Some(terms), _) => {
                let opening = tiers::Opening::new(fresh, volume.extent_bytes, devices);
                let found = self.open(&members, opening, (terms.mover, &heard)).await;
                let found = found.map_err(|why| why.to_string())?;
                let device = self.opened(disk, found.id(), found.size_bytes());
                self.domain.serve_volume(found, Rc::clone(&device));
                let domain = Rc::clone(&self.domain);
                Ok(AtWork::Tiered(Mover { domain, device, heard, data: None }))
            }
            (Source::Spread(volume), _, Some(terms)) => {
                let owner = OwnerId(random().map_err(no_name)?);
                let before = Vec::new();
                let names = Names { volume: fresh, owner, owner_name: gate_name(), before };
                let leaving = |server: &Member| volume.leaving.contains(&server.backend);
                let leaving: Vec<bool> = volume.servers.iter().map(leaving).collect();
                let opening = spread::Opening::new(names, volume.shape, devices, leaving.clone());
                let opening = match away {
                    Some(server) => opening.without(server),
                    None => opening,
                };
                let found = self.open(&members, opening, (terms.clerk, &heard)).await;
                let found = found.map_err(|why| why.to_string())?;
                let device = self.opened(disk, found.id(), found.size_bytes());
                self.tell_mended(&found);
                let (domain, data) = (Rc::clone(&self.domain), Rc::default());
                let spread = Spread {
                    clerk: Clerk { domain, device, heard, data },
                    members,
                    terms: terms.clone(),
                    shape: volume.shape,
                    leaving,
                    openings: vec![owner],
                    missed: Missed::of(&found),
                };
                let hosts = volume.servers.iter().zip(&terms.servers);
                let hosts = hosts.map(|(member, server)| self.host(member, *server)).collect();
                self.tell_missed(&spread);
                spread.beat(&found);
                self.domain.serve_spread(found, Rc::clone(&spread.clerk.device));
                Ok(AtWork::Spread(Box::new(spread), hosts))
            }
            _ => Err("the policy has something else under its name".to_owned()),
        }
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
        let medium = Medium::Tiered(disk.of_size(size_bytes));
        Rc::new(Device { target: Target::Volume, medium })
    }

    /// Says what an opening had to put right, and what is lost.
    fn tell_mended(&self, found: &spread::Volume) {
        let Mended { adopted, rebuilt_pages, damaged_blocks } = found.mended();
        let (volume, lost) = (&self.name, found.lost_objects());
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

    /// Reads what the members say of themselves, and makes a volume of them if they are blank.
    async fn open<O: Opens>(
        &self,
        members: &[OpenMember],
        mut opening: O,
        account: (TenantId, &Rc<LossesHeard>),
    ) -> Result<Box<O::Volume>, O::Refusal> {
        loop {
            let (part, task) = match opening.poll() {
                Ask::Read { part, offset, length } => (part, Task::Read { offset, length }),
                Ask::Write { part, offset, bytes } => {
                    (part, Task::Write { offset, data: Arc::new(Buf::copy_of(bytes)) })
                }
                Ask::Flush { part } => (part, Task::Flush),
                Ask::Wait(span) => {
                    tokio::time::sleep(Duration::from_nanos(span.0)).await;
                    opening.answer(Answer::Done);
                    continue;
                }
                Ask::Ready(volume) => return Ok(volume),
                Ask::Refused(refusal) => return Err(refusal),
            };
            let result = self.domain.run_errand(&members[part].device, account, task).await;
            opening.answer(match &result {
                Ok(Some(data)) => Answer::Read(data),
                Ok(None) => Answer::Done,
                Err(_) => Answer::Failed,
            });
        }
    }

    /// Opens the members, and waits until they have told what they can do; one may be away.
    async fn members(
        &mut self,
        plan: &Plan,
        backend: &Backend,
        planned: &PlannedDomain,
    ) -> Result<(Vec<OpenMember>, Option<usize>), String> {
        let mut members = Vec::new();
        for member in backend.members() {
            let server = planned.server(&member.backend).ok_or("the policy has no such backend")?;
            let device = self.device(plan, member, server);
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
    ) -> Result<Rc<Device>, String> {
        if let Some((_, device)) = self.in_memory.iter().find(|(known, _)| *known == server) {
            return Ok(Rc::clone(device));
        }
        let backend = plan.backend(&tier.backend).ok_or("the policy has no such backend")?;
        let wanted = Wanted { name: &tier.device, size_bytes: tier.size_bytes };
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

/// What this gate calls itself before others that want its volume.
fn gate_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "an unnamed host" } else { host.trim() };
    format!("the gate on {host}, process {}", std::process::id())
}
