//! Checking a store that nobody has open, without writing a byte.
//!
//! ```text
//! superblocks (all four places of each drive)
//!   -> recovery, with its writes dropped -> the state as the next mount would find it
//!     -> checkpoint: whole on every drive?   segment table: all copies there?
//!     -> map: does it agree with itself and with the counts of live blocks?
//!     -> zones: are their write pointers behind all that is in use?
//!     -> data: every live block of every copy against its tag (unless only structures are wanted)
//! ```
//!
//! Memory: what the open store would need for its map, a bit for each block of the segments in use,
//! and a bounded list of findings.

mod finding;
mod read_only;
mod structures;
mod zones;

use crate::chain::Member;
use crate::drive::Drive;
use crate::error::OpenError;
use crate::format::superblock::{DriveState, Superblock};
use crate::position::Position;
use crate::recover::OpenOptions;
use crate::scrub::{Flaw, FlawKind, ScrubReport};
use crate::store::{Status, Store};
use crate::units::{DriveIndex, Nonce};
use crate::volume::Volume;
pub use finding::{Finding, Place, Severity};
use read_only::ReadOnly;

/// Findings that are listed at most; the others are counted.
pub const FINDINGS_MAX: usize = 1000;

/// What to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether to read all data, which takes as long as reading the drives does.
    pub reads_data: bool,
    /// How far the store was, as far as is remembered outside its drives.
    pub known: Option<Position>,
}

/// What a check came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What the store is, if it could be told.
    pub survey: Option<Survey>,
    /// The first [`FINDINGS_MAX`] findings, in the order of the checks.
    pub findings: Vec<Finding>,
    /// Findings beyond these.
    pub omitted: u64,
    /// What was read of the data, if it was.
    pub data: ScrubReport,
    /// Whether it is proven that the drives are not all older images of themselves: somebody
    /// remembers how far the store was, and it is no less far.
    pub is_age_proven: bool,
}

/// What a store is, as the next mount would find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The newest superblock.
    pub superblock: Superblock,
    /// Which drives of its table are here.
    pub is_present: Vec<bool>,
    /// The volumes and snapshots.
    pub volumes: Vec<Volume>,
    /// How it is doing.
    pub status: Status,
}

/// Looks at a store without opening it, with those of its drives that are given. Nothing is
/// written.
///
/// # Errors
/// [`OpenError`], as when it is opened; that drives are missing is none.
pub async fn survey<D: Drive>(drives: Vec<D>) -> Result<Survey, OpenError> {
    survey_known(drives, None).await
}

/// Like [`survey`], and refuses a store that is behind `known`, the position that was remembered
/// outside its drives.
///
/// # Errors
/// [`OpenError`], [`OpenError::Older`] among them.
pub async fn survey_known<D: Drive>(
    drives: Vec<D>,
    known: Option<Position>,
) -> Result<Survey, OpenError> {
    Ok(peek(drives, known).await?.survey())
}

/// Checks a store on those of its drives that are given. Nothing is written. `progress` is told
/// now and then how far reading the data has come.
pub async fn check<D: Drive>(
    drives: Vec<D>,
    options: CheckOptions,
    mut progress: impl FnMut(&ScrubReport),
) -> CheckReport {
    let mut report = CheckReport::default();
    for (position, drive) in drives.iter().enumerate() {
        structures::check_superblocks(&mut report, position, drive).await;
    }
    let store = match peek(drives, options.known).await {
        Ok(store) => store,
        Err(error) => {
            report.note(Finding::fatal(&error));
            return report;
        }
    };
    report.survey = Some(store.survey());
    report.is_age_proven = options.known.is_some_and(|known| known.store == store.position().store);
    structures::check_headers(&mut report, &store);
    structures::check_drives(&mut report, &store);
    structures::check_checkpoint(&mut report, &store).await;
    structures::check_table(&mut report, &store);
    structures::check_map(&mut report, &store);
    zones::check_zones(&mut report, &store);
    if options.reads_data {
        check_data(&mut report, &store, &mut progress).await;
    }
    report
}

