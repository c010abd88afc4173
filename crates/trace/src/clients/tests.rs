//! Clients whose kind is known, on a device that takes its time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::*;
use crate::SourceId;

const MS: u64 = 1_000_000;

fn sources() -> Sources {
    let mut sources = Sources::default();
    sources.intern("db/disk").expect("the first");
    sources
}

fn record(at: Nanos, response: Span) -> Record {
    let source = SourceId(0);
    Record { at, source, kind: Kind::Read, offset: 0, length: 4096, response: Some(response) }
}

fn one(records: &[Record]) -> Client {
    let length = Span(records.iter().map(|record| record.at.0).max().unwrap_or(0) + 1);
    let mut sorted = records.to_vec();
    sorted.sort_by_key(|record| record.at);
    of(sorted.iter(), &sources(), length).remove(0)
}

/// A closed loop of so many places, from one instant to another; each request takes 2 to 12 ms.
fn closed(depth: u32, think_ms: u64, active: Range<u64>, seed: u64) -> Vec<Record> {
    let mut prng = Prng::new(seed);
    let mut places: BinaryHeap<Reverse<u64>> =
        (0..depth).map(|_| Reverse(active.start * MS)).collect();
    let mut records = Vec::new();
    while let Some(Reverse(at)) = places.pop().filter(|place| place.0 < active.end * MS) {
        let response = Span(2 * MS) + prng.exponential(Span(5 * MS));
        records.push(record(Nanos(at), response));
        let think = match think_ms {
            0 => Span(20_000),
            some => prng.exponential(Span(some * MS)),
        };
        places.push(Reverse(at + response.0 + think.0));
    }
    records
}

/// So many requests a second at random, whatever becomes of them.
fn open(per_second: u64, seconds: u64, seed: u64) -> Vec<Record> {
    let mut prng = Prng::new(seed);
    let mut at = 0;
    let mut records = Vec::new();
    while at < seconds * 1000 * MS {
        at += prng.exponential(Span(1_000_000_000 / per_second)).0;
        records.push(record(Nanos(at), Span(2 * MS) + prng.exponential(Span(5 * MS))));
    }
    records
}

#[test]
fn places_are_counted_and_thinking_is_measured() {
    for (depth, think_ms) in [(1, 0), (8, 0), (64, 0), (4, 10), (16, 3), (1, 7)] {
        let client = one(&closed(depth, think_ms, 0..20_000, u64::from(depth)));
        assert!(client.is_closed, "{depth} places, {think_ms} ms: {client:?}");
        let [phase] = client.phases[..] else { panic!("one phase: {client:?}") };
        assert!(phase.depth == depth, "{depth} places, {think_ms} ms: {phase:?}");
        let think_ms_found = phase.think.0 as f64 / MS as f64;
        let off = (think_ms_found - think_ms as f64).abs();
        assert!(off < 0.1 + 0.2 * think_ms as f64, "{depth} places, {think_ms} ms: {phase:?}");
    }
}

#[test]
fn who_asks_whatever_comes_back_is_open() {
    for per_second in [1, 2, 3, 5, 8, 20, 100, 300, 2000] {
        let client = one(&open(per_second, 30, per_second));
        assert!(!client.is_closed, "{per_second} a second: {client:?}");
    }
}

#[test]
fn a_pace_is_open_though_it_never_piles_up() {
    let mut prng = Prng::new(3);
    for every_ms in [10, 1000] {
        let mut take = |n: u64| {
            let response = Span(MS) + prng.exponential(Span(2 * MS));
            record(Nanos(n * every_ms * MS), response)
        };
        let client = one(&(0..3000).map(&mut take).collect::<Vec<_>>());
        assert!(!client.is_closed, "every {every_ms} ms: {client:?}");
    }
}

#[test]
fn pauses_and_changes_end_a_phase() {
    let mut records = closed(8, 0, 0..10_000, 1);
    records.extend(closed(8, 0, 20_000..30_000, 2));
    records.extend(closed(24, 0, 40_000..60_000, 3));
    let client = one(&records);
    assert!(client.is_closed);
    let depths: Vec<u32> = client.phases.iter().map(|phase| phase.depth).collect();
    assert_eq!(depths, [8, 8, 24], "{client:?}");
    let starts: Vec<u64> = client.phases.iter().map(|phase| phase.start.0 / MS / 1000).collect();
    assert_eq!(starts, [0, 20, 40]);
    assert_eq!(client.depth_max(), 24);
}

#[test]
fn who_rests_every_moment_thinks() {
    let mut records = Vec::new();
    for start in (0..1_200_000).step_by(600) {
        records.extend(closed(2, 0, start..start + 300, start));
    }
    let client = one(&records);
    assert!(client.phases.len() <= 1000, "{}", client.phases.len());
    let requests: u64 = client.phases.iter().map(|phase| phase.requests).sum();
    assert_eq!(requests, records.len() as u64);
}

#[test]
fn of_nothing_nothing_is_said() {
    let clients = of([].iter(), &sources(), Span::from_secs(1));
    assert_eq!(clients, [Client { is_closed: false, evidence: 0.0, phases: Vec::new() }]);
}
