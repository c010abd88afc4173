//! Servers that are lost, come back old, or are full; and notes that are damaged.

use evenkeel_core::crc32c::crc32c;
use evenkeel_core::id::ServerId;
use evenkeel_core::time::{Nanos, Span};

use super::super::layout::{COPIES, Note};
use super::super::place::Place;
use super::super::refusal::PARLANCE;
use super::super::rules::Mutant;
use super::super::{Mended, Opening, Shape, Volume};
use super::kit::{OBJECT_BYTES, OBJECTS, SERVERS, SLOTS, Spread, World, domain, hold, shape};
use crate::lease::Owner;
use crate::lease::{Fenced, Lease};
use crate::notes::block::{BLOCK, Block};
use crate::notes::{Answer, Ask, Opens, PartDevice, Unfit};
use crate::trial::care;
use crate::trial::damage::{self, Broken, Damageable, Fault, Harm};
use crate::trial::disk::{Cut, Disk};
use crate::trial::names::names;
use crate::trial::world::{Act, Kit};
use crate::{Input, Refused};

/// A world in which every object was written and flushed.
fn full_world() -> World {
    let mut world = World::new(1, None);
    for object in 0..OBJECTS as usize {
        world.act(Act::Force, World::sectors_of(object));
        world.drain().unwrap();
        world.settle().unwrap();
    }
    assert_eq!((world.report().placed, world.errors), (OBJECTS, 0));
    world
}

fn reopened(disks: &mut [Disk]) -> Result<Volume, String> {
    for disk in &mut *disks {
        disk.power_cut(Cut::KeepAll);
    }
    Spread::default().open(disks, u64::MAX).unwrap()
}

fn on_server(volume: &Volume, server: usize) -> Vec<u32> {
    let is_there = |place: Place| place.get().is_some_and(|(at, _)| at == server);
    let there = volume.places.known().filter(|(_, place)| is_there(*place));
    there.map(|(object, _)| object).collect()
}

fn wipe(disk: &mut Disk, offset: u64, blocks: u64) {
    for block in 0..blocks {
        disk.write(offset + block * 4096, &[0; BLOCK], true);
    }
}

#[test]
fn objects_fill_all_servers_and_a_restart_finds_them_without_mending() {
    let mut world = full_world();
    let used: Vec<u32> = world.report().servers.iter().map(|server| server.used_slots).collect();
    assert!(used.iter().all(|used| (1..=2).contains(used)), "{used:?} of {OBJECTS}");
    let volume = reopened(&mut world.disks).unwrap();
    assert_eq!(volume.mended(), Mended::default());
}

#[test]
fn choices_that_all_keepers_have_lost_are_made_anew_from_the_tables() {
    let mut world = full_world();
    let before = reopened(&mut world.disks).unwrap();
    for keeper in 0..3 {
        wipe(&mut world.disks[keeper], before.layout.note_offset(keeper, Note::Page(0), 0), COPIES);
    }
    let after = reopened(&mut world.disks).unwrap();
    assert_eq!((after.mended().rebuilt_pages, after.mended().adopted), (1, OBJECTS));
    assert_eq!((after.places, after.choices), (before.places, before.choices));
    let again = reopened(&mut world.disks).unwrap();
    assert_eq!(again.mended(), Mended::default(), "they are written again");
}

#[test]
fn one_keeper_with_its_choices_is_enough() {
    let mut world = full_world();
    let before = reopened(&mut world.disks).unwrap();
    for keeper in [0, 2] {
        wipe(&mut world.disks[keeper], before.layout.note_offset(keeper, Note::Page(0), 0), COPIES);
    }
    let after = reopened(&mut world.disks).unwrap();
    assert_eq!(after.mended(), Mended::default());
    assert_eq!(after.places, before.places);
}

#[test]
fn what_a_server_has_lost_is_an_error_and_never_zeroes() {
    let mut world = full_world();
    let before = reopened(&mut world.disks).unwrap();
    let there = on_server(&before, 1);
    let table = before.layout.note_offset(1, Note::Table(0), 0);
    wipe(&mut world.disks[1], table, COPIES);
    let after = reopened(&mut world.disks).unwrap();
    assert_eq!(after.mended().damaged_blocks, 1);
    assert_eq!(after.lost.iter().copied().collect::<Vec<_>>(), there);
    world.engine = Spread::engine(world.now(), after, None);
    let served = (0..OBJECTS).find(|object| !there.contains(object)).unwrap() as usize;
    world.act(Act::Read, World::sectors_of(there[0] as usize));
    world.act(Act::Write, World::sectors_of(there[0] as usize));
    world.drain().unwrap();
    assert_eq!(world.errors, 2, "reads and writes of it fail at once");
    assert_eq!(world.refusals, [Refused::Lost(ServerId(1)); 2]);
    world.act(Act::Read, World::sectors_of(served));
    world.drain().unwrap();
    world.settle().unwrap();
    assert_eq!(world.errors, 2, "others are served");
}

