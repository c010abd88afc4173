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

/// Segments of a store: theory knows none that are being filled, so that there should be many.
const SEGMENTS: u64 = 1024;
const QUICK_SEGMENTS: u64 = 256;

/// Blocks for which theory is asked: it hardly depends on them.
const THEORY_BLOCKS: u64 = 1 << 16;

/// One load at one fill, on so many drives.
#[derive(Clone, Copy, Debug)]
struct Cell {
    name: &'static str,
    load: Load,
    full_percent: u64,
    drives: usize,
    segments: u64,
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
    Findings { claims, figures: figures(&rows) }
}

/// All of the table; if it has to be quick, a column of it, on the fewest drives and less of them.
fn cells(setting: &reference::Amplification, is_quick: bool) -> Vec<Cell> {
    let (counts, fills, segments) = if is_quick {
        (&setting.drives[..1], &Published::FULL_PERCENT[1..2], QUICK_SEGMENTS)
    } else {
        (&setting.drives[..], &Published::FULL_PERCENT[..], SEGMENTS)
    };
    let mut cells = Vec::new();
    for &drives in counts {
        for Published { name, load, .. } in PUBLISHED {
            let cell = |&full_percent| Cell { name, load, full_percent, drives, segments };
            cells.extend(fills.iter().map(cell));
        }
    }
    cells
}

impl Cell {
    fn setup(self) -> Setup {
        let Self { load, full_percent, drives, segments, .. } = self;
        Setup {
            load,
            full_percent,
            volume_segments: segments,
            segment_blocks: SEGMENT_BLOCKS,
            is_net: true,
            drives,
        }
    }

    /// How full it is, and on how many drives.
    fn store(self) -> String {
        let plural = if self.drives > 1 { "s" } else { "" };
        format!("{} % full, {} drive{plural}", self.full_percent, self.drives)
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
        let is_marked = cell.full_percent <= setting.checkpoint_full_percent;
        let most = is_marked.then_some(setting.checkpoint_percent);
        Claim {
            measured: format!(
                "{:.2} bytes for one of clients, {value:.2} times FIFO's {theory:.2}; \
                 {checkpoints:.1} % checkpoints",
                measured.bytes
            ),
            value,
            tolerance: match most {
                Some(most) => {
                    format!("at most {} times FIFO, {most:.0} % checkpoints", setting.fifo_times)
                }
                None => format!("at most {} times FIFO", setting.fifo_times),
            },
            verdict: Verdict::of(
                value <= setting.fifo_times && most.is_none_or(|most| checkpoints <= most),
            ),
            ..Claim::shown(id, format!("{}, {}: written to drives", cell.name, cell.store()))
        }
    }
}

/// One for each store, with all loads.
fn figures(rows: &[Row]) -> Vec<Figure> {
    let key = |row: &Row| (row.cell.drives, row.cell.full_percent);
    let mut rows = rows.to_vec();
    rows.sort_by_key(key);
    rows.chunk_by(|a, b| key(a) == key(b)).map(figure).collect()
}

fn figure(rows: &[Row]) -> Figure {
    let Cell { full_percent, drives, .. } = rows[0].cell;
    let bars = |name: &str, of: &dyn Fn(&Row) -> f64| Bars {
        name: name.to_owned(),
        values: rows.iter().map(|row| Some(of(row))).collect(),
    };
    let chart = Chart {
        title: "Written to drives for a byte of clients".to_owned(),
        note: format!(
            "{}; random overwrites of 4 KiB; everything that drives get is counted",
            rows[0].cell.store()
        ),
        x: Axis::linear("load"),
        y: Axis::linear("bytes"),
        body: Body::Bars {
            groups: rows.iter().map(|row| row.cell.name.to_owned()).collect(),
            series: vec![
                bars("store", &|row| row.measured.bytes),
                bars("cleaned first in, first out, by theory", &|row| row.theory),
            ],
        },
    };
    Figure::new(format!("gecko-amplification-{full_percent}-{drives}"), chart)
}
