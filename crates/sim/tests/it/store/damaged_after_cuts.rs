//! The power is cut, and what is on the drives rots, cannot be read, or is as it was earlier.
//!
//! ```text
//! work -> rest -> work -> cut -> damage, or a drive put back as it was at a rest -> open
//! ```
//!
//! What is found is a prefix of what was asked, but for blocks that are named as unreadable, or the
//! store is refused. The prefix has what was flushed before the last rest: of what was flushed in
//! the last moments, a lone drive cannot tell that it was. Where everything has another copy, no
//! store is refused, nothing is unreadable, and nothing that was flushed is missing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, CutOptions, Fate, Rack};
use evenkeel_store::Position;

use super::crash::{Machine, Scene, cut, is_cut, perform};
use super::cuts::points;
use super::damaged::damage;
use super::history::History;
use super::real::{Found, Real, Setup, is_found};
use super::shape::Shape;
use super::subject::{Act, Acts, Subject};

const COMMANDS_MAX: u64 = 400;

/// What happens to the drives while the power is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    OneBlock,
    SeveralBlocks,
    PutBack,
}

/// What a client may find, and what its keeper knows.
#[derive(Clone)]
struct Book {
    /// Since the last flush.
    history: Rc<RefCell<History>>,
    /// Since the last rest.
    rested: Rc<RefCell<History>>,
    known: Rc<Cell<Option<Position>>>,
    /// One of the drives, as it was at some rest.
    image: Rc<RefCell<Option<CrashDisk>>>,
}

impl Book {
    fn new(history: &History) -> Self {
        Self {
            history: Rc::new(RefCell::new(history.clone())),
            rested: Rc::new(RefCell::new(history.clone())),
            known: Rc::default(),
            image: Rc::default(),
        }
    }

    async fn perform(&self, real: &Real, setup: &Setup, act: &Act) -> Result<(), String> {
        let cells = Real::atomic_cells(setup);
        let before = self.history.borrow().now().clone();
        let changes = act.changes(cells);
        for change in &changes {
            self.rested.borrow_mut().ask(change);
        }
        perform(real, cells, &self.history, act).await?;
        if *self.history.borrow().now() == before {
            self.rested.borrow_mut().refused(changes.len());
        }
        Ok(())
    }

    /// Nobody writes for a while.
    async fn rest(&self, real: &Real, setup: &Setup) -> Result<(), String> {
        self.perform(real, setup, &Act::Flush).await?;
        self.perform(real, setup, &Act::Rest).await?;
        self.rested.borrow_mut().flushed();
        self.known.set(Some(real.store.position()));
        Ok(())
    }

    /// Takes an image of a drive, as a power cut would leave it now.
    fn take_image(&self, rack: &Rack, victim: usize) {
        let mut disk = rack.disks()[victim].clone();
        disk.power_cut(|_| Fate::Lost);
        *self.image.borrow_mut() = Some(disk);
    }
}

/// Works until the fuse blows.
fn work(setup: &Setup, scene: &mut Scene, victim: usize, seed: u64) -> Result<Book, String> {
    let mut machine = Machine::boot(std::mem::take(&mut scene.disks), seed);
    let mut prng = Prng::new(seed);
    machine.rack.cut_after(Some(1 + prng.below(COMMANDS_MAX)));
    let (drives, clock) = (machine.present(), machine.executor.clock());
    let book = Book::new(&scene.history);
    let (setup, ours, rack) = (setup.clone(), book.clone(), machine.rack.clone());
    let end = machine.executor.block_on(async move {
        let real = Real::open(setup.clone(), drives, clock).await?;
        let mut acts = Acts::new(seed);
        loop {
            let act = acts.draw(ours.history.borrow().now());
            if matches!(act, Act::Rest) {
                ours.rest(&real, &setup).await?;
                if prng.below(2) == 0 || ours.image.borrow().is_none() {
                    ours.take_image(&rack, victim);
                }
            } else {
                ours.perform(&real, &setup, &act).await?;
            }
        }
    });
    is_cut(end)?;
    scene.disks = machine.rack.disks();
    cut(&mut scene.disks, seed, CutOptions::default());
    Ok(book)
}

