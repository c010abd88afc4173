//! One gate at a time: whoever may be alive is watched, then this gate's name is written on every
//! server, and has to stand.

use super::super::heads::{self, Front, Verdict};
use super::super::layout::Layout;
use super::super::lease::{LEASE, SETTLE, claims};
use super::super::refusal::{Refusal, RefusalReason};
use super::super::volume::Volume;
use super::{Opening, Phase, Task};

impl Opening {
    /// Everybody who may be alive is watched for a while; whoever has not moved is gone.
    pub(super) fn watch_or_claim(&mut self) -> Result<(), Refusal> {
        let verdict = heads::judge(&self.shape, &self.devices, &self.fronts)?;
        let claimed = claims(&self.fronts);
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
        let settled = |front: &Front| front.owner.as_ref().map_or(0, |owner| owner.settled);
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
            Verdict::Use { volume, layout, generation, joining, missing } => {
                (self.joining, self.missing) = (joining, missing);
                let old = self.fronts.iter().filter(|front| front.head.is_some());
                self.settled = old.map(settled).min().unwrap_or(0);
                Volume::blank(volume, layout, generation, owner)
            }
        };
        self.opened = Some(Box::new(volume));
        if self.is_new {
            self.push_each(|server| Task::WriteHead { server, generation: 0 });
        }
        // Each keeps what it knew: it tells an older copy from what an opening left behind.
        let settled: Vec<u64> = self.fronts.iter().map(settled).collect();
        self.push_old(|server| Task::WriteOwner { server, settled: settled[server] });
        self.push_old(|server| Task::Flush { server });
        self.tasks.push_back(Task::Wait(SETTLE));
        self.phase = Phase::Claim;
        Ok(())
    }

    /// The claim stands on every server that has one.
    pub(super) fn confirm(&self) -> Result<(), Refusal> {
        let is_ours = |front: &Front| {
            let owner = front.owner.as_ref();
            owner.is_some_and(|owner| owner.id == self.names.owner)
        };
        let claimed = |server: &usize| !self.joining.contains(server);
        let mut servers = (0..self.fronts.len()).filter(claimed);
        match servers.find(|&server| !is_ours(&self.fronts[server])) {
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
