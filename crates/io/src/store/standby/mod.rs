//! A drive whose spindle stops when nobody has asked anything of it for a while.
//!
//! ```text
//!   command    nothing for `after`     stop     standing     command    start
//!  --turning----------------------------|---------|------------|----------|--turning--
//! ```
//!
//! Of a chain only the tail's drives and those that are being cleaned are written; the others turn
//! for reads alone, and the store reads a copy that turns if there is one. So drives that hold
//! neither tail nor cleaning come to stand still by themselves, and nothing has to be made
//! consistent for that: whatever was acknowledged as durable was flushed before.
//!
//! A command that finds the spindle standing waits until it turns, and so does whatever is asked
//! meanwhile. A drive that cannot be stopped says so once, and turns for ever.

mod scsi;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Instant;

/// What stops and starts the spindle.
#[derive(Debug)]
pub(super) enum SpindleMotor {
    /// That of an emulated drive: stopped at once, and started in the time of its model.
    Emulated {
        /// From standing still to the first command.
        spin_up: Duration,
    },
    /// That of a disk, by commands of SCSI. Most others understand them as well: the kernel
    /// translates them.
    Scsi(Arc<File>),
}

/// How a drive's spindle is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpindleReport {
    /// The path of the drive.
    pub drive: String,
    /// Whether it stands still, or is about to.
    pub is_standing: bool,
    /// How often it was stopped since the store was opened.
    pub stops: u64,
    /// How long it has stood still since then.
    pub stood: Duration,
    /// Why it cannot be stopped, if that is so.
    pub trouble: Option<String>,
}

/// The spindle of a drive. See the [module](self).
#[derive(Debug)]
pub(super) struct Standby {
    spindle: Rc<Spindle>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Spindle {
    path: String,
    after: Duration,
    motor: SpindleMotor,
    state: RefCell<State>,
    /// Told when it turns again, or will not be stopped any more.
    turns: Notify,
    /// Told when a command comes.
    wanted: Notify,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    under_way: usize,
    /// When the last command ended.
    idle_since: Instant,
    stops: u64,
    /// How long it stood still, up to when it was last started.
    stood: Duration,
}

#[derive(Debug)]
enum Phase {
    Turning,
    Stopping,
    Standing {
        since: Instant,
    },
    Starting,
    /// It cannot be stopped, for this reason.
    Unstoppable(String),
}

impl Standby {
    /// Stops the spindle whenever nothing was asked for that long. On the runtime of this thread.
    pub(super) fn start(path: String, after: Duration, motor: SpindleMotor) -> Self {
        let state = State {
            phase: Phase::Turning,
            under_way: 0,
            idle_since: Instant::now(),
            stops: 0,
            stood: Duration::ZERO,
        };
        let spindle = Rc::new(Spindle {
            path,
            after,
            motor,
            state: RefCell::new(state),
            turns: Notify::new(),
            wanted: Notify::new(),
        });
        let task = spawn_local(Rc::clone(&spindle).keep());
        Self { spindle, task }
    }

    /// Waits until it turns; it goes on as long as what this returns is kept.
    pub(super) async fn turning(&self) -> Turning<'_> {
        self.spindle.state.borrow_mut().under_way += 1;
        let claim = Turning(&self.spindle);
        loop {
            let turns = self.spindle.turns.notified();
            match self.spindle.state.borrow().phase {
                Phase::Turning | Phase::Unstoppable(_) => return claim,
                Phase::Stopping | Phase::Standing { .. } | Phase::Starting => {
                    self.spindle.wanted.notify_one();
                }
            }
            turns.await;
        }
    }

    /// Whether it stands still, or has not started yet.
    pub(super) fn is_standing(&self) -> bool {
        let state = self.spindle.state.borrow();
        !matches!(state.phase, Phase::Turning | Phase::Unstoppable(_))
    }

    /// How it is doing.
    pub(super) fn report(&self) -> SpindleReport {
        let state = self.spindle.state.borrow();
        let stands = match state.phase {
            Phase::Standing { since } => since.elapsed(),
            _ => Duration::ZERO,
        };
        let trouble = match &state.phase {
            Phase::Unstoppable(why) => Some(why.clone()),
            _ => None,
        };
        SpindleReport {
            drive: self.spindle.path.clone(),
            is_standing: matches!(state.phase, Phase::Stopping | Phase::Standing { .. }),
            stops: state.stops,
            stood: state.stood + stands,
            trouble,
        }
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A command's claim that the spindle turns.
pub(super) struct Turning<'a>(&'a Spindle);

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        let state = &mut *self.0.state.borrow_mut();
        state.under_way -= 1;
        state.idle_since = Instant::now();
    }
}

impl Spindle {
    /// Stops it and starts it, until it turns out that it cannot be stopped.
    async fn keep(self: Rc<Self>) {
        loop {
            self.until_idle().await;
            self.stand(Phase::Stopping);
            if let Err(why) = self.motor.stop().await {
                let path = &self.path;
                tracing::warn!(path, why, "the drive cannot be stopped, and goes on turning");
                self.stand(Phase::Unstoppable(why));
                self.turns.notify_waiters();
                return;
            }
            tracing::debug!(path = self.path, "spindle stopped");
            let since = Instant::now();
            self.state.borrow_mut().stops += 1;
            self.stand(Phase::Standing { since });
            while self.state.borrow().under_way == 0 {
                self.wanted.notified().await;
            }
            self.state.borrow_mut().stood += since.elapsed();
            self.stand(Phase::Starting);
            if let Err(error) = self.motor.start().await {
                // The command that waits for it finds out what is wrong.
                tracing::warn!(path = self.path, %error, "the drive did not start as asked");
            }
            self.stand(Phase::Turning);
            self.turns.notify_waiters();
        }
    }

