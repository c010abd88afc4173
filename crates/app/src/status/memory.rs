//! The memory for payload: who holds it, and who waited for it.

use evenkeel_io::gate::{MemoryReport, TenantMemory as Report};
use serde::{Deserialize, Serialize};

/// What requests and unread answers hold in the gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes now.
    pub bytes: u64,
    /// Most bytes that may be held.
    pub bound_bytes: u64,
    /// Connections cut since start because they were too slow with memory that others waited for.
    #[serde(default)]
    pub cut_connections: u64,
    /// By tenant, of those who hold some or have waited.
    #[serde(default)]
    pub tenants: Vec<TenantMemory>,
}

/// What one tenant holds and has waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantMemory {
    /// The tenant.
    pub tenant: String,
    /// Bytes now.
    pub held_bytes: u64,
    /// Bytes that it always finds free, whatever others hold.
    pub own_bytes: u64,
    /// Connections of it that wait for memory now.
    pub waiting: u64,
    /// How long its connections have waited, in seconds.
    pub waited_seconds: f64,
    /// Who held most beyond its own part meanwhile.
    pub behind: Vec<Behind>,
}

/// Whom a tenant waited behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// The tenant that held most.
    pub culprit: String,
    /// For how long, in seconds.
    pub waited_seconds: f64,
}

impl From<&MemoryReport> for Memory {
    fn from(report: &MemoryReport) -> Self {
        Self {
            bytes: report.held_bytes,
            bound_bytes: report.bound_bytes,
            cut_connections: report.cut_connections,
            tenants: report.tenants.iter().map(TenantMemory::from).collect(),
        }
    }
}

impl From<&Report> for TenantMemory {
    fn from(report: &Report) -> Self {
        let behind = report.behind.iter().map(|(culprit, waited)| Behind {
            culprit: culprit.clone(),
            waited_seconds: waited.as_secs_f64(),
        });
        Self {
            tenant: report.tenant.clone(),
            held_bytes: report.held_bytes,
            own_bytes: report.own_bytes,
            waiting: report.waiting,
            waited_seconds: report.waited.as_secs_f64(),
            behind: behind.collect(),
        }
    }
}
