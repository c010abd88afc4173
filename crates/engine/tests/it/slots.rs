//! Whose the slots of a depth are: exports of one server of which some are slow, or do not answer.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Control, Depth, Discipline, Domain, Method, Mode, Scheduling};
use evenkeel_engine::report::{Culprit, DomainReport};
use evenkeel_engine::{Engine, Input, Output, Request, Target};

/// How an export serves.
#[derive(Clone, Copy, Debug)]
enum Disk {
    /// Each request takes so long, whatever else is there.
    Beside(Span),
    /// One request after another with all other exports of this kind, each so long.
    Queued(Span),
    /// Never.
    Hangs,
    /// In each period not at all at first, for so long, and then after that time.
    Stalls { period: Span, length: Span, time: Span },
}

/// A client of a tenant of its own, at an export of its own.
#[derive(Clone, Copy, Debug)]
struct Client {
    weight: u32,
    outstanding: u32,
    think: Span,
    disk: Disk,
    length: u64,
    /// It works from then on, and until then.
    works: (Nanos, Nanos),
}

const ALWAYS: (Nanos, Nanos) = (Nanos::ZERO, Nanos(u64::MAX));
const QUICK: Disk = Disk::Beside(Span::from_millis(1));
const SLOW: Disk = Disk::Beside(Span::from_millis(500));

/// Stalls for so many of each so many milliseconds, and is quick in between.
fn stalls(length: u64, period: u64, time_micros: u64) -> Disk {
    let [period, length] = [period, length].map(Span::from_millis);
    Disk::Stalls { period, length, time: Span::from_micros(time_micros) }
}

fn client(weight: u32, outstanding: u32, disk: Disk) -> Client {
    let think = Span::from_micros(20);
    Client { weight, outstanding, think, disk, length: 4096, works: ALWAYS }
}

/// When somebody works, in seconds.
fn at(from: u64, until: u64) -> (Nanos, Nanos) {
    (seconds(from), seconds(until))
}

fn seconds(n: u64) -> Nanos {
    Nanos::ZERO + Span::from_secs(n)
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Send {
        client: usize,
    },
    Done {
        unit: u32,
    },
    /// The queue of those that serve one after another goes on.
    Next,
}

/// One server with these clients, in virtual time.
struct Scene {
    engine: Engine,
    clients: Vec<Client>,
    now: Nanos,
    events: BTreeMap<(Nanos, u64), Event>,
    sequence: u64,
    wake_at: Option<Nanos>,
    queue: VecDeque<(u32, Span)>,
    /// Who sent the request of a slot, and when; free slots.
    slots: Vec<(usize, Nanos)>,
    free: Vec<u32>,
    /// Units with the server, and the most that ever were.
    with_server: usize,
    most_with_server: usize,
    /// By client: latencies of this run.
    latencies: Vec<Vec<Span>>,
}

fn domain(depth: Depth, clients: &[Client]) -> Domain {
    let scheduling = Scheduling {
        discipline: Discipline::Sfq,
        depth,
        cost: CostModel::PerRequest,
        ..Scheduling::default()
    };
    let share = |client: &Client| Share { weight_milli: client.weight * 1000, ..Share::default() };
    Domain {
        mode: Mode::Enforce,
        tenants: (0..).zip(clients).map(|(i, c): (u32, _)| (format!("t{i}"), share(c))).collect(),
        servers: vec![("server".to_owned(), scheduling)],
        ..Domain::default()
    }
}

impl Scene {
    fn new(depth: u32, clients: &[Client]) -> Self {
        let mut scene = Self {
            engine: Engine::new(Nanos::ZERO, &domain(Depth::Requests(depth), clients)),
            clients: clients.to_vec(),
            now: Nanos::ZERO,
            events: BTreeMap::new(),
            sequence: 0,
            wake_at: None,
            queue: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
            with_server: 0,
            most_with_server: 0,
            latencies: vec![Vec::new(); clients.len()],
        };
        for (client, terms) in clients.iter().enumerate() {
            for _ in 0..terms.outstanding {
                scene.after(terms.works.0.since(Nanos::ZERO), Event::Send { client });
            }
        }
        scene
    }

