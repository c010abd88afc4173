//! Situations whose cause is known, and the cause that is found.

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::explain::{Cause, Standing};
use evenkeel_engine::policy::{Depth, Discipline, Domain, MOVER_TENANT, Mode};
use evenkeel_engine::report::{DomainReport, TenantReport};

use crate::simulated::{Client, Simulation, clients, domain};

const TEN_SECONDS: Span = Span::from_secs(10);
const NEVER: (Nanos, Span) = (Nanos::ZERO, Span::ZERO);

/// Tenants that are called what they are.
const ACCUSER: u32 = 0;
const CULPRIT: u32 = 1;
const INNOCENT: u32 = 2;

/// A situation: the policy, the device, and who asks for what.
struct Scene {
    domain: Domain,
    device: CostModel,
    at_once: usize,
    stall: (Nanos, Span),
    clients: Vec<Client>,
}

fn device(fixed: Span, rate_bytes: u64) -> CostModel {
    let line = Line { fixed, rate_bytes };
    CostModel::Linear { read: line, write: line, flush: fixed }
}

impl Scene {
    /// The gate finds all by itself, before a server of 100 MB/s that serves one at a time.
    fn new(mode: Mode, shares: [Share; 3], clients: &[&[Client]]) -> Self {
        let mut domain = domain(mode, &[1, 1, 1], 1, 16);
        let names = ["accuser", "culprit", "innocent"];
        domain.tenants = names.iter().zip(shares).map(|(n, s)| ((*n).to_owned(), s)).collect();
        let scheduling = &mut domain.servers[0].1;
        (scheduling.cost, scheduling.is_cost_learned) = (CostModel::default(), true);
        scheduling.depth = Depth::Automatic;
        let device = device(Span::from_micros(100), 100_000_000);
        Self { domain, device, at_once: 1, stall: NEVER, clients: clients.concat() }
    }

    fn under(mut self, discipline: Discipline) -> Self {
        self.domain.servers[0].1.discipline = discipline;
        self
    }

    fn at_depth(mut self, depth: u32) -> Self {
        self.domain.servers[0].1.depth = Depth::Requests(depth);
        self
    }

    fn report(&self) -> DomainReport {
        let simulation = Simulation::before(self.device, self.stall, &self.domain, &self.clients);
        simulation.serving_at_once(self.at_once).run(TEN_SECONDS)
    }

    fn tenant(&self, tenant: u32) -> TenantReport {
        self.report().tenants[tenant as usize].clone()
    }

    /// What is found for the accuser.
    #[track_caller]
    fn expect(&self, standing: Standing, cause: Option<Cause>, behind: Option<u32>) {
        let TenantReport { finding, .. } = self.tenant(ACCUSER);
        println!("{} [{}]", finding.sentence, finding.remedy);
        let found = (finding.standing, finding.cause, finding.behind);
        assert_eq!(found, (standing, cause, behind.map(TenantId)), "{}", finding.sentence);
        let needs_remedy = cause.is_some();
        assert_eq!(finding.remedy.is_empty(), !needs_remedy, "{}", finding.remedy);
    }
}

fn weight(weight: u32) -> Share {
    Share { weight_milli: weight * 1000, ..Share::default() }
}

fn equal() -> [Share; 3] {
    [weight(1); 3]
}

fn small(count: usize, tenant: u32) -> Vec<Client> {
    clients(count, tenant, Kind::Read, 4096)
}

fn large(count: usize, tenant: u32) -> Vec<Client> {
    clients(count, tenant, Kind::Read, 256 << 10)
}

fn thinking(think: Span, clients: Vec<Client>) -> Vec<Client> {
    clients.into_iter().map(|client| Client { think, ..client }).collect()
}

#[test]
fn its_own_limit() {
    let limit = Limit { rate_iops: 100, burst_requests: 1, ..Limit::default() };
    let shares = [Share { limit, ..weight(1) }, weight(1), weight(1)];
    for discipline in [Discipline::Sfq, Discipline::Mclock] {
        let scene = Scene::new(Mode::Enforce, shares, &[&small(8, ACCUSER), &large(8, CULPRIT)]);
        scene.under(discipline).expect(Standing::HasItsDue, Some(Cause::OwnLimit), None);
    }
}

#[test]
fn its_own_limit_in_bytes_and_alone() {
    let limit = Limit { rate_bytes: 5_000_000, burst_bytes: 1 << 20, ..Limit::default() };
    let shares = [Share { limit, ..weight(1) }, weight(1), weight(1)];
    let scene = Scene::new(Mode::Enforce, shares, &[&large(4, ACCUSER)]);
    scene.expect(Standing::HasItsDue, Some(Cause::OwnLimit), None);
}