/// A table, and the choices of all keepers, are damaged.
fn without_table_and_choices(rule: Option<Mutant>) -> Result<Volume, String> {
    let mut world = full_world();
    let volume = reopened(&mut world.disks).unwrap();
    let table = volume.layout.note_offset(1, Note::Table(0), 0);
    wipe(&mut world.disks[1], table, COPIES);
    for keeper in 0..3 {
        wipe(&mut world.disks[keeper], volume.layout.note_offset(keeper, Note::Page(0), 0), COPIES);
    }
    let broken = Broken { own: rule, lease: None };
    Spread { broken, ..Spread::default() }.open(&mut world.disks, u64::MAX).unwrap()
}

#[test]
fn a_table_and_all_choices_that_are_damaged_together_are_refused() {
    let refusal = without_table_and_choices(None).unwrap_err();
    assert!(refusal.contains("nobody knows") || refusal.contains("restore"), "{refusal}");
    let volume = without_table_and_choices(Some(Mutant::GuessChoices));
    let volume = volume.expect("nobody has noticed");
    assert_eq!(volume.lost_objects(), 0, "objects are gone without a word");
    assert!((0..volume.layout.objects).any(|object| volume.places.get(object).get().is_none()));
}

#[test]
fn a_server_that_comes_back_with_older_content_is_refused_and_fenced() {
    let mut world = full_world();
    let old = world.disks[2].clone();
    let volume = reopened(&mut world.disks).unwrap();
    let mut lease = volume.lease(2);
    let front = |disk: &Disk| disk.read(0, Lease::front_bytes());
    lease.look(&front(&world.disks[2])).unwrap();
    let (offset, bytes) = lease.beat();
    world.disks[2].write(offset, &bytes, false);
    lease.beaten();
    lease.look(&front(&world.disks[2])).unwrap();
    assert_eq!(lease.look(&front(&old)), Err(Fenced::Stale));
    assert_eq!(
        lease.look(&front(&Disk::new(1 << 20))),
        Err(Fenced::Unfit(PARLANCE, Unfit::Blank)),
        "a blank one"
    );
    world.disks[2] = old;
    let refusal = reopened(&mut world.disks).unwrap_err();
    assert!(refusal.contains("server \"s2\": it is an older copy"), "{refusal}");
}

#[test]
fn an_older_copy_is_refused_wherever_the_opening_before_was_cut_short() {
    let mut world = full_world();
    let old = world.disks[3].clone();
    reopened(&mut world.disks).unwrap();
    // One server does not know any more that this opening came to its end.
    wipe(&mut world.disks[2], 2 * 4096, 1);
    for asks in 0.. {
        let mut disks = world.disks.clone();
        let is_over = Spread::default().open(&mut disks, asks).is_some();
        disks[3] = old.clone();
        let refusal = reopened(&mut disks).expect_err("it is older than all the others");
        assert!(refusal.contains("server \"s3\": it is an older copy"), "{asks}: {refusal}");
        if is_over {
            assert!(asks > 20, "{asks} asks");
            break;
        }
    }
}

/// A server is as an opening has left it that was cut short, and another one went on with by the
/// same generation; in how many cases the volume comes up.
fn opened_with_what_was_cut_short(rule: Option<Mutant>) -> u32 {
    let world = full_world();
    let kit = Spread::breaking(Broken { own: rule, lease: None });
    let mut opened = 0;
    for asks in 0.. {
        let mut disks = world.disks.clone();
        let is_over = kit.open(&mut disks, asks).is_some();
        let old = disks[0].clone();
        reopened(&mut disks).unwrap();
        disks[0] = old;
        opened += u32::from(kit.open(&mut disks, u64::MAX).unwrap().is_ok());
        if is_over {
            break;
        }
    }
    opened
}

#[test]
fn what_an_opening_has_left_that_was_cut_short_is_refused_once_another_one_was_not() {
    assert_eq!(opened_with_what_was_cut_short(None), 0);
    assert!(opened_with_what_was_cut_short(Some(Mutant::AcceptSplit)) > 0);
}

