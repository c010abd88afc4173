//! Drives of another time: one of a pair is put back as it was once, or each went on without the
//! other.
//!
//! ```text
//! rollback   work -> image of a drive -> work -> the image is put back -> mend
//!              -> the drive alone has everything
//! split      work -> one drive alone works -> the other alone works -> both: refused
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, Fate, Tearing};

use super::crash::{Machine, Scene, format, perform, recover};
use super::cuts::points;
use super::history::History;
use super::random::{Calm, Ordeal, endure_on};
use super::real::{Real, Setup};
use super::subject::{Act, Acts, Subject};

const ORDEAL: Ordeal = Ordeal { cuts: 1, commands_max: 200, tearing: Tearing::Sectors };

fn client(seed: u64) -> Calm<impl FnMut(&History) -> Act> {
    let mut acts = Acts::new(seed);
    Calm(move |history: &History| acts.draw(history.now()))
}

fn lose_caches(scene: &mut Scene) {
    scene.disks.iter_mut().for_each(|disk| disk.power_cut(|_| Fate::Lost));
}

/// Opens the store and gives it time until nothing lacks a copy.
fn mend(setup: &Setup, scene: &mut Scene) -> Result<(), String> {
    let mut machine = Machine::boot(std::mem::take(&mut scene.disks), 0);
    let (setup, drives, clock) = (setup.clone(), machine.drives.clone(), machine.executor.clock());
    let found = machine.executor.block_on(async move {
        let real = Real::open(setup, drives, clock).await?;
        let found = real.contents().await?;
        let is_thin = || real.store.status().thin_segments > 0 || real.store.status().is_mending;
        for _ in 0..100 {
            if !is_thin() {
                return Ok(found);
            }
            real.store.checkpoint().await.map_err(|error| error.to_string())?;
        }
        Err::<_, String>("it is never mended".to_owned())
    });
    scene.disks = machine.rack.disks();
    scene.history.recover(found.map_err(|stopped| stopped.to_string())??)?;
    lose_caches(scene);
    Ok(())
}

/// Puts drives of a pair back as they were, and then does without the other one.
///
/// # Errors
/// What was lost.
pub(crate) fn put_back(setup: &Setup, seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let mut scene = format::<Real>(setup);
    for round in 0..3 {
        let victim = usize::from(prng.below(2) == 1);
        let mut work = |scene: &mut Scene| {
            let seed = prng.next_u64();
            endure_on::<Real>(setup, scene, ORDEAL, seed, client(seed))
        };
        work(&mut scene)?;
        let image = scene.disks[victim].clone();
        work(&mut scene)?;
        scene.disks[victim] = image;
        let failed = |error| format!("seed {seed}, round {round}: {error}");
        mend(setup, &mut scene).map_err(failed)?;
        let mut alone = scene.clone();
        alone.disks[1 - victim].detach(|_| Fate::Lost);
        let setup = Setup { allow_missing: true, ..setup.clone() };
        recover::<Real>(&setup, &mut alone).map_err(failed)?;
    }
    Ok(())
}

/// One drive of a pair works alone, and answers a flush.
fn go_on_alone(setup: &Setup, scene: &Scene, drive: usize, seed: u64) -> Result<Scene, String> {
    let mut machine = Machine::boot(vec![scene.disks[drive].clone()], seed);
    let history = Rc::new(RefCell::new(scene.history.clone()));
    let setup = Setup { allow_missing: true, ..setup.clone() };
    let (book, drives, clock) =
        (Rc::clone(&history), machine.drives.clone(), machine.executor.clock());
    let worked = machine.executor.block_on(async move {
        let real = Real::open(setup.clone(), drives, clock).await?;
        let found = real.contents().await?;
        book.borrow_mut().recover(found)?;
        let mut acts = Acts::new(seed);
        for number in 0..6 {
            let act = acts.draw(book.borrow().now());
            let act = if number == 5 { Act::Flush } else { act };
            perform(&*real, Real::atomic_cells(&setup), &book, &act).await?;
        }
        Ok::<_, String>(())
    });
    worked.map_err(|stopped| stopped.to_string())??;
    let disks = machine.rack.disks();
    drop(machine);
    let history = history.borrow().clone();
    let mut scene = Scene { disks, history };
    lose_caches(&mut scene);
    Ok(scene)
}

