//! A volume that grows and shrinks while clients use it, with the power cut at every event.

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::super::heads;
use super::super::layout::Layout;
use super::super::{Opening, ResizeRefusal, Shape, Volume};
use super::kit::{OBJECT_BYTES, OBJECTS, SERVERS, World, hold, shape};
use crate::notes::PartDevice;
use crate::notes::head::head_offset;
use crate::placement::{Placed, Placement};
use crate::trial::disk::{Cut, Disk};
use crate::trial::names::names;
use crate::trial::world::{self, Act, Faults, Kit};
use crate::{Input, Refused, Request, Target};

/// What came of a size that was asked for, after all events; and how many objects the volume had
/// after a cut at each of them.
fn resize(world: &mut World, objects: u64) -> (Result<u64, ResizeRefusal>, Vec<u32>) {
    let now = world.now();
    world.engine.handle(now, Input::Resize { size_bytes: objects * OBJECT_BYTES });
    let mut after_cuts = Vec::new();
    for seed in 0.. {
        world.drain().unwrap();
        after_cuts.push(objects_after_cut(world, seed));
        if let Some(result) = world.engine.take_resized() {
            return (result.map(|bytes| bytes / OBJECT_BYTES), after_cuts);
        }
        assert!(world.complete_one().unwrap(), "it comes to an end");
    }
    unreachable!("it has ended above")
}

/// The power is cut on a copy of the drives; all is there that was there before.
fn objects_after_cut(world: &World, seed: u64) -> u32 {
    let mut disks = world.after_cut(Cut::Any(seed));
    let volume = world.kit.open(&mut disks, u64::MAX).unwrap().unwrap();
    world.check_copy(&disks, &volume).unwrap();
    volume.layout.objects
}

#[test]
fn a_volume_grows_in_service_and_is_as_large_as_it_said_after_any_cut() {
    let mut world = World::new(1, None);
    world.act_on(Act::Force, world.sectors());
    world.drain().unwrap();
    world.settle().unwrap();
    let (result, after_cuts) = resize(&mut world, u64::from(OBJECTS) + 3);
    assert_eq!(result, Ok(9));
    assert!(after_cuts.iter().all(|objects| [6, 9].contains(objects)), "{after_cuts:?}");
    assert!(after_cuts.contains(&6), "{after_cuts:?}");
    assert_eq!(after_cuts.last(), Some(&9), "it was said");
    assert_eq!(world.report().objects, 9);
}

#[test]
fn a_volume_shrinks_where_nothing_lies_beyond() {
    let mut world = World::new(2, None);
    for act in [Act::Force, Act::Flush] {
        world.act_on(act, World::sectors_of(OBJECTS as usize - 1));
        world.drain().unwrap();
        world.settle().unwrap();
    }
    assert_eq!(resize(&mut world, 9).0, Ok(9));
    assert_eq!(resize(&mut world, 7).0, Ok(7), "the policy says six at least");
    let offset = 5 * OBJECT_BYTES;
    assert_eq!(resize(&mut world, 5).0, Err(ResizeRefusal::Data { offset }));
    world.act_on(Act::Trim, World::sectors_of(5));
    world.drain().unwrap();
    world.settle().unwrap();
    let (result, after_cuts) = resize(&mut world, 5);
    assert_eq!(result, Ok(5));
    assert!(after_cuts.iter().all(|objects| [6, 7].contains(objects)), "{after_cuts:?}");
}

#[test]
fn what_a_volume_cannot_be_is_refused_and_it_stays_as_it_was() {
    let mut world = World::new(3, None);
    let most = Layout::plan(&shape(), &[6 * OBJECT_BYTES; SERVERS]).unwrap().objects_max();
    let beyond = ResizeRefusal::Beyond { most_bytes: u64::from(most) * OBJECT_BYTES };
    for objects in [0, u64::from(most) + 1, 1 << 40] {
        assert_eq!(resize(&mut world, objects).0, Err(beyond));
    }
    let now = world.now();
    hold(&mut world.engine, now, Nanos::ZERO);
    assert_eq!(resize(&mut world, 9).0, Err(ResizeRefusal::NotHeld));
    assert_eq!(world.report().objects, OBJECTS);
}