    /// Runs until then; answers per second of each client meanwhile.
    fn run(&mut self, until: Nanos) -> Vec<f64> {
        let length = until.since(self.now);
        self.latencies.iter_mut().for_each(Vec::clear);
        let next = |scene: &Self| {
            let event_at = scene.events.keys().next().map(|(at, _)| *at);
            event_at.into_iter().chain(scene.wake_at).min()
        };
        while let Some(at) = next(self).filter(|at| *at <= until) {
            self.now = at;
            if let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 == at) {
                let event = entry.remove();
                self.happen(event);
            }
            self.drain();
        }
        self.now = until;
        self.latencies.iter().map(|all| all.len() as f64 / length.as_secs_f64()).collect()
    }

    fn p99(&mut self, client: usize) -> Span {
        let all = &mut self.latencies[client];
        all.sort_unstable();
        all[all.len() * 99 / 100]
    }

    fn report(&mut self) -> DomainReport {
        self.engine.report(self.now)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Send { client } => {
                if self.now < self.clients[client].works.1 {
                    self.send(client);
                }
            }
            Event::Done { unit } => self.done(unit),
            Event::Next => {
                let (unit, _) = self.queue.pop_front().unwrap();
                self.done(unit);
                self.start();
            }
        }
    }

    fn done(&mut self, unit: u32) {
        self.with_server -= 1;
        self.engine.handle(self.now, Input::Done { unit, ok: true });
    }

    fn start(&mut self) {
        if let Some((_, time)) = self.queue.front() {
            let time = *time;
            self.after(time, Event::Next);
        }
    }

    fn send(&mut self, client: usize) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((client, self.now));
            u32::try_from(self.slots.len() - 1).unwrap()
        });
        self.slots[slot as usize] = (client, self.now);
        let request = Request {
            slot,
            tenant: TenantId(u32::try_from(client).unwrap()),
            target: Target::Server(ServerId(0)),
            disk: client as u64,
            kind: Kind::Read,
            offset: 0,
            length: self.clients[client].length,
            keeps_room: false,
        };
        self.engine.handle(self.now, Input::Arrive(request));
    }

    fn drain(&mut self) {
        self.wake_at = loop {
            match self.engine.poll(self.now) {
                Output::Submit(unit) => {
                    self.with_server += 1;
                    self.most_with_server = self.most_with_server.max(self.with_server);
                    let client = self.slots[unit.slot as usize].0;
                    match self.clients[client].disk {
                        Disk::Beside(time) => self.after(time, Event::Done { unit: unit.unit }),
                        Disk::Queued(time) => {
                            self.queue.push_back((unit.unit, time));
                            if self.queue.len() == 1 {
                                self.start();
                            }
                        }
                        Disk::Hangs => {}
                        Disk::Stalls { period, length, time } => {
                            let rest = Span(length.0.saturating_sub(self.now.0 % period.0));
                            self.after(rest + time, Event::Done { unit: unit.unit });
                        }
                    }
                }
                Output::Finish { slot, ok } => {
                    assert!(ok, "nothing fails here");
                    let (client, sent_at) = self.slots[slot as usize];
                    self.latencies[client].push(self.now.since(sent_at));
                    self.free.push(slot);
                    self.after(self.clients[client].think, Event::Send { client });
                }
                Output::WaitUntil(at) => break Some(at),
                Output::Idle => break None,
                output @ (Output::Move(_) | Output::Zeroes { .. } | Output::Refuse { .. }) => {
                    panic!("no volume, yet {output:?}")
                }
            }
        };
    }

    fn after(&mut self, span: Span, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + span, self.sequence), event);
    }
}

/// What a victim gets beside somebody from the second second on: its rate, and its 99th percentile.
fn beside(depth: u32, victim: Client, other: Client) -> (f64, Span) {
    let mut scene = Scene::new(depth, &[victim, other]);
    scene.run(seconds(2));
    let rate = scene.run(seconds(12))[0];
    assert!(
        scene.most_with_server <= 2 * depth as usize,
        "the server sees twice the depth at most"
    );
    (rate, scene.p99(0))
}

/// Beside an attacker a victim gets what it gets beside an honest neighbour of the same share and
/// depth.
fn assert_unharmed(depth: u32, victim: Client, attacker: Client) {
    let honest = Client { disk: victim.disk, ..attacker };
    let ((rate, p99), (rate_before, p99_before)) =
        (beside(depth, victim, attacker), beside(depth, victim, honest));
    let what = format!("depth {depth}, {victim:?} beside {attacker:?}");
    assert!(rate >= 0.95 * rate_before, "{rate:.0} of {rate_before:.0} per second: {what}");
    assert!(p99.0 <= 2 * p99_before.0, "{p99:?}, else {p99_before:?}: {what}");
}

