//! Takes the readings: a thread that looks at the machine once a second while an experiment runs.
//!
//! A look reads one line of each process. It is taken less often than once a second, down to once
//! in five, where it would cost more than a hundredth of a core.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::counters::{self, Disks, Processors, TICKS_PER_SECOND};
use super::judge::{Bears, Disturbance, Reading};
use super::processes::{Account, Family};
use super::sleeps::Sleeps;
use crate::evidence::Verdict;
use crate::terminal;

/// Sleeps before, and again after: a fifth of a second each time.
const SLEEPS: usize = 200;

/// How often the machine is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A shorter interval tells little, since counters step by hundredths of a second.
const INTERVAL_MIN: Duration = Duration::from_millis(150);

/// A look should not cost more than this part of the time.
const COST_MAX: u32 = 100;

/// A look takes long on a machine that is very busy, which is when looks are needed.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Processor time in programs that no process accounts for (other containers') counts from so many
/// cores on: the kernel's two accounts are not taken at the same instant.
const UNSEEN_MIN: f64 = 0.1;

/// Whether the machine was described yet.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Whether it was said that it cannot judge.
static WARNED: AtomicBool = AtomicBool::new(false);

/// A machine under observation, from before an experiment until after it.
#[derive(Debug)]
pub struct Watch {
    bears: Bears,
    before: Rest,
    stop: Sender<()>,
    looking: JoinHandle<Looks>,
}

/// What an experiment was measured under.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conditions {
    /// What it can bear.
    pub bears: Bears,
    /// What was seen.
    pub reading: Reading,
    /// What it could not bear.
    pub disturbances: Vec<Disturbance>,
}

/// What was seen while the experiment rested.
#[derive(Clone, Debug)]
struct Rest {
    load_average: f64,
    others: f64,
    busiest: Option<String>,
    sleeps: Sleeps,
    disk_busy: f64,
    processors: Processors,
}

/// What was seen while it ran.
#[derive(Debug)]
struct Looks {
    family: Family,
    others: Vec<f64>,
    /// Ticks and name of the other process that took most in one interval.
    busiest: (u64, String),
    first: Look,
    last: Look,
}

/// All counters at an instant.
#[derive(Clone, Debug)]
struct Look {
    at: Instant,
    account: Account,
    processors: Processors,
}

impl Watch {
    /// Measures the machine at rest, and watches it from then on. What was seen is said on stderr,
    /// once for each program; and so is, once, that it cannot judge.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn begin(bears: Bears) -> io::Result<Self> {
        let mut family = Family::of_this_process();
        let begin = Processors::now();
        let before = Rest::measure(&mut family);
        let (stop, stopped) = mpsc::channel();
        let first = Look::take(&mut family);
        let name = std::thread::Builder::new().name("machine".to_owned());
        let looks = Looks {
            family,
            others: Vec::new(),
            busiest: (0, String::new()),
            first: first.clone(),
            last: first,
        };
        let looking = name.spawn(move || looks.until(|wait| stopped.recv_timeout(wait)))?;
        let watch = Self { bears, before, stop, looking };
        watch.tell(&begin);
        Ok(watch)
    }

    fn tell(&self, begin: &Processors) {
        let reading =
            reading(std::slice::from_ref(&self.before), &[], begin, &self.before.processors);
        if !TOLD.swap(true, Ordering::Relaxed) {
            terminal::say(&format!("machine: {reading}"));
        }
        let conditions = Conditions::of(self.bears, reading);
        if conditions.is_disturbed() && !WARNED.swap(true, Ordering::Relaxed) {
            terminal::say(&format!(
                "warning: {}; rows that miss their bounds will not be judged",
                conditions.why()
            ));
        }
    }

    /// Ends the observation and measures the machine at rest once more. Nothing of the experiment
    /// may be at work any more: its own work would make sleeps end late.
    pub fn end(self) -> Conditions {
        drop(self.stop);
        let mut looks = self.looking.join().expect("looking never panics");
        let after = Rest::measure(&mut looks.family);
        let (others, first, last) = (&looks.others, &looks.first, &looks.last);
        let begin = &first.processors;
        let mut reading = reading(&[self.before, after.clone()], others, begin, &after.processors);
        reading.own_cores = cores(last.account.own, first.account.own, last.at - first.at);
        if looks.busiest.0 > 0 {
            reading.busiest = Some(looks.busiest.1);
        }
        Conditions::of(self.bears, reading)
    }
}

impl Conditions {
    /// Carries out an experiment under observation. When it returns, nothing of it may be at work
    /// any more.
    ///
    /// # Errors
    /// If the system has no thread left to observe with.
    pub fn during<T>(bears: Bears, experiment: impl FnOnce() -> T) -> io::Result<(T, Self)> {
        let watch = Watch::begin(bears)?;
        let outcome = experiment();
        Ok((outcome, watch.end()))
    }

    /// The conditions of a reading.
    pub fn of(bears: Bears, reading: Reading) -> Self {
        let disturbances = bears.disturbances(&reading);
        Self { bears, reading, disturbances }
    }

