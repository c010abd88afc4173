//! Long random work with power cuts again and again, during recovery as well, always on the same
//! drives: damage that one recovery leaves is found by the next.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CutOptions, Tearing};

use super::crash::{Machine, Scene, cut, format, is_cut, perform};
use super::history::History;
use super::subject::{Act, Subject};

/// How long and how hard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordeal {
    /// Power cuts in a row on the same drives.
    pub(crate) cuts: u32,
    /// Drive commands between two cuts at most, mostly; recovery's own count.
    pub(crate) commands_max: u64,
    /// How writes tear.
    pub(crate) tearing: Tearing,
}

/// Puts a new store through it; `draw` says what clients ask next.
///
/// # Errors
/// The first violation, and at which cut.
pub(crate) fn endure<S: Subject>(
    setup: &S::Setup,
    ordeal: Ordeal,
    seed: u64,
    draw: impl FnMut(&History) -> Act + 'static,
) -> Result<(), String> {
    let mut scene = format::<S>(setup);
    let mut prng = Prng::new(seed);
    let draw = Rc::new(RefCell::new(draw));
    for round in 0..ordeal.cuts {
        // Some cuts come early, in the midst of recovery or right after it.
        let bound = if prng.below(3) == 0 { ordeal.commands_max / 10 } else { ordeal.commands_max };
        let commands = 1 + prng.below(bound.max(1));
        let draw = Rc::clone(&draw);
        live::<S>(setup, &mut scene, prng.next_u64(), commands, draw)
            .map_err(|error| format!("seed {seed}, after {round} cuts: {error}"))?;
        let options = CutOptions { tearing: ordeal.tearing, may_ruin: prng.below(4) == 0 };
        cut(&mut scene.disks, prng.next_u64(), options);
    }
    Ok(())
}

/// Opens the store, checks it, and works until the fuse blows.
fn live<S: Subject>(
    setup: &S::Setup,
    scene: &mut Scene,
    seed: u64,
    commands: u64,
    draw: Rc<RefCell<impl FnMut(&History) -> Act + 'static>>,
) -> Result<(), String> {
    let mut machine = Machine::boot(std::mem::take(&mut scene.disks), seed);
    machine.rack.cut_after(Some(commands));
    let history = Rc::new(RefCell::new(scene.history.clone()));
    let (setup, drives, clock) = (setup.clone(), machine.drives.clone(), machine.executor.clock());
    let book = Rc::clone(&history);
    let end = machine.executor.block_on(async move {
        let store = S::open(setup, drives, clock).await?;
        let found = store.contents().await?;
        book.borrow_mut().recover(found)?;
        loop {
            let act = (draw.borrow_mut())(&book.borrow());
            perform(&*store, &book, &act).await?;
        }
    });
    is_cut(end)?;
    scene.disks = machine.rack.disks();
    drop(machine);
    scene.history = history.borrow().clone();
    Ok(())
}
