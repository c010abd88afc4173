//! One run of a plan: connects everybody, starts them together, and collects the books.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::{Drawer, Layout, Schedule, part_of};
use evenkeel_wire::nbd::proto::TransmissionFlags;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinSet, LocalSet};

use super::client::{Client, Group};
use super::link::Link;
use super::record::Recorder;
use super::report::{LoadReport, Progress};
use super::spec::{Arrivals, LoadPlan, LoadSpec};
use super::verify::{BLOCK_BYTES_MIN, Ledger, block_bytes};
use super::work::Work;
use super::{LoadError, cpu};
use crate::buffer::Buf;
use crate::clock::Clock;

/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Called with the progress, several times a second; may break the load off.
pub(super) type Observer<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + Send + 'a;

/// Carries out a plan on a thread of its own and returns when it is over.
///
/// # Errors
/// If the plan makes no sense, a target cannot be used, or a connection breaks. Errors of single
/// requests are counted in the report.
pub fn run(plan: &LoadPlan) -> Result<LoadReport, LoadError> {
    run_observed(plan, &mut |_| {})
}

/// As [`run`], and tells `observe` how it goes, ten times a second.
///
/// # Errors
/// As [`run`].
pub fn run_observed(
    plan: &LoadPlan,
    observe: &mut (dyn FnMut(&Progress) + Send),
) -> Result<LoadReport, LoadError> {
    run_while(plan, &mut |progress| {
        observe(progress);
        ControlFlow::Continue(())
    })
}

/// As [`run_observed`], and ends the load early, as an interrupt would, once `observe` breaks it
/// off: no request starts from then on, and what was measured counts. Broken off again, it does not
/// wait for the requests that are under way.
///
/// # Errors
/// As [`run`], and [`LoadError::Interrupted`] if it was broken off again.
pub fn run_while(
    plan: &LoadPlan,
    observe: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
) -> Result<LoadReport, LoadError> {
    plan.check()?;
    // A thread of its own: its processor time is the generator's, and the caller may be inside a
    // runtime already.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("load".to_owned());
        let worker = thread.spawn_scoped(scope, || on_runtime(session(plan, observe)))?;
        match worker.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs a session to its end, on a runtime of its own.
pub(super) fn on_runtime<T>(
    session: impl Future<Output = Result<T, LoadError>>,
) -> Result<T, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, session)
}

async fn session(plan: &LoadPlan, observe: &mut Observer<'_>) -> Result<LoadReport, LoadError> {
    let clock = Clock::start();
    let mut connected = Vec::new();
    for spec in &plan.groups {
        connected.push(connect(spec).await?);
    }
    let start = clock.now();
    let measured_from = start + plan.ramp;
    let end = plan.runtime.map_or(Nanos(u64::MAX), |runtime| measured_from + runtime);
    let mut groups = Vec::new();
    let mut tasks = JoinSet::new();
    for (index, (spec, links)) in plan.groups.iter().zip(connected).enumerate() {
        let open_loop = spec.arrivals != Arrivals::Closed;
        let measured = measured_from..end;
        let recorder =
            Recorder::new(&spec.name, measured, plan.interval, (spec.clients, open_loop));
        let idle = spec.idle.iter().map(|idle| start + idle.start..start + idle.end);
        let group = Rc::new(Group {
            clock,
            recorder: RefCell::new(recorder),
            requests_left: Cell::new(spec.requests.unwrap_or(u64::MAX)),
            schedule: Schedule { active: start..end, idle: idle.collect() },
            wakers: RefCell::default(),
            log: None,
        });
        let size_bytes =
            if spec.read_percent < 100 { spec.size_bytes_max() as usize * 2 } else { 8 };
        let filler = filler(size_bytes, plan.seed);
        for (client, links) in links.into_iter().enumerate() {
            let client = u32::try_from(client).expect("clients were counted in 32 bits");
            let seed = Prng::new(plan.seed ^ (index as u64) << 32 ^ u64::from(client)).next_u64();
            let client = member(&group, spec, (client, links), &filler, (seed, start))?;
            tasks.spawn_local(live(client, index));
        }
        groups.push(group);
    }
    let common_end = attend(plan, &groups, &mut tasks, (start, observe)).await?;
    drop(tasks);
    Ok(collect(plan, groups, (measured_from, common_end)))
}

