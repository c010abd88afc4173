//! The runs: stage by stage, round by round, peer by peer.
//!
//! ```text
//! start the peers of the stage                    round 1: cell 1: A B C   cell 2: B C A
//! for each round, for each cell,                  round 2: cell 1: B C A   cell 2: C A B
//!   for each peer, in a turning order: one load   round 3: cell 1: C A B   ...
//! stop them
//! ```
//!
//! So whatever slows the machine for a while meets all peers alike, and nobody is always first or
//! always after the same neighbour's dirty caches. A peer that fails is named and left out for the
//! rest of the stage; the others go on.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use indicatif::ProgressBar;

use crate::cpu;
use crate::matrix::{Cell, Contest, Extent, Peer, Stage};
use crate::peers::{self, Programs, Task};
use crate::report::{Measured, Sample};
use crate::server::{Address, Server};
use crate::workload::{self, Generator, Load};

/// How to run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) extent: Extent,
    pub(crate) rounds: u32,
    pub(crate) runtime: Duration,
    /// Size of every export.
    pub(crate) size_bytes: u64,
    pub(crate) generator: Generator,
    pub(crate) programs: Programs,
    /// Where sockets, disks and logs go.
    pub(crate) folder: PathBuf,
}

/// What a stage came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) measured: Vec<Measured>,
    pub(crate) failures: Vec<String>,
}

/// Runs all rounds of a stage with the peers that are installed.
///
/// # Errors
/// If there is no room for its files or no upstream for its relays. What single peers do wrong is
/// part of the results.
pub(crate) fn stage(options: &Options, stage: &Stage, progress: &ProgressBar) -> Result<Results> {
    let scratch = tempfile::Builder::new()
        .prefix("stage-")
        .tempdir_in(&options.folder)
        .context("cannot make a folder for the stage")?;
    let mut setup = Setup { options, stage, folder: scratch.path(), upstream: None };
    let upstream = match stage.contest {
        Contest::Relay => Some(setup.start_upstream()?),
        _ => None,
    };
    setup.upstream = upstream.as_ref().map(Server::address);
    let mut results = Results::default();
    let contenders = setup.start_all(&mut results.failures);
    let mut race = Race { options, stage, progress, contenders, results };
    race.run();
    Ok(race.results)
}

/// What the peers of a stage need to start.
struct Setup<'a> {
    options: &'a Options,
    stage: &'a Stage,
    folder: &'a Path,
    upstream: Option<&'a Address>,
}

impl Setup<'_> {
    /// The server behind the relays, with every byte of its memory touched.
    fn start_upstream(&self) -> Result<Server> {
        let (folder, address) = self.place("upstream")?;
        let server = peers::start_upstream(&self.options.programs, &self.task(&folder, &address));
        let server = server.context("no upstream")?;
        self.write_once(&server, &folder)?;
        Ok(server)
    }

    /// Starts whoever can be started.
    fn start_all(&self, failures: &mut Vec<String>) -> Vec<Contender> {
        let mut contenders = Vec::new();
        for peer in self.stage.contest.peers() {
            if self.options.programs.of(*peer).is_none() {
                continue; // Said once for all stages.
            }
            match self.start(*peer) {
                Ok(contender) => contenders.push(contender),
                Err(error) => failures.push(format!("{}: {error:#}", self.stage)),
            }
        }
        contenders
    }

    fn start(&self, peer: Peer) -> Result<Contender> {
        let (folder, address) = self.place(&peer.to_string().replace(' ', "-"))?;
        let server = peers::start(peer, &self.options.programs, &self.task(&folder, &address))?;
        if self.stage.contest == Contest::Memory {
            self.write_once(&server, &folder).context(peer)?;
        }
        Ok(Contender { peer, server, folder, has_failed: false })
    }

    /// A folder and an address of one's own.
    fn place(&self, name: &str) -> Result<(PathBuf, Address)> {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).context("cannot make a folder for a peer")?;
        let address = Address::new(self.stage.transport, &folder)?;
        Ok((folder, address))
    }

    fn task<'a>(&'a self, folder: &'a Path, address: &'a Address) -> Task<'a> {
        let size_bytes = self.options.size_bytes;
        Task { contest: self.stage.contest, address, folder, size_bytes, upstream: self.upstream }
    }

    fn write_once(&self, server: &Server, folder: &Path) -> Result<()> {
        let Options { generator, size_bytes, .. } = self.options;
        workload::write_once(generator, server.address(), *size_bytes, folder)
            .map_err(|error| with_last_words(&error, server))
    }
}

