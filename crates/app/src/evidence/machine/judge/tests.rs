//! Readings, quiet and disturbed, and what comes of them.

use super::*;

/// Needs a core; judges latencies of some 20 ms.
const BEARS: Bears = Bears { cores: 1.0, late_median_ms: 0.5, late_p99_ms: 2.0, uses_disks: true };

/// A machine on which nothing else happens.
fn quiet() -> Reading {
    Reading {
        cores: 2,
        load_average: 0.1,
        others: vec![0.02; 100],
        asked_seconds: 20.0,
        stolen_seconds: 0.01,
        sleeps: Sleeps { median_ms: 0.06, p99_ms: 0.12, max_ms: 0.9 },
        disk_busy: 0.01,
        ..Reading::default()
    }
}

/// Others at work for so many of the hundred intervals.
fn others(cores: f64, intervals: usize) -> Vec<f64> {
    (0..100).map(|index| if index < intervals { cores } else { 0.02 }).collect()
}

fn late(median_ms: f64, p99_ms: f64) -> Sleeps {
    Sleeps { median_ms, p99_ms, max_ms: p99_ms }
}

/// What disturbs, in short.
fn kinds(bears: &Bears, reading: &Reading) -> String {
    let kinds = bears.disturbances(reading).into_iter().map(|one| match one {
        Disturbance::Others { .. } => "others",
        Disturbance::Stolen { .. } => "stolen",
        Disturbance::Late { .. } => "late",
        Disturbance::Disks { .. } => "disks",
    });
    kinds.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_machine_is_judged_by_what_the_experiment_can_bear() {
    let table = [
        ("a quiet machine", quiet(), ""),
        ("somebody on the other core", Reading { others: others(0.98, 100), ..quiet() }, ""),
        ("more than the other core", Reading { others: others(1.6, 100), ..quiet() }, "others"),
        ("for two seconds of a hundred", Reading { others: others(1.6, 2), ..quiet() }, ""),
        ("for three", Reading { others: others(1.6, 3), ..quiet() }, "others"),
        ("a short run cannot bear one", Reading { others: vec![0.0, 1.6], ..quiet() }, "others"),
        ("a load average of the past", Reading { load_average: 9.0, ..quiet() }, ""),
        ("stolen time", Reading { stolen_seconds: 1.2, ..quiet() }, "stolen"),
        ("a little of it", Reading { stolen_seconds: 0.9, ..quiet() }, ""),
        (
            "two ticks of an idle machine",
            Reading { asked_seconds: 0.1, stolen_seconds: 0.02, ..quiet() },
            "",
        ),
        ("half of the sleeps late", Reading { sleeps: late(0.6, 1.9), ..quiet() }, "late"),
        ("one in a hundred late", Reading { sleeps: late(0.06, 2.1), ..quiet() }, "late"),
        ("late within bounds", Reading { sleeps: late(0.4, 1.9), ..quiet() }, ""),
        ("a busy disk", Reading { disk_busy: 0.4, ..quiet() }, "disks"),
        (
            "all at once",
            Reading {
                others: others(2.0, 100),
                stolen_seconds: 5.0,
                sleeps: late(4.0, 30.0),
                disk_busy: 1.0,
                ..quiet()
            },
            "others stolen late disks",
        ),
    ];
    for (what, reading, wanted) in table {
        assert_eq!(kinds(&BEARS, &reading), wanted, "{what}");
    }
}

#[test]
fn with_precedence_others_are_no_excuse() {
    let reading = Reading { others: others(2.0, 100), has_precedence: true, ..quiet() };
    assert_eq!(kinds(&BEARS, &reading), "");
    let reading = Reading { sleeps: late(0.06, 9.0), ..reading };
    assert_eq!(kinds(&BEARS, &reading), "late", "late is late");
}

/// What the experiment itself takes, all of the machine here, is no excuse.
#[test]
fn the_experiments_own_work_is_no_excuse() {
    let reading = Reading { own_cores: 2.0, asked_seconds: 200.0, ..quiet() };
    assert_eq!(kinds(&BEARS, &reading), "");
}

#[test]
fn who_needs_all_cores_still_bears_a_tenth() {
    let greedy = Bears { cores: f64::INFINITY, ..BEARS };
    assert_eq!(kinds(&greedy, &Reading { others: others(0.19, 100), ..quiet() }), "");
    assert_eq!(kinds(&greedy, &Reading { others: others(0.21, 100), ..quiet() }), "others");
    let light = Bears { uses_disks: false, ..BEARS };
    assert_eq!(kinds(&light, &Reading { disk_busy: 1.0, ..quiet() }), "");
}

#[test]
fn a_disturbance_has_figures_and_a_remedy() {
    let reading = Reading {
        others: others(1.75, 12),
        busiest: Some("rustc".to_owned()),
        stolen_seconds: 4.0,
        sleeps: late(0.6, 14.0),
        ..quiet()
    };
    let found: Vec<String> =
        BEARS.disturbances(&reading).iter().map(Disturbance::to_string).collect();
    assert_eq!(
        found,
        [
            "other programs took up to 1.75 of 2 cores, more than 1.00 in 12 of 100 looks \
             (most: rustc)",
            "the hypervisor withheld 20.0 % of the processor time asked for (at most 5 %)",
            "sleeps of 1 ms ended 0.60 ms late by the median and 14.00 ms one in a hundred (at \
             most 0.5 and 2 ms)",
        ]
    );
    let remedies: Vec<_> =
        BEARS.disturbances(&reading).iter().map(|one| one.remedy(true)).collect();
    assert!(remedies[0].contains("chrt --rr 5") && remedies[1].contains("host"), "{remedies:?}");
    assert!(!BEARS.disturbances(&reading)[0].remedy(false).contains("chrt"));
}

#[test]
fn a_reading_is_one_line() {
    let line = quiet().to_string();
    assert!(line.starts_with("2 cores, load average 0.10; other programs take"), "{line}");
    assert!(!line.contains('\n') && !line.contains("precedence"), "{line}");
    let line = Reading { has_precedence: true, ..quiet() }.to_string();
    assert!(line.ends_with("with real-time precedence"), "{line}");
}
