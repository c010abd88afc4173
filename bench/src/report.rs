//! The result: every sample, their medians, the ratios to the reference, and whether aims hold.
//!
//! An aim is judged by the median of the ratios of the rounds. Where single rounds disagree with
//! the median the verdict says so: such a row needs more rounds or a quieter machine.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::conclusion::{self, Conclusion, Kind};
use crate::machine::Machine;
use crate::matrix::{Cell, Peer};
use crate::statistics::Spread;

/// One peer's figures in one round of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Sample {
    pub(crate) requests_per_second: f64,
    pub(crate) bytes_per_second: f64,
    /// User and system time of the process under test, divided by the requests of the run.
    pub(crate) cpu_us_per_request: f64,
}

/// Samples of one cell, by peer in the order of the contest, and by round.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) cell: Cell,
    pub(crate) peers: Vec<(Peer, Vec<Option<Sample>>)>,
}

/// The whole result, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// File system below the disks of the file exports.
    pub(crate) file_system: String,
    pub(crate) load_generator: String,
    pub(crate) versions: BTreeMap<Peer, String>,
    pub(crate) rounds: u32,
    pub(crate) seconds: f64,
    pub(crate) smoke: bool,
    pub(crate) rows: Vec<Row>,
    /// Peers that are not installed; their rows are absent.
    pub(crate) missing: Vec<Peer>,
    /// What went wrong; the rows concerned have fewer samples or are absent.
    pub(crate) failures: Vec<String>,
}

/// One peer in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) cell: Cell,
    pub(crate) peer: Peer,
    pub(crate) is_reference: bool,
    pub(crate) is_extra: bool,
    pub(crate) requests_per_second: Spread,
    pub(crate) bytes_per_second: Spread,
    pub(crate) cpu_us_per_request: Spread,
    /// To the reference, paired by round.
    pub(crate) throughput_ratio: Option<Spread>,
    /// To the reference, paired by round.
    pub(crate) cpu_ratio: Option<Spread>,
    /// What was to be reached; only our own rows have aims.
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) samples: Vec<Option<Sample>>,
}

/// What an aim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Aim {
    /// Processor time per request, as a part of the reference's, at most the bound.
    Cpu,
    /// Throughput, as a part of another peer's, at least the bound.
    Throughput,
}

/// Whether an aim holds in a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) aim: Aim,
    pub(crate) against: Peer,
    pub(crate) bound: f64,
    pub(crate) ratio: Spread,
    /// By the median.
    pub(crate) holds: bool,
    /// Every single round says the same.
    pub(crate) is_clear: bool,
}

impl Verdict {
    fn new(aim: Aim, against: Peer, bound: f64, ratio: Spread) -> Self {
        let judge = |ratio: f64| match aim {
            Aim::Cpu => ratio <= bound,
            Aim::Throughput => ratio >= bound,
        };
        let is_clear = judge(ratio.min) == judge(ratio.max);
        Self { aim, against, bound, ratio, holds: judge(ratio.median), is_clear }
    }
}

impl Report {
    /// Every aim of every row, and the count.
    pub(crate) fn conclusion(&self) -> Conclusion {
        let verdicts =
            self.rows.iter().flat_map(|row| row.verdicts.iter().map(move |it| (row, it)));
        let aims = verdicts.map(|(row, Verdict { aim, against, bound, ratio, holds, .. })| {
            let (id, word) = match aim {
                Aim::Cpu => (format!("{}/cpu", row.cell), "at most"),
                Aim::Throughput => (format!("{}/throughput/{against}", row.cell), "at least"),
            };
            let Spread { median, min, max } = ratio;
            let figure =
                format!("{median:.2} ({min:.2}-{max:.2}) of {against}'s, aim {word} {bound}");
            conclusion::Aim::of(id, Kind::Ratio, *median, *holds, figure)
        });
        let aims = if self.smoke { Vec::new() } else { aims.collect() };
        Conclusion::of("compare", &self.machine, aims, &self.failures)
    }
}

impl Measured {
    /// The rows of this cell; peers without any sample have none.
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.peers.iter().filter_map(|(peer, samples)| self.row(*peer, samples)).collect()
    }

    fn row(&self, peer: Peer, samples: &[Option<Sample>]) -> Option<Row> {
        let reference = self.cell.contest.reference();
        let spread = |figure: fn(&Sample) -> f64| Spread::of(samples.iter().flatten().map(figure));
        Some(Row {
            cell: self.cell,
            peer,
            is_reference: peer == reference,
            is_extra: peer.is_extra(),
            requests_per_second: spread(rate)?,
            bytes_per_second: spread(|sample| sample.bytes_per_second)?,
            cpu_us_per_request: spread(cpu)?,
            throughput_ratio: self.ratio(samples, reference, rate),
            cpu_ratio: self.ratio(samples, reference, cpu),
            verdicts: if peer == Peer::Evenkeel { self.verdicts(samples) } else { Vec::new() },
            samples: samples.to_vec(),
        })
    }

    fn verdicts(&self, ours: &[Option<Sample>]) -> Vec<Verdict> {
        let contest = self.cell.contest;
        let cpu_verdict = contest.cpu_bound().and_then(|bound| {
            let ratio = self.ratio(ours, contest.reference(), cpu)?;
            Some(Verdict::new(Aim::Cpu, contest.reference(), bound, ratio))
        });
        let rivals =
            contest.peers().iter().filter(|peer| **peer != Peer::Evenkeel && !peer.is_extra());
        let throughput = rivals.filter_map(|rival| {
            let ratio = self.ratio(ours, *rival, rate)?;
            Some(Verdict::new(Aim::Throughput, *rival, 1.0, ratio))
        });
        cpu_verdict.into_iter().chain(throughput).collect()
    }

    fn ratio(
        &self,
        ours: &[Option<Sample>],
        against: Peer,
        figure: fn(&Sample) -> f64,
    ) -> Option<Spread> {
        let (_, theirs) = self.peers.iter().find(|(peer, _)| *peer == against)?;
        let figures = |samples: &[Option<Sample>]| -> Vec<Option<f64>> {
            samples.iter().map(|sample| sample.as_ref().map(figure)).collect()
        };
        Spread::of_ratios(&figures(ours), &figures(theirs))
    }
}

