//! A load report with the structure of fio's JSON output (version 3), so that scripts and plotting
//! tools which read that find their fields.
//!
//! What fio has and a network client cannot know (disk utilisation, page faults) is left out. What
//! fio has not is under `evenkeel`: the time series, verification, and the common interval.

use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Span;
use evenkeel_io::load::{
    DirectionReport, GroupReport, IntervalReport, Latency, LoadPlan, LoadReport, LoadSpec,
};
use serde_json::{Map, Value, json};

use crate::version::VERSION;

/// The percentiles that fio prints unless told otherwise.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// The whole document.
pub(crate) fn document(plan: &LoadPlan, report: &LoadReport) -> Value {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let jobs: Vec<Value> = plan
        .groups
        .iter()
        .zip(&report.groups)
        .enumerate()
        .map(|(id, (spec, group))| job(id, spec, (group, report)))
        .collect();
    json!({
        "fio version": format!("evenkeel-{VERSION}"),
        "timestamp": since_epoch.as_secs(),
        "timestamp_ms": u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
        "global options": { "ioengine": "nbd" },
        "jobs": jobs,
        "evenkeel": {
            "measured_seconds": report.measured.as_secs_f64(),
            "common_seconds": report.common.as_secs_f64(),
            "requests_in_all": report.requests_in_all,
            "cpu_seconds": report.cpu.sum().as_secs_f64(),
        },
    })
}

fn job(id: usize, spec: &LoadSpec, (group, report): (&GroupReport, &LoadReport)) -> Value {
    let elapsed_ns = report.measured.0.max(1) as f64;
    let percent = |span: Span| 100.0 * span.0 as f64 / elapsed_ns;
    let sizes: Vec<String> = spec.sizes.iter().map(|size| size.size_bytes.to_string()).collect();
    let targets: Vec<String> = spec.targets.iter().map(ToString::to_string).collect();
    json!({
        "jobname": spec.name,
        "groupid": id,
        "error": i32::from(group.errors > 0),
        "total_err": group.errors,
        "elapsed": whole_seconds(report.measured),
        "job options": {
            "uri": targets.join(","),
            "bs": sizes.join(":"),
            "iodepth": spec.depth.to_string(),
            "numjobs": spec.clients.to_string(),
        },
        "eta": 0,
        "read": direction(&group.read, group, |entry| (entry.reads, entry.read_bytes)),
        "write": direction(&group.write, group, |entry| (entry.writes, entry.write_bytes)),
        "trim": direction(&group.other, group, |_| (0, 0)),
        "sync": {
            "total_ios": group.flush.requests,
            "lat_ns": times(&group.flush.latency, true),
        },
        "job_runtime": group.measured.0 / 1_000_000,
        "usr_cpu": percent(report.cpu.user),
        "sys_cpu": percent(report.cpu.system),
        "evenkeel": {
            "common_bytes": group.common_bytes,
            "unanswered": group.unanswered,
            "first_error": group.first_error,
            "verification": group.verification.as_ref().map(|found| json!({
                "blocks_checked": found.blocks_checked,
                "blocks_wrong": found.blocks_wrong,
                "first_wrong": found.first_wrong,
            })),
            "series": group.series.iter().map(interval).collect::<Vec<_>>(),
        },
    })
}

fn direction(
    direction: &DirectionReport,
    group: &GroupReport,
    counts_of: impl Fn(&IntervalReport) -> (u64, u64),
) -> Value {
    let seconds = group.measured.as_secs_f64().max(1e-9);
    let bytes_per_second = direction.bytes as f64 / seconds;
    let iops = direction.requests as f64 / seconds;
    // fio tells submission, completion and total apart; here submission is part of the loop.
    let open_loop = direction.service.histogram.count() > 0;
    let service = if open_loop { &direction.service } else { &direction.latency };
    let per_second =
        |entry: &IntervalReport, count: u64| count as f64 / entry.length.as_secs_f64().max(1e-9);
    let entries = group.series.iter();
    let bw =
        Moments::of(entries.clone().map(|entry| per_second(entry, counts_of(entry).1) / 1024.0));
    let rate = Moments::of(entries.map(|entry| per_second(entry, counts_of(entry).0)));
    json!({
        "io_bytes": direction.bytes,
        "io_kbytes": direction.bytes / 1024,
        "bw_bytes": rounded(bytes_per_second),
        "bw": rounded(bytes_per_second / 1024.0),
        "iops": iops,
        "runtime": group.measured.0 / 1_000_000,
        "total_ios": direction.requests,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": { "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 },
        "clat_ns": times(service, true),
        "lat_ns": times(&direction.latency, open_loop),
        "bw_min": rounded(bw.min),
        "bw_max": rounded(bw.max),
        "bw_agg": 100.0,
        "bw_mean": bw.mean,
        "bw_dev": bw.deviation,
        "bw_samples": bw.samples,
        "iops_min": rounded(rate.min),
        "iops_max": rounded(rate.max),
        "iops_mean": rate.mean,
        "iops_stddev": rate.deviation,
        "iops_samples": rate.samples,
    })
}

