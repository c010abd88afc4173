//! A peer that runs: where it listens, when it is ready, what it said, and its end.
//!
//! Every peer is a child process with a folder of its own for its socket, disk and log. It ends
//! when its [`Server`] drops, on any way out, and with this process should that die.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use evenkeel_io::child::ChildProcess;

use crate::matrix::Transport;

/// The export that everybody serves.
pub(crate) const EXPORT: &str = "bench";

/// How long a peer may take until it greets its first client.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long one attempt at a greeting may take.
const GREETING: Duration = Duration::from_secs(2);

/// How often an unready peer is asked again.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// How much of a peer's log an error quotes.
const LOG_LINES: usize = 8;

/// Where a peer listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    /// A port on the loopback interface.
    Tcp(u16),
}

impl Address {
    /// A new address; a socket lies in `folder`.
    pub(crate) fn new(transport: Transport, folder: &Path) -> Result<Self> {
        match transport {
            Transport::Unix => Ok(Self::Unix(folder.join("nbd.sock"))),
            Transport::Tcp => {
                let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
                Ok(Self::Tcp(free.local_addr()?.port()))
            }
        }
    }

    /// As clients name it.
    pub(crate) fn uri(&self) -> String {
        match self {
            Self::Unix(path) => format!("nbd+unix:///{EXPORT}?socket={}", path.display()),
            Self::Tcp(port) => format!("nbd://127.0.0.1:{port}/{EXPORT}"),
        }
    }

    /// Whether an NBD server greets there.
    fn greets(&self) -> io::Result<bool> {
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(GREETING))?;
                greeting(stream)
            }
            Self::Tcp(port) => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port))?;
                stream.set_read_timeout(Some(GREETING))?;
                greeting(stream)
            }
        }
    }
}

fn greeting(mut stream: impl Read) -> io::Result<bool> {
    let mut magic = [0; 8];
    stream.read_exact(&mut magic)?;
    Ok(magic == *b"NBDMAGIC")
}

/// A running peer.
#[derive(Debug)]
pub(crate) struct Server {
    child: ChildProcess,
    address: Address,
    log: PathBuf,
}

impl Server {
    /// Starts `command`, which shall listen on `address`, and waits until it greets.
    ///
    /// # Errors
    /// If it cannot be started, ends at once, or greets nobody in time; with its last words.
    pub(crate) fn start(mut command: Command, address: Address, folder: &Path) -> Result<Self> {
        let log = folder.join("log");
        let output = File::create(&log).context("cannot make a log file")?;
        let errors = output.try_clone().context("cannot share a log file")?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors).current_dir(folder);
        let child = ChildProcess::spawn(&mut command)
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let mut server = Self { child, address, log };
        server.wait_until_ready()?;
        Ok(server)
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.address.greets().unwrap_or(false) {
            if let Some(status) = self.child.ended().context("cannot watch it")? {
                bail!("it ended with {status}{}", self.last_words());
            }
            if Instant::now() >= deadline {
                bail!("it greets nobody within {PATIENCE:?}{}", self.last_words());
            }
            thread::sleep(ASK_EVERY);
        }
        Ok(())
    }

    /// The end of its log, for an error.
    pub(crate) fn last_words(&self) -> String {
        last_lines(&String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()))
    }
}

/// The last lines of a text, indented, to stand below an error; nothing for no text.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    lines[from..].iter().fold(String::new(), |text, line| text + "\n    " + line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_find_the_export_on_either_transport() {
        let unix = Address::Unix("/tmp/a/nbd.sock".into());
        assert_eq!(unix.uri(), "nbd+unix:///bench?socket=/tmp/a/nbd.sock");
        assert_eq!(Address::Tcp(7).uri(), "nbd://127.0.0.1:7/bench");
    }

    #[test]
    fn only_an_nbd_server_greets() {
        assert!(greeting(b"NBDMAGICIHAVEOPT".as_slice()).unwrap());
        assert!(!greeting(b"HTTP/1.1 200".as_slice()).unwrap());
        assert!(greeting(b"NBD".as_slice()).is_err());
    }

    #[test]
    fn a_peer_that_ends_at_once_is_reported_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::new(Transport::Unix, folder.path()).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such disk >&2; exit 3"]);
        let error = Server::start(command, address, folder.path()).unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("\n    no such disk"), "{error}");
    }
}
