//! What requests take of a device, learned from when they come back.
//!
//! ```text
//! completions -> the device's time, divided among them  (apportion, parallelism)
//!                what a tenant takes that is alone       (turns)            corrects that
//!              -> a line for reads and one for writes    (fit)      the backend's model
//!              -> each tenant's times beside that        (tenant)   a factor on it
//!              -> bytes that take a bounded time         (unit)     the size of units
//! ```
//!
//! - **Only a full device tells what requests take of it.** A request is learned from if the depth
//!   was full while it was away: then the time that all of them were given is the time of the
//!   device. Of an idle device a request's latency says little.
//! - **Costs are ratios.** How long all requests take together depends on the depth. So an epoch,
//!   in which the depth is the same, is held against what the model expects of its requests, and
//!   only what differs within it is learned: while one tenant is alone, what the others cost stays.
//! - **Each tenant pays for its own requests.** Its factor counts for as much as it was seen. That
//!   of a new tenant is free to move: a line says little of sizes that were not seen.
//! - **No jumps.** After the first seconds what a tenant pays moves by a tenth in a second at most,
//!   so that a moment in which the device stalls makes nobody's requests dear. While nothing waits
//!   at the gate, and nobody pays, it moves ten times as fast.
//! - **How long they take in all goes its own way.** Shares need ratios alone, and an automatic
//!   depth judges depths by costs: what the present mix costs in all stays the same while ratios
//!   change, and then follows what is measured, slowly, once the depth is found.
//!
//! What is not seen stays as it was: sums fade with what is learned, not with time.
//!
//! Related: IBIS and vPFS profile devices beforehand; Pesto (Gulati et al., `SoCC` 2011) and Ceph's
//! mClock take figures from a benchmark at start. Blk-iocost (Heo, Linux 5.4) has the same linear
//! model by direction, and one `vrate` for what it is wrong by.

mod apportion;
mod bounds;
mod fit;
mod kinds;
mod load;
mod parallelism;
mod tenant;
mod turns;
mod unit;
mod watch;

use evenkeel_core::float::{exponential, natural_log};
use evenkeel_core::id::TenantId;
use evenkeel_core::sched::Turn;
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

use super::CostModel;
use super::measured::{Measured, MeasuredLine};
use fit::{Fit, Slope};
pub use load::{Crowd, Load};
use parallelism::Parallelism;
use tenant::Tenant;
use turns::{Part, Turns};
use unit::Unit;
use watch::Watch;

/// An epoch ends after so much time, or with the depth.
const EPOCH: Span = Span::from_millis(100);
/// An epoch with fewer requests goes on, or tells nothing if the depth changes.
const EPOCH_REQUESTS: u32 = 16;
/// Requests are forgotten with this time constant of learning.
const MEMORY: Span = Span::from_secs(5);
/// The way in which the device serves is forgotten sooner: it depends on the depth.
const WAY_MEMORY: Span = Span::from_secs(1);
/// What requests take that are alone with the device is seldom seen.
const ALONE_MEMORY: Span = Span::from_secs(60);
/// How far a line and a factor may move in a second, each, as logarithms.
const PACE: f64 = 0.04;
/// The same while nobody waits at the gate, so that nobody pays.
const PACE_UNQUEUED: f64 = 0.4;
/// How far the level of all costs may: with both, what a tenant pays moves by a tenth at most.
const LEVEL_PACE: f64 = 0.02;
/// Weights that differ by more, as a logarithm, are in another unit.
const JUMP: f64 = 0.1;
/// Lines are free to move until so much time was learned from, and a tenant's factor until it had a
/// part in so much.
const FREE: Span = Span::from_secs(5);
/// It has a part in what it took at least so much of.
const PART_MIN: f64 = 0.02;
/// If nothing went or came back for so long, the gate was paused, the device stalled, or nobody
/// asked: what was under way tells nothing.
const SILENCE: Span = Span::from_secs(1);

