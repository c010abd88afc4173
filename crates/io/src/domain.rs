//! One scheduling domain at work: its engine, its devices, its requests under way.
//!
//! Everything here runs on one thread. Inputs are collected first, then [`Domain::pump`] lets the
//! engine decide until nothing is left to do; a batch of requests or replies costs one pump.
//!
//! ```text
//! client task --arrive--> engine --Submit--> device: memory     at once
//!      ^                    ^                        file       drive, reaped here
//!      |                    |                        remote     link task, done() later
//!      |                    |                        store      a task each, done() later
//!      |                    |                        ceph       the same
//!      +------ Finish ------+------- Done ------------+
//! ```

mod ceph;
mod drive;
pub(crate) mod errand;
pub(crate) mod failures;
mod keep;
pub(crate) mod moves;
mod perform;
pub(crate) mod pulse;
mod recording;
pub(crate) mod spread;
mod status;
mod store;
mod timer;
mod together;
pub(crate) mod volume;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::control::Decision;
use evenkeel_core::control::summary::Summary;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::{Cost, Kind};
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::report::DomainReport;
use evenkeel_engine::{Engine, Input, Output, Refused, Room, Target, Unit, policy};
use evenkeel_wire::nbd::proto::{Command, CommandFlags, Errno};
use evenkeel_wire::nbd::request::Request;
use slab::Slab;

use crate::buffer::Buf;
use crate::client::{Client, Standing};
use crate::clock::Clock;
use crate::device::remote::link::Link;
use crate::op::{Data, Op, Origin};
use crate::plan::Plan;
use crate::record::Lanes;
use crate::worker::Worker;
use drive::DomainDrive;
use failures::{FailedLately, Failure, Failures};
use keep::Kept;
use moves::Steps;
use pulse::Leave;
use timer::Timer;
use together::Together;
use volume::Volume;

/// No upstream can make units smaller than this.
const UNIT_BYTES_MIN: u32 = 4096;

/// A server that had room for so long and has none again is said to be full once more.
const FULL_SAID_AFTER: Span = Span::from_secs(600);

/// A scheduling domain on its worker.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) worker: Rc<Worker>,
    /// What it is called: as its volume, if it has one.
    name: String,
    pub(crate) clients: RefCell<Vec<Rc<Client>>>,
    devices: RefCell<BTreeMap<(ServerId, String), Kept>>,
    /// Present if the servers are the members of a volume.
    volume: Option<Volume>,
    /// What the engine asks for to look after the volume.
    steps: Steps,
    /// When a spread volume is let go of.
    leave: Leave,
    /// Members of the volume that were written to since their last beat: bit n for server n.
    changed: Cell<u64>,
    /// What was refused since something changed: each is told once.
    refused: RefCell<Vec<Refused>>,
    policy: RefCell<policy::Domain>,
    /// What of it holds otherwise, where other gates are before the same array.
    together: RefCell<Together>,
    /// What the largest payload of an upstream leaves of a server's units.
    unit_bytes_max: RefCell<BTreeMap<ServerId, u64>>,
    state: RefCell<State>,
    timer: Timer,
}

struct State {
    engine: Engine,
    ops: Slab<Op>,
    /// Units under way, by the engine's handle.
    units: Vec<Unit>,
    /// Units that ended since the engine was last told.
    ended: Vec<(u32, bool)>,
    /// Servers that had no room for a write since the engine was last told, those of which that is
    /// yet to be said, and when it last was the case.
    full: BTreeSet<ServerId>,
    full_news: BTreeSet<ServerId>,
    full_said_at: BTreeMap<ServerId, Nanos>,
    /// Links that were given something to send.
    links: Vec<Rc<Link>>,
    drive: Option<DomainDrive>,
    /// Where requests are recorded, if they are.
    lanes: Lanes,
    failures: Failures,
    clock: Clock,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "State({} requests)", self.ops.len())
    }
}

/// The engine's word for a command that is scheduled; `None` for one that is passed on.
fn kind_of(command: Command) -> Option<Kind> {
    Some(match command {
        Command::Read => Kind::Read,
        Command::Write => Kind::Write,
        Command::Flush => Kind::Flush,
        Command::Trim => Kind::Trim,
        Command::Cache => Kind::Cache,
        Command::WriteZeroes => Kind::WriteZeroes,
        Command::BlockStatus | Command::Disconnect | Command::Unknown(_) => return None,
    })
}

