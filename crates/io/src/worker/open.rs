//! Opening what an export stands on, and letting clients in.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::id::ServerId;
use evenkeel_engine::Target as Holder;
use evenkeel_engine::policy::{Backend, FIRST_VOLUME, Source};
use evenkeel_wire::nbd::check::Promise;
use evenkeel_wire::nbd::proto::{BlockSize, TransmissionFlags};
use evenkeel_wire::nbd::server::{ExportInfo, Refusal};
use evenkeel_wire::nbd::text::Escaped;
use tokio::time::Instant;

use super::Worker;
use super::message::Arrival;
use crate::client::task::ClientTask;
use crate::client::{Client, Export};
use crate::clock::duration;
use crate::device::ceph::CephVolume;
use crate::device::file::{FileDisk, OpenFile};
use crate::device::memory::MemoryDisk;
use crate::device::remote::{Membership, Remote};
use crate::device::store::StoreVolume;
use crate::device::{Device, Features, Medium};
use crate::domain::Domain;
use crate::domain::volume::Volume;
use crate::plan::{Plan, Target};

/// How long a client that asks for an export waits for an upstream that does not answer.
const DESCRIBE_TIME: Duration = Duration::from_secs(15);

/// How often it looks meanwhile whether an upstream that is away is back.
const DESCRIBE_AGAIN: Duration = Duration::from_millis(50);

/// How long a plain file may be locked before that is taken to be another program's doing.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// Flags that a read-only export does not have.
const WRITE_FLAGS: TransmissionFlags = TransmissionFlags(
    TransmissionFlags::SEND_TRIM.0
        | TransmissionFlags::SEND_WRITE_ZEROES.0
        | TransmissionFlags::SEND_FAST_ZERO.0,
);

/// Which device of a backend to open.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// Its name there, if there are several.
    pub(super) name: &'a str,
    /// What it is made with if it does not exist.
    pub(super) size_bytes: Option<u64>,
    /// Its part in a volume that several gates can reach.
    pub(super) membership: Option<Membership>,
}

impl Worker {
    /// Describes an export for a handshake.
    pub(super) async fn describe(
        self: &Rc<Self>,
        plan: &Plan,
        target: &Target,
    ) -> Result<ExportInfo, Refusal> {
        if self.stopping.get() {
            return Err(Refusal::Shutdown);
        }
        let features = match target.holder {
            Holder::Server(server) => self.describe_device(plan, target, server).await,
            Holder::Volume => self.describe_volume(target).await,
        };
        slice(target, features?)
    }

    async fn describe_device(
        self: &Rc<Self>,
        plan: &Plan,
        target: &Target,
        server: ServerId,
    ) -> Result<Features, Refusal> {
        let (domain, device) = self.open(plan, target).await?;
        let features = match &device.medium {
            Medium::Remote(remote) => match described(remote).await {
                Ok(features) => features,
                Err(refusal) => {
                    if !plan.declares(&target.backend, &target.device) {
                        // Names that clients make up must not leave anything behind.
                        domain.forget_device(server, &target.device);
                    }
                    return Err(refusal);
                }
            },
            Medium::Store(volume) => described_volume(volume).await?,
            Medium::Ceph(volume) => described_pool(volume).await?,
            _ => device.features().expect("local devices know what they can do"),
        };
        domain.bound_unit(server, features.block_size.maximum_payload);
        Ok(features)
    }

