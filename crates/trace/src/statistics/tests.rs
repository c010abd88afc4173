//! The whole against naive recomputation.

use std::collections::BTreeSet;

use evenkeel_core::time::Span;
use proptest::prelude::*;

use super::*;
use crate::transform::testing::records;

fn summary(trace: &[Record]) -> Option<Summary> {
    let mut statistics = Statistics::new(StatisticsOptions::default());
    for record in trace {
        statistics.add(record);
    }
    statistics.summary()
}

fn transfers(trace: &[Record]) -> impl Iterator<Item = &Record> {
    trace.iter().filter(|record| matches!(record.kind, Kind::Read | Kind::Write))
}

fn blocks(record: &Record) -> impl Iterator<Item = (SourceId, u64)> {
    let source = record.source;
    let range = record.offset / 4096..=(record.offset + record.length - 1) / 4096;
    range.map(move |block| (source, block))
}

proptest! {
    #[test]
    fn counts_and_shares_are_those_of_plain_loops(trace in records(200)) {
        let Some(summary) = summary(&trace) else {
            prop_assert!(trace.is_empty());
            return Ok(());
        };
        let total = &summary.total;
        prop_assert_eq!(total.requests, trace.len() as u64);
        for kind in Kind::ALL {
            let of_kind = || trace.iter().filter(|record| record.kind == kind);
            let figures = &total.kinds[kind.index()];
            prop_assert_eq!(figures.requests, of_kind().count() as u64);
            prop_assert_eq!(figures.bytes, of_kind().map(|record| record.length).sum::<u64>());
            let answered = of_kind().filter(|record| record.response.is_some()).count();
            prop_assert_eq!(figures.responses.count(), answered as u64);
        }
        let mut ends = [None; 4];
        let mut sequential = 0;
        for record in transfers(&trace) {
            let end = &mut ends[record.source.0 as usize];
            sequential += u64::from(*end == Some(record.offset));
            *end = Some(record.offset + record.length);
        }
        let share = total.sequential_share.unwrap_or(0.0);
        prop_assert!((share * transfers(&trace).count() as f64 - sequential as f64).abs() < 1e-6);
        prop_assert_eq!(summary.duration, trace[trace.len() - 1].at.since(trace[0].at));
    }

    #[test]
    fn footprints_and_overwrites_are_those_of_plain_sets(trace in records(200)) {
        let Some(summary) = summary(&trace) else { return Ok(()) };
        let touched: BTreeSet<_> = transfers(&trace).flat_map(blocks).collect();
        let span = (0..4).map(|source| {
            let of_source = || transfers(&trace).filter(|record| record.source.0 == source);
            let end = of_source().map(|record| record.offset + record.length).max().unwrap_or(0);
            end - of_source().map(|record| record.offset).min().unwrap_or(0)
        });
        prop_assert_eq!(summary.total.span_bytes, span.sum::<u64>());
        let writes = || transfers(&trace).filter(|record| record.kind == Kind::Write);
        let written: BTreeSet<_> = writes().flat_map(blocks).collect();
        prop_assert_eq!(summary.total.footprint_blocks.count, touched.len() as u64);
        prop_assert_eq!(summary.total.written_blocks.count, written.len() as u64);
        let block_writes = writes().flat_map(blocks).count();
        let rewritten = summary.total.overwrite_share.unwrap_or(0.0) * block_writes as f64;
        prop_assert!((rewritten - (block_writes - written.len()) as f64).abs() < 1e-6);
    }

    #[test]
    fn the_sources_add_up_to_the_total(trace in records(200)) {
        let Some(summary) = summary(&trace) else { return Ok(()) };
        let sum = |figure: fn(&Figures) -> u64| -> u64 {
            summary.sources.iter().map(|source| figure(&source.figures)).sum()
        };
        let total = &summary.total;
        prop_assert_eq!(sum(|figures| figures.requests), total.requests);
        prop_assert_eq!(sum(|figures| figures.block_accesses), total.block_accesses);
        prop_assert_eq!(
            sum(|figures| figures.footprint_blocks.count), total.footprint_blocks.count
        );
        for source in &summary.sources {
            let alone: Vec<Record> =
                trace.iter().filter(|record| record.source == source.source).copied().collect();
            let alone = self::summary(&alone).unwrap();
            prop_assert_eq!(&source.figures.read_sizes, &alone.total.read_sizes);
            prop_assert_eq!(source.figures.gap_variation, alone.total.gap_variation);
            prop_assert_eq!(source.figures.sequential_share, alone.total.sequential_share);
            prop_assert_eq!(source.figures.overwrite_share, alone.total.overwrite_share);
            prop_assert_eq!(&source.figures.reuse, &alone.total.reuse);
        }
    }
}

fn read(at: u64, source: u32, offset: u64) -> Record {
    Record {
        at: Nanos(at),
        source: SourceId(source),
        kind: Kind::Read,
        offset,
        length: 4096,
        response: None,
    }
}

#[test]
fn rates_count_from_the_first_arrival_to_the_last() {
    let second = Span::from_secs(1).0;
    let trace: Vec<Record> = (0..41).map(|i| read(7 * second + i * second / 4, 0, 0)).collect();
    let summary = summary(&trace).unwrap();
    assert_eq!(summary.duration, Span::from_secs(10));
    assert_eq!(summary.total.rate_per_second, Some(4.1));
    assert_eq!(summary.total.peak_per_second, 4);
    assert_eq!(summary.total.gap_variation, Some(0.0));
    let at_1_s = summary.total.dispersion[2];
    assert_eq!((at_1_s.windows, at_1_s.index), (10, Some(0.0)));
}

#[test]
fn sources_beyond_the_bound_are_counted_together() {
    let options = StatisticsOptions { sources_max: 2, ..StatisticsOptions::default() };
    let mut statistics = Statistics::new(options);
    for source in [5, 1, 9, 7, u32::MAX, 1] {
        statistics.add(&read(0, source, 0));
    }
    let summary = statistics.summary().unwrap();
    let ids: Vec<u32> = summary.sources.iter().map(|source| source.source.0).collect();
    assert_eq!(ids, [1, 5]);
    let others = summary.others.unwrap();
    assert_eq!((others.requests, others.footprint_blocks.count), (3, 3));
    assert_eq!(summary.total.footprint_blocks.count, 5);
}

#[test]
fn a_step_back_in_time_is_counted_and_harms_nothing() {
    let summary = summary(&[read(10, 0, 0), read(4, 0, 0), read(12, 0, 0)]).unwrap();
    assert_eq!((summary.stepped_back, summary.duration), (1, Span(2)));
}

#[test]
fn the_largest_numbers_harm_nothing() {
    let mut statistics = Statistics::new(StatisticsOptions::default());
    for (at, kind) in [(0, Kind::Write), (u64::MAX, Kind::Read), (u64::MAX, Kind::Trim)] {
        for (offset, length) in [(u64::MAX, u64::MAX), (0, u64::MAX), (u64::MAX, 0)] {
            let response = Some(Span(u64::MAX));
            let source = SourceId(u32::MAX);
            statistics.add(&Record { at: Nanos(at), source, kind, offset, length, response });
        }
    }
    let summary = statistics.summary().unwrap();
    assert_eq!(summary.duration, Span(u64::MAX));
    assert_eq!(summary.total.span_bytes, u64::MAX);
}

#[test]
fn nothing_has_no_summary() {
    assert!(summary(&[]).is_none());
}
