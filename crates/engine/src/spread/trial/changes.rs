//! Servers that join and leave while clients go on and hosts die: every object is found at all
//! times, and nothing that was promised is lost.

use evenkeel_core::prng::Prng;

use super::super::rules::Mutant;
use super::kit::{OBJECTS, SERVERS, Spread, World, used_disk};
use crate::trial::damage::{Broken, Damageable};
use crate::trial::disk::{Cut, index};
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
    /// Changes of the servers, and what happens between two of them.
    changes: u32,
    turns: u32,
}

/// Events until all that ends without an opening has ended.
const EVENTS_MAX: u32 = 4000;

const QUIET: Trial =
    Trial { mutant: None, faults: Faults::NONE, cut_each: 0, deaths: 0, changes: 6, turns: 120 };

impl trial::Trial for Trial {
    fn run(self, seed: u64) -> Result<(), String> {
        run(seed, self).map(drop)
    }
}

/// What came of a trial.
#[derive(Default)]
struct Outcome {
    moved: u64,
    joined: u32,
    taken_out: u32,
}

fn run(seed: u64, trial: Trial) -> Result<Outcome, String> {
    let mut world = World::new(seed, trial.mutant);
    let mut prng = Prng::new(seed ^ 0xc4a9);
    let mut outcome = Outcome::default();
    for object in 0..OBJECTS as usize {
        world.act_on(Act::Write, World::sectors_of(object));
        world.drain()?;
    }
    world.settle()?;
    world.faults = trial.faults;
    for _ in 0..trial.changes {
        change(&mut world, &mut prng, &mut outcome)?;
        clients(&mut world, trial, &mut prng, &mut outcome)?;
    }
    world.faults = Faults::NONE;
    rests(&mut world)?;
    outcome.moved += world.report().change.map_or(0, |change| change.moved);
    world.restart(Some(Cut::LoseAll))?;
    world.settle()?;
    Ok(outcome)
}