    /// Lets in a client that has shaken hands.
    pub(super) async fn receive(self: Rc<Self>, arrival: Arrival) {
        let Arrival { mut transport, session, early, target, peer, permit } = arrival;
        let plan = self.plan();
        let opened = match transport.attach() {
            Ok(()) => self.open(&plan, &target).await,
            Err(error) => Err(Refusal::Policy(error.to_string())),
        };
        let (domain, device) = match opened {
            Ok(opened) => opened,
            Err(refusal) => {
                tracing::warn!(export = target.export, ?refusal, "export vanished in a handshake");
                return;
            }
        };
        let block_size = if session.obeys_block_size {
            session.block_size
        } else {
            BlockSize { minimum: 1, ..session.block_size }
        };
        let promise = Promise {
            size_bytes: session.size_bytes,
            flags: session.flags,
            block_size,
            style: session.style,
            has_contexts: !session.contexts.is_empty(),
        };
        // It may have changed meanwhile.
        let plan = self.plan();
        let tenant = plan.tenant_of(&peer, &target.export);
        let export = Export {
            name: target.export,
            backend: target.backend,
            device,
            base_bytes: target.base_bytes,
            declared_bytes: target.size_bytes,
        };
        let client = Client::new(domain, export, peer, tenant, promise, session.contexts);
        if !client.may_stay(&plan) {
            self.shared.count_refused_open();
            tracing::info!(export = client.export.name, "the policy changed in a handshake");
            return;
        }
        client.domain.clients.borrow_mut().push(Rc::clone(&client));
        ClientTask::new(client, transport, early).await;
        drop(permit);
    }

    async fn describe_volume(&self, target: &Target) -> Result<Features, Refusal> {
        let domain = self.domain(&target.domain).ok_or(Refusal::Unknown)?;
        let volume = domain.volume().ok_or(Refusal::Unknown)?;
        let why = match tokio::time::timeout(DESCRIBE_TIME, volume.opened()).await {
            Ok(Ok(device)) => return Ok(device.features().expect("an open volume knows")),
            Ok(Err(why)) => why,
            Err(_) => "its members do not answer".to_owned(),
        };
        Err(Refusal::Policy(format!("the volume is not open: {why}")))
    }

    pub(super) fn domain(&self, name: &str) -> Option<Rc<Domain>> {
        self.domains.borrow().get(name).cloned()
    }

    /// The device of a target, opened if it is not.
    async fn open(
        self: &Rc<Self>,
        plan: &Plan,
        target: &Target,
    ) -> Result<(Rc<Domain>, Rc<Device>), Refusal> {
        let domain = self.domain(&target.domain).ok_or(Refusal::Unknown)?;
        let server = match target.holder {
            Holder::Server(server) => server,
            Holder::Volume => {
                let device = domain.volume().and_then(Volume::device).ok_or(Refusal::Unknown)?;
                return Ok((domain, device));
            }
        };
        if let Some(device) = domain.device(server, &target.device) {
            return Ok((domain, device));
        }
        let backend = plan.backend(&target.backend).ok_or(Refusal::Unknown)?;
        let size_bytes = target.size_bytes.map(|bytes| target.base_bytes + bytes);
        let wanted = Wanted { name: &target.device, size_bytes, membership: None };
        let made = match self.make(&domain, plan, backend, wanted) {
            Ok(Medium::File(disk)) => disk.share(LOCK_PATIENCE).await.map(|()| Medium::File(disk)),
            made => made,
        };
        let medium = made.map_err(|error| {
            let device = Escaped(target.device.as_bytes());
            tracing::warn!(backend = backend.name, %device, %error, "export cannot be opened");
            Refusal::Policy(format!("the gate cannot open this export: {error}"))
        })?;
        if let Some(device) = domain.device(server, &target.device) {
            // Another client was quicker while this one waited for the lock.
            return Ok((domain, device));
        }
        let device = Rc::new(Device { target: target.holder, medium });
        domain.keep(&target.backend, (server, &target.device), Rc::clone(&device));
        Ok((domain, device))
    }