    /// Whether a figure out of bounds proves nothing.
    pub fn is_disturbed(&self) -> bool {
        !self.disturbances.is_empty()
    }

    /// Why nothing can be judged, with the figures and what to do; empty if something can.
    pub fn why(&self) -> String {
        let is_light = self.bears.cores < 1.0;
        let [first, ..] = &self.disturbances[..] else { return String::new() };
        let figures: Vec<String> = self.disturbances.iter().map(Disturbance::to_string).collect();
        format!("cannot judge at this load: {}; {}", figures.join("; "), first.remedy(is_light))
    }

    /// A verdict in the light of the conditions: what fails while the machine is disturbed is not
    /// judged. What holds, holds.
    pub fn temper(&self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Fails | Verdict::Known(_) if self.is_disturbed() => Verdict::NotJudged,
            verdict => verdict,
        }
    }
}

impl Rest {
    /// Sleeps, and counts what others do meanwhile.
    fn measure(family: &mut Family) -> Self {
        let load_average = counters::load_average();
        let (disks, first) = (Disks::now(), Look::take(family));
        let sleeps = Sleeps::measure(SLEEPS);
        let (last, disks_now) = (Look::take(family), Disks::now());
        let busiest = last.account.busiest_since(&first.account);
        Self {
            load_average,
            others: last.others_since(&first),
            busiest: busiest.map(|(_, name)| name.to_owned()),
            sleeps,
            disk_busy: disks_now.busy_since(&disks, (last.at - first.at).as_secs_f64()),
            processors: last.processors,
        }
    }
}

impl Looks {
    /// Looks until there is nobody to wait for.
    fn until(mut self, wait: impl Fn(Duration) -> Result<(), RecvTimeoutError>) -> Self {
        let mut pause = LOOK_EVERY;
        while wait(pause) == Err(RecvTimeoutError::Timeout) {
            let started = Instant::now();
            self.look();
            pause = (started.elapsed() * COST_MAX).clamp(LOOK_EVERY, PAUSE_MAX);
        }
        if self.last.at.elapsed() >= INTERVAL_MIN {
            self.look();
        }
        self
    }

    fn look(&mut self) {
        let look = Look::take(&mut self.family);
        self.others.push(look.others_since(&self.last));
        if let Some((ticks, name)) = look.account.busiest_since(&self.last.account)
            && ticks > self.busiest.0
        {
            self.busiest = (ticks, name.to_owned());
        }
        self.last = look;
    }
}

impl Look {
    fn take(family: &mut Family) -> Self {
        Self { at: Instant::now(), account: family.account(), processors: Processors::now() }
    }

    /// Cores that others took since then, those that show no process here included.
    fn others_since(&self, before: &Self) -> f64 {
        let time = self.at - before.at;
        let seen = cores(self.account.others, before.account.others, time);
        let programs = cores(self.processors.user, before.processors.user, time);
        // A process that nobody waited for takes its account with it: then nothing is unseen.
        let accounted = self.account.user.checked_sub(before.account.user);
        let unseen = accounted.map_or(0.0, |ticks| programs - cores(ticks, 0, time));
        let others = if unseen > UNSEEN_MIN { seen + unseen } else { seen };
        // Processes and processors are not counted at one instant.
        others.min(counters::processors() as f64)
    }
}

/// Ticks in a time as cores; none where the account has shrunk.
fn cores(now: u64, before: u64, time: Duration) -> f64 {
    now.saturating_sub(before) as f64 / TICKS_PER_SECOND / time.as_secs_f64().max(1e-3)
}

/// Rests and intervals in between, as one reading.
fn reading(rests: &[Rest], during: &[f64], begin: &Processors, end: &Processors) -> Reading {
    let others: Vec<f64> =
        rests.iter().map(|rest| rest.others).chain(during.iter().copied()).collect();
    let worst = |of: fn(&Rest) -> f64| rests.iter().map(of).fold(0.0, f64::max);
    let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / TICKS_PER_SECOND;
    let stolen_seconds = seconds(end.stolen, begin.stolen);
    let busiest = rests.iter().max_by(|one, other| one.others.total_cmp(&other.others));
    Reading {
        cores: counters::processors(),
        has_precedence: counters::has_precedence(),
        load_average: rests.first().map_or(f64::NAN, |rest| rest.load_average),
        others_cores: others.iter().sum::<f64>() / others.len().max(1) as f64,
        others_cores_max: others.iter().copied().fold(0.0, f64::max),
        others,
        busiest: busiest.and_then(|rest| rest.busiest.clone()),
        own_cores: 0.0,
        asked_seconds: seconds(end.busy, begin.busy) + stolen_seconds,
        stolen_seconds,
        sleeps: rests.iter().fold(Sleeps::default(), |worst, rest| worst.worse(rest.sleeps)),
        disk_busy: worst(|rest| rest.disk_busy),
    }
}

#[cfg(test)]
mod tests;
