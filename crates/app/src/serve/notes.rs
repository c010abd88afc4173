//! Keeps what the gate measures of its backends in the data folder, for `evenkeel check`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use evenkeel_io::gate::GateHandle;

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
}

impl Notes {
    /// Goes on with what the folder has. What cannot be read stays as it is, and is named.
    pub(super) fn open(folder: PathBuf) -> Self {
        let notebook = Notebook::read(&folder);
        let notebook = notebook.inspect_err(|error| tracing::warn!("nothing is kept: {error:#}"));
        Self { folder, notebook: notebook.ok() }
    }

    /// Takes in what was measured by now, and writes it.
    pub(super) async fn keep(&mut self, gate: &GateHandle) {
        let Some(notebook) = &mut self.notebook else { return };
        let report = gate.report().await;
        if !gate.with_policy(|policy| notebook.take(&report, policy, SystemTime::now())) {
            return;
        }
        let (notebook, folder) = (notebook.clone(), self.folder.clone());
        let written = tokio::task::spawn_blocking(move || notebook.write(&folder));
        let Ok(written) = tokio::time::timeout(PATIENCE, written).await else {
            return tracing::warn!("what was measured is not kept: the data folder hangs");
        };
        if let Err(error) = written.expect("writing a file does not panic") {
            tracing::warn!("what was measured is not kept: {error:#}");
        }
    }
}