/// The model of one backend, as far as it is known. See the [module](self).
#[derive(Clone, Debug)]
pub struct Learned {
    watch: Watch,
    parallelism: Parallelism,
    turns: Turns,
    start: [Slope; 2],
    start_flush_ns: f64,
    flush_ns: f64,
    /// What requests cost beside each other, for reads and for writes.
    lines: [Slope; 2],
    fits: [Fit; 2],
    epoch_fits: [Fit; 2],
    tenants: Vec<Tenant>,
    /// The logarithm of what costs are in times of the lines, and the factor.
    level_log: f64,
    level: f64,
    /// The logarithm of what requests truly take in times of the lines.
    measured_log: Option<f64>,
    unit: Unit,
    epoch_begun: Nanos,
    epoch_requests: u32,
    /// A tenant had the device to itself at its beginning.
    epoch_has_turn: bool,
    /// Somebody waited at the gate in it.
    epoch_has_queue: bool,
    /// Of all epochs that counted.
    time: Span,
    /// The lines when weights got their unit, and how often they did.
    lines_weighed: [Slope; 2],
    jumps: u32,
}

impl Learned {
    /// A model that begins with this one.
    pub fn new(now: Nanos, start: &CostModel) -> Self {
        let (read, write, flush) = start.lines();
        let start = [Slope::from(read), Slope::from(write)];
        Self {
            watch: Watch::under(now, Load::default()),
            parallelism: Parallelism::new(),
            turns: Turns::new(),
            start,
            start_flush_ns: float(flush.0),
            flush_ns: float(flush.0),
            lines: start,
            fits: [Fit::default(); 2],
            epoch_fits: [Fit::default(); 2],
            tenants: Vec::new(),
            level_log: 0.0,
            level: 1.0,
            measured_log: None,
            unit: Unit::new(),
            epoch_begun: now,
            epoch_requests: 0,
            epoch_has_turn: false,
            epoch_has_queue: false,
            time: Span::ZERO,
            lines_weighed: start,
            jumps: 0,
        }
    }

    /// What this request of this tenant costs.
    pub fn cost(&self, tenant: TenantId, kind: Kind, size_bytes: u64) -> Cost {
        Cost(whole(self.taken_ns(tenant, kind, size_bytes) * self.level).max(1))
    }

    /// What it takes beside others, in a unit in which recent requests have about the same mean at
    /// all times.
    pub(crate) fn weight(&self, tenant: TenantId, kind: Kind, size_bytes: u64) -> Cost {
        Cost(whole(self.taken_ns(tenant, kind, size_bytes)).max(1))
    }

    fn taken_ns(&self, tenant: TenantId, kind: Kind, size_bytes: u64) -> f64 {
        match direction(kind) {
            Some(direction) => self.lines[direction].at(float(size_bytes)) * self.factor(tenant),
            None => self.flush_ns,
        }
    }

    /// Whether anything was learned yet.
    pub(crate) fn is_known(&self) -> bool {
        self.measured_log.is_some()
    }

    /// How often weights got another unit: those of before say nothing beside those of after.
    pub(crate) fn jumps(&self) -> u32 {
        self.jumps
    }

    /// The backend's model as it was measured last. None before anything was learned.
    pub fn measured(&self) -> Option<Measured> {
        let level = exponential(self.measured_log?);
        let of = |direction: usize| MeasuredLine {
            line: self.lines[direction].times(level).line(),
            size_bytes: self.fits[direction].typical_bytes(),
        };
        Some(Measured {
            read: of(0),
            write: of(1),
            flush: Span(whole(self.flush_ns * level)),
            at_once: self.parallelism.at_once(),
            load: self.time,
        })
    }

    /// Whether the device seems to serve one request at a time, in whatever order.
    pub(crate) fn serves_one_by_one(&self) -> bool {
        self.parallelism.at_once() == 1
    }