impl Domain {
    /// A domain with its policy, on this thread.
    pub(crate) fn new(worker: Rc<Worker>, name: &str, policy: policy::Domain) -> Rc<Self> {
        let engine = Engine::new(worker.clock.now(), &policy);
        let state = State {
            engine,
            ops: Slab::new(),
            units: Vec::new(),
            ended: Vec::new(),
            full: BTreeSet::new(),
            full_news: BTreeSet::new(),
            full_said_at: BTreeMap::new(),
            links: Vec::new(),
            drive: None,
            lanes: Lanes::default(),
            failures: Failures::default(),
            clock: worker.clock,
        };
        let domain = Rc::new(Self {
            worker,
            name: name.to_owned(),
            clients: RefCell::default(),
            devices: RefCell::default(),
            volume: (policy.tiers.is_some() || policy.spread.is_some()).then(Volume::new),
            steps: Steps::default(),
            leave: Leave::default(),
            refused: RefCell::default(),
            policy: RefCell::new(policy),
            together: RefCell::default(),
            unit_bytes_max: RefCell::default(),
            state: RefCell::new(state),
            changed: Cell::new(0),
            timer: Timer::default(),
        });
        timer::spawn(&domain);
        domain
    }

    /// Takes in a request whose payload is complete. Call [`Domain::pump`] after the batch.
    pub(crate) fn arrive(
        self: &Rc<Self>,
        client: &Rc<Client>,
        now: Nanos,
        request: Request,
        payload: Option<Arc<Buf>>,
    ) {
        let Some(kind) = kind_of(request.command) else {
            return status::ask(client, request, payload.as_deref());
        };
        let state = &mut *self.state.borrow_mut();
        let device = Rc::clone(&client.export.device);
        let origin = Origin::Client(Rc::clone(client));
        let mut op = Op::new(origin, device, request, kind, payload);
        op.recorded = self.recorded(&mut state.lanes, client, now);
        let offset = client.export.base_bytes + op.request.offset;
        let target = store::target(self.policy.borrow().cache, &op, offset);
        state.arrive(now, op, client.tenant.get(), (target, offset));
    }

    /// Takes data of a read from a device, where it begins at `offset`. `last` if nothing more
    /// comes for this unit.
    pub(crate) fn data(&self, unit: &Unit, offset: u64, data: Data<'_>, last: bool) {
        let state = &mut *self.state.borrow_mut();
        state.ops[unit.slot as usize].take(unit.at + (offset - unit.offset), data, last);
    }

    /// A device is done with a unit. Call [`Domain::pump`] after the batch.
    pub(crate) fn done(&self, unit: &Unit, result: Result<(), Errno>) {
        self.state.borrow_mut().done(unit, result);
    }

    /// Lets the engine decide until there is nothing left to do.
    pub(crate) fn pump(self: &Rc<Self>) {
        let clock = self.worker.clock;
        let mut state = self.state.borrow_mut();
        let mut now = clock.now();
        loop {
            let wait = match state.engine.poll(now) {
                Output::Submit(unit) => {
                    state.submit(self, unit);
                    continue;
                }
                Output::Finish { slot, ok } => {
                    let op = state.ops.remove(slot as usize);
                    state.record(now, &op, ok);
                    op.finish(ok);
                    continue;
                }
                Output::Move(step) => {
                    self.steps.ask(step);
                    continue;
                }
                Output::Zeroes { slot, at, length } => {
                    state.ops[slot as usize].take(at, Data::Zeroes(length), true);
                    continue;
                }
                Output::Refuse { slot, why } => {
                    self.refuse(&mut state.ops[slot as usize], why);
                    continue;
                }
                Output::WaitUntil(at) => Some(at),
                Output::Idle => None,
            };
            match state.settle(clock) {
                Some(later) => now = later,
                None => break self.timer.set(wait),
            }
        }
        for link in state.links.drain(..) {
            link.wake();
        }
        for server in state.take_news_of_full().into_iter().filter(|_| self.is_spread()) {
            let server = self.server_name(server);
            tracing::warn!(
                server,
                "a server of the volume has no room, whatever its slots say: new objects go to \
                 others, writes that need room there fail, and all else goes on"
            );
        }
    }

    /// Puts a new policy in force.
    pub(crate) fn apply(self: &Rc<Self>, policy: &policy::Domain) {
        self.policy.replace(policy.clone());
        self.enforce();
    }

    /// Cuts a server's units to what its upstream takes in one payload.
    pub(crate) fn bound_unit(self: &Rc<Self>, server: ServerId, payload_bytes: u32) {
        let bound = 1u64 << payload_bytes.max(UNIT_BYTES_MIN).ilog2();
        let known = self.unit_bytes_max.borrow().get(&server).copied();
        let unit_bytes = self.policy.borrow().servers[server.index()].1.unit_bytes;
        if bound < known.unwrap_or(unit_bytes) {
            self.unit_bytes_max.borrow_mut().insert(server, bound);
            self.enforce();
        }
    }

