//! A file or block device as a drive of a store.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_store::{Buffer, Drive, DriveError, Durability, Geometry, ZoneState, Zoning};
use rustix::io::Errno;

use super::calls::{Calls, Gone};
use super::device;
use super::emulation::{Command, DriveModel, Emulation};
use super::open::{self, OpenDrive, OpenDriveError};
use super::standby::{SpindleMotor, SpindleReport, Standby};
use super::zones::{EmulatedZones, Zones};
use crate::buffer::Buf;
use crate::drive::Action;

/// A file or block device as a [`Drive`], on the runtime of the thread that opened it. It is locked
/// against every other program that asks, until it is dropped.
#[derive(Debug)]
pub struct FileDrive {
    path: PathBuf,
    geometry: Geometry,
    is_direct: bool,
    /// Whether it is a block device.
    is_device: bool,
    /// Whether room that is not needed is given back.
    discards: Cell<bool>,
    file: Arc<File>,
    calls: Rc<Calls>,
    /// How long it may owe an answer.
    answer_patience: Duration,
    zones: Option<Zones>,
    /// What makes it as slow as another drive, if anything does.
    emulation: Option<Emulation>,
    /// What stops its spindle, if anything does.
    standby: Option<Standby>,
    /// What failed first, of writes and flushes: a store does without the drive from then on.
    first_failure: RefCell<Option<(String, io::Error)>>,
}

impl FileDrive {
    /// Opens a file or block device, or makes a file if that is asked for. Call it on a
    /// current-thread runtime, within a `LocalSet`, as [`block_on`](super::block_on) brings it.
    ///
    /// # Errors
    /// [`OpenDriveError`], which names the path and the remedy.
    pub async fn open(path: &Path, how: &OpenDrive) -> Result<Self, OpenDriveError> {
        let opened = open::open(path, how).await?;
        let calls = Calls::new(Arc::clone(&opened.file), how.kind, how.answer_patience)
            .map_err(|error| OpenDriveError::Io { path: path.to_owned(), error })?;
        Ok(Self {
            path: path.to_owned(),
            geometry: opened.geometry,
            is_direct: opened.is_direct,
            is_device: opened.is_device,
            discards: Cell::new(opened.is_sparse),
            file: opened.file,
            calls,
            answer_patience: how.answer_patience,
            zones: opened.zones,
            emulation: None,
            standby: None,
            first_failure: RefCell::default(),
        })
    }

    /// Makes it take the time that a model of another drive says, from now on.
    ///
    /// # Errors
    /// If the machine has no timer left.
    pub fn emulate(self, model: DriveModel) -> io::Result<Self> {
        Ok(Self { emulation: Some(Emulation::start(model)?), ..self })
    }

