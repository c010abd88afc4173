//! Doing things to files without blocking the data path.
//!
//! A [`Drive`] takes [`Job`]s and later gives back [`Finished`] ones, with their buffers. It is an
//! `io_uring` where the kernel allows one, and a small pool of threads where not; both are behind
//! the same calls, and one test body holds them to the same behaviour. The decision and its
//! figures are in `docs/decisions`.

pub(crate) mod bell;
mod pool;
mod ring;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use evenkeel_store::Buffer;
use rustix::event::EventfdFlags;

use crate::buffer::Buf;

/// One thing to do. Buffers are owned by the job while it is under way.
#[derive(Debug)]
pub(crate) enum Action {
    /// Fill the buffer from the file.
    Read(Buf),
    /// Put a part of the payload into the file; `durable` before it counts as done.
    Write { data: Arc<Buf>, range: Range<usize>, durable: bool },
    /// Put the buffers into the file, one behind the other; `durable` before it counts as done.
    Gather { data: Vec<Buffer>, durable: bool },
    /// Make what was written durable.
    Flush,
    /// Make a range read as zeroes, giving its space back if `punch`.
    Zero { length: u64, punch: bool },
}

impl Action {
    /// The word for it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Write { .. } | Self::Gather { .. } => "write",
            Self::Flush => "flush",
            Self::Zero { .. } => "zero",
        }
    }
}

/// An action on a file, with the caller's mark.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) action: Action,
    /// Returned untouched.
    pub(crate) mark: u64,
}

/// A job that is over, well or not.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) mark: u64,
    pub(crate) action: Action,
    pub(crate) result: io::Result<()>,
}

/// Buffers that one call of the kernel takes at most (`IOV_MAX`); the rest follows.
const PIECES_MAX: usize = 1024;

/// Does jobs in the background; see the [module](self).
#[derive(Debug)]
pub(crate) enum Drive {
    Ring(Box<ring::Ring>),
    Pool(pool::Pool),
}

/// Which kind of drive to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriveKind {
    /// `io_uring` where the kernel allows it, else threads.
    #[default]
    Best,
    /// Threads.
    Threads,
}

impl Drive {
    /// Makes a drive and the event descriptor that becomes readable when jobs have finished.
    pub(crate) fn new(kind: DriveKind) -> io::Result<(Self, OwnedFd)> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        if kind == DriveKind::Best {
            match ring::Ring::new(&event) {
                Ok(ring) => return Ok((Self::Ring(Box::new(ring)), event)),
                Err(error) => {
                    tracing::info!(%error, "no io_uring here; files are served by threads");
                }
            }
        }
        let pool = pool::Pool::new(event.try_clone()?)?;
        Ok((Self::Pool(pool), event))
    }

    /// Takes a job; it starts at the next [`Drive::submit`] at the latest.
    pub(crate) fn push(&mut self, job: Job) {
        match self {
            Self::Ring(ring) => ring.push(job),
            Self::Pool(pool) => pool.push(job),
        }
    }

    /// Starts what was pushed, with one system call for all of it.
    pub(crate) fn submit(&mut self) {
        match self {
            Self::Ring(ring) => ring.submit(),
            Self::Pool(pool) => pool.submit(),
        }
    }

    /// Moves finished jobs into `finished`.
    pub(crate) fn reap(&mut self, finished: &mut Vec<Finished>) {
        match self {
            Self::Ring(ring) => ring.reap(finished),
            Self::Pool(pool) => pool.reap(finished),
        }
    }
}

/// What is left of buffers of which so many bytes are written already.
fn rest_of(data: &[Buffer], done_bytes: usize) -> impl Iterator<Item = &[u8]> {
    let mut skip = done_bytes;
    let rest = data.iter().filter_map(move |buffer| {
        let from = skip.min(buffer.len());
        skip -= from;
        (from < buffer.len()).then(|| &buffer[from..])
    });
    rest.take(PIECES_MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn run(drive: &mut Drive, event: &OwnedFd, jobs: Vec<Job>) -> Vec<Finished> {
        let expected = jobs.len();
        for job in jobs {
            drive.push(job);
        }
        drive.submit();
        let mut finished = Vec::new();
        while finished.len() < expected {
            drive.reap(&mut finished);
            if finished.len() < expected {
                let mut fds = [rustix::event::PollFd::new(event, rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut fds, None).expect("poll");
                let _ = rustix::io::read(event, &mut [0; 8]);
                drive.submit();
            }
        }
        finished.sort_by_key(|job| job.mark);
        finished
    }

    /// The one body that both kinds of drive must pass.
    fn conformance(kind: DriveKind) {
        let file = Arc::new(tempfile::tempfile().expect("tempfile"));
        file.set_len(1 << 20).expect("set_len");
        let (mut drive, event) = Drive::new(kind).expect("drive");
        let job = |mark, offset, action| Job { file: Arc::clone(&file), offset, action, mark };
        let data = Arc::new(Buf::copy_of(&[7; 8192]));
        let writes = (0..100)
            .map(|mark| {
                let action =
                    Action::Write { data: Arc::clone(&data), range: 0..8192, durable: mark == 99 };
                job(mark, mark * 8192, action)
            })
            .collect();
        assert!(run(&mut drive, &event, writes).iter().all(|job| job.result.is_ok()));
        let zero = job(0, 4096, Action::Zero { length: 8192, punch: true });
        let flush = job(1, 0, Action::Flush);
        assert!(run(&mut drive, &event, vec![zero, flush]).iter().all(|job| job.result.is_ok()));
        let reads = (0..2).map(|mark| job(mark, mark * 8192, Action::Read(Buf::take(8192))));
        for done in run(&mut drive, &event, reads.collect()) {
            let Action::Read(buf) = done.action else { panic!("a read comes back as a read") };
            let expected = if done.mark == 0 { [7, 0] } else { [0, 7] };
            assert_eq!([buf[0], buf[8191]], expected);
        }
        let past_end = job(0, 2 << 20, Action::Read(Buf::take(4096)));
        let failed = run(&mut drive, &event, vec![past_end]);
        assert!(failed[0].result.is_err(), "a read past the end must not look like data");
        assert_eq!(file.metadata().expect("metadata").len(), 1 << 20);
        let mut byte = [0];
        file.read_exact_at(&mut byte, 99 * 8192).expect("read");
        assert_eq!(byte, [7]);
    }

    /// More buffers than the kernel takes at once, of several sizes.
    fn gathers(kind: DriveKind) {
        let file = Arc::new(tempfile::tempfile().expect("tempfile"));
        let (mut drive, event) = Drive::new(kind).expect("drive");
        let pieces = (0..=u8::MAX).cycle().zip((1..8).cycle()).take(3000);
        let pieces = pieces.map(|(byte, length)| vec![byte; length]);
        let expected: Vec<u8> = pieces.clone().flatten().collect();
        let data = pieces.map(|piece| Buffer::copy_of(&piece)).collect();
        let action = Action::Gather { data, durable: true };
        let job = Job { file: Arc::clone(&file), offset: 10, action, mark: 0 };
        assert!(run(&mut drive, &event, vec![job])[0].result.is_ok());
        let mut found = vec![0; expected.len()];
        file.read_exact_at(&mut found, 10).expect("read");
        assert!(found == expected);
    }

    #[test]
    fn the_best_drive_conforms() {
        conformance(DriveKind::Best);
        gathers(DriveKind::Best);
    }

    #[test]
    fn the_thread_pool_conforms() {
        conformance(DriveKind::Threads);
        gathers(DriveKind::Threads);
    }
}
