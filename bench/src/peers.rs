//! How each peer is run in each contest: command lines, policy and configuration files.
//!
//! Everybody gets its usual settings. What deviates is there to compare like with like: the same
//! mode of the page cache, one thread for `HAProxy` (it would gain nothing from more on a few
//! connections, and its threads share the work of one), and as many clients for qemu-nbd as we
//! connect.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::matrix::{Contest, Peer, Transport};
use crate::server::{Address, EXPORT, Server};

/// Bytes written at once when a disk is made.
const BLOCK_BYTES: usize = 1 << 20;

/// Where programs lie.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The gate under test.
    pub(crate) evenkeel: PathBuf,
}

impl Programs {
    /// The program of a peer, if it is installed.
    pub(crate) fn of(&self, peer: Peer) -> Option<PathBuf> {
        match peer {
            Peer::Evenkeel => Some(self.evenkeel.clone()),
            other => find(other.program()),
        }
    }

    /// What the peer calls its version: the first line that it prints.
    pub(crate) fn version_of(&self, peer: Peer) -> String {
        self.first_line(peer).unwrap_or_else(|| format!("{peer}, version unknown"))
    }

    fn first_line(&self, peer: Peer) -> Option<String> {
        // HAProxy knows the short form only.
        let flag = if peer.program() == "haproxy" { "-v" } else { "--version" };
        let output = Command::new(self.of(peer)?).arg(flag).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().map(str::to_owned)
    }
}

/// A program on the search path or in the folders of the system's owner, which other people's
/// search path often leaves out.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// What a peer is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) contest: Contest,
    /// Where it listens.
    pub(crate) address: &'a Address,
    /// Its own folder.
    pub(crate) folder: &'a Path,
    /// Size of the export.
    pub(crate) size_bytes: u64,
    /// Whom a relay asks.
    pub(crate) upstream: Option<&'a Address>,
}

impl Task<'_> {
    fn upstream(&self) -> &Address {
        self.upstream.expect("a stage of relays starts the upstream first")
    }

    /// Makes a disk whose blocks are all there, and on the disk; a sparse one would be faster.
    fn make_disk(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        let mut file = File::create(&path).context("cannot make a disk")?;
        let block: Vec<u8> = (0..=250).cycle().take(BLOCK_BYTES).collect();
        for _ in 0..self.size_bytes / BLOCK_BYTES as u64 {
            file.write_all(&block).context("cannot fill a disk")?;
        }
        file.sync_all().context("cannot flush a disk")?;
        Ok(path)
    }
}

/// Starts a peer on its task and waits until it is ready.
///
/// # Errors
/// If it is not installed, its files cannot be written, or it does not start.
pub(crate) fn start(peer: Peer, programs: &Programs, task: &Task<'_>) -> Result<Server> {
    let program = programs.of(peer).with_context(|| format!("{} is missing", peer.program()))?;
    let command = match peer {
        Peer::Evenkeel => evenkeel(&program, task),
        Peer::Nbdkit => nbdkit(&program, task),
        Peer::QemuNbd => qemu_nbd(&program, task),
        Peer::Haproxy => haproxy(&program, task, ""),
        Peer::HaproxySplice => {
            haproxy(&program, task, "    option splice-request\n    option splice-response\n")
        }
    }?;
    Server::start(command, task.address.clone(), task.folder)
        .with_context(|| format!("{peer} does not start"))
}

/// Starts the server behind the relays: nbdkit with an export in memory.
///
/// # Errors
/// As [`start`].
pub(crate) fn start_upstream(programs: &Programs, task: &Task<'_>) -> Result<Server> {
    start(Peer::Nbdkit, programs, &Task { contest: Contest::Memory, ..*task })
}

/// Starts nbdkit with a disk in memory, and what options and parameters make of it, on a unix
/// socket in `folder`.
///
/// # Errors
/// If it does not start; with its last words.
pub(crate) fn memory_server(
    nbdkit: &Path,
    folder: &Path,
    size_bytes: u64,
    options: &[&str],
    parameters: &[&str],
) -> Result<Server> {
    let address = Address::new(Transport::Unix, folder)?;
    let Address::Unix(socket) = &address else { unreachable!("it was asked for") };
    let mut command = Command::new(nbdkit);
    command.arg("--foreground").arg("--unix").arg(socket).args(options);
    command.args(["memory", &format!("size={size_bytes}")]).args(parameters);
    Server::start(command, address, folder).context("nbdkit does not start")
}

fn evenkeel(program: &Path, task: &Task<'_>) -> Result<Command> {
    if matches!(task.contest, Contest::Cached | Contest::Direct) {
        let disks = task.folder.join("disks");
        fs::create_dir(&disks).context("cannot make a folder for the disk")?;
        Task { folder: &disks, ..*task }.make_disk(EXPORT)?;
    }
    let policy = task.folder.join("policy.toml");
    fs::write(&policy, policy_text(task)).context("cannot write the policy")?;
    let mut command = Command::new(program);
    command.arg("serve").arg(policy).args(["--metrics", "off", "--data"]).arg(task.folder);
    Ok(command)
}

