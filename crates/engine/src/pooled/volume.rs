//! An open pooled volume: where its objects are, and where new ones go.
//!
//! ```text
//! first write -> choose -> page of choices changes -> driver stores it -> noted -> write goes on
//!                              1, 2, 3, ..             version 2            1 and 2 are in force
//! ```
//!
//! Objects that are chosen while a page is on its way go with the next one, all together.

use std::collections::BTreeMap;

use evenkeel_core::id::ServerId;
use evenkeel_core::place::choices::{ChoiceMap, Chosen, PAGE_BYTES, PAGE_OBJECTS};
use evenkeel_core::place::choose::{NoRoom, choose};
use evenkeel_core::place::cluster::GroupMap;
use evenkeel_core::place::lag::Lag;
use evenkeel_core::place::loads::{Loads, Metrics};
use evenkeel_core::place::policy::View;
use evenkeel_core::place::policy::space::Space;
use evenkeel_core::place::rados::hash_of;
use evenkeel_core::time::{Nanos, Span};

use super::directory::Directory;
use super::{Shape, object_name};

/// How much less of its OSDs must be in use for another name to be preferred to the first. Nobody
/// looks for objects, so there is no reason to favour the first; but neither is there one to leave
/// it for less than figures can tell.
const MARGIN: f64 = 0.001;

/// How old figures of OSDs may be: they report every five seconds, to a manager that sums up every
/// five.
const LAG: Span = Span::from_secs(15);

/// An open volume.
#[derive(Debug)]
pub struct Volume {
    name: String,
    shape: Shape,
    choices: ChoiceMap,
    /// The pages of the choices that the pool has.
    directory: Directory,
    /// Objects whose choice is not durable yet, with the version of their page that has it.
    pending: BTreeMap<u64, u64>,
    /// By page: how often it was changed.
    versions: Vec<u64>,
    groups: GroupMap,
    loads: Loads,
    lag: Lag,
    policy: Space,
    /// Parts of an OSD that objects may fill: new ones, and those that are there.
    ceiling: f64,
    brim: f64,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nobody wrote it.
    Unwritten,
    /// It was chosen, and the choice is yet to be stored.
    Pending,
    /// Under this name.
    At(String),
}

/// Why an object gets no name now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unplaced {
    /// Every candidate has an OSD at the ceiling.
    NoRoom(NoRoom),
    /// A candidate might have room, and nothing is known of it at present: nobody serves its group,
    /// or one of its OSDs has yet to report.
    Unknown,
}

/// A page of the choices, to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Which.
    pub number: u32,
    /// For [`Volume::noted`].
    pub version: u64,
    /// What it is.
    pub bytes: Vec<u8>,
}

impl Volume {
    /// A volume with these choices, of which the driver says that they are what the pool holds, on
    /// the pages of this directory.
    pub fn new(
        name: &str,
        shape: Shape,
        (choices, directory): (ChoiceMap, Directory),
        groups: GroupMap,
    ) -> Self {
        Self {
            name: name.to_owned(),
            shape,
            directory,
            pending: BTreeMap::new(),
            versions: vec![0; choices.pages() as usize],
            loads: Loads::new(groups.server_rows()),
            groups,
            lag: Lag::new(LAG),
            policy: Space::with_margin(MARGIN),
            ceiling: 1.0,
            brim: 1.0,
            choices,
        }
    }

    /// Puts a ceiling in force: the part of an OSD up to which new objects may fill it. What is
    /// there may grow until half way between the ceiling and `full_part`, at which the OSD would
    /// stop its pools.
    pub fn set_ceiling(&mut self, ceiling: f64, full_part: f64) {
        self.ceiling = ceiling.min(full_part);
        self.brim = self.ceiling.midpoint(full_part);
    }

    /// What it is like.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Objects that were written, and how many of them are not under their first name.
    pub fn placed(&self) -> (u64, u64) {
        let Chosen { objects, diverted } = self.choices.chosen();
        let is_diverted = |object: &&u64| self.choices.choice(**object).is_some_and(|at| at > 0);
        let pending = self.pending.len() as u64;
        let pending_diverted = self.pending.keys().filter(is_diverted).count() as u64;
        (objects - pending, diverted - pending_diverted)
    }