/// Waits for everything to come to its end; false if something may never do so before the volume is
/// opened anew.
fn rests(world: &mut World) -> Result<bool, String> {
    for _ in 0..EVENTS_MAX {
        if !world.complete_one()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lists other servers, or says of one that it is to leave, as soon as the change before is over.
fn change(world: &mut World, prng: &mut Prng, outcome: &mut Outcome) -> Result<(), String> {
    let is_at_rest = rests(world)?;
    let report = world.report();
    let cut = (prng.below(3) > 0).then_some(Cut::Any(prng.next_u64()));
    outcome.moved += report.change.map_or(0, |change| change.moved);
    if !is_at_rest || report.change.is_some_and(|change| !change.is_over) {
        return world.restart(cut);
    }
    let servers = world.disks.len();
    match world.kit.leaving.take() {
        Some(server) if prng.below(4) > 0 => {
            world.disks.remove(server);
            outcome.taken_out += 1;
        }
        // It stays after all.
        Some(_) => {}
        None if servers < SERVERS || servers < SERVERS + 2 && prng.below(2) == 0 => {
            world.disks.insert(index(prng, servers + 1), used_disk());
            outcome.joined += 1;
        }
        None => world.kit.leaving = Some(index(prng, servers)),
    }
    world.restart(cut)
}

/// Clients all over the volume.
fn clients(
    world: &mut World,
    trial: Trial,
    prng: &mut Prng,
    outcome: &mut Outcome,
) -> Result<(), String> {
    for _ in 0..trial.turns {
        if world.clients() < 4 && prng.below(3) == 0 {
            let acts = [Act::Read, Act::Write, Act::Write, Act::Force, Act::Zero, Act::Flush];
            let act = acts[index(prng, acts.len())];
            let all = World::sectors_of(index(prng, OBJECTS as usize));
            match prng.below(12) {
                0 => world.act_on(Act::Trim, all),
                1 => world.act(act, world.sectors()),
                _ => world.act(act, all.start + 4..all.start + 14),
            }
            world.drain()?;
        } else {
            world.complete_one()?;
        }
        world.check_cuts_each(trial.cut_each, prng)?;
        if prng.below(1000) < trial.deaths {
            outcome.moved += world.report().change.map_or(0, |change| change.moved);
            let cut = Cut::Any(prng.next_u64());
            world.restart((prng.below(4) > 0).then_some(cut))?;
        }
    }
    Ok(())
}

#[test]
fn servers_join_and_leave_and_clients_find_everything_all_the_while() {
    let mut all = Outcome::default();
    for seed in 0..24 {
        let one = run(seed, QUIET).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        all.moved += one.moved;
        all.joined += one.joined;
        all.taken_out += one.taken_out;
    }
    let Outcome { moved, joined, taken_out } = all;
    assert!(moved > 60 && joined > 20 && taken_out > 15, "{moved} {joined} {taken_out}");
}

#[test]
fn a_power_cut_at_any_event_of_a_move_loses_nothing_that_was_promised() {
    assert_clean(0..1, Trial { cut_each: 1, changes: 2, ..QUIET });
    assert_clean(1..9, Trial { cut_each: 16, ..QUIET });
}

#[test]
fn hosts_may_die_again_and_again_while_objects_move() {
    assert_clean(0..14, Trial { deaths: 20, ..QUIET });
}

#[test]
fn errors_of_drives_lose_nothing_while_objects_move() {
    let faults = Faults::ANY;
    assert_clean(0..6, Trial { faults, cut_each: 12, ..QUIET });
    assert_clean(100..108, Trial { faults, deaths: 20, ..QUIET });
}

#[test]
fn each_rule_of_a_move_that_is_broken_is_noticed() {
    let cuts = Trial { cut_each: 2, ..QUIET };
    let flushes = Faults { flushes: 25, ..Faults::NONE };
    for (mutant, trial) in [
        (Mutant::CopyOnce, QUIET),
        (Mutant::SkipHold, QUIET),
        (Mutant::SkipDrain, QUIET),
        (Mutant::SkipChoice, cuts),
        (Mutant::TrustCopy, Trial { faults: flushes, ..cuts }),
    ] {
        assert_noticed(mutant, 0..80, Trial { mutant: Some(mutant), ..trial });
    }
}

/// A world with every object written, at rest.
fn full_world() -> World {
    let mut world = World::new(1, None);
    for object in 0..OBJECTS as usize {
        world.act_on(Act::Force, World::sectors_of(object));
        world.drain().unwrap();
    }
    world.settle().unwrap();
    world
}

fn refusal(world: &mut World) -> String {
    for disk in &mut world.disks {
        disk.power_cut(Cut::KeepAll);
    }
    world.kit.open(&mut world.disks, u64::MAX).unwrap().expect_err("it is refused")
}

#[test]
fn a_server_that_leaves_is_emptied_and_can_be_taken_out_then_and_not_before() {
    let mut world = full_world();
    world.kit.leaving = Some(1);
    world.restart(None).unwrap();
    let before = world.report();
    let there = before.servers[1].used_slots;
    assert!(before.servers[1].is_leaving && there > 0);
    assert_eq!(before.change.unwrap().to_move, there);
    let disk = world.disks.remove(1);
    world.kit.leaving = None;
    let why = refusal(&mut world);
    assert!(why.contains("list them again until the status says"), "{why}");
    world.disks.insert(1, disk);
    world.kit.leaving = Some(1);
    world.restart(None).unwrap();
    let now = world.now();
    super::kit::hold(&mut world.engine, now, evenkeel_core::time::Nanos(u64::MAX));
    world.drain().unwrap();
    world.settle().unwrap();
    let after = world.report();
    let change = after.change.unwrap();
    assert!(change.is_over && change.moved >= u64::from(there), "{change:?}");
    assert_eq!((after.servers[1].used_slots, after.placed), (0, OBJECTS));
    let gone = world.disks.remove(1);
    world.kit.leaving = None;
    world.restart(None).unwrap();
    assert_eq!(world.report().change, None, "the change has come to its end");
    world.disks.insert(1, gone);
    let why = refusal(&mut world);
    assert!(why.contains("s1\": it holds nothing of the volume; take it out"), "{why}");
}

#[test]
fn a_server_that_holds_objects_cannot_be_taken_out() {
    let mut world = full_world();
    world.disks.remove(1);
    let mut disks = world.disks.clone();
    let why = refusal(&mut world);
    assert!(why.contains("list"), "{why}");
    let kit = Spread::breaking(Broken { own: Some(Mutant::TakeOut), lease: None });
    let volume = kit.open(&mut disks, u64::MAX).unwrap().expect("nobody has noticed");
    assert!(volume.lost_objects() > 0);
}

#[test]
fn a_second_change_is_refused_until_the_first_is_over() {
    let mut world = full_world();
    world.kit.leaving = Some(1);
    world.restart(None).unwrap();
    assert!(!world.report().change.unwrap().is_over);
    world.disks.push(used_disk());
    let why = refusal(&mut world);
    assert!(why.contains("is still passing 6 objects"), "{why}");
    let Some(new) = world.disks.pop() else { unreachable!("it was pushed above") };
    assert_eq!(new.read(0, 12 << 10), vec![0; 12 << 10], "nothing was written to it");
    world.restart(None).unwrap();
}

#[test]
fn a_volume_needs_two_servers_with_the_choices() {
    let world = full_world();
    let mut volume = Spread::default().open(&mut world.disks.clone(), u64::MAX).unwrap().unwrap();
    assert_eq!(volume.layout.keepers().collect::<Vec<_>>(), [0, 1, 2]);
    let next = volume.layout.members.change(0b1100).unwrap();
    volume.change(next);
    assert_eq!(volume.layout.keepers().collect::<Vec<_>>(), [2, 3]);
}
