//! Several drives that the store takes for one: stripes over columns, each column of one drive or
//! of mirrors.
//!
//! ```text
//! stripe unit   0  1  2  3  4  5 ..
//! column        0  1  2  0  1  2 ..     a column of two drives writes to both and reads from the
//!                                       one with the shorter queue
//! ```
//!
//! A log laid on such a drive is the log+RAID 0 (one drive per column) and log+RAID 10 (two) that
//! the chain is compared with, run by the same store.

use evenkeel_store::buffer::BufferMut;
use evenkeel_store::{Buffer, Drive, DriveError, Durability, Geometry};

use super::timed::TimedDrive;

/// The drives as one.
#[derive(Clone)]
pub struct StripedDrive {
    columns: Vec<Vec<TimedDrive>>,
    unit_bytes: u64,
}

/// What a request is on one column: a range without gaps, in pieces of the request.
struct Share {
    column: usize,
    offset: u64,
    /// Ranges of the request, in the order of the column.
    pieces: Vec<std::ops::Range<u64>>,
}

impl StripedDrive {
    /// Stripes of `unit_bytes` over the columns; there is at least one column, all of drives of one
    /// size, and the unit is of whole blocks.
    pub fn new(columns: Vec<Vec<TimedDrive>>, unit_bytes: u64) -> Self {
        assert!(columns.iter().all(|column| !column.is_empty()), "every column has a drive");
        Self { columns, unit_bytes }
    }

    /// One drive, as it is.
    pub fn single(drive: TimedDrive) -> Self {
        Self::new(vec![vec![drive]], 1 << 16)
    }

    fn shares(&self, offset: u64, length: u64) -> Vec<Share> {
        let columns = self.columns.len() as u64;
        let mut shares: Vec<Share> = Vec::new();
        let mut at = offset;
        while at < offset + length {
            let unit = at / self.unit_bytes;
            let end = ((unit + 1) * self.unit_bytes).min(offset + length);
            let column = usize::try_from(unit % columns).expect("columns are few");
            let piece = at - offset..end - offset;
            if let Some(share) = shares.iter_mut().find(|share| share.column == column) {
                share.pieces.push(piece);
            } else {
                let offset = unit / columns * self.unit_bytes + at % self.unit_bytes;
                shares.push(Share { column, offset, pieces: vec![piece] });
            }
            at = end;
        }
        shares
    }

    async fn read_share(&self, share: &Share) -> Result<Buffer, DriveError> {
        let mirrors = &self.columns[share.column];
        let drive = mirrors.iter().min_by_key(|drive| drive.queued()).expect("a column has drives");
        drive.read(share.offset, index(share.length())).await
    }

    async fn write_share(&self, share: &Share, data: &[Buffer]) -> Result<(), DriveError> {
        let pieces: Vec<Buffer> =
            share.pieces.iter().flat_map(|piece| parts(data, piece)).collect();
        let mirrors = self.columns[share.column].iter();
        let writes =
            mirrors.map(|drive| drive.write(share.offset, pieces.clone(), Durability::Volatile));
        together(writes).await
    }
}

impl Share {
    fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.end - piece.start).sum()
    }
}

/// A range of several buffers, as parts of them.
fn parts(data: &[Buffer], range: &std::ops::Range<u64>) -> Vec<Buffer> {
    let mut parts = Vec::new();
    let mut start = 0;
    for buffer in data {
        let end = start + buffer.len() as u64;
        let (from, to) = (range.start.max(start), range.end.min(end));
        if from < to {
            parts.push(buffer.slice(index(from - start)..index(to - start)));
        }
        start = end;
    }
    parts
}

/// Does all at once; gives the first failure.
async fn together(
    futures: impl Iterator<Item = impl Future<Output = Result<(), DriveError>>>,
) -> Result<(), DriveError> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_done = true;
        for (future, outcome) in &mut futures {
            if outcome.is_none()
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *outcome = Some(ready);
            }
            is_done &= outcome.is_some();
        }
        if is_done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(|(_, outcome)| outcome).collect()
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a request fits memory")
}

