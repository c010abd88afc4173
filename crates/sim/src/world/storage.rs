//! The storage: one server for each backend, with its device, the link to it, and its checkers.

use evenkeel_core::id::ServerId;
use evenkeel_core::ticket::{Cost, Kind};
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::Unit;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy;

use super::World;
use super::tables::{Call, Place};
use crate::checkers::{Bounds, Fairness, Lag, Limits, Patience, Rule, Verdict, broken};
use crate::device::{Device, Op, Outcome, Step};
use crate::events::Event;
use crate::faults::Faulty;
use crate::link::{Link, Way};
use crate::result::BackendInterval;

/// Bytes of a request beside its payload, as NBD frames it.
pub(super) const REQUEST_BYTES: u64 = 28;
/// Bytes of a reply beside its payload.
const REPLY_BYTES: u64 = 16;

/// One backend.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) domain: u32,
    /// Its id in its domain.
    pub(super) id: ServerId,
    pub(super) fairness: Option<Fairness>,
    pub(super) limits: Option<Limits>,
    pub(super) patience: Option<Patience>,
    /// The worst lag before the gate was last restarted.
    lag_before: Option<Lag>,
    pub(super) bounds: Bounds,
    device: Medium,
    link: Link,
    is_instant: bool,
    /// When its device asked to be polled.
    wake_at: Option<Nanos>,
    is_stirred: bool,
    cost: CostModel,
    is_cost_learned: bool,
    /// The cost computed last: most units are of one size.
    last_cost: (Kind, u64, Cost),
    pub(super) tally: Tally,
    measured: std::ops::Range<Nanos>,
}

/// A device, with faults or without.
pub(super) enum Medium {
    Sound(Box<dyn Device>),
    Faulty(Faulty),
}

/// What a server did in the measured time.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) units: u64,
    pub(super) bytes: u64,
    pub(super) failed_units: u64,
    in_service: u32,
    pub(super) in_service_max: u32,
    changed: Nanos,
    pub(super) busy_ns: u64,
    /// Integral of the units in service.
    pub(super) unit_ns: u128,
    pub(super) series: Vec<BackendInterval>,
    /// Units and busy time up to the last entry of the series.
    closed: (u64, u64),
}

impl Medium {
    fn submit(&mut self, now: Nanos, op: Op) {
        match self {
            Self::Sound(device) => device.submit(now, op),
            Self::Faulty(device) => device.submit(now, op),
        }
    }

    fn poll(&mut self, now: Nanos) -> Step {
        match self {
            Self::Sound(device) => device.poll(now),
            Self::Faulty(device) => device.poll(now),
        }
    }

    fn size_bytes(&self) -> u64 {
        match self {
            Self::Sound(device) => device.size_bytes(),
            Self::Faulty(device) => device.size_bytes(),
        }
    }
}

impl Server {
    /// A server that has done nothing, at this place of a domain.
    pub(super) fn new(
        name: String,
        device: Medium,
        link: Link,
        (domain, id, policy): (u32, ServerId, &policy::Domain),
        measured: std::ops::Range<Nanos>,
    ) -> Self {
        let scheduling = &policy.servers[id.index()].1;
        let is_instant = link.is_instant();
        Self {
            name,
            domain,
            id,
            fairness: Fairness::new(policy, scheduling),
            limits: Limits::new(policy, scheduling),
            patience: Patience::of(Nanos::ZERO, policy, scheduling),
            lag_before: None,
            bounds: Bounds::new(policy.mode, scheduling),
            device,
            link,
            is_instant,
            wake_at: None,
            is_stirred: false,
            cost: scheduling.cost,
            is_cost_learned: scheduling.is_cost_learned,
            last_cost: (Kind::Flush, 0, scheduling.cost.cost(Kind::Flush, 0)),
            tally: Tally::default(),
            measured,
        }
    }

