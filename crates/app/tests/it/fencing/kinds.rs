//! When other people's servers let go of a client: is "the server has ended the connection", or
//! "it has let the next client in", a sign that nothing of the one before is carried out later?
//!
//! Each server gives a file that takes its time for writes: nbdfuse shows what an nbdkit with a
//! delay serves, and what arrives there is seen in the file below. So nothing in the server itself
//! knows of the slowness.
//!
//! ```text
//! client -- TCP -- server under study -- slow file (nbdfuse -- nbdkit, delay) -- file: looked at
//! ```
//!
//! The answers stand in [`DOCUMENTED`], as docs/spread-volumes.md may quote them.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use crate::harness::client::Fuse;
use crate::harness::nbd::{Client, Request, WRITE};
use crate::harness::process::{Process, run};
use crate::harness::skip::{cannot_mount, needs, tell};
use crate::harness::storage::{Server, text};
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, free_port, wait_for};

/// What one write takes in the slow file, which takes one at a time.
const SLOW: Duration = Duration::from_millis(300);
const WRITES: u8 = 3;
const FILE_BYTES: u64 = 1 << 20;

/// A server, and how it is told to treat its clients.
#[derive(Clone, Copy, Debug)]
struct Kind {
    program: &'static str,
    options: &'static [&'static str],
}

/// How the client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// It says that it will send no more, and waits for the server to end.
    HalfClosed,
    /// Its kernel resets the connection.
    Reset,
}

/// What a kind does about writes that it has begun, or that lie in its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Nothing is carried out after the sign.
    Nothing,
    /// Writes are carried out after the sign, always or now and then.
    Late,
    /// It lets a second client in while the first one is there.
    Shared,
    /// It never lets in a second client.
    Never,
}

/// What was found of one kind: the sign, and what came after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Findings {
    ends_half_closed: Answer,
    ends_reset: Answer,
    admits_half_closed: Answer,
    admits_reset: Answer,
}

impl Findings {
    /// Whether this is what is said of it. What happens now and then need not happen every time.
    fn is_within(self, said: Self) -> bool {
        let of = |findings: Self| {
            let Self { ends_half_closed, ends_reset, admits_half_closed, admits_reset } = findings;
            [ends_half_closed, ends_reset, admits_half_closed, admits_reset]
        };
        let is_within =
            |(found, said)| found == said || (said, found) == (Answer::Late, Answer::Nothing);
        of(self).into_iter().zip(of(said)).all(is_within)
    }
}

/// The kinds, and what we say of them: nbdkit 1.32.5, qemu-nbd 10.0.2, nbd-server 3.24.
const DOCUMENTED: [(Kind, Findings); 9] = [
    (Kind { program: "nbdkit", options: &["--threads=16"] }, SHARED),
    (Kind { program: "nbdkit", options: &["--threads=1"] }, SHARED),
    (Kind { program: "nbdkit", options: &["--filter=limit"] }, EXCLUSIVE),
    (Kind { program: "nbdkit", options: &["--filter=noparallel"] }, EXCLUSIVE),
    (Kind { program: "qemu-nbd", options: &["--shared=16"] }, OF_QEMU),
    (Kind { program: "qemu-nbd", options: &["--shared=1"] }, OF_EXCLUSIVE_QEMU),
    (
        Kind { program: "qemu-nbd", options: &["--shared=1", "--cache=directsync"] },
        OF_EXCLUSIVE_QEMU,
    ),
    (Kind { program: "nbd-server", options: &[] }, OF_NBD_SERVER),
    (Kind { program: "nbd-server", options: &["maxconnections = 1"] }, ONCE),
];

const SHARED: Findings = Findings {
    ends_half_closed: Answer::Nothing,
    ends_reset: Answer::Nothing,
    admits_half_closed: Answer::Shared,
    admits_reset: Answer::Shared,
};
const EXCLUSIVE: Findings =
    Findings { admits_half_closed: Answer::Nothing, admits_reset: Answer::Nothing, ..SHARED };
/// It ends its half of a connection at once, and works off what it has read. The socket itself it
/// keeps until that is done, which only its own host can see.
const OF_QEMU: Findings = Findings { ends_half_closed: Answer::Late, ..SHARED };
const OF_EXCLUSIVE_QEMU: Findings =
    Findings { admits_half_closed: Answer::Late, admits_reset: Answer::Late, ..OF_QEMU };
/// Its process for a client that is gone ends in the middle of what it has begun, now and then.
const OF_NBD_SERVER: Findings = Findings { ends_reset: Answer::Late, ..SHARED };
/// It counts all clients that it ever had.
const ONCE: Findings =
    Findings { admits_half_closed: Answer::Never, admits_reset: Answer::Never, ..OF_NBD_SERVER };

/// A server of one kind over a slow file.
struct Study {
    kind: Kind,
    process: Process,
    target: Target,
    /// Where writes arrive.
    below: PathBuf,
    slow: Fuse,
    _slower: Server,
    scratch: Scratch,
}

