//! Gates that are killed under writes and followed at once, on servers that carry out what they had
//! read of them up to a span later: by the same gate, which knows what was under way, or by another
//! one, which does not.

use evenkeel_core::id::ServerId;
use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

use super::super::rules::Mutant;
use super::kit::{OBJECTS, SERVERS, World, opening_by};
use crate::lease::Times;
use crate::lease::{LateWrites, Mutant as Check};
use crate::trial::disk::index;
use crate::trial::names::names_of;
use crate::trial::world::{Act, Lates};
use crate::trial::{self, assert_clean, assert_noticed};

/// What late writes have left of their span when a volume is open that does not wait for them.
const LEFT: Span = Span::from_millis(12);

/// How a trial goes.
#[derive(Clone, Copy, Default)]
struct Killed {
    mutant: Option<Mutant>,
    check: Option<Check>,
    /// A server leaves meanwhile.
    leaves: bool,
    /// Whether clients write all over the volume, or to objects that were written before.
    is_filling: bool,
    /// Whoever follows does not know what was under way. What clients had under way may then lie
    /// over what they write anew, as is documented, and is not carried out; but all that the gate
    /// noted, wiped, copied and discarded of its own is.
    is_another: bool,
}

const ANOTHER: Killed =
    Killed { mutant: None, check: None, leaves: false, is_filling: false, is_another: true };

/// Clients at work for some turns.
fn work(world: &mut World, prng: &mut Prng, turns: u32, trial: Killed) -> Result<(), String> {
    // With more of them, something is noted at almost any time.
    let clients_max = if trial.is_filling { 2 } else { 8 };
    for _ in 0..turns {
        if world.clients() < clients_max && prng.below(2) == 0 {
            let acts =
                [Act::Read, Act::Write, Act::Write, Act::Write, Act::Zero, Act::Trim, Act::Flush];
            let act = acts[index(prng, acts.len())];
            let object = World::sectors_of(index(prng, OBJECTS as usize));
            if trial.is_filling && prng.below(3) == 0 {
                world.act_on(Act::Trim, object);
            } else {
                let end = if trial.is_filling { object.end } else { object.start + 24 };
                world.act(act, object.start..end);
            }
            world.drain()?;
        } else {
            world.complete_one()?;
        }
    }
    Ok(())
}

/// The gate is killed, and started again at once. Returns until when late writes may come.
fn restart(world: &mut World, trial: Killed, life: u64) -> Result<Nanos, String> {
    let settled = world.now() + Times::DEFAULT.settle();
    let until = settled + LEFT;
    if trial.is_another {
        // Nothing is late for longer than until the take-over after the next.
        world.carry_out_late(Nanos(u64::MAX));
    }
    let lates = if trial.is_another { Lates::Steps } else { Lates::All };
    let ranges = world.kill((settled, until), lates);
    let leaving = (trial.leaves && life > 2).then_some(3);
    let known = if trial.is_another { Vec::new() } else { ranges };
    let late = LateWrites::new(until, SERVERS, known);
    let mut opening = opening_by(names_of(0, (1, life)), SERVERS, leaving).heeding(late);
    opening.rules.mutant = trial.mutant;
    opening.candidate.tenure.right.rules.mutant = trial.check;
    let volume = world.open(opening)?;
    world.serve(volume, false)?;
    Ok(until)
}

/// A gate that is killed and started again a few times; returns how often it was open before late
/// writes were over.
fn run(seed: u64, trial: Killed) -> Result<u32, String> {
    let mut world = World::new(seed, trial.mutant);
    let mut prng = Prng::new(seed ^ 0x1a7e);
    let mut at_once = 0;
    for life in 1..6 {
        let until = restart(&mut world, trial, life)?;
        at_once += u32::from(world.now() < until);
        let turns = if life == 1 || trial.is_filling { 500 } else { 150 };
        work(&mut world, &mut prng, turns, trial)?;
    }
    world.settle()?;
    world.pass(LEFT);
    restart(&mut world, trial, 6)?;
    Ok(at_once)
}

/// A gate that is killed while it places an object, and places it anew, with another one.
fn place(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed, None);
    let mut prng = Prng::new(seed ^ 0x1a7e);
    let trial = Killed::default();
    restart(&mut world, trial, 1)?;
    let object = World::sectors_of(index(&mut prng, OBJECTS as usize));
    for life in 2..6 {
        world.act(Act::Write, object.clone());
        world.drain()?;
        for _ in 0..prng.below(12) {
            world.complete_one()?;
        }
        restart(&mut world, trial, life)?;
        let other = World::sectors_of(index(&mut prng, OBJECTS as usize));
        for first in object.clone().step_by(8).chain([other.start]) {
            world.act_on(Act::Write, first..first + 8);
            world.drain()?;
        }
        world.settle()?;
        world.pass(LEFT);
        restart(&mut world, trial, 10 * life)?;
        world.act_on(Act::Trim, object.clone());
        world.drain()?;
        world.settle()?;
    }
    Ok(())
}

