//! Two tenants that read what they can for ten seconds, while somebody watches what others get.
//!
//! ```text
//! 0 s      0.5 s       1.5 s                                      10 s
//! | one at  | many,     | many, and what they are answered counts  |
//! | a time  | unmeasured|                                          |
//! ```
//!
//! Lone requests come first, so that it shows whether many of them wait behind the gate.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::Policy;
use evenkeel_io::load::{LoadError, LoadPlan, LoadReport, LoadSpec, WeightedSize, run_while};
use evenkeel_wire::nbd::uri::NbdUri;

use super::super::judge::{self, Row};
use super::super::{INTERVAL, WITH_BUCKETS};
use super::target::{NAMES, Target, waiting};
use crate::control::client::Client;
use crate::ctl::block_on;
use crate::human;
use crate::interrupt::Interrupt;
use crate::status::Status;

/// How long the two read one at a time.
const ALONE: Span = Span::from_millis(500);

/// How long they read what they can before it counts.
const RAMP: Span = Span::from_secs(1);

/// All of it. Nothing starts after that.
pub(super) const LENGTH: Duration = Duration::from_secs(10);

/// How often the gate is asked; every second answer of these is kept.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often it is looked whether the load is over, or is to be.
const TICK: Duration = Duration::from_millis(50);

/// How long the two may take to close their connections.
const CLOSE: Duration = Duration::from_secs(1);

/// The two may have so many times the share that was named before it ends.
const BEYOND: f64 = 2.0;

/// What the two have counted themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Each one's answers while they read what they could.
    pub(super) answers: [u64; 2],
    /// How long that was; zero if it was over before.
    pub(super) seconds: f64,
    /// Mean times of a request: one at a time, and many at once.
    pub(super) latency: [Span; 2],
}

/// What one of them has counted so far.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// The mean time of a lone request.
    alone: Span,
    /// Since when it counts, and answers until then.
    from: Option<(Span, u64)>,
    /// Now.
    now: (Span, u64),
}

impl Count {
    fn seconds_and_answers(&self) -> (f64, u64) {
        let (from, before) = self.from.unwrap_or(self.now);
        (self.now.0.0.saturating_sub(from.0) as f64 / 1e9, self.now.1.saturating_sub(before))
    }
}

/// Why it ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ended {
    /// The time was over.
    Time,
    /// Somebody interrupted it.
    Interrupted,
    /// A tenant's goal was late.
    Late(Row),
    /// The two would have had more than was named, or something else was in the way.
    Otherwise(String),
}

/// The load: a thread for each of the two.
#[derive(Debug)]
pub(super) struct Load {
    begun: Instant,
    outstanding: u32,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), LoadError>>>,
    counts: [Arc<Mutex<Count>>; 2],
}

impl Load {
    /// Starts it.
    pub(super) fn start(
        target: &Target,
        uris: [NbdUri; 2],
        request_bytes: u32,
    ) -> anyhow::Result<Self> {
        let outstanding = target.outstanding;
        let mut load = Self {
            begun: Instant::now(),
            outstanding,
            is_over: Arc::default(),
            threads: Vec::new(),
            counts: Default::default(),
        };
        for ((name, uri), count) in NAMES.into_iter().zip(uris).zip(&load.counts) {
            let spec = LoadSpec {
                name: name.to_owned(),
                targets: vec![uri],
                depth: outstanding,
                sizes: vec![WeightedSize { size_bytes: request_bytes, weight: 1 }],
                ..LoadSpec::default()
            };
            let (is_over, count) = (Arc::clone(&load.is_over), Arc::clone(count));
            let thread = thread::Builder::new().name("prove".to_owned());
            match thread.spawn(move || read(&spec, &is_over, &count)) {
                Ok(thread) => load.threads.push(thread),
                Err(error) => {
                    load.stop();
                    return Err(error.into());
                }
            }
        }
        Ok(load)
    }

    fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Ends it: no request starts any more, and the connections are closed.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        while !self.is_finished() && begun.elapsed() < CLOSE {
            thread::sleep(TICK);
        }
    }

    /// What it found, once it was stopped.
    ///
    /// # Errors
    /// [`LoadError`], if one of the two could not read.
    pub(super) fn finish(self) -> Result<Measured, LoadError> {
        for thread in self.threads.into_iter().filter(JoinHandle::is_finished) {
            match thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                // It was stopped before all had their answers.
                Ok(()) | Err(LoadError::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        let counts = self.counts.map(|count| *locked(&count));
        let [(first_seconds, first), (second_seconds, second)] =
            counts.map(|count| count.seconds_and_answers());
        let seconds = f64::min(first_seconds, second_seconds);
        // So many are always under way (Little's law).
        let under_way = f64::from(self.outstanding) * 2.0;
        let many = seconds * under_way / (first + second).max(1) as f64;
        let alone = counts[0].alone.max(counts[1].alone);
        let latency = [alone, crate::ctl::seconds(many)];
        Ok(Measured { answers: [first, second], seconds, latency })
    }
}

fn locked(count: &Mutex<Count>) -> MutexGuard<'_, Count> {
    count.lock().unwrap_or_else(PoisonError::into_inner)
}

