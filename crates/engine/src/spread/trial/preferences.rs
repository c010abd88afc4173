//! Objects go where the policy prefers them, and are found wherever that was.

use evenkeel_core::id::ServerId;

use super::super::report::Standing;
use super::super::serving::FULL;
use super::kit::{OBJECTS, SERVERS, World, domain};
use crate::Input;
use crate::policy::{Domain, HostFigures, Preference};
use crate::trial::disk::Cut;
use crate::trial::world::Act;

/// A policy that prefers this, with the last server near.
fn preferring(prefer: &[Preference]) -> Domain {
    let mut domain = domain(1000);
    let plan = domain.spread.as_mut().unwrap();
    plan.prefer = prefer.into();
    plan.near = vec![false, false, false, true];
    domain
}

fn write(world: &mut World, objects: std::ops::Range<usize>) {
    for object in objects {
        world.act_on(Act::Force, World::sectors_of(object));
        world.drain().unwrap();
        world.settle().unwrap();
    }
}

/// Writes every object; how many had the last server among their candidates, and how many are on
/// it.
fn fill(world: &mut World) -> (u32, u32) {
    write(world, 0..OBJECTS as usize);
    let volume = &world.engine.volume.as_ref().unwrap().spread().unwrap().volume;
    let has_better =
        |object: &u32| volume.candidates(*object).flatten().any(|server| server == SERVERS - 1);
    let wanted = (0..OBJECTS).filter(has_better).count();
    (u32::try_from(wanted).unwrap(), world.report().servers[SERVERS - 1].used_slots)
}

#[test]
fn objects_go_near_where_they_can_and_are_found_under_any_other_policy() {
    let mut world = World::new(1, None);
    world.reload(&preferring(&[Preference::Local])).unwrap();
    let (wanted, there) = fill(&mut world);
    assert!(wanted > 0 && wanted < OBJECTS, "{wanted}: some have a choice, and some have none");
    assert_eq!(there, wanted);
    world.reload(&preferring(&[Preference::Space])).unwrap();
    world.restart(Some(Cut::LoseAll)).unwrap();
    world.settle().unwrap();
}

#[test]
fn what_hosts_tell_decides_until_they_tell_nothing() {
    let mut world = World::new(1, None);
    world.reload(&preferring(&[Preference::Memory])).unwrap();
    for server in (0..).map(ServerId).take(SERVERS) {
        let memory_free_bytes = if server.index() < SERVERS - 1 { 5 } else { 60 };
        let host = HostFigures { memory_bytes: 100, memory_free_bytes, cpu_milli: 0 };
        world.engine.handle(world.now(), Input::HostTold { server, host: Some(host) });
    }
    let (wanted, there) = fill(&mut world);
    assert_eq!(there, wanted);
    let server = ServerId(0);
    world.engine.handle(world.now(), Input::HostTold { server, host: None });
    assert_eq!(world.report().servers[0].host, None);
    assert!(world.report().servers[1].host.is_some());
}

#[test]
fn a_server_without_room_is_no_candidate_however_much_it_is_preferred() {
    let mut world = World::new(1, None);
    let mut domain = preferring(&[Preference::Local]);
    // One slot of five on each server.
    domain.spread.as_mut().unwrap().ceiling_milli = 200;
    world.reload(&domain).unwrap();
    let (_, there) = fill(&mut world);
    let report = world.report();
    assert_eq!(there, 1, "the near one is full");
    assert!(report.servers.iter().all(|server| server.used_slots <= 1), "{report:?}");
    assert!(report.placed > there, "and far ones take the rest");
}

#[test]
fn a_server_that_says_it_has_no_room_is_passed_over_for_a_while() {
    let mut world = World::new(1, None);
    world.reload(&preferring(&[Preference::Local])).unwrap();
    let near = ServerId(u32::try_from(SERVERS - 1).unwrap());
    world.engine.handle(world.now(), Input::Full { server: near });
    assert_eq!(world.report().servers[SERVERS - 1].standing, Standing::Full);
    let half = OBJECTS as usize / 2;
    write(&mut world, 0..half);
    assert_eq!(world.report().servers[SERVERS - 1].used_slots, 0, "however much it is preferred");
    world.pass(FULL);
    write(&mut world, half..OBJECTS as usize);
    let report = world.report();
    assert!(report.servers[SERVERS - 1].used_slots > 0, "{report:?}");
    assert_eq!(report.servers[SERVERS - 1].standing, Standing::Serving);
}
