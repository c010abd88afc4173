//! What the tiers of a volume have to say before a gate claims it, and how it is claimed.

use evenkeel_core::time::Nanos;

use super::super::format::head::Head;
use super::super::heads::{self, Usable, Verdict};
use super::super::refusal::Refusal;
use super::super::rules::Mutant;
use super::{Claimed, Opening, Phase, Task};
use crate::lease::{Act, FRONT_BYTES, Front, Half, OWNER_OFFSET, Settled, mark};
use crate::notes::blank::Making;
use crate::notes::block::{BLOCK_BYTES, Block};
use crate::notes::{Answer, Unfit};

impl Opening {
    /// All fronts were read: whoever may be alive is watched and fenced off, then all are read
    /// again, until the volume can be claimed.
    pub(super) fn watch_or_claim(&mut self) -> Result<(), Refusal> {
        self.rebuild()?;
        let Self { extent_bytes, devices, candidate, rules, .. } = &*self;
        let verdict = heads::judge(*extent_bytes, devices, &candidate.fronts, *rules)?;
        let volume = match &verdict {
            Verdict::Use(usable) => Some(usable.volume),
            Verdict::Make(_) => None,
        };
        let checked = self.candidate.check(volume, self.witness.as_ref());
        checked.map_err(|obstacle| self.obstructed(obstacle))?;
        if matches!(verdict, Verdict::Make(_)) && !std::mem::replace(&mut self.has_probed, true) {
            return self.probe();
        }
        let act = if self.may_notes_change(&verdict) {
            Some(Act::Wait(self.candidate.late.until().since(self.candidate.tenure.now)))
        } else {
            self.candidate.watch().map_err(|obstacle| self.obstructed(obstacle))?
        };
        let Some(act) = act else { return self.claim(verdict) };
        self.tasks.push_back(Task::Lease(act));
        self.push_each(|tier| Task::Lease(Act::Look(tier)));
        Ok(())
    }

    /// Has tiers without heads looked at where something of a volume might be left.
    fn probe(&mut self) -> Result<(), Refusal> {
        let layout = self.layout_for_new()?;
        for (tier, front) in self.candidate.fronts.iter().enumerate() {
            let ends = if front.head.is_none() { layout.note_ends(tier) } else { Vec::new() };
            self.tasks.extend(ends.into_iter().map(|offset| Task::Probe { tier, offset }));
        }
        Ok(())
    }

    /// A block of a tier without a head was read.
    pub(super) fn probed(&mut self, tier: usize, offset: u64, blocks: Option<&[Block]>) {
        let Some(blocks) = blocks else { return self.refuse(tier, Unfit::Failed.into()) };
        if !self.candidate.may_replace(Making::New, offset, &blocks[0]) {
            let layout = self.layout_for_new().expect("it was probed by it");
            let notes_bytes =
                if tier == layout.fastest() { layout.metadata_end() } else { FRONT_BYTES };
            self.refuse(tier, Unfit::NotBlank { offset, notes_bytes }.into());
        }
    }

    /// Whether what this gate had under way before may still change heads, or notes in the half
    /// that is written to from now on. Late claims and beats do no harm: an owner writes over them.
    fn may_notes_change(&self, verdict: &Verdict) -> bool {
        let noted = match verdict {
            Verdict::Make(_) => FRONT_BYTES..u64::MAX,
            Verdict::Use(usable) => usable.layout.half_range(self.half(&usable.settled)),
        };
        let (late, now) = (&self.candidate.late, self.candidate.tenure.now);
        let tiers = self.devices.len();
        (0..tiers).any(|tier| late.reaches(now, tier, &(0..OWNER_OFFSET)))
            || late.reaches(now, tiers - 1, &noted)
    }

    fn half(&self, settled: &Settled) -> Half {
        self.candidate.choose_half(settled.half, |_| true)
    }

