//! Profiles of published traces: every figure that was published, and where.
//!
//! What was not published is chosen and not compared: the skew of the enterprise traces, the shape
//! of their bursts, which sizes make up a mean. The choices follow what real traces of the kind
//! show; a study that depends on one of them should vary it. Where somebody has counted the blocks
//! that an enterprise trace touches, objects and skew are such that so many are touched, by what
//! Zipf's law leads to expect.

use evenkeel_core::time::Span;

use super::arrivals::{ArrivalProfile, Phases, Wave};
use super::profile::{PlaceProfile, Profile, SourceProfile};
use super::sizes::SizeMix;
use super::targets::{Figure, Target};

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;

/// The `UMass` trace repository's own counts, as listed in the notes of storage benchmarks.
const UMASS: &str = "UMass trace repository (SPC format), whole trace";
/// Lengths and mean sizes as literature quotes them, for lack of a first source.
const UMASS_QUOTED: &str = "commonly quoted of the whole trace";
/// LRU hits of the whole trace, by bytes of cache, from the same notes as the counts.
const UMASS_HITS: &str = "benchmark notes on the UMass trace repository, whole trace";
/// Computed with this crate's statistics.
const UMASS_WEB_START: &str = "first 50,000 requests of WebSearch1";
const UMASS_FINANCIAL_START: &str = "first 50,000 requests of Financial1";
/// The slice is cut from a trace that Microsoft recorded.
const TPCC_SLICE: &str = "0.14 s of a recorded TPC-C run, 6,999 requests on 16 devices";
/// The table of traces in the talk.
const GECKO: &str = "Gecko: contention-oblivious disk arrays (FAST 2013), slides, table of traces";
const GECKO_RATE: &str = "the table's count over the trace's length: 7 days for the MSR servers, \
                          24 hours for the others, 6 hours for MSNFS";
/// Volumes that it does not list are small beside those of the same server that it does.
const MSR_BLOCKS: &str = "different blocks of 4 KiB in the MSR volumes, as the benchmark of \
                          FrozenHot Cache (EuroSys 2023) lists them, whole traces";

/// Every profile, the nine enterprise traces last.
pub fn profiles() -> Vec<Profile> {
    let mut all = vec![web_search(), financial(), tpcc_like()];
    all.extend(ENTERPRISE.iter().map(EnterpriseRow::profile));
    all
}

/// The profile of a name.
pub fn profile(name: &str) -> Option<Profile> {
    profiles().into_iter().find(|profile| profile.name == name)
}

fn target(figure: Figure, value: f64, tolerance: f64, source: &str) -> Target {
    Target { figure, value, tolerance, source: source.to_owned(), requests_min: 0 }
}

/// A target that only the whole trace can meet.
fn whole(requests: u64, target: Target) -> Target {
    Target { requests_min: requests, ..target }
}

fn sources(weights: impl IntoIterator<Item = f64>) -> Vec<SourceProfile> {
    let named = |(index, weight): (usize, f64)| SourceProfile { name: index.to_string(), weight };
    weights.into_iter().enumerate().map(named).collect()
}

/// A search engine's index servers: reads of 8 to 32 KiB, hardly ever the same twice.
///
/// The whole trace reuses more between 512 and 1024 MiB than objects of any one skew can, so that
/// the last target is missed by half; the others, and the number of different places, are met.
fn web_search() -> Profile {
    let kib = |size: u64, weight: f64| (size * KIB, weight);
    Profile {
        name: "websearch".to_owned(),
        origin: "WebSearch1 of the UMass trace repository: a search engine's disks".to_owned(),
        // Three of six units carry nearly all of the sister trace WebSearch2.
        sources: sources([1.0, 1.0, 1.0]),
        read_share: 0.9998,
        read_sizes: SizeMix {
            sizes: vec![kib(8, 0.598), kib(16, 0.117), kib(24, 0.083), kib(32, 0.202)],
        },
        write_sizes: SizeMix::fixed(8 * KIB),
        arrivals: ArrivalProfile {
            rate_per_second: 335.0,
            gap_variation: 1.15,
            wave: Some(Wave { variation: 0.19, memory: Span::from_secs(3) }),
            phases: None,
        },
        places: PlaceProfile {
            device_bytes: 5_700 * MIB,
            alignment_bytes: 8 * KIB,
            objects: 500_000,
            object_bytes: 32 * KIB,
            skew: 0.2,
            ranks_each: 1,
            sequential_share: 0.06,
        },
        targets: vec![
            target(Figure::ReadShare, 1_055_236.0 / 1_055_448.0, 0.001, UMASS),
            target(Figure::RatePerSecond, 335.0, 0.05, UMASS_QUOTED),
            target(Figure::ReadBytesMean, 15_509.0, 0.02, UMASS_WEB_START),
            target(Figure::GapVariation, 1.27, 0.15, UMASS_WEB_START),
            target(Figure::Dispersion(Span::from_millis(100)), 2.12, 0.3, UMASS_WEB_START),
            target(Figure::Dispersion(Span::from_secs(1)), 11.9, 0.3, UMASS_WEB_START),
            target(Figure::Dispersion(Span::from_secs(10)), 42.6, 0.4, UMASS_WEB_START),
            target(Figure::SequentialShare, 0.060, 0.1, UMASS_WEB_START),
            whole(1_000_000, target(Figure::LruHitShare(131_072), 0.045, 0.5, UMASS_HITS)),
            whole(1_000_000, target(Figure::LruHitShare(262_144), 0.2, 0.5, UMASS_HITS)),
        ],
    }
}

