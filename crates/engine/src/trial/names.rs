//! Names of gates and of their openings.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lease::{Gate, Names, OwnerId};
use crate::notes::VolumeId;

const VOLUME: VolumeId = VolumeId(*b"made in a trial.");

thread_local! {
    static IS_ANOTHER: Cell<bool> = const { Cell::new(false) };
}

/// What is made meanwhile is a volume of another name.
pub(crate) fn as_another<T>(make: impl FnOnce() -> T) -> T {
    IS_ANOTHER.set(true);
    let volume = make();
    IS_ANOTHER.set(false);
    volume
}

/// Names for an opening of this gate that no other one has.
pub(crate) fn names(owner_name: &str) -> Names {
    static OPENINGS: AtomicU64 = AtomicU64::new(1);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&OPENINGS.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    id[8] = owner_name.as_bytes()[0];
    let gate = Gate { name: owner_name.to_owned(), ..Gate::default() };
    let volume = if IS_ANOTHER.get() { VolumeId(*b"and another one.") } else { VOLUME };
    Names { volume, owner: OwnerId(id), gate, before: Vec::new() }
}

/// Names for an opening of the gate of this number, in this run of its process after this boot of
/// its machine.
pub(crate) fn names_of(gate: usize, (boot, run): (u64, u64)) -> Names {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(run << 8 | (gate as u64 + 1)).to_le_bytes());
    let mut of_process = [0; 16];
    of_process[..8].copy_from_slice(&boot.to_le_bytes());
    of_process[8..].copy_from_slice(&run.to_le_bytes());
    let gate = Gate {
        name: gate.to_string(),
        state: [u8::try_from(gate).expect("few gates") + 1; 16],
        run: of_process,
        ..Gate::default()
    };
    Names { volume: VOLUME, owner: OwnerId(id), gate, before: Vec::new() }
}
