//! Another size for a volume in service.
//!
//! ```text
//! grow     heads of all servers, flushed -> the volume ends further on
//! shrink   nothing lies beyond? -> nothing begins there any more -> heads of all servers, flushed
//! ```
//!
//! A cut in between leaves heads that differ. The greatest size counts then: what was promised is
//! there, and where it shrinks, nothing lies beyond. If a head cannot be written, all get the old
//! size again; until they have it nothing begins beyond the smaller of the two, since the head that
//! says the greater one may be lost.

use std::fmt;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::id::ServerId;
use evenkeel_core::time::Nanos;

use super::Serving;

/// A volume on its way to another size.
#[derive(Debug)]
pub(super) struct Resizing {
    objects: u32,
    /// The servers whose heads are yet to say so, by index.
    left: u64,
    /// Whether it is the old size, after another could not be written.
    is_back: bool,
}

/// Why a volume keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeRefusal {
    /// The head of this server cannot be written now.
    Away(ServerId),
    /// There would be no object, or more than the volume has room to note.
    Beyond {
        /// The greatest size.
        most_bytes: u64,
    },
    /// Something was written beyond the new end.
    Data {
        /// Where the first of it is, in bytes.
        offset: u64,
    },
    /// Something beyond the new end was written and is lost.
    Lost {
        /// Where the first of it was, in bytes.
        offset: u64,
    },
    /// Something beyond the new end is on its way, or the volume is being resized already.
    Busy,
    /// It is not this gate's for now.
    NotHeld,
}

impl fmt::Display for ResizeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(_) => f.write_str("all its servers must be there and take writes"),
            Self::Beyond { most_bytes } => write!(
                f,
                "this volume has at least one object, and can note {} at most; copy it to a new \
                 one for more",
                Bytes(*most_bytes)
            ),
            Self::Data { offset } => write!(
                f,
                "there is data beyond that end, at {}; copy it elsewhere and discard it there",
                Bytes(*offset)
            ),
            Self::Lost { offset } => write!(
                f,
                "what was written beyond that end, at {}, is lost; restore it first",
                Bytes(*offset)
            ),
            Self::Busy => f.write_str("what is beyond that end is changing: try it again"),
            Self::NotHeld => {
                f.write_str("nobody knows whether the volume is this gate's: try it again")
            }
        }
    }
}

impl std::error::Error for ResizeRefusal {}

impl Serving {
    /// Begins to give the volume another size; [`Self::take_resized`] says what came of it.
    pub(crate) fn resize(&mut self, now: Nanos, size_bytes: u64) {
        self.resized = None;
        if let Err(why) = self.begin_resize(now, size_bytes) {
            self.resized = Some(Err(why));
        }
    }

    fn begin_resize(&mut self, now: Nanos, size_bytes: u64) -> Result<(), ResizeRefusal> {
        let (layout, most) = (&self.volume.layout, self.volume.layout.objects_max());
        let beyond = ResizeRefusal::Beyond { most_bytes: u64::from(most) * layout.object_bytes };
        let objects =
            u32::try_from(size_bytes.div_ceil(layout.object_bytes)).map_err(|_| beyond)?;
        if !(1..=most).contains(&objects) {
            return Err(beyond);
        }
        if !self.may_begin(now) {
            return Err(ResizeRefusal::NotHeld);
        }
        if self.resizing.is_some() {
            return Err(ResizeRefusal::Busy);
        }
        let is_there = |index: &usize| {
            self.volume.away != Some(*index)
                && !self.is_stale[*index]
                && now >= self.rest_until[*index]
        };
        if let Some(index) = (0..self.scribes.len()).find(|index| !is_there(index)) {
            return Err(ResizeRefusal::Away(self.server_id(index)));
        }
        if objects < layout.objects {
            self.check_beyond(objects)?;
            self.end = objects;
        }
        self.volume.wanted_objects = Some(objects);
        self.write_heads(objects, false);
        Ok(())
    }

    /// Has every server's head written.
    fn write_heads(&mut self, objects: u32, is_back: bool) {
        self.scribes.iter_mut().for_each(|scribe| scribe.is_head_due = true);
        let left = (0..self.scribes.len()).fold(0, |left, index| left | 1 << index);
        self.resizing = Some(Resizing { objects, left, is_back });
        self.is_due = true;
    }

    /// Whether nothing lies beyond an end, nor is on its way there.
    fn check_beyond(&self, objects: u32) -> Result<(), ResizeRefusal> {
        let offset = |object: u32| u64::from(object) << self.object_bits;
        if let Some((object, _)) = self.volume.places.known_from(objects).next() {
            return Err(ResizeRefusal::Data { offset: offset(object) });
        }
        if let Some(object) = self.volume.lost.range(objects..).next() {
            return Err(ResizeRefusal::Lost { offset: offset(*object) });
        }
        let is_changing = self.grants.range(objects..).next().is_some()
            || self.freeings.range(objects..).next().is_some()
            || self.later.iter().any(|(_, one)| one.object >= objects)
            || self.mover.is_busy_beyond(objects);
        if is_changing { Err(ResizeRefusal::Busy) } else { Ok(()) }
    }

    /// A server's head says the new size, or could not be written.
    pub(super) fn head_written(&mut self, index: usize, ok: bool) {
        // That round began before this size was asked for.
        if self.scribes[index].is_head_due {
            return;
        }
        let Some(resizing) = &mut self.resizing else { return };
        if !ok && resizing.is_back {
            // It is tried again once the server has rested.
            return;
        }
        if !ok {
            return self.go_back(ResizeRefusal::Away(self.server_id(index)));
        }
        resizing.left &= !(1 << index);
        let Resizing { objects, left: 0, is_back } = *resizing else { return };
        self.end = objects;
        self.resizing = None;
        self.volume.wanted_objects = None;
        if !is_back {
            self.volume.layout.objects = objects;
            self.volume.places.resize(objects);
            self.resized = Some(Ok(self.volume.size_bytes()));
        }
    }

    /// The volume, or a server of it, is not ours any more.
    pub(super) fn abandon_resize(&mut self) {
        if self.resizing.as_ref().is_some_and(|resizing| !resizing.is_back) {
            self.go_back(ResizeRefusal::NotHeld);
        }
    }

    /// Gives all heads the size that the volume has.
    fn go_back(&mut self, why: ResizeRefusal) {
        self.resized = Some(Err(why));
        self.volume.wanted_objects = None;
        self.write_heads(self.volume.layout.objects, true);
    }

    /// A server has rested: its head is tried again, if it is to get the old size.
    pub(super) fn write_head_again(&mut self, index: usize) {
        let is_left = |resizing: &Resizing| resizing.left >> index & 1 == 1;
        self.scribes[index].is_head_due |= self.resizing.as_ref().is_some_and(is_left);
    }

    /// Whether heads are written, or are to be.
    pub(super) fn is_resizing(&self) -> bool {
        self.resizing.is_some()
    }

    /// What came of another size, once it is known: the size, in bytes, or why it has not changed.
    pub(crate) fn take_resized(&mut self) -> Option<Result<u64, ResizeRefusal>> {
        self.resized.take()
    }
}