fn look(setup: &Setup, scene: Scene, blocks: u32) -> Result<Found, String> {
    let mut machine = Machine::boot(scene.disks, 0);
    let (setup, drives, clock) = (setup.clone(), machine.present(), machine.executor.clock());
    let found = machine.executor.block_on(async move {
        let real =
            Real::open(setup, drives, clock).await.map_err(|why| format!("refused: {why}"))?;
        real.read_blocks(blocks).await
    });
    found.map_err(|stopped| stopped.to_string())?
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    refused: u64,
    unreadable: u64,
}

fn befall(shape: Shape, fault: Fault, scene: &mut Scene, image: Option<CrashDisk>, seed: u64) {
    let mut prng = Prng::new(!seed);
    let victim = shape.victim(seed);
    let blocks = match fault {
        Fault::Nothing => 0,
        Fault::OneBlock => 1,
        Fault::SeveralBlocks => 2 + prng.below(6),
        Fault::PutBack => {
            if let Some(image) = image {
                scene.disks[victim] = image;
            }
            0
        }
    };
    // Where there is another copy, it is left alone.
    let whose = if shape.has_other_copy() { victim..victim + 1 } else { 0..scene.disks.len() };
    for _ in 0..blocks {
        damage(&mut scene.disks[whose.clone()], &mut prng);
    }
}

fn trial(shape: Shape, fault: Fault, seed: u64) -> Result<Outcome, String> {
    let mut setup = shape.setup();
    let mut scene = shape.make(&setup);
    let book = work(&setup, &mut scene, shape.victim(seed), seed)?;
    setup.known = book.known.get();
    shape.lose_drive(&mut scene);
    befall(shape, fault, &mut scene, book.image.take(), seed);
    let blocks = u32::try_from(setup.volume_bytes / 4096).expect("a small volume");
    let failed = |why: &str| format!("{shape:?}, {fault:?}, seed {seed}: {why}");
    let is_whole = fault == Fault::Nothing || shape.has_other_copy();
    let found = match look(&setup, scene, blocks) {
        Ok(found) => found,
        // None of its superblocks can be read any more: the refusal says to leave it out.
        Err(why) if fault == Fault::SeveralBlocks && why.contains("has no superblock") => {
            return Ok(Outcome { refused: 1, unreadable: 0 });
        }
        Err(why) if why.starts_with("refused: ") && !is_whole => {
            return Ok(Outcome { refused: 1, unreadable: 0 });
        }
        Err(why) => return Err(failed(&why)),
    };
    let unreadable = found.iter().filter(|block| block.is_none()).count() as u64;
    let judge = if is_whole { &book.history } else { &book.rested };
    if !judge.borrow().worlds().any(|world| is_found(world, &found)) {
        return Err(failed(&format!("silently wrong, {unreadable} unreadable: {found:?}")));
    }
    if is_whole && unreadable > 0 {
        return Err(failed(&format!("{unreadable} blocks cannot be read")));
    }
    Ok(Outcome { refused: 0, unreadable })
}

#[test]
fn what_is_damaged_after_a_power_cut_is_never_silent() {
    for shape in Shape::ALL {
        for fault in [Fault::Nothing, Fault::OneBlock, Fault::SeveralBlocks, Fault::PutBack] {
            let mut all = Outcome::default();
            let count = points(4);
            for seed in 0..count {
                let Outcome { refused, unreadable } =
                    trial(shape, fault, seed).unwrap_or_else(|why| panic!("{why}"));
                all.refused += refused;
                all.unreadable += unreadable;
            }
            println!("{shape:?}, {fault:?}, {count} times: {all:?}");
            if fault == Fault::OneBlock {
                assert!(all.refused <= count / 50, "most are opened");
                assert!(all.unreadable > 0 || shape.has_other_copy(), "no data was ever hit");
            }
        }
    }
}
