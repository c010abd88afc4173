//! Carries out the ladder against the live backend, several times over if there is time: the model
//! takes the median of repeated points, so that a pause of this machine spoils none of them.

use std::ops::ControlFlow;
use std::time::Duration;

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Span;
use evenkeel_io::load::{
    DirectionReport, ExportOffer, GroupReport, LoadPlan, LoadReport, LoadSpec, WeightedSize,
    run_while,
};
use evenkeel_sim::calibrate::{Load, Point};
use evenkeel_wire::nbd::uri::NbdUri;
use indicatif::ProgressBar;

use super::explain;
use super::ladder::{self, Look, Rung};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::{human, terminal};

/// Entries of a step's time series.
const INTERVALS: u64 = 10;

/// Requests of a step from which on the median over its intervals says more than the mean.
const MANY: u64 = 200;

/// Rungs of one direction, at most.
const RUNGS: u64 = 16;

/// How often the ladder is climbed if there is time.
const ROUNDS: u64 = 3;

/// A shorter step tells too little of a backend that takes milliseconds.
const STEP_LEAST: Span = Span::from_millis(250);

/// What to measure, and how.
pub(super) struct Campaign {
    pub(super) target: NbdUri,
    pub(super) offer: ExportOffer,
    pub(super) writes: bool,
    pub(super) connections: u32,
    /// How long all of it takes.
    pub(super) time: Span,
}

/// What was measured.
pub(super) struct Found {
    pub(super) points: Vec<Point>,
    /// Mean time of a flush after each write; zero if not measured.
    pub(super) flush: Span,
    /// Whether nobody interrupted it.
    pub(super) is_complete: bool,
}

impl Campaign {
    /// Measures everything, with a progress bar on stderr, or what can be until somebody interrupts
    /// it.
    pub(super) fn measure(&self, interrupt: &Interrupt) -> anyhow::Result<Found> {
        let mut found = Found { points: Vec::new(), flush: Span::ZERO, is_complete: false };
        let (_, step) = self.rounds();
        let mut session = Session { campaign: self, step, bar: bar(self.time), interrupt };
        found.is_complete = self.climb(&mut session, &mut found)?.is_some();
        session.bar.finish_and_clear();
        Ok(found)
    }

    /// Adds to what was found until it is all, or nothing at an interrupt.
    fn climb(&self, session: &mut Session<'_>, found: &mut Found) -> anyhow::Result<Option<()>> {
        let sizes = ladder::sizes(&self.offer);
        let loads = if self.writes { &[Load::Read, Load::Write][..] } else { &[Load::Read] };
        let (rounds, _) = self.rounds();
        let mut looks = Vec::new();
        for &load in loads {
            let first = ladder::first_look(load, &sizes);
            let Some(look) = session.first_look(first)? else { return Ok(None) };
            let rungs = ladder::rungs(load, &sizes, look);
            for rung in (0..rounds).flat_map(|_| &rungs) {
                let Some(point) = session.point(*rung)? else { return Ok(None) };
                found.points.push(point);
            }
            looks.push(look);
        }
        if let [read, write] = looks[..] {
            let slower = if read.iops < write.iops { read } else { write };
            let mixed = ladder::mixed(&sizes, slower);
            let Some(point) = session.point(mixed)? else { return Ok(None) };
            found.points.push(point);
            if self.offer.can_flush {
                let Some(flush) = session.flush(sizes[0])? else { return Ok(None) };
                found.flush = flush;
            }
        }
        Ok(Some(()))
    }

    /// How often to climb the ladder, and the time of one step.
    fn rounds(&self) -> (u64, Span) {
        let (directions, others) = if self.writes { (2, 4) } else { (1, 1) };
        let step = |rounds| Span(self.time.0 / (directions * RUNGS * rounds + others));
        let rounds = if step(ROUNDS) < STEP_LEAST { 1 } else { ROUNDS };
        (rounds, step(rounds))
    }

    fn plan(&self, rung: Rung, step: Span) -> LoadPlan {
        // The start of a step still feels the one before it.
        let ramp = Span(step.0 / 10);
        let runtime = Span(step.0 - ramp.0);
        let clients = self.connections.min(rung.depth);
        let group = LoadSpec {
            name: "calibrate".to_owned(),
            targets: vec![self.target.clone()],
            clients,
            depth: rung.depth.div_ceil(clients),
            sizes: vec![WeightedSize { size_bytes: rung.size_bytes, weight: 1 }],
            read_percent: match rung.load {
                Load::Read => 100,
                Load::Write => 0,
                Load::Mixed => 50,
            },
            ..LoadSpec::default()
        };
        LoadPlan {
            groups: vec![group],
            ramp,
            runtime: Some(runtime),
            interval: Span((runtime.0 / INTERVALS).max(10_000_000)),
            ..LoadPlan::default()
        }
    }
}

