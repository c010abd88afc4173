//! What `advise` says: for each tenant what it got and what it would get, what that stands on, and
//! the policy that is proposed.

use evenkeel_core::time::Span;
use evenkeel_sim::forecast::{EXPLAINED, Expected, Figures, Forecast, TenantForecast};
use evenkeel_trace::clients::Client;
use serde::Serialize;

use super::observed::Observed;
use super::proposal::Proposal;
use super::storage;
use crate::ctl::seconds;
use crate::{config, human, terminal};

/// A figure whose error bar is wider than this part of it is marked.
const WIDE: f64 = 0.3;

/// Where nothing has come for so long, the gate is idle.
const IDLE_MIN_SECONDS: f64 = 10.0;

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// How long the gate was observed.
    observed_seconds: f64,
    /// How long ago that ended; 0 for a recording.
    ended_seconds_ago: f64,
    /// Under which mode.
    mode: &'static str,
    requests: u64,
    /// Whether some storage explains what was seen of every tenant; else those of whom it does not
    /// have no forecast.
    is_explained: bool,
    storage: Vec<Storage>,
    clients: Vec<Source>,
    tenants: Vec<Tenant>,
    proposal: Proposed,
}

/// What stands behind a backend.
#[derive(Debug, Serialize)]
struct Storage {
    backend: String,
    /// The storage that comes nearest, for people.
    words: String,
    /// By how much rates and response times come out otherwise on it, as a part.
    error: f64,
    /// How many other models explain it as well.
    others: usize,
    /// Whether the load varied, without which nothing tells models apart.
    is_told_apart: bool,
}

/// How the requests of a source come.
#[derive(Debug, Serialize)]
struct Source {
    name: String,
    /// Whether its clients wait for answers before they ask for more.
    waits: bool,
    /// Requests under way at most.
    depth: u32,
}

/// A figure that is expected.
#[derive(Clone, Copy, Debug, Serialize)]
struct Range {
    value: f64,
    low: f64,
    high: f64,
}

/// What is known of a tenant.
#[derive(Debug, Serialize)]
struct Tenant {
    name: String,
    now: Now,
    /// None where the storage is not understood.
    forecast: Option<Then>,
}

/// What it got.
#[derive(Debug, Serialize)]
struct Now {
    iops: f64,
    bytes_per_second: f64,
    mean_seconds: f64,
    p99_seconds: f64,
}

/// What it would get.
#[derive(Debug, Serialize)]
struct Then {
    bytes_per_second: Range,
    /// None if nothing would be answered.
    mean_seconds: Option<Range>,
    /// By the likeliest storage; no range is known.
    p99_seconds: Option<f64>,
}

/// The policy.
#[derive(Debug, Serialize)]
struct Proposed {
    /// As a policy file.
    text: String,
    /// The lines that it changes.
    difference: Vec<String>,
    reasons: Vec<String>,
}

impl Report {
    pub(super) fn new(observed: &Observed, proposal: &Proposal, forecast: &Forecast) -> Self {
        let storage = forecast.devices.iter().map(|device| Storage {
            backend: device.backend.clone(),
            words: storage::words(&device.device),
            error: device.misses,
            others: device.others,
            is_told_apart: device.is_told_apart,
        });
        let sources = observed.sources.names().iter().zip(&forecast.clients);
        Self {
            observed_seconds: observed.length.as_secs_f64(),
            ended_seconds_ago: observed.age.as_secs_f64(),
            mode: config::mode_name(observed.policy.mode),
            requests: observed.records.len() as u64,
            is_explained: forecast.is_explained(),
            storage: storage.collect(),
            clients: sources
                .filter(|(_, client)| client.depth_max() > 0)
                .map(Source::new)
                .collect(),
            tenants: forecast.tenants.iter().map(Tenant::new).collect(),
            proposal: Proposed {
                text: config::recorded(&proposal.policy),
                difference: proposal.difference(&observed.policy),
                reasons: proposal.reasons.clone(),
            },
        }
    }

    /// For people.
    pub(super) fn render(&self) -> String {
        let mut text = format!(
            "observed for {}{} in mode {}: {} requests\n",
            human::duration(seconds(self.observed_seconds)),
            self.until(),
            self.mode,
            human::count(self.requests as f64)
        );
        for storage in &self.storage {
            text += &storage.line();
        }
        for source in &self.clients {
            text += &source.line();
        }
        text += "\n";
        text += &self.in_short(None);
        text += "\nproposed:\n";
        for line in &self.proposal.difference {
            text += &format!("  {line}\n");
        }
        for reason in &self.proposal.reasons {
            text += &format!("  ({reason})\n");
        }
        text
    }

    /// Until when, if nothing has come since.
    fn until(&self) -> String {
        if self.ended_seconds_ago < IDLE_MIN_SECONDS {
            return String::new();
        }
        format!(", until {} ago", human::duration(seconds(self.ended_seconds_ago)))
    }

