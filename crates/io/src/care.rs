//! Volumes over other backends, checked and repaired without a gate that serves them: a small gate
//! of one thread, without listeners, reaches the members just as a gate does.
//!
//! ```text
//! check    members read, nothing locked, nothing written, no lease
//! repair   the volume opened as a gate opens it, under its lease, and let go of
//! ```

use std::path::{Path, PathBuf};

use evenkeel_core::time::Span;
use evenkeel_engine::care::Report;
use evenkeel_engine::policy::Policy;
use tokio::sync::oneshot;

use crate::gate::{DriveKind, DriveModels, Gate, GateError, Options};
use crate::worker::message::Message;

/// For so long a volume is let go of after a repair.
const GRACE: Span = Span::from_secs(10);

/// How members are reached.
#[derive(Clone, Debug)]
pub struct Means {
    /// The state folder of the gate whose volume it is.
    pub state: Option<PathBuf>,
    /// What serves files.
    pub drive: DriveKind,
    /// The drives that stores can emulate.
    pub drive_models: DriveModels,
    /// Whether a check opens stores that members are volumes of: their logs are recovered then, and
    /// written to, though no volume is.
    pub opens_stores: bool,
}

/// What is to be done with a volume.
#[derive(Clone, Debug)]
pub(crate) enum Care {
    /// Look at everything, and write nothing to the volume. What this folder remembers of it
    /// counts.
    Check { folder: Option<PathBuf>, opens_stores: bool },
    /// Open it as a repair, and let go of it. The operator's word may be given that gates which
    /// have not let go are gone.
    Repair { has_word: bool },
}

/// Why nothing came of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CareError {
    /// The policy has no such volume.
    #[error("the policy has no volume {0:?}: name a backend that has `tiers` or `choices`")]
    UnknownVolume(String),
    /// The small gate could not be made.
    #[error("{0}")]
    Gate(String),
    /// The volume is not opened.
    #[error("{0}")]
    Refused(String),
}

impl From<GateError> for CareError {
    fn from(error: GateError) -> Self {
        Self::Gate(error.to_string())
    }
}

/// Everything that is wrong with a volume of the policy. Blocks while it reads; a gate may have the
/// volume meanwhile.
///
/// # Errors
/// [`CareError`]; what is wrong with the volume is none.
pub fn check(policy: &Policy, volume: &str, means: &Means) -> Result<Report, CareError> {
    let care = Care::Check { folder: means.state.clone(), opens_stores: means.opens_stores };
    let report = perform(policy, volume, (means, None), care)?;
    report.ok_or_else(ended)
}

/// Mends what can be mended of a volume without a loss: opens it as a gate does, under its lease,
/// and lets go of it. Blocks until that is done.
///
/// # Errors
/// Why the volume is not opened; nothing was mended then but what the reason says.
pub fn repair(
    policy: &Policy,
    volume: &str,
    means: &Means,
    has_word: bool,
) -> Result<(), CareError> {
    let state = means.state.as_deref();
    perform(policy, volume, (means, state), Care::Repair { has_word }).map(drop)
}

fn ended() -> CareError {
    CareError::Gate("it ended before it was done".to_owned())
}

fn perform(
    policy: &Policy,
    volume: &str,
    (means, state): (&Means, Option<&Path>),
    care: Care,
) -> Result<Option<Report>, CareError> {
    let policy = only(policy, volume)?;
    let options = Options {
        cores: 1,
        drive: means.drive,
        drive_models: means.drive_models,
        recorder: None,
        flight: None,
        state: state.map(Path::to_path_buf),
    };
    let gate = Gate::start_idle(policy, &options)?;
    let (reply, done) = oneshot::channel();
    gate.send_first(Message::Care { volume: volume.to_owned(), care, reply });
    let result = done.blocking_recv().unwrap_or_else(|_| Err(ended()));
    gate.stop(GRACE);
    result
}

/// The policy with this volume alone: nothing else is opened, and nobody served.
fn only(policy: &Policy, volume: &str) -> Result<Policy, CareError> {
    let mut backends = policy.backends.iter();
    let known = backends.find(|backend| backend.name == volume && backend.is_volume());
    let known = known.ok_or_else(|| CareError::UnknownVolume(volume.to_owned()))?.clone();
    let mut policy = policy.clone();
    policy.backends.retain(|one| one.name == volume || known.has_member(&one.name));
    policy.listeners.clear();
    policy.exports.clear();
    policy.groups.clear();
    policy.exchange = None;
    Ok(policy)
}
