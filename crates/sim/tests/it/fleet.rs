//! Gates before one array: shares over all of them, targets, and the longest wait.

use evenkeel_core::control::member::Method;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::time::{Nanos, Span};
use evenkeel_sim::control::exchange::{Cut, Way};
use evenkeel_sim::device::simple::Constant;
use evenkeel_sim::device::spec::ConstantSpec;
use evenkeel_sim::device::{Device, Op, Step};
use evenkeel_sim::fleet::draw::draw;
use evenkeel_sim::fleet::{Asks, Client, Fleet, Hosts, Record};

use crate::depths::percentile;

/// A server that does so many requests at a time, and so many in a second.
pub(crate) fn server(at_once: u32, per_s: u64) -> Constant {
    let fixed = Span(u64::from(at_once) * 1_000_000_000 / per_s);
    Constant::new(ConstantSpec { size_bytes: 64 << 30, fixed, rate_bytes: 0, servers: at_once })
}

pub(crate) fn tenant(share: u32) -> Share {
    Share { weight_milli: share * 1000, ..Share::default() }
}

pub(crate) fn promised(mean_ms: u64) -> Share {
    Share { latency_goal: Span::from_millis(mean_ms), ..tenant(1) }
}

pub(crate) fn at_s(seconds: u64) -> Nanos {
    Nanos::ZERO + Span::from_secs(seconds)
}

fn closed(gate: u32, tenant: u32, requests: u32) -> Client {
    Client::reads(gate, tenant, Asks::Closed(requests))
}

pub(crate) fn fleet(gates: u32, tenants: &[Share], clients: &[Client]) -> Fleet {
    Fleet {
        gates,
        tenants: tenants.to_vec(),
        clients: clients.to_vec(),
        method: Method::Shares,
        hosts: Hosts::default(),
        length: Span::from_secs(20),
        hears_sums: false,
        way: Way { delay: Span::from_millis(1), ..Way::default() },
        cuts: Vec::new(),
        clocks: Vec::new(),
        seed: 1,
    }
}

/// Holds a part to what is due, within 5 % of that, second by second.
fn assert_part(
    record: &Record,
    tenant: usize,
    due: f64,
    seconds: std::ops::Range<u64>,
    what: &str,
) {
    for second in seconds {
        let part = record.part(tenant, second, second + 1);
        let is_due = (part / due - 1.0).abs() < 0.05;
        assert!(is_due, "{what}: {part:.3} of {due:.3} in second {second}");
    }
}

/// Devices that serve one, a few and many at a time.
const DEVICES: [(u32, u64); 3] = [(1, 450), (8, 2_000), (64, 20_000)];

#[test]
fn shares_hold_wherever_a_tenant_has_its_clients() {
    for (at_once, per_s) in DEVICES {
        for share in [1, 3, 10] {
            for places in [&[0][..], &[0, 1], &[0, 1, 2]] {
                let mut clients: Vec<Client> =
                    places.iter().map(|gate| closed(*gate, 0, 512)).collect();
                clients.extend((0..3).map(|gate| closed(gate, 1, 64)));
                let record =
                    fleet(3, &[tenant(share), tenant(1)], &clients).run(server(at_once, per_s));
                let what = format!("{at_once} at a time, {share}:1, at {places:?}");
                let due = f64::from(share) / f64::from(share + 1);
                assert_part(&record, 0, due, 5..20, &what);
                let done = [0, 1].map(|tenant| record.sum(tenant, 5, 20).completions);
                let part = done.iter().sum::<u64>() as f64 / (15 * per_s) as f64;
                assert!(part > 0.93, "{what}: {part:.3} of what the device can");
            }
        }
    }
}

#[test]
fn requests_of_unlike_sizes_count_for_what_they_cost() {
    let spec = ConstantSpec {
        size_bytes: 64 << 30,
        fixed: Span::from_micros(50),
        rate_bytes: 200 << 20,
        servers: 1,
    };
    let large = Client { size_bytes: 256 << 10, ..closed(0, 0, 256) };
    let clients = [large, closed(1, 1, 64), closed(2, 1, 64)];
    let record = fleet(3, &[tenant(1), tenant(1)], &clients).run(Constant::new(spec));
    let part = record.part(0, 5, 20);
    assert!((part / 0.5 - 1.0).abs() < 0.05, "{part}");
}