/// How long servers go on with what they had read from a connection that was lost.
const LATE: Span = Span::from_millis(10);

/// Connections that are lost, again and again, while objects are placed, given up and written to.
#[derive(Clone, Copy)]
struct Lossy(Killed);

impl trial::Trial for Lossy {
    fn run(self, seed: u64) -> Result<(), String> {
        let Self(trial) = self;
        let mut world = World::new(seed, trial.mutant);
        let mut prng = Prng::new(seed ^ 0x1055);
        for _ in 0..60 {
            work(&mut world, &mut prng, 25, trial)?;
            let server = u32::try_from(index(&mut prng, SERVERS)).expect("few servers");
            world.lose_connection(ServerId(server), LATE)?;
        }
        world.read_all_after(LATE)?;
        restart(&mut world, Killed::default(), 1).map(drop)
    }
}

#[test]
fn what_servers_carry_out_late_of_lost_connections_does_no_harm() {
    let filling = Killed { is_filling: true, ..Killed::default() };
    assert_clean(0..80, Lossy(Killed::default()));
    assert_clean(0..80, Lossy(filling));
    let mutant = Some(Mutant::WriteLate);
    assert_noticed(Mutant::WriteLate, 0..60, Lossy(Killed { mutant, ..filling }));
}

impl trial::Trial for Killed {
    fn run(self, seed: u64) -> Result<(), String> {
        run(seed, self).map(drop)
    }
}

#[test]
fn what_is_written_after_a_restart_is_never_lost_to_what_servers_carry_out_late() {
    assert_clean(0..60, Killed::default());
    assert_clean(0..20, Killed { is_filling: true, ..Killed::default() });
    assert_clean(0..60, Killed { leaves: true, ..Killed::default() });
    (0..100).for_each(|seed| place(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}")));
}

#[test]
fn a_volume_that_was_served_opens_at_once_whatever_was_under_way() {
    let at_once: u32 = (0..20).map(|seed| run(seed, Killed::default()).unwrap()).sum();
    assert_eq!(at_once, 4 * 20, "but for the first life, which another gate was before");
}

#[test]
fn whatever_an_owner_had_noted_late_does_no_harm_to_the_next_one() {
    for trial in
        [ANOTHER, Killed { is_filling: true, ..ANOTHER }, Killed { leaves: true, ..ANOTHER }]
    {
        assert_clean(0..60, trial);
    }
}

#[test]
fn an_owner_that_writes_where_the_one_before_may_still_write_is_noticed() {
    let filling = Killed { is_filling: true, ..ANOTHER };
    let same_half = Killed { check: Some(Check::SameHalf), ..filling };
    assert_noticed(Check::SameHalf, 0..200, same_half);
    let same_end = Killed { mutant: Some(Mutant::SameEnd), ..filling };
    assert_noticed(Mutant::SameEnd, 0..200, same_end);
}

#[test]
fn only_what_changes_a_range_that_was_under_way_waits_and_only_until_that_is_over() {
    let mut world = World::new(1, None);
    let trial = Killed::default();
    restart(&mut world, trial, 1).unwrap();
    world.act_on(Act::Write, 0..24);
    world.drain().unwrap();
    world.settle().unwrap();
    world.act_on(Act::Write, 8..16);
    world.drain().unwrap();
    assert_eq!(world.commands(), 1, "it is with its drive");
    let until = restart(&mut world, trial, 2).unwrap();
    for (act, sectors) in [
        (Act::Read, 0..24),
        (Act::Write, 0..8),
        (Act::Zero, 16..24),
        (Act::Write, World::sectors_of(1).start..World::sectors_of(1).start + 8),
        (Act::Flush, 0..1),
        (Act::Write, 4..12),
        (Act::Trim, World::sectors_of(0)),
    ] {
        world.act_on(act, sectors);
        world.drain().unwrap();
    }
    while world.commands() > 0 {
        world.complete_one().unwrap();
    }
    assert!(world.now() < until);
    assert_eq!(world.clients(), 2, "the write across the range, and what gives up its object");
    world.settle().unwrap();
    assert!(world.now() >= until);
    assert_eq!((world.clients(), world.errors), (0, 0));
}

#[test]
fn a_gate_that_writes_where_late_writes_may_come_is_noticed() {
    let mutant = Some(Mutant::WriteLate);
    assert_noticed(Mutant::WriteLate, 0..60, Killed { mutant, ..Killed::default() });
}
