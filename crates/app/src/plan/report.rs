//! A plan: present beside forecast for each tenant, and the promises.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::Policy;
use evenkeel_sim::result::{Summary, TenantSummary};
use serde::Serialize;

use super::change::Change;
use super::promise::{self, Promise};
use super::survey::{Asked, Survey};
use crate::check::verdict::Verdict;
use crate::simulate::table::held;
use crate::{human, terminal};

/// What the present figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Basis {
    /// The response times of the trace.
    Recorded,
    /// The trace under the policy of `--present`, on the same model.
    PresentPolicy,
    /// The trace on the same model with nobody interfering.
    NoPolicy,
}

impl Basis {
    /// What it is, for people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Recorded => "response times as recorded",
            Self::PresentPolicy => "the present policy, simulated on the same storage",
            Self::NoPolicy => "no policy, simulated on the same storage",
        }
    }
}

/// The whole plan.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) basis: Basis,
    /// Of the trace, at the speed of the replay.
    pub(super) length_seconds: f64,
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
    /// Bytes per second that it would get.
    pub(super) delivered_bytes_per_second: f64,
    pub(super) present: Times,
    pub(super) forecast: Times,
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
}

impl Report {
    /// The plan that a forecast makes; `present` is missing where the trace tells.
    pub(super) fn new(
        basis: Basis,
        policy: &Policy,
        survey: &Survey,
        present: Option<&Summary>,
        forecast: &Summary,
        floors: Option<Verdict>,
    ) -> Self {
        let asked = survey.tenants.iter().map(|asked| asked.requests).sum();
        let row = |asked: &Asked| row(asked, survey.length, present, forecast);
        Self {
            basis,
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
        text += &format!("\nnow: {}\n", self.basis.words());
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
}

fn row(asked: &Asked, length: Span, present: Option<&Summary>, forecast: &Summary) -> Row {
    let find =
        |summary: &Summary| summary.tenants.iter().position(|tenant| tenant.name == asked.name);
    let after = find(forecast).map(|index| &forecast.tenants[index]);
    let before = match present {
        Some(summary) => Times::of(find(summary).map(|index| &summary.tenants[index])),
        None => Times::new(&asked.latency),
    };
    let then = Times::of(after);
    let seconds = length.as_secs_f64().max(1e-9);
    Row {
        name: asked.name.clone(),
        requests: asked.requests,
        asked_bytes_per_second: asked.bytes as f64 / seconds,
        delivered_bytes_per_second: after.map_or(0.0, |one| one.traffic.bytes as f64 / seconds),
        change: Change::of(before.p99, then.p99),
        present: before,
        forecast: then,
        held_mean_seconds: held(forecast, &asked.name).as_secs_f64(),
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a duration")]
        let held = Span((self.held_mean_seconds * 1e9) as u64);
        vec![
            self.name.clone(),
            human::count(self.requests as f64),
            human::byte_rate(self.asked_bytes_per_second),
            human::byte_rate(self.delivered_bytes_per_second),
            human::duration(self.present.mean),
            human::duration(self.forecast.mean),
            human::duration(self.present.p99),
            human::duration(self.forecast.p99),
            human::duration(held),
            self.change.words(self.present.p99, self.forecast.p99),
        ]
    }
}
