//! A scenario in the real world: nbdkit as its device, a gate process, the load generator.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Address, Policy, Source};
use evenkeel_io::load::{self, LoadPlan, LoadReport, LoadSpec};
use evenkeel_sim::device::spec::DeviceSpec;
use evenkeel_sim::scenario::{self, Scenario, Workload};
use evenkeel_wire::nbd::uri::Transport;
use serde::Serialize;

use super::Outcome;
use crate::evidence::machine::Bears;
use crate::load::{measure, measure_observed};
use crate::stage::{DataServer, GateProcess, Pace, Stage};

/// The disk that this machine is measured on.
const MACHINE_BYTES: u64 = 64 << 20;

/// How long each of the two measurements of it takes.
const MACHINE_RUNTIME: Span = Span::from_secs(2);

/// Clients that keep its path busy.
const MACHINE_CLIENTS: u32 = 16;

/// A scenario takes a few percent of a core. Its requests take 20 ms and more, the mean may be 10 %
/// off and the 99th percentile 20 %; a sleep may take a fraction of either.
pub(super) const BEARS: Bears =
    Bears { cores: 0.5, late_median_ms: 0.5, late_p99_ms: 3.0, uses_disks: false };

/// Carries the scenario out; one outcome for each of its workloads.
pub(super) fn run(scenario: &Scenario) -> anyhow::Result<Vec<Outcome>> {
    let stage = Stage::new()?;
    let [device] = &scenario.devices[..] else {
        bail!("a scenario to be held against reality has one device")
    };
    let (size_bytes, pace) = pace(&device.device)?;
    let server = DataServer::start(&stage, "data", size_bytes, pace)?;
    let gate = GateProcess::start(&stage, "gate", &policy(&scenario.policy, &server)?)?;
    let policies = scenario
        .changes
        .iter()
        .map(|change| anyhow::Ok((change.at, policy(&change.policy, &server)?)));
    let policies: Vec<(Span, String)> = policies.collect::<anyhow::Result<_>>()?;
    let report = measured(&plan(scenario, &gate)?, &gate, &policies)?;
    Ok(outcomes(&report))
}

