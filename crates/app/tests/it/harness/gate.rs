//! The gate under test: the real `evenkeel serve` with a policy in a file.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::certificates::{CLIENT_NAME, Certificates};
use super::nbd::Client;
use super::network::Host;
use super::process::{self, Process};
use super::storage::{Server, text};
use super::target::{Address, Target};
use super::{Scratch, free_port};

/// The binary under test.
pub(crate) const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// A running gate.
pub(crate) struct Gate {
    pub(crate) process: Process,
    folder: PathBuf,
    /// The unix socket first.
    pub(crate) addresses: Vec<Address>,
    /// Where it runs, if that is not the test's own network.
    host: Option<Host>,
    /// What its environment has besides, as NAME=VALUE.
    variables: Vec<String>,
}

impl Gate {
    /// Writes the policy and starts a gate that listens on `gate.sock`.
    pub(crate) fn start(scratch: &Scratch, policy: &str) -> Self {
        let listen = "listen = [\"unix:gate.sock\"]\n";
        Self::start_at(scratch, &format!("{listen}{policy}"), vec![socket(scratch)])
    }

    /// The same with this in its environment besides, as NAME=VALUE.
    pub(crate) fn start_with(scratch: &Scratch, policy: &str, variables: &[String]) -> Self {
        let policy = format!("listen = [\"unix:gate.sock\"]\n{policy}");
        std::fs::write(scratch.join("policy.toml"), policy).expect("write the policy");
        let (folder, variables) = (scratch.path().to_path_buf(), variables.to_vec());
        let process = spawn(&folder, None, &variables);
        let mut gate =
            Self { process, folder, addresses: vec![socket(scratch)], host: None, variables };
        gate.wait_until_ready();
        gate
    }

    /// The same with a TLS listener on TCP, which wants clients' certificates, besides.
    pub(crate) fn start_with_tls(scratch: &Scratch, policy: &str) -> Self {
        let port = free_port();
        let certificates = Certificates::of(scratch);
        let file = |name| text(&certificates.file(name));
        let listener = format!(
            "[[listener]]\nname = \"secure\"\naddress = \"127.0.0.1:{port}\"\ntls = {{ \
             certificate = \"{}\", key = \"{}\", client_authority = \"{}\", required = true }}\n",
            file("server-cert.pem"),
            file("server-key.pem"),
            file("ca-cert.pem"),
        );
        let tenant =
            format!("[[tenant]]\nname = \"client\"\nmatch = {{ tls_name = \"{CLIENT_NAME}\" }}\n");
        let policy = format!("listen = [\"unix:gate.sock\"]\n{policy}{listener}{tenant}");
        Self::start_at(scratch, &policy, vec![socket(scratch), Address::Tcp(port)])
    }

    /// A gate that listens on these ports besides, as the policy says.
    pub(crate) fn start_with_ports(scratch: &Scratch, policy: &str, ports: &[u16]) -> Self {
        let mut addresses = vec![socket(scratch)];
        addresses.extend(ports.iter().copied().map(Address::Tcp));
        Self::start_at(scratch, &format!("listen = [\"unix:gate.sock\"]\n{policy}"), addresses)
    }

    fn start_at(scratch: &Scratch, policy: &str, addresses: Vec<Address>) -> Self {
        std::fs::write(scratch.join("policy.toml"), policy).expect("write the policy");
        let folder = scratch.path().to_path_buf();
        let process = spawn(&folder, None, &[]);
        let mut gate = Self { process, folder, addresses, host: None, variables: Vec::new() };
        gate.wait_until_ready();
        gate
    }

    /// As [`start`](Self::start), on a host of a network.
    pub(crate) fn start_on(host: &Host, scratch: &Scratch, policy: &str) -> Self {
        let policy = format!("listen = [\"unix:gate.sock\"]\n{policy}");
        std::fs::write(scratch.join("policy.toml"), policy).expect("write the policy");
        let folder = scratch.path().to_path_buf();
        let (process, host) = (spawn(&folder, Some(host), &[]), Some(host.clone()));
        let addresses = vec![socket(scratch)];
        let mut gate = Self { process, folder, addresses, host, variables: Vec::new() };
        gate.wait_until_ready();
        gate
    }