    /// The forecast for each tenant, and why there is none.
    pub(super) fn in_short(&self, only: Option<&str>) -> String {
        let mut text = self.table(only);
        text += &self.storage.iter().filter_map(Storage::why_not).collect::<String>();
        text
    }

    fn table(&self, only: Option<&str>) -> String {
        let header = ["TENANT", "GETS", "WOULD GET", "", "MEAN", "WOULD BE", "", "P99", "WOULD BE"];
        let is_wanted = |tenant: &&Tenant| only.is_none_or(|name| tenant.name == name);
        let tenants: Vec<_> = self.tenants.iter().filter(is_wanted).collect();
        let rows: Vec<_> = tenants.iter().map(|tenant| tenant.row()).collect();
        let mut text = terminal::table(&header, &rows);
        let ranges = tenants.iter().filter_map(|one| one.forecast.as_ref());
        let mut ranges =
            ranges.flat_map(|then| [Some(then.bytes_per_second), then.mean_seconds]).flatten();
        if ranges.any(Range::is_wide) {
            text += "? wider than 30 % of the figure: observe for longer, or let a trial tell\n";
        }
        text
    }
}

impl Storage {
    fn line(&self) -> String {
        let others = match self.others {
            0 => String::new(),
            some => format!(", as it does on {}", human::counted(some, "other model")),
        };
        if !self.is_told_apart || !self.error.is_finite() {
            return String::new();
        }
        format!(
            "storage {}: {}; what was seen comes out on it within {:.1} %{others}\n",
            self.backend,
            self.words,
            self.error * 100.0
        )
    }

    /// Why there is no forecast on it.
    fn why_not(&self) -> Option<String> {
        let Self { backend, error, is_told_apart, .. } = self;
        if !error.is_finite() {
            return Some(format!("no forecast: too few requests went to {backend} to tell\n"));
        }
        if !is_told_apart {
            return Some(format!(
                "no forecast: {backend} was always asked for the same, which many kinds of storage \
                 answer alike; observe it while one of the clients rests\n"
            ));
        }
        (*error > EXPLAINED).then(|| {
            format!(
                "no forecast: on all storage that is supposed, what was seen of {backend} comes \
                 out otherwise, by {:.0} % at least; disks that order their queues do that\n",
                error * 100.0
            )
        })
    }
}

impl Source {
    fn new((name, client): (&String, &Client)) -> Self {
        Self { name: name.clone(), waits: client.is_closed, depth: client.depth_max() }
    }

    fn line(&self) -> String {
        let Self { name, waits, depth } = self;
        if *waits {
            format!("clients {name}: wait for answers, {depth} at once\n")
        } else {
            format!("clients {name}: do not wait for answers\n")
        }
    }
}

impl Tenant {
    fn new(tenant: &TenantForecast) -> Self {
        let p99 =
            |figures: &Figures| figures.latency.quantile(0.99).unwrap_or(Span::ZERO).as_secs_f64();
        let now = &tenant.now;
        let forecast = tenant.is_explained.then(|| Then {
            bytes_per_second: Range::new(tenant.bytes_per_second),
            mean_seconds: tenant.mean_seconds.map(Range::new),
            p99_seconds: tenant.mean_seconds.map(|_| p99(&tenant.then)),
        });
        Self {
            name: tenant.name.clone(),
            forecast,
            now: Now {
                iops: now.iops,
                bytes_per_second: now.bytes_per_second,
                mean_seconds: now.latency.mean().as_secs_f64(),
                p99_seconds: p99(now),
            },
        }
    }
}

/// A duration in seconds for people.
fn time(seconds: f64) -> String {
    human::duration(self::seconds(seconds))
}

impl Tenant {
    /// For people.
    fn row(&self) -> Vec<String> {
        let none = || "-".to_owned();
        let now = &self.now;
        let then = self.forecast.as_ref();
        let rate = then.map(|then| then.bytes_per_second);
        let mean = then.and_then(|then| then.mean_seconds);
        vec![
            self.name.clone(),
            human::byte_rate(now.bytes_per_second),
            rate.map_or_else(none, |rate| human::byte_rate(rate.value)),
            rate.map_or_else(none, |rate| rate.between(human::byte_rate)),
            time(now.mean_seconds),
            mean.map_or_else(none, |mean| time(mean.value)),
            mean.map_or_else(none, |mean| mean.between(time)),
            time(now.p99_seconds),
            then.and_then(|then| then.p99_seconds).map_or_else(none, time),
        ]
    }
}

impl Range {
    fn new(expected: Expected) -> Self {
        let Expected { value, low, high } = expected;
        Self { value, low, high }
    }

    fn is_wide(self) -> bool {
        self.high - self.low > WIDE * self.value
    }

    fn between(self, words: impl Fn(f64) -> String) -> String {
        let mark = if self.is_wide() { "?" } else { "" };
        format!("{} to {}{mark}", words(self.low), words(self.high))
    }
}
