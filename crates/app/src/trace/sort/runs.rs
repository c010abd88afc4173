//! Sorted runs on disk, merged level by level.
//!
//! ```text
//! level 0   run run run ..      each as many records as memory may hold
//! level 1   run run ..          each 64 runs of level 0
//! ```
//!
//! A record takes 38 bytes: instant, offset, length, response, source, kind, whether the response
//! is known. Every run is older than those of the levels below it, and of a level the first is the
//! oldest: merging in that order keeps the order of equal instants.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::{Record, SourceId};

use super::merge::Merge;

/// Records of a run: 24 MiB, and half as much while they are sorted.
const RUN_RECORDS: usize = 1 << 19;

/// Runs of a level that become one of the next. With a trillion records less than 256 are open.
const FAN_IN: usize = 64;

/// Bytes of a record on disk.
pub(super) const RECORD_BYTES: u64 = RECORD_LENGTH as u64;

const RECORD_LENGTH: usize = 38;

/// What is read of a run, and written to it, at once.
const BUFFER_BYTES: usize = 32 << 10;

/// Takes records in any order.
pub(super) struct Sorter {
    folder: PathBuf,
    run_records: usize,
    fan_in: usize,
    records: Vec<Record>,
    levels: Vec<Vec<Run>>,
}

impl Sorter {
    /// One that keeps its runs in `folder`.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self::with_bounds(folder, RUN_RECORDS, FAN_IN)
    }

    fn with_bounds(folder: PathBuf, run_records: usize, fan_in: usize) -> Self {
        Self { folder, run_records, fan_in, records: Vec::new(), levels: Vec::new() }
    }

    /// Takes a record.
    ///
    /// # Errors
    /// If a run cannot be written.
    pub(super) fn push(&mut self, record: Record) -> anyhow::Result<()> {
        if self.records.len() == self.run_records {
            self.spill().with_context(|| no_room(&self.folder))?;
        }
        self.records.push(record);
        Ok(())
    }

    /// All records in the order of their instants; those of one instant in the order they came.
    ///
    /// # Errors
    /// If a run cannot be written.
    pub(super) fn finish(mut self) -> anyhow::Result<Sorted> {
        if self.levels.is_empty() {
            self.records.sort_by_key(|record| record.at);
            return Ok(Sorted::InMemory(self.records.into_iter()));
        }
        let merged = self.spill().and_then(|()| {
            self.records = Vec::new();
            Merge::new(self.levels.into_iter().rev().flatten().collect())
        });
        let merged = merged.with_context(|| no_room(&self.folder))?;
        Ok(Sorted::OnDisk { merged, folder: self.folder })
    }

    /// Makes a run of the records in memory.
    fn spill(&mut self) -> io::Result<()> {
        self.records.sort_by_key(|record| record.at);
        let mut run = RunWriter::new(&self.folder)?;
        self.records.drain(..).try_for_each(|record| run.push(&record))?;
        self.add(run.finish()?)
    }

    fn add(&mut self, run: Run) -> io::Result<()> {
        let mut run = run;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(run);
            if self.levels[level].len() < self.fan_in {
                break;
            }
            let mut merged = RunWriter::new(&self.folder)?;
            for record in Merge::new(std::mem::take(&mut self.levels[level]))? {
                merged.push(&record?)?;
            }
            run = merged.finish()?;
        }
        Ok(())
    }
}

fn no_room(folder: &Path) -> String {
    format!(
        "cannot keep what is being sorted in {}; it takes {RECORD_BYTES} bytes a request or twice \
         as much; name another folder by the variable TMPDIR",
        folder.display()
    )
}

/// Records in order.
pub(super) enum Sorted {
    InMemory(std::vec::IntoIter<Record>),
    OnDisk { merged: Merge, folder: PathBuf },
}

