//! A drive of a rack, with the face that the store knows.
//!
//! The store's contract is held from this side too: a range that no drive has, or two commands
//! under way together whose order would matter, is a bug of the store and ends the run with a
//! panic. A drive that does not answer within its patience is given up, for good.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use evenkeel_core::time::Span;
use evenkeel_store::{Buffer, Drive, DriveError, Durability, Geometry, ZoneState, Zoning};

use super::command::{Answer, Command, DiskError};
use super::rack::{BayId, Rack};

/// What the store is told of the drive, and how long the drive may be silent.
#[derive(Clone, Copy, Debug)]
pub struct SimDriveOptions {
    /// Unit of addressing: 512 or 4096.
    pub block_bytes: u32,
    /// What a power cut does not tear: 512 or 4096. Whoever cuts the power keeps to it.
    pub atomic_bytes: u32,
    /// After so long without an answer the drive counts as gone; without, it is waited for.
    pub patience: Option<Span>,
}

impl Default for SimDriveOptions {
    fn default() -> Self {
        Self { block_bytes: 512, atomic_bytes: 512, patience: None }
    }
}

/// A drive for the store.
#[derive(Clone)]
pub struct SimDrive {
    rack: Rack,
    bay: BayId,
    geometry: Geometry,
    patience: Option<Span>,
    is_given_up: Rc<Cell<bool>>,
}

impl SimDrive {
    /// Opens the drive in a bay.
    pub fn open(rack: &Rack, bay: BayId, options: SimDriveOptions) -> Self {
        let SimDriveOptions { block_bytes, atomic_bytes, patience } = options;
        let size_bytes = rack.with_disk(bay, |disk| disk.size_bytes());
        let geometry = Geometry { size_bytes, block_bytes, atomic_bytes };
        Self { rack: rack.clone(), bay, geometry, patience, is_given_up: Rc::default() }
    }

    async fn execute(&self, command: Command) -> Result<Vec<u8>, DriveError> {
        if self.is_given_up.get() {
            return Err(DriveError::Gone);
        }
        let conflicts = self.rack.with_disk(self.bay, |disk| disk.conflicts(&command));
        assert!(!conflicts, "the store has {command:?} under way together with its like");
        let answer = match self.patience {
            None => Some(self.rack.execute(self.bay, command).await),
            Some(patience) => self.with_patience(command, patience).await,
        };
        let error = match answer {
            Some(Ok(bytes)) => return Ok(bytes),
            Some(Err(DiskError::Failed | DiskError::Unreadable { .. })) => DriveError::Medium,
            Some(Err(DiskError::Refused(why))) => DriveError::Misuse(why),
            Some(Err(DiskError::Gone)) | None => DriveError::Gone,
        };
        if error == DriveError::Gone {
            self.is_given_up.set(true);
        }
        Err(error)
    }

