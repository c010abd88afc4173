//! Without a second copy a bad drive does harm; the store says so, and never gives wrong bytes.
//!
//! What is read of a block while the power stays on is what was written last, or an error. After a
//! cut the readable blocks are a prefix of what was asked, and no shorter one than was flushed: a
//! drive that acknowledges a write and loses it takes the end of the log away, and who remembers
//! how far the store was refuses it.
//!
//! A block that cannot be read now may be readable later. So there may be several worlds that this
//! could be, and each look leaves fewer of them. To take the newest for the one would be wrong.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_sim::disk::{CutOptions, FaultPlan, FaultRates};

use super::crash::{Machine, cut, format};
use super::cuts::points;
use super::faults::LYING;
use super::history::{Change, World};
use super::real::{BLOCK_CELLS, Found, Real, Setup, is_found};
use super::stamp::Author;
use super::subject::{Act, Acts, Subject};

/// What a round of work came to.
#[derive(Clone, Copy, Debug, Default)]
struct Harm {
    blocks: u64,
    errors: u64,
}

/// Reads each block; counts those that cannot be read.
async fn examine(real: &Real, blocks: u32, harm: &RefCell<Harm>) -> Result<Found, String> {
    let found = real.read_blocks(blocks).await?;
    let mut harm = harm.borrow_mut();
    harm.blocks += found.len() as u64;
    harm.errors += found.iter().filter(|block| block.is_none()).count() as u64;
    Ok(found)
}

/// What was ever there, and what may be there now.
struct Worlds {
    /// Since the last flush, before this mount.
    ever: Vec<World>,
    /// With different worlds, at least one.
    now: Vec<Belief>,
}

/// What may be there, and what was there before in this mount if it is.
struct Belief {
    world: World,
    past: Vec<World>,
}

impl Worlds {
    fn new(world: World) -> Self {
        Self { ever: vec![world.clone()], now: vec![Belief { world, past: Vec::new() }] }
    }

    fn ask(&mut self, change: &Change) {
        let mut beliefs: Vec<Belief> = Vec::new();
        for mut belief in std::mem::take(&mut self.now) {
            belief.world.change(change);
            belief.past.push(belief.world.clone());
            match beliefs.iter_mut().find(|known| known.world == belief.world) {
                Some(known) => known.past.extend(belief.past),
                None => beliefs.push(belief),
            }
        }
        self.now = beliefs;
    }

    /// Whether it can be what is found behind a cut.
    fn recover(&mut self, found: &[Option<Vec<Author>>]) -> bool {
        self.ever.extend(self.now.drain(..).flat_map(|belief| belief.past));
        for world in self.ever.iter().filter(|world| is_found(world, found)) {
            if self.now.iter().all(|known| known.world != *world) {
                self.now.push(Belief { world: world.clone(), past: Vec::new() });
            }
        }
        !self.now.is_empty()
    }

    /// Nothing of before now may come back.
    fn flushed(&mut self) {
        self.ever.clear();
        for belief in &mut self.now {
            belief.past = vec![belief.world.clone()];
        }
    }

    /// Whether it can be what is found while the power is on.
    fn look(&mut self, found: &[Option<Vec<Author>>]) -> bool {
        self.now.retain(|belief| is_found(&belief.world, found));
        !self.now.is_empty()
    }
}

/// Works on one bad drive with cuts, until it does not open any more.
fn work(setup: &Setup, rates: FaultRates, seed: u64) -> Result<Harm, String> {
    let mut scene = format::<Real>(setup);
    let known = Rc::new(Cell::new(None));
    scene.disks[0].set_faults(FaultPlan::seeded(rates, seed));
    let worlds = Rc::new(RefCell::new(Worlds::new(scene.history.now().clone())));
    let acts = Rc::new(RefCell::new(Acts::new(seed)));
    let harm = Rc::new(RefCell::new(Harm::default()));
    let atomic_cells = Real::atomic_cells(setup);
    let blocks = u32::try_from(setup.volume_bytes / 4096).expect("a small volume");
    for round in 0..4 {
        let mut machine = Machine::boot(std::mem::take(&mut scene.disks), seed + round);
        machine.rack.cut_after(Some(300));
        let setup = Setup { known: known.get(), ..setup.clone() };
        let (drives, known) = (machine.drives.clone(), Rc::clone(&known));
        let (worlds, acts, harm) = (Rc::clone(&worlds), Rc::clone(&acts), Rc::clone(&harm));
        let clock = machine.executor.clock();
        let end = machine.executor.block_on(async move {
            // That a damaged drive is refused is as it should be.
            let Ok(real) = Real::open(setup, drives, clock).await else { return Ok(false) };
            let found = examine(&real, blocks, &harm).await?;
            if !worlds.borrow_mut().recover(&found) {
                return Err("what is read after a cut is of no time".to_owned());
            }
            loop {
                let act = acts.borrow_mut().draw(&worlds.borrow().now[0].world);
                for change in act.changes(atomic_cells) {
                    worlds.borrow_mut().ask(&change);
                }
                if real.perform(&act).await.is_err() {
                    return Ok(true);
                }
                if matches!(act, Act::Flush) {
                    let found = examine(&real, blocks, &harm).await?;
                    if !worlds.borrow_mut().look(&found) {
                        return Err(format!("after {act:?} old or wrong bytes were read"));
                    }
                    worlds.borrow_mut().flushed();
                    known.set(Some(real.store.position()));
                }
            }
        });
        scene.disks = machine.rack.disks();
        drop(machine);
        if let Ok(went_on) = end
            && !went_on.map_err(|error: String| format!("seed {seed}, round {round}: {error}"))?
        {
            break;
        }
        cut(&mut scene.disks, seed * 4 + round, CutOptions::default());
    }
    let harm = *harm.borrow();
    Ok(harm)
}

#[test]
fn a_block_that_was_unreadable_leaves_open_which_world_it_is_until_it_is_read() {
    let paint = |first, author| Change::Paint { space: 0, first, cells: BLOCK_CELLS, author };
    let mut worlds = Worlds::new(World::of(&[(0, 2 * BLOCK_CELLS)]));
    worlds.ask(&paint(0, 1));
    worlds.ask(&paint(0, 2));
    let block = |author| Some(vec![author; BLOCK_CELLS as usize]);
    assert!(worlds.recover(&[None, block(0)]));
    worlds.ask(&paint(BLOCK_CELLS, 3));
    assert!(worlds.look(&[None, block(3)]));
    assert!(worlds.look(&[block(1), block(3)]), "the older of two that were possible");
    assert!(!worlds.look(&[block(2), block(3)]), "it was the other one");
    assert!(worlds.recover(&[block(2), block(0)]), "as it once was");
    assert!(!worlds.recover(&[block(0), block(3)]), "as it never was");
}

#[test]
fn a_lone_lying_drive_gives_errors_and_never_wrong_bytes() {
    let mut all = Harm::default();
    for seed in 0..points(10) / 4 {
        match work(&Setup::tiny(1, 1), LYING, seed) {
            Ok(harm) => {
                all.blocks += harm.blocks;
                all.errors += harm.errors;
            }
            Err(violation) => panic!("{violation}"),
        }
    }
    assert!(all.errors > 0 && all.errors < all.blocks, "the drive did no harm, or only: {all:?}");
}