    /// Whether the tenants seem to share one device, rather than to have several behind one server.
    pub(crate) fn tenants_share_one_device(&self) -> bool {
        self.turns.share_one_device()
    }

    /// Whom the device is to serve alone for now, so that it is seen what its requests take.
    pub fn turn(&self) -> Option<Turn> {
        self.turns.turn()
    }

    /// The largest unit whose bytes take a bounded time, in bytes: a power of two.
    pub fn unit_bytes(&self) -> u64 {
        self.unit.bytes()
    }

    /// How many times as much as by the backend's model a tenant's requests cost.
    pub fn factor(&self, tenant: TenantId) -> f64 {
        self.tenants.get(tenant.index()).map_or(1.0, Tenant::factor)
    }

    /// From now on this is with the device.
    pub fn set_load(&mut self, now: Nanos, load: Load, is_depth_found: bool) {
        let watch = &mut self.watch;
        if watch.load == load {
            return;
        }
        watch.pass(now);
        let before = std::mem::replace(&mut watch.load, load);
        if before.depth != load.depth {
            self.end_epoch(now, is_depth_found);
            self.turns.set_depth(load.depth);
        }
        self.epoch_has_queue |= load.has_queue;
    }

    /// A ticket goes to the device.
    pub fn started(&mut self, now: Nanos, ticket: &Ticket) {
        self.end_silence(now);
        self.watch.started(now, ticket);
        self.turns.started(ticket.tenant);
    }

    /// A ticket is back or no longer counted, and nothing is learned from it.
    pub fn left(&mut self, now: Nanos, ticket: &Ticket) {
        if self.watch.finished(now, ticket).is_some() {
            self.turns.left(ticket.tenant);
        }
    }

    /// Forgets what is under way, such as when another scheduler takes over.
    pub fn restart(&mut self, now: Nanos) {
        self.watch = Watch::under(now, self.watch.load);
        self.turns.restart();
        self.discard_epoch(now);
    }

    fn end_silence(&mut self, now: Nanos) {
        if now.since(self.watch.passed) > SILENCE {
            self.restart(now);
        }
    }

    /// The device has done what a ticket asks.
    pub fn finished(&mut self, now: Nanos, ticket: &Ticket, is_depth_found: bool) {
        self.end_silence(now);
        let Some((served, is_filled)) = self.watch.finished(now, ticket) else { return };
        self.turns.finished(now, ticket, self.watch.busy_ns());
        if !is_filled {
            return;
        }
        let (Kind::Read | Kind::Write, Some(direction)) = (ticket.kind, direction(ticket.kind))
        else {
            return;
        };
        let size_bytes = float(ticket.size_bytes);
        self.parallelism.add(kind_number(ticket, direction), &served);
        let time_ns = self.parallelism.time_ns(&served);
        let expected_ns = self.start[direction].at(size_bytes).max(1.0);
        let is_alone = parallelism::is_alone(&served);
        self.epoch_fits[direction].add(size_bytes, time_ns, expected_ns, is_alone);
        self.tenant(ticket.tenant).epoch.add(direction, size_bytes, time_ns);
        self.epoch_requests += 1;
        if now.since(self.epoch_begun) >= EPOCH && self.epoch_requests >= EPOCH_REQUESTS {
            self.end_epoch(now, is_depth_found);
        }
    }

