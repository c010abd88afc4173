//! What the servers of a spread volume have to say before a gate claims it, and how it is claimed.

use evenkeel_core::time::Nanos;

use super::super::format::head::Head;
use super::super::heads::{Case, Usable, Verdict};
use super::super::layout::Layout;
use super::super::refusal::{Refusal, RefusalReason};
use super::super::rules::Mutant;
use super::super::volume::Volume;
use super::{NEW_GENERATION, Opening, Phase, Task};
use crate::lease::{Act, FRONT_BYTES, Front, Half, OWNER_OFFSET, Settled};
use crate::notes::blank::Making;
use crate::notes::block::{BLOCK_BYTES, Block};
use crate::notes::{Answer, Unfit};

impl Opening {
    fn case(&self) -> Case<'_> {
        let Self { shape, devices, candidate, .. } = self;
        Case { shape, devices, fronts: &candidate.fronts, away: self.away, rules: self.rules }
    }

    /// All fronts were read: whoever may be alive is watched and fenced off, then all are read
    /// again, until the volume can be claimed.
    pub(super) fn watch_or_claim(&mut self) -> Result<(), Refusal> {
        self.rebuild()?;
        let verdict = self.case().judge()?;
        let volume = match &verdict {
            Verdict::Use(usable) => Some(usable.volume),
            Verdict::Make(_) => None,
        };
        let checked = self.candidate.check(volume, self.witness.as_ref());
        checked.map_err(|obstacle| self.obstructed(obstacle))?;
        if self.probing.is_none() && self.probe(&verdict)? {
            return Ok(());
        }
        let act = if self.may_notes_change(&verdict) {
            Some(Act::Wait(self.candidate.late.until().since(self.candidate.tenure.now)))
        } else {
            self.candidate.watch().map_err(|obstacle| self.obstructed(obstacle))?
        };
        let Some(act) = act else { return self.claim(verdict) };
        self.tasks.push_back(Task::Lease(act));
        self.push_each(|server| Task::Lease(Act::Look(server)));
        Ok(())
    }

    /// What lies where in a volume that is made of the devices.
    fn layout_for_new(&self) -> Result<Layout, Refusal> {
        let sizes: Vec<_> = self.devices.iter().map(|device| device.size_bytes).collect();
        Layout::plan(&self.shape, &sizes)
            .map_err(|error| self.refusal_of(error.server(), RefusalReason::Layout(error)))
    }

    /// Has servers without heads looked at where something of a volume might be left; false if
    /// there are none.
    fn probe(&mut self, verdict: &Verdict) -> Result<bool, Refusal> {
        let (layout, making) = match verdict {
            Verdict::Make(_) => (self.layout_for_new()?, Making::New),
            Verdict::Use(usable) => (usable.layout.clone(), Making::Member(usable.volume)),
        };
        let is_blank = |server: &usize| self.candidate.fronts[*server].head.is_none();
        let blank = self.old().filter(is_blank).collect::<Vec<_>>();
        for &server in &blank {
            let ends = layout.note_ends(server).into_iter();
            self.tasks.extend(ends.map(|offset| Task::Probe { server, offset }));
        }
        self.probing = Some((making, layout));
        Ok(!blank.is_empty())
    }

    /// A block of a server without a head was read.
    pub(super) fn probed(&mut self, server: usize, offset: u64, blocks: Option<&[Block]>) {
        let Some(blocks) = blocks else { return self.refuse(server, Unfit::Failed.into()) };
        let (making, layout) = self.probing.as_ref().expect("it was probed by it");
        if !self.candidate.may_replace(*making, offset, &blocks[0]) {
            let notes_bytes = layout.servers[server].data_offset;
            self.refuse(server, Unfit::NotBlank { offset, notes_bytes }.into());
        }
    }

    /// Whether what this gate had under way before may still change heads, or notes in the half
    /// that is written to from now on. Late claims and beats do no harm: an owner writes over them.
    fn may_notes_change(&self, verdict: &Verdict) -> bool {
        let written = |server: usize| {
            let [directory, table, choices] = match verdict {
                Verdict::Make(_) => [FRONT_BYTES..u64::MAX, 0..0, 0..0],
                Verdict::Use(usable) => usable.layout.half_ranges(server, self.half(usable)),
            };
            [0..OWNER_OFFSET, directory, table, choices]
        };
        let (late, now) = (&self.candidate.late, self.candidate.tenure.now);
        let reaches = |server: usize, range| late.reaches(now, server, &range);
        let mut there = (0..self.devices.len()).filter(|server| self.away != Some(*server));
        there.any(|server| written(server).into_iter().any(|range| reaches(server, range)))
    }

    fn claim(&mut self, verdict: Verdict) -> Result<(), Refusal> {
        let mut volume = match verdict {
            Verdict::Make(known) => {
                let layout = self.layout_for_new()?;
                self.candidate.is_new = true;
                let (settled, half) = (Settled::default(), Half::First);
                let generation =
                    if self.rules.is_broken(Mutant::OneHead) { 1 } else { NEW_GENERATION };
                let office = self.candidate.begin_claim(&settled, half, generation);
                Volume::blank(known.unwrap_or(self.candidate.names.volume), layout, office)
            }
            Verdict::Use(usable) => self.take(*usable),
        };
        volume.late = std::mem::take(&mut self.candidate.late);
        self.opened = Some(Box::new(volume));
        // What is known of the last opening outlives this one, should it be cut short.
        for server in self.quickest_first() {
            self.tasks.push_back(Task::Lease(Act::Look(server)));
            if self.candidate.is_new {
                self.tasks.push_back(Task::WriteHead { server, generation: 0 });
            }
            self.tasks.push_back(Task::Lease(Act::Claim(server)));
        }
        self.push_old(|server| Task::Flush { server });
        self.tasks.push_back(Task::Lease(Act::Wait(self.candidate.names.gate.times.settle())));
        self.phase = Phase::Claim;
        Ok(())
    }

    /// The volume that there is, as yet without objects.
    fn take(&mut self, usable: Usable) -> Volume {
        let half = self.half(&usable);
        let Usable { volume, layout, generation, settled, .. } = usable;
        let candidate = &mut self.candidate;
        let office = candidate.begin_claim(&settled, half, generation);
        candidate.settled.fill(settled);
        if let Some((server, absent)) = usable.returning.zip(settled.absent) {
            let own = candidate.fronts[server].owner.as_ref();
            let own = own.map_or(0, |own| own.settled.generation);
            // It is what it was when it was left, until this opening comes to its end.
            let (generation, by) = (own, absent.known);
            candidate.settled[server] = Settled { generation, by, absent: None, ..settled };
        }
        (self.joining, self.missing) = (usable.joining, usable.missing);
        self.returning = usable.returning;
        let mut volume = Volume::blank(volume, layout, office);
        if let Some(server) = self.away {
            volume.tables[server].free.clear();
        }
        volume.note_in_half();
        (volume.away, volume.left_out) = (self.away, usable.left_out);
        volume.is_parted = usable.was_parted || usable.left_out.is_some();
        volume
    }

    /// Where this owner notes. A server that was away does not know who the owner before is.
    fn half(&self, usable: &Usable) -> Half {
        let counts = |server: usize| {
            self.candidate.fronts[server].head.is_some() && usable.returning != Some(server)
        };
        self.candidate.choose_half(usable.settled.half, counts)
    }

    /// A front was read, or could not be.
    pub(super) fn looked(&mut self, server: usize, asked_at: Nanos, answer: Answer<'_>) {
        if answer == Answer::Failed && self.rebuilding.is_some() {
            return self.look_at_blocks(server, asked_at);
        }
        self.has_failed |= answer == Answer::Failed;
        let front = match (&mut self.rebuilding, answer.blocks(FRONT_BYTES / BLOCK_BYTES)) {
            (Some(rebuilding), Some(blocks)) => {
                rebuilding.front(server, [0, 1, 2].map(|at| blocks.get(at)))
            }
            _ => Front::of(answer),
        };
        self.take_front(server, asked_at, front);
    }

    pub(super) fn take_front(
        &mut self,
        server: usize,
        asked_at: Nanos,
        front: Result<Front<Head>, Unfit>,
    ) {
        match self.candidate.looked(server, asked_at, front) {
            Ok(true) => {}
            // Somebody else has claimed the server: what was to be taken back there is not ours.
            Ok(false) => drop(self.tasks.pop_front()),
            Err(why) => self.refuse(server, why.into()),
        }
    }

    /// Beats on as many servers as it takes to hold the volume, before anything else.
    pub(super) fn push_round(&mut self) {
        let (old, needed) = (self.old().collect(), self.opened().beats_needed());
        let acts = self.candidate.tenure.round(old, needed);
        acts.into_iter().rev().for_each(|act| self.tasks.push_front(Task::Lease(act)));
    }

    /// The servers that are claimed, slow ones last.
    pub(super) fn quickest_first(&self) -> Vec<usize> {
        self.candidate.tenure.quickest_first(self.old().collect())
    }

    /// The claim stands on every server that has one.
    pub(super) fn confirm(&self) -> Result<(), Refusal> {
        self.candidate.confirm(self.old()).map_err(|obstacle| self.obstructed(obstacle))
    }

    /// Has claims taken back.
    pub(super) fn withdraw(&mut self) {
        self.phase = Phase::Withdraw;
        let acts = self.candidate.withdraw();
        self.tasks.extend(acts.into_iter().map(Task::Lease));
    }
}
