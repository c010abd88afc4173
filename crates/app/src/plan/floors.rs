//! What the floors take of each device, for requests like the recorded ones.
//!
//! `evenkeel check` knows no requests and reckons with a range; a trace tells their sizes and which
//! of them read, and the forecast on which tier of a volume they fall. Tenants that the trace does
//! not have keep their range.

use evenkeel_engine::policy::Policy;
use evenkeel_engine::policy::admission::{Load, Measurements};
use evenkeel_sim::result::Summary;

use super::survey::{Asked, Survey};
use crate::check::verdict::Verdict;

/// The verdict on the floors; none if the policy has none.
pub(super) fn verdict(policy: &Policy, survey: &Survey, forecast: &Summary) -> Option<Verdict> {
    let load = |name: &str| {
        let asked = survey.tenants.iter().find(|asked| asked.name == name);
        asked.map_or_else(Load::default, |asked| load(asked, tiers(name, forecast)))
    };
    let loads: Vec<Load> = policy.tenants.iter().map(|tenant| load(&tenant.name)).collect();
    Verdict::new(policy, &policy.admission(&loads, &Measurements::new()))
}

fn load(asked: &Asked, tiers: Option<Vec<f64>>) -> Load {
    let reads = asked.reads as f64 / asked.transfers.max(1) as f64;
    Load {
        size_bytes: asked.bytes.checked_div(asked.transfers).filter(|&bytes| bytes > 0),
        reads: (asked.transfers > 0).then_some(reads),
        tiers,
    }
}

/// The parts of a tenant's requests that fall on each tier, if it asks one volume for anything: of
/// several volumes nobody can tell which its floor will be asked of.
fn tiers(name: &str, forecast: &Summary) -> Option<Vec<f64>> {
    let mut parts = forecast.domains.iter().filter_map(|domain| {
        let volume = domain.volume.as_ref()?;
        let row = domain.tenants.iter().position(|tenant| tenant.name == name)?;
        let hits = volume.hits.get(row)?;
        let all: u64 = hits.iter().sum();
        let part = |&hits: &u64| hits as f64 / all as f64;
        (all > 0).then(|| hits.iter().take(volume.tiers.len()).map(part).collect())
    });
    parts.next().filter(|_| parts.next().is_none())
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::report::{DomainReport, TenantReport, VolumeReport};

    use super::*;

    /// A forecast with one volume of two tiers, of whose requests one in four is on the slow one.
    fn forecast() -> Summary {
        let mut hits = [0; evenkeel_engine::policy::TIERS_MAX];
        (hits[0], hits[1]) = (25, 75);
        let tier = |server| evenkeel_engine::report::TierReport {
            server: evenkeel_core::id::ServerId(server),
            slots: 1,
            free_slots: 0,
            used_slots: 1,
        };
        let volume = VolumeReport {
            tiers: vec![tier(0), tier(1)],
            hits: vec![hits],
            ..VolumeReport::default()
        };
        let tenants = vec![TenantReport { name: "db".to_owned(), ..TenantReport::default() }];
        let domain = DomainReport { tenants, volume: Some(volume), ..DomainReport::default() };
        Summary { domains: vec![domain], ..Summary::default() }
    }

    #[test]
    fn the_trace_tells_sizes_and_directions_and_the_forecast_the_tiers() {
        let asked = Asked { bytes: 40_960, transfers: 5, reads: 4, ..Asked::default() };
        let expected =
            Load { size_bytes: Some(8192), reads: Some(0.8), tiers: Some(vec![0.25, 0.75]) };
        assert_eq!(load(&asked, tiers("db", &forecast())), expected);
        assert_eq!(tiers("other", &forecast()), None);
    }

    #[test]
    fn whoever_only_flushes_tells_nothing() {
        let asked = Asked { requests: 5, ..Asked::default() };
        assert_eq!(load(&asked, None), Load::default());
    }

    #[test]
    fn a_floor_that_depends_holds_or_fails_for_recorded_requests() {
        let text = "listen = [\"unix:s\"]\n\
             [[backend]]\nname = \"hdd\"\nfile = \"a\"\n\
             cost = \"request\"\ncapacity = \"100 iops\"\n\
             [[backend]]\nname = \"ssd\"\nfile = \"b\"\n\
             cost = \"request\"\ncapacity = \"5k iops\"\n\
             [[backend]]\nname = \"v\"\ntiers = [\"hdd\", \"ssd\"]\n\
             [[export]]\nname = \"db\"\n\
             [[tenant]]\nname = \"db\"\nmatch = { export = \"db\" }\nfloor = \"FLOOR\"\n";
        let may_hold = |floor: &str| {
            let policy = crate::config::parse(&text.replace("FLOOR", floor), "p").unwrap();
            let asked =
                Asked { name: "db".to_owned(), transfers: 1, bytes: 4096, ..Asked::default() };
            let survey = Survey { tenants: vec![asked], ..Survey::default() };
            verdict(&policy, &survey, &forecast()).unwrap().may_hold()
        };
        assert!(may_hold("400 iops"), "a quarter of them makes the 100 of the slow tier");
        assert!(!may_hold("401 iops"));
    }
}