    fn wait_until_ready(&mut self) {
        let addresses = self.addresses.clone();
        let control = self.folder.join("control.sock");
        self.process.wait_until("listens", || {
            addresses.iter().all(Address::answers) && Address::Unix(control.clone()).answers()
        });
    }

    /// Kills it as a power cut would, and starts it again.
    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Kills it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again after it has ended.
    pub(crate) fn restart(&mut self) {
        self.process = spawn(&self.folder, self.host.as_ref(), &self.variables);
        self.wait_until_ready();
    }

    /// Asks it to end, and waits.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.process.signal(rustix::process::Signal::TERM);
        self.process.wait()
    }

    /// An export over the unix socket.
    pub(crate) fn plain(&self, export: &str) -> Target {
        let address = self.addresses[0].clone();
        Target { address, export: export.to_owned(), certificates: None }
    }

    /// An export over the TLS listener.
    pub(crate) fn secure(&self, scratch: &Scratch, export: &str) -> Target {
        let certificates = Some(Certificates::of(scratch));
        let address = self.addresses[1].clone();
        Target { address, export: export.to_owned(), certificates }
    }

    /// The unix socket that it listens on.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("gate.sock")
    }

    /// Runs `evenkeel ctl` on it; panics unless that succeeds.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> String {
        let (status, output) = self.try_ctl(arguments);
        assert!(status.success(), "ctl {arguments:?} ended with {status}:\n{output}");
        output
    }

    /// Runs `evenkeel ctl` on it.
    pub(crate) fn try_ctl(&self, arguments: &[&str]) -> (ExitStatus, String) {
        let mut line = vec!["ctl", "--control", "control.sock"];
        line.extend_from_slice(arguments);
        process::finish(&self.folder, EVENKEEL, &line, Duration::from_secs(20))
    }

    /// Puts another policy in the file and in force.
    pub(crate) fn reload(&self, policy: &str) -> (ExitStatus, String) {
        self.write_policy(policy);
        self.try_ctl(&["reload"])
    }

    pub(crate) fn write_policy(&self, policy: &str) {
        let policy = format!("listen = [\"unix:gate.sock\"]\n{policy}");
        std::fs::write(self.folder.join("policy.toml"), policy).expect("write the policy");
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.ctl(&["status", "--json"])).expect("status is JSON")
    }

    /// Panics unless a client that does nothing wrong is served, and quickly.
    pub(crate) fn assert_serves(&self, export: &str) {
        let mut client = Client::open(&self.plain(export));
        let data = super::noise(u64::from(self.process.id()), 8192);
        assert_eq!(client.write(4096, &data), Ok(()));
        assert_eq!(client.flush(), Ok(()));
        assert_eq!(client.read(4096, 8192).as_ref(), Ok(&data));
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.process.resident_bytes()
    }
}

fn spawn(folder: &Path, host: Option<&Host>, variables: &[String]) -> Process {
    let line = ["serve", "policy.toml", "--control", "control.sock", "--metrics", "off"];
    match host {
        Some(host) => host.start(folder, EVENKEEL, &line),
        None if variables.is_empty() => Process::start(folder, EVENKEEL, &line),
        None => {
            let launcher = [&["env".to_owned()], variables].concat();
            Process::start_by(&launcher, folder, EVENKEEL, &line)
        }
    }
}

fn socket(scratch: &Scratch) -> Address {
    Address::Unix(scratch.join("gate.sock"))
}

/// A policy as `ctl policy` prints it, without what the gate has found meanwhile.
pub(crate) fn without_found(printed: &str) -> String {
    let line = |line: &str| line.split("  # found:").next().unwrap_or_default().to_owned() + "\n";
    printed.lines().map(line).collect()
}