fn go_on(is_over: &AtomicBool) -> ControlFlow<()> {
    if is_over.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// What one of the two does.
fn read(spec: &LoadSpec, is_over: &AtomicBool, count: &Mutex<Count>) -> Result<(), LoadError> {
    let plan = |depth, runtime| LoadPlan {
        groups: vec![LoadSpec { depth, ..spec.clone() }],
        runtime: Some(runtime),
        ..LoadPlan::default()
    };
    let alone = run_while(&plan(1, ALONE), &mut |_| go_on(is_over))?;
    refuse_errors(&alone)?;
    locked(count).alone = alone.groups[0].read.latency.histogram.mean();
    if go_on(is_over).is_break() {
        return Ok(());
    }
    let runtime = Span(u64::try_from(LENGTH.as_nanos()).expect("some seconds") - ALONE.0);
    let many = run_while(&plan(spec.depth, runtime), &mut |progress| {
        let mut count = locked(count);
        // What comes after the end has nobody beside it.
        if progress.elapsed >= RAMP && progress.elapsed <= runtime {
            count.now = (progress.elapsed, progress.requests);
            count.from.get_or_insert((progress.elapsed, progress.requests));
        }
        go_on(is_over)
    })?;
    refuse_errors(&many)
}

fn refuse_errors(report: &LoadReport) -> Result<(), LoadError> {
    match &report.groups[0].first_error {
        Some(error) => Err(LoadError::Lost { target: "an export".to_owned(), what: error.clone() }),
        None => Ok(()),
    }
}

/// Watches until the load is over or has to be. Gives what the gate said, a second apart.
///
/// # Errors
/// A gate that does not answer, or whose trial somebody has ended.
pub(super) fn watch(
    client: &Client,
    (policy, target, share): (&Policy, &Target, f64),
    load: &Load,
    interrupt: &Interrupt,
) -> anyhow::Result<(Vec<Status>, Ended)> {
    let first: Status = block_on(client.get(WITH_BUCKETS))?;
    let mut documents = vec![first];
    let mut latest = documents[0].clone();
    let begun = Instant::now();
    let mut looks: u32 = 0;
    let ended = loop {
        thread::sleep(TICK);
        if interrupt.is_set() {
            break Ended::Interrupted;
        }
        // One that has ended early could not read.
        if load.has_ended() || load.begun.elapsed() >= LENGTH {
            break Ended::Time;
        }
        if begun.elapsed() < LOOK_EVERY * (looks + 1) {
            continue;
        }
        looks += 1;
        let status: Status = block_on(client.get(WITH_BUCKETS))?;
        if status.trial_left_seconds.is_none() || status.uptime_seconds < latest.uptime_seconds {
            return Err(anyhow::anyhow!("somebody ended it, or restarted the gate"))
                .context("nothing is judged");
        }
        if begun.elapsed() >= INTERVAL * u32::try_from(documents.len()).unwrap_or(u32::MAX) {
            documents.push(status.clone());
        }
        let reason = judge::late(policy, [&documents[0], &latest], &status).map(Ended::Late);
        let reason = reason.or_else(|| failing(target, &documents[0], &status));
        if let Some(ended) = reason.or_else(|| beyond(target, share, &status)) {
            break ended;
        }
        latest = status;
    };
    let last: Status = block_on(client.get(WITH_BUCKETS))?;
    let is_later = documents.last().is_some_and(|one| one.uptime_seconds < last.uptime_seconds);
    if is_later {
        documents.push(last);
    }
    Ok((documents, ended))
}

/// Whether requests fail that did not before: then it is no time for more.
fn failing(target: &Target, before: &Status, status: &Status) -> Option<Ended> {
    let [before, now] = [before, status].map(|one| {
        let domain = one.domains.iter().find(|domain| domain.name == target.domain);
        domain.map_or(&[][..], |domain| domain.tenants.as_slice())
    });
    let mut tenants = before.iter().zip(now);
    let (_, tenant) = tenants.find(|(before, now)| before.failed_requests < now.failed_requests)?;
    Some(Ended::Otherwise(format!("requests of {} fail", tenant.name)))
}

/// Whether those who wait weigh so little that the two have more than was named.
fn beyond(target: &Target, share: f64, status: &Status) -> Option<Ended> {
    let domain = status.domains.iter().find(|one| one.name == target.domain)?;
    let waiting = waiting(domain);
    let part = target.part_beside(&waiting).filter(|part| *part > share * BEYOND)?;
    let names: Vec<&str> = waiting.iter().map(|one| one.name.as_str()).collect();
    Some(Ended::Otherwise(format!(
        "only {} has requests waiting now, beside whom the two are due {}",
        names.join(" and "),
        human::percent(part)
    )))
}