#[test]
fn anothers_floor() {
    let floor = Floor { rate_iops: 5000, rate_bytes: 0 };
    let shares = [weight(1), Share { floor, ..weight(1) }, weight(1)];
    let others = [small(32, CULPRIT), thinking(Span::from_millis(20), small(1, INNOCENT))].concat();
    let scene = Scene::new(Mode::Enforce, shares, &[&small(16, ACCUSER), &others]);
    let scene = scene.under(Discipline::Mclock);
    scene.expect(Standing::BelowItsDue, Some(Cause::OthersFloors), Some(CULPRIT));
    let culprit = scene.tenant(CULPRIT).finding;
    assert_eq!(culprit.standing, Standing::HasItsDue, "{}", culprit.sentence);
}

#[test]
fn anothers_deadlines() {
    let latency_goal = Span::from_millis(20);
    let shares = [weight(1), Share { latency_goal, ..weight(1) }, weight(1)];
    let scene = Scene::new(Mode::Enforce, shares, &[&small(16, ACCUSER), &small(32, CULPRIT)]);
    let scene = scene.under(Discipline::Edf);
    scene.expect(Standing::BelowItsDue, Some(Cause::OthersDeadlines), Some(CULPRIT));
}

#[test]
fn one_block_at_a_time() {
    let shares = [weight(4), weight(1), weight(1)];
    // An answer and the next block are on their way for a while.
    let one = thinking(Span::from_micros(150), small(1, ACCUSER));
    let scene = Scene::new(Mode::Enforce, shares, &[&one, &large(16, CULPRIT)]);
    scene.expect(Standing::HasItsDue, Some(Cause::AsksTooLittle), None);
}

#[test]
fn a_pause_after_each_answer() {
    let seldom = thinking(Span::from_millis(10), small(1, ACCUSER));
    for mode in [Mode::Observe, Mode::Enforce] {
        let light = thinking(Span::from_millis(5), small(2, INNOCENT));
        let scene = Scene::new(mode, equal(), &[&seldom, &light]);
        let finding = scene.tenant(ACCUSER).finding;
        println!("{}", finding.sentence);
        assert_eq!(finding.standing, Standing::HasItsDue, "{}", finding.sentence);
        assert_eq!(finding.behind, None);
    }
}

#[test]
fn others_have_their_shares() {
    let shares = [weight(1), weight(3), weight(1)];
    let scene = Scene::new(Mode::Enforce, shares, &[&small(32, ACCUSER), &large(16, CULPRIT)]);
    scene.expect(Standing::HasItsDue, Some(Cause::OthersShares), Some(CULPRIT));
}

#[test]
fn nobody_holds_back_a_hog_in_observe_and_shadow_mode() {
    for mode in [Mode::Observe, Mode::Shadow] {
        let others = [small(8, INNOCENT), large(16, CULPRIT)].concat();
        let scene = Scene::new(mode, equal(), &[&small(1, ACCUSER), &others]);
        scene.expect(Standing::BelowItsDue, Some(Cause::OthersShares), Some(CULPRIT));
        let innocent = scene.tenant(INNOCENT).finding;
        assert_eq!(innocent.behind, Some(TenantId(CULPRIT)), "{}", innocent.sentence);
        let culprit = scene.tenant(CULPRIT).finding;
        assert_eq!(culprit.standing, Standing::HasItsDue, "{}", culprit.sentence);
    }
}

#[test]
fn a_device_that_stands_still() {
    for mode in [Mode::Observe, Mode::Enforce] {
        let mut scene = Scene::new(mode, equal(), &[&small(2, ACCUSER), &small(2, INNOCENT)]);
        scene.stall = (Nanos(7_000_000_000), Span::from_secs(2));
        scene.expect(Standing::HasItsDue, Some(Cause::Device), None);
    }
}

#[test]
fn a_device_that_answers_nothing_any_more() {
    let mut scene = Scene::new(Mode::Enforce, equal(), &[&small(4, ACCUSER)]);
    scene.stall = (Nanos(3_000_000_000), Span::from_secs(60));
    scene.expect(Standing::BelowItsDue, Some(Cause::Device), None);
}

#[test]
fn a_device_too_slow_for_a_floor() {
    let floor = Floor { rate_iops: 1000, rate_bytes: 0 };
    let shares = [Share { floor, ..weight(1) }, weight(1), weight(1)];
    let mut scene = Scene::new(Mode::Enforce, shares, &[&small(16, ACCUSER)]);
    scene.device = device(Span::from_millis(10), 100_000_000);
    scene.under(Discipline::Mclock).expect(Standing::BelowItsDue, Some(Cause::Device), None);
}

