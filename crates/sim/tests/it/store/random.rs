//! Long random work with power cuts again and again, during recovery as well, always on the same
//! drives: damage that one recovery leaves is found by the next.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, CutOptions, Rack, Tearing};

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

/// What happens in an ordeal, drawn by the caller's own dice.
pub(crate) trait Script<S: Subject>: 'static {
    /// What the client asks next.
    fn act(&mut self, history: &History) -> Act;

    /// Before each act: what befalls the drives of a store that is open.
    fn befall(&mut self, _store: &S, _rack: &Rack) {}

    /// What becomes, while the power is off, of a drive that has vanished: it comes back.
    fn recall(&mut self, disk: &mut CrashDisk) {
        disk.attach();
    }
}

/// A client whose drives are well.
pub(crate) struct Calm<F>(pub(crate) F);

impl<S: Subject, F: FnMut(&History) -> Act + 'static> Script<S> for Calm<F> {
    fn act(&mut self, history: &History) -> Act {
        (self.0)(history)
    }
}

/// Puts a new store through it.
///
/// # Errors
/// The first violation, and at which cut.
pub(crate) fn endure<S: Subject>(
    setup: &S::Setup,
    ordeal: Ordeal,
    seed: u64,
    script: impl Script<S>,
) -> Result<(), String> {
    endure_from(setup, format::<S>(setup), ordeal, seed, script)
}

/// Puts a store through it that is there already.
///
/// # Errors
/// The first violation, and at which cut.
pub(crate) fn endure_from<S: Subject>(
    setup: &S::Setup,
    mut scene: Scene,
    ordeal: Ordeal,
    seed: u64,
    script: impl Script<S>,
) -> Result<(), String> {
    endure_on(setup, &mut scene, ordeal, seed, script)
}

/// The same, and leaves what the last cut has left.
///
/// # Errors
/// The first violation, and at which cut.
pub(crate) fn endure_on<S: Subject>(
    setup: &S::Setup,
    scene: &mut Scene,
    ordeal: Ordeal,
    seed: u64,
    script: impl Script<S>,
) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let script = Rc::new(RefCell::new(script));
    for round in 0..ordeal.cuts {
        // Some cuts come early, in the midst of recovery or right after it.
        let bound = if prng.below(3) == 0 { ordeal.commands_max / 10 } else { ordeal.commands_max };
        let commands = 1 + prng.below(bound.max(1));
        live::<S>(setup, scene, prng.next_u64(), commands, Rc::clone(&script))
            .map_err(|error| format!("seed {seed}, after {round} cuts: {error}"))?;
        let options = CutOptions { tearing: ordeal.tearing, may_ruin: prng.below(4) == 0 };
        cut(&mut scene.disks, prng.next_u64(), options);
        for disk in scene.disks.iter_mut().filter(|disk| disk.is_gone()) {
            script.borrow_mut().recall(disk);
        }
    }
    Ok(())
}

/// Opens the store, checks it, and works until the fuse blows.
fn live<S: Subject>(
    setup: &S::Setup,
    scene: &mut Scene,
    seed: u64,
    commands: u64,
    script: Rc<RefCell<impl Script<S>>>,
) -> Result<(), String> {
    let mut machine = Machine::boot(std::mem::take(&mut scene.disks), seed);
    machine.rack.cut_after(Some(commands));
    let history = Rc::new(RefCell::new(scene.history.clone()));
    let atomic_cells = S::atomic_cells(setup);
    let (setup, drives, clock) = (setup.clone(), machine.present(), machine.executor.clock());
    let (book, rack) = (Rc::clone(&history), machine.rack.clone());
    let end = machine.executor.block_on(async move {
        let store = S::open(setup, drives, clock).await?;
        let found = store.contents().await?;
        book.borrow_mut().recover(found)?;
        loop {
            script.borrow_mut().befall(&store, &rack);
            let act = script.borrow_mut().act(&book.borrow());
            perform(&*store, atomic_cells, &book, &act).await?;
        }
    });
    is_cut(end)?;
    scene.disks = machine.rack.disks();
    drop(machine);
    scene.history = history.borrow().clone();
    Ok(())
}
