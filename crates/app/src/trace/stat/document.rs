//! What a trace is like, for programs.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_trace::statistics::{Figures, KindFigures, MissRatioCurve, Sizes, Summary};
use serde_json::{Map, Value, json};

use super::{Found, name_of, policies};
use crate::trace::input::TraceReader;

/// Percentiles of sizes and of response times.
const PERCENTILES: [(f64, &str); 5] =
    [(0.10, "p10"), (0.50, "p50"), (0.90, "p90"), (0.99, "p99"), (0.999, "p999")];

/// Points of a miss-ratio curve; more are thinned.
const POINTS_MAX: usize = 256;

/// The document of a trace without requests.
pub(super) fn empty(trace: &TraceReader) -> Value {
    let format = trace.format().name();
    let bad = trace.defects().to_json();
    json!({
        "trace": trace.name(),
        "format": format,
        "bad": bad,
        "requests": 0,
        "sources": [],
        "policies": policies::document(trace.policies()),
    })
}

/// The whole document.
pub(super) fn document(found: &Found<'_>) -> Value {
    let Summary { duration, stepped_back, total, sources, others } = &found.summary;
    let names = found.trace.sources();
    let sources: Vec<Value> = sources
        .iter()
        .map(|source| {
            let mut object = of_figures(&source.figures);
            object["name"] = name_of(names, source.source).into();
            object
        })
        .collect();
    let mut document = of_figures(total);
    document["trace"] = found.trace.name().into();
    document["format"] = found.trace.format().name().into();
    document["bad"] = found.trace.defects().to_json();
    document["duration_seconds"] = duration.as_secs_f64().into();
    document["stepped_back"] = (*stepped_back).into();
    document["sources"] = sources.into();
    document["other_sources"] = others.as_ref().map(of_figures).into();
    document["policies"] = policies::document(found.trace.policies());
    document["over_time"] = over_time(found);
    document
}

fn of_figures(figures: &Figures) -> Value {
    let kinds: Map<String, Value> = Kind::ALL
        .into_iter()
        .zip(&figures.kinds)
        .filter(|(_, kind)| kind.requests > 0)
        .map(|(kind, figures)| (kind.name().to_owned(), of_kind(figures)))
        .collect();
    let dispersion: Vec<Value> = figures
        .dispersion
        .iter()
        .map(|window| {
            let seconds = window.window.as_secs_f64();
            json!({ "window_seconds": seconds, "windows": window.windows, "index": window.index })
        })
        .collect();
    json!({
        "requests": figures.requests,
        "kinds": kinds,
        "read_share": figures.read_share,
        "read_size_bytes": of_sizes(&figures.read_sizes),
        "write_size_bytes": of_sizes(&figures.write_sizes),
        "rate_per_second": figures.rate_per_second,
        "bytes_per_second": figures.bytes_per_second,
        "peak_per_second": figures.peak_per_second,
        "gap_mean_seconds": figures.gap_mean_ns.map(|ns| ns / 1e9),
        "gap_variation": figures.gap_variation,
        "dispersion": dispersion,
        "sequential_share": figures.sequential_share,
        "span_bytes": figures.span_bytes,
        "block_accesses": figures.block_accesses,
        "footprint_blocks": {
            "count": figures.footprint_blocks.count,
            "relative_error": figures.footprint_blocks.relative_error,
        },
        "written_blocks": {
            "count": figures.written_blocks.count,
            "relative_error": figures.written_blocks.relative_error,
        },
        "overwrite_share": figures.overwrite_share,
        "lru_misses": of_curve(&figures.reuse),
    })
}

fn of_kind(kind: &KindFigures) -> Value {
    let responses = &kind.responses;
    let mut object = json!({ "requests": kind.requests, "bytes": kind.bytes });
    if responses.count() > 0 {
        let mut times = json!({
            "count": responses.count(),
            "mean": responses.mean().as_secs_f64(),
            "max": responses.max().as_secs_f64(),
        });
        for (q, name) in PERCENTILES {
            times[name] = responses.quantile(q).map(Span::as_secs_f64).into();
        }
        object["response_seconds"] = times;
    }
    object
}

fn of_sizes(sizes: &Sizes) -> Value {
    let tally = sizes.tally();
    if tally.count == 0 {
        return Value::Null;
    }
    let mut object = json!({ "mean": tally.mean(), "max": tally.max });
    for (q, name) in PERCENTILES {
        object[name] = sizes.quantile(q).into();
    }
    object
}

fn of_curve(curve: &MissRatioCurve) -> Value {
    let step = curve.points.len().div_ceil(POINTS_MAX).max(1);
    let last = curve.points.len().saturating_sub(1);
    let points = curve.points.iter().enumerate();
    let points: Vec<Value> = points
        .filter(|(index, _)| index % step == 0 || *index == last)
        .map(|(_, point)| json!([point.cache_blocks, point.miss_ratio]))
        .collect();
    json!({ "sampled_share": curve.sampled_share, "points": points })
}

fn over_time(found: &Found<'_>) -> Value {
    let intervals = found.over_time.intervals().iter();
    let intervals: Vec<Value> = intervals
        .map(|interval| {
            json!({
                "reads": interval.reads,
                "writes": interval.writes,
                "others": interval.others,
                "read_bytes": interval.read_bytes,
                "write_bytes": interval.write_bytes,
            })
        })
        .collect();
    json!({ "width_seconds": found.over_time.width().as_secs_f64(), "intervals": intervals })
}
