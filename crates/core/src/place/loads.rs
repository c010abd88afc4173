//! What is known of the servers, brought up to now.
//!
//! Figures come now and then: with a reply, or from a monitor every few seconds. Whoever goes by
//! them alone sends everything to the server that was emptiest a while ago, and so does everybody
//! else: worse than not to look at all. So what this client has written since is added, as many
//! times as there are clients:
//!
//! ```text
//! used = reported + own bytes since the report * active clients
//! ```
//!
//! which assumes that the others do as this one does (C3, NSDI 2015, does the same for queues).

use crate::id::ServerId;
use crate::time::Span;

/// What a server says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// What it can hold.
    pub capacity_bytes: u64,
    /// What it holds.
    pub used_bytes: u64,
    /// Memory that serves as cache, and how much of it is free.
    pub memory_bytes: u64,
    /// Free memory.
    pub memory_free_bytes: u64,
    /// Processor time in use, in thousandths of all its cores.
    pub cpu_milli: u32,
    /// Typical latency of a request.
    pub latency: Span,
    /// Requests under way.
    pub in_flight: u32,
    /// Journal not yet flushed.
    pub journal_bytes: u64,
}

/// A server as seen from here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    reported: Metrics,
    own_bytes: u64,
    own_in_flight: u32,
}

/// What choices go by most, side by side, so that a comparison divides nothing and touches little
/// memory.
#[derive(Clone, Copy, Debug)]
struct Fill {
    /// Part in use.
    used_part: f64,
    /// What each further byte adds to it.
    per_byte: f64,
}

/// What is known of all servers.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    servers: Vec<Seen>,
    /// Follows from `servers` and `clients`.
    fills: Vec<Fill>,
    clients: u32,
}

impl Loads {
    /// Servers of whom nothing is known; they count as full until they report.
    pub fn new(servers: usize) -> Self {
        let fills = vec![Fill::UNKNOWN; servers];
        Self { servers: vec![Seen::default(); servers], fills, clients: 1 }
    }

    /// How many clients choose at present, this one included.
    pub fn set_clients(&mut self, clients: u32) {
        self.clients = clients.max(1);
        for (fill, seen) in self.fills.iter_mut().zip(&self.servers) {
            *fill = Fill::of(seen, self.clients);
        }
    }

    /// A server has reported. What was written before is in the report.
    pub fn report(&mut self, server: ServerId, metrics: Metrics) {
        if server.index() >= self.servers.len() {
            self.servers.resize(server.index() + 1, Seen::default());
            self.fills.resize(server.index() + 1, Fill::UNKNOWN);
        }
        let seen = &mut self.servers[server.index()];
        seen.reported = metrics;
        seen.own_bytes = 0;
        self.fills[server.index()] = Fill::of(seen, self.clients);
    }

    /// This client has taken space on a server.
    pub fn wrote(&mut self, server: ServerId, bytes: u64) {
        let seen = &mut self.servers[server.index()];
        seen.own_bytes = seen.own_bytes.saturating_add(bytes);
        self.fills[server.index()] = Fill::of(seen, self.clients);
    }

    /// A request of this client has gone to a server.
    pub fn started(&mut self, server: ServerId) {
        self.servers[server.index()].own_in_flight += 1;
    }

    /// A request of this client was answered.
    pub fn ended(&mut self, server: ServerId) {
        let in_flight = &mut self.servers[server.index()].own_in_flight;
        *in_flight = in_flight.saturating_sub(1);
    }

    /// The last report.
    pub fn reported(&self, server: ServerId) -> &Metrics {
        &self.servers[server.index()].reported
    }

    /// Bytes in use on a server, with what this client alone has written since its report; zero if
    /// it never reported.
    pub fn known_bytes(&self, server: ServerId) -> u64 {
        let known = |seen: &Seen| seen.reported.used_bytes.saturating_add(seen.own_bytes);
        self.servers.get(server.index()).map_or(0, known)
    }

    /// Part of a server that is in use, once `more_bytes` are written; above 1 if unknown.
    pub fn used_part(&self, server: ServerId, more_bytes: u64) -> f64 {
        let Fill { used_part, per_byte } = self.fills[server.index()];
        used_part + more_bytes as f64 * per_byte
    }

    /// Requests under way at a server, as far as is known: its own figure is of the past, ours of
    /// now.
    pub fn in_flight(&self, server: ServerId) -> u32 {
        let seen = &self.servers[server.index()];
        seen.reported.in_flight.max(seen.own_in_flight.saturating_mul(self.clients))
    }

    /// Every server.
    pub fn servers(&self) -> impl Iterator<Item = ServerId> {
        (0..).map(ServerId).take(self.servers.len())
    }
}

impl Fill {
    /// Counts as full.
    const UNKNOWN: Self = Self { used_part: 2.0, per_byte: 0.0 };

    fn of(seen: &Seen, clients: u32) -> Self {
        let Seen { reported, own_bytes, .. } = seen;
        if reported.capacity_bytes == 0 {
            return Self::UNKNOWN;
        }
        let since = own_bytes.saturating_mul(u64::from(clients));
        let capacity = reported.capacity_bytes as f64;
        let used_part = reported.used_bytes.saturating_add(since) as f64 / capacity;
        Self { used_part, per_byte: 1.0 / capacity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_writes_count_once_per_client_until_the_next_report() {
        let mut loads = Loads::new(1);
        let server = ServerId(0);
        assert!(loads.used_part(server, 0) > 1.0, "nothing is known of it");
        let metrics = Metrics { capacity_bytes: 1000, used_bytes: 100, ..Metrics::default() };
        loads.report(server, metrics);
        loads.set_clients(8);
        loads.wrote(server, 10);
        assert_eq!(loads.used_part(server, 0).to_bits(), 0.18f64.to_bits());
        loads.report(server, Metrics { used_bytes: 150, ..metrics });
        assert_eq!(loads.used_part(server, 50).to_bits(), 0.2f64.to_bits());
    }
}
