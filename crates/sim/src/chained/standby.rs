//! How long the drives of a store can sleep while clients write little.
//!
//! Only the drive that holds the tail has to turn. The others are woken by checkpoints, which go to
//! every drive, and by cleaning; a log that is striped over all drives keeps all of them awake.

use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_core::time::Span;
use evenkeel_store::{BLOCK_BYTES, Buffer, Durability, Tuning};

use super::rig::{Layout, Rig, RigOptions, VOLUME};
use crate::device::standby::PowerTimes;

/// Clients that write single blocks anywhere, at a steady pace.
#[derive(Clone, Copy, Debug)]
pub struct StandbyRun {
    /// How the drives are put together.
    pub layout: Layout,
    /// Drives in all.
    pub drives: u32,
    /// Bytes of each.
    pub drive_bytes: u64,
    /// Blocks that clients write in a second; none writes nothing.
    pub writes_per_s: u64,
    /// After so long without a command a drive stops.
    pub after: Option<Span>,
    /// How long it goes on.
    pub measure: Span,
    /// Draws which blocks.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyOutcome {
    /// Of each drive.
    pub times: Vec<PowerTimes>,
    /// All drives together, on average.
    pub average_mw: u64,
    /// Writes of clients that were answered.
    pub writes: u64,
}

impl StandbyOutcome {
    /// Parts of a thousand of the time that the drives stood still, on average.
    pub fn standby_permille(&self) -> u64 {
        let sum: u64 = self.times.iter().map(PowerTimes::standby_permille).sum();
        sum.checked_div(self.times.len() as u64).unwrap_or(0)
    }
}

impl StandbyRun {
    /// Plays it.
    pub fn run(&self) -> StandbyOutcome {
        let mut rig = Rig::new(&RigOptions {
            layout: self.layout,
            drives: self.drives,
            drive_bytes: self.drive_bytes,
            segment_bytes: 1 << 20,
            epoch_percent: 100,
            tuning: Tuning::default(),
            power_down: self.after,
            has_second_arm: false,
            flash_bytes: 0,
            seed: self.seed,
        });
        let (store, clock) = (Rc::clone(&rig.store), rig.clock());
        let blocks = rig.volume_bytes / BLOCK_BYTES as u64;
        let (mut prng, run) = (Prng::new(self.seed), *self);
        let writes = rig.run(async move {
            let pause = Span(1_000_000_000 / run.writes_per_s.max(1));
            let (mut writes, end) = (0, clock.now() + run.measure);
            while clock.now() < end {
                if run.writes_per_s > 0 {
                    let offset = prng.below(blocks) * BLOCK_BYTES as u64;
                    let byte = u8::try_from(prng.below(256)).expect("below 256");
                    let data = Buffer::copy_of(&[byte; BLOCK_BYTES]);
                    let written = store.write(VOLUME, offset, data, Durability::Volatile);
                    written.await.expect("it is within the volume");
                    writes += 1;
                }
                clock.sleep(pause).await;
            }
            writes
        });
        let now = rig.clock().now();
        let times = rig.meters.iter().map(|meter| meter.times(now)).collect();
        let average_mw = rig.meters.iter().map(|meter| meter.average_mw(now)).sum();
        StandbyOutcome { times, average_mw, writes }
    }
}
