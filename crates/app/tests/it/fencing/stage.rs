//! Four servers, the hosts of two gates, and the policy that both gates follow.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::harness::Scratch;
use crate::harness::gate::Gate;
use crate::harness::network::{Host, Network};
use crate::harness::process::Process;
use crate::harness::storage::text;

/// Where the hosts stand in the network.
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
const SERVERS: usize = 2;

const PORT: u16 = 10_809;
pub(super) const NAMES: [&str; 4] = ["s1", "s2", "s3", "s4"];

/// Says the lease in milliseconds of a program that knows no keys about fencing, while these tests
/// are tried on one.
const OLD_VARIABLE: &str = "EVENKEEL_FENCING_OLD";

/// The lease of a program from before there were fences, if that is what is tried.
fn old_lease() -> Option<Duration> {
    let lease = std::env::var(OLD_VARIABLE).ok()?;
    Some(Duration::from_millis(lease.parse().expect("milliseconds")))
}

pub(super) fn is_old() -> bool {
    old_lease().is_some()
}

/// What a volume's lease is by default, and the least that it may be.
pub(super) fn lease(is_long: bool) -> Duration {
    let lease = Duration::from_millis(if is_long { 5000 } else { 500 });
    old_lease().unwrap_or(lease)
}

/// Whose program serves a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nbdkit,
    QemuNbd,
}

/// A file, and the server that gives it to whoever connects.
pub(super) struct Disk {
    process: Process,
    file: PathBuf,
    kind: Kind,
}

/// Everything that stands before the first gate is started. What drops first stands first.
pub(super) struct Stage {
    disks: Vec<Disk>,
    pub(super) network: Network,
    addresses: [Ipv4Addr; 4],
    object_bytes: u64,
    scratch: Scratch,
    folders: [Scratch; 2],
}

impl Stage {
    /// Servers of this kind, each with a file of so many bytes without content, for a volume with
    /// objects of this size.
    pub(super) fn new(kind: Kind, file_bytes: u64, object_bytes: u64) -> Self {
        let network = Network::new(&["a", "b", "servers"]);
        let addresses = [11, 12, 13, 14].map(|last| network.host(SERVERS).add_address(last));
        let (scratch, folders) = (Scratch::new(), [Scratch::new(), Scratch::new()]);
        let disks = Vec::new();
        let mut stage = Self { disks, network, addresses, object_bytes, scratch, folders };
        for (name, address) in NAMES.iter().zip(addresses) {
            let file = stage.scratch.join(format!("{name}.raw"));
            let made = std::fs::File::create(&file).and_then(|made| made.set_len(file_bytes));
            made.expect("a file in scratch");
            let disk = stage.serve(kind, file, address);
            stage.disks.push(disk);
        }
        stage
    }

    fn serve(&self, kind: Kind, file: PathBuf, address: Ipv4Addr) -> Disk {
        let (host, path) = (self.network.host(SERVERS), text(&file));
        let port = format!("--port={PORT}");
        let mut process = match kind {
            Kind::Nbdkit => {
                let ip = format!("--ipaddr={address}");
                // With more threads to a connection it aborts now and then when that is reset.
                let line = ["--foreground", "--threads=1", &ip, &port, "file", &path];
                host.start(self.scratch.path(), "nbdkit", &line)
            }
            Kind::QemuNbd => {
                let bind = format!("--bind={address}");
                let line = ["--persistent", "--shared=64", "--format=raw", &bind, &port, &path];
                host.start(self.scratch.path(), "qemu-nbd", &line)
            }
        };
        let id = process.id();
        process.wait_until("listens", || listens(id, address));
        Disk { process, file, kind }
    }

    /// Stops the servers of these numbers, and starts each file again on the other's address.
    pub(super) fn exchange(&mut self, one: usize, other: usize) {
        for number in [one, other] {
            self.disks[number].process.kill();
        }
        self.disks.swap(one, other);
        for number in [one, other] {
            self.restart(number);
        }
    }

    pub(super) fn kill(&mut self, number: usize) {
        self.disks[number].process.kill();
    }

    /// Starts the server of this number again, with what is now in its file.
    pub(super) fn restart(&mut self, number: usize) {
        let Disk { kind, ref file, .. } = self.disks[number];
        self.disks[number] = self.serve(kind, file.clone(), self.addresses[number]);
    }

    pub(super) fn file(&self, number: usize) -> PathBuf {
        self.disks[number].file.clone()
    }

    /// The first server that has ended by itself, with its last words.
    pub(super) fn dead_server(&mut self) -> Option<String> {
        self.disks.iter_mut().find_map(|disk| {
            let status = disk.process.ended()?;
            Some(format!("{:?} ended with {status}: {}", disk.kind, disk.process.log()))
        })
    }

    pub(super) fn host(&self, place: usize) -> &Host {
        self.network.host(place)
    }

    pub(super) fn folder(&self, place: usize) -> &Scratch {
        &self.folders[place]
    }

    /// Starts a gate on this host, with more keys for the volume.
    pub(super) fn gate(&self, place: usize, keys: &str) -> Gate {
        Gate::start_on(self.host(place), &self.folders[place], &self.policy(keys))
    }

    fn policy(&self, keys: &str) -> String {
        let backend = |(name, address): (&&str, &Ipv4Addr)| {
            format!("[[backend]]\nname = \"{name}\"\nupstream = \"nbd://{address}:{PORT}\"\n")
        };
        let backends: String = NAMES.iter().zip(&self.addresses).map(backend).collect();
        format!(
            "mode = \"enforce\"\n{backends}[[backend]]\nname = \"pool\"\nchoices = [\"{}\"]\n\
             object = \"{} KiB\"\n{keys}[[export]]\nname = \"disk\"\nbackend = \"pool\"\n",
            NAMES.join("\", \""),
            self.object_bytes >> 10,
        )
    }
}

/// Whether a process listens on this address: in the kernel's table of its network, numbers are
/// hexadecimal, in the machine's order, and state 0A listens.
fn listens(id: u32, address: Ipv4Addr) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap_or_default();
    let address = u32::from_ne_bytes(address.octets());
    let wanted = format!("{address:08X}:{PORT:04X} 00000000:0000 0A");
    table.contains(&wanted)
}

/// How late this machine was at most: a thread that only sleeps notes how much longer it slept than
/// it wanted. What a gate is late by as well says nothing about the gate.
pub(super) struct Lateness {
    stop: std::sync::mpsc::Sender<()>,
    sleeper: std::thread::JoinHandle<Duration>,
}

impl Lateness {
    pub(super) fn start() -> Self {
        const NAP: Duration = Duration::from_millis(10);
        let (stop, stopped) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            let mut latest = Duration::ZERO;
            loop {
                let start = Instant::now();
                let woken = stopped.recv_timeout(NAP);
                if woken != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    return latest;
                }
                latest = latest.max(start.elapsed().saturating_sub(NAP));
            }
        });
        Self { stop, sleeper }
    }

    pub(super) fn most(self) -> Duration {
        drop(self.stop);
        self.sleeper.join().expect("it only sleeps")
    }
}

/// Why the volume is not served, as the gate's status tells.
pub(super) fn trouble(gate: &Gate) -> String {
    let status = gate.status();
    let backends = status["backends"].as_array().expect("a list of backends");
    let pool = backends.iter().find(|backend| backend["name"] == "pool");
    pool.expect("the volume is a backend")["trouble"].as_str().unwrap_or_default().to_owned()
}