impl Drive for StripedDrive {
    fn geometry(&self) -> Geometry {
        let one = self.columns[0][0].geometry();
        let whole_units = one.size_bytes / self.unit_bytes * self.unit_bytes;
        let size_bytes = match self.columns.len() {
            1 => one.size_bytes,
            columns => whole_units * columns as u64,
        };
        Geometry { size_bytes, ..one }
    }

    fn is_asleep(&self) -> bool {
        self.columns.iter().all(|mirrors| mirrors.iter().all(Drive::is_asleep))
    }

    async fn read(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buffer, DriveError> {
        self.geometry().check_range(offset_bytes, length_bytes as u64)?;
        let shares = self.shares(offset_bytes, length_bytes as u64);
        if let [share] = &shares[..] {
            return self.read_share(share).await;
        }
        let whole = std::cell::RefCell::new(BufferMut::zeroed(length_bytes));
        together(shares.iter().map(|share| async {
            let data = self.read_share(share).await?;
            let mut done = 0;
            for piece in &share.pieces {
                let length = index(piece.end - piece.start);
                let target = index(piece.start)..index(piece.end);
                whole.borrow_mut()[target].copy_from_slice(&data[done..done + length]);
                done += length;
            }
            Ok(())
        }))
        .await?;
        Ok(whole.into_inner().freeze())
    }

    async fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        _durability: Durability,
    ) -> Result<(), DriveError> {
        self.geometry().check_write(offset_bytes, &data)?;
        let length: u64 = data.iter().map(|buffer| buffer.len() as u64).sum();
        let shares = self.shares(offset_bytes, length);
        together(shares.iter().map(|share| self.write_share(share, &data))).await
    }

    async fn flush(&self) -> Result<(), DriveError> {
        together(self.columns.iter().flatten().map(Drive::flush)).await
    }

    async fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DriveError> {
        self.geometry().check_range(offset_bytes, length_bytes)?;
        let shares = self.shares(offset_bytes, length_bytes);
        let discards = shares.iter().flat_map(|share| {
            let mirrors = self.columns[share.column].iter();
            mirrors.map(|drive| drive.discard(share.offset, share.length()))
        });
        together(discards).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::spindle::{Spindle, SpindleSpec};
    use crate::executor::{Executor, Order};

    #[test]
    fn stripes_of_mirrors_give_back_what_was_written_from_either_copy() {
        let mut executor = Executor::new(Order::Fair);
        let clock = executor.clock();
        let drive = |seed| {
            let spindle = Spindle::new(SpindleSpec::of_2013().of_size(1 << 20), seed);
            TimedDrive::new(&clock, Box::new(spindle))
        };
        let columns: Vec<Vec<TimedDrive>> =
            (0..3).map(|column| vec![drive(2 * column), drive(2 * column + 1)]).collect();
        let array = StripedDrive::new(columns.clone(), 8192);
        assert_eq!(array.geometry().size_bytes, 3 << 20);
        let bytes: Vec<u8> = (0..=u8::MAX).flat_map(|byte| [byte; 160]).collect();
        let written = bytes.clone();
        let read = executor.block_on(async move {
            let data = Buffer::copy_of(&written);
            let data = vec![data.slice(0..4096), data.slice(4096..40_960)];
            array.write(4096, data, Durability::Volatile).await.unwrap();
            let whole = array.read(4096, 40_960).await.unwrap();
            let part = array.read(12_288, 4096).await.unwrap();
            let mirror = columns[1][1].read(0, 8192).await.unwrap();
            (whole, part, mirror)
        });
        let (whole, part, mirror) = read.unwrap();
        assert_eq!(*whole, bytes[..]);
        assert_eq!(*part, bytes[8192..12_288]);
        assert_eq!(*mirror, bytes[4096..12_288], "the second unit");
    }
}
