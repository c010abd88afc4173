//! A drive for the store that takes its time: content in [`Stamps`], timing from any device model.
//!
//! It has no faults and no power cuts, which are the business of a [`super::Rack`], and in exchange
//! it is cheap: gigabytes of log cost megabytes of memory. Clones are handles to one drive.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_store::buffer::BufferMut;
use evenkeel_store::{Buffer, Drive, DriveError, Durability, Geometry};

use super::stamps::Stamps;
use crate::device::{Device, Op, Outcome, Step};
use crate::executor::Clock;

const BLOCK_BYTES: u32 = 4096;

/// The drive.
#[derive(Clone)]
pub struct TimedDrive {
    clock: Clock,
    geometry: Geometry,
    bay: Rc<RefCell<Bay>>,
}

struct Bay {
    timing: Box<dyn Device>,
    stamps: Stamps,
    next_tag: u32,
    waiting: BTreeMap<u32, Waiting>,
    motor: Option<Waker>,
    /// The earliest instant for which the motor has set a timer that is still to come.
    alarm: Option<Nanos>,
}

enum Waiting {
    For(Option<Waker>),
    Done(Outcome),
}

impl TimedDrive {
    /// A drive of zeroes in the world of this clock; `timing` says how long its commands take.
    pub fn new(clock: &Clock, timing: Box<dyn Device>) -> Self {
        let block = u64::from(BLOCK_BYTES);
        let size_bytes = timing.size_bytes() / block * block;
        let geometry = Geometry { size_bytes, block_bytes: BLOCK_BYTES, atomic_bytes: BLOCK_BYTES };
        let bay = Rc::new(RefCell::new(Bay {
            timing,
            stamps: Stamps::new(),
            next_tag: 0,
            waiting: BTreeMap::new(),
            motor: None,
            alarm: None,
        }));
        let drive = Self { clock: clock.clone(), geometry, bay };
        let motor = drive.clone();
        clock.spawn(poll_fn(move |context| {
            motor.turn(context.waker());
            Poll::Pending
        }));
        drive
    }

    /// Commands that the drive was given and has not answered.
    pub fn queued(&self) -> usize {
        self.bay.borrow().waiting.len()
    }

    /// Gives the drive a command and waits until its time is over.
    async fn spend(&self, kind: Kind, offset: u64, length: u64) -> Result<(), DriveError> {
        let tag = self.submit(kind, offset, length);
        let _claim = Claim { drive: self, tag };
        let outcome = poll_fn(|context| {
            match self.bay.borrow_mut().waiting.get_mut(&tag) {
                Some(Waiting::Done(outcome)) => return Poll::Ready(*outcome),
                Some(Waiting::For(waker)) => *waker = Some(context.waker().clone()),
                None => unreachable!("the claim on the answer still stands"),
            }
            Poll::Pending
        });
        match outcome.await {
            Outcome::Good => Ok(()),
            Outcome::Failed => Err(DriveError::Medium),
        }
    }

    fn submit(&self, kind: Kind, offset: u64, length: u64) -> u32 {
        let bay = &mut *self.bay.borrow_mut();
        let tag = bay.next_tag;
        bay.next_tag = tag.wrapping_add(1);
        bay.timing.submit(self.clock.now(), Op { tag, kind, offset, length });
        bay.waiting.insert(tag, Waiting::For(None));
        bay.motor.iter().for_each(Waker::wake_by_ref);
        tag
    }

    /// Answers what is due, and sets an alarm for what is not.
    fn turn(&self, waker: &Waker) {
        let now = self.clock.now();
        let bay = &mut *self.bay.borrow_mut();
        bay.motor = Some(waker.clone());
        if bay.alarm.is_some_and(|alarm| alarm <= now) {
            bay.alarm = None;
        }
        let next = loop {
            match bay.timing.poll(now) {
                Step::Done { tag, outcome } => bay.answer(tag, outcome),
                Step::WaitUntil(at) => break Some(at),
                Step::Idle => break None,
            }
        };
        if let Some(at) = next
            && bay.alarm.is_none_or(|alarm| alarm > at)
        {
            bay.alarm = Some(at);
            self.clock.wake_at(at, waker.clone());
        }
    }
}

impl Bay {
    fn answer(&mut self, tag: u32, outcome: Outcome) {
        // Whoever has lost interest has taken the claim away.
        if let Some(waiting) = self.waiting.get_mut(&tag)
            && let Waiting::For(Some(waker)) = std::mem::replace(waiting, Waiting::Done(outcome))
        {
            waker.wake();
        }
    }
}

/// Somebody's interest in an answer; dropped with the future that waits for it.
struct Claim<'a> {
    drive: &'a TimedDrive,
    tag: u32,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.drive.bay.borrow_mut().waiting.remove(&self.tag);
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
        self.bay.borrow().stamps.read(offset_bytes / u64::from(BLOCK_BYTES), &mut bytes);
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
            self.bay.borrow_mut().stamps.write(block, buffer);
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
        self.bay.borrow_mut().stamps.discard(offset_bytes / block, count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
