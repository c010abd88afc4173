//! The price of reading a trace, per record, and of simulating a cache with LRU, per access. The
//! aims are 5 million of either a second.
//!
//! `cargo bench -p evenkeel-bench --bench traces` measures; as a test (`cargo test --benches`) each
//! measurement is made once. Unpacking is not part of it: `evenkeel-bench offline` measures whole
//! processes.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use evenkeel_trace::cache::{Algorithm, Blocks, Simulation};
use evenkeel_trace::codec::{Decoder, PIECE_BYTES_MAX};
use evenkeel_trace::format::{Format, Options};
use evenkeel_trace::generate::{Generator, Limit, profile};
use evenkeel_trace::{Record, Sources};

const RECORDS: u64 = 100_000;

/// Small requests of skewed (Zipf) popularity, most of them writes.
const PROFILE: &str = "financial";

/// A size that holds all blocks of the trace, so that nearly every access hits, and a small one.
const CAPACITIES: [usize; 2] = [65_536, 1_024];

fn records() -> (Sources, Vec<Record>) {
    let profile = profile(PROFILE).expect("it is published");
    let limit = Limit { count: Some(RECORDS), ..Limit::default() };
    let mut generator = Generator::new(&profile, 1, limit).expect("published profiles are right");
    let records = generator.by_ref().collect();
    (generator.sources().clone(), records)
}

fn encoded(format: Format, sources: &Sources, records: &[Record]) -> Vec<u8> {
    let mut encoder = format.encoder(&Options::default()).expect("it can be written");
    let mut bytes = Vec::new();
    for record in records {
        encoder.encode(sources, record, &mut bytes).expect("every format holds reads and writes");
    }
    encoder.finish(&mut bytes);
    bytes
}

/// Decodes piece by piece, as a reader of files does; returns how many records there were.
fn decode(decoder: &mut dyn Decoder, input: &[u8], records: &mut Vec<Record>) -> usize {
    let (mut used, mut count) = (0, 0);
    loop {
        let end = input.len().min(used + PIECE_BYTES_MAX);
        let is_end = end == input.len();
        used += decoder.decode(&input[used..end], is_end, records).expect("we wrote it");
        count += records.len();
        records.clear();
        if is_end {
            return count;
        }
    }
}

fn readers(criterion: &mut Criterion) {
    let (sources, trace) = records();
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(RECORDS));
    for format in [Format::Msr, Format::Native, Format::Iolog3] {
        let bytes = encoded(format, &sources, &trace);
        let mut records = Vec::new();
        group.bench_function(format.name(), |b| {
            b.iter(|| {
                let mut decoder = format.decoder(&Options::default());
                decode(decoder.as_mut(), black_box(&bytes), &mut records)
            });
        });
    }
    group.finish();
}

fn caches(criterion: &mut Criterion) {
    let (_, trace) = records();
    let blocks = Blocks::default();
    let accesses: Vec<u64> = trace.iter().flat_map(|record| blocks.of(record)).collect();
    let mut group = criterion.benchmark_group("lru");
    group.throughput(Throughput::Elements(accesses.len() as u64));
    for capacity in CAPACITIES {
        let mut lru = Simulation::new(Algorithm::Lru, capacity);
        group.bench_function(capacity.to_string(), |b| {
            b.iter(|| accesses.iter().for_each(|&block| lru.access(block)));
        });
    }
    group.finish();
}

criterion_group!(benches, readers, caches);
criterion_main!(benches);
