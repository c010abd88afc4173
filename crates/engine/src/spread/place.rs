//! Where an object lies: a slot of a server, in four bytes; and where all objects of a volume do.

use std::fmt;

use super::layout::SERVERS_MAX;

/// Bits of a packed place that are its slot.
const SLOT_BITS: u32 = 26;
/// Most slots of a server: 256 TiB in objects of 4 MiB.
pub(super) const SLOTS_MAX: u32 = (1 << SLOT_BITS) - 1;
/// Most objects of a volume: 4 PiB in objects of 4 MiB.
pub(super) const OBJECTS_MAX: u32 = 1 << 30;

/// A slot of a server, or nowhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    /// No slot at all.
    pub(super) const NOWHERE: Self = Self(u32::MAX);
    /// Some slot of the server that is away.
    pub(super) const AWAY: Self = Self(u32::MAX - (1 << SLOT_BITS));

    /// The place of this slot.
    pub(super) fn new(server: usize, slot: u32) -> Self {
        assert!(server < SERVERS_MAX && slot < SLOTS_MAX, "a place has 32 bits");
        Self(u32::try_from(server).expect("below the bound") << SLOT_BITS | slot)
    }

    /// Server and slot, if they are known.
    pub(super) fn get(self) -> Option<(usize, u32)> {
        let (server, slot) = ((self.0 >> SLOT_BITS) as usize, self.0 & SLOTS_MAX);
        (slot < SLOTS_MAX).then_some((server, slot))
    }
}

/// Objects of which nothing is kept while none of them lies anywhere.
const RUN: u32 = 4096;
/// Objects of a run that are kept one by one; of more there is a table.
const FEW_MAX: usize = 512;

/// Where the objects of a run lie.
#[derive(Clone)]
enum Run {
    /// Those that lie anywhere, in order, by their number within the run.
    Few(Vec<(u32, Place)>),
    Many(Box<[Place; RUN as usize]>),
}

impl Run {
    fn get(&self, at: u32) -> Place {
        match self {
            Self::Few(few) => {
                let found = few.binary_search_by_key(&at, |(at, _)| *at);
                found.map_or(Place::NOWHERE, |index| few[index].1)
            }
            Self::Many(places) => places[at as usize],
        }
    }

    /// Sets a place; returns the one before.
    fn set(&mut self, at: u32, place: Place) -> Place {
        let few = match self {
            Self::Many(places) => return std::mem::replace(&mut places[at as usize], place),
            Self::Few(few) => few,
        };
        match (few.binary_search_by_key(&at, |(at, _)| *at), place) {
            (Ok(index), Place::NOWHERE) => few.remove(index).1,
            (Ok(index), _) => std::mem::replace(&mut few[index].1, place),
            (Err(_), Place::NOWHERE) => Place::NOWHERE,
            (Err(index), _) if few.len() < FEW_MAX => {
                few.insert(index, (at, place));
                Place::NOWHERE
            }
            (Err(_), _) => {
                let mut places = Box::new([Place::NOWHERE; RUN as usize]);
                for (at, place) in few {
                    places[*at as usize] = *place;
                }
                places[at as usize] = place;
                *self = Self::Many(places);
                Place::NOWHERE
            }
        }
    }

    /// Those that lie anywhere, in order, by their number within the run.
    fn known(&self) -> impl Iterator<Item = (u32, Place)> {
        let (few, many) = match self {
            Self::Few(few) => (few.as_slice(), [].as_slice()),
            Self::Many(places) => ([].as_slice(), places.as_slice()),
        };
        let many = (0..).zip(many.iter().copied());
        few.iter().copied().chain(many.filter(|(_, place)| *place != Place::NOWHERE))
    }
}

/// Where each object of a volume lies. What is nowhere takes no room, in runs of [`RUN`]: a volume
/// may be many times as large as what is written in it.
#[derive(Clone)]
pub(super) struct Places {
    objects: u32,
    runs: Vec<Option<Run>>,
    /// How many lie anywhere.
    count: u32,
}

impl Places {
    /// The places of so many objects, which lie nowhere.
    pub(super) fn new(objects: u32) -> Self {
        Self { objects, runs: vec![None; objects.div_ceil(RUN) as usize], count: 0 }
    }

    /// There are so many objects from now on; of those that are gone none lies anywhere.
    pub(super) fn resize(&mut self, objects: u32) {
        self.objects = objects;
        self.runs.resize(objects.div_ceil(RUN) as usize, None);
    }

    /// How many objects lie anywhere.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Where an object lies.
    pub(super) fn get(&self, object: u32) -> Place {
        assert!(object < self.objects, "object {object} of {}", self.objects);
        let run = self.runs[(object / RUN) as usize].as_ref();
        run.map_or(Place::NOWHERE, |run| run.get(object % RUN))
    }

    /// An object lies there from now on.
    pub(super) fn set(&mut self, object: u32, place: Place) {
        assert!(object < self.objects, "object {object} of {}", self.objects);
        let run = &mut self.runs[(object / RUN) as usize];
        if run.is_none() && place == Place::NOWHERE {
            return;
        }
        let run = run.get_or_insert_with(|| Run::Few(Vec::new()));
        let before = run.set(object % RUN, place);
        self.count += u32::from(place != Place::NOWHERE);
        self.count -= u32::from(before != Place::NOWHERE);
    }

    /// The objects that lie anywhere, in order.
    pub(super) fn known(&self) -> impl Iterator<Item = (u32, Place)> {
        self.known_from(0)
    }

    /// Those from an object on.
    pub(super) fn known_from(&self, object: u32) -> impl Iterator<Item = (u32, Place)> {
        let runs = (0_u32..).step_by(RUN as usize).zip(&self.runs);
        let runs = runs.skip((object / RUN) as usize);
        let all = runs.filter_map(|(first, run)| Some((first, run.as_ref()?)));
        let places =
            all.flat_map(|(first, run)| run.known().map(move |(at, place)| (first + at, place)));
        places.filter(move |(number, _)| *number >= object)
    }
}

impl PartialEq for Places {
    fn eq(&self, other: &Self) -> bool {
        self.objects == other.objects && self.known().eq(other.known())
    }
}

impl Eq for Places {}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.known()).finish()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some((server, slot)) => write!(f, "{server}:{slot}"),
            None if *self == Self::AWAY => write!(f, "away"),
            None => write!(f, "nowhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use evenkeel_core::prng::Prng;

    #[test]
    fn places_are_found_again_few_and_many() {
        let mut prng = Prng::new(5);
        let (mut places, mut naive) = (Places::new(20_000), BTreeMap::new());
        let mut draw = |below: u32| u32::try_from(prng.below(u64::from(below))).unwrap();
        for step in 0..60_000 {
            // Most of the first run, few of the others.
            let object = if step % 8 > 0 { draw(RUN) } else { draw(20_000) };
            if draw(4) > 0 {
                let place = Place::new(draw(4) as usize, draw(1000));
                places.set(object, place);
                naive.insert(object, place);
            } else {
                places.set(object, Place::NOWHERE);
                naive.remove(&object);
            }
        }
        assert!(naive.range(..RUN).count() > FEW_MAX);
        assert!(places.known().eq(naive.iter().map(|(object, place)| (*object, *place))));
        let beyond = naive.range(9000..).map(|(object, place)| (*object, *place));
        assert!(places.known_from(9000).eq(beyond));
        assert_eq!(places.count() as usize, naive.len());
        for object in 0..20_000 {
            assert_eq!(places.get(object), naive.get(&object).copied().unwrap_or(Place::NOWHERE));
        }
    }
}