    /// What this epoch has shown counts, if it is enough, and another begins.
    fn end_epoch(&mut self, now: Nanos, is_depth_found: bool) {
        let time_ns: f64 = self.tenants.iter().map(|one| one.epoch.time_ns()).sum();
        let expected = |one: &Tenant| one.epoch.expected_ns(&self.lines) * one.factor();
        let expected_ns: f64 = self.tenants.iter().map(expected).sum();
        let is_enough = self.epoch_requests >= EPOCH_REQUESTS && time_ns > 0.0 && expected_ns > 0.0;
        if !is_enough {
            return self.discard_epoch(now);
        }
        // Time in which nothing was learned neither fades what was, nor allows a larger step.
        let length = Span(whole(time_ns));
        let unit = time_ns / expected_ns;
        let keep = |memory| kept(length.as_secs_f64(), memory);
        if self.parallelism.merge(keep(WAY_MEMORY), keep(ALONE_MEMORY)) {
            return self.forget(now);
        }
        self.take_turns(now, is_depth_found);
        self.merge(length, time_ns, unit);
        let is_free = self.time < FREE;
        let pace = if self.epoch_has_queue { PACE } else { PACE_UNQUEUED };
        let step = pace * length.as_secs_f64();
        let change = self.learn(if is_free { f64::INFINITY } else { step });
        self.time += length;
        self.follow(natural_log(unit) + change, change, is_depth_found, length);
        self.begin_epoch(now);
    }

    /// Holds the epoch against what turns have shown, and begins a look when it is time for one.
    fn take_turns(&mut self, now: Nanos, is_depth_found: bool) {
        if !is_depth_found || self.turns.tenant().is_some() || self.epoch_has_turn {
            return;
        }
        let parts = self.parts(|tenant| &tenant.epoch);
        self.turns.take_epoch(now, self.watch.load.depth, &parts, &self.lines);
    }

    /// What these sums say of each tenant that has any.
    fn parts(&self, of: impl Fn(&Tenant) -> &tenant::Sums) -> Vec<Part> {
        let part = |(index, one): (usize, &Tenant)| Part {
            tenant: TenantId(u32::try_from(index).expect("tenants are numbered by u32")),
            time_ns: of(one).time_ns(),
            expected_ns: of(one).expected_ns(&self.lines),
        };
        let parts = self.tenants.iter().enumerate().map(part);
        parts.filter(|part| part.time_ns > 0.0 && part.expected_ns > 0.0).collect()
    }

    /// The epoch's sums count from now on.
    fn merge(&mut self, length: Span, time_ns: f64, unit: f64) {
        let keep = kept(length.as_secs_f64(), MEMORY);
        for (fit, epoch) in self.fits.iter_mut().zip(&mut self.epoch_fits) {
            fit.fade(keep);
            fit.merge(&std::mem::take(epoch), unit);
        }
        for tenant in &mut self.tenants {
            // Who was hardly there is hardly forgotten.
            let part = tenant.epoch.time_ns() / time_ns;
            tenant.merge(unit, kept(length.as_secs_f64() * part, MEMORY));
            if part >= PART_MIN {
                tenant.seen += length;
            }
        }
    }

    /// Lines and factors go towards what was seen. Returns the logarithm by which the level has
    /// changed so that recent requests cost as much as before.
    fn learn(&mut self, step: f64) -> f64 {
        let before = self.recent_cost_ns();
        let targets = [0, 1].map(|one| self.line(one).unwrap_or(self.lines[one]));
        // Lines are in a unit of their own, which is to stay the same.
        let unit = self.expected_ns(&self.lines) / self.expected_ns(&targets);
        for (line, target) in self.lines.iter_mut().zip(targets) {
            *line = line.towards(&target.times(unit), step);
        }
        self.learn_factors(step);
        // Flushes are not learned: they become dearer with reads and writes.
        let dearer = self.expected_ns(&self.lines) / self.expected_ns(&self.start);
        self.flush_ns = self.start_flush_ns * dearer;
        let change = natural_log(before / self.recent_cost_ns());
        self.set_level(self.level_log + change);
        let moved = |(line, before): (&Slope, &Slope)| line.differs_from(before);
        if self.lines.iter().zip(&self.lines_weighed).any(|both| moved(both) > JUMP) {
            self.lines_weighed = self.lines;
            self.jumps += 1;
        }
        change
    }

