//! Writers beside readers: by the number of readers, and by the length of the chain (slides 2, 22
//! and 23).

use evenkeel_core::time::Span;
use evenkeel_sim::chained::contention::{ContentionOutcome, ContentionRun};
use evenkeel_sim::chained::rig::Layout;

use super::reference::Reference;
use super::runs;
use super::{Findings, mega};
use crate::plot::{Axis, Bars, Body, Chart, Figure, Line};
use crate::reproduce::Options;
use crate::reproduce::claim::{Claim, Verdict};

/// Bytes of a drive, and how long a run is measured.
fn scale(options: &Options) -> (u64, Span) {
    if options.quick { (1 << 30, Span::from_secs(2)) } else { (4 << 30, Span::from_secs(8)) }
}

/// What the readers leave to the writers, and the writers to the readers.
pub(super) fn readers(reference: &Reference, options: &Options) -> Findings {
    let setting = &reference.readers;
    let (drive_bytes, measure) = scale(options);
    let layouts = [Layout::Striped, Layout::Chain { length: setting.drives }];
    let run = |readers, layout| ContentionRun {
        layout,
        drives: setting.drives,
        readers,
        read_bytes: setting.read_kib << 10,
        window_bytes: setting.window_kib << 10,
        body_hits_milli: 0,
        tail_hits_milli: 1000,
        drive_bytes,
        measure,
        seed: options.seed,
    };
    let jobs: Vec<ContentionRun> = setting
        .readers
        .iter()
        .flat_map(|&readers| layouts.map(|layout| run(readers, layout)))
        .collect();
    let outcomes = runs::all("readers", &jobs, ContentionRun::run);
    let rows: Vec<(u32, [&ContentionOutcome; 2])> = setting
        .readers
        .iter()
        .zip(outcomes.chunks_exact(2))
        .map(|(&readers, both)| (readers, [&both[0], &both[1]]))
        .collect();
    let mut claims: Vec<Claim> =
        rows.iter().flat_map(|(n, both)| beside(*n, *both, reference)).collect();
    let [first, last] = [rows[0].1[1], rows[rows.len() - 1].1[1]];
    claims.push(kept(first, last, setting.kept, rows[rows.len() - 1].0));
    Findings { claims, figures: vec![readers_figure(&rows)] }
}

/// Striped and chained with so many readers.
fn beside(readers: u32, both: [&ContentionOutcome; 2], reference: &Reference) -> Vec<Claim> {
    let [striped, chain] = both.map(|it| mega(it.written.application));
    let must = readers >= reference.readers.ahead_from;
    let writes = Claim {
        measured: format!("{chain:.0} / {striped:.0} MB/s"),
        value: chain / striped,
        tolerance: if must { "more".to_owned() } else { String::new() },
        verdict: if must { Verdict::of(chain > striped) } else { Verdict::Shown },
        why: (!must && chain <= striped).then(|| {
            "one drive cannot write what four write together while few disturb them".to_owned()
        }),
        ..Claim::shown(
            format!("readers-{readers}-writes"),
            format!("{readers} readers: writes of the chain beside log+RAID 0"),
        )
    };
    if readers == 0 {
        return vec![writes];
    }
    let [striped, chain] = both.map(|it| mega(it.read));
    let reads = Claim {
        measured: format!("{chain:.1} / {striped:.1} MB/s"),
        value: chain / striped,
        tolerance: "more".to_owned(),
        verdict: Verdict::of(chain > striped),
        ..Claim::shown(
            format!("readers-{readers}-reads"),
            format!("{readers} readers: what they read, beside log+RAID 0"),
        )
    };
    vec![writes, reads]
}

/// The chain's writes do not notice the readers.
fn kept(first: &ContentionOutcome, last: &ContentionOutcome, at_least: f64, readers: u32) -> Claim {
    let [alone, beside] = [first, last].map(|it| mega(it.written.application));
    Claim {
        paper: "stable".to_owned(),
        measured: format!("{beside:.0} of {alone:.0} MB/s"),
        value: beside / alone,
        tolerance: format!("at least {:.0} %", 100.0 * at_least),
        verdict: Verdict::of(beside >= at_least * alone),
        ..Claim::shown(
            "readers-kept".to_owned(),
            format!("the chain's writes with {readers} readers beside none"),
        )
    }
}

