//! Every figure of the talk on bottleneck-aware allocation (Wang and Varman, FAST 2014) that the
//! fluid model can give. The fluid values are exact; the slides print rounded simulations.
//!
//! Slides 26 and 27 print a hit ratio of 0.95 for the second client. That cannot be: such a client
//! sends a twentieth of its requests to a device of 100 IOPS, so the fast one never serves more
//! than 1900 of its 5000. With 0.99 all printed figures come out; both are computed here.

use evenkeel_core::share::{self, Allocation, Discipline, Row};

use super::support::{PUBLISHED, assert_close, rates, tiers};
use crate::share::support::usual;

const EXACT: f64 = 1e-9;
/// How far the slides' simulations may be from the fluid.
const SLIDE: f64 = 0.03;

const FQ: Discipline = Discipline::FairQueuing;
const DRF: Discipline = Discipline::Drf;
const BAA: Discipline = PUBLISHED;

/// One row of the table: what goes in, what comes out.
struct Figure {
    slide: &'static str,
    capacities: [f64; 2],
    hit_ratios: &'static [f64],
    discipline: Discipline,
    rates: &'static [f64],
    utilisation: [f64; 2],
    /// Utilisation of the two devices as printed, where it is.
    printed: [Option<f64>; 2],
}

const fn figure(
    slide: &'static str,
    (capacities, hit_ratios): ([f64; 2], &'static [f64]),
    discipline: Discipline,
    rates: &'static [f64],
    utilisation: [f64; 2],
    printed: [Option<f64>; 2],
) -> Figure {
    Figure { slide, capacities, hit_ratios, discipline, rates, utilisation, printed }
}

const SLIDE_7: ([f64; 2], &[f64]) = ([100.0, 500.0], &[0.0, 0.0]);
const SLIDE_9: ([f64; 2], &[f64]) = ([100.0, 500.0], &[0.9, 0.5]);
const SLIDE_12: ([f64; 2], &[f64]) = ([100.0, 500.0], &[0.9, 0.5, 0.1]);
const SLIDE_16: ([f64; 2], &[f64]) = ([150.0, 300.0], &[4.0 / 9.0, 4.0 / 9.0, 5.0 / 6.0]);
const SLIDE_26: ([f64; 2], &[f64]) = ([100.0, 5000.0], &[0.5, 0.99]);
const SLIDE_27: ([f64; 2], &[f64]) = ([100.0, 5000.0], &[0.5, 0.99, 0.8]);
const SLIDE_28: ([f64; 2], &[f64]) = ([200.0, 3000.0], &[0.45, 0.95]);
const SLIDE_28_AFTER: ([f64; 2], &[f64]) = ([200.0, 3000.0], &[0.2, 0.95]);
const UNPRINTED: [Option<f64>; 2] = [None, None];

#[rustfmt::skip]
const TABLE: &[Figure] = &[
    figure("7", SLIDE_7, FQ,
        &[50.0, 50.0], [1.0, 0.0],
        [Some(1.0), None]),
    figure("9", SLIDE_9, FQ,
        &[500.0 / 3.0, 500.0 / 3.0], [1.0, 7.0 / 15.0],
        [Some(1.0), Some(0.47)]),
    figure("10", SLIDE_9, BAA,
        &[500.0, 100.0], [1.0, 1.0],
        [Some(1.0), Some(1.0)]),
    figure("11", SLIDE_9, DRF,
        &[2500.0 / 7.0, 900.0 / 7.0], [1.0, 27.0 / 35.0],
        [Some(1.0), Some(0.77)]),
    figure("12", SLIDE_12, DRF,
        &[5000.0 / 23.0, 1800.0 / 23.0, 1000.0 / 23.0], [1.0, 11.0 / 23.0],
        [Some(1.0), Some(0.48)]),
    figure("12", SLIDE_12, FQ,
        &[200.0 / 3.0, 200.0 / 3.0, 200.0 / 3.0], [1.0, 0.2],
        UNPRINTED),
    figure("12", SLIDE_12, BAA,
        &[1000.0 / 3.0, 200.0 / 3.0, 1000.0 / 27.0], [1.0, 91.0 / 135.0],
        UNPRINTED),
    figure("16", SLIDE_16, BAA,
        &[675.0 / 7.0, 675.0 / 7.0, 1800.0 / 7.0], [1.0, 1.0],
        UNPRINTED),
    figure("16", SLIDE_16, DRF,
        &[112.5, 112.5, 150.0], [1.0, 0.75],
        UNPRINTED),
    figure("26", SLIDE_26, FQ,
        &[10_000.0 / 51.0, 10_000.0 / 51.0], [1.0, 149.0 / 2550.0],
        [None, Some(0.07)]),
    figure("26", SLIDE_26, DRF,
        &[19_800.0 / 149.0, 500_000.0 / 149.0], [1.0, 504_900.0 / 745_000.0],
        [None, Some(0.65)]),
    figure("26", SLIDE_26, BAA,
        &[100.0, 5000.0], [1.0, 1.0],
        [None, Some(1.0)]),
    figure("27", SLIDE_27, FQ,
        &[10_000.0 / 71.0, 10_000.0 / 71.0, 10_000.0 / 71.0], [1.0, 22_900.0 / 355_000.0],
        [None, Some(0.06)]),
    figure("27", SLIDE_27, DRF,
        &[19_800.0 / 248.0, 500_000.0 / 248.0, 49_500.0 / 248.0], [1.0, 108_900.0 / 248_000.0],
        [None, Some(0.45)]),
    figure("27", SLIDE_27, BAA,
        &[200.0 / 3.0, 10_000.0 / 3.0, 500.0 / 3.0], [1.0, 52.0 / 75.0],
        [None, Some(0.71)]),
    figure("28 before", SLIDE_28, BAA,
        &[2000.0 / 11.0, 2000.0], [1.0, 21_800.0 / 33_000.0],
        UNPRINTED),
    figure("28 after", SLIDE_28_AFTER, BAA,
        &[125.0, 2000.0], [1.0, 77.0 / 120.0],
        UNPRINTED),
    figure("28 before", SLIDE_28, DRF,
        &[3800.0 / 18.7, 33_000.0 / 18.7], [1.0, 33_060.0 / 56_100.0],
        UNPRINTED),
    figure("28 after", SLIDE_28_AFTER, DRF,
        &[2375.0 / 17.0, 30_000.0 / 17.0], [1.0, 28_975.0 / 51_000.0],
        UNPRINTED),
];

/// The table as decimals, so that a slip in a fraction above cannot hide behind another.
const DECIMALS: &[(&str, &[f64])] = &[
    ("12", &[217.391, 78.261, 43.478]),
    ("12", &[333.333, 66.667, 37.037]),
    ("16", &[96.4286, 96.4286, 257.1429]),
    ("26", &[132.886, 3355.705]),
    ("27", &[79.839, 2016.129, 199.597]),
    ("28 before", &[181.818, 2000.0]),
    ("28 before", &[203.209, 1764.706]),
    ("28 after", &[139.706, 1764.706]),
];

#[test]
fn every_row_of_the_reference_table_comes_out() {
    for row in TABLE {
        let problem = tiers(row.capacities, row.hit_ratios);
        let rates = rates(&problem, row.discipline);
        let context = format!("slide {} {:?} {rates:?}", row.slide, row.discipline);
        println!("{context}");
        assert_close(&rates, row.rates, EXACT);
        let utilisation = problem.utilisation(&rates);
        assert_close(&utilisation, &row.utilisation, EXACT);
        for (printed, utilisation) in row.printed.iter().zip(utilisation) {
            assert!(
                printed.is_none_or(|printed| (printed - utilisation).abs() < SLIDE),
                "{context}"
            );
        }
    }
    for (slide, decimals) in DECIMALS {
        let found = TABLE.iter().any(|row| {
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 6e-4;
            row.slide == *slide && row.rates.iter().zip(*decimals).all(near)
        });
        assert!(found, "slide {slide} {decimals:?}");
    }
}

#[test]
fn the_usual_options_change_none_of_it() {
    for row in TABLE.iter().filter(|row| row.discipline == BAA) {
        assert_close(&rates(&tiers(row.capacities, row.hit_ratios), usual()), row.rates, EXACT);
    }
}

#[test]
fn fair_shares_of_slide_16_are_as_printed() {
    let problem = tiers(SLIDE_16.0, SLIDE_16.1);
    let shares: Vec<f64> = (0..3).map(|client| problem.fair_share_iops(client)).collect();
    assert_close(&shares, &[90.0, 90.0, 120.0], EXACT);
}

fn baa((capacities, hit_ratios): ([f64; 2], &[f64])) -> Allocation {
    share::solve(&tiers(capacities, hit_ratios), BAA, &[])
}

#[test]
fn levels_are_those_of_the_paper() {
    let levels = |input| baa(input).levels.into_iter().flatten().collect::<Vec<f64>>();
    assert_close(&levels(SLIDE_9), &[1.0, 1.8], EXACT);
    assert_close(&levels(SLIDE_12), &[1.0, 1.8], EXACT);
    assert_close(&levels(SLIDE_16), &[15.0 / 14.0, 15.0 / 7.0], EXACT);
    assert_close(&levels(SLIDE_26), &[1.0, 1.98], EXACT);
    assert_close(&levels(SLIDE_28), &[1.0, 19.0 / 15.0], EXACT);
}

#[test]
fn the_case_shows_in_the_rows_that_bind() {
    let [slow, fast] = [0, 1].map(share::DeviceId);
    let [slow_full, fast_full] = [Row::Capacity(slow), Row::Capacity(fast)];
    let envy = Row::Envy { holder: slow, rival: fast };
    let fair = Row::SharingIncentive(slow);
    // Both devices full and, as it happens, on the very edge of the cone.
    assert_eq!(baa(SLIDE_9).binding, [slow_full, fast_full, envy, fair]);
    assert_eq!(baa(SLIDE_26).binding, [slow_full, fast_full, envy, fair]);
    // Both devices full, with room to the edge.
    assert_eq!(baa(SLIDE_16).binding, [slow_full, fast_full]);
    // Bounded by fairness: the fast device is left with idle time.
    for input in [SLIDE_12, SLIDE_27, SLIDE_28, SLIDE_28_AFTER] {
        assert_eq!(baa(input).binding, [slow_full, envy, fair]);
    }
}

#[test]
fn stale_weights_cause_the_dip_of_slide_28() {
    let before = baa(SLIDE_28).rates_iops;
    let after = tiers(SLIDE_28_AFTER.0, SLIDE_28_AFTER.1);
    // A dispatcher that keeps the ratio of the old rates until a device is full.
    let busy = after.utilisation(&before).into_iter().fold(0.0, f64::max);
    let stale: Vec<f64> = before.iter().map(|rate| rate / busy).collect();
    assert_close(&stale, &[4000.0 / 27.0, 44_000.0 / 27.0], EXACT);
    assert_close(&after.utilisation(&stale), &[1.0, 71.0 / 135.0], EXACT);
}

#[test]
fn the_misprint_of_slides_26_and_27_cannot_give_their_figures() {
    for (hit_ratios, utilisation) in [(&[0.5, 0.95][..], 0.2), (&[0.5, 0.95, 0.8], 0.16)] {
        let problem = tiers([100.0, 5000.0], hit_ratios);
        for discipline in [DRF, BAA] {
            let got = problem.utilisation(&rates(&problem, discipline));
            assert_close(&got, &[1.0, utilisation], EXACT);
        }
    }
}
