//! A drive on `io_uring`: one system call starts a batch, none is needed to learn of most ends.
//!
//! The ring owns every buffer while the kernel may touch it; dropping the ring waits for what is
//! under way. Short transfers are continued where they stopped.

#![expect(unsafe_code, reason = "the kernel is handed pointers into owned buffers")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

use io_uring::{IoUring, opcode, squeue, types};
use slab::Slab;

use super::{Action, Finished, Job, rest_of};

/// Submission entries; the kernel makes twice as many completion entries, and no more jobs than
/// these are under way at once, so completions cannot overflow.
const ENTRIES: u32 = 256;

/// `RWF_DSYNC`: the write is durable when it completes.
const DSYNC: i32 = 0x2;
/// `FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE`.
const PUNCH_HOLE: i32 = 0x1 | 0x2;
/// `FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE`.
const ZERO_RANGE: i32 = 0x1 | 0x10;

pub(crate) struct Ring {
    queues: IoUring,
    under_way: Slab<UnderWay>,
    waiting: VecDeque<UnderWay>,
    event: OwnedFd,
}

#[derive(Debug)]
struct UnderWay {
    job: Job,
    /// Bytes transferred so far.
    done_bytes: usize,
    /// What the kernel is told of the buffers of a [`Action::Gather`]; it reads this until the
    /// completion.
    pieces: Vec<Piece>,
}

/// A buffer as the kernel wants it: `struct iovec`, whose layout on Linux this is.
#[derive(Debug)]
#[repr(C)]
struct Piece {
    start: *const u8,
    bytes: usize,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} under way, {} waiting)", self.under_way.len(), self.waiting.len())
    }
}

impl Ring {
    pub(super) fn new(event: &OwnedFd) -> io::Result<Self> {
        let queues = IoUring::builder()
            .setup_coop_taskrun()
            .setup_single_issuer()
            .build(ENTRIES)
            .or_else(|_| IoUring::new(ENTRIES))?;
        queues.submitter().register_eventfd(event.as_raw_fd())?;
        Ok(Self {
            queues,
            under_way: Slab::new(),
            waiting: VecDeque::new(),
            event: event.try_clone()?,
        })
    }

    pub(super) fn push(&mut self, job: Job) {
        self.start(UnderWay { job, done_bytes: 0, pieces: Vec::new() });
    }

    fn start(&mut self, next: UnderWay) {
        if self.under_way.len() >= ENTRIES as usize {
            self.waiting.push_back(next);
            return;
        }
        let entry = self.under_way.vacant_entry();
        let mark = entry.key() as u64;
        let next = entry.insert(next);
        let operation = operation(next).user_data(mark);
        // SAFETY: every pointer in the operation leads into a buffer, or a list of buffers on the
        // heap, that `under_way` owns and that neither moves nor is touched until the completion
        // with this mark is reaped; the file is kept open by the job.
        let pushed = unsafe { self.queues.submission().push(&operation) };
        pushed.expect("no more jobs are under way than the ring has entries");
    }

    pub(super) fn submit(&mut self) {
        if self.queues.submission().is_empty() {
            return;
        }
        // Jobs that end while they are submitted are seen by the reap that follows; they need not
        // wake the data path.
        self.queues.completion().disable_eventfd();
        if let Err(error) = self.queues.submit() {
            // Tried again when the event, which this rings, is looked at.
            tracing::debug!(%error, "io_uring submission deferred");
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn reap(&mut self, finished: &mut Vec<Finished>) {
        loop {
            self.take_completions(finished);
            self.submit();
            // Whatever ends after this line wakes the data path; whatever ended before is seen.
            let mut completions = self.queues.completion();
            completions.enable_eventfd();
            fence(Ordering::SeqCst);
            completions.sync();
            if completions.is_empty() {
                return;
            }
        }
    }

    fn take_completions(&mut self, finished: &mut Vec<Finished>) {
        let mut again = Vec::new();
        for completion in self.queues.completion() {
            let index = usize::try_from(completion.user_data()).expect("marks are slab keys");
            let mut under_way = self.under_way.remove(index);
            match progress(&mut under_way, completion.result()) {
                Some(result) => {
                    let Job { action, mark, .. } = under_way.job;
                    finished.push(Finished { mark, action, result });
                }
                None => again.push(under_way),
            }
        }
        for under_way in again {
            self.start(under_way);
        }
        while self.under_way.len() < ENTRIES as usize {
            let Some(next) = self.waiting.pop_front() else { break };
            self.start(next);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.waiting.clear();
        let mut finished = Vec::new();
        while !self.under_way.is_empty() {
            if self.queues.submit_and_wait(1).is_err() {
                // The kernel may still write to these buffers, so they are never given back.
                std::mem::take(&mut self.under_way).into_iter().for_each(std::mem::forget);
                return;
            }
            self.reap(&mut finished);
        }
    }
}

/// What the kernel is asked for, from where a short transfer stopped.
fn operation(under_way: &mut UnderWay) -> squeue::Entry {
    let done = under_way.done_bytes;
    let job = &mut under_way.job;
    let fd = types::Fd(job.file.as_raw_fd());
    let offset = job.offset + done as u64;
    match &mut job.action {
        Action::Read(buf) => {
            let rest = &mut buf[done..];
            opcode::Read::new(fd, rest.as_mut_ptr(), length_of(rest.len())).offset(offset).build()
        }
        Action::Write { data, range, durable } => {
            let rest = &data[range.start + done..range.end];
            let flags = if *durable { DSYNC } else { 0 };
            opcode::Write::new(fd, rest.as_ptr(), length_of(rest.len()))
                .offset(offset)
                .rw_flags(flags)
                .build()
        }
        Action::Gather { data, durable } => {
            let rest = rest_of(data, done);
            under_way.pieces =
                rest.map(|part| Piece { start: part.as_ptr(), bytes: part.len() }).collect();
            let flags = if *durable { DSYNC } else { 0 };
            let count = length_of(under_way.pieces.len());
            opcode::Writev::new(fd, under_way.pieces.as_ptr().cast(), count)
                .offset(offset)
                .rw_flags(flags)
                .build()
        }
        Action::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        Action::Zero { length, punch } => {
            let mode = if *punch { PUNCH_HOLE } else { ZERO_RANGE };
            opcode::Fallocate::new(fd, *length).offset(offset).mode(mode).build()
        }
    }
}

fn length_of(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("payloads are at most 32 MiB")
}

/// Takes in one completion; `None` if the transfer is to go on.
fn progress(under_way: &mut UnderWay, result: i32) -> Option<io::Result<()>> {
    let Ok(bytes) = usize::try_from(result) else {
        let error = io::Error::from_raw_os_error(-result);
        let again = matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock);
        return if again { None } else { Some(Err(error)) };
    };
    let wanted = match &under_way.job.action {
        Action::Read(buf) => buf.len(),
        Action::Write { range, .. } => range.len(),
        Action::Gather { data, .. } => data.iter().map(|buffer| buffer.len()).sum(),
        Action::Flush | Action::Zero { .. } => return Some(Ok(())),
    };
    under_way.done_bytes += bytes;
    if under_way.done_bytes >= wanted {
        Some(Ok(()))
    } else if bytes == 0 {
        Some(Err(io::ErrorKind::UnexpectedEof.into()))
    } else {
        None
    }
}
