//! Requests before a server that may still carry out what it had read from a lost connection.

use std::collections::BTreeMap;
use std::ops::Range;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{Depth, Domain, Mode, Scheduling};
use evenkeel_engine::{Engine, Input, Output, Request, Target, Unit};

const SERVER: ServerId = ServerId(0);
const DISK: u64 = 7;
const UNTIL: Nanos = Nanos(30_000_000_000);

/// A server to which two units go at a time, each of 64 KiB at most.
struct Server {
    engine: Engine,
    now: Nanos,
    requests: u32,
    /// What is with it, by request.
    present: BTreeMap<u32, Unit>,
    finished: Vec<(u32, bool)>,
    wake_at: Option<Nanos>,
}

impl Server {
    fn new() -> Self {
        let scheduling =
            Scheduling { depth: Depth::Requests(2), unit_bytes: 64 << 10, ..Scheduling::default() };
        let domain = Domain {
            mode: Mode::Enforce,
            tenants: vec![("one".into(), Share::default()), ("two".into(), Share::default())],
            servers: vec![("disk".into(), scheduling)],
            ..Domain::default()
        };
        let engine = Engine::new(Nanos::ZERO, &domain);
        let (present, finished) = (BTreeMap::new(), Vec::new());
        Self { engine, now: Nanos::ZERO, requests: 0, present, finished, wake_at: None }
    }

    /// A request of a tenant; returns its slot.
    fn ask(&mut self, tenant: u32, disk: u64, kind: Kind, range: Range<u64>) -> u32 {
        let slot = self.requests;
        self.requests += 1;
        self.engine.handle(
            self.now,
            Input::Arrive(Request {
                slot,
                tenant: TenantId(tenant),
                target: Target::Server(SERVER),
                disk,
                kind,
                offset: range.start,
                length: range.end - range.start,
                keeps_room: false,
            }),
        );
        self.drain();
        slot
    }

    /// The connection is lost while this is unanswered.
    fn lose(&mut self, range: Range<u64>) {
        let input = Input::Late { server: SERVER, disk: DISK, range, until: UNTIL };
        self.engine.handle(self.now, input);
        self.drain();
    }

    fn answer(&mut self, slot: u32) {
        let unit = self.present.remove(&slot).expect("it is with the server");
        self.engine.handle(self.now, Input::Done { unit: unit.unit, ok: true });
        self.drain();
    }

    fn pass(&mut self, until: Nanos) {
        self.now = until;
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll(self.now) {
                Output::Submit(unit) => drop(self.present.insert(unit.slot, unit)),
                Output::Finish { slot, ok } => self.finished.push((slot, ok)),
                Output::WaitUntil(at) => return self.wake_at = Some(at),
                Output::Idle => return self.wake_at = None,
                other => panic!("no volume, yet {other:?}"),
            }
        }
    }

    /// What is with the server, by request: offset and length.
    fn there(&self) -> Vec<(u32, u64, u64)> {
        let part = |(slot, unit): (&u32, &Unit)| (*slot, unit.offset, unit.length);
        self.present.iter().map(part).collect()
    }
}

#[test]
fn a_newer_write_to_bytes_in_doubt_waits_and_nothing_else_does() {
    let mut server = Server::new();
    let lost = server.ask(0, DISK, Kind::Write, 4096..8192);
    server.lose(4096..8192);
    server.answer(lost);
    let newer = server.ask(0, DISK, Kind::Write, 4096..8192);
    assert_eq!(server.there(), [], "also after the lost one was sent again and answered");
    for (disk, kind, range) in [
        (DISK, Kind::Read, 4096..8192),
        (DISK, Kind::Flush, 0..0),
        (DISK, Kind::Write, 0..4096),
        (DISK, Kind::Trim, 8192..12288),
        (DISK + 1, Kind::Write, 4096..8192),
    ] {
        let other = server.ask(1, disk, kind, range);
        assert_eq!(server.there().len(), 1, "{kind:?}");
        server.answer(other);
    }
    assert_eq!(server.wake_at, Some(UNTIL));
    server.pass(Nanos(UNTIL.0 - 1));
    assert_eq!(server.there(), []);
    server.pass(UNTIL);
    assert_eq!(server.there(), [(newer, 4096, 4096)]);
}

#[test]
fn a_write_goes_as_far_as_the_bytes_in_doubt() {
    let mut server = Server::new();
    server.lose(8192..12288);
    let across = server.ask(0, DISK, Kind::WriteZeroes, 0..16384);
    assert_eq!(server.there(), [(across, 0, 8192)]);
    server.answer(across);
    assert_eq!((server.there(), &server.finished[..]), (vec![], &[][..]));
    server.pass(UNTIL);
    assert_eq!(server.there(), [(across, 8192, 8192)]);
    server.answer(across);
    assert_eq!(server.finished, [(across, true)]);
}

#[test]
fn what_was_queued_when_the_connection_was_lost_waits_too_and_keeps_nobody_from_the_server() {
    let mut server = Server::new();
    let sent = [0, 1].map(|at| server.ask(0, DISK, Kind::Write, at * 4096..(at + 1) * 4096));
    let newer = server.ask(0, DISK, Kind::Write, 0..4096);
    let others = server.ask(1, DISK, Kind::Write, 40960..45056);
    assert_eq!(server.there().len(), 2, "the server takes two at a time");
    server.lose(0..4096);
    server.lose(4096..8192);
    for slot in sent {
        server.answer(slot);
    }
    assert_eq!(server.there(), [(others, 40960, 4096)]);
    server.pass(UNTIL);
    assert_eq!(server.there().len(), 2);
    server.answer(newer);
}

#[test]
fn who_leaves_meanwhile_is_not_waited_for() {
    let mut server = Server::new();
    server.lose(0..4096);
    let gone = server.ask(0, DISK, Kind::Write, 0..4096);
    let stays = server.ask(1, DISK, Kind::Write, 0..4096);
    server.engine.handle(server.now, Input::Abandon { slot: gone });
    server.drain();
    assert_eq!(server.finished, [(gone, false)]);
    server.pass(UNTIL);
    assert_eq!(server.there(), [(stays, 0, 4096)]);
}

#[test]
fn a_span_of_nothing_waits_for_nothing() {
    let mut server = Server::new();
    server.pass(Nanos::ZERO + Span::from_secs(1));
    let input = Input::Late { server: SERVER, disk: DISK, range: 0..4096, until: server.now };
    server.engine.handle(server.now, input);
    let newer = server.ask(0, DISK, Kind::Write, 0..4096);
    assert_eq!(server.there(), [(newer, 0, 4096)]);
}