#[test]
fn clients_that_move_to_another_gate_take_their_share_along() {
    let ten = Nanos::ZERO + Span::from_secs(10);
    let before = Client { until: ten, ..closed(0, 0, 64) };
    let after = Client { from: ten, ..closed(2, 0, 64) };
    let clients = [before, after, closed(0, 1, 64), closed(1, 1, 64)];
    let record = fleet(3, &[tenant(3), tenant(1)], &clients).run(server(8, 2_000));
    assert_part(&record, 0, 0.75, 5..10, "before");
    assert_part(&record, 0, 0.75, 14..20, "after");
}

#[test]
fn what_a_tenant_leaves_is_there_for_others_and_its_own_is_there_for_it() {
    let sparse = Client::reads(0, 0, Asks::Open(20.0));
    let clients = [sparse, closed(0, 1, 32), closed(1, 1, 32)];
    let record = fleet(2, &[tenant(4), tenant(1)], &clients).run(server(1, 450));
    let (sparse, hog) = (record.sum(0, 5, 20), record.sum(1, 5, 20));
    assert!(hog.completions > 15 * 415, "{hog:?}");
    // The depth of the device, and hardly a wait at the gate.
    let depth = record.depths.iter().skip(25).max().expect("decisions");
    let device_s = f64::from(*depth) / 450.0;
    assert!(sparse.mean_s() < device_s + 0.005, "{sparse:?} before {device_s}");
}

#[test]
fn half_of_the_words_may_be_lost() {
    let clients = [closed(0, 0, 512), closed(0, 1, 64), closed(1, 1, 64), closed(2, 1, 64)];
    let way = Way { delay: Span::from_millis(20), lost_milli: 500, twice_milli: 100 };
    let lossy = Fleet { way, ..fleet(3, &[tenant(3), tenant(1)], &clients) };
    let record = lossy.run(server(8, 2_000));
    let part = record.part(0, 5, 20);
    assert!((part / 0.75 - 1.0).abs() < 0.05, "{part}");
}

/// An open load of 100 a second with a mean of 30 ms beside one that always has 32 under way, on a
/// device that does 450 in a second: at one gate, and at two.
#[test]
fn a_mean_is_kept_beside_a_tenant_that_always_asks_and_nobody_starves() {
    for loose in [promised(200), tenant(1)] {
        for other_gate in [0, 1] {
            let strict = Client::reads(0, 0, Asks::Open(100.0));
            let clients = [strict, closed(other_gate, 1, 32)];
            let tenants = [promised(30), loose];
            let record = fleet(other_gate + 1, &tenants, &clients).run(server(1, 450));
            let (strict, other) = (record.sum(0, 5, 20), record.sum(1, 5, 20));
            assert!(strict.mean_s() < 0.030, "gate {other_gate}: {strict:?}");
            assert!(strict.longest < Span::from_millis(120), "gate {other_gate}: {strict:?}");
            assert!(other.completions > 15 * 330, "gate {other_gate}: {other:?}");
            assert!(other.longest < Span::from_millis(200), "gate {other_gate}: {other:?}");
        }
    }
}

/// A thousand tenants at two gates, each with a mean of 30 ms and 6 requests a second, beside one
/// that always asks: their words have many parts, of which some are lost.
#[test]
fn means_of_a_thousand_tenants_are_kept_beside_one_that_always_asks() {
    for lost_milli in [0, 100] {
        let mut tenants = vec![promised(30); 1_000];
        let asks = |tenant| Client::reads(tenant % 2, tenant, Asks::Open(6.0));
        let mut clients: Vec<Client> = (0..1_000).map(asks).collect();
        tenants.push(promised(200));
        clients.extend([closed(0, 1_000, 256), closed(1, 1_000, 256)]);
        let way = Way { delay: Span::from_millis(1), lost_milli, twice_milli: 0 };
        let length = Span::from_secs(14);
        let fleet = Fleet { way, length, ..fleet(2, &tenants, &clients) };
        let record = fleet.run(server(64, 20_000));
        let late = (0..1_000).filter(|tenant| record.sum(*tenant, 5, 14).mean_s() > 0.030);
        assert_eq!(late.collect::<Vec<_>>(), [0; 0], "{lost_milli} of 1,000 words lost");
        let (first, other) = (record.sum(0, 5, 14), record.sum(1_000, 5, 14));
        assert!(first.longest < Span::from_millis(120), "{first:?}");
        assert!(other.completions > 9 * 13_000, "{other:?}");
    }
}

