//! Four servers with a rate each, twice: for those who ask them directly, and for a gate with a
//! volume over them.
//!
//! Not the same four for both: what is written to them directly would destroy the volume.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Contender, SERVERS, Sample};
use crate::gate::{Gate, upstream};
use crate::matrix::{Transport, Workload};
use crate::peers::memory_server;
use crate::server::{Address, EXPORT, Server};
use crate::workload::{Generator, Load, Outcome, write_once};

/// What of each server is written to and read, and as much of the volume for each: objects enough
/// that one more or less on a server hardly counts.
const PART_BYTES: u64 = 512 << 20;
const SMOKE_PART_BYTES: u64 = 16 << 20;

/// Everything that runs meanwhile.
pub(super) struct Stage {
    part_bytes: u64,
    servers: Vec<(Server, PathBuf)>,
    /// The gate's servers: they are never asked by anybody else.
    _below: Vec<Server>,
    gate: Gate,
    folder: PathBuf,
}

impl Stage {
    /// Starts the servers and the gate.
    pub(super) fn start(
        folder: &Path,
        nbdkit: &Path,
        evenkeel: &Path,
        rate_bytes: Option<u64>,
        is_small: bool,
    ) -> Result<Self> {
        let part_bytes = if is_small { SMOKE_PART_BYTES } else { PART_BYTES };
        let start = |name: String| {
            let own = folder.join(name);
            fs::create_dir(&own).context("cannot make a folder")?;
            Ok((server(&own, nbdkit, part_bytes, rate_bytes)?, own))
        };
        let servers = (0..SERVERS).map(|index| start(format!("server-{index}")));
        let servers = servers.collect::<Result<Vec<_>>>()?;
        let below = (0..SERVERS).map(|index| start(format!("below-{index}")));
        let below: Vec<Server> = below.map(|started| Ok(started?.0)).collect::<Result<Vec<_>>>()?;
        let gate = gate(folder, evenkeel, &below, part_bytes)?;
        Ok(Self { part_bytes, servers, _below: below, gate, folder: folder.to_path_buf() })
    }

    /// Writes everything once: a first write to an object places it.
    pub(super) fn write_once(&self, generator: &Generator) -> Result<()> {
        for (server, folder) in &self.servers {
            write_once(generator, server.address(), self.part_bytes, folder)?;
        }
        let size_bytes = u64::from(SERVERS) * self.part_bytes;
        write_once(generator, self.gate.address(), size_bytes, &self.folder)
    }

    /// Lets one contender serve for a time.
    pub(super) fn measure(
        &self,
        contender: Contender,
        generator: &Generator,
        workload: Workload,
        runtime: Duration,
    ) -> Result<Sample> {
        match contender {
            Contender::Servers => {
                let bytes_per_second = self.at_once(generator, workload, runtime)?;
                Ok(Sample { bytes_per_second, cpu_us_per_request: None })
            }
            Contender::Volume => self.on_volume(generator, workload, runtime),
        }
    }

    /// What all servers give together, each asked by a client of its own.
    fn at_once(&self, generator: &Generator, workload: Workload, runtime: Duration) -> Result<f64> {
        std::thread::scope(|scope| {
            let ask = |(server, folder): &'_ (Server, PathBuf)| {
                let load = Load {
                    target: server.address(),
                    workload,
                    connections: 1,
                    runtime,
                    size_bytes: self.part_bytes,
                };
                generator.run(&load, folder)
            };
            let clients: Vec<_> =
                self.servers.iter().map(|one| scope.spawn(move || ask(one))).collect();
            let outcomes = clients.into_iter().map(|client| client.join().expect("no panic"));
            let outcomes = outcomes.collect::<Result<Vec<Outcome>>>()?;
            Ok(outcomes.iter().map(|outcome| outcome.bytes_per_second).sum())
        })
    }

    fn on_volume(
        &self,
        generator: &Generator,
        workload: Workload,
        runtime: Duration,
    ) -> Result<Sample> {
        let load = Load {
            target: self.gate.address(),
            workload: Workload { depth: SERVERS * workload.depth, ..workload },
            connections: 1,
            runtime,
            size_bytes: u64::from(SERVERS) * self.part_bytes,
        };
        let before = self.gate.cpu()?;
        let outcome = generator
            .run(&load, &self.folder)
            .with_context(|| format!("the gate wrote last:{}", self.gate.last_words()))?;
        let used = self.gate.cpu()?.saturating_sub(before);
        Ok(Sample {
            bytes_per_second: outcome.bytes_per_second,
            cpu_us_per_request: Some(used.as_secs_f64() * 1e6 / outcome.requests as f64),
        })
    }
}

/// Memory, with room for what a volume keeps of itself.
fn server(
    folder: &Path,
    nbdkit: &Path,
    part_bytes: u64,
    rate_bytes: Option<u64>,
) -> Result<Server> {
    let Some(rate_bytes) = rate_bytes else {
        return memory_server(nbdkit, folder, 2 * part_bytes, &[], &[]);
    };
    // What was saved up between two loads would pass for speed.
    let rate = format!("rate={}", 8 * rate_bytes);
    let parameters = [rate.as_str(), "burstiness=0.1"];
    memory_server(nbdkit, folder, 2 * part_bytes, &["--filter=rate"], &parameters)
}

fn gate(folder: &Path, evenkeel: &Path, below: &[Server], part_bytes: u64) -> Result<Gate> {
    let address = Address::new(Transport::Unix, folder)?;
    let Address::Unix(socket) = &address else { unreachable!("it was asked for") };
    let server = |(index, server)| upstream(&format!("s{index}"), server);
    let servers: String = below.iter().enumerate().map(server).collect();
    let names: Vec<String> = (0..below.len()).map(|index| format!("\"s{index}\"")).collect();
    let size_mib = (u64::from(SERVERS) * part_bytes) >> 20;
    let text = format!(
        "mode = \"enforce\"\nlisten = [\"unix:{}\"]\n{servers}\n\
         [[backend]]\nname = \"pool\"\nchoices = [{}]\nsize = \"{size_mib} MiB\"\n\n\
         [[export]]\nname = \"{EXPORT}\"\nbackend = \"pool\"\n\n\
         [[tenant]]\nname = \"measured\"\nmatch = {{ export = \"{EXPORT}\" }}\n",
        socket.display(),
        names.join(", ")
    );
    Gate::start(evenkeel, address, folder, &text)
}
