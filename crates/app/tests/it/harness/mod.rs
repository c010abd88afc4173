//! What the end-to-end tests stand on: real processes in a folder of their own, on loopback or unix
//! sockets, gone when the test ends, with their logs shown if it failed.

pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod conditions;
pub(crate) mod fake_server;
pub(crate) mod gate;
pub(crate) mod guest;
pub(crate) mod late_server;
pub(crate) mod mount;
pub(crate) mod nbd;
pub(crate) mod network;
pub(crate) mod openings;
pub(crate) mod process;
pub(crate) mod restless;
pub(crate) mod skip;
pub(crate) mod storage;
pub(crate) mod target;

use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long anything may take that is not the subject of a test. A disk that somebody else keeps
/// busy may stall for tens of seconds; what hangs costs this once.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A folder that vanishes with the test. It lies beside the test binary, on the disk that holds the
/// build, since the usual temporary folder may be memory.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        let beside = Path::new(env!("CARGO_TARGET_TMPDIR"));
        Self(tempfile::Builder::new().prefix("e2e-").tempdir_in(beside).expect("scratch folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// A file of bytes that look random and are the same each time.
    pub(crate) fn random_file(&self, name: &str, size_bytes: usize) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, noise(7, size_bytes)).expect("write a file to scratch");
        path
    }
}

/// Bytes that look random and depend on the seed alone (xorshift).
pub(crate) fn noise(seed: u64, size_bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(size_bytes + 8);
    while bytes.len() < size_bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size_bytes);
    bytes
}

/// A TCP port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    unused_port(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
}

/// A UDP address that nobody listens on.
pub(crate) fn free_address() -> String {
    let port = unused_port(|port| UdpSocket::bind(("127.0.0.1", port)).is_ok());
    format!("127.0.0.1:{port}")
}

/// The next port that is free. It lies below those that the system gives to connections, so that
/// none of another test takes it before it is used. Tests are mostly processes of their own, which
/// look in different places.
fn unused_port(is_free: impl Fn(u16) -> bool) -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 19_997;
    static LOOKED_AT: AtomicU32 = AtomicU32::new(0);
    let mut ports = (0..COUNT).map(|_| {
        let number = LOOKED_AT.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(64).wrapping_add(number) % COUNT;
        u16::try_from(FIRST + place).expect("below 30,000")
    });
    ports.find(|port| is_free(*port)).expect("a free port")
}

/// Asks until there is an answer; panics with `what` once [`PATIENCE`] is over.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
