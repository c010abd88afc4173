//! The fronts of all members: who they are, whose they are, and which of their blocks are bad.

use super::{Case, Doubt, Finding, MemberReport, OwnerReport, Reads, Report, Severity, each_block};
use crate::lease::mark::rolled_back;
use crate::lease::{FRONT_BYTES, Front, OWNER_OFFSET, Owner};
use crate::notes::block::{BLOCK_BYTES, Block};
use crate::notes::head::{HeadCopy, HeadError, VolumeHead};
use crate::notes::{Parlance, Unfit, VolumeId};

/// What kinds of volumes do differently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) words: Parlance,
    /// Whether both copies of every head were written, and one after the other.
    pub(crate) has_both_copies: bool,
}

/// The fronts of a volume's members, by member.
#[derive(Debug)]
pub(crate) struct Fronts<H> {
    pub(crate) by_member: Vec<Front<H>>,
    copies: Vec<[HeadCopy<H>; 2]>,
    /// By member: why it cannot be used as it is.
    faults: Vec<Option<Unfit>>,
    owners: Vec<OwnerBlock>,
    pub(crate) volume: Option<VolumeId>,
}

/// What stands where the owner should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerBlock {
    Whole,
    Blank,
    Damaged,
    Unreadable,
}

impl<H: VolumeHead> Fronts<H> {
    /// Reads the fronts of the members that can be reached.
    pub(crate) fn read(case: &Case, reads: &mut dyn Reads) -> Self {
        let members = case.devices.len();
        let mut blocks: Vec<[Option<Box<Block>>; 3]> =
            (0..members).map(|_| [const { None }; 3]).collect();
        for member in case.there().filter(|at| case.devices[*at].size_bytes >= FRONT_BYTES) {
            let mut place = blocks[member].iter_mut();
            each_block(reads, member, 0..FRONT_BYTES, |_, block| {
                *place.next().expect("three blocks") = block.map(|block| Box::new(*block));
            });
        }
        let copies = |blocks: &[Option<Box<Block>>; 3]| {
            [0, 1].map(|at| blocks[at].as_deref().map(|block| H::decode(block)))
        };
        let mut found = Self {
            by_member: vec![Front::default(); members],
            copies: blocks.iter().map(copies).collect(),
            faults: vec![None; members],
            owners: vec![OwnerBlock::Whole; members],
            volume: None,
        };
        found.volume = found.common_volume();
        for member in case.there() {
            let read = Front::read_some(blocks[member].each_ref().map(Option::as_deref));
            match read {
                Ok(front) => found.by_member[member] = front,
                Err(why) => found.faults[member] = Some(why),
            }
            found.owners[member] = found.owner_block(blocks[member][2].as_deref());
        }
        found
    }

    /// The volume that most members belong to.
    fn common_volume(&self) -> Option<VolumeId> {
        let heads =
            || self.copies.iter().filter_map(|copies| copies.iter().flatten().flatten().next());
        let count = |volume| heads().filter(|head| head.member().volume == volume).count();
        let volumes = heads().map(|head| head.member().volume);
        // The first of those that are alike counts.
        volumes.rev().max_by_key(|volume| count(*volume))
    }

    fn owner_block(&self, block: Option<&Block>) -> OwnerBlock {
        let Some(block) = block else { return OwnerBlock::Unreadable };
        if self.volume.is_some_and(|volume| Owner::decode(volume, block).is_some()) {
            OwnerBlock::Whole
        } else if block.iter().all(|byte| *byte == 0) {
            OwnerBlock::Blank
        } else {
            OwnerBlock::Damaged
        }
    }

    /// Whether there is no head on any member.
    pub(crate) fn are_blank(&self, case: &Case) -> bool {
        case.there().all(|at| self.by_member[at].head.is_none() && self.faults[at].is_none())
    }

    /// Whether the volume was made to the end.
    fn is_made(&self) -> bool {
        let heads = self.by_member.iter().filter_map(|front| front.head);
        heads.map(|head| head.member().generation).max().is_some_and(|newest| newest > 1)
    }

    /// Tells of members, owners, and what is wrong with their fronts.
    pub(crate) fn report(&self, kind: Kind, case: &Case, report: &mut Report) {
        report.volume = self.volume;
        for (member, device) in case.devices.iter().enumerate() {
            let front = &self.by_member[member];
            let head = front.head.map(|head| head.member());
            let owner = front.owner.as_ref();
            report.members.push(MemberReport {
                name: device.name.clone(),
                away: case.away[member].clone(),
                volume: head.map(|head| head.volume),
                number: head.map(|head| head.number),
                generation: head.map(|head| head.generation),
                count: owner.map(|owner| owner.mark.count),
                is_released: owner.map(|owner| owner.is_released),
            });
            match &case.away[member] {
                Some(why) => report.push(away(kind, member, why)),
                None => self.report_member(kind, (member, device.size_bytes), report),
            }
        }
        for (member, why) in rolled_back(&self.of_volume(), case.witness.as_ref()) {
            report.push(unfit(kind.words, member, &why));
        }
        self.report_owners(report);
    }

