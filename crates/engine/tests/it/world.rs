//! A driver that trusts the engine with nothing: it feeds any sequence of operations, models what
//! must become of every request, and asserts that it does. Property tests and the fuzz target run
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{
    Depth, Discipline, Domain, Mode, Moves, Scheduling, Sharing, TierPlan,
};
use evenkeel_engine::report::DomainReport;
use evenkeel_engine::{Engine, Input, Output, Request, Room, Target, Unit};

const TENANTS: u32 = 4;
const SERVERS: u32 = 3;
/// More outputs than this for one input can only be a loop.
const OUTPUTS_MAX: usize = 100_000;

/// One operation, in numbers that any generator can make.
pub(crate) type Op = (u8, u8, u32, u32);

/// An engine, and what is known of it from outside.
pub(crate) struct World {
    engine: Engine,
    now: Nanos,
    requests: BTreeMap<u32, Known>,
    in_service: BTreeMap<u32, Unit>,
    lates: Vec<Late>,
    finished: u64,
    arrived: u64,
    /// Every output with its time, to compare runs.
    pub(crate) log: Vec<(Nanos, Output)>,
}

/// A write that a server may still carry out.
#[derive(Clone)]
struct Late {
    disk: (ServerId, u64),
    range: Range<u64>,
    until: Nanos,
}

struct Known {
    request: Request,
    /// Where the next unit must begin.
    next_offset: u64,
    in_service: u32,
    has_failed: bool,
    is_abandoned: bool,
}

impl World {
    /// A world under one of the policies that `Op`s can choose.
    pub(crate) fn new(policy: u32) -> Self {
        Self {
            engine: Engine::new(Nanos::ZERO, &domain(policy)),
            now: Nanos::ZERO,
            requests: BTreeMap::new(),
            in_service: BTreeMap::new(),
            lates: Vec::new(),
            finished: 0,
            arrived: 0,
            log: Vec::new(),
        }
    }

    /// Performs one operation and drains the engine.
    pub(crate) fn perform(&mut self, (code, choice, a, b): Op) {
        match code % 8 {
            0..=2 => self.arrive(choice, a, b),
            3 | 4 => self.complete(a as usize, choice % 8 != 0),
            5 => self.abandon(a as usize),
            6 if choice < 64 => self.handle(Input::Policy(&domain(a))),
            6 if choice < 128 => {
                let room = Room { is_short: a % 3 > 0, maker: Some(TenantId(b % TENANTS)) };
                self.handle(Input::Room { server: ServerId(b % SERVERS), room });
            }
            6 if choice < 160 => {
                let offset = u64::from(a) % (1 << 30);
                let late = Late {
                    disk: (ServerId(b % SERVERS), u64::from(b / SERVERS % 2)),
                    // Wide, so that requests meet it.
                    range: offset..offset + u64::from(b) % (1 << 29),
                    until: self.now + Span(u64::from(a) % 50_000_000),
                };
                let Late { disk: (server, disk), range, until } = late.clone();
                self.lates.push(late);
                self.handle(Input::Late { server, disk, range, until });
            }
            6 => drop(self.engine.report(self.now)),
            _ => self.now += Span(u64::from(a) % 50_000_000),
        }
        self.drain();
    }

    /// Completes everything and checks the accounts.
    pub(crate) fn end(mut self) -> Vec<(Nanos, Output)> {
        while !self.requests.is_empty() {
            while !self.in_service.is_empty() {
                self.now += Span::from_micros(50);
                self.complete(0, true);
                self.drain();
            }
            let Some((at, Output::WaitUntil(until))) = self.log.last().copied() else {
                assert!(self.requests.is_empty(), "requests are stuck: {}", self.requests.len());
                break;
            };
            assert!(until > at, "a wake-up lies ahead");
            self.now = until;
            self.drain();
        }
        assert_eq!(self.finished, self.arrived, "every request finishes exactly once");
        let report = self.engine.report(self.now);
        check_accounts(&report);
        self.log
    }

