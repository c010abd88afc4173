//! Calibrating a device that is known finds what it is.

use evenkeel_core::prng::Prng;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::{CostModel, Line};

use super::replay::measure;
use super::*;
use crate::device::Device;
use crate::device::ssd::{Precondition, Ssd, SsdSpec, catalogue};

const SIZES: [u64; 4] = [4096, 16_384, 65_536, 262_144];
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

fn known() -> MeasuredSpec {
    let read = Direction {
        service: SizeLine { fixed_ns: 100_000, rate_bytes: 1_000_000_000 },
        gate: SizeLine { fixed_ns: 8_000, rate_bytes: 2_000_000_000 },
        p99_excess_ns: 60_000,
    };
    let write = Direction {
        service: SizeLine { fixed_ns: 40_000, rate_bytes: 500_000_000 },
        gate: SizeLine { fixed_ns: 20_000, rate_bytes: 600_000_000 },
        p99_excess_ns: 10_000,
    };
    MeasuredSpec {
        size_bytes: 1 << 36,
        servers: 40,
        is_gate_shared: true,
        flush_ns: 0,
        read,
        write,
    }
}

fn ladder(loads: &[Load]) -> Vec<(Load, u64, u32)> {
    let of = |load| {
        let deep = SIZES.into_iter().flat_map(move |size| [(load, size, 1), (load, size, 128)]);
        deep.chain(DEPTHS.map(move |depth| (load, 4096, depth)))
    };
    let mut rungs: Vec<_> = loads.iter().flat_map(|&load| of(load)).collect();
    rungs.push((Load::Mixed, 4096, 128));
    rungs.retain(|rung| rung.0 != Load::Mixed || loads.len() > 1);
    rungs
}

/// Measures a device as a caller would, each reading off by up to `noise` of itself.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are small")]
fn measured<D: Device>(
    make: impl Fn() -> D,
    loads: &[Load],
    (seed, noise): (u64, f64),
) -> Vec<Point> {
    let mut prng = Prng::new(seed);
    let mut shake = |value: f64| value * (1.0 + noise * (2.0 * prng.unit_f64() - 1.0));
    let rungs = ladder(loads).into_iter().map(|(load, size_bytes, depth)| {
        let asked = Point { load, size_bytes, depth, iops: 0.0, mean: Span::ZERO, p99: Span::ZERO };
        let found = measure(&mut make(), &asked);
        let mean = Span(shake(found.mean.0 as f64).round() as u64);
        Point { iops: shake(found.iops), mean, ..found }
    });
    rungs.collect()
}

#[track_caller]
fn assert_near(value: u64, expected: u64, percent: f64) {
    let distance = (value as f64 / expected as f64 - 1.0).abs() * 100.0;
    assert!(distance <= percent, "{value} is {distance:.1} % away from {expected}");
}

fn fitted(points: &[Point]) -> Model {
    fit(points, (1 << 36, 1_000_000), Provenance::default()).unwrap()
}

#[test]
fn a_known_model_is_recovered() {
    let spec = known();
    let points = measured(|| Measured::new(spec, 9), &[Load::Read, Load::Write], (0, 0.0));
    let model = fitted(&points);
    for (found, real, percent) in
        [(model.device.read, spec.read, 2.0), (model.device.write, spec.write, 2.0)]
    {
        assert_near(found.service.fixed_ns, real.service.fixed_ns, percent);
        assert_near(found.service.rate_bytes, real.service.rate_bytes, percent);
        assert_near(found.gate.fixed_ns, real.gate.fixed_ns, percent);
        assert_near(found.gate.rate_bytes, real.gate.rate_bytes, percent);
        assert_near(found.p99_excess_ns, real.p99_excess_ns, 15.0);
    }
    assert!(model.device.is_gate_shared && model.fit.is_saturated);
    assert!(model.fit.worst_error_percent < 5.0, "{:?}", model.fit);
    let CostModel::Linear { read: Line { fixed, rate_bytes }, .. } = model.cost() else {
        panic!("the cost is linear")
    };
    assert_near(fixed.0, 8_000, 2.0);
    assert_near(rate_bytes, 2_000_000_000, 2.0);
}