    /// Lets its spindle stop whenever nothing was asked of it for that long.
    ///
    /// # Errors
    /// Why there is none to stop.
    pub fn power_down(&mut self, after: Duration) -> io::Result<Result<(), &'static str>> {
        let motor = match &self.emulation {
            Some(emulation) => SpindleMotor::Emulated { spin_up: emulation.spin_up() },
            None => match SpindleMotor::of(&self.file)? {
                Ok(motor) => motor,
                Err(why) => return Ok(Err(why)),
            },
        };
        self.standby = Some(Standby::start(self.path.display().to_string(), after, motor));
        Ok(Ok(()))
    }

    /// How its spindle is doing, if that is let stop.
    pub fn spindle(&self) -> Option<SpindleReport> {
        self.standby.as_ref().map(Standby::report)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is used past the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether it is a file that stands for a drive with zones.
    pub fn has_emulated_zones(&self) -> bool {
        self.emulated_zones().is_some()
    }

    fn emulated_zones(&self) -> Option<&EmulatedZones> {
        self.zones.as_ref().and_then(Zones::emulated)
    }

    /// Makes the write pointers of an emulated drive durable, as they were before the last flush.
    async fn write_pointers(&self, changed: Vec<(u64, Buffer)>) -> Result<(), Fault> {
        if changed.is_empty() {
            return Ok(());
        }
        let blocks = changed.into_iter().map(|(offset_bytes, block)| {
            (offset_bytes, Action::Gather { data: vec![block], durable: false })
        });
        // A real drive takes no time for it that anybody could tell.
        for (offset_bytes, action) in blocks.chain([(0, Action::Flush)]) {
            let what = action.name();
            let (outcome, _) = self.calls.perform(offset_bytes, action).await?;
            self.noted(what, offset_bytes, outcome)?;
        }
        Ok(())
    }

    /// What came of a call.
    fn noted<T>(&self, what: &str, offset_bytes: u64, outcome: io::Result<T>) -> Result<T, Fault> {
        outcome.map_err(|error| self.failed(what, offset_bytes, &error))
    }

    /// What is wrong with it, if a store had to go on without it; with the next step.
    pub fn trouble(&self) -> Option<String> {
        let failure = self.failure()?;
        let is_full = !self.calls.is_gone()
            && self.first_failure.borrow().as_ref().is_some_and(|(_, error)| is_full(error));
        let remedy = if is_full { "make room there, then" } else { "replace it, or" };
        Some(format!(
            "{failure}; {remedy} restart the gate when it is well: it is brought up to date then"
        ))
    }

    /// The same without the next step.
    pub(crate) fn failure(&self) -> Option<String> {
        let path = self.path.display();
        if self.calls.is_gone() {
            return Some(format!("drive {path} does not answer"));
        }
        let failed = self.first_failure.borrow();
        failed.as_ref().map(|(what, error)| {
            if is_full(error) {
                format!("drive {path} failed ({what}): its file system has no room left")
            } else {
                format!("drive {path} failed ({what}: {error})")
            }
        })
    }

    async fn perform(&self, offset_bytes: u64, action: Action) -> Result<Action, Fault> {
        let what = action.name();
        match self.perform_in_time(offset_bytes, action).await {
            Err(Gone) => Err(Fault::Gone),
            Ok((Ok(()), action)) => Ok(action),
            Ok((Err(error), Action::Zero { .. })) if is_unsupported(&error) => {
                Err(Fault::Unsupported(error))
            }
            Ok((Err(error), _)) => Err(self.failed(what, offset_bytes, &error)),
        }
    }

    /// Room of the device, or of the file system below.
    async fn give_back(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), Fault> {
        if !self.is_device {
            let punch = Action::Zero { length: length_bytes, punch: true };
            return self.perform(offset_bytes, punch).await.map(drop);
        }
        let tried = async {
            match device::discard(&self.file, offset_bytes, length_bytes).await {
                Err(error) if is_unsupported(&error) => Ok(Err(Fault::Unsupported(error))),
                outcome => outcome.map(Ok),
            }
        };
        self.in_time("discard", offset_bytes, tried).await?
    }

    /// What the kernel does for a device as one call, unless that takes too long.
    async fn in_time<T>(
        &self,
        what: &str,
        offset_bytes: u64,
        call: impl Future<Output = io::Result<T>>,
    ) -> Result<T, Fault> {
        if self.calls.is_gone() {
            return Err(Fault::Gone);
        }
        let Ok(outcome) = tokio::time::timeout(self.answer_patience, call).await else {
            let (path, patience) = (self.path.display(), self.answer_patience);
            tracing::error!(%path, what, ?patience, "no answer from the drive; it is given up");
            self.calls.give_up();
            return Err(Fault::Gone);
        };
        self.noted(what, offset_bytes, outcome)
    }

    async fn perform_in_time(
        &self,
        offset_bytes: u64,
        action: Action,
    ) -> Result<(io::Result<()>, Action), Gone> {
        let _turning = match &self.standby {
            Some(standby) => Some(standby.turning().await),
            None => None,
        };
        let Some(emulation) = &self.emulation else {
            return self.calls.perform(offset_bytes, action).await;
        };
        let command = Command::of(offset_bytes, &action);
        // In a box, so that whoever emulates nothing does not carry the room for it.
        let both = async {
            tokio::join!(self.calls.perform(offset_bytes, action), emulation.spend(command)).0
        };
        Box::pin(both).await
    }

    /// However many places cannot be read, the others may be: only a drive that says that it is not
    /// there is given up. One that fails a write or a flush, its store does without.
    fn failed(&self, what: &str, offset_bytes: u64, error: &io::Error) -> Fault {
        let path = self.path.display();
        tracing::warn!(%path, what, offset_bytes, %error, "drive error");
        if matches!(what, "write" | "flush" | "reset zone" | "finish zone") {
            let copy = || {
                error
                    .raw_os_error()
                    .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
            };
            self.first_failure.borrow_mut().get_or_insert_with(|| (what.to_owned(), copy()));
        }
        if is_absent(error) {
            tracing::error!(%path, "the drive is given up until it is opened anew");
            self.calls.give_up();
            return Fault::Gone;
        }
        Fault::Medium
    }
}

