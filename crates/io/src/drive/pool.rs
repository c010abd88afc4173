//! A drive of threads, for kernels and containers that forbid `io_uring`.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use evenkeel_store::Buffer;
use rustix::fs::FallocateFlags;

use super::{Action, Finished, Job, rest_of};

/// Threads per drive: enough to keep a disk's own queue busy.
const THREADS: usize = 8;

#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    finished: Mutex<Vec<Finished>>,
    event: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// A worker that panicked leaves plain data behind; going on is safe.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(super) fn new(event: OwnedFd) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            finished: Mutex::default(),
            event,
        });
        let threads = (0..THREADS)
            .map(|index| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("drive-{index}"))
                    .spawn(move || shared.work())
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { shared, threads })
    }

    pub(super) fn push(&mut self, job: Job) {
        lock(&self.shared.queue).jobs.push_back(job);
        self.shared.work.notify_one();
    }

    /// Workers start by themselves.
    #[expect(clippy::unused_self, reason = "same calls as the ring")]
    pub(super) fn submit(&mut self) {}

    pub(super) fn reap(&mut self, finished: &mut Vec<Finished>) {
        finished.append(&mut lock(&self.shared.finished));
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.next() {
            let Job { file, offset, mut action, mark } = job;
            let result = perform(&file, offset, &mut action);
            lock(&self.finished).push(Finished { mark, action, result });
            // The counter cannot overflow: the data path reads it back to zero.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn perform(file: &std::fs::File, offset: u64, action: &mut Action) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    match action {
        Action::Read(buf) => file.read_exact_at(buf, offset),
        Action::Write { data, range, durable } => {
            file.write_all_at(&data[range.clone()], offset)?;
            if *durable { file.sync_data() } else { Ok(()) }
        }
        Action::Gather { data, durable } => {
            gather(file, offset, data)?;
            if *durable { file.sync_data() } else { Ok(()) }
        }
        Action::Flush => file.sync_data(),
        Action::Zero { length, punch } => zero(file, offset, *length, *punch),
    }
}

fn gather(file: &std::fs::File, offset: u64, data: &[Buffer]) -> io::Result<()> {
    let mut done_bytes = 0;
    loop {
        let pieces: Vec<IoSlice<'_>> = rest_of(data, done_bytes).map(IoSlice::new).collect();
        if pieces.is_empty() {
            return Ok(());
        }
        match rustix::io::pwritev(file, &pieces, offset + done_bytes as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done_bytes += written,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn zero(file: &std::fs::File, offset: u64, length: u64, punch: bool) -> io::Result<()> {
    let how = if punch { FallocateFlags::PUNCH_HOLE } else { FallocateFlags::ZERO_RANGE };
    Ok(rustix::fs::fallocate(file, how | FallocateFlags::KEEP_SIZE, offset, length)?)
}
