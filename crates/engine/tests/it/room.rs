//! Writes that wait for room in a log, in an engine: they hold nobody else up, and what room there
//! is goes by shares.

use std::collections::BTreeMap;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_engine::policy::{Depth, Domain, Mode, Scheduling};
use evenkeel_engine::{Engine, Input, Output, Request, Room, Target, Unit};

const DEPTH: u32 = 4;
const HEAVY: TenantId = TenantId(0);
const LIGHT: TenantId = TenantId(1);
const READER: TenantId = TenantId(2);
const UPKEEP: TenantId = TenantId(3);

/// A store that does nothing by itself.
struct Store {
    engine: Engine,
    requests: u32,
    /// What is with it, by request.
    present: BTreeMap<u32, (TenantId, Unit)>,
    tenants: BTreeMap<u32, TenantId>,
}

impl Store {
    fn new(mode: Mode) -> Self {
        let tenant = |weight_milli| Share { weight_milli, ..Share::default() };
        let scheduling = Scheduling { depth: Depth::Requests(DEPTH), ..Scheduling::default() };
        let named = |name: &str, weight| (name.to_owned(), tenant(weight));
        let domain = Domain {
            mode,
            tenants: vec![
                named("heavy", 3000),
                named("light", 1000),
                named("reader", 1000),
                named("upkeep", 1000),
            ],
            servers: vec![("log".to_owned(), scheduling)],
            ..Domain::default()
        };
        let engine = Engine::new(Nanos::ZERO, &domain);
        Self { engine, requests: 0, present: BTreeMap::new(), tenants: BTreeMap::new() }
    }

    fn room(&mut self, is_short: bool) {
        let room = Room { is_short, maker: Some(UPKEEP) };
        self.engine.handle(Nanos::ZERO, Input::Room { server: ServerId(0), room });
        self.drain();
    }

    fn ask(&mut self, tenant: TenantId, kind: Kind, times: u32) {
        for _ in 0..times {
            let slot = self.requests;
            self.requests += 1;
            self.tenants.insert(slot, tenant);
            let target = Target::Server(ServerId(0));
            let (offset, length) = (u64::from(slot) << 12, 4096);
            let request =
                Request { slot, tenant, target, disk: 0, kind, offset, length, keeps_room: false };
            self.engine.handle(Nanos::ZERO, Input::Arrive(request));
        }
        self.drain();
    }

    /// The oldest of a tenant that is with the store is done.
    fn answer(&mut self, tenant: TenantId) {
        let oldest = self.present.iter().find(|(_, (owner, _))| *owner == tenant);
        let (&slot, &(_, unit)) = oldest.expect("something of this tenant is there");
        self.present.remove(&slot);
        self.engine.handle(Nanos::ZERO, Input::Done { unit: unit.unit, ok: true });
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll(Nanos::ZERO) {
                Output::Submit(unit) => {
                    self.present.insert(unit.slot, (self.tenants[&unit.slot], unit));
                }
                Output::Finish { .. } => {}
                _ => return,
            }
        }
    }

    fn count(&self, tenant: TenantId) -> u32 {
        u32::try_from(self.present.values().filter(|(owner, _)| *owner == tenant).count()).unwrap()
    }
}

#[test]
fn reads_go_on_while_writes_wait_for_room() {
    let mut store = Store::new(Mode::Enforce);
    store.room(false);
    store.ask(HEAVY, Kind::Write, 100);
    assert_eq!(store.count(HEAVY), DEPTH);
    store.ask(READER, Kind::Read, 10);
    assert_eq!(store.count(READER), 0, "all places are taken, and writes end soon");

    store.room(true);
    assert_eq!(store.count(READER), DEPTH, "the writes have given their places back");
    assert_eq!(store.count(HEAVY), 2 * DEPTH, "as many as before, and those that go first");
    for _ in 0..6 {
        store.answer(READER);
    }
    assert_eq!((store.count(READER), store.count(HEAVY)), (DEPTH, 2 * DEPTH));
}

#[test]
fn whoever_makes_the_room_is_not_kept_back_with_those_who_wait_for_it() {
    let mut store = Store::new(Mode::Enforce);
    store.room(true);
    store.ask(HEAVY, Kind::Write, 100);
    store.ask(UPKEEP, Kind::Write, 100);
    assert_eq!((store.count(HEAVY), store.count(UPKEEP)), (DEPTH, DEPTH));
}

#[test]
fn room_is_shared_by_weight_and_those_who_come_late_stand_behind_nobody_elses_hundred() {
    let mut store = Store::new(Mode::Enforce);
    store.room(true);
    store.ask(HEAVY, Kind::Write, 400);
    store.ask(LIGHT, Kind::Write, 100);
    let mut got = [0_u32; 2];
    for _ in 0..200 {
        let first = *store.present.first_key_value().expect("writes are there").1;
        store.answer(first.0);
        got[first.0.index()] += 1;
        assert!(store.present.len() <= DEPTH as usize);
    }
    assert!(got[1].abs_diff(50) <= 2 * DEPTH, "three to one: {got:?}");
}

#[test]
fn everything_is_served_once_room_is_there_again() {
    let mut store = Store::new(Mode::Enforce);
    store.room(false);
    store.ask(HEAVY, Kind::Write, 50);
    for round in 0..60 {
        store.room(round % 2 == 0);
        store.ask(LIGHT, Kind::Trim, 1);
        let first = store.present.first_key_value().map(|(_, (tenant, _))| *tenant);
        store.answer(first.expect("the store is never idle"));
        assert!(store.present.len() <= 3 * DEPTH as usize);
    }
    store.room(false);
    while let Some((_, &(tenant, _))) = store.present.first_key_value() {
        store.answer(tenant);
    }
    let report = store.engine.report(Nanos::ZERO);
    assert!(report.tenants.iter().all(|tenant| tenant.in_flight == 0));
    assert_eq!(report.servers[0].queued, 0);
    store.ask(HEAVY, Kind::Write, 50);
    assert_eq!(store.count(HEAVY), DEPTH, "places are held as before");
}

#[test]
fn nothing_is_kept_back_where_nothing_is_scheduled() {
    let mut store = Store::new(Mode::Observe);
    store.room(true);
    store.ask(HEAVY, Kind::Write, 100);
    assert_eq!(store.count(HEAVY), 100);
}
