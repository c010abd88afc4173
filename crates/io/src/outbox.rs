//! What waits to be written to one socket, in order.
//!
//! Headers and small payloads are copied into one contiguous run; large payloads stay in the
//! buffer where they arrived and are shared. One vectored write sends a batch of both:
//!
//! ```text
//! segments:  Run(16+4096+16) | Shared(64 KiB) | Run(16) | Shared(64 KiB) ...
//! ```

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use crate::buffer::Buf;

/// Payloads up to this size are copied: an extra segment costs more than the copy.
pub(crate) const COPY_BYTES_MAX: usize = 32 << 10;

/// Segments per vectored write.
const SLICES_MAX: usize = 64;

/// Capacity of the run that an idle outbox keeps.
const RUN_BYTES_KEPT: usize = 256 << 10;

#[derive(Debug)]
enum Segment {
    /// So many bytes of the run.
    Run(usize),
    /// A part of a shared payload.
    Shared(Arc<Buf>, Range<usize>),
}

/// An ordered queue of bytes for one socket.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    run: Vec<u8>,
    /// Bytes of the run that are written already.
    run_start: usize,
    segments: VecDeque<Segment>,
    len_bytes: usize,
    /// The transport still holds bytes of its own: TLS seals more than the socket takes at once.
    is_unflushed: bool,
}

impl Outbox {
    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.len_bytes
    }

    /// True if nothing waits, here or in the transport.
    pub(crate) fn is_empty(&self) -> bool {
        self.len_bytes == 0 && !self.is_unflushed
    }

    /// Lets `encode` append to the run.
    pub(crate) fn append<T>(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let before = self.run.len();
        let result = encode(&mut self.run);
        self.extend_run(self.run.len() - before);
        result
    }

    /// Appends `range` of a payload, by copy or by reference, whichever is cheaper.
    pub(crate) fn payload(&mut self, buf: &Arc<Buf>, range: Range<usize>) {
        if range.len() <= COPY_BYTES_MAX {
            self.append(|run| run.extend_from_slice(&buf[range]));
        } else {
            self.len_bytes += range.len();
            self.segments.push_back(Segment::Shared(Arc::clone(buf), range));
        }
    }

    /// Appends bytes that lie in a buffer of somebody else's. Many at once go to a buffer of their
    /// own rather than to the run, which would have to grow and shrink with them.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if bytes.len() <= COPY_BYTES_MAX {
            self.append(|run| run.extend_from_slice(bytes));
        } else {
            self.payload(&Arc::new(Buf::copy_of(bytes)), 0..bytes.len());
        }
    }

    /// Forgets everything, as when the connection is lost.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Gives back memory that an idle connection does not need.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            self.run = Vec::new();
        }
    }

    /// Writes until empty or the socket is full.
    pub(crate) fn poll_write(
        &mut self,
        transport: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.len_bytes > 0 {
            self.is_unflushed = true;
            let written = {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let count = self.slices(&mut slices);
                ready!(Pin::new(&mut *transport).poll_write_vectored(cx, &slices[..count]))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.consume(written);
        }
        ready!(Pin::new(&mut *transport).poll_flush(cx))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn extend_run(&mut self, added: usize) {
        self.len_bytes += added;
        match self.segments.back_mut() {
            Some(Segment::Run(len)) => *len += added,
            _ => self.segments.push_back(Segment::Run(added)),
        }
    }

    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut run_at = self.run_start;
        let mut count = 0;
        for (segment, slice) in self.segments.iter().zip(slices) {
            *slice = match segment {
                Segment::Run(len) => {
                    run_at += len;
                    IoSlice::new(&self.run[run_at - len..run_at])
                }
                Segment::Shared(buf, range) => IoSlice::new(&buf[range.clone()]),
            };
            count += 1;
        }
        count
    }

    fn consume(&mut self, mut written: usize) {
        self.len_bytes -= written;
        while written > 0 {
            let segment = self.segments.front_mut().expect("written bytes came from segments");
            let (taken, whole) = match segment {
                Segment::Run(len) => {
                    let taken = written.min(*len);
                    *len -= taken;
                    self.run_start += taken;
                    (taken, *len == 0)
                }
                Segment::Shared(_, range) => {
                    let taken = written.min(range.len());
                    range.start += taken;
                    (taken, range.start == range.end)
                }
            };
            written -= taken;
            if whole {
                self.segments.pop_front();
            }
        }
        if self.len_bytes == 0 {
            self.segments.clear();
        }
        if self.run_start == self.run.len() {
            self.run.clear();
            self.run_start = 0;
            self.run.shrink_to(RUN_BYTES_KEPT);
        } else if self.run_start >= RUN_BYTES_KEPT && self.run_start * 2 >= self.run.len() {
            // A socket that is never quite drained must not keep all that it ever sent.
            self.run.drain(..self.run_start);
            self.run_start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_keep_their_order_over_partial_writes() {
        let mut outbox = Outbox::default();
        let large = Arc::new(Buf::copy_of(&vec![7; COPY_BYTES_MAX + 1]));
        outbox.append(|run| run.extend_from_slice(b"head"));
        outbox.payload(&large, 0..large.len());
        outbox.append(|run| run.extend_from_slice(b"tail"));
        let mut sent = Vec::new();
        for step in [1, 2, 5000, 3].into_iter().cycle() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = outbox.slices(&mut slices);
            let all: Vec<u8> = slices[..count].iter().flat_map(|s| s.iter().copied()).collect();
            let step = step.min(all.len());
            sent.extend_from_slice(&all[..step]);
            outbox.consume(step);
            if outbox.is_empty() {
                break;
            }
        }
        let expected = [&b"head"[..], &large, b"tail"].concat();
        assert_eq!(sent, expected);
        assert_eq!(outbox.len(), 0);
    }

    #[test]
    fn a_socket_that_is_never_quite_drained_does_not_keep_what_it_sent() {
        let mut outbox = Outbox::default();
        let answer = [7; 4096];
        outbox.append(|run| run.extend_from_slice(&answer));
        for _ in 0..10_000 {
            outbox.append(|run| run.extend_from_slice(&answer));
            outbox.consume(answer.len());
        }
        assert_eq!(outbox.len(), answer.len());
        assert!(outbox.run.capacity() <= 4 * RUN_BYTES_KEPT, "{}", outbox.run.capacity());
    }
}
