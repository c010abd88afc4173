//! One phase: a gate with its policy, the two tenants' load, and what came of it.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Span;
use evenkeel_io::load::{
    Arrivals, GroupReport, IntervalReport, LoadPlan, LoadSpec, Pattern, WeightedSize,
};
use serde::Serialize;

use super::device::{Disk, EXPORTS};
use crate::load::measure;
use crate::stage::{GateProcess, Stage};
use crate::status::{Interference, Status};

/// Requests that the database makes, per second.
const DATABASE_PER_SECOND: f64 = 100.0;
/// Requests of the backup under way.
const BACKUP_DEPTH: u32 = 32;
/// Their sizes: large, and not all alike. A gate that cuts them into units serves all of a tenant's
/// requests in turn; equal ones that start together would also end together, in bunches that hide
/// how steadily the disk works.
const BACKUP_SIZES: [WeightedSize; 3] = [
    WeightedSize { size_bytes: 1 << 20, weight: 2 },
    WeightedSize { size_bytes: 768 << 10, weight: 1 },
    WeightedSize { size_bytes: 512 << 10, weight: 1 },
];
/// How long a gate that shares works before it is measured.
pub(super) const FINDING: Span = Span::from_secs(5);
/// Entries of the time series in a phase: a multiple of the three thirds.
const COLUMNS: u64 = 36;

/// What the gate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Watch,
    Caps,
    Shares,
}

/// How long everything takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    column: Span,
}

/// What came of a phase.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) database_requests: u64,
    pub(super) database_p50_seconds: f64,
    pub(super) database_p99_seconds: f64,
    pub(super) database_max_seconds: f64,
    /// While the database worked.
    pub(super) backup_busy_bytes_per_second: f64,
    /// While it rested.
    pub(super) backup_resting_bytes_per_second: f64,
    /// Mean wait of a request of the database, as the gate tells.
    pub(super) database_wait_seconds: f64,
    pub(super) waits: Vec<Wait>,
    pub(super) series: Vec<Column>,
    /// What the gate has found of the disk, where it had to.
    pub(super) found: Option<Found>,
    #[serde(skip)]
    pub(super) phase: Phase,
}

/// Who waited because of whom, as the gate tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Wait {
    pub(super) victim: String,
    pub(super) culprit: String,
    pub(super) seconds: f64,
}

/// What a gate finds by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Found {
    /// Requests that it gives the disk at once.
    pub(super) depth: u32,
    /// Larger requests are cut into pieces of so many bytes.
    pub(super) unit_bytes: u64,
}

/// One entry of the time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Column {
    pub(super) start_seconds: f64,
    pub(super) database_requests: u64,
    pub(super) database_p99_seconds: f64,
    pub(super) backup_bytes_per_second: f64,
    pub(super) resting: bool,
}

impl Timing {
    pub(super) fn new(quick: bool) -> Self {
        Self { column: if quick { Span::from_millis(75) } else { Span::from_millis(500) } }
    }

    /// Length of a phase.
    pub(super) fn phase(self) -> Span {
        Span(self.column.0 * COLUMNS)
    }

    /// Width of an entry of the time series.
    pub(super) fn interval(self) -> Span {
        self.column
    }

    fn rest(self) -> std::ops::Range<Span> {
        Span(self.column.0 * COLUMNS / 3)..Span(self.column.0 * COLUMNS * 2 / 3)
    }
}

impl Phase {
    pub(super) const ALL: [Self; 3] = [Self::Watch, Self::Caps, Self::Shares];

    pub(super) fn letter(self) -> char {
        match self {
            Self::Watch => 'A',
            Self::Caps => 'B',
            Self::Shares => 'C',
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Watch => "nobody steps in: the gate only watches",
            Self::Caps => "a cap on the backup: 20 MiB/s, as an operator would set it",
            Self::Shares => "shares: database 4, backup 1, and what one leaves the other may use",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Caps => "caps",
            Self::Shares => "shares",
        }
    }

    /// Runs the phase on a gate of its own.
    pub(super) fn run(self, stage: &Stage, disk: &Disk, timing: Timing) -> anyhow::Result<Outcome> {
        let gate = GateProcess::start(stage, self.name(), &self.policy(disk)?)?;
        let plan = plan(&gate, timing, self.ramp())?;
        let report = measure(&plan)?;
        let status = gate.status()?;
        let accounts = (waits(&status), delivered_to_database(&status));
        let outcome = self.outcome((&report.groups[0], &report.groups[1]), accounts, timing);
        Ok(Outcome { found: found(&status), ..outcome })
    }

    /// How long both work before anything is measured: a gate that shares finds by itself what the
    /// disk can do.
    fn ramp(self) -> Span {
        match self {
            Self::Watch | Self::Caps => Span::ZERO,
            Self::Shares => FINDING,
        }
    }

    /// The policy, but for the address to listen on. It says nothing of the disk.
    fn policy(self, disk: &Disk) -> anyhow::Result<String> {
        let (mode, scheduling, limit) = match self {
            Self::Watch => ("observe", "", ""),
            Self::Caps => ("enforce", "discipline = \"fifo\"\n", "limit = \"20 MiB/s\"\n"),
            Self::Shares => ("enforce", "", ""),
        };
        Ok(format!(
            "mode = \"{mode}\"\n\n[[backend]]\nname = \"disk\"\nupstream = \"{}\"\n{scheduling}\n\
             [[export]]\nname = \"database\"\n\n[[export]]\nname = \"backup\"\n\n\
             [[tenant]]\nname = \"database\"\nmatch = {{ export = \"database\" }}\nshare = 4\n\n\
             [[tenant]]\nname = \"backup\"\nmatch = {{ export = \"backup\" }}\nshare = 1\n{limit}",
            disk.uri()?
        ))
    }

