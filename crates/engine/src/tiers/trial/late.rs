//! Gates that are killed while extents move and followed at once, on tiers that carry out what they
//! had read of them up to a span later: by the same gate, which knows what was under way, or by
//! another one, which does not.

use evenkeel_core::id::ServerId;
use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

use super::super::rules::Mutant;
use super::kit::{World, opening};
use crate::lease::{LateWrites, Mutant as Check, Times};
use crate::trial::disk::index;
use crate::trial::names::names_of;
use crate::trial::world::{Act, Lates};
use crate::trial::{self, assert_clean, assert_noticed};

/// What late writes have left of their span when a volume is open that does not wait for them.
const LEFT: Span = Span::from_millis(12);
const EXTENTS: usize = 5;

/// How a trial goes.
#[derive(Clone, Copy)]
struct Killed {
    mutant: Option<Mutant>,
    check: Option<Check>,
    /// What is carried out late.
    lates: Lates,
    /// Whether whoever follows knows what was under way.
    is_known: bool,
    /// For so long whoever follows moves nothing.
    rest: Span,
    /// What happens in one life.
    turns: u32,
}

const SAME: Killed =
    Killed { mutant: None, check: None, lates: Lates::All, is_known: true, rest: LEFT, turns: 500 };

/// What clients had under way may lie over what they write anew, as is documented: it is not
/// carried out here, but all that the gate noted and copied is.
const ANOTHER: Killed = Killed { lates: Lates::Steps, is_known: false, ..SAME };

/// Extents move at once: what was copied late may lie over them, what was noted late must not.
const RESTLESS: Killed = Killed { lates: Lates::Notes, rest: Span::ZERO, ..ANOTHER };

/// Clients at work, at extents that move back and forth.
fn work(world: &mut World, prng: &mut Prng, turns: u32) -> Result<(), String> {
    for _ in 0..turns {
        let extent = index(prng, EXTENTS);
        if prng.below(3) == 0 {
            world.begin_move(u32::try_from(extent).unwrap());
            world.drain()?;
        }
        if world.clients() < 4 && prng.below(3) == 0 {
            let acts = [Act::Read, Act::Write, Act::Write, Act::Force, Act::Zero, Act::Flush];
            let act = acts[index(prng, acts.len())];
            let all = World::sectors_of(u32::try_from(extent).unwrap());
            world.act(act, all.start..all.start + 24);
            world.drain()?;
        } else {
            world.complete_one()?;
        }
    }
    Ok(())
}

/// The gate is killed, and followed at once. Returns until when late writes may come.
fn restart(world: &mut World, trial: Killed, life: u64) -> Result<Nanos, String> {
    let settled = world.now() + Times::DEFAULT.settle();
    let until = settled + LEFT;
    if !trial.is_known {
        // Nothing is late for longer than until the take-over after the next.
        world.carry_out_late(Nanos(u64::MAX));
    }
    let ranges = world.kill((settled, until), trial.lates);
    let late = LateWrites::new(until, 2, if trial.is_known { ranges } else { Vec::new() });
    let mut opening = opening(names_of(0, (1, life))).heeding(late).resting(trial.rest);
    opening.rules.mutant = trial.mutant;
    opening.candidate.tenure.right.rules.mutant = trial.check;
    let volume = world.open(opening)?;
    world.serve(volume, false)?;
    Ok(until)
}

/// A gate that is killed and followed a few times; returns how often it was open before late writes
/// were over.
fn run(seed: u64, trial: Killed) -> Result<u32, String> {
    let mut world = World::new(seed, trial.mutant);
    let mut prng = Prng::new(seed ^ 0x1a7e);
    let mut at_once = 0;
    for life in 1..8 {
        let until = restart(&mut world, trial, life)?;
        at_once += u32::from(world.now() < until);
        work(&mut world, &mut prng, trial.turns)?;
    }
    world.settle()?;
    world.pass(LEFT);
    restart(&mut world, trial, 8)?;
    Ok(at_once)
}

/// How long tiers go on with what they had read from a connection that was lost.
const LATE: Span = Span::from_millis(10);

/// Connections that are lost, again and again, while extents move.
#[derive(Clone, Copy)]
struct Lossy(Option<Mutant>);

impl trial::Trial for Lossy {
    fn run(self, seed: u64) -> Result<(), String> {
        let mut world = World::new(seed, self.0);
        let mut prng = Prng::new(seed ^ 0x1055);
        for _ in 0..60 {
            work(&mut world, &mut prng, 25)?;
            world.lose_connection(ServerId(u32::from(prng.below(2) == 0)), LATE)?;
        }
        world.read_all_after(LATE)
    }
}

#[test]
fn what_tiers_carry_out_late_of_lost_connections_does_no_harm() {
    assert_clean(0..80, Lossy(None));
    assert_noticed(Mutant::WriteLate, 0..100, Lossy(Some(Mutant::WriteLate)));
}

impl trial::Trial for Killed {
    fn run(self, seed: u64) -> Result<(), String> {
        run(seed, self).map(drop)
    }
}

#[test]
fn a_gate_that_is_started_again_at_once_loses_nothing_to_what_its_tiers_carry_out_late() {
    let mut at_once = 0;
    for seed in 0..60 {
        at_once += run(seed, SAME).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    assert!(at_once > 300, "{at_once} of 420 times it was open before late writes were over");
}

#[test]
fn what_an_owner_had_copied_and_noted_late_does_no_harm_to_the_next_one() {
    assert_clean(0..60, ANOTHER);
    assert_clean(0..60, RESTLESS);
}

#[test]
fn each_rule_about_late_writes_that_is_broken_is_noticed() {
    let restless = Killed { rest: Span::ZERO, ..SAME };
    assert_clean(0..60, restless);
    for (mutant, trial) in
        [(Mutant::WriteLate, SAME), (Mutant::MoveLate, restless), (Mutant::MoveEarly, ANOTHER)]
    {
        assert_noticed(mutant, 0..100, Killed { mutant: Some(mutant), ..trial });
    }
    let brief = Killed { turns: 60, ..RESTLESS };
    assert_clean(0..200, brief);
    let brief = Killed { mutant: Some(Mutant::CountOld), ..brief };
    assert_noticed(Mutant::CountOld, 0..2000, brief);
    let same_half = Killed { check: Some(Check::SameHalf), ..RESTLESS };
    assert_noticed(Check::SameHalf, 0..200, same_half);
}
