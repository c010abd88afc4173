//! Shares in front of servers with a rate limit of which the gate knows nothing: nbdkit's filter,
//! where small requests use up the allowance for which a large one sleeps. Depth and unit are
//! automatic; costs are learned, beside the default ones and what the limit says. Remedies were
//! tried on seeds below 10,000.
//!
//! `EVENKEEL_DEVICES` says how many servers; the table is printed.

use evenkeel_core::prng::Prng;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Depth, Scheduling};
use evenkeel_sim::device::spec::{DeviceSpec, NbdkitService, RateSpec};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::scenario::{BackendDevice, Pattern, Scenario, WeightedSize, Workload};

use crate::depths::{FIRST_SEED, devices, percentile};
use crate::scenes::{backend, clients, scene};

const SERVERS: u64 = 5;
/// A server has saved two seconds of allowance when it starts, and is one in memory for as long.
const SETTLING: Span = Span::from_secs(12);
const COUNTED: Span = Span::from_secs(6);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Costs {
    Default,
    Limit,
    Learned,
}

const ALL: [Costs; 3] = [Costs::Default, Costs::Limit, Costs::Learned];

/// A server, and two tenants that always ask: one for small requests, one for large ones in order.
struct Setting {
    weights: [u32; 2],
    spec: RateSpec,
    link: LinkSpec,
    loads: [Workload; 2],
    seed: u64,
}

impl Setting {
    fn draw(seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let mut pick = |of: &[u32]| of[usize::try_from(prng.below(of.len() as u64)).expect("few")];
        let [small, large] = [(4, 1), (2, 1), (1, 1), (1, 4)][pick(&[0, 1, 2, 3]) as usize].into();
        let spec = RateSpec {
            size_bytes: 16 << 30,
            rate_bits: u64::from(pick(&[80, 160, 320, 640, 1600, 3200])) << 20,
            service: NbdkitService {
                connections: 4,
                threads: 16,
                overhead: Span::from_micros(pick(&[5, 10, 20, 50]).into()),
                oversleep: Span::from_micros(pick(&[10, 50, 100]).into()),
            },
            ..RateSpec::default()
        };
        let delay = Span::from_micros(pick(&[10, 30, 100]).into());
        let mut load = |tenant: &str, depths: &[u32], sizes_kib: &[u32]| Workload {
            sizes: vec![WeightedSize { size_bytes: pick(sizes_kib) << 10, weight: 1 }],
            ..clients(tenant, 1, pick(depths))
        };
        let first = load("t0", &[8, 16, 32, 64], &[4, 4, 8, 16]);
        let second = load("t1", &[4, 8, 16, 32], &[64, 128, 256, 512]);
        let loads = [first, Workload { pattern: Pattern::Sequential, ..second }];
        let link = LinkSpec { delay, ..LinkSpec::default() };
        Self { weights: [small, large], spec, link, loads, seed }
    }

    fn scenario(&self, costs: Costs) -> Scenario {
        let line = Line { fixed: Span(1), rate_bytes: self.spec.rate_bits / 8 };
        let limit = CostModel::Linear { read: line, write: line, flush: Span(1) };
        let scheduling = Scheduling {
            depth: Depth::Automatic,
            cost: if costs == Costs::Limit { limit } else { CostModel::default() },
            is_cost_learned: costs == Costs::Learned,
            is_unit_found: true,
            ..Scheduling::default()
        };
        let mut scenario = scene(&self.weights, Depth::Automatic);
        scenario.policy.backends = vec![backend("disk", scheduling)];
        scenario.devices = vec![BackendDevice {
            backend: "disk".to_owned(),
            device: DeviceSpec::Rate(self.spec),
            link: self.link,
        }];
        scenario.workloads = self.loads.to_vec();
        scenario.seed = self.seed;
        (scenario.warm_up, scenario.length) = (SETTLING, COUNTED);
        scenario
    }

    /// What the small requests' tenant got for its weight, in times of what the other one got, in
    /// bytes.
    fn quotient(&self, costs: Costs) -> f64 {
        let summary = evenkeel_sim::run(&self.scenario(costs)).expect("it can run");
        // Whoever got nothing at all is not listed.
        let of = |one: usize| {
            let tenant = summary.tenants.iter().find(|tenant| tenant.name == format!("t{one}"));
            tenant.map_or(0.0, |tenant| tenant.share_bytes) / f64::from(self.weights[one])
        };
        of(0) / of(1)
    }

    fn describe(&self) -> String {
        let [small, large] = self
            .loads
            .each_ref()
            .map(|load| format!("{} x {} KiB", load.depth, load.sizes[0].size_bytes >> 10));
        let Self { weights: [one, other], spec, link, .. } = self;
        let NbdkitService { overhead, oversleep, .. } = spec.service;
        format!(
            "{small} and {large}, shares {one} and {other}; {} Mbit/s, {overhead} a request, \
             {oversleep} late, {} away",
            spec.rate_bits >> 20,
            link.delay
        )
    }
}

/// Prints a row, and returns the median and the worst quarter.
fn row(costs: Costs, quotients: impl Iterator<Item = f64>) -> [f64; 2] {
    let mut off: Vec<f64> = quotients.map(|quotient| quotient.max(1.0 / quotient)).collect();
    let within = |most: f64| {
        let count = off.iter().filter(|one| **one < most).count();
        100.0 * count as f64 / off.len() as f64
    };
    let [tenth, quarter] = [within(1.1), within(1.25)];
    let [median, worst_quarter, worst] = [50, 75, 90].map(|percent| percentile(&mut off, percent));
    println!(
        "| {costs:?} | {tenth:.0} % | {quarter:.0} % | {median:.2} | {worst_quarter:.2} | \
         {worst:.2} |"
    );
    [median, worst_quarter]
}

#[test]
fn learned_costs_give_fairer_shares_than_the_default_in_front_of_rate_limits() {
    let play = |seed| {
        let setting = Setting::draw(seed);
        let quotients = ALL.map(|costs| setting.quotient(costs));
        println!("{seed}: {quotients:.2?}: {}", setting.describe());
        quotients
    };
    let seeds = FIRST_SEED..FIRST_SEED + devices(SERVERS);
    let played: Vec<[f64; 3]> = seeds.map(play).collect();
    println!("| costs | within 10 % | within 25 % | median | worst quarter | worst tenth |");
    let rows = [0, 1, 2].map(|one| row(ALL[one], played.iter().map(|three| three[one])));
    let [default, limit, learned] = rows;
    assert!(limit[0] < 1.1, "docs/policy.md says to write it: {limit:.2?}");
    for (default, learned) in default.into_iter().zip(learned) {
        let gain = (default - 1.0) / (learned - 1.0);
        assert!(gain > 1.5, "{default:.2} and {learned:.2}");
    }
}
