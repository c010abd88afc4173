//! One replay: connects, starts the feed thread and the clients together, and collects the books.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::{Scope, ScopedJoinHandle};

use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::Schedule;
use evenkeel_wire::nbd::proto::TransmissionFlags;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::feed::Feed;
use super::map::{Export, Mapper, Step};
use super::{LeftOut, LogEntry, ReplayPlan, ReplayReport, RequestLog, Routed, Writes};
use crate::clock::Clock;
use crate::load::LoadError;
use crate::load::client::{Client, Group};
use crate::load::link::Link;
use crate::load::record::Recorder;
use crate::load::report::Progress;
use crate::load::session::{attend, collect, filler, live, on_runtime};
use crate::load::spec::{Arrivals, LoadPlan, LoadSpec};
use crate::load::work::Work;

/// Batches that wait for one client. A batch holds what one call of `next` gave for its export.
const BATCHES_MAX: usize = 16;

/// Requests of one batch at most.
const BATCH_STEPS_MAX: usize = 1024;

/// Random bytes that writes draw their payload from.
const FILLER_BYTES: usize = 2 << 20;

/// From the arrival of the first request at the clients to the start: the clients' tasks have to
/// be there when it comes due.
const LEAD: Span = Span::from_millis(2);

/// Gives the next requests of a trace, in the order of their arrival; false at its end.
pub type Next<'a> = dyn FnMut(&mut Vec<Routed>) -> bool + Send + 'a;