impl Study {
    fn new(kind: Kind) -> Self {
        let scratch = Scratch::new();
        let below = scratch.join("below.raw");
        let made = std::fs::File::create(&below).and_then(|file| file.set_len(FILE_BYTES));
        made.expect("a file in scratch");
        let delay = format!("wdelay={}ms", SLOW.as_millis());
        let source = ["--filter=delay", "file", &text(&below), &delay];
        let slower = Server::nbdkit_named(&scratch, "slow", &source);
        let slow = Fuse::mount(&scratch, &slower.target);
        let (process, target) = kind.serve(&scratch, slow.file());
        Self { kind, process, target, below, slow, _slower: slower, scratch }
    }

    /// The answer of a server that has had no client yet; again, should the machine have been so
    /// busy that the server had begun nothing when its client left.
    fn ask(&mut self, question: impl Fn(&Self) -> Option<Answer>) -> Answer {
        let mut once = || {
            self.process.kill();
            (self.process, self.target) = self.kind.serve(&self.scratch, self.slow.file());
            question(self)
        };
        (0..5).find_map(|_| once()).expect("some write is under way after a tenth of a second")
    }

    /// Which of the blocks have arrived with this content.
    fn arrived(&self, fill: u8) -> Vec<u8> {
        let bytes = std::fs::read(&self.below).expect("a file in scratch");
        let has_arrived = |block: &u8| bytes[usize::from(*block) * 4096] == fill;
        (0..WRITES).filter(has_arrived).collect()
    }

    /// Connects and enters transmission, if the server lets this client in.
    fn enter(&self) -> Option<(TcpStream, Client)> {
        let Address::Tcp(port) = self.target.address else { panic!("it listens on TCP") };
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(15))).expect("a socket takes a timeout");
        let mut client = Client::over(Box::new(stream.try_clone().expect("a socket")));
        client.try_enter(&self.target.export)?;
        Some((stream, client))
    }

    /// Connects, sends some writes, and leaves a moment later. Keeps the connection if the client
    /// is only half gone.
    fn write_and_leave(&self, leaves: Leaves, fill: u8) -> (TcpStream, Client) {
        let (stream, mut client) = wait_for("the server to let us in", || self.enter());
        for block in 0..WRITES {
            let offset = u64::from(block) * 4096;
            let write = Request { command: WRITE, offset, length: 4096, ..Request::default() };
            client.ask(write, &[fill; 4096]);
        }
        std::thread::sleep(SLOW / 3);
        match leaves {
            Leaves::HalfClosed => stream.shutdown(Shutdown::Write).expect("it is connected"),
            // What is closed with no time to linger is reset.
            Leaves::Reset => {
                set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket can linger");
            }
        }
        (stream, client)
    }

    /// What arrives after the server has ended the connection.
    fn after_its_end(&self, leaves: Leaves, fill: u8) -> Option<Answer> {
        // The connection that saw whether it answers may still be there.
        std::thread::sleep(SLOW / 3);
        let before = self.sockets();
        let (stream, mut client) = self.write_and_leave(leaves, fill);
        let left = Instant::now();
        match leaves {
            Leaves::HalfClosed => assert!(client.is_hung_up(), "the server never hangs up"),
            Leaves::Reset => {
                drop((stream, client));
                wait_for("the server to end the connection", || {
                    (self.sockets() <= before).then_some(())
                });
            }
        }
        self.what_follows(left, fill)
    }

    /// What arrives after the server has let in the next client.
    fn after_the_next_is_in(&self, leaves: Leaves, fill: u8) -> Option<Answer> {
        let (stream, client) = self.write_and_leave(leaves, fill);
        let left = Instant::now();
        if leaves == Leaves::Reset {
            drop((stream, client));
        }
        let patience = SLOW * 8;
        while left.elapsed() < patience {
            if let Some(next) = Client::try_open_for(&self.target, patience) {
                let answer = self.what_follows(left, fill);
                drop(next);
                return answer;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Answer::Never)
    }

    /// Looks now, and when everything must have come to its end.
    fn what_follows(&self, left: Instant, fill: u8) -> Option<Answer> {
        let (at_the_sign, waited) = (self.arrived(fill), left.elapsed());
        std::thread::sleep(SLOW * u32::from(WRITES + 1));
        let in_the_end = self.arrived(fill);
        let Kind { program, options } = self.kind;
        eprintln!(
            "{program} {options:?}, case {fill}: the sign came after {} ms, when {} of {WRITES} \
             writes had been carried out; in the end {} were",
            waited.as_millis(),
            at_the_sign.len(),
            in_the_end.len()
        );
        let answer = if at_the_sign == in_the_end { Answer::Nothing } else { Answer::Late };
        (!in_the_end.is_empty()).then_some(answer)
    }

    /// Whether a second client is let in beside one that does nothing.
    fn is_shared(&self) -> bool {
        // The connection that saw whether it answers may still be there.
        let first = wait_for("the first client to be let in", || Client::try_open(&self.target));
        let second = Client::try_open_for(&self.target, Duration::from_secs(1));
        let is_shared = second.is_some();
        drop((first, second));
        is_shared
    }

    /// How many sockets the server's processes have open.
    fn sockets(&self) -> usize {
        let family = family_of(self.process.id());
        family.iter().map(|id| sockets_of(*id)).sum()
    }
}