/// Enforce mode with the linear cost model and SFQ, both the defaults, and two tenants of which one
/// is measured. No limit is set: a limit would be all that the figures show.
fn policy_text(task: &Task<'_>) -> String {
    let listen = match task.address {
        Address::Unix(path) => format!("unix:{}", path.display()),
        Address::Tcp(port) => format!("127.0.0.1:{port}"),
    };
    let backend = match task.contest {
        Contest::Memory => "memory = true".to_owned(),
        Contest::Cached => "directory = \"disks\"\ndirect = false".to_owned(),
        Contest::Direct => "directory = \"disks\"\ndirect = true".to_owned(),
        Contest::Relay => format!("upstream = \"{}\"", server_uri(task.upstream())),
    };
    let size = match task.contest {
        Contest::Relay => String::new(),
        _ => format!("size = \"{} B\"\n", task.size_bytes),
    };
    format!(
        "mode = \"enforce\"\nlisten = [\"{listen}\"]\n\n\
         [[backend]]\nname = \"storage\"\n{backend}\n\n\
         [[export]]\nname = \"{EXPORT}\"\n{size}\n\
         [[tenant]]\nname = \"measured\"\nmatch = {{ export = \"{EXPORT}\" }}\nshare = 4\n\n\
         [[tenant]]\nname = \"absent\"\nmatch = {{ peer = \"192.0.2.0/24\" }}\nshare = 1\n"
    )
}

/// An upstream without its export, as the policy file wants it.
fn server_uri(address: &Address) -> String {
    address.uri().replacen(&format!("/{EXPORT}"), "/", 1)
}

fn nbdkit(program: &Path, task: &Task<'_>) -> Result<Command> {
    let mut command = Command::new(program);
    command.arg("--foreground");
    match task.address {
        Address::Unix(path) => command.arg("--unix").arg(path),
        Address::Tcp(port) => command.args(["--ipaddr=127.0.0.1", &format!("--port={port}")]),
    };
    match task.contest {
        Contest::Memory => command.args(["memory", &format!("size={}", task.size_bytes)]),
        Contest::Cached => {
            command.args(["file", &format!("file={}", task.make_disk("disk.raw")?.display())])
        }
        Contest::Direct => return Err(anyhow::anyhow!("nbdkit has no direct I/O")),
        Contest::Relay => command.args(["nbd", &format!("uri={}", task.upstream().uri())]),
    };
    Ok(command)
}

fn qemu_nbd(program: &Path, task: &Task<'_>) -> Result<Command> {
    let mut command = Command::new(program);
    command.args(["--persistent", "--format=raw", "--shared=64", "--export-name", EXPORT]);
    match task.address {
        Address::Unix(path) => command.arg("--socket").arg(path),
        Address::Tcp(port) => command.args(["--bind=127.0.0.1", &format!("--port={port}")]),
    };
    match task.contest {
        Contest::Memory | Contest::Cached => {
            command.arg("--cache=writeback").arg(task.make_disk("disk.raw")?)
        }
        Contest::Direct => {
            command.args(["--cache=none", "--aio=native"]).arg(task.make_disk("disk.raw")?)
        }
        Contest::Relay => command.arg(task.upstream().uri()),
    };
    Ok(command)
}

fn haproxy(program: &Path, task: &Task<'_>, options: &str) -> Result<Command> {
    ensure!(task.contest == Contest::Relay, "HAProxy serves no disk of its own");
    let name = |address: &Address| match address {
        Address::Unix(path) => format!("unix@{}", path.display()),
        Address::Tcp(port) => format!("127.0.0.1:{port}"),
    };
    let (listen, upstream) = (name(task.address), name(task.upstream()));
    let text = format!(
        "global\n    nbthread 1\n    maxconn 1024\n\n\
         defaults\n    timeout connect 5s\n    timeout client 1h\n    timeout server 1h\n\n\
         listen relay\n    mode tcp\n    bind {listen}\n    server upstream {upstream}\n{options}"
    );
    let file = task.folder.join("haproxy.cfg");
    fs::write(&file, text).context("cannot write HAProxy's configuration")?;
    let mut command = Command::new(program);
    // In the foreground and without a master process, so that the child is what does the work.
    command.args(["-db", "-f"]).arg(file);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task<'a>(contest: Contest, address: &'a Address, upstream: &'a Address) -> Task<'a> {
        let folder = Path::new("/nowhere");
        Task { contest, address, folder, size_bytes: 1 << 20, upstream: Some(upstream) }
    }

    #[test]
    fn an_upstream_is_named_without_its_export() {
        assert_eq!(server_uri(&Address::Unix("/a/b.sock".into())), "nbd+unix:///?socket=/a/b.sock");
        assert_eq!(server_uri(&Address::Tcp(9)), "nbd://127.0.0.1:9/");
    }

    #[test]
    fn the_policy_enforces_and_limits_nobody() {
        let (address, upstream) = (Address::Tcp(1), Address::Tcp(2));
        for contest in Contest::ALL {
            let text = policy_text(&task(contest, &address, &upstream));
            assert!(text.starts_with("mode = \"enforce\"\n"), "{text}");
            assert!(!text.contains("limit"), "{text}");
            assert_eq!(text.contains("size ="), contest != Contest::Relay, "{text}");
            assert_eq!(text.contains("direct = true"), contest == Contest::Direct, "{text}");
        }
    }

    #[test]
    fn nobody_is_compared_in_another_mode_of_the_page_cache() {
        let (address, upstream) = (Address::Tcp(1), Address::Tcp(2));
        assert!(nbdkit(Path::new("nbdkit"), &task(Contest::Direct, &address, &upstream)).is_err());
        assert!(!Contest::Direct.peers().contains(&Peer::Nbdkit));
    }

    #[test]
    fn a_program_is_found_or_not() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
    }
}
