//! A gate that runs: `evenkeel serve` with a policy, which may be another one later, and what its
//! accounts say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cpu;
use crate::server::{Address, Server, last_lines};

/// A running gate, and the policy file that it reads.
#[derive(Debug)]
pub(crate) struct Gate {
    server: Server,
    program: PathBuf,
    folder: PathBuf,
}

impl Gate {
    /// Starts a gate with this policy, which shall listen on `address`, and waits until it greets.
    ///
    /// # Errors
    /// If it does not start; with its last words.
    pub(crate) fn start(
        program: &Path,
        address: Address,
        folder: &Path,
        policy: &str,
    ) -> Result<Self> {
        let file = policy_file(folder);
        fs::write(&file, policy).context("cannot write the policy")?;
        let mut command = Command::new(program);
        command.arg("serve").arg(file).args(["--metrics", "off", "--data"]).arg(folder);
        command.arg("--control").arg(control_socket(folder));
        let server = Server::start(command, address, folder).context("the gate does not start")?;
        Ok(Self { server, program: program.to_path_buf(), folder: folder.to_path_buf() })
    }

    pub(crate) fn address(&self) -> &Address {
        self.server.address()
    }

    /// Puts another policy in force.
    ///
    /// # Errors
    /// If the gate does not take it.
    pub(crate) fn reload(&self, policy: &str) -> Result<()> {
        fs::write(policy_file(&self.folder), policy).context("cannot write the policy")?;
        self.ask(&["reload"]).map(drop)
    }

    /// Its accounts, as `ctl status --json` prints them.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn status(&self) -> Result<Value> {
        let text = self.ask(&["status", "--json"])?;
        serde_json::from_str(&text).context("the status of the gate is no JSON")
    }

    /// The processor time that it has used.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        cpu::time_of(self.server.process_id())
            .with_context(|| format!("the gate wrote last:{}", self.last_words()))
    }

    /// The end of its log, for an error.
    pub(crate) fn last_words(&self) -> String {
        self.server.last_words()
    }

    fn ask(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("ctl").args(words).arg("--control").arg(control_socket(&self.folder));
        let output = command.output().context("cannot start `evenkeel ctl`")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let words = words.join(" ");
        ensure!(output.status.success(), "`evenkeel ctl {words}` fails:{}", last_lines(&said));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn policy_file(folder: &Path) -> PathBuf {
    folder.join("policy.toml")
}

fn control_socket(folder: &Path) -> PathBuf {
    folder.join("control")
}

/// The backend of a policy that is this server; more may be said of it.
pub(crate) fn upstream(name: &str, server: &Server) -> String {
    let Address::Unix(socket) = server.address() else { unreachable!("stages use unix sockets") };
    format!(
        "\n[[backend]]\nname = \"{name}\"\nupstream = \"nbd+unix:///?socket={}\"\n",
        socket.display()
    )
}
