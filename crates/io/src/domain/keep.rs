//! Devices of a domain: found by name, kept open while the policy or a client needs them.

use std::rc::Rc;

use evenkeel_core::id::ServerId;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::Target;
use evenkeel_engine::report::DomainReport;

use super::Domain;
use crate::device::Device;
use crate::plan::Plan;
use crate::report::Resized;

/// Devices that stay open at a time, unless more of them are in use.
const DEVICES_MAX: usize = 256;

/// An open device.
#[derive(Debug)]
pub(super) struct Kept {
    device: Rc<Device>,
    backend: String,
    /// When it was last seen in use.
    used_at: Nanos,
}

impl Domain {
    /// The device of this name at a server, if it is open.
    pub(crate) fn device(&self, server: ServerId, name: &str) -> Option<Rc<Device>> {
        let mut devices = self.devices.borrow_mut();
        let kept = devices.get_mut(&(server, name.to_owned()))?;
        kept.used_at = self.worker.clock.now();
        Some(Rc::clone(&kept.device))
    }

    /// Keeps a device that was just opened.
    pub(crate) fn keep(&self, backend: &str, key: (ServerId, &str), device: Rc<Device>) {
        let key = (key.0, key.1.to_owned());
        let kept = Kept { device, backend: backend.to_owned(), used_at: self.worker.clock.now() };
        let mut devices = self.devices.borrow_mut();
        devices.insert(key, kept);
        if devices.len() > DEVICES_MAX {
            // Names that clients make up must not use up the machine's descriptors.
            let idle = devices.iter().filter(|(_, kept)| Rc::strong_count(&kept.device) == 1);
            let oldest = idle.min_by_key(|(_, kept)| kept.used_at).map(|(key, _)| key.clone());
            oldest.and_then(|key| devices.remove(&key));
        }
    }

    /// Lets go of the devices of backends that the policy no longer has: should one of that name
    /// come again, it may be another. Clients keep what they have.
    pub(crate) fn forget_removed(&self, plan: &Plan) {
        self.devices.borrow_mut().retain(|_, kept| plan.backend(&kept.backend).is_some());
    }

    /// Closes a device as soon as nobody uses it.
    pub(crate) fn forget_device(&self, server: ServerId, name: &str) {
        self.devices.borrow_mut().remove(&(server, name.to_owned()));
    }

    /// Closes devices that no policy declares and nobody has used for a while.
    pub(crate) fn forget_unused(&self, after: Span, plan: &Plan) {
        let now = self.worker.clock.now();
        self.devices.borrow_mut().retain(|(_, name), kept| {
            if Rc::strong_count(&kept.device) > 1 || plan.declares(&kept.backend, name) {
                kept.used_at = now;
            }
            now.since(kept.used_at) < after
        });
    }

    /// Why a backend's devices here cannot be used, if one of them cannot.
    pub(crate) fn trouble(&self, backend: &str) -> Option<String> {
        let devices = self.devices.borrow();
        let mut of_backend = devices.values().filter(|kept| kept.backend == backend);
        of_backend.find_map(|kept| kept.device.trouble()).or_else(|| self.tier(backend)?.trouble())
    }

    /// The exports of a backend whose sizes have changed.
    pub(crate) fn resized(&self, backend: &str) -> Vec<Resized> {
        let devices = self.devices.borrow();
        let of_backend = devices.values().filter(|kept| kept.backend == backend);
        of_backend.filter_map(|kept| kept.device.resized()).collect()
    }

    /// Gives the disks of a report their names, as far as they are open.
    pub(super) fn name_disks(&self, report: &mut DomainReport) {
        let devices = self.devices.borrow();
        for (server, report) in (0..).map(ServerId).zip(&mut report.servers) {
            let name_of = |disk: u64| {
                let is_it = |key: &(ServerId, String), kept: &Kept| {
                    key.0 == server && kept.device.disk() == disk
                };
                let found = devices.iter().find(|(key, kept)| is_it(key, kept));
                found.map_or_else(String::new, |((_, name), _)| name.clone())
            };
            for hanging in &mut report.hanging {
                hanging.disk_name = name_of(hanging.disk);
            }
            for slow in &mut report.slow {
                slow.disk_name = name_of(slow.disk);
            }
        }
    }

    /// The tier of the open volume that stands on this backend.
    fn tier(&self, backend: &str) -> Option<Rc<Device>> {
        let volume = self.volume()?.device()?;
        let policy = self.policy.borrow();
        let (server, _) =
            (0..).map(ServerId).zip(&policy.servers).find(|(_, it)| it.0 == backend)?;
        volume.tiers().iter().find(|tier| tier.target == Target::Server(server)).cloned()
    }
}
