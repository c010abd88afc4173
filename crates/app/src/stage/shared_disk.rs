//! A disk that several hosts share, and that outlives each of them: qemu-nbd, throttled.
//!
//! The throttle is one queue for all connections: a request waits until what came before it is
//! paid for at the given rate, and then takes a time of its own. A connection has at most 16 in it.
//!
//! It is not nbdkit, as elsewhere, since that one ends when a client is killed: up to 1.32.5 a
//! thread that still has a reply for the broken connection fails an assertion (`raw_send_socket`),
//! at one kill of ten or so, and with it goes the disk of all the others.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use evenkeel_core::time::Span;
use evenkeel_io::child::ChildProcess;
use evenkeel_wire::nbd::uri::NbdUri;

use super::{Stage, unix_uri, wait_until_ready};
use crate::exit::Exit;

/// What to say where qemu-nbd is missing.
const MISSING: &str = "qemu-nbd is not installed, and the experiment needs it as the disk that all \
     hosts share: `apt install qemu-utils` (Debian, Ubuntu), `dnf install qemu-img` (Fedora, \
     RHEL), `zypper install qemu-tools` (SUSE)";

/// How large and how slow a shared disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedDiskOptions {
    /// The name of its only export; qemu-nbd knows no default.
    pub export: &'static str,
    /// Its size. Nothing is kept: what is read is undefined.
    pub size_bytes: u64,
    /// What all hosts together are given, in bytes per second.
    pub rate_bytes: u64,
    /// What each request takes besides.
    pub delay: Span,
}

/// A running qemu-nbd.
#[derive(Debug)]
pub struct SharedDisk {
    child: ChildProcess,
    socket: PathBuf,
    log: PathBuf,
}

/// Makes sure that qemu-nbd is there; the version it tells.
///
/// # Errors
/// [`Exit::Unreachable`], with the way to install it.
pub fn find_qemu_nbd() -> anyhow::Result<String> {
    let output = Command::new("qemu-nbd").arg("--version").output();
    let output = output.map_err(|_| Exit::Unreachable.because(MISSING))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

impl SharedDisk {
    /// Starts one.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(stage: &Stage, name: &str, options: SharedDiskOptions) -> anyhow::Result<Self> {
        let (socket, log) =
            (stage.path(&format!("{name}.sock")), stage.path(&format!("{name}.log")));
        let SharedDiskOptions { export, size_bytes, rate_bytes, delay } = options;
        let image = format!(
            "driver=throttle,throttle-group=pace,file.driver=null-co,file.size={size_bytes},\
             file.latency-ns={}",
            delay.0
        );
        let mut command = Command::new("qemu-nbd");
        command.arg("--socket").arg(&socket).args(["--shared", "0", "--persistent"]);
        command.args(["--export-name", export]);
        command.args(["--object", &format!("throttle-group,id=pace,x-bps-total={rate_bytes}")]);
        command.args(["--image-opts", &image]);
        let file = std::fs::File::create(&log).context("cannot write to the scratch folder")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let mut child = ChildProcess::spawn(&mut command).context("cannot start qemu-nbd")?;
        wait_until_ready(name, &mut child, &log, || UnixStream::connect(&socket).is_ok())?;
        Ok(Self { child, socket, log })
    }

    /// The server, without the name of its export.
    ///
    /// # Errors
    /// If the scratch folder's name is no text.
    pub fn uri(&self) -> anyhow::Result<NbdUri> {
        unix_uri(&self.socket, "")
    }

    /// Makes sure that it still runs, so that nobody measures gates without a disk.
    ///
    /// # Errors
    /// If it has ended; what it said last is part of the error.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.ended()? else { return Ok(()) };
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        bail!("the shared disk ended with {status}; it said: {}", said.trim());
    }
}