    /// Opens or makes what a device is made of.
    pub(super) fn make(
        self: &Rc<Self>,
        domain: &Rc<Domain>,
        plan: &Plan,
        backend: &Backend,
        wanted: Wanted<'_>,
    ) -> io::Result<Medium> {
        Ok(match &backend.source {
            Source::Memory => {
                let bytes = wanted.size_bytes.ok_or(io::ErrorKind::InvalidInput)?;
                Medium::Memory(MemoryDisk::new(bytes).into())
            }
            Source::File { path, direct } => Medium::File(FileDisk::open(
                path,
                OpenFile { direct: *direct, create_bytes: None },
            )?),
            Source::Directory { path, direct } => {
                if wanted.size_bytes.is_some() {
                    std::fs::create_dir_all(path)?;
                }
                let how = OpenFile { direct: *direct, create_bytes: wanted.size_bytes };
                Medium::File(FileDisk::open_beneath(path, wanted.name, how)?)
            }
            Source::Store(_) => {
                let host = self.store(backend).expect("it is one");
                let name = if wanted.name.is_empty() { FIRST_VOLUME } else { wanted.name };
                let number = name.parse().map_err(|_| io::ErrorKind::NotFound)?;
                Medium::Store(StoreVolume::new(host, number))
            }
            Source::Ceph(_) => Medium::Ceph(self.pool(backend).expect("it is one")),
            Source::Tiered(_) | Source::Spread(_) => {
                return Err(io::Error::other("a volume is no device"));
            }
            Source::Upstream(_) => {
                let terms = plan.terms(&backend.name).expect("the plan has terms for upstreams");
                let mut health = self.health.borrow_mut();
                let health = health.entry(backend.name.clone()).or_default();
                let export = wanted.name.to_owned();
                let (terms, health) = (terms.clone(), Rc::clone(health));
                Medium::Remote(Remote::new(domain, export, terms, wanted.membership, health))
            }
        })
    }
}

/// What an upstream offers. One that is away is waited for as its requests would be.
async fn described(remote: &Remote) -> Result<Features, Refusal> {
    let most = Instant::now() + DESCRIBE_TIME;
    let patient = Instant::now() + DESCRIBE_TIME.min(duration(remote.patience()));
    loop {
        match tokio::time::timeout_at(most, remote.described()).await {
            Ok(Ok(features)) => return Ok(features),
            Ok(Err(trouble)) if trouble.is_unknown_export => return Err(Refusal::Unknown),
            Ok(Err(trouble)) if Instant::now() >= patient => {
                return Err(Refusal::Policy(format!("the upstream: {}", trouble.why)));
            }
            Ok(Err(_)) => tokio::time::sleep(DESCRIBE_AGAIN).await,
            Err(_) => return Err(Refusal::Policy("the upstream does not answer".to_owned())),
        }
    }
}

async fn described_volume(volume: &StoreVolume) -> Result<Features, Refusal> {
    let why = match tokio::time::timeout(DESCRIBE_TIME, volume.host().opened()).await {
        Ok(Ok(())) => match volume.features() {
            Some(features) => return Ok(features),
            None => volume.missing(),
        },
        Ok(Err(why)) => format!("the store is not open: {why}"),
        Err(_) => "the store is still being recovered; try again in a moment".to_owned(),
    };
    Err(Refusal::Policy(why))
}

async fn described_pool(volume: &CephVolume) -> Result<Features, Refusal> {
    let why = match tokio::time::timeout(DESCRIBE_TIME, volume.opened()).await {
        Ok(Ok(())) => match volume.features() {
            Some(features) => return Ok(features),
            None => "it was let go of".to_owned(),
        },
        Ok(Err(why)) => why,
        Err(_) => "Ceph does not answer".to_owned(),
    };
    Err(Refusal::Policy(format!("the volume is not open: {why}")))
}

/// What a client sees of the part of a device that is its export.
fn slice(target: &Target, features: Features) -> Result<ExportInfo, Refusal> {
    let whole = features.size_bytes.checked_sub(target.base_bytes);
    let size_bytes = match (whole, target.size_bytes) {
        (Some(whole), None) => whole,
        (Some(whole), Some(wanted)) if wanted <= whole => wanted,
        _ => {
            let why =
                format!("the export lies beyond the {} of its backend", Bytes(features.size_bytes));
            tracing::warn!(export = target.export, why);
            return Err(Refusal::Policy(why));
        }
    };
    let mut flags = features.flags;
    if target.read_only {
        flags = flags | TransmissionFlags::READ_ONLY;
    }
    if flags.contains(TransmissionFlags::READ_ONLY) {
        flags = flags.without(WRITE_FLAGS);
    }
    Ok(ExportInfo {
        size_bytes,
        flags,
        canonical_name: Some(target.export.clone()),
        description: target.description.clone().or(features.description),
        block_size: features.block_size,
        contexts: features.contexts,
    })
}