/// A thousand tenants with goals that all ask for more than they can have, at one gate of three or
/// at all: each has its share.
#[test]
fn shares_of_a_thousand_tenants_with_goals_hold() {
    let share = |tenant: u32| 1 + tenant % 3;
    let goal = Span::from_millis(50);
    let tenants: Vec<Share> =
        (0..1_000).map(|one| Share { latency_goal: goal, ..tenant(share(one)) }).collect();
    let at = |one: u32| if one.is_multiple_of(4) { vec![0, 1, 2] } else { vec![one % 3] };
    let clients: Vec<Client> = (0..1_000)
        .flat_map(|one| at(one).into_iter().map(move |gate| closed(gate, one, 8)))
        .collect();
    let length = Span::from_secs(20);
    let record = Fleet { length, ..fleet(3, &tenants, &clients) }.run(server(64, 40_000));
    let all: u32 = (0..1_000).map(share).sum();
    let off = |one: u32| {
        let due = f64::from(share(one)) / f64::from(all);
        record.part(one as usize, 5, 20) / due - 1.0
    };
    let worst = (0..1_000).map(off).fold(0.0, |worst: f64, off| worst.max(off.abs()));
    assert!(worst < 0.05, "{worst:.3} of what is due");
    let done = (0..1_000).map(|one| record.sum(one, 5, 20).completions).sum::<u64>();
    assert!(done as f64 > 0.93 * 15.0 * 40_000.0, "{done}");
}

/// With as much to ask as the other, a target does not take the other's share.
#[test]
fn a_target_takes_nobodys_share() {
    let clients = [closed(0, 0, 64), closed(1, 1, 64)];
    for tenants in [[promised(30), tenant(1)], [promised(30), promised(100)]] {
        let record = fleet(2, &tenants, &clients).run(server(1, 450));
        assert_part(&record, 0, 0.5, 5..20, "equal shares");
    }
}

/// A network that parts for half a minute, in every way: nobody's slots change by more than a
/// twentieth, shares stay, and after it they are as before within five seconds.
#[test]
fn a_network_that_parts_changes_no_shares() {
    let clients = [closed(0, 0, 40), closed(2, 0, 40)];
    let narrow = (0..4).map(|gate| closed(gate, 1, 30));
    let clients: Vec<Client> = clients.into_iter().chain(narrow).collect();
    let cuts = [("one of four", 0..1), ("halves", 0..2)];
    for (what, side) in cuts {
        for is_both_ways in [true, false] {
            let cut = Cut { during: at_s(15)..at_s(45), side: side.clone(), is_both_ways };
            let length = Span::from_secs(60);
            let (whole, cuts) = (fleet(4, &[tenant(3), tenant(1)], &clients), vec![cut]);
            let record = Fleet { length, cuts, ..whole }.run(server(16, 2_000));
            let what = format!("{what}, both ways: {is_both_ways}");
            assert_part(&record, 0, 0.75, 5..15, &what);
            assert_part(&record, 0, 0.75, 50..60, &what);
            let part = record.part(0, 15, 50);
            assert!((part / 0.75 - 1.0).abs() < 0.05, "{what}: {part:.3} while it is parted");
            let [before, during] =
                [(12, 15), (17, 45)].map(|(from, until)| rate_of_all(&record, from, until));
            assert!(during > 0.95 * before, "{what}: {during:.0} of {before:.0} a second");
        }
    }
}

/// In steady load slots stand still, but for the next step of the depth that is tried now and then.
#[test]
fn slots_do_not_swing_in_steady_load() {
    let clients: Vec<Client> =
        (0..4).flat_map(|gate| [closed(gate, 0, 20), closed(gate, 1, 20)]).collect();
    let length = Span::from_secs(60);
    let record = Fleet { length, ..fleet(4, &[tenant(3), tenant(1)], &clients) };
    let record = record.run(server(16, 2_000));
    for gate in 0..4 {
        let mut slots: Vec<u64> = record.slots_milli[100..].iter().map(|all| all[gate]).collect();
        slots.sort_unstable();
        let (least, median) = (slots[0] as f64, slots[slots.len() / 2] as f64);
        let most = slots[slots.len() - 1] as f64;
        assert!(most < 2.1 * least, "gate {gate}: {least} to {most} thousandths of slots");
        let is_still = |slots: &&u64| (**slots as f64 / median - 1.0).abs() < 0.05;
        let still = slots.iter().filter(is_still).count() as f64 / slots.len() as f64;
        assert!(still > 0.8, "gate {gate}: within 5 % of {median} for {still:.2} of the time");
    }
}