/// Chains of several lengths beside the striped log, and mirrored ones beside log+RAID 10.
pub(super) fn lengths(reference: &Reference, options: &Options) -> Findings {
    let setting = &reference.length;
    let (drive_bytes, measure) = scale(options);
    let run = |layout, body_hits_milli| ContentionRun {
        layout,
        drives: setting.drives,
        readers: setting.readers,
        read_bytes: setting.read_kib << 10,
        window_bytes: setting.window_kib << 10,
        body_hits_milli,
        tail_hits_milli: setting.tail_hits_milli,
        drive_bytes,
        measure,
        seed: options.seed,
    };
    let chains = setting.lengths.iter().map(|&length| Layout::Chain { length });
    let plain: Vec<ContentionRun> = std::iter::once(Layout::Striped)
        .chain(chains)
        .map(|layout| run(layout, setting.body_hits_milli))
        .collect();
    let mirrored = [
        run(Layout::StripedMirrors, setting.body_hits_milli),
        run(Layout::ChainOfMirrors, reference.mirrors.body_hits_milli),
        run(Layout::Pairs, setting.body_hits_milli),
    ];
    let jobs: Vec<ContentionRun> = plain.iter().chain(&mirrored).copied().collect();
    let outcomes = runs::all("chain length", &jobs, ContentionRun::run);
    let rows: Vec<(String, &ContentionOutcome)> =
        jobs.iter().map(|job| name(job.layout)).zip(&outcomes).collect();
    let (plain_rows, mirrored_rows) = rows.split_at(plain.len());
    let claims = above(plain_rows).into_iter().chain(above(mirrored_rows)).collect();
    Findings { claims, figures: vec![lengths_figure(&rows)] }
}

/// Each layout beside the first: the sum of reads and writes must be above it.
fn above(rows: &[(String, &ContentionOutcome)]) -> Vec<Claim> {
    let sum = |it: &ContentionOutcome| mega(it.read + it.written.application);
    let (first_name, first) = &rows[0];
    let claims = rows.iter().enumerate().map(|(place, (name, outcome))| {
        let value = sum(outcome);
        let measured = format!(
            "{:.0} + {:.0} = {value:.0} MB/s, reads that miss {:.0} ms",
            mega(outcome.read),
            mega(outcome.written.application),
            outcome.miss_ms(50),
        );
        let shown = Claim::shown(
            format!("length-{}", name.replace([' ', '+'], "-")),
            format!("{name}: reads + writes"),
        );
        let shown = Claim { measured, value, ..shown };
        if place == 0 {
            return shown;
        }
        Claim {
            tolerance: format!("above {first_name}"),
            verdict: Verdict::of(value > sum(first)),
            ..shown
        }
    });
    claims.collect()
}

/// What a layout is called.
pub(super) fn name(layout: Layout) -> String {
    match layout {
        Layout::Striped => "log+RAID 0".to_owned(),
        Layout::StripedMirrors => "log+RAID 10".to_owned(),
        Layout::Chain { length } => format!("chain of {length}"),
        Layout::ChainOfMirrors => "chain of mirrors".to_owned(),
        Layout::Pairs => "rotating pairs".to_owned(),
    }
}

fn readers_figure(rows: &[(u32, [&ContentionOutcome; 2])]) -> Figure {
    let line = |name: &str, place: usize, of: &dyn Fn(&ContentionOutcome) -> f64, is_dashed| Line {
        name: name.to_owned(),
        points: rows.iter().map(|(n, both)| (f64::from(*n), mega(of(both[place])))).collect(),
        is_dashed,
        colour: place,
    };
    let written = |it: &ContentionOutcome| it.written.application;
    let chart = Chart {
        title: "Writes beside readers, four drives".to_owned(),
        note: "closed loops of random reads without a cache, but for the tail's".to_owned(),
        x: Axis::linear("readers"),
        y: Axis::linear("MB/s"),
        body: Body::Lines(vec![
            line("RAID 0, written", 0, &written, false),
            line("chain, written", 1, &written, false),
            line("RAID 0, read", 0, &|it| it.read, true),
            line("chain, read", 1, &|it| it.read, true),
        ]),
    };
    Figure::new("gecko-readers", chart)
}

fn lengths_figure(rows: &[(String, &ContentionOutcome)]) -> Figure {
    let bars = |name: &str, of: &dyn Fn(&ContentionOutcome) -> f64| Bars {
        name: name.to_owned(),
        values: rows.iter().map(|(_, outcome)| Some(mega(of(outcome)))).collect(),
    };
    let chart = Chart {
        title: "Six drives under readers and writers".to_owned(),
        note: "48 readers of 16 KiB, four of five served by a cache".to_owned(),
        x: Axis::linear("layout"),
        y: Axis::linear("MB/s"),
        body: Body::Bars {
            groups: rows.iter().map(|(name, _)| name.clone()).collect(),
            series: vec![
                bars("read", &|it| it.read),
                bars("written", &|it| it.written.application),
            ],
        },
    };
    Figure::new("gecko-lengths", chart)
}