    fn arrive(&mut self, choice: u8, a: u32, b: u32) {
        let slot = (0..=u32::MAX).find(|slot| !self.requests.contains_key(slot)).unwrap();
        let kind = Kind::ALL[usize::from(choice) % Kind::ALL.len()];
        let (offset, length) = match kind {
            Kind::Flush => (0, 0),
            // Now and then as large as a client may ask for.
            Kind::Trim | Kind::WriteZeroes if a.is_multiple_of(5) => (u64::from(b), 1 << 20),
            _ => (u64::from(b) % (1 << 30), u64::from(a) % 40_000),
        };
        let tenant = TenantId(u32::from(choice / 8) % TENANTS);
        let target = Target::Server(ServerId(b % SERVERS));
        let (disk, keeps_room) = (u64::from(b / SERVERS % 2), false);
        let request = Request { slot, tenant, target, disk, kind, offset, length, keeps_room };
        let known = Known {
            request,
            next_offset: offset,
            in_service: 0,
            has_failed: false,
            is_abandoned: false,
        };
        self.requests.insert(slot, known);
        self.arrived += 1;
        self.handle(Input::Arrive(request));
    }

    fn complete(&mut self, pick: usize, ok: bool) {
        let Some(&unit) = self.in_service.keys().nth(pick % self.in_service.len().max(1)) else {
            return;
        };
        let slot = self.in_service.remove(&unit).unwrap().slot;
        let known = self.requests.get_mut(&slot).unwrap();
        known.in_service -= 1;
        known.has_failed |= !ok;
        self.handle(Input::Done { unit, ok });
    }

    fn abandon(&mut self, pick: usize) {
        let Some(&slot) = self.requests.keys().nth(pick % self.requests.len().max(1)) else {
            return;
        };
        self.requests.get_mut(&slot).unwrap().is_abandoned = true;
        self.handle(Input::Abandon { slot });
    }

    fn handle(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input);
    }

    fn drain(&mut self) {
        for _ in 0..OUTPUTS_MAX {
            let output = self.engine.poll(self.now);
            self.log.push((self.now, output));
            match output {
                Output::Submit(unit) => self.submitted(unit),
                Output::Finish { slot, ok } => self.finished(slot, ok),
                Output::WaitUntil(at) => return assert!(at > self.now, "a wake-up lies ahead"),
                output @ (Output::Move(_) | Output::Zeroes { .. } | Output::Refuse { .. }) => {
                    panic!("no volume, yet {output:?}")
                }
                Output::Idle => {
                    assert!(!self.in_service.is_empty() || self.requests.is_empty(), "stuck");
                    return;
                }
            }
        }
        panic!("the engine never comes to rest");
    }

    fn submitted(&mut self, unit: Unit) {
        let known = self.requests.get_mut(&unit.slot).expect("units are of live requests");
        let request = known.request;
        assert_eq!((Target::Server(unit.server), unit.kind), (request.target, request.kind));
        assert!(!known.has_failed && !known.is_abandoned, "no unit after a failure or farewell");
        assert_eq!(unit.offset, known.next_offset, "units follow each other");
        assert_eq!(unit.at, unit.offset - request.offset);
        if matches!(unit.kind, Kind::Write | Kind::Trim | Kind::WriteZeroes) {
            let reaches = |late: &Late| {
                late.disk == (unit.server, request.disk)
                    && self.now < late.until
                    && late.range.start.max(unit.offset)
                        < late.range.end.min(unit.offset + unit.length)
            };
            assert!(!self.lates.iter().any(reaches), "a late write could lie over {unit:?}");
        }
        known.next_offset += unit.length;
        assert!(known.next_offset <= request.offset + request.length, "units stay in the request");
        known.in_service += 1;
        assert!(self.in_service.insert(unit.unit, unit).is_none(), "handles are unique");
    }

    fn finished(&mut self, slot: u32, ok: bool) {
        let known = self.requests.remove(&slot).expect("a request finishes once");
        assert_eq!(known.in_service, 0, "nothing of it is with the backend");
        let is_whole = known.next_offset == known.request.offset + known.request.length;
        assert!(!ok || is_whole, "a request is done when all its bytes are");
        assert!(!(ok && known.has_failed), "an error is told");
        assert!(ok || known.has_failed || known.is_abandoned, "an error has a cause");
        self.finished += 1;
    }
}