impl Kind {
    /// A server of this kind that answers, and where.
    fn serve(self, scratch: &Scratch, file: &str) -> (Process, Target) {
        let port = free_port();
        let mut process = self.start(scratch, file, port);
        let export = if self.program == "nbd-server" { "disk" } else { "" };
        let address = Address::Tcp(port);
        let target = Target { address, export: export.to_owned(), certificates: None };
        process.wait_until("answers", || target.address.answers());
        (process, target)
    }

    fn start(self, scratch: &Scratch, file: &str, port: u16) -> Process {
        let folder = scratch.path();
        let number = format!("--port={port}");
        let mut line: Vec<&str> = Vec::new();
        match self.program {
            "nbdkit" => {
                line.extend(["--foreground", "--ipaddr=127.0.0.1", &number]);
                line.extend(self.options);
                line.extend(["file", file]);
                match self.options {
                    ["--filter=limit"] => line.push("limit=1"),
                    ["--filter=noparallel"] => line.push("serialize=connections"),
                    _ => {}
                }
                Process::start(folder, "nbdkit", &line)
            }
            "qemu-nbd" => {
                line.extend(["--persistent", "--format=raw", "--bind=127.0.0.1", &number]);
                line.extend(self.options);
                line.push(file);
                Process::start(folder, "qemu-nbd", &line)
            }
            _ => {
                let path = scratch.join("nbd-server.conf");
                let more = self.options.join("\n");
                let text = format!(
                    "[generic]\nlistenaddr = 127.0.0.1\nport = {port}\n\
                     [disk]\nexportname = {file}\n{more}\n"
                );
                std::fs::write(&path, text).expect("write a file to scratch");
                // It goes to the background; what it leaves behind ends with the namespace.
                let serve = format!("nbd-server -C '{}'; sleep infinity", path.display());
                let line = ["--pid", "--fork", "--kill-child", "sh", "-c", &serve];
                Process::start(folder, "unshare", &line)
            }
        }
    }

    fn study(self) -> Findings {
        let mut study = Study::new(self);
        let is_shared = study.is_shared();
        let (half_closed, reset) = (Leaves::HalfClosed, Leaves::Reset);
        let ends_half_closed = study.ask(|study| study.after_its_end(half_closed, 1));
        let ends_reset = study.ask(|study| study.after_its_end(reset, 2));
        let (mut admits_half_closed, mut admits_reset) = (Answer::Shared, Answer::Shared);
        if !is_shared {
            admits_half_closed = study.ask(|study| study.after_the_next_is_in(half_closed, 3));
            admits_reset = study.ask(|study| study.after_the_next_is_in(reset, 4));
        }
        Findings { ends_half_closed, ends_reset, admits_half_closed, admits_reset }
    }

    fn version(self) -> String {
        let option = if self.program == "nbd-server" { "-V" } else { "--version" };
        let said = run(Path::new("/tmp"), self.program, &[option]);
        let number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
        said.split_whitespace().find(number).unwrap_or("?").to_owned()
    }
}

/// A process and all that come from it.
fn family_of(id: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").expect("a /proc").flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            parents.entry(parent).or_default().push(child);
        }
    }
    let mut family = vec![id];
    let mut looked_at = 0;
    while let Some(parent) = family.get(looked_at) {
        let children = parents.remove(parent).unwrap_or_default();
        family.extend(children);
        looked_at += 1;
    }
    family
}

fn sockets_of(id: u32) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{id}/fd")) else { return 0 };
    let is_socket = |path: PathBuf| {
        std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"))
    };
    entries.flatten().filter(|entry| is_socket(entry.path())).count()
}

#[test]
fn what_is_written_of_kinds_of_servers_is_true() {
    needs!("nbdkit", "qemu-nbd", "nbd-server", "nbdfuse", "fusermount3", "unshare");
    if let Some(why) = cannot_mount() {
        tell(&why);
        return;
    }
    let start = Instant::now();
    let found: Vec<Findings> = std::thread::scope(|scope| {
        let studies = DOCUMENTED.map(|(kind, _)| scope.spawn(move || kind.study()));
        studies.map(|study| study.join().expect("a study comes to its end")).into()
    });
    println!("| server | version | options | end, half-closed | reset | next | reset |");
    for ((kind, _), found) in DOCUMENTED.iter().zip(&found) {
        println!(
            "| {} | {} | {} | {:?} | {:?} | {:?} | {:?} |",
            kind.program,
            kind.version(),
            kind.options.join(" "),
            found.ends_half_closed,
            found.ends_reset,
            found.admits_half_closed,
            found.admits_reset,
        );
    }
    eprintln!("studied for {:?}", start.elapsed());
    for ((kind, documented), found) in DOCUMENTED.iter().zip(&found) {
        assert!(found.is_within(*documented), "{kind:?}: {found:?}, documented {documented:?}");
    }
}
