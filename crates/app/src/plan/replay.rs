//! A trace under a policy, in virtual time.

use std::cell::RefCell;

use evenkeel_core::time::Span;
use evenkeel_engine::policy::Policy;
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::result::Summary;
use evenkeel_sim::scenario::{
    BackendDevice, PolicyChange, Replay as Replayed, ReplayTiming, Scenario,
};

use super::route::Routes;
use super::survey::Survey;
use crate::simulate::run::{observed, refuse, stream};
use crate::trace::input::TraceFile;

/// A trace to be replayed as often as is asked.
pub(super) struct Replay<'a> {
    pub(super) trace: &'a TraceFile,
    pub(super) survey: &'a Survey,
    /// How many times as fast as recorded.
    pub(super) speed: f64,
}

impl Replay<'_> {
    /// Replays it under a policy and those that replace it.
    ///
    /// # Errors
    /// [`crate::exit::Exit::Invalid`] for a policy or device that cannot be simulated, and what
    /// reading the trace says.
    pub(super) fn run(
        &self,
        policies: (&Policy, &[PolicyChange]),
        devices: &[BackendDevice],
        routes: &Routes<'_>,
    ) -> anyhow::Result<Summary> {
        let scenario = self.scenario(policies, devices, routes)?;
        let reader = self.trace.open()?;
        let fault = RefCell::new(None);
        let streams = vec![stream(reader, &fault)];
        let outcome = observed(|observe| evenkeel_sim::run_observed(&scenario, streams, observe));
        match fault.into_inner() {
            Some(error) => Err(error),
            None => outcome.map_err(refuse),
        }
    }

    fn scenario(
        &self,
        (policy, changes): (&Policy, &[PolicyChange]),
        devices: &[BackendDevice],
        routes: &Routes<'_>,
    ) -> anyhow::Result<Scenario> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
        let speed_milli = (self.speed * 1000.0).round() as u32;
        let replay = Replayed {
            name: "trace".to_owned(),
            routes: self.survey.routes(routes)?,
            otherwise: None,
            timing: ReplayTiming::Recorded { speed_milli },
            start: Span::ZERO,
            stop: None,
            window: None,
            continues: false,
            link: LinkSpec::default(),
        };
        Ok(Scenario {
            policy: policy.clone(),
            changes: changes.to_vec(),
            devices: devices.to_vec(),
            replays: vec![replay],
            length: self.survey.length,
            interval: self.survey.interval(),
            ..Scenario::default()
        })
    }
}