fn times(latency: &Latency, with_percentiles: bool) -> Value {
    let histogram = &latency.histogram;
    let mut object = Map::new();
    object.insert("min".to_owned(), latency.min.0.into());
    object.insert("max".to_owned(), histogram.max().0.into());
    object.insert("mean".to_owned(), (histogram.mean().0 as f64).into());
    object.insert("stddev".to_owned(), deviation(histogram).into());
    object.insert("N".to_owned(), histogram.count().into());
    if with_percentiles && histogram.count() > 0 {
        let quantile = |percent: f64| histogram.quantile(percent / 100.0).unwrap_or(Span::ZERO).0;
        let table: Map<String, Value> = PERCENTILES
            .iter()
            .map(|&percent| (format!("{percent:.6}"), quantile(percent).into()))
            .collect();
        object.insert("percentile".to_owned(), table.into());
    }
    object.into()
}

/// The standard deviation, as exact as the buckets are.
fn deviation(histogram: &Histogram) -> f64 {
    let count = histogram.count();
    if count == 0 {
        return 0.0;
    }
    let mean = histogram.mean().0 as f64;
    let squares: f64 = histogram
        .buckets()
        .map(|(bound, count)| (bound.0 as f64 - mean).powi(2) * count as f64)
        .sum();
    (squares / count as f64).sqrt()
}

fn interval(entry: &IntervalReport) -> Value {
    json!({
        "start_seconds": entry.start.as_secs_f64(),
        "seconds": entry.length.as_secs_f64(),
        "requests": entry.requests,
        "read_bytes": entry.read_bytes,
        "write_bytes": entry.write_bytes,
        "lat_p50_ns": entry.latency_p50.0,
        "lat_p99_ns": entry.latency_p99.0,
        "lat_max_ns": entry.latency_max.0,
    })
}

struct Moments {
    samples: usize,
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

impl Moments {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let samples = values.len();
        let count = samples.max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let min = values.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let max = values.iter().copied().fold(0.0, f64::max);
        Self { samples, min, max, mean, deviation: variance.sqrt() }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

fn whole_seconds(span: Span) -> u64 {
    span.0.div_ceil(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that plotting tools for fio read.
    const READ_BY_TOOLS: &[&str] = &[
        "/fio version",
        "/timestamp",
        "/jobs/0/jobname",
        "/jobs/0/groupid",
        "/jobs/0/error",
        "/jobs/0/job options/iodepth",
        "/jobs/0/job options/bs",
        "/jobs/0/read/iops",
        "/jobs/0/read/bw",
        "/jobs/0/read/bw_bytes",
        "/jobs/0/read/bw_mean",
        "/jobs/0/read/iops_mean",
        "/jobs/0/read/iops_stddev",
        "/jobs/0/read/io_bytes",
        "/jobs/0/read/runtime",
        "/jobs/0/read/total_ios",
        "/jobs/0/read/lat_ns/mean",
        "/jobs/0/read/lat_ns/stddev",
        "/jobs/0/read/clat_ns/mean",
        "/jobs/0/read/clat_ns/percentile/99.000000",
        "/jobs/0/write/iops",
        "/jobs/0/write/clat_ns/N",
        "/jobs/0/sync/lat_ns/mean",
        "/jobs/0/usr_cpu",
        "/jobs/0/sys_cpu",
    ];

    fn sample() -> (LoadPlan, LoadReport) {
        let mut group = GroupReport { measured: Span::from_secs(2), ..GroupReport::default() };
        group.read.requests = 100;
        group.read.bytes = 409_600;
        (0..100).for_each(|us| group.read.latency.histogram.record(Span::from_micros(100 + us)));
        let report = LoadReport {
            groups: vec![group],
            measured: Span::from_secs(2),
            ..LoadReport::default()
        };
        (LoadPlan { groups: vec![LoadSpec::default()], ..LoadPlan::default() }, report)
    }

    #[test]
    fn tools_that_read_fio_find_their_fields() {
        let (plan, report) = sample();
        let document = document(&plan, &report);
        for path in READ_BY_TOOLS {
            assert!(document.pointer(path).is_some(), "{path} is missing");
        }
    }

    #[test]
    fn figures_have_the_units_of_fio() {
        let (plan, report) = sample();
        let read = document(&plan, &report).pointer("/jobs/0/read").unwrap().clone();
        assert_eq!(read["iops"], 50.0);
        assert_eq!(read["bw_bytes"], 204_800);
        assert_eq!(read["bw"], 200, "in KiB per second");
        assert_eq!(read["runtime"], 2000, "in milliseconds");
        let p50 = read["clat_ns"]["percentile"]["50.000000"].as_u64().unwrap();
        assert!((149_000..=155_000).contains(&p50), "{p50}");
    }
}
