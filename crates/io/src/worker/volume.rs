//! Opening tiered volumes: the tiers as devices, what they say of themselves, the volume over them.
//!
//! ```text
//! policy has it -> tiers open -> their heads are read -> map to the engine -> open, moves begin
//!       ^              |                  |
//!       +---- pause ---+---- trouble -----+
//! ```
//!
//! A volume is opened when the gate starts or the policy gets it, whether or not somebody asks for
//! it, and stays open. Until then its clients are refused with what stands in the way, and the
//! gate keeps trying: a tier may come, or be put right.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_engine::Target;
use evenkeel_engine::policy::{Source, Tier};
use evenkeel_engine::tiers::{Answer, Ask, Opening, TierDevice, Volume, VolumeId};
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
use crate::op::LossesHeard;
use crate::plan::Plan;

/// Between two attempts to open a volume, shorter at first.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Between two looks at a tier whose server is not there yet.
const LOOK: Duration = Duration::from_millis(100);

/// How long a file may be locked before that is taken to be another gate's doing.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// The least that is read or written of what a volume notes of itself; see [`Ask`].
const NOTE_BYTES: u32 = 4096;

/// What opens one volume.
struct Keeper {
    worker: Rc<Worker>,
    domain: Rc<Domain>,
    /// The backend that the volume is; its domain has the same name.
    name: String,
    /// Tiers in memory, which must not be lost over a second attempt.
    in_memory: Vec<(ServerId, Rc<Device>)>,
}

/// A tier that can be used.
struct OpenTier {
    device: Rc<Device>,
    features: Features,
    description: TierDevice,
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
                Ok(mover) => return mover.run().await,
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
    async fn attempt(&mut self) -> Result<Mover, String> {
        let plan = self.worker.plan();
        let backend = plan.backend(&self.name).ok_or("the policy no longer has it")?;
        let Source::Tiered(volume) = &backend.source else {
            return Err("the policy has something else under its name".to_owned());
        };
        let planned = plan.domain(&self.name).ok_or("the policy no longer has it")?;
        let terms = planned.domain.tiers.as_ref().ok_or("the policy no longer has it")?;
        let mut tiers = Vec::new();
        for tier in &volume.tiers {
            let server = planned.server(&tier.backend).ok_or("the policy has no such backend")?;
            let opened = self.tier(&plan, tier, server).await;
            tiers.push(opened.map_err(|why| format!("tier {:?}: {why}", tier.backend))?);
        }
        let parts = tiers.iter().map(|tier| (Rc::clone(&tier.device), &tier.features));
        let disk = TieredDisk::new(parts.collect());
        let disk = disk.ok_or("there is no size of request that all tiers take")?;
        let heard = Rc::new(LossesHeard::new(disk.losses()));
        let found = self.ask_tiers(&tiers, volume.extent_bytes, (terms.mover, &heard)).await?;
        let medium = Medium::Tiered(disk.of_size(found.size_bytes()));
        let device = Rc::new(Device { target: Target::Volume, medium });
        tracing::info!(volume = self.name, id = %found.id(), bytes = found.size_bytes(), "open");
        self.domain.serve_volume(found, Rc::clone(&device));
        Ok(Mover { domain: Rc::clone(&self.domain), device, heard, data: None })
    }

    /// Reads what the tiers say of themselves, and makes a volume of them if they are blank.
    async fn ask_tiers(
        &self,
        tiers: &[OpenTier],
        extent_bytes: u64,
        account: (TenantId, &Rc<LossesHeard>),
    ) -> Result<Box<Volume>, String> {
        let devices = tiers.iter().map(|tier| tier.description.clone()).collect();
        let fresh = fresh_id().map_err(|error| format!("no name can be drawn for it: {error}"))?;
        let mut opening = Opening::new(fresh, extent_bytes, devices);
        loop {
            let (tier, task) = match opening.poll() {
                Ask::Read { tier, offset, length } => (tier, Task::Read { offset, length }),
                Ask::Write { tier, offset, bytes } => {
                    (tier, Task::Write { offset, data: Arc::new(Buf::copy_of(bytes)) })
                }
                Ask::Flush { tier } => (tier, Task::Flush),
                Ask::Ready(volume) => return Ok(volume),
                Ask::Refused(refusal) => return Err(refusal.to_string()),
            };
            let result = self.domain.run_errand(&tiers[tier].device, account, task).await;
            opening.answer(match &result {
                Ok(Some(data)) => Answer::Read(data),
                Ok(None) => Answer::Done,
                Err(_) => Answer::Failed,
            });
        }
    }

    /// Opens a tier, and waits until its server has told what it can do.
    async fn tier(
        &mut self,
        plan: &Plan,
        tier: &Tier,
        server: ServerId,
    ) -> Result<OpenTier, String> {
        let device = self.device(plan, tier, server)?;
        if let Medium::File(disk) = &device.medium {
            // Two gates would move each other's extents away.
            let locked = disk.lock(LOCK_PATIENCE).await;
            locked.map_err(|error| format!("another program has locked it ({error})"))?;
        }
        let features = self.features(&device, &tier.backend).await;
        if features.flags.contains(TransmissionFlags::READ_ONLY) {
            return Err("it can only be read, and a volume has to write what lies where".to_owned());
        }
        let minimum = features.block_size.minimum;
        if minimum > NOTE_BYTES {
            return Err(format!(
                "it takes no requests of {NOTE_BYTES} bytes, but {minimum} at least"
            ));
        }
        let size_bytes = tier.size_bytes.unwrap_or(features.size_bytes);
        if size_bytes > features.size_bytes {
            return Err(format!(
                "it has {} bytes, and the policy wants {size_bytes} of it",
                features.size_bytes
            ));
        }
        self.domain.bound_unit(server, features.block_size.maximum_payload);
        let description = TierDevice { name: tier.backend.clone(), size_bytes };
        Ok(OpenTier { device, features, description })
    }

    fn device(&mut self, plan: &Plan, tier: &Tier, server: ServerId) -> Result<Rc<Device>, String> {
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

    /// Waits until a tier can say what it can do; meanwhile the volume's trouble is the tier's.
    async fn features(&self, device: &Device, tier: &str) -> Features {
        loop {
            if let Some(features) = device.features() {
                return features;
            }
            if let Some(why) = device.trouble() {
                self.note(&format!("tier {tier:?}: {why}"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A name that no volume has had before.
fn fresh_id() -> io::Result<VolumeId> {
    let mut id = VolumeId::default();
    rustix::rand::getrandom(&mut id.0, GetRandomFlags::empty())?;
    Ok(id)
}