/// Carries out a replay on threads of its own and returns when every request was answered.
///
/// `next` is called on one of them and appends the requests to make. `log` takes an entry for every
/// request; one that is full loses entries, which are counted. `observe` is told ten times a second
/// how it goes (how much is done is for the caller to know).
///
/// # Errors
/// If the plan makes no sense, a target cannot be used, or a connection breaks. Errors of single
/// requests are counted in the report.
pub fn replay(
    plan: &ReplayPlan,
    next: &mut Next<'_>,
    log: Option<SyncSender<Vec<LogEntry>>>,
    observe: &mut (dyn FnMut(&Progress) + Send),
) -> Result<ReplayReport, LoadError> {
    plan.check()?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("replay".to_owned());
        let worker = thread
            .spawn_scoped(scope, move || on_runtime(session(plan, scope, (next, log), observe)))?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

async fn session<'scope, 'env>(
    plan: &ReplayPlan,
    scope: &'scope Scope<'scope, 'env>,
    (next, log): (&'scope mut Next<'_>, Option<SyncSender<Vec<LogEntry>>>),
    observe: &mut (dyn FnMut(&Progress) + Send),
) -> Result<ReplayReport, LoadError> {
    let clock = Clock::start();
    let links = connect(plan).await?;
    let exports: Vec<Export> = links.iter().map(|link| Export::from(&link.session)).collect();
    let mapper = Mapper::new(&exports, (plan.pace, plan.fit, plan.writes))
        .map_err(|error| LoadError::Plan { group: String::new(), what: error.to_string() })?;
    let (senders, receivers): (Vec<_>, Vec<_>) =
        links.iter().map(|_| mpsc::channel(BATCHES_MAX)).unzip();
    let (ready, is_ready) = oneshot::channel();
    let feeder = start_feeder(scope, (mapper, senders), next, ready)?;
    // Nobody is there to tell only if the trace is at its end, and then there is nothing to do.
    let _ = is_ready.await;
    let start = clock.now() + LEAD;

    let stand_in = stand_in(plan);
    let filler = filler(if plan.writes == Writes::Write { FILLER_BYTES } else { 8 }, plan.seed);
    let mut groups = Vec::new();
    let mut tasks = JoinSet::new();
    for (index, (link, receiver)) in links.into_iter().zip(receivers).enumerate() {
        let target = u32::try_from(index).expect("targets are bounded");
        let log = log.clone().map(|sink| RequestLog::new(target, start, sink));
        let group = group(plan, index, (clock, start), log);
        let work = Work::Replayed(Feed::new(receiver, start, plan.pace.is_open()));
        let (depth, parts) = (plan.pace.depth(), (None, Arc::clone(&filler)));
        let client = Client::new(Rc::clone(&group), vec![link], work, parts, depth)?;
        tasks.spawn_local(live(client, index));
        groups.push(group);
    }
    drop(log);
    let observe = &mut |progress: &Progress| {
        observe(progress);
        ControlFlow::Continue(())
    };
    let common_end = attend(&stand_in, &groups, &mut tasks, (start, observe)).await?;
    drop(tasks);
    let left_out = feeder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let log_dropped = close_logs(&mut groups);
    let load = collect(&stand_in, groups, (start, common_end));
    Ok(ReplayReport { load, left_out, log_dropped })
}

async fn connect(plan: &ReplayPlan) -> Result<Vec<Link>, LoadError> {
    let mut links = Vec::new();
    for target in &plan.targets {
        let link = Link::connect(&target.uri, plan.pace.depth()).await?;
        let session = &link.session;
        let read_only = session.flags.contains(TransmissionFlags::READ_ONLY);
        let what = if read_only && plan.writes == Writes::Write {
            "it is read-only, but the replay writes"
        } else if session.size_bytes < u64::from(session.block_size.minimum.max(1)) {
            "it has no room for a single request"
        } else {
            links.push(link);
            continue;
        };
        let target = link.target().to_owned();
        return Err(LoadError::Connect { target, what: what.to_owned() });
    }
    Ok(links)
}

/// What the books of a replay look like to those that know only drawn load.
fn stand_in(plan: &ReplayPlan) -> LoadPlan {
    let arrivals =
        if plan.pace.is_open() { Arrivals::Constant { per_second: 1.0 } } else { Arrivals::Closed };
    let spec = |target: &super::ReplayTarget| LoadSpec {
        name: target.name.clone(),
        targets: vec![target.uri.clone()],
        depth: plan.pace.depth(),
        arrivals,
        ..LoadSpec::default()
    };
    LoadPlan {
        groups: plan.targets.iter().map(spec).collect(),
        ramp: Span::ZERO,
        runtime: None,
        interval: plan.interval,
        seed: plan.seed,
        ..LoadPlan::default()
    }
}

fn group(
    plan: &ReplayPlan,
    index: usize,
    (clock, start): (Clock, Nanos),
    log: Option<RequestLog>,
) -> Rc<Group> {
    let (name, is_open) = (&plan.targets[index].name, plan.pace.is_open());
    let recorder = Recorder::new(name, start..Nanos(u64::MAX), plan.interval, (1, is_open));
    Rc::new(Group {
        clock,
        recorder: RefCell::new(recorder),
        requests_left: Cell::new(u64::MAX),
        schedule: Schedule { active: Nanos::ZERO..Nanos(u64::MAX), idle: Vec::new() },
        wakers: RefCell::default(),
        log,
    })
}

fn close_logs(groups: &mut [Rc<Group>]) -> u64 {
    let logs = groups
        .iter_mut()
        .filter_map(|group| Rc::get_mut(group).expect("the clients are gone").log.take());
    logs.map(RequestLog::close).sum()
}

/// Reads the trace ahead of the clients, as far as their queues have room.
fn start_feeder<'scope>(
    scope: &'scope Scope<'scope, '_>,
    (mut mapper, senders): (Mapper, Vec<mpsc::Sender<Vec<Step>>>),
    next: &'scope mut Next<'_>,
    ready: oneshot::Sender<()>,
) -> Result<ScopedJoinHandle<'scope, LeftOut>, LoadError> {
    let thread = std::thread::Builder::new().name("replay-feed".to_owned());
    let feeder = thread.spawn_scoped(scope, move || {
        let mut ready = Some(ready);
        let mut batches = vec![Vec::new(); senders.len()];
        let mut routed = Vec::new();
        while next(&mut routed) {
            for request in routed.drain(..) {
                let batch: &mut Vec<Step> = &mut batches[request.target];
                batch.extend(mapper.map(&request));
                if batch.len() == BATCH_STEPS_MAX {
                    // The queue takes the first batch; only clients that run make room for all.
                    if !hand_over(&senders[request.target], batch) {
                        return mapper.left_out();
                    }
                    ready.take().map(|ready| ready.send(()));
                }
            }
            for (sender, batch) in senders.iter().zip(&mut batches) {
                if !batch.is_empty() && !hand_over(sender, batch) {
                    return mapper.left_out();
                }
            }
            ready.take().map(|ready| ready.send(()));
        }
        mapper.left_out()
    })?;
    Ok(feeder)
}

/// False if the client is gone.
fn hand_over(sender: &mpsc::Sender<Vec<Step>>, batch: &mut Vec<Step>) -> bool {
    sender.blocking_send(std::mem::take(batch)).is_ok()
}