/// A peer of the stage under way.
struct Contender {
    peer: Peer,
    server: Server,
    folder: PathBuf,
    has_failed: bool,
}

impl Contender {
    fn measure(&self, options: &Options, cell: &Cell) -> Result<Sample> {
        let load = Load {
            target: self.server.address(),
            workload: cell.workload,
            connections: cell.connections,
            runtime: options.runtime,
            size_bytes: options.size_bytes,
        };
        let process_id = self.server.process_id();
        let before = cpu::time_of(process_id)?;
        let outcome = options
            .generator
            .run(&load, &self.folder)
            .map_err(|error| with_last_words(&error, &self.server))?;
        let used = cpu::time_of(process_id)?.checked_sub(before);
        let used = used.context("processor time went back")?;
        ensure!(outcome.requests_per_second > 0.0, "the load generator measured no request");
        Ok(Sample {
            requests_per_second: outcome.requests_per_second,
            bytes_per_second: outcome.bytes_per_second,
            cpu_us_per_request: used.as_secs_f64() * 1e6 / outcome.requests as f64,
        })
    }
}

/// A load's error with what the server wrote last, which may tell why.
fn with_last_words(error: &anyhow::Error, server: &Server) -> anyhow::Error {
    let words = server.last_words();
    let lead = if words.is_empty() { "" } else { "\n  the server wrote last:" };
    anyhow!("{error:#}{lead}{words}")
}

/// The peers of a stage under load.
struct Race<'a> {
    options: &'a Options,
    stage: &'a Stage,
    progress: &'a ProgressBar,
    contenders: Vec<Contender>,
    results: Results,
}

impl Race<'_> {
    fn run(&mut self) {
        let peers: Vec<Peer> = self.contenders.iter().map(|contender| contender.peer).collect();
        for cell in &self.stage.cells {
            let peers = peers.iter().map(|peer| (*peer, Vec::new())).collect();
            self.results.measured.push(Measured { cell: *cell, peers });
        }
        for round in 0..self.options.rounds {
            for index in 0..self.stage.cells.len() {
                self.one_cell(index, round as usize + index);
            }
        }
    }

    /// One round of one cell; `turn` says who starts.
    fn one_cell(&mut self, index: usize, turn: usize) {
        let cell = self.stage.cells[index];
        let samples = match self.options.extent {
            Extent::Smoke => self.all_at_once(&cell),
            Extent::Whole => self.one_by_one(&cell, turn),
        };
        for (place, sample) in samples {
            let rounds = &mut self.results.measured[index].peers[place].1;
            // Rounds stay aligned: the ratios are paired.
            rounds.push(sample.as_ref().and_then(|sample| sample.as_ref().ok()).copied());
            if let Some(Err(error)) = sample {
                let contender = &mut self.contenders[place];
                contender.has_failed = true;
                let peer = contender.peer;
                self.results.failures.push(format!(
                    "{cell} {peer}, left out for the rest of {}: {error:#}",
                    self.stage
                ));
            }
        }
    }

    fn one_by_one(&self, cell: &Cell, turn: usize) -> Vec<(usize, Option<Result<Sample>>)> {
        let order = turning_order(self.contenders.len(), turn);
        order.map(|place| (place, self.one_load(place, cell))).collect()
    }

    /// All peers side by side: the figures are worthless, and it takes a fraction of the time, most
    /// of which is the load generator's start.
    fn all_at_once(&self, cell: &Cell) -> Vec<(usize, Option<Result<Sample>>)> {
        thread::scope(|scope| {
            let places = 0..self.contenders.len();
            let threads: Vec<_> =
                places.map(|place| scope.spawn(move || self.one_load(place, cell))).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join();
            let samples = threads.into_iter().map(join);
            samples.map(|sample| sample.expect("a load never panics")).enumerate().collect()
        })
    }

    /// Nothing for a peer that was left out.
    fn one_load(&self, place: usize, cell: &Cell) -> Option<Result<Sample>> {
        let contender = &self.contenders[place];
        self.progress.set_message(format!("{cell} {}", contender.peer));
        let sample = (!contender.has_failed).then(|| contender.measure(self.options, cell));
        self.progress.inc(1);
        sample
    }
}

/// Places from `turn` on, around.
fn turning_order(count: usize, turn: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (place + turn) % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_first_once_and_nobody_is_left_out() {
        let orders: Vec<Vec<usize>> = (0..3).map(|turn| turning_order(3, turn).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        assert_eq!(turning_order(0, 5).count(), 0);
    }
}