    /// How many bytes its device holds.
    pub(super) fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    /// What a unit costs: by the policy's model, or where costs are learned by the engine's word.
    pub(super) fn cost(&mut self, unit: &Unit) -> Cost {
        if self.is_cost_learned {
            return unit.cost;
        }
        let Unit { kind, length, .. } = *unit;
        if (self.last_cost.0, self.last_cost.1) != (kind, length) {
            self.last_cost = (kind, length, self.cost.cost(kind, length));
        }
        self.last_cost.2
    }

    /// A unit goes into service.
    pub(super) fn enter(&mut self, now: Nanos, length: u64, has_left: u64) -> Verdict {
        self.tally.advance(now, &self.measured);
        self.tally.in_service += 1;
        if self.measured.contains(&now) {
            self.tally.in_service_max = self.tally.in_service_max.max(self.tally.in_service);
        }
        self.bounds.enter(now, length, has_left)
    }

    /// A unit comes back.
    pub(super) fn leave(&mut self, now: Nanos, call: &Call, is_measured: bool) {
        self.tally.advance(now, &self.measured);
        self.tally.in_service -= 1;
        self.bounds.leave(call.length);
        if is_measured {
            self.tally.units += 1;
            self.tally.failed_units += u64::from(!call.ok);
            self.tally.bytes += if call.ok { call.length } else { 0 };
        }
    }

    /// The gate has died: whatever is with the device is nobody's.
    pub(super) fn forget(&mut self, now: Nanos) {
        self.tally.advance(now, &self.measured);
        self.tally.in_service = 0;
        self.lag_before = self.worst_lag();
        self.fairness = None;
        self.limits = None;
        self.patience = None;
    }

    /// The gate is back.
    pub(super) fn watch(&mut self, now: Nanos, policy: &policy::Domain) {
        let scheduling = &policy.servers[self.id.index()].1;
        self.bounds = Bounds::new(policy.mode, scheduling);
        self.fairness = Fairness::new(policy, scheduling);
        self.limits = Limits::new(policy, scheduling);
        self.patience = Patience::of(now, policy, scheduling);
    }

    /// Another policy comes into force, with units in service.
    pub(super) fn change_policy(&mut self, now: Nanos, policy: &policy::Domain) {
        let scheduling = &policy.servers[self.id.index()].1;
        self.cost = scheduling.cost;
        self.is_cost_learned = scheduling.is_cost_learned;
        self.last_cost = (Kind::Flush, 0, scheduling.cost.cost(Kind::Flush, 0));
        self.bounds.configure(policy.mode, scheduling);
        self.lag_before = self.worst_lag();
        let before = self.fairness.take();
        self.fairness = Fairness::new(policy, scheduling);
        if let (Some(fairness), Some(before)) = (&mut self.fairness, &before) {
            fairness.follow(before);
        }
        self.limits = Limits::new(policy, scheduling);
        self.patience = Patience::of(now, policy, scheduling);
    }

    /// The worst lag so far, relative to its bound.
    pub(super) fn worst_lag(&self) -> Option<Lag> {
        let now = self.fairness.as_ref().and_then(Fairness::worst);
        let lags = self.lag_before.into_iter().chain(now);
        lags.max_by(|one, other| one.part().total_cmp(&other.part()))
    }

    /// Holds the worst lag against its bound.
    pub(super) fn check_lag(&self, now: Nanos) -> Verdict {
        self.fairness.as_ref().map_or(Ok(()), |fairness| fairness.check(now))
    }

    /// Writes and flushes acknowledged without having been performed, and their bytes.
    pub(super) fn lies(&self) -> (u64, u64) {
        match &self.device {
            Medium::Sound(_) => (0, 0),
            Medium::Faulty(device) => device.lies(),
        }
    }
}

