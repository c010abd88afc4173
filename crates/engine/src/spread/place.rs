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
const RUN: usize = 4096;

type Run = [Place; RUN];

/// Where each object of a volume lies. What is nowhere takes no room, in runs of [`RUN`]: a volume
/// may be many times as large as what is written in it.
#[derive(Clone)]
pub(super) struct Places {
    objects: u32,
    runs: Vec<Option<Box<Run>>>,
}

impl Places {
    /// The places of so many objects, which lie nowhere.
    pub(super) fn new(objects: u32) -> Self {
        Self { objects, runs: vec![None; (objects as usize).div_ceil(RUN)] }
    }

    /// Where an object lies.
    pub(super) fn get(&self, object: u32) -> Place {
        assert!(object < self.objects, "object {object} of {}", self.objects);
        let run = self.runs[object as usize / RUN].as_deref();
        run.map_or(Place::NOWHERE, |run| run[object as usize % RUN])
    }

    /// An object lies there from now on.
    pub(super) fn set(&mut self, object: u32, place: Place) {
        assert!(object < self.objects, "object {object} of {}", self.objects);
        let run = &mut self.runs[object as usize / RUN];
        if run.is_none() && place == Place::NOWHERE {
            return;
        }
        let run = run.get_or_insert_with(|| Box::new([Place::NOWHERE; RUN]));
        run[object as usize % RUN] = place;
    }

    /// The objects that lie anywhere, in order.
    pub(super) fn known(&self) -> impl Iterator<Item = (u32, Place)> {
        let runs = (0_u32..).step_by(RUN).zip(&self.runs);
        let all = runs.filter_map(|(first, run)| Some((first, run.as_deref()?)));
        let places = all.flat_map(|(first, run)| (first..).zip(run.iter().copied()));
        places.filter(|(_, place)| *place != Place::NOWHERE)
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
