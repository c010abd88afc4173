//! vPFS: "Virtualization-based Bandwidth Management for Parallel Storage" (PDSW 2010).
//!
//! ```text
//! app1: 32 clients --+--> gate --> data server        each client: one striped write at a time,
//!                    +--> gate --> data server        a part to every server, a barrier at the end
//! app2: 32 clients --+--> gate --> data server
//!                    +--> gate --> data server        each gate: SFQ(D), no word to the others
//! ```
//!
//! The servers are nbdkit processes limited to a rate; the gates are `evenkeel serve` processes.
//! The paper's servers gave about 7 MB/s each. Here they give four times as much, so that a run
//! holds four times as many requests: at 16:1 the lesser tenant's share of 7 MB/s is two requests
//! a second, and a ratio within 5 % would take minutes to tell. The gates' processor time is four
//! times as large for it, and is held against the paper's bound all the same.

mod cluster;
mod overhead;
mod reference;
mod shares;
mod simulated;

use std::slice;

use evenkeel_core::time::Span;
use serde::Serialize;

use super::Options;
use super::claim::{self, Claim};
use crate::evidence::machine::{Bears, Conditions};
use crate::exit::Exit;
use crate::plot::{Bars, Chart, Figure};
use crate::stage::find_nbdkit;
use crate::terminal;
use cluster::{APPLICATIONS, Cluster, Settings};
use overhead::Compared;
use reference::Reference;
use shares::{Bounds, Experiment, Outcome};

/// How to run the experiments.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct VpfsOptions {
    #[command(flatten)]
    common: Options,
    /// Run the experiments on sharing in virtual time: beside the live ones, or only so, which
    /// takes seconds and needs no nbdkit.
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "beside")]
    simulated: Option<Simulated>,
}

/// What becomes of the live experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Simulated {
    /// They run too.
    Beside,
    /// They do not.
    Only,
}

/// Our data servers are so many times as fast as the paper's.
const RATE_SCALE: f64 = 4.0;

const SERVERS: usize = 4;

/// All processes together take a third of a core. A request takes 9 ms at a server, and the hold
/// bridges 100 ms: what ends a few milliseconds late changes no share.
const BEARS: Bears = Bears { cores: 0.5, late_median_ms: 1.0, late_p99_ms: 5.0, uses_disks: false };

/// Clients of each application where they are equal.
const CLIENTS: u32 = 32;

/// How large the experiments are.
#[derive(Clone, Copy, Debug)]
struct Scale {
    ramp: Span,
    runtime: Span,
    overhead_ramp: Span,
    overhead_runtime: Span,
    /// Interleaved rounds of direct and gated.
    rounds: usize,
    memory_requests: u64,
    /// Part by which a ratio may miss its target.
    ratio_slack: f64,
    /// Part by which equal shares may differ.
    equal_slack: f64,
    /// Leaves out the rows between the extremes.
    extremes_only: bool,
    seed: u64,
}

impl Scale {
    fn full(seed: u64) -> Self {
        Self {
            ramp: Span::from_secs(3),
            runtime: Span::from_secs(16),
            overhead_ramp: Span::from_secs(1),
            overhead_runtime: Span::from_secs(4),
            rounds: 5,
            memory_requests: 1_000_000,
            ratio_slack: 0.05,
            equal_slack: 0.02,
            extremes_only: false,
            seed,
        }
    }

    fn of(options: &Options) -> Self {
        let full = Self::full(options.seed);
        if !options.quick {
            return full;
        }
        Self {
            ramp: Span::from_secs(1),
            runtime: Span::from_secs(5),
            overhead_runtime: Span::from_secs(1),
            rounds: 3,
            memory_requests: 100_000,
            ratio_slack: 0.10,
            equal_slack: 0.05,
            extremes_only: true,
            ..full
        }
    }
}

/// Everything that was found.
#[derive(Debug, Default)]
struct Findings {
    claims: Vec<Claim>,
    figures: Vec<Figure>,
}

#[derive(Debug, Serialize)]
struct More<'a> {
    setting: &'a str,
    data_server: &'a str,
}

