//! One gate at a time: whoever may be alive is watched and fenced off, then this gate's name is
//! written on every member of the volume, and has to stand.
//!
//! ```text
//! look --- watch, fence off ---> claim --- settle ---> confirm ---> in office, beating ---> done
//!   |                              |                     |             |
//!   +--- refused                   +------ refused: claims are taken back
//! ```
//!
//! Of gates that race for a volume at most one gets it, however late what they have written reaches
//! the members. Each writes its claim first, then looks whether heads have changed since the
//! verdict; writes its heads, and looks whether its claim still stands before it is done. Of two
//! that both go on, one finds the other's claim or the other's heads.
//!
//! The opening of a volume has one, does what it wants done ([`Act`]) in between its own tasks, and
//! brings it the fronts that it wants to see.

use evenkeel_core::time::{Nanos, Span};

use super::front::{Front, OWNER_OFFSET};
use super::half::Half;
use super::late::LateWrites;
use super::mark::{self, Mark};
use super::member::{Claim, claims};
use super::owner::{Owner, OwnerId, Settled};
use super::rules::{Mutant, Rules};
use super::tenure::Tenure;
use super::witness::Witness;
use super::{Gate, Office, Sending};
use crate::notes::blank::Making;
use crate::notes::block::Block;
use crate::notes::head::VolumeHead;
use crate::notes::{Unfit, VolumeId};

/// Names for what an opening may have to name, all drawn at random for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The volume, should it be made.
    pub volume: VolumeId,
    /// This opening.
    pub owner: OwnerId,
    /// This gate.
    pub gate: Gate,
    /// Openings of this gate before: nobody to be watched.
    pub before: Vec<OwnerId>,
}

/// What a candidate wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// The front of this member is to be read.
    Look(usize),
    /// This gate's name is to be written there for the first time.
    Claim(usize),
    /// The same again.
    Beat(usize),
    /// The same, with what the opening that now comes to its end has to say.
    Settle(usize),
    /// The claim is to be taken back there.
    Release(usize),
    /// Time is to pass.
    Wait(Span),
    /// The gates that have not let go are to be fenced off.
    Fence,
}

/// Who wants a volume whose heads say `H`. See the [module](self).
#[derive(Debug)]
pub(crate) struct Candidate<H> {
    pub(crate) names: Names,
    /// By member, as they were read last.
    pub(crate) fronts: Vec<Front<H>>,
    /// The fronts that the verdict is about.
    judged: Vec<Front<H>>,
    /// By member: what it is to remember until this opening comes to its end.
    pub(crate) settled: Vec<Settled>,
    /// By member: the mark that its claim keeps until then.
    marks: Vec<Mark>,
    /// The last move that is durable, as this opening has found it.
    pub(crate) noted: u64,
    /// Where this owner notes.
    half: Half,
    /// What an earlier process of this gate may still change.
    pub(crate) late: LateWrites,
    /// This gate's own lease.
    pub(crate) tenure: Tenure,
    watch: Watch,
    stage: Stage,
    /// Whether the volume is made.
    pub(crate) is_new: bool,
    /// Whether nobody else on this machine can reach any member.
    pub(crate) is_locked: bool,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It looks whose the volume is.
    Look,
    /// It claims the members.
    Claim,
    /// It looks whether the claims stand.
    Confirm,
    /// The volume is this gate's.
    Office,
    /// It takes its claims back.
    Withdraw,
}

/// Gates that have not let go.
#[derive(Debug, Default)]
struct Watch {
    /// For so long at least they are watched.
    span: Span,
    /// What they had said when they were first seen, by member.
    seen: Option<Vec<Option<Claim>>>,
    is_fenced: bool,
    /// Whether it was waited for others that open the volume.
    was_courteous: bool,
}

/// Which member stands in the way, and why.
pub(crate) type Obstacle = (usize, Unfit);

impl Act {
    /// The member that it is about.
    pub(crate) fn member(self) -> Option<usize> {
        match self {
            Self::Look(member)
            | Self::Claim(member)
            | Self::Beat(member)
            | Self::Settle(member)
            | Self::Release(member) => Some(member),
            Self::Wait(_) | Self::Fence => None,
        }
    }