#[test]
fn an_export_that_is_slow_takes_no_slots_from_its_neighbour() {
    for depth in [4, 32, 128] {
        for outstanding in [1, 8, 64] {
            for weight in [1, 100] {
                assert_unharmed(depth, client(weight, outstanding, QUICK), client(1, 64, SLOW));
            }
        }
    }
}

/// Depth and costs are the gate's to find.
fn automatic(clients: &[Client]) -> Scene {
    let mut domain = domain(Depth::Automatic, clients);
    let scheduling = &mut domain.servers[0].1;
    (scheduling.is_cost_learned, scheduling.cost) = (true, CostModel::default());
    let mut scene = Scene::new(1, clients);
    scene.engine = Engine::new(Nanos::ZERO, &domain);
    scene
}

/// Beside disks like these a quick client has what it has beside an honest neighbour.
fn assert_unharmed_where_all_is_found(disks: &[Disk]) {
    let victim = client(1, 64, QUICK);
    let rate = |disk: Disk| {
        let mut scene = automatic(&[victim, client(1, 1000, disk)]);
        scene.run(seconds(4));
        scene.run(seconds(10))[0]
    };
    let honest = rate(QUICK);
    for disk in disks {
        let rate = rate(*disk);
        assert!(rate >= 0.95 * honest, "{rate:.0} of {honest:.0} per second beside {disk:?}");
    }
}

#[test]
fn a_slow_export_takes_no_slots_where_the_gate_finds_depth_and_costs_either() {
    let beside = |millis| Disk::Beside(Span::from_millis(millis));
    assert_unharmed_where_all_is_found(&[beside(20), beside(500)]);
}

/// Answers that come in bursts look as if they were served one after another.
#[test]
fn an_export_that_stalls_takes_no_slots_where_the_gate_finds_depth_and_costs_either() {
    assert_unharmed_where_all_is_found(&[stalls(500, 1000, 100)]);
}

/// All that is awaited when the gate looks has come an instant before.
#[test]
fn an_export_that_stalls_in_step_with_the_looks_takes_no_slots_either() {
    assert_unharmed_where_all_is_found(&[stalls(75, 100, 100), stalls(150, 200, 100)]);
}

/// A gate that shares the server with others, with these slots.
fn shared(slots: u32, clients: &[Client]) -> Scene {
    let mut domain = domain(Depth::Requests(slots), clients);
    let scheduling = &mut domain.servers[0].1;
    (scheduling.discipline, scheduling.control) = (Discipline::Shared, Control::By(Method::Shares));
    let mut scene = Scene::new(1, clients);
    scene.engine = Engine::new(Nanos::ZERO, &domain);
    scene
}

#[test]
fn at_a_gate_that_shares_the_server_slow_and_hung_exports_take_no_slots_either() {
    for slots in [2, 4, 32] {
        let rate = |disk| {
            let mut scene = shared(slots, &[client(1, 64, QUICK), client(1, 64, disk)]);
            scene.run(seconds(2));
            scene.run(seconds(12))[0]
        };
        let honest = rate(QUICK);
        for disk in [Disk::Hangs, SLOW] {
            let rate = rate(disk);
            assert!(rate >= 0.95 * honest, "{rate:.0} of {honest:.0} per second beside {disk:?}");
        }
    }
}

#[test]
fn an_export_that_hangs_takes_no_slots_from_its_neighbour() {
    for depth in [2, 4, 32, 128] {
        for outstanding in [1, 8, 64] {
            let victim = client(1, outstanding, QUICK);
            assert_unharmed(depth, victim, client(1, 64, Disk::Hangs));
        }
    }
}

#[test]
fn whoever_returns_finds_room_within_a_second_where_an_export_hangs() {
    for depth in [1, 2, 32] {
        let late = Client { works: at(10, 30), ..client(1, 8, QUICK) };
        let mut scene = Scene::new(depth, &[late, client(1, 1000, Disk::Hangs)]);
        scene.run(seconds(11));
        assert!(scene.run(seconds(12))[0] > 0.0, "depth {depth}");
        let mut alone = Scene::new(depth, &[client(1, 8, QUICK)]);
        let [after, alone] = [scene.run(seconds(20))[0], alone.run(seconds(8))[0]];
        assert!(after >= alone * 0.45, "{after:.0} of {alone:.0} per second at depth {depth}");
        assert!(scene.most_with_server <= 2 * depth as usize);
    }
}