/// What must hold of the accounts when nothing is in flight.
fn check_accounts(report: &DomainReport) {
    let mut units = 0;
    for tenant in &report.tenants {
        assert_eq!(tenant.in_flight, 0);
        for kind in &tenant.by_kind {
            let ended = kind.delivered_requests + kind.failed_requests + kind.abandoned_requests;
            assert_eq!(ended, kind.offered_requests);
        }
        assert_eq!(tenant.queue_time.count(), tenant.device_time.count());
        units += tenant.device_time.count();
    }
    assert!(report.servers.iter().all(|server| server.in_service + server.queued == 0));
    let by_tenant: u64 = report.tenants.iter().map(|tenant| tenant.delivered_cost.0).sum();
    let by_server: u64 = report.servers.iter().map(|server| server.delivered_cost.0).sum();
    assert_eq!(by_tenant, by_server, "{units} units: service is counted twice, alike");
    let by_tenant: u64 = report.tenants.iter().map(|tenant| tenant.service_time.0).sum();
    let by_server: u64 = report.servers.iter().map(|server| server.service_time.0).sum();
    assert_eq!(by_tenant, by_server, "device time is given to somebody");
    assert!(report.servers.iter().all(|server| server.service_time <= server.busy));
    let named: u64 = report.interference.iter().map(|pair| pair.waited.0).sum();
    let waited: u64 = report.tenants.iter().map(|tenant| tenant.waited.0).sum();
    assert_eq!(named + report.interference_other.0, waited, "every wait has its culprits");
    let pairs: BTreeSet<_> = report.interference.iter().map(|p| (p.victim, p.culprit)).collect();
    assert_eq!(pairs.len(), report.interference.len());
}

/// One of many policies.
fn domain(choice: u32) -> Domain {
    let mut rest = choice;
    let mut pick = |from: u32| {
        let picked = rest % from;
        rest /= from;
        picked
    };
    let mode = [Mode::Observe, Mode::Shadow, Mode::Enforce, Mode::Enforce][pick(4) as usize];
    let min_share_milli = 500;
    let sharing = [Sharing::Local, Sharing::Total, Sharing::Hybrid { min_share_milli }];
    let sharing = sharing[pick(3) as usize];
    let goal = Span::from_micros(300);
    let discipline = Discipline::ALL[pick(7) as usize];
    let spans_tiers = discipline.spans_tiers();
    let scheduling = Scheduling {
        discipline: if spans_tiers { Discipline::Sfq } else { discipline },
        depth: match pick(4) {
            0 => Depth::Requests(1 + pick(4)),
            1 => Depth::Bytes(16 << 10),
            2 => Depth::Automatic,
            _ => Depth::Adaptive { min: 1, max: 8, read_goal: goal, write_goal: goal },
        },
        hold: Span::from_millis(u64::from(pick(2))),
        cost: if pick(2) == 0 { CostModel::PerRequest } else { CostModel::default() },
        unit_bytes: 4096 << pick(3),
        capacity_iops: Some(100 << pick(6)),
        ..Scheduling::default()
    };
    let plan = TierPlan {
        discipline,
        servers: (0..2 + pick(2)).rev().map(ServerId).collect(),
        extent_bytes: 1 << 20,
        moves: Moves::Off,
        mover: TenantId(0),
        patience: Span::from_secs(30),
        late: Span::from_secs(30),
    };
    let limit = match pick(3) {
        0 => Limit { rate_iops: 1000, burst_requests: 2, ..Limit::default() },
        1 => Limit { rate_bytes: 8 << 20, burst_bytes: 8 << 10, ..Limit::default() },
        _ => Limit::default(),
    };
    let share = |tenant: u32| Share {
        weight_milli: 1000 * (tenant + 1),
        limit: if tenant == 1 { limit } else { Limit::default() },
        floor: Floor { rate_iops: if tenant == 2 { 50 } else { 0 }, ..Floor::default() },
        latency_goal: if tenant == 3 { Span::from_millis(2) } else { Span::ZERO },
        ..Share::default()
    };
    Domain {
        mode,
        sharing,
        tenants: (0..TENANTS).map(|tenant| (format!("t{tenant}"), share(tenant))).collect(),
        servers: (0..SERVERS).map(|server| (format!("s{server}"), scheduling.clone())).collect(),
        tiers: spans_tiers.then_some(plan),
        ..Domain::default()
    }
}
