//! A plan: present beside forecast for each tenant, and the promises.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::Policy;
use evenkeel_sim::result::{Summary, TenantSummary};
use serde::Serialize;

use super::change::{Change, Figures};
use super::present::{Basis, Past};
use super::promise::{self, Promise};
use super::survey::{Asked, Survey};
use crate::check::verdict::Verdict;
use crate::simulate::table::held;
use crate::{human, terminal};

/// The whole plan.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) basis: Basis,
    /// What the present is, or why there is none.
    pub(super) basis_words: String,
    /// Of the trace, at the speed of the replay.
    pub(super) length_seconds: f64,
    /// From the last arrival to the last answer.
    pub(super) drain_seconds: f64,
    pub(super) tenants: Vec<Row>,
    pub(super) promises: Vec<Promise>,
    /// What the floors take of each device, for requests like the recorded ones.
    pub(super) floors: Option<Verdict>,
    /// Equal for equal plans.
    pub(super) log_hash: String,
}

/// One tenant.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) requests: u64,
    /// Bytes per second that it asked for.
    pub(super) asked_bytes_per_second: f64,
    /// Bytes per second that it would get, until its last answer.
    pub(super) delivered_bytes_per_second: f64,
    /// From the last arrival of the trace to its last answer.
    pub(super) drain_seconds: f64,
    /// None where there is nothing to compare with.
    pub(super) present: Option<Times>,
    pub(super) forecast: Times,
    /// The response times of the trace, if each of its requests has one.
    pub(super) recorded: Option<Times>,
    /// Mean time that its own limit would hold a request.
    pub(super) held_mean_seconds: f64,
    pub(super) change: Change,
}

/// How long requests take.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Times {
    pub(super) mean_seconds: f64,
    pub(super) p99_seconds: f64,
    #[serde(skip)]
    pub(super) mean: Span,
    #[serde(skip)]
    pub(super) p99: Span,
    #[serde(skip)]
    pub(super) histogram: Histogram,
}

impl Times {
    fn new(histogram: &Histogram) -> Self {
        let (mean, p99) = (histogram.mean(), histogram.quantile(0.99).unwrap_or(Span::ZERO));
        Self {
            mean_seconds: mean.as_secs_f64(),
            p99_seconds: p99.as_secs_f64(),
            mean,
            p99,
            histogram: histogram.clone(),
        }
    }

    fn of(tenant: Option<&TenantSummary>) -> Self {
        tenant.map_or_else(Self::default, |one| Self::new(&one.traffic.latency.histogram))
    }

    fn figures(&self) -> Figures {
        Figures { mean: self.mean, p99: self.p99 }
    }
}

impl Report {
    /// The plan that a forecast makes.
    pub(super) fn new(
        past: &Past,
        policy: &Policy,
        survey: &Survey,
        forecast: &Summary,
        floors: Option<Verdict>,
    ) -> Self {
        let asked = survey.tenants.iter().map(|asked| asked.requests).sum();
        let row = |asked: &Asked| row(asked, survey, past.summary.as_ref(), forecast);
        Self {
            basis: past.basis,
            basis_words: past.words(),
            drain_seconds: forecast.drain.as_secs_f64(),
            length_seconds: survey.length.as_secs_f64(),
            tenants: survey.tenants.iter().map(row).collect(),
            promises: promise::of(policy, asked, survey.length, forecast, floors.as_ref()),
            floors,
            log_hash: format!("{:016x}", forecast.log_hash),
        }
    }

    /// Whether every promise is kept.
    pub(super) fn is_kept(&self) -> bool {
        self.promises.iter().all(|promise| promise.is_kept)
    }

    /// The plan for people.
    pub(super) fn render(&self, colour: bool) -> String {
        let header = [
            "TENANT",
            "REQUESTS",
            "ASKED",
            "WOULD GET",
            "MEAN NOW",
            "THEN",
            "P99 NOW",
            "THEN",
            "HELD",
            "<CHANGE",
        ];
        let rows: Vec<Vec<String>> = self.tenants.iter().map(Row::cells).collect();
        let mut text = terminal::table(&header, &rows);
        text += &format!("\nnow: {}\n", self.basis_words);
        text += &self.recorded();
        for promise in &self.promises {
            let (word, code) = if promise.is_kept { ("kept", "32") } else { ("BROKEN", "31;1") };
            let word = if colour { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() };
            let whose = promise.tenant.as_ref().map_or(String::new(), |name| format!("{name}: "));
            text += &format!("{word}  {whose}{}: {}\n", promise.what, promise.found);
        }
        if let Some(floors) = &self.floors {
            text += &format!("\n{}\n", floors.render());
        }
        text + &format!("log hash {}\n", self.log_hash)
    }

    /// What the trace itself says, to judge the model by.
    fn recorded(&self) -> String {
        let told = self.tenants.iter().filter_map(|row| {
            let Times { mean, p99, .. } = row.recorded.as_ref()?;
            let (mean, p99) = (human::duration(*mean), human::duration(*p99));
            Some(format!("{} {mean} (p99 {p99})", row.name))
        });
        let told: Vec<String> = told.collect();
        if told.is_empty() {
            return String::new();
        }
        format!("recorded, on the storage of that time: {}\n", told.join(", "))
    }
}

fn row(asked: &Asked, survey: &Survey, present: Option<&Summary>, forecast: &Summary) -> Row {
    let find =
        |summary: &Summary| summary.tenants.iter().position(|tenant| tenant.name == asked.name);
    let after = find(forecast).map(|index| &forecast.tenants[index]);
    let of = |summary: &Summary| Times::of(find(summary).map(|index| &summary.tenants[index]));
    let (before, then) = (present.map(of), Times::of(after));
    let seconds = survey.length.as_secs_f64().max(1e-9);
    let drain = after.map_or(Span::ZERO, |one| one.traffic.drain);
    let delivered = after.map_or(0.0, |one| one.traffic.bytes as f64);
    Row {
        name: asked.name.clone(),
        requests: asked.requests,
        asked_bytes_per_second: asked.bytes as f64 / seconds,
        delivered_bytes_per_second: delivered / (seconds + drain.as_secs_f64()),
        drain_seconds: drain.as_secs_f64(),
        change: Change::of(before.as_ref().map(Times::figures), then.figures()),
        present: before,
        forecast: then,
        recorded: survey.has_responses.then(|| Times::new(&asked.latency)),
        held_mean_seconds: held(forecast, &asked.name).as_secs_f64(),
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a duration")]
        let held = Span((self.held_mean_seconds * 1e9) as u64);
        let now = |value: fn(&Times) -> Span| {
            self.present.as_ref().map_or_else(|| "-".to_owned(), |one| human::duration(value(one)))
        };
        vec![
            self.name.clone(),
            human::count(self.requests as f64),
            human::byte_rate(self.asked_bytes_per_second),
            human::byte_rate(self.delivered_bytes_per_second),
            now(|present| present.mean),
            human::duration(self.forecast.mean),
            now(|present| present.p99),
            human::duration(self.forecast.p99),
            human::duration(held),
            self.change.words(self.present.as_ref().map(Times::figures), self.forecast.figures()),
        ]
    }
}