#[test]
fn an_export_that_hangs_now_and_then_takes_no_slots_from_its_neighbour() {
    for (depth, outstanding) in [(4, 8), (32, 8), (32, 64), (128, 64)] {
        let victim = client(1, outstanding, QUICK);
        let flaps = stalls(1000, 2000, 1000);
        assert_unharmed(depth, victim, client(1, 64, flaps));
        // Too short to hang, and quicker than the victim in between, which is slow beside it then.
        assert_unharmed(depth, victim, client(1, 64, stalls(500, 1000, 100)));
    }
}

#[test]
fn whoever_comes_and_goes_finds_room_each_time_where_an_export_hangs() {
    for depth in [1, 2, 4, 32] {
        let hung = client(1, 1000, Disk::Hangs);
        let visits = [(2, 4), (7, 9), (12, 14)];
        let mut clients: Vec<_> = visits
            .map(|(from, until)| Client { works: at(from, until), ..client(1, 8, QUICK) })
            .to_vec();
        clients.push(hung);
        let mut scene = Scene::new(depth, &clients);
        scene.run(seconds(1));
        for (visit, (from, until)) in visits.into_iter().enumerate() {
            // Nobody but the one that hangs is there, and it asks for more.
            scene.run(Nanos(seconds(from).0 - 500_000_000));
            scene.after(Span::ZERO, Event::Send { client: visits.len() });
            scene.run(seconds(from + 1));
            let rate = scene.run(seconds(until))[visit];
            assert!(rate > 0.0, "depth {depth}, visit {visit}");
        }
        assert!(scene.most_with_server <= 2 * depth as usize);
    }
}

#[test]
fn tenants_whose_exports_hang_one_after_another_leave_room_for_the_others() {
    let mut clients = vec![Client { works: at(0, 60), ..client(1, 4, QUICK) }];
    let hang = |n| Client { works: at(n, 60), ..client(1, 64, Disk::Hangs) };
    clients.extend((1..=6).map(|n| hang(3 * n)));
    let mut scene = Scene::new(32, &clients);
    let before = scene.run(seconds(3))[0];
    scene.run(seconds(21));
    let after = scene.run(seconds(40))[0];
    assert!(after >= 0.95 * before, "{after:.0} of {before:.0} per second");
}

#[test]
fn an_export_that_hangs_is_named_until_it_answers() {
    let mut scene = Scene::new(8, &[client(1, 4, QUICK), client(1, 64, Disk::Hangs)]);
    scene.run(seconds(5));
    let report = scene.report();
    let hanging = &report.servers[0].hanging;
    assert_eq!(hanging.len(), 1);
    assert_eq!((hanging[0].tenant, hanging[0].disk), (TenantId(1), 1));
    assert!(hanging[0].oldest > Span::from_millis(4900), "{:?}", hanging[0].oldest);
    let mut quiet = Scene::new(8, &[client(1, 4, QUICK), client(1, 64, SLOW)]);
    quiet.run(seconds(5));
    assert_eq!(quiet.report().servers[0].hanging, []);
}

