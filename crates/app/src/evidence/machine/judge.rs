//! What an experiment can bear of a machine, and whether a reading is within that.
//!
//! The limits follow from what the experiment needs:
//!
//! | figure | limit |
//! |---|---|
//! | cores that others take | what the experiment leaves of all, but a tenth of all at least |
//! | for how long they may exceed it | one look in fifty: rows judge 98 of 100 windows and more |
//! | part of the asked time that was stolen | one twentieth, as the narrowest rows |
//! | how late sleeps end | a fraction of the latencies that the experiment judges |
//! | how busy disks are beside it | a tenth of the time, if the experiment measures disks |
//!
//! With real-time precedence (`chrt`) what others take is no matter; sleeps and theft still are.

use std::fmt;

use serde::Serialize;

use super::Sleeps;

/// What others may take in any case, as a part of all cores.
const OTHERS_MIN: f64 = 0.1;

/// For this part of the time others may take more than their limit.
const OTHERS_BRIEF: f64 = 1.0 / 50.0;

/// Of the processor time that was asked for, the part that may be stolen.
const STOLEN_MAX: f64 = 0.05;

/// Less than this was stolen by chance: counters step by hundredths of a second.
const STOLEN_SECONDS_MIN: f64 = 0.03;

/// Part of the time for which a disk may be busy while the experiment rests.
const DISK_BUSY_MAX: f64 = 0.1;

/// What an experiment can bear and still tell right from wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bears {
    /// Cores that the experiment needs for itself; infinite if it takes whatever is there.
    pub cores: f64,
    /// How late half of its sleeps may end, in milliseconds.
    pub late_median_ms: f64,
    /// How late one sleep in a hundred may end, in milliseconds.
    pub late_p99_ms: f64,
    /// Whether it measures disks.
    pub uses_disks: bool,
}

/// What was seen of a machine before, during and after an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reading {
    /// Processors of the machine.
    pub cores: usize,
    /// Whether the experiment has real-time precedence over other programs.
    pub has_precedence: bool,
    /// Over the last minute before the experiment began.
    pub load_average: f64,
    /// Cores that other programs took, interval by interval of a second or so.
    #[serde(skip)]
    pub others: Vec<f64>,
    /// The mean of those.
    pub others_cores: f64,
    /// The most of those.
    pub others_cores_max: f64,
    /// The name of the other program that took most.
    pub busiest: Option<String>,
    /// Cores that the experiment itself took.
    pub own_cores: f64,
    /// Processor time that everybody asked for, in seconds.
    pub asked_seconds: f64,
    /// The part of it that the hypervisor withheld, in seconds.
    pub stolen_seconds: f64,
    /// How late sleeps ended while the experiment rested.
    pub sleeps: Sleeps,
    /// Part of the time for which the busiest disk was so while the experiment rested.
    pub disk_busy: f64,
}

/// Something that the experiment cannot bear.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Disturbance {
    /// Other programs took what the experiment needs.
    Others {
        /// Intervals in which they did.
        intervals: usize,
        /// Of so many.
        of: usize,
        /// The most cores that they took.
        cores: f64,
        /// The most that they may take.
        limit: f64,
        /// Cores of the machine.
        all: usize,
        /// Who took most.
        busiest: Option<String>,
    },
    /// The hypervisor withheld processor time.
    Stolen {
        /// As a part of what was asked for.
        part: f64,
    },
    /// Sleeps ended late.
    Late {
        /// What was measured.
        sleeps: Sleeps,
        /// What half of them may be late, in milliseconds.
        median_max_ms: f64,
        /// What one in a hundred may be late, in milliseconds.
        p99_max_ms: f64,
    },
    /// A disk was busy while the experiment rested.
    Disks {
        /// Part of the time.
        busy: f64,
    },
}

impl Bears {
    /// The most cores that others may take on a machine of so many.
    fn others_max(&self, cores: usize) -> f64 {
        let cores = cores as f64;
        (cores - self.cores).max(OTHERS_MIN * cores)
    }