#[test]
fn a_server_that_was_exchanged_for_a_blank_one_is_named() {
    let mut world = full_world();
    world.disks[3] = Disk::new((SLOTS + 1) * OBJECT_BYTES);
    let refusal = reopened(&mut world.disks).unwrap_err();
    assert!(refusal.starts_with("server \"s3\": it is blank"), "{refusal}");
    assert_eq!(world.disks[3].read(0, 12 << 10), vec![0; 12 << 10], "nothing was written");
}

#[test]
fn whatever_servers_do_not_bring_back_is_named_and_no_volume_is_made_anew() {
    damage::survey::<Spread>(damage::times());
    damage::survey_plights::<Spread>(3);
}

#[test]
fn each_rule_of_an_opening_that_is_broken_is_noticed() {
    damage::notices_each_rule_of_the_lease::<Spread>();
    for (rule, harm) in [
        (Mutant::OneHead, Harm::One(Fault::Rot)),
        (Mutant::AcceptOlder, Harm::One(Fault::Stale)),
        (Mutant::GiveUpUnread, Harm::One(Fault::Unreadable)),
    ] {
        damage::assert_noticed::<Spread>(Broken { own: Some(rule), lease: None }, harm);
    }
}

#[test]
fn a_check_finds_nothing_on_a_healthy_volume() {
    care::finds_nothing::<Spread>(30);
}

#[test]
fn a_check_finds_every_damaged_block_that_is_in_use() {
    care::finds_damage::<Spread>(12);
}

#[test]
fn a_repair_serves_all_that_was_written_or_names_what_is_wrong() {
    care::repairs::<Spread>(damage::times());
}

#[test]
fn a_repair_gives_a_member_its_heads_back_if_it_is_proven_what_it_is() {
    care::mends_heads::<Spread>(12);
    care::mends_no_other::<Spread>(12);
}

#[test]
fn what_is_fenced_is_refused_and_the_rest_goes_on() {
    let mut world = full_world();
    let now = world.now();
    let volume = reopened(&mut world.disks).unwrap();
    let there = on_server(&volume, 0)[0] as usize;
    let elsewhere = on_server(&volume, 1)[0] as usize;
    world.engine = Spread::engine(now, volume, None);
    world.engine.handle(now, Input::Fenced { server: Some(ServerId(0)) });
    world.act(Act::Read, World::sectors_of(there));
    world.act(Act::Read, World::sectors_of(elsewhere));
    world.drain().unwrap();
    world.settle().unwrap();
    assert_eq!((world.errors, &world.refusals[..]), (1, &[Refused::Stale(ServerId(0))][..]));
    world.engine.handle(now, Input::Fenced { server: None });
    world.act(Act::Read, World::sectors_of(elsewhere));
    world.drain().unwrap();
    assert_eq!(world.refusals[1], Refused::Claimed);
}

#[test]
fn nothing_is_served_before_the_lease_nor_after_it() {
    let mut world = World::new(1, None);
    let volume = reopened(&mut world.disks).unwrap();
    let mut engine = crate::Engine::new(Nanos::ZERO, &domain(1000));
    engine.handle(Nanos::ZERO, Input::Spread(Box::new(volume)));
    world.engine = engine;
    world.act(Act::Read, World::sectors_of(0));
    world.drain().unwrap();
    assert_eq!(world.clients(), 1, "it waits");
    let now = world.now();
    let until = now + Span(1);
    world.engine.handle(now, Input::Held { until });
    world.drain().unwrap();
    assert_eq!(world.clients(), 0, "zeroes, with no server asked");
    world.complete_one().unwrap();
    world.act(Act::Read, World::sectors_of(0));
    world.drain().unwrap();
    assert_eq!(world.clients(), 1, "the lease is over");
}

/// How many objects are placed by a gate whose lease is over while it has one noted.
fn placed_after_the_lease(mutant: Option<Mutant>) -> u32 {
    let mut world = World::new(1, mutant);
    world.act(Act::Write, World::sectors_of(0));
    world.drain().unwrap();
    assert!(world.commands() > 0, "its slot is being wiped");
    let now = world.now();
    hold(&mut world.engine, now, now);
    while world.commands() > 0 {
        world.complete_one().unwrap();
    }
    world.report().placed
}

#[test]
fn nothing_is_noted_after_the_lease() {
    assert_eq!(placed_after_the_lease(None), 0);
    assert_eq!(placed_after_the_lease(Some(Mutant::NoteUnasked)), 1);
}

