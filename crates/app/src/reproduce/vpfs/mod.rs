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

use std::path::Path;

use anyhow::Context;
use evenkeel_core::time::Span;
use serde::Serialize;

use super::Options;
use super::claim::{self, Claim};
use super::svg::Chart;
use crate::exit::Exit;
use crate::stage::find_nbdkit;
use crate::terminal;
use cluster::{Cluster, Settings};
use overhead::Compared;
use reference::Reference;
use shares::{Bounds, Experiment, Outcome};

/// Our data servers are so many times as fast as the paper's.
const RATE_SCALE: f64 = 4.0;

const SERVERS: usize = 4;

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
    fn of(options: &Options) -> Self {
        let full = Self {
            ramp: Span::from_secs(3),
            runtime: Span::from_secs(16),
            overhead_ramp: Span::from_secs(1),
            overhead_runtime: Span::from_secs(4),
            rounds: 5,
            memory_requests: 1_000_000,
            ratio_slack: 0.05,
            equal_slack: 0.02,
            extremes_only: false,
            seed: options.seed,
        };
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
    charts: Vec<(&'static str, Chart)>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    paper: &'static str,
    setting: &'a str,
    data_server: &'a str,
    seed: u64,
    quick: bool,
    holds: bool,
    claims: &'a [Claim],
}

/// Runs the experiments and shows what came of them.
pub(super) fn run(options: &Options) -> anyhow::Result<Exit> {
    let nbdkit = find_nbdkit()?;
    let scale = Scale::of(options);
    let reference = Reference::load();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small rate")]
    let rate_bytes = (reference.server_rate_mb * RATE_SCALE * 1e6) as u64;
    let setting = cluster::describe(rate_bytes, Settings::CHOSEN);
    terminal::say(&format!("vPFS (PDSW 2010): {setting}; data servers: {nbdkit}"));

    let mut findings = Findings::default();
    let mut cluster = Cluster::start(SERVERS, Some(rate_bytes))?;
    ratios(&mut findings, &reference, &mut cluster, &scale)?;
    unequal(&mut findings, &reference, &mut cluster, &scale)?;
    costs(&mut findings, &reference, &mut cluster, &scale)?;
    drop(cluster);
    terminal::say("memory of a gate before a fast server");
    findings.claims.push(overhead::memory(&reference.proxy, &scale)?);

    if let Some(folder) = &options.plot {
        plot(folder, &findings.charts)?;
    }
    let exit = claim::exit(&findings.claims);
    if options.json {
        terminal::json(&Document {
            paper: "vpfs",
            setting: &setting,
            data_server: &nbdkit,
            seed: options.seed,
            quick: options.quick,
            holds: exit == Exit::Success,
            claims: &findings.claims,
        })?;
    } else {
        terminal::data(&claim::table(&findings.claims, terminal::colour_on_stdout()))?;
    }
    Ok(exit)
}

/// Two equal applications at unequal shares.
fn ratios(
    findings: &mut Findings,
    reference: &Reference,
    cluster: &mut Cluster,
    scale: &Scale,
) -> anyhow::Result<()> {
    for (number, row) in reference.ratio.iter().enumerate() {
        let mut chart = Chart {
            title: format!("Achieved ratio, {} KiB per server", row.size_kib),
            axis: "throughput of app1 over app2".to_owned(),
            groups: Vec::new(),
            series: ["asked for", "paper", "here"].map(|name| (name.to_owned(), Vec::new())).into(),
        };
        let last = row.targets.len() - 1;
        for (index, (&target, &paper)) in row.targets.iter().zip(&row.achieved).enumerate() {
            let is_extreme = index == last || (number, index) == (0, 0);
            if scale.extremes_only && !is_extreme {
                continue;
            }
            let what = format!("shares {target}:1, {} KiB per server", row.size_kib);
            terminal::say(&what);
            let experiment = Experiment {
                target,
                clients: [CLIENTS, CLIENTS],
                size_kib: row.size_kib,
                settings: Settings::CHOSEN,
            };
            let outcome = experiment.run(cluster, scale)?;
            let bounds = Bounds::around(target, scale.ratio_slack);
            findings.claims.push(outcome.claim(what, paper, bounds));
            chart.groups.push(format!("{target}:1"));
            for (series, value) in chart.series.iter_mut().zip([target, paper, outcome.ratio]) {
                series.1.push(Some(value));
            }
        }
        let name = if row.size_kib == 64 { "ratio-64k" } else { "ratio-256k" };
        findings.charts.push((name, chart));
    }
    Ok(())
}

/// Two unequal applications at equal shares.
fn unequal(
    findings: &mut Findings,
    reference: &Reference,
    cluster: &mut Cluster,
    scale: &Scale,
) -> anyhow::Result<()> {
    let mut chart = Chart {
        title: "Equal shares, unequal numbers of clients".to_owned(),
        axis: "throughput, MB/s".to_owned(),
        groups: Vec::new(),
        series: ["app1", "app2"].map(|name| (name.to_owned(), Vec::new())).into(),
    };
    for row in &reference.unequal {
        let [first, second] = row.clients;
        if scale.extremes_only && first / second < 16 {
            continue;
        }
        let what = format!("equal shares, clients {first}:{second}");
        terminal::say(&what);
        let experiment = Experiment {
            target: 1.0,
            clients: row.clients,
            size_kib: 256,
            settings: Settings::CHOSEN,
        };
        let outcome: Outcome = experiment.run(cluster, scale)?;
        let bounds = Bounds::around(1.0, scale.equal_slack);
        findings.claims.push(outcome.claim(what, row.achieved, bounds));
        chart.groups.push(format!("{first}:{second}"));
        for (series, rate) in chart.series.iter_mut().zip(outcome.rates) {
            series.1.push(Some(rate / 1e6));
        }
    }
    findings.charts.push(("unequal-clients", chart));
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
    for row in &reference.overhead {
        if scale.extremes_only && row.servers != SERVERS {
            continue;
        }
        let Scale { rounds, .. } = scale;
        let (clients, servers) = (row.clients, row.servers);
        terminal::say(&format!("overhead, {clients}:{servers} clients:servers, {rounds} rounds"));
        rows.push((row, overhead::compare(row, cluster, &gates, scale)?));
    }
    let claims = rows.iter().map(|(row, compared)| compared.claim(row, scale.rounds));
    findings.claims.extend(claims);
    if let Some((_, all_servers)) = rows.last() {
        findings.claims.push(all_servers.cpu_claim(&reference.proxy));
    }
    let values = |of: fn(&Compared) -> f64| {
        rows.iter().map(|(_, compared)| Some(of(compared) / 1e6)).collect::<Vec<_>>()
    };
    findings.charts.push((
        "overhead",
        Chart {
            title: "Throughput with and without gates".to_owned(),
            axis: "throughput, MB/s".to_owned(),
            groups: rows
                .iter()
                .map(|(row, _)| format!("{}:{}", row.clients, row.servers))
                .collect(),
            series: vec![
                ("direct".to_owned(), values(|compared| compared.direct)),
                ("through gates".to_owned(), values(|compared| compared.gated)),
            ],
        },
    ));
    Ok(())
}

fn plot(folder: &Path, charts: &[(&str, Chart)]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (name, chart) in charts {
        let file = folder.join(format!("vpfs-{name}.svg"));
        std::fs::write(&file, chart.svg())
            .with_context(|| format!("cannot write {}", file.display()))?;
        terminal::say(&format!("wrote {}", file.display()));
    }
    Ok(())
}
