//! What is compared: contests, in which peers do the same work, and the cells of each.
//!
//! ```text
//! contest    x transport x workload                     x connections = cell
//! memory       unix        4 KiB random r/w, depth 1      1
//! cached       TCP         4 KiB random r/w, depth 32     4
//! direct                   64 KiB sequential r/w, depth 16
//! relay
//! ```
//!
//! A contest over one transport is a stage: its peers run side by side while it is measured.

use std::fmt;

use serde::Serialize;

/// A program under test, in the way that a contest runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    Evenkeel,
    Nbdkit,
    QemuNbd,
    /// TCP mode: it copies bytes both ways, and neither parses nor schedules anything.
    Haproxy,
    /// The same with splice(2), which moves payloads past user space.
    HaproxySplice,
}

impl Peer {
    /// The program's name on the search path.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Evenkeel => "evenkeel",
            Self::Nbdkit => "nbdkit",
            Self::QemuNbd => "qemu-nbd",
            Self::Haproxy | Self::HaproxySplice => "haproxy",
        }
    }

    /// Extra rows are there to be read; no aim is judged by them.
    pub(crate) fn is_extra(self) -> bool {
        self == Self::HaproxySplice
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if *self == Self::HaproxySplice { "haproxy splice" } else { self.program() })
    }
}

/// Work that several peers do alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contest {
    /// Server of an export in memory.
    Memory,
    /// Server of a file through the page cache.
    Cached,
    /// Server of a file past the page cache.
    Direct,
    /// Relay before one and the same nbdkit with an export in memory.
    Relay,
}

impl Contest {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Cached, Self::Direct, Self::Relay];

    /// Who takes part; nbdkit has no mode that bypasses the page cache.
    pub(crate) fn peers(self) -> &'static [Peer] {
        match self {
            Self::Memory | Self::Cached => &[Peer::Evenkeel, Peer::Nbdkit, Peer::QemuNbd],
            Self::Direct => &[Peer::Evenkeel, Peer::QemuNbd],
            Self::Relay => {
                &[Peer::Evenkeel, Peer::Nbdkit, Peer::QemuNbd, Peer::Haproxy, Peer::HaproxySplice]
            }
        }
    }

    /// The peer that the ratios refer to.
    pub(crate) fn reference(self) -> Peer {
        match self {
            Self::Memory | Self::Cached => Peer::Nbdkit,
            Self::Direct => Peer::QemuNbd,
            Self::Relay => Peer::Haproxy,
        }
    }

    /// The aim: our processor time per request as a part of the reference's.
    pub(crate) fn cpu_bound(self) -> Option<f64> {
        match self {
            Self::Memory | Self::Cached => Some(0.5),
            Self::Direct => None,
            Self::Relay => Some(1.0),
        }
    }

    /// What it is, for the head of a table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Memory => "server of a memory export (qemu-nbd: a file in the page cache)",
            Self::Cached => "server of a file export, through the page cache",
            Self::Direct => "server of a file export, direct I/O",
            Self::Relay => "relay before nbdkit memory",
        }
    }
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Memory => "memory",
            Self::Cached => "cached",
            Self::Direct => "direct",
            Self::Relay => "relay",
        })
    }
}

/// How clients reach the peer, and a relay its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Transport {
    Unix,
    Tcp,
}

impl Transport {
    pub(crate) const ALL: [Self; 2] = [Self::Unix, Self::Tcp];
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        })
    }
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pattern {
    Random,
    Sequential,
}

/// What every connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Workload {
    pub(crate) direction: Direction,
    pub(crate) pattern: Pattern,
    pub(crate) size_bytes: u32,
    /// Requests under way per connection.
    pub(crate) depth: u32,
}

impl Workload {
    pub(crate) const ALL: [Self; 6] = [
        Self::new(Direction::Read, Pattern::Random, 4096, 1),
        Self::new(Direction::Write, Pattern::Random, 4096, 1),
        Self::new(Direction::Read, Pattern::Random, 4096, 32),
        Self::new(Direction::Write, Pattern::Random, 4096, 32),
        Self::new(Direction::Read, Pattern::Sequential, 65_536, 16),
        Self::new(Direction::Write, Pattern::Sequential, 65_536, 16),
    ];