    /// It has this size from now on. It grows at once; how it shrinks see
    /// [`Self::chosen_beyond`].
    ///
    /// # Panics
    /// If a choice of an object beyond it is yet to be stored.
    pub fn resize(&mut self, size_bytes: u64) {
        self.shape.size_bytes = size_bytes;
        let objects = self.shape.objects();
        let is_within = self.pending.keys().next_back().is_none_or(|last| *last < objects);
        assert!(is_within, "nothing is written beyond an end that was announced");
        self.choices.resize(objects);
        self.versions.resize(self.choices.pages() as usize, 0);
    }

    /// The objects that were written and would lie beyond the end if this were the size: nothing
    /// may be left of them before the volume shrinks, since nobody will know of them any more.
    pub fn chosen_beyond(&self, size_bytes: u64) -> Vec<u64> {
        let objects = Shape { size_bytes, ..self.shape }.objects();
        self.choices.chosen_from(objects).collect()
    }

    /// The pool has another map.
    pub fn remap(&mut self, groups: GroupMap) {
        let rows = groups.server_rows();
        if rows > self.loads.servers().count() {
            // Nothing is known of an OSD that is new: it counts as full until it reports.
            let last = u32::try_from(rows - 1).expect("OSDs are numbered by u32");
            self.loads.report(ServerId(last), Metrics::default());
        }
        self.groups = groups;
    }

    /// An OSD has reported.
    pub fn report(&mut self, now: Nanos, osd: ServerId, metrics: Metrics) {
        self.lag.report(now, &mut self.loads, osd, metrics);
    }

    /// The fullest OSD of the pool, as far as is known, and the part of it in use.
    pub fn fullest(&self) -> Option<(ServerId, f64)> {
        let mut is_ours = vec![false; self.loads.servers().count()];
        for server in self.groups.sets().flatten() {
            if let Some(ours) = is_ours.get_mut(server.index()) {
                *ours = true;
            }
        }
        let ours = self.loads.servers().filter(|server| is_ours[server.index()]);
        let known = ours.filter(|&server| self.loads.reported(server).capacity_bytes > 0);
        let parts = known.map(|server| (server, self.loads.used_part(server, 0)));
        parts.max_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Where an object is.
    pub fn place_of(&self, object: u64) -> Place {
        match self.choices.choice(object) {
            None => Place::Unwritten,
            Some(_) if self.pending.contains_key(&object) => Place::Pending,
            Some(candidate) => Place::At(object_name(&self.name, object, candidate)),
        }
    }

    /// Chooses a name for an object that has none. Its page is to be stored before it is used.
    ///
    /// # Errors
    /// No candidate has room, as far as is known.
    pub fn choose(&mut self, now: Nanos, object: u64) -> Result<(), Unplaced> {
        assert!(self.choices.choice(object).is_none(), "object {object} has its name for ever");
        let size_bytes = self.shape.object_bytes;
        let view = View { loads: &self.loads, size_bytes };
        let names = (0..self.shape.candidates).map(|one| object_name(&self.name, object, one));
        let groups: Vec<u32> =
            names.map(|name| self.groups.group_of(u64::from(hash_of(&name)))).collect();
        let sets = groups.iter().map(|&group| self.groups.servers(group));
        let chosen = choose(&self.policy, &view, sets.clone(), self.ceiling);
        let position = chosen.map_err(|no_room| {
            let is_unknown = |one: &ServerId| self.loads.reported(*one).capacity_bytes == 0;
            let is_in_doubt = sets.flatten().any(is_unknown);
            if is_in_doubt { Unplaced::Unknown } else { Unplaced::NoRoom(no_room) }
        })?;
        for &server in self.groups.servers(groups[position]) {
            self.lag.wrote(now, &mut self.loads, server, size_bytes);
        }
        self.choices.set(object, Some(position));
        let version = &mut self.versions[page_of(object)];
        *version += 1;
        self.pending.insert(object, *version);
        Ok(())
    }

    /// Whether an object that is there may be written to, which may take room.
    ///
    /// # Errors
    /// One of its OSDs is so full that soon the whole pool would stop.
    pub fn check_growth(&self, object: u64) -> Result<(), NoRoom> {
        let Some(candidate) = self.choices.choice(object) else { return Ok(()) };
        let hash = hash_of(&object_name(&self.name, object, candidate));
        let set = self.groups.servers(self.groups.group_of(u64::from(hash)));
        // An OSD of which nothing is known is none that stands in the way: it may just have gone
        // out, and the object with it to another one.
        let known = set.iter().filter(|one| self.loads.reported(**one).capacity_bytes > 0);
        let parts =
            known.map(|&server| NoRoom { server, used_part: self.loads.used_part(server, 0) });
        match parts.max_by(|one, other| one.used_part.total_cmp(&other.used_part)) {
            Some(fullest) if fullest.used_part > self.brim => Err(fullest),
            _ => Ok(()),
        }
    }

    /// A page that has changed since it was last taken.
    pub fn take_page(&mut self) -> Option<Page> {
        let number = self.choices.take_changed()?;
        let version = self.versions[number as usize];
        Some(Page { number, version, bytes: self.choices.page(number).to_vec() })
    }

    /// The directory that is to be stored once a page is, before that counts: none if the page is
    /// listed already.
    pub fn directory_with(&self, number: u32) -> Option<Vec<u8>> {
        let is_listed = self.directory.has(number);
        (!is_listed).then(|| self.directory.with(number).encode())
    }

    /// This version of a page is stored and listed: what was chosen up to it is in force.
    pub fn noted(&mut self, number: u32, version: u64) {
        self.directory.insert(number);
        let is_noted =
            |object: &u64, wanted: &u64| page_of(*object) == number as usize && *wanted <= version;
        self.pending.retain(|object, wanted| !is_noted(object, wanted));
    }

    /// A page could not be stored. What it has is still pending; the page is to be tried again.
    pub fn not_noted(&mut self, number: u32) {
        let of_page = |object: &&u64| page_of(**object) == number as usize;
        let Some(&object) = self.pending.keys().find(of_page) else { return };
        let choice = self.choices.choice(object);
        self.choices.set(object, choice);
    }

    /// Runs of a range that were written or not, as `(bytes, is_hole)`.
    pub fn extents(&self, offset: u64, length: u64) -> Vec<(u64, bool)> {
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let object = at / self.shape.object_bytes;
            let next = ((object + 1) * self.shape.object_bytes).min(end);
            let is_hole = self.choices.choice(object).is_none();
            match runs.last_mut() {
                Some((bytes, same)) if *same == is_hole => *bytes += next - at,
                _ => runs.push((next - at, is_hole)),
            }
            at = next;
        }
        runs
    }
}