impl Drive for FileDrive {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buffer, DriveError> {
        self.geometry.check_range(offset_bytes, length_bytes as u64)?;
        let refuse = |zones: &EmulatedZones| zones.refuse_read(offset_bytes, length_bytes as u64);
        refused(self.emulated_zones().and_then(refuse))?;
        match self.perform(offset_bytes, Action::Read(Buf::take(length_bytes))).await? {
            Action::Read(buf) => Ok(Buffer::adopt(Arc::new(buf))),
            other => unreachable!("a read comes back as a read, not {}", other.name()),
        }
    }

    async fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        durability: Durability,
    ) -> Result<(), DriveError> {
        self.geometry.check_write(offset_bytes, &data)?;
        let length_bytes = data.iter().map(|buffer| buffer.len() as u64).sum();
        let refuse = |zones: &EmulatedZones| zones.refuse_write(offset_bytes, length_bytes);
        refused(self.emulated_zones().and_then(refuse))?;
        let durable = durability == Durability::Durable;
        self.perform(offset_bytes, Action::Gather { data, durable }).await?;
        if let Some(zones) = self.emulated_zones() {
            zones.wrote(offset_bytes, length_bytes);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), DriveError> {
        self.calls.settle_abandoned().await;
        let pointers = self.emulated_zones().map(EmulatedZones::take_changed);
        self.perform(0, Action::Flush).await?;
        Ok(self.write_pointers(pointers.unwrap_or_default()).await?)
    }

    fn is_asleep(&self) -> bool {
        self.standby.as_ref().is_some_and(Standby::is_standing)
    }

    fn zoning(&self) -> Option<Zoning> {
        self.zones.as_ref().map(Zones::zoning)
    }

    async fn report_zones(&self) -> Result<Vec<ZoneState>, DriveError> {
        let Some(zones) = &self.zones else { return Ok(Vec::new()) };
        Ok(self.in_time("report zones", 0, zones.report()).await?)
    }

    async fn reset_zone(&self, offset_bytes: u64) -> Result<(), DriveError> {
        let zones = self.zones.as_ref().ok_or(DriveError::Misuse("the drive has no zones"))?;
        self.in_time("reset zone", offset_bytes, zones.reset(offset_bytes)).await?;
        // Of a file, the room is given back as well.
        let zone_bytes = zones.zoning().zone_bytes;
        match zones.emulated() {
            Some(_) => self.discard(offset_bytes, zone_bytes).await,
            None => Ok(()),
        }
    }

    async fn finish_zone(&self, offset_bytes: u64) -> Result<(), DriveError> {
        let zones = self.zones.as_ref().ok_or(DriveError::Misuse("the drive has no zones"))?;
        Ok(self.in_time("finish zone", offset_bytes, zones.finish(offset_bytes)).await?)
    }

    async fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DriveError> {
        self.geometry.check_range(offset_bytes, length_bytes)?;
        if !self.discards.get() {
            return if self.calls.is_gone() { Err(DriveError::Gone) } else { Ok(()) };
        }
        match self.give_back(offset_bytes, length_bytes).await {
            Err(Fault::Unsupported(error)) => {
                let path = self.path.display();
                tracing::info!(%path, %error, "room that is not needed cannot be given back here");
                self.discards.set(false);
                Ok(())
            }
            outcome => Ok(outcome?),
        }
    }
}

/// What a drive with zones refuses is a bug of whoever asks.
fn refused(why: Option<&'static str>) -> Result<(), DriveError> {
    why.map_or(Ok(()), |why| Err(DriveError::Misuse(why)))
}

/// Why an operation failed.
enum Fault {
    Medium,
    Gone,
    Unsupported(io::Error),
}

impl From<Gone> for Fault {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

impl From<Fault> for DriveError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Medium | Fault::Unsupported(_) => Self::Medium,
            Fault::Gone => Self::Gone,
        }
    }
}

/// Whether the device is not there, rather than unwell.
pub(super) fn is_absent(error: &io::Error) -> bool {
    if error.kind() == io::ErrorKind::NotFound {
        return true;
    }
    let absent = [Errno::NXIO, Errno::NODEV, Errno::NOMEDIUM, Errno::SHUTDOWN, Errno::BADF];
    absent.iter().any(|known| error.raw_os_error() == Some(known.raw_os_error()))
}

fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
        || error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
}
