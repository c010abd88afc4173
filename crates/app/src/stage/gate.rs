//! A gate as a child process: this very program, with a policy of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use evenkeel_io::child::ChildProcess;
use evenkeel_wire::nbd::uri::NbdUri;
use hyper::Method;
use tokio::runtime::Runtime;

use super::{Stage, unix_uri, wait_until_ready};
use crate::control::client::Client;
use crate::metrics::process::Usage;
use crate::status::Status;

/// A running gate.
#[derive(Debug)]
pub struct GateProcess {
    child: ChildProcess,
    socket: PathBuf,
    policy: PathBuf,
    control: Client,
    runtime: Runtime,
}

impl GateProcess {
    /// Starts `evenkeel serve` with this policy, to which the address to listen on is added, and
    /// waits until it answers.
    ///
    /// # Errors
    /// If it does not start; what it said is part of the error.
    pub fn start(stage: &Stage, name: &str, policy: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Self::start_by(stage, name, policy, Command::new(program))
    }

    /// As [`start`](Self::start), by a command that runs this program.
    ///
    /// # Errors
    /// If it does not start; what it said is part of the error.
    pub fn start_by(
        stage: &Stage,
        name: &str,
        policy: &str,
        mut command: Command,
    ) -> anyhow::Result<Self> {
        let file = |suffix: &str| stage.path(&format!("{name}{suffix}"));
        let (socket, control_socket, log) = (file(".sock"), file(".control"), file(".log"));
        write_policy(&file(".toml"), &socket, policy)?;
        command.arg("serve").arg(file(".toml"));
        command.arg("--control").arg(&control_socket).arg("--data").arg(file(".data"));
        command.args(["--metrics", "off", "--cores", "1"]);
        command.env("RUST_LOG", "warn");
        let output = fs::File::create(&log).context("cannot write to the scratch folder")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let mut child = ChildProcess::spawn(&mut command).context("cannot start a gate")?;

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let control = Client::at(control_socket);
        let is_ready = || {
            let status: anyhow::Result<Status> = runtime.block_on(control.get("/v1/status"));
            status.is_ok()
        };
        wait_until_ready(&format!("the gate {name}"), &mut child, &log, is_ready)?;
        Ok(Self { child, socket, policy: file(".toml"), control, runtime })
    }

    /// Ends it without warning.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Puts another policy in force, as `ctl reload` does; the address to listen on stays.
    ///
    /// # Errors
    /// If the gate does not take it.
    pub fn reload(&self, policy: &str) -> anyhow::Result<()> {
        write_policy(&self.policy, &self.socket, policy)?;
        self.runtime.block_on(self.control.ask(Method::POST, "/v1/reload", None))?;
        Ok(())
    }

    /// Where an export of it is.
    ///
    /// # Errors
    /// If the scratch folder's name is no text.
    pub fn uri(&self, export: &str) -> anyhow::Result<NbdUri> {
        unix_uri(&self.socket, export)
    }

    /// Its accounts.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn status(&self) -> anyhow::Result<Status> {
        self.runtime.block_on(self.control.get("/v1/status"))
    }

    /// What it uses of the machine.
    ///
    /// # Errors
    /// If it has ended.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.child.id()).context("a gate has ended while it was measured")
    }
}

fn write_policy(file: &Path, socket: &Path, policy: &str) -> anyhow::Result<()> {
    let listen = format!("listen = [\"unix:{}\"]\n", socket.display());
    fs::write(file, listen + policy).context("cannot write to the scratch folder")
}
