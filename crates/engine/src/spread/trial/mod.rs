//! Placings on trial: clients that read, write, force and flush while objects get their places, on
//! drives with volatile caches that reorder, tear and fail, with the power cut at every event; each
//! rule of [`super::rules`] broken, to see that it would be noticed; and gates that want the same
//! volume.

mod absent;
mod changes;
mod keepers;
mod kit;
mod late;
mod owners;
mod preferences;
mod resizing;
mod servers;

use evenkeel_core::prng::Prng;
pub(crate) use kit::Spread;
use kit::{OBJECTS, World};

use super::rules::Mutant;
use crate::trial::care::Cared;
use crate::trial::damage;
use crate::trial::disk::index;
use crate::trial::world::{Act, Faults, Kit};
use crate::trial::{self, assert_clean, assert_noticed};

/// How a trial goes.
#[derive(Clone, Copy)]
struct Trial {
    mutant: Option<Mutant>,
    faults: Faults,
    /// After one in so many events the power is cut, on a copy of the world; never if 0.
    cut_each: u64,
    /// How often the host dies, in thousandths of events.
    deaths: u64,
    /// How often one object or two are given up, in thousandths of what clients ask for.
    given_up: u64,
    turns: u32,
}

const QUIET: Trial =
    Trial { mutant: None, faults: Faults::NONE, cut_each: 0, deaths: 0, given_up: 0, turns: 250 };

const FREEING: Trial = Trial { given_up: 250, turns: 400, ..QUIET };

/// Clients all over a volume that fills.
fn run(seed: u64, trial: Trial) -> Result<World, String> {
    let mut world = World::new(seed, trial.mutant);
    world.faults = trial.faults;
    world.kit.broken.own = trial.mutant;
    let mut prng = Prng::new(seed ^ 0x5eed);
    let clients_max = 1 + index(&mut prng, 8);
    for _ in 0..trial.turns {
        if world.clients() < clients_max && prng.below(2) == 0 {
            let acts =
                [Act::Read, Act::Read, Act::Write, Act::Write, Act::Force, Act::Zero, Act::Flush];
            let act = acts[index(&mut prng, acts.len())];
            let object = index(&mut prng, OBJECTS as usize);
            let all = World::sectors_of(object);
            if prng.below(1000) < trial.given_up {
                let last = (object + index(&mut prng, 2)).min(OBJECTS as usize - 1);
                let act = [Act::Trim, Act::Zero][index(&mut prng, 2)];
                world.act_on(act, all.start..World::sectors_of(last).end);
                world.drain()?;
                continue;
            }
            let within = match prng.below(8) {
                0 => world.sectors(),
                // Mostly the same few sectors, so that requests meet.
                1..4 => all.start + 4..all.start + 14,
                // Across the end of an object.
                4 => all.end.saturating_sub(3)..(all.end + 3).min(world.sectors().end),
                _ => all,
            };
            world.act(act, within);
            world.drain()?;
        } else {
            world.complete_one()?;
        }
        world.check_cuts_each(trial.cut_each, &mut prng)?;
        world.perhaps_die(trial.deaths, &mut prng)?;
    }
    world.settle()?;
    Ok(world)
}

impl trial::Trial for Trial {
    fn run(self, seed: u64) -> Result<(), String> {
        run(seed, self).map(drop)
    }
}

#[test]
fn every_read_brings_the_last_write_or_one_under_way_and_zeroes_where_nobody_wrote() {
    let mut placed = 0;
    for seed in 0..40 {
        let mut world = run(seed, QUIET).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        placed += world.report().placed;
        assert_eq!(world.errors, 0);
    }
    assert!(placed > 150, "{placed} objects");
}

#[test]
fn objects_that_are_given_up_read_as_zeroes_and_their_room_is_taken_again() {
    let mut freed = 0;
    for seed in 0..40 {
        let mut world = run(seed, FREEING).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let report = world.report();
        let used: u32 = report.servers.iter().map(|server| server.used_slots).sum();
        assert_eq!((used, world.errors), (report.placed, 0), "seed {seed}");
        freed += report.freed;
    }
    assert!(freed > 150, "{freed} objects");
}

