//! What holds the bytes: memory, a file or block device, a volume of a store, a volume in a pool of
//! Ceph, an export of an upstream server, or a volume over several of these.
//!
//! A device belongs to one domain and lives on its worker. It is made when the first client looks
//! up an export on it and is kept while the policy or a client names it.

pub(crate) mod beneath;
pub(crate) mod ceph;
pub(crate) mod file;
pub(crate) mod memory;
pub(crate) mod remote;
pub(crate) mod store;
pub(crate) mod tiered;
pub(crate) mod turn;

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::id::ServerId;
use evenkeel_engine::Target;
use evenkeel_store::VolumeId;
use evenkeel_wire::nbd::proto::{BlockSize, TransmissionFlags};

use ceph::CephVolume;
use file::FileDisk;
use memory::MemoryDisk;
use remote::Remote;
use store::{StoreHost, StoreVolume};
use tiered::TieredDisk;
use turn::Turn;

use crate::report::Resized;

/// A device of a domain.
#[derive(Debug)]
pub(crate) struct Device {
    /// What the engine knows it as: the server whose scheduler its requests pass, or the volume.
    pub(crate) target: Target,
    pub(crate) medium: Medium,
}

/// What a device is made of.
#[derive(Debug)]
pub(crate) enum Medium {
    Memory(RefCell<MemoryDisk>),
    File(FileDisk),
    Remote(Rc<Remote>),
    Store(Rc<StoreVolume>),
    Ceph(Rc<CephVolume>),
    Tiered(TieredDisk),
    /// Nothing that anybody could ask for: what the gate does at a backend for itself.
    Turn(Rc<Turn>),
}

/// What a device can do, in the protocol's terms.
#[derive(Clone, Debug)]
pub(crate) struct Features {
    pub(crate) size_bytes: u64,
    pub(crate) flags: TransmissionFlags,
    pub(crate) block_size: BlockSize,
    pub(crate) contexts: Vec<String>,
    pub(crate) description: Option<String>,
}

/// The metadata context that local devices have.
pub(crate) const ALLOCATION: &str = "base:allocation";

impl Features {
    /// What local devices can do.
    fn local(size_bytes: u64) -> Self {
        let flags = TransmissionFlags::HAS_FLAGS
            | TransmissionFlags::SEND_FLUSH
            | TransmissionFlags::SEND_FUA
            | TransmissionFlags::SEND_TRIM
            | TransmissionFlags::SEND_WRITE_ZEROES
            | TransmissionFlags::SEND_DF
            | TransmissionFlags::CAN_MULTI_CONN
            | TransmissionFlags::SEND_CACHE
            | TransmissionFlags::BLOCK_STATUS_PAYLOAD;
        Self {
            size_bytes,
            flags,
            block_size: BlockSize::default(),
            contexts: vec![ALLOCATION.to_owned()],
            description: None,
        }
    }
}

impl Device {
    /// The tier of this server in a volume.
    pub(crate) fn tier(&self, server: ServerId) -> &Rc<Self> {
        let mut tiers = self.tiers().iter();
        let tier = tiers.find(|tier| tier.target == Target::Server(server));
        tier.expect("the engine names servers of its plan, and each has its tier")
    }

    /// Which disk of its server it is; see [`evenkeel_engine::Request::disk`].
    pub(crate) fn disk(&self) -> u64 {
        if let Medium::Remote(remote) = &self.medium { remote.number() } else { 0 }
    }

    /// The device that serves units for `server`: one of the tiers, or this one itself.
    pub(crate) fn part(&self, server: ServerId) -> &Self {
        match &self.medium {
            Medium::Tiered(_) => self.tier(server),
            _ => self,
        }
    }

    /// Whether it is this volume of this store, or has it as a tier.
    pub(crate) fn is_on(&self, store: &Rc<StoreHost>, volume: VolumeId) -> bool {
        match &self.medium {
            Medium::Store(own) => own.is_volume(store, volume),
            _ => self.tiers().iter().any(|tier| tier.is_on(store, volume)),
        }
    }

    /// The devices that it is a volume over, in the order of the policy.
    pub(crate) fn tiers(&self) -> &[Rc<Self>] {
        if let Medium::Tiered(disk) = &self.medium { disk.tiers() } else { &[] }
    }

    /// How often acknowledged writes may have been lost so far, by server.
    pub(crate) fn losses(&self) -> Vec<(ServerId, u64)> {
        let losses = match &self.medium {
            // What Ceph has answered is durable.
            Medium::Memory(_) | Medium::Ceph(_) | Medium::Turn(_) => 0,
            Medium::File(disk) => disk.losses(),
            Medium::Remote(remote) => remote.losses(),
            Medium::Store(volume) => volume.host().losses(),
            Medium::Tiered(disk) => return disk.losses(),
        };
        let Target::Server(server) = self.target else { unreachable!("volumes are tiered") };
        vec![(server, losses)]
    }

    /// How its size has changed, if it has.
    pub(crate) fn resized(&self) -> Option<Resized> {
        let Medium::Remote(remote) = &self.medium else { return None };
        let (export, before_bytes, now_bytes) = remote.resized()?;
        Some(Resized { export: export.to_owned(), before_bytes, now_bytes })
    }

    /// Why it cannot be used now, if it cannot.
    pub(crate) fn trouble(&self) -> Option<String> {
        match &self.medium {
            Medium::Remote(remote) => remote.trouble_now().map(|trouble| trouble.why),
            Medium::Store(volume) => volume.host().stopped_by(),
            Medium::Ceph(volume) => volume.stopped_by(),
            Medium::Tiered(disk) => disk.trouble(),
            Medium::Memory(_) | Medium::File(_) | Medium::Turn(_) => None,
        }
    }

    /// What it can do; `None` while an upstream has not told yet, or a
    /// store is not open.
    pub(crate) fn features(&self) -> Option<Features> {
        match &self.medium {
            Medium::Memory(disk) => {
                let mut features = Features::local(disk.borrow().size_bytes());
                features.flags = features.flags | TransmissionFlags::SEND_FAST_ZERO;
                Some(features)
            }
            Medium::File(disk) => {
                let mut features = Features::local(disk.size_bytes());
                if disk.is_read_only() {
                    features.flags = features.flags | TransmissionFlags::READ_ONLY;
                }
                Some(features)
            }
            Medium::Remote(remote) => remote.features(),
            Medium::Store(volume) => volume.features(),
            Medium::Ceph(volume) => volume.features(),
            Medium::Tiered(disk) => Some(disk.features()),
            Medium::Turn(_) => None,
        }
    }
}
