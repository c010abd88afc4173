//! Eight traces beside each other on six drives: a chain of mirrors, and rotating pairs, beside
//! log+RAID 10 (slide 22).
//!
//! What such drives could do at all is told by log+RAID 10 on drives that write with an arm of
//! their own: nothing that a layout does to keep writes away from reads is worth more.
//!
//! `generated` rows draw the talk's eight traces by its figures; `real` rows replay excerpts of
//! eight recordings, if they are there; one that ends begins anew.

use evenkeel_core::time::Span;
use evenkeel_sim::chained::caches::drawn;
use evenkeel_sim::chained::rig::Layout;
use evenkeel_sim::chained::traces::{TracesOutcome, TracesRun};
use evenkeel_trace::Record;
use evenkeel_trace::generate::{Profile, profile};

use super::reference::{Reference, Traces};
use super::{Findings, contention, mega, recordings, runs};
use crate::plot::{Axis, Bars, Body, Chart, Figure};
use crate::reproduce::Options;
use crate::reproduce::claim::{Claim, Verdict};

const GB: u64 = 1_000_000_000;

/// By what all sizes are divided, and if it has to be quick.
const DIVISOR: u64 = 128;
const QUICK_DIVISOR: u64 = 256;

/// What is compared, in the order of [`Row`].
const LAYOUTS: [Layout; 3] = [Layout::StripedMirrors, Layout::ChainOfMirrors, Layout::Pairs];

/// Runs of a row: the layouts, and log+RAID 10 on drives that write with an arm of their own.
const RUNS: usize = LAYOUTS.len() + 1;

/// Within this part of what drives with a second arm do, a layout has reached what there is.
const REACHED: f64 = 0.95;

/// What is more than this many times as fast is ahead.
const AHEAD: f64 = 1.1;

/// Who asks.
enum Workload {
    Generated(Vec<Profile>),
    Real(Vec<Vec<Record>>),
}

/// One workload with so much under way, on all layouts.
struct Row {
    name: &'static str,
    under_way: u32,
    striped: TracesOutcome,
    chain: TracesOutcome,
    pairs: TracesOutcome,
    /// Log+RAID 10 whose writes cost its reads nothing.
    apart: TracesOutcome,
}

/// Runs all of them.
pub(super) fn find(reference: &Reference, options: &Options) -> anyhow::Result<Findings> {
    let setting = &reference.traces;
    let names = setting.generated.iter();
    let profiles = names.map(|name| profile(name).expect("a published profile")).collect();
    let mut workloads = vec![Workload::Generated(profiles)];
    let recorded = recordings::load("rows about real traces on six drives", &setting.recordings)?;
    workloads.extend(recorded.map(Workload::Real));
    let jobs: Vec<(&Workload, TracesRun)> = workloads
        .iter()
        .flat_map(|workload| {
            let depths = setting.depths(options).iter();
            depths.flat_map(move |&under_way| {
                let runs = setting.runs(under_way, options);
                runs.map(|run| (workload, run))
            })
        })
        .collect();
    let divisor = divisor(options);
    let outcomes =
        runs::all("traces", &jobs, |(workload, run)| workload.replay(run, divisor, options.seed));
    let rows: Vec<Row> = jobs
        .chunks_exact(RUNS)
        .zip(outcomes.chunks_exact(RUNS))
        .map(|(jobs, outcomes)| Row {
            name: jobs[0].0.name(),
            under_way: jobs[0].1.under_way,
            striped: outcomes[0],
            chain: outcomes[1],
            pairs: outcomes[2],
            apart: outcomes[3],
        })
        .collect();
    let claims = rows.iter().flat_map(|row| row.claims(setting)).collect();
    Ok(Findings { claims, figures: vec![figure(&rows)] })
}

fn divisor(options: &Options) -> u64 {
    if options.quick { QUICK_DIVISOR } else { DIVISOR }
}

impl Traces {
    /// Requests of each trace under way; the first ones only if it has to be quick.
    fn depths(&self, options: &Options) -> &[u32] {
        if options.quick { &self.under_way[..1] } else { &self.under_way }
    }

    fn runs(&self, under_way: u32, options: &Options) -> [TracesRun; RUNS] {
        let [striped, chain, pairs] = LAYOUTS.map(|layout| self.run(layout, under_way, options));
        [striped, chain, pairs, TracesRun { has_second_arm: true, ..striped }]
    }

    fn run(&self, layout: Layout, under_way: u32, options: &Options) -> TracesRun {
        let divisor = divisor(options);
        let whole = |gb: u64| (gb * GB / divisor).next_multiple_of(1 << 20);
        let measure = Span::from_secs(if options.quick { 2 } else { 8 });
        TracesRun {
            layout,
            has_second_arm: false,
            drives: self.drives,
            drive_bytes: whole(self.drive_gb).next_power_of_two(),
            filled_bytes: whole(self.filled_gb),
            memory_bytes: whole(self.memory_gb),
            flash_bytes: whole(self.flash_gb),
            under_way,
            warm_up: Span(2 * measure.0),
            measure,
            seed: options.seed,
        }
    }
}

