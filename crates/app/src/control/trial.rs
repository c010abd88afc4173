//! A policy on trial: in force for a while, and gone unless somebody confirms it.
//!
//! ```text
//! apply --> on trial --confirm--> in force, and in the policy file
//!              |
//!              `--revert, or the time is over, or the gate dies--> the policy before
//! ```
//!
//! Until it is confirmed it is written nowhere. Other changes are refused meanwhile, as they would
//! be lost with it; a reload of the file ends the trial.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_engine::policy::Policy;
use serde::{Deserialize, Serialize};

use super::{ApplyError, Control};
use crate::config::{self, Diagnostics, LoadError, Parsed};

/// The longest trial.
pub const TRIAL_MAX: Duration = Duration::from_hours(1);

/// How often the end of a trial is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The body of `PUT /v1/policy`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// The policy, as a policy file has it.
    pub text: String,
    /// What findings call it.
    pub name: String,
    /// How long it may wait to be confirmed, in seconds; 1 to 3600.
    pub confirm_within_seconds: f64,
    /// Nobody may confirm it: whoever asks wants it for this time alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub temporary: bool,
}

/// Why a trial was not begun or ended.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// There is one.
    #[error(
        "a policy is on trial for another {left_seconds} s: `evenkeel ctl confirm` keeps it, \
         `evenkeel ctl revert` takes it back"
    )]
    UnderWay {
        /// For so long.
        left_seconds: u64,
    },
    /// There is none.
    #[error("no policy is on trial")]
    None,
    /// It is not meant to stay.
    #[error(
        "the policy on trial is meant for its time alone, as that of `evenkeel prove --load`: the \
         one before returns in {left_seconds} s, or at once by `evenkeel ctl revert`"
    )]
    Temporary {
        /// For so long it is still in force.
        left_seconds: u64,
    },
    /// The policy lies elsewhere.
    #[error("the policy comes from {0}: change it there")]
    Elsewhere(String),
    /// The time makes no sense.
    #[error("a trial takes 1 to 3600 s")]
    Length,
    /// The file cannot be written. The trial goes on.
    #[error("{0:#}")]
    File(anyhow::Error),
}

/// The trial of a gate, if there is one.
#[derive(Debug, Default)]
pub(super) struct Trials(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    begun: u64,
    under_way: Option<Trial>,
}

#[derive(Clone, Debug)]
struct Trial {
    number: u64,
    before: Policy,
    text: String,
    ends: Instant,
    is_temporary: bool,
}

impl Trials {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn under_way(&self) -> Option<Trial> {
        self.state().under_way.clone()
    }

    fn begin(&self, before: Policy, spec: TrialSpec, length: Duration) -> u64 {
        let mut state = self.state();
        state.begun += 1;
        let (number, ends) = (state.begun, Instant::now() + length);
        let TrialSpec { text, temporary: is_temporary, .. } = spec;
        state.under_way = Some(Trial { number, before, text, ends, is_temporary });
        number
    }

    /// Forgets the trial, whatever becomes of its policy.
    pub(super) fn end(&self) {
        self.state().under_way = None;
    }

    /// How long the trial goes on, if there is one.
    pub(super) fn left(&self) -> Option<Duration> {
        let ends = self.state().under_way.as_ref()?.ends;
        Some(ends.saturating_duration_since(Instant::now()))
    }

    /// # Errors
    /// If there is a trial.
    pub(super) fn refuse_changes(&self) -> Result<(), TrialError> {
        match self.left() {
            None => Ok(()),
            Some(left) => Err(TrialError::UnderWay { left_seconds: left.as_secs() + 1 }),
        }
    }
}

impl Control {
    /// Puts a policy in force until it is confirmed, or for so long. Gives the warnings.
    ///
    /// # Errors
    /// [`ApplyError`]; the old policy stays in force.
    pub async fn try_policy(self: &Arc<Self>, spec: TrialSpec) -> Result<Diagnostics, ApplyError> {
        let _changing = self.changing.lock().await;
        if !(1.0..=TRIAL_MAX.as_secs_f64()).contains(&spec.confirm_within_seconds) {
            return Err(TrialError::Length.into());
        }
        if let Some(remote) = &self.remote {
            return Err(TrialError::Elsewhere(remote.name.clone()).into());
        }
        self.trials.refuse_changes()?;
        let Parsed { policy, diagnostics, .. } =
            config::load_given(&spec.text, &spec.name, &self.file);
        let Some(mut policy) = policy else {
            return Err(LoadError::Invalid(diagnostics).into());
        };
        policy.mode = self.mode.unwrap_or(policy.mode);
        let before = self.gate.policy();
        config::spell_as(&mut policy, &before);
        self.gate.reload(policy).await?;
        let length = Duration::from_secs_f64(spec.confirm_within_seconds);
        let number = self.trials.begin(before, spec, length);
        let control = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(length).await;
            control.time_is_over(number).await;
        });
        Ok(diagnostics)
    }

    /// Brings the policy before back. If the gate cannot, the trial goes on, and it tries again.
    async fn time_is_over(&self, number: u64) {
        loop {
            let changing = self.changing.lock().await;
            let trial = self.trials.under_way().filter(|trial| trial.number == number);
            let Some(trial) = trial else { return };
            match self.gate.reload(trial.before).await {
                Ok(()) => {
                    tracing::warn!("nobody confirmed the policy on trial: the one before is back");
                    return self.trials.end();
                }
                Err(error) => {
                    tracing::error!("the policy before cannot be put in force again yet: {error}");
                }
            }
            drop(changing);
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Keeps the policy on trial: it is in force, and in the policy file. Gives the names of that
    /// file and of the copy of what it was.
    ///
    /// # Errors
    /// [`TrialError`].
    pub async fn confirm(&self) -> Result<[PathBuf; 2], TrialError> {
        let _changing = self.changing.lock().await;
        let trial = self.trials.under_way().ok_or(TrialError::None)?;
        if trial.is_temporary {
            let left = trial.ends.saturating_duration_since(Instant::now());
            return Err(TrialError::Temporary { left_seconds: left.as_secs() + 1 });
        }
        let files = self.write_file(trial.text).await.map_err(TrialError::File)?;
        self.trials.end();
        Ok(files)
    }

    /// Takes the policy on trial back at once.
    ///
    /// # Errors
    /// [`ApplyError`]; it stays in force then, for the rest of its time.
    pub async fn revert(&self) -> Result<(), ApplyError> {
        let _changing = self.changing.lock().await;
        let trial = self.trials.under_way().ok_or(TrialError::None)?;
        self.gate.reload(trial.before).await?;
        self.trials.end();
        Ok(())
    }

    /// How long the policy in force is on trial, if it is.
    pub fn trial_left(&self) -> Option<Duration> {
        self.trials.left()
    }
}