    /// Factors go towards what was seen. Whoever is new pays at once what its requests take beside
    /// those of the others, who pay what they did.
    fn learn_factors(&mut self, step: f64) {
        let may_correct = self.turns.may_correct();
        let parts = if may_correct { self.parts(|tenant| &tenant.all) } else { Vec::new() };
        let Some(known) = self.turns.believed(&parts, &self.lines) else {
            let taken = self
                .tenants
                .iter()
                .map(|one| (one, one.all.expected_ns(&self.lines), one.all.time_ns()));
            let unit = unit_of(taken);
            for tenant in &mut self.tenants {
                tenant.weigh(&self.lines, unit, tenant.step(step));
            }
            return;
        };
        let taken = parts.iter().zip(&known).map(|(part, times)| {
            let tenant = &self.tenants[part.tenant.index()];
            (tenant, part.expected_ns, part.expected_ns * times)
        });
        let unit = unit_of(taken);
        for (part, times) in parts.iter().zip(known) {
            let tenant = &mut self.tenants[part.tenant.index()];
            tenant.weigh_known(times / unit, tenant.step(step));
        }
    }

    /// The line that fits what was seen of a direction. One that was not seen is taken to be as
    /// much dearer as the other.
    fn line(&self, direction: usize) -> Option<Slope> {
        let times = |one: usize| self.fits[one].times_of(&self.start[one]);
        let times = times(direction).or_else(|| times(1 - direction))?;
        Some(self.fits[direction].line(&self.start[direction], times))
    }

    /// Requests took so much in times of the lines; the level follows when the depth is found.
    fn follow(&mut self, seen: f64, change: f64, is_depth_found: bool, length: Span) {
        let part = 1.0 - kept(length.as_secs_f64(), WAY_MEMORY);
        let before = self.measured_log.map_or(seen, |before| before + change);
        let measured = before + (seen - before) * part;
        self.measured_log = Some(measured);
        let level = exponential(measured);
        let is_seen = |one: usize| self.fits[one].requests() >= f64::from(EPOCH_REQUESTS);
        let seen = |one: usize| is_seen(one).then(|| self.lines[one].times(level));
        match [seen(0), seen(1)] {
            [Some(reads), Some(writes)] => self.unit.fit(&[reads, writes]),
            [Some(only), None] | [None, Some(only)] => self.unit.fit(&[only]),
            [None, None] => self.unit.fit(&[]),
        }
        if is_depth_found {
            let step = LEVEL_PACE * length.as_secs_f64();
            self.set_level(self.level_log + (measured - self.level_log).clamp(-step, step));
        }
    }

    fn set_level(&mut self, log: f64) {
        (self.level_log, self.level) = (log, exponential(log));
    }

    /// What recent requests take by lines and factors.
    fn recent_cost_ns(&self) -> f64 {
        let of = |one: &Tenant| one.all.expected_ns(&self.lines) * one.factor();
        self.tenants.iter().map(of).sum()
    }

    /// What recent requests take by these lines.
    fn expected_ns(&self, lines: &[Slope; 2]) -> f64 {
        self.tenants.iter().map(|one| one.all.expected_ns(lines)).sum()
    }

    /// The device serves in another way: all times were divided wrongly. The model stays for now.
    fn forget(&mut self, now: Nanos) {
        self.fits = [Fit::default(); 2];
        self.tenants.iter_mut().for_each(|tenant| tenant.all = tenant::Sums::default());
        self.discard_epoch(now);
    }

    fn discard_epoch(&mut self, now: Nanos) {
        self.parallelism.discard();
        self.epoch_fits = [Fit::default(); 2];
        self.tenants.iter_mut().for_each(|tenant| tenant.epoch = tenant::Sums::default());
        self.begin_epoch(now);
    }

    fn begin_epoch(&mut self, now: Nanos) {
        (self.epoch_begun, self.epoch_requests) = (now, 0);
        self.epoch_has_turn = self.turns.tenant().is_some();
        self.epoch_has_queue = self.watch.load.has_queue;
    }

