//! Generators against their targets, and against themselves.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use proptest::prelude::*;

use super::*;
use crate::Record;
use crate::statistics::{Statistics, StatisticsOptions, Summary};

fn generated(profile: &Profile, seed: u64, count: u64) -> Generator {
    let limit = Limit { count: Some(count), duration: None };
    Generator::new(profile, seed, limit).unwrap()
}

fn summary(records: impl Iterator<Item = Record>) -> Summary {
    let mut statistics = Statistics::new(StatisticsOptions::default());
    records.for_each(|record| statistics.add(&record));
    statistics.summary().unwrap()
}

#[test]
fn every_published_profile_meets_its_targets_at_200_000_requests() {
    for profile in profiles() {
        let summary = summary(generated(&profile, 1, 200_000));
        for row in profile.compare(&summary) {
            assert!(row.holds(), "{}: {row:?}", profile.name);
        }
    }
}

#[test]
fn a_seed_determines_the_trace() {
    for profile in profiles() {
        let records: Vec<Record> = generated(&profile, 7, 500).collect();
        assert!(generated(&profile, 7, 500).eq(records.iter().copied()), "{}", profile.name);
        assert!(!generated(&profile, 8, 500).eq(records.iter().copied()), "{}", profile.name);
    }
}

/// The same in every build and on every machine: a hash of the first records, recorded once.
#[test]
fn the_published_profiles_are_frozen() {
    let hash = |profile: &Profile| {
        generated(profile, 1, 2_000).fold(0u64, |hash, record| {
            let fields = [record.at.0, u64::from(record.source.0), record.offset, record.length];
            fields.iter().fold(hash ^ u64::from(record.kind == Kind::Read), |hash, field| {
                (hash.rotate_left(5) ^ field).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            })
        })
    };
    let hashes: Vec<u64> = profiles().iter().map(hash).collect();
    assert_eq!(hashes, FROZEN);
}

const FROZEN: [u64; 12] = [
    13_957_884_307_631_241_509,
    3_672_160_352_681_567_777,
    12_995_702_505_733_683_184,
    7_182_014_648_313_504_250,
    16_157_801_997_292_151_740,
    16_015_402_601_929_201_836,
    4_424_035_916_319_890_662,
    5_818_379_442_561_271_334,
    5_854_356_001_560_176_286,
    9_425_978_857_311_936_970,
    6_041_656_391_643_793_307,
    9_509_366_332_789_227_714,
];

#[test]
fn names_are_unique_and_found() {
    for expected in profiles() {
        assert_eq!(profile(&expected.name), Some(expected));
    }
    assert_eq!(profile("nonesuch"), None);
}

#[test]
fn twice_the_rate_asks_for_the_same_places() {
    let slow = profile("financial").unwrap();
    let mut fast = slow.clone();
    fast.arrivals.rate_per_second *= 2.0;
    let places = |profile: &Profile| {
        let of = |record: Record| (record.source, record.kind, record.offset, record.length);
        generated(profile, 3, 1_000).map(of).collect::<Vec<_>>()
    };
    assert_eq!(places(&slow), places(&fast));
}

#[test]
fn a_duration_ends_the_trace() {
    let limit = Limit { count: None, duration: Some(Span::from_secs(10)) };
    let mut generator = Generator::new(&Profile::default(), 1, limit).unwrap();
    let count = generator.by_ref().inspect(|record| assert!(record.at.0 < 10_000_000_000)).count();
    assert!((900..1_100).contains(&count), "{count}");
    assert_eq!(generator.next(), None);
}

proptest! {
    #[test]
    fn records_come_in_order_and_fit_the_device(
        seed: u64,
        read_share in 0.0..=1.0f64,
        sequential_share in 0.0..0.99f64,
        skew in 0.0..2.0f64,
        sources in 1usize..4,
    ) {
        let mut profile = Profile { read_share, ..Profile::default() };
        profile.sources =
            vec![SourceProfile { name: "x".to_owned(), weight: 0.5 }; sources];
        profile.read_sizes = SizeMix { sizes: vec![(512, 1.0), (1 << 20, 2.0), (700, 1.0)] };
        profile.places.device_bytes = 3 << 20;
        profile.places.objects = 600;
        profile.places.skew = skew;
        profile.places.sequential_share = sequential_share;
        let mut last = Nanos::ZERO;
        for record in generated(&profile, seed, 300) {
            prop_assert!(record.at >= last);
            prop_assert!(record.offset % 4096 == 0 && record.length > 0);
            prop_assert!(record.offset + record.length <= 3 << 20);
            last = record.at;
        }
    }
}
