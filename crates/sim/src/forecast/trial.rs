//! Forecasts held against what happens: drawn storage and three tenants, of whom one hurts the
//! others, recorded in observe mode and then played again in enforce mode.
//!
//! Not all of it is of the kind that a forecast supposes: disks seek and order their queues, and
//! the backup comes and goes.

use evenkeel_core::prng::Prng;
use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Backend, Depth, Export, Mode, Policy, Scheduling, Source, Tenant};

use super::{Forecast, ForecastError, Recorded, Under, forecast};
use crate::device::hdd;
use crate::device::spec::{
    ConstantSpec, DelaySpec, DeviceSpec, DriveSource, HddSpec, NbdkitService, RateSpec,
};
use crate::link::LinkSpec;
use crate::result::Summary;
use crate::scenario::{Arrivals, BackendDevice, Pattern, Route, Scenario, WeightedSize, Workload};
use crate::{SimError, run, run_recorded};

/// What each export has.
const EXPORT_BYTES: u64 = 256 << 20;

/// Three tenants on a device, drawn by a seed.
#[derive(Clone, Debug)]
pub struct Trial {
    scenario: Scenario,
    words: String,
}

/// A forecast, and what happened.
#[derive(Debug)]
pub struct Outcome {
    /// What was forecast.
    pub forecast: Forecast,
    /// What came of the proposed policy.
    pub truth: Summary,
}

/// The names of the tenants; the first is the one that hurts.
pub const TENANTS: [&str; 3] = ["backup", "db", "web"];

impl Trial {
    /// The trial of this seed, of so long a recording.
    pub fn draw(seed: u64, length: Span) -> Self {
        let mut draw = Draw(Prng::new(seed));
        let (device, device_words, bytes) = draw.device();
        let shares = [1, draw.pick(&[2, 4, 8]), draw.pick(&[1, 2, 4])];
        let (workloads, client_words) = draw.clients(length, bytes);
        let link = LinkSpec { delay: Span::from_micros(20), ..LinkSpec::default() };
        let scenario = Scenario {
            policy: policy(shares),
            devices: vec![BackendDevice { backend: "array".to_owned(), device, link }],
            workloads,
            length,
            interval: Span(length.0 / 20),
            seed,
            ..Scenario::default()
        };
        Self { scenario, words: format!("{device_words}; {client_words}; shares {shares:?}") }
    }

    /// What it is, for people.
    pub fn describe(&self) -> &str {
        &self.words
    }

    /// Records, forecasts, and lets it happen.
    ///
    /// # Errors
    /// If there is no forecast, or a run fails.
    pub fn run(&self) -> Result<Outcome, ForecastError> {
        let (_, recording) = run_recorded(&self.scenario)?;
        let proposed = Policy { mode: Mode::Enforce, ..self.scenario.policy.clone() };
        let routes: Vec<Route> = recording.sources.names().iter().map(|name| route(name)).collect();
        let recorded = Recorded {
            sources: &recording.sources,
            records: &recording.records,
            length: self.scenario.length,
        };
        let present = Under { policy: &self.scenario.policy, routes: &routes };
        let forecast = forecast(
            &recorded,
            present,
            Under { policy: &proposed, routes: &routes },
            &mut |_| (),
        )?;
        Ok(Outcome { truth: self.truth(proposed, forecast.counted)?, forecast })
    }

    fn truth(&self, policy: Policy, counted: Span) -> Result<Summary, SimError> {
        let mut scenario = Scenario { policy, ..self.scenario.clone() };
        scenario.warm_up = Span(scenario.length.0 - counted.0);
        scenario.length = counted;
        run(&scenario)
    }
}

fn route(name: &str) -> Route {
    let (tenant, target) = name.split_once('/').expect("a gate names its sources so");
    Route { tenant: Some(tenant.to_owned()), target: target.to_owned() }
}

fn policy(shares: [u32; 3]) -> Policy {
    let scheduling = Scheduling {
        depth: Depth::Automatic,
        is_cost_learned: true,
        is_unit_found: true,
        ..Scheduling::default()
    };
    let array = Backend { name: "array".to_owned(), source: Source::Memory, scheduling };
    let export = |(place, name): (u64, &&str)| Export {
        name: (*name).to_owned(),
        backend: "array".to_owned(),
        offset_bytes: place * EXPORT_BYTES,
        size_bytes: Some(EXPORT_BYTES),
        source: None,
        read_only: false,
        allow: None,
        description: None,
    };
    let tenant = |(name, share): (&&str, u32)| Tenant {
        name: (*name).to_owned(),
        matches: Vec::new(),
        share: Share { weight_milli: share * 1000, ..Share::default() },
        read_only: false,
    };
    Policy {
        mode: Mode::Observe,
        backends: vec![array],
        exports: (0..).zip(&TENANTS).map(export).collect(),
        tenants: TENANTS.iter().zip(shares).map(tenant).collect(),
        ..Policy::default()
    }
}

