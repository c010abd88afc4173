//! What the gates cost: throughput against the bare data servers, processor time, memory.

use evenkeel_core::time::Span;
use evenkeel_io::load::{LoadPlan, LoadSpec, run_observed};

use super::super::claim::{Claim, Verdict};
use super::Scale;
use super::cluster::{APPLICATIONS, Application, Cluster, Gates, Settings, plan};
use super::reference::{Overhead, Proxy};
use crate::human;
use crate::load::measure;

/// Most throughput that gates may cost, as a part.
const THROUGHPUT_LOST_MAX: f64 = 0.01;
/// Most of a core that a gate may take, as a part.
const CPU_MAX: f64 = 0.03;
/// Most that a gate may grow while requests pass, in bytes: less than a byte and a half for each of
/// a million requests, so that nothing can be kept per request.
const GROWTH_MAX_BYTES: f64 = (3 << 19) as f64;
/// Growth is counted from this part of the requests on: buffers have then reached their size.
const WARM: f64 = 0.1;

const SIZE_BYTES: u32 = 256 << 10;

/// Throughput of one arrangement, by both ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    /// Medians, in bytes per second.
    pub(super) direct: f64,
    pub(super) gated: f64,
    /// The most of a core that one of the gates took.
    cpu: f64,
}

/// Measures one arrangement: direct and gated in turn, so that both see the same machine.
pub(super) fn compare(
    row: &Overhead,
    cluster: &Cluster,
    gates: &Gates,
    scale: &Scale,
) -> anyhow::Result<Compared> {
    let application = |targets| Application {
        name: APPLICATIONS[0],
        targets,
        clients: row.clients,
        size_bytes: SIZE_BYTES,
    };
    let bare = application(cluster.direct(row.servers)?);
    let fronted = application(gates.targets(APPLICATIONS[0], row.servers)?);
    let times = (scale.overhead_ramp, scale.overhead_runtime);
    let rate = |application: &Application| {
        let report = measure(&plan(std::slice::from_ref(application), times, scale.seed))?;
        anyhow::Ok(report.groups[0].steady_bytes_per_second)
    };
    // A server that rested has two seconds' worth of tokens; nobody's measurement shall have them.
    rate(&bare)?;
    let (mut direct_rates, mut gated_rates) = (Vec::new(), Vec::new());
    let mut cpu: f64 = 0.0;
    for _ in 0..scale.rounds {
        direct_rates.push(rate(&bare)?);
        let (before, started) = (gates.cpu_seconds()?, std::time::Instant::now());
        gated_rates.push(rate(&fronted)?);
        let elapsed = started.elapsed().as_secs_f64();
        let after = gates.cpu_seconds()?;
        let used = before.iter().zip(&after).map(|(before, after)| (after - before) / elapsed);
        cpu = used.fold(cpu, f64::max);
    }
    Ok(Compared { direct: median(direct_rates), gated: median(gated_rates), cpu })
}

impl Compared {
    /// Part of the throughput that the gates cost.
    pub(super) fn lost(&self) -> f64 {
        1.0 - self.gated / self.direct.max(1.0)
    }

    /// Held against the paper.
    pub(super) fn claim(&self, row: &Overhead, rounds: usize) -> Claim {
        let lost = self.lost();
        let verdict = Verdict::of(lost <= THROUGHPUT_LOST_MAX);
        Claim {
            id: format!("overhead-{}-{}", row.clients, row.servers),
            what: format!("throughput lost, {}:{} clients:servers", row.clients, row.servers),
            paper: format!("{:.1} %", row.percent),
            measured: format!(
                "{:.1} % ({:.1} for {:.1} MB/s)",
                lost * 100.0,
                self.gated / 1e6,
                self.direct / 1e6
            ),
            value: lost,
            tolerance: format!("<= {:.0} %", THROUGHPUT_LOST_MAX * 100.0),
            attainable: None,
            verdict,
            why: (verdict == Verdict::Fails)
                .then(|| format!("medians of {rounds} interleaved rounds")),
        }
    }

    /// Processor time, held against the paper.
    pub(super) fn cpu_claim(&self, proxy: &Proxy) -> Claim {
        let verdict = Verdict::of(self.cpu <= CPU_MAX);
        Claim {
            id: "gate-cpu".to_owned(),
            what: "processor time of a gate, of one core".to_owned(),
            paper: format!("{:.0} %", proxy.cpu_percent),
            measured: format!("{:.1} %", self.cpu * 100.0),
            value: self.cpu,
            tolerance: format!("<= {:.0} %", CPU_MAX * 100.0),
            attainable: None,
            verdict,
            why: (verdict == Verdict::Fails)
                .then(|| "the busiest gate in its busiest round".to_owned()),
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Resident memory of a gate while `scale.memory_requests` pass to a fast server.
pub(super) fn memory(proxy: &Proxy, scale: &Scale) -> anyhow::Result<Claim> {
    let mut cluster = Cluster::start(1, None)?;
    let gates = cluster.gates([1.0, 1.0], Settings { depth: 32, hold: Span::ZERO })?;
    let gate = &gates.gates[0];
    let spec = LoadSpec {
        targets: gates.targets(APPLICATIONS[0], 1)?,
        clients: 4,
        depth: 32,
        requests: Some(scale.memory_requests),
        read_percent: 50,
        ..LoadSpec::default()
    };
    let plan =
        LoadPlan { groups: vec![spec], runtime: None, seed: scale.seed, ..LoadPlan::default() };
    let mut resident = Vec::new();
    run_observed(&plan, &mut |progress| {
        if progress.done >= WARM
            && let Ok(usage) = gate.usage()
        {
            resident.push(usage.resident_bytes as f64);
        }
    })?;
    let (first, last) = (resident.first().copied(), resident.last().copied());
    let (first, last) = (first.unwrap_or(f64::INFINITY), last.unwrap_or(f64::INFINITY));
    let peak = resident.iter().copied().fold(0.0, f64::max);
    let bound = gate.status()?.memory.bound_bytes as f64;
    let growth = last - first;
    Ok(Claim {
        id: "gate-memory".to_owned(),
        what: format!(
            "resident memory over {} requests",
            human::count(scale.memory_requests as f64)
        ),
        paper: format!("{:.0} MB", proxy.memory_mb),
        measured: format!(
            "{} to {}, peak {}",
            human::size(first),
            human::size(last),
            human::size(peak)
        ),
        value: growth,
        tolerance: format!("growth <= {}", human::size(GROWTH_MAX_BYTES)),
        attainable: None,
        verdict: Verdict::of(growth <= GROWTH_MAX_BYTES),
        why: Some(format!(
            "flat is what is claimed; payload in the gate is bounded by {}, beside program and \
             accounts",
            human::size(bound)
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_number_is_the_middle() {
        assert!((median(vec![5.0, 1.0, 3.0]) - 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn throughput_and_processor_time_are_held_against_their_bounds() {
        let row = Overhead { clients: 16, servers: 1, percent: 2.9 };
        let compared = Compared { direct: 100.0e6, gated: 98.5e6, cpu: 0.02 };
        assert_eq!(compared.claim(&row, 5).verdict, Verdict::Fails);
        assert_eq!(Compared { gated: 99.5e6, ..compared }.claim(&row, 5).verdict, Verdict::Holds);
        let proxy = Proxy { cpu_percent: 3.0, memory_mb: 1.0 };
        assert_eq!(compared.cpu_claim(&proxy).verdict, Verdict::Holds);
        assert_eq!(Compared { cpu: 0.04, ..compared }.cpu_claim(&proxy).verdict, Verdict::Fails);
    }
}
