//! Keeps what the gate measures of its backends in the data folder, for `evenkeel check`.
//!
//! A folder that hangs keeps nobody waiting: one write is under way at most, and signals are obeyed
//! meanwhile. What was not written is tried again.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use evenkeel_io::gate::GateHandle;
use tokio::task::JoinHandle;

use crate::measured::Notebook;

/// How often it is written, if there is anything new.
pub(super) const EVERY: Duration = Duration::from_mins(1);

/// Signals are not kept waiting for a data folder that hangs.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is kept, and where.
pub(super) struct Notes {
    folder: PathBuf,
    /// None where there is something that this program must not overwrite.
    notebook: Option<Notebook>,
    /// It has something that was not written.
    is_dirty: bool,
    /// The write that has not come back.
    writing: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Notes {
    /// Goes on with what the folder has. What cannot be read stays as it is, and is named.
    pub(super) fn open(folder: PathBuf) -> Self {
        let notebook = Notebook::read(&folder);
        let notebook = notebook.inspect_err(|error| tracing::warn!("nothing is kept: {error:#}"));
        Self { folder, notebook: notebook.ok(), is_dirty: false, writing: None }
    }

    /// Takes in what was measured by now, and writes it.
    pub(super) async fn keep(&mut self, gate: &GateHandle) {
        let Some(notebook) = &mut self.notebook else { return };
        let report = gate.report().await;
        self.is_dirty |=
            gate.with_policy(|policy| notebook.take(&report, policy, SystemTime::now()));
        if self.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
            return tracing::warn!("what was measured is not kept: the data folder hangs");
        }
        if self.is_dirty {
            self.write().await;
        }
    }

    async fn write(&mut self) {
        let (notebook, folder) = (self.notebook.clone().unwrap_or_default(), self.folder.clone());
        let mut writing = tokio::task::spawn_blocking(move || notebook.write(&folder));
        match tokio::time::timeout(PATIENCE, &mut writing).await {
            Ok(Ok(Ok(()))) => self.is_dirty = false,
            Ok(Ok(Err(error))) => tracing::warn!("what was measured is not kept: {error:#}"),
            Ok(Err(error)) => tracing::error!("what was measured is not kept: {error}"),
            Err(_) => {
                tracing::warn!("what was measured is not kept yet: the data folder hangs");
                self.writing = Some(writing);
            }
        }
    }
}
