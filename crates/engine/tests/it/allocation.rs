//! Requests allocate nothing once as many were in flight as ever will be.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Mode, Sharing};

use crate::simulated::{Simulation, clients, domain};

#[test]
fn no_mode_allocates_in_steady_state() {
    for (mode, sharing) in [
        (Mode::Observe, Sharing::Local),
        (Mode::Shadow, Sharing::Local),
        (Mode::Enforce, Sharing::Local),
        (Mode::Enforce, Sharing::Total),
    ] {
        let mut all = clients(8, 0, Kind::Read, 4096);
        all.extend(clients(4, 1, Kind::Write, 3 << 20));
        all.extend(clients(1, 1, Kind::WriteZeroes, 1 << 40));
        let domain = evenkeel_engine::policy::Domain { sharing, ..domain(mode, &[1, 2], 2, 8) };
        let mut simulation = Simulation::new(&domain, &all);
        // Share windows end once a second, at 1.0 s and 2.0 s, and allocate then.
        simulation.advance(Span::from_millis(1200));
        let counted = allocation_counter::measure(|| simulation.advance(Span::from_millis(1900)));
        assert_eq!(counted.count_total, 0, "{mode:?}, {sharing:?}");
        assert!(simulation.run(Span::from_secs(2)).tenants[0].total_time.count() > 100);
    }
}