/// A campaign under way. Its steps give nothing once somebody has interrupted it: the half of a
/// step tells less than it seems to.
struct Session<'a> {
    campaign: &'a Campaign,
    step: Span,
    bar: ProgressBar,
    interrupt: &'a Interrupt,
}

impl Session<'_> {
    /// Uses up whatever credit the backend has saved, and sees how quick it is then.
    fn first_look(&mut self, rung: Rung) -> anyhow::Result<Option<Look>> {
        let plan = self.campaign.plan(rung, self.step);
        let Some(report) = self.run(&plan, &said(rung))? else { return Ok(None) };
        let series = &group(&report)?.series;
        let late = &series[series.len() / 2..];
        let seconds: f64 = late.iter().map(|entry| entry.length.as_secs_f64()).sum();
        let requests: u64 = late.iter().map(|entry| entry.requests).sum();
        let iops = requests as f64 / seconds.max(1e-9);
        Ok(Some(Look {
            iops,
            bytes_per_second: iops * f64::from(rung.size_bytes),
            queue: Span(self.step.0 / 3),
        }))
    }

    fn point(&mut self, rung: Rung) -> anyhow::Result<Option<Point>> {
        let plan = self.campaign.plan(rung, self.step);
        let Some(report) = self.run(&plan, &said(rung))? else { return Ok(None) };
        let group = group(&report)?;
        let depth = plan.groups[0].depth * plan.groups[0].clients;
        let latency = merged(&group.read, &group.write);
        Ok(Some(Point {
            load: rung.load,
            size_bytes: u64::from(rung.size_bytes),
            depth,
            iops: steady_iops(group),
            mean: latency.mean(),
            p99: latency.quantile(0.99).unwrap_or(Span::ZERO),
        }))
    }

    fn flush(&mut self, size_bytes: u32) -> anyhow::Result<Option<Span>> {
        let rung = Rung { load: Load::Write, size_bytes, depth: 1 };
        let mut plan = self.campaign.plan(rung, self.step);
        plan.groups[0].flush_every = 1;
        let Some(report) = self.run(&plan, "flush")? else { return Ok(None) };
        Ok(Some(group(&report)?.flush.latency.histogram.mean()))
    }

    fn run(&mut self, plan: &LoadPlan, what: &str) -> anyhow::Result<Option<LoadReport>> {
        self.bar.set_message(what.to_owned());
        let before = self.bar.position();
        let length = self.step.0 / 1_000_000;
        let outcome = run_while(plan, &mut |progress| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part")]
            self.bar.set_position(before + (progress.done * length as f64) as u64);
            if self.interrupt.is_set() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        self.bar.set_position(before + length);
        if self.interrupt.is_set() {
            return Ok(None);
        }
        outcome.map(Some).map_err(explain)
    }
}

/// The only group of a report; an error if its requests failed.
fn group(report: &LoadReport) -> anyhow::Result<&GroupReport> {
    let group = &report.groups[0];
    if group.errors > 0 {
        let first = group.first_error.as_deref().unwrap_or("unknown");
        let what = format!("{} requests failed, so nothing was measured: {first}", group.errors);
        return Err(Exit::Runtime.because(what));
    }
    Ok(group)
}

/// Requests per second: the median over time, which neither a burst nor a pause moves, or, with
/// few requests, the mean.
fn steady_iops(group: &GroupReport) -> f64 {
    let requests = group.read.requests + group.write.requests;
    let mean = requests as f64 / group.measured.as_secs_f64().max(1e-9);
    // The last entry may be a sliver.
    let whole = &group.series[..group.series.len().saturating_sub(1)];
    if requests < MANY || whole.len() < 5 {
        return mean;
    }
    let mut rates: Vec<f64> =
        whole.iter().map(|it| it.requests as f64 / it.length.as_secs_f64().max(1e-9)).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    if median > 0.0 { median } else { mean }
}

fn merged(read: &DirectionReport, write: &DirectionReport) -> Histogram {
    let mut latency = read.latency.histogram.clone();
    latency.merge(&write.latency.histogram);
    latency
}

fn said(rung: Rung) -> String {
    let kind = match rung.load {
        Load::Read => "reads",
        Load::Write => "writes",
        Load::Mixed => "reads and writes",
    };
    format!("{kind} of {}, depth {}", human::size(f64::from(rung.size_bytes)), rung.depth)
}

fn bar(time: Span) -> ProgressBar {
    let bar = ProgressBar::new(time.0 / 1_000_000);
    bar.set_style(terminal::bar_style("{msg}"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
