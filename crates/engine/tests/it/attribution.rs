//! Waits find their culprits, in every mode.

mod scene;
mod scenes;
mod world;

use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::attribution::TOP_PAIRS;
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Depth, Domain, Mode};
use evenkeel_engine::report::{Culprit, DomainReport};

use crate::simulated::{Client, Simulation, clients, domain};

fn assert_conserved(report: &DomainReport) {
    let named: u64 = report.interference.iter().map(|pair| pair.waited.0).sum();
    let waited: u64 = report.tenants.iter().map(|tenant| tenant.waited.0).sum();
    assert_eq!(named + report.interference_other.0, waited);
}

fn blamed_on(report: &DomainReport, victim: u32, culprit: Culprit) -> f64 {
    let of = |pair: &&evenkeel_engine::report::Interference| pair.victim == TenantId(victim);
    let all: u64 = report.interference.iter().filter(of).map(|pair| pair.waited.0).sum();
    let by = report.interference.iter().filter(of).find(|pair| pair.culprit == culprit);
    by.map_or(0.0, |pair| pair.waited.0 as f64 / all as f64)
}

#[test]
fn the_hog_is_named_in_every_mode() {
    for mode in [Mode::Observe, Mode::Shadow, Mode::Enforce] {
        let mut all = clients(1, 0, Kind::Read, 4096);
        all.extend(clients(8, 1, Kind::Write, 1 << 20));
        let report = Simulation::new(&domain(mode, &[1, 1, 1], 1, 2), &all).run(Span::from_secs(5));
        assert_conserved(&report);
        let part = blamed_on(&report, 0, Culprit::Tenant(TenantId(1)));
        assert!(part > 0.8, "{mode:?}: {part} of the reader's wait is the writer's doing");
        assert!(report.tenants[0].waited > Span::from_secs(1), "and it waits most of the time");
        assert_eq!(report.tenants[2].waited, Span::ZERO);
    }
}

#[test]
fn in_observe_mode_waits_are_the_time_that_an_idle_server_would_not_have_taken() {
    let all = clients(4, 0, Kind::Read, 4096);
    let report = Simulation::new(&domain(Mode::Observe, &[1], 1, 2), &all).run(Span::from_secs(1));
    // Four in a row at a serial device: three quarters of the time of each is waiting.
    let waited = report.tenants[0].waited.as_secs_f64();
    assert!((waited - 3.0).abs() < 0.01, "{waited}");
    assert_eq!(report.interference.len(), 1, "all of it behind its own requests");
}

#[test]
fn many_tenants_fill_a_bounded_table_and_nothing_is_lost() {
    let all: Vec<_> = (0..40)
        .flat_map(|tenant| clients(1 + tenant as usize % 3, tenant, Kind::Read, 8192))
        .collect();
    let report =
        Simulation::new(&domain(Mode::Enforce, &[1; 40], 1, 4), &all).run(Span::from_secs(3));
    assert_eq!(report.interference.len(), TOP_PAIRS);
    assert!(report.interference_other > Span::ZERO);
    assert_conserved(&report);
}

/// What a unit takes of a device that serves one at a time.
fn device(fixed: Span, rate_bytes: u64) -> CostModel {
    let line = Line { fixed, rate_bytes };
    CostModel::Linear { read: line, write: line, flush: fixed }
}

const MODES: [Mode; 3] = [Mode::Observe, Mode::Shadow, Mode::Enforce];

/// A policy that says nothing of the device.
fn default_policy(mode: Mode) -> Domain {
    let mut domain = domain(mode, &[1, 1, 1], 1, 16);
    let scheduling = &mut domain.servers[0].1;
    (scheduling.cost, scheduling.is_cost_learned) = (CostModel::default(), true);
    if mode == Mode::Enforce {
        scheduling.depth = Depth::Automatic;
    }
    domain
}

const NEVER: (Nanos, Span) = (Nanos::ZERO, Span::ZERO);
const VICTIM: u32 = 0;
const INNOCENT: u32 = 1;
const HOG: u32 = 2;

/// Parts of what the victim waited between two reports, by tenant, and the device's.
fn blamed_between(before: &DomainReport, after: &DomainReport) -> ([f64; 3], f64) {
    let waited = |report: &DomainReport, culprit| -> f64 {
        let is_it = |pair: &&evenkeel_engine::report::Interference| {
            pair.victim == TenantId(VICTIM) && pair.culprit == culprit
        };
        report.interference.iter().find(is_it).map_or(0.0, |pair| pair.waited.as_secs_f64())
    };
    let gained = |culprit| waited(after, culprit) - waited(before, culprit);
    let tenants = [VICTIM, INNOCENT, HOG].map(|one| gained(Culprit::Tenant(TenantId(one))));
    let device = gained(Culprit::Device);
    let all = (tenants.iter().sum::<f64>() + device).max(1e-9);
    (tenants.map(|one| one / all), device / all)
}

/// One reads a little; one sends many small requests; one fills a server of 40 MB/s.
fn innocent_and_hog() -> Vec<Client> {
    let mut all = clients(1, VICTIM, Kind::Read, 4096);
    all.extend(clients(8, INNOCENT, Kind::Read, 4096));
    all.extend(clients(16, HOG, Kind::Read, 256 << 10));
    all
}