#[test]
fn noise_of_a_tenth_moves_no_parameter_by_more() {
    let spec = known();
    let once =
        |seed| measured(|| Measured::new(spec, seed), &[Load::Read, Load::Write], (seed, 0.1));
    let points: Vec<_> = (0..5).flat_map(once).collect();
    let model = fitted(&points);
    assert_near(model.device.read.service.fixed_ns, 100_000, 10.0);
    assert_near(model.cost_read.rate_bytes, 2_000_000_000, 10.0);
    assert_near(model.cost_write.fixed_ns, 20_000, 10.0);
    // A lone read takes 104 us and one passes every 10.05 us: 10.35 at once.
    assert!((10..=11).contains(&model.knee_depth), "{}", model.knee_depth);
}

#[test]
fn parallel_servers_without_another_bound_are_counted() {
    let mut spec = known();
    spec.servers = 16;
    spec.read.service = SizeLine { fixed_ns: 10_000_000, rate_bytes: 1_000_000_000_000 };
    spec.read.gate = SizeLine { fixed_ns: 0, rate_bytes: 1_000_000_000_000 };
    let model = fitted(&measured(|| Measured::new(spec, 9), &[Load::Read], (0, 0.0)));
    assert_eq!(model.device.servers, 16);
    assert_eq!(model.knee_depth, 16);
    assert!(!model.is_write_measured);
    assert_near(model.device.read.service.fixed_ns, 10_000_000, 1.0);
    // Where latency is flat and then rises, no line meets all of it; this one bends the least.
    assert!(model.latency_read.per_request_ns > 300_000, "{:?}", model.latency_read);
    assert!(model.fit.worst_error_percent < 3.0, "{:?}", model.fit);
}

#[test]
fn reads_and_writes_with_bounds_of_their_own_are_told_from_one_bound() {
    let spec = MeasuredSpec { is_gate_shared: false, servers: 400, ..known() };
    let points = measured(|| Measured::new(spec, 9), &[Load::Read, Load::Write], (0, 0.0));
    assert!(!fitted(&points).device.is_gate_shared);
}

#[test]
fn the_model_of_a_flash_drive_meets_it_within_a_quarter() {
    let spec = SsdSpec::parse(catalogue::DRIVES[0].text).unwrap();
    let spec = spec.preconditioned(Precondition::Random);
    let points = measured(|| Ssd::new(spec.clone()).unwrap(), &[Load::Read], (0, 0.0));
    let model = fitted(&points);
    assert!(model.fit.median_error_percent < 10.0, "{:?}", model.fit);
    assert!(model.fit.worst_error_percent < 25.0, "{:?} {:#?}", model.fit, model.points);
}

#[test]
fn a_model_file_reads_back_and_a_broken_one_is_refused_with_its_place() {
    let points = measured(|| Measured::new(known(), 9), &[Load::Read], (0, 0.0));
    let provenance = Provenance {
        address: "nbd://storage/disk".to_owned(),
        date: "2026-01-31".to_owned(),
        version: "1".to_owned(),
    };
    let model = fit(&points, (1 << 36, 0), provenance).unwrap();
    let text = model.to_toml();
    assert_eq!(Model::parse(&text).unwrap(), model);
    let refusal = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        Model::parse(&text.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert!(refusal("format = 1", "format = 2").contains("another version"));
    assert!(refusal("servers", "savers").contains("savers"));
    let servers = format!("servers = {}", model.device.servers);
    assert!(refusal(&servers, "servers = 0").contains("within 1 to 65536"));
}

#[test]
fn points_that_make_no_model_say_what_is_missing() {
    let points = measured(|| Measured::new(known(), 9), &[Load::Read], (0, 0.0));
    let refusal = |points: &[Point]| {
        fit(points, (1 << 36, 0), Provenance::default()).unwrap_err().to_string()
    };
    assert!(refusal(&[]).contains("one request at a time"));
    assert!(refusal(&points[..1]).contains("several requests"));
    let mut empty = points;
    empty[3].iops = 0.0;
    assert!(refusal(&empty).contains("measure longer"));
}
