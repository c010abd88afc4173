//! The result: medians over the rounds, ratios to the peer, aims.
//!
//! Ratios are paired by round and aims are judged by the median, as in the comparison of servers.

use anyhow::Result;
use serde::Serialize;

use super::Programs;
use super::contest::{Contender, Contest, Known, Memory};
use crate::conclusion::{Aim, Kind};
use crate::machine::Machine;
use crate::statistics::Spread;

/// Memory is independent of the length of the work if four times the work takes at most so much
/// more of it: allocators and buffers that were not yet full differ a little.
const GROWTH_MAX_BYTES: u64 = 4 << 20;

/// Processor time is told in steps of this; a run that took none counts as one step.
const STEP_SECONDS: f64 = 0.01;

/// One contender in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Sample {
    /// How much it did, in the contest's unit.
    pub(super) count: u64,
    /// User and system time of the whole process.
    pub(super) cpu_seconds: f64,
    /// The largest resident set.
    pub(super) peak_bytes: u64,
}

impl Sample {
    fn per_second(&self) -> f64 {
        self.count as f64 / self.cpu_seconds.max(STEP_SECONDS)
    }
}

/// One contender in all rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) quarter_peak_bytes: Option<u64>,
    pub(super) rounds: Vec<Option<Sample>>,
    /// Why it was left out from then on.
    pub(super) failure: Option<String>,
}

impl Measured {
    /// Keeps the first failure.
    pub(super) fn note(&mut self, outcome: Result<Sample>) -> Option<Sample> {
        match outcome {
            Ok(sample) => Some(sample),
            Err(error) => {
                self.failure.get_or_insert_with(|| format!("{error:#}"));
                None
            }
        }
    }

    fn rates(&self) -> Vec<Option<f64>> {
        self.rounds.iter().map(|sample| sample.as_ref().map(Sample::per_second)).collect()
    }

    fn spread_of(&self, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.rounds.iter().flatten().map(figure))
    }
}

/// One contender in the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) contender: String,
    pub(super) is_peer: bool,
    /// How much it did in one round.
    pub(super) count: u64,
    /// Done in a second of processor time.
    pub(super) per_second: Spread,
    /// The rate in relation to the peer's, paired by round.
    pub(super) ratio: Option<Spread>,
    pub(super) peak_bytes: Spread,
    /// The peak with a quarter of the work.
    pub(super) quarter_peak_bytes: Option<u64>,
    pub(super) aim_per_second: Option<f64>,
    pub(super) reaches_aim: Option<bool>,
    /// Whether memory does not grow with the work, where that is an aim.
    pub(super) is_bounded: Option<bool>,
    /// Every round.
    pub(super) samples: Vec<Option<Sample>>,
}

impl Row {
    /// Nothing without a sample.
    fn of(contender: &Contender, measured: &Measured, peer: Option<&Measured>) -> Option<Self> {
        let per_second = measured.spread_of(Sample::per_second)?;
        let peak_bytes = measured.spread_of(|sample| sample.peak_bytes as f64)?;
        let quarter = measured.quarter_peak_bytes;
        let most_bytes = match contender.memory {
            Memory::Any => None,
            Memory::Flat => quarter.map(|quarter| quarter + GROWTH_MAX_BYTES),
            Memory::AtMost(most) => Some(most),
        };
        Some(Self {
            contender: contender.name.to_owned(),
            is_peer: contender.is_peer,
            count: measured.rounds.iter().flatten().next()?.count,
            per_second,
            ratio: peer.and_then(|peer| Spread::of_ratios(&measured.rates(), &peer.rates())),
            peak_bytes,
            quarter_peak_bytes: quarter,
            aim_per_second: contender.aim_per_second,
            reaches_aim: contender.aim_per_second.map(|aim| per_second.median >= aim),
            is_bounded: most_bytes.map(|most| peak_bytes.median <= most as f64),
            samples: measured.rounds.clone(),
        })
    }
}

/// One contest in the result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Block {
    pub(super) contest: &'static str,
    pub(super) unit: &'static str,
    pub(super) rows: Vec<Row>,
    pub(super) known_not_measured_here: Option<Known>,
}

/// The whole result, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) versions: Vec<String>,
    pub(super) rounds: u32,
    pub(super) smoke: bool,
    pub(super) contests: Vec<Block>,
    /// Peers that are not installed; their rows are absent.
    pub(super) missing: Vec<&'static str>,
    /// What went wrong; the rows concerned have fewer samples or are absent.
    pub(super) failures: Vec<String>,
}

