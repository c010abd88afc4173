//! From points to the model.
//!
//! The lines are fitted directly (see [`super::line`]); the parallelism of the device is chosen by
//! trial. Two kinds of device have the same knee: one with `k` servers and no other bound, which
//! reaches its full rate exactly at depth `k`, and one whose gate passes a request every so often,
//! behind which any number is at work, so that chance delays part of them and the knee is round.
//! Both, with a few degrees in between, are put under the measured loads in virtual time, and the
//! one that meets them best is taken.

use super::line;
use super::measured::{Direction, Measured, MeasuredSpec};
use super::model::{
    DepthLine, FORMAT, Fit, FittedPoint, Model, Provenance, SizeLine, tenths, whole,
};
use super::monotone::rising;
use super::point::{Load, Point, median, medians};
use super::replay;

/// Why points make no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// A point without a result.
    #[error("nothing was measured at {size_bytes} bytes and depth {depth}; measure longer")]
    Empty {
        /// Bytes of its requests.
        size_bytes: u64,
        /// Requests under way.
        depth: u32,
    },
    /// What cannot be missing.
    #[error("there is no measurement of {0}; measure reads at depth 1 and deeper")]
    Missing(&'static str),
}

/// The lines of one direction.
struct Lines {
    service: SizeLine,
    saturation: SizeLine,
    latency: DepthLine,
    p99_excess_ns: u64,
    /// Depth at which the smallest size reaches its full rate.
    knee: f64,
    is_saturated: bool,
}

/// Fits the model of a device of `size_bytes` to `points`, in any order; a load, size and depth
/// may come several times. A flush takes `flush_ns`.
///
/// # Errors
/// [`FitError`] if a point is empty, or reads at depth 1 or deeper are missing.
pub fn fit(
    points: &[Point],
    (size_bytes, flush_ns): (u64, u64),
    provenance: Provenance,
) -> Result<Model, FitError> {
    let usable = |point: &&Point| point.iops.is_finite() && point.iops > 0.0 && point.depth > 0;
    if let Some(Point { size_bytes, depth, .. }) = points.iter().find(|point| !usable(point)) {
        return Err(FitError::Empty { size_bytes: *size_bytes, depth: *depth });
    }
    let points = medians(points);
    let read = lines(&points, Load::Read)?;
    let is_write_measured = points.iter().any(|point| point.load == Load::Write);
    let write = lines(&points, if is_write_measured { Load::Write } else { Load::Read })?;
    let is_gate_shared = is_gate_shared(&points, &read, &write);
    let device = candidates(&read, &write)
        .map(|(servers, has_gate)| MeasuredSpec {
            size_bytes,
            servers,
            is_gate_shared,
            flush_ns,
            read: direction(&read, has_gate),
            write: direction(&write, has_gate),
        })
        .map(|device| (error_of(device, &points), device))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("there are always candidates")
        .1;
    let fitted = replayed(device, &points);
    Ok(Model {
        format: FORMAT,
        provenance,
        is_write_measured,
        knee_depth: u32::try_from(whole(read.knee).max(1)).unwrap_or(u32::MAX),
        fit: goodness(&fitted, read.is_saturated && write.is_saturated),
        cost_read: read.saturation,
        cost_write: write.saturation,
        latency_read: read.latency,
        latency_write: write.latency,
        device,
        points: fitted,
    })
}

