//! One block of one drive is damaged while nobody has the store open, wherever it may lie. What was
//! flushed is read as it was, or is an error on the damaged block alone; where there is another
//! copy, it is no error either. No store is refused for it.
//!
//! Stores are closed or killed. One that is killed had rested before: of what was flushed in the
//! last moments, the log does not say yet that it was.
//!
//! Where several blocks are damaged, a store may be refused, and any of them may be an error; what
//! is read is right all the same. Its keeper remembers how far it was: else nobody could tell that
//! the last record and the empty one behind it are both lost.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, Fate};
use evenkeel_store::{Position, StoreError};

use super::crash::{Machine, Scene, perform};
use super::cuts::points;
use super::history::World;
use super::real::{Real, Setup};
use super::shape::Shape;
use super::stamp::Author;
use super::subject::{Act, Acts, Subject};

const CELLS: u32 = 8;
const ACTS_MAX: u64 = 60;

/// Works, and leaves all that was written on the drives: whoever is killed loses nothing that the
/// operating system has.
fn work(setup: &Setup, scene: &mut Scene, is_closed: bool, seed: u64) -> Result<Position, String> {
    let mut machine = Machine::boot(std::mem::take(&mut scene.disks), seed);
    let history = Rc::new(RefCell::new(scene.history.clone()));
    let (setup, drives, clock) = (setup.clone(), machine.present(), machine.executor.clock());
    let book = Rc::clone(&history);
    let worked = machine.executor.block_on(async move {
        let real = Real::open(setup.clone(), drives, clock).await?;
        let (mut acts, mut prng) = (Acts::new(seed), Prng::new(seed));
        let count = 1 + prng.below(ACTS_MAX);
        for number in 0..count {
            let act = acts.draw(book.borrow().now());
            let act = if number + 1 == count { Act::Flush } else { act };
            perform(&*real, Real::atomic_cells(&setup), &book, &act).await?;
        }
        let end = if is_closed { real.store.close().await } else { real.store.mark_tail().await };
        end.map_err(|error| error.to_string())?;
        Ok::<_, String>(real.store.position())
    });
    let position = worked.map_err(|stopped| stopped.to_string())??;
    scene.disks = machine.rack.disks();
    scene.disks.iter_mut().for_each(|disk| disk.power_cut(|_| Fate::Kept));
    scene.history = history.borrow().clone();
    Ok(position)
}

/// Damages one block of these drives; says what it did.
pub(crate) fn damage(disks: &mut [CrashDisk], prng: &mut Prng) -> String {
    let present: Vec<usize> = (0..disks.len()).filter(|&disk| !disks[disk].is_gone()).collect();
    let pick = |prng: &mut Prng, count: usize| {
        usize::try_from(prng.below(count as u64)).expect("below a length")
    };
    let disk = present[pick(prng, present.len())];
    let occupied = disks[disk].medium().occupied_blocks();
    let place =
        disks[disk].medium().occupied_block(pick(prng, occupied)).expect("there are so many");
    let (bit, is_unreadable) = (prng.below(4096 * 8), prng.below(2) == 0);
    disks[disk].damage(|medium| {
        if is_unreadable { medium.ruin(place, 4096) } else { medium.rot(place, bit) }
    });
    let how = if is_unreadable { "unreadable" } else { "rotten" };
    format!("block {} of drive {disk} {how}", place / 4096)
}

/// Blocks that could not be read.
///
/// # Errors
/// A refusal, or wrong bytes.
fn look(setup: &Setup, scene: Scene, expected: &World) -> Result<u64, String> {
    let mut machine = Machine::boot(scene.disks, 0);
    let (setup, drives, clock) = (setup.clone(), machine.present(), machine.executor.clock());
    let image: Vec<Vec<Author>> =
        expected.spaces[&0].chunks_exact(CELLS as usize).map(<[Author]>::to_vec).collect();
    let found = machine.executor.block_on(async move {
        let real =
            Real::open(setup, drives, clock).await.map_err(|why| format!("refused: {why}"))?;
        let mut unreadable = 0;
        for (block, expected) in (0..).zip(image) {
            match real.try_read(block * CELLS, CELLS).await {
                Ok(cells) if cells.as_ref() == Ok(&expected) => {}
                Ok(cells) => return Err(format!("block {block} is silently wrong: {cells:?}")),
                Err(StoreError::Unreadable { .. }) => unreadable += 1,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(unreadable)
    });
    found.map_err(|stopped| stopped.to_string())?
}

/// One damage; whether it cost a block.
fn trial(shape: Shape, is_closed: bool, seed: u64) -> Result<bool, String> {
    let setup = shape.setup();
    let mut prng = Prng::new(seed);
    let mut scene = shape.make(&setup);
    work(&setup, &mut scene, is_closed, seed)?;
    shape.lose_drive(&mut scene);
    let what = damage(&mut scene.disks, &mut prng);
    let failed = |why| format!("{shape:?}, closed {is_closed}, seed {seed}, {what}: {why}");
    let expected = scene.history.now().clone();
    let unreadable = look(&setup, scene, &expected).map_err(failed)?;
    let has_other_copy = shape.has_other_copy();
    if unreadable > u64::from(!has_other_copy) {
        return Err(failed(format!("{unreadable} blocks cannot be read")));
    }
    Ok(unreadable > 0)
}

/// Several damages; whether the store was refused.
fn trial_of_several(shape: Shape, is_closed: bool, seed: u64) -> Result<bool, String> {
    let mut setup = shape.setup();
    let mut prng = Prng::new(seed);
    let mut scene = shape.make(&setup);
    setup.known = Some(work(&setup, &mut scene, is_closed, seed)?);
    shape.lose_drive(&mut scene);
    let count = 2 + prng.below(6);
    let all: Vec<String> = (0..count).map(|_| damage(&mut scene.disks, &mut prng)).collect();
    let expected = scene.history.now().clone();
    match look(&setup, scene, &expected) {
        Ok(_) => Ok(false),
        Err(why) if why.starts_with("refused: ") => Ok(true),
        Err(why) => {
            let all = all.join(", ");
            Err(format!("{shape:?}, closed {is_closed}, seed {seed}, {all}: {why}"))
        }
    }
}

#[test]
fn several_damaged_blocks_are_never_silent() {
    for shape in Shape::ALL {
        for is_closed in [false, true] {
            let count = points(6);
            let outcomes = (0..count).map(|seed| trial_of_several(shape, is_closed, seed));
            let refused = outcomes.collect::<Result<Vec<_>, _>>();
            let refused = refused.unwrap_or_else(|why| panic!("{why}"));
            let refused = refused.into_iter().filter(|&is_refused| is_refused).count();
            println!("{shape:?}, closed {is_closed}: {refused} of {count} were refused");
            assert!((refused as u64) < count / 2, "most are opened");
        }
    }
}

#[test]
fn one_damaged_block_costs_that_block_at_most() {
    for shape in Shape::ALL {
        for is_closed in [false, true] {
            let count = points(6);
            let outcomes = (0..count).map(|seed| trial(shape, is_closed, seed));
            let lost =
                outcomes.collect::<Result<Vec<_>, _>>().unwrap_or_else(|why| panic!("{why}"));
            let lost = lost.into_iter().filter(|&is_lost| is_lost).count();
            println!("{shape:?}, closed {is_closed}: {lost} of {count} cost their block");
            assert!(lost > 0 || shape.has_other_copy(), "no data was ever hit");
        }
    }
}