/// Damages each copy of the notes, one at a time, after an object was given up; returns in how many
/// openings it has come back.
fn come_back(mutant: Option<Mutant>) -> u32 {
    let mut world = World::new(3, None);
    world.kit.broken.own = mutant;
    for act in [Act::Write, Act::Flush, Act::Trim, Act::Flush] {
        world.act_on(act, World::sectors_of(0));
        world.drain().unwrap();
        world.settle().unwrap();
    }
    assert_eq!(world.report().freed, 1);
    let is_back = |(server, offset): (usize, u64)| {
        let mut disks = world.disks.clone();
        let mut block = disks[server].read(offset, 4096);
        block[3000] ^= 1;
        disks[server].write(offset, &block, false);
        let volume = world.kit.open(&mut disks, u64::MAX)?.ok()?;
        // Whatever its slot holds by then: a server need not do as it is advised, and discard it.
        Some(volume.places.get(0).get().is_some())
    };
    Spread::in_use(&world).into_iter().filter_map(is_back).map(u32::from).sum()
}

#[test]
fn an_object_that_was_given_up_does_not_come_back_with_an_older_copy_of_a_table() {
    assert_eq!(come_back(None), 0);
    assert!(come_back(Some(Mutant::AdoptDoubtful)) > 0, "it would be noticed");
}

/// What was noted lies in the drives' caches alone when the volume is opened.
fn reread_notes(rule: Option<Mutant>) -> Result<(), String> {
    let mut world = World::new(1, None);
    world.kit.broken.own = rule;
    world.act_on(Act::Force, world.sectors());
    world.drain()?;
    world.settle()?;
    let notes = Spread::in_use(&world);
    damage::reread(&mut world, &notes)
}

#[test]
fn notes_that_were_only_read_are_noted_again_before_they_count() {
    reread_notes(None).unwrap();
    println!("{}", reread_notes(Some(Mutant::TrustCache)).unwrap_err());
}

#[test]
fn a_power_cut_while_objects_are_given_up_brings_nothing_back_that_was_promised_gone() {
    assert_clean(0..1, Trial { cut_each: 2, ..FREEING });
    assert_clean(1..7, Trial { cut_each: 16, ..FREEING });
    assert_clean(0..10, Trial { deaths: 20, turns: 600, ..FREEING });
    let faults = Faults::ANY;
    assert_clean(0..5, Trial { faults, cut_each: 8, ..FREEING });
    assert_clean(100..110, Trial { faults, deaths: 20, turns: 600, ..FREEING });
}

#[test]
fn a_power_cut_at_any_event_of_a_placing_loses_nothing_that_was_promised() {
    assert_clean(0..3, Trial { cut_each: 1, ..QUIET });
    assert_clean(3..15, Trial { cut_each: 8, ..QUIET });
}

#[test]
fn hosts_may_die_again_and_again_also_while_opening() {
    assert_clean(0..20, Trial { deaths: 20, turns: 600, ..QUIET });
}

#[test]
fn errors_of_drives_lose_nothing_that_was_promised() {
    let faults = Faults::ANY;
    assert_clean(0..8, Trial { faults, cut_each: 4, ..QUIET });
    assert_clean(100..110, Trial { faults, deaths: 20, turns: 600, ..QUIET });
}

#[test]
fn each_rule_that_is_broken_is_noticed() {
    let cuts = Trial { cut_each: 4, ..QUIET };
    let notes = Faults { notes: 15, ..Faults::NONE };
    let clients = Faults { flushes: 25, ..Faults::NONE };
    for (mutant, trial) in [
        (Mutant::SkipWipe, QUIET),
        (Mutant::SkipWipeFlush, cuts),
        (Mutant::SkipNoteFlush, cuts),
        (Mutant::SkipListing, cuts),
        (Mutant::ChoiceFirst, cuts),
        (Mutant::ClearFirst, Trial { cut_each: 4, ..FREEING }),
        (Mutant::SkipClear, Trial { cut_each: 4, ..FREEING }),
        (Mutant::TrustFlush, Trial { faults: clients, ..cuts }),
        (Mutant::ForgetFlush, Trial { faults: notes, ..cuts }),
    ] {
        assert_noticed(mutant, 0..60, Trial { mutant: Some(mutant), ..trial });
    }
}
