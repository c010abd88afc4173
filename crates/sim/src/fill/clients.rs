//! What each client believes of the servers.

use evenkeel_core::id::ServerId;
use evenkeel_core::place::loads::{Loads, Metrics};

use super::{Cluster, Writers};

/// The clients' views.
pub(super) struct Clients {
    views: Vec<Loads>,
    /// Written since the last reports.
    since_bytes: u64,
    /// Reports come after so much.
    every_bytes: u64,
}

impl Clients {
    /// Clients who have just had reports from all servers.
    pub(super) fn new(cluster: &Cluster<'_>, writers: Writers, used_bytes: &[u64]) -> Self {
        let capacity: f64 = cluster.members.iter().map(|member| member.capacity_bytes as f64).sum();
        let mut view = Loads::new(cluster.members.len());
        if writers.know_each_other {
            view.set_clients(writers.clients);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let every_bytes = (capacity * writers.report_every) as u64;
        let views = vec![view; writers.clients as usize];
        let mut clients = Self { views, since_bytes: 0, every_bytes };
        clients.report(cluster, used_bytes);
        clients
    }

    /// Whose turn it is to write an object.
    pub(super) fn turn(&self, object: u64) -> usize {
        usize::try_from(object % self.views.len() as u64).expect("below the number of clients")
    }

    /// What a client knows.
    pub(super) fn loads(&self, client: usize) -> &Loads {
        &self.views[client]
    }

    /// A client has written to a server.
    pub(super) fn wrote(&mut self, client: usize, server: ServerId, bytes: u64) {
        self.views[client].wrote(server, bytes);
    }

    /// So much was written in all; reports may be due.
    pub(super) fn pass(&mut self, cluster: &Cluster<'_>, bytes: u64, used_bytes: &[u64]) {
        self.since_bytes += bytes;
        // One client that counts its own writes knows all there is to know.
        if self.views.len() > 1 && self.since_bytes > self.every_bytes {
            self.report(cluster, used_bytes);
        }
    }

    fn report(&mut self, cluster: &Cluster<'_>, used_bytes: &[u64]) {
        self.since_bytes = 0;
        for member in cluster.members {
            let metrics = Metrics {
                capacity_bytes: member.capacity_bytes,
                used_bytes: used_bytes[member.server.index()],
                ..Metrics::default()
            };
            self.views.iter_mut().for_each(|view| view.report(member.server, metrics));
        }
    }
}
