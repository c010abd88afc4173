//! Live beside forecast: three figures for each workload, held against their tolerances.

use evenkeel_core::time::Span;
use serde::Serialize;

use super::super::claim::Verdict;
use super::{Outcome, Tolerance};
use crate::evidence::machine::Conditions;
use crate::terminal;

/// One workload of one scenario.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    scenario: &'static str,
    workload: String,
    /// Part of all bytes delivered.
    share: Pair,
    /// In milliseconds.
    mean_ms: Pair,
    /// In milliseconds.
    p99_ms: Pair,
    verdict: Verdict,
    /// Why it does not hold, or was not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// One figure in both worlds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Pair {
    live: f64,
    forecast: f64,
    /// The forecast over the live figure, less one.
    error: f64,
    tolerance: f64,
}

impl Pair {
    fn new(live: f64, forecast: f64, tolerance: f64) -> Self {
        let error = if live > 0.0 { forecast / live - 1.0 } else { f64::INFINITY };
        Self { live, forecast, error, tolerance }
    }

    fn holds(&self) -> bool {
        self.error.abs() <= self.tolerance
    }
}

/// Which figures are off by more than they may be, and by how much; none if all are within.
fn missed(pairs: &[(&str, Pair)]) -> Option<String> {
    let missed = pairs.iter().filter(|(_, pair)| !pair.holds()).map(|(name, pair)| {
        let (error, tolerance) = (pair.error * 100.0, pair.tolerance * 100.0);
        format!("{name} {error:+.1} % off (at most {tolerance:.0} %)")
    });
    let missed: Vec<String> = missed.collect();
    (!missed.is_empty()).then(|| missed.join(", "))
}

/// A line for each row that does not hold.
pub(super) fn reasons(rows: &[Row]) -> String {
    let reason = |row: &Row| {
        let why = row.why.as_ref()?;
        Some(format!("  -> {}, {}: {why}\n", row.scenario, row.workload))
    };
    rows.iter().filter_map(reason).collect()
}

impl Row {
    /// Holds the row against the conditions under which it was measured.
    pub(super) fn temper(&mut self, conditions: &Conditions) {
        let verdict = conditions.temper(self.verdict);
        if verdict != self.verdict {
            let as_it_is = self.why.take().unwrap_or_default();
            self.why = Some(format!("{}. As it is: {as_it_is}", conditions.why()));
            self.verdict = verdict;
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether all of its figures are within their tolerances.
    pub(super) fn holds(&self) -> bool {
        self.verdict == Verdict::Holds
    }
}

/// The rows of one scenario.
pub(super) fn compare(
    scenario: &'static str,
    live: &[Outcome],
    forecast: &[Outcome],
    tolerance: Tolerance,
) -> Vec<Row> {
    let total = |outcomes: &[Outcome]| outcomes.iter().map(|one| one.bytes).sum::<u64>().max(1);
    let totals = (total(live) as f64, total(forecast) as f64);
    let pairs = live.iter().zip(forecast);
    pairs
        .map(|(live, forecast)| {
            let part = |outcome: &Outcome, total: f64| outcome.bytes as f64 / total;
            let milliseconds = |span: Span| span.0 as f64 / 1e6;
            let mean = |outcome: &Outcome| milliseconds(outcome.latency.mean());
            let p99 = |outcome: &Outcome| {
                milliseconds(outcome.latency.quantile(0.99).unwrap_or(Span::ZERO))
            };
            let share = Pair::new(part(live, totals.0), part(forecast, totals.1), tolerance.share);
            let mean_ms = Pair::new(mean(live), mean(forecast), tolerance.mean);
            let p99_ms = Pair::new(p99(live), p99(forecast), tolerance.p99);
            let verdict = Verdict::of(share.holds() && mean_ms.holds() && p99_ms.holds());
            let workload = live.workload.clone();
            let why = missed(&[("share", share), ("mean", mean_ms), ("99th percentile", p99_ms)]);
            Row { scenario, workload, share, mean_ms, p99_ms, verdict, why }
        })
        .collect()
}

/// The rows for people.
pub(super) fn table(rows: &[Row], tolerance: Tolerance, colour: bool) -> String {
    let header = [
        "SCENARIO",
        "<WORKLOAD",
        "SHARE",
        "FORECAST",
        "OFF",
        "MEAN",
        "FORECAST",
        "OFF",
        "P99",
        "FORECAST",
        "OFF",
        "VERDICT",
    ];
    let cells = rows.iter().map(|row| {
        let mut cells = vec![row.scenario.to_owned(), row.workload.clone()];
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        let milliseconds = |value: f64| format!("{value:.1} ms");
        let off = |pair: &Pair| {
            let mark = if pair.holds() { "" } else { "!" };
            format!("{:+.1} %{mark}", pair.error * 100.0)
        };
        let Row { share, mean_ms, p99_ms, .. } = row;
        cells.extend([percent(share.live), percent(share.forecast), off(share)]);
        for pair in [mean_ms, p99_ms] {
            cells.extend([milliseconds(pair.live), milliseconds(pair.forecast), off(pair)]);
        }
        cells.push(row.verdict.shown(colour));
        cells
    });
    let table = terminal::table(&header, &cells.collect::<Vec<_>>());
    let count = rows.iter().filter(|row| row.holds()).count();
    let Tolerance { share, mean, p99 } = tolerance;
    format!(
        "{table}\n{count} of {} rows hold: share within {:.0} %, mean within {:.0} %, 99th \
         percentile within {:.0} % of the live figure\n",
        rows.len(),
        share * 100.0,
        mean * 100.0,
        p99 * 100.0
    )
}

#[cfg(test)]
mod tests {
    use evenkeel_core::histogram::Histogram;

    use super::*;

    fn outcome(bytes: u64, ms: u64) -> Outcome {
        let mut latency = Histogram::default();
        latency.record(Span::from_millis(ms));
        Outcome { workload: "db".to_owned(), bytes, latency }
    }

    #[test]
    fn a_row_holds_if_all_its_figures_do() {
        let tolerance = Tolerance { share: 0.03, mean: 0.10, p99: 0.20 };
        let live = [outcome(500, 100), outcome(500, 100)];
        let good = compare("shares", &live, &[outcome(510, 108), outcome(490, 92)], tolerance);
        assert!(good.iter().all(Row::holds), "{good:?}");
        let bad = compare("shares", &live, &[outcome(500, 115), outcome(520, 100)], tolerance);
        assert!(!bad[0].holds(), "the mean is 15 % off");
        assert!(bad[1].holds());
        let text = table(&bad, tolerance, false);
        assert!(text.contains("+15.0 %!") && text.contains("1 of 2 rows hold"), "{text}");
        let why = "  -> shares, db: mean +15.0 % off (at most 10 %)\n";
        assert_eq!(reasons(&bad), why);
    }

    #[test]
    fn nothing_delivered_is_no_match_for_anything() {
        let tolerance = Tolerance { share: 0.03, mean: 0.10, p99: 0.20 };
        let none = Outcome { workload: "x".to_owned(), bytes: 0, latency: Histogram::default() };
        let rows = compare("shares", &[none], &[outcome(1, 1)], tolerance);
        assert!(!rows[0].holds());
    }
}