/// Requests answered in a second.
fn rate_of_all(record: &Record, from: u64, until: u64) -> f64 {
    let completions = |tenant| record.sum(tenant, from, until).completions as f64;
    (0..record.tenants.len()).map(completions).sum::<f64>() / (until - from) as f64
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let clients = [Client::reads(0, 0, Asks::Open(100.0)), closed(1, 1, 32)];
    let run = || fleet(2, &[promised(30), tenant(1)], &clients).run(server(1, 450));
    assert_eq!(run(), run());
}

/// Requests a second of a tenant from second 5 on.
fn rate(record: &Record, tenant: usize) -> f64 {
    record.sum(tenant, 5, 20).completions as f64 / 15.0
}

#[test]
fn a_floor_counts_over_all_gates() {
    let floor = Floor { rate_iops: 200, rate_bytes: 0 };
    let tenants = [Share { floor, ..tenant(1) }, tenant(9)];
    for places in [&[0][..], &[0, 1, 2]] {
        let mut clients: Vec<Client> = places.iter().map(|gate| closed(*gate, 0, 64)).collect();
        clients.extend((0..3).map(|gate| closed(gate, 1, 64)));
        let record = fleet(3, &tenants, &clients).run(server(1, 450));
        // Without a floor it would be 45.
        let rate = rate(&record, 0);
        assert!((rate / 200.0 - 1.0).abs() < 0.05, "{rate} a second, at {places:?}");
        assert_eq!(record.below_floor, [0, 0], "{places:?}");
    }
}

#[test]
fn a_floor_that_the_device_does_not_have_is_said_and_only_while_it_is_asked_for() {
    let floor = |rate_iops| Share { floor: Floor { rate_iops, rate_bytes: 0 }, ..tenant(1) };
    let begins = Client { from: at_s(10), ..closed(0, 0, 64) };
    let quiet = Client::reads(2, 0, Asks::Open(20.0));
    for (client, periods) in [(begins, 20..=35), (quiet, 0..=0)] {
        let clients = [client, closed(0, 1, 64), closed(1, 1, 64)];
        let record = fleet(3, &[floor(900), tenant(1)], &clients).run(server(1, 450));
        // From the fourth second after it begins to ask to the end of twenty.
        assert!(periods.contains(&record.below_floor[0]), "{:?}", record.below_floor);
    }
}

#[test]
fn a_limit_counts_over_all_gates() {
    let limit = Limit { rate_iops: 120, burst_requests: 12, ..Limit::default() };
    let tenants = [Share { limit, ..tenant(1) }, tenant(1)];
    let quiet = Client::reads(2, 0, Asks::Open(20.0));
    let settings: [(&[Client], f64); 4] = [
        (&[closed(0, 0, 32)], 120.0),
        (&[closed(0, 0, 32), closed(1, 0, 8), closed(2, 0, 1)], 120.0),
        (&[closed(0, 0, 32), quiet], 120.0),
        (&[quiet], 20.0),
    ];
    for (limited, expected) in settings {
        let mut clients = limited.to_vec();
        clients.extend((0..3).map(|gate| closed(gate, 1, 64)));
        let record = fleet(3, &tenants, &clients).run(server(8, 2_000));
        let (rate, other) = (rate(&record, 0), rate(&record, 1));
        // Fifteen seconds of 20 at random times a second differ by a tenth.
        let off = if limited.len() == 1 && expected < 100.0 { 0.15 } else { 0.05 };
        assert!((rate / expected - 1.0).abs() < off, "{rate} a second of {expected}: {limited:?}");
        assert!(other > 0.92 * (2_000.0 - expected), "{other} a second beside {limited:?}");
    }
}

/// How far the tenant that is furthest off is from its due in these seconds, in parts of it.
fn error(fleet: &Fleet, record: &Record, seconds: std::ops::Range<u64>) -> f64 {
    let shares = fleet.tenants.iter().map(|share| f64::from(share.weight_milli));
    let all: f64 = shares.clone().sum();
    let part = |tenant| record.part(tenant, seconds.start, seconds.end);
    let off = |(tenant, share): (usize, f64)| (part(tenant) * all / share - 1.0).abs();
    shares.enumerate().map(off).fold(0.0, f64::max)
}

/// What came of drawn fleets over ten seconds from the tenth on.
fn errors(method: Method, seeds: std::ops::Range<u64>) -> Vec<f64> {
    let run = |seed| {
        let (fleet, device) = draw(seed, method, Span::from_secs(20));
        let record = fleet.run(device);
        error(&fleet, &record, 10..20)
    };
    seeds.map(run).collect()
}

