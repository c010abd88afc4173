//! What drives get for each byte that clients write, while the log is cleaned at random overwrites:
//! data, headers, what the cleaner moves, checkpoints, superblocks. The talk gives no figure; the
//! mark is what theory says of a log that is cleaned first in, first out.

use evenkeel_sim::cleaning::{
    Amplification, Load, PUBLISHED, Published, Setup, amplification, fifo,
};

use super::reference::{self, Reference};
use super::{Findings, runs};
use crate::plot::{Axis, Bars, Body, Chart, Figure};
use crate::reproduce::Options;
use crate::reproduce::claim::{Claim, Verdict};

/// Data blocks of a segment: 1 MiB.
const SEGMENT_BLOCKS: u64 = 256;

/// Blocks for which theory is asked: it hardly depends on them.
const THEORY_BLOCKS: u64 = 1 << 16;

/// One load at one fill, on so many drives.
#[derive(Clone, Copy, Debug)]
struct Cell {
    name: &'static str,
    load: Load,
    full_percent: u64,
    drives: usize,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    cell: Cell,
    measured: Amplification,
    theory: f64,
}

/// Runs all rows.
pub(super) fn find(reference: &Reference, options: &Options) -> Findings {
    let setting = &reference.amplification;
    let cells = cells(setting, options.quick);
    let outcomes = runs::all("amplification", &cells, |cell| amplification(&cell.setup()));
    let rows: Vec<Row> = cells
        .iter()
        .zip(outcomes)
        .map(|(&cell, measured)| Row {
            cell,
            measured,
            theory: fifo(cell.load, THEORY_BLOCKS, cell.full_percent),
        })
        .collect();
    let claims = rows.iter().map(|row| row.claim(setting)).collect();
    Findings { claims, figures: vec![figure(&rows)] }
}

/// All of the table; if it has to be quick, the first load at each fill, on the fewest drives.
fn cells(setting: &reference::Amplification, is_quick: bool) -> Vec<Cell> {
    let (loads, counts) = if is_quick { (1, 1) } else { (PUBLISHED.len(), setting.drives.len()) };
    let loads = &PUBLISHED[..loads];
    let counts = &setting.drives[..counts];
    let of_load = |drives, it: &Published| {
        let (name, load) = (it.name, it.load);
        let cell = move |full_percent| Cell { name, load, full_percent, drives };
        Published::FULL_PERCENT.map(cell)
    };
    counts.iter().flat_map(|&drives| loads.iter().flat_map(move |it| of_load(drives, it))).collect()
}

impl Cell {
    fn setup(self) -> Setup {
        let Self { load, full_percent, drives, .. } = self;
        Setup { load, full_percent, segment_blocks: SEGMENT_BLOCKS, is_net: true, drives }
    }

    fn title(self) -> String {
        let Self { name, full_percent, drives, .. } = self;
        format!(
            "{name}, {full_percent} % full, {drives} drive{}",
            if drives > 1 { "s" } else { "" }
        )
    }
}

impl Row {
    fn claim(&self, setting: &reference::Amplification) -> Claim {
        let Self { cell, measured, theory } = self;
        let load = match cell.load {
            Load::Uniform => "uniform".to_owned(),
            Load::Hot(percent) => format!("hot-{percent}"),
            Load::Zipf(_) => "zipf".to_owned(),
        };
        let id = format!("amplification-{load}-{}-{}", cell.full_percent, cell.drives);
        let value = measured.bytes / theory;
        let checkpoints = measured.checkpoint_percent;
        Claim {
            measured: format!(
                "{:.2} bytes for one of clients, {value:.2} times FIFO's {theory:.2}; {checkpoints:.1} % \
                 checkpoints",
                measured.bytes
            ),
            value,
            tolerance: format!(
                "at most {} times FIFO, {:.0} % checkpoints",
                setting.fifo_times, setting.checkpoint_percent
            ),
            verdict: Verdict::of(
                value <= setting.fifo_times && checkpoints <= setting.checkpoint_percent,
            ),
            ..Claim::shown(id, format!("{}: written to drives", cell.title()))
        }
    }
}

fn figure(rows: &[Row]) -> Figure {
    let bars = |name: &str, of: &dyn Fn(&Row) -> f64| Bars {
        name: name.to_owned(),
        values: rows.iter().map(|row| Some(of(row))).collect(),
    };
    let chart = Chart {
        title: "Written to drives for a byte of clients".to_owned(),
        note: "random overwrites of 4 KiB; everything that drives get is counted".to_owned(),
        x: Axis::linear("load, how full, drives"),
        y: Axis::linear("bytes"),
        body: Body::Bars {
            groups: rows.iter().map(|row| row.cell.title()).collect(),
            series: vec![
                bars("store", &|row| row.measured.bytes),
                bars("cleaned first in, first out, by theory", &|row| row.theory),
            ],
        },
    };
    Figure::new("gecko-amplification", chart)
}
