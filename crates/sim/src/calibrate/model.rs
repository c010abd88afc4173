//! What calibration found, and the file that holds it.
//!
//! The file is TOML: whole nanoseconds and bytes, where and when it was measured, and every point
//! beside what the model makes of it, so that a reader can judge the fit.

use evenkeel_core::time::Span;
use evenkeel_engine::cost::{CostModel, Line};
use serde::{Deserialize, Serialize};

use super::measured::MeasuredSpec;
use super::point::{Load, Point};

/// The version of the file's structure.
pub(super) const FORMAT: u32 = 1;

/// Bytes per second that stand for "no limit was seen".
const RATE_BYTES_MAX: u64 = 1_000_000_000_000;

/// `fixed + bytes / rate`, in whole nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeLine {
    /// For a request without bytes.
    pub fixed_ns: u64,
    /// Bytes per second on top; 10^12 where size made no difference.
    pub rate_bytes: u64,
}

/// `L(N) = a + b N`: mean latency over the number of requests under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DepthLine {
    /// Bytes of the requests that it was measured with.
    pub size_bytes: u64,
    /// `a`.
    pub fixed_ns: u64,
    /// `b`.
    pub per_request_ns: u64,
}

/// Where a model comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// What was measured.
    pub address: String,
    /// When, as the caller writes it.
    pub date: String,
    /// With which program.
    pub version: String,
}

/// How well the model meets the points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Half of the points are met within this, in throughput.
    pub median_error_percent: f64,
    /// All of them are.
    pub worst_error_percent: f64,
    /// Whether throughput had stopped growing at the deepest load; else the bound is a guess.
    pub is_saturated: bool,
}

/// A point beside what the model makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedPoint {
    /// Which requests.
    pub load: Load,
    /// Bytes of each.
    pub size_bytes: u64,
    /// Requests under way.
    pub depth: u32,
    /// Measured requests per second.
    pub iops: f64,
    /// Measured mean latency.
    pub mean_ns: u64,
    /// Measured 99th percentile.
    pub p99_ns: u64,
    /// The model's requests per second.
    pub model_iops: f64,
    /// The model's 99th percentile.
    pub model_p99_ns: u64,
}

/// What calibration found, as a file holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub(super) format: u32,
    /// Where it comes from.
    pub provenance: Provenance,
    /// Whether writes were measured; if not, they are taken to be like reads.
    pub is_write_measured: bool,
    /// Requests under way at which reads of the smallest size reach their full rate.
    pub knee_depth: u32,
    /// How well it fits.
    pub fit: Fit,
    /// Device time of a read when many are under way: the gate's cost model.
    pub cost_read: SizeLine,
    /// Device time of a write.
    pub cost_write: SizeLine,
    /// Latency of reads over depth.
    pub latency_read: DepthLine,
    /// Latency of writes over depth.
    pub latency_write: DepthLine,
    /// The device for the simulator.
    pub device: MeasuredSpec,
    /// What was measured, and what the model makes of it.
    pub points: Vec<FittedPoint>,
}

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Not TOML, or a key is missing, unknown or of the wrong type; the message shows the line.
    #[error("the model file cannot be read: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A figure that no device has.
    #[error("the model file's `{place}` {what}; measure again")]
    Figures {
        /// The key.
        place: &'static str,
        /// What is wrong.
        what: &'static str,
    },
}

impl SizeLine {
    /// The line `fixed + slope x` in nanoseconds and nanoseconds per byte.
    pub(super) fn from_fit((fixed_ns, ns_per_byte): (f64, f64)) -> Self {
        let rate = if ns_per_byte > 0.0 { 1e9 / ns_per_byte } else { f64::MAX };
        Self { fixed_ns: whole(fixed_ns), rate_bytes: whole(rate).clamp(1, RATE_BYTES_MAX) }
    }

    /// The time of a request of so many bytes.
    pub fn at(&self, bytes: u64) -> Span {
        let transfer = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate_bytes);
        Span(self.fixed_ns) + Span(u64::try_from(transfer).unwrap_or(u64::MAX))
    }

    /// Takes so many times as long.
    pub(super) fn slow_down(&mut self, times: f64) {
        self.fixed_ns = whole(self.fixed_ns as f64 * times);
        self.rate_bytes = whole(self.rate_bytes as f64 / times).clamp(1, RATE_BYTES_MAX);
    }

    fn line(&self) -> Line {
        Line { fixed: Span(self.fixed_ns), rate_bytes: self.rate_bytes }
    }
}

/// A positive number as the nearest whole one; saturates.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
pub(crate) fn whole(number: f64) -> u64 {
    number.round() as u64
}

impl FittedPoint {
    pub(super) fn new(measured: &Point, model: &Point) -> Self {
        Self {
            load: measured.load,
            size_bytes: measured.size_bytes,
            depth: measured.depth,
            iops: tenths(measured.iops),
            mean_ns: measured.mean.0,
            p99_ns: measured.p99.0,
            model_iops: tenths(model.iops),
            model_p99_ns: model.p99.0,
        }
    }

    /// How far the model's throughput lies from the measured one.
    pub fn error_percent(&self) -> f64 {
        (self.model_iops / self.iops - 1.0) * 100.0
    }
}

/// Rounds to tenths: the next digit is noise.
pub(super) fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

impl Model {
    /// The gate's cost model for this backend.
    pub fn cost(&self) -> CostModel {
        CostModel::Linear {
            read: self.cost_read.line(),
            write: self.cost_write.line(),
            flush: Span(self.device.flush_ns),
        }
    }

    /// The file's text. [`Self::parse`] reads it back to the same model.
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(self).expect("the model has nothing that TOML cannot hold");
        format!(
            "# A storage backend as measured; times in nanoseconds, rates in bytes per second.\n\
             # Made by `evenkeel calibrate`; the simulator uses it as a device.\n\n{body}"
        )
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// [`ModelError`] names the line or the key.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let model: Self = toml::from_str(text)?;
        let device = &model.device;
        let lines = [&device.read, &device.write].map(|it| [it.service, it.gate]);
        let costs = [model.cost_read, model.cost_write];
        let faults = [
            ("format", "is of another version", model.format != FORMAT),
            ("device.servers", "is not within 1 to 65536", !(1..=65_536).contains(&device.servers)),
            ("device.size_bytes", "is zero", device.size_bytes == 0),
            (
                "device",
                "has a rate of zero",
                lines.as_flattened().iter().any(|line| line.rate_bytes == 0),
            ),
            ("cost_read", "has a rate of zero", costs.iter().any(|line| line.rate_bytes == 0)),
        ];
        match faults.into_iter().find(|fault| fault.2) {
            Some((place, what, _)) => Err(ModelError::Figures { place, what }),
            None => Ok(model),
        }
    }
}
