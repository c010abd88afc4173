//! Writing while the cleaner works: what is left to clients, and what the drives do in all.
//!
//! ```text
//! | old data  | written on until the tail | clients write: | half of the old data dies: cleaner
//! | (victims) | is on the other drive     | "before"       | works, clients write: "during"
//! ```
//!
//! Every other 32 KiB of the old data is discarded, so that half of every victim is live, as on the
//! slides. The cleaner works in advance, without need; so clients are not paced by it, and what
//! slows them is the drives alone.

use std::rc::Rc;

use evenkeel_core::time::Span;
use evenkeel_store::{BLOCK_BYTES, Cleaning, Durability, Tuning};

use super::rig::{Layout, Rates, Rig, RigOptions, VOLUME, WRITE_BYTES};

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningRun {
    /// What lies under the store.
    pub layout: Layout,
    /// Where the cleaner writes.
    pub cleaning: Cleaning,
    /// Bytes of clients' writes under way.
    pub window_bytes: u64,
    /// Bytes that the cleaner reads before it writes them.
    pub quantum_bytes: u64,
    /// How large it is.
    pub scale: Scale,
    /// Draws where the platters are.
    pub seed: u64,
}

/// How large a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Bytes of each of the two drives.
    pub drive_bytes: u64,
    /// How long rates are measured.
    pub measure: Span,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleaningOutcome {
    /// Before anything was cleaned.
    pub before: Rates,
    /// While the cleaner worked.
    pub during: Rates,
}

impl Scale {
    /// Drives of 8 GiB, 16 s.
    pub const FULL: Self = Self { drive_bytes: 8 << 30, measure: Span::from_secs(16) };
    /// Drives of 4 GiB, 6 s.
    pub const QUICK: Self = Self { drive_bytes: 4 << 30, measure: Span::from_secs(6) };

    /// Bytes of the old data.
    fn old_bytes(self) -> u64 {
        (self.drive_bytes * 3 / 8).next_multiple_of(1 << 20)
    }
}

impl CleaningRun {
    /// Runs it.
    pub fn run(&self) -> CleaningOutcome {
        let mut rig = Rig::new(&self.rig());
        let old_bytes = self.scale.old_bytes();
        let new_bytes = old_bytes..rig.volume_bytes;
        rig.fill(0..old_bytes);
        let settle = Span(self.scale.measure.0 / 8);
        let mut written_on = 0;
        while rig.members > 1 && rig.store.is_on_tail(VOLUME, old_bytes / 2 / BLOCK_BYTES as u64) {
            let start = new_bytes.start + written_on;
            rig.fill(start..start + (1 << 20));
            written_on += 1 << 20;
        }
        let region = new_bytes.start + written_on..new_bytes.end;
        let busy = rig.write_all_over(region.clone(), self.window_bytes);
        rig.go_on(settle);
        let before = rig.rates(Span(self.scale.measure.0 / 4));
        drop(busy);
        self.let_half_die(&mut rig);
        let busy = rig.write_all_over(region, self.window_bytes);
        rig.go_on(settle);
        let during = rig.rates(self.scale.measure);
        drop(busy);
        CleaningOutcome { before, during }
    }

    fn rig(&self) -> RigOptions {
        // Two records under way share the window; more of them where it holds more than that.
        let commit_depth = usize::try_from(self.window_bytes >> 20).expect("few") + 1;
        RigOptions {
            layout: self.layout,
            drives: 2,
            drive_bytes: self.scale.drive_bytes,
            segment_bytes: self.scale.drive_bytes / 512,
            epoch_percent: 50,
            tuning: Tuning {
                cleaning: self.cleaning,
                cleaning_quantum_bytes: usize::try_from(self.quantum_bytes).expect("few MiB"),
                clean_ahead_percent: 100,
                commit_depth: commit_depth.max(2),
                ..Tuning::default()
            },
            power_down: None,
            has_second_arm: false,
            flash_bytes: 0,
            seed: self.seed,
        }
    }

    /// Discards every other piece of the old data.
    fn let_half_die(&self, rig: &mut Rig) {
        let pieces = self.scale.old_bytes() / WRITE_BYTES;
        let store = Rc::clone(&rig.store);
        rig.at_once((1..pieces).step_by(2), move |piece| {
            let store = Rc::clone(&store);
            async move {
                let offset = piece * WRITE_BYTES;
                let discard = store.write_zeroes(VOLUME, offset, WRITE_BYTES, Durability::Volatile);
                discard.await.expect("it lies within the volume");
            }
        });
    }
}
