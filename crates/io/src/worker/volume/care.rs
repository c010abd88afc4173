//! A volume that is checked or repaired, and not served.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_engine::care::{Case, Doubt, Finding, Reads, Report, Severity};
use evenkeel_engine::notes::PartDevice;
use evenkeel_engine::policy::{Backend, Member, Source};
use evenkeel_engine::{Target, spread, tiers};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::{Keeper, LOOK, Purpose, Wanted};
use crate::care::{Care, CareError};
use crate::clock::duration;
use crate::device::{Device, Medium};
use crate::domain::Domain;
use crate::domain::errand::Task;
use crate::known;
use crate::op::LossesHeard;
use crate::plan::{Plan, PlannedDomain};
use crate::worker::Worker;

/// For so long a server may be in trouble before it counts as one that cannot be reached.
const TROUBLE_TIME: Duration = Duration::from_secs(3);
/// For so long a server may say nothing.
const SILENCE: Duration = Duration::from_secs(15);
/// The least between two looks at a volume that may be in use.
const AGAIN: Duration = Duration::from_millis(1200);

/// A member that can be reached, or why it cannot.
type Reached = Result<(Rc<Device>, u64), String>;

/// Bytes that are wanted of a member, and who waits for them.
struct Wish {
    member: usize,
    offset: u64,
    length: u64,
    reply: oneshot::Sender<Option<Vec<u8>>>,
}

/// Reads members from a thread of its own: judging is no task of the one that reads.
struct Reader(UnboundedSender<Wish>);

impl Reads for Reader {
    fn read(&mut self, member: usize, offset: u64, length: u64) -> Option<Vec<u8>> {
        let (reply, bytes) = oneshot::channel();
        self.0.send(Wish { member, offset, length, reply }).ok()?;
        bytes.blocking_recv().ok()?
    }
}

impl Worker {
    /// Checks or repairs a volume.
    pub(in crate::worker) async fn care(
        self: Rc<Self>,
        volume: String,
        care: Care,
    ) -> Result<Option<Report>, CareError> {
        let unknown = || CareError::UnknownVolume(volume.clone());
        let domain = self.domain(&volume).ok_or_else(unknown)?;
        match care {
            Care::Check { folder, opens_stores } => {
                let how = (folder.as_deref(), opens_stores);
                let checked = self.check(&domain, &volume, how).await;
                checked.map(Some).map_err(CareError::Refused)
            }
            Care::Repair { has_word } => {
                let mut keeper = Keeper::new(&self, &domain, &volume);
                keeper.purpose = Purpose::Repair { has_word };
                keeper.attempt().await.map_err(CareError::Refused)?;
                domain.let_go().await;
                Ok(None)
            }
        }
    }

    async fn check(
        self: &Rc<Self>,
        domain: &Rc<Domain>,
        name: &str,
        (folder, opens_stores): (Option<&Path>, bool),
    ) -> Result<Report, String> {
        let plan = self.plan();
        let gone = || "the policy no longer has it".to_owned();
        let backend = plan.backend(name).ok_or_else(gone)?;
        let planned = plan.domain(name).ok_or_else(gone)?;
        let members = self.reach(domain, &plan, (backend, planned), opens_stores).await;
        let path = folder.map(|folder| known::path_of(folder, name));
        let (witness, damaged) = match path.as_deref().map(known::read).transpose() {
            Ok(witness) => (witness.flatten(), None),
            Err(error) => (None, path.zip(Some(error))),
        };
        let device = |(member, reached): (&Member, &Reached)| PartDevice {
            name: member.backend.clone(),
            size_bytes: reached.as_ref().map_or(0, |(_, size_bytes)| *size_bytes),
        };
        let case = Case {
            devices: backend.members().iter().zip(&members).map(device).collect(),
            away: members.iter().map(|reached| reached.as_ref().err().cloned()).collect(),
            witness,
        };
        let tiers = planned.domain.tiers.as_ref().map(|plan| plan.mover);
        let tenant = planned.domain.spread.as_ref().map(|plan| plan.clerk).or(tiers);
        let tenant = tenant.ok_or_else(gone)?;
        let once = || self.look_through(domain, backend, (&case, &members), tenant);
        let mut report = once().await;
        if report.owners.iter().any(|owner| !owner.is_released) || !report.is_well() {
            let times = backend.source.takeover().map(|takeover| takeover.times);
            let beat = times.map_or(Duration::ZERO, |times| duration(times.beat()));
            tokio::time::sleep(AGAIN.max(beat * 3 / 2)).await;
            report = report.confirmed(once().await);
        }
        let is_locked = |reached: &Reached| match reached.as_ref().map(|(device, _)| &device.medium)
        {
            Ok(Medium::File(disk)) => disk.is_locked(),
            _ => false,
        };
        report.is_in_use |= members.iter().any(is_locked);
        if let Some((path, error)) = damaged {
            report.findings.push(unread(&path, &error));
        }
        Ok(report)
    }

