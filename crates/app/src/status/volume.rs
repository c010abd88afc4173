//! A tiered volume in the status document: how full its tiers are, who is served from where, and
//! what moving has come to.

use std::collections::BTreeMap;

use evenkeel_engine::report::{DomainReport, MovesReport, Stopped, VolumeReport};
use serde::{Deserialize, Serialize};

use super::tenant_name;

/// The open volume of a domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Its tiers, the slowest first.
    pub tiers: Vec<Tier>,
    /// What moving has come to.
    pub moves: Moves,
}

/// One tier of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// The backend's name.
    pub backend: String,
    /// Extents that there is room for.
    pub slots: u32,
    /// Extents that lie there.
    pub used_slots: u32,
    /// Room that may be used now; the rest is on its way from one state to the other.
    pub free_slots: u32,
    /// Reads and writes that went there, in units, by tenant.
    pub units: BTreeMap<String, u64>,
}

/// What moving has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moves {
    /// Moves that were completed.
    pub done: u64,
    /// Moves that were given up, since clients wrote too much or waited too long.
    pub given_up: u64,
    /// Moves that ended with an error of a tier.
    pub failed: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Why no extent is moved any more, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// The volume of a domain, if it has one and it is open.
pub(super) fn volume(domain: &DomainReport) -> Option<Volume> {
    let volume = domain.volume.as_ref()?;
    let tiers = (0..volume.tiers.len()).map(|index| tier(domain, volume, index));
    Some(Volume { tiers: tiers.collect(), moves: Moves::from(&volume.moves) })
}

fn tier(domain: &DomainReport, volume: &VolumeReport, index: usize) -> Tier {
    let tier = &volume.tiers[index];
    let by_tenant = volume.hits.iter().enumerate().filter(|(_, hits)| hits[index] > 0);
    let units = by_tenant.map(|(row, hits)| (tenant_name(domain, row).to_owned(), hits[index]));
    Tier {
        backend: domain.servers[tier.server.index()].name.clone(),
        slots: tier.slots,
        used_slots: tier.used_slots,
        free_slots: tier.free_slots,
        units: units.collect(),
    }
}

impl From<&MovesReport> for Moves {
    fn from(report: &MovesReport) -> Self {
        Self {
            done: report.done,
            given_up: report.given_up,
            failed: report.failed,
            copied_bytes: report.copied_bytes,
            stopped: report.stopped.map(why),
        }
    }
}

/// Why nothing moves, and what to do.
fn why(stopped: Stopped) -> String {
    match stopped {
        Stopped::InDoubt { extent } => format!(
            "the journal cannot be written, and until it is extent {extent} can only be read: see \
             to the fastest tier; the gate tries again at least once a minute"
        ),
        Stopped::MapNotWritten => "the map cannot be written: see to the fastest tier; the gate \
                                   tries again at least once a minute"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::id::ServerId;
    use evenkeel_engine::policy::TIERS_MAX;
    use evenkeel_engine::report::{ServerReport, TenantReport, TierReport};

    use super::*;

    #[test]
    fn tiers_have_the_names_of_their_backends_and_of_who_uses_them() {
        let server = |name: &str| ServerReport { name: name.to_owned(), ..ServerReport::default() };
        let tenant = |name: &str| TenantReport { name: name.to_owned(), ..TenantReport::default() };
        let slots = |server, slots| TierReport {
            server: ServerId(server),
            slots,
            free_slots: 1,
            used_slots: slots - 1,
        };
        let mut hits = vec![[0; TIERS_MAX]; 2];
        (hits[0][1], hits[1][0]) = (7, 5);
        let domain = DomainReport {
            servers: vec![server("ssd"), server("hdd")],
            tenants: vec![tenant("default"), tenant("db")],
            volume: Some(VolumeReport {
                tiers: vec![slots(1, 9), slots(0, 4)],
                hits,
                moves: MovesReport { done: 3, ..MovesReport::default() },
            }),
            ..DomainReport::default()
        };
        let volume = volume(&domain).unwrap();
        let tiers: Vec<_> =
            volume.tiers.iter().map(|tier| (tier.backend.as_str(), &tier.units)).collect();
        let units = |name: &str, units| BTreeMap::from([(name.to_owned(), units)]);
        assert_eq!(tiers, [("hdd", &units("db", 5)), ("ssd", &units("default", 7))]);
        assert_eq!((volume.tiers[0].used_slots, volume.moves.done), (8, 3));
    }
}
