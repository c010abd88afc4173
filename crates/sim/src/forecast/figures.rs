//! What is compared: rates and response times, as recorded, as reproduced, and as forecast.

use std::ops::Range;

use evenkeel_core::float::{exponential, natural_log};
use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::Record;

use crate::result::Traffic;
use crate::scenario::Route;

/// The present is compared part by part: a device that is right on average may be wrong while one
/// client is alone and while all are there.
pub(super) const SLICES: u64 = 10;

/// A part in which fewer requests of a source ended tells nothing of a device.
const REQUESTS_MIN: f64 = 50.0;

/// No forecast is more exact than this, as a logarithm,
const ERROR_MIN: f64 = 0.04;

/// and less so by this part of the change that it foretells.
const ERROR_OF_CHANGE: f64 = 0.04;

/// What comes on top for a recording of a minute: so much, and this part of the change. Depths and
/// costs are found by trying, so that a minute goes otherwise each time. It falls with the square
/// root of the length.
const CHANCE: f64 = 0.02;
const CHANCE_OF_CHANGE: f64 = 0.08;
const CHANCE_LENGTH: Span = Span::from_secs(60);

/// Beyond this nothing is said, as a logarithm.
const ERROR_MAX: f64 = 5.0;

/// What is less than this is nothing.
const NOTHING: f64 = 1e-9;

/// What one source or tenant got in the time that counts.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Requests that arrived.
    pub requests: u64,
    /// Requests answered, per second.
    pub iops: f64,
    /// Bytes of them, per second.
    pub bytes_per_second: f64,
    /// How long they took.
    pub latency: Histogram,
    /// What ended in each of [`SLICES`] parts of the time, one after the other.
    pub(super) slices: Vec<Slice>,
}

/// What ended in a part of the time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    requests: f64,
    /// All that they took.
    latency_ns: f64,
}

/// A figure, and between what it is expected to be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// The likeliest.
    pub value: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// What would become of one tenant.
#[derive(Clone, Debug)]
pub struct TenantForecast {
    /// Its name under the proposed policy.
    pub name: String,
    /// As it was recorded.
    pub now: Figures,
    /// Bytes per second.
    pub bytes_per_second: Expected,
    /// Mean response time, in seconds; none if nothing is answered.
    pub mean_seconds: Option<Expected>,
    /// All that the likeliest device says.
    pub then: Figures,
    /// Whether the storage behind all that it uses is understood: only then is this worth anything.
    pub is_explained: bool,
}

impl Figures {
    /// What these records say, of one source and in order.
    pub(super) fn recorded(records: &[Record], counted: Range<Nanos>) -> Self {
        let mut figures = Self::default();
        let length = counted.end.since(counted.start);
        let seconds = length.as_secs_f64().max(1e-9);
        figures.slices.resize(usize::try_from(SLICES).expect("few"), Slice::default());
        for record in records {
            let Some(response) = record.response else { continue };
            if counted.contains(&record.at) {
                figures.requests += 1;
                figures.latency.record(response);
            }
            if counted.contains(&(record.at + response)) {
                figures.iops += 1.0 / seconds;
                figures.bytes_per_second += record.length as f64 / seconds;
                let since = (record.at + response).since(counted.start);
                let slice = since.0 / (length.0 / SLICES).max(1);
                let slice = usize::try_from(slice.min(SLICES - 1)).expect("few");
                figures.slices[slice].add(1.0, response.0 as f64);
            }
        }
        figures
    }

    /// And these of a run.
    pub(super) fn add(&mut self, traffic: &Traffic) {
        self.requests += traffic.requests;
        self.iops += traffic.iops;
        self.bytes_per_second += traffic.mib_per_second * f64::from(1 << 20);
        self.latency.merge(&traffic.latency.histogram);
        for (index, entry) in traffic.series.iter().enumerate() {
            // The last interval may be shorter, and one more than there are slices.
            let slice = index.min(usize::try_from(SLICES).expect("few") - 1);
            if self.slices.len() <= slice {
                self.slices.resize(slice + 1, Slice::default());
            }
            let requests = entry.requests as f64;
            self.slices[slice].add(requests, requests * entry.latency_mean.0 as f64);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.iops += other.iops;
        self.bytes_per_second += other.bytes_per_second;
        self.latency.merge(&other.latency);
    }

    fn mean_seconds(&self) -> f64 {
        self.latency.mean().as_secs_f64()
    }
}

impl Slice {
    fn add(&mut self, requests: f64, latency_ns: f64) {
        self.requests += requests;
        self.latency_ns += latency_ns;
    }

