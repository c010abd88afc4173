//! A data server on a host of its own, as far as memory and disk go: nbdkit on a file, in control
//! groups that bound what the kernel may cache of it, and how often its disk may be read.
//!
//! ```text
//! nbdkit --- page cache of the group: the host's memory, less what a hog has taken
//!               +--- file: so many reads a second, as a hard disk
//! exporter: a page like node_exporter's, with this host's memory
//! ```
//!
//! Making the [groups](super::groups) takes root.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context;
use evenkeel_io::child::ChildProcess;
use evenkeel_wire::nbd::uri::NbdUri;

use super::groups::{Groups, OwnMemory, ReadBound};
use super::{Stage, unix_uri, wait_until_ready};
use crate::exit::Exit;

/// What a host has.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    /// Its memory.
    pub memory_bytes: u64,
    /// What of it a hog has taken.
    pub hogged_bytes: u64,
    /// Size of its disk.
    pub disk_bytes: u64,
    /// How often that may be read in a second, if that is bounded.
    pub disk_reads: Option<u32>,
}

/// A running host.
#[derive(Debug)]
pub struct Host {
    // In the order in which they end.
    _server: ChildProcess,
    exporter: Exporter,
    _groups: Groups,
    socket: PathBuf,
}

/// What tells of its memory, over HTTP.
#[derive(Debug)]
struct Exporter {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts one.
    ///
    /// # Errors
    /// If that cannot be done here.
    pub fn start(stage: &Stage, name: &str, options: &HostOptions) -> anyhow::Result<Self> {
        let [file, socket, log] =
            ["raw", "sock", "log"].map(|suffix| stage.path(&format!("{name}.{suffix}")));
        let disk = fs::File::create(&file).context("cannot write to the scratch folder")?;
        disk.set_len(options.disk_bytes)?;
        let groups = make_groups(name, options, &file)?;
        let mut command = Command::new("nbdkit");
        // Each thread has a buffer of its own, which the host's memory has to hold, too.
        command.args(["--foreground", "--threads=4", "--unix"]).arg(&socket);
        command.args(["file", "fadvise=random"]).arg(&file);
        let said = fs::File::create(&log).context("cannot write to the scratch folder")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let mut server = ChildProcess::spawn(&mut command).context("cannot start nbdkit")?;
        groups.take_in(server.id())?;
        wait_until_ready(name, &mut server, &log, || UnixStream::connect(&socket).is_ok())?;
        let exporter = Exporter::start(groups.own_memory(), *options)?;
        Ok(Self { _server: server, exporter, _groups: groups, socket })
    }

    /// Where its export is; it takes any name.
    ///
    /// # Errors
    /// If the scratch folder's name is no text.
    pub fn uri(&self) -> anyhow::Result<NbdUri> {
        unix_uri(&self.socket, "")
    }

    /// Where it tells of its memory.
    pub fn metrics(&self) -> String {
        format!("http://{}/metrics", self.exporter.address)
    }
}

/// The drive under a file, by its numbers: reads of a partition are bounded at its drive.
fn disk_of(file: &Path) -> anyhow::Result<(u32, u32)> {
    let device = fs::metadata(file)?.st_dev();
    // As the C library takes it apart.
    let major = u32::try_from(device >> 8 & 0xfff | device >> 32 & !0xfff)?;
    let minor = u32::try_from(device & 0xff | device >> 12 & 0xf_ff00)?;
    let known = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if !known.exists() {
        let folder = file.parent().unwrap_or(file).display();
        let why = format!("{folder} is on no drive; name a folder on one in TMPDIR");
        return Err(Exit::Unreachable.because(why));
    }
    if !known.join("partition").exists() {
        return Ok((major, minor));
    }
    let whole = fs::read_to_string(fs::canonicalize(&known)?.join("../dev"))?;
    let numbers = whole.trim().split_once(':').context("a drive has two numbers")?;
    Ok((numbers.0.parse()?, numbers.1.parse()?))
}

fn make_groups(name: &str, options: &HostOptions, file: &Path) -> anyhow::Result<Groups> {
    let name = format!("evenkeel-{}-{name}", std::process::id());
    let free_bytes = options.memory_bytes - options.hogged_bytes;
    let drive = disk_of(file)?;
    Groups::make(&name, free_bytes, options.disk_reads.map(|reads| ReadBound { drive, reads }))
}

impl Exporter {
    fn start(own: OwnMemory, options: HostOptions) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free port on loopback")?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("exporter".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // Whoever hangs up has no use for an answer.
                let _ = answer(stream, &own, &options);
            }
        })?;
        Ok(Self { address, is_over, thread: Some(thread) })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let is_awake = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_awake) {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, own: &OwnMemory, options: &HostOptions) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request)?;
    let taken = options.hogged_bytes + own.read()?;
    let page = format!(
        "node_memory_MemTotal_bytes {}\nnode_memory_MemAvailable_bytes {}\n",
        options.memory_bytes,
        options.memory_bytes.saturating_sub(taken)
    );
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
    stream.write_all((head + &page).as_bytes())
}