    /// Reads the members once, and judges what is there.
    async fn look_through(
        self: &Rc<Self>,
        domain: &Rc<Domain>,
        backend: &Backend,
        (case, members): (&Case, &[Reached]),
        tenant: TenantId,
    ) -> Report {
        let (wishes, mut asked): (_, UnboundedReceiver<Wish>) = unbounded_channel();
        let (source, case) = (backend.source.clone(), case.clone());
        let judge = tokio::task::spawn_blocking(move || {
            let mut reader = Reader(wishes);
            match &source {
                Source::Tiered(volume) => tiers::check(volume.extent_bytes, &case, &mut reader),
                Source::Spread(volume) => {
                    let leaving = |server: &Member| volume.leaving.contains(&server.backend);
                    let leaving: Vec<bool> = volume.servers.iter().map(leaving).collect();
                    spread::check(volume.shape, &leaving, &case, &mut reader)
                }
                _ => Report::default(),
            }
        });
        // The judge drops its end when it is done.
        while let Some(Wish { member, offset, length, reply }) = asked.recv().await {
            let bytes = match &members[member] {
                Ok((device, _)) => {
                    let heard = Rc::new(LossesHeard::new(device.losses()));
                    let task = Task::Read { offset, length };
                    let read = domain.run_errand(device, (tenant, &heard), task).await;
                    read.ok().flatten().map(|data| data.to_vec())
                }
                Err(_) => None,
            };
            // A judge that is gone wants nothing any more.
            let _ = reply.send(bytes);
        }
        judge.await.expect("judging does not panic")
    }

    /// Opens the members to read them; none is made, and none locked but drives of stores.
    async fn reach(
        self: &Rc<Self>,
        domain: &Rc<Domain>,
        plan: &Plan,
        (backend, planned): (&Backend, &PlannedDomain),
        opens_stores: bool,
    ) -> Vec<Reached> {
        let members = backend.members().iter();
        let opened: Vec<_> = members
            .map(|one| (one, self.device(domain, plan, (one, planned), opens_stores)))
            .collect();
        let began = Instant::now();
        let mut reached = Vec::new();
        for (member, device) in opened {
            reached.push(match device {
                Ok((server, device)) => self.told(domain, member, (server, device), began).await,
                Err(why) => Err(why),
            });
        }
        reached
    }

    fn device(
        self: &Rc<Self>,
        domain: &Rc<Domain>,
        plan: &Plan,
        (member, planned): (&Member, &PlannedDomain),
        opens_stores: bool,
    ) -> Result<(ServerId, Rc<Device>), String> {
        let no_backend = || "the policy has no such backend".to_owned();
        let backend = plan.backend(&member.backend).ok_or_else(no_backend)?;
        let server = planned.server(&member.backend).ok_or_else(no_backend)?;
        match &backend.source {
            Source::Memory => {
                return Err("it is in memory, which nobody sees but the gate itself".to_owned());
            }
            Source::Store(_) if !opens_stores => {
                return Err("it is a volume of a store, which is not opened without writing to \
                            the store: --open-stores does"
                    .to_owned());
            }
            _ => {}
        }
        let wanted = Wanted { name: &member.device, size_bytes: None, membership: None };
        let medium = self.make(domain, plan, backend, wanted).map_err(|error| error.to_string())?;
        Ok((server, Rc::new(Device { target: Target::Server(server), medium })))
    }

    /// Waits until a member has told what it can do.
    async fn told(
        &self,
        domain: &Rc<Domain>,
        member: &Member,
        (server, device): (ServerId, Rc<Device>),
        began: Instant,
    ) -> Reached {
        if let Medium::Store(volume) = &device.medium {
            volume.host().opened().await?;
            device.features().ok_or_else(|| volume.missing())?;
        }
        let features = loop {
            if let Some(features) = device.features() {
                break features;
            }
            match device.trouble() {
                Some(why) if began.elapsed() >= TROUBLE_TIME => return Err(why),
                _ if began.elapsed() >= SILENCE => return Err("it does not answer".to_owned()),
                _ => tokio::time::sleep(LOOK).await,
            }
        };
        domain.bound_unit(server, features.block_size.maximum_payload);
        let size_bytes = member.size_bytes.unwrap_or(features.size_bytes);
        Ok((device, size_bytes.min(features.size_bytes)))
    }
}

/// What the gate remembers of the volume cannot be read.
fn unread(path: &Path, error: &std::io::Error) -> Finding {
    Finding {
        severity: Severity::Error,
        member: None,
        offset: None,
        part: format!("{}", path.display()),
        what: format!("what the gate remembers of the volume cannot be read: {error}"),
        consequence: "the gate does not open the volume".to_owned(),
        remedy: "remove the file".to_owned(),
        doubt: Doubt::None,
    }
}
