//! What can be worked out by hand, and that the same seed gives the same run.

use evenkeel_core::place::cluster::GroupOptions;
use evenkeel_core::place::policy::local::Local;
use evenkeel_core::place::policy::memory::Memory;

use super::*;

const MIB: u64 = 1 << 20;

/// Three machines with five servers each, whose links are the narrowest part.
fn machines() -> Machines {
    Machines {
        count: 3,
        servers_each: 5,
        link_bytes_per_s: 100_000_000,
        hop: Span::from_micros(100),
        cores: 8,
        work: Span::from_micros(50),
        seek: Span::from_millis(8),
        disk_bytes_per_s: 150_000_000,
        log: Span::from_micros(1_000),
        journal_bytes_per_s: 400_000_000,
        journal_bytes: 1 << 30,
        memory_bytes: 4 << 30,
        hogs: Vec::new(),
    }
}

fn work(pattern: Pattern) -> Work {
    Work {
        pattern,
        images: 6,
        image_objects: 200,
        request_bytes: MIB,
        object_bytes: 4 * MIB,
        depth: 16,
        settle: 20_000,
        measure: 10_000,
    }
}

fn played(machines: &Machines, replicas: usize, work: Work, placing: Placing<'_>) -> Served {
    let options = GroupOptions { group_bits: 9, replicas, seed: 1 };
    let map = GroupMap::new(&machines.members(), options).unwrap();
    play(&Serving { machines, map: &map, work, placing, seed: 7 })
}

fn local(members: &[Member], here: DomainId) -> Box<dyn Policy> {
    Box::new(Local::new(members, here))
}

fn memory(_: &[Member], _: DomainId) -> Box<dyn Policy> {
    Box::new(Memory { margin: 0.1 })
}

fn by<'a>(policy: &'a PolicyOf<'static>, knowledge: Knowledge) -> Placing<'a> {
    Placing::Choice { policy, knowledge }
}

const REPORTS: Knowledge = Knowledge::Reports(Span::from_millis(100));

#[test]
fn near_primaries_take_traffic_from_the_links_by_the_odds_of_two_candidates() {
    let machines = machines();
    let far = played(&machines, 1, work(Pattern::RandomReads), Placing::Hashing);
    let near = played(&machines, 1, work(Pattern::RandomReads), by(&local, REPORTS));
    // Of one candidate two thirds are far, of two both with four ninths.
    assert!((far.crossing_part - 2.0 / 3.0).abs() < 0.03, "{far:?}");
    assert!((near.crossing_part - 4.0 / 9.0).abs() < 0.03, "{near:?}");
    let gain = near.bytes_per_s / far.bytes_per_s;
    assert!((gain - 1.5).abs() < 0.15, "{gain}: what crosses is the bound");
}

#[test]
fn copies_cross_whatever_is_chosen() {
    let machines = machines();
    let far = played(&machines, 2, work(Pattern::RandomWrites), Placing::Hashing);
    let near = played(&machines, 2, work(Pattern::RandomWrites), by(&local, REPORTS));
    assert!((far.traffic - 5.0 / 3.0).abs() < 0.05, "{far:?}");
    assert!((near.traffic - 13.0 / 9.0).abs() < 0.05, "{near:?}");
}

#[test]
fn objects_beside_a_memory_hog_are_avoided_and_reads_come_from_memory() {
    let mut machines = machines();
    machines.link_bytes_per_s = 1_250_000_000;
    machines.hogs = vec![Hog { machine: 1, memory_bytes: 4 << 30, cores: 0 }];
    let base = played(&machines, 1, work(Pattern::RandomReads), Placing::Hashing);
    let avoided = played(&machines, 1, work(Pattern::RandomReads), by(&memory, REPORTS));
    assert!((base.cached_part - 2.0 / 3.0).abs() < 0.05, "{base:?}");
    assert!((avoided.cached_part - 8.0 / 9.0).abs() < 0.05, "{avoided:?}");
    assert!(avoided.bytes_per_s > base.bytes_per_s, "{base:?} {avoided:?}");
}

#[test]
fn only_first_accesses_are_probed_and_reports_need_none() {
    let machines = machines();
    let few = Work { settle: 0, measure: 3_000, ..work(Pattern::RandomWrites) };
    let asked = played(&machines, 1, few, by(&memory, Knowledge::Probes));
    let told = played(&machines, 1, few, by(&memory, REPORTS));
    // 1,200 objects are there, and 3,000 draws leave 8 % of them out.
    assert!((asked.probed_part - 0.37).abs() < 0.03, "{asked:?}");
    assert_eq!(told.probed_part.to_bits(), 0.0f64.to_bits());
}

#[test]
fn one_client_and_nobody_else_takes_the_sum_of_the_parts() {
    let machines = Machines { count: 1, ..machines() };
    let few = Work { settle: 0, measure: 100, ..work(Pattern::RandomWrites) };
    let alone = Work { images: 1, depth: 1, ..few };
    let served = played(&machines, 1, alone, Placing::Hashing);
    // A processor and a journal, which is never full: 50 us, 1 ms, and 1 MiB at 400 MB/s.
    assert!((served.latency_mean_s - 3.671e-3).abs() < 1e-5, "{served:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let machines = machines();
    let run = || played(&machines, 2, work(Pattern::SequentialWrites), by(&memory, REPORTS));
    assert_eq!(run(), run());
}