/// The same for fleets whose network parts in the 20th second, for 5 to 30 seconds, at any place
/// and one way or both: before that, meanwhile, and in the ten seconds from the fifth after it.
fn errors_of_parted(seeds: std::ops::Range<u64>) -> [Vec<f64>; 3] {
    let run = |seed: u64| {
        let mut prng = Prng::new(!seed);
        let (whole, device) = draw(seed, Method::Shares, Span::from_secs(65));
        let until = 20 + 5 + prng.below(26);
        let side = 1 + u32::try_from(prng.below(u64::from(whole.gates - 1))).expect("few");
        let cut =
            Cut { during: at_s(20)..at_s(until), side: 0..side, is_both_ways: prng.below(2) == 0 };
        let fleet = Fleet { cuts: vec![cut], ..whole };
        let record = fleet.run(device);
        [10..20, 20..until, until + 5..until + 15].map(|seconds| error(&fleet, &record, seconds))
    };
    let runs: Vec<[f64; 3]> = seeds.map(run).collect();
    [0, 1, 2].map(|when| runs.iter().map(|run| run[when]).collect())
}

/// Prints how far errors reach; which parts of them are within 5, 10 and 20 %.
fn shown(what: &str, errors: &mut [f64]) -> [f64; 3] {
    let [median, ninth, worst] = [50, 90, 100].map(|percent| percentile(errors, percent));
    let within = |most: f64| {
        errors.iter().filter(|error| **error <= most).count() as f64 / errors.len() as f64
    };
    let parts = [0.05, 0.1, 0.2].map(within);
    println!("{what}: within 5, 10, 20 % {parts:.2?}, median {median:.3}, {ninth:.3}, {worst:.3}");
    parts
}

#[expect(clippy::disallowed_methods, reason = "how many fleets to draw")]
fn fleets() -> u64 {
    std::env::var("EVENKEEL_FLEETS").map_or(20, |count| count.parse().expect("a number"))
}

/// Twenty fleets, or as many as `EVENKEEL_FLEETS` says, none of them known while the controller was
/// fitted; docs/decisions/0035 has the figures of a thousand.
#[test]
fn shares_hold_over_fleets_drawn_at_random() {
    let count = fleets();
    for (method, least) in [(Method::Shares, 0.8), (Method::Slack, 0.0)] {
        let mut errors = errors(method, 100_000..100_000 + count);
        let parts = shown(method.name(), &mut errors);
        assert!(parts[1] >= least, "{}: {parts:?}", method.name());
    }
}

/// As many, each with a network that parts once.
#[test]
fn shares_hold_over_fleets_whose_network_parts() {
    let [mut before, mut parted, mut after] = errors_of_parted(200_000..200_000 + fleets());
    shown("before", &mut before);
    // Nothing is promised where fewer are cut off than go on: who is not heard may have died.
    shown("parted", &mut parted);
    let [_, after, _] = shown("after", &mut after);
    assert!(after >= 0.8, "{after:.2} within 10 % after it");
}

/// A server whose requests of 8 KiB lie on a disk of their own, as an export does that somebody has
/// put there.
struct TwoDisks([Constant; 2]);

impl Device for TwoDisks {
    fn size_bytes(&self) -> u64 {
        self.0[0].size_bytes()
    }

    fn submit(&mut self, now: Nanos, op: Op) {
        self.0[usize::from(op.length == 8192)].submit(now, op);
    }

    fn poll(&mut self, now: Nanos) -> Step {
        match self.0[0].poll(now) {
            Step::Done { tag, outcome } => Step::Done { tag, outcome },
            first => match (first, self.0[1].poll(now)) {
                (_, Step::Done { tag, outcome }) => Step::Done { tag, outcome },
                (Step::WaitUntil(one), Step::WaitUntil(other)) => Step::WaitUntil(one.min(other)),
                (Step::Idle, other) => other,
                (one, _) => one,
            },
        }
    }
}

/// A tenant whose export answers after a second, at another gate, costs its neighbour nothing of
/// the half that it would have beside an honest one.
#[test]
fn an_export_that_is_slow_takes_no_slots_from_another_gate() {
    let slow = Client { size_bytes: 8192, ..closed(1, 1, 256) };
    let disks = TwoDisks([server(32, 8_000), server(256, 256)]);
    let record = fleet(2, &[tenant(1), tenant(1)], &[closed(0, 0, 256), slow]).run(disks);
    assert!(rate(&record, 0) > 4_000.0, "{} a second", rate(&record, 0));
}