#[test]
fn an_export_like_another_device_is_named_and_what_is_waited_for_it_is_nobody_elses_doing() {
    for disk in [SLOW, Disk::Hangs] {
        let mut scene = Scene::new(8, &[client(1, 4, QUICK), client(1, 64, disk)]);
        scene.run(seconds(10));
        let report = scene.report();
        let slow = report.servers[0].slow.iter().map(|one| (one.tenant, one.disk));
        let is_slow = matches!(disk, Disk::Beside(_));
        let expected = is_slow.then_some((TenantId(1), 1));
        assert_eq!(slow.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        for one in &report.servers[0].slow {
            assert!(one.latency.0 > 100 * one.quickest.0, "{one:?}");
        }
        // 64 requests in all wait for ten seconds, but for those that are at the server.
        let waited = report.tenants[1].waited_for_slots;
        assert!(waited > Span::from_secs(500), "{waited:?} with {disk:?}");
        assert_eq!(report.tenants[0].waited_for_slots, Span::ZERO);
        let of_neighbour = report.interference.iter().filter(|pair| pair.victim == TenantId(1));
        let blamed: u64 = of_neighbour
            .filter(|pair| pair.culprit == Culprit::Tenant(TenantId(0)))
            .map(|pair| pair.waited.0)
            .sum();
        assert!(blamed < waited.0 / 20, "{:?} of {waited:?} with {disk:?}", Span(blamed));
    }
}

#[test]
fn slots_change_no_shares_where_all_exports_lie_on_one_device() {
    // One request after another: the large ones cost as much more as they take longer.
    let queued = |micros| Disk::Queued(Span::from_micros(micros));
    let small = client(1, 64, queued(100));
    let large = Client { length: 128 << 10, ..client(1, 64, queued(3200)) };
    let mut domain = domain(Depth::Requests(16), &[small, large]);
    domain.servers[0].1.cost = CostModel::Linear {
        read: Line { fixed: Span::ZERO, rate_bytes: 40_960_000 },
        write: Line { fixed: Span::ZERO, rate_bytes: 40_960_000 },
        flush: Span::from_millis(1),
    };
    let mut scene = Scene::new(16, &[small, large]);
    scene.engine = Engine::new(Nanos::ZERO, &domain);
    scene.run(seconds(2));
    let rates = scene.run(seconds(22));
    let ratio = rates[0] * 4.0 / (rates[1] * 128.0);
    assert!((0.95..1.05).contains(&ratio), "bytes {ratio:.2} to 1: {rates:?}");
}

#[test]
fn a_slow_export_alone_has_the_whole_depth() {
    let mut scene = Scene::new(32, &[client(1, 64, SLOW), client(1, 1, QUICK)]);
    scene.clients[1].works = at(0, 1);
    scene.run(seconds(4));
    let rate = scene.run(seconds(14))[0];
    assert!(rate >= 63.0, "{rate:.1} per second of 64");
}

#[test]
fn a_tenant_with_one_request_at_a_time_has_its_half_of_a_device() {
    let queued = Disk::Queued(Span::from_micros(2762));
    for depth in [2, 4] {
        let one = client(1, 1, queued);
        let alone = Scene::new(depth, &[one]).run(seconds(10))[0];
        let mut scene = Scene::new(depth, &[one, client(1, 64, queued)]);
        scene.run(seconds(1));
        let rates = scene.run(seconds(11));
        let all = rates[0] + rates[1];
        // Of a deeper queue it waits behind all that is there.
        let due = alone / f64::from(depth);
        assert!(rates[0] >= 0.95 * due, "depth {depth}: {rates:?}, alone {alone:.1}");
        assert!(all >= 0.99 * 1e6 / 2762.0, "depth {depth}: {all:.1} in all");
    }
}

#[test]
fn slots_that_wait_for_a_tenant_cost_the_others_little() {
    for think in [1, 10, 50, 100, 200, 500, 1000, 5000, 20_000] {
        for depth in [2, 4, 32] {
            let disk = Disk::Beside(Span::from_millis(1));
            let one = Client { think: Span::from_micros(think), ..client(1, 1, disk) };
            let mut scene = Scene::new(depth, &[one, client(1, 64, disk)]);
            scene.run(seconds(1));
            let rates = scene.run(seconds(6));
            // Each of the two could have all slots that the other leaves.
            let of_one = 1e6 / (1020.0 + think as f64 - 20.0);
            let whole = 1000.0 * f64::from(depth);
            let left = whole - of_one;
            assert!(rates[1] >= 0.9 * left, "{think} us, depth {depth}: {rates:?} of {whole}");
        }
    }
}

#[test]
fn a_floor_holds_on_a_slow_export_too() {
    let slow = Disk::Beside(Span::from_millis(20));
    let clients = [client(1, 64, slow), client(10, 64, QUICK)];
    let mut domain = domain(Depth::Requests(32), &clients);
    domain.servers[0].1.discipline = Discipline::Mclock;
    domain.tenants[0].1.floor.rate_iops = 500;
    let mut scene = Scene::new(32, &clients);
    scene.engine = Engine::new(Nanos::ZERO, &domain);
    scene.run(seconds(2));
    let rates = scene.run(seconds(7));
    assert!(rates[0] >= 495.0, "{rates:?}");
    assert!(rates[1] >= 15_000.0, "{rates:?}");
}
