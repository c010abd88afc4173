//! How long a volume takes to open, what that takes of memory, and what it costs others on the same
//! core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::gate::Gate;
use super::nbd::Client;
use super::target::Target;
use super::{Scratch, wait_for};

/// A backend of another export, which is served while the volume is opened.
pub(crate) const OTHER_EXPORT: &str = "[[backend]]\nname = \"fast\"\nmemory = true\n\
     [[export]]\nname = \"other\"\nbackend = \"fast\"\nsize = \"16 MiB\"\n";

/// One row of the table: a volume that has so much written in it.
pub(crate) struct Opening {
    pub(crate) size: &'static str,
    pub(crate) size_bytes: u64,
    pub(crate) objects: u64,
}

const ROWS: [Opening; 6] = [
    Opening { size: "1 TiB", size_bytes: 1 << 40, objects: 20_000 },
    Opening { size: "1 TiB", size_bytes: 1 << 40, objects: 0 },
    Opening { size: "64 TiB", size_bytes: 64 << 40, objects: 0 },
    Opening { size: "64 TiB", size_bytes: 64 << 40, objects: 1_000_000 },
    Opening { size: "1 PiB", size_bytes: 1 << 50, objects: 0 },
    Opening { size: "1 PiB", size_bytes: 1 << 50, objects: 1_000_000 },
];

/// What came of it.
#[derive(Debug)]
pub(crate) struct Opened {
    took: Duration,
    /// The longest that a read of another export on the same core took meanwhile.
    stall: Duration,
    resident_mib: u64,
}

/// All rows with `EVENKEEL_OPENINGS`, else the first.
pub(crate) fn rows() -> &'static [Opening] {
    let is_long = std::env::var_os("EVENKEEL_OPENINGS").is_some();
    &ROWS[..if is_long { ROWS.len() } else { 1 }]
}

/// Prints a row, new and again, and holds it against loose bounds: the machine has other work.
pub(crate) fn judge(row: &Opening, outcomes: [Opened; 2]) {
    let Opening { size, objects, .. } = row;
    for (when, Opened { took, stall, resident_mib }) in ["new", "again"].iter().zip(outcomes) {
        println!("| {size} | {objects} | {when} | {took:.2?} | {resident_mib} MiB | {stall:.1?} |");
        assert!(resident_mib < 200, "{size}, {objects} objects: {resident_mib} MiB");
        assert!(took < Duration::from_secs(20), "{size}, {objects} objects: {took:?}");
    }
}

fn opened(target: &Target) -> Client {
    wait_for("the volume to be open", || Client::try_open(target))
}

/// Opens export `disk` of a policy that has [`OTHER_EXPORT`], by a gate on one core.
pub(crate) fn open_once(scratch: &Scratch, policy: &str) -> Opened {
    let on_one_core = ["taskset", "-c", "0"].map(str::to_owned);
    let mut gate = Gate::start_with(scratch, policy, &on_one_core);
    let begin = Instant::now();
    let is_over = Arc::new(AtomicBool::new(false));
    let watching = std::thread::spawn({
        let (target, is_over) = (gate.plain("other"), Arc::clone(&is_over));
        move || {
            let (mut client, mut stall) = (opened(&target), Duration::ZERO);
            while !is_over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                client.read(0, 4096).expect("it is served");
                stall = stall.max(asked.elapsed());
                std::thread::sleep(Duration::from_millis(1));
            }
            stall
        }
    });
    drop(opened(&gate.plain("disk")));
    let took = begin.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let stall = watching.join().expect("it is served");
    let resident_mib = gate.resident_bytes() >> 20;
    assert!(gate.stop().success());
    Opened { took, stall, resident_mib }
}
