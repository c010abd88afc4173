//! The servers of a volume, the hosts of two gates, and the policy that both gates follow.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::harness::Scratch;
use crate::harness::gate::Gate;
use crate::harness::network::{Host, Network};
use crate::harness::process::Process;
use crate::harness::restless::{Habit, Restless};
use crate::harness::storage::text;
use crate::harness::target::{Address, Target};

/// Where the hosts stand in the network.
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
const SERVERS: usize = 2;

const PORT: u16 = 10_809;

/// Extents of tiers.
const EXTENT_BYTES: u64 = 64 << 10;

/// Whoever keeps extents moving does not queue behind the clients, and nor do the moves.
const STIRRED: &str = "[[export]]\nname = \"stirred\"\nbackend = \"pool\"\n\
    [[tenant]]\nname = \"stirred\"\nmatch = { export = \"stirred\" }\nshare = 8\n\
    [[tenant]]\nname = \"moves\"\nshare = 4\n";

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

/// What kind of volume the gates serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Objects on four servers.
    Spread,
    /// Extents on two, which move all the time.
    Tiered,
}

/// Whose program serves a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Nbdkit,
    QemuNbd,
}

/// A file, and the server that gives it to whoever connects.
pub(super) struct Disk {
    process: Process,
    file: PathBuf,
    program: Program,
}

/// Everything that stands before the first gate is started. What drops first stands first.
pub(super) struct Stage {
    disks: Vec<Disk>,
    pub(super) network: Network,
    kind: Kind,
    addresses: Vec<Ipv4Addr>,
    object_bytes: u64,
    scratch: Scratch,
    folders: [Scratch; 2],
}

impl Kind {
    /// The names of its servers.
    fn servers(self) -> &'static [&'static str] {
        match self {
            Self::Spread => &["s1", "s2", "s3", "s4"],
            Self::Tiered => &["slow", "fast"],
        }
    }

    /// How large a server's file is. On the fast tier there is room for the notes, and for some
    /// dozens of extents.
    fn file_bytes(self, name: &str, bytes: u64) -> u64 {
        match (self, name) {
            (Self::Spread, _) => bytes,
            (Self::Tiered, "fast") => (2 << 20) + bytes / 256,
            (Self::Tiered, _) => bytes + bytes / 2,
        }
    }
}

impl Stage {
    /// Servers by this program for a volume of this kind, each with a file without content; the
    /// volume has room for `bytes` and more. Objects, if it has any, are of the given size.
    pub(super) fn new(kind: Kind, program: Program, bytes: u64, object_bytes: u64) -> Self {
        let network = Network::new(&["a", "b", "servers"]);
        let numbers = (11..).take(kind.servers().len());
        let addresses = numbers.map(|last| network.host(SERVERS).add_address(last)).collect();
        let (scratch, folders) = (Scratch::new(), [Scratch::new(), Scratch::new()]);
        let disks = Vec::new();
        let mut stage = Self { disks, network, kind, addresses, object_bytes, scratch, folders };
        for (name, address) in kind.servers().iter().zip(stage.addresses.clone()) {
            let file = stage.scratch.join(format!("{name}.raw"));
            let file_bytes = kind.file_bytes(name, bytes);
            let made = std::fs::File::create(&file).and_then(|made| made.set_len(file_bytes));
            made.expect("a file in scratch");
            let disk = stage.serve(program, file, address);
            stage.disks.push(disk);
        }
        stage
    }

    fn serve(&self, program: Program, file: PathBuf, address: Ipv4Addr) -> Disk {
        let (host, path) = (self.network.host(SERVERS), text(&file));
        let port = format!("--port={PORT}");
        let mut process = match program {
            Program::Nbdkit => {
                let ip = format!("--ipaddr={address}");
                // With more threads to a connection it aborts now and then when that is reset.
                let line = ["--foreground", "--threads=1", &ip, &port, "file", &path];
                host.start(self.scratch.path(), "nbdkit", &line)
            }
            Program::QemuNbd => {
                let bind = format!("--bind={address}");
                let line = ["--persistent", "--shared=64", "--format=raw", &bind, &port, &path];
                host.start(self.scratch.path(), "qemu-nbd", &line)
            }
        };
        let id = process.id();
        process.wait_until("listens", || listens(id, address));
        Disk { process, file, program }
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
        let Disk { program, ref file, .. } = self.disks[number];
        self.disks[number] = self.serve(program, file.clone(), self.addresses[number]);
    }

    pub(super) fn file(&self, number: usize) -> PathBuf {
        self.disks[number].file.clone()
    }

    /// The first server that has ended by itself, with its last words.
    pub(super) fn dead_server(&mut self) -> Option<String> {
        self.disks.iter_mut().find_map(|disk| {
            let status = disk.process.ended()?;
            Some(format!("{:?} ended with {status}: {}", disk.program, disk.process.log()))
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
        let names = self.kind.servers();
        let backend = |(name, address): (&&str, &Ipv4Addr)| {
            format!("[[backend]]\nname = \"{name}\"\nupstream = \"nbd://{address}:{PORT}\"\n")
        };
        let backends: String = names.iter().zip(&self.addresses).map(backend).collect();
        let (servers, unit, more) = match self.kind {
            Kind::Spread => {
                ("choices", format!("object = \"{} KiB\"", self.object_bytes >> 10), "")
            }
            Kind::Tiered => ("tiers", format!("extent = \"{} KiB\"", EXTENT_BYTES >> 10), STIRRED),
        };
        format!(
            "mode = \"enforce\"\n{backends}[[backend]]\nname = \"pool\"\n{servers} = [\"{}\"]\n\
             {unit}\n{keys}[[export]]\nname = \"disk\"\nbackend = \"pool\"\n{more}",
            names.join("\", \""),
        )
    }

    /// Keeps the extents of a tiered volume moving, wherever blocks may lie below `used_bytes`,
    /// while a gate serves it here.
    pub(super) fn stir(&self, place: usize, used_bytes: u64) -> Option<Restless> {
        let windows = 12;
        let apart_bytes = used_bytes / windows / EXTENT_BYTES * EXTENT_BYTES;
        let pause = Duration::from_micros(500);
        let habit = Habit { windows, apart_bytes, pause, bears_errors: true };
        let target = Target { export: "stirred".to_owned(), ..self.target(place) };
        (self.kind == Kind::Tiered).then(|| Restless::start(&target, habit))
    }

    /// The disk of the gate on this host, whether one was started or not.
    pub(super) fn target(&self, place: usize) -> Target {
        let address = Address::Unix(self.folder(place).join("gate.sock"));
        Target { address, export: "disk".to_owned(), certificates: None }
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
