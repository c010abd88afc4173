//! Running a scenario.

use evenkeel_trace::Record;

use crate::checkers::Violation;
use crate::device::Device;
use crate::device::build::{DeviceError, build as build_device};
use crate::result::{Progress, Summary};
use crate::scenario::{Scenario, ScenarioFault};
use crate::world::{self, Recording, Stop};

/// Where the records of a replay come from.
pub type Stream<'s> = Box<dyn Iterator<Item = Record> + 's>;

/// Why a scenario gave no result.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// It makes no sense, its backlog never ends, or no time passes in it.
    #[error("{0}")]
    Scenario(ScenarioFault),
    /// Something that must never happen did: a fault of this program.
    #[error("a checker stopped the run {0}; the scenario and its seed reproduce it")]
    Violation(Violation),
}

/// Runs a scenario without replays.
///
/// # Errors
/// [`SimError::Scenario`] if it cannot run, its backlog never ends or no time passes in it,
/// [`SimError::Violation`] if a checker finds a fault.
pub fn run(scenario: &Scenario) -> Result<Summary, SimError> {
    run_observed(scenario, Vec::new(), &mut |_| ())
}

/// Runs a scenario. `streams` are the records of its replays, in their order, each sorted by time;
/// they are read as the run goes on, one record ahead. `observe` hears now and then how far it is.
///
/// # Errors
/// As [`run`].
pub fn run_observed(
    scenario: &Scenario,
    streams: Vec<Stream<'_>>,
    observe: &mut dyn FnMut(&Progress),
) -> Result<Summary, SimError> {
    scenario.check().map_err(SimError::Scenario)?;
    let devices = devices(scenario).map_err(SimError::Scenario)?;
    run_on(scenario, devices, streams, observe)
}

/// Runs a scenario without replays, and tells what its gate would have recorded.
///
/// # Errors
/// As [`run`].
pub fn run_recorded(scenario: &Scenario) -> Result<(Summary, Recording), SimError> {
    scenario.check().map_err(SimError::Scenario)?;
    let devices = devices(scenario).map_err(SimError::Scenario)?;
    let mut world = world::build(scenario, devices, Vec::new()).map_err(SimError::Scenario)?;
    world.record();
    world.run(&mut |_| ()).map_err(stopped)
}

fn stopped(stop: Stop) -> SimError {
    match stop {
        Stop::Endless(fault) => SimError::Scenario(fault),
        Stop::Violation(violation) => SimError::Violation(*violation),
    }
}

/// Runs a checked scenario on devices of the caller's, one for each of [`world::stores`].
pub(crate) fn run_on(
    scenario: &Scenario,
    devices: Vec<Box<dyn Device>>,
    streams: Vec<Stream<'_>>,
    observe: &mut dyn FnMut(&Progress),
) -> Result<Summary, SimError> {
    if streams.len() != scenario.replays.len() {
        let what = format!("{} replays and {} streams", scenario.replays.len(), streams.len());
        return Err(SimError::Scenario(ScenarioFault { place: "replays".to_owned(), what }));
    }
    let world = world::build(scenario, devices, streams).map_err(SimError::Scenario)?;
    world.run(observe).map(|(summary, _)| summary).map_err(stopped)
}

/// The devices behind the stores.
fn devices(scenario: &Scenario) -> Result<Vec<Box<dyn Device>>, ScenarioFault> {
    let backends = world::stores(&scenario.policy).enumerate();
    let device = |(index, backend): (usize, &evenkeel_engine::policy::Backend)| {
        let found = scenario.devices.iter().find(|one| one.backend == backend.name);
        let entry = found.expect("the check wants a device for each store");
        let seed = world::seed_of(scenario, world::Purpose::Device, index);
        let place = format!("device {:?}", backend.name);
        let fault = |error: DeviceError| ScenarioFault { place, what: error.to_string() };
        build_device(&entry.device, seed).map_err(fault)
    };
    backends.map(device).collect()
}
