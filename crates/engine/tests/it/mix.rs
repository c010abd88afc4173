//! A depth and costs that are found, where a great depth would be for one tenant alone: what the
//! other asks for at a time is less.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Depth, Domain, Mode, Scheduling};
use evenkeel_engine::report::DomainReport;

use crate::simulated::{Simulation, clients, domain};

/// Everything is found, before a share of four and one of one.
fn automatic() -> Domain {
    let mut domain = domain(Mode::Enforce, &[4, 1], 1, 1);
    for (_, scheduling) in &mut domain.servers {
        *scheduling = Scheduling {
            depth: Depth::Automatic,
            is_cost_learned: true,
            is_unit_found: true,
            ..Scheduling::default()
        };
    }
    domain
}

fn delivered(report: &DomainReport) -> [u64; 2] {
    [0, 1].map(|tenant: usize| {
        report.tenants[tenant].by_kind.iter().map(|kind| kind.delivered_requests).sum()
    })
}

/// The part of the second tenant, which reads 64 KiB at a time and has so much outstanding, from a
/// device that takes so long for a request of any size.
fn part(service: Span, outstanding: usize) -> f64 {
    let line = Line { fixed: service, rate_bytes: u64::MAX };
    let device = CostModel::Linear { read: line, write: line, flush: service };
    let mut all = clients(8, 0, Kind::Read, 4096);
    all.extend(clients(outstanding, 1, Kind::Read, 65_536));
    let never = (evenkeel_core::time::Nanos::ZERO, Span::ZERO);
    let mut simulation = Simulation::before(device, never, &automatic(), &all);
    let before = delivered(&simulation.run(Span::from_secs(3)));
    let after = delivered(&simulation.run(Span::from_secs(18)));
    let [small, large] = [0, 1].map(|tenant: usize| (after[tenant] - before[tenant]) as f64);
    large / (small + large)
}

#[test]
fn a_depth_that_only_changes_the_mix_gains_nothing() {
    for outstanding in [16, 24, 32, 48, 64] {
        for micros in [700, 850, 1000, 1150, 1300] {
            let part = part(Span::from_micros(micros), outstanding);
            assert!((0.17..0.23).contains(&part), "{outstanding}, {micros} us: {part}");
        }
    }
}
