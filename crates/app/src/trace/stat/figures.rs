//! What a trace is like, as pictures.

use evenkeel_trace::cache::BLOCK_BYTES;
use evenkeel_trace::statistics::Sizes;

use super::Found;
use super::over_time::Interval;
use crate::human;
use crate::plot::{Axis, Body, Chart, Figure, Line};

/// The rate over time, in requests and in bytes, the sizes, and the miss-ratio curve.
pub(super) fn figures(found: &Found<'_>) -> Vec<Figure> {
    let total = &found.summary.total;
    let note = format!("{}, {} requests", found.trace.name(), human::count(total.requests as f64));
    let per_second = found.over_time.width().as_secs_f64();
    let line = |name: &str, colour, count: fn(&Interval) -> u64, unit: f64| {
        let points = (0..).zip(found.over_time.intervals()).map(|(index, interval)| {
            let seconds = (f64::from(index) + 0.5) * per_second;
            (seconds, count(interval) as f64 / per_second / unit)
        });
        Line { name: name.to_owned(), points: points.collect(), colour, is_dashed: false }
    };
    let requests = vec![
        line("reads", 0, |interval| interval.reads, 1.0),
        line("writes", 1, |interval| interval.writes, 1.0),
    ];
    let mib = (1u64 << 20) as f64;
    let bytes = vec![
        line("reads", 0, |interval| interval.read_bytes, mib),
        line("writes", 1, |interval| interval.write_bytes, mib),
    ];
    vec![
        Figure::new("rate", Chart::over_time("Requests", "requests per second", requests)),
        Figure::new("throughput", Chart::over_time("Throughput", "MiB/s", bytes)),
        Figure::new("sizes", sizes(&total.read_sizes, &total.write_sizes)),
        Figure::new("miss-ratio", miss_ratio(found)),
    ]
    .into_iter()
    .map(|figure| Figure { chart: figure.chart.noting(note.clone()), ..figure })
    .collect()
}

fn sizes(reads: &Sizes, writes: &Sizes) -> Chart {
    let line = |(name, sizes, colour): (&str, &Sizes, usize)| {
        let all = sizes.tally().count.max(1) as f64;
        let (mut seen, mut points) = (0, Vec::new());
        for (size_bytes, count) in sizes.counts() {
            let kib = size_bytes as f64 / 1024.0;
            points.push((kib, seen as f64 / all));
            seen += count;
            points.push((kib, seen as f64 / all));
        }
        Line { name: name.to_owned(), points, colour, is_dashed: false }
    };
    let used = [("reads", reads, 0), ("writes", writes, 1)].into_iter();
    let lines = used.filter(|(_, sizes, _)| sizes.tally().count > 0).map(line);
    Chart {
        title: "Sizes".to_owned(),
        note: String::new(),
        x: Axis::log("size (KiB)"),
        y: Axis::linear("part of requests"),
        body: Body::Lines(lines.collect()),
    }
}

fn miss_ratio(found: &Found<'_>) -> Chart {
    let mut points = Vec::new();
    let mut before = 1.0;
    for point in &found.summary.total.reuse.points {
        let mib = (point.cache_blocks * BLOCK_BYTES) as f64 / f64::from(1 << 20);
        points.extend([(mib, before), (mib, point.miss_ratio)]);
        before = point.miss_ratio;
    }
    let line = Line { name: "LRU".to_owned(), points, colour: 0, is_dashed: false };
    Chart {
        title: "Misses of an LRU cache".to_owned(),
        note: String::new(),
        x: Axis::log("size of the cache (MiB)"),
        y: Axis::linear("misses per access"),
        body: Body::Lines(vec![line]),
    }
}