#[test]
fn at_the_ceiling_writes_to_new_objects_are_refused_and_old_ones_are_served() {
    let mut world = World::new(1, None);
    // One slot of five on each server.
    world.reload(&domain(200)).unwrap();
    for object in 0..OBJECTS as usize {
        world.act(Act::Write, World::sectors_of(object));
        world.drain().unwrap();
        world.settle().unwrap();
    }
    let report = world.report();
    assert!(report.servers.iter().all(|server| server.used_slots <= 1), "{report:?}");
    assert_eq!(u64::from(report.placed) + report.full, u64::from(OBJECTS));
    assert!(world.refusals.iter().all(|why| matches!(why, Refused::NoRoom(_))));
    let errors = world.errors;
    let volume = &world.engine.volume.as_ref().unwrap().spread().unwrap().volume;
    let (placed, _) = volume.places.known().next().unwrap();
    world.act(Act::Write, World::sectors_of(placed as usize));
    world.drain().unwrap();
    world.settle().unwrap();
    assert_eq!(world.errors, errors);
}

#[test]
fn a_server_that_cannot_be_written_to_is_passed_over() {
    let mut world = World::new(1, None);
    world.broken = vec![ServerId(1)];
    for object in 0..OBJECTS as usize {
        world.act(Act::Write, World::sectors_of(object));
        world.drain().unwrap();
        world.settle().unwrap();
    }
    let report = world.report();
    assert!(report.placed >= 4, "those with another candidate: {report:?}");
    assert_eq!(u64::from(report.placed) + world.errors, u64::from(OBJECTS));
    assert!(world.refusals.iter().all(|why| *why == Refused::Away(ServerId(1))));
}

#[test]
fn room_is_not_taken_again_while_a_request_still_refers_to_it() {
    let mut world = full_world();
    let object = World::sectors_of(0);
    world.act_on(Act::Write, object.start..object.start + 8);
    world.drain().unwrap();
    let command = world.take_command();
    world.act_on(Act::Trim, object.clone());
    world.drain().unwrap();
    while world.commands() > 0 {
        world.complete_one().unwrap();
    }
    assert_eq!((world.clients(), world.report().freed), (2, 0), "the trim waits for the write");
    world.put_command(command);
    world.settle().unwrap();
    let report = world.report();
    assert_eq!((world.errors, report.freed, report.placed), (0, 1, OBJECTS - 1));
    let used: u32 = report.servers.iter().map(|server| server.used_slots).sum();
    assert_eq!(used, OBJECTS - 1);
    world.act_on(Act::Read, object);
    world.drain().unwrap();
    assert_eq!(world.clients(), 0, "zeroes, with no server asked");
}

#[test]
fn zeroes_that_must_keep_their_room_do() {
    let mut world = full_world();
    world.keeps_room = true;
    world.act_on(Act::Zero, World::sectors_of(0));
    world.drain().unwrap();
    world.settle().unwrap();
    assert_eq!((world.report().freed, world.report().placed), (0, OBJECTS));
}

#[test]
fn owners_are_known_by_what_they_wrote() {
    let mut world = full_world();
    let volume = reopened(&mut world.disks).unwrap();
    for disk in &world.disks[..SERVERS] {
        let block: Block = disk.read(8192, 4096).try_into().unwrap();
        let owner = Owner::decode(volume.id(), &block).unwrap();
        assert_eq!(
            (owner.id, owner.settled.generation),
            (volume.office.owner, volume.office.generation)
        );
    }
}

/// Opens drives of so many slots that a server's table has several blocks; returns the volume, and
/// how long the writes of notes were.
fn opened_with_writes(disks: &mut [Disk], name: &str) -> (Volume, Vec<usize>) {
    let size_bytes = disks[0].size_bytes();
    let shape = Shape { size_bytes: None, ..shape() };
    let device = |server| PartDevice { name: format!("s{server}"), size_bytes };
    let devices = (0..SERVERS).map(device).collect();
    let mut opening = Opening::new(names(name), shape, devices, vec![false; SERVERS]);
    let (mut lengths, mut now) = (Vec::new(), Nanos::ZERO);
    loop {
        let bytes;
        now += Span::from_micros(1);
        let answer = match opening.poll(now) {
            Ask::Read { part, offset, length } => {
                bytes = disks[part].read(offset, length);
                Answer::Read(&bytes)
            }
            Ask::Write { part, offset, bytes } => {
                disks[part].write(offset, bytes, false);
                lengths.extend((offset >= 16 << 10).then_some(bytes.len()));
                Answer::Done
            }
            Ask::Wait(span) => {
                now += span;
                Answer::Done
            }
            Ask::Flush { .. } | Ask::Fence(_) => Answer::Done,
            Ask::Ready(volume) => return (*volume, lengths),
            Ask::Refused(why) => panic!("{why}"),
        };
        opening.answer(answer);
    }
}