    const fn new(direction: Direction, pattern: Pattern, size_bytes: u32, depth: u32) -> Self {
        Self { direction, pattern, size_bytes, depth }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = match self.pattern {
            Pattern::Random => "random",
            Pattern::Sequential => "sequential",
        };
        let direction = match self.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        let (size_kib, depth) = (self.size_bytes / 1024, self.depth);
        f.pad(&format!("{size_kib}k-{pattern}-{direction}-depth{depth}"))
    }
}

/// One comparison: the same load on each peer of the contest in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    pub(crate) contest: Contest,
    pub(crate) transport: Transport,
    pub(crate) workload: Workload,
    pub(crate) connections: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contest, transport, workload, connections } = self;
        write!(f, "{contest}/{transport}/{workload}/connections{connections}")
    }
}

/// Cells that share their peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) contest: Contest,
    pub(crate) transport: Transport,
    pub(crate) cells: Vec<Cell>,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.contest, self.transport)
    }
}

/// Numbers of connections that are measured.
const CONNECTIONS: [u32; 2] = [1, 4];

/// How much of the matrix is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// Every workload over every transport, with one and with four connections by turns.
    Smoke,
}

/// All stages with a cell whose name has every word of `only` in it.
pub(crate) fn stages(extent: Extent, only: &str) -> Vec<Stage> {
    let wanted = |cell: &Cell| {
        let name = cell.to_string();
        only.split_whitespace().all(|word| name.contains(word))
    };
    let mut stages = Vec::new();
    for contest in Contest::ALL {
        for transport in Transport::ALL {
            let mut cells = cells(extent, contest, transport);
            cells.retain(wanted);
            if !cells.is_empty() {
                stages.push(Stage { contest, transport, cells });
            }
        }
    }
    stages
}

fn cells(extent: Extent, contest: Contest, transport: Transport) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (index, workload) in Workload::ALL.into_iter().enumerate() {
        let turn = (index / 2 + index + transport as usize) % CONNECTIONS.len();
        for (other, connections) in CONNECTIONS.into_iter().enumerate() {
            if extent == Extent::Whole || turn == other {
                cells.push(Cell { contest, transport, workload, connections });
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(extent: Extent, only: &str) -> Vec<String> {
        let cells = stages(extent, only).into_iter().flat_map(|stage| stage.cells);
        cells.map(|cell| cell.to_string()).collect()
    }

    #[test]
    fn the_whole_matrix_has_every_combination_once() {
        let mut all = names(Extent::Whole, "");
        assert_eq!(all.len(), 4 * 2 * 6 * 2);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 4 * 2 * 6 * 2);
    }

    #[test]
    fn smoke_meets_every_workload_on_every_transport_and_both_numbers_of_connections() {
        let smoke = names(Extent::Smoke, "");
        assert_eq!(smoke.len(), 4 * 2 * 6);
        for workload in Workload::ALL {
            for connections in CONNECTIONS {
                let words = format!("relay {workload}/connections{connections}");
                assert_eq!(names(Extent::Smoke, &words).len(), 1, "{words}");
            }
        }
    }

    #[test]
    fn a_pattern_wants_all_of_its_words() {
        let some = names(Extent::Whole, "relay unix read depth32");
        assert_eq!(
            some,
            [
                "relay/unix/4k-random-read-depth32/connections1",
                "relay/unix/4k-random-read-depth32/connections4",
            ]
        );
        assert!(names(Extent::Whole, "no-such-cell").is_empty());
    }

    #[test]
    fn the_reference_takes_part_and_is_judged_by_nobody() {
        for contest in Contest::ALL {
            assert!(contest.peers().contains(&contest.reference()));
            assert!(contest.peers().contains(&Peer::Evenkeel));
            assert!(!contest.reference().is_extra());
        }
    }
}
