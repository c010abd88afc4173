//! Who writes, and how.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::chain::{self, Chain, Kind};
use super::{DRIVES, Sample, make_file};
use crate::gate::Gate;
use crate::matrix::{Direction, Pattern, Transport, Workload};
use crate::peers;
use crate::server::{Address, EXPORT};
use crate::workload::{self, Generator, Load};

/// Small writes under way at once.
pub(super) const DEPTH: u32 = 32;
/// Bytes of a small write.
pub(super) const BLOCK_BYTES: u32 = 4096;

/// One way to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Contender {
    /// fio, 1 MiB at a time, 8 under way: what the disk can do in sequence.
    Sequential,
    /// fio, in sequence, with as many bytes under way as small writes have, in one write: more
    /// than that no log can make of so few.
    InOne,
    /// fio, in sequence, with as many bytes under way as small writes have, in small writes.
    SmallSequential,
    /// fio, small writes at random places of a plain file.
    Random,
    /// The store in this process, small writes at random.
    Store,
    /// The same behind a gate, from fio's NBD engine.
    Gate,
    /// This process, 1 MiB at a time, 4 under way, to a file that is as slow as a hard disk.
    EmulatedSequential,
    /// The store in this process, small writes at random, over files as slow as hard disks.
    EmulatedStore,
}

impl Contender {
    pub(super) const ALL: [Self; 8] = [
        Self::Sequential,
        Self::InOne,
        Self::SmallSequential,
        Self::Random,
        Self::Store,
        Self::Gate,
        Self::EmulatedSequential,
        Self::EmulatedStore,
    ];

    pub(super) fn needs_fio(self) -> bool {
        !matches!(self, Self::Store | Self::EmulatedSequential | Self::EmulatedStore)
    }

    /// Whose rate in sequence it is held against.
    pub(super) fn reference(self) -> Self {
        match self {
            Self::EmulatedSequential | Self::EmulatedStore => Self::EmulatedSequential,
            _ => Self::Sequential,
        }
    }

    /// Whether an aim is judged by it.
    pub(super) fn has_aim(self) -> bool {
        matches!(self, Self::Store | Self::EmulatedStore)
    }

    /// What fio is told, for those on a plain file.
    fn on_file(self) -> Option<[&'static str; 3]> {
        match self {
            Self::Sequential => Some(["--rw=write", "--bs=1m", "--iodepth=8"]),
            Self::InOne => Some(["--rw=write", "--bs=128k", "--iodepth=1"]),
            Self::SmallSequential => Some(["--rw=write", "--bs=4k", "--iodepth=32"]),
            Self::Random => Some(["--rw=randwrite", "--bs=4k", "--iodepth=32"]),
            _ => None,
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sequential => "file, 1 MiB in sequence, depth 8",
            Self::InOne => "file, 128 KiB in sequence, depth 1",
            Self::SmallSequential => "file, 4 KiB in sequence, depth 32",
            Self::Random => "file, 4 KiB at random, depth 32",
            Self::Store => "store, 4 KiB at random, depth 32",
            Self::Gate => "gate over a store, 4 KiB at random, depth 32",
            Self::EmulatedSequential => "EMULATED disk, 1 MiB in sequence, depth 4",
            Self::EmulatedStore => "store on EMULATED disks, 4 KiB at random",
        })
    }
}

/// The files, and the gate that runs meanwhile.
pub(super) struct Bench {
    folder: PathBuf,
    runtime: Duration,
    file: PathBuf,
    chain: Chain,
    gate: Gate,
    emulated: Chain,
}

impl Bench {
    /// Makes the files, writes each store's volume once, and starts the gate.
    pub(super) fn start(
        folder: &Path,
        file_bytes: u64,
        runtime: Duration,
        evenkeel: &Path,
    ) -> Result<Self> {
        let file = folder.join("file");
        make_file(&file, file_bytes)?;
        let chain = |name, kind| chain_of(folder, name, file_bytes, kind);
        let served = chain("served", Kind::Files)?;
        Ok(Self {
            folder: folder.to_path_buf(),
            runtime,
            file,
            chain: chain("store", Kind::Files)?,
            gate: gate(folder, evenkeel, &served)?,
            emulated: chain("emulated", Kind::EmulatedDisks)?,
        })
    }