fn rate(sample: &Sample) -> f64 {
    sample.requests_per_second
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us_per_request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Contest, Transport, Workload};

    /// Samples of these rates and processor times, one per round.
    fn rounds(figures: &[(f64, f64)]) -> Vec<Option<Sample>> {
        let sample = |(rate, cpu): &(f64, f64)| Sample {
            requests_per_second: *rate,
            bytes_per_second: rate * 4096.0,
            cpu_us_per_request: *cpu,
        };
        figures.iter().map(sample).map(Some).collect()
    }

    fn measured(contest: Contest, peers: Vec<(Peer, Vec<Option<Sample>>)>) -> Measured {
        let workload = Workload::ALL[2];
        let cell = Cell { contest, transport: Transport::Unix, workload, connections: 1 };
        Measured { cell, peers }
    }

    fn ours(measured: &Measured) -> Row {
        let rows = measured.rows();
        rows.into_iter().find(|row| row.peer == Peer::Evenkeel).expect("evenkeel was measured")
    }

    fn server() -> Measured {
        measured(
            Contest::Memory,
            vec![
                (Peer::Evenkeel, rounds(&[(300.0, 4.0), (330.0, 6.0), (310.0, 4.0)])),
                (Peer::Nbdkit, rounds(&[(200.0, 10.0), (220.0, 10.0), (320.0, 10.0)])),
            ],
        )
    }

    #[test]
    fn half_of_nbdkits_processor_time_is_judged_by_the_median_of_the_rounds() {
        let row = ours(&server());
        let verdict = row.verdicts[0];
        assert_eq!((verdict.aim, verdict.against), (Aim::Cpu, Peer::Nbdkit));
        assert_eq!(verdict.ratio, Spread { median: 0.4, min: 0.4, max: 0.6 });
        assert!(verdict.holds && !verdict.is_clear, "one round of three says otherwise");
    }

    #[test]
    fn throughput_is_judged_against_every_rival_that_was_there() {
        let row = ours(&server());
        let throughput = &row.verdicts[1..];
        assert_eq!(throughput.len(), 1, "qemu-nbd was missing");
        assert!(throughput[0].holds && !throughput[0].is_clear);
    }

    #[test]
    fn extra_rows_are_shown_and_judge_nothing() {
        let relay = measured(
            Contest::Relay,
            vec![
                (Peer::Evenkeel, rounds(&[(100.0, 9.0)])),
                (Peer::Haproxy, rounds(&[(90.0, 10.0)])),
                (Peer::HaproxySplice, rounds(&[(200.0, 2.0)])),
            ],
        );
        let against: Vec<Peer> = ours(&relay).verdicts.iter().map(|found| found.against).collect();
        assert_eq!(against, [Peer::Haproxy, Peer::Haproxy]);
        assert!(ours(&relay).verdicts.iter().all(|found| found.holds && found.is_clear));
        assert!(relay.rows()[2].is_extra && relay.rows()[2].verdicts.is_empty());
    }

    #[test]
    fn without_the_reference_there_are_figures_but_no_ratios() {
        let alone = measured(Contest::Relay, vec![(Peer::Evenkeel, rounds(&[(1.0, 1.0)]))]);
        let row = ours(&alone);
        assert!(row.cpu_ratio.is_none() && row.verdicts.is_empty());
    }

    #[test]
    fn a_peer_that_failed_in_every_round_has_no_row() {
        let failed = measured(
            Contest::Direct,
            vec![(Peer::Evenkeel, vec![None]), (Peer::QemuNbd, rounds(&[(1.0, 1.0)]))],
        );
        let peers: Vec<Peer> = failed.rows().iter().map(|row| row.peer).collect();
        assert_eq!(peers, [Peer::QemuNbd]);
    }

    #[test]
    fn a_row_says_where_it_belongs_in_json() {
        let json = serde_json::to_value(ours(&server())).unwrap();
        assert_eq!(json["contest"], "memory");
        assert_eq!(json["transport"], "unix");
        assert_eq!(json["workload"]["depth"], 32);
        assert_eq!(json["verdicts"][0]["against"], "nbdkit");
        assert_eq!(json["samples"].as_array().map(Vec::len), Some(3));
    }
}