#[test]
fn a_device_too_slow_for_a_goal() {
    let latency_goal = Span::from_millis(10);
    let shares = [Share { latency_goal, ..weight(1) }, weight(1), weight(1)];
    let mut scene = Scene::new(Mode::Enforce, shares, &[&small(1, ACCUSER)]);
    scene.device = device(Span::from_millis(20), 100_000_000);
    scene.expect(Standing::BelowItsDue, Some(Cause::Device), None);
}

#[test]
fn two_floors_that_the_device_cannot_keep() {
    let floor = Floor { rate_iops: 5000, rate_bytes: 0 };
    let shares = [Share { floor, ..weight(1) }, Share { floor, ..weight(1) }, weight(1)];
    let scene = Scene::new(Mode::Enforce, shares, &[&small(32, ACCUSER), &small(32, CULPRIT)]);
    let scene = scene.under(Discipline::Mclock);
    scene.expect(Standing::BelowItsDue, Some(Cause::OthersFloors), Some(CULPRIT));
}

#[test]
fn a_goal_missed_because_it_asks_for_much_at_once() {
    let latency_goal = Span::from_millis(2);
    let shares = [Share { latency_goal, ..weight(1) }, weight(1), weight(1)];
    let scene = Scene::new(Mode::Enforce, shares, &[&small(64, ACCUSER)]);
    scene.expect(Standing::BelowItsDue, Some(Cause::OwnQueue), None);
}

#[test]
fn alone_with_a_long_queue() {
    for mode in [Mode::Observe, Mode::Enforce] {
        let scene = Scene::new(mode, equal(), &[&small(64, ACCUSER)]);
        scene.expect(Standing::HasItsDue, Some(Cause::OwnQueue), None);
    }
}

#[test]
fn a_written_depth_that_is_too_great() {
    let shares = [weight(4), weight(1), weight(1)];
    let scene = Scene::new(Mode::Enforce, shares, &[&small(2, ACCUSER), &large(64, CULPRIT)]);
    scene.at_depth(64).expect(Standing::BelowItsDue, Some(Cause::Depth), None);
}

#[test]
fn an_export_that_does_not_answer() {
    let hanging = small(8, ACCUSER).into_iter().map(|client| Client { hangs: true, ..client });
    let all = [hanging.collect(), small(1, ACCUSER), small(8, INNOCENT)].concat();
    let scene = Scene::new(Mode::Enforce, equal(), &[&all]);
    scene.expect(Standing::BelowItsDue, Some(Cause::SlowExport), None);
    let innocent = scene.tenant(INNOCENT).finding;
    assert_eq!(innocent.standing, Standing::HasItsDue, "{}", innocent.sentence);
}

#[test]
fn the_gates_own_work() {
    let mut scene = Scene::new(Mode::Observe, equal(), &[&small(1, ACCUSER), &large(8, CULPRIT)]);
    scene.domain.tenants[CULPRIT as usize].0 = MOVER_TENANT.to_owned();
    scene.expect(Standing::BelowItsDue, Some(Cause::InternalWork), Some(CULPRIT));
}

#[test]
fn nothing_asked_for() {
    let scene = Scene::new(Mode::Enforce, equal(), &[&small(4, INNOCENT)]);
    scene.expect(Standing::Idle, None, None);
}

#[test]
fn in_the_first_second_nobody_is_accused() {
    let scene = Scene::new(Mode::Observe, equal(), &[&small(1, ACCUSER), &large(8, CULPRIT)]);
    let mut simulation = Simulation::before(scene.device, NEVER, &scene.domain, &scene.clients);
    let report = simulation.run(Span::from_millis(900));
    let finding = &report.tenants[ACCUSER as usize].finding;
    assert_eq!((finding.cause, finding.behind), (None, None), "{}", finding.sentence);
    assert!(finding.sentence.contains("too early"), "{}", finding.sentence);
}

#[test]
fn alone_and_content() {
    for mode in [Mode::Observe, Mode::Enforce] {
        let scene = Scene::new(mode, equal(), &[&small(1, ACCUSER)]);
        scene.expect(Standing::HasItsDue, None, None);
    }
}

#[test]
fn a_device_that_serves_all_at_once_keeps_nobody_waiting() {
    for mode in [Mode::Enforce, Mode::Observe] {
        let others =
            (1..=16).flat_map(|i| thinking(Span::from_micros(500 * i), small(1, INNOCENT)));
        let others: Vec<Client> = others.collect();
        let mut scene = Scene::new(mode, equal(), &[&small(1, ACCUSER), &others]);
        (scene.device, scene.at_once) = (device(Span::from_millis(5), u64::MAX), 64);
        let finding = scene.tenant(ACCUSER).finding;
        println!("{mode:?}: {}", finding.sentence);
        assert_eq!(finding.behind, None, "{mode:?}: {}", finding.sentence);
    }
}
