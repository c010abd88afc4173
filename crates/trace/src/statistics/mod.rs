//! Statistics of a trace, from one pass in bounded memory.
//!
//! Records come in the order of their arrival. Sizes, sequences, footprint and reuse are of reads
//! and writes; counts, rates and response times of every kind. Each source is a device of its own,
//! and the total is over all of them.
//!
//! | figure | how |
//! |---|---|
//! | counts, means, gaps, windows | exact, from [integer sums](tally) |
//! | [sizes] | exact up to 1024 different ones |
//! | [footprint] | exact up to a bound, then estimated; the result says which |
//! | [reuse] | exact up to a bound, then sampled; the result says which |
//!
//! The default bounds keep all of it below 200 MB at a thousand sources, and below 40 MB at ten.

pub mod arrivals;
pub mod figures;
pub mod footprint;
mod hyperloglog;
pub mod reuse;
mod row;
pub mod sizes;
pub mod tally;
#[cfg(test)]
mod tests;

use evenkeel_core::cache::table::mix;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

pub use figures::{Dispersion, Figures, KindFigures, SourceFigures, Summary};
pub use footprint::Distinct;
pub use reuse::{MissRatio, MissRatioCurve};
pub use sizes::Sizes;

use crate::cache::Blocks;
use crate::{Record, SourceId};
use footprint::{Footprints, ROWS_MAX};
use row::Row;

/// How much memory the statistics may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatisticsOptions {
    /// Sources that are told apart, at most 4094; the others are counted together.
    pub sources_max: usize,
    /// Different blocks, of all sources together, up to which the footprint is exact: 25 to
    /// 40 bytes each.
    pub exact_blocks_max: usize,
    /// Different blocks up to which the reuse of the total is exact, and how many are followed
    /// beyond: 60 bytes each.
    pub reuse_samples: usize,
    /// The same for each source.
    pub reuse_samples_per_source: usize,
}

impl Default for StatisticsOptions {
    fn default() -> Self {
        Self {
            sources_max: 1024,
            exact_blocks_max: 1 << 20,
            reuse_samples: 1 << 14,
            reuse_samples_per_source: 1 << 11,
        }
    }
}

/// Counts record by record. See the [module](self).
#[derive(Clone, Debug)]
pub struct Statistics {
    options: StatisticsOptions,
    origin: Option<Nanos>,
    last: Nanos,
    stepped_back: u64,
    total: Option<Row>,
    /// Row 0 is for the sources beyond the bound.
    rows: Vec<Option<Row>>,
    /// By source id: its row.
    row_of: Vec<u16>,
    /// By row: its source.
    source_of: Vec<SourceId>,
    /// By row: where the last read or write ended.
    end_of: Vec<Option<u64>>,
    footprints: Footprints,
    blocks: Blocks,
}

/// The row of the sources beyond the bound.
const OTHERS: usize = 0;

/// No row yet.
const NO_ROW: u16 = u16::MAX;

impl Statistics {
    /// Nothing was counted yet.
    pub fn new(options: StatisticsOptions) -> Self {
        let mut footprints = Footprints::new(options.exact_blocks_max);
        footprints.add_row();
        Self {
            options,
            origin: None,
            last: Nanos::ZERO,
            stepped_back: 0,
            total: None,
            rows: vec![None],
            row_of: Vec::new(),
            source_of: vec![SourceId(u32::MAX)],
            end_of: vec![None],
            footprints,
            blocks: Blocks::default(),
        }
    }

    /// Counts the next record.
    pub fn add(&mut self, record: &Record) {
        let origin = *self.origin.get_or_insert(record.at);
        if record.at < self.last {
            self.stepped_back += 1;
        }
        self.last = self.last.max(record.at);
        let record = &Record { at: self.last, ..*record };
        let since_origin = self.last.since(origin);
        let index = self.row_index(record.source);
        let is_transfer = matches!(record.kind, Kind::Read | Kind::Write);
        let is_sequential = is_transfer && self.continues(index, record);
        let StatisticsOptions { reuse_samples, reuse_samples_per_source, .. } = self.options;
        let total = self.total.get_or_insert_with(|| Row::new(record.at, reuse_samples));
        let row =
            self.rows[index].get_or_insert_with(|| Row::new(record.at, reuse_samples_per_source));
        total.add(record, since_origin, is_sequential);
        row.add(record, since_origin, is_sequential);
        if !is_transfer {
            return;
        }
        let is_write = record.kind == Kind::Write;
        // Blocks of different sources are different blocks.
        let salt = mix(u64::from(record.source.0) + 1);
        for block in self.blocks.of(record) {
            let in_row = if index == OTHERS { mix(block ^ salt) } else { block };
            self.footprints.add(index, in_row, is_write);
            row.add_block(in_row, is_write);
            total.add_block(block ^ salt, is_write);
        }
    }

    /// The figures of what was counted so far.
    pub fn summary(&self) -> Option<Summary> {
        let total = self.total.as_ref()?;
        let duration = self.last.since(self.origin?);
        let figures = |index: usize| {
            let row = self.rows[index].as_ref()?;
            Some(row.figures(duration, self.footprints.row(index)))
        };
        let mut sources: Vec<SourceFigures> = (OTHERS + 1..self.rows.len())
            .filter_map(|index| {
                Some(SourceFigures { source: self.source_of[index], figures: figures(index)? })
            })
            .collect();
        sources.sort_by_key(|source| source.source);
        let others = figures(OTHERS);
        let mut total = total.figures(duration, self.footprints.total());
        let spans = sources.iter().map(|source| &source.figures).chain(&others);
        total.span_bytes = spans.fold(0, |sum, figures| sum.saturating_add(figures.span_bytes));
        Some(Summary { duration, stepped_back: self.stepped_back, total, sources, others })
    }

    /// Whether a read or write begins where the source's last one ended.
    fn continues(&mut self, index: usize, record: &Record) -> bool {
        let end = record.offset.saturating_add(record.length);
        self.end_of[index].replace(end) == Some(record.offset) && index != OTHERS
    }

    fn row_index(&mut self, source: SourceId) -> usize {
        let id = source.0 as usize;
        if id >= crate::Sources::COUNT_MAX {
            return OTHERS;
        }
        if id >= self.row_of.len() {
            self.row_of.resize(id + 1, NO_ROW);
        }
        if self.row_of[id] == NO_ROW {
            self.row_of[id] = u16::try_from(self.new_row(source)).expect("below ROWS_MAX");
        }
        usize::from(self.row_of[id])
    }

    fn new_row(&mut self, source: SourceId) -> usize {
        let index = self.rows.len();
        if index > self.options.sources_max || index >= ROWS_MAX - 1 {
            return OTHERS;
        }
        self.rows.push(None);
        self.source_of.push(source);
        self.end_of.push(None);
        self.footprints.add_row();
        index
    }
}
