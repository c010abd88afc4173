//! A stage for experiments: a scratch folder, and on it gates and data servers as child processes.
//!
//! Whatever happens, nothing stays behind. Children end when their handle is dropped, or when this
//! process dies; the folder goes when the stage is dropped, or on SIGINT and SIGTERM.

mod ceph;
mod data_server;
mod fio;
mod gate;
mod groups;
mod host;
mod network;
mod shared_disk;

pub use ceph::{CEPH_MISSING, CephCluster, CephOptions, find_ceph};
pub use data_server::{DataServer, NBDKIT_MISSING, Pace, find_nbdkit};
pub use fio::{FioJob, FioPattern, FioResult, FioRun, find_fio};
pub use gate::GateProcess;
pub use groups::no_groups;
pub use host::{Host, HostOptions};
pub use network::Network;
pub use shared_disk::{SharedDisk, SharedDiskOptions, find_qemu_nbd};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use evenkeel_io::child::ChildProcess;
use evenkeel_wire::nbd::uri::NbdUri;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;

/// How long a child may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// How often a starting child is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a shell makes of a process that SIGINT ended.
const ENDED_BY_SIGINT: i32 = 130;

/// Stages of one process differ by number.
static STAGES: AtomicU32 = AtomicU32::new(0);

/// A scratch folder.
#[derive(Debug)]
pub struct Stage {
    folder: PathBuf,
}

impl Stage {
    /// A fresh one in the system's folder for such things.
    ///
    /// # Errors
    /// If the folder cannot be made, or signals cannot be watched.
    pub fn new() -> anyhow::Result<Self> {
        let number = STAGES.fetch_add(1, Ordering::Relaxed);
        let name = format!("evenkeel-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)
            .with_context(|| format!("cannot make the scratch folder {}", folder.display()))?;
        let stage = Self { folder };
        stage.clean_up_on_signals()?;
        Ok(stage)
    }

    /// A file on the stage.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The default action would leave the folder behind. The children end in any case.
    fn clean_up_on_signals(&self) -> anyhow::Result<()> {
        let folder = self.folder.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut interrupt, mut terminate) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            });
            let _ = fs::remove_dir_all(folder);
            std::process::exit(ENDED_BY_SIGINT);
        })?;
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The URI of an export behind a unix socket.
fn unix_uri(socket: &Path, export: &str) -> anyhow::Result<NbdUri> {
    let export = crate::control::client::segment(export);
    let socket = socket.to_str().context("the scratch folder's name is no text")?;
    Ok(format!("nbd+unix:///{export}?socket={socket}").parse()?)
}

/// Looks until `ready` says yes, the child has ended, or patience has.
fn wait_until_ready(
    name: &str,
    child: &mut ChildProcess,
    log: &Path,
    mut ready: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    while !ready() {
        let ended = child.ended()?;
        if ended.is_some() || Instant::now() >= deadline {
            let said = fs::read_to_string(log).unwrap_or_default();
            let said = said.trim();
            let state = match ended {
                Some(status) => format!("ended with {status}"),
                None => format!("was not ready within {READY_WITHIN:?}"),
            };
            return Err(Exit::Runtime.because(format!("{name} {state}; it said: {said}")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
