//! Waits find their culprits, in every mode.

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_engine::attribution::TOP_PAIRS;
use evenkeel_engine::policy::Mode;
use evenkeel_engine::report::DomainReport;

use crate::simulated::{Simulation, clients, domain};

fn assert_conserved(report: &DomainReport) {
    let named: u64 = report.interference.iter().map(|pair| pair.waited.0).sum();
    let waited: u64 = report.tenants.iter().map(|tenant| tenant.waited.0).sum();
    assert_eq!(named + report.interference_other.0, waited);
}

fn blamed_on(report: &DomainReport, victim: u32, culprit: u32) -> f64 {
    let of = |pair: &&evenkeel_engine::report::Interference| pair.victim == TenantId(victim);
    let all: u64 = report.interference.iter().filter(of).map(|pair| pair.waited.0).sum();
    let by = report.interference.iter().filter(of).find(|pair| pair.culprit == TenantId(culprit));
    by.map_or(0.0, |pair| pair.waited.0 as f64 / all as f64)
}

#[test]
fn the_hog_is_named_in_every_mode() {
    for mode in [Mode::Observe, Mode::Shadow, Mode::Enforce] {
        let mut all = clients(1, 0, Kind::Read, 4096);
        all.extend(clients(8, 1, Kind::Write, 1 << 20));
        let report = Simulation::new(&domain(mode, &[1, 1, 1], 1, 2), &all).run(Span::from_secs(5));
        assert_conserved(&report);
        let part = blamed_on(&report, 0, 1);
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
