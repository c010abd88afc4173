//! One gate at a time: whoever may be alive is watched and fenced off, then this gate's name is
//! written on every server, and has to stand.
//!
//! Of gates that race for a volume at most one gets it, however late what they have written
//! reaches the servers. Each writes its claim first, then looks whether heads have changed since
//! the verdict; writes its heads, and looks whether its claim still stands before it is done. Of
//! two that both go on, one finds the other's claim or the other's heads.

use evenkeel_core::time::{Nanos, Span};

use super::super::format::owner::{Owner, OwnerId, Settled};
use super::super::heads::{Case, Front, Usable, Verdict};
use super::super::layout::{FRONT_BYTES, Half, Layout, OWNER_OFFSET};
use super::super::lease::{Claim, claims};
use super::super::refusal::{Refusal, RefusalReason};
use super::super::rules::Mutant;
use super::super::volume::Volume;
use super::{Opening, Phase, Task};
use crate::lease::Gate;
use crate::notes::Unfit;

/// Gates that have not let go.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// For so long at least they are watched.
    pub(super) span: Span,
    /// What they had said when they were first seen, by server.
    pub(super) seen: Option<Vec<Option<Claim>>>,
    pub(super) is_fenced: bool,
    /// Whether it was waited for others that open the volume.
    pub(super) was_courteous: bool,
}

