//! What cannot run, found before anything does.

use std::fmt;

use evenkeel_core::time::Span;
use evenkeel_engine::policy::check::{Place, Severity};
use evenkeel_engine::policy::{Policy, Source};

use super::{
    Arrivals, CLIENTS_MAX, DEPTH_MAX, Replay, ReplayTiming, Route, SIZE_BYTES_MAX, Scenario,
    Workload,
};
use crate::faults::{FaultKind, LinkPlace};
use crate::link::LinkSpec;
use crate::world::stores;

/// The shortest interval of the time series.
const INTERVAL_MIN: Span = Span::from_millis(1);

/// The most entries of one time series.
const SERIES_MAX: u64 = 1 << 20;

/// Something that keeps a scenario from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFault {
    /// The part of the scenario: `workload "db"`, `device "array"`, `fault 2`, `policy`.
    pub place: String,
    /// What is wrong with it, and what would be right.
    pub what: String,
}

impl fmt::Display for ScenarioFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl Scenario {
    /// The first thing that keeps it from running.
    ///
    /// # Errors
    /// That thing.
    pub fn check(&self) -> Result<(), ScenarioFault> {
        self.check_times()?;
        check_policy(&self.policy, "policy")?;
        self.check_changes()?;
        self.check_devices()?;
        let clients: u64 = self.workloads.iter().map(|one| u64::from(one.clients)).sum();
        if clients > u64::from(CLIENTS_MAX) {
            return fault("scenario", format!("{clients} clients; at most {CLIENTS_MAX} can run"));
        }
        for workload in &self.workloads {
            self.check_workload(workload)?;
        }
        for replay in &self.replays {
            self.check_replay(replay)?;
        }
        for index in 0..self.faults.len() {
            self.check_fault(index)?;
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), ScenarioFault> {
        if self.length == Span::ZERO {
            return fault("scenario", "its length is zero; nothing would be measured");
        }
        if self.interval < INTERVAL_MIN || self.length.0 / self.interval.0 >= SERIES_MAX {
            let what = "its interval is below 1 ms or gives more than a million entries";
            return fault("scenario", what);
        }
        Ok(())
    }

    fn check_devices(&self) -> Result<(), ScenarioFault> {
        for backend in stores(&self.policy) {
            let count = self.devices.iter().filter(|one| one.backend == backend.name).count();
            if count != 1 {
                let what = format!("backend {:?} has {count} devices; give it one", backend.name);
                return fault("devices", what);
            }
        }
        for device in &self.devices {
            let place = format!("device {:?}", device.backend);
            if !self.has_backend(&device.backend) {
                return fault(place, "the policy has no backend of this name");
            }
            if !self.has_store(&device.backend) {
                return fault(place, "the backend is a tiered volume; its tiers have devices");
            }
            check_link(&place, &device.link)?;
        }
        Ok(())
    }

    fn has_backend(&self, name: &str) -> bool {
        self.policy.backends.iter().any(|backend| backend.name == name)
    }

    fn has_store(&self, name: &str) -> bool {
        stores(&self.policy).any(|backend| backend.name == name)
    }

    fn has_target(&self, name: &str) -> bool {
        self.has_backend(name) || self.policy.exports.iter().any(|export| export.name == name)
    }

    fn has_tenant(&self, name: &str) -> bool {
        self.policy.has_tenant(name)
            || self.changes.iter().any(|change| change.policy.has_tenant(name))
    }

    fn check_route(&self, place: &str, route: &Route) -> Result<(), ScenarioFault> {
        if !self.has_target(&route.target) {
            let what = format!("the policy has no export or backend {:?}", route.target);
            return fault(place, what);
        }
        match &route.tenant {
            Some(tenant) if !self.has_tenant(tenant) => {
                fault(place, format!("the policy has no tenant {tenant:?}"))
            }
            _ => Ok(()),
        }
    }

    fn check_workload(&self, workload: &Workload) -> Result<(), ScenarioFault> {
        let place = format!("workload {:?}", workload.name);
        for target in &workload.targets {
            let route = Route { tenant: workload.tenant.clone(), target: target.clone() };
            self.check_route(&place, &route)?;
        }
        check_link(&place, &workload.link)?;
        let in_bounds = |size: u32| (1..=SIZE_BYTES_MAX).contains(&size);
        let pattern = workload.pattern.fault();
        let positive = |rate: f64| rate.is_finite() && rate > 0.0;
        let faults = [
            (workload.targets.is_empty(), "it has no target"),
            (workload.clients == 0, "it has no clients"),
            (!(1..=DEPTH_MAX).contains(&workload.depth), "its depth is not within 1 to 4096"),
            (
                workload.sizes.is_empty()
                    || !workload.sizes.iter().all(|size| in_bounds(size.size_bytes)),
                "its sizes are not within 1 B to 32 MiB",
            ),
            (workload.sizes.iter().all(|size| size.weight == 0), "its sizes all have weight zero"),
            (workload.read_percent > 100, "more than 100 percent of its requests read"),
            (pattern.is_some(), pattern.unwrap_or_default()),
            (
                rate_of(workload.arrivals).is_some_and(|rate| !positive(rate)),
                "its rate is not above zero",
            ),
            (
                matches!(workload.arrivals, Arrivals::OnOff { on, .. } if on == Span::ZERO),
                "its bursts have no length",
            ),
            (workload.stop.is_some_and(|stop| stop <= workload.start), "it stops before it starts"),
            (
                workload.range.as_ref().is_some_and(|range| range.start >= range.end),
                "its range is empty",
            ),
        ];
        match faults.iter().find(|(is_fault, _)| *is_fault) {
            Some((_, what)) => fault(place, *what),
            None => Ok(()),
        }
    }

    fn check_replay(&self, replay: &Replay) -> Result<(), ScenarioFault> {
        let place = format!("replay {:?}", replay.name);
        for route in replay.routes.iter().chain(&replay.otherwise) {
            self.check_route(&place, route)?;
        }
        check_link(&place, &replay.link)?;
        match replay.timing {
            ReplayTiming::Recorded { speed_milli: 0 } => fault(place, "its speed is zero"),
            _ if replay.window == Some(0) => fault(place, "its window is zero"),
            ReplayTiming::Closed { depth, .. } if !(1..=DEPTH_MAX).contains(&depth) => {
                fault(place, "its depth is not within 1 to 4096")
            }
            _ if replay.routes.is_empty() && replay.otherwise.is_none() => {
                fault(place, "it has no route: none of its records would go anywhere")
            }
            _ => Ok(()),
        }
    }

    fn check_fault(&self, index: usize) -> Result<(), ScenarioFault> {
        let place = format!("fault {}", index + 1);
        let backend = match &self.faults[index].what {
            FaultKind::SlowDevice { time_percent, .. } if *time_percent < 100 => {
                return fault(place, "a slow device takes at least 100 percent of its time");
            }
            FaultKind::FailingDevice { permille, .. } if *permille > 1000 => {
                return fault(place, "more than 1000 of 1000 requests fail");
            }
            FaultKind::SlowDevice { backend, .. }
            | FaultKind::StuckDevice { backend }
            | FaultKind::FailingDevice { backend, .. }
            | FaultKind::LyingDevice { backend }
            | FaultKind::Link { place: LinkPlace::Backend(backend), .. } => backend,
            FaultKind::Link { place: LinkPlace::Workload(name), .. } => {
                let workloads = self.workloads.iter().map(|one| &one.name);
                let mut names = workloads.chain(self.replays.iter().map(|one| &one.name));
                if names.any(|one| one == name) {
                    return Ok(());
                }
                return fault(place, format!("there is no workload {name:?}"));
            }
            FaultKind::GateRestart => return Ok(()),
        };
        if !self.has_store(backend) {
            let what = format!("the policy has no backend {backend:?} with a device");
            return fault(place, what);
        }
        Ok(())
    }
}

fn rate_of(arrivals: Arrivals) -> Option<f64> {
    match arrivals {
        Arrivals::Closed { .. } => None,
        Arrivals::Constant { per_second }
        | Arrivals::Poisson { per_second }
        | Arrivals::OnOff { per_second, .. } => Some(per_second),
    }
}

fn check_link(place: &str, link: &LinkSpec) -> Result<(), ScenarioFault> {
    if link.loss_ppm > 1_000_000 {
        return fault(place, "its link loses more than all messages");
    }
    Ok(())
}

/// The policy's own check, but for what only a real gate needs.
pub(super) fn check_policy(policy: &Policy, place: &str) -> Result<(), ScenarioFault> {
    if let Some(volume) = policy.backends.iter().find(|one| one.spread().is_some()) {
        let what = format!("{:?} is spread over servers, which has no model", volume.name);
        return fault(place, what);
    }
    let counts = |place: &Place| match place {
        Place::Listener { .. } | Place::Memory { .. } => false,
        Place::Policy { field } => *field != "listeners" && *field != "exports",
        _ => true,
    };
    let mut problems = sized(policy).check().into_iter();
    let found = problems.find(|one| one.severity == Severity::Error && counts(&one.place));
    match found {
        Some(problem) => fault(place, format!("{}; {}", problem.message, problem.remedy)),
        None => Ok(()),
    }
}

/// The policy with a size for each tier: here devices tell how large they are.
fn sized(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    for backend in &mut policy.backends {
        if let Source::Tiered(volume) = &mut backend.source {
            volume.tiers.iter_mut().for_each(|tier| {
                tier.size_bytes.get_or_insert(u64::MAX);
            });
        }
    }
    policy
}

pub(super) fn fault<T>(
    place: impl Into<String>,
    what: impl Into<String>,
) -> Result<T, ScenarioFault> {
    Err(ScenarioFault { place: place.into(), what: what.into() })
}