    /// By how much one is off from the other, in requests and in how long they took, each as a
    /// logarithm; nothing where too little was seen in both.
    fn off(&self, other: &Self) -> Option<f64> {
        if self.requests.max(other.requests) < REQUESTS_MIN {
            return None;
        }
        let mean = |one: &Self| one.latency_ns / one.requests.max(1.0);
        // One request is the least that can be compared.
        let requests = off(self.requests.max(1.0), other.requests.max(1.0));
        Some(requests + if other.requests < 1.0 { 0.0 } else { off(mean(self), mean(other)) })
    }
}

impl Expected {
    /// The width of what is expected, as a part of the value.
    pub fn width(&self) -> f64 {
        if self.value > 0.0 { (self.high - self.low) / self.value } else { 0.0 }
    }

    /// Whether this is within.
    pub fn holds(&self, found: f64) -> bool {
        (self.low..=self.high).contains(&found)
    }

    /// The one in the middle is the likeliest. Each is as far off as its `nows` are from what was
    /// recorded.
    fn new(recorded: f64, nows: &[f64], thens: &[f64], counted: Span) -> Self {
        let mut sorted = thens.to_vec();
        sorted.sort_by(f64::total_cmp);
        let value = sorted[(sorted.len() - 1) / 2];
        let (mut low, mut high) = (value, value);
        for (now, then) in nows.iter().zip(thens) {
            let error = likely_error(off(*then, *now), counted);
            let error = exponential(off(*now, recorded).max(error).min(ERROR_MAX));
            low = low.min(then / error);
            high = high.max(then * error);
        }
        Self { value, low, high }
    }
}

/// How far off a forecast of such a change may be, as a logarithm, if its device is right.
fn likely_error(change: f64, counted: Span) -> f64 {
    let minutes = counted.as_secs_f64() / CHANCE_LENGTH.as_secs_f64();
    let spread = minutes.max(1e-3).sqrt().recip();
    ERROR_MIN + CHANCE * spread + (ERROR_OF_CHANGE + CHANCE_OF_CHANGE * spread) * change
}

/// By how much `one` is off from the `other`, as a logarithm; nothing is not off from nothing.
fn off(one: f64, other: f64) -> f64 {
    natural_log(one.max(NOTHING) / other.max(NOTHING)).abs()
}

/// By how much the sources that are meant come out otherwise than they were recorded.
pub(super) fn misses(
    recorded: &[Vec<Slice>],
    played: &[Vec<Slice>],
    is_meant: impl Fn(usize) -> bool,
) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for (source, (recorded, played)) in recorded.iter().zip(played).enumerate() {
        if !is_meant(source) {
            continue;
        }
        let (mut here, mut there) = (Slice::default(), Slice::default());
        for (recorded, played) in recorded.iter().zip(played) {
            // Parts of a source that asks seldom are taken together until they tell something.
            here.add(recorded.requests, recorded.latency_ns);
            there.add(played.requests, played.latency_ns);
            if let Some(off) = here.off(&there) {
                sum += off;
                count += 2.0;
                (here, there) = (Slice::default(), Slice::default());
            }
        }
    }
    // Where nothing could be compared nothing is known.
    if count > 0.0 { sum / count } else { f64::INFINITY }
}

/// By tenant, in the order of their sources. The first of `nows` and `thens` are of the device that
/// explains best what was recorded; each is by source.
pub(super) fn tenants(
    routes: &[Route],
    (recorded, nows, thens): (&[Figures], &[Vec<Figures>], &[Vec<Figures>]),
    counted: Span,
    is_explained: impl Fn(&str) -> bool,
) -> Vec<TenantForecast> {
    let mut names: Vec<&str> = Vec::new();
    for route in routes {
        let name = route.tenant.as_deref().unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let of = |name: &str, figures: &[Figures]| {
        let mut all = Figures::default();
        let of_it = routes.iter().zip(figures);
        let of_it = of_it.filter(|(route, _)| route.tenant.as_deref() == Some(name));
        of_it.for_each(|(_, one)| all.merge(one));
        all
    };
    let tenant = |name: &str| {
        let now = of(name, recorded);
        let [nows, thens] =
            [nows, thens].map(|plays| plays.iter().map(|play| of(name, play)).collect::<Vec<_>>());
        let expected = |figure: fn(&Figures) -> f64| {
            let [nows, thens] = [&nows, &thens].map(|all| all.iter().map(figure).collect());
            let (nows, thens): (Vec<f64>, Vec<f64>) = (nows, thens);
            Expected::new(figure(&now), &nows, &thens, counted)
        };
        TenantForecast {
            name: name.to_owned(),
            bytes_per_second: expected(|figures| figures.bytes_per_second),
            mean_seconds: (thens.iter().all(|then| then.latency.count() > 0))
                .then(|| expected(Figures::mean_seconds)),
            then: thens[0].clone(),
            is_explained: is_explained(name),
            now,
        }
    };
    let all = names.into_iter().map(tenant);
    all.filter(|tenant| tenant.now.requests > 0).collect()
}
