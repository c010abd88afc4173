//! The control plane: what an operator asks of a running gate, over HTTP on a unix socket, and the
//! part of it that anyone may read, over TCP.
//!
//! ```text
//! unix socket, mode 0600                          TCP (read only)
//! GET    /v1/status[?detail=buckets]              GET /v1/status
//! GET    /v1/policy                               GET /metrics
//! PUT    /v1/policy                               GET /healthz
//! POST   /v1/policy/confirm, /revert, /save
//! POST   /v1/reload
//! PUT    /v1/mode
//! PUT    /v1/tenants/{name}   DELETE ...
//! PUT    /v1/exports/{name}   DELETE ...
//! PUT    /v1/recording        GET, DELETE ...
//! GET    /v1/volumes          POST ...
//! POST   /v1/scrub
//! POST   /v1/claims/{volume}
//! ```
//!
//! Changes made here live until the next reload of the file unless they are saved, and are held
//! against the same rules as the file. docs/control.md is the manual.

mod body;
pub mod change;
pub mod client;
mod http;
mod refusal;
pub mod remote;
pub mod resize;
mod routes;
pub mod running;
pub mod scrub;
pub mod socket;
pub mod trial;
mod visitor;
pub mod volumes;

use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_engine::policy::admission::Measurements;
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_io::gate::{GateError, GateHandle, GateReport};
use evenkeel_io::record::RecordingReport;
use tokio::sync::Mutex;

use crate::config::{self, Diagnostics, LoadError, Parsed};
use crate::trace::record;
use change::{Change, ChangeError};
use remote::Remote;
use trial::{TrialError, Trials};

pub use http::{serve_operator, serve_public};
pub use routes::{operator, public};

/// What the control plane works on.
#[derive(Debug)]
pub struct Control {
    gate: GateHandle,
    file: PathBuf,
    mode: Option<Mode>,
    /// Where the policy comes from, if not from the file.
    remote: Option<Remote>,
    /// Held while a policy is read, changed and put in force, so that no change is lost.
    changing: Mutex<()>,
    trials: Trials,
}

/// Why a policy was not put in force. The old one stays.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The file cannot be read or is not valid.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The change makes no sense.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The gate cannot do it.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// A policy is on trial, or cannot be.
    #[error(transparent)]
    Trial(#[from] TrialError),
}

/// Why a recording was not started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be made.
    #[error("{0:#}")]
    File(anyhow::Error),
    /// There is one already.
    #[error("a recording is under way; end it with `evenkeel ctl record stop`")]
    Twice,
    /// There is none.
    #[error("no recording is under way")]
    None,
    /// The gate does not keep its last requests.
    #[error("this gate keeps no requests")]
    NotKept,
}

impl Control {
    /// The control plane of a gate whose policy came from `file`; `mode` overrides what the file
    /// says, at every reload.
    pub fn new(gate: GateHandle, file: PathBuf, mode: Option<Mode>) -> Arc<Self> {
        Self::with_remote(gate, file, mode, None)
    }

    /// The same for a gate whose policy comes from elsewhere, where the file is a copy.
    pub fn with_remote(
        gate: GateHandle,
        file: PathBuf,
        mode: Option<Mode>,
        remote: Option<Remote>,
    ) -> Arc<Self> {
        Arc::new(Self {
            gate,
            file,
            mode,
            remote,
            changing: Mutex::new(()),
            trials: Trials::default(),
        })
    }

    /// Where the policy comes from, if not from the file.
    pub fn remote(&self) -> Option<&Remote> {
        self.remote.as_ref()
    }

    /// The gate.
    pub fn gate(&self) -> &GateHandle {
        &self.gate
    }