/// Connections of every client of a group. One after the other: a server whose queue of new
/// connections overflows would refuse the rest.
async fn connect(spec: &LoadSpec) -> Result<Vec<Vec<Link>>, LoadError> {
    let mut clients = Vec::new();
    for client in 0..spec.clients as usize {
        let targets = match spec.layout {
            Layout::Striped => &spec.targets[..],
            Layout::Spread => std::slice::from_ref(&spec.targets[client % spec.targets.len()]),
        };
        let mut links = Vec::new();
        for target in targets {
            let link = Link::connect(target, spec.depth).await?;
            suits(spec, &link)?;
            links.push(link);
        }
        clients.push(links);
    }
    Ok(clients)
}

/// Whether the export can do what the group wants.
fn suits(spec: &LoadSpec, link: &Link) -> Result<(), LoadError> {
    let session = &link.session;
    let writes = spec.read_percent < 100;
    let minimum = session.block_size.minimum;
    let has = |flag| session.flags.contains(flag);
    let fault = if writes && has(TransmissionFlags::READ_ONLY) {
        "is read-only, but the load writes".to_owned()
    } else if spec.flush_every > 0 && !has(TransmissionFlags::SEND_FLUSH) {
        "does not offer FLUSH, but the load flushes".to_owned()
    } else if writes && spec.fua_percent > 0 && !has(TransmissionFlags::SEND_FUA) {
        "does not offer FUA, but the load asks for it".to_owned()
    } else if spec.sizes.iter().any(|size| !size.size_bytes.is_multiple_of(minimum)) {
        format!("takes only multiples of {minimum} bytes; choose the sizes accordingly")
    } else if spec.size_bytes_max() > session.block_size.maximum_payload {
        format!("takes at most {} bytes per request", session.block_size.maximum_payload)
    } else {
        return Ok(());
    };
    Err(LoadError::Connect { target: link.target().to_owned(), what: format!("it {fault}") })
}

/// One client, ready to run.
fn member(
    group: &Rc<Group>,
    spec: &LoadSpec,
    (index, links): (u32, Vec<Link>),
    filler: &Arc<Buf>,
    (seed, start): (u64, Nanos),
) -> Result<Client, LoadError> {
    let size_bytes = links.iter().map(|link| link.session.size_bytes).min().unwrap_or(0);
    let whole = spec.range.clone().unwrap_or(0..size_bytes);
    if whole.start >= whole.end || whole.end > size_bytes {
        return Err(spec.fault(format!(
            "its range {}..{} is empty or leaves the export of {size_bytes} bytes",
            whole.start, whole.end
        )));
    }
    let part = part_of(&whole, (index, spec.clients), u64::from(spec.size_bytes_max()));
    let block = block_bytes(spec.sizes.iter().map(|size| size.size_bytes));
    let (range, ledger) = if spec.verify {
        if block < BLOCK_BYTES_MIN {
            return Err(spec.fault("verifying needs sizes that are multiples of 512".to_owned()));
        }
        let length = part.end - part.start;
        (part.clone(), Some(Ledger::new(seed, part.start, length - length % block, block)))
    } else {
        (whole, None)
    };
    let room_bytes = range.end - range.start;
    let drawer = Drawer::new(&spec.mix(), range, part.start, seed).ok_or_else(|| {
        let largest = spec.size_bytes_max();
        spec.fault(format!(
            "a request of {largest} bytes does not fit the {room_bytes} bytes of the range, or \
             its hot part or the rest"
        ))
    })?;
    let pace = spec.pace(start, index, seed ^ u64::MAX);
    let (group, filler) = (Rc::clone(group), Arc::clone(filler));
    let work = Work::Drawn(Box::new(drawer), pace);
    Ok(Client::new(group, links, work, (ledger, filler), spec.depth)?)
}

/// Random bytes for unverified writes.
pub(super) fn filler(size_bytes: usize, seed: u64) -> Arc<Buf> {
    let mut buf = Buf::take(size_bytes.next_multiple_of(8));
    let mut prng = Prng::new(seed);
    for word in buf.chunks_exact_mut(8) {
        word.copy_from_slice(&prng.next_u64().to_be_bytes());
    }
    Arc::new(buf)
}

/// What a client's task says when it has news.
pub(super) enum News {
    /// The client's load is over.
    Over(Box<Client>, usize),
    /// The client has verified and said goodbye.
    Gone,
}

