//! A client that keeps changing its mind about what it asks for most, so that the extents of a
//! tiered volume move.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::gate::Gate;
use super::nbd::{self, Client, READ, Request};
use super::target::Target;
use crate::faults::reconnect;

/// What it reads of before it goes on to the next place.
pub(crate) const WINDOW_BYTES: u64 = 512 << 10;

/// Where it reads, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habit {
    /// How many windows there are, and how far from the beginning of one to that of the next.
    pub(crate) windows: u64,
    pub(crate) apart_bytes: u64,
    /// Between two reads.
    pub(crate) pause: Duration,
    /// Reads may fail, as where another gate takes the volume.
    pub(crate) bears_errors: bool,
}

/// A client that reads here and there within a small part of the disk, then in another.
pub(crate) struct Restless {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Restless {
    pub(crate) fn start(target: &Target, habit: Habit) -> Self {
        let (stop, target) = (Arc::new(AtomicBool::new(false)), target.clone());
        let stopped = Arc::clone(&stop);
        let is_over = move || stopped.load(Ordering::Relaxed);
        let thread = std::thread::spawn(move || {
            let mut round = 0;
            while !is_over() {
                // The gate may be gone for the moment; then it is tried again.
                if let Some(client) = reconnect(&target) {
                    habit.read_about(client, &mut round, &is_over);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Habit {
    /// Reads until told to stop or the connection breaks: a window gets a hundred reads, then comes
    /// the next.
    fn read_about(self, mut client: Client, round: &mut u64, is_over: &impl Fn() -> bool) {
        while !is_over() {
            *round += 1;
            let window = *round / 100 * 7 % self.windows;
            let block = *round * 37 % (WINDOW_BYTES / 4096);
            let offset = window * self.apart_bytes + block * 4096;
            let read = Request { command: READ, offset, length: 4096, ..Request::default() };
            if !client.throw(&read.bytes()) {
                return;
            }
            let Ok(reply) = client.try_take(16) else { return };
            let has_failed = nbd::be32(&reply[4..8]) != 0;
            assert!(self.bears_errors || !has_failed, "a read failed while the gate stood");
            if has_failed || client.try_take(4096).is_err() {
                return;
            }
            std::thread::sleep(self.pause);
        }
    }
}

impl Drop for Restless {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is joined once");
        let is_well = thread.join().is_ok() || std::thread::panicking();
        assert!(is_well, "the restless client met what a client must not meet");
    }
}

/// Moves that the gate has completed; none while its volume is not open.
pub(crate) fn moves(gate: &Gate) -> u64 {
    gate.status()["domains"][0]["volume"]["moves"]["done"].as_u64().unwrap_or(0)
}
