//! One gate at a time: whoever may be alive is watched, then this gate's name is written on every
//! server, and has to stand.

use super::super::format::owner::{OwnerId, Settled};
use super::super::heads::{Case, Front, Usable, Verdict};
use super::super::layout::Layout;
use super::super::lease::{LEASE, SETTLE, claims};
use super::super::refusal::{Refusal, RefusalReason};
use super::super::volume::Volume;
use super::{Opening, Phase, Task};

impl Opening {
    fn case(&self) -> Case<'_> {
        let Self { shape, devices, fronts, .. } = self;
        Case { shape, devices, fronts, away: self.away, rules: self.rules }
    }

    /// Everybody who may be alive is watched for a while; whoever has not moved is gone.
    pub(super) fn watch_or_claim(&mut self) -> Result<(), Refusal> {
        let verdict = self.case().judge()?;
        let claimed = claims(&self.fronts, &self.names.before);
        match &self.watched {
            None if claimed.iter().any(Option::is_some) => {
                self.watched = Some(claimed);
                self.tasks.push_back(Task::Wait(LEASE));
                self.push_each(|server| Task::ReadFront { server });
                return Ok(());
            }
            Some(before) => {
                if let Some(server) = (0..claimed.len()).find(|&at| claimed[at] != before[at]) {
                    return Err(self.in_use(server));
                }
            }
            None => {}
        }
        self.claim(verdict)
    }

    fn claim(&mut self, verdict: Verdict) -> Result<(), Refusal> {
        let owner = (self.names.owner, self.names.owner_name.clone());
        let volume = match verdict {
            Verdict::Make(known) => {
                let sizes: Vec<_> = self.devices.iter().map(|device| device.size_bytes).collect();
                let layout = Layout::plan(&self.shape, &sizes);
                let layout = layout.map_err(|error| {
                    self.refusal_of(error.server(), RefusalReason::Layout(error))
                })?;
                self.is_new = true;
                Volume::blank(known.unwrap_or(self.names.volume), layout, 1, owner)
            }
            Verdict::Use(usable) => self.take(*usable, owner),
        };
        self.opened = Some(Box::new(volume));
        if self.is_new {
            self.push_each(|server| Task::WriteHead { server, generation: 0 });
        }
        // What is known of the last opening outlives this one, should it be cut short.
        self.push_old(|server| Task::WriteClaim { server });
        self.push_old(|server| Task::Flush { server });
        self.tasks.push_back(Task::Wait(SETTLE));
        self.phase = Phase::Claim;
        Ok(())
    }

    /// The volume that there is, as yet without objects.
    fn take(&mut self, usable: Usable, owner: (OwnerId, String)) -> Volume {
        let Usable { volume, layout, generation, settled, .. } = usable;
        self.settled.fill(settled);
        if let Some((server, absent)) = usable.returning.zip(settled.absent) {
            let own = self.fronts[server].owner.as_ref().map_or(0, |own| own.settled.generation);
            // It is what it was when it was left, until this opening comes to its end.
            self.settled[server] = Settled { generation: own, by: absent.known, absent: None };
        }
        (self.joining, self.missing) = (usable.joining, usable.missing);
        self.returning = usable.returning;
        let mut volume = Volume::blank(volume, layout, generation, owner);
        if let Some(server) = self.away {
            volume.tables[server].free.clear();
        }
        (volume.away, volume.left_out) = (self.away, usable.left_out);
        volume.is_parted = usable.was_parted || usable.left_out.is_some();
        volume
    }

    /// The claim stands on every server that has one.
    pub(super) fn confirm(&self) -> Result<(), Refusal> {
        let is_ours = |front: &Front| {
            let owner = front.owner.as_ref();
            owner.is_some_and(|owner| owner.id == self.names.owner)
        };
        match self.old().find(|&server| !is_ours(&self.fronts[server])) {
            Some(server) => Err(self.in_use(server)),
            None => Ok(()),
        }
    }

    fn in_use(&self, server: usize) -> Refusal {
        let owner = self.fronts[server].owner.as_ref();
        let by = owner.map_or_else(|| "another gate".to_owned(), |owner| owner.name.clone());
        self.refusal_of(server, RefusalReason::InUse { by })
    }
}