/// A bank's transactions: small writes, the same places again and again.
fn financial() -> Profile {
    Profile {
        name: "financial".to_owned(),
        origin: "Financial1 of the UMass trace repository: transactions of a bank".to_owned(),
        // By count, the units of the trace's first 10,000 requests.
        sources: sources([
            1013.0, 828.0, 684.0, 638.0, 355.0, 126.0, 130.0, 168.0, 272.0, 307.0, 680.0, 73.0,
            168.0, 410.0, 326.0, 61.0, 658.0, 8.0, 220.0, 1435.0, 1435.0, 5.0,
        ]),
        read_share: 0.2316,
        read_sizes: SizeMix::with_mean(512, 16 * KIB, 3.6 * 1024.0),
        write_sizes: SizeMix::with_mean(512, 16 * KIB, 3.6 * 1024.0),
        arrivals: ArrivalProfile {
            rate_per_second: 122.0,
            gap_variation: 1.7,
            wave: Some(Wave { variation: 0.36, memory: Span::from_millis(2_500) }),
            phases: None,
        },
        places: PlaceProfile {
            device_bytes: 2_048 * MIB,
            alignment_bytes: 512,
            objects: 2_000_000,
            object_bytes: 4 * KIB,
            skew: 1.17,
            ranks_each: 1,
            sequential_share: 0.01,
        },
        targets: vec![
            target(Figure::ReadShare, 1_235_633.0 / 5_334_987.0, 0.02, UMASS),
            target(Figure::RatePerSecond, 122.0, 0.05, UMASS_QUOTED),
            target(Figure::BytesMean, 3.6 * 1024.0, 0.02, UMASS_QUOTED),
            target(Figure::GapVariation, 2.38, 0.3, UMASS_FINANCIAL_START),
            target(Figure::Dispersion(Span::from_millis(100)), 3.3, 0.3, UMASS_FINANCIAL_START),
            target(Figure::Dispersion(Span::from_secs(1)), 17.5, 0.3, UMASS_FINANCIAL_START),
            target(Figure::Dispersion(Span::from_secs(10)), 63.3, 0.4, UMASS_FINANCIAL_START),
            whole(5_000_000, target(Figure::LruHitShare(25_600), 0.72, 0.1, UMASS_HITS)),
            whole(5_000_000, target(Figure::LruHitShare(131_072), 0.84, 0.1, UMASS_HITS)),
            whole(5_000_000, target(Figure::LruHitShare(262_144), 0.88, 0.1, UMASS_HITS)),
        ],
    }
}

/// An order-entry benchmark: pages of 8 KiB on many devices, in bursts.
fn tpcc_like() -> Profile {
    Profile {
        name: "tpcc".to_owned(),
        origin: "like TPC-C: mix, sizes and devices of a recorded slice; rate and bursts chosen \
                 for comparisons, 240 and 700 requests a second in turn"
            .to_owned(),
        sources: sources([1.0; 16]),
        read_share: 0.626,
        read_sizes: SizeMix::with_mean(8 * KIB, 16 * KIB, 8_289.0),
        write_sizes: SizeMix::with_mean(8 * KIB, 32 * KIB, 8_939.0),
        arrivals: ArrivalProfile {
            rate_per_second: 470.0,
            gap_variation: 1.07,
            wave: Some(Wave { variation: 0.2, memory: Span::from_secs(1) }),
            phases: Some(Phases {
                busy: Span::from_secs(5),
                quiet: Span::from_secs(5),
                quiet_level: 240.0 / 700.0,
            }),
        },
        places: PlaceProfile {
            device_bytes: 13_800 * MIB,
            alignment_bytes: 8 * KIB,
            objects: 4_000_000,
            object_bytes: 8 * KIB,
            skew: 0.7,
            ranks_each: 1,
            sequential_share: 0.01,
        },
        targets: vec![
            target(Figure::ReadShare, 0.626, 0.02, TPCC_SLICE),
            target(Figure::ReadBytesMean, 8_289.0, 0.01, TPCC_SLICE),
            target(Figure::WriteBytesMean, 8_939.0, 0.01, TPCC_SLICE),
            target(Figure::SpanBytes, 216.0 * 1_073_741_824.0, 0.05, TPCC_SLICE),
        ],
    }
}