    /// The answer, or none in time.
    async fn with_patience(&self, command: Command, patience: Span) -> Option<Answer> {
        let mut answer = pin!(self.rack.execute(self.bay, command));
        let mut deadline = pin!(self.rack.clock().sleep(patience));
        poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            deadline.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

/// What the store asks is what a drive can do, or the store is wrong.
fn held<T>(checked: Result<T, DriveError>) -> T {
    checked.expect("the store keeps to the contract of drives")
}

impl Drive for SimDrive {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buffer, DriveError> {
        let length = length_bytes as u64;
        held(self.geometry.check_range(offset_bytes, length));
        let command = Command::Read { offset: offset_bytes, length_bytes: length };
        Ok(Buffer::copy_of(&self.execute(command).await?))
    }

    async fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        durability: Durability,
    ) -> Result<(), DriveError> {
        held(self.geometry.check_write(offset_bytes, &data));
        let pieces: Vec<&[u8]> = data.iter().map(|buffer| &buffer[..]).collect();
        let bytes: Arc<[u8]> = pieces.concat().into();
        let fua = durability == Durability::Durable;
        self.execute(Command::Write { offset: offset_bytes, bytes, fua }).await.map(drop)
    }

    async fn flush(&self) -> Result<(), DriveError> {
        self.execute(Command::Flush).await.map(drop)
    }

    async fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DriveError> {
        held(self.geometry.check_range(offset_bytes, length_bytes));
        let command = Command::Discard { offset: offset_bytes, length_bytes };
        self.execute(command).await.map(drop)
    }

    fn zoning(&self) -> Option<Zoning> {
        self.rack.with_disk(self.bay, |disk| disk.zoning())
    }

    async fn report_zones(&self) -> Result<Vec<ZoneState>, DriveError> {
        let report =
            self.rack.with_disk(self.bay, |disk| (!disk.is_gone()).then(|| disk.report_zones()));
        report.filter(|_| !self.is_given_up.get()).ok_or(DriveError::Gone)
    }

    async fn reset_zone(&self, offset: u64) -> Result<(), DriveError> {
        let length_bytes = self.zoning().expect("the store looked").zone_bytes;
        self.execute(Command::ResetZone { offset, length_bytes }).await.map(drop)
    }

    async fn finish_zone(&self, offset: u64) -> Result<(), DriveError> {
        let length_bytes = self.zoning().expect("the store looked").zone_bytes;
        self.execute(Command::FinishZone { offset, length_bytes }).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CommandId, CrashDisk, Fate, Fault, FaultPlan, Jitter, JitterOptions, Stall};
    use crate::executor::{Executor, Order, Stopped};

    const SIZE_BYTES: u64 = 1 << 20;

    /// A world with one drive.
    fn world(faults: FaultPlan, options: SimDriveOptions) -> (Executor, Rack, SimDrive) {
        let executor = Executor::new(Order::Fair);
        let rack = Rack::new(executor.clock());
        let disk = CrashDisk::new(SIZE_BYTES).with_faults(faults);
        let timing = Jitter::new(JitterOptions::default(), SIZE_BYTES, 1);
        let bay = rack.install(disk, Box::new(timing));
        let drive = SimDrive::open(&rack, bay, options);
        (executor, rack, drive)
    }

    fn page(byte: u8) -> Vec<Buffer> {
        vec![Buffer::copy_of(&[byte; 4096])]
    }

    #[test]
    fn what_was_written_is_read_and_takes_time() {
        let (mut executor, rack, drive) = world(FaultPlan::default(), SimDriveOptions::default());
        let seen = executor.block_on(async move {
            drive.write(4096, page(7), Durability::Durable).await?;
            drive.flush().await?;
            drive.read(4096, 4096).await
        });
        assert_eq!(seen.unwrap().unwrap()[..3], [7, 7, 7]);
        assert_eq!(rack.commands(), 3);
        assert!(rack.clock().now() > evenkeel_core::time::Nanos(60_000));
    }

    #[test]
    fn the_world_stops_at_the_chosen_command_which_is_then_under_way() {
        let (mut executor, rack, drive) = world(FaultPlan::default(), SimDriveOptions::default());
        rack.cut_after(Some(3));
        let end = executor.block_on(async move {
            for byte in 1..9 {
                drive.write(u64::from(byte) * 4096, page(byte), Durability::Durable).await.unwrap();
            }
        });
        assert_eq!((end, rack.commands()), (Err(Stopped::Halted), 3));
        let disk = rack.disks().remove(0);
        let unflushed = disk.unflushed();
        assert_eq!(unflushed.len(), 1);
        assert!(unflushed[0].in_flight && unflushed[0].offset == 3 * 4096);
    }

    #[test]
    fn a_silent_drive_is_given_up_and_a_slow_one_waited_for() {
        let options = SimDriveOptions { patience: Some(Span::from_secs(1)), ..Default::default() };
        for (stall, expected) in [
            (Stall::Forever, Err(DriveError::Gone)),
            (Stall::For(Span::from_secs(5)), Err(DriveError::Gone)),
            (Stall::For(Span::from_millis(500)), Ok(())),
        ] {
            let plan = FaultPlan::default().with(CommandId(0), Fault::Stuck(stall));
            let (mut executor, _rack, drive) = world(plan, options);
            let again = drive.clone();
            let outcomes = executor.block_on(async move {
                let first = drive.write(0, page(1), Durability::Volatile).await;
                (first, again.flush().await)
            });
            assert_eq!(outcomes, Ok((expected, expected)));
        }
    }

    #[test]
    fn a_drive_that_vanished_is_gone_for_whoever_had_it_open() {
        let (mut executor, rack, drive) = world(FaultPlan::default(), SimDriveOptions::default());
        let (one, back) = (drive.clone(), rack.clone());
        let outcomes = executor.block_on(async move {
            back.with_disk(BayId(0), |disk| disk.detach(|_| Fate::Lost));
            let away = one.flush().await;
            back.with_disk(BayId(0), CrashDisk::attach);
            let anew = SimDrive::open(&back, BayId(0), SimDriveOptions::default());
            (away, one.flush().await, anew.flush().await)
        });
        let gone = Err(DriveError::Gone);
        assert_eq!(outcomes, Ok((gone, gone, Ok(()))));
    }
}
