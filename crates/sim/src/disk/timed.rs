//! A drive for the store that takes its time: content in [`Stamps`], timing from any device model.
//!
//! It has no faults and no power cuts, which are the business of a [`super::Rack`], and in exchange
//! it is cheap: gigabytes of log cost megabytes of memory. Clones are handles to one drive.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::ticket::Kind;
use evenkeel_store::buffer::BufferMut;
use evenkeel_store::drive::motor::Motor;
use evenkeel_store::{Buffer, Drive, DriveError, Durability, Geometry};

use super::stamps::Stamps;
use crate::device::standby::PowerMeter;
use crate::device::{Device, Outcome};
use crate::executor::Clock;

const BLOCK_BYTES: u32 = 4096;

/// The drive.
#[derive(Clone)]
pub struct TimedDrive {
    geometry: Geometry,
    motor: Motor<Clock>,
    stamps: Rc<RefCell<Stamps>>,
    power: Option<(PowerMeter, Clock)>,
}

impl TimedDrive {
    /// A drive of zeroes in the world of this clock; `timing` says how long its commands take.
    pub fn new(clock: &Clock, timing: Box<dyn Device>) -> Self {
        let block = u64::from(BLOCK_BYTES);
        let size_bytes = timing.size_bytes() / block * block;
        let geometry = Geometry { size_bytes, block_bytes: BLOCK_BYTES, atomic_bytes: BLOCK_BYTES };
        let motor = Motor::new(clock.clone(), timing);
        clock.spawn(motor.clone().run());
        Self { geometry, motor, stamps: Rc::default(), power: None }
    }

    /// The same drive, which knows from this meter whether its spindle stands still.
    #[must_use]
    pub fn with_meter(mut self, clock: &Clock, meter: PowerMeter) -> Self {
        self.power = Some((meter, clock.clone()));
        self
    }

    /// Commands that the drive was given and has not answered.
    pub fn queued(&self) -> usize {
        self.motor.queued()
    }

    /// Gives the drive a command and waits until its time is over.
    async fn spend(&self, kind: Kind, offset: u64, length: u64) -> Result<(), DriveError> {
        match self.motor.spend(kind, offset, length).await {
            Outcome::Good => Ok(()),
            Outcome::Failed => Err(DriveError::Medium),
        }
    }
}

impl Drive for TimedDrive {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buffer, DriveError> {
        self.geometry.check_range(offset_bytes, length_bytes as u64)?;
        self.spend(Kind::Read, offset_bytes, length_bytes as u64).await?;
        let mut bytes = BufferMut::zeroed(length_bytes);
        self.stamps.borrow().read(offset_bytes / u64::from(BLOCK_BYTES), &mut bytes);
        Ok(bytes.freeze())
    }

    async fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        _durability: Durability,
    ) -> Result<(), DriveError> {
        self.geometry.check_write(offset_bytes, &data)?;
        let length_bytes: u64 = data.iter().map(|buffer| buffer.len() as u64).sum();
        self.spend(Kind::Write, offset_bytes, length_bytes).await?;
        let mut block = offset_bytes / u64::from(BLOCK_BYTES);
        for buffer in &data {
            self.stamps.borrow_mut().write(block, buffer);
            block += buffer.len() as u64 / u64::from(BLOCK_BYTES);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), DriveError> {
        self.spend(Kind::Flush, 0, 0).await
    }

    async fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DriveError> {
        self.geometry.check_range(offset_bytes, length_bytes)?;
        self.spend(Kind::Trim, offset_bytes, length_bytes).await?;
        let block = u64::from(BLOCK_BYTES);
        let count = usize::try_from(length_bytes / block).expect("a segment's blocks fit memory");
        self.stamps.borrow_mut().discard(offset_bytes / block, count);
        Ok(())
    }

    fn is_asleep(&self) -> bool {
        self.power.as_ref().is_some_and(|(meter, clock)| meter.is_asleep(clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Nanos;

    use super::*;
    use crate::device::spindle::{Spindle, SpindleSpec};
    use crate::executor::{Executor, Order};

    #[test]
    fn bytes_come_back_when_their_time_is_over() {
        let mut executor = Executor::new(Order::Fair);
        let clock = executor.clock();
        let spindle = Spindle::new(SpindleSpec::of_2013().of_size(1 << 30), 1);
        let drive = TimedDrive::new(&clock, Box::new(spindle));
        let seen = executor.block_on(async move {
            let data = Buffer::copy_of(&[7; 8192]);
            drive.write(0, vec![data.clone()], Durability::Volatile).await.unwrap();
            let written_at = clock.now();
            let read = drive.read(0, 8192).await.unwrap();
            (read == data, written_at, clock.now() > written_at, drive.queued())
        });
        let written_at = Nanos(50_000 + 8192 * 1_000_000_000 / 120_000_000);
        assert_eq!(seen, Ok((true, written_at, true, 0)));
    }
}