/// Has each drive of a pair go on without the other, and joins them.
///
/// # Errors
/// If they are joined, or a side is not what it was before.
pub(crate) fn split(setup: &Setup, seed: u64) -> Result<(), String> {
    let mut scene = format::<Real>(setup);
    endure_on::<Real>(setup, &mut scene, ORDEAL, seed, client(seed))?;
    let one = go_on_alone(setup, &scene, 0, seed + 1)?;
    let other = go_on_alone(setup, &scene, 1, seed + 2)?;
    let disks = [&one, &other].map(|side| side.disks[0].clone()).to_vec();
    let mut both = Scene { disks, history: one.history.clone() };
    match recover::<Real>(setup, &mut both) {
        Err(refusal) if refusal.contains("went on without each other") => {}
        outcome => return Err(format!("seed {seed}: joined, {outcome:?}")),
    }
    let setup = Setup { allow_missing: true, ..setup.clone() };
    for (disk, side) in both.disks.into_iter().zip([one, other]) {
        recover::<Real>(&setup, &mut Scene { disks: vec![disk], ..side })?;
    }
    Ok(())
}

/// Puts a lone drive back as it was, before somebody who remembers how far it was. Whether anything
/// had become durable since.
///
/// # Errors
/// If it is opened all the same, or refused as it was last.
pub(crate) fn put_back_alone(setup: &Setup, seed: u64) -> Result<bool, String> {
    let mut scene = format::<Real>(setup);
    endure_on::<Real>(setup, &mut scene, ORDEAL, seed, client(seed))?;
    let older = scene.disks.clone();
    let mut machine = Machine::boot(std::mem::take(&mut scene.disks), seed);
    let (drives, clock) = (machine.drives.clone(), machine.executor.clock());
    let made = setup.clone();
    let worked = machine.executor.block_on(async move {
        let real = Real::open(made.clone(), drives, clock).await?;
        let (before, mut acts) = (real.store.position(), Acts::new(seed + 1));
        for _ in 0..seed % 8 {
            let act = acts.draw(&Real::blank(&made));
            real.perform(&act).await?;
        }
        real.perform(&Act::Flush).await?;
        Ok::<_, String>((before, real.store.position()))
    });
    let (before, known) = worked.map_err(|stopped| stopped.to_string())??;
    let mut newest = machine.rack.disks();
    drop(machine);
    for disk in &mut newest {
        disk.power_cut(|_| Fate::Lost);
    }
    let opened = |disks: Vec<CrashDisk>| {
        let mut machine = Machine::boot(disks, 0);
        let (drives, clock) = (machine.drives.clone(), machine.executor.clock());
        let setup = Setup { known: Some(known), ..setup.clone() };
        let opened = machine
            .executor
            .block_on(async move { Real::open(setup, drives, clock).await.map(drop) });
        opened.map_err(|stopped| stopped.to_string())?
    };
    opened(newest).map_err(|why| format!("seed {seed}, as it was last: {why}"))?;
    match opened(older) {
        Err(why) if why.contains("older than it was") => Ok(before.durable < known.durable),
        outcome => Err(format!("seed {seed}: opened as it was once: {outcome:?}")),
    }
}

#[test]
fn a_lone_drive_put_back_as_it_was_is_refused_by_who_knows_better() {
    let outcomes = (0..points(4)).map(|seed| put_back_alone(&Setup::tiny(1, 1), seed));
    let outcomes = outcomes.collect::<Result<Vec<_>, _>>().unwrap_or_else(|why| panic!("{why}"));
    assert!(outcomes.iter().any(|&had_written| had_written));
}

#[test]
fn a_drive_put_back_as_it_was_costs_nothing() {
    for seed in 0..points(7) {
        assert_eq!(put_back(&Setup::tiny(2, 2), seed), Ok(()));
    }
}

#[test]
fn drives_that_went_on_without_each_other_are_never_joined() {
    for seed in 0..points(4) {
        assert_eq!(split(&Setup::tiny(2, 2), seed), Ok(()));
    }
}
