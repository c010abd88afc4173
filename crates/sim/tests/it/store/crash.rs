//! Working, losing power, recovering, and holding the outcome against the oracle.
//!
//! ```text
//!   format -> work -> (every command: a picture of drives and history) -> every cut of the picture
//!       -> recover -> is it a prefix? -> work on
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{
    CrashDisk, CutOptions, Fate, Jitter, JitterOptions, Rack, SeededCut, SimDrive, SimDriveOptions,
};
use evenkeel_sim::executor::{Executor, Order, Stopped};

use super::history::History;
use super::subject::{Act, Answer, Subject};

/// Drives and what they may hold after a power cut.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) disks: Vec<CrashDisk>,
    pub(crate) history: History,
}

/// A world with drives in it.
pub(crate) struct Machine {
    pub(crate) executor: Executor,
    pub(crate) rack: Rack,
    pub(crate) drives: Vec<SimDrive>,
}

impl Machine {
    /// Switches on. The seed settles timing and the order of tasks; 0 is the calm one.
    pub(crate) fn boot(disks: Vec<CrashDisk>, seed: u64) -> Self {
        let order = if seed == 0 { Order::Fair } else { Order::Seeded(Prng::new(seed)) };
        let executor = Executor::new(order);
        let rack = Rack::new(executor.clock());
        let mut drives = Vec::new();
        for (number, disk) in (0..).zip(disks) {
            assert_eq!(disk.under_way().next(), None, "the power was cut before");
            let timing = Jitter::new(JitterOptions::default(), disk.size_bytes(), seed + number);
            let bay = rack.install(disk, Box::new(timing));
            drives.push(SimDrive::open(&rack, bay, SimDriveOptions::default()));
        }
        Self { executor, rack, drives }
    }

    /// The drives that have not vanished.
    pub(crate) fn present(&self) -> Vec<SimDrive> {
        let disks = self.rack.disks();
        let present = self.drives.iter().zip(&disks).filter(|(_, disk)| !disk.is_gone());
        present.map(|(drive, _)| drive.clone()).collect()
    }
}

/// Each scene in which the power may be cut while a store is made on these drives.
pub(crate) fn scenes_of_making<S: Subject>(setup: &S::Setup, start: Scene) -> Vec<Scene> {
    let mut machine = Machine::boot(start.disks, 0);
    let scenes = Rc::new(RefCell::new(Vec::new()));
    let (camera, history) = (Rc::clone(&scenes), start.history);
    machine.rack.observe(move |disks| {
        camera.borrow_mut().push(Scene { disks, history: history.clone() });
    });
    let made = machine.executor.block_on(S::format(setup.clone(), machine.drives.clone()));
    assert_eq!(made, Ok(Ok(())), "a new store");
    drop(machine);
    scenes.take()
}

/// A new store, cleanly written.
pub(crate) fn format<S: Subject>(setup: &S::Setup) -> Scene {
    let blank = S::drives(setup);
    let mut machine = Machine::boot(blank, 0);
    let formatted = machine.executor.block_on(S::format(setup.clone(), machine.drives.clone()));
    assert_eq!(formatted, Ok(Ok(())), "a new store");
    let mut disks = machine.rack.disks();
    // What a finished format left unflushed is lost, as it may be.
    for disk in &mut disks {
        disk.power_cut(|_| Fate::Lost);
    }
    Scene { disks, history: History::new(S::blank(setup)) }
}

/// Opens what a power cut has left, and holds it against the history. The scene goes on from there:
/// its drives are as recovery left them, its history begins with what was found.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn recover<S: Subject>(setup: &S::Setup, scene: &mut Scene) -> Result<(), String> {
    let mut machine = Machine::boot(std::mem::take(&mut scene.disks), 0);
    let (setup, drives, clock) = (setup.clone(), machine.present(), machine.executor.clock());
    let found = machine.executor.block_on(async move {
        let store = S::open(setup, drives, clock).await?;
        store.contents().await
    });
    scene.disks = machine.rack.disks();
    scene.history.recover(found.map_err(|stopped| stopped.to_string())??)
}

/// Works through these acts, and shows each scene in which the power may be cut during the last of
/// them, or right after it.
///
/// # Errors
/// What went wrong on the way, with all drives well.
pub(crate) fn scenes<S: Subject>(
    setup: &S::Setup,
    start: &Scene,
    acts: &[Act],
) -> Result<Vec<Scene>, String> {
    let mut machine = Machine::boot(start.disks.clone(), 0);
    let history = Rc::new(RefCell::new(start.history.clone()));
    let scenes = Rc::new(RefCell::new(Vec::new()));
    let (drives, clock) = (machine.drives.clone(), machine.executor.clock());
    let (camera, written, rack) = (Rc::clone(&scenes), Rc::clone(&history), machine.rack.clone());
    let (setup, acts) = (setup.clone(), acts.to_vec());
    machine
        .executor
        .block_on(async move {
            let store = S::open(setup.clone(), drives, clock).await?;
            let found = store.contents().await?;
            written.borrow_mut().recover(found)?;
            let history = Rc::clone(&written);
            let (last, before) = acts.split_last().expect("there is something to do");
            for act in before {
                perform(&*store, S::atomic_cells(&setup), &history, act).await?;
            }
            rack.observe(move |disks| {
                camera.borrow_mut().push(Scene { disks, history: written.borrow().clone() });
            });
            perform(&*store, S::atomic_cells(&setup), &history, last).await
        })
        .map_err(|stopped| stopped.to_string())??;
    let end = Scene { disks: machine.rack.disks(), history: history.borrow().clone() };
    drop(machine);
    let mut scenes = scenes.take();
    scenes.push(end);
    Ok(scenes)
}

/// One act of a client who waits for the answer.
pub(crate) async fn perform<S: Subject>(
    store: &S,
    atomic_cells: u32,
    history: &RefCell<History>,
    act: &Act,
) -> Result<(), String> {
    act.changes(atomic_cells).iter().for_each(|change| history.borrow_mut().ask(change));
    match store.perform(act).await? {
        Answer::Refused => history.borrow_mut().refused(act.changes(atomic_cells).len()),
        Answer::Done if act.is_barrier() => history.borrow_mut().flushed(),
        Answer::Done => {}
    }
    Ok(())
}

/// Cuts the power of all drives, by a seed.
pub(crate) fn cut(disks: &mut [CrashDisk], seed: u64, options: CutOptions) {
    for (number, disk) in (0..).zip(disks) {
        let mut cut = SeededCut::new(seed.wrapping_mul(31).wrapping_add(number), options);
        disk.power_cut(|write| cut.fate(write));
    }
}

/// Whether a run was stopped by its fuse, or ended of itself; anything else is wrong.
///
/// # Errors
/// A deadlock, a livelock, or what the run itself reports.
pub(crate) fn is_cut(end: Result<Result<(), String>, Stopped>) -> Result<bool, String> {
    match end {
        Ok(outcome) => outcome.map(|()| false),
        Err(Stopped::Halted) => Ok(true),
        Err(stopped) => Err(stopped.to_string()),
    }
}
