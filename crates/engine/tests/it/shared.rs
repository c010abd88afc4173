//! A server that other gates share: the engine counts for them, and does what was decided.

use evenkeel_core::control::Decision;
use evenkeel_core::control::name::TenantNumber;
use evenkeel_core::control::order::Order;
use evenkeel_core::control::summary::{FlowSummary, HostId};
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::{Limit, Share};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{Control, Depth, Discipline, Domain, Method, Mode, Scheduling};
use evenkeel_engine::{Engine, Input, Output, Request, Target};

const SERVER: ServerId = ServerId(0);

fn domain(mode: Mode, discipline: Discipline) -> Domain {
    let (depth, control) = (Depth::Requests(2), Control::By(Method::Slack));
    let scheduling = Scheduling { discipline, depth, control, ..Scheduling::default() };
    let promised = Share { latency_goal: Span::from_millis(20), ..Share::default() };
    Domain {
        mode,
        tenants: vec![("rest".into(), Share::default()), ("strict".into(), promised)],
        servers: vec![("array".into(), scheduling)],
        host: HostId(7),
        ..Domain::default()
    }
}

fn arrive(engine: &mut Engine, now: Nanos, slot: u32, tenant: u32) {
    let (tenant, target) = (TenantId(tenant), Target::Server(SERVER));
    let (kind, keeps_room) = (Kind::Read, false);
    let request =
        Request { slot, tenant, target, disk: 0, kind, offset: 0, length: 4096, keeps_room };
    engine.handle(now, Input::Arrive(request));
}

/// Slots and units that go now.
fn submitted(engine: &mut Engine, now: Nanos) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    loop {
        match engine.poll(now) {
            Output::Submit(unit) => all.push((unit.slot, unit.unit)),
            Output::Finish { .. }
            | Output::Move(_)
            | Output::Zeroes { .. }
            | Output::Refuse { .. } => {}
            Output::WaitUntil(_) | Output::Idle => return all,
        }
    }
}

fn decide(engine: &mut Engine, now: Nanos, slots: u32) {
    let order = Order::Deadline { device: Span::from_millis(1), patience_milli: 500 };
    let decision = Decision { slots, order, slots_all: 8, unmet: Vec::new(), division: None };
    engine.handle(now, Input::Decide { server: SERVER, decision: &decision });
}

#[test]
fn slots_are_as_decided_and_the_others_hear_what_happened() {
    let now = Nanos(1_000_000);
    let mut engine = Engine::new(Nanos(0), &domain(Mode::Enforce, Discipline::Shared));
    (0..5).for_each(|slot| arrive(&mut engine, now, slot, 0));
    arrive(&mut engine, now, 5, 1);
    let first = submitted(&mut engine, now);
    assert_eq!(first.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [0, 1], "its first slots");
    decide(&mut engine, now, 4);
    let more = submitted(&mut engine, now);
    assert_eq!(more.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [5, 2], "by deadline");
    assert_eq!(engine.report(now).servers[0].depth, 4);

    let later = now + Span::from_millis(10);
    engine.handle(later, Input::Done { unit: first[0].1, ok: true });
    assert_eq!(submitted(&mut engine, later).len(), 1);
    let summary = engine.close_period(later, SERVER, 42).unwrap();
    assert_eq!((summary.host, summary.period), (HostId(7), 42));
    let [rest, strict] = ["rest", "strict"].map(|name| {
        let number = TenantNumber::named(name);
        *summary.flows.iter().find(|flow| flow.tenant == number).expect("it is reported")
    });
    let counts =
        |flow: FlowSummary| (flow.arrivals, flow.completions, flow.outstanding, flow.queued);
    assert_eq!([rest, strict].map(counts), [(5, 1, 3, 1), (1, 0, 1, 0)]);
    assert!(strict.target.is_some() && rest.target.is_none());
}

#[test]
fn without_enforcing_the_gate_counts_and_holds_nothing() {
    for mode in [Mode::Observe, Mode::Shadow] {
        let mut engine = Engine::new(Nanos(0), &domain(mode, Discipline::Shared));
        decide(&mut engine, Nanos(0), 1);
        (0..9).for_each(|slot| arrive(&mut engine, Nanos(5), slot, 0));
        assert_eq!(submitted(&mut engine, Nanos(5)).len(), 9);
        let summary = engine.close_period(Nanos(10), SERVER, 1).unwrap();
        assert_eq!(summary.flows[0].outstanding, 9);
    }
}

#[test]
fn what_waits_survives_a_change_of_the_discipline_and_back() {
    let mut engine = Engine::new(Nanos(0), &domain(Mode::Enforce, Discipline::Shared));
    (0..6).for_each(|slot| arrive(&mut engine, Nanos(5), slot, slot % 2));
    let mut under_way = submitted(&mut engine, Nanos(5));
    engine.handle(Nanos(6), Input::Policy(&domain(Mode::Enforce, Discipline::Sfq)));
    assert!(engine.close_period(Nanos(6), SERVER, 1).is_none(), "it is not shared now");
    decide(&mut engine, Nanos(6), 9);
    under_way.extend(submitted(&mut engine, Nanos(6)));
    engine.handle(Nanos(7), Input::Abandon { slot: 5 });
    engine.handle(Nanos(8), Input::Policy(&domain(Mode::Enforce, Discipline::Shared)));
    let mut done = 0;
    while let Some((_, unit)) = under_way.pop() {
        engine.handle(Nanos(9), Input::Done { unit, ok: true });
        under_way.extend(submitted(&mut engine, Nanos(9)));
        done += 1;
    }
    assert_eq!(done, 5);
    let summary = engine.close_period(Nanos(20), SERVER, 2).unwrap();
    assert!(summary.flows.iter().all(|flow| flow.outstanding == 0 && flow.queued == 0));
}

#[test]
fn a_limit_of_its_own_is_no_part_of_the_response_time() {
    for method in [Method::Slack, Method::Shares] {
        let mut domain = domain(Mode::Enforce, Discipline::Shared);
        domain.servers[0].1.control = Control::By(method);
        domain.tenants[1].1.limit = Limit { rate_iops: 10, burst_requests: 1, ..Limit::default() };
        let mut engine = Engine::new(Nanos(0), &domain);
        (0..2).for_each(|slot| arrive(&mut engine, Nanos(0), slot, 1));
        let first = submitted(&mut engine, Nanos(0));
        engine.handle(Nanos(1_000_000), Input::Done { unit: first[0].1, ok: true });
        let due = Nanos(100_000_000);
        let second = submitted(&mut engine, due);
        engine.handle(due + Span::from_millis(1), Input::Done { unit: second[0].1, ok: true });
        let summary = engine.close_period(due + Span::from_millis(2), SERVER, 1).unwrap();
        let flow = summary.flows[0];
        assert_eq!((flow.completions, flow.late), (2, 0), "{method:?}");
        assert_eq!(flow.response_time, Span::from_millis(2), "{method:?}");
    }
}