    /// Begins to write this gate's name on every tier. On those of a new volume its head is written
    /// before, so that a tier that is exchanged meanwhile is noticed.
    fn claim(&mut self, verdict: Verdict) -> Result<(), Refusal> {
        let late = std::mem::take(&mut self.candidate.late);
        let witness = self.witness.as_ref().map_or(0, |witness| witness.mark.noted);
        self.noted = mark::noted(&self.candidate.fronts).max(witness);
        let claimed = match verdict {
            Verdict::Make(known) => {
                let layout = self.layout_for_new()?;
                self.candidate.is_new = true;
                let settled = Settled::default();
                let generation = u64::from(!self.rules.is_broken(Mutant::OneHead));
                let office = self.candidate.begin_claim(&settled, Half::First, generation);
                let volume = known.unwrap_or(self.candidate.names.volume);
                Claimed { volume, layout, office, settled, late }
            }
            Verdict::Use(Usable { volume, layout, generations, settled }) => {
                let newest = generations.iter().copied().max().unwrap_or(0);
                let half = self.half(&settled);
                let office = self.candidate.begin_claim(&settled, half, newest + 1);
                self.candidate.settled.fill(settled);
                self.generations = generations;
                Claimed { volume, layout, office, settled, late }
            }
        };
        self.claimed = Some(claimed);
        // What is known of the last opening outlives this one, should it be cut short.
        let is_new = self.candidate.is_new;
        for tier in 0..self.devices.len() {
            self.tasks.push_back(Task::Lease(Act::Look(tier)));
            self.tasks.extend(is_new.then_some(Task::WriteHead { tier, generation: 0 }));
            self.tasks.push_back(Task::Lease(Act::Claim(tier)));
        }
        self.push_each(|tier| Task::Flush { tier });
        self.tasks.push_back(Task::Lease(Act::Wait(self.candidate.names.gate.times.settle())));
        self.phase = Phase::Claim;
        Ok(())
    }

    /// A front was read. If it cannot be read whole, it is read block by block: one head of two may
    /// be unreadable.
    pub(super) fn looked(&mut self, tier: usize, asked_at: Nanos, answer: Answer<'_>) {
        if let Some(blocks) = answer.blocks(FRONT_BYTES / BLOCK_BYTES) {
            let front = self.front(tier, [0, 1, 2].map(|at| blocks.get(at)));
            return self.take_front(tier, asked_at, front);
        }
        for block in (0..self.front.len()).rev() {
            self.tasks.push_front(Task::LookAt { tier, block, since: asked_at });
        }
    }

    /// A block of a front was read; with the last one all is known that can be.
    pub(super) fn looked_at(
        &mut self,
        (tier, block): (usize, usize),
        since: Nanos,
        answer: Answer<'_>,
    ) {
        self.front[block] = answer.blocks(1).map(|blocks| Box::new(blocks[0]));
        if block + 1 == self.front.len() {
            let blocks = std::mem::take(&mut self.front);
            self.has_failed |= blocks.iter().all(Option::is_none);
            let front = self.front(tier, blocks.each_ref().map(Option::as_deref));
            self.take_front(tier, since, front);
        }
    }

    fn front(&mut self, tier: usize, blocks: [Option<&Block>; 3]) -> Result<Front<Head>, Unfit> {
        match &mut self.rebuilding {
            Some(rebuilding) => rebuilding.front(tier, blocks),
            None => Front::read_some(blocks),
        }
    }

    fn take_front(&mut self, tier: usize, asked_at: Nanos, front: Result<Front<Head>, Unfit>) {
        match self.candidate.looked(tier, asked_at, front) {
            Ok(true) => {}
            // Somebody else has claimed the tier: what was to be taken back there is not ours.
            Ok(false) => drop(self.tasks.pop_front()),
            Err(why) => self.refuse(tier, why.into()),
        }
    }

    /// Beats on as many tiers as it takes to hold the volume, before anything else.
    pub(super) fn push_round(&mut self) {
        let acts = self.candidate.tenure.round((0..self.devices.len()).collect(), 1);
        acts.into_iter().rev().for_each(|act| self.tasks.push_front(Task::Lease(act)));
    }

    /// The claim stands on every tier.
    pub(super) fn confirm(&self) -> Result<(), Refusal> {
        let tiers = 0..self.devices.len();
        self.candidate.confirm(tiers).map_err(|obstacle| self.obstructed(obstacle))
    }

    /// Has claims taken back.
    pub(super) fn withdraw(&mut self) {
        self.phase = Phase::Withdraw;
        let acts = self.candidate.withdraw();
        self.tasks.extend(acts.into_iter().map(Task::Lease));
    }
}
