//! What objects of a spread volume may prefer, in the words of the policy file.
//!
//! | word | figure | from |
//! |---|---|---|
//! | `space` | room in use | the volume's own tables |
//! | `local` | nearness | the policy |
//! | `latency` | requests under way, time of answers | what the gate sees of each server |
//! | `memory`, `cpu` | free memory, idle processors | an exporter on the server's host |
//!
//! A policy of [`evenkeel_core::place::policy`] that no figure of a live server can feed has no
//! word here.

use std::fmt;

/// What an object may prefer of a server: a policy of [`evenkeel_core::place::policy`] whose figure
/// a gate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Room, as the volume's own tables tell.
    Space,
    /// Nearness, as the operator says.
    Local,
    /// Few requests under way, then quick answers, as the gate measures.
    Latency,
    /// Free memory, as the server's host tells.
    Memory,
    /// Idle processors, as the server's host tells.
    Cpu,
}

impl Preference {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Space, Self::Local, Self::Latency, Self::Memory, Self::Cpu];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::Local => "local",
            Self::Latency => "latency",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }

    /// Whether servers' hosts are asked for it.
    pub fn is_of_hosts(self) -> bool {
        matches!(self, Self::Memory | Self::Cpu)
    }
}

/// A page over HTTP with the figures of a host, as Prometheus' `node_exporter` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsPage {
    /// Host and port, as `host:port` or `[v6]:port`.
    pub address: String,
    /// The path, from its slash on.
    pub path: String,
}

impl fmt::Display for MetricsPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.path)
    }
}

/// What the host of a server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFigures {
    /// Its memory.
    pub memory_bytes: u64,
    /// What of it is free, or would be if somebody asked: what can serve as cache.
    pub memory_free_bytes: u64,
    /// Processor time in use, in thousandths of all its cores.
    pub cpu_milli: u32,
}
