//! The testbed: rate-limited data servers, each behind a gate of its own, and two applications.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::time::Span;
use evenkeel_io::load::{Layout, LoadPlan, LoadReport, LoadSpec, Pattern, WeightedSize};
use evenkeel_wire::nbd::uri::NbdUri;

use crate::load::measure;
use crate::stage::{DataServer, GateProcess, Pace, Stage};
use crate::status::Window;
use crate::units::print_rate;
use crate::units::{Amount, print_duration};

/// The two applications, and the exports, tenants and load groups that stand for them.
pub(super) const APPLICATIONS: [&str; 2] = ["app1", "app2"];

const EXPORT_BYTES: u64 = 1 << 30;

/// The gates' window of shares.
const WINDOW: Duration = Duration::from_secs(1);

/// How the gates schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// D of SFQ(D), in requests.
    pub(super) depth: u32,
    /// The longest hold for a tenant whose queue ran dry for a moment.
    pub(super) hold: Span,
}

/// Data servers.
#[derive(Debug)]
pub(super) struct Cluster {
    stage: Stage,
    servers: Vec<DataServer>,
    gates_started: u32,
}

/// Gates before the servers of a cluster.
#[derive(Debug)]
pub(super) struct Gates {
    pub(super) gates: Vec<GateProcess>,
}

/// One application's part of an experiment.
#[derive(Clone, Debug)]
pub(super) struct Application {
    pub(super) name: &'static str,
    pub(super) targets: Vec<NbdUri>,
    pub(super) clients: u32,
    pub(super) size_bytes: u32,
}

impl Cluster {
    /// `count` servers, limited to `rate_bytes` per second each if given.
    pub(super) fn start(count: usize, rate_bytes: Option<u64>) -> anyhow::Result<Self> {
        let stage = Stage::new()?;
        let pace = rate_bytes.map_or(Pace::Free, |rate_bytes| Pace::Rate { rate_bytes });
        let servers = (0..count)
            .map(|index| DataServer::start(&stage, &format!("data{index}"), EXPORT_BYTES, pace))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { stage, servers, gates_started: 0 })
    }

    /// Where the first `count` servers are.
    pub(super) fn direct(&self, count: usize) -> anyhow::Result<Vec<NbdUri>> {
        self.servers[..count].iter().map(|server| server.uri("")).collect()
    }

    /// A gate before each server, enforcing these shares of the two applications.
    pub(super) fn gates(&mut self, shares: [f64; 2], settings: Settings) -> anyhow::Result<Gates> {
        self.gates_started += 1;
        let mut gates = Vec::new();
        for (index, server) in self.servers.iter().enumerate() {
            let policy = policy(&server.uri("")?, shares, settings);
            let name = format!("gate{index}-{}", self.gates_started);
            gates.push(GateProcess::start(&self.stage, &name, &policy)?);
        }
        Ok(Gates { gates })
    }
}

fn policy(server: &NbdUri, shares: [f64; 2], settings: Settings) -> String {
    let mut text = format!(
        "mode = \"enforce\"\n\n[[backend]]\nname = \"data\"\nupstream = \"{server}\"\n\
         discipline = \"sfq\"\ncost = \"request\"\ndepth = {}\nhold = \"{}\"\n",
        settings.depth,
        print_duration(settings.hold)
    );
    for (name, share) in APPLICATIONS.iter().zip(shares) {
        text += &format!(
            "\n[[export]]\nname = \"{name}\"\n\n\
             [[tenant]]\nname = \"{name}\"\nmatch = {{ export = \"{name}\" }}\nshare = {share}\n"
        );
    }
    text
}

impl Gates {
    /// Where an application finds the first `count` gates.
    pub(super) fn targets(&self, application: &str, count: usize) -> anyhow::Result<Vec<NbdUri>> {
        self.gates[..count].iter().map(|gate| gate.uri(application)).collect()
    }

    /// Processor time of each gate so far, in seconds.
    pub(super) fn cpu_seconds(&self) -> anyhow::Result<Vec<f64>> {
        self.gates.iter().map(|gate| Ok(gate.usage()?.cpu_seconds)).collect()
    }

    /// Runs a plan and meanwhile looks at the gates' windows: for each application the mean over
    /// gates and time.
    pub(super) fn watched(&self, plan: &LoadPlan) -> anyhow::Result<(LoadReport, [Window; 2])> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| self.watch(plan.ramp, &over));
            let report = measure(plan);
            over.store(true, Ordering::Relaxed);
            let windows = watcher.join().expect("the watcher does not panic")?;
            Ok((report?, windows))
        })
    }

    fn watch(&self, ramp: Span, over: &AtomicBool) -> anyhow::Result<[Window; 2]> {
        let mut sums = [Window::default(); 2];
        let mut count = 0.0;
        // The first window that lies within the measured time ends a window after the ramp.
        let first = Duration::from_nanos(ramp.0) + WINDOW.mul_f64(1.1);
        std::thread::park_timeout(first);
        while !over.load(Ordering::Relaxed) {
            for gate in &self.gates {
                let status = gate.status()?;
                for (sum, name) in sums.iter_mut().zip(APPLICATIONS) {
                    let tenants = status.domains.iter().flat_map(|domain| &domain.tenants);
                    for tenant in tenants.filter(|tenant| tenant.name == name) {
                        add(sum, &tenant.window);
                    }
                }
                count += 1.0;
            }
            std::thread::park_timeout(WINDOW);
        }
        for sum in &mut sums {
            let all =
                [&mut sum.delivered, &mut sum.entitled, &mut sum.attainable, &mut sum.backlogged];
            for value in all {
                *value /= f64::max(count, 1.0);
            }
        }
        Ok(sums)
    }
}

fn add(sum: &mut Window, window: &Window) {
    sum.delivered += window.delivered;
    sum.entitled += window.entitled;
    sum.attainable += window.attainable;
    sum.backlogged += window.backlogged;
}

/// Everybody writes sequentially, one striped request per client at a time.
pub(super) fn plan(
    applications: &[Application],
    (ramp, runtime): (Span, Span),
    seed: u64,
) -> LoadPlan {
    let group = |application: &Application| LoadSpec {
        name: application.name.to_owned(),
        targets: application.targets.clone(),
        layout: Layout::Striped,
        clients: application.clients,
        sizes: vec![WeightedSize { size_bytes: application.size_bytes, weight: 1 }],
        pattern: Pattern::Sequential,
        read_percent: 0,
        ..LoadSpec::default()
    };
    LoadPlan {
        groups: applications.iter().map(group).collect(),
        ramp,
        runtime: Some(runtime),
        seed,
        ..LoadPlan::default()
    }
}

/// What stood where, for the head of the output.
pub(super) fn describe(rate_bytes: u64, settings: Settings) -> String {
    format!(
        "4 data servers of {}, 4 gates with SFQ(D), D = {}, hold {}, 1 per request",
        print_rate(Amount::Bytes(rate_bytes)),
        settings.depth,
        print_duration(settings.hold)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gates_policy_is_valid() {
        let server = "nbd+unix:///?socket=/tmp/data.sock".parse().unwrap();
        let settings = Settings { depth: 4, hold: Span::from_millis(25) };
        let text = policy(&server, [16.0, 1.0], settings);
        let listen = "listen = [\"unix:/tmp/gate.sock\"]\n";
        let parsed = crate::config::parse(&(listen.to_owned() + &text), "policy").unwrap();
        assert_eq!(parsed.tenants.len(), 2, "{text}");
    }
}