    /// The fronts of the members that belong to the volume.
    pub(crate) fn of_volume(&self) -> Vec<Front<H>> {
        let is_ours = |front: &Front<H>| front.head.map(|head| head.member().volume) == self.volume;
        let fronts = self.by_member.iter();
        fronts.map(|front| if is_ours(front) { front.clone() } else { Front::default() }).collect()
    }

    fn report_member(&self, kind: Kind, (member, size_bytes): (usize, u64), report: &mut Report) {
        if size_bytes < FRONT_BYTES {
            // The opening says how large it has to be.
            return;
        }
        if let Some(why) = &self.faults[member] {
            let heads = unfit(kind.words, member, why);
            return report.push(Finding { offset: Some(0), part: "heads".to_owned(), ..heads });
        }
        let Some(head) = self.by_member[member].head else {
            if self.volume.is_some() && kind.has_both_copies {
                report.push(unfit(kind.words, member, &Unfit::Blank));
            }
            return;
        };
        let (found, expected) = (head.member().volume, self.volume.unwrap_or_default());
        if found != expected {
            let why = Unfit::OtherVolume { found, expected };
            return report.push(unfit(kind.words, member, &why));
        }
        if self.is_made() {
            self.report_copies(kind, member, head.member().generation, report);
        }
        if self.owners[member] != OwnerBlock::Whole && self.is_made() {
            report.push(self.bad_owner(kind, member));
        }
    }

    /// Tells of head copies that are bad while the other one is whole.
    fn report_copies(&self, kind: Kind, member: usize, newest: u64, report: &mut Report) {
        for (at, copy) in self.copies[member].iter().enumerate() {
            let what = match copy {
                None => "it cannot be read".to_owned(),
                Some(Err(HeadError::Blank)) if !kind.has_both_copies => continue,
                Some(Err(HeadError::Blank)) => "it is blank".to_owned(),
                Some(Err(HeadError::Foreign)) => "something else stands there".to_owned(),
                Some(Err(_)) => "it is damaged".to_owned(),
                Some(Ok(head)) => {
                    let generation = head.member().generation;
                    if !kind.has_both_copies || generation + 1 >= newest {
                        continue;
                    }
                    format!("it has generation {generation}, and should have {}", newest - 1)
                }
            };
            report.push(Finding {
                severity: Severity::Warning,
                member: Some(member),
                offset: Some(at as u64 * BLOCK_BYTES),
                part: format!("head {}", if at == 0 { "A" } else { "B" }),
                what,
                consequence: "the other copy is the only one".to_owned(),
                remedy: "evenkeel volume repair writes it again".to_owned(),
                doubt: Doubt::None,
            });
        }
    }

    fn bad_owner(&self, kind: Kind, member: usize) -> Finding {
        let what = match self.owners[member] {
            OwnerBlock::Unreadable => "it cannot be read",
            OwnerBlock::Blank => "it is blank",
            OwnerBlock::Damaged | OwnerBlock::Whole => "it is damaged",
        };
        let (part, device) = (kind.words.part, kind.words.device);
        Finding {
            severity: Severity::Warning,
            member: Some(member),
            offset: Some(OWNER_OFFSET),
            part: "owner".to_owned(),
            what: what.to_owned(),
            consequence: format!(
                "only the other {part}s tell which gate has the volume, and an older copy of this \
                 {part} would not be noticed"
            ),
            remedy: format!(
                "make sure that it is the {device} that was used last; then evenkeel volume \
                 repair writes it again"
            ),
            doubt: Doubt::None,
        }
    }

    fn report_owners(&self, report: &mut Report) {
        let fronts = self.of_volume();
        let mut known = Vec::new();
        for owner in fronts.iter().filter_map(|front| front.owner.as_ref()) {
            let at = known.iter().position(|id| *id == owner.id).unwrap_or_else(|| {
                known.push(owner.id);
                report.owners.push(OwnerReport {
                    name: owner.gate.name.clone(),
                    is_released: true,
                    has_served: owner.has_served(),
                    beats: 0,
                });
                known.len() - 1
            });
            report.owners[at].is_released &= owner.is_released;
            report.owners[at].beats += owner.beat;
        }
    }
}

/// A member that cannot be reached.
fn away(kind: Kind, member: usize, why: &str) -> Finding {
    let part = kind.words.part;
    Finding {
        severity: Severity::Error,
        member: Some(member),
        offset: None,
        part: part.to_owned(),
        what: format!("it cannot be reached: {why}"),
        consequence: "nothing of it was checked".to_owned(),
        remedy: format!("see to the {part}, and check again"),
        doubt: Doubt::None,
    }
}

/// A member that cannot be used.
pub(crate) fn unfit(words: Parlance, member: usize, why: &Unfit) -> Finding {
    refused(words.part, member, &why.told(words))
}

/// Why an opening would be refused; the text says what is wrong, and behind a semicolon what to do.
pub(crate) fn refused(part: &str, member: usize, text: &str) -> Finding {
    let (what, remedy) = text.split_once("; ").unwrap_or((text, ""));
    Finding {
        severity: Severity::Error,
        member: Some(member),
        offset: None,
        part: part.to_owned(),
        what: what.to_owned(),
        consequence: "the volume is not opened".to_owned(),
        remedy: remedy.to_owned(),
        doubt: Doubt::None,
    }
}
