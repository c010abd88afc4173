//! Child processes that end with us: when dropped, and when this process dies in any way.

#![expect(unsafe_code, reason = "a child asks for a signal before it becomes its program")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

pub use rustix::process::Signal;
use rustix::process::{Pid, getpid, getppid, kill_process, set_parent_process_death_signal};

/// How long a child may take to end by itself when told to.
const GRACE: Duration = Duration::from_secs(5);

/// How often an ending child is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A child process. Dropping it sends SIGTERM to it, and SIGKILL if that does not help.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
}

impl ChildProcess {
    /// Starts `command`. The kernel sends SIGTERM to the child when the calling *thread* ends, so
    /// call this on one that lives as long as the child shall.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let parent = getpid();
        let bind = move || {
            set_parent_process_death_signal(Some(Signal::TERM))?;
            // Had the parent died before that call, no signal would come any more.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        };
        // SAFETY: between fork and exec the closure makes two plain system calls; it allocates
        // nothing, takes no lock, and touches no memory but its own copy of a number.
        unsafe { command.pre_exec(bind) };
        Ok(Self { child: command.spawn()? })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends it without warning, as a power cut would, and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // The id stays the child's until `wait` has seen it end.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        self.signal(Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                self.signal(Signal::KILL);
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;

    fn is_alive(id: u32) -> bool {
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        test_kill_process(pid).is_ok()
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let child = ChildProcess::spawn(Command::new("sleep").arg("60")).unwrap();
        let id = child.id();
        assert!(is_alive(id));
        drop(child);
        assert!(!is_alive(id));
    }

    #[test]
    fn a_child_whose_starter_vanishes_is_told() {
        let starter =
            std::thread::spawn(|| ChildProcess::spawn(Command::new("sleep").arg("60")).unwrap());
        let mut child = starter.join().unwrap();
        let deadline = Instant::now() + GRACE;
        while child.ended().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the child outlives its starter");
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