impl Iterator for Sorted {
    type Item = anyhow::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::InMemory(records) => records.next().map(Ok),
            Self::OnDisk { merged, folder } => Some(
                merged
                    .next()?
                    .with_context(|| format!("cannot read back from {}", folder.display())),
            ),
        }
    }
}

/// A sorted run.
#[derive(Debug)]
pub(super) struct Run {
    file: BufReader<File>,
    left: u64,
}

impl Run {
    /// The next record.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut bytes = [0; RECORD_LENGTH];
        self.file.read_exact(&mut bytes)?;
        Ok(Some(decode(&bytes)))
    }
}

/// A run that is being written, to a file that nobody else sees.
struct RunWriter {
    file: BufWriter<File>,
    records: u64,
}

impl RunWriter {
    fn new(folder: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        Ok(Self { file: BufWriter::with_capacity(BUFFER_BYTES, file), records: 0 })
    }

    fn push(&mut self, record: &Record) -> io::Result<()> {
        self.records += 1;
        self.file.write_all(&encode(record))
    }

    fn finish(self) -> io::Result<Run> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(Run { file: BufReader::with_capacity(BUFFER_BYTES, file), left: self.records })
    }
}

fn encode(record: &Record) -> [u8; RECORD_LENGTH] {
    let mut bytes = [0; RECORD_LENGTH];
    bytes[0..8].copy_from_slice(&record.at.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&record.offset.to_le_bytes());
    bytes[16..24].copy_from_slice(&record.length.to_le_bytes());
    bytes[24..32].copy_from_slice(&record.response.map_or(0, |it| it.0).to_le_bytes());
    bytes[32..36].copy_from_slice(&record.source.0.to_le_bytes());
    bytes[36] = u8::try_from(record.kind.index()).expect("there are six kinds");
    bytes[37] = u8::from(record.response.is_some());
    bytes
}

fn decode(bytes: &[u8; RECORD_LENGTH]) -> Record {
    let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    Record {
        at: Nanos(eight(0)),
        source: SourceId(u32::from_le_bytes(bytes[32..36].try_into().expect("four"))),
        kind: Kind::ALL[usize::from(bytes[36])],
        offset: eight(8),
        length: eight(16),
        response: (bytes[37] > 0).then_some(Span(eight(24))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(at_ns: u64, number: u64) -> Record {
        Record {
            at: Nanos(at_ns),
            source: SourceId(u32::try_from(number % 7).unwrap()),
            kind: Kind::ALL[(number % 6) as usize],
            offset: number,
            length: u64::MAX - number,
            response: (!number.is_multiple_of(3)).then_some(Span(number)),
        }
    }

    fn sorted(records: &[Record], run_records: usize, fan_in: usize) -> (Vec<Record>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::with_bounds(folder.path().to_path_buf(), run_records, fan_in);
        for record in records {
            sorter.push(*record).unwrap();
        }
        let found = sorter.finish().unwrap();
        let used_disk = matches!(found, Sorted::OnDisk { .. });
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "runs have names");
        (found.map(Result::unwrap).collect(), used_disk)
    }

    proptest! {
        #[test]
        fn runs_of_many_levels_are_sorted_as_in_memory(
            instants in proptest::collection::vec(0_u64..12, 0..200),
            run_records in 1_usize..8,
            fan_in in 2_usize..5,
        ) {
            let records: Vec<_> =
                instants.iter().zip(0_u64..).map(|(at, number)| record(*at, number)).collect();
            let mut expected = records.clone();
            expected.sort_by_key(|record| record.at);
            let (found, used_disk) = sorted(&records, run_records, fan_in);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(used_disk, records.len() > run_records);
        }
    }

    #[test]
    fn a_folder_without_room_is_named_with_another() {
        let mut sorter = Sorter::with_bounds(PathBuf::from("/nowhere/at/all"), 1, 2);
        sorter.push(record(1, 1)).unwrap();
        let error = sorter.push(record(1, 2)).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("/nowhere/at/all") && text.contains("TMPDIR"), "{text}");
    }
}