/// A policy with one export `disk` in memory.
pub(crate) fn memory_policy(size: &str) -> String {
    format!(
        "[[backend]]\nname = \"memory\"\nmemory = true\n\
         [[export]]\nname = \"disk\"\nbackend = \"memory\"\nsize = \"{size}\"\n"
    )
}

/// A policy with one export `disk` in a folder.
pub(crate) fn directory_policy(size: &str) -> String {
    format!(
        "[[backend]]\nname = \"embedded\"\ndirectory = \"disks\"\n\
         [[export]]\nname = \"disk\"\nbackend = \"embedded\"\nsize = \"{size}\"\n"
    )
}

/// A policy with one export `disk` on a volume over two files of small extents.
pub(crate) fn volume_policy(size: &str) -> String {
    let backend = |name| format!("[[backend]]\nname = \"{name}\"\ndirectory = \"disks\"\n");
    let tier =
        |name, size| format!("{{ backend = \"{name}\", device = \"{name}\", size = \"{size}\" }}");
    format!(
        "{}{}[[backend]]\nname = \"shelf\"\ntiers = [{}, {}]\nextent = \"64 KiB\"\n\
         [[export]]\nname = \"disk\"\nbackend = \"shelf\"\nsize = \"{size}\"\n",
        backend("slow"),
        backend("fast"),
        tier("slow", "64 MiB"),
        tier("fast", "4 MiB"),
    )
}

/// A policy with one export `disk` on a store of three files, mirrored, which it makes.
pub(crate) fn store_policy(scratch: &Scratch, file_bytes: u64, volume_bytes: u64) -> String {
    use evenkeel_io::store::{OpenDrive, block_on, fresh_uuid, open_drives};
    let paths = ["a.img", "b.img", "c.img"].map(|name| scratch.join(name));
    let options = evenkeel_store::CreateOptions {
        store: fresh_uuid().expect("random numbers"),
        drives: paths.iter().map(|_| fresh_uuid().expect("random numbers")).collect(),
        copies: 2,
        segment_bytes: 1 << 20,
        over_provisioning_percent: 25,
        volume_bytes: vec![volume_bytes],
    };
    let how = OpenDrive { create_bytes: Some(file_bytes), ..OpenDrive::default() };
    let made = block_on(async {
        let drives = open_drives(&paths, &how).await.expect("files in scratch");
        evenkeel_store::create(&drives, &options).await
    });
    made.expect("a runtime").expect("a store");
    "[[backend]]\nname = \"log\"\nstore = [\"a.img\", \"b.img\", \"c.img\"]\n\
     [[export]]\nname = \"disk\"\nbackend = \"log\"\n"
        .to_owned()
}

/// A policy with one export `disk` that another server holds.
pub(crate) fn upstream_policy(server: &Server) -> String {
    let export = &server.target.export;
    format!(
        "{}\n[[export]]\nname = \"disk\"\nbackend = \"upstream\"\nsource = \"{export}\"\n",
        upstream_backend(&server.target)
    )
}

/// The `[[backend]]` for a server.
pub(crate) fn upstream_backend(target: &Target) -> String {
    let uri = match (&target.address, &target.certificates) {
        (Address::Unix(path), _) => format!("nbd+unix:///?socket={}", path.display()),
        (Address::Tcp(port), None) => format!("nbd://127.0.0.1:{port}"),
        (Address::Tcp(port), Some(_)) => format!("nbds://127.0.0.1:{port}"),
    };
    let mut backend = format!("[[backend]]\nname = \"upstream\"\nupstream = \"{uri}\"\n");
    if let Some(certificates) = &target.certificates {
        let file = |name| text(&certificates.file(name));
        let tls = format!(
            "tls = {{ authority = \"{}\", certificate = \"{}\", key = \"{}\" }}\n",
            file("ca-cert.pem"),
            file("client-cert.pem"),
            file("client-key.pem"),
        );
        backend.write_str(&tls).expect("strings take everything");
    }
    backend
}
