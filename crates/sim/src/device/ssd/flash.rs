//! The dies and their queues: who may use which plane now, and for how long.
//!
//! A die serves its jobs in the order of arrival. Reads need their plane alone, so that planes read
//! side by side and a read may pass another that waits for its plane; programs, collections and
//! erases need the whole die, and nothing passes them.
//!
//! ```text
//! queue:  read 0 | read 0 | read 1 | program | read 1
//! plane 0 [ read ][ read ]          [program ...]
//! plane 1 [ read ]                  [program ...][ read ]
//! ```
//!
//! What is read crosses the channel afterwards, while the plane goes on; what is programmed crosses
//! it before, while the die waits.

use std::collections::VecDeque;

use evenkeel_core::time::Span;
use serde::Deserialize;

/// Times of the flash, and the rate of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSpec {
    /// Array read of a page (tR).
    pub read_ns: u64,
    /// Program of a page in each plane (tPROG).
    pub program_ns: u64,
    /// Erase of a block in each plane (tBERS).
    pub erase_ns: u64,
    /// Bytes per second between the controller and the dies of a channel.
    pub channel_rate_bytes: u64,
}

impl FlashSpec {
    /// The time of so many array reads in one plane.
    pub fn reads(&self, count: u32) -> Span {
        Span(self.read_ns * u64::from(count))
    }
}

/// What a die is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Read a page, or part of it.
    Read(PageRead),
    /// Write new data.
    Program,
    /// One step of garbage collection.
    Collect,
    /// Erase the victim of garbage collection.
    Erase,
}

/// A read of a page, or part of it, for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRead {
    /// The request's index in the drive's table.
    pub request: u32,
    /// Which plane of the die.
    pub plane: u32,
    /// What crosses the channel.
    pub bytes: u32,
}

/// A die. See the [module](self).
#[derive(Clone, Debug)]
pub struct DieQueue {
    queue: VecDeque<Job>,
    planes_busy: u64,
    whole: Option<Job>,
}

impl DieQueue {
    /// An idle die.
    pub fn new() -> Self {
        Self { queue: VecDeque::new(), planes_busy: 0, whole: None }
    }

    /// Queues a job.
    pub fn push(&mut self, job: Job) {
        self.queue.push_back(job);
    }

    /// Takes out the next job that can start now, and marks what it uses as busy.
    pub fn start(&mut self) -> Option<Job> {
        if self.whole.is_some() {
            return None;
        }
        let planes_busy = self.planes_busy;
        let is_ready = |job: &Job| match job {
            Job::Read(read) => planes_busy & (1 << read.plane) == 0,
            _ => planes_busy == 0,
        };
        let barrier = |job: &&Job| matches!(job, Job::Read(_));
        let reads = self.queue.iter().take_while(barrier).position(is_ready);
        let index = reads.or_else(|| self.queue.front().is_some_and(is_ready).then_some(0))?;
        let job = self.queue.remove(index)?;
        match job {
            Job::Read(read) => self.planes_busy |= 1 << read.plane,
            _ => self.whole = Some(job),
        }
        Some(job)
    }

    /// Notes that a plane has ended its read.
    pub fn end_read(&mut self, plane: u32) {
        self.planes_busy &= !(1 << plane);
    }

    /// Notes that the job of the whole die has ended, and returns it.
    pub fn end_whole(&mut self) -> Job {
        self.whole.take().expect("it was started")
    }
}

impl Default for DieQueue {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_read_side_by_side_and_nothing_passes_a_program() {
        let read = |plane, request| Job::Read(PageRead { request, plane, bytes: 4096 });
        let mut die = DieQueue::new();
        let jobs = [read(0, 1), read(0, 2), read(1, 3), Job::Program, read(1, 4)];
        for job in jobs {
            die.push(job);
        }
        assert_eq!(die.start(), Some(read(0, 1)));
        assert_eq!(die.start(), Some(read(1, 3)), "it passes a read that waits for plane 0");
        assert_eq!(die.start(), None);
        die.end_read(1);
        assert_eq!(die.start(), None, "the read behind the program waits");
        die.end_read(0);
        assert_eq!(die.start(), Some(read(0, 2)));
        die.end_read(0);
        assert_eq!(die.start(), Some(Job::Program));
        assert_eq!(die.start(), None);
        assert_eq!(die.end_whole(), Job::Program);
        assert_eq!(die.start(), Some(read(1, 4)));
    }
}