/// Writes everything that there may be of a volume, as if objects had been placed all over it.
fn note_everything(disks: &mut [Disk], volume: &mut Volume) {
    let mut block: Block = [0; BLOCK];
    volume.versions.fill(1);
    for (server, disk) in disks.iter_mut().enumerate() {
        let is_kept =
            |note: &Note| !matches!(note, Note::Page(_)) || volume.layout.is_keeper(server);
        let notes: Vec<Note> = volume.layout.notes_of(server, 0).filter(is_kept).collect();
        for note in notes.into_iter().chain([Note::Directory(0)]) {
            let latest = volume.latest(server, note).next();
            *volume.latest_mut(server, note) = latest;
            let offset = volume.encode(server, note, latest, &mut block);
            disk.write(offset, &block, false);
        }
    }
}

#[test]
fn a_new_volume_has_directories_and_nothing_else_and_what_is_written_anew_goes_out_together() {
    let mut disks: Vec<Disk> = (0..SERVERS).map(|_| Disk::new(400 * OBJECT_BYTES)).collect();
    let (mut volume, writes) = opened_with_writes(&mut disks, "maker");
    assert_eq!(writes, [4096; 4 * SERVERS], "all copies of each");
    note_everything(&mut disks, &mut volume);
    // Tables of two blocks, and two pages on three of the servers; then directories, twice.
    let notes = [8192, 8192, 8192, 8192, 8192, 8192, 8192];
    let expected = [&notes[..], &[4096; 2 * SERVERS]].concat();
    let (volume, writes) = opened_with_writes(&mut disks, "heir");
    assert_eq!((writes, volume.mended()), (expected, Mended::default()), "in the other half");
}

/// A directory of which no copy is whole, or of which the newest is damaged.
fn with_damaged_directory(copies: std::ops::Range<u64>) -> Result<Volume, String> {
    let mut world = full_world();
    let volume = reopened(&mut world.disks).unwrap();
    let newest = volume.latest(1, Note::Directory(0)).copy;
    for copy in copies {
        let copy = (newest + copy) % COPIES;
        let offset = volume.layout.note_offset(1, Note::Directory(0), copy);
        let mut block = world.disks[1].read(offset, 4096);
        block[100] ^= 1;
        world.disks[1].write(offset, &block, true);
    }
    let again = reopened(&mut world.disks)?;
    assert_eq!((&again.places, &again.lost), (&volume.places, &volume.lost), "nothing is lost");
    Ok(again)
}

#[test]
fn what_a_damaged_directory_listed_is_found_all_the_same() {
    let older = with_damaged_directory(0..1).unwrap();
    assert_eq!(older.mended(), Mended::default());
    let none = with_damaged_directory(0..COPIES).unwrap();
    assert_eq!(none.mended(), Mended::default(), "all blocks were written");
}

/// Makes the heads of a drive those of the version before.
fn as_the_version_before(disk: &mut Disk) {
    for offset in [0, 4096] {
        let mut block = disk.read(offset, 4096);
        block[12..16].copy_from_slice(&2_u32.to_le_bytes());
        let checksum = crc32c(&block[12..]);
        block[8..12].copy_from_slice(&checksum.to_le_bytes());
        disk.write(offset, &block, true);
    }
}

#[test]
fn a_volume_of_the_version_before_is_refused_by_name_and_left_as_it_is() {
    let mut disks = Spread::disks();
    Spread::default().open(&mut disks, u64::MAX).unwrap().unwrap();
    disks.iter_mut().for_each(as_the_version_before);
    let content = |disks: &[Disk]| -> Vec<Vec<u8>> {
        disks.iter().map(|disk| disk.read(0, disk.size_bytes())).collect()
    };
    let before = content(&disks);
    let why = Spread::default().open(&mut disks, u64::MAX).unwrap().unwrap_err();
    assert!(why.contains("\"s0\": it has version 2 of the format"), "{why}");
    assert!(why.contains("copy its disk to a new volume"), "{why}");
    assert!(content(&disks) == before, "nothing was written");
}
