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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// How long requests under way are waited for once it is over.
const DRAIN: Duration = Duration::from_secs(1);

/// The two may have so many times the share that was named before it ends.
const BEYOND: f64 = 2.0;

/// What the two have counted themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Each one's answers while they read what they could.
    pub(super) answers: Option<[u64; 2]>,
    /// How long that was.
    pub(super) seconds: f64,
    /// Mean times of a request: one at a time, and many at once.
    pub(super) latency: [Span; 2],
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

/// The load on a thread of its own.
#[derive(Debug)]
pub(super) struct Load {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Measured, LoadError>>,
}

impl Load {
    /// Starts it.
    pub(super) fn start(
        target: &Target,
        uris: [NbdUri; 2],
        request_bytes: u32,
    ) -> anyhow::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (stop, outstanding) = (Arc::clone(&is_over), target.outstanding);
        let work = move || read(&uris, (request_bytes, outstanding), &stop);
        let thread = thread::Builder::new().name("prove".to_owned()).spawn(work)?;
        Ok(Self { is_over, thread })
    }

    /// Lets no request start any more, and waits a moment for those under way.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        while !self.thread.is_finished() && begun.elapsed() < DRAIN {
            thread::sleep(TICK);
        }
    }

    /// What it found; nothing where its requests still have no answers.
    ///
    /// # Errors
    /// [`LoadError`].
    pub(super) fn finish(self) -> Result<Measured, LoadError> {
        if !self.thread.is_finished() {
            // It ends with this process, or with its connections, which the gate closes.
            return Ok(Measured::default());
        }
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn read(
    uris: &[NbdUri; 2],
    (request_bytes, outstanding): (u32, u32),
    stop: &AtomicBool,
) -> Result<Measured, LoadError> {
    let plan = |depth, ramp, runtime| LoadPlan {
        groups: NAMES
            .into_iter()
            .zip(uris)
            .map(|(name, uri)| LoadSpec {
                name: name.to_owned(),
                targets: vec![uri.clone()],
                depth,
                sizes: vec![WeightedSize { size_bytes: request_bytes, weight: 1 }],
                ..LoadSpec::default()
            })
            .collect(),
        ramp,
        runtime: Some(runtime),
        ..LoadPlan::default()
    };
    let run = |plan: &LoadPlan| {
        run_while(plan, &mut |_| match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    };
    let alone = run(&plan(1, Span::ZERO, ALONE))?;
    let latency = mean(&alone);
    if stop.load(Ordering::Relaxed) {
        return Ok(Measured { latency: [latency, Span::ZERO], ..Measured::default() });
    }
    let length = u64::try_from(LENGTH.as_nanos()).expect("some seconds");
    let many = run(&plan(outstanding, RAMP, Span(length - ALONE.0 - RAMP.0)))?;
    if let Some(error) = many.groups.iter().find_map(|group| group.first_error.clone()) {
        return Err(LoadError::Lost { target: "the export".to_owned(), what: error });
    }
    let answers = std::array::from_fn(|index| many.groups[index].read.requests);
    let seconds = many.common.as_secs_f64();
    Ok(Measured { answers: Some(answers), seconds, latency: [latency, mean(&many)] })
}

/// The mean time of a request of either.
fn mean(report: &LoadReport) -> Span {
    let mut times = report.groups[0].read.latency.histogram.clone();
    times.merge(&report.groups[1].read.latency.histogram);
    times.mean()
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
        if load.thread.is_finished() {
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