/// A row of the talk's table, and how many volumes the traced server had where that is known
/// (Write off-loading, FAST 2008, table 1, for the MSR servers); four otherwise.
struct EnterpriseRow {
    name: &'static str,
    read_percent: f64,
    read_kib_mean: f64,
    write_kib_mean: f64,
    rate_per_second: f64,
    span_gb: u64,
    volumes: usize,
    /// Requests of the whole trace, and the different blocks of 4 KiB that they touch, where
    /// somebody has counted these.
    touched: Option<(u64, u64)>,
    /// Objects and skew: fitted to what is touched; chosen where nobody has counted.
    objects: u64,
    skew: f64,
}

#[rustfmt::skip]
const ENTERPRISE: [EnterpriseRow; 9] = [
    row("prxy",          61.2, 12.3, 11.6,   300.0,   136, 2)
        .touching(181_157_932, 3_824_259).by(92_000, 0.9),
    row("src1",          76.6, 35.8, 46.6,   141.0,   820, 3)
        .touching(85_069_608, 63_332_985).by(1_690_000, 0.9),
    row("proj",          84.8, 36.4, 35.7,   109.0, 4_102, 5)
        .touching(65_841_031, 323_075_937).by(20_200_000, 0.55),
    row("exchange",      43.0, 11.9, 13.8,   708.0, 4_822, 4),
    row("usr",           87.6, 52.1, 14.0,    96.0, 2_461, 3)
        .touching(58_091_915, 272_138_499).by(19_000_000, 0.8),
    row("livemapsbe",    78.9, 53.0, 61.9,   518.0, 6_737, 4),
    row("msnfs",         67.2, 10.7, 11.1, 1_359.0, 1_424, 4),
    row("devdivrelease", 67.7, 21.4, 31.4,   211.0, 4_620, 4),
    row("prn",           53.9, 22.4, 10.4,    28.0,   770, 2)
        .touching(16_819_297, 25_096_257).by(5_970_000, 0.9),
];

const fn row(
    name: &'static str,
    read_percent: f64,
    read_kib_mean: f64,
    write_kib_mean: f64,
    rate_per_second: f64,
    span_gb: u64,
    volumes: usize,
) -> EnterpriseRow {
    EnterpriseRow {
        name,
        read_percent,
        read_kib_mean,
        write_kib_mean,
        rate_per_second,
        span_gb,
        volumes,
        touched: None,
        objects: 1_000_000,
        skew: 0.9,
    }
}

impl EnterpriseRow {
    const fn touching(self, requests: u64, blocks: u64) -> Self {
        Self { touched: Some((requests, blocks)), ..self }
    }

    const fn by(self, objects: u64, skew: f64) -> Self {
        Self { objects, skew, ..self }
    }

    fn profile(&self) -> Profile {
        let (read_mean, write_mean) = (self.read_kib_mean * 1024.0, self.write_kib_mean * 1024.0);
        let span_bytes = self.span_gb * 1_000_000_000;
        let footprint = self.touched.map(|(requests, blocks)| {
            whole(requests, target(Figure::FootprintBlocks, blocks as f64, 0.2, MSR_BLOCKS))
        });
        Profile {
            name: self.name.to_owned(),
            origin: format!("the enterprise trace {} of the Gecko talk", self.name),
            sources: sources(vec![1.0; self.volumes]),
            read_share: self.read_percent / 100.0,
            read_sizes: SizeMix::with_mean(4 * KIB, 128 * KIB, read_mean),
            write_sizes: SizeMix::with_mean(4 * KIB, 128 * KIB, write_mean),
            arrivals: ArrivalProfile {
                rate_per_second: self.rate_per_second,
                gap_variation: 2.0,
                wave: Some(Wave { variation: 0.5, memory: Span::from_secs(1) }),
                phases: Some(Phases {
                    busy: Span::from_secs(2),
                    quiet: Span::from_secs(4),
                    quiet_level: 0.4,
                }),
            },
            places: PlaceProfile {
                device_bytes: (span_bytes / self.volumes as u64) & !(64 * KIB - 1),
                alignment_bytes: 4 * KIB,
                objects: self.objects,
                object_bytes: 64 * KIB,
                skew: self.skew,
                ranks_each: 1,
                // The median of 106 virtual machines of the CloudPhysics traces.
                sequential_share: 0.22,
            },
            targets: vec![
                target(Figure::ReadShare, self.read_percent / 100.0, 0.02, GECKO),
                target(Figure::ReadBytesMean, read_mean, 0.02, GECKO),
                target(Figure::WriteBytesMean, write_mean, 0.02, GECKO),
                target(Figure::RatePerSecond, self.rate_per_second, 0.2, GECKO_RATE),
                target(Figure::SpanBytes, span_bytes as f64, 0.02, GECKO),
            ]
            .into_iter()
            .chain(footprint)
            .collect(),
        }
    }
}