    /// Reads the file again, or takes what the policy's place elsewhere said last, and puts it in
    /// force. Gives the warnings.
    ///
    /// # Errors
    /// [`ApplyError`]; the old policy stays in force.
    pub async fn reload(&self) -> Result<Diagnostics, ApplyError> {
        let _changing = self.changing.lock().await;
        let file = self.file.clone();
        let said = self.remote.as_ref().and_then(|it| Some((it.name.clone(), it.latest()?)));
        let text = said.as_ref().map(|(_, text)| text.clone());
        let loaded = tokio::task::spawn_blocking(move || match said {
            Some((name, text)) => Ok(config::load_text(&text, &name, &file)),
            None => config::load(&file),
        });
        let parsed = loaded.await.expect("reading a policy does not panic")?;
        let Parsed { policy, diagnostics, .. } = parsed;
        let Some(mut policy) = policy else {
            return Err(LoadError::Invalid(diagnostics).into());
        };
        if let Some(mode) = self.mode {
            policy.mode = mode;
        }
        config::spell_as(&mut policy, &self.gate.policy());
        self.gate.reload(policy).await?;
        self.trials.end();
        if let Some(text) = text {
            let file = self.file.clone();
            let kept = tokio::task::spawn_blocking(move || remote::keep(&text, &file)).await;
            if let Err(error) = kept.expect("writing a file does not panic") {
                tracing::warn!("{error:#}");
            }
        }
        Ok(diagnostics)
    }

    /// Starts a recording and gives the name of its file.
    ///
    /// # Errors
    /// [`RecordError`]; nothing is recorded, or what was goes on.
    pub async fn start_recording(&self, path: PathBuf) -> Result<String, RecordError> {
        let started = tokio::task::spawn_blocking(move || record::start(&path)).await;
        let recorder =
            started.expect("opening a file does not panic").map_err(RecordError::File)?;
        let name = recorder.report().name;
        if self.gate.start_recording(Arc::clone(&recorder)).await {
            return Ok(name);
        }
        // It is empty, and nobody has seen it.
        recorder.finish();
        let _ = std::fs::remove_file(&name);
        Err(RecordError::Twice)
    }

    /// Ends the recording under way and completes its file.
    ///
    /// # Errors
    /// [`RecordError::None`].
    pub async fn stop_recording(&self) -> Result<RecordingReport, RecordError> {
        let recorder = self.gate.stop_recording().await.ok_or(RecordError::None)?;
        let finished = tokio::task::spawn_blocking(move || recorder.finish()).await;
        Ok(finished.expect("a recording ends without a panic"))
    }

    /// The requests of the last minutes, as a whole trace in the native format.
    ///
    /// # Errors
    /// [`RecordError::NotKept`].
    pub async fn recent(&self) -> Result<Vec<u8>, RecordError> {
        let gate = self.gate.clone();
        let made = tokio::task::spawn_blocking(move || gate.recent()).await;
        made.expect("making a trace does not panic").ok_or(RecordError::NotKept)
    }

    /// Changes the policy in force. Gives the warnings, also of what contradicts what the gate has
    /// measured.
    ///
    /// # Errors
    /// [`ApplyError`]; the old policy stays in force.
    pub async fn change(&self, change: Change) -> Result<Diagnostics, ApplyError> {
        let _changing = self.changing.lock().await;
        self.trials.refuse_changes()?;
        let mut policy: Policy = self.gate.policy();
        let mut diagnostics = change.apply(&mut policy)?;
        let report = self.gate.report().await;
        for problem in policy.check_measured(&measured_by(&report)) {
            diagnostics.push(config::unlocated(&problem));
        }
        self.gate.reload(policy).await?;
        Ok(diagnostics)
    }

    /// Writes the policy in force into the policy file, as it is printed. Gives the names of that
    /// file and of the copy of the previous one.
    ///
    /// # Errors
    /// [`TrialError`]: a policy on trial is not saved, nor one that comes from elsewhere.
    pub async fn save(&self) -> Result<[PathBuf; 2], TrialError> {
        let _changing = self.changing.lock().await;
        self.trials.refuse_changes()?;
        if let Some(remote) = &self.remote {
            return Err(TrialError::Elsewhere(remote.name.clone()));
        }
        let mut policy = self.gate.policy();
        config::absolute(&mut policy);
        self.write_file(config::print(&policy)).await.map_err(TrialError::File)
    }

    async fn write_file(&self, text: String) -> anyhow::Result<[PathBuf; 2]> {
        let file = self.file.clone();
        let kept = tokio::task::spawn_blocking(move || remote::keep_with_former(&text, &file));
        let former = kept.await.expect("writing a file does not panic")?;
        Ok([self.file.clone(), former])
    }
}

/// What a gate has measured of its backends since it started.
fn measured_by(report: &GateReport) -> Measurements {
    let servers = report.domains.iter().flat_map(|domain| &domain.servers);
    servers.filter_map(|server| Some((server.name.clone(), server.measured?))).collect()
}

#[cfg(test)]
mod tests;
