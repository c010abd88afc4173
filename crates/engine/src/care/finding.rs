//! What a check has found, with the place, what follows from it, and what to do.

use std::fmt;

use crate::notes::VolumeId;

/// Findings that are listed at most; the others are counted.
const FINDINGS_MAX: usize = 1000;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The volume puts it right by itself, or nothing depends on it.
    Note,
    /// All can be read, but something has one copy less than it should, or cannot be judged.
    Warning,
    /// Something is lost, or the volume cannot be opened.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Whether a finding may stand for a loss that nothing else shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doubt {
    /// It cannot.
    #[default]
    None,
    /// What is damaged may have been the last word: what is used instead may be older.
    MayBeOlder,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which member, in the order of the policy; none for the volume as a whole.
    pub member: Option<usize>,
    /// Where on the member, in bytes.
    pub offset: Option<u64>,
    /// What stands there: "head A", "record 17 of the journal, copy 0".
    pub part: String,
    /// What is wrong with it.
    pub what: String,
    /// What follows.
    pub consequence: String,
    /// What to do.
    pub remedy: String,
    /// Whether more may be lost than can be shown.
    pub doubt: Doubt,
}

impl Finding {
    /// Whether another check has found the same. Words may differ: counts go on.
    fn is_same(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.member, one.offset, one.severity);
        key(self) == key(other) && (self.offset.is_some() || self.part == other.part)
    }
}

/// What is known of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberReport {
    /// What the policy calls it.
    pub name: String,
    /// Why it cannot be reached, if it cannot.
    pub away: Option<String>,
    /// The volume that it belongs to.
    pub volume: Option<VolumeId>,
    /// Which member of the volume it is.
    pub number: Option<u32>,
    /// The generation of its newer head.
    pub generation: Option<u64>,
    /// How often its owner has counted there, by the last beat.
    pub count: Option<u64>,
    /// Whether the member says that its owner has let go.
    pub is_released: Option<bool>,
}

/// A gate that a member names as the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReport {
    /// What it calls itself.
    pub name: String,
    /// Whether it has let go on every member that names it.
    pub is_released: bool,
    /// Whether it has opened the volume to the end.
    pub has_served: bool,
    /// The sum of the numbers of its beats: one that grows is alive.
    pub beats: u64,
}

/// What an opening would make of the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Members are missing, so that nobody can tell.
    #[default]
    Unknown,
    /// There is none yet: the gate makes one of the blank members.
    Blank,
    /// It opens.
    Opens,
    /// It is refused, and opens after a repair.
    NeedsRepair,
    /// It is refused, and a repair does not help.
    Refused,
}

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The volume, as most members tell.
    pub volume: Option<VolumeId>,
    /// Its members, in the order of the policy.
    pub members: Vec<MemberReport>,
    /// The gates that members name as owners; more than one if openings were cut short.
    pub owners: Vec<OwnerReport>,
    /// Whether an owner has beaten while the check went on.
    pub is_in_use: bool,
    /// What else is known: what it is, and what stands there.
    pub facts: Vec<(&'static str, String)>,
    /// What an opening would make of it.
    pub verdict: Verdict,
    /// What is wrong, member by member.
    pub findings: Vec<Finding>,
    /// Findings that are not listed.
    pub omitted: u64,
}

impl Report {
    /// Notes a finding.
    pub(crate) fn push(&mut self, finding: Finding) {
        let is_known = |known: &Finding| known.member == finding.member && known == &finding;
        if self.findings.iter().any(is_known) {
            return;
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.omitted += 1;
        }
    }

    /// Notes why an opening would be refused, unless that is known of the member.
    pub(crate) fn push_refusal(&mut self, finding: Finding) {
        let is_known =
            |known: &Finding| known.member == finding.member && known.what == finding.what;
        if !self.findings.iter().any(is_known) {
            self.push(finding);
        }
    }

    /// What is wrong with this member a repair mends.
    pub(crate) fn mends(&mut self, member: usize) {
        let of_it =
            |one: &&mut Finding| one.member == Some(member) && one.severity == Severity::Error;
        for finding in self.findings.iter_mut().filter(of_it) {
            "evenkeel volume repair writes them again, from what the other members say"
                .clone_into(&mut finding.remedy);
        }
    }

    /// The worst finding.
    pub fn worst(&self) -> Option<Severity> {
        let omitted = (self.omitted > 0).then_some(Severity::Warning);
        self.findings.iter().map(|finding| finding.severity).max().max(omitted)
    }

    /// Whether something is wrong that does not heal by itself.
    pub fn is_well(&self) -> bool {
        self.worst().is_none_or(|worst| worst == Severity::Note)
    }

    /// Whether a member cannot be reached.
    pub fn has_away(&self) -> bool {
        self.members.iter().any(|member| member.away.is_some())
    }

    /// Whether something may be lost that nothing shows.
    pub fn has_doubt(&self) -> bool {
        self.findings.iter().any(|finding| finding.doubt != Doubt::None)
    }

    /// What was wrong, and is not any more.
    pub fn mended(&self, after: &Self) -> Vec<Finding> {
        let is_left = |one: &&Finding| {
            let place = |one: &Finding| (one.member, one.offset, one.part.clone());
            after.findings.iter().any(|other| place(other) == place(one))
        };
        self.findings.iter().filter(|one| !is_left(one)).cloned().collect()
    }

    /// A later report of the same volume, of which only that counts which this one had found too:
    /// a gate that is at work changes what it notes.
    #[must_use]
    pub fn confirmed(&self, later: Self) -> Self {
        let beats = |report: &Self| report.owners.iter().map(|owner| owner.beats).sum::<u64>();
        let is_in_use = self.is_in_use || beats(self) != beats(&later);
        let was_found = |one: &Finding| self.findings.iter().any(|other| one.is_same(other));
        let findings = later.findings.iter().filter(|one| was_found(one)).cloned().collect();
        Self { is_in_use, findings, ..later }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(offset: u64, severity: Severity) -> Finding {
        Finding {
            severity,
            member: Some(0),
            offset: Some(offset),
            part: "head A".to_owned(),
            what: String::new(),
            consequence: String::new(),
            remedy: String::new(),
            doubt: Doubt::None,
        }
    }

    #[test]
    fn only_what_is_found_twice_counts_beside_a_gate() {
        let (mut first, mut later) = (Report::default(), Report::default());
        first.push(finding(0, Severity::Warning));
        first.push(finding(4096, Severity::Warning));
        later.push(finding(4096, Severity::Warning));
        later.push(finding(8192, Severity::Error));
        let both = first.confirmed(later);
        assert_eq!(both.findings, [finding(4096, Severity::Warning)]);
        assert!(!both.is_well());
        assert!(Report::default().confirmed(Report::default()).is_well());
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let mut report = Report::default();
        for at in 0..FINDINGS_MAX as u64 + 7 {
            report.push(finding(at, Severity::Note));
        }
        assert_eq!((report.findings.len(), report.omitted), (FINDINGS_MAX, 7));
        assert!(!report.is_well());
    }
}