/// Carries out the load, and puts each later policy in force at its instant.
fn measured(
    plan: &LoadPlan,
    gate: &GateProcess,
    policies: &[(Span, String)],
) -> anyhow::Result<LoadReport> {
    let (told, starts) = mpsc::channel();
    std::thread::scope(|scope| {
        let load = scope.spawn(move || {
            measure_observed(plan, &mut |progress| {
                // Nobody listens any more once all policies are in force.
                let _ = told.send((Instant::now(), progress.elapsed));
            })
        });
        if !policies.is_empty() {
            // Whoever does not start has an error to tell.
            if let Ok((seen, elapsed)) = starts.recv() {
                for (at, policy) in policies {
                    let due = seen + Duration::from_nanos(at.0.saturating_sub(elapsed.0));
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    gate.reload(policy)?;
                }
            }
        }
        load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What this machine adds to a request, whatever the scenario.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Machine {
    /// Time of a request with nothing else under way, through the gate to memory and back.
    pub(super) alone_ns: u64,
    /// Time between two answers with many requests under way: what the path does one by one.
    pub(super) serial_ns: u64,
}

impl Machine {
    /// Measures it on a data server that is not slow.
    pub(super) fn measure() -> anyhow::Result<Self> {
        let stage = Stage::new()?;
        let server = DataServer::start(&stage, "data", MACHINE_BYTES, Pace::Free)?;
        let text = format!(
            "mode = \"enforce\"\n[[backend]]\nname = \"data\"\nupstream = \"{}\"\n\
             [[export]]\nname = \"disk\"\n",
            server.uri("")?
        );
        let gate = GateProcess::start(&stage, "gate", &text)?;
        let run = |clients| {
            let targets = vec![gate.uri("disk")?];
            let group = LoadSpec { targets, clients, ..LoadSpec::default() };
            let runtime = Some(MACHINE_RUNTIME);
            measure(&LoadPlan { groups: vec![group], runtime, ..LoadPlan::default() })
        };
        let alone_ns = run(1)?.groups[0].read.latency.histogram.mean().0;
        let report = run(MACHINE_CLIENTS)?;
        let serial_ns = report.measured.0 / report.groups[0].read.requests.max(1);
        Ok(Self { alone_ns, serial_ns })
    }

    /// The scenario on this machine: the gate takes its time for each request, and the rest of a
    /// lone request's time passes beside.
    pub(super) fn host(&self, scenario: &mut Scenario) {
        scenario.gate.request_time = Span(self.serial_ns);
        let overhead = Span(self.alone_ns.saturating_sub(self.serial_ns));
        for device in &mut scenario.devices {
            match &mut device.device {
                DeviceSpec::Rate(spec) => spec.service.overhead = overhead,
                DeviceSpec::Delay(spec) => spec.service.overhead = overhead,
                _ => {}
            }
        }
    }
}

/// The data server that a device stands for.
fn pace(device: &DeviceSpec) -> anyhow::Result<(u64, Pace)> {
    match device {
        DeviceSpec::Rate(spec) => {
            Ok((spec.size_bytes, Pace::Rate { rate_bytes: spec.rate_bits / 8 }))
        }
        DeviceSpec::Delay(spec) => {
            Ok((spec.size_bytes, Pace::Delay { read: spec.read, write: spec.write }))
        }
        _ => anyhow::bail!("only nbdkit's filters exist both live and simulated"),
    }
}

/// The policy with the data server behind each backend, as text for a gate.
fn policy(policy: &Policy, server: &DataServer) -> anyhow::Result<String> {
    let mut policy = policy.clone();
    let address = match server.uri("")?.transport {
        Transport::Unix { socket } => Address::Unix(socket.into()),
        Transport::Tcp { host, port } => Address::Tcp(format!("{host}:{port}")),
    };
    for backend in &mut policy.backends {
        if let Source::Upstream(upstream) = &mut backend.source {
            upstream.address = address.clone();
        }
    }
    Ok(crate::config::print(&policy))
}

fn plan(scenario: &Scenario, gate: &GateProcess) -> anyhow::Result<LoadPlan> {
    let groups = scenario.workloads.iter().map(|workload| group(workload, gate));
    Ok(LoadPlan {
        groups: groups.collect::<anyhow::Result<_>>()?,
        ramp: scenario.warm_up,
        runtime: Some(scenario.length),
        interval: scenario.interval,
        seed: scenario.seed,
        ..LoadPlan::default()
    })
}

/// The words of a workload mean the same to the load generator; what it cannot do is refused.
fn group(workload: &Workload, gate: &GateProcess) -> anyhow::Result<LoadSpec> {
    let targets = workload.targets.iter().map(|target| gate.uri(target));
    let only_simulated = Workload {
        start: workload.start,
        stop: workload.stop,
        requests: workload.requests,
        link: workload.link,
        ..Workload::default()
    };
    ensure!(
        only_simulated == Workload::default(),
        "workload {:?} has a start, a stop, a number of requests or a link of its own, which a \
         live run has not",
        workload.name
    );
    Ok(LoadSpec {
        name: workload.name.clone(),
        targets: targets.collect::<anyhow::Result<_>>()?,
        layout: workload.layout,
        clients: workload.clients,
        depth: workload.depth,
        arrivals: match workload.arrivals {
            scenario::Arrivals::Constant { per_second } => load::Arrivals::Constant { per_second },
            scenario::Arrivals::Poisson { per_second } => load::Arrivals::Poisson { per_second },
            scenario::Arrivals::Closed { think: Span::ZERO } => load::Arrivals::Closed,
            scenario::Arrivals::Closed { .. } | scenario::Arrivals::OnOff { .. } => {
                bail!(
                    "workload {:?} thinks or comes in bursts, which a live run cannot",
                    workload.name
                )
            }
        },
        sizes: workload.sizes.clone(),
        pattern: workload.pattern,
        read_percent: workload.read_percent,
        flush_every: workload.flush_every,
        range: workload.range.clone(),
        idle: workload.idle.clone(),
        ..LoadSpec::default()
    })
}

fn outcomes(report: &LoadReport) -> Vec<Outcome> {
    let outcome = |group: &load::GroupReport| {
        let mut latency = Histogram::default();
        let directions = [&group.read, &group.write];
        for one in directions {
            latency.merge(&one.latency.histogram);
        }
        let bytes = directions.iter().map(|one| one.bytes).sum();
        Outcome { workload: group.name.clone(), bytes, latency }
    };
    report.groups.iter().map(outcome).collect()
}
