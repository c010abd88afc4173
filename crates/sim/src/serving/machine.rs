//! The parts of a machine, each a queue that takes one after the other.

use std::collections::VecDeque;

use evenkeel_core::cache::{Lru, Policy};
use evenkeel_core::id::ServerId;
use evenkeel_core::place::loads::Metrics;
use evenkeel_core::time::{Nanos, Span};

use super::Machines;

/// A part that does one thing after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    free_at: Nanos,
}

impl Line {
    /// When something that comes now is done.
    fn serve(&mut self, now: Nanos, takes: Span) -> Nanos {
        self.free_at = self.free_at.max(now) + takes;
        self.free_at
    }
}

/// A server: a journal, a disk, and what is known of it.
#[derive(Debug, Default)]
struct Server {
    journal: Line,
    disk: Line,
    /// What the journal holds: when each piece will be on the disk, and its bytes.
    unflushed: VecDeque<(Nanos, u64)>,
    unflushed_bytes: u64,
    in_flight: u32,
    /// Of requests, each counting a sixteenth.
    latency_ns: f64,
    used_bytes: u64,
}

struct Machine {
    link_out: Line,
    link_in: Line,
    cores: Vec<Line>,
    memory_free_bytes: u64,
    /// Pieces of objects in memory.
    cache: Lru,
}

/// All of them, with what they have carried.
pub(super) struct Park<'a> {
    spec: &'a Machines,
    machines: Vec<Machine>,
    servers: Vec<Server>,
    /// Bytes between machines.
    pub(super) carried_bytes: u64,
    pub(super) reads: u64,
    pub(super) cached_reads: u64,
}

impl<'a> Park<'a> {
    /// Idle machines whose caches hold pieces of so many bytes.
    pub(super) fn new(spec: &'a Machines, piece_bytes: u64) -> Self {
        let machine = |number| {
            let hogs = || spec.hogs.iter().filter(move |hog| hog.machine == number);
            let taken: u32 = hogs().map(|hog| hog.cores).sum();
            let cores = spec.cores.saturating_sub(taken).max(1) as usize;
            let hogged_bytes: u64 = hogs().map(|hog| hog.memory_bytes).sum();
            let memory_free_bytes = spec.memory_bytes.saturating_sub(hogged_bytes);
            let pieces = usize::try_from(memory_free_bytes / piece_bytes).unwrap_or(usize::MAX);
            Machine {
                link_out: Line::default(),
                link_in: Line::default(),
                cores: vec![Line::default(); cores],
                memory_free_bytes,
                cache: Lru::new(pieces.max(1)),
            }
        };
        let servers = spec.count * spec.servers_each;
        Self {
            spec,
            machines: (0..spec.count).map(machine).collect(),
            servers: (0..servers).map(|_| Server::default()).collect(),
            carried_bytes: 0,
            reads: 0,
            cached_reads: 0,
        }
    }

    /// The machine of a server.
    pub(super) fn machine_of(&self, server: ServerId) -> u32 {
        server.0 / self.spec.servers_each
    }

    /// Leaves a machine for another one.
    pub(super) fn leave(&mut self, now: Nanos, machine: u32, bytes: u64) -> Nanos {
        self.carried_bytes += bytes;
        let takes = span(bytes, self.spec.link_bytes_per_s);
        self.machines[machine as usize].link_out.serve(now, takes)
    }

    /// Comes in from another machine.
    pub(super) fn arrive(&mut self, now: Nanos, machine: u32, bytes: u64) -> Nanos {
        let takes = span(bytes, self.spec.link_bytes_per_s);
        self.machines[machine as usize].link_in.serve(now, takes) + self.spec.hop
    }

    /// Takes a processor of the machine, the one that is free first.
    pub(super) fn compute(&mut self, now: Nanos, machine: u32) -> Nanos {
        let cores = &mut self.machines[machine as usize].cores;
        let first = cores.iter_mut().min_by_key(|core| core.free_at).expect("there is a core");
        first.serve(now, self.spec.work)
    }

    /// Writes to the journal of a server, once that has room; the disk follows when it can.
    pub(super) fn log(&mut self, now: Nanos, server: ServerId, bytes: u64) -> Nanos {
        let server = &mut self.servers[server.index()];
        server.settle(now);
        let mut begin = now;
        while server.unflushed_bytes + bytes > self.spec.journal_bytes {
            let Some((flushed, bytes)) = server.unflushed.pop_front() else { break };
            server.unflushed_bytes -= bytes;
            begin = begin.max(flushed);
        }
        let takes = self.spec.log + span(bytes, self.spec.journal_bytes_per_s);
        let logged = server.journal.serve(begin, takes);
        let takes = self.spec.seek + span(bytes, self.spec.disk_bytes_per_s);
        // Reads that come before it is logged wait for it as well, which flatters nobody.
        let flushed = server.disk.serve(logged, takes);
        server.unflushed.push_back((flushed, bytes));
        server.unflushed_bytes += bytes;
        logged
    }

    /// Reads a piece of an object: from memory, or from the disk.
    pub(super) fn read(&mut self, now: Nanos, server: ServerId, piece: u64, bytes: u64) -> Nanos {
        let machine = self.machine_of(server) as usize;
        self.reads += 1;
        if self.machines[machine].cache.access(piece) {
            self.cached_reads += 1;
            return now;
        }
        let takes = self.spec.seek + span(bytes, self.spec.disk_bytes_per_s);
        self.servers[server.index()].disk.serve(now, takes)
    }

    /// A request has come to a server.
    pub(super) fn begin(&mut self, server: ServerId) {
        self.servers[server.index()].in_flight += 1;
    }

    /// It is done, after so long.
    pub(super) fn end(&mut self, server: ServerId, took: Span) {
        let server = &mut self.servers[server.index()];
        server.in_flight -= 1;
        server.latency_ns += (took.0 as f64 - server.latency_ns) / 16.0;
    }

    /// An object has its place on a server.
    pub(super) fn take_room(&mut self, server: ServerId, bytes: u64) {
        self.servers[server.index()].used_bytes += bytes;
    }

    /// What a server says of itself.
    pub(super) fn metrics(&mut self, now: Nanos, server: ServerId) -> Metrics {
        let machine = &self.machines[self.machine_of(server) as usize];
        let busy = machine.cores.iter().filter(|core| core.free_at > now).count();
        // What a hog has taken is busy, too.
        let taken = self.spec.cores as usize - machine.cores.len();
        let (memory_bytes, memory_free_bytes) = (self.spec.memory_bytes, machine.memory_free_bytes);
        let cpu_milli = (busy + taken) * 1000 / self.spec.cores as usize;
        let cpu_milli = u32::try_from(cpu_milli).expect("a thousand at most");
        let server = &mut self.servers[server.index()];
        server.settle(now);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a latency")]
        let latency = Span(server.latency_ns as u64);
        Metrics {
            capacity_bytes: 1 << 50,
            used_bytes: server.used_bytes,
            memory_bytes,
            memory_free_bytes,
            cpu_milli,
            latency,
            in_flight: server.in_flight,
            journal_bytes: server.unflushed_bytes,
        }
    }
}

impl Server {
    /// Forgets what is on the disk by now.
    fn settle(&mut self, now: Nanos) {
        while let Some(&(flushed, bytes)) = self.unflushed.front()
            && flushed <= now
        {
            self.unflushed.pop_front();
            self.unflushed_bytes -= bytes;
        }
    }
}

/// How long so many bytes take.
fn span(bytes: u64, bytes_per_s: u64) -> Span {
    Span(bytes * 1_000_000_000 / bytes_per_s)
}
