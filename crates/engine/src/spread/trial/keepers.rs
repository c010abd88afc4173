//! The choices pass to other keepers while the opening that has them pass is cut short.

use super::super::Opening;
use super::super::format::table::Entry;
use super::super::layout::Note;
use super::kit::{OBJECTS, opening_by, shape, used_disk};
use crate::notes::PartDevice;
use crate::notes::block::{BLOCK, Block};
use crate::trial::disk::{Cut, Disk};
use crate::trial::names::names;
use crate::trial::world;

const DRIVES: usize = 6;

/// Drives of a volume in which every object was written. The first three keep its choices.
fn written() -> Vec<Disk> {
    let mut disks: Vec<Disk> = (0..DRIVES).map(|_| used_disk()).collect();
    let opening = opening_by(names("maker"), DRIVES, None);
    let mut volume = world::open(&mut disks, u64::MAX, opening).unwrap().unwrap();
    for object in 0..OBJECTS {
        let server = volume.candidate(object, 0).unwrap();
        let slot = volume.tables[server].free.iter().next().unwrap();
        volume.tables[server].free.remove(slot);
        volume.tables[server].enter(slot, Entry::new(object, u64::from(object) + 1));
        volume.choices.set(u64::from(object), Some(0));
    }
    volume.versions[0] = 1;
    let mut block: Block = [0; BLOCK];
    for (server, disk) in disks.iter_mut().enumerate() {
        let page = volume.layout.is_keeper(server).then_some(Note::Page(0));
        for note in [Note::Table(0)].into_iter().chain(page).chain([Note::Directory(0)]) {
            let latest = volume.latest(server, note).next();
            *volume.latest_mut(server, note) = latest;
            let offset = volume.encode(server, note, latest, &mut block);
            disk.write(offset, &block, true);
        }
    }
    disks
}

/// An opening by which all keepers are to leave.
fn leaving(name: &str, disks: &[Disk]) -> Opening {
    let size_bytes = disks[0].size_bytes();
    let device = |server| PartDevice { name: format!("s{server}"), size_bytes };
    let leaving = (0..DRIVES).map(|server| server < 3).collect();
    Opening::new(names(name), shape(), (0..DRIVES).map(device).collect(), leaving)
}

#[test]
fn choices_are_listed_by_those_who_keep_them_wherever_the_change_is_cut_short() {
    let disks = written();
    for asks in 0.. {
        let mut cut = disks.clone();
        let changed = world::open(&mut cut, asks, leaving("mover", &disks));
        for disk in &mut cut {
            disk.power_cut(Cut::KeepAll);
        }
        // Whoever opens it next may want the change, or not.
        let again = world::open(&mut cut.clone(), u64::MAX, leaving("again", &disks));
        let not = world::open(&mut cut, u64::MAX, opening_by(names("not"), DRIVES, None));
        let [again, not] = [again, not].map(|opened| opened.unwrap());
        let is_refused = not.as_ref().is_err_and(|why| why.to_string().contains("still passing"));
        assert!(not.is_ok() || is_refused, "after {asks}: {:?}", not.err());
        for volume in [again.unwrap()].into_iter().chain(not) {
            assert_eq!(volume.mended().adopted, 0, "after {asks}: its choice was not found");
            let is_chosen = |object| volume.choices.choice(u64::from(object)) == Some(0);
            assert!((0..OBJECTS).all(is_chosen) && volume.lost.is_empty(), "after {asks}");
        }
        if changed.is_some() {
            return;
        }
    }
}