    /// All that disturbed the experiment; nothing on a machine that can judge.
    pub fn disturbances(&self, reading: &Reading) -> Vec<Disturbance> {
        [self.others(reading), stolen(reading), self.late(reading), self.disks(reading)]
            .into_iter()
            .flatten()
            .collect()
    }

    fn others(&self, reading: &Reading) -> Option<Disturbance> {
        let limit = self.others_max(reading.cores);
        let Reading { others, cores, .. } = reading;
        let intervals = others.iter().filter(|cores| **cores > limit).count();
        let is_disturbed = intervals as f64 > others.len() as f64 * OTHERS_BRIEF;
        (is_disturbed && !reading.has_precedence).then(|| Disturbance::Others {
            intervals,
            of: others.len(),
            cores: others.iter().copied().fold(0.0, f64::max),
            limit,
            all: *cores,
            busiest: reading.busiest.clone(),
        })
    }

    fn late(&self, reading: &Reading) -> Option<Disturbance> {
        let sleeps = reading.sleeps;
        let is_late = sleeps.median_ms > self.late_median_ms || sleeps.p99_ms > self.late_p99_ms;
        is_late.then_some(Disturbance::Late {
            sleeps,
            median_max_ms: self.late_median_ms,
            p99_max_ms: self.late_p99_ms,
        })
    }

    fn disks(&self, reading: &Reading) -> Option<Disturbance> {
        let busy = reading.disk_busy;
        (self.uses_disks && busy > DISK_BUSY_MAX).then_some(Disturbance::Disks { busy })
    }
}

fn stolen(reading: &Reading) -> Option<Disturbance> {
    let Reading { asked_seconds, stolen_seconds, .. } = reading;
    let part = stolen_seconds / asked_seconds.max(1e-9);
    let is_stolen = *stolen_seconds >= STOLEN_SECONDS_MIN && part > STOLEN_MAX;
    is_stolen.then_some(Disturbance::Stolen { part })
}

impl Disturbance {
    /// What to do about it. `is_light` says that the experiment needs less than a core, so that it
    /// may go before everybody else.
    pub fn remedy(&self, is_light: bool) -> &'static str {
        match self {
            Self::Others { .. } | Self::Late { .. } if is_light => {
                "wait until other programs are done, or go before them with `sudo chrt --rr 5 \
                 evenkeel ..`"
            }
            Self::Others { .. } | Self::Late { .. } => "wait until other programs are done",
            Self::Stolen { .. } => "wait until the host has time for this virtual machine",
            Self::Disks { .. } => "wait until the disks are idle",
        }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Others { intervals, of, cores, limit, all, busiest } => {
                let who = busiest.as_deref().unwrap_or("none that can be seen from here");
                write!(
                    f,
                    "other programs took up to {cores:.2} of {all} cores, more than {limit:.2} in \
                     {intervals} of {of} looks (most: {who})"
                )
            }
            Self::Stolen { part } => write!(
                f,
                "the hypervisor withheld {:.1} % of the processor time asked for (at most {:.0} %)",
                part * 100.0,
                STOLEN_MAX * 100.0
            ),
            Self::Late { sleeps, median_max_ms, p99_max_ms } => write!(
                f,
                "sleeps of 1 ms ended {:.2} ms late by the median and {:.2} ms one in a hundred \
                 (at most {median_max_ms} and {p99_max_ms} ms)",
                sleeps.median_ms, sleeps.p99_ms
            ),
            Self::Disks { busy } => write!(
                f,
                "a disk was busy {:.0} % of the time while the experiment rested (at most {:.0} %)",
                busy * 100.0,
                DISK_BUSY_MAX * 100.0
            ),
        }
    }
}

impl fmt::Display for Reading {
    /// One line for the head of a result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, load_average, others_cores, sleeps, .. } = self;
        let stolen = 100.0 * self.stolen_seconds / self.asked_seconds.max(1e-9);
        write!(
            f,
            "{cores} cores, load average {load_average:.2}; other programs take {others_cores:.2} \
             cores, {stolen:.1} % is stolen, sleeps of 1 ms end {:.2} ms late (one in a hundred \
             {:.2} ms)",
            sleeps.median_ms, sleeps.p99_ms
        )?;
        if self.has_precedence { f.write_str("; with real-time precedence") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