/// Where experiments are carried out.
struct Worlds {
    /// The testbed, if they run live.
    live: Option<Cluster>,
    /// Whether they run in virtual time.
    is_simulated: bool,
    /// Of each data server.
    rate_bytes: u64,
    scale: Scale,
}

impl Worlds {
    /// Carries an experiment out in each world, a claim for each; the live outcome, or else the
    /// simulated one.
    fn run(
        &mut self,
        experiment: &Experiment,
        (what, paper, bounds): (&str, f64, Bounds),
        claims: &mut Vec<Claim>,
    ) -> anyhow::Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        if let Some(cluster) = &mut self.live {
            terminal::say(what);
            let run = || experiment.run(cluster, &self.scale);
            let (outcome, conditions) = Conditions::during(BEARS, run)?;
            let outcome = outcome?;
            let mut claim = outcome.claim(what.to_owned(), paper, bounds);
            claim::temper(slice::from_mut(&mut claim), &conditions);
            claims.push(claim);
            outcomes.push(outcome);
        }
        if self.is_simulated {
            let outcome = simulated::run(experiment, self.rate_bytes, &self.scale)?;
            claims.push(outcome.claim(format!("{what}, simulated"), paper, bounds));
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// What the outcomes of [`Self::run`] are called in a figure.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let live = self.live.as_ref().map(|_| "here");
        live.into_iter().chain(self.is_simulated.then_some("simulated"))
    }
}

/// Runs the experiments and shows what came of them.
pub(super) fn run(options: &VpfsOptions) -> anyhow::Result<Exit> {
    let VpfsOptions { common: options, simulated } = options;
    let is_live = *simulated != Some(Simulated::Only);
    let nbdkit = if is_live { find_nbdkit()? } else { "none: simulated".to_owned() };
    let scale = Scale::of(options);
    let reference = Reference::load();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small rate")]
    let rate_bytes = (reference.server_rate_mb * RATE_SCALE * 1e6) as u64;
    let setting = cluster::describe(rate_bytes, Settings::CHOSEN);
    terminal::say(&format!("vPFS (PDSW 2010): {setting}; data servers: {nbdkit}"));

    let mut findings = Findings::default();
    let live = is_live.then(|| Cluster::start(SERVERS, Some(rate_bytes))).transpose()?;
    let mut worlds = Worlds { live, is_simulated: simulated.is_some(), rate_bytes, scale };
    ratios(&mut findings, &reference, &mut worlds)?;
    unequal(&mut findings, &reference, &mut worlds)?;
    if let Some(mut cluster) = worlds.live.take() {
        costs(&mut findings, &reference, &mut cluster, &scale)?;
        drop(cluster);
        terminal::say("memory of a gate before a fast server");
        findings.claims.push(overhead::memory(&reference.proxy, &scale)?);
    }

    options.draw(|| findings.figures)?;
    let more = More { setting: &setting, data_server: &nbdkit };
    claim::show_with(&more, "vpfs", options, &findings.claims, "PAPER")
}

/// Two equal applications at unequal shares.
fn ratios(
    findings: &mut Findings,
    reference: &Reference,
    worlds: &mut Worlds,
) -> anyhow::Result<()> {
    for (number, row) in reference.ratio.iter().enumerate() {
        let mut groups = Vec::new();
        let names = ["asked for", "paper"].into_iter().chain(worlds.names());
        let mut series: Vec<Bars> = names.map(Bars::empty).collect();
        let last = row.targets.len() - 1;
        for (index, (&target, &paper)) in row.targets.iter().zip(&row.achieved).enumerate() {
            let is_extreme = index == last || (number, index) == (0, 0);
            if worlds.scale.extremes_only && !is_extreme {
                continue;
            }
            let what = format!("shares {target}:1, {} KiB per server", row.size_kib);
            let experiment = Experiment {
                target,
                clients: [CLIENTS, CLIENTS],
                size_kib: row.size_kib,
                settings: Settings::CHOSEN,
            };
            let bounds = Bounds::around(target, worlds.scale.ratio_slack);
            let claimed = (what.as_str(), paper, bounds);
            let outcomes = worlds.run(&experiment, claimed, &mut findings.claims)?;
            groups.push(format!("{target}:1"));
            let ratios = outcomes.iter().map(|outcome| outcome.ratio);
            for (bars, value) in series.iter_mut().zip([target, paper].into_iter().chain(ratios)) {
                bars.values.push(Some(value));
            }
        }
        let title = format!("Achieved ratio, {} KiB per server", row.size_kib);
        let chart = Chart::bars(title, "throughput of app1 over app2", groups, series);
        findings.figures.push(Figure::new(format!("vpfs-ratio-{}k", row.size_kib), chart));
    }
    Ok(())
}