    /// What right it takes.
    pub(crate) fn sending(self) -> Sending {
        match self {
            Self::Look(_) | Self::Wait(_) | Self::Fence => Sending::Look,
            Self::Claim(_) | Self::Beat(_) | Self::Settle(_) | Self::Release(_) => Sending::Claim,
        }
    }
}

impl<H: VolumeHead> Candidate<H> {
    /// Nothing is known yet of so many members.
    pub(crate) fn new(names: Names, members: usize) -> Self {
        Self {
            fronts: vec![Front::default(); members],
            judged: Vec::new(),
            settled: vec![Settled::default(); members],
            marks: vec![Mark::default(); members],
            noted: 0,
            half: Half::default(),
            late: LateWrites::default(),
            tenure: Tenure::new(names.gate.times, members),
            watch: Watch::default(),
            stage: Stage::Look,
            is_new: false,
            is_locked: false,
            names,
        }
    }

    /// Which rule a test has broken, if any.
    pub(crate) fn rules(&self) -> Rules {
        self.tenure.right.rules
    }

    /// Gates that have not let go are watched for so long at least.
    pub(crate) fn watch_for(&mut self, span: Span) {
        self.watch.span = span;
    }

    /// Whether an owner is this gate itself, or a process that it has taken the place of.
    fn is_own(&self, owner: &Owner) -> bool {
        self.names.before.contains(&owner.id)
            || owner.gate.is_gone_for(&self.names.gate)
            || self.is_locked && owner.gate.is_of_same_boot(&self.names.gate)
    }

    /// Whether an owner need not even be watched: it is this gate itself, or a process that has
    /// ended on this machine since that was started.
    fn is_surely_gone(&self, owner: &Owner) -> bool {
        let is_known = self.names.before.contains(&owner.id);
        is_known || self.is_own(owner) && owner.gate.is_of_same_boot(&self.names.gate)
    }

    fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.fronts.iter().filter_map(|front| front.owner.as_ref())
    }

    /// Whether the members may be used as this volume, or a new one made of them, as far as they
    /// and the state folder know; see [`mark::check`].
    ///
    /// # Errors
    /// Which one does not fit.
    pub(crate) fn check(
        &self,
        volume: Option<VolumeId>,
        witness: Option<&Witness>,
    ) -> Result<(), Obstacle> {
        mark::check(&self.fronts, volume, witness, self.rules())
    }

    /// Whether a block of a member without a head, read at this offset, may be written over.
    pub(crate) fn may_replace(&self, making: Making, offset: u64, block: &Block) -> bool {
        let rules = self.rules();
        making.may_replace(offset, block)
            || rules.is_broken(Mutant::MakeOver)
            || rules.is_broken(Mutant::BlankIfDamaged)
    }

    /// Everybody who may be alive is watched for a while; whoever has not moved is gone, or asleep,
    /// and has to be fenced off. What is to be done before all fronts are read again; none if the
    /// volume may be claimed.
    ///
    /// # Errors
    /// Another gate is at work.
    pub(crate) fn watch(&mut self) -> Result<Option<Act>, Obstacle> {
        let claimed = claims(&self.fronts, |owner| self.is_surely_gone(owner));
        let Some(before) = &self.watch.seen else {
            let is_claimed = claimed.iter().any(Option::is_some);
            self.watch.seen = is_claimed.then_some(claimed);
            return Ok(is_claimed.then(|| Act::Wait(self.watch_span())));
        };
        if let Some(member) = (0..claimed.len()).find(|&at| claimed[at] != before[at]) {
            return Err(self.in_use(member));
        }
        if self.watch.is_fenced
            || self.losers().is_empty()
            || self.rules().is_broken(Mutant::SkipFence)
        {
            return Ok(None);
        }
        Ok(Some(self.courtesy().map_or(Act::Fence, Act::Wait)))
    }

    /// The gates that have not let go are fenced off.
    pub(crate) fn fenced(&mut self) {
        self.watch.is_fenced = true;
    }

    /// The longest lease of all who are concerned, or as long as the operator wants.
    fn watch_span(&self) -> Span {
        let own = self.names.gate.times.lease().max(self.watch.span);
        self.owners().map(|owner| owner.gate.times.lease()).fold(own, Span::max)
    }

    /// Gates that were both cut off while they opened the volume would fence each other off at the
    /// same time: before one that has claimed and never served, each waits for a span of its own,
    /// once.
    fn courtesy(&mut self) -> Option<Span> {
        let is_contender =
            |owner: &Owner| !owner.is_released && !self.is_own(owner) && !owner.has_served();
        let is_due = !self.watch.was_courteous && self.owners().any(is_contender);
        self.watch.was_courteous = true;
        let drawn = u64::from_le_bytes(std::array::from_fn(|at| self.names.owner.0[at]));
        let lease = self.names.gate.times.lease().0;
        is_due.then(|| Span(drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % lease))
    }

    /// Whether an owner may still be at work and has not let go.
    fn is_loser(&self, owner: &Owner) -> bool {
        !owner.is_released && !self.is_own(owner)
    }

    /// The gates that have not let go, each once.
    pub(crate) fn losers(&self) -> Vec<Gate> {
        let mut losers: Vec<Gate> = Vec::new();
        for owner in self.owners().filter(|owner| self.is_loser(owner)) {
            if !losers.contains(&owner.gate) {
                losers.push(owner.gate.clone());
            }
        }
        losers
    }

    /// That gates which have not let go are not fenced off.
    pub(crate) fn unfenced(&self) -> Obstacle {
        let by: Vec<String> = self.losers().into_iter().map(|gate| gate.name).collect();
        let is_theirs =
            |front: &Front<H>| front.owner.as_ref().is_some_and(|owner| self.is_loser(owner));
        let at = self.fronts.iter().position(is_theirs);
        (at.unwrap_or(0), Unfit::Unfenced { by: by.join(", ") })
    }

    /// Where this owner notes, if the last opening that came to its end noted in this half: there,
    /// if the owner before has let go; if not, what it may still write lies in the other half. What
    /// this very gate had under way in its opening before is known. Whoever has taken its claim
    /// back had displaced somebody else, and is followed. `counts` says whose owners tell.
    pub(crate) fn choose_half(&self, before: Half, counts: impl Fn(usize) -> bool) -> Half {
        let members = (0..self.fronts.len()).filter(|member| counts(*member));
        let mut owners = members.map(|member| self.fronts[member].owner.as_ref());
        let stays = |owner: &Owner| {
            let is_known = owner.has_served() && self.names.before.contains(&owner.id);
            is_known || owner.is_released && (owner.has_served() || owner.half == before)
        };
        let stays = owners.all(|owner| owner.is_some_and(stays))
            || self.rules().is_broken(Mutant::SameHalf);
        if stays { before } else { before.other() }
    }

    /// The verdict is that the volume may be claimed, as the fronts are, and this is what the last
    /// opening that came to its end has said. Returns what is to be said of this one.
    pub(crate) fn begin_claim(&mut self, settled: &Settled, half: Half, generation: u64) -> Office {
        self.judged.clone_from(&self.fronts);
        // Claims lie over what was known of the members.
        if !self.rules().is_broken(Mutant::DropMarks) {
            self.marks = mark::carried(&self.fronts, settled.by);
        }
        self.stage = Stage::Claim;
        self.half = half;
        let since = if half == settled.half { settled.since } else { generation };
        let Names { owner, gate, .. } = self.names.clone();
        let beats = vec![0; self.fronts.len()];
        Office { owner, gate, generation, half, since, beats, noted: 0 }
    }

    /// The claims are written and have settled.
    pub(crate) fn begin_confirm(&mut self) {
        self.stage = Stage::Confirm;
    }

    /// The claims stand: the volume is this gate's from when they were written. So many members
    /// have to tell that from now on.
    pub(crate) fn take_office(&mut self, needed: usize) {
        self.stage = Stage::Office;
        self.tenure.take_office(needed);
    }

    /// Whether the volume has been this gate's.
    pub(crate) fn is_in_office(&self) -> bool {
        self.tenure.is_in_office()
    }

    /// The front of a member was read, or could not be; it was asked for at this time. Before a
    /// claim it must be what it was, and between two beats our own. False if what was to be written
    /// there next must not be.
    ///
    /// # Errors
    /// That it is not.
    pub(crate) fn looked(
        &mut self,
        member: usize,
        asked_at: Nanos,
        front: Result<Front<H>, Unfit>,
    ) -> Result<bool, Unfit> {
        self.tenure.note_look(member, asked_at);
        self.fronts[member] = match front {
            Err(Unfit::HeadDamaged) if self.rules().is_broken(Mutant::BlankIfDamaged) => {
                Front::default()
            }
            front => front?,
        };
        let is_ours = self.is_ours(member);
        match self.stage {
            Stage::Withdraw if !is_ours => return Ok(false),
            Stage::Withdraw => {}
            _ if self.tenure.is_look_of_round() => {
                let which = |front: &Front<H>| {
                    front.head.map(|head| (head.member().volume, head.member().number))
                };
                if !is_ours {
                    return Err(self.in_use(member).1);
                }
                if !self.is_new && which(&self.fronts[member]) != which(&self.judged[member]) {
                    // Two members have exchanged their addresses meanwhile.
                    return Err(Unfit::Failed);
                }
                if !self.is_head_known(member) && !self.rules().is_broken(Mutant::SkipHeads) {
                    // A late beat of ours lies over the name of whoever has the volume.
                    return Err(Unfit::InUse { by: "another gate".to_owned() });
                }
            }
            Stage::Claim if self.fronts[member] != self.judged[member] => {
                return Err(self.in_use(member).1);
            }
            Stage::Claim => {}
            Stage::Confirm if is_ours => {}
            Stage::Look | Stage::Confirm | Stage::Office => return Ok(true),
        }
        self.tenure.right.looked(member, asked_at);
        Ok(true)
    }

    /// Whether the head of a member is the one that was judged, or this opening's own.
    fn is_head_known(&self, member: usize) -> bool {
        let head = &self.fronts[member].head;
        let is_own = |head: &H| head.opening() == self.names.owner;
        *head == self.judged[member].head || head.as_ref().is_some_and(is_own)
    }

    fn is_ours(&self, member: usize) -> bool {
        let owner = self.fronts[member].owner.as_ref();
        owner.is_some_and(|owner| owner.id == self.names.owner)
    }

    /// The claim stands on each of these members; and before anything else was written, the heads
    /// are those that were judged.
    ///
    /// # Errors
    /// Another gate has claimed one.
    pub(crate) fn confirm(&self, members: impl IntoIterator<Item = usize>) -> Result<(), Obstacle> {
        let head_changed = |member: usize| {
            self.stage == Stage::Confirm
                && !self.is_new
                && self.fronts[member].head != self.judged[member].head
                && !self.rules().is_broken(Mutant::SkipHeads)
        };
        let is_lost = |member: &usize| !self.is_ours(*member) || head_changed(*member);
        match members.into_iter().find(is_lost) {
            Some(member) => Err(self.in_use(member)),
            None => Ok(()),
        }
    }

    fn in_use(&self, member: usize) -> Obstacle {
        let owner = self.fronts[member].owner.as_ref();
        let by = owner.map_or_else(|| "another gate".to_owned(), |owner| owner.gate.name.clone());
        (member, Unfit::InUse { by })
    }

    /// What has to be done to take claims back where they stand: the next gate need not watch this
    /// one, nor fence it off. What this one has written is over.
    pub(crate) fn withdraw(&mut self) -> Vec<Act> {
        self.stage = Stage::Withdraw;
        self.tenure.end();
        let claimed = (0..self.fronts.len()).filter(|member| self.tenure.beats[*member] > 0);
        claimed.flat_map(|member| [Act::Look(member), Act::Release(member)]).collect()
    }

    /// Makes what an act writes; returns where it goes. `ended` is what is to be said of this
    /// opening once it has come to its end.
    pub(crate) fn encode(
        &self,
        act: Act,
        (volume, ended): (VolumeId, Settled),
        block: &mut Block,
    ) -> u64 {
        let member = act.member().expect("what is written goes to a member");
        let (settled, mark) = if matches!(act, Act::Settle(_)) {
            (ended, Mark { noted: self.noted, ..Mark::default() })
        } else {
            (self.settled[member], self.marks[member])
        };
        let owner = Owner {
            id: self.names.owner,
            beat: self.tenure.beats[member] + 1,
            settled,
            mark,
            is_released: matches!(act, Act::Release(_)),
            half: self.half,
            gate: self.names.gate.clone(),
        };
        owner.encode(volume, block);
        OWNER_OFFSET
    }
}