    fn tenant(&mut self, tenant: TenantId) -> &mut Tenant {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize(tenant.index() + 1, Tenant::default());
        }
        &mut self.tenants[tenant.index()]
    }
}

/// What requests of these tenants take in times of what they cost, by what the lines expect of each
/// and what they were given, in nanoseconds. Where some of them are new, of the others; where all
/// are, or none, factors are in the mean 1.
fn unit_of<'a>(taken: impl Iterator<Item = (&'a Tenant, f64, f64)>) -> f64 {
    // Of all, and of those that are not new: what it costs and what it takes.
    let [mut all, mut known] = [(0.0, 0.0); 2];
    let mut has_new = false;
    for (tenant, expected_ns, time_ns) in taken {
        all = (all.0 + expected_ns, all.1 + time_ns);
        if tenant.is_new() {
            has_new |= time_ns > 0.0;
        } else {
            known = (known.0 + expected_ns * tenant.factor(), known.1 + time_ns);
        }
    }
    let (cost_ns, time_ns) = if has_new && known.1 > 0.0 { known } else { all };
    time_ns / cost_ns
}

/// What is left of sums after so many seconds.
fn kept(seconds: f64, memory: Span) -> f64 {
    exponential(-seconds / memory.as_secs_f64())
}

/// Requests of the same tenant, direction and size are of one kind; sizes by powers of two.
fn kind_number(ticket: &Ticket, direction: usize) -> u64 {
    let size = u64::from(ticket.size_bytes.max(1).ilog2());
    u64::from(ticket.tenant.0) << 8 | size << 1 | u64::from(direction == 1)
}