fn lines(points: &[Point], load: Load) -> Result<Lines, FitError> {
    let of_load = || points.iter().filter(move |point| point.load == load);
    let lone: Vec<_> = of_load().filter(|point| point.depth == 1).collect();
    let smallest = lone.iter().map(|point| point.size_bytes).min();
    let smallest = smallest.ok_or(FitError::Missing("one request at a time"))?;
    let ladder: Vec<_> = of_load().filter(|point| point.size_bytes == smallest).collect();
    if ladder.len() < 2 {
        return Err(FitError::Missing("several requests at a time"));
    }
    let service: Vec<_> =
        lone.iter().map(|point| (point.size_bytes as f64, point.latency_ns())).collect();
    let excess = lone.iter().map(|point| point.p99.0.saturating_sub(point.mean.0) as f64);

    let by_size: Vec<_> = of_load().collect();
    let saturated: Vec<_> = by_size
        .chunk_by(|a, b| a.size_bytes == b.size_bytes)
        .filter(|sizes| sizes.iter().any(|point| point.depth > 1))
        .map(|sizes| (sizes[0].size_bytes as f64, 1e9 / full_rate(sizes)))
        .collect();
    let rates = rising(ladder.iter().map(|point| point.iops));
    let latencies = rising(ladder.iter().map(|point| point.latency_ns()));
    let by_depth: Vec<_> =
        ladder.iter().zip(latencies).map(|(point, ns)| (f64::from(point.depth), ns)).collect();
    let (fixed_ns, per_request_ns) = line::fit(&by_depth);
    let [before, last] = [rates[rates.len() - 2], rates[rates.len() - 1]];
    Ok(Lines {
        service: SizeLine::from_fit(line::fit(&service)),
        saturation: SizeLine::from_fit(line::fit(&saturated)),
        latency: DepthLine {
            size_bytes: smallest,
            fixed_ns: whole(fixed_ns),
            per_request_ns: whole(per_request_ns),
        },
        p99_excess_ns: whole(median(excess)),
        knee: by_depth[0].1 * last / 1e9,
        is_saturated: last < before * 1.2,
    })
}

/// Requests per second that one size reaches at its deepest, freed of noise.
fn full_rate(one_size: &[&Point]) -> f64 {
    *rising(one_size.iter().map(|point| point.iops)).last().expect("a size has points")
}

/// Whether a mix of reads and writes is held to one bound or to two.
fn is_gate_shared(points: &[Point], read: &Lines, write: &Lines) -> bool {
    let mixed = points.iter().filter(|point| point.load == Load::Mixed);
    let Some(deepest) = mixed.max_by_key(|point| point.depth) else { return true };
    let [read_ns, write_ns] =
        [read, write].map(|lines| lines.saturation.at(deepest.size_bytes).0 as f64);
    let together = 2e9 / (read_ns + write_ns);
    let apart = 2e9 / read_ns.max(write_ns);
    (deepest.iops / together).ln().abs() <= (deepest.iops / apart).ln().abs()
}

/// Numbers of servers to try, and whether requests without bytes pass the gate one by one.
fn candidates(read: &Lines, write: &Lines) -> impl Iterator<Item = (u32, bool)> {
    let knee = read.knee.max(write.knee).clamp(1.0, 16_384.0);
    let servers = move |factor: f64| {
        u32::try_from(whole((knee * factor).max(1.0))).expect("clamped to 65536")
    };
    let alone = [0.9, 0.95, 1.0, 1.05, 1.1].map(|factor| (servers(factor), false));
    let gated = [1.0, 1.25, 1.5, 2.0, 4.0].map(|factor| (servers(factor), true));
    alone.into_iter().chain(gated)
}

fn direction(lines: &Lines, has_gate: bool) -> Direction {
    let mut gate = lines.saturation;
    if !has_gate {
        gate.fixed_ns = 0;
    }
    Direction { service: lines.service, gate, p99_excess_ns: lines.p99_excess_ns }
}

fn replayed(device: MeasuredSpec, points: &[Point]) -> Vec<FittedPoint> {
    points
        .iter()
        .map(|point| {
            FittedPoint::new(point, &replay::measure(&mut Measured::new(device, 1), point))
        })
        .collect()
}

/// The sum of relative errors over all points.
fn error_of(device: MeasuredSpec, points: &[Point]) -> f64 {
    let fitted = replayed(device, points);
    fitted.iter().map(|point| (point.model_iops / point.iops).ln().abs()).sum()
}

fn goodness(points: &[FittedPoint], is_saturated: bool) -> Fit {
    let errors = || points.iter().map(|point| point.error_percent().abs());
    Fit {
        median_error_percent: tenths(median(errors())),
        worst_error_percent: tenths(errors().fold(0.0, f64::max)),
        is_saturated,
    }
}
