//! A volume whose lease lapses, is another gate's, or of which a tier is not what it was.

use evenkeel_core::id::ServerId;
use evenkeel_core::time::{Nanos, Span};

use super::super::rules::Mutant;
use super::kit::World;
use crate::trial::world::Act;
use crate::{Input, Refused};

fn tell(world: &mut World, input: Input<'_>) {
    let now = world.now();
    world.engine.handle(now, input);
    world.drain().unwrap();
}

/// Until the hold is over an extent moves; nothing goes to a tier after that.
fn lapse(mutant: Option<Mutant>) -> World {
    let mut world = World::new(1, mutant);
    let until = world.now() + Span::from_micros(300);
    tell(&mut world, Input::Held { until });
    world.begin_move(0);
    world.drain().unwrap();
    while world.commands() > 0 {
        world.complete_one().unwrap();
    }
    world
}

#[test]
fn a_volume_that_has_lapsed_neither_moves_nor_serves_until_it_is_ours_again() {
    let mut world = lapse(None);
    assert_eq!(world.report().moves.done, 0, "it is half way");
    world.act(Act::Write, World::sectors_of(1));
    world.act(Act::Read, World::sectors_of(2));
    world.drain().unwrap();
    assert_eq!((world.commands(), world.clients()), (0, 2), "they wait");
    tell(&mut world, Input::Held { until: Nanos(u64::MAX) });
    world.settle().unwrap();
    assert_eq!((world.report().moves.done, world.errors), (1, 0));
    assert_eq!(lapse(Some(Mutant::MoveUnasked)).report().moves.done, 1, "that is noticed");
}

#[test]
fn nobody_waits_longer_for_a_volume_that_has_lapsed_than_its_patience() {
    let mut world = lapse(None);
    let began = world.now();
    world.act(Act::Write, World::sectors_of(1));
    world.drain().unwrap();
    while world.clients() > 0 {
        assert!(world.complete_one().unwrap(), "it is waited for something");
    }
    let waited = world.now().since(began);
    assert!(waited <= Span::from_secs(30), "{waited}");
    world.act(Act::Read, World::sectors_of(1));
    world.drain().unwrap();
    assert_eq!((world.clients(), &world.refusals[..]), (0, &[Refused::Lapsed; 2][..]));
    tell(&mut world, Input::Held { until: Nanos(u64::MAX) });
    world.act(Act::Read, World::sectors_of(1));
    world.drain().unwrap();
    world.settle().unwrap();
    assert_eq!(world.errors, 2, "it is served again");
}

#[test]
fn nothing_is_served_of_a_volume_that_another_gate_has() {
    let mut world = lapse(None);
    world.act(Act::Write, World::sectors_of(1));
    world.drain().unwrap();
    tell(&mut world, Input::Fenced { server: None });
    assert_eq!((world.clients(), &world.refusals[..]), (0, &[Refused::Claimed][..]));
    tell(&mut world, Input::Held { until: Nanos(u64::MAX) });
    world.act(Act::Read, World::sectors_of(3));
    world.drain().unwrap();
    world.settle().unwrap();
    assert_eq!((world.report().moves.done, world.errors), (0, 2), "not by a late beat either");
}

#[test]
fn of_a_tier_that_is_not_what_it_was_nothing_is_served_and_of_the_others_all() {
    let mut world = World::new(1, None);
    let fast = ServerId(1);
    tell(&mut world, Input::Fenced { server: Some(fast) });
    // The first extents lie on the fast tier, the last ones on the slow one.
    world.act(Act::Read, World::sectors_of(0));
    world.act(Act::Write, World::sectors_of(4));
    world.drain().unwrap();
    world.settle().unwrap();
    assert_eq!((world.errors, &world.refusals[..]), (1, &[Refused::Stale(fast)][..]));
    world.act(Act::Flush, World::sectors_of(0));
    world.drain().unwrap();
    world.settle().unwrap();
    assert_eq!(world.errors, 2, "what the tier has lost was not flushed");
    tell(&mut world, Input::Cleared { server: fast });
    world.act(Act::Read, World::sectors_of(0));
    world.drain().unwrap();
    world.settle().unwrap();
    assert_eq!(world.errors, 2);
}
