//! Hosts that are network namespaces, each with an address of its own on one switch.
//!
//! ```text
//!   switch (a namespace with a bridge, 10.77.0.0/24)
//!     |-- host 1: 10.77.0.1       a process enters a host, and has its network; files and unix
//!     |-- host 2: 10.77.0.2       sockets are those of the machine
//!     ...
//! ```
//!
//! No privileges are needed: the namespaces belong to a user namespace in which this user is root,
//! where the system allows that. They end with the processes that hold them.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use evenkeel_io::child::ChildProcess;

use crate::exit::Exit;

/// What to say where namespaces cannot be made.
const REMEDY: &str = "the experiment needs network namespaces: install util-linux and iproute2, \
     and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run it as root";

/// A change of credentials makes the kernel forget that a process is to end with its parent: it is
/// asked anew.
const DIES_WITH_US: [&str; 3] = ["setpriv", "--pdeathsig", "TERM"];

/// What holds a namespace.
const HOLDER: [&str; 2] = ["sleep", "infinity"];

/// Looks at a namespace that is coming up.
const LOOKS_MAX: u32 = 500;
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(10);

/// Hosts on one switch.
#[derive(Debug)]
pub struct Network {
    switch: ChildProcess,
    hosts: Vec<ChildProcess>,
}

impl Network {
    /// So many hosts, at most 250.
    ///
    /// # Errors
    /// [`Exit::Unreachable`], if the system does not allow namespaces, with the remedy.
    pub fn new(hosts: usize) -> anyhow::Result<Self> {
        assert!((1..=250).contains(&hosts), "as many as a network of 256 addresses has");
        let mut outer = Command::new("unshare");
        outer.args(["--user", "--map-root-user", "--net"]).args(DIES_WITH_US).args(HOLDER);
        let switch = hold(&mut outer)?;
        let mut network = Self { switch, hosts: Vec::new() };
        let bridge = "link add name switch type bridge forward_delay 0";
        network.on_switch(bridge)?;
        network.on_switch("link set switch up")?;
        for host in 1..=hosts {
            network.add(host)?;
        }
        Ok(network)
    }

    /// The address of a host; they count from one.
    pub fn address(host: usize) -> String {
        format!("10.77.0.{host}")
    }

    /// A command that runs this program in a host's network.
    pub fn command(&self, host: usize, program: &std::ffi::OsStr) -> Command {
        let mut command = enter(self.hosts[host - 1].id());
        command.args(DIES_WITH_US).arg(program);
        command
    }

    /// Pulls the plug of a host, or puts it in again.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn plug(&self, host: usize, is_in: bool) -> anyhow::Result<()> {
        let state = if is_in { "up" } else { "down" };
        self.on_switch(&format!("link set port{host} {state}"))
    }

    fn add(&mut self, host: usize) -> anyhow::Result<()> {
        let mut inner = enter(self.switch.id());
        inner.args(["unshare", "--net"]).args(DIES_WITH_US).args(HOLDER);
        self.hosts.push(hold(&mut inner)?);
        let id = self.hosts[host - 1].id();
        let pair = format!("link add port{host} type veth peer name eth0 netns {id}");
        self.on_switch(&pair)?;
        self.on_switch(&format!("link set port{host} master switch up"))?;
        let address = Self::address(host);
        for words in [
            format!("address add {address}/24 dev eth0"),
            "link set eth0 up".to_owned(),
            "link set lo up".to_owned(),
        ] {
            ip(id, &words)?;
        }
        Ok(())
    }

    fn on_switch(&self, words: &str) -> anyhow::Result<()> {
        ip(self.switch.id(), words)
    }
}

/// A command within the namespaces of a process.
fn enter(id: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.arg("--target").arg(id.to_string());
    command.args(["--user", "--net", "--preserve-credentials", "--"]);
    command
}

fn ip(id: u32, words: &str) -> anyhow::Result<()> {
    let output = enter(id).arg("ip").args(words.split_ascii_whitespace()).output();
    let output = output.map_err(|error| Exit::Unreachable.because(format!("{error}; {REMEDY}")))?;
    if !output.status.success() {
        bail!("`ip {words}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Starts what holds a namespace, and waits until it has it.
fn hold(command: &mut Command) -> anyhow::Result<ChildProcess> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = ChildProcess::spawn(command)
        .map_err(|error| Exit::Unreachable.because(format!("{error}; {REMEDY}")))?;
    let status = format!("/proc/{}/comm", child.id());
    for _ in 0..LOOKS_MAX {
        if child.ended().context("cannot look at a child")?.is_some() {
            return Err(Exit::Unreachable.because(REMEDY));
        }
        // `unshare` becomes `sleep` once the namespace is there.
        if std::fs::read_to_string(&status).is_ok_and(|name| name.trim() == "sleep") {
            return Ok(child);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(Exit::Unreachable.because(REMEDY))
}