impl Opening {
    fn case(&self) -> Case<'_> {
        let Self { shape, devices, fronts, .. } = self;
        Case { shape, devices, fronts, away: self.away, rules: self.rules }
    }

    /// Whether an owner is this gate itself, or a process that it has taken the place of.
    fn is_own(&self, owner: &Owner) -> bool {
        self.names.before.contains(&owner.id) || owner.gate.is_gone_for(&self.names.gate)
    }

    /// Whether an owner need not even be watched: it is this gate itself, or a process that has
    /// ended on this machine since that was started.
    fn is_surely_gone(&self, owner: &Owner) -> bool {
        let is_known = self.names.before.contains(&owner.id);
        is_known || self.is_own(owner) && owner.gate.is_of_same_boot(&self.names.gate)
    }

    /// Everybody who may be alive is watched for a while; whoever has not moved is gone, or asleep,
    /// and has to be fenced off.
    pub(super) fn watch_or_claim(&mut self) -> Result<(), Refusal> {
        let verdict = self.case().judge()?;
        if self.may_notes_change(&verdict) {
            self.tasks.push_back(Task::Wait(self.late.until().since(self.tenure.now)));
            self.push_each(|server| Task::ReadFront { server });
            return Ok(());
        }
        let claimed = claims(&self.fronts, |owner| self.is_surely_gone(owner));
        match &self.watch.seen {
            None if claimed.iter().any(Option::is_some) => {
                self.watch.seen = Some(claimed);
                self.tasks.push_back(Task::Wait(self.watch_span()));
                self.push_each(|server| Task::ReadFront { server });
                return Ok(());
            }
            Some(before) => {
                if let Some(server) = (0..claimed.len()).find(|&at| claimed[at] != before[at]) {
                    return Err(self.in_use(server));
                }
                let is_due = !self.watch.is_fenced && !self.losers().is_empty();
                if is_due && !self.rules.is_broken(Mutant::SkipFence) {
                    if let Some(span) = self.courtesy() {
                        self.tasks.push_back(Task::Wait(span));
                        self.push_each(|server| Task::ReadFront { server });
                        return Ok(());
                    }
                    self.tasks.push_back(Task::Fence);
                    self.push_each(|server| Task::ReadFront { server });
                    return Ok(());
                }
            }
            None => {}
        }
        self.claim(verdict)
    }

    /// Whether what this gate had under way before may still change heads, or notes in the half
    /// that is written to from now on. Late claims and beats do no harm: an owner writes over them.
    fn may_notes_change(&self, verdict: &Verdict) -> bool {
        let written = |server: usize| {
            let [table, choices] = match verdict {
                Verdict::Make(_) => [FRONT_BYTES..u64::MAX, 0..0],
                Verdict::Use(usable) => usable.layout.half_ranges(server, self.half(usable)),
            };
            [0..OWNER_OFFSET, table, choices]
        };
        let reaches = |server: usize, range| self.late.reaches(self.tenure.now, server, range);
        let mut there = (0..self.devices.len()).filter(|server| self.away != Some(*server));
        there.any(|server| written(server).into_iter().any(|range| reaches(server, range)))
    }

    /// The longest lease of all who are concerned, or as long as the operator wants.
    fn watch_span(&self) -> Span {
        let own = self.names.gate.times.lease().max(self.watch.span);
        let owners = self.fronts.iter().filter_map(|front| front.owner.as_ref());
        owners.map(|owner| owner.gate.times.lease()).fold(own, Span::max)
    }

    /// Gates that were both cut off while they opened the volume would fence each other off at the
    /// same time: before one that has claimed and never served, each waits for a span of its own,
    /// once.
    fn courtesy(&mut self) -> Option<Span> {
        let is_contender =
            |owner: &Owner| !owner.is_released && !self.is_own(owner) && !owner.has_served();
        let owners = self.fronts.iter().filter_map(|front| front.owner.as_ref());
        let is_due = !self.watch.was_courteous && owners.into_iter().any(is_contender);
        self.watch.was_courteous = true;
        let drawn = u64::from_le_bytes(std::array::from_fn(|at| self.names.owner.0[at]));
        let lease = self.names.gate.times.lease().0;
        is_due.then(|| Span(drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % lease))
    }

    /// The gates that have not let go, each once.
    pub(super) fn losers(&self) -> Vec<Gate> {
        let mut losers: Vec<Gate> = Vec::new();
        let owners = self.fronts.iter().filter_map(|front| front.owner.as_ref());
        for owner in owners.filter(|owner| !owner.is_released && !self.is_own(owner)) {
            if !losers.contains(&owner.gate) {
                losers.push(owner.gate.clone());
            }
        }
        losers
    }

    pub(super) fn unfenced(&self) -> Refusal {
        let by: Vec<String> = self.losers().into_iter().map(|gate| gate.name).collect();
        let at = self.fronts.iter().position(|front| {
            front.owner.as_ref().is_some_and(|owner| !owner.is_released && !self.is_own(owner))
        });
        self.refusal_of(at.unwrap_or(0), RefusalReason::Unfenced { by: by.join(", ") })
    }

    fn claim(&mut self, verdict: Verdict) -> Result<(), Refusal> {
        let owner = (self.names.owner, self.names.gate.clone());
        let mut volume = match verdict {
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
        volume.late = std::mem::take(&mut self.late);
        self.opened = Some(Box::new(volume));
        self.judged.clone_from(&self.fronts);
        // What is known of the last opening outlives this one, should it be cut short.
        for server in self.quickest_first() {
            self.tasks.push_back(Task::ReadFront { server });
            if self.is_new {
                self.tasks.push_back(Task::WriteHead { server, generation: 0 });
            }
            self.tasks.push_back(Task::WriteClaim { server });
        }
        self.push_old(|server| Task::Flush { server });
        self.tasks.push_back(Task::Wait(self.names.gate.times.settle()));
        self.phase = Phase::Claim;
        Ok(())
    }

    /// The volume that there is, as yet without objects.
    fn take(&mut self, usable: Usable, owner: (OwnerId, Gate)) -> Volume {
        let half = self.half(&usable);
        let Usable { volume, layout, generation, settled, .. } = usable;
        self.settled.fill(settled);
        if let Some((server, absent)) = usable.returning.zip(settled.absent) {
            let own = self.fronts[server].owner.as_ref().map_or(0, |own| own.settled.generation);
            // It is what it was when it was left, until this opening comes to its end.
            let (generation, by) = (own, absent.known);
            self.settled[server] = Settled { generation, by, absent: None, ..settled };
        }
        (self.joining, self.missing) = (usable.joining, usable.missing);
        self.returning = usable.returning;
        let mut volume = Volume::blank(volume, layout, generation, owner);
        if let Some(server) = self.away {
            volume.tables[server].free.clear();
        }
        volume.note_in(half);
        (volume.away, volume.left_out) = (self.away, usable.left_out);
        volume.is_parted = usable.was_parted || usable.left_out.is_some();
        volume
    }

    /// Where this owner notes: where the one before did, if that has let go; if not, what it may
    /// still write lies in the other half. What this very gate had under way in its opening before
    /// is known. Whoever has taken its claim back had displaced somebody else, and is followed.
    fn half(&self, usable: &Usable) -> Half {
        let before = usable.settled.half;
        let counts = |server: &usize| {
            self.fronts[*server].head.is_some() && usable.returning != Some(*server)
        };
        let owners = (0..self.fronts.len()).filter(counts);
        let mut owners = owners.map(|server| self.fronts[server].owner.as_ref());
        let stays = |owner: &Owner| {
            let is_known = owner.has_served() && self.names.before.contains(&owner.id);
            is_known || owner.is_released && (owner.has_served() || owner.half == before)
        };
        let stays = owners.all(|owner| owner.is_some_and(stays));
        let stays = stays || self.rules.is_broken(Mutant::SameHalf);
        if stays { before } else { before.other() }
    }

    /// A front was read: before a claim it must be what it was, and between two beats our own.
    pub(super) fn front_read(&mut self, server: usize, asked_at: Nanos) -> Result<(), Refusal> {
        if self.phase == Phase::Withdraw {
            self.withdraw_here(server, asked_at);
        } else if self.is_look_of_round() {
            let number = |front: &Front| front.head.map(|head| (head.volume, head.number));
            if !self.is_ours(server) {
                return Err(self.in_use(server));
            }
            if !self.is_new && number(&self.fronts[server]) != number(&self.judged[server]) {
                // Two servers have exchanged their addresses meanwhile.
                return Err(self.refusal_of(server, Unfit::Failed.into()));
            }
            self.tenure.right.looked(server, asked_at);
        } else if self.phase == Phase::Claim {
            if self.fronts[server] != self.judged[server] {
                return Err(self.in_use(server));
            }
            self.tenure.right.looked(server, asked_at);
        } else if self.phase == Phase::Confirm && self.is_ours(server) {
            self.tenure.right.looked(server, asked_at);
        }
        Ok(())
    }

    pub(super) fn is_ours(&self, server: usize) -> bool {
        let owner = self.fronts[server].owner.as_ref();
        owner.is_some_and(|owner| owner.id == self.names.owner)
    }

    /// The claim stands on every server that has one; and before anything else was written, the
    /// heads are those that were judged.
    pub(super) fn confirm(&self) -> Result<(), Refusal> {
        let head_changed = |server: &usize| {
            self.phase == Phase::Confirm
                && !self.is_new
                && self.fronts[*server].head != self.judged[*server].head
                && !self.rules.is_broken(Mutant::SkipHeads)
        };
        match self.old().find(|server| !self.is_ours(*server) || head_changed(server)) {
            Some(server) => Err(self.in_use(server)),
            None => Ok(()),
        }
    }

    fn in_use(&self, server: usize) -> Refusal {
        let owner = self.fronts[server].owner.as_ref();
        let by = owner.map_or_else(|| "another gate".to_owned(), |owner| owner.gate.name.clone());
        self.refusal_of(server, RefusalReason::InUse { by })
    }
}