/// Reads or writes; flushes are neither.
fn direction(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Read | Kind::Cache => Some(0),
        Kind::Write | Kind::WriteZeroes | Kind::Trim => Some(1),
        Kind::Flush => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes and spans are far below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use evenkeel_core::prng::Prng;

    use super::*;

    const SMALL: TenantId = TenantId(0);
    const LARGE: TenantId = TenantId(1);

    /// A device that takes one request after the other, with two tenants that always ask: in turn,
    /// so that what they are given does not depend on what is learned.
    struct World {
        learned: Learned,
        now: Nanos,
        slot: u32,
        is_full: bool,
    }

    /// What a tenant asks for, and how long that takes.
    #[derive(Clone, Copy)]
    struct Ask(TenantId, Kind, u64, Span);

    impl World {
        fn new() -> Self {
            let learned = Learned::new(Nanos::ZERO, &CostModel::default());
            Self { learned, now: Nanos::ZERO, slot: 0, is_full: true }
        }

        /// So many of each, two at a time with the device.
        fn run(&mut self, asks: &[Ask], rounds: usize) {
            let mut out = std::collections::VecDeque::new();
            for ask in asks.iter().cycle().take(rounds * asks.len()) {
                let Ask(tenant, kind, size_bytes, time) = *ask;
                let cost = self.learned.cost(tenant, kind, size_bytes);
                self.slot = (self.slot + 1) % 64;
                let slot = self.slot;
                let ticket =
                    Ticket { tenant, kind, slot, size_bytes, cost, cost_elsewhere: Cost(0) };
                self.learned.started(self.now, &ticket);
                out.push_back((ticket, time));
                self.learned.set_load(self.now, Load::of(2, self.is_full && out.len() == 2), true);
                if out.len() == 2 {
                    self.finish(out.pop_front());
                }
            }
            self.finish(out.pop_front());
        }

        fn finish(&mut self, first: Option<(Ticket, Span)>) {
            let (ticket, time) = first.expect("it is out");
            self.now += time;
            self.learned.finished(self.now, &ticket, true);
        }

        fn ratio(&self, kind: Kind, sizes: [u64; 2]) -> f64 {
            let cost = |tenant, size| float(self.learned.cost(tenant, kind, size).0);
            cost(LARGE, sizes[1]) / cost(SMALL, sizes[0])
        }
    }

    const BOTH: [Ask; 2] = [
        Ask(SMALL, Kind::Read, 4096, Span::from_micros(200)),
        Ask(LARGE, Kind::Read, 262_144, Span::from_micros(6400)),
    ];
    const SIZES: [u64; 2] = [4096, 262_144];

    #[test]
    fn costs_become_what_requests_take_of_the_device() {
        let mut world = World::new();
        assert!(world.ratio(Kind::Read, SIZES) < 6.0, "the default knows a quick disk");
        world.run(&BOTH, 1000);
        let ratio = world.ratio(Kind::Read, SIZES);
        assert!((30.0..34.0).contains(&ratio), "{ratio}");
        let measured = world.learned.measured().unwrap();
        let model = measured.model();
        let [small, large] = SIZES.map(|size| model.cost(Kind::Read, size).0 / 1000);
        assert!((180..220).contains(&small) && (6000..6800).contains(&large), "{small} {large}");
        assert!(measured.read.size_bytes.is_some_and(|size| (4096..262_144).contains(&size)));
        assert_eq!(measured.write.size_bytes, None, "nobody wrote");
    }

    #[test]
    fn who_is_alone_teaches_nothing_about_the_others() {
        let mut world = World::new();
        world.run(&BOTH, 1000);
        let before = world.ratio(Kind::Read, SIZES);
        world.run(&BOTH[..1], 50_000);
        let after = world.ratio(Kind::Read, SIZES);
        assert!((after / before - 1.0).abs() < 0.1, "{before} {after}");
    }

    #[test]
    fn each_tenant_pays_for_its_own_requests() {
        let mut world = World::new();
        let [quick, slow] = [SMALL, LARGE].map(|tenant| {
            let time = if tenant == SMALL { 500 } else { 8000 };
            Ask(tenant, Kind::Read, 4096, Span::from_micros(time))
        });
        world.run(&[quick, slow], 2000);
        let ratio = world.ratio(Kind::Read, [4096; 2]);
        assert!((12.0..17.0).contains(&ratio), "{ratio}");
        let other = world.learned.cost(TenantId(7), Kind::Read, 4096);
        let between = [SMALL, LARGE].map(|one| world.learned.cost(one, Kind::Read, 4096));
        assert!(between[0] < other && other < between[1], "of a new one nothing is known");
    }

    #[test]
    fn a_stall_makes_nobody_dear_at_once() {
        let mut world = World::new();
        world.run(&BOTH, 2000);
        let cost = |world: &World| world.learned.cost(SMALL, Kind::Read, 4096).0;
        let before = cost(&world);
        // Each of its requests takes fifty times as long, for a second.
        let stalled = [Ask(SMALL, Kind::Read, 4096, Span::from_millis(10)), BOTH[1]];
        let since = world.now;
        while world.now.since(since) < Span::from_secs(1) {
            world.run(&stalled, 10);
        }
        let after = cost(&world);
        assert!(after > before, "it is seen");
        // An epoch that had begun before counts in whole.
        let seconds = (world.now.since(since) + EPOCH + EPOCH).as_secs_f64();
        let most = float(before) * exponential(0.1 * seconds);
        assert!(float(after) < most, "{before} {after}: by a tenth in a second");
    }

    #[test]
    fn an_idle_device_teaches_nothing() {
        let mut world = World::new();
        world.is_full = false;
        world.run(&BOTH, 2000);
        assert_eq!(world.learned.measured(), None);
    }

    #[test]
    fn an_hour_without_load_forgets_nothing_and_gives_no_leave_to_jump() {
        let mut world = World::new();
        world.run(&BOTH, 2000);
        let cost = |world: &World| world.learned.cost(SMALL, Kind::Read, 4096).0;
        let before = cost(&world);
        world.now += Span::from_secs(3600);
        let stalled = [Ask(SMALL, Kind::Read, 4096, Span::from_millis(10)), BOTH[1]];
        world.run(&stalled, 20);
        let ratio = float(cost(&world)) / float(before);
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_gate_that_was_paused_learns_nothing_from_what_was_under_way() {
        for (index, first) in [SMALL, LARGE].into_iter().enumerate() {
            let mut world = World::new();
            world.run(&BOTH, 100);
            let before = world.ratio(Kind::Read, SIZES);
            // One of its requests is back an hour later by the clock.
            let Ask(tenant, kind, size, _) = BOTH[index];
            assert_eq!(tenant, first);
            world.run(&[Ask(tenant, kind, size, Span::from_secs(3600))], 1);
            world.run(&BOTH, 100);
            let ratio = world.ratio(Kind::Read, SIZES) / before;
            assert!((0.8..1.25).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn what_the_present_mix_costs_does_not_jump() {
        let mut world = World::new();
        let cost = |world: &World| -> u64 {
            let of = |Ask(tenant, kind, size, _): &Ask| world.learned.cost(*tenant, *kind, *size).0;
            BOTH.iter().map(of).sum()
        };
        world.run(&BOTH, 1);
        let before = cost(&world);
        world.run(&BOTH, 100);
        let ratio = float(cost(&world)) / float(before);
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
        assert!(world.ratio(Kind::Read, SIZES) > 20.0, "though it is divided otherwise");
    }

    #[test]
    fn what_is_out_when_a_scheduler_is_replaced_is_forgotten() {
        let mut world = World::new();
        let ticket = Ticket {
            tenant: SMALL,
            kind: Kind::Read,
            slot: 9,
            size_bytes: 4096,
            cost: Cost(1),
            cost_elsewhere: Cost(0),
        };
        world.learned.started(world.now, &ticket);
        world.learned.restart(world.now);
        world.learned.finished(world.now, &ticket, true);
        world.learned.left(world.now, &ticket);
        world.run(&BOTH, 1000);
        assert!(world.ratio(Kind::Read, SIZES) > 30.0);
    }

    /// Whatever a device and its clients do, costs are costs.
    #[test]
    fn no_sequence_of_events_makes_a_cost_that_is_none() {
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let mut learned = Learned::new(Nanos::ZERO, &CostModel::default());
            let (mut now, mut out) = (Nanos::ZERO, Vec::new());
            for slot in 0..3000 {
                let kinds = [Kind::Read, Kind::Write, Kind::Flush, Kind::Trim];
                let kind = kinds[usize::try_from(prng.below(4)).expect("few")];
                let tenant = TenantId(u32::try_from(prng.below(5)).expect("few"));
                let (size_bits, time_bits) = (prng.below(31), prng.below(34));
                let size_bytes = prng.below(1 << size_bits);
                let cost = learned.cost(tenant, kind, size_bytes);
                assert!((1..=1 << 50).contains(&cost.0), "{seed}: {cost:?} in {learned:?}");
                let ticket =
                    Ticket { tenant, kind, slot, size_bytes, cost, cost_elsewhere: Cost(0) };
                learned.started(now, &ticket);
                out.push(ticket);
                learned.set_load(now, Load::of(1 + prng.below(9) / 8, prng.below(20) > 0), true);
                now += Span(prng.below(1 << time_bits));
                while !out.is_empty() && prng.below(3) > 0 {
                    let index = prng.below(u64::try_from(out.len()).expect("few"));
                    let ticket = out.swap_remove(usize::try_from(index).expect("few"));
                    match prng.below(30) {
                        0 => learned.left(now, &ticket),
                        _ => learned.finished(now, &ticket, prng.below(2) > 0),
                    }
                }
                if prng.below(1000) == 0 {
                    learned.restart(now);
                }
            }
        }
    }
}