    fn enforce(self: &Rc<Self>) {
        let mut policy = self.policy.borrow().clone();
        self.together.borrow().apply(&mut policy);
        for (server, bound) in self.unit_bytes_max.borrow().iter() {
            let scheduling = &mut policy.servers[server.index()].1;
            scheduling.unit_bytes = scheduling.unit_bytes.min(*bound);
        }
        let now = self.worker.clock.now();
        self.state.borrow_mut().engine.handle(now, Input::Policy(&policy));
        self.pump();
    }

    /// What happened in a period at a server that other gates share; none if it is not shared.
    pub(crate) fn close_period(&self, server: ServerId, number: u64) -> Option<Summary> {
        let now = self.worker.clock.now();
        self.state.borrow_mut().engine.close_period(now, server, number)
    }

    /// Puts in force what was decided for a server that other gates share.
    pub(crate) fn decide(self: &Rc<Self>, server: ServerId, decision: &Decision) {
        let now = self.worker.clock.now();
        self.state.borrow_mut().engine.handle(now, Input::Decide { server, decision });
        self.pump();
    }

    /// A connection to this disk of a server was lost: for so long what changes this range may
    /// still be carried out.
    pub(crate) fn may_come_late(
        &self,
        (server, disk): (ServerId, u64),
        range: Range<u64>,
        late: Span,
    ) {
        let now = self.worker.clock.now();
        let input = Input::Late { server, disk, range, until: now + late };
        self.state.borrow_mut().engine.handle(now, input);
    }

    /// What holds of the room in the log at a server from now on.
    pub(crate) fn set_room(self: &Rc<Self>, server: ServerId, room: Room) {
        let now = self.worker.clock.now();
        self.state.borrow_mut().engine.handle(now, Input::Room { server, room });
        self.pump();
    }

    /// The cost of all that was ever served of each tenant.
    pub(crate) fn served(&self) -> Vec<(TenantId, Cost)> {
        self.state.borrow().engine.served()
    }

    /// Other gates served so much since this was told last.
    pub(crate) fn served_by_others(self: &Rc<Self>, costs: &[(TenantId, Cost)]) {
        let now = self.worker.clock.now();
        self.state.borrow_mut().engine.handle(now, Input::ServedByOthers(costs));
    }

    /// What it is called: the name of its backend, or of its group.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The volume, if the servers are the members of one.
    pub(crate) fn volume(&self) -> Option<&Volume> {
        self.volume.as_ref()
    }

    /// The accounts at this instant.
    pub(crate) fn report(&self) -> DomainReport {
        let mut report = self.state.borrow_mut().engine.report(self.worker.clock.now());
        self.name_disks(&mut report);
        report
    }

    /// What backends failed lately.
    pub(crate) fn failed_lately(&self) -> Vec<FailedLately> {
        self.state.borrow_mut().failures.lately(self.worker.clock.now())
    }

    /// Whoever asked for a flush hears with its answer of all losses up to now.
    pub(crate) fn report_losses(&self, unit: &Unit, losses: u64) {
        self.state.borrow().ops[unit.slot as usize].origin.heard().hear(unit.server, losses);
    }

    /// A unit is asked for again: what came of it before does not count.
    pub(crate) fn forget(&self, unit: &Unit) {
        self.state.borrow_mut().ops[unit.slot as usize].forget(unit);
    }

    /// Lets every client go once it has its answers.
    pub(crate) fn dismiss(&self) {
        for client in self.clients.borrow().iter() {
            if client.standing.get() == Standing::Open {
                client.standing.set(Standing::Leaving);
            }
            client.wake();
        }
    }

    /// Lets some clients go once they have their answers, or at once if it is late for that. How
    /// many are left.
    pub(crate) fn dismiss_some(&self, whom: impl Fn(&Client) -> bool, is_late: bool) -> usize {
        let clients = self.clients.borrow();
        let mut left = 0;
        for client in clients.iter().filter(|client| whom(client)) {
            left += 1;
            let standing = if is_late { Standing::Lost } else { Standing::Leaving };
            if ![standing, Standing::Lost].contains(&client.standing.get()) {
                client.standing.set(standing);
                client.wake();
            }
        }
        left
    }

    /// Whether anybody is connected.
    pub(crate) fn has_clients(&self) -> bool {
        !self.clients.borrow().is_empty()
    }