    /// Lets one contender write for its time.
    pub(super) fn measure(&self, contender: Contender) -> Result<Sample> {
        match contender.on_file() {
            Some(how) => self.fio_on_file(how),
            None => match contender {
                Contender::Gate => self.fio_on_gate(),
                Contender::EmulatedStore => self.emulated.measure(self.runtime),
                Contender::EmulatedSequential => {
                    chain::measure_in_sequence(&self.file, self.runtime)
                }
                _ => self.chain.measure(self.runtime),
            },
        }
    }

    fn fio_on_file(&self, how: [&str; 3]) -> Result<Sample> {
        let mut command = Command::new(fio()?);
        command.args(["--name=bench", "--output-format=json", "--eta=never", "--time_based"]);
        command.args(["--ioengine=libaio", "--direct=1", "--norandommap"]).args(how);
        command.arg(format!("--filename={}", self.file.display()));
        command.arg(format!("--runtime={}ms", self.runtime.as_millis()));
        let text = workload::run(&mut command, self.runtime + workload::PATIENCE, &self.folder)?;
        let outcome = workload::outcome(&text, Direction::Write)?;
        let bytes_per_second = outcome.bytes_per_second;
        Ok(Sample { bytes_per_second, cpu_us_per_block: None, amplification: None })
    }

    fn fio_on_gate(&self) -> Result<Sample> {
        let load = Load {
            target: self.gate.address(),
            workload: Workload {
                direction: Direction::Write,
                pattern: Pattern::Random,
                size_bytes: BLOCK_BYTES,
                depth: DEPTH,
            },
            connections: 1,
            runtime: self.runtime,
            size_bytes: self.chain.volume_bytes(),
        };
        let before = self.gate.cpu()?;
        let outcome = Generator::Fio(fio()?)
            .run(&load, &self.folder)
            .with_context(|| format!("the gate wrote last:{}", self.gate.last_words()))?;
        let used = self.gate.cpu()?.saturating_sub(before);
        Ok(Sample {
            bytes_per_second: outcome.bytes_per_second,
            cpu_us_per_block: Some(used.as_secs_f64() * 1e6 / outcome.requests as f64),
            amplification: None,
        })
    }
}

fn fio() -> Result<PathBuf> {
    peers::find("fio").context("fio is missing; `cargo xtask setup` installs it")
}

fn chain_of(folder: &Path, name: &str, file_bytes: u64, kind: Kind) -> Result<Chain> {
    let paths: Vec<_> = (0..DRIVES).map(|index| folder.join(format!("{name}-{index}"))).collect();
    for path in &paths {
        make_file(path, file_bytes)?;
    }
    let chain = Chain::create(paths, file_bytes, kind)?;
    chain.fill()?;
    Ok(chain)
}

fn gate(folder: &Path, evenkeel: &Path, chain: &Chain) -> Result<Gate> {
    let address = Address::new(Transport::Unix, folder)?;
    let Address::Unix(socket) = &address else { unreachable!("it was asked for") };
    let drives: Vec<_> =
        chain.paths().iter().map(|path| format!("\"{}\"", path.display())).collect();
    let text = format!(
        "mode = \"enforce\"\nlisten = [\"unix:{}\"]\n\n\
         [[backend]]\nname = \"log\"\nstore = [{}]\n\n\
         [[export]]\nname = \"{EXPORT}\"\nbackend = \"log\"\n\n\
         [[tenant]]\nname = \"measured\"\nmatch = {{ export = \"{EXPORT}\" }}\n",
        socket.display(),
        drives.join(", ")
    );
    Gate::start(evenkeel, address, folder, &text)
}
