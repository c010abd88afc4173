//! A spread volume without one of its servers: given up waiting for when the volume is opened, and
//! taken up when it is back.
//!
//! ```text
//! all but one have told, that one is silent for its patience -> opened without
//! it tells -> looked at: as it was left? -- no --> refused, and looked at again
//!                          yes -> clients wait, opened anew with all, clients go on
//! ```

use std::rc::Rc;
use std::time::Instant;

use evenkeel_core::id::ServerId;
use evenkeel_engine::lease::Lease;
use evenkeel_engine::notes::Unfit;
use evenkeel_engine::policy::Member;
use evenkeel_engine::spread::{self, Missed, Opening, REST, Refusal, RefusalReason};

use super::{Keeper, LOOK, PAUSE_MAX, Spread, usable};
use crate::clock::duration;
use crate::device::tiered::TieredDisk;
use crate::device::{Device, Medium};
use crate::domain::errand::Task;

impl Spread {
    /// The volume as a device over its servers.
    fn disk(&self) -> &TieredDisk {
        let Medium::Tiered(disk) = &self.running.clerk.device.medium else {
            unreachable!("volumes are over others");
        };
        disk
    }
}

impl Keeper {
    /// Waits until the servers of a spread volume have told what they can do, but for one at most
    /// that is silent for its patience; returns that one. Tiers are waited for one by one.
    pub(super) async fn wait_for(
        &self,
        members: &[(&Member, ServerId, Rc<Device>)],
    ) -> Option<usize> {
        let began = Instant::now();
        if !self.domain.is_spread() {
            return None;
        }
        loop {
            let mut silent =
                (0..members.len()).filter(|index| members[*index].2.features().is_none());
            let first = silent.next()?;
            let (member, _, device) = &members[first];
            if let Some(why) = device.trouble() {
                self.note(&format!("{}: {why}", self.called(member)));
            }
            if silent.next().is_none()
                && let Medium::Remote(remote) = &device.medium
                && began.elapsed() >= duration(remote.patience())
            {
                return Some(first);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Says which server a volume was opened without.
    pub(super) fn tell_missed(&self, spread: &Spread) {
        if let Some(missed) = &spread.missed {
            let (volume, server) = (&self.name, &spread.members[missed.server].description.name);
            tracing::error!(volume, server, "opened without it: what lies there is not served");
        }
    }

    /// Takes a server up that the volume was opened without, once it is back.
    pub(super) async fn take_up(&mut self, mut spread: Spread) {
        let mut known = None;
        while let Some(missed) = spread.missed.clone() {
            tokio::time::sleep(duration(spread.running.lease.times().beat())).await;
            let late = self.late_writes(spread.members.len());
            if missed.is_delayed_by(&late, self.worker.clock.now()) {
                continue;
            }
            let Some(looked) = self.look(&mut spread, &missed).await else { continue };
            let why = looked.err();
            if let Some(why) = &why {
                if known.as_ref() != Some(why) {
                    let server = &spread.members[missed.server].description.name;
                    tracing::error!(volume = self.name, server, why, "it is not taken up");
                }
            } else if let Err(by) = self.open_anew(&mut spread, &missed).await {
                return self.domain.leave_office(&spread.running.lease, &by);
            }
            if why.is_none() && spread.missed.is_some() {
                // It has gone again, and clients have waited for it.
                tokio::time::sleep(duration(REST)).await;
            }
            known = why;
        }
    }

    /// Looks whether the server is back and can be taken up; none if it is not back.
    async fn look(&self, spread: &mut Spread, missed: &Missed) -> Option<Result<(), String>> {
        let device = Rc::clone(&spread.members[missed.server].device);
        let features = device.features()?;
        let front = if let Medium::Remote(remote) = &device.medium {
            remote.look(0, Lease::front_bytes()).await.ok()?
        } else {
            let task = Task::Read { offset: 0, length: Lease::front_bytes() };
            let account = spread.running.account();
            self.domain.run_errand(&device, account, task).await.ok()??
        };
        if let Err(why) = missed.look(&front) {
            if matches!(why, RefusalReason::Unfit(Unfit::Stale { .. })) {
                self.domain.refuse_server(spread.running.servers[missed.server]);
            }
            return Some(Err(why.to_string()));
        }
        let plan = self.worker.plan();
        let member = plan.backend(&self.name)?.members().get(missed.server)?;
        let size_bytes = match usable(&features, member) {
            Ok(size_bytes) => size_bytes,
            Err(why) => return Some(Err(why)),
        };
        if !spread.disk().takes(&features) {
            let why = "it can do less than the volume has promised its clients; restart the gate";
            return Some(Err(why.to_owned()));
        }
        let server = spread.running.servers[missed.server];
        self.domain.bound_unit(server, features.block_size.maximum_payload);
        let member = &mut spread.members[missed.server];
        member.description.size_bytes = size_bytes;
        member.features = Some(features);
        Some(Ok(()))
    }

    /// Opens the volume anew while clients wait: with all servers, or else without that one again.
    /// Fails with the name of another gate that has it.
    async fn open_anew(&mut self, spread: &mut Spread, missed: &Missed) -> Result<(), String> {
        if !self.domain.pause_spread(&spread.running.lease).await {
            return Err("another gate".to_owned());
        }
        for away in [None, Some(missed.server)].into_iter().cycle() {
            match self.reopen(spread, away).await {
                Ok(volume) => {
                    let server = &spread.members[missed.server].description.name;
                    let is_back = away.is_none();
                    tracing::warn!(volume = self.name, server, is_back, "opened anew");
                    spread.missed = Missed::of(&volume);
                    spread.disk().set_size(volume.size_bytes());
                    spread.disk().leave_out(spread.missed.as_ref().map(|missed| missed.server));
                    spread.running.lease.opened(|server| {
                        Some(self.of_member(&spread.members[server], volume.lease_of(server)?))
                    });
                    self.remember(&spread.running.lease, volume.witness());
                    spread.running.beat(volume.away());
                    self.domain.resume_spread(volume);
                    self.domain.held(spread.running.lease.held_until());
                    return Ok(());
                }
                Err(Refusal { reason: RefusalReason::Unfit(Unfit::InUse { by }), .. }) => {
                    return Err(by);
                }
                Err(why) => tracing::warn!(volume = self.name, %why, "not opened anew"),
            }
            if away.is_some() {
                tokio::time::sleep(PAUSE_MAX).await;
            }
        }
        unreachable!("attempts have no end")
    }

    async fn reopen(
        &mut self,
        spread: &mut Spread,
        away: Option<usize>,
    ) -> Result<Box<spread::Volume>, Refusal> {
        let names = self.names(&spread.running.lease).expect("names were drawn before");
        let devices = spread.members.iter().map(|member| member.description.clone()).collect();
        let opening = Opening::new(names, spread.shape, devices, spread.leaving.clone())
            .heeding(self.tell_late_writes(spread.members.len()));
        let opening = match away {
            Some(server) => opening.without(server),
            None => opening,
        };
        let account = spread.running.account();
        self.open(&spread.members, opening, account, &spread.running.lease).await
    }
}
