//! Processes under guard: killed by id when the guard drops, and by the kernel should the test
//! itself be killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::wait_for;

/// Gives each log its own name.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A running program with its output in a file.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` in `folder`, which also takes its log.
    pub(crate) fn start(folder: &Path, program: &str, arguments: &[&str]) -> Self {
        Self::start_by(&[], folder, program, arguments)
    }

    /// The same by way of a launcher, the words before the program's, that becomes it.
    pub(crate) fn start_by(
        launcher: &[String],
        folder: &Path,
        program: &str,
        arguments: &[&str],
    ) -> Self {
        let name =
            Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = folder.join(format!("{name}-{number}.log"));
        let out = File::options().create(true).append(true).open(&log).expect("open a log");
        let err = out.try_clone().expect("clone a file handle");
        // The kernel kills the child when we die, however we die. setpriv keeps its process id.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .args(launcher)
            .arg(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .expect("start setpriv");
        Self { name, child, log }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything it wrote so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it ended, and how.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("ask for a child of ours")
    }

    /// Waits until `ready`; panics at once if the process ends before.
    pub(crate) fn wait_until(&mut self, what: &str, ready: impl Fn() -> bool) {
        let name = self.name.clone();
        wait_for(&format!("{name}: {what}"), || {
            if let Some(status) = self.ended() {
                panic!("{name} ended with {status} before it was ready");
            }
            ready().then_some(())
        });
    }

    /// Kills it without warning and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(id, signal).expect("signal a child of ours");
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let name = format!("the end of {}", self.name);
        wait_for(&name, || self.ended())
    }

    /// Memory that it occupies.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("VmRSS in kB");
        kib.trim().parse::<u64>().expect("a number") * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.lines().rev().take(60).collect::<Vec<_>>();
            eprintln!("--- last lines of {}:", self.name);
            tail.iter().rev().for_each(|line| eprintln!("    {line}"));
        }
    }
}

/// Runs a program to its end and returns what it printed; panics unless it succeeds in time.
pub(crate) fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let (status, output) = finish(folder, program, arguments, Duration::from_mins(1));
    assert!(status.success(), "{program} {arguments:?} ended with {status}:\n{output}");
    output
}

/// Runs a program to its end; returns how it ended and what it printed on both streams.
pub(crate) fn finish(
    folder: &Path,
    program: &str,
    arguments: &[&str],
    patience: Duration,
) -> (ExitStatus, String) {
    let mut process = Process::start(folder, program, arguments);
    let start = Instant::now();
    loop {
        if let Some(status) = process.ended() {
            return (status, process.log());
        }
        assert!(start.elapsed() < patience, "{program} {arguments:?} takes over {patience:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
