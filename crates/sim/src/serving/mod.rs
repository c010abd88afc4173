//! A cluster at work whose clients choose where objects go: what a choice by anything but space is
//! worth, and what asking before it costs.
//!
//! ```text
//!   machine                         link out, in
//!   +--------------------------+         |
//!   | client  client           |---------+---- switch ---- other machines
//!   | server server server ..  |
//!   |   each: journal, disk    |   of the machine: processors, memory that caches
//!   +--------------------------+
//!
//!   write   client -> primary: processor -> journal ......+-> answer
//!                        +-> each replica: processor -> journal
//!   read    client -> primary: processor -> memory, or disk -> client
//!   probe   client -> primary of each candidate: processor -> client
//! ```
//!
//! Every part is a queue that serves one after the other; messages are stored and forwarded; what
//! is in a journal is written to its disk behind the client's back, and a full journal makes
//! writers wait. Figures of servers reach the clients by probes before the first access, as in the
//! paper, or by reports now and then. The choice itself is [`evenkeel_core::place`]'s.

mod client;
mod machine;
mod play;

use std::ops::{AddAssign, Mul};

use evenkeel_core::place::cluster::{DomainId, GroupMap, Member};
use evenkeel_core::place::policy::Policy;
use evenkeel_core::time::Span;

pub use play::play;

/// The machines. Each is a failure domain of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Machines {
    /// How many.
    pub count: u32,
    /// Servers on each, with a journal and a disk of their own.
    pub servers_each: u32,
    /// Bytes per second of a machine's link, in each direction.
    pub link_bytes_per_s: u64,
    /// What a message takes besides.
    pub hop: Span,
    /// Processors of a machine.
    pub cores: u32,
    /// Processor time of a request, and of a probe.
    pub work: Span,
    /// What a disk takes to find a place.
    pub seek: Span,
    /// Bytes per second of a disk.
    pub disk_bytes_per_s: u64,
    /// What a write to a journal takes besides.
    pub log: Span,
    /// Bytes per second of a journal.
    pub journal_bytes_per_s: u64,
    /// Bytes that a journal holds.
    pub journal_bytes: u64,
    /// Memory of a machine that caches.
    pub memory_bytes: u64,
    /// What others take of a machine.
    pub hogs: Vec<Hog>,
}

/// Something else that runs on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hog {
    /// Where.
    pub machine: u32,
    /// Memory that it takes.
    pub memory_bytes: u64,
    /// Processors that it keeps busy, at most all but one.
    pub cores: u32,
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Writes one object after the other; each is new.
    SequentialWrites,
    /// Writes anywhere in the image.
    RandomWrites,
    /// Reads anywhere in an image that was written before.
    RandomReads,
}

/// The clients' work: images in turn on the machines, a client each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// What they do.
    pub pattern: Pattern,
    /// How many images.
    pub images: u32,
    /// Objects of an image.
    pub image_objects: u64,
    /// Bytes of a request, at most those of an object.
    pub request_bytes: u64,
    /// Bytes of an object.
    pub object_bytes: u64,
    /// Requests that a client keeps under way.
    pub depth: u32,
    /// Requests of all clients before anything is measured.
    pub settle: u64,
    /// Requests that are measured.
    pub measure: u64,
}

/// How a client learns how servers are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// It asks both candidates before its first access to an object.
    Probes,
    /// All servers report that often; nobody is asked.
    Reports(Span),
}

/// Makes the policy of a client on a machine.
pub type PolicyOf<'a> = dyn Fn(&[Member], DomainId) -> Box<dyn Policy> + 'a;

/// How objects find their servers.
#[derive(Clone, Copy)]
pub enum Placing<'a> {
    /// By hashing alone.
    Hashing,
    /// By the better of two candidates.
    Choice {
        /// The policy.
        policy: &'a PolicyOf<'a>,
        /// What it goes by.
        knowledge: Knowledge,
    },
}

/// All that determines a run.
pub struct Serving<'a> {
    /// The machines.
    pub machines: &'a Machines,
    /// The groups of their servers; see [`Machines::members`].
    pub map: &'a GroupMap,
    /// The clients' work.
    pub work: Work,
    /// Where objects go.
    pub placing: Placing<'a>,
    /// Draws the objects.
    pub seed: u64,
}

/// What came of it, of what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Bytes of clients per second.
    pub bytes_per_s: f64,
    /// Seconds of a request on average, a probe before it included.
    pub latency_mean_s: f64,
    /// Part of the clients' bytes that went from one machine to another between client and primary.
    pub crossing_part: f64,
    /// Bytes between machines in all for each byte of clients.
    pub traffic: f64,
    /// Part of the requests that were preceded by probes.
    pub probed_part: f64,
    /// Part of the reads that came from memory.
    pub cached_part: f64,
    /// Part of the placed objects that did not go to their first candidate, of all.
    pub diverted_part: f64,
}

impl Machines {
    /// The servers, each with room for ever.
    pub fn members(&self) -> Vec<Member> {
        crate::fill::cluster::even(self.count * self.servers_each, self.servers_each, 1 << 50)
    }
}

impl AddAssign for Served {
    fn add_assign(&mut self, other: Self) {
        self.bytes_per_s += other.bytes_per_s;
        self.latency_mean_s += other.latency_mean_s;
        self.crossing_part += other.crossing_part;
        self.traffic += other.traffic;
        self.probed_part += other.probed_part;
        self.cached_part += other.cached_part;
        self.diverted_part += other.diverted_part;
    }
}

impl Mul<f64> for Served {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self {
            bytes_per_s: self.bytes_per_s * factor,
            latency_mean_s: self.latency_mean_s * factor,
            crossing_part: self.crossing_part * factor,
            traffic: self.traffic * factor,
            probed_part: self.probed_part * factor,
            cached_part: self.cached_part * factor,
            diverted_part: self.diverted_part * factor,
        }
    }
}

#[cfg(test)]
mod tests;