pub(super) async fn live(mut client: Client, group: usize) -> Result<News, LoadError> {
    client.run().await?;
    Ok(News::Over(Box::new(client), group))
}

async fn leave(mut client: Client) -> Result<News, LoadError> {
    client.read_back().await?;
    client.disconnect().await;
    Ok(News::Gone)
}

/// Waits for the clients, tells progress, and freezes what is common when the first group ends.
/// Returns when that was.
pub(super) async fn attend(
    plan: &LoadPlan,
    groups: &[Rc<Group>],
    tasks: &mut JoinSet<Result<News, LoadError>>,
    (start, observe): (Nanos, &mut Observer<'_>),
) -> Result<Nanos, LoadError> {
    let mut ticks = tokio::time::interval(PROGRESS_EVERY);
    let mut common_end = None;
    // Kept over the loop: an interrupt between two looks is not lost.
    let signals = plan.ends_on_interrupt.then(|| signal(SignalKind::interrupt()));
    let mut interrupts = signals.transpose()?;
    let mut is_ending = false;
    loop {
        tokio::select! {
            biased;
            news = tasks.join_next() => match news {
                None => break,
                Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
                Some(Ok(news)) => if let News::Over(client, index) = news? {
                    let group = &groups[index];
                    let now = group.clock.now();
                    let last = {
                        let (unanswered, steady) = (client.unanswered(), client.steady());
                        group.recorder.borrow_mut().client_ended(now, unanswered, steady)
                    };
                    if last && common_end.is_none() {
                        common_end = Some(group.recorder.borrow().measured_end());
                        for group in groups {
                            group.recorder.borrow_mut().freeze_common();
                        }
                    }
                    tasks.spawn_local(leave(*client));
                },
            },
            () = interrupted(interrupts.as_mut()) => {
                if std::mem::replace(&mut is_ending, true) {
                    return Err(LoadError::Interrupted);
                }
                end_early(groups);
            }
            _ = ticks.tick() => if observe(&progress(plan, groups, start)).is_break() {
                if std::mem::replace(&mut is_ending, true) {
                    return Err(LoadError::Interrupted);
                }
                end_early(groups);
            },
        }
    }
    // It is over either way.
    let _ = observe(&progress(plan, groups, start));
    Ok(common_end.expect("a plan has groups, and a group has clients"))
}

/// Lets no further request start, as if every group had made all of its requests.
fn end_early(groups: &[Rc<Group>]) {
    for group in groups {
        group.end_early();
    }
}

/// The next interrupt, if they are the load's business.
async fn interrupted(signals: Option<&mut Signal>) {
    match signals {
        Some(signals) => {
            signals.recv().await;
        }
        None => std::future::pending().await,
    }
}

fn progress(plan: &LoadPlan, groups: &[Rc<Group>], start: Nanos) -> Progress {
    let elapsed = groups[0].clock.now().since(start);
    let by_time = plan.runtime.map_or(0.0, |runtime| {
        elapsed.as_secs_f64() / (runtime.as_secs_f64() + plan.ramp.as_secs_f64()).max(1e-9)
    });
    let by_count = plan.groups.iter().zip(groups).map(|(spec, group)| match spec.requests {
        Some(all) => 1.0 - group.requests_left.get() as f64 / all.max(1) as f64,
        None => 0.0,
    });
    let by_count = by_count.fold(1.0, f64::min);
    Progress {
        elapsed,
        done: by_time.max(by_count).min(1.0),
        requests: groups.iter().map(|group| group.recorder.borrow().requests_in_all()).sum(),
        bytes: groups.iter().map(|group| group.recorder.borrow().bytes_in_all()).sum(),
    }
}

pub(super) fn collect(
    plan: &LoadPlan,
    groups: Vec<Rc<Group>>,
    (measured_from, common_end): (Nanos, Nanos),
) -> LoadReport {
    let recorders: Vec<Recorder> = groups
        .into_iter()
        .map(|group| Rc::into_inner(group).expect("the clients are gone").recorder.into_inner())
        .collect();
    let requests_in_all = recorders.iter().map(Recorder::requests_in_all).sum();
    let groups: Vec<_> = recorders.into_iter().map(Recorder::close).collect();
    LoadReport {
        measured: groups.iter().map(|group| group.measured).max().unwrap_or(Span::ZERO),
        common: common_end.since(measured_from),
        groups,
        interval: plan.interval,
        cpu: cpu::of_this_thread(),
        requests_in_all,
    }
}