/// Draws what a trial is made of.
struct Draw(Prng);

impl Draw {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.0.below(of.len() as u64)).expect("few")]
    }

    /// A device, what it is, and about how many bytes a second it does at best.
    fn device(&mut self) -> (DeviceSpec, String, f64) {
        let size_bytes = 3 * EXPORT_BYTES;
        let service = NbdkitService { connections: 4, ..NbdkitService::default() };
        match self.0.below(4) {
            0 => {
                let fixed = self.pick(&[1, 2, 4, 8].map(Span::from_millis));
                let rate_bytes = self.pick(&[20, 50, 100]) << 20;
                let servers = self.pick(&[1, 2, 4, 8, 16]);
                let spec = ConstantSpec { size_bytes, fixed, rate_bytes, servers };
                let words = format!("{servers} at once, {fixed} and {} MiB/s", rate_bytes >> 20);
                let seconds = fixed.as_secs_f64() + 65_536.0 / rate_bytes as f64;
                (DeviceSpec::Constant(spec), words, f64::from(servers) * 65_536.0 / seconds)
            }
            1 => {
                let mib = self.pick(&[10, 20, 40]);
                let overhead = self.pick(&[4, 8].map(Span::from_millis));
                let service = NbdkitService { overhead, ..service };
                let spec =
                    RateSpec { size_bytes, rate_bits: mib << 23, service, ..RateSpec::default() };
                (
                    DeviceSpec::Rate(spec),
                    format!("{mib} MiB/s, {overhead} away"),
                    (mib << 20) as f64,
                )
            }
            2 => {
                let read = self.pick(&[5, 10, 20].map(Span::from_millis));
                let spec =
                    DelaySpec { size_bytes, read, write: read, service, ..DelaySpec::default() };
                let bytes = 64.0 * 65_536.0 / read.as_secs_f64();
                (DeviceSpec::Delay(spec), format!("{read} in parallel"), bytes)
            }
            _ => {
                let name = self.pick(&hdd::BUILT_IN);
                let drive = DriveSource::BuiltIn(name.to_owned());
                let spec = HddSpec { drive, order: hdd::Policy::Sptf };
                (DeviceSpec::Hdd(spec), format!("disk {name}"), 8e6)
            }
        }
    }

    /// The three tenants, and what they do.
    fn clients(&mut self, length: Span, bytes: f64) -> (Vec<Workload>, String) {
        let sizes = |kib: u32| vec![WeightedSize { size_bytes: kib << 10, weight: 1 }];
        let base = |name: &str| Workload {
            name: name.to_owned(),
            tenant: Some(name.to_owned()),
            targets: vec![name.to_owned()],
            ..Workload::default()
        };
        let (large_kib, depth) = (self.pick(&[64, 128, 256]), self.pick(&[8, 16, 32, 64]));
        let read_percent = self.pick(&[0, 50, 100]);
        let idle = self.rests(length);
        let backup = Workload {
            depth,
            sizes: sizes(large_kib),
            pattern: self.pick(&[Pattern::Sequential, Pattern::Uniform]),
            read_percent,
            idle,
            ..base(TENANTS[0])
        };
        let (small_kib, places) = (self.pick(&[4, 8, 16]), self.pick(&[1, 2, 4, 8, 16]));
        let think = self.pick(&[0, 0, 2, 10].map(Span::from_millis));
        let db = Workload {
            depth: places,
            sizes: sizes(small_kib),
            read_percent: self.pick(&[70, 100]),
            arrivals: Arrivals::Closed { think },
            ..base(TENANTS[1])
        };
        let part = self.pick(&[0.01, 0.03, 0.06]);
        let per_second = (part * bytes / 8192.0).clamp(2.0, 400.0);
        let web = Workload {
            depth: 256,
            sizes: sizes(8),
            arrivals: Arrivals::Poisson { per_second },
            read_percent: 90,
            ..base(TENANTS[2])
        };
        let words = format!(
            "backup {depth} x {large_kib} KiB ({read_percent} % reads, {} rests), db {places} x \
             {small_kib} KiB thinking {think}, web {per_second:.0}/s",
            backup.idle.len()
        );
        (vec![backup, db, web], words)
    }

    /// When the backup rests: now and then, for a part of the time.
    fn rests(&mut self, length: Span) -> Vec<std::ops::Range<Span>> {
        let count = self.pick(&[0, 1, 3, 8]);
        let each = length.0 / (count + 1);
        let mut rest = |index: u64| {
            let long = each / 4 + self.0.below(each / 4);
            let start = index * each + self.0.below(each - long);
            Span(start)..Span(start + long)
        };
        (0..count).map(&mut rest).collect()
    }
}