impl Report {
    /// What was to be reached, and what came of it.
    pub(super) fn aims(&self) -> Vec<Aim> {
        let contests = if self.smoke { &[] } else { &self.contests[..] };
        let rows = contests.iter().flat_map(|block| block.rows.iter().map(move |it| (block, it)));
        let aims = rows.flat_map(|(block, row)| {
            let id = format!("{}/{}", block.contest, row.contender);
            let rate = row.aim_per_second.zip(row.reaches_aim).map(|(aim, reaches)| {
                let rate = row.per_second.median;
                let figure = format!("{rate:.0} per CPU second, aim at least {aim:.0}");
                Aim::of(id.clone(), Kind::Bound, rate, reaches, figure)
            });
            let memory = row.is_bounded.map(|is_bounded| {
                let peak = row.peak_bytes.median;
                let figure = format!("a peak of {peak:.0} bytes, aim not to grow with the work");
                Aim::of(format!("{id}/memory"), Kind::Bound, peak, is_bounded, figure)
            });
            rate.into_iter().chain(memory)
        });
        aims.collect()
    }

    /// Of what was measured, which lies as the contests and their contenders do.
    pub(super) fn new(
        machine: Machine,
        rounds: u32,
        smoke: bool,
        programs: &Programs,
        contests: &[Contest],
        measured: &[Vec<Measured>],
    ) -> Self {
        let failure = |contest: &Contest, contender: &Contender, measured: &Measured| {
            let failure = measured.failure.as_ref()?;
            Some(format!("{} {}: {failure}", contest.name, contender.name))
        };
        let (mut blocks, mut failures) = (Vec::new(), Vec::new());
        for (contest, measured) in contests.iter().zip(measured) {
            let both = || contest.contenders.iter().zip(measured);
            let peer = both().find(|(contender, _)| contender.is_peer).map(|(_, peer)| peer);
            let row = |(contender, measured): (&Contender, &Measured)| {
                Row::of(contender, measured, peer.filter(|_| !contender.is_peer))
            };
            failures.extend(both().filter_map(|(who, measured)| failure(contest, who, measured)));
            blocks.push(Block {
                contest: contest.name,
                unit: contest.unit,
                rows: both().filter_map(row).collect(),
                known_not_measured_here: contest.known,
            });
        }
        let (versions, missing) = (programs.versions(), programs.missing());
        Self { machine, versions, rounds, smoke, contests: blocks, missing, failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender() -> Contender {
        Contender {
            name: "ours",
            is_peer: false,
            aim_per_second: Some(5e6),
            memory: Memory::Flat,
            counts: &[],
            whole: Vec::new(),
            quarter: Vec::new(),
        }
    }

    fn measured(cpu_seconds: f64, peak_bytes: u64) -> Measured {
        let sample = Sample { count: 10_000_000, cpu_seconds, peak_bytes };
        Measured { quarter_peak_bytes: Some(10 << 20), rounds: vec![Some(sample)], failure: None }
    }

    #[test]
    fn a_row_is_held_against_its_aims_and_its_peer() {
        let (ours, peer) = (measured(1.0, 10 << 20), measured(8.0, 10 << 20));
        let row = Row::of(&contender(), &ours, Some(&peer)).unwrap();
        assert_eq!((row.reaches_aim, row.is_bounded), (Some(true), Some(true)));
        assert!((row.ratio.unwrap().median - 8.0).abs() < 1e-9);
        let row = Row::of(&contender(), &measured(2.5, 20 << 20), None).unwrap();
        assert_eq!((row.reaches_aim, row.is_bounded), (Some(false), Some(false)));
        assert_eq!(row.ratio, None);
        let may_take_more = Contender { memory: Memory::AtMost(20 << 20), ..contender() };
        let row = Row::of(&may_take_more, &measured(2.5, 20 << 20), None).unwrap();
        assert_eq!(row.is_bounded, Some(true));
    }

    #[test]
    fn a_run_too_short_to_tell_counts_one_step() {
        let sample = Sample { count: 1000, cpu_seconds: 0.0, peak_bytes: 0 };
        assert!((sample.per_second() - 100_000.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_failure_is_kept() {
        let mut measured = Measured::default();
        assert_eq!(measured.note(Err(anyhow::anyhow!("first"))), None);
        assert_eq!(measured.note(Err(anyhow::anyhow!("second"))), None);
        assert_eq!(measured.failure.as_deref(), Some("first"));
    }
}