    /// Whether a client's request is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.state.borrow().ops.iter().any(|(_, op)| op.origin.client().is_some())
    }

    /// A client has left: what is queued for it will not be sent.
    pub(crate) fn leave(self: &Rc<Self>, client: &Rc<Client>) {
        self.clients.borrow_mut().retain(|other| !Rc::ptr_eq(other, client));
        let now = self.worker.clock.now();
        let mut state = self.state.borrow_mut();
        let slots: Vec<usize> = state
            .ops
            .iter()
            .filter(|(_, op)| op.origin.client().is_some_and(|own| Rc::ptr_eq(own, client)))
            .map(|(slot, _)| slot)
            .collect();
        for slot in slots {
            let slot = u32::try_from(slot).expect("slots are small");
            state.engine.handle(now, Input::Abandon { slot });
        }
        drop(state);
        self.pump();
    }

    /// Every request of a tenant's connection counts for the tenant that it has at arrival; a new
    /// policy may give the connection to another, or take its export from it.
    pub(crate) fn identify(&self, plan: &Plan) {
        for client in self.clients.borrow().iter() {
            let tenant = plan.tenant_of(&client.peer, &client.export.name);
            if tenant != client.tenant.get() {
                client.set_tenant(tenant);
            }
            if !client.may_stay(plan) {
                tracing::warn!(
                    export = client.export.name,
                    tenant = plan.tenant_name(tenant),
                    peer = ?client.peer.address,
                    "connection cut: by the new policy it may not open this export, or not write"
                );
                client.cut();
            }
        }
    }
}

impl State {
    /// Gives a request to the engine: what it is for, and where there in the device's addressing.
    fn arrive(&mut self, now: Nanos, op: Op, tenant: TenantId, (target, offset): (Target, u64)) {
        let Op { ref request, kind, .. } = op;
        let length = if kind == Kind::Flush { 0 } else { request.length };
        let keeps_room = request.flags.contains(CommandFlags::NO_HOLE);
        let disk = op.device.disk();
        let slot = u32::try_from(self.ops.insert(op)).expect("windows bound the requests");
        let request = evenkeel_engine::Request {
            slot,
            tenant,
            target,
            disk,
            kind,
            offset,
            length,
            keeps_room,
        };
        self.engine.handle(now, Input::Arrive(request));
    }

    fn submit(&mut self, domain: &Rc<Domain>, unit: Unit) {
        let index = unit.unit as usize;
        if self.units.len() <= index {
            self.units.resize(index + 1, unit);
        }
        self.units[index] = unit;
        perform::perform(self, domain, &unit);
    }

    fn done(&mut self, unit: &Unit, result: Result<(), Errno>) {
        match result {
            Ok(()) => self.ended.push((unit.unit, true)),
            Err(errno) => drop(self.failed(unit, errno, None)),
        }
    }

    /// A unit failed, for what reason the device may tell. Returns how many failed in the period
    /// before, if this is to be logged.
    fn failed(
        &mut self,
        unit: &Unit,
        errno: Errno,
        detail: Option<&dyn Fn() -> String>,
    ) -> Option<u64> {
        self.ended.push((unit.unit, false));
        if errno == Errno::NoSpace {
            self.full.insert(unit.server);
        }
        let op = &mut self.ops[unit.slot as usize];
        op.fail(errno);
        let tenant = op.origin.client()?.tenant.get();
        let failure = Failure { tenant, server: unit.server, errno, detail };
        self.failures.note(self.clock.now(), &failure)
    }

    /// The servers that have had no room since this was last asked, and of which that was not said
    /// lately.
    fn take_news_of_full(&mut self) -> Vec<ServerId> {
        let now = self.clock.now();
        let said_at = &mut self.full_said_at;
        let is_news = |server: &ServerId| {
            said_at.insert(*server, now).is_none_or(|at| now.since(at) > FULL_SAID_AFTER)
        };
        std::mem::take(&mut self.full_news).into_iter().filter(is_news).collect()
    }

    /// Tells the engine what ended; returns the time at which it did, or none if nothing ended.
    fn settle(&mut self, clock: Clock) -> Option<Nanos> {
        drive::reap(self);
        if self.ended.is_empty() {
            return None;
        }
        let now = clock.now();
        for (unit, ok) in self.ended.drain(..) {
            self.engine.handle(now, Input::Done { unit, ok });
        }
        for server in std::mem::take(&mut self.full) {
            self.engine.handle(now, Input::Full { server });
            self.full_news.insert(server);
        }
        Some(now)
    }
}
