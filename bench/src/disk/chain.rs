//! The store inside of this process, over files of its own.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use evenkeel_core::prng::Prng;
use evenkeel_io::store::{
    DriveModel, FileDrive, OpenDrive, block_on, fresh_nonce, fresh_uuid, open_drives,
};
use evenkeel_sim::device::spindle::{Spindle, SpindleSpec};
use evenkeel_store::{
    Buffer, CreateOptions, Drive, DriveError, Durability, OpenOptions, Store, StoreError, VolumeId,
    create,
};
use tokio::task::{JoinSet, spawn_local};

use super::Sample;
use super::contender::{BLOCK_BYTES, DEPTH};
use crate::cpu;

const VOLUME: VolumeId = VolumeId(0);
const SEGMENT_BYTES: u64 = 4 << 20;
/// Bytes of a write in sequence.
const LARGE_BYTES: usize = 1 << 20;

/// A store that was made; nobody has it open between two measurements.
pub(super) struct Chain {
    paths: Vec<PathBuf>,
    volume_bytes: u64,
    kind: Kind,
}

/// What the files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As fast as this machine's disk.
    Files,
    /// Each as slow as a hard disk of 2013, by the simulator's model.
    EmulatedDisks,
}

/// An open store, and what its clients share.
struct Clients {
    store: Store<FileDrive>,
    data: Buffer,
    prng: RefCell<Prng>,
    blocks: u64,
}

impl Chain {
    /// One copy, and a volume of a quarter of the files, so that cleaning copies next to nothing:
    /// what it costs at other fills is another benchmark's question.
    pub(super) fn create(paths: Vec<PathBuf>, file_bytes: u64, kind: Kind) -> Result<Self> {
        let volume_bytes = file_bytes * paths.len() as u64 / 4;
        let options = CreateOptions {
            store: fresh_uuid()?,
            drives: paths.iter().map(|_| fresh_uuid()).collect::<Result<_, _>>()?,
            copies: 1,
            segment_bytes: SEGMENT_BYTES,
            over_provisioning_percent: 15,
            volume_bytes: vec![volume_bytes],
        };
        let chain = Self { paths, volume_bytes, kind };
        block_on(async {
            create(&chain.files().await?, &options).await.context("cannot make a store")
        })??;
        Ok(chain)
    }

    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    pub(super) fn volume_bytes(&self) -> u64 {
        self.volume_bytes
    }

    /// Writes the whole volume once.
    pub(super) fn fill(&self) -> Result<()> {
        block_on(async {
            let clients = self.open().await?;
            let run = spawn_local(run(Rc::clone(&clients)));
            let data = Buffer::copy_of(&vec![0xa5; LARGE_BYTES]);
            for offset_bytes in (0..self.volume_bytes).step_by(data.len()) {
                let data = data.clone();
                clients.store.write(VOLUME, offset_bytes, data, Durability::Volatile).await?;
            }
            clients.store.close().await?;
            Ok(run.await?)
        })?
    }

    /// Small writes at random places for so long.
    pub(super) fn measure(&self, runtime: Duration) -> Result<Sample> {
        block_on(async {
            let clients = self.open().await?;
            let run = spawn_local(run(Rc::clone(&clients)));
            let (begin, cpu_before) = (Instant::now(), cpu::time_of(std::process::id())?);
            let written = write(&clients, begin + runtime).await?;
            let cpu = cpu::time_of(std::process::id())?.saturating_sub(cpu_before);
            let seconds = begin.elapsed().as_secs_f64();
            let telemetry = clients.store.status().telemetry;
            clients.store.close().await?;
            run.await?;
            let bytes = written as f64 * f64::from(BLOCK_BYTES);
            Ok(Sample {
                bytes_per_second: bytes / seconds,
                cpu_us_per_block: Some(cpu.as_secs_f64() * 1e6 / written as f64),
                amplification: Some(telemetry.drive_written_bytes as f64 / bytes),
            })
        })?
    }

    async fn open(&self) -> Result<Rc<Clients>> {
        let drives = self.drives().await?;
        let store = Store::open(drives, OpenOptions::new(fresh_nonce()?)).await?;
        Ok(Rc::new(Clients {
            store,
            data: Buffer::copy_of(&[0x5a; BLOCK_BYTES as usize]),
            prng: RefCell::new(Prng::new(1)),
            blocks: self.volume_bytes / u64::from(BLOCK_BYTES),
        }))
    }

    async fn files(&self) -> Result<Vec<FileDrive>> {
        Ok(open_drives(&self.paths, &OpenDrive::default()).await?)
    }

    /// The files, as slow as they are to be.
    async fn drives(&self) -> Result<Vec<FileDrive>> {
        let files = self.files().await?;
        match self.kind {
            Kind::Files => Ok(files),
            Kind::EmulatedDisks => (0..).zip(files).map(|(seed, file)| disk(file, seed)).collect(),
        }
    }
}

fn disk(file: FileDrive, seed: u64) -> Result<FileDrive> {
    let spec = SpindleSpec::of_2013().of_size(file.geometry().size_bytes);
    let spin_up = Duration::from_nanos(spec.power.spin_up_ns);
    let device = Box::new(Spindle::new(spec, seed));
    Ok(file.emulate(DriveModel { device, spin_up })?)
}

/// Large writes in sequence for so long, to a file that is as slow as a hard disk.
pub(super) fn measure_in_sequence(path: &Path, runtime: Duration) -> Result<Sample> {
    block_on(async {
        let drive = disk(FileDrive::open(path, &OpenDrive::default()).await?, 0)?;
        let data = Buffer::copy_of(&vec![0x5a; LARGE_BYTES]);
        let large = LARGE_BYTES as u64;
        let places = drive.geometry().size_bytes / large;
        let (begin, next) = (Instant::now(), Cell::new(0));
        let writer = async || {
            while begin.elapsed() < runtime {
                let place = next.replace(next.get() + 1) % places;
                drive.write(place * large, vec![data.clone()], Durability::Volatile).await?;
            }
            Ok::<_, DriveError>(())
        };
        tokio::try_join!(writer(), writer(), writer(), writer())?;
        let bytes_per_second = (next.get() * large) as f64 / begin.elapsed().as_secs_f64();
        Ok(Sample { bytes_per_second, cpu_us_per_block: None, amplification: None })
    })?
}

async fn run(clients: Rc<Clients>) {
    clients.store.run().await;
}

/// Lets all clients write until that moment; how many writes they made.
async fn write(clients: &Rc<Clients>, until: Instant) -> Result<u64> {
    let mut working = JoinSet::new();
    for _ in 0..DEPTH {
        working.spawn_local(client(Rc::clone(clients), until));
    }
    let mut written = 0;
    while let Some(ended) = working.join_next().await {
        written += ended??;
    }
    Ok(written)
}

async fn client(clients: Rc<Clients>, until: Instant) -> Result<u64, StoreError> {
    let mut written = 0;
    while Instant::now() < until {
        let block = clients.prng.borrow_mut().next_u64() % clients.blocks;
        let (offset_bytes, data) = (block * u64::from(BLOCK_BYTES), clients.data.clone());
        clients.store.write(VOLUME, offset_bytes, data, Durability::Volatile).await?;
        written += 1;
    }
    Ok(written)
}