    fn outcome(
        self,
        (database, backup): (&GroupReport, &GroupReport),
        (waits, delivered): (Vec<Wait>, u64),
        timing: Timing,
    ) -> Outcome {
        let mut latency = Histogram::default();
        for direction in [&database.read, &database.write, &database.flush] {
            latency.merge(&direction.latency.histogram);
        }
        let quantile = |q| latency.quantile(q).unwrap_or(Span::ZERO).as_secs_f64();
        let series: Vec<Column> = database
            .series
            .iter()
            .zip(&backup.series)
            .map(|(database, backup)| column(database, backup, timing))
            .collect();
        let mean_rate = |resting: bool| {
            let rates = series.iter().filter(|column| column.resting == resting);
            let rates: Vec<f64> = rates.map(|column| column.backup_bytes_per_second).collect();
            rates.iter().sum::<f64>() / rates.len().max(1) as f64
        };
        let of_database = waits.iter().filter(|wait| wait.victim == EXPORTS[0]);
        let waited: f64 = of_database.map(|wait| wait.seconds).sum();
        Outcome {
            name: self.name(),
            database_wait_seconds: waited / delivered.max(1) as f64,
            database_requests: latency.count(),
            database_p50_seconds: quantile(0.50),
            database_p99_seconds: quantile(0.99),
            database_max_seconds: latency.max().as_secs_f64(),
            backup_busy_bytes_per_second: mean_rate(false),
            backup_resting_bytes_per_second: mean_rate(true),
            waits,
            series,
            found: None,
            phase: self,
        }
    }
}

/// What the gate has found of the disk, if it had to.
fn found(status: &Status) -> Option<Found> {
    let server = status.domains.iter().flat_map(|domain| &domain.servers).next()?;
    Some(Found { depth: server.depth_found?, unit_bytes: server.unit_bytes })
}

fn waits(status: &Status) -> Vec<Wait> {
    let pairs = status.domains.iter().flat_map(|domain| &domain.interference);
    let wait = |pair: &Interference| Wait {
        victim: pair.victim.clone(),
        culprit: pair.culprit.clone(),
        seconds: pair.waited_seconds,
    };
    pairs.map(wait).collect()
}

fn delivered_to_database(status: &Status) -> u64 {
    let tenants = status.domains.iter().flat_map(|domain| &domain.tenants);
    let databases = tenants.filter(|tenant| tenant.name == EXPORTS[0]);
    databases.map(|tenant| tenant.delivered.requests).sum()
}

fn column(database: &IntervalReport, backup: &IntervalReport, timing: Timing) -> Column {
    let bytes = (backup.read_bytes + backup.write_bytes) as f64;
    Column {
        start_seconds: database.start.as_secs_f64(),
        database_requests: database.requests,
        database_p99_seconds: database.latency_p99.as_secs_f64(),
        backup_bytes_per_second: bytes / backup.length.as_secs_f64().max(1e-9),
        resting: timing.rest().contains(&database.start),
    }
}

fn plan(gate: &GateProcess, timing: Timing, ramp: Span) -> anyhow::Result<LoadPlan> {
    let rest = timing.rest();
    let database = LoadSpec {
        name: EXPORTS[0].to_owned(),
        targets: vec![gate.uri(EXPORTS[0])?],
        depth: 256,
        arrivals: Arrivals::Poisson { per_second: DATABASE_PER_SECOND },
        read_percent: 70,
        flush_every: 4,
        idle: vec![ramp + rest.start..ramp + rest.end],
        ..LoadSpec::default()
    };
    let backup = LoadSpec {
        name: EXPORTS[1].to_owned(),
        targets: vec![gate.uri(EXPORTS[1])?],
        depth: BACKUP_DEPTH,
        sizes: BACKUP_SIZES.to_vec(),
        pattern: Pattern::Sequential,
        ..LoadSpec::default()
    };
    Ok(LoadPlan {
        groups: vec![database, backup],
        ramp,
        runtime: Some(timing.phase()),
        interval: timing.interval(),
        ..LoadPlan::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_third_is_rest() {
        let timing = Timing::new(false);
        assert_eq!(timing.phase(), Span::from_secs(18));
        assert_eq!(timing.rest(), Span::from_secs(6)..Span::from_secs(12));
    }

    #[test]
    fn an_outcome_tells_working_from_resting() {
        let timing = Timing::new(false);
        let mut database = GroupReport::default();
        let mut backup = GroupReport::default();
        for (start, read_bytes) in [(0, 10 << 20), (7, 40 << 20), (13, 20 << 20)] {
            let entry = IntervalReport {
                start: Span::from_secs(start),
                length: Span::from_secs(1),
                ..IntervalReport::default()
            };
            database.series.push(entry);
            backup.series.push(IntervalReport { read_bytes, ..entry });
        }
        database.flush.latency.histogram.record(Span::from_millis(5));
        let outcome = Phase::Caps.outcome((&database, &backup), (Vec::new(), 0), timing);
        assert_eq!(outcome.database_requests, 1);
        assert!((outcome.backup_resting_bytes_per_second - f64::from(40 << 20)).abs() < 1.0);
        assert!((outcome.backup_busy_bytes_per_second - f64::from(15 << 20)).abs() < 1.0);
    }
}