    fn stand(&self, phase: Phase) {
        self.state.borrow_mut().phase = phase;
    }

    /// Waits until nothing was asked of it for long enough.
    async fn until_idle(&self) {
        loop {
            let due = {
                let state = self.state.borrow();
                let from = if state.under_way > 0 { Instant::now() } else { state.idle_since };
                from + self.after
            };
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}

impl SpindleMotor {
    /// That of what stands behind this file; or why there is none to stop.
    pub(super) fn of(file: &Arc<File>) -> io::Result<Result<Self, &'static str>> {
        let metadata = file.metadata()?;
        if !metadata.file_type().is_block_device() {
            return Ok(Err("it is a file, and shares its drive with others"));
        }
        let device = metadata.rdev();
        Ok(match is_rotational(rustix::fs::major(device), rustix::fs::minor(device)) {
            Some(false) => Err("it has no spindle"),
            _ => Ok(Self::Scsi(Arc::clone(file))),
        })
    }

    async fn stop(&self) -> Result<(), String> {
        match self {
            Self::Emulated { .. } => Ok(()),
            Self::Scsi(file) => aside(file, scsi::stop).await,
        }
    }

    async fn start(&self) -> Result<(), String> {
        match self {
            Self::Emulated { spin_up } => {
                tokio::time::sleep(*spin_up).await;
                Ok(())
            }
            Self::Scsi(file) => aside(file, scsi::start).await,
        }
    }
}

/// A call that can take as long as a spindle.
async fn aside(
    file: &Arc<File>,
    call: fn(&File) -> Result<(), scsi::ScsiError>,
) -> Result<(), String> {
    let file = Arc::clone(file);
    let outcome = tokio::task::spawn_blocking(move || call(&file)).await;
    outcome.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Whether the kernel takes the device for a disk that turns; the queue of a partition is that of
/// its disk.
fn is_rotational(major: u32, minor: u32) -> Option<bool> {
    let device = format!("/sys/dev/block/{major}:{minor}");
    let read = |path: &str| std::fs::read_to_string(format!("{device}/{path}")).ok();
    let text = read("queue/rotational").or_else(|| read("../queue/rotational"))?;
    Some(text.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::block_on;

    const AFTER: Duration = Duration::from_millis(250);
    const SPIN_UP: Duration = Duration::from_millis(120);

    fn emulated() -> Standby {
        Standby::start("a".to_owned(), AFTER, SpindleMotor::Emulated { spin_up: SPIN_UP })
    }

    /// What it takes until it stands still.
    async fn until_standing(standby: &Standby) -> Duration {
        let begin = Instant::now();
        while !standby.is_standing() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begin.elapsed()
    }

    #[test]
    fn a_drive_that_nobody_asks_stands_still_and_the_next_command_waits_for_it() {
        let work = async {
            let standby = emulated();
            drop(standby.turning().await);
            assert!(until_standing(&standby).await >= AFTER);
            tokio::time::sleep(AFTER).await;
            let report = standby.report();
            assert!(report.is_standing && report.stops == 1 && report.stood >= AFTER);
            let begin = Instant::now();
            tokio::join!(standby.turning(), standby.turning());
            assert!(begin.elapsed() >= SPIN_UP);
            let (before, report) = (report.stood, standby.report());
            assert!(!report.is_standing && report.stops == 1 && report.stood >= before);
        };
        block_on(work).unwrap();
    }

    #[test]
    fn a_command_that_takes_long_keeps_it_turning() {
        let work = async {
            let standby = emulated();
            let command = standby.turning().await;
            tokio::time::sleep(AFTER * 3).await;
            assert!(!standby.is_standing());
            drop(command);
            assert!(until_standing(&standby).await >= AFTER);
        };
        block_on(work).unwrap();
    }

    #[test]
    fn a_command_that_is_given_up_does_not_leave_it_standing_for_the_next() {
        let work = async {
            let standby = emulated();
            until_standing(&standby).await;
            let given_up = tokio::time::timeout(Duration::from_millis(1), standby.turning());
            assert!(given_up.await.is_err());
            drop(standby.turning().await);
            assert!(!standby.is_standing());
        };
        block_on(work).unwrap();
    }

    #[test]
    fn what_is_no_disk_says_so_once_and_goes_on() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        assert!(SpindleMotor::of(&file).unwrap().is_err_and(|why| why.contains("a file")));
        let work = async {
            let standby = Standby::start("a".to_owned(), AFTER, SpindleMotor::Scsi(file));
            while standby.report().trouble.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            drop(standby.turning().await);
            let report = standby.report();
            assert_eq!((report.stops, report.is_standing), (0, false));
        };
        block_on(work).unwrap();
    }
}
