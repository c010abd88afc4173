//! No bytes from a client or a server crash, hang or grow the gate. One test per class of bug on
//! record in NBD software; each names the case that it was made after.
//!
//! Every test ends alike: the gate runs, serves a client that does nothing wrong, and occupies
//! little memory.

mod clients;
mod fronts;
mod handshakes;
mod names;
mod servers;
mod web;

use crate::harness::Scratch;
use crate::harness::gate::Gate;

/// Far above what a gate with tenants of 40 MiB needs, far below what any of the lengths that
/// hostile peers claim would take.
const RESIDENT_BYTES_MAX: u64 = 200 << 20;

/// Small bounds, so that a breach shows.
const BOUNDS: &str = "[memory]\nper_tenant = \"40 MiB\"\ntotal = \"80 MiB\"\n";

/// A gate under attack, with a good export `disk` in memory.
struct Besieged {
    gate: Gate,
    scratch: Scratch,
}

impl Besieged {
    fn new() -> Self {
        let scratch = Scratch::new();
        let gate = Gate::start(&scratch, &policy(""));
        Self { gate, scratch }
    }

    fn with_tls() -> Self {
        let scratch = Scratch::new();
        let gate = Gate::start_with_tls(&scratch, &policy(""));
        Self { gate, scratch }
    }

    /// Panics unless the gate is as well as before the attack.
    fn assert_unharmed(&mut self) {
        assert_eq!(self.gate.process.ended(), None, "the gate ended");
        self.gate.assert_serves("disk");
        let resident_bytes = self.gate.resident_bytes();
        assert!(resident_bytes < RESIDENT_BYTES_MAX, "the gate occupies {resident_bytes} bytes");
        let log = self.gate.process.log();
        assert!(!log.contains("panicked"), "something panicked:\n{log}");
    }
}

/// The good export and the bounds, with more tables behind.
fn policy(more: &str) -> String {
    let memory = crate::harness::gate::memory_policy("8 MiB");
    format!("{BOUNDS}{memory}{more}")
}
