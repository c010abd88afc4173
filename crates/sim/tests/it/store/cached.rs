//! A store with a cache on a bad drive: clients never read a wrong byte, and lose nothing.
//!
//! The cache drive is the last one of the machine. It is allowed everything: it loses power like
//! the others, loses, tears and misplaces writes, rots, fails, and vanishes for good.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{BayId, CutOptions, Fate, FaultPlan, FaultRates, Tearing};
use evenkeel_store::{CacheCounters, CacheOptions, Tuning, VolumeId};

use super::clients::{Crowd, gather};
use super::crash::{Machine, Scene, cut, format, is_cut, perform};
use super::cuts::{long, points};
use super::faults::{FAILING, LYING};
use super::history::World;
use super::random::Ordeal;
use super::real::{Real, Setup};
use super::subject::{Acts, Subject};

const CELLS: u32 = 8;

/// A tenth of what it writes is lost or damaged, and it says nothing.
const VILE: FaultRates = FaultRates {
    lost_writes: 100_000,
    misdirected_writes: 50_000,
    shorn_writes: 50_000,
    rotten_reads: 50_000,
    unreadable: 50_000,
    ..LYING
};

/// Room for two dozen blocks in memory, and for as many on the cache drive.
fn cached(setup: &Setup) -> Setup {
    let cache =
        CacheOptions { memory_bytes: 224 << 10, region_blocks: 2, ..CacheOptions::default() };
    Setup { tuning: Tuning { cache, ..setup.tuning }, cache_blocks: 26, ..setup.clone() }
}

/// What the cache did, over all mounts.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    memory: u64,
    flash: u64,
    failed: u64,
}

impl Use {
    fn add(&mut self, counters: CacheCounters) {
        self.memory += counters.tail.memory + counters.body.memory;
        self.flash += counters.tail.flash + counters.body.flash;
        self.failed += counters.flash_failed;
    }
}

/// A store with a cache, and who works on it.
struct Bench {
    setup: Setup,
    acts: Rc<RefCell<Acts>>,
    used: Use,
}

/// Works with power cuts, and after each act reads some blocks and holds them against what was
/// written.
fn work(setup: &Setup, rates: FaultRates, seed: u64) -> Result<Use, String> {
    let mut scene = format::<Real>(setup);
    let cache_drive = scene.disks.len() - 1;
    scene.disks[cache_drive].set_faults(FaultPlan::seeded(rates, seed));
    let acts = Rc::new(RefCell::new(Acts::new(seed)));
    let mut bench = Bench { setup: setup.clone(), acts, used: Use::default() };
    for round in 0..3 {
        bench
            .live(&mut scene, seed * 8 + round)
            .map_err(|error| format!("seed {seed}, round {round}: {error}"))?;
        let options = CutOptions { tearing: Tearing::Sectors, may_ruin: true };
        cut(&mut scene.disks, seed * 4 + round, options);
        if !seed.is_multiple_of(3) {
            scene.disks[cache_drive].attach();
        }
    }
    Ok(bench.used)
}