#[test]
fn many_small_requests_are_not_blamed_for_what_few_large_ones_take() {
    let slow = device(Span::from_micros(50), 40_000_000);
    // Where shares are in force each of the two has half of the device.
    for mode in [Mode::Observe, Mode::Shadow] {
        let mut simulation =
            Simulation::before(slow, NEVER, &default_policy(mode), &innocent_and_hog());
        let before = simulation.run(Span::from_secs(5));
        let after = simulation.run(Span::from_secs(15));
        assert_conserved(&after);
        let ([_, innocent, hog], device) = blamed_between(&before, &after);
        assert!(
            innocent < 0.05 && hog > 0.9 && device < 0.01,
            "{mode:?}: {innocent} {hog} {device}"
        );
    }
}

#[test]
fn a_stall_of_the_device_is_nobodys_doing() {
    let quick = device(Span::from_micros(100), 500_000_000);
    let stall = (Nanos(5_000_000_000), Span::from_secs(1));
    for mode in MODES {
        let mut all = clients(1, VICTIM, Kind::Read, 4096);
        all.extend(clients(3, INNOCENT, Kind::Read, 4096));
        let mut simulation = Simulation::before(quick, stall, &default_policy(mode), &all);
        let before = simulation.run(Span::from_millis(4990));
        let after = simulation.run(Span::from_millis(6010));
        assert_conserved(&after);
        let ([_, innocent, _], device) = blamed_between(&before, &after);
        assert!(device > 0.95 && innocent < 0.05, "{mode:?}: {innocent}, the device {device}");
    }
}

/// What a victim waits for a request, in seconds, and whom it blames.
fn outcome(device: CostModel, mode: Mode, all: &[Client]) -> (f64, [f64; 3]) {
    outcome_at((device, 1), mode, all)
}

/// The same before a device that serves so many at once.
fn outcome_at(
    (device, at_once): (CostModel, usize),
    mode: Mode,
    all: &[Client],
) -> (f64, [f64; 3]) {
    let simulation = Simulation::before(device, NEVER, &default_policy(mode), all);
    let mut simulation = simulation.serving_at_once(at_once);
    let before = simulation.run(Span::from_secs(4));
    let after = simulation.run(Span::from_secs(8));
    let victim = |report: &DomainReport| {
        let one = &report.tenants[VICTIM as usize];
        let requests: u64 = one.by_kind.iter().map(|kind| kind.delivered_requests).sum();
        (one.waited.as_secs_f64(), requests as f64)
    };
    let ((waited, requests), (waited_before, requests_before)) = (victim(&after), victim(&before));
    let (blamed, _) = blamed_between(&before, &after);
    ((waited - waited_before) / (requests - requests_before).max(1.0), blamed)
}

/// The truth is the same world without the accused.
#[test]
fn the_culprits_part_is_what_would_not_be_waited_without_it() {
    let mut random = Prng::new(22);
    let (mut worst, mut worst_innocent): (f64, f64) = (0.0, 0.0);
    for round in 0..60 {
        let mut below = |most: u64| usize::try_from(random.below(most)).unwrap();
        let rate = 20_000_000 << below(6);
        let device = device(Span::from_micros(20 << below(5)), rate);
        let victims = clients(1 + below(3), VICTIM, Kind::Read, 4096);
        let others = clients(1 + below(8), INNOCENT, Kind::Read, 4096 << below(2));
        let hogs = clients(4 + below(12), HOG, Kind::Read, (64 << 10) << below(3));
        let scene = |groups: &[&[Client]]| groups.concat();
        let all = scene(&[&victims, &others, &hogs]);
        let (wait, [_, innocent, hog]) = outcome(device, Mode::Observe, &all);
        let (without_hog, _) = outcome(device, Mode::Observe, &scene(&[&victims, &others]));
        let (without_other, _) = outcome(device, Mode::Observe, &scene(&[&victims, &hogs]));
        let truth = [without_other, without_hog].map(|without| (wait - without) / wait);
        let error = (hog - truth[1]).abs();
        let excess = innocent - truth[0].max(0.0);
        assert!(error < 0.1, "round {round}: blamed {hog:.3}, truly {:.3}, {device:?}", truth[1]);
        assert!(
            excess < 0.05,
            "round {round}: {innocent:.3} on an innocent, truly {:.3}",
            truth[0]
        );
        (worst, worst_innocent) = (worst.max(error), worst_innocent.max(excess));
    }
    println!(
        "the culprit's part is off by {worst:.3} at most, an innocent's by {worst_innocent:.3}"
    );
}

/// Clients whose pauses differ, so that what is with the device varies.
fn pausing(random: &mut Prng, most: Span, clients: Vec<Client>) -> Vec<Client> {
    let pause = |client| Client { think: Span(1 + random.below(most.0)), ..client };
    clients.into_iter().map(pause).collect()
}

/// On a device that serves all at once nobody waits for anybody.
#[test]
fn neighbours_on_a_device_that_serves_all_at_once_are_in_nobodys_way() {
    let mut random = Prng::new(33);
    let mut worst: f64 = 0.0;
    for round in 0..20 {
        let length = Span::from_micros(500 << random.below(5));
        let device = device(length, u64::MAX);
        let (few, many) = (1 + random.below(3), 4 + random.below(20));
        let [few, many] = [few, many].map(|count| usize::try_from(count).unwrap());
        let pauses = Span(2 * length.0);
        let victims = pausing(&mut random, pauses, clients(few, VICTIM, Kind::Read, 4096));
        let others = pausing(&mut random, pauses, clients(many, INNOCENT, Kind::Read, 4096));
        let all = [victims, others].concat();
        let (wait, [_, innocent, _]) = outcome_at((device, 1024), Mode::Observe, &all);
        let part = wait * innocent / length.as_secs_f64();
        println!("round {round}: {part:.3} of its time, {few} beside {many}, {length}");
        worst = worst.max(part);
    }
    assert!(worst < 0.1, "{worst}");
}
