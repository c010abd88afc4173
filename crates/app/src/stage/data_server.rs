//! A data server that is not ours: nbdkit on memory, as slow as a disk.
//!
//! The filter `delay` lets each request sleep for a time that depends on its kind only; requests
//! sleep beside each other, as many as a connection has threads (16).
//!
//! The filter `rate` is a token bucket for the whole server. A request that finds too few tokens
//! takes what is there and sleeps for the time that the rest needs at full rate; requests that
//! sleep at once compete for the tokens when they wake. So the server is a pipe of the given rate
//! that is shared roughly evenly by the requests inside, with luck in the order: much like a disk
//! with a deep queue, and the reason for a gate to keep few requests outstanding. The bucket holds
//! two seconds' worth, which the ramp of a measurement has to use up.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use evenkeel_core::time::Span;
use evenkeel_io::child::ChildProcess;
use evenkeel_wire::nbd::uri::NbdUri;

use super::{Stage, unix_uri, wait_until_ready};
use crate::exit::Exit;

/// What to say where nbdkit is missing.
pub const NBDKIT_MISSING: &str = "nbdkit is not installed, and the experiment needs it as its data \
     servers: `apt install nbdkit` (Debian, Ubuntu), `dnf install nbdkit` (Fedora, RHEL), \
     `zypper install nbdkit` (SUSE)";

/// How slow a data server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As quick as memory.
    Free,
    /// So many bytes per second in each direction.
    Rate {
        /// Bytes per second.
        rate_bytes: u64,
    },
    /// Each request takes a time.
    Delay {
        /// Requests that read.
        read: Span,
        /// Requests that write.
        write: Span,
    },
}

/// A running nbdkit.
#[derive(Debug)]
pub struct DataServer {
    _child: ChildProcess,
    socket: PathBuf,
}

/// Makes sure that nbdkit is there; the version it tells.
///
/// # Errors
/// [`Exit::Unreachable`], with the way to install it.
pub fn find_nbdkit() -> anyhow::Result<String> {
    let output = Command::new("nbdkit").arg("--version").output();
    let output = output.map_err(|_| Exit::Unreachable.because(NBDKIT_MISSING))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Pace {
    /// The filters to load, and their settings.
    fn arguments(self) -> (&'static [&'static str], Vec<String>) {
        match self {
            Self::Free => (&[], Vec::new()),
            Self::Rate { rate_bytes } => {
                (&["--filter=rate"], vec![format!("rate={}", rate_bytes * 8)])
            }
            Self::Delay { read, write } => {
                let milliseconds = |name, time: Span| format!("{name}={}ms", time.0 / 1_000_000);
                let settings = vec![milliseconds("rdelay", read), milliseconds("wdelay", write)];
                (&["--filter=delay"], settings)
            }
        }
    }
}

impl DataServer {
    /// Starts one of `size_bytes`, as slow as `pace` says.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(stage: &Stage, name: &str, size_bytes: u64, pace: Pace) -> anyhow::Result<Self> {
        let (filters, settings) = pace.arguments();
        let filters = filters.iter().map(|filter| (*filter).to_owned());
        let plugin = ["memory".to_owned(), format!("size={size_bytes}")];
        let arguments: Vec<String> = filters.chain(plugin).chain(settings).collect();
        Self::start_by(stage, name, &arguments)
    }

    /// Starts one with these filters, plugin and settings.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_by(stage: &Stage, name: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let socket = stage.path(&format!("{name}.sock"));
        let log = stage.path(&format!("{name}.log"));
        let mut command = Command::new("nbdkit");
        command.args(["--foreground", "--unix"]).arg(&socket).args(arguments);
        let file = std::fs::File::create(&log).context("cannot write to the scratch folder")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let mut child = ChildProcess::spawn(&mut command).context("cannot start nbdkit")?;
        wait_until_ready(name, &mut child, &log, || UnixStream::connect(&socket).is_ok())?;
        Ok(Self { _child: child, socket })
    }

    /// Where its export is; it takes any name.
    ///
    /// # Errors
    /// If the scratch folder's name is no text.
    pub fn uri(&self, export: &str) -> anyhow::Result<NbdUri> {
        unix_uri(&self.socket, export)
    }
}
