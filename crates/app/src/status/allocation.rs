//! Who gets how much of a volume's tiers, and why, in the status document: the last solve of the
//! allocator behind the disciplines `fair`, `drf` and `baa`.

use evenkeel_core::share::Row;
use evenkeel_core::share::explain::HeldBy;
use evenkeel_engine::report::{AllocationReport, DomainReport};
use serde::{Deserialize, Serialize};

use super::tenant_name;

/// The last solve, and what happened in all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// The tiers, the slowest first.
    pub tiers: Vec<TierUse>,
    /// The tenants that take part.
    pub tenants: Vec<Given>,
    /// What the slow tier's tenants get of it over what the fast tier's get of that, in fair
    /// shares: 1 is dominant resource fairness. Only of two tiers that both have tenants.
    pub alpha: Option<f64>,
    /// What limits the levels, in words.
    pub binding: Vec<String>,
    /// Why the last solution was that of dominant resource fairness instead, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The part of their floors that tenants keep; 1 as long as all floors fit.
    pub floors_kept: f64,
    /// Solves so far.
    pub solves: u64,
    /// Solves in which dominant resource fairness had to take over.
    pub fallbacks: u64,
    /// Solves in which the floors did not fit.
    pub floors_scaled: u64,
    /// Changes of a tenant's mix of tiers that were noticed at once.
    pub changes: u64,
}

/// One tier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierUse {
    /// The backend's name.
    pub backend: String,
    /// Part of it that the allocation uses, 0 to 1.
    pub utilisation: f64,
    /// Part of it that dominant resource fairness would use.
    pub drf_utilisation: f64,
    /// Fair shares that the tenants bound by this tier get; null if there are none.
    pub level: Option<f64>,
}

/// What one tenant is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// Its name.
    pub tenant: String,
    /// The tier that it is bound by: of which it uses most, measured by what everybody may have.
    pub bound_by: String,
    /// What it would get of equal slices of every tier.
    pub fair_share_iops: f64,
    /// What it gets.
    pub given_iops: f64,
    /// What dominant resource fairness would give.
    pub drf_iops: f64,
    /// What decided: `level`, `floor`, `demand` (its limit, or that it asks for no more) or `idle`
    /// (what nobody else could use).
    pub held_by: String,
}

/// The allocation of a domain, if one dispatcher orders the requests for all of its tiers and any
/// came.
pub(super) fn allocation(domain: &DomainReport) -> Option<Allocation> {
    let report = domain.allocation.as_ref()?;
    let explanation = &report.last.explanation;
    let name = |device: usize| backend(domain, report, device);
    let tiers = explanation.devices.iter().enumerate().map(|(device, account)| TierUse {
        backend: name(device),
        utilisation: account.utilisation,
        drf_utilisation: account.drf_utilisation,
        level: account.level,
    });
    let clients = report.last.tenants.iter().zip(&explanation.clients);
    let tenants = clients.map(|(tenant, client)| Given {
        tenant: tenant_name(domain, tenant.index()).to_owned(),
        bound_by: name(client.set.index()),
        fair_share_iops: client.fair_share_iops,
        given_iops: client.given_iops,
        drf_iops: client.drf_iops,
        held_by: held_by(client.held_by).to_owned(),
    });
    Some(Allocation {
        tiers: tiers.collect(),
        tenants: tenants.collect(),
        alpha: explanation.alpha,
        binding: explanation.binding.iter().map(|row| binding(*row, &name)).collect(),
        fallback: explanation.fallback.map(|violation| violation.to_string()),
        floors_kept: report.last.floors_kept,
        solves: report.counters.solves,
        fallbacks: report.counters.fallbacks,
        floors_scaled: report.counters.floors_scaled,
        changes: report.counters.changes,
    })
}

/// The name of the backend that is this device of the dispatcher.
fn backend(domain: &DomainReport, report: &AllocationReport, device: usize) -> String {
    domain.servers[report.servers[device].index()].name.clone()
}

fn held_by(held_by: HeldBy) -> &'static str {
    match held_by {
        HeldBy::Level => "level",
        HeldBy::Floor => "floor",
        HeldBy::Cap => "demand",
        HeldBy::TopUp => "idle",
    }
}

fn binding(row: Row, name: &impl Fn(usize) -> String) -> String {
    match row {
        Row::Capacity(device) => format!("{} is full", name(device.index())),
        Row::Envy { holder, rival } => format!(
            "more for those bound by {} would be envied by those bound by {}",
            name(rival.index()),
            name(holder.index())
        ),
        Row::SharingIncentive(device) => {
            format!("those bound by {} get their fair share and no more", name(device.index()))
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::id::{ServerId, TenantId};
    use evenkeel_core::sched::tiered;
    use evenkeel_core::share::DeviceId;
    use evenkeel_core::share::explain::{ClientAccount, DeviceAccount, Explanation};
    use evenkeel_engine::report::{ServerReport, TenantReport};

    use super::*;

    #[test]
    fn tiers_and_tenants_have_their_names() {
        let server = |name: &str| ServerReport { name: name.to_owned(), ..ServerReport::default() };
        let tenant = |name: &str| TenantReport { name: name.to_owned(), ..TenantReport::default() };
        let device = |utilisation| DeviceAccount {
            capacity: 1.0,
            utilisation,
            drf_utilisation: 0.5,
            level: None,
        };
        let client = ClientAccount {
            set: DeviceId(0),
            fair_share_iops: 50.0,
            given_iops: 100.0,
            drf_iops: 80.0,
            held_by: HeldBy::Cap,
        };
        let explanation = Explanation {
            devices: vec![device(1.0), device(0.9)],
            clients: vec![client],
            alpha: None,
            binding: vec![
                Row::Capacity(DeviceId(0)),
                Row::Envy { holder: DeviceId(1), rival: DeviceId(0) },
            ],
            fallback: None,
        };
        let last = tiered::Status { tenants: vec![TenantId(1)], explanation, floors_kept: 1.0 };
        let domain = DomainReport {
            servers: vec![server("ssd"), server("hdd")],
            tenants: vec![tenant("default"), tenant("db")],
            allocation: Some(AllocationReport {
                servers: vec![ServerId(1), ServerId(0)],
                last,
                counters: tiered::Counters { solves: 7, ..tiered::Counters::default() },
            }),
            ..DomainReport::default()
        };
        let allocation = allocation(&domain).unwrap();
        let tiers: Vec<_> = allocation.tiers.iter().map(|tier| tier.backend.as_str()).collect();
        assert_eq!(tiers, ["hdd", "ssd"]);
        let given = &allocation.tenants[0];
        assert_eq!((given.tenant.as_str(), given.bound_by.as_str()), ("db", "hdd"));
        assert_eq!(given.held_by, "demand");
        assert_eq!(
            allocation.binding,
            ["hdd is full", "more for those bound by hdd would be envied by those bound by ssd",]
        );
        assert_eq!(allocation.solves, 7);
    }
}