impl Bench {
    /// Opens the store, checks it, and works until the power fails.
    fn live(&mut self, scene: &mut Scene, seed: u64) -> Result<(), String> {
        let mut machine = Machine::boot(std::mem::take(&mut scene.disks), seed);
        machine.rack.cut_after(Some(600));
        let history = Rc::new(RefCell::new(scene.history.clone()));
        let counters = Rc::new(Cell::new(CacheCounters::default()));
        let (setup, acts, rack) = (self.setup.clone(), Rc::clone(&self.acts), machine.rack.clone());
        let (drives, clock) = (machine.present(), machine.executor.clock());
        let (book, notes) = (Rc::clone(&history), Rc::clone(&counters));
        let end = machine.executor.block_on(async move {
            let mut prng = Prng::new(seed);
            let atomic_cells = Real::atomic_cells(&setup);
            let real = Real::open(setup.clone(), drives, clock).await?;
            let found = real.contents().await?;
            book.borrow_mut().recover(found)?;
            loop {
                if prng.below(200) == 0 {
                    let bay = BayId(rack.disks().len() - 1);
                    rack.with_disk(bay, |disk| disk.detach(|_| Fate::Lost));
                }
                let act = acts.borrow_mut().draw(book.borrow().now());
                perform(&*real, atomic_cells, &book, &act).await?;
                let now = book.borrow().now().clone();
                read_some(&real, &now, setup.volume_bytes / 4096, &mut prng)
                    .await
                    .map_err(|error| format!("after {act:?}: {error}"))?;
                notes.set(real.store.status().cache.expect("there is a cache").counters);
            }
        });
        is_cut(end)?;
        scene.disks = machine.rack.disks();
        drop(machine);
        scene.history = history.borrow().clone();
        self.used.add(counters.get());
        Ok(())
    }
}

/// Blocks that were looked for in vain.
fn misses(real: &Real) -> u64 {
    let counters = real.store.status().cache.expect("there is a cache").counters;
    counters.tail.misses + counters.body.misses
}

/// Reads blocks here and there, one or some in a row; the cache tells before whether it has them.
async fn read_some(real: &Real, now: &World, blocks: u64, prng: &mut Prng) -> Result<(), String> {
    for _ in 0..6 {
        let first = prng.below(blocks);
        let count = 1 + prng.below((blocks - first).min(6));
        let cells = |blocks: u64| u32::try_from(blocks).expect("a small volume") * CELLS;
        let is_cached = real.store.is_cached(VolumeId(0), first * 4096, count * 4096);
        let (first, count) = (cells(first), cells(count));
        let missed = misses(real);
        let found = real.read(first, count).await?;
        if is_cached != (misses(real) == missed) {
            return Err(format!("from cell {first} on: foretold as cached: {is_cached}"));
        }
        let expected = &now.spaces[&0][first as usize..][..count as usize];
        if found != expected {
            return Err(format!("from cell {first} on: {found:?}, not {expected:?}"));
        }
    }
    Ok(())
}

fn setups() -> [Setup; 4] {
    [(1, 1), (2, 2), (3, 1), (4, 2)].map(|(drives, copies)| cached(&Setup::tiny(drives, copies)))
}

fn works(rates: FaultRates, permille: u64) -> Use {
    let mut all = Use::default();
    for setup in setups() {
        for seed in 0..points(permille) / 12 {
            match work(&setup, rates, seed) {
                Ok(used) => {
                    all.memory += used.memory;
                    all.flash += used.flash;
                    all.failed += used.failed;
                }
                Err(violation) => panic!("{setup:?} {violation}"),
            }
        }
    }
    all
}

#[test]
fn a_lying_cache_drive_never_gives_a_wrong_byte() {
    let used = works(VILE, 6);
    assert!(used.memory > 0 && used.flash > 0 && used.failed > 0, "{used:?}");
}

#[test]
fn a_failing_cache_drive_loses_nothing() {
    let used = works(FAILING, 3);
    assert!(used.memory > 0 && used.flash > 0, "{used:?}");
}

#[test]
fn long_work_on_a_cached_store_leaves_a_prefix() {
    let ordeal = Ordeal { cuts: 6, commands_max: 400, tearing: Tearing::Sectors };
    for setup in setups() {
        for seed in 0..points(2) / 6 {
            assert_eq!(long(&setup, ordeal, seed), Ok(()));
        }
    }
}

#[test]
fn what_many_clients_read_of_a_cached_store_has_one_order() {
    let crowd = Crowd { clients: 6, cuts: 6, commands_max: 400, is_ragged: false };
    for setup in setups() {
        for seed in 0..points(2) / 6 {
            if let Err(violation) = gather(&setup, crowd, seed) {
                panic!("{setup:?} {violation}");
            }
        }
    }
}
