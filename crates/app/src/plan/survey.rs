//! What a trace asks for: read once, before anything is replayed.

use std::ops::ControlFlow;

use evenkeel_core::histogram::Histogram;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_sim::scenario::Route;
use evenkeel_trace::codec::RecordedPolicy;
use evenkeel_trace::{Record, SourceId};

use super::route::Routes;
use crate::exit::Exit;
use crate::trace::input::TraceFile;

/// Entries of a time series at most.
const INTERVALS_MAX: u64 = 300;

/// The shortest interval of a time series.
const INTERVAL_MIN: Span = Span::from_millis(100);

/// A trace at a glance.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    /// By name of the tenant, in the order of their first requests.
    pub(super) tenants: Vec<Asked>,
    /// The names of the sources, by id.
    pub(super) sources: Vec<String>,
    /// From the first instant to the last arrival, at the replay's speed.
    pub(super) length: Span,
    /// Every request tells how long it took.
    pub(super) has_responses: bool,
    /// The policies that it was recorded under.
    pub(super) policies: Vec<RecordedPolicy>,
}

/// What one tenant asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) name: String,
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Requests that read or write.
    pub(super) transfers: u64,
    /// Those of them that read.
    pub(super) reads: u64,
    /// How long its requests took when they were recorded.
    pub(super) latency: Histogram,
}

/// Reads a trace.
///
/// # Errors
/// [`Exit::Invalid`] if it cannot be read or is empty, and what [`Routes::of`] says.
pub(super) fn of(trace: &TraceFile, routes: &Routes<'_>, speed: f64) -> anyhow::Result<Survey> {
    let mut reader = trace.open()?;
    reader.tell_understood();
    let mut survey = Survey { has_responses: true, ..Survey::default() };
    let mut rows: Vec<Option<usize>> = Vec::new();
    let mut last = Span::ZERO;
    reader.each(|sources, record| {
        let row = match rows.get(record.source.0 as usize).copied().flatten() {
            Some(row) => row,
            None => survey.row(&mut rows, record.source, sources.name(record.source), routes)?,
        };
        survey.count(row, record);
        last = Span(record.at.0.max(last.0));
        Ok(ControlFlow::Continue(()))
    })?;
    reader.defects().tell();
    if survey.tenants.is_empty() {
        return Err(Exit::Invalid.because(format!("{}: no requests in it", reader.name())));
    }
    survey.sources = reader.sources().names().to_vec();
    survey.policies = reader.policies().to_vec();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let length_ns = (last.0 as f64 / speed).ceil() as u64;
    // The last request arrives within the measured time, not at its end.
    survey.length = Span(length_ns + 1);
    Ok(survey)
}

impl Survey {
    /// The width of an entry in the time series of a replay.
    pub(super) fn interval(&self) -> Span {
        Span(self.length.0 / INTERVALS_MAX).max(INTERVAL_MIN)
    }

    /// Where the requests of each source go, by its id.
    pub(super) fn routes(&self, routes: &Routes<'_>) -> anyhow::Result<Vec<Route>> {
        self.sources.iter().map(|source| routes.of(source)).collect()
    }

    fn row(
        &mut self,
        rows: &mut Vec<Option<usize>>,
        source: SourceId,
        name: &str,
        routes: &Routes<'_>,
    ) -> anyhow::Result<usize> {
        let tenant = routes.of(name)?.tenant.expect("routes tell the tenant");
        let known = self.tenants.iter().position(|asked| asked.name == tenant);
        let row = known.unwrap_or_else(|| {
            self.tenants.push(Asked { name: tenant, ..Asked::default() });
            self.tenants.len() - 1
        });
        let index = source.0 as usize;
        rows.resize(rows.len().max(index + 1), None);
        rows[index] = Some(row);
        Ok(row)
    }

    fn count(&mut self, row: usize, record: &Record) {
        let asked = &mut self.tenants[row];
        asked.requests += 1;
        asked.bytes += record.length;
        let is_read = matches!(record.kind, Kind::Read | Kind::Cache);
        asked.transfers += u64::from(record.kind != Kind::Flush);
        asked.reads += u64::from(is_read);
        match record.response {
            Some(response) => asked.latency.record(response),
            None => self.has_responses = false,
        }
    }
}