/// Two unequal applications at equal shares.
fn unequal(
    findings: &mut Findings,
    reference: &Reference,
    worlds: &mut Worlds,
) -> anyhow::Result<()> {
    let mut groups = Vec::new();
    let mut series: Vec<Bars> = worlds
        .names()
        .flat_map(|world| APPLICATIONS.map(|name| Bars::empty(&format!("{name}, {world}"))))
        .collect();
    for row in &reference.unequal {
        let [first, second] = row.clients;
        if worlds.scale.extremes_only && first / second < 16 {
            continue;
        }
        let what = format!("equal shares, clients {first}:{second}");
        let experiment = Experiment {
            target: 1.0,
            clients: row.clients,
            size_kib: 256,
            settings: Settings::CHOSEN,
        };
        let bounds = Bounds::around(1.0, worlds.scale.equal_slack);
        let claimed = (what.as_str(), row.achieved, bounds);
        let outcomes = worlds.run(&experiment, claimed, &mut findings.claims)?;
        groups.push(format!("{first}:{second}"));
        let rates = outcomes.iter().flat_map(|outcome| outcome.rates);
        for (bars, rate) in series.iter_mut().zip(rates) {
            bars.values.push(Some(rate / 1e6));
        }
    }
    let title = "Equal shares, unequal numbers of clients";
    let chart = Chart::bars(title, "throughput (MB/s)", groups, series);
    findings.figures.push(Figure::new("vpfs-unequal-clients", chart));
    Ok(())
}

/// What the gates cost one application.
fn costs(
    findings: &mut Findings,
    reference: &Reference,
    cluster: &mut Cluster,
    scale: &Scale,
) -> anyhow::Result<()> {
    let gates = cluster.gates([1.0, 1.0], Settings::CHOSEN)?;
    let mut rows: Vec<(&reference::Overhead, Compared)> = Vec::new();
    let mut conditions = Vec::new();
    for row in &reference.overhead {
        if scale.extremes_only && row.servers != SERVERS {
            continue;
        }
        let Scale { rounds, .. } = scale;
        let (clients, servers) = (row.clients, row.servers);
        terminal::say(&format!("overhead, {clients}:{servers} clients:servers, {rounds} rounds"));
        let compare = || overhead::compare(row, cluster, &gates, scale);
        let (compared, seen) = Conditions::during(BEARS, compare)?;
        rows.push((row, compared?));
        conditions.push(seen);
    }
    let claims = rows.iter().map(|(row, compared)| compared.claim(row, scale.rounds));
    let mut claims: Vec<Claim> = claims.collect();
    if let Some((_, all_servers)) = rows.last() {
        claims.push(all_servers.cpu_claim(&reference.proxy));
        conditions.extend(conditions.last().cloned());
    }
    for (claim, conditions) in claims.iter_mut().zip(&conditions) {
        claim::temper(slice::from_mut(claim), conditions);
    }
    findings.claims.extend(claims);
    let bars = |name: &str, of: fn(&Compared) -> f64| Bars {
        name: name.to_owned(),
        values: rows.iter().map(|(_, compared)| Some(of(compared) / 1e6)).collect(),
    };
    let chart = Chart::bars(
        "Throughput with and without gates",
        "throughput (MB/s)",
        rows.iter().map(|(row, _)| format!("{}:{}", row.clients, row.servers)).collect(),
        vec![
            bars("direct", |compared| compared.direct),
            bars("through gates", |compared| compared.gated),
        ],
    );
    findings.figures.push(Figure::new("vpfs-overhead", chart));
    Ok(())
}