/// The page that tells of an object.
fn page_of(object: u64) -> usize {
    usize::try_from(object / PAGE_OBJECTS).expect("a bounded number")
}

/// Takes what the pool has of a page into a map; `false` if that is no page.
pub fn load_page(choices: &mut ChoiceMap, number: u32, bytes: &[u8]) -> bool {
    let Ok(page) = <&[u8; PAGE_BYTES]>::try_from(bytes) else { return false };
    choices.load(number, page);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::place::rados::pool_map;

    const SHAPE: Shape = Shape { object_bytes: 4 << 20, size_bytes: 8 << 30, candidates: 2 };
    const OSDS: u32 = 5;

    /// A volume on OSDs of a GiB, one group on each, of which the driver has heard.
    fn volume() -> Volume {
        let sets: Vec<_> = (0..OSDS).map(|osd| vec![ServerId(osd)]).collect();
        let groups = pool_map(&sets, ServerId(OSDS)).unwrap();
        let mut volume = Volume::new("v", SHAPE, blank(), groups);
        (0..OSDS).for_each(|osd| volume.report(Nanos(0), ServerId(osd), report(0)));
        volume.set_ceiling(0.9, 0.96);
        volume
    }

    fn blank() -> (ChoiceMap, Directory) {
        (ChoiceMap::new(SHAPE.objects()), Directory::default())
    }

    fn report(used_bytes: u64) -> Metrics {
        Metrics { capacity_bytes: 1 << 30, used_bytes, ..Metrics::default() }
    }

    #[test]
    fn an_object_has_its_name_only_once_its_choice_is_stored() {
        let mut volume = volume();
        assert_eq!(volume.place_of(7), Place::Unwritten);
        volume.choose(Nanos(0), 7).unwrap();
        let page = volume.take_page().unwrap();
        volume.choose(Nanos(0), 8).unwrap();
        assert_eq!(volume.place_of(7), Place::Pending);
        volume.noted(page.number, page.version);
        let Place::At(name) = volume.place_of(7) else { panic!("noted") };
        assert!(name.starts_with("v.00000007."), "{name}");
        assert_eq!(volume.place_of(8), Place::Pending, "it goes with the next page");
        let page = volume.take_page().unwrap();
        volume.noted(page.number, page.version);
        assert!(matches!(volume.place_of(8), Place::At(_)));
        assert_eq!((volume.take_page(), volume.placed().0), (None, 2));
    }

    #[test]
    fn a_page_that_could_not_be_stored_comes_again() {
        let mut volume = volume();
        volume.choose(Nanos(0), 7).unwrap();
        let page = volume.take_page().unwrap();
        volume.not_noted(page.number);
        assert_eq!(volume.take_page(), Some(page));
        assert_eq!(volume.place_of(7), Place::Pending);
    }

    #[test]
    fn what_was_stored_is_found_again_under_the_same_name() {
        let mut volume = volume();
        (0..200).for_each(|object| volume.choose(Nanos(0), object).unwrap());
        let page = volume.take_page().unwrap();
        let directory = Directory::decode(&volume.directory_with(0).unwrap()).unwrap();
        volume.noted(page.number, page.version);
        let mut choices = ChoiceMap::new(SHAPE.objects());
        assert!(
            load_page(&mut choices, 0, &page.bytes)
                && !load_page(&mut choices, 0, &page.bytes[1..])
        );
        assert_eq!((directory.has(0), volume.directory_with(0)), (true, None), "once it is listed");
        let again = Volume::new("v", SHAPE, (choices, directory), volume.groups.clone());
        for object in 0..300 {
            assert_eq!(again.place_of(object), volume.place_of(object));
        }
        assert_eq!(again.placed(), volume.placed());
        assert_eq!(again.extents(799 << 20, 2 << 20), [(1 << 20, false), (1 << 20, true)]);
    }

    #[test]
    fn osds_fill_alike_up_to_the_ceiling_and_then_there_is_no_room() {
        let mut volume = volume();
        let mut placed = 0;
        let refused = (0..SHAPE.objects()).find_map(|object| {
            let outcome = volume.choose(Nanos(0), object);
            placed += u64::from(outcome.is_ok());
            outcome.err()
        });
        let Some(Unplaced::NoRoom(no_room)) = refused else {
            panic!("there is less room than disk")
        };
        assert!(no_room.used_part > 0.9);
        // 230 objects of 4 MiB are nine tenths of a GiB.
        assert!((1100..=1150).contains(&placed), "{placed}");
        let (_, part) = volume.fullest().unwrap();
        assert!(part <= 0.9, "{part}");
    }

    #[test]
    fn with_nobody_to_serve_an_object_its_disk_is_not_full() {
        let mut volume = volume();
        let nobody = ServerId(OSDS);
        volume.remap(pool_map(&[vec![ServerId(0)], vec![]], nobody).unwrap());
        let outcomes: Vec<_> = (0..20).map(|object| volume.choose(Nanos(0), object)).collect();
        let placed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        // Both names of a quarter of them are in the second group.
        assert!((10..20).contains(&placed), "{placed}");
        let is_known = |outcome: &&Result<(), Unplaced>| **outcome != Err(Unplaced::Unknown);
        assert_eq!(outcomes.iter().filter(is_known).count(), placed);
    }

    #[test]
    fn what_is_there_may_grow_until_shortly_before_its_osd_is_full() {
        let mut volume = volume();
        volume.choose(Nanos(0), 7).unwrap();
        let fill = |volume: &mut Volume, part: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test")]
            let bytes = (f64::from(1 << 30) * part) as u64;
            (0..OSDS).for_each(|osd| volume.report(Nanos(0), ServerId(osd), report(bytes)));
        };
        fill(&mut volume, 0.92);
        assert!(volume.check_growth(7).is_ok() && volume.choose(Nanos(0), 9).is_err());
        fill(&mut volume, 0.94);
        assert!(volume.check_growth(7).is_err());
    }

    #[test]
    fn what_was_just_written_to_an_osd_that_goes_out_may_be_written_again() {
        let mut volume = volume();
        volume.choose(Nanos(0), 7).unwrap();
        (0..OSDS).for_each(|osd| volume.report(Nanos(1), ServerId(osd), Metrics::default()));
        assert_eq!(volume.check_growth(7), Ok(()));
        assert_eq!(volume.choose(Nanos(1), 8), Err(Unplaced::Unknown));
    }
}