/// The state as the next mount would find it.
async fn peek<D: Drive>(
    drives: Vec<D>,
    known: Option<Position>,
) -> Result<Store<ReadOnly<D>>, OpenError> {
    let drives = drives.into_iter().map(ReadOnly::new).collect();
    // The mount never begins, and so nobody sees its nonce.
    let options = OpenOptions { allow_missing: true, known, ..OpenOptions::new(Nonce(0)) };
    Store::recover(drives, None, options).await
}

async fn check_data<D: Drive>(
    report: &mut CheckReport,
    store: &Store<ReadOnly<D>>,
    progress: &mut impl FnMut(&ScrubReport),
) {
    let mut scrub = store.scrub();
    while let Ok(Some(step)) = scrub.step().await {
        for flaw in step.flaws.iter().filter(|flaw| !store.is_about_to_be_written(flaw)) {
            report.note(Finding::of_flaw(flaw));
        }
        progress(scrub.report());
    }
    report.data = scrub.report().clone();
    for &drive in &scrub.report().gone {
        report.note(Finding {
            severity: Severity::Error,
            place: Place::Drive(drive),
            what: "the drive stopped answering while its data was read".to_owned(),
            remedy: "see to the drive, and check again",
        });
    }
}

impl CheckReport {
    /// How bad the worst finding is.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// The worst are kept when the list is full.
    fn note(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
            return;
        }
        self.omitted += 1;
        let milder = self.findings.iter().rposition(|known| known.severity < finding.severity);
        if let Some(index) = milder {
            self.findings.remove(index);
            self.findings.push(finding);
        }
    }
}

impl Finding {
    fn fatal(error: &OpenError) -> Self {
        Self {
            severity: Severity::Error,
            place: match (error.position(), error) {
                (Some(position), _) => Place::Given(position),
                (None, OpenError::Drive(drive, _)) => Place::Drive(*drive),
                (None, _) => Place::Store,
            },
            what: error.to_string(),
            remedy: "nothing else can be checked before that",
        }
    }

    fn of_flaw(flaw: &Flaw) -> Self {
        let Flaw { segment, slot, block, kind } = *flaw;
        let (severity, what, remedy) = match kind {
            FlawKind::Header => (
                Severity::Warning,
                "a record header is bad on this copy; its data is known all the same".to_owned(),
                "scrub the store, which writes the record anew",
            ),
            FlawKind::Data { volume, block } => (
                Severity::Warning,
                format!(
                    "this copy of block {block} of volume {} is bad; another one is good",
                    volume.0
                ),
                "scrub the store, which writes the block anew",
            ),
            FlawKind::Lost { volume, block } => (
                Severity::Error,
                format!("no copy of block {block} of volume {} is good", volume.0),
                "write the block anew, or restore it from a backup",
            ),
        };
        Self { severity, place: Place::Block { segment, slot, block }, what, remedy }
    }
}

impl<D: Drive> Store<ReadOnly<D>> {
    fn survey(&self) -> Survey {
        let status = self.status();
        let state = self.state.borrow();
        Survey {
            superblock: state.superblock.clone(),
            is_present: self.chain.members.iter().map(Member::is_present).collect(),
            volumes: self.volumes(),
            status,
        }
    }

    /// Whether recovery will write a whole record over this place.
    fn is_about_to_be_written(&self, flaw: &Flaw) -> bool {
        let member = &self.chain.members[flaw.slot.drive.index()];
        let offset_bytes = member.layout.block_offset_bytes(flaw.slot.slot, flaw.block);
        member.drive().is_some_and(|drive| drive.would_be_written(offset_bytes))
    }
}

impl Survey {
    /// The drives that are not here, or that may lack something.
    pub fn wanting(&self) -> Vec<DriveIndex> {
        let rows = (0..).map(DriveIndex).zip(&self.superblock.drives).zip(&self.is_present);
        rows.filter(|((_, row), is_present)| !**is_present || row.state != DriveState::InSync)
            .map(|((drive, _), _)| drive)
            .collect()
    }
}
