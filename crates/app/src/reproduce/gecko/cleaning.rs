//! Two drives that are written to while half of every victim is copied: slides 6, 19 and 20.

use evenkeel_sim::chained::cleaning::{CleaningOutcome, CleaningRun, Scale};
use evenkeel_sim::chained::rig::Layout;
use evenkeel_store::Cleaning;

use super::reference::{CleaningRow, Reference, Regime};
use super::runs;
use super::{Findings, mega};
use crate::plot::{Axis, Bars, Body, Chart, Figure};
use crate::reproduce::Options;
use crate::reproduce::claim::{Claim, Verdict};

const CHAIN: Layout = Layout::Chain { length: 2 };

/// What is compared, in the order of [`Row`].
const CASES: [(Layout, Cleaning); 3] = [
    (Layout::Striped, Cleaning::MoveToTail),
    (CHAIN, Cleaning::MoveToTail),
    (CHAIN, Cleaning::CompactInBody),
];

/// The outcomes with so much under way.
#[derive(Clone, Copy, Debug)]
struct Row {
    setting: CleaningRow,
    striped: CleaningOutcome,
    to_tail: CleaningOutcome,
    in_body: CleaningOutcome,
}

/// Runs all rows.
pub(super) fn find(reference: &Reference, options: &Options) -> Findings {
    let scale = if options.quick { Scale::QUICK } else { Scale::FULL };
    let settings = &reference.cleaning.row;
    let jobs: Vec<CleaningRun> = settings
        .iter()
        .flat_map(|row| {
            CASES.map(|(layout, cleaning)| CleaningRun {
                layout,
                cleaning,
                window_bytes: row.window_kib << 10,
                quantum_bytes: row.quantum_kib << 10,
                scale,
                seed: options.seed,
            })
        })
        .collect();
    let outcomes = runs::all("cleaning", &jobs, CleaningRun::run);
    let rows: Vec<Row> = settings
        .iter()
        .zip(outcomes.chunks_exact(CASES.len()))
        .map(|(&setting, outcomes)| Row {
            setting,
            striped: outcomes[0],
            to_tail: outcomes[1],
            in_body: outcomes[2],
        })
        .collect();
    let claims = rows.iter().flat_map(|row| row.claims(reference)).collect();
    Findings { claims, figures: vec![figure(&rows)] }
}

impl Row {
    fn name(&self) -> String {
        let CleaningRow { window_kib, quantum_kib, .. } = self.setting;
        format!("{window_kib}K/{quantum_kib}K")
    }

    fn claims(&self, reference: &Reference) -> Vec<Claim> {
        let paper = &reference.cleaning;
        let of = |all: fn(&CleaningOutcome) -> f64| [all(&self.in_body), all(&self.striped)];
        let aggregate = of(|it| it.during.aggregate());
        let application = of(|it| it.during.application);
        vec![
            self.drop(paper.drop_times),
            self.times("aggregate", aggregate, paper.aggregate_times, paper.gone_times),
            self.times("application", application, paper.application_times, paper.gone_times),
            self.moving_to_tail(),
            self.kept(paper.kept),
        ]
    }

    fn claim(&self, id: &str, what: &str) -> Claim {
        let CleaningRow { window_kib, quantum_kib, .. } = self.setting;
        let id = format!("cleaning-{window_kib}-{quantum_kib}-{id}");
        Claim::shown(id, format!("{}: {what}", self.name()))
    }

    /// What cleaning does to the striped log.
    fn drop(&self, paper: f64) -> Claim {
        let CleaningOutcome { before, during } = self.striped;
        let value = before.application / during.application;
        Claim {
            paper: format!("about {paper:.0} times"),
            measured: format!(
                "{:.0} -> {:.0} MB/s, {value:.1} times",
                mega(before.application),
                mega(during.application)
            ),
            value,
            ..self.claim("drop", "log+RAID 0 falls when cleaning begins")
        }
    }

    /// The chain beside the striped log; `[chain, striped]` in bytes per second.
    fn times(&self, id: &str, rates: [f64; 2], at_least: f64, gone: f64) -> Claim {
        let [chain, striped] = rates;
        let value = chain / striped;
        let measured = format!("{:.0} / {:.0} MB/s = {value:.1}", mega(chain), mega(striped));
        let paper = format!("{at_least:.0} times");
        let shown = self.claim(id, &format!("chain, compact in body, {id} beside log+RAID 0"));
        let shown = Claim { paper, measured, value, ..shown };
        match self.setting.regime {
            Regime::Small => Claim {
                tolerance: format!("at least {at_least:.0}"),
                verdict: Verdict::of(value >= at_least),
                ..shown
            },
            Regime::Between => Claim { why: Some(FADES.to_owned()), ..shown },
            Regime::Large => Claim {
                tolerance: format!("gone: at most {gone}"),
                verdict: Verdict::of(value <= gone),
                why: Some(FADES.to_owned()),
                ..shown
            },
        }
    }

    fn moving_to_tail(&self) -> Claim {
        let during = self.to_tail.during;
        Claim {
            measured: format!(
                "{:.0} + {:.0} = {:.0} MB/s",
                mega(during.application),
                mega(during.copies),
                mega(during.aggregate())
            ),
            value: mega(during.aggregate()),
            ..self.claim("to-tail", "chain, move to tail: clients + copies")
        }
    }

    /// What compacting in the body leaves to clients.
    fn kept(&self, at_least: f64) -> Claim {
        let CleaningOutcome { before, during } = self.in_body;
        let value = during.application / before.application;
        Claim {
            paper: "full speed".to_owned(),
            measured: format!(
                "{:.1} of {:.1} MB/s = {:.1} %, {:.0} MB/s copied",
                mega(during.application),
                mega(before.application),
                100.0 * value,
                mega(during.copies)
            ),
            value,
            tolerance: format!("at least {:.0} %", 100.0 * at_least),
            verdict: Verdict::of(value >= at_least),
            ..self.claim("kept", "chain, compact in body: clients keep one drive")
        }
    }
}

/// Why large windows bring the striped log level.
const FADES: &str = "two drives that move megabytes at each place hardly seek: the chain's gain is \
                     a property of small windows (at 120 MB/s a seek and half a turn are worth 0.8 \
                     MB)";

fn figure(rows: &[Row]) -> Figure {
    let bars = |name: &str, of: &dyn Fn(&Row) -> f64| Bars {
        name: name.to_owned(),
        values: rows.iter().map(|row| Some(mega(of(row)))).collect(),
    };
    let chart = Chart {
        title: "Two drives under cleaning".to_owned(),
        note: "clients' window / cleaner's quantum; half of every victim is live".to_owned(),
        x: Axis::linear("under way"),
        y: Axis::linear("written (MB/s)"),
        body: Body::Bars {
            groups: rows.iter().map(Row::name).collect(),
            series: vec![
                bars("RAID 0, clients", &|it| it.striped.during.application),
                bars("RAID 0, all", &|it| it.striped.during.aggregate()),
                bars("to tail, clients", &|it| it.to_tail.during.application),
                bars("to tail, all", &|it| it.to_tail.during.aggregate()),
                bars("in body, clients", &|it| it.in_body.during.application),
                bars("in body, all", &|it| it.in_body.during.aggregate()),
            ],
        },
    };
    Figure::new("gecko-cleaning", chart)
}