impl Tally {
    /// An interval of this length ends now.
    pub(super) fn close_interval(
        &mut self,
        now: Nanos,
        measured: &std::ops::Range<Nanos>,
        length: Span,
    ) {
        self.advance(now, measured);
        let (units, busy_ns) = self.closed;
        let busy = (self.busy_ns - busy_ns) as f64 / length.0.max(1) as f64;
        self.series.push(BackendInterval { units: self.units - units, busy });
        self.closed = (self.units, self.busy_ns);
    }

    /// Brings the integrals up to now.
    pub(super) fn advance(&mut self, now: Nanos, measured: &std::ops::Range<Nanos>) {
        let from = self.changed.max(measured.start);
        let elapsed_ns = now.min(measured.end).since(from).0;
        self.changed = now;
        if self.in_service > 0 {
            self.busy_ns += elapsed_ns;
            self.unit_ns += u128::from(elapsed_ns) * u128::from(self.in_service);
        }
    }
}

impl World<'_> {
    /// A call goes out on the link to its device.
    pub(super) fn send_call(&mut self, handle: u32) {
        let call = &self.calls[handle];
        let server = &mut self.servers[call.server as usize];
        if server.is_instant {
            return self.submit(handle);
        }
        let payload = if call.kind == Kind::Write { call.length } else { 0 };
        let at = server.link.carry(self.now, Way::Out, REQUEST_BYTES + payload);
        self.events.push(at, Event::Submit(handle));
    }

    /// A call reaches its device.
    pub(super) fn submit(&mut self, handle: u32) {
        let call = &mut self.calls[handle];
        call.place = Place::Device;
        let Call { kind, offset, length, server, .. } = *call;
        let device = &mut self.servers[server as usize].device;
        device.submit(self.now, Op { tag: handle, kind, offset, length });
        self.stir_server(server);
    }

    fn stir_server(&mut self, server: u32) {
        let one = &mut self.servers[server as usize];
        if !one.is_stirred {
            one.is_stirred = true;
            self.stirred.push_back(server);
        }
    }

    /// A device's wake-up is due, if it still wants it.
    pub(super) fn wake_server(&mut self, server: u32) {
        let now = self.now;
        if self.servers[server as usize].wake_at.take_if(|at| *at <= now).is_some() {
            self.stir_server(server);
        }
    }

    /// Takes in whatever a device has done.
    pub(super) fn poll_server(&mut self, index: u32) -> Verdict {
        let now = self.now;
        self.servers[index as usize].is_stirred = false;
        loop {
            let server = &mut self.servers[index as usize];
            match server.device.poll(now) {
                Step::Done { tag, outcome } => self.done(index, tag, outcome)?,
                Step::Idle => {
                    server.wake_at = None;
                    return Ok(());
                }
                Step::WaitUntil(at) => {
                    if at <= now {
                        let what = format!("{:?} asked to be woken at {} ns", server.name, at.0);
                        return Err(broken(now, Rule::TimeIsMonotone, what));
                    }
                    if server.wake_at.replace(at) != Some(at) {
                        self.events.push(at, Event::Device(index));
                    }
                    return Ok(());
                }
            }
        }
    }

    /// A device has done a call; the answer goes back.
    fn done(&mut self, index: u32, tag: u32, outcome: Outcome) -> Verdict {
        let now = self.now;
        let is_known = self.calls.entries().get(tag as usize);
        if is_known.is_none_or(|call| call.place != Place::Device || call.server != index) {
            let name = &self.servers[index as usize].name;
            let what = format!("{name:?} answered request {tag}, which it did not have");
            return Err(broken(now, Rule::NothingIsLostOrDoubled, what));
        }
        let call = &mut self.calls[tag];
        call.place = Place::OnTheWayBack;
        call.ok = outcome == Outcome::Good;
        let payload = if call.kind == Kind::Read && call.ok { call.length } else { 0 };
        let server = &mut self.servers[index as usize];
        if server.is_instant {
            return self.answer(tag);
        }
        let at = server.link.carry(now, Way::Back, REPLY_BYTES + payload);
        self.events.push(at, Event::Answer(tag));
        Ok(())
    }
}