impl Workload {
    fn name(&self) -> &'static str {
        match self {
            Self::Generated(_) => "generated",
            Self::Real(_) => "real",
        }
    }

    fn replay(&self, run: &TracesRun, divisor: u64, seed: u64) -> TracesOutcome {
        match self {
            Self::Generated(profiles) => run.run(drawn(profiles, divisor, seed)),
            Self::Real(traces) => {
                run.run(traces.iter().map(|trace| trace.clone().into_iter().cycle()).collect())
            }
        }
    }
}

impl Row {
    fn claims(&self, setting: &Traces) -> [Claim; 2] {
        [("chain of mirrors", &self.chain), ("rotating pairs", &self.pairs)].map(
            |(layout, outcome)| {
                let judged = self.judged(self.beside(layout, outcome), setting);
                let why = [self.gain_of(outcome), judged.why].into_iter().flatten();
                let why = why.reduce(|first, second| format!("{first}; {second}"));
                Claim { why, ..judged }
            },
        )
    }

    /// Holds a layout against what is asked, and against what these drives could do at all.
    fn judged(&self, claim: Claim, setting: &Traces) -> Claim {
        let [low, high] = setting.paper_times;
        let at_least = setting.at_least;
        let possible = self.apart.sum() / self.striped.sum();
        let is_reached = possible < at_least && claim.value >= REACHED * possible;
        Claim {
            paper: format!("{low:.0} to {high:.0} times"),
            tolerance: format!("at least {at_least:.0} times"),
            attainable: Some(format!("{possible:.1}")),
            verdict: match claim.value {
                value if value >= at_least => Verdict::Holds,
                _ if is_reached => Verdict::Attained,
                _ => Verdict::Fails,
            },
            why: match claim.value {
                value if value >= at_least => None,
                _ if is_reached => Some(
                    "log+RAID 10 on drives that write with an arm of their own does no more: with \
                     so much under way, six drives have no more to give to these traces"
                        .to_owned(),
                ),
                value => Some(format!(
                    "{:.2} times short of the mark; six drives of which each writes with an arm of \
                     its own could give {possible:.1} times",
                    at_least - value
                )),
            },
            ..claim
        }
    }

    /// That a layout is ahead by its writes alone, if so.
    fn gain_of(&self, outcome: &TracesOutcome) -> Option<String> {
        let TracesOutcome { read, .. } = self.striped;
        let is_ahead = outcome.sum() > AHEAD * self.striped.sum();
        (is_ahead && outcome.read < AHEAD * read).then(|| {
            let (ours, theirs) = (mega(outcome.read), mega(read));
            format!("all of the gain is writes: reads go at {ours:.0} beside {theirs:.0} MB/s")
        })
    }

    /// A layout beside log+RAID 10.
    fn beside(&self, layout: &str, outcome: &TracesOutcome) -> Claim {
        let Self { name, under_way, striped, .. } = self;
        let id = format!("traces-{name}-{under_way}-{}", layout.replace(' ', "-"));
        let what =
            format!("eight {name} traces, {under_way} each under way: {layout} beside log+RAID 10");
        let value = outcome.sum() / striped.sum();
        let rates = |it: &TracesOutcome| format!("{:.0} + {:.0}", mega(it.read), mega(it.written));
        let hits = outcome.tail.ratio().map_or(String::new(), |part| {
            format!(", {:.0} % of the tail's reads hit", 100.0 * part)
        });
        let measured = format!("{} / {} MB/s = {value:.1}{hits}", rates(outcome), rates(striped));
        Claim { measured, value, ..Claim::shown(id, what) }
    }
}

fn figure(rows: &[Row]) -> Figure {
    let bars = |layout: Layout, of: &dyn Fn(&Row) -> f64| Bars {
        name: contention::name(layout),
        values: rows.iter().map(|row| Some(mega(of(row)))).collect(),
    };
    let [striped, chain, pairs] = LAYOUTS;
    let apart = Bars {
        name: "log+RAID 10, writes apart".to_owned(),
        values: rows.iter().map(|row| Some(mega(row.apart.sum()))).collect(),
    };
    let chart = Chart {
        title: "Eight traces on six drives".to_owned(),
        note: "read and written, through a cache of 2 GB of memory and 64 GB of SSD".to_owned(),
        x: Axis::linear("traces, requests of each under way"),
        y: Axis::linear("MB/s"),
        body: Body::Bars {
            groups: rows.iter().map(|row| format!("{}, {}", row.name, row.under_way)).collect(),
            series: vec![
                bars(striped, &|row| row.striped.sum()),
                bars(chain, &|row| row.chain.sum()),
                bars(pairs, &|row| row.pairs.sum()),
                apart,
            ],
        },
    };
    Figure::new("gecko-traces", chart)
}