#[test]
fn a_size_that_cannot_be_written_everywhere_is_not_in_force() {
    for seed in 0..20 {
        let mut world = World::new(seed, None);
        world.faults = Faults { notes: 700, ..Faults::NONE };
        let (result, _) = resize(&mut world, 8);
        match result {
            Ok(objects) => assert_eq!((objects, world.report().objects), (8, 8)),
            Err(ResizeRefusal::Away(_)) => assert_eq!(world.report().objects, OBJECTS),
            Err(why) => panic!("{why}"),
        }
    }
}

/// Whether a write to an object is refused, since it lies beyond the end.
fn is_beyond(world: &World, object: u64) -> bool {
    let request = Request {
        slot: 0,
        tenant: TenantId(0),
        target: Target::Volume,
        disk: 0,
        kind: Kind::Write,
        offset: object * OBJECT_BYTES,
        length: 4096,
        keeps_room: false,
    };
    let volume = world.engine.volume.as_ref().and_then(|volume| volume.spread()).unwrap();
    volume.place(world.now(), &request, 0) == Placed::Refused(Refused::Beyond)
}

#[test]
fn after_a_shrink_that_failed_nothing_begins_beyond_until_all_heads_are_as_before() {
    let mut world = World::new(4, None);
    assert_eq!(resize(&mut world, 9).0, Ok(9));
    world.broken = vec![ServerId(3)];
    assert_eq!(resize(&mut world, 6).0, Err(ResizeRefusal::Away(ServerId(3))));
    assert!(is_beyond(&world, 8), "heads differ");
    assert_eq!(world.report().objects, 9);
    world.broken.clear();
    world.settle().unwrap();
    assert!(!is_beyond(&world, 8) && is_beyond(&world, 9), "all heads are as they were");
    for server in 0..SERVERS {
        let mut disks = world.after_cut(Cut::KeepAll);
        // The newest head of one is damaged: a new volume is of generation 2.
        disks[server].write(head_offset(2), &[7; 4096], true);
        let volume = world.kit.open(&mut disks, u64::MAX).unwrap().unwrap();
        assert_eq!((volume.layout.objects, volume.lost.len()), (9, 0), "server {server}");
    }
}

#[test]
fn a_volume_is_as_large_as_what_is_chosen_in_it_whatever_heads_say() {
    let mut world = World::new(5, None);
    world.act_on(Act::Force, world.sectors());
    world.drain().unwrap();
    world.settle().unwrap();
    let mut disks = world.after_cut(Cut::KeepAll);
    let before = world.kit.open(&mut disks, u64::MAX).unwrap().unwrap();
    // All heads say less, as if the last one that said more had been lost.
    let mut less = before.clone();
    less.layout.objects = 2;
    let mut block = [0; 4096];
    for (server, disk) in disks.iter_mut().enumerate() {
        let offset = heads::encode_again(&less, server, &mut block);
        disk.write(offset, &block, true);
    }
    let shape = Shape { size_bytes: None, ..shape() };
    let volume = open_as(&mut disks, shape);
    assert_eq!(volume.places, before.places);
    assert_eq!((volume.layout.objects, volume.lost.len()), (OBJECTS, 0));
    assert_eq!(open_as(&mut disks, shape).layout.objects, OBJECTS, "heads say so again");
}

fn open_as(disks: &mut [Disk], shape: Shape) -> Volume {
    let device =
        |server| PartDevice { name: format!("s{server}"), size_bytes: disks[0].size_bytes() };
    let devices = (0..disks.len()).map(device).collect();
    let opening = Opening::new(names("again"), shape, devices, vec![false; disks.len()]);
    world::open(disks, u64::MAX, opening).unwrap().unwrap()
}
